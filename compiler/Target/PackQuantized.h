//===- PackQuantized.h - Panels of quantized weights --------------------------------------------------------------===//
//
// The part of the packer that moves codes and scales: out of GGUF's blocks, or of `ingot.quantize`, into the panels
// that dialects/ingot/Quantization.h describes.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_PACKQUANTIZED_H
#define INGOT_COMPILER_TARGET_PACKQUANTIZED_H

#include "compiler/Import/Checkpoint.h"
#include "dialects/ingot/Quantization.h"
#include <vector>

namespace ingot {

/// Rows of a quantized tensor taken apart. Of each row: a code for each element of its blocks of 32; per unit the bits
/// of two float16 (without header the scale and offset of the block); with a header per block 1 or 2 integer scales and
/// an integer offset.
struct QuantizedRows {
  std::vector<uint8_t> codes;
  std::vector<uint16_t> scales, offsets;
  std::vector<uint8_t> blockScales, blockOffsets;

  /// Room for `rows` rows of `k` elements, zero-filled: zero codes and scales.
  QuantizedRows(const QuantizedFormat &format, int64_t rows, int64_t k);

  // Elements of each array per row.
  int64_t codesPerRow, unitsPerRow, blocksPerRow, blockScalesPerRow;
};

/// Reads rows [firstRow, firstRow + rows) of the recipe's quantized `value` into rows [at, at + rows) of `out`.
llvm::Error readQuantizedRows(mlir::Value value, int64_t layer, const Checkpoint &checkpoint, int64_t firstRow,
                              int64_t rows, QuantizedRows &out, int64_t at);

/// Writes the first 16 rows of `rows` as panel `panel` of `panels` of a matrix whose rows have `k` elements in
/// `segments` segments, which starts at `dst`.
void storeQuantizedPanel(const QuantizedFormat &format, const QuantizedRows &rows, int64_t k, int64_t segments,
                         int64_t panels, int64_t panel, char *dst);

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_PACKQUANTIZED_H
