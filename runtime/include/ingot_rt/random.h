// Random weights that need no file: every element is a pure function of (seed, tensor name, element index).
//
// The compiler's evaluator, the executable, a GPU and tools/random_weights.py must agree in bits, so the values come
// from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) and from integers times a
// power of two: no libm, no rounding. Every value has at most eight significant bits, so float32, bfloat16 and float16
// hold exactly the same weights.
#ifndef INGOT_RT_RANDOM_H
#define INGOT_RT_RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What a tensor is, which decides its distribution.
enum ingot_rt_random_kind {
  /// A matrix [N, K]: odd / 2^(8+s) with |odd| <= 255 and s = floor(log2(K)) / 2, so that the standard deviation is
  /// near 1/sqrt(3K): products with rows of unit variance stay of the order of one.
  INGOT_RT_RANDOM_MATRIX = 0,
  /// A norm's weight: 1 + j / 128 with j in [-16, 15].
  INGOT_RT_RANDOM_NORM = 1,
  /// A bias: odd / 2^12.
  INGOT_RT_RANDOM_BIAS = 2,
};

/// Philox's key: FNV-1a (64 bit) of the tensor's name in UTF-8, started from the offset basis XOR the seed.
static inline uint64_t ingot_rt_random_key(uint64_t seed, const char *name, size_t length) {
  uint64_t h = 0xcbf29ce484222325ull ^ seed;
  for (size_t i = 0; i < length; ++i) {
    h ^= (uint8_t)name[i];
    h *= 0x100000001b3ull;
  }
  return h;
}

/// ingot_rt_random_key of a tensor of one layer: its name is `pattern` with `layer` in decimal in place of the first
/// "{layer}", or `pattern` itself where that is not in it.
static inline uint64_t ingot_rt_random_layer_key(uint64_t seed, const char *pattern, uint64_t layer) {
  static const char place[] = "{layer}";
  size_t length = strlen(pattern);
  const char *at = strstr(pattern, place);
  if (!at)
    return ingot_rt_random_key(seed, pattern, length);
  char digits[20]; // 2^64 has 20
  size_t first = sizeof digits;
  do {
    digits[--first] = (char)('0' + layer % 10);
    layer /= 10;
  } while (layer != 0);
  // The key of a prefix is where its continuation starts from.
  const uint64_t basis = 0xcbf29ce484222325ull;
  uint64_t h = ingot_rt_random_key(seed, pattern, (size_t)(at - pattern));
  h = ingot_rt_random_key(basis ^ h, digits + first, sizeof digits - first);
  at += sizeof place - 1;
  return ingot_rt_random_key(basis ^ h, at, length - (size_t)(at - pattern));
}

/// Philox4x32-10: ten rounds on the counter {low(block), high(block), 0, 0} under `key`.
static inline void ingot_rt_random_block(uint64_t key, uint64_t block, uint32_t out[4]) {
  uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/// The exponent s of a matrix whose rows have `k` elements: floor(log2(k)) / 2, rounded down.
static inline int ingot_rt_random_shift(uint64_t k) {
  int log = 0;
  while (k > 1) {
    k >>= 1;
    ++log;
  }
  return log / 2;
}

/// Byte `index` of the stream of a key as a signed number: a block of Philox holds 16 of them, word after word, the
/// lowest byte first.
static inline int ingot_rt_random_byte(const uint32_t block[4], uint64_t index) {
  return (int8_t)(block[(index / 4) % 4] >> (8 * (index % 4)));
}

/// The float that a signed byte stands for. `shift` is ingot_rt_random_shift(K), used by matrices only.
static inline float ingot_rt_random_value(enum ingot_rt_random_kind kind, int byte, int shift) {
  if (kind == INGOT_RT_RANDOM_NORM)
    return (float)(128 + (byte >> 3)) * 0.0078125f;
  int exponent = kind == INGOT_RT_RANDOM_BIAS ? 12 : 8 + shift;
  return (float)(2 * byte + 1) / (float)(1u << exponent);
}

/// Element `index` (row-major, in the checkpoint's own order) of a tensor.
static inline float ingot_rt_random_element(enum ingot_rt_random_kind kind, uint64_t key, int shift, uint64_t index) {
  uint32_t block[4];
  ingot_rt_random_block(key, index / 16, block);
  return ingot_rt_random_value(kind, ingot_rt_random_byte(block, index % 16), shift);
}

#ifdef __cplusplus
}
#endif
#endif // INGOT_RT_RANDOM_H
