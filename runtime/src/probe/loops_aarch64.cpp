// The probes' loops for AArch64. Those that use more than armv8-a are called after the features have been checked.
#include "probe/loops.h"

#ifdef __aarch64__
#include "ingot_rt/cpu_feature.h"

#include <arm_neon.h>

namespace ingot::rt {

uint64_t sumBytes(const uint8_t *data, uint64_t bytes, uint64_t streams) {
  constexpr uint64_t step = 256;
  uint64x2_t sums[16];
  for (uint64x2_t &sum : sums)
    sum = vdupq_n_u64(0);
  uint64_t part = bytes / streams;
  for (uint64_t i = 0; i < part; i += step)
    for (uint64_t stream = 0; stream < streams; ++stream) {
      auto from = reinterpret_cast<const uint64_t *>(data + stream * part + i);
#pragma clang loop unroll(full)
      for (int k = 0; k < 16; ++k)
        sums[k] = vaddq_u64(sums[k], vld1q_u64(from + 2 * k));
    }
  for (int k = 1; k < 16; ++k)
    sums[0] = vaddq_u64(sums[0], sums[k]);
  return vaddvq_u64(sums[0]);
}

namespace {

/// Twenty-four independent chains hide the latency of four pipes.
constexpr int chains = 24;

uint64_t multiplyAdd(uint64_t iterations) {
  float32x4_t sums[chains];
  for (int k = 0; k < chains; ++k)
    sums[k] = vdupq_n_f32(0.001f * static_cast<float>(k));
  float32x4_t x = vdupq_n_f32(0.999f), y = vdupq_n_f32(1e-3f);
  for (uint64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+w"(x), "+w"(y)); // not to be hoisted or folded
#pragma clang loop unroll(full)
    for (int k = 0; k < chains; ++k)
      sums[k] = vfmaq_f32(sums[k], x, y);
  }
  float total = 0;
  for (const float32x4_t &sum : sums)
    total += vgetq_lane_f32(sum, 0);
  return static_cast<uint64_t>(total);
}

uint64_t total(int32x4_t (&sums)[chains]) {
  for (int k = 1; k < chains; ++k)
    sums[0] = vaddq_s32(sums[0], sums[k]);
  return static_cast<uint64_t>(vaddvq_s32(sums[0]));
}

/// Products of bytes in 16 bits, pairs of them added in 32.
uint64_t widenBytes(uint64_t iterations) {
  int32x4_t sums[chains];
  for (int32x4_t &sum : sums)
    sum = vdupq_n_s32(0);
  int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(-2);
  for (uint64_t i = 0; i < iterations; ++i) {
#pragma clang loop unroll(full)
    for (int k = 0; k < chains; ++k) {
      asm volatile("" : "+w"(x), "+w"(y)); // each product is a new one
      sums[k] = vpadalq_s16(sums[k], vmull_s8(vget_low_s8(x), vget_low_s8(y)));
      sums[k] = vpadalq_s16(sums[k], vmull_high_s8(x, y));
    }
  }
  return total(sums);
}

__attribute__((target("dotprod"))) uint64_t dotBytes(uint64_t iterations) {
  int32x4_t sums[chains];
  for (int32x4_t &sum : sums)
    sum = vdupq_n_s32(0);
  int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(-2);
  for (uint64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+w"(x), "+w"(y));
#pragma clang loop unroll(full)
    for (int k = 0; k < chains; ++k)
      sums[k] = vdotq_s32(sums[k], x, y);
  }
  return total(sums);
}

__attribute__((target("i8mm"))) uint64_t multiplyMatrices(uint64_t iterations) {
  int32x4_t sums[chains];
  for (int32x4_t &sum : sums)
    sum = vdupq_n_s32(0);
  int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(-2);
  for (uint64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+w"(x), "+w"(y));
#pragma clang loop unroll(full)
    for (int k = 0; k < chains; ++k)
      sums[k] = vmmlaq_s32(sums[k], x, y);
  }
  return total(sums);
}
} // namespace

RegisterLoop multiplyAddLoop(uint64_t) { return {multiplyAdd, 2.0 * 4 * chains}; }

RegisterLoop dotLoop(uint64_t features) {
  // A product of 2 x 8 and 8 x 2 bytes is four dot products of eight.
  if (features & INGOT_RT_CPU_I8MM)
    return {multiplyMatrices, 2.0 * 32 * chains};
  if (features & INGOT_RT_CPU_DOTPROD)
    return {dotBytes, 2.0 * 16 * chains};
  return {widenBytes, 2.0 * 16 * chains};
}

} // namespace ingot::rt
#endif
