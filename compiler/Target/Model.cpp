//===- Model.cpp - What the runtime is told of a model, read from its IR
//------------------------------------------===//

#include "compiler/Target/Model.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/FormatVariadic.h"
#define XXH_INLINE_ALL
#include <algorithm>
#include <xxhash.h>

using namespace mlir;
using namespace llvm;

namespace ingot {

static int64_t getInteger(DictionaryAttr row, StringRef key) {
  auto value = row.getAs<IntegerAttr>(key);
  return value ? value.getInt() : 0;
}

static uint32_t cacheDtype(Type type) {
  if (type.isInteger(8))
    return INGOT_RT_INT8;
  return type.isF32() ? INGOT_RT_F32 : type.isBF16() ? INGOT_RT_BF16 : INGOT_RT_F16;
}

/// The widest window of the module's attentions, 0 if one of them sees
/// everything.
static uint64_t widestWindow(ModuleOp module) {
  uint64_t widest = 0;
  bool unlimited = false;
  module.walk([&](AttentionOp op) {
    unlimited |= !op.getWindow();
    widest = std::max<uint64_t>(widest, op.getWindow().value_or(0));
  });
  return unlimited ? 0 : widest;
}

/// Appends where the rows of each checkpoint tensor under `value` go. `place`
/// says which layers of which parameter, and its row counts the rows of the
/// stored parameter, of a vector its elements.
static void collectSources(Value value, ingot_rt_random_source place, const RandomCheckpoint &random,
                           std::vector<RandomSourceRecord> &out) {
  Operation *op = value.getDefiningOp();
  auto type = cast<RankedTensorType>(value.getType());
  if (auto source = dyn_cast<SourceOp>(op)) {
    std::string name = instantiateSource(source.getName(), static_cast<int64_t>(place.first_layer));
    place.columns = type.getShape().back();
    place.rows = type.getRank() == 1 ? 1 : type.getDimSize(0);
    place.kind = random.kind(*random.find(name));
    out.push_back({source.getName().str(), place});
  } else if (auto concat = dyn_cast<ConcatOp>(op)) {
    for (Value input : concat.getInputs()) {
      collectSources(input, place, random, out);
      place.first_row += cast<RankedTensorType>(input.getType()).getDimSize(0);
    }
  } else if (auto stack = dyn_cast<StackOp>(op)) {
    for (Value input : stack.getInputs()) {
      collectSources(input, place, random, out);
      // Vectors are rows of one matrix, matrices the two of a pair.
      ++(cast<RankedTensorType>(input.getType()).getRank() == 1 ? place.first_row : place.which);
    }
  } else if (isa<ConvertOp, QuantizeOp>(op)) {
    collectSources(op->getOperand(0), place, random, out);
  } else {
    collectSources(cast<PackOp>(op).getInput(), place, random, out);
  }
}

static LogicalResult addRandomSources(ArrayRef<PackedParameter> parameters, const RandomCheckpoint &random,
                                      ModelRecord &record) {
  record.fields.random = 1;
  record.fields.random_seed = random.seed();
  for (auto [number, parameter] : enumerate(parameters))
    for (size_t first = 0; first < parameter.layers.size();) {
      // As many layers as are equally far apart: all of a model whose layers
      // are of one kind.
      ArrayRef<int64_t> layers = ArrayRef(parameter.layers).drop_front(first);
      size_t count = 1;
      int64_t step = layers.size() > 1 ? layers[1] - layers[0] : 1;
      while (count < layers.size() && layers[count] - layers[count - 1] == step)
        ++count;
      ingot_rt_random_source place = {};
      place.parameter = static_cast<uint32_t>(number);
      place.first_index = first;
      place.count = count;
      place.first_layer = static_cast<uint64_t>(std::max<int64_t>(layers[0], 0));
      place.layer_step = static_cast<uint64_t>(step);
      collectSources(ParameterOp(parameter.layout.op).getYielded(), place, random, record.randomSources);
      first += count;
    }
  return success();
}

FailureOr<ModelRecord> describeModel(ModuleOp packed, ArrayRef<PackedParameter> parameters,
                                     const RandomCheckpoint *random) {
  auto model = packed->getAttrOfType<ModelAttr>(modelAttrName);
  auto forward = packed.lookupSymbol<func::FuncOp>(forwardName);
  if (!model || !forward || forward.getNumArguments() != 2)
    return packed.emitError("expected a module with the attribute '") << modelAttrName << "' and a function @forward";
  auto cache = dyn_cast<KVCacheType>(forward.getArgument(1).getType());
  if (!cache)
    return forward.emitOpError("expected a kv_cache as second argument");

  ModelRecord record;
  record.name = model.getName().str();
  record.architecture = model.getArchitecture().str();
  ingot_rt_model &fields = record.fields;
  fields.vocab = model.getVocab();
  fields.hidden = model.getHidden();
  fields.intermediate = model.getIntermediate();
  fields.layers = cache.getLayers();
  fields.heads = model.getHeads();
  fields.kv_heads = cache.getKvHeads();
  fields.head_dim = cache.getHeadDim();
  fields.max_context = model.getMaxContext();
  fields.max_batch = model.getMaxBatch();
  fields.max_step_tokens = model.getMaxStepTokens();
  for (auto rotary : packed.getOps<RotaryOp>())
    fields.rope_long_from = rotary.getLongFrom().value_or(0);

  ingot_rt_cache_group group = {};
  group.dtype = cacheDtype(cache.getElementType());
  group.layers = cache.getLayers();
  group.kv_heads = cache.getKvHeads();
  group.head_dim = cache.getHeadDim();
  group.window = widestWindow(packed);
  group.block_bytes = ingot_rt_cache_block_bytes(group.layers, group.kv_heads, group.head_dim, group.dtype);
  record.cacheGroups.push_back(group);
  std::string identity = formatv("{0}|{1}|{2}x{3}x{4}|{5}|{6}", record.name, record.architecture, group.layers,
                                 group.kv_heads, group.head_dim, group.dtype, fields.hidden);
  fields.cache_id = XXH3_64bits(identity.data(), identity.size());

  for (const PackedParameter &parameter : parameters) {
    const ParameterLayout &layout = parameter.layout;
    ParameterOp op = layout.op;
    ingot_rt_parameter row = {};
    row.dtype = layout.dtype;
    row.layout = layout.layout;
    row.rows = layout.rows;
    row.columns = layout.columns;
    row.segments = layout.segments;
    row.count = layout.count;
    row.layer_stride = layout.layerStride;
    row.offset = layout.offset;
    row.parameters = layout.parameters;
    record.parameters.push_back({op.getSymName().str(), op.getPart().str(), row});
    fields.weights_bytes = std::max<uint64_t>(fields.weights_bytes, layout.offset + layout.count * layout.layerStride);
  }
  if (random && failed(addRandomSources(parameters, *random, record)))
    return failure();
  return record;
}

LogicalResult addCompiledModel(ModuleOp module, ModelRecord &record) {
  auto ops = module->getAttrOfType<ArrayAttr>(opsAttrName);
  auto arena = module->getAttrOfType<DictionaryAttr>(arenaAttrName);
  if (!ops || !arena)
    return module.emitError("expected the attributes '") << opsAttrName << "' and '" << arenaAttrName << "'";
  for (auto row : ops.getAsRange<DictionaryAttr>()) {
    ingot_rt_op fields = {};
    fields.bytes = getInteger(row, "bytes");
    fields.flops_per_token = getInteger(row, "flops_per_token");
    fields.flops_per_row = getInteger(row, "flops_per_row");
    fields.flops_per_context = getInteger(row, "flops_per_context");
    fields.columns = static_cast<uint32_t>(getInteger(row, "columns"));
    fields.in_layer = static_cast<uint32_t>(getInteger(row, "in_layer"));
    record.ops.push_back({row.getAs<StringAttr>("name").str(), row.getAs<StringAttr>("kind").str(), fields});
  }
  record.fields.arena = {
      static_cast<uint64_t>(getInteger(arena, "base")), static_cast<uint64_t>(getInteger(arena, "per_token")),
      static_cast<uint64_t>(getInteger(arena, "per_row")), static_cast<uint64_t>(getInteger(arena, "per_worker"))};
  return success();
}

std::string getStepSymbol(StringRef variant) {
  std::string name = ("ingot_step_" + variant).str();
  for (char &c : name)
    if (c == '-' || c == '.')
      c = '_';
  return name;
}

} // namespace ingot
