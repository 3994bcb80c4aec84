// From what a person or a program gives to a prompt's ids: plain text, one
// user message, or a conversation, through the model's chat template.
#ifndef INGOT_RUNTIME_CLI_PROMPT_H
#define INGOT_RUNTIME_CLI_PROMPT_H

#include "cli/program.h"
#include "support/json.h"

namespace ingot::rt {

/// Options of every verb that takes a prompt.
#define INGOT_PROMPT_OPTIONS                                                                                           \
  {"raw", nullptr, "take the prompt as it is, without the chat template"},                                             \
      {"system", "TEXT", "a system message before the prompt"},                                                        \
      {"template-arg", "K=V", "a variable of the chat template; V is JSON, or else a string; may be given again"},     \
      {"allow-special", nullptr, "let messages become special tokens: their text is trusted as the template's is"}

/// The ids of a prompt given as text. With a chat template, and without --raw,
/// it is one user message, after --system's.
Result<std::vector<int32_t>> encodePrompt(const Program &program, const Arguments &arguments, std::string_view text);

/// The ids of a conversation: an object as ChatTemplates::render takes it, to
/// which --system, --template-arg and, unless the object says otherwise, a
/// prompt for the answer are added. The ids are those of the rendered text and
/// nothing else: what a start token is for, the template itself writes.
Result<std::vector<int32_t>> encodeConversation(const Program &program, const Arguments &arguments,
                                                JsonValue conversation);

/// Adds --system and --template-arg to a conversation.
Error addTemplateArguments(const Arguments &arguments, JsonValue &conversation);

/// An object's members, for making one.
void setMember(JsonValue &object, std::string_view key, JsonValue value);
JsonValue makeMessage(std::string_view role, std::string_view content);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CLI_PROMPT_H
