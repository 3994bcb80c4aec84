// RUN: %ingot-opt %s --canonicalize --cse --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @split_of_one(
// CHECK-SAME: %[[X:.*]]: tensor<?x32xf32>)
func.func @split_of_one(%x: tensor<?x32xf32>) -> tensor<?x32xf32> {
  // CHECK-NEXT: return %[[X]]
  %y = ingot.split %x : tensor<?x32xf32> -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// CHECK-LABEL: func.func @split_of_two(
func.func @split_of_two(%x: tensor<?x32xf32>) -> tensor<?x8xf32> {
  // CHECK: ingot.split
  %a, %b = ingot.split %x : tensor<?x32xf32> -> tensor<?x24xf32>, tensor<?x8xf32>
  return %b : tensor<?x8xf32>
}

// CHECK-LABEL: ingot.parameter @convert_of_same_type
ingot.parameter @convert_of_same_type part "norm" : tensor<4xf32> {
  // CHECK-NEXT: %[[S:.*]] = ingot.source "a"
  // CHECK-NEXT: ingot.yield %[[S]]
  %0 = ingot.source "a" : tensor<4xf32>
  %1 = ingot.convert %0 : tensor<4xf32> -> tensor<4xf32>
  ingot.yield %1 : tensor<4xf32>
}

// CHECK-LABEL: ingot.parameter @convert_there_and_back
ingot.parameter @convert_there_and_back part "norm" : tensor<4xbf16> {
  // CHECK-NEXT: %[[S:.*]] = ingot.source "a"
  // CHECK-NEXT: ingot.yield %[[S]]
  %0 = ingot.source "a" : tensor<4xbf16>
  %1 = ingot.convert %0 : tensor<4xbf16> -> tensor<4xf32>
  %2 = ingot.convert %1 : tensor<4xf32> -> tensor<4xbf16>
  ingot.yield %2 : tensor<4xbf16>
}

// Rounding is not undone.
// CHECK-LABEL: ingot.parameter @convert_through_a_narrower_type
ingot.parameter @convert_through_a_narrower_type part "norm" : tensor<4xf32> {
  // CHECK: ingot.convert {{.*}} -> tensor<4xbf16>
  // CHECK: ingot.convert {{.*}} -> tensor<4xf32>
  %0 = ingot.source "a" : tensor<4xf32>
  %1 = ingot.convert %0 : tensor<4xf32> -> tensor<4xbf16>
  %2 = ingot.convert %1 : tensor<4xbf16> -> tensor<4xf32>
  ingot.yield %2 : tensor<4xf32>
}

// Nor does float16 hold what bfloat16 holds.
// CHECK-LABEL: ingot.parameter @convert_between_narrow_types
ingot.parameter @convert_between_narrow_types part "norm" : tensor<4xbf16> {
  // CHECK: ingot.convert {{.*}} -> tensor<4xf16>
  // CHECK: ingot.convert {{.*}} -> tensor<4xbf16>
  %0 = ingot.source "a" : tensor<4xbf16>
  %1 = ingot.convert %0 : tensor<4xbf16> -> tensor<4xf16>
  %2 = ingot.convert %1 : tensor<4xf16> -> tensor<4xbf16>
  ingot.yield %2 : tensor<4xbf16>
}

// CHECK-LABEL: ingot.parameter @concat_of_one
ingot.parameter @concat_of_one part "mlp" : tensor<4x2xf32> {
  // CHECK-NEXT: %[[S:.*]] = ingot.source "a"
  // CHECK-NEXT: ingot.yield %[[S]]
  %0 = ingot.source "a" : tensor<4x2xf32>
  %1 = ingot.concat %0 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  ingot.yield %1 : tensor<4x2xf32>
}

// CHECK-LABEL: ingot.parameter @concat_of_concat
ingot.parameter @concat_of_concat part "mlp" : tensor<7x2xf32> {
  // CHECK-DAG: %[[A:.*]] = ingot.source "a"
  // CHECK-DAG: %[[B:.*]] = ingot.source "b"
  // CHECK-DAG: %[[C:.*]] = ingot.source "c"
  // CHECK: %[[R:.*]] = ingot.concat %[[A]], %[[B]], %[[C]] : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<7x2xf32>
  // CHECK-NEXT: ingot.yield %[[R]]
  %0 = ingot.source "a" : tensor<4x2xf32>
  %1 = ingot.source "b" : tensor<1x2xf32>
  %2 = ingot.source "c" : tensor<2x2xf32>
  %3 = ingot.concat %1, %2 : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %4 = ingot.concat %0, %3 : (tensor<4x2xf32>, tensor<3x2xf32>) -> tensor<7x2xf32>
  ingot.yield %4 : tensor<7x2xf32>
}

func.func private @a(%h: tensor<?x4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<7 x 1 x 4 x f16>, %index: index, %layer: index) -> tensor<?x4xf32> {
  return %h : tensor<?x4xf32>
}
func.func private @b(%h: tensor<?x4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<7 x 1 x 4 x f16>, %index: index, %layer: index) -> tensor<?x4xf32> {
  return %h : tensor<?x4xf32>
}

// CHECK-LABEL: func.func @runs_of_one_kind(
func.func @runs_of_one_kind(%h: tensor<?x4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<7 x 1 x 4 x f16>) -> tensor<?x4xf32> {
  // CHECK: [#ingot.run<@a, first = 0, count = 3>, #ingot.run<@b, first = 0, count = 1>, #ingot.run<@a, first = 3, count = 3>]
  %y = ingot.layers %h, %batch, %cache [#ingot.run<@a, first = 0, count = 1>, #ingot.run<@a, first = 1, count = 2>, #ingot.run<@b, first = 0, count = 1>, #ingot.run<@a, first = 3, count = 1>, #ingot.run<@a, first = 4, count = 2>] : tensor<?x4xf32>, !ingot.kv_cache<7 x 1 x 4 x f16>
  return %y : tensor<?x4xf32>
}

// The cache is memory: a write is not removed because nothing uses a result, reads on both sides of it differ.
// CHECK-LABEL: func.func @effects(
func.func @effects(%q: tensor<?x4xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<7 x 1 x 4 x f16>, %layer: index) -> tensor<?x4xf32> {
  // CHECK: ingot.attention
  // CHECK: ingot.kv_append
  // CHECK: ingot.attention
  // CHECK: ingot.add
  %a = ingot.attention %q, %batch, %cache[%layer] scale = 0.5 : tensor<?x4xf32>, !ingot.kv_cache<7 x 1 x 4 x f16>
  ingot.kv_append %q, %q, %batch, %cache[%layer] : tensor<?x4xf32>, !ingot.kv_cache<7 x 1 x 4 x f16>
  %b = ingot.attention %q, %batch, %cache[%layer] scale = 0.5 : tensor<?x4xf32>, !ingot.kv_cache<7 x 1 x 4 x f16>
  %c = ingot.add %a, %b : tensor<?x4xf32>
  return %c : tensor<?x4xf32>
}
