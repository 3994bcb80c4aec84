// What openModel makes of a path: the kinds of model, and every misuse with its remedy.
#include "compiler/Import/OpenModel.h"
#include "TestSupport.h"

using namespace ingot;
using namespace ingot::test;

static const std::string weights = safetensors(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
static const char config[] = R"({"model_type": "llama"})";
static const OpenModelOptions random1 = {uint64_t(1), {}};

TEST(OpenModel, HuggingFaceDirectory) {
  TemporaryDirectory home;
  home.write("m/config.json", config);
  home.write("m/generation_config.json", R"({"eos_token_id": 2})");
  home.write("m/model.safetensors", weights);
  home.write("m/tokenizer.json", "{}");
  home.write("m/tokenizer_config.json", "{}");
  home.write("m/LICENSE", "Be nice.\n");
  home.write("m/NOTICE.txt", "Noted.");
  llvm::Expected<ModelInput> model = openModel(home.path("m"));
  ASSERT_TRUE(bool(model)) << errorOf(std::move(model));
  EXPECT_EQ(model->kind, ModelKind::HuggingFace);
  EXPECT_EQ(model->displayName, "m");
  EXPECT_EQ(model->config["model_type"], "llama");
  EXPECT_EQ(model->configFile, home.path("m/config.json"));
  EXPECT_EQ(model->generationConfig["eos_token_id"], 2);
  ASSERT_NE(model->checkpoint, nullptr);
  EXPECT_NE(model->checkpoint->find("w"), nullptr);
  EXPECT_EQ(model->tokenizer.kind, TokenizerSource::Kind::HuggingFace);
  EXPECT_EQ(model->tokenizer.tokenizerJson, home.path("m/tokenizer.json"));
  EXPECT_EQ(model->tokenizer.tokenizerConfigJson, home.path("m/tokenizer_config.json"));
  EXPECT_EQ(model->tokenizer.chatTemplate, "");
  EXPECT_EQ(model->license, "Be nice.\n\n\nNoted.\n");
}

TEST(OpenModel, NamesAHubSnapshot) {
  TemporaryDirectory home;
  std::string snapshot = "models--owner--name/snapshots/0123abcd";
  home.write(snapshot + "/config.json", config);
  llvm::Expected<ModelInput> model = openModel(home.path(snapshot), random1);
  ASSERT_TRUE(bool(model)) << errorOf(std::move(model));
  EXPECT_EQ(model->displayName, "owner/name");
}

TEST(OpenModel, RandomWeightsNeedNone) {
  TemporaryDirectory home;
  std::string file = home.write("config.json", config);
  for (const std::string &path : {file, home.path()}) {
    llvm::Expected<ModelInput> model = openModel(path, random1);
    ASSERT_TRUE(bool(model)) << errorOf(std::move(model));
    EXPECT_EQ(model->checkpoint, nullptr);
    EXPECT_EQ(model->randomSeed, 1u);
    EXPECT_EQ(model->kind, path == file ? ModelKind::ConfigOnly : ModelKind::HuggingFace);
    EXPECT_EQ(model->tokenizer.kind, TokenizerSource::Kind::None);
    EXPECT_TRUE(model->generationConfig.is_null());
  }
  expectText(errorOf(openModel(file)), {"config.json: is a configuration without weights", "--weights=random"});
  expectText(errorOf(openModel(home.path())), {"has no weights; expected model.safetensors", "--weights=random"});
}

TEST(OpenModel, GgufFile) {
  llvm::Expected<ModelInput> model = openModel(INGOT_FIXTURES "/llama.gguf");
  ASSERT_TRUE(bool(model)) << errorOf(std::move(model));
  EXPECT_EQ(model->kind, ModelKind::Gguf);
  EXPECT_EQ(model->displayName, "Fixture");
  EXPECT_EQ(model->license, "apache-2.0");
  EXPECT_EQ(model->config["model_type"], "llama");
  EXPECT_EQ(model->checkpoint, model->gguf);
  EXPECT_EQ(model->tokenizer.kind, TokenizerSource::Kind::Gguf);
  ASSERT_NE(model->tokenizer.gguf, nullptr);
  EXPECT_EQ(model->tokenizer.gguf->tokens.size(), 10u);
  model = openModel(INGOT_FIXTURES "/qwen2.gguf", random1);
  ASSERT_TRUE(bool(model)) << errorOf(std::move(model));
  EXPECT_EQ(model->checkpoint, nullptr);
  EXPECT_NE(model->gguf, nullptr);
}

TEST(OpenModel, PathsThatAreNone) {
  expectText(errorOf(openModel("")), {"an empty path"});
  expectText(errorOf(openModel("no/such/model")), {"no/such/model: no such file or directory"});
  expectText(errorOf(openModel("meta-llama/Llama-3.2-1B")),
             {"looks like a hub id", "hf download meta-llama/Llama-3.2-1B --local-dir DIR"});
  expectText(errorOf(openModel("https://huggingface.co/a/b")), {"is an address, not a path", "hf download"});
  std::string typo = errorOf(openModel("/dev/shmm"));
  expectText(typo, {"no such file or directory"});
  EXPECT_EQ(typo.find("hub id"), std::string::npos);
  EXPECT_EQ(errorOf(openModel("models/x.gguf")).find("hub id"), std::string::npos);
}

TEST(OpenModel, DirectoriesThatAreNoModel) {
  auto error = [](std::vector<std::pair<const char *, llvm::StringRef>> files) {
    TemporaryDirectory home;
    for (auto [name, content] : files)
      home.write(name, content);
    return errorOf(openModel(home.path()));
  };
  expectText(error({}), {"config.json is missing; expected a Hugging Face model directory"});
  expectText(error({{"x.gguf", "GGUF"}}), {"has no config.json but a GGUF file; give that file", "x.gguf"});
  expectText(error({{"params.json", "{}"}}), {"has params.json, not config.json"});
  expectText(error({{"adapter_config.json", "{}"}, {"adapter_model.safetensors", weights}}),
             {"adapter_config.json", "merge"});
  expectText(error({{"adapter_config.json", "{}"}, {"config.json", config}, {"model.safetensors", weights}}),
             {"adapter_config.json", "merge"});
  expectText(error({{"config.json", config}, {"pytorch_model.bin", "x"}}),
             {"has no safetensors, only 'pytorch_model.bin'", "convert it", "save_pretrained"});
  expectText(error({{"config.json", config}, {"pytorch_model.bin.index.json", "{}"}}),
             {"pytorch_model.bin.index.json"});
  expectText(error({{"config.json", config}, {"tf_model.h5", "x"}}), {"only 'tf_model.h5'", "save_pretrained"});
  expectText(error({{"config.json", config}, {"x.gguf", "GGUF"}}), {"has no safetensors but a GGUF file", "x.gguf"});
  expectText(error({{"config.json", config}, {"model-00001-of-00002.safetensors", weights}}),
             {"has 'model-00001-of-00002.safetensors' but neither", "download the index"});
  expectText(error({{"config.json", "[]"}, {"model.safetensors", weights}}),
             {"config.json: is array; expected an object"});
  expectText(error({{"config.json", "{\"a\": 1,}"}, {"model.safetensors", weights}}),
             {"config.json: line 1", "not JSON"});
  expectText(error({{"config.json", ""}, {"model.safetensors", weights}}), {"config.json: is empty"});
  expectText(error({{"config.json", config}, {"generation_config.json", "3"}, {"model.safetensors", weights}}),
             {"generation_config.json: is number; expected an object"});
  for (const char *pointer : {"config.json", "model.safetensors"})
    expectText(error({{"config.json", config},
                      {"model.safetensors", weights},
                      {pointer, "version https://git-lfs.github.com/spec/v1\n"}}),
               {std::string(pointer) + ": is a Git-LFS pointer", "git lfs pull"});
  expectText(error({{"config.json", config}, {"model.safetensors", "<html>"}}), {"model.safetensors: is an HTML page"});
  expectText(error({{"config.json", config}, {"model.safetensors", "GGUF\3........................"}}),
             {"model.safetensors: is a GGUF file, not safetensors"});
}

TEST(OpenModel, QuantizedCheckpoints) {
  auto error = [](const char *value) {
    TemporaryDirectory home;
    home.write("model.safetensors", weights);
    home.write("config.json", std::string(R"({"model_type":"llama","quantization_config":)") + value + "}");
    return errorOf(openModel(home.path()));
  };
  expectText(error(R"({"quant_method":"awq"})"), {"config.json: quantization_config", "'awq'", "not supported yet"});
  expectText(error("{}"), {"quantization_config"});
  EXPECT_EQ(error("null"), "no error");
}

TEST(OpenModel, SingleFileBesideAnIndex) {
  TemporaryDirectory home;
  home.write("config.json", config);
  home.write("model.safetensors", weights);
  home.write("part.safetensors", weights);
  home.write("model.safetensors.index.json", R"({"weight_map":{"w":"part.safetensors"}})");
  expectText(errorOf(openModel(home.path())),
             {"model.safetensors: lies beside model.safetensors.index.json", "does not name it"});
  home.write("model.safetensors.index.json", R"({"weight_map":{"w":"model.safetensors"}})");
  EXPECT_EQ(errorOf(openModel(home.path())), "no error");
}

TEST(OpenModel, FilesThatAreNoModel) {
  TemporaryDirectory home;
  auto error = [&](const char *name, llvm::StringRef content) {
    return errorOf(openModel(home.write(name, content), random1));
  };
  expectText(error("model.safetensors", weights), {"holds weights only; give the directory"});
  expectText(error("model.safetensors.index.json", R"({"weight_map":{}})"),
             {"is an index of weights, not a config.json"});
  expectText(error("adapter_config.json", R"({"peft_type":"LORA"})"), {"an adapter", "merge"});
  expectText(error("x.bin", "hello world"), {"is neither a model directory", "it begins with 'hello wo'"});
  expectText(error("y.bin", llvm::StringRef("PK\3\4........", 12)), {"is a pickle"});
  expectText(error("z.gguf", "version https://git-lfs.github.com/spec/v1\n"), {"z.gguf: is a Git-LFS pointer"});
  expectText(error("e.gguf", ""), {"e.gguf: is empty"});
  expectText(error("w.gguf", "GGML............................"), {"w.gguf: is no GGUF file"});
}

TEST(OpenModel, BrokenLink) {
  TemporaryDirectory home;
  home.write("config.json", config);
  ASSERT_FALSE(llvm::sys::fs::create_link("blobs/gone", home.path("model.safetensors")));
  expectText(errorOf(openModel(home.path())), {"model.safetensors: cannot be opened"});
}

TEST(OpenModel, WeightsFrom) {
  TemporaryDirectory home;
  std::string file = home.write("model.safetensors", weights);
  for (const std::string &path : {file, home.path()}) {
    llvm::Expected<std::shared_ptr<Checkpoint>> checkpoint = openCheckpoint(path);
    ASSERT_TRUE(bool(checkpoint)) << errorOf(std::move(checkpoint));
    EXPECT_NE((*checkpoint)->find("w"), nullptr);
  }
  llvm::Expected<std::shared_ptr<Checkpoint>> gguf = openCheckpoint(INGOT_FIXTURES "/llama.gguf");
  ASSERT_TRUE(bool(gguf));
  EXPECT_NE((*gguf)->find("model.norm.weight"), nullptr);
  std::string index = home.write("x.index.json", R"({"weight_map":{"w":"model.safetensors"}})");
  EXPECT_EQ(errorOf(openCheckpoint(index)), "no error");
  expectText(errorOf(openCheckpoint(home.path("none"))), {"no such file or directory"});
}
