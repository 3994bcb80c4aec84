// The `ingot` phase: from the path of a model to one module in the ingot
// dialect, the weights its parameters refer to, and everything else that the
// executable stores about the model.
#ifndef INGOT_COMPILER_IMPORT_IMPORT_H
#define INGOT_COMPILER_IMPORT_IMPORT_H

#include "compiler/Import/Checkpoint.h"
#include "compiler/Import/GenerationDefaults.h"
#include "compiler/Import/Ledger.h"
#include "compiler/Import/OpenModel.h"
#include "compiler/Text/TemplateProgram.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

struct ImportOptions {
  /// `--weights=random[:SEED]`.
  std::optional<uint64_t> randomSeed;
  /// `--weights-from=PATH`: the checkpoint of an `.mlir` input.
  std::string weightsFrom;
  /// `--dtype`, if not auto: F32, BF16 or F16. The importer keeps the
  /// checkpoint's types; it needs this to resolve `kvDtype`.
  std::optional<ElementKind> dtype;
  /// `--kv-dtype`, if not auto: also I8. Auto: F32 where all weights will be stored F32,
  /// else F16.
  std::optional<ElementKind> kvDtype;
  /// Float weights will be quantized: not all weights will be stored F32.
  bool quantize = false;
  /// 0: the model's own maximum. More than that is an error.
  int64_t maxContext = 0;
  int64_t maxBatch = 64;
  int64_t maxStepTokens = 512;
  /// `--ignore-key=K` and `--ignore-tensor=GLOB` (`*`, `?`, `[...]`).
  std::vector<std::string> ignoredKeys, ignoredTensors;
};

struct ImportResult {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Never null: random weights are a RandomCheckpoint.
  std::shared_ptr<Checkpoint> checkpoint;
  std::optional<uint64_t> randomSeed;
  /// Keeps what `tokenizer` refers to alive.
  std::shared_ptr<GgufCheckpoint> gguf;
  TokenizerSource tokenizer;
  /// Chat templates, not yet compiled; none without a tokenizer.
  ChatFormat chat;
  GenerationDefaults generation;
  Ledger ledger;
  /// The text of the model's licence, empty if there is none; a name for
  /// people.
  std::string license, displayName;
  /// Rows of the embedding table: a tokenizer's ids must be below.
  int64_t vocab = 0;
  /// What the user should know though nothing is wrong, without "warning: ".
  std::vector<std::string> warnings;
};

/// Imports a Hugging Face directory, a GGUF file, a config.json (with random
/// weights) or a `.mlir` of phase `ingot` with `weightsFrom`. The module has
/// been verified. The context must have the ingot and func dialects loaded or
/// registered. Errors are one line: "FILE: what; expected X, got Y".
llvm::Expected<ImportResult> importModel(mlir::MLIRContext &context, llvm::StringRef path,
                                         const ImportOptions &options = {});

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_IMPORT_H
