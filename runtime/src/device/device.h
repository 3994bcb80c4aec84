// What runs the kernels that a step launches: the emulator on the host, or a GPU with memory of its own.
#ifndef INGOT_RUNTIME_DEVICE_DEVICE_H
#define INGOT_RUNTIME_DEVICE_DEVICE_H

#include "ingot_rt/abi.h"
#include "ingot_rt/device.h"
#include "support/error.h"

#include <memory>
#include <string>

namespace ingot::rt {

/// Memory that is not the host's, and the order in which it is used: copies, launches and marks are done one after the
/// other, after the calls that ask for them have returned.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;

  /// Bytes that are free.
  virtual Result<uint64_t> available() = 0;
  /// Memory of the device, aligned to 256 bytes; `purpose` is for the error. Its contents are undefined.
  virtual Result<uint8_t *> allocate(uint64_t bytes, const char *purpose) = 0;
  virtual void release(uint8_t *memory) = 0;
  /// Memory of the host from and to which the device copies by itself; zeroed.
  virtual Result<uint8_t *> allocateHost(uint64_t bytes, const char *purpose) = 0;
  virtual void releaseHost(uint8_t *memory) = 0;

  /// Copies. Memory from allocateHost must stay as it is until the copy is done; other host memory is waited for.
  virtual void upload(uint8_t *to, const void *from, uint64_t bytes) = 0;
  virtual void download(void *to, const uint8_t *from, uint64_t bytes) = 0;
  virtual void copy(uint8_t *to, const uint8_t *from, uint64_t bytes) = 0;
  /// Sets bytes of the device to zero.
  virtual void clear(uint8_t *to, uint64_t bytes) = 0;

  static constexpr uint32_t marks = 4;
  /// Sets mark `number` behind all that was asked for.
  virtual void mark(uint32_t number) = 0;
  /// Returns when all before mark `number` is done; at once if it was never set.
  virtual void waitFor(uint32_t number) = 0;
  /// Returns when everything is done. The first thing that went wrong since the device was opened is an error, here and
  /// from then on.
  virtual Error finish() = 0;

  /// Does what was recorded under `key` once more; false if nothing was.
  virtual bool replay(uint64_t key) = 0;
  /// From here to endRecording, copies and launches are recorded instead of done. With `keep` they are then done, and
  /// kept under `key`; without, forgotten.
  virtual void record() = 0;
  virtual void endRecording(uint64_t key, bool keep) = 0;
};

class Device {
public:
  virtual ~Device() = default;

  /// Runs a kernel, after all before it; may return before it has run.
  virtual void launch(const ingot_rt_launch &launch) = 0;
  /// The first thing that went wrong, or null. After it nothing is launched any more.
  virtual const char *fault() const = 0;
  /// Null where the device's memory is the host's.
  virtual DeviceMemory *memory() { return nullptr; }
  /// What it is: "NVIDIA H200 (sm_90)".
  virtual std::string description() const = 0;

  /// ingot_rt_step_args.launch, with the device as its context.
  static void launchOn(void *device, const ingot_rt_launch *launch) { static_cast<Device *>(device)->launch(*launch); }
};

struct DeviceOptions {
  uint32_t number = 0; ///< which of several
};

/// Bytes of each page-locked buffer through which weights go to a device; there are DeviceMemory::marks of them.
constexpr uint64_t uploadBufferBytes = uint64_t(16) << 20;

} // namespace ingot::rt

/// A kind of device; a variant's `device` is one.
struct ingot_rt_device {
  const char *name;
  bool ownMemory; ///< its devices have memory()
  /// `model` gives launches the names of their ops; it may be null and outlives the device.
  ingot::rt::Result<std::unique_ptr<ingot::rt::Device>> (*open)(const ingot_rt_model *model,
                                                                const ingot::rt::DeviceOptions &options);
};

#endif // INGOT_RUNTIME_DEVICE_DEVICE_H
