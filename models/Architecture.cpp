// The table of architectures, the keys that none of them reads, and the
// tensors that a configuration implies.
#include "models/Architecture.h"
#include "compiler/Import/InputError.h"
#include "models/Architectures.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace ingot {

ArrayRef<const Architecture *> architectures() {
  static constexpr const Architecture *table[] = {
      &llama, &mistral, &qwen2, &qwen3, &ernie45, &tinylm,
  };
  return table;
}

//===----------------------------------------------------------------------===//
// Keys that no architecture reads
//===----------------------------------------------------------------------===//

// Each row was reviewed against transformers 5.24: PreTrainedConfig and the
// models' modules do not read the key when computing logits.
static constexpr InertKey inertKeys[] = {
    {"transformers_version", "", "says what wrote the file"},
    {"_name_or_path", "", "says where the file came from"},
    {"name_or_path", "", "says where the file came from"},
    {"_commit_hash", "", "says where the file came from"},
    {"unsloth_version", "", "says what wrote the file"},
    {"unsloth_fixed", "", "says what wrote the file"},
    {"transformers.js_config", "", "read by another program"},
    {"auto_map", "", "names code that this model_type does not need"},
    {"use_cache", "", "the cache changes speed, not results"},
    {"initializer_range", "", "used to initialize training"},
    {"attention_dropout", "", "dropout acts in training only"},
    {"_attn_implementation_autoset", "", "chooses among equal kernels"},
    {"attn_implementation", "", "chooses among equal kernels"},
    {"output_attentions", "", "asks for more outputs"},
    {"output_hidden_states", "", "asks for more outputs"},
    {"return_dict", "", "decides how outputs are wrapped"},
    {"torchscript", "", "decides how the reference is run"},
    {"use_bfloat16", "", "decides how the reference is run"},
    {"tf_legacy_loss", "", "decides how the reference is trained"},
    {"id2label", "", "labels of a classifier"},
    {"label2id", "", "labels of a classifier"},
    {"num_labels", "", "labels of a classifier"},
    {"problem_type", "", "the task of a classifier"},
    {"finetuning_task", "", "describes training"},
    {"task_specific_params", "", "read by pipelines only"},
    {"tokenizer_class", "", "the tokenizer's files decide"},
    {"prefix", "", "read by pipelines only"},
    {"unk_token_id", "", "the tokenizer's files decide"},
    {"sep_token_id", "", "decoders have no separator"},
    {"decoder_start_token_id", "", "for encoder-decoder models"},
    {"chunk_size_feed_forward", "", "not read by this model_type"},
    {"max_sequence_length", "", "max_position_embeddings decides"},
    {"is_decoder", "", "this model_type always is one"},
    {"is_encoder_decoder", "false|null", "encoders are not supported"},
    {"add_cross_attention", "false|null", "encoders are not supported"},
    {"cross_attention_hidden_size", "null", "encoders are not supported"},
    {"tie_encoder_decoder", "false|null", "encoders are not supported"},
    {"pruned_heads", "{}|null", "pruned heads are not supported"},
    {"per_layer_config", "null", "layers of other sizes are not supported"},
    {"quantization_config", "null", "checkpoints quantized in this way are not supported"},
    {"quantization", "null", "checkpoints quantized in this way are not supported"},
    {"compression_config", "null", "checkpoints compressed in this way are not supported"},
    {"num_experts", "null|0", "mixtures of experts are not supported"},
    {"num_local_experts", "null|0", "mixtures of experts are not supported"},
    {"n_routed_experts", "null|0", "mixtures of experts are not supported"},
    {"moe_num_experts", "null|0", "mixtures of experts are not supported"},
    {"num_experts_per_tok", "null|0", "mixtures of experts are not supported"},
    {"kv_lora_rank", "null", "latent attention is not supported"},
};

/// The reference drops these from config.json; generation_config.json is where
/// it reads them.
static constexpr StringLiteral generationReason = "settings of generation count in generation_config.json only";
static constexpr InertKey generationKeys[] = {
    {"max_length", "", generationReason},
    {"min_length", "", generationReason},
    {"do_sample", "", generationReason},
    {"early_stopping", "", generationReason},
    {"num_beams", "", generationReason},
    {"num_beam_groups", "", generationReason},
    {"diversity_penalty", "", generationReason},
    {"temperature", "", generationReason},
    {"top_k", "", generationReason},
    {"top_p", "", generationReason},
    {"typical_p", "", generationReason},
    {"repetition_penalty", "", generationReason},
    {"encoder_repetition_penalty", "", generationReason},
    {"length_penalty", "", generationReason},
    {"no_repeat_ngram_size", "", generationReason},
    {"encoder_no_repeat_ngram_size", "", generationReason},
    {"bad_words_ids", "", generationReason},
    {"num_return_sequences", "", generationReason},
    {"output_scores", "", generationReason},
    {"return_dict_in_generate", "", generationReason},
    {"forced_bos_token_id", "", generationReason},
    {"forced_eos_token_id", "", generationReason},
    {"remove_invalid_values", "", generationReason},
    {"exponential_decay_length_penalty", "", generationReason},
    {"suppress_tokens", "", generationReason},
    {"begin_suppress_tokens", "", generationReason},
};

ArrayRef<InertKey> sharedInertKeys() { return inertKeys; }
ArrayRef<InertKey> generationInertKeys() { return generationKeys; }

//===----------------------------------------------------------------------===//
// Reading a configuration
//===----------------------------------------------------------------------===//

/// The architecture that model_type names, or a fault.
static const Architecture *findArchitecture(ConfigReader &reader) {
  std::string known = join(map_range(architectures(), [](const Architecture *a) { return a->modelType.str(); }), ", ");
  std::optional<std::string> type = reader.optionalString("model_type");
  if (!type) {
    reader.fail("key 'model_type' is missing; expected one of " + known);
    return nullptr;
  }
  for (const Architecture *architecture : architectures())
    if (architecture->modelType == *type)
      return architecture;
  reader.failKey("model_type", "architecture " + quote(*type) + " is not supported; expected one of " + known);
  return nullptr;
}

/// `architectures` names the class that reads the weights: a classifier or an
/// embedder of the same model_type has another output.
static void checkClass(ConfigReader &reader, const Architecture &architecture) {
  if (architecture.className.empty())
    return;
  std::optional<std::vector<std::string>> classes = reader.optionalStrings("architectures");
  auto plain = [](StringRef name) {
    std::string result = name.lower();
    result.erase(std::remove(result.begin(), result.end(), '_'), result.end());
    return result;
  };
  for (const std::string &name : classes.value_or(std::vector<std::string>()))
    if (plain(name) != plain(architecture.className))
      reader.failKey("architectures", "class " + quote(name) + " is not supported for model_type '" +
                                          architecture.modelType + "'; expected " + quote(architecture.className));
}

Expected<DecoderConfig> readDecoderConfig(const Json &object, StringRef file, ArrayRef<std::string> ignoredKeys,
                                          Ledger &ledger, bool isGguf) {
  ConfigReader reader(object, file, ledger, ignoredKeys);
  DecoderConfig config;
  const Architecture *architecture = reader.ok() ? findArchitecture(reader) : nullptr;
  if (!architecture)
    return reader.finish();
  config.architecture = architecture->modelType.str();
  checkClass(reader, *architecture);
  architecture->read(reader, config);
  if (isGguf) {
    applyRopeFactors(reader, config.rope);
    // A GGUF file says all of its tokens; the class's defaults are not its own.
    if (!reader.find("bos_token_id"))
      config.tokens.bos = std::nullopt;
    if (!reader.find("eos_token_id"))
      config.tokens.eos.clear();
    if (!reader.find("pad_token_id"))
      config.tokens.pad = std::nullopt;
  }
  reader.checkRest({architecture->inert, inertKeys, generationKeys}, "model_type '" + architecture->modelType + "'");
  if (Error error = reader.finish())
    return error;
  return config;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

std::vector<TensorSlot> layerSlots(const DecoderConfig &config) {
  const TensorNames &names = config.names;
  int64_t hidden = config.hidden, inner = config.intermediate;
  int64_t q = config.heads * config.headDim;
  int64_t kv = config.kvHeads * config.headDim;
  std::vector<TensorSlot> slots;
  auto norm = [&](StringRef name, StringRef source, int64_t size) {
    slots.push_back({name.str(), (source + ".weight").str(), {size}, TensorKind::Norm, "norm"});
  };
  auto linear = [&](StringRef name, StringRef source, int64_t rows, int64_t columns, bool bias, StringLiteral part) {
    slots.push_back({name.str(), (source + ".weight").str(), {rows, columns}, TensorKind::Matrix, part});
    if (bias)
      slots.push_back({(name + "_bias").str(), (source + ".bias").str(), {rows}, TensorKind::Bias, part});
  };
  norm("input_layernorm", names.inputNorm, hidden);
  linear("q_proj", names.q, q, hidden, config.qkvBias, "attention");
  linear("k_proj", names.k, kv, hidden, config.qkvBias, "attention");
  linear("v_proj", names.v, kv, hidden, config.qkvBias, "attention");
  linear("o_proj", names.o, hidden, q, config.oBias, "attention");
  if (config.qkNorm) {
    norm("q_norm", names.qNorm, config.headDim);
    norm("k_norm", names.kNorm, config.headDim);
  }
  norm("post_attention_layernorm", names.postNorm, hidden);
  linear("gate_proj", names.gate, inner, hidden, config.mlpBias, "mlp");
  linear("up_proj", names.up, inner, hidden, config.mlpBias, "mlp");
  linear("down_proj", names.down, hidden, inner, config.mlpBias, "mlp");
  return slots;
}

std::vector<TensorSlot> modelSlots(const DecoderConfig &config) {
  const TensorNames &names = config.names;
  std::vector<TensorSlot> slots;
  slots.push_back({"embed_tokens",
                   (names.embedding + ".weight").str(),
                   {config.vocab, config.hidden},
                   TensorKind::Matrix,
                   "embedding"});
  slots.push_back({"norm", (names.finalNorm + ".weight").str(), {config.hidden}, TensorKind::Norm, "norm"});
  if (!config.tied)
    slots.push_back(
        {"lm_head", (names.lmHead + ".weight").str(), {config.vocab, config.hidden}, TensorKind::Matrix, "lm_head"});
  return slots;
}

std::string layerName(StringRef source, int64_t layer) {
  auto [before, after] = source.split("{layer}");
  return before.size() == source.size() ? source.str() : (before + Twine(layer) + after).str();
}

std::vector<ExpectedTensor> expectedTensors(const DecoderConfig &config) {
  std::vector<ExpectedTensor> result;
  std::vector<TensorSlot> outer = modelSlots(config);
  std::vector<TensorSlot> inner = layerSlots(config);
  result.push_back({outer[0].source, outer[0].shape, outer[0].kind});
  for (int64_t layer = 0; layer < config.layers; ++layer)
    for (const TensorSlot &slot : inner)
      result.push_back({layerName(slot.source, layer), slot.shape, slot.kind});
  for (const TensorSlot &slot : ArrayRef(outer).drop_front())
    result.push_back({slot.source, slot.shape, slot.kind});
  return result;
}

} // namespace ingot
