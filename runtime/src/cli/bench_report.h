// What `bench` has measured, and how it is told: a table, JSON, a roofline as SVG.
#ifndef INGOT_RUNTIME_CLI_BENCH_REPORT_H
#define INGOT_RUNTIME_CLI_BENCH_REPORT_H

#include "probe/probe.h"
#include "support/error.h"
#include "support/output.h"

#include <string>
#include <vector>

namespace ingot::rt {

/// What an amount of work costs at least: bytes of parameters and of cached keys and values that are read, and
/// floating-point operations (a fused multiply-add counts as two).
struct Work {
  double bytes = 0, flops = 0;
};

/// What this machine can do with a number of workers, or a device. What is not measured is 0: a device's arithmetic.
struct MachineLimits {
  uint32_t workers = 1;
  std::string device; ///< its description; empty: the CPU
  std::vector<ReadFigure> reads;
  double bytesPerSecond = 0; ///< of the fastest way to read
  double flopsPerSecond = 0; ///< f32
  double dotsPerSecond = 0;  ///< int8 operations
  double barrierSeconds = 0;
};

/// One op of the measured steps.
struct OpFigure {
  const char *name, *kind;
  uint64_t calls = 0;        ///< in all
  double seconds = 0;        ///< in all, waiting included
  double barrierSeconds = 0; ///< of those, what a worker waited for the others, on average
  Work work;                 ///< in all
  double resultBytes = 0;    ///< written, in all
};

/// One line of the table: a test at one depth, batch and number of workers.
struct BenchRow {
  const char *test; ///< "prompt" or "decode"
  uint64_t tokens = 0, depth = 0, batch = 1;
  uint32_t workers = 1;
  std::vector<double> seconds; ///< of each repetition, ascending
  uint64_t steps = 0;          ///< of one repetition
  Work work;                   ///< of one repetition
  /// The limits, probed right before and after: the higher of both.
  double bytesPerSecond = 0, flopsPerSecond = 0;
  // With --per-op: what each worker meets and waits in a step without a hook, and the ops.
  double barriersPerStep = 0, barrierShare = 0;
  std::vector<OpFigure> ops;

  double median() const;
  /// Half the range of the repetitions, as a share of the median.
  double spread() const;
  double tokensPerSecond() const { return static_cast<double>(tokens * batch) / median(); }
  /// The time that the limits allow over the time that it took: whichever of memory and arithmetic is nearer.
  double shareOfLimit() const;
};

/// Time of `work` at the limits over `seconds`.
double shareOfLimit(const Work &work, double seconds, double bytesPerSecond, double flopsPerSecond);

struct BenchReport {
  std::string model, variant;
  std::vector<MachineLimits> machines; ///< one for each number of workers
  std::vector<BenchRow> rows;
};

void printMachine(Output &out, const MachineLimits &machine);
void printHeading(Output &out);
void printRow(Output &out, const BenchRow &row);
void printOps(Output &out, const BenchRow &row);
void writeJson(Output &out, const BenchReport &report);
/// The roofline: operations per second over operations per byte, both logarithmic, the limits of every number of
/// workers as roofs and each op (of rows without ops: the whole row) as a point.
std::string drawRoofline(const BenchReport &report);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CLI_BENCH_REPORT_H
