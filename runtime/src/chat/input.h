// What a person types into a chat: messages of one line or several, and commands.
#ifndef INGOT_RUNTIME_CHAT_INPUT_H
#define INGOT_RUNTIME_CHAT_INPUT_H

#include "support/error.h"

#include <string>
#include <string_view>

namespace ingot::rt {

/// Puts lines together to messages. A line that ends in a backslash goes on in the next one. From a line that starts
/// with three quotes to one that ends with them, lines are taken as they are, without the quotes.
class MessageReader {
public:
  /// Takes a line without its end; true when a message is complete.
  bool push(std::string_view line);
  /// The complete message, or what there is of one when the input ends.
  std::string take();
  /// A message has begun and is not complete.
  bool pending() const { return open; }

private:
  std::string text;
  bool open = false, quoted = false;
};

/// A message that starts with a slash is a command, "/name rest"; with two, it is a text that starts with one.
struct ChatInput {
  std::string command; ///< without the slash; empty: a text
  std::string text;    ///< the text, or what follows the command's name, without spaces around it
};
ChatInput parseChatInput(std::string_view message);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CHAT_INPUT_H
