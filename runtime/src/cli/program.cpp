// Opening the program's tables and sessions.
#include "cli/program.h"

#include "cli/progress.h"
#include "platform/cpu.h"
#include "support/checked.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ingot::rt {

void note(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatTextV(format, arguments) + "\n";
  va_end(arguments);
  fputs(text.c_str(), stderr);
}

std::string bytesText(uint64_t bytes) {
  if (bytes < 1024)
    return formatText("%" PRIu64 " B", bytes);
  double value = static_cast<double>(bytes);
  const char *unit = "";
  for (const char *next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024)
      break;
    value /= 1024;
    unit = next;
  }
  return formatText("%.1f %s", value, unit);
}

Error Program::open() {
  Result<std::string_view> generation = payload.checkedBytes(INGOT_RT_SECTION_GENERATION);
  if (!generation)
    return generation.takeError();
  if (!generation->empty()) {
    auto table = reinterpret_cast<const ingot_rt_generation_defaults *>(generation->data());
    if (generation->size() < sizeof *table || table->size != sizeof *table ||
        table->eos_count > (generation->size() - sizeof *table) / sizeof(int32_t))
      return makeError("%s: damaged: the generation defaults do not fit their section of %zu bytes",
                       payload.path().c_str(), generation->size());
    defaults = table;
    endTokens.assign(table->eos, table->eos + table->eos_count);
  }
  Result<std::string_view> section = payload.checkedBytes(INGOT_RT_SECTION_TOKENIZER);
  if (!section)
    return section.takeError();
  if (!section->empty()) {
    std::string error;
    tokenizer = Tokenizer::open(section->data(), section->size(), error);
    if (!tokenizer)
      return makeError("%s: %s", payload.path().c_str(), error.c_str());
  }
  Result<std::string_view> chat = payload.checkedBytes(INGOT_RT_SECTION_TEMPLATE);
  if (!chat)
    return chat.takeError();
  if (!chat->empty()) {
    Result<ChatTemplates> opened = ChatTemplates::open(*chat);
    if (!opened)
      return makeError("%s: %s", payload.path().c_str(), opened.takeError().message().c_str());
    templates = *opened;
  }
  return {};
}

Result<Tokenizer> Program::needTokenizer() const {
  if (!tokenizer)
    return makeError("this model was compiled without a tokenizer, so there is no text: give ids with --tokens");
  return *tokenizer;
}

Result<ChatTemplates> Program::needTemplates() const {
  if (!templates)
    return makeError("this model was compiled without a chat template: it takes plain text, with -p TEXT --raw");
  return *templates;
}

Result<const ingot_rt_variant *> chooseVariant(const ingot_rt_model &model, const Arguments &arguments) {
  const char *environment = getenv("INGOT_CPU");
  std::string forced = arguments.text("cpu-variant", environment ? environment : "");
  return chooseVariant(model, cpuFeatures(), forced);
}

uint64_t rowsAtOnce(const ingot_rt_model &model) {
  return std::max<uint64_t>(1, (uint64_t(64) << 20) / (4 * roundUp(model.vocab, INGOT_RT_PANEL)));
}

Result<SessionLimits> chooseLimits(const ingot_rt_model &model, const Arguments &arguments, const SessionNeeds &needs,
                                   Device *device, bool enforce) {
  SessionLimits limits;
  Result<uint64_t> threads = needs.workers;
  if (needs.workers == 0)
    threads = arguments.number("threads", findCores().allowed, 1, maxWorkers);
  Result<uint64_t> context = needs.context;
  if (needs.context == 0)
    context = arguments.number("ctx", model.max_context, 1, model.max_context);
  if (!threads)
    return threads.takeError();
  if (!context)
    return context.takeError();
  limits.workers = static_cast<uint32_t>(*threads);
  limits.context = *context;
  limits.sequences = std::min(needs.sequences, model.max_batch);
  limits.stepTokens = needs.stepTokens == 0 ? model.max_step_tokens : std::min(needs.stepTokens, model.max_step_tokens);
  limits.sequences = std::min(limits.sequences, limits.stepTokens);
  limits.rows = std::clamp<uint64_t>(needs.rows, limits.sequences, limits.stepTokens);

  MemoryBudget budget = findMemoryBudget();
  bool onDevice = hasDeviceMemory(model);
  if (onDevice) {
    budget = {UINT64_MAX, "memory of the GPU"};
    if (device) {
      Result<uint64_t> available = device->memory()->available();
      if (!available)
        return available.takeError();
      budget.bytes = *available;
    }
  }
  bool asked = needs.context != 0 || arguments.has("ctx");
  auto bytes = [&](uint64_t blocks) -> Result<uint64_t> {
    limits.blocks = blocks;
    Result<MemoryPlan> plan = planMemory(model, limits);
    if (!plan)
      return plan.takeError();
    if (onDevice)
      return plan->device();
    // Mapped weights can be dropped and read again; a context that was asked for may cost that.
    return asked ? plan->anonymous() : plan->total();
  };
  uint64_t perSequence = ceilDiv(limits.context, INGOT_RT_CACHE_BLOCK);
  Result<uint64_t> most = bytes(perSequence * limits.sequences);
  if (!most)
    return most.takeError();
  if (*most <= budget.bytes)
    return limits;
  Result<uint64_t> least = bytes(1);
  if (!least)
    return least.takeError();
  uint64_t blockBytes = std::max<uint64_t>(1, model.cache_groups[0].block_bytes);
  uint64_t fitting = *least > budget.bytes ? 0 : 1 + (budget.bytes - *least) / blockBytes;
  limits.blocks = std::min(fitting, perSequence * limits.sequences);
  if (fitting >= perSequence) // fewer long sequences at a time
    return limits;
  if (!enforce && (asked || fitting == 0)) {
    limits.blocks = perSequence * limits.sequences;
    return limits;
  }
  if (asked || fitting == 0)
    return makeError("a context of %" PRIu64 " needs %s, but only %s are left (%s)%s", limits.context,
                     bytesText(*least + (perSequence - 1) * blockBytes).c_str(), bytesText(budget.bytes).c_str(),
                     budget.source.c_str(), fitting == 0 ? "" : "; a smaller --ctx would fit");
  limits.context = fitting * INGOT_RT_CACHE_BLOCK;
  if (enforce)
    note("note: context reduced from %" PRIu64 " to %" PRIu64 ": %s are left (%s)", model.max_context, limits.context,
         bytesText(budget.bytes).c_str(), budget.source.c_str());
  return limits;
}

/// Random weights that the device's kernels fill, in its own memory if it has some.
static Error generateOnDevice(Session &session, const ingot_rt_model &model) {
  DeviceMemory *memory = session.device->memory();
  session.weights.source = Weights::Source::Random;
  session.weights.bytes = model.weights_bytes;
  if (memory) {
    Result<DeviceBuffer> there =
        DeviceBuffer::create(*memory, DeviceBuffer::Place::Device, model.weights_bytes, "the weights");
    if (!there)
      return there.takeError();
    session.deviceWeights = std::move(*there);
    memory->clear(session.deviceWeights.data(), model.weights_bytes);
  } else {
    Result<Mapping> here = Mapping::anonymous(model.weights_bytes, "random weights", true);
    if (!here)
      return here.takeError();
    session.weights.own = std::move(*here);
    session.weights.data = session.weights.own.data();
  }
  Progress progress("weights");
  uint64_t behind[DeviceMemory::marks] = {};
  uint32_t next = 0;
  auto launched = [&](uint64_t bytes) {
    if (!memory)
      return progress.update(bytes, model.weights_bytes);
    // What is told is there, not only asked for.
    memory->waitFor(next);
    progress.update(behind[next], model.weights_bytes);
    behind[next] = bytes;
    memory->mark(next);
    next = (next + 1) % DeviceMemory::marks;
  };
  uint8_t *data = memory ? session.deviceWeights.data() : session.weights.own.data();
  launchRandomWeights(model, session.variant->random_kernels, data, *session.device, launched);
  if (memory)
    return memory->finish();
  if (const char *fault = session.device->fault())
    return makeError("%s: %s", session.variant->device->name, fault);
  return {};
}

/// Weights of the file, or random ones that the host fills; copied to a device with memory of its own.
static Error loadWeights(Program &program, Session &session) {
  const ingot_rt_model &model = program.model;
  DeviceMemory *memory = session.device ? session.device->memory() : nullptr;
  Result<Weights> weights = loadWeights(program.payload, model, *session.pool, /*touch=*/!memory);
  if (!weights)
    return weights.takeError();
  session.weights = std::move(*weights);
  if (!memory)
    return {};
  Progress progress("weights");
  Result<DeviceBuffer> there = uploadWeights(*memory, session.weights.data, session.weights.bytes, *session.pool,
                                             [&](uint64_t done) { progress.update(done, model.weights_bytes); });
  if (!there)
    return there.takeError();
  session.deviceWeights = std::move(*there);
  return {};
}

Result<std::unique_ptr<Session>> openSession(Program &program, const Arguments &arguments, const SessionNeeds &needs) {
  auto session = std::make_unique<Session>();
  const ingot_rt_model &model = program.model;
  Result<const ingot_rt_variant *> variant = chooseVariant(model, arguments);
  if (!variant)
    return variant.takeError();
  session->variant = *variant;
  Result<uint64_t> number = arguments.number("device", 0, 0, UINT32_MAX);
  if (!number)
    return number.takeError();
  if (arguments.has("device") && !session->variant->device)
    return makeUsageError("--device: expected an executable for GPUs (ingotc --target=cuda), this is one for CPUs");
  if (const ingot_rt_device *kind = session->variant->device) {
    DeviceOptions options;
    options.number = static_cast<uint32_t>(*number);
    Result<std::unique_ptr<Device>> device = kind->open(&model, options);
    if (!device)
      return device.takeError();
    session->device = std::move(*device);
  }
  Result<SessionLimits> limits = chooseLimits(model, arguments, needs, session->device.get(), true);
  if (!limits)
    return limits.takeError();
  session->limits = *limits;
  Result<MemoryPlan> plan = planMemory(model, *limits);
  if (!plan)
    return plan.takeError();
  session->plan = *plan;
  session->pool = std::make_unique<Pool>(limits->workers, findCores().allowed);
  Error loaded = model.random && session->variant->random_kernels ? generateOnDevice(*session, model)
                                                                  : loadWeights(program, *session);
  if (loaded)
    return loaded;
  if (Error error = session->makeEngine(model))
    return error;
  return session;
}

Error Session::makeEngine(const ingot_rt_model &model) {
  engine.reset();
  const uint8_t *data = deviceWeights.data() ? deviceWeights.data() : weights.data;
  Result<std::unique_ptr<Engine>> made = Engine::create(model, *variant, data, limits, *pool, device.get());
  if (!made)
    return made.takeError();
  engine = std::move(*made);
  return {};
}

Result<std::string> readText(const std::string &path) {
  bool standard = path == "-";
  FILE *file = standard ? stdin : fopen(path.c_str(), "rbe");
  if (!file)
    return makeError("%s: %s", path.c_str(), strerror(errno));
  std::string text;
  char buffer[65536];
  while (size_t count = fread(buffer, 1, sizeof buffer, file))
    text.append(buffer, count);
  bool failed = ferror(file) != 0;
  int code = errno;
  if (!standard)
    fclose(file);
  if (failed)
    return makeError("%s: %s", path.c_str(), strerror(code));
  return text;
}

Result<std::vector<std::vector<int32_t>>> readTokenLists(const Arguments &arguments, const char *name) {
  std::vector<std::vector<int32_t>> all;
  for (const std::string &value : arguments.texts(name)) {
    std::string text = value;
    if (value == "-" || value.rfind('@', 0) == 0) {
      Result<std::string> content = readText(value == "-" ? value : value.substr(1));
      if (!content)
        return content.takeError();
      text = std::move(*content);
    }
    Result<std::vector<std::vector<int32_t>>> lists = parseTokenLists(text, spelled(name).c_str());
    if (!lists)
      return lists;
    for (std::vector<int32_t> &list : *lists)
      all.push_back(std::move(list));
  }
  return all;
}

} // namespace ingot::rt
