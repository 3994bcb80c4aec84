// Blocks: references, prefixes found again, eviction, truncation.
#include "cache/cache.h"

#include "ingot_rt/random.h"

#include <gtest/gtest.h>
#include <map>
#include <numeric>

using namespace ingot::rt;

namespace {

constexpr uint64_t block = INGOT_RT_CACHE_BLOCK;

std::vector<int32_t> counting(uint64_t length, int32_t first = 0) {
  std::vector<int32_t> tokens(length);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// Fills a sequence's cache with `tokens`, as a step would.
void compute(SequenceCache &cache, const std::vector<int32_t> &tokens) {
  ASSERT_TRUE(cache.reserve(tokens.size()));
  cache.advance(tokens.size(), tokens.data());
}

TEST(Cache, FullBlocksAreSharedAndPartialOnesAreNot) {
  BlockPool pool(8);
  std::vector<int32_t> tokens = counting(2 * block + 10);
  SequenceCache first(pool, 1000, 1), second(pool, 1000, 1);
  compute(first, tokens);
  EXPECT_EQ(second.reuse(tokens.data(), tokens.size()), 2 * block);
  EXPECT_EQ(second.length(), 2 * block);
  EXPECT_EQ(second.blocks()[0], first.blocks()[0]);
  EXPECT_EQ(pool.references(first.blocks()[1]), 2u);
  EXPECT_EQ(pool.available(), 5u);
  compute(second, tokens);
  EXPECT_NE(second.blocks()[2], first.blocks()[2]);
  first.clear(0);
  EXPECT_EQ(pool.references(second.blocks()[0]), 1u);
  second.clear(0);
  EXPECT_EQ(pool.available(), 8u);
}

TEST(Cache, APrefixIsItsTokensItsPlaceItsModelAndItsRegime) {
  BlockPool pool(16);
  std::vector<int32_t> tokens = counting(2 * block), other = tokens;
  other[3] += 1;
  SequenceCache first(pool, 1000, 1);
  compute(first, tokens);
  SequenceCache changed(pool, 1000, 1), shifted(pool, 1000, 1), model(pool, 1000, 2), regime(pool, 1000, 1);
  EXPECT_EQ(changed.reuse(other.data(), other.size()), 0u)
      << "the second block is the same, but not what comes before it";
  EXPECT_EQ(shifted.reuse(tokens.data() + block, block), 0u);
  EXPECT_EQ(model.reuse(tokens.data(), tokens.size()), 0u);
  regime.clear(1);
  EXPECT_EQ(regime.reuse(tokens.data(), tokens.size()), 0u);
  SequenceCache same(pool, 1000, 1);
  EXPECT_EQ(same.reuse(tokens.data(), 2 * block - 1), block) << "only whole blocks within the limit";
  EXPECT_EQ(same.reuse(tokens.data(), 2 * block), block) << "and on from there";
}

TEST(Cache, UnusedBlocksAreFoundUntilTheyAreNeeded) {
  BlockPool pool(4);
  std::vector<int32_t> old = counting(2 * block, 1000), young = counting(block, 5000);
  {
    SequenceCache a(pool, 1000, 1);
    compute(a, old);
  }
  {
    SequenceCache b(pool, 1000, 1);
    compute(b, young);
  }
  EXPECT_EQ(pool.available(), 4u);
  // One block has no name, so it is taken first; then the oldest, the end of a text before its beginning.
  SequenceCache c(pool, 1000, 1);
  ASSERT_TRUE(c.reserve(2 * block));
  SequenceCache again(pool, 1000, 1), againYoung(pool, 1000, 1);
  EXPECT_EQ(again.reuse(old.data(), old.size()), block);
  EXPECT_EQ(againYoung.reuse(young.data(), young.size()), block);
  EXPECT_EQ(pool.available(), 0u);
  EXPECT_FALSE(c.reserve(3 * block));
}

TEST(Cache, TruncationKeepsFullBlocksImmutable) {
  BlockPool pool(8);
  std::vector<int32_t> tokens = counting(3 * block + 20);
  SequenceCache cache(pool, 1000, 1);
  compute(cache, tokens);
  EXPECT_EQ(cache.truncate(3 * block + 5), 3 * block + 5) << "inside its own last block";
  EXPECT_EQ(cache.blocks().size(), 4u);
  EXPECT_EQ(cache.truncate(2 * block + 7), 2 * block) << "inside a full block: cut at its start";
  EXPECT_EQ(cache.blocks().size(), 2u);
  EXPECT_EQ(pool.available(), 6u);
  EXPECT_EQ(cache.truncate(500), 2 * block);
  // Another continuation goes into another block, and the old one can still be found.
  int32_t kept = cache.blocks()[1];
  std::vector<int32_t> other = tokens;
  other[2 * block] = -7;
  compute(cache, other);
  EXPECT_EQ(cache.blocks()[1], kept);
  SequenceCache reader(pool, 1000, 1);
  EXPECT_EQ(reader.reuse(tokens.data(), tokens.size()), 3 * block);
}

TEST(Cache, SlotsFollowTheTable) {
  BlockPool pool(4);
  SequenceCache a(pool, 1000, 1), b(pool, 1000, 1);
  ASSERT_TRUE(a.reserve(1));
  ASSERT_TRUE(b.reserve(1));
  ASSERT_TRUE(a.reserve(block + 1));
  EXPECT_EQ(a.slot(5), a.blocks()[0] * 64 + 5);
  EXPECT_EQ(a.slot(block + 6), a.blocks()[1] * 64 + 6);
}

TEST(Cache, ManyRandomSequencesLeaveNothingBehind) {
  // A pool under pressure, against a plain map of what was published: whatever is found must hold the right tokens.
  BlockPool pool(24);
  std::map<int32_t, std::vector<int32_t>> contents; // block -> the whole text up to its end, when it was written
  uint64_t counter = 0;
  auto random = [&](uint64_t below) {
    uint32_t words[4];
    ingot_rt_random_block(42, counter++, words);
    return words[0] % below;
  };
  uint64_t found = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<std::unique_ptr<SequenceCache>> live;
    for (int s = 0; s < 3; ++s) {
      std::vector<int32_t> tokens;
      while (tokens.size() < block * (1 + random(5)))
        tokens.insert(tokens.end(), block, static_cast<int32_t>(random(2))); // few kinds of blocks: many hits
      auto cache = std::make_unique<SequenceCache>(pool, 1000, 1);
      uint64_t reused = cache->reuse(tokens.data(), tokens.size());
      found += reused / block;
      for (uint64_t i = 0; i < reused / block; ++i)
        ASSERT_EQ(contents[cache->blocks()[i]],
                  std::vector<int32_t>(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>((i + 1) * block)));
      ASSERT_TRUE(cache->reserve(tokens.size()));
      for (uint64_t i = reused / block; i < tokens.size() / block; ++i)
        contents[cache->blocks()[i]].assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>((i + 1) * block));
      cache->advance(tokens.size(), tokens.data());
      if (random(3) == 0)
        cache->truncate(random(tokens.size()));
      live.push_back(std::move(cache));
    }
  }
  EXPECT_GT(found, 400u);
  EXPECT_EQ(pool.available(), 24u);
}

} // namespace
