//===- ConvertIngotToGPU.cpp - Packed ingot ops to kernels and a host function that launches them -----------------===//
//
// An op becomes a launch of a kernel of compiler/Codegen/GPU on views of the arena, the weights and the cache. Launches
// run in order, so that nothing stands where the CPU's workers have barriers.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/GPU/DeviceKernels.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Conversion/StepArguments.h"
#include "compiler/Conversion/StepFunction.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include <set>

namespace ingot {
#define GEN_PASS_DEF_CONVERTINGOTTOGPUPASS
#include "compiler/Conversion/Passes.h.inc"
} // namespace ingot

using namespace mlir;
using namespace ingot;
using namespace ingot::gpu;

namespace {

/// Emits the host's function for one function of the model, and the kernels that it launches.
class HostEmitter : public StepFunction {
public:
  HostEmitter(const StepPlan &plan, ModuleOp host, DeviceKernels &kernels, func::FuncOp source)
      : StepFunction(plan, host, source), kernels(kernels) {}

private:
  void emitRotaryTables() override;
  LogicalResult emitOp(Operation *op) override;
  void atEnd() override;

  LogicalResult emitKernel(Operation *op);
  LogicalResult emitLinear(LinearOp op);
  void emitNorm(Operation *op, Value input, Value residual, Value weight, float eps);
  void emitFusedAppend(QKNormRopeAppendOp op);
  void elementwise(Operation *op, StringRef name, function_ref<Value(DeviceEmitter &, ArrayRef<Value>)> compute);
  void setLaunchContext(Value op) { kernels.context = {argument("launch"), argument("launch_context"), op, layer()}; }
  /// Emits what one of the host's workers does; all of them walk over the step, as hooks expect.
  void whenLaunching(function_ref<void()> body) { e.when(worker == e.c(0), body); }

  static HostMemory memory(View view) { return {view.memory, view.count}; }
  DeviceRows rows(Value activation) {
    auto [view, stride] = StepFunction::rows(activation);
    return {memory(view), stride};
  }
  HostMemory weight(Value value) { return memory(StepFunction::weight(value)); }
  DeviceRotary rotary(StringRef name);
  DeviceCache cache(Value layer);
  DeviceBatch batch();

  DeviceKernels &kernels;
  /// The op whose result are the logits.
  LinearOp logits;
};
} // namespace

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

DeviceRotary HostEmitter::rotary(StringRef name) {
  RotaryOp op = rotaryOp(name);
  DeviceRotary result;
  result.headDim = op.getHeadDim();
  result.interleaved = op.getStyle() == RotaryStyle::Interleaved;
  result.table = memory(rotaryTable(op));
  return result;
}

DeviceCache HostEmitter::cache(Value layer) {
  DeviceCache result;
  describe(result);
  result.layer = index(layer);
  result.memory = memory(cacheMemory(result));
  return result;
}

LogicalResult HostEmitter::emitLinear(LinearOp op) {
  FailureOr<cpu::LinearWeights> weights = weightsOf(op);
  if (failed(weights))
    return failure();
  if (!isa<FloatType>(weights->element))
    return op.emitOpError("expected weights of f32, bf16 or f16 on a GPU, got ") << weights->element;
  DeviceLinear linear;
  static_cast<cpu::LinearWeights &>(linear) = *weights;
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
  const uint64_t k = features(op.getInput());
  const uint64_t length = ingot_rt_segment_length(k, linear.segmented ? INGOT_RT_K_SEGMENTS : 1);
  linear.partialStep = length % 32 != 0 || k % length % 32 != 0;
  if (placeOf(op.getInput()).column % 4 != 0)
    return op.emitOpError("expected an input that starts at a multiple of 4 features of what it is a part of, got ")
           << placeOf(op.getInput()).column;
  kernels.linear(e, linear);
  if (!placeOf(op.getResult()).logits)
    return success();
  logits = op;
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
    kernels.attention(e, shapeOf(attention), batch(), cache(attention.getLayer()), rows(attention.getQuery()),
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

LogicalResult HostEmitter::emitOp(Operation *op) {
  setLaunchContext(opNumber(op));
  LogicalResult emitted = success();
  whenLaunching([&] { emitted = emitKernel(op); });
  // After the op the hook, if there is one, with memory that a host can read only where the device is the host.
  Value hook = argument("hook"), null = LLVM::ZeroOp::create(e, hook.getType());
  e.when(LLVM::ICmpOp::create(e, LLVM::ICmpPredicate::ne, hook, null), [&] {
    SmallVector<Value> operands = {argument("hook_context"), worker, kernels.context.op, kernels.context.layer};
    operands.append(shown(op));
    callHook(e, hook, operands);
  });
  return emitted;
}

/// After the hook of the last op: logits are work space of the choice.
void HostEmitter::atEnd() {
  if (!logits)
    return;
  setLaunchContext(opNumber(logits));
  Value chooses = arith::CmpIOp::create(e, arith::CmpIPredicate::eq, argument("output"), e.i32(INGOT_RT_TOKENS));
  e.when(arith::AndIOp::create(e, chooses, worker == e.c(0)), [&] {
    Ix rowCount = rowsOf(logits.getInput());
    DeviceSampling sampling;
    sampling.setWords = count("token_set_words");
    sampling.rows = {argument("sampling"), rowCount * static_cast<int64_t>(sizeof(ingot_rt_sampling) / 8)};
    sampling.sets = {argument("token_sets"), rowCount * sampling.setWords * INGOT_RT_TOKEN_SETS};
    kernels.sample(e, rows(logits.getResult()), e.c(features(logits.getResult())), rowCount, sampling,
                   {argument("argmax"), rowCount});
  });
}

void HostEmitter::emitRotaryTables() {
  setLaunchContext(e.i32(plan.ops.ops.size()));
  whenLaunching([&] {
    for (const auto &[name, offset] : plan.rotaryTables) {
      RotaryOp op = rotaryOp(name);
      ArrayRef<float> longer;
      if (op.getLongInvFreq())
        longer = *op.getLongInvFreq();
      kernels.rotaryTable(e, name, batch(), rotary(name), op.getInvFreq(), longer, op.getScaling().convertToFloat());
    }
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// The pass
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
struct ConvertIngotToGPU : ingot::impl::ConvertIngotToGPUPassBase<ConvertIngotToGPU> {
  using Base::Base;

  void runOnOperation() override;
};
} // namespace

/// Emits an error for what the kernels do not read yet.
static LogicalResult checkStorage(const StepPlan &plan) {
  ModuleOp module = plan.module;
  if (plan.cache.getElementType().isInteger(8))
    return module.emitError("a GPU's kernels have no int8 cache yet; expected --kv-dtype=f32, bf16 or f16");
  for (auto parameter : module.getOps<ParameterOp>())
    if (isa<QuantizedType>(parameter.getTensorType().getElementType()))
      return parameter.emitError(
                 "a GPU's kernels have no quantized weights yet; expected --dtype=f32, bf16 or f16, got ")
             << parameter.getTensorType();
  return success();
}

void ConvertIngotToGPU::runOnOperation() {
  FailureOr<StepPlan> plan = planStep(getOperation());
  if (failed(plan) || failed(checkStorage(*plan)))
    return signalPassFailure();
  OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
  Location loc = getOperation().getLoc();
  auto device = mlir::gpu::GPUModuleOp::create(builder, loc, kernelsModuleName);
  auto host = ModuleOp::create(builder, loc, StringRef(name));
  DeviceKernels kernels(host, device);
  for (auto function : getOperation().getOps<func::FuncOp>())
    if (!function.isExternal() && failed(HostEmitter(*plan, host, kernels, function).emit()))
      return signalPassFailure();
  if (random) {
    std::set<std::pair<uint32_t, bool>> made;
    for (const ParameterLayout &parameter : plan->parameters.parameters) {
      bool panels = parameter.layout != INGOT_RT_ROWS;
      if (made.insert({parameter.dtype, panels}).second)
        kernels.randomWeights(ParameterOp(parameter.op).getTensorType().getElementType(), panels);
    }
  }
  for (Operation *part : {device.getOperation(), host.getOperation()}) {
    OpPassManager cleanup(part->getName().getStringRef());
    cleanup.addPass(createCanonicalizerPass());
    cleanup.addPass(createCSEPass());
    if (failed(runPipeline(cleanup, part)))
      return signalPassFailure();
  }
  finishStep(*plan, /*perWorker=*/0);
}
