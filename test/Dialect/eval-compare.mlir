// ingot-eval finds a difference and finds none where there is none, in results and in the cache.
// RUN: split-file %s %t
// RUN: ingot-eval %t/a.mlir --compare %t/a.mlir --bits | FileCheck %s --check-prefix=SAME
// RUN: not ingot-eval %t/a.mlir --compare %t/result.mlir | FileCheck %s --check-prefix=RESULT
// RUN: not ingot-eval %t/a.mlir --compare %t/cache.mlir | FileCheck %s --check-prefix=CACHE
// RUN: ingot-eval %t/a.mlir --compare %t/result.mlir --tolerance 1e-3 | FileCheck %s --check-prefix=NEAR
// RUN: not ingot-eval %t/a.mlir --compare %t/result.mlir --tolerance 1e-9 | FileCheck %s --check-prefix=RESULT
// RUN: not ingot-eval %t/a.mlir --compare %t/other.mlir 2>&1 | FileCheck %s --check-prefix=OTHER

// SAME: @f: largest difference 0 in 256 values, 0 differ in bits; cache 0 in 1024 values, 0 differ in bits{{$}}
// RESULT: @f: largest difference {{[0-9.e-]+}} in 256 values, {{[1-9][0-9]*}} differ in bits; cache 0 in {{.*}}: too large
// CACHE: @f: largest difference 0 in 256 values, 0 differ in bits; cache {{0\.[0-9]+}} in 1024 values, {{[1-9][0-9]*}} differ in bits: too large
// NEAR: @f: largest difference {{[1-9].*}}differ in bits; cache 0 in 1024 values, 0 differ in bits{{$}}
// OTHER: error: {{.*}}other.mlir: expected a function @f of type

//--- a.mlir
ingot.parameter @w "w" part "norm" : tensor<32xf32>
func.func @f(%x: tensor<?x32xf32>, %k: tensor<?x16xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %w = ingot.weight @w : tensor<32xf32>
  ingot.kv_append %k, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<1 x 1 x 16 x f16>
  %y = ingot.rms_norm %x, %w eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xf32>
  return %y : tensor<?x32xf32>
}

//--- result.mlir
ingot.parameter @w "w" part "norm" : tensor<32xf32>
func.func @f(%x: tensor<?x32xf32>, %k: tensor<?x16xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %w = ingot.weight @w : tensor<32xf32>
  ingot.kv_append %k, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<1 x 1 x 16 x f16>
  %y = ingot.rms_norm %x, %w eps = 2.0e-5 : tensor<?x32xf32>, tensor<32xf32>
  return %y : tensor<?x32xf32>
}

//--- cache.mlir
ingot.parameter @w "w" part "norm" : tensor<32xf32>
func.func @f(%x: tensor<?x32xf32>, %k: tensor<?x16xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<1 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %w = ingot.weight @w : tensor<32xf32>
  %k2 = ingot.silu %k : tensor<?x16xf32>
  ingot.kv_append %k, %k2, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<1 x 1 x 16 x f16>
  %y = ingot.rms_norm %x, %w eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xf32>
  return %y : tensor<?x32xf32>
}

//--- other.mlir
func.func @f(%x: tensor<?x32xf32>) -> tensor<?x32xf32> {
  return %x : tensor<?x32xf32>
}
