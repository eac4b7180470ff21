// One training step and one prediction of a rectifier network. Compiled once for each instruction-set level.
//
// Nothing here may use the standard library's templates: the linker keeps one copy of each for all levels, and it might
// be one with instructions that the machine lacks.
#include "network.hpp"

#include <cmath>
#include <cstring>

#include "activations.hpp"
#include "batch_norm.hpp"
#include "constrain.hpp"
#include "dense.hpp"
#include "dropout.hpp"
#include "pool.hpp"
#include "simd.hpp"
#include "sparse.hpp"

namespace hardzero {
namespace HARDZERO_ISA {
namespace {

template <class E>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { release(data_); }

  E* get() const { return data_; }
  E& operator[](std::int64_t i) const { return data_[i]; }
  std::int64_t size() const { return size_; }

  // Room for n entries, zeroed; what was there before is lost.
  void reserve(std::int64_t n) {
    if (n <= size_) return;
    n = larger(n, size_ + size_ / 2);
    release(data_);
    data_ = nullptr;
    size_ = 0;
    data_ = static_cast<E*>(allocate(static_cast<std::uint64_t>(n) * sizeof(E)));
    size_ = n;
  }
  void clear() {
    if (data_) std::memset(data_, 0, static_cast<std::size_t>(size_) * sizeof(E));
  }

 private:
  E* data_ = nullptr;
  std::int64_t size_ = 0;
};

template <class T>
std::int64_t padded(std::int64_t n) {
  return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

// Rows that are a multiple of 4 KiB apart would all fall on the same few lines of the first-level cache.
template <class T>
std::int64_t row_stride(std::int64_t n) {
  const std::int64_t stride = padded<T>(n);
  return stride * static_cast<std::int64_t>(sizeof(T)) % 4096 == 0 ? stride + kLanes<T> : stride;
}

// Parameters of one layer, with the moments that its update rule keeps.
template <class T>
struct Layer {
  LayerShape shape;
  std::int64_t stride;
  Buffer<T> W, b, slopes, gamma;
  Buffer<T> W1, b1, slopes1, gamma1;  // first moments (or velocities)
  Buffer<T> W2, b2, slopes2, gamma2;  // second moments
  Buffer<T> b_gradient, slopes_gradient, gamma_gradient;
  Buffer<T> signs;
  Buffer<T> mean, variance;                             // running, of pre-activations
  Buffer<T> batch_mean, batch_variance, batch_inverse;  // of the present batch
  Buffer<std::int64_t> time;  // how many updates each row of W has had
  Choice choice[2];
};

// Values between two layers, for the present batch: level 0 is the input, level l the output of layer l - 1.
template <class T>
struct Level {
  int n;
  std::int64_t stride;
  Buffer<T> h;  // activations, rows padded with zeros
  Buffer<T> z;  // pre-activations, kept for learned slopes
  Buffer<T> standard;  // standardised pre-activations, kept for batch normalisation
  Dropout<T> dropout;
  std::uint64_t key;           // of the stream that dropout draws from
  Buffer<std::uint8_t> kept;   // what dropout left, 1 or 0
  Buffer<T> before;            // h before dropout, kept for a penalty on it
  Buffer<T> d;  // derivatives, where they are not told by h
  Buffer<T> e;  // deltas
  bool is_dense;  // whether h is filled
  bool may_skip;  // whether the derivative is 0 wherever h is: then zeros need no delta either
  RowLists<T> rows;
  Buffer<const std::int32_t*> row_index;
  Buffer<const T*> row_value;
  Buffer<std::int32_t> row_count;
  Buffer<std::int32_t> index;
  Buffer<T> value;
  std::int64_t n_nonzero;
  ColumnLists<T> columns;
  std::int64_t n_transposed;  // forward pass whose non-zeros `columns` holds
  Buffer<std::int32_t> input, slot;
  Buffer<std::int64_t> stamp, start, next;
  Buffer<std::int64_t> single_start;  // column lists of a single row: 0, 1, 2, ... and
  Buffer<std::int32_t> single_row;    // 0, 0, 0, ...
  Buffer<std::int32_t> column_row;
  Buffer<T> column_value;
  Buffer<std::uint8_t> fired;
  std::int64_t rows_seen, nonzero_seen;
};

// What becomes of the sum over the batch for a row of W: plain SGD. Deltas carry the factor -learning_rate, so the sum is
// the step; it is summed up before it meets W, so that small terms are not rounded away one by one.
template <class T, bool decays>
struct PlainUpdate {
  T* W;
  std::int64_t stride;
  T decay;  // -learning_rate l2

  struct Row {
    T* w;
    T decay;
    HARDZERO_INLINE Block<T> get(std::int64_t, const Block<T>& old) const {
      return decays ? mul(broadcast(decay), old) : zero<T>();
    }
    HARDZERO_INLINE void put(std::int64_t c, const Block<T>& sum) const { store(w + c, add(load(w + c), sum)); }
  };
  HARDZERO_INLINE Row operator()(std::int64_t j) const { return {W + j * stride, decay}; }
};

// The same for rules that keep moments.
template <class T>
struct MomentUpdate {
  UpdateRule rule;
  T* W;
  T* W1;
  T* W2;
  std::int64_t stride;
  T rate, correction;  // Adam: bias corrections of this step

  struct Row {
    const MomentUpdate* all;
    std::int64_t at;
    HARDZERO_INLINE Block<T> get(std::int64_t, const Block<T>&) const { return zero<T>(); }
    HARDZERO_INLINE void put(std::int64_t c, const Block<T>& sum) const {
      alignas(64) T g[kLanes<T>];
      store(g, sum);
      all->update(kLanes<T>, g, static_cast<T>(all->rule.l2), all->W + at + c, all->W1 + at + c, all->W2 + at + c);
    }
  };
  HARDZERO_INLINE Row operator()(std::int64_t j) const { return {this, j * stride}; }

  HARDZERO_INLINE void update(int n, const T* g, T l2, T* w, T* m, T* v) const {
    const T mu = static_cast<T>(rule.momentum), lr = static_cast<T>(rule.learning_rate);
    if (rule.kind == kAdam) {
      const T beta1 = static_cast<T>(rule.beta1), beta2 = static_cast<T>(rule.beta2);
      const T epsilon = static_cast<T>(rule.epsilon);
      for (int i = 0; i < n; ++i) {
        const T gi = g[i] + l2 * w[i];
        m[i] = beta1 * m[i] + (1 - beta1) * gi;
        v[i] = beta2 * v[i] + (1 - beta2) * gi * gi;
        w[i] -= rate * m[i] / ((std::sqrt(v[i]) + epsilon) * correction);
      }
    } else {
      const bool nesterov = rule.kind == kNesterov;
      for (int i = 0; i < n; ++i) {
        const T gi = g[i] + l2 * w[i];
        m[i] = mu * m[i] + gi;
        w[i] -= lr * (nesterov ? gi + mu * m[i] : m[i]);
      }
    }
  }
};

// Adds up the squares of a gradient instead: squares[j] those of row j.
template <class T>
struct SquaresUpdate {
  double* squares;

  struct Row {
    double* squares;
    HARDZERO_INLINE Block<T> get(std::int64_t, const Block<T>&) const { return zero<T>(); }
    HARDZERO_INLINE void put(std::int64_t, const Block<T>& sum_of_row) const {
      alignas(64) T g[kLanes<T>];
      alignas(64) double s[kLanes<double>];
      store(g, sum_of_row);
      for (int i = 0; i < kLanes<double>; ++i) s[i] = static_cast<double>(g[i]) * g[i];
      for (int i = kLanes<double>; i < kLanes<T>; ++i)
        s[i - kLanes<double>] += static_cast<double>(g[i]) * g[i];
      *squares += sum(load(s));
    }
  };
  HARDZERO_INLINE Row operator()(std::int64_t j) const { return {squares + j}; }
};

// What k idle steps do to a weight and its velocity: (w, m) <- (a w + b m, c w + d m).
struct Idle {
  double a, b, c, d;
};
HARDZERO_INLINE Idle after(const Idle& second, const Idle& first) {
  return {second.a * first.a + second.b * first.c, second.a * first.b + second.b * first.d,
          second.c * first.a + second.d * first.c, second.c * first.b + second.d * first.d};
}

template <class T>
class Engine final : public hardzero::Network<T> {
 public:
  Engine(const LayerShape* shapes, int n) : n_layers_(n), layers_(new Layer<T>[n]), levels_(new Level<T>[n + 1]) {
    for (int l = 0; l < n; ++l) {
      Layer<T>& layer = layers_[l];
      layer.shape = shapes[l];
      layer.stride = row_stride<T>(shapes[l].n_units);
      layer.W.reserve(shapes[l].n_inputs * layer.stride);
      layer.b.reserve(layer.stride);
      if (shapes[l].has_signs) layer.signs.reserve(layer.stride);
      if (shapes[l].activation == kPrelu) layer.slopes.reserve(layer.stride), layer.slopes_gradient.reserve(layer.stride);
      layer.b_gradient.reserve(layer.stride);
      layer.choice[0] = layer.choice[1] = Choice{};
    }
    for (int l = 0; l <= n; ++l) {
      Level<T>& level = levels_[l];
      level.n = l == 0 ? shapes[0].n_inputs : shapes[l - 1].n_units;
      level.stride = l == 0 ? row_stride<T>(level.n) : layers_[l - 1].stride;
      level.may_skip = l == 0 || zero_means_idle(shapes[l - 1].activation);
      level.fired.reserve(level.n);
      level.rows_seen = level.nonzero_seen = 0;
      level.columns.n = 0;
      level.n_transposed = 0;
      level.dropout = make_dropout<T>(0);
      level.key = 0;
    }
  }
  ~Engine() override {
    delete[] layers_;
    delete[] levels_;
    delete[] scratch_;
  }

  T* array(int l, ArrayKind kind, int moment) override {
    Layer<T>& layer = layers_[l];
    switch (kind) {
      case kWeights: return (moment == 0 ? layer.W : moment == 1 ? layer.W1 : layer.W2).get();
      case kBiases: return (moment == 0 ? layer.b : moment == 1 ? layer.b1 : layer.b2).get();
      case kSlopes: return (moment == 0 ? layer.slopes : moment == 1 ? layer.slopes1 : layer.slopes2).get();
      case kGamma: return (moment == 0 ? layer.gamma : moment == 1 ? layer.gamma1 : layer.gamma2).get();
      case kSigns: return moment == 0 ? layer.signs.get() : nullptr;
      case kMean: return moment == 0 ? layer.mean.get() : nullptr;
      case kVariance: return moment == 0 ? layer.variance.get() : nullptr;
    }
    return nullptr;
  }
  std::int64_t stride(int l) override { return layers_[l].stride; }
  std::int64_t* n_steps() override { return &step_; }
  std::int64_t* times(int l) override { return layers_[l].time.get(); }

  void set_options(const StepOptions& options) override {
    options_ = options;
    for (int l = 0; l < n_layers_; ++l) levels_[l].dropout = make_dropout<T>(options.dropout[l]);
    options_.dropout = nullptr;  // it need not live on
    if (!options.batch_norm) return;
    for (int l = 0; l + 1 < n_layers_; ++l) {
      Layer<T>& layer = layers_[l];
      Buffer<T>* const buffers[] = {&layer.gamma,      &layer.gamma_gradient, &layer.mean,         &layer.variance,
                                    &layer.batch_mean, &layer.batch_variance, &layer.batch_inverse};
      for (Buffer<T>* buffer : buffers) buffer->reserve(layer.stride);
      no_biases_.reserve(layer.stride);
    }
    begin_batch_norm();
  }

  void set_keys(const std::uint64_t* keys) override {
    for (int l = 0; l < n_layers_; ++l) levels_[l].key = keys[l];
  }

  void set_rule(const UpdateRule& rule, double l1_activation) override {
    flush();
    rule_ = rule;
    l1_ = l1_activation;
    n_idle_ = 0;
    idle_.reserve(kIdleTable + 1);
    for (int l = 0; l < n_layers_; ++l) {
      Layer<T>& layer = layers_[l];
      if (rule.kind != kPlain) {
        layer.W1.reserve(layer.shape.n_inputs * layer.stride);
        layer.b1.reserve(layer.stride);
        layer.slopes1.reserve(layer.stride);
        layer.gamma1.reserve(layer.gamma.size());
      }
      if (rule.kind == kAdam) {
        layer.W2.reserve(layer.shape.n_inputs * layer.stride);
        layer.b2.reserve(layer.stride);
        layer.slopes2.reserve(layer.stride);
        layer.gamma2.reserve(layer.gamma.size());
      }
      if (is_lazy()) layer.time.reserve(layer.shape.n_inputs);
      for (std::int64_t j = 0; j < layer.time.size(); ++j) layer.time[j] = step_;
    }
  }

  void set_plan(int mode, bool skip_zeros, bool timed, int n_threads, const Costs& costs) override {
    mode_ = mode;
    timed_ = timed;
    skip_zeros_ = skip_zeros;
    n_threads_ = smaller(larger(n_threads, 1), kMostThreads);
    costs_ = costs;
    std::int64_t weights = 0;
    for (int l = 0; l < n_layers_; ++l) weights += layers_[l].W.size();
    in_memory_ = static_cast<double>(weights) * sizeof(T) > costs.cache_bytes;
  }

  void forget() override {
    flush();
    step_ = 0;
    for (int l = 0; l < n_layers_; ++l) {
      Layer<T>& layer = layers_[l];
      layer.W1.clear(), layer.b1.clear(), layer.slopes1.clear(), layer.gamma1.clear();
      layer.W2.clear(), layer.b2.clear(), layer.slopes2.clear(), layer.gamma2.clear();
      layer.time.clear();
    }
    if (options_.batch_norm) begin_batch_norm();
  }

  void forward(const Rows<T>& x, const std::int64_t* row, int n) override {
    flush();
    training_ = false;
    pass_forward(x, row, n);
  }

  void forward_batch(const Rows<T>& x, const std::int64_t* row, int n, const T* weight, const std::uint64_t* hash) override {
    training_ = true;
    hash_ = hash;
    share_.reserve(n);
    for (int b = 0; b < n; ++b) share_[b] = weight ? weight[b] : T(1) / static_cast<T>(n);
    pass_forward(x, row, n);
  }

  double softmax_deltas(const std::int64_t* label, const T* weight) override {
    Level<T>& top = levels_[n_layers_];
    double loss = 0;
    for (int b = 0; b < n_rows_; ++b) {
      const T* q = top.h.get() + b * top.stride;
      T* e = top.e.get() + b * top.stride;
      T most = q[0], total = 0;
      for (int c = 1; c < top.n; ++c) most = larger(most, q[c]);
      for (int c = 0; c < top.n; ++c) total += e[c] = std::exp(q[c] - most);
      const T share = weight ? weight[b] : T(1) / static_cast<T>(n_rows_);
      loss += static_cast<double>(share) * (std::log(static_cast<double>(total)) - (q[label[b]] - most));
      for (int c = 0; c < top.n; ++c) e[c] = share * (e[c] / total);
      e[label[b]] -= share;
      for (std::int64_t c = top.n; c < top.stride; ++c) e[c] = 0;
    }
    return loss;
  }

  void set_deltas(const T* delta, std::int64_t stride) override {
    Level<T>& top = levels_[n_layers_];
    for (int b = 0; b < n_rows_; ++b) {
      T* e = top.e.get() + b * top.stride;
      std::memcpy(e, delta + b * stride, sizeof(T) * static_cast<std::size_t>(top.n));
      for (std::int64_t c = top.n; c < top.stride; ++c) e[c] = 0;
    }
  }

  void backward_batch() override {
    ++step_;
    // Deltas are linear in the loss: scaled once at the top, they carry plain SGD's learning rate all the way down.
    scale_ = rule_.kind == kPlain && !clips() ? static_cast<T>(-rule_.learning_rate) : T(1);
    scale_rows(levels_[n_layers_], scale_);
    finish_deltas(n_layers_);
    if (clips()) clip();
    for (int l = n_layers_ - 1; l >= 0; --l) {
      const bool hands_down = l > 0 && !clips();
      backward_layer(l, hands_down);
      update_vectors(layers_[l], levels_[l + 1]);
      if (hands_down) finish_deltas(l);
    }
    if (options_.batch_norm) run_means();
    if (options_.l1_weights > 0 || options_.max_norm < HUGE_VAL) constrain_weights();
  }

  const T* outputs() override { return levels_[n_layers_].h.get(); }
  std::int64_t outputs_stride() override { return levels_[n_layers_].stride; }

  void flush() override {
    if (!is_lazy()) return;
    for (int l = 0; l < n_layers_; ++l) catch_up(l, nullptr, layers_[l].shape.n_inputs);
  }

  Choice choice(int l, bool backward) override { return layers_[l].choice[backward]; }

  void statistics(int l, std::int64_t* n_rows, std::int64_t* n_nonzero, std::uint8_t* fired) override {
    Level<T>& level = levels_[l + 1];
    *n_rows = level.rows_seen;
    *n_nonzero = level.nonzero_seen;
    std::memcpy(fired, level.fired.get(), static_cast<std::size_t>(level.n));
    level.rows_seen = level.nonzero_seen = 0;
    level.fired.clear();
  }

 private:
  static constexpr int kIdleTable = 1024;
  static constexpr int kGradientRows = 128;  // rows of a gradient that the dense backward pass forms at a time

  // Memory of one thread.
  struct Scratch {
    Buffer<T> packed, gradient, waiting;
    Buffer<std::int64_t> cut;
    Buffer<std::uint32_t> quad, word;
  };

  bool is_lazy() const { return rule_.kind != kAdam && (rule_.kind != kPlain || rule_.l2 != 0); }

  bool clips() const { return options_.clip_norm < HUGE_VAL; }

  // Calls task(chunk, thread) for every chunk, on the pool if there is more than one thread.
  template <class Task>
  void parallel(int n_chunks, const Task& task) {
    run_chunks(n_threads_, n_chunks,
               [](void* context, int chunk, int thread) { (*static_cast<const Task*>(context))(chunk, thread); },
               const_cast<Task*>(&task));
  }
  int chunks_of(std::int64_t n, std::int64_t least) const {
    if (n_threads_ == 1) return 1;
    return static_cast<int>(larger<std::int64_t>(1, smaller<std::int64_t>(n / least, n_threads_ * 4)));
  }

  // ---------------------------------------------------------------- forward

  void pass_forward(const Rows<T>& x, const std::int64_t* row, int n) {
    reserve(n);
    if (n != n_rows_) {
      n_rows_ = n;
      find_size();
    }
    ++batch_;
    read_input(x, row);
    for (int l = 0; l < n_layers_; ++l) forward_layer(l);
  }

  void reserve(int n) {
    for (int l = 0; l <= n_layers_; ++l) {
      Level<T>& level = levels_[l];
      level.row_index.reserve(n), level.row_value.reserve(n), level.row_count.reserve(n);
      level.rows = {level.row_index.get(), level.row_value.get(), level.row_count.get()};
      if (l > 0) {
        level.h.reserve(n * level.stride);
        if (training_) level.e.reserve(n * level.stride);
        const int code = layers_[l - 1].shape.activation;
        if (training_ && !derivative_is_activity(code) && code != kIdentity) level.d.reserve(n * level.stride);
        if (training_ && code == kPrelu) level.z.reserve(n * level.stride);
      }
      if (training_ && l < n_layers_) {
        level.input.reserve(level.n), level.slot.reserve(level.n), level.next.reserve(level.n);
        level.stamp.reserve(level.n), level.start.reserve(level.n + 1);
      }
    }
    if (n_scratch_ < n_threads_) {
      delete[] scratch_;
      scratch_ = nullptr;
      n_scratch_ = 0;
      scratch_ = new Scratch[n_threads_];
      n_scratch_ = n_threads_;
    }
    for (int t = 0; t < n_threads_; ++t) {
      Scratch& scratch = scratch_[t];
      scratch.packed.reserve(kDeep * wide(1) * kLanes<T>);
      if (training_) scratch.waiting.reserve(kMeet * kReach<T>);
    }
    for (int l = 0; l < n_layers_; ++l)
      if (drops(levels_[l])) reserve_dropout(levels_[l], l > 0 ? n : 0);
  }

  void reserve_dropout(Level<T>& level, std::int64_t n_kept) {
    const std::int64_t n_quads = padded_quads(level.n);
    if (in_order_.size() < n_quads) {
      in_order_.reserve(n_quads);
      for (std::int64_t q = 0; q < in_order_.size(); ++q) in_order_[q] = static_cast<std::uint32_t>(q);
    }
    for (int t = 0; t < n_threads_; ++t) scratch_[t].quad.reserve(n_quads), scratch_[t].word.reserve(4 * n_quads);
    level.kept.reserve(n_kept * level.stride);
    if (l1_ != 0) level.before.reserve(n_kept * level.stride);
  }
  static std::int64_t padded_quads(std::int64_t n) { return ((n + 3) / 4 + kCounters - 1) / kCounters * kCounters; }

  void read_input(const Rows<T>& x, const std::int64_t* row) {
    Level<T>& in = levels_[0];
    in.n_nonzero = 0;
    in.is_dense = x.indptr == nullptr;
    if (in.is_dense) {
      in.h.reserve(n_rows_ * in.stride);
      for (int b = 0; b < n_rows_; ++b) {
        T* to = in.h.get() + b * in.stride;
        std::memcpy(to, x.dense + (row ? row[b] : b) * x.stride, sizeof(T) * static_cast<std::size_t>(in.n));
        for (std::int64_t c = in.n; c < in.stride; ++c) to[c] = 0;
      }
      if (drops(in)) for_rows([&](int b, int thread) { drop_row(in, b, scratch_[thread]); });
      list_nonzeros(in);
    } else if (drops(in)) {
      list_survivors(in, x, row);
    } else {
      for (int b = 0; b < n_rows_; ++b) {
        const std::int64_t i = row ? row[b] : b, from = x.indptr[i];
        in.rows.index[b] = x.indices + from;
        in.rows.value[b] = x.data + from;
        in.rows.count[b] = static_cast<std::int32_t>(x.indptr[i + 1] - from);
        in.n_nonzero += in.rows.count[b];
      }
    }
    note_activity(in);
  }

  bool drops(const Level<T>& level) const { return training_ && level.dropout.below > 0; }

  // Calls task(row, thread) for every row of the batch.
  template <class Task>
  void for_rows(const Task& task) {
    const int n_chunks = n_rows_ >= 64 ? chunks_of(n_rows_, 16) : 1;
    parallel(n_chunks, [&](int chunk, int thread) {
      const int last = static_cast<int>(static_cast<std::int64_t>(n_rows_) * (chunk + 1) / n_chunks);
      for (int b = static_cast<int>(static_cast<std::int64_t>(n_rows_) * chunk / n_chunks); b < last; ++b) task(b, thread);
    });
  }

  // Drops from row b of h.
  void drop_row(Level<T>& level, int b, Scratch& scratch) {
    const Dropout<T> dropout = level.dropout;
    draw_words(level.key, hash_[b], in_order_.get(), (level.n + 3) / 4, scratch.word.get());
    const std::uint32_t* word = scratch.word.get();
    T* h = level.h.get() + b * level.stride;
    if (l1_ != 0 && level.before.size())
      std::memcpy(level.before.get() + b * level.stride, h, sizeof(T) * static_cast<std::size_t>(level.n));
    if (level.kept.size()) {
      std::uint8_t* kept = level.kept.get() + b * level.stride;
#pragma GCC ivdep
      for (int c = 0; c < level.n; ++c) kept[c] = dropout.keeps(word[c]);
    }
#pragma GCC ivdep
    for (int c = 0; c < level.n; ++c) h[c] = dropout.keeps(word[c]) ? h[c] * dropout.scale : T(0);
  }

  // Lists what dropout leaves of CSR rows; numbers are drawn only for their entries.
  void list_survivors(Level<T>& in, const Rows<T>& x, const std::int64_t* row) {
    std::int64_t n_entries = 0, at = 0;
    for (int b = 0; b < n_rows_; ++b) n_entries += x.indptr[row[b] + 1] - x.indptr[row[b]];
    in.index.reserve(n_entries + 1);
    in.value.reserve(n_entries + 1);
    std::uint32_t* quad = scratch_[0].quad.get();
    std::uint32_t* word = scratch_[0].word.get();
    for (int b = 0; b < n_rows_; ++b) {
      const std::int64_t from = x.indptr[row[b]], to = x.indptr[row[b] + 1];
      std::int64_t n_quads = 0;
      for (std::int64_t k = from; k < to; ++k) {
        const std::uint32_t q = static_cast<std::uint32_t>(x.indices[k]) / 4;
        if (n_quads == 0 || quad[n_quads - 1] != q) quad[n_quads++] = q;
      }
      draw_words(in.key, hash_[b], quad, n_quads, word);
      std::int32_t* index = in.index.get() + at;
      T* value = in.value.get() + at;
      std::int32_t count = 0;
      for (std::int64_t k = from, q = 0; k < to; ++k) {
        const std::int32_t j = x.indices[k];
        q += quad[q] != static_cast<std::uint32_t>(j) / 4;
        index[count] = j;
        value[count] = x.data[k] * in.dropout.scale;
        count += in.dropout.keeps(word[4 * q + (j & 3)]);
      }
      in.rows.index[b] = index;
      in.rows.value[b] = value;
      in.rows.count[b] = count;
      in.n_nonzero += count;
      at += count;
    }
  }

  // Lists the non-zeros of h.
  void list_nonzeros(Level<T>& level) {
    const std::int64_t room = level.n + kLanes<T>;
    level.index.reserve(n_rows_ * room);
    level.value.reserve(n_rows_ * room);
    for (int b = 0; b < n_rows_; ++b) list_row(level, b, room);
    level.n_nonzero = 0;
    for (int b = 0; b < n_rows_; ++b) level.n_nonzero += level.rows.count[b];
  }

  void list_row(Level<T>& level, int b, std::int64_t room) {
    const T* h = level.h.get() + b * level.stride;
    std::int32_t* index = level.index.get() + b * room;
    T* value = level.value.get() + b * room;
    if (skip_zeros_ && level.may_skip) {
      level.rows.count[b] = compress(h, level.n, index, value);
    } else if (skip_zeros_ && drops(level)) {  // here a zero may have a delta, but not if it was dropped
      const std::uint8_t* kept = level.kept.get() + b * level.stride;
      std::int32_t count = 0;
      for (int j = 0; j < level.n; ++j) index[count] = j, value[count] = h[j], count += kept[j];
      level.rows.count[b] = count;
    } else {
      for (int j = 0; j < level.n; ++j) index[j] = j, value[j] = h[j];
      level.rows.count[b] = level.n;
    }
    level.rows.index[b] = index;
    level.rows.value[b] = value;
  }

  // While training: finds the active inputs, and counts for the statistics.
  void note_activity(Level<T>& level) {
    if (!training_) return;
    level.columns = {0, level.input.get(), level.slot.get(), level.stamp.get(), level.start.get(), level.next.get(),
                     nullptr, nullptr};
    if (n_rows_ == 1) {  // the list of a single row needs no turning round
      level.columns.n = level.rows.count[0];
      level.columns.input = const_cast<std::int32_t*>(level.rows.index[0]);
      for (int k = 0; k < level.columns.n; ++k) level.stamp[level.columns.input[k]] = batch_;
    } else if (level.is_dense && skip_zeros_ && level.may_skip) {
      counts_.reserve(level.n);
      find_active_inputs(level.h.get(), level.stride, n_rows_, level.n, batch_, counts_.get(), level.columns);
    } else {
      find_active_inputs(level.rows, n_rows_, batch_, level.columns);
    }
    level.rows_seen += n_rows_;
    if (drops(level)) return;  // they were counted before
    if (skip_zeros_ && level.may_skip) {
      level.nonzero_seen += level.n_nonzero;
      for (int s = 0; s < level.columns.n; ++s) level.fired[level.columns.input[s]] = 1;
    } else if (level.is_dense) {
      count_zeros(level);
    }
  }

  void count_zeros(Level<T>& level) {
    std::uint8_t* fired = level.fired.get();
    for (int b = 0; b < n_rows_; ++b) {
      const T* h = level.h.get() + b * level.stride;
      std::int32_t count = 0;
#pragma GCC ivdep
      for (int c = 0; c < level.n; ++c) {
        count += h[c] != 0;
        fired[c] |= h[c] != 0;
      }
      level.nonzero_seen += count;
    }
  }

  void forward_layer(int l) {
    Layer<T>& layer = layers_[l];
    Level<T>& in = levels_[l];
    Level<T>& out = levels_[l + 1];
    const int kernel = choose(l, false);
    const double begin = timed_ ? clock_ns() : 0;
    if (training_ && is_lazy()) catch_up(l, in.columns.input, in.columns.n);
    const int n_blocks = static_cast<int>(layer.stride / kLanes<T>);
    const int n_chunks = chunks_of(n_blocks, 8);
    const bool normalises = options_.batch_norm && l + 1 < n_layers_;
    const T* bias = normalises ? no_biases_.get() : layer.b.get();
    if (normalises && training_) out.standard.reserve(n_rows_ * out.stride);
    if (kernel == kDense) {
      fill_dense(in);
      parallel(n_chunks, [&](int chunk, int thread) {
        const int first = n_blocks * chunk / n_chunks, last = n_blocks * (chunk + 1) / n_chunks;
        for (int b = 0; b < n_rows_; ++b)
          for (std::int64_t c = first * kLanes<T>; c < last * kLanes<T>; c += kLanes<T>)
            store(out.h.get() + b * out.stride + c, add(load(bias + c), zero<T>()));
        accumulate_product<false, T>(in.h.get(), in.stride, 1, layer.W.get(), layer.stride, out.h.get(), out.stride, n_rows_,
                              in.n, first, last, scratch_[thread].packed.get());
        if (normalises) normalise_columns(layer, out, first * kLanes<T>, last * kLanes<T>);
      });
    } else {
      const int panel = n_rows_ == 1 ? in.n : panel_size(in.n_nonzero, n_rows_, in.n);
      const int n_panels = (in.n + panel - 1) / panel;
      cut_.reserve(static_cast<std::int64_t>(n_rows_) * (n_panels + 1));
      cut_panels(in.rows, n_rows_, panel, n_panels, cut_.get());
      parallel(n_chunks, [&](int chunk, int) {
        const int first = n_blocks * chunk / n_chunks, last = n_blocks * (chunk + 1) / n_chunks;
        forward_sparse<T>(layer.W.get(), layer.stride, bias, in.rows, n_rows_, cut_.get(), n_panels, out.h.get(), out.stride,
                          first, last);
        if (normalises) normalise_columns(layer, out, first * kLanes<T>, last * kLanes<T>);
      });
    }
    if (timed_) layer.choice[0].measured_ns = clock_ns() - begin;
    out.is_dense = true;
    const bool hidden = l + 1 < n_layers_;
    const std::int64_t room = out.n + kLanes<T>;
    if (hidden) {
      out.index.reserve(n_rows_ * room);
      out.value.reserve(n_rows_ * room);
    }
    const bool drops_next = hidden && drops(out);
    for_rows([&](int b, int) {
      activate_row(layer, out, b);
      if (hidden && !drops_next) list_row(out, b, room);
    });
    if (!hidden) return;
    if (drops_next) {
      count_zeros(out);
      for_rows([&](int b, int thread) {
        drop_row(out, b, scratch_[thread]);
        list_row(out, b, room);
      });
    }
    out.n_nonzero = 0;
    for (int b = 0; b < n_rows_; ++b) out.n_nonzero += out.rows.count[b];
    note_activity(out);
  }

  // Makes pre-activations of the products x W in the columns [from, to).
  void normalise_columns(Layer<T>& layer, Level<T>& out, std::int64_t from, std::int64_t to) {
    if (training_) {
      normalise<T>(out.h.get(), out.standard.get(), out.stride, n_rows_, share_.get(), layer.gamma.get(), layer.b.get(),
                   options_.batch_norm_epsilon,
                   {layer.batch_mean.get(), layer.batch_variance.get(), layer.batch_inverse.get()}, from, to);
      return;
    }
    for (std::int64_t c = from; c < to; ++c)
      layer.batch_inverse[c] =
          layer.gamma[c] / static_cast<T>(std::sqrt(layer.variance[c] + options_.batch_norm_epsilon));
    for (int b = 0; b < n_rows_; ++b) {
      T* h = out.h.get() + b * out.stride;
      for (std::int64_t c = from; c < to; ++c) h[c] = (h[c] - layer.mean[c]) * layer.batch_inverse[c] + layer.b[c];
    }
  }

  void activate_row(Layer<T>& layer, Level<T>& out, int b) {
    T* h = out.h.get() + b * out.stride;
    const int code = layer.shape.activation;
    if (code != kIdentity) {
      if (out.z.size() && training_) std::memcpy(out.z.get() + b * out.stride, h, sizeof(T) * out.n);
      T* d = training_ && out.d.size() ? out.d.get() + b * out.stride : nullptr;
      activate<T>(code, static_cast<T>(layer.shape.parameter), layer.slopes.get(), out.n, h, d);
    }
    if (layer.shape.has_signs)
      for (int c = 0; c < out.n; ++c) h[c] *= layer.signs[c];
    for (std::int64_t c = out.n; c < out.stride; ++c) h[c] = 0;  // f(0) need not be 0
  }

  // Fills h from the lists (for CSR input that is dense enough to be worth it).
  void fill_dense(Level<T>& level) {
    if (level.is_dense) return;
    level.h.reserve(n_rows_ * level.stride);
    std::memset(level.h.get(), 0, sizeof(T) * static_cast<std::size_t>(n_rows_ * level.stride));
    for (int b = 0; b < n_rows_; ++b)
      for (int k = 0; k < level.rows.count[b]; ++k)
        level.h[b * level.stride + level.rows.index[b][k]] = level.rows.value[b][k];
    level.is_dense = true;
  }

  // --------------------------------------------------------------- backward

  // Makes the deltas of a layer's inputs, if it `hands_down`, and updates its weights, or measures their gradient.
  void backward_layer(int l, bool hands_down) {
    Layer<T>& layer = layers_[l];
    Level<T>& in = levels_[l];
    Level<T>& out = levels_[l + 1];
    const int kernel = choose(l, true, hands_down);
    const double begin = timed_ ? clock_ns() : 0;
    T* g = hands_down ? in.e.get() : nullptr;
    if (g) std::memset(g, 0, sizeof(T) * static_cast<std::size_t>(n_rows_ * in.stride));
    prepare_moments(layer);
    if (kernel == kDense) {
      fill_dense(in);
      if (!is_direct())
        for (int t = 0; t < n_threads_; ++t) scratch_[t].gradient.reserve((kGradientRows + 1) * smaller<std::int64_t>(kReach<T>, layer.stride));
      const int n_chunks = n_threads_ == 1 ? (in.n + kGradientRows - 1) / kGradientRows
                                           : larger(chunks_of(in.n, 16), (in.n + kGradientRows - 1) / kGradientRows);
      parallel(n_chunks, [&](int chunk, int thread) {
        backward_dense(layer, in, out, g, static_cast<int>(static_cast<std::int64_t>(in.n) * chunk / n_chunks),
                       static_cast<int>(static_cast<std::int64_t>(in.n) * (chunk + 1) / n_chunks), scratch_[thread]);
      });
    } else {
      list_columns(in);
      const int n_chunks = chunks_of(in.columns.n, 16);
      parallel(n_chunks, [&](int chunk, int thread) {
        backward_listed(layer, in, out, g, static_cast<int>(static_cast<std::int64_t>(in.columns.n) * chunk / n_chunks),
                        static_cast<int>(static_cast<std::int64_t>(in.columns.n) * (chunk + 1) / n_chunks),
                        scratch_[thread]);
      });
      if (rule_.kind == kAdam && !measures_) update_idle_rows(layer, in);
    }
    if (timed_) layer.choice[1].measured_ns = clock_ns() - begin;
    if (is_lazy() && !measures_)
      for (int s = 0; s < in.columns.n; ++s) layer.time[in.columns.input[s]] = step_;
  }

  // Makes all deltas and scales them, and the gradients of vectors, such that the whole gradient is at most clip_norm long.
  void clip() {
    double squares = 0;
    measures_ = true;
    for (int l = n_layers_ - 1; l >= 0; --l) {
      Layer<T>& layer = layers_[l];
      Level<T>& in = levels_[l];
      squares_.reserve(in.n);
      squares_.clear();
      backward_layer(l, l > 0);
      for (int j = 0; j < in.n; ++j) squares += squares_[j];
      if (l > 0) finish_deltas(l);
      sum_biases(layer, levels_[l + 1]);
      for (int c = 0; c < layer.shape.n_units; ++c) {
        if (options_.fit_biases) squares += square(layer.b_gradient[c]);
        if (layer.shape.activation == kPrelu) squares += square(layer.slopes_gradient[c]);
        if (layer.gamma.size()) squares += square(layer.gamma_gradient[c]);
      }
    }
    measures_ = false;
    const double norm = std::sqrt(squares), factor = norm > options_.clip_norm ? options_.clip_norm / norm : 1.0;
    scale_ = static_cast<T>(rule_.kind == kPlain ? -rule_.learning_rate * factor : factor);
    for (int l = 0; l < n_layers_; ++l) {
      scale_rows(levels_[l + 1], scale_);
      Buffer<T>* const gradients[] = {&layers_[l].b_gradient, &layers_[l].slopes_gradient, &layers_[l].gamma_gradient};
      for (Buffer<T>* g : gradients)
        for (std::int64_t c = 0; c < g->size(); ++c) (*g)[c] *= scale_;
    }
  }
  static double square(T x) { return static_cast<double>(x) * x; }

  void scale_rows(Level<T>& level, T factor) {
    for (std::int64_t i = 0; i < n_rows_ * level.stride; ++i) level.e[i] *= factor;
  }

  void list_columns(Level<T>& in) {
    if (n_rows_ == 1) {
      if (in.single_start.size() == 0) {
        in.single_start.reserve(in.n + 1);
        in.single_row.reserve(in.n);
        for (int k = 0; k <= in.n; ++k) in.single_start[k] = k;
      }
      in.columns.start = in.single_start.get();
      in.columns.row = in.single_row.get();
      in.columns.value = const_cast<T*>(in.rows.value[0]);
      return;
    }
    if (in.n_transposed == batch_) return;
    in.n_transposed = batch_;
    in.column_row.reserve(in.n_nonzero);
    in.column_value.reserve(in.n_nonzero);
    in.columns.row = in.column_row.get();
    in.columns.value = in.column_value.get();
    transpose(in.rows, n_rows_, in.columns);
  }

  void prepare_moments(Layer<T>& layer) {
    moments_.rule = rule_;
    moments_.W = layer.W.get(), moments_.W1 = layer.W1.get(), moments_.W2 = layer.W2.get();
    moments_.stride = layer.stride;
    if (rule_.kind == kAdam) {
      const double t = static_cast<double>(step_);
      moments_.rate = static_cast<T>(rule_.learning_rate / (1 - std::pow(rule_.beta1, t)));
      moments_.correction = static_cast<T>(1 / std::sqrt(1 - std::pow(rule_.beta2, t)));
    }
  }

  void backward_listed(Layer<T>& layer, Level<T>& in, Level<T>& out, T* g, int first, int last, Scratch& scratch) {
    const auto run = [&](const auto& update) {
      const T* W = layer.W.get();
      if (g) {
        backward_sparse<true, T>(W, layer.stride, out.e.get(), out.stride, in.columns, n_rows_, g, in.stride, first, last,
                                 scratch.waiting.get(), update);
      } else if (in.n_nonzero > static_cast<std::int64_t>(kVisit) * in.columns.n) {
        scratch.cut.reserve(kTogether * (n_rows_ / kPanelRows + 3));
        update_listed<T>(W, layer.stride, out.e.get(), out.stride, in.columns, n_rows_, first, last, scratch.waiting.get(),
                         scratch.cut.get(), update);
      } else {
        backward_sparse<false, T>(W, layer.stride, out.e.get(), out.stride, in.columns, n_rows_, g, in.stride, first, last,
                                  scratch.waiting.get(), update);
      }
    };
    if (measures_) {
      run(SquaresUpdate<T>{squares_.get()});
    } else if (rule_.kind != kPlain) {
      run(moments_);
    } else if (rule_.l2 != 0) {
      run(plain_update<true>(layer));
    } else {
      run(plain_update<false>(layer));
    }
  }

  template <bool decays>
  PlainUpdate<T, decays> plain_update(Layer<T>& layer) const {
    return {layer.W.get(), layer.stride, static_cast<T>(-rule_.learning_rate * rule_.l2)};
  }

  // Rows [first, last) of W, in stretches of columns that stay in the second-level cache between deltas and update.
  void backward_dense(Layer<T>& layer, Level<T>& in, Level<T>& out, T* g, int first, int last, Scratch& scratch) {
    for (std::int64_t from = 0; from < layer.stride; from += kReach<T>) {
      const std::int64_t to = smaller(from + kReach<T>, layer.stride);
      if (g)
        deltas_dense<T>(layer.W.get() + from, layer.stride, out.e.get() + from, out.stride, to - from, g, in.stride, n_rows_,
                        first, last);
      if (is_direct()) {
        add_products<true>(in, out, layer.W.get() + first * layer.stride + from, layer.stride, first, last, from, to,
                           scratch);
      } else if (measures_) {
        update_dense(SquaresUpdate<T>{squares_.get()}, layer, in, out, first, last, from, to, scratch);
      } else if (rule_.kind != kPlain) {
        update_dense(moments_, layer, in, out, first, last, from, to, scratch);
      } else if (rule_.l2 != 0) {
        update_dense(plain_update<true>(layer), layer, in, out, first, last, from, to, scratch);
      } else {
        update_dense(plain_update<false>(layer), layer, in, out, first, last, from, to, scratch);
      }
    }
  }

  // sums[j - first, c - from] += sum_b h[b, j] e[b, c].
  template <bool adds_last>
  void add_products(Level<T>& in, Level<T>& out, T* sums, std::int64_t sums_stride, int first, int last,
                    std::int64_t from, std::int64_t to, Scratch& scratch) {
    accumulate_product<adds_last, T>(in.h.get() + first, 1, in.stride, out.e.get() + from, out.stride, sums, sums_stride,
                                     last - first, n_rows_, 0, static_cast<int>((to - from) / kLanes<T>),
                                     scratch.packed.get());
  }

  template <class Update>
  void update_dense(const Update& update, Layer<T>& layer, Level<T>& in, Level<T>& out, int first, int last,
                    std::int64_t from, std::int64_t to, Scratch& scratch) {
    T* sums = scratch.gradient.get();
    const std::int64_t width = to - from;
    for (int j = first; j < last; ++j)
      for (std::int64_t c = from; c < to; c += kLanes<T>)
        store(sums + (j - first) * width + c - from, update(j).get(c, load(layer.W.get() + j * layer.stride + c)));
    add_products<false>(in, out, sums, width, first, last, from, to, scratch);
    for (int j = first; j < last; ++j) {
      if (is_lazy() && in.columns.stamp[j] != batch_) continue;  // an idle row waits, as in the sparse kernel
      for (std::int64_t c = from; c < to; c += kLanes<T>) update(j).put(c, load(sums + (j - first) * width + c - from));
    }
  }

  // Whether the dense kernel can add the step to W as it is made.
  bool is_direct() const { return rule_.kind == kPlain && rule_.l2 == 0 && n_rows_ <= kDeep && !measures_; }

  // Adam moves rows without a gradient too.
  void update_idle_rows(Layer<T>& layer, Level<T>& in) {
    const int n_chunks = chunks_of(in.n, 16);
    parallel(n_chunks, [&](int chunk, int) {
      const int last = static_cast<int>(static_cast<std::int64_t>(in.n) * (chunk + 1) / n_chunks);
      for (int j = static_cast<int>(static_cast<std::int64_t>(in.n) * chunk / n_chunks); j < last; ++j)
        if (in.columns.stamp[j] != batch_)
          for (std::int64_t c = 0; c < layer.stride; c += kLanes<T>) moments_(j).put(c, zero<T>());
    });
  }

  // Biases, learned slopes and scales.
  void update_vectors(Layer<T>& layer, Level<T>& out) {
    const int n = static_cast<int>(layer.stride);
    if (options_.fit_biases) {
      if (!clips()) sum_biases(layer, out);
      update_vector(layer.b, layer.b1, layer.b2, layer.b_gradient.get(), n);
    }
    if (layer.shape.activation == kPrelu)
      update_vector(layer.slopes, layer.slopes1, layer.slopes2, layer.slopes_gradient.get(), n);
    if (layer.gamma.size()) update_vector(layer.gamma, layer.gamma1, layer.gamma2, layer.gamma_gradient.get(), n);
  }

  void sum_biases(Layer<T>& layer, Level<T>& out) {
    if (layer.gamma.size()) return;  // the sums were needed before
    T* g = layer.b_gradient.get();
    std::memset(g, 0, sizeof(T) * static_cast<std::size_t>(out.stride));
    for (int b = 0; b < n_rows_; ++b)
      for (std::int64_t c = 0; c < out.stride; c += kLanes<T>)
        store(g + c, add(load(g + c), load(out.e.get() + b * out.stride + c)));
  }

  void update_vector(Buffer<T>& w, Buffer<T>& m, Buffer<T>& v, const T* g, int n) {
    if (rule_.kind == kPlain) {
      for (int i = 0; i < n; ++i) w[i] += g[i];
    } else {
      moments_.update(n, g, T(0), w.get(), m.get(), v.get());
    }
  }

  // Running means of what batch normalisation saw.
  void run_means() {
    T total = 0;
    for (int b = 0; b < n_rows_; ++b) total += share_[b];
    if (total == 0) return;
    const T share = static_cast<T>(options_.batch_norm_momentum);
    for (int l = 0; l + 1 < n_layers_; ++l) {
      Layer<T>& layer = layers_[l];
      for (int c = 0; c < layer.shape.n_units; ++c) {
        layer.mean[c] = (1 - share) * layer.mean[c] + share * layer.batch_mean[c];
        layer.variance[c] = (1 - share) * layer.variance[c] + share * layer.batch_variance[c];
      }
    }
  }

  void begin_batch_norm() {
    for (int l = 0; l + 1 < n_layers_; ++l) {
      layers_[l].mean.clear();
      for (int c = 0; c < layers_[l].shape.n_units; ++c) layers_[l].gamma[c] = layers_[l].variance[c] = 1;
    }
  }

  void constrain_weights() {
    flush();
    const T threshold = static_cast<T>(rule_.learning_rate * options_.l1_weights);
    for (int l = 0; l < n_layers_; ++l) {
      Layer<T>& layer = layers_[l];
      const double bound = l + 1 < n_layers_ ? options_.max_norm : HUGE_VAL;
      const int n_blocks = static_cast<int>(layer.stride / kLanes<T>), n_chunks = chunks_of(n_blocks, 8);
      parallel(n_chunks, [&](int chunk, int) {
        constrain<T>(layer.W.get(), layer.stride, layer.shape.n_inputs, threshold, bound,
                     n_blocks * chunk / n_chunks * kLanes<T>, n_blocks * (chunk + 1) / n_chunks * kLanes<T>);
      });
    }
  }

  // Turns the derivatives with respect to a level's outputs into those with respect to its pre-activations, and adds the
  // penalty on hidden activations: d/dz = f'(z) (s d/dh + l1 share sign(f(z))) with s the unit's fixed sign. What was
  // dropped has no derivative, but pays the penalty all the same.
  void finish_deltas(int l) {
    Level<T>& level = levels_[l];
    Layer<T>& layer = layers_[l - 1];
    const bool hidden = l < n_layers_;
    const int code = layer.shape.activation;
    const T* signs = layer.signs.get();
    const bool learns_slopes = code == kPrelu, dropped = hidden && drops(level);
    T* slopes_gradient = layer.slopes_gradient.get();
    if (learns_slopes) std::memset(slopes_gradient, 0, sizeof(T) * static_cast<std::size_t>(level.stride));
    for (int b = 0; b < n_rows_; ++b) {
      T* e = level.e.get() + b * level.stride;
      const T* h = (dropped && l1_ != 0 ? level.before : level.h).get() + b * level.stride;
      const T penalty = hidden ? static_cast<T>(l1_) * share_[b] * scale_ : T(0);
      if (dropped) {
        const std::uint8_t* kept = level.kept.get() + b * level.stride;
        const T scale = level.dropout.scale;
#pragma GCC ivdep
        for (int c = 0; c < level.n; ++c) e[c] = kept[c] ? e[c] * scale : T(0);
      }
      if (signs)
        for (int c = 0; c < level.n; ++c) e[c] *= signs[c];
      if (derivative_is_activity(code)) {
        for (int c = 0; c < level.n; ++c) e[c] = h[c] != 0 ? e[c] + penalty : T(0);
        continue;
      }
      if (penalty != 0)
        for (int c = 0; c < level.n; ++c) {
          const T f = signs ? signs[c] * h[c] : h[c];
          e[c] += f > 0 ? penalty : f < 0 ? -penalty : T(0);
        }
      if (learns_slopes) {
        const T* z = level.z.get() + b * level.stride;
        for (int c = 0; c < level.n; ++c) slopes_gradient[c] += z[c] < 0 ? e[c] * z[c] : T(0);
      }
      if (code != kIdentity) {
        const T* d = level.d.get() + b * level.stride;
        for (int c = 0; c < level.n; ++c) e[c] *= d[c];
      }
    }
    if (hidden && options_.batch_norm) {
      const int n_blocks = static_cast<int>(layer.stride / kLanes<T>), n_chunks = chunks_of(n_blocks, 8);
      parallel(n_chunks, [&](int chunk, int) {
        normalise_back<T>(level.e.get(), level.standard.get(), level.stride, n_rows_, share_.get(), layer.gamma.get(),
                          layer.batch_inverse.get(), layer.b_gradient.get(), layer.gamma_gradient.get(),
                          n_blocks * chunk / n_chunks * kLanes<T>, n_blocks * (chunk + 1) / n_chunks * kLanes<T>);
      });
    }
  }

  // ------------------------------------------------------------------- plan

  int choose(int l, bool backward, bool hands_down = false) {
    const Level<T>& in = levels_[l];
    const double rows = n_rows_, inputs = in.n, units = static_cast<double>(layers_[l].stride);
    const double nonzero = static_cast<double>(in.n_nonzero);
    const double active = training_ ? in.columns.n : smaller(nonzero, inputs);
    const PassCosts& costs = backward ? costs_.backward : costs_.forward;
    const double weight = in_memory_ ? costs.weight_memory : costs.weight_cached;
    const double products = hands_down ? 2 : 1;  // a first layer has no deltas to hand down
    const double tenth = at_size(costs.sparse_tenth), half = at_size(costs.sparse_half);
    const double density = larger(nonzero, 1.0) / (rows * inputs);
    const double thickness = larger(0.0, smaller(1.0, std::log(density / 0.1) * 0.62133493455961186));
    const double product = tenth + thickness * (half - tenth);
    const double sparse = nonzero * (units * products * product + costs_.per_nonzero) + active * units * weight;
    const double dense = rows * inputs * units * products * at_size(costs.dense) + inputs * units * weight;
    const int kernel = mode_ != kAuto ? mode_ : dense < sparse ? kDense : kSparse;
    layers_[l].choice[backward] = {kernel,  n_rows_, in.n_nonzero, static_cast<int>(active), sparse, dense, 0};
    return kernel;
  }

  // Interpolates a cost between the batch sizes for which it is known.
  double at_size(const double* cost) const { return cost[size_ - 1] + share_of_size_ * (cost[size_] - cost[size_ - 1]); }

  void find_size() {
    size_ = 1;
    while (size_ < kNumSizes - 1 && n_rows_ > kBatchSizes[size_]) ++size_;
    const double lo = kBatchSizes[size_ - 1], hi = kBatchSizes[size_];
    share_of_size_ = std::log(smaller<double>(n_rows_, hi) / lo) / std::log(hi / lo);
  }

  // ------------------------------------------------------------ lazy updates

  // Brings rows of W (all of them when input is null) to the present step: while its input was zero in a whole batch, a
  // row had no gradient, and weight decay and momentum moved it by a linear map that only depends on how long.
  void catch_up(int l, const std::int32_t* input, int n) {
    Layer<T>& layer = layers_[l];
    if (layer.time.size() == 0) return;
    const int n_chunks = chunks_of(n, 32);
    grow_idle_table();
    parallel(n_chunks, [&](int chunk, int) {
      const int last = static_cast<int>(static_cast<std::int64_t>(n) * (chunk + 1) / n_chunks);
      for (int i = static_cast<int>(static_cast<std::int64_t>(n) * chunk / n_chunks); i < last; ++i) {
        const int j = input ? input[i] : i;
        const std::int64_t idle = step_ - layer.time[j];
        if (idle <= 0) continue;
        layer.time[j] = step_;
        const Idle k = idle_steps(idle);
        T* w = layer.W.get() + j * layer.stride;
        const T shrink = static_cast<T>(k.a - 1), push = static_cast<T>(k.b);
        const T feed = static_cast<T>(k.c), keep = static_cast<T>(k.d);
        if (rule_.kind == kPlain) {
          for (std::int64_t u = 0; u < layer.stride; ++u) w[u] += shrink * w[u];
        } else {
          T* m = layer.W1.get() + j * layer.stride;
          for (std::int64_t u = 0; u < layer.stride; ++u) {
            const T old = w[u];
            w[u] += shrink * old + push * m[u];
            m[u] = feed * old + keep * m[u];
          }
        }
      }
    });
  }

  void grow_idle_table() {
    if (n_idle_) return;
    const double lr = rule_.learning_rate, mu = rule_.kind == kPlain ? 0 : rule_.momentum, l2 = rule_.l2;
    Idle one{1 - lr * l2, -lr * mu, l2, mu};
    if (rule_.kind == kNesterov) one = {1 - lr * l2 * (1 + mu), -lr * mu * mu, l2, mu};
    idle_[0] = {1, 0, 0, 1};
    for (int k = 1; k <= kIdleTable; ++k) idle_[k] = after(one, idle_[k - 1]);
    n_idle_ = kIdleTable + 1;
  }

  Idle idle_steps(std::int64_t k) const {
    Idle total = idle_[k % kIdleTable];
    for (std::int64_t i = 0; i < k / kIdleTable; ++i) total = after(idle_[kIdleTable], total);
    return total;
  }

  int n_layers_;
  Layer<T>* layers_;
  Level<T>* levels_;
  UpdateRule rule_{};
  double l1_ = 0;
  int mode_ = kAuto;
  bool skip_zeros_ = true;
  bool timed_ = false;
  int n_threads_ = 1;
  Costs costs_{};
  bool in_memory_ = false;
  bool training_ = false;
  int n_rows_ = 0;
  int size_ = 1;  // n_rows_ lies between kBatchSizes[size_ - 1] and the next
  double share_of_size_ = 0;
  std::int64_t batch_ = 0;  // counts forward passes: marks the inputs that are active in the present one
  std::int64_t step_ = 0;   // counts updates
  T scale_ = 1;
  MomentUpdate<T> moments_{};
  StepOptions options_{nullptr, false, 0, 0, 0, HUGE_VAL, HUGE_VAL, true};
  bool measures_ = false;  // the backward pass adds up squares of gradients instead of updating
  const std::uint64_t* hash_ = nullptr;
  Buffer<T> share_, no_biases_;
  Buffer<double> squares_;
  Buffer<std::uint32_t> in_order_;  // 0, 1, 2, ...
  Scratch* scratch_ = nullptr;
  int n_scratch_ = 0;
  Buffer<std::int32_t> cut_, counts_;
  Buffer<Idle> idle_;
  int n_idle_ = 0;
};

}  // namespace

hardzero::Network<float>* make_network_float(const LayerShape* layers, int n) { return new Engine<float>(layers, n); }
hardzero::Network<double>* make_network_double(const LayerShape* layers, int n) { return new Engine<double>(layers, n); }

void activate_float(int code, float p, int n, float* h, float* d) {
  Buffer<float> slopes;
  slopes.reserve(n);
  for (int i = 0; i < n; ++i) slopes[i] = p;
  activate<float>(code, p, slopes.get(), n, h, d);
}
void activate_double(int code, double p, int n, double* h, double* d) {
  Buffer<double> slopes;
  slopes.reserve(n);
  for (int i = 0; i < n; ++i) slopes[i] = p;
  activate<double>(code, p, slopes.get(), n, h, d);
}

}  // namespace HARDZERO_ISA
}  // namespace hardzero
