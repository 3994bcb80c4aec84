// A GGUF model as a checkpoint: tensors under Hugging Face's names and in its
// order of rows, the metadata as an object with config.json's keys, the
// tokenizer's part in a struct, and a record of what became of every metadata
// key.
#ifndef INGOT_COMPILER_IMPORT_GGUF_H
#define INGOT_COMPILER_IMPORT_GGUF_H

#include "compiler/Import/Checkpoint.h"
#include "compiler/Import/GgufFile.h"
#include "compiler/Import/Json.h"
#include "compiler/Import/MappedFile.h"

namespace ingot {

/// The keys `tokenizer.*` of a GGUF file. Strings refer to the mapped file,
/// which lives as long as the checkpoint.
struct GgufTokenizer {
  /// tokenizer.ggml.model: "gpt2" (byte-level BPE), "llama" (SentencePiece),
  /// ...; tokenizer.ggml.pre: which pre-tokenizer ("smollm", "qwen2",
  /// "llama-bpe", ...), empty if absent.
  llvm::StringRef model, pre;
  /// The text of every id; the arrays beside it are empty or as long.
  std::vector<llvm::StringRef> tokens;
  std::vector<double> scores;
  /// 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
  std::vector<int64_t> tokenTypes;
  /// "left right", best first.
  std::vector<llvm::StringRef> merges;
  std::optional<int64_t> bosId, eosId, eotId, eomId, unknownId, separatorId, paddingId, clsId, maskId;
  std::optional<bool> addBos, addEos, addSeparator, addSpacePrefix, removeExtraWhitespaces;
  llvm::StringRef precompiledCharsmap;
  /// tokenizer.chat_template, and tokenizer.chat_template.NAME.
  std::optional<llvm::StringRef> chatTemplate;
  std::vector<std::pair<llvm::StringRef, llvm::StringRef>> namedChatTemplates;
};

/// What became of a metadata key: it went into the config (or decided how the
/// file was read), into the tokenizer, it has no influence on the result (with
/// the reason), or the user asked to ignore it.
struct GgufKeyUse {
  enum class Use { Consumed, Tokenizer, Inert, Ignored };
  std::string key;
  Use use;
  std::string reason;
};

class GgufCheckpoint final : public Checkpoint {
public:
  /// Opens a file, or all files of a split model given its first
  /// (NAME-00001-of-0000N.gguf). A metadata key that nothing takes is an error
  /// that names it unless it is in `ignoredKeys`; so are architectures and
  /// features that have no config.json equivalent here (partial rotary
  /// embedding, experts, per-layer head counts).
  static llvm::Expected<std::unique_ptr<GgufCheckpoint>> open(llvm::StringRef path,
                                                              llvm::ArrayRef<std::string> ignoredKeys = {});

  /// The same from bytes in memory, which must outlive the checkpoint (for
  /// tests and fuzzing; not split).
  static llvm::Expected<std::unique_ptr<GgufCheckpoint>> fromMemory(llvm::StringRef file, llvm::StringRef bytes,
                                                                    llvm::ArrayRef<std::string> ignoredKeys = {});

  /// The metadata with config.json's keys: model_type, hidden_size, ..., rope_scaling as Hugging Face writes it. One
  /// key is not Hugging Face's: "rope_freqs", the divisors of rope's frequencies (rope_freqs.weight, headDim / 2
  /// numbers, how GGUF stores llama3 scaling). There is no "torch_dtype": each tensor says its own type.
  const Json &config() const { return configObject; }
  /// general.sampling.* with generation_config.json's keys; null if there are none.
  const Json &generationConfig() const { return generationObject; }
  /// Null if the file has no tokenizer.
  const GgufTokenizer *tokenizer() const { return tokenizerPart ? &*tokenizerPart : nullptr; }
  /// Every metadata key once.
  llvm::ArrayRef<GgufKeyUse> keyUses() const { return uses; }
  /// general.name, or empty; general.license with its name and link, or empty.
  llvm::StringRef displayName() const { return name; }
  llvm::StringRef license() const { return licenseText; }

  void release(const TensorInfo &tensor) const override;

protected:
  llvm::Error convertRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                          llvm::MutableArrayRef<float> dst) const override;
  llvm::Error copyRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                       llvm::MutableArrayRef<char> dst) const override;
  std::optional<llvm::ArrayRef<char>> mappedBytes(const TensorInfo &tensor) const override;

private:
  GgufCheckpoint() = default;
  llvm::Error build(llvm::ArrayRef<std::string> ignoredKeys);
  llvm::Error addTensors(bool permutesQK);

  /// Where tensor i lies, and how its rows (a vector: elements) are permuted:
  /// 0, or the head dimension D, in which case presented row h*D + p*D/2 + j is
  /// stored row h*D + 2*j + p.
  struct Place {
    llvm::ArrayRef<char> bytes;
    size_t file;
    int64_t permutedHeadDim;
  };

  std::vector<std::shared_ptr<MappedFile>> maps;
  std::vector<GgufFile> files;
  std::vector<Place> places;
  Json configObject, generationObject;
  std::optional<GgufTokenizer> tokenizerPart;
  std::vector<GgufKeyUse> uses;
  std::string name, licenseText;
};

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_GGUF_H
