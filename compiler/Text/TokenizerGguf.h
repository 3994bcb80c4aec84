// Makes a tokenizer of a GGUF file's metadata (tokenizer.ggml.*).
#ifndef INGOT_COMPILER_TEXT_TOKENIZERGGUF_H
#define INGOT_COMPILER_TEXT_TOKENIZERGGUF_H

#include "compiler/Text/TokenizerDescription.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace ingot {

struct GgufTokenizer;

/// `file` is what errors call the file. A model or a pre-tokenizer's name that
/// is not known is an error that names it.
llvm::Expected<TokenizerDescription> convertGgufTokenizer(const GgufTokenizer &metadata, llvm::StringRef file);

} // namespace ingot

#endif // INGOT_COMPILER_TEXT_TOKENIZERGGUF_H
