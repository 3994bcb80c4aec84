// Prompts through the chat template, and the verb chat-template, which shows
// them.
#include "cli/prompt.h"
#include "cli/verbs.h"

#include <algorithm>

namespace ingot::rt {

void setMember(JsonValue &object, std::string_view key, JsonValue value) {
  object.kind = JsonValue::Kind::Object;
  for (JsonMember &member : object.members)
    if (member.key == key) {
      member.value = std::move(value);
      return;
    }
  object.members.push_back({std::string(key), std::move(value)});
}

static JsonValue makeText(std::string_view text) {
  JsonValue value;
  value.kind = JsonValue::Kind::String;
  value.text = validUtf8(text);
  return value;
}

JsonValue makeMessage(std::string_view role, std::string_view content) {
  JsonValue message;
  setMember(message, "role", makeText(role));
  setMember(message, "content", makeText(content));
  return message;
}

Error addTemplateArguments(const Arguments &arguments, JsonValue &conversation) {
  if (conversation.kind != JsonValue::Kind::Object)
    return makeError("expected an object with messages");
  for (const std::string &given : arguments.texts("template-arg")) {
    size_t equals = given.find('=');
    if (equals == 0 || equals == std::string::npos)
      return makeUsageError("--template-arg: expected NAME=VALUE, got '%s'", given.c_str());
    std::string value = given.substr(equals + 1);
    Result<JsonValue> json = parseJson(value);
    setMember(conversation, given.substr(0, equals), json ? std::move(*json) : makeText(value));
  }
  if (!arguments.has("system"))
    return {};
  for (JsonMember &member : conversation.members)
    if (member.key == "messages" && member.value.kind == JsonValue::Kind::Array) {
      member.value.items.insert(member.value.items.begin(), makeMessage("system", arguments.text("system")));
      return {};
    }
  return makeError("messages: expected a list of objects with role and content");
}

Result<std::vector<int32_t>> encodeConversation(const Program &program, const Arguments &arguments,
                                                JsonValue conversation) {
  Result<Tokenizer> tokenizer = program.needTokenizer();
  if (!tokenizer)
    return tokenizer.takeError();
  Result<ChatTemplates> templates = program.needTemplates();
  if (!templates)
    return templates.takeError();
  if (Error error = addTemplateArguments(arguments, conversation))
    return error;
  if (!conversation.find("add_generation_prompt")) {
    JsonValue yes;
    yes.kind = JsonValue::Kind::Boolean;
    yes.boolean = true;
    setMember(conversation, "add_generation_prompt", std::move(yes));
  }
  Result<RenderedPrompt> prompt = templates->render(conversation);
  if (!prompt)
    return prompt.takeError();
  EncodeOptions options;
  options.addSpecial = false;
  if (!arguments.has("allow-special"))
    options.untrusted = prompt->untrusted;
  std::vector<int32_t> ids;
  tokenizer->encode(prompt->text, options, ids);
  return ids;
}

Result<std::vector<int32_t>> encodePrompt(const Program &program, const Arguments &arguments, std::string_view text) {
  if (program.templates && !arguments.has("raw")) {
    JsonValue conversation, messages;
    messages.kind = JsonValue::Kind::Array;
    messages.items.push_back(makeMessage("user", text));
    setMember(conversation, "messages", std::move(messages));
    return encodeConversation(program, arguments, std::move(conversation));
  }
  for (const char *name : {"system", "template-arg"})
    if (arguments.has(name))
      return program.templates
                 ? makeUsageError("%s: not with --raw, which leaves the chat template out", spelled(name).c_str())
                 : program.needTemplates().takeError();
  Result<Tokenizer> tokenizer = program.needTokenizer();
  if (!tokenizer)
    return tokenizer.takeError();
  std::vector<int32_t> ids;
  tokenizer->encode(text, EncodeOptions(), ids);
  return ids;
}

namespace {

constexpr OptionSpec chatTemplateOptions[] = {
    {"template-arg", "K=V", "a variable of the chat template; V is JSON, or else a string; may be given again"},
    {"system", "TEXT", "a system message before the others"},
    {"ids", nullptr, "print the ids of the prompt, as generate would take them"},
    {"allow-special", nullptr, "with --ids: let messages become special tokens"},
    {"help h", nullptr, "this text"},
};

Error runChatTemplate(Program &program, const Arguments &arguments) {
  Result<ChatTemplates> templates = program.needTemplates();
  if (!templates)
    return templates.takeError();
  if (arguments.has("allow-special") && !arguments.has("ids"))
    return makeUsageError("chat-template: --allow-special changes the ids, not the text: give --ids too");
  Result<std::string> text = readText("-");
  if (!text)
    return text.takeError();
  Result<JsonValue> conversation = parseJson(*text);
  if (!conversation)
    return conversation.takeError();
  if (arguments.has("ids")) {
    if (conversation->kind == JsonValue::Kind::Object && !conversation->find("add_generation_prompt")) {
      JsonValue no;
      no.kind = JsonValue::Kind::Boolean;
      setMember(*conversation, "add_generation_prompt", std::move(no));
    }
    Result<std::vector<int32_t>> ids = encodeConversation(program, arguments, std::move(*conversation));
    if (!ids)
      return ids.takeError();
    for (size_t i = 0; i < ids->size(); ++i)
      program.out.print(i ? ",%d" : "%d", (*ids)[i]);
    program.out.write("\n");
    return {};
  }
  if (Error error = addTemplateArguments(arguments, *conversation))
    return error;
  Result<RenderedPrompt> prompt = templates->render(*conversation);
  if (!prompt)
    return prompt.takeError();
  program.out.write(prompt->text); // the text and nothing else
  return {};
}

} // namespace

const VerbSpec chatTemplateVerb = {
    "chat-template",
    "The prompt that a conversation becomes: JSON with messages, tools, arguments as its keys, on stdin.",
    "[options] < REQUEST.json",
    "< request.json",
    chatTemplateOptions,
    nullptr,
    runChatTemplate};

} // namespace ingot::rt
