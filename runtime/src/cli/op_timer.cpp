// The hook of compiled steps. It is called by every worker after each op, between two barriers of its own: the first
// ends the op (what a worker waits there is the op's imbalance), the second keeps the op after it from starting early.
#include "cli/op_timer.h"

#include "platform/machine.h"

#include <algorithm>
#include <cstring>

namespace ingot::rt {

StepShape::StepShape(const Engine &engine) {
  const ingot_rt_step_args &args = engine.args;
  // Of several groups the widest window counts, as the table of groups says.
  uint64_t window = engine.model().cache_group_count == 0 ? 0 : engine.model().cache_groups[0].window;
  auto seen = [&](uint64_t positions) {
    return static_cast<double>(window == 0 ? positions : std::min(positions, window));
  };
  tokens = static_cast<double>(args.token_count);
  rows = static_cast<double>(args.row_count);
  for (uint64_t i = 0; i < args.token_count; ++i)
    context += seen(static_cast<uint64_t>(engine.positions[i]) + 1);
  for (uint64_t i = 0; i < args.sequence_count; ++i) {
    auto length = static_cast<uint64_t>(engine.lengths[i]);
    auto count = static_cast<uint64_t>(engine.queryStarts[i + 1] - engine.queryStarts[i]);
    cached += window == 0 ? static_cast<double>(length) : static_cast<double>(std::min(length, window + count - 1));
  }
}

Work workOf(const ingot_rt_model &model, const ingot_rt_op &op, const StepShape &step) {
  Work work;
  work.bytes = static_cast<double>(op.bytes);
  work.flops = static_cast<double>(op.flops_per_token) * step.tokens +
               static_cast<double>(op.flops_per_row) * step.rows +
               static_cast<double>(op.flops_per_context) * step.context;
  if (strcmp(op.kind, "attention") == 0)
    for (uint32_t i = 0; i < model.cache_group_count; ++i) {
      const ingot_rt_cache_group &group = model.cache_groups[i];
      work.bytes += static_cast<double>(group.block_bytes) / INGOT_RT_CACHE_BLOCK / static_cast<double>(group.layers) *
                    step.cached;
    }
  return work;
}

OpTimer::OpTimer(Engine &engine, Pool &pool)
    : engine(engine), pool(pool), waited(pool.workers()), shares(pool.workers()), counts(engine.model().op_count),
      stepCounts(engine.model().op_count), works(engine.model().op_count), resultBytes(engine.model().op_count) {
  for (Share &share : shares) {
    share.seconds.resize(counts.size());
    share.waits.resize(counts.size());
  }
}

void OpTimer::see(uint32_t worker, uint32_t op) {
  if (worker >= shares.size() || op >= counts.size())
    return;
  Share &share = shares[worker];
  double time = now(), wait = waited[worker].seconds;
  share.seconds[op] += time - share.lastTime;
  share.waits[op] += wait - share.lastWait;
  share.lastTime = time;
  share.lastWait = wait;
  if (worker == 0)
    ++stepCounts[op];
}

void OpTimer::start() {
  engine.args.hook = [](void *context, uint32_t worker, uint32_t op, int32_t, const float *, uint64_t, uint64_t,
                        uint64_t) { static_cast<OpTimer *>(context)->see(worker, op); };
  engine.args.hook_context = this;
  pool.barrier().measure(waited.data());
  std::fill(stepCounts.begin(), stepCounts.end(), 0);
  double time = now();
  for (size_t worker = 0; worker < shares.size(); ++worker) {
    shares[worker].lastTime = time;
    shares[worker].lastWait = waited[worker].seconds;
  }
}

void OpTimer::stop() {
  engine.args.hook = nullptr;
  pool.barrier().measure(nullptr);
  StepShape step(engine);
  const ingot_rt_model &model = engine.model();
  for (size_t op = 0; op < counts.size(); ++op) {
    double calls = static_cast<double>(stepCounts[op]);
    Work work = workOf(model, model.ops[op], step);
    works[op].bytes += calls * work.bytes;
    works[op].flops += calls * work.flops;
    double rows = model.ops[op].flops_per_row != 0 ? step.rows : step.tokens;
    resultBytes[op] += calls * rows * 4 * static_cast<double>(model.ops[op].columns);
    counts[op] += stepCounts[op];
  }
}

std::vector<OpFigure> OpTimer::figures() const {
  std::vector<OpFigure> figures;
  const ingot_rt_model &model = engine.model();
  for (size_t op = 0; op < counts.size(); ++op) {
    if (counts[op] == 0)
      continue;
    double waits = 0;
    for (const Share &share : shares)
      waits += share.waits[op];
    figures.push_back({model.ops[op].name, model.ops[op].kind, counts[op], shares[0].seconds[op],
                       waits / static_cast<double>(shares.size()), works[op], resultBytes[op]});
  }
  return figures;
}

} // namespace ingot::rt
