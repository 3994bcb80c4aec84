//===- Kernels.cpp - Products of rows with 16 features of a matrix -----------------------------------------------===//
//
// One definition, compiled for the baseline and, on x86-64, for machines with
// FMA: where the instruction is missing, every fused multiply-add is a call of
// libm with the same result.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Evaluator/Kernels.h"

namespace ingot {
namespace {

using FloatLanes = float __attribute__((ext_vector_type(panelFeatures)));
using DoubleLanes = double __attribute__((ext_vector_type(panelFeatures)));

template <typename T>
struct LanesOf;
template <>
struct LanesOf<float> {
  using Type = FloatLanes;
};
template <>
struct LanesOf<double> {
  using Type = DoubleLanes;
};

/// `count` rows at once, whose accumulators stay in registers.
template <typename T, int count>
__attribute__((always_inline)) inline void multiplyRows(const T *x, int64_t stride, const float *panel, int64_t first,
                                                        int64_t end, T *out) {
  using Lanes = typename LanesOf<T>::Type;
  Lanes sums[count] = {};
  for (int64_t k = first; k < end; ++k) {
    FloatLanes stored;
    __builtin_memcpy(&stored, panel + k * panelFeatures, sizeof(stored));
    Lanes weights = __builtin_convertvector(stored, Lanes);
    for (int row = 0; row < count; ++row)
      sums[row] = __builtin_elementwise_fma(Lanes(x[row * stride + k]), weights, sums[row]);
  }
  for (int row = 0; row < count; ++row)
    __builtin_memcpy(out + row * panelFeatures, &sums[row], sizeof(Lanes));
}

template <typename T>
__attribute__((always_inline)) inline void multiply(const T *x, int64_t stride, int64_t rows, const float *panel,
                                                    int64_t first, int64_t end, T *out) {
  constexpr int together = sizeof(T) == 4 ? 4 : 2;
  int64_t row = 0;
  for (; row + together <= rows; row += together)
    multiplyRows<T, together>(x + row * stride, stride, panel, first, end, out + row * panelFeatures);
  for (; row < rows; ++row)
    multiplyRows<T, 1>(x + row * stride, stride, panel, first, end, out + row * panelFeatures);
}

template <typename T>
void multiplyBaseline(const T *x, int64_t stride, int64_t rows, const float *panel, int64_t first, int64_t end,
                      T *out) {
  multiply(x, stride, rows, panel, first, end, out);
}

#ifdef __x86_64__
template <typename T>
__attribute__((target("avx2,fma"))) void multiplyFused(const T *x, int64_t stride, int64_t rows, const float *panel,
                                                       int64_t first, int64_t end, T *out) {
  multiply(x, stride, rows, panel, first, end, out);
}
#endif

template <typename T>
void dispatch(const T *x, int64_t stride, int64_t rows, const float *panel, int64_t first, int64_t end, T *out) {
#ifdef __x86_64__
  static const bool fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fused)
    return multiplyFused(x, stride, rows, panel, first, end, out);
#endif
  multiplyBaseline(x, stride, rows, panel, first, end, out);
}

} // namespace

void multiplyPanel(const float *x, int64_t stride, int64_t rows, const float *panel, int64_t first, int64_t end,
                   float *out) {
  dispatch(x, stride, rows, panel, first, end, out);
}

void multiplyPanel(const double *x, int64_t stride, int64_t rows, const float *panel, int64_t first, int64_t end,
                   double *out) {
  dispatch(x, stride, rows, panel, first, end, out);
}

} // namespace ingot
