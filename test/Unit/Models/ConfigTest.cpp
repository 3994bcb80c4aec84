// Configurations: rope frequencies against the reference's, every refusal, the ledger.
#include "compiler/Import/ConfigReader.h"
#include "test/Unit/Models/Support.h"
#include "llvm/Support/MemoryBuffer.h"
#include <bit>
#include <cmath>

using namespace ingot;
using namespace ingot::test;
using namespace llvm;

namespace {

Expected<DecoderConfig> read(const Json &config, Ledger &ledger, ArrayRef<std::string> ignored = {},
                             bool isGguf = false) {
  return readDecoderConfig(config, "config.json", ignored, ledger, isGguf);
}

Expected<DecoderConfig> read(const Json &config) {
  Ledger ledger;
  return read(config, ledger);
}

float fromBits(const Json &bits) { return std::bit_cast<float>(bits.get<uint32_t>()); }

/// Frequencies against recorded ones. torch's vector code misses the correctly rounded power by one unit now and then,
/// which a division may double: at most 2^-22 apart, and equal in bits in at least 95 of 100.
void compare(const std::string &name, ArrayRef<float> actual, const Json &expected, size_t &equal, size_t &total) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  for (size_t i = 0; i < actual.size(); ++i) {
    float want = fromBits(expected[i]);
    EXPECT_LE(std::fabs(double(actual[i]) - double(want)), std::ldexp(std::fabs(double(want)), -22))
        << name << ", frequency " << i << ": " << actual[i] << " and " << want;
    equal += actual[i] == want;
    ++total;
  }
}

TEST(Rope, FrequenciesAreTheReferences) {
  Expected<Json> fixtures = readJsonFile(INGOT_FIXTURES_DIR "/rope_fixtures.json");
  ASSERT_TRUE(bool(fixtures)) << toString(fixtures.takeError());
  size_t equal = 0, total = 0;
  for (const Json &row : *fixtures) {
    std::string name = row["name"].get<std::string>();
    Expected<DecoderConfig> config = read(row["config"]);
    ASSERT_TRUE(bool(config)) << name << ": " << toString(config.takeError());
    const RopeSpec &rope = config->rope;
    compare(name, rope.frequencies, row["frequencies"], equal, total);
    EXPECT_EQ(rope.scaling, fromBits(row["scaling"])) << name;
    bool isLong = row.contains("long_from");
    EXPECT_EQ(rope.longFrom, isLong ? row["long_from"].get<int64_t>() : 0) << name;
    if (isLong)
      compare(name, rope.longFrequencies, row["long_frequencies"], equal, total);
    else
      EXPECT_TRUE(rope.longFrequencies.empty()) << name;
  }
  EXPECT_GE(equal * 100, total * 95) << equal << " of " << total;
}

} // namespace
