//===- OpsTest.cpp - Every op, compiled, against the evaluator ----------------------------------------------------===//
//
// Small modules are compiled for this machine and run on steps of one, a few and many rows, at short and long context.
// A hook takes the result of every op, and the evaluator's result of the same op of the same packed module is compared
// with it. Ops whose order of operations is defined have to agree in bits; the others within the bound of `boundOf`.
// An op whose inputs stem from one of the latter is not compared: each is tested where its inputs are exact.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "test/Numeric/OpComparison.h"

using namespace ingot;
using namespace ingot::test;
using namespace llvm;

namespace {

//===--------------------------------------------------------------------------------------------------------------===//
// Linear
//===--------------------------------------------------------------------------------------------------------------===//

class PerType : public testing::TestWithParam<std::string> {};

TEST_P(PerType, LinearOfManyShapes) {
  for (int64_t hidden : {130, 64, 3}) {
    ModuleWriter w;
    w.hidden = hidden;
    w.weights = GetParam();
    std::string h = "%h";
    // Every number of features with its way back: sizes that fill panels and tiles, and sizes that fill neither.
    for (int64_t features : {1, 16, 17, 100, 300}) {
      std::string name = formatv("n{0}", features);
      std::string y = w.linear(name, h, hidden, features, features % 2 == 1);
      std::string z = w.linear(name + "_back", y, features, hidden, features == 100, true);
      h = w.add(h, z);
    }
    OpComparison comparison(w.finish(h), Build{.fuse = false});
    runRegimes(comparison);
    EXPECT_GE(comparison.compared("linear"), 4 * 11) << hidden;
    EXPECT_GE(comparison.compared("add"), 4 * 5);
    EXPECT_GE(comparison.compared("embedding"), 4);
    EXPECT_GE(comparison.compared("select_rows"), 4);
  }
}

TEST_P(PerType, FusedLinears) {
  for (int64_t features : {40, 5}) {
    ModuleWriter w;
    w.hidden = 48;
    w.weights = GetParam();
    // Bias and residual in one linear; then gate and up.
    std::string y = w.linear("o", "%h", 48, 48, true, true);
    std::string h = w.doubled(w.add("%h", y), 4);
    std::string g = w.linear("gate", h, 48, features, true), u = w.linear("up", h, 48, features, true);
    std::string s = w.op("silu " + g, features), m = w.op("mul " + s + ", " + u, features);
    std::string d = w.linear("down", m, features, 48, false, true);
    OpComparison comparison(w.finish(w.add(h, d)), Build{});
    int residuals = 0, gated = 0;
    comparison.model.packedModule().walk([&](LinearOp op) {
      residuals += op.getResidual() != nullptr;
      gated += op.getGated().has_value();
    });
    EXPECT_EQ(residuals, 2);
    EXPECT_EQ(gated, 1);
    runRegimes(comparison);
    EXPECT_GE(comparison.compared("linear"), 4 * 2);
  }
}

TEST_P(PerType, EmbeddingInRowsAndInPanels) {
  for (bool tied : {false, true}) {
    ModuleWriter w;
    w.hidden = 50;
    w.weights = GetParam();
    w.tied = tied;
    OpComparison comparison(w.finish(w.doubled("%h", 1)), Build{});
    runRegimes(comparison);
    EXPECT_GE(comparison.compared("embedding"), 4);
    EXPECT_GE(comparison.compared("linear"), 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, PerType, testing::Values("f32", "bf16", "f16"),
                         [](const auto &info) { return info.param; });

//===--------------------------------------------------------------------------------------------------------------===//
// Norms, elementwise
//===--------------------------------------------------------------------------------------------------------------===//

TEST(Ops, NormsOfRowsAndHeads) {
  for (auto [hidden, head] : {std::pair<int64_t, int64_t>{96, 16}, {130, 10}, {12, 1}}) {
    ModuleWriter w;
    w.hidden = hidden;
    std::string x = w.doubled("%h", 3), y = w.add(w.norm("a", x, hidden, hidden), w.norm("b", x, hidden, head));
    OpComparison comparison(w.finish(y), Build{.fuse = false});
    runRegimes(comparison);
    EXPECT_EQ(comparison.compared("rms_norm"), 4 * 2);
  }
}

TEST(Ops, AddRMSNorm) {
  for (int64_t hidden : {96, 50}) {
    ModuleWriter w;
    w.hidden = hidden;
    std::string sum = w.add("%h", w.doubled("%h", 2)), y = w.add(sum, w.norm("a", sum, hidden, hidden));
    OpComparison comparison(w.finish(y), Build{});
    runRegimes(comparison);
    EXPECT_EQ(comparison.compared("add_rms_norm"), 4) << hidden;
  }
}

TEST(Ops, SiLUAndProductsFromSmallToLarge) {
  for (int times : {0, 6, 9, 12}) {
    ModuleWriter w;
    w.hidden = 50;
    std::string x = w.doubled("%h", times), m = w.op("mul " + x + ", %h", 50);
    std::string y = w.add(w.op("silu " + x, 50), m);
    OpComparison comparison(w.finish(y), Build{.fuse = false});
    runRegimes(comparison);
    EXPECT_EQ(comparison.compared("silu"), 4);
    EXPECT_EQ(comparison.compared("mul"), 4);
  }
}

TEST(Ops, GatedAct) {
  ModuleWriter w;
  w.hidden = 50;
  // Not linears of one input, so that the fusion leaves the product by itself.
  std::string x = w.doubled("%h", 6), y = w.op("mul " + w.op("silu " + x, 50) + ", %h", 50);
  OpComparison comparison(w.finish(y), Build{});
  runRegimes(comparison);
  EXPECT_EQ(comparison.compared("gated_act") + comparison.compared("silu"), 4);
}

//===--------------------------------------------------------------------------------------------------------------===//
// RoPE, cache, attention
//===--------------------------------------------------------------------------------------------------------------===//

std::string rotaryText(bool interleaved, int64_t headDim) {
  std::string frequencies, longFrequencies;
  for (int64_t i = 0; i < headDim / 2; ++i) {
    float frequency = std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(headDim));
    StringRef comma = i ? ", " : "";
    frequencies += formatv("{0}{1:f9}", comma, frequency);
    longFrequencies += formatv("{0}{1:f9}", comma, frequency / 3);
  }
  return formatv("ingot.rotary @rotary {0} inv_freq = [{1}] scaling = 1.1875 long_inv_freq = [{2}] long_from = 64\n",
                 interleaved ? "interleaved" : "half", frequencies, longFrequencies);
}

TEST(Ops, RopeOfBothStylesAndRegimes) {
  for (bool interleaved : {false, true})
    for (int64_t headDim : {12, 64}) {
      ModuleWriter w;
      w.hidden = 3 * headDim;
      w.declarations = rotaryText(interleaved, headDim);
      std::string y = w.add("%h", w.op("rope %h, %batch, @rotary", w.hidden));
      for (bool longRegime : {false, true}) {
        OpComparison comparison(w.finish(y), Build{.fuse = false});
        comparison.model.longRegime = longRegime;
        runRegimes(comparison);
        // Far positions, where an angle has lost most of its digits.
        for (int i = 0; i < 7; ++i)
          comparison.step({{0, someTokens(500, i)}});
        EXPECT_EQ(comparison.compared("rope"), 4 + 7);
      }
    }
}

struct AppendShape {
  bool norms, interleaved;
  const char *element;
};

TEST(Ops, QKNormRopeAppend) {
  for (AppendShape shape : {AppendShape{false, false, "f32"},
                            {false, true, "f16"},
                            {true, false, "f32"},
                            {true, true, "f32"},
                            {true, false, "bf16"}}) {
    ModuleWriter w;
    w.hidden = 72;
    w.cache = formatv("2 x 12 x {0}", shape.element);
    w.declarations = rotaryText(shape.interleaved, 12);
    std::string q0 = w.linear("q", "%h", 72, 72), k = w.linear("k", "%h", 72, 24), v = w.linear("v_proj", "%h", 72, 24),
                q = q0;
    if (shape.norms) {
      q = w.norm("q_norm", q, 72, 12);
      k = w.norm("k_norm", k, 24, 12);
    }
    q = w.op("rope " + q + ", %batch, @rotary", 72);
    k = w.op("rope " + k + ", %batch, @rotary", 24);
    w.append(k, v, 24);
    auto attend = [&](const std::string &query) {
      std::string a = w.op("attention " + query + ", %batch, %cache[%layer] scale = 8.0", 72);
      w.body.insert(w.body.size() - 1, ", " + w.cacheType());
      return a;
    };
    // What was written is seen through the attention of an exact query; in 16 bits a key may round either way.
    std::string a = attend(q);
    bool readable = StringRef(shape.element) == "f32";
    if (readable)
      a = w.add(a, attend(q0));
    OpComparison comparison(w.finish(w.add("%h", a)), Build{});
    runRegimes(comparison);
    EXPECT_EQ(comparison.compared("qk_norm_rope_append"), 4) << shape.norms << shape.interleaved << shape.element;
    EXPECT_EQ(comparison.compared("attention"), readable ? 4 : 0);
  }
}

struct AttentionShape {
  int64_t heads, kvHeads, headDim, window;
  const char *element, *lowering;
};

std::ostream &operator<<(std::ostream &os, const AttentionShape &s) {
  return os << s.heads << "q_" << s.kvHeads << "kv_" << s.headDim << "d_window" << s.window << "_" << s.element << "_"
            << s.lowering;
}

class AttentionOps : public testing::TestWithParam<AttentionShape> {};

TEST_P(AttentionOps, OverShortAndLongContext) {
  AttentionShape shape = GetParam();
  int64_t query = shape.heads * shape.headDim, key = shape.kvHeads * shape.headDim;
  ModuleWriter w;
  w.hidden = query;
  w.cache = formatv("{0} x {1} x {2}", shape.kvHeads, shape.headDim, shape.element);
  std::string q = w.linear("q", "%h", query, query), k = w.linear("k", "%h", query, key),
              v = w.linear("v_proj", "%h", query, key);
  w.append(k, v, key);
  // The scale makes scores of a few units out of small keys and queries.
  std::string window = shape.window ? formatv(" window = {0}", shape.window).str() : "";
  std::string a = w.op("attention " + q + ", %batch, %cache[%layer] scale = 200.0" + window, query);
  w.body.insert(w.body.size() - 1, ", " + w.cacheType());
  OpComparison comparison(w.finish(w.add("%h", a)), Build{.fuse = false, .attention = shape.lowering});
  runRegimes(comparison);
  // Past the ends of blocks (64) and splits (512), a token at a time and in chunks.
  comparison.step({{1, someTokens(436, 7)}}, 2);
  for (int i = 0; i < 8; ++i)
    comparison.step({{1, someTokens(1, 8 + i)}, {0, someTokens(1, 20 + i)}}, 2);
  comparison.step({{1, someTokens(500, 9)}, {2, someTokens(70, 10)}}, 2);
  comparison.step({{1, someTokens(33, 11)}});
  EXPECT_EQ(comparison.compared("attention"), 4 + 1 + 8 + 2);
}

std::vector<AttentionShape> attentionShapes() {
  std::vector<AttentionShape> shapes;
  for (const char *lowering : {"tiled", "naive"}) {
    for (const char *element : {"f32", "f16", "bf16", "i8"})
      shapes.push_back({4, 2, 12, 0, element, lowering});
    shapes.push_back({3, 1, 16, 70, "f16", lowering});
  }
  shapes.push_back({2, 2, 64, 0, "f16", "tiled"});
  shapes.push_back({6, 1, 20, 1, "bf16", "tiled"});
  shapes.push_back({2, 1, 8, 600, "f32", "tiled"});
  shapes.push_back({9, 3, 64, 0, "bf16", "tiled"});
  shapes.push_back({9, 3, 64, 70, "i8", "tiled"});
  shapes.push_back({1, 1, 128, 64, "f32", "tiled"});
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionOps, testing::ValuesIn(attentionShapes()), testing::PrintToStringParamName());

} // namespace
