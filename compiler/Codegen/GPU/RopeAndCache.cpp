//===- RopeAndCache.cpp - Rotary embedding, and writing keys and values -------------------------------------------===//
//
// As on the CPU: cosines and sines once a step, products rounded before they are added, keys stored as
// [tile of 16 positions][feature][position], values as rows.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/VectorMath.h"
#include "compiler/Codegen/GPU/DeviceKernels.h"
#include "ingot_rt/abi.h"

using namespace mlir;

namespace ingot::gpu {

using cpu::lanes;

void DeviceKernels::rotaryTable(cpu::Emitter &e, StringRef name, const DeviceBatch &batch, const DeviceRotary &rotary,
                                ArrayRef<float> frequencies, ArrayRef<float> longFrequencies, float scaling) {
  bool hasLong = !longFrequencies.empty();
  SmallVector<Argument> arguments = {
      {"positions", batch.positions}, {"rotary", rotary.table}, {"scaling", e.f32(scaling)}};
  if (hasLong) {
    arguments.emplace_back("sequences", batch.sequences);
    arguments.emplace_back("regimes", batch.regimes);
  }
  launch(e, ("rotary_table_" + name).str(), arguments, {batch.tokenCount}, [&](DeviceEmitter &d) {
    DeviceMemory table = d.constants("inv_freq", frequencies), longTable;
    Ix token = d.block(0);
    Value position = arith::SIToFPOp::create(d, d.getF32Type(), d.load(d.memory("positions"), token)), isLong;
    if (hasLong) {
      longTable = d.constants("long_inv_freq", longFrequencies);
      Ix sequence = d.toIndex(d.load(d.memory("sequences"), token));
      isLong = arith::CmpIOp::create(d, arith::CmpIPredicate::ne, d.load(d.memory("regimes"), sequence), d.i32(0));
    }
    d.each(d.c(rotary.headDim / 2), [&](Ix i) {
      Value frequency = d.load(table, i);
      if (hasLong)
        frequency = d.choose(isLong, d.load(longTable, i), frequency);
      auto [cosine, sine] = d.cosSin(d.mul(position, frequency));
      Ix at = token * (2 * rotary.halfPadded()) + i;
      d.store(d.mul(cosine, d.value("scaling")), d.memory("rotary"), at);
      d.store(d.mul(sine, d.value("scaling")), d.memory("rotary"), at + rotary.halfPadded());
    });
  });
}

/// Rotates the pairs of a head of token `row`: `load` gives feature i, `store` takes what it becomes.
static void rotate(DeviceEmitter &d, const DeviceRotary &rotary, Ix row, function_ref<Value(Ix)> load,
                   function_ref<void(Value, Ix)> store) {
  int64_t half = rotary.headDim / 2;
  d.each(d.c(half), [&](Ix i) {
    Ix angles = row * (2 * rotary.halfPadded()) + i;
    Value cosine = d.load(d.memory("rotary"), angles), sine = d.load(d.memory("rotary"), angles + rotary.halfPadded());
    Ix first = rotary.interleaved ? i * 2 : i, second = rotary.interleaved ? i * 2 + 1 : i + half;
    Value a = load(first), b = load(second);
    store(d.sub(d.mul(a, cosine), d.mul(b, sine)), first);
    store(d.add(d.mul(b, cosine), d.mul(a, sine)), second);
  });
}

void DeviceKernels::rope(cpu::Emitter &e, const DeviceRotary &rotary, DeviceRows input, DeviceRows result, Ix heads,
                         Ix rows) {
  SmallVector<Argument> arguments = {{"rotary", rotary.table}};
  append(arguments, "input", "input_stride", input);
  append(arguments, "result", "result_stride", result);
  std::string name = "rope_" + std::to_string(rotary.headDim) + (rotary.interleaved ? "_interleaved" : "");
  launch(e, name, arguments, {rows, heads}, [&](DeviceEmitter &d) {
    Ix row = d.block(0), column = d.block(1) * rotary.headDim;
    Ix from = row * d.index("input_stride") + column, to = row * d.index("result_stride") + column;
    rotate(
        d, rotary, row, [&](Ix i) { return d.load(d.memory("input"), from + i); },
        [&](Value x, Ix i) { d.store(x, d.memory("result"), to + i); });
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// The cache
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Where one head of one token goes in the cache, in elements: its key's features lie every 16 elements, its value's in
/// a row.
struct Place {
  Ix key, value;
};
} // namespace

static Place placeOf(DeviceEmitter &d, const DeviceCache &cache, Ix row, Ix kvHead) {
  Ix slot = d.toIndex(d.load(d.memory("slots"), row));
  Ix block = slot / INGOT_RT_CACHE_BLOCK, position = slot % INGOT_RT_CACHE_BLOCK;
  Ix start = block * cache.blockElements() + (d.index("layer") * cache.kvHeads + kvHead) * cache.headElements();
  return {start + position / lanes * (cache.headDim * lanes) + position % lanes,
          start + cache.keyElements() + position * cache.paddedHeadDim()};
}

static std::string cacheName(const DeviceCache &cache) {
  std::string name;
  llvm::raw_string_ostream(name) << cache.element << "_" << cache.layers << "x" << cache.kvHeads << "x"
                                 << cache.headDim;
  return name;
}

/// Copies a head's value, rounded, into the cache.
static void appendValue(DeviceEmitter &d, const DeviceCache &cache, Place place, Ix row, Ix column) {
  d.each(d.c(cache.headDim), [&](Ix i) {
    Value x = d.load(d.memory("value"), row * d.index("value_stride") + column + i);
    d.store(cpu::emitRound(d, x, cache.element), d.memory("cache"), place.value + i);
  });
}

void DeviceKernels::kvAppend(cpu::Emitter &e, const DeviceBatch &batch, const DeviceCache &cache, DeviceRows key,
                             DeviceRows value) {
  SmallVector<Argument> arguments = {{"slots", batch.slots}, {"cache", cache.memory}, {"layer", cache.layer}};
  append(arguments, "key", "key_stride", key);
  append(arguments, "value", "value_stride", value);
  launch(e, "kv_append_" + cacheName(cache), arguments, {batch.tokenCount, e.c(cache.kvHeads)}, [&](DeviceEmitter &d) {
    Ix row = d.block(0), kvHead = d.block(1), column = kvHead * cache.headDim;
    Place place = placeOf(d, cache, row, kvHead);
    d.each(d.c(cache.headDim), [&](Ix i) {
      Value x = d.load(d.memory("key"), row * d.index("key_stride") + column + i);
      d.store(cpu::emitRound(d, x, cache.element), d.memory("cache"), place.key + i * lanes);
    });
    appendValue(d, cache, place, row, column);
  });
}

/// The block's head, normed if it has a norm: a function from a feature to its value. The norm's sum has a barrier.
static std::function<Value(Ix)> normedHead(DeviceEmitter &d, StringRef source, Ix from, StringRef weight,
                                           Value factor) {
  return [&d, source, from, weight, factor](Ix i) {
    Value x = d.load(d.memory(source), from + i);
    return factor ? d.mul(d.mul(x, factor), d.load(d.memory(weight), i)) : x;
  };
}

void DeviceKernels::qkNormRopeAppend(cpu::Emitter &e, const DeviceBatch &batch, const DeviceCache &cache,
                                     const DeviceRotary &rotary, DeviceRows query, DeviceRows key, DeviceRows value,
                                     std::optional<HostMemory> queryNorm, std::optional<HostMemory> keyNorm, float eps,
                                     DeviceRows result, int64_t heads) {
  SmallVector<Argument> arguments = {
      {"slots", batch.slots}, {"cache", cache.memory}, {"layer", cache.layer}, {"rotary", rotary.table}};
  append(arguments, "query", "query_stride", query);
  append(arguments, "key", "key_stride", key);
  append(arguments, "value", "value_stride", value);
  append(arguments, "result", "result_stride", result);
  bool norms = queryNorm.has_value();
  if (norms) {
    arguments.emplace_back("q_norm", *queryNorm);
    arguments.emplace_back("k_norm", *keyNorm);
    arguments.emplace_back("eps", e.f32(eps));
  }
  std::string name = (norms ? "qk_norm_rope_append_" : "rope_append_") + cacheName(cache) + "_" +
                     std::to_string(heads) + (rotary.interleaved ? "_interleaved" : "");
  launch(e, name, arguments, {batch.tokenCount, e.c(heads + cache.kvHeads)}, [&](DeviceEmitter &d) {
    Ix row = d.block(0), number = d.block(1);
    Value isQuery = number < d.c(heads);
    Ix kvHead = d.saturatingSub(number, d.c(heads));
    Ix queryFrom = row * d.index("query_stride") + number * cache.headDim;
    Ix keyFrom = row * d.index("key_stride") + kvHead * cache.headDim;
    Value factor;
    if (norms) {
      // One sum for whichever head the block has, so that the barrier is the same for all.
      auto squares = [&](StringRef source, Ix from) {
        return d.loop(d.thread(), d.c(cache.headDim), blockThreads, ValueRange{d.f32(0)},
                      [&](Ix i, ValueRange partial) {
                        Value x = d.load(d.memory(source), from + i);
                        return SmallVector<Value>{d.fma(x, x, partial[0])};
                      })[0];
      };
      Value partial =
          d.either(isQuery, [&] { return squares("query", queryFrom); }, [&] { return squares("key", keyFrom); });
      Value mean = d.div(d.blockSum(partial), d.f32(static_cast<float>(cache.headDim)));
      factor = d.div(d.f32(1), d.sqrt(d.add(mean, d.value("eps"))));
    }
    d.when(
        isQuery,
        [&] {
          Ix to = row * d.index("result_stride") + number * cache.headDim;
          rotate(d, rotary, row, normedHead(d, "query", queryFrom, "q_norm", factor),
                 [&](Value x, Ix i) { d.store(x, d.memory("result"), to + i); });
        },
        [&] {
          Place place = placeOf(d, cache, row, kvHead);
          rotate(d, rotary, row, normedHead(d, "key", keyFrom, "k_norm", factor), [&](Value x, Ix i) {
            d.store(cpu::emitRound(d, x, cache.element), d.memory("cache"), place.key + i * lanes);
          });
          appendValue(d, cache, place, row, kvHead * cache.headDim);
        });
  });
}

} // namespace ingot::gpu
