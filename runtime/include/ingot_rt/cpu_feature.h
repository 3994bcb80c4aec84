// The bits of ingot_rt_variant.features, which are an architecture's own: abi.h has those of x86-64, this header
// AArch64's. Little-endian machines only: ingotc fills an executable's tables and weights as its own processor stores
// them.
#ifndef INGOT_RT_CPU_FEATURE_H
#define INGOT_RT_CPU_FEATURE_H

#include "ingot_rt/abi.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "an executable's tables and weights are little-endian; expected a little-endian machine"
#endif

/// Features of AArch64 that a variant needs, checked by the runtime against the auxiliary vector before it is chosen.
/// No bit is one of enum ingot_rt_cpu_feature.
enum ingot_rt_cpu_feature_aarch64 {
  INGOT_RT_CPU_NEON = 1u << 8,      ///< Advanced SIMD, which armv8-a has
  INGOT_RT_CPU_NEON_FP16 = 1u << 9, ///< arithmetic on half precision
  INGOT_RT_CPU_DOTPROD = 1u << 10,  ///< sdot, udot
  INGOT_RT_CPU_I8MM = 1u << 11,     ///< smmla, usdot
  INGOT_RT_CPU_BF16 = 1u << 12,     ///< bfdot, bfmmla
  INGOT_RT_CPU_SVE = 1u << 13,      ///< where LLVM uses it for a CPU that has it
  INGOT_RT_CPU_SVE2 = 1u << 14,
};

#endif // INGOT_RT_CPU_FEATURE_H
