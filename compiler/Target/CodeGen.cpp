//===- CodeGen.cpp - From the LLVM dialect to LLVM IR, assembly and object files
//----------------------------------===//

#include "compiler/Target/CodeGen.h"
#include "ingot_rt/abi.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/TargetParser/Triple.h"
#include <mutex>

using namespace llvm;

namespace ingot {

static constexpr StringLiteral targetTriple = "x86_64-unknown-linux-gnu";

static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    InitializeNativeTargetAsmParser();
  });
}

static Expected<const Target *> lookupTarget() {
  initializeTarget();
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(Triple(targetTriple), error);
  if (!target)
    return createStringError("no LLVM target for " + targetTriple + ": " + error);
  return target;
}

/// The bits of ingot_rt_cpu_feature that code for `cpu` with `features` may
/// use.
static Expected<uint64_t> requiredFeatures(StringRef cpu, StringRef features) {
  Expected<const Target *> target = lookupTarget();
  if (!target)
    return target.takeError();
  std::unique_ptr<MCSubtargetInfo> info((*target)->createMCSubtargetInfo(Triple(targetTriple), cpu, features));
  auto has = [&](StringRef feature) { return info->checkFeatures(("+" + feature).str()); };
  uint64_t required = 0;
  bool v3 = true, v4 = true;
  for (StringRef feature : {"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"})
    v3 &= has(feature);
  for (StringRef feature : {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
    v4 &= has(feature);
  required |= v3 ? INGOT_RT_CPU_V3 : 0;
  required |= v4 ? INGOT_RT_CPU_AVX512 : 0;
  required |= has("avx512bf16") ? INGOT_RT_CPU_AVX512BF16 : 0;
  required |= has("avx512vnni") ? INGOT_RT_CPU_AVX512VNNI : 0;
  return required;
}

Expected<CpuTarget> getCpuTarget(StringRef name) {
  CpuTarget target{name.str(), name.str(), "", 0};
  if (name == "x86-64-v4-bf16") {
    target.cpu = "x86-64-v4";
    target.features = "+avx512bf16,+avx512vnni";
  }
  Expected<const llvm::Target *> registered = lookupTarget();
  if (!registered)
    return registered.takeError();
  std::unique_ptr<MCSubtargetInfo> generic((*registered)->createMCSubtargetInfo(Triple(targetTriple), "x86-64", ""));
  if (!generic->isCPUStringValid(target.cpu))
    return createStringError("--target-cpu: unknown CPU '" + name +
                             "'; expected portable, native, x86-64-v3, "
                             "x86-64-v4, x86-64-v4-bf16 or a name that LLVM "
                             "knows, such as znver4");
  Expected<uint64_t> required = requiredFeatures(target.cpu, target.features);
  if (!required)
    return required.takeError();
  if (!(*required & INGOT_RT_CPU_V3))
    return createStringError("--target-cpu: '" + name + "' lacks AVX2, FMA or F16C; expected x86-64-v3 or better");
  target.required = *required;
  return target;
}

Expected<CpuTarget> getNativeCpuTarget() {
  CpuTarget target{"native", sys::getHostCPUName().str(), "", 0};
  SubtargetFeatures features;
  StringMap<bool> host = sys::getHostCPUFeatures();
  SmallVector<StringRef> names(host.keys());
  sort(names);
  for (StringRef feature : names)
    features.AddFeature(feature, host[feature]);
  target.features = features.getString();
  Expected<uint64_t> required = requiredFeatures(target.cpu, target.features);
  if (!required)
    return required.takeError();
  if (!(*required & INGOT_RT_CPU_V3))
    return createStringError("--target-cpu=native: this machine's " + target.cpu +
                             " lacks AVX2, FMA or F16C; expected x86-64-v3 or better");
  target.required = *required;
  return target;
}

Expected<std::unique_ptr<TargetMachine>> createTargetMachine(const CpuTarget &target) {
  Expected<const llvm::Target *> registered = lookupTarget();
  if (!registered)
    return registered.takeError();
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  options.FunctionSections = true;
  std::unique_ptr<TargetMachine> machine((*registered)
                                             ->createTargetMachine(Triple(targetTriple), target.cpu, target.features,
                                                                   options, Reloc::Static, CodeModel::Small,
                                                                   CodeGenOptLevel::Default));
  if (!machine)
    return createStringError("LLVM cannot make code for " + target.name);
  return machine;
}

Expected<std::unique_ptr<Module>> translateVariant(mlir::ModuleOp module, const CpuTarget &target,
                                                   TargetMachine &machine, LLVMContext &context) {
  std::unique_ptr<Module> result =
      mlir::translateModuleToLLVMIR(module, context, target.name, /*disableVerification=*/true);
  if (!result)
    return createStringError("internal: the module '" + target.name + "' does not translate to LLVM IR");
  result->setDataLayout(machine.createDataLayout());
  result->setTargetTriple(Triple(targetTriple));
  for (Function &function : *result) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", target.cpu);
    if (!target.features.empty())
      function.addFnAttr("target-features", target.features);
    // LLVM tunes the generic x86-64-v4 for 256-bit vectors; our register tiles
    // are made for the full width.
    if (target.required & INGOT_RT_CPU_AVX512)
      function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr(Attribute::NoUnwind);
  }
  return result;
}

void optimizeVariant(Module &module, TargetMachine &machine) {
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = false;
  PassBuilder builder(&machine, tuning);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2).run(module, modules);
}

Expected<SmallVector<char, 0>> emitCode(Module &module, TargetMachine &machine, bool assembly) {
  SmallVector<char, 0> bytes;
  raw_svector_ostream stream(bytes);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr,
                                  assembly ? CodeGenFileType::AssemblyFile : CodeGenFileType::ObjectFile))
    return createStringError("LLVM cannot emit this kind of file");
  passes.run(module);
  return bytes;
}

} // namespace ingot
