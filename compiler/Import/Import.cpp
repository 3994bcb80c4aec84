// The import from end to end: opens the model, reads its configuration by the
// architecture it names, emits the module, and keeps the ledger.
#include "compiler/Import/Import.h"
#include "compiler/Import/EmitIngot.h"
#include "compiler/Import/InputError.h"
#include "compiler/Import/RandomCheckpoint.h"
#include "compiler/Text/ChatFormat.h"
#include "dialects/ingot/Ingot.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "models/Architecture.h"
#include "llvm/ADT/StringSet.h"
#include <map>

using namespace llvm;
using namespace mlir;

namespace ingot {
namespace {

//===----------------------------------------------------------------------===//
// Random weights
//===----------------------------------------------------------------------===//

/// The storage type of random weights: --dtype, else the configuration's torch_dtype, else float32 as in the reference.
Expected<ElementKind> randomType(const DecoderConfig &config, StringRef file, const ImportOptions &options) {
  if (options.dtype)
    return *options.dtype;
  StringRef name = config.dtype;
  name.consume_front("torch.");
  if (name.empty() || name == "float32" || name == "float")
    return ElementKind::F32;
  if (name == "bfloat16")
    return ElementKind::BF16;
  if (name == "float16" || name == "half")
    return ElementKind::F16;
  return inputError(file,
                    "key 'torch_dtype': expected float32, bfloat16 or float16 for random weights, got " + quote(name));
}

Expected<std::shared_ptr<Checkpoint>> makeRandom(const DecoderConfig &config, StringRef file,
                                                 const ImportOptions &options) {
  Expected<ElementKind> type = randomType(config, file, options);
  if (!type)
    return type.takeError();
  std::vector<RandomTensor> tensors;
  for (const ExpectedTensor &expected : expectedTensors(config)) {
    ingot_rt_random_kind kind = expected.kind == TensorKind::Matrix ? INGOT_RT_RANDOM_MATRIX
                                : expected.kind == TensorKind::Norm ? INGOT_RT_RANDOM_NORM
                                                                    : INGOT_RT_RANDOM_BIAS;
    tensors.push_back({expected.name, {expected.shape.begin(), expected.shape.end()}, kind, *type});
  }
  return RandomCheckpoint::create(*options.randomSeed, tensors);
}

//===----------------------------------------------------------------------===//
// IR as input
//===----------------------------------------------------------------------===//

/// A tensor that a module refers to, for one layer.
struct Reference {
  std::string name;
  RankedTensorType type;
  std::string parameter;
};

/// Layers of a module beyond which it is damaged, as in a configuration.
constexpr int64_t mostLayers = 1 << 14;

/// The checkpoint tensors of every parameter: its source, or those of its recipe, for each layer of its kind.
Expected<std::vector<Reference>> collectReferences(ModuleOp module, StringRef file) {
  std::map<StringRef, std::vector<int64_t>> layersOf;
  WalkResult counted = module.walk([&](LayersOp op) {
    int64_t layer = 0;
    for (auto run : op.getRuns().getAsRange<RunAttr>()) {
      if (run.getCount() > mostLayers - layer)
        return WalkResult::interrupt();
      for (int64_t i = 0; i < run.getCount(); ++i)
        layersOf[run.getKind().getValue()].push_back(layer++);
    }
    return WalkResult::advance();
  });
  if (counted.wasInterrupted())
    return inputError(file, "has more than " + Twine(mostLayers) + " layers");
  std::vector<Reference> references;
  module.walk([&](ParameterOp op) {
    auto add = [&](StringRef source, Type type) {
      std::vector<int64_t> layers = {0};
      if (op.getKind())
        layers = layersOf[*op.getKind()];
      for (int64_t layer : layers)
        references.push_back({layerName(source, layer), cast<RankedTensorType>(type), op.getSymName().str()});
    };
    if (std::optional<StringRef> source = op.getSource())
      add(*source, op.getTensorType());
    op.walk([&](SourceOp source) { add(source.getName(), source.getType()); });
  });
  return references;
}

/// How random weights of a float type are stored.
ElementKind kindOf(Type type) {
  return type.isF16() ? ElementKind::F16 : type.isBF16() ? ElementKind::BF16 : ElementKind::F32;
}

Error resolveReferences(ArrayRef<Reference> references, StringRef file, const Checkpoint &checkpoint,
                        const ImportOptions &options, ImportResult &result) {
  std::vector<bool> claimed(checkpoint.tensors().size());
  for (const Reference &reference : references) {
    std::string where = "parameter @" + reference.parameter + ": tensor " + quote(reference.name);
    const TensorInfo *tensor = checkpoint.find(reference.name);
    if (!tensor)
      return inputError(file, where + " is not in " + options.weightsFrom);
    ArrayRef<int64_t> shape = reference.type.getShape();
    if (ArrayRef<int64_t>(tensor->shape) != shape)
      return inputError(file, where + ": expected shape " + shapeText(shape) + ", got " + shapeText(tensor->shape) +
                                  " in " + tensor->file);
    Type expected = reference.type.getElementType();
    if (!isConvertible(tensor->dtype) ||
        presentedType(*expected.getContext(), tensor->dtype, tensor->shape.size()) != expected) {
      std::string name;
      if (auto quantized = dyn_cast<QuantizedType>(expected))
        name = stringifyQuantization(quantized.getKind()).upper();
      else
        raw_string_ostream(name) << expected;
      return inputError(file, where + ": expected type " + StringRef(name).upper() + ", got " +
                                  elementKindName(tensor->dtype) + " in " + tensor->file);
    }
    if (!claimed[tensor->index])
      result.ledger.addTensor(tensor->name, LedgerOutcome::Consumed, reference.parameter);
    claimed[tensor->index] = true;
  }
  return settleUnusedTensors(checkpoint, claimed, options.ignoredTensors, result.ledger, result.warnings);
}

Expected<OwningOpRef<ModuleOp>> parseModule(MLIRContext &context, StringRef path) {
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (message.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      if (auto location = dyn_cast<FileLineColLoc>(diagnostic.getLocation()))
        message = (Twine(location.getLine()) + ":" + Twine(location.getColumn()) + ": ").str();
      message += diagnostic.str();
    }
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, &context);
  if (!module)
    return inputError(path, message.empty() ? "is not a module" : message);
  return module;
}

Expected<ImportResult> importModule(MLIRContext &context, StringRef path, const ImportOptions &options) {
  ImportResult result;
  context.loadDialect<IngotDialect, func::FuncDialect>();
  Expected<OwningOpRef<ModuleOp>> module = parseModule(context, path);
  if (!module)
    return module.takeError();
  result.module = std::move(*module);
  auto model = result.module->getOperation()->getAttrOfType<ModelAttr>(modelAttrName);
  if (!model || !result.module->lookupSymbol<func::FuncOp>(forwardName))
    return inputError(path, "is not a model; expected a module with the attribute '" + modelAttrName +
                                "' and a function @" + forwardName);
  Expected<std::vector<Reference>> collected = collectReferences(*result.module, path);
  if (!collected)
    return collected.takeError();
  ArrayRef<Reference> references = *collected;
  if (options.randomSeed) {
    std::vector<RandomTensor> tensors;
    llvm::StringSet<> seen;
    for (const Reference &reference : references) {
      ArrayRef<int64_t> shape = reference.type.getShape();
      if (isa<QuantizedType>(reference.type.getElementType()))
        return inputError(path, "parameter @" + reference.parameter + ": tensor " + quote(reference.name) +
                                    " is quantized; random weights are F32, F16 or BF16");
      if (seen.insert(reference.name).second)
        tensors.push_back({reference.name,
                           {shape.begin(), shape.end()},
                           randomKindOf(reference.name, shape),
                           kindOf(reference.type.getElementType())});
    }
    auto checkpoint = RandomCheckpoint::create(*options.randomSeed, tensors);
    if (!checkpoint)
      return checkpoint.takeError();
    result.checkpoint = std::move(*checkpoint);
    result.randomSeed = options.randomSeed;
  } else if (options.weightsFrom.empty()) {
    return inputError(path, "names weights but holds none; expected --weights-from=DIR or --weights=random");
  } else {
    Expected<std::shared_ptr<Checkpoint>> checkpoint = openCheckpoint(options.weightsFrom);
    if (!checkpoint)
      return checkpoint.takeError();
    result.checkpoint = *checkpoint;
  }
  if (Error error = resolveReferences(references, path, *result.checkpoint, options, result))
    return error;
  result.vocab = model.getVocab();
  result.displayName = model.getName().str();
  return result;
}

//===----------------------------------------------------------------------===//
// A model
//===----------------------------------------------------------------------===//

void recordMetadata(const GgufCheckpoint &gguf, StringRef file, ArrayRef<std::string> ignoredKeys, Ledger &ledger) {
  for (const GgufKeyUse &use : gguf.keyUses()) {
    // Templates are the one thing that is known and may be left out all the same.
    bool ignored = use.use == GgufKeyUse::Use::Ignored ||
                   (StringRef(use.key).starts_with("tokenizer.chat_template") && is_contained(ignoredKeys, use.key));
    LedgerOutcome outcome = ignored                             ? LedgerOutcome::IgnoredKey
                            : use.use == GgufKeyUse::Use::Inert ? LedgerOutcome::Inert
                                                                : LedgerOutcome::Consumed;
    std::string detail = use.reason;
    if (detail.empty())
      detail = use.use == GgufKeyUse::Use::Tokenizer ? "tokenizer" : "configuration";
    ledger.addKey(file, use.key, outcome, detail);
  }
}

Error checkLimits(const ImportOptions &options, StringRef file, int64_t maxPosition) {
  if (options.maxContext < 0 || options.maxContext > maxPosition)
    return inputError(file, "--max-context: expected 1 to " + Twine(maxPosition) + ", the model's own maximum, got " +
                                Twine(options.maxContext));
  for (auto [flag, value] :
       {std::pair("--max-batch", options.maxBatch), std::pair("--max-step-tokens", options.maxStepTokens)})
    if (value < 1)
      return inputError(file, Twine(flag) + ": expected 1 or more, got " + Twine(value));
  return Error::success();
}

/// An --ignore-key that met no key is probably misspelt.
void warnOfIdleKeys(const ImportOptions &options, ImportResult &result) {
  for (const std::string &key : options.ignoredKeys)
    if (none_of(result.ledger.keys(), [&](const LedgerEntry &entry) {
          return entry.outcome == LedgerOutcome::IgnoredKey && StringRef(entry.what).ends_with(": " + key);
        }))
      result.warnings.push_back("--ignore-key=" + key + " matches no key");
}

Expected<ImportResult> importCheckpoint(MLIRContext &context, StringRef path, const ImportOptions &options) {
  OpenModelOptions openOptions;
  openOptions.randomSeed = options.randomSeed;
  openOptions.ignoredKeys = options.ignoredKeys;
  Expected<ModelInput> input = openModel(path, openOptions);
  if (!input)
    return input.takeError();
  ImportResult result;
  bool isGguf = input->gguf != nullptr;
  Ledger translated; // GGUF: the metadata's own keys are recorded instead.
  Expected<DecoderConfig> config = readDecoderConfig(input->config, input->configFile, options.ignoredKeys,
                                                     isGguf ? translated : result.ledger, isGguf);
  if (!config)
    return config.takeError();
  result.warnings = config->warnings;
  if (isGguf)
    recordMetadata(*input->gguf, input->configFile, options.ignoredKeys, result.ledger);
  if (Error error = checkLimits(options, input->configFile, config->maxPosition))
    return error;
  Expected<GenerationDefaults> generation =
      readGenerationConfig(input->generationConfig, input->generationConfigFile, config->tokens, config->vocab,
                           options.ignoredKeys, isGguf ? translated : result.ledger, result.warnings);
  if (!generation)
    return generation.takeError();
  result.generation = std::move(*generation);
  result.checkpoint = input->checkpoint;
  if (options.randomSeed) {
    Expected<std::shared_ptr<Checkpoint>> checkpoint = makeRandom(*config, input->configFile, options);
    if (!checkpoint)
      return checkpoint.takeError();
    result.checkpoint = *checkpoint;
    result.randomSeed = options.randomSeed;
  }
  EmitOptions emit;
  if (isGguf)
    emit.name = input->gguf->displayName().str();
  emit.maxContext = options.maxContext;
  emit.maxBatch = options.maxBatch;
  emit.maxStepTokens = options.maxStepTokens;
  emit.dtype = options.dtype;
  emit.kvDtype = options.kvDtype;
  emit.quantize = options.quantize;
  emit.ignoredTensors = options.ignoredTensors;
  Expected<OwningOpRef<ModuleOp>> module =
      emitIngot(context, *config, *result.checkpoint, emit, result.ledger, result.warnings);
  if (!module)
    return module.takeError();
  result.module = std::move(*module);
  Expected<ChatFormat> chat = readChatFormat(input->tokenizer, path, options.ignoredKeys, result.ledger);
  if (!chat)
    return chat.takeError();
  result.chat = std::move(*chat);
  warnOfIdleKeys(options, result);
  result.gguf = input->gguf;
  result.tokenizer = input->tokenizer;
  result.license = input->license;
  result.displayName = input->displayName;
  result.vocab = config->vocab;
  return result;
}

} // namespace

Expected<ImportResult> importModel(MLIRContext &context, StringRef path, const ImportOptions &options) {
  if (path.ends_with(".mlir") || path.ends_with(".mlirbc"))
    return importModule(context, path, options);
  return importCheckpoint(context, path, options);
}

} // namespace ingot
