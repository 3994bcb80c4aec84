// A thread of the emulator: a stack of its own, and a switch that saves what the calling convention says a call keeps.
#ifndef INGOT_RUNTIME_EMULATOR_FIBER_H
#define INGOT_RUNTIME_EMULATOR_FIBER_H

#include "platform/mapping.h"
#include "support/error.h"

#include <cstdint>

namespace ingot::rt {

/// Stacks for a number of fibers, with a page between them that nobody may touch, and the switch between the scheduler
/// and one of them.
class Fibers {
public:
  /// `entry(context)` must never return: it leaves through `pause`.
  using Entry = void (*)(void *context);

  /// Bytes of one stack, its guard page included.
  static constexpr uint64_t stackBytes = 64 * 1024;

  /// Reserves `count` stacks.
  Error reserve(uint32_t count);
  uint32_t count() const { return fiberCount; }

  /// Makes fiber `index` start at `entry` when it is resumed next.
  void prepare(uint32_t index, Entry entry, void *context);
  /// Runs fiber `index` until it pauses. Called by the scheduler only.
  void resume(uint32_t index);
  /// Back to the scheduler. Called by a fiber only.
  void pause();

private:
  uint8_t *stackTop(uint32_t index) { return stacks.data() + (uint64_t(index) + 1) * stackBytes; }

  Mapping stacks;
  uint32_t fiberCount = 0, current = 0;
  /// Saved stack pointers.
  Mapping saved;
  void **positions = nullptr;
  void *scheduler = nullptr;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_EMULATOR_FIBER_H
