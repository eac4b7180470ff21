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

// What a step does beside the loss and the rule; hardzero.kernels.options says how.
struct StepOptions {
  const double* dropout;  // rates of the inputs and of each hidden layer
  bool batch_norm;
  double batch_norm_epsilon;
  double batch_norm_momentum;
  double l1_weights;
  double max_norm;
  double clip_norm;
  bool fit_biases;
};

// Arrays of a layer; only the first four are learned.
enum ArrayKind { kWeights, kBiases, kSlopes, kGamma, kSigns, kMean, kVariance };

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

  // An array of layer l, or the first or second moment that the rule keeps of it; null if there is none. Weights have
  // n_inputs rows, `stride` apart; all others n_units entries.
  virtual T* array(int l, ArrayKind kind, int moment) = 0;
  virtual std::int64_t stride(int l) = 0;
  T* W(int l) { return array(l, kWeights, 0); }
  T* b(int l) { return array(l, kBiases, 0); }
  T* signs(int l) { return array(l, kSigns, 0); }
  T* slopes(int l) { return array(l, kSlopes, 0); }
  // How many updates there were, and how many each row of W has had (null where rows do not wait).
  virtual std::int64_t* n_steps() = 0;
  virtual std::int64_t* times(int l) = 0;

  virtual void set_options(const StepOptions& options) = 0;  // once, before set_rule
  virtual void set_keys(const std::uint64_t* keys) = 0;  // of the streams that dropout draws from

  virtual void set_rule(const UpdateRule& rule, double l1_activation) = 0;
  virtual void set_plan(int mode, bool skip_zeros, bool timed, int n_threads, const Costs& costs) = 0;
  virtual void forget() = 0;  // moments and step count start again

  // Outputs of the last layer for the rows x[row[0]], ..., x[row[n - 1]] (x[0], ... when row is null).
  virtual void forward(const Rows<T>& x, const std::int64_t* row, int n) = 0;
  // The same for a step, keeping what backward needs; weight is each row's share of the batch, summing to 1 (null: all the
  // same), hash tells dropout the rows' content.
  virtual void forward_batch(const Rows<T>& x, const std::int64_t* row, int n, const T* weight, const std::uint64_t* hash) = 0;
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
