// Compiles where the declarations in runtime/src/cuda/driver.h have the types of NVIDIA's cuda.h: as many parameters,
// pointers where it has pointers, numbers of the same size where it has numbers.
#include "cuda/driver.h"

#include <cuda.h>
#include <type_traits>

namespace {

template <typename A, typename B>
constexpr bool alike = std::is_pointer_v<A> == std::is_pointer_v<B> && sizeof(A) == sizeof(B);

template <typename A, typename B>
struct SameCall : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
struct SameCall<R (*)(A...), S (*)(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) != sizeof...(B))
      return false;
    else
      return alike<R, S> && (alike<A, B> && ...);
  }();
};

using ingot::rt::cuda::Driver;
#define INGOT_CUDA_SAME(name, symbol, parameters)                                                                      \
  static_assert(SameCall<decltype(Driver::name), decltype(&::symbol)>::value, #symbol);
INGOT_CUDA_FUNCTIONS(INGOT_CUDA_SAME)

static_assert(ingot::rt::cuda::outOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(ingot::rt::cuda::noDevice == CUDA_ERROR_NO_DEVICE);
static_assert(ingot::rt::cuda::noBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(ingot::rt::cuda::invalidPtx == CUDA_ERROR_INVALID_PTX);
static_assert(ingot::rt::cuda::unsupportedPtxVersion == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(ingot::rt::cuda::computeCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(ingot::rt::cuda::computeCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(ingot::rt::cuda::eventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(ingot::rt::cuda::streamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(ingot::rt::cuda::captureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);

} // namespace
