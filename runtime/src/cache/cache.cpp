// Block bookkeeping.
#include "cache/cache.h"

#include "support/checked.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ingot::rt {

namespace {
constexpr uint64_t blockPositions = INGOT_RT_CACHE_BLOCK;
} // namespace

BlockPool::BlockPool(uint64_t count) : blocks(count), table(std::bit_ceil(2 * count + 2), none) {
  // The oldest is given out first: blocks from 0 up.
  for (uint64_t block = 0; block < count; ++block)
    linkNewest(static_cast<int32_t>(block));
}

void BlockPool::unlink(int32_t block) {
  Block &entry = blocks[static_cast<size_t>(block)];
  (entry.newer == none ? newest : blocks[static_cast<size_t>(entry.newer)].older) = entry.older;
  (entry.older == none ? oldest : blocks[static_cast<size_t>(entry.older)].newer) = entry.newer;
  entry.newer = entry.older = none;
  --unusedCount;
}

void BlockPool::linkNewest(int32_t block) {
  Block &entry = blocks[static_cast<size_t>(block)];
  entry.older = newest;
  entry.newer = none;
  (newest == none ? oldest : blocks[static_cast<size_t>(newest)].newer) = block;
  newest = block;
  ++unusedCount;
}

void BlockPool::linkOldest(int32_t block) {
  Block &entry = blocks[static_cast<size_t>(block)];
  entry.newer = oldest;
  entry.older = none;
  (oldest == none ? newest : blocks[static_cast<size_t>(oldest)].older) = block;
  oldest = block;
  ++unusedCount;
}

size_t BlockPool::slotOf(Hash name) const {
  size_t mask = table.size() - 1, slot = name.low & mask;
  while (table[slot] != none && !(blocks[static_cast<size_t>(table[slot])].name == name))
    slot = (slot + 1) & mask;
  return slot;
}

void BlockPool::forget(int32_t block) {
  Block &entry = blocks[static_cast<size_t>(block)];
  size_t mask = table.size() - 1, hole = slotOf(entry.name);
  table[hole] = none;
  entry.named = false;
  // Linear probing without tombstones: move back what can no longer be reached across the hole.
  for (size_t slot = (hole + 1) & mask; table[slot] != none; slot = (slot + 1) & mask) {
    size_t home = blocks[static_cast<size_t>(table[slot])].name.low & mask;
    if (((slot - home) & mask) >= ((slot - hole) & mask)) {
      table[hole] = table[slot];
      table[slot] = none;
      hole = slot;
    }
  }
}

int32_t BlockPool::allocate() {
  int32_t block = oldest;
  if (block == none)
    return none;
  unlink(block);
  Block &entry = blocks[static_cast<size_t>(block)];
  if (entry.named)
    forget(block);
  entry.references = 1;
  return block;
}

void BlockPool::release(int32_t block) {
  Block &entry = blocks[static_cast<size_t>(block)];
  if (--entry.references != 0)
    return;
  // Nobody can find a block without a name: it is the first to be used again.
  if (entry.named)
    linkNewest(block);
  else
    linkOldest(block);
}

Hash BlockPool::extend(Hash prefix, const int32_t *tokens) {
  unsigned char content[sizeof prefix + blockPositions * sizeof(int32_t)];
  memcpy(content, &prefix, sizeof prefix);
  memcpy(content + sizeof prefix, tokens, blockPositions * sizeof(int32_t));
  return hashBytes(content, sizeof content);
}

int32_t BlockPool::find(Hash prefix, const int32_t *tokens) {
  int32_t block = table[slotOf(extend(prefix, tokens))];
  if (block == none)
    return none;
  Block &entry = blocks[static_cast<size_t>(block)];
  if (!(entry.prefix == prefix) || memcmp(entry.tokens, tokens, sizeof entry.tokens) != 0)
    return none;
  if (entry.references++ == 0)
    unlink(block);
  return block;
}

void BlockPool::publish(int32_t block, Hash prefix, const int32_t *tokens) {
  Block &entry = blocks[static_cast<size_t>(block)];
  Hash name = extend(prefix, tokens);
  size_t slot = slotOf(name);
  if (entry.named || table[slot] != none)
    return;
  entry.named = true;
  entry.prefix = prefix;
  entry.name = name;
  memcpy(entry.tokens, tokens, sizeof entry.tokens);
  table[slot] = block;
}

SequenceCache::SequenceCache(BlockPool &pool, uint64_t context, uint64_t model) : pool(pool), model(model) {
  table.reserve(ceilDiv(context, blockPositions));
  names.reserve(ceilDiv(context, blockPositions));
  clear(0);
}

uint64_t SequenceCache::reuse(const int32_t *tokens, uint64_t most) {
  uint64_t before = filled;
  if (filled % blockPositions != 0 || table.size() != names.size())
    return 0;
  Hash prefix = names.empty() ? start : names.back();
  while (filled + blockPositions <= most) {
    int32_t block = pool.find(prefix, tokens + filled);
    if (block == BlockPool::none)
      break;
    prefix = BlockPool::extend(prefix, tokens + filled);
    table.push_back(block);
    names.push_back(prefix);
    filled += blockPositions;
  }
  return filled - before;
}

bool SequenceCache::reserve(uint64_t length) {
  while (table.size() * blockPositions < length) {
    int32_t block = pool.allocate();
    if (block == BlockPool::none)
      return false;
    table.push_back(block);
  }
  return true;
}

int64_t SequenceCache::slot(uint64_t position) const {
  return static_cast<int64_t>(table[position / blockPositions]) * INGOT_RT_CACHE_BLOCK +
         static_cast<int64_t>(position % blockPositions);
}

void SequenceCache::advance(uint64_t length, const int32_t *tokens) {
  filled = length;
  for (uint64_t block = names.size(); (block + 1) * blockPositions <= filled; ++block) {
    Hash prefix = block == 0 ? start : names[block - 1];
    pool.publish(table[block], prefix, tokens + block * blockPositions);
    names.push_back(BlockPool::extend(prefix, tokens + block * blockPositions));
  }
}

void SequenceCache::swap(SequenceCache &other) noexcept {
  std::swap(filled, other.filled);
  std::swap(start, other.start);
  table.swap(other.table);
  names.swap(other.names);
}

uint64_t SequenceCache::truncate(uint64_t length, const CopyBlock &copy) {
  if (length >= filled)
    return filled;
  uint64_t kept = length / blockPositions;
  // A block that was not full is still this sequence's alone and stays.
  bool partial = length % blockPositions != 0 && kept >= names.size();
  if (length % blockPositions != 0 && !partial && copy)
    if (int32_t own = pool.allocate(); own != BlockPool::none) {
      copy(table[kept], own);
      pool.release(table[kept]);
      table[kept] = own;
      partial = true;
    }
  filled = partial ? length : kept * blockPositions;
  while (table.size() > ceilDiv(filled, blockPositions)) {
    pool.release(table.back());
    table.pop_back();
  }
  names.resize(std::min<size_t>(names.size(), kept));
  return filled;
}

void SequenceCache::clear(int32_t regime) {
  // Last block first: the beginning of a text is what others are likeliest to share, so it should be evicted last.
  for (; !table.empty(); table.pop_back())
    pool.release(table.back());
  names.clear();
  filled = 0;
  uint64_t seed[2] = {model, static_cast<uint64_t>(regime)};
  start = hashBytes(seed, sizeof seed);
}

} // namespace ingot::rt
