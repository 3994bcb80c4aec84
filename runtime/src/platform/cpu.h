// Which of the compiled CPU variants may run here: x86-64's cpuid says what the processor can do and xgetbv what the
// system saves, AArch64's kernel says both in the auxiliary vector.
#ifndef INGOT_RUNTIME_PLATFORM_CPU_H
#define INGOT_RUNTIME_PLATFORM_CPU_H

#include "ingot_rt/abi.h"
#include "support/error.h"

#include <string_view>

namespace ingot::rt {

/// The system that this executable was made for, as ingotc's --target-triple spells it.
extern const char *const targetTriple;

/// enum ingot_rt_cpu_feature bits of this machine.
uint64_t cpuFeatures();

/// The processor's brand string (AArch64: its maker and core), or "unknown".
std::string cpuName();

/// "x86-64-v3 (AVX2, FMA, BMI, F16C)", ... for messages.
std::string featureText(uint64_t features);

/// The last variant of the table whose features are all in `features`, or the one named `forced` (empty: none is),
/// which must be runnable. Errors name what is missing.
Result<const ingot_rt_variant *> chooseVariant(const ingot_rt_model &model, uint64_t features, std::string_view forced);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_PLATFORM_CPU_H
