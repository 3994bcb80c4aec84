//===- FusionTest.cpp - Passes on random decoders leave every bit -------------------------------------------------===//
//
// The naive evaluator is the oracle: a decoder means the same before and after fusions in any order, and after packing.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "RandomDecoder.h"
#include "compiler/Evaluator/Evaluator.h"
#include "compiler/Pipelines/Pipelines.h"
#include "compiler/Transforms/Passes.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <set>

using namespace mlir;
using namespace ingot;

namespace {

std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

/// Logits of two sequences, in chunks of 3 tokens.
std::vector<Matrix> evaluate(ModuleOp module, int64_t segments) {
  RandomParameters parameters(7);
  EvaluatorOptions options;
  options.rowParallelSegments = segments;
  Evaluator evaluator(module, parameters, options);
  auto type = evaluator.cacheType();
  EXPECT_TRUE(bool(type)) << llvm::toString(type.takeError());
  Cache cache(*type);
  auto logits = evaluator.logits({{1, 2, 3, 4, 5, 6, 7}, {16}}, 3, cache);
  EXPECT_TRUE(bool(logits)) << llvm::toString(logits.takeError());
  return logits ? std::move(*logits) : std::vector<Matrix>();
}

/// The first difference in bits, or an empty string.
std::string difference(const std::vector<Matrix> &a, const std::vector<Matrix> &b) {
  if (a.size() != b.size())
    return "different numbers of results";
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].values.size() != b[i].values.size())
      return "different shapes";
    for (size_t j = 0; j < a[i].values.size(); ++j)
      if (llvm::bit_cast<uint32_t>(a[i].values[j]) != llvm::bit_cast<uint32_t>(b[i].values[j]))
        return llvm::formatv("result {0}, element {1}: {2} and {3}", i, j, a[i].values[j], b[i].values[j]).str();
  }
  return {};
}

using MakePass = std::unique_ptr<Pass> (*)();
const MakePass fusions[] = {[] { return createFuseQKVPass(); }, [] { return createFuseGateUpPass(); },
                            [] { return createFuseAddRMSNormPass(); }, [] { return createFuseQKNormRopeAppendPass(); },
                            [] { return createFuseLinearEpiloguePass(); }};

class RandomDecoders : public testing::TestWithParam<uint64_t> {
protected:
  RandomDecoders() { context.loadDialect<IngotDialect, func::FuncDialect>(); }

  OwningOpRef<ModuleOp> make() {
    std::string text = makeRandomDecoder(GetParam());
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }

  MLIRContext context;
};

/// A sum of row-parallel segments and its packed form: see EvaluatorOptions.
constexpr int64_t packedSegments = 8;

TEST_P(RandomDecoders, FusionsInAnyOrderKeepBits) {
  OwningOpRef<ModuleOp> module = make();
  ASSERT_TRUE(module);
  std::vector<Matrix> expected = evaluate(*module, packedSegments);
  Draw draw(GetParam() + 1000);
  for (int round = 0; round < 3; ++round) {
    OwningOpRef<ModuleOp> changed(module->clone());
    PassManager pm(&context);
    std::string order;
    for (int64_t i = 0, count = draw.in(1, 7); i < count; ++i) {
      int64_t which = draw.in(0, std::size(fusions) - 1);
      pm.addNestedPass<func::FuncOp>(fusions[which]());
      order += std::to_string(which) + " ";
    }
    ASSERT_TRUE(succeeded(pm.run(*changed))) << order;
    std::string found = difference(expected, evaluate(*changed, packedSegments));
    ASSERT_EQ(found, "") << "passes " << order << "\n" << print(*module) << print(*changed);
  }
}

TEST_P(RandomDecoders, PipelinesKeepBitsAndContracts) {
  OwningOpRef<ModuleOp> module = make();
  ASSERT_TRUE(module);
  std::vector<Matrix> expected = evaluate(*module, packedSegments);
  for (bool fuse : {true, false}) {
    OwningOpRef<ModuleOp> changed(module->clone());
    CompileOptions options;
    options.fuse = fuse;
    PassManager pm(&context);
    populateFusedPipeline(pm, options);
    populatePackedPipeline(pm, options);
    ASSERT_TRUE(succeeded(pm.run(*changed))) << print(*module);
    std::string found = difference(expected, evaluate(*changed, packedSegments));
    ASSERT_EQ(found, "") << "fuse " << fuse << "\n" << print(*module) << print(*changed);
    // Printed and parsed it is the same: what follows can start from the text.
    auto again = parseSourceString<ModuleOp>(print(*changed), &context);
    ASSERT_TRUE(again);
    EXPECT_EQ(print(*again), print(*changed));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomDecoders, testing::Range<uint64_t>(0, 60));

/// The seeds reach what the passes are about: every fusion is done in some decoder and not done in some other.
TEST(RandomDecoder, CoversEveryFusion) {
  MLIRContext context;
  context.loadDialect<IngotDialect, func::FuncDialect>();
  std::set<std::string> changes, keeps;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    auto module = parseSourceString<ModuleOp>(makeRandomDecoder(seed), &context);
    ASSERT_TRUE(module);
    for (size_t i = 0; i < std::size(fusions); ++i) {
      OwningOpRef<ModuleOp> changed(module->clone());
      PassManager pm(&context);
      pm.addNestedPass<func::FuncOp>(fusions[i]());
      ASSERT_TRUE(succeeded(pm.run(*changed)));
      (print(*changed) != print(*module) ? changes : keeps).insert(std::to_string(i));
    }
  }
  EXPECT_EQ(changes.size(), std::size(fusions));
  // Nearly every random decoder has a sum and a norm of it.
  EXPECT_GE(keeps.size(), std::size(fusions) - 2);
}

/// What ingotc -v prints: remarks arrive as diagnostics once they are asked for, and not before.
TEST(Remarks, AreDiagnosticsWhenEnabled) {
  for (bool enabled : {false, true}) {
    MLIRContext context;
    context.loadDialect<IngotDialect, func::FuncDialect>();
    std::vector<std::string> remarks;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
        remarks.push_back(diagnostic.str());
      return success();
    });
    if (enabled) {
      ASSERT_TRUE(succeeded(enableRemarks(context)));
    }
    auto module = parseSourceString<ModuleOp>(makeRandomDecoder(1), &context);
    PassManager pm(&context);
    populateFusedPipeline(pm, CompileOptions());
    ASSERT_TRUE(module && succeeded(pm.run(*module)));
    EXPECT_EQ(remarks.empty(), !enabled);
    for (const std::string &remark : remarks)
      EXPECT_NE(remark.find("ingot-fuse-"), std::string::npos) << remark;
  }
}

} // namespace
