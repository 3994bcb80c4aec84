// A conversation in a file, tied to the model that it was had with.
#ifndef INGOT_RUNTIME_CHAT_SESSION_FILE_H
#define INGOT_RUNTIME_CHAT_SESSION_FILE_H

#include "chat/conversation.h"

namespace ingot::rt {

/// Who a conversation is with: a name for people, and a fingerprint of weights, tokenizer and template.
struct ChatModel {
  std::string name, identity;
};

/// Writes the conversation as JSON: {"ingot_chat": 1, "model", "identity", "system": text or null, "messages":
/// [{"role", "content"}, ...]}. The file is replaced as a whole, or left as it was; only its owner may read it.
Error saveConversation(const std::string &path, const Conversation &conversation, const ChatModel &model);

/// Reads what saveConversation wrote. Errors name the file and what is wrong with it; a conversation with another model
/// is one, and names both. On an error the conversation stays as it was.
Error loadConversation(const std::string &path, Conversation &conversation, const ChatModel &model);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CHAT_SESSION_FILE_H
