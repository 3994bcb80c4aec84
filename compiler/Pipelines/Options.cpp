//===- Options.cpp - Names of phases ------------------------------------------------------------------------------===//
//
// See Options.h.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Pipelines/Options.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace ingot;

llvm::StringRef ingot::getPhaseName(Phase phase) {
  switch (phase) {
  case Phase::Ingot:
    return "ingot";
  case Phase::Fused:
    return "fused";
  case Phase::Packed:
    return "packed";
  case Phase::Loops:
    return "loops";
  case Phase::GPU:
    return "gpu";
  case Phase::NVVM:
    return "nvvm";
  case Phase::PTX:
    return "ptx";
  case Phase::SASS:
    return "sass";
  case Phase::LLVM:
    return "llvm";
  case Phase::LLVMIR:
    return "llvm-ir";
  case Phase::Asm:
    return "asm";
  case Phase::Obj:
    return "obj";
  case Phase::Exe:
    return "exe";
  }
  llvm_unreachable("unknown phase");
}

std::optional<Phase> ingot::parsePhase(llvm::StringRef name) {
  for (TargetKind target : {TargetKind::CPU, TargetKind::CUDA, TargetKind::CUDAEmulated})
    for (Phase phase : getPhases(target))
      if (name == getPhaseName(phase))
        return phase;
  return std::nullopt;
}

llvm::StringRef ingot::getTargetName(TargetKind target) {
  return target == TargetKind::CPU ? "cpu" : target == TargetKind::CUDA ? "cuda" : "cuda-emulated";
}

llvm::ArrayRef<Phase> ingot::getPhases(TargetKind target) {
  static constexpr Phase cpu[] = {Phase::Ingot,  Phase::Fused, Phase::Packed, Phase::Loops, Phase::LLVM,
                                  Phase::LLVMIR, Phase::Asm,   Phase::Obj,    Phase::Exe};
  static constexpr Phase cuda[] = {Phase::Ingot, Phase::Fused, Phase::Packed, Phase::GPU, Phase::NVVM, Phase::PTX,
                                   Phase::SASS,  Phase::LLVM,  Phase::LLVMIR, Phase::Asm, Phase::Obj,  Phase::Exe};
  static constexpr Phase emulated[] = {Phase::Ingot, Phase::Fused,  Phase::Packed, Phase::GPU, Phase::NVVM,
                                       Phase::LLVM,  Phase::LLVMIR, Phase::Asm,    Phase::Obj, Phase::Exe};
  switch (target) {
  case TargetKind::CPU:
    return cpu;
  case TargetKind::CUDA:
    return cuda;
  case TargetKind::CUDAEmulated:
    return emulated;
  }
  llvm_unreachable("unknown target");
}

llvm::StringRef ingot::getStorageTypeName(StorageType type) {
  switch (type) {
  case StorageType::Auto:
    return "auto";
  case StorageType::F32:
    return "f32";
  case StorageType::BF16:
    return "bf16";
  case StorageType::F16:
    return "f16";
  case StorageType::Int8:
    return "int8";
  }
  llvm_unreachable("unknown storage type");
}

std::optional<StorageType> ingot::parseStorageType(llvm::StringRef name) {
  for (StorageType type : {StorageType::Auto, StorageType::F32, StorageType::BF16, StorageType::F16})
    if (name == getStorageTypeName(type))
      return type;
  return std::nullopt;
}

llvm::StringRef ingot::getQuantizeName(Quantize quantize) {
  return quantize == Quantize::None ? "none" : quantize == Quantize::Int8 ? "int8" : "int4";
}

llvm::StringRef ingot::getComputeTypeName(ComputeType compute) {
  switch (compute) {
  case ComputeType::Auto:
    return "auto";
  case ComputeType::F32:
    return "f32";
  case ComputeType::Int16:
    return "int16";
  case ComputeType::Int8:
    return "int8";
  }
  llvm_unreachable("a type of its own");
}

llvm::StringRef ingot::getAttentionLoweringName(AttentionLowering lowering) {
  return lowering == AttentionLowering::Naive ? "naive" : "tiled";
}

std::optional<AttentionLowering> ingot::parseAttentionLowering(llvm::StringRef name) {
  for (AttentionLowering lowering : {AttentionLowering::Naive, AttentionLowering::Tiled})
    if (name == getAttentionLoweringName(lowering))
      return lowering;
  return std::nullopt;
}
