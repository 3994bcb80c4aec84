// Random weights in every layout and type, against the definition; choice of CPU variants.
#include "payload/payload.h"

#include "ingot_rt/random.h"
#include "platform/cpu.h"
#include "platform/machine.h"
#include "pool/pool.h"
#include "random_table.h"
#include "support/float16.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>

using namespace ingot::rt;

namespace {

void checkFill(uint32_t dtype, uint32_t layout, uint64_t rows, uint64_t columns, uint64_t segments, uint32_t workers) {
  SCOPED_TRACE(testing::Message() << "dtype " << dtype << " layout " << layout << " " << rows << "x" << columns
                                  << " segments " << segments);
  ingot::test::RandomTable table(dtype, layout, rows, columns, segments);
  const ingot_rt_parameter &parameter = table.parameter;
  const ingot_rt_model &model = table.model;
  bool pair = table.pair;
  uint64_t features = table.features, group = table.group, first = table.first;
  std::vector<uint8_t> weights(model.weights_bytes), expected = weights;
  Pool pool(workers, 2);
  fillRandomWeights(model, weights.data(), pool);
  struct Tensor {
    std::string name;
    uint64_t layer, which, firstRow, rows;
  };
  uint64_t rest = pair ? rows : rows - first, restRow = pair ? 0 : first, firstRows = pair ? rows : first;
  for (const Tensor &tensor :
       {Tensor{"layers.9.a", 0, 0, 0, firstRows}, Tensor{"layers.13.a", 1, 0, 0, firstRows},
        Tensor{"layers.9.b", 0, pair, restRow, rest}, Tensor{"layers.13.b", 1, pair, restRow, rest}})
    for (uint64_t row = 0; row < tensor.rows; ++row)
      for (uint64_t column = 0; column < columns; ++column) {
        uint64_t feature = tensor.firstRow + row, at = feature * columns + column;
        if (layout != INGOT_RT_ROWS)
          at = ingot_rt_panel_index(features, columns, segments, group,
                                    pair ? ingot_rt_pair_feature(tensor.which, feature) : feature, column);
        float value = ingot_rt_random_element(INGOT_RT_RANDOM_MATRIX,
                                              ingot_rt_random_key(7, tensor.name.data(), tensor.name.size()),
                                              ingot_rt_random_shift(columns), row * columns + column);
        uint32_t bits = std::bit_cast<uint32_t>(value);
        if (dtype != INGOT_RT_F32)
          bits = dtype == INGOT_RT_BF16 ? bfloatFromFloat(value) : halfFromFloat(value);
        memcpy(expected.data() + parameter.offset + tensor.layer * parameter.layer_stride +
                   at * ingot_rt_dtype_size(dtype),
               &bits, ingot_rt_dtype_size(dtype));
      }
  EXPECT_EQ(weights, expected); // padding is zero too
  Result<uint64_t> sampled = sampleRandomWeights(model, weights.data(), 1);
  ASSERT_TRUE(sampled);
  EXPECT_EQ(*sampled, 2 * (pair ? 2 : 1) * rows * columns);
  weights[parameter.offset] ^= 1;
  Result<uint64_t> damaged = sampleRandomWeights(model, weights.data(), 1);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.takeError().message().substr(0, 44), "parameter p, layer 0, row 0, column 0: expec");
}

TEST(RandomWeights, FillEveryLayoutAndTypeByTheDefinition) {
  for (uint32_t dtype : {INGOT_RT_F32, INGOT_RT_BF16, INGOT_RT_F16})
    for (uint64_t rows : {1, 16, 37, 70})
      for (uint64_t columns : {1, 16, 31, 1100}) {
        checkFill(dtype, INGOT_RT_ROWS, rows, columns, 1, 2);
        checkFill(dtype, INGOT_RT_PANELS, rows, columns, 1, 2);
        checkFill(dtype, INGOT_RT_PANELS, rows, columns, 8, 3);
        checkFill(dtype, INGOT_RT_PANEL_PAIRS, rows, columns, 1, 1);
      }
}

TEST(Cpu, PicksTheLastVariantThatRuns) {
  ingot_rt_variant variants[] = {
      {"v3", INGOT_RT_CPU_V3, nullptr, nullptr, nullptr},
      {"v4", INGOT_RT_CPU_V3 | INGOT_RT_CPU_AVX512, nullptr, nullptr, nullptr},
      {"v4-bf16", INGOT_RT_CPU_V3 | INGOT_RT_CPU_AVX512 | INGOT_RT_CPU_AVX512BF16, nullptr, nullptr, nullptr}};
  ingot_rt_model model = {};
  model.variants = variants;
  model.variant_count = 3;
  auto chosen = [&](uint64_t features, const char *forced) {
    Result<const ingot_rt_variant *> variant = chooseVariant(model, features, forced);
    return variant ? std::string((*variant)->name) : "error: " + variant.takeError().message();
  };
  EXPECT_EQ(chosen(INGOT_RT_CPU_V3, ""), "v3");
  EXPECT_EQ(chosen(INGOT_RT_CPU_V3 | INGOT_RT_CPU_AVX512VNNI, ""), "v3");
  EXPECT_EQ(chosen(INGOT_RT_CPU_V3 | INGOT_RT_CPU_AVX512, ""), "v4");
  EXPECT_EQ(chosen(15, ""), "v4-bf16");
  EXPECT_EQ(chosen(15, "v3"), "v3");
  EXPECT_NE(chosen(0, "").find("is below the minimum of this executable: it needs x86-64-v3 (AVX2, FMA, BMI, F16C)"),
            std::string::npos);
  EXPECT_NE(chosen(INGOT_RT_CPU_V3, "v4").find("needs x86-64-v4 (AVX-512 F, BW, CD, DQ, VL), which this CPU"),
            std::string::npos);
  EXPECT_EQ(chosen(15, "v5"), "error: CPU variant 'v5' is not in this executable; it has v3, v4, v4-bf16");
}

TEST(Machine, LimitsAreSane) {
  Cores cores = findCores();
  EXPECT_GE(cores.logical, cores.physical);
  EXPECT_GE(cores.physical, cores.allowed);
  EXPECT_GE(cores.allowed, 1u);
  setenv("INGOT_MEMORY_LIMIT", "12345", 1);
  MemoryBudget budget = findMemoryBudget();
  unsetenv("INGOT_MEMORY_LIMIT");
  EXPECT_EQ(budget.bytes, 12345u);
  EXPECT_EQ(budget.source, "INGOT_MEMORY_LIMIT");
  EXPECT_GT(findMemoryBudget().bytes, uint64_t(1) << 20);
  double start = now();
  EXPECT_GE(now(), start);
}

} // namespace
