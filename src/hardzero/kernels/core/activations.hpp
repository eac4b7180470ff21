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

// Elementary functions: the library's in double precision, polynomials in single precision, without branches so that the
// compiler makes vector code of the loops that call them. Their error is below 3 units in the last place.

// exp(x) for x <= 0: exp(r) 2^n with |r| <= log(2)/2 (polynomial of Cephes' expf).
template <class T>
HARDZERO_INLINE T exp_negative(T x) {
  if constexpr (sizeof(T) == 8) {
    return std::exp(x);
  } else {
    const float least = -87.0f, y = x > least ? x : least;  // NaN, too, goes on as a number
    const float magic = 12582912.0f;  // adding it rounds to an integer
    const float n = (y * 1.44269504f + magic) - magic;
    const float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const std::int32_t bits = (static_cast<std::int32_t>(n) + 127) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    return x < least ? 0.0f : p * scale + (x - x);  // and comes back here
  }
}

// log(1 + e) for 0 <= e <= 1: 2 artanh(e / (2 + e)), by its series.
template <class T>
HARDZERO_INLINE T log1p_share(T e) {
  if constexpr (sizeof(T) == 8) {
    return std::log1p(e);
  } else {
    const float s = e / (2.0f + e), z = s * s;
    float p = 1.0f / 15;
    p = p * z + 1.0f / 13;
    p = p * z + 1.0f / 11;
    p = p * z + 1.0f / 9;
    p = p * z + 1.0f / 7;
    p = p * z + 1.0f / 5;
    p = p * z + 1.0f / 3;
    return 2.0f * (s + s * (z * p));
  }
}

// tanh(x), with e = exp(-2 |x|) (polynomial of Cephes' tanhf near 0).
template <class T>
HARDZERO_INLINE T tanh_of(T x, T e) {
  if constexpr (sizeof(T) == 8) {
    return std::tanh(x);
  } else {
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float near = x + x * (z * p), far = (1.0f - e) / (1.0f + e);
    return z < 0.390625f ? near : x < 0 ? -far : far;
  }
}

// exp(x) - 1 for x <= 0.
template <class T>
HARDZERO_INLINE T expm1_negative(T x) {
  if constexpr (sizeof(T) == 8) {
    return std::expm1(x);
  } else {
    const float t = tanh_of(0.5f * x, exp_negative(x));
    return 2.0f * t / (1.0f - t);
  }
}

template <class T>
HARDZERO_INLINE T decay(T x) {
  return exp_negative(x < 0 ? x : -x);
}
template <class T>
HARDZERO_INLINE T logistic(T x, T e) {  // e = exp(-|x|)
  return (x >= 0 ? T(1) : e) / (1 + e);
}
template <class T>
HARDZERO_INLINE T positive_part(T x) {
  return x <= 0 ? T(0) : x;  // NaN stays NaN
}

// Replaces the pre-activations h[0 .. n) by activations; writes the derivatives to d (unless it is null).
template <class T>
inline void activate(int code, T p, const T* slopes, int n, T* h, T* d) {
  const auto each = [&](auto f) {
    if (d) {
#pragma GCC ivdep
      for (int i = 0; i < n; ++i) {
        T slope;
        h[i] = f(h[i], i, slope);
        d[i] = slope;
      }
    } else {
#pragma GCC ivdep
      for (int i = 0; i < n; ++i) {
        T slope;
        h[i] = f(h[i], i, slope);
      }
    }
  };
  switch (code) {
    case kIdentity: return each([](T x, int, T& s) { s = 1; return x; });
    case kRectifier:
      return each([](T x, int, T& s) {
        s = x <= 0 ? T(0) : T(1);
        return positive_part(x);
      });
    case kLeakyRectifier:
      return each([p](T x, int, T& s) {
        s = x > 0 ? T(1) : p;
        return s * x;
      });
    case kPrelu:
      return each([slopes](T x, int i, T& s) {
        s = x > 0 ? T(1) : slopes[i];
        return s * x;
      });
    case kElu:
    case kSelu: {
      const T scale = code == kSelu ? T(1.0507009873554805) : T(1);
      const T alpha = code == kSelu ? scale * T(1.6732632423543772) : p;
      return each([scale, alpha](T x, int, T& s) {
        const T below = x > 0 ? T(0) : x;
        const T left = alpha * expm1_negative(below);
        s = x > 0 ? scale : alpha * exp_negative(below);
        return x > 0 ? scale * x : left;
      });
    }
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
        return positive_part(x) + log1p_share(e);
      });
    case kRescaledSoftplus:
      return each([p](T x, int, T& s) {
        const T e = decay(p * x);
        s = logistic(x, e);
        return positive_part(x) + log1p_share(e) / p;
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
      return each([](T x, int, T& s) {
        const T e = decay(2 * x);
        s = 4 * e / ((1 + e) * (1 + e));
        return tanh_of(x, e);
      });
    case kAbsTanh:
      return each([](T x, int, T& s) {
        const T e = decay(2 * x), slope = 4 * e / ((1 + e) * (1 + e)), y = tanh_of(x, e);
        s = x > 0 ? slope : x < 0 ? -slope : T(0);
        return y < 0 ? -y : y;
      });
    case kRectifiedTanh:
      return each([](T x, int, T& s) {
        const T e = decay(2 * x), slope = 4 * e / ((1 + e) * (1 + e));
        s = x <= 0 ? T(0) : slope;
        return positive_part(tanh_of(x, e));
      });
    case kCappedRectifier:
      return each([p](T x, int, T& s) {
        s = x > 0 && x < p ? T(1) : T(0);
        return x > p ? p : positive_part(x);
      });
    case kLeakyIntegrateAndFire:
      return each([p](T x, int, T& s) {
        s = 0;
        if (x <= 0) return T(0);
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
