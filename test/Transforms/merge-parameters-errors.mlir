// RUN: ingot-opt %s --ingot-merge-parameters --split-input-file --verify-diagnostics

func.func @no_parameter(%x: tensor<?x24xf32>, %a: tensor<16x24xf32>, %b: tensor<8x24xf32>) -> tensor<?x24xf32> {
  // expected-error @+1 {{expected weights that ingot.weight reads from parameters of this module}}
  %y = ingot.linear %x weights(%a, %b : tensor<16x24xf32>, tensor<8x24xf32>) : tensor<?x24xf32> -> tensor<?x24xf32>
  return %y : tensor<?x24xf32>
}

// -----

ingot.parameter @a "a.{layer}" kind @indices part "mlp" : tensor<16x24xf32>
ingot.parameter @b "b" part "mlp" : tensor<8x24xf32>
func.func @indices(%x: tensor<?x24xf32>, %index: index) -> tensor<?x24xf32> {
  %a = ingot.weight @a[%index] : tensor<16x24xf32>
  %b = ingot.weight @b : tensor<8x24xf32>
  // expected-error @+1 {{expected all weights to be read at one index, got @a and @b}}
  %y = ingot.linear %x weights(%a, %b : tensor<16x24xf32>, tensor<8x24xf32>) : tensor<?x24xf32> -> tensor<?x24xf32>
  return %y : tensor<?x24xf32>
}

// -----

ingot.parameter @a "a" part "mlp" : tensor<16x24xf32>
ingot.parameter @b "b" part "mlp" : tensor<8x24xf16>
func.func @element_types(%x: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %a = ingot.weight @a : tensor<16x24xf32>
  %b = ingot.weight @b : tensor<8x24xf16>
  // expected-error @+1 {{expected all weights in one element type, got 'tensor<16x24xf32>' and 'tensor<8x24xf16>'}}
  %y = ingot.linear %x weights(%a, %b : tensor<16x24xf32>, tensor<8x24xf16>) : tensor<?x24xf32> -> tensor<?x24xf32>
  return %y : tensor<?x24xf32>
}
