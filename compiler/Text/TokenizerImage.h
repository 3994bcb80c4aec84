// Writes a tokenizer as the section that an executable reads in place
// (ingot_rt/image_tokenizer.h).
#ifndef INGOT_COMPILER_TEXT_TOKENIZERIMAGE_H
#define INGOT_COMPILER_TEXT_TOKENIZERIMAGE_H

#include "compiler/Text/TokenizerDescription.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <vector>

namespace ingot {

/// The section's bytes, to be stored at an address that is a multiple of 8; the
/// same description gives the same bytes. `rows`, if given, is the number of
/// rows of the model's embedding: an id without a row is an error (rows without
/// an id are fine).
llvm::Expected<std::vector<char>> makeTokenizerImage(const TokenizerDescription &tokenizer,
                                                     std::optional<int64_t> rows);

} // namespace ingot

#endif // INGOT_COMPILER_TEXT_TOKENIZERIMAGE_H
