// Choosing the next token from a row of logits, in the reference's order (transformers' logits processors, then its
// warpers): mask, repetition penalty; then, unless greedy, temperature, top-k, top-p, min-p and a draw.
//
// Results do not depend on the order in which a row is looked at: weights are integers, sums of them are exact, ties go
// to the lowest id.
#ifndef INGOT_RUNTIME_SAMPLER_SAMPLER_H
#define INGOT_RUNTIME_SAMPLER_SAMPLER_H

#include "ingot_rt/sampling.h"
#include "support/error.h"

#include <cstdint>
#include <vector>

namespace ingot::rt {

/// How one request's tokens are chosen.
struct SamplingOptions {
  bool greedy = false;
  float temperature = 1;       ///< 0: greedy
  uint64_t topK = 0;           ///< 0: off. Ties with the k-th largest logit are kept
  float topP = 1;              ///< 1: off. The least set of likeliest tokens whose probability exceeds it, at least one
  float minP = 0;              ///< 0: off. Tokens less likely than this share of the likeliest are dropped
  float repetitionPenalty = 1; ///< over prompt and output: positive logits are divided by it, others multiplied
  uint64_t seed = 0;
  /// Called first, with a set of all tokens (a bit for each id, the lowest first): takes forbidden ones out (grammars).
  /// Their logits are taken for -infinity. Null: none.
  void (*mask)(void *context, uint64_t *allowed, uint64_t vocab) = nullptr;
  void *maskContext = nullptr;

  bool picksLargest() const { return greedy || temperature == 0; }
  /// The largest of the logits as they are.
  bool isArgmax() const { return picksLargest() && !mask && repetitionPenalty == 1; }
  /// Ranges; errors name the option, what was expected and what was given.
  Error check() const;
  /// The same for a device: of draw `index` of a request.
  ingot_rt_sampling describe(uint64_t index) const;
  /// Fills `words` with a set of all tokens and calls the mask.
  void maskInto(uint64_t *words, uint64_t vocab) const;
};

/// 64-bit words of a set of tokens.
constexpr uint64_t tokenSetWords(uint64_t vocab) { return (vocab + 63) / 64; }

/// The ids that occurred in a sequence, each once: what the repetition penalty applies to.
class SeenTokens {
public:
  explicit SeenTokens(uint64_t vocab) : marks(tokenSetWords(vocab)) { list.reserve(64); }
  void add(int32_t token);
  const std::vector<int32_t> &ids() const { return list; }
  /// The same as a set of tokens.
  const std::vector<uint64_t> &bits() const { return marks; }

private:
  std::vector<uint64_t> marks;
  std::vector<int32_t> list;
};

/// exp(x) for x <= 0 as a fixed-point number with 40 fraction bits: 2^40 at 0. Relative error below 2^-22 where the
/// result is above 2^20 (probabilities above 1e-6 of the largest); only IEEE operations on float32, no libm, no fused
/// multiply-add, so that every processor and a GPU give the same bits.
uint64_t expFixed(float x);

/// Work space for one row at a time; everything is allocated by the constructor.
class Sampler {
public:
  explicit Sampler(uint64_t vocab);

  /// Chooses a token. `logits` [vocab] is changed. `index` numbers the draws of a request: the generator is a pure
  /// function of (seed, index). An error where no token is possible (all masked) or a logit is not a number.
  Result<int32_t> choose(float *logits, const SamplingOptions &options, const SeenTokens &seen, uint64_t index);

  /// The id of the largest logit, which has been found elsewhere; the same errors.
  static Result<int32_t> checkLargest(int32_t id, float value);
  /// A token that was chosen elsewhere, -1 for none; the same errors.
  static Result<int32_t> checkChosen(int32_t id);

private:
  /// Logits after penalty and temperature, in the order of their ids.
  struct Scores {
    const float *values;
    const int32_t *ids; ///< null: the index is the id
    uint64_t count;
  };

  Scores keepTopK(Scores scores, uint64_t k);
  float kthLargest(const float *scores, uint64_t k);
  /// Writes `weights` and `sums`; the weight of all.
  uint64_t weigh(Scores scores, float largest);
  /// The least score that is kept; the weights of those that equal it and are not become zero.
  float keepTopP(Scores scores, float largest, float topP, uint64_t total);
  /// Makes weights zero below either bound, and the sums again; the weight of what is left.
  uint64_t sumKept(Scores scores, float leastScore, uint64_t leastWeight);

  const uint64_t vocab;
  std::vector<float> largestScores; ///< [vocab] buffer of kthLargest
  std::vector<float> kept;          ///< [vocab] scores that top-k leaves
  std::vector<int32_t> keptIds;     ///< [vocab]
  std::vector<uint64_t> weights;    ///< [vocab] expFixed(score - largest score)
  std::vector<uint16_t> buckets;    ///< [vocab] of each score
  std::vector<uint64_t> boundary;   ///< [vocab] indices of scores in the bucket in which top-p's limit lies
  std::vector<uint64_t> sums;       ///< [vocab / 256, rounded up] of the weights of so many tokens each
  std::vector<uint64_t> allowed;    ///< a set of tokens
};

/// Index of the largest of `count` numbers, the lowest of equals; -1 when one is NaN or all are -infinity.
int32_t largestIndex(const float *values, uint64_t count);

/// 64 random bits: words of Philox under the seed's key at counter `index`.
uint64_t randomBits(uint64_t seed, uint64_t index);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_SAMPLER_SAMPLER_H
