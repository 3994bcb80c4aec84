// A Llama layer ends as the ops that DESIGN's table of phases promises, and nothing else.
// RUN: ingot-opt %S/../Dialect/decoder.mlir --ingot-to-fused | FileCheck %s
// Printing in between changes nothing, and a second time finds nothing to do.
// RUN: ingot-opt %S/../Dialect/decoder.mlir --ingot-to-fused -o %t.fused
// RUN: ingot-opt %S/../Dialect/decoder.mlir | ingot-opt --ingot-to-fused | diff %t.fused -
// RUN: ingot-opt %t.fused --ingot-fuse-qkv --ingot-fuse-qk-norm-rope-append --ingot-fuse-gate-up --ingot-fuse-add-rms-norm --ingot-fuse-linear-epilogue | diff %t.fused -
// The same bits, all tokens at once and one after the other.
// RUN: ingot-eval %S/../Dialect/decoder.mlir --tokens "1,2,3,4,5,6,7,8,9,10,11;42" --chunk 3 --compare %t.fused --bits
// RUN: ingot-opt %S/../Dialect/decoder.mlir --ingot-to-fused=fuse=false -o %t.unfused
// RUN: ingot-opt %S/../Dialect/decoder.mlir | diff %t.unfused -

// CHECK-LABEL: func.func private @layer
// CHECK-SAME: (%[[H:[^:]*]]: tensor<?x32xf32>
// CHECK-NOT: = ingot.{{[^w]}}
// CHECK: %[[X:.*]] = ingot.rms_norm %[[H]]
// CHECK-NOT: = ingot.{{[^w]}}
// CHECK: %[[QKV:.*]] = ingot.linear %[[X]] weights(%{{.*}}, %{{.*}}, %{{.*}} :
// CHECK-NEXT: %[[P:.*]]:3 = ingot.split %[[QKV]]
// CHECK-NEXT: %[[Q:.*]] = ingot.qk_norm_rope_append %[[P]]#0, %[[P]]#1, %[[P]]#2
// CHECK-NEXT: %[[A:.*]] = ingot.attention %[[Q]]
// CHECK-NOT: = ingot.{{[^w]}}
// CHECK: %[[O:.*]] = ingot.linear %[[A]] {{.*}} row_parallel
// CHECK-NOT: = ingot.{{[^w]}}
// CHECK: %[[S:.*]], %[[Y:.*]] = ingot.add_rms_norm %[[O]], %[[H]]
// CHECK-NOT: = ingot.{{[^w]}}
// CHECK: %[[G:.*]] = ingot.linear %[[Y]] weights(%{{.*}}, %{{.*}} : {{.*}}) gated{{ +}}silu
// CHECK-NOT: = ingot.{{[^w]}}
// CHECK: %[[D:.*]] = ingot.linear %[[G]] weights(%{{.*}} : {{.*}}) residual(%[[S]] : {{.*}}) row_parallel
// CHECK-NEXT: return %[[D]]
