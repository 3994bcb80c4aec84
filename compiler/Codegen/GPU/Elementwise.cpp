//===- Elementwise.cpp - Norms, sums, activations, embeddings, the largest logit ----------------------------------===//
//
// Kernels of a block for each row (or head of a row): its threads share the features, thread t takes t, t + 128, ...
// An op that may write over an operand (ArenaPlan.h) has each element read and written by one thread.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/VectorMath.h"
#include "compiler/Codegen/GPU/DeviceKernels.h"
#include <cmath>

using namespace mlir;

namespace ingot::gpu {

using cpu::lanes;

void DeviceKernels::rmsNorm(cpu::Emitter &e, DeviceRows input, std::optional<DeviceRows> residual,
                            std::optional<DeviceRows> sum, HostMemory weight, float eps, DeviceRows result, Ix heads,
                            Ix n, Ix rows) {
  SmallVector<Argument> arguments;
  append(arguments, "input", "input_stride", input);
  arguments.emplace_back("weight", weight);
  arguments.emplace_back("eps", e.f32(eps));
  append(arguments, "result", "result_stride", result);
  arguments.emplace_back("heads", heads);
  arguments.emplace_back("n", n);
  bool adds = residual.has_value();
  if (adds) {
    append(arguments, "residual", "residual_stride", *residual);
    append(arguments, "sum", "sum_stride", *sum);
  }
  launch(e, adds ? "add_rms_norm" : "rms_norm", arguments, {rows * heads}, [&](DeviceEmitter &d) {
    Ix size = d.index("n"), unit = d.block(0), row = unit / d.index("heads"), column = unit % d.index("heads") * size;
    auto at = [&](StringRef stride, Ix i) { return row * d.index(stride) + column + i; };
    SmallVector<Value> squares = {d.f32(0)};
    squares = d.loop(d.thread(), size, blockThreads, squares, [&](Ix i, ValueRange partial) {
      Value x = d.load(d.memory("input"), at("input_stride", i));
      if (adds) {
        x = d.add(x, d.load(d.memory("residual"), at("residual_stride", i)));
        d.store(x, d.memory("sum"), at("sum_stride", i));
      }
      return SmallVector<Value>{d.fma(x, x, partial[0])};
    });
    Value count = arith::SIToFPOp::create(d, d.getF32Type(), d.toI32(size));
    Value mean = d.div(d.blockSum(squares[0]), count);
    Value factor = d.div(d.f32(1), d.sqrt(d.add(mean, d.value("eps"))));
    d.each(size, [&](Ix i) {
      Value x = adds ? d.load(d.memory("sum"), at("sum_stride", i)) : d.load(d.memory("input"), at("input_stride", i));
      d.store(d.mul(d.mul(x, factor), d.load(d.memory("weight"), i)), d.memory("result"), at("result_stride", i));
    });
  });
}

void DeviceKernels::elementwise(cpu::Emitter &e, StringRef name, ArrayRef<DeviceRows> inputs, DeviceRows result, Ix n,
                                Ix rows, function_ref<Value(DeviceEmitter &, ArrayRef<Value>)> compute) {
  static constexpr StringLiteral names[] = {"a", "b"}, strides[] = {"a_stride", "b_stride"};
  assert(inputs.size() <= std::size(names) && "elementwise ops have one or two inputs");
  SmallVector<Argument> arguments;
  for (auto [i, input] : llvm::enumerate(inputs))
    append(arguments, names[i], strides[i], input);
  append(arguments, "result", "result_stride", result);
  arguments.emplace_back("n", n);
  launch(e, name, arguments, {rows}, [&](DeviceEmitter &d) {
    Ix row = d.block(0);
    d.each(d.index("n"), [&](Ix i) {
      SmallVector<Value> values;
      for (size_t input = 0; input < inputs.size(); ++input)
        values.push_back(d.load(d.memory(names[input]), row * d.index(strides[input]) + i));
      d.store(compute(d, values), d.memory("result"), row * d.index("result_stride") + i);
    });
  });
}

void DeviceKernels::embedding(cpu::Emitter &e, const DeviceBatch &batch, HostMemory table, Type element, bool panels,
                              DeviceRows result, Ix n) {
  std::string name = panels ? "embedding_panels_" : "embedding_rows_";
  llvm::raw_string_ostream(name) << element;
  SmallVector<Argument> arguments = {{"tokens", batch.tokens}, {"table", table}};
  append(arguments, "result", "result_stride", result);
  arguments.emplace_back("n", n);
  launch(e, name, arguments, {batch.tokenCount}, [&](DeviceEmitter &d) {
    int64_t group = element.isBF16() ? 2 : 1;
    Ix row = d.block(0), size = d.index("n"), id = d.toIndex(d.load(d.memory("tokens"), row));
    d.each(size, [&](Ix k) {
      Ix at = id * size + k;
      if (panels)
        at = id / lanes * (size.roundUp(group) * lanes) + k / group * (lanes * group) + id % lanes * group + k % group;
      Value x = cpu::emitWiden(d, d.load(d.memory("table"), at));
      d.store(x, d.memory("result"), row * d.index("result_stride") + k);
    });
  });
}

void DeviceKernels::selectRows(cpu::Emitter &e, const DeviceBatch &batch, DeviceRows input, DeviceRows result, Ix n) {
  SmallVector<Argument> arguments = {{"rows", batch.rows}};
  append(arguments, "input", "input_stride", input);
  append(arguments, "result", "result_stride", result);
  arguments.emplace_back("n", n);
  launch(e, "select_rows", arguments, {batch.rowCount}, [&](DeviceEmitter &d) {
    Ix row = d.block(0), from = d.toIndex(d.load(d.memory("rows"), row)) * d.index("input_stride");
    d.each(d.index("n"), [&](Ix i) {
      d.store(d.load(d.memory("input"), from + i), d.memory("result"), row * d.index("result_stride") + i);
    });
  });
}

/// Each thread's best of its features in ascending order, then a tree over the block; of equal values the lower id, so
/// that the order does not matter. As on the CPU, the value is not a number where a logit is none.
void DeviceKernels::argmax(cpu::Emitter &e, DeviceRows logits, Ix n, Ix rows, HostMemory ids, HostMemory values) {
  SmallVector<Argument> arguments;
  append(arguments, "logits", "logits_stride", logits);
  arguments.emplace_back("n", n);
  arguments.emplace_back("argmax", ids);
  arguments.emplace_back("argmax_value", values);
  launch(e, "argmax", arguments, {rows}, [&](DeviceEmitter &d) {
    Ix row = d.block(0);
    auto isBetter = [&](Value value, Value than) -> Value {
      Value larger = d.compare(arith::CmpFPredicate::OGT, value, than);
      return arith::OrIOp::create(d, larger, d.compare(arith::CmpFPredicate::UNO, value, value));
    };
    DeviceMemory best = d.shared("best values", d.getF32Type(), blockThreads);
    DeviceMemory bestId = d.shared("best ids", d.getI32Type(), blockThreads);
    SmallVector<Value> found = {d.f32(-HUGE_VALF), d.i32(0)};
    found = d.loop(d.thread(), d.index("n"), blockThreads, found, [&](Ix i, ValueRange so) {
      Value x = d.load(d.memory("logits"), row * d.index("logits_stride") + i);
      Value better = isBetter(x, so[0]);
      return SmallVector<Value>{d.choose(better, x, so[0]), d.choose(better, d.toI32(i), so[1])};
    });
    d.store(found[0], best, d.thread());
    d.store(found[1], bestId, d.thread());
    for (int64_t half = blockThreads / 2; half > 0; half /= 2) {
      d.barrier("argmax");
      d.when(d.thread() < d.c(half), [&] {
        Value mine = d.load(best, d.thread()), other = d.load(best, d.thread() + half);
        Value myId = d.load(bestId, d.thread()), otherId = d.load(bestId, d.thread() + half);
        Value lower = arith::CmpIOp::create(d, arith::CmpIPredicate::slt, otherId, myId);
        Value tie = arith::AndIOp::create(d, d.compare(arith::CmpFPredicate::OEQ, other, mine), lower);
        Value better = arith::OrIOp::create(d, isBetter(other, mine), tie);
        d.store(d.choose(better, other, mine), best, d.thread());
        d.store(d.choose(better, otherId, myId), bestId, d.thread());
      });
    }
    d.when(d.thread() == d.c(0), [&] {
      d.store(d.load(best, d.c(0)), d.memory("argmax_value"), row);
      d.store(d.load(bestId, d.c(0)), d.memory("argmax"), row);
    });
  });
}

} // namespace ingot::gpu
