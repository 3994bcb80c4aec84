// Looks characters up in the tables that unicode_tables.py makes of Python's
// own.
#include "template/unicode.h"

#include <algorithm>
#include <iterator>

namespace ingot::rt::tpl {

namespace {

struct CodePointRange {
  uint32_t first, last;
};
/// Code points first, first + step, ..., last become that plus `difference`.
struct CaseRun {
  uint32_t first, last;
  int32_t step, difference;
};
struct CaseSpecial {
  uint32_t code;
  uint32_t to[3]; ///< ends at 0
};

#include "template/unicode_tables.inc"

template <size_t count>
bool contains(const CodePointRange (&ranges)[count], uint32_t code) {
  const CodePointRange *found = std::partition_point(std::begin(ranges), std::end(ranges),
                                                     [&](const CodePointRange &range) { return range.last < code; });
  return found != std::end(ranges) && found->first <= code;
}

struct CaseTable {
  const CaseRun *runs;
  size_t runCount;
  const CaseSpecial *specials;
  size_t specialCount;

  /// Appends what `code` becomes.
  void map(uint32_t code, std::string &out) const {
    const CaseSpecial *special = std::lower_bound(specials, specials + specialCount, code,
                                                  [](const CaseSpecial &one, uint32_t c) { return one.code < c; });
    if (special != specials + specialCount && special->code == code) {
      for (uint32_t to : special->to)
        if (to)
          appendUtf8(out, to);
      return;
    }
    // Runs of step 2 may lie between each other.
    const CaseRun *end =
        std::partition_point(runs, runs + runCount, [&](const CaseRun &run) { return run.first <= code; });
    for (const CaseRun *run = end; run != runs && end - run < 4;) {
      --run;
      if (code <= run->last && (code - run->first) % static_cast<uint32_t>(run->step) == 0)
        return appendUtf8(out, code + static_cast<uint32_t>(run->difference));
    }
    appendUtf8(out, code);
  }
};

constexpr CaseTable upperTable = {upperRuns, std::size(upperRuns), upperSpecials, std::size(upperSpecials)};
constexpr CaseTable lowerTable = {lowerRuns, std::size(lowerRuns), lowerSpecials, std::size(lowerSpecials)};
constexpr CaseTable titleTable = {titleRuns, std::size(titleRuns), titleSpecials, std::size(titleSpecials)};

/// The Greek sigma at `at` ends a word: something cased comes before it and
/// nothing cased after, not counting what is ignorable.
bool isFinalSigma(std::string_view text, size_t at) {
  auto base = [](uint32_t code) { return contains(casedRanges, code) && !contains(ignorableRanges, code); };
  size_t before = at;
  bool cased = false;
  while (before > 0) {
    before = previousCharacter(text, before);
    uint32_t code = codePointAt(text, before);
    if (contains(ignorableRanges, code))
      continue;
    cased = base(code);
    break;
  }
  if (!cased)
    return false;
  for (size_t after = at + characterLength(text[at]); after < text.size(); after += characterLength(text[after])) {
    uint32_t code = codePointAt(text, after);
    if (!contains(ignorableRanges, code))
      return !base(code);
  }
  return true;
}

void lower(std::string_view text, size_t at, std::string &out) {
  uint32_t code = codePointAt(text, at);
  if (code == 0x3a3)
    return appendUtf8(out, isFinalSigma(text, at) ? 0x3c2 : 0x3c3);
  lowerTable.map(code, out);
}

} // namespace

bool isSpace(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
bool isAlphabetic(uint32_t code) { return contains(alphabeticRanges, code); }
bool isDecimal(uint32_t code) { return contains(decimalRanges, code); }
bool isDigit(uint32_t code) { return contains(digitRanges, code); }
bool isNumeric(uint32_t code) { return contains(numericRanges, code); }
bool isPrintable(uint32_t code) { return contains(printableRanges, code); }
bool isLowercase(uint32_t code) { return contains(lowercaseRanges, code); }
bool isUppercase(uint32_t code) { return contains(uppercaseRanges, code); }
bool isTitlecase(uint32_t code) { return contains(titlecaseRanges, code); }

void appendUtf8(std::string &out, uint32_t code) {
  auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80)
    return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put(0x80 | (code >> 12 & 63));
    }
    put(0x80 | (code >> 6 & 63));
  }
  put(0x80 | (code & 63));
}

Text mapCase(const Text &text, CaseMapping mapping) {
  TextBuilder builder;
  std::string_view bytes = text.bytes();
  std::string mapped;
  bool previousCased = false;
  for (size_t at = 0; at < bytes.size(); at += characterLength(bytes[at])) {
    uint32_t code = codePointAt(bytes, at);
    mapped.clear();
    bool first = mapping == CaseMapping::Capitalize ? at == 0 : !previousCased;
    switch (mapping) {
    case CaseMapping::Upper:
      upperTable.map(code, mapped);
      break;
    case CaseMapping::Lower:
      lower(bytes, at, mapped);
      break;
    case CaseMapping::Title:
    case CaseMapping::Capitalize:
      if (first)
        titleTable.map(code, mapped);
      else
        lower(bytes, at, mapped);
      previousCased = contains(casedRanges, code);
      break;
    case CaseMapping::Swap:
      if (isUppercase(code))
        lower(bytes, at, mapped);
      else if (isLowercase(code))
        upperTable.map(code, mapped);
      else
        appendUtf8(mapped, code);
      break;
    }
    builder.append(mapped, text.isTrusted(at));
  }
  return builder.take(text.isMarkup());
}

} // namespace ingot::rt::tpl
