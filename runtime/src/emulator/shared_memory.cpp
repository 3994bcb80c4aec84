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

std::string SharedMemory::access(uint32_t offset, uint32_t bytes, bool isStore, uint32_t thread) {
  for (uint32_t i = 0; i < bytes; ++i) {
    Byte &byte = shadow[offset + i];
    if (!isStore && byte.storeEpoch == 0)
      return formatText("reads byte %u of shared memory, which no thread of the block has written", offset + i);
    if (byte.storeEpoch == epoch && byte.storer != thread)
      return formatText("races with thread %u, which has written byte %u of shared memory since the last barrier",
                        byte.storer, offset + i);
    if (!isStore) {
      if (byte.loadEpoch != epoch)
        byte.loader = thread;
      else if (byte.loader != thread)
        byte.loader = several;
      byte.loadEpoch = epoch;
      continue;
    }
    if (byte.loadEpoch == epoch && byte.loader != thread) {
      if (byte.loader == several)
        return formatText("races with other threads, which have read byte %u of shared memory since the last barrier",
                          offset + i);
      return formatText("races with thread %u, which has read byte %u of shared memory since the last barrier",
                        byte.loader, offset + i);
    }
    byte.storeEpoch = epoch;
    byte.storer = thread;
  }
  return {};
}

} // namespace ingot::rt
