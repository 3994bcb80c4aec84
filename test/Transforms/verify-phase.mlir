// What the pipelines make keeps the contracts; the phase before does not keep that of the phase after.
// RUN: ingot-opt %S/../Dialect/decoder.mlir --ingot-verify-phase=phase=ingot -o /dev/null
// RUN: ingot-opt %S/../Dialect/decoder.mlir --ingot-to-fused -o %t.fused
// RUN: ingot-opt %t.fused --ingot-verify-phase=phase=fused -o /dev/null
// RUN: not ingot-opt %t.fused --ingot-verify-phase=phase=ingot 2>&1 | FileCheck %s --check-prefix=FUSED
// RUN: not ingot-opt %t.fused --ingot-verify-phase=phase=packed 2>&1 | FileCheck %s --check-prefix=UNPACKED
// RUN: ingot-opt %t.fused --fused-to-packed -o %t.packed
// RUN: ingot-opt %t.packed --ingot-verify-phase=phase=packed -o /dev/null
// RUN: not ingot-opt %t.packed --ingot-verify-phase=phase=fused 2>&1 | FileCheck %s --check-prefix=PACKED
// RUN: not ingot-opt %t.packed --ingot-verify-phase=phase=loops 2>&1 | FileCheck %s --check-prefix=LOOPS

// FUSED: error: 'ingot.linear' op phase ingot: expected no fused op
// UNPACKED: error: 'ingot.rms_norm' op phase packed: expected a packed parameter, got 'tensor<32xbf16>'
// PACKED: error: 'ingot.parameter' op phase fused: expected @embed_tokens to have a source, got a recipe
// LOOPS: error: 'ingot.rotary' op phase loops: expected no ingot op but parameters
