// The kernel's capability bits (Linux, Documentation/arch/arm64/elf_hwcaps.rst) and the main ID register.
#include "platform/cpu.h"

#ifdef __aarch64__
#include "ingot_rt/cpu_feature.h"

#include <sys/auxv.h>

namespace ingot::rt {

namespace {
/// Bits of AT_HWCAP and AT_HWCAP2 by the kernel's numbers: the C library's headers may be older than the processor.
constexpr uint64_t hwcapAsimd = 1u << 1, hwcapAsimdHalf = 1u << 10, hwcapCpuId = 1u << 11, hwcapDotProduct = 1u << 20,
                   hwcapSve = 1u << 22;
constexpr uint64_t hwcap2Sve2 = 1u << 1, hwcap2I8mm = 1u << 13, hwcap2Bf16 = 1u << 14;

/// Implementers and cores by the numbers in MIDR_EL1 (Arm ARM, D19.2.96, and the makers' manuals).
constexpr struct {
  uint32_t implementer;
  const char *name;
} makers[] = {{0x41, "Arm"},       {0x42, "Broadcom"},  {0x43, "Cavium"}, {0x46, "Fujitsu"},
              {0x48, "HiSilicon"}, {0x4e, "NVIDIA"},    {0x50, "APM"},    {0x51, "Qualcomm"},
              {0x61, "Apple"},     {0x6d, "Microsoft"}, {0xc0, "Ampere"}};
constexpr struct {
  uint32_t part;
  const char *name;
} armCores[] = {{0xd03, "Cortex-A53"},  {0xd05, "Cortex-A55"},  {0xd07, "Cortex-A57"},  {0xd08, "Cortex-A72"},
                {0xd0b, "Cortex-A76"},  {0xd0c, "Neoverse N1"}, {0xd40, "Neoverse V1"}, {0xd49, "Neoverse N2"},
                {0xd4f, "Neoverse V2"}, {0xd83, "Neoverse V3"}, {0xd8e, "Neoverse N3"}};
} // namespace

const char *const targetTriple = "aarch64-linux-gnu";

uint64_t cpuFeatures() {
  uint64_t first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2), features = 0;
  if (!(first & hwcapAsimd))
    return 0;
  features |= INGOT_RT_CPU_NEON;
  features |= first & hwcapAsimdHalf ? INGOT_RT_CPU_NEON_FP16 : 0;
  features |= first & hwcapDotProduct ? INGOT_RT_CPU_DOTPROD : 0;
  features |= second & hwcap2I8mm ? INGOT_RT_CPU_I8MM : 0;
  features |= second & hwcap2Bf16 ? INGOT_RT_CPU_BF16 : 0;
  features |= first & hwcapSve ? INGOT_RT_CPU_SVE : 0;
  features |= second & hwcap2Sve2 ? INGOT_RT_CPU_SVE2 : 0;
  return features;
}

std::string cpuName() {
  // The kernel lets programs read the register where it says so; no file is needed.
  if (!(getauxval(AT_HWCAP) & hwcapCpuId))
    return "unknown";
  uint64_t midr;
  asm("mrs %0, midr_el1" : "=r"(midr));
  uint32_t implementer = (midr >> 24) & 0xff, part = (midr >> 4) & 0xfff;
  std::string name = formatText("implementer 0x%02x", implementer);
  for (const auto &maker : makers)
    if (maker.implementer == implementer)
      name = maker.name;
  for (const auto &core : armCores)
    if (implementer == 0x41 && core.part == part)
      return name + " " + core.name;
  return name + formatText(" part 0x%03x", part);
}

} // namespace ingot::rt
#endif
