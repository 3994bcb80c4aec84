//===- Recipes.h - Building the recipes of parameters -------------------------------------------------------------===//
//
// A recipe makes a parameter's packed bytes from tensors of the checkpoint; the packer executes it, tensor by tensor.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TRANSFORMS_RECIPES_H
#define INGOT_COMPILER_TRANSFORMS_RECIPES_H

#include "dialects/ingot/Ingot.h"
#include "mlir/IR/IRMapping.h"

namespace ingot {

/// Builds, in another recipe, the tensor that `parameter` declares: its source, or a copy of its own recipe.
inline mlir::Value buildTensor(mlir::OpBuilder &builder, ParameterOp parameter) {
  if (parameter.getSource())
    return SourceOp::create(builder, parameter.getLoc(), parameter.getTensorType(), *parameter.getSource());
  mlir::IRMapping mapping;
  for (mlir::Operation &op : parameter.getRecipe().front().without_terminator())
    builder.clone(op, mapping);
  return mapping.lookup(parameter.getYielded());
}

} // namespace ingot

#endif // INGOT_COMPILER_TRANSFORMS_RECIPES_H
