// From options to requests, from tokens to text and JSON.
#include "cli/generation.h"

#include "tokenizer/utf8.h"

#include <cinttypes>
#include <sys/random.h>

namespace ingot::rt {

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

Error checkStops(const Program &program, const std::vector<std::string> &stops) {
  if (!stops.empty() && !program.tokenizer)
    return program.needTokenizer().takeError();
  for (const std::string &stop : stops) {
    if (stop.empty())
      return makeUsageError("stop: expected a text, got an empty one");
    if (!isValidUtf8(stop))
      return makeUsageError("stop: expected UTF-8, got bytes that are not");
  }
  return {};
}

Result<std::optional<uint64_t>> logProbabilityCount(const Program &program, const Arguments &arguments) {
  if (!arguments.has("logprobs"))
    return std::optional<uint64_t>();
  Result<uint64_t> count = arguments.number("logprobs", 0, 0, program.model.vocab);
  if (!count)
    return count.takeError();
  return std::optional<uint64_t>(*count);
}

Generation::Generation(Program &program, TextOptions newOptions)
    : program(program), options(std::move(newOptions)), matcher(options.stops) {
  if (program.tokenizer)
    decoder.emplace(*program.tokenizer, /*skipSpecial=*/true);
}

Result<Request> Generation::request(const Arguments &arguments, std::vector<int32_t> ids) {
  Request request;
  Result<uint64_t> count = newTokens(program, arguments, ids.size());
  if (!count)
    return count.takeError();
  Result<SamplingOptions> sampling = samplingOptions(program, arguments);
  if (!sampling)
    return sampling.takeError();
  if (options.echo)
    prompt = ids;
  request.prompt = std::move(ids);
  request.newTokens = *count;
  request.sampling = *sampling;
  request.ignoreEnd = arguments.has("ignore-eos");
  request.showLogits = options.logProbabilities.has_value();
  if (options.echo && options.logProbabilities)
    request.rows = Request::Rows::Every;
  seed = sampling->seed;
  greedy = sampling->picksLargest();
  return request;
}

void Generation::begin() {
  // What the prompt leaves incomplete is completed by what comes: one decoder sees all tokens.
  for (int32_t token : prompt)
    if (decoder)
      show(decoder->push(token));
    else
      showId(token);
  if (!prompt.empty() && options.logProbabilities)
    scores.push_back({prompt.front(), {}, {}});
}

Generation::ScoredToken Generation::score(int32_t token, const float *logits) const {
  uint64_t vocab = program.model.vocab;
  ScoredToken scored{token, static_cast<double>(logits[token]) - logSumExp(logits, vocab), {}};
  if (*options.logProbabilities != 0)
    scored.likeliest = likeliestTokens(logits, vocab, *options.logProbabilities);
  return scored;
}

void Generation::onRow(uint64_t, uint64_t position, const float *logits) {
  if (position + 1 < prompt.size())
    scores.push_back(score(prompt[position + 1], logits));
}

void Generation::onLogits(uint64_t, const float *logits) { row.assign(logits, logits + program.model.vocab); }

bool Generation::onToken(uint64_t, int32_t token) {
  if (options.logProbabilities)
    scores.push_back(score(token, row.data()));
  if (decoder)
    show(matcher.push(decoder->push(token)));
  else
    showId(token);
  return matcher.stopped();
}

void Generation::onFinish(const Completion &completion) {
  if (decoder) {
    show(matcher.push(decoder->finish()));
    show(matcher.finish());
  }
  result = completion;
  finished = true;
}

void Generation::show(const std::string &piece) {
  text += piece;
  if (options.stream && !piece.empty())
    options.stream(piece);
}

void Generation::showId(int32_t token) {
  if (options.stream)
    options.stream(formatText(first ? "%d" : ",%d", token));
  first = false;
}

void Generation::write(JsonWriter &json) const {
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
  if (options.logProbabilities)
    writeScores(json);
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

void Generation::writeText(JsonWriter &json, int32_t token) const {
  json.key("token");
  json.integer(token);
  json.key("text");
  if (program.tokenizer)
    json.text(validUtf8(program.tokenizer->bytes(token)));
  else
    json.null();
  json.key("logprob");
}

void Generation::writeScores(JsonWriter &json) const {
  json.key("logprobs");
  json.beginArray();
  for (const ScoredToken &scored : scores) {
    json.beginObject();
    writeText(json, scored.token);
    if (scored.logProbability)
      json.number(*scored.logProbability, 9);
    else
      json.null();
    json.key("top");
    json.beginArray();
    for (const TokenScore &one : scored.likeliest) {
      json.beginObject();
      writeText(json, one.token);
      json.number(one.logProbability, 9);
      json.endObject();
    }
    json.endArray();
    json.endObject();
  }
  json.endArray();
}

void Generation::noteScores() const {
  auto name = [&](int32_t token) {
    if (!program.tokenizer)
      return std::string();
    std::string shown;
    for (char c : validUtf8(program.tokenizer->bytes(token)))
      shown += c == '\n'                            ? "\\n"
               : c == '\r'                          ? "\\r"
               : c == '\t'                          ? "\\t"
               : static_cast<unsigned char>(c) < 32 ? "?"
                                                    : std::string(1, c);
    return " '" + shown + "'";
  };
  for (const ScoredToken &scored : scores) {
    std::string line = formatText("%d%s ", scored.token, name(scored.token).c_str());
    line += scored.logProbability ? formatText("%.4f", *scored.logProbability) : "-";
    for (size_t i = 0; i < scored.likeliest.size(); ++i)
      line += formatText("%s %d%s %.4f", i == 0 ? " |" : ",", scored.likeliest[i].token,
                         name(scored.likeliest[i].token).c_str(), scored.likeliest[i].logProbability);
    note("%s", line.c_str());
  }
}

} // namespace ingot::rt
