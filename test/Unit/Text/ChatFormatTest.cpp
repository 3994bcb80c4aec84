// Which chat templates a model has: files before tokenizer_config.json, GGUF
// keys, special tokens in both of their forms, what is left out on request.
#include "compiler/Text/ChatFormat.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>

using namespace ingot;

namespace {

class ChatFormatTest : public testing::Test {
protected:
  void SetUp() override { ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("ingot-chat", home)); }
  void TearDown() override { EXPECT_FALSE(llvm::sys::fs::remove_directories(home)); }

  std::string write(llvm::StringRef name, llvm::StringRef text) {
    llvm::SmallString<128> path(home);
    llvm::sys::path::append(path, name);
    EXPECT_FALSE(llvm::sys::fs::create_directories(llvm::sys::path::parent_path(path)));
    std::error_code code;
    llvm::raw_fd_ostream(path, code) << text;
    EXPECT_FALSE(code);
    return std::string(path);
  }

  /// "name=text@file" of each template, then "name:text" of each special token,
  /// or the error.
  std::string read(const TokenizerSource &source, std::vector<std::string> ignored = {}) {
    auto format = readChatFormat(source, "m.gguf", ignored, ledger);
    if (!format)
      return "error: " + llvm::toString(format.takeError());
    std::string text;
    for (const TemplateText &one : format->templates)
      text += one.name + "=" + one.text + "@" + llvm::sys::path::filename(one.where).str() + ";";
    for (const auto &[name, token] : format->specials)
      text += name + ":" + token + ";";
    return text;
  }

  TokenizerSource directory() {
    TokenizerSource source;
    source.kind = TokenizerSource::Kind::HuggingFace;
    return source;
  }

  llvm::SmallString<128> home;
  Ledger ledger;
};

TEST_F(ChatFormatTest, TokenizerConfig) {
  TokenizerSource source = directory();
  EXPECT_EQ(read(source), "");
  source.tokenizerConfigJson =
      write("tokenizer_config.json", R"({"chat_template": "T", "bos_token": {"content": "<s>", "lstrip": false},
    "eos_token": "</s>", "pad_token": null})");
  EXPECT_EQ(read(source), "default=T@tokenizer_config.json: chat_template;bos_token:<s>;eos_token:</s>;");
  ASSERT_EQ(ledger.keys().size(), 1u);
  EXPECT_EQ(ledger.keys()[0].what, "tokenizer_config.json: chat_template");
  EXPECT_EQ(ledger.keys()[0].outcome, LedgerOutcome::Consumed);
}

TEST_F(ChatFormatTest, NamedTemplates) {
  TokenizerSource source = directory();
  source.tokenizerConfigJson =
      write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "D"},
    {"name": "tool_use", "template": "T"}, {"name": "default", "template": "E"}]})");
  EXPECT_EQ(read(source), "default=E@tokenizer_config.json: chat_template 'default';"
                          "tool_use=T@tokenizer_config.json: chat_template 'tool_use';");
  source.tokenizerConfigJson = write("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_EQ(read(source), "error: " + source.tokenizerConfigJson +
                              ": chat_template: expected a string, or a list of objects with name and template");
  source.tokenizerConfigJson = write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_NE(read(source).find("got number"), std::string::npos);
  source.tokenizerConfigJson = write("tokenizer_config.json", R"({"bos_token": 5})");
  EXPECT_NE(read(source).find("bos_token: expected a string or an object with content, got number"), std::string::npos);
}

TEST_F(ChatFormatTest, FilesComeFirst) {
  TokenizerSource source = directory();
  source.tokenizerConfigJson = write("tokenizer_config.json", R"({"chat_template": "T"})");
  source.chatTemplate = write("chat_template.jinja", "J");
  source.additionalChatTemplates = {write("additional_chat_templates/rag.jinja", ""),
                                    write("additional_chat_templates/tool_use.jinja", "U")};
  EXPECT_EQ(read(source), "default=J@chat_template.jinja;rag=@rag.jinja;tool_use=U@tool_use.jinja;");
  EXPECT_EQ(ledger.keys().back().outcome, LedgerOutcome::Inert);
}

TEST_F(ChatFormatTest, OlderSpecialTokens) {
  TokenizerSource source = directory();
  source.tokenizerConfigJson = write("tokenizer_config.json", R"({"bos_token": "<a>", "eos_token": "<e>"})");
  source.specialTokensMapJson = write("special_tokens_map.json", R"({"bos_token": {"content": "<b>"}})");
  EXPECT_EQ(read(source), "bos_token:<b>;eos_token:<e>;");
  source.tokenizerConfigJson = write("tokenizer_config.json", R"({"bos_token": "<a>", "added_tokens_decoder": {}})");
  EXPECT_EQ(read(source), "bos_token:<a>;");
}

TEST_F(ChatFormatTest, LeftOutOnRequest) {
  TokenizerSource source = directory();
  source.tokenizerConfigJson = write("tokenizer_config.json", R"({"chat_template": "T"})");
  EXPECT_EQ(read(source, {"chat_template"}), "");
  EXPECT_EQ(ledger.keys()[0].outcome, LedgerOutcome::IgnoredKey);
  source.chatTemplate = write("chat_template.jinja", "J");
  EXPECT_EQ(read(source, {"chat_template"}), "");
}

TEST_F(ChatFormatTest, Gguf) {
  GgufTokenizer metadata;
  metadata.tokens = {"<unk>", "<s>", "</s>"};
  metadata.bosId = 1;
  metadata.eosId = 2;
  metadata.chatTemplate = "T";
  metadata.namedChatTemplates = {{"tool_use", "U"}};
  TokenizerSource source;
  source.kind = TokenizerSource::Kind::Gguf;
  source.gguf = &metadata;
  EXPECT_EQ(read(source),
            "default=T@m.gguf: tokenizer.chat_template;tool_use=U@m.gguf: tokenizer.chat_template.tool_use;"
            "bos_token:<s>;eos_token:</s>;");
  EXPECT_EQ(read(source, {"tokenizer.chat_template"}),
            "tool_use=U@m.gguf: tokenizer.chat_template.tool_use;bos_token:<s>;eos_token:</s>;");
}

} // namespace
