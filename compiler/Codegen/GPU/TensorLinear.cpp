//===- TensorLinear.cpp - Products with 16-bit weights on tensor cores --------------------------------------------===//
//
// mma.sync with features as M and rows of activations as N = 8, so that one row pads columns, which cost nothing, and
// no weights. K goes in steps of 32; a thread's share of a step of a panel lies in the panel as mma wants it (PTX ISA,
// "Matrix Fragments for mma.m16n8k16"), so that a load brings registers: of bf16 8 bytes, the pairs (k, k + 1) of two
// neighbouring features; of f16 4 bytes, two neighbouring features. Of a panel's 16 features row g of M is the 2g-th
// and row g + 8 the one behind it.
//
// Activations are f32 and stay so: an activation is the sum of three numbers of bf16 (of tf32, for f16 weights), the
// first being its upper bits, the second those of what is left, the third the rest. A product is three products of
// fragments, least first, each of whose terms is exact; the sums are those of tensor cores in f32.
//
// One result: K is cut into eight slices, segments where the weights have segments, else whole steps in equal numbers.
// A slice is one chain of mma in ascending order that starts from zero; the slices are added in ascending order. Two
// kernels do this. For at most 8 rows each of eight warps takes a slice of the same panels, and
// the slices meet in shared memory; each thread has a queue of cp.async of what it will read itself, since registers
// would not do: ptxas moves loads behind the products that wait for earlier ones. For more rows a block takes 8 panels
// and 64 rows, cp.async brings a step of both into one of three stages of shared memory while others are computed, and
// every warp walks over all slices. What a row's result goes through is the same in both, bit for bit.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/VectorMath.h"
#include "compiler/Codegen/GPU/DeviceKernels.h"
#include "ingot_rt/abi.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace ingot::gpu {

using cpu::lanes;

static constexpr int64_t sliceCount = INGOT_RT_K_SEGMENTS;
/// Elements of K of a step, and of an N of mma.
static constexpr int64_t stepLength = 32, tileRows = 8;
static constexpr int64_t threads = 256;
static_assert(threads / warpThreads == sliceCount, "a warp for each slice");
/// Numbers of 16 bits, or of tf32, that an activation is the sum of.
static constexpr int partCount = 3;
/// Bytes of a copy, which are of a panel's row of bf16 a quarter.
static constexpr int64_t chunkBytes = 16;

// A block of the kernel for many rows: panels, rows, stages; and what one of its warps has.
static constexpr int64_t blockPanels = 8, blockRows = 64, stages = 3;
static constexpr int64_t warpPanels = 2, warpColumns = 4;
static constexpr int64_t panelChunks = stepLength * lanes * 2 / chunkBytes, rowChunks = stepLength * 4 / chunkBytes;
static_assert(blockPanels / warpPanels * (blockRows / tileRows / warpColumns) * warpThreads == threads,
              "a warp for each part of a block");
static_assert(stages * (blockPanels * panelChunks + blockRows * rowChunks) * chunkBytes <= 48 * 1024,
              "what every GPU gives without being asked");

namespace {

using Values = SmallVector<Value>;

/// What both kernels are made of.
struct TensorKernel {
  DeviceEmitter &d;
  const DeviceLinear &shape;

  int64_t panels() const { return shape.gated ? 2 : 1; }
  /// Elements of K that lie together in a panel.
  int64_t group() const { return shape.element.isBF16() ? 2 : 1; }
  /// Rows of a panel (of `group` elements of K) in a step, and products of fragments.
  int64_t stepRows() const { return stepLength / group(); }
  int64_t products() const { return stepRows() / 8; }

  // A thread's place in fragments.
  Ix outer() { return d.lane() / 4; }
  Ix inner() { return d.lane() % 4; }

  // Slices of K. All are as long as the first but the last ones.
  Ix sliceLength() {
    Ix k = d.index("k");
    if (shape.segmented)
      return ((k + (sliceCount - 1)) / sliceCount).roundUp(2);
    return (k + (sliceCount * stepLength - 1)) / (sliceCount * stepLength) * stepLength;
  }
  Ix sliceStart(Ix slice) { return d.min(slice * sliceLength(), d.index("k")); }
  Ix sliceExtent(Ix slice) { return d.min(d.index("k") - sliceStart(slice), sliceLength()); }
  static Ix stepsOf(Ix extent) { return (extent + (stepLength - 1)) / stepLength; }
  /// Features of all panels.
  Ix allFeatures() { return d.index("n").roundUp(lanes) * panels(); }
  /// Where the rows of `panel` in a slice start, in elements.
  Ix weightsOf(Ix panel, Ix slice) {
    Ix start = sliceStart(slice).roundUp(group());
    if (shape.segmented)
      return allFeatures() * start + panel * lanes * sliceExtent(slice).roundUp(group());
    return panel * lanes * d.index("k").roundUp(group()) + start * lanes;
  }

  // Values of registers.
  Value bits(Value x) { return arith::BitcastOp::create(d, d.getI32Type(), x); }
  Value float32(Value x) { return arith::BitcastOp::create(d, d.getF32Type(), x); }
  Value keep(Value word, uint32_t mask) { return arith::AndIOp::create(d, word, d.i32(static_cast<int32_t>(mask))); }
  Value shiftRight(Value word, int64_t count) { return arith::ShRUIOp::create(d, word, d.i32(count)); }
  /// The type of a load of weights: of `group` words.
  Type wordsType() { return group() == 1 ? Type(d.getI32Type()) : Type(d.vector(d.getI32Type(), group())); }
  Values extract(Value vector, int64_t count);

  /// The registers of A of a product: `low` and `high` are the words of the rows t and t + 4 of eight.
  Values weightFragment(ArrayRef<Value> low, ArrayRef<Value> high);
  /// The register of B of each part, of `group` activations.
  Values parts(ArrayRef<Value> x);
  /// sums[panel] += the product of step's weights [panel][product][2] with activations [product][2], both as loaded.
  void multiply(ArrayRef<SmallVector<Values>> weights, ArrayRef<Values> activations, MutableArrayRef<Values> sums);

  /// Stores a result: of one feature and row, given the sums of the panels.
  void finish(ArrayRef<Value> sums, Ix row, Ix column);
};

/// At most 8 rows: a block has one unit of features (a panel, or the pair of a gate).
struct FewRowsKernel : TensorKernel {
  /// [slice][panel][row][feature]
  DeviceMemory partials = {};
  /// [half step in turn][panel][load][thread]: a queue for each thread, which is its own.
  DeviceMemory queue = {};
  SmallVector<Ix> weightStart = {};

  Ix partialAt(Ix slice, int64_t panel, Ix row) { return ((slice * panels() + panel) * tileRows + row) * lanes; }
  // K goes in half steps here, so that two panels' queues are no shorter in time than one's.
  static constexpr int64_t halfLength = stepLength / 2;
  int64_t halfRows() const { return halfLength / group(); }
  int64_t halfLoads() const { return halfRows() / 4; }
  int64_t depth() const { return 8 / panels(); }
  Ix queueAt(Ix number, int64_t panel, int64_t load) {
    Ix place = (number % depth() * panels() + panel) * halfLoads() + load;
    return (place * threads + d.thread()) * (2 * group());
  }

  Values loadActivations(Ix start, Ix k, Ix extent);
  void copyHalf(Ix number, Ix halves, Ix rows);
  void chain(Ix unit, Ix firstRow);
  void emit();
};

/// More rows: a block has 8 panels and 64 rows, a warp 2 panels and 32 rows.
struct ManyRowsKernel : TensorKernel {
  /// [stage][panel][row of a step], [stage][row][element of a step], chunks of 16 bytes exchanged (swizzled).
  DeviceMemory weightTiles = {}, inputTiles = {};
  Ix firstPanel = {}, firstRow = {}, steps = {};
  /// Of the thread, within a tile: its part of a row of a panel; activations by product and half, of a row.
  Ix weightPlace = {};
  SmallVector<std::array<Ix, 2>> inputPlace = {};

  int64_t panelElements() const { return stepLength * lanes; }
  /// What the number of a chunk in its row is exchanged by, so that the threads of a load meet no bank twice.
  Ix weightSwizzle(Ix row) { return shape.element.isBF16() ? row / 2 % 2 * 2 : d.c(0); }
  Ix inputSwizzle(Ix row) { return shape.element.isBF16() ? row % 4 * 2 : row % 8; }

  void declare();
  void copyStep(Ix number, Ix stage);
  void copyWeights(Ix slice, Ix inside, Ix stage);
  void copyActivations(Ix slice, Ix inside, Ix stage);
  Values step(Ix number, ValueRange before);
  void emit();
};

} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// Fragments
//===--------------------------------------------------------------------------------------------------------------===//

Values TensorKernel::extract(Value vector, int64_t count) {
  if (count == 1)
    return {vector};
  Values elements;
  for (int64_t i = 0; i < count; ++i)
    elements.push_back(vector::ExtractOp::create(d, vector, i));
  return elements;
}

Values TensorKernel::weightFragment(ArrayRef<Value> low, ArrayRef<Value> high) {
  if (shape.element.isBF16())
    return {low[0], low[1], high[0], high[1]};
  Values registers;
  for (Value word : {low[0], high[0]}) {
    for (int64_t shift : {0, 16}) {
      Value half = arith::TruncIOp::create(d, d.getI16Type(), shiftRight(word, shift));
      registers.push_back(bits(cpu::emitWiden(d, arith::BitcastOp::create(d, d.getF16Type(), half))));
    }
  }
  return registers;
}

Values TensorKernel::parts(ArrayRef<Value> x) {
  const bool bf16 = shape.element.isBF16();
  const uint32_t mask = bf16 ? 0xffff0000u : 0xffffe000u;
  SmallVector<Values> split;
  for (Value rest : x) {
    Values &words = split.emplace_back();
    for (int part = 0; part < partCount; ++part) {
      words.push_back(keep(bits(rest), mask));
      if (part + 1 < partCount)
        rest = d.sub(rest, float32(words.back()));
    }
  }
  if (!bf16)
    return split[0];
  Values registers;
  for (int part = 0; part < partCount; ++part)
    registers.push_back(arith::OrIOp::create(d, shiftRight(split[0][part], 16), split[1][part]));
  return registers;
}

void TensorKernel::multiply(ArrayRef<SmallVector<Values>> weights, ArrayRef<Values> activations,
                            MutableArrayRef<Values> sums) {
  const auto type = shape.element.isBF16() ? Multiplicand::BF16 : Multiplicand::TF32;
  for (size_t product = 0; product < activations.size() / 2; ++product) {
    Values low = parts(activations[2 * product]), high = parts(activations[2 * product + 1]);
    for (size_t panel = 0; panel < sums.size(); ++panel) {
      Values a = weightFragment(weights[panel][2 * product], weights[panel][2 * product + 1]);
      for (int part = partCount - 1; part >= 0; --part)
        sums[panel] = d.mma(type, a, {low[part], high[part]}, sums[panel]);
    }
  }
}

void TensorKernel::finish(ArrayRef<Value> sums, Ix row, Ix column) {
  Value value = sums[0];
  if (shape.bias)
    value = d.add(value, d.load(d.memory("bias"), column));
  if (shape.gated) {
    Value up = sums[1];
    if (shape.bias)
      up = d.add(up, d.load(d.memory("bias"), d.index("n") + column));
    value = d.mul(d.silu(value), up);
  }
  if (shape.residual)
    value = d.add(value, d.load(d.memory("residual"), row * d.index("residual_stride") + column));
  d.store(value, d.memory("result"), row * d.index("result_stride") + column);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Few rows
//===--------------------------------------------------------------------------------------------------------------===//

/// `group` activations of a slice's row, from its element `k` on; zeros for those beyond `extent`.
Values FewRowsKernel::loadActivations(Ix start, Ix k, Ix extent) {
  Type f32 = d.getF32Type(), floats = group() == 1 ? f32 : Type(d.vector(f32, group()));
  if (!shape.partialStep)
    return extract(d.loadAs(floats, d.memory("input"), start + k), group());
  Values elements;
  for (int64_t i = 0; i < group(); ++i) {
    Ix inside = d.min(k + i, d.max(extent, d.c(1)) - 1);
    elements.push_back(d.choose(k + i < extent, d.load(d.memory("input"), start + inside), d.f32(0)));
  }
  return elements;
}

/// Starts the copies of half step `number`, if there is one, as the next group. Each thread copies what it will read.
void FewRowsKernel::copyHalf(Ix number, Ix halves, Ix rows) {
  d.when(number < halves, [&] {
    for (int64_t p = 0; p < panels(); ++p)
      for (int64_t i = 0; i < halfLoads(); ++i) {
        Ix row = number * halfRows() + (inner() + 4 * i);
        Value bytes;
        if (shape.partialStep)
          bytes = d.choose(row < rows, d.i32(4 * group()), d.i32(0));
        d.copyAsync(queue, queueAt(number, p, i), d.memory("weights"), weightStart[p] + row * (lanes * group()),
                    4 * group(), bytes);
      }
  });
  d.commitCopies();
}

/// The chain of the warp's slice, and its sums into shared memory.
void FewRowsKernel::chain(Ix unit, Ix firstRow) {
  Ix slice = d.warp(), extent = sliceExtent(slice), rows = extent.roundUp(group()) / group();
  Ix halves = (extent + (halfLength - 1)) / halfLength;
  // Of a slice without elements something else is read, and not used.
  Ix inputStart = d.min(firstRow + outer(), d.index("rows") - 1) * d.index("input_stride") +
                  d.select(extent == d.c(0), d.c(0), sliceStart(slice));
  for (int64_t p = 0; p < panels(); ++p)
    weightStart.push_back(weightsOf(unit * panels() + p, slice) + outer() * (2 * group()));
  auto activationsOf = [&](Ix number) {
    Values x;
    for (int64_t i = 0; i < halfLoads(); ++i)
      x.append(loadActivations(inputStart, (number * halfRows() + (inner() + 4 * i)) * group(), extent));
    return x;
  };
  for (int64_t number = 0; number < depth() - 1; ++number)
    copyHalf(d.c(number), halves, rows);
  // What is carried: sums, [panel][4], and the next activations.
  Values carried(4 * panels(), d.f32(0));
  carried.append(activationsOf(d.c(0)));
  carried = d.loop(d.c(0), halves, 1, carried, [&](Ix number, ValueRange before) {
    d.waitForCopies(depth() - 2);
    copyHalf(number + (depth() - 1), halves, rows);
    Values next = activationsOf(d.min(number + 1, halves - 1)), after;
    SmallVector<Values> sums, activations;
    SmallVector<SmallVector<Values>> weights(panels());
    for (int64_t p = 0; p < panels(); ++p) {
      sums.emplace_back(before.slice(4 * p, 4));
      for (int64_t i = 0; i < halfLoads(); ++i)
        weights[p].push_back(extract(d.loadAs(wordsType(), queue, queueAt(number, p, i)), group()));
    }
    for (int64_t i = 0; i < halfLoads(); ++i)
      activations.emplace_back(before.slice(4 * panels() + i * group(), group()));
    multiply(weights, activations, sums);
    for (const Values &ofPanel : sums)
      after.append(ofPanel);
    after.append(next);
    return after;
  });
  for (int64_t p = 0; p < panels(); ++p)
    for (int64_t i = 0; i < 4; ++i)
      d.store(carried[4 * p + i], partials, partialAt(slice, p, inner() * 2 + i % 2) + outer() * 2 + i / 2);
}

void FewRowsKernel::emit() {
  Ix unit = d.block(0), firstRow = d.block(1) * tileRows;
  partials = d.shared("partial sums", d.getF32Type(), sliceCount * panels() * tileRows * lanes);
  queue = d.sharedTile("weights on their way", shape.element, depth() * panels() * halfLength * threads / 2);
  chain(unit, firstRow);
  d.barrier("sums of all slices");
  Ix feature = d.thread() % lanes, tileRow = d.thread() / lanes;
  Ix row = firstRow + tileRow, column = unit * lanes + feature;
  Value mine = arith::AndIOp::create(d, tileRow < d.c(tileRows), row < d.index("rows"));
  mine = arith::AndIOp::create(d, mine, column < d.index("n"));
  d.when(mine, [&] {
    Values sums;
    for (int64_t p = 0; p < panels(); ++p) {
      auto of = [&](int64_t slice) { return d.load(partials, partialAt(d.c(slice), p, tileRow) + feature); };
      sums.push_back(of(0));
      for (int64_t slice = 1; slice < sliceCount; ++slice)
        sums.back() = d.add(sums.back(), of(slice));
    }
    finish(sums, row, column);
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Many rows
//===--------------------------------------------------------------------------------------------------------------===//

void ManyRowsKernel::declare() {
  weightTiles = d.sharedTile("weight tiles", shape.element, stages * blockPanels * panelElements());
  inputTiles = d.sharedTile("input tiles", d.getF32Type(), stages * blockRows * stepLength);
  firstPanel = d.block(1) * blockPanels;
  firstRow = d.block(0) * blockRows;
  Ix k = d.index("k"), whole = k / sliceLength();
  steps = whole * stepsOf(sliceLength()) + stepsOf(k - whole * sliceLength());
  // Elements of a panel's row are two chunks of f16 or four of bf16.
  const int64_t perChunk = 8 / group() / 2;
  weightPlace = inner() * (lanes * group()) + d.bitXor(outer() / perChunk, weightSwizzle(inner())) * 8 +
                outer() % perChunk * (2 * group());
  for (int64_t product = 0; product < products(); ++product) {
    std::array<Ix, 2> &places = inputPlace.emplace_back();
    for (int64_t half = 0; half < 2; ++half) {
      Ix k = (inner() + (8 * product + 4 * half)) * group();
      places[half] = outer() * stepLength + d.bitXor(k / 4, inputSwizzle(outer())) * 4 + k % 4;
    }
  }
}

void ManyRowsKernel::copyWeights(Ix slice, Ix inside, Ix stage) {
  Ix rowsLeft = sliceExtent(slice).roundUp(group()) / group() - inside * stepRows();
  const int64_t chunksOfRow = panelChunks / stepRows();
  for (int64_t i = 0; i < blockPanels * panelChunks / threads; ++i) {
    Ix number = d.thread() + i * threads, panel = number / panelChunks, chunk = number % panelChunks;
    Ix row = chunk / chunksOfRow;
    // Panels beyond the last repeat it; nobody stores their sums.
    Ix from = weightsOf(d.min(firstPanel + panel, allFeatures() / lanes - 1), slice) + inside * panelElements();
    Ix to = row * chunksOfRow + d.bitXor(chunk % chunksOfRow, weightSwizzle(row));
    Ix tile = stage * blockPanels + panel;
    Value bytes;
    if (shape.partialStep)
      bytes = d.choose(row < rowsLeft, d.i32(chunkBytes), d.i32(0));
    d.copyAsync(weightTiles, tile * panelElements() + to * 8, d.memory("weights"), from + chunk * 8, chunkBytes, bytes);
  }
}

void ManyRowsKernel::copyActivations(Ix slice, Ix inside, Ix stage) {
  // A slice may start anywhere at an even element where its length is no whole number of steps.
  const int64_t floats = shape.partialStep ? 2 : 4, perRow = stepLength / floats;
  Ix left = sliceExtent(slice) - inside * stepLength;
  for (int64_t i = 0; i < blockRows * perRow / threads; ++i) {
    Ix number = d.thread() + i * threads, row = number / perRow, k = number % perRow * floats;
    // Rows beyond the last repeat it too.
    Ix from = d.min(firstRow + row, d.index("rows") - 1) * d.index("input_stride") + sliceStart(slice) +
              inside * stepLength + k;
    Ix to = row * stepLength + d.bitXor(k / 4, inputSwizzle(row)) * 4 + k % 4;
    Value bytes;
    if (shape.partialStep)
      bytes = d.toI32(d.min(d.saturatingSub(left, k), d.c(floats)) * 4);
    d.copyAsync(inputTiles, stage * (blockRows * stepLength) + to, d.memory("input"), from, 4 * floats, bytes);
  }
}

/// Starts the copies of step `number`, if there is one, as the next group.
void ManyRowsKernel::copyStep(Ix number, Ix stage) {
  d.when(number < steps, [&] {
    Ix perSlice = stepsOf(sliceLength()), slice = number / perSlice, inside = number % perSlice;
    copyWeights(slice, inside, stage);
    copyActivations(slice, inside, stage);
  });
  d.commitCopies();
}

/// The products of step `number`; `before` are the warp's sums, [panel][column][4].
Values ManyRowsKernel::step(Ix number, ValueRange before) {
  d.waitForCopies(stages - 2);
  d.barrier("a step's tiles");
  copyStep(number + (stages - 1), (number + (stages - 1)) % stages);
  Ix stage = number % stages, warpPanel = d.warp() % (blockPanels / warpPanels) * warpPanels;
  Ix warpColumn = d.warp() / (blockPanels / warpPanels) * warpColumns;
  Type f32 = d.getF32Type(), floats = group() == 1 ? f32 : Type(d.vector(f32, group()));
  SmallVector<SmallVector<Values>> weights(warpPanels);
  for (int64_t p = 0; p < warpPanels; ++p) {
    Ix at = (stage * blockPanels + warpPanel + p) * panelElements() + weightPlace;
    for (int64_t i = 0; i < 2 * products(); ++i)
      weights[p].push_back(extract(d.loadAs(wordsType(), weightTiles, at + 4 * i * lanes * group()), group()));
  }
  Values after(before);
  for (int64_t column = 0; column < warpColumns; ++column) {
    Ix at = (stage * blockRows + (warpColumn + column) * tileRows) * stepLength;
    SmallVector<Values> activations;
    for (const std::array<Ix, 2> &places : inputPlace)
      for (Ix place : places)
        activations.push_back(extract(d.loadAs(floats, inputTiles, at + place), group()));
    SmallVector<Values> sums(warpPanels);
    for (int64_t p = 0; p < warpPanels; ++p)
      sums[p].assign(after.begin() + 4 * (p * warpColumns + column),
                     after.begin() + 4 * (p * warpColumns + column + 1));
    multiply(weights, activations, sums);
    for (int64_t p = 0; p < warpPanels; ++p)
      llvm::copy(sums[p], after.begin() + 4 * (p * warpColumns + column));
  }
  return after;
}

void ManyRowsKernel::emit() {
  declare();
  for (int64_t stage = 0; stage < stages - 1; ++stage)
    copyStep(d.c(stage), d.c(stage));
  constexpr int64_t sumCount = warpPanels * warpColumns * 4;
  // What is added to -0 stays what it is.
  Values totals(sumCount, d.f32(-0.0f)), zeros(sumCount, d.f32(0));
  Ix perSlice = stepsOf(sliceLength());
  totals = d.loop(d.c(0), d.c(sliceCount), 1, totals, [&](Ix slice, ValueRange before) {
    Ix begin = d.min(slice * perSlice, steps), end = d.min(begin + perSlice, steps);
    Values sums = d.loop(begin, end, 1, zeros, [&](Ix number, ValueRange so) { return step(number, so); });
    for (auto [sum, total] : llvm::zip(sums, before))
      sum = d.add(total, sum);
    return sums;
  });
  Ix warpPanel = firstPanel + d.warp() % (blockPanels / warpPanels) * warpPanels;
  Ix warpRow = firstRow + d.warp() / (blockPanels / warpPanels) * (warpColumns * tileRows);
  for (int64_t p = 0; p < warpPanels; p += panels())
    for (int64_t column = 0; column < warpColumns; ++column)
      for (int64_t i = 0; i < 4; ++i) {
        Ix row = warpRow + (inner() * 2 + (column * tileRows + i % 2));
        Ix feature = (warpPanel + p) / panels() * lanes + outer() * 2 + i / 2;
        Values sums;
        for (int64_t of = p; of < p + panels(); ++of)
          sums.push_back(totals[4 * (of * warpColumns + column) + i]);
        d.when(arith::AndIOp::create(d, row < d.index("rows"), feature < d.index("n")),
               [&] { finish(sums, row, feature); });
      }
}

void DeviceKernels::tensorLinear(cpu::Emitter &e, const DeviceLinear &linear, ArrayRef<Argument> arguments,
                                 const std::string &name) {
  Ix units = (linear.n + (lanes - 1)) / lanes;
  Ix panelTiles = (units * (linear.gated ? 2 : 1) + (blockPanels - 1)) / blockPanels;
  e.when(
      linear.rows <= e.c(tileRows),
      [&] {
        launch(
            e, name + "_few_rows", arguments, {units, (linear.rows + (tileRows - 1)) / tileRows},
            [&](DeviceEmitter &d) { FewRowsKernel{{d, linear}}.emit(); }, threads);
      },
      [&] {
        launch(
            e, name + "_many_rows", arguments, {(linear.rows + (blockRows - 1)) / blockRows, panelTiles},
            [&](DeviceEmitter &d) { ManyRowsKernel{{d, linear}}.emit(); }, threads);
      });
}

} // namespace ingot::gpu
