// RUN: ingot-opt %s --ingot-fuse-qkv | FileCheck %s
// RUN: ingot-opt %s --ingot-fuse-qkv --remarks-filter=ingot -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: ingot-opt %s --ingot-fuse-qkv -o %t.after && ingot-eval %s --compare %t.after --bits

ingot.rotary @rotary half inv_freq = [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125] scaling = 1.0

// Joined with RoPE in between, in the order queries, keys, values, before the first user.
// CHECK-LABEL: func.func @rotated
// CHECK-SAME: (%[[X:.*]]: tensor<?x24xf32>,
// CHECK-DAG: %[[Q:.*]] = ingot.weight @rotated.wq
// CHECK-DAG: %[[K:.*]] = ingot.weight @rotated.wk
// CHECK-DAG: %[[V:.*]] = ingot.weight @rotated.wv
// CHECK: %[[QKV:.*]] = ingot.linear %[[X]] weights(%[[Q]], %[[K]], %[[V]] : {{.*}}) : tensor<?x24xf32> -> tensor<?x64xf32>
// CHECK-NEXT: %[[PARTS:.*]]:3 = ingot.split %[[QKV]] : tensor<?x64xf32> -> tensor<?x32xf32>, tensor<?x16xf32>, tensor<?x16xf32>
// CHECK-NOT: ingot.linear
// CHECK: %[[KR:.*]] = ingot.rope %[[PARTS]]#1
// CHECK: %[[QR:.*]] = ingot.rope %[[PARTS]]#0
// CHECK: ingot.kv_append %[[KR]], %[[PARTS]]#2
// CHECK: ingot.attention %[[QR]]
// REMARK: fuse-qkv.mlir:[[@LINE+17]]:{{.*}} remark: [Passed] ingot-fuse-qkv
// REMARK-SAME: Function=rotated
// REMARK-SAME: queries, keys and values are one product of 64 features
ingot.parameter @rotated.wq "rotated.wq" part "mlp" : tensor<32x24xbf16>
ingot.parameter @rotated.wk "rotated.wk" part "mlp" : tensor<16x24xbf16>
ingot.parameter @rotated.wv "rotated.wv" part "mlp" : tensor<16x24xbf16>
func.func @rotated(%x: tensor<?x24xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %wq = ingot.weight @rotated.wq : tensor<32x24xbf16>
  %wk = ingot.weight @rotated.wk : tensor<16x24xbf16>
  %wv = ingot.weight @rotated.wv : tensor<16x24xbf16>
  %v = ingot.linear %x weights(%wv : tensor<16x24xbf16>) : tensor<?x24xf32> -> tensor<?x16xf32>
  %k = ingot.linear %x weights(%wk : tensor<16x24xbf16>) : tensor<?x24xf32> -> tensor<?x16xf32>
  %kr = ingot.rope %k, %batch, @rotary : tensor<?x16xf32>
  %q = ingot.linear %x weights(%wq : tensor<32x24xbf16>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %qr = ingot.rope %q, %batch, @rotary : tensor<?x32xf32>
  ingot.kv_append %kr, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>

  %a = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %a : tensor<?x32xf32>
}

// Norms are stepped over, biases are joined, weights are read before the first product.
ingot.parameter @wq "wq.{layer}" kind @biased part "attention" : tensor<32x24xf32>
// CHECK-LABEL: func.func @biased
// CHECK: %[[WQ:.*]] = ingot.weight @wq
// CHECK-NEXT: %[[QKV:.*]] = ingot.linear %{{.*}} weights(%[[WQ]], %{{.*}}, %{{.*}} : {{.*}}) bias(%{{.*}}, %{{.*}}, %{{.*}} : tensor<32xf32>, tensor<16xf32>, tensor<16xf32>)
// CHECK: ingot.split %[[QKV]]
// CHECK-NOT: ingot.linear
ingot.parameter @biased.wk "biased.wk.{layer}" kind @biased part "mlp" : tensor<16x24xf32>
ingot.parameter @biased.wv "biased.wv.{layer}" kind @biased part "mlp" : tensor<16x24xf32>
ingot.parameter @biased.n "biased.n" part "norm" : tensor<16xf32>
ingot.parameter @biased.bq "biased.bq.{layer}.bias" kind @biased part "mlp" : tensor<32xf32>
ingot.parameter @biased.bk "biased.bk.{layer}.bias" kind @biased part "mlp" : tensor<16xf32>
ingot.parameter @biased.bv "biased.bv.{layer}.bias" kind @biased part "mlp" : tensor<16xf32>
func.func @biased(%x: tensor<?x24xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %wk = ingot.weight @biased.wk[%layer] : tensor<16x24xf32>
  %wv = ingot.weight @biased.wv[%layer] : tensor<16x24xf32>
  %n = ingot.weight @biased.n : tensor<16xf32>
  %bq = ingot.weight @biased.bq[%layer] : tensor<32xf32>
  %bk = ingot.weight @biased.bk[%layer] : tensor<16xf32>
  %bv = ingot.weight @biased.bv[%layer] : tensor<16xf32>
  %k = ingot.linear %x weights(%wk : tensor<16x24xf32>) bias(%bk : tensor<16xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  %v = ingot.linear %x weights(%wv : tensor<16x24xf32>) bias(%bv : tensor<16xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  %wq = ingot.weight @wq[%layer] : tensor<32x24xf32>
  %q = ingot.linear %x weights(%wq : tensor<32x24xf32>) bias(%bq : tensor<32xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %qn = ingot.rms_norm %q, %n eps = 1.0e-6 : tensor<?x32xf32>, tensor<16xf32>
  %kn = ingot.rms_norm %k, %n eps = 1.0e-6 : tensor<?x16xf32>, tensor<16xf32>
  %qr = ingot.rope %qn, %batch, @rotary : tensor<?x32xf32>
  %kr = ingot.rope %kn, %batch, @rotary : tensor<?x16xf32>
  ingot.kv_append %kr, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %a = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %a : tensor<?x32xf32>
}
