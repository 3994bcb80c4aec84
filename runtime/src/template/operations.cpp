// Arithmetic with Python's rules: floor division and remainder take the sign of
// the divisor, / always gives a float. Integers beyond 64 bits are an error.
#include "template/operations.h"

#include "template/format.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ingot::rt::tpl {

static std::string nameOf(const Value &value) { return std::string(typeName(value)); }

static bool failOrder(Context &context, uint32_t comparison, const Value &a, const Value &b) {
  if (a.isUndefined() || b.isUndefined()) {
    context.failUndefined(a.isUndefined() ? a : b);
    return false;
  }
  const char *sign = comparison == INGOT_RT_TPL_LT   ? "<"
                     : comparison == INGOT_RT_TPL_LE ? "<="
                     : comparison == INGOT_RT_TPL_GT ? ">"
                                                     : ">=";
  context.fail("'%s' not supported between instances of '%s' and '%s'", sign, nameOf(a).c_str(), nameOf(b).c_str());
  return false;
}

template <typename T>
static bool ordered(uint32_t comparison, const T &a, const T &b) {
  switch (comparison) {
  case INGOT_RT_TPL_LT:
    return a < b;
  case INGOT_RT_TPL_LE:
    return a <= b;
  case INGOT_RT_TPL_GT:
    return a > b;
  default:
    return a >= b;
  }
}

static bool order(Context &context, uint32_t comparison, const Value &a, const Value &b, uint32_t depth = 0) {
  if (a.isNumber() && b.isNumber()) {
    if (a.isInteger() && b.isInteger())
      return ordered(comparison, a.integer(), b.integer());
    auto wide = [](const Value &value) {
      return value.is(Type::Float) ? static_cast<long double>(value.real()) : static_cast<long double>(value.integer());
    };
    return ordered(comparison, wide(a), wide(b));
  }
  if (a.isString() && b.isString())
    return ordered(comparison, a.text().bytes(), b.text().bytes());
  bool sequences = a.type() == b.type() && (a.is(Type::List) || a.is(Type::Tuple));
  if (!sequences)
    return failOrder(context, comparison, a, b);
  const Values &left = a.as<ListObject>().items, &right = b.as<ListObject>().items;
  for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
    if (!context.step())
      return false;
    if (!areEqual(left[i], right[i]))
      return order(context, comparison, left[i], right[i], depth + 1);
  }
  return ordered(comparison, left.size(), right.size());
}

bool isLess(Context &context, const Value &a, const Value &b, const char *) {
  return order(context, INGOT_RT_TPL_LT, a, b);
}

bool compare(Context &context, uint32_t comparison, const Value &a, const Value &b) {
  if (comparison == INGOT_RT_TPL_EQ)
    return areEqual(a, b);
  if (comparison == INGOT_RT_TPL_NE)
    return !areEqual(a, b);
  return order(context, comparison, a, b);
}

static Value failOperands(Context &context, const char *sign, const Value &a, const Value &b) {
  if (a.isUndefined() || b.isUndefined())
    return context.failUndefined(a.isUndefined() ? a : b);
  return context.fail("unsupported operand type(s) for %s: '%s' and '%s'", sign, nameOf(a).c_str(), nameOf(b).c_str());
}

static Value failOverflow(Context &context) { return context.fail("integers beyond 64 bits are not supported"); }

static Value addTexts(Context &context, const Text &a, const Text &b) {
  if (!context.spend(a.size() + b.size()))
    return {};
  bool markup = a.isMarkup() || b.isMarkup();
  TextBuilder builder;
  builder.append(markup ? escapeHtml(a) : a);
  builder.append(markup ? escapeHtml(b) : b);
  return Value::string(builder.take(markup));
}

static Value repeat(Context &context, const Value &sequence, int64_t count) {
  auto times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  if (sequence.isString()) {
    const Text &text = sequence.text();
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(times, static_cast<uint64_t>(text.size()), &bytes))
      bytes = UINT64_MAX / 2;
    if (!context.spend(bytes))
      return {};
    TextBuilder builder;
    for (uint64_t i = 0; i < times && text.size() != 0; ++i)
      builder.append(text);
    return Value::string(builder.take(text.isMarkup()));
  }
  const Values &items = sequence.as<ListObject>().items;
  if (!items.empty() && times > maxItems / items.size())
    return context.fail("a list of more than %llu items", static_cast<unsigned long long>(maxItems));
  if (!context.step(items.size() * times))
    return {};
  Values result;
  for (uint64_t i = 0; i < times && !items.empty(); ++i)
    result.insert(result.end(), items.begin(), items.end());
  return context.contained(makeList(std::move(result), sequence.type()));
}

static Value power(Context &context, const Value &a, const Value &b, bool trusted) {
  if (a.isInteger() && b.isInteger() && b.integer() >= 0) {
    int64_t result = 1, base = a.integer();
    for (int64_t exponent = b.integer(); exponent > 0; exponent >>= 1) {
      if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
        return failOverflow(context);
      if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
        return failOverflow(context);
    }
    return Value::integer(result, trusted);
  }
  if (a.real() == 0 && b.real() < 0)
    return context.fail("0.0 cannot be raised to a negative power");
  if (a.real() < 0 && b.real() != std::floor(b.real()))
    return context.fail("complex numbers are not supported");
  double result = std::pow(a.real(), b.real());
  if (std::isinf(result) && !std::isinf(a.real()) && !std::isinf(b.real()))
    return context.fail("(34, 'Numerical result out of range')");
  return Value::real(result, trusted);
}

/// The quotient of two integers, rounded once (ties to even), as Python's int.__truediv__.
static double divide(int64_t a, int64_t b) {
  auto magnitude = [](int64_t value) {
    return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  };
  uint64_t x = magnitude(a), y = magnitude(b);
  // At least 55 bits of quotient, and one that says whether something is left: more than a double's 53 and a half.
  int shift = x == 0 ? 0 : std::max(55 + std::countl_zero(x) - std::countl_zero(y), 0);
  unsigned __int128 numerator = static_cast<unsigned __int128>(x) << shift;
  auto quotient = static_cast<uint64_t>(numerator / y) | static_cast<uint64_t>(numerator % y != 0);
  double result = std::ldexp(static_cast<double>(quotient), -shift);
  return (a < 0) != (b < 0) ? -result : result;
}

static Value arithmetic(Context &context, uint32_t operation, const Value &a, const Value &b) {
  bool trusted = a.isTrusted() && b.isTrusted();
  bool integers = a.isInteger() && b.isInteger();
  int64_t result = 0;
  if (operation == INGOT_RT_TPL_POW)
    return power(context, a, b, trusted);
  if (operation == INGOT_RT_TPL_ADD || operation == INGOT_RT_TPL_SUB || operation == INGOT_RT_TPL_MUL) {
    if (!integers) {
      double x = a.real(), y = b.real();
      return Value::real(operation == INGOT_RT_TPL_ADD   ? x + y
                         : operation == INGOT_RT_TPL_SUB ? x - y
                                                         : x * y,
                         trusted);
    }
    int64_t x = a.integer(), y = b.integer();
    bool overflow = operation == INGOT_RT_TPL_ADD   ? __builtin_add_overflow(x, y, &result)
                    : operation == INGOT_RT_TPL_SUB ? __builtin_sub_overflow(x, y, &result)
                                                    : __builtin_mul_overflow(x, y, &result);
    return overflow ? failOverflow(context) : Value::integer(result, trusted);
  }
  if (b.real() == 0)
    return context.fail(operation == INGOT_RT_TPL_DIV ? "division by zero" : "integer division or modulo by zero");
  if (operation == INGOT_RT_TPL_DIV)
    return Value::real(integers ? divide(a.integer(), b.integer()) : a.real() / b.real(), trusted);
  if (integers) {
    int64_t x = a.integer(), y = b.integer();
    if (y == -1)
      return operation == INGOT_RT_TPL_MOD ? Value::integer(0, trusted) : negate(context, a);
    int64_t quotient = x / y, remainder = x % y;
    if (remainder != 0 && (remainder < 0) != (y < 0)) {
      remainder += y;
      --quotient;
    }
    return Value::integer(operation == INGOT_RT_TPL_MOD ? remainder : quotient, trusted);
  }
  // As float_divmod: the quotient is computed from the exact remainder.
  double x = a.real(), y = b.real(), remainder = std::fmod(x, y);
  double quotient = (x - remainder) / y;
  if (remainder != 0) {
    if ((y < 0) != (remainder < 0)) {
      remainder += y;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, y);
  }
  if (quotient != 0) {
    double rounded = std::floor(quotient);
    quotient = quotient - rounded > 0.5 ? rounded + 1 : rounded;
  } else {
    quotient = std::copysign(0.0, x / y);
  }
  return Value::real(operation == INGOT_RT_TPL_MOD ? remainder : quotient, trusted);
}

Value binary(Context &context, uint32_t operation, const Value &a, const Value &b) {
  static constexpr const char *signs[] = {"+", "-", "*", "/", "//", "%", "** or pow()", "** or pow()"};
  const char *sign = signs[operation];
  if (operation == INGOT_RT_TPL_POW_LITERAL) {
    bool negative = (a.is(Type::Int) && a.integer() < 0) || (a.is(Type::Float) && std::signbit(a.real()));
    Value base = negative ? negate(context, a) : a;
    Value result = context.failed ? Value() : binary(context, INGOT_RT_TPL_POW, base, b);
    return negative && !context.failed ? negate(context, result) : result;
  }
  if (operation == INGOT_RT_TPL_MOD && a.isString())
    return formatPercent(context, a.text(), b);
  if (a.isNumber() && b.isNumber())
    return arithmetic(context, operation, a, b);
  if (operation == INGOT_RT_TPL_ADD) {
    if (a.isString() && b.isString())
      return addTexts(context, a.text(), b.text());
    if (a.type() == b.type() && (a.is(Type::List) || a.is(Type::Tuple))) {
      Values items = a.as<ListObject>().items;
      const Values &more = b.as<ListObject>().items;
      if (!context.step(items.size() + more.size()))
        return {};
      items.insert(items.end(), more.begin(), more.end());
      return context.contained(makeList(std::move(items), a.type()));
    }
    if (a.isString() && !b.isUndefined())
      return context.fail("can only concatenate str (not \"%s\") to str", nameOf(b).c_str());
  }
  auto repeats = [](const Value &value) { return value.isString() || value.is(Type::List) || value.is(Type::Tuple); };
  if (operation == INGOT_RT_TPL_MUL && repeats(a) && b.isInteger())
    return repeat(context, a, b.integer());
  if (operation == INGOT_RT_TPL_MUL && repeats(b) && a.isInteger())
    return repeat(context, b, a.integer());
  return failOperands(context, sign, a, b);
}

Value negate(Context &context, const Value &value) {
  if (value.is(Type::Float))
    return Value::real(-value.real(), value.isTrusted());
  if (value.isInteger()) {
    int64_t result;
    if (__builtin_sub_overflow(int64_t(0), value.integer(), &result))
      return failOverflow(context);
    return Value::integer(result, value.isTrusted());
  }
  if (value.isUndefined())
    return context.failUndefined(value);
  return context.fail("bad operand type for unary -: '%s'", nameOf(value).c_str());
}

} // namespace ingot::rt::tpl
