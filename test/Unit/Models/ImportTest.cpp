// From models on disk, in memory and in IR to modules: which ops there are, where tensors went, what is refused.
#include "compiler/Import/Import.h"
#include "compiler/Import/EmitIngot.h"
#include "compiler/Import/RandomCheckpoint.h"
#include "dialects/ingot/Ingot.h"
#include "mlir/IR/MLIRContext.h"
#include "test/Unit/Models/Support.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

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
  ~TemporaryFile() { sys::fs::remove(path); }
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

} // namespace
