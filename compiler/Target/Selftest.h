//===- Selftest.h - Reference logits for `FILE selftest` ----------------------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_SELFTEST_H
#define INGOT_COMPILER_TARGET_SELFTEST_H

#include "compiler/Import/Checkpoint.h"
#include "compiler/Target/Image.h"
#include "compiler/Target/Packer.h"

namespace ingot {

/// Computes logits of a few fixed tokens with the naive evaluator, in float64, on a module
/// in phase `packed`, from the checkpoint itself: none of the compiled code and
/// none of the packed bytes take part. Models whose evaluation would take more
/// than a fixed number of operations get a reason instead.
llvm::Expected<SelftestReference> computeSelftest(mlir::ModuleOp packed, llvm::ArrayRef<PackedParameter> parameters,
                                                  const Checkpoint &checkpoint);

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_SELFTEST_H
