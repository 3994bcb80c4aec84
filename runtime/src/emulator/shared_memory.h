// The shared memory of one emulated block, with a record of who touched each byte since the last barrier.
#ifndef INGOT_RUNTIME_EMULATOR_SHARED_MEMORY_H
#define INGOT_RUNTIME_EMULATOR_SHARED_MEMORY_H

#include <cstdint>
#include <string>
#include <vector>

namespace ingot::rt {

/// What a thread does to memory.
enum class Access { Load, Store, Atomic };

/// Two accesses of a byte by different threads, one of them a store, with no barrier of the whole block between them
/// are a race (PTX memory consistency model: conflicting, morally weak and unordered). An atomic operation is a load
/// and a store; two of them are none if they are of the same bytes. Since a thread of the emulator runs alone up to its
/// next barrier, every such pair of an execution is seen, whatever the order of threads.
class SharedMemory {
public:
  /// Forgets everything; `bytes` bytes that nobody has written.
  void startBlock(uint32_t bytes);
  /// A barrier of all threads: later accesses do not meet earlier ones.
  void barrier() { ++epoch; }

  uint8_t *data() { return memory.data(); }
  const uint8_t *data() const { return memory.data(); }
  uint32_t size() const { return static_cast<uint32_t>(memory.size()); }

  /// Records an access that lies inside. Returns what is wrong with it, or an empty text.
  std::string access(uint32_t offset, uint32_t bytes, Access access, uint32_t thread);

  /// A copy by the hardware (cp.async) on behalf of `thread`, which stores at some time between these two calls: nobody
  /// may touch its bytes in between, and to others it is a store of `thread` at its end. `startCopy` returns what is
  /// wrong, or an empty text.
  std::string startCopy(uint32_t offset, uint32_t bytes, uint32_t thread);
  void endCopy(uint32_t offset, uint32_t bytes, uint32_t thread);

private:
  static constexpr uint32_t nobody = UINT32_MAX, several = UINT32_MAX - 1;
  /// Epochs start at 1; 0: never. `copier`: whose copy is in flight. `changer`: whose atomic operation, on `changed`
  /// bytes.
  struct Byte {
    uint32_t storeEpoch = 0, storer = nobody, loadEpoch = 0, loader = nobody, copier = nobody;
    uint32_t changeEpoch = 0, changer = nobody, changed = 0;
  };

  /// What is wrong with an access by `thread` because of another thread's earlier one, or an empty text.
  std::string afterStore(const Byte &byte, uint32_t offset, uint32_t thread) const;
  std::string afterLoad(const Byte &byte, uint32_t offset, uint32_t thread) const;
  std::string afterAtomic(const Byte &byte, uint32_t offset, uint32_t thread) const;
  /// Of a store, what is wrong because of any.
  std::string conflict(const Byte &byte, uint32_t offset, uint32_t thread) const;

  std::vector<uint8_t> memory;
  std::vector<Byte> shadow;
  uint32_t epoch = 1;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_EMULATOR_SHARED_MEMORY_H
