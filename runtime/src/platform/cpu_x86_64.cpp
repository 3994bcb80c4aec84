// cpuid and xgetbv (Intel SDM volume 2, AMD APM volume 3).
#include "platform/cpu.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <cstring>

namespace ingot::rt {

namespace {
/// Extended control register 0: which register state the system saves. Only valid where OSXSAVE is set.
uint64_t readXcr0() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}
} // namespace

const char *const targetTriple = "x86_64-linux-gnu";

uint64_t cpuFeatures() {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d))
    return 0;
  constexpr uint32_t osxsave = 1u << 27, avx = 1u << 28, fma = 1u << 12, movbe = 1u << 22, f16c = 1u << 29;
  constexpr uint32_t leaf1 = osxsave | avx | fma | movbe | f16c;
  if ((c & leaf1) != leaf1)
    return 0;
  uint64_t state = readXcr0();
  uint32_t extendedC = 0;
  if (__get_cpuid(0x80000001u, &a, &b, &c, &d))
    extendedC = c;
  uint32_t b7 = 0, c7 = 0, a71 = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    b7 = b;
    c7 = c;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
      a71 = a;
  }
  uint64_t features = 0;
  constexpr uint32_t bmi1 = 1u << 3, avx2 = 1u << 5, bmi2 = 1u << 8, lzcnt = 1u << 5;
  if ((state & 6) != 6 || (b7 & (bmi1 | avx2 | bmi2)) != (bmi1 | avx2 | bmi2) || !(extendedC & lzcnt))
    return 0;
  features |= INGOT_RT_CPU_V3;
  constexpr uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; // F, DQ, CD, BW, VL
  if ((state & 0xe6) != 0xe6 || (b7 & avx512) != avx512)
    return features;
  features |= INGOT_RT_CPU_AVX512;
  if (a71 & (1u << 5))
    features |= INGOT_RT_CPU_AVX512BF16;
  if (c7 & (1u << 11))
    features |= INGOT_RT_CPU_AVX512VNNI;
  return features;
}

std::string cpuName() {
  uint32_t words[12];
  for (uint32_t i = 0; i < 3; ++i)
    if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]))
      return "unknown";
  char text[sizeof words + 1] = {};
  memcpy(text, words, sizeof words);
  const char *start = text;
  while (*start == ' ')
    ++start;
  return start;
}

} // namespace ingot::rt
#endif
