// The scheduler of emulated threads and the operations by which they meet, each as the PTX ISA defines it.
#include "emulator/emulator.h"

#include "device/device.h"
#include "emulator/atomics.h"
#include "emulator/fragments.h"
#include "ingot_rt/emulate.h"
#include "support/checked.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>

namespace ingot::rt {

/// Whose kernel is running: the functions that kernels call have no argument for it.
static thread_local Emulator *active = nullptr;

Result<Emulator::Options> Emulator::optionsFromEnvironment() {
  Options options;
  const char *text = getenv("INGOT_EMULATOR_ORDER");
  if (!text || !strcmp(text, "forward"))
    return options;
  if (!strcmp(text, "reverse")) {
    options.order = Order::Reverse;
    return options;
  }
  char *end = nullptr;
  unsigned long seed = strtoul(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || seed > UINT32_MAX)
    return makeUsageError("INGOT_EMULATOR_ORDER: expected forward, reverse or a number up to 4294967295, got '%s'",
                          text);
  options.order = Order::Shuffled;
  options.seed = static_cast<uint32_t>(seed);
  return options;
}

// ---------------------------------------------------------------------------------------------------------------------
// Blocks and threads
// ---------------------------------------------------------------------------------------------------------------------

void Emulator::launch(const ingot_rt_launch &launch) {
  if (fault())
    return;
  const ingot_rt_kernel &kernel = *launch.kernel;
  if (kernel.threads == 0 || kernel.threads > maxThreads) {
    faultText =
        formatText("kernel %s: expected 1 to %u threads in a block, got %u", kernel.name, maxThreads, kernel.threads);
    return;
  }
  if (Error error = fibers.reserve(kernel.threads)) {
    faultText = error.message();
    return;
  }
  Checked blocks = Checked(launch.grid[0]) * Checked(launch.grid[1]) * Checked(launch.grid[2]);
  if (blocks.overflowed || blocks.value > UINT32_MAX) {
    faultText = formatText("kernel %s: expected less than 2^32 blocks, got a grid of %u x %u x %u", kernel.name,
                           launch.grid[0], launch.grid[1], launch.grid[2]);
    return;
  }
  std::vector<uint32_t> order(blocks.value);
  std::iota(order.begin(), order.end(), 0);
  if (options.order == Order::Reverse)
    std::reverse(order.begin(), order.end());
  if (options.order == Order::Shuffled) {
    std::mt19937 random(options.seed);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random() % i]);
  }
  current = &launch;
  Emulator *before = active;
  active = this;
  for (uint32_t number : order) {
    block[0] = number % launch.grid[0];
    block[1] = number / launch.grid[0] % launch.grid[1];
    block[2] = number / launch.grid[0] / launch.grid[1];
    runBlock();
    if (fault())
      break;
  }
  active = before;
  current = nullptr;
}

void Emulator::runThread(void *emulator) {
  auto &self = *static_cast<Emulator *>(emulator);
  self.current->kernel->emulated(self.current->arguments);
  if (!self.copies[self.running].inFlight.empty())
    self.faultOf(self.running, formatText("ends with a copy to byte %u of shared memory in flight: it has not waited "
                                          "for it",
                                          self.copies[self.running].inFlight.front().to));
  self.threads[self.running].state = State::Done;
  ++self.done;
  self.stopThread();
}

void Emulator::stopThread() {
  for (;;)
    fibers.pause();
}

void Emulator::runBlock() {
  const uint32_t count = current->kernel->threads;
  sharedMemory.startBlock(current->kernel->shared_bytes);
  threads.assign(count, Thread());
  copies.resize(count);
  for (Copies &ofThread : copies) {
    ofThread.committed = 0;
    ofThread.inFlight.clear();
  }
  done = 0;
  for (uint32_t i = 0; i < count; ++i)
    fibers.prepare(i, &runThread, this);
  while (done < count) {
    for (uint32_t i = 0; i < count; ++i) {
      if (threads[i].state != State::Ready)
        continue;
      running = i;
      fibers.resume(i);
      if (fault())
        return;
    }
    if (done == count)
      return;
    bool progress = completeWarps();
    if (fault())
      return;
    if (!progress && !completeBarrier()) {
      if (!fault())
        reportStuck();
      return;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Faults
// ---------------------------------------------------------------------------------------------------------------------

void Emulator::faultOf(uint32_t index, const std::string &text) {
  if (!faultText.empty())
    return;
  std::string op = "no op";
  if (model && current->op < model->op_count)
    op = formatText("op %s", model->ops[current->op].name);
  if (current->layer >= 0)
    op += formatText(" of layer %d", current->layer);
  faultText = formatText("kernel %s, block (%u, %u, %u), thread %u, %s: %s", current->kernel->name, block[0], block[1],
                         block[2], index, op.c_str(), text.c_str());
}

const char *Emulator::nameOf(WarpOp op) {
  switch (op) {
  case WarpOp::Shuffle:
    return "shuffle";
  case WarpOp::Vote:
    return "vote";
  case WarpOp::Mma:
    return "mma";
  case WarpOp::LoadMatrix:
    return "ldmatrix";
  }
  return "";
}

std::string Emulator::describe(const Thread &thread) const {
  switch (thread.state) {
  case State::Done:
    return "has ended";
  case State::Barrier:
    return formatText("waits at barrier %u (%s)", thread.barrier, thread.what);
  case State::Warp:
    return formatText("waits in a %s of lanes 0x%08x (%s)", nameOf(thread.op), thread.mask, thread.what);
  case State::Ready:
    return "runs";
  }
  return "";
}

/// No thread can go on: names one that waits and one that it waits for.
void Emulator::reportStuck() {
  for (uint32_t i = 0; i < threads.size(); ++i) {
    const Thread &waiting = threads[i];
    if (waiting.state != State::Warp)
      continue;
    uint32_t first = i / warpSize * warpSize;
    for (uint32_t lane = 0; lane < warpSize; ++lane) {
      if (!(waiting.mask >> lane & 1) || first + lane == i)
        continue;
      if (first + lane >= threads.size())
        return faultOf(i, describe(waiting) + formatText(", whose lane %u does not exist", lane));
      if (threads[first + lane].state != State::Warp)
        return faultOf(i, describe(waiting) + formatText(", but thread %u ", first + lane) +
                              describe(threads[first + lane]));
    }
  }
  for (uint32_t i = 0; i < threads.size(); ++i) {
    if (threads[i].state != State::Barrier)
      continue;
    for (uint32_t j = 0; j < threads.size(); ++j)
      if (threads[j].state != State::Barrier || threads[j].barrier != threads[i].barrier)
        return faultOf(i, describe(threads[i]) + formatText(", but thread %u ", j) + describe(threads[j]));
  }
}

std::string Emulator::beyond(uint64_t address, uint32_t bytes) const {
  // The nearest argument that starts at or before the address is most likely the one that was meant.
  const ingot_rt_kernel &kernel = *current->kernel;
  const char *name = nullptr;
  uint64_t start = 0, extent = 0;
  for (uint32_t i = 0; i < kernel.argument_count; ++i)
    if (current->extents[i] && current->arguments[i] <= address && current->arguments[i] >= start) {
      name = kernel.argument_names[i];
      start = current->arguments[i];
      extent = current->extents[i];
    }
  if (!name)
    return formatText("%u bytes at %#" PRIx64 ", before all that the launch was given", bytes, address);
  return formatText("bytes %" PRIu64 " to %" PRIu64 " of %s, which has %" PRIu64, address - start,
                    address - start + bytes - 1, name, extent);
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory
// ---------------------------------------------------------------------------------------------------------------------

bool Emulator::isShared(const void *address, uint32_t bytes) const {
  auto start = reinterpret_cast<uint64_t>(address), base = reinterpret_cast<uint64_t>(sharedMemory.data());
  return start >= base && start - base < sharedMemory.size() && sharedMemory.size() - (start - base) >= bytes;
}

void Emulator::access(const void *pointer, uint32_t bytes, bool isStore, const char *what) {
  checkAccess(pointer, bytes, isStore ? Access::Store : Access::Load, what);
}

/// A thread runs alone between two operations by which threads meet, so that all that it does there is atomic.
uint64_t Emulator::atomic(uint32_t kind, uint32_t type, void *pointer, uint64_t value, uint64_t compare,
                          const char *what) {
  const uint32_t bytes = atomicBytes(type);
  checkAccess(pointer, bytes, Access::Atomic, what);
  uint64_t old = 0;
  memcpy(&old, pointer, bytes);
  const uint64_t changed = atomicResult(kind, type, old, value, compare);
  memcpy(pointer, &changed, bytes);
  return old;
}

void Emulator::checkAccess(const void *pointer, uint32_t bytes, Access access, const char *what) {
  std::string wrong = wrongWith(pointer, bytes, access, running, what);
  if (wrong.empty())
    return;
  faultOf(running, wrong);
  wrong = {};
  stopThread();
}

std::string Emulator::wrongWith(const void *pointer, uint32_t bytes, Access access, uint32_t index, const char *what) {
  static constexpr const char *names[] = {"load", "store", "atomic operation"};
  auto address = reinterpret_cast<uint64_t>(pointer);
  auto inside = [&](uint64_t start, uint64_t extent) {
    return address >= start && address - start < extent && extent - (address - start) >= bytes;
  };
  auto fail = [&](const std::string &text) {
    return formatText("%s of %s: ", names[static_cast<size_t>(access)], what) + text;
  };
  // PTX: an access is aligned to its size.
  if ((address & (bytes - 1)) != 0)
    return fail(formatText("%u bytes at %#" PRIx64 ", which is not a multiple of %u", bytes, address, bytes));
  auto base = reinterpret_cast<uint64_t>(sharedMemory.data());
  if (isShared(pointer, bytes)) {
    std::string wrong = sharedMemory.access(static_cast<uint32_t>(address - base), bytes, access, index);
    return wrong.empty() ? wrong : fail(wrong);
  }
  // An access most often goes where the last one of its name went.
  const ingot_rt_launch &launch = *current;
  uint32_t &last = lastArguments[reinterpret_cast<uint64_t>(what) % lastArguments.size()];
  if (last < launch.kernel->argument_count && inside(launch.arguments[last], launch.extents[last]))
    return {};
  for (uint32_t i = 0; i < launch.kernel->argument_count; ++i)
    if (inside(launch.arguments[i], launch.extents[i])) {
      last = i;
      return {};
    }
  for (uint32_t i = 0; i < launch.kernel->constant_count; ++i) {
    const ingot_rt_constant &constant = launch.kernel->constants[i];
    if (!inside(reinterpret_cast<uint64_t>(constant.data), constant.bytes))
      continue;
    return access == Access::Load ? std::string() : fail("a constant");
  }
  // Shared memory is what was meant if it is near, and nearer than anything else.
  auto away = [&](uint64_t start, uint64_t extent) {
    return address < start ? start - address : address - start < extent ? 0 : address - start - extent;
  };
  uint64_t fromShared = sharedMemory.size() ? away(base, sharedMemory.size()) : UINT64_MAX;
  bool nearest = fromShared < 4096;
  for (uint32_t i = 0; i < launch.kernel->argument_count && nearest; ++i)
    nearest = launch.extents[i] == 0 || fromShared < away(launch.arguments[i], launch.extents[i]);
  if (nearest)
    return fail(formatText("bytes %" PRId64 " to %" PRId64 " of shared memory, which has %u",
                           static_cast<int64_t>(address - base), static_cast<int64_t>(address - base + bytes - 1),
                           sharedMemory.size()));
  return fail(beyond(address, bytes));
}

// ---------------------------------------------------------------------------------------------------------------------
// Copies from global to shared memory
// ---------------------------------------------------------------------------------------------------------------------

/// PTX ISA, "cp.async": both addresses are aligned to the copy's size; source bytes beyond `sourceBytes` are not read.
void Emulator::copy(void *to, const void *from, uint32_t bytes, uint32_t sourceBytes, const char *what) {
  std::string wrong;
  auto base = reinterpret_cast<uint64_t>(sharedMemory.data()), address = reinterpret_cast<uint64_t>(to);
  auto source = reinterpret_cast<uint64_t>(from);
  if (sourceBytes > bytes)
    wrong = formatText("copy of %s: %u bytes of a source of %u", what, bytes, sourceBytes);
  else if (!isShared(to, bytes))
    wrong = formatText("copy of %s: %u bytes to %#" PRIx64 ", outside shared memory, which has %u", what, bytes,
                       address - base, sharedMemory.size());
  else if (((address | source) & (bytes - 1)) != 0)
    wrong = formatText("copy of %s: %u bytes from %#" PRIx64 " to byte %" PRIu64
                       " of shared memory, of which one is not a multiple of %u",
                       what, bytes, source, address - base, bytes);
  else if (sourceBytes && isShared(from, 1))
    wrong = formatText("copy of %s: from shared memory", what);
  else if (sourceBytes)
    for (uint32_t i = 0, step = 0; i < sourceBytes && wrong.empty(); i += step) {
      step = sourceBytes - i >= 4 ? 4 : 1;
      wrong = wrongWith(static_cast<const uint8_t *>(from) + i, step, Access::Load, running, what);
    }
  auto offset = static_cast<uint32_t>(address - base);
  if (wrong.empty())
    if (wrong = sharedMemory.startCopy(offset, bytes, running); !wrong.empty())
      wrong = formatText("copy of %s: ", what) + wrong;
  if (!wrong.empty()) {
    faultOf(running, wrong);
    wrong = {};
    stopThread();
  }
  Copies &mine = copies[running];
  mine.inFlight.push_back({offset, from, bytes, sourceBytes, mine.committed});
}

/// PTX ISA, "cp.async.wait_group". The copies happen here, as late as they may; who is to see them waits at a barrier.
void Emulator::waitForCopies(uint32_t pending) {
  Copies &mine = copies[running];
  auto isDone = [&](const Copy &copy) { return copy.group + pending < mine.committed; };
  for (const Copy &copy : mine.inFlight) {
    if (!isDone(copy))
      continue;
    memset(sharedMemory.data() + copy.to, 0, copy.bytes);
    memcpy(sharedMemory.data() + copy.to, copy.from, copy.sourceBytes);
    sharedMemory.endCopy(copy.to, copy.bytes, running);
  }
  std::erase_if(mine.inFlight, isDone);
}

// ---------------------------------------------------------------------------------------------------------------------
// Barriers
// ---------------------------------------------------------------------------------------------------------------------

void Emulator::barrier(uint32_t number, const char *what) {
  Thread &self = threads[running];
  self.state = State::Barrier;
  self.barrier = number;
  self.what = what;
  fibers.pause();
}

/// barrier.sync.aligned without a count of threads: all threads of the block take part, and all threads of a warp
/// execute the same instruction.
bool Emulator::completeBarrier() {
  for (const Thread &thread : threads)
    if (thread.state != State::Barrier || thread.barrier != threads[0].barrier)
      return false;
  for (uint32_t i = 0; i < threads.size(); ++i) {
    uint32_t first = i / warpSize * warpSize;
    if (threads[i].what != threads[first].what) {
      faultOf(i, describe(threads[i]) + formatText(", but thread %u of its warp ", first) + describe(threads[first]));
      return false;
    }
  }
  for (Thread &thread : threads)
    thread.state = State::Ready;
  sharedMemory.barrier();
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Warp operations
// ---------------------------------------------------------------------------------------------------------------------

uint64_t Emulator::waitInWarp(const Thread &posted) {
  uint32_t lane = running % warpSize;
  Thread &self = threads[running];
  self = posted;
  self.state = State::Warp;
  if (!(posted.mask >> lane & 1)) {
    faultOf(running, describe(self) + formatText(", to which it does not belong: it is lane %u", lane));
    stopThread();
  }
  fibers.pause();
  return threads[running].result;
}

uint64_t Emulator::shuffle(uint32_t kind, uint32_t mask, uint32_t value, uint32_t b, uint32_t c, const char *what) {
  Thread posted;
  posted.what = what;
  posted.op = WarpOp::Shuffle;
  posted.kind = kind;
  posted.mask = mask;
  posted.value = value;
  posted.b = b;
  posted.c = c;
  return waitInWarp(posted);
}

uint32_t Emulator::vote(uint32_t kind, uint32_t mask, uint32_t predicate, const char *what) {
  Thread posted;
  posted.what = what;
  posted.op = WarpOp::Vote;
  posted.kind = kind;
  posted.mask = mask;
  posted.value = predicate & 1;
  return static_cast<uint32_t>(waitInWarp(posted));
}

static constexpr uint32_t wholeWarp = UINT32_MAX;

void Emulator::mma(uint32_t kind, const uint32_t *a, const uint32_t *b, float *accumulators, const char *what) {
  Thread posted;
  posted.what = what;
  posted.op = WarpOp::Mma;
  posted.kind = kind;
  posted.mask = wholeWarp;
  posted.in[0] = a;
  posted.in[1] = b;
  posted.out = accumulators;
  waitInWarp(posted);
}

void Emulator::loadMatrix(const void *row, uint32_t count, bool transposed, uint32_t *registers, const char *what) {
  Thread posted;
  posted.what = what;
  posted.op = WarpOp::LoadMatrix;
  posted.kind = 2 * count + (transposed ? 1 : 0);
  posted.mask = wholeWarp;
  posted.in[0] = row;
  posted.out = registers;
  waitInWarp(posted);
}

bool Emulator::completeWarps() {
  bool progress = false;
  for (uint32_t first = 0; first < threads.size(); first += warpSize)
    progress |= completeWarp(first);
  return progress;
}

/// All threads of a mask wait in the operation with the same mask and qualifiers.
bool Emulator::completeWarp(uint32_t first) {
  bool progress = false;
  for (uint32_t i = first; i < first + warpSize && i < threads.size(); ++i) {
    if (threads[i].state != State::Warp)
      continue;
    const Thread leader = threads[i];
    bool complete = true;
    for (uint32_t lane = 0; lane < warpSize && complete; ++lane) {
      if (!(leader.mask >> lane & 1))
        continue;
      complete = first + lane < threads.size() && threads[first + lane].state == State::Warp;
      if (!complete)
        continue;
      const Thread &other = threads[first + lane];
      if (other.mask != leader.mask || other.op != leader.op || other.kind != leader.kind ||
          other.what != leader.what) {
        faultOf(i, describe(leader) + formatText(", but thread %u ", first + lane) + describe(other));
        return false;
      }
    }
    if (!complete)
      continue;
    if (leader.op == WarpOp::Shuffle)
      shuffleResults(first, leader.mask);
    else if (leader.op == WarpOp::Vote)
      voteResults(first, leader.mask);
    else if (leader.op == WarpOp::Mma)
      mmaResults(first);
    else
      loadMatrixResults(first);
    for (uint32_t lane = 0; lane < warpSize; ++lane)
      if (leader.mask >> lane & 1)
        threads[first + lane].state = State::Ready;
    progress = true;
  }
  return progress;
}

/// PTX ISA, "shfl.sync": the source lane j of each thread from its operands b and c.
void Emulator::shuffleResults(uint32_t first, uint32_t mask) {
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    Thread &self = threads[first + lane];
    int32_t bval = self.b & 31, cval = self.c & 31, segment = self.c >> 8 & 31, number = static_cast<int32_t>(lane);
    int32_t maxLane = (number & segment) | (cval & ~segment), minLane = number & segment, source = 0;
    bool inside = false;
    switch (self.kind) {
    case INGOT_RT_SHUFFLE_UP:
      source = number - bval;
      inside = source >= maxLane;
      break;
    case INGOT_RT_SHUFFLE_DOWN:
      source = number + bval;
      inside = source <= maxLane;
      break;
    case INGOT_RT_SHUFFLE_BFLY:
      source = number ^ bval;
      inside = source <= maxLane;
      break;
    default:
      source = minLane | (bval & ~segment);
      inside = source <= maxLane;
    }
    if (!inside)
      source = number;
    if (!(mask >> source & 1))
      return faultOf(first + lane, describe(self) + formatText(" and reads lane %d, which is not in it", source));
    self.result = threads[first + static_cast<uint32_t>(source)].value | uint64_t(inside) << 32;
  }
}

/// PTX ISA, "vote.sync".
void Emulator::voteResults(uint32_t first, uint32_t mask) {
  uint32_t ballot = 0;
  for (uint32_t lane = 0; lane < warpSize; ++lane)
    if (mask >> lane & 1)
      ballot |= threads[first + lane].value << lane;
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    Thread &self = threads[first + lane];
    switch (self.kind) {
    case INGOT_RT_VOTE_ALL:
      self.result = ballot == mask;
      break;
    case INGOT_RT_VOTE_ANY:
      self.result = ballot != 0;
      break;
    case INGOT_RT_VOTE_UNI:
      self.result = ballot == 0 || ballot == mask;
      break;
    default:
      self.result = ballot;
    }
  }
}

void Emulator::mmaResults(uint32_t first) {
  const Thread *warp = &threads[first];
  FragmentsOfWarp fragments;
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    memcpy(fragments.a[lane], warp[lane].in[0], sizeof fragments.a[lane]);
    memcpy(fragments.b[lane], warp[lane].in[1], sizeof fragments.b[lane]);
    memcpy(fragments.c[lane], warp[lane].out, sizeof fragments.c[lane]);
    if (warp[0].kind != INGOT_RT_MMA_M16N8K8_TF32)
      continue;
    for (const uint32_t *r : {&fragments.a[lane][0], &fragments.a[lane][1], &fragments.a[lane][2],
                              &fragments.a[lane][3], &fragments.b[lane][0], &fragments.b[lane][1]})
      if (*r & 0x1fff)
        return faultOf(first + lane, describe(warp[lane]) + formatText(" with 0x%08x, which is no tf32", *r));
  }
  multiplyFragments(warp[0].kind, fragments);
  for (uint32_t lane = 0; lane < warpSize; ++lane)
    memcpy(warp[lane].out, fragments.c[lane], sizeof fragments.c[lane]);
}

/// PTX ISA, "ldmatrix": thread 8 i + r points at row r of matrix i, of 8 elements of 16 bits; register i of a thread
/// has the elements [t / 4][2 (t % 4)] and the one behind it of matrix i, or of its transpose.
void Emulator::loadMatrixResults(uint32_t first) {
  const uint32_t count = threads[first].kind / 2;
  const bool transposed = threads[first].kind % 2 != 0;
  for (uint32_t matrix = 0; matrix < count; ++matrix)
    for (uint32_t r = 0; r < 8; ++r) {
      const uint32_t pointing = first + 8 * matrix + r;
      const void *row = threads[pointing].in[0];
      if (!isShared(row, 16) || (reinterpret_cast<uint64_t>(row) & 15) != 0)
        return faultOf(pointing,
                       describe(threads[pointing]) +
                           formatText(" and points at row %u, which is not 16 aligned bytes of shared memory", r));
    }
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    const Thread &self = threads[first + lane];
    for (uint32_t matrix = 0; matrix < count; ++matrix)
      for (uint32_t i = 0; i < 2; ++i) {
        uint32_t row = lane / 4, column = 2 * (lane % 4) + i;
        if (transposed)
          std::swap(row, column);
        const uint8_t *at = static_cast<const uint8_t *>(threads[first + 8 * matrix + row].in[0]) + 2 * column;
        if (std::string wrong = wrongWith(at, 2, Access::Load, first + lane, self.what); !wrong.empty())
          return faultOf(first + lane, wrong);
        memcpy(static_cast<uint8_t *>(self.out) + 4 * matrix + 2 * i, at, 2);
      }
  }
}

/// The special registers of PTX; blocks and grids of more than one dimension of threads do not occur.
uint32_t Emulator::special(uint32_t which) const {
  switch (which) {
  case INGOT_RT_TID:
    return running;
  case INGOT_RT_NTID:
    return current->kernel->threads;
  case INGOT_RT_TID + 1:
  case INGOT_RT_TID + 2:
    return 0;
  case INGOT_RT_NTID + 1:
  case INGOT_RT_NTID + 2:
    return 1;
  case INGOT_RT_CTAID:
  case INGOT_RT_CTAID + 1:
  case INGOT_RT_CTAID + 2:
    return block[which - INGOT_RT_CTAID];
  case INGOT_RT_NCTAID:
  case INGOT_RT_NCTAID + 1:
  case INGOT_RT_NCTAID + 2:
    return current->grid[which - INGOT_RT_NCTAID];
  case INGOT_RT_LANEID:
    return running % warpSize;
  default:
    return running / warpSize;
  }
}

namespace {

class EmulatedDevice final : public Device {
public:
  EmulatedDevice(const ingot_rt_model *model, Emulator::Options options) : emulator(model, options) {}

  void launch(const ingot_rt_launch &launch) override { emulator.launch(launch); }
  const char *fault() const override { return emulator.fault(); }
  std::string description() const override { return "emulator"; }

private:
  Emulator emulator;
};

/// Writes a line of JSON for each launch and runs none of them: which kernels a model of any size asks for, and how
/// many blocks of each.
class LaunchList final : public Device {
public:
  LaunchList(const ingot_rt_model *model, FILE *file) : model(model), file(file, fclose) {}

  void launch(const ingot_rt_launch &launch) override {
    const char *op = model && launch.op < model->op_count ? model->ops[launch.op].name : "";
    fprintf(
        file.get(), "{\"kernel\": \"%s\", \"op\": \"%s\", \"layer\": %d, \"grid\": [%u, %u, %u], \"threads\": %u}\n",
        launch.kernel->name, op, launch.layer, launch.grid[0], launch.grid[1], launch.grid[2], launch.kernel->threads);
  }
  const char *fault() const override { return nullptr; }
  std::string description() const override { return "list of launches"; }

private:
  const ingot_rt_model *const model;
  const std::unique_ptr<FILE, int (*)(FILE *)> file;
};

Result<std::unique_ptr<Device>> openEmulator(const ingot_rt_model *model, const DeviceOptions &device) {
  if (device.number != 0)
    return makeUsageError("--device: expected 0, the emulator, got %u", device.number);
  if (const char *path = getenv("INGOT_EMULATOR_LAUNCHES")) {
    FILE *file = fopen(path, "we");
    if (!file)
      return makeError("INGOT_EMULATOR_LAUNCHES: %s: %s", path, strerror(errno));
    return std::unique_ptr<Device>(std::make_unique<LaunchList>(model, file));
  }
  Result<Emulator::Options> options = Emulator::optionsFromEnvironment();
  if (!options)
    return options.takeError();
  return std::unique_ptr<Device>(std::make_unique<EmulatedDevice>(model, *options));
}

} // namespace

} // namespace ingot::rt

using ingot::rt::active;

extern "C" {

const ingot_rt_device ingot_rt_emulator = {"emulator", false, ingot::rt::openEmulator};

uint32_t ingot_rt_emulate_special(uint32_t which) { return active->special(which); }

void *ingot_rt_emulate_shared(uint32_t offset) { return active->shared(offset); }

void ingot_rt_emulate_access(const void *address, uint32_t bytes, uint32_t isStore, const char *what) {
  active->access(address, bytes, isStore != 0, what);
}

void ingot_rt_emulate_barrier(uint32_t barrier, const char *what) { active->barrier(barrier, what); }

uint64_t ingot_rt_emulate_shuffle(uint32_t kind, uint32_t memberMask, uint32_t value, uint32_t b, uint32_t c,
                                  const char *what) {
  return active->shuffle(kind, memberMask, value, b, c, what);
}

uint32_t ingot_rt_emulate_vote(uint32_t kind, uint32_t memberMask, uint32_t predicate, const char *what) {
  return active->vote(kind, memberMask, predicate, what);
}

void ingot_rt_emulate_mma(uint32_t kind, const uint32_t *a, const uint32_t *b, float *accumulators, const char *what) {
  active->mma(kind, a, b, accumulators, what);
}

void ingot_rt_emulate_load_matrix(const void *row, uint32_t count, uint32_t transposed, uint32_t *registers,
                                  const char *what) {
  active->loadMatrix(row, count, transposed != 0, registers, what);
}

void ingot_rt_emulate_copy(void *to, const void *from, uint32_t bytes, uint32_t sourceBytes, const char *what) {
  active->copy(to, from, bytes, sourceBytes, what);
}

uint64_t ingot_rt_emulate_atomic(uint32_t kind, uint32_t type, void *address, uint64_t value, uint64_t compare,
                                 const char *what) {
  return active->atomic(kind, type, address, value, compare, what);
}

void ingot_rt_emulate_copy_commit(void) { active->commitCopies(); }

void ingot_rt_emulate_copy_wait(uint32_t pending) { active->waitForCopies(pending); }

} // extern "C"
