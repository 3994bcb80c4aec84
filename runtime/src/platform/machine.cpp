// Reads sched_getaffinity, /sys and /proc where they exist; an empty root falls back to cpuid and sysinfo.
#include "platform/machine.h"

#include "support/error.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <set>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>
#include <utility>
#include <vector>
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace ingot::rt {

namespace {

/// The first bytes of a small file, empty when it cannot be read.
std::string readSmallFile(const std::string &path) {
  std::string text;
  if (FILE *file = fopen(path.c_str(), "re")) {
    char buffer[4096];
    while (size_t count = fread(buffer, 1, sizeof buffer, file))
      text.append(buffer, count);
    fclose(file);
  }
  return text;
}

/// A decimal number at the start of `text`; false when there is none ("max", an empty file).
bool parseNumber(const std::string &text, uint64_t &value) {
  char *end = nullptr;
  value = strtoull(text.c_str(), &end, 10);
  return end != text.c_str();
}

/// The value after `key` in a file of "key value" or "key: value" lines.
bool findField(const std::string &text, const char *key, uint64_t &value) {
  size_t length = strlen(key);
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, length, key) == 0) {
      size_t digits = text.find_first_of("0123456789\n", at + length);
      return digits != std::string::npos && parseNumber(text.substr(digits), value);
    }
    at = text.find('\n', at);
    at = at == std::string::npos ? text.size() : at + 1;
  }
  return false;
}

/// Directories of the control groups this process is in, innermost first, for cgroup v2 (controller empty) or one
/// controller of v1. Inside a container the path may not exist below the mount; the mount's root then stands for it.
std::vector<std::string> cgroupFolders(const char *controller) {
  std::string list = readSmallFile("/proc/self/cgroup"), path;
  for (size_t at = 0; at < list.size();) {
    size_t end = std::min(list.find('\n', at), list.size());
    std::string line = list.substr(at, end - at);
    at = end + 1;
    size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    bool wanted = *controller ? names.find("," + std::string(controller) + ",") != std::string::npos : names == ",,";
    if (wanted)
      path = line.substr(second + 1);
  }
  std::string mount = *controller ? std::string("/sys/fs/cgroup/") + controller : "/sys/fs/cgroup";
  std::vector<std::string> folders;
  while (!path.empty() && path != "/") {
    folders.push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

/// The container's CPU quota in CPUs, or infinity (0).
double cpuQuota() {
  double least = 0;
  auto consider = [&](double quota) {
    if (quota > 0 && (least == 0 || quota < least))
      least = quota;
  };
  for (const std::string &folder : cgroupFolders("")) {
    std::string text = readSmallFile(folder + "/cpu.max");
    uint64_t quota, period;
    size_t space = text.find(' ');
    if (space != std::string::npos && parseNumber(text, quota) && parseNumber(text.substr(space + 1), period) && period)
      consider(static_cast<double>(quota) / static_cast<double>(period));
  }
  for (const std::string &folder : cgroupFolders("cpu")) {
    uint64_t quota, period;
    std::string text = readSmallFile(folder + "/cpu.cfs_quota_us");
    if (!text.starts_with('-') && parseNumber(text, quota) &&
        parseNumber(readSmallFile(folder + "/cpu.cfs_period_us"), period) && period)
      consider(static_cast<double>(quota) / static_cast<double>(period));
  }
  return least;
}

/// Hardware threads of a core, from cpuid's topology leaf, for systems without /sys. Cores of AArch64 have one.
uint32_t threadsPerCore() {
#ifdef __x86_64__
  uint32_t a, b, c, d;
  if (__get_cpuid_count(0xb, 0, &a, &b, &c, &d) && ((c >> 8) & 255) == 1 && (b & 0xffff) != 0)
    return b & 0xffff;
#endif
  return 1;
}

} // namespace

Cores findCores() {
  Cores cores;
  std::vector<size_t> cpus;
  // The kernel's mask may be longer than cpu_set_t: grow until it fits.
  for (size_t count = 1024; count <= (size_t(1) << 20); count *= 2) {
    cpu_set_t *set = CPU_ALLOC(count);
    size_t bytes = CPU_ALLOC_SIZE(count);
    bool known = sched_getaffinity(0, bytes, set) == 0;
    for (size_t cpu = 0; known && cpu < count; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set))
        cpus.push_back(cpu);
    CPU_FREE(set);
    if (known)
      break;
  }
  if (cpus.empty())
    return cores;
  cores.logical = static_cast<uint32_t>(cpus.size());
  std::set<std::pair<std::string, std::string>> seen;
  bool listed = true;
  for (size_t cpu : cpus) {
    std::string folder = formatText("/sys/devices/system/cpu/cpu%zu/topology/", cpu);
    std::string core = readSmallFile(folder + "core_id"), package = readSmallFile(folder + "physical_package_id");
    listed &= !core.empty();
    seen.emplace(package, core);
  }
  cores.physical = listed ? static_cast<uint32_t>(seen.size()) : std::max(1u, cores.logical / threadsPerCore());
  cores.allowed = cores.physical;
  if (double quota = cpuQuota(); quota > 0 && quota < cores.allowed) {
    auto whole = static_cast<uint32_t>(quota);
    cores.allowed = std::max(1u, whole + (quota > whole ? 1u : 0u));
  }
  return cores;
}

MemoryBudget findMemoryBudget() {
  MemoryBudget budget{UINT64_MAX, "unknown"};
  auto consider = [&](uint64_t bytes, const char *source) {
    if (bytes < budget.bytes)
      budget = {bytes, source};
  };
  uint64_t kilobytes;
  if (findField(readSmallFile("/proc/meminfo"), "MemAvailable", kilobytes))
    consider(kilobytes * 1024, "available memory");
  else if (struct sysinfo info; sysinfo(&info) == 0)
    consider((static_cast<uint64_t>(info.freeram) + info.bufferram) * info.mem_unit, "free memory");

  auto considerGroup = [&](const std::string &folder, const char *limitName, const char *usedName) {
    uint64_t limit, used = 0;
    if (!parseNumber(readSmallFile(folder + limitName), limit) || limit > (uint64_t(1) << 60))
      return;
    findField(readSmallFile(folder + "/memory.stat"), usedName, used);
    consider(limit > used ? limit - used : 0, "the container's memory limit");
  };
  for (const std::string &folder : cgroupFolders(""))
    considerGroup(folder, "/memory.max", "anon ");
  for (const std::string &folder : cgroupFolders("memory"))
    considerGroup(folder, "/memory.limit_in_bytes", "total_rss ");

  if (struct rlimit limit; getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    consider(limit.rlim_cur, "the address space limit (ulimit -v)");
  uint64_t forced;
  if (const char *text = getenv("INGOT_MEMORY_LIMIT"); text && parseNumber(text, forced))
    consider(forced, "INGOT_MEMORY_LIMIT");
  return budget;
}

uint64_t pageSize() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

} // namespace ingot::rt
