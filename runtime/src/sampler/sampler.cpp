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

/// Buckets of scores, by their distance from the largest: 64 for each unit. The last has all weights of zero.
constexpr float bucketsPerUnit = 64;
constexpr uint64_t bucketCount = static_cast<uint64_t>(-INGOT_RT_EXP_LEAST * bucketsPerUnit) + 2;
/// Tokens that are looked at together: vectors for what vectors can do, then one by one.
constexpr uint64_t piece = 256;

constexpr float leastExponent = INGOT_RT_EXP_LEAST; // below 2^-41 everything is zero

/// exp(x) as mantissa * 2^(16 - halvings), for x from -28.8 to 0; without a branch, so that loops of it become vectors.
inline void expParts(float x, int32_t &mantissa, int32_t &halvings) {
  constexpr float log2e = INGOT_RT_EXP_LOG2E, toInteger = INGOT_RT_EXP_TO_INTEGER;
  constexpr float coefficients[] = INGOT_RT_EXP_COEFFICIENTS;
  float n = (x * log2e + toInteger) - toInteger;
  float r = (x - n * INGOT_RT_EXP_LN2_HIGH) - n * INGOT_RT_EXP_LN2_LOW;
  float p = coefficients[0];
  for (size_t i = 1; i < std::size(coefficients); ++i)
    p = p * r + coefficients[i];
  mantissa = static_cast<int32_t>(p * (1 << INGOT_RT_EXP_MANTISSA_BITS));
  halvings = static_cast<int32_t>(-n);
}

inline uint64_t fixedOf(int32_t mantissa, int32_t halvings) {
  return static_cast<uint64_t>(mantissa) << (INGOT_RT_WEIGHT_BITS - INGOT_RT_EXP_MANTISSA_BITS) >> halvings;
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

uint64_t expFixed(float x) {
  if (!(x > leastExponent))
    return 0;
  int32_t mantissa, halvings;
  expParts(x, mantissa, halvings);
  return fixedOf(mantissa, halvings);
}

int32_t largestIndex(const float *values, uint64_t count) {
  // Lanes side by side, so that vectors do it; then the first of those that are equal.
  constexpr uint64_t lanes = 16;
  float largest[lanes];
  int32_t notANumber[lanes] = {};
  std::fill_n(largest, lanes, -infinity);
  auto take = [&](float value, uint64_t lane) {
    largest[lane] = value > largest[lane] ? value : largest[lane];
    notANumber[lane] |= value != value;
  };
  uint64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (uint64_t lane = 0; lane < lanes; ++lane)
      take(values[i + lane], lane);
  for (; i < count; ++i)
    take(values[i], 0);
  const float most = *std::max_element(largest, largest + lanes);
  if (std::any_of(notANumber, notANumber + lanes, [](int32_t found) { return found != 0; }) || !(most > -infinity))
    return -1;
  return static_cast<int32_t>(std::find(values, values + count, most) - values);
}

uint64_t randomBits(uint64_t seed, uint64_t index) {
  static constexpr char name[] = "sampler";
  uint32_t words[4];
  ingot_rt_random_block(ingot_rt_random_key(seed, name, sizeof name - 1), index, words);
  return static_cast<uint64_t>(words[1]) << 32 | words[0];
}

Sampler::Sampler(uint64_t vocab)
    : vocab(vocab), largestScores(vocab), kept(vocab), keptIds(vocab), weights(vocab), buckets(vocab), boundary(vocab),
      sums((vocab + piece - 1) / piece), allowed(tokenSetWords(vocab)) {}

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

Sampler::Scores Sampler::keepTopK(Scores scores, uint64_t k) {
  const float bar = kthLargest(scores.values, k);
  if (!(bar > -infinity))
    return scores;
  uint64_t count = 0;
  for (uint64_t i = 0; i < scores.count; ++i)
    if (scores.values[i] >= bar) {
      kept[count] = scores.values[i];
      keptIds[count++] = static_cast<int32_t>(i);
    }
  return {kept.data(), keptIds.data(), count};
}

uint64_t Sampler::weigh(Scores scores, float largest) {
  int32_t mantissas[piece], halvings[piece];
  uint64_t total = 0; // at most 2^40 for each, fewer than 2^23 of them
  for (uint64_t start = 0; start < scores.count; start += piece) {
    const uint64_t count = std::min(piece, scores.count - start);
    for (uint64_t i = 0; i < count; ++i) {
      float x = scores.values[start + i] - largest;
      bool counts = x > leastExponent;
      expParts(counts ? x : leastExponent, mantissas[i], halvings[i]);
      mantissas[i] = counts ? mantissas[i] : 0;
    }
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; ++i)
      sum += weights[start + i] = fixedOf(mantissas[i], halvings[i]);
    sums[start / piece] = sum;
    total += sum;
  }
  return total;
}

float Sampler::keepTopP(Scores scores, float largest, float topP, uint64_t total) {
  // The reference drops a token when it and all less likely ones together have a probability of at most 1 - topP. Seen
  // from the top: tokens are kept, likeliest first, until those kept have at least topP; exactly, until what is left
  // weighs no more than (1 - topP) of the total.
  const auto droppable = static_cast<uint64_t>((1.0 - static_cast<double>(topP)) * static_cast<double>(total));
  // Two sums for each bucket: neighbours are often in one, and need not wait for each other.
  uint64_t sumOf[bucketCount][2] = {};
  for (uint64_t start = 0; start < scores.count; start += piece) {
    const uint64_t count = std::min(piece, scores.count - start);
    for (uint64_t i = start; i < start + count; ++i) {
      float distance = largest - scores.values[i];
      buckets[i] = static_cast<uint16_t>(
          static_cast<int32_t>((distance < -leastExponent ? distance : -leastExponent) * bucketsPerUnit));
    }
    for (uint64_t i = start; i < start + count; ++i)
      sumOf[buckets[i]][i % 2] += weights[i];
  }
  // Buckets from the farthest go as a whole while they fit; the one in which the limit lies is looked at by token.
  uint64_t dropped = 0, edge = bucketCount - 1;
  for (uint64_t sum; edge > 0 && dropped + (sum = sumOf[edge][0] + sumOf[edge][1]) <= droppable; --edge)
    dropped += sum;
  boundary.clear();
  for (uint64_t i = 0; i < scores.count; ++i)
    if (buckets[i] == edge)
      boundary.push_back(i);
  // Least likely first, of equals the highest id first, so that the lowest ids stay.
  std::sort(boundary.begin(), boundary.end(), [&](uint64_t a, uint64_t b) {
    return scores.values[a] != scores.values[b] ? scores.values[a] < scores.values[b] : a > b;
  });
  // At least one token stays: if not of a nearer bucket, the last of these.
  size_t drop = 0;
  for (; drop + 1 < boundary.size() && dropped + weights[boundary[drop]] <= droppable; ++drop) {
    dropped += weights[boundary[drop]];
    weights[boundary[drop]] = 0;
  }
  return scores.values[boundary[drop]];
}

uint64_t Sampler::sumKept(Scores scores, float leastScore, uint64_t leastWeight) {
  uint64_t total = 0;
  int32_t masks[piece]; // all bits or none
  for (uint64_t start = 0; start < scores.count; start += piece) {
    const uint64_t count = std::min(piece, scores.count - start);
    uint64_t *const weight = &weights[start];
    for (uint64_t i = 0; i < count; ++i)
      masks[i] = -static_cast<int32_t>(scores.values[start + i] >= leastScore);
    if (leastWeight != 0)
      for (uint64_t i = 0; i < count; ++i)
        masks[i] &= -static_cast<int32_t>(weight[i] >= leastWeight);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; ++i)
      sum += weight[i] &= static_cast<uint64_t>(static_cast<int64_t>(masks[i]));
    sums[start / piece] = sum;
    total += sum;
  }
  return total;
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
  Scores scores = {logits, nullptr, vocab};
  if (options.topK != 0 && options.topK < vocab)
    scores = keepTopK(scores, options.topK);
  uint64_t total = weigh(scores, largest);
  if (options.topP < 1 || options.minP > 0) {
    float leastScore = options.topP < 1 ? keepTopP(scores, largest, options.topP, total) : -infinity;
    total = sumKept(scores, leastScore, leastWeightOf(options.minP));
  }
  // A number below `total`: the high half of 64 random bits times it (bias below 2^-1 in 2^64 / total).
  auto draw = static_cast<uint64_t>((static_cast<unsigned __int128>(randomBits(options.seed, index)) * total) >> 64);
  uint64_t i = 0;
  for (; draw >= sums[i / piece]; i += piece)
    draw -= sums[i / piece];
  for (; draw >= weights[i]; ++i)
    draw -= weights[i];
  return scores.ids ? scores.ids[i] : static_cast<int32_t>(i);
}

} // namespace ingot::rt
