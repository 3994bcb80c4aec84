// Sets of code points from UnicodeData.inc, and NFC through utf8proc.
#include "compiler/Text/UnicodeData.h"
#include <cstdlib>
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

std::string composeCanonically(StringRef text) {
  utf8proc_uint8_t *mapped = nullptr;
  utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()), text.size(), &mapped,
                                         static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (length < 0) // not UTF-8, which callers exclude
    return text.str();
  std::string result(reinterpret_cast<const char *>(mapped), length);
  free(mapped);
  return result;
}

} // namespace ingot
