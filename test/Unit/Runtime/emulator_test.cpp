// The emulator: every operation against a plain reading of its definition, and every fault that it must report. Kernels
// are functions of this file, calling what compiled kernels call.
#include "emulator/emulator.h"

#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <set>
#include <vector>

using namespace ingot::rt;

namespace {

const char *const argumentNames[] = {"first", "second", "third", "fourth"};

uint32_t tid() { return ingot_rt_emulate_special(INGOT_RT_TID); }
uint32_t ctaid() { return ingot_rt_emulate_special(INGOT_RT_CTAID); }

template <typename T>
void put(uint64_t memory, uint64_t at, T value) {
  T *address = reinterpret_cast<T *>(memory) + at;
  ingot_rt_emulate_access(address, sizeof(T), 1, "output");
  *address = value;
}

template <typename T>
void putShared(uint32_t at, T value) {
  T *address = static_cast<T *>(ingot_rt_emulate_shared(at * sizeof(T)));
  ingot_rt_emulate_access(address, sizeof(T), 1, "scratch");
  *address = value;
}

template <typename T>
T getShared(uint32_t at) {
  T *address = static_cast<T *>(ingot_rt_emulate_shared(at * sizeof(T)));
  ingot_rt_emulate_access(address, sizeof(T), 0, "scratch");
  return *address;
}

/// One launch of `body`.
struct Launch {
  uint32_t threads = 32, sharedBytes = 0, grid[3] = {1, 1, 1};
  Emulator::Options options = {};
  std::vector<uint64_t> arguments = {}, extents = {};
  std::vector<ingot_rt_constant> constants = {};

  template <typename T>
  Launch &memory(std::vector<T> &values) {
    arguments.push_back(reinterpret_cast<uint64_t>(values.data()));
    extents.push_back(values.size() * sizeof(T));
    return *this;
  }
  Launch &value(uint64_t word) {
    arguments.push_back(word);
    extents.push_back(0);
    return *this;
  }

  /// The fault, or an empty text.
  std::string operator()(void (*body)(const uint64_t *)) {
    ingot_rt_kernel kernel = {"test",
                              body,
                              threads,
                              sharedBytes,
                              static_cast<uint32_t>(arguments.size()),
                              static_cast<uint32_t>(constants.size()),
                              argumentNames,
                              constants.data()};
    ingot_rt_launch launch = {&kernel, arguments.data(), extents.data(), {grid[0], grid[1], grid[2]}, 0, 2};
    Emulator emulator(nullptr, options);
    emulator.launch(launch);
    return emulator.fault() ? emulator.fault() : "";
  }
};

void expectFault(const std::string &fault, const std::vector<std::string> &parts) {
  for (const std::string &part : parts)
    EXPECT_NE(fault.find(part), std::string::npos) << "expected '" << part << "' in: " << fault;
}

} // namespace

//----------------------------------------------------------------------------------------------------------------------
// What works
//----------------------------------------------------------------------------------------------------------------------

TEST(Emulator, SpecialRegisters) {
  std::vector<uint32_t> out(2 * 3 * 2 * 64 * 8);
  Launch run;
  run.threads = 64;
  run.grid[0] = 2;
  run.grid[1] = 3;
  run.grid[2] = 2;
  EXPECT_EQ(run.memory(out)([](const uint64_t *a) {
    uint32_t x = ctaid(), y = ingot_rt_emulate_special(INGOT_RT_CTAID + 1),
             z = ingot_rt_emulate_special(INGOT_RT_CTAID + 2);
    uint32_t at = (((z * 3 + y) * 2 + x) * 64 + tid()) * 8;
    const uint32_t which[] = {INGOT_RT_TID,        INGOT_RT_NTID,       INGOT_RT_CTAID,  INGOT_RT_CTAID + 1,
                              INGOT_RT_NCTAID + 1, INGOT_RT_NCTAID + 2, INGOT_RT_LANEID, INGOT_RT_WARPID};
    for (uint32_t i = 0; i < 8; ++i)
      put(a[0], at + i, ingot_rt_emulate_special(which[i]));
  }),
            "");
  for (uint32_t block = 0; block < 12; ++block)
    for (uint32_t t = 0; t < 64; ++t) {
      const uint32_t expected[] = {t, 64, block % 2, block / 2 % 3, 3, 2, t % 32, t / 32};
      EXPECT_EQ(memcmp(&out[(block * 64 + t) * 8], expected, sizeof expected), 0) << block << " " << t;
    }
}

TEST(Emulator, BlocksInAnyOrder) {
  std::vector<std::vector<uint32_t>> orders;
  for (Emulator::Options options : {Emulator::Options{Emulator::Order::Forward, 0},
                                    {Emulator::Order::Reverse, 0},
                                    {Emulator::Order::Shuffled, 1},
                                    {Emulator::Order::Shuffled, 2}}) {
    static std::vector<uint32_t> seen;
    seen.clear();
    Launch run;
    run.threads = 1;
    run.grid[0] = 10;
    run.options = options;
    EXPECT_EQ(run([](const uint64_t *) { seen.push_back(ctaid()); }), "");
    EXPECT_EQ(std::set<uint32_t>(seen.begin(), seen.end()).size(), 10u);
    orders.push_back(seen);
  }
  EXPECT_EQ(orders[0].front(), 0u);
  EXPECT_EQ(orders[1].front(), 9u);
  EXPECT_NE(orders[2], orders[3]);
}

TEST(Emulator, BarrierMakesStoresVisible) {
  std::vector<uint32_t> out(128);
  Launch run;
  run.threads = 128;
  run.sharedBytes = 512;
  EXPECT_EQ(run.memory(out)([](const uint64_t *a) {
    for (uint32_t round = 0; round < 3; ++round) {
      putShared(tid(), 1000 * round + tid());
      ingot_rt_emulate_barrier(0, "stored");
      put(a[0], tid(), getShared<uint32_t>(127 - tid()));
      ingot_rt_emulate_barrier(0, "read");
    }
  }),
            "");
  for (uint32_t t = 0; t < 128; ++t)
    EXPECT_EQ(out[t], 2000 + 127 - t);
}

/// The definition in words of the CUDA guide: a warp is cut into segments of `width` lanes; up and down read the lane
/// that many places before or after within the segment, xor the one whose number differs in the bits of b, idx the one
/// with that number in the segment; who would read outside reads itself.
TEST(Emulator, ShufflesBySegments) {
  for (uint32_t width : {1u, 2u, 4u, 8u, 16u, 32u})
    for (uint32_t kind : {INGOT_RT_SHUFFLE_BFLY, INGOT_RT_SHUFFLE_UP, INGOT_RT_SHUFFLE_DOWN, INGOT_RT_SHUFFLE_IDX})
      for (uint32_t b = 0; b < 32; ++b) {
        std::vector<uint32_t> value(64), inside(64);
        uint32_t c = (32 - width) << 8 | (kind == INGOT_RT_SHUFFLE_UP ? 0 : 31);
        Launch run;
        run.threads = 64;
        EXPECT_EQ(run.memory(value).memory(inside).value(kind).value(b | uint64_t(c) << 32)([](const uint64_t *a) {
          uint64_t both = ingot_rt_emulate_shuffle(static_cast<uint32_t>(a[2]), ~0u, 100 + tid(),
                                                   static_cast<uint32_t>(a[3]), static_cast<uint32_t>(a[3] >> 32), "s");
          put(a[0], tid(), static_cast<uint32_t>(both));
          put(a[1], tid(), static_cast<uint32_t>(both >> 32));
        }),
                  "");
        for (int t = 0; t < 64; ++t) {
          int w = static_cast<int>(width), offset = static_cast<int>(b), segment = t / w * w, source = t;
          bool in = true;
          if (kind == INGOT_RT_SHUFFLE_BFLY)
            source = (t & ~31) | ((t & 31) ^ offset), in = source < segment + w;
          else if (kind == INGOT_RT_SHUFFLE_UP)
            source = t - offset, in = source >= segment;
          else if (kind == INGOT_RT_SHUFFLE_DOWN)
            source = t + offset, in = source < segment + w;
          else
            source = segment + offset % w;
          // PTX: below the segment counts as inside for xor, whose clamp is an upper bound.
          EXPECT_EQ(inside[t], in) << width << " " << kind << " " << b << " " << t;
          EXPECT_EQ(value[t], 100u + static_cast<uint32_t>(in ? source : t))
              << width << " " << kind << " " << b << " " << t;
        }
      }
}

TEST(Emulator, ShufflesOfPartsOfAWarp) {
  // Two halves of a warp in different instructions, with masks of their own.
  std::vector<uint32_t> out(32);
  Launch run;
  EXPECT_EQ(run.memory(out)([](const uint64_t *a) {
    uint32_t value = 0;
    if (tid() < 16)
      value = static_cast<uint32_t>(ingot_rt_emulate_shuffle(INGOT_RT_SHUFFLE_BFLY, 0xffff, tid(), 1, 31, "low"));
    else
      value = static_cast<uint32_t>(ingot_rt_emulate_shuffle(INGOT_RT_SHUFFLE_IDX, 0xffff0000u, tid(), 20, 31, "high"));
    put(a[0], tid(), value);
  }),
            "");
  for (uint32_t t = 0; t < 32; ++t)
    EXPECT_EQ(out[t], t < 16 ? (t ^ 1) : 20u);
}

TEST(Emulator, Votes) {
  for (uint32_t predicates : {0u, 1u, 0x80000000u, 0xffffffffu, 0x0f0f0f0fu}) {
    std::vector<uint32_t> out(4 * 32);
    Launch run;
    EXPECT_EQ(run.memory(out).value(predicates)([](const uint64_t *a) {
      for (uint32_t kind : {INGOT_RT_VOTE_ANY, INGOT_RT_VOTE_ALL, INGOT_RT_VOTE_BALLOT, INGOT_RT_VOTE_UNI})
        put(a[0], 32 * kind + tid(), ingot_rt_emulate_vote(kind, ~0u, static_cast<uint32_t>(a[1]) >> tid() & 1, "v"));
    }),
              "");
    for (uint32_t t = 0; t < 32; ++t) {
      EXPECT_EQ(out[32 * INGOT_RT_VOTE_ANY + t], predicates != 0);
      EXPECT_EQ(out[32 * INGOT_RT_VOTE_ALL + t], predicates == 0xffffffffu);
      EXPECT_EQ(out[32 * INGOT_RT_VOTE_UNI + t], predicates == 0 || predicates == 0xffffffffu);
      EXPECT_EQ(out[32 * INGOT_RT_VOTE_BALLOT + t], predicates);
    }
  }
}

TEST(Emulator, ConstantsMayBeRead) {
  static const uint32_t table[] = {3, 5, 7};
  std::vector<uint32_t> out(1);
  Launch run;
  run.threads = 1;
  run.constants = {{table, sizeof table}};
  EXPECT_EQ(run.memory(out)([](const uint64_t *a) {
    ingot_rt_emulate_access(table + 2, 4, 0, "table");
    put(a[0], 0, table[2]);
  }),
            "");
  EXPECT_EQ(out[0], 7u);
  expectFault(run([](const uint64_t *) { ingot_rt_emulate_access(table, 4, 1, "table"); }),
              {"store of table", "constant"});
  expectFault(run([](const uint64_t *) { ingot_rt_emulate_access(table + 3, 4, 0, "table"); }), {"load of table"});
}

//----------------------------------------------------------------------------------------------------------------------
// Faults
//----------------------------------------------------------------------------------------------------------------------

TEST(EmulatorFaults, BeyondAnArgument) {
  std::vector<uint32_t> out(31);
  Launch run;
  run.grid[0] = 2;
  std::string fault = run.memory(out)([](const uint64_t *a) { put(a[0], tid(), 1u); });
  expectFault(fault, {"kernel test", "block (0, 0, 0)", "thread 31", "layer 2", "store of output",
                      "bytes 124 to 127 of first, which has 124"});
}

TEST(EmulatorFaults, BeforeAnArgumentAndAcrossItsEnd) {
  std::vector<uint8_t> out(24);
  Launch run;
  run.threads = 1;
  expectFault(run.memory(out)(
                  [](const uint64_t *a) { ingot_rt_emulate_access(reinterpret_cast<void *>(a[0] - 8), 8, 0, "x"); }),
              {"load of x"});
  expectFault(run([](const uint64_t *a) { ingot_rt_emulate_access(reinterpret_cast<void *>(a[0] + 16), 16, 0, "x"); }),
              {"load of x", "bytes 16 to 31 of first, which has 24"});
}

TEST(EmulatorFaults, NothingRunsAfterAFault) {
  static int calls;
  calls = 0;
  Launch run;
  run.threads = 1;
  ingot_rt_kernel kernel = {"bad",
                            [](const uint64_t *) {
                              ++calls;
                              ingot_rt_emulate_access(nullptr, 4, 0, "nothing");
                              ++calls;
                            },
                            1,
                            0,
                            0,
                            0,
                            argumentNames,
                            nullptr};
  ingot_rt_launch launch = {&kernel, nullptr, nullptr, {3, 1, 1}, 0, -1};
  Emulator emulator(nullptr, {});
  emulator.launch(launch);
  ASSERT_NE(emulator.fault(), nullptr);
  std::string first = emulator.fault();
  emulator.launch(launch);
  EXPECT_EQ(first, emulator.fault());
  EXPECT_EQ(calls, 1);
}

TEST(EmulatorFaults, Misaligned) {
  std::vector<uint64_t> out(4);
  Launch run;
  run.threads = 1;
  expectFault(run.memory(out)(
                  [](const uint64_t *a) { ingot_rt_emulate_access(reinterpret_cast<void *>(a[0] + 4), 8, 0, "x"); }),
              {"not a multiple of 8"});
}

TEST(EmulatorFaults, BeyondSharedMemory) {
  Launch run;
  run.sharedBytes = 4 * 31;
  expectFault(run([](const uint64_t *) { putShared(tid(), 1u); }),
              {"thread 31", "store of scratch", "bytes 124 to 127 of shared memory, which has 124"});
}

TEST(EmulatorFaults, MissingBarrier) {
  Launch run;
  run.threads = 64;
  run.sharedBytes = 256;
  expectFault(run([](const uint64_t *) {
                putShared(tid(), tid());
                ingot_rt_emulate_barrier(0, "first round");
                if (tid() < 32)
                  putShared(tid(), tid() + 1);
                else
                  getShared<uint32_t>(tid() - 32);
              }),
              {"load of scratch", "thread 32, ", "races with thread 0, which has written byte 0"});
}

TEST(EmulatorFaults, StoreOverWhatOthersRead) {
  Launch run;
  run.threads = 64;
  run.sharedBytes = 256;
  expectFault(run([](const uint64_t *) {
                putShared(tid(), tid());
                ingot_rt_emulate_barrier(0, "stored");
                uint32_t sum = getShared<uint32_t>(0) + getShared<uint32_t>(1);
                putShared(tid(), sum);
              }),
              {"races", "since the last barrier"});
}

TEST(EmulatorFaults, TwoStoresOfOneByte) {
  Launch run;
  run.sharedBytes = 64;
  expectFault(run([](const uint64_t *) { putShared<uint8_t>(tid() / 2, 1); }), {"thread 1", "races with thread 0"});
}

TEST(EmulatorFaults, SharedMemoryThatNobodyWrote) {
  Launch run;
  run.sharedBytes = 64;
  expectFault(run([](const uint64_t *) { getShared<uint32_t>(3); }),
              {"thread 0", "which no thread of the block has written"});
  // What another block has written does not count.
  run.threads = 1;
  run.grid[0] = 2;
  expectFault(run([](const uint64_t *) {
                if (ctaid() == 0)
                  putShared(3, 1u);
                getShared<uint32_t>(3);
              }),
              {"block (1, 0, 0)", "which no thread of the block has written"});
}

TEST(EmulatorFaults, BarrierThatNotAllReach) {
  Launch run;
  run.threads = 64;
  expectFault(run([](const uint64_t *) {
                if (tid() < 40)
                  ingot_rt_emulate_barrier(0, "half way");
              }),
              {"waits at barrier 0 (half way)", "thread 40 has ended"});
}

TEST(EmulatorFaults, BarriersOfOneWarpInDifferentPlaces) {
  Launch run;
  expectFault(run([](const uint64_t *) { ingot_rt_emulate_barrier(0, tid() < 16 ? "here" : "there"); }),
              {"barrier 0 (there)", "barrier 0 (here)"});
  // Different warps may wait in different places: the barrier is the same.
  run.threads = 64;
  EXPECT_EQ(run([](const uint64_t *) { ingot_rt_emulate_barrier(0, tid() < 32 ? "here" : "there"); }), "");
}

TEST(EmulatorFaults, BarriersOfDifferentNumbers) {
  Launch run;
  run.threads = 64;
  expectFault(run([](const uint64_t *) { ingot_rt_emulate_barrier(tid() / 32, "b"); }),
              {"waits at barrier 0", "waits at barrier 1"});
}

TEST(EmulatorFaults, ShuffleWithoutALaneOfItsMask) {
  Launch run;
  expectFault(run([](const uint64_t *) {
                if (tid() != 7)
                  ingot_rt_emulate_shuffle(INGOT_RT_SHUFFLE_BFLY, ~0u, 1, 1, 31, "sum");
              }),
              {"waits in a shuffle of lanes 0xffffffff (sum)", "thread 7 has ended"});
}

TEST(EmulatorFaults, ShuffleWithAMaskThatLacksTheCaller) {
  Launch run;
  expectFault(run([](const uint64_t *) { ingot_rt_emulate_shuffle(INGOT_RT_SHUFFLE_BFLY, 0xffff, 1, 1, 31, "sum"); }),
              {"thread 16", "0x0000ffff (sum)", "to which it does not belong"});
}

TEST(EmulatorFaults, ShuffleThatReadsALaneOutsideItsMask) {
  Launch run;
  expectFault(run([](const uint64_t *) {
                uint32_t mask = tid() < 16 ? 0xffff : 0xffff0000u;
                ingot_rt_emulate_shuffle(INGOT_RT_SHUFFLE_BFLY, mask, 1, 16, 31, "sum");
              }),
              {"reads lane 16, which is not in it"});
}

TEST(EmulatorFaults, ShufflesWithDifferentMasks) {
  Launch run;
  expectFault(run([](const uint64_t *) {
                ingot_rt_emulate_shuffle(INGOT_RT_SHUFFLE_BFLY, tid() == 3 ? 0xffffu : ~0u, 1, 1, 31, "sum");
              }),
              {"0xffffffff (sum)", "thread 3 waits in a shuffle of lanes 0x0000ffff"});
}

TEST(EmulatorFaults, VoteAndShuffleAtOnce) {
  Launch run;
  expectFault(run([](const uint64_t *) {
                if (tid() < 16)
                  ingot_rt_emulate_vote(INGOT_RT_VOTE_ANY, ~0u, 1, "v");
                else
                  ingot_rt_emulate_shuffle(INGOT_RT_SHUFFLE_BFLY, ~0u, 1, 1, 31, "s");
              }),
              {"waits in a vote", "waits in a shuffle"});
}

TEST(EmulatorFaults, LaneThatDoesNotExist) {
  Launch run;
  run.threads = 20;
  expectFault(run([](const uint64_t *) { ingot_rt_emulate_shuffle(INGOT_RT_SHUFFLE_BFLY, ~0u, 1, 1, 31, "s"); }),
              {"lane 20 does not exist"});
}

TEST(EmulatorFaults, TooManyThreads) {
  Launch run;
  run.threads = 1025;
  expectFault(run([](const uint64_t *) {}), {"expected 1 to 1024 threads", "got 1025"});
}
