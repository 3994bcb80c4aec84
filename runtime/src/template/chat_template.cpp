// From JSON to values, through the interpreter, to a marked prompt.
#include "template/chat_template.h"

#include "support/output.h"
#include "template/interpreter.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <ctime>

namespace ingot::rt {

using namespace tpl;

Result<ChatTemplates> ChatTemplates::open(std::string_view section) {
  Result<Program> program = Program::open(section);
  if (!program)
    return program.takeError();
  return ChatTemplates(*program);
}

std::vector<std::string> ChatTemplates::names() const {
  std::vector<std::string> result;
  for (const ingot_rt_tpl_template &one : program.templates())
    result.emplace_back(program.string(one.name));
  return result;
}

std::vector<std::string> ChatTemplates::variables(size_t index) const {
  std::vector<std::string> result;
  for (uint32_t name : program.list(program.templates()[index].variables))
    result.emplace_back(program.string(name));
  return result;
}

std::string ChatTemplates::where(size_t index) const {
  return std::string(program.string(program.templates()[index].where));
}

namespace {

bool isNull(const JsonValue &value) { return value.kind == JsonValue::Kind::Null; }

/// A name such as user or tool_result: nothing that could be markup.
bool isPlainName(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 0x80 && (isalnum(c) || c == '_' || c == '-');
  });
}

Value toValue(const JsonValue &json);

Value textValue(const std::string &text, bool trusted) { return Value::string(Text(validUtf8(text), trusted)); }

Value numberValue(const JsonValue &json) {
  if (json.text.find_first_of(".eE") != std::string::npos)
    return Value::real(json.number, false);
  int64_t number = 0;
  auto [end, error] = std::from_chars(json.text.data(), json.text.data() + json.text.size(), number);
  if (error == std::errc())
    return Value::integer(number, false);
  auto big = std::make_shared<BigIntObject>();
  big->digits = json.text;
  return Value::object(Type::BigInt, std::move(big));
}

Value objectValue(const JsonValue &json) {
  std::vector<std::pair<Value, Value>> entries;
  for (const auto &[key, value] : json.members)
    entries.emplace_back(textValue(key, false), toValue(value));
  return makeDict(std::move(entries));
}

/// Nothing of it is trusted. The reader of JSON limits the depth.
Value toValue(const JsonValue &json) {
  switch (json.kind) {
  case JsonValue::Kind::Null:
    return Value::none();
  case JsonValue::Kind::Boolean:
    return Value::boolean(json.boolean);
  case JsonValue::Kind::Number:
    return numberValue(json);
  case JsonValue::Kind::String:
    return textValue(json.text, false);
  case JsonValue::Kind::Array: {
    Values items;
    for (const JsonValue &item : json.items)
      items.push_back(toValue(item));
    return makeList(std::move(items));
  }
  case JsonValue::Kind::Object:
    return objectValue(json);
  }
  return Value::none();
}

/// A message without its null members, and with its reasoning under the names
/// that templates know: `thinking` first and `reasoning_content`, whichever of
/// reasoning_content, thinking and reasoning the message has. A role that is a
/// plain name is trusted, since templates make special tokens of it:
/// '<|' + role + '|>'.
Value messageValue(const JsonValue &message) {
  const JsonValue *reasoning = nullptr;
  for (const char *name : {"reasoning_content", "thinking", "reasoning"})
    if (const JsonValue *member = reasoning ? nullptr : message.find(name); member && !isNull(*member))
      reasoning = member;
  std::vector<std::pair<Value, Value>> entries;
  if (reasoning)
    entries.emplace_back(textValue("thinking", false), toValue(*reasoning));
  for (const auto &[key, value] : message.members) {
    if (isNull(value))
      continue;
    bool role = key == "role" && value.kind == JsonValue::Kind::String && isPlainName(value.text);
    entries.emplace_back(textValue(key, false), role ? textValue(value.text, true) : toValue(value));
  }
  if (reasoning)
    entries.emplace_back(textValue("reasoning_content", false), toValue(*reasoning));
  return makeDict(std::move(entries));
}

Error checkObjects(const JsonValue &request, const char *key) {
  const JsonValue *list = request.find(key);
  if (!list || isNull(*list))
    return {};
  if (list->kind != JsonValue::Kind::Array)
    return makeError("%s: expected a list of objects", key);
  for (const JsonValue &item : list->items)
    if (item.kind != JsonValue::Kind::Object)
      return makeError("%s: expected a list of objects", key);
  return {};
}

Result<Value> makeInput(const JsonValue &request) {
  if (request.kind != JsonValue::Kind::Object)
    return makeError("expected an object with messages");
  const JsonValue *messages = request.find("messages");
  if (!messages || isNull(*messages))
    return makeError("messages: expected a list of objects with role and content, got none");
  for (const char *key : {"messages", "tools", "documents"})
    if (Error error = checkObjects(request, key))
      return error;
  if (messages->items.empty())
    return makeError("messages: expected at least one message");
  Values conversation;
  for (const JsonValue &message : messages->items)
    conversation.push_back(messageValue(message));
  std::vector<std::pair<Value, Value>> entries = {
      {Value::string("messages"), makeList(std::move(conversation))},
      {Value::string("tools"), Value::none()},
      {Value::string("documents"), Value::none()},
      {Value::string("add_generation_prompt"), Value::boolean(false)},
  };
  static constexpr std::string_view refused[] = {"continue_final_message",
                                                 "max_length",
                                                 "padding",
                                                 "return_assistant_tokens_mask",
                                                 "return_dict",
                                                 "return_tensors",
                                                 "sanitize_control_tokens",
                                                 "tokenize",
                                                 "tokenizer_kwargs",
                                                 "truncation"};
  for (const auto &[key, value] : request.members) {
    if (std::find(std::begin(refused), std::end(refused), key) != std::end(refused))
      return makeError("%s: this argument of apply_chat_template is not supported", key.c_str());
    if (key != "messages" && key != "chat_template")
      entries.emplace_back(textValue(key, false), toValue(value));
  }
  return makeDict(std::move(entries));
}

} // namespace

Result<size_t> ChatTemplates::choose(const JsonValue &request) const {
  std::span<const ingot_rt_tpl_template> all = program.templates();
  auto find = [&](std::string_view name) {
    size_t i = 0;
    while (i < all.size() && program.string(all[i].name) != name)
      ++i;
    return i;
  };
  std::string known;
  for (const std::string &name : names())
    known += (known.empty() ? "" : ", ") + name;
  if (const JsonValue *name = request.find("chat_template"); name && !isNull(*name)) {
    size_t i = name->kind == JsonValue::Kind::String ? find(name->text) : all.size();
    if (i == all.size())
      return makeError("chat_template: expected the name of one of this model's templates (%s)", known.c_str());
    return i;
  }
  const JsonValue *tools = request.find("tools");
  if (size_t i = find("tool_use"); tools && !isNull(*tools) && i < all.size())
    return i;
  if (size_t i = find("default"); i < all.size())
    return i;
  return makeError(
      "this model has several chat templates and none of them is the default: give chat_template, one of %s",
      known.c_str());
}

Result<RenderedPrompt> ChatTemplates::render(const JsonValue &request) const {
  Result<Value> input = makeInput(request);
  if (!input)
    return input.takeError();
  Result<size_t> which = choose(request);
  if (!which)
    return which.takeError();
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  Interpreter interpreter(program, *input, Clock{now.tv_sec, static_cast<uint32_t>(now.tv_nsec / 1000)});
  Text text = interpreter.render(program.templates()[*which]);
  if (interpreter.raised)
    return Error(interpreter.message);
  if (interpreter.failed)
    return makeError("%s: line %u, column %u: %s", where(*which).c_str(), interpreter.failedLine,
                     interpreter.failedColumn, interpreter.message.c_str());
  RenderedPrompt prompt;
  prompt.text = text.bytes();
  size_t at = 0;
  auto leaveOut = [&](size_t end) {
    if (at < end)
      prompt.untrusted.push_back({at, end});
  };
  for (const ByteRange &range : text.trusted()) {
    leaveOut(range.begin);
    at = range.end;
  }
  leaveOut(text.size());
  return prompt;
}

} // namespace ingot::rt
