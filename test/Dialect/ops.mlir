// Every op, type and attribute is printed as it was written, and read back.
// RUN: %ingot-opt %s | %ingot-opt | FileCheck %s
// RUN: %ingot-opt %s --mlir-print-op-generic | %ingot-opt | FileCheck %s

// CHECK: module attributes {ingot.model = #ingot.model<name = "tiny", architecture = "llama", vocab = 128, hidden = 32, intermediate = 64, heads = 2, maxContext = 256, maxBatch = 8, maxStepTokens = 64>}
module attributes {ingot.model = #ingot.model<name = "tiny", architecture = "llama", vocab = 128, hidden = 32, intermediate = 64, heads = 2, maxContext = 256, maxBatch = 8, maxStepTokens = 64>} {
  // CHECK: ingot.rotary @half half inv_freq = [1.000000e+00, 5.000000e-01] scaling = 1.000000e+00
  ingot.rotary @half half inv_freq = [1.0, 0.5] scaling = 1.0
  // CHECK: ingot.rotary @long interleaved inv_freq = [1.000000e+00, 5.000000e-01] scaling = 1.250000e+00 long_inv_freq = [2.500000e-01, 1.250000e-01] long_from = 4096
  ingot.rotary @long interleaved inv_freq = [1.0, 0.5] scaling = 1.25 long_inv_freq = [0.25, 0.125] long_from = 4096

  // CHECK: ingot.parameter @table "embed.weight" part "embedding" : tensor<128x32xf16>
  ingot.parameter @table "embed.weight" part "embedding" : tensor<128x32xf16>
  // CHECK: ingot.parameter @layer.w "layers.{layer}.w.weight" kind @layer part "attention" : tensor<32x32xbf16>
  ingot.parameter @layer.w "layers.{layer}.w.weight" kind @layer part "attention" : tensor<32x32xbf16>
  // CHECK: ingot.parameter @layer.packed kind @layer part "mlp" : tensor<2x40x32xf32, #ingot.packed<panel_pairs>> {
  ingot.parameter @layer.packed kind @layer part "mlp" : tensor<2x40x32xf32, #ingot.packed<panel_pairs>> {
    // CHECK: %[[A:.*]] = ingot.source "layers.{layer}.a.weight" : tensor<32x32xbf16>
    %a = ingot.source "layers.{layer}.a.weight" : tensor<32x32xbf16>
    // CHECK: %[[B:.*]] = ingot.source "layers.{layer}.b.weight" : tensor<8x32xbf16>
    %b = ingot.source "layers.{layer}.b.weight" : tensor<8x32xbf16>
    // CHECK: %[[C:.*]] = ingot.concat %[[A]], %[[B]] : (tensor<32x32xbf16>, tensor<8x32xbf16>) -> tensor<40x32xbf16>
    %c = ingot.concat %a, %b : (tensor<32x32xbf16>, tensor<8x32xbf16>) -> tensor<40x32xbf16>
    // CHECK: %[[D:.*]] = ingot.convert %[[C]] : tensor<40x32xbf16> -> tensor<40x32xf32>
    %d = ingot.convert %c : tensor<40x32xbf16> -> tensor<40x32xf32>
    // CHECK: %[[E:.*]] = ingot.stack %[[D]], %[[D]] : tensor<40x32xf32>, tensor<40x32xf32> -> tensor<2x40x32xf32>
    %e = ingot.stack %d, %d : tensor<40x32xf32>, tensor<40x32xf32> -> tensor<2x40x32xf32>
    // CHECK: %[[F:.*]] = ingot.pack %[[E]] : tensor<2x40x32xf32> -> tensor<2x40x32xf32, #ingot.packed<panel_pairs>>
    %f = ingot.pack %e : tensor<2x40x32xf32> -> tensor<2x40x32xf32, #ingot.packed<panel_pairs>>
    // CHECK: ingot.yield %[[F]] : tensor<2x40x32xf32, #ingot.packed<panel_pairs>>
    ingot.yield %f : tensor<2x40x32xf32, #ingot.packed<panel_pairs>>
  }
  // CHECK: ingot.parameter @quantized
  ingot.parameter @quantized part "mlp" : tensor<32x40x!ingot.quantized<q4_1>, #ingot.packed<panels>> {
    %a = ingot.source "quantized" : tensor<32x40xbf16>
    // CHECK: %[[Q:.*]] = ingot.quantize %{{.*}} : tensor<32x40xbf16> -> tensor<32x40x!ingot.quantized<q4_1>>
    %b = ingot.quantize %a : tensor<32x40xbf16> -> tensor<32x40x!ingot.quantized<q4_1>>
    // CHECK: ingot.pack %[[Q]] : tensor<32x40x!ingot.quantized<q4_1>> -> tensor<32x40x!ingot.quantized<q4_1>, #ingot.packed<panels>>
    %c = ingot.pack %b : tensor<32x40x!ingot.quantized<q4_1>> -> tensor<32x40x!ingot.quantized<q4_1>, #ingot.packed<panels>>
    ingot.yield %c : tensor<32x40x!ingot.quantized<q4_1>, #ingot.packed<panels>>
  }
  // CHECK-LABEL: func.func @integers
  func.func @integers(%x: tensor<?x40xf32>) -> tensor<?x32xf32> {
    %w = ingot.weight @quantized : tensor<32x40x!ingot.quantized<q4_1>, #ingot.packed<panels>>
    // CHECK: ingot.linear %{{.*}} weights(%{{.*}}) row_parallel compute int8 :
    %y = ingot.linear %x weights(%w : tensor<32x40x!ingot.quantized<q4_1>, #ingot.packed<panels>>) row_parallel compute int8 : tensor<?x40xf32> -> tensor<?x32xf32>
    return %y : tensor<?x32xf32>
  }
  // CHECK: tensor<32x64xf32, #ingot.packed<panels, segments = 8>>
  func.func private @segments(tensor<32x64xf32, #ingot.packed<panels, segments = 8>>)
  // CHECK: tensor<32xf32, #ingot.packed<rows>>
  func.func private @rows(tensor<32xf32, #ingot.packed<rows>>)

  // CHECK-LABEL: func.func private @layer(
  // CHECK-SAME: %[[H:.*]]: tensor<?x32xf32>, %[[BATCH:.*]]: !ingot.batch, %[[CACHE:.*]]: !ingot.kv_cache<3 x 2 x 4 x bf16>, %[[INDEX:.*]]: index, %[[LAYER:.*]]: index)
  func.func private @layer(%h: tensor<?x32xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 2 x 4 x bf16>, %index: index, %layer: index) -> tensor<?x32xf32> {
    // CHECK: %[[W:.*]] = ingot.weight @layer.w[%[[INDEX]]] : tensor<32x32xbf16>
    %w = ingot.weight @layer.w[%index] : tensor<32x32xbf16>
    // CHECK: %[[P:.*]] = ingot.weight @layer.packed[%[[INDEX]]] : tensor<2x40x32xf32, #ingot.packed<panel_pairs>>
    %p = ingot.weight @layer.packed[%index] : tensor<2x40x32xf32, #ingot.packed<panel_pairs>>
    // CHECK: ingot.linear %[[H]] weights(%[[P]] : tensor<2x40x32xf32, #ingot.packed<panel_pairs>>) gated silu : tensor<?x32xf32> -> tensor<?x40xf32>
    %g = ingot.linear %h weights(%p : tensor<2x40x32xf32, #ingot.packed<panel_pairs>>) gated silu : tensor<?x32xf32> -> tensor<?x40xf32>
    // CHECK: %[[Q:.*]] = ingot.linear %[[H]] weights(%[[W]] : tensor<32x32xbf16>) residual(%[[H]] : tensor<?x32xf32>) row_parallel : tensor<?x32xf32> -> tensor<?x32xf32>
    %q = ingot.linear %h weights(%w : tensor<32x32xbf16>) residual(%h : tensor<?x32xf32>) row_parallel : tensor<?x32xf32> -> tensor<?x32xf32>
    // CHECK: %[[R:.*]] = ingot.rope %[[Q]], %[[BATCH]], @half : tensor<?x32xf32>
    %r = ingot.rope %q, %batch, @half : tensor<?x32xf32>
    // CHECK: %[[S:.*]]:4 = ingot.split %[[R]] : tensor<?x32xf32> -> tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
    %s:4 = ingot.split %r : tensor<?x32xf32> -> tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
    // CHECK: ingot.kv_append %[[S]]#0, %[[S]]#1, %[[BATCH]], %[[CACHE]][%[[LAYER]]] : tensor<?x8xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    ingot.kv_append %s#0, %s#1, %batch, %cache[%layer] : tensor<?x8xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    // CHECK: ingot.attention %[[R]], %[[BATCH]], %[[CACHE]][%[[LAYER]]] scale = 5.000000e-01 : tensor<?x32xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    %a = ingot.attention %r, %batch, %cache[%layer] scale = 0.5 : tensor<?x32xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    // CHECK: ingot.attention {{.*}} scale = 5.000000e-01 window = 7 : tensor<?x32xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    %b = ingot.attention %r, %batch, %cache[%layer] scale = 0.5 window = 7 : tensor<?x32xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    // CHECK: ingot.qk_norm_rope_append %[[R]], %[[S]]#2, %[[S]]#3, %[[BATCH]], %[[CACHE]][%[[LAYER]]], @half : tensor<?x32xf32>, tensor<?x8xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    %c = ingot.qk_norm_rope_append %r, %s#2, %s#3, %batch, %cache[%layer], @half : tensor<?x32xf32>, tensor<?x8xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    // CHECK: %[[T:.*]] = ingot.add
    %d = ingot.add %a, %b : tensor<?x32xf32>
    // CHECK: ingot.mul %[[T]], %{{.*}} : tensor<?x32xf32>
    %e = ingot.mul %d, %c : tensor<?x32xf32>
    // CHECK: ingot.silu %{{.*}} : tensor<?x32xf32>
    %f = ingot.silu %e : tensor<?x32xf32>
    // CHECK: ingot.gated_act silu %{{.*}}, %{{.*}} : tensor<?x32xf32>
    %i = ingot.gated_act silu %f, %e : tensor<?x32xf32>
    return %i : tensor<?x32xf32>
  }

  // CHECK-LABEL: func.func @biases(
  func.func @biases(%x: tensor<?x32xf32>, %w: tensor<4x32xf32>, %b: tensor<4xf32>) -> tensor<?x8xf32> {
    // CHECK: ingot.linear {{.*}} weights(%{{.*}}, %{{.*}} : tensor<4x32xf32>, tensor<4x32xf32>) bias(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>) : tensor<?x32xf32> -> tensor<?x8xf32>
    %y = ingot.linear %x weights(%w, %w : tensor<4x32xf32>, tensor<4x32xf32>) bias(%b, %b : tensor<4xf32>, tensor<4xf32>) : tensor<?x32xf32> -> tensor<?x8xf32>
    return %y : tensor<?x8xf32>
  }

  // CHECK-LABEL: func.func @norms(
  func.func @norms(%x: tensor<?x32xf32>, %k: tensor<?x8xf32>, %w: tensor<4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 2 x 4 x bf16>, %layer: index) {
    // CHECK: ingot.rms_norm %{{.*}}, %{{.*}} eps = 9.99999997E-7 : tensor<?x32xf32>, tensor<4xf32>
    %y = ingot.rms_norm %x, %w eps = 1.0e-6 : tensor<?x32xf32>, tensor<4xf32>
    // CHECK: ingot.add_rms_norm %{{.*}}, %{{.*}}, %{{.*}} eps = 5.000000e-01 : tensor<?x32xf32>, tensor<4xf32>
    %s, %z = ingot.add_rms_norm %x, %y, %w eps = 0.5 : tensor<?x32xf32>, tensor<4xf32>
    // CHECK: ingot.qk_norm_rope_append {{.*}}, @long norms(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>) eps = 5.000000e-01 : tensor<?x32xf32>, tensor<?x8xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    %q = ingot.qk_norm_rope_append %x, %k, %k, %batch, %cache[%layer], @long norms(%w, %w : tensor<4xf32>, tensor<4xf32>) eps = 0.5 : tensor<?x32xf32>, tensor<?x8xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    return
  }

  // CHECK-LABEL: func.func @forward(
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 2 x 4 x bf16>) -> tensor<?x32xf32> {
    // CHECK: %[[TABLE:.*]] = ingot.weight @table : tensor<128x32xf16>
    %table = ingot.weight @table : tensor<128x32xf16>
    // CHECK: ingot.embedding %{{.*}}, %[[TABLE]] : tensor<128x32xf16> -> tensor<?x32xf32>
    %h = ingot.embedding %batch, %table : tensor<128x32xf16> -> tensor<?x32xf32>
    // CHECK: ingot.layers %{{.*}}, %{{.*}}, %{{.*}} [#ingot.run<@layer, first = 0, count = 3>] : tensor<?x32xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    %l = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 3>] : tensor<?x32xf32>, !ingot.kv_cache<3 x 2 x 4 x bf16>
    // CHECK: ingot.select_rows %{{.*}}, %{{.*}} : tensor<?x32xf32>
    %r = ingot.select_rows %l, %batch : tensor<?x32xf32>
    return %r : tensor<?x32xf32>
  }
}
