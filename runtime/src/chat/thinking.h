// What a model thinks before it answers: the text between <think> and </think>.
#ifndef INGOT_RUNTIME_CHAT_THINKING_H
#define INGOT_RUNTIME_CHAT_THINKING_H

#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

/// Tells thinking from the answer while text comes in pieces. All parts put together are the text.
class ThinkingSplitter {
public:
  enum class Kind { Answer, Thinking, Tag };
  struct Part {
    Kind kind;
    std::string text;
    bool operator==(const Part &) const = default;
  };

  /// `thinking`: the text starts inside of it, as after a prompt that ends with <think>.
  explicit ThinkingSplitter(bool thinking = false) : thinking(thinking) {}

  /// Takes more text; returns what can be told now. A beginning of a tag waits for the rest.
  std::vector<Part> push(std::string_view text);
  /// What waits, when the text ends.
  std::vector<Part> finish();

private:
  void add(std::vector<Part> &parts, std::string_view text) const;

  std::string held;
  bool thinking;
};

/// Whether a prompt that ends with `text` has the model start inside of its thinking: <think>, then spaces at most.
bool opensThinking(std::string_view text);

/// `text` so that a terminal shows it and does nothing else: control characters, but line feeds and tabs, become
/// U+FFFD. `text` is UTF-8.
std::string withoutControls(std::string_view text);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CHAT_THINKING_H
