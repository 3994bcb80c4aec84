//===- EvaluatorTest.cpp - The evaluator against formulas written a second time -----------------------------------===//
//
// Products of linears are checked in bits (their order is defined), the rest within a few units in the last place of
// the same formula in double. What a pass may rely on (chunks, threads, recipes change nothing) is checked in bits.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Evaluator/Evaluator.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FormatVariadic.h"
#include <bit>
#include <cmath>
#include <complex>
#include <gtest/gtest.h>
#include <random>

using namespace ingot;
using namespace llvm;
using namespace mlir;

namespace {

/// Parameters by name.
struct MapParameters final : ParameterProvider {
  StringMap<std::vector<float>> tensors;

  Error readRows(StringRef name, RankedTensorType type, int64_t firstRow, int64_t rows,
                 MutableArrayRef<float> dst) override {
    auto found = tensors.find(name);
    if (found == tensors.end())
      return createStringError(formatv("no tensor '{0}'", name));
    if (static_cast<int64_t>(found->second.size()) != type.getNumElements())
      return createStringError(formatv("tensor '{0}' has {1} elements", name, found->second.size()));
    int64_t columns = type.getShape().back();
    llvm::copy(ArrayRef<float>(found->second).slice(firstRow * columns, rows * columns), dst.begin());
    return Error::success();
  }
};

std::vector<float> randomValues(size_t count, unsigned seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> values(count);
  for (float &value : values)
    value = uniform(generator);
  return values;
}

Matrix randomMatrix(int64_t rows, int64_t columns, unsigned seed) {
  return {rows, columns, randomValues(rows * columns, seed)};
}

class EvaluatorTest : public testing::Test {
protected:
  EvaluatorTest() { context.loadDialect<IngotDialect, func::FuncDialect, arith::ArithDialect>(); }

  ModuleOp parse(const std::string &text) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return *module;
  }

  Expected<std::vector<Matrix>> tryCall(const std::string &text, ArrayRef<Matrix> activations,
                                        ArrayRef<int64_t> indices = {}, const Batch &batch = {}, Cache *cache = nullptr,
                                        EvaluatorOptions options = {}) {
    return Evaluator(parse(text), parameters, std::move(options)).call("f", activations, indices, batch, cache);
  }

  std::vector<Matrix> call(const std::string &text, ArrayRef<Matrix> activations, ArrayRef<int64_t> indices = {},
                           const Batch &batch = {}, Cache *cache = nullptr, EvaluatorOptions options = {}) {
    auto results = tryCall(text, activations, indices, batch, cache, std::move(options));
    if (!results) {
      ADD_FAILURE() << toString(results.takeError()) << "\n" << text;
      return std::vector<Matrix>(4);
    }
    return std::move(*results);
  }

  std::string failure(const std::string &text, ArrayRef<Matrix> activations, ArrayRef<int64_t> indices = {},
                      const Batch &batch = {}, Cache *cache = nullptr) {
    auto results = tryCall(text, activations, indices, batch, cache);
    return results ? "no error" : toString(results.takeError());
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  MapParameters parameters;
};

void expectNear(const Matrix &actual, ArrayRef<double> expected, double bound) {
  ASSERT_EQ(actual.values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(actual.values[i], expected[i], bound * std::max(1.0, std::fabs(expected[i]))) << "element " << i;
}

/// One float32 unit in the last place of 1.
constexpr double unit = 0x1p-23;

//===--------------------------------------------------------------------------------------------------------------===//
// Rounding
//===--------------------------------------------------------------------------------------------------------------===//

TEST_F(EvaluatorTest, RoundingIsApfloats) {
  std::mt19937 generator(1);
  Builder builder(&context);
  for (auto [type, semantics] : {std::pair<Type, const fltSemantics *>(builder.getBF16Type(), &APFloat::BFloat()),
                                 {builder.getF16Type(), &APFloat::IEEEhalf()}}) {
    for (int i = 0; i < 400000; ++i) {
      uint32_t bits = generator();
      // Every exponent, and numbers in the middle between two of the narrow type.
      if (i % 4 == 0)
        bits &= 0xfffff000u;
      if (i % 4 == 1)
        bits = (bits & 0xffff8000u) | 0x8000u;
      float value = std::bit_cast<float>(bits), rounded = roundTo(type, value);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(rounded));
        continue;
      }
      APFloat expected(value);
      bool lost;
      expected.convert(*semantics, APFloat::rmNearestTiesToEven, &lost);
      expected.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
      ASSERT_EQ(std::bit_cast<uint32_t>(rounded), expected.bitcastToAPInt().getZExtValue()) << value;
    }
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Linear: bits
//===--------------------------------------------------------------------------------------------------------------===//

/// The definition, term by term.
float chain(ArrayRef<float> x, ArrayRef<float> w, int64_t first, int64_t end) {
  float sum = 0;
  for (int64_t k = first; k < end; ++k)
    sum = std::fma(x[k], w[k], sum);
  return sum;
}

float segmented(ArrayRef<float> x, ArrayRef<float> w, int64_t length) {
  float s[8];
  int64_t size = x.size();
  for (int64_t i = 0; i < 8; ++i)
    s[i] = chain(x, w, std::min(size, i * length), std::min(size, (i + 1) * length));
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

struct LinearShape {
  int64_t rows, features, inputs;
};

TEST_F(EvaluatorTest, LinearIsOneChainInOrder) {
  for (LinearShape shape : {LinearShape{1, 1, 1}, {1, 17, 33}, {3, 16, 64}, {5, 40, 31}, {7, 100, 130}, {9, 3, 300}}) {
    std::vector<float> weight = randomValues(shape.features * shape.inputs, 2);
    parameters.tensors["w"] = weight;
    std::string text = formatv(R"(
      ingot.parameter @w "w" part "mlp" : tensor<{0}x{1}xf32>
      func.func @f(%x: tensor<?x{1}xf32>) -> tensor<?x{0}xf32> {{
        %w = ingot.weight @w : tensor<{0}x{1}xf32>
        %y = ingot.linear %x weights(%w : tensor<{0}x{1}xf32>) : tensor<?x{1}xf32> -> tensor<?x{0}xf32>
        return %y : tensor<?x{0}xf32>
      })",
                               shape.features, shape.inputs);
    Matrix x = randomMatrix(shape.rows, shape.inputs, 3);
    Matrix y = call(text, x)[0];
    for (int64_t t = 0; t < shape.rows; ++t)
      for (int64_t n = 0; n < shape.features; ++n)
        ASSERT_EQ(y.row(t)[n],
                  chain(x.row(t), ArrayRef<float>(weight).slice(n * shape.inputs, shape.inputs), 0, shape.inputs))
            << shape.rows << "x" << shape.features << "x" << shape.inputs << " row " << t << " feature " << n;
    // A row's result depends neither on the other rows nor on the number of threads.
    EvaluatorOptions two;
    two.threads = 2;
    EXPECT_EQ(call(text, x, {}, {}, nullptr, two)[0].values, y.values);
    Matrix last{1, shape.inputs, x.row(shape.rows - 1).vec()};
    EXPECT_EQ(call(text, last)[0].values, y.row(shape.rows - 1).vec());
  }
}

TEST_F(EvaluatorTest, SegmentsAreCombinedByTheTree) {
  // Lengths of a segment: roundUp(ceil(K / 8), 2). 100: the last is shorter; 20: seven and eight are empty.
  for (auto [inputs, length] : {std::pair<int64_t, int64_t>{64, 8}, {100, 14}, {20, 4}, {3, 2}}) {
    std::vector<float> weight = randomValues(5 * inputs, 4);
    parameters.tensors["w"] = weight;
    auto text = [&, inputs = inputs](StringRef type, StringRef rest) {
      return formatv(R"(
      ingot.parameter @w part "mlp" : {0} {{
        %0 = ingot.source "w" : tensor<5x{2}xf32>
        {1}
        ingot.yield %1 : {0}
      }
      func.func @f(%x: tensor<?x{2}xf32>) -> tensor<?x5xf32> {{
        %w = ingot.weight @w : {0}
        %y = ingot.linear %x weights(%w : {0}) row_parallel : tensor<?x{2}xf32> -> tensor<?x5xf32>
        return %y : tensor<?x5xf32>
      })",
                     type, rest, inputs)
          .str();
    };
    std::string plain = formatv("tensor<5x{0}xf32>", inputs);
    std::string packed = formatv("tensor<5x{0}xf32, #ingot.packed<panels, segments = 8>>", inputs);
    Matrix x = randomMatrix(4, inputs, 5);
    std::vector<float> expected, unsegmented;
    for (int64_t t = 0; t < x.rows; ++t)
      for (int64_t n = 0; n < 5; ++n) {
        ArrayRef<float> w = ArrayRef<float>(weight).slice(n * inputs, inputs);
        expected.push_back(segmented(x.row(t), w, length));
        unsegmented.push_back(chain(x.row(t), w, 0, inputs));
      }
    std::string pack = formatv("%1 = ingot.pack %0 : {0} -> {1}", plain, packed);
    std::string keep = formatv("%1 = ingot.convert %0 : {0} -> {0}", plain);
    EXPECT_EQ(call(text(packed, pack), x)[0].values, expected) << inputs;
    EXPECT_EQ(call(text(plain, keep), x)[0].values, unsegmented) << inputs;
    EvaluatorOptions eight;
    eight.rowParallelSegments = 8;
    EXPECT_EQ(call(text(plain, keep), x, {}, {}, nullptr, eight)[0].values, expected) << inputs;
  }
}

TEST_F(EvaluatorTest, LinearEpilogues) {
  parameters.tensors["a"] = randomValues(5 * 8, 6);
  parameters.tensors["b"] = randomValues(5 * 8, 7);
  parameters.tensors["c"] = randomValues(5, 8);
  parameters.tensors["d"] = randomValues(5, 9);
  const char *head = R"(
    ingot.parameter @a "a" part "mlp" : tensor<5x8xf32>
    ingot.parameter @b "b" part "mlp" : tensor<5x8xf32>
    ingot.parameter @c "c" part "mlp" : tensor<5xf32>
    ingot.parameter @d "d" part "mlp" : tensor<5xf32>
    ingot.parameter @pair part "mlp" : tensor<2x5x8xf32, #ingot.packed<panel_pairs>> {
      %0 = ingot.source "a" : tensor<5x8xf32>
      %1 = ingot.source "b" : tensor<5x8xf32>
      %2 = ingot.stack %0, %1 : tensor<5x8xf32>, tensor<5x8xf32> -> tensor<2x5x8xf32>
      %3 = ingot.pack %2 : tensor<2x5x8xf32> -> tensor<2x5x8xf32, #ingot.packed<panel_pairs>>
      ingot.yield %3 : tensor<2x5x8xf32, #ingot.packed<panel_pairs>>
    }
    ingot.parameter @rows part "mlp" : tensor<10x8xf32> {
      %0 = ingot.source "a" : tensor<5x8xf32>
      %1 = ingot.source "b" : tensor<5x8xf32>
      %2 = ingot.concat %0, %1 : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<10x8xf32>
      ingot.yield %2 : tensor<10x8xf32>
    }
    ingot.parameter @biases part "mlp" : tensor<2x5xf32> {
      %0 = ingot.source "c" : tensor<5xf32>
      %1 = ingot.source "d" : tensor<5xf32>
      %2 = ingot.stack %0, %1 : tensor<5xf32>, tensor<5xf32> -> tensor<2x5xf32>
      ingot.yield %2 : tensor<2x5xf32>
    }
    ingot.parameter @joined part "mlp" : tensor<10xf32> {
      %0 = ingot.source "c" : tensor<5xf32>
      %1 = ingot.source "d" : tensor<5xf32>
      %2 = ingot.concat %0, %1 : (tensor<5xf32>, tensor<5xf32>) -> tensor<10xf32>
      ingot.yield %2 : tensor<10xf32>
    }
    func.func @f(%x: tensor<?x8xf32>, %r: tensor<?x5xf32>) -> (tensor<?x5xf32>, tensor<?x10xf32>) {
      %a = ingot.weight @a : tensor<5x8xf32>
      %b = ingot.weight @b : tensor<5x8xf32>
      %c = ingot.weight @c : tensor<5xf32>
      %d = ingot.weight @d : tensor<5xf32>
      %pair = ingot.weight @pair : tensor<2x5x8xf32, #ingot.packed<panel_pairs>>
      %rows = ingot.weight @rows : tensor<10x8xf32>
      %biases = ingot.weight @biases : tensor<2x5xf32>
      %joined = ingot.weight @joined : tensor<10xf32>
)";
  std::string apart = std::string(head) + R"(
      %g = ingot.linear %x weights(%a : tensor<5x8xf32>) bias(%c : tensor<5xf32>) : tensor<?x8xf32> -> tensor<?x5xf32>
      %u = ingot.linear %x weights(%b : tensor<5x8xf32>) bias(%d : tensor<5xf32>) : tensor<?x8xf32> -> tensor<?x5xf32>
      %s = ingot.silu %g : tensor<?x5xf32>
      %m = ingot.mul %s, %u : tensor<?x5xf32>
      %y = ingot.add %m, %r : tensor<?x5xf32>
      %z = ingot.linear %x weights(%a, %b : tensor<5x8xf32>, tensor<5x8xf32>) : tensor<?x8xf32> -> tensor<?x10xf32>
      return %y, %z : tensor<?x5xf32>, tensor<?x10xf32>
    })";
  std::string two = std::string(head) + R"(
      %y = ingot.linear %x weights(%a, %b : tensor<5x8xf32>, tensor<5x8xf32>) bias(%c, %d : tensor<5xf32>, tensor<5xf32>) gated silu residual(%r : tensor<?x5xf32>) : tensor<?x8xf32> -> tensor<?x5xf32>
      %z = ingot.linear %x weights(%rows : tensor<10x8xf32>) : tensor<?x8xf32> -> tensor<?x10xf32>
      return %y, %z : tensor<?x5xf32>, tensor<?x10xf32>
    })";
  std::string one = std::string(head) + R"(
      %y = ingot.linear %x weights(%pair : tensor<2x5x8xf32, #ingot.packed<panel_pairs>>) bias(%biases : tensor<2x5xf32>) gated silu residual(%r : tensor<?x5xf32>) : tensor<?x8xf32> -> tensor<?x5xf32>
      %j = ingot.linear %x weights(%rows : tensor<10x8xf32>) bias(%joined : tensor<10xf32>) : tensor<?x8xf32> -> tensor<?x10xf32>
      return %y, %j : tensor<?x5xf32>, tensor<?x10xf32>
    })";
  Matrix x = randomMatrix(3, 8, 10), r = randomMatrix(3, 5, 11);
  std::vector<Matrix> a = call(apart, {x, r}), b = call(two, {x, r}), c = call(one, {x, r});
  EXPECT_EQ(a[0].values, b[0].values);
  EXPECT_EQ(a[0].values, c[0].values);
  EXPECT_EQ(a[1].values, b[1].values);
  std::vector<double> expected, joined;
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t n = 0; n < 5; ++n) {
      double g = parameters.tensors["c"][n], u = parameters.tensors["d"][n];
      for (int64_t k = 0; k < 8; ++k) {
        g += double(x.row(t)[k]) * parameters.tensors["a"][n * 8 + k];
        u += double(x.row(t)[k]) * parameters.tensors["b"][n * 8 + k];
      }
      expected.push_back(g / (1 + std::exp(-g)) * u + r.row(t)[n]);
    }
    for (int64_t n = 0; n < 10; ++n)
      joined.push_back(a[1].row(t)[n] + parameters.tensors[n < 5 ? "c" : "d"][n % 5]);
  }
  expectNear(a[0], expected, 32 * unit);
  expectNear(c[1], joined, unit);
}

TEST_F(EvaluatorTest, ConvertRoundsParameters) {
  parameters.tensors["w"] = randomValues(3 * 4, 12);
  for (const char *type : {"bf16", "f16", "f32"}) {
    std::string text = formatv(R"(
      ingot.parameter @w part "mlp" : tensor<3x4x{0}> {{
        %0 = ingot.source "w" : tensor<3x4xf32>
        %1 = ingot.convert %0 : tensor<3x4xf32> -> tensor<3x4x{0}>
        ingot.yield %1 : tensor<3x4x{0}>
      }
      func.func @f(%x: tensor<?x4xf32>) -> tensor<?x3xf32> {{
        %w = ingot.weight @w : tensor<3x4x{0}>
        %y = ingot.linear %x weights(%w : tensor<3x4x{0}>) : tensor<?x4xf32> -> tensor<?x3xf32>
        return %y : tensor<?x3xf32>
      })",
                               type);
    Matrix identity{4, 4, std::vector<float>(16)};
    for (int i = 0; i < 4; ++i)
      identity.values[5 * i] = 1;
    Matrix y = call(text, identity)[0];
    Type element = parseType(type, &context);
    for (int n = 0; n < 3; ++n)
      for (int k = 0; k < 4; ++k)
        EXPECT_EQ(y.row(k)[n], roundTo(element, parameters.tensors["w"][n * 4 + k])) << type;
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Norms, RoPE
//===--------------------------------------------------------------------------------------------------------------===//

std::vector<double> normalized(const Matrix &x, ArrayRef<float> weight, double eps) {
  std::vector<double> result;
  int64_t size = weight.size();
  for (size_t start = 0; start < x.values.size(); start += size) {
    double squares = 0;
    for (int64_t i = 0; i < size; ++i)
      squares += double(x.values[start + i]) * x.values[start + i];
    for (int64_t i = 0; i < size; ++i)
      result.push_back(x.values[start + i] / std::sqrt(squares / size + eps) * weight[i]);
  }
  return result;
}

TEST_F(EvaluatorTest, NormsOfRowsAndOfHeads) {
  for (int64_t size : {24, 8, 1}) {
    parameters.tensors["w"] = randomValues(size, 13);
    std::string text = formatv(R"(
      ingot.parameter @w "w" part "norm" : tensor<{0}xf32>
      func.func @f(%x: tensor<?x24xf32>, %r: tensor<?x24xf32>) -> (tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32>) {{
        %w = ingot.weight @w : tensor<{0}xf32>
        %y = ingot.rms_norm %x, %w eps = 0.125 : tensor<?x24xf32>, tensor<{0}xf32>
        %s, %n = ingot.add_rms_norm %x, %r, %w eps = 0.125 : tensor<?x24xf32>, tensor<{0}xf32>
        return %y, %s, %n : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32>
      })",
                               size);
    Matrix x = randomMatrix(3, 24, 14), r = randomMatrix(3, 24, 15), sum = x;
    for (size_t i = 0; i < sum.values.size(); ++i)
      sum.values[i] += r.values[i];
    std::vector<Matrix> results = call(text, {x, r});
    expectNear(results[0], normalized(x, parameters.tensors["w"], 0.125), 8 * unit);
    EXPECT_EQ(results[1].values, sum.values);
    expectNear(results[2], normalized(sum, parameters.tensors["w"], 0.125), 8 * unit);
  }
}

TEST_F(EvaluatorTest, RopeRotatesPairsOfBothStyles) {
  const float frequencies[] = {1.0f, 0.25f, 0.0078125f}, longFrequencies[] = {0.5f, 0.125f, 0.001953125f};
  for (bool interleaved : {false, true})
    for (bool longRegime : {false, true}) {
      std::string text = formatv(R"(
        ingot.rotary @r {0} inv_freq = [1.0, 0.25, 0.0078125] scaling = 1.5 long_inv_freq = [0.5, 0.125, 0.001953125] long_from = 100
        func.func @f(%x: tensor<?x12xf32>, %batch: !ingot.batch) -> tensor<?x12xf32> {{
          %y = ingot.rope %x, %batch, @r : tensor<?x12xf32>
          return %y : tensor<?x12xf32>
        })",
                                 interleaved ? "interleaved" : "half");
      Batch batch;
      batch.append(0, 0, {1, 1});
      batch.append(1, 100000, {1});
      batch.longRegime = {longRegime, longRegime};
      Matrix x = randomMatrix(3, 12, 16), y = call(text, x, {}, batch)[0];
      std::vector<double> expected(36);
      for (int t = 0; t < 3; ++t)
        for (int head = 0; head < 2; ++head)
          for (int i = 0; i < 3; ++i) {
            int a = t * 12 + head * 6 + (interleaved ? 2 * i : i), b = interleaved ? a + 1 : a + 3;
            float angle = float(batch.positions[t]) * (longRegime ? longFrequencies[i] : frequencies[i]);
            std::complex<double> rotated =
                std::complex<double>(x.values[a], x.values[b]) * std::polar(1.5, double(angle));
            expected[a] = rotated.real();
            expected[b] = rotated.imag();
          }
      expectNear(y, expected, 4 * unit);
    }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Cache and attention
//===--------------------------------------------------------------------------------------------------------------===//

std::string attentionText(int64_t heads, int64_t kvHeads, int64_t headDim, StringRef element, int64_t window) {
  std::string cache = formatv("!ingot.kv_cache<2 x {0} x {1} x {2}>", kvHeads, headDim, element);
  return formatv(R"(
    func.func @f(%q: tensor<?x{0}xf32>, %k: tensor<?x{1}xf32>, %v: tensor<?x{1}xf32>, %batch: !ingot.batch, %cache: {2}, %layer: index) -> tensor<?x{0}xf32> {{
      ingot.kv_append %k, %v, %batch, %cache[%layer] : tensor<?x{1}xf32>, {2}
      %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.375 {3} : tensor<?x{0}xf32>, {2}
      return %y : tensor<?x{0}xf32>
    })",
                 heads * headDim, kvHeads * headDim, cache, window ? formatv("window = {0}", window).str() : "");
}

/// Rows [first, first + count) of a matrix.
Matrix slice(const Matrix &matrix, int64_t first, int64_t count) {
  return {count, matrix.columns,
          ArrayRef<float>(matrix.values).slice(first * matrix.columns, count * matrix.columns).vec()};
}

TEST_F(EvaluatorTest, AttentionIsSoftmaxOverTheSequence) {
  struct Shape {
    int64_t heads, kvHeads, headDim, length, window;
    const char *element;
  };
  for (Shape shape : {Shape{4, 2, 6, 9, 0, "f32"},
                      {3, 1, 4, 9, 3, "f16"},
                      {2, 2, 5, 9, 1, "bf16"},
                      {2, 1, 8, 600, 70, "f32"},
                      {2, 1, 8, 600, 0, "f16"}}) {
    Type element = parseType(shape.element, &context);
    int64_t size = shape.headDim, length = shape.length;
    Matrix q = randomMatrix(length, shape.heads * size, 17), k = randomMatrix(length, shape.kvHeads * size, 18),
           v = randomMatrix(length, shape.kvHeads * size, 19);
    std::string text = attentionText(shape.heads, shape.kvHeads, size, shape.element, shape.window);
    Batch batch;
    batch.append(0, 0, std::vector<int32_t>(length, 1));
    auto cacheType = KVCacheType::get(&context, 2, shape.kvHeads, size, element);
    Cache cache(cacheType);
    Matrix y = call(text, {q, k, v}, {1}, batch, &cache)[0];

    std::vector<double> expected(length * shape.heads * size);
    for (int64_t t = 0; t < length; ++t)
      for (int64_t h = 0; h < shape.heads; ++h) {
        int64_t g = h / (shape.heads / shape.kvHeads);
        double sum = 0;
        for (int64_t j = shape.window ? std::max<int64_t>(0, t - shape.window + 1) : 0; j <= t; ++j) {
          double dot = 0;
          for (int64_t i = 0; i < size; ++i)
            dot += double(q.row(t)[h * size + i]) * roundTo(element, k.row(j)[g * size + i]);
          double weight = std::exp(0.375 * dot);
          sum += weight;
          for (int64_t i = 0; i < size; ++i)
            expected[(t * shape.heads + h) * size + i] += weight * roundTo(element, v.row(j)[g * size + i]);
        }
        for (int64_t i = 0; i < size; ++i)
          expected[(t * shape.heads + h) * size + i] /= sum;
      }
    expectNear(y, expected, 64 * unit);

    // In chunks, and beside another sequence, the bits are the same.
    Cache chunked(cacheType);
    for (int64_t start = 0; start < length; start += 4) {
      int64_t count = std::min<int64_t>(4, length - start);
      Batch part;
      part.append(3, static_cast<int32_t>(start), std::vector<int32_t>(count, 1));
      part.append(0, 0, {1});
      auto with = [&](const Matrix &m) {
        Matrix rows = slice(m, start, count);
        rows.rows += 1;
        llvm::append_range(rows.values, m.row(0));
        return rows;
      };
      Matrix z = call(text, {with(q), with(k), with(v)}, {1}, part, &chunked)[0];
      EXPECT_EQ(slice(z, 0, count).values, slice(y, start, count).values) << start;
    }
    EXPECT_EQ(chunked.positions(1, 3), length);
    EXPECT_EQ(chunked.positions(0, 3), 0);
  }
}

TEST_F(EvaluatorTest, FusedCacheAppendIsItsParts) {
  parameters.tensors["q"] = randomValues(6, 20);
  parameters.tensors["k"] = randomValues(6, 21);
  auto text = [](StringRef body) {
    return formatv(R"(
      ingot.rotary @r half inv_freq = [1.0, 0.25, 0.0078125] scaling = 1.0
      ingot.parameter @q "q" part "norm" : tensor<6xf32>
      ingot.parameter @k "k" part "norm" : tensor<6xf32>
      func.func @f(%q: tensor<?x12xf32>, %k: tensor<?x6xf32>, %v: tensor<?x6xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 6 x f16>, %layer: index) -> tensor<?x12xf32> {{
        %wq = ingot.weight @q : tensor<6xf32>
        %wk = ingot.weight @k : tensor<6xf32>
        {0}
        return %y : tensor<?x12xf32>
      })",
                   body)
        .str();
  };
  std::string apart[] = {text(R"(
        %y = ingot.rope %q, %batch, @r : tensor<?x12xf32>
        %kr = ingot.rope %k, %batch, @r : tensor<?x6xf32>
        ingot.kv_append %kr, %v, %batch, %cache[%layer] : tensor<?x6xf32>, !ingot.kv_cache<1 x 1 x 6 x f16>)"),
                         text(R"(
        %qn = ingot.rms_norm %q, %wq eps = 1.0e-6 : tensor<?x12xf32>, tensor<6xf32>
        %kn = ingot.rms_norm %k, %wk eps = 1.0e-6 : tensor<?x6xf32>, tensor<6xf32>
        %y = ingot.rope %qn, %batch, @r : tensor<?x12xf32>
        %kr = ingot.rope %kn, %batch, @r : tensor<?x6xf32>
        ingot.kv_append %kr, %v, %batch, %cache[%layer] : tensor<?x6xf32>, !ingot.kv_cache<1 x 1 x 6 x f16>)")};
  std::string fused[] = {text(R"(
        %y = ingot.qk_norm_rope_append %q, %k, %v, %batch, %cache[%layer], @r : tensor<?x12xf32>, tensor<?x6xf32>, !ingot.kv_cache<1 x 1 x 6 x f16>)"),
                         text(R"(
        %y = ingot.qk_norm_rope_append %q, %k, %v, %batch, %cache[%layer], @r norms(%wq, %wk : tensor<6xf32>, tensor<6xf32>) eps = 1.0e-6 : tensor<?x12xf32>, tensor<?x6xf32>, !ingot.kv_cache<1 x 1 x 6 x f16>)")};
  Batch batch;
  batch.append(0, 0, {1, 1, 1});
  batch.append(2, 7, {1});
  auto type = KVCacheType::get(&context, 1, 1, 6, Float16Type::get(&context));
  Matrix q = randomMatrix(4, 12, 22), k = randomMatrix(4, 6, 23), v = randomMatrix(4, 6, 24);
  for (int i = 0; i < 2; ++i) {
    Cache a(type), b(type);
    EXPECT_EQ(call(apart[i], {q, k, v}, {0}, batch, &a)[0].values, call(fused[i], {q, k, v}, {0}, batch, &b)[0].values);
    for (auto [sequence, position] : {std::pair{0, 0}, {0, 1}, {0, 2}, {2, 7}}) {
      EXPECT_EQ(a.key(0, sequence, position).size(), 6u);
      EXPECT_EQ(a.key(0, sequence, position), b.key(0, sequence, position));
      EXPECT_EQ(a.value(0, sequence, position), b.value(0, sequence, position));
    }
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Rows, columns, layers, errors
//===--------------------------------------------------------------------------------------------------------------===//

TEST_F(EvaluatorTest, EmbeddingSelectRowsSplit) {
  parameters.tensors["e"] = randomValues(7 * 4, 25);
  const char *text = R"(
    ingot.parameter @e "e" part "embedding" : tensor<7x4xf32>
    func.func @f(%batch: !ingot.batch) -> (tensor<?x4xf32>, tensor<?x1xf32>, tensor<?x3xf32>) {
      %e = ingot.weight @e : tensor<7x4xf32>
      %h = ingot.embedding %batch, %e : tensor<7x4xf32> -> tensor<?x4xf32>
      %r = ingot.select_rows %h, %batch : tensor<?x4xf32>
      %a, %b = ingot.split %h : tensor<?x4xf32> -> tensor<?x1xf32>, tensor<?x3xf32>
      return %r, %a, %b : tensor<?x4xf32>, tensor<?x1xf32>, tensor<?x3xf32>
    })";
  Batch batch;
  batch.append(0, 0, {6, 0, 3});
  batch.rows = {0, 2};
  std::vector<Matrix> results = call(text, {}, {}, batch);
  auto row = [&](int id) { return ArrayRef<float>(parameters.tensors["e"]).slice(id * 4, 4); };
  ASSERT_EQ(results[0].rows, 2);
  EXPECT_EQ(results[0].row(0), row(6));
  EXPECT_EQ(results[0].row(1), row(3));
  ASSERT_EQ(results[1].rows, 3);
  EXPECT_EQ(results[1].row(1)[0], row(0)[0]);
  EXPECT_EQ(results[2].row(2), row(3).drop_front());

  batch.tokens[1] = 7;
  EXPECT_EQ(failure(text, {}, {}, batch), "token id 7 is not in [0, 7)");
  batch.tokens[1] = -1;
  EXPECT_EQ(failure(text, {}, {}, batch), "token id -1 is not in [0, 7)");
}

TEST_F(EvaluatorTest, LayersOfTwoKindsReadTheirOwnTensors) {
  // Layers a b a: {layer} is the layer's number over all, the index counts within the kind.
  for (int layer = 0; layer < 3; ++layer)
    parameters.tensors[formatv("l.{0}.w", layer).str()] = {float(layer + 2)};
  const char *text = R"(
    ingot.parameter @wa "l.{layer}.w" kind @a part "norm" : tensor<1x1xf32>
    ingot.parameter @wb "l.{layer}.w" kind @b part "norm" : tensor<1x1xf32>
    func.func private @a(%h: tensor<?x1xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 1 x 1 x f32>, %index: index, %layer: index) -> tensor<?x1xf32> {
      %w = ingot.weight @wa[%index] : tensor<1x1xf32>
      %y = ingot.linear %h weights(%w : tensor<1x1xf32>) : tensor<?x1xf32> -> tensor<?x1xf32>
      ingot.kv_append %y, %y, %batch, %cache[%layer] : tensor<?x1xf32>, !ingot.kv_cache<3 x 1 x 1 x f32>
      return %y : tensor<?x1xf32>
    }
    func.func private @b(%h: tensor<?x1xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 1 x 1 x f32>, %index: index, %layer: index) -> tensor<?x1xf32> {
      %w = ingot.weight @wb[%index] : tensor<1x1xf32>
      %y = ingot.linear %h weights(%w : tensor<1x1xf32>) residual(%h : tensor<?x1xf32>) : tensor<?x1xf32> -> tensor<?x1xf32>
      ingot.kv_append %y, %h, %batch, %cache[%layer] : tensor<?x1xf32>, !ingot.kv_cache<3 x 1 x 1 x f32>
      return %y : tensor<?x1xf32>
    }
    func.func @f(%h: tensor<?x1xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 1 x 1 x f32>) -> tensor<?x1xf32> {
      %y = ingot.layers %h, %batch, %cache [#ingot.run<@a, first = 0, count = 1>, #ingot.run<@b, first = 0, count = 1>, #ingot.run<@a, first = 1, count = 1>] : tensor<?x1xf32>, !ingot.kv_cache<3 x 1 x 1 x f32>
      return %y : tensor<?x1xf32>
    })";
  Batch batch;
  batch.append(0, 0, {1});
  Cache cache(KVCacheType::get(&context, 3, 1, 1, Float32Type::get(&context)));
  std::vector<int64_t> observed;
  EvaluatorOptions options;
  options.observer = [&](Operation *op, int64_t layer, const Matrix &) {
    if (isa<LinearOp>(op))
      observed.push_back(layer);
  };
  Matrix y = call(text, Matrix{1, 1, {1}}, {}, batch, &cache, options)[0];
  // 1 -> 2 -> 3 * 2 + 2 -> 4 * 8
  EXPECT_EQ(y.values, std::vector<float>{32});
  EXPECT_EQ(cache.key(0, 0, 0)[0], 2);
  EXPECT_EQ(cache.key(1, 0, 0)[0], 8);
  EXPECT_EQ(cache.value(1, 0, 0)[0], 2);
  EXPECT_EQ(cache.key(2, 0, 0)[0], 32);
  EXPECT_EQ(observed, (std::vector<int64_t>{0, 1, 2}));

  parameters.tensors.erase("l.1.w");
  EXPECT_EQ(failure(text, Matrix{1, 1, {1}}, {}, batch, &cache), "no tensor 'l.1.w'");
}

TEST_F(EvaluatorTest, Errors) {
  std::string text = attentionText(1, 1, 2, "f32", 0);
  auto type = KVCacheType::get(&context, 2, 1, 2, Float32Type::get(&context));
  Cache cache(type);
  Matrix one = randomMatrix(1, 2, 26);
  Batch batch;
  batch.append(0, 5, {1});
  EXPECT_EQ(failure(text, {one, one, one}, {0}, batch, &cache),
            "position 0 of sequence 0 is not in the cache of layer 0");
  EXPECT_EQ(failure(text, {one, one, one}, {2}, batch, &cache), "layer 2 is not one of the cache's 2");
  EXPECT_EQ(failure(text, {one, one, one}, {-1}, batch, &cache), "layer -1 is not one of the cache's 2");
  EXPECT_EQ(failure(text, {one, one}, {0}, batch, &cache), "argument 2 of @f is tensor<?x2xf32>, given nothing");
  EXPECT_EQ(failure(text, {one, one, one}, {0}, batch),
            "argument 4 of @f is !ingot.kv_cache<2 x 1 x 2 x f32>, given nothing");
  EXPECT_EQ(failure(text, {one, one, one}, {}, batch, &cache), "argument 5 of @f is an index, given nothing");
  EXPECT_EQ(failure("func.func @g() { return }", {}), "no function @f in the module");
  batch.sequences.clear();
  EXPECT_EQ(failure(text, {one, one, one}, {0}, batch, &cache),
            "expected a position and a sequence for each of 1 tokens, got 1 and 0");
}

TEST_F(EvaluatorTest, DoublesAreCloserThanFloats) {
  parameters.tensors["w"] = randomValues(4 * 2000, 27);
  const char *text = R"(
    ingot.parameter @w "w" part "mlp" : tensor<4x2000xf32>
    func.func @f(%x: tensor<?x2000xf32>) -> tensor<?x4xf32> {
      %w = ingot.weight @w : tensor<4x2000xf32>
      %y = ingot.linear %x weights(%w : tensor<4x2000xf32>) : tensor<?x2000xf32> -> tensor<?x4xf32>
      return %y : tensor<?x4xf32>
    })";
  Matrix x = randomMatrix(1, 2000, 28);
  EvaluatorOptions wide;
  wide.accumulation = Accumulation::F64;
  Matrix narrow = call(text, x)[0], y = call(text, x, {}, {}, nullptr, wide)[0];
  for (int n = 0; n < 4; ++n) {
    double sum = 0;
    for (int k = 0; k < 2000; ++k)
      sum = std::fma(double(x.values[k]), double(parameters.tensors["w"][n * 2000 + k]), sum);
    EXPECT_EQ(y.values[n], static_cast<float>(sum));
    EXPECT_NEAR(narrow.values[n], sum, 1e-4);
  }
  EXPECT_NE(narrow.values, y.values);
}

TEST_F(EvaluatorTest, RandomWeightsKnowWhatATensorIs) {
  RandomParameters random(7);
  Builder builder(&context);
  auto read = [&](StringRef name, ArrayRef<int64_t> shape, int64_t first, int64_t rows) {
    auto type = RankedTensorType::get(shape, builder.getF32Type());
    std::vector<float> values(rows * shape.back());
    EXPECT_FALSE(errorToBool(random.readRows(name, type, first, rows, values)));
    return values;
  };
  // Norms are 1 + j/128 with j in [-16, 15], biases odd/2^12, matrices of 64 columns odd/2^11.
  for (float value : read("norm.weight", {100}, 0, 1))
    EXPECT_TRUE(value >= 1 - 16.0f / 128 && value <= 1 + 15.0f / 128);
  for (float value : read("q.bias", {100}, 0, 1))
    EXPECT_TRUE(std::fmod(std::fabs(value) * 4096, 2.0f) == 1);
  for (float value : read("q.weight", {10, 64}, 0, 10))
    EXPECT_TRUE(std::fmod(std::fabs(value) * 2048, 2.0f) == 1);
  std::vector<float> all = read("q.weight", {10, 33}, 0, 10), some = read("q.weight", {10, 33}, 3, 2);
  EXPECT_EQ(some, ArrayRef<float>(all).slice(99, 66).vec());
}

} // namespace
