// What a rendering may use up, and the first error that ended it. Every step of
// the interpreter goes on only while nothing has failed.
#ifndef INGOT_RUNTIME_TEMPLATE_CONTEXT_H
#define INGOT_RUNTIME_TEMPLATE_CONTEXT_H

#include "template/value.h"

#include <cstdarg>

namespace ingot::rt::tpl {

// Tests set lower ones.
#ifndef INGOT_TEMPLATE_STEPS
#define INGOT_TEMPLATE_STEPS 50'000'000
#define INGOT_TEMPLATE_TEXT (256ull << 20)
#endif

/// Limits that no real template comes near, and that keep every other one from
/// running forever or out of memory or stack.
constexpr uint64_t maxSteps = INGOT_TEMPLATE_STEPS;        ///< nodes evaluated and items iterated
constexpr uint64_t maxTextBytes = 8 * INGOT_TEMPLATE_TEXT; ///< all strings made, together
constexpr uint64_t maxOneText = INGOT_TEMPLATE_TEXT;       ///< one string
constexpr uint64_t maxItems = 10'000'000;                  ///< of one list
constexpr uint32_t maxDepth = 200;                         ///< of nested values, and of calls of macros
constexpr uint32_t maxNesting = 1500;                      ///< of evaluations inside of each other

class Context {
public:
  bool failed = false;
  std::string message;

  /// Keeps the first error; returns Missing.
  Value fail(const char *format, ...) __attribute__((format(printf, 2, 3)));
  Value failTyped(std::string text);

  /// Counts work; false (and a failure) beyond the limit.
  bool step(uint64_t count = 1) {
    steps += count;
    if (steps > maxSteps && !failed)
      fail("the template runs too long: more than %llu steps", static_cast<unsigned long long>(maxSteps));
    return !failed;
  }
  /// Checks a text before or after it is made.
  bool spend(uint64_t bytes);
  /// A string value, counted.
  Value text(TextBuilder &builder, bool markup = false);
  Value text(Text text);
  /// A list, tuple or other container, if it is not nested too deeply.
  Value contained(Value value);
  /// hash(value) may be taken; false (and a failure) where it may not.
  bool hashable(const Value &value);
  /// "'x' is undefined" as an error.
  Value failUndefined(const Value &undefined);

private:
  uint64_t steps = 0, textBytes = 0;
};

} // namespace ingot::rt::tpl
#endif // INGOT_RUNTIME_TEMPLATE_CONTEXT_H
