// cpuid and xgetbv (Intel SDM volume 2, AMD APM volume 3).
#include "platform/cpu.h"

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

constexpr struct {
  uint64_t bit;
  const char *name;
} featureNames[] = {
    {INGOT_RT_CPU_V3, "x86-64-v3 (AVX2, FMA, BMI, F16C)"},
    {INGOT_RT_CPU_AVX512, "x86-64-v4 (AVX-512 F, BW, CD, DQ, VL)"},
    {INGOT_RT_CPU_AVX512BF16, "AVX512_BF16"},
    {INGOT_RT_CPU_AVX512VNNI, "AVX512_VNNI"},
};
} // namespace

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

std::string featureText(uint64_t features) {
  std::string text;
  for (const auto &feature : featureNames)
    if (features & feature.bit) {
      text += text.empty() ? "" : ", ";
      text += feature.name;
    }
  return text.empty() ? "none beyond baseline x86-64" : text;
}

Result<const ingot_rt_variant *> chooseVariant(const ingot_rt_model &model, uint64_t features,
                                               std::string_view forced) {
  const ingot_rt_variant *chosen = nullptr;
  std::string names;
  for (uint32_t i = 0; i < model.variant_count; ++i) {
    const ingot_rt_variant &variant = model.variants[i];
    names += (i ? ", " : "") + std::string(variant.name);
    bool runs = (variant.features & ~features) == 0;
    if (!forced.empty() && forced == variant.name) {
      if (!runs)
        return makeError("CPU variant %s needs %s, which this CPU (%s) does not have", variant.name,
                         featureText(variant.features & ~features).c_str(), cpuName().c_str());
      return &variant;
    }
    if (runs)
      chosen = &variant;
  }
  if (!forced.empty())
    return makeUsageError("CPU variant '%.*s' is not in this executable; it has %s", static_cast<int>(forced.size()),
                          forced.data(), names.c_str());
  if (!chosen && model.variant_count != 0)
    return makeError("this CPU (%s) is below the minimum of this executable: it needs %s; compile with another "
                     "--target-cpu",
                     cpuName().c_str(), featureText(model.variants[0].features & ~features).c_str());
  if (!chosen)
    return makeError("this executable holds no code for any CPU");
  return chosen;
}

} // namespace ingot::rt
