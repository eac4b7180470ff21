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

// The micro-tile of dot products is made of native registers: blocks would leave too few sums for a narrow one.
constexpr int kDotRows = HARDZERO_REGISTERS >= 32 ? 6 : 4;
constexpr int kDotInputs = HARDZERO_REGISTERS >= 32 ? 4 : 3;

// g[m, n] += e[m] . w[n] over `width` columns; even and odd blocks are summed apart, as in backward_sparse. One native
// register of a pair of blocks after the other passes over all columns, so that its sums stay in the register file.
template <int M, int N, class T>
HARDZERO_INLINE void micro_dots(const T* e, std::int64_t e_row, const T* w, std::int64_t w_row, std::int64_t width, T* g,
                                std::int64_t g_row) {
  using Part = typename Native<T>::Type;
  if (width == kLanes<T>) {  // as in a last layer of few classes
    Block<T> v[N], product[N];
    for (int n = 0; n < N; ++n) v[n] = load(w + n * w_row);
    for (int m = 0; m < M; ++m) {
      const Block<T> d = load(e + m * e_row);
      for (int n = 0; n < N; ++n) product[n] = mul(d, v[n]);
      add_sums(product, g + m * g_row);
    }
    return;
  }
  constexpr std::int64_t lanes = kLanes<T> / kParts;
  Part sums[2 * kParts][M][N];
  for (int part = 0; part < 2 * kParts; ++part) {
    Part s[M][N];
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) s[m][n] = Part{};
    for (std::int64_t c = part * lanes; c < width; c += 2 * kLanes<T>) {
      Part v[N];
      for (int n = 0; n < N; ++n) v[n] = load_part(w + n * w_row + c);
      for (int m = 0; m < M; ++m) {
        const Part d = load_part(e + m * e_row + c);
        for (int n = 0; n < N; ++n) s[m][n] = fma_part(d, v[n], s[m][n]);
      }
    }
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) sums[part][m][n] = s[m][n];
  }
  for (int m = 0; m < M; ++m) {
    Block<T> both[N];
    for (int n = 0; n < N; ++n)
      for (int i = 0; i < kParts; ++i) both[n].part[i] = sums[i][m][n] + sums[kParts + i][m][n];
    add_sums(both, g + m * g_row);
  }
}

template <int N, class T>
HARDZERO_INLINE void dots_rows(int m, const T* e, std::int64_t e_row, const T* w, std::int64_t w_row, std::int64_t width,
                               T* g, std::int64_t g_row) {
  switch (m) {
    case 1: return micro_dots<1, N>(e, e_row, w, w_row, width, g, g_row);
    case 2: return micro_dots<2, N>(e, e_row, w, w_row, width, g, g_row);
    case 3: return micro_dots<3, N>(e, e_row, w, w_row, width, g, g_row);
    case 4: return micro_dots<4, N>(e, e_row, w, w_row, width, g, g_row);
#if HARDZERO_REGISTERS >= 32
    case 5: return micro_dots<5, N>(e, e_row, w, w_row, width, g, g_row);
    case 6: return micro_dots<6, N>(e, e_row, w, w_row, width, g, g_row);
#endif
    default: return;
  }
}

// g[b, j] += sum_c e[b, c] W[j, c] for all rows b, the inputs [first, last) and `width` columns, at most kReach of them. So
// few inputs that their rows of W stay in the second-level cache pass by the rows of e, a few of which stay in the first.
template <class T>
inline void deltas_dense(const T* W, std::int64_t stride, const T* e, std::int64_t e_stride, std::int64_t width, T* g,
                         std::int64_t g_stride, int n_rows, int first, int last) {
  const int n_tiles = (n_rows + kDotRows - 1) / kDotRows;
  const int tall = n_tiles == 0 ? 1 : (n_rows + n_tiles - 1) / n_tiles;
  for (int b = 0; b < n_rows; b += tall) {
    const int m = smaller(tall, n_rows - b);
    const T* eb = e + b * e_stride;
    T* to = g + b * g_stride;
    int j = first;
    for (; j + kDotInputs <= last; j += kDotInputs)
      dots_rows<kDotInputs>(m, eb, e_stride, W + j * stride, stride, width, to + j, g_stride);
    for (; j < last; ++j) dots_rows<1>(m, eb, e_stride, W + j * stride, stride, width, to + j, g_stride);
  }
}

}  // namespace HARDZERO_ISA
}  // namespace hardzero
