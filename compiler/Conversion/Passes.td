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
    Option<"tilesOf", "tiles-of", "std::string", "\"\"", "take register tiles of this CPU for every variant (to test them elsewhere)">
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

#endif // INGOT_CONVERSION_PASSES_TD
