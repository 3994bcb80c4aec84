// Reads safetensors: one file, or shards with the index that names them. The
// format: 8 bytes of header length (little-endian), the header (a JSON object:
// tensor name -> dtype, shape, data_offsets; "__metadata__"), then the tensors'
// bytes without holes (https://huggingface.co/docs/safetensors).
#ifndef INGOT_COMPILER_IMPORT_SAFETENSORS_H
#define INGOT_COMPILER_IMPORT_SAFETENSORS_H

#include "compiler/Import/Checkpoint.h"
#include "compiler/Import/MappedFile.h"

namespace ingot {

/// A tensor as a header describes it, checked against the bytes: `bytes` has
/// exactly the size of dtype and shape.
struct SafetensorsEntry {
  std::string name;
  ElementKind dtype = ElementKind::F32;
  llvm::SmallVector<int64_t, 4> shape;
  llvm::ArrayRef<char> bytes;
};

/// Checks a whole file in memory and lists its tensors in the order of their
/// data. Each fault is an error of its own that names the file, the tensor
/// where one is to blame, and expected and actual: too short, header length,
/// JSON, dtype, shape, offsets against shape, range, overlap, hole, trailing
/// bytes, truncation.
llvm::Expected<std::vector<SafetensorsEntry>> parseSafetensors(llvm::StringRef file, llvm::ArrayRef<char> bytes);

/// A model.safetensors or all shards of a model.safetensors.index.json.
class SafetensorsCheckpoint final : public Checkpoint {
public:
  /// Opens one file.
  static llvm::Expected<std::unique_ptr<SafetensorsCheckpoint>> open(llvm::StringRef path);

  /// Opens the shards that an index names, relative to its directory. The index
  /// and the shards must agree: an entry that is absolute or contains "..", a
  /// tensor that the named shard lacks, one that the index does not name or
  /// names for another shard, and a metadata.total_size that is not the sum of
  /// the tensors' bytes are errors.
  static llvm::Expected<std::unique_ptr<SafetensorsCheckpoint>> openIndex(llvm::StringRef path);

  void release(const TensorInfo &tensor) const override;

protected:
  llvm::Error convertRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                          llvm::MutableArrayRef<float> dst) const override;
  llvm::Error copyRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                       llvm::MutableArrayRef<char> dst) const override;
  std::optional<llvm::ArrayRef<char>> mappedBytes(const TensorInfo &tensor) const override;

private:
  SafetensorsCheckpoint() = default;
  llvm::Error addFile(llvm::StringRef path);

  std::vector<std::shared_ptr<MappedFile>> files;
  /// Where tensor i's bytes and file are.
  struct Place {
    llvm::ArrayRef<char> bytes;
    size_t file;
  };
  std::vector<Place> places;
};

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_SAFETENSORS_H
