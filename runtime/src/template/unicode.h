// What Python's str knows about characters: white space, classes, upper and
// lower case.
#ifndef INGOT_RUNTIME_TEMPLATE_UNICODE_H
#define INGOT_RUNTIME_TEMPLATE_UNICODE_H

#include "template/text.h"

namespace ingot::rt::tpl {

bool isSpace(uint32_t code);
bool isAlphabetic(uint32_t code);
bool isDecimal(uint32_t code);
bool isDigit(uint32_t code);
bool isNumeric(uint32_t code);
bool isPrintable(uint32_t code);
bool isLowercase(uint32_t code);
bool isUppercase(uint32_t code);
bool isTitlecase(uint32_t code);

/// str.upper, lower, title, capitalize, swapcase. Each character of the result
/// is trusted if the one it comes from is.
enum class CaseMapping { Upper, Lower, Title, Capitalize, Swap };
Text mapCase(const Text &text, CaseMapping mapping);

void appendUtf8(std::string &out, uint32_t code);

} // namespace ingot::rt::tpl
#endif // INGOT_RUNTIME_TEMPLATE_UNICODE_H
