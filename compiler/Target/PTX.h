//===- PTX.h - Kernels in the NVVM dialect as PTX -----------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_PTX_H
#define INGOT_COMPILER_TARGET_PTX_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include <string>
#include <vector>

namespace ingot {

/// Code of a GPU for one architecture.
struct DeviceAssembly {
  std::string architecture; ///< "sm_90"
  std::string text;         ///< PTX or SASS
};

/// The PTX of `gpu.module @kernels` of a module at stage nvvm, for each architecture in turn. Emits an error where LLVM
/// does not know an architecture.
mlir::FailureOr<std::vector<DeviceAssembly>> emitPTX(mlir::ModuleOp module, llvm::ArrayRef<std::string> architectures);

/// The names of the kernels, in order.
std::vector<std::string> getKernelNames(mlir::ModuleOp module);

/// All texts, each headed by a comment that names its architecture.
std::string joinAssembly(llvm::ArrayRef<DeviceAssembly> parts);

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_PTX_H
