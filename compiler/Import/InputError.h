// How the checkpoint readers say what is wrong with an input: one line, the
// file first, then what, with expected and actual. Every reader goes through
// these helpers, so that text from a file can never break the line.
#ifndef INGOT_COMPILER_IMPORT_INPUTERROR_H
#define INGOT_COMPILER_IMPORT_INPUTERROR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>

namespace ingot {

/// The error "FILE: WHAT".
llvm::Error inputError(llvm::StringRef file, const llvm::Twine &what);

/// Text from an input made fit for a message: in single quotes, bytes outside
/// printable ASCII escaped (valid UTF-8 is kept), cut after 120 bytes.
std::string quote(llvm::StringRef text);

/// "[16, 32]".
std::string shapeText(llvm::ArrayRef<int64_t> shape);

/// The product of non-negative dimensions, nothing if one is negative or the
/// product leaves int64_t. The product of no dimensions is 1 (a scalar).
std::optional<int64_t> checkedProduct(llvm::ArrayRef<int64_t> dimensions);

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_INPUTERROR_H
