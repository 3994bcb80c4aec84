// RUN: ingot-opt %s --ingot-fuse-add-rms-norm --remarks-filter=ingot -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: ingot-opt %s --ingot-fuse-add-rms-norm | FileCheck %s
// RUN: ingot-opt %s --ingot-fuse-add-rms-norm -o %t.after && ingot-eval %s --compare %t.after --bits

// REMARK: [Missed] ingot-fuse-add-rms-norm{{.*}}Function=no_sum{{.*}}the input is no sum
// CHECK-LABEL: func.func @no_sum
// CHECK: ingot.rms_norm
ingot.parameter @no_sum.n "no_sum.n" part "norm" : tensor<32xf32>
func.func @no_sum(%x: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %n = ingot.weight @no_sum.n : tensor<32xf32>
  %y = ingot.rms_norm %x, %n eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xf32>
  return %y : tensor<?x32xf32>
}

// The second norm of a sum reads the sum that the joined op gives.
// REMARK: [Passed] ingot-fuse-add-rms-norm{{.*}}Function=two_norms
// REMARK: [Missed] ingot-fuse-add-rms-norm{{.*}}Function=two_norms{{.*}}the sum is joined with another norm
// CHECK-LABEL: func.func @two_norms
// CHECK: %[[S:.*]], %[[Y:.*]] = ingot.add_rms_norm
// CHECK-NEXT: %[[Z:.*]] = ingot.rms_norm %[[S]]
// CHECK-NEXT: ingot.mul %[[Y]], %[[Z]]
ingot.parameter @two_norms.n "two_norms.n" part "norm" : tensor<32xf32>
ingot.parameter @two_norms.m "two_norms.m" part "norm" : tensor<32xf32>
func.func @two_norms(%a: tensor<?x32xf32>, %b: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %n = ingot.weight @two_norms.n : tensor<32xf32>
  %m = ingot.weight @two_norms.m : tensor<32xf32>
  %s = ingot.add %a, %b : tensor<?x32xf32>
  %y = ingot.rms_norm %s, %n eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xf32>
  %z = ingot.rms_norm %s, %m eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xf32>
  %r = ingot.mul %y, %z : tensor<?x32xf32>
  return %r : tensor<?x32xf32>
}
