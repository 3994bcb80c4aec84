//===- Parameters.h - Parameters of one layer, read row by row ---------------------------------------------------===//
//
// A parameter's logical tensor is its source or what its recipe makes. Neither
// is ever built: rows are computed when they are asked for.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_EVALUATOR_PARAMETERS_H
#define INGOT_COMPILER_EVALUATOR_PARAMETERS_H

#include "compiler/Evaluator/Evaluator.h"

namespace ingot {

/// A parameter and, for one of a kind, the layer (over all layers) whose tensor
/// it is; -1 without kind.
struct Parameter {
  ParameterOp op;
  int64_t layer = -1;

  /// Rows of a tensor: the product of all dimensions but the last; a vector is
  /// one row.
  static int64_t rows(mlir::RankedTensorType type);
  static int64_t rowSize(mlir::RankedTensorType type) { return type.getShape().back(); }

  /// Writes rows [firstRow, firstRow + rows) to `dst` as float32.
  llvm::Error readRows(ParameterProvider &provider, int64_t firstRow, int64_t rows,
                       llvm::MutableArrayRef<float> dst) const;
  /// All elements of a parameter that is small, such as a norm's weight.
  llvm::Expected<std::vector<float>> readAll(ParameterProvider &provider) const;
};

} // namespace ingot

#endif // INGOT_COMPILER_EVALUATOR_PARAMETERS_H
