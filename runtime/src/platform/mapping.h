// Memory from the kernel: anonymous regions that cost nothing until touched, and read-only views of files.
#ifndef INGOT_RUNTIME_PLATFORM_MAPPING_H
#define INGOT_RUNTIME_PLATFORM_MAPPING_H

#include "support/error.h"

#include <cstdint>

namespace ingot::rt {

/// An mmap region, unmapped when it goes.
class Mapping {
public:
  Mapping() = default;
  Mapping(Mapping &&other) noexcept { *this = static_cast<Mapping &&>(other); }
  Mapping &operator=(Mapping &&other) noexcept;
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  ~Mapping();

  /// Zeroed private memory that is touched as it is used; `hugePages` asks for large pages where the system has them.
  static Result<Mapping> anonymous(uint64_t bytes, const char *purpose, bool hugePages);
  /// `bytes` of `descriptor` from `offset`, a multiple of the page size, read-only.
  static Result<Mapping> file(int descriptor, uint64_t offset, uint64_t bytes, const std::string &path);

  uint8_t *data() const { return address; }
  uint64_t size() const { return bytes; }

private:
  uint8_t *address = nullptr;
  uint64_t bytes = 0;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_PLATFORM_MAPPING_H
