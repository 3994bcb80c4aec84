// Every string and every list of ids of the tokenizer goldens (test/Integration/
// cases/tokenizer-*, and synthetic/ with tokenizers of random parts, made by
// test/Integration/make_tokenizer_golden.py), through the compiler's tables and
// the runtime's code.
#include "compiler/Text/TokenizerImage.h"
#include "compiler/Text/TokenizerJson.h"
#include "tokenizer/tokenizer.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"

using namespace ingot;

namespace {

class TokenizerGolden : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    std::string home = std::string(INGOT_GOLDEN_DIR "/tokenizer-") + GetParam() + "/";
    auto description = readTokenizerJson(home + "model/tokenizer.json", home + "model/tokenizer_config.json");
    ASSERT_TRUE(!!description) << toString(description.takeError());
    auto config = readJsonFile(home + "model/config.json");
    ASSERT_TRUE(!!config) << toString(config.takeError());
    auto bytes = makeTokenizerImage(*description, (*config)["vocab_size"].get<int64_t>());
    ASSERT_TRUE(!!bytes) << toString(bytes.takeError());
    image = std::move(*bytes);
    std::string error;
    tokenizer = rt::Tokenizer::open(image.data(), image.size(), error);
    ASSERT_TRUE(tokenizer) << error;
    auto json = readJsonFile(home + "golden.json");
    ASSERT_TRUE(!!json) << toString(json.takeError());
    golden = std::move(*json);
  }

  std::vector<int32_t> encode(const std::string &text, bool special) {
    std::vector<int32_t> ids;
    tokenizer->encode(text, {special}, ids);
    return ids;
  }

  /// The text of the ids in one go, which their texts one by one must add up
  /// to.
  std::string decode(const std::vector<int32_t> &ids, bool skip) {
    rt::StreamDecoder stream(*tokenizer, skip);
    std::string parts;
    for (int32_t id : ids) {
      std::string part = stream.push(id);
      EXPECT_TRUE(rt::isValidUtf8(part));
      parts += part;
    }
    std::string whole = tokenizer->decode(ids, skip);
    EXPECT_EQ(parts + stream.finish(), whole);
    return whole;
  }

  std::vector<char> image;
  std::optional<rt::Tokenizer> tokenizer;
  Json golden;
};

TEST_P(TokenizerGolden, encodes) {
  ASSERT_GT(golden["items"].size(), 200u);
  for (const Json &item : golden["items"]) {
    auto text = item["text"].get<std::string>();
    EXPECT_EQ(encode(text, true), item["ids"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(encode(text, false), item["ids_plain"].get<std::vector<int32_t>>()) << text;
  }
}

TEST_P(TokenizerGolden, decodes) {
  ASSERT_EQ(golden["decode_only"].size(), 60u);
  for (const char *list : {"items", "decode_only"})
    for (const Json &item : golden[list]) {
      auto ids = item["ids"].get<std::vector<int32_t>>();
      EXPECT_EQ(decode(ids, false), item["decoded"].get<std::string>()) << item["ids"];
      EXPECT_EQ(decode(ids, true), item["decoded_skip"].get<std::string>()) << item["ids"];
    }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden,
                         testing::Values("bbpe-gpt2", "bbpe-llama3", "bbpe-qwen2", "smollm2", "sp-llama2",
                                         "sp-metaspace"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(TokenizerSynthetic, asTheReference) {
  namespace fs = llvm::sys::fs;
  std::error_code code;
  unsigned files = 0;
  for (fs::directory_iterator entry(INGOT_SYNTHETIC_DIR, code), end; entry != end && !code; entry.increment(code)) {
    SCOPED_TRACE(entry->path());
    ++files;
    auto json = readJsonFile(entry->path());
    ASSERT_TRUE(!!json) << toString(json.takeError());
    auto description = convertTokenizerJson((*json)["tokenizer"], "tokenizer.json", Json(), "");
    ASSERT_TRUE(!!description) << toString(description.takeError());
    auto image = makeTokenizerImage(*description, std::nullopt);
    ASSERT_TRUE(!!image) << toString(image.takeError());
    std::string error;
    auto tokenizer = rt::Tokenizer::open(image->data(), image->size(), error);
    ASSERT_TRUE(tokenizer) << error;
    for (const Json &item : (*json)["items"])
      for (bool special : {true, false}) {
        std::vector<int32_t> ids;
        tokenizer->encode(item["text"].get<std::string>(), {special}, ids);
        EXPECT_EQ(ids, item[special ? "ids" : "ids_plain"].get<std::vector<int32_t>>()) << item["text"];
      }
    for (const Json &item : (*json)["decode"])
      for (bool skip : {false, true}) {
        auto ids = item["ids"].get<std::vector<int32_t>>();
        rt::StreamDecoder stream(*tokenizer, skip);
        std::string parts;
        for (int32_t id : ids) {
          std::string part = stream.push(id);
          EXPECT_TRUE(rt::isValidUtf8(part));
          parts += part;
        }
        EXPECT_EQ(parts + stream.finish(), item[skip ? "decoded_skip" : "decoded"].get<std::string>()) << item["ids"];
        EXPECT_EQ(tokenizer->decode(ids, skip), item[skip ? "decoded_skip" : "decoded"].get<std::string>());
      }
  }
  EXPECT_EQ(files, 28u);
}

} // namespace
