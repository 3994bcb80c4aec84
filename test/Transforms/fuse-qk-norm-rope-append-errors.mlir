// Each miss says why, and leaves the IR as it was.
// RUN: ingot-opt %s --ingot-fuse-qk-norm-rope-append --remarks-filter=ingot 2>&1 | FileCheck %s
// RUN: ingot-opt %s -o %t.before && ingot-opt %s --ingot-fuse-qk-norm-rope-append -o %t.after && diff %t.before %t.after

ingot.rotary @rotary half inv_freq = [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125] scaling = 1.0
ingot.rotary @other half inv_freq = [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125] scaling = 1.0
ingot.rotary @small half inv_freq = [1.0, 0.5, 0.25, 0.125] scaling = 1.0

// CHECK: [Missed] ingot-fuse-qk-norm-rope-append{{.*}}Function=no_attention{{.*}}no attention to the same layer of the cache after this append
func.func @no_attention(%k: tensor<?x16xf32>, %batch: !ingot.batch, %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) {
  ingot.kv_append %k, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return
}

// CHECK: [Missed] ingot-fuse-qk-norm-rope-append{{.*}}Function=not_rotated{{.*}}queries or keys are not rotated
func.func @not_rotated(%q: tensor<?x32xf32>, %k: tensor<?x16xf32>, %batch: !ingot.batch,
                       %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %qr = ingot.rope %q, %batch, @rotary : tensor<?x32xf32>
  ingot.kv_append %k, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qk-norm-rope-append{{.*}}Function=used{{.*}}rotated queries or keys have another user
func.func @used(%q: tensor<?x32xf32>, %k: tensor<?x16xf32>, %batch: !ingot.batch,
                %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %qr = ingot.rope %q, %batch, @rotary : tensor<?x32xf32>
  %kr = ingot.rope %k, %batch, @rotary : tensor<?x16xf32>
  ingot.kv_append %kr, %kr, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qk-norm-rope-append{{.*}}Function=rotaries{{.*}}queries and keys are rotated by @other and @rotary
func.func @rotaries(%q: tensor<?x32xf32>, %k: tensor<?x16xf32>, %batch: !ingot.batch,
                    %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %qr = ingot.rope %q, %batch, @other : tensor<?x32xf32>
  %kr = ingot.rope %k, %batch, @rotary : tensor<?x16xf32>
  ingot.kv_append %kr, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qk-norm-rope-append{{.*}}Function=batches{{.*}}queries and keys belong to different batches
func.func @batches(%q: tensor<?x32xf32>, %k: tensor<?x16xf32>, %batch: !ingot.batch, %batch2: !ingot.batch,
                   %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %qr = ingot.rope %q, %batch2, @rotary : tensor<?x32xf32>
  %kr = ingot.rope %k, %batch, @rotary : tensor<?x16xf32>
  ingot.kv_append %kr, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qk-norm-rope-append{{.*}}Function=heads{{.*}}the rotary's heads are not those of the cache, of 16 elements
func.func @heads(%q: tensor<?x32xf32>, %k: tensor<?x16xf32>, %batch: !ingot.batch,
                 %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %qr = ingot.rope %q, %batch, @small : tensor<?x32xf32>
  %kr = ingot.rope %k, %batch, @small : tensor<?x16xf32>
  ingot.kv_append %kr, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qk-norm-rope-append{{.*}}Function=one_norm{{.*}}only one of queries and keys is normed
func.func @one_norm(%q: tensor<?x32xf32>, %k: tensor<?x16xf32>, %n: tensor<16xf32>, %batch: !ingot.batch,
                    %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %qn = ingot.rms_norm %q, %n eps = 1.0e-6 : tensor<?x32xf32>, tensor<16xf32>
  %qr = ingot.rope %qn, %batch, @rotary : tensor<?x32xf32>
  %kr = ingot.rope %k, %batch, @rotary : tensor<?x16xf32>
  ingot.kv_append %kr, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qk-norm-rope-append{{.*}}Function=epsilons{{.*}}the norms of queries and keys have different epsilons
func.func @epsilons(%q: tensor<?x32xf32>, %k: tensor<?x16xf32>, %n: tensor<16xf32>, %batch: !ingot.batch,
                    %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %qn = ingot.rms_norm %q, %n eps = 1.0e-6 : tensor<?x32xf32>, tensor<16xf32>
  %kn = ingot.rms_norm %k, %n eps = 1.0e-5 : tensor<?x16xf32>, tensor<16xf32>
  %qr = ingot.rope %qn, %batch, @rotary : tensor<?x32xf32>
  %kr = ingot.rope %kn, %batch, @rotary : tensor<?x16xf32>
  ingot.kv_append %kr, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// CHECK: [Missed] ingot-fuse-qk-norm-rope-append{{.*}}Function=whole_norm{{.*}}a norm spans 32 elements, a head 16
func.func @whole_norm(%q: tensor<?x32xf32>, %k: tensor<?x16xf32>, %n: tensor<32xf32>, %m: tensor<16xf32>, %batch: !ingot.batch,
                      %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index) -> tensor<?x32xf32> {
  %qn = ingot.rms_norm %q, %n eps = 1.0e-6 : tensor<?x32xf32>, tensor<32xf32>
  %kn = ingot.rms_norm %k, %m eps = 1.0e-6 : tensor<?x16xf32>, tensor<16xf32>
  %qr = ingot.rope %qn, %batch, @rotary : tensor<?x32xf32>
  %kr = ingot.rope %kn, %batch, @rotary : tensor<?x16xf32>
  ingot.kv_append %kr, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}

// Between append and attention the cache is written: queries cannot be moved over it.
// CHECK: [Missed] ingot-fuse-qk-norm-rope-append{{.*}}Function=too_late{{.*}}queries cannot be computed before the append
func.func @too_late(%x: tensor<?x32xf32>, %k: tensor<?x16xf32>, %batch: !ingot.batch,
                    %cache: !ingot.kv_cache<2 x 1 x 16 x f16>, %layer: index, %other: index) -> tensor<?x32xf32> {
  %kr = ingot.rope %k, %batch, @rotary : tensor<?x16xf32>
  ingot.kv_append %kr, %k, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %q = ingot.attention %x, %batch, %cache[%other] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  %qr = ingot.rope %q, %batch, @rotary : tensor<?x32xf32>
  %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.25 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
  return %y : tensor<?x32xf32>
}
