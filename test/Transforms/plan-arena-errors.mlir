// RUN: ingot-opt %s --ingot-plan-arena --split-input-file --verify-diagnostics

// The old hidden state is read by the op that makes the new one: it would have to be copied.
func.func private @layer(%h: tensor<?x20xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %index: index, %layer: index) -> tensor<?x20xf32> {
  %n = ingot.weight @n : tensor<20xf32>
  %x = ingot.rms_norm %h, %n eps = 1.0e-5 : tensor<?x20xf32>, tensor<20xf32>
  // expected-error @+1 {{expected the old hidden state to be dead, or added to, when the new one is written: both lie in one buffer}}
  return %x : tensor<?x20xf32>
}
func.func @forward(%h: tensor<?x20xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>) -> tensor<?x20xf32> {
  %l = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 2>] : tensor<?x20xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %l : tensor<?x20xf32>
}
ingot.parameter @n "n" part "norm" : tensor<20xf32>

// -----

func.func private @layer(%h: tensor<?x20xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %index: index, %layer: index) -> tensor<?x20xf32> {
  return %h : tensor<?x20xf32>
}
func.func @forward(%h: tensor<?x20xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>) -> tensor<?x20xf32> {
  // expected-error @+1 {{expected the old hidden state to be dead, or added to, when the new one is written: both lie in one buffer}}
  %l = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 2>] : tensor<?x20xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %s = ingot.add %l, %h : tensor<?x20xf32>
  return %s : tensor<?x20xf32>
}

// -----

func.func private @layer(%h: tensor<?x20xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %index: index, %layer: index) -> tensor<?x20xf32> {
  return %h : tensor<?x20xf32>
}
func.func @forward(%x: tensor<?x40xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>) -> tensor<?x20xf32> {
  %a, %b = ingot.split %x : tensor<?x40xf32> -> tensor<?x20xf32>, tensor<?x20xf32>
  // expected-error @+1 {{expected a hidden state that is no part of a split}}
  %l = ingot.layers %b, %batch, %cache [#ingot.run<@layer, first = 0, count = 2>] : tensor<?x20xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %l : tensor<?x20xf32>
}

// -----

func.func private @inner(%h: tensor<?x20xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %index: index, %layer: index) -> tensor<?x20xf32> {
  return %h : tensor<?x20xf32>
}
func.func private @layer(%h: tensor<?x20xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %index: index, %layer: index) -> tensor<?x20xf32> {
  // expected-error @+1 {{expected no layers inside a layer}}
  %l = ingot.layers %h, %batch, %cache [#ingot.run<@inner, first = 0, count = 2>] : tensor<?x20xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %l : tensor<?x20xf32>
}
func.func @forward(%h: tensor<?x20xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>) -> tensor<?x20xf32> {
  %l = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 2>] : tensor<?x20xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %l : tensor<?x20xf32>
}
