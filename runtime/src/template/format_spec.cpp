// `'%s' % x` and format(x, '>8.2f'), the two ways in which Python fills texts
// in.
#include "support/error.h"
#include "template/format.h"
#include "template/unicode.h"

#include <cinttypes>
#include <cmath>
#include <cstdlib>

namespace ingot::rt::tpl {

namespace {

constexpr int64_t maxWidth = 1 << 20;

/// What both languages can say.
struct Layout {
  std::string fill = " ";
  char align = 0; ///< '<', '>', '^', '=' or 0
  char sign = '-';
  bool alternate = false, zero = false;
  char grouping = 0;
  int64_t width = 0, precision = -1;
  char type = 0;
};

/// Pads what `text` shows to the layout's width. `prefix` bytes (a sign, 0x)
/// stay in front of '=' padding.
void appendPadded(Context &context, const Text &text, const Layout &layout, char align, size_t prefix,
                  TextBuilder &out) {
  auto width = static_cast<size_t>(layout.width);
  size_t padding = width > text.length() ? width - text.length() : 0;
  if (!context.spend(padding))
    return;
  auto pad = [&](size_t count) {
    for (size_t i = 0; i < count; ++i)
      out.append(layout.fill, false);
  };
  if (align == '=') {
    out.append(text, 0, prefix);
    pad(padding);
    return out.append(text, prefix, text.size());
  }
  size_t before = align == '<' ? 0 : align == '^' ? padding / 2 : padding;
  pad(before);
  out.append(text);
  pad(padding - before);
}

std::string groupDigits(const std::string &digits, char separator, size_t every) {
  std::string result;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % every == 0)
      result += separator;
    result += digits[i];
  }
  return result;
}

/// The magnitude of an integer in base 2, 8, 10 or 16.
std::string integerDigits(uint64_t value, char type) {
  unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
  std::string digits;
  do {
    digits.insert(digits.begin(), (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[value % base]);
    value /= base;
  } while (value != 0);
  return digits;
}

/// The magnitude of a float by a type of printf, without its sign.
std::string floatDigits(double value, const Layout &layout) {
  value = std::fabs(value);
  char type = layout.type;
  bool upper = type == 'F' || type == 'E' || type == 'G';
  if (!std::isfinite(value))
    return std::isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
  int precision = static_cast<int>(layout.precision < 0 ? 6 : layout.precision);
  if (type == '%')
    return formatText("%.*f", precision, value * 100) + "%";
  if (type == 0) {
    if (layout.precision < 0)
      return formatFloat(value);
    // Like g, but with a digit after the point, and an exponent only beyond the precision.
    precision = std::max(precision, 1);
    std::string text = formatText("%.*g", precision, value);
    if (text.find_first_of(".e") == std::string::npos) {
      if (static_cast<int64_t>(text.size()) >= layout.precision) {
        std::string scientific = formatText("%.*e", precision - 1, value);
        size_t e = scientific.find('e');
        std::string mantissa = scientific.substr(0, e);
        if (mantissa.find('.') != std::string::npos) {
          mantissa.erase(mantissa.find_last_not_of('0') + 1);
          if (mantissa.back() == '.')
            mantissa.pop_back();
        }
        return mantissa + scientific.substr(e);
      }
      text += ".0";
    }
    return text;
  }
  char format[16];
  snprintf(format, sizeof format, "%%%s.*%c", layout.alternate ? "#" : "", type);
  char buffer[1024];
  int length = snprintf(buffer, sizeof buffer, format, precision, value);
  if (length < static_cast<int>(sizeof buffer))
    return std::string(buffer, static_cast<size_t>(std::max(length, 0)));
  std::string text(static_cast<size_t>(length) + 1, '\0');
  snprintf(text.data(), text.size(), format, precision, value);
  text.pop_back();
  return text;
}

/// A number with its sign, prefix and groups, padded.
void appendNumber(Context &context, const Value &value, Layout layout, TextBuilder &out) {
  bool isFloat =
      value.is(Type::Float) || (layout.type && std::string_view("eEfFgG%").find(layout.type) != std::string_view::npos);
  bool negative = isFloat ? std::signbit(value.real()) && !std::isnan(value.real()) : value.integer() < 0;
  std::string head = negative ? "-" : layout.sign == '-' ? "" : std::string(1, layout.sign);
  std::string digits, tail;
  size_t every = 3;
  if (isFloat) {
    digits = floatDigits(value.real(), layout);
    size_t end = digits.find_first_not_of("0123456789");
    tail = end == std::string::npos ? "" : digits.substr(end);
    digits.resize(end == std::string::npos ? digits.size() : end);
  } else {
    int64_t number = value.integer();
    digits = integerDigits(number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number), layout.type);
    if (layout.alternate && std::string_view("boxX").find(layout.type) != std::string_view::npos && layout.type)
      head += std::string("0") + layout.type;
    every = layout.type == 0 || layout.type == 'd' ? 3 : 4;
  }
  if (layout.grouping) {
    // Zeros that pad are grouped too.
    bool fills = layout.zero && (layout.align == 0 || layout.align == '=');
    while (fills &&
           static_cast<int64_t>(head.size() + groupDigits(digits, ',', every).size() + tail.size()) < layout.width)
      digits.insert(digits.begin(), '0');
    digits = groupDigits(digits, layout.grouping, every);
    if (digits.front() == layout.grouping)
      digits.erase(0, 1);
  }
  char align = layout.align ? layout.align : layout.zero ? '=' : '>';
  if (layout.zero && layout.align == 0)
    layout.fill = "0";
  appendPadded(context, Text(head + digits + tail, value.isTrusted()), layout, align, head.size(), out);
}

bool parseSpec(Context &context, std::string_view spec, Layout &layout) {
  size_t at = 0;
  auto isAlign = [](char c) { return std::string_view("<>^=").find(c) != std::string_view::npos; };
  auto peek = [&] { return at < spec.size() ? spec[at] : '\0'; };
  size_t first = spec.empty() ? 0 : characterLength(spec[0]);
  if (first && first < spec.size() && isAlign(spec[first])) {
    layout.fill = spec.substr(0, first);
    layout.align = spec[first];
    at = first + 1;
  } else if (!spec.empty() && isAlign(spec[0])) {
    layout.align = spec[at++];
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ')
    layout.sign = spec[at++];
  if (peek() == '#' && ++at)
    layout.alternate = true;
  if (peek() == '0' && ++at) {
    layout.zero = true;
    if (!layout.align)
      layout.fill = "0";
  }
  auto number = [&] {
    int64_t value = 0;
    while (peek() >= '0' && peek() <= '9' && value <= maxWidth)
      value = value * 10 + (spec[at++] - '0');
    return value;
  };
  layout.width = number();
  if (peek() == ',' || peek() == '_')
    layout.grouping = spec[at++];
  if (peek() == '.') {
    ++at;
    if (peek() < '0' || peek() > '9') {
      context.fail("Format specifier missing precision");
      return false;
    }
    layout.precision = number();
  }
  if (at < spec.size())
    layout.type = spec[at++];
  if (at != spec.size() || layout.width > maxWidth || layout.precision > maxWidth) {
    context.fail("Invalid format specifier '%s'", std::string(spec).c_str());
    return false;
  }
  return true;
}

} // namespace

void appendFormatted(Context &context, const Value &value, std::string_view spec, TextBuilder &out) {
  if (spec.empty())
    return appendStr(context, value, out);
  Layout layout;
  if (!parseSpec(context, spec, layout))
    return;
  auto oneOf = [&](std::string_view types) {
    return layout.type == 0 || types.find(layout.type) != std::string_view::npos;
  };
  if (value.isString()) {
    if (!oneOf("s") || layout.sign != '-' || layout.align == '=' || layout.grouping || layout.alternate) {
      context.fail("a format that is not for strings: '%s'", std::string(spec).c_str());
      return;
    }
    Text text = value.text();
    if (layout.precision >= 0 && static_cast<uint64_t>(layout.precision) < text.length())
      text = text.slice(0, text.offsetOf(static_cast<size_t>(layout.precision)));
    return appendPadded(context, text, layout, layout.align ? layout.align : '<', 0, out);
  }
  bool integer = value.isInteger() && oneOf("dboxXeEfFgG%") && (layout.precision < 0 || !oneOf("dboxX"));
  bool real = value.is(Type::Float) && oneOf("eEfFgG%");
  if (integer || real)
    return appendNumber(context, value, layout, out);
  context.fail("unsupported format '%s' for a value of type %s", std::string(spec).c_str(),
               std::string(typeName(value)).c_str());
}

namespace {

/// One rendering of a %-format.
class PercentFormat {
public:
  PercentFormat(Context &context, const Text &format, const Value &arguments)
      : context(context), format(format), arguments(arguments), bytes(format.bytes()),
        isTuple(arguments.is(Type::Tuple)),
        // What has keys or indices may be left unused.
        isMapping(arguments.is(Type::Dict) || arguments.is(Type::List) || arguments.isUndefined() ||
                  arguments.is(Type::Range)) {}

  Value run() {
    while (at < bytes.size() && !context.failed) {
      size_t percent = bytes.find('%', at);
      out.append(format, at, std::min(percent, bytes.size()));
      if (percent == std::string_view::npos)
        break;
      at = percent + 1;
      one(percent);
    }
    bool left = isTuple ? used < arguments.as<ListObject>().items.size() : !isMapping && used == 0;
    if (!context.failed && left)
      return context.fail("not all arguments converted during string formatting");
    return context.failed ? Value() : context.text(out, format.isMarkup());
  }

private:
  char peek() const { return at < bytes.size() ? bytes[at] : '\0'; }

  Value nextArgument() {
    if (isTuple) {
      const Values &items = arguments.as<ListObject>().items;
      if (used < items.size())
        return items[used++];
    } else if (used == 0) {
      ++used;
      return arguments;
    }
    return context.fail("not enough arguments for format string");
  }

  /// A number, or * for the next argument.
  bool number(int64_t &value) {
    if (peek() == '*') {
      ++at;
      Value given = nextArgument();
      if (context.failed)
        return false;
      if (!given.isInteger()) {
        context.fail("* wants int");
        return false;
      }
      value = given.integer();
    } else {
      value = 0;
      while (peek() >= '0' && peek() <= '9' && value <= maxWidth)
        value = value * 10 + (bytes[at++] - '0');
    }
    if (value > maxWidth || value < -maxWidth)
      context.fail("a width or precision of a format is too large");
    return !context.failed;
  }

  void one(size_t percent) {
    Layout layout;
    bool left = false;
    std::optional<Value> named;
    if (peek() == '(') {
      size_t start = ++at;
      for (int depth = 1; at < bytes.size(); ++at) {
        depth += bytes[at] == '(' ? 1 : bytes[at] == ')' ? -1 : 0;
        if (depth == 0)
          break;
      }
      if (!arguments.is(Type::Dict) || at >= bytes.size()) {
        context.fail(at >= bytes.size() ? "incomplete format key" : "format requires a mapping");
        return;
      }
      const Value *found = arguments.as<DictObject>().find(bytes.substr(start, at - start));
      if (!found) {
        context.fail("the key '%s' of a format is missing", std::string(bytes.substr(start, at - start)).c_str());
        return;
      }
      ++at;
      named = *found;
    }
    for (bool flags = true; flags;) {
      switch (peek()) {
      case '-':
        left = true;
        break;
      case '+':
        layout.sign = '+';
        break;
      case ' ':
        layout.sign = layout.sign == '+' ? '+' : ' ';
        break;
      case '#':
        layout.alternate = true;
        break;
      case '0':
        layout.zero = true;
        break;
      default:
        flags = false;
      }
      at += flags;
    }
    if (!number(layout.width))
      return;
    if (layout.width < 0) {
      left = true;
      layout.width = -layout.width;
    }
    if (peek() == '.') {
      ++at;
      if (!number(layout.precision))
        return;
      layout.precision = std::max<int64_t>(layout.precision, 0);
    }
    if (std::string_view("hlL").find(peek()) != std::string_view::npos && peek())
      ++at;
    if (at >= bytes.size()) {
      context.fail("incomplete format");
      return;
    }
    char type = bytes[at++];
    if (type == '%')
      return out.append("%", format.isTrusted(percent));
    Value value = named ? *named : nextArgument();
    if (!context.failed)
      convert(value, type, layout, left);
  }

  void convert(const Value &value, char type, Layout &layout, bool left) {
    layout.align = left ? '<' : 0;
    if (type == 's' || type == 'r') {
      TextBuilder builder;
      if (type == 's')
        appendStr(context, value, builder);
      else
        appendRepr(context, value, builder);
      Text text = builder.take(value.isString() && value.text().isMarkup() && type == 's');
      if (format.isMarkup())
        text = escapeHtml(text);
      if (layout.precision >= 0 && static_cast<uint64_t>(layout.precision) < text.length())
        text = text.slice(0, text.offsetOf(static_cast<size_t>(layout.precision)));
      return appendPadded(context, text, layout, left ? '<' : '>', 0, out);
    }
    if (type == 'c') {
      bool good = value.isString() ? value.text().length() == 1
                                   : value.isInteger() && value.integer() >= 0 && value.integer() < 0x110000 &&
                                         (value.integer() < 0xd800 || value.integer() > 0xdfff);
      if (!good) {
        context.fail("%%c requires int or char");
        return;
      }
      std::string character;
      if (!value.isString())
        appendUtf8(character, static_cast<uint32_t>(value.integer()));
      return appendPadded(context, value.isString() ? value.text() : Text(character, false), layout, left ? '<' : '>',
                          0, out);
    }
    bool decimal = std::string_view("diu").find(type) != std::string_view::npos;
    bool integral = decimal || std::string_view("oxX").find(type) != std::string_view::npos;
    bool real = std::string_view("eEfFgG").find(type) != std::string_view::npos;
    if (!integral && !real) {
      context.fail("unsupported format character '%c'", type);
      return;
    }
    if (!value.isNumber() || (integral && !decimal && value.is(Type::Float))) {
      if (value.isUndefined())
        context.failUndefined(value);
      else
        context.fail("%%%c format: a number is required, not %s", type, std::string(typeName(value)).c_str());
      return;
    }
    layout.type = decimal ? 'd' : type;
    Value number = value;
    if (integral && value.is(Type::Float)) {
      double whole = std::trunc(value.real());
      if (!(std::fabs(whole) < 9.2e18)) {
        context.fail("integers beyond 64 bits are not supported");
        return;
      }
      number = Value::integer(static_cast<int64_t>(whole), value.isTrusted());
    }
    if (integral && layout.precision >= 0)
      return appendPrecise(number, layout, left);
    if (left)
      layout.zero = false;
    appendNumber(context, number, layout, out);
  }

  /// An integer with at least as many digits as the precision.
  void appendPrecise(const Value &number, Layout layout, bool left) {
    TextBuilder plain;
    Layout bare;
    bare.type = layout.type;
    bare.sign = layout.sign;
    bare.alternate = layout.alternate;
    appendNumber(context, number, bare, plain);
    Text text = plain.take();
    size_t head = text.bytes().find_first_of("0123456789abcdefABCDEF");
    if (bare.alternate && layout.type != 'd')
      head += 2;
    TextBuilder padded;
    padded.append(text, 0, head);
    for (size_t digits = text.size() - head; static_cast<int64_t>(digits) < layout.precision; ++digits)
      padded.append("0", number.isTrusted());
    padded.append(text, head, text.size());
    char align = left ? '<' : layout.zero ? '=' : '>';
    if (align == '=')
      layout.fill = "0";
    appendPadded(context, padded.take(), layout, align, head, out);
  }

  Context &context;
  const Text &format;
  const Value &arguments;
  std::string_view bytes;
  bool isTuple, isMapping;
  size_t at = 0, used = 0;
  TextBuilder out;
};

} // namespace

Value formatPercent(Context &context, const Text &format, const Value &arguments) {
  return PercentFormat(context, format, arguments).run();
}

} // namespace ingot::rt::tpl
