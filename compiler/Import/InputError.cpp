// The wording that all readers share: escaping, shapes, and the one
// overflow-checked product of dimensions.
#include "compiler/Import/InputError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

Error ingot::inputError(StringRef file, const Twine &what) {
  return createStringError(inconvertibleErrorCode(), file + ": " + what);
}

/// The length of the valid UTF-8 sequence at the start of `text`, 0 if there is
/// none.
static size_t validSequence(StringRef text) {
  const auto *begin = reinterpret_cast<const UTF8 *>(text.data());
  unsigned length = getNumBytesForUTF8(*begin);
  if (length > text.size() || !isLegalUTF8Sequence(begin, begin + length))
    return 0;
  return length;
}

std::string ingot::quote(StringRef text) {
  constexpr size_t longest = 120;
  std::string result = "'";
  raw_string_ostream out(result);
  size_t at = 0;
  while (at < text.size() && at < longest) {
    unsigned char c = text[at];
    if (c >= 0x80) {
      if (size_t length = validSequence(text.substr(at))) {
        out << text.substr(at, length);
        at += length;
        continue;
      }
    }
    if (c == '\\' || c == '\'')
      out << '\\' << char(c);
    else if (isPrint(c))
      out << char(c);
    else
      out << "\\x" << hexdigit(c >> 4, true) << hexdigit(c & 15, true);
    ++at;
  }
  out << (at < text.size() ? "...'" : "'");
  return result;
}

std::string ingot::shapeText(ArrayRef<int64_t> shape) {
  std::string result = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    result += (i ? ", " : "") + std::to_string(shape[i]);
  return result + "]";
}

std::optional<int64_t> ingot::checkedProduct(ArrayRef<int64_t> dimensions) {
  int64_t product = 1;
  for (int64_t dimension : dimensions)
    if (dimension < 0 || __builtin_mul_overflow(product, dimension, &product))
      return std::nullopt;
  return product;
}
