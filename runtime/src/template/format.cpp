// str, repr and JSON of values.
#include "template/format.h"

#include "support/error.h"
#include "template/operations.h"
#include "template/unicode.h"

#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstring>

namespace ingot::rt::tpl {

int64_t decimal(std::string_view digits) {
  int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::string formatFloat(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  char buffer[40];
  auto written = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(written.ptr - buffer));
  size_t e = text.find('e');
  std::string digits, result;
  if (text[0] == '-')
    result = "-";
  for (char c : text.substr(0, e))
    if (c >= '0' && c <= '9')
      digits += c;
  int exponent = static_cast<int>(decimal(text.substr(e + 2)));
  if (text[e + 1] == '-')
    exponent = -exponent;
  if (exponent < -4 || exponent >= 16) {
    result += digits.substr(0, 1);
    if (digits.size() > 1)
      result += "." + digits.substr(1);
    return result + formatText("e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return result + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole)
    return result + digits + std::string(whole - digits.size(), '0') + ".0";
  return result + digits.substr(0, whole) + "." + digits.substr(whole);
}

Text toText(Context &context, const Value &value) {
  if (value.isString())
    return value.text();
  TextBuilder builder;
  appendStr(context, value, builder);
  context.spend(builder.size());
  return builder.take();
}

void appendStr(Context &context, const Value &value, TextBuilder &out) {
  if (value.isString())
    out.append(value.text());
  else if (!value.isUndefined() && !value.isMissing())
    appendRepr(context, value, out);
}

/// repr(str): single quotes unless there are only such inside.
static void appendQuoted(const Text &text, TextBuilder &out) {
  std::string_view bytes = text.bytes();
  bool markup = text.isMarkup();
  char quote = bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  if (markup)
    out.append("Markup(", false);
  out.append(std::string_view(&quote, 1), false);
  for (size_t at = 0, length; at < bytes.size(); at += length) {
    length = characterLength(bytes[at]);
    uint32_t code = codePointAt(bytes, at);
    bool trusted = text.isTrusted(at);
    if (code == '\\' || code == static_cast<uint32_t>(quote))
      out.append(std::string("\\") + static_cast<char>(code), trusted);
    else if (code == '\n' || code == '\r' || code == '\t')
      out.append(code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t", trusted);
    else if (isPrintable(code))
      out.append(text, at, at + length);
    else
      out.append(formatText(code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code), trusted);
  }
  out.append(std::string_view(&quote, 1), false);
  if (markup)
    out.append(")", false);
}

static void appendItems(Context &context, const Values &items, TextBuilder &out, uint32_t depth) {
  bool first = true;
  for (const Value &item : items) {
    if (!first)
      out.append(", ", false);
    first = false;
    appendRepr(context, item, out, depth + 1);
    if (!context.step())
      return;
  }
}

static void appendDict(Context &context, const DictObject &dict, TextBuilder &out, uint32_t depth) {
  out.append("{", false);
  bool first = true;
  for (const auto &[key, value] : dict.entries) {
    if (!first)
      out.append(", ", false);
    first = false;
    appendRepr(context, key, out, depth + 1);
    out.append(": ", false);
    appendRepr(context, value, out, depth + 1);
    if (!context.step())
      return;
  }
  out.append("}", false);
}

static void appendView(Context &context, const Value &value, TextBuilder &out, uint32_t depth) {
  out.append(typeName(value), false);
  out.append("([", false);
  const auto &view = value.as<ViewObject>();
  Values items;
  for (const auto &[key, one] : view.dict.as<DictObject>().entries)
    items.push_back(view.kind == ViewObject::Kind::Items  ? makeList({key, one}, Type::Tuple)
                    : view.kind == ViewObject::Kind::Keys ? key
                                                          : one);
  appendItems(context, items, out, depth);
  out.append("])", false);
}

void appendRepr(Context &context, const Value &value, TextBuilder &out, uint32_t depth) {
  if (depth > 2 * maxDepth || out.size() > maxOneText) {
    context.fail(depth > 2 * maxDepth ? "a value that is nested too deeply cannot be printed"
                                      : "the template makes too much text");
    return;
  }
  switch (value.type()) {
  case Type::Missing:
  case Type::Undefined:
    return out.append("Undefined", false);
  case Type::None:
    return out.append("None", true);
  case Type::Bool:
    return out.append(value.boolean() ? "True" : "False", true);
  case Type::Int:
    return out.append(std::to_string(value.integer()), value.isTrusted());
  case Type::BigInt:
    return out.append(value.as<BigIntObject>().digits, false);
  case Type::Float:
    return out.append(formatFloat(value.real()), value.isTrusted());
  case Type::String:
    return appendQuoted(value.text(), out);
  case Type::List:
  case Type::Tuple: {
    bool tuple = value.is(Type::Tuple);
    const Values &items = value.as<ListObject>().items;
    out.append(tuple ? "(" : "[", false);
    appendItems(context, items, out, depth);
    return out.append(!tuple ? "]" : items.size() == 1 ? ",)" : ")", false);
  }
  case Type::Dict:
    return appendDict(context, value.as<DictObject>(), out, depth);
  case Type::View:
    return appendView(context, value, out, depth);
  case Type::Range: {
    const auto &range = value.as<RangeObject>();
    std::string step = range.step == 1 ? "" : formatText(", %" PRId64, range.step);
    return out.append(formatText("range(%" PRId64 ", %" PRId64 "%s)", range.start, range.stop, step.c_str()), false);
  }
  case Type::Namespace:
    out.append("<Namespace ", false);
    appendDict(context, value.as<NamespaceObject>().attributes, out, depth);
    return out.append(">", false);
  default:
    context.fail("a %s cannot be printed: it has no text of its own", std::string(typeName(value)).c_str());
  }
}

// ---------------------------------------------------------------------------
// JSON
// ---------------------------------------------------------------------------

static void appendJsonString(const Text &text, bool ascii, TextBuilder &out) {
  std::string_view bytes = text.bytes();
  out.append("\"", false);
  for (size_t at = 0, length; at < bytes.size(); at += length) {
    length = characterLength(bytes[at]);
    uint32_t code = codePointAt(bytes, at);
    bool trusted = text.isTrusted(at);
    static constexpr std::string_view from = "\"\\\n\r\t\f\b", to = "\"\\nrtfb";
    if (size_t which = code < 0x80 ? from.find(static_cast<char>(code)) : std::string_view::npos;
        which != std::string_view::npos)
      out.append(std::string("\\") + to[which], trusted);
    else if (code < 0x20 || (ascii && code >= 0x7f && code < 0x10000 && code != 0x7f))
      out.append(formatText("\\u%04x", code), trusted);
    else if (ascii && code >= 0x10000)
      out.append(formatText("\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff)),
                 trusted);
    else
      out.append(text, at, at + length);
  }
  out.append("\"", false);
}

static std::string jsonFloat(double value) {
  if (std::isnan(value))
    return "NaN";
  return std::isinf(value) ? (value < 0 ? "-Infinity" : "Infinity") : formatFloat(value);
}

static void jsonNewline(const JsonFormat &format, uint32_t depth, TextBuilder &out) {
  if (!format.indent)
    return;
  out.append("\n", false);
  for (uint32_t i = 0; i < depth; ++i)
    out.append(*format.indent, false);
}

static bool appendJsonKey(Context &context, const Value &key, const JsonFormat &format, TextBuilder &out) {
  Text text;
  if (key.isString())
    text = key.text();
  else if (key.isNone())
    text = Text("null", false);
  else if (key.is(Type::Bool))
    text = Text(key.boolean() ? "true" : "false", false);
  else if (key.is(Type::Float))
    text = Text(jsonFloat(key.real()), false);
  else if (key.is(Type::Int) || key.is(Type::BigInt))
    text = toText(context, key);
  else {
    context.fail("keys must be str, int, float, bool or None, not %s", std::string(typeName(key)).c_str());
    return false;
  }
  appendJsonString(text, format.ascii, out);
  out.append(format.keySeparator, false);
  return true;
}

static void appendJsonDict(Context &context, const DictObject &dict, const JsonFormat &format, TextBuilder &out,
                           uint32_t depth) {
  if (dict.entries.empty())
    return out.append("{}", false);
  out.append("{", false);
  std::vector<size_t> order;
  if (!sortedOrder(context, dict.entries.size(), format.sortKeys, order,
                   [&](size_t a, size_t b) { return isLess(context, dict.entries[a].first, dict.entries[b].first); }))
    return;
  bool first = true;
  for (size_t i : order) {
    if (!first)
      out.append(format.itemSeparator, false);
    first = false;
    jsonNewline(format, depth + 1, out);
    if (!appendJsonKey(context, dict.entries[i].first, format, out))
      return;
    appendJson(context, dict.entries[i].second, format, out, depth + 1);
    if (!context.step())
      return;
  }
  jsonNewline(format, depth, out);
  out.append("}", false);
}

void appendJson(Context &context, const Value &value, const JsonFormat &format, TextBuilder &out, uint32_t depth) {
  if (depth > 2 * maxDepth || out.size() > maxOneText) {
    context.fail(depth > 2 * maxDepth ? "a value that is nested too deeply cannot become JSON"
                                      : "the template makes too much text");
    return;
  }
  switch (value.type()) {
  case Type::None:
    return out.append("null", true);
  case Type::Bool:
    return out.append(value.boolean() ? "true" : "false", true);
  case Type::Int:
  case Type::BigInt:
    return appendRepr(context, value, out);
  case Type::Float:
    return out.append(jsonFloat(value.real()), value.isTrusted());
  case Type::String:
    return appendJsonString(value.text(), format.ascii, out);
  case Type::List:
  case Type::Tuple: {
    const Values &items = value.as<ListObject>().items;
    if (items.empty())
      return out.append("[]", false);
    out.append("[", false);
    bool first = true;
    for (const Value &item : items) {
      if (!first)
        out.append(format.itemSeparator, false);
      first = false;
      jsonNewline(format, depth + 1, out);
      appendJson(context, item, format, out, depth + 1);
      if (!context.step())
        return;
    }
    jsonNewline(format, depth, out);
    return out.append("]", false);
  }
  case Type::Dict:
    return appendJsonDict(context, value.as<DictObject>(), format, out, depth);
  default:
    context.fail("Object of type %s is not JSON serializable", std::string(typeName(value)).c_str());
  }
}

Text escapeHtml(const Text &text) {
  if (text.isMarkup())
    return text;
  TextBuilder builder;
  std::string_view bytes = text.bytes();
  size_t done = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    const char *with = nullptr;
    switch (bytes[at]) {
    case '&':
      with = "&amp;";
      break;
    case '<':
      with = "&lt;";
      break;
    case '>':
      with = "&gt;";
      break;
    case '\'':
      with = "&#39;";
      break;
    case '"':
      with = "&#34;";
      break;
    default:
      continue;
    }
    builder.append(text, done, at);
    builder.append(with, text.isTrusted(at));
    done = at + 1;
  }
  builder.append(text, done, bytes.size());
  return builder.take(true);
}

} // namespace ingot::rt::tpl
