// Conversions, JSON, UTF-8, .npy, sizes.
#include "support/checked.h"
#include "support/float16.h"
#include "support/hash.h"
#include "support/json.h"
#include "support/npy.h"
#include "support/output.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace ingot::rt;

namespace {

/// Value of a binary16 by its definition.
double halfValue(uint16_t bits) {
  int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(Float16, EveryHalfWidensExactlyAndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    float wide = floatFromHalf(half);
    if ((bits & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_TRUE(std::isnan(floatFromHalf(halfFromFloat(wide))));
      continue;
    }
    if ((bits & 0x7fff) == 0x7c00)
      EXPECT_TRUE(std::isinf(wide));
    else
      ASSERT_EQ(static_cast<double>(wide), halfValue(half)) << bits;
    ASSERT_EQ(halfFromFloat(wide), half) << bits;
  }
}

TEST(Float16, NarrowingRoundsToNearestEven) {
  // Between each pair of neighbours: below the middle, the middle, above it.
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    auto middle = static_cast<float>((halfValue(low) + halfValue(high)) / 2);
    ASSERT_EQ(halfFromFloat(middle), bits & 1 ? high : low) << bits;
    ASSERT_EQ(halfFromFloat(std::nextafter(middle, 0.0f)), low) << bits;
    ASSERT_EQ(halfFromFloat(std::nextafter(middle, 1e9f)), high) << bits;
    ASSERT_EQ(halfFromFloat(-middle), 0x8000 | (bits & 1 ? high : low)) << bits;
  }
  EXPECT_EQ(halfFromFloat(65519.996f), 0x7bff);
  EXPECT_EQ(halfFromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(halfFromFloat(1e30f), 0x7c00);
}

TEST(Float16, Bfloat) {
  EXPECT_EQ(bfloatFromFloat(1.0f), 0x3f80);
  EXPECT_EQ(bfloatFromFloat(std::bit_cast<float>(0x3f808000u)), 0x3f80) << "a tie, to even";
  EXPECT_EQ(bfloatFromFloat(std::bit_cast<float>(0x3f818000u)), 0x3f82) << "a tie, to even";
  EXPECT_EQ(bfloatFromFloat(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(bfloatFromFloat(std::bit_cast<float>(0x7f7fffffu)), 0x7f80) << "overflow";
  EXPECT_TRUE(std::isnan(floatFromBfloat(bfloatFromFloat(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Checked, RemembersOverflow) {
  uint64_t big = UINT64_C(1) << 40;
  EXPECT_FALSE((Checked(big) * Checked(1000) + Checked(5)).overflowed);
  EXPECT_EQ((Checked(big) * Checked(1000) + Checked(5)).value, big * 1000 + 5);
  EXPECT_TRUE((Checked(big) * Checked(big)).overflowed);
  EXPECT_TRUE((Checked(big) * Checked(big) + Checked(1)).overflowed);
  EXPECT_TRUE((Checked(UINT64_MAX) + Checked(1)).overflowed);
  EXPECT_TRUE(Checked(UINT64_MAX - 3).roundedUp(64).overflowed);
  EXPECT_EQ(Checked(65).roundedUp(64).value, 128u);
}

TEST(Hash, IsXxh3With128Bits) {
  EXPECT_EQ(hashText(hashBytes("", 0)), "99aa06d3014798d86001c324468d497f"); // xxhsum -H2 of an empty file
}

std::string messageOf(std::string_view text) {
  Result<JsonValue> value = parseJson(text);
  return value ? "accepted" : value.takeError().message();
}

TEST(Json, ReadsWhatRfc8259Allows) {
  Result<JsonValue> value =
      parseJson(" {\"a\": [1, -0.5e+2, true, false, null], \"b\":{\"\\u00e9\\ud83d\\ude00\\n\":\"x\"}} ");
  ASSERT_TRUE(value) << value.takeError().message();
  const JsonValue *list = value->find("a");
  ASSERT_EQ(list->items.size(), 5u);
  EXPECT_EQ(list->items[1].number, -50);
  EXPECT_EQ(list->items[1].text, "-0.5e+2");
  EXPECT_TRUE(list->items[2].boolean);
  EXPECT_EQ(value->find("b")->members[0].key, "\xc3\xa9\xf0\x9f\x98\x80\n");
  EXPECT_EQ(value->find("c"), nullptr);
}

TEST(Json, ObjectsOfVeryManyKeys) { // minutes if every key were compared with all before it
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i)
    text += "\"key" + std::to_string(i) + "\":1,";
  EXPECT_EQ(messageOf(text + "\"last\":1}"), "accepted");
  EXPECT_EQ(messageOf(text + "\"key7\":1}"), "JSON: duplicate key 'key7'");
}

TEST(Json, RefusesTheRest) {
  EXPECT_EQ(messageOf(""), "JSON: expected a value at byte 0");
  EXPECT_EQ(messageOf("[1,]"), "JSON: expected a value at byte 3");
  EXPECT_EQ(messageOf("{\"a\":1,\"a\":2}"), "JSON: duplicate key 'a'");
  EXPECT_EQ(messageOf("[1] 2"), "JSON: text after the value at byte 4");
  EXPECT_EQ(messageOf("01"), "JSON: text after the value at byte 1");
  EXPECT_EQ(messageOf("1."), "JSON: expected digits after '.' at byte 2");
  EXPECT_EQ(messageOf("\"\\ud800\""), "JSON: lone surrogate at byte 7");
  EXPECT_EQ(messageOf("\"a\nb\""), "JSON: control character in a string at byte 2");
  EXPECT_EQ(messageOf("\"\xff\""), "JSON: invalid UTF-8 in a string at byte 3");
  EXPECT_EQ(messageOf("\"abc"), "JSON: string without an end at byte 4");
  EXPECT_EQ(messageOf("\"\\"), "JSON: unknown escape at byte 3");
  EXPECT_EQ(messageOf("nul"), "JSON: unknown word at byte 0");
  EXPECT_EQ(messageOf("1e999"), "JSON: number out of range at byte 5");
  EXPECT_NE(messageOf(std::string(100, '[')), "accepted");
  EXPECT_NE(messageOf("{1:2}"), "accepted");
  EXPECT_NE(messageOf("'a'"), "accepted");
}

/// What a function writes to an Output.
template <typename Function>
std::string written(Function function) {
  int ends[2];
  if (pipe(ends) != 0)
    return "no pipe";
  Output output(ends[1]);
  function(output);
  output.flush();
  close(ends[1]);
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, read(ends[0], text.data(), text.size()))));
  close(ends[0]);
  return text;
}

TEST(Json, WritesWhatItReads) {
  std::string text = written([](Output &output) {
    JsonWriter json(output);
    json.beginObject();
    json.key("a\"\\\n\x01");
    json.beginArray();
    json.number(0.1f);
    json.number(UINT64_MAX);
    json.integer(-5);
    json.boolean(true);
    json.null();
    json.number(NAN);
    json.text("\xff");
    json.endArray();
    json.key("empty");
    json.beginArray();
    json.endArray();
    json.endObject();
  });
  EXPECT_EQ(text,
            "{\"a\\\"\\\\\\n\\u0001\": [0.100000001, 18446744073709551615, -5, true, null, null, \"\xef\xbf\xbd\"], "
            "\"empty\": []}");
  EXPECT_NE(messageOf(text), "");
  EXPECT_EQ(messageOf(text), "accepted");
}

TEST(Json, FloatsComeBack) {
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 0x00012345u) {
    float value = std::bit_cast<float>(bits);
    std::string text = written([&](Output &output) { JsonWriter(output).number(value); });
    ASSERT_EQ(strtof(text.c_str(), nullptr), value) << text;
  }
}

TEST(Output, KeepsTheFirstFailure) {
  int full = open("/dev/full", O_WRONLY);
  Output output(full);
  output.write("x");
  EXPECT_EQ(output.failed(), 0);
  output.flush();
  EXPECT_EQ(output.failed(), ENOSPC);
  close(full);
}

TEST(Utf8, RepairsByMaximalParts) {
  const char *bad = "\xef\xbf\xbd";
  EXPECT_EQ(validUtf8("a\xc3\xa9z"), "a\xc3\xa9z");
  EXPECT_EQ(validUtf8("\xc0\x80"), std::string(bad) + bad);           // overlong
  EXPECT_EQ(validUtf8("\xed\xa0\x80"), std::string(bad) + bad + bad); // a surrogate
  EXPECT_EQ(validUtf8("a\xf0\x9f\x98"), std::string("a") + bad);      // cut at the end
  EXPECT_EQ(incompleteUtf8("a\xf0\x9f\x98"), 3u);
  EXPECT_EQ(incompleteUtf8("a\xc3"), 1u);
  EXPECT_EQ(incompleteUtf8("a\xc3\xa9"), 0u);
  EXPECT_EQ(incompleteUtf8("\xff"), 0u);
}

TEST(Npy, SaysWhatItCannotWrite) {
  const float row[2] = {1, 2};
  Error error = writeNpy("/no/such/folder/x.npy", row, 1, 2, 2);
  ASSERT_TRUE(error);
  EXPECT_EQ(error.message(), "/no/such/folder/x.npy: cannot write: No such file or directory");
}

} // namespace
