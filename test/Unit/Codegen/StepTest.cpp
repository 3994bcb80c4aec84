// Compiled steps against the evaluator within a bound, and against themselves in bits.
#include "CompiledModel.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace ingot;
using namespace ingot::test;

namespace {

std::vector<int32_t> someTokens(size_t count, int64_t vocab, uint32_t seed) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    ids.push_back(static_cast<int32_t>((seed >> 8) % vocab));
  }
  return ids;
}

using Logits = std::vector<std::vector<float>>;

float largest(const Logits &logits) {
  float result = 0;
  for (const auto &row : logits)
    for (float value : row)
      result = std::max(result, std::fabs(value));
  return result;
}

float distance(const Logits &a, const Logits &b) {
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

void expectSameBits(const Logits &a, const Logits &b, const char *what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t r = 0; r < a.size(); ++r)
    ASSERT_EQ(std::memcmp(a[r].data(), b[r].data(), a[r].size() * 4), 0) << what << ", row " << r;
}

struct Case {
  const char *name;
  DecoderShape shape;
  Build build;
};

std::ostream &operator<<(std::ostream &os, const Case &c) { return os << c.name; }

std::vector<Case> allCases() {
  std::vector<Case> cases;
  DecoderShape plain;
  cases.push_back({"plain", plain, {}});
  cases.push_back({"plain_unfused", plain, {.fuse = false}});
  cases.push_back({"plain_naive", plain, {.attention = "naive"}});
  cases.push_back({"plain_wide_tiles", plain, {.tilesOf = "x86-64-v4"}});
  return cases;
}

class Step : public testing::TestWithParam<Case> {};

} // namespace

TEST_P(Step, MatchesEvaluator) {
  CompiledModel model(decoderText(GetParam().shape), GetParam().build);
  std::vector<int32_t> ids = someTokens(70, GetParam().shape.vocab, 1);
  Logits expected = model.evaluate(ids, Accumulation::F32), exact = model.evaluate(ids, Accumulation::F64);
  Logits actual = model.logits(0, ids, ids.size());
  float bound = std::max(1e-5f * std::max(1.0f, largest(exact)), 4 * distance(expected, exact));
  EXPECT_LE(distance(actual, exact), bound) << "evaluator in f32: " << distance(expected, exact);
}

TEST_P(Step, OneResult) {
  CompiledModel model(decoderText(GetParam().shape), GetParam().build);
  int64_t vocab = GetParam().shape.vocab;
  std::vector<int32_t> ids = someTokens(150, vocab, 2);
  Logits whole = model.logits(0, ids, ids.size());
  for (size_t chunk : {1, 3, 16, 61})
    for (unsigned workers : {1, 2, 3}) {
      model.reset();
      expectSameBits(whole, model.logits(0, ids, chunk, workers), "chunks");
    }
  // In a batch of sequences of other lengths, each at its own position.
  model.reset();
  std::vector<std::vector<int32_t>> others;
  for (int i = 0; i < 6; ++i)
    others.push_back(someTokens(5 + 13 * i, vocab, 10 + i));
  std::vector<Chunk> first, second;
  for (int i = 0; i < 6; ++i) {
    size_t half = others[i].size() / 2;
    first.push_back({i + 1, {others[i].begin(), others[i].begin() + half}});
    second.push_back({i + 1, {others[i].begin() + half, others[i].end()}});
  }
  first.insert(first.begin() + 2, {0, {ids.begin(), ids.begin() + 40}});
  second.insert(second.begin() + 4, {0, {ids.begin() + 40, ids.end()}});
  Logits a = model.step(first, 2), b = model.step(second, 2);
  size_t at = 0;
  for (int i = 0; i < 2; ++i)
    at += first[i].ids.size();
  Logits mixed(a.begin() + at, a.begin() + at + 40);
  at = 0;
  for (int i = 0; i < 4; ++i)
    at += second[i].ids.size();
  mixed.insert(mixed.end(), b.begin() + at, b.begin() + at + 110);
  expectSameBits(whole, mixed, "batch");
}

TEST_P(Step, Argmax) {
  CompiledModel model(decoderText(GetParam().shape), GetParam().build);
  std::vector<int32_t> ids = someTokens(20, GetParam().shape.vocab, 3);
  Logits logits = model.logits(0, ids, ids.size());
  for (unsigned workers : {1, 2, 3}) {
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

INSTANTIATE_TEST_SUITE_P(Cases, Step, testing::ValuesIn(allCases()),
                         [](const auto &info) { return std::string(info.param.name); });
