// The Unicode data that tokenizers depend on, of the versions that the
// reference has (see unicode_data.py), so that ids equal the reference's.
#ifndef INGOT_COMPILER_TEXT_UNICODEDATA_H
#define INGOT_COMPILER_TEXT_UNICODEDATA_H

#include "compiler/Text/CodePointSet.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ingot {

/// The code points of a general category ("Lu") or of a group of them ("L"),
/// as \p{...} names it; nothing if there is no such category.
std::optional<CodePointSet> generalCategory(llvm::StringRef name);

/// \s of both regular expression engines: the property White_Space.
const CodePointSet &whiteSpace();
/// \w of Oniguruma (split patterns).
const CodePointSet &patternWord();
/// \w of Rust's engine (added tokens with single_word).
const CodePointSet &addedTokenWord();
/// Rust's char::is_numeric (the pre-tokenizer Digits): N of Unicode 17.
const CodePointSet &numericCharacter();

/// What the normalizer StripAccents removes.
const CodePointSet &combiningMark();
/// What the pre-tokenizers Punctuation and BertPreTokenizer take for it.
const CodePointSet &punctuationCharacter();
/// What BertNormalizer removes as control characters, and as accents.
const CodePointSet &bertControl();
const CodePointSet &bertMark();

/// Rust's char::to_lowercase: the code points that are not their own lower case,
/// in order, with what they become.
llvm::ArrayRef<std::pair<uint32_t, uint32_t>> lowercasePairs();

/// A range of code points with a canonical combining class other than 0.
struct ClassRange {
  uint32_t first, last;
  uint8_t combiningClass;
};
llvm::ArrayRef<ClassRange> combiningClassRanges();

/// One step of a canonical decomposition: to first and second (0: none);
/// `composes` if NFC puts the two together again. Sorted by code point.
struct Decomposition {
  uint32_t codePoint, first, second;
  bool composes;
};
llvm::ArrayRef<Decomposition> canonicalDecompositions();

/// The full compatibility decomposition of a code point, empty if it has none;
/// of the version of Unicode that the reference's normalizers follow.
std::vector<uint32_t> compatibilityDecomposition(uint32_t codePoint);

} // namespace ingot

#endif // INGOT_COMPILER_TEXT_UNICODEDATA_H
