// What this process may use of the machine: cores under affinity and quota, memory under the container's limit.
#ifndef INGOT_RUNTIME_PLATFORM_MACHINE_H
#define INGOT_RUNTIME_PLATFORM_MACHINE_H

#include <cstdint>
#include <string>

namespace ingot::rt {

/// Cores this process may keep busy.
struct Cores {
  uint32_t logical = 1;  ///< CPUs in the affinity mask
  uint32_t physical = 1; ///< distinct cores among them
  uint32_t allowed = 1;  ///< physical, capped by the container's CPU quota (rounded up): the default number of workers
};
Cores findCores();

/// Bytes this process may still take.
struct MemoryBudget {
  uint64_t bytes = 0;
  std::string source; ///< "the container's limit", "available memory", ...
};
/// The least of: available memory, every cgroup's limit less what is in use there and cannot be reclaimed, the address
/// space limit, and INGOT_MEMORY_LIMIT (bytes), which tests set.
MemoryBudget findMemoryBudget();

uint64_t pageSize();

/// Seconds on a clock that never goes back.
double now();

} // namespace ingot::rt
#endif // INGOT_RUNTIME_PLATFORM_MACHINE_H
