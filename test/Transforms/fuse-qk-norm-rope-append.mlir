// RUN: ingot-opt %s --ingot-fuse-qk-norm-rope-append | FileCheck %s
// RUN: ingot-opt %s --ingot-fuse-qk-norm-rope-append --remarks-filter=ingot -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: ingot-opt %s --ingot-fuse-qk-norm-rope-append -o %t.after && ingot-eval %s --compare %t.after --bits

ingot.rotary @rotary half inv_freq = [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125] scaling = 1.0

// CHECK-LABEL: func.func @rope
// CHECK-SAME: (%[[Q:.*]]: tensor<?x32xf32>, %[[K:.*]]: tensor<?x16xf32>, %[[V:.*]]: tensor<?x16xf32>, %[[B:.*]]: !ingot.batch, %[[C:.*]]: !ingot.kv_cache<2 x 1 x 16 x f16>, %[[L:.*]]: index)
// CHECK-NEXT: %[[R:.*]] = ingot.qk_norm_rope_append %[[Q]], %[[K]], %[[V]], %[[B]], %[[C]][%[[L]]], @rotary :
// CHECK-NEXT: ingot.attention %[[R]],
// REMARK: [Passed] ingot-fuse-qk-norm-rope-append{{.*}}Function=rope{{.*}}rope and append are one op
func.func @rope(%q: tensor<?x32xf32>, %k: tensor<?x16xf32>, %v: tensor<?x16xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %qr = ingot.rope %q, %batch, @rotary : tensor<?x32xf32>
  %kr = ingot.rope %k, %batch, @rotary : tensor<?x16xf32>
  ingot.kv_append %kr, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// Queries may be normed and rotated after the append: what they need is moved before it.
ingot.parameter @n "n.{layer}" kind @norms part "norm" : tensor<16xf32>
// CHECK-LABEL: func.func @norms
// CHECK: %[[N:.*]] = ingot.weight @n[
// CHECK-NEXT: %[[R:.*]] = ingot.qk_norm_rope_append %{{.*}}, @rotary norms(%[[N]], %{{.*}} : tensor<16xf32>, tensor<16xf32>) eps = 9.99999997E-7 :
// CHECK-NOT: ingot.r
// CHECK: ingot.attention %[[R]],
// REMARK: [Passed] ingot-fuse-qk-norm-rope-append{{.*}}Function=norms{{.*}}norms, rope and append are one op
ingot.parameter @norms.kn "norms.kn" part "norm" : tensor<16xf32>
func.func @norms(%q: tensor<?x32xf32>, %k: tensor<?x16xf32>, %v: tensor<?x16xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %kn = ingot.weight @norms.kn : tensor<16xf32>
  %k1 = ingot.rms_norm %k, %kn eps = 1.0e-6 : tensor<?x16xf32>, tensor<16xf32>
  %kr = ingot.rope %k1, %batch, @rotary : tensor<?x16xf32>
  ingot.kv_append %kr, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %qn = ingot.weight @n[%layer] : tensor<16xf32>
  %q1 = ingot.rms_norm %q, %qn eps = 1.0e-6 : tensor<?x32xf32>, tensor<16xf32>
  %qr = ingot.rope %q1, %batch, @rotary : tensor<?x32xf32>
  %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}
