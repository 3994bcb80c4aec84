// Turns.
#include "chat/conversation.h"

#include <cinttypes>

namespace ingot::rt {

std::vector<ChatMessage> Conversation::all() const {
  std::vector<ChatMessage> list;
  if (system)
    list.push_back({"system", *system});
  list.insert(list.end(), messages.begin(), messages.end());
  return list;
}

void Conversation::ask(std::string text) { messages.push_back({"user", std::move(text)}); }

void Conversation::answer(std::string text) { messages.push_back({"assistant", std::move(text)}); }

bool Conversation::undo() {
  bool answered = reopen();
  if (messages.empty())
    return answered;
  messages.pop_back();
  return true;
}

bool Conversation::reopen() {
  if (messages.empty() || messages.back().role != "assistant")
    return false;
  messages.pop_back();
  return true;
}

bool Conversation::dropOldest() {
  if (messages.size() < 3)
    return false;
  messages.erase(messages.begin(), messages.begin() + 2);
  return true;
}

Error Conversation::restore(std::vector<ChatMessage> turns) {
  for (size_t i = 0; i < turns.size(); ++i)
    if (const char *expected = i % 2 == 0 ? "user" : "assistant"; turns[i].role != expected)
      return makeError("message %zu: expected role '%s', got '%s'", i, expected, turns[i].role.c_str());
  if (turns.size() % 2 != 0)
    return makeError("the last message has no answer");
  messages = std::move(turns);
  return {};
}

Result<ChatPrompt> fitPrompt(Conversation &conversation, const RenderMessages &render, uint64_t context, uint64_t room,
                             OnFull policy) {
  ChatPrompt prompt;
  for (;;) {
    Result<std::vector<int32_t>> ids = render(conversation.all());
    if (!ids)
      return ids.takeError();
    prompt.ids = std::move(*ids);
    uint64_t length = prompt.ids.size();
    bool fits = length <= context && room <= context - length;
    if (fits || (policy == OnFull::Stop && length < context))
      return prompt;
    if (policy == OnFull::DropOldest && conversation.dropOldest()) {
      prompt.dropped += 2;
      continue;
    }
    if (length < context) // as much as one question leaves
      return prompt;
    return makeError("the context is full: the conversation has %" PRIu64 " tokens, the context %" PRIu64 "%s", length,
                     context, policy == OnFull::Stop ? " (/clear or /undo make room, or --on-full=drop-oldest)" : "");
  }
}

} // namespace ingot::rt
