// A GPU's kernels, run by the emulator: against the evaluator within a bound, against themselves in bits, and with
// faults planted in them, which must be found.
#include "../Runtime/random_table.h"
#include "StepChecks.h"
#include "device/device.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "payload/payload.h"
#include "pool/pool.h"

using namespace ingot;
using namespace ingot::test;

namespace {

struct Case {
  std::string name;
  DecoderShape shape;
  bool fuse = true;
  size_t tokens = 70;
};

std::ostream &operator<<(std::ostream &os, const Case &c) { return os << c.name; }

/// A shape whose every K is a whole number of steps of 32 in each of eight segments.
void wholeSteps(DecoderShape &shape) {
  shape.hidden = 256;
  shape.heads = 8;
  shape.kvHeads = 2;
  shape.headDim = 32;
  shape.intermediate = 512;
  shape.runs = {1};
}

/// Each storage type of weights and of the cache, then a case for each thing that kernels are specialised for.
std::vector<Case> allCases() {
  std::vector<Case> cases;
  const char *types[][2] = {{"f32", "f32"}, {"bf16", "f16"}, {"f16", "bf16"}};
  for (auto [weights, cache] : types) {
    DecoderShape shape;
    shape.weights = weights;
    shape.cache = cache;
    cases.push_back({std::string("weights_") + weights + "_cache_" + cache, shape});
  }
  auto add = [&](const char *name, auto change, size_t tokens = 70, bool fuse = true) {
    DecoderShape shape;
    shape.cache = "f32";
    change(shape);
    cases.push_back({name, shape, fuse, tokens});
  };
  // Slices of K, and segments, of whole steps of 32; then a K that is odd.
  for (const char *weights : {"bf16", "f16"}) {
    add((std::string("whole_steps_") + weights).c_str(), [&](DecoderShape &s) {
      wholeSteps(s);
      s.weights = weights;
      s.bias = true;
    });
    add((std::string("odd_features_") + weights).c_str(), [&](DecoderShape &s) {
      s.weights = weights;
      s.hidden = 45;
      s.intermediate = 77;
      s.vocab = 65;
    });
  }
  add("unfused", [](DecoderShape &s) { s.interleaved = true; }, 70, false);
  add("unfused_normed", [](DecoderShape &s) { s.qkNorm = true; }, 70, false);
  add("window", [](DecoderShape &s) { s.window = 20; }, 140);
  // More than one split of 512 positions.
  auto small = [](DecoderShape &s) {
    s.hidden = 16;
    s.intermediate = 16;
    s.runs = {1};
  };
  add("long_context", small, 600);
  add(
      "long_context_window",
      [&](DecoderShape &s) {
        small(s);
        s.window = 530;
      },
      600);
  add("normed", [](DecoderShape &s) { s.qkNorm = true; });
  add("biases", [](DecoderShape &s) { s.bias = true; });
  add("interleaved_normed_untied", [](DecoderShape &s) {
    s.interleaved = s.qkNorm = true;
    s.tied = false;
    s.headDim = 70;
  });
  add("long_factors", [](DecoderShape &s) { s.longRope = true; });
  add("no_groups", [](DecoderShape &s) {
    s.heads = s.kvHeads = 2;
    s.headDim = 128;
  });
  // More query heads of a kv head than a block takes.
  add("many_groups", [](DecoderShape &s) {
    s.heads = 20;
    s.kvHeads = 1;
    s.headDim = 2;
  });
  add("odd_features", [](DecoderShape &s) {
    s.hidden = 45;
    s.intermediate = 77;
    s.vocab = 65;
  });
  add("few_features", [](DecoderShape &s) {
    s.hidden = 3;
    s.intermediate = 5;
    s.heads = s.kvHeads = 1;
    s.headDim = 2;
    s.vocab = 3;
  });
  add("alternating_kinds", [](DecoderShape &s) {
    s.runs = {1, 2, 1};
    s.window = 33;
  });
  return cases;
}

class EmulatedStep : public testing::TestWithParam<Case> {};

Build emulated(bool fuse = true) {
  Build build;
  build.fuse = fuse;
  build.emulated = true;
  return build;
}

} // namespace

TEST_P(EmulatedStep, MatchesEvaluatorAndItself) {
  const Case &c = GetParam();
  CompiledModel model(decoderText(c.shape), emulated(c.fuse));
  model.longRegime = c.shape.longRope;
  std::vector<int32_t> ids = someTokens(c.tokens, c.shape.vocab, 1);
  Logits whole = model.logits(0, ids, ids.size());
  ASSERT_EQ(model.fault, "");
  matchesEvaluator(model, ids, whole, c.shape.cache.c_str());
  oneResultInBatch(model, ids, whole, c.shape.vocab);
  ASSERT_EQ(model.fault, "");
  // Token by token, in chunks, and with blocks in another order.
  for (auto [chunk, order] : {std::pair<size_t, const char *>{c.tokens > 200 ? 97 : 1, "reverse"}, {17, "5"}}) {
    model.reset();
    model.emulatorOrder = order;
    expectSameBits(whole, model.logits(0, ids, chunk), order);
    ASSERT_EQ(model.fault, "");
  }
  model.reset();
  auto best = model.argmax({{0, ids}});
  for (size_t row = 0; row < best.size(); ++row) {
    auto expected = std::max_element(whole[row].begin(), whole[row].end());
    EXPECT_EQ(best[row].first, expected - whole[row].begin());
    EXPECT_EQ(best[row].second, *expected);
  }
  ASSERT_EQ(model.fault, "");
}

INSTANTIATE_TEST_SUITE_P(Cases, EmulatedStep, testing::ValuesIn(allCases()),
                         [](const auto &info) { return info.param.name; });

namespace {

/// Every op of a kind in the kernels, in order.
template <typename Op>
std::vector<Op> allOf(mlir::ModuleOp module) {
  std::vector<Op> ops;
  for (auto kernels : module.getOps<mlir::gpu::GPUModuleOp>())
    kernels.walk([&](Op op) { ops.push_back(op); });
  return ops;
}

std::string kernelOf(mlir::Operation *op) { return op->getParentOfType<mlir::gpu::GPUFuncOp>().getName().str(); }

} // namespace

// As on the CPU: a row with a logit that is not a number has no largest one. Here one thread of many reads it.
TEST(EmulatedArgmax, IsNotANumberWhereALogitIsNone) {
  Build build = emulated();
  build.sabotage = [](mlir::ModuleOp module) {
    for (auto load : allOf<mlir::LLVM::LoadOp>(module)) {
      auto loop = load->getParentOfType<mlir::scf::ForOp>();
      if (kernelOf(load) != "argmax" || !loop)
        continue;
      mlir::OpBuilder builder(load);
      builder.setInsertionPointAfter(load);
      mlir::Location loc = load.getLoc();
      mlir::Value fifth = mlir::arith::ConstantIndexOp::create(builder, loc, 5);
      mlir::Value isFifth =
          mlir::arith::CmpIOp::create(builder, loc, mlir::arith::CmpIPredicate::eq, loop.getInductionVar(), fifth);
      mlir::Value none = mlir::arith::ConstantFloatOp::create(builder, loc, builder.getF32Type(),
                                                              llvm::APFloat::getNaN(llvm::APFloat::IEEEsingle()));
      auto chosen = mlir::arith::SelectOp::create(builder, loc, isFifth, none, load);
      load.getResult().replaceAllUsesExcept(chosen, chosen);
    }
  };
  CompiledModel model(decoderText({}), build);
  auto best = model.argmax({{0, {3, 1, 4}}});
  ASSERT_EQ(model.fault, "");
  ASSERT_EQ(best.size(), 3u);
  for (auto [id, value] : best)
    EXPECT_TRUE(std::isnan(value)) << id << " " << value;
}

//----------------------------------------------------------------------------------------------------------------------
// Random weights
//----------------------------------------------------------------------------------------------------------------------

namespace {

/// Kernels for random weights stored as `element`, of a model that has parameters in rows, in panels and in pairs.
struct RandomKernels {
  std::unique_ptr<CompiledModel> model;
  const ingot_rt_kernel *kernels[INGOT_RT_RANDOM_KERNELS] = {};
  std::unique_ptr<rt::Device> emulator;

  RandomKernels(uint32_t dtype, const std::string &element, std::function<void(mlir::ModuleOp)> sabotage = {}) {
    DecoderShape shape;
    shape.weights = element;
    shape.tied = false; // an embedding in rows
    Build build = emulated();
    build.randomWeights = true;
    build.sabotage = std::move(sabotage);
    model = std::make_unique<CompiledModel>(decoderText(shape), build);
    kernels[ingot_rt_random_kernel(dtype, INGOT_RT_ROWS)] = model->kernel("random_rows_" + element);
    kernels[ingot_rt_random_kernel(dtype, INGOT_RT_PANELS)] = model->kernel("random_panels_" + element);
    setenv("INGOT_EMULATOR_ORDER", "3", 1);
    emulator = std::move(*ingot_rt_emulator.open(nullptr, {}));
  }

  /// What the kernels leave in zeroed memory.
  std::vector<uint8_t> fill(const ingot_rt_model &table) {
    std::vector<uint8_t> weights(table.weights_bytes);
    uint64_t told = 0;
    rt::launchRandomWeights(table, kernels, weights.data(), *emulator, [&](uint64_t bytes) {
      EXPECT_GT(bytes, told);
      told = bytes;
    });
    uint64_t all = 0;
    for (uint64_t i = 0; i < table.random_source_count; ++i)
      all += table.random_sources[i].count * table.random_sources[i].rows * table.random_sources[i].columns;
    if (!emulator->fault())
      EXPECT_EQ(told, all * ingot_rt_dtype_size(table.parameters[0].dtype));
    return weights;
  }
};

constexpr std::pair<uint32_t, const char *> elementTypes[] = {
    {INGOT_RT_F32, "f32"}, {INGOT_RT_BF16, "bf16"}, {INGOT_RT_F16, "f16"}};

} // namespace

// The bits of the host's generator, which payload_test compares with the definition.
TEST(EmulatedRandomWeights, AreTheHosts) {
  rt::Pool pool(1, 1);
  for (auto [dtype, element] : elementTypes) {
    RandomKernels kernels(dtype, element);
    auto compare = [&](uint32_t layout, uint64_t rows, uint64_t columns, uint64_t segments,
                       ingot_rt_random_kind kind = INGOT_RT_RANDOM_MATRIX) {
      RandomTable table(dtype, layout, rows, columns, segments, kind);
      std::vector<uint8_t> expected(table.model.weights_bytes);
      rt::fillRandomWeights(table.model, expected.data(), pool);
      EXPECT_EQ(kernels.fill(table.model), expected)
          << element << " layout " << layout << " " << rows << "x" << columns << " segments " << segments;
    };
    for (uint64_t rows : {1, 16, 37, 70})
      for (uint64_t columns : {1, 16, 31, 300}) {
        compare(INGOT_RT_ROWS, rows, columns, 1);
        compare(INGOT_RT_PANELS, rows, columns, 1);
        compare(INGOT_RT_PANELS, rows, columns, 8);
        compare(INGOT_RT_PANEL_PAIRS, rows, columns, 1);
      }
    compare(INGOT_RT_ROWS, 1, 4100, 1, INGOT_RT_RANDOM_NORM);
    compare(INGOT_RT_ROWS, 1, 4100, 1, INGOT_RT_RANDOM_BIAS);
    // The exponent of wide matrices, whose least values are subnormal in f16.
    compare(INGOT_RT_PANELS, 20, 16384 + 2, 8);
    EXPECT_EQ(kernels.emulator->fault(), nullptr) << kernels.emulator->fault();
  }
}

// Kernels whose bounds are off by one write beyond what a source's launch was given.
TEST(EmulatedRandomWeights, PlantedFaults) {
  RandomKernels kernels(INGOT_RT_BF16, "bf16", [](mlir::ModuleOp module) {
    for (auto compare : allOf<mlir::arith::CmpIOp>(module))
      if (kernelOf(compare) == "random_rows_bf16")
        compare.setPredicate(mlir::arith::CmpIPredicate::sle);
  });
  RandomTable table(INGOT_RT_BF16, INGOT_RT_ROWS, 1, 300, 1);
  kernels.fill(table.model);
  ASSERT_NE(kernels.emulator->fault(), nullptr);
  std::string fault = kernels.emulator->fault();
  EXPECT_NE(fault.find("kernel random_rows_bf16"), std::string::npos) << fault;
  EXPECT_NE(fault.find("store of weights: bytes 600 to 601 of weights, which has 600"), std::string::npos) << fault;
}

//----------------------------------------------------------------------------------------------------------------------
// Planted faults
//----------------------------------------------------------------------------------------------------------------------

namespace {

/// The shape for planted faults: norms of heads, two blocks of positions, and more rows than one tile.
DecoderShape faultyShape() {
  DecoderShape shape;
  shape.cache = "f32";
  shape.qkNorm = true;
  shape.runs = {1};
  return shape;
}

/// What the emulator says of a step with changed kernels.
std::string faultOf(std::function<void(mlir::ModuleOp)> sabotage, const DecoderShape &shape = faultyShape()) {
  Build build = emulated();
  build.sabotage = std::move(sabotage);
  CompiledModel model(decoderText(shape), build);
  // Products of many rows, then of few.
  model.argmax({{0, someTokens(80, shape.vocab, 3)}});
  if (model.fault.empty())
    model.argmax({{0, someTokens(3, shape.vocab, 4)}});
  return model.fault;
}

} // namespace

// Each barrier of each kernel that runs is needed, and its lack is seen as a race.
TEST(PlantedFaults, MissingBarrier) {
  std::vector<std::string> kernels;
  ASSERT_EQ(faultOf([&](mlir::ModuleOp module) {
              for (auto barrier : allOf<mlir::gpu::BarrierOp>(module))
                kernels.push_back(kernelOf(barrier));
            }),
            "");
  size_t found = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::string &kernel = kernels[i];
    if (kernel == "sample") // runs in other steps: EmulatedSamplingTest.cpp
      continue;
    ++found;
    std::string fault = faultOf([&](mlir::ModuleOp module) { allOf<mlir::gpu::BarrierOp>(module)[i].erase(); });
    EXPECT_NE(fault.find("kernel " + kernel), std::string::npos) << i << " " << kernel << ": " << fault;
    EXPECT_NE(fault.find("shared memory"), std::string::npos) << i << " " << kernel << ": " << fault;
  }
  EXPECT_GE(found, 14u);
}

// The loops of a kernel go one too far.
TEST(PlantedFaults, OffByOneBound) {
  DecoderShape whole = faultyShape();
  wholeSteps(whole); // of the rest of a step nothing is read, whatever the bound
  for (const char *kernel :
       {"rms_norm", "add_rms_norm", "embedding", "few_rows", "rope_append", "select_rows", "argmax"}) {
    auto oneMore = [&](mlir::ModuleOp module) {
      for (auto loop : allOf<mlir::scf::ForOp>(module)) {
        std::string name = kernelOf(loop);
        if (name.find(kernel) == std::string::npos)
          continue;
        mlir::OpBuilder builder(loop);
        mlir::Value one = mlir::arith::ConstantIndexOp::create(builder, loop.getLoc(), 1);
        mlir::Value more = mlir::arith::AddIOp::create(builder, loop.getLoc(), loop.getUpperBound(), one);
        loop.setUpperBound(more);
      }
    };
    std::string fault = faultOf(oneMore, whole);
    EXPECT_NE(fault.find(kernel), std::string::npos) << kernel << ": " << fault;
    // A product of few rows reads what was copied, which is not more.
    const char *what = std::string(kernel) == "few_rows" ? "which no thread of the block has written" : ", which has ";
    EXPECT_NE(fault.find(what), std::string::npos) << kernel << ": " << fault;
  }
}

// Tiles that are read before their copies are waited for, not at all or one group too late.
TEST(PlantedFaults, MissingWaitForCopies) {
  for (const char *kernel : {"many_rows", "few_rows"})
    for (bool late : {false, true}) {
      std::string fault = faultOf([&](mlir::ModuleOp module) {
        for (auto wait : allOf<mlir::NVVM::CpAsyncWaitGroupOp>(module)) {
          if (!kernelOf(wait).ends_with(kernel))
            continue;
          if (late)
            wait.setN(wait.getN() + 1);
          else
            wait.erase();
        }
      });
      EXPECT_NE(fault.find(kernel), std::string::npos) << fault;
      EXPECT_NE(fault.find("is in flight"), std::string::npos) << fault;
    }
}

// One copy more than is waited for.
TEST(PlantedFaults, CopyThatNobodyReads) {
  std::string fault = faultOf([](mlir::ModuleOp module) {
    using mlir::arith::CmpIPredicate;
    for (auto copy : allOf<mlir::NVVM::CpAsyncOp>(module)) {
      auto branch = copy->getParentOfType<mlir::scf::IfOp>();
      auto condition = branch.getCondition().getDefiningOp<mlir::arith::CmpIOp>();
      if (!kernelOf(copy).ends_with("few_rows") || !condition)
        continue;
      if (condition.getPredicate() == CmpIPredicate::slt)
        condition.setPredicate(CmpIPredicate::sle);
      else if (condition.getPredicate() == CmpIPredicate::sgt)
        condition.setPredicate(CmpIPredicate::sge);
    }
  });
  EXPECT_NE(fault.find("few_rows"), std::string::npos) << fault;
  EXPECT_NE(fault.find("ends with a copy to byte"), std::string::npos) << fault;
}

// A copy to the stage that other warps still read.
TEST(PlantedFaults, CopyOverATileThatIsRead) {
  std::string fault = faultOf([](mlir::ModuleOp module) {
    for (auto remainder : allOf<mlir::arith::RemUIOp>(module)) {
      // (number + 2) % 3 becomes number % 3, the stage that is being read.
      auto sum = remainder.getLhs().getDefiningOp<mlir::arith::AddIOp>();
      auto three = remainder.getRhs().getDefiningOp<mlir::arith::ConstantIndexOp>();
      if (kernelOf(remainder).ends_with("many_rows") && sum && three && three.value() == 3)
        remainder.getLhsMutable().assign(sum.getLhs());
    }
  });
  EXPECT_NE(fault.find("many_rows"), std::string::npos) << fault;
  EXPECT_NE(fault.find("is in flight"), std::string::npos) << fault;
}

// A product that one lane of a warp leaves out.
TEST(PlantedFaults, ProductWithoutALane) {
  std::string fault = faultOf([](mlir::ModuleOp module) {
    auto product = allOf<mlir::NVVM::MmaOp>(module).front();
    mlir::OpBuilder builder(product);
    mlir::Location loc = product.getLoc();
    mlir::Value thread = mlir::gpu::ThreadIdOp::create(builder, loc, mlir::gpu::Dimension::x);
    mlir::Value ninth = mlir::arith::ConstantIndexOp::create(builder, loc, 9);
    mlir::Value others = mlir::arith::CmpIOp::create(builder, loc, mlir::arith::CmpIPredicate::ne, thread, ninth);
    mlir::Value none = mlir::LLVM::UndefOp::create(builder, loc, product.getType());
    auto branch = mlir::scf::IfOp::create(builder, loc, product.getType(), others, /*withElseRegion=*/true);
    product.getResult().replaceAllUsesWith(branch.getResult(0));
    product->moveBefore(branch.thenBlock(), branch.thenBlock()->end());
    builder.setInsertionPointToEnd(branch.thenBlock());
    mlir::scf::YieldOp::create(builder, loc, product.getResult());
    builder.setInsertionPointToEnd(branch.elseBlock());
    mlir::scf::YieldOp::create(builder, loc, none);
  });
  EXPECT_NE(fault.find("waits in a mma of lanes 0xffffffff (product), but thread 9 "), std::string::npos) << fault;
}

// A shuffle whose mask holds half of the warp that runs it.
TEST(PlantedFaults, WrongMask) {
  std::string fault = faultOf([](mlir::ModuleOp module) {
    auto shuffle = allOf<mlir::gpu::ShuffleOp>(module).front();
    mlir::OpBuilder builder(shuffle);
    mlir::Value half = mlir::arith::ConstantIntOp::create(builder, shuffle.getLoc(), 16, 32);
    shuffle.getWidthMutable().assign(half);
  });
  EXPECT_NE(fault.find("thread 16"), std::string::npos) << fault;
  EXPECT_NE(fault.find("0x0000ffff"), std::string::npos) << fault;
}

// A barrier that only some threads reach, before the end of a kernel.
TEST(PlantedFaults, DivergentBarrier) {
  std::string fault = faultOf([](mlir::ModuleOp module) {
    auto end = allOf<mlir::gpu::ReturnOp>(module).front();
    mlir::OpBuilder builder(end);
    mlir::Location loc = end.getLoc();
    mlir::Value thread = mlir::gpu::ThreadIdOp::create(builder, loc, mlir::gpu::Dimension::x);
    mlir::Value some = mlir::arith::ConstantIndexOp::create(builder, loc, 100);
    mlir::Value inside = mlir::arith::CmpIOp::create(builder, loc, mlir::arith::CmpIPredicate::ult, thread, some);
    auto branch = mlir::scf::IfOp::create(builder, loc, inside, /*withElseRegion=*/false);
    builder.setInsertionPointToStart(branch.thenBlock());
    mlir::gpu::BarrierOp::create(builder, loc);
  });
  EXPECT_NE(fault.find("waits at barrier 0"), std::string::npos) << fault;
  EXPECT_NE(fault.find("thread 100 has ended"), std::string::npos) << fault;
}
