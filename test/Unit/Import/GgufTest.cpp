// What GGUF metadata and tensors become: config.json's keys, Hugging Face's names and order of rows, the tokenizer, and
// an error for every key that nothing takes.
#include "compiler/Import/Gguf.h"
#include "TestSupport.h"

using namespace ingot;
using namespace ingot::test;

using OpenedGguf = llvm::Expected<std::unique_ptr<GgufCheckpoint>>;

/// A model with all that must be there: 2 heads of 4 on 1, hidden 8, vocabulary 3.
static GgufBuilder minimal(const std::string &arch = "llama") {
  GgufBuilder b;
  b.text("general.architecture", arch).u32(arch + ".embedding_length", 8).u32(arch + ".feed_forward_length", 12);
  b.u32(arch + ".block_count", 1).u32(arch + ".attention.head_count", 2).u32(arch + ".attention.head_count_kv", 1);
  b.f32(arch + ".attention.layer_norm_rms_epsilon", 0.5f).u32(arch + ".context_length", 64);
  return b;
}

static GgufBuilder withTensors(GgufBuilder b) {
  return b.floats("token_embd.weight", {8, 3})
      .floats("blk.0.attn_q.weight", {8, 8})
      .floats("blk.0.attn_k.weight", {8, 4});
}

/// The config of a file, or its error as a string.
static Json configOf(const GgufBuilder &builder) {
  std::string bytes = builder.build();
  OpenedGguf file = GgufCheckpoint::fromMemory("m.gguf", bytes);
  return file ? (*file)->config() : Json(errorOf(std::move(file)));
}

static std::string errorFor(const GgufBuilder &builder, std::vector<std::string> ignored = {}) {
  std::string bytes = builder.build();
  return errorOf(GgufCheckpoint::fromMemory("m.gguf", bytes, ignored));
}

TEST(Gguf, Config) {
  Json config = configOf(withTensors(minimal()));
  EXPECT_EQ(config.dump(),
            R"({"model_type":"llama","hidden_size":8,"intermediate_size":12,"num_hidden_layers":1,)"
            R"("num_attention_heads":2,"num_key_value_heads":1,"head_dim":4,"rms_norm_eps":0.5,"hidden_act":"silu",)"
            R"("max_position_embeddings":64,"rope_theta":10000.0,"vocab_size":3,"attention_bias":false,)"
            R"("mlp_bias":false,"tie_word_embeddings":true})");
}

TEST(Gguf, ConfigFromTensors) {
  GgufBuilder b = withTensors(minimal("qwen3"));
  b.floats("blk.0.attn_q.bias", {8}).floats("output.weight", {8, 3});
  Json config = configOf(b);
  EXPECT_EQ(config["model_type"], "qwen3");
  EXPECT_EQ(config["attention_bias"], true);
  EXPECT_EQ(config["tie_word_embeddings"], false);
  EXPECT_FALSE(config.contains("mlp_bias"));
  // The head dimension is not hidden / heads: q's rows say so.
  config = configOf(minimal().floats("token_embd.weight", {8, 3}).floats("blk.0.attn_q.weight", {8, 12}));
  EXPECT_EQ(config["head_dim"], 6);
  EXPECT_EQ(configOf(withTensors(minimal("ernie4_5")))["use_bias"], false);
}

TEST(Gguf, Windows) {
  Json config = configOf(withTensors(minimal().u32("llama.attention.sliding_window", 16)));
  EXPECT_EQ(config["model_type"], "mistral");
  EXPECT_EQ(config["sliding_window"], 16);
  config = configOf(withTensors(minimal("qwen2").u32("qwen2.attention.sliding_window", 16)));
  EXPECT_EQ(config["model_type"], "qwen2");
  EXPECT_EQ(config["sliding_window"], 16);
  EXPECT_EQ(config["use_sliding_window"], true);
  EXPECT_EQ(config["max_window_layers"], 0);
  EXPECT_FALSE(configOf(withTensors(minimal().u32("llama.attention.sliding_window", 0))).contains("sliding_window"));
}

TEST(Gguf, RopeScaling) {
  auto scaling = [](auto add) {
    GgufBuilder b = minimal();
    add(b);
    Json config = configOf(withTensors(b));
    return config.is_string() ? config : config.contains("rope_scaling") ? config["rope_scaling"] : Json();
  };
  EXPECT_EQ(scaling([](GgufBuilder &b) { b.text("llama.rope.scaling.type", "none"); }), Json());
  EXPECT_EQ(
      scaling([](GgufBuilder &b) { b.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4); }),
      Json({{"rope_type", "linear"}, {"factor", 4.0}}));
  EXPECT_EQ(scaling([](GgufBuilder &b) { b.f32("llama.rope.scale_linear", 2); }),
            Json({{"rope_type", "linear"}, {"factor", 2.0}}));
  EXPECT_EQ(scaling([](GgufBuilder &b) {
              b.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4);
              b.u32("llama.rope.scaling.original_context_length", 16).f32("llama.rope.scaling.yarn_beta_fast", 16);
              b.f32("llama.rope.scaling.yarn_beta_slow", 2).f32("llama.rope.scaling.yarn_ext_factor", 1);
              b.boolean("llama.rope.scaling.finetuned", true);
            }),
            Json({{"rope_type", "yarn"},
                  {"factor", 4.0},
                  {"original_max_position_embeddings", 16},
                  {"beta_fast", 16.0},
                  {"beta_slow", 2.0}}));
  EXPECT_EQ(scaling([](GgufBuilder &b) {
              b.text("llama.rope.scaling.type", "longrope").u32("llama.rope.scaling.original_context_length", 16);
              b.f32("llama.rope.scaling.attn_factor", 1.25);
              b.floats("rope_factors_long.weight", {2}, 3).floats("rope_factors_short.weight", {2}, 1.5);
            }),
            Json({{"rope_type", "longrope"},
                  {"original_max_position_embeddings", 16},
                  {"attention_factor", 1.25},
                  {"long_factor", {3.0, 3.0}},
                  {"short_factor", {1.5, 1.5}}}));
  auto error = [&](auto add, std::initializer_list<llvm::StringRef> parts) {
    Json result = scaling(add);
    expectText(result.is_string() ? result.get<std::string>() : "no error", parts);
  };
  error([](GgufBuilder &b) { b.text("llama.rope.scaling.type", "spiral"); },
        {"m.gguf: key 'llama.rope.scaling.type' is 'spiral'; expected none, linear, yarn or longrope"});
  error([](GgufBuilder &b) { b.f32("llama.rope.scaling.factor", 4); },
        {"'llama.rope.scaling.factor' needs 'llama.rope.scaling.type'"});
  error([](GgufBuilder &b) { b.text("llama.rope.scaling.type", "linear"); },
        {"has no key 'llama.rope.scaling.factor'"});
  error([](GgufBuilder &b) { b.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", -1); },
        {"'llama.rope.scaling.factor' is -1", "expected a positive number"});
  error([](GgufBuilder &b) { b.text("llama.rope.scaling.type", "none").f32("llama.rope.scaling.factor", 2); },
        {"though the type of scaling is 'none'"});
  error([](GgufBuilder &b) { b.f32("llama.rope.scale_linear", 2).f32("llama.rope.scaling.factor", 2); },
        {"has both 'llama.rope.scale_linear'"});
  error(
      [](GgufBuilder &b) {
        b.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4);
        b.f32("llama.rope.scaling.attn_factor", 2);
      },
      {"key 'llama.rope.scaling.attn_factor' is f32 2.000000, which is not supported; expected 1"});
  error(
      [](GgufBuilder &b) {
        b.text("llama.rope.scaling.type", "longrope").u32("llama.rope.scaling.original_context_length", 16);
      },
      {"has no tensor 'rope_factors_long.weight'"});
}

TEST(Gguf, RopeFrequencies) {
  std::string bytes = withTensors(minimal()).floats("rope_freqs.weight", {2}, 8).build();
  OpenedGguf file = GgufCheckpoint::fromMemory("m.gguf", bytes);
  ASSERT_TRUE(bool(file)) << errorOf(std::move(file));
  EXPECT_EQ((*file)->config()["rope_freqs"], Json({8.0, 8.0}));
  EXPECT_EQ((*file)->find("rope_freqs.weight"), nullptr);
  expectText(errorFor(withTensors(minimal()).floats("rope_freqs.weight", {4})),
             {"tensor 'rope_freqs.weight' is F32 of shape [4]; expected F32 of shape [2]"});
  expectText(errorFor(withTensors(minimal()).floats("rope_freqs.weight", {2}, 0)), {"expected positive numbers"});
}

TEST(Gguf, RefusedByName) {
  GgufBuilder none;
  expectText(errorFor(none.u32("a", 1)), {"m.gguf: has no key 'general.architecture'"});
  expectText(errorFor(minimal("bloom")),
             {"general.architecture is 'bloom', which is not supported; expected one of llama"});
  expectText(errorFor(withTensors(minimal().u32("llama.mystery", 7))),
             {"the metadata key 'llama.mystery' (u32 7) is not known", "--ignore-key='llama.mystery'"});
  EXPECT_EQ(errorFor(withTensors(minimal().u32("llama.mystery", 7)), {"llama.mystery"}), "no error");
  expectText(errorFor(withTensors(minimal().u32("a\nb", 7))), {"the metadata key 'a\\x0ab'"}); // found by fuzzing
  expectText(errorFor(withTensors(minimal().u32("tokenizer.ggml.mystery", 7))), {"'tokenizer.ggml.mystery'"});
  expectText(errorFor(withTensors(minimal().u32("llama.rope.dimension_count", 2))),
             {"key 'llama.rope.dimension_count' is 2; partial rotary embedding is not supported", "head dimension 4"});
  expectText(errorFor(withTensors(minimal().u32("llama.expert_count", 8))), {"key 'llama.expert_count' is u32 8"});
  EXPECT_EQ(errorFor(withTensors(minimal().u32("llama.expert_count", 0))), "no error");
  expectText(errorFor(withTensors(minimal().boolean("llama.attention.causal", false))),
             {"'llama.attention.causal' is bool false"});
  expectText(errorFor(withTensors(minimal().u32("llama.attention.value_length", 5))),
             {"'llama.attention.value_length' is 5; values of another size than keys (4)"});
  expectText(errorFor(withTensors(minimal().f32("llama.rope.freq_base", 0))), {"'llama.rope.freq_base' is 0"});
  GgufBuilder perLayer;
  perLayer.text("general.architecture", "llama").u32("llama.embedding_length", 8);
  expectText(errorFor(perLayer.u32s("llama.feed_forward_length", {12, 16})),
             {"key 'llama.feed_forward_length': values that differ between layers"});
  GgufBuilder wrong;
  expectText(errorFor(wrong.text("general.architecture", "llama").text("llama.embedding_length", "x")),
             {"key 'llama.embedding_length' is string 'x'; expected an integer"});
  GgufBuilder absent;
  expectText(errorFor(absent.text("general.architecture", "llama")), {"has no key 'llama.embedding_length'"});
  GgufBuilder zero;
  expectText(errorFor(zero.text("general.architecture", "llama").u32("llama.embedding_length", 0)),
             {"key 'llama.embedding_length' is 0; expected 1 or more"});
  for (const char *heads : {"llama.attention.head_count", "llama.attention.head_count_kv"}) {
    GgufBuilder b;
    b.text("general.architecture", "llama").u32("llama.embedding_length", 8).u32("llama.feed_forward_length", 12);
    b.u32("llama.block_count", 1).u32(heads, 0);
    expectText(errorFor(withTensors(b)), {"llama.attention.head_count"});
  }
}

TEST(Gguf, Sampling) {
  auto sampling = [](GgufBuilder b) {
    std::string bytes = withTensors(b).build();
    OpenedGguf file = GgufCheckpoint::fromMemory("m.gguf", bytes);
    return file ? (*file)->generationConfig() : Json(errorOf(std::move(file)));
  };
  EXPECT_TRUE(sampling(minimal()).is_null());
  GgufBuilder b = minimal();
  b.f32("general.sampling.temp", 0.5f).u32("general.sampling.top_k", 20).f32("general.sampling.top_p", 0.75f);
  b.f32("general.sampling.min_p", 0.25f).raw("general.sampling.penalty_last_n", 5, le<int32_t>(64));
  EXPECT_EQ(sampling(b),
            Json({{"temperature", 0.5}, {"top_p", 0.75}, {"min_p", 0.25}, {"top_k", 20}, {"do_sample", true}}));
  EXPECT_EQ(sampling(minimal().f32("general.sampling.temp", 0)), Json({{"do_sample", false}}));
  b.f32("general.sampling.penalty_repeat", 1.5f);
  expectText(sampling(b).get<std::string>(), {"key 'general.sampling.penalty_last_n' is i32 64", "expected -1"});
  expectText(errorFor(withTensors(minimal().u32("general.sampling.mirostat", 2))),
             {"'general.sampling.mirostat' is u32 2"});
  expectText(errorFor(withTensors(minimal().text("general.sampling.sequence", "kt"))),
             {"the metadata key 'general.sampling.sequence' (string 'kt') is not known"});
}

TEST(Gguf, AdaptersAreRefused) {
  EXPECT_EQ(errorFor(withTensors(minimal().text("general.type", "model"))), "no error");
  expectText(errorFor(withTensors(minimal().text("general.type", "adapter"))),
             {"general.type is 'adapter'; expected 'model'", "merged"});
}

TEST(Gguf, PermutedRowsMustFit) {
  expectText(errorFor(minimal()
                          .floats("token_embd.weight", {8, 3})
                          .floats("blk.0.attn_q.weight", {8, 8})
                          .floats("blk.0.attn_k.weight", {8, 6})),
             {"m.gguf: tensor 'blk.0.attn_k.weight': has the shape [6, 8]; expected 1 heads", "4 each"});
  expectText(errorFor(minimal().floats("token_embd.weight", {8, 3}).floats("blk.0.attn_q.weight", {8, 6})),
             {"tensor 'blk.0.attn_q.weight'", "an even number of rows"});
}

TEST(Gguf, Tokenizer) {
  auto tokens = [] { return withTensors(minimal().texts("tokenizer.ggml.tokens", {"a", "b", "c"})); };
  expectText(errorFor(tokens().u32s("tokenizer.ggml.token_type", {1})),
             {"key 'tokenizer.ggml.token_type' has 1 elements; expected 3"});
  expectText(errorFor(tokens().u32s("tokenizer.ggml.merges", {1})),
             {"key 'tokenizer.ggml.merges' is array of 1 u32; expected an array of strings"});
  expectText(errorFor(tokens().u32("tokenizer.ggml.eos_token_id", 3)),
             {"key 'tokenizer.ggml.eos_token_id' is 3; expected an id below the number of tokens, 3"});
  Json config = configOf(tokens().u32("tokenizer.ggml.eos_token_id", 1).u32("tokenizer.ggml.eot_token_id", 2));
  EXPECT_EQ(config["eos_token_id"], Json({1, 2}));
}

/// A tensor that gguf-py wrote holds r + c / 64 (a vector i / 4) in Hugging Face's order.
static void expectPattern(const Checkpoint &checkpoint) {
  for (const TensorInfo &tensor : checkpoint.tensors()) {
    int64_t columns = tensor.rowSize();
    auto expected = [&](int64_t row, int64_t column) {
      return tensor.shape.size() == 1 ? float(column) / 4 : float(row) + float(column) / 64;
    };
    std::vector<float> row(columns), decoded(columns);
    std::string stored(columns * elementKindInfo(tensor.dtype).blockBytes, 0);
    for (int64_t r = 0; r < tensor.rows(); ++r) {
      ASSERT_EQ(errorOf(checkpoint.readF32(tensor, r, 1, row)), "no error");
      ASSERT_EQ(errorOf(checkpoint.readStored(tensor, r, 1, {stored.data(), stored.size()})), "no error");
      ASSERT_TRUE(convertToF32(tensor.dtype, stored, decoded));
      for (int64_t c = 0; c < columns; ++c) {
        ASSERT_EQ(row[c], expected(r, c)) << tensor.name << " " << r << " " << c;
        ASSERT_EQ(decoded[c], expected(r, c)) << tensor.name << " " << r << " " << c;
      }
    }
    std::vector<float> all(tensor.elements());
    ASSERT_EQ(errorOf(checkpoint.readF32(tensor, 0, tensor.rows(), all)), "no error");
    EXPECT_EQ(all[all.size() - 1], expected(tensor.rows() - 1, columns - 1));
  }
}

TEST(Gguf, LlamaFromGgufPy) {
  OpenedGguf file = GgufCheckpoint::open(INGOT_FIXTURES "/llama.gguf");
  ASSERT_TRUE(bool(file)) << errorOf(std::move(file));
  expectPattern(**file);
  EXPECT_EQ((*file)->tensors().size(), 14u);
  for (const char *name : {"model.embed_tokens.weight", "model.norm.weight", "model.layers.0.input_layernorm.weight",
                           "model.layers.0.post_attention_layernorm.weight", "model.layers.0.self_attn.q_proj.weight",
                           "model.layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.k_proj.bias",
                           "model.layers.0.self_attn.v_proj.bias", "model.layers.0.self_attn.o_proj.weight",
                           "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight",
                           "model.layers.0.mlp.down_proj.weight"})
    EXPECT_NE((*file)->find(name), nullptr) << name;
  const TensorInfo *q = (*file)->find("model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(q->storedName, "blk.0.attn_q.weight");
  EXPECT_EQ(q->dtype, ElementKind::F16);
  expectText(errorOf((*file)->rawBytes(*q)), {"tensor 'blk.0.attn_q.weight'", "rows must be read"});
  EXPECT_TRUE(bool((*file)->rawBytes(*(*file)->find("model.layers.0.self_attn.v_proj.weight"))));
  EXPECT_EQ((*file)->config()["attention_bias"], true);
  EXPECT_EQ((*file)->config()["rope_theta"], 50000.0);
  EXPECT_EQ((*file)->displayName(), "Fixture");
  EXPECT_EQ((*file)->license(), "apache-2.0");
  const GgufTokenizer *tokenizer = (*file)->tokenizer();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->model, "gpt2");
  EXPECT_EQ(tokenizer->pre, "smollm");
  EXPECT_EQ(tokenizer->tokens.size(), 10u);
  EXPECT_EQ(tokenizer->tokens[9], "t9");
  EXPECT_EQ(tokenizer->tokenTypes[0], 3);
  EXPECT_EQ(tokenizer->merges, (std::vector<llvm::StringRef>{"t 0", "t 1"}));
  EXPECT_EQ(tokenizer->bosId, 0);
  EXPECT_EQ(tokenizer->eosId, 1);
  EXPECT_EQ(tokenizer->addBos, true);
  EXPECT_EQ(tokenizer->addEos, std::nullopt);
  EXPECT_EQ(tokenizer->chatTemplate, llvm::StringRef("{{ messages }}"));
}

TEST(Gguf, EveryKeyIsAccountedFor) {
  OpenedGguf file = GgufCheckpoint::open(INGOT_FIXTURES "/llama.gguf");
  ASSERT_TRUE(bool(file));
  std::string bytes = readFile(INGOT_FIXTURES "/llama.gguf");
  llvm::Expected<GgufFile> raw = parseGguf("m", bytes);
  ASSERT_TRUE(bool(raw));
  std::map<std::string, GgufKeyUse::Use> uses;
  for (const GgufKeyUse &use : (*file)->keyUses())
    EXPECT_TRUE(uses.emplace(use.key, use.use).second) << use.key;
  for (const auto &[key, value] : raw->metadata)
    EXPECT_EQ(uses.count(key.str()), 1u) << key.str();
  EXPECT_EQ(uses.size(), raw->metadata.size());
  EXPECT_EQ(uses["llama.block_count"], GgufKeyUse::Use::Consumed);
  EXPECT_EQ(uses["general.file_type"], GgufKeyUse::Use::Inert);
  EXPECT_EQ(uses["tokenizer.ggml.merges"], GgufKeyUse::Use::Tokenizer);
}

TEST(Gguf, Qwen2RowsAreNotPermuted) {
  OpenedGguf file = GgufCheckpoint::open(INGOT_FIXTURES "/qwen2.gguf");
  ASSERT_TRUE(bool(file)) << errorOf(std::move(file));
  expectPattern(**file);
  EXPECT_TRUE(bool((*file)->rawBytes(*(*file)->find("model.layers.0.self_attn.q_proj.weight"))));
}

TEST(Gguf, SplitFromGgufPy) {
  OpenedGguf file = GgufCheckpoint::open(INGOT_FIXTURES "/split-00001-of-00003.gguf");
  ASSERT_TRUE(bool(file)) << errorOf(std::move(file));
  expectPattern(**file);
  EXPECT_EQ((*file)->tensors().size(), 14u);
}

TEST(Gguf, SplitFaults) {
  TemporaryDirectory home;
  std::string parts[3];
  for (int i = 0; i < 3; ++i)
    parts[i] = readFile(INGOT_FIXTURES "/split-0000" + std::to_string(i + 1) + "-of-00003.gguf");
  auto write = [&](int place, const std::string &content) {
    return home.write("m-0000" + std::to_string(place) + "-of-00003.gguf", content);
  };
  std::string first = write(1, parts[0]);
  expectText(errorOf(GgufCheckpoint::open(first)), {"m-00002-of-00003.gguf: cannot be opened"});
  write(2, parts[1]);
  write(3, parts[1]);
  expectText(errorOf(GgufCheckpoint::open(first)), {"m-00003-of-00003.gguf: key 'split.no' is 1; expected 2"});
  write(3, parts[2]);
  EXPECT_EQ(errorOf(GgufCheckpoint::open(first)), "no error");
  expectText(errorOf(GgufCheckpoint::open(home.path("m-00002-of-00003.gguf"))),
             {"is file 2 of 3 of a split model; name the first one", "m-00001-of-00003.gguf"});
  expectText(errorOf(GgufCheckpoint::open(home.write("other.gguf", parts[0]))),
             {"other.gguf: is one of 3 files of a split model", "-00001-of-00003.gguf"});
  expectText(errorOf(GgufCheckpoint::open(home.write("o-00002-of-00003.gguf", parts[0]))),
             {"its name says file 2", "'split.no' says 0"});
  GgufBuilder tail;
  tail.raw("split.no", 2, le<uint16_t>(2)).raw("split.count", 2, le<uint16_t>(3));
  write(3, GgufBuilder(tail).floats("x", {1}).build());
  expectText(errorOf(GgufCheckpoint::open(first)), {"'split.tensors.count' is 14; the files of the split hold"});
  write(3, GgufBuilder(tail).u32("llama.block_count", 1).build());
  expectText(errorOf(GgufCheckpoint::open(first)), {"'llama.block_count' is in a later file of the split"});
}
