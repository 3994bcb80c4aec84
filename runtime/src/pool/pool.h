// The workers of a step: threads that run one function together (SPMD) and meet at barriers.
//
// Barriers are passed five times a layer, so waiting starts with a short spin; a worker that waits longer sleeps in the
// kernel, so that more workers than cores, or a busy machine, cost latency and not a collapse. With more workers than
// cores nobody spins: who waits gives its core to the next.
#ifndef INGOT_RUNTIME_POOL_POOL_H
#define INGOT_RUNTIME_POOL_POOL_H

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace ingot::rt {

/// How a worker waits: it spins, then gives its core to whoever is ready, then sleeps.
struct Patience {
  uint32_t spins, yields;
};

/// A value that threads wait on to change: spin for a while, then sleep (futex).
class alignas(64) Signal {
public:
  uint32_t value() const { return current.load(std::memory_order_acquire); }
  /// Returns when the value is no longer `old`. What happened before the change is visible afterwards.
  void waitWhile(uint32_t old, Patience patience);
  /// Changes the value and wakes all who wait. Only one thread may do this at a time.
  void advance();

private:
  std::atomic<uint32_t> current{0};
  std::atomic<uint32_t> sleepers{0};
};

/// What a worker has waited for others at a barrier, while that is being measured.
struct alignas(64) WaitTime {
  double seconds = 0;
  uint64_t barriers = 0; ///< passed
};

/// A barrier for a fixed number of workers. The last to arrive turns the phase; the phase's number tells one round from
/// the next (the generalization of a reversing sense), so that the barrier can be entered again at once.
///
/// Arrivals are counted in a tree of two levels, groups of eight workers and then the groups, so that no cache line
/// passes through more than eight workers' hands in a row (or an eighth of them all): 64 workers are 16 transfers one
/// after the other instead of 64. The phase is one line that all read.
class Barrier {
public:
  static constexpr uint32_t groupWorkers = 8;

  Barrier(uint32_t workers, Patience patience);
  /// Each of the workers calls it with its own number.
  void wait(uint32_t worker) {
    if (times) [[unlikely]]
      waitTimed(worker);
    else
      meet(worker);
  }
  /// Adds what worker w waits to times[w] ([workers]) from now on; null: no more. Nobody may be at the barrier.
  void measure(WaitTime *newTimes) { times = newTimes; }

private:
  struct alignas(64) Count {
    std::atomic<uint32_t> arrived{0};
  };
  void meet(uint32_t worker);
  void waitTimed(uint32_t worker);

  const uint32_t workers;
  const Patience patience;
  WaitTime *times = nullptr;
  std::vector<Count> groups; ///< [ceil(workers / groupWorkers)]
  Count root;                ///< groups that are complete
  Signal phase;
};

/// The caller of `run` is worker 0; the others are threads that sleep between runs.
class Pool {
public:
  /// `workers` at least 1; `cores` is how many the process may use.
  Pool(uint32_t workers, uint32_t cores);
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  /// Calls function(context, worker) on every worker and returns when all have returned.
  void run(void (*function)(void *context, uint32_t worker), void *context);

  /// The same for any callable.
  template <typename Callable>
  void run(Callable &callable) {
    run([](void *context, uint32_t worker) { (*static_cast<Callable *>(context))(worker); }, &callable);
  }

  uint32_t workers() const { return static_cast<uint32_t>(threads.size()) + 1; }
  /// The barrier that ingot_rt_barrier gets while a run is going on.
  Barrier &barrier() { return meeting; }

private:
  void work(uint32_t worker);

  const Patience patience;
  Barrier meeting; ///< inside a run
  Barrier finish;  ///< at the end of a run
  Signal start;
  bool stopping = false;
  void (*function)(void *, uint32_t) = nullptr;
  void *context = nullptr;
  std::vector<std::thread> threads;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_POOL_POOL_H
