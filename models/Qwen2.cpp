// Qwen2 and Qwen2.5: Llama with biases on q, k and v, and a window in the upper
// layers where the configuration asks for it. transformers' Qwen2Config and
// Qwen2ForCausalLM.
#include "models/Architectures.h"
#include "models/HuggingFace.h"

namespace ingot {

static void readQwen2(ConfigReader &reader, DecoderConfig &config) {
  DecoderDefaults defaults;
  defaults.kvHeads = 32;
  defaults.maxPosition = 32768;
  readDecoder(reader, defaults, config);
  // Its configuration does not say so: the modules are made with these biases.
  config.qkvBias = true;
  readQwenWindows(reader, config);
}

static constexpr InertKey qwen2Inert[] = {
    {"attention_bias", "true|null", "this model_type has biases on q, k and v, whatever the key says"},
    {"mlp_bias", "false|null", "this model_type has no biases in the MLP"},
    {"use_mrope", "false|null", "RoPE of several axes is for images"},
};

constexpr Architecture qwen2 = {"qwen2", "Qwen2ForCausalLM", readQwen2, qwen2Inert};

} // namespace ingot
