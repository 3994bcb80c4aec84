//===- DetachKernels.cpp - Launches without the kernels that a GPU has --------------------------------------------===//
//
// The kernels of `gpu.module @kernels` have become code of a GPU, or will; what stays is the host's module of launches,
// whose descriptions of kernels get their contents.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Conversion/KernelDescriptions.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Conversion/StepArguments.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace ingot {
#define GEN_PASS_DEF_DETACHKERNELSPASS
#include "compiler/Conversion/Passes.h.inc"
} // namespace ingot

using namespace mlir;
using namespace ingot;

namespace {
struct DetachKernels : ingot::impl::DetachKernelsPassBase<DetachKernels> {
  using Base::Base;

  void runOnOperation() override;
  LogicalResult describe(mlir::gpu::GPUModuleOp device, LLVM::LLVMFuncOp kernel, KernelDescriptions &descriptions);
};
} // namespace

LogicalResult DetachKernels::describe(mlir::gpu::GPUModuleOp device, LLVM::LLVMFuncOp kernel,
                                      KernelDescriptions &descriptions) {
  KernelFacts facts;
  facts.arguments = KernelDescriptions::argumentsOf(kernel);
  if (!facts.arguments)
    return failure();
  DataLayout types(device);
  KernelDescriptions::SharedLayout shared;
  WalkResult placed = kernel.walk([&](LLVM::AddressOfOp address) {
    auto global = device.lookupSymbol<LLVM::GlobalOp>(address.getGlobalName());
    if (global && KernelDescriptions::isShared(global) && failed(KernelDescriptions::place(shared, global, types)))
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (placed.wasInterrupted())
    return failure();
  facts.threads = KernelDescriptions::threadsOf(kernel);
  facts.sharedBytes = shared.bytes;
  descriptions.describe(kernel.getLoc(), kernel.getSymName(), facts);
  return success();
}

void DetachKernels::runOnOperation() {
  auto device = getOperation().lookupSymbol<mlir::gpu::GPUModuleOp>(kernelsModuleName);
  auto host = getOperation().lookupSymbol<ModuleOp>(cudaVariantName);
  if (!device || !host) {
    getOperation().emitError("expected a gpu.module @")
        << kernelsModuleName << " and a module @" << cudaVariantName << " of launches";
    return signalPassFailure();
  }
  KernelDescriptions descriptions(host);
  for (auto kernel : device.getOps<LLVM::LLVMFuncOp>())
    if (failed(describe(device, kernel, descriptions)))
      return signalPassFailure();
  device.erase();
}
