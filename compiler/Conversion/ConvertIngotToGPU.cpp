//===- ConvertIngotToGPU.cpp - Packed ingot ops to kernels and a host function that launches them -----------------===//
//
// An op becomes a launch of a kernel of compiler/Codegen/GPU on views of the arena, the weights and the cache. Launches
// run in order, so that nothing stands where the CPU's workers have barriers.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/GPU/DeviceKernels.h"
#include "compiler/Conversion/ModelLayout.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Conversion/StepArguments.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace ingot {
#define GEN_PASS_DEF_CONVERTINGOTTOGPUPASS
#include "compiler/Conversion/Passes.h.inc"
} // namespace ingot

using namespace mlir;
using namespace ingot;
using namespace ingot::gpu;

namespace {

/// Where an activation lies: one row for each token or selected row.
struct Place {
  bool perRow = false;
  /// Bytes per token or row before it, bytes of a row, floats of a row before the first feature.
  int64_t offset = 0, rowBytes = 0, column = 0;
  /// The logits go to the caller's memory.
  bool logits = false;
};

struct ModelPlan {
  ModuleOp module;
  ParameterTable parameters;
  StepOpTable ops;
  /// Bytes.
  int64_t base = 0, perToken = 0, perRow = 0;
  /// Bytes per token before each rotary's table.
  llvm::MapVector<StringAttr, int64_t> rotaryTables;
  KVCacheType cache;
};

/// Emits the host's function for one function of the model, and the kernels that it launches.
class HostEmitter {
public:
  HostEmitter(const ModelPlan &plan, ModuleOp host, DeviceKernels &kernels, func::FuncOp source)
      : plan(plan), host(host), kernels(kernels), source(source), isForward(source.getSymName() == forwardName),
        e(source.getLoc(), source.getContext()) {}

  LogicalResult emit();

private:
  void declare();
  void emitBody();
  void emitRotaryTables();
  LogicalResult emitOp(Operation *op);
  LogicalResult emitKernel(Operation *op);
  LogicalResult emitLinear(LinearOp op);
  void emitNorm(Operation *op, Value input, Value residual, Value weight, float eps);
  void emitFusedAppend(QKNormRopeAppendOp op);
  void emitLayers(LayersOp op);
  void elementwise(Operation *op, StringRef name, function_ref<Value(DeviceEmitter &, ArrayRef<Value>)> compute);
  void place(Operation *op);
  void callHook(Operation *op);
  void setLaunchContext(int64_t op);
  /// Emits what one of the host's workers does; all of them walk over the step, as hooks expect.
  void whenLaunching(function_ref<void()> body) { e.when(e.ix(argument("worker")) == e.c(0), body); }

  Value argument(StringRef name) const {
    assert(arguments.contains(name) && "no such argument of a step");
    return arguments.lookup(name);
  }
  Ix count(StringRef name) { return e.ix(argument(name)); }
  const Place &placeOf(Value activation) const { return places.find(activation)->second; }
  static int64_t features(Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(1); }
  Ix rowsOf(Value activation) { return count(placeOf(activation).perRow ? "row_count" : "token_count"); }
  DeviceRows rows(Value activation);
  HostMemory weight(Value value);
  DeviceRotary rotary(StringRef name);
  DeviceCache cache(Value layer);
  DeviceBatch batch();

  const ModelPlan &plan;
  ModuleOp host;
  DeviceKernels &kernels;
  func::FuncOp source;
  const bool isForward;
  cpu::Emitter e;
  llvm::StringMap<Value> arguments;
  Value layerNumber;
  llvm::DenseMap<Value, Value> indices;
  llvm::DenseMap<Value, Place> places;
};
} // namespace

static int64_t roundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

static bool isActivation(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 2 && type.isDynamicDim(0);
}

static Type typeOf(cpu::Emitter &e, StepArgumentKind kind) {
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

void HostEmitter::declare() {
  SmallVector<Type> types;
  for (const StepArgument &step : stepArguments)
    types.push_back(typeOf(e, step.kind));
  types.append(isForward ? 2 : 3, e.getIndexType());
  e.setInsertionPointToEnd(host.getBody());
  auto function =
      func::FuncOp::create(e, isForward ? StringRef(stepName) : source.getSymName(), e.getFunctionType(types, {}));
  if (!isForward)
    function.setPrivate();
  Block *entry = function.addEntryBlock();
  e.setInsertionPointToStart(entry);
  size_t next = 0;
  for (const StepArgument &step : stepArguments)
    arguments[step.name] = entry->getArgument(next++);
  // Of the step: the worker's number, and the count of workers. Of a kind: the worker's number, index within the kind,
  // and layer.
  arguments["worker"] = entry->getArgument(next++);
  if (!isForward) {
    indices[source.getArgument(3)] = entry->getArgument(next);
    layerNumber = indices[source.getArgument(4)] = entry->getArgument(next + 1);
  }
}

DeviceBatch HostEmitter::batch() {
  DeviceBatch result;
  result.tokenCount = count("token_count");
  result.rowCount = count("row_count");
  result.blockTableStride = count("block_table_stride");
  Ix sequenceCount = count("sequence_count");
  auto perToken = [&](StringRef name) { return HostMemory{argument(name), result.tokenCount}; };
  result.tokens = perToken("tokens");
  result.positions = perToken("positions");
  result.sequences = perToken("sequences");
  result.slots = perToken("slots");
  result.regimes = {argument("regimes"), sequenceCount};
  result.blockTables = {argument("block_tables"), sequenceCount * result.blockTableStride};
  result.rows = {argument("rows"), result.rowCount};
  return result;
}

DeviceRows HostEmitter::rows(Value activation) {
  const Place &where = placeOf(activation);
  if (where.logits) {
    // Up to the end of the last row's features, as below.
    Ix stride = count("logits_stride");
    return {{argument("logits"), e.saturatingSub(count("row_count") * stride, stride - features(activation))}, stride};
  }
  Ix start = count("token_count") * (where.perRow ? plan.perToken : where.offset);
  if (where.perRow)
    start = start + count("row_count") * where.offset;
  start = start + (plan.base + where.column * 4);
  Ix stride = e.c(where.rowBytes / 4);
  // Up to the end of the last row's features; nothing of an empty batch.
  Ix rowCount = rowsOf(activation);
  Ix floats = e.saturatingSub(rowCount * stride, e.c(where.rowBytes / 4 - features(activation)));
  return {{e.view(argument("arena"), start, e.getF32Type(), floats), floats}, stride};
}

HostMemory HostEmitter::weight(Value value) {
  auto op = value.getDefiningOp<WeightOp>();
  const ParameterLayout *layout = plan.parameters.find(op.getParameter());
  Ix offset = e.c(layout->offset);
  if (op.getIndex())
    offset = e.ix(indices.lookup(op.getIndex())) * layout->layerStride + layout->offset;
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  Ix elements = e.c(layout->layerBytes / ingot_rt_dtype_size(layout->dtype));
  return {e.view(argument("weights"), offset, element, elements), elements};
}

DeviceRotary HostEmitter::rotary(StringRef name) {
  auto op = SymbolTable::lookupNearestSymbolFrom<RotaryOp>(source, StringAttr::get(e.getContext(), name));
  DeviceRotary result;
  result.headDim = op.getHeadDim();
  result.interleaved = op.getStyle() == RotaryStyle::Interleaved;
  Ix tokens = count("token_count"), floats = tokens * (2 * result.halfPadded());
  Ix start = tokens * plan.rotaryTables.lookup(op.getSymNameAttr()) + plan.base;
  result.table = {e.view(argument("arena"), start, e.getF32Type(), floats), floats};
  return result;
}

DeviceCache HostEmitter::cache(Value layer) {
  DeviceCache result;
  result.element = plan.cache.getElementType();
  result.layers = plan.cache.getLayers();
  result.kvHeads = plan.cache.getKvHeads();
  result.headDim = plan.cache.getHeadDim();
  result.layer = e.ix(indices.lookup(layer));
  Ix elements = count("cache_blocks") * result.blockElements();
  result.memory = {e.view(argument("cache"), e.c(0), result.element, elements), elements};
  return result;
}

void HostEmitter::place(Operation *op) {
  if (auto split = dyn_cast<SplitOp>(op)) {
    Place part = placeOf(split.getInput());
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
    where.rowBytes = roundUp(features(result), cpu::lanes) * 4;
    where.logits = isStepResult(result);
    if (!where.logits && offsets && next < static_cast<size_t>(offsets.size()))
      where.offset = offsets[next];
    ++next;
    places[result] = where;
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Ops
//===--------------------------------------------------------------------------------------------------------------===//

void HostEmitter::setLaunchContext(int64_t op) {
  kernels.context = {argument("launch"), argument("launch_context"), e.i32(op),
                     layerNumber ? e.toI32(e.ix(layerNumber)) : e.i32(-1)};
}

LogicalResult HostEmitter::emitLinear(LinearOp op) {
  if (op.getWeights().size() != 1)
    return op.emitOpError("expected one packed weight, got ") << op.getWeights().size();
  auto type = cast<RankedTensorType>(op.getWeights()[0].getType());
  auto packed = dyn_cast_or_null<PackedAttr>(type.getEncoding());
  bool pairs = packed && packed.getLayout() == Layout::PanelPairs;
  if (!packed || packed.getLayout() == Layout::Rows || pairs != op.getGated().has_value())
    return op.emitOpError("expected a weight in ") << (op.getGated() ? "panel_pairs" : "panels") << ", got " << type;
  if (packed.getSegments() != 1 && packed.getSegments() != INGOT_RT_K_SEGMENTS)
    return op.emitOpError("expected 1 or ") << INGOT_RT_K_SEGMENTS << " segments, got " << packed.getSegments();
  DeviceLinear linear;
  linear.element = type.getElementType();
  if (!isa<FloatType>(linear.element))
    return op.emitOpError("expected weights of f32, bf16 or f16 on a GPU, got ") << linear.element;
  linear.segmented = packed.getSegments() != 1;
  linear.gated = pairs;
  linear.oddK = linear.element.isBF16() && type.getShape().back() % 2 != 0;
  linear.input = rows(op.getInput());
  linear.result = rows(op.getResult());
  linear.weights = weight(op.getWeights()[0]);
  if (!op.getBiases().empty())
    linear.bias = weight(op.getBiases()[0]);
  if (op.getResidual())
    linear.residual = rows(op.getResidual());
  linear.n = e.c(features(op.getResult()));
  linear.k = e.c(features(op.getInput()));
  linear.rows = rowsOf(op.getInput());
  kernels.linear(e, linear);
  if (!placeOf(op.getResult()).logits)
    return success();
  Value largestOnly = arith::CmpIOp::create(e, arith::CmpIPredicate::eq, argument("output"), e.i32(INGOT_RT_ARGMAX));
  e.when(largestOnly, [&] {
    kernels.argmax(e, linear.result, linear.n, linear.rows, {argument("argmax"), linear.rows},
                   {argument("argmax_value"), linear.rows});
  });
  return success();
}

void HostEmitter::emitNorm(Operation *op, Value input, Value residual, Value weightValue, float eps) {
  int64_t n = cast<RankedTensorType>(weightValue.getType()).getDimSize(0);
  std::optional<DeviceRows> other, sum;
  if (residual) {
    other = rows(residual);
    sum = rows(op->getResult(0));
  }
  kernels.rmsNorm(e, rows(input), other, sum, weight(weightValue), eps, rows(op->getResults().back()),
                  e.c(features(input) / n), e.c(n), rowsOf(input));
}

void HostEmitter::emitFusedAppend(QKNormRopeAppendOp op) {
  std::optional<HostMemory> queryNorm, keyNorm;
  if (op.getQNorm()) {
    queryNorm = weight(op.getQNorm());
    keyNorm = weight(op.getKNorm());
  }
  float eps = op.getEps() ? op.getEps()->convertToFloat() : 0;
  DeviceCache where = cache(op.getLayer());
  kernels.qkNormRopeAppend(e, batch(), where, rotary(op.getRotary()), rows(op.getQuery()), rows(op.getKey()),
                           rows(op.getValue()), queryNorm, keyNorm, eps, rows(op.getResult()),
                           features(op.getQuery()) / where.headDim);
}

void HostEmitter::elementwise(Operation *op, StringRef name,
                              function_ref<Value(DeviceEmitter &, ArrayRef<Value>)> compute) {
  SmallVector<DeviceRows> inputs;
  for (Value input : op->getOperands())
    inputs.push_back(rows(input));
  Value result = op->getResult(0);
  kernels.elementwise(e, name, inputs, rows(result), e.c(features(result)), rowsOf(result), compute);
}

/// Calls the functions of the runs' kinds, run after run.
void HostEmitter::emitLayers(LayersOp op) {
  SmallVector<Value> passed;
  for (const StepArgument &step : stepArguments)
    passed.push_back(argument(step.name));
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
  // The table of runs is data, so that code does not grow with it.
  static constexpr int64_t columns = 4;
  auto type = MemRefType::get({static_cast<int64_t>(table.size())}, e.getIndexType());
  {
    OpBuilder::InsertionGuard guard(e);
    e.setInsertionPointToStart(host.getBody());
    auto values = DenseElementsAttr::get(RankedTensorType::get(type.getShape(), e.getIndexType()), ArrayRef(table));
    memref::GlobalOp::create(e, "runs", e.getStringAttr("private"), type, values, /*constant=*/true,
                             /*alignment=*/IntegerAttr());
  }
  Value runs = memref::GetGlobalOp::create(e, type, "runs");
  e.loop(e.c(0), e.c(table.size() / columns), 1, [&](Ix run) {
    auto field = [&](int64_t column) { return e.ix(e.load(runs, run * columns + column)); };
    Ix kind = field(0), first = field(1), layer = field(3);
    e.loop(e.c(0), field(2), 1, [&](Ix i) {
      for (auto [number, name] : llvm::enumerate(kinds))
        e.when(kind == e.c(number), [&] {
          SmallVector<Value> operands = passed;
          operands.append({argument("worker"), first + i, layer + i});
          func::CallOp::create(e, TypeRange(), name, ValueRange(operands));
        });
    });
  });
}

LogicalResult HostEmitter::emitKernel(Operation *op) {
  if (auto linear = dyn_cast<LinearOp>(op))
    return emitLinear(linear);
  if (auto embedding = dyn_cast<EmbeddingOp>(op)) {
    auto type = cast<RankedTensorType>(embedding.getTable().getType());
    auto packed = dyn_cast_or_null<PackedAttr>(type.getEncoding());
    kernels.embedding(e, batch(), weight(embedding.getTable()), type.getElementType(),
                      packed && packed.getLayout() != Layout::Rows, rows(embedding.getResult()),
                      e.c(features(embedding.getResult())));
  } else if (auto norm = dyn_cast<RMSNormOp>(op)) {
    emitNorm(op, norm.getInput(), Value(), norm.getWeight(), norm.getEps().convertToFloat());
  } else if (auto addNorm = dyn_cast<AddRMSNormOp>(op)) {
    emitNorm(op, addNorm.getInput(), addNorm.getResidual(), addNorm.getWeight(), addNorm.getEps().convertToFloat());
  } else if (auto rope = dyn_cast<RopeOp>(op)) {
    DeviceRotary angles = rotary(rope.getRotary());
    kernels.rope(e, angles, rows(rope.getInput()), rows(rope.getResult()),
                 e.c(features(rope.getInput()) / angles.headDim), rowsOf(rope.getInput()));
  } else if (auto append = dyn_cast<KVAppendOp>(op)) {
    kernels.kvAppend(e, batch(), cache(append.getLayer()), rows(append.getKey()), rows(append.getValue()));
  } else if (auto fused = dyn_cast<QKNormRopeAppendOp>(op)) {
    emitFusedAppend(fused);
  } else if (auto attention = dyn_cast<AttentionOp>(op)) {
    DeviceAttention shape;
    shape.heads = features(attention.getQuery()) / plan.cache.getHeadDim();
    shape.scale = attention.getScale().convertToFloat();
    shape.window = attention.getWindow().value_or(0);
    kernels.attention(e, shape, batch(), cache(attention.getLayer()), rows(attention.getQuery()),
                      rows(attention.getResult()));
  } else if (auto select = dyn_cast<SelectRowsOp>(op)) {
    kernels.selectRows(e, batch(), rows(select.getInput()), rows(select.getResult()), e.c(features(select.getInput())));
  } else if (isa<AddOp>(op)) {
    elementwise(op, "add", [](DeviceEmitter &d, ArrayRef<Value> v) { return d.add(v[0], v[1]); });
  } else if (isa<MulOp>(op)) {
    elementwise(op, "mul", [](DeviceEmitter &d, ArrayRef<Value> v) { return d.mul(v[0], v[1]); });
  } else if (isa<SiLUOp>(op)) {
    elementwise(op, "silu", [](DeviceEmitter &d, ArrayRef<Value> v) { return d.silu(v[0]); });
  } else if (isa<GatedActOp>(op)) {
    elementwise(op, "gated_silu", [](DeviceEmitter &d, ArrayRef<Value> v) { return d.mul(d.silu(v[0]), v[1]); });
  } else {
    return op->emitOpError("expected an op that has a kernel for GPUs");
  }
  return success();
}

/// After an op with a number: the hook, if there is one, with memory that a host can read only where the device is the
/// host.
void HostEmitter::callHook(Operation *op) {
  auto pointer = LLVM::LLVMPointerType::get(e.getContext());
  Value null = LLVM::ZeroOp::create(e, pointer), hook = argument("hook");
  Value there = LLVM::ICmpOp::create(e, LLVM::ICmpPredicate::ne, hook, null);
  e.when(there, [&] {
    auto i64 = [&](Value value) -> Value { return arith::IndexCastOp::create(e, e.getI64Type(), value); };
    Value data = LLVM::ZeroOp::create(e, pointer);
    Ix rowCount = e.c(0), columns = e.c(0), stride = e.c(0);
    if (op->getNumResults()) {
      Value result = op->getResults().back();
      DeviceRows where = rows(result);
      data = LLVM::IntToPtrOp::create(e, pointer,
                                      i64(memref::ExtractAlignedPointerAsIndexOp::create(e, where.memory.memory)));
      rowCount = rowsOf(result);
      columns = e.c(features(result));
      stride = where.stride;
    }
    SmallVector<Value> passed = {argument("hook_context"),
                                 e.toI32(e.ix(argument("worker"))),
                                 kernels.context.op,
                                 kernels.context.layer,
                                 data,
                                 i64(rowCount),
                                 i64(columns),
                                 i64(stride)};
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(e.getContext()),
                                            SmallVector<Type>(ValueRange(passed).getTypes()));
    SmallVector<Value> operands = {hook};
    operands.append(passed);
    LLVM::CallOp::create(e, type, operands);
  });
}

LogicalResult HostEmitter::emitOp(Operation *op) {
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
  auto number = plan.ops.numbers.find(op);
  assert(number != plan.ops.numbers.end() && "every op that has a kernel has a number");
  setLaunchContext(number->second);
  LogicalResult emitted = success();
  whenLaunching([&] { emitted = emitKernel(op); });
  callHook(op);
  return emitted;
}

void HostEmitter::emitRotaryTables() {
  setLaunchContext(plan.ops.ops.size());
  for (const auto &[name, offset] : plan.rotaryTables) {
    auto op = SymbolTable::lookupNearestSymbolFrom<RotaryOp>(source, name);
    ArrayRef<float> longer;
    if (op.getLongInvFreq())
      longer = *op.getLongInvFreq();
    kernels.rotaryTable(e, name, batch(), rotary(name), op.getInvFreq(), longer, op.getScaling().convertToFloat());
  }
}

LogicalResult HostEmitter::emit() {
  declare();
  if (isForward) {
    whenLaunching([&] { emitRotaryTables(); });
  } else {
    Place hidden;
    hidden.rowBytes = roundUp(features(source.getArgument(0)), cpu::lanes) * 4;
    if (auto offsets = source->getAttrOfType<DenseI64ArrayAttr>(arenaArgsAttrName))
      hidden.offset = offsets[0];
    places[source.getArgument(0)] = hidden;
  }
  for (Operation &op : source.getBody().front())
    if (failed(emitOp(&op)))
      return failure();
  func::ReturnOp::create(e);
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// The pass
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
struct ConvertIngotToGPU : ingot::impl::ConvertIngotToGPUPassBase<ConvertIngotToGPU> {
  using Base::Base;

  FailureOr<ModelPlan> makePlan();
  void finish(const ModelPlan &plan);
  void runOnOperation() override;
};
} // namespace

FailureOr<ModelPlan> ConvertIngotToGPU::makePlan() {
  ModelPlan plan;
  plan.module = getOperation();
  auto forward = plan.module.lookupSymbol<func::FuncOp>(forwardName);
  auto arena = plan.module->getAttrOfType<DictionaryAttr>(arenaAttrName);
  if (!forward || !arena) {
    plan.module.emitError("expected a packed model: a function @")
        << forwardName << " and the attribute '" << arenaAttrName << "'";
    return failure();
  }
  Operation *end = forward.getBody().front().getTerminator();
  if (end->getNumOperands() != 1 || !isStepResult(end->getOperand(0))) {
    forward.emitError("expected @") << forwardName << " to return the result of an ingot.linear that has no other use";
    return failure();
  }
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
    DeviceRotary table;
    table.headDim = rotary.getHeadDim();
    plan.perToken += 2 * table.halfPadded() * 4;
  }
  return plan;
}

/// Replaces the functions by declarations of the kinds (parameters name them) and sets the module's attributes.
void ConvertIngotToGPU::finish(const ModelPlan &plan) {
  ModuleOp module = getOperation();
  Builder builder(&getContext());
  module->setAttr(parametersAttrName, plan.parameters.toAttr(&getContext()));
  module->setAttr(opsAttrName, plan.ops.toAttr(&getContext()));
  auto number = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  module->setAttr(arenaAttrName,
                  builder.getDictionaryAttr({number("base", plan.base), number("per_token", plan.perToken),
                                             number("per_row", plan.perRow), number("per_worker", 0)}));
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

void ConvertIngotToGPU::runOnOperation() {
  FailureOr<ModelPlan> plan = makePlan();
  if (failed(plan))
    return signalPassFailure();
  OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
  Location loc = getOperation().getLoc();
  auto device = mlir::gpu::GPUModuleOp::create(builder, loc, kernelsModuleName);
  auto host = ModuleOp::create(builder, loc, StringRef(name));
  DeviceKernels kernels(host, device);
  for (auto function : getOperation().getOps<func::FuncOp>())
    if (!function.isExternal() && failed(HostEmitter(*plan, host, kernels, function).emit()))
      return signalPassFailure();
  for (Operation *part : {device.getOperation(), host.getOperation()}) {
    OpPassManager cleanup(part->getName().getStringRef());
    cleanup.addPass(createCanonicalizerPass());
    cleanup.addPass(createCSEPass());
    if (failed(runPipeline(cleanup, part)))
      return signalPassFailure();
  }
  finish(*plan);
}
