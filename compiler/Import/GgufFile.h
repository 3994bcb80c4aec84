// The GGUF container, versions 2 and 3: typed metadata and tensors, everything
// checked against the bytes
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). What the
// metadata means is Gguf.h's matter.
#ifndef INGOT_COMPILER_IMPORT_GGUFFILE_H
#define INGOT_COMPILER_IMPORT_GGUFFILE_H

#include "compiler/Import/ElementKind.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace ingot {

/// The types of metadata values, numbered as in the file.
enum class GgufType : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

llvm::StringRef ggufTypeName(GgufType type);

/// A metadata value. It refers to the file's bytes, which must outlive it.
class GgufValue {
public:
  GgufType type() const { return valueType; }
  bool isArray() const { return valueType == GgufType::Array; }
  /// Of an array: the elements' type (never Array) and their number.
  GgufType elementType() const { return arrayType; }
  uint64_t size() const { return count; }

  /// The value if it is of such a type: any integer that fits int64_t; F32 or
  /// F64, or an integer, as a double; a bool; a string.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;
  std::optional<bool> boolean() const;
  std::optional<llvm::StringRef> string() const;

  /// The bytes of an array of u8 or i8 (a scalar counts as none).
  std::optional<llvm::StringRef> bytes() const;

  /// All elements, if it is an array of such a type (a scalar counts as none).
  std::optional<std::vector<int64_t>> integers() const;
  std::optional<std::vector<double>> numbers() const;
  std::optional<std::vector<llvm::StringRef>> strings() const;

  /// For messages: "u32 4096", "string 'llama'", "array of 3 f32".
  std::string describe() const;

private:
  friend class GgufParser;
  GgufType valueType = GgufType::U8;
  GgufType arrayType = GgufType::U8;
  uint64_t count = 0;
  /// The bytes of a scalar, of a string's characters, or of an array's elements
  /// (strings with their lengths).
  llvm::StringRef data;
};

struct GgufTensor {
  llvm::StringRef name;
  ElementKind dtype = ElementKind::F32;
  /// Outermost dimension first: the reverse of the file's order.
  llvm::SmallVector<int64_t, 4> shape;
  llvm::ArrayRef<char> bytes;
};

/// One parsed file. It refers to the bytes it was parsed from.
struct GgufFile {
  std::string file;
  uint32_t version = 0;
  uint64_t alignment = 32;
  std::vector<std::pair<llvm::StringRef, GgufValue>> metadata;
  std::vector<GgufTensor> tensors;

  const GgufValue *find(llvm::StringRef key) const;

private:
  friend class GgufParser;
  llvm::StringMap<size_t> byKey;
};

/// Checks a whole file in memory. Each fault is an error of its own that names
/// the file, and the key or tensor: magic, byte order, version, truncation, a
/// count or length beyond the file, an unknown type, a duplicate, a bad
/// alignment, dimensions, an unsupported tensor type, a tensor's offset,
/// overlap, hole, trailing bytes.
llvm::Expected<GgufFile> parseGguf(llvm::StringRef file, llvm::StringRef bytes);

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_GGUFFILE_H
