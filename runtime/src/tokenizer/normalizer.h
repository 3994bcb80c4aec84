// The normalizers of a tokenizer section, one after the other.
#ifndef INGOT_RUNTIME_TOKENIZER_NORMALIZER_H
#define INGOT_RUNTIME_TOKENIZER_NORMALIZER_H

#include "tokenizer/tables.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

class Normalizer {
public:
  Normalizer(const uint8_t *base, const ingot_rt_tok_header &header)
      : base(base), bytes(base, header.bytes), steps(base, header.normalizers), forms(base, header.normal_forms),
        maps(base, header.maps), automata(base, header.automata), properties(base, header.properties) {}

  bool empty() const { return steps.count == 0; }

  /// Runs all steps on `text`, which is valid UTF-8. Returns a view of `text`
  /// or, where it changes, of `result`. `origins`, if not null, has a number
  /// for each byte of `text`, and gets one for each byte of the result: that of
  /// the code point it comes from, as the reference's alignments begin.
  std::string_view run(std::string_view text, std::string &result, std::vector<uint64_t> *origins) const;

private:
  /// One step; false if it changes nothing. `from` gets the position in `text`
  /// that each byte of `result` comes from, if it is not null.
  bool run(const ingot_rt_tok_normalizer &step, std::string_view text, std::string &result,
           std::vector<uint64_t> *from) const;
  bool map(const ingot_rt_tok_mapped &map, std::string_view text, std::string &result,
           std::vector<uint64_t> *from) const;
  bool replace(const ingot_rt_tok_normalizer &step, std::string_view text, std::string &result,
               std::vector<uint64_t> *from) const;
  bool strip(uint32_t sides, std::string_view text, std::string &result, std::vector<uint64_t> *from) const;

  const uint8_t *base;
  Table<char> bytes;
  Table<ingot_rt_tok_normalizer> steps;
  Table<ingot_rt_tok_normal_form> forms;
  Table<ingot_rt_tok_mapped> maps;
  Table<ingot_rt_tok_automaton> automata;
  CodePointMap properties;
};

/// Appends what the byte-level alphabet writes for `text`; `from` as above.
void appendByteLevel(std::string_view text, std::string &result, std::vector<uint64_t> *from);

/// The code point that ends before `at` > 0, and where it starts.
uint32_t codePointBefore(std::string_view text, size_t at, size_t &start);

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_NORMALIZER_H
