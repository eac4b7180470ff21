#include "draws.hpp"

#include <algorithm>

#include "dropout.hpp"

namespace hardzero {
namespace HARDZERO_ISA {
namespace {

HARDZERO_INLINE float to_uniform(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
}

template <class Index>
void draw_at(std::uint64_t key, const std::uint64_t* row_hash, std::int64_t n_rows, const Index* indptr, const Index* indices,
             float* numbers) {
  constexpr int most = 4 * kCounters;  // entries at a time
  std::uint32_t quad[kCounters] = {}, words[most];
  for (std::int64_t i = 0; i < n_rows; ++i) {
    const Index end = indptr[i + 1];
    for (Index k = indptr[i]; k < end;) {
      const Index first = k;
      int place[most];  // of the words of these entries
      int n_quads = 0;
      for (; k < end && k - first < most; ++k) {
        const std::uint32_t q = static_cast<std::uint32_t>(indices[k] / 4);
        if (n_quads == 0 || quad[n_quads - 1] != q) {  // neighbours share a counter
          if (n_quads == kCounters) break;
          quad[n_quads++] = q;
        }
        place[k - first] = 4 * (n_quads - 1) + static_cast<int>(indices[k] % 4);
      }
      draw_words(key, row_hash[i], quad, n_quads, words);
      for (Index e = first; e < k; ++e) numbers[e] = to_uniform(words[place[e - first]]);
    }
  }
}

}  // namespace

void uniforms(std::uint64_t key, const std::uint64_t* row_hash, std::int64_t n_rows, std::int64_t n_columns, float* numbers) {
  constexpr int most = 4 * kCounters;  // columns at a time
  std::uint32_t quad[kCounters], words[most];
  for (std::int64_t i = 0; i < n_rows; ++i, numbers += n_columns)
    for (std::int64_t start = 0; start < n_columns; start += most) {
      for (int q = 0; q < kCounters; ++q) quad[q] = static_cast<std::uint32_t>(start / 4 + q);
      draw_words(key, row_hash[i], quad, kCounters, words);
      const int n = static_cast<int>(std::min<std::int64_t>(most, n_columns - start));
      for (int j = 0; j < n; ++j) numbers[start + j] = to_uniform(words[j]);
    }
}

void uniforms_at(std::uint64_t key, const std::uint64_t* row_hash, std::int64_t n_rows, const std::int32_t* indptr,
                 const std::int32_t* indices, float* numbers) {
  draw_at(key, row_hash, n_rows, indptr, indices, numbers);
}

void uniforms_at(std::uint64_t key, const std::uint64_t* row_hash, std::int64_t n_rows, const std::int64_t* indptr,
                 const std::int64_t* indices, float* numbers) {
  draw_at(key, row_hash, n_rows, indptr, indices, numbers);
}

}  // namespace HARDZERO_ISA
}  // namespace hardzero
