// Workers and barriers: everyone takes part in each run, and what was written before a barrier is seen after it.
#include "pool/pool.h"

#include "ingot_rt/abi.h"

#include <gtest/gtest.h>
#include <numeric>

using namespace ingot::rt;

namespace {

/// Rounds in which each worker writes its slot, meets the others, and checks everybody's.
void meetOften(uint32_t workers, uint32_t cores, int rounds) {
  Pool pool(workers, cores);
  EXPECT_EQ(pool.workers(), workers);
  std::vector<uint64_t> slots(workers * 16), wrong(workers * 16); // plain memory: a data race if the barrier leaks
  auto work = [&](uint32_t worker) {
    for (int round = 1; round <= rounds; ++round) {
      slots[worker * 16] = static_cast<uint64_t>(round);
      ingot_rt_barrier(&pool.barrier(), worker);
      for (uint32_t other = 0; other < workers; ++other)
        wrong[worker * 16] += slots[other * 16] != static_cast<uint64_t>(round);
      ingot_rt_barrier(&pool.barrier(), worker);
    }
  };
  pool.run(work);
  EXPECT_EQ(std::accumulate(wrong.begin(), wrong.end(), uint64_t(0)), 0u);
}

TEST(Pool, OneWorker) { meetOften(1, 1, 100); }
TEST(Pool, TwoWorkersThatSpin) { meetOften(2, 2, 2000); }
TEST(Pool, MoreWorkersThanCoresSleep) { meetOften(9, 2, 300); }

TEST(Pool, OneGroupOfTheTree) { meetOften(8, 2, 200); }
TEST(Pool, SixtyFourWorkers) { meetOften(64, 64, 20); }
TEST(Pool, SixtyFourWorkersOnTwoCores) { meetOften(64, 2, 20); }
TEST(Pool, GroupsOfUnequalSize) { meetOften(19, 2, 50); }

TEST(Pool, WaitingIsMeasuredWorkerByWorker) {
  Pool pool(3, 1);
  std::vector<WaitTime> times(3);
  pool.barrier().measure(times.data());
  auto work = [&](uint32_t worker) {
    for (uint32_t i = 0; i < 5; ++i)
      ingot_rt_barrier(&pool.barrier(), worker);
  };
  pool.run(work);
  pool.barrier().measure(nullptr);
  pool.run(work); // not counted
  for (const WaitTime &time : times) {
    EXPECT_EQ(time.barriers, 5u);
    EXPECT_GT(time.seconds, 0);
  }
}

TEST(Pool, EveryRunReachesEveryWorkerOnce) {
  Pool pool(5, 2);
  std::vector<int> calls(5);
  auto work = [&](uint32_t worker) { ++calls[worker]; };
  for (int i = 0; i < 500; ++i)
    pool.run(work);
  EXPECT_EQ(calls, std::vector<int>(5, 500));
}

TEST(Pool, StartsAndStopsIdle) {
  for (int i = 0; i < 50; ++i)
    Pool pool(4, 2);
}

} // namespace
