// Compiled steps against the evaluator within a bound, and against themselves in bits.
#include "StepChecks.h"

using namespace ingot;
using namespace ingot::test;

namespace {

struct Case {
  std::string name;
  DecoderShape shape;
  Build build = {};
  /// Tokens of the sequence that is looked at.
  size_t tokens = 150;
};

std::ostream &operator<<(std::ostream &os, const Case &c) { return os << c.name; }

/// Every storage type of weights with every one of the cache, then one case for each thing that code is specialised
/// for.
std::vector<Case> allCases() {
  std::vector<Case> cases;
  for (const char *weights : {"f32", "bf16", "f16"})
    for (const char *cache : {"f32", "f16", "bf16"}) {
      DecoderShape shape;
      shape.weights = weights;
      shape.cache = cache;
      cases.push_back({std::string("weights_") + weights + "_cache_" + cache, shape});
    }
  auto add = [&](const char *name, Build build, size_t tokens, auto change) {
    DecoderShape shape;
    shape.cache = "f32";
    change(shape);
    cases.push_back({name, shape, build, tokens});
  };
  auto same = [](DecoderShape &) {};
  auto window = [](DecoderShape &s) { s.window = 20; };
  add("unfused", {.fuse = false}, 150, same);
  add("naive", {.attention = "naive"}, 150, same);
  add("tiles_of_avx512", {.tilesOf = "x86-64-v4"}, 150, same);
  add("window", {}, 200, window);
  add("window_naive", {.attention = "naive"}, 200, window);
  // More than one split of 512 positions.
  add("long_context", {}, 1100, [](DecoderShape &s) { s.hidden = 32; });
  add("long_context_window", {}, 1100, [](DecoderShape &s) { s.window = 530; });
  add("long_context_naive", {.attention = "naive"}, 600, same);
  add("norms_of_queries_and_keys", {}, 150, [](DecoderShape &s) { s.qkNorm = true; });
  add("norms_of_queries_and_keys_unfused", {.fuse = false}, 150, [](DecoderShape &s) { s.qkNorm = true; });
  add("biases", {}, 150, [](DecoderShape &s) { s.bias = true; });
  add("interleaved", {}, 150, [](DecoderShape &s) { s.interleaved = true; });
  add("interleaved_normed_untied", {}, 150, [](DecoderShape &s) {
    s.interleaved = s.qkNorm = true;
    s.tied = false;
    s.headDim = 70;
  });
  add("untied", {}, 150, [](DecoderShape &s) { s.tied = false; });
  add("long_factors", {}, 150, [](DecoderShape &s) { s.longRope = true; });
  add("one_kv_head", {}, 150, [](DecoderShape &s) {
    s.heads = 5;
    s.kvHeads = 1;
    s.headDim = 14;
  });
  add("no_groups", {}, 150, [](DecoderShape &s) {
    s.heads = s.kvHeads = 3;
    s.headDim = 128;
  });
  add("many_groups", {}, 150, [](DecoderShape &s) {
    s.heads = 40;
    s.kvHeads = 1;
    s.headDim = 2;
  });
  add("odd_features", {}, 150, [](DecoderShape &s) {
    s.hidden = 45;
    s.intermediate = 77;
    s.vocab = 65;
  });
  add("odd_features_avx512_tiles", {.tilesOf = "x86-64-v4"}, 150, [](DecoderShape &s) {
    s.hidden = 45;
    s.intermediate = 77;
    s.vocab = 65;
  });
  add("few_features", {}, 60, [](DecoderShape &s) {
    s.hidden = 3;
    s.intermediate = 5;
    s.heads = s.kvHeads = 1;
    s.headDim = 2;
    s.vocab = 3;
  });
  add("many_features", {}, 260, [](DecoderShape &s) {
    s.hidden = 320;
    s.intermediate = 1100;
  });
  add("alternating_kinds", {}, 150, [](DecoderShape &s) {
    s.runs = {1, 2, 1};
    s.window = 33;
  });
  return cases;
}

class Step : public testing::TestWithParam<Case> {};

} // namespace

TEST_P(Step, MatchesEvaluatorAndItself) {
  const Case &c = GetParam();
  CompiledModel model(decoderText(c.shape), c.build);
  model.longRegime = c.shape.longRope;
  std::vector<int32_t> ids = someTokens(c.tokens, c.shape.vocab, 1);
  Logits whole = model.logits(0, ids, ids.size());
  matchesEvaluator(model, ids, whole, c.shape.cache.c_str());
  oneResultInChunks(model, ids, whole);
  oneResultInBatch(model, ids, whole, c.shape.vocab);
  argmaxIsLargestLogit(model, ids, whole);
}

INSTANTIATE_TEST_SUITE_P(Cases, Step, testing::ValuesIn(allCases()), [](const auto &info) { return info.param.name; });

// As on 64 cores: most workers have no panel, head or row of a small op, and none is left out or done twice.
TEST(StepWorkers, SixtyFourGiveTheBitsOfOne) {
  DecoderShape shape;
  shape.hidden = 1040; // 65 panels: shares of one and of two
  shape.intermediate = 1100;
  CompiledModel model(decoderText(shape), {});
  std::vector<int32_t> ids = someTokens(90, shape.vocab, 3);
  Logits whole = model.logits(0, ids, ids.size());
  for (size_t chunk : {ids.size(), size_t(30), size_t(7)}) {
    model.reset();
    expectSameBits(whole, model.logits(0, ids, chunk, 64), "64 workers");
  }
  model.reset();
  auto best = model.argmax({{0, ids}}, 64);
  for (size_t row = 0; row < whole.size(); ++row)
    EXPECT_EQ(best[row].first, std::max_element(whole[row].begin(), whole[row].end()) - whole[row].begin());
}

TEST(StepArguments, AreChecked) {
  CompiledModel model(decoderText({}), {});
  EXPECT_EQ(model.statusOf([](ingot_rt_step_args &) {}), INGOT_RT_OK);
  EXPECT_EQ(model.statusOf([](ingot_rt_step_args &a) { a.size -= 8; }), INGOT_RT_BAD_SIZE);
  EXPECT_EQ(model.statusOf([](ingot_rt_step_args &a) { ++a.version; }), INGOT_RT_BAD_SIZE);
  EXPECT_EQ(model.statusOf([](ingot_rt_step_args &a) { a.cache_id ^= 1ull << 63; }), INGOT_RT_BAD_CACHE);
  EXPECT_EQ(model.statusOf([](ingot_rt_step_args &a) { a.output = INGOT_RT_CANDIDATES; }), INGOT_RT_UNSUPPORTED);
  EXPECT_EQ(model.statusOf([](ingot_rt_step_args &a) { a.output = INGOT_RT_HIDDEN; }), INGOT_RT_UNSUPPORTED);
  EXPECT_EQ(model.statusOf([](ingot_rt_step_args &a) { a.output = INGOT_RT_TOKENS; }), INGOT_RT_UNSUPPORTED);
  int32_t ints[4] = {};
  float floats[4] = {};
  uint64_t words[4] = {};
  EXPECT_EQ(model.statusOf([&](ingot_rt_step_args &a) { a.adapters = ints; }), INGOT_RT_UNSUPPORTED);
  EXPECT_EQ(model.statusOf([&](ingot_rt_step_args &a) { a.embeddings = floats; }), INGOT_RT_UNSUPPORTED);
  EXPECT_EQ(model.statusOf([&](ingot_rt_step_args &a) { a.ancestors = words; }), INGOT_RT_UNSUPPORTED);
  EXPECT_EQ(model.statusOf([&](ingot_rt_step_args &a) { a.communicator = words; }), INGOT_RT_UNSUPPORTED);
}

// The hook sees every op of the table with the evaluator's values, in each layer, from every number of workers.
TEST(StepHook, SeesEveryOp) {
  DecoderShape shape;
  shape.cache = "f32";
  CompiledModel model(decoderText(shape), {.fuse = false});
  std::vector<int32_t> ids = someTokens(9, shape.vocab, 4);
  std::vector<std::pair<int64_t, Matrix>> expected = model.observe(ids);
  for (unsigned workers : {1, 2}) {
    model.reset();
    std::vector<Seen> seen;
    model.seen = &seen;
    model.step({{0, ids}}, workers);
    model.seen = nullptr;
    size_t next = 0;
    for (const Seen &op : seen) {
      ASSERT_LT(op.op, model.opNames.size());
      if (op.values.empty())
        continue; // an append to the cache
      ASSERT_LT(next, expected.size());
      EXPECT_EQ(op.layer, expected[next].first) << model.opNames[op.op];
      const Matrix &matrix = expected[next++].second;
      ASSERT_EQ(op.values.size(), matrix.values.size()) << model.opNames[op.op];
      EXPECT_LE(distance({op.values}, {matrix.values}), 1e-5f * std::max(1.0f, largest({matrix.values})))
          << model.opNames[op.op];
    }
    EXPECT_EQ(next, expected.size());
  }
}
