// From the path a user gives to everything that is known about the model:
// configuration, weights, where the tokenizer is, the licence. Whatever else
// the path may name (a hub id, an adapter, pickled weights, a Git-LFS pointer,
// ...) is told with its remedy.
#ifndef INGOT_COMPILER_IMPORT_OPENMODEL_H
#define INGOT_COMPILER_IMPORT_OPENMODEL_H

#include "compiler/Import/Checkpoint.h"
#include "compiler/Import/Gguf.h"
#include "compiler/Import/Json.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

enum class ModelKind {
  /// A directory as the hub keeps it: config.json, model.safetensors or an
  /// index with shards, tokenizer files.
  HuggingFace,
  /// A GGUF file, or the first of a split.
  Gguf,
  /// A config.json alone.
  ConfigOnly,
};

struct OpenModelOptions {
  /// `--weights=random[:SEED]`: no weight file is opened, `checkpoint` stays
  /// null, and the model's tensors are made by RandomCheckpoint::create once
  /// their names and shapes are known.
  std::optional<uint64_t> randomSeed;
  /// `--ignore-key=K`, for GGUF metadata; config.json's keys are the
  /// ConfigReader's.
  std::vector<std::string> ignoredKeys;
};

/// Where the tokenizer is.
struct TokenizerSource {
  enum class Kind { None, HuggingFace, Gguf };
  Kind kind = Kind::None;
  /// HuggingFace: paths of the files that are there, else empty. A directory
  /// with a tokenizer.model (SentencePiece) and no tokenizer.json has only
  /// `sentencePiece` set.
  std::string tokenizerJson, tokenizerConfigJson, specialTokensMapJson, chatTemplate, sentencePiece;
  /// additional_chat_templates/NAME.jinja, in the order of their names.
  std::vector<std::string> additionalChatTemplates;
  /// Gguf: owned by the model's GgufCheckpoint (`ModelInput::gguf`).
  const GgufTokenizer *gguf = nullptr;
};

struct ModelInput {
  ModelKind kind = ModelKind::HuggingFace;
  /// What the user gave, and a name for people (the directory's or file's, or
  /// general.name).
  std::string path, displayName;
  /// An object; what errors about it call its file (GGUF: the GGUF file).
  Json config;
  std::string configFile;
  /// An object, or null where the file is absent.
  Json generationConfig;
  std::string generationConfigFile;
  /// Null with random weights.
  std::shared_ptr<Checkpoint> checkpoint;
  std::optional<uint64_t> randomSeed;
  /// Set for GGUF (also with random weights): tokenizer, key uses. The same
  /// object as `checkpoint` otherwise.
  std::shared_ptr<GgufCheckpoint> gguf;
  TokenizerSource tokenizer;
  /// The text of LICENSE files, or GGUF's general.license; empty if there is
  /// none.
  std::string license;
};

/// Opens what `path` names. Every misuse is one error "PATH: what is wrong;
/// what to do".
llvm::Expected<ModelInput> openModel(llvm::StringRef path, const OpenModelOptions &options = {});

/// Opens weights alone, for `--weights-from`: a directory with safetensors, a
/// .safetensors file or index, or a GGUF file.
llvm::Expected<std::shared_ptr<Checkpoint>> openCheckpoint(llvm::StringRef path);

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_OPENMODEL_H
