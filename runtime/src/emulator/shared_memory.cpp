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

std::string SharedMemory::conflict(const Byte &byte, uint32_t offset, uint32_t thread) const {
  if (byte.storeEpoch == epoch && byte.storer != thread)
    return formatText("races with thread %u, which has written byte %u of shared memory since the last barrier",
                      byte.storer, offset);
  if (byte.loadEpoch != epoch || byte.loader == thread)
    return {};
  if (byte.loader == several)
    return formatText("races with other threads, which have read byte %u of shared memory since the last barrier",
                      offset);
  return formatText("races with thread %u, which has read byte %u of shared memory since the last barrier", byte.loader,
                    offset);
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

std::string SharedMemory::access(uint32_t offset, uint32_t bytes, bool isStore, uint32_t thread) {
  for (uint32_t i = 0; i < bytes; ++i) {
    Byte &byte = shadow[offset + i];
    if (byte.copier != nobody)
      return inFlight(offset + i, byte.copier);
    if (isStore) {
      if (std::string wrong = conflict(byte, offset + i, thread); !wrong.empty())
        return wrong;
      byte.storeEpoch = epoch;
      byte.storer = thread;
      continue;
    }
    if (byte.storeEpoch == 0)
      return formatText("reads byte %u of shared memory, which no thread of the block has written", offset + i);
    if (byte.storeEpoch == epoch && byte.storer != thread)
      return formatText("races with thread %u, which has written byte %u of shared memory since the last barrier",
                        byte.storer, offset + i);
    if (byte.loadEpoch != epoch)
      byte.loader = thread;
    else if (byte.loader != thread)
      byte.loader = several;
    byte.loadEpoch = epoch;
  }
  return {};
}

} // namespace ingot::rt
