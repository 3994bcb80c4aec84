// RUN: ingot-opt %s --ingot-fuse-gate-up | FileCheck %s
// RUN: ingot-opt %s --ingot-fuse-gate-up --remarks-filter=ingot -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: ingot-opt %s --ingot-fuse-gate-up -o %t.after && ingot-eval %s --compare %t.after --bits

// CHECK-LABEL: func.func @gate_first
// CHECK-SAME: (%[[X:.*]]: tensor<?x24xf32>)
// CHECK-NEXT: %[[G:.*]] = ingot.weight @gate_first.wg
// CHECK-NEXT: %[[U:.*]] = ingot.weight @gate_first.wu
// CHECK-NEXT: %[[Y:.*]] = ingot.linear %[[X]] weights(%[[G]], %[[U]] : tensor<40x24xf16>, tensor<40x24xf16>) gated silu : tensor<?x24xf32> -> tensor<?x40xf32>
// CHECK-NEXT: return %[[Y]]
// REMARK: [Passed] ingot-fuse-gate-up{{.*}}Function=gate_first{{.*}}gate, up, activation and product are one op of 40 features
ingot.parameter @gate_first.wg "gate_first.wg" part "mlp" : tensor<40x24xf16>
ingot.parameter @gate_first.wu "gate_first.wu" part "mlp" : tensor<40x24xf16>
func.func @gate_first(%x: tensor<?x24xf32>) -> tensor<?x40xf32> {
  %wg = ingot.weight @gate_first.wg : tensor<40x24xf16>
  %wu = ingot.weight @gate_first.wu : tensor<40x24xf16>
  %g = ingot.linear %x weights(%wg : tensor<40x24xf16>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %u = ingot.linear %x weights(%wu : tensor<40x24xf16>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %s = ingot.silu %g : tensor<?x40xf32>
  %y = ingot.mul %s, %u : tensor<?x40xf32>
  return %y : tensor<?x40xf32>
}

// The gate is the factor with the activation, wherever it stands.
// CHECK-LABEL: func.func @up_first_biased
// CHECK-NEXT: %[[G:.*]] = ingot.weight @up_first_biased.wg
// CHECK-NEXT: %[[U:.*]] = ingot.weight @up_first_biased.wu
// CHECK-NEXT: %[[BG:.*]] = ingot.weight @up_first_biased.bg
// CHECK-NEXT: %[[BU:.*]] = ingot.weight @up_first_biased.bu
// CHECK-NEXT: ingot.linear %{{.*}} weights(%[[G]], %[[U]] : {{.*}}) bias(%[[BG]], %[[BU]] : {{.*}}) gated silu
// CHECK-NEXT: return
ingot.parameter @up_first_biased.wg "up_first_biased.wg" part "mlp" : tensor<40x24xf32>
ingot.parameter @up_first_biased.wu "up_first_biased.wu" part "mlp" : tensor<40x24xf32>
ingot.parameter @up_first_biased.bg "up_first_biased.bg.bias" part "mlp" : tensor<40xf32>
ingot.parameter @up_first_biased.bu "up_first_biased.bu.bias" part "mlp" : tensor<40xf32>
func.func @up_first_biased(%x: tensor<?x24xf32>) -> tensor<?x40xf32> {
  %wg = ingot.weight @up_first_biased.wg : tensor<40x24xf32>
  %wu = ingot.weight @up_first_biased.wu : tensor<40x24xf32>
  %bg = ingot.weight @up_first_biased.bg : tensor<40xf32>
  %bu = ingot.weight @up_first_biased.bu : tensor<40xf32>
  %u = ingot.linear %x weights(%wu : tensor<40x24xf32>) bias(%bu : tensor<40xf32>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %g = ingot.linear %x weights(%wg : tensor<40x24xf32>) bias(%bg : tensor<40xf32>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %s = ingot.silu %g : tensor<?x40xf32>
  %y = ingot.mul %u, %s : tensor<?x40xf32>
  return %y : tensor<?x40xf32>
}
