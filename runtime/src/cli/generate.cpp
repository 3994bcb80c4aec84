// The verb generate: one request, or with --jsonl a stream of them.
#include "cli/verbs.h"

#include "generation/text_stream.h"
#include "ingot_rt/random.h"
#include "scheduler/scheduler.h"
#include "support/json.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

namespace ingot::rt {

namespace {

constexpr OptionSpec generateOptions[] = {
    {"prompt p", "TEXT", "the prompt"},
    {"file f", "FILE", "read the prompt from FILE, or from stdin for -"},
    {"tokens", "IDS|@FILE|-", "the prompt as ids: 1,2,3"},
    {"raw", nullptr, "take the prompt as it is (always so in this version)"},
    {"max-new-tokens n", "N", "most tokens to generate (default: to the end token, or until the context is full)"},
    {"greedy", nullptr, "the likeliest token each time; the repetition penalty stays"},
    {"temperature temp", "T", "0 is greedy"},
    {"top-k", "K", "the K likeliest tokens, ties kept; 0: all"},
    {"top-p", "P", "the likeliest tokens that together have probability P"},
    {"min-p", "P", "tokens at least P times as likely as the likeliest"},
    {"repetition-penalty", "R", "over prompt and output; 1: none"},
    {"seed", "N", "of the random choices (default: a new one, reported)"},
    {"stop", "TEXT", "end before TEXT appears; may be given again"},
    {"ignore-eos", nullptr, "go on after an end token"},
    {"chunk", "N", "compute at most N tokens of a prompt in a step"},
    {"json", nullptr, "print one JSON object: tokens, text, finish_reason, seed, timings"},
    {"jsonl", nullptr,
     "read requests from stdin, a JSON object a line; print results as they finish. Keys: id, prompt "
     "or tokens, option names; {\"cancel\": ID}"},
    INGOT_SESSION_OPTIONS,
};

/// Defaults of generation_config.json, or the reference's, overridden by what was given. A way of sampling that is
/// asked for means that sampling is, whatever the default.
Result<SamplingOptions> samplingOptions(const Program &program, const Arguments &arguments) {
  SamplingOptions options;
  const ingot_rt_generation_defaults *defaults = program.defaults;
  bool samples = defaults && defaults->do_sample;
  for (const char *name : {"temperature", "top-k", "top-p", "min-p"})
    samples |= arguments.has(name);
  options.greedy = arguments.has("greedy") || !samples;
  Result<float> temperature = arguments.real("temperature", defaults ? defaults->temperature : 1);
  Result<uint64_t> topK = arguments.number("top-k", defaults ? defaults->top_k : 50, 0, UINT64_MAX);
  Result<float> topP = arguments.real("top-p", defaults ? defaults->top_p : 1);
  Result<float> minP = arguments.real("min-p", defaults ? defaults->min_p : 0);
  Result<float> penalty = arguments.real("repetition-penalty", defaults ? defaults->repetition_penalty : 1);
  for (Result<float> *value : {&temperature, &topP, &minP, &penalty})
    if (!*value)
      return value->takeError();
  if (!topK)
    return topK.takeError();
  options.temperature = *temperature;
  options.topK = *topK;
  options.topP = *topP;
  options.minP = *minP;
  options.repetitionPenalty = *penalty;
  uint64_t random = 0;
  if (!arguments.has("seed") && getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random))
    random = static_cast<uint64_t>(now() * 1e9);
  random &= (uint64_t(1) << 53) - 1; // readers of JSON that use doubles keep it exactly
  Result<uint64_t> seed = arguments.number("seed", random, 0, UINT64_MAX);
  if (!seed)
    return seed.takeError();
  options.seed = *seed;
  if (Error error = options.check())
    return error;
  return options;
}

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
  Result<Tokenizer> tokenizer = program.needTokenizer();
  if (!tokenizer)
    return tokenizer.takeError();
  std::vector<int32_t> ids;
  tokenizer->encode(text, EncodeOptions(), ids);
  return ids;
}

/// How many tokens to generate: what was asked for, else what generation_config.json says, else to the context's end.
Result<uint64_t> newTokens(const Program &program, const Arguments &arguments, uint64_t promptLength) {
  uint64_t absent = UINT64_MAX;
  if (const ingot_rt_generation_defaults *defaults = program.defaults) {
    if (defaults->max_new_tokens >= 0)
      absent = static_cast<uint64_t>(defaults->max_new_tokens);
    else if (auto length = static_cast<uint64_t>(std::max<int64_t>(defaults->max_length, 0)); length > promptLength)
      absent = length - promptLength;
  }
  return arguments.number("max-new-tokens", absent, 0, UINT64_MAX);
}

/// One request and what becomes of it.
class Generation : public Listener {
public:
  Generation(Program &program, std::vector<std::string> stops, bool streams)
      : program(program), filter(std::move(stops)), streams(streams) {
    if (program.tokenizer)
      decoder.emplace(*program.tokenizer, /*skipSpecial=*/true);
  }

  bool onToken(uint64_t, int32_t token) override {
    if (decoder)
      show(filter.push(decoder->push(token)));
    else if (streams) {
      program.out.print(first ? "%d" : ",%d", token);
      program.out.flush();
    }
    first = false;
    return filter.stopped();
  }

  void onFinish(const Completion &completion) override {
    if (decoder) {
      show(filter.push(decoder->finish()));
      show(filter.finish());
    }
    result = completion;
    finished = true;
  }

  void show(const std::string &piece) {
    text += piece;
    if (streams && !piece.empty()) {
      program.out.write(piece);
      program.out.flush();
    }
  }

  /// The members of the JSON object that --json and --jsonl share.
  void write(JsonWriter &json) const {
    json.key("tokens");
    json.tokens(result.tokens.data(), result.tokens.size());
    json.key("text");
    if (program.tokenizer)
      json.text(text);
    else
      json.null();
    json.key("finish_reason");
    json.text(finishName(result.reason));
    json.key("seed");
    json.number(seed);
    json.key("timings");
    json.beginObject();
    json.key("prompt_tokens");
    json.number(result.promptTokens);
    json.key("reused_tokens");
    json.number(result.reusedTokens);
    json.key("prompt_seconds");
    json.number(result.promptSeconds, 6);
    json.key("generated_tokens");
    json.number(static_cast<uint64_t>(result.tokens.size()));
    json.key("decode_seconds");
    json.number(result.decodeSeconds, 6);
    json.endObject();
  }

  Program &program;
  std::optional<StreamDecoder> decoder;
  StopFilter filter;
  const bool streams;
  std::string text;
  Completion result;
  uint64_t seed = 0;
  JsonValue id; ///< of --jsonl
  bool first = true, finished = false;
};

Result<Request> makeRequest(const Program &program, const Arguments &arguments, std::vector<int32_t> prompt) {
  Request request;
  Result<uint64_t> count = newTokens(program, arguments, prompt.size());
  if (!count)
    return count.takeError();
  Result<SamplingOptions> sampling = samplingOptions(program, arguments);
  if (!sampling)
    return sampling.takeError();
  request.prompt = std::move(prompt);
  request.newTokens = *count;
  request.sampling = *sampling;
  request.ignoreEnd = arguments.has("ignore-eos");
  return request;
}

double perSecond(uint64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

Error generateOne(Program &program, const Arguments &arguments) {
  Result<std::vector<int32_t>> prompt = promptTokens(program, arguments);
  if (!prompt)
    return prompt.takeError();
  Result<Request> request = makeRequest(program, arguments, std::move(*prompt));
  if (!request)
    return request.takeError();
  Result<uint64_t> chunk = arguments.number("chunk", 0, 1, UINT64_MAX);
  if (!chunk)
    return chunk.takeError();
  if (arguments.has("stop") && !program.tokenizer)
    return program.needTokenizer().takeError();
  Result<std::unique_ptr<Session>> session = openSession(program, arguments, SessionNeeds());
  if (!session)
    return session.takeError();
  bool json = arguments.has("json");
  Scheduler scheduler(*(*session)->engine, {.chunk = *chunk, .endTokens = program.endTokens});
  Generation generation(program, arguments.texts("stop"), !json);
  generation.seed = request->sampling.seed;
  bool greedy = request->sampling.picksLargest();
  Result<uint64_t> number = scheduler.submit(std::move(*request), generation);
  if (!number)
    return number.takeError();
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
    uint64_t decoded = result.tokens.empty() ? 0 : result.tokens.size() - 1;
    std::string seed = greedy ? "" : formatText("; seed %" PRIu64, generation.seed);
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
      if (const JsonValue *given = value->find("id"))
        id = *given;
      if (const JsonValue *cancelled = value->find("cancel"))
        return cancel(*cancelled);
      error = submit(*value, id);
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
    for (size_t i = 0; i < generations.size(); ++i)
      if (!generations[i]->finished && sameId(generations[i]->id, id)) {
        scheduler.cancel(numbers[i]);
        return report();
      }
    fail(id, "cancel: no such request is going on");
  }

  /// A key that is the long name of an option: true or false for a switch, else a number.
  static Error addOption(Arguments &to, const std::string &key, const JsonValue &value) {
    static const std::vector<std::string> switches = {"greedy", "ignore-eos", "raw"};
    static const std::vector<std::string> numbers = {"max-new-tokens", "temperature",        "top-k", "top-p",
                                                     "min-p",          "repetition-penalty", "seed"};
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
    bool given = false, text = false;
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
        Result<Tokenizer> tokenizer = program.needTokenizer();
        if (!tokenizer)
          return tokenizer.takeError();
        text = true;
        tokenizer->encode(member.text, EncodeOptions(), prompt);
      } else if (key == "stop") {
        if (!program.tokenizer)
          return program.needTokenizer().takeError();
        stops.clear();
        if (member.kind == Kind::String)
          stops.push_back(member.text);
        for (const JsonValue &item : member.items)
          stops.push_back(item.text);
      } else if (Error error = addOption(mine, key, member))
        return error;
    }
    if (given == text)
      return makeError("expected either prompt or tokens");
    Result<Request> request = makeRequest(program, mine, std::move(prompt));
    if (!request)
      return request.takeError();
    auto generation = std::make_unique<Generation>(program, std::move(stops), /*streams=*/false);
    generation->seed = request->sampling.seed;
    generation->id = id;
    Result<uint64_t> number = scheduler.submit(std::move(*request), *generation);
    if (!number)
      return number.takeError();
    generations.push_back(std::move(generation));
    numbers.push_back(*number);
    return {};
  }

  void report() {
    for (size_t i = 0; i < generations.size();) {
      const Generation &generation = *generations[i];
      if (!generation.finished) {
        ++i;
        continue;
      }
      if (generation.result.reason == Finish::Failed)
        fail(generation.id, generation.result.error);
      else {
        JsonWriter json(program.out);
        json.beginObject();
        json.key("id");
        writeValue(json, generation.id);
        generation.write(json);
        json.endObject();
        program.out.write("\n");
        program.out.flush();
      }
      generations.erase(generations.begin() + static_cast<ptrdiff_t>(i));
      numbers.erase(numbers.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  Program &program;
  const Arguments &arguments;
  Scheduler &scheduler;
  bool open = true;
  std::string pending;
  std::vector<std::unique_ptr<Generation>> generations;
  std::vector<uint64_t> numbers; ///< the scheduler's, of each generation
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
