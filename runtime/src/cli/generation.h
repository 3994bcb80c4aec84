// What the verbs that generate share: how tokens are chosen, how many, and one request's way from tokens to text.
#ifndef INGOT_RUNTIME_CLI_GENERATION_H
#define INGOT_RUNTIME_CLI_GENERATION_H

#include "cli/program.h"
#include "generation/log_probability.h"
#include "generation/text_stream.h"
#include "scheduler/scheduler.h"

#include <functional>

namespace ingot::rt {

/// Options of every verb that generates.
#define INGOT_SAMPLING_OPTIONS                                                                                         \
  {"max-new-tokens n", "N", "most tokens to generate (default: to the end token, or until the context is full)"},      \
      {"greedy", nullptr, "the likeliest token each time; the repetition penalty stays"},                              \
      {"temperature temp", "T", "0 is greedy"}, {"top-k", "K", "the K likeliest tokens, ties kept; 0: all"},           \
      {"top-p", "P", "the likeliest tokens that together have probability P"},                                         \
      {"min-p", "P", "tokens at least P times as likely as the likeliest"},                                            \
      {"repetition-penalty", "R", "over prompt and output; 1: none"},                                                  \
      {"seed", "N", "of the random choices (default: a new one, reported)"},                                           \
      {"stop", "TEXT", "end before TEXT appears in the text; may be given again"},                                     \
      {"ignore-eos", nullptr, "go on after an end token"}

/// Defaults of generation_config.json, or the reference's, overridden by what was given. A way of sampling that is
/// asked for means that sampling is, whatever the default.
Result<SamplingOptions> samplingOptions(const Program &program, const Arguments &arguments);

/// How many tokens to generate: what was asked for, else what generation_config.json says, else to the context's end.
Result<uint64_t> newTokens(const Program &program, const Arguments &arguments, uint64_t promptLength);

/// Errors where a stop string is empty or not UTF-8, or where there is no text to look for it in.
Error checkStops(const Program &program, const std::vector<std::string> &stops);

/// The value of --logprobs, if it was given: at most the vocabulary.
Result<std::optional<uint64_t>> logProbabilityCount(const Program &program, const Arguments &arguments);

/// How one request's tokens become text.
struct TextOptions {
  std::vector<std::string> stops = {};
  bool echo = false;                                 ///< the text begins with the prompt's
  std::optional<uint64_t> logProbabilities = {};     ///< for each token its own and those of so many likeliest
  std::function<void(std::string_view)> stream = {}; ///< gets the text as it comes; empty: nobody does
};

/// One request and what becomes of it. The text is what the tokenizer's decoder makes of all tokens, special ones left
/// out, up to the stop string: always valid UTF-8, and the same streamed as at the end.
class Generation : public Listener {
public:
  Generation(Program &program, TextOptions options);

  /// Makes the request from a prompt and options: sampling, length, the rows that log-probabilities need.
  Result<Request> request(const Arguments &arguments, std::vector<int32_t> prompt);
  /// To be called once the request was taken, before its first step.
  void begin();

  void onRow(uint64_t request, uint64_t position, const float *logits) override;
  void onLogits(uint64_t request, const float *logits) override;
  bool onToken(uint64_t request, int32_t token) override;
  void onFinish(const Completion &completion) override;

  /// The members of the JSON object that --json and --jsonl share.
  void write(JsonWriter &json) const;
  /// A line on stderr for each token with its log-probabilities.
  void noteScores() const;

  Completion result;
  std::string text;
  uint64_t seed = 0;
  bool greedy = false, finished = false;

private:
  /// A token with what the model thought of it, and of others in its place.
  struct ScoredToken {
    int32_t token = 0;
    std::optional<double> logProbability; ///< none for a prompt's first: nothing comes before it
    std::vector<TokenScore> likeliest;
  };

  ScoredToken score(int32_t token, const float *logits) const;
  void writeScores(JsonWriter &json) const;
  void writeText(JsonWriter &json, int32_t token) const;
  void show(const std::string &piece);
  void showId(int32_t token);

  Program &program;
  const TextOptions options;
  std::optional<StreamDecoder> decoder;
  StopMatcher matcher;
  std::vector<int32_t> prompt;
  std::vector<float> row; ///< [vocab] that the next token is chosen from, when log-probabilities are wanted
  std::vector<ScoredToken> scores;
  bool first = true; ///< of the ids that are shown where there is no tokenizer
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CLI_GENERATION_H
