// The runtime's side: UTF-8, damaged sections, streams, long pieces, equal images.
#include "compiler/Text/TokenizerImage.h"
#include "compiler/Text/TokenizerJson.h"
#include "tokenizer/tokenizer.h"
#include "gtest/gtest.h"
#include <chrono>
#include <cstring>
#include <random>

using namespace ingot;

namespace {

std::string lossy(std::string_view bytes) {
  std::string text;
  rt::appendLossyUtf8(text, bytes);
  return text;
}

#define FFFD "\xef\xbf\xbd"

/// The table of Unicode 3.9 on maximal subparts, and the ends of the ranges.
TEST(Utf8, replacesBrokenSequences) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", ""},
      {"plain ASCII, long enough for words", "plain ASCII, long enough for words"},
      {"é日🙂", "é日🙂"},
      {"\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", "a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d"},
      {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A"},
      {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A"},
      {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B"},
      {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", FFFD FFFD FFFD FFFD "A"},
      {"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80", "\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80"},
      {"12345678\xff", "12345678" FFFD},
      {"\xe2\x82", FFFD},
  };
  for (auto [bytes, text] : cases) {
    EXPECT_EQ(lossy(bytes), text);
    EXPECT_EQ(rt::isValidUtf8(bytes), bytes == text) << text;
    EXPECT_TRUE(rt::isValidUtf8(text));
  }
}

/// However bytes are cut into parts, the parts' texts add up to the whole's, and each is valid.
TEST(Utf8, streamEqualsWhole) {
  std::mt19937 random(1);
  const std::string_view pieces[] = {"a", "é", "日", "🙂", "\x80", "\xe2\x82", "\xf0\x9f", "\xc3", "\xff", "\xed\xa0"};
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (unsigned n = random() % 12; n; --n)
      bytes += pieces[random() % std::size(pieces)];
    rt::Utf8Stream stream;
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
      size_t length = 1 + random() % 3;
      std::string part;
      stream.push(std::string_view(bytes).substr(at, length), part);
      EXPECT_TRUE(rt::isValidUtf8(part));
      text += part;
      at += length;
    }
    stream.finish(text);
    EXPECT_EQ(text, lossy(bytes));
  }
}

std::vector<char> image(const char *name) {
  std::string home = std::string(INGOT_GOLDEN_DIR "/tokenizer-") + name + "/model/";
  auto description = readTokenizerJson(home + "tokenizer.json", home + "tokenizer_config.json");
  EXPECT_TRUE(!!description);
  auto bytes = makeTokenizerImage(*description, std::nullopt);
  EXPECT_TRUE(!!bytes);
  return std::move(*bytes);
}

TEST(TokenizerImage, sameInputSameBytes) { EXPECT_EQ(image("bbpe-qwen2"), image("bbpe-qwen2")); }

TEST(TokenizerImage, refusesWhatIsNotASection) {
  std::vector<char> bytes = image("bbpe-gpt2");
  auto errorOf = [](const std::vector<char> &section, size_t size) {
    std::string error;
    EXPECT_FALSE(rt::Tokenizer::open(section.data(), size, error));
    return error;
  };
  EXPECT_EQ(errorOf(bytes, 10), "tokenizer: the section is too small for its header: expected " +
                                    std::to_string(sizeof(ingot_rt_tok_header)) + ", got 10");
  EXPECT_EQ(errorOf(bytes, bytes.size() - 8), "tokenizer: the section's size: expected " +
                                                  std::to_string(bytes.size()) + ", got " +
                                                  std::to_string(bytes.size() - 8));
  auto damaged = [&](size_t offset, uint64_t value) {
    std::vector<char> copy = bytes;
    std::memcpy(copy.data() + offset, &value, sizeof(value));
    return errorOf(copy, copy.size());
  };
  EXPECT_NE(damaged(0, 1).find("bad magic number"), std::string::npos);
  EXPECT_NE(damaged(offsetof(ingot_rt_tok_header, version), 9).find("unknown version: expected 2, got 9"),
            std::string::npos);
  EXPECT_NE(damaged(offsetof(ingot_rt_tok_header, tokens) + 8, UINT64_MAX).find("table 'tokens' of"),
            std::string::npos);
  EXPECT_NE(damaged(offsetof(ingot_rt_tok_header, vocab) + 8, 3).find("expected a power of two, got 3"),
            std::string::npos);
  EXPECT_NE(damaged(offsetof(ingot_rt_tok_header, bytes), 4).find("table 'bytes'"), std::string::npos);
}

/// Whatever bytes change, opening says so or encoding ends without reading elsewhere (the sanitizers watch).
TEST(TokenizerImage, damageReadsNothingOutside) {
  const std::vector<char> original = image("bbpe-qwen2");
  std::mt19937 random(2);
  int opened = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<char> bytes = original;
    // Half of the changes fall into the header and the small tables behind it.
    for (unsigned n = 1 + random() % 40; n; --n) {
      size_t at =
          random() % 2 ? random() % bytes.size() : sizeof(uint64_t) * 2 + random() % sizeof(ingot_rt_tok_header);
      bytes[at] = static_cast<char>(random());
    }
    std::string error;
    auto tokenizer = rt::Tokenizer::open(bytes.data(), bytes.size(), error);
    if (!tokenizer) {
      EXPECT_FALSE(error.empty());
      continue;
    }
    ++opened;
    std::vector<int32_t> ids;
    tokenizer->encode("Hello <mask> WORD e\u0301 \u1112\u1161\u11ab 日本 123 <|im_end|>" + std::string(100, 'a'), {},
                      ids);
    std::string text = tokenizer->decode(ids, false);
    EXPECT_TRUE(rt::isValidUtf8(text));
  }
  EXPECT_GT(opened, 20);
}

/// Time grows with the length of one piece as n log n, not as its square.
TEST(TokenizerImage, longPieces) {
  std::vector<char> bytes = image("smollm2");
  std::string error;
  auto tokenizer = rt::Tokenizer::open(bytes.data(), bytes.size(), error);
  ASSERT_TRUE(tokenizer) << error;
  for (const char *unit : {"a", " ", "🙂", "\u0301", "ab", "\n"}) {
    std::string text;
    while (text.size() < 400'000)
      text += unit;
    std::vector<int32_t> ids;
    auto start = std::chrono::steady_clock::now();
    tokenizer->encode(text, {}, ids);
    // Quadratic time would take minutes.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << unit;
    EXPECT_EQ(tokenizer->decode(ids, false), text);
  }
}

} // namespace
