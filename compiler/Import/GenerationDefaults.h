// How a model wants to be sampled: generation_config.json, completed by the
// reference implementation's defaults and by the token ids of config.json.
#ifndef INGOT_COMPILER_IMPORT_GENERATIONDEFAULTS_H
#define INGOT_COMPILER_IMPORT_GENERATIONDEFAULTS_H

#include "compiler/Import/Json.h"
#include "compiler/Import/Ledger.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

/// The ids with a meaning that config.json names, or the architecture's
/// defaults where it does not.
struct SpecialTokens {
  std::optional<int64_t> bos, pad;
  std::vector<int64_t> eos;
};

/// The content of ingot_rt_generation_defaults.
struct GenerationDefaults {
  /// Bit i: the i-th of do_sample, temperature, top_k, top_p, min_p,
  /// repetition_penalty came from the file.
  uint64_t present = 0;
  bool doSample = false;
  float temperature = 1, topP = 1, minP = 0, repetitionPenalty = 1;
  /// 0: off.
  uint32_t topK = 50;
  /// -1: not given.
  int64_t maxNewTokens = -1, maxLength = -1;
  /// -1: none.
  int64_t bos = -1, pad = -1;
  /// Every id that ends a generation.
  std::vector<int32_t> eos;
};

/// Reads a generation_config.json (an object, or null where there is none).
/// Keys that ask for what the sampler does not do (beams, forbidden n-grams,
/// ...) and unknown keys are errors that name them; ids are checked against
/// `vocab`. Its end tokens replace those of `model`.
llvm::Expected<GenerationDefaults> readGenerationConfig(const Json &object, llvm::StringRef file,
                                                        const SpecialTokens &model, int64_t vocab,
                                                        llvm::ArrayRef<std::string> ignoredKeys, Ledger &ledger,
                                                        std::vector<std::string> &warnings);

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_GENERATIONDEFAULTS_H
