//===- CommandLine.cpp - ingotc's command line
//--------------------------------------------------------------------===//
//
// One table of options drives the parser, --help and the suggestions for
// misspelled names.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "tools/ingotc/CommandLine.h"
#include "compiler/Target/CodeGen.h"
#include "models/Architecture.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <functional>

using namespace llvm;

namespace ingot {

namespace {

/// One option. Options with `values` take a value, after `=` or as the next
/// argument.
struct Option {
  StringLiteral name;
  StringLiteral values; ///< what --help shows after the name; empty for a flag
  StringLiteral help;
  std::function<Error(CommandLine &, StringRef)> apply;
};

} // namespace

/// The most blocks along the second and third dimension of a grid, which rows of a step are counted along (CUDA C++
/// Programming Guide, technical specifications per compute capability).
static constexpr int64_t mostGridRows = 65535;

static Error badValue(StringRef option, StringRef value, StringRef expected) {
  return createStringError(option + ": expected " + expected + ", got '" + value + "'");
}

/// A parser for an option with a fixed set of words.
template <typename T>
static auto choice(StringRef option, T CompileOptions::*field, const std::vector<std::pair<StringRef, T>> &words) {
  return [=](CommandLine &line, StringRef value) -> Error {
    std::string expected;
    for (auto [word, meaning] : words) {
      if (word == value) {
        line.compile.*field = meaning;
        return Error::success();
      }
      expected += (expected.empty() ? "" : ", ") + word.str();
    }
    return badValue(option, value, expected);
  };
}

static auto number(StringRef option, int64_t CompileOptions::*field) {
  return [=](CommandLine &line, StringRef value) -> Error {
    int64_t parsed = 0;
    if (value.getAsInteger(10, parsed) || parsed <= 0 || parsed > (int64_t(1) << 31) - 1)
      return badValue(option, value, "a number from 1 to 2147483647");
    line.compile.*field = parsed;
    return Error::success();
  };
}

static Error parseWeights(CommandLine &line, StringRef value) {
  auto [kind, seed] = value.split(':');
  uint64_t parsed = 0;
  if (kind == "random" && (seed.empty() ? !value.contains(':') : !seed.getAsInteger(10, parsed))) {
    line.randomSeed = parsed;
    return Error::success();
  }
  if (value != "embed" && value != "separate")
    return badValue("--weights", value, "embed, separate, random or random:SEED");
  line.separateWeights = value == "separate";
  return Error::success();
}

static Error parseTriple(CommandLine &line, StringRef value) {
  Expected<const TargetSystem *> system = getTargetSystem(value);
  if (!system)
    return system.takeError();
  line.triple = (*system)->triple.str();
  return Error::success();
}

static Error parseCpus(CommandLine &line, StringRef value) {
  line.compile.cpus.clear(); // "portable" is resolved once the triple is known
  if (value == "portable")
    return Error::success();
  SmallVector<StringRef> names;
  value.split(names, ',');
  for (StringRef name : names) {
    if (name.empty() || is_contained(line.compile.cpus, name))
      return badValue("--target-cpu", value, "portable, native or names of CPUs, each once");
    line.compile.cpus.push_back(name.str());
  }
  return Error::success();
}

static Error parseCudaArchitectures(CommandLine &line, StringRef value) {
  line.compile.cudaArchitectures.clear();
  SmallVector<StringRef> names;
  value.split(names, ',');
  for (StringRef name : names) {
    StringRef digits = name;
    unsigned number = 0;
    if (!digits.consume_front("sm_") || digits.getAsInteger(10, number) || number < 80 || number > 999 ||
        is_contained(line.compile.cudaArchitectures, name))
      return badValue("--cuda-arch", value, "names from sm_80 on, each once, such as sm_80,sm_90");
    line.compile.cudaArchitectures.push_back(name.str());
  }
  return Error::success();
}

/// Whether stage and options belong to the target, and what it yields can be made; then the target's defaults.
static Error resolveTarget(CommandLine &line) {
  CompileOptions &options = line.compile;
  ArrayRef<Phase> phases = getPhases(options.target);
  std::string target = ("--target=" + getTargetName(options.target)).str();
  if (!is_contained(phases, line.emit)) {
    std::string names;
    for (Phase phase : phases)
      names += (names.empty() ? "" : ", ") + getPhaseName(phase).str();
    return badValue("--emit", getPhaseName(line.emit), "a stage of " + target + " (" + names + ")");
  }
  if (options.target == TargetKind::CUDA && line.triple != "x86_64-linux-gnu")
    return badValue("--target-triple", line.triple, "x86_64-linux-gnu with " + target);
  const std::vector<std::string> &portable = cantFail(getTargetSystem(line.triple))->portable;
  if (options.target == TargetKind::CPU) {
    if (options.cpus.empty())
      options.cpus = portable;
  } else if (!options.cpus.empty()) {
    return badValue("--target-cpu", join(options.cpus, ","), "portable with " + target);
  } else if (options.attention != AttentionLowering::Tiled) {
    return badValue("--attention", getAttentionLoweringName(options.attention), "tiled with " + target);
  } else {
    if (options.maxStepTokens > mostGridRows)
      return badValue("--max-step-tokens", std::to_string(options.maxStepTokens),
                      "at most " + std::to_string(mostGridRows) + ", what a GPU's grid takes, with " + target);
    // The host's part runs wherever an executable does.
    options.cpus = {portable.front()};
  }
  if (options.target != TargetKind::CUDA && !options.cudaArchitectures.empty())
    return badValue("--cuda-arch", join(options.cudaArchitectures, ","), "no architecture with " + target);
  if (options.cudaArchitectures.empty())
    options.cudaArchitectures = CompileOptions().cudaArchitectures;
  return Error::success();
}

static Error parseEmit(CommandLine &line, StringRef value) {
  std::optional<Phase> phase = parsePhase(value);
  if (!phase)
    return badValue("--emit", value,
                    "ingot, fused, packed, loops, gpu, nvvm, ptx, sass, llvm, llvm-ir, asm, obj or exe");
  line.emit = *phase;
  return Error::success();
}

static Error parseSelftest(CommandLine &line, StringRef value) {
  if (value != "auto" && value != "none")
    return badValue("--selftest", value, "auto or none");
  line.selftest = value == "auto";
  return Error::success();
}

static auto text(std::string CommandLine::*field) {
  return [=](CommandLine &line, StringRef value) -> Error {
    line.*field = value.str();
    return Error::success();
  };
}

static auto list(std::vector<std::string> CommandLine::*field) {
  return [=](CommandLine &line, StringRef value) -> Error {
    (line.*field).push_back(value.str());
    return Error::success();
  };
}

template <typename T>
static auto flag(T CommandLine::*field, T meaning) {
  return [=](CommandLine &line, StringRef) -> Error {
    line.*field = meaning;
    return Error::success();
  };
}

static ArrayRef<Option> getOptions() {
  using Action = CommandLine::Action;
  static const std::vector<Option> options = {
      {"-o", "FILE", "where the output goes; needed for an executable, else stdout", text(&CommandLine::output)},
      {"--emit", "STAGE",
       "ingot, fused, packed, loops, llvm, llvm-ir, asm, obj or exe (default); for GPUs gpu, nvvm, ptx, sass instead "
       "of loops",
       parseEmit},
      {"--target", "cpu|cuda|cuda-emulated",
       "what to compile for; cuda-emulated: a GPU's kernels, run and checked on the CPU",
       choice<TargetKind>(
           "--target", &CompileOptions::target,
           {{"cpu", TargetKind::CPU}, {"cuda", TargetKind::CUDA}, {"cuda-emulated", TargetKind::CUDAEmulated}})},
      {"--cuda-arch", "sm_N,...", "GPU architectures from sm_80 on; default sm_80,sm_90", parseCudaArchitectures},
      {"--target-triple", "T", "x86_64-linux-gnu or aarch64-linux-gnu; default: this machine's", parseTriple},
      {"--target-cpu", "portable|native|NAME,...",
       "CPU variants in the executable, chosen at start; portable (default): see --list", parseCpus},
      {"--weights", "embed|separate|random[:SEED]",
       "weights in the executable (default), in FILE.weights, or generated "
       "when it starts",
       parseWeights},
      {"--weights-from", "DIR", "checkpoint for a .mlir input", text(&CommandLine::weightsFrom)},
      {"--dtype", "auto|f32|bf16|f16",
       "how weights are stored; auto (default): as in the checkpoint, "
       "quantized ones too; else all are converted",
       choice<StorageType>("--dtype", &CompileOptions::dtype,
                           {{"auto", StorageType::Auto},
                            {"f32", StorageType::F32},
                            {"bf16", StorageType::BF16},
                            {"f16", StorageType::F16}})},
      {"--quantize", "none|int8|int4",
       "quantization of float matrices, in blocks of 32; int4: embedding and "
       "output projection int8; not for a GPU",
       choice<Quantize>("--quantize", &CompileOptions::quantize,
                        {{"none", Quantize::None}, {"int8", Quantize::Int8}, {"int4", Quantize::Int4}})},
      {"--compute", "auto|f32|int16|int8",
       "what a dot product multiplies; f32: weights are widened exactly; int16, "
       "int8: quantized weights, and inputs rounded to so many bits; auto "
       "(default): int16 for quantized weights, else f32",
       choice<ComputeType>("--compute", &CompileOptions::compute,
                           {{"auto", ComputeType::Auto},
                            {"f32", ComputeType::F32},
                            {"int16", ComputeType::Int16},
                            {"int8", ComputeType::Int8}})},
      {"--kv-dtype", "auto|f32|bf16|f16|int8",
       "how keys and values are stored; auto (default): f32 if all weights "
       "are, else f16; int8: a scale per head and token, not for a GPU",
       choice<StorageType>("--kv-dtype", &CompileOptions::kvDtype,
                           {{"auto", StorageType::Auto},
                            {"f32", StorageType::F32},
                            {"bf16", StorageType::BF16},
                            {"f16", StorageType::F16},
                            {"int8", StorageType::Int8}})},
      {"--max-context", "N", "positions of a sequence; default: the model's maximum",
       number("--max-context", &CompileOptions::maxContext)},
      {"--max-batch", "N", "sequences in one step; default 64", number("--max-batch", &CompileOptions::maxBatch)},
      {"--max-step-tokens", "N", "tokens in one step; default 512",
       number("--max-step-tokens", &CompileOptions::maxStepTokens)},
      {"--attention", "tiled|naive", "lowering of attention; both give the same results within rounding",
       choice<AttentionLowering>("--attention", &CompileOptions::attention,
                                 {{"tiled", AttentionLowering::Tiled}, {"naive", AttentionLowering::Naive}})},
      {"--no-fuse", "", "leave the fusions out, so that traces show every intermediate",
       [](CommandLine &line, StringRef) -> Error {
         line.compile.fuse = false;
         return Error::success();
       }},
      {"--selftest", "auto|none", "store reference logits for `FILE selftest`", parseSelftest},
      {"--ignore-key", "K",
       "accept a configuration key that Ingot does not know; recorded in the "
       "ledger",
       list(&CommandLine::ignoredKeys)},
      {"--ignore-tensor", "GLOB", "accept tensors that nothing uses; recorded in the ledger",
       list(&CommandLine::ignoredTensors)},
      {"-v", "", "say which fusions fire, and which do not and why", flag(&CommandLine::verbose, true)},
      {"-q", "", "say nothing but errors", flag(&CommandLine::quiet, true)},
      {"--list", "", "list architectures, stages, targets and CPU variants", flag(&CommandLine::action, Action::List)},
      {"--version", "", "print the version", flag(&CommandLine::action, Action::Version)},
      {"--help", "", "print this", flag(&CommandLine::action, Action::Help)},
  };
  return options;
}

static Error unknownOption(StringRef name) {
  const Option *nearest = nullptr;
  unsigned distance = 4;
  for (const Option &option : getOptions())
    if (unsigned d = name.edit_distance(option.name); d < distance) {
      distance = d;
      nearest = &option;
    }
  return createStringError(
      "unknown option '" + name + "'" +
      (nearest ? "; did you mean " + nearest->name.str() + "?" : std::string("; see ingotc --help")));
}

Expected<CommandLine> parseCommandLine(ArrayRef<StringRef> arguments) {
  CommandLine line;
  line.triple = getHostSystem().triple.str();
  line.compile.cpus.clear();
  line.compile.cudaArchitectures.clear();
  bool optionsEnded = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    StringRef argument = arguments[i];
    if (optionsEnded || !argument.starts_with("-") || argument == "-") {
      if (!line.model.empty())
        return createStringError("expected one MODEL, got '" + line.model + "' and '" + argument + "'");
      line.model = argument.str();
      continue;
    }
    if (argument == "--") {
      optionsEnded = true;
      continue;
    }
    auto [name, value] = argument.split('=');
    bool hasValue = argument.contains('=');
    if (name == "-h")
      name = "--help";
    const Option *option = find_if(getOptions(), [&](const Option &o) { return o.name == name; });
    if (option == getOptions().end())
      return unknownOption(name);
    if (option->values.empty() && hasValue)
      return createStringError(name + ": expected no value, got '" + value + "'");
    if (!option->values.empty() && !hasValue) {
      if (++i == arguments.size())
        return createStringError(name + ": expected a value " + option->values + ", got none");
      value = arguments[i];
    }
    if (Error error = option->apply(line, value))
      return error;
  }
  if (line.action != CommandLine::Action::Compile)
    return line;
  if (line.model.empty())
    return createStringError("expected a MODEL: a Hugging Face directory, a "
                             "GGUF file, a config.json or a .mlir");
  if (Error error = resolveTarget(line))
    return error;
  if (line.emit == Phase::Exe && line.output.empty())
    return createStringError("-o: expected the executable's name, got none");
  if (line.randomSeed && line.separateWeights)
    return createStringError("--weights: separate and random exclude each other");
  if (line.compile.target != TargetKind::CPU) {
    if (line.compile.quantize != Quantize::None || asksForIntegers(line.compile.compute))
      return createStringError(
          "a GPU's kernels have no quantized weights yet; expected --dtype=f32, bf16 or f16 without "
          "--quantize and --compute=int16 or int8");
    if (line.compile.kvDtype == StorageType::Int8)
      return createStringError("a GPU's kernels have no int8 cache yet; expected --kv-dtype=f32, bf16 or f16");
  }
  if (line.compile.quantize != Quantize::None && line.compile.dtype != StorageType::Auto)
    return createStringError("--quantize: expected --dtype=auto beside it, got " +
                             getStorageTypeName(line.compile.dtype));
  if (line.compile.quantize != Quantize::None && line.randomSeed)
    return createStringError("--quantize: expected stored weights (tools/random_weights.py writes random ones), got "
                             "--weights=random");
  if (asksForIntegers(line.compile.compute) && line.compile.dtype != StorageType::Auto)
    return createStringError("--compute=" + getComputeTypeName(line.compile.compute) +
                             ": expected --dtype=auto beside it, got " + getStorageTypeName(line.compile.dtype));
  return line;
}

std::string CommandLine::resolved() const {
  std::string weights = randomSeed ? "random:" + std::to_string(*randomSeed) : separateWeights ? "separate" : "embed";
  std::string architectures =
      compile.target == TargetKind::CUDA ? "cuda-arch=" + join(compile.cudaArchitectures, ",") + "\n" : "";
  return formatv("target={13}\ntarget-triple={12}\ntarget-cpu={0}\nweights={1}\ndtype={2}\nquantize="
                 "{10}\ncompute={11}\nkv-dtype={3}\nmax-context={4}\n"
                 "max-batch={5}\nmax-step-tokens={6}\nattention={7}\nfuse={8}"
                 "\nselftest={9}\n{14}",
                 join(compile.cpus, ","), weights, getStorageTypeName(compile.dtype),
                 getStorageTypeName(compile.kvDtype), compile.maxContext, compile.maxBatch, compile.maxStepTokens,
                 compile.attention == AttentionLowering::Tiled ? "tiled" : "naive", compile.fuse ? "yes" : "no",
                 selftest ? "auto" : "none", getQuantizeName(compile.quantize), getComputeTypeName(compile.compute),
                 triple, getTargetName(compile.target), architectures);
}

std::string getHelpText() {
  std::string help = "Compiles a decoder-only language model into one native executable.\n\n"
                     "usage: ingotc MODEL -o FILE [options]\n\n"
                     "MODEL is a Hugging Face directory, a GGUF file, a bare config.json "
                     "(with --weights=random), or IR\n"
                     "(a .mlir file in the ingot dialect, with --weights-from).\n\noptions:\n";
  for (const Option &option : getOptions()) {
    std::string name = option.name.str();
    if (!option.values.empty())
      name += (option.name.starts_with("--") ? "=" : " ") + option.values.str();
    help += "  " + name + (name.size() < 22 ? std::string(24 - name.size(), ' ') : "\n" + std::string(26, ' ')) +
            option.help.str() + "\n";
  }
  help += "\nexample:\n  ingotc SmolLM2-135M-Instruct -o smollm2 && ./smollm2 "
          "-p \"The capital of France is\"\n";
  return help;
}

std::string getListText() {
  std::string list = "architectures:";
  for (const Architecture *architecture : architectures())
    list += " " + architecture->modelType.str();
  list += "\nstages:";
  for (Phase phase : {Phase::Ingot, Phase::Fused, Phase::Packed, Phase::Loops, Phase::GPU, Phase::NVVM, Phase::PTX,
                      Phase::SASS, Phase::LLVM, Phase::LLVMIR, Phase::Asm, Phase::Obj, Phase::Exe})
    list += " " + getPhaseName(phase).str();
  list += "\n";
  for (const TargetSystem &system : getTargetSystems())
    list += "target " + system.triple.str() + (&system == &getHostSystem() ? " (this machine's)" : "") +
            ": CPU variants " + join(system.portable, ", ") + " (portable)" +
            (&system == &getHostSystem() ? ", native" : "") + ", or " + system.otherCpus.str() + "\n";
  return list;
}

} // namespace ingot
