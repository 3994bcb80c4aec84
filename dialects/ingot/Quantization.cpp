//===- Quantization.cpp - The formats of quantized weights --------------------------------------------------------===//
//
// Arithmetic is float32, each step rounded (no contraction), so that every host makes the same codes.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "dialects/ingot/Quantization.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <cmath>

#pragma clang fp contract(off)

using namespace mlir;
using namespace ingot;

const QuantizedFormat &ingot::getQuantizedFormat(Quantization kind) {
  static constexpr QuantizedFormat table[] = {
      {Quantization::Q8_0, 32, 8, 0, false, 1}, {Quantization::Q4_0, 32, 4, 8, false, 1},
      {Quantization::Q4_1, 32, 4, 0, true, 1},  {Quantization::Q5_0, 32, 5, 16, false, 1},
      {Quantization::Q5_1, 32, 5, 0, true, 1},  {Quantization::Q4_K, 256, 4, 0, true, 1},
      {Quantization::Q5_K, 256, 5, 0, true, 1}, {Quantization::Q6_K, 256, 6, 32, false, 2},
  };
  const QuantizedFormat &format = table[static_cast<uint32_t>(kind)];
  assert(format.kind == kind && "the table is in the order of the enum");
  return format;
}

const QuantizedFormat *ingot::getQuantizedFormat(Type type) {
  auto quantized = dyn_cast<QuantizedType>(getElementTypeOrSelf(type));
  return quantized ? &getQuantizedFormat(quantized.getKind()) : nullptr;
}

static uint16_t toHalf(float value) { return llvm::bit_cast<uint16_t>(static_cast<_Float16>(value)); }
static float fromHalf(uint16_t bits) { return static_cast<float>(llvm::bit_cast<_Float16>(bits)); }

static constexpr float largestHalf = 65504;
static constexpr uint16_t halfNaN = 0x7e00;

static QuantizedBlock quantizeSigned(ArrayRef<float> values) {
  QuantizedBlock block;
  float largest = 0;
  for (float value : values)
    largest = std::max(largest, std::fabs(value));
  block.scale = toHalf(std::min(largest / 127, largestHalf));
  float scale = fromHalf(block.scale);
  if (scale == 0)
    return block;
  for (auto [code, value] : llvm::zip(block.codes, values)) {
    float rounded = std::nearbyint(std::clamp(value / scale, -127.0f, 127.0f));
    code = static_cast<uint8_t>(static_cast<int8_t>(rounded));
  }
  return block;
}

namespace {
/// The search for the scale and offset of a block of 4-bit codes.
struct LineFit {
  static constexpr int64_t n = quantizedBlock;
  static constexpr int64_t width = 8;
  /// The values, and 1 for each that counts; the others are 0.
  float x[n], weight[n];
  float codes[n];

  /// The sum of n terms in eight chains.
  template <typename Term>
  static float sum(Term term) {
    float sums[width] = {};
    for (int64_t i = 0; i < n; i += width)
      for (int64_t j = 0; j < width; ++j)
        sums[j] += term(i + j);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }

  /// The nearest codes for a line.
  void assign(float scale, float offset) {
    float inverse = scale > 0 ? 1 / scale : 0;
    for (int64_t i = 0; i < n; ++i) {
      float code = (x[i] - offset) * inverse;
      code = code < 0 ? 0 : code > 15 ? 15 : code;
      float shifted = code + 0.5f; // to the nearest: codes are not negative
      codes[i] = static_cast<float>(static_cast<int32_t>(shifted));
    }
  }

  /// The line with the least squared error for the codes; as it was where they are all the same.
  void fit(float count, float sumX, float &scale, float &offset) const {
    float q = sum([&](int64_t i) { return weight[i] * codes[i]; });
    float qq = sum([&](int64_t i) { return weight[i] * codes[i] * codes[i]; });
    float qx = sum([&](int64_t i) { return codes[i] * x[i]; });
    float determinant = count * qq - q * q;
    if (determinant <= 0)
      return;
    scale = (count * qx - q * sumX) / determinant;
    offset = (sumX - scale * q) / count;
  }

  float error(float scale, float offset) const {
    return sum([&](int64_t i) {
      float difference = weight[i] * (scale * codes[i] + offset) - x[i];
      return difference * difference;
    });
  }
};
} // namespace

static QuantizedBlock quantizeWithOffset(ArrayRef<float> values) {
  // How much of the range the first line leaves out at each end. Outliers cost less than a coarser step for all others.
  static constexpr float cuts[] = {0.0f, 0.03f, 0.06f, 0.1f};
  static constexpr int rounds = 3;
  LineFit search;
  float low = values.front(), high = values.front();
  for (int64_t i = 0; i < LineFit::n; ++i) {
    bool inside = i < static_cast<int64_t>(values.size());
    search.x[i] = inside ? values[i] : 0;
    search.weight[i] = inside ? 1 : 0;
    if (inside) {
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
    }
  }
  auto count = static_cast<float>(values.size());
  float sumX = LineFit::sum([&](int64_t i) { return search.x[i]; }), best = HUGE_VALF;
  QuantizedBlock block;
  for (float cut : cuts) {
    float offset = low + cut * (high - low), scale = (high - low) * (1 - 2 * cut) / 15;
    for (int round = 0; round <= rounds; ++round) {
      uint16_t scaleBits = toHalf(std::clamp(scale, 0.0f, largestHalf));
      uint16_t offsetBits = toHalf(std::clamp(offset, -largestHalf, largestHalf));
      float stored = fromHalf(scaleBits), storedOffset = fromHalf(offsetBits);
      search.assign(stored, storedOffset);
      if (float error = search.error(stored, storedOffset); error < best) {
        best = error;
        block.scale = scaleBits;
        block.offset = offsetBits;
        for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i)
          block.codes[i] = static_cast<uint8_t>(search.codes[i]);
      }
      search.fit(count, sumX, scale, offset);
    }
  }
  return block;
}

QuantizedBlock ingot::quantizeBlock(Quantization kind, ArrayRef<float> values) {
  if (!llvm::all_of(values, [](float value) { return std::fabs(value) <= largestHalf; })) {
    QuantizedBlock block;
    block.scale = halfNaN;
    return block;
  }
  if (kind == Quantization::Q8_0)
    return quantizeSigned(values);
  assert(kind == Quantization::Q4_1 && "float weights become Q8_0 or Q4_1");
  return quantizeWithOffset(values);
}

void ingot::dequantizeBlock(Quantization kind, const QuantizedBlock &block, MutableArrayRef<float> values) {
  const QuantizedFormat &format = getQuantizedFormat(kind);
  assert(!format.hasHeader() && "blocks of 256 elements have no common scale of their own");
  float scale = fromHalf(block.scale), offset = fromHalf(block.offset);
  for (auto [value, code] : llvm::zip(values, block.codes)) {
    int32_t number = format.codeBits == 8 ? static_cast<int8_t>(code) : code;
    // The product is exact: 11 bits times 8.
    value = scale * static_cast<float>(number - format.codeOffset) + (format.hasOffsets ? offset : 0.0f);
  }
}
