// The emulator: every operation against a plain reading of its definition, and every fault that it must report. Kernels
// are functions of this file, calling what compiled kernels call.
#include "emulator/emulator.h"
#include "ingot_rt/emulate.h"
#include "support/float16.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
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
// Tensor cores and copies
//----------------------------------------------------------------------------------------------------------------------

namespace {

float valueOf(uint32_t kind, uint32_t bits) {
  if (kind == INGOT_RT_MMA_M16N8K8_TF32)
    return std::bit_cast<float>(bits);
  return kind == INGOT_RT_MMA_M16N8K16_BF16 ? floatFromBfloat(static_cast<uint16_t>(bits))
                                            : floatFromHalf(static_cast<uint16_t>(bits));
}

uint32_t bitsOf(uint32_t kind, float value) {
  if (kind == INGOT_RT_MMA_M16N8K8_TF32)
    return std::bit_cast<uint32_t>(value) & ~0x1fffu;
  return kind == INGOT_RT_MMA_M16N8K16_BF16 ? bfloatFromFloat(value) : halfFromFloat(value);
}

} // namespace

/// The tables of the PTX ISA, element by element: a_i of the thread with group g = lane / 4 and t = lane % 4 is
/// A[g + (8 where i is 2, 3, 6 or 7)][2 t + i % 2 + (8 from i = 4 on)], b_i is B[2 t + i % 2 + (8 from i = 2 on)][g],
/// c_i is C[g + (8 from i = 2 on)][2 t + i % 2]; of tf32, a_i = A[g + (8 for odd i)][t + (4 from i = 2 on)] and
/// b_i = B[t + 4 i][g].
TEST(Emulator, ProductsOfFragments) {
  for (uint32_t kind : {INGOT_RT_MMA_M16N8K16_BF16, INGOT_RT_MMA_M16N8K16_F16, INGOT_RT_MMA_M16N8K8_TF32}) {
    const bool tf32 = kind == INGOT_RT_MMA_M16N8K8_TF32;
    const int depth = tf32 ? 8 : 16;
    std::mt19937 random(kind);
    auto draw = [&] { return (static_cast<int>(random() % 4001) - 2000) * 0.001f; };
    float a[16][16] = {}, b[16][8] = {}, c[16][8];
    for (int m = 0; m < 16; ++m)
      for (int k = 0; k < depth; ++k)
        a[m][k] = valueOf(kind, bitsOf(kind, draw()));
    for (int k = 0; k < depth; ++k)
      for (float &value : b[k])
        value = valueOf(kind, bitsOf(kind, draw()));
    for (auto &row : c)
      for (float &value : row)
        value = draw();
    // Two warps: the second has the same product with its accumulators negated.
    std::vector<uint32_t> aWords(64 * 4), bWords(64 * 2);
    std::vector<float> sums(64 * 4);
    for (int thread = 0; thread < 64; ++thread) {
      int g = thread % 32 / 4, t = thread % 4;
      float sign = thread < 32 ? 1.0f : -1.0f;
      for (int i = 0; i < (tf32 ? 4 : 8); ++i) {
        bool low = tf32 ? i % 2 == 1 : i == 2 || i == 3 || i == 6 || i == 7;
        int row = g + (low ? 8 : 0), k = tf32 ? t + (i >= 2 ? 4 : 0) : 2 * t + i % 2 + (i >= 4 ? 8 : 0);
        aWords[thread * 4 + (tf32 ? i : i / 2)] |= bitsOf(kind, a[row][k]) << (tf32 || i % 2 == 0 ? 0 : 16);
      }
      for (int i = 0; i < (tf32 ? 2 : 4); ++i) {
        int k = tf32 ? t + 4 * i : 2 * t + i % 2 + (i >= 2 ? 8 : 0);
        bWords[thread * 2 + (tf32 ? i : i / 2)] |= bitsOf(kind, b[k][g]) << (tf32 || i % 2 == 0 ? 0 : 16);
      }
      for (int i = 0; i < 4; ++i)
        sums[thread * 4 + i] = sign * c[g + (i >= 2 ? 8 : 0)][2 * t + i % 2];
    }
    Launch run;
    run.threads = 64;
    EXPECT_EQ(run.memory(aWords).memory(bWords).memory(sums).value(kind)([](const uint64_t *args) {
      auto *x = reinterpret_cast<const uint32_t *>(args[0]) + 4 * tid();
      auto *y = reinterpret_cast<const uint32_t *>(args[1]) + 2 * tid();
      ingot_rt_emulate_mma(static_cast<uint32_t>(args[3]), x, y, reinterpret_cast<float *>(args[2]) + 4 * tid(), "p");
    }),
              "");
    for (int thread = 0; thread < 64; ++thread)
      for (int i = 0; i < 4; ++i) {
        int m = thread % 32 / 4 + (i >= 2 ? 8 : 0), n = 2 * (thread % 4) + i % 2;
        double expected = (thread < 32 ? 1.0 : -1.0) * c[m][n], magnitude = std::abs(expected);
        for (int k = 0; k < depth; ++k) {
          expected += double(a[m][k]) * b[k][n];
          magnitude += std::abs(double(a[m][k]) * b[k][n]);
        }
        EXPECT_NEAR(sums[thread * 4 + i], expected, magnitude * 0x1p-23) << kind << " " << thread << " " << i;
      }
  }
}

TEST(Emulator, LoadsOfMatrices) {
  for (uint32_t count : {1u, 2u, 4u})
    for (uint32_t transposed : {0u, 1u}) {
      std::vector<uint32_t> out(32 * 4);
      Launch run;
      run.sharedBytes = 32 * 16;
      EXPECT_EQ(run.memory(out).value(count).value(transposed)([](const uint64_t *args) {
        // Thread i writes row i, whose element j is 8 i + j, at place 31 - i.
        for (uint32_t j = 0; j < 8; ++j)
          putShared<uint16_t>((31 - tid()) * 8 + j, static_cast<uint16_t>(8 * tid() + j));
        ingot_rt_emulate_barrier(0, "written");
        uint32_t registers[4] = {};
        ingot_rt_emulate_load_matrix(ingot_rt_emulate_shared((31 - tid()) * 16), static_cast<uint32_t>(args[1]),
                                     static_cast<uint32_t>(args[2]), registers, "rows");
        for (uint32_t i = 0; i < 4; ++i)
          put(args[0], 4 * tid() + i, registers[i]);
      }),
                "");
      for (uint32_t t = 0; t < 32; ++t)
        for (uint32_t i = 0; i < 4; ++i)
          for (uint32_t half = 0; half < 2; ++half) {
            // Matrix i has rows 8 i and so on; a thread has a pair of row t / 4, transposed of column t / 4.
            uint32_t pair = 2 * (t % 4) + half;
            uint32_t element = transposed ? 8 * (8 * i + pair) + t / 4 : 8 * (8 * i + t / 4) + pair;
            EXPECT_EQ(out[4 * t + i] >> (16 * half) & 0xffff, i < count ? element : 0)
                << count << " " << transposed << " " << t << " " << i;
          }
    }
}

TEST(Emulator, CopiesByGroups) {
  // Three groups of a thread, the last one with 4 bytes of 16; then one more that is waited for alone.
  std::vector<uint32_t> in(64), out(64);
  std::iota(in.begin(), in.end(), 1000);
  Launch run;
  run.threads = 4;
  run.sharedBytes = 256;
  EXPECT_EQ(run.memory(in).memory(out)([](const uint64_t *args) {
    auto *from = reinterpret_cast<const uint32_t *>(args[0]);
    for (uint32_t group = 0; group < 3; ++group) {
      uint32_t at = 16 * group + 4 * tid();
      ingot_rt_emulate_copy(ingot_rt_emulate_shared(4 * at), from + at, 16, group == 2 ? 4 : 16, "c");
      ingot_rt_emulate_copy_commit();
    }
    ingot_rt_emulate_copy_wait(1);
    ingot_rt_emulate_barrier(0, "two groups");
    for (uint32_t i = tid(); i < 32; i += 4)
      put(args[1], i, getShared<uint32_t>(31 - i));
    ingot_rt_emulate_copy(ingot_rt_emulate_shared(4 * (48 + tid())), from + 48 + tid(), 4, 4, "c");
    ingot_rt_emulate_copy_commit();
    ingot_rt_emulate_copy_wait(0);
    ingot_rt_emulate_barrier(0, "all groups");
    for (uint32_t i = 32 + tid(); i < 52; i += 4)
      put(args[1], i, getShared<uint32_t>(i));
  }),
            "");
  for (uint32_t i = 0; i < 52; ++i)
    EXPECT_EQ(out[i], i < 32 ? 1031 - i : i < 48 && i % 4 ? 0 : 1000 + i) << i;
}

/// PTX ISA, "atom": d = [a]; [a] = operation(d, b). inc is (r >= s) ? 0 : r + 1, dec (r == 0 || r > s) ? s : r - 1, cas
/// (r == s) ? t : r. Of integers of `bits` bits, in numbers that hold every result.
static uint64_t atomicByDefinition(uint32_t kind, uint32_t bits, uint64_t r, uint64_t s, uint64_t t) {
  using Wide = __int128;
  const Wide one = 1, modulus = one << bits;
  auto asSigned = [&](uint64_t x) { return Wide(x) >= modulus / 2 ? Wide(x) - modulus : Wide(x); };
  auto unsignedOf = [&](Wide x) { return static_cast<uint64_t>((x % modulus + modulus) % modulus); };
  auto bitwise = [&](auto combine) {
    uint64_t result = 0;
    for (uint32_t i = 0; i < bits; ++i)
      result |= uint64_t(combine(r >> i & 1, s >> i & 1)) << i;
    return result;
  };
  switch (kind) {
  case INGOT_RT_ATOMIC_ADD:
    return unsignedOf(Wide(r) + Wide(s));
  case INGOT_RT_ATOMIC_MIN:
    return asSigned(r) < asSigned(s) ? r : s;
  case INGOT_RT_ATOMIC_MAX:
    return asSigned(r) > asSigned(s) ? r : s;
  case INGOT_RT_ATOMIC_UMIN:
    return r < s ? r : s;
  case INGOT_RT_ATOMIC_UMAX:
    return r > s ? r : s;
  case INGOT_RT_ATOMIC_AND:
    return bitwise([](uint64_t a, uint64_t b) { return a == 1 && b == 1; });
  case INGOT_RT_ATOMIC_OR:
    return bitwise([](uint64_t a, uint64_t b) { return a == 1 || b == 1; });
  case INGOT_RT_ATOMIC_XOR:
    return bitwise([](uint64_t a, uint64_t b) { return a != b; });
  case INGOT_RT_ATOMIC_EXCHANGE:
    return s;
  case INGOT_RT_ATOMIC_CAS:
    return r == t ? s : r;
  case INGOT_RT_ATOMIC_INCREMENT:
    return r >= s ? 0 : r + 1;
  default:
    return r == 0 || r > s ? s : r - 1;
  }
}

static uint64_t atomic(uint32_t kind, uint32_t type, void *address, uint64_t value, uint64_t compare = 0) {
  return ingot_rt_emulate_atomic(kind, type, address, value, compare, "counter");
}

TEST(Emulator, AtomicOperationsByDefinition) {
  const uint64_t values[] = {0,    1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000,
                             ~0ull};
  for (uint32_t type : {INGOT_RT_ATOMIC_I32, INGOT_RT_ATOMIC_I64})
    for (uint32_t kind = INGOT_RT_ATOMIC_ADD; kind <= INGOT_RT_ATOMIC_DECREMENT; ++kind) {
      const uint32_t bits = type == INGOT_RT_ATOMIC_I64 ? 64 : 32;
      const uint64_t mask = ~uint64_t(0) >> (64 - bits);
      if (kind >= INGOT_RT_ATOMIC_INCREMENT && bits == 64)
        continue;
      for (uint64_t r : values)
        for (uint64_t s : values)
          for (uint64_t t : {r, ~r}) {
            std::vector<uint64_t> words = {r & mask, s & mask, t & mask, 0, 0};
            Launch run;
            run.threads = 1;
            EXPECT_EQ(run.memory(words).value(kind).value(type)([](const uint64_t *a) {
              auto *w = reinterpret_cast<uint64_t *>(a[0]);
              w[3] = w[0];
              w[4] = atomic(static_cast<uint32_t>(a[1]), static_cast<uint32_t>(a[2]), w + 3, w[1], w[2]);
            }),
                      "");
            EXPECT_EQ(words[4], r & mask) << kind << " " << type;
            EXPECT_EQ(words[3], atomicByDefinition(kind, bits, r & mask, s & mask, t & mask))
                << kind << " of " << bits << " bits: " << r << " " << s << " " << t;
          }
    }
  // One of 32 bits leaves the bytes beside it alone; floats round to nearest.
  std::vector<float> floats = {1.5f, 0x1p24f, 7};
  Launch run;
  run.threads = 1;
  EXPECT_EQ(run.memory(floats)([](const uint64_t *a) {
    auto *x = reinterpret_cast<float *>(a[0]);
    x[2] = std::bit_cast<float>(
        static_cast<uint32_t>(atomic(INGOT_RT_ATOMIC_ADD, INGOT_RT_ATOMIC_F32, x + 1, std::bit_cast<uint32_t>(3.0f))));
    atomic(INGOT_RT_ATOMIC_EXCHANGE, INGOT_RT_ATOMIC_F32, x, std::bit_cast<uint32_t>(-2.0f));
  }),
            "");
  EXPECT_EQ(floats, (std::vector<float>{-2, 0x1p24f + 4, 0x1p24f}));
}

/// Threads of several warps and blocks count together; each sees another number.
TEST(Emulator, AtomicOperationsOfManyThreads) {
  std::vector<uint32_t> seen(3 * 96), total(1);
  Launch run;
  run.threads = 96;
  run.grid[0] = 3;
  run.sharedBytes = 8;
  EXPECT_EQ(run.memory(seen).memory(total)([](const uint64_t *a) {
    if (tid() == 5)
      putShared<uint64_t>(0, 40);
    ingot_rt_emulate_barrier(0, "empty");
    uint64_t before = atomic(INGOT_RT_ATOMIC_ADD, INGOT_RT_ATOMIC_I64, ingot_rt_emulate_shared(0), 2);
    put(a[0], ctaid() * 96 + tid(), static_cast<uint32_t>(before));
    atomic(INGOT_RT_ATOMIC_ADD, INGOT_RT_ATOMIC_I32, reinterpret_cast<void *>(a[1]), tid());
    ingot_rt_emulate_barrier(0, "full");
    if (getShared<uint64_t>(0) != 40 + 2 * 96)
      put(a[0], 1u << 20, 0u); // out of bounds: a fault
  }),
            "");
  EXPECT_EQ(total[0], 3u * 95 * 96 / 2);
  for (int block = 0; block < 3; ++block) {
    std::set<uint32_t> numbers(seen.begin() + 96 * block, seen.begin() + 96 * (block + 1));
    EXPECT_EQ(numbers.size(), 96u);
    EXPECT_EQ(*numbers.begin(), 40u);
    EXPECT_EQ(*numbers.rbegin(), 40u + 2 * 95);
  }
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

namespace {

/// What is said of a kernel that copies 16 bytes for each of 32 threads, does `middle`, waits and meets at a barrier.
std::string copyAnd(void (*body)(const uint64_t *)) {
  static std::vector<uint32_t> in(128);
  Launch run;
  run.sharedBytes = 512;
  return run.memory(in)(body);
}

void copyMine(const uint64_t *args) {
  ingot_rt_emulate_copy(ingot_rt_emulate_shared(16 * tid()), reinterpret_cast<const uint32_t *>(args[0]) + 4 * tid(),
                        16, 16, "tile");
  ingot_rt_emulate_copy_commit();
}

} // namespace

TEST(EmulatorFaults, CopyThatNobodyWaitedFor) {
  expectFault(copyAnd([](const uint64_t *args) {
                copyMine(args);
                ingot_rt_emulate_barrier(0, "b");
                getShared<uint32_t>(4 * (tid() ^ 1));
                ingot_rt_emulate_copy_wait(0);
              }),
              {"thread 0", "load of scratch", "byte 16", "a copy of thread 1 is in flight"});
  // The thread's own, and one of a group that the wait leaves in flight.
  expectFault(copyAnd([](const uint64_t *args) {
                copyMine(args);
                ingot_rt_emulate_copy_wait(1);
                getShared<uint32_t>(4 * tid());
              }),
              {"thread 0", "a copy of thread 0 is in flight"});
  // A copy that belongs to no group yet.
  expectFault(copyAnd([](const uint64_t *args) {
                ingot_rt_emulate_copy(ingot_rt_emulate_shared(16 * tid()), reinterpret_cast<const void *>(args[0]), 16,
                                      16, "tile");
                ingot_rt_emulate_copy_wait(0);
                getShared<uint32_t>(4 * tid());
              }),
              {"thread 0", "a copy of thread 0 is in flight"});
  expectFault(copyAnd(copyMine), {"thread 0", "ends with a copy to byte 0 of shared memory in flight"});
}

TEST(EmulatorFaults, CopyWithoutABarrier) {
  expectFault(copyAnd([](const uint64_t *args) {
                copyMine(args);
                ingot_rt_emulate_copy_wait(0);
                getShared<uint32_t>(4 * (tid() & ~1u));
              }),
              {"thread 1", "load of scratch", "races with thread 0, which has written byte 0"});
  // Over what another thread reads.
  expectFault(copyAnd([](const uint64_t *args) {
                putShared(4 * tid(), tid());
                ingot_rt_emulate_barrier(0, "b");
                getShared<uint32_t>(4 * ((tid() + 1) % 32));
                copyMine(args);
                ingot_rt_emulate_copy_wait(0);
              }),
              {"thread 1", "copy of tile", "races with thread 0, which has read byte 16"});
  expectFault(copyAnd([](const uint64_t *args) {
                copyMine(args);
                ingot_rt_emulate_copy(ingot_rt_emulate_shared(16 * (tid() / 2)),
                                      reinterpret_cast<const void *>(args[0]), 16, 16, "other");
              }),
              {"copy of other", "in flight"});
}

TEST(EmulatorFaults, CopyOfOtherMemory) {
  auto copy = [](uint32_t to, uint64_t from, uint32_t bytes) {
    ingot_rt_emulate_copy(ingot_rt_emulate_shared(to), reinterpret_cast<const void *>(from), bytes, bytes, "tile");
  };
  static auto copyTo = copy;
  expectFault(copyAnd([](const uint64_t *args) { copyTo(504, args[0], 16); }),
              {"copy of tile", "outside shared memory, which has 512"});
  expectFault(copyAnd([](const uint64_t *args) { copyTo(8, args[0], 16); }), {"not a multiple of 16"});
  expectFault(copyAnd([](const uint64_t *args) { copyTo(16, args[0] + 4, 16); }), {"not a multiple of 16"});
  expectFault(copyAnd([](const uint64_t *args) { copyTo(16, args[0] + 512, 16); }),
              {"load of tile", "bytes 512 to 515 of first, which has 512"});
}

TEST(EmulatorFaults, ProductsThatNotAllReach) {
  Launch run;
  auto product = [](uint32_t kind, uint32_t word, const char *what) {
    uint32_t a[4] = {word, word, word, word}, b[2] = {word, word};
    float sums[4] = {};
    ingot_rt_emulate_mma(kind, a, b, sums, what);
  };
  static auto multiply = product;
  expectFault(run([](const uint64_t *) {
                if (tid() != 9)
                  multiply(INGOT_RT_MMA_M16N8K16_F16, 0, "product");
              }),
              {"waits in a mma of lanes 0xffffffff (product)", "thread 9 has ended"});
  expectFault(run([](const uint64_t *) { multiply(INGOT_RT_MMA_M16N8K16_F16, 0, tid() < 16 ? "here" : "there"); }),
              {"(here)", "(there)"});
  expectFault(run([](const uint64_t *) { multiply(INGOT_RT_MMA_M16N8K8_TF32, 0x3f801000, "product"); }),
              {"(product)", "0x3f801000, which is no tf32"});
}

TEST(EmulatorFaults, RowsOfMatrices) {
  Launch run;
  run.sharedBytes = 512;
  auto load = [](uint32_t at) {
    uint32_t registers[4];
    ingot_rt_emulate_load_matrix(ingot_rt_emulate_shared(at), 4, 0, registers, "rows");
  };
  static auto loadFrom = load;
  expectFault(run([](const uint64_t *) { loadFrom(16 * tid()); }),
              {"thread 0", "load of rows", "which no thread of the block has written"});
  expectFault(run([](const uint64_t *) { loadFrom(16 * tid() + (tid() == 13 ? 8 : 0)); }),
              {"thread 13", "(rows)", "row 5", "not 16 aligned bytes"});
  expectFault(run([](const uint64_t *) { loadFrom(16 * (tid() + 1)); }), {"thread 31", "row 7"});
  expectFault(run([](const uint64_t *) {
                for (uint32_t j = 0; j < 4; ++j)
                  putShared(4 * tid() + j, tid());
                loadFrom(16 * tid());
              }),
              {"load of rows", "races with thread"});
}

namespace {
void *counter(uint32_t offset = 0) { return ingot_rt_emulate_shared(offset); }
uint64_t addOne(void *address) { return atomic(INGOT_RT_ATOMIC_ADD, INGOT_RT_ATOMIC_I32, address, 1); }

/// What the emulator says of two threads of different warps that do something with an emptied counter.
std::string together(void (*body)(const uint64_t *)) {
  static void (*theBody)(const uint64_t *);
  theBody = body;
  Launch run;
  run.threads = 64;
  run.sharedBytes = 16;
  std::vector<uint64_t> memory(2);
  return run.memory(memory)([](const uint64_t *a) {
    if (tid() == 0)
      for (uint32_t i = 0; i < 4; ++i)
        putShared<uint32_t>(i, 0);
    ingot_rt_emulate_barrier(0, "empty");
    theBody(a);
  });
}
} // namespace

TEST(EmulatorFaults, AtomicOperationsBesidePlainOnes) {
  const char *const since = "of shared memory since the last barrier";
  expectFault(together([](const uint64_t *) { tid() == 3 ? putShared<uint32_t>(0, 1) : void(addOne(counter())); }),
              {"thread 3, ", "store of scratch: races with other threads, which have changed byte 0 ", "atomically"});
  expectFault(together([](const uint64_t *) { tid() == 0 ? putShared<uint32_t>(0, 1) : void(addOne(counter())); }),
              {"thread 1, ", "atomic operation of counter: races with thread 0, which has written byte 0", since});
  expectFault(together([](const uint64_t *) {
                if (tid() == 0)
                  addOne(counter());
                else if (tid() == 40)
                  getShared<uint32_t>(0);
              }),
              {"thread 40, ", "load of scratch: races with thread 0, which has atomically changed byte 0", since});
  expectFault(together([](const uint64_t *) {
                if (tid() == 0)
                  getShared<uint32_t>(0);
                else if (tid() == 40)
                  addOne(counter());
              }),
              {"thread 40, ", "atomic operation of counter: races with thread 0, which has read byte 0", since});
  // Two atomic operations, one's own plain accesses beside them, and accesses behind a barrier are none.
  EXPECT_EQ(together([](const uint64_t *) {
              addOne(counter());
              atomic(INGOT_RT_ATOMIC_CAS, INGOT_RT_ATOMIC_I32, counter(), 5, 7);
              if (tid() == 9) {
                addOne(counter(4));
                putShared<uint32_t>(1, getShared<uint32_t>(1) + 1);
                addOne(counter(4));
              }
              ingot_rt_emulate_barrier(0, "full");
              getShared<uint32_t>(0);
            }),
            "");
}

TEST(EmulatorFaults, AtomicOperationsOfOtherBytes) {
  expectFault(together([](const uint64_t *) {
                tid() == 0 ? void(addOne(counter(4)))
                           : void(atomic(INGOT_RT_ATOMIC_ADD, INGOT_RT_ATOMIC_I64, counter(), 1));
              }),
              {"thread 1, ", "races with thread 0, which has atomically changed byte 4", "one of 4 bytes, not 8"});
  expectFault(together([](const uint64_t *) { addOne(counter(2)); }),
              {"atomic operation of counter", "not a multiple of 4"});
  expectFault(together([](const uint64_t *) { addOne(counter(16)); }),
              {"bytes 16 to 19 of shared memory, which has 16"});
  expectFault(together([](const uint64_t *a) { addOne(reinterpret_cast<void *>(a[0] + 16)); }),
              {"atomic operation of counter: bytes 16 to 19 of first, which has 16"});
  Launch run;
  run.sharedBytes = 4;
  expectFault(run([](const uint64_t *) { addOne(counter()); }),
              {"thread 0, ", "which no thread of the block has written"});
  static const uint32_t table[2] = {1, 2};
  run.constants = {{table, sizeof table}};
  expectFault(run([](const uint64_t *) { addOne(const_cast<uint32_t *>(table)); }),
              {"atomic operation of counter: a constant"});
}
