// Quantized storage, from the decision to the recipe: what is stored so stays so, floats become q8_0 or q4_1.
// RUN: ingot-opt %s --ingot-select-layout | FileCheck %s --check-prefixes=AUTO
// RUN: ingot-opt %s --ingot-select-layout=quantize=int8 | FileCheck %s --check-prefixes=INT8
// RUN: ingot-opt %s --ingot-select-layout="quantize=int4 compute=f32" | FileCheck %s --check-prefixes=INT4
// RUN: ingot-opt %s --ingot-select-layout=dtype=f16 | FileCheck %s --check-prefixes=F16
// RUN: ingot-opt %s --ingot-select-layout=quantize=int4 --remarks-filter=ingot -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: ingot-opt %s --ingot-select-layout=quantize=int4 --ingot-pack-parameters | FileCheck %s --check-prefix=PACK
// RUN: ingot-opt %s --ingot-select-layout=dtype=f16 --ingot-pack-parameters | FileCheck %s --check-prefix=PACK16

// An embedding of its own is quantized in panels, and always to 8 bits.
// AUTO: @table "table" part "embedding" {ingot.layout = #ingot.packed<rows>, ingot.storage = bf16}
// INT8: @table "table" part "embedding" {ingot.layout = #ingot.packed<panels>, ingot.storage = !ingot.quantized<q8_0>}
// INT4: @table "table" part "embedding" {ingot.layout = #ingot.packed<panels>, ingot.storage = !ingot.quantized<q8_0>}
ingot.parameter @table "table" part "embedding" : tensor<100x40xbf16>
// AUTO: @stored_table {{.*}} {ingot.layout = #ingot.packed<panels>, ingot.storage = !ingot.quantized<q4_0>}
ingot.parameter @stored_table "stored_table" part "embedding" : tensor<100x64x!ingot.quantized<q4_0>>

// AUTO: @layer.float {{.*}} {ingot.layout = #ingot.packed<panels>, ingot.storage = bf16}
// INT8: @layer.float {{.*}} {ingot.compute = #ingot<compute int16>, ingot.layout = #ingot.packed<panels>, ingot.storage = !ingot.quantized<q8_0>}
// INT4: @layer.float {{.*}} {ingot.layout = #ingot.packed<panels>, ingot.storage = !ingot.quantized<q4_1>}
// REMARK: @layer.float: panels of !ingot.quantized<q4_1>, computed in int16
// PACK: ingot.parameter @layer.float kind @layer part "mlp" : tensor<64x40x!ingot.quantized<q4_1>, #ingot.packed<panels>> {
// PACK-NEXT: %[[S:.*]] = ingot.source "float.{layer}" : tensor<64x40xbf16>
// PACK-NEXT: %[[Q:.*]] = ingot.quantize %[[S]] : tensor<64x40xbf16> -> tensor<64x40x!ingot.quantized<q4_1>>
// PACK-NEXT: %[[P:.*]] = ingot.pack %[[Q]]
// PACK-NEXT: ingot.yield %[[P]]
ingot.parameter @layer.float "float.{layer}" kind @layer part "mlp" : tensor<64x40xbf16>

// What is stored quantized stays so, whatever floats become, unless everything is converted.
// AUTO: @layer.stored {{.*}} {ingot.compute = #ingot<compute int16>, ingot.layout = #ingot.packed<panels, segments = 8>, ingot.storage = !ingot.quantized<q6_k>}
// INT8: @layer.stored {{.*}}ingot.storage = !ingot.quantized<q6_k>}
// F16: @layer.stored {{.*}} {ingot.layout = #ingot.packed<panels, segments = 8>, ingot.storage = f16}
// PACK: ingot.parameter @layer.stored kind @layer part "mlp" : tensor<40x256x!ingot.quantized<q6_k>, #ingot.packed<panels, segments = 8>> {
// PACK-NEXT: %[[S:.*]] = ingot.source "stored.{layer}" : tensor<40x256x!ingot.quantized<q6_k>>
// PACK-NEXT: ingot.pack %[[S]]
// PACK16: ingot.parameter @layer.stored
// PACK16-NEXT: %[[S:.*]] = ingot.source "stored.{layer}" : tensor<40x256x!ingot.quantized<q6_k>>
// PACK16-NEXT: ingot.convert %[[S]] : tensor<40x256x!ingot.quantized<q6_k>> -> tensor<40x256xf16>
ingot.parameter @layer.stored "stored.{layer}" kind @layer part "mlp" : tensor<40x256x!ingot.quantized<q6_k>>

// The output projection is not one of the layers.
// INT4: @head "head" part "lm_head" {ingot.layout = #ingot.packed<panels>, ingot.storage = !ingot.quantized<q8_0>}
ingot.parameter @head "head" part "lm_head" : tensor<100x40xbf16>

// PACK-LABEL: func.func private @layer
func.func private @layer(%x: tensor<?x40xf32>, %z: tensor<?x256xf32>, %index: index) -> tensor<?x64xf32> {
  %w = ingot.weight @layer.float[%index] : tensor<64x40xbf16>
  // PACK: ingot.linear %{{.*}} weights(%{{.*}} : tensor<64x40x!ingot.quantized<q4_1>, #ingot.packed<panels>>) compute int16 :
  %y = ingot.linear %x weights(%w : tensor<64x40xbf16>) : tensor<?x40xf32> -> tensor<?x64xf32>
  %v = ingot.weight @layer.stored[%index] : tensor<40x256x!ingot.quantized<q6_k>>
  // PACK: ingot.linear {{.*}} row_parallel compute int16 :
  %u = ingot.linear %z weights(%v : tensor<40x256x!ingot.quantized<q6_k>>) row_parallel : tensor<?x256xf32> -> tensor<?x40xf32>
  return %y : tensor<?x64xf32>
}

func.func @forward(%batch: !ingot.batch) -> tensor<?x100xf32> {
  %t = ingot.weight @table : tensor<100x40xbf16>
  %h = ingot.embedding %batch, %t : tensor<100x40xbf16> -> tensor<?x40xf32>
  %s = ingot.weight @stored_table : tensor<100x64x!ingot.quantized<q4_0>>
  %g = ingot.embedding %batch, %s : tensor<100x64x!ingot.quantized<q4_0>> -> tensor<?x64xf32>
  %w = ingot.weight @head : tensor<100x40xbf16>
  %y = ingot.linear %h weights(%w : tensor<100x40xbf16>) : tensor<?x40xf32> -> tensor<?x100xf32>
  return %y : tensor<?x100xf32>
}
