//===- Quantization.h - The formats of quantized weights ----------------------------------------------------------===//
//
// What the values of a `!ingot.quantized` tensor are, how its panels lie in memory, and how float weights become such
// values. Import, packer, kernels and evaluator all read it: there is one definition of a format.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_DIALECTS_INGOT_QUANTIZATION_H
#define INGOT_DIALECTS_INGOT_QUANTIZATION_H

#include "dialects/ingot/Ingot.h"

namespace ingot {

/// Elements of a row that are quantized together.
inline constexpr int64_t quantizedBlock = 32;

/// Elements of an input that `compute int16` and `compute int8` round together. With 8 bits half a block of the
/// weights: an input has outliers, which take the precision of all that share their scale, and then the error of a
/// product is mostly the input's. With 32 the logits of SmolLM2-135M are twice as far from the unrounded ones
/// (Kullback-Leibler divergence 0.0032, with 16 0.0017; with 16 bits below 0.00002).
inline constexpr int64_t inputBlock16 = 32, inputBlock8 = 16;

/// A format of GGUF: an element is scale * (code - codeOffset) + offset, computed in float32 with one rounding where
/// anything is rounded at all. Scale and offset are of a block of 32 elements (of Q6_K's scales: of 16):
///   - unit 32: two float16, `scale` and `offset`;
///   - unit 256: a float16 for the 256 elements times an integer of 6 or 8 bits for the block; the offset is negative.
///
/// In memory a panel is a sequence of units. A unit is a header (unit 256 only) and its blocks:
///   header   scale [16] f16, then offset [16] f16 if there are offsets
///   block    codes; high bits; scales; offsets
///     codes      8 bits: [k / 4][16 features][k % 4]; fewer: the low 4 bits of k < 16 in the low half of a byte, those
///                of k + 16 in its high half: [k / 4][16][k % 4]
///     high bits  1 bit: [16][k % 4] bytes, bit k / 4. 2 bits: [k / 16][16][k % 4] bytes, bits 2 * (k / 4 % 4) on
///     scales     unit 32: [16] f16; unit 256: [scalesPerBlock][16] bytes, unsigned, of Q6_K signed
///     offsets    if there are any. unit 32: [16] f16; unit 256: [16] bytes, unsigned
/// Segments of K are whole units. The last block of a row may be filled up with zero codes.
struct QuantizedFormat {
  Quantization kind;
  /// Elements of K that one header serves: 32 (no header) or 256.
  int64_t unit;
  /// Bits of a code: 4, 5, 6, or 8, which is signed.
  int64_t codeBits;
  int64_t codeOffset;
  bool hasOffsets;
  int64_t scalesPerBlock;

  bool hasHeader() const { return unit != quantizedBlock; }
  int64_t highBits() const { return codeBits == 8 ? 0 : codeBits - 4; }

  // Bytes of a panel of 16 features; where a part starts in its block.
  int64_t codeBytes() const { return codeBits == 8 ? 512 : 256; }
  int64_t highBytes() const { return 64 * highBits(); }
  int64_t scaleBytes() const { return hasHeader() ? 16 * scalesPerBlock : 32; }
  int64_t offsetBytes() const { return !hasOffsets ? 0 : hasHeader() ? 16 : 32; }
  int64_t highStart() const { return codeBytes(); }
  int64_t scaleStart() const { return highStart() + highBytes(); }
  int64_t offsetStart() const { return scaleStart() + scaleBytes(); }
  int64_t blockBytes() const { return offsetStart() + offsetBytes(); }
  int64_t headerBytes() const { return !hasHeader() ? 0 : hasOffsets ? 64 : 32; }
  int64_t unitBytes() const { return headerBytes() + unit / quantizedBlock * blockBytes(); }

  /// Units of a row of `k` elements; the last one of a format without header may be partial.
  int64_t units(int64_t k) const { return (k + unit - 1) / unit; }
  /// Length of the segments of K, a multiple of the unit; the last ones may be shorter or empty.
  int64_t segmentLength(int64_t k, int64_t segments) const {
    return segments == 1 ? units(k) * unit : units((k + segments - 1) / segments) * unit;
  }
};

/// The format of a kind.
const QuantizedFormat &getQuantizedFormat(Quantization kind);

/// The format of a tensor's elements, or null if they are not quantized.
const QuantizedFormat *getQuantizedFormat(mlir::Type type);

/// A block of up to 32 elements in a format without header: 32 codes (those beyond the elements are 0), of 8 bits as
/// two's complement, and the bits of two float16.
struct QuantizedBlock {
  uint8_t codes[quantizedBlock] = {};
  uint16_t scale = 0, offset = 0;
};

/// `ingot.quantize` of one block of at least one and at most 32 values. Q8_0: the scale is the largest magnitude / 127
/// as float16, codes are values / scale, to nearest. Q4_1: scale and offset minimize the squared error of the block,
/// by alternating between the best codes and the least-squares line from several starts; float16 rounding included.
/// A block with a value that is no number or beyond float16's largest, 65504, has a scale of NaN.
QuantizedBlock quantizeBlock(Quantization kind, llvm::ArrayRef<float> values);

/// The values of a block.
void dequantizeBlock(Quantization kind, const QuantizedBlock &block, llvm::MutableArrayRef<float> values);

} // namespace ingot

#endif // INGOT_DIALECTS_INGOT_QUANTIZATION_H
