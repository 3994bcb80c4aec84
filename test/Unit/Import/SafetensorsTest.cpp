// Safetensors, one test for each way in which a file, or an index and its shards, can be wrong.
#include "compiler/Import/Safetensors.h"
#include "TestSupport.h"

using namespace ingot;
using namespace ingot::test;

static std::string parseError(llvm::StringRef file) {
  return errorOf(parseSafetensors("model.safetensors", llvm::ArrayRef<char>(file.data(), file.size())));
}

/// The error for a file with one tensor 'w' whose entry is `entry` and 8 bytes of data.
static std::string entryError(const std::string &entry) { return parseError(safetensors(R"({"w":)" + entry + "}", 8)); }

static const std::string good = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

TEST(Safetensors, ReadsRows) {
  TemporaryDirectory home;
  std::string header = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                       R"("s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                       R"("e":{"dtype":"F32","shape":[0,4],"data_offsets":[4,4]}})";
  std::string file = le<uint64_t>(header.size()) + header + le(2.5f);
  for (uint16_t bits : {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0})
    file += le(bits);
  auto checkpoint = SafetensorsCheckpoint::open(home.write("model.safetensors", file));
  ASSERT_TRUE(bool(checkpoint)) << errorOf(std::move(checkpoint));
  const Checkpoint &c = **checkpoint;
  ASSERT_EQ(c.tensors().size(), 3u);
  EXPECT_EQ(c.find("none"), nullptr);
  const TensorInfo *b = c.find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, ElementKind::BF16);
  EXPECT_EQ(b->file, home.path("model.safetensors"));
  std::vector<float> row(3);
  ASSERT_EQ(errorOf(c.readF32(*b, 1, 1, row)), "no error");
  EXPECT_EQ(row, (std::vector<float>{4, 5, 6}));
  std::string stored(6, 0);
  ASSERT_EQ(errorOf(c.readStored(*b, 0, 1, {stored.data(), 6})), "no error");
  EXPECT_EQ(stored, le<uint16_t>(0x3f80) + le<uint16_t>(0x4000) + le<uint16_t>(0x4040));
  auto raw = c.rawBytes(*b);
  ASSERT_TRUE(bool(raw));
  EXPECT_EQ(llvm::StringRef(raw->data(), raw->size()), llvm::StringRef(file).take_back(12));
  float scalar;
  ASSERT_EQ(errorOf(c.readF32(*c.find("s"), 0, 1, {&scalar, 1})), "no error");
  EXPECT_EQ(scalar, 2.5f);
  EXPECT_EQ(errorOf(c.readF32(*c.find("e"), 0, 0, {})), "no error");
  c.release(*b);
  ASSERT_EQ(errorOf(c.readF32(*b, 0, 1, row)), "no error");
  EXPECT_EQ(row, (std::vector<float>{1, 2, 3}));
  // Requests that make no sense are errors, not reads out of bounds.
  expectText(errorOf(c.readF32(*b, 2, 1, row)), {"tensor 'b': rows 2", "it has 2"});
  expectText(errorOf(c.readF32(*b, -1, 1, row)), {"rows -1"});
  expectText(errorOf(c.readF32(*b, INT64_MAX, 1, row)), {"it has 2"});
  expectText(errorOf(c.readF32(*b, 0, 2, row)), {"a buffer of 3", "expected 6"});
  TensorInfo copy = *b;
  expectText(errorOf(c.readF32(copy, 0, 1, row)), {"is not one of this checkpoint's"});
}

TEST(Safetensors, IntegersAndEightBitFloatsAreNoWeights) {
  TemporaryDirectory home;
  for (const char *dtype : {"I8", "U8", "F8_E4M3", "F8_E5M2", "BOOL"}) {
    std::string header = std::string(R"({"w":{"dtype":")") + dtype + R"(","shape":[8],"data_offsets":[0,8]}})";
    auto checkpoint = SafetensorsCheckpoint::open(home.write("model.safetensors", safetensors(header, 8)));
    ASSERT_TRUE(bool(checkpoint)) << errorOf(std::move(checkpoint));
    std::vector<float> row(8);
    const TensorInfo &w = (*checkpoint)->tensors()[0];
    expectText(errorOf((*checkpoint)->readF32(w, 0, 1, row)),
               {"model.safetensors: tensor 'w'", std::string("type ") + dtype + " are not supported", "expected F32"});
    expectText(errorOf((*checkpoint)->rawBytes(w)), {"tensor 'w'", dtype});
  }
}

TEST(Safetensors, F64ThatOverflows) {
  TemporaryDirectory home;
  std::string header = R"({"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})";
  auto checkpoint =
      SafetensorsCheckpoint::open(home.write("m.safetensors", le<uint64_t>(header.size()) + header + le(1e300)));
  ASSERT_TRUE(bool(checkpoint));
  float value;
  expectText(errorOf((*checkpoint)->readF32((*checkpoint)->tensors()[0], 0, 1, {&value, 1})),
             {"tensor 'w'", "F64 has no finite float32"});
}

TEST(Safetensors, HeaderFaults) {
  expectText(parseError("1234567"), {"model.safetensors: is truncated: it has 7 bytes"});
  expectText(parseError(le<uint64_t>(3) + "{}"), {"the header's length is 3; 2 bytes follow it"});
  expectText(parseError(le<uint64_t>(200'000'000) + "{}"), {"the header's length is 200000000", "at most 100000000"});
  expectText(parseError(le<uint64_t>(UINT64_MAX) + "{}"), {"the header's length is 18446744073709551615"});
  expectText(parseError(safetensors("[]", 0)), {"does not begin with '{'"});
  expectText(parseError(safetensors("{\"a\":", 0)), {"model.safetensors (header): line 1", "not JSON"});
  expectText(parseError(safetensors("{\"w\":" + good + ",\"w\":" + good + "}", 8)),
             {"model.safetensors (header)", "the key 'w' is there twice"});
  expectText(parseError(safetensors(R"({"__metadata__":{"a":1}})", 0)), {"__metadata__ key 'a' is '1'"});
  expectText(parseError(safetensors(R"({"__metadata__":[]})", 0)), {"__metadata__ is array"});
  expectText(parseError("GGUF\3" + std::string(40, 0)), {"is a GGUF file, not safetensors"});
  expectText(parseError("version https://git-lfs.github.com/spec/v1\n"), {"is a Git-LFS pointer"});
}

TEST(Safetensors, EntryFaults) {
  EXPECT_EQ(entryError(good), "no error");
  expectText(entryError("[]"), {"model.safetensors: tensor 'w': its entry is array"});
  expectText(entryError(R"({"shape":[2],"data_offsets":[0,8]})"), {"tensor 'w': has no dtype"});
  expectText(entryError(R"({"dtype":"F32","data_offsets":[0,8]})"), {"tensor 'w': has no shape"});
  expectText(entryError(R"({"dtype":"F32","shape":[2]})"), {"tensor 'w': has no data_offsets"});
  expectText(entryError(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"), {"unknown key 'x'"});
  expectText(entryError(R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})"), {"its dtype is '4'; expected a string"});
  expectText(entryError(R"({"dtype":"F4","shape":[16],"data_offsets":[0,8]})"),
             {"dtype 'F4' is not supported; expected F64"});
  expectText(entryError(R"({"dtype":"Q4_0","shape":[32],"data_offsets":[0,18]})"), {"dtype 'Q4_0' is not supported"});
  expectText(entryError(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"), {"its shape is '2'; expected an array"});
  expectText(entryError(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), {"a dimension is '-2'"});
  expectText(entryError(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), {"a dimension is '2.0'"});
  expectText(entryError(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})"), {"a dimension is"});
}

TEST(Safetensors, OffsetFaults) {
  expectText(entryError(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), {"expected two integers"});
  expectText(entryError(R"({"dtype":"F32","shape":[2],"data_offsets":[0,-8]})"),
             {"its data_offsets are ['0', '-8']; expected two integers"});
  expectText(entryError(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), {"[8, 0] end before they begin"});
  expectText(entryError(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})"),
             {"tensor 'w': data_offsets [0, 8] hold 8 bytes; expected 4 for F32 of shape [1]"});
  expectText(entryError(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
             {"shape [4294967296, 4294967296] of F32 overflows"});
  expectText(entryError(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]})"), {"overflows"});
}

TEST(Safetensors, CoverFaults) {
  auto two = [](const char *a, const char *b, size_t bytes) {
    auto entry = [](const char *offsets) {
      return R"({"dtype":"F32","shape":[1],"data_offsets":)" + std::string(offsets) + "}";
    };
    return parseError(safetensors(R"({"a":)" + entry(a) + R"(,"b":)" + entry(b) + "}", bytes));
  };
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "no error");
  expectText(two("[0,4]", "[2,6]", 8), {"tensor 'b': its data overlap those of 'a'", "begin at 2", "end at 4"});
  expectText(two("[0,4]", "[0,4]", 8), {"overlap"});
  expectText(two("[0,4]", "[6,10]", 10), {"tensor 'b': a hole of 2 bytes", "begin at 6; expected 4"});
  expectText(two("[2,6]", "[6,10]", 10), {"tensor 'a': a hole of 2 bytes", "expected 0"});
  expectText(two("[0,4]", "[4,8]", 7), {"is truncated: it has 7 bytes of data; expected 8 (tensor 'b' ends there)"});
  expectText(two("[0,4]", "[4,8]", 9), {"1 trailing bytes after the last tensor", "9 bytes of data; expected 8"});
  expectText(two("[0,4]", "[18446744073709551612,18446744073709551615]", 8), {"hold 3 bytes"});
  expectText(two("[0,4]", "[18446744073709551611,18446744073709551615]", 8), {"tensor 'b': a hole"});
}

namespace {

/// Two shards and an index.
struct Sharded {
  TemporaryDirectory home;

  Sharded() {
    home.write("a.safetensors", safetensors(R"({"w":)" + good + "}", 8));
    home.write("sub/b.safetensors", safetensors(R"({"v":)" + good + "}", 8));
  }
  llvm::Expected<std::unique_ptr<SafetensorsCheckpoint>> open(const std::string &map, const std::string &more = "") {
    return SafetensorsCheckpoint::openIndex(
        home.write("model.safetensors.index.json", R"({"weight_map":)" + map + more + "}"));
  }
  std::string error(const std::string &map, const std::string &more = "") { return errorOf(open(map, more)); }
};

} // namespace

TEST(SafetensorsIndex, ReadsAllShards) {
  Sharded model;
  auto checkpoint =
      model.open(R"({"w":"a.safetensors","v":"sub/b.safetensors"})", R"(,"metadata":{"total_size":16.0})");
  ASSERT_TRUE(bool(checkpoint)) << errorOf(std::move(checkpoint));
  EXPECT_EQ((*checkpoint)->tensors().size(), 2u);
  EXPECT_EQ((*checkpoint)->find("v")->file, model.home.path("sub/b.safetensors"));
  std::vector<float> row(2);
  EXPECT_EQ(errorOf((*checkpoint)->readF32(*(*checkpoint)->find("v"), 0, 1, row)), "no error");
}

TEST(SafetensorsIndex, FollowsLinksAsTheHubCacheHasThem) {
  Sharded model;
  ASSERT_FALSE(llvm::sys::fs::create_link("sub/b.safetensors", model.home.path("b.safetensors")));
  EXPECT_EQ(model.error(R"({"w":"a.safetensors","v":"b.safetensors"})"), "no error");
}

TEST(SafetensorsIndex, Faults) {
  Sharded model;
  expectText(errorOf(SafetensorsCheckpoint::openIndex(model.home.write("i.json", "[]"))), {"i.json: is array"});
  expectText(errorOf(SafetensorsCheckpoint::openIndex(model.home.write("i.json", "{}"))), {"has no weight_map"});
  expectText(model.error("{}"), {"index.json: has no weight_map with entries"});
  expectText(model.error(R"({"w":1})"), {"tensor 'w': maps to '1'"});
  expectText(model.error(R"({"w":"/etc/passwd"})"), {"tensor 'w'", "'/etc/passwd'; expected a path relative"});
  expectText(model.error(R"({"w":"sub/../a.safetensors"})"), {"tensor 'w'", "a path with '..' is not followed"});
  expectText(model.error(R"({"w":"a\nb"})"), {"tensor 'w'", "'a\\x0ab'; expected a path relative"});
  expectText(model.error(R"({"w":""})"), {"tensor 'w'", "expected a path relative"});
  expectText(model.error(R"({"w":"a.safetensors","v":"c.safetensors"})"),
             {"names the shard 'c.safetensors', which is not there; download all 2 files"});
  expectText(model.error(R"({"w":"a.safetensors","x":"a.safetensors"})"),
             {"index.json: tensor 'x': is not in the file that the weight_map names, 'a.safetensors'"});
  expectText(model.error(R"({"x":"a.safetensors"})"), {"a.safetensors: tensor 'w': is not in the weight_map"});
  expectText(model.error(R"({"w":"sub/b.safetensors","v":"a.safetensors"})"),
             {"b.safetensors: tensor 'v': is in this file; the weight_map", "says 'a.safetensors'"});
  expectText(model.error(R"({"w":"a.safetensors"})", R"(,"metadata":{"total_size":9})"),
             {"metadata.total_size is '9'; the tensors of all shards have 8 bytes"});
  model.home.write("twice.safetensors", safetensors(R"({"w":)" + good + "}", 8));
  expectText(model.error(R"({"w":"a.safetensors","v":"twice.safetensors"})"),
             {"twice.safetensors: tensor 'w': is also in", "a.safetensors"});
}
