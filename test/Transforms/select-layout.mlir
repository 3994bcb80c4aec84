// The table in the pass's description, a row at a time.
// RUN: ingot-opt %s --ingot-select-layout | FileCheck %s
// RUN: ingot-opt %s --ingot-select-layout=dtype=bf16 | FileCheck %s --check-prefix=BF16
// RUN: ingot-opt %s --ingot-select-layout=dtype=f32 | FileCheck %s --check-prefix=F32
// RUN: ingot-opt %s --ingot-select-layout --remarks-filter=ingot -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK: @linear "linear" part "mlp" {ingot.layout = #ingot.packed<panels>, ingot.storage = f16}
// BF16: @linear "linear" part "mlp" {ingot.layout = #ingot.packed<panels>, ingot.storage = bf16}
// F32: @linear "linear" part "mlp" {ingot.layout = #ingot.packed<panels>, ingot.storage = f32}
// REMARK: [Passed] ingot-select-layout{{.*}}@linear: panels of f16"
ingot.parameter @linear "linear" part "mlp" : tensor<32x32xf16>
// CHECK: @row_parallel "row" part "mlp" {ingot.layout = #ingot.packed<panels, segments = 8>, ingot.storage = f16}
// REMARK: [Passed] ingot-select-layout{{.*}}@row_parallel: panels of f16, sums over K in 8 segments"
ingot.parameter @row_parallel "row" part "mlp" : tensor<32x32xf16>
// CHECK: @short_row_parallel "short" part "mlp" {ingot.layout = #ingot.packed<panels>, ingot.storage = f16}
ingot.parameter @short_row_parallel "short" part "mlp" : tensor<32x15xf16>
// CHECK: @least_row_parallel "least" part "mlp" {ingot.layout = #ingot.packed<panels, segments = 8>, ingot.storage = f16}
ingot.parameter @least_row_parallel "least" part "mlp" : tensor<15x16xf16>
// CHECK: @gated "gated" part "mlp" {ingot.layout = #ingot.packed<panel_pairs>, ingot.storage = f16}
ingot.parameter @gated "gated" part "mlp" : tensor<16x32xf16>
// CHECK: @embedding "embedding" part "embedding" {ingot.layout = #ingot.packed<rows>, ingot.storage = f16}
// BF16: @embedding "embedding" part "embedding" {ingot.layout = #ingot.packed<rows>, ingot.storage = bf16}
ingot.parameter @embedding "embedding" part "embedding" : tensor<100x32xf16>
// CHECK: @tied "tied" part "embedding" {ingot.layout = #ingot.packed<panels>, ingot.storage = f16}
ingot.parameter @tied "tied" part "embedding" : tensor<100x32xf16>
// Norms and biases are f32; with a dtype they are rounded to it first.
// CHECK: @norm "norm" part "norm" {ingot.layout = #ingot.packed<rows>, ingot.storage = f32}
// BF16: @norm "norm" part "norm" {ingot.layout = #ingot.packed<rows>, ingot.round = bf16, ingot.storage = f32}
// F32: @norm "norm" part "norm" {ingot.layout = #ingot.packed<rows>, ingot.storage = f32}
ingot.parameter @norm "norm" part "norm" : tensor<32xf16>
// CHECK: @bias "bias" part "mlp" {ingot.layout = #ingot.packed<rows>, ingot.storage = f32}
ingot.parameter @bias "bias" part "mlp" : tensor<32xf16>
// CHECK: @twice "twice" part "mlp" {ingot.layout = #ingot.packed<panels>, ingot.storage = f16}
// CHECK: @[[COPY:twice_.*]] "twice" part "mlp" {ingot.layout = #ingot.packed<panels, segments = 8>, ingot.storage = f16}
// REMARK: @twice_{{.*}}: panels of f16, sums over K in 8 segments, a copy of @twice for another use"
ingot.parameter @twice "twice" part "mlp" : tensor<32x32xf16>

// CHECK-LABEL: func.func @uses
func.func @uses(%batch: !ingot.batch) -> (tensor<?x100xf32>, tensor<?x16xf32>, tensor<?x15xf32>) {
  %embedding = ingot.weight @embedding : tensor<100x32xf16>
  %tied = ingot.weight @tied : tensor<100x32xf16>
  %h0 = ingot.embedding %batch, %embedding : tensor<100x32xf16> -> tensor<?x32xf32>
  %h1 = ingot.embedding %batch, %tied : tensor<100x32xf16> -> tensor<?x32xf32>
  %h2 = ingot.add %h0, %h1 : tensor<?x32xf32>
  %norm = ingot.weight @norm : tensor<32xf16>
  %bias = ingot.weight @bias : tensor<32xf16>
  %x = ingot.rms_norm %h2, %norm eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xf16>
  %linear = ingot.weight @linear : tensor<32x32xf16>
  %row_parallel = ingot.weight @row_parallel : tensor<32x32xf16>
  %a = ingot.linear %x weights(%linear : tensor<32x32xf16>) bias(%bias : tensor<32xf16>) : tensor<?x32xf32> -> tensor<?x32xf32>
  %b = ingot.linear %a weights(%row_parallel : tensor<32x32xf16>) row_parallel : tensor<?x32xf32> -> tensor<?x32xf32>
  // The copy has a read of its own.
  // CHECK-DAG: %[[W:.*]] = ingot.weight @twice :
  // CHECK-DAG: %[[C:.*]] = ingot.weight @[[COPY]] :
  // CHECK: ingot.linear %{{.*}} weights(%[[W]] : {{.*}}) :
  // CHECK: ingot.linear %{{.*}} weights(%[[C]] : {{.*}}) row_parallel :
  %twice = ingot.weight @twice : tensor<32x32xf16>
  %c = ingot.linear %b weights(%twice : tensor<32x32xf16>) : tensor<?x32xf32> -> tensor<?x32xf32>
  %d = ingot.linear %c weights(%twice : tensor<32x32xf16>) row_parallel : tensor<?x32xf32> -> tensor<?x32xf32>
  %gated = ingot.weight @gated : tensor<16x32xf16>
  %e = ingot.linear %d weights(%gated, %gated : tensor<16x32xf16>, tensor<16x32xf16>) gated silu : tensor<?x32xf32> -> tensor<?x16xf32>
  %least = ingot.weight @least_row_parallel : tensor<15x16xf16>
  %f = ingot.linear %e weights(%least : tensor<15x16xf16>) row_parallel : tensor<?x16xf32> -> tensor<?x15xf32>
  %short = ingot.weight @short_row_parallel : tensor<32x15xf16>
  %g = ingot.linear %f weights(%short : tensor<32x15xf16>) row_parallel : tensor<?x15xf32> -> tensor<?x32xf32>
  %logits = ingot.linear %g weights(%tied : tensor<100x32xf16>) : tensor<?x32xf32> -> tensor<?x100xf32>
  return %logits, %e, %f : tensor<?x100xf32>, tensor<?x16xf32>, tensor<?x15xf32>
}
