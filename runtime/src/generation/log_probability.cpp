// Log-softmax.
#include "generation/log_probability.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace ingot::rt {

double logSumExp(const float *logits, uint64_t count) {
  float largest = *std::max_element(logits, logits + count);
  if (std::isinf(largest)) // all impossible, or one infinitely likely
    return largest;
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i)
    sum += std::exp(static_cast<double>(logits[i]) - static_cast<double>(largest));
  return std::log(sum) + static_cast<double>(largest);
}

std::vector<TokenScore> likeliestTokens(const float *logits, uint64_t vocab, uint64_t most) {
  std::vector<int32_t> ids(vocab);
  std::iota(ids.begin(), ids.end(), 0);
  auto count = static_cast<std::ptrdiff_t>(std::min(most, vocab));
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(),
                    [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  double sum = logSumExp(logits, vocab);
  std::vector<TokenScore> scores;
  for (std::ptrdiff_t i = 0; i < count; ++i)
    scores.push_back(
        {ids[static_cast<std::size_t>(i)], static_cast<double>(logits[ids[static_cast<std::size_t>(i)]]) - sum});
  return scores;
}

} // namespace ingot::rt
