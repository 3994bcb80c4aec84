//===- CodeGen.h - From the LLVM dialect to LLVM IR, assembly and object files
//------------------------------------===//
//
// One nested module per CPU variant becomes one object. Everything that decides
// the bytes is passed in, nothing is read from the machine, so that the same
// input gives the same object everywhere.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_CODEGEN_H
#define INGOT_COMPILER_TARGET_CODEGEN_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/TargetParser/Triple.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm
namespace mlir {
class ModuleOp;
} // namespace mlir

namespace ingot {

/// A system that executables are made for.
struct TargetSystem {
  llvm::StringLiteral triple;        ///< as --target-triple spells it; its runtime lies in lib/ingot/<triple>
  llvm::StringLiteral llvmTriple;    ///< as LLVM spells it
  std::vector<std::string> portable; ///< CPU variants of --target-cpu=portable, in the order in which they are stored
  llvm::StringLiteral otherCpus;     ///< what else --target-cpu takes, in words

  llvm::Triple::ArchType arch() const { return llvm::Triple(llvmTriple).getArch(); }
};

/// All of them.
llvm::ArrayRef<TargetSystem> getTargetSystems();
/// The one that --target-triple=`triple` asks for. Errors: an unknown one, with the valid ones.
llvm::Expected<const TargetSystem *> getTargetSystem(llvm::StringRef triple);
/// The system that this program runs on.
const TargetSystem &getHostSystem();

/// What LLVM is told of a CPU variant.
struct CpuTarget {
  std::string name;     ///< as --target-cpu spells it, and the nested module's name
  std::string cpu;      ///< LLVM's name
  std::string features; ///< LLVM's feature string
  uint64_t required;    ///< enum ingot_rt_cpu_feature bits that the runtime checks
  llvm::Triple triple;
};

/// The variant called `name` of `system`: on x86-64 "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16" or a name that LLVM
/// knows, on AArch64 an architecture or a CPU that LLVM knows, with extensions ("armv8.2-a+dotprod", "neoverse-n1").
/// Errors: an unknown name, or a CPU below x86-64-v3 or without Advanced SIMD, with the valid names.
llvm::Expected<CpuTarget> getCpuTarget(const TargetSystem &system, llvm::StringRef name);

/// The `--target-cpu=native` variant: the machine's CPU and features as LLVM names them. Errors: `system` is not the
/// one that this program runs on.
llvm::Expected<CpuTarget> getNativeCpuTarget(const TargetSystem &system);

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createTargetMachine(const CpuTarget &target);

/// Translates a nested module in the LLVM dialect and sets triple, data layout
/// and per-function CPU attributes.
llvm::Expected<std::unique_ptr<llvm::Module>> translateVariant(mlir::ModuleOp module, const CpuTarget &target,
                                                               llvm::TargetMachine &machine,
                                                               llvm::LLVMContext &context);

/// Runs LLVM's optimizations on kernels whose loops are already shaped: no loop
/// vectorizer, no SLP, no unrolling beyond what the IR says, which keeps both
/// the compile time and the order of every sum.
void optimizeVariant(llvm::Module &module, llvm::TargetMachine &machine);

/// Emits assembly (`assembly`) or an object.
llvm::Expected<llvm::SmallVector<char, 0>> emitCode(llvm::Module &module, llvm::TargetMachine &machine, bool assembly);
/// Emits an object of constants, which are laid out for `target`.
llvm::Expected<llvm::SmallVector<char, 0>> emitConstants(llvm::Module &module, const CpuTarget &target);

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_CODEGEN_H
