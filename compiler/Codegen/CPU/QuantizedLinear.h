//===- QuantizedLinear.h - Panels of quantized weights for the kernels --------------------------------------------===//
//
// What the products (QuantizedLinear.cpp) and the embedding (QuantizedEmbedding.cpp) share: scales, offsets and codes
// of a block of a panel, whose layout dialects/ingot/Quantization.h describes.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CODEGEN_CPU_QUANTIZEDLINEAR_H
#define INGOT_COMPILER_CODEGEN_CPU_QUANTIZEDLINEAR_H

#include "compiler/Codegen/CPU/DotUnit.h"
#include "compiler/Codegen/CPU/Tiles.h"
#include "dialects/ingot/Quantization.h"

namespace ingot::cpu {

/// Reads one block of a panel. `weights` is memref<?xi8>; features are `count` neighbours of the panel from `first` on.
struct PanelBlock {
  Emitter &e;
  const QuantizedFormat &format;
  mlir::Value weights;
  /// Bytes to the block and to the header of its unit.
  Ix block, header;

  /// Scale `which` (of scalesPerBlock) of the features, f32.
  mlir::Value scale(Ix first, int64_t count, int64_t which);
  /// Offsets of the features, f32; null if the format has none.
  mlir::Value offset(Ix first, int64_t count);

private:
  mlir::Value halves(Ix at, int64_t count);
  mlir::Value integers(Ix at, int64_t count, bool isSigned);
};

/// Register tiles of rows and panels, by descending rows; the last has one row.
std::vector<Tile> chooseQuantizedTiles(DotUnit unit);

/// Length of the segments of K of a linear with such weights.
Ix emitSegmentLength(Emitter &e, const QuantizedFormat &format, Ix k, int64_t segments);

} // namespace ingot::cpu

#endif // INGOT_COMPILER_CODEGEN_CPU_QUANTIZEDLINEAR_H
