// Finds the matches of a compiled pattern (ingot_rt_tok_automaton) in a text.
#ifndef INGOT_RUNTIME_TOKENIZER_MATCHER_H
#define INGOT_RUNTIME_TOKENIZER_MATCHER_H

#include "tokenizer/tables.h"
#include "tokenizer/utf8.h"

#include <cstdint>
#include <string_view>

namespace ingot::rt {

/// The code point at `at` < text.size() of valid UTF-8.
inline uint32_t codePointAt(std::string_view text, size_t at, uint32_t &length) {
  if (const auto byte = static_cast<uint8_t>(text[at]); byte < 0x80) {
    length = 1;
    return byte;
  }
  Utf8Step step = readUtf8(text.data() + at, text.data() + text.size());
  length = step.length;
  return step.codePoint;
}

class Matcher {
public:
  Matcher(const uint8_t *base, const ingot_rt_tok_automaton &automaton)
      : transitions(base, automaton.transitions), classOf(base, automaton.class_of), classes(automaton.classes) {}

  /// Calls match(start, stop) for all matches, as Oniguruma's find_iter finds
  /// them: an empty one directly after the last match is passed over by one code
  /// point.
  template <typename Match>
  void findAll(std::string_view text, Match match) const {
    size_t lastStop = SIZE_MAX, at = 0, start, stop;
    while (at <= text.size() && find(text, at, start, stop)) {
      if (start == stop && lastStop == stop) {
        at = stop + lengthAt(text, stop);
        continue;
      }
      match(start, stop);
      lastStop = at = stop;
    }
  }

private:
  /// Finds the first match at or after `at`. False if there is none.
  bool find(std::string_view text, size_t at, size_t &start, size_t &stop) const {
    for (start = at;; start += lengthAt(text, start)) {
      if (matchAt(text, start, stop))
        return true;
      if (start == text.size())
        return false;
    }
  }

  static size_t lengthAt(std::string_view text, size_t at) {
    if (at >= text.size())
      return 1;
    uint32_t length;
    codePointAt(text, at, length);
    return length;
  }

  bool matchAt(std::string_view text, size_t at, size_t &stop) const {
    bool found = false;
    uint32_t state = INGOT_RT_TOK_START;
    while (true) {
      uint32_t length = 0, group = classes - 1;
      if (at < text.size())
        group = classOf[codePointAt(text, at, length)];
      const uint16_t *next = transitions.at(state * uint64_t(classes) + group);
      if (!next)
        return found;
      if (*next & INGOT_RT_TOK_ACCEPT) {
        found = true;
        stop = at;
      }
      state = *next & ~INGOT_RT_TOK_ACCEPT;
      if (state == INGOT_RT_TOK_DEAD || at >= text.size())
        return found;
      at += length;
    }
  }

  Table<uint16_t> transitions;
  CodePointMap classOf;
  uint32_t classes;
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_MATCHER_H
