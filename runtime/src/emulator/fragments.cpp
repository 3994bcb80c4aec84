// See fragments.h.
#include "emulator/fragments.h"

#include "ingot_rt/emulate.h"
#include "support/float16.h"

#include <bit>

namespace ingot::rt {

/// Element `half` (0: the lower) of a register of two elements.
static double elementOf(uint32_t kind, uint32_t word, uint32_t half) {
  uint32_t bits = half ? word >> 16 : word & 0xffff;
  return kind == INGOT_RT_MMA_M16N8K16_BF16 ? std::bit_cast<float>(bits << 16)
                                            : floatFromHalf(static_cast<uint16_t>(bits));
}

void multiplyFragments(uint32_t kind, FragmentsOfWarp &fragments) {
  constexpr uint32_t rows = 16, columns = 8;
  const bool halves = kind != INGOT_RT_MMA_M16N8K8_TF32;
  const uint32_t depth = halves ? 16 : 8;
  double a[rows][16], b[16][columns], c[rows][columns];
  // Of thread 4 g + t: registers of A go over rows g and g + 8 first, then over the second half of K.
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, t = lane % 4;
    for (uint32_t r = 0; r < 4; ++r) {
      const uint32_t row = g + r % 2 * 8, word = fragments.a[lane][r];
      if (halves)
        for (uint32_t half = 0; half < 2; ++half)
          a[row][r / 2 * 8 + 2 * t + half] = elementOf(kind, word, half);
      else
        a[row][r / 2 * 4 + t] = std::bit_cast<float>(word);
    }
    for (uint32_t r = 0; r < 2; ++r) {
      const uint32_t word = fragments.b[lane][r];
      if (halves)
        for (uint32_t half = 0; half < 2; ++half)
          b[r * 8 + 2 * t + half][g] = elementOf(kind, word, half);
      else
        b[r * 4 + t][g] = std::bit_cast<float>(word);
    }
    for (uint32_t r = 0; r < 4; ++r)
      c[g + r / 2 * 8][2 * t + r % 2] = fragments.c[lane][r];
  }
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t k = 0; k < depth; ++k)
      for (uint32_t column = 0; column < columns; ++column)
        c[row][column] += a[row][k] * b[k][column];
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t r = 0; r < 4; ++r)
      fragments.c[lane][r] = static_cast<float>(c[lane / 4 + r / 2 * 8][2 * (lane % 4) + r % 2]);
}

} // namespace ingot::rt
