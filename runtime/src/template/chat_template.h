// Chat templates as the rest of the runtime uses them: a conversation and
// arguments in, the text of the prompt out, with marks of what the template
// itself wrote.
#ifndef INGOT_RUNTIME_TEMPLATE_CHAT_TEMPLATE_H
#define INGOT_RUNTIME_TEMPLATE_CHAT_TEMPLATE_H

#include "support/json.h"
#include "template/program.h"
#include "tokenizer/tokenizer.h"

#include <string>
#include <vector>

namespace ingot::rt {

/// A prompt, and which of its bytes come from messages and arguments, not from
/// the template's own text, its bos_token and the like: EncodeOptions takes the
/// spans as they are, so that a message never becomes a special token.
struct RenderedPrompt {
  std::string text;
  std::vector<TextSpan> untrusted; ///< in ascending order, apart from each other
};

/// The templates of a model, a view of the template section.
class ChatTemplates {
public:
  /// `section` must outlive the result and be aligned to 8.
  static Result<ChatTemplates> open(std::string_view section);

  /// Renders an object with `messages` and, as they are needed, `tools`,
  /// `documents`, `add_generation_prompt` (false without it), and any other
  /// variable of the template, as transformers' apply_chat_template does:
  /// members of messages that are null are left out, a reasoning is known by
  /// all of its names. `chat_template` names one of several templates; else
  /// "tool_use" is taken where there are tools, and "default".
  ///
  /// Errors: what the template's raise_exception says, word for word; or where
  /// in the template something else went wrong.
  Result<RenderedPrompt> render(const JsonValue &request) const;

  /// "default", "tool_use", ...
  std::vector<std::string> names() const;
  /// What a template looks up: messages, tools, ...
  std::vector<std::string> variables(size_t index) const;
  /// The file (and key) it came from.
  std::string where(size_t index) const;

private:
  explicit ChatTemplates(tpl::Program program) : program(program) {}
  Result<size_t> choose(const JsonValue &request) const;

  tpl::Program program;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_TEMPLATE_CHAT_TEMPLATE_H
