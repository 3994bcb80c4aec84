// The tests of `is`.
#include "template/filters.h"

#include "template/format.h"
#include "template/operations.h"
#include "template/unicode.h"

namespace ingot::rt::tpl {

/// str.islower or isupper.
static bool isCased(std::string_view bytes, bool lower) {
  bool cased = false;
  for (size_t at = 0; at < bytes.size(); at += characterLength(bytes[at])) {
    uint32_t code = codePointAt(bytes, at);
    if (isTitlecase(code) || (lower ? isUppercase(code) : isLowercase(code)))
      return false;
    cased |= lower ? isLowercase(code) : isUppercase(code);
  }
  return cased;
}

/// Those that Ingot refuses included: a template may ask before it uses one.
static bool isFilterOfJinja(std::string_view name) {
#define X(refused)                                                                                                     \
  if (name == (refused))                                                                                               \
    return true;
  INGOT_RT_TPL_REFUSED_FILTERS(X)
#undef X
  return filterNamed(name) != none;
}

static bool isSameObject(const Value &a, const Value &b) {
  if (a.type() != b.type())
    return false;
  switch (a.type()) {
  case Type::None:
  case Type::Bool:
  case Type::Int:
  case Type::String: // equal short ones mostly are the same in Python
  case Type::Function:
    return areEqual(a, b);
  case Type::Float:
    return false;
  default:
    return a.identity() == b.identity();
  }
}

bool Interpreter::test(uint32_t which, const Value &value, Arguments &arguments) {
  Value other;
  switch (which) {
  case INGOT_RT_TPL_TEST_divisibleby:
  case INGOT_RT_TPL_TEST_eq:
  case INGOT_RT_TPL_TEST_ge:
  case INGOT_RT_TPL_TEST_gt:
  case INGOT_RT_TPL_TEST_in:
  case INGOT_RT_TPL_TEST_le:
  case INGOT_RT_TPL_TEST_lt:
  case INGOT_RT_TPL_TEST_ne:
  case INGOT_RT_TPL_TEST_sameas:
    if (!bind("this test", arguments, {"other"}, 1, &other))
      return false;
    break;
  default:
    if (!bind("this test", arguments, {}, 0, &other))
      return false;
  }
  auto isRemainder = [&](const Value &divisor, int64_t wanted) {
    Value remainder = binary(*this, INGOT_RT_TPL_MOD, value, divisor);
    return !failed && areEqual(remainder, Value::integer(wanted));
  };
  switch (which) {
  case INGOT_RT_TPL_TEST_boolean:
    return value.is(Type::Bool);
  case INGOT_RT_TPL_TEST_callable:
    return value.is(Type::Macro) || value.is(Type::Function) || value.is(Type::Method) || value.is(Type::Loop) ||
           value.isUndefined();
  case INGOT_RT_TPL_TEST_defined:
    return !value.isUndefined();
  case INGOT_RT_TPL_TEST_undefined:
    return value.isUndefined();
  case INGOT_RT_TPL_TEST_divisibleby:
    return isRemainder(other, 0);
  case INGOT_RT_TPL_TEST_even:
    return isRemainder(Value::integer(2), 0);
  case INGOT_RT_TPL_TEST_odd:
    return isRemainder(Value::integer(2), 1);
  case INGOT_RT_TPL_TEST_eq:
    return compare(*this, INGOT_RT_TPL_EQ, value, other);
  case INGOT_RT_TPL_TEST_ne:
    return compare(*this, INGOT_RT_TPL_NE, value, other);
  case INGOT_RT_TPL_TEST_lt:
    return compare(*this, INGOT_RT_TPL_LT, value, other);
  case INGOT_RT_TPL_TEST_le:
    return compare(*this, INGOT_RT_TPL_LE, value, other);
  case INGOT_RT_TPL_TEST_gt:
    return compare(*this, INGOT_RT_TPL_GT, value, other);
  case INGOT_RT_TPL_TEST_ge:
    return compare(*this, INGOT_RT_TPL_GE, value, other);
  case INGOT_RT_TPL_TEST_in:
    return contains(other, value);
  case INGOT_RT_TPL_TEST_sameas:
    return isSameObject(value, other);
  case INGOT_RT_TPL_TEST_escaped:
    return value.isString() && value.text().isMarkup();
  case INGOT_RT_TPL_TEST_false:
    return value.is(Type::Bool) && !value.boolean();
  case INGOT_RT_TPL_TEST_true:
    return value.is(Type::Bool) && value.boolean();
  case INGOT_RT_TPL_TEST_float:
    return value.is(Type::Float);
  case INGOT_RT_TPL_TEST_integer:
    return value.is(Type::Int) || value.is(Type::BigInt);
  case INGOT_RT_TPL_TEST_number:
    return value.isNumber() || value.is(Type::BigInt);
  case INGOT_RT_TPL_TEST_iterable:
    return lengthOf(value) >= 0 || value.is(Type::Generator) || value.is(Type::Loop);
  case INGOT_RT_TPL_TEST_sequence: // it has a length and can be subscripted
    return lengthOf(value) >= 0 && !value.is(Type::View);
  case INGOT_RT_TPL_TEST_lower:
  case INGOT_RT_TPL_TEST_upper:
    return isCased(toText(*this, value).bytes(), which == INGOT_RT_TPL_TEST_lower);
  case INGOT_RT_TPL_TEST_mapping:
    return value.is(Type::Dict);
  case INGOT_RT_TPL_TEST_none:
    return value.isNone();
  case INGOT_RT_TPL_TEST_string:
    return value.isString();
  default: // filter, test
    if (!hashable(value))
      return false;
    if (!value.isString())
      return false;
    return which == INGOT_RT_TPL_TEST_test ? testNamed(value.text().bytes()) != none
                                           : isFilterOfJinja(value.text().bytes());
  }
}

} // namespace ingot::rt::tpl
