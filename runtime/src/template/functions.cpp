// Calls: how arguments meet parameters, and the functions that every template
// has.
#include "template/methods.h"

#include "support/error.h"
#include "template/format.h"

#include <cinttypes>
#include <ctime>

namespace ingot::rt::tpl {

bool Interpreter::bind(const char *function, const Arguments &arguments, std::initializer_list<const char *> names,
                       size_t required, Value *values) {
  if (arguments.positional.size() > names.size()) {
    fail("%s() takes at most %zu argument%s (%zu given)", function, names.size(), names.size() == 1 ? "" : "s",
         arguments.positional.size());
    return false;
  }
  for (size_t i = 0; i < names.size(); ++i)
    values[i] = i < arguments.positional.size() ? arguments.positional[i] : Value();
  for (const auto &[name, value] : arguments.keywords) {
    size_t i = 0;
    while (i < names.size() && name != names.begin()[i])
      ++i;
    if (i == names.size()) {
      fail("%s() got an unexpected keyword argument '%s'", function, name.c_str());
      return false;
    }
    if (!values[i].isMissing()) {
      fail("%s() got multiple values for argument '%s'", function, name.c_str());
      return false;
    }
    values[i] = value;
  }
  for (size_t i = 0; i < required; ++i)
    if (values[i].isMissing()) {
      fail("%s() is missing the argument '%s'", function, names.begin()[i]);
      return false;
    }
  return true;
}

bool Interpreter::integerArgument(const Value &value, int64_t absent, int64_t &result) {
  result = absent;
  if (value.isMissing())
    return true;
  if (value.isUndefined()) {
    failUndefined(value);
    return false;
  }
  if (!value.isInteger()) {
    fail("'%s' object cannot be interpreted as an integer", std::string(typeName(value)).c_str());
    return false;
  }
  result = value.integer();
  return true;
}

Value Interpreter::call(const Value &callee, Arguments &arguments) {
  switch (callee.type()) {
  case Type::Undefined:
    return failUndefined(callee);
  case Type::Macro: {
    // The macro lives as long as the call, whatever becomes of the variable that the callee refers to.
    Value held = callee; // NOLINT(performance-unnecessary-copy-initialization)
    return callMacro(held.as<MacroObject>(), arguments);
  }
  case Type::Method: {
    Value held = callee; // NOLINT(performance-unnecessary-copy-initialization): as above
    return callMethod(held.as<MethodObject>(), arguments);
  }
  case Type::Function:
    return callGlobal(callee.as<FunctionObject>().which, arguments);
  case Type::Loop:
    return fail("The loop must have the 'recursive' marker to be called recursively.");
  default:
    return fail("'%s' object is not callable", std::string(typeName(callee)).c_str());
  }
}

Value Interpreter::callGlobal(uint32_t which, Arguments &arguments) {
  switch (which) {
  case INGOT_RT_TPL_GLOBAL_raise_exception: {
    Value value;
    if (!bind("raise_exception", arguments, {"message"}, 1, &value))
      return {};
    std::string said(toText(*this, value).bytes());
    if (!failed)
      raised = true;
    return failTyped(std::move(said));
  }
  case INGOT_RT_TPL_GLOBAL_namespace:
    return makeNamespace(arguments);
  case INGOT_RT_TPL_GLOBAL_dict: {
    auto dict = std::make_shared<DictObject>();
    callDict(arguments, "dict", *dict);
    return failed ? Value() : contained(Value::object(Type::Dict, std::move(dict)));
  }
  case INGOT_RT_TPL_GLOBAL_range:
    return makeRange(arguments);
  default:
    return formatTime(arguments);
  }
}

/// dict(mapping or pairs, **keywords)
Value Interpreter::callDict(Arguments &arguments, const char *function, DictObject &into) {
  if (arguments.positional.size() > 1)
    return fail("%s expected at most 1 argument, got %zu", function, arguments.positional.size());
  if (!arguments.positional.empty()) {
    const Value &from = arguments.positional[0];
    if (from.is(Type::Dict)) {
      if (!step(from.as<DictObject>().entries.size()))
        return {};
      for (const auto &[key, value] : from.as<DictObject>().entries)
        into.set(key, value);
    } else {
      Values pairs;
      if (!collect(from, pairs))
        return {};
      for (const Value &pair : pairs) {
        Values items;
        if (!collect(pair, items))
          return {};
        if (items.size() != 2)
          return fail("dictionary update sequence element has length %zu; 2 is required", items.size());
        if (!hashable(items[0]))
          return {};
        into.set(items[0], items[1]);
      }
    }
  }
  for (const auto &[name, value] : arguments.keywords)
    into.set(Value::string(name), value);
  return {};
}

Value Interpreter::makeNamespace(Arguments &arguments) {
  auto object = std::make_shared<NamespaceObject>();
  if (namespaces.size() >= 100000)
    return fail("more than 100000 namespaces");
  callDict(arguments, "namespace", object->attributes);
  if (failed)
    return {};
  for (const auto &[key, value] : object->attributes.entries)
    if (key.isString() && key.text().bytes().starts_with("_"))
      return fail("a namespace cannot hold '%s': names that start with an underscore are not allowed",
                  std::string(key.text().bytes()).c_str());
  namespaces.push_back(object);
  return Value::object(Type::Namespace, std::move(object));
}

Value Interpreter::makeRange(Arguments &arguments) {
  size_t count = arguments.positional.size();
  if (!arguments.keywords.empty() || count < 1 || count > 3)
    return fail("range expected 1 to 3 arguments and no keywords, got %zu", count);
  int64_t values[3];
  for (size_t i = 0; i < count; ++i)
    if (!integerArgument(arguments.positional[i], 0, values[i]))
      return {};
  auto range = std::make_shared<RangeObject>();
  range->start = count == 1 ? 0 : values[0];
  range->stop = count == 1 ? values[0] : values[1];
  range->step = count == 3 ? values[2] : 1;
  if (range->step == 0)
    return fail("range() arg 3 must not be zero");
  bool up = range->step > 0;
  __int128 distance =
      up ? static_cast<__int128>(range->stop) - range->start : static_cast<__int128>(range->start) - range->stop;
  __int128 stride = up ? static_cast<__int128>(range->step) : -static_cast<__int128>(range->step);
  __int128 length = distance > 0 ? (distance - 1) / stride + 1 : 0;
  if (length > 100000)
    return fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  range->length = static_cast<int64_t>(length);
  return Value::object(Type::Range, std::move(range));
}

/// datetime.now().strftime(format): local time without a zone, so that %z and
/// %Z are empty.
Value Interpreter::formatTime(Arguments &arguments) {
  Value value;
  if (!bind("strftime_now", arguments, {"format"}, 1, &value))
    return {};
  if (!value.isString())
    return fail("strftime() argument 1 must be str, not %s", std::string(typeName(value)).c_str());
  std::string format;
  std::string_view given = value.text().bytes();
  if (given.size() > 4096)
    return fail("a time format of more than 4096 bytes");
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != '%' || i + 1 == given.size()) {
      format += given[i];
      continue;
    }
    char which = given[++i];
    if (which == 'f')
      format += formatText("%06u", clock.microseconds);
    else if (which != 'z' && which != 'Z')
      format += std::string("%") + which;
  }
  if (format.empty())
    return Value::string("");
  auto seconds = static_cast<time_t>(clock.seconds);
  struct tm fields = {};
  localtime_r(&seconds, &fields);
  std::string result(format.size() * 64 + 256, '\0');
  result.resize(strftime(result.data(), result.size(), format.c_str(), &fields));
  return Value::string(result);
}

} // namespace ingot::rt::tpl
