//===- Linear.cpp - Products with packed weights
//------------------------------------------------------------------===//
//
// Loops around the micro-kernels, from the outside: blocks of rows, packed once; groups of the worker's panels, whose
// sums lie in a block of scratch memory; segments of K; blocks of K; panels; register tiles, for which rows are cut
// greedily into 6, 4, 2 and 1 (or what the machine's registers allow). Sums are stored and loaded again between two
// blocks of K, in f32, which changes no bit. There are two ways through the panels of a group:
//
// One row is bound by the reads of weights. The group's panels are cut into four (AVX-512: eight) runs, which are read
// side by side: as many long forward streams keep more cache misses in flight than one, and a run goes on where a panel
// ends. The micro-kernels prefetch, across the ends of pages, where the machine's own prefetchers stop.
//
// Few rows are bound by either, and reads have to go on while tiles are computed. A panel's block of K (where registers
// hold more, as many as they do) stays in the level 1 cache for all tiles of rows; the first of them prefetches the
// whole next one, line by line.
//
// Many rows are bound by arithmetic. One panel's block of K is widened to f32, stays in the level 1 cache, and every
// tile of rows is multiplied with it; the next panel's weights are prefetched meanwhile. The block's rows of inputs for
// this block of K stay in the level 2 cache for all panels of the group.
//
// A tile of more than one row reads the input packed as [k][rows]: one address, and no row of a power-of-two stride
// competes with another for the same sets of a cache.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/LinearFrame.h"
#include "ingot_rt/abi.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace ingot::cpu {

/// From so many rows on weights are widened first: then that costs less than 6 % and saves as much in each tile.
static constexpr int64_t manyRows = 48;
/// Panels of a group: with one row, with few and with many.
static constexpr int64_t onePanels = 64, fewPanels = 16, manyPanels = 8;
/// K of a block, at most: many rows (16 KiB of a panel as f32).
static constexpr int64_t manyK = Kernels::widenedK;
/// Bytes of weights in a block of K of few rows, of the panels that are read side by side: with the next one and the
/// inputs of 16 rows they fill a level 1 cache of 32 KiB.
static constexpr int64_t fewBytes = 6144;
/// Partial sums of 8 segments that the fixed tree has open at a time.
static constexpr int64_t openSums = 4;
static_assert(INGOT_RT_K_SEGMENTS == 1 << (openSums - 1), "a tree of depth n has n + 1 sums open");
static_assert(std::max({onePanels, fewPanels * manyRows, manyPanels * Kernels::floatBlockRows}) * lanes * openSums <=
                  Kernels::blockFloats,
              "a group's sums fit");

/// Bytes ahead of what a product of one row reads that it prefetches (measured: half to twice as much is as good).
static constexpr int64_t prefetchBytes = 1024;

/// The body of a linear's function.
struct LinearEmitter : LinearFrame {
  using LinearFrame::LinearFrame;

  Ix paddedK, segmentLength;

  /// A group of panels and the rows they are multiplied with.
  struct Group {
    Ix firstRow, rows, firstUnit, units;
    bool many;
  };
  /// A block of K: its position in the input and in each panel's share of its segment, its length, and whether it
  /// adds to sums that are there.
  struct KBlock {
    Ix input, start, length;
    Value adds;
    /// Elements to the group's first panel in this segment, and from one panel to the next.
    Ix weights, panelStride;
    /// Position of the group's sums, [panel][row][lane].
    Ix sums;
    /// Where the first of the panels lies that are read after this block's.
    Ix next;
    /// Of a matrix with segments: how many earlier segments' sums are added to those of this block, and how far apart
    /// they lie.
    Ix folds, foldStride;
  };

  bool pairsOfK() const { return shape.element.isBF16(); }
  int64_t group() const { return pairsOfK() ? 2 : 1; }
  /// Runs of panels that are read side by side.
  int64_t streams() const { return kernels.tiles().back().panels; }
  /// Panels that a tile of four rows holds: those that few rows read side by side.
  int64_t fewSideBySide() const { return kernels.panelsOf(4); }
  int64_t fewK() const {
    int64_t bytes = fewSideBySide() * lanes * shape.element.getIntOrFloatBitWidth() / 8;
    return std::max<int64_t>(fewBytes / bytes, 64);
  }

  void emit();

  /// Whether tiles of so many rows read a packed copy of their input.
  bool packs(Tile size) const { return size.rows > 1 || shape.oddK; }
  void packRows(Ix firstRow, Ix rows);
  void packTile(Ix firstRow, Ix row, int64_t tileRows);
  void groups(Ix firstRow, Ix rows, IndexRange mine, Ix groupPanels, bool many);
  void sumGroup(const Group &group);
  Ix weightsOf(Ix firstUnit, Ix segment);
  void sumSegment(const Group &group, Ix segment, Ix sums, Ix folds);
  void oneRow(const Group &group, const KBlock &block);
  void fewRows(const Group &group, const KBlock &block);
  void manyRowsOf(const Group &group, const KBlock &block);
  void tile(const Group &group, const KBlock &block, Ix row, Tile size, Ix panel, Ix panelsApart, Ix ahead = {});
  void widenedTile(const Group &group, const KBlock &block, Ix row, Tile size, Ix panel);
  void storeGroup(const Group &group);

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

  /// Rows of a block: at most floatBlockRows, all packed copies of which fit, and all blocks of about the same size.
  Ix blockRows() {
    int64_t unit = kernels.tiles().front().rows;
    Ix fitting = e.c(kernels.packedFloats) / paddedK / unit * unit;
    Ix most = e.max(e.c(unit), e.min(fitting, e.c(Kernels::floatBlockRows / unit * unit)));
    Ix blocks = e.max(e.c(1), (in.rows + most - 1) / most);
    return e.max(e.c(unit), ((in.rows + blocks - 1) / blocks).roundUp(unit));
  }
};

/// Copies rows [row, row + tileRows) of the block as [k][tileRows]; an odd K of
/// a pair is filled up with zeros. Of four k, pairs of rows are transposed in registers.
void LinearEmitter::packTile(Ix firstRow, Ix row, int64_t tileRows) {
  static constexpr int64_t width = 4;
  Ix target = row * paddedK, begin = e.c(0);
  SmallVector<Ix> sources;
  for (int64_t r = 0; r < tileRows; ++r)
    sources.push_back((firstRow + row + e.c(r)) * in.input.stride);
  if (tileRows % 2 == 0) {
    begin = in.k / width * width;
    e.loop(e.c(0), begin, width, [&](Ix k) {
      // Of each two rows and two k a vector: k's pair, then the next one's.
      SmallVector<Value> pairs;
      for (int64_t r = 0; r < tileRows; r += 2) {
        Value even = e.vload(in.input.memory, sources[r] + k, width);
        Value odd = e.vload(in.input.memory, sources[r + 1] + k, width);
        for (int64_t i = 0; i < width; i += 2)
          pairs.push_back(
              vector::ShuffleOp::create(e, even, odd, ArrayRef<int64_t>{i, width + i, i + 1, width + i + 1}));
      }
      // A whole vector of two pairs at a time, in the order of memory: the pair of rows 2p and 2p + 1 at k + i is
      // number i * tileRows / 2 + p.
      int64_t rowPairs = tileRows / 2;
      for (int64_t number = 0; number < rowPairs * width; number += 2) {
        SmallVector<Value> sourceOf;
        SmallVector<int64_t> lanesOf;
        for (int64_t which = 0; which < 2; ++which) {
          int64_t i = (number + which) / rowPairs, p = (number + which) % rowPairs;
          sourceOf.push_back(pairs[p * (width / 2) + i / 2]);
          lanesOf.append({which * width + i % 2 * 2, which * width + i % 2 * 2 + 1});
        }
        e.vstore(vector::ShuffleOp::create(e, sourceOf[0], sourceOf[1], lanesOf), worker.scratch,
                 target + k * tileRows + number * 2);
      }
    });
  }
  e.loop(begin, in.k, 1, [&](Ix k) {
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

//===--------------------------------------------------------------------------------------------------------------===//
// A block of K
//===--------------------------------------------------------------------------------------------------------------===//

/// A register tile: rows from `row` of the block on, `size.panels` panels of the group from `panel` on, each
/// `panelsApart` after the one before. `ahead`: elements to what it prefetches, if that is not a constant.
void LinearEmitter::tile(const Group &group, const KBlock &block, Ix row, Tile size, Ix panel, Ix panelsApart,
                         Ix ahead) {
  Kernels::MicroKernel kernel;
  kernel.element = shape.element;
  kernel.rows = size.rows;
  kernel.panels = size.panels;
  kernel.pairs = pairsOfK();
  kernel.packedInput = packs(size);
  kernel.weightStride = lanes * this->group();
  kernel.prefetchBytes = ahead.value ? 0 : prefetchBytes;
  kernel.ahead = ahead.value;
  kernel.adds = block.adds;
  kernel.folds = block.folds.value;
  kernel.foldStride = block.foldStride.value;
  Value input = packs(size) ? worker.scratch : in.input.memory;
  Ix inputStart =
      packs(size) ? row * paddedK + block.input * size.rows : (group.firstRow + row) * in.input.stride + block.input;
  Ix panelSums = group.rows * lanes;
  kernels.product(e, kernel, input, inputStart, e.c(0), in.weights,
                  block.weights + panel * block.panelStride + block.start * lanes, block.panelStride * panelsApart,
                  block.length, worker.scratch, block.sums + panel * panelSums + row * lanes, e.c(lanes),
                  panelSums * panelsApart);
}

/// One panel of each run at a time.
void LinearEmitter::oneRow(const Group &group, const KBlock &block) {
  Tile size = kernels.tiles().back();
  Ix panels = group.units * unitPanels(), run = panels / streams();
  e.loop(e.c(0), run, 1, [&](Ix panel) { tile(group, block, e.c(0), size, panel, run); });
  e.loop(run * streams(), panels, 1, [&](Ix panel) { tile(group, block, e.c(0), {1, 1}, panel, e.c(1)); });
}

/// `fewSideBySide` panels at a time, each time with all tiles of rows.
void LinearEmitter::fewRows(const Group &group, const KBlock &block) {
  Ix panels = group.units * unitPanels();
  auto chunks = [&](int64_t chunk, Ix begin, Ix end) {
    e.loop(begin, end, chunk, [&](Ix panel) {
      Ix here = block.weights + panel * block.panelStride + block.start * lanes;
      Ix after = here + block.panelStride * chunk;
      Ix ahead = e.select(panel + chunk < panels, after, block.next) - here;
      cutRows(group.rows, [&](Tile size, Ix begin, Ix end) {
        int64_t width = std::min(size.panels, chunk);
        e.loop(begin, end, size.rows, [&](Ix row) {
          // What is here already costs nothing to ask for again.
          Ix distance = e.select(row == e.c(0), ahead, e.c(0));
          e.loop(e.c(0), e.c(chunk), width,
                 [&](Ix more) { tile(group, block, row, {size.rows, width}, panel + more, e.c(1), distance); });
        });
      });
    });
  };
  Ix whole = panels / fewSideBySide() * fewSideBySide();
  chunks(fewSideBySide(), e.c(0), whole);
  if (fewSideBySide() > 1)
    chunks(1, whole, panels);
}

/// A tile of rows and one panel, whose block of K is f32.
void LinearEmitter::widenedTile(const Group &group, const KBlock &block, Ix row, Tile size, Ix panel) {
  Kernels::MicroKernel kernel;
  kernel.element = e.getF32Type();
  kernel.rows = size.rows;
  kernel.packedInput = packs(size);
  kernel.adds = block.adds;
  kernel.folds = block.folds.value;
  kernel.foldStride = block.foldStride.value;
  bool widened = !shape.element.isF32();
  Value input = packs(size) ? worker.scratch : in.input.memory;
  Ix inputStart =
      packs(size) ? row * paddedK + block.input * size.rows : (group.firstRow + row) * in.input.stride + block.input;
  Ix weights = widened ? e.c(kernels.widenedStart) : block.weights + panel * block.panelStride + block.start * lanes;
  kernels.product(e, kernel, input, inputStart, e.c(0), widened ? worker.scratch : in.weights, weights, e.c(0),
                  block.length, worker.scratch, block.sums + (panel * group.rows + row) * lanes, e.c(lanes), e.c(0));
}

/// One panel after the other, each with all tiles of rows.
void LinearEmitter::manyRowsOf(const Group &group, const KBlock &block) {
  Ix panels = group.units * unitPanels();
  int64_t tileRows = kernels.tiles().front().rows, elementBytes = shape.element.getIntOrFloatBitWidth() / 8;
  int64_t lineElements = 64 / elementBytes;
  // Lines of the next panel to prefetch with each tile of this one.
  Ix lines = (block.length * lanes + (lineElements - 1)) / lineElements, tiles = e.max(e.c(1), group.rows / tileRows);
  Ix linesPerTile = (lines + tiles - 1) / tiles;
  e.loop(e.c(0), panels, 1, [&](Ix panel) {
    Ix weights = block.weights + panel * block.panelStride + block.start * lanes;
    if (!shape.element.isF32())
      kernels.widen(e, shape.element, pairsOfK(), in.weights, weights, block.length, worker.scratch,
                    e.c(kernels.widenedStart));
    // The last panel's next is the first of the block of K after it, which is read soon too; reading ahead of the end
    // of the weights touches nothing.
    Ix next = weights + block.panelStride;
    cutRows(group.rows, [&](Tile size, Ix begin, Ix end) {
      e.loop(begin, end, size.rows, [&](Ix row) {
        if (size.rows == tileRows) {
          Ix from = row / tileRows * linesPerTile;
          e.loop(from, e.min(from + linesPerTile, lines), 1,
                 [&](Ix line) { e.prefetch(in.weights, next + line * lineElements); });
        }
        widenedTile(group, block, row, size, panel);
      });
    });
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// A group
//===--------------------------------------------------------------------------------------------------------------===//

/// Elements to the first panel of the units from `firstUnit` on in a segment.
Ix LinearEmitter::weightsOf(Ix firstUnit, Ix segment) {
  Ix start = e.min(segment * segmentLength, in.k), extent = e.min(in.k - start, segmentLength);
  return features * start.roundUp(group()) + firstUnit * unitPanels() * lanes * extent.roundUp(group());
}

/// The group's sums over one segment of K, to which `folds` earlier segments' are added.
void LinearEmitter::sumSegment(const Group &group, Ix segment, Ix sums, Ix folds) {
  Ix start = e.min(segment * segmentLength, in.k), extent = e.min(in.k - start, segmentLength);
  KBlock block;
  block.weights = weightsOf(group.firstUnit, segment);
  block.panelStride = extent.roundUp(this->group()) * lanes;
  block.sums = sums;
  if (shape.segmented)
    block.foldStride = group.units * unitPanels() * group.rows * lanes;
  // What follows the last block of K: the next segment's, or the first of the next group's units.
  Ix following = e.select(segment + 1 < e.c(segments()), weightsOf(group.firstUnit, segment + 1),
                          weightsOf(group.firstUnit + group.units, e.c(0)));
  // Blocks of about the same even length. A segment may be empty: its sums are zeros.
  Ix longest = group.many ? e.c(manyK) : e.select(group.rows == e.c(1), e.max(extent, e.c(1)), e.c(fewK()));
  Ix count = e.max(e.c(1), (extent + longest - 1) / longest);
  Ix length = ((extent + count - 1) / count).roundUp(2);
  e.loop(e.c(0), count, 1, [&](Ix index) {
    block.start = e.min(index * length, extent);
    block.length = e.min(length, extent - block.start);
    block.input = start + block.start;
    block.adds = arith::CmpIOp::create(e, arith::CmpIPredicate::ne, index.value, e.c(0).value);
    Value goesOn = index + 1 < count;
    if (shape.segmented)
      block.folds = e.select(goesOn, e.c(0), folds);
    if (group.many) {
      manyRowsOf(group, block);
      return;
    }
    block.next = e.select(goesOn, block.weights + (block.start + block.length) * lanes, following);
    e.when(group.rows == e.c(1), [&] { oneRow(group, block); }, [&] { fewRows(group, block); });
  });
}

/// The group's sums over all of K, at the start of the block of sums. Segments are added by the fixed tree: what is
/// open after segment s are as many sums as s + 1 has bits, and the last two are added for each trailing one of s.
void LinearEmitter::sumGroup(const Group &group) {
  if (segments() == 1) {
    sumSegment(group, e.c(0), accumulators, {});
    return;
  }
  Ix floats = group.units * unitPanels() * group.rows * lanes;
  e.loop(e.c(0), e.c(segments()), 1, [&](Ix segment) {
    Ix top = e.ix(math::CtPopOp::create(e, segment.value));
    Value zeros = arith::XOrIOp::create(e, segment.value, e.c(-1).value);
    sumSegment(group, segment, accumulators + top * floats, e.ix(math::CountTrailingZerosOp::create(e, zeros)));
  });
}

/// A call of the function that makes results of a group's sums.
void LinearEmitter::storeGroup(const Group &group) {
  SmallVector<Value> arguments = argumentsOf(shape, in, worker);
  size_t own = arguments.size();
  arguments.append({group.firstRow, group.rows, group.firstUnit, group.units});
  kernels.call(e, nameOf(shape, in) + "_store_group", arguments, [&](Emitter &f, ValueRange a) {
    LinearFrame inner(f, kernels, shape);
    inner.bind(a, in);
    Ix firstRow = f.ix(a[own]), rows = f.ix(a[own + 1]), firstUnit = f.ix(a[own + 2]);
    f.loop(f.c(0), rows, 1, [&](Ix row) {
      f.loop(f.c(0), f.ix(a[own + 3]), 1, [&](Ix unit) {
        Ix at = inner.accumulators + (unit * inner.unitPanels() * rows + row) * lanes;
        Value value = f.vload(inner.worker.scratch, at);
        Value up = shape.gated ? f.vload(inner.worker.scratch, at + rows * lanes) : Value();
        inner.finish(firstRow, row, firstUnit + unit, value, up);
      });
    });
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// The whole
//===--------------------------------------------------------------------------------------------------------------===//

/// All groups of the worker's panels, for a block of rows.
void LinearEmitter::groups(Ix firstRow, Ix rows, IndexRange mine, Ix groupPanels, bool many) {
  Ix groupUnits = groupPanels / unitPanels(), units = mine.end - mine.begin;
  e.loop(e.c(0), (units + groupUnits - 1) / groupUnits, 1, [&](Ix index) {
    Ix first = mine.begin + index * groupUnits;
    Group group{firstRow, rows, first, e.min(groupUnits, mine.end - first), many};
    sumGroup(group);
    storeGroup(group);
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
    e.when(
        rows < e.c(manyRows),
        [&] { groups(firstRow, rows, mine, e.select(rows == e.c(1), e.c(onePanels), e.c(fewPanels)), false); },
        [&] { groups(firstRow, rows, mine, e.c(manyPanels), true); });
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
