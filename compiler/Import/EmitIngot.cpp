// From a decoder's description and the tensors of its checkpoint to a module.
//
// Layers that would compute alike share a function, a kind: they agree in their
// window and in the stored type of each of their tensors. How many layers there
// are stands in the table of `ingot.layers` and in the cache's type only.
#include "compiler/Import/EmitIngot.h"
#include "compiler/Import/InputError.h"
#include "dialects/ingot/Ingot.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

using namespace llvm;
using namespace mlir;

namespace ingot {
namespace {

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Finds a decoder's tensors in a checkpoint and remembers which were taken.
class TensorClaims {
public:
  TensorClaims(const Checkpoint &checkpoint, Ledger &ledger)
      : checkpoint(checkpoint), ledger(ledger), claimed(checkpoint.tensors().size()) {}

  /// The tensor of that name, checked against the shape; `parameter` is where the ledger says it went.
  Expected<const TensorInfo *> claim(StringRef name, ArrayRef<int64_t> shape, const Twine &parameter) {
    const TensorInfo *tensor = checkpoint.find(name);
    if (!tensor)
      return inputError(anyFile(), "tensor " + quote(name) + " is missing; expected one of shape " + shapeText(shape));
    if (ArrayRef<int64_t>(tensor->shape) != shape)
      return inputError(tensor->file, "tensor " + stored(*tensor) + ": expected shape " + shapeText(shape) + ", got " +
                                          shapeText(tensor->shape));
    if (!isConvertible(tensor->dtype))
      return inputError(tensor->file, "tensor " + stored(*tensor) + ": elements of type " +
                                          elementKindName(tensor->dtype) +
                                          " are not weights; expected F64, F32, F16 or BF16");
    anyF64 |= tensor->dtype == ElementKind::F64;
    take(*tensor, parameter);
    return tensor;
  }

  void take(const TensorInfo &tensor, const Twine &parameter) {
    claimed[tensor.index] = true;
    ledger.addTensor(tensor.name, LedgerOutcome::Consumed, parameter);
  }

  const std::vector<bool> &all() const { return claimed; }
  /// A float64 tensor was taken: readers round it to float32.
  bool anyF64 = false;

private:
  /// The name as messages say it: the file's own too where it differs (GGUF).
  static std::string stored(const TensorInfo &tensor) {
    return tensor.storedName == tensor.name ? quote(tensor.name)
                                            : quote(tensor.name) + " (stored as " + quote(tensor.storedName) + ")";
  }
  StringRef anyFile() const {
    return checkpoint.tensors().empty() ? StringRef("checkpoint") : StringRef(checkpoint.tensors().front().file);
  }

  const Checkpoint &checkpoint;
  Ledger &ledger;
  std::vector<bool> claimed;
};

/// The cache's element type for a kind that --kv-dtype can name.
Type elementType(MLIRContext &context, ElementKind kind) {
  return kind == ElementKind::I8 ? IntegerType::get(&context, 8) : presentedType(context, kind, 1);
}

/// Whether two tensors of one shape hold equal values, reading a few rows at a time.
Expected<bool> equalTensors(const Checkpoint &checkpoint, const TensorInfo &a, const TensorInfo &b) {
  if (a.dtype == b.dtype && isPlainFloat(a.dtype)) {
    Expected<ArrayRef<char>> left = checkpoint.rawBytes(a), right = checkpoint.rawBytes(b);
    if (left && right)
      return *left == *right;
    // Stored in another order of rows: compare what is presented.
    consumeError(left.takeError());
    consumeError(right.takeError());
  }
  constexpr int64_t piece = 1 << 18;
  int64_t step = std::max<int64_t>(1, piece / std::max<int64_t>(1, a.rowSize()));
  std::vector<float> left, right;
  for (int64_t row = 0; row < a.rows(); row += step) {
    int64_t rows = std::min(step, a.rows() - row);
    left.resize(rows * a.rowSize());
    right.resize(left.size());
    if (Error error = checkpoint.readF32(a, row, rows, left))
      return error;
    if (Error error = checkpoint.readF32(b, row, rows, right))
      return error;
    if (std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) != 0)
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Kinds of layers
//===----------------------------------------------------------------------===//

/// A kind: what its layers have in common.
struct LayerKind {
  std::string name;
  std::optional<int64_t> window;
  /// In the order of layerSlots.
  std::vector<Type> types;
};

/// Consecutive layers of one kind.
struct LayerRun {
  size_t kind;
  int64_t first, count;
};

struct LayerTable {
  std::vector<LayerKind> kinds;
  std::vector<LayerRun> runs;
};

/// "layer" for a single kind; else what tells a kind from the others: its window, its matrices' type, a number.
void nameKinds(std::vector<LayerKind> &kinds, ArrayRef<TensorSlot> slots) {
  if (kinds.size() == 1) {
    kinds[0].name = "layer";
    return;
  }
  auto differ = [&](auto get) {
    return any_of(kinds, [&](const LayerKind &kind) { return get(kind) != get(kinds.front()); });
  };
  bool windows = differ([](const LayerKind &kind) { return kind.window.has_value(); });
  bool types = differ([](const LayerKind &kind) { return kind.types; });
  std::map<std::string, int> count;
  for (LayerKind &kind : kinds) {
    kind.name = "layer";
    if (windows)
      kind.name += kind.window ? "_window" : "_full";
    if (types) {
      Type first;
      bool mixed = false;
      for (auto [slot, type] : zip_equal(slots, kind.types))
        if (slot.kind == TensorKind::Matrix) {
          mixed |= first && first != type;
          first = type;
        }
      std::string text;
      if (auto quantized = dyn_cast<QuantizedType>(first))
        text = stringifyQuantization(quantized.getKind());
      else
        raw_string_ostream(text) << first;
      kind.name += mixed ? "_mixed" : "_" + text;
    }
    if (int number = ++count[kind.name]; number > 1)
      kind.name += "_" + std::to_string(number);
  }
}

/// Claims the tensors of every layer and groups the layers.
Expected<LayerTable> groupLayers(MLIRContext &context, const DecoderConfig &config, ArrayRef<TensorSlot> slots,
                                 TensorClaims &claims) {
  LayerTable table;
  std::vector<int64_t> sizes;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::vector<Type> types;
    for (const TensorSlot &slot : slots) {
      Expected<const TensorInfo *> tensor =
          claims.claim(layerName(slot.source, layer), slot.shape, slot.parameter + " of layer " + Twine(layer));
      if (!tensor)
        return tensor.takeError();
      types.push_back(presentedType(context, (*tensor)->dtype, (*tensor)->shape.size()));
    }
    const std::optional<int64_t> &window = config.windows[layer];
    auto *known = find_if(table.kinds, [&](const LayerKind &kind) {
                    return kind.window == window && kind.types == types;
                  }).base();
    size_t kind = known - table.kinds.data();
    if (kind == table.kinds.size()) {
      table.kinds.push_back({"", window, std::move(types)});
      sizes.push_back(0);
    }
    if (table.runs.empty() || table.runs.back().kind != kind)
      table.runs.push_back({kind, sizes[kind], 0});
    ++table.runs.back().count;
    ++sizes[kind];
  }
  nameKinds(table.kinds, slots);
  return table;
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

/// Builds the module's ops. Locations are the tensor's name or the key that an op came from.
class Emitter {
public:
  Emitter(MLIRContext &context, const DecoderConfig &config, Type cacheElement)
      : context(context), config(config), builder(&context), f32(builder.getF32Type()),
        cacheType(KVCacheType::get(&context, config.layers, config.kvHeads, config.headDim, cacheElement)),
        batchType(BatchType::get(&context)) {}

  OwningOpRef<ModuleOp> emit(const LayerTable &table, ArrayRef<TensorSlot> inner, ArrayRef<TensorSlot> outer,
                             ArrayRef<Type> outerTypes, const EmitOptions &options);

private:
  Location at(StringRef name) { return NameLoc::get(builder.getStringAttr(name)); }
  RankedTensorType rows(int64_t features) { return RankedTensorType::get({ShapedType::kDynamic, features}, f32); }
  FloatAttr f32Attr(float value) { return FloatAttr::get(f32, APFloat(value)); }
  RankedTensorType typeOf(const TensorSlot &slot, Type element) { return RankedTensorType::get(slot.shape, element); }

  void rotary();
  void parameter(const TensorSlot &slot, Type element, const LayerKind *kind);
  void layer(const LayerKind &kind, ArrayRef<TensorSlot> slots);
  void forward(const LayerTable &table, ArrayRef<TensorSlot> slots, ArrayRef<Type> types);

  // In the function of a layer.
  const TensorSlot &slot(StringRef parameter) const { return *current.at(parameter.str()).first; }
  bool has(StringRef parameter) const { return current.count(parameter.str()) != 0; }
  Value weight(StringRef parameter);
  Value norm(Value input, StringRef parameter);
  Value linear(Value input, StringRef parameter, bool rowParallel = false);

  MLIRContext &context;
  const DecoderConfig &config;
  OpBuilder builder;
  Type f32;
  KVCacheType cacheType;
  BatchType batchType;
  /// The tensors of the function being written, by parameter, and its kind (null: outside the layers).
  std::map<std::string, std::pair<const TensorSlot *, Type>> current;
  const LayerKind *currentKind = nullptr;
  Value index;
};

void Emitter::rotary() {
  const RopeSpec &rope = config.rope;
  DenseF32ArrayAttr longFrequencies;
  IntegerAttr longFrom;
  if (!rope.longFrequencies.empty()) {
    longFrequencies = builder.getDenseF32ArrayAttr(rope.longFrequencies);
    longFrom = builder.getI64IntegerAttr(rope.longFrom);
  }
  RotaryStyle style = rope.pairs == RopePairs::Half ? RotaryStyle::Half : RotaryStyle::Interleaved;
  RotaryOp::create(builder, at(rope.source), "rotary", style, rope.frequencies, APFloat(rope.scaling), longFrequencies,
                   longFrom);
}

void Emitter::parameter(const TensorSlot &slot, Type element, const LayerKind *kind) {
  std::string name = (kind ? kind->name + "." : "") + slot.parameter;
  FlatSymbolRefAttr kindRef = kind ? FlatSymbolRefAttr::get(&context, kind->name) : nullptr;
  ParameterOp::create(builder, at(slot.source), name, builder.getStringAttr(slot.source), kindRef, slot.part,
                      typeOf(slot, element));
}

Value Emitter::weight(StringRef parameter) {
  auto [slot, element] = current.at(parameter.str());
  std::string name = (currentKind ? currentKind->name + "." : "") + slot->parameter;
  return WeightOp::create(builder, at(slot->source), typeOf(*slot, element), name, currentKind ? index : Value());
}

Value Emitter::norm(Value input, StringRef parameter) {
  return RMSNormOp::create(builder, at(slot(parameter).source), input, weight(parameter), f32Attr(config.eps));
}

Value Emitter::linear(Value input, StringRef parameter, bool rowParallel) {
  std::string bias = (parameter + "_bias").str();
  SmallVector<Value, 1> biases;
  Value matrix = weight(parameter);
  if (has(bias))
    biases.push_back(weight(bias));
  return LinearOp::create(builder, at(slot(parameter).source), rows(slot(parameter).shape[0]), input, matrix, biases,
                          /*residual=*/Value(), /*gated=*/ActivationAttr(), rowParallel, /*compute=*/ComputeAttr());
}

void Emitter::layer(const LayerKind &kind, ArrayRef<TensorSlot> slots) {
  current.clear();
  for (auto [slot, type] : zip_equal(slots, kind.types))
    current[slot.parameter] = {&slot, type};
  currentKind = &kind;
  RankedTensorType hidden = rows(config.hidden);
  Type indexType = builder.getIndexType();
  Location location = at("num_hidden_layers");
  auto function =
      func::FuncOp::create(builder, location, kind.name,
                           builder.getFunctionType({hidden, batchType, cacheType, indexType, indexType}, {hidden}));
  function.setPrivate();
  OpBuilder::InsertionGuard guard(builder);
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  Value h = body->getArgument(0), batch = body->getArgument(1), cache = body->getArgument(2);
  index = body->getArgument(3);
  Value number = body->getArgument(4);

  Value x = norm(h, "input_layernorm");
  Value q = linear(x, "q_proj"), k = linear(x, "k_proj"), v = linear(x, "v_proj");
  if (config.qkNorm) {
    q = norm(q, "q_norm");
    k = norm(k, "k_norm");
  }
  Location rope = at(config.rope.source);
  q = RopeOp::create(builder, rope, q, batch, "rotary");
  k = RopeOp::create(builder, rope, k, batch, "rotary");
  KVAppendOp::create(builder, at("num_key_value_heads"), k, v, batch, cache, number);
  // head_dim^-0.5, in float64 as Python computes it, then rounded.
  auto scale = static_cast<float>(std::pow(static_cast<double>(config.headDim), -0.5));
  Value attended =
      AttentionOp::create(builder, at(kind.window ? "sliding_window" : "num_attention_heads"), q, batch, cache, number,
                          f32Attr(scale), kind.window ? builder.getI64IntegerAttr(*kind.window) : IntegerAttr());
  Value o = linear(attended, "o_proj", /*rowParallel=*/true);
  h = AddOp::create(builder, at(slot("o_proj").source), h, o);

  Value y = norm(h, "post_attention_layernorm");
  Value gate = linear(y, "gate_proj"), up = linear(y, "up_proj");
  Value active = SiLUOp::create(builder, at("hidden_act"), gate);
  Value product = MulOp::create(builder, at("hidden_act"), active, up);
  Value down = linear(product, "down_proj", /*rowParallel=*/true);
  h = AddOp::create(builder, at(slot("down_proj").source), h, down);
  func::ReturnOp::create(builder, location, h);
}

void Emitter::forward(const LayerTable &table, ArrayRef<TensorSlot> slots, ArrayRef<Type> types) {
  current.clear();
  for (auto [slot, type] : zip_equal(slots, types))
    current[slot.parameter] = {&slot, type};
  currentKind = nullptr;
  Location location = at("vocab_size");
  auto function = func::FuncOp::create(builder, location, forwardName,
                                       builder.getFunctionType({batchType, cacheType}, {rows(config.vocab)}));
  OpBuilder::InsertionGuard guard(builder);
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  Value batch = body->getArgument(0), cache = body->getArgument(1);

  Value embedding = weight("embed_tokens");
  Value h = EmbeddingOp::create(builder, at(slot("embed_tokens").source), rows(config.hidden), batch, embedding);
  SmallVector<Attribute> runs;
  for (const LayerRun &run : table.runs)
    runs.push_back(
        RunAttr::get(&context, FlatSymbolRefAttr::get(&context, table.kinds[run.kind].name), run.first, run.count));
  h = LayersOp::create(builder, at("num_hidden_layers"), h, batch, cache, builder.getArrayAttr(runs));
  StringRef output = config.tied ? "embed_tokens" : "lm_head";
  h = SelectRowsOp::create(builder, at(slot(output).source), h, batch);
  h = norm(h, "norm");
  Value head = config.tied ? embedding : weight(output);
  Value logits = LinearOp::create(builder, at(slot(output).source), rows(config.vocab), h, head, ValueRange(), Value(),
                                  ActivationAttr(), false, ComputeAttr());
  func::ReturnOp::create(builder, location, logits);
}

OwningOpRef<ModuleOp> Emitter::emit(const LayerTable &table, ArrayRef<TensorSlot> inner, ArrayRef<TensorSlot> outer,
                                    ArrayRef<Type> outerTypes, const EmitOptions &options) {
  StringRef name = options.name.empty() ? StringRef(config.architecture) : StringRef(options.name);
  OwningOpRef<ModuleOp> module = ModuleOp::create(at("model_type"), name);
  builder.setInsertionPointToEnd(module->getBody());
  int64_t maxContext = options.maxContext ? options.maxContext : config.maxPosition;
  (*module)->setAttr(modelAttrName,
                     ModelAttr::get(&context, builder.getStringAttr(name), builder.getStringAttr(config.architecture),
                                    config.vocab, config.hidden, config.intermediate, config.heads, maxContext,
                                    options.maxBatch, options.maxStepTokens));
  rotary();
  parameter(outer[0], outerTypes[0], nullptr);
  for (const LayerKind &kind : table.kinds)
    for (auto [slot, type] : zip_equal(inner, kind.types))
      parameter(slot, type, &kind);
  for (auto [slot, type] : drop_begin(zip_equal(outer, outerTypes)))
    parameter(slot, type, nullptr);
  for (const LayerKind &kind : table.kinds)
    layer(kind, inner);
  forward(table, outer, outerTypes);
  return module;
}

/// Tied though lm_head is stored: equal, it is tied; different, the stored one counts, as in the reference.
Error resolveTied(DecoderConfig &config, const Checkpoint &checkpoint, TensorClaims &claims,
                  std::vector<std::string> &warnings) {
  if (!config.tied)
    return Error::success();
  std::string headName = (config.names.lmHead + ".weight").str();
  const TensorInfo *head = checkpoint.find(headName);
  const TensorInfo *embedding = checkpoint.find((config.names.embedding + ".weight").str());
  if (!head || !embedding)
    return Error::success();
  bool comparable = isConvertible(head->dtype) && isConvertible(embedding->dtype) && head->shape == embedding->shape;
  if (comparable) {
    Expected<bool> equal = equalTensors(checkpoint, *head, *embedding);
    if (!equal)
      return equal.takeError();
    if (*equal) {
      claims.take(*head, "equal to " + embedding->name + ", to which it is tied");
      return Error::success();
    }
  }
  config.tied = false;
  warnings.push_back(head->file + ": tie_word_embeddings is true, but tensor " + quote(headName) +
                     " is stored and differs from " + quote(embedding->name) + "; the stored one is used");
  return Error::success();
}

/// The cache's element type: what was asked for, else f32 where all weights will be stored f32, else f16.
Type resolveCacheType(MLIRContext &context, const EmitOptions &options, const LayerTable &table,
                      ArrayRef<Type> outerTypes) {
  if (options.kvDtype)
    return elementType(context, *options.kvDtype);
  bool allF32 = options.dtype == ElementKind::F32;
  if (!options.dtype && !options.quantize)
    allF32 = all_of(outerTypes, [](Type type) { return type.isF32(); }) &&
             all_of(table.kinds,
                    [](const LayerKind &kind) { return all_of(kind.types, [](Type type) { return type.isF32(); }); });
  return elementType(context, allF32 ? ElementKind::F32 : ElementKind::F16);
}

/// A tensor that checkpoints hold though nothing needs it.
struct WaiveRule {
  StringLiteral suffix, reason;
};

constexpr WaiveRule waiveRules[] = {
    {".rotary_emb.inv_freq", "frequencies come from the configuration"},
    {".rotary_emb.cos_cached", "frequencies come from the configuration"},
    {".rotary_emb.sin_cached", "frequencies come from the configuration"},
    {".self_attn.masked_bias", "a constant of masks, which are computed"},
    {".attn.masked_bias", "a constant of masks, which are computed"},
};

} // namespace

Type presentedType(MLIRContext &context, ElementKind kind, size_t rank) {
  if (kind == ElementKind::F16)
    return Float16Type::get(&context);
  if (kind == ElementKind::BF16)
    return BFloat16Type::get(&context);
  if (isStoredQuantized(kind) && rank > 1)
    if (std::optional<Quantization> format = symbolizeQuantization(elementKindName(kind).lower()))
      return QuantizedType::get(&context, *format);
  return Float32Type::get(&context);
}

Error settleUnusedTensors(const Checkpoint &checkpoint, const std::vector<bool> &claimed,
                          ArrayRef<std::string> ignoredTensors, Ledger &ledger, std::vector<std::string> &warnings) {
  std::vector<GlobPattern> globs;
  for (const std::string &text : ignoredTensors) {
    Expected<GlobPattern> glob = GlobPattern::create(text);
    if (!glob)
      return inputError("--ignore-tensor=" + text, toString(glob.takeError()));
    globs.push_back(std::move(*glob));
  }
  std::vector<bool> matched(globs.size());
  const TensorInfo *unused = nullptr;
  size_t unusedCount = 0;
  for (const TensorInfo &tensor : checkpoint.tensors()) {
    if (claimed[tensor.index])
      continue;
    const auto *rule =
        find_if(waiveRules, [&](const WaiveRule &r) { return StringRef(tensor.name).ends_with(r.suffix); });
    auto glob =
        find_if(globs, [&](const GlobPattern &g) { return g.match(tensor.name) || g.match(tensor.storedName); });
    if (glob != globs.end()) {
      matched[glob - globs.begin()] = true;
      ledger.addTensor(tensor.name, LedgerOutcome::IgnoredTensor, ignoredTensors[glob - globs.begin()]);
    } else if (rule != std::end(waiveRules)) {
      ledger.addTensor(tensor.name, LedgerOutcome::Waived, rule->reason);
    } else {
      unused = unused ? unused : &tensor;
      ++unusedCount;
    }
  }
  for (auto [text, hit] : zip_equal(ignoredTensors, matched))
    if (!hit)
      warnings.push_back("--ignore-tensor=" + text + " matches no unused tensor");
  if (!unused)
    return Error::success();
  std::string others = unusedCount > 1 ? " (and " + std::to_string(unusedCount - 1) + " more)" : "";
  return inputError(unused->file, "tensor " + quote(unused->storedName) + others +
                                      " is not used by this configuration; --ignore-tensor=GLOB compiles the model "
                                      "without it");
}

Expected<OwningOpRef<ModuleOp>> emitIngot(MLIRContext &context, DecoderConfig config, const Checkpoint &checkpoint,
                                          const EmitOptions &options, Ledger &ledger,
                                          std::vector<std::string> &warnings) {
  context.loadDialect<IngotDialect, func::FuncDialect>();
  TensorClaims claims(checkpoint, ledger);
  if (Error error = resolveTied(config, checkpoint, claims, warnings))
    return error;
  std::vector<TensorSlot> outer = modelSlots(config), inner = layerSlots(config);
  std::vector<Type> outerTypes;
  for (const TensorSlot &slot : outer) {
    Expected<const TensorInfo *> tensor = claims.claim(slot.source, slot.shape, slot.parameter);
    if (!tensor)
      return tensor.takeError();
    outerTypes.push_back(presentedType(context, (*tensor)->dtype, (*tensor)->shape.size()));
  }
  Expected<LayerTable> table = groupLayers(context, config, inner, claims);
  if (!table)
    return table.takeError();
  if (Error error = settleUnusedTensors(checkpoint, claims.all(), options.ignoredTensors, ledger, warnings))
    return error;
  if (claims.anyF64)
    warnings.push_back("weights of type F64 are rounded to F32, as the reference does");
  Type cacheElement = resolveCacheType(context, options, *table, outerTypes);
  OwningOpRef<ModuleOp> module = Emitter(context, config, cacheElement).emit(*table, inner, outer, outerTypes, options);
  if (failed(verify(*module)))
    return inputError("checkpoint", "the imported module does not verify, which is a fault of the compiler");
  return module;
}

} // namespace ingot
