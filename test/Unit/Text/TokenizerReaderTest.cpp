// The readers of tokenizer.json and of GGUF metadata: what they make of the parts, and what they refuse by name.
#include "compiler/Import/Gguf.h"
#include "compiler/Text/TokenizerGguf.h"
#include "compiler/Text/TokenizerImage.h"
#include "compiler/Text/TokenizerJson.h"
#include "tokenizer/tokenizer.h"
#include "gtest/gtest.h"
#include <functional>

using namespace ingot;

namespace {

using Ids = std::vector<int32_t>;

/// Bytes a, b, c and space (as the byte-level alphabet writes it), ab, abc; end token 6.
Json smallTokenizer() {
  return Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 6, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "\u0120": 3, "ab": 4, "abc": 5},
              "merges": ["a b", "ab c"]}})");
}

struct Built {
  std::string error;
  std::vector<char> image;
  std::optional<rt::Tokenizer> tokenizer;

  Ids encode(const std::string &text, bool special = true, bool matchSpecial = true) const {
    Ids ids;
    tokenizer->encode(text, {special, matchSpecial}, ids);
    return ids;
  }
  std::string decode(const Ids &ids, bool skip = false) const { return tokenizer->decode(ids, skip); }
};

Built build(llvm::Expected<TokenizerDescription> description, std::optional<int64_t> rows) {
  Built built;
  if (!description) {
    built.error = toString(description.takeError());
    return built;
  }
  auto image = makeTokenizerImage(*description, rows);
  if (!image) {
    built.error = toString(image.takeError());
    return built;
  }
  built.image = std::move(*image);
  built.tokenizer = rt::Tokenizer::open(built.image.data(), built.image.size(), built.error);
  return built;
}

Built buildJson(const Json &tokenizer, const Json &config = Json(), std::optional<int64_t> rows = std::nullopt) {
  return build(convertTokenizerJson(tokenizer, "tokenizer.json", config, "tokenizer_config.json"), rows);
}

/// smallTokenizer with one change.
Built changed(const std::function<void(Json &)> &change) {
  Json tokenizer = smallTokenizer();
  change(tokenizer);
  return buildJson(tokenizer);
}

TEST(TokenizerJson, small) {
  Built built = buildJson(smallTokenizer(), Json(), 7);
  ASSERT_TRUE(built.tokenizer) << built.error;
  EXPECT_EQ(built.encode("abc ab<end>ba"), (Ids{5, 3, 4, 6, 1, 0}));
  EXPECT_EQ(built.encode("d"), Ids{}); // no byte, no unknown token: dropped
  EXPECT_EQ(built.decode({5, 6, 3, 99, -1}), "abc<end> ");
  EXPECT_EQ(built.decode({5, 6, 3}, true), "abc ");
  EXPECT_EQ(built.tokenizer->idCount(), 7u);
  EXPECT_TRUE(built.tokenizer->isSpecial(6));
  EXPECT_FALSE(built.tokenizer->isSpecial(5));
  // Text that may not become a special token stays text.
  EXPECT_EQ(built.encode("a<end>b", true, false), (Ids{0, 1}));
}

/// Special tokens of untrusted spans stay text, those of the template around them do not.
TEST(TokenizerJson, untrustedSpans) {
  Built built = changed([](Json &t) {
    Json token = t["added_tokens"][0];
    token["content"] = "<end>a";
    t["added_tokens"].push_back(token);
    token["content"] = "<n>";
    token["normalized"] = true;
    t["added_tokens"].push_back(token);
  });
  ASSERT_TRUE(built.tokenizer) << built.error;
  auto encode = [&](std::string_view text, std::vector<rt::TextSpan> untrusted) {
    Ids ids;
    rt::EncodeOptions options;
    options.untrusted = untrusted;
    built.tokenizer->encode(text, options, ids);
    return ids;
  };
  // ids: <end> 6, <end>a 7, <n> 8; < e n d > are no bytes of the model and are dropped
  const std::string_view text = "<end>a<end>b<n>c<n>";
  EXPECT_EQ(encode(text, {}), (Ids{7, 6, 1, 8, 2, 8}));
  EXPECT_EQ(encode(text, {{0, 19}}), (Ids{0, 1, 2}));
  EXPECT_EQ(encode(text, {{5, 6}}), (Ids{6, 0, 6, 1, 8, 2, 8})); // the shorter token is the template's own
  EXPECT_EQ(encode(text, {{6, 15}}), (Ids{7, 1, 2, 8}));
  EXPECT_EQ(encode(text, {{7, 8}, {13, 14}}), (Ids{7, 1, 2, 8}));
  EXPECT_EQ(encode(text, {{10, 13}}), (Ids{7, 1, 2, 8})); // one byte is enough
  EXPECT_EQ(encode("ab<end>", {{0, 2}}), (Ids{4, 6}));
  // broken UTF-8 before a span moves it
  EXPECT_EQ(encode("\xff\xff<end>a<end>b", {{8, 13}}), (Ids{7, 1}));
  EXPECT_EQ(encode("\xff\xff<end>a<end>b", {{2, 8}}), (Ids{0, 6, 1}));
}

TEST(TokenizerJson, idWithoutEmbeddingRow) {
  EXPECT_EQ(buildJson(smallTokenizer(), Json(), 6).error,
            "tokenizer.json: token '<end>' has the id 6, but the model's embedding has 6 rows");
  EXPECT_EQ(buildJson(smallTokenizer(), Json(), 5).error,
            "tokenizer.json: token 'abc' has the id 5, but the model's embedding has 5 rows");
  EXPECT_EQ(buildJson(smallTokenizer(), Json(), 1000).error, "");
}

TEST(TokenizerJson, configMakesTokensSpecial) {
  Json tokenizer = smallTokenizer();
  tokenizer["added_tokens"] = Json::array();
  // In the vocabulary: the id stays.
  Built built = buildJson(tokenizer, Json::parse(R"({"eos_token": "ab"})"));
  ASSERT_TRUE(built.tokenizer) << built.error;
  EXPECT_EQ(built.encode("cabc"), (Ids{2, 4, 2}));
  EXPECT_TRUE(built.tokenizer->isSpecial(4));
  // Not in the vocabulary: the next id, with the flags it has.
  built = buildJson(tokenizer, Json::parse(R"({"eos_token": {"content": "<x>", "lstrip": true}, "pad_token": null})"));
  ASSERT_TRUE(built.tokenizer) << built.error;
  EXPECT_EQ(built.encode("a <x> a"), (Ids{0, 6, 3, 0}));
  EXPECT_TRUE(built.tokenizer->isSpecial(6));
  EXPECT_EQ(buildJson(tokenizer, Json::parse(R"({"eos_token": 3})")).error,
            "tokenizer_config.json: a special token: expected a string or an object, got number");
}

TEST(TokenizerJson, addedTokensKeepTheVocabularysIds) {
  Built built = changed([](Json &t) {
    t["added_tokens"][0]["content"] = "abc"; // says 6, is 5
    Json other = t["added_tokens"][0];
    other["content"] = "new"; // the number of pieces
    other["id"] = 77;
    t["added_tokens"].push_back(other);
  });
  ASSERT_TRUE(built.tokenizer) << built.error;
  EXPECT_EQ(built.encode("newabca"), (Ids{6, 5, 0}));
}

TEST(TokenizerJson, postProcessors) {
  Built built = changed([](Json &t) {
    t["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [
      {"type": "ByteLevel"}, {"type": "RobertaProcessing", "sep": ["b", 1], "cls": ["a", 0]},
      {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
       "pair": [], "special_tokens": {"x": {"id": "x", "ids": [2, 3], "tokens": ["c", " "]}}}]})");
  });
  ASSERT_TRUE(built.tokenizer) << built.error;
  EXPECT_EQ(built.encode("abc"), (Ids{2, 3, 0, 5, 1}));
  EXPECT_EQ(built.encode("abc", false), (Ids{5}));
  EXPECT_EQ(built.encode(""), (Ids{2, 3, 0, 1}));
}

TEST(TokenizerJson, unknownBytes) {
  auto withUnknown = [](bool fuse) {
    return changed([&](Json &t) {
      t["model"]["unk_token"] = "c";
      t["model"]["fuse_unk"] = fuse;
    });
  };
  EXPECT_EQ(withUnknown(false).encode("adéa"), (Ids{0, 2, 2, 2, 0}));
  EXPECT_EQ(withUnknown(true).encode("adéa"), (Ids{0, 2, 0}));
}

TEST(TokenizerJson, invalidUtf8CountsAsReplacementCharacters) {
  Built built = changed([](Json &t) { t["model"]["unk_token"] = "c"; });
  ASSERT_TRUE(built.tokenizer) << built.error;
  // U+FFFD has three bytes; E2 82 is one broken sequence, 80 and FF one each.
  EXPECT_EQ(built.encode("a\xe2\x82"), (Ids{0, 2, 2, 2}));
  EXPECT_EQ(built.encode("\x80\xff"), (Ids{2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(built.encode("\x80\xff"), built.encode("\xef\xbf\xbd\xef\xbf\xbd"));
}

/// Each unsupported or malformed part is an error that names the file and the part.
TEST(TokenizerJson, refusesByName) {
  struct Case {
    const char *pointer, *value, *error;
  };
  const Case cases[] = {
      {"/model/type", "\"WordPiece\"", "model: the type 'WordPiece' is not supported yet"},
      {"/model/type", "\"Unigram\"", "model.vocab: expected an array, got object"},
      {"/model/byte_fallback", "1", "model.byte_fallback: expected a boolean, got number"},
      {"/model/continuing_subword_prefix", "\"##\"", "model.merges[0]: expected 'b' to start with '##'"},
      {"/model/end_of_word_suffix", "7", "model.end_of_word_suffix: expected a string, got number"},
      {"/model/dropout", "0.1", "model.dropout is not supported: it makes tokens random"},
      {"/model/unk_token", "\"nope\"", "model.unk_token 'nope' is not in the vocabulary"},
      {"/model/ignore_merges", "1", "model.ignore_merges: expected a boolean, got number"},
      {"/model/vocab", "[]", "model.vocab: expected an object, got array"},
      {"/model/vocab/a", "-1", "model.vocab: 'a': expected an id from 0 to 2147483646, got '-1'"},
      {"/model/vocab/a", "4294967296", "model.vocab: 'a': expected an id from 0 to 2147483646, got '4294967296'"},
      {"/model/vocab/a", "1", "tokens 'a' and 'b' have the same id 1"},
      {"/model/merges/0", "\"a\"", "model.merges[0]: expected two pieces with a space between, got 'a'"},
      {"/model/merges/0", "\"a b c\"", "model.merges[0]: expected two pieces with a space between, got 'a b c'"},
      {"/model/merges/0", "[\"a\"]", "model.merges[0]: expected a string or a pair of strings"},
      {"/model/merges/1", "[\"b\", \"a\"]", "model.merges[1]: 'ba' is not in the vocabulary"},
      {"/model", "null", "model: expected an object, got nothing"},
      {"/normalizer", "{\"type\": \"Precompiled\"}", "normalizer: the type 'Precompiled' is not supported yet"},
      {"/normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"Other\"}]}",
       "normalizer.normalizers[1]: the type 'Other' is not supported yet"},
      {"/normalizer", "{\"type\": \"Prepend\"}", "normalizer.prepend: expected a string, got nothing"},
      {"/normalizer", "{\"type\": \"Replace\", \"pattern\": \" \", \"content\": \"\"}",
       "normalizer.pattern: expected an object with Regex or String, got string"},
      {"/normalizer", "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a*\"}, \"content\": \"\"}",
       "normalizer: replaced pattern 'a*': pattern: replacing what may be empty is not supported yet"},
      {"/normalizer", "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"^a\"}, \"content\": \"\"}",
       "normalizer: replaced pattern '^a': pattern: at byte 0: the anchor '^' is not supported yet"},
      {"/pre_tokenizer/type", "\"UnicodeScripts\"", "pre_tokenizer: the type 'UnicodeScripts' is not supported yet"},
      {"/pre_tokenizer", "{\"type\": \"Metaspace\"}", "pre_tokenizer.replacement: expected a string, got nothing"},
      {"/pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"ab\"}",
       "pre_tokenizer.replacement: expected one character, got 'ab'"},
      {"/pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"last\"}",
       "pre_tokenizer.prepend_scheme: unknown value 'last'"},
      {"/pre_tokenizer",
       "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"first\", \"add_prefix_space\": false}",
       "pre_tokenizer: add_prefix_space does not match prepend_scheme"},
      {"/pre_tokenizer", "{\"type\": \"Punctuation\", \"behavior\": \"Other\"}",
       "pre_tokenizer.behavior: unknown value 'Other'"},
      {"/pre_tokenizer",
       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?<=a)\"}, "
       "\"behavior\": \"Isolated\", \"invert\": false}, {\"type\": \"ByteLevel\"}]}",
       "split pattern '(?<=a)': pattern: at byte 0: the group '(?<=a...' is not supported yet"},
      {"/post_processor", "{\"type\": \"Other\"}", "post_processor: the type 'Other' is not supported yet"},
      {"/post_processor",
       "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"y\", \"type_id\": 0}}]}",
       "post_processor.special_tokens.y.ids: expected an array, got nothing"},
      {"/post_processor", "{\"type\": \"TemplateProcessing\", \"single\": []}",
       "post_processor.single: expected the text once, got it 0 times"},
      {"/decoder/type", "\"CTC\"", "decoder: the type 'CTC' is not supported yet"},
      {"/decoder/type", "\"Metaspace\"", "decoder.replacement: expected a string, got nothing"},
      {"/decoder", "{\"type\": \"Strip\", \"content\": \" \", \"start\": -1, \"stop\": 0}",
       "decoder.start: expected a small number, got number"},
      {"/decoder", "{\"type\": \"Replace\", \"pattern\": {\"String\": \"\"}, \"content\": \"\"}",
       "decoder.pattern: replacing what may be empty is not supported yet"},
      {"/added_tokens/0/content", "7", "added_tokens[0].content: expected a string, got number"},
      {"/added_tokens/0/lstrip", "0", "added_tokens[0].lstrip: expected a boolean, got number"},
  };
  for (const Case &c : cases) {
    Built built = changed([&](Json &t) { t[Json::json_pointer(c.pointer)] = Json::parse(c.value); });
    EXPECT_EQ(built.error, std::string("tokenizer.json: ") + c.error) << c.pointer;
  }
}

TEST(TokenizerJson, unigramRefusesByName) {
  Json base = smallTokenizer();
  base["model"] = Json::parse(R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1.5], ["b", -2]]})");
  base["added_tokens"] = Json::array();
  EXPECT_EQ(buildJson(base).error, "");
  const std::pair<const char *, const char *> cases[] = {
      {R"({"unk_id": null})", "model.unk_id: Unigram without an unknown token is not supported yet"},
      {R"({"unk_id": 3})", "model.unk_id: expected an id below 3, got 3"},
      {R"({"unk_id": -1})", "model.unk_id: expected an id from 0 to 2147483646, got '-1'"},
      {R"({"vocab": [["a"]]})", "model.vocab[0]: expected a pair of text and score"},
      {R"({"vocab": [["a", "b"]]})", "model.vocab[0]: expected a pair of text and score"},
      {R"({"alpha": 0.1})", "model.alpha is not supported: it makes tokens random"},
  };
  for (auto [change, error] : cases) {
    Json tokenizer = base;
    tokenizer["model"].merge_patch(Json::parse(change));
    if (std::string(change).find("null") != std::string::npos)
      tokenizer["model"]["unk_id"] = nullptr;
    EXPECT_EQ(buildJson(tokenizer).error, std::string("tokenizer.json: ") + error);
  }
}

/// Sums that are equal, or but for the last bit, as `tokenizers` 0.23.3 has them: the first way found wins, and scores
/// are what serde_json makes of their digits, here one bit below the nearest double.
TEST(TokenizerJson, unigramTies) {
  Json tokenizer = smallTokenizer();
  tokenizer["pre_tokenizer"] = nullptr;
  tokenizer["added_tokens"] = Json::array();
  tokenizer["model"] = Json::parse(R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1.1],
      ["aa", -1.7], ["aaa", -2.3], ["b", -1.3], ["ab", -1.9], ["ba", -1.9]]})");
  Built built = buildJson(tokenizer);
  ASSERT_TRUE(built.tokenizer) << built.error;
  EXPECT_EQ(built.encode("aaaa"), (Ids{1, 3}));
  EXPECT_EQ(built.encode("aaaaa"), (Ids{2, 3}));
  EXPECT_EQ(built.encode("aba"), (Ids{1, 6}));
  EXPECT_EQ(built.encode("aaaaaaa"), (Ids{1, 3, 3}));
  tokenizer["model"] = Json::parse(R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0],
      ["a", -1.6123709293488147], ["b", 0], ["ab", -1.6123709293488149]]})");
  EXPECT_EQ(buildJson(tokenizer).encode("ab"), Ids{3});
}

/// transformers lets the config's flags replace the post-processor.
TEST(TokenizerJson, configAddsStartAndEnd) {
  Json tokenizer = smallTokenizer();
  tokenizer["post_processor"] = Json::parse(R"({"type": "RobertaProcessing", "sep": ["b", 1], "cls": ["a", 0]})");
  auto encode = [&](const char *config) { return buildJson(tokenizer, Json::parse(config)).encode("c"); };
  EXPECT_EQ(encode(R"({"eos_token": "<end>"})"), (Ids{0, 2, 1}));
  EXPECT_EQ(encode(R"({"eos_token": "<end>", "add_bos_token": false})"), Ids{2});
  EXPECT_EQ(encode(R"({"eos_token": "<end>", "add_bos_token": true})"), Ids{2}); // there is none
  EXPECT_EQ(encode(R"({"eos_token": {"content": "<end>"}, "bos_token": "a", "add_bos_token": true,
                       "add_eos_token": true})"),
            (Ids{0, 2, 6}));
  EXPECT_EQ(buildJson(tokenizer, Json::parse(R"({"add_eos_token": 1})")).error,
            "tokenizer_config.json: tokenizer_config.add_eos_token: expected a boolean, got number");
}

/// What transformers takes out of the texts of models that are not BPE, also when ids come one by one.
TEST(TokenizerJson, cleansUpSpaces) {
  Json tokenizer = smallTokenizer();
  tokenizer["model"] = Json::parse(R"({"type": "Unigram", "unk_id": 0,
      "vocab": [["<unk>", 0], ["a", -1], [" ", -1], [".", -1], [" n", -1], ["'t", -1], ["'", -1]]})");
  tokenizer["decoder"] = {{"type", "Fuse"}};
  const Ids ids = {1, 2, 3, 4, 5, 2, 6, 2, 1, 2};
  EXPECT_EQ(buildJson(tokenizer).decode(ids), "a . n't ' a ");
  Built built = buildJson(tokenizer, Json::parse(R"({"clean_up_tokenization_spaces": true})"));
  ASSERT_TRUE(built.tokenizer) << built.error;
  EXPECT_EQ(built.decode(ids), "a.n't'a ");
  rt::StreamDecoder stream(*built.tokenizer, false);
  std::string text;
  for (int32_t id : ids)
    text += stream.push(id);
  EXPECT_EQ(text, "a.n't'a"); // a space may be taken out yet
  EXPECT_EQ(stream.finish(), " ");
}

/// Where some text is not to be trusted, no model makes a special token of any.
TEST(TokenizerJson, modelMakesNoSpecialTokenOfUntrustedText) {
  Json tokenizer = smallTokenizer();
  tokenizer["added_tokens"][0]["content"] = "abc"; // which merges lead to
  tokenizer["added_tokens"][0]["single_word"] = true;
  Built built = buildJson(tokenizer);
  ASSERT_TRUE(built.tokenizer) << built.error;
  const std::vector<rt::TextSpan> all = {{0, 4}};
  rt::EncodeOptions options;
  Ids ids;
  built.tokenizer->encode("abca", options, ids);
  EXPECT_EQ(ids, (Ids{5, 0}));
  options.untrusted = all;
  ids.clear();
  built.tokenizer->encode("abca", options, ids);
  EXPECT_EQ(ids, (Ids{4, 2, 0}));

  tokenizer["model"] = Json::parse(R"({"type": "Unigram", "unk_id": 0,
      "vocab": [["<unk>", 0], ["a", -1], ["b", -1], ["c", -1], ["abc", -1]]})");
  tokenizer["pre_tokenizer"] = nullptr;
  built = buildJson(tokenizer);
  ASSERT_TRUE(built.tokenizer) << built.error;
  EXPECT_EQ(built.encode("abca"), (Ids{4, 1}));
  EXPECT_EQ(built.encode("abca", true, false), (Ids{1, 2, 3, 1}));
}

TEST(TokenizerJson, sameTextTwiceAfterNormalization) {
  Built built = changed([](Json &t) {
    t["normalizer"] = {{"type", "NFC"}};
    for (const char *content : {"\u00e9", "e\u0301"}) {
      Json token = t["added_tokens"][0];
      token["content"] = content;
      token["normalized"] = true;
      t["added_tokens"].push_back(token);
    }
  });
  EXPECT_EQ(built.error, "tokenizer.json: the added tokens '\u00e9' and 'e\u0301' are the same text when normalized");
}

// ---------------------------------------------------------------------------
// GGUF
// ---------------------------------------------------------------------------

/// GGUF metadata with the contents of a tokenizer.json's vocabulary and merges.
struct Metadata {
  GgufTokenizer tokenizer;
  std::vector<std::string> tokens, merges;

  explicit Metadata(const Json &json) {
    for (const auto &[text, id] : json["model"]["vocab"].items()) {
      tokens.resize(std::max<size_t>(tokens.size(), id.get<size_t>() + 1));
      tokens[id] = text;
    }
    for (const Json &merge : json["model"]["merges"])
      merges.push_back(merge.get<std::string>());
    tokenizer.tokenTypes.assign(tokens.size(), 1);
    for (const Json &token : json["added_tokens"])
      if (token["id"] < tokens.size())
        tokenizer.tokenTypes[token["id"]] = token["special"] ? 3 : 4;
    tokenizer.model = "gpt2";
    tokenizer.tokens.assign(tokens.begin(), tokens.end());
    tokenizer.merges.assign(merges.begin(), merges.end());
  }
};

Built buildGguf(const GgufTokenizer &metadata, std::optional<int64_t> rows = std::nullopt) {
  return build(convertGgufTokenizer(metadata, "model.gguf"), rows);
}

/// SmolLM2's metadata, as its GGUF has it, gives the ids of its tokenizer.json.
TEST(TokenizerGguf, smollm2AsItsGolden) {
  std::string home = INGOT_GOLDEN_DIR "/tokenizer-smollm2/";
  auto json = readJsonFile(home + "model/tokenizer.json"), golden = readJsonFile(home + "golden.json");
  ASSERT_TRUE(json && golden);
  Metadata metadata(*json);
  metadata.tokenizer.pre = "smollm";
  metadata.tokenizer.bosId = 1;
  metadata.tokenizer.eosId = 2;
  metadata.tokenizer.addBos = metadata.tokenizer.addSpacePrefix = false;
  Built built = buildGguf(metadata.tokenizer, 49152);
  ASSERT_TRUE(built.tokenizer) << built.error;
  for (const Json &item : (*golden)["items"]) {
    EXPECT_EQ(built.encode(item["text"].get<std::string>()), item["ids"].get<Ids>()) << item["text"];
    EXPECT_EQ(built.decode(item["ids"].get<Ids>(), true), item["decoded_skip"].get<std::string>()) << item["ids"];
  }
}

TEST(TokenizerGguf, namedPreTokenizers) {
  Json json = smallTokenizer();
  json["added_tokens"] = Json::array();
  for (const char *digit : {"1", "2", "12"})
    json["model"]["vocab"][digit] = json["model"]["vocab"].size();
  json["model"]["merges"].push_back("1 2");
  Metadata metadata(json);
  auto ids = [&](const char *pre) {
    metadata.tokenizer.pre = pre;
    Built built = buildGguf(metadata.tokenizer);
    EXPECT_EQ(built.error, "") << pre;
    return built.error.empty() ? built.encode("12") : Ids{};
  };
  metadata.tokenizer.addBos = false;
  for (const char *pre : {"", "default", "gpt-2", "llama-bpe", "gpt-4o", "falcon", "deepseek-v3", "bloom", "jais-2",
                          "minicpm5", "chatglm-bpe"})
    EXPECT_EQ(ids(pre), Ids{8}) << pre;
  for (const char *pre : {"smollm", "qwen2", "deepseek-r1-qwen", "tekken", "qwen35", "command-r", "deepseek-llm",
                          "deepseek-coder", "viking", "seed-coder", "stablelm2"})
    EXPECT_EQ(ids(pre), (Ids{6, 7})) << pre;
  // Llama's start token comes first unless the file says otherwise.
  metadata.tokenizer.addBos = std::nullopt;
  metadata.tokenizer.bosId = 2;
  EXPECT_EQ(ids("llama-bpe"), (Ids{2, 8}));
  EXPECT_EQ(ids("gpt-2"), Ids{8});
}

TEST(TokenizerGguf, tokenTypes) {
  Json json = smallTokenizer();
  json["model"]["vocab"]["<end>"] = 6;
  json["model"]["vocab"]["bc"] = 7;
  Metadata metadata(json);
  metadata.tokenizer.pre = "llama-bpe"; // ignores merges: a piece in the vocabulary is that token
  metadata.tokenizer.addBos = false;
  EXPECT_EQ(buildGguf(metadata.tokenizer).encode("bc<end>"), (Ids{7, 6}));
  metadata.tokenizer.tokenTypes[7] = 5; // unused: text does not become it
  metadata.tokenizer.tokenTypes[6] = 1; // an ordinary piece that is the end token is special all the same
  metadata.tokenizer.eosId = 6;
  metadata.tokenizer.addEos = true;
  Built built = buildGguf(metadata.tokenizer);
  EXPECT_EQ(built.encode("bc<end>"), (Ids{1, 2, 6, 6}));
  EXPECT_EQ(built.decode({7, 6}, true), "bc");
}

/// A SentencePiece vocabulary with scores: ids and texts are those of the merges that transformers' converter makes of
/// it (make_tokenizer_golden.py).
TEST(TokenizerGguf, sentencePieceAsItsGolden) {
  auto golden = readJsonFile(INGOT_SYNTHETIC_DIR "/../gguf-llama.json");
  ASSERT_TRUE(!!golden) << toString(golden.takeError());
  auto tokens = (*golden)["tokens"].get<std::vector<std::string>>();
  GgufTokenizer metadata;
  metadata.model = "llama";
  metadata.tokens.assign(tokens.begin(), tokens.end());
  metadata.scores = (*golden)["scores"].get<std::vector<double>>();
  metadata.tokenTypes = (*golden)["types"].get<std::vector<int64_t>>();
  Built built = buildGguf(metadata, tokens.size());
  ASSERT_TRUE(built.tokenizer) << built.error;
  ASSERT_GT((*golden)["items"].size(), 200u);
  for (const Json &item : (*golden)["items"]) {
    EXPECT_EQ(built.encode(item["text"].get<std::string>()), item["ids"].get<Ids>()) << item["text"];
    EXPECT_EQ(built.decode(item["ids"].get<Ids>(), true), item["decoded"].get<std::string>()) << item["ids"];
  }
  // Without a space in front, as Gemma's files say, and without a start token.
  Ids with = built.encode("the", false);
  metadata.addSpacePrefix = metadata.addBos = false;
  Built bare = buildGguf(metadata);
  ASSERT_TRUE(bare.tokenizer) << bare.error;
  EXPECT_EQ(bare.encode(" the"), with);
  EXPECT_EQ(bare.decode(bare.encode("the")), "the");
  EXPECT_NE(bare.encode("the"), with);
}

TEST(TokenizerGguf, refusesByName) {
  const Metadata base(smallTokenizer());
  auto error = [&](const std::function<void(GgufTokenizer &)> &change) {
    GgufTokenizer metadata = base.tokenizer;
    metadata.pre = "gpt-2";
    change(metadata);
    return buildGguf(metadata, 6).error;
  };
  EXPECT_EQ(error([](GgufTokenizer &) {}), "");
  EXPECT_EQ(error([](GgufTokenizer &t) { t.model = "t5"; }),
            "model.gguf: tokenizer.ggml.model 't5' is not supported yet");
  EXPECT_EQ(error([](GgufTokenizer &t) { t.model = "llama"; }),
            "model.gguf: tokenizer.ggml.pre: the pre-tokenizer 'gpt-2' is not known for the model 'llama'; expected "
            "'default'");
  EXPECT_EQ(error([](GgufTokenizer &t) {
              t.model = "llama";
              t.pre = "default";
            }),
            "model.gguf: tokenizer.ggml.scores: expected 6 scores, one a token, got 0");
  EXPECT_EQ(
      error([](GgufTokenizer &t) {
        t.pre = "gpt-3";
      }).find("model.gguf: tokenizer.ggml.pre: the pre-tokenizer 'gpt-3' is not known; expected one of default, gpt-2"),
      0u);
  EXPECT_EQ(error([](GgufTokenizer &t) { t.addBos = true; }),
            "model.gguf: tokenizer.ggml.bos_token_id: expected an id below 6, as add_bos_token asks for it, got none");
  EXPECT_EQ(error([](GgufTokenizer &t) { t.merges[0] = "ab"; }),
            "model.gguf: tokenizer.ggml.merges: entry 0: expected two pieces with a space between, got 'ab'");
  EXPECT_EQ(error([](GgufTokenizer &t) { t.merges[0] = "b a"; }),
            "model.gguf: tokenizer.ggml.merges: entry 0: 'ba' is not among the tokens");
  EXPECT_EQ(error([](GgufTokenizer &t) { t.tokens[1] = "a"; }),
            "model.gguf: tokenizer.ggml.tokens: ids 0 and 1 are both 'a'");
  EXPECT_EQ(error([](GgufTokenizer &t) { t.tokenTypes.pop_back(); }),
            "model.gguf: tokenizer.ggml.token_type: expected 6 types, one a token, got 5");
  EXPECT_EQ(error([](GgufTokenizer &t) { t.tokens.push_back("x"), t.tokenTypes.push_back(1); }),
            "model.gguf: token 'x' has the id 6, but the model's embedding has 6 rows");
}

} // namespace
