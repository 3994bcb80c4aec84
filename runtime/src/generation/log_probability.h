// Log-probabilities of tokens from rows of logits: the log-softmax, in float64 over the float32 logits.
#ifndef INGOT_RUNTIME_GENERATION_LOG_PROBABILITY_H
#define INGOT_RUNTIME_GENERATION_LOG_PROBABILITY_H

#include <cstdint>
#include <vector>

namespace ingot::rt {

/// log(sum of exp(logits[i])) over `count` >= 1 logits, with the largest taken out first. An id's log-probability is
/// its logit minus this. Terms are added in order of ids, so equal rows give equal bits. NaN where a logit is one.
double logSumExp(const float *logits, uint64_t count);

/// A token and its log-probability (natural logarithm, at most 0).
struct TokenScore {
  int32_t token = 0;
  double logProbability = 0;
};

/// The `most` likeliest tokens of a row [vocab], likeliest first, of equals the lowest id first.
std::vector<TokenScore> likeliestTokens(const float *logits, uint64_t vocab, uint64_t most);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_GENERATION_LOG_PROBABILITY_H
