// The JSON of a model's files, parsed strictly: RFC 8259 and nothing more, keys
// in the order of the file, no key twice in an object, bounded nesting. An
// error names the file, the line and the column.
#ifndef INGOT_COMPILER_IMPORT_JSON_H
#define INGOT_COMPILER_IMPORT_JSON_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <nlohmann/json.hpp>

namespace ingot {

/// Objects keep the order of the file. Integers within 64 bits stay integers;
/// larger ones (tokenizer_config.json's model_max_length) become floats; a
/// number beyond float64 is an error.
using Json = nlohmann::ordered_json;

/// Objects and arrays may be nested so deep; real files stay below 20.
inline constexpr unsigned maxJsonDepth = 100;

/// Parses `text`, all of it. `file` is what errors call it.
llvm::Expected<Json> parseJson(llvm::StringRef text, llvm::StringRef file);

/// Maps and parses a file, and says what stands in its place when that is not
/// JSON (a Git-LFS pointer, an HTML page).
llvm::Expected<Json> readJsonFile(llvm::StringRef path);

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_JSON_H
