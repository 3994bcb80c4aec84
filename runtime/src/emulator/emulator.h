// Runs kernels on the host, one block after the other, a fiber for each thread, and checks what a GPU would not say:
// accesses beyond what a launch was given, unaligned ones, races and uninitialized loads in shared memory, barriers and
// warp operations that not all threads reach.
#ifndef INGOT_RUNTIME_EMULATOR_EMULATOR_H
#define INGOT_RUNTIME_EMULATOR_EMULATOR_H

#include "emulator/fiber.h"
#include "emulator/shared_memory.h"
#include "ingot_rt/abi.h"
#include "ingot_rt/device.h"
#include "support/error.h"

#include <array>
#include <string>
#include <vector>

namespace ingot::rt {

class Emulator {
public:
  /// In which order blocks run; results must not depend on it. Shuffled: by `seed`.
  enum class Order { Forward, Reverse, Shuffled };
  struct Options {
    Order order = Order::Forward;
    uint32_t seed = 0;
  };
  /// INGOT_EMULATOR_ORDER: forward (default), reverse or a number, the seed of a shuffle.
  static Result<Options> optionsFromEnvironment();

  static constexpr uint32_t warpSize = 32, maxThreads = 1024;

  /// `model` gives launches the names of their ops; may be null.
  Emulator(const ingot_rt_model *model, Options options) : model(model), options(options) {}

  /// Runs every block. After a fault, which stays, it does nothing.
  void launch(const ingot_rt_launch &launch);
  /// The first fault: kernel, block, thread, op and what went wrong; null if there is none.
  const char *fault() const { return faultText.empty() ? nullptr : faultText.c_str(); }

  // What kernels ask for, on behalf of the running thread.
  uint32_t special(uint32_t which) const;
  void *shared(uint32_t offset) { return sharedMemory.data() + offset; }
  void access(const void *address, uint32_t bytes, bool isStore, const char *what);
  void barrier(uint32_t number, const char *what);
  uint64_t shuffle(uint32_t kind, uint32_t mask, uint32_t value, uint32_t b, uint32_t c, const char *what);
  uint32_t vote(uint32_t kind, uint32_t mask, uint32_t predicate, const char *what);
  void mma(uint32_t kind, const uint32_t *a, const uint32_t *b, float *accumulators, const char *what);
  void loadMatrix(const void *row, uint32_t count, bool transposed, uint32_t *registers, const char *what);
  void copy(void *to, const void *from, uint32_t bytes, uint32_t sourceBytes, const char *what);
  uint64_t atomic(uint32_t kind, uint32_t type, void *address, uint64_t value, uint64_t compare, const char *what);
  void commitCopies() { ++copies[running].committed; }
  void waitForCopies(uint32_t pending);

private:
  enum class State { Ready, Barrier, Warp, Done };
  enum class WarpOp { Shuffle, Vote, Mma, LoadMatrix };
  /// A thread, and while it waits, what it waits in.
  struct Thread {
    State state = State::Ready;
    const char *what = "";
    uint32_t barrier = 0;
    WarpOp op = WarpOp::Shuffle;
    uint32_t kind = 0, mask = 0, value = 0, b = 0, c = 0;
    uint64_t result = 0;
    /// Of an mma A and B, of ldmatrix the row; then what is written: D, or the registers.
    const void *in[2] = {nullptr, nullptr};
    void *out = nullptr;
  };

  /// A copy in flight, of the group with this number.
  struct Copy {
    uint32_t to;
    const void *from;
    uint32_t bytes, sourceBytes, group;
  };
  /// Those of a thread.
  struct Copies {
    uint32_t committed = 0; ///< groups
    std::vector<Copy> inFlight;
  };

  static void runThread(void *emulator);
  void runBlock();
  /// Lets waiting threads go on whose operation is complete; false if there is none.
  bool completeWarps();
  bool completeWarp(uint32_t first);
  bool completeBarrier();
  void shuffleResults(uint32_t first, uint32_t mask);
  void voteResults(uint32_t first, uint32_t mask);
  void mmaResults(uint32_t first);
  void loadMatrixResults(uint32_t first);
  static const char *nameOf(WarpOp op);
  void reportStuck();
  /// Waits in a warp operation; the result.
  uint64_t waitInWarp(const Thread &posted);
  /// Records the fault of thread `index` and, called by a thread, never returns.
  void faultOf(uint32_t index, const std::string &text);
  [[noreturn]] void stopThread();
  /// Records an access by thread `index`. Returns what is wrong with it, or an empty text.
  std::string wrongWith(const void *address, uint32_t bytes, Access access, uint32_t index, const char *what);
  /// Checks one of the running thread; after a fault it does not return.
  void checkAccess(const void *address, uint32_t bytes, Access access, const char *what);
  bool isShared(const void *address, uint32_t bytes) const;
  std::string describe(const Thread &thread) const;
  std::string beyond(uint64_t address, uint32_t bytes) const;

  const ingot_rt_model *model;
  const Options options;
  Fibers fibers;
  SharedMemory sharedMemory;
  std::vector<Thread> threads;
  std::vector<Copies> copies;
  const ingot_rt_launch *current = nullptr;
  uint32_t block[3] = {0, 0, 0}, running = 0, done = 0;
  std::string faultText;
  /// By name of an access: the argument that it went to. A guess that is checked.
  std::array<uint32_t, 61> lastArguments = {};
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_EMULATOR_EMULATOR_H
