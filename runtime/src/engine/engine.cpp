// Sizing a session and running its steps.
#include "engine/engine.h"

#include "support/checked.h"

#include <cinttypes>
#include <vector>

namespace ingot::rt {

namespace {

/// Where the tables of a batch lie in one region, in bytes.
struct MetadataLayout {
  uint64_t tokens, positions, sequences, slots, queryStarts, lengths, regimes, blockTables, rows, argmax, argmaxValue,
      total;
  bool overflowed;
};

MetadataLayout layOut(const SessionLimits &limits) {
  Checked end(0);
  auto place = [&](Checked count, uint64_t size) {
    uint64_t start = end.value;
    end = (end + count * Checked(size)).roundedUp(64);
    return start;
  };
  MetadataLayout layout;
  layout.tokens = place(limits.stepTokens, sizeof(int32_t));
  layout.positions = place(limits.stepTokens, sizeof(int32_t));
  layout.sequences = place(limits.stepTokens, sizeof(int32_t));
  layout.slots = place(limits.stepTokens, sizeof(int64_t));
  layout.queryStarts = place(Checked(limits.sequences) + Checked(1), sizeof(int32_t));
  layout.lengths = place(limits.sequences, sizeof(int32_t));
  layout.regimes = place(limits.sequences, sizeof(int32_t));
  layout.blockTables =
      place(Checked(limits.sequences) * Checked(ceilDiv(limits.context, INGOT_RT_CACHE_BLOCK)), sizeof(int32_t));
  layout.rows = place(limits.rows, sizeof(int32_t));
  layout.argmax = place(limits.rows, sizeof(int32_t));
  layout.argmaxValue = place(limits.rows, sizeof(float));
  layout.total = end.value;
  layout.overflowed = end.overflowed;
  return layout;
}

uint64_t logitsStride(const ingot_rt_model &model) { return roundUp(model.vocab, INGOT_RT_PANEL); }

Error checkLimit(const char *what, uint64_t value, uint64_t most) {
  if (value == 0 || value > most)
    return makeUsageError("%s: expected 1 to %" PRIu64 ", got %" PRIu64, what, most, value);
  return {};
}

} // namespace

Result<MemoryPlan> planMemory(const ingot_rt_model &model, const SessionLimits &limits) {
  if (Error error = checkLimit("context", limits.context, model.max_context))
    return error;
  if (Error error = checkLimit("sequences in a step", limits.sequences, model.max_batch))
    return error;
  if (Error error = checkLimit("tokens in a step", limits.stepTokens, model.max_step_tokens))
    return error;
  if (Error error = checkLimit("rows of logits in a step", limits.rows, limits.stepTokens))
    return error;
  if (Error error = checkLimit("blocks of the cache", limits.blocks, INT32_MAX))
    return error;
  Checked arena = Checked(model.arena.base) + Checked(limits.stepTokens) * Checked(model.arena.per_token) +
                  Checked(limits.rows) * Checked(model.arena.per_row) +
                  Checked(limits.workers) * Checked(model.arena.per_worker);
  Checked cache(0);
  for (uint32_t i = 0; i < model.cache_group_count; ++i)
    cache = cache + Checked(limits.blocks) * Checked(model.cache_groups[i].block_bytes);
  Checked logits = Checked(limits.rows) * Checked(logitsStride(model)) * Checked(sizeof(float));
  MetadataLayout metadata = layOut(limits);
  Checked total = arena + cache + logits + Checked(metadata.total) + Checked(model.weights_bytes);
  if (total.overflowed || metadata.overflowed)
    return makeError("the session's memory overflows 64 bits at context %" PRIu64 ", %" PRIu64 " blocks",
                     limits.context, limits.blocks);
  MemoryPlan plan;
  (model.random ? plan.generatedWeights : plan.mappedWeights) = model.weights_bytes;
  plan.arena = arena.value;
  plan.cache = cache.value;
  plan.logits = logits.value;
  plan.metadata = metadata.total;
  return plan;
}

Result<std::unique_ptr<Engine>> Engine::create(const ingot_rt_model &model, const ingot_rt_variant &variant,
                                               const uint8_t *weights, const SessionLimits &limits, Pool &pool) {
  if (model.size != sizeof(ingot_rt_model) || model.version != INGOT_RT_ABI_VERSION)
    return makeError("the model's description has version %u and %" PRIu64 " bytes, the runtime expects %u and %zu",
                     model.version, model.size, INGOT_RT_ABI_VERSION, sizeof(ingot_rt_model));
  if (model.cache_group_count != 1 || model.cache_groups[0].kind != 0)
    return makeError("expected one cache group of keys and values, got %u groups", model.cache_group_count);
  Result<MemoryPlan> plan = planMemory(model, limits);
  if (!plan)
    return plan.takeError();
  std::unique_ptr<Engine> engine(new Engine(model, variant, limits, pool));
  struct {
    Mapping &mapping;
    uint64_t bytes;
    const char *purpose;
    bool hugePages;
  } regions[] = {{engine->arena, plan->arena, "temporaries", false},
                 {engine->cache, plan->cache, "the cache", false},
                 {engine->logits, plan->logits, "logits", false},
                 {engine->metadata, plan->metadata, "tables of a step", false}};
  for (auto &region : regions) {
    Result<Mapping> mapping = Mapping::anonymous(region.bytes, region.purpose, region.hugePages);
    if (!mapping)
      return mapping.takeError();
    region.mapping = std::move(*mapping);
  }
  MetadataLayout layout = layOut(limits);
  uint8_t *base = engine->metadata.data();
  engine->tokens = reinterpret_cast<int32_t *>(base + layout.tokens);
  engine->positions = reinterpret_cast<int32_t *>(base + layout.positions);
  engine->sequences = reinterpret_cast<int32_t *>(base + layout.sequences);
  engine->slots = reinterpret_cast<int64_t *>(base + layout.slots);
  engine->queryStarts = reinterpret_cast<int32_t *>(base + layout.queryStarts);
  engine->lengths = reinterpret_cast<int32_t *>(base + layout.lengths);
  engine->regimes = reinterpret_cast<int32_t *>(base + layout.regimes);
  engine->blockTables = reinterpret_cast<int32_t *>(base + layout.blockTables);
  engine->rows = reinterpret_cast<int32_t *>(base + layout.rows);
  engine->argmax = reinterpret_cast<int32_t *>(base + layout.argmax);
  engine->argmaxValue = reinterpret_cast<float *>(base + layout.argmaxValue);

  ingot_rt_step_args &args = engine->args;
  args.size = sizeof args;
  args.version = INGOT_RT_ABI_VERSION;
  args.output = INGOT_RT_LOGITS;
  args.weights = weights;
  args.arena = engine->arena.data();
  args.cache = engine->cache.data();
  args.cache_blocks = limits.blocks;
  args.cache_id = model.cache_id;
  args.tokens = engine->tokens;
  args.positions = engine->positions;
  args.sequences = engine->sequences;
  args.slots = engine->slots;
  args.query_starts = engine->queryStarts;
  args.lengths = engine->lengths;
  args.regimes = engine->regimes;
  args.block_tables = engine->blockTables;
  args.block_table_stride = ceilDiv(limits.context, INGOT_RT_CACHE_BLOCK);
  args.rows = engine->rows;
  args.logits = reinterpret_cast<float *>(engine->logits.data());
  args.logits_stride = logitsStride(model);
  args.argmax = engine->argmax;
  args.argmax_value = engine->argmaxValue;
  args.barrier = &pool.barrier();
  if (variant.device) {
    args.launch_context = variant.device->open(&model);
    args.launch = variant.device->launch;
    if (const char *error = variant.device->error(args.launch_context))
      return makeError("%s: %s", variant.device->name, error);
  }
  return engine;
}

Engine::~Engine() {
  if (variant.device && args.launch_context)
    variant.device->close(args.launch_context);
}

Error Engine::step() {
  // Every worker returns the same status; worker 0's is looked at.
  uint32_t status = INGOT_RT_OK;
  auto work = [&](uint32_t worker) {
    uint32_t mine = variant.step(&args, worker, pool.workers());
    if (worker == 0)
      status = mine;
  };
  pool.run(work);
  if (variant.device)
    if (const char *error = variant.device->error(args.launch_context))
      return makeError("%s: %s", variant.device->name, error);
  if (status == INGOT_RT_OK)
    return {};
  if (status == INGOT_RT_UNSUPPORTED)
    return makeError("the compiled step does not support what this step asks for");
  if (status == INGOT_RT_BAD_CACHE)
    return makeError("the compiled step refuses the cache: id %016" PRIx64 ", the model's is %016" PRIx64,
                     args.cache_id, theModel.cache_id);
  if (status == INGOT_RT_BAD_SIZE)
    return makeError("the compiled step refuses the sizes: %" PRIu64 " tokens of %" PRIu64 " sequences, %" PRIu64
                     " rows; arguments of %" PRIu64 " bytes",
                     args.token_count, args.sequence_count, args.row_count, args.size);
  return makeError("the compiled step returned status %u", status);
}

} // namespace ingot::rt
