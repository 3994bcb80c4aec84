//===- StepArguments.h - The arguments of the step function at stage loops
//----------------------------------------===//
//
// One table names what `step` takes and where ingot_rt_step_args holds it, so
// that the function, the functions it calls and the exported entry agree.
// Offsets come from the header itself.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CONVERSION_STEPARGUMENTS_H
#define INGOT_COMPILER_CONVERSION_STEPARGUMENTS_H

#include "ingot_rt/abi.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstddef>
#include <cstdint>

namespace ingot {

/// What an argument is at stage loops.
enum class StepArgumentKind {
  Bytes,  ///< memref<?xi8>
  Ints,   ///< memref<?xi32>
  Longs,  ///< memref<?xi64>
  Floats, ///< memref<?xf32>
  Index,  ///< index, a uint64_t of the struct
  Int,    ///< i32, a uint32_t of the struct
  Pointer ///< !llvm.ptr
};

struct StepArgument {
  llvm::StringLiteral name;
  StepArgumentKind kind;
  /// Bytes from the start of ingot_rt_step_args.
  size_t offset;
};

#define INGOT_STEP_ARGUMENT(kind, field) {#field, StepArgumentKind::kind, offsetof(ingot_rt_step_args, field)}

/// In order; two indices, the worker's number and the count of workers, follow.
inline constexpr StepArgument stepArguments[] = {
    INGOT_STEP_ARGUMENT(Bytes, weights),
    INGOT_STEP_ARGUMENT(Bytes, arena),
    INGOT_STEP_ARGUMENT(Bytes, cache),
    INGOT_STEP_ARGUMENT(Index, cache_blocks),
    INGOT_STEP_ARGUMENT(Index, token_count),
    INGOT_STEP_ARGUMENT(Index, sequence_count),
    INGOT_STEP_ARGUMENT(Index, row_count),
    INGOT_STEP_ARGUMENT(Ints, tokens),
    INGOT_STEP_ARGUMENT(Ints, positions),
    INGOT_STEP_ARGUMENT(Ints, sequences),
    INGOT_STEP_ARGUMENT(Longs, slots),
    INGOT_STEP_ARGUMENT(Ints, query_starts),
    INGOT_STEP_ARGUMENT(Ints, lengths),
    INGOT_STEP_ARGUMENT(Ints, regimes),
    INGOT_STEP_ARGUMENT(Ints, block_tables),
    INGOT_STEP_ARGUMENT(Index, block_table_stride),
    INGOT_STEP_ARGUMENT(Ints, rows),
    INGOT_STEP_ARGUMENT(Floats, logits),
    INGOT_STEP_ARGUMENT(Index, logits_stride),
    INGOT_STEP_ARGUMENT(Ints, argmax),
    INGOT_STEP_ARGUMENT(Floats, argmax_value),
    INGOT_STEP_ARGUMENT(Int, output),
    INGOT_STEP_ARGUMENT(Pointer, barrier),
    INGOT_STEP_ARGUMENT(Pointer, hook),
    INGOT_STEP_ARGUMENT(Pointer, hook_context),
    INGOT_STEP_ARGUMENT(Pointer, launch),
    INGOT_STEP_ARGUMENT(Pointer, launch_context),
    INGOT_STEP_ARGUMENT(Longs, sampling),
    INGOT_STEP_ARGUMENT(Ints, token_sets),
    INGOT_STEP_ARGUMENT(Index, token_set_words),
};

#undef INGOT_STEP_ARGUMENT

/// The name of a CPU variant's exported function.
inline std::string stepSymbol(llvm::StringRef cpu) {
  std::string symbol = ("ingot_step_" + cpu).str();
  for (char &c : symbol)
    if (c == '-' || c == '.')
      c = '_';
  return symbol;
}

/// The gpu.module that holds the kernels of a target with a GPU.
inline constexpr llvm::StringLiteral kernelsModuleName = "kernels";
/// The nested module, and the variant, whose kernels the emulator runs.
inline constexpr llvm::StringLiteral emulatedVariantName = "cuda-emulated";
/// The nested module whose kernels a GPU runs.
inline constexpr llvm::StringLiteral cudaVariantName = "cuda";

/// The function of a nested module that a step is.
inline constexpr llvm::StringLiteral stepName = "step";

} // namespace ingot

#endif // INGOT_COMPILER_CONVERSION_STEPARGUMENTS_H
