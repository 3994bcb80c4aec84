// Normalization while compiling, see Normalization.h; the runtime does the same
// over tables.
#include "compiler/Text/Normalization.h"
#include "compiler/Text/UnicodeData.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/ConvertUTF.h"
#include <algorithm>
#include <memory>
#include <mutex>

using namespace llvm;
using namespace ingot;
using Kind = NormalizerStep::Kind;

std::vector<uint32_t> ingot::codePointsOf(StringRef text) {
  std::vector<uint32_t> result(text.size());
  const auto *from = reinterpret_cast<const UTF8 *>(text.data());
  UTF32 *to = result.data();
  // Lenient: what is not UTF-8 becomes U+FFFD.
  ConvertUTF8toUTF32(&from, from + text.size(), &to, to + text.size(), lenientConversion);
  result.resize(to - result.data());
  return result;
}

std::string ingot::utf8Of(ArrayRef<uint32_t> text) {
  std::string result;
  for (uint32_t c : text) {
    char buffer[UNI_MAX_UTF8_BYTES_PER_CODE_POINT], *end = buffer;
    if (ConvertCodePointToUTF8(c, end))
      result.append(buffer, end);
  }
  return result;
}

// ---------------------------------------------------------------------------
// Normal forms
// ---------------------------------------------------------------------------

namespace hangul {
constexpr uint32_t syllable = 0xac00, leading = 0x1100, vowel = 0x1161, trailing = 0x11a7;
constexpr uint32_t leadings = 19, vowels = 21, trailings = 28, syllables = leadings * vowels * trailings;
} // namespace hangul

NormalForm::NormalForm(bool compatible, bool composes) : compatible(compatible), composes(composes) {
  combiningClass.resize(lastCodePoint + 1);
  for (ClassRange range : combiningClassRanges())
    std::fill(combiningClass.begin() + range.first, combiningClass.begin() + range.last + 1, range.combiningClass);
  std::map<uint32_t, Decomposition> steps;
  for (const Decomposition &step : canonicalDecompositions()) {
    steps[step.codePoint] = step;
    if (composes && step.composes)
      compositions[{step.first, step.second}] = step.codePoint;
  }
  for (const auto &[codePoint, step] : steps) {
    std::vector<uint32_t> &parts = decompositions[codePoint];
    SmallVector<uint32_t> rest = {codePoint};
    while (!rest.empty()) {
      uint32_t c = rest.pop_back_val();
      auto found = steps.find(c);
      if (found == steps.end()) {
        parts.push_back(c);
        continue;
      }
      if (found->second.second)
        rest.push_back(found->second.second);
      rest.push_back(found->second.first);
    }
  }
  if (!compatible)
    return;
  for (uint32_t c = 0; c <= lastCodePoint; ++c) {
    if (c - hangul::syllable < hangul::syllables || c - 0xd800 < 0x800)
      continue;
    if (std::vector<uint32_t> parts = compatibilityDecomposition(c); !parts.empty())
      decompositions[c] = std::move(parts);
  }
}

const NormalForm &NormalForm::get(bool compatible, bool composes) {
  auto make = [&] { return std::unique_ptr<NormalForm>(new NormalForm(compatible, composes)); };
  static std::mutex mutex;
  static std::unique_ptr<NormalForm> made[2][2];
  std::lock_guard lock(mutex);
  std::unique_ptr<NormalForm> &form = made[compatible][composes];
  if (!form)
    form = make();
  return *form;
}

std::vector<uint32_t> NormalForm::normalize(const std::vector<uint32_t> &text) const {
  std::vector<uint32_t> marks;
  for (uint32_t c : text) {
    uint32_t index = c - hangul::syllable;
    if (index < hangul::syllables) {
      marks.push_back(hangul::leading + index / (hangul::vowels * hangul::trailings));
      marks.push_back(hangul::vowel + index / hangul::trailings % hangul::vowels);
      if (index % hangul::trailings)
        marks.push_back(hangul::trailing + index % hangul::trailings);
    } else if (auto found = decompositions.find(c); found != decompositions.end()) {
      marks.insert(marks.end(), found->second.begin(), found->second.end());
    } else {
      marks.push_back(c);
    }
  }
  auto isMark = [&](uint32_t c) { return combiningClass[c] != 0; };
  for (auto run = marks.begin(); run != marks.end();) {
    auto first = std::find_if(run, marks.end(), isMark);
    run = std::find_if_not(first, marks.end(), isMark);
    for (auto end = first; end != run; ++end) // stable, and runs are short
      std::rotate(std::upper_bound(first, end, *end,
                                   [&](uint32_t a, uint32_t b) { return combiningClass[a] < combiningClass[b]; }),
                  end, end + 1);
  }
  if (!composes)
    return marks;
  std::vector<uint32_t> result;
  size_t starter = SIZE_MAX;
  uint32_t lastClass = 0;
  for (uint32_t c : marks) {
    if (starter != SIZE_MAX && (lastClass == 0 || lastClass < combiningClass[c])) {
      uint32_t first = result[starter], composed = 0;
      uint32_t syllable = first - hangul::syllable, trailing = c - hangul::trailing;
      if (first - hangul::leading < hangul::leadings && c - hangul::vowel < hangul::vowels)
        composed =
            hangul::syllable + ((first - hangul::leading) * hangul::vowels + (c - hangul::vowel)) * hangul::trailings;
      else if (syllable < hangul::syllables && syllable % hangul::trailings == 0 &&
               trailing - 1 < hangul::trailings - 1)
        composed = first + trailing;
      else if (auto found = compositions.find({first, c}); found != compositions.end())
        composed = found->second;
      if (composed) {
        result[starter] = composed;
        continue;
      }
    }
    if (combiningClass[c] == 0)
      starter = result.size();
    lastClass = combiningClass[c];
    result.push_back(c);
  }
  return result;
}

std::vector<uint8_t> NormalForm::active() const {
  std::vector<uint8_t> flags(lastCodePoint + 1);
  for (uint32_t c = 0; c <= lastCodePoint; ++c)
    flags[c] = combiningClass[c] != 0;
  for (const auto &[c, parts] : decompositions)
    flags[c] |= normalize({c}) != std::vector<uint32_t>{c};
  // Starters that compose with what is before them.
  for (const auto &[pair, composed] : compositions)
    flags[pair.second] = 1;
  if (composes) {
    std::fill(flags.begin() + 0x1161, flags.begin() + 0x1176, 1);
    std::fill(flags.begin() + 0x11a8, flags.begin() + 0x11c3, 1);
  } else {
    std::fill(flags.begin() + hangul::syllable, flags.begin() + hangul::syllable + hangul::syllables, 1);
  }
  return flags;
}

// ---------------------------------------------------------------------------
// Steps
// ---------------------------------------------------------------------------

bool ingot::isForm(Kind kind, bool &compatible, bool &composes) {
  compatible = kind == Kind::Nfkc || kind == Kind::Nfkd;
  composes = kind == Kind::Nfc || kind == Kind::Nfkc;
  return compatible || composes || kind == Kind::Nfd;
}

bool ingot::isMapping(Kind kind) {
  return is_contained(
      {Kind::Lowercase, Kind::RemoveMarks, Kind::Nmt, Kind::BertClean, Kind::BertSpaced, Kind::BertUnmark}, kind);
}

static void remove(std::map<uint32_t, std::vector<uint32_t>> &mapping, const CodePointSet &set) {
  for (CodePointSet::Range range : set.ranges())
    for (uint32_t c = range.first; c <= range.last; ++c)
      mapping[c] = {};
}

std::map<uint32_t, std::vector<uint32_t>> ingot::mappingOf(Kind kind) {
  std::map<uint32_t, std::vector<uint32_t>> result;
  switch (kind) {
  case Kind::Lowercase:
    for (auto [from, to] : lowercasePairs())
      result[from] = {to};
    result[0x130] = {'i', 0x307}; // the one that becomes two
    break;
  case Kind::RemoveMarks:
    remove(result, combiningMark());
    break;
  case Kind::BertUnmark:
    remove(result, bertMark());
    break;
  case Kind::Nmt:
    remove(result, {{0x1, 0x8}, {0xb, 0xb}, {0xe, 0x1f}, {0x7f, 0x7f}, {0x8f, 0x8f}, {0x9f, 0x9f}});
    for (uint32_t c :
         {0x9, 0xa, 0xc, 0xd, 0x1680, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029, 0x2581, 0xfeff, 0xfffd})
      result[c] = {' '};
    break;
  case Kind::BertClean:
    for (CodePointSet::Range range : whiteSpace().ranges())
      for (uint32_t c = range.first; c <= range.last; ++c)
        result[c] = {' '};
    remove(result, bertControl());
    break;
  case Kind::BertSpaced: {
    const CodePointSet chinese = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf}, {0x20000, 0x2a6df}, {0x2a700, 0x2b81f},
                                  {0x2b920, 0x2ceaf}, {0xf900, 0xfaff}, {0x2f800, 0x2fa1f}};
    for (CodePointSet::Range range : chinese.ranges())
      for (uint32_t c = range.first; c <= range.last; ++c)
        result[c] = {' ', c, ' '};
    break;
  }
  default:
    break;
  }
  return result;
}

Expected<SplitAutomaton> ingot::compileReplaced(const NormalizerStep &step) {
  auto compiled = step.kind == Kind::ReplacePattern ? compilePattern(step.text) : compileLiteral(step.text);
  if (compiled && matchesEmpty(*compiled))
    return createStringError("pattern: replacing what may be empty is not supported yet");
  return compiled;
}

static std::vector<uint32_t> strip(const NormalizerStep &step, const std::vector<uint32_t> &text) {
  size_t start = 0, stop = text.size();
  while (step.left && start < stop && whiteSpace().contains(text[start]))
    ++start;
  while (step.right && stop > start && whiteSpace().contains(text[stop - 1]))
    --stop;
  return std::vector<uint32_t>(text.begin() + start, text.begin() + stop);
}

static std::vector<uint32_t> byteLevel(ArrayRef<uint32_t> text) {
  std::vector<uint32_t> result;
  const std::array<uint16_t, 256> alphabet = byteLevelAlphabet();
  for (char byte : utf8Of(text))
    result.push_back(alphabet[uint8_t(byte)]);
  return result;
}

Expected<std::string> ingot::normalize(ArrayRef<NormalizerStep> steps, StringRef string) {
  std::vector<uint32_t> text = codePointsOf(string);
  for (const NormalizerStep &step : steps) {
    bool compatible, composes;
    std::vector<uint32_t> next, content = codePointsOf(step.content);
    if (isForm(step.kind, compatible, composes)) {
      next = NormalForm::get(compatible, composes).normalize(text);
    } else if (isMapping(step.kind)) {
      const auto mapping = mappingOf(step.kind);
      for (uint32_t c : text) {
        auto found = mapping.find(c);
        if (found == mapping.end())
          next.push_back(c);
        else
          next.insert(next.end(), found->second.begin(), found->second.end());
      }
    } else if (step.kind == Kind::ReplaceLiteral || step.kind == Kind::ReplacePattern) {
      auto compiled = compileReplaced(step);
      if (!compiled)
        return compiled.takeError();
      size_t done = 0;
      for (auto [start, stop] : findMatches(*compiled, text)) {
        next.insert(next.end(), text.begin() + done, text.begin() + start);
        next.insert(next.end(), content.begin(), content.end());
        done = stop;
      }
      next.insert(next.end(), text.begin() + done, text.end());
    } else if (step.kind == Kind::Prepend) {
      if (!text.empty())
        next = content;
      next.insert(next.end(), text.begin(), text.end());
    } else if (step.kind == Kind::Strip) {
      next = strip(step, text);
    } else {
      next = byteLevel(text);
    }
    text = std::move(next);
  }
  return utf8Of(text);
}
