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
HARDZERO_INLINE Block<T> load(const T* p) {
  constexpr int n = HARDZERO_NATIVE_BYTES / sizeof(T);
  Block<T> r;
  for (int i = 0; i < kParts; ++i) r.part[i] = *reinterpret_cast<const typename Native<T>::Loose*>(p + i * n);
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
#else
  alignas(64) T lane[kLanes<T>];
  store(lane, a);
  for (int half = kLanes<T> / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
#endif
}

// to[m * step] += sum(s[m]): four at a time they share their last additions, in the same order.
template <int M, class T>
HARDZERO_INLINE void add_sums(const Block<T> (&s)[M], T* to, std::int64_t step) {
#if defined(__AVX512F__)
  if constexpr (M == 4 && sizeof(T) == 4) {
    __m128 quarter[4];
    for (int m = 0; m < 4; ++m) {
      const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(s[m].part[0]), _mm512_extractf32x8_ps(s[m].part[0], 1));
      quarter[m] = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    }
    const __m128 ab = _mm_add_ps(_mm_movelh_ps(quarter[0], quarter[1]), _mm_movehl_ps(quarter[1], quarter[0]));
    const __m128 cd = _mm_add_ps(_mm_movelh_ps(quarter[2], quarter[3]), _mm_movehl_ps(quarter[3], quarter[2]));
    alignas(16) float all[4];
    _mm_store_ps(all, _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xdd)));
    for (int m = 0; m < 4; ++m) to[m * step] += all[m];
    return;
  }
#endif
  for (int m = 0; m < M; ++m) to[m * step] += sum(s[m]);
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
