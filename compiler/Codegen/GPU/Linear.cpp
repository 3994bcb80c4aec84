//===- Linear.cpp - Products with packed weights ------------------------------------------------------------------===//
//
// Of f32 weights; those of 16 bits go to tensor cores (TensorLinear.cpp). A block computes one unit of features (a
// panel of 16, or the two panels of a pair) for a tile of rows. Its 128 threads are 16 features times 8 slices of K: a
// slice is a segment of K where the weights are cut into segments, else every eighth element. A thread's sum is one
// chain of fused multiply-adds over its slice in ascending order, for every row of the tile, with one load of the
// weight for all of them; the eight slices meet in shared memory and are added by the tree ((0+1)+(2+3))+((4+5)+(6+7)).
// The order of a row's sum is thereby the same in tiles of one row and of eight.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/VectorMath.h"
#include "compiler/Codegen/GPU/DeviceKernels.h"
#include "ingot_rt/abi.h"

using namespace mlir;

namespace ingot::gpu {

using cpu::lanes;

static constexpr int64_t sliceCount = blockThreads / lanes;
static_assert(sliceCount == INGOT_RT_K_SEGMENTS, "a slice of threads for each segment of K");

namespace {
/// The body of a linear's kernel for tiles of `tileRows` rows.
struct LinearKernel {
  DeviceEmitter &d;
  const DeviceLinear &shape;
  int64_t tileRows;
  bool hasBias, hasResidual;
  DeviceMemory partials = {};

  int64_t panels() const { return shape.gated ? 2 : 1; }

  /// Where slice `slice`'s sums of panel `panel` and row `row` of the tile lie among the partial sums.
  Ix partialAt(Ix slice, int64_t panel, Ix row) { return ((slice * panels() + panel) * tileRows + row) * lanes; }

  void slices(Ix unit, Ix firstRow);
  void epilogue(Ix unit, Ix firstRow);
  void emit();
};
} // namespace

void LinearKernel::slices(Ix unit, Ix firstRow) {
  Ix feature = d.thread() % lanes, slice = d.thread() / lanes, k = d.index("k");
  Ix start = d.c(0), extent = k, begin = slice;
  if (shape.segmented) {
    Ix length = ((k + (INGOT_RT_K_SEGMENTS - 1)) / INGOT_RT_K_SEGMENTS).roundUp(2);
    start = d.min(slice * length, k);
    extent = d.min(k - start, length);
    begin = d.c(0);
  }
  Ix features = d.index("n").roundUp(lanes) * panels();
  SmallVector<Ix> weightStart, inputStart;
  for (int64_t p = 0; p < panels(); ++p)
    weightStart.push_back(features * start + (unit * panels() + p) * lanes * extent + feature);
  // Rows beyond the last repeat it; nobody stores their sums.
  for (int64_t r = 0; r < tileRows; ++r)
    inputStart.push_back(d.min(firstRow + r, d.index("rows") - 1) * d.index("input_stride") + start);
  SmallVector<Value> sums(panels() * tileRows, d.f32(0));
  sums = d.loop(begin, extent, shape.segmented ? 1 : sliceCount, sums, [&](Ix at, ValueRange before) {
    SmallVector<Value> after(before), weights;
    for (int64_t p = 0; p < panels(); ++p)
      weights.push_back(d.load(d.memory("weights"), weightStart[p] + at * lanes));
    for (int64_t r = 0; r < tileRows; ++r) {
      Value x = d.load(d.memory("input"), inputStart[r] + at);
      for (int64_t p = 0; p < panels(); ++p)
        after[p * tileRows + r] = d.fma(x, weights[p], after[p * tileRows + r]);
    }
    return after;
  });
  for (int64_t p = 0; p < panels(); ++p)
    for (int64_t r = 0; r < tileRows; ++r)
      d.store(sums[p * tileRows + r], partials, partialAt(slice, p, d.c(r)) + feature);
}

void LinearKernel::epilogue(Ix unit, Ix firstRow) {
  Ix feature = d.thread() % lanes, tileRow = d.thread() / lanes;
  Ix row = firstRow + tileRow, column = unit * lanes + feature, n = d.index("n");
  Value mine = arith::AndIOp::create(d, tileRow < d.c(tileRows), row < d.index("rows"));
  mine = arith::AndIOp::create(d, mine, column < n);
  auto combine = [&](int64_t panel) {
    SmallVector<Value> parts;
    for (int64_t s = 0; s < sliceCount; ++s)
      parts.push_back(d.load(partials, partialAt(d.c(s), panel, tileRow) + feature));
    for (size_t count = parts.size(); count > 1; count /= 2)
      for (size_t i = 0; i < count / 2; ++i)
        parts[i] = d.add(parts[2 * i], parts[2 * i + 1]);
    return parts[0];
  };
  d.when(mine, [&] {
    Value value = combine(0);
    if (hasBias)
      value = d.add(value, d.load(d.memory("bias"), column));
    if (shape.gated) {
      Value up = combine(1);
      if (hasBias)
        up = d.add(up, d.load(d.memory("bias"), n + column));
      value = d.mul(d.silu(value), up);
    }
    if (hasResidual)
      value = d.add(value, d.load(d.memory("residual"), row * d.index("residual_stride") + column));
    d.store(value, d.memory("result"), row * d.index("result_stride") + column);
  });
}

void LinearKernel::emit() {
  Ix unit = d.block(0), firstRow = d.block(1) * tileRows;
  partials = d.shared("partial sums", d.getF32Type(), sliceCount * panels() * tileRows * lanes);
  slices(unit, firstRow);
  d.barrier("sums of all slices");
  epilogue(unit, firstRow);
}

void DeviceKernels::linear(cpu::Emitter &e, const DeviceLinear &linear) {
  SmallVector<Argument> arguments;
  append(arguments, "input", "input_stride", linear.input);
  arguments.emplace_back("weights", linear.weights);
  if (linear.bias)
    arguments.emplace_back("bias", *linear.bias);
  if (linear.residual)
    append(arguments, "residual", "residual_stride", *linear.residual);
  append(arguments, "result", "result_stride", linear.result);
  arguments.emplace_back("n", linear.n);
  arguments.emplace_back("k", linear.k);
  arguments.emplace_back("rows", linear.rows);
  std::string name = "linear_";
  const bool tensor = !linear.element.isF32();
  llvm::raw_string_ostream(name) << linear.element << (linear.segmented ? "_segments" : "")
                                 << (tensor && linear.partialStep ? "_partial" : "")
                                 << (linear.gated ? "_gated_silu" : "") << (linear.bias ? "_bias" : "")
                                 << (linear.residual ? "_residual" : "");
  if (tensor)
    tensorLinear(e, linear, arguments, name);
  else
    plainLinear(e, linear, arguments, name);
}

void DeviceKernels::plainLinear(cpu::Emitter &e, const DeviceLinear &linear, ArrayRef<Argument> arguments,
                                const std::string &name) {
  Ix units = (linear.n + (lanes - 1)) / lanes;
  auto launchTiles = [&](int64_t tileRows) {
    launch(e, name + "_rows" + std::to_string(tileRows), arguments, {units, (linear.rows + (tileRows - 1)) / tileRows},
           [&](DeviceEmitter &d) {
             LinearKernel{d, linear, tileRows, linear.bias.has_value(), linear.residual.has_value()}.emit();
           });
  };
  // One row alone would waste seven eighths of a tile.
  e.when(linear.rows == e.c(1), [&] { launchTiles(1); }, [&] { launchTiles(blockThreads / lanes); });
}

} // namespace ingot::gpu
