// The keys that transformers' decoders share.
#include "models/HuggingFace.h"
#include "compiler/Import/InputError.h"
#include <cmath>

using namespace llvm;

namespace ingot {

void checkSizes(ConfigReader &reader, DecoderConfig &config) {
  if (!reader.ok())
    return;
  if (config.heads % config.kvHeads != 0)
    reader.fail("key/value heads must divide the heads; expected a divisor of " + Twine(config.heads) + ", got " +
                Twine(config.kvHeads));
  if (config.headDim > mostHeadDim)
    reader.fail("heads of " + Twine(config.headDim) + " elements are too large; expected at most " +
                Twine(mostHeadDim));
  if (config.heads * config.headDim > mostFeatures)
    reader.fail(Twine(config.heads) + " heads of " + Twine(config.headDim) +
                " elements are too many; expected a product of at most " + Twine(mostFeatures));
  if (!(config.eps > 0) || !std::isfinite(config.eps))
    reader.fail("the norm's epsilon must be positive and finite, got " + jsonText(static_cast<double>(config.eps)));
  // In float64, which cannot overflow; the bytes of all weights must fit int64_t with room to spare.
  double rows = 2.0 * static_cast<double>((config.heads + config.kvHeads) * config.headDim) +
                3.0 * static_cast<double>(config.intermediate);
  double parameters = static_cast<double>(config.hidden) *
                      (rows * static_cast<double>(config.layers) + 2.0 * static_cast<double>(config.vocab));
  if (parameters > 0x1p58)
    reader.fail("the sizes give " + jsonText(parameters) + " parameters; expected at most 2^58");
  config.windows.assign(config.layers, std::nullopt);
}

void readTokens(ConfigReader &reader, std::optional<int64_t> bos, std::optional<int64_t> eos,
                std::optional<int64_t> pad, DecoderConfig &config) {
  auto single = [&](StringRef key, std::optional<int64_t> absent) {
    // -1 is an old way to say none.
    std::optional<int64_t> id = reader.findOrNull(key) ? reader.optionalInteger(key, -1, mostIds) : absent;
    if (!id || *id < 0)
      return std::optional<int64_t>();
    bool given = reader.find(key) != nullptr;
    bool there = given ? reader.occurs(key, *id, config.vocab, config.warnings) : *id < config.vocab;
    return there ? id : std::nullopt;
  };
  config.tokens.bos = single("bos_token_id", bos);
  config.tokens.pad = single("pad_token_id", pad);
  if (reader.findOrNull("eos_token_id")) {
    for (int64_t id : reader.ids("eos_token_id", mostIds).value_or(std::vector<int64_t>()))
      if (reader.occurs("eos_token_id", id, config.vocab, config.warnings))
        config.tokens.eos.push_back(id);
  } else if (eos && *eos < config.vocab) {
    config.tokens.eos.push_back(*eos);
  }
}

/// SiLU has two names; everything else computes something else.
static void readActivation(ConfigReader &reader) {
  std::optional<std::string> name = reader.optionalString("hidden_act");
  if (name && *name != "silu" && *name != "swish")
    reader.failKey("hidden_act", "activation " + quote(*name) + " is not supported; expected 'silu'");
}

void readStorage(ConfigReader &reader, DecoderConfig &config) {
  std::optional<std::string> newer = reader.optionalString("dtype");
  std::optional<std::string> older = reader.optionalString("torch_dtype");
  config.dtype = newer ? *newer : older.value_or("");
}

void readDecoder(ConfigReader &reader, const DecoderDefaults &defaults, DecoderConfig &config) {
  config.vocab = reader.integer("vocab_size", 1, mostIds);
  config.hidden = reader.integer("hidden_size", 1, mostFeatures);
  config.intermediate = reader.integer("intermediate_size", 1, mostFeatures);
  config.layers = reader.integer("num_hidden_layers", 1, mostLayers);
  config.heads = reader.integer("num_attention_heads", 1, mostHeads);
  bool kvGiven = reader.findOrNull("num_key_value_heads") != nullptr;
  config.kvHeads = reader.optionalInteger("num_key_value_heads", 1, mostHeads)
                       .value_or(kvGiven ? config.heads : defaults.kvHeads.value_or(config.heads));
  bool dimGiven = reader.findOrNull("head_dim") != nullptr;
  std::optional<int64_t> headDim = reader.optionalInteger("head_dim", 1, mostHeadDim);
  if (!headDim && !dimGiven)
    headDim = defaults.headDim;
  if (reader.ok() && config.hidden % config.heads != 0 && !(headDim && defaults.freeHeadDim))
    reader.failKey("num_attention_heads",
                   "expected a divisor of hidden_size (" + Twine(config.hidden) + "), got " + Twine(config.heads));
  config.headDim = headDim.value_or(config.hidden / config.heads);
  config.maxPosition = reader.integer("max_position_embeddings", 1, mostPositions, defaults.maxPosition);
  config.eps = static_cast<float>(reader.number("rms_norm_eps", 0, 1, defaults.eps));
  config.tied = reader.boolean("tie_word_embeddings", defaults.tied);
  readActivation(reader);
  readStorage(reader, config);
  checkSizes(reader, config);
  config.rope = readRope(reader, {config.headDim, config.maxPosition, defaults.ropeTheta});
  readTokens(reader, defaults.bos, defaults.eos, defaults.pad, config);
}

void readQwenWindows(ConfigReader &reader, DecoderConfig &config) {
  bool use = reader.boolean("use_sliding_window", false);
  bool given = reader.findOrNull("sliding_window") != nullptr;
  std::optional<int64_t> window = reader.optionalInteger("sliding_window", 1, mostPositions);
  if (!given)
    window = 4096;
  int64_t fullLayers = reader.integer("max_window_layers", 0, mostPositions, 28);
  if (!use)
    window = std::nullopt;
  std::optional<std::vector<std::string>> types = reader.optionalStrings("layer_types");
  if (!reader.ok())
    return;
  if (types && types->size() != config.windows.size()) {
    reader.failKey("layer_types",
                   "expected " + Twine(config.layers) + " entries, one for each layer, got " + Twine(types->size()));
    return;
  }
  for (int64_t i = 0; i < config.layers; ++i) {
    bool sliding = window && i >= fullLayers;
    if (types) {
      StringRef type = (*types)[i];
      sliding = type == "sliding_attention";
      if (!sliding && type != "full_attention" && type != "attention")
        reader.failKey("layer_types", "layer type " + quote(type) +
                                          " is not supported; expected "
                                          "full_attention or "
                                          "sliding_attention");
      if (sliding && !window)
        reader.failKey("layer_types", "layer " + Twine(i) +
                                          " has sliding_attention, but "
                                          "there is no window; expected use_sliding_window true "
                                          "and a sliding_window");
    }
    if (sliding)
      config.windows[i] = window;
  }
}

void checkLayerTypes(ConfigReader &reader, const DecoderConfig &config) {
  std::optional<std::vector<std::string>> types = reader.optionalStrings("layer_types");
  if (!types || !reader.ok())
    return;
  if (types->size() != config.windows.size()) {
    reader.failKey("layer_types",
                   "expected " + Twine(config.layers) + " entries, one for each layer, got " + Twine(types->size()));
    return;
  }
  for (size_t i = 0; i < types->size(); ++i) {
    StringRef expected = config.windows[i] ? "sliding_attention" : "full_attention";
    if ((*types)[i] != expected)
      reader.failKey("layer_types", "layer " + Twine(i) + ": expected " + expected + " for model_type '" +
                                        config.architecture + "', got " + quote((*types)[i]));
  }
}

} // namespace ingot
