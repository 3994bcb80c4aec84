// The verb bench: tokens per second beside the bytes and operations they stand for, as a share of what the machine can.
#include "cli/verbs.h"

#include "ingot_rt/random.h"
#include "probe/probe.h"
#include "scheduler/scheduler.h"

#include <algorithm>
#include <cinttypes>

namespace ingot::rt {

namespace {

constexpr OptionSpec benchOptions[] = {
    {"prompt-tokens p", "N", "length of the prompt (default: 512, at most half of the context)"},
    {"gen-tokens n", "N", "tokens to generate after it (default: 64)"},
    {"sequences", "N", "sequences generated together (default: 1)"},
    {"repetitions r", "N", "runs, of which the best counts (default: 3)"},
    {"per-op", nullptr, "time per op of a decode step and of the prompt (slower: workers meet after each op)"},
    {"json", nullptr, "one object with all figures"},
    INGOT_SESSION_OPTIONS,
};

/// What an amount of work costs at least.
struct Work {
  double bytes = 0, flops = 0;
};

/// Bytes of parameters and of cached keys and values that a step reads, and its floating-point operations: `tokens`
/// tokens of one sequence after `before` positions, `rows` rows of logits.
Work stepWork(const ingot_rt_model &model, uint64_t sequences, uint64_t tokens, uint64_t before, uint64_t rows) {
  Work work;
  double all = static_cast<double>(sequences * tokens);
  // Token i of the chunk attends to before + i + 1 positions.
  double context = all * (static_cast<double>(before) + static_cast<double>(tokens + 1) / 2);
  for (uint64_t i = 0; i < model.op_count; ++i) {
    const ingot_rt_op &op = model.ops[i];
    double times = op.in_layer ? static_cast<double>(model.layers) : 1;
    work.bytes += times * static_cast<double>(op.bytes);
    work.flops += times * (static_cast<double>(op.flops_per_token) * all +
                           static_cast<double>(op.flops_per_row) * static_cast<double>(sequences * rows) +
                           static_cast<double>(op.flops_per_context) * context);
  }
  for (uint32_t i = 0; i < model.cache_group_count; ++i) {
    double perPosition = static_cast<double>(model.cache_groups[i].block_bytes) / INGOT_RT_CACHE_BLOCK;
    work.bytes += perPosition * static_cast<double>(sequences) * static_cast<double>(before + tokens);
  }
  return work;
}

/// Measures time between the calls of a step's hook.
class OpTimer {
public:
  OpTimer(const ingot_rt_model &model, Engine &engine)
      : engine(engine), seconds(model.op_count), calls(model.op_count) {}
  void start() {
    engine.args.hook = [](void *context, uint32_t worker, uint32_t op, int32_t, const float *, uint64_t, uint64_t,
                          uint64_t) {
      if (worker == 0)
        static_cast<OpTimer *>(context)->see(op);
    };
    engine.args.hook_context = this;
    last = now();
  }
  void stop() { engine.args.hook = nullptr; }

private:
  void see(uint32_t op) {
    double time = now();
    if (op < seconds.size()) {
      seconds[op] += time - last;
      ++calls[op];
    }
    last = time;
  }
  Engine &engine;
  double last = 0;

public:
  std::vector<double> seconds; ///< per op
  std::vector<uint64_t> calls; ///< per op
};

struct Figures {
  double promptSeconds = 1e30, decodeSeconds = 1e30; ///< of the best run
  uint64_t decodeSteps = 0;
  Work promptWork, decodeWork;
};

struct Plan {
  uint64_t prompt, generate, sequences, repetitions;
};

/// Ids that exist, without meaning: the time does not depend on them.
std::vector<int32_t> somePrompt(uint64_t vocab, uint64_t length, uint64_t seed) {
  std::vector<int32_t> ids(length);
  for (uint64_t i = 0; i < length; ++i) {
    uint32_t words[4];
    ingot_rt_random_block(seed, i, words);
    ids[i] = static_cast<int32_t>(words[0] % vocab);
  }
  return ids;
}

/// One run: prompts of all sequences, then decode steps. Adds the times of ops to the timers where there are any.
Error runOnce(const Program &program, Engine &engine, const Plan &plan, Figures &figures, OpTimer *promptOps,
              OpTimer *decodeOps) {
  Scheduler scheduler(engine, {.reusePrefixes = false});
  Listener nobody;
  for (uint64_t i = 0; i < plan.sequences; ++i) {
    Request request;
    request.prompt = somePrompt(program.model.vocab, plan.prompt, 7 + i);
    request.newTokens = plan.generate + 1; // the first comes with the prompt
    request.ignoreEnd = true;
    request.sampling.greedy = true;
    if (Result<uint64_t> number = scheduler.submit(std::move(request), nobody); !number)
      return number.takeError();
  }
  Figures mine;
  double start = now();
  uint64_t total = plan.prompt * plan.sequences;
  for (uint64_t done = 0; done < total; done += engine.args.token_count) {
    if (promptOps)
      promptOps->start();
    if (Error error = scheduler.step())
      return error;
    if (promptOps)
      promptOps->stop();
  }
  mine.promptSeconds = now() - start;
  start = now();
  for (; !scheduler.idle(); ++mine.decodeSteps) {
    if (decodeOps)
      decodeOps->start();
    if (Error error = scheduler.step())
      return error;
    if (decodeOps)
      decodeOps->stop();
  }
  mine.decodeSeconds = now() - start;
  figures.promptSeconds = std::min(figures.promptSeconds, mine.promptSeconds);
  figures.decodeSeconds = std::min(figures.decodeSeconds, mine.decodeSeconds);
  figures.decodeSteps = mine.decodeSteps;
  return {};
}

struct Rate {
  double tokensPerSecond, bytesPerSecond, flopsPerSecond;
};

Rate rateOf(double tokens, const Work &work, double seconds) {
  return {tokens / seconds, work.bytes / seconds, work.flops / seconds};
}

void writeRate(JsonWriter &json, const char *name, uint64_t tokens, double seconds, const Rate &rate, double bandwidth,
               double peak) {
  json.key(name);
  json.beginObject();
  json.key("tokens");
  json.number(tokens);
  json.key("seconds");
  json.number(seconds, 6);
  json.key("tokens_per_second");
  json.number(rate.tokensPerSecond, 6);
  json.key("gigabytes_per_second");
  json.number(rate.bytesPerSecond * 1e-9, 6);
  json.key("share_of_bandwidth");
  json.number(rate.bytesPerSecond / bandwidth, 4);
  json.key("gigaflops_per_second");
  json.number(rate.flopsPerSecond * 1e-9, 6);
  json.key("share_of_peak");
  json.number(rate.flopsPerSecond / peak, 4);
  json.endObject();
}

void printRate(Output &out, const char *name, uint64_t tokens, const Rate &rate, double bandwidth, double peak) {
  out.print("%-7s %6" PRIu64 " tokens  %9.2f tok/s  %7.2f GB/s (%3.0f%%)  %8.2f GFLOP/s (%3.0f%%)\n", name, tokens,
            rate.tokensPerSecond, rate.bytesPerSecond * 1e-9, 100 * rate.bytesPerSecond / bandwidth,
            rate.flopsPerSecond * 1e-9, 100 * rate.flopsPerSecond / peak);
}

/// Ops with their share of the time, bytes and operations per second; `tokens` and `rows` are per step.
void reportOps(Program &program, JsonWriter *json, const char *name, const OpTimer &timer, uint64_t tokens,
               uint64_t rows, double contextSum, double steps) {
  const ingot_rt_model &model = program.model;
  double total = 0;
  for (double seconds : timer.seconds)
    total += seconds;
  if (json) {
    json->key(name);
    json->beginArray();
  } else
    program.out.print("\n%s: per op\n", name);
  for (uint64_t i = 0; i < model.op_count; ++i) {
    if (timer.calls[i] == 0)
      continue;
    const ingot_rt_op &op = model.ops[i];
    double seconds = timer.seconds[i], times = op.in_layer ? static_cast<double>(model.layers) : 1;
    double bytes = static_cast<double>(op.bytes) * times * steps;
    double flops = times * steps *
                   (static_cast<double>(op.flops_per_token) * static_cast<double>(tokens) +
                    static_cast<double>(op.flops_per_row) * static_cast<double>(rows) +
                    static_cast<double>(op.flops_per_context) * contextSum);
    if (json) {
      json->beginObject();
      json->key("op");
      json->text(op.name);
      json->key("kind");
      json->text(op.kind);
      json->key("calls");
      json->number(timer.calls[i]);
      json->key("seconds");
      json->number(seconds, 6);
      json->key("share");
      json->number(seconds / total, 4);
      json->key("gigabytes_per_second");
      json->number(bytes / seconds * 1e-9, 6);
      json->key("gigaflops_per_second");
      json->number(flops / seconds * 1e-9, 6);
      json->endObject();
    } else
      program.out.print("  %-28s %5.1f%%  %10.3f us a call  %7.2f GB/s  %8.2f GFLOP/s\n", op.name,
                        100 * seconds / total, seconds / static_cast<double>(timer.calls[i]) * 1e6,
                        bytes / seconds * 1e-9, flops / seconds * 1e-9);
  }
  if (json)
    json->endArray();
}

Result<Plan> readPlan(const Program &program, const Arguments &arguments, uint64_t context) {
  Result<uint64_t> generate = arguments.number("gen-tokens", std::clamp<uint64_t>(context / 4, 1, 64), 1, context);
  if (!generate)
    return generate.takeError();
  Result<uint64_t> prompt =
      arguments.number("prompt-tokens", std::clamp<uint64_t>(context / 2, 1, 512), 1, program.model.max_context);
  if (!prompt)
    return prompt.takeError();
  Result<uint64_t> sequences = arguments.number("sequences", 1, 1, program.model.max_batch);
  if (!sequences)
    return sequences.takeError();
  Result<uint64_t> repetitions = arguments.number("repetitions", 3, 1, 1000);
  if (!repetitions)
    return repetitions.takeError();
  if (*prompt + *generate > context)
    return makeUsageError("bench: a prompt of %" PRIu64 " and %" PRIu64
                          " generated tokens do not fit the context of %" PRIu64,
                          *prompt, *generate, context);
  return Plan{*prompt, *generate, *sequences, *repetitions};
}

Error runBench(Program &program, const Arguments &arguments) {
  Result<uint64_t> context = arguments.number("ctx", program.model.max_context, 1, program.model.max_context);
  if (!context)
    return context.takeError();
  Result<Plan> plan = readPlan(program, arguments, *context);
  if (!plan)
    return plan.takeError();
  SessionNeeds needs;
  needs.sequences = plan->sequences;
  Result<std::unique_ptr<Session>> opened = openSession(program, arguments, needs);
  if (!opened)
    return opened.takeError();
  Session &session = **opened;

  // The probe's memory: well beyond the caches, within what is left.
  uint64_t probeBytes = std::clamp<uint64_t>(findMemoryBudget().bytes / 4, uint64_t(64) << 20, uint64_t(1) << 30);
  note("measuring this machine with %u workers", session.limits.workers);
  Result<double> bandwidth = measureReadBandwidth(*session.pool, probeBytes, 5);
  if (!bandwidth)
    return bandwidth.takeError();
  double peak = measurePeakFlops(*session.pool, session.variant->features, 5);

  Figures figures;
  for (uint64_t i = 0; i < plan->repetitions; ++i) {
    note("run %" PRIu64 " of %" PRIu64, i + 1, plan->repetitions);
    if (Error error = runOnce(program, *session.engine, *plan, figures, nullptr, nullptr))
      return error;
  }
  // A prompt is computed in steps of at most max_step_tokens; each reads the parameters once.
  uint64_t perStep = std::max<uint64_t>(1, session.limits.stepTokens / plan->sequences);
  for (uint64_t at = 0; at < plan->prompt; at += perStep) {
    uint64_t count = std::min(perStep, plan->prompt - at);
    Work work = stepWork(program.model, plan->sequences, count, at, at + count == plan->prompt);
    figures.promptWork.bytes += work.bytes;
    figures.promptWork.flops += work.flops;
  }
  for (uint64_t i = 0; i < figures.decodeSteps; ++i) {
    Work work = stepWork(program.model, plan->sequences, 1, plan->prompt + i, 1);
    figures.decodeWork.bytes += work.bytes;
    figures.decodeWork.flops += work.flops;
  }
  uint64_t promptTokens = plan->prompt * plan->sequences, decodeTokens = figures.decodeSteps * plan->sequences;
  Rate prompt = rateOf(static_cast<double>(promptTokens), figures.promptWork, figures.promptSeconds);
  Rate decode = rateOf(static_cast<double>(decodeTokens), figures.decodeWork, figures.decodeSeconds);

  bool json = arguments.has("json");
  JsonWriter writer(program.out);
  if (json) {
    writer.beginObject();
    writer.key("model");
    writer.text(program.model.name);
    writer.key("variant");
    writer.text(session.variant->name);
    writer.key("workers");
    writer.number(uint64_t(session.limits.workers));
    writer.key("sequences");
    writer.number(plan->sequences);
    writer.key("read_gigabytes_per_second");
    writer.number(*bandwidth * 1e-9, 6);
    writer.key("peak_gigaflops_per_second");
    writer.number(peak * 1e-9, 6);
    writeRate(writer, "prompt", promptTokens, figures.promptSeconds, prompt, *bandwidth, peak);
    writeRate(writer, "decode", decodeTokens, figures.decodeSeconds, decode, *bandwidth, peak);
  } else {
    program.out.print("%s, %s, %u workers; this machine reads %.2f GB/s and computes %.2f f32 GFLOP/s\n",
                      program.model.name, session.variant->name, session.limits.workers, *bandwidth * 1e-9,
                      peak * 1e-9);
    printRate(program.out, "prompt", promptTokens, prompt, *bandwidth, peak);
    printRate(program.out, "decode", decodeTokens, decode, *bandwidth, peak);
  }
  if (arguments.has("per-op")) {
    OpTimer promptOps(program.model, *session.engine), decodeOps(program.model, *session.engine);
    Figures ignored;
    if (Error error = runOnce(program, *session.engine, *plan, ignored, &promptOps, &decodeOps))
      return error;
    double promptContext = static_cast<double>(promptTokens) * static_cast<double>(plan->prompt + 1) / 2;
    double decodeContext = static_cast<double>(plan->sequences) *
                           (static_cast<double>(plan->prompt) + static_cast<double>(figures.decodeSteps + 1) / 2);
    reportOps(program, json ? &writer : nullptr, "prompt_ops", promptOps, promptTokens, plan->sequences, promptContext,
              1);
    reportOps(program, json ? &writer : nullptr, "decode_ops", decodeOps, plan->sequences, plan->sequences,
              decodeContext, static_cast<double>(figures.decodeSteps));
  }
  if (json) {
    writer.endObject();
    program.out.write("\n");
  }
  return {};
}

} // namespace

const VerbSpec benchVerb = {"bench",      "Measures prompt and decode speed, beside what the machine could do.",
                            "[options]",  "-p 512 -n 64 --json",
                            benchOptions, nullptr,
                            runBench};

} // namespace ingot::rt
