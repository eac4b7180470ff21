// Exact zero-skipping: lists of the non-zeros of a batch, and the forward and backward passes over them.
//
// W lies as (inputs, stride) with rows padded to whole blocks. Every sum is taken in one fixed order: over inputs
// ascending (forward), over the even and the odd blocks of kReach columns and then over lanes (deltas), over rows of the batch
// ascending (update). Skipping a zero term leaves a sum as it is, so the passes give the same bits whether zeros are
// skipped or not, and dense.hpp, which keeps the same orders, gives the same bits again.
#pragma once

#include <cstring>

#include "simd.hpp"

namespace hardzero {
namespace HARDZERO_ISA {

// The non-zeros of each row of a batch: row b has count[b] entries (index[b][k], value[b][k]), indices ascending.
template <class T>
struct RowLists {
  const std::int32_t** index;
  const T** value;
  std::int32_t* count;
};

// The same non-zeros by input: the s-th of n active inputs, input[s], is non-zero in the rows row[start[s]] ...
// row[start[s + 1] - 1], ascending. slot[j] is the s of input j where stamp[j] is the present batch's number.
template <class T>
struct ColumnLists {
  int n;
  std::int32_t* input;
  std::int32_t* slot;
  std::int64_t* stamp;
  std::int64_t* start;
  std::int64_t* next;
  std::int32_t* row;
  T* value;
};

// Writes the non-zeros of x[0 .. n) to index and value, which have room for one block more than n. Returns their number.
template <class T>
HARDZERO_INLINE int compress(const T* x, int n, std::int32_t* index, T* value) {
  int count = 0;
  int j = 0;
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const __m512i steps = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (; j + 16 <= n; j += 16) {
      const __m512 v = _mm512_loadu_ps(x + j);
      const __mmask16 set = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
      // Compress in a register, then store whole: the storing form of the instruction is slow on some processors.
      _mm512_storeu_si512(index + count, _mm512_maskz_compress_epi32(set, _mm512_add_epi32(steps, _mm512_set1_epi32(j))));
      _mm512_storeu_ps(value + count, _mm512_maskz_compress_ps(set, v));
      count += __builtin_popcount(set);
    }
  }
#endif
  for (; j < n; ++j) {
    index[count] = j;
    value[count] = x[j];
    count += x[j] != T(0);
  }
  return count;
}

// Finds the active inputs of a batch and how many rows each is active in: the first half of a transposition.
template <class T>
inline void find_active_inputs(const T* h, std::int64_t h_stride, int n_rows, int n, std::int64_t batch, std::int32_t* counts,
                               ColumnLists<T>& columns) {
  std::memset(counts, 0, sizeof(std::int32_t) * static_cast<std::size_t>(n));
  for (int b = 0; b < n_rows; ++b)
    for (int j = 0; j < n; ++j) counts[j] += h[b * h_stride + j] != T(0);
  std::int32_t s = 0;
  for (int j = 0; j < n; ++j) {
    const bool is_active = counts[j] > 0;
    columns.input[s] = j;
    columns.next[s] = counts[j];
    columns.slot[j] = s;
    columns.stamp[j] = is_active ? batch : columns.stamp[j];
    s += is_active;
  }
  columns.n = s;
}

// The same from lists. Without branches: whether an input was seen before is what no processor can predict.
template <class T>
inline void find_active_inputs(const RowLists<T>& rows, int n_rows, std::int64_t batch, ColumnLists<T>& columns) {
  std::int32_t n = 0;
  for (int b = 0; b < n_rows; ++b)
    for (int k = 0; k < rows.count[b]; ++k) {
      const std::int32_t j = rows.index[b][k];
      const bool is_new = columns.stamp[j] != batch;
      const std::int32_t s = is_new ? n : columns.slot[j];
      columns.stamp[j] = batch;
      columns.slot[j] = s;
      columns.input[s] = j;
      columns.next[s] = is_new ? 1 : columns.next[s] + 1;
      n += is_new;
    }
  columns.n = n;
}

// Fills the column lists: the second half.
template <class T>
inline void transpose(const RowLists<T>& rows, int n_rows, ColumnLists<T>& columns) {
  std::int64_t total = 0;
  for (int s = 0; s < columns.n; ++s) {
    columns.start[s] = total;
    total += columns.next[s];
    columns.next[s] = columns.start[s];
  }
  columns.start[columns.n] = total;
  for (int b = 0; b < n_rows; ++b)
    for (int k = 0; k < rows.count[b]; ++k) {
      const std::int64_t at = columns.next[columns.slot[rows.index[b][k]]]++;
      columns.row[at] = b;
      columns.value[at] = rows.value[b][k];
    }
}

// y[0 .. N blocks) += sum over the listed inputs of value * W[input, 0 .. N blocks).
template <int N, class T>
HARDZERO_INLINE void gather(const T* W, std::int64_t stride, const std::int32_t* index, const T* value, int count, T* y) {
  Block<T> a[N];
  for (int z = 0; z < N; ++z) a[z] = load(y + z * kLanes<T>);
  for (int k = 0; k < count; ++k) {
    const T* w = W + index[k] * stride;
    const Block<T> h = broadcast(value[k]);
    for (int z = 0; z < N; ++z) a[z] = fma(h, load(w + z * kLanes<T>), a[z]);
  }
  for (int z = 0; z < N; ++z) store(y + z * kLanes<T>, a[z]);
}

// Blocks of y that stay in registers while a row's non-zeros pass.
constexpr int kTile = kFileBlocks >= 32 ? 8 : kFileBlocks / 2;

template <int N = 1, class T>
HARDZERO_INLINE void gather_tile(int n_blocks, const T* W, std::int64_t stride, const std::int32_t* index, const T* value,
                                 int count, T* y) {
  if constexpr (N < kTile)
    if (n_blocks > N) return gather_tile<N + 1>(n_blocks, W, stride, index, value, count, y);
  gather<N>(W, stride, index, value, count, y);
}

// Inputs of one panel: about `few` active ones a row, and not so many rows of W that a tile of them leaves the first-level
// cache for less.
HARDZERO_INLINE int panel_size(std::int64_t n_nonzero, std::int64_t n_rows, std::int64_t n_inputs) {
  constexpr std::int64_t few = 20, least = 64;
  const std::int64_t size = few * n_rows * n_inputs / larger<std::int64_t>(n_nonzero, 1);
  return static_cast<int>(smaller(larger(size, least), n_inputs));
}

// Where each row's list passes from one panel to the next: cut[b * (n_panels + 1) + p] for panel p.
template <class T>
inline void cut_panels(const RowLists<T>& x, int n_rows, int panel, int n_panels, std::int32_t* cut) {
  for (int b = 0; b < n_rows; ++b) {
    std::int32_t k = 0;
    *cut++ = 0;
    for (std::int64_t p = 1; p < n_panels; ++p) {
      while (k < x.count[b] && x.index[b][k] < p * panel) ++k;
      *cut++ = k;
    }
    *cut++ = x.count[b];
  }
}

// Rows of the batch whose sums stay in the second-level cache, beside a tile of W.
constexpr int kForwardBatch = 256;

// The first `i` of `n_parts` nearly equal parts of n; their product can be more than an int holds.
inline int portion(int n, int i, int n_parts) { return static_cast<int>(std::int64_t{n} * i / n_parts); }

// Forward pass of the columns [first, last) (in blocks): y = bias + x W, zeros skipped. A panel of W stays in the
// first-level cache, tile by tile, while rows of the batch pass over it.
template <class T>
inline void forward_sparse(const T* W, std::int64_t stride, const T* bias, const RowLists<T>& x, int n_rows,
                           const std::int32_t* cut, int n_panels, T* y, std::int64_t y_stride, int first, int last) {
  const int n_tiles = (last - first + kTile - 1) / kTile;
  for (int top = 0; top < n_rows; top += kForwardBatch) {
    const int bottom = smaller(top + kForwardBatch, n_rows);
    for (int tile = 0; tile < n_tiles; ++tile) {
      const int at = first + portion(last - first, tile, n_tiles);
      const int n = first + portion(last - first, tile + 1, n_tiles) - at;
      const std::int64_t c = static_cast<std::int64_t>(at) * kLanes<T>;
      for (int b = top; b < bottom; ++b)
        for (int z = 0; z < n; ++z)  // + 0 makes -0 to +0, so that a sum can't tell whether zeros were added
          store(y + b * y_stride + c + z * kLanes<T>, add(load(bias + c + z * kLanes<T>), zero<T>()));
      for (int p = 0; p < n_panels; ++p) {
        for (int b = top; b < bottom; ++b) {
          const std::int32_t* ends = cut + static_cast<std::int64_t>(b) * (n_panels + 1) + p;
          const int from = ends[0], count = ends[1] - from;
          if (count > 0)
            gather_tile(n, W + c, stride, x.index[b] + from, x.value[b] + from, count, y + b * y_stride + c);
        }
      }
    }
  }
}

// Rows of the batch that one visit to a row of W serves: their dot products stay in registers.
constexpr int kVisit = kFileBlocks >= 32 ? 8 : kFileBlocks >= 8 ? 2 : 1;

// A row w of W, in the columns [from, to), meets N rows of the batch: sum.put(c, sum.get(c, old) + sum_k value[k]
// e[row[k], c]), and g[row[k] * g_stride] += e[row[k]] . old if `dots`, even and odd blocks summed apart.
//
// `sum` is passed by value, so that what it points to is known to stay where it is.
template <int N, bool dots, class T, class Sum>
HARDZERO_INLINE void visit(const T* w, const T* e, std::int64_t e_stride, const std::int32_t* row, const T* value, T* g,
                           std::int64_t g_stride, std::int64_t from, std::int64_t to, const Sum sum_of) {
  const T* ek[N];
  Block<T> v[N], even[N], odd[N];
  for (int k = 0; k < N; ++k) {
    ek[k] = e + row[k] * e_stride;
    v[k] = broadcast(value[k]);
    even[k] = odd[k] = zero<T>();
  }
  std::int64_t c = from;
  for (; c + 2 * kLanes<T> <= to; c += 2 * kLanes<T>) {
    const Block<T> a = load(w + c), b = load(w + c + kLanes<T>);
    Block<T> now_a = sum_of.get(c, a), now_b = sum_of.get(c + kLanes<T>, b);
    for (int k = 0; k < N; ++k) {
      const Block<T> d = load(ek[k] + c), f = load(ek[k] + c + kLanes<T>);
      if (dots) {
        even[k] = fma(d, a, even[k]);
        odd[k] = fma(f, b, odd[k]);
      }
      now_a = fma(v[k], d, now_a);
      now_b = fma(v[k], f, now_b);
    }
    sum_of.put(c, now_a);
    sum_of.put(c + kLanes<T>, now_b);
  }
  if (c < to) {
    const Block<T> a = load(w + c);
    Block<T> now = sum_of.get(c, a);
    for (int k = 0; k < N; ++k) {
      const Block<T> d = load(ek[k] + c);
      if (dots) even[k] = fma(d, a, even[k]);
      now = fma(v[k], d, now);
    }
    sum_of.put(c, now);
  }
  if (dots)
    for (int k = 0; k < N; ++k) g[row[k] * g_stride] += sum(add(even[k], odd[k]));
}

template <bool dots, class T, class Sum>
inline void visit_few(int n, const T* w, const T* e, std::int64_t e_stride, const std::int32_t* row, const T* value, T* g,
                      std::int64_t g_stride, std::int64_t from, std::int64_t to, const Sum sum_of) {
  switch (n) {
    case 1: return visit<1, dots>(w, e, e_stride, row, value, g, g_stride, from, to, sum_of);
#if !defined(HARDZERO_SMALL_FILE)
    case 2: return visit<2, dots>(w, e, e_stride, row, value, g, g_stride, from, to, sum_of);
#endif
#if defined(__AVX512F__)
    case 3: return visit<3, dots>(w, e, e_stride, row, value, g, g_stride, from, to, sum_of);
    case 4: return visit<4, dots>(w, e, e_stride, row, value, g, g_stride, from, to, sum_of);
    case 5: return visit<5, dots>(w, e, e_stride, row, value, g, g_stride, from, to, sum_of);
    case 6: return visit<6, dots>(w, e, e_stride, row, value, g, g_stride, from, to, sum_of);
    case 7: return visit<7, dots>(w, e, e_stride, row, value, g, g_stride, from, to, sum_of);
    case 8: return visit<8, dots>(w, e, e_stride, row, value, g, g_stride, from, to, sum_of);
#endif
    default: return;
  }
}

// A sum over the batch that is not yet whole and waits in scratch memory.
template <class T>
struct WaitingSum {
  T* place;
  HARDZERO_INLINE Block<T> get(std::int64_t c, const Block<T>&) const { return load(place + c); }
  HARDZERO_INLINE void put(std::int64_t c, const Block<T>& sum) const { store(place + c, sum); }
};

// Deltas of a batch that fill more than this many bytes do not stay in the second-level cache.
constexpr std::int64_t kDeltaBytes = 512 << 10;
// In that case, rows of W and rows of the batch that meet at a time.
constexpr int kMeet = 64;

// Rows of the batch and rows of W that meet in update_listed at a time: of both, a tile stays in the first-level cache.
constexpr int kPanelRows = 64;
constexpr int kTogether = 256;

// The update alone, for a first layer, which hands no deltas down: row j of W is updated by sum_b x[b, j] e[b, :] for the
// active inputs [first, last). As forward_sparse, with e in the place of W. `sums` is scratch of kTogether x kTile blocks,
// `cut` of kTogether.
template <class T, class Update>
inline void update_listed(const T* W, std::int64_t stride, const T* e, std::int64_t e_stride, const ColumnLists<T>& x,
                          int n_rows, int first, int last, T* sums, std::int64_t* cut, const Update& update) {
  const int n_blocks = static_cast<int>(stride / kLanes<T>), n_tiles = (n_blocks + kTile - 1) / kTile;
  const int n_panels = (n_rows + kPanelRows - 1) / kPanelRows;
  for (int top = first; top < last; top += kTogether) {
    const int bottom = smaller(top + kTogether, last);
    for (int s = top; s < bottom; ++s) {
      std::int64_t k = x.start[s];
      std::int64_t* at = cut + static_cast<std::int64_t>(s - top) * (n_panels + 1);
      *at++ = k;
      for (int p = 1; p < n_panels; ++p) {
        while (k < x.start[s + 1] && x.row[k] < portion(n_rows, p, n_panels)) ++k;
        *at++ = k;
      }
      *at = x.start[s + 1];
    }
    for (int tile = 0; tile < n_tiles; ++tile) {
      const int n = portion(n_blocks, tile + 1, n_tiles) - portion(n_blocks, tile, n_tiles);
      const std::int64_t from = std::int64_t{portion(n_blocks, tile, n_tiles)} * kLanes<T>, to = from + n * kLanes<T>;
      for (int s = top; s < bottom; ++s) {
        const auto row = update(x.input[s]);
        for (std::int64_t c = from; c < to; c += kLanes<T>)
          store(sums + (s - top) * kTile * kLanes<T> + c - from, row.get(c, load(W + x.input[s] * stride + c)));
      }
      for (int p = 0; p < n_panels; ++p)
        for (int s = top; s < bottom; ++s) {
          const std::int64_t* ends = cut + static_cast<std::int64_t>(s - top) * (n_panels + 1) + p;
          const int count = static_cast<int>(ends[1] - ends[0]);
          if (count > 0)
            gather_tile(n, e + from, e_stride, x.row + ends[0], x.value + ends[0], count, sums + (s - top) * kTile * kLanes<T>);
        }
      for (int s = top; s < bottom; ++s) {
        const auto row = update(x.input[s]);
        for (std::int64_t c = from; c < to; c += kLanes<T>)
          row.put(c, load(sums + (s - top) * kTile * kLanes<T> + c - from));
      }
    }
  }
}

// Backward pass of the active inputs [first, last) in one pass over W: deltas g[b, j] += sum_c e[b, c] W[j, c] for active j
// (if `dots`), and the update of row j of W by sum_b x[b, j] e[b, :].
//
// `update(j)` is what becomes of row j's sums: get(c, old) is the value from which a sum over b starts, put(c, sum) takes the
// whole sum. `waiting` is scratch of kMeet x kReach numbers for sums that are not yet whole: W stays as it was for the dots.
template <bool dots, class T, class Update>
inline void backward_sparse(const T* W, std::int64_t stride, const T* e, std::int64_t e_stride, const ColumnLists<T>& x,
                            int n_rows, T* g, std::int64_t g_stride, int first, int last, T* waiting,
                            const Update& update) {
  constexpr std::int64_t bytes = sizeof(T);
  const auto begin_sums = [&](std::int32_t j, std::int64_t from, std::int64_t to, T* place) {
    const auto row = update(j);
    for (std::int64_t c = from; c < to; c += kLanes<T>) store(place + c, row.get(c, load(W + j * stride + c)));
  };
  // Row j of W meets n rows of the batch.
  const auto add_to_sums = [&](std::int32_t j, std::int64_t at, int n, std::int64_t from, std::int64_t to, T* place) {
    for (int k = 0; k < n; k += kVisit)
      visit_few<dots>(smaller(kVisit, n - k), W + j * stride, e, e_stride, x.row + at + k, x.value + at + k, g + j, g_stride,
                      from, to, WaitingSum<T>{place});
  };
  const auto finish_sums = [&](std::int32_t j, std::int64_t from, std::int64_t to, const T* place) {
    const auto row = update(j);
    for (std::int64_t c = from; c < to; c += kLanes<T>) row.put(c, load(place + c));
  };
  // Row s of the active inputs meets the whole batch.
  const auto meet_all = [&](int s, std::int64_t from, std::int64_t to) {
    const std::int32_t j = x.input[s];
    const std::int64_t at = x.start[s];
    const int n = static_cast<int>(x.start[s + 1] - at);
    if (n <= kVisit) {
      visit_few<dots>(n, W + j * stride, e, e_stride, x.row + at, x.value + at, g + j, g_stride, from, to, update(j));
    } else {
      begin_sums(j, from, to, waiting - from);
      add_to_sums(j, at, n, from, to, waiting - from);
      finish_sums(j, from, to, waiting - from);
    }
  };
  if (n_rows * stride * bytes <= kDeltaBytes) {
    for (int s = first; s < last; ++s)
      for (std::int64_t from = 0; from < stride; from += kReach<T>) meet_all(s, from, smaller(from + kReach<T>, stride));
    return;
  }
  for (std::int64_t from = 0; from < stride; from += kReach<T>) {
    const std::int64_t to = smaller(from + kReach<T>, stride);
    if (n_rows * (to - from) * bytes <= kDeltaBytes) {
      for (int s = first; s < last; ++s) meet_all(s, from, to);
      continue;
    }
    // kMeet rows of W with kMeet rows of the batch at a time.
    for (int top = first; top < last; top += kMeet) {
      const int bottom = smaller(top + kMeet, last);
      std::int64_t position[kMeet];
      for (int s = top; s < bottom; ++s) {
        position[s - top] = x.start[s];
        begin_sums(x.input[s], from, to, waiting + (s - top) * kReach<T> - from);
      }
      for (int row_to = kMeet; row_to < n_rows + kMeet; row_to += kMeet)
        for (int s = top; s < bottom; ++s) {
          const std::int64_t at = position[s - top], end = x.start[s + 1];
          std::int64_t next = at;
          while (next < end && x.row[next] < row_to) ++next;
          position[s - top] = next;
          add_to_sums(x.input[s], at, static_cast<int>(next - at), from, to, waiting + (s - top) * kReach<T> - from);
        }
      for (int s = top; s < bottom; ++s) finish_sums(x.input[s], from, to, waiting + (s - top) * kReach<T> - from);
    }
  }
}

}  // namespace HARDZERO_ISA
}  // namespace hardzero
