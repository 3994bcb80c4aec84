//===- QuantizedTest.cpp - Products with quantized weights, compiled, against the evaluator -----------------------===//
//
// Every format in both ways of computing: in float32 the bits are the evaluator's, in integers the results are near its
// and as near to the exact product as rounding the inputs allows. Rows keep their bits in every company.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Evaluator/Parameters.h"
#include "dialects/ingot/Quantization.h"
#include "test/Numeric/OpComparison.h"
#include <random>

using namespace ingot;
using namespace ingot::test;
using namespace llvm;

namespace {

//===--------------------------------------------------------------------------------------------------------------===//
// Kernels
//===--------------------------------------------------------------------------------------------------------------===//

const char *const formats[] = {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k"};

/// Products of several shapes in a format: a way there of each number of units of features (one part of the module per
/// shape), and a way back with segments.
std::string moduleText(StringRef format, ArrayRef<int64_t> units) {
  // Sizes that fill panels, blocks and tiles, and sizes that do not; rows of whole units.
  int64_t unit = format.ends_with("_k") ? 256 : 32;
  ModuleWriter w;
  w.hidden = 3 * unit;
  w.weights = ("!ingot.quantized<" + format + ">").str();
  w.vectors = "f32";
  std::string h = "%h";
  for (int64_t count : units) {
    std::string name = formatv("n{0}", count);
    std::string y = w.linear(name, h, w.hidden, count * unit, count == 1);
    h = w.add(h, w.linear(name + "_back", y, count * unit, w.hidden, false, true));
  }
  return w.finish(h);
}

class PerFormat : public testing::TestWithParam<const char *> {};

TEST_P(PerFormat, FloatProductsAreTheEvaluatorsBits) {
  OpComparison comparison(moduleText(GetParam(), {1, 2}), Build{.compute = ComputeType::F32});
  runRegimes(comparison);
  EXPECT_GE(comparison.compared("linear"), 4 * 5);
  EXPECT_GE(comparison.compared("embedding"), 4);
}

TEST_P(PerFormat, IntegerProductsAreNearTheEvaluators) {
  for (ComputeType compute : {ComputeType::Auto, ComputeType::Int8}) {
    OpComparison comparison(moduleText(GetParam(), {1, 2}), Build{.compute = compute});
    Compute expected = compute == ComputeType::Auto ? Compute::Int16 : Compute::Int8;
    int integers = 0;
    comparison.model.packedModule().walk([&](LinearOp op) { integers += op.getCompute() == expected; });
    EXPECT_EQ(integers, 5);
    runRegimes(comparison);
    EXPECT_GE(comparison.compared("linear"), 4);
  }
}

/// In every company, and on every CPU: the same integers, and the same sums of floats, whatever instructions make them.
TEST_P(PerFormat, ARowKeepsItsBits) {
  std::vector<int32_t> ids = someTokens(23, 9);
  for (ComputeType compute : {ComputeType::F32, ComputeType::Int16, ComputeType::Int8}) {
    std::vector<std::vector<float>> expected;
    for (Build build : {Build{.tilesOf = "x86-64-v3"}, Build{.tilesOf = "x86-64-v3", .definitions = true},
                        Build{.tilesOf = "x86-64-v4-bf16", .definitions = true}}) {
      build.compute = compute;
      if (compute == ComputeType::F32 && build.tilesOf == "x86-64-v3" && build.definitions)
        continue; // products of floats have none
      CompiledModel model(moduleText(GetParam(), {1}), build);
      auto alone = model.logits(0, ids, 1);
      if (expected.empty())
        expected = alone;
      EXPECT_EQ(alone, expected) << build.tilesOf;
      for (unsigned workers : {1, 2, 3})
        for (size_t chunk : {2, 5, 23}) {
          model.reset();
          EXPECT_EQ(model.logits(0, ids, chunk, workers), expected)
              << build.tilesOf << ": " << chunk << " tokens, " << workers << " workers";
        }
      model.reset();
      auto together = model.step({{0, ids}, {1, someTokens(4, 2)}}, 2);
      together.resize(ids.size());
      EXPECT_EQ(together, expected) << build.tilesOf;
    }
    EXPECT_GT(std::set<std::vector<float>>(expected.begin(), expected.end()).size(), 10u);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, PerFormat, testing::ValuesIn(formats),
                         [](const auto &info) { return std::string(info.param); });

/// A row of K that fills no block, quantized from floats.
TEST(Quantized, FloatWeightsOfAnyShape) {
  for (Quantize quantize : {Quantize::Int8, Quantize::Int4})
    for (int64_t hidden : {3, 50, 130}) {
      ModuleWriter w;
      w.hidden = hidden;
      std::string g = w.linear("gate", "%h", hidden, 40, true), u = w.linear("up", "%h", hidden, 40, true);
      std::string m = w.op("mul " + w.op("silu " + g, 40) + ", " + u, 40);
      std::string h = w.add("%h", w.linear("down", m, 40, hidden, true, true));
      for (ComputeType compute : {ComputeType::F32, ComputeType::Int16, ComputeType::Int8}) {
        OpComparison comparison(w.finish(h), Build{.quantize = quantize, .compute = compute});
        runRegimes(comparison);
        EXPECT_GE(comparison.compared("linear"), 4) << hidden;
      }
    }
}

/// |y - x . w| <= sum over blocks of the input of scale / 2 * sum |w|, and what float32 rounds: rounding an input moves
/// it by half a step at most.
void checkErrorBound(const std::string &format, ComputeType compute, int64_t block, double largestCode) {
  ModuleWriter w;
  w.hidden = 512;
  w.weights = "!ingot.quantized<" + format + ">";
  std::string text = w.finish(w.add("%h", w.linear("a", "%h", 512, 512)));
  OpComparison comparison(text, Build{.fuse = false, .compute = compute});
  int64_t checked = 0;
  double worst = 0;
  Matrix input;
  comparison.inspect = [&](mlir::Operation *op, ArrayRef<float> compiled, const Matrix &reference) {
    if (isa<EmbeddingOp>(op))
      input = reference;
    auto linear = dyn_cast<LinearOp>(op);
    if (!linear || linear->getParentOfType<mlir::func::FuncOp>().getName() == forwardName)
      return;
    auto weight = linear.getWeights()[0].getDefiningOp<WeightOp>();
    Parameter parameter{comparison.model.packedModule().lookupSymbol<ParameterOp>(weight.getParameter()), 0};
    std::vector<float> values = cantFail(parameter.readAll(comparison.model.weightValues()));
    for (int64_t t = 0; t < reference.rows; ++t)
      for (int64_t n = 0; n < 512; ++n) {
        ArrayRef<float> x = input.row(t), row = ArrayRef<float>(values).slice(n * 512, 512);
        double exact = 0, bound = 0, size = 0;
        for (int64_t first = 0; first < 512; first += block) {
          float largest = 0;
          double magnitudes = 0;
          for (int64_t k = first; k < first + block; ++k) {
            largest = std::max(largest, std::fabs(x[k]));
            magnitudes += std::fabs(row[k]);
            exact += double(x[k]) * row[k];
            size += std::fabs(double(x[k]) * row[k]);
          }
          bound += largest / largestCode / 2 * magnitudes;
        }
        double error = std::fabs(compiled[t * 512 + n] - exact);
        ASSERT_LE(error, bound * (1 + 64 * unit) + 64 * unit * size) << format;
        worst = std::max(worst, error / bound);
        ++checked;
      }
  };
  comparison.step({{0, someTokens(9, 1)}});
  EXPECT_EQ(checked, 9 * 512);
  // Errors are real, and far from the worst case.
  EXPECT_GT(worst, 1e-3);
  EXPECT_LT(worst, 0.5);
}

TEST(Quantized, ErrorOfIntegerProductsIsBounded) {
  for (const char *format : {"q8_0", "q4_1", "q4_k", "q6_k"}) {
    checkErrorBound(format, ComputeType::Int16, inputBlock16, 32767);
    checkErrorBound(format, ComputeType::Int8, inputBlock8, 127);
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Formats and quantizers
//===--------------------------------------------------------------------------------------------------------------===//

std::vector<float> normal(size_t count, uint32_t seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float &value : values)
    value = scale * distribution(generator);
  return values;
}

double squaredError(Quantization kind, ArrayRef<float> values) {
  std::vector<float> back(values.size());
  double error = 0;
  for (size_t first = 0; first < values.size(); first += 32) {
    size_t count = std::min<size_t>(32, values.size() - first);
    dequantizeBlock(kind, quantizeBlock(kind, values.slice(first, count)),
                    MutableArrayRef<float>(back).slice(first, count));
  }
  for (auto [a, b] : zip(values, back))
    error += (double(a) - b) * (double(a) - b);
  return error;
}

/// Round to nearest between the smallest and the largest value, scale and offset as float16: what a search has to beat.
double minMaxError(ArrayRef<float> values) {
  auto half = [](float x) { return static_cast<float>(static_cast<_Float16>(x)); };
  double error = 0;
  for (size_t first = 0; first < values.size(); first += 32) {
    ArrayRef<float> block = values.slice(first, 32);
    float low = *std::min_element(block.begin(), block.end()), high = *std::max_element(block.begin(), block.end());
    float scale = half((high - low) / 15), offset = half(low);
    for (float value : block) {
      float code = std::clamp(std::nearbyint((value - offset) / scale), 0.0f, 15.0f);
      error += std::pow(double(value) - (scale * code + offset), 2);
    }
  }
  return error;
}

TEST(Quantizers, Int4BeatsMinMaxByATenth) {
  std::vector<float> values = normal(32 * 500, 1);
  EXPECT_LT(squaredError(Quantization::Q4_1, values), 0.9 * minMaxError(values));
  // An outlier in each block.
  for (size_t i = 7; i < values.size(); i += 32)
    values[i] *= 3;
  EXPECT_LT(squaredError(Quantization::Q4_1, values), 0.95 * minMaxError(values));
}

TEST(Quantizers, Int8IsWithinHalfAStep) {
  std::vector<float> values = normal(32 * 100, 2, 0.02f);
  for (size_t first = 0; first < values.size(); first += 32) {
    ArrayRef<float> block = ArrayRef<float>(values).slice(first, 32);
    float back[32], largest = 0;
    dequantizeBlock(Quantization::Q8_0, quantizeBlock(Quantization::Q8_0, block), back);
    for (float value : block)
      largest = std::max(largest, std::fabs(value));
    for (auto [a, b] : zip(block, back))
      // Half a step, and what float16 takes from the scale at code 127.
      EXPECT_LE(std::fabs(a - b), largest * (0.5f / 127 + 0x1p-11f) * 1.001f);
  }
}

TEST(Quantizers, ValuesOfTheFormatStay) {
  for (Quantization kind : {Quantization::Q8_0, Quantization::Q4_1}) {
    QuantizedBlock block;
    block.scale = 0x2c00;                                   // 2^-4
    block.offset = kind == Quantization::Q4_1 ? 0xb800 : 0; // -0.5
    for (int i = 0; i < 32; ++i)
      block.codes[i] = kind == Quantization::Q4_1 ? i % 16 : static_cast<uint8_t>(i * 8 - 124);
    if (kind == Quantization::Q8_0)
      block.codes[31] = 127;
    float values[32], back[32];
    dequantizeBlock(kind, block, values);
    dequantizeBlock(kind, quantizeBlock(kind, values), back);
    EXPECT_EQ(ArrayRef<float>(back), ArrayRef<float>(values));
  }
}

TEST(Quantizers, EdgesOfValues) {
  for (Quantization kind : {Quantization::Q8_0, Quantization::Q4_1}) {
    float back[32];
    for (float constant : {0.0f, 1.5f, -0.25f, 1e-30f}) {
      std::vector<float> same(32, constant);
      dequantizeBlock(kind, quantizeBlock(kind, same), back);
      for (float value : back)
        // Half the distance of float16's smallest numbers, times the largest code.
        EXPECT_NEAR(value, constant, std::fabs(constant) * 0x1p-10f + 127 * 0x1p-25f);
    }
    for (float bad : {INFINITY, -INFINITY, NAN, 70000.0f}) {
      std::vector<float> values = normal(32, 5);
      values[3] = bad;
      dequantizeBlock(kind, quantizeBlock(kind, values), back);
      EXPECT_TRUE(std::isnan(back[0])) << bad;
    }
    std::vector<float> few = normal(5, 6);
    QuantizedBlock block = quantizeBlock(kind, few);
    for (int i = 5; i < 32; ++i)
      EXPECT_EQ(block.codes[i], 0);
  }
}

TEST(Formats, SizesAreWithinFivePercentOfTheFiles) {
  const std::pair<Quantization, double> bytesOf256[] = {{Quantization::Q8_0, 8 * 34}, {Quantization::Q4_0, 8 * 18},
                                                        {Quantization::Q4_1, 8 * 20}, {Quantization::Q5_0, 8 * 22},
                                                        {Quantization::Q5_1, 8 * 24}, {Quantization::Q4_K, 144},
                                                        {Quantization::Q5_K, 176},    {Quantization::Q6_K, 210}};
  for (auto [kind, bytes] : bytesOf256) {
    const QuantizedFormat &format = getQuantizedFormat(kind);
    double ours = double(format.unitBytes()) * 256 / format.unit / 16;
    EXPECT_LE(ours, 1.05 * bytes) << stringifyQuantization(kind).str();
    EXPECT_GE(ours, bytes);
  }
}

} // namespace
