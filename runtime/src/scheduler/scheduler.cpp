// Admission, batches, delivery.
#include "scheduler/scheduler.h"

#include "platform/machine.h"
#include "support/checked.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

namespace ingot::rt {

const char *finishName(Finish reason) {
  switch (reason) {
  case Finish::Stop:
    return "stop";
  case Finish::Length:
    return "length";
  case Finish::Context:
    return "context";
  case Finish::Cancelled:
    return "cancelled";
  case Finish::Failed:
    return "error";
  }
  return "error";
}

uint64_t Scheduler::Sequence::blocksToCome() const {
  uint64_t all = ceilDiv(positions, INGOT_RT_CACHE_BLOCK);
  return all > cache.blocks().size() ? all - cache.blocks().size() : 0;
}

Scheduler::Scheduler(Engine &engine, SchedulerOptions newOptions)
    : engine(engine), options(std::move(newOptions)), pool(engine.limits().blocks), sampler(engine.model().vocab) {
  running.reserve(engine.limits().sequences);
  batch.reserve(engine.limits().sequences);
}

/// A sequence longer than the model's short range is rotated with the long factors, from its first position on.
int32_t Scheduler::regimeOf(uint64_t length) const {
  uint64_t from = engine.model().rope_long_from;
  return from != 0 && length > from ? 1 : 0;
}

Result<uint64_t> Scheduler::submit(Request request, Listener &listener) {
  const ingot_rt_model &model = engine.model();
  uint64_t context = engine.limits().context, length = request.prompt.size();
  if (length == 0)
    return makeError("the prompt is empty: it needs at least one token");
  for (size_t i = 0; i < length; ++i)
    if (request.prompt[i] < 0 || static_cast<uint64_t>(request.prompt[i]) >= model.vocab)
      return makeError("token %zu: id %d is out of range: expected 0 to %" PRIu64, i, request.prompt[i],
                       model.vocab - 1);
  if (length > context)
    return makeError("the prompt has %" PRIu64 " tokens, more than the context of %" PRIu64, length, context);
  if (Error error = request.sampling.check())
    return error;
  request.rowsFrom = std::min(request.rowsFrom, length - 1);
  uint64_t limit = std::min(request.newTokens, context - length + 1);
  // The last token that is generated is never computed on.
  uint64_t positions = length + (limit == 0 ? 0 : limit - 1);
  if (ceilDiv(positions, INGOT_RT_CACHE_BLOCK) > pool.size())
    return makeError("the request needs %" PRIu64 " blocks of the cache, which has %" PRIu64,
                     ceilDiv(positions, INGOT_RT_CACHE_BLOCK), pool.size());
  auto sequence = std::unique_ptr<Sequence>(new Sequence{.request = std::move(request),
                                                         .listener = listener,
                                                         .completion = {},
                                                         .tokens = {},
                                                         .limit = limit,
                                                         .positions = positions,
                                                         .cache = SequenceCache(pool, context, model.cache_id),
                                                         .seen = SeenTokens(model.vocab)});
  sequence->completion.request = ++lastRequest;
  sequence->completion.promptTokens = length;
  sequence->completion.tokens.reserve(limit);
  sequence->tokens.reserve(length + limit);
  sequence->tokens = sequence->request.prompt;
  if (sequence->request.sampling.repetitionPenalty != 1)
    for (int32_t token : sequence->tokens)
      sequence->seen.add(token);
  waiting.push_back(std::move(sequence));
  return lastRequest;
}

void Scheduler::finish(Sequence &sequence, Finish reason) {
  Completion &completion = sequence.completion;
  completion.reason = reason;
  if (sequence.prompted != 0)
    completion.decodeSeconds = now() - sequence.prompted;
  if (sequence.request.conversation != 0 && sequence.cache.length() != 0)
    keep(sequence);
  sequence.cache.clear(0);
  // Out of the lists before the listener hears of it: it may submit the next request.
  std::unique_ptr<Sequence> owner;
  for (auto it = running.begin(); !owner && it != running.end(); ++it)
    if (it->get() == &sequence) {
      owner = std::move(*it);
      running.erase(it);
      break;
    }
  for (auto it = waiting.begin(); !owner && it != waiting.end(); ++it)
    if (it->get() == &sequence) {
      owner = std::move(*it);
      waiting.erase(it);
      break;
    }
  owner->listener.onFinish(owner->completion);
}

bool Scheduler::cancel(uint64_t request) {
  for (auto &sequence : running)
    if (sequence->completion.request == request) {
      finish(*sequence, Finish::Cancelled);
      return true;
    }
  for (auto &sequence : waiting)
    if (sequence->completion.request == request) {
      finish(*sequence, Finish::Cancelled);
      return true;
    }
  return false;
}

/// Leaves what the sequence has computed to the next of its conversation.
void Scheduler::keep(Sequence &sequence) {
  uint64_t conversation = sequence.request.conversation;
  kept.erase(conversation);
  Kept &mine = kept.try_emplace(conversation, pool, engine.limits().context, engine.model().cache_id).first->second;
  mine.tokens = std::move(sequence.tokens);
  mine.regime = sequence.regime;
  mine.request = sequence.completion.request;
  mine.tokens.resize(sequence.cache.length());
  mine.cache.swap(sequence.cache);
}

/// Takes up what the conversation has computed of the sequence's text, unless more of it is found among published
/// blocks.
void Scheduler::takeUp(Sequence &sequence) {
  auto found = kept.find(sequence.request.conversation);
  if (found == kept.end())
    return;
  Kept &mine = found->second;
  // At least the last token is computed, since its row is wanted.
  uint64_t most = std::min(mine.tokens.size(), sequence.tokens.size() - 1);
  auto [end, other] =
      std::mismatch(mine.tokens.begin(), mine.tokens.begin() + static_cast<ptrdiff_t>(most), sequence.tokens.begin());
  auto common = static_cast<uint64_t>(end - mine.tokens.begin());
  if (mine.regime == sequence.regime && !sequence.everyRow() && common > sequence.cache.length()) {
    sequence.cache.swap(mine.cache);
    uint8_t *cache = engine.args.cache;
    uint64_t bytes = engine.model().cache_groups[0].block_bytes;
    sequence.completion.reusedTokens = sequence.cache.truncate(common, [&](int32_t from, int32_t to) {
      memcpy(cache + static_cast<uint64_t>(to) * bytes, cache + static_cast<uint64_t>(from) * bytes, bytes);
    });
  }
  kept.erase(found);
}

/// Gives the sequence a place if the cache is sure to hold it to its end beside those already running. What is kept for
/// conversations gives way, the one that was longest idle first.
bool Scheduler::admit(Sequence &sequence) {
  prepare(sequence);
  takeUp(sequence);
  uint64_t promised = sequence.blocksToCome();
  for (const auto &other : running)
    promised += other->blocksToCome();
  while (promised > pool.available() && !kept.empty())
    kept.erase(std::min_element(kept.begin(), kept.end(),
                                [](const auto &a, const auto &b) { return a.second.request < b.second.request; }));
  if (promised <= pool.available())
    return true;
  sequence.cache.clear(sequence.regime);
  sequence.completion.reusedTokens = 0;
  return false;
}

/// Starts the cache again where the sequence grew into another RoPE regime, and takes over what others have computed of
/// its text meanwhile.
void Scheduler::prepare(Sequence &sequence) {
  int32_t regime = regimeOf(sequence.tokens.size());
  if (regime != sequence.regime) {
    sequence.cache.clear(regime);
    sequence.regime = regime;
  }
  // At least the last token is computed, since its row is wanted; all of them where every row is.
  if (options.reusePrefixes && !sequence.everyRow())
    sequence.completion.reusedTokens += sequence.cache.reuse(sequence.tokens.data(), sequence.tokens.size() - 1);
}

/// Adds up to `most` of the sequence's pending tokens, as rows and tokens are left in this step.
void Scheduler::addToBatch(Sequence &sequence, uint64_t most) {
  ingot_rt_step_args &args = engine.args;
  uint64_t count = std::min({most, sequence.pending(), engine.limits().stepTokens - args.token_count});
  uint64_t rowsLeft = engine.limits().rows - args.row_count;
  if (sequence.everyRow())
    count = std::min(count, sequence.rowless() + rowsLeft);
  else if (count == sequence.pending() && sequence.wantsLastRow() && rowsLeft == 0)
    --count;
  if (count == 0)
    return;
  uint64_t first = sequence.cache.length(), index = args.sequence_count;
  if (!sequence.cache.reserve(first + count)) // cannot happen: admission promised the blocks
    return;
  if (sequence.started == 0)
    sequence.started = now();
  bool last = count == sequence.pending() && sequence.wantsLastRow();
  sequence.count = count;
  sequence.firstRow = args.row_count;
  sequence.rowCount = sequence.everyRow() ? count - std::min(count, sequence.rowless()) : last ? 1 : 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t at = args.token_count + i;
    engine.tokens[at] = sequence.tokens[first + i];
    engine.positions[at] = static_cast<int32_t>(first + i);
    engine.sequences[at] = static_cast<int32_t>(index);
    engine.slots[at] = sequence.cache.slot(first + i);
  }
  for (uint64_t i = 0; i < sequence.rowCount; ++i)
    engine.rows[args.row_count + i] = static_cast<int32_t>(args.token_count + count - sequence.rowCount + i);
  engine.queryStarts[index] = static_cast<int32_t>(args.token_count);
  engine.lengths[index] = static_cast<int32_t>(first + count);
  engine.regimes[index] = sequence.regime;
  std::copy(sequence.cache.blocks().begin(), sequence.cache.blocks().end(),
            engine.blockTables + index * args.block_table_stride);
  args.token_count += count;
  args.row_count += sequence.rowCount;
  args.sequence_count = index + 1;
  engine.queryStarts[index + 1] = static_cast<int32_t>(args.token_count);
  batch.push_back(&sequence);
}

/// Where nobody looks at logits, the output projection only finds the largest ones, or a device chooses the tokens.
uint32_t Scheduler::outputOfBatch() const {
  auto everyRowIs = [&](bool (Sequence::*wanted)() const) {
    return std::all_of(batch.begin(), batch.end(),
                       [&](const Sequence *sequence) { return sequence->rowCount == 0 || (sequence->*wanted)(); });
  };
  if (everyRowIs(&Sequence::wantsLargestOnly))
    return INGOT_RT_ARGMAX;
  return engine.sampling && everyRowIs(&Sequence::wantsTokenOnly) ? INGOT_RT_TOKENS : INGOT_RT_LOGITS;
}

/// Tells a device how the sequence's token is chosen in this step.
void Scheduler::describeChoice(const Sequence &sequence) {
  if (sequence.rowCount == 0)
    return;
  const SamplingOptions &sampling = sequence.request.sampling;
  const uint64_t row = sequence.firstRow;
  engine.sampling[row] = sampling.describe(sequence.completion.tokens.size());
  if (sampling.repetitionPenalty != 1)
    std::copy(sequence.seen.bits().begin(), sequence.seen.bits().end(), engine.tokenSet(row, INGOT_RT_SEEN));
  if (sampling.mask)
    sampling.maskInto(engine.tokenSet(row, INGOT_RT_ALLOWED), engine.model().vocab);
}

Error Scheduler::step() {
  while (!waiting.empty() && running.size() < engine.limits().sequences) {
    Sequence &next = *waiting.front();
    if (!next.wantsLastRow()) {
      finish(next, Finish::Length);
      continue;
    }
    if (!admit(next))
      break;
    running.push_back(std::move(waiting.front()));
    waiting.pop_front();
  }
  engine.args.token_count = engine.args.row_count = engine.args.sequence_count = 0;
  batch.clear();
  for (auto &sequence : running)
    prepare(*sequence);
  // Sequences that generate go first, one token each; whoever was first in the last step comes last if not all fit.
  uint64_t count = running.size();
  for (uint64_t i = 0; i < count; ++i)
    if (Sequence &sequence = *running[(i + stepCount) % count]; sequence.pending() == 1)
      addToBatch(sequence, 1);
  for (auto &sequence : running)
    if (sequence->pending() > 1)
      addToBatch(*sequence, options.chunk == 0 ? UINT64_MAX : options.chunk);
  if (batch.empty())
    return {};
  engine.args.output = outputOfBatch();
  if (engine.args.output == INGOT_RT_TOKENS)
    for (const Sequence *sequence : batch)
      describeChoice(*sequence);
  if (Error error = engine.step())
    return error;
  ++stepCount;
  for (Sequence *sequence : batch)
    deliver(*sequence);
  return {};
}

void Scheduler::deliver(Sequence &sequence) {
  uint64_t first = sequence.cache.length();
  sequence.cache.advance(first + sequence.count, sequence.tokens.data());
  float *logits = engine.args.logits + sequence.firstRow * engine.args.logits_stride;
  bool done = sequence.pending() == 0;
  uint64_t promptTokens = sequence.completion.promptTokens;
  bool generated = sequence.tokens.size() != promptTokens; // then prompt rows are only seen when recomputed
  if (sequence.everyRow()) {
    uint64_t firstRow = first + sequence.count - sequence.rowCount;
    for (uint64_t i = 0; i < sequence.rowCount && !generated; ++i)
      sequence.listener.onRow(sequence.completion.request, firstRow + i, logits + i * engine.args.logits_stride);
    if (done)
      logits += (sequence.rowCount - 1) * engine.args.logits_stride;
  } else if (done && sequence.request.rows == Request::Rows::Last && !generated)
    sequence.listener.onRow(sequence.completion.request, promptTokens - 1, logits);
  if (!done)
    return;
  if (sequence.prompted == 0) {
    sequence.prompted = now();
    sequence.completion.promptSeconds = sequence.prompted - sequence.started;
  }
  if (sequence.limit == 0)
    finish(sequence, Finish::Length);
  else if (takeToken(sequence, logits))
    finish(sequence, sequence.completion.reason);
}

/// Chooses the next token from the last row; true when it was the last one, with the reason set.
bool Scheduler::takeToken(Sequence &sequence, float *logits) {
  Completion &completion = sequence.completion;
  if (sequence.request.showLogits)
    sequence.listener.onLogits(completion.request, logits);
  Result<int32_t> token = 0;
  if (engine.args.output == INGOT_RT_ARGMAX)
    token = Sampler::checkLargest(engine.argmax[sequence.firstRow], engine.argmaxValue[sequence.firstRow]);
  else if (engine.args.output == INGOT_RT_TOKENS)
    token = Sampler::checkChosen(engine.argmax[sequence.firstRow]);
  else
    token = sampler.choose(logits, sequence.request.sampling, sequence.seen, completion.tokens.size());
  if (!token) {
    completion.reason = Finish::Failed;
    completion.error = token.takeError().message();
    return true;
  }
  sequence.tokens.push_back(*token);
  completion.tokens.push_back(*token);
  if (sequence.request.sampling.repetitionPenalty != 1)
    sequence.seen.add(*token);
  bool stop = sequence.listener.onToken(completion.request, *token);
  bool end = !sequence.request.ignoreEnd &&
             std::find(options.endTokens.begin(), options.endTokens.end(), *token) != options.endTokens.end();
  if (stop || end)
    completion.reason = Finish::Stop;
  else if (completion.tokens.size() == sequence.limit)
    completion.reason = sequence.limit == sequence.request.newTokens ? Finish::Length : Finish::Context;
  else
    return false;
  return true;
}

Error Scheduler::runAll() {
  while (!idle())
    if (Error error = step())
      return error;
  return {};
}

} // namespace ingot::rt
