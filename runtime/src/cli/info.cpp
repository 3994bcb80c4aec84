// The verb info: what this executable is, what it needs, and what became of the checkpoint's keys and tensors.
#include "cli/verbs.h"

#include "platform/cpu.h"
#include "support/checked.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <map>

namespace ingot::rt {

namespace {

constexpr OptionSpec infoOptions[] = {
    {"json", nullptr, "one object"},
    {"ledger", nullptr, "every key of the configuration and every tensor, and what became of it"},
    {"memory", nullptr, "peak bytes, their formula and the plan of the temporaries"},
    {"licenses licences", nullptr, "the model's licence and third-party notices"},
    {"sequences", "N", "for --memory: sequences in one step (default: 1)"},
    INGOT_SESSION_OPTIONS,
};

const char *dtypeName(uint32_t dtype) {
  static const char *const names[] = {"f32",  "bf16", "f16",  "q8_0", "q4_0", "q4_1",
                                      "q5_0", "q5_1", "q4_k", "q5_k", "q6_k", "int8"};
  return dtype < std::size(names) ? names[dtype] : "unknown";
}

/// Bytes of parameters by how they are stored.
std::map<uint32_t, uint64_t> bytesOfDtypes(const ingot_rt_model &model) {
  std::map<uint32_t, uint64_t> bytes;
  for (uint64_t i = 0; i < model.parameter_count; ++i)
    bytes[model.parameters[i].dtype] += model.parameters[i].count * model.parameters[i].layer_stride;
  return bytes;
}

/// The type in which most bytes of the parameters are stored.
uint32_t mainDtype(const ingot_rt_model &model) {
  std::map<uint32_t, uint64_t> bytes = bytesOfDtypes(model);
  uint32_t best = INGOT_RT_F32;
  for (const auto &[dtype, count] : bytes)
    if (count > bytes[best])
      best = dtype;
  return best;
}

/// Parameters by part, in the order in which parts first appear, and their sum.
std::vector<std::pair<std::string, uint64_t>> countParts(const ingot_rt_model &model, uint64_t &total) {
  std::vector<std::pair<std::string, uint64_t>> parts;
  total = 0;
  for (uint64_t i = 0; i < model.parameter_count; ++i) {
    const ingot_rt_parameter &parameter = model.parameters[i];
    total += parameter.parameters;
    auto part = std::find_if(parts.begin(), parts.end(), [&](const auto &one) { return one.first == parameter.part; });
    if (part == parts.end())
      part = parts.insert(parts.end(), {parameter.part, 0});
    part->second += parameter.parameters;
  }
  return parts;
}

const char *weightsKind(const Program &program) {
  return program.model.random ? "random" : program.payload.header().separate_size != 0 ? "separate" : "embedded";
}

std::vector<std::string> buildLines(const Program &program) {
  std::vector<std::string> lines;
  if (const ingot_rt_section *section = program.payload.find(INGOT_RT_SECTION_BUILD)) {
    std::string_view text = program.payload.bytes(*section);
    while (!text.empty()) {
      size_t end = std::min(text.find('\n'), text.size());
      lines.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  return lines;
}

/// "a default of generation" and whether it came from the model.
struct DefaultValue {
  const char *name;
  std::string value;
  bool given;
};

std::vector<DefaultValue> listDefaults(const Program &program) {
  std::vector<DefaultValue> values;
  const ingot_rt_generation_defaults *defaults = program.defaults;
  if (!defaults)
    return values;
  auto given = [&](int bit) { return (defaults->present >> bit & 1) != 0; };
  auto number = [](float value) { return formatText("%.9g", static_cast<double>(value)); };
  values.push_back({"do_sample", defaults->do_sample ? "true" : "false", given(0)});
  values.push_back({"temperature", number(defaults->temperature), given(1)});
  values.push_back({"top_k", formatText("%u", defaults->top_k), given(2)});
  values.push_back({"top_p", number(defaults->top_p), given(3)});
  values.push_back({"min_p", number(defaults->min_p), given(4)});
  values.push_back({"repetition_penalty", number(defaults->repetition_penalty), given(5)});
  if (defaults->max_new_tokens >= 0)
    values.push_back({"max_new_tokens", formatText("%" PRId64, defaults->max_new_tokens), true});
  if (defaults->max_length >= 0)
    values.push_back({"max_length", formatText("%" PRId64, defaults->max_length), true});
  return values;
}

struct MemoryFacts {
  SessionLimits limits;
  MemoryPlan plan;
};

Result<MemoryFacts> findMemory(const Program &program, const Arguments &arguments) {
  SessionNeeds needs;
  Result<uint64_t> sequences = arguments.number("sequences", 1, 1, program.model.max_batch);
  if (!sequences)
    return sequences.takeError();
  needs.sequences = *sequences;
  Result<SessionLimits> limits = chooseLimits(program.model, arguments, needs, nullptr, false);
  if (!limits)
    return limits.takeError();
  Result<MemoryPlan> plan = planMemory(program.model, *limits);
  if (!plan)
    return plan.takeError();
  return MemoryFacts{*limits, *plan};
}

void writeMemory(JsonWriter &json, const MemoryFacts &memory) {
  json.beginObject();
  const std::pair<const char *, uint64_t> members[] = {{"context", memory.limits.context},
                                                       {"sequences", memory.limits.sequences},
                                                       {"step_tokens", memory.limits.stepTokens},
                                                       {"rows", memory.limits.rows},
                                                       {"workers", memory.limits.workers},
                                                       {"mapped_weights", memory.plan.mappedWeights},
                                                       {"generated_weights", memory.plan.generatedWeights},
                                                       {"arena", memory.plan.arena},
                                                       {"cache", memory.plan.cache},
                                                       {"logits", memory.plan.logits},
                                                       {"tables", memory.plan.metadata},
                                                       {"peak_anonymous", memory.plan.anonymous()},
                                                       {"staging", memory.plan.staging},
                                                       {"peak", memory.plan.total()},
                                                       {"device_peak", memory.plan.device()}};
  for (const auto &[name, value] : members) {
    json.key(name);
    json.number(value);
  }
  json.endObject();
}

/// A NUL-terminated text at `offset` of a section, or "" when that is outside of it.
std::string_view textAt(std::string_view section, uint64_t offset) {
  if (offset >= section.size())
    return "";
  return {section.data() + offset, strnlen(section.data() + offset, section.size() - offset)};
}

/// The table `Table` with `count` entries of `entryBytes` behind it fits in the section.
template <typename Table>
const Table *tableIn(std::string_view section, uint64_t Table::*count, uint64_t entryBytes) {
  auto table = reinterpret_cast<const Table *>(section.data());
  if (section.size() < sizeof(Table) || table->*count > (section.size() - sizeof(Table)) / entryBytes)
    return nullptr;
  return table;
}

Error printLedger(Program &program, bool json) {
  Result<std::string_view> section = program.payload.checkedBytes(INGOT_RT_SECTION_LEDGER);
  if (!section)
    return section.takeError();
  if (section->empty())
    return makeError("this executable holds no ledger");
  auto ledger = tableIn(*section, &ingot_rt_ledger::entry_count, sizeof(ingot_rt_ledger_entry));
  if (!ledger)
    return makeError("damaged: the ledger does not fit its section");
  if (json) {
    JsonWriter writer(program.out);
    writer.beginObject();
    writer.key("summary");
    writer.text(textAt(*section, ledger->summary));
    writer.key("entries");
    writer.beginArray();
    for (uint64_t i = 0; i < ledger->entry_count; ++i) {
      const ingot_rt_ledger_entry &entry = ledger->entries[i];
      writer.beginObject();
      writer.key("what");
      writer.text(textAt(*section, entry.what));
      writer.key("outcome");
      writer.text(textAt(*section, entry.outcome));
      writer.key("detail");
      writer.text(textAt(*section, entry.detail));
      writer.endObject();
    }
    writer.endArray();
    writer.endObject();
    program.out.write("\n");
    return {};
  }
  program.out.write(textAt(*section, ledger->summary));
  program.out.write("\n");
  for (uint64_t i = 0; i < ledger->entry_count; ++i) {
    const ingot_rt_ledger_entry &entry = ledger->entries[i];
    program.out.write(textAt(*section, entry.what));
    program.out.write(": ");
    program.out.write(textAt(*section, entry.outcome));
    if (std::string_view detail = textAt(*section, entry.detail); !detail.empty()) {
      program.out.write(": ");
      program.out.write(detail);
    }
    program.out.write("\n");
  }
  return {};
}

Error printMemory(Program &program, const Arguments &arguments) {
  Result<MemoryFacts> memory = findMemory(program, arguments);
  if (!memory)
    return memory.takeError();
  if (arguments.has("json")) {
    JsonWriter json(program.out);
    writeMemory(json, *memory);
    program.out.write("\n");
    return {};
  }
  Output &out = program.out;
  const ingot_rt_model &model = program.model;
  const SessionLimits &limits = memory->limits;
  const MemoryPlan &plan = memory->plan;
  out.print("at context %" PRIu64 ", %" PRIu64 " sequences, %" PRIu64 " tokens and %" PRIu64
            " rows of logits in a step, %u workers:\n",
            limits.context, limits.sequences, limits.stepTokens, limits.rows, limits.workers);
  const std::pair<const char *, uint64_t> lines[] = {
      {"weights, mapped from the file", plan.mappedWeights},
      {"weights, generated at start", plan.generatedWeights},
      {plan.onDevice ? "cache" : "cache, touched as it is used", plan.cache},
      {"temporaries", plan.arena},
      {"logits", plan.logits},
      {"tables of a step", plan.metadata},
      {"page-locked copies on the host", plan.staging},
      {"peak of the GPU's memory", plan.device()},
      {plan.onDevice ? "peak of the host's memory" : "peak", plan.total()}};
  for (const auto &[name, bytes] : lines)
    if (bytes != 0)
      out.print("  %-32s %16" PRIu64 "  %s\n", name, bytes, bytesText(bytes).c_str());
  out.print("formula:\n  cache = %" PRIu64 " * blocks, a block is %d positions of one sequence\n"
            "  temporaries = %" PRIu64 " + %" PRIu64 " * tokens + %" PRIu64 " * rows + %" PRIu64 " * workers\n"
            "  logits = %" PRIu64 " * rows\n",
            model.cache_groups[0].block_bytes, INGOT_RT_CACHE_BLOCK, model.arena.base, model.arena.per_token,
            model.arena.per_row, model.arena.per_worker, 4 * roundUp(model.vocab, INGOT_RT_PANEL));
  Result<std::string_view> section = program.payload.checkedBytes(INGOT_RT_SECTION_MEMORY);
  if (!section)
    return section.takeError();
  if (section->empty())
    return {};
  auto buffers = tableIn(*section, &ingot_rt_arena_plan::buffer_count, sizeof(ingot_rt_arena_buffer));
  if (!buffers)
    return makeError("damaged: the plan of the temporaries does not fit its section");
  out.write("temporaries:\n");
  for (uint64_t i = 0; i < buffers->buffer_count; ++i) {
    const ingot_rt_arena_buffer &buffer = buffers->buffers[i];
    static constexpr const char *units[] = {"", " a token", " a row", " a worker"};
    const char *unit = buffer.unit < 4 ? units[buffer.unit] : "";
    std::string name(textAt(*section, buffer.name));
    // Alive from before the first op on: an argument.
    std::string first = buffer.first_op == UINT64_MAX ? "start" : formatText("%" PRIu64, buffer.first_op);
    out.print("  %-32s %10" PRIu64 " bytes%-9s at %10" PRIu64 "  ops %s to %" PRIu64 "\n", name.c_str(),
              buffer.bytes_per_unit, unit, buffer.offset_per_unit, first.c_str(), buffer.last_op);
  }
  return {};
}

void printJson(Program &program, const MemoryFacts &memory, const std::string &variant) {
  const ingot_rt_model &model = program.model;
  JsonWriter json(program.out);
  auto text = [&](const char *key, std::string_view value) {
    json.key(key);
    json.text(value);
  };
  auto number = [&](const char *key, uint64_t value) {
    json.key(key);
    json.number(value);
  };
  json.beginObject();
  text("name", model.name);
  text("architecture", model.architecture);
  uint64_t total;
  auto parts = countParts(model, total);
  json.key("parameters");
  json.beginObject();
  number("total", total);
  for (const auto &[part, count] : parts)
    number(part.c_str(), count);
  json.endObject();
  for (const auto &[key, value] : {std::pair<const char *, uint64_t>{"vocab", model.vocab},
                                   {"hidden", model.hidden},
                                   {"intermediate", model.intermediate},
                                   {"layers", model.layers},
                                   {"heads", model.heads},
                                   {"kv_heads", model.kv_heads},
                                   {"head_dim", model.head_dim},
                                   {"max_context", model.max_context},
                                   {"max_batch", model.max_batch},
                                   {"max_step_tokens", model.max_step_tokens},
                                   {"weights_bytes", model.weights_bytes}})
    number(key, value);
  text("dtype", dtypeName(mainDtype(model)));
  json.key("dtype_bytes");
  json.beginObject();
  for (const auto &[dtype, bytes] : bytesOfDtypes(model))
    number(dtypeName(dtype), bytes);
  json.endObject();
  text("kv_dtype", dtypeName(model.cache_groups[0].dtype));
  text("weights", weightsKind(program));
  if (model.random)
    number("random_seed", model.random_seed);
  json.key("variant");
  if (variant.empty())
    json.null();
  else
    json.text(variant);
  json.key("variants");
  json.beginArray();
  for (uint32_t i = 0; i < model.variant_count; ++i)
    json.text(model.variants[i].name);
  json.endArray();
  text("target", targetTriple);
  text("cpu", cpuName());
  json.key("tokenizer");
  json.boolean(program.tokenizer.has_value());
  json.key("chat_templates");
  json.beginArray();
  for (size_t i = 0; program.templates && i < program.templates->names().size(); ++i) {
    json.beginObject();
    text("name", program.templates->names()[i]);
    text("from", program.templates->where(i));
    json.key("variables");
    json.beginArray();
    for (const std::string &variable : program.templates->variables(i))
      json.text(variable);
    json.endArray();
    json.endObject();
  }
  json.endArray();
  json.key("end_tokens");
  json.tokens(program.endTokens.data(), program.endTokens.size());
  json.key("generation");
  json.beginObject();
  for (const DefaultValue &value : listDefaults(program)) {
    json.key(value.name);
    json.raw(value.value);
  }
  json.endObject();
  json.key("memory");
  writeMemory(json, memory);
  json.key("build");
  json.beginArray();
  for (const std::string &line : buildLines(program))
    json.text(line);
  json.endArray();
  json.endObject();
  program.out.write("\n");
}

void printText(Program &program, const MemoryFacts &memory, const std::string &variant) {
  const ingot_rt_model &model = program.model;
  Output &out = program.out;
  uint64_t total;
  auto parts = countParts(model, total);
  out.print("model        %s (%s)\n", model.name, model.architecture);
  out.print("parameters   %" PRIu64 "\n", total);
  for (const auto &[part, count] : parts)
    out.print("  %-10s %" PRIu64 "\n", part.c_str(), count);
  out.print("shape        vocabulary %" PRIu64 ", hidden %" PRIu64 ", intermediate %" PRIu64 ", layers %" PRIu64
            ", heads %" PRIu64 ", kv heads %" PRIu64 ", head dim %" PRIu64 "\n",
            model.vocab, model.hidden, model.intermediate, model.layers, model.heads, model.kv_heads, model.head_dim);
  out.print("weights      %s, %s, %s\n", dtypeName(mainDtype(model)), weightsKind(program),
            bytesText(model.weights_bytes).c_str());
  if (auto stored = bytesOfDtypes(model); stored.size() > 1)
    for (const auto &[dtype, bytes] : stored)
      out.print("  %-10s %s\n", dtypeName(dtype), bytesText(bytes).c_str());
  out.print("cache        %s, %" PRIu64 " bytes a position\n", dtypeName(model.cache_groups[0].dtype),
            model.cache_groups[0].block_bytes / INGOT_RT_CACHE_BLOCK);
  out.print("context      %" PRIu64 " here, compiled for %" PRIu64 "; %" PRIu64 " sequences, %" PRIu64
            " tokens in a step\n",
            memory.limits.context, model.max_context, model.max_batch, model.max_step_tokens);
  out.print("memory       %s at most, %s of it mapped from the file\n", bytesText(memory.plan.total()).c_str(),
            bytesText(memory.plan.mappedWeights).c_str());
  if (memory.plan.onDevice)
    out.print("GPU memory   %s\n", bytesText(memory.plan.device()).c_str());
  std::string names;
  for (uint32_t i = 0; i < model.variant_count; ++i)
    names += std::string(i ? ", " : "") + model.variants[i].name;
  out.print("target       %s\n", targetTriple);
  out.print("CPU          %s: %s (of %s)\n", cpuName().c_str(),
            variant.empty() ? "no variant runs here" : variant.c_str(), names.c_str());
  out.print("tokenizer    %s\n", program.tokenizer ? "yes" : "none: prompts are ids");
  if (!program.templates)
    out.print("chat         no template: a prompt is the text as it is\n");
  for (size_t i = 0; program.templates && i < program.templates->names().size(); ++i) {
    std::string variables;
    for (const std::string &variable : program.templates->variables(i))
      variables += (variables.empty() ? "" : ", ") + variable;
    out.print("chat         template '%s' with %s\n", program.templates->names()[i].c_str(),
              variables.empty() ? "no variables" : variables.c_str());
  }
  std::string ends;
  for (int32_t token : program.endTokens)
    ends += formatText(ends.empty() ? "%d" : ", %d", token);
  out.print("end tokens   %s\n", ends.empty() ? "none" : ends.c_str());
  for (const DefaultValue &value : listDefaults(program))
    out.print("  %-18s %s%s\n", value.name, value.value.c_str(), value.given ? "" : " (the reference's default)");
  for (const std::string &line : buildLines(program))
    out.print("build        %s\n", line.c_str());
}

Error runInfo(Program &program, const Arguments &arguments) {
  if (arguments.has("ledger"))
    return printLedger(program, arguments.has("json"));
  if (arguments.has("licenses")) {
    const ingot_rt_section *section = program.payload.find(INGOT_RT_SECTION_LICENSES);
    if (!section)
      return makeError("this executable holds no licence texts");
    program.out.write(program.payload.bytes(*section));
    return {};
  }
  if (arguments.has("memory"))
    return printMemory(program, arguments);
  Result<MemoryFacts> memory = findMemory(program, arguments);
  if (!memory)
    return memory.takeError();
  Result<const ingot_rt_variant *> chosen = chooseVariant(program.model, arguments);
  std::string variant = chosen ? (*chosen)->name : "";
  if (!chosen && (arguments.has("cpu-variant") || chosen.takeError().exitCode() == 2))
    return chooseVariant(program.model, arguments).takeError();
  if (arguments.has("json"))
    printJson(program, *memory, variant);
  else
    printText(program, *memory, variant);
  return {};
}

} // namespace

const VerbSpec infoVerb = {"info",
                           "What this executable is and what it needs.",
                           "[--json | --ledger | --memory | --licenses]",
                           "--memory --ctx 4096",
                           infoOptions,
                           nullptr,
                           runInfo};

} // namespace ingot::rt
