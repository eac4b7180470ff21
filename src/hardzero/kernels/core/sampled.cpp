// Reconstruction sampling: chosen outputs of a decoder. Compiled once for each instruction-set level; as in network.cpp, nothing
// here may use the standard library's templates.
//
// Most of the time goes into fetching rows of D, of which a batch needs many and each of them for few of its rows. So the list
// is worked through by column: each row of D is fetched once in each pass, in the order of memory, some outputs ahead.
//
// Sums are taken in one order for any number of threads: a dot product over the even and the odd blocks and then over lanes,
// derivatives of h over columns ascending, updates over rows of the batch ascending.
#include "sampled.hpp"

#include "pool.hpp"
#include "simd.hpp"

namespace hardzero {
namespace HARDZERO_ISA {
namespace {

constexpr int kAhead = 8;  // outputs; 4 and 16 are hardly slower, without it updates take twice as long

// Fetches a part of the row of D that an output some places ahead needs.
template <class T>
HARDZERO_INLINE void fetch_ahead(const ChosenOutputs<T>& chosen, std::int64_t k, std::int64_t from, std::int64_t to) {
  const std::int64_t next = k + kAhead;
  if (next >= chosen.n || chosen.column[next] == chosen.column[next - 1]) return;
  const T* d = chosen.D + chosen.column[next] * chosen.stride;
  for (std::int64_t c = from; c < to; c += kLanes<T>) __builtin_prefetch(d + c);
}

template <class Task>
void parallel(int n_threads, int n_chunks, const Task& task) {
  run_chunks(
      n_threads, n_chunks,
      [](void* context, int chunk, int) { (*static_cast<const Task*>(context))(chunk); }, const_cast<Task*>(&task));
}

template <class T>
void forward(const ChosenOutputs<T>& chosen, T* a, int n_threads) {
  const std::int64_t stride = chosen.stride, n = chosen.n;
  const int n_chunks = static_cast<int>(smaller<std::int64_t>(4 * n_threads, n / 64 + 1));
  parallel(n_threads, n_chunks, [&](int chunk) {
    const std::int64_t last = n * (chunk + 1) / n_chunks;
    for (std::int64_t k = n * chunk / n_chunks; k < last; ++k) {
      fetch_ahead(chosen, k, 0, stride);
      const T* d = chosen.D + chosen.column[k] * stride;
      const T* h = chosen.h + chosen.row[k] * stride;
      Block<T> even = zero<T>(), odd = zero<T>();
      std::int64_t c = 0;
      for (; c + 2 * kLanes<T> <= stride; c += 2 * kLanes<T>) {
        even = fma(load(d + c), load(h + c), even);
        odd = fma(load(d + c + kLanes<T>), load(h + c + kLanes<T>), odd);
      }
      if (c < stride) even = fma(load(d + c), load(h + c), even);
      a[k] = sum(add(even, odd)) + chosen.c[chosen.column[k]];
    }
  });
}

// N blocks of a row of D and the sum of its updates stay in registers.
constexpr int kWidth = kFileBlocks / 4;

// The outputs [k, end) of one column, in N blocks from c on.
template <int N, class T>
HARDZERO_INLINE void meet(const ChosenOutputs<T>& chosen, const T* delta, T rate, T* dh, std::int64_t k, std::int64_t end,
                          std::int64_t c) {
  T* d = chosen.D + chosen.column[k] * chosen.stride + c;
  Block<T> old[N], total[N];
  for (int z = 0; z < N; ++z) {
    old[z] = load(d + z * kLanes<T>);
    total[z] = zero<T>();
  }
  for (; k < end; ++k) {
    const std::int64_t at = chosen.row[k] * chosen.stride + c;
    const Block<T> e = broadcast(delta[k]);
    for (int z = 0; z < N; ++z) {
      store(dh + at + z * kLanes<T>, fma(e, old[z], load(dh + at + z * kLanes<T>)));
      total[z] = fma(e, load(chosen.h + at + z * kLanes<T>), total[z]);
    }
  }
  for (int z = 0; z < N; ++z) store(d + z * kLanes<T>, fma(broadcast(-rate), total[z], old[z]));
}

template <class T>
void backward(const ChosenOutputs<T>& chosen, const T* delta, T rate, T* dh, int n_threads) {
  const std::int64_t n_blocks = chosen.stride / kLanes<T>;
  const int n_chunks = static_cast<int>(smaller<std::int64_t>(n_threads, n_blocks));
  // Threads share the units, not the outputs: each row of dh would be wanted by all of them.
  parallel(n_threads, n_chunks, [&](int chunk) {
    const std::int64_t from = n_blocks * chunk / n_chunks * kLanes<T>, to = n_blocks * (chunk + 1) / n_chunks * kLanes<T>;
    for (std::int64_t k = 0, end = 0; k < chosen.n; k = end) {
      const std::int32_t j = chosen.column[k];
      T total = 0;
      for (; end < chosen.n && chosen.column[end] == j; ++end) {
        fetch_ahead(chosen, end, from, to);
        total += delta[end];
      }
      std::int64_t c = from;
      for (; c + kWidth * kLanes<T> <= to; c += kWidth * kLanes<T>) meet<kWidth>(chosen, delta, rate, dh, k, end, c);
      for (; c < to; c += kLanes<T>) meet<1>(chosen, delta, rate, dh, k, end, c);
      if (chunk == 0) chosen.c[j] -= rate * total;
    }
  });
}

}  // namespace

void forward_chosen(const ChosenOutputs<float>& chosen, float* a, int n_threads) { forward(chosen, a, n_threads); }
void forward_chosen(const ChosenOutputs<double>& chosen, double* a, int n_threads) { forward(chosen, a, n_threads); }
void backward_chosen(const ChosenOutputs<float>& chosen, const float* delta, float rate, float* dh, int n_threads) {
  backward(chosen, delta, rate, dh, n_threads);
}
void backward_chosen(const ChosenOutputs<double>& chosen, const double* delta, double rate, double* dh, int n_threads) {
  backward(chosen, delta, rate, dh, n_threads);
}

}  // namespace HARDZERO_ISA
}  // namespace hardzero
