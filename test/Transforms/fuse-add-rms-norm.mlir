// RUN: ingot-opt %s --ingot-fuse-add-rms-norm | FileCheck %s
// RUN: ingot-opt %s --ingot-fuse-add-rms-norm --remarks-filter=ingot -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: ingot-opt %s --ingot-fuse-add-rms-norm -o %t.after && ingot-eval %s --compare %t.after --bits

// The product becomes the input, the stream the residual; the sum's other users read the joined op.
// CHECK-LABEL: func.func @residual
// CHECK-SAME: (%[[H:.*]]: tensor<?x32xf32>, %[[X:.*]]: tensor<?x24xf32>)
// CHECK: %[[N:.*]] = ingot.weight @residual.n
// CHECK-NEXT: %[[O:.*]] = ingot.linear %[[X]]
// CHECK-NEXT: %[[S:.*]], %[[Y:.*]] = ingot.add_rms_norm %[[O]], %[[H]], %[[N]] eps = 9.99999974E-6
// CHECK-NEXT: %[[Z:.*]] = ingot.mul %[[S]], %[[Y]]
// CHECK-NEXT: return %[[Z]]
// REMARK: [Passed] ingot-fuse-add-rms-norm{{.*}}Function=residual{{.*}}joined with the residual sum of 32 features
ingot.parameter @residual.w "residual.w" part "mlp" : tensor<32x24xf32>
ingot.parameter @residual.n "residual.n" part "norm" : tensor<32xf32>
func.func @residual(%h: tensor<?x32xf32>, %x: tensor<?x24xf32>) -> tensor<?x32xf32> {
  %w = ingot.weight @residual.w : tensor<32x24xf32>
  %n = ingot.weight @residual.n : tensor<32xf32>
  %o = ingot.linear %x weights(%w : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %s = ingot.add %h, %o : tensor<?x32xf32>
  %y = ingot.rms_norm %s, %n eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xf32>
  %z = ingot.mul %s, %y : tensor<?x32xf32>
  return %z : tensor<?x32xf32>
}

// The joined op stands where the sum stood, since the sum is used before the norm; the weight is read before it.
ingot.parameter @n "n.{layer}" kind @used_before part "norm" : tensor<16xf32>
// CHECK-LABEL: func.func @used_before
// CHECK-NEXT: %[[N:.*]] = ingot.weight @n
// CHECK-NEXT: %[[S:.*]], %[[Y:.*]] = ingot.add_rms_norm
// CHECK-NEXT: %[[T:.*]] = ingot.silu %[[S]]
// CHECK-NEXT: ingot.mul %[[T]], %[[Y]]
func.func @used_before(%a: tensor<?x32xf32>, %b: tensor<?x32xf32>, %index: index) -> tensor<?x32xf32> {
  %s = ingot.add %a, %b : tensor<?x32xf32>
  %t = ingot.silu %s : tensor<?x32xf32>
  %n = ingot.weight @n[%index] : tensor<16xf32>
  %y = ingot.rms_norm %s, %n eps = 1.0e-5 : tensor<?x32xf32>, tensor<16xf32>
  %z = ingot.mul %t, %y : tensor<?x32xf32>
  return %z : tensor<?x32xf32>
}
