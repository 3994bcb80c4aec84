//===- RandomWeights.cpp - Weights that no file holds, made where they are read
//-------------------------------------===//
//
// The kernels' side of ingot_rt/random.h: Philox4x32-10, a thread for each block of 16 elements, written in the layouts
// of abi.h. Which tensor goes where is the runtime's table; it launches these kernels, not a step.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/VectorMath.h"
#include "compiler/Codegen/GPU/DeviceKernels.h"
#include "ingot_rt/abi.h"

using namespace mlir;

namespace ingot::gpu {

using cpu::lanes;

/// Elements of a block of Philox.
static constexpr int64_t blockElements = 16;

std::string randomKernelName(Type element, bool panels) {
  std::string name = panels ? "random_panels_" : "random_rows_";
  llvm::raw_string_ostream(name) << element;
  return name;
}

/// Block `number` of the stream under `key`, an i64: ingot_rt_random_block.
static SmallVector<Value, 4> philox(DeviceEmitter &d, Value key, Ix number) {
  Type i32 = d.getI32Type(), i64 = d.getI64Type();
  auto low = [&](Value x) -> Value { return arith::TruncIOp::create(d, i32, x); };
  auto high = [&](Value x) -> Value {
    Value thirtyTwo = arith::ConstantIntOp::create(d, 32, 64);
    return low(arith::ShRUIOp::create(d, x, thirtyTwo));
  };
  auto product = [&](uint32_t factor, Value x) -> Value {
    Value wide = arith::ConstantIntOp::create(d, factor, 64);
    return arith::MulIOp::create(d, wide, arith::ExtUIOp::create(d, i64, x));
  };
  auto exclusive = [&](Value a, Value b, Value c) -> Value {
    return arith::XOrIOp::create(d, arith::XOrIOp::create(d, a, b), c);
  };
  auto plus = [&](Value x, uint32_t more) -> Value {
    return arith::AddIOp::create(d, x, d.i32(static_cast<int32_t>(more)));
  };
  Value counter = arith::IndexCastOp::create(d, i64, number.value);
  Value c0 = low(counter), c1 = high(counter), c2 = d.i32(0), c3 = d.i32(0);
  Value k0 = low(key), k1 = high(key);
  for (int round = 0; round < 10; ++round) {
    Value p0 = product(0xD2511F53u, c0), p1 = product(0xCD9E8D57u, c2);
    Value n0 = exclusive(high(p1), c1, k0), n2 = exclusive(high(p0), c3, k1);
    c1 = low(p1);
    c3 = low(p0);
    c0 = n0;
    c2 = n2;
    k0 = plus(k0, 0x9E3779B9u);
    k1 = plus(k1, 0xBB67AE85u);
  }
  return {c0, c1, c2, c3};
}

/// The 16 elements of a block as they are stored: `take` is given the number of each and its value.
static void elementsOf(DeviceEmitter &d, Ix number, Type element, function_ref<void(Ix, Value)> take) {
  SmallVector<Value, 4> words = philox(d, d.value("key"), number);
  d.loop(d.c(0), d.c(blockElements), 1, [&](Ix i) {
    Value word = words[0];
    for (int64_t w = 1; w < 4; ++w)
      word = d.choose(i / 4 == d.c(w), words[w], word);
    // The byte with its sign: its upper bit becomes the word's.
    Value up = d.toI32((d.c(3) - i % 4) * 8);
    Value byte = arith::ShRSIOp::create(d, arith::ShLIOp::create(d, word, up), d.i32(24));
    Value number = arith::ShRSIOp::create(d, byte, d.value("drop"));
    number = arith::AddIOp::create(d, arith::MulIOp::create(d, number, d.value("factor")), d.value("offset"));
    Value x = d.mul(arith::SIToFPOp::create(d, d.getF32Type(), number), d.value("scale"));
    take(i, cpu::emitRound(d, x, element));
  });
}

void DeviceKernels::randomWeights(Type element, bool panels) {
  Builder b(device.getContext());
  Type word = b.getI32Type(), size = b.getIndexType();
  SmallVector<Parameter> parameters = {{"weights", element, true}, {"key", b.getI64Type(), false},
                                       {"drop", word, false},      {"factor", word, false},
                                       {"offset", word, false},    {"scale", b.getF32Type(), false}};
  if (!panels) {
    parameters.push_back({"count", size, false});
    assert(parameters.size() == INGOT_RT_RANDOM_ROW_ARGUMENTS && "the order of ingot_rt_random_argument");
    emitKernel(randomKernelName(element, panels), parameters, [&](DeviceEmitter &d) {
      Ix number = d.block(0) * blockThreads + d.thread();
      d.when(number * blockElements < d.index("count"), [&] {
        elementsOf(d, number, element, [&](Ix i, Value x) {
          Ix at = number * blockElements + i;
          d.when(at < d.index("count"), [&] { d.store(x, d.memory("weights"), at); });
        });
      });
    });
    return;
  }
  for (const char *name : {"rows", "columns", "first_row", "panels", "panel_step", "panel_first", "segment"})
    parameters.push_back({name, size, false});
  assert(parameters.size() == INGOT_RT_RANDOM_PANEL_ARGUMENTS && "the order of ingot_rt_random_argument");
  emitKernel(randomKernelName(element, panels), parameters, [&](DeviceEmitter &d) {
    // Neighbours write the features of a panel that lie beside each other.
    int64_t group = static_cast<int64_t>(ingot_rt_k_group(element.isBF16() ? INGOT_RT_BF16 : INGOT_RT_F32));
    Ix first = d.index("first_row"), k = d.index("columns"), length = d.index("segment");
    Ix lane = d.thread() % lanes, panel = first / lanes + d.block(0), feature = panel * lanes + lane;
    Ix place = panel * d.index("panel_step") + d.index("panel_first");
    Value inside = arith::AndIOp::create(d, first <= feature, feature < first + d.index("rows"));
    d.when(inside, [&] {
      Ix start = (feature - first) * k;
      Ix number = start / blockElements + d.block(1) * (blockThreads / lanes) + d.thread() / lanes;
      d.when(number * blockElements < start + k, [&] {
        elementsOf(d, number, element, [&](Ix i, Value x) {
          Ix at = number * blockElements + i;
          Value mine = arith::AndIOp::create(d, start <= at, at < start + k);
          d.when(mine, [&] {
            Ix column = at - start, segment = column / length, before = segment * length, in = column - before;
            Ix padded = d.min(k - before, length).roundUp(group);
            Ix where = d.index("panels") * lanes * before.roundUp(group) + place * lanes * padded;
            d.store(x, d.memory("weights"), where + in / group * (lanes * group) + lane * group + in % group);
          });
        });
      });
    });
  });
}

} // namespace ingot::gpu
