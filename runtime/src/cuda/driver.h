// The CUDA driver's functions that Ingot calls, found in libcuda.so.1 when the program runs. No header of CUDA is
// needed to build: types and names are those of the CUDA driver API's reference, where a test compares them with
// cuda.h.
#ifndef INGOT_RUNTIME_CUDA_DRIVER_H
#define INGOT_RUNTIME_CUDA_DRIVER_H

#include "support/error.h"

#include <cstddef>
#include <cstdint>

namespace ingot::rt::cuda {

using Status = int; ///< CUresult
using Device = int;
using Address = unsigned long long; ///< CUdeviceptr
using Context = struct ContextRecord *;
using Module = struct ModuleRecord *;
using Function = struct FunctionRecord *;
using Stream = struct StreamRecord *;
using Event = struct EventRecord *;
using Graph = struct GraphRecord *;
using GraphExec = struct GraphExecRecord *;

// CUresult
constexpr Status success = 0, outOfMemory = 2, noDevice = 100, invalidImage = 200, noBinaryForGpu = 209,
                 invalidPtx = 218, unsupportedPtxVersion = 222;
// CUdevice_attribute
constexpr int computeCapabilityMajor = 75, computeCapabilityMinor = 76;
constexpr unsigned eventDisableTiming = 2, streamNonBlocking = 1;
/// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr int captureThreadLocal = 1;

/// Each function: the name in this table, the symbol in the library (with the version whose meaning it has), what it
/// takes.
#define INGOT_CUDA_FUNCTIONS(X)                                                                                        \
  X(init, cuInit, (unsigned))                                                                                          \
  X(driverVersion, cuDriverGetVersion, (int *))                                                                        \
  X(errorName, cuGetErrorName, (Status, const char **))                                                                \
  X(deviceCount, cuDeviceGetCount, (int *))                                                                            \
  X(deviceGet, cuDeviceGet, (Device *, int))                                                                           \
  X(deviceName, cuDeviceGetName, (char *, int, Device))                                                                \
  X(deviceAttribute, cuDeviceGetAttribute, (int *, int, Device))                                                       \
  X(retainContext, cuDevicePrimaryCtxRetain, (Context *, Device))                                                      \
  X(releaseContext, cuDevicePrimaryCtxRelease_v2, (Device))                                                            \
  X(setContext, cuCtxSetCurrent, (Context))                                                                            \
  X(loadModule, cuModuleLoadDataEx, (Module *, const void *, unsigned, int *, void **))                                \
  X(unloadModule, cuModuleUnload, (Module))                                                                            \
  X(getFunction, cuModuleGetFunction, (Function *, Module, const char *))                                              \
  X(memoryInfo, cuMemGetInfo_v2, (size_t *, size_t *))                                                                 \
  X(allocate, cuMemAlloc_v2, (Address *, size_t))                                                                      \
  X(release, cuMemFree_v2, (Address))                                                                                  \
  X(allocateHost, cuMemAllocHost_v2, (void **, size_t))                                                                \
  X(releaseHost, cuMemFreeHost, (void *))                                                                              \
  X(copyToDevice, cuMemcpyHtoDAsync_v2, (Address, const void *, size_t, Stream))                                       \
  X(copyToHost, cuMemcpyDtoHAsync_v2, (void *, Address, size_t, Stream))                                               \
  X(copyInside, cuMemcpyDtoDAsync_v2, (Address, Address, size_t, Stream))                                              \
  X(fillBytes, cuMemsetD8Async, (Address, unsigned char, size_t, Stream))                                              \
  X(createStream, cuStreamCreate, (Stream *, unsigned))                                                                \
  X(destroyStream, cuStreamDestroy_v2, (Stream))                                                                       \
  X(synchronize, cuStreamSynchronize, (Stream))                                                                        \
  X(createEvent, cuEventCreate, (Event *, unsigned))                                                                   \
  X(destroyEvent, cuEventDestroy_v2, (Event))                                                                          \
  X(recordEvent, cuEventRecord, (Event, Stream))                                                                       \
  X(waitForEvent, cuEventSynchronize, (Event))                                                                         \
  X(launchKernel, cuLaunchKernel,                                                                                      \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **, void **))        \
  X(beginCapture, cuStreamBeginCapture_v2, (Stream, int))                                                              \
  X(endCapture, cuStreamEndCapture, (Stream, Graph *))                                                                 \
  X(instantiateGraph, cuGraphInstantiateWithFlags, (GraphExec *, Graph, unsigned long long))                           \
  X(destroyGraph, cuGraphDestroy, (Graph))                                                                             \
  X(launchGraph, cuGraphLaunch, (GraphExec, Stream))                                                                   \
  X(destroyGraphExec, cuGraphExecDestroy, (GraphExec))

/// The library's functions.
struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration has none.
#define INGOT_CUDA_FIELD(name, symbol, parameters) Status(*name) parameters = nullptr;
  INGOT_CUDA_FUNCTIONS(INGOT_CUDA_FIELD)
#undef INGOT_CUDA_FIELD

  /// Loads libcuda.so.1 and initializes it. Errors: there is none, it is older than `leastVersion` (as
  /// cuDriverGetVersion counts: 1000 major + 10 minor), there is no device.
  static Result<Driver> load(uint32_t leastVersion);
  /// "CUDA_ERROR_NO_DEVICE", or the number.
  std::string nameOf(Status status) const;
};

} // namespace ingot::rt::cuda
#endif // INGOT_RUNTIME_CUDA_DRIVER_H
