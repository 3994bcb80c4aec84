// Mistral: Llama with a window over positions in every layer. transformers'
// MistralConfig and MistralForCausalLM.
#include "models/Architectures.h"
#include "models/HuggingFace.h"

namespace ingot {

static void readMistral(ConfigReader &reader, DecoderConfig &config) {
  DecoderDefaults defaults;
  defaults.kvHeads = 8;
  defaults.maxPosition = 4096 * 32;
  defaults.bos = 1;
  defaults.eos = 2;
  readDecoder(reader, defaults, config);
  std::optional<int64_t> window = 4096;
  if (reader.findOrNull("sliding_window"))
    window = reader.optionalInteger("sliding_window", 1, mostPositions);
  config.windows.assign(config.windows.size(), window);
  checkLayerTypes(reader, config);
}

static constexpr InertKey mistralInert[] = {
    {"attention_bias", "false|null", "this model_type has no biases"},
    {"mlp_bias", "false|null", "this model_type has no biases"},
};

constexpr Architecture mistral = {"mistral", "MistralForCausalLM", readMistral, mistralInert};

} // namespace ingot
