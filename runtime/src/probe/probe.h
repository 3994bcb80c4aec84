// What this machine can do at most, measured with the same workers as a step: the roofline that `bench` compares with.
#ifndef INGOT_RUNTIME_PROBE_PROBE_H
#define INGOT_RUNTIME_PROBE_PROBE_H

#include "pool/pool.h"
#include "support/error.h"

#include <cstdint>

namespace ingot::rt {

/// Bytes per second of reading `bytes` of memory (much more than the caches) that was written before, the best of
/// `repetitions`, in eight forward streams per worker. Takes `bytes` of anonymous memory meanwhile.
Result<double> measureReadBandwidth(Pool &pool, uint64_t bytes, int repetitions);

/// Float32 operations per second of fused multiply-adds on registers, the best of `repetitions`. `features` are bits of
/// ingot_rt_cpu_feature: AVX-512 is used where the chosen variant uses it, AVX2 otherwise.
double measurePeakFlops(Pool &pool, uint64_t features, int repetitions);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_PROBE_PROBE_H
