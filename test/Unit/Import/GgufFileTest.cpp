// The GGUF container, one test for each way in which a file can be wrong.
#include "compiler/Import/GgufFile.h"
#include "TestSupport.h"

using namespace ingot;
using namespace ingot::test;

static std::string parseError(llvm::StringRef file) { return errorOf(parseGguf("m.gguf", file)); }
static std::string parseError(const GgufBuilder &builder) { return parseError(builder.build()); }

TEST(GgufFile, ReadsEveryType) {
  GgufBuilder builder;
  builder.raw("u8", 0, le<uint8_t>(200)).raw("i8", 1, le<int8_t>(-3)).raw("u16", 2, le<uint16_t>(60000));
  builder.raw("i16", 3, le<int16_t>(-300)).raw("u32", 4, le<uint32_t>(4000000000)).raw("i32", 5, le<int32_t>(-70000));
  builder.f32("f32", 1.5f).boolean("bool", true).text("string", "text");
  builder.raw("u64", 10, le<uint64_t>(UINT64_MAX)).raw("i64", 11, le<int64_t>(-1)).raw("f64", 12, le(2.5));
  builder.texts("strings", {"a", "", "bc"}).u32s("u32s", {1, 2});
  builder.raw("f32s", 9, le<uint32_t>(6) + le<uint64_t>(1) + le(0.25f))
      .raw("none", 9, le<uint32_t>(8) + le<uint64_t>(0));
  builder.raw("bytes", 9, le<uint32_t>(0) + le<uint64_t>(2) + "xy");
  std::string bytes = builder.build();
  llvm::Expected<GgufFile> file = parseGguf("m.gguf", bytes);
  ASSERT_TRUE(bool(file)) << errorOf(std::move(file));
  auto integer = [&](const char *key) { return file->find(key)->integer(); };
  EXPECT_EQ(integer("u8"), 200);
  EXPECT_EQ(integer("i8"), -3);
  EXPECT_EQ(integer("u16"), 60000);
  EXPECT_EQ(integer("i16"), -300);
  EXPECT_EQ(integer("u32"), 4000000000);
  EXPECT_EQ(integer("i32"), -70000);
  EXPECT_EQ(integer("i64"), -1);
  EXPECT_EQ(integer("u64"), std::nullopt);
  EXPECT_EQ(integer("f32"), std::nullopt);
  EXPECT_EQ(file->find("u64")->describe(), "u64 18446744073709551615");
  EXPECT_EQ(file->find("f32")->number(), 1.5);
  EXPECT_EQ(file->find("f64")->number(), 2.5);
  EXPECT_EQ(file->find("i8")->number(), -3.0);
  EXPECT_EQ(file->find("bool")->boolean(), true);
  EXPECT_EQ(file->find("string")->string(), llvm::StringRef("text"));
  EXPECT_EQ(file->find("strings")->strings(), (std::vector<llvm::StringRef>{"a", "", "bc"}));
  EXPECT_EQ(file->find("strings")->integers(), std::nullopt);
  EXPECT_EQ(file->find("strings")->describe(), "array of 3 string");
  EXPECT_EQ(file->find("u32s")->integers(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(file->find("f32s")->numbers(), (std::vector<double>{0.25}));
  EXPECT_EQ(file->find("none")->strings()->size(), 0u);
  EXPECT_EQ(file->find("bytes")->bytes(), llvm::StringRef("xy"));
  EXPECT_EQ(file->find("absent"), nullptr);
}

TEST(GgufFile, Version2IsTheSame) {
  GgufBuilder builder;
  builder.version = 2;
  EXPECT_EQ(parseError(builder.floats("w", {2, 3})), "no error");
}

TEST(GgufFile, ShapesAreOutermostFirst) {
  std::string bytes = GgufBuilder().floats("w", {4, 3}).build();
  llvm::Expected<GgufFile> file = parseGguf("m.gguf", bytes);
  ASSERT_TRUE(bool(file));
  EXPECT_EQ(file->tensors[0].shape, (llvm::SmallVector<int64_t, 4>{3, 4}));
  EXPECT_EQ(file->tensors[0].bytes.size(), 48u);
}

TEST(GgufFile, HeaderFaults) {
  expectText(parseError("GGML" + std::string(40, 0)), {"m.gguf: is no GGUF file: it begins with 'GGML'"});
  expectText(parseError("version https://git-lfs.github.com/spec/v1\n"), {"is a Git-LFS pointer"});
  expectText(parseError("<!doctype html>"), {"is an HTML page"});
  expectText(parseError("GGUF\3"), {"is truncated: the version needs 4 bytes at 4; 1 are left"});
  expectText(parseError("GGUF" + le<uint32_t>(1)), {"GGUF version 1; expected 2 or 3"});
  expectText(parseError("GGUF" + le<uint32_t>(4)), {"GGUF version 4; expected 2 or 3"});
  expectText(parseError("GGUF" + le<uint32_t>(3 << 24)), {"big-endian"});
  expectText(parseError("GGUF" + le<uint32_t>(3) + le<uint64_t>(UINT64_MAX) + le<uint64_t>(0)),
             {"the number of tensors is 18446744073709551615"});
  expectText(parseError("GGUF" + le<uint32_t>(3) + le<uint64_t>(0) + le<uint64_t>(1)),
             {"the number of metadata keys is 1; the 0 bytes that follow hold at most 0"});
}

TEST(GgufFile, MetadataFaults) {
  expectText(parseError(GgufBuilder().u32("a", 1).u32("a", 2)), {"the metadata key 'a' is there twice"});
  expectText(parseError(GgufBuilder().u32("", 1)), {"metadata key 0 is empty"});
  expectText(parseError(GgufBuilder().raw("a", 13, "12345678")), {"key 'a': the type is 13; expected 0 to 12"});
  expectText(parseError(GgufBuilder().raw("a", 7, "\2")), {"key 'a': a bool is 2; expected 0 or 1"});
  expectText(parseError(GgufBuilder().raw("a", 9, le<uint32_t>(7) + le<uint64_t>(2) + "\1\3")), {"a bool is 3"});
  expectText(parseError(GgufBuilder().raw("a", 9, le<uint32_t>(9) + le<uint64_t>(1))), {"an array of arrays"});
  expectText(parseError(GgufBuilder().raw("a", 9, le<uint32_t>(99) + le<uint64_t>(1))),
             {"key 'a': the type of the array's elements is 99"});
  expectText(parseError(GgufBuilder().raw("a", 9, le<uint32_t>(10) + le<uint64_t>(uint64_t(1) << 61))),
             {"is truncated: key 'a' is an array of 2305843009213693952 u64"});
  expectText(parseError(GgufBuilder().raw("a", 9, le<uint32_t>(8) + le<uint64_t>(1) + le<uint64_t>(UINT64_MAX))),
             {"a string of the array of key 'a' needs 18446744073709551615 bytes"});
  expectText(parseError(GgufBuilder().raw("a", 8, le<uint64_t>(1000))), {"the value of key 'a' needs 1000 bytes"});
  for (uint32_t alignment : {0u, 3u, 1u << 31})
    expectText(parseError(GgufBuilder().u32("general.alignment", alignment)),
               {"general.alignment is u32 " + std::to_string(alignment), "a power of two"});
  expectText(parseError(GgufBuilder().text("general.alignment", "x")), {"general.alignment is string 'x'"});
}

TEST(GgufFile, TensorFaults) {
  expectText(parseError(GgufBuilder().floats("w", {2}).floats("w", {2})), {"tensor 'w' is there twice"});
  expectText(parseError(GgufBuilder().tensorAt("w", {}, 0, 0)), {"tensor 'w': the number of dimensions is 0"});
  expectText(parseError(GgufBuilder().tensorAt("w", {1, 1, 1, 1, 1}, 0, 0)), {"the number of dimensions is 5"});
  expectText(parseError(GgufBuilder().tensorAt("w", {0}, 0, 0)), {"tensor 'w': a dimension is 0"});
  expectText(parseError(GgufBuilder().tensorAt("w", {UINT64_MAX}, 0, 0)), {"a dimension is 18446744073709551615"});
  expectText(parseError(GgufBuilder().tensorAt("w", {1ull << 32, 1ull << 32}, 0, 0)), {"overflows 63 bits"});
  expectText(parseError(GgufBuilder().tensorAt("w", {1ull << 62}, 0, 0)), {"overflows 63 bits"});
  expectText(parseError(GgufBuilder().tensorAt("w", {32}, 23, 0)),
             {"tensor 'w': the type IQ4_XS is not supported; expected F32"});
  expectText(parseError(GgufBuilder().tensorAt("w", {32}, 777, 0)), {"the type number 777 is not supported"});
  expectText(parseError(GgufBuilder().tensorAt("w", {33}, 2, 0)),
             {"tensor 'w': a row of 33 elements of Q4_0; expected a multiple of 32"});
  expectText(parseError(GgufBuilder().tensorAt("w", {32, 2}, 12, 0)), {"expected a multiple of 256"});
  expectText(parseError(GgufBuilder().tensorAt("w", {1}, 0, 4)),
             {"the offset is 4; expected a multiple of the alignment 32"});
}

TEST(GgufFile, CoverFaults) {
  GgufBuilder good;
  good.floats("a", {2}).floats("b", {2});
  EXPECT_EQ(parseError(good), "no error");
  EXPECT_EQ(parseError(good.build() + std::string(24, 0)), "no error"); // padding of the last tensor
  expectText(parseError(good.build() + std::string(25, 0)),
             {"25 trailing bytes after the last tensor 'b'", "padding to a multiple of 32"});
  std::string cut = good.build();
  expectText(parseError(llvm::StringRef(cut).drop_back(1)),
             {"is truncated: tensor 'b' needs 8 bytes at offset 32 of the data; the data have 39"});
  expectText(parseError(GgufBuilder().tensorAt("w", {1}, 0, 0)), {"is truncated: tensor 'w' needs 4 bytes"});
  expectText(parseError(GgufBuilder().floats("a", {16}).tensorAt("b", {1}, 0, 32)),
             {"tensor 'b': its data overlap those of 'a': they begin at 32, the other's end at 64"});
  expectText(parseError(GgufBuilder().floats("a", {2}).tensorAt("b", {1}, 0, 64)),
             {"tensor 'b': a hole of 32 bytes", "begin at 64; expected 32"});
  expectText(parseError(GgufBuilder().tensorAt("b", {1}, 0, uint64_t(1) << 63)), {"tensor 'b': a hole of"});
}

TEST(GgufFile, OtherAlignment) {
  GgufBuilder builder;
  builder.alignment = 128;
  builder.u32("general.alignment", 128).floats("a", {2}).floats("b", {2});
  EXPECT_EQ(parseError(builder), "no error");
}

/// No prefix of a good file is read out of bounds or taken for good.
TEST(GgufFile, EveryTruncation) {
  std::string whole = readFile(INGOT_FIXTURES "/llama.gguf");
  ASSERT_EQ(parseError(whole), "no error");
  for (size_t size = 0; size < whole.size(); size += size < 3000 ? 1 : 101) {
    std::string part = whole.substr(0, size); // a copy, so that a sanitizer sees its end
    ASSERT_NE(parseError(part), "no error") << size;
  }
}
