// Lines to messages and commands.
#include "chat/input.h"

#include <algorithm>
#include <utility>

namespace ingot::rt {

namespace {
constexpr std::string_view quotes = "\"\"\"";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view spaces = " \t\r\n";
  size_t first = text.find_first_not_of(spaces);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(spaces) - first + 1);
}
} // namespace

bool MessageReader::push(std::string_view line) {
  if (line.ends_with('\r'))
    line.remove_suffix(1);
  if (!open && line.starts_with(quotes)) {
    open = quoted = true;
    line.remove_prefix(quotes.size());
    if (line.empty()) // the text starts on the next line
      return false;
  }
  if (quoted) {
    if (line.ends_with(quotes)) {
      line.remove_suffix(quotes.size());
      if (line.empty() && text.ends_with('\n')) // quotes on a line of their own
        text.pop_back();
      text += line;
      open = quoted = false;
      return true;
    }
    text.append(line).append("\n");
    return false;
  }
  open = line.ends_with('\\');
  text += open ? line.substr(0, line.size() - 1) : line;
  if (open)
    text += '\n';
  return !open;
}

std::string MessageReader::take() {
  open = quoted = false;
  return std::exchange(text, "");
}

ChatInput parseChatInput(std::string_view message) {
  if (message.starts_with("//"))
    return {"", std::string(message.substr(1))};
  if (!message.starts_with('/'))
    return {"", std::string(message)};
  size_t end = std::min(message.find_first_of(" \t\n"), message.size());
  std::string name(message.substr(1, end - 1));
  // "/" alone is a command without a name, which nobody knows.
  return {name.empty() ? "/" : name, std::string(trimmed(message.substr(end)))};
}

} // namespace ingot::rt
