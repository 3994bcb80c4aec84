// What the verifiers of types and attributes refuse.
// RUN: ingot-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{kv_cache sizes must be positive and their product less than 2^48, got 2 x 0 x 16}}
func.func private @kv_cache_zero(!ingot.kv_cache<2 x 0 x 16 x f16>)

// -----

// expected-error @+1 {{kv_cache sizes must be positive and their product less than 2^48, got 4294967296 x 4294967296 x 16}}
func.func private @kv_cache_overflow(!ingot.kv_cache<4294967296 x 4294967296 x 16 x f16>)

// -----

// expected-error @+1 {{kv_cache element type must be f32, f16, bf16 or i8, got 'i16'}}
func.func private @kv_cache_element(!ingot.kv_cache<2 x 1 x 16 x i16>)

// -----

// expected-error @+1 {{a run needs first >= 0 and count > 0, both less than 2^48, got first = 0, count = 0}}
func.func private @run_count() attributes {runs = [#ingot.run<@layer, first = 0, count = 0>]}

// -----

// expected-error @+1 {{a run needs first >= 0 and count > 0, both less than 2^48, got first = -1, count = 1}}
func.func private @run_first() attributes {runs = [#ingot.run<@layer, first = -1, count = 1>]}

// -----

// expected-error @+1 {{segments must be positive, and 1 in layout rows, got 8}}
func.func private @packed_rows_segments(tensor<4x4xf32, #ingot.packed<rows, segments = 8>>)

// -----

// expected-error @+1 {{segments must be positive, and 1 in layout rows, got 0}}
func.func private @packed_no_segments(tensor<4x4xf32, #ingot.packed<panels, segments = 0>>)

// -----

// expected-error @+1 {{layout panels is one of a matrix, got a tensor of rank 1}}
func.func private @packed_panels_rank(tensor<4xf32, #ingot.packed<panels>>)

// -----

// expected-error @+1 {{layout panel_pairs is one of two matrices, tensor<2xNxK>, got rank 3 and first size 3}}
func.func private @packed_pairs_first(tensor<3x4x4xf32, #ingot.packed<panel_pairs>>)

// -----

// expected-error @+1 {{layout panel_pairs is one of two matrices, tensor<2xNxK>, got rank 2 and first size 2}}
func.func private @packed_pairs_rank(tensor<2x4xf32, #ingot.packed<panel_pairs>>)

// -----

// expected-error @+1 {{a quantized type is packed in panels, got layout rows}}
func.func private @packed_quantized_rows(tensor<4x32x!ingot.quantized<q8_0>, #ingot.packed<rows>>)

// -----

// expected-error @+2 {{expected ::ingot::Quantization to be one of: q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k}}
// expected-error @+1 {{failed to parse Ingot_QuantizedType parameter 'kind' which is to be a `::ingot::Quantization`}}
func.func private @quantized_kind(tensor<4x32x!ingot.quantized<q2_k>>)

// -----

// expected-error @+1 {{hidden must be positive, got 0}}
module @model_sizes attributes {ingot.model = #ingot.model<name = "tiny", architecture = "llama", vocab = 128, hidden = 0, intermediate = 64, heads = 2, maxContext = 256, maxBatch = 8, maxStepTokens = 64>} {}

// -----

// expected-error @+1 {{a model needs an architecture, got an empty name}}
module @model_architecture attributes {ingot.model = #ingot.model<name = "tiny", architecture = "", vocab = 128, hidden = 32, intermediate = 64, heads = 2, maxContext = 256, maxBatch = 8, maxStepTokens = 64>} {}

// -----

// expected-error @+1 {{expected ingot.model to be a #ingot.model of a module, got 1 : i64}}
module @model_other attributes {ingot.model = 1 : i64} {}

// -----

// expected-error @+1 {{expected ingot.model to be a #ingot.model of a module}}
func.func private @model_of_a_function() attributes {ingot.model = #ingot.model<name = "tiny", architecture = "llama", vocab = 128, hidden = 32, intermediate = 64, heads = 2, maxContext = 256, maxBatch = 8, maxStepTokens = 64>}
