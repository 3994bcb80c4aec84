// The reference's logits, computed from the imported module by the evaluator: what an architecture's file in models/
// says of it is right if every golden case of it holds. No code generation is involved.
#include "compiler/Evaluator/Evaluator.h"
#include "compiler/Import/Import.h"
#include "dialects/ingot/Ingot.h"
#include "mlir/IR/MLIRContext.h"
#include "tools/ingot-eval/CheckpointParameters.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>

using namespace ingot;
using namespace llvm;

namespace {

/// The golden cases with logits whose weights lie beside them.
std::vector<std::string> goldenCases() {
  std::vector<std::string> names;
  std::error_code error;
  for (sys::fs::directory_iterator it(INGOT_CASES_DIR, error), end; it != end && !error; it.increment(error)) {
    Expected<Json> golden = readJsonFile(it->path() + "/golden.json");
    if (!golden) {
      consumeError(golden.takeError());
      continue;
    }
    std::string model = golden->value("model", "");
    bool weights = !model.empty() && (StringRef(model).ends_with(".gguf") ||
                                      sys::fs::exists(it->path() + "/" + model + "/model.safetensors") ||
                                      sys::fs::exists(it->path() + "/" + model + "/model.safetensors.index.json"));
    if (golden->value("kind", "") == "logits" && weights)
      names.push_back(sys::path::filename(it->path()).str());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::ValuesIn(goldenCases()),
                         [](const testing::TestParamInfo<std::string> &info) {
                           std::string name = info.param;
                           std::replace_if(name.begin(), name.end(), [](char c) { return !isAlnum(c); }, '_');
                           return name;
                         });

TEST_P(Golden, LogitsAreTheReferences) {
  std::string directory = INGOT_CASES_DIR "/" + GetParam();
  Json golden = cantFail(readJsonFile(directory + "/golden.json"));
  auto stored = MemoryBuffer::getFile(directory + "/" + golden.value("logits_file", "logits.f32"));
  ASSERT_TRUE(bool(stored));
  StringRef bytes = (*stored)->getBuffer();

  mlir::MLIRContext context;
  ImportOptions options;
  options.kvDtype = ElementKind::F32;
  Expected<ImportResult> model = importModel(context, directory + "/" + golden.value("model", ""), options);
  ASSERT_TRUE(bool(model)) << toString(model.takeError());
  CheckpointParameters parameters(model->checkpoint);
  Evaluator evaluator(*model->module, parameters);

  int64_t vocab = golden.value("vocab_size", model->vocab);
  ASSERT_EQ(vocab, model->vocab);
  for (const Json &prompt : golden["prompts"]) {
    Cache cache(cantFail(evaluator.cacheType()));
    Expected<std::vector<Matrix>> logits =
        evaluator.logits({prompt["tokens"].get<std::vector<int32_t>>()}, /*chunk=*/0, cache);
    ASSERT_TRUE(bool(logits)) << toString(logits.takeError());
    auto rows = prompt["rows"].get<std::vector<int64_t>>();
    size_t first = prompt["offset"].get<size_t>();
    double tolerance = prompt["tolerance"].get<double>();
    ASSERT_LE((first + rows.size() * vocab) * sizeof(float), bytes.size());
    double worst = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<float> want(vocab);
      std::memcpy(want.data(), bytes.data() + (first + i * vocab) * sizeof(float), vocab * sizeof(float));
      ArrayRef<float> got = logits->front().row(rows[i]);
      for (int64_t id = 0; id < vocab; ++id) {
        double difference = std::fabs(double(got[id]) - double(want[id]));
        worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
      }
    }
    EXPECT_LE(worst, tolerance) << rows.size() << " rows of a prompt of " << prompt["tokens"].size() << " tokens";
  }
}

//===----------------------------------------------------------------------===//
// Options that no golden case has
//===----------------------------------------------------------------------===//

TEST(Reference, OptionsOfEveryArchitecture) {
  Json cases = cantFail(readJsonFile(INGOT_FIXTURES_DIR "/reference_cases.json"));
  ASSERT_GE(cases.size(), 24u);
  for (const Json &row : cases) {
    std::string name = row["name"].get<std::string>();
    SmallString<128> path;
    ASSERT_FALSE(sys::fs::createTemporaryFile("ingot-reference", "json", path));
    FileRemover remover(path);
    std::error_code code;
    raw_fd_ostream(path, code) << row["config"].dump();
    mlir::MLIRContext context;
    ImportOptions options;
    options.randomSeed = row["seed"].get<uint64_t>();
    Expected<ImportResult> model = importModel(context, path, options);
    ASSERT_TRUE(bool(model)) << name << ": " << toString(model.takeError());
    CheckpointParameters parameters(model->checkpoint);
    Evaluator evaluator(*model->module, parameters);
    for (const Json &prompt : row["prompts"]) {
      Cache cache(cantFail(evaluator.cacheType()));
      std::vector<Matrix> logits =
          cantFail(evaluator.logits({prompt["tokens"].get<std::vector<int32_t>>()}, /*chunk=*/0, cache));
      double worst = 0, largest = 1;
      for (size_t i = 0; i < prompt["rows"].size(); ++i) {
        auto want = prompt["logits"][i].get<std::vector<double>>();
        ArrayRef<float> got = logits[0].row(prompt["rows"][i].get<int64_t>());
        ASSERT_EQ(got.size(), want.size()) << name;
        for (size_t id = 0; id < want.size(); ++id) {
          double difference = std::fabs(double(got[id]) - want[id]);
          worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
          largest = std::max(largest, std::fabs(want[id]));
        }
      }
      EXPECT_LE(worst, 1e-5 * largest) << name << ", a prompt of " << prompt["tokens"].size() << " tokens";
    }
  }
}

// The table above comes from a folder: it must not be empty, and every architecture must be in it.
TEST(Golden, EveryArchitectureHasCases) {
  std::vector<std::string> names = goldenCases();
  EXPECT_GE(names.size(), 20u);
  for (StringRef architecture : {"llama", "mistral", "qwen2", "qwen3", "tinylm-gqa", "tinylm-interleaved", "gguf"})
    EXPECT_TRUE(any_of(names, [&](StringRef name) { return name.starts_with(architecture); })) << architecture.str();
}

} // namespace
