// The 64-byte block: the unit of work of every kernel, on every instruction set.
//
// A block holds 16 floats or 8 doubles in one, two or four native registers. Because its width does not depend on the
// machine, neither does the order in which a dot product is summed: x86-64-v3, v4 and aarch64 (all of them with fused
// multiply-add) give the same bits.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define HARDZERO_NATIVE_BYTES 64
#define HARDZERO_REGISTERS 32
#elif defined(__AVX2__)
#define HARDZERO_NATIVE_BYTES 32
#define HARDZERO_REGISTERS 16
#elif defined(__aarch64__)
#define HARDZERO_NATIVE_BYTES 16
#define HARDZERO_REGISTERS 32
#else
#define HARDZERO_NATIVE_BYTES 16
#define HARDZERO_REGISTERS 16
#define HARDZERO_SMALL_FILE  // three blocks of accumulators and no more
#endif

#define HARDZERO_INLINE inline __attribute__((always_inline))

namespace hardzero {
namespace HARDZERO_ISA {

constexpr int kBlockBytes = 64;
constexpr int kParts = kBlockBytes / HARDZERO_NATIVE_BYTES;  // native registers a block
constexpr int kFileBlocks = HARDZERO_REGISTERS / kParts;     // blocks the register file holds

template <class T>
constexpr int kLanes = kBlockBytes / static_cast<int>(sizeof(T));

template <class T>
struct Native;
template <>
struct Native<float> {
  typedef float Type __attribute__((vector_size(HARDZERO_NATIVE_BYTES)));
  typedef float Loose __attribute__((vector_size(HARDZERO_NATIVE_BYTES), aligned(4)));
};
template <>
struct Native<double> {
  typedef double Type __attribute__((vector_size(HARDZERO_NATIVE_BYTES)));
  typedef double Loose __attribute__((vector_size(HARDZERO_NATIVE_BYTES), aligned(8)));
};

template <class T>
struct Block {
  typename Native<T>::Type part[kParts];
};

template <class T>
HARDZERO_INLINE typename Native<T>::Type load_part(const T* p) {
  return *reinterpret_cast<const typename Native<T>::Loose*>(p);
}

template <class T>
HARDZERO_INLINE Block<T> load(const T* p) {
  constexpr int n = HARDZERO_NATIVE_BYTES / sizeof(T);
  Block<T> r;
  for (int i = 0; i < kParts; ++i) r.part[i] = load_part(p + i * n);
  return r;
}

template <class T>
HARDZERO_INLINE void store(T* p, const Block<T>& a) {
  constexpr int n = HARDZERO_NATIVE_BYTES / sizeof(T);
  for (int i = 0; i < kParts; ++i) *reinterpret_cast<typename Native<T>::Loose*>(p + i * n) = a.part[i];
}

template <class T>
HARDZERO_INLINE Block<T> broadcast(T x) {
  Block<T> r;
  for (int i = 0; i < kParts; ++i) r.part[i] = x - typename Native<T>::Type{};
  return r;
}

template <class T>
HARDZERO_INLINE Block<T> zero() {
  Block<T> r;
  for (int i = 0; i < kParts; ++i) r.part[i] = typename Native<T>::Type{};
  return r;
}

// a * b + c, rounded once where the instruction set can. Spelled out: were it left to the compiler to contract products and
// sums (the build forbids it), two copies of a kernel might round differently.
#if defined(__AVX512F__)
HARDZERO_INLINE __m512 fma_part(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
HARDZERO_INLINE __m512d fma_part(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, c); }
#elif defined(__AVX2__)
HARDZERO_INLINE __m256 fma_part(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
HARDZERO_INLINE __m256d fma_part(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }
#elif defined(__aarch64__)
HARDZERO_INLINE float32x4_t fma_part(float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }
HARDZERO_INLINE float64x2_t fma_part(float64x2_t a, float64x2_t b, float64x2_t c) { return vfmaq_f64(c, a, b); }
#else
template <class V>
HARDZERO_INLINE V fma_part(V a, V b, V c) {
  return a * b + c;
}
#endif

template <class T>
HARDZERO_INLINE Block<T> fma(const Block<T>& a, const Block<T>& b, const Block<T>& c) {
  Block<T> r;
  for (int i = 0; i < kParts; ++i) r.part[i] = fma_part(a.part[i], b.part[i], c.part[i]);
  return r;
}

template <class T>
HARDZERO_INLINE Block<T> add(const Block<T>& a, const Block<T>& b) {
  Block<T> r;
  for (int i = 0; i < kParts; ++i) r.part[i] = a.part[i] + b.part[i];
  return r;
}

template <class T>
HARDZERO_INLINE Block<T> mul(const Block<T>& a, const Block<T>& b) {
  Block<T> r;
  for (int i = 0; i < kParts; ++i) r.part[i] = a.part[i] * b.part[i];
  return r;
}

// The sum of a block's lanes: halves are added until one lane is left. Fixed, so that it is the same everywhere.
template <class T>
HARDZERO_INLINE T sum(const Block<T>& a) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    return _mm512_reduce_add_ps(a.part[0]);
  } else {
    return _mm512_reduce_add_pd(a.part[0]);
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    const __m256 eight = a.part[0] + a.part[1];
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  } else {
    const __m256d four = a.part[0] + a.part[1];
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
#else
  Block<T> r = a;
  for (int half = kParts / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) r.part[i] += r.part[i + half];
  for (int half = kLanes<T> / kParts / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) r.part[0][i] += r.part[0][i + half];
  return r.part[0][0];
#endif
}

// to[n] += sum(s[n]): four at a time they share their additions, in the same order.
template <int N, class T>
HARDZERO_INLINE void add_sums(const Block<T> (&s)[N], T* to) {
#if defined(__AVX512F__)
  if constexpr (N == 4 && sizeof(T) == 4) {
    const auto halves = [](__m512 a, __m512 b) {
      return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    };
    const __m512 ab = halves(s[0].part[0], s[1].part[0]), cd = halves(s[2].part[0], s[3].part[0]);
    __m512 four = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    four = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4e));
    four = _mm512_add_ps(four, _mm512_permute_ps(four, 0xb1));
    const __m512 sums = _mm512_maskz_compress_ps(0x1111, four);
    _mm_storeu_ps(to, _mm_add_ps(_mm_loadu_ps(to), _mm512_castps512_ps128(sums)));
    return;
  }
#endif
  for (int n = 0; n < N; ++n) to[n] += sum(s[n]);
}

template <class N>
HARDZERO_INLINE N smaller(N a, N b) {
  return a < b ? a : b;
}
template <class N>
HARDZERO_INLINE N larger(N a, N b) {
  return a < b ? b : a;
}

// Columns whose lane sums are carried together; longer rows are summed in stretches of this many columns.
template <class T>
constexpr int kReach = 64 * kLanes<T>;

}  // namespace HARDZERO_ISA
}  // namespace hardzero
