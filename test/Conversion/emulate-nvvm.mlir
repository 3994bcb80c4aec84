// RUN: %ingot-opt %s --ingot-emulate-nvvm --split-input-file --verify-diagnostics | FileCheck %s

// Products, loads of matrices and copies pass registers in memory of the thread, made once for the kernel; a copy's
// source size is its own where none is given.
// CHECK-LABEL: llvm.func @tensor_cores(
// CHECK-SAME: %[[FROM:.*]]: !llvm.ptr)
// CHECK-COUNT-4: llvm.alloca
// CHECK-NOT: llvm.alloca
// CHECK: %[[PART:.*]] = llvm.mlir.constant(4 : i32)
// CHECK: %[[TO:.*]] = llvm.call @ingot_rt_emulate_shared(
// CHECK: %[[SIZE:.*]] = llvm.mlir.constant(16 : i32)
// CHECK: llvm.call @ingot_rt_emulate_copy(%[[TO]], %[[FROM]], %[[SIZE]], %[[SIZE]], {{.*}})
// CHECK: %[[SIZE2:.*]] = llvm.mlir.constant(16 : i32)
// CHECK: llvm.call @ingot_rt_emulate_copy(%[[TO]], %[[FROM]], %[[SIZE2]], %[[PART]], {{.*}})
// CHECK: llvm.call @ingot_rt_emulate_copy_commit()
// CHECK: llvm.call @ingot_rt_emulate_copy_wait(
// CHECK: llvm.call @ingot_rt_emulate_load_matrix(%[[TO]],
// CHECK-COUNT-4: llvm.load
// CHECK-COUNT-10: llvm.store
// CHECK: llvm.call @ingot_rt_emulate_mma(
// CHECK-COUNT-4: llvm.load {{.*}} -> f32
// CHECK-NOT: nvvm
module {
  gpu.module @kernels {
    llvm.mlir.global internal @tile() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<128 x i32>
    llvm.func @tensor_cores(%from: !llvm.ptr<1>) attributes {gpu.kernel, ingot.argument_names = ["from"], nvvm.kernel} {
      %zero = llvm.mlir.constant(0.0 : f32) : f32
      %part = llvm.mlir.constant(4 : i32) : i32
      %to = llvm.mlir.addressof @tile : !llvm.ptr<3>
      nvvm.cp.async.shared.global %to, %from, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
      nvvm.cp.async.shared.global %to, %from, 16, cache = cg, %part : !llvm.ptr<3>, !llvm.ptr<1>, i32
      nvvm.cp.async.commit.group
      nvvm.cp.async.wait.group 0
      %m = nvvm.ldmatrix %to {num = 4 : i32, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32, i32)>
      %a0 = llvm.extractvalue %m[0] : !llvm.struct<(i32, i32, i32, i32)>
      %a1 = llvm.extractvalue %m[1] : !llvm.struct<(i32, i32, i32, i32)>
      %d = nvvm.mma.sync A[%a0, %a1, %a0, %a1] B[%a0, %a1] C[%zero, %zero, %zero, %zero]
        {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<bf16>,
         multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>}
        : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %d2 = nvvm.mma.sync A[%a0, %a1, %a0, %a1] B[%a0, %a1] C[%zero, %zero, %zero, %zero]
        {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<tf32>,
         multiplicandBPtxType = #nvvm.mma_type<tf32>, shape = #nvvm.shape<m = 16, n = 8, k = 8>}
        : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      llvm.return
    }
  }
  module @"cuda-emulated" {
    llvm.mlir.global external constant @ingot_kernel_tensor_cores() : !llvm.array<48 x i8>
  }
}

// -----

// Integers are not among what the emulator multiplies.
module {
  gpu.module @kernels {
    llvm.func @integers(%a: i32) attributes {gpu.kernel, ingot.argument_names = ["a"], nvvm.kernel} {
      // expected-error@+1 {{nvvm.mma.sync: the emulator does not have this op in this form}}
      %d = nvvm.mma.sync A[%a, %a, %a, %a] B[%a, %a] C[%a, %a, %a, %a]
        {intOverflowBehavior = #nvvm.mma_int_overflow<wrapped>, layoutA = #nvvm.mma_layout<row>,
         layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<s8>,
         multiplicandBPtxType = #nvvm.mma_type<s8>, shape = #nvvm.shape<m = 16, n = 8, k = 32>}
        : (i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32)>
      llvm.return
    }
  }
  module @"cuda-emulated" {
    llvm.mlir.global external constant @ingot_kernel_integers() : !llvm.array<48 x i8>
  }
}

// -----

// Atomic operations pass bits; a comparison with what was there says whether an exchange was made.
// CHECK-LABEL: llvm.func @atomics(
module {
  gpu.module @kernels {
    llvm.func @atomics(%p: !llvm.ptr<1>) attributes {gpu.kernel, ingot.argument_names = ["p"], nvvm.kernel} {
      %i = llvm.mlir.constant(1 : i32) : i32
      %l = llvm.mlir.constant(1 : i64) : i64
      %f = llvm.mlir.constant(1.0 : f32) : f32
      // CHECK: %[[UMAX:.*]] = llvm.mlir.constant(4 : i32)
      // CHECK: %[[I32:.*]] = llvm.mlir.constant(0 : i32)
      // CHECK: llvm.zext
      // CHECK: %[[OLD:.*]] = llvm.call @ingot_rt_emulate_atomic(%[[UMAX]], %[[I32]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
      // CHECK: llvm.trunc %[[OLD]] : i64 to i32
      %0 = llvm.atomicrmw umax %p, %i monotonic : !llvm.ptr<1>, i32
      // CHECK: llvm.bitcast {{.*}} : f32 to i32
      // CHECK: llvm.call @ingot_rt_emulate_atomic(
      // CHECK: llvm.bitcast {{.*}} : i32 to f32
      %1 = llvm.atomicrmw fadd %p, %f monotonic : !llvm.ptr<1>, f32
      // CHECK: %[[CAS:.*]] = llvm.mlir.constant(9 : i32)
      // CHECK: llvm.call @ingot_rt_emulate_atomic(%[[CAS]],
      // CHECK: llvm.icmp "eq"
      // CHECK-NOT: llvm.cmpxchg
      %2 = llvm.cmpxchg %p, %l, %l monotonic monotonic : !llvm.ptr<1>, i64
      llvm.return
    }
  }
  module @"cuda-emulated" {
    llvm.mlir.global external constant @ingot_kernel_atomics() : !llvm.array<48 x i8>
  }
}

// -----

// PTX has no atomic subtraction.
module {
  gpu.module @kernels {
    llvm.func @subtracts(%p: !llvm.ptr<1>) attributes {gpu.kernel, ingot.argument_names = ["p"], nvvm.kernel} {
      %i = llvm.mlir.constant(1 : i32) : i32
      // expected-error@+1 {{the emulator does not have this op in this form}}
      %0 = llvm.atomicrmw sub %p, %i monotonic : !llvm.ptr<1>, i32
      llvm.return
    }
  }
  module @"cuda-emulated" {
    llvm.mlir.global external constant @ingot_kernel_subtracts() : !llvm.array<48 x i8>
  }
}
