//===- CodeGen.cpp - From the LLVM dialect to LLVM IR, assembly and object files
//----------------------------------===//

#include "compiler/Target/CodeGen.h"
#include "compiler/Pipelines/Options.h"
#include "ingot_rt/cpu_feature.h"
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
#include "llvm/TargetParser/AArch64TargetParser.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include <mutex>

using namespace llvm;

namespace ingot {

ArrayRef<TargetSystem> getTargetSystems() {
  static const std::vector<TargetSystem> systems = {
      {"x86_64-linux-gnu", "x86_64-unknown-linux-gnu", CompileOptions().cpus, "a name that LLVM knows, such as znver4"},
      {"aarch64-linux-gnu",
       "aarch64-unknown-linux-gnu",
       {"armv8-a", "armv8.2-a+dotprod", "armv8.2-a+dotprod+i8mm+bf16"},
       "an architecture or a CPU that LLVM knows, with or without extensions, such as neoverse-n1"},
  };
  return systems;
}

Expected<const TargetSystem *> getTargetSystem(StringRef triple) {
  std::string names;
  for (const TargetSystem &system : getTargetSystems()) {
    if (system.triple == triple)
      return &system;
    names += (names.empty() ? "" : ", ") + system.triple.str();
  }
  return createStringError("--target-triple: expected " + names + ", got '" + triple + "'");
}

const TargetSystem &getHostSystem() {
  Triple::ArchType arch = Triple(sys::getProcessTriple()).getArch();
  for (const TargetSystem &system : getTargetSystems())
    if (system.arch() == arch)
      return system;
  return getTargetSystems().front();
}

static Expected<const Target *> lookupTarget(const Triple &triple) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser();
  });
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return createStringError("no LLVM target for " + triple.str() + ": " + error);
  return target;
}

/// Fills in target.required, the bits of ingot_rt_cpu_feature that code for the target may use. Errors: LLVM does not
/// know the CPU, or it lacks what all kernels need.
static Error findRequired(const TargetSystem &system, CpuTarget &target, bool native = false) {
  bool arm = target.triple.isAArch64();
  auto unknown = [&] {
    return createStringError("--target-cpu: unknown CPU '" + target.name + "'; expected portable, native, " +
                             join(system.portable, ", ") + " or " + system.otherCpus);
  };
  Expected<const llvm::Target *> registered = lookupTarget(target.triple);
  if (!registered)
    return registered.takeError();
  std::unique_ptr<MCSubtargetInfo> generic(
      (*registered)->createMCSubtargetInfo(target.triple, arm ? "generic" : "x86-64", ""));
  if (target.cpu.empty() || (!native && !generic->isCPUStringValid(target.cpu)))
    return unknown();
  std::unique_ptr<MCSubtargetInfo> info(
      (*registered)->createMCSubtargetInfo(target.triple, target.cpu, target.features));
  auto has = [&](StringRef feature) { return info->checkFeatures(("+" + feature).str()); };
  auto hasAll = [&](ArrayRef<StringRef> features) { return all_of(features, has); };
  struct Requirement {
    SmallVector<StringRef> features;
    uint64_t bit;
  };
  static const std::vector<Requirement> x86 = {
      {{"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}, INGOT_RT_CPU_V3},
      {{"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}, INGOT_RT_CPU_AVX512},
      {{"avx512bf16"}, INGOT_RT_CPU_AVX512BF16},
      {{"avx512vnni"}, INGOT_RT_CPU_AVX512VNNI},
  };
  static const std::vector<Requirement> aarch64 = {
      {{"fp-armv8", "neon"}, INGOT_RT_CPU_NEON},
      {{"fullfp16"}, INGOT_RT_CPU_NEON_FP16},
      {{"dotprod"}, INGOT_RT_CPU_DOTPROD},
      {{"i8mm"}, INGOT_RT_CPU_I8MM},
      {{"bf16"}, INGOT_RT_CPU_BF16},
      {{"sve"}, INGOT_RT_CPU_SVE},
      {{"sve2"}, INGOT_RT_CPU_SVE2},
  };
  const std::vector<Requirement> &requirements = arm ? aarch64 : x86;
  for (const Requirement &requirement : requirements)
    if (hasAll(requirement.features))
      target.required |= requirement.bit;
  if (target.required & requirements.front().bit)
    return Error::success();
  std::string name =
      native ? "--target-cpu=native: this machine's " + target.cpu : "--target-cpu: '" + target.name + "'";
  return createStringError(name + (arm ? " lacks Advanced SIMD; expected armv8-a or better"
                                       : " lacks AVX2, FMA or F16C; expected x86-64-v3 or better"));
}

/// What LLVM is told of an architecture or a CPU with extensions, as clang's -march and -mcpu spell them. An unknown
/// one leaves `cpu` empty.
static void parseAArch64(StringRef name, CpuTarget &target) {
  SmallVector<StringRef> parts;
  name.split(parts, '+');
  AArch64::ExtensionSet extensions;
  if (const AArch64::ArchInfo *architecture = AArch64::parseArch(parts.front())) {
    extensions.addArchDefaults(*architecture);
    target.cpu = "generic";
  } else if (std::optional<AArch64::CpuInfo> cpu = AArch64::parseCpu(parts.front())) {
    extensions.addCPUDefaults(*cpu);
    target.cpu = parts.front().str();
  } else {
    return;
  }
  for (StringRef extension : drop_begin(parts))
    if (!extensions.parseModifier(extension))
      target.cpu.clear();
  std::vector<StringRef> features;
  extensions.toLLVMFeatureList(features);
  target.features = join(features, ",");
}

Expected<CpuTarget> getCpuTarget(const TargetSystem &system, StringRef name) {
  CpuTarget target{name.str(), name.str(), "", 0, Triple(system.llvmTriple)};
  if (target.triple.isAArch64()) {
    target.cpu.clear();
    parseAArch64(name, target);
  } else if (name == "x86-64-v4-bf16") {
    target.cpu = "x86-64-v4";
    target.features = "+avx512bf16,+avx512vnni";
  }
  if (Error error = findRequired(system, target))
    return error;
  return target;
}

Expected<CpuTarget> getNativeCpuTarget(const TargetSystem &system) {
  if (&system != &getHostSystem())
    return createStringError("--target-cpu=native: this machine is " + getHostSystem().triple +
                             ", which --target-triple=" + system.triple + " is not; expected portable, " +
                             join(system.portable, ", ") + " or " + system.otherCpus);
  CpuTarget target{"native", sys::getHostCPUName().str(), "", 0, Triple(system.llvmTriple)};
  SubtargetFeatures features;
  StringMap<bool> host = sys::getHostCPUFeatures();
  SmallVector<StringRef> names(host.keys());
  sort(names);
  for (StringRef feature : names)
    features.AddFeature(feature, host[feature]);
  target.features = features.getString();
  if (Error error = findRequired(system, target, /*native=*/true))
    return error;
  return target;
}

Expected<std::unique_ptr<TargetMachine>> createTargetMachine(const CpuTarget &target) {
  Expected<const llvm::Target *> registered = lookupTarget(target.triple);
  if (!registered)
    return registered.takeError();
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;
  options.FunctionSections = true;
  std::unique_ptr<TargetMachine> machine((*registered)
                                             ->createTargetMachine(target.triple, target.cpu, target.features, options,
                                                                   Reloc::Static, CodeModel::Small,
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
  result->setTargetTriple(target.triple);
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

Expected<SmallVector<char, 0>> emitConstants(Module &module, const CpuTarget &target) {
  Expected<std::unique_ptr<TargetMachine>> machine = createTargetMachine(target);
  if (!machine)
    return machine.takeError();
  module.setDataLayout((*machine)->createDataLayout());
  module.setTargetTriple((*machine)->getTargetTriple());
  return emitCode(module, **machine, /*assembly=*/false);
}

} // namespace ingot
