//===- Model.h - What the runtime is told of a model, read from its IR
//--------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_MODEL_H
#define INGOT_COMPILER_TARGET_MODEL_H

#include "compiler/Import/RandomCheckpoint.h"
#include "compiler/Target/ModelTables.h"

namespace ingot {

/// Reads shapes, cache and parameters from a module in phase `packed`. `random`
/// is the generator of `--weights=random`, or null. Op table, arena and
/// variants are added by addCompiledModel.
mlir::FailureOr<ModelRecord> describeModel(mlir::ModuleOp packed, llvm::ArrayRef<PackedParameter> parameters,
                                           const RandomCheckpoint *random);

/// Adds what the conversion to loops has decided, read from the attributes of a
/// module in phase `loops` or `llvm`.
mlir::LogicalResult addCompiledModel(mlir::ModuleOp module, ModelRecord &record);

/// The exported step function of the variant called `name`, as the conversion
/// to LLVM names it.
std::string getStepSymbol(llvm::StringRef variant);

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_MODEL_H
