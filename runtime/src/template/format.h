// Values as text: str, repr, JSON, and Python's two languages of formats.
#ifndef INGOT_RUNTIME_TEMPLATE_FORMAT_H
#define INGOT_RUNTIME_TEMPLATE_FORMAT_H

#include "template/context.h"

#include <optional>

namespace ingot::rt::tpl {

/// The number that decimal digits are; 0 where they are none or more than an
/// int64_t holds.
int64_t decimal(std::string_view digits);

/// repr(float): the shortest digits that give the number back.
std::string formatFloat(double value);

void appendStr(Context &context, const Value &value, TextBuilder &out);
void appendRepr(Context &context, const Value &value, TextBuilder &out, uint32_t depth = 0);
/// str(value). A string is itself.
Text toText(Context &context, const Value &value);

/// json.dumps as transformers sets it up.
struct JsonFormat {
  bool ascii = false, sortKeys = false;
  std::optional<std::string> indent; ///< what one level is indented by
  std::string itemSeparator = ", ", keySeparator = ": ";
};
void appendJson(Context &context, const Value &value, const JsonFormat &format, TextBuilder &out, uint32_t depth = 0);

/// `format % arguments`.
Value formatPercent(Context &context, const Text &format, const Value &arguments);

/// format(value, spec), for str, int, float and bool.
void appendFormatted(Context &context, const Value &value, std::string_view spec, TextBuilder &out);

/// HTML's special characters replaced; a text that is marked safe stays.
Text escapeHtml(const Text &text);

} // namespace ingot::rt::tpl
#endif // INGOT_RUNTIME_TEMPLATE_FORMAT_H
