//===- PTX.cpp - Kernels in the NVVM dialect as PTX ---------------------------------------------------------------===//
//
// LLVM's NVPTX backend. Contraction is off, as everywhere: a multiply-add is fused where the IR says so.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Target/PTX.h"
#include "compiler/Conversion/StepArguments.h"
#include "compiler/Target/CodeGen.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Triple.h"

using namespace llvm;

namespace ingot {

static constexpr StringLiteral nvptxTriple = "nvptx64-nvidia-cuda";
/// The PTX version that the oldest driver we ask for reads (CUDA 12.0); architectures since then raise it.
static constexpr StringLiteral ptxFeatures = "+ptx80";

extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

static mlir::FailureOr<std::unique_ptr<TargetMachine>> createMachine(mlir::Operation *where, StringRef architecture) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  Triple triple(nvptxTriple);
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return where->emitError("LLVM has no target ") << nvptxTriple.str() << ": " << error;
  std::unique_ptr<MCSubtargetInfo> generic(target->createMCSubtargetInfo(triple, "sm_80", ""));
  if (!generic->isCPUStringValid(architecture))
    return where->emitError("--cuda-arch: LLVM does not know '") << architecture << "'";
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  return std::unique_ptr<TargetMachine>(target->createTargetMachine(
      triple, architecture, ptxFeatures, options, Reloc::PIC_, std::nullopt, CodeGenOptLevel::Aggressive));
}

mlir::FailureOr<std::vector<DeviceAssembly>> emitPTX(mlir::ModuleOp module, ArrayRef<std::string> architectures) {
  auto kernels = module.lookupSymbol<mlir::gpu::GPUModuleOp>(kernelsModuleName);
  if (!kernels)
    return module.emitError("expected a gpu.module @") << kernelsModuleName;
  std::vector<DeviceAssembly> parts;
  for (const std::string &architecture : architectures) {
    mlir::FailureOr<std::unique_ptr<TargetMachine>> machine = createMachine(kernels, architecture);
    if (mlir::failed(machine))
      return mlir::failure();
    LLVMContext context;
    std::unique_ptr<Module> translated = mlir::translateModuleToLLVMIR(kernels, context, "kernels");
    if (!translated)
      return kernels.emitError("the kernels do not translate to LLVM IR");
    translated->setTargetTriple(Triple(nvptxTriple));
    translated->setDataLayout((*machine)->createDataLayout());
    optimizeVariant(*translated, **machine);
    Expected<SmallVector<char, 0>> code = emitCode(*translated, **machine, /*assembly=*/true);
    if (!code)
      return kernels.emitError(toString(code.takeError()));
    parts.push_back({architecture, std::string(code->begin(), code->end())});
  }
  return parts;
}

std::vector<std::string> getKernelNames(mlir::ModuleOp module) {
  std::vector<std::string> names;
  if (auto kernels = module.lookupSymbol<mlir::gpu::GPUModuleOp>(kernelsModuleName))
    for (auto kernel : kernels.getOps<mlir::LLVM::LLVMFuncOp>())
      names.push_back(kernel.getSymName().str());
  return names;
}

std::string joinAssembly(ArrayRef<DeviceAssembly> parts) {
  std::string text;
  for (const DeviceAssembly &part : parts)
    text += "// " + part.architecture + "\n" + part.text;
  return text;
}

} // namespace ingot
