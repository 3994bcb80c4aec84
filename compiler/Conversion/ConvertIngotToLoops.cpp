//===- ConvertIngotToLoops.cpp - Packed ingot ops to structured loops on the arena --------------------------------===//
//
// One nested module per CPU variant. An op becomes a call of a function of compiler/Codegen/CPU on views of the arena,
// the weights and the cache; barriers stand where workers' accesses would meet.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/Attention.h"
#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/VectorMath.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Conversion/StepArguments.h"
#include "compiler/Conversion/StepFunction.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include <limits>

namespace ingot {
#define GEN_PASS_DEF_CONVERTINGOTTOLOOPSPASS
#include "compiler/Conversion/Passes.h.inc"
} // namespace ingot

using namespace mlir;
using namespace ingot;
using namespace ingot::cpu;

namespace {

/// Something that ops read and write; ranges of bytes per token (or row) of the arena, or a whole.
struct Access {
  enum Kind { Tokens, SelectedRows, Cache, Logits } kind;
  int64_t begin = 0, end = std::numeric_limits<int64_t>::max();

  bool meets(const Access &other) const { return kind == other.kind && begin < other.end && other.begin < end; }
};

/// What stays the same for all variants.
struct ModelPlan : StepPlan {
  /// Bytes; known once the variants' kernels are.
  int64_t perWorker = 0;
  int64_t largestK = 1;
  bool naive = false;
};

/// Emits one variant's functions.
class VariantEmitter {
public:
  VariantEmitter(const ModelPlan &plan, ModuleOp module, VectorUnit unit, DotUnit dots)
      : plan(plan), module(module), kernels(module, unit, dots, plan.largestK, plan.maxContext),
        attention(plan.naive ? createNaiveAttention() : createTiledAttention()) {}

  /// Reserves scratch memory for every op; returns the bytes that a worker needs.
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
class FunctionEmitter : public StepFunction {
public:
  FunctionEmitter(VariantEmitter &variant, func::FuncOp source)
      : StepFunction(variant.plan, variant.module, source), variant(variant), kernels(variant.kernels),
        perWorker(variant.plan.perWorker) {}

private:
  void emitRotaryTables() override;
  LogicalResult emitOp(Operation *op) override;
  void beforeLayers() override { barrier(); }
  void atEnd() override;

  Value frequencies(StringRef name, ArrayRef<float> values);
  LogicalResult emitKernel(Operation *op);
  LogicalResult emitLinear(LinearOp op);
  void emitEmbedding(EmbeddingOp op);
  void emitNorm(Operation *op, Value input, Value residual, Value weight, float eps);
  void emitFusedAppend(QKNormRopeAppendOp op);
  void elementwise(Operation *op, ValueRange inputs, StringRef name,
                   function_ref<Value(Emitter &, ArrayRef<Value>)> compute);
  /// The barrier that `op` needs.
  void access(Operation *op);
  void barrier();
  void emitHook(Operation *op);

  Rows rows(Value activation) {
    auto [view, stride] = StepFunction::rows(activation);
    return {view.memory, stride};
  }
  Value weight(Value value) { return StepFunction::weight(value).memory; }
  Rotary rotary(StringRef name);
  cpu::Cache cache(Value layerNumber);
  Batch batch();
  Worker self();

  VariantEmitter &variant;
  Kernels &kernels;
  const int64_t perWorker;
  SmallVector<Access> reads, writes;
};
} // namespace

Batch FunctionEmitter::batch() {
  Batch result;
  result.tokens = argument("tokens");
  result.positions = argument("positions");
  result.sequences = argument("sequences");
  result.slots = argument("slots");
  result.queryStarts = argument("query_starts");
  result.lengths = argument("lengths");
  result.regimes = argument("regimes");
  result.blockTables = argument("block_tables");
  result.rows = argument("rows");
  result.tokenCount = count("token_count");
  result.sequenceCount = count("sequence_count");
  result.rowCount = count("row_count");
  result.blockTableStride = count("block_table_stride");
  return result;
}

Worker FunctionEmitter::self() {
  Worker result;
  result.id = worker;
  result.count = workers;
  // After everything that belongs to tokens and rows.
  Ix start = count("token_count") * plan.perToken + count("row_count") * plan.perRow + plan.base;
  Ix floats = e.c(perWorker / 4);
  result.scratch = e.view(argument("arena"), start + worker * perWorker, e.getF32Type(), floats);
  result.shared = e.view(argument("arena"), start, e.getF32Type(), floats * workers);
  result.sharedStride = e.c(perWorker / 4);
  result.barrier = argument("barrier");
  return result;
}

Rotary FunctionEmitter::rotary(StringRef name) {
  RotaryOp op = rotaryOp(name);
  Rotary result;
  result.headDim = op.getHeadDim();
  result.interleaved = op.getStyle() == RotaryStyle::Interleaved;
  result.table = rotaryTable(op).memory;
  return result;
}

cpu::Cache FunctionEmitter::cache(Value layer) {
  cpu::Cache result;
  describe(result);
  result.layer = index(layer);
  result.memory = cacheMemory(result).memory;
  return result;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Barriers
//===--------------------------------------------------------------------------------------------------------------===//

/// A barrier before `op` if one worker's accesses could meet another's since the last one.
void FunctionEmitter::access(Operation *op) {
  SmallVector<Access> opReads, opWrites;
  auto accessOf = [&](Value value) {
    const Place &where = placeOf(value);
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
  kernels.barrier(e, argument("barrier"), worker);
  reads.clear();
  writes.clear();
}

/// After an op: the hook, if there is one, while all workers wait.
void FunctionEmitter::emitHook(Operation *op) {
  auto what = shown(op);
  SmallVector<Value> operands = {argument("hook"), argument("hook_context"), argument("barrier"), worker, opNumber(op),
                                 layer()};
  operands.append(what.begin(), what.end());
  kernels.call(e, "call_hook", operands, [&](Emitter &f, ValueRange a) {
    Value null = LLVM::ZeroOp::create(f, a[0].getType());
    Value there = LLVM::ICmpOp::create(f, LLVM::ICmpPredicate::ne, a[0], null);
    f.when(there, [&] {
      kernels.barrier(f, a[2], f.ix(a[3]));
      SmallVector<Value> passed = {a[1]};
      passed.append(a.begin() + 3, a.end());
      callHook(f, a[0], passed);
      kernels.barrier(f, a[2], f.ix(a[3]));
    });
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Ops
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult FunctionEmitter::emitLinear(LinearOp op) {
  FailureOr<LinearWeights> weights = weightsOf(op);
  if (failed(weights))
    return failure();
  LinearShape shape{*weights};
  LinearOperands operands;
  operands.input = rows(op.getInput());
  operands.weights = weight(op.getWeights()[0]);
  if (!op.getBiases().empty())
    operands.bias = weight(op.getBiases()[0]);
  if (op.getResidual())
    operands.residual = rows(op.getResidual());
  operands.n = e.c(features(op.getResult()));
  operands.k = e.c(features(op.getInput()));
  operands.rows = rowsOf(op.getInput());
  operands.result = rows(op.getResult());
  auto emitShape = [&](const LinearShape &which) {
    if (which.quantized)
      kernels.quantizedLinear(e, which, operands, self());
    else
      kernels.linear(e, which, operands, self());
  };
  if (!placeOf(op.getResult()).logits) {
    emitShape(shape);
    return success();
  }
  operands.argmax = argument("argmax");
  operands.argmaxValue = argument("argmax_value");
  Value largestOnly = arith::CmpIOp::create(e, arith::CmpIPredicate::eq, argument("output"), e.i32(INGOT_RT_ARGMAX));
  LinearShape argmax = shape;
  argmax.argmax = true;
  e.when(largestOnly, [&] { emitShape(argmax); }, [&] { emitShape(shape); });
  return success();
}

void FunctionEmitter::emitEmbedding(EmbeddingOp op) {
  auto type = cast<RankedTensorType>(op.getTable().getType());
  auto packed = dyn_cast_or_null<PackedAttr>(type.getEncoding());
  bool panels = packed && packed.getLayout() != Layout::Rows;
  if (auto quantized = dyn_cast<QuantizedType>(type.getElementType())) {
    kernels.quantizedEmbedding(e, batch(), weight(op.getTable()), quantized.getKind(), rows(op.getResult()),
                               e.c(features(op.getResult())), self());
    return;
  }
  kernels.embedding(e, batch(), weight(op.getTable()), type.getElementType(), panels, rows(op.getResult()),
                    e.c(features(op.getResult())), self());
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
                  rowsOf(result), self());
}

void FunctionEmitter::elementwise(Operation *op, ValueRange inputs, StringRef name,
                                  function_ref<Value(Emitter &, ArrayRef<Value>)> compute) {
  SmallVector<Rows> memories;
  for (Value input : inputs)
    memories.push_back(rows(input));
  Value result = op->getResult(0);
  kernels.elementwise(e, name, memories, rows(result), e.c(features(result)), rowsOf(result), self(), compute);
}

void FunctionEmitter::emitFusedAppend(QKNormRopeAppendOp op) {
  Value queryNorm = op.getQNorm() ? weight(op.getQNorm()) : Value();
  Value keyNorm = op.getKNorm() ? weight(op.getKNorm()) : Value();
  float eps = op.getEps() ? op.getEps()->convertToFloat() : 0;
  cpu::Cache where = cache(op.getLayer());
  kernels.qkNormRopeAppend(e, batch(), where, rotary(op.getRotary()), rows(op.getQuery()), rows(op.getKey()),
                           rows(op.getValue()), queryNorm, keyNorm, eps, rows(op.getResult()),
                           features(op.getQuery()) / where.headDim, self());
}

LogicalResult FunctionEmitter::emitKernel(Operation *op) {
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
                 e.c(features(rope.getInput()) / angles.headDim), rowsOf(rope.getInput()), self());
  } else if (auto append = dyn_cast<KVAppendOp>(op))
    kernels.kvAppend(e, batch(), cache(append.getLayer()), rows(append.getKey()), rows(append.getValue()), self());
  else if (auto fused = dyn_cast<QKNormRopeAppendOp>(op))
    emitFusedAppend(fused);
  else if (auto attentionOp = dyn_cast<AttentionOp>(op)) {
    variant.attention->emit(e, kernels, shapeOf(attentionOp), batch(), cache(attentionOp.getLayer()),
                            rows(attentionOp.getQuery()), rows(attentionOp.getResult()), self());
  } else if (auto select = dyn_cast<SelectRowsOp>(op))
    kernels.selectRows(e, batch(), rows(select.getInput()), rows(select.getResult()), e.c(features(select.getInput())),
                       self());
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
  return result;
}

LogicalResult FunctionEmitter::emitOp(Operation *op) {
  access(op);
  if (failed(emitKernel(op)))
    return failure();
  emitHook(op);
  return success();
}

/// A table of f32 in the module, padded with zeros to whole vectors.
Value FunctionEmitter::frequencies(StringRef name, ArrayRef<float> values) {
  SmallVector<float> padded(values);
  padded.resize(llvm::alignTo(values.size(), lanes), 0.0f);
  auto type = RankedTensorType::get({static_cast<int64_t>(padded.size())}, e.getF32Type());
  Value table = constant(name, DenseElementsAttr::get(type, ArrayRef<float>(padded)), /*alignment=*/64);
  return memref::CastOp::create(e, e.floats(), table);
}

void FunctionEmitter::emitRotaryTables() {
  for (auto [name, offset] : plan.rotaryTables) {
    RotaryOp op = rotaryOp(name);
    Value longer;
    if (op.getLongInvFreq())
      longer = frequencies((name.getValue() + ".long_inv_freq").str(), *op.getLongInvFreq());
    Value shorter = frequencies((name.getValue() + ".inv_freq").str(), op.getInvFreq());
    kernels.rotaryTable(e, batch(), rotary(name), shorter, longer, op.getScaling().convertToFloat(), self());
    writes.push_back({Access::Tokens, offset, offset + 1});
  }
}

void FunctionEmitter::atEnd() {
  // The next layer starts from a clean state.
  if (!isForward)
    barrier();
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
    shape.heads = features(op.getQuery()) / cache.headDim;
    kernels.reserveScratch(attention->scratchFloats(shape, cache, plan.maxContext));
  });
  return kernels.scratchFloats() * 4;
}

LogicalResult VariantEmitter::emit() {
  ModuleOp outer = plan.module;
  for (auto function : outer.getOps<func::FuncOp>()) {
    if (!function.isExternal() && failed(FunctionEmitter(*this, function).emit()))
      return failure();
  }
  return success();
}

namespace {
struct ConvertIngotToLoops : ingot::impl::ConvertIngotToLoopsPassBase<ConvertIngotToLoops> {
  using Base::Base;

  FailureOr<ModelPlan> makePlan();
  void runOnOperation() override;
};
} // namespace

FailureOr<ModelPlan> ConvertIngotToLoops::makePlan() {
  if (attention != "tiled" && attention != "naive")
    return getOperation().emitError("expected attention 'tiled' or 'naive', got '") << attention << "'";
  FailureOr<StepPlan> step = planStep(getOperation());
  if (failed(step))
    return failure();
  ModelPlan plan{std::move(*step)};
  plan.naive = attention == "naive";
  plan.module.walk([&](LinearOp op) { plan.largestK = std::max(plan.largestK, features(op.getInput())); });
  return plan;
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
    StringRef tilesFor = tilesOf.empty() ? StringRef(name) : StringRef(tilesOf);
    VectorUnit unit = vectorUnitOf(tilesFor);
    DotUnit dots = dotUnitOf(tilesFor);
    // Every CPU of this target has the instructions of the smaller unit.
    dots.native &= !definitions && (tilesOf.empty() || !dots.fourInOne);
    variants.emplace_back(nested, std::make_unique<VariantEmitter>(*plan, nested, unit, dots));
    // One arena serves whichever variant is chosen.
    plan->perWorker = std::max<int64_t>(plan->perWorker, llvm::alignTo(variants.back().second->reserve(), 64));
  }
  OpPassManager cleanup(ModuleOp::getOperationName());
  cleanup.addPass(createCanonicalizerPass());
  cleanup.addPass(createCSEPass());
  for (auto &[nested, emitter] : variants)
    if (failed(emitter->emit()) || failed(runPipeline(cleanup, nested)))
      return signalPassFailure();
  finishStep(*plan, plan->perWorker);
}
