// Any bytes, cut anywhere, as a stream of UTF-8: the parts are valid, together they are the text of all bytes, and that
// is what the table of well-formed byte sequences (The Unicode Standard, table 3-7) says. The first byte seeds the
// cuts.
#include "tokenizer/utf8.h"
#include <array>
#include <cstdlib>

using namespace ingot;

static void require(bool holds) {
  if (!holds)
    std::abort();
}

/// A row of table 3-7: ranges of first and second bytes, and the length. Later bytes are 80..BF.
struct Row {
  unsigned first, last, second, secondLast, length;
};

static const std::array<Row, 9> table = {{{0x00, 0x7f, 0, 0, 1},
                                          {0xc2, 0xdf, 0x80, 0xbf, 2},
                                          {0xe0, 0xe0, 0xa0, 0xbf, 3},
                                          {0xe1, 0xec, 0x80, 0xbf, 3},
                                          {0xed, 0xed, 0x80, 0x9f, 3},
                                          {0xee, 0xef, 0x80, 0xbf, 3},
                                          {0xf0, 0xf0, 0x90, 0xbf, 4},
                                          {0xf1, 0xf3, 0x80, 0xbf, 4},
                                          {0xf4, 0xf4, 0x80, 0x8f, 4}}};

/// `bytes` with every maximal part of a broken sequence as U+FFFD.
static std::string replaced(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const Row *row = nullptr;
    auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
    for (const Row &one : table)
      if (byte(0) >= one.first && byte(0) <= one.last)
        row = &one;
    size_t fits = 1;
    while (row && fits < row->length && at + fits < bytes.size() && byte(fits) >= (fits == 1 ? row->second : 0x80) &&
           byte(fits) <= (fits == 1 ? row->secondLast : 0xbf))
      ++fits;
    text += row && fits == row->length ? bytes.substr(at, fits) : "\xef\xbf\xbd";
    at += fits;
  }
  return text;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  uint32_t random = data[0] + 1;
  std::string_view bytes(reinterpret_cast<const char *>(data) + 1, size - 1);
  rt::Utf8Stream stream;
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    random = random * 1664525 + 1013904223;
    size_t length = 1 + (random >> 24) % 5;
    std::string part;
    stream.push(bytes.substr(at, length), part);
    require(rt::isValidUtf8(part));
    text += part;
    at += length;
  }
  std::string rest, whole, expected = replaced(bytes);
  stream.finish(rest);
  rt::appendLossyUtf8(whole, bytes);
  require(rt::isValidUtf8(rest) && text + rest == expected && whole == expected);
  require(rt::isValidUtf8(bytes) == (expected == bytes));
  return 0;
}
