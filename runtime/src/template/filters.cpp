// Filters of texts and numbers.
#include "template/filters.h"

#include "template/format.h"
#include "template/methods.h"
#include "template/unicode.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ingot::rt::tpl {

uint32_t filterNamed(std::string_view name) {
#define X(filter)                                                                                                      \
  if (name == #filter)                                                                                                 \
    return INGOT_RT_TPL_FILTER_##filter;
  INGOT_RT_TPL_FILTERS(X)
#undef X
#define X(text, filter)                                                                                                \
  if (name == (text))                                                                                                  \
    return INGOT_RT_TPL_FILTER_##filter;
  INGOT_RT_TPL_FILTER_ALIASES(X)
#undef X
  return none;
}

uint32_t testNamed(std::string_view name) {
#define X(test)                                                                                                        \
  if (name == #test)                                                                                                   \
    return INGOT_RT_TPL_TEST_##test;
  INGOT_RT_TPL_TESTS(X)
#undef X
#define X(text, test)                                                                                                  \
  if (name == (text))                                                                                                  \
    return INGOT_RT_TPL_TEST_##test;
  INGOT_RT_TPL_TEST_ALIASES(X)
#undef X
  return none;
}

Value Interpreter::filter(uint32_t which, const Value &value, Arguments &arguments) {
  if (std::optional<Value> result = filterScalar(*this, which, value, arguments))
    return failed ? Value() : *result;
  Value result = filterSequence(*this, which, value, arguments);
  return failed ? Value() : result;
}

namespace {

std::string nameOf(const Value &value) { return std::string(typeName(value)); }

/// One application of a filter.
class ScalarFilter {
public:
  ScalarFilter(Interpreter &interpreter, const Value &value, Arguments &arguments)
      : interpreter(interpreter), value(value), arguments(arguments) {}

  std::optional<Value> run(uint32_t which) {
    switch (which) {
    case INGOT_RT_TPL_FILTER_upper:
      return mapped(CaseMapping::Upper);
    case INGOT_RT_TPL_FILTER_lower:
      return mapped(CaseMapping::Lower);
    case INGOT_RT_TPL_FILTER_capitalize:
      return mapped(CaseMapping::Capitalize);
    case INGOT_RT_TPL_FILTER_title:
      return title();
    case INGOT_RT_TPL_FILTER_trim:
      if (!bind("trim", {"chars"}, 0))
        return Value();
      return made(stripText(interpreter, soft(), values[0], true, true));
    case INGOT_RT_TPL_FILTER_string:
      return bind("string", {}, 0) ? made(soft()) : Value();
    case INGOT_RT_TPL_FILTER_safe:
      return bind("safe", {}, 0) ? made(soft().withMarkup(true)) : Value();
    case INGOT_RT_TPL_FILTER_escape:
      return bind("escape", {}, 0) ? made(escapeHtml(soft())) : Value();
    case INGOT_RT_TPL_FILTER_replace:
      return replace();
    case INGOT_RT_TPL_FILTER_indent:
      return indent();
    case INGOT_RT_TPL_FILTER_center: {
      int64_t width;
      if (!bind("center", {"width"}, 0) || !interpreter.integerArgument(values[0], 80, width))
        return Value();
      return made(centerText(interpreter, soft(), width, Text(" ", false), 0));
    }
    case INGOT_RT_TPL_FILTER_truncate:
      return truncate();
    case INGOT_RT_TPL_FILTER_format:
      return format();
    case INGOT_RT_TPL_FILTER_tojson:
      return toJson();
    case INGOT_RT_TPL_FILTER_int:
      return toInteger();
    case INGOT_RT_TPL_FILTER_float:
      return toFloat();
    case INGOT_RT_TPL_FILTER_abs:
      return absolute();
    case INGOT_RT_TPL_FILTER_round:
      return round();
    case INGOT_RT_TPL_FILTER_default:
      if (!bind("default", {"default_value", "boolean"}, 0))
        return Value();
      if (value.isUndefined() || (!values[1].isMissing() && isTrue(values[1]) && !isTrue(value)))
        return values[0].isMissing() ? Value::string("") : values[0];
      return value;
    case INGOT_RT_TPL_FILTER_attr:
      return attr();
    default:
      return std::nullopt;
    }
  }

private:
  bool bind(const char *name, std::initializer_list<const char *> names, size_t required) {
    return interpreter.bind(name, arguments, names, required, values);
  }
  Value made(Text text) { return interpreter.failed ? Value() : interpreter.text(std::move(text)); }
  /// The value as a text (soft_str).
  Text soft() { return toText(interpreter, value); }

  Value mapped(CaseMapping mapping) { return bind("this filter", {}, 0) ? made(mapCase(soft(), mapping)) : Value(); }

  /// Words begin after white space and -({[<.
  Value title() {
    if (!bind("title", {}, 0))
      return {};
    Text text = soft();
    std::string_view bytes = text.bytes();
    auto separates = [&](size_t at) {
      uint32_t code = codePointAt(bytes, at);
      return isSpace(code) ||
             (code < 0x80 && std::string_view("-({[<").find(static_cast<char>(code)) != std::string_view::npos);
    };
    TextBuilder builder;
    for (size_t at = 0; at < bytes.size();) {
      size_t start = at;
      bool separator = separates(at);
      size_t first = at + characterLength(bytes[at]);
      while (at < bytes.size() && separates(at) == separator)
        at += characterLength(bytes[at]);
      if (separator) {
        builder.append(text, start, at);
        continue;
      }
      builder.append(mapCase(text.slice(start, first), CaseMapping::Upper));
      builder.append(mapCase(text.slice(first, at), CaseMapping::Lower));
    }
    return made(builder.take(text.isMarkup()));
  }

  Value replace() {
    int64_t count;
    if (!bind("replace", {"old", "new", "count"}, 2))
      return {};
    if (values[2].isNone())
      values[2] = {};
    if (!interpreter.integerArgument(values[2], -1, count))
      return {};
    Text from = toText(interpreter, values[0]), to = toText(interpreter, values[1]);
    return made(replaceText(interpreter, soft().withMarkup(false), from, to, count));
  }

  Value indent() {
    if (!bind("indent", {"width", "first", "blank"}, 0))
      return {};
    if (value.isUndefined())
      return interpreter.failUndefined(value);
    if (!value.isString())
      return interpreter.fail("unsupported operand type(s) for +=: '%s' and 'str'", nameOf(value).c_str());
    Text width;
    if (values[0].isString()) {
      width = values[0].text();
    } else {
      int64_t count;
      if (!interpreter.integerArgument(values[0], 4, count) ||
          !interpreter.spend(static_cast<uint64_t>(std::max<int64_t>(count, 0))))
        return {};
      width = Text(std::string(static_cast<size_t>(std::max<int64_t>(count, 0)), ' '), true);
    }
    bool first = !values[1].isMissing() && isTrue(values[1]), blank = !values[2].isMissing() && isTrue(values[2]);
    TextBuilder whole;
    whole.append(value.text());
    whole.append("\n", true);
    std::vector<Text> lines = splitLines(whole.take(), false);
    TextBuilder builder;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (i != 0)
        builder.append("\n", true);
      if (i == 0 ? first : blank || lines[i].size() != 0)
        builder.append(width);
      builder.append(lines[i]);
      if (!interpreter.spend(width.size()))
        return {};
    }
    return made(builder.take(value.text().isMarkup()));
  }

  Value truncate() {
    int64_t length, leeway;
    if (!bind("truncate", {"length", "killwords", "end", "leeway"}, 0))
      return {};
    if (values[3].isNone())
      values[3] = {};
    if (!interpreter.integerArgument(values[0], 255, length) || !interpreter.integerArgument(values[3], 5, leeway))
      return {};
    Text end = values[2].isMissing() ? Text("...", true) : toText(interpreter, values[2]);
    auto endLength = static_cast<int64_t>(end.length());
    if (length < endLength || leeway < 0)
      return interpreter.fail("truncate: expected a length of at least %lld and no negative leeway",
                              static_cast<long long>(endLength));
    int64_t have = lengthOf(value);
    if (value.isUndefined() || (have >= 0 && have - length <= leeway))
      return value;
    if (!value.isString())
      return interpreter.fail("truncate: expected a str, got %s", nameOf(value).c_str());
    const Text &text = value.text();
    size_t cut = text.offsetOf(static_cast<size_t>(length - endLength));
    if (values[1].isMissing() || !isTrue(values[1])) {
      size_t space = text.bytes().substr(0, cut).rfind(' ');
      cut = space == std::string_view::npos ? cut : space;
    }
    TextBuilder builder;
    builder.append(text, 0, cut);
    builder.append(end);
    return made(builder.take(text.isMarkup()));
  }

  Value format() {
    if (!arguments.positional.empty() && !arguments.keywords.empty())
      return interpreter.fail("can't handle positional and keyword arguments at the same time");
    if (arguments.keywords.empty())
      return formatPercent(interpreter, soft(), makeList(arguments.positional, Type::Tuple));
    std::vector<std::pair<Value, Value>> entries;
    for (const auto &[name, one] : arguments.keywords)
      entries.emplace_back(Value::string(name), one);
    return formatPercent(interpreter, soft(), makeDict(std::move(entries)));
  }

  Value toJson() {
    JsonFormat format;
    if (!bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0))
      return {};
    format.ascii = !values[0].isMissing() && isTrue(values[0]);
    format.sortKeys = !values[3].isMissing() && isTrue(values[3]);
    if (values[1].isString()) {
      format.indent = std::string(values[1].text().bytes());
    } else if (!values[1].isMissing() && !values[1].isNone()) {
      int64_t count;
      if (!interpreter.integerArgument(values[1], 0, count))
        return {};
      if (count > 1024)
        return interpreter.fail("tojson: an indent of more than 1024");
      format.indent = std::string(static_cast<size_t>(std::max<int64_t>(count, 0)), ' ');
    }
    if (format.indent)
      format.itemSeparator = ",";
    if (!values[2].isMissing() && !values[2].isNone()) {
      Values pair;
      if (!interpreter.collect(values[2], pair))
        return {};
      if (pair.size() != 2 || !pair[0].isString() || !pair[1].isString())
        return interpreter.fail("tojson: separators: expected two strings");
      format.itemSeparator = pair[0].text().bytes();
      format.keySeparator = pair[1].text().bytes();
    }
    TextBuilder builder;
    appendJson(interpreter, value, format, builder);
    return interpreter.failed ? Value() : interpreter.text(builder);
  }

  /// The digits of a number in a text as Python's int and float take them: white
  /// space around it and single underscores between digits are allowed.
  static std::optional<std::string> cleaned(const Text &text) {
    std::string_view bytes = text.bytes();
    size_t begin = 0, end = bytes.size();
    while (begin < end && isSpace(codePointAt(bytes, begin)))
      begin += characterLength(bytes[begin]);
    while (end > begin && isSpace(codePointAt(bytes, previousCharacter(bytes, end))))
      end = previousCharacter(bytes, end);
    std::string result;
    for (size_t i = begin; i < end; ++i) {
      if (bytes[i] == '_') {
        auto isDigitAt = [&](size_t at) { return at < end && isalnum(static_cast<unsigned char>(bytes[at])) != 0; };
        if (i == begin || !isDigitAt(i - 1) || !isDigitAt(i + 1))
          return std::nullopt;
        continue;
      }
      result += bytes[i];
    }
    return result;
  }

  /// float(text); nothing where Python raises ValueError.
  static std::optional<double> parseFloat(const Text &text) {
    std::optional<std::string> digits = cleaned(text);
    if (!digits || digits->empty())
      return std::nullopt;
    std::string_view rest = *digits;
    bool negative = rest[0] == '-';
    if (rest[0] == '-' || rest[0] == '+')
      rest.remove_prefix(1);
    std::string lower;
    for (char c : rest)
      lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    double result = 0;
    if (lower == "inf" || lower == "infinity")
      result = HUGE_VAL;
    else if (lower == "nan")
      result = NAN;
    else {
      if (lower.empty() || lower.find_first_not_of("0123456789.e+-") != std::string::npos ||
          !((lower[0] >= '0' && lower[0] <= '9') || lower[0] == '.'))
        return std::nullopt;
      char *end = nullptr;
      result = strtod(lower.c_str(), &end);
      if (end != lower.c_str() + lower.size())
        return std::nullopt;
    }
    return negative ? -result : result;
  }

  /// int(text, base). `state`: 0 not a number, 1 a number, 2 beyond 64 bits.
  static int64_t parseInteger(const Text &text, int64_t base, int &state) {
    state = 0;
    std::optional<std::string> digits = cleaned(text);
    if (!digits || digits->empty())
      return 0;
    std::string_view rest = *digits;
    bool negative = rest[0] == '-';
    if (rest[0] == '-' || rest[0] == '+')
      rest.remove_prefix(1);
    char letter = rest.size() > 1 && rest[0] == '0' ? static_cast<char>(rest[1] | 32) : '\0';
    int64_t named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      rest.remove_prefix(2);
      base = named;
    } else if (base == 0) {
      if (rest.size() > 1 && rest[0] == '0' && rest.find_first_not_of('0') != std::string_view::npos)
        return 0;
      base = 10;
    }
    uint64_t magnitude = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), magnitude, static_cast<int>(base));
    if (rest.empty() || end != rest.data() + rest.size())
      return 0;
    bool fits = error == std::errc() && magnitude <= static_cast<uint64_t>(INT64_MAX) + negative;
    state = fits ? 1 : 2;
    return static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  }

  Value fromDouble(double number, const Value &absent) {
    if (!std::isfinite(number))
      return absent;
    if (!(std::fabs(number) < 9.2e18))
      return interpreter.fail("integers beyond 64 bits are not supported");
    return Value::integer(static_cast<int64_t>(number), value.isTrusted() && !value.isString());
  }

  Value toInteger() {
    int64_t base;
    if (!bind("int", {"default", "base"}, 0) || !interpreter.integerArgument(values[1], 10, base))
      return {};
    Value absent = values[0].isMissing() ? Value::integer(0) : values[0];
    if (value.isUndefined())
      return interpreter.failUndefined(value);
    if (value.isInteger())
      return Value::integer(value.integer(), value.isTrusted());
    if (value.is(Type::BigInt))
      return value;
    if (value.is(Type::Float)) {
      if (std::isinf(value.real()))
        return interpreter.fail("cannot convert float infinity to integer");
      return fromDouble(value.real(), absent);
    }
    if (!value.isString())
      return absent;
    if (base != 0 && (base < 2 || base > 36))
      base = -1;
    int state = 0;
    int64_t number = base < 0 ? 0 : parseInteger(value.text(), base, state);
    if (state == 2)
      return interpreter.fail("integers beyond 64 bits are not supported");
    if (state == 1)
      return Value::integer(number, false);
    std::optional<double> real = parseFloat(value.text());
    return real ? fromDouble(*real, absent) : absent;
  }

  Value toFloat() {
    if (!bind("float", {"default"}, 0))
      return {};
    if (value.isUndefined())
      return interpreter.failUndefined(value);
    if (value.isNumber())
      return Value::real(value.real(), value.isTrusted());
    if (value.is(Type::BigInt))
      return Value::real(strtod(value.as<BigIntObject>().digits.c_str(), nullptr), false);
    std::optional<double> number = value.isString() ? parseFloat(value.text()) : std::nullopt;
    if (number)
      return Value::real(*number, false);
    return values[0].isMissing() ? Value::real(0) : values[0];
  }

  Value absolute() {
    if (!bind("abs", {}, 0))
      return {};
    if (value.is(Type::Float))
      return Value::real(std::fabs(value.real()), value.isTrusted());
    if (!value.isInteger())
      return interpreter.fail("bad operand type for abs(): '%s'", nameOf(value).c_str());
    if (value.integer() == INT64_MIN)
      return interpreter.fail("integers beyond 64 bits are not supported");
    return Value::integer(std::abs(value.integer()), value.isTrusted());
  }

  /// The multiple of 10^`power`, power >= 1, that is nearest to a finite number, ties to even, as the double nearest to
  /// it.
  static double roundToPower(double number, int64_t power) {
    // All digits, of which a double has at most 767: the exponent is that of the number itself, no rounding carries
    // into it.
    char digits[800];
    snprintf(digits, sizeof digits, "%.770e", number);
    int64_t kept = strtol(strchr(digits, 'e') + 1, nullptr, 10) + 1 - power;
    if (kept > 0) {
      snprintf(digits, sizeof digits, "%.*e", static_cast<int>(kept - 1), number);
    } else {
      // 0, or one unit for more than half of it: the first digit is that of tenths.
      const char *first = digits + (digits[0] == '-');
      bool up = kept == 0 && (*first > '5' || (*first == '5' && strspn(first + 1, ".0") != strcspn(first + 1, "e")));
      snprintf(digits, sizeof digits, "%c%de%lld", std::signbit(number) ? '-' : '+', up, static_cast<long long>(power));
    }
    return strtod(digits, nullptr);
  }

  /// round(x, digits) of Python: the decimal that is nearest, ties to even; exact,
  /// since printf rounds the exact binary value.
  Value round() {
    int64_t digits;
    if (!bind("round", {"precision", "method"}, 0) || !interpreter.integerArgument(values[0], 0, digits))
      return {};
    std::string method = values[1].isMissing() ? "common" : std::string(toText(interpreter, values[1]).bytes());
    if (method != "common" && method != "ceil" && method != "floor")
      return interpreter.fail("method must be common, ceil or floor");
    if (!value.isNumber())
      return value.isUndefined() ? interpreter.fail("type Undefined doesn't define __round__ method")
                                 : interpreter.fail("type %s doesn't define __round__ method", nameOf(value).c_str());
    bool trusted = value.isTrusted();
    if (method != "common") {
      // 10 ** precision is a float for a negative precision.
      double scale = std::pow(10.0, static_cast<double>(digits)), scaled = value.real() * scale;
      double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
      if (!std::isfinite(scaled))
        return interpreter.fail("cannot convert float infinity or NaN to integer");
      return Value::real((whole + 0.0) / scale, trusted); // floor and ceil of Python are integers: no -0
    }
    if (value.isInteger()) {
      int64_t number = value.integer(), unit = 1;
      if (digits >= 0)
        return Value::integer(number, trusted);
      if (digits < -18)
        return Value::integer(0, trusted);
      for (int64_t i = digits; i < 0; ++i)
        unit *= 10;
      int64_t down = number / unit, rest = number % unit;
      if (rest < 0) {
        rest += unit;
        --down;
      }
      down += rest > unit / 2 || (rest == unit / 2 && (down & 1));
      int64_t result;
      if (__builtin_mul_overflow(down, unit, &result))
        return interpreter.fail("integers beyond 64 bits are not supported");
      return Value::integer(result, trusted);
    }
    double number = value.real();
    if (!std::isfinite(number) || digits > 323)
      return Value::real(number, trusted);
    if (digits < -308)
      return Value::real(std::copysign(0.0, number), trusted);
    if (digits >= 0) {
      char buffer[800];
      snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), number);
      return Value::real(strtod(buffer, nullptr), trusted);
    }
    double rounded = roundToPower(number, -digits);
    if (std::isinf(rounded))
      return interpreter.fail("rounded value too large to represent");
    return Value::real(rounded, trusted);
  }

  /// An attribute and never an item.
  Value attr() {
    if (!bind("attr", {"name"}, 1))
      return {};
    if (!values[0].isString())
      return interpreter.fail("attr: expected the name of an attribute, got %s", nameOf(values[0]).c_str());
    std::string name(values[0].text().bytes());
    if (value.is(Type::Dict)) {
      Value method = findMethod(interpreter, value, name);
      if (!method.isMissing())
        return method;
      return makeUndefined("'dict object' has no attribute '" + name + "'");
    }
    return interpreter.attribute(value, name);
  }

  Interpreter &interpreter;
  const Value &value;
  Arguments &arguments;
  Value values[4];
};

} // namespace

std::optional<Value> filterScalar(Interpreter &interpreter, uint32_t which, const Value &value, Arguments &arguments) {
  return ScalarFilter(interpreter, value, arguments).run(which);
}

} // namespace ingot::rt::tpl
