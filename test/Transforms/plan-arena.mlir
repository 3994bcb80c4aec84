// RUN: ingot-opt %s --ingot-plan-arena | FileCheck %s

// Two rows of 20 features are padded to 32. The hidden state is at 0 and comes back there. What an op reads for the last
// time is written over by an op behind the next barrier, not by the next op: a norm may be computed by all workers.
// CHECK: ingot.arena = {base = 0 : i64, per_row = [[ROW:[0-9]+]] : i64, per_token = [[TOKEN:[0-9]+]] : i64}
// CHECK-SAME: ingot.arena_plan = [
// CHECK-SAME: {bytes = 128 : i64, first_op = 0 : i64, last_op = 1 : i64, name = "forward.embedding.0", offset = 0 : i64, unit = "token"}
// The logits go to the caller's memory.
// CHECK-NOT: forward.linear.3
// CHECK-SAME: {bytes = 128 : i64, first_op = -1 : i64, last_op = 2 : i64, name = "layer.hidden", offset = 0 : i64, unit = "token"}

// CHECK-LABEL: func.func private @layer
// CHECK-SAME: ingot.arena_args = array<i64: 0>
func.func private @layer(%h: tensor<?x20xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %index: index, %layer: index) -> tensor<?x20xf32> {
  %w = ingot.weight @w : tensor<20x20xf32>
  // A product never writes over what it reads.
  // CHECK: ingot.linear {{.*}} {ingot.arena = array<i64: [[X:128|256|384]]>}
  %x = ingot.linear %h weights(%w : tensor<20x20xf32>) : tensor<?x20xf32> -> tensor<?x20xf32>
  // The sum lies over the hidden state: elementwise, and the product that reads the state is behind a barrier.
  // CHECK: ingot.add {{.*}} {ingot.arena = array<i64: 0>}
  %s = ingot.add %h, %x : tensor<?x20xf32>
  // CHECK: ingot.linear {{.*}} {ingot.arena = array<i64: [[Y:128|256|384]]>}
  %y = ingot.linear %s weights(%w : tensor<20x20xf32>) : tensor<?x20xf32> -> tensor<?x20xf32>
  // A product over its residual.
  // CHECK: ingot.linear {{.*}} {ingot.arena = array<i64: 0>}
  %z = ingot.linear %y weights(%w : tensor<20x20xf32>) residual(%s : tensor<?x20xf32>) : tensor<?x20xf32> -> tensor<?x20xf32>
  return %z : tensor<?x20xf32>
}

// Row space starts again at 0.
// CHECK-LABEL: func.func @forward
func.func @forward(%batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %t: tensor<100x20xf32>) -> tensor<?x100xf32> {
  // CHECK: ingot.embedding {{.*}} {ingot.arena = array<i64: 0>}
  %h = ingot.embedding %batch, %t : tensor<100x20xf32> -> tensor<?x20xf32>
  // CHECK: ingot.layers {{.*}} {ingot.arena = array<i64: 0>}
  %l = ingot.layers %h, %batch, %cache [#ingot.run<@layer, first = 0, count = 2>] : tensor<?x20xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  // CHECK: ingot.select_rows {{.*}} {ingot.arena = array<i64: 0>}
  %r = ingot.select_rows %l, %batch : tensor<?x20xf32>
  // CHECK: ingot.linear
  // CHECK-NOT: ingot.arena
  // CHECK-SAME: tensor<?x100xf32>
  %logits = ingot.linear %r weights(%t : tensor<100x20xf32>) : tensor<?x20xf32> -> tensor<?x100xf32>
  return %logits : tensor<?x100xf32>
}

ingot.parameter @w "w" part "mlp" : tensor<20x20xf32>

// The parts of a split are views: their offset is the split's input's, which lives until the last part dies.
// CHECK-LABEL: func.func @views
// CHECK-SAME: ingot.arena_args = array<i64: [[IN:[0-9]+]]>
func.func @views(%x: tensor<?x64xf32>) -> tensor<?x32xf32> {
  // CHECK: ingot.split {{.*}} {ingot.arena = array<i64: [[IN]], [[IN]]>}
  %a, %b = ingot.split %x : tensor<?x64xf32> -> tensor<?x32xf32>, tensor<?x32xf32>
  // CHECK: ingot.silu {{.*}} {ingot.arena = array<i64: [[S:[0-9]+]]>}
  %s = ingot.silu %a : tensor<?x32xf32>
  // Not over the view, but over the activation.
  // CHECK: ingot.mul {{.*}} {ingot.arena = array<i64: [[S]]>}
  %y = ingot.mul %s, %b : tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// Not over %x, though it is dead: another worker may be busy with the norm that reads it, no barrier stands in between.
// CHECK-LABEL: func.func @no_barrier
// CHECK-SAME: ingot.arena_args = array<i64: [[X:[0-9]+]]>
// CHECK-NOT: array<i64: [[X]]>
// CHECK: return
func.func @no_barrier(%x: tensor<?x32xf32>, %n: tensor<32xf32>) -> tensor<?x32xf32> {
  %y = ingot.rms_norm %x, %n eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xf32>
  %m = ingot.mul %x, %y : tensor<?x32xf32>
  return %m : tensor<?x32xf32>
}

// The memory of what is needed after the layers is not the layers'.
// CHECK-LABEL: func.func @outlives
// CHECK: ingot.silu {{.*}} {ingot.arena = array<i64: [[KEPT:[0-9]+]]>}
// CHECK-LABEL: func.func private @big
// CHECK-NOT: array<i64: [[KEPT]]>
// CHECK: return
func.func @outlives(%batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %t: tensor<100x32xf32>) -> tensor<?x32xf32> {
  %h = ingot.embedding %batch, %t : tensor<100x32xf32> -> tensor<?x32xf32>
  %s = ingot.silu %h : tensor<?x32xf32>
  %l = ingot.layers %h, %batch, %cache [#ingot.run<@big, first = 0, count = 2>] : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %r = ingot.add %l, %s : tensor<?x32xf32>
  return %r : tensor<?x32xf32>
}
ingot.parameter @v "v" part "mlp" : tensor<32x32xf32>
func.func private @big(%h: tensor<?x32xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %index: index, %layer: index) -> tensor<?x32xf32> {
  %v = ingot.weight @v : tensor<32x32xf32>
  %x = ingot.linear %h weights(%v : tensor<32x32xf32>) : tensor<?x32xf32> -> tensor<?x32xf32>
  %y = ingot.linear %x weights(%v : tensor<32x32xf32>) : tensor<?x32xf32> -> tensor<?x32xf32>
  %z = ingot.linear %y weights(%v : tensor<32x32xf32>) residual(%x : tensor<?x32xf32>) : tensor<?x32xf32> -> tensor<?x32xf32>
  return %z : tensor<?x32xf32>
}
