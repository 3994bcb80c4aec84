// XXH3-128, compiled in: one header serves every architecture.
#include "support/hash.h"

#include "support/error.h"

#include <cinttypes>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ingot::rt {

Hash hashBytes(const void *data, size_t size) {
  XXH128_hash_t hash = XXH3_128bits(data, size);
  return {hash.low64, hash.high64};
}

std::string hashText(Hash hash) { return formatText("%016" PRIx64 "%016" PRIx64, hash.high, hash.low); }

} // namespace ingot::rt
