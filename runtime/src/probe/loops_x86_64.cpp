// The probes' loops for x86-64. These functions alone are compiled for more than the baseline; they are called after
// the features have been checked.
#include "probe/loops.h"

#ifdef __x86_64__
#include "ingot_rt/abi.h"

#include <immintrin.h>

namespace ingot::rt {

__attribute__((target("avx2"))) uint64_t sumBytes(const uint8_t *data, uint64_t bytes, uint64_t streams) {
  constexpr uint64_t step = 256;
  __m256i sums[8];
  for (__m256i &sum : sums)
    sum = _mm256_setzero_si256();
  uint64_t part = bytes / streams;
  for (uint64_t i = 0; i < part; i += step)
    for (uint64_t stream = 0; stream < streams; ++stream) {
      auto from = reinterpret_cast<const __m256i *>(data + stream * part + i);
#pragma clang loop unroll(full)
      for (int k = 0; k < 8; ++k)
        sums[k] = _mm256_add_epi64(sums[k], _mm256_load_si256(from + k));
    }
  for (int k = 1; k < 8; ++k)
    sums[0] = _mm256_add_epi64(sums[0], sums[k]);
  alignas(32) uint64_t out[4];
  _mm256_store_si256(reinterpret_cast<__m256i *>(out), sums[0]);
  return out[0] + out[1] + out[2] + out[3];
}

namespace {

/// Twelve independent chains hide the latency of two pipes.
constexpr int chains = 12;

__attribute__((target("avx2,fma"))) uint64_t multiplyAdd256(uint64_t iterations) {
  __m256 sums[chains];
  for (int k = 0; k < chains; ++k)
    sums[k] = _mm256_set1_ps(0.001f * static_cast<float>(k));
  __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
  for (uint64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+x"(x), "+x"(y)); // not to be hoisted or folded
#pragma clang loop unroll(full)
    for (int k = 0; k < chains; ++k)
      sums[k] = _mm256_fmadd_ps(sums[k], x, y);
  }
  float total = 0;
  for (const __m256 &sum : sums)
    total += _mm256_cvtss_f32(sum);
  return static_cast<uint64_t>(total);
}

__attribute__((target("avx512f"))) uint64_t multiplyAdd512(uint64_t iterations) {
  __m512 sums[chains];
  for (int k = 0; k < chains; ++k)
    sums[k] = _mm512_set1_ps(0.001f * static_cast<float>(k));
  __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
  for (uint64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+v"(x), "+v"(y));
#pragma clang loop unroll(full)
    for (int k = 0; k < chains; ++k)
      sums[k] = _mm512_fmadd_ps(sums[k], x, y);
  }
  float total = 0;
  for (const __m512 &sum : sums)
    total += _mm512_cvtss_f32(sum);
  return static_cast<uint64_t>(total);
}

__attribute__((target("avx2"))) uint64_t dotBytes256(uint64_t iterations) {
  __m256i sums[chains];
  for (__m256i &sum : sums)
    sum = _mm256_setzero_si256();
  __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-2), ones = _mm256_set1_epi16(1);
  for (uint64_t i = 0; i < iterations; ++i) {
#pragma clang loop unroll(full)
    for (int k = 0; k < chains; ++k) {
      asm volatile("" : "+x"(x), "+x"(y)); // each product is a new one
      sums[k] = _mm256_add_epi32(sums[k], _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), ones));
    }
  }
  for (int k = 1; k < chains; ++k)
    sums[0] = _mm256_add_epi32(sums[0], sums[k]);
  return static_cast<uint64_t>(_mm256_extract_epi32(sums[0], 0));
}

__attribute__((target("avx512f,avx512bw"))) uint64_t dotBytes512(uint64_t iterations) {
  __m512i sums[chains];
  for (__m512i &sum : sums)
    sum = _mm512_setzero_si512();
  __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-2), ones = _mm512_set1_epi16(1);
  for (uint64_t i = 0; i < iterations; ++i) {
#pragma clang loop unroll(full)
    for (int k = 0; k < chains; ++k) {
      asm volatile("" : "+v"(x), "+v"(y));
      sums[k] = _mm512_add_epi32(sums[k], _mm512_madd_epi16(_mm512_maddubs_epi16(x, y), ones));
    }
  }
  for (int k = 1; k < chains; ++k)
    sums[0] = _mm512_add_epi32(sums[0], sums[k]);
  return static_cast<uint64_t>(_mm512_reduce_add_epi32(sums[0]));
}

__attribute__((target("avx512f,avx512vnni"))) uint64_t dotBytesVnni(uint64_t iterations) {
  __m512i sums[chains];
  for (__m512i &sum : sums)
    sum = _mm512_setzero_si512();
  __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-2);
  for (uint64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+v"(x), "+v"(y));
#pragma clang loop unroll(full)
    for (int k = 0; k < chains; ++k)
      sums[k] = _mm512_dpbusd_epi32(sums[k], x, y);
  }
  for (int k = 1; k < chains; ++k)
    sums[0] = _mm512_add_epi32(sums[0], sums[k]);
  return static_cast<uint64_t>(_mm512_reduce_add_epi32(sums[0]));
}

/// Operations of an iteration on vectors of so many elements.
constexpr double operations(int elements) { return 2.0 * elements * chains; }
} // namespace

RegisterLoop multiplyAddLoop(uint64_t features) {
  if (features & INGOT_RT_CPU_AVX512)
    return {multiplyAdd512, operations(16)};
  return {multiplyAdd256, operations(8)};
}

RegisterLoop dotLoop(uint64_t features) {
  if (features & INGOT_RT_CPU_AVX512VNNI)
    return {dotBytesVnni, operations(64)};
  if (features & INGOT_RT_CPU_AVX512)
    return {dotBytes512, operations(64)};
  return {dotBytes256, operations(32)};
}

} // namespace ingot::rt
#endif
