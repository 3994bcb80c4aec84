// Strings that know which of their bytes the template's author wrote.
//
// A special token in a prompt counts only where all of its text is trusted, so
// that what a message contains never ends a turn or opens another role. Every
// operation of the interpreter builds its result from slices of its operands
// through TextBuilder, which carries the marks along; text that comes from
// anywhere else is not trusted.
#ifndef INGOT_RUNTIME_TEMPLATE_TEXT_H
#define INGOT_RUNTIME_TEMPLATE_TEXT_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt::tpl {

/// Bytes [begin, end) of a string.
struct ByteRange {
  size_t begin, end;
};

/// An immutable UTF-8 string. Copies share their bytes.
class Text {
public:
  Text() : data(empty()) {}
  Text(std::string bytes, bool trusted);

  std::string_view bytes() const { return data->bytes; }
  size_t size() const { return data->bytes.size(); }
  /// What is trusted, in ascending order, neighbours merged.
  const std::vector<ByteRange> &trusted() const { return data->trusted; }
  /// Marked safe: what is added to it is escaped for HTML (Jinja's Markup).
  bool isMarkup() const { return data->markup; }
  bool isTrusted(size_t at) const;
  /// In characters.
  size_t length() const { return data->length; }
  bool isAscii() const { return data->length == data->bytes.size(); }
  /// The byte at which character `index` (at most length()) starts.
  size_t offsetOf(size_t index) const;

  Text slice(size_t begin, size_t end) const; ///< in bytes
  Text withMarkup(bool markup) const;
  bool sameObject(const Text &other) const { return data == other.data; }

private:
  friend class TextBuilder;
  struct Data {
    std::string bytes;
    std::vector<ByteRange> trusted;
    size_t length = 0;
    bool markup = false;
  };
  explicit Text(std::shared_ptr<const Data> data) : data(std::move(data)) {}
  static const std::shared_ptr<const Data> &empty();

  std::shared_ptr<const Data> data;
};

/// Puts a text together.
class TextBuilder {
public:
  void append(const Text &text) { append(text, 0, text.size()); }
  /// Bytes [begin, end) of `text`.
  void append(const Text &text, size_t begin, size_t end);
  void append(std::string_view bytes, bool trusted);
  size_t size() const { return bytes.size(); }
  Text take(bool markup = false);

private:
  void trust(size_t begin, size_t end);

  std::string bytes;
  std::vector<ByteRange> trusted;
};

/// The length in bytes of the character that begins with `lead` (valid UTF-8).
inline size_t characterLength(char lead) {
  auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}
/// The code point at `at` of valid UTF-8.
uint32_t codePointAt(std::string_view text, size_t at);
/// Where the character before `at` > 0 starts.
size_t previousCharacter(std::string_view text, size_t at);
size_t countCharacters(std::string_view text);

} // namespace ingot::rt::tpl
#endif // INGOT_RUNTIME_TEMPLATE_TEXT_H
