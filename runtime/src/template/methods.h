// The methods that templates may call on strings, lists, dictionaries and
// loops.
#ifndef INGOT_RUNTIME_TEMPLATE_METHODS_H
#define INGOT_RUNTIME_TEMPLATE_METHODS_H

#include "template/interpreter.h"

namespace ingot::rt::tpl {

// Type and name of each.
// clang-format off
#define INGOT_TPL_METHODS(X)                                                                                           \
  X(String, capitalize) X(String, center) X(String, count) X(String, endswith) X(String, expandtabs)                   \
  X(String, find) X(String, format) X(String, index) X(String, isalnum) X(String, isalpha) X(String, isascii)          \
  X(String, isdecimal) X(String, isdigit) X(String, isidentifier) X(String, islower) X(String, isnumeric)              \
  X(String, isprintable) X(String, isspace) X(String, istitle) X(String, isupper) X(String, join)                      \
  X(String, ljust) X(String, lower) X(String, lstrip) X(String, partition) X(String, removeprefix)                     \
  X(String, removesuffix) X(String, replace) X(String, rfind) X(String, rindex) X(String, rjust)                       \
  X(String, rpartition) X(String, rsplit) X(String, rstrip) X(String, split) X(String, splitlines)                     \
  X(String, startswith) X(String, strip) X(String, swapcase) X(String, title) X(String, upper)                         \
  X(String, zfill) X(Dict, copy) X(Dict, get) X(Dict, items) X(Dict, keys) X(Dict, values) X(List, copy)               \
  X(List, count) X(List, index) X(Tuple, count) X(Tuple, index) X(Float, is_integer) X(Loop, changed)                  \
  X(Loop, cycle)
// clang-format on

enum class Method {
#define X(type, name) type##_##name,
  INGOT_TPL_METHODS(X)
#undef X
};

/// The method of that name, as a value; Missing where the type has none, and a
/// failure where Python has one that is not supported.
Value findMethod(Interpreter &interpreter, const Value &self, std::string_view name);

Value callStringMethod(Interpreter &interpreter, Method method, const Value &self, Arguments &arguments);

// Also filters.
Text stripText(Interpreter &interpreter, const Text &text, const Value &characters, bool left, bool right);
Text replaceText(Interpreter &interpreter, const Text &text, const Text &from, const Text &to, int64_t count);
Text centerText(Interpreter &interpreter, const Text &text, int64_t width, const Text &fill, int where);
std::vector<Text> splitLines(const Text &text, bool keepEnds);

} // namespace ingot::rt::tpl
#endif // INGOT_RUNTIME_TEMPLATE_METHODS_H
