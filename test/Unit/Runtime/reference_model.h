// A small decoder in plain loops that stands where compiled code stands: a step function over the packed layouts and
// the block cache, so that the runtime is tested without a compiler. Beside it the same decoder written without any of
// them (dense weights, no cache, no batch), which says what the right logits are.
#ifndef INGOT_TEST_UNIT_RUNTIME_REFERENCE_MODEL_H
#define INGOT_TEST_UNIT_RUNTIME_REFERENCE_MODEL_H

#include "ingot_rt/abi.h"

#include <cstdint>
#include <vector>

namespace ingot::rt::reference {

constexpr uint64_t vocab = 67, hidden = 24, intermediate = 40, layers = 2, heads = 4, kvHeads = 2, headDim = 6;
constexpr uint64_t maxContext = 200, maxBatch = 8, maxStepTokens = 32;
constexpr uint64_t seed = 11;

/// The model's description, the one that executables would hold as ingot_rt_the_model. Weights are random.
const ingot_rt_model &model();

/// All packed weights, made element by element from the definitions in abi.h and random.h.
std::vector<uint8_t> packedWeights();

/// Logits [tokens][vocab] of one sequence, computed densely in one RoPE regime.
std::vector<float> denseLogits(const std::vector<int32_t> &tokens, int32_t regime);

} // namespace ingot::rt::reference
#endif // INGOT_TEST_UNIT_RUNTIME_REFERENCE_MODEL_H
