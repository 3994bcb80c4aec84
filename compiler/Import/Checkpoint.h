// The weights of a model as every reader presents them: a list of tensors under
// Hugging Face's names, in Hugging Face's order of rows, read a few rows at a
// time. Nothing here holds a tensor: files stay mapped and rows are converted
// on request, so that memory does not depend on the size of the model.
#ifndef INGOT_COMPILER_IMPORT_CHECKPOINT_H
#define INGOT_COMPILER_IMPORT_CHECKPOINT_H

#include "compiler/Import/ElementKind.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ingot {

/// One tensor of a checkpoint.
struct TensorInfo {
  /// The name in Hugging Face's terms, which everything downstream uses.
  std::string name;
  /// The name in the file: "blk.0.attn_q.weight" in GGUF, else the same as
  /// `name`. Errors about the file say this one.
  std::string storedName;
  ElementKind dtype = ElementKind::F32;
  /// Outermost dimension first, as Hugging Face writes it; empty for a scalar.
  llvm::SmallVector<int64_t, 4> shape;
  /// The file that holds it; empty for random weights.
  std::string file;
  /// Its position in Checkpoint::tensors(), filled by the checkpoint.
  size_t index = 0;

  /// A row is the last dimension: elements of a row (1 for a scalar), and how
  /// many rows there are (1 for a vector).
  int64_t rowSize() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const {
    int64_t count = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i)
      count *= shape[i];
    return count;
  }
  /// The product of the shape, which readers have checked to fit.
  int64_t elements() const { return rows() * rowSize(); }
};

/// What the readers have in common. All const members may be called from
/// several threads at a time.
class Checkpoint {
public:
  virtual ~Checkpoint();

  /// All tensors, in the order of the file or files.
  llvm::ArrayRef<TensorInfo> tensors() const { return infos; }

  /// The tensor of that Hugging Face name, or null. The pointer lives as long
  /// as the checkpoint.
  const TensorInfo *find(llvm::StringRef name) const;

  /// Converts rows [firstRow, firstRow + rows) of `tensor` to float32 (see
  /// convertToF32). `dst` has rows * rowSize() elements. Integers and 8-bit
  /// floats are an error that names the tensor and its type.
  llvm::Error readF32(const TensorInfo &tensor, int64_t firstRow, int64_t rows, llvm::MutableArrayRef<float> dst) const;

  /// Copies the stored bits of those rows, for F32, F16, BF16 and the
  /// quantizations; `dst` has their number of bytes.
  llvm::Error readStored(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                         llvm::MutableArrayRef<char> dst) const;

  /// The stored bytes of a whole tensor of F32, F16 or BF16 where they lie (any
  /// alignment), without a copy. An error for other types and where the file's
  /// order of rows is not the presented one or there is no file; readStored
  /// still works.
  llvm::Expected<llvm::ArrayRef<char>> rawBytes(const TensorInfo &tensor) const;

  /// Tells the system that a tensor's pages are not needed soon, so that they
  /// need not stay in memory.
  virtual void release(const TensorInfo &tensor) const {}

protected:
  /// Adds a tensor whose shape and size the reader has checked; its `index` is
  /// set here. False if the name is taken.
  bool addTensor(TensorInfo tensor);

  /// readF32 with arguments checked: the kind is convertible, the rows exist,
  /// `dst` fits.
  virtual llvm::Error convertRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                                  llvm::MutableArrayRef<float> dst) const = 0;
  /// readStored with arguments checked.
  virtual llvm::Error copyRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                               llvm::MutableArrayRef<char> dst) const = 0;
  /// The mapped bytes of a plain tensor in the presented order, or nothing.
  virtual std::optional<llvm::ArrayRef<char>> mappedBytes(const TensorInfo &tensor) const = 0;

private:
  llvm::Error checkRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows, uint64_t unitsInDst,
                        uint64_t unitsPerRow) const;

  std::vector<TensorInfo> infos;
  llvm::StringMap<size_t> byName;
};

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_CHECKPOINT_H
