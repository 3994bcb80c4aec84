//===- PTX.h - Kernels in the NVVM dialect as PTX -----------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_PTX_H
#define INGOT_COMPILER_TARGET_PTX_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include <string>

namespace ingot {

/// The PTX of `gpu.module @kernels` of a module at stage nvvm, for each architecture ("sm_90") in turn, headed by a
/// comment that names it. Emits an error where LLVM does not know an architecture.
mlir::FailureOr<std::string> emitPTX(mlir::ModuleOp module, llvm::ArrayRef<std::string> architectures);

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_PTX_H
