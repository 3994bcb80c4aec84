// A conversation: who said what, and the ids that the model is given for it. What a terminal or a server shows of it is
// theirs.
#ifndef INGOT_RUNTIME_CHAT_CONVERSATION_H
#define INGOT_RUNTIME_CHAT_CONVERSATION_H

#include "support/error.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ingot::rt {

struct ChatMessage {
  std::string role; ///< "system", "user" or "assistant"
  std::string content;
  bool operator==(const ChatMessage &) const = default;
};

/// A whole conversation as ids, the answer's beginning included. Called anew for every turn, so a template may drop or
/// change what it rendered of earlier ones.
using RenderMessages = std::function<Result<std::vector<int32_t>>(std::span<const ChatMessage>)>;

/// A system message, if any, then user and assistant in turn. The last message is a user's only while it is answered.
class Conversation {
public:
  std::optional<std::string> system;

  const std::vector<ChatMessage> &turns() const { return messages; }
  /// All messages as they are rendered.
  std::vector<ChatMessage> all() const;
  bool empty() const { return messages.empty(); }

  void ask(std::string text);
  void answer(std::string text);
  /// Takes back a question that got no answer, or else the last question with its answer; false if there is none.
  bool undo();
  /// Takes back the last answer, so that its question can be answered again; false if there is none.
  bool reopen();
  /// Forgets the oldest question and its answer, never the last question; false if that is all there is.
  bool dropOldest();
  void clear() { messages.clear(); }
  /// Replaces all turns; an error unless they are user and assistant in turn, ending with an answer.
  Error restore(std::vector<ChatMessage> turns);

private:
  std::vector<ChatMessage> messages;
};

/// What to do when a conversation no longer fits the context.
enum class OnFull {
  Stop,       ///< refuse the question
  DropOldest, ///< forget the oldest questions and answers until it fits
};

/// A turn's ids, and what had to be forgotten for them.
struct ChatPrompt {
  std::vector<int32_t> ids;
  uint64_t dropped = 0; ///< messages
};

/// The ids of the conversation, which ends with a question, such that `room` more fit into `context` positions. With
/// OnFull::Stop, room for one is enough: the answer then ends where the context does. What does not fit is an error
/// that names both numbers.
Result<ChatPrompt> fitPrompt(Conversation &conversation, const RenderMessages &render, uint64_t context, uint64_t room,
                             OnFull policy);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CHAT_CONVERSATION_H
