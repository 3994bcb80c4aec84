//===- Compile.cpp - One run of the compiler: import, passes, code, executable
//------------------------------------===//

#include "tools/ingotc/Compile.h"
#include "compiler/Conversion/ModelLayout.h"
#include "compiler/Import/Import.h"
#include "compiler/Pipelines/Pipelines.h"
#include "compiler/Target/CodeGen.h"
#include "compiler/Target/CudaToolkit.h"
#include "compiler/Target/Executable.h"
#include "compiler/Target/Image.h"
#include "compiler/Target/Link.h"
#include "compiler/Target/Model.h"
#include "compiler/Target/OutputFile.h"
#include "compiler/Target/PTX.h"
#include "compiler/Target/Selftest.h"
#include "compiler/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "tools/ingotc/Progress.h"
#include "tools/ingotc/TextSections.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include <chrono>
#include <optional>
#include <thread>

using namespace llvm;

namespace ingot {

namespace {

/// The state of one compilation, phase after phase.
class Compilation {
public:
  Compilation(const CommandLine &line, StringRef program) : line(line), program(program) {}
  Error run();

private:
  Error import();
  Error runPasses(Phase phase);
  Error describe();
  Error selectTargets();
  Error findToolkit();
  Error compileKernels();
  Error emitText();
  Error emitObject();
  Error emitExecutable();
  Expected<std::vector<SmallVector<char, 0>>> compileVariants(Phase phase);
  Expected<SmallVector<char, 0>> compileVariant(mlir::ModuleOp module, const CpuTarget &target, Phase phase);
  Expected<std::vector<PayloadSection>> makeSections(StringRef runtime);
  void report(const ExecutableSizes &sizes) const;

  const CommandLine &line;
  StringRef program;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  mlir::MLIRContext context;
  ImportResult imported;
  std::vector<CpuTarget> targets;
  std::string runtimeFolder; ///< for an executable
  // With --target=cuda: what makes machine code of kernels, their text where that is asked for, and their object.
  std::optional<CudaToolkit> toolkit;
  std::string deviceText;
  SmallVector<char, 0> deviceCode;
  CompileOptions options;
  /// The module as it was at the end of phase `packed`: recipes, layers and
  /// cache, which later phases lower away.
  mlir::OwningOpRef<mlir::ModuleOp> packed;
  std::vector<PackedParameter> parameters;
  ModelRecord record;
};

} // namespace

/// Refuses an output that would replace a file of the model: the file that was named, or one that a directory of a
/// model may have, whether this compilation reads it or not.
static Error checkOutput(StringRef output, StringRef input) {
  auto check = [&](StringRef file) -> Error {
    if (!sys::fs::equivalent(output, file))
      return Error::success();
    return createStringError(output + ": is a file of the model" +
                             (file == output ? Twine("") : " ('" + Twine(file) + "')") +
                             ", which the output would replace; expected another name");
  };
  if (output.empty() || !sys::fs::exists(output))
    return Error::success();
  if (!sys::fs::is_directory(input))
    return check(input);
  std::error_code code;
  for (sys::fs::directory_iterator entry(input, code), end; entry != end && !code; entry.increment(code))
    if (is_contained({".json", ".safetensors", ".gguf", ".model", ".jinja", ".bin"},
                     sys::path::extension(entry->path())))
      if (Error error = check(entry->path()))
        return error;
  return Error::success();
}

static std::optional<ElementKind> elementKindOf(StorageType type) {
  switch (type) {
  case StorageType::Auto:
    return std::nullopt;
  case StorageType::F32:
    return ElementKind::F32;
  case StorageType::BF16:
    return ElementKind::BF16;
  case StorageType::F16:
    return ElementKind::F16;
  case StorageType::Int8:
    return ElementKind::I8;
  }
  llvm_unreachable("every storage type is listed");
}

Error Compilation::import() {
  ImportOptions importOptions;
  importOptions.randomSeed = line.randomSeed;
  importOptions.weightsFrom = line.weightsFrom;
  importOptions.dtype = elementKindOf(options.dtype);
  importOptions.kvDtype = elementKindOf(options.kvDtype);
  importOptions.quantize = options.quantize != Quantize::None;
  importOptions.maxContext = options.maxContext;
  importOptions.maxBatch = options.maxBatch;
  importOptions.maxStepTokens = options.maxStepTokens;
  importOptions.ignoredKeys = line.ignoredKeys;
  importOptions.ignoredTensors = line.ignoredTensors;
  Expected<ImportResult> result = importModel(context, line.model, importOptions);
  if (!result)
    return result.takeError();
  imported = std::move(*result);
  if (!line.quiet)
    for (const std::string &warning : imported.warnings)
      errs() << "warning: " << warning << "\n";
  return Error::success();
}

Error Compilation::runPasses(Phase phase) {
  mlir::PassManager passes(&context);
  passes.enableVerifier(true);
  switch (phase) {
  case Phase::Fused:
    populateFusedPipeline(passes, options);
    break;
  case Phase::Packed:
    populatePackedPipeline(passes, options);
    break;
  case Phase::Loops:
    populateLoopsPipeline(passes, options);
    break;
  case Phase::GPU:
    populateGPUPipeline(passes, options);
    break;
  case Phase::NVVM:
    populateNVVMPipeline(passes, options);
    break;
  case Phase::LLVM:
    if (options.target == TargetKind::CPU)
      populateLLVMPipeline(passes, options);
    else
      populateLaunchesPipeline(passes, options);
    break;
  default:
    llvm_unreachable("other phases have no passes");
  }
  if (mlir::failed(passes.run(*imported.module)))
    return createStringError(line.model + ": phase " + getPhaseName(phase) + " failed");
  return Error::success();
}

Error Compilation::describe() {
  packed = imported.module->clone();
  mlir::FailureOr<std::vector<PackedParameter>> layouts = getPackedParameters(*packed);
  if (mlir::failed(layouts))
    return createStringError(line.model + ": its parameters cannot be laid out");
  parameters = std::move(*layouts);
  const auto *random = imported.randomSeed ? static_cast<const RandomCheckpoint *>(imported.checkpoint.get()) : nullptr;
  mlir::FailureOr<ModelRecord> described = describeModel(*packed, parameters, random);
  if (mlir::failed(described))
    return createStringError(line.model + ": the model cannot be described");
  record = std::move(*described);
  return Error::success();
}

Error Compilation::selectTargets() {
  Expected<const TargetSystem *> system = getTargetSystem(line.triple);
  if (!system)
    return system.takeError();
  for (const std::string &name : options.cpus) {
    Expected<CpuTarget> target = name == "native" ? getNativeCpuTarget(**system) : getCpuTarget(**system, name);
    if (!target)
      return target.takeError();
    // The host's part, with the kernels where the host emulates them, is one variant.
    if (options.target != TargetKind::CPU)
      target->name = getTargetName(options.target).str();
    targets.push_back(std::move(*target));
  }
  if (line.emit != Phase::Exe)
    return Error::success();
  Expected<std::string> folder = findRuntime(program, (*system)->triple);
  if (!folder)
    return folder.takeError();
  runtimeFolder = std::move(*folder);
  if (options.target == TargetKind::CUDA)
    return checkRuntime(runtimeFolder, LinkKind::Cuda);
  return Error::success();
}

/// Machine code of the kernels, which later phases have no more.
Error Compilation::compileKernels() {
  mlir::FailureOr<std::vector<DeviceAssembly>> ptx = emitPTX(*imported.module, options.cudaArchitectures);
  if (mlir::failed(ptx))
    return createStringError(line.model + ": the kernels cannot be translated to PTX");
  if (line.emit == Phase::PTX) {
    deviceText = joinAssembly(*ptx);
    return Error::success();
  }
  if (line.emit == Phase::SASS) {
    Expected<std::vector<DeviceAssembly>> sass = toolkit->disassemble(*ptx);
    if (!sass)
      return sass.takeError();
    deviceText = joinAssembly(*sass);
    return Error::success();
  }
  Expected<SmallVector<char, 0>> fatbin = toolkit->makeFatbin(*ptx);
  if (!fatbin)
    return fatbin.takeError();
  Expected<SmallVector<char, 0>> object = emitDeviceCode(*fatbin, options.cudaArchitectures, toolkit->version(),
                                                         getKernelNames(*imported.module), targets.front());
  if (!object)
    return object.takeError();
  deviceCode = std::move(*object);
  return Error::success();
}

/// Looks for the tools that make machine code of GPUs before any work is done.
Error Compilation::findToolkit() {
  if (options.target != TargetKind::CUDA || !is_contained({Phase::SASS, Phase::Obj, Phase::Exe}, line.emit))
    return Error::success();
  Expected<CudaToolkit> found = CudaToolkit::find();
  if (!found)
    return createStringError("--target=cuda: " + toString(found.takeError()));
  toolkit = std::move(*found);
  return Error::success();
}

/// The nested module of a variant.
static mlir::ModuleOp findVariant(mlir::ModuleOp module, StringRef name) {
  return module.lookupSymbol<mlir::ModuleOp>(name);
}

Expected<SmallVector<char, 0>> Compilation::compileVariant(mlir::ModuleOp module, const CpuTarget &target,
                                                           Phase phase) {
  Expected<std::unique_ptr<TargetMachine>> machine = createTargetMachine(target);
  if (!machine)
    return machine.takeError();
  LLVMContext llvmContext;
  Expected<std::unique_ptr<Module>> translated = translateVariant(module, target, **machine, llvmContext);
  if (!translated)
    return translated.takeError();
  optimizeVariant(**translated, **machine);
  if (phase != Phase::LLVMIR)
    return emitCode(**translated, **machine, phase == Phase::Asm);
  SmallVector<char, 0> text;
  raw_svector_ostream stream(text);
  (*translated)->print(stream, nullptr);
  return text;
}

Expected<std::vector<SmallVector<char, 0>>> Compilation::compileVariants(Phase phase) {
  std::vector<Expected<SmallVector<char, 0>>> results;
  for (const CpuTarget &target : targets)
    results.emplace_back(createStringError("internal: no module for " + target.name));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < targets.size(); ++i)
    if (mlir::ModuleOp module = findVariant(*imported.module, targets[i].name))
      threads.emplace_back([&, i, module] {
        consumeError(results[i].takeError());
        results[i] = compileVariant(module, targets[i], phase);
      });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<SmallVector<char, 0>> outputs;
  Error errors = Error::success();
  for (Expected<SmallVector<char, 0>> &result : results) {
    if (result)
      outputs.push_back(std::move(*result));
    else
      errors = joinErrors(std::move(errors), result.takeError());
  }
  if (errors)
    return errors;
  return outputs;
}

/// Writes text or bytes to -o, or to stdout without it.
static Error writeOutput(StringRef output, StringRef bytes) {
  if (output.empty() || output == "-") {
    outs() << bytes;
    outs().flush();
    if (outs().has_error())
      return createStringError("stdout: " + outs().error().message());
    return Error::success();
  }
  Expected<OutputFile> file = OutputFile::create(output);
  if (!file)
    return file.takeError();
  if (!bytes.empty()) {
    Expected<MutableArrayRef<char>> mapped = file->map(bytes.size());
    if (!mapped)
      return mapped.takeError();
    copy(bytes, mapped->begin());
  }
  return file->keep(/*executable=*/false);
}

Error Compilation::emitText() {
  if (line.emit == Phase::PTX || line.emit == Phase::SASS)
    return writeOutput(line.output, deviceText);
  if (line.emit <= Phase::LLVM) {
    std::string text;
    raw_string_ostream stream(text);
    imported.module->print(stream);
    stream << "\n";
    return writeOutput(line.output, text);
  }
  Expected<std::vector<SmallVector<char, 0>>> outputs = compileVariants(line.emit);
  if (!outputs)
    return outputs.takeError();
  std::string text;
  for (auto [target, output] : zip(targets, *outputs)) {
    text += (line.emit == Phase::LLVMIR ? "; " : target.triple.isAArch64() ? "// " : "# ") + target.name + "\n";
    text.append(output.begin(), output.end());
  }
  return writeOutput(line.output, text);
}

Error Compilation::emitObject() {
  Expected<std::vector<SmallVector<char, 0>>> objects = compileVariants(Phase::Obj);
  if (!objects)
    return objects.takeError();
  Expected<SmallVector<char, 0>> tables = emitModelTables(record, targets.front());
  if (!tables)
    return tables.takeError();
  objects->push_back(std::move(*tables));
  if (!deviceCode.empty())
    objects->push_back(std::move(deviceCode));
  Expected<SmallVector<char, 0>> merged = mergeObjects(*objects);
  if (!merged)
    return merged.takeError();
  return writeOutput(line.output, StringRef(merged->data(), merged->size()));
}

Expected<std::vector<PayloadSection>> Compilation::makeSections(StringRef runtime) {
  std::vector<PayloadSection> sections;
  if (imported.tokenizer.kind != TokenizerSource::Kind::None) {
    Expected<std::string> tokenizer = makeTokenizerSection(imported.tokenizer, line.model, imported.vocab);
    if (!tokenizer)
      return tokenizer.takeError();
    sections.push_back({INGOT_RT_SECTION_TOKENIZER, std::move(*tokenizer)});
  }
  if (!imported.chat.templates.empty()) {
    Expected<std::string> chat = makeChatSection(imported.chat);
    if (!chat)
      return chat.takeError();
    sections.push_back({INGOT_RT_SECTION_TEMPLATE, std::move(*chat)});
  }
  sections.push_back({INGOT_RT_SECTION_GENERATION, makeGenerationSection(imported.generation)});
  sections.push_back({INGOT_RT_SECTION_LEDGER, makeLedgerSection(imported.ledger)});
  Expected<std::string> licenses = makeLicensesSection(imported.license, runtime);
  if (!licenses)
    return licenses.takeError();
  sections.push_back({INGOT_RT_SECTION_LICENSES, std::move(*licenses)});
  SelftestReference reference;
  if (imported.randomSeed)
    reference.reason = "the weights are random";
  else if (!line.selftest)
    reference.reason = "compiled with --selftest=none";
  else {
    Expected<SelftestReference> computed = computeSelftest(*packed, parameters, *imported.checkpoint);
    if (!computed)
      return computed.takeError();
    reference = std::move(*computed);
  }
  sections.push_back({INGOT_RT_SECTION_SELFTEST, makeSelftestSection(reference)});
  sections.push_back({INGOT_RT_SECTION_BUILD, "ingotc " INGOT_VERSION "\n" + line.resolved()});
  sections.push_back({INGOT_RT_SECTION_MEMORY, makeArenaPlanSection(*packed)});
  return sections;
}

Error Compilation::emitExecutable() {
  Progress progress(line.quiet);
  progress.phase("code");
  ExecutableInput input;
  Expected<std::vector<SmallVector<char, 0>>> objects = compileVariants(Phase::Obj);
  if (!objects)
    return objects.takeError();
  input.objects = std::move(*objects);
  if (options.target == TargetKind::CUDA) {
    input.objects.push_back(std::move(deviceCode));
    input.link = LinkKind::Cuda;
  }
  progress.phase("tables");
  input.runtimeFolder = runtimeFolder;
  Expected<std::vector<PayloadSection>> sections = makeSections(input.runtimeFolder);
  if (!sections)
    return sections.takeError();
  input.sections = std::move(*sections);
  input.target = targets.front();
  input.record = record;
  input.parameters = parameters;
  input.checkpoint = imported.checkpoint.get();
  input.place = imported.randomSeed    ? WeightsPlace::Random
                : line.separateWeights ? WeightsPlace::Separate
                                       : WeightsPlace::Embedded;
  input.output = line.output;
  progress.phase("weights");
  Expected<ExecutableSizes> sizes =
      writeExecutable(input, [&](uint64_t bytes) { progress.update(bytes, record.fields.weights_bytes); });
  if (!sizes)
    return sizes.takeError();
  progress.finish();
  if (!line.quiet)
    report(*sizes);
  return Error::success();
}

void Compilation::report(const ExecutableSizes &sizes) const {
  const ingot_rt_model &model = record.fields;
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  uint64_t context = std::min<uint64_t>(model.max_context, 2048);
  uint64_t blocks = divideCeil(context, INGOT_RT_CACHE_BLOCK);
  uint64_t arena = model.arena.base + model.arena.per_token * model.max_step_tokens + model.arena.per_row +
                   2 * model.arena.per_worker;
  double mega = 1.0 / (1 << 20);
  errs() << formatv("{0}: code {1:F1} MiB, tables {2:F1} MiB, weights {3:F1} MiB in {4:F1} "
                    "s; needs {5:F0} MiB of memory for {6} positions\n",
                    line.output, sizes.code * mega, sizes.tables * mega, sizes.weights * mega, seconds,
                    (model.weights_bytes + arena + blocks * record.cacheGroups.front().block_bytes) * mega, context);
}

Error Compilation::run() {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<IngotDialect>();
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  mlir::registerGPUDialectTranslation(registry);
  mlir::registerNVVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    bool remark = diagnostic.getSeverity() == mlir::DiagnosticSeverity::Remark;
    if (remark && !line.verbose)
      return mlir::success();
    StringRef kind = remark                                                          ? "remark: "
                     : diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning ? "warning: "
                                                                                     : "error: ";
    errs() << kind << diagnostic.getLocation() << ": " << diagnostic << "\n";
    return mlir::success();
  });
  if (line.verbose && mlir::failed(enableRemarks(context)))
    return createStringError("remarks cannot be enabled");
  options = line.compile;
  options.randomWeights = line.randomSeed.has_value();
  for (StringRef input : {StringRef(line.model), StringRef(line.weightsFrom)})
    if (Error error = checkOutput(line.output, input))
      return error;
  if (Error error = selectTargets())
    return error;
  if (Error error = findToolkit())
    return error;
  if (Error error = import())
    return error;
  for (Phase phase : getPhases(options.target)) {
    // What follows is text or bytes, made of the last phase's module.
    if (phase == Phase::LLVMIR)
      break;
    if (phase == Phase::PTX) {
      if (line.emit == Phase::PTX || line.emit == Phase::SASS || toolkit)
        if (Error error = compileKernels())
          return error;
    } else if (phase != Phase::Ingot && phase != Phase::SASS)
      if (Error error = runPasses(phase))
        return error;
    if (line.emit == phase)
      return emitText();
    if (phase == Phase::Packed)
      if (Error error = describe())
        return error;
  }
  if (line.emit == Phase::LLVMIR || line.emit == Phase::Asm)
    return emitText();
  if (mlir::failed(addCompiledModel(*imported.module, record)))
    return createStringError(line.model + ": the compiled model cannot be described");
  for (const CpuTarget &target : targets) {
    record.variants.push_back({target.name, getStepSymbol(target.name), target.required,
                               options.target == TargetKind::CPU    ? ""
                               : options.target == TargetKind::CUDA ? "ingot_rt_cuda"
                                                                    : "ingot_rt_emulator"});
    if (options.randomWeights && options.target != TargetKind::CPU)
      record.variants.back().randomKernels = getRandomKernels(record, &context);
  }
  return line.emit == Phase::Obj ? emitObject() : emitExecutable();
}

Error compile(const CommandLine &line, StringRef program) { return Compilation(line, program).run(); }

} // namespace ingot
