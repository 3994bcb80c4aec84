// The checks that every reader shares: a read names rows that exist, of a type
// that has float values, into a buffer of the right size.
#include "compiler/Import/Checkpoint.h"
#include "compiler/Import/InputError.h"

using namespace llvm;
using namespace ingot;

Checkpoint::~Checkpoint() = default;

const TensorInfo *Checkpoint::find(StringRef name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &infos[it->second];
}

bool Checkpoint::addTensor(TensorInfo tensor) {
  tensor.index = infos.size();
  if (!byName.try_emplace(tensor.name, tensor.index).second)
    return false;
  infos.push_back(std::move(tensor));
  return true;
}

/// What errors about a tensor begin with.
static Error tensorError(const TensorInfo &tensor, const Twine &what) {
  return inputError(tensor.file.empty() ? StringRef("random weights") : StringRef(tensor.file),
                    "tensor " + quote(tensor.storedName) + ": " + what);
}

Error Checkpoint::checkRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows, uint64_t unitsInDst,
                            uint64_t unitsPerRow) const {
  if (tensor.index >= infos.size() || &infos[tensor.index] != &tensor)
    return tensorError(tensor, "is not one of this checkpoint's");
  if (firstRow < 0 || rows < 0 || rows > tensor.rows() || firstRow > tensor.rows() - rows)
    return tensorError(tensor, "rows " + Twine(firstRow) + " to " + Twine(firstRow) + " + " + Twine(rows) +
                                   " asked for; it has " + Twine(tensor.rows()));
  if (unitsInDst != uint64_t(rows) * unitsPerRow)
    return tensorError(tensor, "a buffer of " + Twine(unitsInDst) + " given for " + Twine(rows) + " rows; expected " +
                                   Twine(uint64_t(rows) * unitsPerRow));
  return Error::success();
}

Error Checkpoint::readF32(const TensorInfo &tensor, int64_t firstRow, int64_t rows, MutableArrayRef<float> dst) const {
  if (!isConvertible(tensor.dtype))
    return tensorError(tensor, "weights of type " + elementKindName(tensor.dtype) +
                                   " are not supported; expected F32, F16, "
                                   "BF16, F64 or a GGUF quantization");
  if (Error error = checkRows(tensor, firstRow, rows, dst.size(), tensor.rowSize()))
    return error;
  return convertRows(tensor, firstRow, rows, dst);
}

Error Checkpoint::readStored(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                             MutableArrayRef<char> dst) const {
  std::optional<int64_t> bytesPerRow = rowBytes(tensor.dtype, tensor.rowSize());
  if ((!isPlainFloat(tensor.dtype) && !isQuantized(tensor.dtype)) || !bytesPerRow)
    return tensorError(tensor, "stored as " + elementKindName(tensor.dtype) +
                                   "; raw rows are F32, F16, BF16 or quantized ones only");
  if (Error error = checkRows(tensor, firstRow, rows, dst.size(), *bytesPerRow))
    return error;
  return copyRows(tensor, firstRow, rows, dst);
}

Expected<ArrayRef<char>> Checkpoint::rawBytes(const TensorInfo &tensor) const {
  if (!isPlainFloat(tensor.dtype))
    return tensorError(tensor, "stored as " + elementKindName(tensor.dtype) + "; raw bytes are F32, F16 or BF16 only");
  if (Error error = checkRows(tensor, 0, 0, 0, 0))
    return std::move(error);
  if (std::optional<ArrayRef<char>> bytes = mappedBytes(tensor))
    return *bytes;
  return tensorError(tensor, "has no bytes in the presented order; its rows must be read");
}
