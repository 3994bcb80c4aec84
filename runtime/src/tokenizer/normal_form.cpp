// The four normalization forms, see normal_form.h. Hangul syllables are composed and
// decomposed by arithmetic (Unicode 3.12).
#include "tokenizer/normal_form.h"

#include "tokenizer/utf8.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace ingot::rt {

namespace hangul {
constexpr uint32_t syllable = 0xac00, leading = 0x1100, vowel = 0x1161, trailing = 0x11a7;
constexpr uint32_t leadings = 19, vowels = 21, trailings = 28;
constexpr uint32_t syllables = leadings * vowels * trailings;
} // namespace hangul

template <typename Append>
void NormalForm::decompose(uint32_t codePoint, Append append) const {
  uint32_t index = codePoint - hangul::syllable;
  if (index < hangul::syllables) {
    append(hangul::leading + index / (hangul::vowels * hangul::trailings));
    append(hangul::vowel + index / hangul::trailings % hangul::vowels);
    if (uint32_t trailing = index % hangul::trailings)
      append(hangul::trailing + trailing);
    return;
  }
  const auto *end = decompositions.data + decompositions.count;
  const auto *found = std::lower_bound(decompositions.data, end, codePoint,
                                       [](const auto &entry, uint32_t c) { return entry.code_point < c; });
  if (found == end || found->code_point != codePoint)
    return append(codePoint);
  for (uint32_t i = 0; i < found->count; ++i) {
    const uint32_t *part = decomposed.at(uint64_t(found->first) + i);
    if (!part || *part > 0x10ffff)
      return;
    append(*part);
  }
}

uint32_t NormalForm::compose(uint32_t first, uint32_t second) const {
  if (first - hangul::leading < hangul::leadings && second - hangul::vowel < hangul::vowels)
    return hangul::syllable +
           ((first - hangul::leading) * hangul::vowels + (second - hangul::vowel)) * hangul::trailings;
  uint32_t syllable = first - hangul::syllable;
  uint32_t trailing = second - hangul::trailing;
  if (syllable < hangul::syllables && syllable % hangul::trailings == 0 && trailing - 1 < hangul::trailings - 1)
    return first + trailing;
  const auto *end = compositions.data + compositions.count;
  const auto *found =
      std::lower_bound(compositions.data, end, std::tuple(first, second), [](const auto &entry, const auto &pair) {
        return std::tuple(entry.first, entry.second) < pair;
      });
  if (found == end || found->first != first || found->second != second || found->composed > 0x10ffff)
    return 0;
  return found->composed;
}

size_t NormalForm::compose(std::vector<Mark> &marks) const {
  // A mark composes with the last starter unless a mark of its own class or a
  // higher one stands between them; a starter only if it is adjacent.
  size_t kept = 0, starter = SIZE_MAX;
  uint32_t lastClass = 0;
  for (Mark mark : marks) {
    if (starter != SIZE_MAX && (lastClass == 0 || lastClass < mark.combiningClass)) {
      if (uint32_t composed = compose(marks[starter].codePoint, mark.codePoint)) {
        marks[starter].codePoint = composed;
        continue;
      }
    }
    if (mark.combiningClass == 0)
      starter = kept;
    lastClass = mark.combiningClass;
    marks[kept++] = mark;
  }
  return kept;
}

bool NormalForm::normalize(std::string_view text, std::string &result, std::vector<uint64_t> *origins) const {
  const char *at = text.data(), *end = at + text.size();
  const char *active = at;
  while (active < end) {
    Utf8Step step = readUtf8(active, end);
    if (flags[step.codePoint] & INGOT_RT_TOK_FORM_ACTIVE)
      break;
    active += step.length;
  }
  if (active == end)
    return false;

  std::vector<Mark> marks;
  marks.reserve(text.size());
  while (at < end) {
    Utf8Step step = readUtf8(at, end);
    const auto origin = static_cast<uint64_t>(at - text.data());
    at += step.length;
    decompose(step.codePoint, [&](uint32_t c) { marks.push_back({c, combiningClass[c], marks.size(), origin}); });
  }
  // Runs of marks (class not 0) are ordered by class; equal classes keep their
  // order.
  for (auto run = marks.begin(); run != marks.end();) {
    auto isMark = [](const Mark &m) { return m.combiningClass != 0; };
    auto first = std::find_if(run, marks.end(), isMark);
    run = std::find_if_not(first, marks.end(), isMark);
    std::sort(first, run, [](const Mark &a, const Mark &b) {
      return std::tuple(a.combiningClass, a.position) < std::tuple(b.combiningClass, b.position);
    });
  }
  const size_t kept = composes ? compose(marks) : marks.size();
  result.clear();
  for (size_t i = 0; i < kept; ++i) {
    appendUtf8(result, marks[i].codePoint);
    if (origins)
      origins->resize(result.size(), marks[i].origin);
  }
  return true;
}

} // namespace ingot::rt
