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

#include "compiler/Codegen/CPU/LinearFrame.h"
#include "ingot_rt/abi.h"

using namespace mlir;

namespace ingot::cpu {

/// Panels between two changes of the register tile, so that the tiles of a
/// block of rows share its weights in cache.
static constexpr int64_t panelBlock = 16;

/// The body of a linear's function.
struct LinearEmitter : LinearFrame {
  using LinearFrame::LinearFrame;

  Ix paddedK, segmentLength;

  bool pairsOfK() const { return shape.element.isBF16(); }
  int64_t group() const { return pairsOfK() ? 2 : 1; }

  void emit();

  /// Whether tiles of so many rows read a packed copy of their input.
  bool packs(Tile size) const { return size.rows > 1 || shape.oddK; }
  void packRows(Ix firstRow, Ix rows);
  void packTile(Ix firstRow, Ix row, int64_t tileRows);
  void tile(Ix firstRow, Ix row, Ix unit, Tile size, int64_t unitCount);
  void products(Ix inputStart, Value input, Ix panel, Tile size, int64_t panelCount);
  void panels(Ix firstRow, Ix rows, Ix unitBegin, Ix unitEnd);

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
  paddedK = in.k.roundUp(2);
  segmentLength = shape.segmented ? ((in.k + (segments() - 1)) / segments()).roundUp(2) : in.k;
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

void Kernels::linear(Emitter &e, const LinearShape &shape, const LinearOperands &operands, const Worker &worker) {
  call(e, LinearEmitter::nameOf(shape, operands), LinearEmitter::argumentsOf(shape, operands, worker),
       [&](Emitter &inner, ValueRange arguments) {
         LinearEmitter emitter(inner, *this, shape);
         emitter.bind(arguments, operands);
         emitter.emit();
       });
}

} // namespace ingot::cpu
