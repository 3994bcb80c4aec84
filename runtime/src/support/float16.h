// Exact widening and round-to-nearest-even narrowing between float32 and the 16-bit formats, in integer arithmetic so
// that baseline code gives the same bits as F16C and AVX512-BF16 instructions.
#ifndef INGOT_RUNTIME_SUPPORT_FLOAT16_H
#define INGOT_RUNTIME_SUPPORT_FLOAT16_H

#include <bit>
#include <cstdint>

namespace ingot::rt {

inline float floatFromBfloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// Round to nearest even; a NaN stays one (quiet).
inline uint16_t bfloatFromFloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// IEEE 754 binary16 to binary32, exact, subnormals included.
float floatFromHalf(uint16_t bits);

/// IEEE 754 binary32 to binary16, round to nearest even, overflow to infinity.
uint16_t halfFromFloat(float value);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_SUPPORT_FLOAT16_H
