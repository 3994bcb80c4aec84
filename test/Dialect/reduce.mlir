// ingot-reduce removes what an interesting file does not need: here everything but an attention.
// RUN: printf '#!/bin/sh\nif ingot-opt "$1" | grep -q ingot.attention; then exit 1; else exit 0; fi\n' > %t.sh
// RUN: chmod +x %t.sh
// RUN: ingot-reduce %s --reduction-tree='traversal-mode=0 test=%t.sh' | FileCheck %s

// CHECK-NOT: @unneeded
// CHECK: ingot.attention
// CHECK-NOT: @unneeded
func.func @unneeded(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = ingot.silu %x : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
func.func @needed(%q: tensor<?x16xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x16xf32> {
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x16xf32>
}
