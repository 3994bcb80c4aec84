// 128-bit content hashes (XXH3): sections, blocks of the cache, rows of logits.
#ifndef INGOT_RUNTIME_SUPPORT_HASH_H
#define INGOT_RUNTIME_SUPPORT_HASH_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace ingot::rt {

/// XXH3-128 in the order that image.h stores it.
struct Hash {
  uint64_t low = 0, high = 0;
  friend bool operator==(const Hash &, const Hash &) = default;
};

Hash hashBytes(const void *data, size_t size);

/// 32 hexadecimal digits, the high half first, as xxhsum prints it.
std::string hashText(Hash hash);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_SUPPORT_HASH_H
