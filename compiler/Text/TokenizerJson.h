// Reads tokenizer.json, the format of the `tokenizers` library, and what
// tokenizer_config.json adds to it.
#ifndef INGOT_COMPILER_TEXT_TOKENIZERJSON_H
#define INGOT_COMPILER_TEXT_TOKENIZERJSON_H

#include "compiler/Import/Json.h"
#include "compiler/Text/TokenizerDescription.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace ingot {

/// Reads the files at the given paths; `configPath` may be empty.
llvm::Expected<TokenizerDescription> readTokenizerJson(llvm::StringRef path, llvm::StringRef configPath);

/// The same from parsed JSON; `config` may be null. `file` and `configFile` are
/// what errors call them. A part of the tokenizer that is not supported is an
/// error that names it.
llvm::Expected<TokenizerDescription> convertTokenizerJson(const Json &tokenizer, llvm::StringRef file,
                                                          const Json &config, llvm::StringRef configFile);

} // namespace ingot

#endif // INGOT_COMPILER_TEXT_TOKENIZERJSON_H
