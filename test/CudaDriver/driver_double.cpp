// A test double of NVIDIA's driver: a libcuda.so.1 that checks how it is used and runs kernels in the emulator, as code
// of the host that lies in the library which INGOT_DOUBLE_KERNELS names. It proves the host's part of an executable for
// GPUs (calls, contexts, order, lifetimes, recording), and nothing about a GPU.
//
// What is asked for on the stream is done when somebody waits, not before, and memory of the device cannot be touched
// by the host in between: who reads too early, or overwrites what is still to be copied, gets other values.
//
//   INGOT_DOUBLE_DRIVER    version of the driver (13000)      INGOT_DOUBLE_DEVICES  how many devices (1)
//   INGOT_DOUBLE_ARCH      compute capability (90)            INGOT_DOUBLE_MEMORY   bytes of a device (1 GiB)
//   INGOT_DOUBLE_REPORT    file that is told, at the end, what was done
//
// A wrong use is told on stderr and fails with the driver's error.
#include "emulator/emulator.h"
#include "ingot_rt/abi.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <sys/mman.h>
#include <vector>

using namespace ingot::rt;

namespace {

using Status = int;
constexpr Status success = 0, invalidValue = 1, outOfMemory = 2, notInitialized = 3, invalidContext = 201,
                 noBinaryForGpu = 209, invalidDevice = 101, invalidHandle = 400, notFound = 500, launchFailed = 719,
                 captureUnsupported = 900;

long setting(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text ? strtol(text, nullptr, 10) : otherwise;
}

/// Says what was wrong, and fails.
Status wrong(Status status, const std::string &what) {
  fprintf(stderr, "driver double: %s\n", what.c_str());
  return status;
}

/// A piece of the device's or of page-locked memory.
struct Allocation {
  uint64_t bytes = 0, mapped = 0;
  bool device = false;
};

/// A kernel of the module, as its cubin describes it.
struct Kernel {
  std::string name;
  std::vector<uint16_t> sizes; ///< bytes of each parameter
  const ingot_rt_kernel *host = nullptr;
};

struct Module {
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};

using Operation = std::function<Status()>;

struct Graph {
  std::vector<Operation> operations;
};

struct Stream {
  std::vector<Operation> queue; ///< asked for and not done
  std::unique_ptr<Graph> capturing;
};

struct Event {
  Stream *stream = nullptr;
  size_t position = 0; ///< operations before it when it was recorded
  uint64_t drained = 0;
};

struct State {
  bool initialized = false;
  int contexts = 0;
  std::map<uint64_t, Allocation> memory; ///< by start
  std::set<void *> streams, events, modules, graphs;
  uint64_t inUse = 0, peak = 0, launches = 0, recorded = 0, replays = 0, copied = 0, drains = 0;
  Status broken = success; ///< sticky, as a context is after a kernel failed
  Emulator emulator{nullptr, {}};
  void *kernels = nullptr;

  ~State() {
    const char *path = getenv("INGOT_DOUBLE_REPORT");
    FILE *file = path ? fopen(path, "we") : nullptr;
    if (!file)
      return;
    fprintf(file,
            "{\"launches\": %lu, \"graphs\": %lu, \"replays\": %lu, \"copied\": %lu, \"peak\": %lu, \"leaked\": %lu, "
            "\"open\": %zu}\n",
            launches, recorded, replays, copied, peak, inUse,
            memory.size() + streams.size() + events.size() + modules.size() + graphs.size() +
                static_cast<size_t>(contexts));
    fclose(file);
  }
};

// A double that cannot start may end the program.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
State state;
thread_local bool current = false;

Status ready() {
  if (!state.initialized)
    return wrong(notInitialized, "a call before cuInit");
  if (!current || state.contexts == 0)
    return wrong(invalidContext, "a call without a current context");
  return state.broken;
}

/// The allocation that holds `bytes` from `address` on, or null.
const Allocation *find(uint64_t address, uint64_t bytes, uint64_t *start = nullptr) {
  auto it = state.memory.upper_bound(address);
  if (it == state.memory.begin())
    return nullptr;
  --it;
  if (address - it->first > it->second.bytes || bytes > it->second.bytes - (address - it->first))
    return nullptr;
  if (start)
    *start = it->first;
  return &it->second;
}

void protect(bool open) {
  for (const auto &[start, allocation] : state.memory)
    if (allocation.device)
      mprotect(reinterpret_cast<void *>(start), allocation.mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/// Does what is asked for, in order.
Status drain(Stream &stream) {
  protect(true);
  for (const Operation &operation : stream.queue)
    if (state.broken == success)
      state.broken = operation();
  stream.queue.clear();
  ++state.drains;
  protect(false);
  return state.broken;
}

Status enqueue(void *handle, Operation operation) {
  if (!state.streams.count(handle))
    return wrong(invalidHandle, "a stream that does not exist");
  auto &stream = *static_cast<Stream *>(handle);
  (stream.capturing ? stream.capturing->operations : stream.queue).push_back(std::move(operation));
  return success;
}

bool capturing() {
  return std::any_of(state.streams.begin(), state.streams.end(),
                     [](void *stream) { return static_cast<Stream *>(stream)->capturing != nullptr; });
}

/// What must not be called while something is recorded.
Status notWhileRecording(const char *what) {
  if (Status status = ready())
    return status;
  return capturing() ? wrong(captureUnsupported, std::string(what) + " while a stream is captured") : success;
}

Status allocate(uint64_t bytes, bool device, uint64_t *result) {
  if (bytes == 0)
    return wrong(invalidValue, "an allocation of nothing");
  uint64_t mapped = (bytes + 4095) / 4096 * 4096;
  void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return outOfMemory;
  memset(memory, 0xff, mapped); // whatever was there before: not a number
  if (device)
    mprotect(memory, mapped, PROT_NONE);
  *result = reinterpret_cast<uint64_t>(memory);
  state.memory[*result] = {bytes, mapped, device};
  return success;
}

Status release(uint64_t address, bool device) {
  auto it = state.memory.find(address);
  if (it == state.memory.end() || it->second.device != device)
    return wrong(invalidValue, "freeing memory that is not allocated");
  munmap(reinterpret_cast<void *>(address), it->second.mapped);
  if (device)
    state.inUse -= it->second.bytes;
  state.memory.erase(it);
  return success;
}

/// Copies when the stream comes to it; memory of the host that is not page-locked is read, or written, before the call
/// returns.
Status copy(uint64_t to, uint64_t from, uint64_t bytes, bool toDevice, bool fromDevice, void *stream) {
  if (Status status = ready())
    return status;
  auto holds = [bytes](uint64_t address, bool device) {
    const Allocation *allocation = find(address, bytes);
    return allocation && allocation->device == device;
  };
  if ((toDevice && !holds(to, true)) || (fromDevice && !holds(from, true)))
    return wrong(invalidValue, "a copy beyond an allocation of the device");
  bool pageable = (!toDevice && !holds(to, false)) || (!fromDevice && !holds(from, false));
  if (pageable && capturing())
    return wrong(captureUnsupported, "a copy of pageable memory while a stream is captured");
  Status status = enqueue(stream, [=] {
    // What was allocated when it was asked for must still be.
    if ((toDevice && !holds(to, true)) || (fromDevice && !holds(from, true)))
      return wrong(invalidValue, "a copy of memory that was freed before it was done");
    memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
    state.copied += bytes;
    return success;
  });
  return status == success && pageable ? drain(*static_cast<Stream *>(stream)) : status;
}

Status runKernel(const Kernel &kernel, const std::vector<uint64_t> &words, const std::array<uint32_t, 3> &grid) {
  std::vector<uint64_t> extents(words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    uint64_t start = 0;
    const Allocation *allocation = kernel.sizes[i] == 8 ? find(words[i], 0, &start) : nullptr;
    if (allocation && allocation->device)
      extents[i] = allocation->bytes - (words[i] - start);
  }
  ingot_rt_launch launch = {kernel.host, words.data(), extents.data(), {grid[0], grid[1], grid[2]}, UINT32_MAX, -1};
  state.emulator.launch(launch);
  ++state.launches;
  if (const char *fault = state.emulator.fault())
    return wrong(launchFailed, fault);
  return success;
}

/// Reads the kernels and their parameters from a cubin: sections .nv.info.<kernel>, whose entries are a format and an
/// attribute of a byte each, and two bytes of value or length. Attribute 0x17 describes a parameter: at byte 4 its
/// number, at byte 6 its offset, in the upper 14 bits of the word at byte 8 its size.
void readCubin(const uint8_t *cubin, Module &module) {
  auto header = reinterpret_cast<const Elf64_Ehdr *>(cubin);
  auto sections = reinterpret_cast<const Elf64_Shdr *>(cubin + header->e_shoff);
  auto names = reinterpret_cast<const char *>(cubin + sections[header->e_shstrndx].sh_offset);
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    std::string name = names + sections[i].sh_name;
    constexpr const char *prefix = ".nv.info.";
    if (name.rfind(prefix, 0) != 0)
      continue;
    auto kernel = std::make_unique<Kernel>();
    kernel->name = name.substr(strlen(prefix));
    const uint8_t *at = cubin + sections[i].sh_offset, *end = at + sections[i].sh_size;
    while (at + 4 <= end) {
      uint16_t length = at[0] == 4 ? static_cast<uint16_t>(at[2] | at[3] << 8) : 0;
      if (at[0] == 4 && at[1] == 0x17) {
        uint16_t number;
        uint32_t last;
        memcpy(&number, at + 8, 2);
        memcpy(&last, at + 12, 4);
        if (number >= kernel->sizes.size())
          kernel->sizes.resize(number + 1u);
        kernel->sizes[number] = static_cast<uint16_t>(last >> 18);
      }
      at += 4 + length;
    }
    module.kernels.emplace(kernel->name, std::move(kernel));
  }
}

/// The image of a fat binary that fits the device: the latest cubin of its major version that is not newer. The binary
/// is a header of 16 bytes, then images: kind (2: cubin) in two bytes, at byte 4 the size of the image's header, at 8
/// that of the image, at 28 the architecture.
const uint8_t *chooseCubin(const uint8_t *fatbin, uint32_t arch, bool &hasPtx) {
  uint64_t total;
  memcpy(&total, fatbin + 8, 8);
  const uint8_t *best = nullptr;
  uint32_t bestArch = 0;
  for (const uint8_t *at = fatbin + 16, *end = at + total; at < end;) {
    uint16_t kind;
    uint32_t headerSize, imageArch;
    uint64_t size;
    memcpy(&kind, at, 2);
    memcpy(&headerSize, at + 4, 4);
    memcpy(&size, at + 8, 8);
    memcpy(&imageArch, at + 28, 4);
    if (kind == 2 && imageArch / 10 == arch / 10 && imageArch <= arch && imageArch >= bestArch) {
      best = at + headerSize;
      bestArch = imageArch;
    }
    hasPtx |= kind == 1 && imageArch <= arch;
    at += headerSize + size;
  }
  return best;
}

} // namespace

// The driver's names are not ours to choose.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
// What the kernels' code refers to beside the emulator.
const ingot_rt_model ingot_rt_the_model = {};
void ingot_rt_barrier(void *, uint32_t) {}

Status cuInit(unsigned) {
  if (setting("INGOT_DOUBLE_DEVICES", 1) == 0)
    return 100;
  state.initialized = true;
  return success;
}

Status cuDriverGetVersion(int *version) {
  *version = static_cast<int>(setting("INGOT_DOUBLE_DRIVER", 13000));
  return success;
}

Status cuGetErrorName(Status status, const char **name) {
  static const std::map<Status, const char *> names = {{invalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                                       {outOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                       {notInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
                                                       {100, "CUDA_ERROR_NO_DEVICE"},
                                                       {invalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
                                                       {noBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                       {notFound, "CUDA_ERROR_NOT_FOUND"},
                                                       {launchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
                                                       {captureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}};
  auto it = names.find(status);
  if (it == names.end())
    return invalidValue;
  *name = it->second;
  return success;
}

Status cuDeviceGetCount(int *count) {
  *count = static_cast<int>(setting("INGOT_DOUBLE_DEVICES", 1));
  return success;
}

Status cuDeviceGet(int *device, int number) {
  *device = number;
  return number < setting("INGOT_DOUBLE_DEVICES", 1) ? success : invalidDevice;
}

Status cuDeviceGetName(char *name, int length, int device) {
  snprintf(name, static_cast<size_t>(length), "Double %d", device);
  return success;
}

Status cuDeviceGetAttribute(int *value, int attribute, int) {
  long arch = setting("INGOT_DOUBLE_ARCH", 90);
  *value = static_cast<int>(attribute == 75 ? arch / 10 : arch % 10);
  return attribute == 75 || attribute == 76 ? success : wrong(invalidValue, "an unknown attribute");
}

Status cuDevicePrimaryCtxRetain(void **context, int) {
  *context = &state;
  ++state.contexts;
  return state.initialized ? success : notInitialized;
}

Status cuDevicePrimaryCtxRelease_v2(int) {
  --state.contexts;
  return success;
}

Status cuCtxSetCurrent(void *context) {
  current = context == &state;
  return current ? success : invalidContext;
}

Status cuModuleLoadDataEx(void **module, const void *image, unsigned, int *, void **) {
  if (Status status = notWhileRecording("cuModuleLoadDataEx"))
    return status;
  uint32_t magic;
  memcpy(&magic, image, 4);
  if (magic != 0xba55ed50)
    return wrong(200, "an image that is no fat binary");
  bool hasPtx = false;
  const uint8_t *cubin =
      chooseCubin(static_cast<const uint8_t *>(image), static_cast<uint32_t>(setting("INGOT_DOUBLE_ARCH", 90)), hasPtx);
  if (!cubin)
    return hasPtx ? wrong(222, "the double makes no code of PTX") : noBinaryForGpu;
  auto made = std::make_unique<Module>();
  readCubin(cubin, *made);
  *module = made.release();
  state.modules.insert(*module);
  return success;
}

Status cuModuleUnload(void *module) {
  if (!state.modules.erase(module))
    return wrong(invalidHandle, "unloading no module");
  delete static_cast<Module *>(module);
  return success;
}

Status cuModuleGetFunction(void **function, void *module, const char *name) {
  if (Status status = notWhileRecording("cuModuleGetFunction"))
    return status;
  auto &kernels = static_cast<Module *>(module)->kernels;
  auto it = kernels.find(name);
  if (it == kernels.end())
    return notFound;
  const char *path = getenv("INGOT_DOUBLE_KERNELS");
  if (!state.kernels)
    state.kernels = dlopen(path ? path : "", RTLD_NOW);
  if (!state.kernels)
    return wrong(notFound, std::string("INGOT_DOUBLE_KERNELS: ") + dlerror());
  it->second->host =
      static_cast<const ingot_rt_kernel *>(dlsym(state.kernels, (std::string("ingot_kernel_") + name).c_str()));
  if (!it->second->host)
    return wrong(notFound, std::string("no code of the host for kernel ") + name);
  *function = it->second.get();
  return success;
}

Status cuMemGetInfo_v2(size_t *free, size_t *total) {
  if (Status status = ready())
    return status;
  *total = static_cast<size_t>(setting("INGOT_DOUBLE_MEMORY", 1L << 30));
  *free = *total - state.inUse;
  return success;
}

Status cuMemAlloc_v2(unsigned long long *address, size_t bytes) {
  if (Status status = notWhileRecording("cuMemAlloc"))
    return status;
  if (bytes > static_cast<size_t>(setting("INGOT_DOUBLE_MEMORY", 1L << 30)) - state.inUse)
    return outOfMemory;
  uint64_t result = 0;
  Status status = allocate(bytes, true, &result);
  *address = result;
  if (status == success)
    state.peak = std::max(state.peak, state.inUse += bytes);
  return status;
}

Status cuMemFree_v2(unsigned long long address) {
  Status status = notWhileRecording("cuMemFree");
  return status == success ? release(address, true) : status;
}

Status cuMemAllocHost_v2(void **address, size_t bytes) {
  if (Status status = notWhileRecording("cuMemAllocHost"))
    return status;
  uint64_t result = 0;
  Status status = allocate(bytes, false, &result);
  *address = reinterpret_cast<void *>(result);
  return status;
}

Status cuMemFreeHost(void *address) {
  Status status = notWhileRecording("cuMemFreeHost");
  return status == success ? release(reinterpret_cast<uint64_t>(address), false) : status;
}

Status cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream) {
  return copy(to, reinterpret_cast<uint64_t>(from), bytes, true, false, stream);
}

Status cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream) {
  return copy(reinterpret_cast<uint64_t>(to), from, bytes, false, true, stream);
}

Status cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *stream) {
  return copy(to, from, bytes, true, true, stream);
}

Status cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void *stream) {
  if (Status status = ready())
    return status;
  auto holds = [=] {
    const Allocation *allocation = find(to, bytes);
    return allocation && allocation->device;
  };
  if (!holds())
    return wrong(invalidValue, "filling beyond an allocation of the device");
  return enqueue(stream, [=] {
    if (!holds())
      return wrong(invalidValue, "filling memory that was freed before it was done");
    memset(reinterpret_cast<void *>(to), value, bytes);
    return success;
  });
}

Status cuStreamCreate(void **stream, unsigned) {
  if (Status status = notWhileRecording("cuStreamCreate"))
    return status;
  *stream = new Stream;
  state.streams.insert(*stream);
  return success;
}

Status cuStreamDestroy_v2(void *stream) {
  if (!state.streams.erase(stream))
    return wrong(invalidHandle, "destroying no stream");
  delete static_cast<Stream *>(stream);
  return success;
}

Status cuStreamSynchronize(void *stream) {
  if (Status status = notWhileRecording("cuStreamSynchronize"))
    return status;
  return state.streams.count(stream) ? drain(*static_cast<Stream *>(stream)) : invalidHandle;
}

Status cuEventCreate(void **event, unsigned) {
  if (Status status = notWhileRecording("cuEventCreate"))
    return status;
  *event = new Event;
  state.events.insert(*event);
  return success;
}

Status cuEventDestroy_v2(void *event) {
  if (!state.events.erase(event))
    return wrong(invalidHandle, "destroying no event");
  delete static_cast<Event *>(event);
  return success;
}

Status cuEventRecord(void *event, void *stream) {
  if (Status status = ready())
    return status;
  auto &recorded = *static_cast<Event *>(event);
  recorded.stream = static_cast<Stream *>(stream);
  recorded.position = recorded.stream->queue.size();
  recorded.drained = state.drains;
  return success;
}

/// Does what stands before the event and no more.
Status cuEventSynchronize(void *event) {
  if (Status status = notWhileRecording("cuEventSynchronize"))
    return status;
  auto &recorded = *static_cast<Event *>(event);
  if (!recorded.stream || recorded.drained != state.drains)
    return state.broken;
  Stream &stream = *recorded.stream;
  std::vector<Operation> later(stream.queue.begin() + static_cast<ptrdiff_t>(recorded.position), stream.queue.end());
  stream.queue.resize(recorded.position);
  Status status = drain(stream);
  stream.queue = std::move(later);
  // Other events stand as many operations earlier.
  for (void *other : state.events) {
    auto &one = *static_cast<Event *>(other);
    if (one.stream == recorded.stream && one.drained == state.drains - 1 && one.position > recorded.position) {
      one.position -= recorded.position;
      one.drained = state.drains;
    }
  }
  return status;
}

Status cuLaunchKernel(void *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,
                      unsigned blockZ, unsigned dynamicBytes, void *stream, void **parameters, void **) {
  if (Status status = ready())
    return status;
  const auto &kernel = *static_cast<const Kernel *>(function);
  if (gridX == 0 || gridY == 0 || gridZ == 0 || gridY > 65535 || gridZ > 65535 || gridX > 0x7fffffff)
    return wrong(invalidValue, "a grid outside of what a GPU takes");
  if (blockX != kernel.host->threads || blockY != 1 || blockZ != 1 || dynamicBytes != 0)
    return wrong(invalidValue, "another size of blocks than the kernel's");
  if (kernel.sizes.size() != kernel.host->argument_count)
    return wrong(invalidValue, "the machine code of " + kernel.name + " takes " + std::to_string(kernel.sizes.size()) +
                                   " parameters, the code of the host " + std::to_string(kernel.host->argument_count));
  // As the driver does: as many bytes as the machine code's parameter has.
  std::vector<uint64_t> words(kernel.sizes.size());
  for (size_t i = 0; i < words.size(); ++i)
    memcpy(&words[i], parameters[i], kernel.sizes[i]);
  std::array<uint32_t, 3> grid = {gridX, gridY, gridZ};
  return enqueue(stream, [&kernel, words, grid] { return runKernel(kernel, words, grid); });
}

Status cuStreamBeginCapture_v2(void *handle, int) {
  if (Status status = notWhileRecording("cuStreamBeginCapture"))
    return status;
  static_cast<Stream *>(handle)->capturing = std::make_unique<Graph>();
  return success;
}

Status cuStreamEndCapture(void *handle, void **graph) {
  auto &stream = *static_cast<Stream *>(handle);
  if (!stream.capturing)
    return wrong(invalidValue, "the end of a capture that was not begun");
  *graph = stream.capturing.release();
  state.graphs.insert(*graph);
  return success;
}

Status cuGraphInstantiateWithFlags(void **ready, void *graph, unsigned long long) {
  if (!state.graphs.count(graph))
    return wrong(invalidHandle, "no graph");
  *ready = new Graph(*static_cast<Graph *>(graph));
  state.graphs.insert(*ready);
  ++state.recorded;
  return success;
}

Status cuGraphDestroy(void *graph) {
  if (!state.graphs.erase(graph))
    return wrong(invalidHandle, "destroying no graph");
  delete static_cast<Graph *>(graph);
  return success;
}

Status cuGraphExecDestroy(void *graph) { return cuGraphDestroy(graph); }

Status cuGraphLaunch(void *graph, void *stream) {
  if (Status status = ready())
    return status;
  if (!state.graphs.count(graph))
    return wrong(invalidHandle, "launching no graph");
  ++state.replays;
  for (const Operation &operation : static_cast<Graph *>(graph)->operations)
    if (Status status = enqueue(stream, operation))
      return status;
  return success;
}

} // extern "C"
// NOLINTEND(readability-identifier-naming)
