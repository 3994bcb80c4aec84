// RUN: ingot-opt %s --split-input-file --ingot-select-layout=dtype=int4 --verify-diagnostics
// RUN: not ingot-opt %s --ingot-select-layout="dtype=f16 quantize=int8" 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not ingot-opt %s --ingot-select-layout=quantize=int2 2>&1 | FileCheck %s --check-prefix=QUANTIZE
// RUN: not ingot-opt %s --ingot-select-layout=compute=bf16 2>&1 | FileCheck %s --check-prefix=COMPUTE
// RUN: not ingot-opt %s --ingot-select-layout=compute=int8 2>&1 | FileCheck %s --check-prefix=NONE

// BOTH: error: ingot-select-layout: expected dtype auto with quantize, got 'f16'
// QUANTIZE: error: ingot-select-layout: expected quantize none, int8 or int4, got 'int2'
// COMPUTE: error: ingot-select-layout: expected compute auto, f32, int16 or int8, got 'bf16'
// NONE: error: compute int8: expected quantized weights (a quantized GGUF file, or --quantize=int8 or int4), got none

// expected-error @below {{ingot-select-layout: expected dtype auto, f32, bf16 or f16, got 'int4'}}
module {
}
