// What the conversion owns: the split into variants, attributes of the model, barriers, and that layers are a loop.
// RUN: ingot-opt %s --fused-to-packed --convert-ingot-to-loops="cpus=x86-64-v3,x86-64-v4" | FileCheck %s
// RUN: ingot-opt %s --fused-to-packed --convert-ingot-to-loops="cpus=x86-64-v3" | FileCheck %s --check-prefix=TILES3
// RUN: ingot-opt %s --fused-to-packed --convert-ingot-to-loops="cpus=x86-64-v4-bf16" | FileCheck %s --check-prefix=TILES4
// RUN: ingot-opt %s --fused-to-packed --convert-ingot-to-loops="cpus=x86-64-v3 tiles-of=x86-64-v4" | FileCheck %s --check-prefix=TILES4
// RUN: ingot-opt %s --fused-to-packed --convert-ingot-to-loops="cpus=x86-64-v3 attention=naive" | FileCheck %s --check-prefix=NAIVE

// Of tokens: what the plan says and the cosines and sines; a worker's own memory is new.
// CHECK: module @m attributes {
// CHECK-SAME: ingot.arena = {base = 0 : i64, per_row = {{[0-9]+}} : i64, per_token = {{[0-9]+}} : i64, per_worker = {{[1-9][0-9]*}} : i64}
// CHECK-SAME: ingot.model = #ingot.model
// A number is the position of an op in the table; sources of several layers count once.
// CHECK-SAME: ingot.ops = [
// CHECK-SAME: columns = 32 : i64, {{.*}}in_layer = true, kind = "rms_norm", name = "layer.n"
// CHECK-SAME: kind = "rope", name = "layer.rope"
// CHECK-SAME: kind = "rope", name = "layer.rope_2"
// CHECK-SAME: bytes = 0 : i64, columns = 0 : i64, {{.*}}kind = "kv_append", name = "layer.kv_append"
// CHECK-SAME: flops_per_context = 128 : i64, {{.*}}kind = "attention"
// CHECK-SAME: bytes = 2048 : i64, {{.*}}flops_per_token = 2048 : i64, in_layer = true, kind = "linear", name = "layer.o"
// CHECK-SAME: bytes = 0 : i64, {{.*}}in_layer = false, kind = "embedding", name = "embed"
// CHECK-SAME: flops_per_row = 6400 : i64, {{.*}}kind = "linear", name = "embed_2"
// A stride is a layer's bytes up to the next multiple of 64.
// CHECK-SAME: ingot.parameters = [{count = 1 : i64, name = "embed", offset = 0 : i64, stride = 7168 : i64},
// CHECK-SAME: {count = 3 : i64, name = "layer.n", offset = 7168 : i64, stride = 128 : i64},

// The parameters' recipes stay, the functions do not: a kind keeps its name.
// CHECK: ingot.parameter @embed
// CHECK: func.func private @layer()
// CHECK-NOT: @forward

// CHECK: module @"x86-64-v3" {
// One function of all layers of a kind. Append and attention meet at a barrier; products of one input do not. The second
// rope has one because it writes where the first one's input was.
// CHECK-LABEL: func.func private @layer(%
// CHECK: call @rms_norm
// CHECK: call @ingot_rt_barrier
// CHECK: call @linear_bf16
// CHECK-NOT: call @ingot_rt_barrier
// CHECK: call @linear_bf16
// CHECK-NOT: call @ingot_rt_barrier
// CHECK: call @linear_bf16
// CHECK: call @ingot_rt_barrier
// CHECK: call @rope_16
// CHECK: call @ingot_rt_barrier
// CHECK: call @rope_16
// CHECK: call @ingot_rt_barrier
// CHECK: call @kv_append_f16_16
// CHECK: call @ingot_rt_barrier
// CHECK: call @attention_tiled_f16_2x16
// CHECK: call @ingot_rt_barrier
// CHECK: call @linear_bf16_segments
// CHECK: call @ingot_rt_barrier
// CHECK: call @add
// CHECK: return
// CHECK-LABEL: func.func @step
// CHECK: %[[C3:.*]] = arith.constant 3 : index
// CHECK: scf.for {{.*}} to %[[C3]]
// CHECK-NEXT: call @layer
// CHECK: call @select_rows
// CHECK: scf.if
// CHECK: call @linear_bf16_argmax
// CHECK: call @linear_bf16(
// CHECK: module @"x86-64-v4" {
// CHECK: func.func @step
// TILES3-DAG: func.func private @product_bf16_pairs_6x1_packed
// TILES3-DAG: func.func private @product_bf16_pairs_1x4
// TILES4-DAG: func.func private @product_bf16_pairs_16x1_packed
// TILES4-DAG: func.func private @product_bf16_pairs_1x8
// NAIVE-NOT: attention_tiled
// NAIVE: call @attention_naive_f16_2x16
// NAIVE-NOT: attention_tiled

module @m attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 100, hidden = 32, intermediate = 64, heads = 2, maxContext = 256, maxBatch = 8, maxStepTokens = 64>} {
  ingot.rotary @rotary half inv_freq = [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125] scaling = 1.0
  ingot.parameter @embed "embed.weight" part "embedding" : tensor<100x32xbf16>
  ingot.parameter @layer.n "l.{layer}.n.weight" kind @layer part "norm" : tensor<32xbf16>
  ingot.parameter @layer.q "l.{layer}.q.weight" kind @layer part "attention" : tensor<32x32xbf16>
  ingot.parameter @layer.k "l.{layer}.k.weight" kind @layer part "attention" : tensor<16x32xbf16>
  ingot.parameter @layer.v "l.{layer}.v.weight" kind @layer part "attention" : tensor<16x32xbf16>
  ingot.parameter @layer.o "l.{layer}.o.weight" kind @layer part "attention" : tensor<32x32xbf16>

  func.func private @layer(%h: tensor<?x32xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 1 x 16 x f16>, %index: index, %layer: index) -> tensor<?x32xf32> {
    %wn = ingot.weight @layer.n[%index] : tensor<32xbf16>
    %x = ingot.rms_norm %h, %wn eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xbf16>
    %wq = ingot.weight @layer.q[%index] : tensor<32x32xbf16>
    %wk = ingot.weight @layer.k[%index] : tensor<16x32xbf16>
    %wv = ingot.weight @layer.v[%index] : tensor<16x32xbf16>
    %q = ingot.linear %x weights(%wq : tensor<32x32xbf16>) : tensor<?x32xf32> -> tensor<?x32xf32>
    %k = ingot.linear %x weights(%wk : tensor<16x32xbf16>) : tensor<?x32xf32> -> tensor<?x16xf32>
    %v = ingot.linear %x weights(%wv : tensor<16x32xbf16>) : tensor<?x32xf32> -> tensor<?x16xf32>
    %qr = ingot.rope %q, %batch, @rotary : tensor<?x32xf32>
    %kr = ingot.rope %k, %batch, @rotary : tensor<?x16xf32>
    ingot.kv_append %kr, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<3 x 1 x 16 x f16>
    %a = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<3 x 1 x 16 x f16>
    %wo = ingot.weight @layer.o[%index] : tensor<32x32xbf16>
    %o = ingot.linear %a weights(%wo : tensor<32x32xbf16>) row_parallel : tensor<?x32xf32> -> tensor<?x32xf32>
    %r = ingot.add %h, %o : tensor<?x32xf32>
    return %r : tensor<?x32xf32>
  }

  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 1 x 16 x f16>) -> tensor<?x100xf32> {
    %t = ingot.weight @embed : tensor<100x32xbf16>
    %h = ingot.embedding %batch, %t : tensor<100x32xbf16> -> tensor<?x32xf32>
    %l = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 3>] : tensor<?x32xf32>, !ingot.kv_cache<3 x 1 x 16 x f16>
    %s = ingot.select_rows %l, %batch : tensor<?x32xf32>
    %logits = ingot.linear %s weights(%t : tensor<100x32xbf16>) : tensor<?x32xf32> -> tensor<?x100xf32>
    return %logits : tensor<?x100xf32>
  }
}
