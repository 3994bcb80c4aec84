// Qwen3 (dense): Llama with an RMSNorm on each head of queries and keys, and a
// head_dim of its own. transformers' Qwen3Config and Qwen3ForCausalLM.
#include "models/Architectures.h"
#include "models/HuggingFace.h"

namespace ingot {

static void readQwen3(ConfigReader &reader, DecoderConfig &config) {
  DecoderDefaults defaults;
  defaults.kvHeads = 32;
  defaults.headDim = 128;
  defaults.maxPosition = 32768;
  readDecoder(reader, defaults, config);
  config.qkvBias = config.oBias = reader.boolean("attention_bias", false);
  config.qkNorm = true;
  readQwenWindows(reader, config);
}

static constexpr InertKey qwen3Inert[] = {
    {"mlp_bias", "false|null", "this model_type has no biases in the MLP"},
};

constexpr Architecture qwen3 = {"qwen3", "Qwen3ForCausalLM", readQwen3, qwen3Inert};

} // namespace ingot
