// The verb bench: tokens per second beside the bytes and operations they stand for, as a share of what the machine can.
#include "cli/bench_report.h"
#include "cli/op_timer.h"
#include "cli/verbs.h"

#include "ingot_rt/random.h"
#include "probe/probe.h"
#include "scheduler/scheduler.h"
#include "support/checked.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <optional>

namespace ingot::rt {

namespace {

constexpr OptionSpec benchOptions[] = {
    {"prompt prompt-tokens p", "LIST",
     "lengths of prompts to process (default: 512, at most half of the context; 0: none)"},
    {"gen gen-tokens n", "LIST", "tokens to generate (default: 64, at most a quarter of the context; 0: none)"},
    {"depth d", "LIST", "positions in the cache before either, rounded up to whole blocks of 64 (default: 0)"},
    {"batch sequences b", "LIST", "sequences computed together (default: 1)"},
    {"threads t", "LIST", "workers (default: the physical cores this process may use)"},
    {"repetitions r", "N", "runs of each test, of which the median counts (default: 3)"},
    {"per-op", nullptr,
     "time, bytes, FLOPs and waiting per op (of two more runs, in one of which workers meet after each op)"},
    {"json", nullptr, "one object with all figures"},
    {"plot", "FILE.svg", "draw the roofline with each op on it (implies --per-op)"},
    {"ctx c", "N", "positions of a sequence (default: what the tests need)"},
    {"cpu-variant", "NAME", "force a CPU variant of this executable (also INGOT_CPU); see info"},
    {"device", "N", "which GPU, of an executable for GPUs (default: 0)"},
    {"help h", nullptr, "this text"},
};

struct Plan {
  std::vector<uint64_t> prompts, generates, depths, batches, threads;
  uint64_t repetitions = 3, context = 0;
  bool perOp = false;
};

/// One test: `fresh` positions of each sequence are computed after `depth` cached ones, all at once or one by one.
struct Test {
  const char *name;
  bool decodes;
  uint64_t fresh, depth, batch;
};

/// Ids that exist, without meaning: the time does not depend on them.
void appendTokens(std::vector<int32_t> &ids, uint64_t vocab, uint64_t count, uint64_t seed) {
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t words[4];
    ingot_rt_random_block(seed, i, words);
    ids.push_back(static_cast<int32_t>(words[0] % vocab));
  }
}

/// What to do around each step of a run.
struct StepObserver {
  virtual ~StepObserver() = default;
  virtual void before() {}
  virtual void after() {}
};

struct TimeOps : StepObserver {
  OpTimer timer;
  TimeOps(Engine &engine, Pool &pool) : timer(engine, pool) {}
  void before() override { timer.start(); }
  void after() override { timer.stop(); }
};

/// Counts barriers and what is waited at them, without a hook.
struct TimeBarriers : StepObserver {
  Pool &pool;
  std::vector<WaitTime> waited;
  double seconds = 0, started = 0;
  uint64_t steps = 0;
  explicit TimeBarriers(Pool &pool) : pool(pool), waited(pool.workers()) {}
  void before() override {
    pool.barrier().measure(waited.data());
    started = now();
  }
  void after() override {
    seconds += now() - started;
    pool.barrier().measure(nullptr);
    ++steps;
  }
};

/// Adds up what the steps cost at least.
struct AddWork : StepObserver {
  Engine &engine;
  const std::vector<uint64_t> &callsPerStep;
  Work work;
  uint64_t steps = 0;
  AddWork(Engine &engine, const std::vector<uint64_t> &callsPerStep) : engine(engine), callsPerStep(callsPerStep) {}
  void after() override {
    StepShape step(engine);
    for (uint64_t op = 0; op < engine.model().op_count; ++op) {
      Work one = workOf(engine.model(), engine.model().ops[op], step);
      work.bytes += static_cast<double>(callsPerStep[op]) * one.bytes;
      work.flops += static_cast<double>(callsPerStep[op]) * one.flops;
    }
    ++steps;
  }
};

/// The measurements with one number of workers.
class Bench {
public:
  /// With `device`, which has memory of its own, that is what is measured, and `probe` is null.
  Bench(const Plan &plan, const ReadProbe *probe, Device *device, uint64_t features, Engine &engine, Pool &pool)
      : plan(plan), probe(probe), device(device), features(features), engine(engine), pool(pool),
        scheduler(engine, {}) {}

  /// Probes the machine, and learns how often a step calls each op.
  Error prepare();
  Result<BenchRow> measure(const Test &test);

  MachineLimits limits;

private:
  /// Makes `request`s of the test and steps until they are done; the seconds that took.
  Result<double> run(const Test &test, StepObserver &observer);
  Error submit(std::vector<int32_t> prompt, uint64_t newTokens);
  Error fillDepth(const Test &test);
  /// The higher of the row's limits and of what is reached now.
  Error probeAgain(BenchRow &row);

  const Plan &plan;
  const ReadProbe *const probe;
  Device *const device;
  const uint64_t features;
  Engine &engine;
  Pool &pool;
  Scheduler scheduler;
  Listener nobody;
  std::vector<uint64_t> callsPerStep;
  ReadFigure fastest{ReadFigure::Huge, 8, 0};
  uint64_t runs = 0;
};

Error Bench::submit(std::vector<int32_t> prompt, uint64_t newTokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.newTokens = newTokens;
  request.ignoreEnd = true;
  request.sampling.greedy = true;
  Result<uint64_t> number = scheduler.submit(std::move(request), nobody);
  return number ? Error() : number.takeError();
}

/// Bytes per second that a device's memory moves in a copy, each byte read and written: the fastest of a few.
Result<double> measureCopies(DeviceMemory &memory) {
  Result<uint64_t> available = memory.available();
  if (!available)
    return available.takeError();
  // Well beyond the caches where there is room.
  const uint64_t bytes = std::clamp<uint64_t>(*available / 4, 1, uint64_t(1) << 29);
  DeviceBuffer buffers[2];
  for (DeviceBuffer &buffer : buffers) {
    Result<DeviceBuffer> made = DeviceBuffer::create(memory, DeviceBuffer::Place::Device, bytes, "measuring copies");
    if (!made)
      return made.takeError();
    buffer = std::move(*made);
  }
  double fastest = 0;
  for (int i = 0; i < 5; ++i) {
    double start = now();
    memory.copy(buffers[1].data(), buffers[0].data(), bytes);
    if (Error error = memory.finish())
      return error;
    fastest = std::max(fastest, 2 * static_cast<double>(bytes) / (now() - start));
  }
  return fastest;
}

Error Bench::prepare() {
  limits.workers = pool.workers();
  if (device) {
    limits.device = device->description();
    Result<double> copies = measureCopies(*device->memory());
    if (!copies)
      return copies.takeError();
    limits.bytesPerSecond = *copies;
  } else {
    limits.reads = probe->measureAll(pool, 3);
    for (const ReadFigure &figure : limits.reads)
      if (figure.bytesPerSecond > fastest.bytesPerSecond)
        fastest = figure;
    limits.bytesPerSecond = fastest.bytesPerSecond;
    limits.flopsPerSecond = measurePeakFlops(pool, features, 5);
    limits.dotsPerSecond = measurePeakDots(pool, features, 5);
    limits.barrierSeconds = measureBarrier(pool, 20);
  }
  OpTimer counter(engine, pool);
  if (Error error = submit({0}, 1))
    return error;
  counter.start();
  if (Error error = scheduler.step())
    return error;
  counter.stop();
  callsPerStep = counter.calls();
  return {};
}

/// Computes the positions before the test, once: later runs find them in the cache.
Error Bench::fillDepth(const Test &test) {
  for (uint64_t i = 0; i < test.batch && test.depth != 0; ++i) {
    std::vector<int32_t> prompt;
    appendTokens(prompt, engine.model().vocab, test.depth, i);
    if (Error error = submit(std::move(prompt), 1))
      return error;
  }
  return scheduler.runAll();
}

Result<double> Bench::run(const Test &test, StepObserver &observer) {
  for (uint64_t i = 0; i < test.batch; ++i) {
    std::vector<int32_t> prompt;
    appendTokens(prompt, engine.model().vocab, test.depth, i);
    // Fresh ones each time, which no cached prefix has; decoding starts with one.
    appendTokens(prompt, engine.model().vocab, test.decodes ? 1 : test.fresh, (runs + 1) << 32 | i);
    if (Error error = submit(std::move(prompt), test.decodes ? test.fresh : 1))
      return error;
  }
  ++runs;
  double seconds = 0;
  while (!scheduler.idle()) {
    observer.before();
    double start = now();
    if (Error error = scheduler.step())
      return error;
    seconds += now() - start;
    observer.after();
  }
  return seconds;
}

Error Bench::probeAgain(BenchRow &row) {
  if (device) {
    Result<double> copies = measureCopies(*device->memory());
    if (!copies)
      return copies.takeError();
    row.bytesPerSecond = std::max(row.bytesPerSecond, *copies);
    return {};
  }
  row.bytesPerSecond = std::max(row.bytesPerSecond, probe->measure(pool, fastest.pages, fastest.streams, 2));
  row.flopsPerSecond = std::max(row.flopsPerSecond, measurePeakFlops(pool, features, 3));
  return {};
}

Result<BenchRow> Bench::measure(const Test &test) {
  BenchRow row;
  row.test = test.name;
  row.tokens = test.fresh;
  row.depth = test.depth;
  row.batch = test.batch;
  row.workers = pool.workers();
  note("%s of %" PRIu64 " tokens, depth %" PRIu64 ", batch %" PRIu64 ", %u workers", test.name, test.fresh, test.depth,
       test.batch, row.workers);
  if (Error error = fillDepth(test))
    return error;
  // A run that is not timed: memory is touched, and the work is added up.
  AddWork adder(engine, callsPerStep);
  if (Result<double> seconds = run(test, adder); !seconds)
    return seconds.takeError();
  row.work = adder.work;
  row.steps = adder.steps;
  if (Error error = probeAgain(row))
    return error;
  StepObserver nothing;
  for (uint64_t i = 0; i < plan.repetitions; ++i) {
    Result<double> seconds = run(test, nothing);
    if (!seconds)
      return seconds.takeError();
    row.seconds.push_back(*seconds);
  }
  std::sort(row.seconds.begin(), row.seconds.end());
  if (Error error = probeAgain(row))
    return error;
  if (!plan.perOp)
    return row;
  TimeBarriers barriers(pool);
  if (Result<double> seconds = run(test, barriers); !seconds)
    return seconds.takeError();
  double waited = 0;
  for (const WaitTime &time : barriers.waited)
    waited += time.seconds;
  row.barriersPerStep = static_cast<double>(barriers.waited[0].barriers) / static_cast<double>(barriers.steps);
  row.barrierShare = waited / row.workers / barriers.seconds;
  TimeOps ops(engine, pool);
  if (Result<double> seconds = run(test, ops); !seconds)
    return seconds.takeError();
  row.ops = ops.timer.figures();
  return row;
}

Result<Plan> readPlan(const Program &program, const Arguments &arguments) {
  const ingot_rt_model &model = program.model;
  Plan plan;
  Result<uint64_t> context = arguments.number("ctx", model.max_context, 1, model.max_context);
  Result<uint64_t> repetitions = arguments.number("repetitions", 3, 1, 1000);
  Result<std::vector<uint64_t>> depths = arguments.numbers("depth", {0}, 0, model.max_context);
  Result<std::vector<uint64_t>> batches = arguments.numbers("batch", {1}, 1, model.max_batch);
  Result<std::vector<uint64_t>> threads = arguments.numbers("threads", {findCores().allowed}, 1, maxWorkers);
  for (Result<uint64_t> *number : {&context, &repetitions})
    if (!*number)
      return number->takeError();
  for (Result<std::vector<uint64_t>> *list : {&depths, &batches, &threads})
    if (!*list)
      return list->takeError();
  plan.repetitions = *repetitions;
  plan.batches = *batches;
  plan.threads = *threads;
  uint64_t deepest = 0;
  for (uint64_t depth : *depths) {
    plan.depths.push_back(roundUp(depth, INGOT_RT_CACHE_BLOCK));
    deepest = std::max(deepest, plan.depths.back());
  }
  uint64_t left = *context > deepest ? *context - deepest : 1;
  Result<std::vector<uint64_t>> prompts =
      arguments.numbers("prompt", {std::clamp<uint64_t>(left / 2, 1, 512)}, 0, model.max_context);
  Result<std::vector<uint64_t>> generates =
      arguments.numbers("gen", {std::clamp<uint64_t>(left / 4, 1, 64)}, 0, model.max_context);
  for (Result<std::vector<uint64_t>> *list : {&prompts, &generates})
    if (!*list)
      return list->takeError();
  plan.prompts = *prompts;
  plan.generates = *generates;
  uint64_t longest = 0;
  for (uint64_t tokens : plan.prompts)
    longest = std::max(longest, tokens);
  for (uint64_t tokens : plan.generates)
    longest = std::max(longest, tokens);
  if (longest == 0)
    return makeUsageError("bench: expected tokens to process or to generate, got 0 of both");
  if (deepest + longest > *context)
    return makeUsageError("bench: %" PRIu64 " tokens after %" PRIu64
                          " cached positions do not fit the context of %" PRIu64,
                          longest, deepest, *context);
  plan.context = arguments.has("ctx") ? *context : deepest + longest;
  plan.perOp = arguments.has("per-op") || arguments.has("plot");
  return plan;
}

/// Every test of the plan with one number of workers.
Error runTests(const Plan &plan, Bench &bench, Output *out, BenchReport &report) {
  auto measure = [&](const Test &test) -> Error {
    Result<BenchRow> row = bench.measure(test);
    if (!row)
      return row.takeError();
    if (out)
      printRow(*out, *row);
    report.rows.push_back(std::move(*row));
    return {};
  };
  for (uint64_t batch : plan.batches)
    for (uint64_t depth : plan.depths) {
      for (uint64_t tokens : plan.prompts)
        if (tokens != 0)
          if (Error error = measure({"prompt", false, tokens, depth, batch}))
            return error;
      for (uint64_t tokens : plan.generates)
        if (tokens != 0)
          if (Error error = measure({"decode", true, tokens, depth, batch}))
            return error;
    }
  return {};
}

Error writePlot(const std::string &path, const BenchReport &report) {
  FILE *file = fopen(path.c_str(), "wbe");
  if (!file)
    return makeError("%s: %s", path.c_str(), strerror(errno));
  std::string svg = drawRoofline(report);
  bool written = fwrite(svg.data(), 1, svg.size(), file) == svg.size();
  if (fclose(file) != 0 || !written)
    return makeError("%s: %s", path.c_str(), strerror(errno));
  return {};
}

Error runBench(Program &program, const Arguments &arguments) {
  Result<Plan> plan = readPlan(program, arguments);
  if (!plan)
    return plan.takeError();
  SessionNeeds needs;
  needs.sequences = *std::max_element(plan->batches.begin(), plan->batches.end());
  needs.context = plan->context;
  needs.workers = *std::max_element(plan->threads.begin(), plan->threads.end());
  Result<std::unique_ptr<Session>> opened = openSession(program, arguments, needs);
  if (!opened)
    return opened.takeError();
  Session &session = **opened;
  // Well beyond the caches, within what is left; there are two of them.
  uint64_t probeBytes = std::clamp<uint64_t>(findMemoryBudget().bytes / 8, uint64_t(64) << 20, uint64_t(1) << 30);
  Device *device = session.device && session.device->memory() ? session.device.get() : nullptr;
  if (device && arguments.has("plot"))
    return makeUsageError("--plot: expected an executable for CPUs: the arithmetic of a GPU is not measured");
  std::optional<ReadProbe> probe;
  if (!device) {
    Result<ReadProbe> made = ReadProbe::create(*session.pool, probeBytes, session.weights.data, session.weights.bytes);
    if (!made)
      return made.takeError();
    probe.emplace(std::move(*made));
  }

  bool json = arguments.has("json");
  BenchReport report{program.model.name, session.variant->name, {}, {}};
  if (!json)
    program.out.print("%s, %s\n", program.model.name, session.variant->name);
  for (uint64_t threads : plan->threads) {
    // The weights and the probe's memory stay; workers, the cache and the arena are made anew.
    session.engine.reset();
    session.limits.workers = static_cast<uint32_t>(threads);
    session.pool = std::make_unique<Pool>(static_cast<uint32_t>(threads), findCores().allowed);
    if (Error error = session.makeEngine(program.model))
      return error;
    note("measuring this machine with %" PRIu64 " workers", threads);
    Bench bench(*plan, probe ? &*probe : nullptr, device, session.variant->features, *session.engine, *session.pool);
    if (Error error = bench.prepare())
      return error;
    if (!json) {
      printMachine(program.out, bench.limits);
      printHeading(program.out);
    }
    report.machines.push_back(bench.limits);
    size_t first = report.rows.size();
    if (Error error = runTests(*plan, bench, json ? nullptr : &program.out, report))
      return error;
    for (size_t i = first; i < report.rows.size() && !json; ++i)
      if (!report.rows[i].ops.empty())
        printOps(program.out, report.rows[i]);
  }
  if (json)
    writeJson(program.out, report);
  if (arguments.has("plot"))
    return writePlot(arguments.text("plot"), report);
  return {};
}

} // namespace

const VerbSpec benchVerb = {"bench",      "Measures prompt and decode speed, beside what the machine could do.",
                            "[options]",  "--prompt 128,512 --gen 64 --depth 0,1024 --per-op",
                            benchOptions, nullptr,
                            runBench};

} // namespace ingot::rt
