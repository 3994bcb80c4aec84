// A checkpoint of random blocks for the sources of a module, in each source's own format.
#ifndef INGOT_TEST_UNIT_CODEGEN_RANDOMBLOCKS_H
#define INGOT_TEST_UNIT_CODEGEN_RANDOMBLOCKS_H

#include "compiler/Import/Checkpoint.h"
#include "dialects/ingot/Ingot.h"
#include "mlir/IR/BuiltinOps.h"
#include <vector>

namespace ingot::test {

/// Every tensor that a recipe of `packed` names, for layers 0 to 7: floats as the evaluator's random weights, quantized
/// ones as random codes with scales (and offsets) whose values are of the order of 1.
class RandomBlocks final : public Checkpoint {
public:
  explicit RandomBlocks(mlir::ModuleOp packed);

protected:
  llvm::Error convertRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                          llvm::MutableArrayRef<float> dst) const override;
  llvm::Error copyRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                       llvm::MutableArrayRef<char> dst) const override;
  std::optional<llvm::ArrayRef<char>> mappedBytes(const TensorInfo &) const override { return std::nullopt; }

private:
  void add(const std::string &name, mlir::RankedTensorType type);
  std::vector<std::vector<char>> bytes;
};

} // namespace ingot::test

#endif // INGOT_TEST_UNIT_CODEGEN_RANDOMBLOCKS_H
