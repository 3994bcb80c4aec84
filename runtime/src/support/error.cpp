// Formatting of error messages.
#include "support/error.h"

#include <cstdio>

namespace ingot::rt {

std::string formatTextV(const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(nullptr, 0, format, arguments);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0)
    vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::string formatText(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatTextV(format, arguments);
  va_end(arguments);
  return text;
}

Error makeError(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Error error(formatTextV(format, arguments));
  va_end(arguments);
  return error;
}

Error makeUsageError(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Error error(formatTextV(format, arguments));
  va_end(arguments);
  return std::move(error).asUsage();
}

} // namespace ingot::rt
