// RUN: ingot-opt %s -split-input-file -verify-diagnostics --convert-ingot-to-loops=cpus=x86-64-v3

// expected-error @below {{expected a packed model: a function @forward and the attributes 'ingot.arena' and 'ingot.model'}}
module {
}

// -----

module attributes {ingot.arena = {base = 0 : i64, per_token = 64 : i64, per_row = 64 : i64}, ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  ingot.parameter @w "w" part "mlp" : tensor<8x4xf32>
  // expected-error @below {{expected @forward to return the result of an ingot.linear that has no other use}}
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x4xf32> {
    %w = ingot.weight @w : tensor<8x4xf32>
    %h = ingot.embedding %batch, %w : tensor<8x4xf32> -> tensor<?x4xf32>
    return %h : tensor<?x4xf32>
  }
}

// -----

module attributes {ingot.arena = {base = 0 : i64, per_token = 64 : i64, per_row = 64 : i64}, ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  ingot.parameter @w "w" part "mlp" : tensor<8x4xf32>
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %w = ingot.weight @w : tensor<8x4xf32>
    %h = ingot.embedding %batch, %w {ingot.arena = array<i64: 0>} : tensor<8x4xf32> -> tensor<?x4xf32>
    // expected-error @below {{expected a weight in panels, got 'tensor<8x4xf32>'}}
    %y = ingot.linear %h weights(%w : tensor<8x4xf32>) : tensor<?x4xf32> -> tensor<?x8xf32>
    return %y : tensor<?x8xf32>
  }
}

// -----

module attributes {ingot.arena = {base = 0 : i64, per_token = 64 : i64, per_row = 64 : i64}, ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  // expected-error @below {{expected its kind to be among the runs of ingot.layers, got @layer}}
  ingot.parameter @layer.w "w.{layer}" kind @layer part "mlp" : tensor<8x4xf32>
  ingot.parameter @w "w" part "mlp" : tensor<8x4xf32>
  func.func private @layer()
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %w = ingot.weight @w : tensor<8x4xf32>
    %h = ingot.embedding %batch, %w {ingot.arena = array<i64: 0>} : tensor<8x4xf32> -> tensor<?x4xf32>
    %y = ingot.linear %h weights(%w : tensor<8x4xf32>) : tensor<?x4xf32> -> tensor<?x8xf32>
    return %y : tensor<?x8xf32>
  }
}
