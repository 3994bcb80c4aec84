// Unicode normalization over the tables of a tokenizer section.
#ifndef INGOT_RUNTIME_TOKENIZER_NORMAL_FORM_H
#define INGOT_RUNTIME_TOKENIZER_NORMAL_FORM_H

#include "tokenizer/tables.h"

#include <string>
#include <string_view>

namespace ingot::rt {

class NormalForm {
public:
  NormalForm(const uint8_t *base, const ingot_rt_tok_normal_form &tables)
      : flags(base, tables.flags), combiningClass(base, tables.combining_class),
        decompositions(base, tables.decompositions), decomposed(base, tables.decomposed),
        compositions(base, tables.compositions) {}

  /// Normalization form C of `text` (valid UTF-8): canonical decomposition,
  /// ordering and composition, Unicode Standard Annex 15. Returns false, and
  /// leaves `result` alone, if the text is normalized already.
  bool composeCanonically(std::string_view text, std::string &result) const;

private:
  struct Mark {
    uint32_t codePoint, combiningClass;
    uint64_t position; ///< in the decomposed text
  };
  template <typename Append>
  void decompose(uint32_t codePoint, Append append) const;
  /// The composition of a pair, or 0.
  uint32_t compose(uint32_t first, uint32_t second) const;

  CodePointMap flags, combiningClass;
  Table<ingot_rt_tok_decomposition> decompositions;
  Table<uint32_t> decomposed;
  Table<ingot_rt_tok_composition> compositions;
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_NORMAL_FORM_H
