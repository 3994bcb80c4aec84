// The types in which checkpoints store the elements of a tensor, safetensors'
// and GGUF's in one enumeration, and their conversion to float32.
#ifndef INGOT_COMPILER_IMPORT_ELEMENTKIND_H
#define INGOT_COMPILER_IMPORT_ELEMENTKIND_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>

namespace ingot {

/// How the elements of a tensor are stored. The ggml kinds store a row as
/// blocks of 32 or 256 elements with shared scales; all others store element by
/// element, little-endian.
enum class ElementKind : uint8_t {
  F64,
  F32,
  F16,
  BF16,
  F8E4M3,
  F8E5M2,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  Bool,
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q8_0,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
};

/// The number of kinds: the last one's value plus one.
inline constexpr unsigned elementKindCount = static_cast<unsigned>(ElementKind::Q6_K) + 1;

/// What a kind is called (as safetensors or ggml call it), and how many bytes a
/// block of how many elements takes.
struct ElementKindInfo {
  llvm::StringLiteral name;
  int64_t blockElements;
  int64_t blockBytes;
};

const ElementKindInfo &elementKindInfo(ElementKind kind);

inline llvm::StringRef elementKindName(ElementKind kind) { return elementKindInfo(kind).name; }

/// True for the kinds whose values readers convert to float32: F64, F32, F16,
/// BF16 and the ggml quantizations. Integers are not weights, and 8-bit floats
/// mean nothing without scales that lie elsewhere: both are refused by name.
bool isConvertible(ElementKind kind);

/// True for F32, F16 and BF16, whose stored bits a consumer may take as they
/// are.
bool isPlainFloat(ElementKind kind);

/// True for the ggml block quantizations.
bool isQuantized(ElementKind kind);

/// True for the quantizations that executables hold as they are; the others become float32.
bool isStoredQuantized(ElementKind kind);

/// Bytes of one row of `elements`; nothing when the row is not a whole number
/// of blocks or the size leaves int64_t.
std::optional<int64_t> rowBytes(ElementKind kind, int64_t elements);

/// The kind of a safetensors dtype ("F32", "BF16", ...), nothing if it has none
/// here.
std::optional<ElementKind> elementKindOfSafetensors(llvm::StringRef dtype);

/// Converts dst.size() elements, a whole number of blocks, from `src` (exactly
/// their bytes, any alignment) to float32. F32, F16 and BF16 keep their value
/// (NaNs their payload); quantized blocks are computed as ggml defines them,
/// each step rounded to float32; F64 is rounded to nearest even, and false is
/// returned when a finite F64 has no finite float32. The kind must be
/// convertible.
bool convertToF32(ElementKind kind, llvm::ArrayRef<char> src, llvm::MutableArrayRef<float> dst);

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_ELEMENTKIND_H
