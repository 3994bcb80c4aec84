// Choosing a token on a device: what the host says of each row, and the constants of the one exponential that the CPU's
// sampler (runtime/src/sampler) and a GPU's kernel (compiler/Codegen/GPU/Sampling.cpp) compute.
#ifndef INGOT_RT_SAMPLING_H
#define INGOT_RT_SAMPLING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Which of a row's sets of tokens (ingot_rt_step_args.token_sets) hold.
enum ingot_rt_token_set {
  INGOT_RT_SEEN = 0,    ///< tokens to which the repetition penalty applies
  INGOT_RT_ALLOWED = 1, ///< tokens that the mask leaves
  INGOT_RT_TOKEN_SETS = 2
};

/// How the token of one row is chosen, all that is the same for every token worked out.
struct ingot_rt_sampling {
  float temperature; ///< 0: the largest logit
  float repetition_penalty;
  uint64_t top_k;        ///< 0: all
  double droppable;      ///< 1 - top_p, the share of the probability that may be dropped; 0: none
  uint64_t least_weight; ///< tokens of less weight are not drawn: min_p times the weight of the likeliest
  uint64_t random;       ///< 64 random bits
  uint64_t sets;         ///< bit of each ingot_rt_token_set that holds
};

// Weights of tokens: exp(x) for x <= 0 as a fixed-point number with INGOT_RT_WEIGHT_BITS bits behind the point. Cody
// and Waite: x = n ln 2 + r, then Taylor's polynomial of r to r^7, whose rest is below 2^-27 at |r| = ln(2) / 2.
// Nothing but multiplications, additions and subtractions of float32, one by one.
#define INGOT_RT_WEIGHT_BITS 40
/// Adding and subtracting it rounds to the nearest integer, of equals to the even one.
#define INGOT_RT_EXP_TO_INTEGER 0x1.8p23f
#define INGOT_RT_EXP_LOG2E 0x1.715476p+0f
/// ln 2 in two parts; n * the first is exact: 6 and 12 significant bits.
#define INGOT_RT_EXP_LN2_HIGH 0x1.62ep-1f
#define INGOT_RT_EXP_LN2_LOW 0x1.0bfbe8p-15f
/// Of x up to here the weight is zero: it is below 2^-41.
#define INGOT_RT_EXP_LEAST (-28.8f)
/// Coefficients, that of the highest power first.
#define INGOT_RT_EXP_COEFFICIENTS                                                                                      \
  {0x1.a01a02p-13f, 0x1.6c16c2p-10f, 0x1.111112p-7f, 0x1.555556p-5f, 0x1.555556p-3f, 0.5f, 1.0f, 1.0f}
/// The polynomial's value, in [0.7, 1.5), is taken as an integer of so many bits behind the point; then the weight is
/// that integer << (INGOT_RT_WEIGHT_BITS - INGOT_RT_EXP_MANTISSA_BITS) >> -n.
#define INGOT_RT_EXP_MANTISSA_BITS 24

#ifdef __cplusplus
}
#endif
#endif // INGOT_RT_SAMPLING_H
