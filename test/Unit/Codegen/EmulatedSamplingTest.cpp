// The kernel that chooses tokens, run by the emulator: the choices are those of the runtime's sampler, whatever the
// logits, the options and the vocabulary, and faults planted in it are found.
#include "StepChecks.h"
#include "device/device.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "sampler/sampler.h"
#include <random>

using namespace ingot;
using namespace ingot::test;
using rt::SamplingOptions;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

DecoderShape smallShape() {
  DecoderShape shape;
  shape.hidden = shape.intermediate = 16;
  shape.runs = {1};
  return shape;
}

/// One row to choose from, and how.
struct Row {
  std::vector<float> logits;
  SamplingOptions options;
  std::vector<int32_t> seen;
  /// Ids that the mask takes out.
  std::vector<int32_t> forbidden;
  uint64_t index = 0;
};

void forbid(void *context, uint64_t *allowed, uint64_t) {
  for (int32_t id : *static_cast<std::vector<int32_t> *>(context))
    allowed[id / 64] &= ~(uint64_t(1) << (id % 64));
}

/// What the runtime's sampler chooses; -1 for nothing.
int32_t chosenByHost(Row row) {
  rt::Sampler sampler(row.logits.size());
  rt::SeenTokens seen(row.logits.size());
  for (int32_t id : row.seen)
    seen.add(id);
  rt::Result<int32_t> token = sampler.choose(row.logits.data(), row.options, seen, row.index);
  if (!token)
    token.takeError().message();
  return token ? *token : -1;
}

/// The kernel of a model, and the emulator.
struct SampleKernel {
  CompiledModel model;
  const ingot_rt_kernel *kernel;
  std::unique_ptr<rt::Device> emulator;

  explicit SampleKernel(std::function<void(mlir::ModuleOp)> sabotage = {})
      : model(decoderText(smallShape()), build(std::move(sabotage))), kernel(model.kernel("sample")) {
    setenv("INGOT_EMULATOR_ORDER", "3", 1);
    emulator = std::move(*ingot_rt_emulator.open(nullptr, {}));
  }
  static Build build(std::function<void(mlir::ModuleOp)> sabotage) {
    Build build;
    build.emulated = true;
    build.sabotage = std::move(sabotage);
    return build;
  }

  /// One launch for rows of one vocabulary.
  std::vector<int32_t> choose(std::vector<Row> &rows) {
    const uint64_t n = rows[0].logits.size(), stride = (n + 15) / 16 * 16, words = (n + 63) / 64;
    std::vector<float> logits(rows.size() * stride, NAN); // padding is not looked at
    std::vector<ingot_rt_sampling> sampling;
    std::vector<uint64_t> sets(rows.size() * INGOT_RT_TOKEN_SETS * words, 0x5555555555555555u);
    for (size_t i = 0; i < rows.size(); ++i) {
      Row &row = rows[i];
      std::copy(row.logits.begin(), row.logits.end(), logits.begin() + static_cast<ptrdiff_t>(i * stride));
      if (!row.forbidden.empty()) {
        row.options.mask = forbid;
        row.options.maskContext = &row.forbidden;
      }
      sampling.push_back(row.options.describe(row.index));
      rt::SeenTokens seen(n);
      for (int32_t id : row.seen)
        seen.add(id);
      uint64_t *of = sets.data() + i * INGOT_RT_TOKEN_SETS * words;
      if (row.options.repetitionPenalty != 1)
        std::copy(seen.bits().begin(), seen.bits().end(), of + INGOT_RT_SEEN * words);
      if (row.options.mask)
        row.options.maskInto(of + INGOT_RT_ALLOWED * words, n);
    }
    std::vector<int32_t> tokens(rows.size(), -2);
    auto address = [](const auto &values) { return reinterpret_cast<uint64_t>(values.data()); };
    const uint64_t arguments[] = {address(logits), stride,         n, address(sampling), address(sets),
                                  2 * words,       address(tokens)};
    const uint64_t extents[] = {((rows.size() - 1) * stride + n) * 4,
                                0,
                                0,
                                sampling.size() * sizeof(ingot_rt_sampling),
                                sets.size() * 8,
                                0,
                                tokens.size() * 4};
    EXPECT_EQ(kernel->argument_count, std::size(arguments));
    emulator->launch({kernel, arguments, extents, {static_cast<uint32_t>(rows.size()), 1, 1}, 0, -1});
    return tokens;
  }

  /// Expects the host's choices.
  void compare(std::vector<Row> rows, const std::string &what) {
    std::vector<int32_t> tokens = choose(rows);
    ASSERT_EQ(emulator->fault(), nullptr) << what << ": " << emulator->fault();
    for (size_t i = 0; i < rows.size(); ++i) {
      const SamplingOptions &o = rows[i].options;
      EXPECT_EQ(tokens[i], chosenByHost(rows[i]))
          << what << ", row " << i << ": temperature " << o.temperature << " top-k " << o.topK << " top-p " << o.topP
          << " min-p " << o.minP << " penalty " << o.repetitionPenalty << " forbidden " << rows[i].forbidden.size()
          << " vocab " << rows[i].logits.size();
    }
  }
};

/// The kernel as it is, made once.
SampleKernel &sampleKernel() {
  static SampleKernel kernel;
  return kernel;
}

/// Logits of several kinds: smooth ones, few values with many ties, a narrow and a wide range, one value only, some of
/// them -infinity.
std::vector<float> someLogits(std::mt19937 &random, uint64_t n) {
  std::normal_distribution<float> normal(0, 3);
  const uint32_t kind = random() % 7;
  std::vector<float> logits(n);
  for (float &x : logits) {
    x = normal(random);
    if (kind == 1)
      x = std::round(x);
    else if (kind == 2)
      x = x * 1e-4f;
    else if (kind == 3)
      x = x * 1e30f;
    else if (kind == 4)
      x = -2.5f;
    else if (kind == 5 && random() % 3 == 0)
      x = -infinity;
    else if (kind == 6)
      x = random() % 2 ? 0.0f : -0.0f;
  }
  return logits;
}

template <typename T, size_t N>
T pick(std::mt19937 &random, const T (&values)[N]) {
  return values[random() % N];
}

Row someRow(std::mt19937 &random, uint64_t n) {
  Row row;
  row.logits = someLogits(random, n);
  SamplingOptions &o = row.options;
  o.temperature = pick(random, {1.0f, 0.8f, 0.3f, 2.5f, 100.0f, 1e-3f, 0.0f, 1e-42f});
  o.topK = pick(random, {uint64_t(0), uint64_t(1), uint64_t(2), uint64_t(40), n / 2, n - 1, n, n + 7});
  o.topP = pick(random, {1.0f, 0.9f, 0.5f, 0.999999f, 0.1f, 0.0f});
  o.minP = pick(random, {0.0f, 0.0f, 0.05f, 0.7f, 1.0f});
  o.repetitionPenalty = pick(random, {1.0f, 1.0f, 1.1f, 0.5f});
  o.seed = random();
  row.index = random() % 1000;
  for (uint64_t i = 0; i < n / 4 + 1; ++i)
    row.seen.push_back(static_cast<int32_t>(random() % n));
  if (random() % 3 == 0)
    for (uint64_t i = 0; i < n / 2 + 1; ++i)
      row.forbidden.push_back(static_cast<int32_t>(random() % n));
  return row;
}

template <typename Op>
std::vector<Op> opsOfKernel(mlir::ModuleOp module) {
  std::vector<Op> ops;
  module.walk([&](mlir::gpu::GPUFuncOp kernel) {
    if (kernel.getName() == "sample")
      kernel.walk([&](Op op) { ops.push_back(op); });
  });
  return ops;
}

/// A row for which every step of the kernel runs: top-k, and top-p that cuts among equals.
Row everyStep() {
  Row row;
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i)
    row.logits.push_back(static_cast<float>(random() % 9));
  row.options.topK = 100;
  row.options.topP = 0.95f;
  row.options.seed = 3;
  return row;
}

std::string faultOf(std::function<void(mlir::ModuleOp)> sabotage) {
  SampleKernel kernel(std::move(sabotage));
  std::vector<Row> rows = {everyStep()};
  kernel.choose(rows);
  return kernel.emulator->fault() ? kernel.emulator->fault() : "";
}

} // namespace

TEST(EmulatedSampling, ChoosesAsTheHost) {
  SampleKernel &kernel = sampleKernel();
  std::mt19937 random(1);
  for (uint64_t n : {1, 2, 3, 31, 33, 64, 131, 1000, 2500}) {
    std::vector<Row> rows;
    for (int i = 0; i < 10; ++i)
      rows.push_back(someRow(random, n));
    kernel.compare(std::move(rows), "vocabulary of " + std::to_string(n));
  }
}

// Every pair of filters, at several draws.
TEST(EmulatedSampling, EveryCombinationOfFilters) {
  SampleKernel &kernel = sampleKernel();
  std::mt19937 random(2);
  for (uint64_t topK : {0, 5, 60})
    for (float topP : {1.0f, 0.7f}) {
      std::vector<Row> rows;
      for (float minP : {0.0f, 0.3f})
        for (float temperature : {0.0f, 0.7f, 1.0f})
          for (float penalty : {1.0f, 1.3f}) {
            Row row = someRow(random, 200);
            row.options = {};
            row.options.topK = topK;
            row.options.topP = topP;
            row.options.minP = minP;
            row.options.temperature = temperature;
            row.options.repetitionPenalty = penalty;
            row.options.seed = random();
            rows.push_back(row);
          }
      kernel.compare(std::move(rows), "filters");
    }
}

TEST(EmulatedSampling, Edges) {
  SampleKernel &kernel = sampleKernel();
  std::vector<Row> rows;
  auto add = [&](std::vector<float> logits, auto change) {
    for (uint64_t index = 0; index < 2; ++index) {
      Row row;
      row.logits = logits;
      row.index = index;
      change(row);
      rows.push_back(row);
    }
  };
  auto plain = [](Row &) {};
  add({0, 0, 0, 0, 0, 0}, [](Row &r) { r.options.topP = 0.5f; }); // exactly half of six equals
  add({0, 0, 0, 0, 0, 0}, [](Row &r) { r.options.topP = 0; });    // one of them
  add({1, 1, 0, 1, 0, 1}, [](Row &r) { r.options.topK = 2; });    // ties are kept
  add({1, 1, 0, 1, 0, 1}, [](Row &r) { r.options = {.topK = 2, .topP = 0.3f}; });
  add({5, 4, 3, 2, 1, 0}, [](Row &r) { r.forbidden = {0, 1, 2, 4, 5}; });    // one token left
  add({5, 4, 3, 2, 1, 0}, [](Row &r) { r.forbidden = {0, 1, 2, 3, 4, 5}; }); // none
  add({5, 4, NAN, 2, 1, 0}, plain);
  add({5, 4, NAN, 2, 1, 0}, [](Row &r) { r.forbidden = {2}; });
  add({-infinity, -infinity, -infinity, -infinity, -infinity, -infinity}, plain);
  add({-infinity, -3, -infinity, -3, -infinity, -infinity}, [](Row &r) { r.options.topK = 3; });
  add({1, infinity, 0, infinity, 0, 0}, plain);
  add({3e38f, 3e38f, -3e38f, 1, 2, 3}, [](Row &r) { r.options.temperature = 0.5f; }); // overflows
  add({3e38f, 3e38f, -3e38f, 1, 2, 3}, [](Row &r) { r.options.temperature = 1e30f; });
  add({0.0f, -0.0f, 0.0f, -0.0f, -1, 1}, [](Row &r) { r.options = {.topK = 3, .topP = 0.6f}; });
  add({1e-45f, -1e-45f, 0, 1e-40f, -1e-40f, 0}, [](Row &r) { r.options.topP = 0.4f; });  // subnormal
  add({0, -28.8f, -28.7999f, -40, -28.9f, -29}, [](Row &r) { r.options.topP = 0.99f; }); // weights that vanish
  add({2, 1, -1, -2, 0, 0.5f}, [](Row &r) {
    r.options.greedy = true;
    r.options.repetitionPenalty = 3;
    r.seen = {0, 1, 2, 5};
  });
  kernel.compare(std::move(rows), "edge");
}

// As large as vocabularies are.
TEST(EmulatedSampling, ALargeVocabulary) {
  SampleKernel &kernel = sampleKernel();
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 2.5f);
  Row row;
  for (int i = 0; i < 151936; ++i)
    row.logits.push_back(normal(random));
  row.options = {.topK = 30000, .topP = 0.9f, .seed = 4};
  kernel.compare({row}, "large");
}

// The whole step, each row of which asks for something else; and again with blocks in another order.
TEST(EmulatedSampling, InAStep) {
  CompiledModel &model = sampleKernel().model;
  const std::vector<int32_t> ids = someTokens(6, smallShape().vocab, 1);
  Logits logits = model.step({{0, ids}});
  std::mt19937 random(4);
  std::vector<Row> rows;
  std::vector<ingot_rt_sampling> sampling;
  const uint64_t words = rt::tokenSetWords(static_cast<uint64_t>(smallShape().vocab));
  std::vector<uint64_t> sets;
  for (const auto &of : logits) {
    Row row = someRow(random, of.size());
    row.logits = of;
    row.forbidden.clear();
    sampling.push_back(row.options.describe(row.index));
    rt::SeenTokens seen(of.size());
    for (int32_t id : row.seen)
      seen.add(id);
    sets.insert(sets.end(), seen.bits().begin(), seen.bits().end());
    sets.resize(sets.size() + words);
    rows.push_back(std::move(row));
  }
  std::vector<uint32_t> halves(2 * sets.size());
  memcpy(halves.data(), sets.data(), sets.size() * 8);
  for (const char *order : {"forward", "9"}) {
    model.reset();
    model.emulatorOrder = order;
    std::vector<int32_t> tokens = model.choose({{0, ids}}, sampling, halves, 2 * words);
    ASSERT_EQ(model.fault, "");
    for (size_t i = 0; i < rows.size(); ++i)
      EXPECT_EQ(tokens[i], chosenByHost(rows[i])) << i;
  }
}

TEST(PlantedSamplingFaults, MissingBarrier) {
  size_t count = 0;
  ASSERT_EQ(faultOf([&](mlir::ModuleOp module) { count = opsOfKernel<mlir::gpu::BarrierOp>(module).size(); }), "");
  EXPECT_GE(count, 10u);
  for (size_t i = 0; i < count; ++i) {
    std::string fault = faultOf([&](mlir::ModuleOp module) { opsOfKernel<mlir::gpu::BarrierOp>(module)[i].erase(); });
    EXPECT_NE(fault.find("kernel sample"), std::string::npos) << i << ": " << fault;
    EXPECT_NE(fault.find("shared memory"), std::string::npos) << i << ": " << fault;
  }
}

// A sum that threads make of a bin with a load and a store.
TEST(PlantedSamplingFaults, SumThatIsNotAtomic) {
  std::string fault = faultOf([](mlir::ModuleOp module) {
    for (auto atomic : opsOfKernel<mlir::LLVM::AtomicRMWOp>(module)) {
      mlir::OpBuilder builder(atomic);
      mlir::Location loc = atomic.getLoc();
      mlir::Value old = mlir::LLVM::LoadOp::create(builder, loc, atomic.getType(), atomic.getPtr());
      mlir::Value sum = mlir::arith::AddIOp::create(builder, loc, old, atomic.getVal());
      mlir::LLVM::StoreOp::create(builder, loc, sum, atomic.getPtr());
      atomic.getResult().replaceAllUsesWith(old);
      atomic.erase();
    }
  });
  EXPECT_NE(fault.find("kernel sample"), std::string::npos) << fault;
  EXPECT_NE(fault.find("of low sums: races with thread"), std::string::npos) << fault;
}

// Bins that one thread leaves as they are.
TEST(PlantedSamplingFaults, BinsThatNobodyEmpties) {
  std::string fault = faultOf([](mlir::ModuleOp module) {
    auto loops = opsOfKernel<mlir::scf::ForOp>(module);
    auto empties = llvm::find_if(loops, [](mlir::scf::ForOp loop) {
      auto bound = loop.getUpperBound().getDefiningOp<mlir::arith::ConstantIndexOp>();
      return bound && bound.value() == 2048;
    });
    ASSERT_NE(empties, loops.end());
    mlir::OpBuilder builder(*empties);
    empties->setUpperBound(mlir::arith::ConstantIndexOp::create(builder, empties->getLoc(), 2047));
  });
  EXPECT_NE(fault.find("kernel sample"), std::string::npos) << fault;
  EXPECT_NE(fault.find("which no thread of the block has written"), std::string::npos) << fault;
}

// A row that ends one logit too late.
TEST(PlantedSamplingFaults, OffByOneBound) {
  std::string fault = faultOf([](mlir::ModuleOp module) {
    auto loop = opsOfKernel<mlir::scf::ForOp>(module).front();
    mlir::OpBuilder builder(loop);
    mlir::Value one = mlir::arith::ConstantIndexOp::create(builder, loop.getLoc(), 1);
    loop.setUpperBound(mlir::arith::AddIOp::create(builder, loop.getLoc(), loop.getUpperBound(), one));
  });
  EXPECT_NE(fault.find("load of logits: bytes 2000 to 2003 of logits, which has 2000"), std::string::npos) << fault;
}
