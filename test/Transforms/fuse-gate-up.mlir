// RUN: ingot-opt %s --ingot-fuse-gate-up | FileCheck %s
// RUN: ingot-opt %s --ingot-fuse-gate-up --remarks-filter=ingot -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK-LABEL: func.func @gate_first
// CHECK-SAME: (%[[X:.*]]: tensor<?x24xf32>, %[[G:.*]]: tensor<40x24xf16>, %[[U:.*]]: tensor<40x24xf16>)
// CHECK-NEXT: %[[Y:.*]] = ingot.linear %[[X]] weights(%[[G]], %[[U]] : tensor<40x24xf16>, tensor<40x24xf16>) gated silu : tensor<?x24xf32> -> tensor<?x40xf32>
// CHECK-NEXT: return %[[Y]]
// REMARK: [Passed] ingot-fuse-gate-up{{.*}}Function=gate_first{{.*}}gate, up, activation and product are one op of 40 features
func.func @gate_first(%x: tensor<?x24xf32>, %wg: tensor<40x24xf16>, %wu: tensor<40x24xf16>) -> tensor<?x40xf32> {
  %g = ingot.linear %x weights(%wg : tensor<40x24xf16>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %u = ingot.linear %x weights(%wu : tensor<40x24xf16>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %s = ingot.silu %g : tensor<?x40xf32>
  %y = ingot.mul %s, %u : tensor<?x40xf32>
  return %y : tensor<?x40xf32>
}

// The gate is the factor with the activation, wherever it stands.
// CHECK-LABEL: func.func @up_first_biased
// CHECK-SAME: %[[G:[^,]*]]: tensor<40x24xf32>, %[[U:[^,]*]]: tensor<40x24xf32>, %[[BG:[^,]*]]: tensor<40xf32>, %[[BU:[^,]*]]: tensor<40xf32>)
// CHECK-NEXT: ingot.linear %{{.*}} weights(%[[G]], %[[U]] : {{.*}}) bias(%[[BG]], %[[BU]] : {{.*}}) gated silu
// CHECK-NEXT: return
func.func @up_first_biased(%x: tensor<?x24xf32>, %wg: tensor<40x24xf32>, %wu: tensor<40x24xf32>, %bg: tensor<40xf32>, %bu: tensor<40xf32>) -> tensor<?x40xf32> {
  %u = ingot.linear %x weights(%wu : tensor<40x24xf32>) bias(%bu : tensor<40xf32>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %g = ingot.linear %x weights(%wg : tensor<40x24xf32>) bias(%bg : tensor<40xf32>) : tensor<?x24xf32> -> tensor<?x40xf32>
  %s = ingot.silu %g : tensor<?x40xf32>
  %y = ingot.mul %u, %s : tensor<?x40xf32>
  return %y : tensor<?x40xf32>
}
