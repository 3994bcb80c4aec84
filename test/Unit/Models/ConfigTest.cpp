// Configurations: rope frequencies against the reference's, every refusal, the ledger.
#include "compiler/Import/ConfigReader.h"
#include "test/Unit/Models/Support.h"
#include "llvm/Support/MemoryBuffer.h"
#include <bit>
#include <cmath>
#include <map>

using namespace ingot;
using namespace ingot::test;
using namespace llvm;

namespace {

Expected<DecoderConfig> read(const Json &config, Ledger &ledger, ArrayRef<std::string> ignored = {},
                             bool isGguf = false) {
  return readDecoderConfig(config, "config.json", ignored, ledger, isGguf);
}

Expected<DecoderConfig> read(const Json &config) {
  Ledger ledger;
  return read(config, ledger);
}

float fromBits(const Json &bits) { return std::bit_cast<float>(bits.get<uint32_t>()); }

/// Frequencies against recorded ones. torch's vector code misses the correctly rounded power by one unit now and then,
/// which a division may double: at most 2^-22 apart, and equal in bits in at least 95 of 100.
void compare(const std::string &name, ArrayRef<float> actual, const Json &expected, size_t &equal, size_t &total) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  for (size_t i = 0; i < actual.size(); ++i) {
    float want = fromBits(expected[i]);
    EXPECT_LE(std::fabs(double(actual[i]) - double(want)), std::ldexp(std::fabs(double(want)), -22))
        << name << ", frequency " << i << ": " << actual[i] << " and " << want;
    equal += actual[i] == want;
    ++total;
  }
}

TEST(Rope, FrequenciesAreTheReferences) {
  Expected<Json> fixtures = readJsonFile(INGOT_FIXTURES_DIR "/rope_fixtures.json");
  ASSERT_TRUE(bool(fixtures)) << toString(fixtures.takeError());
  size_t equal = 0, total = 0;
  for (const Json &row : *fixtures) {
    std::string name = row["name"].get<std::string>();
    Expected<DecoderConfig> config = read(row["config"]);
    ASSERT_TRUE(bool(config)) << name << ": " << toString(config.takeError());
    const RopeSpec &rope = config->rope;
    compare(name, rope.frequencies, row["frequencies"], equal, total);
    EXPECT_EQ(rope.scaling, fromBits(row["scaling"])) << name;
    bool isLong = row.contains("long_from");
    EXPECT_EQ(rope.longFrom, isLong ? row["long_from"].get<int64_t>() : 0) << name;
    if (isLong)
      compare(name, rope.longFrequencies, row["long_frequencies"], equal, total);
    else
      EXPECT_TRUE(rope.longFrequencies.empty()) << name;
  }
  EXPECT_GE(equal * 100, total * 95) << equal << " of " << total;
}

//===----------------------------------------------------------------------===//
// What configurations say
//===----------------------------------------------------------------------===//

/// config.json of published models, in the keys and values that decide which keys must be known.
const char *published[] = {
    // SmolLM2-135M-Instruct
    R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664,
        "intermediate_size": 1536, "is_llama_config": true, "max_position_embeddings": 8192, "mlp_bias": false,
        "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
        "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": false, "rope_scaling": null,
        "rope_theta": 100000, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}},
        "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 49152})",
    // Llama 3.2
    R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_act": "silu",
        "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072,
        "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
        "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0,
        "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
        "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256})",
    // Mistral 7B
    R"({"architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
        "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
        "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.42.0.dev0",
        "use_cache": true, "vocab_size": 32768})",
    // Qwen2.5 0.5B
    R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
        "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
        "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2",
        "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers_version": "4.43.1", "use_cache": true, "use_mrope": false, "use_sliding_window": false,
        "vocab_size": 151936})",
    // Qwen3 0.6B
    R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
        "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960,
        "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
        "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})",
    // ERNIE 4.5 0.3B, as transformers 5 writes it with every key
    R"({"_name_or_path": "", "architectures": ["Ernie4_5ForCausalLM"], "bos_token_id": 1,
        "chunk_size_feed_forward": 0, "dtype": "bfloat16", "eos_token_id": 2, "head_dim": 128, "hidden_act": "silu",
        "hidden_size": 1024, "id2label": {"0": "LABEL_0"}, "initializer_range": 0.02, "intermediate_size": 3072,
        "is_encoder_decoder": false, "label2id": {"LABEL_0": 0}, "max_position_embeddings": 131072,
        "model_type": "ernie4_5", "num_attention_heads": 16, "num_hidden_layers": 18, "num_key_value_heads": 2,
        "output_attentions": false, "output_hidden_states": false, "pad_token_id": 0, "problem_type": null,
        "return_dict": true, "rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 500000.0,
        "rope_type": "default"}, "tie_word_embeddings": true, "transformers_version": "5.24.0", "use_bias": false,
        "use_cache": true, "vocab_size": 103424})",
};

TEST(Config, PublishedModelsAreRead) {
  for (const char *text : published) {
    Json object = json(text);
    Ledger ledger;
    Expected<DecoderConfig> config = read(object, ledger);
    ASSERT_TRUE(bool(config)) << object["model_type"] << ": " << toString(config.takeError());
    // Each key at the top stands in the ledger once; rope adds those inside its object.
    size_t top = 0;
    for (const LedgerEntry &entry : ledger.keys())
      top += !StringRef(entry.what).contains('.') || StringRef(entry.what).count('.') == 1 ||
             StringRef(entry.what).contains("transformers.js");
    EXPECT_EQ(top, object.size()) << object["model_type"] << "\n" << ledger.toJsonLines();
  }
}

TEST(Config, LlamaDefaultsAreTheReferences) {
  Json object = json(R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 8, "num_hidden_layers": 3,
                         "num_attention_heads": 4, "vocab_size": 9})");
  Expected<DecoderConfig> config = read(object);
  ASSERT_TRUE(bool(config)) << toString(config.takeError());
  EXPECT_EQ(config->kvHeads, 4);
  EXPECT_EQ(config->headDim, 8);
  EXPECT_EQ(config->maxPosition, 2048);
  EXPECT_EQ(config->eps, 1e-6f);
  EXPECT_FALSE(config->tied || config->qkvBias || config->oBias || config->mlpBias || config->qkNorm);
  EXPECT_EQ(config->rope.frequencies[1], 0.1f);
  EXPECT_EQ(config->tokens.bos, 1);
  EXPECT_EQ(config->tokens.eos, std::vector<int64_t>{2});
  EXPECT_FALSE(config->tokens.pad.has_value());
  EXPECT_EQ(config->windows, std::vector<std::optional<int64_t>>(3));
}

TEST(Config, ArchitecturesDifferInTheirDefaults) {
  Json base = json(R"({"hidden_size": 256, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 32,
                       "vocab_size": 9})");
  struct Row {
    const char *type;
    int64_t kvHeads, headDim, maxPosition;
    float eps;
    bool tied;
    std::optional<int64_t> window, bos, pad;
    size_t ends;
  };
  const Row rows[] = {
      {"llama", 32, 8, 2048, 1e-6f, false, std::nullopt, 1, std::nullopt, 1},
      {"mistral", 8, 8, 131072, 1e-6f, false, 4096, 1, std::nullopt, 1},
      {"qwen2", 32, 8, 32768, 1e-6f, false, std::nullopt, std::nullopt, std::nullopt, 0},
      {"qwen3", 32, 128, 32768, 1e-6f, false, std::nullopt, std::nullopt, std::nullopt, 0},
      {"ernie4_5", 2, 128, 131072, 1e-5f, true, std::nullopt, 1, 0, 1},
  };
  for (const Row &row : rows) {
    Json object = base;
    object["model_type"] = row.type;
    Expected<DecoderConfig> config = read(object);
    ASSERT_TRUE(bool(config)) << row.type << ": " << toString(config.takeError());
    EXPECT_EQ(config->kvHeads, row.kvHeads) << row.type;
    EXPECT_EQ(config->headDim, row.headDim) << row.type;
    EXPECT_EQ(config->maxPosition, row.maxPosition) << row.type;
    EXPECT_EQ(config->eps, row.eps) << row.type;
    EXPECT_EQ(config->tied, row.tied) << row.type;
    EXPECT_EQ(config->windows[0], row.window) << row.type;
    EXPECT_EQ(config->tokens.bos, row.bos) << row.type;
    EXPECT_EQ(config->tokens.pad, row.pad) << row.type;
    EXPECT_EQ(config->tokens.eos.size(), row.ends) << row.type;
  }
}

TEST(Config, QwenWindowsBeginAtMaxWindowLayers) {
  Json base = patched(llamaConfig(), json(R"({"model_type": "qwen2", "architectures": null, "num_hidden_layers": 4,
      "sliding_window": 16, "max_window_layers": 3})"));
  using Windows = std::vector<std::optional<int64_t>>;
  auto windows = [&](const char *patch) {
    Expected<DecoderConfig> config = read(patched(base, json(patch)));
    EXPECT_TRUE(bool(config)) << toString(config.takeError());
    return config->windows;
  };
  EXPECT_EQ(windows("{}"), Windows(4));
  EXPECT_EQ(windows(R"({"use_sliding_window": true})"), (Windows{{}, {}, {}, 16}));
  EXPECT_EQ(windows(R"({"use_sliding_window": true, "max_window_layers": 9})"), Windows(4));
  EXPECT_EQ(windows(R"({"use_sliding_window": true, "layer_types": ["sliding_attention", "full_attention",
                        "sliding_attention", "full_attention"]})"),
            (Windows{16, {}, 16, {}}));
}

//===----------------------------------------------------------------------===//
// What is refused
//===----------------------------------------------------------------------===//

struct Refusal {
  const char *name;
  const char *patch; // of a small Llama; "<gone>" removes a key
  std::vector<const char *> words;
};

class Refusals : public testing::TestWithParam<Refusal> {};

INSTANTIATE_TEST_SUITE_P(
    Config, Refusals,
    testing::Values(
        Refusal{"ModelTypeUnknown",
                R"({"model_type": "gpt9"})",
                {"'gpt9'", "llama, mistral, qwen2, qwen3, ernie4_5, tinylm"}},
        Refusal{"ModelTypeMissing", R"({"model_type": "<gone>"})", {"'model_type' is missing"}},
        Refusal{"OtherClass",
                R"({"architectures": ["LlamaForSequenceClassification"]})",
                {"'architectures'", "LlamaForSequenceClassification", "LlamaForCausalLM"}},
        Refusal{"UnknownKey", R"({"frobnicate": 3})", {"'frobnicate'", "--ignore-key=frobnicate"}},
        Refusal{"SizeMissing", R"({"hidden_size": "<gone>"})", {"'hidden_size' is missing"}},
        Refusal{"SizeNegative", R"({"hidden_size": -32})", {"'hidden_size'", "-32"}},
        Refusal{"SizeZero", R"({"num_hidden_layers": 0})", {"'num_hidden_layers'", "from 1 to", "got 0"}},
        Refusal{"SizeFraction", R"({"intermediate_size": 48.5})", {"'intermediate_size'", "integer", "48.5"}},
        Refusal{"SizeText", R"({"vocab_size": "20"})", {"'vocab_size'", "integer"}},
        Refusal{"SizeTrue", R"({"vocab_size": true})", {"'vocab_size'", "integer", "true"}},
        Refusal{"SizeHuge", R"({"vocab_size": 18446744073709551615})", {"'vocab_size'", "integer"}},
        Refusal{"SizeBeyondIds", R"({"vocab_size": 4294967296})", {"'vocab_size'", "2147483647"}},
        Refusal{"SizeNull", R"({"hidden_size": null})", {"'hidden_size'", "null"}},
        Refusal{"HeadsDoNotDivide",
                R"({"num_attention_heads": 5, "num_key_value_heads": 5})",
                {"'num_attention_heads'", "divisor of hidden_size (32)", "got 5"}},
        Refusal{"KvHeadsDoNotDivide", R"({"num_key_value_heads": 3})", {"divisor of 4", "got 3"}},
        Refusal{"KvHeadsTooMany", R"({"num_key_value_heads": 8})", {"divisor of 4", "got 8"}},
        Refusal{"HeadDimOdd", R"({"head_dim": 9})", {"even head_dim", "got 9"}},
        Refusal{"HeadsTimesHeadDim",
                R"({"hidden_size": 65536, "num_attention_heads": 65536, "num_key_value_heads": 1,
                                         "head_dim": 65536})",
                {"65536 heads of 65536", "16777216"}},
        Refusal{"HeadsTooLarge", R"({"hidden_size": 1048576, "num_attention_heads": 8})", {"131072", "65536"}},
        Refusal{"ParametersOverflow",
                R"({"hidden_size": 16777216, "intermediate_size": 16777216,
                                          "num_attention_heads": 1024, "num_hidden_layers": 16384})",
                {"parameters"}},
        Refusal{"EpsilonZero", R"({"rms_norm_eps": 0})", {"epsilon"}},
        Refusal{"EpsilonTiny", R"({"rms_norm_eps": 1e-60})", {"epsilon"}},
        Refusal{"EpsilonText", R"({"rms_norm_eps": "1e-5"})", {"'rms_norm_eps'", "number"}},
        Refusal{"Activation", R"({"hidden_act": "gelu"})", {"'hidden_act'", "'gelu'", "'silu'"}},
        Refusal{"TieText", R"({"tie_word_embeddings": "yes"})", {"'tie_word_embeddings'", "true or false"}},
        Refusal{"PretrainingTp", R"({"pretraining_tp": 2})", {"'pretraining_tp'", "expected 1", "got 2"}},
        Refusal{"InterleavedFlag", R"({"rope_interleaved": true})", {"'rope_interleaved'", "true"}},
        Refusal{"WindowOfLlama", R"({"sliding_window": 64})", {"'sliding_window'", "64"}},
        Refusal{"PartialRotary", R"({"partial_rotary_factor": 0.5})", {"'partial_rotary_factor'", "0.5"}},
        Refusal{"Quantized",
                R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})",
                {"'quantization_config'", "gptq"}},
        Refusal{"Experts", R"({"num_local_experts": 8})", {"'num_local_experts'", "experts", "8"}},
        Refusal{"CrossAttention", R"({"add_cross_attention": true})", {"'add_cross_attention'"}},
        Refusal{"LayerTypes",
                R"({"layer_types": ["full_attention", "sliding_attention"]})",
                {"'layer_types'", "layer 1", "sliding_attention"}},
        Refusal{"LayerTypesCount", R"({"layer_types": ["full_attention"]})", {"'layer_types'", "expected 2", "got 1"}},
        Refusal{"EosText", R"({"eos_token_id": "</s>"})", {"'eos_token_id'", "integer"}},
        Refusal{"EosNegative", R"({"eos_token_id": [2, -3]})", {"'eos_token_id'", "-3"}},
        Refusal{"RopeUnknown",
                R"({"rope_scaling": {"rope_type": "spiral", "factor": 2.0}})",
                {"rope_scaling.rope_type", "'spiral'", "longrope"}},
        Refusal{"RopeDynamic", R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})", {"'dynamic'", "chunked"}},
        Refusal{"RopeConflict",
                R"({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0}})",
                {"'rope_type' and 'type'", "'linear'", "'yarn'"}},
        Refusal{"RopeFactorAlone",
                R"({"rope_scaling": {"factor": 2.0}})",
                {"rope_scaling.factor", "without a 'rope_type'"}},
        Refusal{"RopeUnreadKey",
                R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "beta_fast": 32}})",
                {"rope_scaling.beta_fast", "--ignore-key=rope_scaling.beta_fast"}},
        Refusal{"RopeDefaultWithFactor",
                R"({"rope_scaling": {"rope_type": "default", "factor": 2.0}})",
                {"rope_scaling.factor"}},
        Refusal{"RopeLinearWithoutFactor",
                R"({"rope_scaling": {"rope_type": "linear"}})",
                {"rope_scaling.factor", "missing"}},
        Refusal{"RopeFactorText",
                R"({"rope_scaling": {"rope_type": "linear", "factor": "2"}})",
                {"rope_scaling.factor", "number"}},
        Refusal{"RopeFactorNegative",
                R"({"rope_scaling": {"rope_type": "linear", "factor": -2}})",
                {"rope_scaling.factor", "-2"}},
        Refusal{"RopeNotAnObject", R"({"rope_scaling": "linear"})", {"rope_scaling", "object"}},
        Refusal{"RopeThetaTwice",
                R"({"rope_theta": 10000, "rope_parameters": {"rope_theta": 500000}})",
                {"'rope_theta'", "twice"}},
        Refusal{"RopeTwice",
                R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0},
                                 "rope_parameters": {"rope_type": "linear", "factor": 4.0}})",
                {"'rope_scaling' and 'rope_parameters'"}},
        Refusal{"RopePartialInside",
                R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}})",
                {"rope_parameters.partial_rotary_factor", "0.25"}},
        Refusal{"Llama3Missing",
                R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}})",
                {"rope_scaling.high_freq_factor", "missing"}},
        Refusal{"Llama3Order",
                R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
                                   "high_freq_factor": 1.0}})",
                {"rope_scaling.high_freq_factor", "more than"}},
        Refusal{"YarnWithoutFactor", R"({"rope_scaling": {"rope_type": "yarn"}})", {"rope_scaling.factor", "missing"}},
        Refusal{"LongropeLength",
                R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [1, 1, 1],
                                      "long_factor": [1, 1, 1, 1]}})",
                {"rope_scaling.short_factor", "expected 4", "got 3"}},
        Refusal{"LongropeMissing",
                R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [1, 1, 1, 1]}})",
                {"rope_scaling.long_factor", "expected 4", "got 0"}},
        Refusal{"LongropeZero",
                R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [1, 0, 1, 1],
                                    "long_factor": [1, 1, 1, 1]}})",
                {"rope_scaling.short_factor", "positive"}},
        Refusal{"OriginalTwice",
                R"({"original_max_position_embeddings": 64, "rope_scaling": {"rope_type": "yarn",
                                     "factor": 2.0, "original_max_position_embeddings": 32}})",
                {"original_max_position_embeddings", "64", "32"}},
        Refusal{"QwenWindowless",
                R"({"model_type": "qwen2", "architectures": null,
                                      "layer_types": ["full_attention", "sliding_attention"]})",
                {"'layer_types'", "layer 1", "use_sliding_window"}},
        Refusal{"QwenLayerType",
                R"({"model_type": "qwen3", "architectures": null,
                                     "layer_types": ["full_attention", "linear_attention"]})",
                {"'layer_types'", "'linear_attention'"}},
        Refusal{"MistralBias",
                R"({"model_type": "mistral", "architectures": null, "attention_bias": true})",
                {"'attention_bias'", "true"}},
        Refusal{"MistralWindowZero",
                R"({"model_type": "mistral", "architectures": null, "sliding_window": 0})",
                {"'sliding_window'", "got 0"}}),
    [](const testing::TestParamInfo<Refusal> &info) { return info.param.name; });

TEST_P(Refusals, AreNamed) {
  const Refusal &refusal = GetParam();
  std::string error = errorText(read(patched(llamaConfig(), json(refusal.patch))));
  EXPECT_TRUE(StringRef(error).starts_with("config.json: ")) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  for (const char *word : refusal.words)
    EXPECT_NE(error.find(word), std::string::npos) << word << " in: " << error;
}

TEST(Config, TinyLMHasKeysOfItsOwn) {
  Json object = json(R"({"model_type": "tinylm", "vocab": 31, "hidden": 32, "intermediate": 64, "layers": 2,
                         "heads": 4, "kv_heads": 2})");
  Expected<DecoderConfig> config = read(object);
  ASSERT_TRUE(bool(config)) << toString(config.takeError());
  EXPECT_EQ(config->maxPosition, 2048);
  EXPECT_EQ(config->rope.pairs, RopePairs::Interleaved);
  EXPECT_TRUE(config->tied);
  object["max_position_embeddings"] = 64;
  EXPECT_EQ(cantFail(read(object)).maxPosition, 64);
  object["hidden_size"] = 32;
  EXPECT_NE(errorText(read(object)).find("'hidden_size'"), std::string::npos);
  object.erase("hidden_size");
  object["heads"] = 5;
  EXPECT_NE(errorText(read(object)).find("'heads'"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// The ledger
//===----------------------------------------------------------------------===//

TEST(Ledger, RecordsEveryKeyWithItsOutcome) {
  Json object = patched(llamaConfig(), json(R"({"use_cache": true, "frobnicate": [1, 2], "rope_scaling": {
      "rope_type": "linear", "factor": 2.0, "color": "red"}})"));
  Ledger ledger;
  std::vector<std::string> ignored = {"frobnicate", "rope_scaling.color"};
  Expected<DecoderConfig> config = read(object, ledger, ignored);
  ASSERT_TRUE(bool(config)) << toString(config.takeError());
  std::map<std::string, const LedgerEntry *> byName;
  for (const LedgerEntry &entry : ledger.keys())
    EXPECT_TRUE(byName.emplace(entry.what, &entry).second) << entry.what;
  for (const auto &[key, value] : object.items())
    EXPECT_EQ(byName.count("config.json: " + key), 1u) << key;
  EXPECT_EQ(byName["config.json: hidden_size"]->outcome, LedgerOutcome::Consumed);
  EXPECT_EQ(byName["config.json: hidden_size"]->detail, "32");
  EXPECT_EQ(byName["config.json: use_cache"]->outcome, LedgerOutcome::Inert);
  EXPECT_EQ(byName["config.json: frobnicate"]->outcome, LedgerOutcome::IgnoredKey);
  EXPECT_EQ(byName["config.json: rope_scaling.factor"]->outcome, LedgerOutcome::Consumed);
  EXPECT_EQ(byName["config.json: rope_scaling.color"]->outcome, LedgerOutcome::IgnoredKey);
  std::string summary = ledger.summary();
  EXPECT_NE(summary.find("2 ignored by --ignore-key"), std::string::npos) << summary;
  EXPECT_NE(summary.find("config.json: frobnicate ignored by --ignore-key ([1,2])"), std::string::npos) << summary;
  std::string lines = ledger.toJsonLines();
  EXPECT_EQ(size_t(std::count(lines.begin(), lines.end(), '\n')), ledger.keys().size());
  EXPECT_NE(lines.find(R"({"what":"config.json: hidden_size","outcome":"consumed","detail":"32"})"), std::string::npos)
      << lines;
}

TEST(Ledger, AnIgnoredKeyIsAbsent) {
  Ledger ledger;
  std::vector<std::string> ignored = {"quantization_config", "num_key_value_heads"};
  Json object = patched(llamaConfig(), json(R"({"quantization_config": {"bits": 4}})"));
  Expected<DecoderConfig> config = read(object, ledger, ignored);
  ASSERT_TRUE(bool(config)) << toString(config.takeError());
  EXPECT_EQ(config->kvHeads, 4);
}

//===----------------------------------------------------------------------===//
// GGUF's rope factors
//===----------------------------------------------------------------------===//

TEST(Rope, GgufFactorsDivideFrequencies) {
  Json object = patched(llamaConfig(), json(R"({"rope_freqs": [1, 2, 4, 8]})"));
  EXPECT_NE(errorText(read(object)).find("'rope_freqs'"), std::string::npos) << "a key of GGUF files only";
  Ledger ledger;
  Expected<DecoderConfig> config = read(object, ledger, {}, /*isGguf=*/true);
  ASSERT_TRUE(bool(config)) << toString(config.takeError());
  DecoderConfig plain = cantFail(read(llamaConfig()));
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(config->rope.frequencies[i], plain.rope.frequencies[i] / float(1 << i));
  EXPECT_TRUE(config->tokens.eos.empty()) << "a GGUF file names its end tokens itself";
  object["rope_freqs"] = {1, 2, 3};
  EXPECT_NE(errorText(read(object, ledger, {}, true)).find("expected 4 factors"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// generation_config.json
//===----------------------------------------------------------------------===//

Expected<GenerationDefaults> readGeneration(const Json &object, std::vector<std::string> *warnings = nullptr) {
  SpecialTokens tokens;
  tokens.bos = 1;
  tokens.eos = {2};
  Ledger ledger;
  std::vector<std::string> dropped;
  return readGenerationConfig(object, "generation_config.json", tokens, 20, {}, ledger, warnings ? *warnings : dropped);
}

TEST(Generation, AbsentFileGivesTheReferencesDefaults) {
  GenerationDefaults defaults = cantFail(readGeneration(Json()));
  EXPECT_EQ(defaults.present, 0u);
  EXPECT_FALSE(defaults.doSample);
  EXPECT_EQ(defaults.temperature, 1.0f);
  EXPECT_EQ(defaults.topK, 50u);
  EXPECT_EQ(defaults.topP, 1.0f);
  EXPECT_EQ(defaults.minP, 0.0f);
  EXPECT_EQ(defaults.repetitionPenalty, 1.0f);
  EXPECT_EQ(defaults.eos, std::vector<int32_t>{2});
  EXPECT_EQ(defaults.bos, 1);
  EXPECT_EQ(defaults.pad, -1);
}

TEST(Generation, ValuesAndEndTokensReplace) {
  GenerationDefaults defaults = cantFail(readGeneration(json(R"({"do_sample": true, "temperature": 0.6, "top_k": 20,
      "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.3, "eos_token_id": [5, 6], "pad_token_id": 0,
      "max_new_tokens": 64, "num_beams": 1, "transformers_version": "4.40.0", "no_repeat_ngram_size": 0})")));
  EXPECT_EQ(defaults.present, 63u);
  EXPECT_TRUE(defaults.doSample);
  EXPECT_EQ(defaults.temperature, 0.6f);
  EXPECT_EQ(defaults.topK, 20u);
  EXPECT_EQ(defaults.topP, 0.8f);
  EXPECT_EQ(defaults.minP, 0.05f);
  EXPECT_EQ(defaults.repetitionPenalty, 1.3f);
  EXPECT_EQ(defaults.eos, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(defaults.bos, 1);
  EXPECT_EQ(defaults.pad, 0);
  EXPECT_EQ(defaults.maxNewTokens, 64);
}

TEST(Generation, WithoutEndTokensTheModelsCount) {
  EXPECT_EQ(cantFail(readGeneration(json(R"({"do_sample": true})"))).eos, std::vector<int32_t>{2});
  EXPECT_EQ(cantFail(readGeneration(json(R"({"do_sample": true})"))).present, 1u);
  EXPECT_EQ(cantFail(readGeneration(json(R"({"eos_token_id": 7})"))).eos, std::vector<int32_t>{7});
}

TEST(Generation, IdsBeyondTheVocabularyAreToldOf) {
  std::vector<std::string> warnings;
  GenerationDefaults defaults = cantFail(readGeneration(json(R"({"eos_token_id": [3, 20]})"), &warnings));
  EXPECT_EQ(defaults.eos, std::vector<int32_t>{3});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("id 20"), std::string::npos) << warnings[0];
}

TEST(Config, IdsBeyondTheVocabularyAreToldOf) {
  Json object = json(R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 8, "num_hidden_layers": 3,
                         "num_attention_heads": 4, "vocab_size": 9, "bos_token_id": 9, "eos_token_id": [8, 100],
                         "pad_token_id": -1})");
  Ledger ledger;
  Expected<DecoderConfig> config = read(object, ledger);
  ASSERT_TRUE(bool(config)) << toString(config.takeError());
  EXPECT_FALSE(config->tokens.bos.has_value());
  EXPECT_FALSE(config->tokens.pad.has_value());
  EXPECT_EQ(config->tokens.eos, std::vector<int64_t>{8});
  EXPECT_EQ(
      config->warnings,
      (std::vector<std::string>{"config.json: key 'bos_token_id': id 9 is not below vocab_size 9 and never occurs",
                                "config.json: key 'eos_token_id': id 100 is not below vocab_size 9 and never occurs"}));
  std::map<std::string, std::string> details;
  for (const LedgerEntry &entry : ledger.keys())
    details[entry.what] = entry.detail;
  EXPECT_EQ(details["config.json: bos_token_id"], "9; id 9 is not below vocab_size 9 and never occurs");
  EXPECT_EQ(details["config.json: pad_token_id"], "-1");

  // A default of the architecture that the vocabulary lacks is nobody's mistake.
  object = json(R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 8, "num_hidden_layers": 3,
                    "num_attention_heads": 4, "vocab_size": 1})");
  config = read(object);
  ASSERT_TRUE(bool(config)) << toString(config.takeError());
  EXPECT_TRUE(config->tokens.eos.empty() && config->warnings.empty());
}

TEST(Generation, WhatIsNotBuiltIsNamed) {
  for (const char *text :
       {R"({"num_beams": 4})", R"({"no_repeat_ngram_size": 3})", R"({"typical_p": 0.5})", R"({"suppress_tokens": [1]})",
        R"({"guidance_scale": 1.5})", R"({"frobnicate": 1})", R"({"temperature": -1})", R"({"top_p": 1.5})",
        R"({"top_k": -1})", R"({"repetition_penalty": 0})", R"({"eos_token_id": "x"})", R"({"do_sample": 1})",
        R"({"stop_strings": ["x"]})", R"({"min_length": 5})"}) {
    Json object = json(text);
    std::string error = errorText(readGeneration(object));
    EXPECT_TRUE(StringRef(error).starts_with("generation_config.json: ")) << text << ": " << error;
    EXPECT_NE(error.find(object.begin().key()), std::string::npos) << error;
  }
}

} // namespace
