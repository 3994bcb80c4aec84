// Sizes of the stored types and their conversion to float32. The block formats
// are ggml's (ggml-common.h has their structs, ggml-quants.c and gguf-py's
// quants.py their arithmetic); each step is one float32 operation, so
// contraction to fused multiply-add is off.
#include "compiler/Import/ElementKind.h"
#include "compiler/Import/InputError.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"
#include <cmath>
#include <cstring>

#pragma clang fp contract(off)

using namespace llvm;
using namespace ingot;

const ElementKindInfo &ingot::elementKindInfo(ElementKind kind) {
  static constexpr ElementKindInfo table[] = {
      {"F64", 1, 8},     {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},     {"F8_E4M3", 1, 1},
      {"F8_E5M2", 1, 1}, {"I64", 1, 8},      {"I32", 1, 4},      {"I16", 1, 2},      {"I8", 1, 1},
      {"U64", 1, 8},     {"U32", 1, 4},      {"U16", 1, 2},      {"U8", 1, 1},       {"BOOL", 1, 1},
      {"Q4_0", 32, 18},  {"Q4_1", 32, 20},   {"Q5_0", 32, 22},   {"Q5_1", 32, 24},   {"Q8_0", 32, 34},
      {"Q2_K", 256, 84}, {"Q3_K", 256, 110}, {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},
  };
  static_assert(std::size(table) == elementKindCount);
  return table[static_cast<unsigned>(kind)];
}

bool ingot::isPlainFloat(ElementKind kind) {
  return kind == ElementKind::F32 || kind == ElementKind::F16 || kind == ElementKind::BF16;
}

bool ingot::isQuantized(ElementKind kind) { return elementKindInfo(kind).blockElements > 1; }

bool ingot::isStoredQuantized(ElementKind kind) {
  return isQuantized(kind) && kind != ElementKind::Q2_K && kind != ElementKind::Q3_K;
}

bool ingot::isConvertible(ElementKind kind) {
  return kind == ElementKind::F64 || isPlainFloat(kind) || isQuantized(kind);
}

std::optional<int64_t> ingot::rowBytes(ElementKind kind, int64_t elements) {
  const ElementKindInfo &info = elementKindInfo(kind);
  if (elements % info.blockElements != 0)
    return std::nullopt;
  return checkedProduct({elements / info.blockElements, info.blockBytes});
}

std::optional<ElementKind> ingot::elementKindOfSafetensors(StringRef dtype) {
  for (unsigned i = 0; i < elementKindCount; ++i) {
    auto kind = static_cast<ElementKind>(i);
    if (!isQuantized(kind) && elementKindName(kind) == dtype)
      return kind;
  }
  return std::nullopt;
}

/// float16 to float32 without a branch: the bits moved into float32's fields
/// are the value times 2^-112, except that the largest exponent (infinity, NaN)
/// must become float32's largest.
static inline float halfToFloat(uint16_t half) {
  uint32_t magnitude = uint32_t(half & 0x7fff) << 13;
  uint32_t finite = llvm::bit_cast<uint32_t>(llvm::bit_cast<float>(magnitude) * 0x1p112f);
  uint32_t bits = (half & 0x7c00) == 0x7c00 ? magnitude | 0x7f800000u : finite;
  return llvm::bit_cast<float>(bits | uint32_t(half & 0x8000) << 16);
}

static inline float halfAt(const uint8_t *p) { return halfToFloat(support::endian::read16le(p)); }

namespace {

/// One block of each format to its 32 or 256 floats. `b` is the block, `y` the
/// output.
void decodeQ40(const uint8_t *b, float *y) {
  float d = halfAt(b);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * float((b[2 + i] & 15) - 8);
    y[i + 16] = d * float((b[2 + i] >> 4) - 8);
  }
}

void decodeQ41(const uint8_t *b, float *y) {
  float d = halfAt(b), m = halfAt(b + 2);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * float(b[4 + i] & 15) + m;
    y[i + 16] = d * float(b[4 + i] >> 4) + m;
  }
}

/// The fifth bits of Q5_0 and Q5_1 lie in a 32-bit word, bit i for element i.
inline int fifthBit(uint32_t word, int i) { return int(word >> i & 1) << 4; }

void decodeQ50(const uint8_t *b, float *y) {
  float d = halfAt(b);
  uint32_t high = support::endian::read32le(b + 2);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * float(((b[6 + i] & 15) | fifthBit(high, i)) - 16);
    y[i + 16] = d * float(((b[6 + i] >> 4) | fifthBit(high, i + 16)) - 16);
  }
}

void decodeQ51(const uint8_t *b, float *y) {
  float d = halfAt(b), m = halfAt(b + 2);
  uint32_t high = support::endian::read32le(b + 4);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * float((b[8 + i] & 15) | fifthBit(high, i)) + m;
    y[i + 16] = d * float((b[8 + i] >> 4) | fifthBit(high, i + 16)) + m;
  }
}

void decodeQ80(const uint8_t *b, float *y) {
  float d = halfAt(b);
  for (int i = 0; i < 32; ++i)
    y[i] = d * float(int8_t(b[2 + i]));
}

/// Q2_K: 16 pairs of 4-bit scale and minimum for 16 elements each, 64 bytes of
/// 2-bit values, d, dmin. Within each half of 128, byte l of 32 holds elements
/// l, l + 32, l + 64, l + 96.
void decodeQ2K(const uint8_t *b, float *y) {
  const uint8_t *scales = b, *q = b + 16;
  float d = halfAt(b + 80), dmin = halfAt(b + 82);
  for (int group = 0; group < 16; ++group) {
    float scale = d * float(scales[group] & 15), minimum = dmin * float(scales[group] >> 4);
    int half = group / 8, shift = group % 8 / 2 * 2, first = group % 2 * 16;
    for (int i = 0; i < 16; ++i)
      y[group * 16 + i] = scale * float(q[half * 32 + first + i] >> shift & 3) - minimum;
  }
}

/// Q3_K: 32 bytes of high bits (clear: minus 4), 64 bytes of 2-bit values as in
/// Q2_K, 16 scales of 6 bits (low 4 bits in 8 bytes, high 2 bits in 4), offset
/// 32, and d.
void decodeQ3K(const uint8_t *b, float *y) {
  const uint8_t *high = b, *q = b + 32, *scales = b + 96;
  float d = halfAt(b + 108);
  for (int group = 0; group < 16; ++group) {
    int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
    int top = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    float scale = d * float((low | top << 4) - 32);
    int half = group / 8, plane = group % 8 / 2, first = group % 2 * 16;
    for (int i = 0; i < 16; ++i) {
      int value = q[half * 32 + first + i] >> (plane * 2) & 3;
      bool set = high[first + i] >> (half * 4 + plane) & 1;
      y[group * 16 + i] = scale * float(value - (set ? 0 : 4));
    }
  }
}

/// Scale and minimum j of 8 in Q4_K and Q5_K, 6 bits each in 12 bytes.
std::pair<int, int> scaleAndMinimum(const uint8_t *s, int j) {
  if (j < 4)
    return {s[j] & 63, s[j + 4] & 63};
  return {(s[j + 4] & 15) | (s[j - 4] >> 6) << 4, (s[j + 4] >> 4) | (s[j] >> 6) << 4};
}

/// Q4_K: d, dmin, the 12 bytes, 128 bytes of 4-bit values: 32 bytes hold 32
/// elements low, the next 32 high.
void decodeQ4K(const uint8_t *b, float *y) {
  float d = halfAt(b), dmin = halfAt(b + 2);
  for (int group = 0; group < 8; ++group) {
    auto [s, m] = scaleAndMinimum(b + 4, group);
    float scale = d * float(s), minimum = dmin * float(m);
    const uint8_t *q = b + 16 + group / 2 * 32;
    for (int i = 0; i < 32; ++i)
      y[group * 32 + i] = scale * float(q[i] >> (group % 2 * 4) & 15) - minimum;
  }
}

/// Q5_K: as Q4_K with 32 bytes of fifth bits (bit `group` of byte i) before the
/// values.
void decodeQ5K(const uint8_t *b, float *y) {
  float d = halfAt(b), dmin = halfAt(b + 2);
  const uint8_t *high = b + 16;
  for (int group = 0; group < 8; ++group) {
    auto [s, m] = scaleAndMinimum(b + 4, group);
    float scale = d * float(s), minimum = dmin * float(m);
    const uint8_t *q = b + 48 + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      int value = (q[i] >> (group % 2 * 4) & 15) + (high[i] >> group & 1) * 16;
      y[group * 32 + i] = scale * float(value) - minimum;
    }
  }
}

/// Q6_K: 128 bytes of low 4 bits, 64 of high 2 bits, 16 signed scales, d.
/// Within each half of 128, plane p of 32 elements takes its low bits from byte
/// i or i + 32 (p odd), the low nibble for p < 2.
void decodeQ6K(const uint8_t *b, float *y) {
  float d = halfAt(b + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t *low = b + half * 64, *high = b + 128 + half * 32, *scales = b + 192 + half * 8;
    for (int plane = 0; plane < 4; ++plane)
      for (int i = 0; i < 32; ++i) {
        int value = (low[plane % 2 * 32 + i] >> (plane / 2 * 4) & 15) | (high[i] >> (plane * 2) & 3) << 4;
        float scale = d * float(int8_t(scales[plane * 2 + i / 16]));
        y[half * 128 + plane * 32 + i] = scale * float(value - 32);
      }
  }
}

/// Converts whole blocks with `decode`.
void decodeBlocks(void (*decode)(const uint8_t *, float *), const ElementKindInfo &info, ArrayRef<char> src,
                  MutableArrayRef<float> dst) {
  const auto *block = reinterpret_cast<const uint8_t *>(src.data());
  for (size_t i = 0; i < dst.size(); i += info.blockElements, block += info.blockBytes)
    decode(block, dst.data() + i);
}

/// float64 rounded to nearest even; false if a finite value has no finite
/// float32.
bool doublesToF32(ArrayRef<char> src, MutableArrayRef<float> dst) {
  for (size_t i = 0; i < dst.size(); ++i) {
    auto value = llvm::bit_cast<double>(support::endian::read64le(src.data() + 8 * i));
    // Beyond this, rounding to nearest gives infinity (and the conversion would
    // be undefined behaviour).
    if (std::isfinite(value) && std::fabs(value) >= 0x1.ffffffp127)
      return false;
    dst[i] = float(value);
  }
  return true;
}

} // namespace

bool ingot::convertToF32(ElementKind kind, ArrayRef<char> src, MutableArrayRef<float> dst) {
  const ElementKindInfo &info = elementKindInfo(kind);
  switch (kind) {
  case ElementKind::F64:
    return doublesToF32(src, dst);
  case ElementKind::F32:
    for (size_t i = 0; i < dst.size(); ++i)
      dst[i] = llvm::bit_cast<float>(support::endian::read32le(src.data() + 4 * i));
    return true;
  case ElementKind::F16:
    for (size_t i = 0; i < dst.size(); ++i)
      dst[i] = halfToFloat(support::endian::read16le(src.data() + 2 * i));
    return true;
  case ElementKind::BF16:
    for (size_t i = 0; i < dst.size(); ++i)
      dst[i] = llvm::bit_cast<float>(uint32_t(support::endian::read16le(src.data() + 2 * i)) << 16);
    return true;
  case ElementKind::Q4_0:
    decodeBlocks(decodeQ40, info, src, dst);
    return true;
  case ElementKind::Q4_1:
    decodeBlocks(decodeQ41, info, src, dst);
    return true;
  case ElementKind::Q5_0:
    decodeBlocks(decodeQ50, info, src, dst);
    return true;
  case ElementKind::Q5_1:
    decodeBlocks(decodeQ51, info, src, dst);
    return true;
  case ElementKind::Q8_0:
    decodeBlocks(decodeQ80, info, src, dst);
    return true;
  case ElementKind::Q2_K:
    decodeBlocks(decodeQ2K, info, src, dst);
    return true;
  case ElementKind::Q3_K:
    decodeBlocks(decodeQ3K, info, src, dst);
    return true;
  case ElementKind::Q4_K:
    decodeBlocks(decodeQ4K, info, src, dst);
    return true;
  case ElementKind::Q5_K:
    decodeBlocks(decodeQ5K, info, src, dst);
    return true;
  case ElementKind::Q6_K:
    decodeBlocks(decodeQ6K, info, src, dst);
    return true;
  default:
    llvm_unreachable("not a convertible kind");
  }
}
