//===- Attention.cpp - Paged attention ----------------------------------------------------------------------------===//
//
// A block has one token and the query heads of one kv head (at most `headsPerBlock`), so that each key and value is
// read once for all of them, from the cache's blocks where they lie. It walks over blocks of 64 positions with a
// running maximum, sum and accumulator (Milakov and Gimelshein, 2018; Dao et al., 2022) that restart and fold at
// multiples of INGOT_RT_ATTENTION_SPLIT: what a token gets depends on its position and its keys, whatever else is in
// the batch.
//
// In a block of positions: scores, a thread for each pair of head and position, a chain over the features; weights, a
// warp for each head; then values, a thread for each pair of head and feature, a chain over the positions. A product of
// fragments on tensor cores takes the place of the first and the last.
//
// States that a warp's lanes read while one of them writes its successor lie twice, and are used in turn.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/VectorMath.h"
#include "compiler/Codegen/GPU/DeviceKernels.h"
#include "ingot_rt/abi.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;

namespace ingot::gpu {

using cpu::lanes;

static constexpr int64_t blockSize = INGOT_RT_CACHE_BLOCK;
static constexpr int64_t blocksPerSplit = INGOT_RT_ATTENTION_SPLIT / blockSize;
static constexpr int64_t warps = blockThreads / warpThreads;
static_assert(blockSize == 2 * warpThreads, "a lane weighs two positions of a block");

/// Query heads that a block takes at most: as many as keep its shared memory within what every GPU gives.
static int64_t headsPerBlock(int64_t group, int64_t headDim) {
  static constexpr int64_t sharedFloats = 11 * 1024;
  return std::clamp<int64_t>(sharedFloats / (3 * headDim + blockSize + 8), 1, std::min<int64_t>(group, 8));
}

namespace {
/// The body of the kernel.
struct AttentionKernel {
  DeviceEmitter &d;
  const cpu::AttentionShape &shape;
  const DeviceCache &cache;
  int64_t group, heads;

  // Who: the token, its position, the block's query heads [firstHead, firstHead + count) of `kvHead`.
  Ix token = {}, position = {}, firstKey = {}, sequence = {}, kvHead = {}, firstHead = {}, count = {};
  /// [head][feature]: queries, sums of a split, sums of all splits before.
  DeviceMemory query = {}, accumulator = {}, total = {};
  /// [head][position of a block]: scores, then weights.
  DeviceMemory scores = {};
  /// [head]: the factor of what was before; sum of a split, of all splits. [turn][head]: maxima of both.
  DeviceMemory factor = {}, sum = {}, totalSum = {}, largest = {}, totalLargest = {};

  Ix width() { return d.c(cache.headDim); }
  /// A state's place in turn `number`.
  Ix turn(Ix number, Ix head) { return number % 2 * heads + head; }

  void declare();
  void start();
  void scoreBlock(Ix keys, Ix keyBegin, Ix keyEnd);
  void weighBlock(Ix number);
  void addValues(Ix values, Ix keyBegin, Ix keyEnd);
  void visitBlock(Ix number);
  void fold(Ix split, Ix endBlock);
  void emit();
};
} // namespace

void AttentionKernel::declare() {
  Type f32 = d.getF32Type();
  query = d.shared("query heads", f32, heads * cache.headDim);
  accumulator = d.shared("accumulator", f32, heads * cache.headDim);
  total = d.shared("total", f32, heads * cache.headDim);
  scores = d.shared("scores", f32, heads * blockSize);
  factor = d.shared("factor", f32, heads);
  sum = d.shared("sum", f32, heads);
  totalSum = d.shared("total sum", f32, heads);
  largest = d.shared("largest", f32, 2 * heads);
  totalLargest = d.shared("total largest", f32, 2 * heads);
}

/// scores[h][j] = scale * query_h . key_j, -infinity for positions outside [keyBegin, keyEnd).
void AttentionKernel::scoreBlock(Ix keys, Ix keyBegin, Ix keyEnd) {
  d.each(count * blockSize, [&](Ix item) {
    Ix head = item / blockSize, j = item % blockSize;
    Value inside = arith::AndIOp::create(d, keyBegin <= j, j < keyEnd);
    Value score = d.either(
        inside,
        [&] {
          Ix key = keys + j / lanes * (cache.headDim * lanes) + j % lanes, from = head * cache.headDim;
          Value dot = d.loop(d.c(0), width(), 1, ValueRange{d.f32(0)}, [&](Ix i, ValueRange partial) {
            Value x = cpu::emitWiden(d, d.load(d.memory("cache"), key + i * lanes));
            return SmallVector<Value>{d.fma(d.load(query, from + i), x, partial[0])};
          })[0];
          return d.mul(dot, d.f32(shape.scale));
        },
        [&] { return d.f32(-HUGE_VALF); });
    d.store(score, scores, item);
  });
}

/// Scores become weights; the running maximum and sum of each head follow.
void AttentionKernel::weighBlock(Ix number) {
  d.loop(d.warp(), count, warps, [&](Ix head) {
    Ix at = head * blockSize + d.lane();
    Value low = d.load(scores, at), high = d.load(scores, at + warpThreads);
    Value before = d.load(largest, turn(number, head));
    Value now = d.larger(d.warpMax(d.larger(low, high)), before);
    low = d.exp(d.sub(low, now));
    high = d.exp(d.sub(high, now));
    Value ofBlock = d.warpSum(d.add(low, high)), scale = d.exp(d.sub(before, now));
    d.store(low, scores, at);
    d.store(high, scores, at + warpThreads);
    d.when(d.lane() == d.c(0), [&] {
      d.store(now, largest, turn(number + 1, head));
      d.store(scale, factor, head);
      d.store(d.fma(d.load(sum, head), scale, ofBlock), sum, head);
    });
  });
}

/// accumulator[h][i] = accumulator[h][i] * factor_h + sum over the block's keys of weight * value.
void AttentionKernel::addValues(Ix values, Ix keyBegin, Ix keyEnd) {
  d.each(count * cache.headDim, [&](Ix item) {
    Ix head = item / cache.headDim, i = item % cache.headDim;
    SmallVector<Value> so = {d.mul(d.load(accumulator, item), d.load(factor, head))};
    so = d.loop(keyBegin, keyEnd, 1, so, [&](Ix j, ValueRange partial) {
      Value x = cpu::emitWiden(d, d.load(d.memory("cache"), values + j * cache.paddedHeadDim() + i));
      return SmallVector<Value>{d.fma(d.load(scores, head * blockSize + j), x, partial[0])};
    });
    d.store(so[0], accumulator, item);
  });
}

void AttentionKernel::visitBlock(Ix number) {
  Ix id = d.toIndex(d.load(d.memory("block_tables"), sequence * d.index("block_table_stride") + number));
  Ix keys = id * cache.blockElements() + (d.index("layer") * cache.kvHeads + kvHead) * cache.headElements();
  Ix start = number * blockSize;
  Ix keyBegin = d.saturatingSub(firstKey, start), keyEnd = d.min(position + 1 - start, d.c(blockSize));
  scoreBlock(keys, keyBegin, keyEnd);
  d.barrier("scores of a block");
  weighBlock(number);
  d.barrier("weights of a block");
  addValues(keys + cache.keyElements(), keyBegin, keyEnd);
  d.barrier("end of a block");
}

/// Adds a split's sums to those of the splits before it. A split without a finite score changes nothing.
void AttentionKernel::fold(Ix split, Ix endBlock) {
  // Every thread computes the factors of its item's head from the same states.
  auto folded = [&](Ix head, function_ref<void(Value, Value, Value)> combine, function_ref<void(Value)> keep) {
    Value part = d.load(largest, turn(endBlock, head)), before = d.load(totalLargest, turn(split, head));
    Value finite = d.compare(arith::CmpFPredicate::OGT, part, d.f32(-HUGE_VALF));
    d.when(
        finite,
        [&] {
          Value now = d.larger(part, before);
          combine(d.exp(d.sub(before, now)), d.exp(d.sub(part, now)), now);
        },
        [&] { keep(before); });
  };
  d.each(count * cache.headDim, [&](Ix item) {
    folded(
        item / cache.headDim,
        [&](Value oldFactor, Value newFactor, Value) {
          Value add = d.mul(d.load(accumulator, item), newFactor);
          d.store(d.fma(d.load(total, item), oldFactor, add), total, item);
        },
        [](Value) {});
  });
  d.each(count, [&](Ix head) {
    folded(
        head,
        [&](Value oldFactor, Value newFactor, Value now) {
          Value add = d.mul(d.load(sum, head), newFactor);
          d.store(d.fma(d.load(totalSum, head), oldFactor, add), totalSum, head);
          d.store(now, totalLargest, turn(split + 1, head));
        },
        [&](Value before) { d.store(before, totalLargest, turn(split + 1, head)); });
  });
  d.barrier("end of a split");
}

void AttentionKernel::start() {
  token = d.block(0);
  kvHead = d.block(1);
  Ix chunk = d.block(2) * heads;
  firstHead = kvHead * group + chunk;
  count = d.min(d.c(group) - chunk, d.c(heads));
  position = d.toIndex(d.load(d.memory("positions"), token));
  sequence = d.toIndex(d.load(d.memory("sequences"), token));
  firstKey = shape.window ? d.saturatingSub(position + 1, d.c(shape.window)) : d.c(0);
  Ix from = token * d.index("query_stride") + firstHead * cache.headDim;
  d.each(count * cache.headDim, [&](Ix item) {
    d.store(d.load(d.memory("query"), from + item), query, item);
    d.store(d.f32(0), total, item);
  });
}

void AttentionKernel::emit() {
  // Left to itself ptxas unrolls the loads of keys and values until they spill.
  d.residentBlocks(4);
  declare();
  start();
  Ix firstBlock = firstKey / blockSize, endBlock = position / blockSize + 1;
  Ix firstSplit = firstBlock / blocksPerSplit, endSplit = (endBlock - 1) / blocksPerSplit + 1;
  d.each(count, [&](Ix head) {
    d.store(d.f32(0), totalSum, head);
    d.store(d.f32(-HUGE_VALF), totalLargest, turn(firstSplit, head));
  });
  d.loop(firstSplit, endSplit, 1, [&](Ix split) {
    Ix begin = d.max(firstBlock, split * blocksPerSplit), end = d.min(endBlock, (split + 1) * blocksPerSplit);
    d.each(count * cache.headDim, [&](Ix item) { d.store(d.f32(0), accumulator, item); });
    d.each(count, [&](Ix head) {
      d.store(d.f32(0), sum, head);
      d.store(d.f32(-HUGE_VALF), largest, turn(begin, head));
    });
    d.barrier("start of a split");
    d.loop(begin, end, 1, [&](Ix number) { visitBlock(number); });
    fold(split, end);
  });
  Ix to = token * d.index("result_stride") + firstHead * cache.headDim;
  d.each(count * cache.headDim, [&](Ix item) {
    d.store(d.div(d.load(total, item), d.load(totalSum, item / cache.headDim)), d.memory("result"), to + item);
  });
}

void DeviceKernels::attention(cpu::Emitter &e, const cpu::AttentionShape &shape, const DeviceBatch &batch,
                              const DeviceCache &cache, DeviceRows query, DeviceRows result) {
  SmallVector<Argument> arguments = {{"positions", batch.positions},
                                     {"sequences", batch.sequences},
                                     {"block_tables", batch.blockTables},
                                     {"block_table_stride", batch.blockTableStride},
                                     {"cache", cache.memory},
                                     {"layer", cache.layer}};
  append(arguments, "query", "query_stride", query);
  append(arguments, "result", "result_stride", result);
  int64_t group = shape.heads / cache.kvHeads, heads = headsPerBlock(group, cache.headDim);
  std::string name = "attention_";
  llvm::raw_string_ostream(name) << cache.element << "_" << shape.heads << "x" << cache.layers << "x" << cache.kvHeads
                                 << "x" << cache.headDim;
  if (shape.window)
    name += "_window" + std::to_string(shape.window);
  if (shape.scale != 1 / std::sqrt(static_cast<float>(cache.headDim)))
    name += "_scale" + llvm::utohexstr(llvm::bit_cast<uint32_t>(shape.scale));
  launch(e, name, arguments, {batch.tokenCount, e.c(cache.kvHeads), e.c((group + heads - 1) / heads)},
         [&](DeviceEmitter &d) { AttentionKernel{d, shape, cache, group, heads}.emit(); });
}

} // namespace ingot::gpu
