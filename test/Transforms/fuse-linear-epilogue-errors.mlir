// Each miss says why, and leaves the IR as it was.
// RUN: ingot-opt %s --ingot-fuse-linear-epilogue --remarks-filter=ingot 2>&1 | FileCheck %s
// RUN: ingot-opt %s -o %t.before && ingot-opt %s --ingot-fuse-linear-epilogue -o %t.after && diff %t.before %t.after

// CHECK: [Missed] ingot-fuse-linear-epilogue{{.*}}Function=no_product{{.*}}no summand is a product
func.func @no_product(%a: tensor<?x32xf32>, %b: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %s = ingot.add %a, %b : tensor<?x32xf32>
  return %s : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-linear-epilogue{{.*}}Function=product_used{{.*}}the product has another user
func.func @product_used(%h: tensor<?x32xf32>, %x: tensor<?x24xf32>, %w: tensor<32x24xf32>) -> tensor<?x32xf32> {
  %o = ingot.linear %x weights(%w : tensor<32x24xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %s = ingot.add %h, %o : tensor<?x32xf32>
  %m = ingot.mul %s, %o : tensor<?x32xf32>
  return %m : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-linear-epilogue{{.*}}Function=residual_there{{.*}}the product has a residual already
func.func @residual_there(%h: tensor<?x32xf32>, %x: tensor<?x24xf32>, %w: tensor<32x24xf32>) -> tensor<?x32xf32> {
  %o = ingot.linear %x weights(%w : tensor<32x24xf32>) residual(%h : tensor<?x32xf32>) : tensor<?x24xf32> -> tensor<?x32xf32>
  %s = ingot.add %o, %h : tensor<?x32xf32>
  return %s : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-linear-epilogue{{.*}}Function=gated{{.*}}the product is gated
func.func @gated(%h: tensor<?x32xf32>, %x: tensor<?x24xf32>, %w: tensor<32x24xf32>) -> tensor<?x32xf32> {
  %o = ingot.linear %x weights(%w, %w : tensor<32x24xf32>, tensor<32x24xf32>) gated silu : tensor<?x24xf32> -> tensor<?x32xf32>
  %s = ingot.add %h, %o : tensor<?x32xf32>
  return %s : tensor<?x32xf32>
}
