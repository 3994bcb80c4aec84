//===- Packer.h - Executes the recipes of packed parameters
//-------------------------------------------------------===//
//
// Reads checkpoint tensors a panel at a time, converts, arranges and writes
// them where the executable maps them. Memory is a few rows per thread,
// whatever the size of the model; time is that of reading and writing every
// byte once.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_PACKER_H
#define INGOT_COMPILER_TARGET_PACKER_H

#include "compiler/Conversion/ModelLayout.h"
#include "compiler/Import/Checkpoint.h"
#include "dialects/ingot/Ingot.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <vector>

namespace ingot {

/// A parameter of a module in phase `packed`, where its bytes go and for which
/// layers it has any.
struct PackedParameter {
  ParameterLayout layout;
  /// The layers of the parameter's kind in order of index; {-1} for a parameter
  /// outside the layers.
  std::vector<int64_t> layers;
};

/// The parameters of `module` in order of offset. Fails, with a diagnostic,
/// where computeParameterTable does.
mlir::FailureOr<std::vector<PackedParameter>> getPackedParameters(mlir::ModuleOp module);

/// The name of a source with the layer's number put in.
std::string instantiateSource(llvm::StringRef pattern, int64_t layer);

/// Writes every parameter into `weights`, which is zero-filled and as long as
/// the layout says. `progress` is called with the bytes written so far, from
/// any thread. Errors: a source that the checkpoint lacks or whose shape
/// differs from the recipe's, or a failed read; all name the tensor.
llvm::Error packParameters(llvm::ArrayRef<PackedParameter> parameters, const Checkpoint &checkpoint,
                           llvm::MutableArrayRef<char> weights, llvm::function_ref<void(uint64_t)> progress);

/// The checkpoint's tensor that a source names for layer `layer`; an error where it is missing or has another shape.
llvm::Expected<const TensorInfo *> findSource(SourceOp op, int64_t layer, const Checkpoint &checkpoint);

/// Makes rows [firstRow, firstRow + rows) of a recipe's value for layer `layer`
/// as f32. A row is the last dimension.
llvm::Error readRecipeRows(mlir::Value value, int64_t layer, const Checkpoint &checkpoint, int64_t firstRow,
                           int64_t rows, llvm::MutableArrayRef<float> dst);

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_PACKER_H
