// Errors and limits.
#include "template/context.h"

#include "support/error.h"

namespace ingot::rt::tpl {

Value Context::fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatTextV(format, arguments);
  va_end(arguments);
  return failTyped(std::move(text));
}

Value Context::failTyped(std::string text) {
  if (!failed) {
    failed = true;
    message = std::move(text);
  }
  return {};
}

bool Context::spend(uint64_t bytes) {
  textBytes += bytes;
  if (!failed && (bytes > maxOneText || textBytes > maxTextBytes))
    fail("the template makes too much text: more than %llu MiB",
         static_cast<unsigned long long>((bytes > maxOneText ? maxOneText : maxTextBytes) >> 20));
  return !failed;
}

Value Context::text(TextBuilder &builder, bool markup) { return text(builder.take(markup)); }

Value Context::text(Text text) {
  if (!spend(text.size()))
    return {};
  return Value::string(std::move(text));
}

Value Context::contained(Value value) {
  if (value.depth() > maxDepth)
    return fail("values are nested deeper than %u levels", maxDepth);
  return value;
}

bool Context::hashable(const Value &value) {
  if (const Value *found = findUnhashable(value))
    fail("unhashable type: '%s'", std::string(typeName(*found)).c_str());
  return !failed;
}

Value Context::failUndefined(const Value &undefined) {
  return failTyped(undefined.isUndefined() ? undefined.as<UndefinedObject>().message : "a variable is undefined");
}

} // namespace ingot::rt::tpl
