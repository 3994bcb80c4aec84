// One session with a compiled model: the memory that its steps use, sized once, and the call that runs a step on all
// workers. Who is in a batch and what comes out of it is the scheduler's business.
#ifndef INGOT_RUNTIME_ENGINE_ENGINE_H
#define INGOT_RUNTIME_ENGINE_ENGINE_H

#include "device/device.h"
#include "ingot_rt/abi.h"
#include "platform/mapping.h"
#include "pool/pool.h"
#include "support/error.h"

#include <functional>
#include <memory>
#include <vector>

namespace ingot::rt {

/// What a session is sized for. All are at least 1.
struct SessionLimits {
  uint64_t context = 0;    ///< positions of one sequence, at most the model's
  uint64_t sequences = 0;  ///< in one step, at most the model's max_batch
  uint64_t stepTokens = 0; ///< in one step, at most the model's max_step_tokens
  uint64_t rows = 0;       ///< of logits in one step, at most stepTokens
  uint64_t blocks = 0;     ///< of the cache
  uint32_t workers = 0;
};

/// Bytes that a session takes at most (promise P5). Of the host's everything but the mapped weights is anonymous.
struct MemoryPlan {
  uint64_t mappedWeights = 0;    ///< read through the page cache
  uint64_t generatedWeights = 0; ///< random weights
  uint64_t arena = 0, cache = 0, logits = 0, metadata = 0;
  /// The variant's device has memory of its own: arena, cache, logits and metadata lie there, and the weights, copied
  /// or generated.
  bool onDevice = false;
  uint64_t staging =
      0; ///< then, of the host: page-locked copies of logits and metadata, and buffers for mapped weights

  /// Of the device.
  uint64_t device() const {
    return onDevice ? mappedWeights + generatedWeights + arena + cache + logits + metadata : 0;
  }
  // Of the host.
  uint64_t anonymous() const { return onDevice ? staging : generatedWeights + arena + cache + logits + metadata; }
  uint64_t total() const { return mappedWeights + anonymous(); }
};

/// Whether the variants' device has memory of its own.
bool hasDeviceMemory(const ingot_rt_model &model);

/// Memory of a device or of the host beside it, given back when it goes.
class DeviceBuffer {
public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer &&other) noexcept { *this = static_cast<DeviceBuffer &&>(other); }
  DeviceBuffer &operator=(DeviceBuffer &&other) noexcept;
  DeviceBuffer(const DeviceBuffer &) = delete;
  DeviceBuffer &operator=(const DeviceBuffer &) = delete;
  ~DeviceBuffer();

  enum class Place { Device, Host };
  /// `purpose` is for the error.
  static Result<DeviceBuffer> create(DeviceMemory &memory, Place place, uint64_t bytes, const char *purpose);

  uint8_t *data() const { return address; }

private:
  DeviceMemory *owner = nullptr;
  uint8_t *address = nullptr;
  Place place = Place::Device;
};

/// Copies `bytes` of weights to the device through page-locked buffers: while one is on its way, the pool's workers
/// fill the next. `progress`, where given, is told how many bytes are on their way.
Result<DeviceBuffer> uploadWeights(DeviceMemory &memory, const uint8_t *weights, uint64_t bytes, Pool &pool,
                                   const std::function<void(uint64_t)> &progress);

/// The formula: the model's arena formula at the limits, blocks * block bytes, rows * vocabulary, tables. An error
/// where a size overflows or a limit is beyond the model's.
Result<MemoryPlan> planMemory(const ingot_rt_model &model, const SessionLimits &limits);

class Engine {
public:
  /// Reserves the session's memory. `weights`, in the device's memory if it has its own, and `device`, null for a
  /// variant without, must outlive the engine.
  static Result<std::unique_ptr<Engine>> create(const ingot_rt_model &model, const ingot_rt_variant &variant,
                                                const uint8_t *weights, const SessionLimits &limits, Pool &pool,
                                                Device *device = nullptr);

  const ingot_rt_model &model() const { return theModel; }
  const SessionLimits &limits() const { return theLimits; }

  /// The arguments of the next step; the counts are the caller's to set. The arrays below are those it points to, and
  /// like the logits they are the host's, wherever the step runs.
  ingot_rt_step_args args = {};
  int32_t *tokens = nullptr;      ///< [limits.stepTokens]
  int32_t *positions = nullptr;   ///< [limits.stepTokens]
  int32_t *sequences = nullptr;   ///< [limits.stepTokens]
  int64_t *slots = nullptr;       ///< [limits.stepTokens]
  int32_t *queryStarts = nullptr; ///< [limits.sequences + 1]
  int32_t *lengths = nullptr;     ///< [limits.sequences]
  int32_t *regimes = nullptr;     ///< [limits.sequences]
  int32_t *blockTables = nullptr; ///< [limits.sequences][args.block_table_stride]
  int32_t *rows = nullptr;        ///< [limits.rows]
  int32_t *argmax = nullptr;      ///< [limits.rows], of steps with INGOT_RT_ARGMAX or INGOT_RT_TOKENS
  float *argmaxValue = nullptr;   ///< [limits.rows], not a number where a logit of the row is none
  /// How each row's token is chosen, of steps with INGOT_RT_TOKENS: one for each sequence at most. Null where the
  /// variant has no device, and so no such steps.
  ingot_rt_sampling *sampling = nullptr;
  /// The words of a row's set of tokens, of those that its `sampling` names.
  uint64_t *tokenSet(uint64_t row, ingot_rt_token_set set) {
    return tokenSets + (row * INGOT_RT_TOKEN_SETS + set) * (args.token_set_words / 2);
  }
  /// Whether args.hook reads results, which then come from the device, if they lie there.
  bool hookReadsData = false;

  /// Runs the step that `args` describes. A status other than OK is an error that names it, and so is what went wrong
  /// on the variant's device.
  Error step();

  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

private:
  Engine(const ingot_rt_model &model, const ingot_rt_variant &variant, const SessionLimits &limits, Pool &pool,
         Device *device)
      : theModel(model), variant(variant), theLimits(limits), pool(pool), device(device) {}
  Error reserveHost(const MemoryPlan &plan);
  Error reserveDevice(const MemoryPlan &plan);
  /// Runs the step on all workers; the status of the first.
  uint32_t runWorkers(const ingot_rt_step_args &given);
  Error stepOnDevice();
  Error statusError(uint32_t status) const;
  static void showFromDevice(void *engine, uint32_t worker, uint32_t op, int32_t layer, const float *data,
                             uint64_t rows, uint64_t columns, uint64_t stride);

  const ingot_rt_model &theModel;
  const ingot_rt_variant &variant;
  const SessionLimits theLimits;
  Pool &pool;
  Device *const device;
  Mapping arena, cache, logits, metadata;
  /// On a device with memory of its own; `args` without them speaks of what `host...` hold.
  DeviceBuffer deviceArena, deviceCache, deviceLogits, deviceMetadata, hostLogits, hostMetadata;
  ingot_rt_step_args deviceArgs = {};
  std::vector<float> shown; ///< what a hook is shown
  uint64_t *tokenSets = nullptr;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_ENGINE_ENGINE_H
