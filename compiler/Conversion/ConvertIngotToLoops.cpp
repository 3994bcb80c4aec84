//===- ConvertIngotToLoops.cpp - Packed ingot ops to structured loops on the
// arena --------------------------------===//
//
// One nested module per CPU variant. An op becomes a call of a function of
// compiler/Codegen/CPU on views of the arena, the weights and the cache;
// barriers stand where workers' accesses would meet.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/Attention.h"
#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/VectorMath.h"
#include "compiler/Conversion/ModelLayout.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Conversion/StepArguments.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"
#include <limits>

namespace ingot {
#define GEN_PASS_DEF_CONVERTINGOTTOLOOPSPASS
#include "compiler/Conversion/Passes.h.inc"
} // namespace ingot

using namespace mlir;
using namespace ingot;
using namespace ingot::cpu;

namespace {

/// The arguments of `step` and of the functions of kinds, as values of one
/// function.
struct StepContext {
  llvm::StringMap<Value> values;
  Ix worker, workers;

  Value operator[](StringRef name) const {
    assert(values.contains(name) && "no such argument of a step");
    return values.lookup(name);
  }
};

/// Where an activation lies: one row for each token or selected row.
struct Place {
  bool perRow = false;
  /// Bytes per token or row before it, bytes of a row, floats of a row before
  /// the first feature.
  int64_t offset = 0, rowBytes = 0, column = 0;
  /// The logits go to the caller's memory.
  bool logits = false;
};

/// Something that ops read and write; ranges of bytes per token (or row) of the
/// arena, or a whole.
struct Access {
  enum Kind { Tokens, SelectedRows, Cache, Logits } kind;
  int64_t begin = 0, end = std::numeric_limits<int64_t>::max();

  bool meets(const Access &other) const { return kind == other.kind && begin < other.end && other.begin < end; }
};

/// What stays the same for all variants.
struct ModelPlan {
  ModuleOp module;
  ParameterTable parameters;
  StepOpTable ops;
  /// Bytes; `perWorker` is known once a variant's kernels are.
  int64_t base = 0, perToken = 0, perRow = 0, perWorker = 0;
  /// Bytes per token before each rotary's table.
  llvm::MapVector<StringAttr, int64_t> rotaryTables;
  KVCacheType cache;
  int64_t largestK = 1, maxContext = 1;
  bool naive = false;
};

/// Emits one variant's functions.
class VariantEmitter {
public:
  VariantEmitter(const ModelPlan &plan, ModuleOp module, VectorUnit unit)
      : plan(plan), module(module), kernels(module, unit, plan.largestK, plan.maxContext),
        attention(plan.naive ? createNaiveAttention() : createTiledAttention()) {}

  /// Reserves scratch memory for every op; returns the bytes that a worker
  /// needs.
  int64_t reserve();
  /// Emits `step` and the functions of kinds.
  LogicalResult emit();

private:
  friend class FunctionEmitter;
  const ModelPlan &plan;
  ModuleOp module;
  Kernels kernels;
  std::unique_ptr<AttentionEmitter> attention;
};

/// Emits the body of one function of the model.
class FunctionEmitter {
public:
  FunctionEmitter(VariantEmitter &variant, func::FuncOp source, bool isForward)
      : variant(variant), plan(variant.plan), kernels(variant.kernels), source(source), isForward(isForward),
        e(source.getLoc(), source.getContext()) {}

  LogicalResult emit();

private:
  void declare();
  void emitRotaryTables();
  Value frequencies(StringRef name, ArrayRef<float> values);
  LogicalResult emitOp(Operation *op);
  LogicalResult emitLinear(LinearOp op);
  void emitEmbedding(EmbeddingOp op);
  void emitNorm(Operation *op, Value input, Value residual, Value weight, float eps);
  void emitLayers(LayersOp op);
  void emitFusedAppend(QKNormRopeAppendOp op);
  void elementwise(Operation *op, ValueRange inputs, StringRef name,
                   function_ref<Value(Emitter &, ArrayRef<Value>)> compute);
  /// Places of `op`'s activations, and the barrier it needs.
  void place(Operation *op);
  void access(Operation *op);
  void barrier();
  void callHook(Operation *op);

  static int64_t features(Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(1); }
  Rows rows(Value activation);
  Ix count(const Place &where) { return e.ix(context[where.perRow ? "row_count" : "token_count"]); }
  Ix count(Value activation) { return count(places.at(activation)); }
  Value weight(Value value);
  Rotary rotary(StringRef name);
  cpu::Cache cache(Value layerNumber);
  Batch batch();
  Worker worker();
  Ix index(Value value) { return e.ix(indices.lookup(value)); }

  VariantEmitter &variant;
  const ModelPlan &plan;
  Kernels &kernels;
  func::FuncOp source;
  bool isForward;
  Emitter e;
  StepContext context;
  /// The layer's number as the hook wants it; null outside layers.
  Value layerNumber;
  llvm::DenseMap<Value, Value> indices;
  std::map<Value, Place, bool (*)(Value, Value)> places{
      [](Value a, Value b) { return a.getAsOpaquePointer() < b.getAsOpaquePointer(); }};
  SmallVector<Access> reads, writes;
};
} // namespace

static int64_t roundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

//===--------------------------------------------------------------------------------------------------------------===//
// Functions and their arguments
//===--------------------------------------------------------------------------------------------------------------===//

static Type typeOf(Emitter &e, StepArgumentKind kind) {
  switch (kind) {
  case StepArgumentKind::Bytes:
    return e.bytes();
  case StepArgumentKind::Ints:
    return e.ints();
  case StepArgumentKind::Longs:
    return e.memref(e.getI64Type());
  case StepArgumentKind::Floats:
    return e.floats();
  case StepArgumentKind::Index:
    return e.getIndexType();
  case StepArgumentKind::Int:
    return e.getI32Type();
  case StepArgumentKind::Pointer:
    return LLVM::LLVMPointerType::get(e.getContext());
  }
  llvm_unreachable("an argument is of one of these kinds");
}

void FunctionEmitter::declare() {
  SmallVector<Type> types;
  for (const StepArgument &argument : stepArguments)
    types.push_back(typeOf(e, argument.kind));
  types.append(isForward ? 2 : 4, e.getIndexType());
  e.setInsertionPointToEnd(variant.module.getBody());
  auto function =
      func::FuncOp::create(e, isForward ? StringRef(stepName) : source.getSymName(), e.getFunctionType(types, {}));
  if (!isForward)
    function.setPrivate();
  Block *entry = function.addEntryBlock();
  e.setInsertionPointToStart(entry);
  size_t next = 0;
  for (const StepArgument &argument : stepArguments)
    context.values[argument.name] = entry->getArgument(next++);
  context.worker = e.ix(entry->getArgument(next++));
  context.workers = e.ix(entry->getArgument(next++));
  if (!isForward) {
    indices[source.getArgument(3)] = entry->getArgument(next++);
    layerNumber = indices[source.getArgument(4)] = entry->getArgument(next++);
  }
}

Batch FunctionEmitter::batch() {
  Batch result;
  result.tokens = context["tokens"];
  result.positions = context["positions"];
  result.sequences = context["sequences"];
  result.slots = context["slots"];
  result.queryStarts = context["query_starts"];
  result.lengths = context["lengths"];
  result.regimes = context["regimes"];
  result.blockTables = context["block_tables"];
  result.rows = context["rows"];
  result.tokenCount = e.ix(context["token_count"]);
  result.sequenceCount = e.ix(context["sequence_count"]);
  result.rowCount = e.ix(context["row_count"]);
  result.blockTableStride = e.ix(context["block_table_stride"]);
  return result;
}

Worker FunctionEmitter::worker() {
  Worker result;
  result.id = context.worker;
  result.count = context.workers;
  // After everything that belongs to tokens and rows.
  Ix start = e.ix(context["token_count"]) * plan.perToken + e.ix(context["row_count"]) * plan.perRow + plan.base;
  Ix floats = e.c(plan.perWorker / 4);
  result.scratch = e.view(context["arena"], start + context.worker * plan.perWorker, e.getF32Type(), floats);
  result.shared = e.view(context["arena"], start, e.getF32Type(), floats * context.workers);
  result.sharedStride = e.c(plan.perWorker / 4);
  result.barrier = context["barrier"];
  return result;
}

Rows FunctionEmitter::rows(Value activation) {
  const Place &where = places.at(activation);
  if (where.logits)
    return {context["logits"], e.ix(context["logits_stride"])};
  Ix start = e.ix(context["token_count"]) * (where.perRow ? plan.perToken : where.offset);
  if (where.perRow)
    start = start + e.ix(context["row_count"]) * where.offset;
  start = start + (plan.base + where.column * 4);
  Ix stride = e.c(where.rowBytes / 4);
  return {e.view(context["arena"], start, e.getF32Type(), count(where) * stride - where.column), stride};
}

/// A view of the parameter that an `ingot.weight` reads.
Value FunctionEmitter::weight(Value value) {
  auto op = value.getDefiningOp<WeightOp>();
  const ParameterLayout *layout = plan.parameters.find(op.getParameter());
  Ix offset = e.c(layout->offset);
  if (op.getIndex())
    offset = index(op.getIndex()) * layout->layerStride + layout->offset;
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  Ix count = e.c(layout->layerStride / ingot_rt_dtype_size(layout->dtype));
  return e.view(context["weights"], offset, element, count);
}

Rotary FunctionEmitter::rotary(StringRef name) {
  auto op = SymbolTable::lookupNearestSymbolFrom<RotaryOp>(source, StringAttr::get(e.getContext(), name));
  Rotary result;
  result.headDim = op.getHeadDim();
  result.interleaved = op.getStyle() == RotaryStyle::Interleaved;
  int64_t offset = plan.rotaryTables.lookup(op.getSymNameAttr());
  Ix tokens = e.ix(context["token_count"]), count = tokens * (2 * Rotary::halfPadded(result.headDim));
  result.table = e.view(context["arena"], tokens * offset + plan.base, e.getF32Type(), count);
  return result;
}

cpu::Cache FunctionEmitter::cache(Value layer) {
  cpu::Cache result;
  result.element = plan.cache.getElementType();
  result.layers = plan.cache.getLayers();
  result.kvHeads = plan.cache.getKvHeads();
  result.headDim = plan.cache.getHeadDim();
  result.layer = index(layer);
  Ix count = e.ix(context["cache_blocks"]) * result.blockElements();
  result.memory = e.view(context["cache"], e.c(0), result.element, count);
  return result;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Places and barriers
//===--------------------------------------------------------------------------------------------------------------===//

static bool isActivation(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 2 && type.isDynamicDim(0);
}

void FunctionEmitter::place(Operation *op) {
  if (auto split = dyn_cast<SplitOp>(op)) {
    Place part = places.at(split.getInput());
    for (Value result : split.getParts()) {
      places[result] = part;
      part.column += features(result);
    }
    return;
  }
  auto offsets = op->getAttrOfType<DenseI64ArrayAttr>(arenaAttrName);
  size_t next = 0;
  for (Value result : op->getResults()) {
    if (!isActivation(result))
      continue;
    Place where;
    where.perRow = isPerRow(result);
    where.rowBytes = roundUp(features(result), lanes) * 4;
    where.logits = isStepResult(result);
    if (!where.logits && offsets && next < static_cast<size_t>(offsets.size()))
      where.offset = offsets[next];
    ++next;
    places[result] = where;
  }
}

/// A barrier before `op` if one worker's accesses could meet another's since
/// the last one.
void FunctionEmitter::access(Operation *op) {
  SmallVector<Access> opReads, opWrites;
  auto accessOf = [&](Value value) {
    const Place &where = places.at(value);
    if (where.logits)
      return Access{Access::Logits};
    return Access{where.perRow ? Access::SelectedRows : Access::Tokens, where.offset, where.offset + where.rowBytes};
  };
  for (Value operand : op->getOperands())
    if (isActivation(operand))
      opReads.push_back(accessOf(operand));
  for (Value result : op->getResults())
    if (isActivation(result))
      opWrites.push_back(accessOf(result));
  auto readTable = [&](StringRef name) {
    int64_t offset = plan.rotaryTables.lookup(StringAttr::get(e.getContext(), name));
    opReads.push_back({Access::Tokens, offset, offset + 1});
  };
  if (auto rope = dyn_cast<RopeOp>(op))
    readTable(rope.getRotary());
  if (auto fused = dyn_cast<QKNormRopeAppendOp>(op))
    readTable(fused.getRotary());
  if (isa<KVAppendOp, QKNormRopeAppendOp>(op))
    opWrites.push_back({Access::Cache});
  if (isa<AttentionOp>(op))
    opReads.push_back({Access::Cache});
  auto meet = [](ArrayRef<Access> as, ArrayRef<Access> bs) {
    return llvm::any_of(as,
                        [&](const Access &a) { return llvm::any_of(bs, [&](const Access &b) { return a.meets(b); }); });
  };
  if (meet(opReads, writes) || meet(opWrites, writes) || meet(opWrites, reads))
    barrier();
  reads.append(opReads);
  writes.append(opWrites);
}

void FunctionEmitter::barrier() {
  kernels.barrier(e, context["barrier"], context.worker);
  reads.clear();
  writes.clear();
}

/// After an op with a number: the hook, if there is one, while all workers
/// wait.
void FunctionEmitter::callHook(Operation *op) {
  auto number = plan.ops.numbers.find(op);
  if (number == plan.ops.numbers.end())
    return;
  auto pointer = LLVM::LLVMPointerType::get(e.getContext());
  Value data = LLVM::ZeroOp::create(e, pointer);
  Ix rowCount = e.c(0), columns = e.c(0), stride = e.c(0);
  if (op->getNumResults()) {
    Value result = op->getResults().back();
    Rows where = rows(result);
    Value address = memref::ExtractAlignedPointerAsIndexOp::create(e, where.memory);
    address = arith::IndexCastOp::create(e, e.getI64Type(), address);
    data = LLVM::IntToPtrOp::create(e, pointer, address);
    rowCount = count(result);
    columns = e.c(features(result));
    stride = where.stride;
  }
  Value layer = layerNumber ? e.toI32(e.ix(layerNumber)) : e.i32(-1);
  auto i64 = [](Emitter &emitter, Value value) -> Value {
    return arith::IndexCastOp::create(emitter, emitter.getI64Type(), value);
  };
  SmallVector<Value> arguments = {context["hook"],
                                  context["hook_context"],
                                  context["barrier"],
                                  context.worker,
                                  e.i32(number->second),
                                  layer,
                                  data,
                                  rowCount,
                                  columns,
                                  stride};
  kernels.call(e, "call_hook", arguments, [&](Emitter &f, ValueRange a) {
    Value null = LLVM::ZeroOp::create(f, pointer);
    Value there = LLVM::ICmpOp::create(f, LLVM::ICmpPredicate::ne, a[0], null);
    f.when(there, [&] {
      kernels.barrier(f, a[2], f.ix(a[3]));
      SmallVector<Value> passed = {a[1], f.toI32(f.ix(a[3])), a[4],         a[5],
                                   a[6], i64(f, a[7]),        i64(f, a[8]), i64(f, a[9])};
      SmallVector<Type> types(ValueRange(passed).getTypes());
      auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(f.getContext()), types);
      SmallVector<Value> operands = {a[0]};
      operands.append(passed);
      LLVM::CallOp::create(f, type, operands);
      kernels.barrier(f, a[2], f.ix(a[3]));
    });
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Ops
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult FunctionEmitter::emitLinear(LinearOp op) {
  if (op.getWeights().size() != 1)
    return op.emitOpError("expected one packed weight, got ") << op.getWeights().size();
  auto type = cast<RankedTensorType>(op.getWeights()[0].getType());
  auto packed = dyn_cast_or_null<PackedAttr>(type.getEncoding());
  bool pairs = packed && packed.getLayout() == Layout::PanelPairs;
  if (!packed || packed.getLayout() == Layout::Rows || pairs != op.getGated().has_value())
    return op.emitOpError("expected a weight in ") << (op.getGated() ? "panel_pairs" : "panels") << ", got " << type;
  if (packed.getSegments() != 1 && packed.getSegments() != INGOT_RT_K_SEGMENTS)
    return op.emitOpError("expected 1 or ") << INGOT_RT_K_SEGMENTS << " segments, got " << packed.getSegments();
  LinearShape shape;
  shape.element = type.getElementType();
  shape.segmented = packed.getSegments() != 1;
  shape.gated = pairs;
  shape.oddK = shape.element.isBF16() && type.getShape().back() % 2 != 0;
  LinearOperands operands;
  operands.input = rows(op.getInput());
  operands.weights = weight(op.getWeights()[0]);
  if (!op.getBiases().empty())
    operands.bias = weight(op.getBiases()[0]);
  if (op.getResidual())
    operands.residual = rows(op.getResidual());
  operands.n = e.c(features(op.getResult()));
  operands.k = e.c(features(op.getInput()));
  operands.rows = count(op.getInput());
  operands.result = rows(op.getResult());
  if (!places.at(op.getResult()).logits) {
    kernels.linear(e, shape, operands, worker());
    return success();
  }
  operands.argmax = context["argmax"];
  operands.argmaxValue = context["argmax_value"];
  Value largestOnly = arith::CmpIOp::create(e, arith::CmpIPredicate::eq, context["output"], e.i32(INGOT_RT_ARGMAX));
  LinearShape argmax = shape;
  argmax.argmax = true;
  e.when(
      largestOnly, [&] { kernels.linear(e, argmax, operands, worker()); },
      [&] { kernels.linear(e, shape, operands, worker()); });
  return success();
}

void FunctionEmitter::emitEmbedding(EmbeddingOp op) {
  auto type = cast<RankedTensorType>(op.getTable().getType());
  auto packed = dyn_cast_or_null<PackedAttr>(type.getEncoding());
  bool panels = packed && packed.getLayout() != Layout::Rows;
  kernels.embedding(e, batch(), weight(op.getTable()), type.getElementType(), panels, rows(op.getResult()),
                    e.c(features(op.getResult())), worker());
}

void FunctionEmitter::emitNorm(Operation *op, Value input, Value residual, Value weightValue, float eps) {
  int64_t n = cast<RankedTensorType>(weightValue.getType()).getDimSize(0);
  std::optional<Rows> other, sum;
  if (residual) {
    other = rows(residual);
    sum = rows(op->getResult(0));
  }
  Value result = op->getResults().back();
  kernels.rmsNorm(e, rows(input), other, sum, weight(weightValue), eps, rows(result), e.c(features(input) / n), e.c(n),
                  count(result), worker());
}

void FunctionEmitter::elementwise(Operation *op, ValueRange inputs, StringRef name,
                                  function_ref<Value(Emitter &, ArrayRef<Value>)> compute) {
  SmallVector<Rows> memories;
  for (Value input : inputs)
    memories.push_back(rows(input));
  Value result = op->getResult(0);
  kernels.elementwise(e, name, memories, rows(result), e.c(features(result)), count(result), worker(), compute);
}

void FunctionEmitter::emitFusedAppend(QKNormRopeAppendOp op) {
  Value queryNorm = op.getQNorm() ? weight(op.getQNorm()) : Value();
  Value keyNorm = op.getKNorm() ? weight(op.getKNorm()) : Value();
  float eps = op.getEps() ? op.getEps()->convertToFloat() : 0;
  cpu::Cache where = cache(op.getLayer());
  kernels.qkNormRopeAppend(e, batch(), where, rotary(op.getRotary()), rows(op.getQuery()), rows(op.getKey()),
                           rows(op.getValue()), queryNorm, keyNorm, eps, rows(op.getResult()),
                           features(op.getQuery()) / where.headDim, worker());
}

/// Calls the functions of the runs' kinds. More than one run is a table in
/// memory, so that code does not grow with it.
void FunctionEmitter::emitLayers(LayersOp op) {
  barrier();
  SmallVector<Value> passed;
  for (const StepArgument &argument : stepArguments)
    passed.push_back(context[argument.name]);
  passed.append({context.worker, context.workers});
  auto callKind = [&](StringRef kind, Ix index, Ix layer) {
    SmallVector<Value> arguments = passed;
    arguments.append({index, layer});
    func::CallOp::create(e, TypeRange(), kind, ValueRange(arguments));
  };
  SmallVector<int64_t> table;
  SmallVector<StringRef> kinds;
  int64_t firstLayer = 0;
  for (auto run : op.getRuns().getAsRange<RunAttr>()) {
    StringRef name = run.getKind().getValue();
    int64_t kind = llvm::find(kinds, name) - kinds.begin();
    if (kind == static_cast<int64_t>(kinds.size()))
      kinds.push_back(name);
    table.append({kind, run.getFirst(), run.getCount(), firstLayer});
    firstLayer += run.getCount();
  }
  static constexpr int64_t columns = 4;
  int64_t runCount = table.size() / columns;
  if (runCount == 1) {
    e.loop(e.c(0), e.c(table[2]), 1, [&](Ix i) { callKind(kinds[0], i + table[1], i); });
    return;
  }
  auto type = MemRefType::get({static_cast<int64_t>(table.size())}, e.getIndexType());
  {
    OpBuilder::InsertionGuard guard(e);
    e.setInsertionPointToStart(variant.module.getBody());
    auto values = DenseElementsAttr::get(RankedTensorType::get(type.getShape(), e.getIndexType()), ArrayRef(table));
    memref::GlobalOp::create(e, "runs", e.getStringAttr("private"), type, values, /*constant=*/true,
                             /*alignment=*/IntegerAttr());
  }
  Value runs = memref::GetGlobalOp::create(e, type, "runs");
  e.loop(e.c(0), e.c(runCount), 1, [&](Ix run) {
    auto field = [&](int64_t column) { return e.ix(e.load(runs, run * columns + column)); };
    Ix kind = field(0), first = field(1), layer = field(3);
    e.loop(e.c(0), field(2), 1, [&](Ix i) {
      for (auto [number, name] : llvm::enumerate(kinds))
        e.when(kind == e.c(number), [&] { callKind(name, first + i, layer + i); });
    });
  });
}

LogicalResult FunctionEmitter::emitOp(Operation *op) {
  if (isa<WeightOp>(op) || op->hasTrait<OpTrait::IsTerminator>())
    return success();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (!constant.getType().isIndex())
      return op->emitOpError("expected an index");
    indices[constant.getResult()] = e.c(cast<IntegerAttr>(constant.getValue()).getInt());
    return success();
  }
  e.setLoc(op->getLoc());
  place(op);
  if (isa<SplitOp>(op))
    return success();
  if (auto layers = dyn_cast<LayersOp>(op)) {
    emitLayers(layers);
    return success();
  }
  access(op);
  LogicalResult result = success();
  if (auto linear = dyn_cast<LinearOp>(op))
    result = emitLinear(linear);
  else if (auto embedding = dyn_cast<EmbeddingOp>(op))
    emitEmbedding(embedding);
  else if (auto norm = dyn_cast<RMSNormOp>(op))
    emitNorm(op, norm.getInput(), Value(), norm.getWeight(), norm.getEps().convertToFloat());
  else if (auto norm = dyn_cast<AddRMSNormOp>(op))
    emitNorm(op, norm.getInput(), norm.getResidual(), norm.getWeight(), norm.getEps().convertToFloat());
  else if (auto rope = dyn_cast<RopeOp>(op)) {
    Rotary angles = rotary(rope.getRotary());
    kernels.rope(e, angles, rows(rope.getInput()), rows(rope.getResult()),
                 e.c(features(rope.getInput()) / angles.headDim), count(rope.getInput()), worker());
  } else if (auto append = dyn_cast<KVAppendOp>(op))
    kernels.kvAppend(e, batch(), cache(append.getLayer()), rows(append.getKey()), rows(append.getValue()), worker());
  else if (auto fused = dyn_cast<QKNormRopeAppendOp>(op))
    emitFusedAppend(fused);
  else if (auto attentionOp = dyn_cast<AttentionOp>(op)) {
    AttentionShape shape;
    shape.heads = features(attentionOp.getQuery()) / plan.cache.getHeadDim();
    shape.scale = attentionOp.getScale().convertToFloat();
    shape.window = attentionOp.getWindow().value_or(0);
    variant.attention->emit(e, kernels, shape, batch(), cache(attentionOp.getLayer()), rows(attentionOp.getQuery()),
                            rows(attentionOp.getResult()), worker());
  } else if (auto select = dyn_cast<SelectRowsOp>(op))
    kernels.selectRows(e, batch(), rows(select.getInput()), rows(select.getResult()), e.c(features(select.getInput())),
                       worker());
  else if (isa<AddOp>(op))
    elementwise(op, op->getOperands(), "add", [](Emitter &f, ArrayRef<Value> v) { return f.add(v[0], v[1]); });
  else if (isa<MulOp>(op))
    elementwise(op, op->getOperands(), "mul", [](Emitter &f, ArrayRef<Value> v) { return f.mul(v[0], v[1]); });
  else if (isa<SiLUOp>(op))
    elementwise(op, op->getOperands(), "silu", [](Emitter &f, ArrayRef<Value> v) { return emitSiLU(f, v[0]); });
  else if (isa<GatedActOp>(op))
    elementwise(op, op->getOperands(), "gated_silu",
                [](Emitter &f, ArrayRef<Value> v) { return f.mul(emitSiLU(f, v[0]), v[1]); });
  else
    return op->emitOpError("expected an op that has a kernel");
  if (succeeded(result))
    callHook(op);
  return result;
}

/// A table of f32 in the module, padded with zeros to whole vectors.
Value FunctionEmitter::frequencies(StringRef name, ArrayRef<float> values) {
  SmallVector<float> padded(values);
  padded.resize(roundUp(values.size(), lanes), 0.0f);
  auto type = MemRefType::get({static_cast<int64_t>(padded.size())}, e.getF32Type());
  {
    OpBuilder::InsertionGuard guard(e);
    e.setInsertionPointToStart(variant.module.getBody());
    auto attr = DenseElementsAttr::get(RankedTensorType::get(type.getShape(), e.getF32Type()), ArrayRef<float>(padded));
    memref::GlobalOp::create(e, name, e.getStringAttr("private"), type, attr,
                             /*constant=*/true,
                             /*alignment=*/e.getI64IntegerAttr(64));
  }
  return memref::CastOp::create(e, e.floats(), memref::GetGlobalOp::create(e, type, name));
}

void FunctionEmitter::emitRotaryTables() {
  for (auto [name, offset] : plan.rotaryTables) {
    auto op = SymbolTable::lookupNearestSymbolFrom<RotaryOp>(source, name);
    Value longer;
    if (op.getLongInvFreq())
      longer = frequencies((name.getValue() + ".long_inv_freq").str(), *op.getLongInvFreq());
    Value shorter = frequencies((name.getValue() + ".inv_freq").str(), op.getInvFreq());
    kernels.rotaryTable(e, batch(), rotary(name), shorter, longer, op.getScaling().convertToFloat(), worker());
    writes.push_back({Access::Tokens, offset, offset + 1});
  }
}

LogicalResult FunctionEmitter::emit() {
  declare();
  if (isForward) {
    emitRotaryTables();
  } else {
    Place hidden;
    hidden.rowBytes = roundUp(features(source.getArgument(0)), lanes) * 4;
    if (auto offsets = source->getAttrOfType<DenseI64ArrayAttr>(arenaArgsAttrName))
      hidden.offset = offsets[0];
    places[source.getArgument(0)] = hidden;
  }
  for (Operation &op : source.getBody().front())
    if (failed(emitOp(&op)))
      return failure();
  // The next layer starts from a clean state.
  if (!isForward)
    barrier();
  func::ReturnOp::create(e);
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Variants
//===--------------------------------------------------------------------------------------------------------------===//

int64_t VariantEmitter::reserve() {
  ModuleOp outer = plan.module;
  cpu::Cache cache;
  cache.kvHeads = plan.cache.getKvHeads();
  cache.headDim = plan.cache.getHeadDim();
  outer.walk([&](AttentionOp op) {
    AttentionShape shape;
    shape.heads = cast<RankedTensorType>(op.getQuery().getType()).getDimSize(1) / cache.headDim;
    kernels.reserveScratch(attention->scratchFloats(shape, cache, plan.maxContext));
  });
  return kernels.scratchFloats() * 4;
}

LogicalResult VariantEmitter::emit() {
  ModuleOp outer = plan.module;
  for (auto function : outer.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    if (failed(FunctionEmitter(*this, function, function.getSymName() == forwardName).emit()))
      return failure();
  }
  return success();
}

namespace {
struct ConvertIngotToLoops : ingot::impl::ConvertIngotToLoopsPassBase<ConvertIngotToLoops> {
  using Base::Base;

  FailureOr<ModelPlan> makePlan();
  void finish(const ModelPlan &plan);
  void runOnOperation() override;
};
} // namespace

FailureOr<ModelPlan> ConvertIngotToLoops::makePlan() {
  ModelPlan plan;
  plan.module = getOperation();
  auto forward = plan.module.lookupSymbol<func::FuncOp>(forwardName);
  auto arena = plan.module->getAttrOfType<DictionaryAttr>(arenaAttrName);
  auto model = plan.module->getAttrOfType<ModelAttr>(modelAttrName);
  if (!forward || !arena || !model) {
    plan.module.emitError("expected a packed model: a function @")
        << forwardName << " and the attributes '" << arenaAttrName << "' and '" << modelAttrName << "'";
    return failure();
  }
  if (attention != "tiled" && attention != "naive") {
    plan.module.emitError("expected attention 'tiled' or 'naive', got '") << attention << "'";
    return failure();
  }
  Operation *end = forward.getBody().front().getTerminator();
  if (end->getNumOperands() != 1 || !isStepResult(end->getOperand(0))) {
    forward.emitError("expected @") << forwardName << " to return the result of an ingot.linear that has no other use";
    return failure();
  }
  plan.naive = attention == "naive";
  plan.maxContext = model.getMaxContext();
  plan.cache = cast<KVCacheType>(forward.getArgument(1).getType());
  auto number = [&](StringRef name) {
    auto attr = arena.getAs<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  plan.base = number("base");
  plan.perToken = number("per_token");
  plan.perRow = number("per_row");
  FailureOr<ParameterTable> parameters = computeParameterTable(plan.module);
  if (failed(parameters))
    return failure();
  plan.parameters = std::move(*parameters);
  plan.ops = computeStepOpTable(plan.module, plan.parameters);
  for (auto rotary : plan.module.getOps<RotaryOp>()) {
    plan.rotaryTables[rotary.getSymNameAttr()] = plan.perToken;
    plan.perToken += 2 * Rotary::halfPadded(rotary.getHeadDim()) * 4;
  }
  plan.module.walk([&](LinearOp op) {
    plan.largestK = std::max(plan.largestK, cast<RankedTensorType>(op.getInput().getType()).getDimSize(1));
  });
  return plan;
}

/// Replaces the functions by declarations of the kinds (parameters name them)
/// and sets the module's attributes.
void ConvertIngotToLoops::finish(const ModelPlan &plan) {
  ModuleOp module = getOperation();
  Builder builder(&getContext());
  module->setAttr(parametersAttrName, plan.parameters.toAttr(&getContext()));
  module->setAttr(opsAttrName, plan.ops.toAttr(&getContext()));
  auto number = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  module->setAttr(arenaAttrName,
                  builder.getDictionaryAttr({number("base", plan.base), number("per_token", plan.perToken),
                                             number("per_row", plan.perRow), number("per_worker", plan.perWorker)}));
  for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    if (function.getSymName() == forwardName) {
      function.erase();
      continue;
    }
    function.eraseBody();
    function.setType(builder.getFunctionType({}, {}));
    function->removeAttr(arenaArgsAttrName);
    function.setPrivate();
  }
  for (auto rotary : llvm::make_early_inc_range(module.getOps<RotaryOp>()))
    rotary.erase();
}

void ConvertIngotToLoops::runOnOperation() {
  FailureOr<ModelPlan> plan = makePlan();
  if (failed(plan))
    return signalPassFailure();
  SmallVector<std::pair<ModuleOp, std::unique_ptr<VariantEmitter>>> variants;
  for (const std::string &name : cpus) {
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(getOperation().getBody());
    auto nested = ModuleOp::create(builder, getOperation().getLoc(), name);
    VectorUnit unit = vectorUnitOf(tilesOf.empty() ? name : tilesOf.getValue());
    variants.emplace_back(nested, std::make_unique<VariantEmitter>(*plan, nested, unit));
    // One arena serves whichever variant is chosen.
    plan->perWorker = std::max(plan->perWorker, roundUp(variants.back().second->reserve(), 64));
  }
  OpPassManager cleanup(ModuleOp::getOperationName());
  cleanup.addPass(createCanonicalizerPass());
  cleanup.addPass(createCSEPass());
  for (auto &[nested, emitter] : variants)
    if (failed(emitter->emit()) || failed(runPipeline(cleanup, nested)))
      return signalPassFailure();
  finish(*plan);
}
