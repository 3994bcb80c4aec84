//===- Linear.cpp - Products with packed weights
//------------------------------------------------------------------===//
//
// Loops around the micro-kernels, from the outside: blocks of rows whose packed
// copies stay in the level 2 cache; blocks of panels, contiguous for each
// worker; register tiles, for which rows are cut greedily into 6, 4, 2 and 1
// (or what the machine's registers allow). Accumulators pass through a few
// kilobytes of scratch memory to the epilogue, which costs one store and one
// load for each K multiply-adds and keeps the micro-kernels the same for every
// op.
//
// A tile of more than one row reads the input packed as [k][rows]: one address,
// and no row of a power-of-two stride competes with another for the same sets
// of a cache.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/VectorMath.h"
#include "ingot_rt/abi.h"
#include <cmath>

using namespace mlir;

namespace ingot::cpu {

/// Panels between two changes of the register tile, so that the tiles of a
/// block of rows share its weights in cache.
static constexpr int64_t panelBlock = 16;

/// The body of a linear's function.
struct LinearEmitter {
  Emitter &e;
  Kernels &kernels;
  const LinearShape &shape;
  LinearOperands in;
  Worker worker;

  // Derived.
  Ix paddedK, segmentLength, features;
  /// Positions in the scratch memory.
  Ix accumulators;

  bool pairsOfK() const { return shape.element.isBF16(); }
  int64_t group() const { return pairsOfK() ? 2 : 1; }
  int64_t segments() const { return shape.segmented ? INGOT_RT_K_SEGMENTS : 1; }
  /// Panels that belong together.
  int64_t unitPanels() const { return shape.gated ? 2 : 1; }

  void emit();

  // A linear's function and the one that stores a tile take the same arguments first.
  static std::string nameOf(const LinearShape &shape, const LinearOperands &operands);
  static SmallVector<Value> argumentsOf(const LinearShape &shape, const LinearOperands &operands, const Worker &worker);
  /// The other direction, inside the function: `outer` says which optional operands there are.
  void bind(ValueRange arguments, const LinearOperands &outer);

  /// Whether tiles of so many rows read a packed copy of their input.
  bool packs(Tile size) const { return size.rows > 1 || shape.oddK; }
  void packRows(Ix firstRow, Ix rows);
  void packTile(Ix firstRow, Ix row, int64_t tileRows);
  void tile(Ix firstRow, Ix row, Ix unit, Tile size, int64_t unitCount);
  void products(Ix inputStart, Value input, Ix panel, Tile size, int64_t panelCount);
  void storeTile(Ix firstRow, Ix blockRow, Ix unit, Ix tileRows, Ix rowFloats, Ix unitCount);
  void epilogue(Ix firstRow, Ix blockRow, Ix unit, Tile size, int64_t unitCount);
  Value combine(Ix at, Ix segmentStride);
  void panels(Ix firstRow, Ix rows, Ix unitBegin, Ix unitEnd);
  void initArgmax(Ix rows);
  void updateArgmax(Ix row, Ix unit, Value value);
  void reduceArgmax(Ix firstRow, Ix rows);

  /// Calls `body(tile, begin, end)` for each size of tile with the rows of [0,
  /// rows) that it takes.
  void cutRows(Ix rows, llvm::function_ref<void(Tile, Ix, Ix)> body) {
    Ix begin = e.c(0);
    for (Tile size : kernels.tiles()) {
      Ix end = size.rows == 1 ? rows : begin + (rows - begin) / size.rows * size.rows;
      body(size, begin, end);
      begin = end;
    }
  }

  /// Rows of a block, given those that are left: all of one block's packed
  /// copies fit.
  Ix blockRows() {
    int64_t unit = kernels.tiles().front().rows;
    Ix fitting = e.c(kernels.packedFloats) / paddedK / unit * unit;
    return e.max(e.c(unit), e.min(fitting, e.c(Kernels::maxBlockRows / unit * unit)));
  }
};

/// Copies rows [row, row + tileRows) of the block as [k][tileRows]; an odd K of
/// a pair is filled up with zeros.
void LinearEmitter::packTile(Ix firstRow, Ix row, int64_t tileRows) {
  Ix target = row * paddedK;
  SmallVector<Ix> sources;
  for (int64_t r = 0; r < tileRows; ++r)
    sources.push_back((firstRow + row + e.c(r)) * in.input.stride);
  e.loop(e.c(0), in.k, 1, [&](Ix k) {
    for (int64_t r = 0; r < tileRows; ++r)
      e.store(e.load(in.input.memory, sources[r] + k), worker.scratch, target + k * tileRows + r);
  });
  if (shape.oddK)
    e.loop(in.k, in.k.roundUp(group()), 1, [&](Ix k) {
      for (int64_t r = 0; r < tileRows; ++r)
        e.store(e.f32(0), worker.scratch, target + k * tileRows + r);
    });
}

void LinearEmitter::packRows(Ix firstRow, Ix rows) {
  cutRows(rows, [&](Tile size, Ix begin, Ix end) {
    if (packs(size))
      e.loop(begin, end, size.rows, [&](Ix row) { packTile(firstRow, row, size.rows); });
  });
}

/// Accumulators of `size` at the panels from `panel` on, for each segment:
/// [segment][row][panel][lane].
void LinearEmitter::products(Ix inputStart, Value input, Ix panel, Tile size, int64_t panelCount) {
  Kernels::MicroKernel kernel;
  kernel.element = shape.element;
  kernel.rows = size.rows;
  kernel.panels = panelCount;
  kernel.pairs = pairsOfK();
  kernel.packedInput = packs(size);
  kernel.weightStride = lanes * group();
  int64_t accumulatorFloats = size.rows * size.panels * lanes;
  auto emitSegment = [&](Ix segment) {
    Ix start = e.min(segment * segmentLength, in.k), extent = e.min(in.k - start, segmentLength);
    Ix padded = extent.roundUp(group());
    Ix weights = features * start.roundUp(group()) + panel * lanes * padded;
    kernels.product(e, kernel, input, inputStart + start * size.rows, e.c(0), in.weights, weights, padded * lanes,
                    extent, worker.scratch, accumulators + segment * accumulatorFloats, e.c(size.panels * lanes));
  };
  if (segments() == 1)
    emitSegment(e.c(0));
  else
    e.loop(e.c(0), e.c(segments()), 1, emitSegment);
}

/// The sum of the segments by the fixed tree.
Value LinearEmitter::combine(Ix at, Ix segmentStride) {
  SmallVector<Value> parts;
  for (int64_t s = 0; s < segments(); ++s)
    parts.push_back(e.vload(worker.scratch, at + segmentStride * s));
  for (size_t n = parts.size(); n > 1; n /= 2)
    for (size_t i = 0; i < n / 2; ++i)
      parts[i] = e.add(parts[2 * i], parts[2 * i + 1]);
  return parts[0];
}

/// Bias, activation, residual and the store of a tile in the accumulators: the body of a function of its own, which all
/// sizes of tiles share.
void LinearEmitter::storeTile(Ix firstRow, Ix blockRow, Ix unit, Ix tileRows, Ix rowFloats, Ix unitCount) {
  Ix segmentStride = tileRows * rowFloats, row = firstRow + blockRow;
  auto emitOne = [&](Ix r, Ix u) {
    Ix at = accumulators + r * rowFloats + u * (unitPanels() * lanes), column = (unit + u) * lanes;
    Value value = combine(at, segmentStride);
    if (in.bias)
      value = e.add(value, e.vload(in.bias, column));
    if (shape.gated) {
      Value up = combine(at + lanes, segmentStride);
      if (in.bias)
        up = e.add(up, e.vload(in.bias, in.n + column));
      value = e.mul(emitSiLU(e, value), up);
    }
    if (in.residual)
      value = e.add(value, e.vload(in.residual->memory, (row + r) * in.residual->stride + column));
    if (shape.argmax)
      updateArgmax(blockRow + r, unit + u, value);
    else
      e.vstore(value, in.result.memory, (row + r) * in.result.stride + column);
  };
  e.loop(e.c(0), tileRows, 1, [&](Ix r) { e.loop(e.c(0), unitCount, 1, [&](Ix u) { emitOne(r, u); }); });
}

void LinearEmitter::epilogue(Ix firstRow, Ix blockRow, Ix unit, Tile size, int64_t unitCount) {
  SmallVector<Value> arguments = argumentsOf(shape, in, worker);
  size_t own = arguments.size();
  arguments.append({firstRow, blockRow, unit, e.c(size.rows), e.c(size.panels * lanes), e.c(unitCount)});
  kernels.call(e, nameOf(shape, in) + "_store", arguments, [&](Emitter &f, ValueRange a) {
    LinearEmitter inner{f, kernels, shape, {}, {}, {}, {}, {}, {}};
    inner.bind(a, in);
    inner.storeTile(f.ix(a[own]), f.ix(a[own + 1]), f.ix(a[own + 2]), f.ix(a[own + 3]), f.ix(a[own + 4]),
                    f.ix(a[own + 5]));
  });
}

/// One register tile: `unitCount` units from `unit` on, rows from `row` of the
/// block on.
void LinearEmitter::tile(Ix firstRow, Ix row, Ix unit, Tile size, int64_t unitCount) {
  Value input = packs(size) ? worker.scratch : in.input.memory;
  Ix inputStart = packs(size) ? row * paddedK : (firstRow + row) * in.input.stride;
  int64_t panelCount = unitCount * unitPanels();
  if (panelCount <= size.panels) {
    products(inputStart, input, unit * unitPanels(), size, panelCount);
    epilogue(firstRow, row, unit, size, unitCount);
    return;
  }
  // A pair of panels in a tile of one panel: one after the other, side by side
  // in the accumulators.
  Tile wide = {size.rows, panelCount};
  Ix first = accumulators;
  for (int64_t p = 0; p < panelCount; ++p) {
    accumulators = first + p * lanes;
    products(inputStart, input, unit * unitPanels() + p, wide, 1);
  }
  accumulators = first;
  epilogue(firstRow, row, unit, wide, unitCount);
}

//===--------------------------------------------------------------------------------------------------------------===//
// The largest feature
//===--------------------------------------------------------------------------------------------------------------===//

/// Per row of the block and lane: the largest value so far and its feature.
/// Panels come in ascending order, so that the first of equals stays.
void LinearEmitter::updateArgmax(Ix row, Ix unit, Value value) {
  auto floats = e.vector(e.getF32Type()), ints = e.vector(e.getI32Type());
  Ix at = kernels.argmaxState(e) + row * (2 * lanes);
  Value feature = arith::AddIOp::create(e, e.broadcast(e.toI32(unit * lanes)), e.iota());
  Value inside = arith::CmpIOp::create(e, arith::CmpIPredicate::slt, feature, e.broadcast(e.toI32(in.n)));
  Value best = e.vload(worker.scratch, at);
  Value bestFeature = arith::BitcastOp::create(e, ints, e.vload(worker.scratch, at + lanes));
  Value better = arith::AndIOp::create(e, inside, e.compare(arith::CmpFPredicate::OGT, value, best));
  e.vstore(e.choose(better, value, best), worker.scratch, at);
  Value chosen = e.choose(better, feature, bestFeature);
  e.vstore(arith::BitcastOp::create(e, floats, chosen), worker.scratch, at + lanes);
}

/// Before a block of rows: no largest value yet.
void LinearEmitter::initArgmax(Ix rows) {
  e.loop(e.c(0), rows, 1, [&](Ix row) {
    Ix at = kernels.argmaxState(e) + row * (2 * lanes);
    e.vstore(e.splat(e.vector(e.getF32Type()), -HUGE_VAL), worker.scratch, at);
    e.vstore(e.zeros(), worker.scratch, at + lanes);
  });
}

/// After a block of rows: each worker's lanes to one value and id (of equal
/// values the lowest id), then all workers'.
void LinearEmitter::reduceArgmax(Ix firstRow, Ix rows) {
  auto ints = e.vector(e.getI32Type());
  auto bits = [&](Type type, Value value) -> Value { return arith::BitcastOp::create(e, type, value); };
  e.loop(e.c(0), rows, 1, [&](Ix row) {
    Ix at = kernels.argmaxState(e) + row * (2 * lanes);
    Value values = e.vload(worker.scratch, at), ids = bits(ints, e.vload(worker.scratch, at + lanes));
    Value best = emitMaxOfLanes(e, values);
    Value equal = e.compare(arith::CmpFPredicate::OEQ, values, e.broadcast(best));
    Value id = emitMinOfLanes(e, e.choose(equal, ids, e.splatInt(ints, INT32_MAX)));
    e.store(best, worker.scratch, kernels.argmaxPartial(e) + row * 2);
    e.store(bits(e.getF32Type(), id), worker.scratch, kernels.argmaxPartial(e) + row * 2 + 1);
  });
  kernels.barrier(e, worker.barrier, worker.id);
  e.loop(e.share(rows, worker.id, worker.count), [&](Ix row) {
    auto partial = [&](Ix of) { return of * worker.sharedStride + kernels.argmaxPartial(e) + row * 2; };
    SmallVector<Value> init = {e.load(worker.shared, partial(e.c(0))), e.load(worker.shared, partial(e.c(0)) + 1)};
    // Workers hold ascending features.
    init = e.loop(e.c(1), worker.count, 1, init, [&](Ix of, ValueRange best) {
      Value value = e.load(worker.shared, partial(of)), id = e.load(worker.shared, partial(of) + 1);
      Value better = e.compare(arith::CmpFPredicate::OGT, value, best[0]);
      return SmallVector<Value>{e.choose(better, value, best[0]), e.choose(better, id, best[1])};
    });
    e.store(init[0], in.argmaxValue, firstRow + row);
    e.store(bits(e.getI32Type(), init[1]), in.argmax, firstRow + row);
  });
  kernels.barrier(e, worker.barrier, worker.id);
}

//===--------------------------------------------------------------------------------------------------------------===//
// The whole
//===--------------------------------------------------------------------------------------------------------------===//

/// Every tile of the panels [unitBegin, unitEnd), for a block of rows.
void LinearEmitter::panels(Ix firstRow, Ix rows, Ix unitBegin, Ix unitEnd) {
  cutRows(rows, [&](Tile size, Ix begin, Ix end) {
    int64_t unitCount = std::max<int64_t>(size.panels / unitPanels(), 1);
    Ix whole = unitBegin + (unitEnd - unitBegin) / unitCount * unitCount;
    e.when(begin < end, [&] {
      e.loop(unitBegin, whole, unitCount, [&](Ix unit) {
        e.loop(begin, end, size.rows, [&](Ix row) { tile(firstRow, row, unit, size, unitCount); });
      });
      if (unitCount > 1)
        e.loop(whole, unitEnd, 1,
               [&](Ix unit) { e.loop(begin, end, size.rows, [&](Ix row) { tile(firstRow, row, unit, size, 1); }); });
    });
  });
}

void LinearEmitter::emit() {
  Ix units = (in.n + (lanes - 1)) / lanes;
  IndexRange mine = e.share(units, worker.id, worker.count);
  Ix block = blockRows();
  Ix blocks = (in.rows + block - 1) / block;
  e.loop(e.c(0), blocks, 1, [&](Ix index) {
    Ix firstRow = index * block, rows = e.min(block, in.rows - firstRow);
    packRows(firstRow, rows);
    if (shape.argmax)
      initArgmax(rows);
    e.loop(mine.begin, mine.end, panelBlock,
           [&](Ix unit) { panels(firstRow, rows, unit, e.min(unit + panelBlock, mine.end)); });
    if (shape.argmax)
      reduceArgmax(firstRow, rows);
  });
}

std::string LinearEmitter::nameOf(const LinearShape &shape, const LinearOperands &operands) {
  std::string name = "linear_";
  llvm::raw_string_ostream(name) << shape.element << (shape.segmented ? "_segments" : "") << (shape.oddK ? "_odd" : "")
                                 << (shape.gated ? "_gated_silu" : "") << (operands.bias ? "_bias" : "")
                                 << (operands.residual ? "_residual" : "") << (shape.argmax ? "_argmax" : "");
  return name;
}

SmallVector<Value> LinearEmitter::argumentsOf(const LinearShape &shape, const LinearOperands &operands,
                                              const Worker &worker) {
  SmallVector<Value> arguments = {
      operands.input.memory, operands.input.stride, operands.weights, operands.n, operands.k, operands.rows, worker.id,
      worker.count,          worker.scratch};
  if (operands.bias)
    arguments.push_back(operands.bias);
  if (operands.residual)
    arguments.append({operands.residual->memory, operands.residual->stride});
  if (shape.argmax)
    arguments.append({operands.argmax, operands.argmaxValue, worker.shared, worker.sharedStride, worker.barrier});
  else
    arguments.append({operands.result.memory, operands.result.stride});
  return arguments;
}

void LinearEmitter::bind(ValueRange arguments, const LinearOperands &outer) {
  size_t next = 0;
  auto value = [&] { return arguments[next++]; };
  auto index = [&] { return e.ix(arguments[next++]); };
  in.input.memory = value();
  in.input.stride = index();
  in.weights = value();
  in.n = index();
  in.k = index();
  in.rows = index();
  worker.id = index();
  worker.count = index();
  worker.scratch = value();
  if (outer.bias)
    in.bias = value();
  if (outer.residual) {
    Value memory = value();
    in.residual = Rows{memory, index()};
  }
  if (shape.argmax) {
    in.argmax = value();
    in.argmaxValue = value();
    worker.shared = value();
    worker.sharedStride = index();
    worker.barrier = value();
  } else {
    in.result.memory = value();
    in.result.stride = index();
  }
  paddedK = in.k.roundUp(2);
  segmentLength = shape.segmented ? ((in.k + (segments() - 1)) / segments()).roundUp(2) : in.k;
  features = in.n.roundUp(lanes) * unitPanels();
  accumulators = e.c(kernels.packedFloats);
}

void Kernels::linear(Emitter &e, const LinearShape &shape, const LinearOperands &operands, const Worker &worker) {
  call(e, LinearEmitter::nameOf(shape, operands), LinearEmitter::argumentsOf(shape, operands, worker),
       [&](Emitter &inner, ValueRange arguments) {
         LinearEmitter emitter{inner, *this, shape, {}, {}, {}, {}, {}, {}};
         emitter.bind(arguments, operands);
         emitter.emit();
       });
}

} // namespace ingot::cpu
