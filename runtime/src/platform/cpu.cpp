// Which of the compiled CPU variants may run here; what the CPU can do is in the file of its architecture.
#include "platform/cpu.h"

#include "ingot_rt/cpu_feature.h"

namespace ingot::rt {

namespace {
constexpr struct {
  uint64_t bit;
  const char *name;
} featureNames[] = {
    {INGOT_RT_CPU_V3, "x86-64-v3 (AVX2, FMA, BMI, F16C)"},
    {INGOT_RT_CPU_AVX512, "x86-64-v4 (AVX-512 F, BW, CD, DQ, VL)"},
    {INGOT_RT_CPU_AVX512BF16, "AVX512_BF16"},
    {INGOT_RT_CPU_AVX512VNNI, "AVX512_VNNI"},
    {INGOT_RT_CPU_NEON, "armv8-a (Advanced SIMD)"},
    {INGOT_RT_CPU_NEON_FP16, "half-precision arithmetic"},
    {INGOT_RT_CPU_DOTPROD, "dotprod"},
    {INGOT_RT_CPU_I8MM, "i8mm"},
    {INGOT_RT_CPU_BF16, "bf16"},
    {INGOT_RT_CPU_SVE, "SVE"},
    {INGOT_RT_CPU_SVE2, "SVE2"},
};
} // namespace

std::string featureText(uint64_t features) {
  std::string text;
  for (const auto &feature : featureNames)
    if (features & feature.bit) {
      text += text.empty() ? "" : ", ";
      text += feature.name;
    }
  return text.empty() ? "none beyond the baseline" : text;
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
