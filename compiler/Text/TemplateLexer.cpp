// Jinja's lexer (jinja2/lexer.py defines it by regular expressions) by hand, so
// that every token has its place.
#include "compiler/Text/TemplateLexer.h"
#include "compiler/Import/InputError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace ingot;
using namespace ingot::tpl;

Error tpl::placedError(StringRef file, Place place, const Twine &what) {
  return inputError(file, "line " + Twine(place.line) + ", column " + Twine(place.column) + ": " + what);
}

std::string Token::describe() const {
  switch (kind) {
  case Kind::Data:
    return "template text";
  case Kind::BlockBegin:
    return "'{%'";
  case Kind::BlockEnd:
    return "'%}'";
  case Kind::VariableBegin:
    return "'{{'";
  case Kind::VariableEnd:
    return "'}}'";
  case Kind::String:
    return "a string";
  case Kind::Integer:
  case Kind::Float:
    return "a number";
  case Kind::End:
    return "the end of the template";
  case Kind::Name:
  case Kind::Operator:
    return quote(text);
  }
  return "";
}

/// The length in bytes of the white space character (as Python's str has them)
/// at the start of `text`, 0 if there is none.
static size_t spaceLength(StringRef text) {
  if (text.empty())
    return 0;
  unsigned char c = text[0];
  if ((c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20))
    return 1;
  if (text.starts_with("\xc2\x85") || text.starts_with("\xc2\xa0"))
    return 2;
  if (text.size() < 3 || c < 0xe1 || c > 0xe3)
    return 0;
  uint32_t code = (c & 15) << 12 | (text[1] & 63) << 6 | (text[2] & 63);
  bool space = code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
               code == 0x202f || code == 0x205f || code == 0x3000;
  return space ? 3 : 0;
}

/// How many bytes at the end of `text` are white space.
static size_t trailingSpace(StringRef text) {
  size_t end = text.size();
  while (end > 0) {
    size_t start = end - 1;
    while (start > 0 && end - start < 4 && (static_cast<unsigned char>(text[start]) & 0xc0) == 0x80)
      --start;
    if (spaceLength(text.substr(start, end - start)) != end - start)
      break;
    end = start;
  }
  return text.size() - end;
}

namespace {

class Lexer {
public:
  Lexer(StringRef given, StringRef file) : file(file) {
    // Line ends become \n, and the last one goes.
    for (size_t i = 0; i < given.size(); ++i) {
      bool carriage = given[i] == '\r';
      source += carriage ? '\n' : given[i];
      if (carriage && i + 1 < given.size() && given[i + 1] == '\n')
        ++i;
    }
    if (!source.empty() && source.back() == '\n')
      source.pop_back();
    text = source;
  }

  Expected<std::vector<Token>> run() {
    if (text.size() > 1u << 20)
      return inputError(file, "a template of " + Twine(text.size()) + " bytes; expected at most 1 MiB");
    const auto *begin = reinterpret_cast<const UTF8 *>(text.data());
    if (!isLegalUTF8String(&begin, begin + text.size()))
      return inputError(file, "the template is not valid UTF-8");
    while (at < text.size())
      if (Error error = root())
        return std::move(error);
    add(Token::Kind::End, at);
    return std::move(tokens);
  }

private:
  Place placeOf(size_t offset) {
    for (; counted < offset; ++counted) {
      if (text[counted] == '\n') {
        ++counter.line;
        counter.column = 1;
      } else if ((static_cast<unsigned char>(text[counted]) & 0xc0) != 0x80) {
        ++counter.column;
      }
    }
    return counter;
  }
  Error fail(size_t offset, const Twine &what) {
    counted = 0;
    counter = Place();
    return placedError(file, placeOf(offset), what);
  }
  Token &add(Token::Kind kind, size_t offset, std::string value = "") {
    tokens.push_back({kind, placeOf(offset), std::move(value)});
    return tokens.back();
  }
  bool looking(StringRef word) const { return text.substr(at).starts_with(word); }
  void skipSpace() {
    while (size_t length = spaceLength(text.substr(at)))
      at += length;
  }

  /// Text up to the next tag, then the tag.
  Error root() {
    size_t start = at, tag = at;
    while (true) {
      tag = text.find('{', tag);
      if (tag == StringRef::npos || (tag + 1 < text.size() && StringRef("%{#").contains(text[tag + 1])))
        break;
      ++tag;
    }
    if (tag == StringRef::npos) {
      add(Token::Kind::Data, start, text.substr(start).str());
      at = text.size();
      return Error::success();
    }
    char which = text[tag + 1];
    at = tag + 2;
    char sign = at < text.size() && (text[at] == '-' || text[at] == '+') ? text[at] : 0;
    at += sign != 0;
    addData(text.substr(start, tag - start), start, sign, which != '{');
    if (which == '#')
      return comment(tag);
    if (which == '%') {
      size_t inside = at;
      skipSpace();
      if (looking("raw")) {
        at += 3;
        skipSpace();
        bool strips = looking("-%}");
        if (strips || looking("%}")) {
          at += strips ? 3 : 2;
          if (strips)
            skipSpace();
          lineStarting = text[at - 1] == '\n';
          return raw(tag);
        }
      }
      at = inside;
    }
    bool block = which == '%';
    add(block ? Token::Kind::BlockBegin : Token::Kind::VariableBegin, tag);
    lineStarting = false;
    return inTag(block, tag);
  }

  /// Template text before a tag: `-` strips all white space before the tag, and
  /// a tag that is not a variable strips the white space of its line unless it
  /// has a `+`.
  void addData(StringRef data, size_t offset, char sign, bool strips) {
    if (sign == '-') {
      data = data.drop_back(trailingSpace(data));
    } else if (sign == 0 && strips) {
      size_t line = data.rfind('\n');
      line = line == StringRef::npos ? 0 : line + 1;
      if ((line > 0 || lineStarting) && trailingSpace(data) >= data.size() - line)
        data = data.take_front(line);
    }
    if (!data.empty())
      add(Token::Kind::Data, offset, data.str());
  }

  /// Takes the end of a block, a comment or a raw section (`close` is "%}" or
  /// "#}") with its sign and what it strips.
  bool takeEnd(StringRef close) {
    char sign = at < text.size() && (text[at] == '-' || text[at] == '+') ? text[at] : 0;
    if (!text.substr(at + (sign != 0)).starts_with(close))
      return false;
    at += (sign != 0) + close.size();
    if (sign == '-')
      skipSpace();
    else if (sign == 0 && looking("\n"))
      ++at;
    lineStarting = text[at - 1] == '\n';
    return true;
  }

  Error comment(size_t tag) {
    for (; at < text.size(); ++at)
      if (takeEnd("#}"))
        return Error::success();
    return fail(tag, "a comment without an end; expected '#}'");
  }

  Error raw(size_t tag) {
    for (size_t start = at; at < text.size(); ++at) {
      size_t end = at;
      if (!looking("{%"))
        continue;
      at += 2;
      char sign = at < text.size() && (text[at] == '-' || text[at] == '+') ? text[at] : 0;
      at += sign != 0;
      skipSpace();
      if (looking("endraw")) {
        at += 6;
        skipSpace();
        bool starting = lineStarting;
        if (takeEnd("%}")) {
          std::swap(starting, lineStarting);
          addData(text.substr(start, end - start), start, sign, true);
          lineStarting = starting;
          return Error::success();
        }
      }
      at = end;
    }
    return fail(tag, "a raw section without an end; expected '{% endraw %}'");
  }

  Error inTag(bool block, size_t tag) {
    std::string open; // brackets that wait for their end
    while (at < text.size()) {
      if (size_t space = spaceLength(text.substr(at))) {
        at += space;
        continue;
      }
      size_t start = at;
      if (open.empty()) {
        if (block && takeEnd("%}")) {
          add(Token::Kind::BlockEnd, start);
          return Error::success();
        }
        if (!block && (looking("}}") || looking("-}}"))) {
          bool strips = text[at] == '-';
          at += strips ? 3 : 2;
          if (strips)
            skipSpace();
          lineStarting = text[at - 1] == '\n';
          add(Token::Kind::VariableEnd, start);
          return Error::success();
        }
      }
      if (Error error = one(open))
        return error;
    }
    return fail(tag, block ? "a tag without an end; expected '%}'" : "an expression without an end; expected '}}'");
  }

  Error one(std::string &open) {
    char c = text[at];
    if (isDigit(c))
      return number();
    if (isAlpha(c) || c == '_') {
      size_t start = at;
      while (at < text.size() && (isAlnum(text[at]) || text[at] == '_'))
        ++at;
      if (at < text.size() && static_cast<unsigned char>(text[at]) >= 0x80)
        return fail(at, "a name may have letters, digits and underscores of ASCII only");
      add(Token::Kind::Name, start, text.substr(start, at - start).str());
      return Error::success();
    }
    if (c == '\'' || c == '"')
      return string();
    static constexpr StringLiteral operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                  "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                  ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto *op = find_if(operators, [&](StringRef word) { return looking(word); });
    if (op == std::end(operators))
      return fail(at, "unexpected character " + quote(characterAt(at)));
    size_t start = at;
    at += op->size();
    if (StringRef("([{").contains(c))
      open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (StringRef(")]}").contains(c)) {
      if (open.empty())
        return fail(start, "unexpected '" + Twine(c) + "'");
      if (open.back() != c)
        return fail(start, "unexpected '" + Twine(c) + "'; expected '" + Twine(open.back()) + "'");
      open.pop_back();
    }
    add(Token::Kind::Operator, start, op->str());
    return Error::success();
  }

  StringRef characterAt(size_t offset) const {
    size_t end = offset + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
      ++end;
    return text.substr(offset, end - offset);
  }

  /// Digits with single underscores between them, from `from` on; the end.
  size_t digits(size_t from) const {
    size_t end = from;
    while (end < text.size() && (isDigit(text[end]) || (text[end] == '_' && end > from && text[end - 1] != '_' &&
                                                        end + 1 < text.size() && isDigit(text[end + 1]))))
      ++end;
    return end;
  }

  Error number() {
    size_t start = at, end = digits(at);
    bool real = false;
    if (start == 0 || text[start - 1] != '.') {
      if (end + 1 < text.size() && text[end] == '.' && isDigit(text[end + 1])) {
        real = true;
        end = digits(end + 1);
      }
      if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-'))
          ++exponent;
        if (exponent < text.size() && isDigit(text[exponent])) {
          real = true;
          end = digits(exponent);
        }
      }
    }
    std::string plain;
    if (real) {
      for (char c : text.substr(start, end - start))
        if (c != '_')
          plain += c;
      double value = 0;
      if (!to_float(plain, value) || !std::isfinite(value))
        return fail(start, "the number " + plain + " is out of range");
      add(Token::Kind::Float, start).real = value;
      at = end;
      return Error::success();
    }
    return integer(start, end);
  }

  Error integer(size_t start, size_t end) {
    unsigned base = 10;
    if (text[start] == '0') {
      char letter = start + 1 < text.size() ? toLower(text[start + 1]) : 0;
      unsigned other = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
      size_t from = start + 2;
      auto isDigitOf = [&](size_t i) { return i < text.size() && hexDigitValue(text[i]) < other; };
      size_t last = from;
      while (other && (isDigitOf(last) || (last < text.size() && text[last] == '_' && isDigitOf(last + 1))))
        ++last;
      if (other && last > from) {
        base = other;
        end = last;
      } else {
        end = start; // 0, 00, 0_0; other digits that follow are a number of their own
        while (end < text.size() &&
               (text[end] == '0' || (end > start && text[end] == '_' && end + 1 < text.size() && text[end + 1] == '0')))
          ++end;
      }
    }
    std::string plain;
    for (char c : text.substr(base == 10 ? start : start + 2, end - (base == 10 ? start : start + 2)))
      if (c != '_')
        plain += c;
    int64_t value = 0;
    if (StringRef(plain).getAsInteger(base, value))
      return fail(start,
                  "the integer " + text.substr(start, end - start) + " is beyond 64 bits, which is not supported");
    add(Token::Kind::Integer, start).integer = value;
    at = end;
    return Error::success();
  }

  Error string() {
    size_t start = at++;
    while (at < text.size() && text[at] != text[start])
      at += text[at] == '\\' ? 2 : 1;
    if (at >= text.size())
      return fail(start, "a string without an end");
    StringRef inside = text.substr(start + 1, at - start - 1);
    ++at;
    std::string value;
    if (Error error = unescape(inside, start + 1, value))
      return error;
    add(Token::Kind::String, start, std::move(value));
    return Error::success();
  }

  /// As Python's unicode-escape decoder sees the text after everything beyond
  /// ASCII has become an escape itself: a backslash before such a character
  /// therefore meets the backslash of that escape.
  Error unescape(StringRef inside, size_t offset, std::string &value) {
    std::string ascii;
    std::vector<size_t> from; // where each byte of `ascii` comes from
    for (size_t i = 0; i < inside.size();) {
      StringRef character = characterAt(offset + i);
      std::string piece = character.str();
      if (character.size() > 1) {
        const auto *bytes = reinterpret_cast<const UTF8 *>(character.data());
        UTF32 code = 0;
        if (convertUTF8Sequence(&bytes, bytes + character.size(), &code, strictConversion) != conversionOK)
          return fail(offset + i, "invalid UTF-8");
        piece = (code < 0x100     ? "\\x"
                 : code < 0x10000 ? "\\u"
                                  : "\\U") +
                utohexstr(code, /*LowerCase=*/true,
                          code < 0x100     ? 2
                          : code < 0x10000 ? 4
                                           : 8);
      }
      ascii += piece;
      from.insert(from.end(), piece.size(), offset + i);
      i += character.size();
    }
    for (size_t i = 0; i < ascii.size();) {
      if (ascii[i] != '\\') {
        value += ascii[i++];
        continue;
      }
      size_t escape = i++;
      char c = ascii[i++];
      static constexpr StringLiteral names = "\\'\"abfnrtv", values = "\\'\"\a\b\f\n\r\t\v";
      uint32_t code = 0;
      if (size_t which = names.find(c); which != StringRef::npos) {
        value += values[which];
        continue;
      }
      if (c == '\n')
        continue;
      if (c >= '0' && c <= '7') {
        code = c - '0';
        for (int n = 0; n < 2 && i < ascii.size() && ascii[i] >= '0' && ascii[i] <= '7'; ++n)
          code = code * 8 + (ascii[i++] - '0');
      } else if (c == 'x' || c == 'u' || c == 'U') {
        size_t length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        StringRef hex = StringRef(ascii).substr(i, length);
        if (hex.size() != length || hex.getAsInteger(16, code))
          return fail(from[escape], "an escape '\\" + Twine(c) + "' without " + Twine(length) + " hexadecimal digits");
        i += length;
      } else if (c == 'N') {
        return fail(from[escape], "the escape '\\N' (a character's name) is not supported");
      } else {
        value += '\\';
        value += c;
        continue;
      }
      char buffer[4], *end = buffer;
      if ((code >= 0xd800 && code < 0xe000) || code > 0x10ffff || !ConvertCodePointToUTF8(code, end))
        return fail(from[escape], "an escape that is not a character");
      value.append(buffer, end);
    }
    return Error::success();
  }

  std::string file, source;
  StringRef text;
  size_t at = 0;
  bool lineStarting = true;
  std::vector<Token> tokens;
  size_t counted = 0;
  Place counter;
};

} // namespace

Expected<std::vector<Token>> tpl::lexTemplate(StringRef source, StringRef file) { return Lexer(source, file).run(); }
