// The methods of str. Everything that cuts a string gives slices of it, which
// keep their marks.
#include "template/methods.h"

#include "template/format.h"
#include "template/unicode.h"

#include <algorithm>

namespace ingot::rt::tpl {

static std::string nameOf(const Value &value) { return std::string(typeName(value)); }

/// A text argument; a failure where it is none.
static bool textArgument(Interpreter &interpreter, const Value &value, const char *function, Text &result) {
  if (value.isString()) {
    result = value.text();
    return true;
  }
  if (value.isUndefined())
    interpreter.failUndefined(value);
  else
    interpreter.fail("%s: expected a str, got %s", function, nameOf(value).c_str());
  return false;
}

static bool isAbsent(const Value &value) { return value.isMissing() || value.isNone(); }

Text stripText(Interpreter &interpreter, const Text &text, const Value &characters, bool left, bool right) {
  std::string_view bytes = text.bytes(), set;
  bool spaces = isAbsent(characters);
  Text given;
  if (!spaces && !textArgument(interpreter, characters, "strip", given))
    return {};
  set = given.bytes();
  auto strips = [&](size_t at) {
    if (spaces)
      return isSpace(codePointAt(bytes, at));
    return set.find(bytes.substr(at, characterLength(bytes[at]))) != std::string_view::npos;
  };
  size_t begin = 0, end = bytes.size();
  while (left && begin < end && strips(begin))
    begin += characterLength(bytes[begin]);
  while (right && end > begin) {
    size_t last = previousCharacter(bytes, end);
    if (!strips(last))
      break;
    end = last;
  }
  return text.slice(begin, end);
}

Text replaceText(Interpreter &interpreter, const Text &text, const Text &from, const Text &to, int64_t count) {
  std::string_view bytes = text.bytes(), wanted = from.bytes();
  TextBuilder builder;
  size_t done = 0, at = 0;
  for (; count != 0 && interpreter.step(); --count) {
    if (wanted.empty()) { // before each character and at the end
      if (at > bytes.size())
        break;
      builder.append(text, done, at);
      builder.append(to);
      done = at;
      at += at < bytes.size() ? characterLength(bytes[at]) : 1;
    } else {
      at = bytes.find(wanted, at);
      if (at == std::string_view::npos)
        break;
      builder.append(text, done, at);
      builder.append(to);
      done = at += wanted.size();
    }
    if (builder.size() > maxOneText) {
      interpreter.spend(builder.size());
      return {};
    }
  }
  builder.append(text, done, bytes.size());
  interpreter.spend(builder.size());
  return builder.take(text.isMarkup());
}

/// Pads to `width` characters: where < 0 on the right, 0 around, > 0 on the
/// left.
Text centerText(Interpreter &interpreter, const Text &text, int64_t width, const Text &fill, int where) {
  auto length = static_cast<int64_t>(text.length());
  if (width <= length)
    return text;
  int64_t padding = width - length;
  if (!interpreter.spend(static_cast<uint64_t>(padding) * std::max<size_t>(fill.size(), 1)))
    return {};
  // str.center: the odd one goes left if the width is odd.
  int64_t left = where < 0 ? 0 : where > 0 ? padding : padding / 2 + (padding & width & 1);
  TextBuilder builder;
  for (int64_t i = 0; i < left; ++i)
    builder.append(fill);
  builder.append(text);
  for (int64_t i = left; i < padding; ++i)
    builder.append(fill);
  return builder.take(text.isMarkup());
}

std::vector<Text> splitLines(const Text &text, bool keepEnds) {
  std::vector<Text> lines;
  std::string_view bytes = text.bytes();
  size_t start = 0;
  for (size_t at = 0; at < bytes.size();) {
    uint32_t code = codePointAt(bytes, at);
    size_t end = at;
    at += characterLength(bytes[at]);
    bool breaks = (code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
                  code == 0x2029;
    if (!breaks)
      continue;
    if (code == '\r' && at < bytes.size() && bytes[at] == '\n')
      ++at;
    lines.push_back(text.slice(start, keepEnds ? at : end));
    start = at;
  }
  if (start < bytes.size())
    lines.push_back(text.slice(start, bytes.size()));
  return lines;
}

namespace {

/// One call of a method of str.
class StringCall {
public:
  StringCall(Interpreter &interpreter, Method method, const Value &self, Arguments &arguments)
      : interpreter(interpreter), method(method), self(self), text(self.text()), bytes(text.bytes()),
        arguments(arguments) {}

  Value run() {
    switch (method) {
    case Method::String_capitalize:
      return mapped(CaseMapping::Capitalize);
    case Method::String_lower:
      return mapped(CaseMapping::Lower);
    case Method::String_upper:
      return mapped(CaseMapping::Upper);
    case Method::String_title:
      return mapped(CaseMapping::Title);
    case Method::String_swapcase:
      return mapped(CaseMapping::Swap);
    case Method::String_strip:
    case Method::String_lstrip:
    case Method::String_rstrip:
      if (!bind("strip", {"chars"}, 0))
        return {};
      return made(
          stripText(interpreter, text, values[0], method != Method::String_rstrip, method != Method::String_lstrip));
    case Method::String_split:
    case Method::String_rsplit:
      return split();
    case Method::String_splitlines: {
      int64_t keep;
      if (!bind("splitlines", {"keepends"}, 0) || !interpreter.integerArgument(values[0], 0, keep))
        return {};
      return listOf(splitLines(text, keep != 0));
    }
    case Method::String_partition:
    case Method::String_rpartition:
      return partition();
    case Method::String_startswith:
    case Method::String_endswith:
      return startsOrEnds();
    case Method::String_find:
    case Method::String_rfind:
    case Method::String_index:
    case Method::String_rindex:
    case Method::String_count:
      return find();
    case Method::String_replace:
      return replace();
    case Method::String_removeprefix:
    case Method::String_removesuffix:
      return removeAffix();
    case Method::String_join:
      return join();
    case Method::String_center:
    case Method::String_ljust:
    case Method::String_rjust:
      return justify();
    case Method::String_zfill:
      return zeroFill();
    case Method::String_expandtabs:
      return expandTabs();
    case Method::String_format:
      return format();
    default:
      return is();
    }
  }

private:
  bool bind(const char *name, std::initializer_list<const char *> names, size_t required) {
    return interpreter.bind(name, arguments, names, required, values);
  }
  bool textOf(size_t index, const char *name, Text &result) {
    return textArgument(interpreter, values[index], name, result);
  }
  Value made(Text result) { return interpreter.failed ? Value() : interpreter.text(std::move(result)); }
  Value mapped(CaseMapping mapping) { return bind("this method", {}, 0) ? made(mapCase(text, mapping)) : Value(); }
  Value listOf(const std::vector<Text> &texts) {
    Values items;
    for (const Text &one : texts) {
      items.push_back(interpreter.text(one));
      if (!interpreter.step())
        return {};
    }
    return interpreter.contained(makeList(std::move(items)));
  }

  Value split() {
    bool right = method == Method::String_rsplit;
    int64_t most;
    Text separator;
    if (!bind("split", {"sep", "maxsplit"}, 0) || !interpreter.integerArgument(values[1], -1, most))
      return {};
    if (isAbsent(values[0]))
      return listOf(right ? splitSpacesRight(most) : splitSpaces(most));
    if (!textOf(0, "split", separator))
      return {};
    if (separator.size() == 0)
      return interpreter.fail("empty separator");
    std::vector<Text> parts;
    std::string_view wanted = separator.bytes();
    if (!right) {
      size_t start = 0;
      for (; most != 0; --most) {
        size_t found = bytes.find(wanted, start);
        if (found == std::string_view::npos)
          break;
        parts.push_back(text.slice(start, found));
        start = found + wanted.size();
      }
      parts.push_back(text.slice(start, bytes.size()));
      return listOf(parts);
    }
    size_t end = bytes.size();
    for (; most != 0 && end >= wanted.size(); --most) {
      size_t found = bytes.rfind(wanted, end - wanted.size());
      if (found == std::string_view::npos)
        break;
      parts.push_back(text.slice(found + wanted.size(), end));
      end = found;
    }
    parts.push_back(text.slice(0, end));
    std::reverse(parts.begin(), parts.end());
    return listOf(parts);
  }

  size_t skipSpaces(size_t at) const {
    while (at < bytes.size() && isSpace(codePointAt(bytes, at)))
      at += characterLength(bytes[at]);
    return at;
  }
  size_t skipSpacesBack(size_t at) const {
    while (at > 0 && isSpace(codePointAt(bytes, previousCharacter(bytes, at))))
      at = previousCharacter(bytes, at);
    return at;
  }

  std::vector<Text> splitSpaces(int64_t most) const {
    std::vector<Text> parts;
    size_t at = skipSpaces(0);
    while (at < bytes.size()) {
      if (most-- == 0) {
        parts.push_back(text.slice(at, bytes.size())); // spaces at the end and all
        break;
      }
      size_t start = at;
      while (at < bytes.size() && !isSpace(codePointAt(bytes, at)))
        at += characterLength(bytes[at]);
      parts.push_back(text.slice(start, at));
      at = skipSpaces(at);
    }
    return parts;
  }
  std::vector<Text> splitSpacesRight(int64_t most) const {
    std::vector<Text> parts;
    size_t end = skipSpacesBack(bytes.size());
    while (end > 0) {
      if (most-- == 0) {
        parts.push_back(text.slice(0, end));
        break;
      }
      size_t start = end;
      while (start > 0 && !isSpace(codePointAt(bytes, previousCharacter(bytes, start))))
        start = previousCharacter(bytes, start);
      parts.push_back(text.slice(start, end));
      end = skipSpacesBack(start);
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
  }

  Value partition() {
    Text separator;
    if (!bind("partition", {"sep"}, 1) || !textOf(0, "partition", separator))
      return {};
    if (separator.size() == 0)
      return interpreter.fail("empty separator");
    bool right = method == Method::String_rpartition;
    size_t found = right ? bytes.rfind(separator.bytes()) : bytes.find(separator.bytes());
    Text nothing = text.slice(0, 0);
    Values parts;
    if (found == std::string_view::npos) {
      for (const Text &one : {right ? nothing : text, nothing, right ? text : nothing})
        parts.push_back(interpreter.text(one));
    } else {
      parts = {interpreter.text(text.slice(0, found)), interpreter.text(separator),
               interpreter.text(text.slice(found + separator.size(), bytes.size()))};
    }
    return interpreter.contained(makeList(std::move(parts), Type::Tuple));
  }

  /// The bytes between the characters that arguments `first` and the next name;
  /// false if there is nothing between them, or after a failure.
  bool range(size_t first, size_t &begin, size_t &end, bool &empty) {
    int64_t length = static_cast<int64_t>(text.length()), start, stop;
    auto absent = [](Value &value) {
      if (value.isNone())
        value = {};
    };
    absent(values[first]);
    absent(values[first + 1]);
    if (!interpreter.integerArgument(values[first], 0, start) ||
        !interpreter.integerArgument(values[first + 1], length, stop))
      return false;
    auto adjust = [&](int64_t bound) {
      bound = std::max(bound, -length);
      return bound < 0 ? bound + length : bound;
    };
    start = adjust(start);
    stop = std::min(adjust(stop), length);
    empty = start > stop;
    if (empty)
      return true;
    begin = text.offsetOf(static_cast<size_t>(start));
    end = text.offsetOf(static_cast<size_t>(stop));
    return true;
  }

  Value startsOrEnds() {
    bool starts = method == Method::String_startswith, empty = false;
    size_t begin = 0, end = 0;
    if (!bind(starts ? "startswith" : "endswith", {"prefix", "start", "end"}, 1) || !range(1, begin, end, empty))
      return {};
    Values candidates = values[0].is(Type::Tuple) ? values[0].as<ListObject>().items : Values{values[0]};
    for (const Value &candidate : candidates) {
      Text wanted;
      if (!textArgument(interpreter, candidate, starts ? "startswith" : "endswith", wanted))
        return {};
      std::string_view part = bytes.substr(begin, end - begin);
      if (!empty && (starts ? part.starts_with(wanted.bytes()) : part.ends_with(wanted.bytes())))
        return Value::boolean(true);
    }
    return Value::boolean(false);
  }

  Value find() {
    Text wanted;
    bool empty = false;
    size_t begin = 0, end = 0;
    if (!bind("find", {"sub", "start", "end"}, 1) || !textOf(0, "find", wanted) || !range(1, begin, end, empty))
      return {};
    std::string_view part = bytes.substr(begin, end - begin);
    if (method == Method::String_count) {
      if (empty)
        return Value::integer(0);
      if (wanted.size() == 0)
        return Value::integer(static_cast<int64_t>(countCharacters(part)) + 1);
      int64_t count = 0;
      for (size_t at = 0; (at = part.find(wanted.bytes(), at)) != std::string_view::npos; at += wanted.size())
        ++count;
      return Value::integer(count);
    }
    bool right = method == Method::String_rfind || method == Method::String_rindex;
    size_t found = empty ? std::string_view::npos : right ? part.rfind(wanted.bytes()) : part.find(wanted.bytes());
    if (found != std::string_view::npos)
      return Value::integer(static_cast<int64_t>(countCharacters(bytes.substr(0, begin + found))));
    if (method == Method::String_index || method == Method::String_rindex)
      return interpreter.fail("substring not found");
    return Value::integer(-1);
  }

  Value replace() {
    Text from, to;
    int64_t count;
    if (!bind("replace", {"old", "new", "count"}, 2) || !textOf(0, "replace", from) || !textOf(1, "replace", to) ||
        !interpreter.integerArgument(values[2], -1, count))
      return {};
    if (text.isMarkup())
      to = escapeHtml(to);
    return made(replaceText(interpreter, text, from, to, count));
  }

  Value removeAffix() {
    bool prefix = method == Method::String_removeprefix;
    Text affix;
    if (!bind("removeprefix", {"prefix"}, 1) || !textOf(0, "removeprefix", affix))
      return {};
    if (prefix && bytes.starts_with(affix.bytes()))
      return made(text.slice(affix.size(), bytes.size()));
    if (!prefix && bytes.ends_with(affix.bytes()))
      return made(text.slice(0, bytes.size() - affix.size()));
    return self;
  }

  Value join() {
    Values items;
    if (!bind("join", {"iterable"}, 1) || !interpreter.collect(values[0], items))
      return {};
    TextBuilder builder;
    for (size_t i = 0; i < items.size(); ++i) {
      Text item;
      if (text.isMarkup())
        item = escapeHtml(toText(interpreter, items[i]));
      else if (!items[i].isString())
        return interpreter.fail("sequence item %zu: expected str instance, %s found", i, nameOf(items[i]).c_str());
      else
        item = items[i].text();
      if (i != 0)
        builder.append(text);
      builder.append(item);
      if (!interpreter.spend(item.size() + text.size()))
        return {};
    }
    return made(builder.take(text.isMarkup()));
  }

  Value justify() {
    int64_t width;
    Text fill(" ", false);
    if (!bind("center", {"width", "fillchar"}, 1) || !interpreter.integerArgument(values[0], 0, width))
      return {};
    if (!values[1].isMissing() && (!textOf(1, "center", fill) || fill.length() != 1))
      return interpreter.fail("The fill character must be exactly one character long");
    int where = method == Method::String_center ? 0 : method == Method::String_ljust ? -1 : 1;
    return made(centerText(interpreter, text, width, fill, where));
  }

  Value zeroFill() {
    int64_t width;
    if (!bind("zfill", {"width"}, 1) || !interpreter.integerArgument(values[0], 0, width))
      return {};
    size_t sign = !bytes.empty() && (bytes[0] == '+' || bytes[0] == '-');
    Text padded = centerText(interpreter, text.slice(sign, bytes.size()), width - static_cast<int64_t>(sign),
                             Text("0", false), 1);
    TextBuilder builder;
    builder.append(text, 0, sign);
    builder.append(padded);
    return made(builder.take(text.isMarkup()));
  }

  Value expandTabs() {
    int64_t size;
    if (!bind("expandtabs", {"tabsize"}, 0) || !interpreter.integerArgument(values[0], 8, size))
      return {};
    if (size > 1024)
      return interpreter.fail("a tab size of more than 1024");
    TextBuilder builder;
    int64_t column = 0;
    for (size_t at = 0, length; at < bytes.size(); at += length) {
      length = characterLength(bytes[at]);
      if (bytes[at] == '\t') {
        int64_t spaces = size > 0 ? size - column % size : 0;
        builder.append(std::string(static_cast<size_t>(spaces), ' '), text.isTrusted(at));
        column += spaces;
        continue;
      }
      column = bytes[at] == '\n' || bytes[at] == '\r' ? 0 : column + 1;
      builder.append(text, at, at + length);
      if (builder.size() > maxOneText)
        return interpreter.fail("the template makes too much text");
    }
    return made(builder.take(text.isMarkup()));
  }

  Value is() {
    if (!bind("this method", {}, 0))
      return {};
    switch (method) {
    case Method::String_isascii:
      return Value::boolean(text.isAscii());
    case Method::String_islower:
    case Method::String_isupper:
    case Method::String_istitle:
      return Value::boolean(isCased());
    case Method::String_isidentifier:
      return isIdentifier();
    default:
      break;
    }
    bool all = !bytes.empty() || method == Method::String_isprintable;
    for (size_t at = 0; at < bytes.size() && all; at += characterLength(bytes[at])) {
      uint32_t code = codePointAt(bytes, at);
      switch (method) {
      case Method::String_isalpha:
        all = isAlphabetic(code);
        break;
      case Method::String_isalnum:
        all = isAlphabetic(code) || isDecimal(code) || isDigit(code) || isNumeric(code);
        break;
      case Method::String_isdecimal:
        all = isDecimal(code);
        break;
      case Method::String_isdigit:
        all = isDigit(code);
        break;
      case Method::String_isnumeric:
        all = isNumeric(code);
        break;
      case Method::String_isspace:
        all = isSpace(code);
        break;
      default:
        all = isPrintable(code);
        break;
      }
    }
    return Value::boolean(all);
  }

  bool isCased() const {
    bool cased = false, previousCased = false;
    for (size_t at = 0; at < bytes.size(); at += characterLength(bytes[at])) {
      uint32_t code = codePointAt(bytes, at);
      bool upper = isUppercase(code) || isTitlecase(code), lower = isLowercase(code);
      if (method == Method::String_islower   ? upper
          : method == Method::String_isupper ? lower || isTitlecase(code)
          : previousCased                    ? upper
                                             : lower)
        return false;
      cased |= method == Method::String_islower ? lower : method == Method::String_isupper ? upper : upper || lower;
      previousCased = upper || lower;
    }
    return cased;
  }

  Value isIdentifier() {
    if (!text.isAscii())
      return interpreter.fail("isidentifier() of text beyond ASCII is not supported");
    bool good = !bytes.empty() && !(bytes[0] >= '0' && bytes[0] <= '9');
    for (char c : bytes)
      good = good && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_');
    return Value::boolean(good);
  }

  // ------------------------------------------------------------- str.format

  Value format() {
    TextBuilder builder;
    fill(bytes, 0, builder, 0);
    return interpreter.failed ? Value() : interpreter.text(builder, text.isMarkup());
  }

  /// Replaces the fields of `part`, which starts at `offset` of the text.
  void fill(std::string_view part, size_t offset, TextBuilder &out, int depth) {
    for (size_t at = 0; at < part.size() && !interpreter.failed;) {
      size_t brace = part.find_first_of("{}", at);
      out.append(text, offset + at, offset + std::min(brace, part.size()));
      if (brace == std::string_view::npos)
        return;
      if (brace + 1 < part.size() && part[brace + 1] == part[brace] && depth == 0) {
        out.append(text, offset + brace, offset + brace + 1);
        at = brace + 2;
        continue;
      }
      if (part[brace] == '}' || depth > 1) {
        interpreter.fail(depth > 1 ? "Max string recursion exceeded" : "Single '}' encountered in format string");
        return;
      }
      size_t end = brace + 1;
      for (int open = 1; end < part.size(); ++end) {
        open += part[end] == '{' ? 1 : part[end] == '}' ? -1 : 0;
        if (open == 0)
          break;
      }
      if (end >= part.size()) {
        interpreter.fail("expected '}' before end of string");
        return;
      }
      field(part.substr(brace + 1, end - brace - 1), offset + brace + 1, out, depth);
      at = end + 1;
    }
  }

  void field(std::string_view content, size_t offset, TextBuilder &out, int depth) {
    size_t name = 0;
    for (bool bracket = false; name < content.size(); ++name) { // ':' and '!' in brackets belong to a key
      if (content[name] == '[')
        bracket = true;
      else if (content[name] == ']')
        bracket = false;
      else if (!bracket && (content[name] == ':' || content[name] == '!'))
        break;
    }
    char conversion = 0;
    size_t at = name;
    if (at < content.size() && content[at] == '!') {
      if (at + 1 >= content.size() || (at + 2 < content.size() && content[at + 2] != ':')) {
        interpreter.fail("expected ':' after conversion specifier");
        return;
      }
      conversion = content[at + 1];
      at += 2;
    }
    TextBuilder spec;
    if (at < content.size())
      fill(content.substr(at + 1), offset + at + 1, spec, depth + 1);
    Value value = lookUp(content.substr(0, name));
    if (interpreter.failed)
      return;
    if (conversion == 's' || conversion == 'r') {
      TextBuilder converted;
      if (conversion == 's')
        appendStr(interpreter, value, converted);
      else
        appendRepr(interpreter, value, converted);
      value = interpreter.text(converted);
    } else if (conversion) {
      interpreter.fail("the conversion '!%c' is not supported", conversion);
      return;
    }
    if (text.isMarkup() && value.isString())
      value = Value::string(escapeHtml(value.text()));
    appendFormatted(interpreter, value, spec.take().bytes(), out);
  }

  /// "0.name[key]", "name", or "" for the next argument.
  Value lookUp(std::string_view path) {
    size_t end = std::min(path.find_first_of(".["), path.size());
    std::string_view first = path.substr(0, end);
    bool number = !first.empty() && first.find_first_not_of("0123456789") == std::string_view::npos;
    Value value;
    if (first.empty() || number) {
      if (numbering != 0 && numbering != (number ? 1 : 2))
        return interpreter.fail("cannot switch between manual field specification and automatic field numbering");
      numbering = number ? 1 : 2;
      uint64_t index = number ? 0 : nextField++;
      for (char c : number ? first : std::string_view())
        index = std::min<uint64_t>(index * 10 + static_cast<uint64_t>(c - '0'), 1u << 30);
      if (index >= arguments.positional.size())
        return interpreter.fail("Replacement index %llu out of range for positional args tuple",
                                static_cast<unsigned long long>(index));
      value = arguments.positional[index];
    } else {
      for (const auto &[name, given] : arguments.keywords)
        if (name == first)
          value = given;
      if (value.isMissing())
        return interpreter.fail("the key '%s' of a format is missing", std::string(first).c_str());
    }
    for (size_t at = end; at < path.size() && !interpreter.failed;) {
      bool bracket = path[at] == '[';
      size_t stop = bracket ? path.find(']', at) : std::min(path.find_first_of(".[", at + 1), path.size());
      if ((!bracket && path[at] != '.') || stop == std::string_view::npos || stop == at + 1)
        return interpreter.fail("a field of a format is not well formed: '%s'", std::string(path).c_str());
      std::string_view key = path.substr(at + 1, stop - at - 1);
      bool index = bracket && key.find_first_not_of("0123456789") == std::string_view::npos && key.size() < 10;
      value = !bracket ? interpreter.attribute(value, key)
              : index  ? interpreter.item(value, Value::integer(decimal(key)))
                       : interpreter.item(value, Value::string(key));
      at = stop + bracket;
    }
    return value;
  }

  Interpreter &interpreter;
  Method method;
  const Value &self;
  const Text &text;
  std::string_view bytes;
  Arguments &arguments;
  Value values[3];
  int numbering = 0; ///< 1: fields have numbers, 2: they are counted
  uint64_t nextField = 0;
};

} // namespace

Value callStringMethod(Interpreter &interpreter, Method method, const Value &self, Arguments &arguments) {
  return StringCall(interpreter, method, self, arguments).run();
}

} // namespace ingot::rt::tpl
