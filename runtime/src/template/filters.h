// The filters, grouped by what they work on; Interpreter::filter dispatches.
#ifndef INGOT_RUNTIME_TEMPLATE_FILTERS_H
#define INGOT_RUNTIME_TEMPLATE_FILTERS_H

#include "template/interpreter.h"

#include <optional>

namespace ingot::rt::tpl {

/// Texts and numbers; nothing if `which` is none of theirs.
std::optional<Value> filterScalar(Interpreter &interpreter, uint32_t which, const Value &value, Arguments &arguments);
/// Lists and dictionaries.
Value filterSequence(Interpreter &interpreter, uint32_t which, const Value &value, Arguments &arguments);

/// The filter or test of that name, aliases included; none if there is none.
uint32_t filterNamed(std::string_view name);
uint32_t testNamed(std::string_view name);

} // namespace ingot::rt::tpl
#endif // INGOT_RUNTIME_TEMPLATE_FILTERS_H
