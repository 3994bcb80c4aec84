//===- FusionSupport.h - What the fusion passes share -------------------------------------------------------------===//
//
// Remarks on hit and miss, the sweep over a function, and the questions about linears that several fusions ask.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TRANSFORMS_FUSIONSUPPORT_H
#define INGOT_COMPILER_TRANSFORMS_FUSIONSUPPORT_H

#include "dialects/ingot/Ingot.h"
#include "mlir/IR/PatternMatch.h"

namespace ingot {

/// Reports that the fusion `pass` (its command-line name) was done at `root`: a remark of kind `passed`.
void reportHit(mlir::Operation *root, llvm::StringRef pass, const llvm::Twine &what);

/// Reports why the fusion `pass` was not done at `root`: a remark of kind `missed` and a match failure.
mlir::LogicalResult reportMiss(mlir::PatternRewriter &rewriter, mlir::Operation *root, llvm::StringRef pass,
                               const llvm::Twine &reason);

/// Applies `patterns` once to every op of `function`, in order, and then erases what the rewrites left without a user.
/// One sweep, so that each root is judged, and remarked on, exactly once.
void runFusion(mlir::func::FuncOp function, mlir::RewritePatternSet patterns);

/// Erases the ops of `function` that have no user and no effect, from the last to the first.
void eraseDeadOps(mlir::func::FuncOp function);

/// Features of an activation: its second dimension.
inline int64_t getFeatures(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getDimSize(1);
}

/// Why `linears` cannot be one product with all their weights: empty if they can. They must read one input, be plain
/// (no gate, residual or row-parallel sum), all have biases or none, and be stored as one element type.
std::string whyNotOneProduct(llvm::ArrayRef<LinearOp> linears);

} // namespace ingot

#endif // INGOT_COMPILER_TRANSFORMS_FUSIONSUPPORT_H
