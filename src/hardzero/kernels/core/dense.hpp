// The dense twin of sparse.hpp, for layers and batches in which skipping does not pay. Same sums, same order, same bits.
//
// Blocked matrix products whose accumulators are loaded from the result before each stretch of the inner dimension, so
// that every element is summed front to back whatever the blocking.
#pragma once

#include <cstring>

#include "simd.hpp"

namespace hardzero {
namespace HARDZERO_ISA {

// Blocks of accumulators that leave room in the register file for operands, and the micro-tiles made of them.
constexpr int kAccumulators = kFileBlocks * 3 / 4;
constexpr int kTall = kAccumulators < 8 ? kAccumulators : 8;
constexpr int wide(int tall) { return kAccumulators / tall < 6 ? kAccumulators / tall : 6; }
// Terms of one stretch of the inner dimension: a packed panel of it stays in the second-level cache.
constexpr int kDeep = 384;
// Below this many micro-tiles that share a panel, packing the panel costs more than it saves.
constexpr int kPackFrom = 4;

template <bool value_>
struct Flag {
  static constexpr bool value = value_;
};

// c[0 .. M) += a b over `depth` terms, ascending. Rows a + m * a_row, terms a_step apart; b has N blocks every b_step. The
// sum starts from c, or (adds_last) from 0 and is added to c as a whole.
template <bool adds_last, int M, int N, class T>
HARDZERO_INLINE void micro_product(const T* a, std::int64_t a_row, std::int64_t a_step, const T* b, std::int64_t b_step,
                                   int depth, T* c, std::int64_t c_row) {
  Block<T> s[M][N];
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) s[m][n] = adds_last ? zero<T>() : load(c + m * c_row + n * kLanes<T>);
  for (int k = 0; k < depth; ++k) {
    Block<T> w[N];
    for (int n = 0; n < N; ++n) w[n] = load(b + n * kLanes<T>);
    for (int m = 0; m < M; ++m) {
      const Block<T> h = broadcast(a[m * a_row]);
      for (int n = 0; n < N; ++n) s[m][n] = fma(h, w[n], s[m][n]);
    }
    a += a_step;
    b += b_step;
  }
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      T* to = c + m * c_row + n * kLanes<T>;
      store(to, adds_last ? add(load(to), s[m][n]) : s[m][n]);
    }
}

template <bool adds_last, int M, class T>
HARDZERO_INLINE void product_of_width(int n, const T* a, std::int64_t a_row, std::int64_t a_step, const T* b,
                                      std::int64_t b_step, int depth, T* c, std::int64_t c_row) {
  constexpr int most = wide(M);
  if constexpr (most >= 6) {
    if (n == 6) return micro_product<adds_last, M, 6>(a, a_row, a_step, b, b_step, depth, c, c_row);
    if (n == 5) return micro_product<adds_last, M, 5>(a, a_row, a_step, b, b_step, depth, c, c_row);
  }
  if constexpr (most >= 4) {
    if (n == 4) return micro_product<adds_last, M, 4>(a, a_row, a_step, b, b_step, depth, c, c_row);
  }
  if constexpr (most >= 3) {
    if (n == 3) return micro_product<adds_last, M, 3>(a, a_row, a_step, b, b_step, depth, c, c_row);
  }
  if constexpr (most >= 2) {
    if (n == 2) return micro_product<adds_last, M, 2>(a, a_row, a_step, b, b_step, depth, c, c_row);
  }
  micro_product<adds_last, M, 1>(a, a_row, a_step, b, b_step, depth, c, c_row);
}

template <bool adds_last, class T>
inline void product_of_rows(int m, int n, const T* a, std::int64_t a_row, std::int64_t a_step, const T* b,
                            std::int64_t b_step, int depth, T* c, std::int64_t c_row) {
  switch (m) {
    case 1: return product_of_width<adds_last, 1>(n, a, a_row, a_step, b, b_step, depth, c, c_row);
    case 2: return product_of_width<adds_last, 2>(n, a, a_row, a_step, b, b_step, depth, c, c_row);
    case 3: return product_of_width<adds_last, 3>(n, a, a_row, a_step, b, b_step, depth, c, c_row);
#if !defined(HARDZERO_SMALL_FILE)
    case 4: return product_of_width<adds_last, 4>(n, a, a_row, a_step, b, b_step, depth, c, c_row);
    case 5: return product_of_width<adds_last, 5>(n, a, a_row, a_step, b, b_step, depth, c, c_row);
    case 6: return product_of_width<adds_last, 6>(n, a, a_row, a_step, b, b_step, depth, c, c_row);
#endif
#if defined(__AVX512F__)
    case 7: return product_of_width<adds_last, 7>(n, a, a_row, a_step, b, b_step, depth, c, c_row);
    case 8: return product_of_width<adds_last, 8>(n, a, a_row, a_step, b, b_step, depth, c, c_row);
#endif
    default: return;
  }
}

// C (m rows) += A B for the columns [first, last) in blocks. A[i, k] at a + i * a_row + k * a_step, B[k, :] at
// b + k * b_row. Where the sum adds last, depth is at most kDeep. `packed` has room for kDeep x wide(1) blocks.
template <bool adds_last, class T>
inline void accumulate_product(const T* a, std::int64_t a_row, std::int64_t a_step, const T* b, std::int64_t b_row, T* c,
                               std::int64_t c_row, int m, int depth, int first, int last, T* packed) {
  if (m == 0) return;
  const int n_tiles = (m + kTall - 1) / kTall;
  const int tall = (m + n_tiles - 1) / n_tiles;
  const int most = wide(tall);
  for (int k0 = 0; k0 < depth; k0 += kDeep) {
    const int kn = smaller(kDeep, depth - k0);
    for (int at = first; at < last; at += most) {
      const int n = smaller(most, last - at);
      const T* panel = b + k0 * b_row + static_cast<std::int64_t>(at) * kLanes<T>;
      std::int64_t step = b_row;
      if (n_tiles >= kPackFrom) {
        for (int k = 0; k < kn; ++k)
          for (int z = 0; z < n; ++z)
            store(packed + (k * n + z) * kLanes<T>, load(panel + k * b_row + z * kLanes<T>));
        panel = packed;
        step = n * kLanes<T>;
      }
      for (int i = 0; i < m; i += tall)
        product_of_rows<adds_last>(smaller(tall, m - i), n, a + i * a_row + k0 * a_step, a_row, a_step, panel, step, kn,
                        c + i * c_row + static_cast<std::int64_t>(at) * kLanes<T>, c_row);
    }
  }
}

// g[m, n] += e[m] . w[n] over `width` columns; even and odd blocks are summed apart, as in backward_sparse.
template <int M, int N, class T>
HARDZERO_INLINE void micro_dots(const T* e, std::int64_t e_row, const T* w, std::int64_t w_row, std::int64_t width, T* g,
                                std::int64_t g_row) {
  Block<T> s[2][M][N];
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) s[0][m][n] = s[1][m][n] = zero<T>();
  const auto add_block = [&](Block<T>(&to)[M][N], std::int64_t c) {
    Block<T> d[M];
    for (int m = 0; m < M; ++m) d[m] = load(e + m * e_row + c);
    for (int n = 0; n < N; ++n) {
      const Block<T> v = load(w + n * w_row + c);
      for (int m = 0; m < M; ++m) to[m][n] = fma(d[m], v, to[m][n]);
    }
  };
  std::int64_t c = 0;
  for (; c + 2 * kLanes<T> <= width; c += 2 * kLanes<T>) {
    add_block(s[0], c);
    add_block(s[1], c + kLanes<T>);
  }
  if (c < width) add_block(s[0], c);
  for (int n = 0; n < N; ++n) {
    Block<T> both[M];
    for (int m = 0; m < M; ++m) both[m] = add(s[0][m][n], s[1][m][n]);
    add_sums(both, g + n, g_row);
  }
}

constexpr int kDotRows = kFileBlocks >= 32 ? 4 : kFileBlocks >= 8 ? 2 : 1;
constexpr int kDotInputs = kAccumulators / kDotRows / 2 > 0 ? kAccumulators / kDotRows / 2 : 1;

template <int N, class T>
HARDZERO_INLINE void dots_rows(int m, const T* e, std::int64_t e_row, const T* w, std::int64_t w_row, std::int64_t width,
                               T* g, std::int64_t g_row) {
  switch (m) {
    case 1: return micro_dots<1, N>(e, e_row, w, w_row, width, g, g_row);
    case 2: return micro_dots<2, N>(e, e_row, w, w_row, width, g, g_row);
#if defined(__AVX512F__)
    case 3: return micro_dots<3, N>(e, e_row, w, w_row, width, g, g_row);
    case 4: return micro_dots<4, N>(e, e_row, w, w_row, width, g, g_row);
#endif
    default: return;
  }
}

// g[b, j] += sum_c e[b, c] W[j, c] for all rows b and the inputs [first, last): few enough that their rows of W stay in the
// second-level cache, and pass by the rows of e, a few of which stay in the first.
template <class T>
inline void deltas_dense(const T* W, std::int64_t stride, const T* e, std::int64_t e_stride, T* g, std::int64_t g_stride,
                         int n_rows, int first, int last) {
  for (std::int64_t c = 0; c < stride; c += kReach<T>) {
    const std::int64_t width = smaller<std::int64_t>(kReach<T>, stride - c);
    for (int b = 0; b < n_rows; b += kDotRows) {
      const int m = smaller(kDotRows, n_rows - b);
      const T* eb = e + b * e_stride + c;
      T* to = g + b * g_stride;
      int j = first;
      for (; j + kDotInputs <= last; j += kDotInputs)
        dots_rows<kDotInputs>(m, eb, e_stride, W + j * stride + c, stride, width, to + j, g_stride);
      for (; j < last; ++j) dots_rows<1>(m, eb, e_stride, W + j * stride + c, stride, width, to + j, g_stride);
    }
  }
}

}  // namespace HARDZERO_ISA
}  // namespace hardzero
