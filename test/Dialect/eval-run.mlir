// What ingot-eval prints: values of known weights, the same bits whatever the chunks and threads, errors.
// RUN: %python -c "import json, struct; t = {'e': {'dtype': 'F32', 'shape': [3, 2], 'data_offsets': [0, 24]}, 'l.0.w': {'dtype': 'BF16', 'shape': [2, 2], 'data_offsets': [24, 32]}}; h = json.dumps(t).encode(); open('%t.safetensors', 'wb').write(struct.pack('<Q', len(h)) + h + struct.pack('<6f', 1, 2, 3, 4, 5, 6) + struct.pack('<4H', 0x3f80, 0, 0x4000, 0xbf80))"
// RUN: ingot-eval %s --weights-from %t.safetensors --tokens "2,0;1" > %t.all
// RUN: FileCheck %s < %t.all
// RUN: ingot-eval %s --weights-from %t.safetensors --tokens "2,0;1" --chunk 1 --jobs 2 | diff %t.all -
// RUN: ingot-eval %s --weights=random:1 --tokens "2,0,1;1,1,1,1,1" --chunk 2 > %t.random
// RUN: ingot-eval %s --weights=random:1 --tokens "2,0,1;1,1,1,1,1" --jobs 3 | diff %t.random -
// RUN: not ingot-eval %s --weights=random:2 --compare %s --entry=@nothing 2>&1 | FileCheck %s --check-prefix=ENTRY
// RUN: not ingot-eval %s --tokens "3" 2>&1 | FileCheck %s --check-prefix=ID
// RUN: not ingot-eval %s --tokens "1,x" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not ingot-eval %s --weights=zero 2>&1 | FileCheck %s --check-prefix=WEIGHTS
// RUN: not ingot-eval %s --weights=random:1 --weights-from %t.safetensors 2>&1 | FileCheck %s --check-prefix=BOTH

// The matrix is [[1, 0], [2, -1]]: row (a, b) becomes (a, 2 a - b), and attention over equal scores is the mean.
// CHECK: @forward sequence 0 row 0: 5 4
// CHECK-NEXT: @forward sequence 0 row 1: 3 2
// CHECK-NEXT: @forward sequence 1 row 0: 3 2
// ENTRY: error: {{.*}}eval-run.mlir: no function @nothing
// ID: error: token id 3 is not in [0, 3)
// WORD: error: --tokens: expected a number, got 'x'
// WEIGHTS: error: --weights: expected random:SEED, got 'zero'
// BOTH: error: --weights and --weights-from exclude each other

ingot.parameter @e "e" part "embedding" : tensor<3x2xf32>
ingot.parameter @w "l.{layer}.w" kind @layer part "mlp" : tensor<2x2xbf16>
func.func private @layer(%h: tensor<?x2xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 2 x f32>, %index: index, %layer: index) -> tensor<?x2xf32> {
  %w = ingot.weight @w[%index] : tensor<2x2xbf16>
  %y = ingot.linear %h weights(%w : tensor<2x2xbf16>) : tensor<?x2xf32> -> tensor<?x2xf32>
  ingot.kv_append %y, %y, %batch, %cache[%layer] : tensor<?x2xf32>, !ingot.kv_cache<1 x 1 x 2 x f32>
  %a = ingot.attention %y, %batch, %cache[%layer] scale = 0.0 : tensor<?x2xf32>, !ingot.kv_cache<1 x 1 x 2 x f32>
  return %a : tensor<?x2xf32>
}
func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 2 x f32>) -> tensor<?x2xf32> {
  %e = ingot.weight @e : tensor<3x2xf32>
  %h = ingot.embedding %batch, %e : tensor<3x2xf32> -> tensor<?x2xf32>
  %y = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 1>] : tensor<?x2xf32>, !ingot.kv_cache<1 x 1 x 2 x f32>
  return %y : tensor<?x2xf32>
}
