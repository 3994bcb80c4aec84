// RUN: ingot-opt %s --ingot-pack-parameters | FileCheck %s

// A conversion only where the element type changes; a recipe that is there already goes on.
// CHECK: ingot.parameter @same kind @layer part "mlp" : tensor<32x16xf16, #ingot.packed<panels, segments = 8>> {
// CHECK-NEXT: %[[S:.*]] = ingot.source "same.{layer}" : tensor<32x16xf16>
// CHECK-NEXT: %[[P:.*]] = ingot.pack %[[S]] : tensor<32x16xf16> -> tensor<32x16xf16, #ingot.packed<panels, segments = 8>>
// CHECK-NEXT: ingot.yield %[[P]]
ingot.parameter @same "same.{layer}" kind @layer part "mlp" {ingot.layout = #ingot.packed<panels, segments = 8>, ingot.storage = f16} : tensor<32x16xf16>
// CHECK: ingot.parameter @norm kind @layer part "norm" : tensor<16xf32, #ingot.packed<rows>> {
// CHECK-NEXT: %[[S:.*]] = ingot.source "norm.{layer}" : tensor<16xf32>
// CHECK-NEXT: %[[R:.*]] = ingot.convert %[[S]] : tensor<16xf32> -> tensor<16xbf16>
// CHECK-NEXT: %[[W:.*]] = ingot.convert %[[R]] : tensor<16xbf16> -> tensor<16xf32>
// CHECK-NEXT: %[[P:.*]] = ingot.pack %[[W]] : tensor<16xf32> -> tensor<16xf32, #ingot.packed<rows>>
ingot.parameter @norm "norm.{layer}" kind @layer part "norm" {ingot.layout = #ingot.packed<rows>, ingot.round = bf16, ingot.storage = f32} : tensor<16xf32>
// CHECK: ingot.parameter @pair kind @layer part "mlp" : tensor<2x32x16xf32, #ingot.packed<panel_pairs>> {
// CHECK: %[[T:.*]] = ingot.stack
// CHECK-NEXT: %[[C:.*]] = ingot.convert %[[T]] : tensor<2x32x16xbf16> -> tensor<2x32x16xf32>
// CHECK-NEXT: %[[P:.*]] = ingot.pack %[[C]]
// CHECK-NEXT: ingot.yield %[[P]]
// CHECK-NEXT: }
ingot.parameter @pair kind @layer part "mlp" {ingot.layout = #ingot.packed<panel_pairs>, ingot.storage = f32} : tensor<2x32x16xbf16> {
  %0 = ingot.source "gate.{layer}" : tensor<32x16xbf16>
  %1 = ingot.source "up.{layer}" : tensor<32x16xbf16>
  %2 = ingot.stack %0, %1 : tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<2x32x16xbf16>
  ingot.yield %2 : tensor<2x32x16xbf16>
}
// Without a decision nothing happens.
// CHECK: ingot.parameter @undecided "undecided" part "norm" : tensor<16xf32>
ingot.parameter @undecided "undecided" part "norm" : tensor<16xf32>

// CHECK-LABEL: func.func @layer
func.func @layer(%x: tensor<?x16xf32>, %index: index) -> tensor<?x32xf32> {
  // CHECK: %[[N:.*]] = ingot.weight @norm[%{{.*}}] : tensor<16xf32, #ingot.packed<rows>>
  %n = ingot.weight @norm[%index] : tensor<16xf32>
  // CHECK: ingot.rms_norm %{{.*}}, %[[N]] {{.*}} tensor<16xf32, #ingot.packed<rows>>
  %y = ingot.rms_norm %x, %n eps = 1.0e-5 : tensor<?x16xf32>, tensor<16xf32>
  %w = ingot.weight @same[%index] : tensor<32x16xf16>
  // CHECK: ingot.linear %{{.*}} weights(%{{.*}} : tensor<32x16xf16, #ingot.packed<panels, segments = 8>>) row_parallel
  %z = ingot.linear %y weights(%w : tensor<32x16xf16>) row_parallel : tensor<?x16xf32> -> tensor<?x32xf32>
  %p = ingot.weight @pair[%index] : tensor<2x32x16xbf16>
  %a = ingot.linear %y weights(%p : tensor<2x32x16xbf16>) gated silu : tensor<?x16xf32> -> tensor<?x32xf32>
  %r = ingot.add %z, %a : tensor<?x32xf32>
  return %r : tensor<?x32xf32>
}
