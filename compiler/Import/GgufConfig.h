// What GGUF metadata mean: the part of the GGUF reader that turns keys into
// config.json's terms. Internal to Import.
#ifndef INGOT_COMPILER_IMPORT_GGUFCONFIG_H
#define INGOT_COMPILER_IMPORT_GGUFCONFIG_H

#include "compiler/Import/Gguf.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace ingot {

/// What differs between the architectures whose GGUF files are read.
struct GgufArchitecture {
  /// general.architecture, which is also Hugging Face's model_type.
  llvm::StringLiteral name;
  /// The rows of q and k (weights and biases) are stored for rotary embedding
  /// on neighbours (2j, 2j + 1), where Hugging Face's model turns (j, j + D/2).
  bool permutesQK;
};

/// The architecture of that name, or null.
const GgufArchitecture *findGgufArchitecture(llvm::StringRef name);

/// Looks up a tensor of the model by its GGUF name; null if there is none.
using GgufTensorLookup = llvm::function_ref<const GgufTensor *(llvm::StringRef)>;

struct GgufDescription {
  const GgufArchitecture *architecture = nullptr;
  Json config, generationConfig;
  std::optional<GgufTokenizer> tokenizer;
  std::vector<GgufKeyUse> uses;
  std::string name, license;
};

/// Reads all metadata of a model's (first) file. See GgufCheckpoint::open for
/// what is refused.
llvm::Expected<GgufDescription> describeGguf(const GgufFile &file, GgufTensorLookup tensor,
                                             llvm::ArrayRef<std::string> ignoredKeys);

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_GGUFCONFIG_H
