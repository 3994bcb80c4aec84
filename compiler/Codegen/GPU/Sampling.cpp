//===- Sampling.cpp - Choosing a token from a row of logits -------------------------------------------------------===//
//
// What runtime/src/sampler does, with the same result in bits: a weight of a token is an integer (sampling.h), so that
// sums of weights do not depend on their order, and what is left of equals is decided by their ids. A block chooses the
// token of a row.
//
// Nothing is sorted. Where the sampler's order matters, for top-k and top-p, what is looked for is a boundary: the
// score up to which tokens, least likely first, can be dropped. It is found in four passes over the row, each with a
// histogram of 2048 bins in shared memory: by the distance from the largest score, which spreads tokens well, then by
// 11, 11 and 10 bits of the score, of those in the bin where the boundary was seen. Two more passes find the token at
// which a sum in order of ids reaches a number: the one that is drawn, and the last of those that are left of equals.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/GPU/DeviceKernels.h"
#include "ingot_rt/abi.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <cmath>
#include <cstddef>
#include <iterator>

using namespace mlir;

namespace ingot::gpu {

namespace {

constexpr int64_t samplingThreads = 512, samplingWarps = samplingThreads / warpThreads;
constexpr int64_t binCount = 2048, threadBins = binCount / samplingThreads;
/// Bins for each unit of distance from the largest score; the first one holds all that is farther than the others.
constexpr float binsPerUnit = 64;

/// Emits the body of the kernel. Values named in the plural differ by thread, all others are the block's.
class SamplingKernel {
public:
  explicit SamplingKernel(DeviceEmitter &d);
  void emit();

private:
  // Short words. Integers of 32 and 64 bits are unsigned where it makes a difference.
  Value i64(uint64_t value) { return arith::ConstantIntOp::create(d, static_cast<int64_t>(value), 64); }
  Value sum(Value a, Value b) { return arith::AddIOp::create(d, a, b); }
  Value difference(Value a, Value b) { return arith::SubIOp::create(d, a, b); }
  Value both(Value a, Value b) { return arith::AndIOp::create(d, a, b); }
  Value any(Value a, Value b) { return arith::OrIOp::create(d, a, b); }
  Value is(arith::CmpIPredicate predicate, Value a, Value b) { return arith::CmpIOp::create(d, predicate, a, b); }
  Value isEqual(Value a, Value b) { return is(arith::CmpIPredicate::eq, a, b); }
  Value isBelow(Value a, Value b) { return is(arith::CmpIPredicate::ult, a, b); }
  Value isAtMost(Value a, Value b) { return is(arith::CmpIPredicate::ule, a, b); }
  Value low(Value wide) { return arith::TruncIOp::create(d, d.getI32Type(), wide); }
  Value widen(Value word) { return arith::ExtUIOp::create(d, d.getI64Type(), word); }
  Value truncate(Value x) { return arith::FPToSIOp::create(d, d.getI32Type(), x); }
  /// What `compute` makes where a condition that is the same for all threads holds; else `otherwise`.
  SmallVector<Value> where(Value condition, ValueRange otherwise, function_ref<SmallVector<Value>()> compute);

  /// The i-th word of the row's ingot_rt_sampling.
  Value field(size_t offset) {
    return d.load(d.memory("sampling"), d.block(0) * int64_t(sizeof(ingot_rt_sampling) / 8) + int64_t(offset / 8));
  }
  /// Whether token `i` is in a set of the row.
  Value isIn(ingot_rt_token_set set, Ix i);

  // Of one token.
  Value score(Ix i) { return d.load(d.memory("logits"), rowStart + i); }
  /// An integer with the order of the scores, and the score again.
  Value key(Value score);
  Value scoreOf(Value key);
  Value weight(Value score);
  Value distanceBin(Value score);

  /// The sum of an i64 over the lanes up to the thread's, over the warps before its warp, and over the block. Has a
  /// barrier, and another one has to follow before the next call.
  struct Scan {
    Value inclusive, warpsBefore, total;
  };
  Scan scan(Value mine);
  void publish(Value first, Value second, Value third = {});
  Value published(int64_t i) { return d.load(found, d.c(i)); }

  /// Writes the scores, and finds the largest logit.
  void makeScores();
  struct Boundary {
    Value key, left, inside;
  };
  Boundary boundary(Value isTopP, Value bar, Value droppable);
  Value tokenAt(function_ref<Value(Value, Ix)> measure, function_ref<Value(Value)> target);
  Value choose();

  DeviceEmitter &d;
  Ix n, rowStart;
  DeviceMemory lowSums, highSums, warpSums, found, bestValues, bestIds;
  /// The largest logit's id and value before the temperature, and its score.
  Value bestId, best, temperature, largest;
};

SamplingKernel::SamplingKernel(DeviceEmitter &d) : d(d), n(d.index("n")) {
  rowStart = d.block(0) * d.index("logits_stride");
  // There are few rows: each thread has the registers that it needs.
  d.residentBlocks(1);
  lowSums = d.sharedTile("low sums", d.getI32Type(), binCount);
  highSums = d.sharedTile("high sums", d.getI32Type(), binCount);
  warpSums = d.shared("warp sums", d.getI64Type(), samplingWarps);
  found = d.shared("found", d.getI64Type(), 3);
  bestValues = d.shared("best values", d.getF32Type(), samplingWarps);
  bestIds = d.shared("best ids", d.getI32Type(), samplingWarps);
}

SmallVector<Value> SamplingKernel::where(Value condition, ValueRange otherwise,
                                         function_ref<SmallVector<Value>()> compute) {
  auto branch = scf::IfOp::create(d, otherwise.getTypes(), condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(d);
  d.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(d, compute());
  d.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(d, otherwise);
  return SmallVector<Value>(branch.getResults());
}

Value SamplingKernel::isIn(ingot_rt_token_set set, Ix i) {
  Ix words = d.index("token_set_words");
  Value word = d.load(d.memory("token_sets"), (d.block(0) * INGOT_RT_TOKEN_SETS + set) * words + i / 32);
  return arith::TruncIOp::create(d, d.getI1Type(), arith::ShRUIOp::create(d, word, d.toI32(i % 32)));
}

// The bits of floats above zero are in their order, those below zero in the reverse one. Zeros are equal.
Value SamplingKernel::key(Value score) {
  Value bits = arith::BitcastOp::create(d, d.getI32Type(), d.add(score, d.f32(0)));
  Value sign = arith::ShRSIOp::create(d, bits, d.i32(31));
  return arith::XOrIOp::create(d, bits, any(sign, d.i32(INT32_MIN)));
}

Value SamplingKernel::scoreOf(Value key) {
  Value isNegative = is(arith::CmpIPredicate::sge, key, d.i32(0));
  Value mask = d.choose(isNegative, d.i32(-1), d.i32(INT32_MIN));
  return arith::BitcastOp::create(d, d.getF32Type(), arith::XOrIOp::create(d, key, mask));
}

/// expFixed of the sampler: see sampling.h.
Value SamplingKernel::weight(Value score) {
  static constexpr float coefficients[] = INGOT_RT_EXP_COEFFICIENTS;
  Value distance = d.sub(score, largest), least = d.f32(INGOT_RT_EXP_LEAST);
  Value counts = d.compare(arith::CmpFPredicate::OGT, distance, least);
  Value x = d.choose(counts, distance, least), toInteger = d.f32(INGOT_RT_EXP_TO_INTEGER);
  Value power = d.sub(d.add(d.mul(x, d.f32(INGOT_RT_EXP_LOG2E)), toInteger), toInteger);
  Value r = d.sub(d.sub(x, d.mul(power, d.f32(INGOT_RT_EXP_LN2_HIGH))), d.mul(power, d.f32(INGOT_RT_EXP_LN2_LOW)));
  Value p = d.f32(coefficients[0]);
  for (size_t i = 1; i < std::size(coefficients); ++i)
    p = d.add(d.mul(p, r), d.f32(coefficients[i]));
  Value mantissa = widen(truncate(d.mul(p, d.f32(1 << INGOT_RT_EXP_MANTISSA_BITS))));
  Value shifted = arith::ShLIOp::create(d, mantissa, i64(INGOT_RT_WEIGHT_BITS - INGOT_RT_EXP_MANTISSA_BITS));
  Value halvings = widen(truncate(d.sub(d.f32(0), power)));
  return d.choose(counts, arith::ShRUIOp::create(d, shifted, halvings), i64(0));
}

/// Rises with the score: subtraction and multiplication by a constant round monotonically.
Value SamplingKernel::distanceBin(Value score) {
  Value last = d.f32(binCount - 1), distance = d.mul(d.sub(largest, score), d.f32(binsPerUnit));
  Value inside = d.compare(arith::CmpFPredicate::OLT, distance, last);
  return difference(d.i32(binCount - 1), truncate(d.choose(inside, distance, last)));
}

SamplingKernel::Scan SamplingKernel::scan(Value mine) {
  Value inclusive = mine;
  for (int64_t distance = 1; distance < warpThreads; distance *= 2) {
    Value below = d.shuffleUpWide(inclusive, distance);
    inclusive = d.choose(d.c(distance) <= d.lane(), sum(inclusive, below), inclusive);
  }
  d.when(d.lane() == d.c(warpThreads - 1), [&] { d.store(inclusive, warpSums, d.warp()); });
  d.barrier("sums of warps");
  SmallVector<Value> sums = {i64(0), i64(0)};
  sums = d.loop(d.c(0), d.c(samplingWarps), 1, sums, [&](Ix w, ValueRange so) {
    Value ofWarp = d.load(warpSums, w);
    return SmallVector<Value>{d.choose(w < d.warp(), sum(so[0], ofWarp), so[0]), sum(so[1], ofWarp)};
  });
  return {inclusive, sums[0], sums[1]};
}

void SamplingKernel::publish(Value first, Value second, Value third) {
  int64_t place = 0;
  for (Value value : {first, second, third})
    if (value)
      d.store(value, found, d.c(place++));
}

/// Mask, repetition penalty and temperature, in this order; the largest logit of each thread, of each warp, of the
/// block. A logit that is not a number is larger than all, of equals the one with the lower id.
void SamplingKernel::makeScores() {
  Value words[] = {field(offsetof(ingot_rt_sampling, temperature)), field(offsetof(ingot_rt_sampling, sets))};
  Value penalty =
      arith::BitcastOp::create(d, d.getF32Type(), low(arith::ShRUIOp::create(d, words[0], i64(32)).getResult()));
  temperature = arith::BitcastOp::create(d, d.getF32Type(), low(words[0]));
  auto holds = [&](ingot_rt_token_set set) {
    return is(arith::CmpIPredicate::ne, both(words[1], i64(uint64_t(1) << set)), i64(0));
  };
  Value hasSeen = holds(INGOT_RT_SEEN), hasMask = holds(INGOT_RT_ALLOWED), none = d.f32(-HUGE_VALF);
  Value isGreedy = d.compare(arith::CmpFPredicate::OEQ, temperature, d.f32(0));
  Value divisor = d.choose(isGreedy, d.f32(1), temperature);
  auto isBetter = [&](Value value, Value id, Value than, Value thanId) -> Value {
    Value larger =
        any(d.compare(arith::CmpFPredicate::OGT, value, than), d.compare(arith::CmpFPredicate::UNO, value, value));
    Value isTie = both(d.compare(arith::CmpFPredicate::OEQ, value, than), is(arith::CmpIPredicate::slt, id, thanId));
    return any(larger, isTie);
  };
  SmallVector<Value> mine = {none, d.i32(0)};
  mine = d.loop(d.thread(), n, samplingThreads, mine, [&](Ix i, ValueRange so) {
    Value x = score(i);
    x = where(hasMask, x, [&] { return SmallVector<Value>{d.choose(isIn(INGOT_RT_ALLOWED, i), x, none)}; })[0];
    x = where(hasSeen, x, [&] {
      Value isNegative = d.compare(arith::CmpFPredicate::OLT, x, d.f32(0));
      Value lowered = d.either(isNegative, [&] { return d.mul(x, penalty); }, [&] { return d.div(x, penalty); });
      return SmallVector<Value>{d.choose(isIn(INGOT_RT_SEEN, i), lowered, x)};
    })[0];
    d.store(d.div(x, divisor), d.memory("logits"), rowStart + i);
    Value id = d.toI32(i), better = isBetter(x, id, so[0], so[1]);
    return SmallVector<Value>{d.choose(better, x, so[0]), d.choose(better, id, so[1])};
  });
  auto take = [&](Value &value, Value &id, Value other, Value otherId) {
    Value better = isBetter(other, otherId, value, id);
    value = d.choose(better, other, value);
    id = d.choose(better, otherId, id);
  };
  for (int64_t distance = warpThreads / 2; distance > 0; distance /= 2)
    take(mine[0], mine[1], d.shuffleXor(mine[0], distance), d.shuffleXor(mine[1], distance));
  d.when(d.lane() == d.c(0), [&] {
    d.store(mine[0], bestValues, d.warp());
    d.store(mine[1], bestIds, d.warp());
  });
  d.barrier("largest of warps");
  SmallVector<Value> all = {none, d.i32(0)};
  all = d.loop(d.c(0), d.c(samplingWarps), 1, all, [&](Ix w, ValueRange so) {
    Value value = so[0], id = so[1];
    take(value, id, d.load(bestValues, w), d.load(bestIds, w));
    return SmallVector<Value>{value, id};
  });
  best = all[0];
  bestId = all[1];
  largest = d.div(best, divisor);
}

/// The least score at which tokens in order of their scores measure more than can be dropped: its key, how much can be
/// dropped beyond what lies below it, and what all tokens of this score measure. For top-k each token measures one and
/// `droppable` is how many go, for top-p those from `bar` on measure their weight and `droppable`, an f64, is a share.
SamplingKernel::Boundary SamplingKernel::boundary(Value isTopP, Value bar, Value droppable) {
  using Predicate = arith::CmpIPredicate;
  const Value nothing = i64(0), every = d.i32(-1);
  // What is known of the boundary's token: its bin (-1: all), bits of its key and which they are; what is left to drop.
  SmallVector<Value> so = {every, d.i32(0), d.i32(0), nothing, nothing};
  so = d.loop(d.c(0), d.c(4), 1, so, [&](Ix pass, ValueRange known) {
    Value isFirst = pass == d.c(0), bin = known[0], prefix = known[1], mask = known[2];
    Value shift = d.choose(pass == d.c(1), d.i32(21), d.choose(pass == d.c(2), d.i32(10), d.i32(0)));
    d.loop(d.thread(), d.c(binCount), samplingThreads, [&](Ix i) {
      d.store(d.i32(0), lowSums, i);
      d.store(d.i32(0), highSums, i);
    });
    d.barrier("empty bins");
    d.loop(d.thread(), n, samplingThreads, [&](Ix i) {
      Value x = score(i), itsKey = key(x), itsBin = distanceBin(x);
      Value counts = any(isFirst, both(isEqual(itsBin, bin), isEqual(both(itsKey, mask), prefix)));
      Value measure = d.choose(isTopP, weight(x), i64(1));
      counts = both(counts, both(isAtMost(bar, itsKey), is(Predicate::ne, measure, nothing)));
      d.when(counts, [&] {
        Value digit = both(arith::ShRUIOp::create(d, itsKey, shift), d.i32(binCount - 1));
        Ix at = d.toIndex(d.choose(isFirst, itsBin, digit));
        // Two words, so that the operations are those that shared memory has: the carry goes with the upper word.
        Value before = d.addAtomically(low(measure), lowSums, at);
        Value carry = isBelow(sum(before, low(measure)), before);
        Value high =
            sum(low(arith::ShRUIOp::create(d, measure, i64(32))), arith::ExtUIOp::create(d, d.getI32Type(), carry));
        d.when(is(Predicate::ne, high, d.i32(0)), [&] { d.addAtomically(high, highSums, at); });
      });
    });
    d.barrier("full bins");
    SmallVector<Value> sums;
    Value mine = nothing;
    for (int64_t i = 0; i < threadBins; ++i) {
      Ix at = d.thread() * threadBins + i;
      Value high = arith::ShLIOp::create(d, widen(d.load(highSums, at)), i64(32));
      sums.push_back(any(high, widen(d.load(lowSums, at))));
      mine = sum(mine, sums.back());
    }
    Scan scanned = scan(mine);
    // Of a total that floats do not hold, the share of all may be more than all: one token stays.
    Value share = arith::FPToUIOp::create(d, d.getI64Type(),
                                          d.mul(arith::BitcastOp::create(d, d.getF64Type(), droppable),
                                                arith::UIToFPOp::create(d, d.getF64Type(), scanned.total)));
    share = arith::MinUIOp::create(d, share, difference(scanned.total, i64(1)));
    Value left = d.choose(isFirst, d.choose(isTopP, share, droppable), known[3]);
    Value before = difference(sum(scanned.warpsBefore, scanned.inclusive), mine);
    for (int64_t i = 0; i < threadBins; ++i) {
      Value after = sum(before, sums[i]);
      d.when(both(isAtMost(before, left), isBelow(left, after)),
             [&] { publish(widen(d.toI32(d.thread() * threadBins + i)), before, sums[i]); });
      before = after;
    }
    d.barrier("the boundary's bin");
    Value digit = low(published(0));
    Value found = any(prefix, arith::ShLIOp::create(d, digit, shift));
    return SmallVector<Value>{d.choose(isFirst, digit, bin), d.choose(isFirst, prefix, found),
                              d.choose(isFirst, mask, arith::ShLIOp::create(d, every, shift)),
                              difference(left, published(1)), published(2)};
  });
  return {so[1], so[3], so[4]};
}

/// The token at which the sum of `measure`, given score and id, in order of ids exceeds a number, which `target` makes
/// of the sum of all; a number less than that. Each warp measures a part of the row, then the threads share the part.
Value SamplingKernel::tokenAt(function_ref<Value(Value, Ix)> measure, function_ref<Value(Value)> target) {
  Ix part = (n + (samplingThreads - 1)) / samplingThreads * warpThreads, start = d.warp() * part;
  Value none = i64(0);
  Value mine = d.loop(start + d.lane(), d.min(start + part, n), warpThreads, none,
                      [&](Ix i, ValueRange so) { return SmallVector<Value>{sum(so[0], measure(score(i), i))}; })[0];
  Scan warps = scan(mine);
  Value wanted = target(warps.total), after = sum(warps.warpsBefore, warps.inclusive);
  // The last lane's sum is the warp's.
  Value isIt = both(isAtMost(warps.warpsBefore, wanted), isBelow(wanted, after));
  d.when(both(d.lane() == d.c(warpThreads - 1), isIt), [&] { publish(widen(d.toI32(d.warp())), warps.warpsBefore); });
  d.barrier("the token's warp");
  start = d.toIndex(published(0)) * part;
  wanted = difference(wanted, published(1));
  Ix piece = (part + (samplingThreads - 1)) / samplingThreads, end = d.min(start + part, n);
  Ix first = start + d.thread() * piece, last = d.min(first + piece, end);
  mine = d.loop(first, last, 1, none,
                [&](Ix i, ValueRange so) { return SmallVector<Value>{sum(so[0], measure(score(i), i))}; })[0];
  Scan threads = scan(mine);
  after = sum(threads.warpsBefore, threads.inclusive);
  Value before = difference(after, mine);
  d.when(both(isAtMost(before, wanted), isBelow(wanted, after)), [&] {
    SmallVector<Value> so = {before, none};
    so = d.loop(first, last, 1, so, [&](Ix i, ValueRange known) {
      Value next = sum(known[0], measure(score(i), i));
      Value isHere = both(isAtMost(known[0], wanted), isBelow(wanted, next));
      return SmallVector<Value>{next, d.choose(isHere, widen(d.toI32(i)), known[1])};
    });
    publish(so[1], so[0]);
  });
  d.barrier("the token");
  return low(published(0));
}

/// The token, where the largest score is a finite number.
Value SamplingKernel::choose() {
  Value topK = field(offsetof(ingot_rt_sampling, top_k)), share = field(offsetof(ingot_rt_sampling, droppable));
  Value least = field(offsetof(ingot_rt_sampling, least_weight)), random = field(offsetof(ingot_rt_sampling, random));
  Value count = arith::IndexCastOp::create(d, d.getI64Type(), n.value), none = i64(0);
  Value hasTopK = both(is(arith::CmpIPredicate::ne, topK, none), isBelow(topK, count));
  Value hasTopP = is(arith::CmpIPredicate::ne, share, none);
  // Tokens from the key `bar` on are left, and of those whose key it is, up to the id `lastId`.
  SmallVector<Value> so = {d.i32(0), none, i64(1)};
  so = d.loop(d.c(0), d.c(2), 1, so, [&](Ix filter, ValueRange known) {
    Value isTopP = filter == d.c(1);
    return where(d.choose(isTopP, hasTopP, hasTopK), known, [&] {
      Boundary found = boundary(isTopP, known[0], d.choose(isTopP, share, difference(count, topK)));
      return SmallVector<Value>{found.key, found.left, found.inside};
    });
  });
  Value bar = so[0];
  // All of the boundary's score weigh the same; top-p drops some of them if more than their weight is left to drop.
  Value ofEach = d.choose(hasTopP, weight(scoreOf(bar)), i64(1));
  ofEach = arith::MaxUIOp::create(d, ofEach, i64(1));
  Value ties = arith::DivUIOp::create(d, so[2], ofEach), dropped = arith::DivUIOp::create(d, so[1], ofEach);
  Value cuts = both(hasTopP, is(arith::CmpIPredicate::ne, dropped, none));
  Value lastId = where(cuts, d.i32(INT32_MAX), [&] {
    auto measure = [&](Value score, Ix) {
      return widen(arith::ExtUIOp::create(d, d.getI32Type(), isEqual(key(score), bar)));
    };
    return SmallVector<Value>{tokenAt(measure, [&](Value) { return difference(ties, sum(dropped, i64(1))); })};
  })[0];
  auto measure = [&](Value score, Ix i) {
    Value itsKey = key(score), itsWeight = weight(score);
    Value isTie = both(isEqual(itsKey, bar), is(arith::CmpIPredicate::sle, d.toI32(i), lastId));
    Value isLeft = both(any(isBelow(bar, itsKey), isTie), isAtMost(least, itsWeight));
    return d.choose(isLeft, itsWeight, none);
  };
  return tokenAt(measure,
                 [&](Value total) -> Value { return arith::MulUIExtendedOp::create(d, random, total).getHigh(); });
}

void SamplingKernel::emit() {
  makeScores();
  Value infinity = d.f32(HUGE_VALF), none = d.f32(-HUGE_VALF);
  auto isNumber = [&](Value x) {
    return both(d.compare(arith::CmpFPredicate::OGT, x, none), d.compare(arith::CmpFPredicate::OLT, x, infinity));
  };
  Value exists = d.compare(arith::CmpFPredicate::OGT, best, none);
  // Of a tiny temperature, or of an infinite logit, the limit is the largest.
  Value draws = both(isNumber(largest), d.compare(arith::CmpFPredicate::ONE, temperature, d.f32(0)));
  Value token = where(draws, bestId, [&] { return SmallVector<Value>{choose()}; })[0];
  d.when(d.thread() == d.c(0), [&] { d.store(d.choose(exists, token, d.i32(-1)), d.memory("token"), d.block(0)); });
}

} // namespace

void DeviceKernels::sample(cpu::Emitter &e, DeviceRows logits, Ix n, Ix rows, const DeviceSampling &sampling,
                           HostMemory ids) {
  static_assert(offsetof(ingot_rt_sampling, temperature) == 0 && offsetof(ingot_rt_sampling, repetition_penalty) == 4,
                "the halves of the first word");
  static_assert(sizeof(ingot_rt_sampling) % 8 == 0, "read as 64-bit words");
  SmallVector<Argument> arguments;
  append(arguments, "logits", "logits_stride", logits);
  arguments.emplace_back("n", n);
  arguments.emplace_back("sampling", sampling.rows);
  arguments.emplace_back("token_sets", sampling.sets);
  arguments.emplace_back("token_set_words", sampling.setWords);
  arguments.emplace_back("token", ids);
  launch(e, "sample", arguments, {rows}, [](DeviceEmitter &d) { SamplingKernel(d).emit(); }, samplingThreads);
}

} // namespace ingot::gpu
