// From models on disk, in memory and in IR to modules: which ops there are, where tensors went, what is refused.
#include "compiler/Import/Import.h"
#include "compiler/Import/EmitIngot.h"
#include "compiler/Import/RandomCheckpoint.h"
#include "dialects/ingot/Ingot.h"
#include "mlir/IR/MLIRContext.h"
#include "test/Unit/Models/Support.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>

using namespace ingot;
using namespace ingot::test;
using namespace llvm;

namespace {

std::string print(mlir::ModuleOp module) {
  std::string text;
  raw_string_ostream stream(text);
  module->print(stream);
  return text;
}

/// How often a text occurs.
size_t count(StringRef text, StringRef what) { return text.count(what); }

std::string caseDir(StringRef name) { return (Twine(INGOT_CASES_DIR) + "/" + name + "/model").str(); }

/// A file that is gone at the end of the test.
class TemporaryFile {
public:
  TemporaryFile(StringRef suffix, StringRef content) {
    int descriptor;
    SmallString<128> name;
    EXPECT_FALSE(sys::fs::createTemporaryFile("ingot-models", suffix, descriptor, name));
    raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << content;
    path = name.str().str();
  }
  ~TemporaryFile() { EXPECT_FALSE(sys::fs::remove(path)); }
  std::string path;
};

/// Imports a configuration with random weights.
Expected<ImportResult> importConfig(mlir::MLIRContext &context, const Json &config, ImportOptions options = {}) {
  TemporaryFile file("json", config.dump());
  options.randomSeed = 7;
  return importModel(context, file.path, options);
}

std::string importText(const Json &config, ImportOptions options = {}) {
  mlir::MLIRContext context;
  Expected<ImportResult> result = importConfig(context, config, options);
  return result ? print(*result->module) : "error: " + toString(result.takeError());
}

struct GoldenModel {
  const char *name;
  const char *expected; // a piece of text that shows what the case is about
};

class GoldenModels : public testing::TestWithParam<GoldenModel> {};

// One row per architecture and option: each golden case becomes a verified module.
INSTANTIATE_TEST_SUITE_P(
    Import, GoldenModels,
    testing::Values(
        GoldenModel{"llama-mha", "!ingot.kv_cache<2 x 4 x 16 x f32>"},
        GoldenModel{"llama-gqa-tied", "weights(%0 : tensor<192x48xf32>)"},
        GoldenModel{"llama-mqa", "!ingot.kv_cache<3 x 1 x 12 x f32>"},
        GoldenModel{"llama-sharded", "architecture = \"llama\""}, GoldenModel{"llama-bf16", "tensor<80x64xbf16>"},
        GoldenModel{"llama-f16", "tensor<80x64xf16>"}, GoldenModel{"llama-untied-1000", "@lm_head \"lm_head.weight\""},
        GoldenModel{"llama-bias", "@layer.down_proj_bias \"model.layers.{layer}.mlp.down_proj.bias\""},
        GoldenModel{"llama-rope-parameters", " half inv_freq = [1.000000e+00, "},
        GoldenModel{"llama3-rope", " half inv_freq = [1.000000e+00, "}, GoldenModel{"mistral-window", "window = 8"},
        GoldenModel{"qwen2", "@layer.v_proj_bias"}, GoldenModel{"qwen3", "@layer.k_norm"},
        GoldenModel{"tinylm-interleaved", " interleaved inv_freq = [1.000000e+00, "},
        GoldenModel{"tinylm-gqa", "\"blocks.{layer}.attn.q.weight\""}, GoldenModel{"tinylm-mha", "x 4 x 8 x f32>"},
        GoldenModel{"tinylm-mqa", "x 1 x 8 x f32>"}, GoldenModel{"repetition-penalty", "@layer.q_proj_bias"}),
    [](const testing::TestParamInfo<GoldenModel> &info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST_P(GoldenModels, BecomeModules) {
  mlir::MLIRContext context;
  Expected<ImportResult> result = importModel(context, caseDir(GetParam().name));
  ASSERT_TRUE(bool(result)) << toString(result.takeError());
  EXPECT_TRUE(result->warnings.empty()) << result->warnings.front();
  std::string text = print(*result->module);
  EXPECT_NE(text.find(GetParam().expected), std::string::npos) << text;
  // Every tensor was claimed once, every key recorded.
  EXPECT_EQ(result->ledger.tensors().size(), result->checkpoint->tensors().size());
  EXPECT_GE(result->ledger.keys().size(), 7u);
}

TEST(Import, GgufFilesBecomeModules) {
  for (const char *name : {"gguf-f32", "gguf-q8_0"}) {
    mlir::MLIRContext context;
    Expected<ImportResult> result = importModel(context, (Twine(INGOT_CASES_DIR) + "/" + name + "/model.gguf").str());
    ASSERT_TRUE(bool(result)) << name << ": " << toString(result.takeError());
    std::string text = print(*result->module);
    // Quantized tensors stay so; not all weights of the second file are f32, so its cache is f16.
    bool quantized = StringRef(name) == "gguf-q8_0";
    EXPECT_NE(
        text.find(quantized ? "weights(%2 : tensor<64x64x!ingot.quantized<q8_0>>)" : "weights(%2 : tensor<64x64xf32>)"),
        std::string::npos)
        << text;
    EXPECT_NE(text.find(quantized ? " x f16>" : " x f32>"), std::string::npos) << text;
    EXPECT_EQ(result->ledger.tensors().size(), result->checkpoint->tensors().size());
    EXPECT_GT(result->ledger.keys().size(), 10u);
    EXPECT_TRUE(result->tokenizer.gguf);
    EXPECT_FALSE(result->generation.eos.empty());
  }
}

TEST(Import, GoldenRefusalsAreNamed) {
  mlir::MLIRContext context;
  EXPECT_NE(errorText(importModel(context, caseDir("refuse-rope-type"))).find("spiral"), std::string::npos);
  std::string error = errorText(importModel(context, caseDir("refuse-missing-tensor")));
  EXPECT_NE(error.find("model.layers.0.mlp.up_proj.weight"), std::string::npos) << error;
  EXPECT_NE(error.find("missing"), std::string::npos) << error;
}

//===----------------------------------------------------------------------===//
// Options of architectures, on random weights
//===----------------------------------------------------------------------===//

TEST(Import, WindowsMakeTwoKinds) {
  Json config = patched(llamaConfig(), json(R"({"model_type": "qwen2", "architectures": null, "num_hidden_layers": 5,
      "use_sliding_window": true, "sliding_window": 16, "layer_types": ["full_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention"]})"));
  std::string text = importText(config);
  EXPECT_NE(
      text.find("[#ingot.run<@layer_full, first = 0, count = 2>, #ingot.run<@layer_window, first = 0, count = 1>, "
                "#ingot.run<@layer_full, first = 2, count = 1>, #ingot.run<@layer_window, first = 1, count = 1>]"),
      std::string::npos)
      << text;
  EXPECT_EQ(count(text, "window = 16"), 1u);
  EXPECT_EQ(count(text, "ingot.attention"), 2u);
  EXPECT_NE(text.find("@layer_window.q_proj \"model.layers.{layer}.self_attn.q_proj.weight\" kind @layer_window"),
            std::string::npos);
}

TEST(Import, ModulesOfOneKindDifferInTheLayerCountOnly) {
  Json config = llamaConfig();
  std::string two = importText(config);
  config["num_hidden_layers"] = 28;
  std::string many = importText(config);
  EXPECT_NE(two, many);
  for (size_t at; (at = many.find("<28 x ")) != std::string::npos;)
    many.replace(at, 6, "<2 x ");
  size_t at = many.find("count = 28");
  ASSERT_NE(at, std::string::npos);
  many.replace(at, 10, "count = 2");
  EXPECT_EQ(two, many);
}

TEST(Import, InertKeysLeaveTheModuleAsItIs) {
  std::string before = importText(llamaConfig());
  for (const char *patch :
       {R"({"use_cache": false})", R"({"initializer_range": 3.0})", R"({"attention_dropout": 0.5})",
        R"({"transformers_version": "1.0"})", R"({"_name_or_path": "elsewhere"})", R"({"pretraining_tp": 1})",
        R"({"is_llama_config": true})", R"({"temperature": 3})", R"({"id2label": {"0": "x"}})",
        R"({"output_attentions": true})", R"({"rope_scaling": null})", R"({"original_max_position_embeddings": 3})"})
    EXPECT_EQ(importText(patched(llamaConfig(), json(patch))), before) << patch;
  EXPECT_NE(importText(patched(llamaConfig(), json(R"({"rms_norm_eps": 1e-6})"))), before);
}

// The whole reviewed list: at every value that a row allows, the module is the one without the key. (inert_keys.py
// checks the list itself against the reference.)
TEST(Import, TheListOfInertKeysIsInert) {
  Json base = json(R"({"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                       "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 20})");
  size_t checked = 0;
  for (const Architecture *architecture : architectures()) {
    if (architecture->className.empty())
      continue; // keys of its own
    base["model_type"] = architecture->modelType.str();
    std::string before = importText(base);
    ASSERT_TRUE(StringRef(before).starts_with("module")) << before;
    for (ArrayRef<InertKey> list : {architecture->inert, sharedInertKeys(), generationInertKeys()})
      for (const InertKey &row : list) {
        SmallVector<StringRef, 4> values;
        StringRef(row.onlyAt.empty() ? "1|true|\"text\"|null|[]" : row.onlyAt).split(values, '|');
        for (StringRef value : values) {
          Json changed = base;
          changed[row.key.str()] = json(value);
          EXPECT_EQ(importText(changed), before)
              << architecture->modelType.str() << ": " << row.key.str() << " = " << value.str();
          ++checked;
        }
        if (row.onlyAt.empty())
          continue;
        Json changed = base;
        changed[row.key.str()] = 12345;
        EXPECT_NE(importText(changed).find(row.key.str()), std::string::npos) << row.key.str();
      }
  }
  EXPECT_GT(checked, 1000u);
}

TEST(Import, BiasesReachTheLinears) {
  std::string text = importText(patched(llamaConfig(), json(R"({"attention_bias": true, "mlp_bias": true})")));
  EXPECT_EQ(count(text, " bias("), 7u) << text;
  text = importText(patched(llamaConfig(), json(R"({"model_type": "qwen2", "architectures": null})")));
  EXPECT_EQ(count(text, " bias("), 3u) << text;
  text = importText(patched(llamaConfig(), json(R"({"model_type": "ernie4_5", "architectures": null,
                                                    "use_bias": true})")));
  EXPECT_EQ(count(text, " bias("), 7u) << text;
}

TEST(Import, TypesOfRandomWeightsAndCache) {
  ImportOptions options;
  EXPECT_NE(importText(llamaConfig()).find("kv_cache<2 x 2 x 8 x f32>"), std::string::npos);
  Json half = patched(llamaConfig(), json(R"({"torch_dtype": "bfloat16"})"));
  std::string text = importText(half);
  EXPECT_NE(text.find("kv_cache<2 x 2 x 8 x f16>"), std::string::npos) << text;
  EXPECT_NE(text.find("tensor<20x32xbf16>"), std::string::npos) << text;
  options.dtype = ElementKind::F32;
  EXPECT_NE(importText(half, options).find("kv_cache<2 x 2 x 8 x f32>"), std::string::npos);
  options.kvDtype = ElementKind::BF16;
  EXPECT_NE(importText(half, options).find("kv_cache<2 x 2 x 8 x bf16>"), std::string::npos);
  half["torch_dtype"] = "float64";
  EXPECT_NE(importText(half).find("error: "), std::string::npos);
}

TEST(Import, LimitsAreChecked) {
  ImportOptions options;
  options.maxContext = 64;
  EXPECT_NE(importText(llamaConfig(), options).find("maxContext = 64"), std::string::npos);
  options.maxContext = 129;
  std::string text = importText(llamaConfig(), options);
  EXPECT_NE(text.find("--max-context: expected 1 to 128"), std::string::npos) << text;
  options.maxContext = 0;
  options.maxBatch = 0;
  EXPECT_NE(importText(llamaConfig(), options).find("--max-batch"), std::string::npos);
}

TEST(Import, AKeyThatIsNotThereCannotBeIgnored) {
  mlir::MLIRContext context;
  ImportOptions options;
  options.ignoredKeys = {"hiden_size"};
  Expected<ImportResult> result = importConfig(context, llamaConfig(), options);
  ASSERT_TRUE(bool(result));
  ASSERT_EQ(result->warnings.size(), 1u);
  EXPECT_EQ(result->warnings[0], "--ignore-key=hiden_size matches no key");
}

TEST(Import, WarningsOfTheConfigurationAreHandedOn) {
  mlir::MLIRContext context;
  Expected<ImportResult> result = importConfig(context, patched(llamaConfig(), json(R"({"eos_token_id": 1000000})")));
  ASSERT_TRUE(bool(result));
  EXPECT_TRUE(result->generation.eos.empty());
  ASSERT_EQ(result->warnings.size(), 1u);
  EXPECT_NE(result->warnings[0].find("key 'eos_token_id': id 1000000 is not below"), std::string::npos);
}

TEST(Import, LongropeHasTwoSetsOfFrequencies) {
  std::string text = importText(patched(llamaConfig(), json(R"({"rope_scaling": {"rope_type": "longrope",
      "short_factor": [1, 1, 1, 1], "long_factor": [2, 2, 4, 4], "original_max_position_embeddings": 32}})")));
  EXPECT_NE(text.find("long_inv_freq = [5.000000e-01, "), std::string::npos) << text;
  EXPECT_NE(text.find("long_from = 32"), std::string::npos) << text;
}

TEST(Import, LocationsAreTensorsAndKeys) {
  mlir::MLIRContext context;
  Expected<ImportResult> result = importConfig(context, llamaConfig());
  ASSERT_TRUE(bool(result));
  StringSet<> names;
  result->module->walk([&](mlir::Operation *op) {
    auto name = dyn_cast<mlir::NameLoc>(op->getLoc());
    ASSERT_TRUE(name) << op->getName().getStringRef().str();
    names.insert(name.getName());
  });
  for (const char *name : {"model.embed_tokens.weight", "model.layers.{layer}.self_attn.q_proj.weight", "rope_theta",
                           "hidden_act", "num_attention_heads", "model_type", "lm_head.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Emits a small Llama over a checkpoint that a test has changed.
struct EmitTest : testing::Test {
  mlir::MLIRContext context;
  DecoderConfig config = readConfig(llamaConfig());
  EmitOptions options;
  Ledger ledger;
  std::vector<std::string> warnings;

  static DecoderConfig readConfig(const Json &object) {
    Ledger ledger;
    return cantFail(readDecoderConfig(object, "config.json", {}, ledger));
  }
  std::string emit(const Checkpoint &checkpoint) {
    auto module = emitIngot(context, config, checkpoint, options, ledger, warnings);
    return module ? print(**module) : "error: " + toString(module.takeError());
  }
};

TEST_F(EmitTest, LayersOfOtherStorageAreAnotherKind) {
  MemoryCheckpoint checkpoint;
  config.layers = 3;
  config.windows.resize(3);
  for (const ExpectedTensor &tensor : expectedTensors(config))
    checkpoint.add(tensor.name, tensor.shape,
                   StringRef(tensor.name).contains("layers.1.mlp.down") ? ElementKind::F16 : ElementKind::BF16);
  std::string text = emit(checkpoint);
  EXPECT_NE(text.find("[#ingot.run<@layer_bf16, first = 0, count = 1>, #ingot.run<@layer_mixed, first = 0, count = 1>, "
                      "#ingot.run<@layer_bf16, first = 1, count = 1>]"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("kind @layer_mixed part \"mlp\" : tensor<32x48xf16>"), std::string::npos) << text;
}

TEST_F(EmitTest, TiedAndStoredEqualIsTied) {
  config.tied = true;
  MemoryCheckpoint checkpoint(config);
  checkpoint.add("lm_head.weight", {20, 32});
  checkpoint.data("lm_head.weight") = checkpoint.data("model.embed_tokens.weight");
  std::string text = emit(checkpoint);
  EXPECT_EQ(count(text, "lm_head"), 0u) << text;
  EXPECT_TRUE(warnings.empty());
  EXPECT_NE(ledger.toJsonLines().find("equal to model.embed_tokens.weight"), std::string::npos);
}

TEST_F(EmitTest, TiedAndStoredDifferentIsUntiedWithAWarning) {
  config.tied = true;
  MemoryCheckpoint checkpoint(config);
  checkpoint.add("lm_head.weight", {20, 32});
  checkpoint.data("lm_head.weight") = checkpoint.data("model.embed_tokens.weight");
  checkpoint.data("lm_head.weight").back() += 1;
  std::string text = emit(checkpoint);
  EXPECT_NE(text.find("@lm_head \"lm_head.weight\""), std::string::npos) << text;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("lm_head.weight"), std::string::npos) << warnings[0];
}

TEST_F(EmitTest, MissingHeadIsAnError) {
  DecoderConfig tied = config;
  tied.tied = true;
  std::string text = emit(MemoryCheckpoint(tied));
  EXPECT_NE(text.find("tensor 'lm_head.weight' is missing; expected one of shape [20, 32]"), std::string::npos) << text;
}

TEST_F(EmitTest, ABiasThatTheConfigurationDeniesIsUnused) {
  MemoryCheckpoint checkpoint(config);
  checkpoint.add("model.layers.1.self_attn.q_proj.bias", {32});
  checkpoint.add("model.layers.1.self_attn.k_proj.bias", {16});
  std::string text = emit(checkpoint);
  EXPECT_NE(text.find("memory.safetensors: tensor 'model.layers.1.self_attn.q_proj.bias' (and 1 more) is not used"),
            std::string::npos)
      << text;
  options.ignoredTensors = {"*.self_attn.?_proj.bias", "*.nothing"};
  ledger = Ledger();
  text = emit(checkpoint);
  EXPECT_TRUE(StringRef(text).starts_with("module")) << text;
  EXPECT_NE(ledger.summary().find("tensor: model.layers.1.self_attn.q_proj.bias ignored by --ignore-tensor"),
            std::string::npos)
      << ledger.summary();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "--ignore-tensor=*.nothing matches no unused tensor");
}

TEST_F(EmitTest, LeftoversAreWaivedByRule) {
  MemoryCheckpoint checkpoint(config);
  checkpoint.add("model.layers.0.self_attn.rotary_emb.inv_freq", {4});
  EXPECT_TRUE(StringRef(emit(checkpoint)).starts_with("module"));
  EXPECT_EQ(ledger.tensors().back().outcome, LedgerOutcome::Waived);
  EXPECT_EQ(ledger.tensors().size(), checkpoint.tensors().size());
}

TEST_F(EmitTest, ShapesAndTypesAreChecked) {
  for (auto [changed, expected] :
       {std::pair("model.layers.1.mlp.up_proj.weight", "expected shape [48, 32], got [48, 31]"),
        std::pair("model.embed_tokens.weight", "expected shape [20, 32], got [20, 31]")}) {
    MemoryCheckpoint checkpoint;
    for (const ExpectedTensor &tensor : expectedTensors(config)) {
      SmallVector<int64_t, 2> shape = tensor.shape;
      shape.back() -= tensor.name == changed;
      checkpoint.add(tensor.name, shape);
    }
    std::string text = emit(checkpoint);
    EXPECT_NE(text.find(expected), std::string::npos) << text;
    EXPECT_NE(text.find(changed), std::string::npos) << text;
  }
  for (ElementKind kind : {ElementKind::I8, ElementKind::F8E4M3, ElementKind::I64}) {
    std::string text = emit(MemoryCheckpoint(config, kind));
    EXPECT_NE(text.find(elementKindName(kind)), std::string::npos) << text;
    EXPECT_NE(text.find("expected F64, F32, F16 or BF16"), std::string::npos) << text;
  }
}

TEST_F(EmitTest, MatricesKeepTheirQuantization) {
  std::string text = emit(MemoryCheckpoint(config, ElementKind::Q8_0));
  EXPECT_NE(text.find("tensor<48x32x!ingot.quantized<q8_0>>"), std::string::npos) << text;
  // A vector has no rows of blocks.
  EXPECT_NE(text.find("part \"norm\" : tensor<32xf32>"), std::string::npos) << text;
  EXPECT_TRUE(warnings.empty());
}

TEST_F(EmitTest, OtherQuantizationsAndDoubleAreStoredAsF32) {
  std::string text = emit(MemoryCheckpoint(config, ElementKind::Q2_K));
  EXPECT_NE(text.find("tensor<48x32xf32>"), std::string::npos) << text;
  EXPECT_TRUE(warnings.empty());
  text = emit(MemoryCheckpoint(config, ElementKind::F64));
  EXPECT_NE(text.find("tensor<48x32xf32>"), std::string::npos) << text;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("F64"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// IR as input
//===----------------------------------------------------------------------===//

TEST(Import, AModuleComesBackAsItWas) {
  mlir::MLIRContext context;
  std::string directory = caseDir("llama3-rope");
  Expected<ImportResult> first = importModel(context, directory);
  ASSERT_TRUE(bool(first)) << toString(first.takeError());
  std::string text = print(*first->module);
  TemporaryFile file("mlir", text);
  ImportOptions options;
  options.weightsFrom = directory;
  Expected<ImportResult> second = importModel(context, file.path, options);
  ASSERT_TRUE(bool(second)) << toString(second.takeError());
  // Every bit of the frequencies has come through the text.
  EXPECT_EQ(print(*second->module), text);
  auto frequencies = [](mlir::ModuleOp module) { return *module.getOps<RotaryOp>().begin(); };
  EXPECT_EQ(frequencies(*first->module).getInvFreqAttr(), frequencies(*second->module).getInvFreqAttr());
  EXPECT_EQ(second->ledger.tensors().size(), second->checkpoint->tensors().size());
  EXPECT_EQ(second->vocab, 192);
}

TEST(Import, ModulesThatDoNotFitTheirWeightsAreRefused) {
  mlir::MLIRContext context;
  Expected<ImportResult> model = importModel(context, caseDir("llama-mha"));
  ASSERT_TRUE(bool(model)) << toString(model.takeError());
  TemporaryFile file("mlir", print(*model->module));
  auto errorFrom = [&](const std::string &path, const std::string &weights) {
    ImportOptions options;
    options.weightsFrom = weights;
    return errorText(importModel(context, path, options));
  };
  EXPECT_NE(errorFrom(file.path, "").find("--weights-from=DIR"), std::string::npos);
  EXPECT_NE(errorFrom(file.path, caseDir("llama-bf16")).find("expected"), std::string::npos);
  std::string error = errorFrom(file.path, caseDir("qwen2"));
  EXPECT_NE(error.find("expected shape [192, 64], got [192, 56]"), std::string::npos) << error;
  TemporaryFile broken("mlir", "module {\n  ingot.rotary @r half inv_freq = [x] scaling = 1.0\n}\n");
  error = errorFrom(broken.path, caseDir("llama-mha"));
  EXPECT_NE(error.find(".mlir: 2:"), std::string::npos) << error;
  std::string deep = print(*model->module);
  for (auto [from, to] : {std::pair("<2 x ", "<2000000000000 x "), std::pair("count = 2>", "count = 2000000000000>")})
    for (size_t at = 0; (at = deep.find(from, at)) != std::string::npos; at += strlen(to))
      deep.replace(at, strlen(from), to);
  TemporaryFile endless("mlir", deep);
  EXPECT_NE(errorFrom(endless.path, caseDir("llama-mha")), "");
  TemporaryFile empty("mlir", "module {}\n");
  error = errorFrom(empty.path, caseDir("llama-mha"));
  EXPECT_NE(error.find("is not a model"), std::string::npos) << error;
}

TEST(Import, ModulesMayHaveRandomWeights) {
  mlir::MLIRContext context;
  Expected<ImportResult> model = importModel(context, caseDir("llama-mha"));
  ASSERT_TRUE(bool(model)) << toString(model.takeError());
  TemporaryFile file("mlir", print(*model->module));
  ImportOptions options;
  options.randomSeed = 3;
  Expected<ImportResult> random = importModel(context, file.path, options);
  ASSERT_TRUE(bool(random)) << toString(random.takeError());
  EXPECT_EQ(random->checkpoint->tensors().size(), model->checkpoint->tensors().size());
}

} // namespace
