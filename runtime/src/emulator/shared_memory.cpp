// Races and uninitialized loads, byte by byte.
#include "emulator/shared_memory.h"

#include "support/error.h"

namespace ingot::rt {

void SharedMemory::startBlock(uint32_t bytes) {
  // Not zero, so that what nobody wrote does not look like a result.
  memory.assign(bytes, 0xcd);
  shadow.assign(bytes, Byte());
  epoch = 1;
}

/// Whom an access meets, and how.
static std::string race(uint32_t other, const char *did, uint32_t offset) {
  return formatText("races with thread %u, which has %s byte %u of shared memory since the last barrier", other, did,
                    offset);
}

std::string SharedMemory::afterStore(const Byte &byte, uint32_t offset, uint32_t thread) const {
  return byte.storeEpoch == epoch && byte.storer != thread ? race(byte.storer, "written", offset) : std::string();
}

std::string SharedMemory::afterLoad(const Byte &byte, uint32_t offset, uint32_t thread) const {
  if (byte.loadEpoch != epoch || byte.loader == thread)
    return {};
  if (byte.loader == several)
    return formatText("races with other threads, which have read byte %u of shared memory since the last barrier",
                      offset);
  return race(byte.loader, "read", offset);
}

std::string SharedMemory::afterAtomic(const Byte &byte, uint32_t offset, uint32_t thread) const {
  if (byte.changeEpoch != epoch || byte.changer == thread)
    return {};
  if (byte.changer == several)
    return formatText("races with other threads, which have changed byte %u of shared memory atomically since the last "
                      "barrier",
                      offset);
  return race(byte.changer, "atomically changed", offset);
}

std::string SharedMemory::conflict(const Byte &byte, uint32_t offset, uint32_t thread) const {
  std::string wrong = afterStore(byte, offset, thread);
  if (wrong.empty())
    wrong = afterLoad(byte, offset, thread);
  return wrong.empty() ? afterAtomic(byte, offset, thread) : wrong;
}

/// Of a byte that a copy in flight may write at any time.
static std::string inFlight(uint32_t offset, uint32_t copier) {
  return formatText(
      "touches byte %u of shared memory, where a copy of thread %u is in flight: it has not waited for it", offset,
      copier);
}

std::string SharedMemory::startCopy(uint32_t offset, uint32_t bytes, uint32_t thread) {
  for (uint32_t i = 0; i < bytes; ++i) {
    Byte &byte = shadow[offset + i];
    if (byte.copier != nobody)
      return inFlight(offset + i, byte.copier);
    if (std::string wrong = conflict(byte, offset + i, thread); !wrong.empty())
      return wrong;
    byte.copier = thread;
  }
  return {};
}

void SharedMemory::endCopy(uint32_t offset, uint32_t bytes, uint32_t thread) {
  for (uint32_t i = 0; i < bytes; ++i) {
    Byte &byte = shadow[offset + i];
    byte.copier = nobody;
    byte.storeEpoch = epoch;
    byte.storer = thread;
  }
}

std::string SharedMemory::access(uint32_t offset, uint32_t bytes, Access access, uint32_t thread) {
  auto note = [&](uint32_t &lastEpoch, uint32_t &who) {
    who = lastEpoch != epoch || who == thread ? thread : several;
    lastEpoch = epoch;
  };
  for (uint32_t i = 0; i < bytes; ++i) {
    Byte &byte = shadow[offset + i];
    if (byte.copier != nobody)
      return inFlight(offset + i, byte.copier);
    if (access == Access::Store) {
      if (std::string wrong = conflict(byte, offset + i, thread); !wrong.empty())
        return wrong;
      byte.storeEpoch = epoch;
      byte.storer = thread;
      continue;
    }
    if (byte.storeEpoch == 0)
      return formatText("reads byte %u of shared memory, which no thread of the block has written", offset + i);
    if (std::string wrong = afterStore(byte, offset + i, thread); !wrong.empty())
      return wrong;
    if (access == Access::Load) {
      if (std::string wrong = afterAtomic(byte, offset + i, thread); !wrong.empty())
        return wrong;
      note(byte.loadEpoch, byte.loader);
      continue;
    }
    if (std::string wrong = afterLoad(byte, offset + i, thread); !wrong.empty())
      return wrong;
    // Aligned to their size, two atomic operations touch the same bytes if they touch as many.
    if (byte.changeEpoch == epoch && byte.changed != bytes)
      if (std::string wrong = afterAtomic(byte, offset + i, thread); !wrong.empty())
        return wrong + formatText(" as one of %u bytes, not %u", byte.changed, bytes);
    note(byte.changeEpoch, byte.changer);
    byte.changed = bytes;
  }
  return {};
}

} // namespace ingot::rt
