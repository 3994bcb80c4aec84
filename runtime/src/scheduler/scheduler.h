// The generation loop: requests come in, steps advance all of them together, results go out as they are ready.
//
// A step mixes the next token of every sequence that generates with chunks of prompts that wait (continuous batching).
// Because a row's bits do not depend on what it is computed with (promise P3), nothing here changes a result: chunking,
// batching, the order of requests and the reuse of cached prefixes are matters of time only.
#ifndef INGOT_RUNTIME_SCHEDULER_SCHEDULER_H
#define INGOT_RUNTIME_SCHEDULER_SCHEDULER_H

#include "cache/cache.h"
#include "engine/engine.h"
#include "sampler/sampler.h"
#include "support/error.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ingot::rt {

/// Why a request ended.
enum class Finish {
  Stop,    ///< an end token, or its listener said so (a stop string)
  Length,  ///< as many tokens as were asked for
  Context, ///< the context is full
  Cancelled,
  Failed, ///< see Completion::error
};
/// As in JSON: "stop", "length", "context", "cancelled", "error".
const char *finishName(Finish reason);

struct Request {
  std::vector<int32_t> prompt; ///< at least one id
  uint64_t newTokens = 0;      ///< most tokens to generate
  bool ignoreEnd = false;      ///< go on after an end token
  /// Which of the prompt's rows of logits the listener gets.
  enum class Rows { None, Last, Every } rows = Rows::None;
  /// A name for requests whose prompts continue each other, 0: none. What one of them computed is kept for the next,
  /// which then computes only what its prompt does not share with it; whole blocks are shared without a name, too.
  uint64_t conversation = 0;
  uint64_t rowsFrom = 0;   ///< with Rows::Every: the rows of positions from this one on, the last one always
  bool showLogits = false; ///< show the listener the row that each generated token is chosen from
  SamplingOptions sampling;
};

struct Completion {
  uint64_t request = 0;
  Finish reason = Finish::Length;
  std::string error;
  uint64_t promptTokens = 0, reusedTokens = 0;
  std::vector<int32_t> tokens; ///< generated, an end token included
  double promptSeconds = 0;    ///< from the first step it took part in to its first row
  double decodeSeconds = 0;    ///< from then to the end
};

/// Who made a request. Called on the thread that steps; may submit requests from there, not cancel them.
class Listener {
public:
  virtual ~Listener() = default;
  /// The logits [vocab] of the prompt's token at `position`, as Request::rows asks.
  virtual void onRow(uint64_t request, uint64_t position, const float *logits) {}
  /// The logits [vocab] that the next generated token is chosen from, before anything is done to them.
  virtual void onLogits(uint64_t request, const float *logits) {}
  /// A generated token. Returning true ends the request.
  virtual bool onToken(uint64_t request, int32_t token) { return false; }
  virtual void onFinish(const Completion &completion) {}
};

struct SchedulerOptions {
  uint64_t chunk = 0; ///< most tokens of one prompt in a step, 0: what fits
  bool reusePrefixes = true;
  std::vector<int32_t> endTokens = {};
};

class Scheduler {
public:
  Scheduler(Engine &engine, SchedulerOptions options);

  /// Takes a request; its number, from 1, or an error: an empty prompt, an id outside the vocabulary, a prompt longer
  /// than the context, options out of range, a cache that could never hold it.
  Result<uint64_t> submit(Request request, Listener &listener);
  /// Ends a request wherever it is; false when it is not known (any more).
  bool cancel(uint64_t request);
  /// One step for all. Does nothing when idle. An error of the compiled step is final.
  Error step();
  /// Steps until nothing is left to do.
  Error runAll();
  /// Gives back what is kept for a conversation.
  void forget(uint64_t conversation) { kept.erase(conversation); }
  bool idle() const { return waiting.empty() && running.empty(); }

  uint64_t steps() const { return stepCount; }
  const BlockPool &blocks() const { return pool; }

private:
  /// A request on its way.
  struct Sequence {
    Request request;
    Listener &listener;
    Completion completion;
    std::vector<int32_t> tokens; ///< prompt and output
    uint64_t limit;              ///< tokens to generate at most, the context considered
    uint64_t positions;          ///< of the cache, at most
    SequenceCache cache;
    SeenTokens seen;
    int32_t regime = 0;
    double started = 0, prompted = 0;
    // In the current step:
    uint64_t count = 0, firstRow = 0, rowCount = 0;

    uint64_t pending() const { return tokens.size() - cache.length(); }
    bool everyRow() const { return request.rows == Request::Rows::Every; }
    /// With every row wanted: how many of the pending tokens come before the first that is.
    uint64_t rowless() const { return std::max(cache.length(), request.rowsFrom) - cache.length(); }
    bool wantsLastRow() const { return limit != 0 || request.rows != Request::Rows::None; }
    /// The token with the largest logit is all that its rows are for.
    bool wantsLargestOnly() const { return wantsTokenOnly() && request.sampling.isArgmax(); }
    /// A token chosen from its row is.
    bool wantsTokenOnly() const { return request.rows == Request::Rows::None && !request.showLogits; }
    uint64_t blocksToCome() const;
  };

  /// What a conversation has computed.
  struct Kept {
    Kept(BlockPool &pool, uint64_t context, uint64_t model) : cache(pool, context, model) {}
    SequenceCache cache;
    std::vector<int32_t> tokens; ///< [cache.length()]
    int32_t regime = 0;
    uint64_t request = 0; ///< the last of the conversation
  };

  void keep(Sequence &sequence);
  void takeUp(Sequence &sequence);
  bool admit(Sequence &sequence);
  void prepare(Sequence &sequence);
  void addToBatch(Sequence &sequence, uint64_t most);
  void deliver(Sequence &sequence);
  bool takeToken(Sequence &sequence, float *logits);
  uint32_t outputOfBatch() const;
  void describeChoice(const Sequence &sequence);
  void finish(Sequence &sequence, Finish reason);
  int32_t regimeOf(uint64_t length) const;

  Engine &engine;
  const SchedulerOptions options;
  BlockPool pool;
  Sampler sampler;
  std::map<uint64_t, Kept> kept; ///< by conversation
  std::deque<std::unique_ptr<Sequence>> waiting;
  std::vector<std::unique_ptr<Sequence>> running; ///< at most limits.sequences
  std::vector<Sequence *> batch;                  ///< of the current step, in order
  uint64_t lastRequest = 0, stepCount = 0;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_SCHEDULER_SCHEDULER_H
