// Sets of code points from UnicodeData.inc and ReferenceSets.inc, and compatibility decompositions from utf8proc.
#include "compiler/Text/UnicodeData.h"
#include <utf8proc.h>

using namespace llvm;

namespace ingot {

namespace {

enum class GeneralCategory : uint8_t {
  Cc,
  Cf,
  Co,
  Cs,
  Ll,
  Lm,
  Lo,
  Lt,
  Lu,
  Mc,
  Me,
  Mn,
  Nd,
  Nl,
  No, // clang-format off
  Pc, Pd, Pe, Pf, Pi, Po, Ps, Sc, Sk, Sm, So, Zl, Zp, Zs, // clang-format on
};
constexpr StringRef categoryNames[] = {"Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc",
                                       "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf", "Pi",
                                       "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

struct CategoryRange {
  uint32_t first, last;
  GeneralCategory category;
};

using enum GeneralCategory;
#include "compiler/Text/UnicodeData.inc"

using LowercasePair = std::pair<uint32_t, uint32_t>;
#include "compiler/Text/ReferenceSets.inc"

} // namespace

std::optional<CodePointSet> generalCategory(StringRef name) {
  CodePointSet result;
  bool known = false;
  for (StringRef category : categoryNames)
    known |= category == name || category.take_front(1) == name;
  if (!known)
    return std::nullopt;
  for (const CategoryRange &range : categoryRanges)
    if (categoryNames[static_cast<size_t>(range.category)].starts_with(name))
      result.append(range.first, range.last);
  return result;
}

const CodePointSet &whiteSpace() {
  static const CodePointSet set = {{0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                   {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                   {0x205f, 0x205f}, {0x3000, 0x3000}};
  return set;
}

/// Letters, marks, decimal digits, letter numbers, connectors, and the letters
/// in circles and squares that are Other_Alphabetic.
static CodePointSet wordCharacters() {
  CodePointSet set = {{0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
  for (StringRef category : {"L", "M", "Nd", "Nl", "Pc"})
    set.add(*generalCategory(category));
  return set;
}

const CodePointSet &patternWord() {
  // Oniguruma also counts superscript digits and fractions below U+0100.
  static const CodePointSet set = [] {
    CodePointSet word = wordCharacters();
    word.add({{0xb2, 0xb3}, {0xb9, 0xb9}, {0xbc, 0xbe}});
    return word;
  }();
  return set;
}

const CodePointSet &addedTokenWord() {
  // Unicode Technical Standard 18, annex C: with Join_Control.
  static const CodePointSet set = [] {
    CodePointSet word = wordCharacters();
    word.add(0x200c, 0x200d);
    return word;
  }();
  return set;
}

const CodePointSet &numericCharacter() {
  static const CodePointSet set = [] {
    CodePointSet numeric = *generalCategory("N");
    numeric.add({{0x11de0, 0x11de9}, {0x16ff4, 0x16ff6}}); // new in Unicode 17
    return numeric;
  }();
  return set;
}

ArrayRef<ClassRange> combiningClassRanges() { return combiningClasses; }

ArrayRef<Decomposition> canonicalDecompositions() { return decompositions; }

template <size_t N>
static CodePointSet setOf(const CodePointSet::Range (&ranges)[N]) {
  CodePointSet set;
  for (CodePointSet::Range range : ranges)
    set.append(range.first, range.last);
  return set;
}

const CodePointSet &combiningMark() {
  static const CodePointSet set = setOf(combiningMarks);
  return set;
}

const CodePointSet &punctuationCharacter() {
  static const CodePointSet set = setOf(punctuationCharacters);
  return set;
}

const CodePointSet &bertControl() {
  static const CodePointSet set = setOf(bertControls);
  return set;
}

const CodePointSet &bertMark() {
  static const CodePointSet set = setOf(bertMarks);
  return set;
}

ArrayRef<std::pair<uint32_t, uint32_t>> lowercasePairs() { return lowercaseTable; }

/// Decompositions that came after Unicode 9 (measured over all code points: the reference leaves these alone).
static const CodePointSet &laterDecompositions() {
  static const CodePointSet set = {{0x32ff, 0x32ff},   {0xa7f1, 0xa7f4},   {0xab69, 0xab69},
                                   {0x10781, 0x107ba}, {0x11938, 0x11938}, {0x1e030, 0x1e06d},
                                   {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}, {0x1ccd6, 0x1ccf9}};
  return set;
}

std::vector<uint32_t> compatibilityDecomposition(uint32_t codePoint) {
  // Most have none, which the property tells fastest.
  if (utf8proc_get_property(static_cast<utf8proc_int32_t>(codePoint))->decomp_seqindex == UINT16_MAX ||
      laterDecompositions().contains(codePoint))
    return {};
  utf8proc_int32_t parts[32];
  int bound = 0;
  utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(codePoint), parts, std::size(parts),
                              static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT), &bound);
  if (count <= 0 || size_t(count) > std::size(parts) || (count == 1 && uint32_t(parts[0]) == codePoint))
    return {};
  return std::vector<uint32_t>(parts, parts + count);
}

} // namespace ingot
