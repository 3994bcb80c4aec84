// The sampler's steps.
#include "sampler/sampler.h"

#include "ingot_rt/random.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <iterator>
#include <limits>

namespace ingot::rt {

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr uint64_t one = uint64_t(1) << INGOT_RT_WEIGHT_BITS; ///< expFixed(0)

/// Bucket of a weight on a scale of 64 steps per doubling, larger weights in larger buckets. Weights below 64 have one
/// each. The largest weight, 2^40, is in the last.
constexpr uint64_t bucketOf(uint64_t weight) {
  if (weight < 64)
    return weight;
  auto power = static_cast<uint64_t>(std::bit_width(weight)) - 7; // weight >> power is in [64, 127]
  return 64 * power + (weight >> power);
}
constexpr uint64_t bucketCount = bucketOf(one) + 1;
/// The smallest weight of a bucket.
constexpr uint64_t leastOf(uint64_t bucket) {
  if (bucket < 64)
    return bucket;
  uint64_t power = bucket / 64 - 1;
  return (bucket - 64 * power) << power;
}
static_assert(leastOf(bucketOf(one)) == one && bucketOf(leastOf(1000)) == 1000 && bucketOf(leastOf(1001) - 1) == 1000);

/// exp(x) as mantissa * 2^(16 - halvings), for x from -28.8 to 0; without a branch, so that loops of it become vectors.
struct FixedParts {
  int32_t mantissa, halvings;
};
constexpr float leastExponent = INGOT_RT_EXP_LEAST; // below 2^-41 everything is zero

inline FixedParts expParts(float x) {
  constexpr float log2e = INGOT_RT_EXP_LOG2E, toInteger = INGOT_RT_EXP_TO_INTEGER;
  constexpr float coefficients[] = INGOT_RT_EXP_COEFFICIENTS;
  float n = (x * log2e + toInteger) - toInteger;
  float r = (x - n * INGOT_RT_EXP_LN2_HIGH) - n * INGOT_RT_EXP_LN2_LOW;
  float p = coefficients[0];
  for (size_t i = 1; i < std::size(coefficients); ++i)
    p = p * r + coefficients[i];
  return {static_cast<int32_t>(p * (1 << INGOT_RT_EXP_MANTISSA_BITS)), static_cast<int32_t>(-n)};
}

inline uint64_t fixedOf(FixedParts parts) {
  return static_cast<uint64_t>(parts.mantissa) << (INGOT_RT_WEIGHT_BITS - INGOT_RT_EXP_MANTISSA_BITS) >> parts.halvings;
}

/// The weight below which tokens are not drawn.
uint64_t leastWeightOf(float minP) {
  return static_cast<uint64_t>(static_cast<double>(minP) * static_cast<double>(one));
}
} // namespace

Error SamplingOptions::check() const {
  // Written so that a NaN fails.
  if (!(temperature >= 0 && temperature < infinity))
    return makeUsageError("temperature: expected a number of at least 0 (0 is greedy), got %g", temperature);
  if (!(topP >= 0 && topP <= 1))
    return makeUsageError("top-p: expected a number from 0 to 1, got %g", topP);
  if (!(minP >= 0 && minP <= 1))
    return makeUsageError("min-p: expected a number from 0 to 1, got %g", minP);
  if (!(repetitionPenalty > 0 && repetitionPenalty < infinity))
    return makeUsageError("repetition-penalty: expected a number above 0, got %g", repetitionPenalty);
  return {};
}

ingot_rt_sampling SamplingOptions::describe(uint64_t index) const {
  ingot_rt_sampling row = {};
  row.temperature = greedy ? 0 : temperature;
  row.repetition_penalty = repetitionPenalty;
  row.top_k = topK;
  row.droppable = 1.0 - static_cast<double>(topP);
  row.least_weight = leastWeightOf(minP);
  row.random = randomBits(seed, index);
  row.sets = (repetitionPenalty != 1 ? uint64_t(1) << INGOT_RT_SEEN : 0) | (mask ? uint64_t(1) << INGOT_RT_ALLOWED : 0);
  return row;
}

void SamplingOptions::maskInto(uint64_t *words, uint64_t vocab) const {
  std::fill_n(words, tokenSetWords(vocab), ~uint64_t(0));
  mask(maskContext, words, vocab);
}

void SeenTokens::add(int32_t token) {
  auto id = static_cast<uint64_t>(token);
  if (uint64_t bit = uint64_t(1) << (id % 64); !(marks[id / 64] & bit)) {
    marks[id / 64] |= bit;
    list.push_back(token);
  }
}

uint64_t expFixed(float x) { return x > leastExponent ? fixedOf(expParts(x)) : 0; }

int32_t largestIndex(const float *values, uint64_t count) {
  float largest = -infinity;
  int32_t index = -1;
  bool number = true;
  for (uint64_t i = 0; i < count; ++i) {
    number &= values[i] == values[i];
    if (values[i] > largest) {
      largest = values[i];
      index = static_cast<int32_t>(i);
    }
  }
  return number ? index : -1;
}

uint64_t randomBits(uint64_t seed, uint64_t index) {
  static constexpr char name[] = "sampler";
  uint32_t words[4];
  ingot_rt_random_block(ingot_rt_random_key(seed, name, sizeof name - 1), index, words);
  return static_cast<uint64_t>(words[1]) << 32 | words[0];
}

Sampler::Sampler(uint64_t vocab)
    : vocab(vocab), largestScores(vocab), candidates(vocab), boundary(vocab), allowed(tokenSetWords(vocab)) {}

float Sampler::kthLargest(const float *scores, uint64_t k) {
  // The first of `largestScores` hold what may still be among the k largest; whenever it is full, all but k go, and the
  // k-th becomes the bar for what comes. One pass with few copies when k is small.
  uint64_t capacity = std::min(vocab, std::max<uint64_t>(4 * k, 256)), count = 0;
  float bar = -infinity;
  auto reduce = [&] {
    std::nth_element(largestScores.begin(), largestScores.begin() + static_cast<ptrdiff_t>(k - 1),
                     largestScores.begin() + static_cast<ptrdiff_t>(count), std::greater<>());
    count = k;
    bar = largestScores[k - 1];
  };
  for (uint64_t i = 0; i < vocab; ++i) {
    if (!(scores[i] > bar) && count >= k)
      continue;
    if (count == capacity)
      reduce();
    if (scores[i] > bar || count < k)
      largestScores[count++] = scores[i];
  }
  if (count > k)
    reduce();
  return *std::min_element(largestScores.begin(), largestScores.begin() + static_cast<ptrdiff_t>(count));
}

void Sampler::collect(const float *scores, float largest, uint64_t topK) {
  float bar = topK != 0 && topK < vocab ? kthLargest(scores, topK) : -infinity;
  candidates.clear();
  if (bar > -infinity) {
    for (uint64_t i = 0; i < vocab; ++i)
      if (scores[i] >= bar)
        candidates.push_back({scores[i], static_cast<int32_t>(i), expFixed(scores[i] - largest)});
    return;
  }
  // All of them: a piece's exponentials at once, then its candidates.
  constexpr uint64_t piece = 256;
  FixedParts parts[piece];
  for (uint64_t start = 0; start < vocab; start += piece) {
    uint64_t count = std::min(piece, vocab - start);
    const float *values = scores + start;
    for (uint64_t i = 0; i < count; ++i) {
      float x = values[i] - largest;
      parts[i] = expParts(x > leastExponent ? x : leastExponent);
    }
    for (uint64_t i = 0; i < count; ++i)
      if (values[i] > -infinity)
        candidates.push_back(
            {values[i], static_cast<int32_t>(start + i), values[i] - largest > leastExponent ? fixedOf(parts[i]) : 0});
  }
}

void Sampler::keepTopP(float topP) {
  // The reference drops a token when it and all less likely ones together have a probability of at most 1 - topP. Seen
  // from the top: tokens are kept, likeliest first, until those kept have at least topP; exactly, until what is left
  // weighs no more than (1 - topP) of the total.
  uint64_t total = 0, sums[bucketCount] = {};
  for (const Candidate &candidate : candidates) {
    total += candidate.weight; // at most 2^40 each, fewer than 2^23 of them
    sums[bucketOf(candidate.weight)] += candidate.weight;
  }
  auto droppable = static_cast<uint64_t>((1.0 - static_cast<double>(topP)) * static_cast<double>(total));
  // Buckets from the bottom go as a whole while they fit; the bucket in which the limit lies is looked at by token.
  uint64_t dropped = 0, edge = 0;
  while (edge < bucketCount - 1 && dropped + sums[edge] <= droppable)
    dropped += sums[edge++];
  const uint64_t edgeBegin = leastOf(edge), edgeEnd = leastOf(edge + 1);
  std::erase_if(candidates, [&](const Candidate &candidate) { return candidate.weight < edgeBegin; });
  boundary.clear();
  for (const Candidate &candidate : candidates)
    if (candidate.weight < edgeEnd)
      boundary.push_back(candidate);
  // Least likely first, of equals the highest id first, so that the lowest ids stay.
  std::sort(boundary.begin(), boundary.end(), [](const Candidate &a, const Candidate &b) {
    return a.score != b.score ? a.score < b.score : a.id > b.id;
  });
  bool above = boundary.size() < candidates.size();
  size_t drop = 0, most = boundary.size() - (above || boundary.empty() ? 0 : 1); // at least one token stays
  while (drop < most && dropped + boundary[drop].weight <= droppable)
    dropped += boundary[drop++].weight;
  std::erase_if(candidates, [&](const Candidate &candidate) {
    if (candidate.weight >= edgeEnd)
      return false;
    // Dropped if it stands before boundary[drop].
    if (drop == boundary.size())
      return true;
    const Candidate &first = boundary[drop];
    return candidate.score != first.score ? candidate.score < first.score : candidate.id > first.id;
  });
}

static Error noToken() { return makeError("no token can be chosen: a logit is not a number or all are -infinity"); }

Result<int32_t> Sampler::checkLargest(int32_t id, float value) {
  if (!(value > -infinity)) // or not a number
    return noToken();
  return id;
}

Result<int32_t> Sampler::checkChosen(int32_t id) {
  if (id < 0)
    return noToken();
  return id;
}

Result<int32_t> Sampler::choose(float *logits, const SamplingOptions &options, const SeenTokens &seen, uint64_t index) {
  if (options.mask) {
    options.maskInto(allowed.data(), vocab);
    for (uint64_t i = 0; i < vocab; ++i)
      if (!(allowed[i / 64] >> (i % 64) & 1))
        logits[i] = -infinity;
  }
  if (options.repetitionPenalty != 1)
    for (int32_t id : seen.ids())
      logits[id] = logits[id] < 0 ? logits[id] * options.repetitionPenalty : logits[id] / options.repetitionPenalty;
  int32_t best = largestIndex(logits, vocab);
  if (best < 0)
    return noToken();
  if (options.picksLargest())
    return best;
  if (options.temperature != 1)
    for (uint64_t i = 0; i < vocab; ++i)
      logits[i] = logits[i] / options.temperature;
  float largest = logits[best];
  if (!(std::fabs(largest) < infinity)) // a tiny temperature overflows: the limit of the distribution is its largest
    return best;
  collect(logits, largest, options.topK);
  if (options.topP < 1)
    keepTopP(options.topP);
  const uint64_t leastWeight = leastWeightOf(options.minP);
  uint64_t total = 0;
  for (const Candidate &candidate : candidates)
    total += candidate.weight >= leastWeight ? candidate.weight : 0;
  // A number below `total`: the high half of 64 random bits times it (bias below 2^-1 in 2^64 / total).
  auto draw = static_cast<uint64_t>((static_cast<unsigned __int128>(randomBits(options.seed, index)) * total) >> 64);
  for (const Candidate &candidate : candidates) {
    uint64_t weight = candidate.weight >= leastWeight ? candidate.weight : 0;
    if (draw < weight)
      return candidate.id;
    draw -= weight;
  }
  return best; // not reached: the weights above add up to total, and the largest is 2^40
}

} // namespace ingot::rt
