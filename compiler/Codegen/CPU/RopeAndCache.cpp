//===- RopeAndCache.cpp - Rotary embedding, and writing keys and values
//-------------------------------------------===//
//
// Cosines and sines are computed once a step for each token, the products
// follow the reference's rounding: x cos and y sin are rounded before they are
// added. Keys are stored transposed, [d][16 positions], for attention's sake.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/VectorMath.h"
#include "ingot_rt/abi.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace ingot::cpu;

namespace {
/// One head on its way from the product to where it is used.
struct Head {
  /// Where it is read, and where the rotated head goes.
  Value source;
  Ix from;
  Value target;
  Ix to;
  /// The token's cosines, in the rotary's table.
  Ix angles;
  /// memref of head_dim weights and the factor 1/rms in all lanes, or null
  /// without norm.
  Value weight, factor;
};
} // namespace

/// Lanes at `at` of a head, normed if the head has a norm.
static Value loadHead(Emitter &e, const Head &head, Ix at, int64_t count, int64_t width) {
  Value mask = count < width ? e.maskBelow(e.c(count), width) : Value();
  Value x = mask ? e.maskedLoad(head.source, head.from + at, mask) : e.vload(head.source, head.from + at, width);
  if (!head.weight)
    return x;
  Value weight = mask ? e.maskedLoad(head.weight, at, mask) : e.vload(head.weight, at, width);
  Value factor =
      width == lanes
          ? head.factor
          : Value(vector::BroadcastOp::create(e, e.vector(e.getF32Type(), width),
                                              vector::ExtractOp::create(e, head.factor, ArrayRef<int64_t>{0})));
  return e.mul(e.mul(x, factor), weight);
}

static void storeHead(Emitter &e, Value value, const Head &head, Ix at, int64_t count) {
  int64_t width = cast<VectorType>(value.getType()).getNumElements();
  if (count < width)
    e.maskedStore(value, head.target, head.to + at, e.maskBelow(e.c(count), width));
  else
    e.vstore(value, head.target, head.to + at);
}

/// Rotates `count` pairs (at most 16) from pair `at` on.
static void rotatePairs(Emitter &e, const Rotary &rotary, const Head &head, Ix at, int64_t count) {
  Ix half = e.c(rotary.headDim / 2);
  Value cosine = e.vload(rotary.table, head.angles + at);
  Value sine = e.vload(rotary.table, head.angles + Rotary::halfPadded(rotary.headDim) + at);
  Value a, b;
  SmallVector<int64_t> even, odd, both;
  for (int64_t i = 0; i < lanes; ++i) {
    even.push_back(2 * i);
    odd.push_back(2 * i + 1);
    both.append({i, lanes + i});
  }
  if (rotary.interleaved) {
    Value pairs = loadHead(e, head, at * 2, 2 * count, 2 * lanes);
    a = vector::ShuffleOp::create(e, pairs, pairs, even);
    b = vector::ShuffleOp::create(e, pairs, pairs, odd);
  } else {
    a = loadHead(e, head, at, count, lanes);
    b = loadHead(e, head, half + at, count, lanes);
  }
  Value first = e.sub(e.mul(a, cosine), e.mul(b, sine));
  Value second = e.add(e.mul(b, cosine), e.mul(a, sine));
  if (rotary.interleaved) {
    storeHead(e, vector::ShuffleOp::create(e, first, second, both), head, at * 2, 2 * count);
    return;
  }
  storeHead(e, first, head, at, count);
  storeHead(e, second, head, half + at, count);
}

static void rotate(Emitter &e, const Rotary &rotary, const Head &head) {
  int64_t half = rotary.headDim / 2, whole = half / lanes * lanes;
  e.loop(e.c(0), e.c(whole), lanes, [&](Ix i) { rotatePairs(e, rotary, head, i, lanes); });
  if (whole < half)
    rotatePairs(e, rotary, head, e.c(whole), half - whole);
}

/// Sets the norm of a head.
static void normHead(Emitter &e, Head &head, Value weight, Value eps, int64_t headDim) {
  Value factor = emitInverseRms(e, e.c(headDim), eps, [&](Ix i, Value mask) {
    return mask ? e.maskedLoad(head.source, head.from + i, mask) : e.vload(head.source, head.from + i);
  });
  head.weight = weight;
  head.factor = e.broadcast(factor);
}

void Kernels::rotaryTable(Emitter &e, const Batch &batch, const Rotary &rotary, Value frequencies,
                          Value longFrequencies, float scaling, const Worker &worker) {
  int64_t padded = Rotary::halfPadded(rotary.headDim);
  SmallVector<Value> arguments = {batch.positions, batch.tokenCount, rotary.table, frequencies,
                                  e.f32(scaling),  worker.id,        worker.count};
  if (longFrequencies)
    arguments.append({longFrequencies, batch.sequences, batch.regimes});
  std::string name = "rotary_table_" + std::to_string(rotary.headDim) + (longFrequencies ? "_long" : "");
  call(e, name, arguments, [&](Emitter &f, ValueRange a) {
    f.loop(f.share(f.ix(a[1]), f.ix(a[5]), f.ix(a[6])), [&](Ix token) {
      Value position = f.broadcast(arith::SIToFPOp::create(f, f.getF32Type(), f.load(a[0], token)));
      Value scale = f.broadcast(a[4]);
      Value isLong;
      if (longFrequencies) {
        Value regime = f.load(a[9], f.toIndex(f.load(a[8], token)));
        isLong = arith::CmpIOp::create(f, arith::CmpIPredicate::ne, regime, f.i32(0));
      }
      f.loop(f.c(0), f.c(padded), lanes, [&](Ix i) {
        Value frequency = f.vload(a[3], i);
        if (isLong)
          frequency = f.choose(isLong, f.vload(a[7], i), frequency);
        auto [cosine, sine] = emitCosSin(f, f.mul(position, frequency));
        Ix at = token * (2 * padded) + i;
        f.vstore(f.mul(cosine, scale), a[2], at);
        f.vstore(f.mul(sine, scale), a[2], at + padded);
      });
    });
  });
}

void Kernels::rope(Emitter &e, const Rotary &rotary, Rows input, Rows result, Ix heads, Ix rows, const Worker &worker) {
  std::string name = "rope_" + std::to_string(rotary.headDim) + (rotary.interleaved ? "_interleaved" : "");
  call(e, name,
       {rotary.table, input.memory, input.stride, result.memory, result.stride, heads, rows, worker.id, worker.count},
       [&](Emitter &f, ValueRange a) {
         Rotary own = rotary;
         own.table = a[0];
         Ix count = f.ix(a[5]);
         f.loop(f.share(f.ix(a[6]) * count, f.ix(a[7]), f.ix(a[8])), [&](Ix unit) {
           Ix row = unit / count, column = unit % count * rotary.headDim;
           Head head{a[1], row * f.ix(a[2]) + column, a[3], row * f.ix(a[4]) + column, {}, {}, {}};
           head.angles = row * (2 * Rotary::halfPadded(rotary.headDim));
           rotate(f, own, head);
         });
       });
}

//===--------------------------------------------------------------------------------------------------------------===//
// The cache
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Where one head of one token goes in the cache: elements; the scales, if there are any, bytes.
struct Place {
  Ix key, value, keyScale, valueScale;
};
} // namespace

/// The place of head `head` at `slot`; keys lie every 16 elements, values in a
/// row.
static Place placeOf(Emitter &e, const Cache &cache, Ix slot, Ix head) {
  Ix block = slot / INGOT_RT_CACHE_BLOCK, position = slot % INGOT_RT_CACHE_BLOCK;
  Ix start = block * cache.blockElements() + cache.headStart(head);
  return {start + position / lanes * (cache.headDim * lanes) + position % lanes,
          start + cache.keyElements() + position * cache.paddedHeadDim(),
          start + cache.scaleStart(/*ofValues=*/false) + position * 4,
          start + cache.scaleStart(/*ofValues=*/true) + position * 4};
}

/// Stores a head's key or value as integers, `step` elements apart, and their scale: see `!ingot.kv_cache`.
static void storeIntegers(Emitter &e, int64_t headDim, Value source, Ix from, Value memory, Ix to, int64_t step,
                          Ix scaleAt) {
  SmallVector<Value> largest = {e.f32(0)};
  largest = e.loop(e.c(0), e.c(headDim), 1, largest, [&](Ix d, ValueRange carried) {
    return SmallVector<Value>{e.larger(math::AbsFOp::create(e, e.load(source, from + d)), carried[0])};
  });
  Value counts = e.compare(arith::CmpFPredicate::UGE, largest[0], e.f32(0x1p-100f));
  Value scale = e.choose(counts, e.div(largest[0], e.f32(127)), e.f32(0));
  Value inverse = e.choose(counts, e.div(e.f32(127), largest[0]), e.f32(0));
  // Adding 1.5 * 2^23 leaves the nearest integer, ties to even, in the low bits.
  e.loop(e.c(0), e.c(headDim), 1, [&](Ix d) {
    Value shifted = e.add(e.mul(e.load(source, from + d), inverse), e.f32(12582912.0f));
    Value code = arith::TruncIOp::create(e, e.getI8Type(), arith::BitcastOp::create(e, e.getI32Type(), shifted));
    e.store(code, memory, to + d * step);
  });
  Value bytes = vector::BitCastOp::create(e, e.vector(e.getI8Type(), 4), e.broadcast(scale, 1));
  e.vstore(bytes, memory, scaleAt);
}

/// Rounds and stores a head's key and value, read at two positions of two
/// memories.
static void storeInCache(Emitter &e, const Cache &cache, Value memory, Place place, Value key, Ix keyAt, Value value,
                         Ix valueAt) {
  if (cache.hasScales()) {
    storeIntegers(e, cache.headDim, key, keyAt, memory, place.key, lanes, place.keyScale);
    storeIntegers(e, cache.headDim, value, valueAt, memory, place.value, 1, place.valueScale);
    return;
  }
  e.loop(e.c(0), e.c(cache.headDim), 1, [&](Ix d) {
    e.store(emitRound(e, e.load(key, keyAt + d), cache.element), memory, place.key + d * lanes);
    e.store(emitRound(e, e.load(value, valueAt + d), cache.element), memory, place.value + d);
  });
}

static std::string cacheName(const Cache &cache) {
  std::string name;
  llvm::raw_string_ostream(name) << cache.element << "_" << cache.headDim;
  return name;
}

void Kernels::kvAppend(Emitter &e, const Batch &batch, const Cache &cache, Rows key, Rows value, const Worker &worker) {
  call(e, "kv_append_" + cacheName(cache),
       {batch.slots, batch.tokenCount, cache.memory, cache.layer, key.memory, key.stride, value.memory, value.stride,
        worker.id, worker.count},
       [&](Emitter &f, ValueRange a) {
         Cache own = cache;
         own.layer = f.ix(a[3]);
         Value memory = a[2];
         f.loop(f.share(f.ix(a[1]) * cache.kvHeads, f.ix(a[8]), f.ix(a[9])), [&](Ix unit) {
           Ix row = unit / cache.kvHeads, head = unit % cache.kvHeads;
           Place place = placeOf(f, own, f.toIndex(f.load(a[0], row)), head);
           storeInCache(f, own, memory, place, a[4], row * f.ix(a[5]) + head * cache.headDim, a[6],
                        row * f.ix(a[7]) + head * cache.headDim);
         });
       });
}

void Kernels::qkNormRopeAppend(Emitter &e, const Batch &batch, const Cache &cache, const Rotary &rotary, Rows query,
                               Rows key, Rows value, Value queryNorm, Value keyNorm, float eps, Rows result,
                               int64_t heads, const Worker &worker) {
  SmallVector<Value> arguments = {batch.slots,   batch.tokenCount, cache.memory, cache.layer,
                                  rotary.table,  query.memory,     query.stride, key.memory,
                                  key.stride,    value.memory,     value.stride, result.memory,
                                  result.stride, worker.id,        worker.count, worker.scratch};
  if (queryNorm)
    arguments.append({queryNorm, keyNorm, e.f32(eps)});
  std::string name = (queryNorm ? "qk_norm_rope_append_" : "rope_append_") + cacheName(cache) + "_" +
                     std::to_string(heads) + (rotary.interleaved ? "_interleaved" : "");
  call(e, name, arguments, [&](Emitter &f, ValueRange a) {
    Cache own = cache;
    own.layer = f.ix(a[3]);
    Rotary ownRotary = rotary;
    ownRotary.table = a[4];
    Value memory = a[2], scratchMemory = a[15];
    int64_t total = heads + cache.kvHeads;
    f.loop(f.share(f.ix(a[1]) * total, f.ix(a[13]), f.ix(a[14])), [&](Ix unit) {
      Ix row = unit / total, number = unit % total;
      Head head;
      head.angles = row * (2 * Rotary::halfPadded(rotary.headDim));
      f.when(
          number < f.c(heads),
          [&] {
            Ix column = number * cache.headDim;
            head.source = a[5];
            head.from = row * f.ix(a[6]) + column;
            head.target = a[11];
            head.to = row * f.ix(a[12]) + column;
            if (queryNorm)
              normHead(f, head, a[16], a[18], cache.headDim);
            rotate(f, ownRotary, head);
          },
          [&] {
            Ix kvHead = number - heads, column = kvHead * cache.headDim;
            head.source = a[7];
            head.from = row * f.ix(a[8]) + column;
            head.target = scratchMemory;
            head.to = f.c(0);
            head.weight = head.factor = Value();
            if (queryNorm)
              normHead(f, head, a[17], a[18], cache.headDim);
            rotate(f, ownRotary, head);
            Place place = placeOf(f, own, f.toIndex(f.load(a[0], row)), kvHead);
            storeInCache(f, own, memory, place, scratchMemory, f.c(0), a[9], row * f.ix(a[10]) + column);
          });
    });
  });
}
