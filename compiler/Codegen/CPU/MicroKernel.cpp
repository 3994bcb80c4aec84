//===- MicroKernel.cpp - Products in registers
//--------------------------------------------------------------------===//
//
// One function per register tile: accumulators for rows x panels of 16 lanes
// stay in registers while K runs. Each lane sums its own feature, k ascending,
// one fused multiply-add a step, so that tiles differ in speed and not in bits.
// The cache's keys [d][16 positions] and values [position][features] are read
// by the same loops as packed weights.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/VectorMath.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace ingot::cpu;

namespace {
/// The body of one tile's function.
struct TileEmitter {
  Emitter &e;
  const Kernels::MicroKernel &kernel;
  Value input, weights, accumulators;
  Ix inputStart, inputStride, weightStart, panelStride, k;
  Ix accumulatorStart = {}, accumulatorStride = {}, accumulatorPanelStride = {};
  /// i1, or null.
  Value adds = {};
  /// Elements to what is prefetched, or null.
  Ix ahead = {};
  /// Sums to add at the end, and floats from one to the next; or null.
  Ix folds = {}, foldStride = {};
  /// Registers are few: see keepApart.
  bool fewRegisters = false;

  int64_t group() const { return kernel.pairs ? 2 : 1; }
  /// Elements from one group's prefetched line to the next one's.
  int64_t aheadStride() const { return kernel.aheadInOrder ? kernel.panels * lanes : kernel.weightStride; }

  /// The 16 weights of panel `p` at the `i`th k of group `g`, as f32.
  Value loadWeights(Ix g, int64_t p, int64_t i) {
    Ix at = weightStart + panelStride * p + g * kernel.weightStride;
    if (!kernel.pairs)
      return emitWiden(e, e.vload(weights, at));
    // The even element of a pair is the low half of 32 bits.
    auto ints = e.vector(e.getI32Type());
    Value pairs = vector::BitCastOp::create(e, ints, e.vload(weights, at, 2 * lanes));
    Value half = i == 0 ? Value(arith::ShLIOp::create(e, pairs, e.splatInt(ints, 16)))
                        : Value(arith::AndIOp::create(e, pairs, e.splatInt(ints, -65536)));
    return arith::BitcastOp::create(e, e.vector(e.getF32Type()), half);
  }

  /// Without it LLVM loads a pair of k once for both halves (or the next k's 16-bit weights with this one's), and then
  /// has no registers left: with 16 of them it spilled a sum of each product of one row, and half of the weights in
  /// tiles of six.
  void keepApart() {
    if (fewRegisters && !kernel.element.isF32())
      keepLoadsApart(e);
  }

  /// input[r][g * group + i] in all lanes.
  Value loadInput(Ix g, int64_t r, int64_t i) {
    Ix at = kernel.packedInput ? inputStart + g * (group() * kernel.rows) + (i * kernel.rows + r)
                               : inputStart + inputStride * r + g * group() + i;
    return e.broadcast(e.load(input, at));
  }

  /// One group of k.
  void step(Ix g, bool prefetch, SmallVectorImpl<Value> &sums) {
    SmallVector<Value> inputs(kernel.rows * group());
    for (int64_t p = 0; p < kernel.panels; ++p) {
      int64_t elementBits = kernel.element.getIntOrFloatBitWidth();
      if (prefetch && kernel.aheadInOrder) {
        // Panels that lie side by side share lines.
        if (p * lanes * elementBits % (64 * 8) == 0)
          e.prefetch(weights, weightStart + ahead + g * aheadStride() + p * lanes);
      } else if (prefetch) {
        Ix at = weightStart + panelStride * p + g * kernel.weightStride;
        e.prefetch(weights, ahead.value ? at + ahead : at + kernel.prefetchBytes * 8 / elementBits);
      }
      for (int64_t i = 0; i < group(); ++i) {
        if (i > 0)
          keepApart();
        Value weightsOfPanel = loadWeights(g, p, i);
        for (int64_t r = 0; r < kernel.rows; ++r) {
          Value &x = inputs[i * kernel.rows + r];
          if (!x)
            x = loadInput(g, r, i);
          Value &sum = sums[r * kernel.panels + p];
          sum = e.fma(x, weightsOfPanel, sum);
        }
      }
    }
  }

  /// Groups of k in one iteration: enough multiply-adds to make the loop's own
  /// instructions cheap.
  int64_t unroll() const {
    int64_t products = kernel.rows * kernel.panels * group(), result = 1;
    while (products * result < 8 && result < 4)
      result *= 2;
    return result;
  }

  void emit() {
    auto place = [&](int64_t r, int64_t p) {
      return accumulatorStart + accumulatorStride * r + accumulatorPanelStride * p;
    };
    SmallVector<Value> sums;
    for (int64_t r = 0; r < kernel.rows; ++r)
      for (int64_t p = 0; p < kernel.panels; ++p) {
        Value start = kernel.accumulate || adds ? e.vload(accumulators, place(r, p)) : e.zeros();
        // The condition is a scalar: a branch of its own around all loads would be as good.
        sums.push_back(adds ? Value(arith::SelectOp::create(e, adds, start, e.zeros())) : start);
      }
    Ix groups = (k + (group() - 1)) / group();
    Ix unrolled = groups / unroll() * unroll();
    // One prefetch for each line: the groups of 64 bytes.
    int64_t lineGroups = std::max<int64_t>(1, 64 * 8 / kernel.element.getIntOrFloatBitWidth() / aheadStride());
    auto body = [&](int64_t steps) {
      return [this, steps, lineGroups](Ix g, ValueRange carried) {
        SmallVector<Value> next(carried);
        for (int64_t i = 0; i < steps; ++i) {
          if (i > 0)
            keepApart();
          step(g + i, (kernel.prefetchBytes != 0 || ahead.value) && i % lineGroups == 0, next);
        }
        return next;
      };
    };
    sums = e.loop(e.c(0), unrolled, unroll(), sums, body(unroll()));
    if (unroll() > 1)
      sums = e.loop(unrolled, groups, 1, sums, body(1));
    Ix back = e.c(0);
    if (folds.value) {
      sums = e.loop(e.c(0), folds, 1, sums, [&](Ix fold, ValueRange carried) {
        SmallVector<Value> next;
        for (int64_t r = 0; r < kernel.rows; ++r)
          for (int64_t p = 0; p < kernel.panels; ++p) {
            Value before = e.vload(accumulators, place(r, p) - foldStride * (fold + 1));
            next.push_back(e.add(before, carried[r * kernel.panels + p]));
          }
        return next;
      });
      back = foldStride * folds;
    }
    for (int64_t r = 0; r < kernel.rows; ++r)
      for (int64_t p = 0; p < kernel.panels; ++p)
        e.vstore(sums[r * kernel.panels + p], accumulators, place(r, p) - back);
  }
};
} // namespace

void Kernels::product(Emitter &e, const MicroKernel &kernel, Value input, Ix inputStart, Ix inputStride, Value weights,
                      Ix weightStart, Ix panelStride, Ix k, Value accumulators, Ix accumulatorStart,
                      Ix accumulatorStride, Ix accumulatorPanelStride) {
  std::string name;
  llvm::raw_string_ostream(name) << "product_" << kernel.element << (kernel.pairs ? "_pairs" : "") << "_" << kernel.rows
                                 << "x" << kernel.panels << (kernel.packedInput ? "_packed" : "")
                                 << (kernel.accumulate || kernel.adds ? "_add" : "")
                                 << (kernel.prefetchBytes ? "_prefetch" : "");
  if (kernel.weightStride != (kernel.pairs ? 2 : 1) * lanes)
    name += "_stride" + std::to_string(kernel.weightStride);
  SmallVector<Value> arguments = {
      input, inputStart,   inputStride,      weights,           weightStart,           panelStride,
      k,     accumulators, accumulatorStart, accumulatorStride, accumulatorPanelStride};
  if (kernel.adds) {
    name += "_if";
    arguments.push_back(kernel.adds);
  }
  if (kernel.ahead) {
    name += kernel.aheadInOrder ? "_ahead_in_order" : "_ahead";
    arguments.push_back(kernel.ahead);
  }
  if (kernel.folds) {
    name += "_fold";
    arguments.append({kernel.folds, kernel.foldStride});
  }
  call(e, name, arguments, [&](Emitter &inner, ValueRange a) {
    TileEmitter tile{inner,          kernel,         a[0],           a[3],           a[7],
                     inner.ix(a[1]), inner.ix(a[2]), inner.ix(a[4]), inner.ix(a[5]), inner.ix(a[6]),
                     inner.ix(a[8]), inner.ix(a[9]), inner.ix(a[10])};
    ValueRange others = a.drop_front(11);
    auto next = [&] {
      Value value = others.front();
      others = others.drop_front();
      return value;
    };
    tile.fewRegisters = unit.registers <= 16;
    if (kernel.adds)
      tile.adds = next();
    if (kernel.ahead)
      tile.ahead = inner.ix(next());
    if (kernel.folds) {
      tile.folds = inner.ix(next());
      tile.foldStride = inner.ix(next());
    }
    tile.emit();
  });
}

void Kernels::widen(Emitter &e, Type element, bool pairs, Value weights, Ix start, Ix k, Value memory, Ix target) {
  MicroKernel kernel;
  kernel.element = element;
  kernel.pairs = pairs;
  kernel.weightStride = (pairs ? 2 : 1) * lanes;
  std::string name;
  llvm::raw_string_ostream(name) << "widen_" << element;
  call(e, name, {weights, start, k, memory, target}, [&](Emitter &f, ValueRange a) {
    TileEmitter tile{f, kernel, {}, a[0], {}, {}, {}, f.ix(a[1]), f.c(0), f.ix(a[2])};
    int64_t group = tile.group();
    f.loop(f.c(0), (tile.k + (group - 1)) / group, 1, [&](Ix g) {
      SmallVector<Value> values;
      for (int64_t i = 0; i < group; ++i)
        values.push_back(tile.loadWeights(g, 0, i));
      for (int64_t i = 0; i < group; ++i)
        f.vstore(values[i], a[3], f.ix(a[4]) + (g * group + i) * lanes);
    });
  });
}
