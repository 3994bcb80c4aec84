// The verb generate: one request, or with --jsonl a stream of them.
#include "cli/generation.h"
#include "cli/prompt.h"
#include "cli/verbs.h"

#include "scheduler/scheduler.h"
#include "support/json.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace ingot::rt {

namespace {

constexpr OptionSpec generateOptions[] = {
    {"prompt p", "TEXT", "the prompt"},
    {"file f", "FILE", "read the prompt from FILE, or from stdin for -"},
    {"tokens", "IDS|@FILE|-", "the prompt as ids: 1,2,3"},
    INGOT_PROMPT_OPTIONS,
    INGOT_SAMPLING_OPTIONS,
    {"echo", nullptr, "begin the text with the prompt's"},
    {"logprobs", "N",
     "log-probabilities of each token and of the N likeliest in its place, as the model has them before "
     "penalty and temperature: in the JSON, else on stderr; with --echo the prompt's too"},
    {"chunk", "N", "compute at most N tokens of a prompt in a step"},
    {"json", nullptr, "print one JSON object: tokens, text, finish_reason, seed, timings"},
    {"jsonl", nullptr,
     "read requests from stdin, a JSON object a line; print results as they finish. Keys: id, prompt, "
     "messages (with tools, documents, template_args) or tokens, option names; {\"cancel\": ID}"},
    INGOT_SESSION_OPTIONS,
};

/// The prompt's ids from whichever option gives it.
Result<std::vector<int32_t>> promptTokens(const Program &program, const Arguments &arguments) {
  int ways = arguments.has("prompt") + arguments.has("file") + arguments.has("tokens") + arguments.dash();
  if (ways > 1)
    return makeUsageError("generate: give one of -p, -f, - and --tokens");
  if (arguments.has("tokens")) {
    Result<std::vector<std::vector<int32_t>>> lists = readTokenLists(arguments, "tokens");
    if (!lists)
      return lists.takeError();
    if (lists->size() != 1)
      return makeUsageError("generate: --tokens: expected one sequence, got %zu (use --jsonl for several)",
                            lists->size());
    return std::move(lists->front());
  }
  std::string text = arguments.text("prompt");
  if (!arguments.has("prompt")) {
    Result<std::string> content = readText(arguments.text("file", "-"));
    if (!content)
      return content.takeError();
    text = std::move(*content);
  }
  return encodePrompt(program, arguments, text);
}

double perSecond(uint64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

/// How the command line asks for a request's text.
Result<TextOptions> textOptions(const Program &program, const Arguments &arguments, std::vector<std::string> stops) {
  if (Error error = checkStops(program, stops))
    return error;
  Result<std::optional<uint64_t>> count = logProbabilityCount(program, arguments);
  if (!count)
    return count.takeError();
  return TextOptions{.stops = std::move(stops), .echo = arguments.has("echo"), .logProbabilities = *count};
}

/// A row of logits for each token of a prompt takes memory; then steps are as long as 64 MiB of rows allow.
uint64_t rowsNeeded(const Program &program, const TextOptions &options, uint64_t promptTokens) {
  return options.echo && options.logProbabilities ? std::min(rowsAtOnce(program.model), promptTokens) : 0;
}

Error generateOne(Program &program, const Arguments &arguments) {
  Result<std::vector<int32_t>> prompt = promptTokens(program, arguments);
  if (!prompt)
    return prompt.takeError();
  Result<TextOptions> options = textOptions(program, arguments, arguments.texts("stop"));
  if (!options)
    return options.takeError();
  bool json = arguments.has("json");
  if (!json)
    options->stream = [&](std::string_view text) {
      program.out.write(text);
      program.out.flush();
    };
  SessionNeeds needs;
  needs.rows = rowsNeeded(program, *options, prompt->size());
  Generation generation(program, std::move(*options));
  Result<Request> request = generation.request(arguments, std::move(*prompt));
  if (!request)
    return request.takeError();
  Result<uint64_t> chunk = arguments.number("chunk", 0, 1, UINT64_MAX);
  if (!chunk)
    return chunk.takeError();
  Result<std::unique_ptr<Session>> session = openSession(program, arguments, needs);
  if (!session)
    return session.takeError();
  Scheduler scheduler(*(*session)->engine, {.chunk = *chunk, .endTokens = program.endTokens});
  Result<uint64_t> number = scheduler.submit(std::move(*request), generation);
  if (!number)
    return number.takeError();
  generation.begin();
  while (!scheduler.idle()) {
    if (Error error = scheduler.step())
      return error;
    if (program.out.failed())
      return {}; // nobody reads any more: main tells which way
  }
  const Completion &result = generation.result;
  if (result.reason == Finish::Failed)
    return makeError("%s", result.error.c_str());
  if (json) {
    JsonWriter writer(program.out);
    writer.beginObject();
    generation.write(writer);
    writer.endObject();
  }
  program.out.write("\n");
  program.out.flush(); // before what follows on stderr
  if (!json) {
    generation.noteScores();
    uint64_t decoded = result.tokens.empty() ? 0 : result.tokens.size() - 1;
    std::string seed = generation.greedy ? "" : formatText("; seed %" PRIu64, generation.seed);
    note("prompt: %" PRIu64 " tokens, %.1f tok/s; generated: %zu tokens, %.1f tok/s; end: %s%s", result.promptTokens,
         perSecond(result.promptTokens, result.promptSeconds), result.tokens.size(),
         perSecond(decoded, result.decodeSeconds), finishName(result.reason), seed.c_str());
  }
  return {};
}

/// Writes a value of a request back as it came.
void writeValue(JsonWriter &json, const JsonValue &value) {
  switch (value.kind) {
  case JsonValue::Kind::Null:
    return json.null();
  case JsonValue::Kind::Boolean:
    return json.boolean(value.boolean);
  case JsonValue::Kind::Number:
    return json.raw(value.text);
  default:
    return json.text(value.text);
  }
}

bool sameId(const JsonValue &a, const JsonValue &b) {
  return a.kind == b.kind && a.text == b.text && a.boolean == b.boolean;
}

/// Reads requests as lines while steps go on, and prints what finishes.
class JsonLines {
public:
  JsonLines(Program &program, const Arguments &arguments, Scheduler &scheduler)
      : program(program), arguments(arguments), scheduler(scheduler) {}

  Error run() {
    while (open || !scheduler.idle()) {
      if (Error error = read(/*wait=*/scheduler.idle()))
        return error;
      if (Error error = scheduler.step())
        return error;
      report();
      if (program.out.failed())
        return {};
    }
    if (failures != 0)
      return makeError("%" PRIu64 " of the requests failed", failures);
    return {};
  }

private:
  /// Takes all lines that are there; waits for one if `wait`.
  Error read(bool wait) {
    while (open) {
      pollfd descriptor = {0, POLLIN, 0};
      int ready = poll(&descriptor, 1, wait ? -1 : 0);
      if (ready < 0 && errno != EINTR)
        return makeError("stdin: %s", strerror(errno));
      if (ready <= 0)
        return {};
      char buffer[65536];
      ssize_t count = ::read(0, buffer, sizeof buffer);
      if (count < 0)
        return makeError("stdin: %s", strerror(errno));
      open = count > 0;
      pending.append(buffer, static_cast<size_t>(count));
      if (!open && !pending.empty())
        pending += '\n';
      size_t start = 0;
      for (size_t end; (end = pending.find('\n', start)) != std::string::npos; start = end + 1)
        take(std::string_view(pending).substr(start, end - start));
      pending.erase(0, start);
      wait = wait && scheduler.idle();
    }
    return {};
  }

  void take(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos)
      return;
    Result<JsonValue> value = parseJson(line);
    JsonValue id;
    Error error;
    if (!value)
      error = value.takeError();
    else if (value->kind != JsonValue::Kind::Object)
      error = makeError("expected a JSON object");
    else {
      const JsonValue *given = value->find("id"), *cancelled = value->find("cancel");
      // Lists and objects have no text of their own to be told apart by, nor to be printed.
      auto isNested = [](const JsonValue *one) {
        return one && (one->kind == JsonValue::Kind::Array || one->kind == JsonValue::Kind::Object);
      };
      if (isNested(given) || isNested(cancelled)) {
        error = makeError("id: expected a string or a number, got a list or an object");
      } else {
        if (given)
          id = *given;
        if (cancelled)
          return cancel(*cancelled);
        error = submit(*value, id);
      }
    }
    if (error)
      fail(id, error.message());
  }

  void fail(const JsonValue &id, const std::string &message) {
    ++failures;
    JsonWriter json(program.out);
    json.beginObject();
    json.key("id");
    writeValue(json, id);
    json.key("error");
    json.text(message);
    json.endObject();
    program.out.write("\n");
    program.out.flush();
  }

  void cancel(const JsonValue &id) {
    for (const Active &one : active)
      if (!one.generation->finished && sameId(one.id, id)) {
        scheduler.cancel(one.number);
        return report();
      }
    fail(id, "cancel: no such request is going on");
  }

  /// A key that is the long name of an option: true or false for a switch, else a number.
  static Error addOption(Arguments &to, const std::string &key, const JsonValue &value) {
    static const std::vector<std::string> switches = {"greedy", "ignore-eos", "raw", "echo", "allow-special"};
    static const std::vector<std::string> numbers = {"max-new-tokens", "temperature",        "top-k", "top-p",
                                                     "min-p",          "repetition-penalty", "seed",  "logprobs"};
    std::string name = optionName(generateVerb, key);
    if (std::find(switches.begin(), switches.end(), name) != switches.end()) {
      if (value.kind != JsonValue::Kind::Boolean)
        return makeError("%s: expected true or false", key.c_str());
      return value.boolean ? to.add(generateVerb, name, "") : Error();
    }
    if (std::find(numbers.begin(), numbers.end(), name) != numbers.end()) {
      if (value.kind != JsonValue::Kind::Number)
        return makeError("%s: expected a number", key.c_str());
      return to.add(generateVerb, name, value.text);
    }
    return makeError("unknown key '%s'", key.c_str());
  }

  Error submit(const JsonValue &value, const JsonValue &id) {
    Arguments mine = arguments; // options on the command line hold for all requests; a line's own come later and win
    std::vector<int32_t> prompt;
    std::vector<std::string> stops = arguments.texts("stop");
    bool given = false;
    const std::string *text = nullptr;
    JsonValue conversation;
    for (const auto &[key, member] : value.members) {
      using Kind = JsonValue::Kind;
      if (key == "id")
        continue;
      if (key == "tokens") {
        given = true;
        if (member.kind != Kind::Array)
          return makeError("tokens: expected a list of ids");
        for (const JsonValue &item : member.items) {
          Result<uint64_t> token = parseWhole(item.text, "tokens", 0, INT32_MAX);
          if (!token || item.kind != Kind::Number)
            return makeError("tokens: expected a list of ids");
          prompt.push_back(static_cast<int32_t>(*token));
        }
      } else if (key == "prompt") {
        if (member.kind != Kind::String)
          return makeError("prompt: expected a string");
        text = &member.text;
      } else if (key == "messages" || key == "tools" || key == "documents") {
        setMember(conversation, key, member);
      } else if (key == "template_args") {
        if (member.kind != Kind::Object)
          return makeError("template_args: expected an object");
        for (const auto &[name, variable] : member.members)
          setMember(conversation, name, variable);
      } else if (key == "stop") {
        stops.clear();
        if (member.kind == Kind::String)
          stops.push_back(member.text);
        else if (member.kind != Kind::Array)
          return makeError("stop: expected a string or a list of strings");
        for (const JsonValue &item : member.items) {
          if (item.kind != Kind::String)
            return makeError("stop: expected a string or a list of strings");
          stops.push_back(item.text);
        }
      } else if (Error error = addOption(mine, key, member))
        return error;
    }
    bool chat = conversation.find("messages") != nullptr;
    if (given + (text != nullptr) + chat != 1)
      return makeError("expected one of prompt, messages and tokens");
    if (!chat && !conversation.members.empty())
      return makeError("%s: only with messages", conversation.members[0].key.c_str());
    if (!given) {
      Result<std::vector<int32_t>> ids =
          chat ? encodeConversation(program, mine, std::move(conversation)) : encodePrompt(program, mine, *text);
      if (!ids)
        return ids.takeError();
      prompt = std::move(*ids);
    }
    Result<TextOptions> options = textOptions(program, mine, std::move(stops));
    if (!options)
      return options.takeError();
    auto generation = std::make_unique<Generation>(program, std::move(*options));
    Result<Request> request = generation->request(mine, std::move(prompt));
    if (!request)
      return request.takeError();
    Result<uint64_t> number = scheduler.submit(std::move(*request), *generation);
    if (!number)
      return number.takeError();
    generation->begin();
    active.push_back({*number, id, std::move(generation)});
    return {};
  }

  void report() {
    for (const Active &one : active) {
      const Generation &generation = *one.generation;
      if (!generation.finished)
        continue;
      if (generation.result.reason == Finish::Failed) {
        fail(one.id, generation.result.error);
        continue;
      }
      JsonWriter json(program.out);
      json.beginObject();
      json.key("id");
      writeValue(json, one.id);
      generation.write(json);
      json.endObject();
      program.out.write("\n");
      program.out.flush();
    }
    std::erase_if(active, [](const Active &one) { return one.generation->finished; });
  }

  /// A request that goes on.
  struct Active {
    uint64_t number; ///< the scheduler's
    JsonValue id;    ///< as its line gave it
    std::unique_ptr<Generation> generation;
  };

  Program &program;
  const Arguments &arguments;
  Scheduler &scheduler;
  bool open = true;
  std::string pending;
  std::vector<Active> active;
  uint64_t failures = 0;
};

Error generateMany(Program &program, const Arguments &arguments) {
  for (const char *name : {"prompt", "file", "tokens"})
    if (arguments.has(name))
      return makeUsageError("generate: --jsonl reads prompts from stdin: leave out %s", spelled(name).c_str());
  Result<uint64_t> chunk = arguments.number("chunk", 0, 1, UINT64_MAX);
  if (!chunk)
    return chunk.takeError();
  SessionNeeds needs;
  needs.sequences = program.model.max_batch;
  Result<std::unique_ptr<Session>> session = openSession(program, arguments, needs);
  if (!session)
    return session.takeError();
  Scheduler scheduler(*(*session)->engine, {.chunk = *chunk, .endTokens = program.endTokens});
  return JsonLines(program, arguments, scheduler).run();
}

Error runGenerate(Program &program, const Arguments &arguments) {
  return arguments.has("jsonl") ? generateMany(program, arguments) : generateOne(program, arguments);
}

} // namespace

const VerbSpec generateVerb = {"generate",
                               "Continues a prompt.",
                               "-p TEXT | -f FILE | - | --tokens IDS [options]",
                               "-p 'The capital of France is' -n 8 --greedy",
                               generateOptions,
                               "-",
                               runGenerate};

} // namespace ingot::rt
