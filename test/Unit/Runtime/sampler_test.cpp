// The sampler against its definition, written with sorting and doubles.
#include "sampler/sampler.h"

#include "ingot_rt/random.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace ingot::rt;

namespace {

std::vector<float> row(uint64_t seed, uint64_t vocab, float scale) {
  std::vector<float> logits(vocab);
  for (uint64_t i = 0; i < vocab; ++i) {
    uint32_t words[4];
    ingot_rt_random_block(seed, i, words);
    logits[i] = scale * (static_cast<float>(words[0] % 2001) - 1000) / 1000; // coarse: many ties
  }
  return logits;
}

/// The tokens that may be drawn, by the reference's warpers in order; ties at the edge of top-p go to the lowest ids.
std::map<int32_t, double> allowed(std::vector<float> logits, const SamplingOptions &options) {
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<int32_t>(i);
  for (float &logit : logits)
    logit = logit / options.temperature;
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  if (options.topK != 0 && options.topK < order.size()) {
    float bar = logits[order[options.topK - 1]];
    std::erase_if(order, [&](int32_t id) { return logits[id] < bar; });
  }
  auto probability = [&](int32_t id) { return std::exp(double(logits[id]) - logits[order[0]]); };
  double total = 0;
  for (int32_t id : order)
    total += probability(id);
  if (options.topP < 1) {
    double below = 0;
    while (order.size() > 1 && below + probability(order.back()) <= (1 - double(options.topP)) * total) {
      below += probability(order.back());
      order.pop_back();
    }
  }
  std::erase_if(order, [&](int32_t id) { return probability(id) < options.minP; });
  total = 0;
  for (int32_t id : order)
    total += probability(id);
  std::map<int32_t, double> result;
  for (int32_t id : order)
    result[id] = probability(id) / total;
  return result;
}

int32_t choose(Sampler &sampler, std::vector<float> logits, const SamplingOptions &options, uint64_t index,
               const std::vector<int32_t> &text = {}) {
  SeenTokens seen(logits.size());
  for (int32_t token : text)
    seen.add(token);
  Result<int32_t> token = sampler.choose(logits.data(), options, seen, index);
  EXPECT_TRUE(token) << token.takeError().message();
  return token ? *token : -1;
}

TEST(Sampler, ExpIsWithinItsStatedError) {
  EXPECT_EQ(expFixed(0), uint64_t(1) << 40);
  EXPECT_EQ(expFixed(-100), 0u);
  EXPECT_EQ(expFixed(-INFINITY), 0u);
  uint64_t last = expFixed(0);
  for (int i = 0; i < 40000; ++i) {
    float x = -0.0007f * static_cast<float>(i);
    double exact = std::exp(double(x)) * 0x1p40;
    uint64_t got = expFixed(x);
    if (exact > 0x1p20) // beyond that, the fixed point is what limits
      ASSERT_LT(std::fabs(double(got) - exact) / exact, 0x1p-22 + 1 / exact) << x;
    else
      ASSERT_LT(std::fabs(double(got) - exact), 1.5) << x;
    ASSERT_LE(got, last + last / 1000000) << "falls with x";
    last = got;
  }
}

TEST(Sampler, DrawsFromExactlyWhatTheWarpersLeave) {
  constexpr uint64_t vocab = 300;
  Sampler sampler(vocab);
  int cases = 0;
  for (uint64_t topK : {0, 1, 7, 60, 299, 1000})
    for (float topP : {0.0f, 0.3f, 0.9f, 1.0f})
      for (float minP : {0.0f, 0.2f})
        for (float temperature : {0.4f, 1.0f, 2.5f}) {
          SamplingOptions options;
          options.topK = topK;
          options.topP = topP;
          options.minP = minP;
          options.temperature = temperature;
          options.seed = static_cast<uint64_t>(++cases);
          std::vector<float> logits = row(static_cast<uint64_t>(cases), vocab, 4);
          std::map<int32_t, double> expected = allowed(logits, options);
          std::map<int32_t, uint64_t> counts;
          constexpr uint64_t draws = 1000;
          for (uint64_t i = 0; i < draws; ++i)
            ++counts[choose(sampler, logits, options, i)];
          for (const auto &[id, count] : counts)
            ASSERT_TRUE(expected.count(id))
                << "id " << id << " top-k " << topK << " top-p " << topP << " min-p " << minP;
          // Every likely token comes, about as often as it should: six standard deviations.
          for (const auto &[id, probability] : expected) {
            double mean = probability * draws, deviation = std::sqrt(mean * (1 - probability)) + 1;
            ASSERT_NEAR(double(counts[id]), mean, 6 * deviation) << "id " << id << " case " << cases;
          }
        }
}

TEST(Sampler, TopKKeepsTiesAndTopPTheLowestIds) {
  Sampler sampler(6);
  SamplingOptions options;
  options.topK = 2;
  std::set<int32_t> seen;
  for (uint64_t i = 0; i < 300; ++i)
    seen.insert(choose(sampler, {1, 3, 2, 2, 2, 0}, options, i));
  EXPECT_EQ(seen, (std::set<int32_t>{1, 2, 3, 4}));
  options.topK = 0;
  options.topP = 0.5f;
  seen.clear();
  for (uint64_t i = 0; i < 300; ++i)
    seen.insert(choose(sampler, {1, 1, 1, 1, 1, 1}, options, i));
  EXPECT_EQ(seen, (std::set<int32_t>{0, 1, 2})) << "half of six equals: the lowest three";
}

TEST(Sampler, GreedyTakesTheFirstOfTheLargestAndKeepsThePenalty) {
  Sampler sampler(4);
  SamplingOptions options;
  options.greedy = true;
  EXPECT_EQ(choose(sampler, {1, 5, 5, 2}, options, 0), 1);
  options.repetitionPenalty = 2;
  EXPECT_EQ(choose(sampler, {1, 5, 4, 2}, options, 0, {1, 1}), 2) << "5 / 2, once though seen twice";
  EXPECT_EQ(choose(sampler, {-3, -1, -5, -9}, options, 0, {1}), 1) << "-1 * 2 is still the largest";
  EXPECT_EQ(choose(sampler, {-1.5f, -1, -5, -9}, options, 0, {1}), 0);
  SamplingOptions cold;
  cold.temperature = 0;
  EXPECT_EQ(choose(sampler, {1, 5, 5, 2}, cold, 7), 1);
  cold.temperature = 1e-42f; // overflows to infinity
  EXPECT_EQ(choose(sampler, {-1, -5, -4, -2}, cold, 7), 0);
  EXPECT_EQ(choose(sampler, {1, 5, 4, 2}, cold, 7), 1);
}

TEST(Sampler, MaskedTokensAreNeverChosen) {
  Sampler sampler(5);
  SamplingOptions options;
  options.mask = [](void *, uint64_t *allowed, uint64_t vocab) {
    EXPECT_EQ(vocab, 5u);
    EXPECT_EQ(allowed[0] & 31, 31u);
    allowed[0] &= uint64_t(1) << 3;
  };
  for (uint64_t i = 0; i < 50; ++i)
    EXPECT_EQ(choose(sampler, {9, 8, 7, -6, 5}, options, i), 3);
  options.mask = [](void *, uint64_t *allowed, uint64_t) { allowed[0] = 0; };
  std::vector<float> logits = {1, 2, 3, 4, 5};
  Result<int32_t> none = sampler.choose(logits.data(), options, SeenTokens(5), 0);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.takeError().message(), "no token can be chosen: a logit is not a number or all are -infinity");
  options.mask = nullptr;
  logits = {1, NAN, 3, 4, 5};
  EXPECT_FALSE(sampler.choose(logits.data(), options, SeenTokens(5), 0));
}

TEST(Sampler, ALargeVocabularyWithTies) {
  constexpr uint64_t vocab = 150000;
  Sampler sampler(vocab);
  std::vector<float> logits = row(3, vocab, 8);
  for (uint64_t topK : {1, 50, 1000, 149999}) {
    SamplingOptions options;
    options.topK = topK;
    options.topP = 0.9f;
    std::map<int32_t, double> expected = allowed(logits, options);
    for (uint64_t i = 0; i < 20; ++i)
      ASSERT_TRUE(expected.count(choose(sampler, logits, options, i))) << topK;
  }
}

TEST(Sampler, OptionsOutOfRangeAreNamed) {
  SamplingOptions options;
  options.topP = 1.5f;
  EXPECT_EQ(options.check().message(), "top-p: expected a number from 0 to 1, got 1.5");
  options = {};
  options.minP = NAN;
  EXPECT_TRUE(options.check());
  options = {};
  options.temperature = INFINITY;
  EXPECT_TRUE(options.check());
  options = {};
  options.repetitionPenalty = 0;
  EXPECT_EQ(options.check().message(), "repetition-penalty: expected a number above 0, got 0");
  EXPECT_FALSE(SamplingOptions().check());
}

} // namespace
