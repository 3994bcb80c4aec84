//===- CheckpointParameters.h - The evaluator's parameters from weight files -------------------------------------===//
//
// Joins two folders that do not know each other: compiler/Import reads weights,
// compiler/Evaluator asks for them.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_TOOLS_INGOT_EVAL_CHECKPOINTPARAMETERS_H
#define INGOT_TOOLS_INGOT_EVAL_CHECKPOINTPARAMETERS_H

#include "compiler/Evaluator/Evaluator.h"
#include "compiler/Import/EmitIngot.h"
#include "llvm/Support/FormatVariadic.h"

namespace ingot {

/// The values of an open checkpoint. What the IR says of a tensor has to agree
/// with what is stored: the shape, and the type as the importer presents it.
class CheckpointParameters final : public ParameterProvider {
public:
  explicit CheckpointParameters(std::shared_ptr<const Checkpoint> checkpoint) : checkpoint(std::move(checkpoint)) {}

  llvm::Error readRows(llvm::StringRef name, mlir::RankedTensorType type, int64_t firstRow, int64_t rows,
                       llvm::MutableArrayRef<float> dst) override {
    const TensorInfo *info = checkpoint->find(name);
    if (!info)
      return llvm::createStringError(llvm::formatv("no tensor '{0}' in the checkpoint", name));
    mlir::Type stored = presentedType(*type.getContext(), info->dtype, info->shape.size());
    if (stored != type.getElementType() || llvm::ArrayRef<int64_t>(info->shape) != type.getShape())
      return llvm::createStringError(llvm::formatv("{0}: tensor '{1}': expected {2}, got {3} of shape [{4}]",
                                                   info->file, name, type, elementKindName(info->dtype),
                                                   llvm::make_range(info->shape.begin(), info->shape.end())));
    return checkpoint->readF32(*info, firstRow, rows, dst.take_front(rows * info->rowSize()));
  }

private:
  std::shared_ptr<const Checkpoint> checkpoint;
};

} // namespace ingot

#endif // INGOT_TOOLS_INGOT_EVAL_CHECKPOINTPARAMETERS_H
