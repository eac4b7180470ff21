// A decoder of which only chosen outputs are computed, one implementation of it for each instruction-set level.
#pragma once

#include <cstdint>

namespace hardzero {

// The decoder, the hidden activations of a batch, and the outputs that are wanted: ascending by column, then by row.
template <class T>
struct ChosenOutputs {
  T* D;                 // weights: row j gives output j
  T* c;                 // biases
  const T* h;           // one row for each row of the batch
  std::int64_t stride;  // between rows of D, h and their derivatives; a multiple of 64 bytes, all of it used
  const std::int32_t* column;
  const std::int32_t* row;
  std::int64_t n;
};

#define HARDZERO_DECLARE_SAMPLED(level)                                                                                   \
  namespace level {                                                                                                       \
  /* a[k] = D[column[k]] . h[row[k]] + c[column[k]] */                                                                    \
  void forward_chosen(const ChosenOutputs<float>& chosen, float* a, int n_threads);                                       \
  void forward_chosen(const ChosenOutputs<double>& chosen, double* a, int n_threads);                                     \
  /* dh[i] += sum of delta[k] D[column[k]] over k with row[k] = i; then, for each column j that occurs,                   \
     D[j] -= rate sum of delta[k] h[row[k]] over k with column[k] = j, and c[j] -= rate sum of delta[k]. */               \
  void backward_chosen(const ChosenOutputs<float>& chosen, const float* delta, float rate, float* dh, int n_threads);     \
  void backward_chosen(const ChosenOutputs<double>& chosen, const double* delta, double rate, double* dh, int n_threads); \
  }
HARDZERO_DECLARE_SAMPLED(v2)
HARDZERO_DECLARE_SAMPLED(v3)
HARDZERO_DECLARE_SAMPLED(v4)
HARDZERO_DECLARE_SAMPLED(neon)
HARDZERO_DECLARE_SAMPLED(generic)
#undef HARDZERO_DECLARE_SAMPLED

}  // namespace hardzero
