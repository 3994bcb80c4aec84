// Signals on futexes, barriers and the pool's threads; also the barrier that compiled code calls.
#include "pool/pool.h"

#include "ingot_rt/abi.h"

#include <algorithm>
#include <climits>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace ingot::rt {

namespace {
/// Spins of about 30 to 60 microseconds: longer than the gap between two barriers of a small model's layer.
constexpr Patience alone = {1000, 0};
/// With more workers than cores the others can only arrive if they get this core. Giving it away costs less than to
/// sleep and be woken.
constexpr Patience crowded = {0, 50};

/// Tells the processor that this is a loop that waits: tens of cycles. AArch64's `yield` does nothing on most cores.
void relax() {
#ifdef __aarch64__
  asm volatile("isb" ::: "memory");
#else
  __builtin_ia32_pause();
#endif
}

void futex(std::atomic<uint32_t> &word, int operation, uint32_t value) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}
} // namespace

void Signal::waitWhile(uint32_t old, Patience patience) {
  for (uint32_t i = 0; i < patience.spins; ++i) {
    if (current.load(std::memory_order_acquire) != old)
      return;
    relax();
  }
  for (uint32_t i = 0; i < patience.yields; ++i) {
    if (current.load(std::memory_order_acquire) != old)
      return;
    sched_yield();
  }
  // A sleeper is counted before it looks at the value a last time, `advance` changes the value before it looks at the
  // count: in one total order (seq_cst), one of them sees the other. The kernel compares the value once more.
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (current.load(std::memory_order_seq_cst) == old)
    futex(current, FUTEX_WAIT, old);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void Signal::advance() {
  current.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0)
    futex(current, FUTEX_WAKE, INT_MAX);
}

Barrier::Barrier(uint32_t workers, Patience patience)
    : workers(workers), patience(patience), groups((workers + groupWorkers - 1) / groupWorkers) {}

void Barrier::meet(uint32_t worker) {
  uint32_t round = phase.value(), group = worker / groupWorkers;
  uint32_t size = std::min(groupWorkers, workers - group * groupWorkers);
  // The last of a group arrives for it, the last group for all. Counts are cleared before they can be used again: that
  // is published by advance.
  if (groups[group].arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
    groups[group].arrived.store(0, std::memory_order_relaxed);
    if (groups.size() == 1 || root.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == groups.size()) {
      root.arrived.store(0, std::memory_order_relaxed);
      phase.advance();
      return;
    }
  }
  phase.waitWhile(round, patience);
}

void Barrier::waitTimed(uint32_t worker) {
  auto seconds = [] {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  double start = seconds();
  meet(worker);
  times[worker].seconds += seconds() - start;
  ++times[worker].barriers;
}

Pool::Pool(uint32_t workers, uint32_t cores)
    : patience(workers <= cores ? alone : crowded), meeting(workers, patience), finish(workers, patience) {
  threads.reserve(workers - 1);
  for (uint32_t worker = 1; worker < workers; ++worker)
    threads.emplace_back([this, worker] { work(worker); });
}

Pool::~Pool() {
  stopping = true;
  start.advance();
  for (std::thread &thread : threads)
    thread.join();
}

void Pool::run(void (*newFunction)(void *, uint32_t), void *newContext) {
  function = newFunction;
  context = newContext;
  start.advance();
  function(context, 0);
  finish.wait(0);
}

void Pool::work(uint32_t worker) {
  // Runs are counted from 0, whenever this thread comes to life; it takes part in each.
  for (uint32_t seen = 0;; ++seen) {
    start.waitWhile(seen, patience);
    if (stopping)
      return;
    function(context, worker);
    finish.wait(worker);
  }
}

} // namespace ingot::rt

extern "C" void ingot_rt_barrier(void *barrier, uint32_t worker) {
  static_cast<ingot::rt::Barrier *>(barrier)->wait(worker);
}
