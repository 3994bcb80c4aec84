// What the probes run, for the architecture at hand: a reader of memory, and loops on registers.
#ifndef INGOT_RUNTIME_PROBE_LOOPS_H
#define INGOT_RUNTIME_PROBE_LOOPS_H

#include <cstdint>

namespace ingot::rt {

/// Sums `bytes` (a multiple of `streams` * 256) in forward streams, 256 bytes of each in turn.
uint64_t sumBytes(const uint8_t *data, uint64_t bytes, uint64_t streams);

/// A loop of independent instructions on registers. It returns what keeps it from being removed.
struct RegisterLoop {
  uint64_t (*run)(uint64_t iterations);
  double operations; ///< of one iteration: multiplications and additions
};

/// Fused multiply-adds of float32, and 8-bit dot products that sum exactly in 32 bits, with the widest instructions
/// that `features`, bits of ingot_rt_cpu_feature, allow.
RegisterLoop multiplyAddLoop(uint64_t features);
RegisterLoop dotLoop(uint64_t features);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_PROBE_LOOPS_H
