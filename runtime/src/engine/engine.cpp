// Sizing a session and running its steps.
#include "engine/engine.h"

#include "support/checked.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

namespace ingot::rt {

namespace {

/// Where the tables of a batch lie in one region, in bytes.
struct MetadataLayout {
  uint64_t tokens, positions, sequences, slots, queryStarts, lengths, regimes, sampling, blockTables, rows, tokenSets,
      argmax, argmaxValue, total;
  bool overflowed;
};

/// 64-bit words of a set of tokens.
uint64_t tokenSetWords(const ingot_rt_model &model) { return ceilDiv(model.vocab, 64); }

/// Whether the variants' steps launch kernels, which then can choose tokens, too.
bool hasDevice(const ingot_rt_model &model) { return model.variant_count != 0 && model.variants[0].device; }

MetadataLayout layOut(const ingot_rt_model &model, const SessionLimits &limits) {
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
  layout.rows = place(limits.rows, sizeof(int32_t));
  // A token is chosen from one row of a sequence.
  const uint64_t chosen = hasDevice(model) ? std::min(limits.rows, limits.sequences) : 0;
  layout.sampling = place(chosen, sizeof(ingot_rt_sampling));
  // Last of what every step is given: a step of few sequences uses the start of it.
  layout.blockTables =
      place(Checked(limits.sequences) * Checked(ceilDiv(limits.context, INGOT_RT_CACHE_BLOCK)), sizeof(int32_t));
  layout.tokenSets =
      place(Checked(chosen) * Checked(INGOT_RT_TOKEN_SETS) * Checked(tokenSetWords(model)), sizeof(uint64_t));
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
  MetadataLayout metadata = layOut(model, limits);
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
  plan.onDevice = hasDeviceMemory(model);
  if (plan.onDevice)
    plan.staging = plan.logits + plan.metadata + DeviceMemory::marks * std::min(uploadBufferBytes, plan.mappedWeights);
  return plan;
}

bool hasDeviceMemory(const ingot_rt_model &model) {
  return model.variant_count != 0 && model.variants[0].device && model.variants[0].device->ownMemory;
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory of a device
// ---------------------------------------------------------------------------------------------------------------------

DeviceBuffer &DeviceBuffer::operator=(DeviceBuffer &&other) noexcept {
  std::swap(owner, other.owner);
  std::swap(address, other.address);
  std::swap(place, other.place);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (!owner)
    return;
  if (place == Place::Host)
    owner->releaseHost(address);
  else
    owner->release(address);
}

Result<DeviceBuffer> DeviceBuffer::create(DeviceMemory &memory, Place place, uint64_t bytes, const char *purpose) {
  bytes = std::max<uint64_t>(bytes, 1);
  Result<uint8_t *> address =
      place == Place::Host ? memory.allocateHost(bytes, purpose) : memory.allocate(bytes, purpose);
  if (!address)
    return address.takeError();
  DeviceBuffer buffer;
  buffer.owner = &memory;
  buffer.place = place;
  buffer.address = *address;
  return buffer;
}

Result<DeviceBuffer> uploadWeights(DeviceMemory &memory, const uint8_t *weights, uint64_t bytes, Pool &pool,
                                   const std::function<void(uint64_t)> &progress) {
  Result<DeviceBuffer> there = DeviceBuffer::create(memory, DeviceBuffer::Place::Device, bytes, "the weights");
  if (!there)
    return there;
  const uint64_t piece = std::min(uploadBufferBytes, bytes);
  DeviceBuffer buffers[DeviceMemory::marks];
  for (DeviceBuffer &buffer : buffers) {
    Result<DeviceBuffer> made = DeviceBuffer::create(memory, DeviceBuffer::Place::Host, piece, "copies of weights");
    if (!made)
      return made;
    buffer = std::move(*made);
  }
  uint32_t next = 0;
  for (uint64_t done = 0; done < bytes; next = (next + 1) % DeviceMemory::marks) {
    const uint64_t count = std::min(piece, bytes - done);
    uint8_t *buffer = buffers[next].data();
    memory.waitFor(next);
    auto fill = [&](uint32_t worker) {
      uint64_t share = ceilDiv(count, pool.workers()), first = std::min(count, worker * share);
      memcpy(buffer + first, weights + done + first, std::min(share, count - first));
    };
    pool.run(fill);
    memory.upload(there->data() + done, buffer, count);
    memory.mark(next);
    done += count;
    if (progress)
      progress(done);
  }
  if (Error error = memory.finish())
    return error;
  return there;
}

// ---------------------------------------------------------------------------------------------------------------------
// Sessions
// ---------------------------------------------------------------------------------------------------------------------

Error Engine::reserveHost(const MemoryPlan &plan) {
  struct {
    Mapping &mapping;
    uint64_t bytes;
    const char *purpose;
  } regions[] = {{arena, plan.arena, "temporaries"},
                 {cache, plan.cache, "the cache"},
                 {logits, plan.logits, "logits"},
                 {metadata, plan.metadata, "tables of a step"}};
  for (auto &region : regions) {
    Result<Mapping> mapping = Mapping::anonymous(region.bytes, region.purpose, /*hugePages=*/false);
    if (!mapping)
      return mapping.takeError();
    region.mapping = std::move(*mapping);
  }
  return {};
}

Error Engine::reserveDevice(const MemoryPlan &plan) {
  DeviceMemory &memory = *device->memory();
  struct {
    DeviceBuffer &buffer;
    DeviceBuffer::Place place;
    uint64_t bytes;
    const char *purpose;
  } regions[] = {{deviceArena, DeviceBuffer::Place::Device, plan.arena, "temporaries"},
                 {deviceCache, DeviceBuffer::Place::Device, plan.cache, "the cache"},
                 {deviceLogits, DeviceBuffer::Place::Device, plan.logits, "logits"},
                 {deviceMetadata, DeviceBuffer::Place::Device, plan.metadata, "tables of a step"},
                 {hostLogits, DeviceBuffer::Place::Host, plan.logits, "logits"},
                 {hostMetadata, DeviceBuffer::Place::Host, plan.metadata, "tables of a step"}};
  for (auto &region : regions) {
    Result<DeviceBuffer> buffer = DeviceBuffer::create(memory, region.place, region.bytes, region.purpose);
    if (!buffer)
      return buffer.takeError();
    region.buffer = std::move(*buffer);
  }
  return {};
}

/// The tables of a step that begin at `base`, the host's or the device's.
static void pointInto(ingot_rt_step_args &args, uint8_t *base, const MetadataLayout &layout) {
  args.tokens = reinterpret_cast<int32_t *>(base + layout.tokens);
  args.positions = reinterpret_cast<int32_t *>(base + layout.positions);
  args.sequences = reinterpret_cast<int32_t *>(base + layout.sequences);
  args.slots = reinterpret_cast<int64_t *>(base + layout.slots);
  args.query_starts = reinterpret_cast<int32_t *>(base + layout.queryStarts);
  args.lengths = reinterpret_cast<int32_t *>(base + layout.lengths);
  args.regimes = reinterpret_cast<int32_t *>(base + layout.regimes);
  args.block_tables = reinterpret_cast<int32_t *>(base + layout.blockTables);
  args.rows = reinterpret_cast<int32_t *>(base + layout.rows);
  args.argmax = reinterpret_cast<int32_t *>(base + layout.argmax);
  args.argmax_value = reinterpret_cast<float *>(base + layout.argmaxValue);
  args.sampling = reinterpret_cast<ingot_rt_sampling *>(base + layout.sampling);
  args.token_sets = reinterpret_cast<uint32_t *>(base + layout.tokenSets);
}

Result<std::unique_ptr<Engine>> Engine::create(const ingot_rt_model &model, const ingot_rt_variant &variant,
                                               const uint8_t *weights, const SessionLimits &limits, Pool &pool,
                                               Device *device) {
  if (model.size != sizeof(ingot_rt_model) || model.version != INGOT_RT_ABI_VERSION)
    return makeError("the model's description has version %u and %" PRIu64 " bytes, the runtime expects %u and %zu",
                     model.version, model.size, INGOT_RT_ABI_VERSION, sizeof(ingot_rt_model));
  if (model.cache_group_count != 1 || model.cache_groups[0].kind != 0)
    return makeError("expected one cache group of keys and values, got %u groups", model.cache_group_count);
  Result<MemoryPlan> plan = planMemory(model, limits);
  if (!plan)
    return plan.takeError();
  if (variant.device && !device)
    return makeError("variant %s runs on a device (%s), got none", variant.name, variant.device->name);
  std::unique_ptr<Engine> engine(new Engine(model, variant, limits, pool, device));
  bool onDevice = device && device->memory();
  if (Error error = onDevice ? engine->reserveDevice(*plan) : engine->reserveHost(*plan))
    return error;
  MetadataLayout layout = layOut(model, limits);
  uint8_t *base = onDevice ? engine->hostMetadata.data() : engine->metadata.data();
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
  engine->tokenSets = reinterpret_cast<uint64_t *>(base + layout.tokenSets);
  if (device)
    engine->sampling = reinterpret_cast<ingot_rt_sampling *>(base + layout.sampling);

  ingot_rt_step_args &args = engine->args;
  args.size = sizeof args;
  args.version = INGOT_RT_ABI_VERSION;
  args.output = INGOT_RT_LOGITS;
  args.weights = weights;
  args.arena = engine->arena.data();
  args.cache = engine->cache.data();
  args.cache_blocks = limits.blocks;
  args.cache_id = model.cache_id;
  pointInto(args, base, layout);
  args.block_table_stride = ceilDiv(limits.context, INGOT_RT_CACHE_BLOCK);
  args.logits = reinterpret_cast<float *>(onDevice ? engine->hostLogits.data() : engine->logits.data());
  args.logits_stride = logitsStride(model);
  args.token_set_words = 2 * tokenSetWords(model);
  args.barrier = &pool.barrier();
  if (device) {
    args.launch = Device::launchOn;
    args.launch_context = device;
  }
  if (!onDevice)
    return engine;
  ingot_rt_step_args &there = engine->deviceArgs;
  there = args;
  pointInto(there, engine->deviceMetadata.data(), layout);
  there.arena = engine->deviceArena.data();
  there.cache = engine->deviceCache.data();
  there.logits = reinterpret_cast<float *>(engine->deviceLogits.data());
  return engine;
}

// ---------------------------------------------------------------------------------------------------------------------
// Steps
// ---------------------------------------------------------------------------------------------------------------------

uint32_t Engine::runWorkers(const ingot_rt_step_args &given) {
  // Every worker returns the same status; worker 0's is looked at.
  uint32_t status = INGOT_RT_OK;
  auto work = [&](uint32_t worker) {
    uint32_t mine = variant.step(&given, worker, pool.workers());
    if (worker == 0)
      status = mine;
  };
  pool.run(work);
  return status;
}

Error Engine::step() {
  if (device && device->memory())
    return stepOnDevice();
  uint32_t status = runWorkers(args);
  if (device)
    if (const char *fault = device->fault())
      return makeError("%s: %s", variant.device->name, fault);
  return statusError(status);
}

/// The hook of a step on a device: the one of `args`, after everything before it is done, with the result in the host's
/// memory if it is read.
void Engine::showFromDevice(void *context, uint32_t worker, uint32_t op, int32_t layer, const float *data,
                            uint64_t rows, uint64_t columns, uint64_t stride) {
  Engine &engine = *static_cast<Engine *>(context);
  const float *shown = nullptr;
  if (worker == 0) {
    DeviceMemory &memory = *engine.device->memory();
    if (data && rows != 0 && engine.hookReadsData) {
      engine.shown.resize((rows - 1) * stride + columns);
      memory.download(engine.shown.data(), reinterpret_cast<const uint8_t *>(data), 4 * engine.shown.size());
      shown = engine.shown.data();
    }
    // What went wrong stays, and the step returns it.
    if (Error error = memory.finish())
      shown = nullptr;
  }
  engine.args.hook(engine.args.hook_context, worker, op, layer, shown, rows, columns, stride);
}

/// Copies the tables to the device, runs the step, and copies what it leaves behind back: of a decode step, which is
/// the same for each batch of its size but for what the tables hold, all of it as it was recorded the first time.
Error Engine::stepOnDevice() {
  DeviceMemory &memory = *device->memory();
  deviceArgs.output = args.output;
  deviceArgs.token_count = args.token_count;
  deviceArgs.sequence_count = args.sequence_count;
  deviceArgs.row_count = args.row_count;
  deviceArgs.hook = args.hook ? showFromDevice : nullptr;
  deviceArgs.hook_context = this;
  const bool chooses = args.output == INGOT_RT_TOKENS;
  auto namesSets = [](const ingot_rt_sampling &row) { return row.sets != 0; };
  const bool sets = chooses && std::any_of(sampling, sampling + args.row_count, namesSets);
  // A decode step has fewer than 2^29 tokens, each with a row of a table of at least four bytes and its logits.
  bool decode = args.token_count == args.sequence_count && !args.hook && args.token_count >> 29 == 0;
  uint64_t key = args.token_count << 32 | args.row_count << 3 | uint64_t(sets) << 2 |
                 (chooses                          ? 2
                  : args.output == INGOT_RT_ARGMAX ? 1
                                                   : 0);
  if (decode && memory.replay(key))
    return memory.finish();
  if (decode)
    memory.record();
  const uint8_t *tables = hostMetadata.data();
  auto blockTables = reinterpret_cast<const uint8_t *>(args.block_tables);
  uint64_t used =
      static_cast<uint64_t>(blockTables - tables) + args.sequence_count * args.block_table_stride * sizeof(int32_t);
  memory.upload(deviceMetadata.data(), tables, used);
  if (sets) {
    uint64_t bytes = args.row_count * INGOT_RT_TOKEN_SETS * args.token_set_words * sizeof(uint32_t);
    auto from = reinterpret_cast<const uint8_t *>(args.token_sets);
    memory.upload(deviceMetadata.data() + (from - tables), from, bytes);
  }
  // Only one worker launches; the others are needed where a hook meets them.
  uint32_t status = args.hook ? runWorkers(deviceArgs) : variant.step(&deviceArgs, 0, 1);
  if (status == INGOT_RT_OK && args.output == INGOT_RT_LOGITS)
    memory.download(args.logits, deviceLogits.data(), args.row_count * args.logits_stride * sizeof(float));
  if (status == INGOT_RT_OK && args.output != INGOT_RT_LOGITS) {
    memory.download(args.argmax, reinterpret_cast<const uint8_t *>(deviceArgs.argmax), args.row_count * 4);
    if (!chooses)
      memory.download(args.argmax_value, reinterpret_cast<const uint8_t *>(deviceArgs.argmax_value),
                      args.row_count * 4);
  }
  // Of a step that was refused nothing is kept: the next one like it has to be refused too.
  if (decode)
    memory.endRecording(key, status == INGOT_RT_OK);
  if (Error error = memory.finish())
    return error;
  return statusError(status);
}

Error Engine::statusError(uint32_t status) const {
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
