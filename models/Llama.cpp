// Llama 1 to 3.x and the many models of its shape (SmolLM2, TinyLlama, ...):
// transformers' LlamaConfig and LlamaForCausalLM.
#include "models/Architectures.h"
#include "models/HuggingFace.h"

namespace ingot {

static void readLlama(ConfigReader &reader, DecoderConfig &config) {
  DecoderDefaults defaults;
  defaults.freeHeadDim = false;
  defaults.bos = 1;
  defaults.eos = 2;
  readDecoder(reader, defaults, config);
  config.qkvBias = config.oBias = reader.boolean("attention_bias", false);
  config.mlpBias = reader.boolean("mlp_bias", false);
  checkLayerTypes(reader, config);
}

static constexpr InertKey llamaInert[] = {
    {"pretraining_tp", "1|null", "tensor-parallel pretraining sums slices in another order"},
    {"is_llama_config", "", "a note of the conversion script"},
    {"rope_interleaved", "false|null", "RoPE on neighbouring elements is another architecture"},
    {"sliding_window", "null", "this model_type has no sliding window"},
};

constexpr Architecture llama = {"llama", "LlamaForCausalLM", readLlama, llamaInert};

} // namespace ingot
