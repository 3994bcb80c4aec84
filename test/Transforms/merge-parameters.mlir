// RUN: ingot-opt %s --ingot-merge-parameters | FileCheck %s
// RUN: ingot-opt %s --ingot-merge-parameters -o %t.after && ingot-eval %s --compare %t.after --bits

// Weights and biases are concatenated in the order of the linear's operands; the old parameters are gone.
// CHECK-NOT: ingot.parameter @layer.q_proj
// CHECK: ingot.parameter @layer.qkv_proj.weight kind @layer part "attention" : tensor<64x24xbf16> {
// CHECK-NEXT: %[[Q:.*]] = ingot.source "q.{layer}.weight" : tensor<32x24xbf16>
// CHECK-NEXT: %[[K:.*]] = ingot.source "k.{layer}.weight" : tensor<16x24xbf16>
// CHECK-NEXT: %[[V:.*]] = ingot.source "v.{layer}.weight" : tensor<16x24xbf16>
// CHECK-NEXT: %[[QKV:.*]] = ingot.concat %[[Q]], %[[K]], %[[V]]
// CHECK-NEXT: ingot.yield %[[QKV]] : tensor<64x24xbf16>
// CHECK: ingot.parameter @layer.qkv_proj_bias kind @layer part "attention" : tensor<64xf32> {
// CHECK: ingot.concat {{.*}} -> tensor<64xf32>
// CHECK-NOT: ingot.parameter @layer.k_proj
// CHECK: ingot.parameter @layer.gate_up_proj kind @layer part "mlp" : tensor<2x40x24xf16> {
// CHECK: ingot.stack {{.*}} -> tensor<2x40x24xf16>
// CHECK: ingot.parameter @layer.up_proj "up.{layer}" kind @layer
ingot.parameter @layer.q_proj.weight "q.{layer}.weight" kind @layer part "attention" : tensor<32x24xbf16>
ingot.parameter @layer.k_proj.weight "k.{layer}.weight" kind @layer part "attention" : tensor<16x24xbf16>
ingot.parameter @layer.v_proj.weight "v.{layer}.weight" kind @layer part "attention" : tensor<16x24xbf16>
ingot.parameter @layer.q_proj_bias "q.{layer}.bias" kind @layer part "attention" : tensor<32xf32>
ingot.parameter @layer.k_proj_bias "k.{layer}.bias" kind @layer part "attention" : tensor<16xf32>
ingot.parameter @layer.v_proj_bias "v.{layer}.bias" kind @layer part "attention" : tensor<16xf32>
ingot.parameter @layer.gate_proj "gate.{layer}" kind @layer part "mlp" : tensor<40x24xf16>
ingot.parameter @layer.up_proj "up.{layer}" kind @layer part "mlp" : tensor<40x24xf16>
// CHECK-LABEL: func.func @layer
// CHECK-DAG: %[[W:.*]] = ingot.weight @layer.qkv_proj.weight[%{{.*}}] : tensor<64x24xbf16>
// CHECK-DAG: %[[B:.*]] = ingot.weight @layer.qkv_proj_bias[%{{.*}}] : tensor<64xf32>
// CHECK: ingot.linear %{{.*}} weights(%[[W]] : tensor<64x24xbf16>) bias(%[[B]] : tensor<64xf32>) : tensor<?x24xf32> -> tensor<?x64xf32>
// CHECK: %[[GU:.*]] = ingot.weight @layer.gate_up_proj[%{{.*}}] : tensor<2x40x24xf16>
// CHECK: ingot.linear %{{.*}} weights(%[[GU]] : tensor<2x40x24xf16>) gated
// CHECK: ingot.linear %{{.*}} weights(%{{.*}} : tensor<40x24xf16>) :
func.func @layer(%x: tensor<?x24xf32>, %index: index) -> (tensor<?x64xf32>, tensor<?x40xf32>, tensor<?x40xf32>) {
  %wq = ingot.weight @layer.q_proj.weight[%index] : tensor<32x24xbf16>
  %wk = ingot.weight @layer.k_proj.weight[%index] : tensor<16x24xbf16>
  %wv = ingot.weight @layer.v_proj.weight[%index] : tensor<16x24xbf16>
  %bq = ingot.weight @layer.q_proj_bias[%index] : tensor<32xf32>
  %bk = ingot.weight @layer.k_proj_bias[%index] : tensor<16xf32>
  %bv = ingot.weight @layer.v_proj_bias[%index] : tensor<16xf32>
  %qkv = ingot.linear %x weights(%wq, %wk, %wv : tensor<32x24xbf16>, tensor<16x24xbf16>, tensor<16x24xbf16>) bias(%bq, %bk, %bv : tensor<32xf32>, tensor<16xf32>, tensor<16xf32>) : tensor<?x24xf32> -> tensor<?x64xf32>
  %wg = ingot.weight @layer.gate_proj[%index] : tensor<40x24xf16>
  %wu = ingot.weight @layer.up_proj[%index] : tensor<40x24xf16>
  %g = ingot.linear %x weights(%wg, %wu : tensor<40x24xf16>, tensor<40x24xf16>) gated silu : tensor<?x24xf32> -> tensor<?x40xf32>
  // Another reader of one of the weights keeps it.
  %u = ingot.linear %x weights(%wu : tensor<40x24xf16>) : tensor<?x24xf32> -> tensor<?x40xf32>
  return %qkv, %g, %u : tensor<?x64xf32>, tensor<?x40xf32>, tensor<?x40xf32>
}

// One merged parameter for two linears with the same weights; names that differ in more than one part.
// CHECK: ingot.parameter @a.x_b.y part "mlp" : tensor<24x24xf32>
// CHECK-NOT: ingot.parameter @a.x_b.y
// CHECK-LABEL: func.func @shared
// CHECK: ingot.weight @a.x_b.y
// CHECK: ingot.weight @a.x_b.y
ingot.parameter @a.x "a" part "mlp" : tensor<16x24xf32>
ingot.parameter @b.y "b" part "mlp" : tensor<8x24xf32>
func.func @shared(%x: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %a = ingot.weight @a.x : tensor<16x24xf32>
  %b = ingot.weight @b.y : tensor<8x24xf32>
  %y = ingot.linear %x weights(%a, %b : tensor<16x24xf32>, tensor<8x24xf32>) : tensor<?x24xf32> -> tensor<?x24xf32>
  %z = ingot.linear %y weights(%a, %b : tensor<16x24xf32>, tensor<8x24xf32>) : tensor<?x24xf32> -> tensor<?x24xf32>
  return %z : tensor<?x24xf32>
}
