//===- OpsTest.cpp - Every op, compiled, against the evaluator ----------------------------------------------------===//
//
// Small modules are compiled for this machine and run on steps of one, a few and many rows, at short and long context.
// A hook takes the result of every op, and the evaluator's result of the same op of the same packed module is compared
// with it. Ops whose order of operations is defined have to agree in bits; the others within the bound of `boundOf`.
// An op whose inputs stem from one of the latter is not compared: each is tested where its inputs are exact.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "test/Unit/Codegen/CompiledModel.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>

using namespace ingot;
using namespace ingot::test;
using namespace llvm;

namespace {

//===--------------------------------------------------------------------------------------------------------------===//
// Modules
//===--------------------------------------------------------------------------------------------------------------===//

/// Writes a module with one layer, whose body a test gives, between an embedding and an output projection.
struct ModuleWriter {
  int64_t hidden = 64;
  std::string weights = "bf16";
  /// kv_heads x head_dim x element of the cache.
  std::string cache = "1 x 16 x f16";
  bool tied = true;
  std::string declarations, body;
  int values = 0;

  static std::string rows(int64_t features) { return formatv("tensor<?x{0}xf32>", features); }
  std::string cacheType() const { return "!ingot.kv_cache<1 x " + cache + ">"; }

  /// A parameter of the layer, read: the value's name. `type` is its tensor type.
  std::string parameter(StringRef name, StringRef type) {
    declarations += formatv("ingot.parameter @layer.{0} \"l.{{layer}.{0}{2}\" kind @layer part \"mlp\" : {1}\n", name,
                            type, name.ends_with("bias") ? "" : ".weight");
    std::string value = formatv("%w{0}", values++);
    body += formatv("{0} = ingot.weight @layer.{1}[%index] : {2}\n", value, name, type);
    return value;
  }
  std::string add(const std::string &a, const std::string &b) {
    std::string value = formatv("%v{0}", values++);
    body += formatv("{0} = ingot.add {1}, {2} : {3}\n", value, a, b, rows(hidden));
    return value;
  }
  /// `x`, of the hidden size, times 2^times, exactly.
  std::string doubled(std::string x, int times) {
    for (; times > 0; --times)
      x = add(x, x);
    return x;
  }
  std::string linear(StringRef name, const std::string &x, int64_t inputs, int64_t features, bool bias = false,
                     bool rowParallel = false) {
    std::string type = formatv("tensor<{0}x{1}x{2}>", features, inputs, weights);
    std::string weight = parameter(name, type), biases;
    if (bias) {
      std::string biasType = formatv("tensor<{0}x{1}>", features, weights);
      biases = formatv(" bias({0} : {1})", parameter((name + "_bias").str(), biasType), biasType);
    }
    std::string value = formatv("%v{0}", values++);
    body += formatv("{0} = ingot.linear {1} weights({2} : {3}){4}{5} : {6} -> {7}\n", value, x, weight, type, biases,
                    rowParallel ? " row_parallel" : "", rows(inputs), rows(features));
    return value;
  }
  std::string norm(StringRef name, const std::string &x, int64_t features, int64_t size) {
    std::string type = formatv("tensor<{0}x{1}>", size, weights), weight = parameter(name, type);
    std::string value = formatv("%v{0}", values++);
    body += formatv("{0} = ingot.rms_norm {1}, {2} eps = 1.0e-5 : {3}, {4}\n", value, x, weight, rows(features), type);
    return value;
  }
  std::string op(StringRef text, int64_t features) {
    std::string value = formatv("%v{0}", values++);
    body += formatv("{0} = ingot.{1} : {2}\n", value, text, rows(features));
    return value;
  }
  void append(const std::string &key, const std::string &value, int64_t features) {
    body += formatv("ingot.kv_append {0}, {1}, %batch, %cache[%layer] : {2}, {3}\n", key, value, rows(features),
                    cacheType());
  }

  /// The module; the layer returns `result`, of the hidden size.
  std::string finish(const std::string &result) const {
    std::string table = formatv("tensor<61x{0}x{1}>", hidden, weights), h = rows(hidden);
    std::string text = formatv(
        "module @test attributes {{ingot.model = #ingot.model<name = \"test\", architecture = \"llama\", vocab = 61, "
        "hidden = {0}, intermediate = 1, heads = 1, maxContext = 4096, maxBatch = 8, maxStepTokens = 512>} {{\n",
        hidden);
    text += declarations;
    text += formatv("ingot.parameter @embed \"embed.weight\" part \"embedding\" : {0}\n", table);
    if (!tied)
      text += formatv("ingot.parameter @head \"head.weight\" part \"lm_head\" : {0}\n", table);
    text += formatv("func.func private @layer(%h: {0}, %batch: !ingot.batch, %cache: {1}, %index: index, %layer: "
                    "index) -> {0} {{\n{2}return {3} : {0}\n}\n",
                    h, cacheType(), body, result);
    text += formatv(R"(func.func @forward(%batch: !ingot.batch, %cache: {0}) -> tensor<?x61xf32> {{
      %t = ingot.weight @embed : {1}
      %u = ingot.weight @{3} : {1}
      %h = ingot.embedding %batch, %t : {1} -> {2}
      %l = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 1>] : {2}, {0}
      %r = ingot.select_rows %l, %batch : {2}
      %y = ingot.linear %r weights(%u : {1}) : {2} -> tensor<?x61xf32>
      return %y : tensor<?x61xf32>
    })",
                    cacheType(), table, h, tied ? "embed" : "head");
    return text + "}\n";
  }
};

//===--------------------------------------------------------------------------------------------------------------===//
// Comparison
//===--------------------------------------------------------------------------------------------------------------===//

/// One unit in the last place of 1.
constexpr double unit = 0x1p-23;

/// How far a compiled op may be from the evaluated one, as a multiple of the largest magnitude of the row (attention:
/// of all values that it averages); nothing: not at all. exp, sin and cos are polynomials of a unit's error. A norm's
/// sum has up to 130 terms here, which the evaluator adds in one chain and the kernel in sixteen. Attention may be off
/// by as much as the logits of a whole model.
std::optional<double> boundOf(mlir::Operation *op) {
  if (isa<RMSNormOp, AddRMSNormOp>(op))
    return 16 * unit;
  if (isa<QKNormRopeAppendOp>(op))
    return 8 * unit;
  if (isa<RopeOp, SiLUOp, GatedActOp>(op))
    return 4 * unit;
  if (auto linear = dyn_cast<LinearOp>(op); linear && linear.getGated())
    return 4 * unit;
  if (isa<AttentionOp>(op))
    return 1e-5;
  return std::nullopt;
}

/// Values whose bits the evaluator predicts: what stems from ops with a bound does not count. Layers stand before the
/// function that calls them.
DenseSet<mlir::Value> exactValues(mlir::ModuleOp module) {
  DenseSet<mlir::Value> exact;
  StringMap<bool> exactKinds;
  for (auto function : module.getOps<mlir::func::FuncOp>()) {
    for (mlir::BlockArgument argument : function.getArguments())
      exact.insert(argument);
    for (mlir::Operation &op : function.getBody().front()) {
      bool good = !boundOf(&op);
      for (mlir::Value operand : op.getOperands())
        good &= exact.contains(operand);
      if (auto layers = dyn_cast<LayersOp>(op))
        for (auto run : layers.getRuns().getAsRange<RunAttr>())
          good &= exactKinds.lookup(run.getKind().getValue());
      if (isa<mlir::func::ReturnOp>(op))
        exactKinds[function.getName()] = good;
      if (good)
        exact.insert(op.result_begin(), op.result_end());
    }
  }
  return exact;
}

struct Evaluated {
  mlir::Operation *op;
  int64_t layer;
  Matrix result;
};

/// Runs steps on both sides and compares op by op.
class OpComparison {
public:
  OpComparison(const std::string &text, const Build &build)
      : model(text, build), exact(exactValues(model.packedModule())) {
    options.observer = [this](mlir::Operation *op, int64_t layer, const Matrix &result) {
      if (isa<SplitOp, LayersOp>(op))
        return;
      // Of several results the hook sees the last.
      if (!evaluated.empty() && evaluated.back().op == op && evaluated.back().layer == layer)
        evaluated.pop_back();
      evaluated.push_back({op, layer, result});
    };
    evaluator.emplace(model.packedModule(), model.weightValues(), options);
    auto type = evaluator->cacheType();
    EXPECT_TRUE(bool(type));
    cache.emplace(*type);
    model.seen = &seen;
  }

  /// One step of both; `workers` threads run the compiled one.
  void step(const std::vector<Chunk> &chunks, unsigned workers = 1) {
    Batch batch;
    for (const Chunk &chunk : chunks) {
      batch.append(chunk.sequence, lengths[chunk.sequence], chunk.ids);
      lengths[chunk.sequence] += static_cast<int32_t>(chunk.ids.size());
      batch.longRegime.resize(std::max<size_t>(batch.longRegime.size(), chunk.sequence + 1), model.longRegime);
    }
    seen.clear();
    evaluated.clear();
    model.step(chunks, workers);
    Expected<Matrix> logits = evaluator->forward(batch, *cache);
    ASSERT_TRUE(bool(logits)) << toString(logits.takeError());
    llvm::erase_if(seen, [](const Seen &one) { return one.values.empty(); });
    ASSERT_EQ(seen.size(), evaluated.size());
    for (auto [compiled, reference] : llvm::zip(seen, evaluated)) {
      ASSERT_EQ(compiled.layer, reference.layer) << model.opNames[compiled.op];
      compare(compiled, reference);
    }
  }

  /// How often an op of this kind was compared.
  int compared(StringRef kind) { return counts.lookup(kind); }

  CompiledModel model;

private:
  void compare(const Seen &compiled, const Evaluated &reference) {
    mlir::Operation *op = reference.op;
    const Matrix &expected = reference.result;
    const std::string &name = model.opNames[compiled.op];
    ASSERT_EQ(compiled.values.size(), expected.values.size()) << name;
    if (name.find("v_proj") != std::string::npos)
      for (float value : expected.values)
        largestValue = std::max(largestValue, std::fabs(value));
    if (!llvm::all_of(op->getOperands(), [&](mlir::Value operand) { return exact.contains(operand); }))
      return;
    ++counts[op->getName().stripDialect()];
    std::optional<double> bound = boundOf(op);
    for (int64_t row = 0; row < expected.rows; ++row) {
      float scale = isa<AttentionOp>(op) ? largestValue : 0;
      for (float value : expected.row(row))
        scale = std::max(scale, std::fabs(value));
      for (int64_t column = 0; column < expected.columns; ++column) {
        float got = compiled.values[row * expected.columns + column], want = expected.row(row)[column];
        bool good = bound ? std::fabs(double(got) - want) <= *bound * scale : got == want;
        ASSERT_TRUE(good) << name << " [" << row << " of " << expected.rows << "][" << column << "]: expected " << want
                          << ", got " << got << ", apart by " << (double(got) - want) / scale / unit
                          << " units of the row's largest";
      }
    }
  }

  EvaluatorOptions options;
  std::optional<Evaluator> evaluator;
  std::optional<Cache> cache;
  std::map<int, int32_t> lengths;
  std::vector<Seen> seen;
  std::vector<Evaluated> evaluated;
  DenseSet<mlir::Value> exact;
  StringMap<int> counts;
  float largestValue = 0;
};

std::vector<int32_t> someTokens(size_t count, uint32_t seed) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    ids.push_back(static_cast<int32_t>((seed >> 8) % 61));
  }
  return ids;
}

/// One row, a few, many; then a mixture of a prompt, a chunk and decoded tokens on two workers.
void runRegimes(OpComparison &comparison) {
  comparison.step({{0, someTokens(1, 1)}});
  comparison.step({{0, someTokens(3, 2)}}, 2);
  comparison.step({{1, someTokens(70, 3)}}, 3);
  comparison.step({{0, someTokens(1, 4)}, {2, someTokens(9, 5)}, {1, someTokens(1, 6)}}, 2);
}

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
    for (const char *element : {"f32", "f16", "bf16"})
      shapes.push_back({4, 2, 12, 0, element, lowering});
    shapes.push_back({3, 1, 16, 70, "f16", lowering});
  }
  shapes.push_back({2, 2, 64, 0, "f16", "tiled"});
  shapes.push_back({6, 1, 20, 1, "bf16", "tiled"});
  shapes.push_back({2, 1, 8, 600, "f32", "tiled"});
  shapes.push_back({9, 3, 64, 0, "bf16", "tiled"});
  shapes.push_back({1, 1, 128, 64, "f32", "tiled"});
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionOps, testing::ValuesIn(attentionShapes()), testing::PrintToStringParamName());

} // namespace
