// The Python face of the core: arrays in, arrays out. Chooses the instruction-set level when it is imported.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#if !defined(_WIN32)
#include <pthread.h>
#endif

#include "draws.hpp"
#include "network.hpp"
#include "random.hpp"
#include "sampled.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace hardzero {
namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Result = nb::ndarray<nb::numpy, T>;

// --------------------------------------------------------- Python's lock

// While a daemon thread computes without Python's lock, the interpreter may end, and would then kill the thread as it asks for
// the lock back, through frames that may not be unwound. So from the beginning of the end nobody gives the lock away, and the
// end waits for those who have.
std::atomic<bool> is_closing{false};
std::atomic<int> n_unlocked{0};

class Unlocked {
 public:
  Unlocked() {
    if (is_closing) return;
    ++n_unlocked;
    state_ = PyEval_SaveThread();
  }
  ~Unlocked() {
    if (!state_) return;
    PyEval_RestoreThread(state_);
    --n_unlocked;
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

void close_down() {
  is_closing = true;
  PyThreadState* state = PyEval_SaveThread();
  for (int i = 0; i < 10000 && n_unlocked > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(state);
}

// A child that is forked has only the thread that forked it: nobody else computes in it, or will ever open a lock.
int n_forks = 0;  // between this process and the one that loaded the module

void after_fork() {
  ++n_forks;
  n_unlocked = 0;
}

class Busy {
 public:
  std::mutex& mutex() {  // called with Python's lock held
    if (made_after_ != n_forks) {
      new (&mutex_) std::mutex;
      made_after_ = n_forks;
    }
    return mutex_;
  }

 private:
  std::mutex mutex_;
  int made_after_ = n_forks;
};

// ------------------------------------------------------- instruction sets

struct Level {
  const char* name;
  bool usable;
  Network<float>* (*make_float)(const LayerShape*, int);
  Network<double>* (*make_double)(const LayerShape*, int);
  void (*activate_float)(int, float, int, float*, float*);
  void (*activate_double)(int, double, int, double*, double*);
  void (*forward_chosen_float)(const ChosenOutputs<float>&, float*, int);
  void (*forward_chosen_double)(const ChosenOutputs<double>&, double*, int);
  void (*backward_chosen_float)(const ChosenOutputs<float>&, const float*, float, float*, int);
  void (*backward_chosen_double)(const ChosenOutputs<double>&, const double*, double, double*, int);
  void (*uniforms)(std::uint64_t, const std::uint64_t*, std::int64_t, std::int64_t, float*);
  void (*uniforms_at_32)(std::uint64_t, const std::uint64_t*, std::int64_t, const std::int32_t*, const std::int32_t*, float*);
  void (*uniforms_at_64)(std::uint64_t, const std::uint64_t*, std::int64_t, const std::int64_t*, const std::int64_t*, float*);
};

#define HARDZERO_LEVEL(level, usable) \
  {#level, usable, level::make_network_float, level::make_network_double, level::activate_float, level::activate_double, \
   level::forward_chosen, level::forward_chosen, level::backward_chosen, level::backward_chosen, \
   level::uniforms, level::uniforms_at, level::uniforms_at}

// The levels that this library holds, best last.
const std::vector<Level>& levels() {
#if defined(HARDZERO_HAS_v2)
  __builtin_cpu_init();
  const auto has_v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  const auto has_v3 = has_v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const auto has_v4 = has_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  static const std::vector<Level> all = {HARDZERO_LEVEL(v2, bool(has_v2)), HARDZERO_LEVEL(v3, bool(has_v3)),
                                         HARDZERO_LEVEL(v4, bool(has_v4))};
#elif defined(HARDZERO_HAS_neon)
  static const std::vector<Level> all = {HARDZERO_LEVEL(neon, true)};
#else
  static const std::vector<Level> all = {HARDZERO_LEVEL(generic, true)};
#endif
  return all;
}

std::vector<std::string> usable_levels() {
  std::vector<std::string> names;
  for (const Level& level : levels())
    if (level.usable) names.push_back(level.name);
  return names;
}

const Level& find_level(const std::string& name) {
  std::string known;
  for (const Level& level : levels()) {
    if (level.usable && name == level.name) return level;
    if (level.usable) known += known.empty() ? level.name : std::string(", ") + level.name;
  }
  throw std::invalid_argument("instruction-set level \"" + name + "\" is not one of those that this machine and this build have (" +
                              known + "). Set HARDZERO_ISA to one of them, or unset it to take the best.");
}

std::string active_level() {
  const char* forced = std::getenv("HARDZERO_ISA");
  if (forced && *forced) return find_level(forced).name;
  const auto names = usable_levels();
  if (names.empty()) throw std::runtime_error("this machine has less than x86-64-v2 (SSE4.2, POPCNT), which hardzero needs");
  return names.back();
}

// ----------------------------------------------------------------- inputs

// Rows of X, kept alive as long as they may be read.
template <class T>
struct Inputs {
  Rows<T> rows{};
  std::int64_t n_rows = 0, n_columns = 0;
  std::vector<nb::object> owners;
};

template <class T>
Inputs<T> dense_inputs(Matrix<T> X) {
  Inputs<T> inputs;
  inputs.rows.dense = X.data();
  inputs.rows.stride = static_cast<std::int64_t>(X.shape(1));
  inputs.n_rows = static_cast<std::int64_t>(X.shape(0));
  inputs.n_columns = static_cast<std::int64_t>(X.shape(1));
  inputs.owners.push_back(nb::cast(X));
  return inputs;
}

template <class T>
Inputs<T> csr_inputs(Vector<std::int64_t> indptr, Vector<std::int32_t> indices, Vector<T> data, std::int64_t n_columns) {
  Inputs<T> inputs;
  const std::int64_t n = static_cast<std::int64_t>(indptr.shape(0)) - 1;
  const std::int64_t n_entries = static_cast<std::int64_t>(indices.shape(0));
  bool is_whole = n >= 0 && static_cast<std::int64_t>(data.shape(0)) == n_entries && indptr.data()[0] == 0 &&
                  indptr.data()[n] == n_entries;
  for (std::int64_t i = 0; is_whole && i < n; ++i) is_whole = indptr.data()[i] <= indptr.data()[i + 1];
  for (std::int64_t k = 0; is_whole && k < n_entries; ++k)
    is_whole = indices.data()[k] >= 0 && indices.data()[k] < n_columns;
  if (!is_whole) throw std::invalid_argument("the CSR matrix points outside of its own arrays");
  inputs.rows.indptr = indptr.data();
  inputs.rows.indices = indices.data();
  inputs.rows.data = data.data();
  inputs.n_rows = n;
  inputs.n_columns = n_columns;
  inputs.owners = {nb::cast(indptr), nb::cast(indices), nb::cast(data)};
  return inputs;
}

// ---------------------------------------------------------------- network

template <class T>
class PyNetwork {
 public:
  using Shape = std::tuple<int, int, int, double, bool>;

  PyNetwork(const std::vector<Shape>& shapes, const std::string& level_name) {
    const Level& level = find_level(level_name);
    std::vector<LayerShape> layers;
    for (const auto& [n_inputs, n_units, activation, parameter, has_signs] : shapes) {
      if (n_inputs < 1 || n_units < 1 || (!layers.empty() && layers.back().n_units != n_inputs))
        throw std::invalid_argument("the layers' sizes do not fit");
      layers.push_back({n_inputs, n_units, activation, parameter, has_signs});
    }
    if (layers.empty()) throw std::invalid_argument("a network needs a layer");
    layers_ = layers;
    const int n = static_cast<int>(layers.size());
    if constexpr (sizeof(T) == 4) {
      network_.reset(level.make_float(layers.data(), n));
    } else {
      network_.reset(level.make_double(layers.data(), n));
    }
  }

  const LayerShape& layer(int l) const {
    if (l < 0 || l >= static_cast<int>(layers_.size())) throw nb::index_error("no such layer");
    return layers_[static_cast<std::size_t>(l)];
  }

  // Views into the core's own memory; the object that owns it is kept alive by the binding.
  Result<T> array(int l, const std::string& name, int moment) {
    static const char* const names[] = {"W", "b", "slopes", "gamma", "signs", "mean", "variance"};
    const LayerShape& shape = layer(l);
    for (int kind = 0; kind <= kVariance; ++kind)
      if (name == names[kind]) {
        T* data = network_->array(l, static_cast<ArrayKind>(kind), moment);
        if (!data) break;
        const std::int64_t strides[2] = {kind == kWeights ? network_->stride(l) : 1, 1};
        const std::size_t n_units = static_cast<std::size_t>(shape.n_units);
        const std::size_t sizes[2] = {kind == kWeights ? static_cast<std::size_t>(shape.n_inputs) : n_units, n_units};
        return Result<T>(data, kind == kWeights ? 2 : 1, sizes, nb::find(this), strides);
      }
    throw std::invalid_argument("this layer has no " + name);
  }
  Result<T> W(int l) { return array(l, "W", 0); }
  Result<std::int64_t> times(int l) {
    const std::size_t sizes[1] = {static_cast<std::size_t>(layer(l).n_inputs)};
    if (!network_->times(l)) throw std::invalid_argument("rows of this layer do not wait");
    return Result<std::int64_t>(network_->times(l), 1, sizes, nb::find(this));
  }
  Result<std::int64_t> n_steps() {
    const std::size_t sizes[1] = {1};
    return Result<std::int64_t>(network_->n_steps(), 1, sizes, nb::find(this));
  }

  void set_options(const std::vector<double>& dropout, bool batch_norm, double epsilon, double momentum, double l1_weights,
                   double max_norm, double clip_norm, bool fit_biases) {
    if (dropout.size() != layers_.size()) throw std::invalid_argument("wrong number of dropout rates");
    alone([&] {
      network_->set_options({dropout.data(), batch_norm, epsilon, momentum, l1_weights, max_norm, clip_norm, fit_biases});
    });
    drops_ = false;
    for (double rate : dropout) drops_ |= rate > 0;
  }

  void set_keys(const std::vector<std::uint64_t>& keys) {
    if (keys.size() != layers_.size()) throw std::invalid_argument("wrong number of keys");
    alone([&] { network_->set_keys(keys.data()); });
  }

  void set_rule(int kind, double learning_rate, double momentum, double l2, double beta1, double beta2, double epsilon,
                double l1_activation) {
    alone([&] { network_->set_rule({kind, learning_rate, momentum, l2, beta1, beta2, epsilon}, l1_activation); });
  }

  void set_plan(int mode, bool skip_zeros, bool timed, int n_threads, const std::vector<double>& costs) {
    Costs c;
    static_assert(sizeof c == sizeof(double) * (2 * (3 * kNumSizes + 2) + 2), "Costs is a plain row of numbers");
    if (costs.size() * sizeof(double) != sizeof c) throw std::invalid_argument("wrong number of costs");
    std::memcpy(&c, costs.data(), sizeof c);
    alone([&] { network_->set_plan(mode, skip_zeros, timed, n_threads, c); });
  }

  void bind(const Inputs<T>& X, std::optional<Vector<std::int64_t>> y, std::optional<Vector<T>> weight,
            std::optional<Vector<std::uint64_t>> hash) {
    check_columns(X);
    const std::size_t n = static_cast<std::size_t>(X.n_rows);
    if ((y && y->shape(0) != n) || (weight && weight->shape(0) != n) || (hash && hash->shape(0) != n))
      throw std::invalid_argument("X, y, sample_weight and row hashes differ in length");
    for (std::size_t i = 0; y && i < n; ++i)
      if (y->data()[i] < 0 || y->data()[i] >= layers_.back().n_units) throw std::invalid_argument("no such class");
    std::lock_guard<std::mutex> alone(busy_.mutex());
    X_ = X;
    y_ = y;
    weight_ = weight;
    hash_ = hash;
    is_bound_ = true;
  }

  double step(Vector<std::int64_t> row) {
    const int n = check_rows(row);
    if (!y_) throw std::invalid_argument("step needs classes");
    double loss = 0;
    alone([&] {
      label_.resize(static_cast<std::size_t>(n));
      for (int b = 0; b < n; ++b) label_[static_cast<std::size_t>(b)] = y_->data()[row.data()[b]];
      const T* share = shares(row.data(), n);
      network_->forward_batch(X_.rows, row.data(), n, share, hashes(row.data(), n));
      loss = network_->softmax_deltas(label_.data(), share);
      if (std::isfinite(loss)) network_->backward_batch();  // else the weights still tell where it went wrong
      n_batch_ = 0;
    });
    return loss;
  }

  Result<T> forward_batch(Vector<std::int64_t> row) {
    const int n = check_rows(row);
    return outputs_of(n, [&] {
      network_->forward_batch(X_.rows, row.data(), n, shares(row.data(), n), hashes(row.data(), n));
      n_batch_ = n;
    });
  }

  void backward_batch(Matrix<T> delta) {
    if (n_batch_ == 0) throw std::invalid_argument("backward_batch needs a forward_batch before it");
    if (static_cast<int>(delta.shape(0)) != n_batch_ || static_cast<int>(delta.shape(1)) != layers_.back().n_units)
      throw std::invalid_argument("delta does not have the shape of the outputs");
    alone([&] {
      network_->set_deltas(delta.data(), static_cast<std::int64_t>(delta.shape(1)));
      network_->backward_batch();
      n_batch_ = 0;
    });
  }

  // Outputs for the rows [start, stop) of X.
  Result<T> forward(const Inputs<T>& X, std::int64_t start, std::int64_t stop) {
    check_columns(X);
    if (start < 0 || stop < start || stop > X.n_rows) throw nb::index_error("no such rows");
    Rows<T> rows = X.rows;
    if (rows.dense) rows.dense += start * rows.stride;
    if (rows.indptr) rows.indptr += start;
    const int n = static_cast<int>(stop - start);
    return outputs_of(n, [&] {
      network_->forward(rows, nullptr, n);
      n_batch_ = 0;
    });
  }

  void flush() {
    alone([&] { network_->flush(); });
  }
  void forget() {
    alone([&] { network_->forget(); });
  }

  std::tuple<std::int64_t, std::int64_t, nb::bytes> statistics(int l) {
    std::int64_t n_rows, n_nonzero;
    std::vector<std::uint8_t> fired(static_cast<std::size_t>(layer(l).n_units));
    alone([&] { network_->statistics(l, &n_rows, &n_nonzero, fired.data()); });
    return {n_rows, n_nonzero, nb::bytes(reinterpret_cast<const char*>(fired.data()), fired.size())};
  }

  std::tuple<int, int, std::int64_t, int, double, double, double> choice(int l, bool backward) {
    layer(l);
    Choice c{};
    alone([&] { c = network_->choice(l, backward); });
    return {c.kernel, c.n_rows, c.n_nonzero, c.n_active_inputs, c.sparse_ns, c.dense_ns, c.measured_ns};
  }

 private:
  void check_columns(const Inputs<T>& X) const {
    if (X.n_columns != layers_.front().n_inputs) throw std::invalid_argument("X has the wrong number of columns");
  }

  int check_rows(const Vector<std::int64_t>& row) const {
    if (!is_bound_) throw std::invalid_argument("there are no rows to train on; call bind first");
    if (row.shape(0) == 0) throw std::invalid_argument("a batch needs a row");
    if (drops_ && !hash_) throw std::invalid_argument("dropout needs the hashes of rows; call bind again");
    for (std::size_t b = 0; b < row.shape(0); ++b)
      if (row.data()[b] < 0 || row.data()[b] >= X_.n_rows) throw nb::index_error("no such row");
    return static_cast<int>(row.shape(0));
  }

  // Each row's share of the batch; null when all are the same.
  const T* shares(const std::int64_t* row, int n) {
    if (!weight_) return nullptr;
    share_.resize(static_cast<std::size_t>(n));
    T total = 0;
    for (int b = 0; b < n; ++b) total += share_[static_cast<std::size_t>(b)] = weight_->data()[row[b]];
    for (T& share : share_) share = total > 0 ? share / total : T(0);
    return share_.data();
  }

  // Hash of each row of the batch; null when nothing is drawn.
  const std::uint64_t* hashes(const std::int64_t* row, int n) {
    if (!drops_) return nullptr;
    row_hash_.resize(static_cast<std::size_t>(n));
    for (int b = 0; b < n; ++b) row_hash_[static_cast<std::size_t>(b)] = hash_->data()[row[b]];
    return row_hash_.data();
  }

  // Does something with the network while no other thread does, and without Python's lock.
  template <class Work>
  void alone(const Work& work) {
    std::mutex& busy = busy_.mutex();
    Unlocked unlocked;
    std::lock_guard<std::mutex> lock(busy);
    work();
  }

  // Runs a forward pass and returns a copy of its outputs.
  template <class Pass>
  Result<T> outputs_of(int n, const Pass& pass) {
    const std::size_t width = static_cast<std::size_t>(layers_.back().n_units);
    std::unique_ptr<T[]> copy(new T[static_cast<std::size_t>(n) * width + 1]);
    alone([&] {
      pass();
      for (int b = 0; b < n; ++b)
        std::memcpy(copy.get() + static_cast<std::size_t>(b) * width, network_->outputs() + b * network_->outputs_stride(),
                    width * sizeof(T));
    });
    T* data = copy.release();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    const std::size_t sizes[2] = {static_cast<std::size_t>(n), width};
    return Result<T>(data, 2, sizes, owner);
  }

  Busy busy_;  // a network serves one thread at a time
  std::unique_ptr<Network<T>> network_;
  std::vector<LayerShape> layers_;
  Inputs<T> X_;
  std::optional<Vector<std::int64_t>> y_;
  std::optional<Vector<T>> weight_;
  std::optional<Vector<std::uint64_t>> hash_;
  std::vector<std::uint64_t> row_hash_;
  std::vector<std::int64_t> label_;
  std::vector<T> share_;
  bool is_bound_ = false;
  bool drops_ = false;
  int n_batch_ = 0;  // rows of a forward_batch that waits for its backward_batch
};

template <class T>
void bind_precision(nb::module_& m, const char* inputs_name, const char* network_name) {
  nb::class_<Inputs<T>>(m, inputs_name)
      .def_static("dense", &dense_inputs<T>, "X"_a.noconvert())
      .def_static("csr", &csr_inputs<T>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(), "n_columns"_a);
  using N = PyNetwork<T>;
  nb::class_<N>(m, network_name)
      .def(nb::init<const std::vector<typename N::Shape>&, const std::string&>(), "shapes"_a, "level"_a)
      .def("W", &N::W)
      .def("array", &N::array, "layer"_a, "name"_a, "moment"_a = 0)
      .def("times", &N::times)
      .def("n_steps", &N::n_steps)
      .def("set_options", &N::set_options)
      .def("set_keys", &N::set_keys)
      .def("set_rule", &N::set_rule)
      .def("set_plan", &N::set_plan)
      .def("bind", &N::bind, "X"_a, "y"_a.noconvert().none(), "weight"_a.noconvert().none(), "row_hash"_a.noconvert().none())
      .def("step", &N::step, "rows"_a.noconvert())
      .def("forward_batch", &N::forward_batch, "rows"_a.noconvert())
      .def("backward_batch", &N::backward_batch, "delta"_a.noconvert())
      .def("forward", &N::forward)
      .def("flush", &N::flush)
      .def("forget", &N::forget)
      .def("statistics", &N::statistics)
      .def("choice", &N::choice);
}

template <class T>
std::tuple<Result<T>, Result<T>> activate(int code, double parameter, Vector<T> x, const std::string& level_name) {
  const Level& level = find_level(level_name);
  const std::size_t n = x.shape(0);
  T* h = new T[2 * n + 1];
  nb::capsule owner(h, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  std::memcpy(h, x.data(), n * sizeof(T));
  if constexpr (sizeof(T) == 4) {
    level.activate_float(code, static_cast<float>(parameter), static_cast<int>(n), h, h + n);
  } else {
    level.activate_double(code, parameter, static_cast<int>(n), h, h + n);
  }
  return {Result<T>(h, 1, &n, owner), Result<T>(h + n, 1, &n, owner)};
}

// ------------------------------------------------------------------ draws

Result<float> uniforms(std::uint64_t key, Vector<std::uint64_t> row_hash, std::int64_t n_columns, const std::string& level_name) {
  if (n_columns < 0) throw std::invalid_argument("the number of columns is negative");
  const Level& level = find_level(level_name);
  const std::size_t sizes[2] = {row_hash.shape(0), static_cast<std::size_t>(n_columns)};
  float* numbers = new float[sizes[0] * sizes[1] + 1];
  nb::capsule owner(numbers, [](void* p) noexcept { delete[] static_cast<float*>(p); });
  {
    Unlocked unlocked;
    level.uniforms(key, row_hash.data(), static_cast<std::int64_t>(sizes[0]), n_columns, numbers);
  }
  return Result<float>(numbers, 2, sizes, owner);
}

template <class Index>
Result<float> uniforms_at(std::uint64_t key, Vector<std::uint64_t> row_hash, Vector<Index> indptr, Vector<Index> indices,
                          const std::string& level_name) {
  const Level& level = find_level(level_name);
  const std::int64_t n_rows = static_cast<std::int64_t>(row_hash.shape(0));
  const std::size_t n_entries = indices.shape(0);
  bool is_whole = static_cast<std::int64_t>(indptr.shape(0)) == n_rows + 1 && indptr.data()[0] == 0 &&
                  static_cast<std::size_t>(indptr.data()[n_rows]) == n_entries;
  for (std::int64_t i = 0; is_whole && i < n_rows; ++i) is_whole = indptr.data()[i] <= indptr.data()[i + 1];
  for (std::size_t k = 0; k < n_entries; ++k) is_whole &= indices.data()[k] >= 0;
  if (!is_whole) throw std::invalid_argument("the CSR matrix points outside of its own arrays");
  float* numbers = new float[n_entries + 1];
  nb::capsule owner(numbers, [](void* p) noexcept { delete[] static_cast<float*>(p); });
  {
    Unlocked unlocked;
    if constexpr (sizeof(Index) == 4) {
      level.uniforms_at_32(key, row_hash.data(), n_rows, indptr.data(), indices.data(), numbers);
    } else {
      level.uniforms_at_64(key, row_hash.data(), n_rows, indptr.data(), indices.data(), numbers);
    }
  }
  return Result<float>(numbers, 1, &n_entries, owner);
}

// ----------------------------------------------- chosen outputs of a decoder

template <class T, std::size_t n_dims>
using Changed = nb::ndarray<T, nb::ndim<n_dims>, nb::c_contig, nb::device::cpu>;

template <class T>
ChosenOutputs<T> chosen_outputs(const Changed<T, 2>& D, const Changed<T, 1>& c, const Matrix<T>& h,
                                const Vector<std::int32_t>& columns, const Vector<std::int32_t>& rows) {
  const ChosenOutputs<T> chosen{D.data(),       c.data(),    h.data(), static_cast<std::int64_t>(D.shape(1)),
                                columns.data(), rows.data(), static_cast<std::int64_t>(columns.shape(0))};
  const auto n_columns = static_cast<std::int64_t>(D.shape(0)), n_rows = static_cast<std::int64_t>(h.shape(0));
  bool fits = D.shape(1) == h.shape(1) && chosen.stride * sizeof(T) % 64 == 0 && c.shape(0) == D.shape(0) &&
              rows.shape(0) == columns.shape(0);
  for (std::int64_t k = 0; fits && k < chosen.n; ++k)
    fits = chosen.column[k] >= (k ? chosen.column[k - 1] : 0) && chosen.column[k] < n_columns && chosen.row[k] >= 0 &&
           chosen.row[k] < n_rows;
  if (!fits) throw std::invalid_argument("the chosen outputs are not sorted by column, or do not fit the decoder or the batch");
  return chosen;
}

template <class T>
Result<T> forward_chosen(Changed<T, 2> D, Changed<T, 1> c, Matrix<T> h, Vector<std::int32_t> columns, Vector<std::int32_t> rows,
                         int n_threads, const std::string& level_name) {
  const Level& level = find_level(level_name);
  const ChosenOutputs<T> chosen = chosen_outputs(D, c, h, columns, rows);
  const std::size_t n = columns.shape(0);
  T* a = new T[n + 1];
  nb::capsule owner(a, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  {
    Unlocked unlocked;
    if constexpr (sizeof(T) == 4) {
      level.forward_chosen_float(chosen, a, n_threads);
    } else {
      level.forward_chosen_double(chosen, a, n_threads);
    }
  }
  return Result<T>(a, 1, &n, owner);
}

template <class T>
Result<T> backward_chosen(Changed<T, 2> D, Changed<T, 1> c, Matrix<T> h, Vector<std::int32_t> columns, Vector<std::int32_t> rows,
                          Vector<T> delta, T rate, int n_threads, const std::string& level_name) {
  const Level& level = find_level(level_name);
  const ChosenOutputs<T> chosen = chosen_outputs(D, c, h, columns, rows);
  if (delta.shape(0) != columns.shape(0)) throw std::invalid_argument("delta does not have the shape of the outputs");
  const std::size_t sizes[2] = {h.shape(0), h.shape(1)};
  T* dh = new T[sizes[0] * sizes[1] + 1]();
  nb::capsule owner(dh, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  {
    Unlocked unlocked;
    if constexpr (sizeof(T) == 4) {
      level.backward_chosen_float(chosen, delta.data(), rate, dh, n_threads);
    } else {
      level.backward_chosen_double(chosen, delta.data(), rate, dh, n_threads);
    }
  }
  return Result<T>(dh, 2, sizes, owner);
}

template <class T>
void bind_chosen(nb::module_& m) {
  m.def("forward_chosen", &forward_chosen<T>, "D"_a.noconvert(), "c"_a.noconvert(), "h"_a.noconvert(), "columns"_a.noconvert(),
        "rows"_a.noconvert(), "n_threads"_a, "level"_a);
  m.def("backward_chosen", &backward_chosen<T>, "D"_a.noconvert(), "c"_a.noconvert(), "h"_a.noconvert(),
        "columns"_a.noconvert(), "rows"_a.noconvert(), "delta"_a.noconvert(), "rate"_a, "n_threads"_a, "level"_a);
}

}  // namespace
}  // namespace hardzero

NB_MODULE(_core, m) {
  using namespace hardzero;
  nb::set_leak_warnings(false);  // a daemon thread that still holds a network at the end is no fault of the bindings
#if !defined(_WIN32)
  pthread_atfork(nullptr, nullptr, after_fork);
#endif
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&close_down));
  m.def("usable_levels", &usable_levels);
  m.def("active_level", &active_level);
  bind_precision<float>(m, "Inputs32", "Network32");
  bind_precision<double>(m, "Inputs64", "Network64");
  m.def("activate", &activate<float>, "code"_a, "parameter"_a, "x"_a.noconvert(), "level"_a);
  m.def("activate", &activate<double>, "code"_a, "parameter"_a, "x"_a.noconvert(), "level"_a);
  bind_chosen<float>(m);
  bind_chosen<double>(m);
  m.def("stream_key", [](std::uint64_t seed, const std::string& purpose, std::uint64_t epoch) {
    return stream_key(seed, purpose.data(), purpose.size(), epoch);
  });
  m.def("entry_hash", &entry_hash);
  m.def("uniforms", &uniforms, "key"_a, "row_hashes"_a.noconvert(), "n_columns"_a, "level"_a);
  m.def("uniforms_at", &uniforms_at<std::int32_t>, "key"_a, "row_hashes"_a.noconvert(), "indptr"_a.noconvert(),
        "indices"_a.noconvert(), "level"_a);
  m.def("uniforms_at", &uniforms_at<std::int64_t>, "key"_a, "row_hashes"_a.noconvert(), "indptr"_a.noconvert(),
        "indices"_a.noconvert(), "level"_a);
  m.def("philox", [](const std::vector<std::uint32_t>& counter, const std::vector<std::uint32_t>& key) {
    if (counter.size() != 4 || key.size() != 2) throw std::invalid_argument("philox takes 4 and 2 words");
    std::vector<std::uint32_t> block(4);
    philox(counter.data(), key.data(), block.data());
    return block;
  });
}
