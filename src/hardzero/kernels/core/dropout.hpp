// The random words that dropout draws: Philox4x32-10 as hardzero/random.py defines it, for many counters at once.
#pragma once

#include <cmath>
#include <cstring>

#include "simd.hpp"

#if defined(__SSE2__) && !defined(__AVX2__)
#include <emmintrin.h>
#endif

namespace hardzero {
namespace HARDZERO_ISA {

typedef std::uint64_t Lanes64 __attribute__((vector_size(HARDZERO_NATIVE_BYTES)));

// Products of the lower halves of the lanes: 32 by 32 bits, none of the 64 lost.
#if defined(__AVX512F__)
HARDZERO_INLINE Lanes64 wide_product(Lanes64 a, std::uint32_t b) {
  return reinterpret_cast<Lanes64>(_mm512_mul_epu32(reinterpret_cast<__m512i>(a), _mm512_set1_epi64(b)));
}
#elif defined(__AVX2__)
HARDZERO_INLINE Lanes64 wide_product(Lanes64 a, std::uint32_t b) {
  return reinterpret_cast<Lanes64>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), _mm256_set1_epi64x(b)));
}
#elif defined(__SSE2__)
HARDZERO_INLINE Lanes64 wide_product(Lanes64 a, std::uint32_t b) {
  return reinterpret_cast<Lanes64>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), _mm_set1_epi64x(b)));
}
#elif defined(__aarch64__)
HARDZERO_INLINE Lanes64 wide_product(Lanes64 a, std::uint32_t b) {
  return reinterpret_cast<Lanes64>(vmull_u32(vmovn_u64(reinterpret_cast<uint64x2_t>(a)), vdup_n_u32(b)));
}
#else
HARDZERO_INLINE Lanes64 wide_product(Lanes64 a, std::uint32_t b) { return (a & 0xFFFFFFFFu) * b; }
#endif

// Counters that are worked on at a time.
constexpr int kCounters = 16;

// Words of the columns 4 quad[i] ... 4 quad[i] + 3 of a row to words[4 i] ...; both arrays have room for a multiple of
// kCounters quads.
inline void draw_words(std::uint64_t key, std::uint64_t row, const std::uint32_t* quad, std::int64_t n_quads,
                       std::uint32_t* words) {
  constexpr int lanes = HARDZERO_NATIVE_BYTES / 8, parts = kCounters / lanes;
  const Lanes64 none{};
  for (std::int64_t i = 0; i < n_quads; i += kCounters) {
    Lanes64 c0[parts], c1[parts], c2[parts], c3[parts];  // what stands in the upper halves does not matter
    for (int p = 0; p < parts; ++p) {
      c0[p] = row - none;
      c1[p] = (row >> 32) - none;
      for (int k = 0; k < lanes; ++k) c2[p][k] = quad[i + p * lanes + k];
      c3[p] = none;
    }
    std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int p = 0; p < parts; ++p) {
        const Lanes64 a = wide_product(c0[p], 0xD2511F53u), b = wide_product(c2[p], 0xCD9E8D57u);
        c0[p] = (b >> 32) ^ c1[p] ^ (std::uint64_t{k0} - none);
        c2[p] = (a >> 32) ^ c3[p] ^ (std::uint64_t{k1} - none);
        c1[p] = b;
        c3[p] = a;
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    for (int p = 0; p < parts; ++p)
      for (int k = 0; k < lanes; ++k) {
        const std::uint32_t block[4] = {static_cast<std::uint32_t>(c0[p][k]), static_cast<std::uint32_t>(c1[p][k]),
                                        static_cast<std::uint32_t>(c2[p][k]), static_cast<std::uint32_t>(c3[p][k])};
        std::memcpy(words + 4 * (i + p * lanes + k), block, sizeof block);
      }
  }
}

// How a level drops: a word w stands for the uniform number (w >> 8) 2^-24, and drops if that is below the rate.
template <class T>
struct Dropout {
  std::uint32_t below;  // the rate, rounded to float32, in units of 2^-24, rounded up; 0 drops nothing
  T scale;              // of what is left

  HARDZERO_INLINE bool keeps(std::uint32_t word) const { return (word >> 8) >= below; }
};

template <class T>
inline Dropout<T> make_dropout(double rate) {
  return {static_cast<std::uint32_t>(std::ceil(static_cast<double>(static_cast<float>(rate)) * 16777216.0)),
          T(1) / (T(1) - static_cast<T>(rate))};
}

}  // namespace HARDZERO_ISA
}  // namespace hardzero
