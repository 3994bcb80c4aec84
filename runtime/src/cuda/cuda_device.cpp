// A GPU behind the driver: one stream on which everything is asked for in order, kernels found once when the device is
// opened (so that recording finds them loaded), and a graph for each recorded step.
#include "cuda/driver.h"
#include "device/device.h"
#include "support/checked.h"

#include <cinttypes>
#include <cstring>
#include <unordered_map>

namespace ingot::rt {

namespace {

using cuda::Driver;
using cuda::Status;

class CudaDevice final : public Device, public DeviceMemory {
public:
  CudaDevice(const Driver &driver, uint32_t number) : driver(driver), number(number) {}
  ~CudaDevice() override;
  Error open(const ingot_rt_cuda_code &code);

  void launch(const ingot_rt_launch &launch) override;
  const char *fault() const override { return failure.empty() ? nullptr : failure.c_str(); }
  DeviceMemory *memory() override { return this; }
  std::string description() const override { return formatText("%s (sm_%d)", name, capability); }

  Result<uint64_t> available() override;
  Result<uint8_t *> allocate(uint64_t bytes, const char *purpose) override;
  void release(uint8_t *memory) override { check(driver.release(address(memory)), "cuMemFree"); }
  Result<uint8_t *> allocateHost(uint64_t bytes, const char *purpose) override;
  void releaseHost(uint8_t *memory) override { check(driver.releaseHost(memory), "cuMemFreeHost"); }
  void upload(uint8_t *to, const void *from, uint64_t bytes) override {
    if (bytes && !fault())
      check(driver.copyToDevice(address(to), from, bytes, stream), "cuMemcpyHtoDAsync");
  }
  void download(void *to, const uint8_t *from, uint64_t bytes) override {
    if (bytes && !fault())
      check(driver.copyToHost(to, address(from), bytes, stream), "cuMemcpyDtoHAsync");
  }
  void copy(uint8_t *to, const uint8_t *from, uint64_t bytes) override {
    if (bytes && !fault())
      check(driver.copyInside(address(to), address(from), bytes, stream), "cuMemcpyDtoDAsync");
  }
  void clear(uint8_t *to, uint64_t bytes) override {
    if (bytes && !fault())
      check(driver.fillBytes(address(to), 0, bytes, stream), "cuMemsetD8Async");
  }
  void mark(uint32_t index) override { check(driver.recordEvent(events[index], stream), "cuEventRecord"); }
  void waitFor(uint32_t index) override { check(driver.waitForEvent(events[index]), "cuEventSynchronize"); }
  Error finish() override;
  bool replay(uint64_t key) override;
  void record() override;
  void endRecording(uint64_t key, bool keep) override;

private:
  static cuda::Address address(const uint8_t *memory) { return reinterpret_cast<cuda::Address>(memory); }
  /// Remembers the first failure.
  void check(Status status, const char *what) {
    if (status != cuda::success && failure.empty())
      failure = formatText("GPU %u, %s: %s: %s", number, name, what, driver.nameOf(status).c_str());
  }
  Error loadKernels(const ingot_rt_cuda_code &code);

  const Driver driver;
  const uint32_t number;
  char name[128] = "";
  int capability = 0; ///< 90 for sm_90
  cuda::Device device = 0;
  cuda::Context context = nullptr;
  cuda::Module module = nullptr;
  cuda::Stream stream = nullptr;
  cuda::Event events[marks] = {};
  std::unordered_map<const ingot_rt_kernel *, cuda::Function> functions;
  /// Recorded steps.
  std::unordered_map<uint64_t, cuda::GraphExec> graphs;
  std::string failure;
};

CudaDevice::~CudaDevice() {
  for (const auto &[key, graph] : graphs)
    driver.destroyGraphExec(graph);
  for (cuda::Event event : events)
    if (event)
      driver.destroyEvent(event);
  if (stream)
    driver.destroyStream(stream);
  if (module)
    driver.unloadModule(module);
  if (context)
    driver.releaseContext(device);
}

Error CudaDevice::open(const ingot_rt_cuda_code &code) {
  int count = 0, major = 0, minor = 0;
  if (Status status = driver.deviceCount(&count); status != cuda::success)
    return makeError("cuDeviceGetCount: %s", driver.nameOf(status).c_str());
  if (count <= 0)
    return makeError("no NVIDIA GPU: the driver finds no device (CUDA_VISIBLE_DEVICES may hide them)");
  if (number >= static_cast<uint32_t>(count))
    return makeError("--device: expected 0 to %d, the GPUs that the driver finds, got %u", count - 1, number);
  check(driver.deviceGet(&device, static_cast<int>(number)), "cuDeviceGet");
  check(driver.deviceName(name, sizeof name, device), "cuDeviceGetName");
  check(driver.deviceAttribute(&major, cuda::computeCapabilityMajor, device), "cuDeviceGetAttribute");
  check(driver.deviceAttribute(&minor, cuda::computeCapabilityMinor, device), "cuDeviceGetAttribute");
  capability = 10 * major + minor;
  if (!fault())
    check(driver.retainContext(&context, device), "cuDevicePrimaryCtxRetain");
  if (!fault())
    check(driver.setContext(context), "cuCtxSetCurrent");
  if (fault())
    return Error(failure);
  if (Error error = loadKernels(code))
    return error;
  check(driver.createStream(&stream, cuda::streamNonBlocking), "cuStreamCreate");
  for (cuda::Event &event : events)
    if (!fault())
      check(driver.createEvent(&event, cuda::eventDisableTiming), "cuEventCreate");
  return fault() ? Error(failure) : Error();
}

Error CudaDevice::loadKernels(const ingot_rt_cuda_code &code) {
  Status status = driver.loadModule(&module, code.fatbin, 0, nullptr, nullptr);
  if (status == cuda::noBinaryForGpu || status == cuda::invalidPtx || status == cuda::unsupportedPtxVersion)
    return makeError("GPU %u, %s, is sm_%d: this program has code for %s (--cuda-arch of ingotc)", number, name,
                     capability, code.architectures);
  if (status != cuda::success)
    return makeError("GPU %u, %s: the kernels cannot be loaded: %s", number, name, driver.nameOf(status).c_str());
  for (uint32_t i = 0; i < code.kernel_count && !fault(); ++i) {
    cuda::Function function = nullptr;
    status = driver.getFunction(&function, module, code.kernels[i]->name);
    if (status != cuda::success)
      return makeError("GPU %u, %s: kernel %s is not in the code: %s", number, name, code.kernels[i]->name,
                       driver.nameOf(status).c_str());
    functions.emplace(code.kernels[i], function);
  }
  return {};
}

void CudaDevice::launch(const ingot_rt_launch &launch) {
  if (fault() || launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0)
    return;
  auto known = functions.find(launch.kernel);
  constexpr uint32_t mostArguments = 64;
  if (known == functions.end() || launch.kernel->argument_count > mostArguments) {
    failure = formatText("GPU %u: kernel %s of %u arguments is not one of this program's", number, launch.kernel->name,
                         launch.kernel->argument_count);
    return;
  }
  // The driver reads as many bytes of each argument as the kernel declares: the lower ones of an argument's eight.
  void *arguments[mostArguments];
  for (uint32_t i = 0; i < launch.kernel->argument_count; ++i)
    arguments[i] = const_cast<uint64_t *>(launch.arguments + i);
  Status status =
      driver.launchKernel(known->second, launch.grid[0], launch.grid[1], launch.grid[2], launch.kernel->threads, 1, 1,
                          /*dynamic shared memory=*/0, stream, arguments, nullptr);
  if (status != cuda::success)
    check(status, formatText("kernel %s on a grid of %u x %u x %u", launch.kernel->name, launch.grid[0], launch.grid[1],
                             launch.grid[2])
                      .c_str());
}

Result<uint64_t> CudaDevice::available() {
  size_t free = 0, total = 0;
  if (Status status = driver.memoryInfo(&free, &total); status != cuda::success)
    return makeError("GPU %u, %s: cuMemGetInfo: %s", number, name, driver.nameOf(status).c_str());
  return static_cast<uint64_t>(free);
}

Result<uint8_t *> CudaDevice::allocate(uint64_t bytes, const char *purpose) {
  cuda::Address result = 0;
  Status status = driver.allocate(&result, bytes);
  if (status == cuda::success)
    return reinterpret_cast<uint8_t *>(result);
  if (status != cuda::outOfMemory)
    return makeError("GPU %u, %s: cuMemAlloc: %s", number, name, driver.nameOf(status).c_str());
  Result<uint64_t> free = available();
  return makeError("GPU %u, %s: out of memory: %" PRIu64 " bytes for %s, %" PRIu64 " are free", number, name, bytes,
                   purpose, free ? *free : 0);
}

Result<uint8_t *> CudaDevice::allocateHost(uint64_t bytes, const char *purpose) {
  void *result = nullptr;
  Status status = driver.allocateHost(&result, bytes);
  if (status != cuda::success)
    return makeError("%" PRIu64 " bytes of page-locked memory for %s: %s", bytes, purpose,
                     driver.nameOf(status).c_str());
  memset(result, 0, bytes);
  return static_cast<uint8_t *>(result);
}

Error CudaDevice::finish() {
  if (!fault())
    check(driver.synchronize(stream), "cuStreamSynchronize");
  return fault() ? Error(failure) : Error();
}

bool CudaDevice::replay(uint64_t key) {
  auto known = graphs.find(key);
  if (known == graphs.end())
    return false;
  if (!fault())
    check(driver.launchGraph(known->second, stream), "cuGraphLaunch");
  return true;
}

void CudaDevice::record() {
  if (!fault())
    check(driver.beginCapture(stream, cuda::captureThreadLocal), "cuStreamBeginCapture");
}

void CudaDevice::endRecording(uint64_t key, bool keep) {
  cuda::Graph graph = nullptr;
  cuda::GraphExec ready = nullptr;
  check(driver.endCapture(stream, &graph), "cuStreamEndCapture");
  keep = keep && !fault();
  if (keep)
    check(driver.instantiateGraph(&ready, graph, 0), "cuGraphInstantiate");
  if (graph)
    driver.destroyGraph(graph);
  if (!keep || fault())
    return;
  graphs.emplace(key, ready);
  replay(key);
}

Result<std::unique_ptr<Device>> openCuda(const ingot_rt_model *, const DeviceOptions &options) {
  const ingot_rt_cuda_code &code = ingot_rt_the_cuda_code;
  if (code.size != sizeof code)
    return makeError("the description of device code has %" PRIu64 " bytes, the runtime expects %zu", code.size,
                     sizeof code);
  Result<Driver> driver = Driver::load(code.driver);
  if (!driver)
    return driver.takeError();
  auto device = std::make_unique<CudaDevice>(*driver, options.number);
  if (Error error = device->open(code))
    return error;
  return std::unique_ptr<Device>(std::move(device));
}

} // namespace

} // namespace ingot::rt

extern "C" {
const ingot_rt_device ingot_rt_cuda = {"GPU", true, ingot::rt::openCuda};
}
