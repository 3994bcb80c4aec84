// Where a step's time goes: what each op costs, and what its workers wait for each other.
#ifndef INGOT_RUNTIME_CLI_OP_TIMER_H
#define INGOT_RUNTIME_CLI_OP_TIMER_H

#include "cli/bench_report.h"
#include "engine/engine.h"

#include <vector>

namespace ingot::rt {

/// What a step's ops have to work on, read from the arguments of a step that has been run.
struct StepShape {
  double tokens = 0, rows = 0;
  double context = 0; ///< positions attended to, summed over the tokens
  double cached = 0;  ///< positions of the cache that are read, summed over the sequences
  explicit StepShape(const Engine &engine);
};

/// What op `op` costs at least in one call.
Work workOf(const ingot_rt_model &model, const ingot_rt_op &op, const StepShape &step);

/// Listens to the hook of steps, for time or only to count.
class OpTimer {
public:
  OpTimer(Engine &engine, Pool &pool);
  /// Around each step.
  void start();
  void stop();

  const std::vector<uint64_t> &calls() const { return counts; } ///< per op
  /// Ops that were called, with all their calls.
  std::vector<OpFigure> figures() const;

private:
  /// One worker's own, so that nothing is shared while a step runs.
  struct alignas(64) Share {
    double lastTime = 0, lastWait = 0;
    std::vector<double> seconds, waits; ///< per op
  };
  void see(uint32_t worker, uint32_t op);

  Engine &engine;
  Pool &pool;
  std::vector<WaitTime> waited; ///< per worker
  std::vector<Share> shares;    ///< per worker
  std::vector<uint64_t> counts, stepCounts;
  std::vector<Work> works;
  std::vector<double> resultBytes;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CLI_OP_TIMER_H
