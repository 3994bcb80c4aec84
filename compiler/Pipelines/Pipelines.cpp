//===- Pipelines.cpp - The sequence of passes of each phase -------------------------------------------------------===//
//
// See Pipelines.h.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Pipelines/Pipelines.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Transforms/Passes.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace ingot;

CompileOptions PipelineOptions::toCompileOptions() const {
  CompileOptions options;
  options.dtype = dtype;
  options.quantize = quantize;
  options.compute = compute;
  options.attention = attention;
  options.fuse = fuse;
  options.target = target;
  options.randomWeights = random;
  if (!cpus.empty())
    options.cpus.assign(cpus.begin(), cpus.end());
  return options;
}

/// The check of the contract of `phase`: at the end of the step that makes it, and at the start of the next one, which
/// may have been given IR that someone wrote.
static std::unique_ptr<Pass> verify(Phase phase) {
  return createVerifyPhasePass(VerifyPhasePassOptions{getPhaseName(phase).str()});
}

void ingot::populateFusedPipeline(OpPassManager &pm, const CompileOptions &options) {
  pm.addPass(verify(Phase::Ingot));
  if (options.fuse) {
    pm.addNestedPass<func::FuncOp>(createFuseQKVPass());
    pm.addNestedPass<func::FuncOp>(createFuseQKNormRopeAppendPass());
    pm.addNestedPass<func::FuncOp>(createFuseGateUpPass());
    // Before the epilogues: a sum whose norm is at hand is worth more there.
    pm.addNestedPass<func::FuncOp>(createFuseAddRMSNormPass());
    pm.addNestedPass<func::FuncOp>(createFuseLinearEpiloguePass());
  }
  pm.addPass(verify(Phase::Fused));
}

void ingot::populatePackedPipeline(OpPassManager &pm, const CompileOptions &options) {
  pm.addPass(verify(Phase::Fused));
  pm.addPass(createMergeParametersPass());
  pm.addPass(createSelectLayoutPass(SelectLayoutPassOptions{getStorageTypeName(options.dtype).str(),
                                                            getQuantizeName(options.quantize).str(),
                                                            getComputeTypeName(options.compute).str()}));
  pm.addPass(createPackParametersPass());
  pm.addPass(createPlanArenaPass());
  pm.addPass(verify(Phase::Packed));
}

void ingot::populateLoopsPipeline(OpPassManager &pm, const CompileOptions &options) {
  pm.addPass(verify(Phase::Packed));
  ConvertIngotToLoopsPassOptions conversion;
  conversion.cpus.assign(options.cpus.begin(), options.cpus.end());
  conversion.attention = getAttentionLoweringName(options.attention).str();
  pm.addPass(createConvertIngotToLoopsPass(std::move(conversion)));
  pm.addPass(verify(Phase::Loops));
}

void ingot::populateLLVMPipeline(OpPassManager &pm, const CompileOptions &) {
  pm.addPass(createConvertLoopsToLLVMPass());
}

void ingot::populateGPUPipeline(OpPassManager &pm, const CompileOptions &options) {
  pm.addPass(verify(Phase::Packed));
  pm.addPass(createConvertIngotToGPUPass(
      ConvertIngotToGPUPassOptions{getTargetName(options.target).str(), options.randomWeights}));
  // The same contract: nothing of ingot but the parameters.
  pm.addPass(verify(Phase::Loops));
}

void ingot::populateNVVMPipeline(OpPassManager &pm, const CompileOptions &) {
  OpPassManager &kernels = pm.nest<mlir::gpu::GPUModuleOp>();
  kernels.addPass(createSCFToControlFlowPass());
  // Before the conversion to NVVM, which would make calls to libdevice of these ops.
  kernels.addPass(createConvertMathToLLVMPass());
  kernels.addPass(createConvertVectorToLLVMPass());
  kernels.addPass(createConvertGpuOpsToNVVMOps());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
}

void ingot::populateLaunchesPipeline(OpPassManager &pm, const CompileOptions &options) {
  if (options.target == TargetKind::CUDA)
    pm.addPass(createDetachKernelsPass());
  else
    pm.addPass(createEmulateNVVMPass());
  pm.addPass(createConvertLoopsToLLVMPass());
}

void ingot::registerPipelines() {
  registerIngotTransformsPasses();
  registerIngotConversionPasses();
  PassPipelineRegistration<PipelineOptions>(
      "ingot-to-fused", "phase ingot to phase fused",
      [](OpPassManager &pm, const PipelineOptions &options) { populateFusedPipeline(pm, options.toCompileOptions()); });
  PassPipelineRegistration<PipelineOptions>("fused-to-packed", "phase fused to phase packed",
                                            [](OpPassManager &pm, const PipelineOptions &options) {
                                              populatePackedPipeline(pm, options.toCompileOptions());
                                            });
  PassPipelineRegistration<PipelineOptions>(
      "packed-to-loops", "phase packed to phase loops",
      [](OpPassManager &pm, const PipelineOptions &options) { populateLoopsPipeline(pm, options.toCompileOptions()); });
  PassPipelineRegistration<PipelineOptions>(
      "loops-to-llvm", "phase loops to phase llvm",
      [](OpPassManager &pm, const PipelineOptions &options) { populateLLVMPipeline(pm, options.toCompileOptions()); });
  PassPipelineRegistration<PipelineOptions>(
      "packed-to-gpu", "phase packed to phase gpu",
      [](OpPassManager &pm, const PipelineOptions &options) { populateGPUPipeline(pm, options.toCompileOptions()); });
  PassPipelineRegistration<PipelineOptions>(
      "gpu-to-nvvm", "phase gpu to phase nvvm",
      [](OpPassManager &pm, const PipelineOptions &options) { populateNVVMPipeline(pm, options.toCompileOptions()); });
  PassPipelineRegistration<PipelineOptions>(
      "nvvm-to-llvm", "phase nvvm to phase llvm, with the kernels for the emulator or, target=cuda, without",
      [](OpPassManager &pm, const PipelineOptions &options) {
        populateLaunchesPipeline(pm, options.toCompileOptions());
      });
}
