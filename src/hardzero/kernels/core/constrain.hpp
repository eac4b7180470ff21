// What is done to weights after an update: the soft threshold of an L1 penalty, and a bound on the norm of columns.
#pragma once

#include <cmath>

#include "simd.hpp"

namespace hardzero {
namespace HARDZERO_ISA {

// In the columns [from, to) of W: w <- sign(w) max(|w| - threshold, 0); then columns longer than `bound` get that length.
// Squares are added up in double precision, over rows ascending.
template <class T>
inline void constrain(T* W, std::int64_t stride, int n_inputs, T threshold, double bound, std::int64_t from, std::int64_t to) {
  constexpr int width = 128;
  for (std::int64_t c0 = from; c0 < to; c0 += width) {
    const int n = static_cast<int>(smaller<std::int64_t>(width, to - c0));
    if (threshold > 0)
      for (std::int64_t j = 0; j < n_inputs; ++j) {
        T* w = W + j * stride + c0;
        for (int c = 0; c < n; ++c) {
          const T size = w[c] < 0 ? -w[c] : w[c];
          w[c] = size <= threshold ? T(0) : w[c] < 0 ? w[c] + threshold : w[c] - threshold;  // NaN stays NaN
        }
      }
    if (!(bound < HUGE_VAL)) continue;
    double squares[width] = {};
    for (std::int64_t j = 0; j < n_inputs; ++j) {
      const T* w = W + j * stride + c0;
      for (int c = 0; c < n; ++c) squares[c] += static_cast<double>(w[c]) * w[c];
    }
    T factor[width];
    bool is_long = false;
    for (int c = 0; c < n; ++c) {
      const double norm = std::sqrt(squares[c]);
      factor[c] = norm > bound ? static_cast<T>(bound / norm) : T(1);
      is_long |= norm > bound;
    }
    if (!is_long) continue;
    for (std::int64_t j = 0; j < n_inputs; ++j) {
      T* w = W + j * stride + c0;
      for (int c = 0; c < n; ++c) w[c] *= factor[c];
    }
  }
}

}  // namespace HARDZERO_ISA
}  // namespace hardzero
