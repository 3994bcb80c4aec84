// The generation loop on the reference decoder: right logits, and the same bits however a sequence is computed (P3).
#include "ingot_rt/random.h"
#include "reference_model.h"
#include "scheduler/scheduler.h"

#include <gtest/gtest.h>
#include <map>

using namespace ingot::rt;

namespace {

/// Keeps all that a request produces.
class Recorder : public Listener {
public:
  void onRow(uint64_t request, uint64_t position, const float *logits) override {
    rows[request][position].assign(logits, logits + reference::vocab);
    order.push_back(position);
  }
  bool onToken(uint64_t request, int32_t token) override {
    tokens[request].push_back(token);
    return token == stopAt;
  }
  void onFinish(const Completion &completion) override { done[completion.request] = completion; }

  std::map<uint64_t, std::map<uint64_t, std::vector<float>>> rows;
  std::map<uint64_t, std::vector<int32_t>> tokens;
  std::map<uint64_t, Completion> done;
  std::vector<uint64_t> order;
  int32_t stopAt = -1;
};

std::vector<int32_t> text(uint64_t seed, uint64_t length) {
  std::vector<int32_t> ids;
  for (uint64_t i = 0; i < length; ++i) {
    uint32_t words[4];
    ingot_rt_random_block(seed, i, words);
    ids.push_back(static_cast<int32_t>(words[0] % reference::vocab));
  }
  return ids;
}

/// A session on the reference model, with its own limits.
struct Fixture {
  ingot_rt_model model = reference::model();
  std::vector<uint8_t> weights = reference::packedWeights();
  SessionLimits limits = {reference::maxContext,    reference::maxBatch,     reference::maxStepTokens,
                          reference::maxStepTokens, 4 * reference::maxBatch, 1};
  std::unique_ptr<Pool> pool;
  std::unique_ptr<Engine> engine;

  void open() {
    pool = std::make_unique<Pool>(limits.workers, 2);
    Result<std::unique_ptr<Engine>> made = Engine::create(model, model.variants[0], weights.data(), limits, *pool);
    ASSERT_TRUE(made) << made.takeError().message();
    engine = std::move(*made);
  }
};

Request generating(std::vector<int32_t> prompt, uint64_t count, Request::Rows rows = Request::Rows::None) {
  Request request;
  request.prompt = std::move(prompt);
  request.newTokens = count;
  request.rows = rows;
  request.ignoreEnd = true;
  request.sampling.greedy = true;
  return request;
}

/// Generates from one prompt in a scheduler of its own; returns tokens and rows.
Recorder alone(Fixture &fixture, Request request, uint64_t chunk = 0) {
  Recorder recorder;
  Scheduler scheduler(*fixture.engine, {.chunk = chunk});
  Result<uint64_t> number = scheduler.submit(std::move(request), recorder);
  EXPECT_TRUE(number) << number.takeError().message();
  Error error = scheduler.runAll();
  EXPECT_FALSE(error) << error.message();
  return recorder;
}

TEST(Scheduler, LogitsAreThoseOfADenseForwardPass) {
  Fixture fixture;
  fixture.open();
  std::vector<int32_t> prompt = text(1, 100); // several steps, two blocks
  Recorder got = alone(fixture, generating(prompt, 0, Request::Rows::Every));
  std::vector<float> expected = reference::denseLogits(prompt, 0);
  ASSERT_EQ(got.rows[1].size(), prompt.size());
  for (size_t t = 0; t < prompt.size(); ++t)
    ASSERT_EQ(got.rows[1][t], std::vector<float>(expected.begin() + static_cast<ptrdiff_t>(t * reference::vocab),
                                                 expected.begin() + static_cast<ptrdiff_t>((t + 1) * reference::vocab)))
        << "position " << t;
}

TEST(Scheduler, RowsComeInOrderAndLastIsTheLastOfAll) {
  Fixture fixture;
  fixture.open();
  std::vector<int32_t> prompt = text(2, 70);
  Recorder every = alone(fixture, generating(prompt, 0, Request::Rows::Every), 16);
  for (size_t i = 0; i < every.order.size(); ++i)
    EXPECT_EQ(every.order[i], i);
  Recorder last = alone(fixture, generating(prompt, 0, Request::Rows::Last));
  ASSERT_EQ(last.rows[1].size(), 1u);
  EXPECT_EQ(last.rows[1][69], every.rows[1][69]);
}

TEST(Scheduler, ChunksChangeNothing) {
  Fixture fixture;
  fixture.open();
  std::vector<int32_t> prompt = text(3, 90);
  Recorder whole = alone(fixture, generating(prompt, 20, Request::Rows::Every));
  EXPECT_EQ(whole.done[1].tokens.size(), 20u);
  for (uint64_t chunk : {1, 3, 16}) {
    Recorder chunked = alone(fixture, generating(prompt, 20, Request::Rows::Every), chunk);
    EXPECT_EQ(chunked.rows, whole.rows) << chunk;
    EXPECT_EQ(chunked.tokens, whole.tokens) << chunk;
  }
}

TEST(Scheduler, ABatchOfSevenChangesNothing) {
  Fixture fixture;
  fixture.open();
  const uint64_t lengths[] = {1, 5, 17, 33, 64, 65, 100};
  std::vector<Recorder> expected;
  for (uint64_t length : lengths)
    expected.push_back(alone(fixture, generating(text(length, length), 12, Request::Rows::Every)));
  for (uint64_t chunk : {0, 3}) {
    Recorder batch;
    Scheduler scheduler(*fixture.engine, {.chunk = chunk});
    for (uint64_t length : lengths)
      ASSERT_TRUE(scheduler.submit(generating(text(length, length), 12, Request::Rows::Every), batch));
    ASSERT_FALSE(scheduler.runAll());
    for (uint64_t i = 0; i < 7; ++i) {
      EXPECT_EQ(batch.rows[i + 1], expected[i].rows[1]) << lengths[i];
      EXPECT_EQ(batch.tokens[i + 1], expected[i].tokens[1]) << lengths[i];
    }
  }
}

TEST(Scheduler, WorkersChangeNothing) {
  Fixture one, three;
  three.limits.workers = 3;
  one.open();
  three.open();
  Recorder expected = alone(one, generating(text(4, 80), 30, Request::Rows::Every));
  Recorder got = alone(three, generating(text(4, 80), 30, Request::Rows::Every));
  EXPECT_EQ(got.rows, expected.rows);
  EXPECT_EQ(got.tokens, expected.tokens);
}

TEST(Scheduler, AReusedPrefixChangesNothing) {
  Fixture fixture;
  fixture.open();
  std::vector<int32_t> first = text(5, 140), second = first;
  second[130] = (second[130] + 1) % static_cast<int32_t>(reference::vocab); // two full blocks in common
  Recorder expected = alone(fixture, generating(second, 20, Request::Rows::Last));
  Recorder got;
  Scheduler scheduler(*fixture.engine, {});
  ASSERT_TRUE(scheduler.submit(generating(first, 20), got));
  ASSERT_FALSE(scheduler.runAll());
  EXPECT_EQ(got.done[1].reusedTokens, 0u);
  ASSERT_TRUE(scheduler.submit(generating(second, 20, Request::Rows::Last), got));
  ASSERT_FALSE(scheduler.runAll());
  EXPECT_EQ(got.done[2].reusedTokens, 128u);
  EXPECT_EQ(got.rows[2], expected.rows[1]);
  EXPECT_EQ(got.tokens[2], expected.tokens[1]);
  // The same prompt again, of which all blocks are full but for the last token, which is computed.
  std::vector<int32_t> exact(first.begin(), first.begin() + 128);
  Recorder fresh = alone(fixture, generating(exact, 5));
  ASSERT_TRUE(scheduler.submit(generating(exact, 5), got));
  ASSERT_FALSE(scheduler.runAll());
  EXPECT_EQ(got.done[3].reusedTokens, 64u);
  EXPECT_EQ(got.tokens[3], fresh.tokens[1]);
}

TEST(Scheduler, RequestsThatWaitForTheirPrefixFindIt) {
  Fixture fixture;
  fixture.open();
  Recorder got;
  Scheduler scheduler(*fixture.engine, {});
  std::vector<int32_t> prompt = text(6, 150);
  ASSERT_TRUE(scheduler.submit(generating(prompt, 3), got));
  ASSERT_TRUE(scheduler.submit(generating(prompt, 3), got)); // gets no room in the first steps of 32 tokens
  ASSERT_FALSE(scheduler.runAll());
  EXPECT_EQ(got.done[2].reusedTokens, 128u);
  EXPECT_EQ(got.tokens[1], got.tokens[2]);
}

TEST(Scheduler, TheContextEndsAGeneration) {
  Fixture fixture;
  fixture.open();
  std::vector<int32_t> prompt = text(7, reference::maxContext);
  for (uint64_t count : {0, 1, 5}) {
    Recorder got = alone(fixture, generating(prompt, count));
    EXPECT_EQ(got.done[1].tokens.size(), std::min<uint64_t>(count, 1));
    EXPECT_EQ(got.done[1].reason, count <= 1 ? Finish::Length : Finish::Context);
  }
  prompt.resize(reference::maxContext - 4);
  Recorder got = alone(fixture, generating(prompt, UINT64_MAX));
  EXPECT_EQ(got.done[1].tokens.size(), 5u);
  EXPECT_EQ(got.done[1].reason, Finish::Context);
  // What was generated last is what the whole text, computed in one go, says.
  std::vector<int32_t> all = prompt;
  all.insert(all.end(), got.done[1].tokens.begin(), got.done[1].tokens.end() - 1);
  std::vector<float> logits = reference::denseLogits(all, 0);
  EXPECT_EQ(largestIndex(logits.data() + (all.size() - 1) * reference::vocab, reference::vocab),
            got.done[1].tokens.back());
}

TEST(Scheduler, RefusesWhatCannotBe) {
  Fixture fixture;
  fixture.open();
  Recorder got;
  Scheduler scheduler(*fixture.engine, {});
  auto message = [&](Request request) {
    Result<uint64_t> number = scheduler.submit(std::move(request), got);
    return number ? std::string() : number.takeError().message();
  };
  EXPECT_EQ(message(generating({}, 1)), "the prompt is empty: it needs at least one token");
  EXPECT_EQ(message(generating(text(1, 201), 1)), "the prompt has 201 tokens, more than the context of 200");
  EXPECT_EQ(message(generating({1, 67}, 1)), "token 1: id 67 is out of range: expected 0 to 66");
  EXPECT_EQ(message(generating({-1}, 1)), "token 0: id -1 is out of range: expected 0 to 66");
  Request hot = generating({1}, 1);
  hot.sampling.temperature = -1;
  EXPECT_EQ(message(std::move(hot)), "temperature: expected a number of at least 0 (0 is greedy), got -1");
  EXPECT_TRUE(scheduler.idle());
}

TEST(Scheduler, EndTokensStopUnlessIgnored) {
  Fixture fixture;
  fixture.open();
  std::vector<int32_t> prompt = text(8, 10);
  Recorder free = alone(fixture, generating(prompt, 20));
  int32_t end = free.tokens[1][4];
  uint64_t first = 0;
  while (free.tokens[1][first] != end)
    ++first;
  for (bool ignore : {false, true}) {
    Recorder got;
    Scheduler scheduler(*fixture.engine, {.endTokens = {3, end}});
    Request request = generating(prompt, 20);
    request.ignoreEnd = ignore;
    ASSERT_TRUE(scheduler.submit(std::move(request), got));
    ASSERT_FALSE(scheduler.runAll());
    EXPECT_EQ(got.done[1].reason, ignore ? Finish::Length : Finish::Stop);
    EXPECT_EQ(got.done[1].tokens.size(), ignore ? 20 : first + 1) << "the end token is part of the output";
  }
  Recorder listener;
  listener.stopAt = end;
  Scheduler scheduler(*fixture.engine, {});
  ASSERT_TRUE(scheduler.submit(generating(prompt, 20), listener));
  ASSERT_FALSE(scheduler.runAll());
  EXPECT_EQ(listener.done[1].reason, Finish::Stop);
  EXPECT_EQ(listener.tokens[1].size(), first + 1);
}

TEST(Scheduler, CancelFreesBlocksAtOnce) {
  Fixture fixture;
  fixture.open();
  Recorder got;
  Scheduler scheduler(*fixture.engine, {});
  ASSERT_TRUE(scheduler.submit(generating(text(9, 100), 50), got));
  ASSERT_TRUE(scheduler.submit(generating(text(10, 20), 5), got));
  for (int i = 0; i < 6; ++i)
    ASSERT_FALSE(scheduler.step());
  EXPECT_LT(scheduler.blocks().available(), scheduler.blocks().size());
  EXPECT_TRUE(scheduler.cancel(1));
  EXPECT_FALSE(scheduler.cancel(1));
  EXPECT_EQ(got.done[1].reason, Finish::Cancelled);
  ASSERT_FALSE(scheduler.runAll());
  EXPECT_EQ(got.tokens[2], alone(fixture, generating(text(10, 20), 5)).tokens[1]);
  EXPECT_EQ(scheduler.blocks().available(), scheduler.blocks().size());
}

TEST(Scheduler, ASmallCacheServesRequestsInTurn) {
  Fixture fixture;
  fixture.limits.blocks = 3; // one sequence of up to 192 positions at a time
  fixture.open();
  Recorder got;
  Scheduler scheduler(*fixture.engine, {});
  for (uint64_t i = 0; i < 5; ++i)
    ASSERT_TRUE(scheduler.submit(generating(text(20 + i, 100), 60), got));
  Result<uint64_t> tooLong = scheduler.submit(generating(text(1, 190), 10), got);
  ASSERT_FALSE(tooLong);
  EXPECT_EQ(tooLong.takeError().message(), "the request needs 4 blocks of the cache, which has 3");
  ASSERT_FALSE(scheduler.runAll());
  Fixture wide;
  wide.open();
  for (uint64_t i = 0; i < 5; ++i)
    EXPECT_EQ(got.tokens[i + 1], alone(wide, generating(text(20 + i, 100), 60)).tokens[1]);
}

TEST(Scheduler, FewRowsAtATimeChangeNothing) {
  Fixture wide, narrow;
  narrow.limits.rows = 8;
  wide.open();
  narrow.open();
  Recorder expected = alone(wide, generating(text(30, 70), 4, Request::Rows::Every));
  Recorder got = alone(narrow, generating(text(30, 70), 4, Request::Rows::Every));
  EXPECT_EQ(got.rows, expected.rows);
  EXPECT_EQ(got.tokens, expected.tokens);
}

TEST(Scheduler, LongropeRecomputesOnceWhenItsRangeIsCrossed) {
  Fixture fixture;
  fixture.model.rope_long_from = 70;
  fixture.open();
  std::vector<int32_t> prompt = text(31, 60);
  Recorder got = alone(fixture, generating(prompt, 40));
  // The reference: each token from a fresh pass over the text so far, in the regime of its length.
  std::vector<int32_t> all = prompt;
  for (int i = 0; i < 40; ++i) {
    std::vector<float> logits = reference::denseLogits(all, all.size() > 70 ? 1 : 0);
    int32_t token = largestIndex(logits.data() + (all.size() - 1) * reference::vocab, reference::vocab);
    ASSERT_EQ(got.tokens[1][static_cast<size_t>(i)], token) << i;
    all.push_back(token);
  }
  // A prompt beyond the range is in the long regime from its first position on.
  std::vector<int32_t> longPrompt = text(32, 90);
  Recorder rows = alone(fixture, generating(longPrompt, 0, Request::Rows::Every));
  std::vector<float> expected = reference::denseLogits(longPrompt, 1);
  EXPECT_EQ(rows.rows[1][3],
            std::vector<float>(expected.begin() + 3 * reference::vocab, expected.begin() + 4 * reference::vocab));
  // Blocks of one regime are not found in the other.
  Recorder mixed;
  Scheduler scheduler(*fixture.engine, {});
  std::vector<int32_t> head(longPrompt.begin(), longPrompt.begin() + 66);
  ASSERT_TRUE(scheduler.submit(generating(longPrompt, 1), mixed));
  ASSERT_FALSE(scheduler.runAll());
  ASSERT_TRUE(scheduler.submit(generating(head, 1, Request::Rows::Last), mixed));
  ASSERT_FALSE(scheduler.runAll());
  EXPECT_EQ(mixed.done[2].reusedTokens, 0u);
  std::vector<float> shortRows = reference::denseLogits(head, 0);
  EXPECT_EQ(mixed.rows[2][65], std::vector<float>(shortRows.end() - reference::vocab, shortRows.end()));
}

TEST(Scheduler, SeedsDecideAndBatchesDoNot) {
  Fixture fixture;
  fixture.open();
  auto sampled = [](uint64_t seed) {
    Request request = generating(text(33, 12), 25);
    request.sampling.greedy = false;
    request.sampling.topK = 20;
    request.sampling.topP = 0.95f;
    request.sampling.repetitionPenalty = 1.2f;
    request.sampling.seed = seed;
    return request;
  };
  std::vector<int32_t> first = alone(fixture, sampled(1)).tokens[1];
  EXPECT_EQ(alone(fixture, sampled(1), 5).tokens[1], first);
  EXPECT_NE(alone(fixture, sampled(2)).tokens[1], first);
  Recorder batch;
  Scheduler scheduler(*fixture.engine, {});
  for (uint64_t seed : {3, 1, 2})
    ASSERT_TRUE(scheduler.submit(sampled(seed), batch));
  ASSERT_FALSE(scheduler.runAll());
  EXPECT_EQ(batch.tokens[2], first);
}

TEST(Engine, AStepRefusesAnotherCache) {
  Fixture fixture;
  fixture.model.cache_id = 0x99;
  fixture.open();
  Recorder got;
  Scheduler scheduler(*fixture.engine, {});
  ASSERT_TRUE(scheduler.submit(generating({1}, 1), got));
  Error error = scheduler.step();
  ASSERT_TRUE(error);
  EXPECT_EQ(error.message(),
            "the compiled step refuses the cache: id 0000000000000099, the model's is 0000000000000099");
}

TEST(Engine, PlansItsMemory) {
  const ingot_rt_model &model = reference::model();
  SessionLimits limits = {200, 2, 32, 4, 8, 3};
  Result<MemoryPlan> plan = planMemory(model, limits);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->cache, 8u * 2 * 2 * (64 * 6 * 4 + 64 * 16 * 4)); // blocks * layers * kv heads * (keys + values)
  EXPECT_EQ(plan->logits, 4u * 80 * 4);
  EXPECT_EQ(plan->arena, 32 * model.arena.per_token);
  EXPECT_EQ(plan->generatedWeights, model.weights_bytes);
  limits.context = 201;
  Result<MemoryPlan> beyond = planMemory(model, limits);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.takeError().message(), "context: expected 1 to 200, got 201");
  ingot_rt_model huge = model;
  huge.arena.per_token = UINT64_MAX / 16;
  limits.context = 200;
  EXPECT_FALSE(planMemory(huge, limits));
}

/// The next request of a conversation computes what its prompt has beyond the last one's, to the token.
TEST(Scheduler, AConversationComputesOnlyWhatIsNew) {
  Fixture fixture, fresh; // a session's cache is one scheduler's
  fixture.open();
  fresh.open();
  Recorder recorder;
  Scheduler scheduler(*fixture.engine, {});
  auto next = [&](std::vector<int32_t> prompt, uint64_t count, uint64_t conversation = 7) {
    Request request = generating(prompt, count, Request::Rows::Last);
    request.conversation = conversation;
    Result<uint64_t> number = scheduler.submit(std::move(request), recorder);
    EXPECT_TRUE(number) << number.takeError().message();
    EXPECT_FALSE(scheduler.runAll());
    Recorder expected = alone(fresh, generating(prompt, count, Request::Rows::Last));
    EXPECT_EQ(recorder.done[*number].tokens, expected.done[1].tokens);
    EXPECT_EQ(recorder.rows[*number], expected.rows[1]) << "the same bits";
    return recorder.done[*number];
  };
  std::vector<int32_t> prompt = text(5, 70);
  Completion first = next(prompt, 6);
  EXPECT_EQ(first.reusedTokens, 0u);
  // The last generated token was never computed on.
  std::vector<int32_t> longer = prompt;
  longer.insert(longer.end(), first.tokens.begin(), first.tokens.end());
  std::vector<int32_t> question = text(6, 9);
  longer.insert(longer.end(), question.begin(), question.end());
  Completion second = next(longer, 6);
  EXPECT_EQ(second.reusedTokens, 75u);
  EXPECT_EQ(next(longer, 6).reusedTokens, 84u) << "again: all but the last";
  // Another text from inside a full block on; the block itself stays as it was for whoever else has it.
  std::vector<int32_t> changed = longer;
  changed[40] = static_cast<int32_t>((changed[40] + 1) % reference::vocab);
  EXPECT_EQ(next(changed, 6).reusedTokens, 40u);
  EXPECT_EQ(next(longer, 6, 0).reusedTokens, 64u) << "no conversation: whole blocks";
  EXPECT_EQ(next(longer, 6, 8).reusedTokens, 64u) << "another one";
  EXPECT_EQ(next(changed, 3).reusedTokens, 84u);
  EXPECT_EQ(next({prompt.begin(), prompt.begin() + 10}, 3).reusedTokens, 9u) << "a shorter one";
  EXPECT_EQ(next(longer, 3).reusedTokens, 64u) << "what others published, where that is more";
}

TEST(Scheduler, ACancelledConversationKeepsWhatItComputed) {
  Fixture fixture;
  fixture.open();
  Recorder recorder;
  Scheduler scheduler(*fixture.engine, {.chunk = 16});
  Request request = generating(text(5, 100), 50);
  request.conversation = 1;
  Request again = request;
  Result<uint64_t> number = scheduler.submit(std::move(request), recorder);
  for (int i = 0; i < 3; ++i)
    ASSERT_FALSE(scheduler.step());
  scheduler.cancel(*number);
  EXPECT_EQ(recorder.done[*number].reason, Finish::Cancelled);
  again.newTokens = 2;
  number = scheduler.submit(std::move(again), recorder);
  ASSERT_FALSE(scheduler.runAll());
  EXPECT_EQ(recorder.done[*number].reusedTokens, 48u);
}

/// What conversations keep gives way to requests that need the room.
TEST(Scheduler, KeptConversationsGiveWay) {
  Fixture fixture;
  fixture.limits.blocks = 4;
  fixture.open();
  Recorder recorder;
  Scheduler scheduler(*fixture.engine, {});
  for (uint64_t i = 1; i <= 6; ++i) {
    Request request = generating(text(i, 100), 20);
    request.conversation = i;
    Result<uint64_t> number = scheduler.submit(std::move(request), recorder);
    ASSERT_TRUE(number);
    ASSERT_FALSE(scheduler.runAll());
    EXPECT_EQ(recorder.done[*number].tokens.size(), 20u);
  }
  EXPECT_EQ(scheduler.blocks().available(), 0u);
  for (uint64_t i = 1; i <= 6; ++i)
    scheduler.forget(i);
  EXPECT_EQ(scheduler.blocks().available(), 4u) << "no block is lost";
}

} // namespace
