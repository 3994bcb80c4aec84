//===- LinearFrame.h - What every product with packed weights has in common
//----------------------------------------===//
//
// The products with floats (Linear.cpp) and with quantized weights differ in how a tile of sums is made, not in the
// function around it nor in what becomes of the sums.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CODEGEN_CPU_LINEARFRAME_H
#define INGOT_COMPILER_CODEGEN_CPU_LINEARFRAME_H

#include "compiler/Codegen/CPU/Kernels.h"

namespace ingot::cpu {

/// The body of a linear's function.
struct LinearFrame {
  Emitter &e;
  Kernels &kernels;
  const LinearShape &shape;
  LinearOperands in;
  Worker worker;

  // Derived.
  /// Features of the packed matrix: n in whole panels, for a gated product those of both matrices.
  Ix features;
  /// Where a tile's sums lie in the scratch memory: [segment][row][panel][lane].
  Ix accumulators;

  LinearFrame(Emitter &e, Kernels &kernels, const LinearShape &shape) : e(e), kernels(kernels), shape(shape) {}

  int64_t segments() const;
  /// Panels that belong together.
  int64_t unitPanels() const { return shape.gated ? 2 : 1; }

  // A linear's function and the one that stores a tile take the same arguments first.
  static std::string computeSuffix(const LinearShape &shape);
  static std::string nameOf(const LinearShape &shape, const LinearOperands &operands);
  static llvm::SmallVector<mlir::Value> argumentsOf(const LinearShape &shape, const LinearOperands &operands,
                                                    const Worker &worker);
  /// The other direction, inside the function: `outer` says which optional operands there are.
  void bind(mlir::ValueRange arguments, const LinearOperands &outer);

  /// Bias, activation, residual and the store (or the comparison) of a unit's 16 features: `value` is the sum over K,
  /// `up` the second matrix's, or null.
  void finish(Ix firstRow, Ix blockRow, Ix unit, mlir::Value value, mlir::Value up);
  /// The sum of the segments by the fixed tree.
  mlir::Value combine(Ix at, Ix segmentStride);
  void storeTile(Ix firstRow, Ix blockRow, Ix unit, Ix tileRows, Ix rowFloats, Ix unitCount);
  /// Calls the function that stores the sums in the accumulators: `unitCount` units from `unit` on, one after the
  /// other, of `rows` rows from `blockRow` of the block that starts at `firstRow`, `rowFloats` apart.
  void epilogue(Ix firstRow, Ix blockRow, Ix unit, Ix rows, Ix rowFloats, Ix unitCount);

  void initArgmax(Ix rows);
  void updateArgmax(Ix row, Ix unit, mlir::Value value);
  void reduceArgmax(Ix firstRow, Ix rows);
};

} // namespace ingot::cpu

#endif // INGOT_COMPILER_CODEGEN_CPU_LINEARFRAME_H
