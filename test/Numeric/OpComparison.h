//===- OpComparison.h - Compiled ops against evaluated ones, op by op ---------------------------------------------===//
//
// Small modules are compiled for this machine and run on steps of one, a few and many rows, at short and long context.
// A hook takes the result of every op, and the evaluator's result of the same op of the same packed module is compared
// with it.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_TEST_NUMERIC_OPCOMPARISON_H
#define INGOT_TEST_NUMERIC_OPCOMPARISON_H

#include "test/Unit/Codegen/CompiledModel.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <bit>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>

namespace ingot::test {

using llvm::DenseSet;
using llvm::dyn_cast;
using llvm::Expected;
using llvm::formatv;
using llvm::isa;
using llvm::StringMap;
using llvm::StringRef;

//===--------------------------------------------------------------------------------------------------------------===//
// Modules
//===--------------------------------------------------------------------------------------------------------------===//

/// Writes a module with one layer, whose body a test gives, between an embedding and an output projection.
struct ModuleWriter {
  int64_t hidden = 64;
  /// Element type of matrices, and of vectors if it is another one.
  std::string weights = "bf16", vectors;
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
      std::string biasType = formatv("tensor<{0}x{1}>", features, vectors.empty() ? weights : vectors);
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
inline constexpr double unit = 0x1p-23;

/// How far a compiled op may be from the evaluated one, as a multiple of the largest magnitude of the row (attention:
/// of all values that it averages); nothing: not at all. exp, sin and cos are polynomials of a unit's error. A norm's
/// sum has up to 130 terms here, which the evaluator adds in one chain and the kernel in sixteen. Attention may be off
/// by as much as the logits of a whole model.
inline std::optional<double> boundOf(mlir::Operation *op) {
  if (isa<RMSNormOp, AddRMSNormOp>(op))
    return 16 * unit;
  if (isa<QKNormRopeAppendOp>(op))
    return 8 * unit;
  if (isa<RopeOp, SiLUOp, GatedActOp>(op))
    return 4 * unit;
  // Integer sums of a block are added at once instead of one product after the other.
  if (auto linear = dyn_cast<LinearOp>(op); linear && linear.getCompute())
    return 64 * unit;
  if (auto linear = dyn_cast<LinearOp>(op); linear && linear.getGated())
    return 4 * unit;
  if (isa<AttentionOp>(op))
    return 1e-5;
  return std::nullopt;
}

/// Values whose bits the evaluator predicts: what stems from ops with a bound does not count. Layers stand before the
/// function that calls them.
inline DenseSet<mlir::Value> exactValues(mlir::ModuleOp module) {
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
  /// Called, if set, with each op's result on both sides.
  std::function<void(mlir::Operation *op, llvm::ArrayRef<float> compiled, const Matrix &reference)> inspect;

private:
  void compare(const Seen &compiled, const Evaluated &reference) {
    mlir::Operation *op = reference.op;
    const Matrix &expected = reference.result;
    const std::string &name = model.opNames[compiled.op];
    ASSERT_EQ(compiled.values.size(), expected.values.size()) << name;
    if (inspect)
      inspect(op, compiled.values, expected);
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

inline std::vector<int32_t> someTokens(size_t count, uint32_t seed) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    ids.push_back(static_cast<int32_t>((seed >> 8) % 61));
  }
  return ids;
}

/// One row, a few, many; then a mixture of a prompt, a chunk and decoded tokens on two workers.
inline void runRegimes(OpComparison &comparison) {
  comparison.step({{0, someTokens(1, 1)}});
  comparison.step({{0, someTokens(3, 2)}}, 2);
  comparison.step({{1, someTokens(70, 3)}}, 3);
  comparison.step({{0, someTokens(1, 4)}, {2, someTokens(9, 5)}, {1, someTokens(1, 6)}}, 2);
}

} // namespace ingot::test

#endif // INGOT_TEST_NUMERIC_OPCOMPARISON_H
