//===- Pipelines.h - The sequence of passes of each phase ---------------------------------------------------------===//
//
// One function for each step from a phase to the next, used by ingotc and, registered as a pass pipeline, by ingot-opt:
// what `ingotc --emit=fused` prints, `ingot-opt --fused-to-packed` turns into what `ingotc --emit=packed` prints. All
// that a later step needs to know stands in the IR or in the options.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_PIPELINES_PIPELINES_H
#define INGOT_COMPILER_PIPELINES_PIPELINES_H

#include "compiler/Pipelines/Options.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace ingot {

/// ingot -> fused: checks the importer's contract, then the fusions (none with fuse = false).
void populateFusedPipeline(mlir::OpPassManager &pm, const CompileOptions &options);
/// fused -> packed: layouts and recipes of parameters, then the plan of the arena.
void populatePackedPipeline(mlir::OpPassManager &pm, const CompileOptions &options);

/// packed -> loops: one nested module of structured loops for each CPU variant.
void populateLoopsPipeline(mlir::OpPassManager &pm, const CompileOptions &options);
/// loops -> llvm: the nested modules in the LLVM dialect, with the exported step functions.
void populateLLVMPipeline(mlir::OpPassManager &pm, const CompileOptions &options);

/// packed -> gpu: kernels, and a nested module of launches named like the target.
void populateGPUPipeline(mlir::OpPassManager &pm, const CompileOptions &options);
/// gpu -> nvvm: the kernels in the NVVM dialect.
void populateNVVMPipeline(mlir::OpPassManager &pm, const CompileOptions &options);
/// nvvm -> llvm: launches as code of the host, and for the emulator the kernels too.
void populateLaunchesPipeline(mlir::OpPassManager &pm, const CompileOptions &options);

/// The options of the pipelines in ingot-opt: CompileOptions, as far as it decides what passes do.
struct PipelineOptions : public mlir::PassPipelineOptions<PipelineOptions> {
  Option<StorageType> dtype{*this, "dtype", llvm::cl::desc("how float weights are stored"),
                            llvm::cl::init(StorageType::Auto),
                            llvm::cl::values(clEnumValN(StorageType::Auto, "auto", "as in the checkpoint"),
                                             clEnumValN(StorageType::F32, "f32", "32 bits"),
                                             clEnumValN(StorageType::BF16, "bf16", "bfloat16"),
                                             clEnumValN(StorageType::F16, "f16", "IEEE half"))};
  Option<Quantize> quantize{*this, "quantize", llvm::cl::desc("what becomes of matrices of floats"),
                            llvm::cl::init(Quantize::None),
                            llvm::cl::values(clEnumValN(Quantize::None, "none", "stored as floats"),
                                             clEnumValN(Quantize::Int8, "int8", "8 bits, blocks of 32"),
                                             clEnumValN(Quantize::Int4, "int4", "4 bits, blocks of 32"))};
  Option<ComputeType> compute{*this, "compute", llvm::cl::desc("what products with quantized weights multiply"),
                              llvm::cl::init(ComputeType::Auto),
                              llvm::cl::values(clEnumValN(ComputeType::Auto, "auto", "int16"),
                                               clEnumValN(ComputeType::F32, "f32", "float32"),
                                               clEnumValN(ComputeType::Int16, "int16", "16-bit integers"),
                                               clEnumValN(ComputeType::Int8, "int8", "8-bit integers"))};
  Option<AttentionLowering> attention{
      *this, "attention", llvm::cl::desc("which lowering of attention is used"),
      llvm::cl::init(AttentionLowering::Tiled),
      llvm::cl::values(clEnumValN(AttentionLowering::Naive, "naive", "one key after the other"),
                       clEnumValN(AttentionLowering::Tiled, "tiled", "tiles of keys"))};
  Option<bool> fuse{*this, "fuse", llvm::cl::desc("do the fusions"), llvm::cl::init(true)};
  ListOption<std::string> cpus{*this, "cpus", llvm::cl::desc("CPU variants, in the order in which they are stored")};

  Option<TargetKind> target{
      *this, "target", llvm::cl::desc("what is compiled for"), llvm::cl::init(TargetKind::CPU),
      llvm::cl::values(clEnumValN(TargetKind::CPU, "cpu", "CPU variants"), clEnumValN(TargetKind::CUDA, "cuda", "GPUs"),
                       clEnumValN(TargetKind::CUDAEmulated, "cuda-emulated", "a GPU's kernels on the host"))};

  Option<bool> random{*this, "random", llvm::cl::desc("of GPUs: kernels that fill random weights too"),
                      llvm::cl::init(false)};

  /// These options over the defaults of CompileOptions.
  CompileOptions toCompileOptions() const;
};

/// Registers the pipelines `ingot-to-fused`, `fused-to-packed`, `packed-to-loops`, `loops-to-llvm`, `packed-to-gpu`,
/// `gpu-to-nvvm` and `nvvm-to-llvm`, and the passes they consist of.
void registerPipelines();

} // namespace ingot

#endif // INGOT_COMPILER_PIPELINES_PIPELINES_H
