// Sizes and conversions of the stored types. Quantized blocks are compared in bits with what gguf-py computed.
#include "compiler/Import/ElementKind.h"
#include "TestSupport.h"
#include "compiler/Import/GgufFile.h"
#include "compiler/Import/InputError.h"
#include <cmath>
#include <limits>

using namespace ingot;
using namespace ingot::test;

TEST(ElementKind, RowBytes) {
  EXPECT_EQ(rowBytes(ElementKind::F64, 3), 24);
  EXPECT_EQ(rowBytes(ElementKind::BF16, 3), 6);
  EXPECT_EQ(rowBytes(ElementKind::Q4_0, 64), 36);
  EXPECT_EQ(rowBytes(ElementKind::Q6_K, 256), 210);
  EXPECT_EQ(rowBytes(ElementKind::Q4_0, 33), std::nullopt);
  EXPECT_EQ(rowBytes(ElementKind::F32, int64_t(1) << 61), std::nullopt);
}

TEST(ElementKind, CheckedProduct) {
  EXPECT_EQ(checkedProduct({}), 1);
  EXPECT_EQ(checkedProduct({3, 0}), 0);
  EXPECT_EQ(checkedProduct({int64_t(1) << 31, int64_t(1) << 31}), int64_t(1) << 62);
  EXPECT_EQ(checkedProduct({int64_t(1) << 32, int64_t(1) << 31}), std::nullopt);
  EXPECT_EQ(checkedProduct({-1}), std::nullopt);
}

/// Every float16, against the value its fields define.
TEST(ElementKind, EveryF16) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value;
    ASSERT_TRUE(convertToF32(ElementKind::F16, le<uint16_t>(uint16_t(bits)), {&value, 1}));
    int exponent = int(bits >> 10 & 31), fraction = int(bits & 1023);
    double magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                       : exponent == 31 ? std::numeric_limits<double>::infinity()
                                        : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31 && fraction) {
      uint32_t expected = (bits & 0x8000) << 16 | 0x7f800000 | uint32_t(fraction) << 13;
      ASSERT_EQ(llvm::bit_cast<uint32_t>(value), expected) << bits;
    } else {
      ASSERT_EQ(std::signbit(value), bool(bits & 0x8000)) << bits;
      ASSERT_EQ(std::fabs(value), magnitude) << bits;
    }
  }
}

TEST(ElementKind, BF16IsTheUpperHalf) {
  for (uint32_t bits : {0u, 0x8000u, 1u, 0x3f80u, 0x7f80u, 0xffc1u, 0x7f81u}) {
    float value;
    ASSERT_TRUE(convertToF32(ElementKind::BF16, le<uint16_t>(uint16_t(bits)), {&value, 1}));
    EXPECT_EQ(llvm::bit_cast<uint32_t>(value), bits << 16);
  }
}

TEST(ElementKind, F64RoundsToNearestAndRefusesOverflow) {
  auto convert = [](double value, float &result) { return convertToF32(ElementKind::F64, le(value), {&result, 1}); };
  float value;
  EXPECT_TRUE(convert(0.1, value));
  EXPECT_EQ(value, 0.1f);
  EXPECT_TRUE(convert(1.0 + 0x1p-24, value)); // halfway: to even
  EXPECT_EQ(value, 1.0f);
  EXPECT_TRUE(convert(-std::numeric_limits<double>::infinity(), value));
  EXPECT_EQ(value, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(convert(0x1.fffffep127, value));
  EXPECT_EQ(value, std::numeric_limits<float>::max());
  EXPECT_FALSE(convert(0x1.ffffffp127, value));
  EXPECT_FALSE(convert(-1e300, value));
}

/// quants.gguf holds a tensor of each type, quants.f32 gguf-py's values of them in the same order.
TEST(ElementKind, QuantizedBlocksAsGgufPy) {
  std::string file = readFile(INGOT_FIXTURES "/quants.gguf"), expected = readFile(INGOT_FIXTURES "/quants.f32");
  llvm::Expected<GgufFile> parsed = parseGguf("quants.gguf", file);
  ASSERT_TRUE(bool(parsed)) << errorOf(std::move(parsed));
  size_t at = 0, kinds = 0;
  for (const GgufTensor &tensor : parsed->tensors) {
    EXPECT_EQ(tensor.name, elementKindName(tensor.dtype));
    std::vector<float> values(tensor.shape[0] * tensor.shape[1]);
    ASSERT_TRUE(convertToF32(tensor.dtype, tensor.bytes, values));
    ASSERT_LE(at + 4 * values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, expected.data() + at + 4 * i, 4);
      ASSERT_EQ(llvm::bit_cast<uint32_t>(values[i]), bits)
          << tensor.name.str() << " element " << i << ": " << values[i] << ", expected " << llvm::bit_cast<float>(bits);
    }
    at += 4 * values.size();
    ++kinds;
  }
  EXPECT_EQ(at, expected.size());
  EXPECT_EQ(kinds, 12u);
}
