// Each miss says why; activation and product are joined where only the products cannot be.
// RUN: ingot-opt %s --ingot-fuse-gate-up --remarks-filter=ingot -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: ingot-opt %s --ingot-fuse-gate-up | FileCheck %s
// RUN: ingot-opt %s --ingot-fuse-gate-up -o %t.after && ingot-eval %s --compare %t.after --bits

// REMARK: [Missed] ingot-fuse-gate-up{{.*}}Function=no_activation{{.*}}no factor is an activation function
// CHECK-LABEL: func.func @no_activation
// CHECK-NEXT: ingot.mul
func.func @no_activation(%x: tensor<?x40xf32>, %y: tensor<?x40xf32>) -> tensor<?x40xf32> {
  %z = ingot.mul %x, %y : tensor<?x40xf32>
  return %z : tensor<?x40xf32>
}

// REMARK: [Missed] ingot-fuse-gate-up{{.*}}Function=activation_used{{.*}}the activation has another user
// CHECK-LABEL: func.func @activation_used
// CHECK-NEXT: ingot.silu
// CHECK-NEXT: ingot.mul
func.func @activation_used(%x: tensor<?x40xf32>, %y: tensor<?x40xf32>) -> tensor<?x40xf32> {
  %s = ingot.silu %x : tensor<?x40xf32>
  %z = ingot.mul %s, %y : tensor<?x40xf32>
  %a = ingot.add %z, %s : tensor<?x40xf32>
  return %a : tensor<?x40xf32>
}

// REMARK: [Missed] ingot-fuse-gate-up{{.*}}Function=no_product{{.*}}gate or up is no product; only activation and product are joined
// CHECK-LABEL: func.func @no_product
// CHECK-SAME: (%[[X:.*]]: tensor<?x40xf32>, %[[Y:.*]]: tensor<?x40xf32>)
// CHECK-NEXT: %[[Z:.*]] = ingot.gated_act silu %[[X]], %[[Y]]
// CHECK-NEXT: return %[[Z]]
func.func @no_product(%x: tensor<?x40xf32>, %y: tensor<?x40xf32>) -> tensor<?x40xf32> {
  %s = ingot.silu %x : tensor<?x40xf32>
  %z = ingot.mul %y, %s : tensor<?x40xf32>
  return %z : tensor<?x40xf32>
}

// REMARK: [Missed] ingot-fuse-gate-up{{.*}}Function=one_product{{.*}}gate and up are one product; only
// CHECK-LABEL: func.func @one_product
// CHECK: ingot.gated_act
ingot.parameter @one_product.w "one_product.w" part "mlp" : tensor<40x24xf32>
func.func @one_product(%x: tensor<?x24xf32>) -> tensor<?x40xf32> {
  %w = ingot.weight @one_product.w : tensor<40x24xf32>
  %g = ingot.linear %x weights(%w : tensor<40x24xf32>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %s = ingot.silu %g : tensor<?x40xf32>
  %y = ingot.mul %s, %g : tensor<?x40xf32>
  return %y : tensor<?x40xf32>
}

// REMARK: [Missed] ingot-fuse-gate-up{{.*}}Function=up_used{{.*}}gate or up has another user; only
// CHECK-LABEL: func.func @up_used
// CHECK: ingot.gated_act
ingot.parameter @up_used.wg "up_used.wg" part "mlp" : tensor<40x24xf32>
ingot.parameter @up_used.wu "up_used.wu" part "mlp" : tensor<40x24xf32>
func.func @up_used(%x: tensor<?x24xf32>) -> tensor<?x40xf32> {
  %wg = ingot.weight @up_used.wg : tensor<40x24xf32>
  %wu = ingot.weight @up_used.wu : tensor<40x24xf32>
  %g = ingot.linear %x weights(%wg : tensor<40x24xf32>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %u = ingot.linear %x weights(%wu : tensor<40x24xf32>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %s = ingot.silu %g : tensor<?x40xf32>
  %y = ingot.mul %s, %u : tensor<?x40xf32>
  %z = ingot.add %y, %u : tensor<?x40xf32>
  return %z : tensor<?x40xf32>
}

// REMARK: [Missed] ingot-fuse-gate-up{{.*}}Function=other_input{{.*}}the products have different inputs; only
// CHECK-LABEL: func.func @other_input
// CHECK: ingot.gated_act
ingot.parameter @other_input.wg "other_input.wg" part "mlp" : tensor<40x24xf32>
ingot.parameter @other_input.wu "other_input.wu" part "mlp" : tensor<40x24xf32>
func.func @other_input(%x: tensor<?x24xf32>, %x2: tensor<?x24xf32>) -> tensor<?x40xf32> {
  %wg = ingot.weight @other_input.wg : tensor<40x24xf32>
  %wu = ingot.weight @other_input.wu : tensor<40x24xf32>
  %g = ingot.linear %x weights(%wg : tensor<40x24xf32>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %u = ingot.linear %x2 weights(%wu : tensor<40x24xf32>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %s = ingot.silu %g : tensor<?x40xf32>
  %y = ingot.mul %s, %u : tensor<?x40xf32>
  return %y : tensor<?x40xf32>
}
