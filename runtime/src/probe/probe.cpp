// Bandwidth and FMA probes. Only these functions are compiled for more than baseline x86-64; they are called after the
// features have been checked.
#include "probe/probe.h"

#include "ingot_rt/abi.h"
#include "platform/machine.h"
#include "platform/mapping.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>
#include <sys/mman.h>

namespace ingot::rt {

namespace {

/// Keeps results alive.
volatile uint64_t sink;

/// Sums `bytes` (a multiple of `streams` * 256) in forward streams, 256 bytes of each in turn.
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

__attribute__((target("avx2"))) void dotBytes256(uint64_t iterations) {
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
  sink = static_cast<uint64_t>(_mm256_extract_epi32(sums[0], 0));
}

__attribute__((target("avx512f,avx512bw"))) void dotBytes512(uint64_t iterations) {
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
  sink = static_cast<uint64_t>(_mm512_reduce_add_epi32(sums[0]));
}

__attribute__((target("avx512f,avx512vnni"))) void dotBytesVnni(uint64_t iterations) {
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
  sink = static_cast<uint64_t>(_mm512_reduce_add_epi32(sums[0]));
}

/// The least seconds of `repetitions` runs of `work` on all workers.
template <typename Work>
double leastSeconds(Pool &pool, int repetitions, Work work) {
  double best = 1e30;
  for (int i = 0; i < repetitions; ++i) {
    double start = now();
    pool.run(work);
    best = std::min(best, now() - start);
  }
  return best;
}

/// What a worker reads is a multiple of this: whole pages for each of up to 16 streams.
constexpr uint64_t readUnit = 16 * 4096;

} // namespace

const char *pagesName(ReadFigure::Pages pages) {
  return pages == ReadFigure::Small ? "4 KiB pages" : pages == ReadFigure::Huge ? "huge pages" : "the weights";
}

Result<ReadProbe> ReadProbe::create(Pool &pool, uint64_t bytes, const uint8_t *weights, uint64_t weightBytes) {
  ReadProbe probe;
  probe.bytes = std::max(readUnit, bytes / readUnit * readUnit);
  for (bool hugePages : {false, true}) {
    Result<Mapping> memory = Mapping::anonymous(probe.bytes, "the bandwidth probe", hugePages);
    if (!memory)
      return memory.takeError();
    (hugePages ? probe.huge : probe.small) = std::move(*memory);
    uint8_t *data = hugePages ? probe.huge.data() : probe.small.data();
    if (!hugePages)
      madvise(data, probe.bytes, MADV_NOHUGEPAGE); // else a system may give them unasked
    // Written, since pages that never were are one page of zeros; in parts, so that each is near who reads it.
    uint64_t part = probe.bytes / pool.workers();
    auto touch = [&](uint32_t worker) {
      uint64_t end = worker + 1 == pool.workers() ? probe.bytes : (worker + 1) * part;
      memset(data + worker * part, 1, end - worker * part);
    };
    pool.run(touch);
  }
  if (weightBytes >= bytes / 4) {
    probe.weights = weights;
    probe.weightBytes = weightBytes;
  }
  return probe;
}

double ReadProbe::measure(Pool &pool, ReadFigure::Pages pages, uint32_t streams, int repetitions) const {
  const uint8_t *data = pages == ReadFigure::Small ? small.data() : pages == ReadFigure::Huge ? huge.data() : weights;
  uint64_t all = pages == ReadFigure::Weights ? weightBytes : bytes;
  uint64_t part = all / pool.workers() / readUnit * readUnit;
  double seconds =
      leastSeconds(pool, repetitions, [&](uint32_t worker) { sink = sumBytes(data + worker * part, part, streams); });
  return static_cast<double>(part * pool.workers()) / seconds;
}

std::vector<ReadFigure> ReadProbe::measureAll(Pool &pool, int repetitions) const {
  std::vector<ReadFigure> figures;
  for (ReadFigure::Pages pages : {ReadFigure::Small, ReadFigure::Huge, ReadFigure::Weights})
    for (uint32_t streams : {1u, 4u, 8u, 16u})
      if (pages != ReadFigure::Weights || weights)
        figures.push_back({pages, streams, measure(pool, pages, streams, repetitions)});
  return figures;
}

double measurePeakFlops(Pool &pool, uint64_t features, int repetitions) {
  bool wide = (features & INGOT_RT_CPU_AVX512) != 0;
  constexpr uint64_t iterations = 2000000;
  double seconds = leastSeconds(pool, repetitions,
                                [&](uint32_t) { wide ? multiplyAdd512(iterations) : multiplyAdd256(iterations); });
  double lanes = wide ? 16 : 8;
  return 2 * lanes * chains * static_cast<double>(iterations) * pool.workers() / seconds;
}

double measurePeakDots(Pool &pool, uint64_t features, int repetitions) {
  bool wide = (features & INGOT_RT_CPU_AVX512) != 0, vnni = (features & INGOT_RT_CPU_AVX512VNNI) != 0;
  constexpr uint64_t iterations = 1000000;
  double seconds = leastSeconds(pool, repetitions, [&](uint32_t) {
    vnni ? dotBytesVnni(iterations) : wide ? dotBytes512(iterations) : dotBytes256(iterations);
  });
  double bytes = wide || vnni ? 64 : 32;
  return 2 * bytes * chains * static_cast<double>(iterations) * pool.workers() / seconds;
}

double measureBarrier(Pool &pool, int repetitions) {
  if (pool.workers() == 1)
    return 0;
  constexpr int rounds = 200;
  double seconds = leastSeconds(pool, repetitions, [&](uint32_t worker) {
    for (int i = 0; i < rounds; ++i)
      pool.barrier().wait(worker);
  });
  return seconds / rounds;
}

} // namespace ingot::rt
