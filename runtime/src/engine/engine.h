// One session with a compiled model: the memory that its steps use, sized once, and the call that runs a step on all
// workers. Who is in a batch and what comes out of it is the scheduler's business.
#ifndef INGOT_RUNTIME_ENGINE_ENGINE_H
#define INGOT_RUNTIME_ENGINE_ENGINE_H

#include "ingot_rt/abi.h"
#include "platform/mapping.h"
#include "pool/pool.h"
#include "support/error.h"

#include <memory>

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

/// Bytes that a session takes at most (promise P5). Everything but the mapped weights is anonymous.
struct MemoryPlan {
  uint64_t mappedWeights = 0;    ///< read through the page cache
  uint64_t generatedWeights = 0; ///< random weights
  uint64_t arena = 0, cache = 0, logits = 0, metadata = 0;

  uint64_t anonymous() const { return generatedWeights + arena + cache + logits + metadata; }
  uint64_t total() const { return mappedWeights + anonymous(); }
};

/// The formula: the model's arena formula at the limits, blocks * block bytes, rows * vocabulary, tables. An error
/// where a size overflows or a limit is beyond the model's.
Result<MemoryPlan> planMemory(const ingot_rt_model &model, const SessionLimits &limits);

class Engine {
public:
  /// Reserves the session's memory. `weights` must outlive the engine.
  static Result<std::unique_ptr<Engine>> create(const ingot_rt_model &model, const ingot_rt_variant &variant,
                                                const uint8_t *weights, const SessionLimits &limits, Pool &pool);

  const ingot_rt_model &model() const { return theModel; }
  const SessionLimits &limits() const { return theLimits; }

  /// The arguments of the next step; the counts are the caller's to set. The arrays below are those it points to.
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
  int32_t *argmax = nullptr;      ///< [limits.rows], of steps with INGOT_RT_ARGMAX
  float *argmaxValue = nullptr;   ///< [limits.rows], not a number where a logit of the row is none

  /// Runs the step that `args` describes. A status other than OK is an error that names it, and so is what went wrong
  /// on the variant's device.
  Error step();

  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

private:
  Engine(const ingot_rt_model &model, const ingot_rt_variant &variant, const SessionLimits &limits, Pool &pool)
      : theModel(model), variant(variant), theLimits(limits), pool(pool) {}

  const ingot_rt_model &theModel;
  const ingot_rt_variant &variant;
  const SessionLimits theLimits;
  Pool &pool;
  Mapping arena, cache, logits, metadata;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_ENGINE_ENGINE_H
