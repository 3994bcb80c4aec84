// mmap.
#include "platform/mapping.h"

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace ingot::rt {

Mapping &Mapping::operator=(Mapping &&other) noexcept {
  std::swap(address, other.address);
  std::swap(bytes, other.bytes);
  return *this;
}

Mapping::~Mapping() {
  if (address)
    munmap(address, bytes);
}

Result<Mapping> Mapping::anonymous(uint64_t bytes, const char *purpose, bool hugePages) {
  Mapping mapping;
  mapping.bytes = bytes == 0 ? 1 : bytes;
  void *address =
      mmap(nullptr, mapping.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return makeError("cannot reserve %" PRIu64 " bytes for %s: %s", bytes, purpose, strerror(errno));
  mapping.address = static_cast<uint8_t *>(address);
  if (hugePages)
    madvise(address, mapping.bytes, MADV_HUGEPAGE); // a hint: without it there are only more page faults
  return mapping;
}

Result<Mapping> Mapping::file(int descriptor, uint64_t offset, uint64_t bytes, const std::string &path) {
  Mapping mapping;
  void *address = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(offset));
  if (address == MAP_FAILED)
    return makeError("%s: cannot map %" PRIu64 " bytes at %" PRIu64 ": %s", path.c_str(), bytes, offset,
                     strerror(errno));
  mapping.address = static_cast<uint8_t *>(address);
  mapping.bytes = bytes;
  return mapping;
}

} // namespace ingot::rt
