//===- KernelDescriptions.h - The constants by which launches name their kernels ----------------------------------===//
//
// A launch hands on the address of `@ingot_kernel_<name>`, an ingot_rt_kernel of the host's module whose contents are
// known once the kernel is code. Who takes the kernels over, the emulator or a GPU, fills them in here.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CONVERSION_KERNELDESCRIPTIONS_H
#define INGOT_COMPILER_CONVERSION_KERNELDESCRIPTIONS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"
#include "llvm/ADT/StringMap.h"

namespace ingot {

/// What is told of a kernel.
struct KernelFacts {
  /// The function of one thread for the emulator; null where a GPU runs the kernel.
  mlir::LLVM::LLVMFuncOp thread;
  uint32_t threads = 0;      ///< in a block
  uint32_t sharedBytes = 0;  ///< of a block
  mlir::ArrayAttr arguments; ///< their names
  /// Names of the constant tables that the kernel reads, globals of the host's module.
  llvm::ArrayRef<llvm::StringRef> constants;
};

/// Fills in the descriptions of one module of launches, `host`.
class KernelDescriptions {
public:
  explicit KernelDescriptions(mlir::ModuleOp host);

  /// The address, computed at `b`, of a constant text of the host's module.
  mlir::Value text(mlir::ImplicitLocOpBuilder &b, llvm::StringRef value);
  /// Gives `@ingot_kernel_<kernel>` its contents.
  void describe(mlir::Location loc, llvm::StringRef kernel, const KernelFacts &facts);

  /// Offsets in a block's shared memory for variables of `device`, which are placed as they are asked for.
  struct SharedLayout {
    llvm::StringMap<uint32_t> offsets;
    uint32_t bytes = 0;
  };
  /// The offset of `global`; an error where it has a value or shared memory would have 2^32 bytes.
  static mlir::FailureOr<uint32_t> place(SharedLayout &layout, mlir::LLVM::GlobalOp global,
                                         const mlir::DataLayout &types);
  /// Threads of a kernel's blocks.
  static uint32_t threadsOf(mlir::LLVM::LLVMFuncOp kernel);
  /// The names of a kernel's arguments, or null and an error.
  static mlir::ArrayAttr argumentsOf(mlir::LLVM::LLVMFuncOp kernel);
  /// Whether a variable of the device lies in shared memory.
  static bool isShared(mlir::LLVM::GlobalOp global);

private:
  mlir::LLVM::GlobalOp table(mlir::ImplicitLocOpBuilder &b, llvm::StringRef name, mlir::Type type,
                             llvm::function_ref<mlir::Value(mlir::Value)> fill);

  mlir::ModuleOp host;
  mlir::DataLayout layout;
  mlir::LLVM::LLVMPointerType pointer;
  llvm::StringMap<std::string> texts;
};

} // namespace ingot

#endif // INGOT_COMPILER_CONVERSION_KERNELDESCRIPTIONS_H
