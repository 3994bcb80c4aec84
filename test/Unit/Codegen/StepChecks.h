// What every compiled step must do: be the evaluator's within a bound, and itself in bits.
#ifndef INGOT_TEST_UNIT_CODEGEN_STEPCHECKS_H
#define INGOT_TEST_UNIT_CODEGEN_STEPCHECKS_H

#include "CompiledModel.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace ingot::test {

inline std::vector<int32_t> someTokens(size_t count, int64_t vocab, uint32_t seed) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    ids.push_back(static_cast<int32_t>((seed >> 8) % vocab));
  }
  return ids;
}

using Logits = std::vector<std::vector<float>>;

inline float largest(const Logits &logits) {
  float result = 0;
  for (const auto &row : logits)
    for (float value : row)
      result = std::max(result, std::fabs(value));
  return result;
}

inline float distance(const Logits &a, const Logits &b) {
  EXPECT_EQ(a.size(), b.size());
  float result = 0;
  for (size_t r = 0; r < std::min(a.size(), b.size()); ++r)
    for (size_t i = 0; i < a[r].size(); ++i) {
      float difference = std::fabs(a[r][i] - b[r][i]);
      // NaN counts as far.
      if (!(difference <= result))
        result = difference;
    }
  return result;
}

inline void expectSameBits(const Logits &a, const Logits &b, const char *what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t r = 0; r < a.size(); ++r)
    ASSERT_EQ(std::memcmp(a[r].data(), b[r].data(), a[r].size() * 4), 0) << what << ", row " << r;
}

/// The evaluator, in f32 within 1e-5 of the largest logit or four times its own distance from f64. A cache of 16 bits
/// doubles what a last bit of a key or value is worth: a rounding that falls on the other side is no fault.
inline void matchesEvaluator(CompiledModel &model, const std::vector<int32_t> &ids, const Logits &actual,
                             const char *cache) {
  Logits expected = model.evaluate(ids, Accumulation::F32), exact = model.evaluate(ids, Accumulation::F64);
  float bound = std::max(1e-5f * std::max(1.0f, largest(exact)), 4 * distance(expected, exact));
  if (std::string(cache) != "f32")
    bound *= 2;
  EXPECT_LE(distance(actual, exact), bound)
      << "largest logit " << largest(exact) << ", evaluator in f32 at " << distance(expected, exact);
}

/// In chunks of every size and with one to three workers. Alone, a token's splits are shared out to several workers.
inline void oneResultInChunks(CompiledModel &model, const std::vector<int32_t> &ids, const Logits &whole) {
  std::pair<size_t, unsigned> ways[] = {{1, 1}, {1, 3}, {3, 2}, {16, 3}, {61, 2}, {ids.size(), 3}};
  for (auto [chunk, workers] : ways) {
    model.reset();
    expectSameBits(whole, model.logits(0, ids, chunk, workers), "chunks");
  }
}

/// Between six sequences of other lengths, in two steps.
inline void oneResultInBatch(CompiledModel &model, const std::vector<int32_t> &ids, const Logits &whole,
                             int64_t vocab) {
  model.reset();
  std::vector<Chunk> steps[2];
  for (int i = 0; i < 6; ++i) {
    std::vector<int32_t> other = someTokens(5 + 13 * i, vocab, 10 + i);
    auto half = other.begin() + other.size() / 2;
    steps[0].push_back({i + 1, {other.begin(), half}});
    steps[1].push_back({i + 1, {half, other.end()}});
  }
  auto cut = ids.begin() + 40;
  size_t places[2] = {2, 4};
  steps[0].insert(steps[0].begin() + places[0], {0, {ids.begin(), cut}});
  steps[1].insert(steps[1].begin() + places[1], {0, {cut, ids.end()}});
  Logits together;
  for (int i = 0; i < 2; ++i) {
    Logits all = model.step(steps[i], 2);
    size_t at = 0;
    for (size_t before = 0; before < places[i]; ++before)
      at += steps[i][before].ids.size();
    together.insert(together.end(), all.begin() + at, all.begin() + at + steps[i][places[i]].ids.size());
  }
  expectSameBits(whole, together, "batch");
}

inline void argmaxIsLargestLogit(CompiledModel &model, const std::vector<int32_t> &ids, const Logits &logits) {
  for (unsigned workers : {1, 3}) {
    model.reset();
    auto best = model.argmax({{0, ids}}, workers);
    ASSERT_EQ(best.size(), logits.size());
    for (size_t row = 0; row < best.size(); ++row) {
      auto expected = std::max_element(logits[row].begin(), logits[row].end());
      EXPECT_EQ(best[row].first, expected - logits[row].begin());
      EXPECT_EQ(best[row].second, *expected);
    }
  }
}

} // namespace ingot::test

#endif // INGOT_TEST_UNIT_CODEGEN_STEPCHECKS_H
