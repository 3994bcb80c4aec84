// A small strict JSON reader, for the lines of `--jsonl` and for nothing else: the model's JSON is compiled.
#ifndef INGOT_RUNTIME_SUPPORT_JSON_H
#define INGOT_RUNTIME_SUPPORT_JSON_H

#include "support/error.h"

#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

struct JsonMember;

/// A parsed JSON value. Numbers keep their text too, so that 64-bit integers stay exact.
struct JsonValue {
  enum class Kind { Null, Boolean, Number, String, Array, Object };
  Kind kind = Kind::Null;
  bool boolean = false;
  double number = 0;
  std::string text; ///< of a string: its value in UTF-8; of a number: its digits
  std::vector<JsonValue> items;
  std::vector<JsonMember> members; ///< in the order of the text; keys are unique

  const JsonValue *find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

/// Parses one JSON text (RFC 8259). Errors name the byte where reading stopped: bad escapes, lone surrogates, invalid
/// UTF-8, duplicate keys, nesting deeper than 64, anything after the value.
Result<JsonValue> parseJson(std::string_view text);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_SUPPORT_JSON_H
