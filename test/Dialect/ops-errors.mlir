// One test for each labelled constraint of the ops: @<op>_<label>_<what is wrong>.
// RUN: ingot-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{'ingot.parameter' op C1: expected either a source or a recipe, got neither}}
ingot.parameter @parameter_c1_neither part "norm" : tensor<4xf32>

// -----

// expected-error @+1 {{C1: expected either a source or a recipe, got both}}
ingot.parameter @parameter_c1_both "a" part "norm" : tensor<4xf32> {
  %0 = ingot.source "a" : tensor<4xf32>
  ingot.yield %0 : tensor<4xf32>
}

// -----

func.func private @layer()
// expected-error @+1 {{C2: expected a source with '{layer}' in a kind, got 'layers.0.w'}}
ingot.parameter @parameter_c2_kind_without_layer "layers.0.w" kind @layer part "norm" : tensor<4xf32>

// -----

// expected-error @+1 {{C2: expected a source without '{layer}' outside a kind, got 'layers.{layer}.w'}}
ingot.parameter @parameter_c2_layer_without_kind "layers.{layer}.w" part "norm" : tensor<4xf32>

// -----

// expected-error @+1 {{C2: expected a source without '{layer}' outside a kind, got 'layers.{layer}.w'}}
ingot.parameter @parameter_c2_layer_in_recipe part "norm" : tensor<4xf32> {
  %0 = ingot.source "layers.{layer}.w" : tensor<4xf32>
  ingot.yield %0 : tensor<4xf32>
}

// -----

ingot.rotary @layer half inv_freq = [1.0] scaling = 1.0
// expected-error @+1 {{C3: expected kind to name a function, got @layer}}
ingot.parameter @parameter_c3_kind_is_no_function "layers.{layer}.w" kind @layer part "norm" : tensor<4xf32>

// -----

// expected-error @+1 {{C4: expected a recipe that yields 'tensor<4xbf16>', got 'tensor<4xf32>'}}
ingot.parameter @parameter_c4_other_type part "norm" : tensor<4xbf16> {
  %0 = ingot.source "a" : tensor<4xf32>
  ingot.yield %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{C4: expected a recipe that ends with ingot.yield}}
ingot.parameter @parameter_c4_no_yield part "norm" : tensor<4xf32> {
  %0 = ingot.source "a" : tensor<4xf32>
}

// -----

// expected-error @+1 {{C5: expected a type without encoding for a source, got 'tensor<4xf32, #ingot.packed<rows>>'}}
ingot.parameter @parameter_c5_packed_source "a" part "norm" : tensor<4xf32, #ingot.packed<rows>>

// -----

// expected-error @+1 {{failed to satisfy constraint: type attribute of static, not empty tensor of f32, bf16 or f16 of rank 1 to 3}}
ingot.parameter @parameter_type_empty "a" part "norm" : tensor<0xf32>

// -----

// expected-error @+1 {{failed to satisfy constraint: type attribute of static, not empty tensor of f32, bf16 or f16 of rank 1 to 3}}
ingot.parameter @parameter_type_too_large "a" part "norm" : tensor<4294967296x4294967296xf32>

// -----

// expected-error @+1 {{failed to satisfy constraint: type attribute of static, not empty tensor of f32, bf16 or f16 of rank 1 to 3}}
ingot.parameter @parameter_type_integer "a" part "norm" : tensor<4xi32>

// -----

// expected-note @+1 {{see existing symbol definition here}}
ingot.parameter @parameter_twice "a" part "norm" : tensor<4xf32>
// expected-error @+1 {{redefinition of symbol named 'parameter_twice'}}
ingot.parameter @parameter_twice "b" part "norm" : tensor<4xf32>

// -----

func.func @weight_c1_no_parameter() {
  // expected-error @+1 {{C1: expected the name of a parameter, got @w}}
  %w = ingot.weight @w : tensor<4xf32>
  return
}

// -----

func.func private @layer()
ingot.parameter @w "layers.{layer}.w" kind @layer part "norm" : tensor<4xf32>
func.func @weight_c2_index_missing() {
  // expected-error @+1 {{C2: expected an index for a parameter of a kind}}
  %w = ingot.weight @w : tensor<4xf32>
  return
}

// -----

ingot.parameter @w "w" part "norm" : tensor<4xf32>
func.func @weight_c2_index_given(%index: index) {
  // expected-error @+1 {{C2: expected no index for a parameter without kind}}
  %w = ingot.weight @w[%index] : tensor<4xf32>
  return
}

// -----

ingot.parameter @w "w" part "norm" : tensor<4xf32>
func.func @weight_c3_other_type() {
  // expected-error @+1 {{C3: expected result type 'tensor<4xf32>', got 'tensor<5xf32>'}}
  %w = ingot.weight @w : tensor<5xf32>
  return
}

// -----

func.func @source_outside_a_recipe() {
  // expected-error @+1 {{'ingot.source' op expects parent op 'ingot.parameter'}}
  %0 = ingot.source "a" : tensor<4xf32>
  return
}

// -----

ingot.parameter @concat_c1_columns part "mlp" : tensor<6x2xf32> {
  %0 = ingot.source "a" : tensor<4x2xf32>
  %1 = ingot.source "b" : tensor<2x3xf32>
  // expected-error @+1 {{C1: expected inputs that differ in the first dimension only, got 'tensor<4x2xf32>' and 'tensor<2x3xf32>'}}
  %2 = ingot.concat %0, %1 : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<6x2xf32>
  ingot.yield %2 : tensor<6x2xf32>
}

// -----

ingot.parameter @concat_c1_sum part "mlp" : tensor<7x2xf32> {
  %0 = ingot.source "a" : tensor<4x2xf32>
  // expected-error @+1 {{C1: expected result type 'tensor<8x2xf32>', got 'tensor<7x2xf32>'}}
  %2 = ingot.concat %0, %0 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<7x2xf32>
  ingot.yield %2 : tensor<7x2xf32>
}

// -----

ingot.parameter @concat_c1_nothing part "mlp" : tensor<7x2xf32> {
  // expected-error @+1 {{C1: expected at least one input}}
  %2 = ingot.concat : () -> tensor<7x2xf32>
  ingot.yield %2 : tensor<7x2xf32>
}

// -----

ingot.parameter @stack_c1_types part "mlp" : tensor<2x4x2xf32> {
  %0 = ingot.source "a" : tensor<4x2xf32>
  %1 = ingot.source "b" : tensor<4x2xbf16>
  // expected-error @+1 {{C1: expected inputs of one type, got 'tensor<4x2xf32>' and 'tensor<4x2xbf16>'}}
  %2 = ingot.stack %0, %1 : tensor<4x2xf32>, tensor<4x2xbf16> -> tensor<2x4x2xf32>
  ingot.yield %2 : tensor<2x4x2xf32>
}

// -----

ingot.parameter @stack_c1_count part "mlp" : tensor<3x4x2xf32> {
  %0 = ingot.source "a" : tensor<4x2xf32>
  // expected-error @+1 {{C1: expected result type 'tensor<2x4x2xf32>', got 'tensor<3x4x2xf32>'}}
  %2 = ingot.stack %0, %0 : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<3x4x2xf32>
  ingot.yield %2 : tensor<3x4x2xf32>
}

// -----

ingot.parameter @convert_shape part "mlp" : tensor<4xf32> {
  %0 = ingot.source "a" : tensor<5xbf16>
  // expected-error @+1 {{requires the same shape for all operands and results}}
  %1 = ingot.convert %0 : tensor<5xbf16> -> tensor<4xf32>
  ingot.yield %1 : tensor<4xf32>
}

// -----

ingot.parameter @convert_packed part "mlp" : tensor<4xf32> {
  %0 = ingot.source "a" : tensor<4xbf16>
  %1 = ingot.pack %0 : tensor<4xbf16> -> tensor<4xbf16, #ingot.packed<rows>>
  // expected-error @+1 {{must be static, not empty tensor of f32, bf16 or f16 of rank 1 to 3, or quantized of rank 2 or 3 without encoding, but got 'tensor<4xbf16, #ingot.packed<rows>>'}}
  %2 = ingot.convert %1 : tensor<4xbf16, #ingot.packed<rows>> -> tensor<4xf32>
  ingot.yield %2 : tensor<4xf32>
}

// -----

ingot.parameter @pack_c1_no_encoding part "mlp" : tensor<4xf32> {
  %0 = ingot.source "a" : tensor<4xf32>
  // expected-error @+1 {{C1: expected the type 'tensor<4xf32>' with an encoding #ingot.packed, got 'tensor<4xf32>'}}
  %1 = ingot.pack %0 : tensor<4xf32> -> tensor<4xf32>
  ingot.yield %1 : tensor<4xf32>
}

// -----

ingot.parameter @pack_c1_element_type part "mlp" : tensor<4xf32, #ingot.packed<rows>> {
  %0 = ingot.source "a" : tensor<4xbf16>
  // expected-error @+1 {{C1: expected the type 'tensor<4xbf16>' with an encoding #ingot.packed, got 'tensor<4xf32, #ingot.packed<rows>>'}}
  %1 = ingot.pack %0 : tensor<4xbf16> -> tensor<4xf32, #ingot.packed<rows>>
  ingot.yield %1 : tensor<4xf32, #ingot.packed<rows>>
}

// -----

// expected-error @+1 {{C1: expected long_inv_freq and long_from both or neither}}
"ingot.rotary"() <{inv_freq = array<f32: 1.0>, scaling = 1.0 : f32, style = #ingot<rotary_style half>, sym_name = "rotary_c1_no_long_from", long_inv_freq = array<f32: 1.0>}> : () -> ()

// -----

// expected-error @+1 {{C2: expected as many long_inv_freq as inv_freq, at least one, got 1 and 2}}
ingot.rotary @rotary_c2_lengths half inv_freq = [1.0, 0.5] scaling = 1.0 long_inv_freq = [1.0] long_from = 8

// -----

// expected-error @+1 {{C2: expected as many long_inv_freq as inv_freq, at least one, got 0 and 0}}
ingot.rotary @rotary_c2_empty half inv_freq = [] scaling = 1.0

// -----

// expected-error @+1 {{C3: expected a finite scaling, got}}
ingot.rotary @rotary_c3_scaling half inv_freq = [1.0] scaling = 0x7F800000

// -----

// expected-error @+1 {{C3: expected finite frequencies, got}}
"ingot.rotary"() <{inv_freq = array<f32: 1.0, 0x7FC00000>, scaling = 1.0 : f32, style = #ingot<rotary_style half>, sym_name = "rotary_c3_frequency"}> : () -> ()

// -----

// expected-error @+1 {{C4: expected a positive long_from, got -1}}
ingot.rotary @rotary_c4_long_from half inv_freq = [1.0] scaling = 1.0 long_inv_freq = [1.0] long_from = -1

// -----

func.func @embedding_c1_columns(%batch: !ingot.batch, %table: tensor<128x16xf32>) {
  // expected-error @+1 {{C1: expected a table with 32 columns, got 'tensor<128x16xf32>'}}
  %h = ingot.embedding %batch, %table : tensor<128x16xf32> -> tensor<?x32xf32>
  return
}

// -----

func.func @embedding_c1_rank(%batch: !ingot.batch, %table: tensor<32xf32>) {
  // expected-error @+1 {{C1: expected a table with 32 columns, got 'tensor<32xf32>'}}
  %h = ingot.embedding %batch, %table : tensor<32xf32> -> tensor<?x32xf32>
  return
}

// -----

func.func @linear_c1_columns(%x: tensor<?x16xf32>, %w: tensor<32x8xf32>) {
  // expected-error @+1 {{C1: expected weights with 16 columns, got 'tensor<32x8xf32>'}}
  %y = ingot.linear %x weights(%w : tensor<32x8xf32>) : tensor<?x16xf32> -> tensor<?x32xf32>
  return
}

// -----

func.func @linear_c1_none(%x: tensor<?x16xf32>) {
  // expected-error @+1 {{C1: expected at least one weight}}
  %y = "ingot.linear"(%x) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>}> : (tensor<?x16xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @linear_c1_pair_without_gated(%x: tensor<?x16xf32>, %w: tensor<2x8x16xf32>) {
  // expected-error @+1 {{C1: expected weights with 16 columns, got 'tensor<2x8x16xf32>'}}
  %y = ingot.linear %x weights(%w : tensor<2x8x16xf32>) : tensor<?x16xf32> -> tensor<?x16xf32>
  return
}

// -----

func.func @linear_c2_count(%x: tensor<?x16xf32>, %w: tensor<8x16xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{C2: expected no bias or one for each of 2 weights, got 1}}
  %y = ingot.linear %x weights(%w, %w : tensor<8x16xf32>, tensor<8x16xf32>) bias(%b : tensor<8xf32>) : tensor<?x16xf32> -> tensor<?x16xf32>
  return
}

// -----

func.func @linear_c2_length(%x: tensor<?x16xf32>, %w: tensor<8x16xf32>, %b: tensor<7xf32>) {
  // expected-error @+1 {{C2: expected a bias for the rows of 'tensor<8x16xf32>', got 'tensor<7xf32>'}}
  %y = ingot.linear %x weights(%w : tensor<8x16xf32>) bias(%b : tensor<7xf32>) : tensor<?x16xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @linear_c2_pair(%x: tensor<?x16xf32>, %w: tensor<2x8x16xf32>, %b: tensor<16xf32>) {
  // expected-error @+1 {{C2: expected a bias for the rows of 'tensor<2x8x16xf32>', got 'tensor<16xf32>'}}
  %y = ingot.linear %x weights(%w : tensor<2x8x16xf32>) bias(%b : tensor<16xf32>) gated silu : tensor<?x16xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @linear_c3_shapes(%x: tensor<?x16xf32>, %g: tensor<8x16xf32>, %u: tensor<9x16xf32>) {
  // expected-error @+1 {{C3: expected two weights of one shape for a gated product, got 'tensor<8x16xf32>', 'tensor<9x16xf32>'}}
  %y = ingot.linear %x weights(%g, %u : tensor<8x16xf32>, tensor<9x16xf32>) gated silu : tensor<?x16xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @linear_c3_one(%x: tensor<?x16xf32>, %g: tensor<8x16xf32>) {
  // expected-error @+1 {{C3: expected two weights of one shape for a gated product, got 'tensor<8x16xf32>'}}
  %y = ingot.linear %x weights(%g : tensor<8x16xf32>) gated silu : tensor<?x16xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @linear_c3_features(%x: tensor<?x16xf32>, %w: tensor<8x16xf32>) {
  // expected-error @+1 {{C3: expected 8 features, got 16}}
  %y = ingot.linear %x weights(%w, %w : tensor<8x16xf32>, tensor<8x16xf32>) gated silu : tensor<?x16xf32> -> tensor<?x16xf32>
  return
}

// -----

func.func @linear_c4_features(%x: tensor<?x16xf32>, %w: tensor<8x16xf32>) {
  // expected-error @+1 {{C4: expected 16 features, got 8}}
  %y = ingot.linear %x weights(%w, %w : tensor<8x16xf32>, tensor<8x16xf32>) : tensor<?x16xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @linear_c5_residual(%x: tensor<?x16xf32>, %w: tensor<8x16xf32>) {
  // expected-error @+1 {{C5: expected a residual of type 'tensor<?x8xf32>', got 'tensor<?x16xf32>'}}
  %y = ingot.linear %x weights(%w : tensor<8x16xf32>) residual(%x : tensor<?x16xf32>) : tensor<?x16xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @linear_c6_float_weights(%x: tensor<?x16xf32>, %w: tensor<8x16xf32>) {
  // expected-error @+1 {{C6: expected quantized weights for compute int8, got 'tensor<8x16xf32>'}}
  %y = ingot.linear %x weights(%w : tensor<8x16xf32>) compute int8 : tensor<?x16xf32> -> tensor<?x8xf32>
  return
}

// -----

ingot.parameter @convert_c1_quantized part "mlp" : tensor<8x32x!ingot.quantized<q8_0>> {
  %0 = ingot.source "a" : tensor<8x32xf32>
  // expected-error @+1 {{C1: expected a result of f32, bf16 or f16, got 'tensor<8x32x!ingot.quantized<q8_0>>'}}
  %1 = ingot.convert %0 : tensor<8x32xf32> -> tensor<8x32x!ingot.quantized<q8_0>>
  ingot.yield %1 : tensor<8x32x!ingot.quantized<q8_0>>
}

// -----

ingot.parameter @quantize_c1_quantized part "mlp" : tensor<8x32x!ingot.quantized<q8_0>> {
  %0 = ingot.source "a" : tensor<8x32x!ingot.quantized<q4_0>>
  // expected-error @+1 {{C1: expected an input of f32, bf16 or f16, got 'tensor<8x32x!ingot.quantized<q4_0>>'}}
  %1 = ingot.quantize %0 : tensor<8x32x!ingot.quantized<q4_0>> -> tensor<8x32x!ingot.quantized<q8_0>>
  ingot.yield %1 : tensor<8x32x!ingot.quantized<q8_0>>
}

// -----

ingot.parameter @quantize_c2_format part "mlp" : tensor<8x32x!ingot.quantized<q5_0>> {
  %0 = ingot.source "a" : tensor<8x32xf32>
  // expected-error @+1 {{C2: expected a result quantized as q8_0 or q4_1, got 'tensor<8x32x!ingot.quantized<q5_0>>'}}
  %1 = ingot.quantize %0 : tensor<8x32xf32> -> tensor<8x32x!ingot.quantized<q5_0>>
  ingot.yield %1 : tensor<8x32x!ingot.quantized<q5_0>>
}

// -----

// expected-error @+1 {{failed to satisfy constraint: type attribute of static, not empty tensor of f32, bf16 or f16 of rank 1 to 3, or quantized of rank 2 or 3}}
ingot.parameter @parameter_type_quantized_vector "a" part "norm" : tensor<32x!ingot.quantized<q8_0>>

// -----

// A block of 256 is never partly filled.
// expected-error @+1 {{failed to satisfy constraint: type attribute of static, not empty tensor}}
ingot.parameter @parameter_type_quantized_rows "a" part "mlp" : tensor<8x288x!ingot.quantized<q4_k>>

// -----

func.func @rms_norm_c1_length(%x: tensor<?x32xf32>, %w: tensor<5xf32>) {
  // expected-error @+1 {{C1: expected a weight vector whose length divides 32, got 'tensor<5xf32>'}}
  %y = ingot.rms_norm %x, %w eps = 1.0e-5 : tensor<?x32xf32>, tensor<5xf32>
  return
}

// -----

func.func @rms_norm_c1_rank(%x: tensor<?x32xf32>, %w: tensor<1x32xf32>) {
  // expected-error @+1 {{C1: expected a weight vector whose length divides 32, got 'tensor<1x32xf32>'}}
  %y = ingot.rms_norm %x, %w eps = 1.0e-5 : tensor<?x32xf32>, tensor<1x32xf32>
  return
}

// -----

func.func @rms_norm_c2_negative(%x: tensor<?x32xf32>, %w: tensor<32xf32>) {
  // expected-error @+1 {{C2: expected a positive finite eps, got -1}}
  %y = ingot.rms_norm %x, %w eps = -1.0 : tensor<?x32xf32>, tensor<32xf32>
  return
}

// -----

func.func @rms_norm_c2_zero(%x: tensor<?x32xf32>, %w: tensor<32xf32>) {
  // expected-error @+1 {{C2: expected a positive finite eps, got 0}}
  %y = ingot.rms_norm %x, %w eps = 0.0 : tensor<?x32xf32>, tensor<32xf32>
  return
}

// -----

ingot.rotary @rotary half inv_freq = [1.0, 0.5, 0.25] scaling = 1.0
func.func @rope_c1_head_dim(%x: tensor<?x32xf32>, %batch: !ingot.batch) {
  // expected-error @+1 {{C1: expected a rotary whose head_dim divides 32, got @rotary of head_dim 6}}
  %y = ingot.rope %x, %batch, @rotary : tensor<?x32xf32>
  return
}

// -----

func.func @rope_c1_no_rotary(%x: tensor<?x32xf32>, %batch: !ingot.batch) {
  // expected-error @+1 {{C1: expected a rotary whose head_dim divides 32, got @rotary, which is none}}
  %y = ingot.rope %x, %batch, @rotary : tensor<?x32xf32>
  return
}

// -----

func.func @kv_append_c1_features(%k: tensor<?x8xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) {
  // expected-error @+1 {{C1: expected keys and values of 16 features, got 8}}
  ingot.kv_append %k, %k, %batch, %cache[%layer] : tensor<?x8xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return
}

// -----

func.func @attention_c1_features(%q: tensor<?x24xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) {
  // expected-error @+1 {{C1: expected queries of a multiple of 16 features, got 24}}
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 : tensor<?x24xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return
}

// -----

func.func @attention_c2_window(%q: tensor<?x16xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) {
  // expected-error @+1 {{C2: expected a positive window, got 0}}
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 window = 0 : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return
}

// -----

func.func @attention_c2_negative_window(%q: tensor<?x16xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) {
  // expected-error @+1 {{C2: expected a positive window, got -4}}
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 window = -4 : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return
}

// -----

func.func @attention_c3_scale(%q: tensor<?x16xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) {
  // expected-error @+1 {{C3: expected a finite scale, got}}
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0x7F800000 : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return
}

// -----

func.func @split_c1_sum(%x: tensor<?x32xf32>) {
  // expected-error @+1 {{C1: expected parts of 32 features together, got 31}}
  %a, %b = ingot.split %x : tensor<?x32xf32> -> tensor<?x24xf32>, tensor<?x7xf32>
  return
}

// -----

func.func private @layer(tensor<?x4xf32>, !ingot.batch, !ingot.kv_cache<3 x 1 x 4 x f16>, index) -> tensor<?x4xf32>
func.func @layers_c1_type(%h: tensor<?x4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 1 x 4 x f16>) {
  // expected-error @+1 {{C1: expected a function of type}}
  %y = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 3>] : tensor<?x4xf32>, !ingot.kv_cache<3 x 1 x 4 x f16>
  return
}

// -----

func.func @layers_c1_no_function(%h: tensor<?x4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 1 x 4 x f16>) {
  // expected-error @+1 {{C1: expected a function of type}}
  %y = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 3>] : tensor<?x4xf32>, !ingot.kv_cache<3 x 1 x 4 x f16>
  return
}

// -----

func.func private @layer(tensor<?x4xf32>, !ingot.batch, !ingot.kv_cache<3 x 1 x 4 x f16>, index, index) -> tensor<?x4xf32>
func.func @layers_c2_count(%h: tensor<?x4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 1 x 4 x f16>) {
  // expected-error @+1 {{C2: expected 3 layers, got 2}}
  %y = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 2>] : tensor<?x4xf32>, !ingot.kv_cache<3 x 1 x 4 x f16>
  return
}

// -----

func.func private @layer(tensor<?x4xf32>, !ingot.batch, !ingot.kv_cache<3 x 1 x 4 x f16>, index, index) -> tensor<?x4xf32>
func.func @layers_c3_order(%h: tensor<?x4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<3 x 1 x 4 x f16>) {
  // expected-error @+1 {{C3: expected the run of @layer to start at 2, got 1}}
  %y = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 2>, #ingot.run<@layer, first = 1, count = 1>] : tensor<?x4xf32>, !ingot.kv_cache<3 x 1 x 4 x f16>
  return
}

// -----

func.func @add_rms_norm_c1_length(%x: tensor<?x32xf32>, %w: tensor<5xf32>) {
  // expected-error @+1 {{C1: expected a weight vector whose length divides 32, got 'tensor<5xf32>'}}
  %s, %y = ingot.add_rms_norm %x, %x, %w eps = 1.0e-5 : tensor<?x32xf32>, tensor<5xf32>
  return
}

// -----

func.func @add_rms_norm_c2_infinite(%x: tensor<?x32xf32>, %w: tensor<32xf32>) {
  // expected-error @+1 {{C2: expected a positive finite eps, got}}
  %s, %y = ingot.add_rms_norm %x, %x, %w eps = 0x7F800000 : tensor<?x32xf32>, tensor<32xf32>
  return
}

// -----

ingot.rotary @rotary half inv_freq = [1.0, 0.5] scaling = 1.0
func.func @qk_norm_rope_append_c1_eps(%q: tensor<?x8xf32>, %k: tensor<?x4xf32>, %w: tensor<4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 4 x f16>, %layer: index) {
  // expected-error @+1 {{C1: expected q_norm, k_norm and eps all or none}}
  %r = ingot.qk_norm_rope_append %q, %k, %k, %batch, %cache[%layer], @rotary norms(%w, %w : tensor<4xf32>, tensor<4xf32>) : tensor<?x8xf32>, tensor<?x4xf32>, !ingot.kv_cache<2 x 1 x 4 x f16>
  return
}

// -----

ingot.rotary @rotary half inv_freq = [1.0, 0.5] scaling = 1.0
func.func @qk_norm_rope_append_c1_length(%q: tensor<?x8xf32>, %k: tensor<?x4xf32>, %w: tensor<8xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 4 x f16>, %layer: index) {
  // expected-error @+1 {{C1: expected norms of 4 elements, got 'tensor<8xf32>'}}
  %r = ingot.qk_norm_rope_append %q, %k, %k, %batch, %cache[%layer], @rotary norms(%w, %w : tensor<8xf32>, tensor<8xf32>) eps = 1.0e-6 : tensor<?x8xf32>, tensor<?x4xf32>, !ingot.kv_cache<2 x 1 x 4 x f16>
  return
}

// -----

ingot.rotary @rotary half inv_freq = [1.0] scaling = 1.0
func.func @qk_norm_rope_append_c2_head_dim(%q: tensor<?x8xf32>, %k: tensor<?x4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 4 x f16>, %layer: index) {
  // expected-error @+1 {{C2: expected a rotary of head_dim 4, got @rotary of head_dim 2}}
  %r = ingot.qk_norm_rope_append %q, %k, %k, %batch, %cache[%layer], @rotary : tensor<?x8xf32>, tensor<?x4xf32>, !ingot.kv_cache<2 x 1 x 4 x f16>
  return
}

// -----

ingot.rotary @rotary half inv_freq = [1.0, 0.5] scaling = 1.0
func.func @qk_norm_rope_append_c3_key(%q: tensor<?x8xf32>, %k: tensor<?x8xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 4 x f16>, %layer: index) {
  // expected-error @+1 {{C3: expected keys and values of 4 features, got 8}}
  %r = ingot.qk_norm_rope_append %q, %k, %k, %batch, %cache[%layer], @rotary : tensor<?x8xf32>, tensor<?x8xf32>, !ingot.kv_cache<2 x 1 x 4 x f16>
  return
}

// -----

ingot.rotary @rotary half inv_freq = [1.0, 0.5] scaling = 1.0
func.func @qk_norm_rope_append_c4_eps(%q: tensor<?x8xf32>, %k: tensor<?x4xf32>, %w: tensor<4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 4 x f16>, %layer: index) {
  // expected-error @+1 {{C4: expected a positive finite eps, got 0}}
  %r = ingot.qk_norm_rope_append %q, %k, %k, %batch, %cache[%layer], @rotary norms(%w, %w : tensor<4xf32>, tensor<4xf32>) eps = 0.0 : tensor<?x8xf32>, tensor<?x4xf32>, !ingot.kv_cache<2 x 1 x 4 x f16>
  return
}

// -----

func.func @add_activations(%x: tensor<?x8xf16>) {
  // expected-error @+1 {{operand #0 must be tensor<?xNxf32> of activations, but got 'tensor<?x8xf16>'}}
  %y = ingot.add %x, %x : tensor<?x8xf16>
  return
}
