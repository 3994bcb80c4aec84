// The entry is exported under its CPU's name and refuses what it does not know; all else stays inside.
// RUN: ingot-opt %s --convert-loops-to-llvm | FileCheck %s
// RUN: not ingot-opt %S/Inputs/no-step.mlir --convert-loops-to-llvm 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: expected a function @step in the module of a CPU variant

// CHECK: module @"x86-64-v4-bf16" {
module {
  module @"x86-64-v4-bf16" {
    // CHECK: llvm.mlir.global external constant @ingot_rt_the_model()
    // CHECK: llvm.func @ingot_rt_barrier(!llvm.ptr, i32)
    func.func private @ingot_rt_barrier(!llvm.ptr, i32)
    // CHECK: llvm.func internal @step({{.*}}no_inline
    func.func @step(%weights: memref<?xi8>, %arena: memref<?xi8>, %cache: memref<?xi8>, %cache_blocks: index, %token_count: index, %sequence_count: index, %row_count: index,
                    %tokens: memref<?xi32>, %positions: memref<?xi32>, %sequences: memref<?xi32>, %slots: memref<?xi64>, %query_starts: memref<?xi32>,
                    %lengths: memref<?xi32>, %regimes: memref<?xi32>, %block_tables: memref<?xi32>, %block_table_stride: index, %rows: memref<?xi32>,
                    %logits: memref<?xf32>, %logits_stride: index, %argmax: memref<?xi32>, %argmax_value: memref<?xf32>, %output: i32,
                    %barrier: !llvm.ptr, %hook: !llvm.ptr, %hook_context: !llvm.ptr, %launch: !llvm.ptr, %launch_context: !llvm.ptr,
                    %sampling: memref<?xi64>, %token_sets: memref<?xi32>, %token_set_words: index,
                    %worker: index, %workers: index) {
      %w = arith.index_cast %worker : index to i32
      func.call @ingot_rt_barrier(%barrier, %w) : (!llvm.ptr, i32) -> ()
      return
    }
    // CHECK: llvm.func @ingot_step_x86_64_v4_bf16(%{{.*}}: !llvm.ptr, %[[WORKER:.*]]: i32, %{{.*}}: i32) -> i32 {
    // CHECK: llvm.mlir.addressof @ingot_rt_the_model
    // CHECK: llvm.call @step
  }
}
