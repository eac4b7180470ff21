// The catalogue of hardzero.activations once more, for the compiled core; the numbers are its `code`s.
#pragma once

#include <cmath>

#include "simd.hpp"

namespace hardzero {
namespace HARDZERO_ISA {

enum Code {
  kIdentity,
  kRectifier,
  kLeakyRectifier,
  kPrelu,
  kElu,
  kSelu,
  kGelu,
  kSoftplus,
  kRescaledSoftplus,
  kSilu,
  kMish,
  kSigmoid,
  kTanh,
  kAbsTanh,
  kRectifiedTanh,
  kCappedRectifier,
  kLeakyIntegrateAndFire,
};

// A function whose derivative is 1 where its value is not 0, and 0 elsewhere: nothing but its value need be kept.
HARDZERO_INLINE bool derivative_is_activity(int code) { return code == kRectifier; }

// A function whose derivative is 0 wherever its value is: a unit that is 0 takes no part in the backward pass either.
HARDZERO_INLINE bool zero_means_idle(int code) {
  return code == kRectifier || code == kAbsTanh || code == kRectifiedTanh || code == kCappedRectifier ||
         code == kLeakyIntegrateAndFire;
}

template <class T>
HARDZERO_INLINE T decay(T x) {
  return std::exp(-std::fabs(x));
}
template <class T>
HARDZERO_INLINE T logistic(T x, T e) {  // e = exp(-|x|)
  return (x >= 0 ? T(1) : e) / (1 + e);
}

// Replaces the pre-activations h[0 .. n) by activations; writes the derivatives to d (unless it is null).
template <class T>
inline void activate(int code, T p, const T* slopes, int n, T* h, T* d) {
  const auto each = [&](auto f) {
    for (int i = 0; i < n; ++i) {
      T slope;
      const T x = h[i];
      h[i] = f(x, i, slope);
      if (d) d[i] = slope;
    }
  };
  switch (code) {
    case kIdentity: return each([](T x, int, T& s) { s = 1; return x; });
    case kRectifier:  // written so that NaN stays NaN
      for (int i = 0; i < n; ++i) {
        if (d) d[i] = h[i] <= 0 ? T(0) : T(1);
        h[i] = h[i] <= 0 ? T(0) : h[i];
      }
      return;
    case kLeakyRectifier: return each([p](T x, int, T& s) { s = x > 0 ? T(1) : p; return s * x; });
    case kPrelu: return each([slopes](T x, int i, T& s) { s = x > 0 ? T(1) : slopes[i]; return s * x; });
    case kElu:
      return each([p](T x, int, T& s) {
        if (x > 0) return s = 1, x;
        s = p * std::exp(x);
        return p * std::expm1(x);
      });
    case kSelu:
      return each([](T x, int, T& s) {
        constexpr T alpha = T(1.6732632423543772), scale = T(1.0507009873554805);
        if (x > 0) return s = scale, scale * x;
        s = scale * alpha * std::exp(x);
        return scale * alpha * std::expm1(x);
      });
    case kGelu:
      return each([](T x, int, T& s) {
        const T cdf = T(0.5) * std::erfc(x * T(-0.70710678118654752));
        const T z = x < -50 ? T(-50) : x > 50 ? T(50) : x;
        s = cdf + x * std::exp(T(-0.5) * z * z) * T(0.39894228040143268);
        return x * cdf;
      });
    case kSoftplus:
      return each([](T x, int, T& s) {
        const T e = decay(x);
        s = logistic(x, e);
        return (x > 0 ? x : T(0)) + std::log1p(e);
      });
    case kRescaledSoftplus:
      return each([p](T x, int, T& s) {
        const T e = decay(p * x);
        s = logistic(x, e);
        return (x > 0 ? x : T(0)) + std::log1p(e) / p;
      });
    case kSilu:
      return each([](T x, int, T& s) {
        const T e = decay(x), y = logistic(x, e);
        s = y * (1 + x * logistic(-x, e));
        return x * y;
      });
    case kMish:
      return each([](T x, int, T& s) {
        const T e = decay(x);
        const T top = x >= 0 ? 1 + 2 * e : e * (e + 2);
        const T bottom = x >= 0 ? top + 2 * e * e : top + 2;
        const T gate = top / bottom;
        s = gate + x * (4 * e * (x >= 0 ? e : T(1)) * (1 + e) / (bottom * bottom));
        return x * gate;
      });
    case kSigmoid:
      return each([](T x, int, T& s) {
        const T e = decay(x);
        s = e / ((1 + e) * (1 + e));
        return logistic(x, e);
      });
    case kTanh:
    case kAbsTanh:
    case kRectifiedTanh:
      return each([code](T x, int, T& s) {
        const T y = std::tanh(x), e = decay(x), sech = 2 * e / (1 + e * e);
        s = sech * sech;
        if (code == kTanh) return y;
        if (code == kAbsTanh) {
          s = x > 0 ? s : x < 0 ? -s : T(0);
          return y < 0 ? -y : y;
        }
        if (x <= 0) s = 0;
        return y <= 0 ? T(0) : y;
      });
    case kCappedRectifier:
      return each([p](T x, int, T& s) {
        s = x > 0 && x < p ? T(1) : T(0);
        return x <= 0 ? T(0) : x > p ? p : x;
      });
    case kLeakyIntegrateAndFire:
      return each([p](T x, int, T& s) {
        if (x <= 0) return s = 0, T(0);
        const T time = x < 1 ? std::log1p(x) - std::log(x) : std::log1p(1 / x);
        const T y = 1 / (p + time);
        s = y * y / (1 + x) / x;
        constexpr T most = sizeof(T) == 4 ? T(3.4028234663852886e38) : T(1.7976931348623157e308);
        if (s > most) s = most;
        return y;
      });
    default: return;
  }
}

}  // namespace HARDZERO_ISA
}  // namespace hardzero
