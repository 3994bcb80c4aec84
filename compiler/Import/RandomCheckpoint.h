// Weights that come from no file: `--weights=random:SEED` as a checkpoint,
// element by element what runtime/include/ingot_rt/random.h defines.
#ifndef INGOT_COMPILER_IMPORT_RANDOMCHECKPOINT_H
#define INGOT_COMPILER_IMPORT_RANDOMCHECKPOINT_H

#include "compiler/Import/Checkpoint.h"
#include "ingot_rt/random.h"

namespace ingot {

/// A tensor that the model asks for. `name` keys the generator. `dtype` is F32,
/// F16 or BF16, which all hold the same values.
struct RandomTensor {
  std::string name;
  llvm::SmallVector<int64_t, 4> shape;
  ingot_rt_random_kind kind = INGOT_RT_RANDOM_MATRIX;
  ElementKind dtype = ElementKind::BF16;
};

/// The distribution of a tensor by its Hugging Face name and shape: biases end
/// in ".bias", norms are the other vectors, all else are matrices.
/// tools/random_weights.py has the same rule.
ingot_rt_random_kind randomKindOf(llvm::StringRef name, llvm::ArrayRef<int64_t> shape);

class RandomCheckpoint final : public Checkpoint {
public:
  /// An error for a shape that overflows, a name given twice, or a dtype that
  /// is not a plain float.
  static llvm::Expected<std::unique_ptr<RandomCheckpoint>> create(uint64_t seed, llvm::ArrayRef<RandomTensor> tensors);

  uint64_t seed() const { return randomSeed; }
  /// What the executable stores in place of the bytes of `tensor`.
  ingot_rt_random_kind kind(const TensorInfo &tensor) const { return generators[tensor.index].kind; }

protected:
  llvm::Error convertRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                          llvm::MutableArrayRef<float> dst) const override;
  llvm::Error copyRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                       llvm::MutableArrayRef<char> dst) const override;
  std::optional<llvm::ArrayRef<char>> mappedBytes(const TensorInfo &tensor) const override { return std::nullopt; }

private:
  explicit RandomCheckpoint(uint64_t seed) : randomSeed(seed) {}

  struct Generator {
    uint64_t key;
    ingot_rt_random_kind kind;
    int shift;
  };
  static void fill(const Generator &generator, uint64_t first, llvm::MutableArrayRef<float> dst);

  uint64_t randomSeed;
  std::vector<Generator> generators;
};

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_RANDOMCHECKPOINT_H
