// Text to token ids and back, as the `tokenizers` library does it, over the
// tables that the compiler stored (ingot_rt/image_tokenizer.h). Nothing is
// parsed or built: opening costs a look at the header, and every use of a table
// is bounds-checked, so that a damaged table gives wrong ids but no wrong read.
#ifndef INGOT_RUNTIME_TOKENIZER_TOKENIZER_H
#define INGOT_RUNTIME_TOKENIZER_TOKENIZER_H

#include "ingot_rt/image_tokenizer.h"
#include "tokenizer/decoder.h"
#include "tokenizer/utf8.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

/// Bytes [begin, end) of a text.
struct TextSpan {
  uint64_t begin, end;
};

struct EncodeOptions {
  /// Put the ids that the model's post-processor adds (such as a start token)
  /// around the text's own.
  bool addSpecial = true;
  /// Let the text of a special token in the input become that token, as the
  /// reference does. Without it, text can never become a special token.
  bool matchSpecial = true;
  /// Spans of the text, in order and apart from each other, that come from
  /// whom the caller does not trust: a special token that takes even one byte
  /// of them is not matched. The text is still encoded as a whole, so that the
  /// ids are those of the reference wherever no such token stands in them.
  std::span<const TextSpan> untrusted = {};
};

/// A view of a tokenizer section; cheap to copy, and safe to use from several
/// threads. The section must outlive it.
class Tokenizer {
public:
  /// Opens the section of `size` bytes at `section` (aligned to 8). On failure
  /// returns nothing and says in `error` what was expected and found. Costs the
  /// same for any vocabulary.
  static std::optional<Tokenizer> open(const void *section, uint64_t size, std::string &error);

  /// Appends the ids of `text` to `ids`. Bytes that are not UTF-8 count as
  /// U+FFFD, one for each maximal part of a broken sequence (as Rust's and
  /// Python's decoders replace them).
  void encode(std::string_view text, const EncodeOptions &options, std::vector<int32_t> &ids) const;

  /// The text of `ids`; ids that do not exist give nothing. The result is
  /// always valid UTF-8: broken sequences become U+FFFD.
  std::string decode(std::span<const int32_t> ids, bool skipSpecial) const;

  /// How many ids there are, counting holes: each id is below it.
  uint64_t idCount() const { return header->tokens.count; }
  /// Whether `id` exists and is left out when special tokens are skipped.
  bool isSpecial(int64_t id) const;
  /// The bytes `id` is decoded from, not necessarily whole characters; empty if
  /// there is no such id.
  std::string_view bytes(int64_t id) const;

private:
  friend class StreamDecoder;
  Tokenizer(const uint8_t *base, const ingot_rt_tok_header *header) : base(base), header(header) {}

  const uint8_t *base;
  const ingot_rt_tok_header *header;
};

/// Decodes ids as they come. What push and finish return, put together, equals
/// Tokenizer::decode of all ids; each part is valid UTF-8, a character whose
/// bytes are spread over several ids comes with the last of them.
class StreamDecoder {
public:
  StreamDecoder(const Tokenizer &tokenizer, bool skipSpecial);

  std::string push(int32_t id);
  /// What is left: what waited for a further id, U+FFFD if a character is
  /// incomplete. Nothing is pushed after it.
  std::string finish();

private:
  Tokenizer tokenizer;
  bool skipSpecial;
  Utf8Stream stream;
  std::optional<DecoderChain> chain;
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_TOKENIZER_H
