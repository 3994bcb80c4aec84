// Bandwidth and FMA probes. Only these functions are compiled for more than baseline x86-64; they are called after the
// features have been checked.
#include "probe/probe.h"

#include "ingot_rt/abi.h"
#include "platform/machine.h"
#include "platform/mapping.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

namespace ingot::rt {

namespace {

/// Keeps results alive.
volatile uint64_t sink;

/// Sums `bytes` (a multiple of 8 * 256) in eight streams, so that many cache misses are in flight.
__attribute__((target("avx2"))) uint64_t sumBytes(const uint8_t *data, uint64_t bytes) {
  constexpr uint64_t streams = 8, step = 256;
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

/// Twelve independent chains hide the latency of two pipes.
constexpr int chains = 12;

__attribute__((target("avx2,fma"))) void multiplyAdd256(uint64_t iterations) {
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
  sink = static_cast<uint64_t>(total);
}

__attribute__((target("avx512f"))) void multiplyAdd512(uint64_t iterations) {
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
  sink = static_cast<uint64_t>(total);
}

} // namespace

Result<double> measureReadBandwidth(Pool &pool, uint64_t bytes, int repetitions) {
  constexpr uint64_t unit = 8 * 4096;
  uint64_t part = bytes / pool.workers() / unit * unit;
  Result<Mapping> memory = Mapping::anonymous(part * pool.workers(), "the bandwidth probe", true);
  if (!memory)
    return memory.takeError();
  uint8_t *data = memory->data();
  auto touch = [&](uint32_t worker) { memset(data + worker * part, 1, part); };
  pool.run(touch);
  double best = 1e30;
  for (int i = 0; i < repetitions; ++i) {
    double start = now();
    auto read = [&](uint32_t worker) { sink = sumBytes(data + worker * part, part); };
    pool.run(read);
    best = std::min(best, now() - start);
  }
  return static_cast<double>(part * pool.workers()) / best;
}

double measurePeakFlops(Pool &pool, uint64_t features, int repetitions) {
  bool wide = (features & INGOT_RT_CPU_AVX512) != 0;
  constexpr uint64_t iterations = 2000000;
  double best = 1e30;
  for (int i = 0; i < repetitions; ++i) {
    double start = now();
    auto compute = [&](uint32_t) { wide ? multiplyAdd512(iterations) : multiplyAdd256(iterations); };
    pool.run(compute);
    best = std::min(best, now() - start);
  }
  double lanes = wide ? 16 : 8;
  return 2 * lanes * chains * static_cast<double>(iterations) * pool.workers() / best;
}

} // namespace ingot::rt
