//===- QuantizedLinear.cpp - Products with quantized weights ------------------------------------------------------===//
//
// Two ways to make a tile of sums, whose surroundings are those of every linear (LinearFrame):
//
// - in float32: each weight is widened in registers to the float32 that its format defines, and the sums are those that
//   float32 weights would give, one fused multiply-add a step and k ascending;
// - in integers: the input is rounded once (per worker, into scratch memory) to multiples of a scale, with 16 bits a
//   block of 32 elements together, with 8 bits halves of it. Sums over what shares its scales are exact. They are
//   multiplied by the input's scale, a block's two halves added if the weights' scale is the same, and one fused
//   multiply-add adds them times the weights' scale to the chain of the segment, then one more the block's offset.
//
// Nothing in a row's chain depends on the tile that it is computed in.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/QuantizedLinear.h"
#include "compiler/Codegen/CPU/DotUnit.h"
#include "compiler/Codegen/CPU/LinearFrame.h"
#include "compiler/Codegen/CPU/VectorMath.h"
#include "ingot_rt/abi.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace ingot::cpu {

static Value bitcast(Emitter &e, Type element, Value value) {
  auto type = cast<VectorType>(value.getType());
  int64_t bits = type.getNumElements() * type.getElementTypeBitWidth();
  return vector::BitCastOp::create(e, e.vector(element, bits / element.getIntOrFloatBitWidth()), value);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Scales and offsets
//===--------------------------------------------------------------------------------------------------------------===//

Value PanelBlock::halves(Ix at, int64_t count) {
  return emitWiden(e, bitcast(e, e.getF16Type(), e.vload(weights, at, 2 * count)));
}

Value PanelBlock::integers(Ix at, int64_t count, bool isSigned) {
  Type ints = e.vector(e.getI32Type(), count);
  Value bytes = e.vload(weights, at, count);
  Value wide = isSigned ? arith::ExtSIOp::create(e, ints, bytes).getResult() : arith::ExtUIOp::create(e, ints, bytes);
  return arith::SIToFPOp::create(e, e.vector(e.getF32Type(), count), wide);
}

Value PanelBlock::scale(Ix first, int64_t count, int64_t which) {
  if (!format.hasHeader())
    return halves(block + format.scaleStart() + first * 2, count);
  bool isSigned = format.kind == Quantization::Q6_K;
  Value own = integers(block + (format.scaleStart() + which * lanes) + first, count, isSigned);
  return e.mul(halves(header + first * 2, count), own);
}

Value PanelBlock::offset(Ix first, int64_t count) {
  if (!format.hasOffsets)
    return {};
  if (!format.hasHeader())
    return halves(block + format.offsetStart() + first * 2, count);
  Value own = integers(block + format.offsetStart() + first, count, /*isSigned=*/false);
  return arith::NegFOp::create(e, e.mul(halves(header + 2 * lanes + first * 2, count), own));
}

Ix emitSegmentLength(Emitter &e, const QuantizedFormat &format, Ix k, int64_t segments) {
  return ((k + (segments - 1)) / segments).roundUp(format.unit);
}

//===--------------------------------------------------------------------------------------------------------------===//
// A register tile
//===--------------------------------------------------------------------------------------------------------------===//

/// Groups of four elements of K in a block.
static constexpr int64_t groups = quantizedBlock / 4;

namespace {
/// One row's record of a block of the input as integers, in floats: codes, scales, and then, if the weights have
/// offsets, the sum of the rounded elements, else integers that the parts' sums start from: what the codes' offset adds
/// too much. Codes of 8 bits are bytes in ascending order; those of 16 bits are, for each group of four, the pairs
/// (0, 2) and (1, 3), as the halves of words of four bytes give the weights' codes.
struct InputRecord {
  int64_t bits;

  /// Elements that share a scale.
  int64_t block() const { return bits == 8 ? inputBlock8 : inputBlock16; }
  int64_t scaleCount() const { return quantizedBlock / block(); }
  /// Parts of a block whose exact sums are scaled one by one.
  int64_t parts(const QuantizedFormat &format) const { return std::max(scaleCount(), format.scalesPerBlock); }

  int64_t scales() const { return quantizedBlock * bits / 32; }
  int64_t sum() const { return scales() + scaleCount(); }
  int64_t starts() const { return sum(); }
  int64_t floats() const { return (starts() + 2 + 3) / 4 * 4; }
  float largestCode() const { return bits == 8 ? 127 : 32767; }
};

/// What a tile's function is specialised for.
struct QuantizedTile {
  const QuantizedFormat &format;
  /// Rows and panels.
  Tile size;
  /// Integers of so many bits instead of float32, unless 0.
  int64_t inputBits;
  DotUnit unit;
};

/// The body of one tile's function. Rows of the input lie interleaved: in float32 [k][row], as integers a record for
/// each row of each block (InputRecord).
struct QuantizedTileEmitter {
  Emitter &e;
  const QuantizedTile &tile;
  Value input, weights, accumulators;
  Ix inputStart, weightStart, panelStride, units, accumulatorStart, accumulatorStride, accumulatorPanelStride;

  const QuantizedFormat &format() const { return tile.format; }
  /// Features that are computed together.
  int64_t width() const { return tile.inputBits ? tile.unit.lanes : lanes; }
  /// Vectors of so many features in a panel.
  int64_t parts() const { return lanes / width(); }

  void emit();
  void block(Ix blockIndex, Ix header, Ix at, SmallVectorImpl<Value> &sums);
  void floatBlock(PanelBlock panel, Ix blockIndex, int64_t p, SmallVectorImpl<Value> &sums);
  void integerBlock(PanelBlock panel, Ix blockIndex, int64_t p, int64_t part, SmallVectorImpl<Value> &sums);
  void addGroup(Ix blockIndex, int64_t g, Value code, MutableArrayRef<DotEmitter::Sum> dots);

  Value shiftRight(Value value, int64_t by) {
    if (by == 0)
      return value;
    return arith::ShRUIOp::create(e, value, e.splatInt(value.getType(), by));
  }
  Value mask(Value value, int64_t bits) { return arith::AndIOp::create(e, value, e.splatInt(value.getType(), bits)); }
  Value &sumOf(SmallVectorImpl<Value> &sums, int64_t r, int64_t p, int64_t part) {
    return sums[(r * tile.size.panels + p) * parts() + part];
  }
  /// Bytes of group `g` of a block's codes, or of its high bits, for the features of `part`.
  Value codeBytes(PanelBlock panel, int64_t start, int64_t part) {
    return e.vload(weights, panel.block + (start + part * 4 * width()), 4 * width());
  }
  Value codes(PanelBlock panel, int64_t g, int64_t part, SmallVectorImpl<Value> &low, SmallVectorImpl<Value> &high);
  Ix record(Ix blockIndex, int64_t r);
};
} // namespace

Ix QuantizedTileEmitter::record(Ix blockIndex, int64_t r) {
  return inputStart + (blockIndex * tile.size.rows + r) * InputRecord{tile.inputBits}.floats();
}

/// The unsigned codes of group `g`, as bytes; of 8 bits the signed ones. What two groups share is loaded once.
Value QuantizedTileEmitter::codes(PanelBlock panel, int64_t g, int64_t part, SmallVectorImpl<Value> &low,
                                  SmallVectorImpl<Value> &high) {
  if (format().codeBits == 8)
    return codeBytes(panel, g * 64, part);
  int64_t half = groups / 2;
  if (!low[g % half])
    low[g % half] = codeBytes(panel, g % half * 64, part);
  Value code = mask(shiftRight(low[g % half], g < half ? 0 : 4), 15);
  int64_t bits = format().highBits();
  if (bits == 0)
    return code;
  int64_t perByte = 8 / bits, index = g / perByte, shift = g % perByte * bits;
  if (!high[index])
    high[index] = codeBytes(panel, format().highStart() + index * 64, part);
  // To bits 4 and up.
  Value moved = high[index];
  if (shift > 4)
    moved = shiftRight(moved, shift - 4);
  else if (shift < 4)
    moved = arith::ShLIOp::create(e, moved, e.splatInt(moved.getType(), 4 - shift));
  return arith::OrIOp::create(e, code, mask(moved, ((1 << bits) - 1) << 4));
}

/// A block of a panel in float32: each weight is what the format says, each sum takes k in ascending order.
void QuantizedTileEmitter::floatBlock(PanelBlock panel, Ix blockIndex, int64_t p, SmallVectorImpl<Value> &sums) {
  auto ints = e.vector(e.getI32Type());
  Value offset = panel.offset(e.c(0), lanes), scale;
  SmallVector<Value> low(groups / 2), high(2);
  for (int64_t g = 0; g < groups; ++g) {
    int64_t perScale = groups / format().scalesPerBlock;
    if (g % perScale == 0)
      scale = panel.scale(e.c(0), lanes, g / perScale);
    Value bytes = bitcast(e, e.getI32Type(), codes(panel, g, 0, low, high));
    for (int64_t i = 0; i < 4; ++i) {
      Value code;
      if (format().codeBits == 8) {
        Value up = i == 3 ? bytes : arith::ShLIOp::create(e, bytes, e.splatInt(ints, 24 - 8 * i)).getResult();
        code = arith::ShRSIOp::create(e, up, e.splatInt(ints, 24));
      } else {
        code = mask(shiftRight(bytes, 8 * i), 255);
      }
      if (format().codeOffset)
        code = arith::SubIOp::create(e, code, e.splatInt(ints, format().codeOffset));
      Value number = arith::SIToFPOp::create(e, e.vector(e.getF32Type()), code);
      Value weight = offset ? e.fma(number, scale, offset) : e.mul(number, scale);
      for (int64_t r = 0; r < tile.size.rows; ++r) {
        Value x = e.load(input, inputStart + (blockIndex * quantizedBlock + (4 * g + i)) * tile.size.rows + r);
        Value &sum = sumOf(sums, r, p, 0);
        sum = e.fma(e.broadcast(x), weight, sum);
      }
    }
  }
}

/// What is added to a code's value before it is multiplied.
static int64_t biasOf(const QuantizedFormat &format, int64_t inputBits, DotUnit unit) {
  if (format.codeBits != 8)
    return format.codeOffset;
  return inputBits == 8 && unit.fourInOne ? DotEmitter::signedBias : 0;
}

/// Adds the products of group `g` of a block to each row's sum.
void QuantizedTileEmitter::addGroup(Ix blockIndex, int64_t g, Value code, MutableArrayRef<DotEmitter::Sum> dots) {
  DotEmitter dot(e, tile.unit);
  auto broadcast = [&](int64_t r, int64_t field, Type element) {
    Value four = arith::BitcastOp::create(e, e.getI32Type(), e.load(input, record(blockIndex, r) + field));
    return bitcast(e, element, e.broadcast(four, width()));
  };
  bool isSigned = format().codeBits == 8;
  if (tile.inputBits == 8) {
    for (auto [r, sum] : llvm::enumerate(dots)) {
      Value bytes = broadcast(r, g, e.getI8Type());
      if (isSigned)
        dot.addSigned(sum, code, bytes);
      else
        dot.add(sum, code, bytes, (1 << format().codeBits) - 1);
    }
    return;
  }
  // The first and third code of each feature in the low bytes of words, the second and fourth in the high ones.
  Value words = bitcast(e, e.getI16Type(), code), eight = e.splatInt(words.getType(), 8), even, odd;
  if (isSigned) {
    even = arith::ShRSIOp::create(e, arith::ShLIOp::create(e, words, eight), eight);
    odd = arith::ShRSIOp::create(e, words, eight);
  } else {
    even = mask(words, 255);
    odd = shiftRight(words, 8);
  }
  for (auto [r, sum] : llvm::enumerate(dots)) {
    dot.addWords(sum, even, broadcast(r, 2 * g, e.getI16Type()));
    dot.addWords(sum, odd, broadcast(r, 2 * g + 1, e.getI16Type()));
  }
}

/// A block of some features of a panel in integers.
void QuantizedTileEmitter::integerBlock(PanelBlock panel, Ix blockIndex, int64_t p, int64_t part,
                                        SmallVectorImpl<Value> &sums) {
  DotEmitter dot(e, tile.unit);
  InputRecord layout{tile.inputBits};
  int64_t count = layout.parts(format()), groupsOfPart = groups / count, rows = tile.size.rows;
  bool ownScales = format().scalesPerBlock == count;
  auto load = [&](int64_t r, int64_t field) { return e.load(input, record(blockIndex, r) + field); };
  int64_t bias = biasOf(format(), tile.inputBits, tile.unit);
  SmallVector<Value> low(groups / 2), high(2), scaled(rows);
  SmallVector<DotEmitter::Sum> dots(rows);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      Value start = e.splatInt(dot.ints(), 0);
      if (bias)
        start = e.broadcast(arith::BitcastOp::create(e, e.getI32Type(), load(r, layout.starts() + i)), width());
      dots[r] = {start, Value(), 0};
    }
    for (int64_t g = i * groupsOfPart; g < (i + 1) * groupsOfPart; ++g)
      addGroup(blockIndex, g, codes(panel, g, part, low, high), dots);
    bool first = ownScales || i == 0, last = ownScales || i == count - 1;
    Value scale = last ? panel.scale(e.c(part * width()), width(), ownScales ? i : 0) : Value();
    for (int64_t r = 0; r < rows; ++r) {
      Value exact = arith::SIToFPOp::create(e, e.vector(e.getF32Type(), width()), dot.finish(dots[r]));
      Value inputScale = e.broadcast(load(r, layout.scales() + i % layout.scaleCount()), width());
      scaled[r] = first ? e.mul(exact, inputScale) : e.fma(exact, inputScale, scaled[r]);
      Value &sum = sumOf(sums, r, p, part);
      if (last)
        sum = e.fma(scaled[r], scale, sum);
    }
  }
  if (Value offset = panel.offset(e.c(part * width()), width()))
    for (int64_t r = 0; r < rows; ++r) {
      Value &sum = sumOf(sums, r, p, part);
      sum = e.fma(offset, e.broadcast(load(r, layout.sum()), width()), sum);
    }
}

/// One block of all panels.
void QuantizedTileEmitter::block(Ix blockIndex, Ix header, Ix at, SmallVectorImpl<Value> &sums) {
  for (int64_t p = 0; p < tile.size.panels; ++p) {
    PanelBlock panel{e, format(), weights, at + panelStride * p, header + panelStride * p};
    if (!tile.inputBits)
      floatBlock(panel, blockIndex, p, sums);
    else
      for (int64_t part = 0; part < parts(); ++part) {
        // The inputs of several rows are read again: 16 vectors of each are more than registers hold, and LLVM would
        // store all on the stack for the next features. Those of one row serve so many features that this is quicker.
        if (p + part > 0 && tile.size.rows > 1)
          keepLoadsApart(e);
        integerBlock(panel, blockIndex, p, part, sums);
      }
  }
}

void QuantizedTileEmitter::emit() {
  SmallVector<Value> sums;
  for (int64_t i = 0; i < tile.size.rows * tile.size.panels * parts(); ++i)
    sums.push_back(e.splat(e.vector(e.getF32Type(), width()), 0));
  int64_t blocks = format().unit / quantizedBlock;
  sums = e.loop(e.c(0), units, 1, sums, [&](Ix unit, ValueRange outer) {
    Ix header = weightStart + unit * format().unitBytes(), first = header + format().headerBytes();
    auto one = [&](Ix b, ValueRange carried) {
      SmallVector<Value> next(carried);
      block(unit * blocks + b, header, first + b * format().blockBytes(), next);
      return next;
    };
    return blocks == 1 ? one(e.c(0), outer) : e.loop(e.c(0), e.c(blocks), 1, outer, one);
  });
  for (int64_t r = 0; r < tile.size.rows; ++r)
    for (int64_t p = 0; p < tile.size.panels; ++p)
      for (int64_t part = 0; part < parts(); ++part)
        e.vstore(sumOf(sums, r, p, part), accumulators,
                 accumulatorStart + accumulatorStride * r + accumulatorPanelStride * p + part * width());
}

//===--------------------------------------------------------------------------------------------------------------===//
// The function of a linear
//===--------------------------------------------------------------------------------------------------------------===//

/// Panels between two changes of the register tile, so that the tiles of a block of rows share its weights in cache.
static constexpr int64_t panelBlock = 16;
/// Panels whose sums lie in scratch memory together with one row.
static constexpr int64_t onePanels = 64;
static_assert(onePanels * lanes * INGOT_RT_K_SEGMENTS <= Kernels::blockFloats, "their sums fit");

/// The body of a linear's function.
struct QuantizedLinearEmitter : LinearFrame {
  using LinearFrame::LinearFrame;

  const QuantizedFormat &format() const { return getQuantizedFormat(*shape.quantized); }
  /// Floats of scratch memory for one row's copy.
  Ix rowFloats() { return blocks * blockFloats(); }
  /// Of a block of it.
  int64_t blockFloats() const { return shape.inputBits ? InputRecord{shape.inputBits}.floats() : quantizedBlock; }

  /// Blocks of K, the last one perhaps partial, and the length of a segment.
  Ix blocks, segmentLength;
  std::vector<Tile> tiles;

  void emit();
  void cutRows(Ix rows, llvm::function_ref<void(Tile, Ix, Ix)> body);
  Ix blockRows();
  void copyRows(Ix firstRow, Ix rows);
  void copyFloats(Ix from, Ix target, int64_t tileRows, int64_t r);
  void copyIntegers(Ix from, Ix target, int64_t tileRows, int64_t r);
  void copyBytes(Ix from, Ix b, Ix to);
  void copyWords(Ix from, Ix b, Ix to);
  std::pair<Value, Value> inputScale(Value largest);
  Value inputCodes(Value x, Value inverse);
  void storeStart(Value sum, Ix to);
  Value loadInputs(Ix from, Ix k);
  void panels(Ix firstRow, Ix rows, Ix unitBegin, Ix unitEnd);
  void tile(Ix firstRow, Ix row, Ix unit, Tile size, int64_t unitCount);
  void oneRow(Ix firstRow, Ix unitBegin, Ix unitEnd);
  void product(Ix inputStart, Ix segment, Ix panel, Ix apart, Tile size, Ix target, Ix rowStride, Ix panelStride);
  void forSegments(function_ref<void(Ix)> body);
};

void QuantizedLinearEmitter::cutRows(Ix rows, function_ref<void(Tile, Ix, Ix)> body) {
  Ix begin = e.c(0);
  for (Tile size : tiles) {
    Ix end = size.rows == 1 ? rows : begin + (rows - begin) / size.rows * size.rows;
    body(size, begin, end);
    begin = end;
  }
}

/// Rows whose copies fit the scratch memory together, a multiple of the first tile's.
Ix QuantizedLinearEmitter::blockRows() {
  int64_t unit = tiles.front().rows;
  Ix fitting = e.c(kernels.packedFloats) / rowFloats() / unit * unit;
  return e.max(e.c(unit), e.min(fitting, e.c(Kernels::maxBlockRows / unit * unit)));
}

/// 16 features of a row from element k on; those beyond K are zero, whatever memory holds.
Value QuantizedLinearEmitter::loadInputs(Ix from, Ix k) {
  if (!shape.partialBlock)
    return e.vload(in.input.memory, from + k);
  return e.maskedLoad(in.input.memory, from + k, e.maskBelow(e.saturatingSub(in.k, k)));
}

/// One row as [k][row of the tile].
void QuantizedLinearEmitter::copyFloats(Ix from, Ix target, int64_t tileRows, int64_t r) {
  e.loop(e.c(0), blocks * quantizedBlock, lanes, [&](Ix k) {
    Value values = loadInputs(from, k);
    if (tileRows == 1)
      return e.vstore(values, worker.scratch, target + k);
    for (int64_t lane = 0; lane < lanes; ++lane)
      e.store(vector::ExtractOp::create(e, values, ArrayRef<int64_t>{lane}), worker.scratch,
              target + (k + lane) * tileRows + r);
  });
}

/// The sum of 16 integers.
static Value sumOfIntegers(Emitter &e, Value value) {
  for (int64_t n = lanes / 2; n >= 1; n /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < n; ++i) {
      low.push_back(i);
      high.push_back(i + n);
    }
    Value a = vector::ShuffleOp::create(e, value, value, low), b = vector::ShuffleOp::create(e, value, value, high);
    value = arith::AddIOp::create(e, a, b);
  }
  return vector::ExtractOp::create(e, value, ArrayRef<int64_t>{0});
}

/// One row as records of blocks.
void QuantizedLinearEmitter::copyIntegers(Ix from, Ix target, int64_t tileRows, int64_t r) {
  e.loop(e.c(0), blocks, 1, [&](Ix b) {
    Ix to = target + (b * tileRows + r) * blockFloats();
    if (shape.inputBits == 8)
      copyBytes(from, b, to);
    else
      copyWords(from, b, to);
  });
}

/// The scale of elements with a largest magnitude, and what they are multiplied by to get codes.
std::pair<Value, Value> QuantizedLinearEmitter::inputScale(Value largest) {
  float code = InputRecord{shape.inputBits}.largestCode();
  Value counts = e.compare(arith::CmpFPredicate::UGE, largest, e.f32(0x1p-100f));
  return {e.choose(counts, e.div(largest, e.f32(code)), e.f32(0)),
          e.choose(counts, e.div(e.f32(code), largest), e.f32(0))};
}

/// 16 elements as integers.
Value QuantizedLinearEmitter::inputCodes(Value x, Value inverse) {
  // Adding 1.5 * 2^23 leaves the nearest integer, ties to even, in the low bits.
  constexpr float shifter = 12582912.0f;
  auto floats = e.vector(e.getF32Type()), ints = e.vector(e.getI32Type());
  Value shifted = e.add(e.mul(x, e.broadcast(inverse)), e.splat(floats, shifter));
  return arith::SubIOp::create(e, arith::BitcastOp::create(e, ints, shifted), e.splatInt(ints, 0x4b400000));
}

/// What the codes' offset adds too much to the sums of a part.
void QuantizedLinearEmitter::storeStart(Value sum, Ix to) {
  int64_t bias = biasOf(format(), shape.inputBits, kernels.dotUnit());
  if (bias == 0)
    return;
  Value start = arith::MulIOp::create(e, sum, e.i32(-bias));
  e.store(arith::BitcastOp::create(e, e.getF32Type(), start), worker.scratch, to);
}

/// Codes of 8 bits; each half of the block has a scale.
void QuantizedLinearEmitter::copyBytes(Ix from, Ix b, Ix to) {
  InputRecord layout{8};
  static_assert(inputBlock8 == lanes);
  Value blockSum;
  for (int64_t half = 0; half < layout.scaleCount(); ++half) {
    Value x = loadInputs(from, b * quantizedBlock + half * lanes);
    auto [scale, inverse] = inputScale(emitMaxOfLanes(e, math::AbsFOp::create(e, x)));
    Value codes = inputCodes(x, inverse), sum = sumOfIntegers(e, codes);
    Value bytes = arith::TruncIOp::create(e, e.vector(e.getI8Type()), codes);
    e.vstore(bitcast(e, e.getF32Type(), bytes), worker.scratch, to + half * (lanes / 4));
    e.store(scale, worker.scratch, to + (layout.scales() + half));
    if (!format().hasOffsets) {
      storeStart(sum, to + (layout.starts() + half));
      continue;
    }
    Value number = arith::SIToFPOp::create(e, e.getF32Type(), sum);
    blockSum = half == 0 ? e.mul(scale, number) : e.fma(scale, number, blockSum);
  }
  if (format().hasOffsets)
    e.store(blockSum, worker.scratch, to + layout.sum());
}

/// Codes of 16 bits; the block has one scale. Sums of 32 codes are exact as float32.
void QuantizedLinearEmitter::copyWords(Ix from, Ix b, Ix to) {
  InputRecord layout{16};
  static_assert(inputBlock16 == 2 * lanes);
  Value x[2], magnitude[2], sums[2];
  for (int64_t i = 0; i < 2; ++i) {
    x[i] = loadInputs(from, b * quantizedBlock + i * lanes);
    magnitude[i] = math::AbsFOp::create(e, x[i]);
  }
  auto [scale, inverse] = inputScale(emitMaxOfLanes(e, e.larger(magnitude[1], magnitude[0])));
  e.store(scale, worker.scratch, to + layout.scales());
  SmallVector<int64_t> pairs;
  for (int64_t k = 0; k < lanes; k += 4)
    pairs.append({k, k + 2, k + 1, k + 3});
  for (int64_t i = 0; i < 2; ++i) {
    Value codes = inputCodes(x[i], inverse);
    Value words = arith::TruncIOp::create(e, e.vector(e.getI16Type()), codes);
    words = vector::ShuffleOp::create(e, words, words, pairs);
    e.vstore(bitcast(e, e.getF32Type(), words), worker.scratch, to + i * (lanes / 2));
    sums[i] = sumOfIntegers(e, codes);
  }
  Value all = arith::AddIOp::create(e, sums[0], sums[1]);
  if (format().hasOffsets)
    e.store(e.mul(scale, arith::SIToFPOp::create(e, e.getF32Type(), all)), worker.scratch, to + layout.sum());
  else if (layout.parts(format()) == 1)
    storeStart(all, to + layout.starts());
  else
    for (int64_t i = 0; i < 2; ++i)
      storeStart(sums[i], to + (layout.starts() + i));
}

void QuantizedLinearEmitter::copyRows(Ix firstRow, Ix rows) {
  cutRows(rows, [&](Tile size, Ix begin, Ix end) {
    e.loop(begin, end, size.rows, [&](Ix row) {
      for (int64_t r = 0; r < size.rows; ++r) {
        Ix from = (firstRow + row + e.c(r)) * in.input.stride, target = row * rowFloats();
        if (shape.inputBits)
          copyIntegers(from, target, size.rows, r);
        else
          copyFloats(from, target, size.rows, r);
      }
    });
  });
}

/// The sums of a tile over a segment: of the panels from `panel` on, each `apart` after the one before. The sums of the
/// first row and panel go to `target`, the others `rowStride` and `panelStride` apart.
void QuantizedLinearEmitter::product(Ix inputStart, Ix segment, Ix panel, Ix apart, Tile size, Ix target, Ix rowStride,
                                     Ix panelStride) {
  QuantizedTile kernel{format(), size, shape.inputBits, kernels.dotUnit()};
  std::string name = ("product_" + stringifyQuantization(*shape.quantized) + computeSuffix(shape) + "_" +
                      Twine(size.rows) + "x" + Twine(size.panels))
                         .str();
  Ix start = e.min(segment * segmentLength, blocks * quantizedBlock);
  Ix extent = e.min(blocks * quantizedBlock - start, segmentLength);
  Ix units = extent / format().unit;
  Ix weightStart = (features / lanes * (start / format().unit) + panel * units) * format().unitBytes();
  SmallVector<Value> arguments = {worker.scratch,
                                  inputStart + start / quantizedBlock * (blockFloats() * size.rows),
                                  in.weights,
                                  weightStart,
                                  apart * units * format().unitBytes(),
                                  units,
                                  target,
                                  rowStride,
                                  panelStride};
  kernels.call(e, name, arguments, [&](Emitter &f, ValueRange a) {
    QuantizedTileEmitter{f,          kernel,     a[0],       a[2],       a[0],       f.ix(a[1]),
                         f.ix(a[3]), f.ix(a[4]), f.ix(a[5]), f.ix(a[6]), f.ix(a[7]), f.ix(a[8])}
        .emit();
  });
}

void QuantizedLinearEmitter::forSegments(function_ref<void(Ix)> body) {
  if (segments() == 1)
    body(e.c(0));
  else
    e.loop(e.c(0), e.c(segments()), 1, body);
}

/// One register tile: `unitCount` units from `unit` on, rows from `row` of the block on.
void QuantizedLinearEmitter::tile(Ix firstRow, Ix row, Ix unit, Tile size, int64_t unitCount) {
  Tile whole = {size.rows, unitCount * unitPanels()};
  int64_t rowStride = whole.panels * lanes;
  forSegments([&](Ix segment) {
    product(row * rowFloats(), segment, unit * unitPanels(), e.c(1), whole,
            accumulators + segment * (whole.rows * rowStride), e.c(rowStride), e.c(lanes));
  });
  epilogue(firstRow, row, unit, e.c(whole.rows), e.c(rowStride), e.c(unitCount));
}

/// One row, which is bound by the reads of weights: the panels are cut into runs, which are read side by side, segment
/// by segment. A run goes on where a panel ends; as many long forward streams keep more cache misses in flight than
/// panels that lie side by side.
void QuantizedLinearEmitter::oneRow(Ix firstRow, Ix unitBegin, Ix unitEnd) {
  Tile size = tiles.back();
  Ix panels = (unitEnd - unitBegin) * unitPanels(), first = unitBegin * unitPanels(), run = panels / size.panels;
  forSegments([&](Ix segment) {
    Ix sums = accumulators + segment * panels * lanes;
    auto one = [&](Ix panel, Ix apart, Tile of) {
      product(e.c(0), segment, first + panel, apart, of, sums + panel * lanes, e.c(0), apart * lanes);
    };
    e.loop(e.c(0), run, 1, [&](Ix panel) { one(panel, run, size); });
    e.loop(run * size.panels, panels, 1, [&](Ix panel) { one(panel, e.c(1), {1, 1}); });
  });
  epilogue(firstRow, e.c(0), unitBegin, e.c(1), panels * lanes, unitEnd - unitBegin);
}

/// Every tile of the panels [unitBegin, unitEnd), for a block of rows.
void QuantizedLinearEmitter::panels(Ix firstRow, Ix rows, Ix unitBegin, Ix unitEnd) {
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

/// Register tiles by descending rows. Many rows share the widening of weights; one walks several panels, which are
/// streams for the memory. AVX-512 has twice the registers, of twice the width.
std::vector<Tile> chooseQuantizedTiles(DotUnit unit) {
  if (unit.lanes == lanes)
    return {{8, 2}, {4, 2}, {2, 4}, {1, 4}};
  return {{4, 1}, {2, 2}, {1, 4}};
}

void QuantizedLinearEmitter::emit() {
  tiles = chooseQuantizedTiles(kernels.dotUnit());
  blocks = (in.k + (quantizedBlock - 1)) / quantizedBlock;
  segmentLength = emitSegmentLength(e, format(), in.k, segments());
  Ix units = (in.n + (lanes - 1)) / lanes;
  IndexRange mine = e.share(units, worker.id, worker.count);
  Ix block = blockRows();
  e.loop(e.c(0), (in.rows + block - 1) / block, 1, [&](Ix index) {
    Ix firstRow = index * block, rows = e.min(block, in.rows - firstRow);
    copyRows(firstRow, rows);
    if (shape.argmax)
      initArgmax(rows);
    auto cut = [&](int64_t size, function_ref<void(Ix, Ix)> body) {
      e.loop(mine.begin, mine.end, size, [&](Ix unit) { body(unit, e.min(unit + size, mine.end)); });
    };
    e.when(
        rows == e.c(1), [&] { cut(onePanels / unitPanels(), [&](Ix begin, Ix end) { oneRow(firstRow, begin, end); }); },
        [&] { cut(panelBlock, [&](Ix begin, Ix end) { panels(firstRow, rows, begin, end); }); });
    if (shape.argmax)
      reduceArgmax(firstRow, rows);
  });
}

void Kernels::quantizedLinear(Emitter &e, const LinearShape &shape, const LinearOperands &operands,
                              const Worker &worker) {
  call(e, LinearFrame::nameOf(shape, operands), LinearFrame::argumentsOf(shape, operands, worker),
       [&](Emitter &inner, ValueRange arguments) {
         QuantizedLinearEmitter emitter(inner, *this, shape);
         emitter.bind(arguments, operands);
         emitter.emit();
       });
}

//===--------------------------------------------------------------------------------------------------------------===//
// Embedding
//===--------------------------------------------------------------------------------------------------------------===//

/// Elements of one row of a matrix in panels of one segment, widened one by one: a table is read a row for each token.
void Kernels::quantizedEmbedding(Emitter &e, const Batch &batch, Value table, Quantization kind, Rows result, Ix n,
                                 const Worker &worker) {
  const QuantizedFormat &format = getQuantizedFormat(kind);
  std::string name = ("embedding_" + stringifyQuantization(kind)).str();
  auto arguments = {Value(batch.tokens),
                    table,
                    Value(result.memory),
                    Value(result.stride),
                    Value(n),
                    Value(batch.tokenCount),
                    Value(worker.id),
                    Value(worker.count)};
  call(e, name, SmallVector<Value>(arguments), [&](Emitter &f, ValueRange a) {
    Ix size = f.ix(a[4]), blocks = (size + (quantizedBlock - 1)) / quantizedBlock;
    int64_t blocksOfUnit = format.unit / quantizedBlock;
    auto i32 = [&](Value byte) -> Value { return arith::ExtUIOp::create(f, f.getI32Type(), byte); };
    f.loop(f.share(blocks * f.ix(a[5]), f.ix(a[6]), f.ix(a[7])), [&](Ix share) {
      Ix row = share / blocks, b = share % blocks, id = f.toIndex(f.load(a[0], row)), lane = id % lanes;
      Ix unit = id / lanes * ((size + (format.unit - 1)) / format.unit) + b / blocksOfUnit;
      Ix header = unit * format.unitBytes();
      Ix at = header + format.headerBytes() + b % blocksOfUnit * format.blockBytes();
      PanelBlock panel{f, format, a[1], at, header};
      Value offset = panel.offset(lane, 1);
      int64_t perScale = quantizedBlock / format.scalesPerBlock;
      for (int64_t part = 0; part < format.scalesPerBlock; ++part) {
        Value scale = vector::ExtractOp::create(f, panel.scale(lane, 1, part), ArrayRef<int64_t>{0});
        Ix begin = f.c(part * perScale),
           end = f.min(f.c((part + 1) * perScale), f.max(size - b * quantizedBlock, f.c(0)));
        f.loop(begin, end, 1, [&](Ix k) {
          Ix g = k / 4, column = lane * 4 + k % 4;
          Value code;
          if (format.codeBits == 8) {
            code = arith::ExtSIOp::create(f, f.getI32Type(), f.load(a[1], at + g * 64 + column));
          } else {
            Value shift = f.toI32(g / (groups / 2) * 4);
            Value low = arith::ShRUIOp::create(f, i32(f.load(a[1], at + g % (groups / 2) * 64 + column)), shift);
            code = arith::AndIOp::create(f, low, f.i32(15));
            if (int64_t bits = format.highBits()) {
              int64_t perByte = 8 / bits;
              Value byte = i32(f.load(a[1], at + format.highStart() + g / perByte * 64 + column));
              Value high = arith::ShRUIOp::create(f, byte, f.toI32(g % perByte * bits));
              high = arith::AndIOp::create(f, high, f.i32((1 << bits) - 1));
              code = arith::OrIOp::create(f, code, arith::ShLIOp::create(f, high, f.i32(4)));
            }
            code = arith::SubIOp::create(f, code, f.i32(format.codeOffset));
          }
          Value number = arith::SIToFPOp::create(f, f.getF32Type(), code);
          Value value = offset ? f.fma(number, scale, vector::ExtractOp::create(f, offset, ArrayRef<int64_t>{0}))
                               : f.mul(number, scale);
          f.store(value, a[2], row * f.ix(a[3]) + b * quantizedBlock + k);
        });
      }
    });
  });
}

} // namespace ingot::cpu
