// Recursive descent with a depth limit.
#include "support/json.h"

#include "support/output.h"

#include <algorithm>
#include <charconv>

namespace ingot::rt {

const JsonValue *JsonValue::find(std::string_view key) const {
  for (const auto &[name, value] : members)
    if (name == key)
      return &value;
  return nullptr;
}

namespace {

class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}

  Result<JsonValue> parse() {
    JsonValue value;
    skipSpace();
    if (Error error = parseValue(value, 0))
      return error;
    skipSpace();
    if (at != text.size())
      return fail("text after the value");
    return value;
  }

private:
  Error fail(const char *what) const { return makeUsageError("JSON: %s at byte %zu", what, at); }
  char peek() const { return at < text.size() ? text[at] : '\0'; }
  bool take(char c) {
    if (peek() != c || at == text.size())
      return false;
    ++at;
    return true;
  }
  void skipSpace() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r'))
      ++at;
  }
  bool takeWord(std::string_view word) {
    if (text.substr(at, word.size()) != word)
      return false;
    at += word.size();
    return true;
  }

  Error parseValue(JsonValue &value, int depth) {
    if (depth > 64)
      return fail("nesting deeper than 64");
    switch (peek()) {
    case '{':
      return parseObject(value, depth);
    case '[':
      return parseArray(value, depth);
    case '"':
      value.kind = JsonValue::Kind::String;
      return parseString(value.text);
    case 't':
    case 'f':
      value.kind = JsonValue::Kind::Boolean;
      value.boolean = peek() == 't';
      return takeWord("true") || takeWord("false") ? Error() : fail("unknown word");
    case 'n':
      return takeWord("null") ? Error() : fail("unknown word");
    default:
      return parseNumber(value);
    }
  }

  Error parseObject(JsonValue &value, int depth) {
    value.kind = JsonValue::Kind::Object;
    ++at;
    skipSpace();
    if (take('}'))
      return {};
    do {
      skipSpace();
      std::string key;
      if (peek() != '"')
        return fail("expected a key in quotes");
      if (Error error = parseString(key))
        return error;
      skipSpace();
      if (!take(':'))
        return fail("expected ':'");
      skipSpace();
      value.members.push_back({std::move(key), JsonValue()});
      if (Error error = parseValue(value.members.back().value, depth + 1))
        return error;
      skipSpace();
    } while (take(','));
    if (!take('}'))
      return fail("expected ',' or '}'");
    return checkKeys(value.members);
  }

  /// No key twice. Sorted: an object may have very many.
  static Error checkKeys(const std::vector<JsonMember> &members) {
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const JsonMember &member : members)
      keys.push_back(member.key);
    std::sort(keys.begin(), keys.end());
    if (auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
      return makeUsageError("JSON: duplicate key '%s'", std::string(*twice).c_str());
    return {};
  }

  Error parseArray(JsonValue &value, int depth) {
    value.kind = JsonValue::Kind::Array;
    ++at;
    skipSpace();
    if (take(']'))
      return {};
    do {
      skipSpace();
      value.items.emplace_back();
      if (Error error = parseValue(value.items.back(), depth + 1))
        return error;
      skipSpace();
    } while (take(','));
    return take(']') ? Error() : fail("expected ',' or ']'");
  }

  bool digits() {
    size_t start = at;
    while (peek() >= '0' && peek() <= '9')
      ++at;
    return at != start;
  }

  Error parseNumber(JsonValue &value) {
    size_t start = at;
    take('-');
    if (!take('0') && !digits())
      return fail("expected a value");
    if (take('.') && !digits())
      return fail("expected digits after '.'");
    if (take('e') || take('E')) {
      if (!take('+'))
        take('-');
      if (!digits())
        return fail("expected digits in the exponent");
    }
    value.kind = JsonValue::Kind::Number;
    value.text = text.substr(start, at - start);
    const char *end = value.text.data() + value.text.size();
    if (std::from_chars(value.text.data(), end, value.number).ec != std::errc())
      return fail("number out of range");
    return {};
  }

  /// Four hexadecimal digits, or -1.
  int hex4() {
    if (text.size() - at < 4)
      return -1;
    int code = 0;
    auto [end, status] = std::from_chars(text.data() + at, text.data() + at + 4, code, 16);
    if (status != std::errc() || end != text.data() + at + 4 || text[at] == '-')
      return -1;
    at += 4;
    return code;
  }

  static void appendUtf8(std::string &out, uint32_t code) {
    if (code < 0x80)
      out += static_cast<char>(code);
    else if (code < 0x800) {
      out += static_cast<char>(0xc0 | (code >> 6));
      out += static_cast<char>(0x80 | (code & 63));
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | (code >> 12));
      out += static_cast<char>(0x80 | ((code >> 6) & 63));
      out += static_cast<char>(0x80 | (code & 63));
    } else {
      out += static_cast<char>(0xf0 | (code >> 18));
      out += static_cast<char>(0x80 | ((code >> 12) & 63));
      out += static_cast<char>(0x80 | ((code >> 6) & 63));
      out += static_cast<char>(0x80 | (code & 63));
    }
  }

  Error parseEscape(std::string &out) {
    constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
    char c = peek();
    ++at;
    if (size_t which = names.find(c); which != std::string_view::npos && at <= text.size()) {
      out += values[which];
      return {};
    }
    if (c != 'u')
      return fail("unknown escape");
    int code = hex4();
    if (code < 0)
      return fail("expected four hexadecimal digits");
    if (code >= 0xdc00 && code <= 0xdfff)
      return fail("lone surrogate");
    if (code >= 0xd800 && code <= 0xdbff) {
      int low = takeWord("\\u") ? hex4() : -1;
      if (low < 0xdc00 || low > 0xdfff)
        return fail("lone surrogate");
      appendUtf8(out,
                 0x10000u + ((static_cast<uint32_t>(code) - 0xd800u) << 10) + (static_cast<uint32_t>(low) - 0xdc00u));
      return {};
    }
    appendUtf8(out, static_cast<uint32_t>(code));
    return {};
  }

  Error parseString(std::string &out) {
    ++at;
    size_t start = at;
    while (at < text.size() && text[at] != '"') {
      if (static_cast<unsigned char>(text[at]) < 0x20)
        return fail("control character in a string");
      if (text[at] != '\\') {
        out += text[at++];
        continue;
      }
      ++at;
      if (Error error = parseEscape(out))
        return error;
    }
    if (!take('"'))
      return fail("string without an end");
    if (validUtf8(text.substr(start, at - start)) != text.substr(start, at - start))
      return fail("invalid UTF-8 in a string");
    return {};
  }

  std::string_view text;
  size_t at = 0;
};

} // namespace

Result<JsonValue> parseJson(std::string_view text) { return Parser(text).parse(); }

} // namespace ingot::rt
