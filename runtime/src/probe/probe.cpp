// Bandwidth and FMA probes.
#include "probe/probe.h"

#include "platform/machine.h"
#include "platform/mapping.h"
#include "probe/loops.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace ingot::rt {

namespace {

/// Keeps results alive.
volatile uint64_t sink;

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

/// Operations per second of `iterations` of a loop on all workers.
static double measureLoop(Pool &pool, RegisterLoop loop, uint64_t iterations, int repetitions) {
  double seconds = leastSeconds(pool, repetitions, [&](uint32_t) { sink = loop.run(iterations); });
  return loop.operations * static_cast<double>(iterations) * pool.workers() / seconds;
}

double measurePeakFlops(Pool &pool, uint64_t features, int repetitions) {
  return measureLoop(pool, multiplyAddLoop(features), 2000000, repetitions);
}

double measurePeakDots(Pool &pool, uint64_t features, int repetitions) {
  return measureLoop(pool, dotLoop(features), 1000000, repetitions);
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
