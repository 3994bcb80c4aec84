//===- PackQuantized.cpp - Panels of quantized weights ------------------------------------------------------------===//
//
// GGUF's blocks are those of ggml-common.h; Import/ElementKind.cpp decodes the same bits to float32.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Target/PackQuantized.h"
#include "compiler/Target/Packer.h"
#include "ingot_rt/abi.h"
#include "llvm/Support/Endian.h"

using namespace mlir;
using namespace llvm;

namespace ingot {

static constexpr int64_t panelRows = INGOT_RT_PANEL;

QuantizedRows::QuantizedRows(const QuantizedFormat &format, int64_t rows, int64_t k)
    : unitsPerRow(format.units(k)), blocksPerRow(unitsPerRow * (format.unit / quantizedBlock)) {
  codesPerRow = blocksPerRow * quantizedBlock;
  blockScalesPerRow = blocksPerRow * format.scalesPerBlock;
  codes.resize(rows * codesPerRow);
  scales.resize(rows * unitsPerRow);
  offsets.resize(rows * unitsPerRow);
  if (format.hasHeader()) {
    blockScales.resize(rows * blockScalesPerRow);
    blockOffsets.resize(rows * blocksPerRow);
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// GGUF's blocks
//===--------------------------------------------------------------------------------------------------------------===//

namespace {
/// Where the parts of one unit go.
struct UnitParts {
  uint8_t *codes;
  uint16_t *scale, *offset;
  uint8_t *blockScales, *blockOffsets;
};
} // namespace

/// 32 codes of 4 bits: byte i holds those of i and i + 16.
static void takeNibbles(const uint8_t *bytes, uint8_t *codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = bytes[i] & 15;
    codes[i + 16] = bytes[i] >> 4;
  }
}

/// A fifth bit for each of 32 codes.
static void addFifthBits(uint32_t word, uint8_t *codes) {
  for (int i = 0; i < 32; ++i)
    codes[i] |= (word >> i & 1) << 4;
}

static void takeSmallBlock(Quantization kind, const uint8_t *b, const UnitParts &out) {
  auto half = [&](int at) { return support::endian::read16le(b + at); };
  *out.scale = half(0);
  switch (kind) {
  case Quantization::Q8_0:
    std::copy_n(b + 2, 32, out.codes);
    return;
  case Quantization::Q4_0:
    takeNibbles(b + 2, out.codes);
    return;
  case Quantization::Q4_1:
    *out.offset = half(2);
    takeNibbles(b + 4, out.codes);
    return;
  case Quantization::Q5_0:
    takeNibbles(b + 6, out.codes);
    addFifthBits(support::endian::read32le(b + 2), out.codes);
    return;
  default:
    *out.offset = half(2);
    takeNibbles(b + 8, out.codes);
    addFifthBits(support::endian::read32le(b + 4), out.codes);
  }
}

/// Q4_K and Q5_K: the 6-bit scales and minima of 8 blocks in 12 bytes.
static void takeScalesAndMinima(const uint8_t *s, const UnitParts &out) {
  for (int j = 0; j < 8; ++j) {
    bool low = j < 4;
    out.blockScales[j] = low ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    out.blockOffsets[j] = low ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
  }
}

static void takeLargeBlock(Quantization kind, const uint8_t *b, const UnitParts &out) {
  if (kind == Quantization::Q6_K) {
    *out.scale = support::endian::read16le(b + 208);
    std::copy_n(b + 192, 16, out.blockScales);
    for (int i = 0; i < 256; ++i) {
      int half = i / 128, plane = i % 128 / 32, at = i % 32;
      int low = b[half * 64 + plane % 2 * 32 + at] >> (plane / 2 * 4) & 15;
      out.codes[i] = low | (b[128 + half * 32 + at] >> (plane * 2) & 3) << 4;
    }
    return;
  }
  *out.scale = support::endian::read16le(b);
  *out.offset = support::endian::read16le(b + 2);
  takeScalesAndMinima(b + 4, out);
  bool five = kind == Quantization::Q5_K;
  const uint8_t *high = b + 16, *low = five ? b + 48 : b + 16;
  for (int i = 0; i < 256; ++i) {
    int group = i / 32, at = i % 32;
    out.codes[i] = low[group / 2 * 32 + at] >> (group % 2 * 4) & 15;
    if (five)
      out.codes[i] |= (high[at] >> group & 1) << 4;
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Recipes
//===--------------------------------------------------------------------------------------------------------------===//

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

static int64_t rowCount(RankedTensorType type) { return type.getNumElements() / type.getShape().back(); }

static UnitParts partsOf(const QuantizedFormat &format, QuantizedRows &rows, int64_t row, int64_t unit) {
  int64_t blocks = format.unit / quantizedBlock;
  UnitParts parts = {rows.codes.data() + row * rows.codesPerRow + unit * format.unit,
                     rows.scales.data() + row * rows.unitsPerRow + unit,
                     rows.offsets.data() + row * rows.unitsPerRow + unit, nullptr, nullptr};
  if (format.hasHeader()) {
    parts.blockScales = rows.blockScales.data() + row * rows.blockScalesPerRow + unit * blocks * format.scalesPerBlock;
    parts.blockOffsets = rows.blockOffsets.data() + row * rows.blocksPerRow + unit * blocks;
  }
  return parts;
}

static Error readSource(SourceOp op, const QuantizedFormat &format, int64_t layer, const Checkpoint &checkpoint,
                        int64_t firstRow, int64_t rows, QuantizedRows &out, int64_t at) {
  Expected<const TensorInfo *> tensor = findSource(op, layer, checkpoint);
  if (!tensor)
    return tensor.takeError();
  if (elementKindName((*tensor)->dtype).lower() != stringifyQuantization(format.kind))
    return createStringError("tensor '" + (*tensor)->name + "' is stored as " + elementKindName((*tensor)->dtype) +
                             "; expected " + StringRef(stringifyQuantization(format.kind)).upper());
  int64_t bytesPerUnit = elementKindInfo((*tensor)->dtype).blockBytes, bytesPerRow = out.unitsPerRow * bytesPerUnit;
  std::vector<char> stored(rows * bytesPerRow);
  if (Error error = checkpoint.readStored(**tensor, firstRow, rows, stored))
    return error;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t unit = 0; unit < out.unitsPerRow; ++unit) {
      const auto *block = reinterpret_cast<const uint8_t *>(stored.data()) + row * bytesPerRow + unit * bytesPerUnit;
      UnitParts parts = partsOf(format, out, at + row, unit);
      if (format.hasHeader())
        takeLargeBlock(format.kind, block, parts);
      else
        takeSmallBlock(format.kind, block, parts);
    }
  return Error::success();
}

static Error readQuantize(QuantizeOp op, const QuantizedFormat &format, int64_t layer, const Checkpoint &checkpoint,
                          int64_t firstRow, int64_t rows, QuantizedRows &out, int64_t at) {
  int64_t k = tensorType(op.getInput()).getShape().back();
  std::vector<float> values(rows * k);
  if (Error error = readRecipeRows(op.getInput(), layer, checkpoint, firstRow, rows, values))
    return error;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t unit = 0; unit < out.unitsPerRow; ++unit) {
      int64_t first = unit * quantizedBlock, count = std::min(quantizedBlock, k - first);
      QuantizedBlock block = quantizeBlock(format.kind, ArrayRef<float>(values).slice(row * k + first, count));
      UnitParts parts = partsOf(format, out, at + row, unit);
      std::copy_n(block.codes, quantizedBlock, parts.codes);
      *parts.scale = block.scale;
      *parts.offset = block.offset;
    }
  return Error::success();
}

Error readQuantizedRows(Value value, int64_t layer, const Checkpoint &checkpoint, int64_t firstRow, int64_t rows,
                        QuantizedRows &out, int64_t at) {
  const QuantizedFormat &format = *getQuantizedFormat(tensorType(value));
  Operation *op = value.getDefiningOp();
  if (auto source = dyn_cast<SourceOp>(op))
    return readSource(source, format, layer, checkpoint, firstRow, rows, out, at);
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return readQuantize(quantize, format, layer, checkpoint, firstRow, rows, out, at);
  if (auto pack = dyn_cast<PackOp>(op))
    return readQuantizedRows(pack.getInput(), layer, checkpoint, firstRow, rows, out, at);
  // Stacked or concatenated: row r of the result is row r - start of the input that holds it.
  int64_t start = 0;
  for (Value input : op->getOperands()) {
    int64_t end = start + rowCount(tensorType(input));
    int64_t first = std::max(start, firstRow), last = std::min(end, firstRow + rows);
    if (first < last)
      if (Error error =
              readQuantizedRows(input, layer, checkpoint, first - start, last - first, out, at + first - firstRow))
        return error;
    start = end;
  }
  return Error::success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Panels
//===--------------------------------------------------------------------------------------------------------------===//

/// Codes and high bits of one block of 16 rows.
static void storeCodes(const QuantizedFormat &format, const uint8_t *codes, int64_t stride, uint8_t *dst) {
  uint8_t *high = dst + format.highStart();
  int64_t bits = format.highBits(), perByte = bits ? 8 / bits : 1;
  for (int64_t f = 0; f < panelRows; ++f)
    for (int64_t k = 0; k < quantizedBlock; ++k) {
      uint8_t code = codes[f * stride + k];
      int64_t group = k / 4, column = f * 4 + k % 4;
      if (format.codeBits == 8) {
        dst[group * 64 + column] = code;
        continue;
      }
      dst[group % 4 * 64 + column] |= (code & 15) << (group / 4 * 4);
      if (bits)
        high[group / perByte * 64 + column] |= (code >> 4) << (group % perByte * bits);
    }
}

static void storeHalves(const std::vector<uint16_t> &halves, int64_t stride, int64_t unit, uint8_t *dst) {
  for (int64_t f = 0; f < panelRows; ++f)
    support::endian::write16le(dst + 2 * f, halves[f * stride + unit]);
}

static void storeUnit(const QuantizedFormat &format, const QuantizedRows &rows, int64_t unit, uint8_t *dst) {
  int64_t blocks = format.unit / quantizedBlock;
  if (format.hasHeader()) {
    storeHalves(rows.scales, rows.unitsPerRow, unit, dst);
    if (format.hasOffsets)
      storeHalves(rows.offsets, rows.unitsPerRow, unit, dst + 2 * panelRows);
  }
  for (int64_t b = 0; b < blocks; ++b) {
    uint8_t *block = dst + format.headerBytes() + b * format.blockBytes();
    int64_t index = unit * blocks + b;
    storeCodes(format, rows.codes.data() + index * quantizedBlock, rows.codesPerRow, block);
    if (!format.hasHeader()) {
      storeHalves(rows.scales, rows.unitsPerRow, unit, block + format.scaleStart());
      if (format.hasOffsets)
        storeHalves(rows.offsets, rows.unitsPerRow, unit, block + format.offsetStart());
      continue;
    }
    for (int64_t f = 0; f < panelRows; ++f) {
      for (int64_t s = 0; s < format.scalesPerBlock; ++s)
        block[format.scaleStart() + s * panelRows + f] =
            rows.blockScales[f * rows.blockScalesPerRow + index * format.scalesPerBlock + s];
      if (format.hasOffsets)
        block[format.offsetStart() + f] = rows.blockOffsets[f * rows.blocksPerRow + index];
    }
  }
}

void storeQuantizedPanel(const QuantizedFormat &format, const QuantizedRows &rows, int64_t k, int64_t segments,
                         int64_t panels, int64_t panel, char *dst) {
  int64_t perSegment = format.segmentLength(k, segments) / format.unit, total = rows.unitsPerRow;
  for (int64_t start = 0; start < total; start += perSegment) {
    int64_t units = std::min(perSegment, total - start);
    auto *out = reinterpret_cast<uint8_t *>(dst) + (panels * start + panel * units) * format.unitBytes();
    for (int64_t u = 0; u < units; ++u)
      storeUnit(format, rows, start + u, out + u * format.unitBytes());
  }
}

} // namespace ingot
