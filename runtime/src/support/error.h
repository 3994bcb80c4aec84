// Errors as values: what every part of the runtime returns instead of throwing or exiting.
#ifndef INGOT_RUNTIME_SUPPORT_ERROR_H
#define INGOT_RUNTIME_SUPPORT_ERROR_H

#include <cstdarg>
#include <optional>
#include <string>
#include <utility>

namespace ingot::rt {

/// printf into a string.
std::string formatText(const char *format, ...) __attribute__((format(printf, 1, 2)));
std::string formatTextV(const char *format, va_list arguments);

/// Success, or a message in lower case that says what was expected and what is there.
class [[nodiscard]] Error {
public:
  Error() = default;
  explicit Error(std::string message) : text(std::move(message)) {}

  /// True when something went wrong.
  explicit operator bool() const { return text.has_value(); }
  const std::string &message() const { return *text; }

  /// Exit code a program should end with: 1 for failures, 2 for wrong usage.
  int exitCode() const { return code; }
  Error &&asUsage() && {
    code = 2;
    return std::move(*this);
  }

private:
  std::optional<std::string> text;
  int code = 1;
};

/// printf into an error.
Error makeError(const char *format, ...) __attribute__((format(printf, 1, 2)));
/// printf into an error about how the command line is written (exit code 2); what it asks for and cannot be is exit
/// code 1.
Error makeUsageError(const char *format, ...) __attribute__((format(printf, 1, 2)));

/// A value or an error.
template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : content(std::move(value)) {}
  Result(Error error) : failure(std::move(error)) {}

  /// True when there is a value.
  explicit operator bool() const { return content.has_value(); }
  T &operator*() { return *content; }
  const T &operator*() const { return *content; }
  T *operator->() { return &*content; }
  Error takeError() { return std::move(failure); }

private:
  std::optional<T> content;
  Error failure;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_SUPPORT_ERROR_H
