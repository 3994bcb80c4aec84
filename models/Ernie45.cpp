// ERNIE 4.5 (dense): Llama with RoPE on neighbouring elements (2i, 2i + 1).
// transformers' Ernie4_5Config and Ernie4_5ForCausalLM.
#include "models/Architectures.h"
#include "models/HuggingFace.h"

namespace ingot {

static void readErnie45(ConfigReader &reader, DecoderConfig &config) {
  DecoderDefaults defaults;
  defaults.kvHeads = 2;
  defaults.headDim = 128;
  defaults.maxPosition = 131072;
  defaults.eps = 1e-5;
  defaults.ropeTheta = 500000;
  defaults.tied = true;
  defaults.bos = 1;
  defaults.eos = 2;
  defaults.pad = 0;
  readDecoder(reader, defaults, config);
  config.rope.pairs = RopePairs::Interleaved;
  config.qkvBias = config.oBias = config.mlpBias = reader.boolean("use_bias", false);
  checkLayerTypes(reader, config);
}

static constexpr InertKey ernie45Inert[] = {
    {"compression_ratio", "1.0|1|null", "RoPE on compressed positions is not supported"},
    {"sliding_window", "null", "this model_type has no sliding window"},
};

constexpr Architecture ernie45 = {"ernie4_5", "Ernie4_5ForCausalLM", readErnie45, ernie45Inert};

} // namespace ingot
