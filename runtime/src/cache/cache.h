// Who uses which block of the key/value cache.
//
// Blocks have a fixed number of positions. A full block never changes, so sequences that begin alike share it: full
// blocks are published under a hash chain (the hash of a block covers all tokens before it) and found again by it. Only
// a sequence's last, partly filled block is written, and nobody else has that one; there is nothing to copy on write.
// Blocks nobody uses keep their contents and names until they are needed for something else, least recently used first.
#ifndef INGOT_RUNTIME_CACHE_CACHE_H
#define INGOT_RUNTIME_CACHE_CACHE_H

#include "ingot_rt/abi.h"
#include "support/hash.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace ingot::rt {

/// The pool of blocks. All memory is taken by the constructor.
class BlockPool {
public:
  static constexpr int32_t none = -1;

  explicit BlockPool(uint64_t blocks);

  uint64_t size() const { return blocks.size(); }
  /// Blocks that `allocate` can still give out.
  uint64_t available() const { return unusedCount; }

  /// A block with one reference and no name, or none. May take one that was published and that nobody uses.
  int32_t allocate();
  /// Gives back one reference.
  void release(int32_t block);

  /// The published block that holds `tokens` [INGOT_RT_CACHE_BLOCK] after the prefix named `prefix`, with one more
  /// reference; or none. The tokens are compared, so equal hashes of different texts do no harm.
  int32_t find(Hash prefix, const int32_t *tokens);
  /// Names a full block, unless another has the same contents already.
  void publish(int32_t block, Hash prefix, const int32_t *tokens);

  uint32_t references(int32_t block) const { return blocks[static_cast<size_t>(block)].references; }
  bool published(int32_t block) const { return blocks[static_cast<size_t>(block)].named; }

  /// The name of the prefix that ends with `tokens` after `prefix`.
  static Hash extend(Hash prefix, const int32_t *tokens);

private:
  struct Block {
    uint32_t references = 0;
    bool named = false;
    Hash prefix, name;
    int32_t tokens[INGOT_RT_CACHE_BLOCK];
    int32_t newer = none, older = none; ///< in the list of unused blocks
  };

  void unlink(int32_t block);
  void linkNewest(int32_t block);
  void linkOldest(int32_t block);
  /// Slot of the table that holds the name, or the empty one where it would go.
  size_t slotOf(Hash name) const;
  void forget(int32_t block);

  std::vector<Block> blocks;
  std::vector<int32_t> table; ///< open addressing with linear probing, by name; a power of two, at most half full
  int32_t oldest = none, newest = none;
  uint64_t unusedCount = 0;
};

/// One sequence's part of the cache. Owns references to its blocks.
class SequenceCache {
public:
  /// Room for a table of `context` positions; nothing is allocated later. `model` and `regime` start the chain of
  /// names, so that keys rotated in different RoPE regimes are never mixed.
  SequenceCache(BlockPool &pool, uint64_t context, uint64_t model);
  ~SequenceCache() { clear(0); }
  SequenceCache(const SequenceCache &) = delete;
  SequenceCache &operator=(const SequenceCache &) = delete;

  /// Positions whose keys and values are in the cache.
  uint64_t length() const { return filled; }
  const std::vector<int32_t> &blocks() const { return table; }

  /// Takes over published blocks that continue this cache along `tokens` (the whole sequence), up to `most` positions
  /// in all. Finds nothing when the last block is partly filled. Returns the positions gained.
  uint64_t reuse(const int32_t *tokens, uint64_t most);
  /// Makes sure that there are blocks for `length` positions; false when the pool has no more (what was got is kept).
  bool reserve(uint64_t length);
  /// Where position `position` of a reserved block goes: block * INGOT_RT_CACHE_BLOCK + place.
  int64_t slot(uint64_t position) const;
  /// Positions up to `length` have been written; `tokens` is the whole sequence. Publishes the blocks that became full.
  void advance(uint64_t length, const int32_t *tokens);
  /// Copies what block `from` holds to block `to`.
  using CopyBlock = std::function<void(int32_t from, int32_t to)>;
  /// Keeps at most the first `length` positions; returns how many are left. A full block is immutable, so where
  /// `length` lies inside one, `copy` gives the sequence a block of its own. Without `copy`, or where the pool has no
  /// block left, the cache is cut at the block's start, and the positions from there on are computed again.
  uint64_t truncate(uint64_t length, const CopyBlock &copy = nullptr);
  /// Exchanges everything with a cache of the same pool and model.
  void swap(SequenceCache &other) noexcept;
  /// Gives everything back and starts a chain of names for `regime`.
  void clear(int32_t regime);

private:
  BlockPool &pool;
  const uint64_t model;
  uint64_t filled = 0;
  Hash start;
  std::vector<int32_t> table;
  std::vector<Hash> names; ///< of the full blocks
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CACHE_CACHE_H
