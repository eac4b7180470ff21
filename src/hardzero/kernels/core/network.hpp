// What the compiled core offers, one implementation of it for each instruction-set level.
#pragma once

#include <cstdint>

namespace hardzero {

struct LayerShape {
  int n_inputs;
  int n_units;
  int activation;    // `code` in hardzero.activations
  double parameter;  // of the activation
  bool has_signs;
};

enum RuleKind { kPlain, kMomentum, kNesterov, kAdam };

struct UpdateRule {
  int kind;
  double learning_rate;
  double momentum;
  double l2;
  double beta1;
  double beta2;
  double epsilon;
};

// Which kernel serves a pass: chosen from counted non-zeros, or forced.
enum Mode { kAuto, kSparse, kDense };

// Nanoseconds that each kernel takes, for choosing between them: a multiply-add in batches of kBatchSizes[i] rows, for the
// sparse kernel where a tenth and where half of the inputs are active; reading (and writing) a weight in cache and memory.
constexpr int kNumSizes = 6;
constexpr int kBatchSizes[kNumSizes] = {1, 3, 10, 32, 100, 1000};
struct PassCosts {
  double sparse_tenth[kNumSizes];
  double sparse_half[kNumSizes];
  double dense[kNumSizes];
  double weight_cached;
  double weight_memory;
};
struct Costs {
  PassCosts forward;
  PassCosts backward;
  double cache_bytes;
  double per_nonzero;  // what a non-zero costs however few the units
};

// The last choice made for a pass of a layer, and what it rested on.
struct Choice {
  int kernel;  // kSparse or kDense
  int n_rows;
  std::int64_t n_nonzero;
  int n_active_inputs;
  double sparse_ns;    // expected
  double dense_ns;     // expected
  double measured_ns;  // what the pass took, where passes are timed
};

// Rows of a matrix: dense with a stride, or CSR (when indptr is given).
template <class T>
struct Rows {
  const T* dense;
  std::int64_t stride;
  const std::int64_t* indptr;
  const std::int32_t* indices;
  const T* data;
};

template <class T>
class Network {
 public:
  virtual ~Network() = default;

  // Parameters of layer l. W has n_inputs rows, `stride` apart; all others have n_units entries.
  virtual T* W(int l) = 0;
  virtual std::int64_t stride(int l) = 0;
  virtual T* b(int l) = 0;
  virtual T* signs(int l) = 0;
  virtual T* slopes(int l) = 0;

  virtual void set_rule(const UpdateRule& rule, double l1_activation) = 0;
  virtual void set_plan(int mode, bool skip_zeros, bool timed, int n_threads, const Costs& costs) = 0;
  virtual void forget() = 0;  // moments and step count start again

  // Outputs of the last layer for the rows x[row[0]], ..., x[row[n - 1]] (x[0], ... when row is null).
  virtual void forward(const Rows<T>& x, const std::int64_t* row, int n) = 0;
  // The same, keeping what backward needs; weight is each row's share of the batch, summing to 1 (null: all the same).
  virtual void forward_batch(const Rows<T>& x, const std::int64_t* row, int n, const T* weight) = 0;
  // Turns the outputs into deltas of the mean log loss of a softmax, and returns that loss.
  virtual double softmax_deltas(const std::int64_t* label, const T* weight) = 0;
  virtual void set_deltas(const T* delta, std::int64_t stride) = 0;
  virtual void backward_batch() = 0;
  virtual const T* outputs() = 0;
  virtual std::int64_t outputs_stride() = 0;

  virtual void flush() = 0;  // pending lazy updates
  virtual Choice choice(int l, bool backward) = 0;
  // Counts of hidden layer l since the last call; fired has n_units entries.
  virtual void statistics(int l, std::int64_t* n_rows, std::int64_t* n_nonzero, std::uint8_t* fired) = 0;
};

#define HARDZERO_DECLARE(level)                                             \
  namespace level {                                                         \
  Network<float>* make_network_float(const LayerShape* layers, int n);      \
  Network<double>* make_network_double(const LayerShape* layers, int n);    \
  void activate_float(int code, float p, int n, float* h, float* d);        \
  void activate_double(int code, double p, int n, double* h, double* d);    \
  }
HARDZERO_DECLARE(v2)
HARDZERO_DECLARE(v3)
HARDZERO_DECLARE(v4)
HARDZERO_DECLARE(neon)
HARDZERO_DECLARE(generic)
#undef HARDZERO_DECLARE

}  // namespace hardzero
