// The verb chat: a conversation at a terminal, or with questions from a pipe.
#include "chat/conversation.h"
#include "chat/input.h"
#include "chat/session_file.h"
#include "chat/thinking.h"
#include "cli/generation.h"
#include "cli/prompt.h"
#include "cli/verbs.h"
#include "support/hash.h"
#include "terminal/history_file.h"
#include "terminal/line_editor.h"

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace ingot::rt {

namespace {

constexpr OptionSpec chatOptions[] = {
    {"system", "TEXT", "a system message"},
    {"no-think", nullptr, "ask the template for answers without thinking (enable_thinking=false)"},
    {"template-arg", "K=V", "a variable of the chat template; V is JSON, or else a string; may be given again"},
    {"allow-special", nullptr, "let messages become special tokens: their text is trusted as the template's is"},
    {"on-full", "stop|drop-oldest",
     "when the conversation does not fit the context: refuse the question (default), or forget the oldest questions "
     "and "
     "answers"},
    {"no-history", nullptr, "neither read nor write the history of what is typed"},
    INGOT_SAMPLING_OPTIONS,
    INGOT_SESSION_OPTIONS,
};

constexpr const char *commandHelp =
    "/help                 this text\n"
    "/system [TEXT]        set the system message, or tell it; /system none: there is none\n"
    "/clear                forget the conversation\n"
    "/undo                 take back the last question and its answer\n"
    "/regenerate           answer the last question again\n"
    "/save FILE            write the conversation\n"
    "/load FILE            go on with a conversation that was had with this model\n"
    "/set KEY VALUE        an option of generation, as on the command line (temperature 0.7, greedy true, stop TEXT,\n"
    "                      max-new-tokens 100, ...), or think true|false; VALUE default: as it was\n"
    "/stats                what each turn cost\n"
    "/exit                 end, as Ctrl-D does\n"
    "A line that ends in \\ goes on in the next; \"\"\" begins and ends a text of several lines; at a terminal "
    "Alt-Enter "
    "begins a\nnew line. A text that starts with a slash is written with two.\n";

/// Weights, tokenizer and template, as one fingerprint.
ChatModel chatModel(const Program &program) {
  std::string all = program.model.name;
  for (uint32_t kind : {INGOT_RT_SECTION_WEIGHTS, INGOT_RT_SECTION_TOKENIZER, INGOT_RT_SECTION_TEMPLATE})
    if (const ingot_rt_section *section = program.payload.find(kind))
      all += formatText("|%u %016" PRIx64 "%016" PRIx64, kind, section->hash[1], section->hash[0]);
  const ingot_rt_payload_header &header = program.payload.header();
  all += formatText("|%016" PRIx64 "%016" PRIx64 "|%u %" PRIu64 " %016" PRIx64, header.separate_hash[1],
                    header.separate_hash[0], program.model.random, program.model.random_seed, program.model.cache_id);
  return {program.model.name, hashText(hashBytes(all.data(), all.size()))};
}

/// Shows an answer as it comes: at a terminal nothing but text gets through, and thinking is dimmed where there are
/// colours.
class AnswerView {
public:
  AnswerView(Output &out, bool terminal, bool colors, bool thinking)
      : out(out), terminal(terminal), colors(colors), splitter(thinking) {
    if (colors && thinking)
      style(true);
  }

  void show(std::string_view text) {
    if (!terminal)
      out.write(text);
    else
      for (const ThinkingSplitter::Part &part : splitter.push(text))
        showPart(part);
    out.flush();
  }

  void finish() {
    for (const ThinkingSplitter::Part &part : splitter.finish())
      showPart(part);
    style(false);
    out.write("\n");
    out.flush();
  }

private:
  using Kind = ThinkingSplitter::Kind;

  void showPart(const ThinkingSplitter::Part &part) {
    if (!colors) // the tags tell
      return out.write(withoutControls(part.text));
    if (part.kind == Kind::Tag)
      return style(part.text[1] != '/');
    out.write(withoutControls(part.text));
  }

  void style(bool dim) {
    if (dim != dimmed)
      out.write(dim ? "\033[2m" : "\033[0m");
    dimmed = dim;
  }

  Output &out;
  const bool terminal, colors;
  ThinkingSplitter splitter;
  bool dimmed = false;
};

class Chat {
public:
  Chat(Program &program, const Arguments &arguments, Session &session)
      : program(program), settings(arguments), given(arguments),
        scheduler(*session.engine, {.endTokens = program.endTokens}), context(session.limits.context),
        model(chatModel(program)) {}

  Error run();

private:
  struct Turn {
    Completion completion;
    uint64_t dropped = 0; ///< messages forgotten for it
  };

  Error start();
  void take(const std::string &message);
  void command(const ChatInput &input);
  void answer();
  Error tryAnswer();
  Result<std::vector<int32_t>> render(std::span<const ChatMessage> messages) const;
  Error set(const std::string &rest);
  Error setSystem(const std::string &text);
  void stats();
  void fail(const Error &error);

  Program &program;
  Arguments settings;    ///< the command line's, changed by /set
  const Arguments given; ///< the command line's
  Scheduler scheduler;
  const uint64_t context;
  const ChatModel model;
  Conversation conversation;
  OnFull onFull = OnFull::Stop;
  std::optional<bool> think; ///< the template's enable_thinking, where it was asked for
  std::vector<Turn> turns;
  bool terminal = false, colors = false, ended = false;
  uint64_t failures = 0;
};

Error Chat::start() {
  if (given.has("system"))
    conversation.system = given.text("system");
  std::string policy = given.text("on-full", "stop");
  if (policy != "stop" && policy != "drop-oldest")
    return makeUsageError("chat: --on-full: expected stop or drop-oldest, got '%s'", policy.c_str());
  onFull = policy == "stop" ? OnFull::Stop : OnFull::DropOldest;
  if (given.has("no-think"))
    think = false;
  // What is wrong with the options is told before the first question.
  if (Error error = checkStops(program, given.texts("stop")))
    return error;
  if (Result<SamplingOptions> options = samplingOptions(program, given); !options)
    return options.takeError();
  if (Result<uint64_t> count = newTokens(program, given, 0); !count)
    return count.takeError();
  terminal = isatty(0) && isatty(1);
  const char *noColor = getenv("NO_COLOR"), *kind = getenv("TERM");
  colors = terminal && !(noColor && *noColor) && kind && *kind && strcmp(kind, "dumb") != 0;
  return {};
}

Error Chat::run() {
  if (Error error = start())
    return error;
  std::unique_ptr<LineSource> lines;
  if (terminal) {
    catchInterrupts();
    lines = editedLines(given.has("no-history") ? "" : historyPath());
    note("%s, a context of %" PRIu64 " tokens. /help lists the commands, Ctrl-D ends.", model.name.c_str(), context);
  }
  if (!lines)
    lines = plainLines(terminal);
  MessageReader reader;
  std::string line;
  while (!ended && !program.out.failed()) {
    program.out.flush();
    LineResult result = lines->read(reader.pending() ? ". " : "> ", line);
    takeInterrupts();
    if (result == LineResult::Interrupted) {
      reader.take();
      note("Ctrl-D or /exit ends.");
      continue;
    }
    bool complete = result == LineResult::Line && reader.push(line);
    if (result == LineResult::Line && !complete)
      continue;
    ended = result == LineResult::End;
    std::string message = reader.take();
    if (message.find_first_not_of(" \t\r\n") == std::string::npos)
      continue;
    lines->remember(message);
    take(message);
  }
  if (failures != 0 && !terminal)
    return makeError("%" PRIu64 " of the lines failed", failures);
  return {};
}

void Chat::fail(const Error &error) {
  ++failures;
  program.out.flush();
  note("error: %s", error.message().c_str());
}

void Chat::take(const std::string &message) {
  ChatInput input = parseChatInput(message);
  if (!input.command.empty())
    return command(input);
  Conversation before = conversation;
  conversation.ask(validUtf8(input.text));
  if (Error error = tryAnswer()) {
    conversation = std::move(before);
    fail(error);
  }
}

Result<std::vector<int32_t>> Chat::render(std::span<const ChatMessage> messages) const {
  JsonValue request, list;
  list.kind = JsonValue::Kind::Array;
  for (const ChatMessage &message : messages)
    list.items.push_back(makeMessage(message.role, message.content));
  setMember(request, "messages", std::move(list));
  Arguments arguments = settings;
  arguments.remove("system"); // it is one of the messages
  if (think)
    if (Error error =
            arguments.add(chatVerb, "template-arg", *think ? "enable_thinking=true" : "enable_thinking=false"))
      return error;
  return encodeConversation(program, arguments, std::move(request));
}

/// Answers the question that the conversation ends with.
Error Chat::tryAnswer() {
  Result<uint64_t> most = newTokens(program, settings, 0);
  if (!most)
    return most.takeError();
  Result<ChatPrompt> prompt = fitPrompt(
      conversation, [&](std::span<const ChatMessage> messages) { return render(messages); }, context,
      std::min(*most, std::max<uint64_t>(1, context / 4)), onFull);
  if (!prompt)
    return prompt.takeError();
  if (prompt->dropped != 0)
    note("note: the context of %" PRIu64 " tokens is full: forgot the oldest %" PRIu64 " messages", context,
         prompt->dropped);
  std::span<const int32_t> ids = prompt->ids, tail = ids.last(std::min<size_t>(ids.size(), 16));
  AnswerView view(program.out, terminal, colors, opensThinking(program.tokenizer->decode(tail, false)));
  Generation generation(program,
                        {.stops = settings.texts("stop"), .stream = [&](std::string_view text) { view.show(text); }});
  Result<Request> request = generation.request(settings, std::move(prompt->ids));
  if (!request)
    return request.takeError();
  request->conversation = 1;
  if (settings.has("seed")) // an answer again is another one, but a session again is the same
    request->sampling.seed += turns.size();
  Result<uint64_t> number = scheduler.submit(std::move(*request), generation);
  if (!number)
    return number.takeError();
  bool stopped = false;
  while (!scheduler.idle() && !program.out.failed()) {
    if (takeInterrupts() != 0)
      stopped = scheduler.cancel(*number);
    else if (Error error = scheduler.step())
      return error;
  }
  view.finish();
  if (!generation.finished) // nobody reads any more
    return {};
  const Completion &done = generation.result;
  if (done.reason == Finish::Failed)
    return makeError("%s", done.error.c_str());
  turns.push_back({done, prompt->dropped});
  if (stopped && done.tokens.empty()) {
    conversation.undo();
    note("stopped; the question is taken back");
    return {};
  }
  conversation.answer(generation.text);
  if (stopped)
    note("stopped");
  if (done.reason == Finish::Context)
    note("note: the context of %" PRIu64 " tokens is full: the answer is cut (/clear or /undo make room)", context);
  return {};
}

Error Chat::setSystem(const std::string &text) {
  if (text.empty())
    note("%s", conversation.system ? withoutControls(*conversation.system).c_str() : "there is no system message");
  else if (text == "none")
    conversation.system.reset();
  else
    conversation.system = validUtf8(text);
  return {};
}

/// "/set KEY VALUE": checked as a whole before it counts.
Error Chat::set(const std::string &rest) {
  size_t space = std::min(rest.find_first_of(" \t\n"), rest.size());
  std::string key = rest.substr(0, space),
              value = rest.substr(std::min(rest.find_first_not_of(" \t\n", space), rest.size()));
  if (key.empty() || value.empty())
    return makeError("/set: expected /set KEY VALUE");
  bool reset = value == "default", yes = value == "true";
  if (key == "think") {
    if (!reset && !yes && value != "false")
      return makeError("/set think: expected true, false or default, got '%s'", value.c_str());
    think = reset ? given.has("no-think") ? std::optional(false) : std::nullopt : std::optional(yes);
    return {};
  }
  std::string name = optionName(chatVerb, key);
  constexpr OptionSpec known[] = {INGOT_SAMPLING_OPTIONS};
  const OptionSpec *option = name.empty() ? nullptr : findOption(chatVerb, name);
  bool settable = std::any_of(std::begin(known), std::end(known),
                              [&](const OptionSpec &one) { return option && strcmp(one.names, option->names) == 0; });
  if (!settable) {
    std::vector<std::string> names = {"think"};
    for (const OptionSpec &one : known)
      names.emplace_back(one.names, strcspn(one.names, " "));
    std::string suggestion = nearest(key, names);
    return makeError("/set: unknown key '%s'%s", key.c_str(),
                     suggestion.empty() ? "" : ("; did you mean '" + suggestion + "'?").c_str());
  }
  Arguments changed = settings;
  changed.remove(name);
  if (!option->value && !reset && !yes && value != "false")
    return makeError("/set %s: expected true, false or default, got '%s'", key.c_str(), value.c_str());
  if (reset)
    for (const std::string &old : given.texts(name)) {
      if (Error error = changed.add(chatVerb, name, old))
        return error;
    }
  else if (option->value || yes)
    if (Error error = changed.add(chatVerb, name, value))
      return error;
  if (Error error = checkStops(program, changed.texts("stop")))
    return error;
  if (Result<SamplingOptions> options = samplingOptions(program, changed); !options)
    return options.takeError();
  if (Result<uint64_t> count = newTokens(program, changed, 0); !count)
    return count.takeError();
  settings = std::move(changed);
  return {};
}

void Chat::stats() {
  auto rate = [](uint64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; };
  for (size_t i = 0; i < turns.size(); ++i) {
    const Completion &one = turns[i].completion;
    uint64_t computed = one.promptTokens - one.reusedTokens, made = one.tokens.size();
    program.out.print("turn %zu: prompt %" PRIu64 " tokens, %" PRIu64 " from the cache, %" PRIu64
                      " computed at %.1f tok/s; answer %" PRIu64 " tokens at %.1f tok/s; end: %s",
                      i + 1, one.promptTokens, one.reusedTokens, computed, rate(computed, one.promptSeconds), made,
                      rate(made == 0 ? 0 : made - 1, one.decodeSeconds), finishName(one.reason));
    if (turns[i].dropped != 0)
      program.out.print("; forgot %" PRIu64 " messages", turns[i].dropped);
    program.out.write("\n");
  }
  uint64_t used = turns.empty() ? 0 : turns.back().completion.promptTokens + turns.back().completion.tokens.size();
  program.out.print("context: %" PRIu64 " of %" PRIu64 " tokens\n", conversation.empty() ? 0 : used, context);
  program.out.flush();
}

void Chat::command(const ChatInput &input) {
  static const std::vector<std::string> names = {"help", "system", "clear", "undo", "regenerate", "save",
                                                 "load", "set",    "stats", "exit", "quit"};
  const std::string &name = input.command;
  Error error;
  Conversation before = conversation;
  if (name == "help")
    program.out.write(commandHelp);
  else if (name == "system")
    error = setSystem(input.text);
  else if (name == "clear")
    conversation.clear();
  else if (name == "undo") {
    if (conversation.undo())
      note("taken back: %zu messages are left", conversation.turns().size());
    else
      error = makeError("/undo: there is no question yet");
  } else if (name == "regenerate")
    error = conversation.reopen() ? tryAnswer() : makeError("/regenerate: there is no answer yet");
  else if (name == "save" || name == "load") {
    if (input.text.empty())
      error = makeError("/%s: expected a file's name", name.c_str());
    else
      error = name == "save" ? saveConversation(input.text, conversation, model)
                             : loadConversation(input.text, conversation, model);
    if (!error)
      note("%zu messages %s", conversation.turns().size(), name == "save" ? "saved" : "loaded");
  } else if (name == "set")
    error = set(input.text);
  else if (name == "stats")
    stats();
  else if (name == "exit" || name == "quit")
    ended = true;
  else {
    std::string suggestion = nearest(name, names);
    error = makeError("unknown command '/%s'%s", name.c_str(),
                      suggestion.empty() ? "; /help lists them" : ("; did you mean '/" + suggestion + "'?").c_str());
  }
  if (error) {
    conversation = std::move(before);
    fail(error);
  }
}

Error runChat(Program &program, const Arguments &arguments) {
  if (Result<Tokenizer> tokenizer = program.needTokenizer(); !tokenizer)
    return tokenizer.takeError();
  if (Result<ChatTemplates> templates = program.needTemplates(); !templates)
    return templates.takeError();
  Result<std::unique_ptr<Session>> session = openSession(program, arguments, SessionNeeds());
  if (!session)
    return session.takeError();
  return Chat(program, arguments, **session).run();
}

} // namespace

const VerbSpec chatVerb = {"chat",      "A conversation, at a terminal or with a question a line from a pipe.",
                           "[options]", "--system 'Answer in one sentence.' --temperature 0.7",
                           chatOptions, nullptr,
                           runChat};

} // namespace ingot::rt
