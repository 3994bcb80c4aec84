//===- Attention.cpp - Two lowerings of attention behind one interface
//--------------------------------------------===//
//
// See Attention.h. What makes a prefill's row equal a decode's in bits:
// - blocks and splits start at absolute positions; a query visits exactly the
// blocks that hold one of its keys;
// - a block's scores are computed whole, lanes outside the query's keys are
// selected away, and the sum over values runs
//   over the query's keys only;
// - queries that share reads differ in nothing but the registers they stand in.
// The rows of a tile end in one block,
//   which each row visits alone, like those at the start of a window; all other
//   blocks are whole for all rows.
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
  return {batch.positions,  batch.sequences,     batch.queryStarts,      batch.blockTables,
          batch.tokenCount, batch.sequenceCount, batch.blockTableStride, cache.memory,
          cache.layer,      query.memory,        query.stride,           result.memory,
          result.stride,    worker.id,           worker.count,           worker.scratch};
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
    Ix keys = in.keysOf(e, sequence, tile / tilesPerBlock, kvHead) + tile % tilesPerBlock * (cache.headDim * lanes);
    SmallVector<Value> sum = {e.zeros()};
    sum = e.loop(e.c(0), e.c(cache.headDim), 1, sum, [&](Ix d, ValueRange partial) {
      Value key = emitWiden(e, e.vload(in.elements, keys + d * lanes));
      return SmallVector<Value>{e.fma(e.broadcast(e.load(in.query.memory, queryStart + d)), key, partial[0])};
    });
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
      Ix values = in.keysOf(e, sequence, position / blockSize, kvHead) + cache.keyElements() +
                  position % blockSize * cache.paddedHeadDim() + i;
      Value weight = e.broadcast(e.load(scratch, position - base));
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
  int64_t width, queries, accumulators, totals, scores, state;

  /// `count` queries of `width` floats.
  TileMemory(int64_t count, int64_t width) : width(width) {
    queries = 0;
    accumulators = queries + count * width;
    totals = accumulators + count * width;
    scores = totals + count * width;
    state = scores + maxChunk * blockSize;
  }
  /// Queries whose scores are computed together, at most.
  static constexpr int64_t maxChunk = 4;
  /// Running maximum and sum of a split, then of all splits.
  static constexpr int64_t stateFloats = 4;
  int64_t size(int64_t count) const { return state + count * stateFloats; }
};

class TiledAttention : public AttentionEmitter {
public:
  int64_t scratchFloats(const AttentionShape &shape, const Cache &cache, int64_t) const override {
    int64_t count = rowsPerTile(shape, cache) * (shape.heads / cache.kvHeads);
    return TileMemory(count, cache.paddedHeadDim()).size(count);
  }

  void emit(Emitter &e, Kernels &kernels, const AttentionShape &shape, const Batch &batch, const Cache &cache,
            Rows query, Rows result, const Worker &worker) const override;

private:
  /// Tokens whose heads form a tile: a power of two that divides the block.
  static int64_t rowsPerTile(const AttentionShape &shape, const Cache &cache) {
    int64_t group = shape.heads / cache.kvHeads;
    return std::min<int64_t>(llvm::bit_floor(static_cast<uint64_t>(std::max<int64_t>(32 / group, 1))), blockSize);
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

  void tile(const AttentionArguments &in, Ix sequence, Ix firstToken, Ix firstPosition, Ix rows, Ix kvHead);
  void split(const AttentionArguments &in, Ix sequence, Ix firstPosition, Ix rows, Ix kvHead, Ix begin, Ix end);
  void visit(const AttentionArguments &in, Ix keys, Ix queryBegin, Ix queryEnd, Ix keyBegin, Ix keyEnd);
  void block(Value elements, Ix keys, Ix queryBegin, Ix queryEnd, Ix keyBegin, Ix keyEnd);
  void chunk(Tile size, Value elements, Ix keys, Ix query, Ix keyBegin, Ix keyEnd);
  void softmax(Ix query, Ix scores, Ix keyBegin, Ix keyEnd);
  void startSplit(Ix queries);
  void fold(Ix query);
};
} // namespace

/// Scores become weights in place; the running maximum, sum and accumulator of
/// the query follow.
void TiledEmitter::softmax(Ix query, Ix scores, Ix keyBegin, Ix keyEnd) {
  Value largest, sum;
  SmallVector<Value> parts;
  for (int64_t t = 0; t < tilesPerBlock; ++t) {
    Value part = e.mul(e.vload(scratch, scores + t * lanes), e.splat(e.vector(e.getF32Type()), shape.scale));
    part = selectKeys(e, part, e.c(t * lanes), keyBegin, keyEnd);
    largest = largest ? e.larger(part, largest) : part;
    parts.push_back(part);
  }
  Value before = e.load(scratch, state(query, 0));
  Value now = e.larger(emitMaxOfLanes(e, largest), before);
  Value nowLanes = e.broadcast(now);
  for (int64_t t = 0; t < tilesPerBlock; ++t) {
    parts[t] = emitExp(e, e.sub(parts[t], nowLanes));
    e.vstore(parts[t], scratch, scores + t * lanes);
  }
  static_assert(tilesPerBlock == 4, "the sum of a block is a tree of four vectors");
  sum = emitSumOfLanes(e, e.add(e.add(parts[0], parts[1]), e.add(parts[2], parts[3])));
  Value factor = emitExp(e, e.broadcast(e.sub(before, now)));
  // Of one lane, so that the scalars are in step with the accumulator's lanes.
  Value scalar = vector::ExtractOp::create(e, factor, ArrayRef<int64_t>{0});
  e.store(now, scratch, state(query, 0));
  e.store(e.fma(e.load(scratch, state(query, 1)), scalar, sum), scratch, state(query, 1));
  // An unchanged maximum would multiply by exactly one.
  e.when(e.compare(arith::CmpFPredicate::OGT, now, before), [&] {
    Ix row = query * memory.width + memory.accumulators;
    forWidth([&](Ix i) { e.vstore(e.mul(e.vload(scratch, row + i), factor), scratch, row + i); });
  });
}

/// One block for `size.rows` queries: scores of 64 keys, weights, weighted
/// values.
void TiledEmitter::chunk(Tile size, Value elements, Ix keys, Ix query, Ix keyBegin, Ix keyEnd) {
  Kernels::MicroKernel product;
  product.element = cache.element;
  product.rows = size.rows;
  Ix queryStart = query * memory.width + memory.queries, scores = e.c(memory.scores);
  Ix keyTile = e.c(cache.headDim * lanes);
  product.panels = std::min(size.panels, tilesPerBlock);
  for (int64_t t = 0; t < tilesPerBlock; t += product.panels)
    kernels.product(e, product, scratch, queryStart, e.c(memory.width), elements, keys + keyTile * t, keyTile,
                    e.c(cache.headDim), scratch, scores + t * lanes, e.c(blockSize), e.c(lanes));
  e.loop(e.c(0), e.c(size.rows), 1, [&](Ix r) {
    kernels.call(e, nameOf("attention_softmax", shape, cache),
                 {scratch, query + r, scores + r * blockSize, keyBegin, keyEnd}, [&](Emitter &f, ValueRange a) {
                   TiledEmitter inner(f, kernels, shape, cache, a[0], rowsPerTile);
                   inner.softmax(f.ix(a[1]), f.ix(a[2]), f.ix(a[3]), f.ix(a[4]));
                 });
  });
  Ix values = keys + cache.keyElements() + keyBegin * memory.width;
  Ix target = query * memory.width + memory.accumulators;
  product.accumulate = true;
  product.weightStride = memory.width;
  int64_t panels = memory.width / lanes, wide = panels / size.panels * size.panels;
  auto weigh = [&](int64_t width, int64_t begin, int64_t end) {
    product.panels = width;
    e.loop(e.c(begin), e.c(end), width, [&](Ix panel) {
      kernels.product(e, product, scratch, scores + keyBegin, e.c(blockSize), elements, values + panel * lanes,
                      e.c(lanes), keyEnd - keyBegin, scratch, target + panel * lanes, e.c(memory.width), e.c(lanes));
    });
  };
  if (wide > 0)
    weigh(size.panels, 0, wide);
  if (wide < panels)
    weigh(1, wide, panels);
}

/// The block at `keys` for the queries [queryBegin, queryEnd), all of which see
/// its keys [keyBegin, keyEnd).
void TiledEmitter::block(Value elements, Ix keys, Ix queryBegin, Ix queryEnd, Ix keyBegin, Ix keyEnd) {
  Ix begin = queryBegin;
  for (Tile size : kernels.tiles()) {
    if (size.rows > TileMemory::maxChunk)
      continue;
    Ix end = size.rows == 1 ? queryEnd : begin + (queryEnd - begin) / size.rows * size.rows;
    e.loop(begin, end, size.rows, [&](Ix query) { chunk(size, elements, keys, query, keyBegin, keyEnd); });
    begin = end;
  }
}

/// A call of the function that `block` is the body of.
void TiledEmitter::visit(const AttentionArguments &in, Ix keys, Ix queryBegin, Ix queryEnd, Ix keyBegin, Ix keyEnd) {
  kernels.call(e, nameOf("attention_block", shape, cache),
               {scratch, in.elements, keys, queryBegin, queryEnd, keyBegin, keyEnd}, [&](Emitter &f, ValueRange a) {
                 TiledEmitter inner(f, kernels, shape, cache, a[0], rowsPerTile);
                 inner.block(a[1], f.ix(a[2]), f.ix(a[3]), f.ix(a[4]), f.ix(a[5]), f.ix(a[6]));
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

/// Adds a split's sums to those of the splits before it. A split without a key
/// of the query changes nothing.
void TiledEmitter::fold(Ix query) {
  Value part = e.load(scratch, state(query, 0)), before = e.load(scratch, state(query, 2));
  e.when(e.compare(arith::CmpFPredicate::OGT, part, e.f32(-INFINITY)), [&] {
    Value now = e.larger(part, before);
    Value oldFactor = emitExp(e, e.broadcast(e.sub(before, now)));
    Value newFactor = emitExp(e, e.broadcast(e.sub(part, now)));
    auto combine = [&](Value old, Value add, Value oldScale, Value newScale) {
      return e.fma(old, oldScale, e.mul(add, newScale));
    };
    Ix from = query * memory.width + memory.accumulators, to = query * memory.width + memory.totals;
    forWidth([&](Ix i) {
      e.vstore(combine(e.vload(scratch, to + i), e.vload(scratch, from + i), oldFactor, newFactor), scratch, to + i);
    });
    auto first = [&](Value v) -> Value { return vector::ExtractOp::create(e, v, ArrayRef<int64_t>{0}); };
    e.store(
        combine(e.load(scratch, state(query, 3)), e.load(scratch, state(query, 1)), first(oldFactor), first(newFactor)),
        scratch, state(query, 3));
    e.store(now, scratch, state(query, 2));
  });
}

/// The blocks [begin, end), which lie in one split, for all rows of a tile.
void TiledEmitter::split(const AttentionArguments &in, Ix sequence, Ix firstPosition, Ix rows, Ix kvHead, Ix begin,
                         Ix end) {
  Ix lastPosition = firstPosition + rows - 1;
  e.loop(begin, end, 1, [&](Ix number) {
    Ix keys = in.keysOf(e, sequence, number, kvHead), start = number * blockSize;
    Value whole =
        arith::AndIOp::create(e, start + (blockSize - 1) < firstPosition, firstKey(e, shape, lastPosition) <= start);
    e.when(
        whole, [&] { visit(in, keys, e.c(0), rows * group, e.c(0), e.c(blockSize)); },
        [&] {
          e.loop(e.c(0), rows, 1, [&](Ix row) {
            Ix position = firstPosition + row;
            Ix keyBegin = e.saturatingSub(firstKey(e, shape, position), start);
            Ix keyEnd = e.min(e.saturatingSub(position + 1, start), e.c(blockSize));
            e.when(keyBegin < keyEnd, [&] { visit(in, keys, row * group, (row + 1) * group, keyBegin, keyEnd); });
          });
        });
  });
}

/// One kv head's queries of `rows` consecutive tokens.
void TiledEmitter::tile(const AttentionArguments &in, Ix sequence, Ix firstToken, Ix firstPosition, Ix rows,
                        Ix kvHead) {
  Ix queries = rows * group;
  e.loop(e.c(0), queries, 1, [&](Ix query) {
    Ix token = firstToken + query / group, head = kvHead * group + query % group;
    Ix from = token * in.query.stride + head * cache.headDim, to = query * memory.width + memory.queries;
    forHead(e, cache.headDim, [&](Ix i, Value mask) {
      Value x = mask ? e.maskedLoad(in.query.memory, from + i, mask) : e.vload(in.query.memory, from + i);
      e.vstore(x, scratch, to + i);
    });
    forWidth([&](Ix i) { e.vstore(e.zeros(), scratch, query * memory.width + memory.totals + i); });
    e.store(e.f32(-INFINITY), scratch, state(query, 2));
    e.store(e.f32(0), scratch, state(query, 3));
  });
  static constexpr int64_t blocksPerSplit = INGOT_RT_ATTENTION_SPLIT / blockSize;
  Ix firstBlock = firstKey(e, shape, firstPosition) / blockSize;
  Ix endBlock = (firstPosition + rows - 1) / blockSize + 1;
  e.loop(firstBlock / blocksPerSplit, (endBlock - 1) / blocksPerSplit + 1, 1, [&](Ix number) {
    startSplit(queries);
    split(in, sequence, firstPosition, rows, kvHead, e.max(firstBlock, number * blocksPerSplit),
          e.min(endBlock, (number + 1) * blocksPerSplit));
    e.loop(e.c(0), queries, 1, [&](Ix query) { fold(query); });
  });
  e.loop(e.c(0), queries, 1, [&](Ix query) {
    Ix token = firstToken + query / group, head = kvHead * group + query % group;
    Ix from = query * memory.width + memory.totals, to = token * in.result.stride + head * cache.headDim;
    Value sum = e.broadcast(e.load(scratch, state(query, 3)));
    forHead(e, cache.headDim, [&](Ix i, Value mask) {
      Value output = e.div(e.vload(scratch, from + i), sum);
      if (mask)
        e.maskedStore(output, in.result.memory, to + i, mask);
      else
        e.vstore(output, in.result.memory, to + i);
    });
  });
}

/// Tiles lie at absolute positions that are multiples of their rows; workers
/// take (tile, kv head) in turn, which spreads the growing work of a causal
/// mask.
void TiledAttention::emit(Emitter &e, Kernels &kernels, const AttentionShape &shape, const Batch &batch,
                          const Cache &cache, Rows query, Rows result, const Worker &worker) const {
  kernels.call(e, nameOf("attention_tiled", shape, cache), argumentsOf(batch, cache, query, result, worker),
               [&](Emitter &f, ValueRange a) {
                 AttentionArguments in(f, cache, a);
                 int64_t size = rowsPerTile(shape, cache);
                 TiledEmitter emitter(f, kernels, shape, in.cache, in.worker.scratch, size);
                 SmallVector<Value> number = {f.c(0)};
                 f.loop(f.c(0), in.batch.sequenceCount, 1, number, [&](Ix sequence, ValueRange outer) {
                   Ix first = f.toIndex(f.load(in.batch.queryStarts, sequence));
                   Ix count = f.toIndex(f.load(in.batch.queryStarts, sequence + 1)) - first;
                   // A sequence without tokens has no positions to read.
                   Ix begin = f.c(0), end = f.c(0);
                   auto guarded = f.loop(f.c(0), f.min(count, f.c(1)), 1, ValueRange{begin, end}, [&](Ix, ValueRange) {
                     Ix position = f.toIndex(f.load(in.batch.positions, first));
                     return SmallVector<Value>{position, position + count};
                   });
                   begin = f.ix(guarded[0]);
                   end = f.ix(guarded[1]);
                   return f.loop(begin / size, (end + (size - 1)) / size, 1, outer, [&](Ix tile, ValueRange inner) {
                     Ix from = f.max(begin, tile * size), to = f.min(end, (tile + 1) * size);
                     return f.loop(f.c(0), f.c(cache.kvHeads), 1, inner, [&](Ix kvHead, ValueRange item) {
                       f.when(f.ix(item[0]) % in.worker.count == in.worker.id,
                              [&] { emitter.tile(in, sequence, first + (from - begin), from, to - from, kvHead); });
                       return SmallVector<Value>{f.ix(item[0]) + 1};
                     });
                   });
                 });
               });
}

std::unique_ptr<AttentionEmitter> createNaiveAttention() { return std::make_unique<NaiveAttention>(); }

std::unique_ptr<AttentionEmitter> createTiledAttention() { return std::make_unique<TiledAttention>(); }

} // namespace ingot::cpu
