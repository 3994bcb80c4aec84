//===- ModelLayout.h - Where parameters lie, and the table of a step's ops
//----------------------------------------===//
//
// The one place that turns a packed module into numbers which the packer, the
// kernels and the runtime must agree on: each parameter's offset and stride in
// the payload's weights, and each op's number, name and cost. Index formulas
// inside a parameter are those of ingot_rt/abi.h.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CONVERSION_MODELLAYOUT_H
#define INGOT_COMPILER_CONVERSION_MODELLAYOUT_H

#include "compiler/Transforms/ArenaPlan.h"
#include "dialects/ingot/Ingot.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include <string>
#include <vector>

namespace ingot {

/// Module attribute: array of {name, offset, stride, count}, a row for each
/// parameter in order of appearance. Offsets and strides in bytes. Set by
/// convert-ingot-to-loops.
inline constexpr llvm::StringLiteral parametersAttrName = "ingot.parameters";
/// Module attribute: array of {name, kind, bytes, flops_per_token,
/// flops_per_row, flops_per_context, columns, in_layer}, a row for each
/// numbered op of a step. Set by convert-ingot-to-loops.
inline constexpr llvm::StringLiteral opsAttrName = "ingot.ops";
/// How one parameter is stored: what ingot_rt_parameter says of it.
struct ParameterLayout {
  ParameterOp op;
  /// enum ingot_rt_dtype and enum ingot_rt_layout.
  uint32_t dtype = 0, layout = 0;
  /// Logical shape of one layer's matrix; a vector is one row; of a pair in
  /// panels, one of its matrices.
  uint64_t rows = 0, columns = 0;
  uint64_t segments = 1;
  /// Layers of the parameter's kind; 1 outside the layers.
  uint64_t count = 1;
  /// Bytes of one layer's packed tensor, the distance between layers (a
  /// multiple of INGOT_RT_PARAMETER_ALIGNMENT) and the offset of the first in
  /// the payload's weights.
  uint64_t layerBytes = 0, layerStride = 0, offset = 0;
  /// Logical elements in all layers.
  uint64_t parameters = 0;
};

/// The parameters of a module in order of appearance.
struct ParameterTable {
  std::vector<ParameterLayout> parameters;
  /// Bytes of all of them, a multiple of INGOT_RT_PARAMETER_ALIGNMENT.
  uint64_t weightsBytes = 0;

  /// The row of the parameter called `name`, or null.
  const ParameterLayout *find(llvm::StringRef name) const;
  /// The value of `ingot.parameters`.
  mlir::ArrayAttr toAttr(mlir::MLIRContext *context) const;
};

/// Lays out a module's parameters, at stage `packed` or after it: each starts
/// at the next multiple of INGOT_RT_PARAMETER_ALIGNMENT. The layers of a kind
/// are counted in the runs of `ingot.layers`, or read from `ingot.parameters`
/// once that is there. Sizes that exceed 64 bits are errors at the parameter.
mlir::FailureOr<ParameterTable> computeParameterTable(mlir::ModuleOp module);

/// The numbered op `op` of a step: what ingot_rt_op says of it.
struct StepOp {
  mlir::Operation *op = nullptr;
  /// Unique in the module: the function's name, then that of the op's parameter
  /// or else of the op.
  std::string name;
  /// The op's name without its dialect.
  std::string kind;
  uint64_t bytes = 0, flopsPerToken = 0, flopsPerRow = 0, flopsPerContext = 0;
  /// Features of the result; 0 if it has none.
  uint32_t columns = 0;
  bool inLayer = false;
  /// The op works on the selected rows, not on all tokens.
  bool perRow = false;
};

/// The numbered ops of a module at stage `packed`, in order of appearance
/// (which is not that of execution: a layer stands before the function that
/// calls it): every op with activations as operands or results but `split`,
/// `layers` and what ends a function. A number is the position in the table.
struct StepOpTable {
  std::vector<StepOp> ops;
  llvm::DenseMap<mlir::Operation *, uint32_t> numbers;

  /// The value of `ingot.ops`.
  mlir::ArrayAttr toAttr(mlir::MLIRContext *context) const;
};
StepOpTable computeStepOpTable(mlir::ModuleOp module, const ParameterTable &parameters);

/// Whether `value`, an activation, has a row for each selected row rather than
/// for each token.
bool isPerRow(mlir::Value value);

} // namespace ingot

#endif // INGOT_COMPILER_CONVERSION_MODELLAYOUT_H
