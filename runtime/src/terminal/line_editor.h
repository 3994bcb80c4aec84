// Lines that a person types at a terminal: with editing and a history (libedit), or plain ones where the terminal is
// dumb.
#ifndef INGOT_RUNTIME_TERMINAL_LINE_EDITOR_H
#define INGOT_RUNTIME_TERMINAL_LINE_EDITOR_H

#include "support/error.h"

#include <memory>
#include <string>
#include <vector>

namespace ingot::rt {

/// What came of asking for a line.
enum class LineResult { Line, End, Interrupted };

/// Where lines come from.
class LineSource {
public:
  virtual ~LineSource() = default;
  /// Waits for a line; `line` is it without its end. `prompt` is shown where there is someone to see it.
  virtual LineResult read(const std::string &prompt, std::string &line) = 0;
  /// Remembers an entry, which may have several lines.
  virtual void remember(const std::string &entry) {}
};

/// Lines of stdin without a prompt, for pipes and files; with one, for terminals that can do no more (`prompts`).
std::unique_ptr<LineSource> plainLines(bool prompts);

/// Lines edited at the terminal on stdin and stdout: keys as in Emacs, arrows, history, searching it with Ctrl-R,
/// characters of UTF-8 whatever the locale. Alt-Enter puts a line feed into the line, and so does text that is pasted.
/// `history`: a file that entries are read from and added to, only its owner may read it; empty: they are forgotten.
/// Null where the terminal is not one of those that understand ECMA-48 (TERM is unset or "dumb").
std::unique_ptr<LineSource> editedLines(const std::string &history);

/// SIGINT is counted instead of ending the program, and interrupts a read of a line. From then on, takeInterrupts says
/// how often it came since it was asked last.
void catchInterrupts();
int takeInterrupts();

} // namespace ingot::rt
#endif // INGOT_RUNTIME_TERMINAL_LINE_EDITOR_H
