//===- Passes.h - Passes from phase ingot to phase packed ---------------------------------------------------------===//
//
// Passes.td documents each pass. The attributes that passes leave for each other and for later phases are named here.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TRANSFORMS_PASSES_H
#define INGOT_COMPILER_TRANSFORMS_PASSES_H

#include "dialects/ingot/Ingot.h"
#include "mlir/Pass/Pass.h"

namespace ingot {

#define GEN_PASS_DECL
#include "compiler/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/Transforms/Passes.h.inc"

/// Parameter attribute: the `#ingot.packed` that ingot-select-layout chose.
inline constexpr llvm::StringLiteral layoutAttrName = "ingot.layout";
/// Parameter attribute: the element type that ingot-select-layout chose for storage.
inline constexpr llvm::StringLiteral storageAttrName = "ingot.storage";
/// Parameter attribute: an element type that values are rounded to before they are stored wider.
inline constexpr llvm::StringLiteral roundAttrName = "ingot.round";
/// What a linear that reads the parameter multiplies, if not float32; a `#ingot<compute int8>`.
inline constexpr llvm::StringLiteral computeAttrName = "ingot.compute";

/// Adds the patterns of ingot-fuse-qkv (roots: attention).
void populateFuseQKVPatterns(mlir::RewritePatternSet &patterns, mlir::PatternBenefit benefit = 1);
/// Adds the patterns of ingot-fuse-gate-up (roots: mul).
void populateFuseGateUpPatterns(mlir::RewritePatternSet &patterns, mlir::PatternBenefit benefit = 1);
/// Adds the patterns of ingot-fuse-add-rms-norm (roots: rms_norm).
void populateFuseAddRMSNormPatterns(mlir::RewritePatternSet &patterns, mlir::PatternBenefit benefit = 1);
/// Adds the patterns of ingot-fuse-qk-norm-rope-append (roots: kv_append).
void populateFuseQKNormRopeAppendPatterns(mlir::RewritePatternSet &patterns, mlir::PatternBenefit benefit = 1);
/// Adds the patterns of ingot-fuse-linear-epilogue (roots: add).
void populateFuseLinearEpiloguePatterns(mlir::RewritePatternSet &patterns, mlir::PatternBenefit benefit = 1);

/// Makes the remarks of the passes diagnostics of `context` (ingot-opt does so with --remarks-filter=ingot). Without it
/// they cost nothing.
mlir::LogicalResult enableRemarks(mlir::MLIRContext &context);

} // namespace ingot

#endif // INGOT_COMPILER_TRANSFORMS_PASSES_H
