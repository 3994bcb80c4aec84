// One broken promise in each module.
// RUN: split-file %s %t
// RUN: ingot-opt %t/phase.mlir --ingot-verify-phase=phase=exe --verify-diagnostics
// RUN: ingot-opt %t/ingot.mlir --ingot-verify-phase=phase=ingot --split-input-file --verify-diagnostics
// RUN: ingot-opt %t/packed.mlir --ingot-verify-phase=phase=packed --split-input-file --verify-diagnostics
// RUN: ingot-opt %t/arena.mlir --ingot-verify-phase=phase=packed --split-input-file --verify-diagnostics
// RUN: ingot-opt %t/loops.mlir --ingot-verify-phase=phase=loops --verify-diagnostics

//--- phase.mlir
// expected-error @below {{ingot-verify-phase: expected phase ingot, fused, packed or loops, got 'exe'}}
module {
}

//--- ingot.mlir
// expected-error @below {{phase ingot: expected the attribute ingot.model on the module}}
module {
}

// -----

// expected-error @below {{phase ingot: expected a function @forward}}
module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
}

// -----

module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  // expected-error @below {{phase ingot: expected the type (!ingot.batch, !ingot.kv_cache<...>) -> 'tensor<?x8xf32>', got '(!ingot.batch, !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x4xf32>'}}
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x4xf32> {
    %t = ingot.weight @t : tensor<8x4xf32>
    %h = ingot.embedding %batch, %t : tensor<8x4xf32> -> tensor<?x4xf32>
    return %h : tensor<?x4xf32>
  }
  ingot.parameter @t "t" part "embedding" : tensor<8x4xf32>
}

// -----

module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32>
    %h = ingot.embedding %batch, %t : tensor<8x8xf32> -> tensor<?x8xf32>
    return %h : tensor<?x8xf32>
  }
  ingot.parameter @t "t" part "embedding" : tensor<8x8xf32>
  // expected-error @below {{phase ingot: expected @forward or a kind of layer that ingot.layers names, got @helper}}
  func.func private @helper(%h: tensor<?x8xf32>) -> tensor<?x8xf32> {
    return %h : tensor<?x8xf32>
  }
}

// -----

module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32>
    %h = ingot.embedding %batch, %t : tensor<8x8xf32> -> tensor<?x8xf32>
    return %h : tensor<?x8xf32>
  }
  ingot.parameter @t "t" part "embedding" : tensor<8x8xf32>
  // expected-error @below {{phase ingot: expected parameters, rotaries and functions only}}
  module {
  }
}

// -----

module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32>
    %h = ingot.embedding %batch, %t : tensor<8x8xf32> -> tensor<?x8xf32>
    // expected-error @below {{phase ingot: expected ops of the ingot dialect only}}
    %c = arith.constant 0 : index
    return %h : tensor<?x8xf32>
  }
  ingot.parameter @t "t" part "embedding" : tensor<8x8xf32>
}

// -----

module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32>
    %h = ingot.embedding %batch, %t : tensor<8x8xf32> -> tensor<?x8xf32>
    return %h : tensor<?x8xf32>
  }
  ingot.parameter @t "t" part "embedding" : tensor<8x8xf32>
  // expected-error @below {{phase ingot: expected every parameter to be read, @unread is not}}
  ingot.parameter @unread "unread" part "norm" : tensor<8xf32>
}

// -----

module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func private @a(%h: tensor<?x8xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 4 x f32>, %index: index, %layer: index) -> tensor<?x8xf32> {
    return %h : tensor<?x8xf32>
  }
  func.func private @b(%h: tensor<?x8xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 4 x f32>, %index: index, %layer: index) -> tensor<?x8xf32> {
    // expected-error @below {{phase ingot: expected a parameter of kind @b, got one of @a}}
    %n = ingot.weight @n[%index] : tensor<8xf32>
    %y = ingot.rms_norm %h, %n eps = 1.0e-5 : tensor<?x8xf32>, tensor<8xf32>
    %s = ingot.add %h, %y : tensor<?x8xf32>
    return %s : tensor<?x8xf32>
  }
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32>
    %h = ingot.embedding %batch, %t : tensor<8x8xf32> -> tensor<?x8xf32>
    %l = ingot.layers %h, %batch, %cache [#ingot.run<@a, first = 0, count = 1>, #ingot.run<@b, first = 0, count = 1>] : tensor<?x8xf32>, !ingot.kv_cache<2 x 1 x 4 x f32>
    return %l : tensor<?x8xf32>
  }
  ingot.parameter @t "t" part "embedding" : tensor<8x8xf32>
  ingot.parameter @n "n.{layer}" kind @a part "norm" : tensor<8xf32>
}

// -----

module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32>
    %h = ingot.embedding %batch, %t : tensor<8x8xf32> -> tensor<?x8xf32>
    return %h : tensor<?x8xf32>
  }
  // expected-error @below {{phase ingot: expected @t to have a source, got a recipe}}
  ingot.parameter @t part "embedding" : tensor<8x8xf32> {
    %0 = ingot.source "t" : tensor<8x8xf32>
    ingot.yield %0 : tensor<8x8xf32>
  }
}

// -----

module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func private @inner(%h: tensor<?x8xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>, %index: index, %layer: index) -> tensor<?x8xf32> {
    return %h : tensor<?x8xf32>
  }
  func.func private @outer(%h: tensor<?x8xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>, %index: index, %layer: index) -> tensor<?x8xf32> {
    // expected-error @below {{phase ingot: expected layers in @forward only}}
    %l = ingot.layers %h, %batch, %cache [#ingot.run<@inner, first = 0, count = 1>] : tensor<?x8xf32>, !ingot.kv_cache<1 x 1 x 4 x f32>
    return %l : tensor<?x8xf32>
  }
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32>
    %h = ingot.embedding %batch, %t : tensor<8x8xf32> -> tensor<?x8xf32>
    %l = ingot.layers %h, %batch, %cache [#ingot.run<@outer, first = 0, count = 1>] : tensor<?x8xf32>, !ingot.kv_cache<1 x 1 x 4 x f32>
    return %l : tensor<?x8xf32>
  }
  ingot.parameter @t "t" part "embedding" : tensor<8x8xf32>
}

//--- packed.mlir
module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32, #ingot.packed<rows>>
    %h = ingot.embedding %batch, %t : tensor<8x8xf32, #ingot.packed<rows>> -> tensor<?x8xf32>
    // expected-error @below {{phase packed: expected a weight in layout panels, got 'tensor<8x8xf32, #ingot.packed<rows>>'}}
    %y = ingot.linear %h weights(%t : tensor<8x8xf32, #ingot.packed<rows>>) : tensor<?x8xf32> -> tensor<?x8xf32>
    return %y : tensor<?x8xf32>
  }
  ingot.parameter @t part "embedding" : tensor<8x8xf32, #ingot.packed<rows>> {
    %0 = ingot.source "t" : tensor<8x8xf32>
    %1 = ingot.pack %0 : tensor<8x8xf32> -> tensor<8x8xf32, #ingot.packed<rows>>
    ingot.yield %1 : tensor<8x8xf32, #ingot.packed<rows>>
  }
}

// -----

module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<4x8xf32, #ingot.packed<panels>>
    %h = ingot.embedding %batch, %t : tensor<4x8xf32, #ingot.packed<panels>> -> tensor<?x8xf32>
    // expected-error @below {{phase packed: expected one packed weight, got 2}}
    %y = ingot.linear %h weights(%t, %t : tensor<4x8xf32, #ingot.packed<panels>>, tensor<4x8xf32, #ingot.packed<panels>>) : tensor<?x8xf32> -> tensor<?x8xf32>
    return %y : tensor<?x8xf32>
  }
  ingot.parameter @t part "embedding" : tensor<4x8xf32, #ingot.packed<panels>> {
    %0 = ingot.source "t" : tensor<4x8xf32>
    %1 = ingot.pack %0 : tensor<4x8xf32> -> tensor<4x8xf32, #ingot.packed<panels>>
    ingot.yield %1 : tensor<4x8xf32, #ingot.packed<panels>>
  }
}

// -----

module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32, #ingot.packed<rows>>
    %h = ingot.embedding %batch, %t : tensor<8x8xf32, #ingot.packed<rows>> -> tensor<?x8xf32>
    %n = ingot.weight @n : tensor<8xbf16, #ingot.packed<rows>>
    // expected-error @below {{phase packed: expected norms and biases in layout rows of f32, got 'tensor<8xbf16, #ingot.packed<rows>>'}}
    %y = ingot.rms_norm %h, %n eps = 1.0e-5 : tensor<?x8xf32>, tensor<8xbf16, #ingot.packed<rows>>
    return %y : tensor<?x8xf32>
  }
  ingot.parameter @t part "embedding" : tensor<8x8xf32, #ingot.packed<rows>> {
    %0 = ingot.source "t" : tensor<8x8xf32>
    %1 = ingot.pack %0 : tensor<8x8xf32> -> tensor<8x8xf32, #ingot.packed<rows>>
    ingot.yield %1 : tensor<8x8xf32, #ingot.packed<rows>>
  }
  ingot.parameter @n part "norm" : tensor<8xbf16, #ingot.packed<rows>> {
    %0 = ingot.source "n" : tensor<8xbf16>
    %1 = ingot.pack %0 : tensor<8xbf16> -> tensor<8xbf16, #ingot.packed<rows>>
    ingot.yield %1 : tensor<8xbf16, #ingot.packed<rows>>
  }
}

//--- arena.mlir
// expected-error @below {{expected ingot.arena on the module}}
module attributes {ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32, #ingot.packed<rows>>
    %h = ingot.embedding %batch, %t {ingot.arena = array<i64: 0>} : tensor<8x8xf32, #ingot.packed<rows>> -> tensor<?x8xf32>
    return %h : tensor<?x8xf32>
  }
  ingot.parameter @t part "embedding" : tensor<8x8xf32, #ingot.packed<rows>> {
    %0 = ingot.source "t" : tensor<8x8xf32>
    %1 = ingot.pack %0 : tensor<8x8xf32> -> tensor<8x8xf32, #ingot.packed<rows>>
    ingot.yield %1 : tensor<8x8xf32, #ingot.packed<rows>>
  }
}

// -----

// Two activations at one place.
module attributes {ingot.arena = {base = 0 : i64, per_token = 128 : i64, per_row = 0 : i64}, ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32, #ingot.packed<panels>>
    %h = ingot.embedding %batch, %t {ingot.arena = array<i64: 0>} : tensor<8x8xf32, #ingot.packed<panels>> -> tensor<?x8xf32>
    %x = ingot.linear %h weights(%t : tensor<8x8xf32, #ingot.packed<panels>>) {ingot.arena = array<i64: 64>} : tensor<?x8xf32> -> tensor<?x8xf32>
    %y = ingot.linear %x weights(%t : tensor<8x8xf32, #ingot.packed<panels>>) {ingot.arena = array<i64: 0>} : tensor<?x8xf32> -> tensor<?x8xf32>
    // expected-error @below {{reads an activation whose memory has been written over}}
    %z = ingot.add %y, %h {ingot.arena = array<i64: 64>} : tensor<?x8xf32>
    return %z : tensor<?x8xf32>
  }
  ingot.parameter @t part "embedding" : tensor<8x8xf32, #ingot.packed<panels>> {
    %0 = ingot.source "t" : tensor<8x8xf32>
    %1 = ingot.pack %0 : tensor<8x8xf32> -> tensor<8x8xf32, #ingot.packed<panels>>
    ingot.yield %1 : tensor<8x8xf32, #ingot.packed<panels>>
  }
}

// -----

// A product over its input.
module attributes {ingot.arena = {base = 0 : i64, per_token = 64 : i64, per_row = 0 : i64}, ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32, #ingot.packed<panels>>
    %h = ingot.embedding %batch, %t {ingot.arena = array<i64: 0>} : tensor<8x8xf32, #ingot.packed<panels>> -> tensor<?x8xf32>
    // expected-error @below {{writes its result over what it reads or has just written}}
    %x = ingot.linear %h weights(%t : tensor<8x8xf32, #ingot.packed<panels>>) {ingot.arena = array<i64: 0>} : tensor<?x8xf32> -> tensor<?x8xf32>
    %y = ingot.add %x, %x {ingot.arena = array<i64: 0>} : tensor<?x8xf32>
    return %y : tensor<?x8xf32>
  }
  ingot.parameter @t part "embedding" : tensor<8x8xf32, #ingot.packed<panels>> {
    %0 = ingot.source "t" : tensor<8x8xf32>
    %1 = ingot.pack %0 : tensor<8x8xf32> -> tensor<8x8xf32, #ingot.packed<panels>>
    ingot.yield %1 : tensor<8x8xf32, #ingot.packed<panels>>
  }
}

// -----

module attributes {ingot.arena = {base = 0 : i64, per_token = 64 : i64, per_row = 0 : i64}, ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32, #ingot.packed<rows>>
    // expected-error @below {{has its result at 32 to 96, outside of the arena or not aligned to 64}}
    %h = ingot.embedding %batch, %t {ingot.arena = array<i64: 32>} : tensor<8x8xf32, #ingot.packed<rows>> -> tensor<?x8xf32>
    return %h : tensor<?x8xf32>
  }
  ingot.parameter @t part "embedding" : tensor<8x8xf32, #ingot.packed<rows>> {
    %0 = ingot.source "t" : tensor<8x8xf32>
    %1 = ingot.pack %0 : tensor<8x8xf32> -> tensor<8x8xf32, #ingot.packed<rows>>
    ingot.yield %1 : tensor<8x8xf32, #ingot.packed<rows>>
  }
}

// -----

// A layer that leaves its result elsewhere than its hidden state was.
module attributes {ingot.arena = {base = 0 : i64, per_token = 128 : i64, per_row = 0 : i64}, ingot.model = #ingot.model<name = "m", architecture = "llama", vocab = 8, hidden = 4, intermediate = 4, heads = 1, maxContext = 8, maxBatch = 1, maxStepTokens = 8>} {
  // expected-error @below {{returns a hidden state that is not where its argument was}}
  func.func private @layer(%h: tensor<?x8xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 4 x f32>, %index: index, %layer: index) -> tensor<?x8xf32> attributes {ingot.arena_args = array<i64: 0>} {
    %s = ingot.silu %h {ingot.arena = array<i64: 64>} : tensor<?x8xf32>
    return %s : tensor<?x8xf32>
  }
  func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 4 x f32>) -> tensor<?x8xf32> {
    %t = ingot.weight @t : tensor<8x8xf32, #ingot.packed<rows>>
    %h = ingot.embedding %batch, %t {ingot.arena = array<i64: 0>} : tensor<8x8xf32, #ingot.packed<rows>> -> tensor<?x8xf32>
    %l = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 2>] {ingot.arena = array<i64: 0>} : tensor<?x8xf32>, !ingot.kv_cache<2 x 1 x 4 x f32>
    return %l : tensor<?x8xf32>
  }
  ingot.parameter @t part "embedding" : tensor<8x8xf32, #ingot.packed<rows>> {
    %0 = ingot.source "t" : tensor<8x8xf32>
    %1 = ingot.pack %0 : tensor<8x8xf32> -> tensor<8x8xf32, #ingot.packed<rows>>
    ingot.yield %1 : tensor<8x8xf32, #ingot.packed<rows>>
  }
}

//--- loops.mlir
module {
  module @"x86-64-v3" {
    func.func @step(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
      // expected-error @below {{phase loops: expected no ingot op but parameters}}
      %s = ingot.silu %x : tensor<?x8xf32>
      return %s : tensor<?x8xf32>
    }
  }
  ingot.parameter @t part "embedding" : tensor<8x8xf32, #ingot.packed<rows>> {
    %0 = ingot.source "t" : tensor<8x8xf32>
    %1 = ingot.pack %0 : tensor<8x8xf32> -> tensor<8x8xf32, #ingot.packed<rows>>
    ingot.yield %1 : tensor<8x8xf32, #ingot.packed<rows>>
  }
}
