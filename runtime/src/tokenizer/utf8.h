// UTF-8: reading code points, and replacing what is broken by U+FFFD exactly as
// Rust's String::from_utf8_lossy does, for whole texts and for streams.
#ifndef INGOT_RUNTIME_TOKENIZER_UTF8_H
#define INGOT_RUNTIME_TOKENIZER_UTF8_H

#include <cstdint>
#include <string>
#include <string_view>

namespace ingot::rt {

/// What stands at the start of some bytes.
struct Utf8Step {
  enum class Kind {
    Valid,      ///< a code point of `length` bytes
    Broken,     ///< `length` bytes that no valid sequence starts with
    Incomplete, ///< all bytes there are, which more bytes may complete
  };
  Kind kind;
  uint32_t length;
  uint32_t codePoint; ///< U+FFFD unless Valid
};

/// Reads one step from the bytes [at, end), at < end. A broken sequence is its
/// longest prefix that a valid sequence could have (Unicode 3.9, "maximal
/// subpart"), at least one byte.
Utf8Step readUtf8(const char *at, const char *end);

/// Appends a code point (at most U+10FFFF) as UTF-8.
void appendUtf8(std::string &text, uint32_t codePoint);

/// Whether `text` is valid UTF-8 throughout.
bool isValidUtf8(std::string_view text);

/// Appends `bytes` with each broken sequence as U+FFFD.
void appendLossyUtf8(std::string &text, std::string_view bytes);

/// appendLossyUtf8 for bytes that come in parts.
class Utf8Stream {
public:
  /// Appends to `text` what is certain once `bytes` have come.
  void push(std::string_view bytes, std::string &text);
  /// The bytes end here: an incomplete sequence is a broken one.
  void finish(std::string &text);

private:
  /// The incomplete sequence at the end: at most 3 bytes.
  std::string held;
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_UTF8_H
