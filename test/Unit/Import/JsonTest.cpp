// What the JSON reader accepts and refuses, and where it says the fault is; what stands in for a file.
#include "compiler/Import/Json.h"
#include "TestSupport.h"
#include "compiler/Import/InputError.h"
#include "compiler/Import/MappedFile.h"

using namespace ingot;
using namespace ingot::test;

static std::string parseError(llvm::StringRef text) { return errorOf(parseJson(text, "x.json")); }

TEST(Json, KeepsOrderAndTypes) {
  llvm::Expected<Json> json = parseJson(R"({"b": [1, -2, 2.5, true, null, "t"], "a": {"z": {}, "y": []}})", "x.json");
  ASSERT_TRUE(bool(json));
  EXPECT_EQ(json->dump(), R"({"b":[1,-2,2.5,true,null,"t"],"a":{"z":{},"y":[]}})");
  EXPECT_TRUE((*json)["b"][0].is_number_unsigned());
  EXPECT_TRUE((*json)["b"][2].is_number_float());
}

TEST(Json, Scalars) {
  llvm::Expected<Json> number = parseJson(" 18446744073709551615 ", "x.json");
  ASSERT_TRUE(bool(number));
  EXPECT_EQ(number->get<uint64_t>(), UINT64_MAX);
  // tokenizer_config.json's model_max_length
  llvm::Expected<Json> large = parseJson("1000000000000000019884624838656", "x.json");
  ASSERT_TRUE(bool(large));
  EXPECT_EQ(large->get<double>(), 1e30);
}

TEST(Json, DuplicateKeySaysWhere) {
  expectText(parseError("{\"a\": 1,\n \"b\": {\"c\": 1, \"c\": 2}}"),
             {"x.json: line 2, column 18", "the key 'c' is there twice"});
  EXPECT_EQ(parseError(R"({"a": {"k": 1}, "b": {"k": 1}})"), "no error");
}

TEST(Json, Depth) {
  std::string deepest = std::string(maxJsonDepth, '[') + std::string(maxJsonDepth, ']');
  EXPECT_EQ(parseError(deepest), "no error");
  expectText(parseError("[" + deepest + "]"), {"column 101", "nested more than 100 deep"});
  expectText(parseError(std::string(10'000'000, '[')), {"nested more than 100 deep"});
}

TEST(Json, NumbersThatAreNone) {
  expectText(parseError(R"({"a": NaN})"), {"column 7", "NaN and Infinity are no JSON numbers"});
  expectText(parseError(R"([Infinity])"), {"NaN and Infinity"});
  expectText(parseError(R"([-Infinity])"), {"NaN and Infinity"});
  expectText(parseError("[1e999]"), {"'1e999' does not fit a 64-bit float"});
  expectText(parseError("[01]"), {"not JSON"});
}

TEST(Json, Malformed) {
  expectText(parseError(""), {"not JSON: nothing but white space"});
  expectText(parseError(" \n"), {"not JSON: nothing but white space"});
  expectText(parseError("{\"a\": 1"), {"line 1, column 7", "not JSON", "unexpected end of input"});
  expectText(parseError("{} {}"), {"not JSON", "expected end of input"});
  expectText(parseError("{\"a\": \"\xff\"}"), {"not JSON", "invalid string: ill-formed UTF-8 byte"});
  expectText(parseError("{'a': 1}"), {"not JSON"});
  expectText(parseError("{\"a\": 1, // comment\n}"), {"not JSON"});
  expectText(parseError(R"(["\ud800"])"), {"not JSON", "surrogate"});
}

TEST(Json, ManyKeysTakeLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i)
    text += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  llvm::Expected<Json> json = parseJson(text + "}", "x.json");
  ASSERT_TRUE(bool(json));
  EXPECT_EQ(json->size(), 200'000u);
}

TEST(InputError, QuoteMakesTextFitForALine) {
  EXPECT_EQ(quote("a\nb\x7f'\\"), R"('a\x0ab\x7f\'\\')");
  EXPECT_EQ(quote("\xc3\xa9\xff"), "'\xc3\xa9\\xff'");
  EXPECT_EQ(quote(std::string(200, 'x')), "'" + std::string(120, 'x') + "...'");
}

TEST(MappedFile, Faults) {
  TemporaryDirectory home;
  expectText(errorOf(MappedFile::open(home.path("none"))), {"none: cannot be opened", "No such file"});
  expectText(errorOf(MappedFile::open(home.path())), {"is a directory"});
  expectText(errorOf(MappedFile::open(home.write("empty", ""))), {"empty: is empty (0 bytes)"});
  expectText(errorOf(MappedFile::open("/dev/null")), {"/dev/null: is not a regular file"});
}

TEST(MappedFile, FollowsLinksAndReleases) {
  TemporaryDirectory home;
  std::string content(3 << 14, 'x');
  home.write("blobs/file", content);
  ASSERT_FALSE(llvm::sys::fs::create_link("blobs/file", home.path("link")));
  llvm::Expected<std::shared_ptr<MappedFile>> file = MappedFile::open(home.path("link"));
  ASSERT_TRUE(bool(file)) << errorOf(std::move(file));
  EXPECT_EQ((*file)->text(), content);
  (*file)->release((*file)->bytes().slice(5));
  EXPECT_EQ((*file)->text(), content);
}

TEST(MappedFile, StandIns) {
  auto check = [](llvm::StringRef bytes) { return errorOf(checkForStandIn("f", bytes)); };
  expectText(check("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n"),
             {"f: is a Git-LFS pointer", "git lfs pull"});
  expectText(check("\n <!DOCTYPE html><html>"), {"f: is an HTML page"});
  expectText(check("<html lang=en>"), {"f: is an HTML page"});
  expectText(check(llvm::StringRef("PK\3\4....", 8)), {"f: is a pickle", "safetensors"});
  expectText(check("\x80\x02}q\x01(X\x03\x01"), {"f: is a pickle", "safetensors"});
  EXPECT_EQ(check("{\"a\": \"<html>\"}"), "no error");
  // The length of a safetensors header may begin with a pickle's two bytes.
  for (size_t length : {0x280, 0x10580})
    EXPECT_EQ(check(safetensors("{}" + std::string(length - 2, ' '), 0)), "no error");
}
