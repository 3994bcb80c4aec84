// Each miss says why, and leaves the IR as it was.
// RUN: ingot-opt %s --ingot-fuse-qkv --remarks-filter=ingot 2>&1 | FileCheck %s
// RUN: ingot-opt %s -o %t.before && ingot-opt %s --ingot-fuse-qkv -o %t.after && diff %t.before %t.after

// CHECK: [Missed] ingot-fuse-qkv{{.*}}Function=no_append{{.*}}no kv_append to the same layer of the cache before this attention
func.func @no_append(%q: tensor<?x32xf32>, %k: tensor<?x16xf32>, %batch: !ingot.batch,
                     %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %a: index, %b: index) -> tensor<?x32xf32> {
  ingot.kv_append %k, %k, %batch, %cache[%a] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %q, %batch, %cache[%b] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qkv{{.*}}Function=no_product{{.*}}keys do not come from a product of their own
func.func @no_product(%x: tensor<?x24xf32>, %k: tensor<?x16xf32>, %wq: tensor<32x24xf32>, %batch: !ingot.batch,
                      %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %q = ingot.linear %x weights(%wq : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  ingot.kv_append %k, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qkv{{.*}}Function=shared_key_value{{.*}}two of queries, keys and values are one product
func.func @shared_key_value(%x: tensor<?x24xf32>, %wq: tensor<32x24xf32>, %wk: tensor<16x24xf32>, %batch: !ingot.batch,
                            %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %q = ingot.linear %x weights(%wq : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %k = ingot.linear %x weights(%wk : tensor<16x24xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  ingot.kv_append %k, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qkv{{.*}}Function=other_input{{.*}}the products have different inputs
func.func @other_input(%x: tensor<?x24xf32>, %z: tensor<?x24xf32>, %wq: tensor<32x24xf32>, %wk: tensor<16x24xf32>,
                       %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %q = ingot.linear %x weights(%wq : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %k = ingot.linear %x weights(%wk : tensor<16x24xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  %v = ingot.linear %z weights(%wk : tensor<16x24xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  ingot.kv_append %k, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qkv{{.*}}Function=one_bias{{.*}}only some of the products have a bias
func.func @one_bias(%x: tensor<?x24xf32>, %wq: tensor<32x24xf32>, %wk: tensor<16x24xf32>, %b: tensor<16xf32>,
                    %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %q = ingot.linear %x weights(%wq : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %k = ingot.linear %x weights(%wk : tensor<16x24xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  %v = ingot.linear %x weights(%wk : tensor<16x24xf32>) bias(%b : tensor<16xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  ingot.kv_append %k, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qkv{{.*}}Function=residual{{.*}}a product has a residual
func.func @residual(%x: tensor<?x24xf32>, %r: tensor<?x16xf32>, %wq: tensor<32x24xf32>, %wk: tensor<16x24xf32>,
                    %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %q = ingot.linear %x weights(%wq : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %k = ingot.linear %x weights(%wk : tensor<16x24xf32>) residual(%r : tensor<?x16xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  %v = ingot.linear %x weights(%wk : tensor<16x24xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  ingot.kv_append %k, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qkv{{.*}}Function=row_parallel{{.*}}a product is row-parallel
func.func @row_parallel(%x: tensor<?x24xf32>, %wq: tensor<32x24xf32>, %wk: tensor<16x24xf32>,
                        %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %q = ingot.linear %x weights(%wq : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %k = ingot.linear %x weights(%wk : tensor<16x24xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  %v = ingot.linear %x weights(%wk : tensor<16x24xf32>) row_parallel : tensor<?x24xf32> -> tensor<?x16xf32>
  ingot.kv_append %k, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qkv{{.*}}Function=element_types{{.*}}the weights' element types differ: f32 and bf16
func.func @element_types(%x: tensor<?x24xf32>, %wq: tensor<32x24xf32>, %wk: tensor<16x24xf32>, %wv: tensor<16x24xbf16>,
                         %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %q = ingot.linear %x weights(%wq : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %k = ingot.linear %x weights(%wk : tensor<16x24xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  %v = ingot.linear %x weights(%wv : tensor<16x24xbf16>) : tensor<?x24xf32> -> tensor<?x16xf32>
  ingot.kv_append %k, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qkv{{.*}}Function=already{{.*}}queries do not come from a product of their own
func.func @already(%x: tensor<?x24xf32>, %w: tensor<64x24xf32>, %batch: !ingot.batch,
                   %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %qkv = ingot.linear %x weights(%w : tensor<64x24xf32>) : tensor<?x24xf32> -> tensor<?x64xf32>
  %q, %k, %v = ingot.split %qkv : tensor<?x64xf32> -> tensor<?x32xf32>, tensor<?x16xf32>, tensor<?x16xf32>
  ingot.kv_append %k, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qkv{{.*}}Function=indices{{.*}}the weights are read at different indices
ingot.parameter @wq "wq.{layer}" kind @indices part "attention" : tensor<32x24xf32>
ingot.parameter @wk "wk" part "attention" : tensor<16x24xf32>
func.func @indices(%x: tensor<?x24xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %index: index,
                   %layer: index) -> tensor<?x32xf32> {
  %wq = ingot.weight @wq[%index] : tensor<32x24xf32>
  %wk = ingot.weight @wk : tensor<16x24xf32>
  %q = ingot.linear %x weights(%wq : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %k = ingot.linear %x weights(%wk : tensor<16x24xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  %v = ingot.linear %x weights(%wk : tensor<16x24xf32>) : tensor<?x24xf32> -> tensor<?x16xf32>
  ingot.kv_append %k, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}
