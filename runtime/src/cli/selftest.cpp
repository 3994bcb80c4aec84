// The verb selftest: are the stored bytes intact, and does the compiled code compute what the evaluator computed?
#include "cli/verbs.h"

#include "scheduler/scheduler.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstring>

namespace ingot::rt {

namespace {

constexpr OptionSpec selftestOptions[] = {
    {"json", nullptr, "one object: hashes and logits, each passed, failed or left out, with details"},
    INGOT_SESSION_OPTIONS,
};

struct Verdict {
  enum class State { Passed, Failed, LeftOut } state = State::Passed;
  std::string detail;
};

const char *stateName(Verdict::State state) {
  return state == Verdict::State::Passed ? "passed" : state == Verdict::State::Failed ? "FAILED" : "left out";
}

/// Every section's bytes against the table, FILE.weights against the executable, a sample of random weights.
Verdict checkHashes(const Program &program, const Weights &weights) {
  const ingot_rt_payload_header &header = program.payload.header();
  uint64_t bytes = 0;
  std::string bad;
  auto compare = [&](const char *what, const void *data, uint64_t size, const uint64_t expected[2]) {
    bytes += size;
    Hash hash = hashBytes(data, size), wanted{expected[0], expected[1]};
    if (!(hash == wanted))
      bad += formatText("%s%s: expected hash %s, got %s", bad.empty() ? "" : "; ", what, hashText(wanted).c_str(),
                        hashText(hash).c_str());
  };
  for (uint32_t i = 0; i < header.section_count; ++i) {
    std::string_view content = program.payload.bytes(header.sections[i]);
    if (header.sections[i].kind == INGOT_RT_SECTION_WEIGHTS && weights.data)
      content = {reinterpret_cast<const char *>(weights.data), weights.bytes};
    compare(sectionName(header.sections[i].kind), content.data(), content.size(), header.sections[i].hash);
  }
  if (weights.source == Weights::Source::Separate)
    compare(weights.path.c_str(), weights.data, weights.bytes, header.separate_hash);
  uint64_t sampled = 0;
  if (weights.source == Weights::Source::Random) {
    constexpr uint64_t elements = 100000;
    uint64_t all = 0;
    for (uint64_t i = 0; i < program.model.random_source_count; ++i) {
      const ingot_rt_random_source &source = program.model.random_sources[i];
      all += source.count * source.rows * source.columns;
    }
    // An odd stride meets every column of matrices whose width is a power of two.
    Result<uint64_t> count = sampleRandomWeights(program.model, weights.data, all / elements | 1);
    if (count)
      sampled = *count;
    else
      bad += (bad.empty() ? "" : "; ") + count.takeError().message();
  }
  if (!bad.empty())
    return {Verdict::State::Failed, bad};
  std::string detail = formatText("%s in %u sections", bytesText(bytes).c_str(), header.section_count);
  if (sampled != 0)
    detail += formatText(", %" PRIu64 " elements of the generated weights", sampled);
  return {Verdict::State::Passed, detail};
}

/// Compares rows of logits with stored values.
class Comparison : public Listener {
public:
  Comparison(const ingot_rt_selftest &table)
      : table(table), rows(reinterpret_cast<const int32_t *>(&table + 1) + table.token_count),
        ids(rows + table.row_count),
        values(reinterpret_cast<const float *>(ids + uint64_t(table.row_count) * table.ids_per_row)) {}

  void onRow(uint64_t, uint64_t position, const float *logits) override {
    for (uint32_t row = 0; row < table.row_count; ++row) {
      if (static_cast<uint64_t>(rows[row]) != position)
        continue;
      for (uint32_t i = 0; i < table.ids_per_row; ++i) {
        uint64_t at = uint64_t(row) * table.ids_per_row + i;
        double difference = std::fabs(static_cast<double>(logits[ids[at]]) - static_cast<double>(values[at]));
        ++compared;
        if (!(difference <= worst)) { // a NaN is the worst
          worst = difference;
          where = at;
        }
      }
    }
  }

  const ingot_rt_selftest &table;
  const int32_t *rows, *ids;
  const float *values;
  double worst = 0;
  uint64_t where = 0, compared = 0;
};

Result<Verdict> checkLogits(Program &program, Session &session) {
  Result<std::string_view> section = program.payload.checkedBytes(INGOT_RT_SECTION_SELFTEST);
  if (!section)
    return Verdict{Verdict::State::Failed, section.takeError().message()};
  if (section->empty())
    return Verdict{Verdict::State::LeftOut, "no reference logits were stored"};
  auto table = reinterpret_cast<const ingot_rt_selftest *>(section->data());
  uint64_t size = section->size();
  if (size < sizeof *table || table->token_count > 8 || table->row_count > 8 || table->ids_per_row > 256 ||
      size < sizeof *table + 4 * (table->token_count + table->row_count * (1 + 2 * uint64_t(table->ids_per_row))))
    return Verdict{Verdict::State::Failed, "damaged: the reference logits do not fit their section"};
  if (table->row_count == 0) {
    const char *reason =
        table->reason != 0 && table->reason < size ? section->data() + table->reason : "none were stored";
    return Verdict{Verdict::State::LeftOut, std::string(reason, strnlen(reason, section->data() + size - reason))};
  }
  Comparison comparison(*table);
  for (uint64_t i = 0; i < uint64_t(table->row_count) * table->ids_per_row; ++i)
    if (comparison.ids[i] < 0 || static_cast<uint64_t>(comparison.ids[i]) >= program.model.vocab)
      return Verdict{Verdict::State::Failed, "damaged: an id of the reference logits is out of range"};
  Request request;
  auto tokens = reinterpret_cast<const int32_t *>(table + 1);
  request.prompt.assign(tokens, tokens + table->token_count);
  request.rows = Request::Rows::Every;
  Scheduler scheduler(*session.engine, {});
  if (Result<uint64_t> number = scheduler.submit(std::move(request), comparison); !number)
    return number.takeError();
  if (Error error = scheduler.runAll())
    return error;
  double allowed = static_cast<double>(table->tolerance) * std::max(1.0, static_cast<double>(table->largest));
  std::string detail = formatText("largest difference %.3g of %" PRIu64 " logits, allowed %.3g", comparison.worst,
                                  comparison.compared, allowed);
  if (comparison.compared != uint64_t(table->row_count) * table->ids_per_row)
    return Verdict{Verdict::State::Failed, "damaged: a row of the reference logits is not a position of its tokens"};
  if (comparison.worst <= allowed)
    return Verdict{Verdict::State::Passed, detail};
  uint64_t row = comparison.where / table->ids_per_row;
  detail += formatText("; worst at position %d, id %d: expected %.9g", comparison.rows[row],
                       comparison.ids[comparison.where], static_cast<double>(comparison.values[comparison.where]));
  return Verdict{Verdict::State::Failed, detail};
}

/// Where a device has the weights, its copy of them: what is checked then is what kernels read.
Result<Mapping> copyBack(Session &session) {
  if (!session.deviceWeights.data())
    return Mapping();
  DeviceMemory &memory = *session.device->memory();
  Result<Mapping> copy = Mapping::anonymous(session.weights.bytes, "a copy of the device's weights", true);
  if (!copy)
    return copy;
  memory.download(copy->data(), session.deviceWeights.data(), session.weights.bytes);
  if (Error error = memory.finish())
    return error;
  session.weights.data = copy->data();
  return copy;
}

Error runSelftest(Program &program, const Arguments &arguments) {
  SessionNeeds needs;
  needs.rows = 8;
  Result<std::unique_ptr<Session>> session = openSession(program, arguments, needs);
  if (!session)
    return session.takeError();
  Result<Mapping> copied = copyBack(**session);
  if (!copied)
    return copied.takeError();
  Verdict hashes = checkHashes(program, (*session)->weights);
  Result<Verdict> logits = checkLogits(program, **session);
  if (!logits)
    return logits.takeError();
  const struct {
    const char *name;
    const Verdict &verdict;
  } parts[] = {{"hashes", hashes}, {"logits", *logits}};
  if (arguments.has("json")) {
    JsonWriter json(program.out);
    json.beginObject();
    for (const auto &part : parts) {
      json.key(part.name);
      json.beginObject();
      json.key("result");
      json.text(part.verdict.state == Verdict::State::Failed ? "failed" : stateName(part.verdict.state));
      json.key("detail");
      json.text(part.verdict.detail);
      json.endObject();
    }
    json.key("variant");
    json.text((*session)->variant->name);
    json.endObject();
    program.out.write("\n");
  } else
    for (const auto &part : parts)
      program.out.print("%s: %s (%s)\n", part.name, stateName(part.verdict.state), part.verdict.detail.c_str());
  bool failed = hashes.state == Verdict::State::Failed || logits->state == Verdict::State::Failed;
  return failed ? makeError("selftest failed") : Error();
}

} // namespace

const VerbSpec selftestVerb = {"selftest",
                               "Checks the stored bytes against their hashes, and the compiled code against reference "
                               "logits that were computed without it.",
                               "[options]",
                               "--json",
                               selftestOptions,
                               nullptr,
                               runSelftest};

} // namespace ingot::rt
