// Unicode normalization over the tables of a tokenizer section.
#ifndef INGOT_RUNTIME_TOKENIZER_NORMAL_FORM_H
#define INGOT_RUNTIME_TOKENIZER_NORMAL_FORM_H

#include "tokenizer/tables.h"

#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

class NormalForm {
public:
  NormalForm(const uint8_t *base, const ingot_rt_tok_normal_form &tables)
      : flags(base, tables.flags), combiningClass(base, tables.combining_class),
        decompositions(base, tables.decompositions), decomposed(base, tables.decomposed),
        compositions(base, tables.compositions), composes(tables.composes != 0) {}

  /// The normalization form of `text` (valid UTF-8) that the tables are for:
  /// decomposition, ordering and, for C and KC, composition; Unicode Standard
  /// Annex 15. Returns false, and leaves the results alone, if the text is
  /// normalized already. `origins`, if given, gets the position in `text` that
  /// each byte of the result comes from.
  bool normalize(std::string_view text, std::string &result, std::vector<uint64_t> *origins) const;

private:
  struct Mark {
    uint32_t codePoint, combiningClass;
    uint64_t position; ///< in the decomposed text
    uint64_t origin;   ///< in the text, of the code point it comes from
  };
  template <typename Append>
  void decompose(uint32_t codePoint, Append append) const;
  /// The composition of a pair, or 0.
  uint32_t compose(uint32_t first, uint32_t second) const;
  /// Composes what is decomposed and ordered, in place; how many are left.
  size_t compose(std::vector<Mark> &marks) const;

  CodePointMap flags, combiningClass;
  Table<ingot_rt_tok_decomposition> decompositions;
  Table<uint32_t> decomposed;
  Table<ingot_rt_tok_composition> compositions;
  bool composes;
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_NORMAL_FORM_H
