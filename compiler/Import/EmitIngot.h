// Writes a decoder as a module of phase `ingot`: the reference's forward pass,
// one function per kind of layer, parameters that name the checkpoint's tensors.
#ifndef INGOT_COMPILER_IMPORT_EMITINGOT_H
#define INGOT_COMPILER_IMPORT_EMITINGOT_H

#include "compiler/Import/Checkpoint.h"
#include "compiler/Import/Ledger.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "models/Architecture.h"

namespace ingot {

struct EmitOptions {
  /// The model's own name, empty if it has none: the architecture stands in. Never a directory's: two compilations of
  /// one model give equal bytes wherever it lies.
  std::string name;
  int64_t maxContext = 0, maxBatch = 64, maxStepTokens = 512;
  /// As ImportOptions has them.
  std::optional<ElementKind> dtype, kvDtype;
  bool quantize = false;
  std::vector<std::string> ignoredTensors;
};

/// The element type of a parameter of rank `rank` that is stored as `kind`: floats and the quantizations that
/// executables hold as they are, anything else (and any quantized vector) as f32.
mlir::Type presentedType(mlir::MLIRContext &context, ElementKind kind, size_t rank);

/// Emits the module. Every tensor's shape and type is checked and every tensor is claimed once; one that nothing needs
/// is waived by a rule, ignored by the user, or an error that names it. `ledger` and `warnings` are added to.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> emitIngot(mlir::MLIRContext &context, DecoderConfig config,
                                                            const Checkpoint &checkpoint, const EmitOptions &options,
                                                            Ledger &ledger, std::vector<std::string> &warnings);

/// What becomes of tensors that nothing has claimed: waived by a rule, ignored by a glob, or the error returned.
/// `claimed` is indexed by TensorInfo::index.
llvm::Error settleUnusedTensors(const Checkpoint &checkpoint, const std::vector<bool> &claimed,
                                llvm::ArrayRef<std::string> ignoredTensors, Ledger &ledger,
                                std::vector<std::string> &warnings);

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_EMITINGOT_H
