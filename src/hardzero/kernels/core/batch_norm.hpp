// Batch normalisation of a stretch of columns, forwards and backwards; rows carry their shares of the batch's weight.
#pragma once

#include <cmath>

#include "simd.hpp"

namespace hardzero {
namespace HARDZERO_ISA {

// Columns whose sums are taken together, in double precision and over rows ascending.
constexpr int kStripe = 64;

// What the backward pass and predictions need of each column.
template <class T>
struct Moments {
  T* mean;
  T* variance;
  T* inverse;  // 1 / sqrt(variance + epsilon)
};

// h = gamma z + b for the standardised pre-activations z = (h - mean) inverse of the columns [from, to).
template <class T>
inline void normalise(T* h, T* z, std::int64_t stride, int n_rows, const T* share, const T* gamma, const T* b, double epsilon,
                      const Moments<T>& batch, std::int64_t from, std::int64_t to) {
  for (std::int64_t c0 = from; c0 < to; c0 += kStripe) {
    const int n = static_cast<int>(smaller<std::int64_t>(kStripe, to - c0));
    double mean[kStripe] = {}, variance[kStripe] = {};
    for (int r = 0; r < n_rows; ++r)
      for (int c = 0; c < n; ++c) mean[c] += static_cast<double>(share[r]) * h[r * stride + c0 + c];
    for (int r = 0; r < n_rows; ++r)
      for (int c = 0; c < n; ++c) {
        const double apart = h[r * stride + c0 + c] - mean[c];
        variance[c] += share[r] * (apart * apart);
      }
    for (int c = 0; c < n; ++c) {
      batch.mean[c0 + c] = static_cast<T>(mean[c]);
      batch.variance[c0 + c] = static_cast<T>(variance[c]);
      batch.inverse[c0 + c] = static_cast<T>(1 / std::sqrt(variance[c] + epsilon));
    }
    for (int r = 0; r < n_rows; ++r)
#pragma GCC ivdep
      for (int c = 0; c < n; ++c) {
        const std::int64_t at = r * stride + c0 + c;
        z[at] = static_cast<T>(h[at] - mean[c]) * batch.inverse[c0 + c];
        h[at] = gamma[c0 + c] * z[at] + b[c0 + c];
      }
  }
}

// Turns derivatives e with respect to gamma z + b into those with respect to what was normalised; the derivatives with
// respect to b and gamma are sum e and sum e z over the rows.
template <class T>
inline void normalise_back(T* e, const T* z, std::int64_t stride, int n_rows, const T* share, const T* gamma, const T* inverse,
                           T* b_gradient, T* gamma_gradient, std::int64_t from, std::int64_t to) {
  for (std::int64_t c0 = from; c0 < to; c0 += kStripe) {
    const int n = static_cast<int>(smaller<std::int64_t>(kStripe, to - c0));
    double sum[kStripe] = {}, product[kStripe] = {};
    for (int r = 0; r < n_rows; ++r)
      for (int c = 0; c < n; ++c) {
        const double d = e[r * stride + c0 + c];
        sum[c] += d;
        product[c] += d * z[r * stride + c0 + c];
      }
    for (int c = 0; c < n; ++c) {
      b_gradient[c0 + c] = static_cast<T>(sum[c]);
      gamma_gradient[c0 + c] = static_cast<T>(product[c]);
    }
    for (int r = 0; r < n_rows; ++r)
#pragma GCC ivdep
      for (int c = 0; c < n; ++c) {
        const std::int64_t at = r * stride + c0 + c;
        const double rest = e[at] - share[r] * (sum[c] + z[at] * product[c]);
        e[at] = gamma[c0 + c] * inverse[c0 + c] * static_cast<T>(rest);
      }
  }
}

}  // namespace HARDZERO_ISA
}  // namespace hardzero
