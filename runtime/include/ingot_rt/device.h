// Device code: a step function that launches kernels instead of computing, what runs the launches, and what emulated
// kernels call. Part of the contract of abi.h, with the same rules.
#ifndef INGOT_RT_DEVICE_H
#define INGOT_RT_DEVICE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ingot_rt_model;

/// A constant table of a kernel.
struct ingot_rt_constant {
  const void *data;
  uint64_t bytes;
};

/// One kernel, a constant of the object that holds its launches.
struct ingot_rt_kernel {
  const char *name;
  /// For the emulator: the body of one thread, compiled for the host; null where the kernel is code of a GPU.
  void (*emulated)(const uint64_t *arguments);
  uint32_t threads;        ///< in a block
  uint32_t shared_bytes;   ///< of a block
  uint32_t argument_count; ///< each of 8 bytes: an address, an integer, or a float in the lower half
  uint32_t constant_count;
  const char *const *argument_names;
  const struct ingot_rt_constant *constants;
};

/// One launch; nothing of it is kept after the call. An empty grid launches nothing.
struct ingot_rt_launch {
  const struct ingot_rt_kernel *kernel;
  const uint64_t *arguments;
  const uint64_t *extents; ///< bytes behind each argument that is an address; 0 for the others
  uint32_t grid[3];        ///< blocks
  uint32_t op;             ///< index in ingot_rt_model.ops, or the count of ops for what belongs to no op
  int32_t layer;           ///< or -1
};

/// What runs launches; defined by the runtime (runtime/src/device).
struct ingot_rt_device;

/// Runs kernels on the host and checks them (runtime/src/emulator).
extern const struct ingot_rt_device ingot_rt_emulator;
/// Runs kernels on a GPU through its driver (runtime/src/cuda); in executables that hold `ingot_rt_the_cuda_code`.
extern const struct ingot_rt_device ingot_rt_cuda;

/// Kernels as code of GPUs, a constant of the object that ingotc makes of them.
struct ingot_rt_cuda_code {
  uint64_t size;      ///< sizeof(struct ingot_rt_cuda_code)
  const void *fatbin; ///< as cuModuleLoadData takes it
  uint64_t fatbin_bytes;
  const char *architectures; ///< "sm_80,sm_90"; of the last one there is PTX too
  uint32_t driver;           ///< the least version of the driver, as cuDriverGetVersion gives it
  uint32_t kernel_count;
  const struct ingot_rt_kernel *const *kernels;
};
extern const struct ingot_rt_cuda_code ingot_rt_the_cuda_code;

// What emulated kernels call, by the definitions of PTX. `what` names the place in the kernel.

/// Special registers: x, y, z of tid, ntid, ctaid, nctaid, in this order, then laneid and warpid.
enum ingot_rt_special {
  INGOT_RT_TID = 0,
  INGOT_RT_NTID = 3,
  INGOT_RT_CTAID = 6,
  INGOT_RT_NCTAID = 9,
  INGOT_RT_LANEID = 12,
  INGOT_RT_WARPID = 13
};
uint32_t ingot_rt_emulate_special(uint32_t which);
/// The address of byte `offset` of the block's shared memory.
void *ingot_rt_emulate_shared(uint32_t offset);
/// Before each access to memory: inside what the launch was given, aligned to its size, in shared memory no race.
void ingot_rt_emulate_access(const void *address, uint32_t bytes, uint32_t is_store, const char *what);
/// barrier.sync.aligned of all threads of the block.
void ingot_rt_emulate_barrier(uint32_t barrier, const char *what);
/// shfl.sync: the value, and the predicate in bit 32.
enum ingot_rt_shuffle {
  INGOT_RT_SHUFFLE_BFLY = 0,
  INGOT_RT_SHUFFLE_UP = 1,
  INGOT_RT_SHUFFLE_DOWN = 2,
  INGOT_RT_SHUFFLE_IDX = 3
};
uint64_t ingot_rt_emulate_shuffle(uint32_t kind, uint32_t member_mask, uint32_t value, uint32_t b, uint32_t c,
                                  const char *what);
/// vote.sync: 0 or 1, or the mask of a ballot.
enum ingot_rt_vote { INGOT_RT_VOTE_ANY = 0, INGOT_RT_VOTE_ALL = 1, INGOT_RT_VOTE_BALLOT = 2, INGOT_RT_VOTE_UNI = 3 };
uint32_t ingot_rt_emulate_vote(uint32_t kind, uint32_t member_mask, uint32_t predicate, const char *what);

#ifdef __cplusplus
}
#endif
#endif // INGOT_RT_DEVICE_H
