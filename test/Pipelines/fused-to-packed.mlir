// One weight for each product, a layout for each parameter, an address for each activation.
// RUN: ingot-opt %S/../Dialect/decoder.mlir --ingot-to-fused --fused-to-packed | FileCheck %s
// RUN: ingot-opt %S/../Dialect/decoder.mlir --ingot-to-fused=fuse=false --fused-to-packed=dtype=f16 | FileCheck %s --check-prefix=UNFUSED
// RUN: ingot-opt %S/../Dialect/decoder.mlir --ingot-to-fused --fused-to-packed -o %t.at-once
// The same bits as before packing, where sums are cut into segments as the layout asks for.
// RUN: ingot-eval %S/../Dialect/decoder.mlir --tokens "1,2,3,4,5,6,7,8,9,10,11;42" --segments 8 --compare %t.at-once --bits
// Random weights are the same in every float type, so that each dtype has the same bits.
// RUN: ingot-opt %S/../Dialect/decoder.mlir --ingot-to-fused --fused-to-packed=dtype=f32 -o %t.f32
// RUN: ingot-eval %t.at-once --tokens "1,2,3,4,5,6,7,8,9,10,11;42" --compare %t.f32 --bits
// RUN: ingot-opt %S/../Dialect/decoder.mlir --ingot-to-fused --fused-to-packed=dtype=f16 -o %t.f16
// RUN: ingot-eval %t.at-once --tokens "1,2,3,4,5,6,7,8,9,10,11;42" --compare %t.f16 --bits
// Each stage is made from the printed form of the one before.
// RUN: ingot-opt %S/../Dialect/decoder.mlir --ingot-to-fused | ingot-opt --fused-to-packed | diff %t.at-once -
// The number of layers stands in the table of layers and in the cache's type, and changes nothing else.
// RUN: sed 's/kv_cache<2 x/kv_cache<200 x/g; s/count = 2>/count = 200>/' %S/../Dialect/decoder.mlir | ingot-opt --ingot-to-fused --fused-to-packed -o %t.many
// RUN: sed 's/<200 x/<2 x/g; s/count = 200>/count = 2>/' %t.many | diff %t.at-once -

// CHECK: ingot.arena = {base = 0 : i64, per_row = {{[0-9]+}} : i64, per_token = {{[0-9]+}} : i64}
// CHECK-DAG: ingot.parameter @embed_tokens part "embedding" : tensor<128x32xbf16, #ingot.packed<panels>> {
// CHECK-DAG: ingot.parameter @layer.qkv_proj kind @layer part "attention" : tensor<64x32xbf16, #ingot.packed<panels>> {
// CHECK-DAG: ingot.parameter @layer.o_proj kind @layer part "attention" : tensor<32x32xbf16, #ingot.packed<panels, segments = 8>> {
// CHECK-DAG: ingot.parameter @layer.gate_up_proj kind @layer part "mlp" : tensor<2x64x32xbf16, #ingot.packed<panel_pairs>> {
// CHECK-DAG: ingot.parameter @layer.down_proj kind @layer part "mlp" : tensor<32x64xbf16, #ingot.packed<panels, segments = 8>> {
// CHECK-DAG: ingot.parameter @norm part "norm" : tensor<32xf32, #ingot.packed<rows>> {
// CHECK-NOT: @layer.q_proj
// CHECK: func.func private @layer
// CHECK-SAME: ingot.arena_args = array<i64: 0>

// UNFUSED-DAG: ingot.parameter @layer.q_proj kind @layer part "attention" : tensor<32x32xf16, #ingot.packed<panels>> {
// UNFUSED-DAG: ingot.parameter @layer.up_proj kind @layer part "mlp" : tensor<64x32xf16, #ingot.packed<panels>> {
// UNFUSED-DAG: ingot.parameter @layer.down_proj kind @layer part "mlp" : tensor<32x64xf16, #ingot.packed<panels, segments = 8>> {
