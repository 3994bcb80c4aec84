// The queue of byte pair encoding in long pieces: merges by rank, then by position.
#ifndef INGOT_RUNTIME_TOKENIZER_MERGE_QUEUE_H
#define INGOT_RUNTIME_TOKENIZER_MERGE_QUEUE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <vector>

namespace ingot::rt {

/// A priority queue of (rank, position), smallest first. A long piece has few ranks and finds the positions of one rank
/// nearly in order, so each rank has a list that is in order and a heap for what comes late: a binary heap of all would
/// cost a cache miss for every level.
template <typename Position>
class MergeQueue {
public:
  void push(uint32_t rank, Position position) {
    Bucket &bucket = bucketOf(rank);
    if (bucket.inOrder.empty() || bucket.inOrder.back() <= position) {
      bucket.inOrder.push_back(position);
    } else {
      bucket.late.push_back(position);
      std::push_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
    }
  }

  /// Takes the smallest out; false if there is none.
  bool pop(uint32_t &rank, Position &position) {
    if (buckets.empty())
      return false;
    auto first = buckets.begin();
    rank = first->first;
    Bucket &bucket = first->second;
    bool left = bucket.next < bucket.inOrder.size();
    if (!bucket.late.empty() && (!left || bucket.late.front() < bucket.inOrder[bucket.next])) {
      position = bucket.late.front();
      std::pop_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
      bucket.late.pop_back();
    } else {
      position = bucket.inOrder[bucket.next++];
      left = bucket.next < bucket.inOrder.size();
    }
    if (!left && bucket.late.empty()) {
      if (Recent &entry = recent[rank % std::size(recent)]; entry.bucket == &bucket)
        entry.bucket = nullptr;
      bucket.inOrder.clear();
      bucket.next = 0;
      empty.push_back(buckets.extract(first));
    }
    return true;
  }

private:
  struct Bucket {
    std::vector<Position> inOrder; ///< ascending; taken up to `next`
    size_t next = 0;
    std::vector<Position> late; ///< a heap
  };
  Bucket &bucketOf(uint32_t rank) {
    Recent &entry = recent[rank % std::size(recent)];
    if (!entry.bucket || entry.rank != rank)
      entry = {rank, &find(rank)};
    return *entry.bucket;
  }
  Bucket &find(uint32_t rank) {
    auto found = buckets.lower_bound(rank);
    if (found != buckets.end() && found->first == rank)
      return found->second;
    if (empty.empty())
      return buckets.emplace_hint(found, rank, Bucket())->second;
    auto node = std::move(empty.back());
    empty.pop_back();
    node.key() = rank;
    return buckets.insert(found, std::move(node))->second;
  }

  /// Non-empty ones only; the empty ones keep their memory for the next rank.
  std::map<uint32_t, Bucket> buckets;
  std::vector<typename std::map<uint32_t, Bucket>::node_type> empty;
  /// Where buckets are, for those that were pushed to last: runs of one
  /// character alternate between few ranks.
  struct Recent {
    uint32_t rank = 0;
    Bucket *bucket = nullptr;
  };
  Recent recent[16];
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_MERGE_QUEUE_H
