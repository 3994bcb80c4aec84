// What an architecture tells the importer: how config.json's keys describe a
// decoder, and under which names its tensors are stored. Adding one is a file
// in this folder and a row in Architecture.cpp.
#ifndef INGOT_MODELS_ARCHITECTURE_H
#define INGOT_MODELS_ARCHITECTURE_H

#include "compiler/Import/ConfigReader.h"
#include "compiler/Import/GenerationDefaults.h"
#include "compiler/Import/Rope.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

/// Names of tensors without ".weight" and ".bias"; `{layer}` stands for the
/// layer's number.
struct TensorNames {
  llvm::StringLiteral embedding = "model.embed_tokens";
  llvm::StringLiteral finalNorm = "model.norm";
  llvm::StringLiteral lmHead = "lm_head";
  llvm::StringLiteral inputNorm = "model.layers.{layer}.input_layernorm";
  llvm::StringLiteral q = "model.layers.{layer}.self_attn.q_proj";
  llvm::StringLiteral k = "model.layers.{layer}.self_attn.k_proj";
  llvm::StringLiteral v = "model.layers.{layer}.self_attn.v_proj";
  llvm::StringLiteral o = "model.layers.{layer}.self_attn.o_proj";
  llvm::StringLiteral qNorm = "model.layers.{layer}.self_attn.q_norm";
  llvm::StringLiteral kNorm = "model.layers.{layer}.self_attn.k_norm";
  llvm::StringLiteral postNorm = "model.layers.{layer}.post_attention_layernorm";
  llvm::StringLiteral gate = "model.layers.{layer}.mlp.gate_proj";
  llvm::StringLiteral up = "model.layers.{layer}.mlp.up_proj";
  llvm::StringLiteral down = "model.layers.{layer}.mlp.down_proj";
};

/// A pre-norm decoder with rotary positions, grouped attention and a gated MLP.
/// Sizes are checked: positive, products within int64_t, heads that divide.
struct DecoderConfig {
  /// model_type.
  std::string architecture;
  int64_t vocab = 0, hidden = 0, intermediate = 0, layers = 0;
  int64_t heads = 0, kvHeads = 0, headDim = 0;
  int64_t maxPosition = 0;
  float eps = 0;
  RopeSpec rope;
  bool qkvBias = false, oBias = false, mlpBias = false;
  /// RMSNorm on each head of queries and keys, before RoPE.
  bool qkNorm = false;
  /// The output projection is the embedding table.
  bool tied = false;
  /// [layers] how many positions a token sees, itself included; nothing: all.
  std::vector<std::optional<int64_t>> windows;
  SpecialTokens tokens;
  TensorNames names;
  /// torch_dtype, which only random weights need; empty if absent.
  std::string dtype;
  /// What the configuration says in vain, a line each.
  std::vector<std::string> warnings;
};

/// One architecture. `read` fills a configuration whose `architecture` is set
/// and leaves faults in the reader; keys that it does not touch must be in
/// `inert` or in the list all architectures share.
struct Architecture {
  llvm::StringLiteral modelType;
  /// What `architectures` in config.json calls it; empty: the key is unknown.
  llvm::StringLiteral className;
  void (*read)(ConfigReader &reader, DecoderConfig &config);
  llvm::ArrayRef<InertKey> inert;
};

/// All of them, in the order of messages.
llvm::ArrayRef<const Architecture *> architectures();

/// The keys that no architecture reads: the model's own, and the settings of generation, which count in
/// generation_config.json only.
llvm::ArrayRef<InertKey> sharedInertKeys();
llvm::ArrayRef<InertKey> generationInertKeys();

/// Reads a config.json by the architecture that its model_type names, and
/// checks that nothing in it is left over.
llvm::Expected<DecoderConfig> readDecoderConfig(const Json &object, llvm::StringRef file,
                                                llvm::ArrayRef<std::string> ignoredKeys, Ledger &ledger,
                                                bool isGguf = false);

/// What a tensor is: [rows, columns], the weight of a norm, or a bias.
enum class TensorKind { Matrix, Norm, Bias };

/// A tensor that a decoder needs: once, or once in each layer.
struct TensorSlot {
  /// The parameter's name in the module, without the kind's: "q_proj",
  /// "q_proj_bias".
  std::string parameter;
  /// The tensor's name, with `{layer}` in a layer's.
  std::string source;
  llvm::SmallVector<int64_t, 2> shape;
  TensorKind kind;
  /// As ingot_rt_parameter says it: "embedding", "attention", ...
  llvm::StringLiteral part;
};

/// The tensors of a layer, and those beside the layers (with lm_head unless
/// tied).
std::vector<TensorSlot> layerSlots(const DecoderConfig &config);
std::vector<TensorSlot> modelSlots(const DecoderConfig &config);

/// A tensor that a checkpoint of this configuration holds.
struct ExpectedTensor {
  std::string name;
  llvm::SmallVector<int64_t, 2> shape;
  TensorKind kind;
};

/// All of them: the embedding, layer after layer, the final norm, lm_head.
std::vector<ExpectedTensor> expectedTensors(const DecoderConfig &config);

/// `source` with the layer's number in the place of `{layer}`.
std::string layerName(llvm::StringRef source, int64_t layer);

} // namespace ingot

#endif // INGOT_MODELS_ARCHITECTURE_H
