//===- IngotBase.td - The ingot dialect, its types and attributes -------------------------------------------------===//
//
// A tensor dialect for decoder-only language models, named in the field's words. README.md holds the rationale.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_BASE_TD
#define INGOT_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/TensorEncoding.td"

def Ingot_Dialect : Dialect {
  let name = "ingot";
  let cppNamespace = "::ingot";
  let summary = "decoder-only language models as tensors, parameters and a cache";
  let description = [{
    One module is one model. Activations are `tensor<?xNxf32>`: a row for each token of the batch, whatever sequence it
    belongs to. Parameters are symbols, stacked per kind of layer, never literals. Keys and values live in a cache that
    ops read and write as a resource.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::func::FuncDialect"];
  let hasOperationAttrVerify = 1;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Enums
//===--------------------------------------------------------------------------------------------------------------===//

class Ingot_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::ingot";
  let genSpecializedAttr = 0;
}

def Ingot_RotaryStyle : Ingot_Enum<"RotaryStyle", "which elements of a head RoPE rotates together", [
  I32EnumAttrCase<"Half", 0, "half">,              // (i, i + d/2), as in Llama
  I32EnumAttrCase<"Interleaved", 1, "interleaved"> // (2i, 2i + 1), as in GPT-J and ERNIE 4.5
]>;

def Ingot_Activation : Ingot_Enum<"Activation", "activation function", [
  I32EnumAttrCase<"SiLU", 0, "silu"> // x / (1 + exp(-x))
]>;

def Ingot_Layout : Ingot_Enum<"Layout", "how a packed parameter lies in memory (ingot_rt/abi.h)", [
  I32EnumAttrCase<"Rows", 0, "rows">,
  I32EnumAttrCase<"Panels", 1, "panels">,
  I32EnumAttrCase<"PanelPairs", 2, "panel_pairs">
]>;

// The names are GGUF's; Quantization.h has the formats.
def Ingot_Quantization : Ingot_Enum<"Quantization", "format of quantized weights", [
  I32EnumAttrCase<"Q8_0", 0, "q8_0">,
  I32EnumAttrCase<"Q4_0", 1, "q4_0">,
  I32EnumAttrCase<"Q4_1", 2, "q4_1">,
  I32EnumAttrCase<"Q5_0", 3, "q5_0">,
  I32EnumAttrCase<"Q5_1", 4, "q5_1">,
  I32EnumAttrCase<"Q4_K", 5, "q4_k">,
  I32EnumAttrCase<"Q5_K", 6, "q5_k">,
  I32EnumAttrCase<"Q6_K", 7, "q6_k">
]>;

def Ingot_Compute : Ingot_Enum<"Compute", "what a product multiplies", [
  I32EnumAttrCase<"Int8", 0, "int8">,
  I32EnumAttrCase<"Int16", 1, "int16">
]>;

//===--------------------------------------------------------------------------------------------------------------===//
// Types
//===--------------------------------------------------------------------------------------------------------------===//

class Ingot_Type<string name, string typeMnemonic> : TypeDef<Ingot_Dialect, name> { let mnemonic = typeMnemonic; }

def Ingot_BatchType : Ingot_Type<"Batch", "batch"> {
  let summary = "the tokens of one step and what is known of them";
  let description = [{
    A flattened list of tokens of any number of sequences, without padding: for each token its id, position, sequence
    and cache slot; for each sequence its range of tokens, its length and its RoPE regime; and the rows whose output is
    wanted. T stands for the number of tokens in the formulas below, R for the number of rows wanted.
  }];
}

def Ingot_KVCacheType : Ingot_Type<"KVCache", "kv_cache"> {
  let summary = "keys and values of every layer and sequence";
  let description = [{
    `!ingot.kv_cache<layers x kv_heads x head_dim x element>`. A resource: `kv_append` writes it, `attention` reads it.

    With element type i8 a key or value of one head and token is rounded to multiples of its scale, 1/127 of its largest
    magnitude (below 2^-100: zero), as float32.

    Constraints: every size is positive and their product is less than 2^48; the element type is f32, f16, bf16 or i8.

    Example: `!ingot.kv_cache<30 x 3 x 64 x f16>`
  }];
  let parameters = (ins "int64_t":$layers, "int64_t":$kvHeads, "int64_t":$headDim, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $layers `x` $kvHeads `x` $headDim `x` $elementType `>`";
  let genVerifyDecl = 1;
}

def Ingot_QuantizedType : Ingot_Type<"Quantized", "quantized"> {
  let summary = "element type of quantized weights";
  let description = [{
    The elements of a row (the last dimension) are stored together in blocks of 32 (`q4_k`, `q5_k`, `q6_k`: of 256):
    codes of a few bits and, for a block, a scale and perhaps an offset. An element's value is a float32 that the block's
    format defines: GGUF's (ggml-quants.c, gguf-py's quants.py). The last block of a row may be partly filled, except of
    the formats with blocks of 256.

    Example: `tensor<576x1536x!ingot.quantized<q8_0>>`
  }];
  let parameters = (ins EnumParameter<Ingot_Quantization>:$kind);
  let assemblyFormat = "`<` $kind `>`";
}

//===--------------------------------------------------------------------------------------------------------------===//
// Attributes
//===--------------------------------------------------------------------------------------------------------------===//

class Ingot_Attr<string name, string attrMnemonic, list<Trait> traits = []> : AttrDef<Ingot_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Ingot_RunAttr : Ingot_Attr<"Run", "run"> {
  let summary = "consecutive layers of one kind";
  let description = [{
    `count` layers that the function `kind` computes, whose weights are those of the kind from index `first` on.

    Example: `#ingot.run<@layer, first = 0, count = 30>`
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$kind, "int64_t":$first, "int64_t":$count);
  let assemblyFormat = "`<` $kind `,` `first` `=` $first `,` `count` `=` $count `>`";
  let genVerifyDecl = 1;
}

def Ingot_ModelAttr : Ingot_Attr<"Model", "model"> {
  let summary = "what is known of a model as a whole: the module's attribute `ingot.model`";
  let description = [{
    Constraints: every number is positive; the architecture is named.

    Example: `#ingot.model<name = "tiny", architecture = "llama", vocab = 128, hidden = 32, intermediate = 64, heads = 2, maxContext = 256, maxBatch = 8, maxStepTokens = 64>`
  }];
  let parameters = (ins
    "::mlir::StringAttr":$name, "::mlir::StringAttr":$architecture, "int64_t":$vocab, "int64_t":$hidden,
    "int64_t":$intermediate, "int64_t":$heads, "int64_t":$maxContext, "int64_t":$maxBatch, "int64_t":$maxStepTokens);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Ingot_PackedAttr : Ingot_Attr<"Packed", "packed", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "encoding of a parameter's tensor type: its layout in memory";
  let description = [{
    `segments` is the number of chains into which the sums over K are cut, which lie outermost. See ingot_rt/abi.h for
    the index formulas. `panel_pairs` is on a `tensor<2xNxKxT>`: two matrices whose panels alternate.

    Panels of a quantized type are those of dialects/ingot/Quantization.h.

    Constraints: `segments` is positive, and 1 in layout `rows`; `panels` is on a matrix, `panel_pairs` on two; a
    quantized type is in panels.

    Example: `tensor<576x1536xbf16, #ingot.packed<panels, segments = 8>>`
  }];
  let parameters = (ins EnumParameter<Ingot_Layout>:$layout, DefaultValuedParameter<"int64_t", "1">:$segments);
  let assemblyFormat = "`<` $layout (`,` `segments` `=` $segments^)? `>`";
  let genVerifyDecl = 1;
}

// In an op both are printed as their bare word, by custom<Word>.
def Ingot_RotaryStyleAttr : EnumAttr<Ingot_Dialect, Ingot_RotaryStyle, "rotary_style">;
def Ingot_ActivationAttr : EnumAttr<Ingot_Dialect, Ingot_Activation, "activation">;
def Ingot_ComputeAttr : EnumAttr<Ingot_Dialect, Ingot_Compute, "compute">;

//===--------------------------------------------------------------------------------------------------------------===//
// Type constraints
//===--------------------------------------------------------------------------------------------------------------===//

/// A row of features for each token.
def Ingot_Activations : Type<
    CPred<"::ingot::isActivationType($_self)">, "tensor<?xNxf32> of activations", "::mlir::RankedTensorType">;

/// A parameter, or what a recipe makes on the way to one.
def Ingot_ParameterTensor : Type<
    CPred<"::ingot::isParameterType($_self)">,
    "static, not empty tensor of f32, bf16 or f16 of rank 1 to 3, or quantized of rank 2 or 3", "::mlir::RankedTensorType">;

/// A parameter whose layout in memory is not chosen yet.
def Ingot_LogicalTensor : Type<
    And<[Ingot_ParameterTensor.predicate, CPred<"!::llvm::cast<::mlir::RankedTensorType>($_self).getEncoding()">]>,
    Ingot_ParameterTensor.summary # " without encoding", "::mlir::RankedTensorType">;

#endif // INGOT_BASE_TD
