//===- Kernels.h - The evaluator's one loop that has to be quick -------------------------------------------------===//
//
// Products of rows with 16 features of a matrix. The features lie across the
// lanes of a vector and every lane is one chain over K, so that the result is
// that of the plain loop while a compiler can use vector registers.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_EVALUATOR_KERNELS_H
#define INGOT_COMPILER_EVALUATOR_KERNELS_H

#include <cstdint>

namespace ingot {

/// Features that are computed together.
inline constexpr int64_t panelFeatures = 16;

/// For each of `rows` rows x (of `stride` elements) and each of the 16 columns
/// j of `panel` ([k][16]): out[row][j] = the chain acc = fma(x[k], panel[k][j],
/// acc) from +0, k from `first` to `end` - 1 in ascending order. A machine
/// without fused multiply-add computes the same bits, slowly.
void multiplyPanel(const float *x, int64_t stride, int64_t rows, const float *panel, int64_t first, int64_t end,
                   float *out);
void multiplyPanel(const double *x, int64_t stride, int64_t rows, const float *panel, int64_t first, int64_t end,
                   double *out);

} // namespace ingot

#endif // INGOT_COMPILER_EVALUATOR_KERNELS_H
