//===- Attention.cpp - Two lowerings of attention behind one interface
//--------------------------------------------===//
//
// See Attention.h. What makes a prefill's row equal a decode's in bits:
// - blocks and splits start at absolute positions; a query visits exactly the blocks that hold one of its keys;
// - a score is one chain over the head's features, a weighted value one chain over the query's keys in a block,
//   ascending, whatever else is computed beside it; lanes outside the query's keys are selected away;
// - queries that share reads differ in nothing but the registers they stand in. The rows of a tile end in one block,
//   where the keys that all of them see are summed together and the few others for each row by itself;
// - splits are folded in the order of their positions, whoever computed them.
//
// Where few heads are all there is to share (one token of few sequences), workers take splits instead, and fold them
// after a barrier.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/Attention.h"
#include "compiler/Codegen/CPU/VectorMath.h"
#include "ingot_rt/abi.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;

namespace ingot::cpu {

static constexpr int64_t blockSize = INGOT_RT_CACHE_BLOCK;
static constexpr int64_t tilesPerBlock = blockSize / lanes;

static std::string nameOf(StringRef prefix, const AttentionShape &shape, const Cache &cache) {
  std::string name;
  llvm::raw_string_ostream(name) << prefix << "_" << cache.element << "_" << shape.heads << "x" << cache.headDim;
  if (shape.window)
    name += "_window" + std::to_string(shape.window);
  if (shape.scale != 1 / std::sqrt(static_cast<float>(cache.headDim)))
    name += "_scale" + llvm::utohexstr(llvm::bit_cast<uint32_t>(shape.scale));
  return name;
}

/// Lanes of `scores`, which stand for positions from `first` on, outside
/// [begin, end) become -infinity.
static Value selectKeys(Emitter &e, Value scores, Ix first, Ix begin, Ix end) {
  Value at = arith::AddIOp::create(e, e.broadcast(e.toI32(first)), e.iota());
  Value notBefore = arith::CmpIOp::create(e, arith::CmpIPredicate::sge, at, e.broadcast(e.toI32(begin)));
  Value notAfter = arith::CmpIOp::create(e, arith::CmpIPredicate::slt, at, e.broadcast(e.toI32(end)));
  Value inside = arith::AndIOp::create(e, notBefore, notAfter);
  return e.choose(inside, scores, e.splat(e.vector(e.getF32Type()), -HUGE_VAL));
}

/// The first position that a query at `position` sees.
static Ix firstKey(Emitter &e, const AttentionShape &shape, Ix position) {
  return shape.window ? e.saturatingSub(position + 1, e.c(shape.window)) : e.c(0);
}

/// The scales of a tile of 16 keys or values; `keys` is where the head's keys start in its block.
static Value loadScales(Emitter &e, const Cache &cache, Value elements, Ix keys, Ix tile, bool ofValues) {
  Value bytes = e.vload(elements, keys + cache.scaleStart(ofValues) + tile * (4 * lanes), 4 * lanes);
  return vector::BitCastOp::create(e, e.vector(e.getF32Type()), bytes);
}

/// Calls `body(start, mask)` for each vector of a head; the mask is null where
/// all lanes are inside.
static void forHead(Emitter &e, int64_t headDim, function_ref<void(Ix, Value)> body) {
  int64_t whole = headDim / lanes * lanes;
  e.loop(e.c(0), e.c(whole), lanes, [&](Ix i) { body(i, Value()); });
  if (whole < headDim)
    body(e.c(whole), e.maskBelow(e.c(headDim - whole)));
}

/// What both lowerings' functions take, in order.
static SmallVector<Value> argumentsOf(const Batch &batch, const Cache &cache, Rows query, Rows result,
                                      const Worker &worker) {
  return {batch.positions,     batch.sequences,        batch.queryStarts,   batch.blockTables, batch.tokenCount,
          batch.sequenceCount, batch.blockTableStride, cache.memory,        cache.layer,       query.memory,
          query.stride,        result.memory,          result.stride,       worker.id,         worker.count,
          worker.scratch,      worker.shared,          worker.sharedStride, worker.barrier};
}

namespace {
/// The arguments inside the function.
struct AttentionArguments {
  Batch batch;
  Cache cache;
  Rows query, result;
  Worker worker;
  /// The cache as its elements.
  Value elements;

  AttentionArguments(Emitter &e, const Cache &outer, ValueRange a) : cache(outer) {
    batch.positions = a[0];
    batch.sequences = a[1];
    batch.queryStarts = a[2];
    batch.blockTables = a[3];
    batch.tokenCount = e.ix(a[4]);
    batch.sequenceCount = e.ix(a[5]);
    batch.blockTableStride = e.ix(a[6]);
    cache.layer = e.ix(a[8]);
    query = {a[9], e.ix(a[10])};
    result = {a[11], e.ix(a[12])};
    worker.id = e.ix(a[13]);
    worker.count = e.ix(a[14]);
    worker.scratch = a[15];
    worker.shared = a[16];
    worker.sharedStride = e.ix(a[17]);
    worker.barrier = a[18];
    elements = a[7];
  }

  /// Where the keys of `kvHead` in block number `block` of sequence `sequence`
  /// start.
  Ix keysOf(Emitter &e, Ix sequence, Ix block, Ix kvHead) const {
    Ix id = e.toIndex(e.load(batch.blockTables, sequence * batch.blockTableStride + block));
    return id * cache.blockElements() + cache.headStart(kvHead);
  }
};
} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// Naive
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
class NaiveAttention : public AttentionEmitter {
public:
  int64_t scratchFloats(const AttentionShape &, const Cache &, int64_t maxContext) const override {
    return maxContext + 2 * lanes;
  }

  void emit(Emitter &e, Kernels &kernels, const AttentionShape &shape, const Batch &batch, const Cache &cache,
            Rows query, Rows result, const Worker &worker) const override {
    kernels.call(e, nameOf("attention_naive", shape, cache), argumentsOf(batch, cache, query, result, worker),
                 [&](Emitter &f, ValueRange a) {
                   AttentionArguments in(f, cache, a);
                   IndexRange mine = f.share(in.batch.tokenCount * shape.heads, in.worker.id, in.worker.count);
                   f.loop(mine, [&](Ix unit) { emitHead(f, shape, in, unit / shape.heads, unit % shape.heads); });
                 });
  }

private:
  static void emitHead(Emitter &e, const AttentionShape &shape, const AttentionArguments &in, Ix token, Ix head);
};
} // namespace

/// One head of one token. Scores of positions from the first key's tile on lie
/// in scratch memory.
void NaiveAttention::emitHead(Emitter &e, const AttentionShape &shape, const AttentionArguments &in, Ix token,
                              Ix head) {
  const Cache &cache = in.cache;
  Value scratch = in.worker.scratch;
  Ix kvHead = head / (shape.heads / cache.kvHeads), sequence = e.toIndex(e.load(in.batch.sequences, token));
  Ix end = e.toIndex(e.load(in.batch.positions, token)) + 1, begin = firstKey(e, shape, end - 1);
  Ix firstTile = begin / lanes, endTile = (end + (lanes - 1)) / lanes, base = firstTile * lanes;
  Ix queryStart = token * in.query.stride + head * cache.headDim;
  SmallVector<Value> carried = {e.splat(e.vector(e.getF32Type()), -HUGE_VAL)};
  carried = e.loop(firstTile, endTile, 1, carried, [&](Ix tile, ValueRange largest) {
    Ix blockKeys = in.keysOf(e, sequence, tile / tilesPerBlock, kvHead);
    Ix keys = blockKeys + tile % tilesPerBlock * (cache.headDim * lanes);
    SmallVector<Value> sum = {e.zeros()};
    sum = e.loop(e.c(0), e.c(cache.headDim), 1, sum, [&](Ix d, ValueRange partial) {
      Value key = emitWiden(e, e.vload(in.elements, keys + d * lanes));
      return SmallVector<Value>{e.fma(e.broadcast(e.load(in.query.memory, queryStart + d)), key, partial[0])};
    });
    if (cache.hasScales())
      sum[0] = e.mul(sum[0], loadScales(e, cache, in.elements, blockKeys, tile % tilesPerBlock, /*ofValues=*/false));
    Value scores = e.mul(sum[0], e.splat(e.vector(e.getF32Type()), shape.scale));
    scores = selectKeys(e, scores, tile * lanes, begin, end);
    e.vstore(scores, scratch, tile * lanes - base);
    return SmallVector<Value>{e.larger(scores, largest[0])};
  });
  Value largest = e.broadcast(emitMaxOfLanes(e, carried[0]));
  carried = e.loop(firstTile, endTile, 1, ValueRange{e.zeros()}, [&](Ix tile, ValueRange sums) {
    Ix at = tile * lanes - base;
    Value weights = emitExp(e, e.sub(e.vload(scratch, at), largest));
    e.vstore(weights, scratch, at);
    return SmallVector<Value>{e.add(sums[0], weights)};
  });
  Value sum = e.broadcast(emitSumOfLanes(e, carried[0]));
  forHead(e, cache.headDim, [&](Ix i, Value mask) {
    SmallVector<Value> weighted = e.loop(begin, end, 1, ValueRange{e.zeros()}, [&](Ix position, ValueRange partial) {
      Ix keys = in.keysOf(e, sequence, position / blockSize, kvHead), inBlock = position % blockSize;
      Ix values = keys + cache.keyElements() + inBlock * cache.paddedHeadDim() + i;
      Value weight = e.load(scratch, position - base);
      if (cache.hasScales()) {
        Value bytes = e.vload(in.elements, keys + cache.scaleStart(/*ofValues=*/true) + inBlock * 4, 4);
        Value scale = vector::BitCastOp::create(e, e.vector(e.getF32Type(), 1), bytes);
        weight = e.mul(weight, vector::ExtractOp::create(e, scale, ArrayRef<int64_t>{0}));
      }
      weight = e.broadcast(weight);
      return SmallVector<Value>{e.fma(weight, emitWiden(e, e.vload(in.elements, values)), partial[0])};
    });
    Value output = e.div(weighted[0], sum);
    Ix at = token * in.result.stride + head * cache.headDim + i;
    if (mask)
      e.maskedStore(output, in.result.memory, at, mask);
    else
      e.vstore(output, in.result.memory, at);
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Tiled
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Positions in scratch memory of a tile of queries: what is kept for each of
/// them.
struct TileMemory {
  int64_t width, queries, accumulators, totals, scores, state, partials;

  /// `count` queries of `width` floats.
  TileMemory(int64_t count, int64_t width) : width(width) {
    queries = 0;
    accumulators = queries + count * width;
    totals = accumulators + count * width;
    scores = totals + count * width;
    state = scores + count * blockSize;
    partials = llvm::alignTo(state + count * stateFloats, lanes);
  }
  /// Running maximum and sum of a split, then of all splits.
  static constexpr int64_t stateFloats = 4;
  /// Floats of one query's split that is folded later: accumulator, maximum and sum, whole cache lines.
  int64_t partial() const { return width + lanes; }
};

class TiledAttention : public AttentionEmitter {
public:
  int64_t scratchFloats(const AttentionShape &shape, const Cache &cache, int64_t maxContext) const override {
    int64_t group = shape.heads / cache.kvHeads;
    TileMemory memory(rowsPerTile(shape, cache) * group, cache.paddedHeadDim());
    int64_t splits = llvm::divideCeil(maxContext, INGOT_RT_ATTENTION_SPLIT);
    return memory.partials + fewUnits * splits * group * memory.partial();
  }

  void emit(Emitter &e, Kernels &kernels, const AttentionShape &shape, const Batch &batch, const Cache &cache,
            Rows query, Rows result, const Worker &worker) const override;

private:
  /// With fewer (sequence, kv head) pairs for each worker than this, splits are shared out instead of pairs.
  static constexpr int64_t fewUnits = 2;
  /// Tokens whose heads form a tile: a power of two that divides the block.
  static int64_t rowsPerTile(const AttentionShape &shape, const Cache &cache) {
    int64_t group = shape.heads / cache.kvHeads;
    return std::min<int64_t>(llvm::bit_floor(static_cast<uint64_t>(std::max<int64_t>(64 / group, 1))), blockSize);
  }
};

/// Emits the functions of one shape.
struct TiledEmitter {
  Emitter &e;
  Kernels &kernels;
  const AttentionShape &shape;
  const Cache &cache;
  Value scratch;
  int64_t group, rowsPerTile;
  TileMemory memory;

  TiledEmitter(Emitter &e, Kernels &kernels, const AttentionShape &shape, const Cache &cache, Value scratch,
               int64_t rowsPerTile)
      : e(e), kernels(kernels), shape(shape), cache(cache), scratch(scratch), group(shape.heads / cache.kvHeads),
        rowsPerTile(rowsPerTile), memory(rowsPerTile * group, cache.paddedHeadDim()) {}

  Ix state(Ix query, int64_t field) { return query * TileMemory::stateFloats + (memory.state + field); }
  void forWidth(function_ref<void(Ix)> body) { e.loop(e.c(0), e.c(memory.width), lanes, body); }
  void forGroup(function_ref<void(Ix)> body) { e.loop(e.c(0), e.c(group), 1, body); }

  // A block.
  void cutGroup(function_ref<void(int64_t, Ix)> body);
  void cutQueries(Ix queries, function_ref<void(int64_t, Ix)> body);
  void score(int64_t rows, int64_t panels, Value elements, Ix keys, Ix query, Ix tile, Ix ahead);
  void weigh(int64_t rows, Value elements, Ix keys, Ix query, Ix keyBegin, Ix keyEnd, Ix ahead);
  void softmax(Value elements, Ix keys, Ix query, Ix keyBegin, Ix keyEnd, bool whole);
  void callSoftmax(Value elements, Ix keys, Ix query, Ix keyBegin, Ix keyEnd);
  void oneRow(Value elements, Ix keys, Ix next, Ix keyBegin, Ix keyEnd);
  void manyRows(Value elements, Ix keys, Ix start, Ix firstPosition, Ix rows);

  // A tile.
  void startTile(const AttentionArguments &in, Ix firstToken, Ix queries, Ix kvHead);
  void startSplit(Ix queries);
  void split(const AttentionArguments &in, Ix sequence, Ix firstPosition, Ix rows, Ix kvHead, IndexRange blocks);
  void startTotals(Ix query);
  void fold(Ix query, Value source, Ix accumulator, Ix maximum);
  void finish(const AttentionArguments &in, Ix token, Ix query, Ix head);
  void tile(const AttentionArguments &in, Ix sequence, Ix firstToken, Ix firstPosition, Ix rows, Ix kvHead);
  void shareTiles(const AttentionArguments &in);

  // Splits that are shared out.
  struct SplitOf {
    Ix sequence, token, kvHead, number;
    /// Its number among all splits, its blocks, and how many blocks all splits before it have.
    Ix item;
    IndexRange blocks;
    Ix before;
  };
  Value oneTokenEach(const AttentionArguments &in);
  Ix forSplits(const AttentionArguments &in, function_ref<void(const SplitOf &)> body);
  Ix partialOf(const AttentionArguments &in, Ix item, Ix query);
  void shareSplits(const AttentionArguments &in);
};
} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// A block
//===--------------------------------------------------------------------------------------------------------------===//

/// Bytes of the cache ahead of what one row reads that it prefetches: a quarter of a level 1 cache.
static constexpr int64_t aheadBytes = 8192;

/// The queries of one row, in as few register tiles as hold them, of about the same size.
void TiledEmitter::cutGroup(function_ref<void(int64_t, Ix)> body) {
  int64_t most = kernels.rowsApart(), tiles = llvm::divideCeil(group, most);
  int64_t size = llvm::divideCeil(group, tiles), whole = group / size * size;
  e.loop(e.c(0), e.c(whole), size, [&](Ix query) { body(size, query); });
  if (whole < group)
    body(group - whole, e.c(whole));
}

/// The queries of many rows, greedily.
void TiledEmitter::cutQueries(Ix queries, function_ref<void(int64_t, Ix)> body) {
  Ix begin = e.c(0);
  for (Tile size : kernels.tiles()) {
    if (size.rows > kernels.rowsApart())
      continue;
    Ix end = size.rows == 1 ? queries : begin + (queries - begin) / size.rows * size.rows;
    e.loop(begin, end, size.rows, [&](Ix query) { body(size.rows, query); });
    begin = end;
  }
}

/// Products of `rows` queries with the keys of `panels` tiles from `tile` on. `ahead`: elements to what is prefetched,
/// or none.
void TiledEmitter::score(int64_t rows, int64_t panels, Value elements, Ix keys, Ix query, Ix tile, Ix ahead) {
  Kernels::MicroKernel product;
  product.element = cache.element;
  product.rows = rows;
  product.panels = panels;
  product.ahead = ahead.value;
  Ix keyTile = e.c(cache.headDim * lanes);
  kernels.product(e, product, scratch, query * memory.width + memory.queries, e.c(memory.width), elements,
                  keys + keyTile * tile, keyTile, e.c(cache.headDim), scratch,
                  query * blockSize + tile * lanes + memory.scores, e.c(blockSize), e.c(lanes));
}

/// Adds the weighted values of the keys [keyBegin, keyEnd) to the accumulators of `rows` queries.
void TiledEmitter::weigh(int64_t rows, Value elements, Ix keys, Ix query, Ix keyBegin, Ix keyEnd, Ix ahead) {
  Kernels::MicroKernel product;
  product.element = cache.element;
  product.rows = rows;
  product.accumulate = true;
  product.weightStride = memory.width;
  product.ahead = ahead.value;
  product.aheadInOrder = static_cast<bool>(ahead.value);
  Ix values = keys + cache.keyElements() + keyBegin * memory.width;
  Ix target = query * memory.width + memory.accumulators, weights = query * blockSize + keyBegin + memory.scores;
  int64_t panels = memory.width / lanes, most = kernels.panelsOf(rows), wide = panels / most * most;
  auto part = [&](int64_t size, int64_t begin, int64_t end) {
    product.panels = size;
    e.loop(e.c(begin), e.c(end), size, [&](Ix panel) {
      // Each panel takes its share of a tile of 16 positions.
      if (ahead.value)
        product.ahead = ahead + panel * (lanes * (lanes - 1));
      kernels.product(e, product, scratch, weights, e.c(blockSize), elements, values + panel * lanes, e.c(lanes),
                      keyEnd - keyBegin, scratch, target + panel * lanes, e.c(memory.width), e.c(lanes));
    });
  };
  if (wide > 0)
    part(most, 0, wide);
  if (wide < panels)
    part(1, wide, panels);
}

/// Scores become weights in place; the running maximum, sum and accumulator of
/// the query follow. `whole`: the query sees all keys of the block.
void TiledEmitter::softmax(Value elements, Ix keys, Ix query, Ix keyBegin, Ix keyEnd, bool whole) {
  Value largest, sum;
  SmallVector<Value> parts;
  Ix scores = query * blockSize + memory.scores;
  for (int64_t t = 0; t < tilesPerBlock; ++t) {
    Value part = e.vload(scratch, scores + t * lanes);
    if (cache.hasScales())
      part = e.mul(part, loadScales(e, cache, elements, keys, e.c(t), /*ofValues=*/false));
    part = e.mul(part, e.splat(e.vector(e.getF32Type()), shape.scale));
    if (!whole)
      part = selectKeys(e, part, e.c(t * lanes), keyBegin, keyEnd);
    largest = largest ? e.larger(part, largest) : part;
    parts.push_back(part);
  }
  Value before = e.load(scratch, state(query, 0)), sumBefore = e.load(scratch, state(query, 1));
  Value now = e.larger(emitMaxOfLanes(e, largest), before);
  Value nowLanes = e.broadcast(now);
  for (int64_t t = 0; t < tilesPerBlock; ++t) {
    parts[t] = emitExpOfNegative(e, e.sub(parts[t], nowLanes));
    // What a value is multiplied by has its scale; the sum of weights does not. Lanes outside the keys are never read.
    Value weight = parts[t];
    if (cache.hasScales())
      weight = e.mul(weight, loadScales(e, cache, elements, keys, e.c(t), /*ofValues=*/true));
    e.vstore(weight, scratch, scores + t * lanes);
  }
  static_assert(tilesPerBlock == 4, "the sum of a block is a tree of four vectors");
  sum = emitSumOfLanes(e, e.add(e.add(parts[0], parts[1]), e.add(parts[2], parts[3])));
  e.store(now, scratch, state(query, 0));
  // An unchanged maximum would multiply by exactly one.
  e.when(
      e.compare(arith::CmpFPredicate::OGT, now, before),
      [&] {
        Value factor = emitExpOfNegative(e, e.broadcast(e.sub(before, now)));
        // Of one lane, so that the scalars are in step with the accumulator's lanes.
        Value scalar = vector::ExtractOp::create(e, factor, ArrayRef<int64_t>{0});
        e.store(e.fma(sumBefore, scalar, sum), scratch, state(query, 1));
        Ix row = query * memory.width + memory.accumulators;
        forWidth([&](Ix i) { e.vstore(e.mul(e.vload(scratch, row + i), factor), scratch, row + i); });
      },
      [&] { e.store(e.add(sumBefore, sum), scratch, state(query, 1)); });
}

void TiledEmitter::callSoftmax(Value elements, Ix keys, Ix query, Ix keyBegin, Ix keyEnd) {
  kernels.call(e, nameOf("attention_softmax", shape, cache), {scratch, elements, keys, query, keyBegin, keyEnd},
               [&](Emitter &f, ValueRange a) {
                 TiledEmitter inner(f, kernels, shape, cache, a[0], rowsPerTile);
                 Ix begin = f.ix(a[4]), end = f.ix(a[5]);
                 auto softmax = [&](bool whole) { inner.softmax(a[1], f.ix(a[2]), f.ix(a[3]), begin, end, whole); };
                 f.when(end - begin == f.c(blockSize), [&] { softmax(true); }, [&] { softmax(false); });
               });
}

/// A block for the queries of one row, which see its keys [keyBegin, keyEnd): bound by the reads of the cache. What is
/// `aheadBytes` ahead of what is read is prefetched; at the end that is the block whose keys are at `next`.
void TiledEmitter::oneRow(Value elements, Ix keys, Ix next, Ix keyBegin, Ix keyEnd) {
  auto panelsOf = [&](int64_t rows) { return std::min(kernels.panelsOf(rows), tilesPerBlock); };
  int64_t tileBytes = cache.headDim * lanes * cache.element.getIntOrFloatBitWidth() / 8;
  auto tilesAhead = [&](int64_t rows) { return std::clamp(aheadBytes / tileBytes, panelsOf(rows), tilesPerBlock); };
  cutGroup([&](int64_t rows, Ix query) {
    int64_t panels = panelsOf(rows);
    Ix begin = keyBegin / (lanes * panels) * panels, end = ((keyEnd + (lanes - 1)) / lanes).roundUp(panels);
    Ix ahead = e.c(tilesAhead(rows) * cache.headDim * lanes);
    e.loop(begin, end, panels, [&](Ix tile) { score(rows, panels, elements, keys, query, tile, ahead); });
  });
  forGroup([&](Ix query) { callSoftmax(elements, keys, query, keyBegin, keyEnd); });
  cutGroup([&](int64_t rows, Ix query) {
    // The products with keys have prefetched so many values.
    int64_t known = tilesAhead(rows) * lanes;
    // Panels of a few keys at a time, so that a page of values is read as a whole.
    Ix later = next - (keys + (cache.keyElements() + (blockSize - known) * memory.width));
    e.loop(keyBegin / lanes, (keyEnd + (lanes - 1)) / lanes, 1, [&](Ix tile) {
      Ix ahead = e.select(tile < e.c((blockSize - known) / lanes), e.c(known * memory.width), later);
      weigh(rows, elements, keys, query, e.max(keyBegin, tile * lanes), e.min(keyEnd, (tile + 1) * lanes), ahead);
    });
  });
}

/// A block, whose first key stands at position `start`, for the queries of `rows` rows: bound by arithmetic, a tile of
/// keys or a panel of values stays in the level 1 cache for all of them.
void TiledEmitter::manyRows(Value elements, Ix keys, Ix start, Ix firstPosition, Ix rows) {
  // The keys [beginOf(row), endOf(row)) are a row's; it has some in every block but those before its window.
  auto beginOf = [&](Ix row) {
    return e.min(e.saturatingSub(firstKey(e, shape, firstPosition + row), start), e.c(blockSize));
  };
  auto endOf = [&](Ix row) { return e.min(firstPosition + row + 1 - start, e.c(blockSize)); };
  Ix queries = rows * group, firstBegin = beginOf(e.c(0)), lastEnd = endOf(rows - 1);
  e.loop(firstBegin / lanes, (lastEnd + (lanes - 1)) / lanes, 1, [&](Ix tile) {
    cutQueries(queries, [&](int64_t size, Ix query) { score(size, 1, elements, keys, query, tile, {}); });
  });
  e.loop(e.c(0), rows, 1, [&](Ix row) {
    Ix begin = beginOf(row), end = endOf(row);
    e.when(begin < end,
           [&] { forGroup([&](Ix query) { callSoftmax(elements, keys, row * group + query, begin, end); }); });
  });
  // All rows see the keys [commonBegin, commonEnd).
  Ix commonBegin = beginOf(rows - 1), commonEnd = e.max(commonBegin, endOf(e.c(0)));
  auto others = [&](function_ref<IndexRange(Ix)> keysOf) {
    e.loop(e.c(0), rows, 1, [&](Ix row) {
      IndexRange own = keysOf(row);
      e.when(own.begin < own.end, [&] {
        cutGroup(
            [&](int64_t size, Ix query) { weigh(size, elements, keys, row * group + query, own.begin, own.end, {}); });
      });
    });
  };
  if (shape.window)
    e.when(firstBegin < commonBegin,
           [&] { others([&](Ix row) { return IndexRange{beginOf(row), e.min(endOf(row), commonBegin)}; }); });
  e.when(commonBegin < commonEnd, [&] {
    cutQueries(queries,
               [&](int64_t size, Ix query) { weigh(size, elements, keys, query, commonBegin, commonEnd, {}); });
  });
  e.when(commonEnd < lastEnd,
         [&] { others([&](Ix row) { return IndexRange{e.max(commonEnd, beginOf(row)), endOf(row)}; }); });
}

//===--------------------------------------------------------------------------------------------------------------===//
// A tile of queries
//===--------------------------------------------------------------------------------------------------------------===//

/// Copies one kv head's queries of consecutive tokens.
void TiledEmitter::startTile(const AttentionArguments &in, Ix firstToken, Ix queries, Ix kvHead) {
  e.loop(e.c(0), queries, 1, [&](Ix query) {
    Ix token = firstToken + query / group, head = kvHead * group + query % group;
    Ix from = token * in.query.stride + head * cache.headDim, to = query * memory.width + memory.queries;
    forHead(e, cache.headDim, [&](Ix i, Value mask) {
      Value x = mask ? e.maskedLoad(in.query.memory, from + i, mask) : e.vload(in.query.memory, from + i);
      e.vstore(x, scratch, to + i);
    });
  });
}

void TiledEmitter::startSplit(Ix queries) {
  e.loop(e.c(0), queries, 1, [&](Ix query) {
    e.store(e.f32(-INFINITY), scratch, state(query, 0));
    e.store(e.f32(0), scratch, state(query, 1));
    Ix row = query * memory.width + memory.accumulators;
    forWidth([&](Ix i) { e.vstore(e.zeros(), scratch, row + i); });
  });
}

/// The blocks, which lie in one split, for all rows of a tile.
void TiledEmitter::split(const AttentionArguments &in, Ix sequence, Ix firstPosition, Ix rows, Ix kvHead,
                         IndexRange blocks) {
  e.loop(blocks, [&](Ix number) {
    Ix keys = in.keysOf(e, sequence, number, kvHead), start = number * blockSize;
    e.when(
        rows == e.c(1),
        [&] {
          Ix next = in.keysOf(e, sequence, e.min(number + 1, blocks.end - 1), kvHead);
          Ix keyBegin = e.saturatingSub(firstKey(e, shape, firstPosition), start);
          Ix keyEnd = e.min(firstPosition + 1 - start, e.c(blockSize));
          kernels.call(e, nameOf("attention_row", shape, cache), {scratch, in.elements, keys, next, keyBegin, keyEnd},
                       [&](Emitter &f, ValueRange a) {
                         TiledEmitter inner(f, kernels, shape, cache, a[0], rowsPerTile);
                         inner.oneRow(a[1], f.ix(a[2]), f.ix(a[3]), f.ix(a[4]), f.ix(a[5]));
                       });
        },
        [&] {
          kernels.call(e, nameOf("attention_rows", shape, cache),
                       {scratch, in.elements, keys, start, firstPosition, rows}, [&](Emitter &f, ValueRange a) {
                         TiledEmitter inner(f, kernels, shape, cache, a[0], rowsPerTile);
                         inner.manyRows(a[1], f.ix(a[2]), f.ix(a[3]), f.ix(a[4]), f.ix(a[5]));
                       });
        });
  });
}

/// No splits are folded yet.
void TiledEmitter::startTotals(Ix query) {
  forWidth([&](Ix i) { e.vstore(e.zeros(), scratch, query * memory.width + memory.totals + i); });
  e.store(e.f32(-INFINITY), scratch, state(query, 2));
  e.store(e.f32(0), scratch, state(query, 3));
}

/// Adds a split's sums to those of the splits before it: `source` holds its accumulator, and its maximum followed by
/// its sum. A split without a key of the query changes nothing.
void TiledEmitter::fold(Ix query, Value source, Ix accumulator, Ix maximum) {
  Value part = e.load(source, maximum), before = e.load(scratch, state(query, 2));
  e.when(e.compare(arith::CmpFPredicate::OGT, part, e.f32(-INFINITY)), [&] {
    Value now = e.larger(part, before);
    Value oldFactor = emitExpOfNegative(e, e.broadcast(e.sub(before, now)));
    Value newFactor = emitExpOfNegative(e, e.broadcast(e.sub(part, now)));
    auto combine = [&](Value old, Value add, Value oldScale, Value newScale) {
      return e.fma(old, oldScale, e.mul(add, newScale));
    };
    Ix to = query * memory.width + memory.totals;
    forWidth([&](Ix i) {
      Value sum = combine(e.vload(scratch, to + i), e.vload(source, accumulator + i), oldFactor, newFactor);
      e.vstore(sum, scratch, to + i);
    });
    auto first = [&](Value v) -> Value { return vector::ExtractOp::create(e, v, ArrayRef<int64_t>{0}); };
    Value sum =
        combine(e.load(scratch, state(query, 3)), e.load(source, maximum + 1), first(oldFactor), first(newFactor));
    e.store(sum, scratch, state(query, 3));
    e.store(now, scratch, state(query, 2));
  });
}

/// The result of a query all of whose splits are folded.
void TiledEmitter::finish(const AttentionArguments &in, Ix token, Ix query, Ix head) {
  Ix from = query * memory.width + memory.totals, to = token * in.result.stride + head * cache.headDim;
  Value sum = e.broadcast(e.load(scratch, state(query, 3)));
  forHead(e, cache.headDim, [&](Ix i, Value mask) {
    Value output = e.div(e.vload(scratch, from + i), sum);
    if (mask)
      e.maskedStore(output, in.result.memory, to + i, mask);
    else
      e.vstore(output, in.result.memory, to + i);
  });
}

static constexpr int64_t blocksPerSplit = INGOT_RT_ATTENTION_SPLIT / blockSize;

/// One kv head's queries of `rows` consecutive tokens.
void TiledEmitter::tile(const AttentionArguments &in, Ix sequence, Ix firstToken, Ix firstPosition, Ix rows,
                        Ix kvHead) {
  Ix queries = rows * group;
  startTile(in, firstToken, queries, kvHead);
  e.loop(e.c(0), queries, 1, [&](Ix query) { startTotals(query); });
  Ix firstBlock = firstKey(e, shape, firstPosition) / blockSize;
  Ix endBlock = (firstPosition + rows - 1) / blockSize + 1;
  e.loop(firstBlock / blocksPerSplit, (endBlock - 1) / blocksPerSplit + 1, 1, [&](Ix number) {
    startSplit(queries);
    split(in, sequence, firstPosition, rows, kvHead,
          {e.max(firstBlock, number * blocksPerSplit), e.min(endBlock, (number + 1) * blocksPerSplit)});
    e.loop(e.c(0), queries, 1,
           [&](Ix query) { fold(query, scratch, query * memory.width + memory.accumulators, state(query, 0)); });
  });
  e.loop(e.c(0), queries, 1,
         [&](Ix query) { finish(in, firstToken + query / group, query, kvHead * group + query % group); });
}

/// Tiles lie at absolute positions that are multiples of their rows; workers
/// take (tile, kv head) in turn, which spreads the growing work of a causal
/// mask.
void TiledEmitter::shareTiles(const AttentionArguments &in) {
  SmallVector<Value> number = {e.c(0)};
  e.loop(e.c(0), in.batch.sequenceCount, 1, number, [&](Ix sequence, ValueRange outer) {
    Ix first = e.toIndex(e.load(in.batch.queryStarts, sequence));
    Ix count = e.toIndex(e.load(in.batch.queryStarts, sequence + 1)) - first;
    // A sequence without tokens has no positions to read.
    Ix begin = e.c(0), end = e.c(0);
    auto guarded = e.loop(e.c(0), e.min(count, e.c(1)), 1, ValueRange{begin, end}, [&](Ix, ValueRange) {
      Ix position = e.toIndex(e.load(in.batch.positions, first));
      return SmallVector<Value>{position, position + count};
    });
    begin = e.ix(guarded[0]);
    end = e.ix(guarded[1]);
    return e.loop(begin / rowsPerTile, (end + (rowsPerTile - 1)) / rowsPerTile, 1, outer, [&](Ix at, ValueRange inner) {
      Ix from = e.max(begin, at * rowsPerTile), to = e.min(end, (at + 1) * rowsPerTile);
      return e.loop(e.c(0), e.c(cache.kvHeads), 1, inner, [&](Ix kvHead, ValueRange item) {
        e.when(e.ix(item[0]) % in.worker.count == in.worker.id,
               [&] { tile(in, sequence, first + (from - begin), from, to - from, kvHead); });
        return SmallVector<Value>{e.ix(item[0]) + 1};
      });
    });
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Few sequences of one token: splits are shared out
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether each sequence has one token in this step.
Value TiledEmitter::oneTokenEach(const AttentionArguments &in) {
  SmallVector<Value> others = {e.c(0)};
  others = e.loop(e.c(0), in.batch.sequenceCount, 1, others, [&](Ix sequence, ValueRange count) {
    Ix first = e.toIndex(e.load(in.batch.queryStarts, sequence));
    Ix end = e.toIndex(e.load(in.batch.queryStarts, sequence + 1));
    return SmallVector<Value>{e.ix(count[0]) + e.select(end == first + 1, e.c(0), e.c(1))};
  });
  return e.ix(others[0]) == e.c(0);
}

/// Calls `body` for each split of each pair of a sequence and a kv head; returns how many blocks they have.
Ix TiledEmitter::forSplits(const AttentionArguments &in, function_ref<void(const SplitOf &)> body) {
  SmallVector<Value> counts = {e.c(0), e.c(0)};
  counts = e.loop(e.c(0), in.batch.sequenceCount, 1, counts, [&](Ix sequence, ValueRange outer) {
    Ix token = e.toIndex(e.load(in.batch.queryStarts, sequence));
    Ix position = e.toIndex(e.load(in.batch.positions, token));
    Ix firstBlock = firstKey(e, shape, position) / blockSize, endBlock = position / blockSize + 1;
    return e.loop(e.c(0), e.c(cache.kvHeads), 1, outer, [&](Ix kvHead, ValueRange middle) {
      return e.loop(firstBlock / blocksPerSplit, (endBlock - 1) / blocksPerSplit + 1, 1, middle,
                    [&](Ix number, ValueRange inner) {
                      SplitOf split{sequence, token, kvHead, number, e.ix(inner[0]), {}, e.ix(inner[1])};
                      split.blocks = {e.max(firstBlock, number * blocksPerSplit),
                                      e.min(endBlock, (number + 1) * blocksPerSplit)};
                      body(split);
                      return SmallVector<Value>{split.item + 1, split.before + (split.blocks.end - split.blocks.begin)};
                    });
    });
  });
  return e.ix(counts[1]);
}

/// Where a query's part of a split lies in the workers' scratch memory, whoever computes it.
Ix TiledEmitter::partialOf(const AttentionArguments &in, Ix item, Ix query) {
  Ix workers = in.worker.count;
  return item % workers * in.worker.sharedStride + (item / workers * group + query) * memory.partial() +
         memory.partials;
}

/// A worker takes the splits whose middle lies in its share of all blocks and leaves their sums in scratch memory; then
/// heads are shared out, each of which folds its splits in the order of positions, as one worker alone would have.
void TiledEmitter::shareSplits(const AttentionArguments &in) {
  Ix workers = in.worker.count, self = in.worker.id;
  Ix total = forSplits(in, [](const SplitOf &) {});
  forSplits(in, [&](const SplitOf &of) {
    Ix twiceMiddle = of.before * 2 + (of.blocks.end - of.blocks.begin);
    e.when(twiceMiddle * workers / (total * 2) == self, [&] {
      startTile(in, of.token, e.c(group), of.kvHead);
      startSplit(e.c(group));
      split(in, of.sequence, e.toIndex(e.load(in.batch.positions, of.token)), e.c(1), of.kvHead, of.blocks);
      forGroup([&](Ix query) {
        Ix from = query * memory.width + memory.accumulators, to = partialOf(in, of.item, query);
        forWidth([&](Ix i) { e.vstore(e.vload(scratch, from + i), in.worker.shared, to + i); });
        e.store(e.load(scratch, state(query, 0)), in.worker.shared, to + memory.width);
        e.store(e.load(scratch, state(query, 1)), in.worker.shared, to + (memory.width + 1));
      });
    });
  });
  kernels.barrier(e, in.worker.barrier, self);
  // The first and the last split of a head are where its fold begins and ends.
  forSplits(in, [&](const SplitOf &of) {
    Ix position = e.toIndex(e.load(in.batch.positions, of.token));
    Value first = of.number == firstKey(e, shape, position) / INGOT_RT_ATTENTION_SPLIT;
    Value last = of.number == position / INGOT_RT_ATTENTION_SPLIT;
    forGroup([&](Ix query) {
      Ix head = of.kvHead * group + query;
      e.when((of.sequence * shape.heads + head) % workers == self, [&] {
        e.when(first, [&] { startTotals(query); });
        Ix at = partialOf(in, of.item, query);
        fold(query, in.worker.shared, at, at + memory.width);
        e.when(last, [&] { finish(in, of.token, query, head); });
      });
    });
  });
}

void TiledAttention::emit(Emitter &e, Kernels &kernels, const AttentionShape &shape, const Batch &batch,
                          const Cache &cache, Rows query, Rows result, const Worker &worker) const {
  kernels.call(e, nameOf("attention_tiled", shape, cache), argumentsOf(batch, cache, query, result, worker),
               [&](Emitter &f, ValueRange a) {
                 AttentionArguments in(f, cache, a);
                 TiledEmitter emitter(f, kernels, shape, in.cache, in.worker.scratch, rowsPerTile(shape, cache));
                 Value few = in.batch.sequenceCount * cache.kvHeads < in.worker.count * fewUnits;
                 // One worker folds as it goes.
                 Value several = f.c(1) < in.worker.count;
                 Value split =
                     arith::AndIOp::create(f, arith::AndIOp::create(f, few, several), emitter.oneTokenEach(in));
                 f.when(split, [&] { emitter.shareSplits(in); }, [&] { emitter.shareTiles(in); });
               });
}

std::unique_ptr<AttentionEmitter> createNaiveAttention() { return std::make_unique<NaiveAttention>(); }

std::unique_ptr<AttentionEmitter> createTiledAttention() { return std::make_unique<TiledAttention>(); }

} // namespace ingot::cpu
