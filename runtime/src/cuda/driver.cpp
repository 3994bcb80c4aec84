// Finding the driver.
#include "cuda/driver.h"

#include <dlfcn.h>

namespace ingot::rt::cuda {

static std::string versionText(uint32_t version) { return formatText("%u.%u", version / 1000, version % 1000 / 10); }

std::string Driver::nameOf(Status status) const {
  const char *name = nullptr;
  if (errorName && errorName(status, &name) == success && name)
    return name;
  return formatText("CUDA error %d", status);
}

Result<Driver> Driver::load(uint32_t leastVersion) {
  // For the life of the process: a driver cannot be unloaded.
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return makeError("no NVIDIA driver: this program runs on a GPU and needs the driver of CUDA %s or later (%s)",
                     versionText(leastVersion).c_str(), dlerror());
  Driver driver;
  const char *absent = nullptr;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (!function && !absent)
      absent = name;
  };
#define INGOT_CUDA_FIND(name, symbol, parameters) find(driver.name, #symbol);
  INGOT_CUDA_FUNCTIONS(INGOT_CUDA_FIND)
#undef INGOT_CUDA_FIND
  int version = 0;
  if (driver.driverVersion)
    driver.driverVersion(&version);
  if (absent || version < static_cast<int>(leastVersion))
    return makeError("the NVIDIA driver is too old: expected one of CUDA %s or later, got CUDA %s%s",
                     versionText(leastVersion).c_str(), versionText(static_cast<uint32_t>(version)).c_str(),
                     absent ? formatText(", without %s", absent).c_str() : "");
  Status status = driver.init(0);
  if (status == noDevice)
    return makeError("no NVIDIA GPU: the driver finds no device (CUDA_VISIBLE_DEVICES may hide them)");
  if (status != success)
    return makeError("the NVIDIA driver cannot be initialized: %s", driver.nameOf(status).c_str());
  return driver;
}

} // namespace ingot::rt::cuda
