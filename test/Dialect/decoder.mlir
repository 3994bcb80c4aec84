// A whole decoder as the importer writes it.
// RUN: %ingot-opt %s | %ingot-opt | FileCheck %s

// CHECK: module @tiny
module @tiny attributes {ingot.model = #ingot.model<name = "tiny", architecture = "llama", vocab = 128, hidden = 32, intermediate = 64, heads = 2, maxContext = 256, maxBatch = 8, maxStepTokens = 64>} {
  ingot.rotary @rotary half inv_freq = [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125] scaling = 1.0
  ingot.parameter @embed_tokens "model.embed_tokens.weight" part "embedding" : tensor<128x32xbf16>
  ingot.parameter @layer.input_layernorm "model.layers.{layer}.input_layernorm.weight" kind @layer part "norm" : tensor<32xbf16>
  ingot.parameter @layer.q_proj "model.layers.{layer}.self_attn.q_proj.weight" kind @layer part "attention" : tensor<32x32xbf16>
  ingot.parameter @layer.k_proj "model.layers.{layer}.self_attn.k_proj.weight" kind @layer part "attention" : tensor<16x32xbf16>
  ingot.parameter @layer.v_proj "model.layers.{layer}.self_attn.v_proj.weight" kind @layer part "attention" : tensor<16x32xbf16>
  ingot.parameter @layer.o_proj "model.layers.{layer}.self_attn.o_proj.weight" kind @layer part "attention" : tensor<32x32xbf16>
  ingot.parameter @layer.post_attention_layernorm "model.layers.{layer}.post_attention_layernorm.weight" kind @layer part "norm" : tensor<32xbf16>
  ingot.parameter @layer.gate_proj "model.layers.{layer}.mlp.gate_proj.weight" kind @layer part "mlp" : tensor<64x32xbf16>
  ingot.parameter @layer.up_proj "model.layers.{layer}.mlp.up_proj.weight" kind @layer part "mlp" : tensor<64x32xbf16>
  ingot.parameter @layer.down_proj "model.layers.{layer}.mlp.down_proj.weight" kind @layer part "mlp" : tensor<32x64xbf16>
  ingot.parameter @norm "model.norm.weight" part "norm" : tensor<32xbf16>

  func.func private @layer(%h: tensor<?x32xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %index: index, %layer: index) -> tensor<?x32xf32> {
    %n1 = ingot.weight @layer.input_layernorm[%index] : tensor<32xbf16>
    %x = ingot.rms_norm %h, %n1 eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xbf16>
    %wq = ingot.weight @layer.q_proj[%index] : tensor<32x32xbf16>
    %wk = ingot.weight @layer.k_proj[%index] : tensor<16x32xbf16>
    %wv = ingot.weight @layer.v_proj[%index] : tensor<16x32xbf16>
    %q = ingot.linear %x weights(%wq : tensor<32x32xbf16>) : tensor<?x32xf32> -> tensor<?x32xf32>
    %k = ingot.linear %x weights(%wk : tensor<16x32xbf16>) : tensor<?x32xf32> -> tensor<?x16xf32>
    %v = ingot.linear %x weights(%wv : tensor<16x32xbf16>) : tensor<?x32xf32> -> tensor<?x16xf32>
    %qr = ingot.rope %q, %batch, @rotary : tensor<?x32xf32>
    %kr = ingot.rope %k, %batch, @rotary : tensor<?x16xf32>
    ingot.kv_append %kr, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
    %a = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 window = 8 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
    %wo = ingot.weight @layer.o_proj[%index] : tensor<32x32xbf16>
    // CHECK: row_parallel
    %o = ingot.linear %a weights(%wo : tensor<32x32xbf16>) row_parallel : tensor<?x32xf32> -> tensor<?x32xf32>
    %h1 = ingot.add %h, %o : tensor<?x32xf32>
    %n2 = ingot.weight @layer.post_attention_layernorm[%index] : tensor<32xbf16>
    %y = ingot.rms_norm %h1, %n2 eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xbf16>
    %wg = ingot.weight @layer.gate_proj[%index] : tensor<64x32xbf16>
    %wu = ingot.weight @layer.up_proj[%index] : tensor<64x32xbf16>
    %g = ingot.linear %y weights(%wg : tensor<64x32xbf16>) : tensor<?x32xf32> -> tensor<?x64xf32>
    %u = ingot.linear %y weights(%wu : tensor<64x32xbf16>) : tensor<?x32xf32> -> tensor<?x64xf32>
    %s = ingot.silu %g : tensor<?x64xf32>
    %m = ingot.mul %s, %u : tensor<?x64xf32>
    %wd = ingot.weight @layer.down_proj[%index] : tensor<32x64xbf16>
    %d = ingot.linear %m weights(%wd : tensor<32x64xbf16>) row_parallel : tensor<?x64xf32> -> tensor<?x32xf32>
    %h2 = ingot.add %h1, %d : tensor<?x32xf32>
    return %h2 : tensor<?x32xf32>
  }

  // CHECK-LABEL: func.func @forward
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>) -> tensor<?x128xf32> {
    %table = ingot.weight @embed_tokens : tensor<128x32xbf16>
    %h = ingot.embedding %batch, %table : tensor<128x32xbf16> -> tensor<?x32xf32>
    // CHECK: ingot.layers {{.*}} [#ingot.run<@layer, first = 0, count = 2>]
    %l = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 2>] : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
    %r = ingot.select_rows %l, %batch : tensor<?x32xf32>
    %n = ingot.weight @norm : tensor<32xbf16>
    %y = ingot.rms_norm %r, %n eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xbf16>
    %logits = ingot.linear %y weights(%table : tensor<128x32xbf16>) : tensor<?x32xf32> -> tensor<?x128xf32>
    return %logits : tensor<?x128xf32>
  }
}

