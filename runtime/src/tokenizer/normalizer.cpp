// What each normalizer does, after the `tokenizers` library's NormalizedString:
// also which code point of the text each byte of the result belongs to, where
// somebody asks.
#include "tokenizer/normalizer.h"

#include "tokenizer/matcher.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/utf8.h"

#include <algorithm>

namespace ingot::rt {

namespace {

/// A result as it grows, with the positions its bytes come from.
class Output {
public:
  Output(std::string &text, std::vector<uint64_t> *from) : text(text), from(from) {
    text.clear();
    if (from)
      from->clear();
  }

  /// Bytes of the source at `at`, as they are.
  void copy(std::string_view source, size_t at, size_t length) {
    text.append(source.substr(at, length));
    if (from)
      for (size_t i = 0; i < length; ++i)
        from->push_back(at + i);
  }
  /// Other bytes in place of what is at `at`.
  void put(std::string_view bytes, size_t at) {
    text.append(bytes);
    if (from)
      from->resize(text.size(), at);
  }

private:
  std::string &text;
  std::vector<uint64_t> *from;
};

} // namespace

uint32_t codePointBefore(std::string_view text, size_t at, size_t &start) {
  start = at - 1;
  while (start > 0 && at - start < 4 && (static_cast<uint8_t>(text[start]) & 0xc0) == 0x80)
    --start;
  return readUtf8(text.data() + start, text.data() + at).codePoint;
}

void appendByteLevel(std::string_view text, std::string &result, std::vector<uint64_t> *from) {
  for (size_t at = 0; at < text.size(); ++at) {
    appendUtf8(result, ingot_rt_tok_byte_level(static_cast<uint8_t>(text[at])));
    if (from)
      from->resize(result.size(), at);
  }
}

std::string_view Normalizer::run(std::string_view text, std::string &result, std::vector<uint64_t> *origins) const {
  std::string next;
  std::vector<uint64_t> from;
  for (uint64_t i = 0; i < steps.count; ++i) {
    if (!run(steps.data[i], text, next, origins ? &from : nullptr))
      continue;
    if (origins) {
      for (uint64_t &position : from)
        position = position < origins->size() ? (*origins)[position] : 0;
      // The reference aligns by order, so that marks which changed places at
      // the start still belong to the start.
      if (steps.data[i].kind == INGOT_RT_TOK_NORMALIZER_FORM && !from.empty() && !origins->empty())
        from.front() = origins->front();
      origins->swap(from);
    }
    result.swap(next);
    text = result;
  }
  return text;
}

bool Normalizer::run(const ingot_rt_tok_normalizer &step, std::string_view text, std::string &result,
                     std::vector<uint64_t> *from) const {
  if (text.empty())
    return false;
  switch (step.kind) {
  case INGOT_RT_TOK_NORMALIZER_FORM: {
    if (from)
      from->clear();
    const ingot_rt_tok_normal_form *form = forms.at(step.index);
    return form && NormalForm(base, *form).normalize(text, result, from);
  }
  case INGOT_RT_TOK_NORMALIZER_MAP: {
    const ingot_rt_tok_mapped *mapped = maps.at(step.index);
    return mapped && map(*mapped, text, result, from);
  }
  case INGOT_RT_TOK_NORMALIZER_REPLACE:
    return replace(step, text, result, from);
  case INGOT_RT_TOK_NORMALIZER_PREPEND: {
    Output out(result, from);
    out.put(poolBytes(bytes, step.text), 0);
    out.copy(text, 0, text.size());
    return true;
  }
  case INGOT_RT_TOK_NORMALIZER_STRIP:
    return strip(step.index, text, result, from);
  case INGOT_RT_TOK_NORMALIZER_BYTE_LEVEL:
    Output(result, from);
    appendByteLevel(text, result, from);
    return true;
  default:
    return false;
  }
}

bool Normalizer::map(const ingot_rt_tok_mapped &map, std::string_view text, std::string &result,
                     std::vector<uint64_t> *from) const {
  CodePointMap flags(base, map.flags);
  Table<ingot_rt_tok_mapping> mappings(base, map.mappings);
  Output out(result, from);
  size_t done = 0;
  bool changed = false;
  uint32_t length;
  for (size_t at = 0; at < text.size(); at += length) {
    const uint32_t codePoint = codePointAt(text, at, length);
    if (!flags[codePoint])
      continue;
    const auto *end = mappings.data + mappings.count;
    const auto *found = std::lower_bound(mappings.data, end, codePoint,
                                         [](const auto &entry, uint32_t c) { return entry.code_point < c; });
    if (found == end || found->code_point != codePoint)
      continue;
    changed = true;
    out.copy(text, done, at - done);
    out.put(poolBytes(bytes, found->text), at);
    done = at + length;
  }
  if (changed)
    out.copy(text, done, text.size() - done);
  return changed;
}

bool Normalizer::replace(const ingot_rt_tok_normalizer &step, std::string_view text, std::string &result,
                         std::vector<uint64_t> *from) const {
  const ingot_rt_tok_automaton *automaton = automata.at(step.index);
  if (!automaton)
    return false;
  const std::string_view content = poolBytes(bytes, step.text);
  Output out(result, from);
  size_t done = 0;
  bool changed = false;
  Matcher(base, *automaton).findAll(text, [&](size_t start, size_t stop) {
    changed = true;
    out.copy(text, done, start - done);
    // The content belongs to the match's last code point.
    out.put(content, stop ? stop - 1 : 0);
    done = stop;
  });
  if (changed)
    out.copy(text, done, text.size() - done);
  return changed;
}

bool Normalizer::strip(uint32_t sides, std::string_view text, std::string &result, std::vector<uint64_t> *from) const {
  size_t start = 0, stop = text.size(), before;
  uint32_t length;
  if (sides & INGOT_RT_TOK_LEFT)
    while (start < stop && (properties[codePointAt(text, start, length)] & INGOT_RT_TOK_WHITE_SPACE))
      start += length;
  if (sides & INGOT_RT_TOK_RIGHT)
    while (stop > start && (properties[codePointBefore(text, stop, before)] & INGOT_RT_TOK_WHITE_SPACE))
      stop = before;
  if (stop - start == text.size())
    return false;
  Output(result, from).copy(text, start, stop - start);
  return true;
}

} // namespace ingot::rt
