// libedit, its history, and reads that an interrupt ends.
#include "terminal/line_editor.h"

#include "terminal/history_file.h"
#include "tokenizer/utf8.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

namespace ingot::rt {

namespace {

volatile sig_atomic_t interrupts = 0, resized = 0, resumed = 0;

termios found; ///< the terminal as it was found
bool foundIsKept = false;

/// Also called by the handler of a signal.
void restoreTerminal() {
  if (foundIsKept)
    tcsetattr(0, TCSANOW, &found);
}

/// Handlers write a byte into this pipe. A signal that comes between the last look at its flag and a read, or to
/// another thread, would not end that read; the pipe stays readable.
int wakeUp[2] = {-1, -1};

void openWakeUp() {
  if (wakeUp[0] < 0 && pipe2(wakeUp, O_CLOEXEC | O_NONBLOCK) != 0)
    wakeUp[0] = wakeUp[1] = -1; // then a signal ends a read only where it finds it waiting
}

void wake() {
  int before = errno;
  [[maybe_unused]] ssize_t written = write(wakeUp[1], "", 1); // a full pipe is readable already
  errno = before;
}

enum class Ready { Input, Interrupted, Resized, Resumed };

/// Waits until stdin can be read (or is at its end) or a signal came.
Ready waitForInput() {
  for (;;) {
    if (interrupts != 0)
      return Ready::Interrupted;
    if (resized != 0) {
      resized = 0;
      return Ready::Resized;
    }
    if (resumed != 0) {
      resumed = 0;
      return Ready::Resumed;
    }
    pollfd ready[2] = {{0, POLLIN, 0}, {wakeUp[0], POLLIN, 0}};
    if (poll(ready, 2, -1) < 0)
      continue;
    char bytes[64];
    if (ready[1].revents != 0) // the flags say what it was
      while (read(wakeUp[0], bytes, sizeof bytes) > 0) {
      }
    else if (ready[0].revents != 0)
      return Ready::Input;
  }
}

constexpr int historyEntries = 1000;
constexpr char pasteOff[] = "\033[?2004l"; ///< no marks around pasted text

/// stdin as it is; an interrupt ends a read.
class PlainLines : public LineSource {
public:
  explicit PlainLines(bool prompts) : prompts(prompts) {}

  LineResult read(const std::string &prompt, std::string &line) override {
    if (prompts && write(1, prompt.data(), prompt.size()) < 0)
      return LineResult::End;
    for (;;) {
      if (size_t end = buffer.find('\n'); end != std::string::npos) {
        line = buffer.substr(0, end);
        buffer.erase(0, end + 1);
        return LineResult::Line;
      }
      Ready ready = waitForInput();
      if (ready == Ready::Interrupted) {
        buffer.clear();
        return LineResult::Interrupted;
      }
      if (ready != Ready::Input)
        continue;
      char bytes[4096];
      ssize_t count = ::read(0, bytes, sizeof bytes);
      if (count > 0) {
        buffer.append(bytes, static_cast<size_t>(count));
        continue;
      }
      if (count < 0 && errno == EINTR)
        continue;
      line = std::exchange(buffer, "");
      return line.empty() ? LineResult::End : LineResult::Line;
    }
  }

private:
  const bool prompts;
  std::string buffer;
};

/// A character that no one means to type, for drawing prompt and line anew.
constexpr wchar_t redraw = L'\036';

/// The next character for libedit; 1, 0 at the end, -1 for an error or an interrupt.
int nextCharacter(EditLine *editor, wchar_t *to) {
  char bytes[4];
  for (size_t count = 0;;) {
    Ready ready = waitForInput();
    if (ready == Ready::Interrupted)
      return -1;
    if (ready == Ready::Resized) {
      el_resize(editor);
      continue;
    }
    if (ready == Ready::Resumed) {
      // Stopped and continued, as by Ctrl-Z and fg: the shell has given the terminal its own modes meanwhile.
      el_set(editor, EL_PREP_TERM, 0);
      el_set(editor, EL_PREP_TERM, 1);
      *to = redraw;
      return 1;
    }
    ssize_t got = read(0, bytes + count, 1);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return static_cast<int>(got);
    ++count;
    Utf8Step step = readUtf8(bytes, bytes + count);
    if (step.kind == Utf8Step::Kind::Incomplete)
      continue;
    if (step.kind == Utf8Step::Kind::Broken) { // not a character; what broke it may start one
      bytes[0] = bytes[count - 1];
      count = count > 1 && step.length < count ? 1 : 0;
      if (count == 1 && readUtf8(bytes, bytes + 1).kind == Utf8Step::Kind::Valid) {
        *to = static_cast<wchar_t>(bytes[0]);
        return 1;
      }
      continue;
    }
    *to = static_cast<wchar_t>(step.codePoint);
    return 1;
  }
}

unsigned char insertLineFeed(EditLine *editor, int) {
  return el_winsertstr(editor, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

/// Text between the marks of a bracketed paste is inserted as it is: its line feeds end no line.
unsigned char insertPasted(EditLine *editor, int) {
  static const wchar_t end[] = L"\033[201~";
  constexpr size_t endLength = sizeof end / sizeof *end - 1;
  std::wstring text;
  while (text.size() < endLength || text.compare(text.size() - endLength, endLength, end) != 0) {
    wchar_t c;
    if (el_wgetc(editor, &c) != 1)
      return CC_EOF;
    text += c == L'\r' ? L'\n' : c;
  }
  text.resize(text.size() - endLength);
  std::erase_if(text, [](wchar_t c) { return c < 32 && c != L'\n' && c != L'\t'; });
  if (!text.empty() && el_winsertstr(editor, text.c_str()) != 0)
    return CC_ERROR;
  return CC_REFRESH;
}

class EditedLines : public LineSource {
public:
  explicit EditedLines(std::string path) : path(std::move(path)) {
    foundIsKept = tcgetattr(0, &found) == 0;
    catchSignals();
    editor = el_init("ingot", stdin, stdout, stderr);
    past = history_init();
    HistEvent event;
    history(past, &event, H_SETSIZE, historyEntries);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_HIST, history, past);
    el_set(
        editor, EL_PROMPT, +[](EditLine *one) {
          EditedLines *self = nullptr;
          el_get(one, EL_CLIENTDATA, &self);
          return self->prompt.data();
        });
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_SIGNAL, 0);
    // While an answer is shown, what is typed waits in the terminal's own line. There Ctrl-D would be an end that the
    // editor never sees, so that it is made a character like others.
    el_set(editor, EL_SETTY, "-x", "eof=", nullptr);
    el_wset(editor, EL_GETCFN, nextCharacter);
    el_set(editor, EL_ADDFN, "ingot-line-feed", "Insert a line feed", insertLineFeed);
    el_set(editor, EL_ADDFN, "ingot-paste", "Insert pasted text", insertPasted);
    const char *const bindings[][2] = {
        {"\\e^M", "ingot-line-feed"}, {"\\e^J", "ingot-line-feed"},     {"\\e[200~", "ingot-paste"},
        {"^^", "ed-redisplay"},       {"^R", "em-inc-search-prev"},     {"^W", "ed-delete-prev-word"},
        {"\\e[1;5C", "em-next-word"}, {"\\e[1;5D", "ed-prev-word"},     {"\\e[1~", "ed-move-to-beg"},
        {"\\e[4~", "ed-move-to-end"}, {"\\e[3~", "ed-delete-next-char"}};
    for (const auto &[key, command] : bindings)
      el_set(editor, EL_BIND, key, command, nullptr);
    if (this->path.empty())
      return;
    if (Error error = trimHistory(this->path, historyEntries))
      tell(error);
    Result<std::vector<std::string>> entries = readHistory(this->path, historyEntries);
    if (!entries)
      tell(entries.takeError());
    else
      for (const std::string &entry : *entries)
        history(past, &event, H_ENTER, entry.c_str());
  }

  ~EditedLines() override {
    history_end(past);
    el_end(editor);
    restoreTerminal();
  }
  EditedLines(const EditedLines &) = delete;
  EditedLines &operator=(const EditedLines &) = delete;

  LineResult read(const std::string &newPrompt, std::string &line) override {
    prompt = newPrompt;
    bracketedPaste(true);
    int count = 0;
    const char *text = el_gets(editor, &count);
    bracketedPaste(false);
    if (!text || count <= 0) {
      fputc('\n', stdout); // the cursor stands behind what was typed
      fflush(stdout);
      return interrupts != 0 ? LineResult::Interrupted : LineResult::End;
    }
    line.assign(text, static_cast<size_t>(count));
    if (line.ends_with('\n'))
      line.pop_back();
    return LineResult::Line;
  }

  void remember(const std::string &entry) override {
    if (entry.empty() || entry == last)
      return;
    last = entry;
    HistEvent event;
    history(past, &event, H_ENTER, entry.c_str());
    if (!path.empty())
      if (Error error = addHistory(path, entry))
        tell(error);
  }

private:
  static void catchSignals() {
    openWakeUp();
    struct sigaction action = {};
    action.sa_handler = [](int) {
      resized = 1;
      wake();
    };
    sigaction(SIGWINCH, &action, nullptr);
    action.sa_handler = [](int) {
      resumed = 1;
      wake();
    };
    sigaction(SIGCONT, &action, nullptr);
    // Who ends the program otherwise gets the terminal back too.
    action.sa_handler = [](int signal) {
      [[maybe_unused]] ssize_t written = write(1, pasteOff, sizeof pasteOff - 1);
      restoreTerminal();
      raise(signal); // once more, with its usual effect
    };
    action.sa_flags = SA_RESETHAND;
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGHUP, &action, nullptr);
  }

  static void bracketedPaste(bool on) {
    fputs(on ? "\033[?2004h" : pasteOff, stdout);
    fflush(stdout);
  }

  /// Without its file the history works still; that is said once.
  void tell(const Error &error) {
    fprintf(stderr, "note: the history is not kept: %s\n", error.message().c_str());
    path.clear();
  }

  std::string path, prompt, last;
  EditLine *editor;
  History *past;
};

} // namespace

std::unique_ptr<LineSource> plainLines(bool prompts) { return std::make_unique<PlainLines>(prompts); }

std::unique_ptr<LineSource> editedLines(const std::string &history) {
  const char *terminal = getenv("TERM");
  if (!terminal || !*terminal || strcmp(terminal, "dumb") == 0)
    return nullptr;
  return std::make_unique<EditedLines>(history);
}

void catchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    // Twice without being heard: the program is busy and shall end.
    interrupts = interrupts + 1;
    if (interrupts > 2) {
      restoreTerminal();
      _exit(130);
    }
    wake();
  };
  openWakeUp();
  sigaction(SIGINT, &action, nullptr);
}

int takeInterrupts() {
  int count = interrupts;
  interrupts = 0;
  return count;
}

} // namespace ingot::rt
