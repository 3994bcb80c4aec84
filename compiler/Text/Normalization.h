// What the normalizers of a tokenizer do, while compiling: the tables of the
// executable are made from it, and the added tokens that match normalized text
// are normalized with it.
#ifndef INGOT_COMPILER_TEXT_NORMALIZATION_H
#define INGOT_COMPILER_TEXT_NORMALIZATION_H

#include "compiler/Text/SplitPattern.h"
#include "compiler/Text/TokenizerDescription.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ingot {

/// One of the four normalization forms (Unicode Standard Annex 15).
struct NormalForm {
  /// C: composes; D: neither; KC: both; KD: compatible. Made once.
  static const NormalForm &get(bool compatible, bool composes);

  bool compatible, composes;
  /// Full decompositions, not those of Hangul syllables, which are arithmetic.
  std::map<uint32_t, std::vector<uint32_t>> decompositions;
  std::vector<uint8_t> combiningClass; ///< [lastCodePoint + 1]
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> compositions;

  std::vector<uint32_t> normalize(const std::vector<uint32_t> &text) const;
  /// [lastCodePoint + 1]: 1 for code points that may change, or change others.
  std::vector<uint8_t> active() const;

private:
  NormalForm(bool compatible, bool composes);
};

/// What a step that treats each code point by itself turns them into; those that
/// are not here stay. Nothing for other steps.
std::map<uint32_t, std::vector<uint32_t>> mappingOf(NormalizerStep::Kind kind);

/// Whether mappingOf is what the step does; whether it is a form, and which.
bool isMapping(NormalizerStep::Kind kind);
bool isForm(NormalizerStep::Kind kind, bool &compatible, bool &composes);

/// The pattern of a replacing step. An error names what is not supported.
llvm::Expected<SplitAutomaton> compileReplaced(const NormalizerStep &step);

/// All steps on a text; an error names the step's pattern.
llvm::Expected<std::string> normalize(llvm::ArrayRef<NormalizerStep> steps, llvm::StringRef text);

/// Valid UTF-8 as code points, and back.
std::vector<uint32_t> codePointsOf(llvm::StringRef text);
std::string utf8Of(llvm::ArrayRef<uint32_t> text);

} // namespace ingot

#endif // INGOT_COMPILER_TEXT_NORMALIZATION_H
