//===- Passes.td - Passes from phase ingot to phase packed --------------------------------------------------------===//
//
// Each pass's description is its rewrite as algebra, then IR before and after, then why it may be done. A fusion never
// changes a bit of a result: what it joins is computed by the same operations in the same order. Every hit and every
// miss, with the reason, is a remark (`ingot-opt --remarks-filter=ingot`).
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_TRANSFORMS_PASSES_TD
#define INGOT_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

//===--------------------------------------------------------------------------------------------------------------===//
// Fusions: ingot -> fused
//===--------------------------------------------------------------------------------------------------------------===//

def FuseQKVPass : Pass<"ingot-fuse-qkv", "::mlir::func::FuncOp"> {
  let summary = "queries, keys and values as one product";
  let description = [{
    `(W_q x + b_q, W_k x + b_k, W_v x + b_v) = split([W_q; W_k; W_v] x + [b_q; b_k; b_v])`

    Starts from an `attention`, goes back over `rope` and `rms_norm` to the products that make its queries and, through
    the `kv_append` to the same layer of the cache, its keys and values.

    ```mlir
    // before
    %q = ingot.linear %x weights(%wq : ...)
    %k = ingot.linear %x weights(%wk : ...)
    %v = ingot.linear %x weights(%wv : ...)
    // after
    %qkv = ingot.linear %x weights(%wq, %wk, %wv : ...)
    %q, %k, %v = ingot.split %qkv
    ```

    One pass over x instead of three and one barrier instead of three; each row's sum over K is the same chain. A miss
    where the products have different inputs, where only some have a bias, where one is gated, row-parallel or has a
    residual, or where the weights' element types differ (they could not be stored as one matrix).
  }];
  let dependentDialects = ["::ingot::IngotDialect"];
}

def FuseGateUpPass : Pass<"ingot-fuse-gate-up", "::mlir::func::FuncOp"> {
  let summary = "gate and up products, activation and product of both in one op";
  let description = [{
    `silu(W_g x + b_g) * (W_u x + b_u) = gated_silu([W_g, W_u] x + [b_g, b_u])`

    ```mlir
    // before
    %g = ingot.linear %x weights(%wg : ...)
    %u = ingot.linear %x weights(%wu : ...)
    %s = ingot.silu %g
    %y = ingot.mul %s, %u
    // after
    %y = ingot.linear %x weights(%wg, %wu : ...) gated silu
    ```

    Both products of a feature are in registers at the same time, so that neither is stored. Where gate and up cannot be
    one product (other inputs, other users, biases or storage of two kinds) activation and product alone are joined,
    which saves a pass over memory, and the miss says why it is only that:

    ```mlir
    %y = ingot.gated_act silu %g, %u
    ```
  }];
  let dependentDialects = ["::ingot::IngotDialect"];
}

def FuseAddRMSNormPass : Pass<"ingot-fuse-add-rms-norm", "::mlir::func::FuncOp"> {
  let summary = "a residual sum and the norm of it";
  let description = [{
    `s = x + r; y = rms_norm(s) -> (s, y) = add_rms_norm(x, r)`

    ```mlir
    // before
    %s = ingot.add %r, %x
    %y = ingot.rms_norm %s, %w eps = 1.0e-5
    // after
    %s, %y = ingot.add_rms_norm %x, %r, %w eps = 1.0e-5
    ```

    The sum is read from registers instead of memory. The operand that a `linear` computes becomes the input, the other
    one the residual; addition commutes, so the bits stay.
  }];
  let dependentDialects = ["::ingot::IngotDialect"];
}

def FuseQKNormRopeAppendPass : Pass<"ingot-fuse-qk-norm-rope-append", "::mlir::func::FuncOp"> {
  let summary = "norms of queries and keys, RoPE and the append to the cache";
  let description = [{
    `q' = rope(rms_norm(q)); kv_append(rope(rms_norm(k)), v) -> q' = qk_norm_rope_append(q, k, v)`

    with both norms or neither.

    ```mlir
    // before
    %qr = ingot.rope %q, %batch, @rotary
    %kr = ingot.rope %k, %batch, @rotary
    ingot.kv_append %kr, %v, %batch, %cache[%layer]
    %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.125
    // after
    %qr = ingot.qk_norm_rope_append %q, %k, %v, %batch, %cache[%layer], @rotary
    %y = ingot.attention %qr, %batch, %cache[%layer] scale = 0.125
    ```

    Cosine and sine are looked up once per token, keys go to the cache without a detour. A miss where a step has another
    user, where only one of queries and keys is normed or rotated, or where rotaries or epsilons differ.
  }];
  let dependentDialects = ["::ingot::IngotDialect"];
}

def FuseLinearEpiloguePass : Pass<"ingot-fuse-linear-epilogue", "::mlir::func::FuncOp"> {
  let summary = "a product and the residual that is added to it";
  let description = [{
    `r + (W x + b) -> linear(x, W, b, residual r)`

    ```mlir
    // before
    %y = ingot.linear %x weights(%w : ...) row_parallel
    %z = ingot.add %r, %y
    // after
    %z = ingot.linear %x weights(%w : ...) residual(%r : ...) row_parallel
    ```

    Meant for what `ingot-fuse-add-rms-norm` leaves: the last sum of a layer, whose norm stands in the next layer. (A
    bias is an operand of `linear` from the start.) The residual is added after the tree of segments and the bias, as
    the `add` did.
  }];
  let dependentDialects = ["::ingot::IngotDialect"];
}

//===--------------------------------------------------------------------------------------------------------------===//
// Packing: fused -> packed
//===--------------------------------------------------------------------------------------------------------------===//

def MergeParametersPass : Pass<"ingot-merge-parameters", "::mlir::ModuleOp"> {
  let summary = "one parameter for the weights, and one for the biases, of each linear";
  let description = [{
    `linear(x, [W_1, ..., W_n]) -> linear(x, concat(W_1, ..., W_n))`, with a gate
    `linear(x, [W_g, W_u]) gated -> linear(x, stack(W_g, W_u)) gated`, and biases alike.

    ```mlir
    // before
    ingot.parameter @layer.q_proj "model.layers.{layer}.self_attn.q_proj.weight" kind @layer ... : tensor<32x32xbf16>
    ingot.parameter @layer.k_proj "model.layers.{layer}.self_attn.k_proj.weight" kind @layer ... : tensor<16x32xbf16>
    ...
    %0 = ingot.weight @layer.q_proj[%index] : tensor<32x32xbf16>
    %1 = ingot.weight @layer.k_proj[%index] : tensor<16x32xbf16>
    %2 = ingot.linear %x weights(%0, %1 : tensor<32x32xbf16>, tensor<16x32xbf16>)
    // after
    ingot.parameter @layer.qk_proj kind @layer ... : tensor<48x32xbf16> {
      %0 = ingot.source "model.layers.{layer}.self_attn.q_proj.weight" : tensor<32x32xbf16>
      %1 = ingot.source "model.layers.{layer}.self_attn.k_proj.weight" : tensor<16x32xbf16>
      %2 = ingot.concat %0, %1 : (tensor<32x32xbf16>, tensor<16x32xbf16>) -> tensor<48x32xbf16>
      ingot.yield %2 : tensor<48x32xbf16>
    }
    ...
    %0 = ingot.weight @layer.qk_proj[%index] : tensor<48x32xbf16>
    %1 = ingot.linear %x weights(%0 : tensor<48x32xbf16>)
    ```

    A weight that another op reads as well keeps its own parameter too. Parameters that nothing reads any more are
    removed, those that nothing has read from the start are left for the phase's verifier to name.
  }];
  let dependentDialects = ["::ingot::IngotDialect"];
}

def SelectLayoutPass : Pass<"ingot-select-layout", "::mlir::ModuleOp"> {
  let summary = "layout, storage type and K segments of every parameter";
  let description = [{
    Decides, and writes down as attributes that `ingot-pack-parameters` carries out:

    | read by | layout | K segments | stored as |
    |---|---|---|---|
    | `linear` | panels | 1 | `dtype` |
    | `linear ... row_parallel` | panels | 8, or 1 where K < 16 | `dtype` |
    | `linear ... gated` | panel_pairs | 1 | `dtype` |
    | `embedding` only | rows; quantized: panels | - | `dtype` |
    | `embedding` and `linear` (tied) | as the linear reads it | as the linear reads it | `dtype` |
    | norms, biases | rows | - | f32, rounded to `dtype` first |

    `dtype` = auto keeps the element type of the checkpoint, quantized ones too; with any other everything is converted.
    `quantize` = int8 or int4 is for matrices of floats: int8 makes q8_0 of them, int4 q4_1, but q8_0 of the embedding and
    of the output projection. Products with quantized weights are computed with inputs of 16 bits unless `compute`
    = f32 or int8. The result depends on the architecture and `dtype`, never on the CPU. A parameter that two linears read in different layouts is stored once for each (a copy with a name of its
    own).

    ```mlir
    // before
    ingot.parameter @layer.o_proj "..." kind @layer part "attention" : tensor<32x32xbf16>
    // after, with dtype=f32
    ingot.parameter @layer.o_proj "..." kind @layer part "attention" {ingot.layout = #ingot.packed<panels, segments = 8>, ingot.storage = f32} : tensor<32x32xbf16>
    ```
  }];
  let options = [
    Option<"dtype", "dtype", "std::string", /*default=*/"\"auto\"",
           "how weights are stored: auto (as in the checkpoint), f32, bf16 or f16">,
    Option<"quantize", "quantize", "std::string", /*default=*/"\"none\"",
           "what becomes of float matrices with dtype auto: none, int8 or int4">,
    Option<"compute", "compute", "std::string", /*default=*/"\"auto\"",
           "what products with quantized weights multiply: auto (int16), f32, int16 or int8">
  ];
  let dependentDialects = ["::ingot::IngotDialect"];
}

def PackParametersPass : Pass<"ingot-pack-parameters", "::mlir::ModuleOp"> {
  let summary = "recipes that make the bytes that the target reads";
  let description = [{
    Turns each parameter's `ingot.layout` and `ingot.storage` into a recipe, and its type into the packed one.

    ```mlir
    // before
    ingot.parameter @layer.o_proj "o.{layer}" kind @layer part "attention" {ingot.layout = #ingot.packed<panels, segments = 8>, ingot.storage = f32} : tensor<32x32xbf16>
    ...
    %w = ingot.weight @layer.o_proj[%index] : tensor<32x32xbf16>
    // after
    ingot.parameter @layer.o_proj kind @layer part "attention" : tensor<32x32xf32, #ingot.packed<panels, segments = 8>> {
      %0 = ingot.source "o.{layer}" : tensor<32x32xbf16>
      %1 = ingot.convert %0 : tensor<32x32xbf16> -> tensor<32x32xf32>
      %2 = ingot.pack %1 : tensor<32x32xf32> -> tensor<32x32xf32, #ingot.packed<panels, segments = 8>>
      ingot.yield %2 : tensor<32x32xf32, #ingot.packed<panels, segments = 8>>
    }
    ...
    %w = ingot.weight @layer.o_proj[%index] : tensor<32x32xf32, #ingot.packed<panels, segments = 8>>
    ```

    Narrowing to a smaller `dtype`, `quantize` and `compute` on a `linear` change numerics, as the user asked;
    nothing else here does.
  }];
  let dependentDialects = ["::ingot::IngotDialect"];
}

def PlanArenaPass : Pass<"ingot-plan-arena", "::mlir::ModuleOp"> {
  let summary = "an address in one arena for every activation";
  let description = [{
    Gives each activation a byte offset so that two that live at the same time never overlap, reusing what is dead, and
    writes it on the op that computes it. compiler/Transforms/ArenaPlan.h says what the offsets mean, when memory may be
    reused and what generated code must do in return.

    ```mlir
    // before
    %x = ingot.rms_norm %h, %n eps = 1.0e-5 : tensor<?x32xf32>, ...
    // after
    %x = ingot.rms_norm %h, %n eps = 1.0e-5 {ingot.arena = array<i64: 128>} : tensor<?x32xf32>, ...
    ```

    The module gets `ingot.arena` (bytes = base + T * per_token + R * per_row) and `ingot.arena_plan`, the list of
    buffers; each function of a kind gets `ingot.arena_args`, the offsets of its activation arguments. The frame of one
    layer serves all layers, so the size does not depend on their number.
  }];
  let dependentDialects = ["::ingot::IngotDialect"];
}

//===--------------------------------------------------------------------------------------------------------------===//
// Boundaries
//===--------------------------------------------------------------------------------------------------------------===//

def VerifyPhasePass : Pass<"ingot-verify-phase", "::mlir::ModuleOp"> {
  let summary = "checks that a module keeps the contract of a phase";
  let description = [{
    Changes nothing; fails with an error at the op that breaks the contract.

    | phase | contract |
    |---|---|
    | ingot | the module says its model and has `@forward`; only `func` and unfused `ingot` ops; every parameter has a source and is read, in functions of its own kind; every private function is the kind of some layers |
    | fused | the same, fused ops allowed |
    | packed | every parameter has a recipe and a layout that fits its use; every linear reads one weight; the arena is planned and no two live activations overlap |
    | loops | no `ingot` op remains but parameters with their recipes |
  }];
  let options = [
    Option<"phase", "phase", "std::string", /*default=*/"", "the phase just finished: ingot, fused, packed or loops">
  ];
}

#endif // INGOT_TRANSFORMS_PASSES_TD
