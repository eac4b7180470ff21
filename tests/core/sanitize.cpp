// Drives the core through random shapes, rules, kernels and threads, to be run under the address and undefined-behaviour
// sanitizers: they see what no test of results does.
#include <cassert>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "draws.hpp"
#include "network.hpp"
#include "random.hpp"
#include "sampled.hpp"

using namespace hardzero;

namespace {

std::mt19937 generator(2011);

int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); }
double uniform() { return std::uniform_real_distribution<double>(-1, 1)(generator); }

template <class T>
Network<T>* make(const std::vector<LayerShape>& layers) {
  if constexpr (sizeof(T) == 4) {
    return HARDZERO_ISA::make_network_float(layers.data(), static_cast<int>(layers.size()));
  } else {
    return HARDZERO_ISA::make_network_double(layers.data(), static_cast<int>(layers.size()));
  }
}

// Some training steps and predictions of a random network on random rows.
template <class T>
void drive(int round) {
  const int widths[] = {1, 2, 7, 15, 16, 17, 63, 130, 300, round % 16 == 0 ? 1100 : 31};
  std::vector<LayerShape> layers;
  int n_inputs = widths[draw(0, 9)];
  const int n_features = n_inputs, n_layers = draw(1, 4);
  for (int l = 0; l < n_layers; ++l) {
    const int n_units = l + 1 < n_layers ? widths[draw(0, 9)] : draw(1, 12);
    layers.push_back({n_inputs, n_units, l + 1 < n_layers ? draw(0, 16) : 0, 0.5, l + 1 < n_layers && draw(0, 1)});
    n_inputs = n_units;
  }
  std::unique_ptr<Network<T>> network(make<T>(layers));
  std::vector<double> rates;
  std::vector<std::uint64_t> keys;
  for (int l = 0; l < n_layers; ++l) rates.push_back(draw(0, 1) * 0.5), keys.push_back(generator());
  if (draw(0, 1)) {
    network->set_options({rates.data(), draw(0, 1) != 0, 1e-5, 0.1, draw(0, 1) * 1e-3, draw(0, 1) ? 1.0 : HUGE_VAL,
                          draw(0, 1) ? 0.1 : HUGE_VAL, draw(0, 1) != 0});
    network->set_keys(keys.data());
  }
  for (int l = 0; l < n_layers; ++l) {
    for (int j = 0; j < layers[l].n_inputs; ++j)
      for (int c = 0; c < layers[l].n_units; ++c)
        network->W(l)[j * network->stride(l) + c] = static_cast<T>(uniform() / std::sqrt(layers[l].n_inputs));
    for (int c = 0; c < layers[l].n_units; ++c) {
      network->b(l)[c] = static_cast<T>(uniform());
      if (layers[l].has_signs) network->signs(l)[c] = draw(0, 1) ? T(1) : T(-1);
      if (layers[l].activation == 3) network->slopes(l)[c] = T(0.25);
    }
  }

  const int n_rows = 1 << draw(0, 8);
  std::vector<T> X, data;
  std::vector<std::int64_t> indptr = {0}, label;
  std::vector<std::int32_t> indices;
  const double density = draw(0, 4) / 4.0;
  for (int i = 0; i < n_rows; ++i) {
    for (int j = 0; j < n_features; ++j) {
      const T x = std::abs(uniform()) < density ? static_cast<T>(uniform()) : T(0);
      X.push_back(x);
      if (x != 0) indices.push_back(j), data.push_back(x);
    }
    indptr.push_back(static_cast<std::int64_t>(indices.size()));
    label.push_back(draw(0, layers.back().n_units - 1));
  }
  indices.push_back(0), data.push_back(0);  // never read; gives empty matrices an address
  Rows<T> rows{};
  if (draw(0, 1)) {
    rows.dense = X.data();
    rows.stride = n_features;
  } else {
    rows.indptr = indptr.data(), rows.indices = indices.data(), rows.data = data.data();
  }

  Costs costs{};
  for (PassCosts* pass : {&costs.forward, &costs.backward})
    for (int i = 0; i < kNumSizes; ++i) pass->sparse_tenth[i] = pass->sparse_half[i] = 0.02, pass->dense[i] = 0.01;
  for (int step = 0; step < 6; ++step) {
    if (step % 3 == 0) {
      network->set_plan(draw(0, 2), draw(0, 3) != 0, draw(0, 1) != 0, draw(1, 4), costs);
      network->set_rule({round % 4, 0.01 / (step + 1), 0.9, draw(0, 1) * 0.01, 0.9, 0.999, 1e-8}, draw(0, 1) * 1e-3);
    }
    const int n = draw(1, n_rows);
    std::vector<std::int64_t> row, labels;
    std::vector<std::uint64_t> hash;
    std::vector<T> share(static_cast<std::size_t>(n), T(1) / static_cast<T>(n));
    for (int b = 0; b < n; ++b) {
      row.push_back(draw(0, n_rows - 1));
      hash.push_back(generator());
      labels.push_back(label[static_cast<std::size_t>(row.back())]);
    }
    network->forward_batch(rows, row.data(), n, draw(0, 1) ? share.data() : nullptr, hash.data());
    const double loss = network->softmax_deltas(labels.data(), share.data());
    assert(std::isfinite(loss));
    network->backward_batch();
    network->forward(rows, nullptr, draw(1, n_rows));
    assert(std::isfinite(network->outputs()[0]));
  }
  network->flush();
  for (int l = 0; l + 1 < n_layers; ++l) {
    std::int64_t n_seen, n_nonzero;
    std::vector<std::uint8_t> fired(static_cast<std::size_t>(layers[l].n_units));
    network->statistics(l, &n_seen, &n_nonzero, fired.data());
    assert(n_nonzero <= n_seen * layers[l].n_units);
  }
}

// Chosen outputs of a random decoder, forward and backward.
template <class T>
void choose() {
  const int lanes = 64 / static_cast<int>(sizeof(T));
  const int n_outputs = draw(1, 60), n_rows = draw(1, 20), stride = lanes * draw(1, 40), n_threads = draw(1, 4);
  const auto numbers = [](int n) {
    std::vector<T> x(static_cast<std::size_t>(n));
    for (T& value : x) value = static_cast<T>(uniform());
    return x;
  };
  std::vector<T> D = numbers(n_outputs * stride), c = numbers(n_outputs), h = numbers(n_rows * stride);
  std::vector<std::int32_t> column, row;
  const double density = draw(0, 4) / 4.0;
  for (int j = 0; j < n_outputs; ++j)
    for (int i = 0; i < n_rows; ++i)
      if (std::abs(uniform()) < density) column.push_back(j), row.push_back(i);
  const int n = static_cast<int>(row.size());
  std::vector<T> a = numbers(n), delta = numbers(n), dh(h.size());
  const ChosenOutputs<T> chosen{D.data(), c.data(), h.data(), stride, column.data(), row.data(), n};
  HARDZERO_ISA::forward_chosen(chosen, a.data(), n_threads);
  HARDZERO_ISA::backward_chosen(chosen, delta.data(), T(0.1), dh.data(), n_threads);
  for (T value : a) assert(std::isfinite(value));
  for (T value : D) assert(std::isfinite(value));
}

}  // namespace

// Networks with different numbers of threads, one after the other on the same pool.
void alternate() {
  const std::vector<LayerShape> layers = {{64, 512, 1, 0, false}, {512, 4, 0, 0, false}};
  std::vector<std::unique_ptr<Network<float>>> networks;
  for (int n_threads : {8, 2, 5}) {
    networks.emplace_back(make<float>(layers));
    networks.back()->set_plan(kAuto, true, false, n_threads, Costs{});
  }
  std::vector<float> X(64 * 64, 1.0f);
  Rows<float> rows{};
  rows.dense = X.data();
  rows.stride = 64;
  for (int i = 0; i < 500; ++i)
    for (auto& network : networks) network->forward(rows, nullptr, 64);
}

// Uniform numbers of whole rows, and the same ones in places.
void draw_numbers() {
  const int n_rows = draw(0, 5), n_columns = draw(0, 200);
  const std::uint64_t key = stream_key(1, "check", 5, 2);
  std::vector<std::uint64_t> hash;
  std::vector<std::int32_t> indptr = {0}, indices;
  std::vector<std::int64_t> row;
  for (int i = 0; i < n_rows; ++i) {
    hash.push_back(entry_hash(3, uniform()));
    for (int e = draw(0, 150); n_columns > 0 && e > 0; --e) indices.push_back(draw(0, n_columns - 1)), row.push_back(i);
    indptr.push_back(static_cast<std::int32_t>(indices.size()));
  }
  std::vector<float> whole(static_cast<std::size_t>(n_rows * n_columns)), at(indices.size());
  HARDZERO_ISA::uniforms(key, hash.data(), n_rows, n_columns, whole.data());
  HARDZERO_ISA::uniforms_at(key, hash.data(), n_rows, indptr.data(), indices.data(), at.data());
  for (std::size_t e = 0; e < at.size(); ++e)
    assert(0 <= at[e] && at[e] < 1 && at[e] == whole[static_cast<std::size_t>(row[e] * n_columns + indices[e])]);
}

int main() {
  alternate();
  for (int round = 0; round < 400; ++round) {
    drive<float>(round);
    drive<double>(round);
    choose<float>();
    choose<double>();
  }
  for (int round = 0; round < 400; ++round) draw_numbers();
  std::puts("sanitize: 800 networks and 800 decoders trained, nothing found");
}
