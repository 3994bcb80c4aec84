//===- ArenaPlanTest.cpp - Plans of random graphs are sound, and unsound ones are found ---------------------------===//
//
// Random functions of activations are planned and checked by the walk of verifyArenaPlan; then one offset is changed so
// that two live activations overlap, which the walk must find.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/ArenaPlan.h"
#include "RandomDecoder.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <map>

using namespace mlir;
using namespace ingot;
using llvm::formatv;

namespace {

/// Writes a random function body over activations of a few widths.
class GraphWriter {
public:
  GraphWriter(Draw &draw, std::string prefix) : draw(draw), prefix(std::move(prefix)) {}

  void add(const std::string &name, int64_t features) { values[features].push_back(name); }
  std::string any(int64_t features) {
    auto &list = values[features];
    if (list.empty())
      return linear(features);
    return list[draw.in(0, list.size() - 1)];
  }
  int64_t width() {
    static const int64_t widths[] = {5, 16, 20, 32, 70};
    return widths[draw.in(0, 4)];
  }
  /// A product of `features` of any other value.
  std::string linear(int64_t features, const std::string &residual = "") {
    std::vector<std::pair<int64_t, std::string>> all;
    for (auto &[width, names] : values)
      for (const std::string &name : names)
        all.push_back({width, name});
    auto [k, input] = all[draw.in(0, all.size() - 1)];
    std::string result = fresh();
    text += formatv("    {0} = ingot.linear {1} weights({0}w : tensor<{2}x{3}xf32>){4} : tensor<?x{3}xf32> -> "
                    "tensor<?x{2}xf32>\n",
                    result, input, features, k,
                    residual.empty() ? "" : formatv(" residual({0} : tensor<?x{1}xf32>)", residual, features).str());
    arguments += formatv(", {0}w: tensor<{1}x{2}xf32>", result, features, k);
    add(result, features);
    return result;
  }
  void op() {
    int64_t n = width();
    std::string type = formatv("tensor<?x{0}xf32>", n), a = any(n), b = any(n), result = fresh();
    switch (draw.in(0, 7)) {
    case 0:
      text += formatv("    {0} = ingot.add {1}, {2} : {3}\n", result, a, b, type);
      break;
    case 1:
      text += formatv("    {0} = ingot.gated_act silu {1}, {2} : {3}\n", result, a, b, type);
      break;
    case 2:
      text += formatv("    {0} = ingot.silu {1} : {2}\n", result, a, type);
      break;
    case 3:
      text += formatv("    {0} = ingot.rms_norm {1}, {0}w eps = 1.0e-5 : {2}, tensor<{3}xf32>\n", result, a, type, n);
      arguments += formatv(", {0}w: tensor<{1}xf32>", result, n);
      break;
    case 4:
      text += formatv("    {0}, {0}s = ingot.add_rms_norm {1}, {2}, {0}w eps = 1.0e-5 : {3}, tensor<{4}xf32>\n", result,
                      a, b, type, n);
      arguments += formatv(", {0}w: tensor<{1}xf32>", result, n);
      add(result + "s", n);
      break;
    case 5: {
      std::string wide = any(70);
      text += formatv("    {0}, {0}s, {0}t = ingot.split {1} : tensor<?x70xf32> -> tensor<?x32xf32>, tensor<?x20xf32>, "
                      "tensor<?x18xf32>\n",
                      result, wide);
      add(result + "s", 20);
      n = 32;
      break;
    }
    default:
      linear(n, draw.chance(50) ? a : "");
      return;
    }
    add(result, n);
  }
  std::string fresh() { return "%" + prefix + std::to_string(next++); }

  std::string text, arguments;

private:
  Draw &draw;
  std::string prefix;
  std::map<int64_t, std::vector<std::string>> values;
  int64_t next = 0;
};

const char *const cacheType = "!ingot.kv_cache<4 x 1 x 16 x f32>";

/// A module with one or two kinds of layer and a function that calls them in the middle of other work.
std::string makeRandomGraph(uint64_t seed) {
  Draw draw(seed);
  static const int64_t widths[] = {16, 20, 32};
  int64_t hidden = widths[draw.in(0, 2)], kinds = draw.in(1, 2);
  std::string text;
  for (int64_t i = 0; i < kinds; ++i) {
    GraphWriter graph(draw, "v");
    graph.add("%h", hidden);
    for (int64_t j = 0, count = draw.in(1, 14); j < count; ++j)
      graph.op();
    std::string last = graph.any(hidden);
    // The result's op must not read the old state but as its residual: the dialect cannot copy.
    std::string result = "%out";
    graph.text += formatv("    %mid = ingot.silu {0} : tensor<?x{1}xf32>\n    %out = ingot.mul %mid, %mid : "
                          "tensor<?x{1}xf32>\n",
                          last, hidden);
    std::string weights;
    text +=
        formatv("  func.func private @kind{0}(%h: tensor<?x{1}xf32>, %batch: !ingot.batch, %cache: {2}, %index: index, "
                "%layer: index) -> tensor<?x{1}xf32> {{\n",
                i, hidden, cacheType);
    // Kinds have no arguments for weights: read parameters instead.
    SmallVector<StringRef> list;
    StringRef(graph.arguments).split(list, ", %", -1, false);
    for (StringRef argument : list) {
      auto [name, type] = argument.split(": ");
      text += formatv("    %{0} = ingot.weight @p{1}.{0} : {2}\n", name, i, type);
      weights += formatv("  ingot.parameter @p{1}.{0} \"p{1}.{0}\" part \"mlp\" : {2}\n", name, i, type);
    }
    text += graph.text + formatv("    return {0} : tensor<?x{1}xf32>\n  }\n", result, hidden).str() + weights;
  }
  GraphWriter graph(draw, "u");
  graph.add("%x", hidden);
  for (int64_t j = 0, count = draw.in(0, 6); j < count; ++j)
    graph.op();
  // The state that enters the layers is not used after them.
  graph.text +=
      formatv("    %e = ingot.silu {0} : tensor<?x{1}xf32>\n    %l = ingot.layers %e, %batch, %cache [{2}] : "
              "tensor<?x{1}xf32>, {3}\n",
              graph.any(hidden), hidden,
              kinds == 1 ? "#ingot.run<@kind0, first = 0, count = 4>"
                         : "#ingot.run<@kind0, first = 0, count = 1>, #ingot.run<@kind1, first = 0, count = 2>, "
                           "#ingot.run<@kind0, first = 1, count = 1>",
              cacheType);
  graph.add("%l", hidden);
  for (int64_t j = 0, count = draw.in(0, 6); j < count; ++j)
    graph.op();
  GraphWriter rows(draw, "r");
  graph.text += formatv("    %s = ingot.select_rows {0}, %batch : tensor<?x{1}xf32>\n", graph.any(hidden), hidden);
  rows.add("%s", hidden);
  for (int64_t j = 0, count = draw.in(0, 8); j < count; ++j)
    rows.op();
  return formatv("module {{\n{0}  func.func @main(%x: tensor<?x{1}xf32>, %batch: !ingot.batch, %cache: {2}{3}{4}) -> "
                 "tensor<?x{1}xf32> {{\n{5}{6}    return {7} : tensor<?x{1}xf32>\n  }\n}\n",
                 text, hidden, cacheType, graph.arguments, rows.arguments, graph.text, rows.text, "%s")
      .str();
}

std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

bool isActivation(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 2 && type.isDynamicDim(0);
}

/// Puts the result of one op where an activation lies that is read later on. False if the module has no such pair.
bool breakPlan(ModuleOp module, Draw &draw) {
  struct Fault {
    Operation *op;
    Value victim;
  };
  std::vector<Fault> faults;
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &writer : function.getBody().front()) {
      if (writer.getNumResults() != 1 || isa<SplitOp, LayersOp>(writer) || !isActivation(writer.getResult(0)))
        continue;
      for (Operation &reader : function.getBody().front())
        for (Value read : reader.getOperands()) {
          Value victim = getArenaRoot(read);
          Operation *maker = victim.getDefiningOp();
          bool before = isActivation(victim) && (!maker || maker->isBeforeInBlock(&writer));
          if (before && writer.isBeforeInBlock(&reader) && !isa<SplitOp>(reader) && maker &&
              isInRowSpace(victim) == isInRowSpace(writer.getResult(0)))
            faults.push_back({&writer, victim});
        }
    }
  if (faults.empty())
    return false;
  Fault fault = faults[draw.in(0, faults.size() - 1)];
  auto offsets = fault.victim.getDefiningOp()->getAttrOfType<DenseI64ArrayAttr>(arenaAttrName);
  int64_t offset = offsets[cast<OpResult>(fault.victim).getResultNumber()];
  fault.op->setAttr(arenaAttrName, DenseI64ArrayAttr::get(module.getContext(), {offset}));
  return true;
}

class RandomGraphs : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomGraphs, PlansAreSound) {
  MLIRContext context;
  context.loadDialect<IngotDialect, func::FuncDialect>();
  std::string text = makeRandomGraph(GetParam());
  auto module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module) << text;
  ASSERT_TRUE(succeeded(planArena(*module))) << text;
  EXPECT_TRUE(succeeded(verifyArenaPlan(*module))) << print(*module);

  // No more memory than without reuse: every activation in a place of its own.
  int64_t apart = 0;
  module->walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (isActivation(result) && !isa<SplitOp>(op))
        apart += getRowBytes(cast<RankedTensorType>(result.getType()));
  });
  auto arena = (*module)->getAttrOfType<DictionaryAttr>(arenaAttrName);
  EXPECT_LE(arena.getAs<IntegerAttr>("per_token").getInt() + arena.getAs<IntegerAttr>("per_row").getInt(), apart + 128);
}

TEST_P(RandomGraphs, OverlapsAreFound) {
  MLIRContext context;
  context.loadDialect<IngotDialect, func::FuncDialect>();
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  auto module = parseSourceString<ModuleOp>(makeRandomGraph(GetParam()), &context);
  ASSERT_TRUE(module && succeeded(planArena(*module)));
  Draw draw(GetParam() + 5000);
  for (int round = 0; round < 5; ++round) {
    OwningOpRef<ModuleOp> broken(module->clone());
    if (!breakPlan(*broken, draw))
      return;
    EXPECT_TRUE(failed(verifyArenaPlan(*broken))) << print(*broken);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, testing::Range<uint64_t>(0, 200));

} // namespace
