// Rotary position embeddings as configurations ask for them: which keys each
// rope type reads, and the frequencies they give, computed in float32 in the
// reference implementation's order of operations.
#ifndef INGOT_COMPILER_IMPORT_ROPE_H
#define INGOT_COMPILER_IMPORT_ROPE_H

#include "compiler/Import/ConfigReader.h"
#include <cstdint>
#include <string>
#include <vector>

namespace ingot {

/// Which elements of a head rotate together: (i, i + d/2), or (2i, 2i + 1).
enum class RopePairs { Half, Interleaved };

/// angle(pos, i) = f32(pos) * frequencies[i]; cosine and sine are multiplied by
/// `scaling`. Sequences longer than `longFrom` take `longFrequencies`
/// (longrope; else empty and 0).
struct RopeSpec {
  RopePairs pairs = RopePairs::Half;
  /// [headDim / 2]
  std::vector<float> frequencies, longFrequencies;
  float scaling = 1;
  int64_t longFrom = 0;
  /// The key that decided: "rope_theta", or "rope_scaling" or
  /// "rope_parameters".
  std::string source = "rope_theta";
};

/// What a model's rope depends on beside its own keys.
struct RopeShape {
  int64_t headDim;
  int64_t maxPosition;
  /// The architecture's rope_theta where the configuration has none.
  double defaultTheta;
};

/// Reads rope_theta, rope_scaling or rope_parameters (transformers 5),
/// original_max_position_embeddings and partial_rotary_factor. Types: default,
/// linear, llama3, yarn, longrope. Refused by name: dynamic (its result depends
/// on how a prompt is chunked), unknown types, a type given twice in conflict,
/// a factor without a type, keys that the type does not read, rotation of a
/// part of the head, an odd head. `pairs` of the result is not set here.
RopeSpec readRope(ConfigReader &reader, const RopeShape &shape);

/// The unscaled rope of a base, for architectures without keys for it. An odd
/// head is a fault.
RopeSpec plainRope(ConfigReader &reader, double theta, int64_t headDim);

/// GGUF's rope_freqs.weight, which arrives as the key "rope_freqs": divides
/// every frequency by its factor.
void applyRopeFactors(ConfigReader &reader, RopeSpec &rope);

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_ROPE_H
