// What this machine can do at most, measured with the same workers as a step: the roofline that `bench` compares with.
#ifndef INGOT_RUNTIME_PROBE_PROBE_H
#define INGOT_RUNTIME_PROBE_PROBE_H

#include "platform/mapping.h"
#include "pool/pool.h"
#include "support/error.h"

#include <cstdint>
#include <vector>

namespace ingot::rt {

/// How memory was read, and bytes per second.
struct ReadFigure {
  enum Pages { Small, Huge, Weights };
  Pages pages;      ///< anonymous memory of 4 KiB or huge pages, or the model's weights as they are mapped
  uint32_t streams; ///< that each worker reads side by side
  double bytesPerSecond = 0;
};
const char *pagesName(ReadFigure::Pages pages);

/// Reads memory that is much larger than the caches. Each worker has its own contiguous part, and reads it as a number
/// of forward streams, 256 bytes of each in turn: one stream is a product that walks its weights one panel after the
/// other, several are a product that works on as many panels at once, which keeps more cache misses in flight.
class ReadProbe {
public:
  /// Takes and touches 2 * `bytes` of anonymous memory. `weights` are read too where there are at least `bytes` / 4.
  static Result<ReadProbe> create(Pool &pool, uint64_t bytes, const uint8_t *weights, uint64_t weightBytes);

  /// Every kind of memory with 1, 4, 8 and 16 streams, the best of `repetitions` of each.
  std::vector<ReadFigure> measureAll(Pool &pool, int repetitions) const;
  /// The best of `repetitions`, in bytes per second.
  double measure(Pool &pool, ReadFigure::Pages pages, uint32_t streams, int repetitions) const;

private:
  Mapping small, huge;
  uint64_t bytes = 0, weightBytes = 0;
  const uint8_t *weights = nullptr;
};

/// Float32 operations per second of fused multiply-adds on registers, the best of `repetitions`. `features` are bits of
/// ingot_rt_cpu_feature: AVX-512 is used where the chosen variant uses it, else AVX2; on AArch64 Advanced SIMD.
double measurePeakFlops(Pool &pool, uint64_t features, int repetitions);

/// Operations (a multiplication or an addition each) per second of the 8-bit dot products that sum exactly in 32 bits:
/// vpdpbusd with VNNI, else vpmaddubsw, vpmaddwd and vpaddd; smmla, sdot, else smull and sadalp. The best of
/// `repetitions`.
double measurePeakDots(Pool &pool, uint64_t features, int repetitions);

/// Seconds for all workers to pass one barrier that all of them reach at once; 0 for one worker.
double measureBarrier(Pool &pool, int repetitions);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_PROBE_PROBE_H
