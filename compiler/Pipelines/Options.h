//===- Options.h - Phases of a compilation and the options that shape them ----------------------------------------===//
//
// One struct that ingotc and ingot-opt share. A phase's name is its --emit value, its folder and its test folder.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_PIPELINES_OPTIONS_H
#define INGOT_COMPILER_PIPELINES_OPTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

/// What is compiled for. CUDAEmulated: a GPU's kernels, run on the host by the emulator.
enum class TargetKind { CPU, CUDA, CUDAEmulated };
/// The value of --target for a target.
llvm::StringRef getTargetName(TargetKind target);

/// What a compilation stops at. See DESIGN's table of phases.
enum class Phase { Ingot, Fused, Packed, Loops, GPU, NVVM, PTX, SASS, LLVM, LLVMIR, Asm, Obj, Exe };

/// The phases of a target, in order.
llvm::ArrayRef<Phase> getPhases(TargetKind target);

/// The value of --emit for a phase.
llvm::StringRef getPhaseName(Phase phase);
/// The phase that --emit=`name` asks for.
std::optional<Phase> parsePhase(llvm::StringRef name);

/// How weights are stored, and keys and values (Int8: these only); Auto: as in the checkpoint.
enum class StorageType { Auto, F32, BF16, F16, Int8 };
/// The value of --dtype and --kv-dtype for a storage type.
llvm::StringRef getStorageTypeName(StorageType type);
/// The storage type that --dtype=`name` asks for.
std::optional<StorageType> parseStorageType(llvm::StringRef name);

/// What becomes of matrices of floats.
enum class Quantize { None, Int8, Int4 };
/// The value of --quantize.
llvm::StringRef getQuantizeName(Quantize quantize);

/// What products multiply; Auto: Int16 for quantized weights, else F32.
enum class ComputeType { Auto, F32, Int16, Int8 };

/// Whether the user asked for integers, which only quantized weights can give.
inline bool asksForIntegers(ComputeType compute) {
  return compute == ComputeType::Int16 || compute == ComputeType::Int8;
}
/// The value of --compute.
llvm::StringRef getComputeTypeName(ComputeType compute);

/// Which of the two lowerings of attention is used.
enum class AttentionLowering { Naive, Tiled };
/// The value of --attention for a lowering.
llvm::StringRef getAttentionLoweringName(AttentionLowering lowering);
/// The lowering that --attention=`name` asks for.
std::optional<AttentionLowering> parseAttentionLowering(llvm::StringRef name);

/// Everything that decides what code is made. Two compilations with equal options and input give equal bytes.
struct CompileOptions {
  TargetKind target = TargetKind::CPU;
  /// Architectures of GPUs, as --cuda-arch spells them.
  std::vector<std::string> cudaArchitectures = {"sm_80", "sm_90"};
  StorageType dtype = StorageType::Auto;
  Quantize quantize = Quantize::None;
  ComputeType compute = ComputeType::Auto;
  /// Element type of the cache; Auto: f32 where all weights are stored f32, else f16.
  StorageType kvDtype = StorageType::Auto;
  AttentionLowering attention = AttentionLowering::Tiled;
  bool fuse = true;
  /// The executable fills its weights when it starts.
  bool randomWeights = false;
  /// 0: the model's own maximum.
  int64_t maxContext = 0;
  int64_t maxBatch = 64;
  int64_t maxStepTokens = 512;
  /// CPU variants in the order in which they are stored; names as LLVM spells them, plus "x86-64-v4-bf16".
  std::vector<std::string> cpus = {"x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"};
};

} // namespace ingot

#endif // INGOT_COMPILER_PIPELINES_OPTIONS_H
