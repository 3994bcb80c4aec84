// The keys that transformers' decoders share, read once for all of them.
#ifndef INGOT_MODELS_HUGGINGFACE_H
#define INGOT_MODELS_HUGGINGFACE_H

#include "models/Architecture.h"

namespace ingot {

/// Values of absent keys, from the architecture's configuration class.
struct DecoderDefaults {
  /// Nothing: as many as heads.
  std::optional<int64_t> kvHeads;
  /// Nothing: hidden_size / num_attention_heads.
  std::optional<int64_t> headDim;
  int64_t maxPosition = 2048;
  double eps = 1e-6;
  double ropeTheta = 10000;
  bool tied = false;
  /// With head_dim given, heads need not divide hidden_size.
  bool freeHeadDim = true;
  std::optional<int64_t> bos, eos, pad;
};

/// Reads sizes, heads, norm, activation, rope, tying and token ids. Every layer
/// sees all positions afterwards.
void readDecoder(ConfigReader &reader, const DecoderDefaults &defaults, DecoderConfig &config);

/// dtype or torch_dtype: how random weights are stored.
void readStorage(ConfigReader &reader, DecoderConfig &config);

/// Sizes that read the same in every architecture, and their limits.
void checkSizes(ConfigReader &reader, DecoderConfig &config);

/// Qwen's use_sliding_window, sliding_window, max_window_layers, layer_types.
void readQwenWindows(ConfigReader &reader, DecoderConfig &config);

/// A `layer_types` of an architecture that does not read it must say what is
/// so.
void checkLayerTypes(ConfigReader &reader, const DecoderConfig &config);

/// bos, eos and pad as config.json has them.
void readTokens(ConfigReader &reader, std::optional<int64_t> bos, std::optional<int64_t> eos,
                std::optional<int64_t> pad, DecoderConfig &config);

// Limits beyond which a configuration is damaged; products of any three fit
// int64_t with room for bytes.
inline constexpr int64_t mostIds = 0x7fffffff;
inline constexpr int64_t mostFeatures = int64_t(1) << 24;
inline constexpr int64_t mostLayers = 1 << 14;
inline constexpr int64_t mostHeads = 1 << 16;
inline constexpr int64_t mostHeadDim = 1 << 16;
inline constexpr int64_t mostPositions = 0x7fffffff;

} // namespace ingot

#endif // INGOT_MODELS_HUGGINGFACE_H
