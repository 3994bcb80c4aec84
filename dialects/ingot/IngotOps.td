//===- IngotOps.td - The ops of the ingot dialect -----------------------------------------------------------------===//
//
// Formulas: x_t is row t of an activation, T the number of tokens of the batch, pos_t a token's position. Every
// constraint has a label; verifier messages and the tests `@<op>_<label>_...` use the same one.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_OPS_TD
#define INGOT_OPS_TD

include "dialects/ingot/IngotBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Ingot_CacheResource : Resource<"::ingot::CacheResource">;

class Ingot_Op<string mnemonic, list<Trait> traits = []> : Op<Ingot_Dialect, mnemonic, traits>;

/// An op on activations without effects.
class Ingot_PureOp<string mnemonic, list<Trait> traits = []> : Ingot_Op<mnemonic, !listconcat([Pure], traits)>;

/// An elementwise op: every operand and the result have one type.
class Ingot_ElementwiseOp<string mnemonic, list<Trait> traits = []>
    : Ingot_PureOp<mnemonic, !listconcat([SameOperandsAndResultType], traits)>;

//===--------------------------------------------------------------------------------------------------------------===//
// Parameters
//===--------------------------------------------------------------------------------------------------------------===//

def Ingot_ParameterOp : Ingot_Op<"parameter", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator,
                                              DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a weight of the model, or of each layer of a kind";
  let description = [{
    Declares a parameter. With `kind`, there is one tensor of type `type` for each layer of that kind and `{layer}` in
    `source` (a tensor's name in the checkpoint) stands for the layer's number. From phase `packed` on a parameter has
    no `source` but a recipe: a region that makes the packed tensor from checkpoint tensors and ends with `yield`.

    Constraints:
    - C1: either `source` or a recipe, not both.
    - C2: with `kind`, the source names `{layer}`; without, it does not.
    - C3: `kind` names a function of the module.
    - C4: the recipe yields `type`.
    - C5: with `source`, `type` has no encoding: a checkpoint's tensor lies as it lies.

    Example:
    ```mlir
    ingot.parameter @embed_tokens "model.embed_tokens.weight" part "embedding" : tensor<128x32xbf16>
    func.func private @layer()
    ingot.parameter @layer.q_proj "model.layers.{layer}.self_attn.q_proj.weight" kind @layer part "attention" : tensor<32x32xbf16>
    ingot.parameter @layer.o_packed kind @layer part "attention" : tensor<32x32xf32, #ingot.packed<panels, segments = 8>> {
      %0 = ingot.source "model.layers.{layer}.self_attn.o_proj.weight" : tensor<32x32xbf16>
      %1 = ingot.convert %0 : tensor<32x32xbf16> -> tensor<32x32xf32>
      %2 = ingot.pack %1 : tensor<32x32xf32> -> tensor<32x32xf32, #ingot.packed<panels, segments = 8>>
      ingot.yield %2 : tensor<32x32xf32, #ingot.packed<panels, segments = 8>>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$source, OptionalAttr<FlatSymbolRefAttr>:$kind,
                       StrAttr:$part, TypeAttrOf<Ingot_ParameterTensor>:$type);
  let regions = (region MaxSizedRegion<1>:$recipe);
  let assemblyFormat = [{
    $sym_name ($source^)? (`kind` $kind^)? `part` $part attr-dict `:` $type ($recipe^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The type of the parameter of one layer.
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
    /// The tensor that the recipe yields, or null without one.
    ::mlir::Value getYielded();
  }];
}

def Ingot_WeightOp : Ingot_PureOp<"weight", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "reads a parameter";
  let description = [{
    With a parameter of a kind, `index` is the layer's index within the kind.

    Constraints:
    - C1: the symbol names a parameter.
    - C2: an index if and only if the parameter belongs to a kind.
    - C3: the result has the parameter's type.

    Example: `%w = ingot.weight @layer.q_proj[%index] : tensor<32x32xbf16>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, Optional<Index>:$index);
  let results = (outs Ingot_ParameterTensor:$result);
  let assemblyFormat = "$parameter (`[` $index^ `]`)? attr-dict `:` type($result)";
}

def Ingot_SourceOp : Ingot_PureOp<"source", [HasParent<"ParameterOp">]> {
  let summary = "a tensor of the checkpoint, in a recipe";
  let description = [{
    `name` is the tensor's name with `{layer}` for the layer's number.

    Example: see `parameter`.
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs Ingot_LogicalTensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Ingot_ConcatOp : Ingot_PureOp<"concat", [HasParent<"ParameterOp">]> {
  let summary = "rows of several tensors after one another, in a recipe";
  let description = [{
    Constraints:
    - C1: all inputs agree in rank, element type and in every dimension but the first, the result's first dimension is
      the sum of theirs.

    Example:
    ```mlir
    %2 = ingot.concat %0, %1 : (tensor<32x16xf32>, tensor<8x16xf32>) -> tensor<40x16xf32>
    ```
  }];
  let arguments = (ins Variadic<Ingot_LogicalTensor>:$inputs);
  let results = (outs Ingot_LogicalTensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def Ingot_StackOp : Ingot_PureOp<"stack", [HasParent<"ParameterOp">]> {
  let summary = "tensors of one type as a tensor with one more dimension, in a recipe";
  let description = [{
    Constraints:
    - C1: all inputs have one type; the result adds a first dimension of their number.

    Example: `%2 = ingot.stack %0, %1 : tensor<32x16xf32>, tensor<32x16xf32> -> tensor<2x32x16xf32>`
  }];
  let arguments = (ins Variadic<Ingot_LogicalTensor>:$inputs);
  let results = (outs Ingot_LogicalTensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($result)";
  let hasVerifier = 1;
}

def Ingot_ConvertOp : Ingot_PureOp<"convert", [HasParent<"ParameterOp">, SameOperandsAndResultShape]> {
  let summary = "another element type, in a recipe";
  let description = [{
    Rounds to nearest, ties to even; widening is exact, and undone by rounding back. Of a quantized tensor it takes the
    values, rounded to the result's type.

    Constraints:
    - C1: the result is f32, bf16 or f16.

    Example: see `parameter`.
  }];
  let arguments = (ins Ingot_LogicalTensor:$input);
  let results = (outs Ingot_LogicalTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Ingot_QuantizeOp : Ingot_PureOp<"quantize", [HasParent<"ParameterOp">, SameOperandsAndResultShape]> {
  let summary = "float weights in a quantized format, in a recipe";
  let description = [{
    Each block of 32 elements of a row by itself. `q8_0`: scale = max |w| / 127 as float16, codes round(w / scale).
    `q4_1`: codes 0 to 15, scale and offset, both float16, with the least squared error of the block that a search
    finds (dialects/ingot/Quantization.h). No data but the weights takes part.

    Constraints:
    - C1: the input is f32, bf16 or f16.
    - C2: the result is quantized as q8_0 or q4_1.

    Example:
    ```mlir
    %1 = ingot.quantize %0 : tensor<32x48xbf16> -> tensor<32x48x!ingot.quantized<q8_0>>
    ```
  }];
  let arguments = (ins Ingot_LogicalTensor:$input);
  let results = (outs Ingot_LogicalTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Ingot_PackOp : Ingot_PureOp<"pack", [HasParent<"ParameterOp">]> {
  let summary = "the layout that the target reads, in a recipe";
  let description = [{
    Of a quantized tensor it rearranges codes and scales; no value changes.

    Constraints:
    - C1: the result's type is the input's with an encoding `#ingot.packed`.

    Example: see `parameter`.
  }];
  let arguments = (ins Ingot_LogicalTensor:$input);
  let results = (outs Ingot_ParameterTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Ingot_YieldOp : Ingot_Op<"yield", [Terminator, Pure, HasParent<"ParameterOp">]> {
  let summary = "what a recipe makes";
  let arguments = (ins Ingot_ParameterTensor:$result);
  let assemblyFormat = "$result attr-dict `:` type($result)";
}

def Ingot_RotaryOp : Ingot_Op<"rotary", [Symbol]> {
  let summary = "the angles of a rotary position embedding";
  let description = [{
    Declares angle(pos, i) = f32(pos) * inv_freq[i], i < head_dim / 2, in float32, and the factor `scaling` of its cosine
    and sine. The importer computes the frequencies as the reference does for the checkpoint's rope type. A sequence
    longer than `long_from` uses `long_inv_freq` (longrope) for all of its positions.

    Constraints:
    - C1: `long_inv_freq` and `long_from` are both there or both absent.
    - C2: `long_inv_freq` has as many elements as `inv_freq`, which has at least one.
    - C3: frequencies and scaling are finite.
    - C4: `long_from` is positive.

    Example: `ingot.rotary @rotary half inv_freq = [1.0, 0.01] scaling = 1.0`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Ingot_RotaryStyleAttr:$style, DenseF32ArrayAttr:$inv_freq,
                       F32Attr:$scaling, OptionalAttr<DenseF32ArrayAttr>:$long_inv_freq,
                       OptionalAttr<I64Attr>:$long_from);
  let assemblyFormat = [{
    $sym_name custom<Word>($style) `inv_freq` `=` custom<ExactFloats>($inv_freq) `scaling` `=` $scaling
    (`long_inv_freq` `=` custom<ExactFloats>($long_inv_freq)^ `long_from` `=` $long_from)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Elements of a head that are rotated: all of them.
    int64_t getHeadDim() { return 2 * static_cast<int64_t>(getInvFreq().size()); }
  }];
}

//===--------------------------------------------------------------------------------------------------------------===//
// The decoder
//===--------------------------------------------------------------------------------------------------------------===//

def Ingot_EmbeddingOp : Ingot_PureOp<"embedding"> {
  let summary = "rows of the embedding table for the batch's tokens";
  let description = [{
    result_t = table[id_t], widened to f32.

    Constraints:
    - C1: the table is a matrix whose columns are the result's.

    Example: `%h = ingot.embedding %batch, %table : tensor<128x32xbf16> -> tensor<?x32xf32>`
  }];
  let arguments = (ins Ingot_BatchType:$batch, Ingot_ParameterTensor:$table);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = "$batch `,` $table attr-dict `:` type($table) `->` type($result)";
  let hasVerifier = 1;
}

def Ingot_LinearOp : Ingot_PureOp<"linear", [AttrSizedOperandSegments]> {
  let summary = "products with one or several weight matrices";
  let description = [{
    y_t = concat_i(W_i x_t + b_i), with W_i of shape [N_i, K]; then, if they are there,
    - `gated f` (two matrices, gate and up): y_t = f(W_0 x_t + b_0) * (W_1 x_t + b_1);
    - `residual r`: y_t = y_t + r_t.

    `row_parallel` marks a product whose K is cut into segments with a fixed tree of sums (layout selection reads it).
    Sums over K run in ascending order in float32 within a segment. After packing several matrices are one parameter:
    a matrix of all rows, or with `gated` a tensor<2xNxK>.

    `compute int16` rounds the input first: with m the largest magnitude of 32 elements of x_t (a block of K that the
    weights share), and s = m / 32767, an element x becomes s * round(x * (32767 / m)); a block with m < 2^-100 becomes
    zero. The products of these integers with the weights' codes are exact, and so are their sums over what shares its
    scales. `compute int8` does the same with 127 instead of 32767 and 16 elements of x_t.

    Constraints:
    - C1: at least one weight; all have K columns, K being the input's features.
    - C2: no bias or one of N_i elements for each weight.
    - C3: `gated` takes two weights (or one of shape 2xNxK) of equal shape; the result has N features.
    - C4: without `gated` the result has the sum of N_i features.
    - C5: the residual has the result's type.
    - C6: `compute` takes quantized weights.

    Example:
    ```mlir
    %qkv = ingot.linear %x weights(%wq, %wk : tensor<32x16xf32>, tensor<8x16xf32>) bias(%bq, %bk : tensor<32xf32>, tensor<8xf32>) : tensor<?x16xf32> -> tensor<?x40xf32>
    %act = ingot.linear %x weights(%wg, %wu : tensor<64x16xf32>, tensor<64x16xf32>) gated silu : tensor<?x16xf32> -> tensor<?x64xf32>
    %out = ingot.linear %act weights(%wd : tensor<16x64xf32>) residual(%x : tensor<?x16xf32>) row_parallel : tensor<?x64xf32> -> tensor<?x16xf32>
    ```
  }];
  let arguments = (ins Ingot_Activations:$input, Variadic<Ingot_ParameterTensor>:$weights,
                       Variadic<Ingot_ParameterTensor>:$biases, Optional<Ingot_Activations>:$residual,
                       OptionalAttr<Ingot_ActivationAttr>:$gated, UnitAttr:$row_parallel,
                       OptionalAttr<Ingot_ComputeAttr>:$compute);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = [{
    $input `weights` `(` $weights `:` type($weights) `)` (`bias` `(` $biases^ `:` type($biases) `)`)?
    (`gated` custom<Word>($gated)^)? (`residual` `(` $residual^ `:` type($residual) `)`)? (`row_parallel` $row_parallel^)?
    (`compute` custom<Word>($compute)^)? attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Ingot_RMSNormOp : Ingot_PureOp<"rms_norm", [AllTypesMatch<["input", "result"]>]> {
  let summary = "root mean square norm";
  let description = [{
    With D the weight's length and x_t cut into heads of D elements: y = x / sqrt(mean(x^2) + eps) * weight for each
    head (Zhang and Sennrich, 2019). D = N is the usual norm, D = head_dim the norm of queries and keys.

    Constraints:
    - C1: the weight is a vector whose length divides the features.
    - C2: eps is positive and finite.

    Example: `%y = ingot.rms_norm %x, %w eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xf32>`
  }];
  let arguments = (ins Ingot_Activations:$input, Ingot_ParameterTensor:$weight, F32Attr:$eps);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = [{
    $input `,` $weight `eps` `=` $eps attr-dict `:` type($input) `,` type($weight)
  }];
  let hasVerifier = 1;
}

def Ingot_RopeOp : Ingot_PureOp<"rope", [AllTypesMatch<["input", "result"]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "rotary position embedding";
  let description = [{
    Rotates each head of x_t by the angles that `rotary` declares at pos_t (Su et al., 2021): for a pair (a, b) of the
    rotary's style, (a cos - b sin, b cos + a sin).

    Constraints:
    - C1: the symbol names a rotary whose head_dim divides the features.

    Example: `%y = ingot.rope %x, %batch, @rotary : tensor<?x32xf32>`
  }];
  let arguments = (ins Ingot_Activations:$input, Ingot_BatchType:$batch, FlatSymbolRefAttr:$rotary);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = "$input `,` $batch `,` $rotary attr-dict `:` type($input)";
}

def Ingot_KVAppendOp : Ingot_Op<"kv_append", [AllTypesMatch<["key", "value"]>]> {
  let summary = "stores keys and values of the batch's tokens";
  let description = [{
    Writes k_t and v_t, rounded to the cache's element type, to layer `layer` at the token's slot.

    Constraints:
    - C1: keys and values have kv_heads * head_dim features of the cache.

    Example:
    ```mlir
    ingot.kv_append %k, %v, %batch, %cache[%layer] : tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
    ```
  }];
  let arguments = (ins Ingot_Activations:$key, Ingot_Activations:$value, Ingot_BatchType:$batch,
                       Arg<Ingot_KVCacheType, "", [MemWriteAt<0, PartialEffect>]>:$cache, Index:$layer);
  let assemblyFormat = [{
    $key `,` $value `,` $batch `,` $cache `[` $layer `]` attr-dict `:` type($key) `,` qualified(type($cache))
  }];
  let hasVerifier = 1;
}

def Ingot_AttentionOp : Ingot_Op<"attention", [AllTypesMatch<["query", "result"]>]> {
  let summary = "causal attention of the batch's queries over the cache";
  let description = [{
    For head h of token t, with kv head g = h / (heads / kv_heads) and j over the positions of the token's sequence with
    max(0, pos_t - window + 1) <= j <= pos_t:
    y_t,h = sum_j softmax_j(scale * q_t,h . K_j,g) V_j,g (Vaswani et al., 2017; grouped heads: Ainslie et al., 2023).
    The keys and values of the batch's own tokens are in the cache already.

    Constraints:
    - C1: the query's features are a multiple of kv_heads * head_dim of the cache.
    - C2: the window, if there is one, is positive.
    - C3: the scale is finite.

    Example:
    ```mlir
    %y = ingot.attention %q, %batch, %cache[%layer] scale = 0.25 window = 8 : tensor<?x32xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
    ```
  }];
  let arguments = (ins Ingot_Activations:$query, Ingot_BatchType:$batch,
                       Arg<Ingot_KVCacheType, "", [MemReadAt<0, FullEffect>]>:$cache, Index:$layer,
                       F32Attr:$scale, OptionalAttr<I64Attr>:$window);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = [{
    $query `,` $batch `,` $cache `[` $layer `]` `scale` `=` $scale (`window` `=` $window^)? attr-dict `:`
    type($query) `,` qualified(type($cache))
  }];
  let hasVerifier = 1;
}

def Ingot_AddOp : Ingot_ElementwiseOp<"add", [Commutative]> {
  let summary = "sum of two activations, such as a residual";
  let description = "result = lhs + rhs. Example: `%z = ingot.add %x, %y : tensor<?x32xf32>`";
  let arguments = (ins Ingot_Activations:$lhs, Ingot_Activations:$rhs);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Ingot_MulOp : Ingot_ElementwiseOp<"mul", [Commutative]> {
  let summary = "product of two activations, element by element";
  let description = "result = lhs * rhs. Example: `%z = ingot.mul %x, %y : tensor<?x32xf32>`";
  let arguments = (ins Ingot_Activations:$lhs, Ingot_Activations:$rhs);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Ingot_SiLUOp : Ingot_ElementwiseOp<"silu"> {
  let summary = "x / (1 + exp(-x))";
  let description = "result = input / (1 + exp(-input)). Example: `%y = ingot.silu %x : tensor<?x32xf32>`";
  let arguments = (ins Ingot_Activations:$input);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Ingot_SplitOp : Ingot_PureOp<"split"> {
  let summary = "consecutive ranges of features";
  let description = [{
    Constraints:
    - C1: the results' features add up to the input's.

    Example: `%q, %k = ingot.split %x : tensor<?x40xf32> -> tensor<?x32xf32>, tensor<?x8xf32>`
  }];
  let arguments = (ins Ingot_Activations:$input);
  let results = (outs Variadic<Ingot_Activations>:$parts);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($parts)";
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def Ingot_SelectRowsOp : Ingot_PureOp<"select_rows", [AllTypesMatch<["input", "result"]>]> {
  let summary = "the rows whose output is wanted";
  let description = [{
    result_r = x_{row_r}, R rows.

    Example: `%y = ingot.select_rows %x, %batch : tensor<?x32xf32>`
  }];
  let arguments = (ins Ingot_Activations:$input, Ingot_BatchType:$batch);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = "$input `,` $batch attr-dict `:` type($input)";
}

def Ingot_LayersOp : Ingot_Op<"layers", [AllTypesMatch<["input", "result"]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the decoder's layers, in order";
  let description = [{
    Calls, for each run in turn and each of its layers, kind(h, batch, cache, index, layer): `index` counts within the
    kind from the run's `first` on, `layer` over all layers from 0 on. This table is the only place where the number of
    layers stands, besides the cache's type.

    Constraints:
    - C1: each kind names a function (tensor<?xNxf32>, batch, cache, index, index) -> tensor<?xNxf32>.
    - C2: the counts add up to the cache's layers.
    - C3: a kind's runs take its indices in order, from 0 on.

    Example:
    ```mlir
    %y = ingot.layers %x, %batch, %cache [#ingot.run<@layer, first = 0, count = 30>] : tensor<?x32xf32>, !ingot.kv_cache<30 x 1 x 16 x f16>
    ```
  }];
  let arguments = (ins Ingot_Activations:$input, Ingot_BatchType:$batch,
                       Arg<Ingot_KVCacheType, "", [MemReadAt<0, FullEffect>, MemWriteAt<0, PartialEffect>]>:$cache,
                       TypedArrayAttrBase<Ingot_RunAttr, "runs of layers">:$runs);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = [{
    $input `,` $batch `,` $cache $runs attr-dict `:` type($input) `,` qualified(type($cache))
  }];
  let hasCanonicalizeMethod = 1;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Fused forms
//===--------------------------------------------------------------------------------------------------------------===//

def Ingot_AddRMSNormOp : Ingot_PureOp<"add_rms_norm", [AllTypesMatch<["input", "residual", "sum", "result"]>]> {
  let summary = "a residual sum and its norm";
  let description = [{
    sum = add(x, residual); result = rms_norm(sum, weight, eps).

    Constraints:
    - C1: the weight is a vector whose length divides the features.
    - C2: eps is positive and finite.

    Example:
    ```mlir
    %sum, %y = ingot.add_rms_norm %x, %residual, %w eps = 1.0e-5 : tensor<?x32xf32>, tensor<32xf32>
    ```
  }];
  let arguments = (ins Ingot_Activations:$input, Ingot_Activations:$residual, Ingot_ParameterTensor:$weight, F32Attr:$eps);
  let results = (outs Ingot_Activations:$sum, Ingot_Activations:$result);
  let assemblyFormat = [{
    $input `,` $residual `,` $weight `eps` `=` $eps attr-dict `:`
    type($input) `,` type($weight)
  }];
  let hasVerifier = 1;
}

def Ingot_GatedActOp : Ingot_ElementwiseOp<"gated_act"> {
  let summary = "an activation times a gate's partner";
  let description = [{
    result = f(gate) * up.

    Example: `%y = ingot.gated_act silu %gate, %up : tensor<?x64xf32>`
  }];
  let arguments = (ins Ingot_ActivationAttr:$activation, Ingot_Activations:$gate, Ingot_Activations:$up);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = "custom<Word>($activation) $gate `,` $up attr-dict `:` type($result)";
}

def Ingot_QKNormRopeAppendOp : Ingot_Op<"qk_norm_rope_append",
    [AttrSizedOperandSegments, AllTypesMatch<["query", "result"]>, AllTypesMatch<["key", "value"]>,
     DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "everything between the QKV product and attention";
  let description = [{
    result = rope(rms_norm(query, q_norm, eps)); kv_append(rope(rms_norm(key, k_norm, eps)), value). Without norms both
    rms_norm are left out.

    Constraints:
    - C1: q_norm, k_norm and eps are all there or all absent; the norms have head_dim elements.
    - C2: the rotary's head_dim is the cache's.
    - C3: keys and values have kv_heads * head_dim features, queries a multiple of it.
    - C4: eps, if it is there, is positive and finite.

    Example:
    ```mlir
    %q2 = ingot.qk_norm_rope_append %q, %k, %v, %batch, %cache[%layer], @rotary : tensor<?x32xf32>, tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
    %q3 = ingot.qk_norm_rope_append %q, %k, %v, %batch, %cache[%layer], @rotary norms(%qn, %kn : tensor<16xf32>, tensor<16xf32>) eps = 1.0e-6 : tensor<?x32xf32>, tensor<?x16xf32>, !ingot.kv_cache<2 x 1 x 16 x f16>
    ```
  }];
  let arguments = (ins Ingot_Activations:$query, Ingot_Activations:$key, Ingot_Activations:$value,
                       Ingot_BatchType:$batch, Arg<Ingot_KVCacheType, "", [MemWriteAt<0, PartialEffect>]>:$cache,
                       Index:$layer, Optional<Ingot_ParameterTensor>:$q_norm, Optional<Ingot_ParameterTensor>:$k_norm,
                       FlatSymbolRefAttr:$rotary, OptionalAttr<F32Attr>:$eps);
  let results = (outs Ingot_Activations:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $batch `,` $cache `[` $layer `]` `,` $rotary
    (`norms` `(` $q_norm^ `,` $k_norm `:` type($q_norm) `,` type($k_norm) `)`)? (`eps` `=` $eps^)? attr-dict `:`
    type($query) `,` type($key) `,` qualified(type($cache))
  }];
  let hasVerifier = 1;
}

#endif // INGOT_OPS_TD
