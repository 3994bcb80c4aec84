// RUN: ingot-opt %s --ingot-fuse-linear-epilogue | FileCheck %s
// RUN: ingot-opt %s --ingot-fuse-linear-epilogue --remarks-filter=ingot -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: ingot-opt %s --ingot-fuse-linear-epilogue -o %t.after && ingot-eval %s --compare %t.after --bits

// CHECK-LABEL: func.func @residual_left
// CHECK-SAME: (%[[H:.*]]: tensor<?x32xf32>, %[[X:.*]]: tensor<?x24xf32>)
// CHECK-NEXT: %[[W:.*]] = ingot.weight @residual_left.w
// CHECK-NEXT: %[[B:.*]] = ingot.weight @residual_left.b
// CHECK-NEXT: %[[Y:.*]] = ingot.linear %[[X]] weights(%[[W]] : tensor<32x24xf32>) bias(%[[B]] : tensor<32xf32>) residual(%[[H]] : tensor<?x32xf32>) row_parallel
// CHECK-NEXT: return %[[Y]]
// REMARK: [Passed] ingot-fuse-linear-epilogue{{.*}}Function=residual_left{{.*}}the product adds the residual of 32 features
ingot.parameter @residual_left.w "residual_left.w" part "mlp" : tensor<32x24xf32>
ingot.parameter @residual_left.b "residual_left.b.bias" part "mlp" : tensor<32xf32>
func.func @residual_left(%h: tensor<?x32xf32>, %x: tensor<?x24xf32>) -> tensor<?x32xf32> {
  %w = ingot.weight @residual_left.w : tensor<32x24xf32>
  %b = ingot.weight @residual_left.b : tensor<32xf32>
  %o = ingot.linear %x weights(%w : tensor<32x24xf32>) bias(%b : tensor<32xf32>) row_parallel : tensor<?x24xf32> -> tensor<?x32xf32>
  %s = ingot.add %h, %o : tensor<?x32xf32>
  return %s : tensor<?x32xf32>
}

// CHECK-LABEL: func.func @residual_right
// CHECK: ingot.linear %{{.*}} residual(
// CHECK-NEXT: return
ingot.parameter @residual_right.w "residual_right.w" part "mlp" : tensor<32x24xf32>
func.func @residual_right(%h: tensor<?x32xf32>, %x: tensor<?x24xf32>) -> tensor<?x32xf32> {
  %w = ingot.weight @residual_right.w : tensor<32x24xf32>
  %o = ingot.linear %x weights(%w : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %s = ingot.add %o, %h : tensor<?x32xf32>
  return %s : tensor<?x32xf32>
}

// Of two products the right one takes the other as its residual.
// CHECK-LABEL: func.func @two_products
// CHECK: %[[A:.*]] = ingot.linear %[[X:.*]] weights(%[[W:.*]] : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
// CHECK-NEXT: ingot.linear %{{.*}} residual(%[[A]] : tensor<?x32xf32>)
// CHECK-NEXT: return
ingot.parameter @two_products.w "two_products.w" part "mlp" : tensor<32x24xf32>
ingot.parameter @two_products.v "two_products.v" part "mlp" : tensor<32x24xf32>
func.func @two_products(%x: tensor<?x24xf32>) -> tensor<?x32xf32> {
  %w = ingot.weight @two_products.w : tensor<32x24xf32>
  %v = ingot.weight @two_products.v : tensor<32x24xf32>
  %a = ingot.linear %x weights(%w : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %b = ingot.linear %x weights(%v : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %s = ingot.add %a, %b : tensor<?x32xf32>
  return %s : tensor<?x32xf32>
}
