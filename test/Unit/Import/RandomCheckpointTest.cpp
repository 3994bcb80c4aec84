// Random weights: the generator against its published vector, and the same bits whatever rows are asked for and in
// whatever type.
#include "compiler/Import/RandomCheckpoint.h"
#include "TestSupport.h"

using namespace ingot;
using namespace ingot::test;

/// Random123's kat_vectors: philox4x32 with 10 rounds.
TEST(RandomCheckpoint, PhiloxKnownAnswers) {
  uint32_t out[4];
  ingot_rt_random_block(0, 0, out);
  EXPECT_EQ(out[0], 0x6627e8d5u);
  EXPECT_EQ(out[1], 0xe169c58du);
  EXPECT_EQ(out[2], 0xbc57ac4cu);
  EXPECT_EQ(out[3], 0x9b00dbd8u);
}

TEST(RandomCheckpoint, RowsAreTheElementsOfTheWhole) {
  auto checkpoint = RandomCheckpoint::create(7, {{"model.x.weight", {5, 37}, INGOT_RT_RANDOM_MATRIX, ElementKind::F16},
                                                 {"model.x.bias", {37}, INGOT_RT_RANDOM_BIAS, ElementKind::BF16},
                                                 {"norm.weight", {37}, INGOT_RT_RANDOM_NORM, ElementKind::F32}});
  ASSERT_TRUE(bool(checkpoint)) << errorOf(std::move(checkpoint));
  for (const TensorInfo &tensor : (*checkpoint)->tensors()) {
    std::vector<float> whole(tensor.elements());
    ASSERT_EQ(errorOf((*checkpoint)->readF32(tensor, 0, tensor.rows(), whole)), "no error");
    uint64_t key = ingot_rt_random_key(7, tensor.name.data(), tensor.name.size());
    for (size_t i = 0; i < whole.size(); ++i)
      ASSERT_EQ(whole[i], ingot_rt_random_element((*checkpoint)->kind(tensor), key, ingot_rt_random_shift(37), i));
    size_t size = elementKindInfo(tensor.dtype).blockBytes;
    for (int64_t row = 0; row < tensor.rows(); ++row) {
      std::vector<float> part(37), decoded(37);
      ASSERT_EQ(errorOf((*checkpoint)->readF32(tensor, row, 1, part)), "no error");
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + row * 37));
      std::string stored(37 * size, 0);
      ASSERT_EQ(errorOf((*checkpoint)->readStored(tensor, row, 1, {stored.data(), stored.size()})), "no error");
      ASSERT_TRUE(convertToF32(tensor.dtype, stored, decoded));
      EXPECT_EQ(decoded, part) << tensor.name;
    }
    expectText(errorOf((*checkpoint)->rawBytes(tensor)), {"random weights: tensor", "rows must be read"});
  }
}

/// The largest K for which s is near its largest: values reach far into float16's subnormals.
TEST(RandomCheckpoint, SmallValuesStayExactInF16) {
  auto checkpoint = RandomCheckpoint::create(1, {{"w", {1, 1 << 18}, INGOT_RT_RANDOM_MATRIX, ElementKind::F16}});
  ASSERT_TRUE(bool(checkpoint));
  const TensorInfo &tensor = (*checkpoint)->tensors()[0];
  std::vector<float> values(1 << 18), decoded(1 << 18);
  ASSERT_EQ(errorOf((*checkpoint)->readF32(tensor, 0, 1, values)), "no error");
  std::string stored(2 << 18, 0);
  ASSERT_EQ(errorOf((*checkpoint)->readStored(tensor, 0, 1, {stored.data(), stored.size()})), "no error");
  ASSERT_TRUE(convertToF32(ElementKind::F16, stored, decoded));
  EXPECT_EQ(decoded, values);
}

TEST(RandomCheckpoint, SeedAndNameMatter) {
  auto first = [](uint64_t seed, const char *name) {
    auto checkpoint = RandomCheckpoint::create(seed, {{name, {16}, INGOT_RT_RANDOM_BIAS, ElementKind::F32}});
    std::vector<float> values(16);
    EXPECT_EQ(errorOf((*checkpoint)->readF32((*checkpoint)->tensors()[0], 0, 1, values)), "no error");
    return values;
  };
  EXPECT_EQ(first(1, "a"), first(1, "a"));
  EXPECT_NE(first(1, "a"), first(2, "a"));
  EXPECT_NE(first(1, "a"), first(1, "b"));
}

TEST(RandomCheckpoint, Faults) {
  auto error = [](const RandomTensor &tensor) { return errorOf(RandomCheckpoint::create(0, {tensor})); };
  expectText(error({"w", {int64_t(1) << 40, int64_t(1) << 40}, INGOT_RT_RANDOM_MATRIX, ElementKind::F32}),
             {"tensor 'w'", "overflows"});
  expectText(error({"w", {1}, INGOT_RT_RANDOM_MATRIX, ElementKind::Q4_0}), {"type Q4_0; expected F32, F16 or BF16"});
  expectText(errorOf(RandomCheckpoint::create(0, {RandomTensor{"w", {1}}, RandomTensor{"w", {1}}})),
             {"tensor 'w': is there twice"});
}

TEST(RandomCheckpoint, KindByName) {
  EXPECT_EQ(randomKindOf("model.layers.0.self_attn.q_proj.bias", {8}), INGOT_RT_RANDOM_BIAS);
  EXPECT_EQ(randomKindOf("model.layers.0.self_attn.q_norm.weight", {8}), INGOT_RT_RANDOM_NORM);
  EXPECT_EQ(randomKindOf("blocks.0.n1.weight", {8}), INGOT_RT_RANDOM_NORM);
  EXPECT_EQ(randomKindOf("lm_head.weight", {8, 8}), INGOT_RT_RANDOM_MATRIX);
}
