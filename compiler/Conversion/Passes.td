//===- Passes.td - Conversions: packed ingot to loops to the LLVM dialect -----------------------------------------===//

#ifndef INGOT_CONVERSION_PASSES_TD
#define INGOT_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertIngotToLoopsPass : Pass<"convert-ingot-to-loops", "::mlir::ModuleOp"> {
  let summary = "packed ingot ops to structured loops on the arena, once for each CPU variant";
  let description = [{
    Input: phase `packed` (parameters with layouts, `ingot.arena` on the module and its ops). The module keeps its
    parameters and attributes; functions become one nested module for each CPU variant, with a `func.func @step` that
    every worker runs and the private functions it calls. The module receives `ingot.parameters` (offsets in the
    payload), `ingot.ops` (the op table), and in `ingot.arena` what the code itself needs.

    An op becomes a call with a barrier before it where workers' accesses would meet: where it reads or writes what was
    written since the last barrier, or writes what was read. Numerics: DESIGN 5; this pass decides the order of every
    sum, the same for all variants.
  }];
  let options = [
    ListOption<"cpus", "cpus", "std::string", "CPU variants, in the order in which the runtime prefers the later ones">,
    Option<"attention", "attention", "std::string", "\"tiled\"", "lowering of attention: tiled or naive">,
    Option<"tilesOf", "tiles-of", "std::string", "\"\"", "take register tiles of this CPU for every variant (to test them elsewhere)">,
    Option<"definitions", "definitions", "bool", "false", "emit the definitions of a CPU's instructions instead of the instructions (to test them elsewhere)">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

def ConvertLoopsToLLVMPass : Pass<"convert-loops-to-llvm", "::mlir::ModuleOp"> {
  let summary = "the nested modules of convert-ingot-to-loops to the LLVM dialect, with the exported step functions";
  let description = [{
    Adds to each nested module `llvm.func @ingot_step_<cpu>(!llvm.ptr, i32, i32) -> i32` (`-` and `.` of the CPU's name
    become `_`), an ingot_rt_step_fn: it checks the arguments' size, version, cache and reserved fields and calls `step`.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::cf::ControlFlowDialect"];
}

def ConvertIngotToGPUPass : Pass<"convert-ingot-to-gpu", "::mlir::ModuleOp"> {
  let summary = "packed ingot ops to kernels in a gpu.module and a host function that launches them";
  let description = [{
    Input: phase `packed`, as for convert-ingot-to-loops, whose attributes the module receives. Functions become the
    nested module `name` with a `func.func @step` that launches, and `gpu.module @kernels`. A launch is a call of a
    private `@launch_<kernel>`, which calls the callback of ingot_rt_step_args. With `random` there is a kernel for each
    layout and type of the parameters that fills them with random weights, launched by the runtime.

    Numerics: every sum has one order, the same for one row and for many; products are exact and added in f32, by fused
    multiply-adds or, with 16-bit weights, by tensor cores on activations in three parts.
  }];
  let options = [
    Option<"name", "name", "std::string", "\"cuda\"", "name of the nested module: cuda or cuda-emulated">,
    Option<"random", "random", "bool", "false", "kernels that fill random weights too">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def EmulateNVVMPass : Pass<"ingot-emulate-nvvm", "::mlir::ModuleOp"> {
  let summary = "kernels in the NVVM dialect to functions of the host that the emulator runs";
  let description = [{
    Moves the kernels of `gpu.module @kernels` into the module of launches. Address spaces vanish: shared memory is asked
    for from the emulator by offset. Before each load and store stands a call that announces it, ops of NVVM become calls
    (ingot_rt_emulate_* in ingot_rt/device.h); an op that the emulator does not have is an error. Each kernel's
    `@ingot_kernel_<name>`, an ingot_rt_kernel, gets its contents.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def DetachKernelsPass : Pass<"ingot-detach-kernels", "::mlir::ModuleOp"> {
  let summary = "launches without the kernels that a GPU has";
  let description = [{
    Input: stage `nvvm` of the target cuda. Each kernel's `@ingot_kernel_<name>` in the module of launches, an
    ingot_rt_kernel, gets its contents, with no function for the emulator, and `gpu.module @kernels` goes: its code lies
    in the fatbin.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // INGOT_CONVERSION_PASSES_TD
