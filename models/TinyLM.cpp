// TinyLM, a teaching model: RMSNorm, SwiGLU, grouped heads, RoPE on
// neighbouring elements, tied output, and names of its own.
#include "models/Architectures.h"
#include "models/HuggingFace.h"

namespace ingot {

static void readTinyLM(ConfigReader &reader, DecoderConfig &config) {
  config.vocab = reader.integer("vocab", 1, mostIds);
  config.hidden = reader.integer("hidden", 1, mostFeatures);
  config.intermediate = reader.integer("intermediate", 1, mostFeatures);
  config.layers = reader.integer("layers", 1, mostLayers);
  config.heads = reader.integer("heads", 1, mostHeads);
  config.kvHeads = reader.integer("kv_heads", 1, mostHeads);
  config.maxPosition = reader.integer("max_position_embeddings", 1, mostPositions, 2048);
  if (reader.ok() && config.hidden % config.heads != 0)
    reader.failKey("heads", "expected a divisor of hidden (" + llvm::Twine(config.hidden) + "), got " +
                                llvm::Twine(config.heads));
  config.headDim = config.hidden / config.heads;
  config.eps = 1e-6f;
  config.tied = true;
  checkSizes(reader, config);
  config.rope = plainRope(reader, 10000, config.headDim);
  config.rope.pairs = RopePairs::Interleaved;
  readStorage(reader, config);
  readTokens(reader, std::nullopt, std::nullopt, std::nullopt, config);
  config.names = {.embedding = "embed",
                  .finalNorm = "norm",
                  .lmHead = "lm_head",
                  .inputNorm = "blocks.{layer}.n1",
                  .q = "blocks.{layer}.attn.q",
                  .k = "blocks.{layer}.attn.k",
                  .v = "blocks.{layer}.attn.v",
                  .o = "blocks.{layer}.attn.o",
                  .postNorm = "blocks.{layer}.n2",
                  .gate = "blocks.{layer}.mlp.gate",
                  .up = "blocks.{layer}.mlp.up",
                  .down = "blocks.{layer}.mlp.down"};
}

constexpr Architecture tinylm = {"tinylm", "", readTinyLM, {}};

} // namespace ingot
