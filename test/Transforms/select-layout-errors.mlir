// RUN: ingot-opt %s --ingot-select-layout=dtype=int4 --verify-diagnostics

// expected-error @below {{ingot-select-layout: expected dtype auto, f32, bf16 or f16, got 'int4'}}
module {
}
