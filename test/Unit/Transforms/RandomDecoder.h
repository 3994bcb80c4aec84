//===- RandomDecoder.h - Decoders that a seed defines, as IR ------------------------------------------------------===//
//
// Small decoders in phase `ingot` with everything that decides whether a pass fires drawn at random: grouped heads, odd
// sizes, biases on some products, norms of queries or keys, RoPE or none, gates or none, pre-, post- and parallel
// norms, shared projections, element types that differ, several kinds of layer, the order of ops and of operands.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_TEST_UNIT_TRANSFORMS_RANDOMDECODER_H
#define INGOT_TEST_UNIT_TRANSFORMS_RANDOMDECODER_H

#include <cstdint>
#include <random>
#include <string>

/// Draws from a generator whose results are the same with every standard library.
class Draw {
public:
  explicit Draw(uint64_t seed) : engine(seed) {}
  /// A number in [low, high].
  int64_t in(int64_t low, int64_t high) { return low + static_cast<int64_t>(engine() % (high - low + 1)); }
  /// True in `percent` of 100 cases.
  bool chance(int64_t percent) { return in(1, 100) <= percent; }

private:
  std::mt19937_64 engine;
};

/// The text of a module in phase `ingot`, with @forward and one to three kinds of layer.
std::string makeRandomDecoder(uint64_t seed);

#endif // INGOT_TEST_UNIT_TRANSFORMS_RANDOMDECODER_H
