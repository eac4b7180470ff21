"""The options of a step in the compiled core: against the reference and itself."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import floating_task

from hardzero.errors import ParameterError
from hardzero.kernels import build
from hardzero.kernels.options import StepOptions
from hardzero.kernels.reference import ReferenceNetwork
from hardzero.kernels.rules import SGD, Adam
from hardzero.kernels.sparse import SparseNetwork, instruction_sets
from hardzero.random import row_hashes, uniforms
from hardzero.stack import Layer, RectifierStack

LEVELS = instruction_sets()[1]
RULES = [
    SGD(0.1),
    SGD(0.1, l2=0.01),
    SGD(0.1, momentum=0.9, l2=0.01),
    SGD(0.05, momentum=0.9, nesterov=True),
    Adam(0.01, l2=0.01),
]
SMALL_PARTS = {
    "dropout": (0.2, 0.5, 0.3),
    "batch_norm": True,
    "l1_weights": 0.02,
    "max_norm": 0.8,
    "clip_norm": 0.05,
    "fit_biases": False,
}
EVERYTHING = StepOptions(**SMALL_PARTS, seed=3)
OPTIONS = {
    "none": StepOptions(),
    **{name: StepOptions(**{name: part}) for name, part in SMALL_PARTS.items()},
    "dropout of inputs": StepOptions(dropout=(0.4, 0.0, 0.0)),
    "a bound that nothing exceeds": StepOptions(clip_norm=1e3, max_norm=1e3),
    "everything": EVERYTHING,
    "everything but biases": replace(EVERYTHING, fit_biases=True),
}
MANY_ACTIVATIONS = ["rectifier", "softplus", "prelu(0.25)", "abs_tanh", "identity"]


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_each_option_is_the_references(options, rule, sparse):
    """Losses, parameters, outputs and statistics agree to 1e-9, with every rule"""
    for activation in MANY_ACTIVATIONS:
        _assert_agreement(options, rule, activation, sparse)


@settings(max_examples=40)
@given(
    dropout=st.sampled_from([(), (0.3, 0.0, 0.0), (0.0, 0.6, 0.2), (0.1, 0.9, 0.5)]),
    batch_norm=st.booleans(),
    l1_weights=st.sampled_from([0.0, 0.01]),
    max_norm=st.sampled_from([np.inf, 0.5, 2.0]),
    clip_norm=st.sampled_from([np.inf, 0.02, 0.5]),
    fit_biases=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
    rule=st.sampled_from(RULES),
    activation=st.sampled_from(MANY_ACTIVATIONS),
    sparse=st.booleans(),
)
def test_any_mixture_is_the_references(rule, activation, sparse, **options):
    """Options do not get into each other's way"""
    _assert_agreement(StepOptions(**options), rule, activation, sparse)


@pytest.mark.parametrize("rule", [RULES[0], RULES[2], RULES[4]], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 7, 150])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_kernels_and_threads_do_not_change_a_bit(sparse, n_rows, dtype, rule):
    """Sparse or dense kernels, 1 or n threads: the same bits, with all options"""
    plain = _trained(rule, dtype, n_rows, sparse)
    for choice in (
        {"mode": "sparse"},
        {"mode": "dense"},
        {"n_threads": 2},
        {"n_threads": 3, "mode": "sparse"},
        {"n_threads": 5, "mode": "dense"},
    ):
        assert _trained(rule, dtype, n_rows, sparse, **choice) == plain, choice


@pytest.mark.parametrize("rule", [RULES[0], RULES[4]], ids=repr)
def test_listing_zeros_does_not_change_a_bit(rule):
    """What was dropped is skipped exactly: listing it gives the same bits"""
    expected = _trained(rule, np.float32, 20, sparse=False)
    assert _trained(rule, np.float32, 20, sparse=False, skip_zeros=False) == expected


@pytest.mark.skipif(
    not {"v3", "v4"} <= set(LEVELS), reason="needs a processor with AVX-512"
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_instruction_sets_with_fused_multiply_add_give_the_same_bits(dtype):
    """x86-64-v3 and v4 differ in the width of their registers, not in their results"""
    v3, v4 = (_trained(RULES[0], dtype, 20, False, level=x) for x in ("v3", "v4"))
    assert v3 == v4


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 63, 64, 65, 200])
@pytest.mark.parametrize("rate", [1e-9, 0.5, 0.9])
def test_dropout_draws_the_uniforms_of_the_rows_content(rate, width, dtype, level):
    """What is dropped is where u < p, on dense rows, on CSR rows and on hidden units"""
    rng = np.random.default_rng(width)
    X = rng.normal(size=(30, width)) * (rng.random((30, width)) < 0.4)
    X[3], X[4] = 0.0, X[5]
    X, rows = X.astype(dtype), rng.permutation(30)[:11]
    layer = Layer(np.eye(width), np.zeros(width), "identity")
    stack = RectifierStack([layer, layer], "softmax").astype(dtype)
    scale = dtype(1) / (dtype(1) - dtype(rate))
    for dropped, inputs in ((0, X), (0, sp.csr_array(X)), (1, X), (1, sp.csr_array(X))):
        rates = [0.0, 0.0]
        rates[dropped] = rate
        options = StepOptions(dropout=tuple(rates), seed=7)
        network = SparseNetwork(stack, SGD(0.0), options=options, level=level)
        network.bind(inputs)
        for epoch in (1, 2, 2**63):
            network.begin_epoch(epoch)
            u = uniforms(options.keys(epoch)[dropped], row_hashes(X)[rows], width)
            expected = np.where(u < np.float32(rate), 0, X[rows] * scale)
            np.testing.assert_array_equal(network.forward_batch(rows), expected)


def test_what_was_dropped_is_skipped():
    """Dropped inputs and units leave the lists, and do not count as zeros of a unit"""
    rng = np.random.default_rng(0)
    stack = _stack(rng, (400, 400, 400, 3), np.float32, *["softplus"] * 2)
    options = StepOptions(dropout=(0.5, 0.9, 0.75))
    network = SparseNetwork(stack, SGD(0.1), options=options)
    network.bind(rng.random((50, 400)).astype(np.float32), rng.integers(0, 3, 50))
    network.step(np.arange(50))
    counts = [choice.n_nonzero / (50 * 400) for choice in network.choices()]
    np.testing.assert_allclose(counts, [0.5, 0.1, 0.25] * 2, rtol=0.05)
    assert all(layer.n_nonzero == 50 * 400 for layer in network.statistics())


@pytest.mark.parametrize("name", ["dropout", "batch_norm", "everything"])
def test_a_row_of_weight_2_counts_as_two_rows(name):
    """Weight 2 is the same as the row twice, weight 0 as the row left out"""
    stack, X, y, _ = floating_task("rectifier", np.float64, (21, 19, 18, 4), 40)
    weights = np.ones(40)
    weights[0], weights[1] = 2.0, 0.0
    results = []
    for weight, rows in ((weights, [0, 1, 2, 3]), (None, [0, 2, 0, 3])):
        network = SparseNetwork(stack, SGD(0.1), options=OPTIONS[name])
        network.bind(X, y, weight)
        losses = [network.step(np.array(rows)) for _ in range(3)]
        results.append((losses, network.stack()))
    assert results[0][0] == pytest.approx(results[1][0])
    _assert_close(results[0][1], results[1][1], atol=1e-12)


def test_a_batch_without_weight_leaves_batch_norm_alone():
    """Running means keep what they know when all weights are 0"""
    stack, X, y, _ = floating_task("rectifier", np.float64, (21, 19, 18, 4), 40)
    network = SparseNetwork(stack, SGD(0.1), options=StepOptions(batch_norm=True))
    network.bind(X, y, (np.arange(40) < 20).astype(np.float64))
    network.step(np.arange(15))
    before = network.stack()
    assert network.step(np.arange(20, 30)) == 0.0
    assert network.stack() == before


def test_training_agrees_with_pytorch():
    """Exact: autograd with BatchNorm1d, clipping and Adam gives the same weights"""
    torch = pytest.importorskip("torch")
    stack, X, y, _ = floating_task("softplus", np.float64, (21, 19, 18, 4), 40)
    stack = RectifierStack(
        [replace(layer, signs=None) for layer in stack.layers], "softmax"
    )
    modules = []
    for i, layer in enumerate(stack.layers):
        linear = torch.nn.Linear(*layer.W.shape, bias=i == 2, dtype=torch.float64)
        linear.weight.data = torch.tensor(layer.W.T.copy())
        modules.append(linear)
        if i == 2:
            linear.bias.data = torch.tensor(layer.b.copy())
            continue
        norm = torch.nn.BatchNorm1d(layer.n_units, dtype=torch.float64)
        norm.bias.data = torch.tensor(layer.b.copy())
        modules += [norm, torch.nn.Softplus()]
    model = torch.nn.Sequential(*modules)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    options = StepOptions(batch_norm=True, clip_norm=0.3)
    network = SparseNetwork(stack, Adam(0.01), options=options)
    network.bind(X, y)
    for t, rows in enumerate(np.arange(40).reshape(4, 10), 1):
        scores = model(torch.tensor(X[rows]))
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor(y[rows]))
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        assert norm > 0.3
        # PyTorch adds epsilon after the correction.
        optimizer.param_groups[0]["eps"] = 1e-8 / np.sqrt(1 - 0.999**t)
        optimizer.step()
        assert network.step(rows) == pytest.approx(loss.item())
    model.train()
    np.testing.assert_allclose(  # torch divides by norm + 1e-6
        network.forward_batch(np.arange(40)), model(torch.tensor(X)).detach(), atol=1e-5
    )


def test_weights_become_zero_and_columns_stay_short():
    """L1 leaves exact zeros, also in rows that idle; the bound holds to rounding"""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 30)).astype(np.float32)
    X[:, :10] = 0.0
    stack = _stack(rng, (30, 40, 5), np.float32)
    options = StepOptions(l1_weights=0.5, max_norm=0.7)
    network = SparseNetwork(stack, SGD(0.1, momentum=0.9), options=options)
    network.bind(X, rng.integers(0, 5, 60))
    for _ in range(5):
        network.step(np.arange(60))
    hidden, output = network.stack().layers
    thinned = np.maximum(np.abs(stack.layers[0].W[:10]) - 0.25, 0)
    assert (np.abs(hidden.W[:10]) <= thinned + 1e-6).all()
    assert (hidden.W == 0).mean() > 0.3
    assert (np.linalg.norm(hidden.W, axis=0) <= 0.7 * (1 + 1e-6)).all()
    assert (output.W != 0).any()


def test_nan_is_not_taken_for_a_small_weight():
    """The soft threshold makes no zero of a weight that is not a number"""
    stack = _stack(np.random.default_rng(0), (4, 5, 2), np.float64)
    options = StepOptions(l1_weights=0.1)
    network = SparseNetwork(stack, SGD(0.1), options=options)
    network.bind(np.array([[1.0, 1, 1, 0]]), np.array([0]))
    network._core.W(0)[3, 2] = np.nan  # of an input that is 0
    network.step(np.array([0]))
    assert np.isnan(network._core.W(0)[3, 2])


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("options", [StepOptions(), EVERYTHING, OPTIONS["dropout"]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_state_goes_on_with_the_same_bits(dtype, options, rule):
    """Also in the middle of an epoch, while rows of W wait for momentum and decay"""
    stack, X, y, weight = floating_task("prelu(0.1)", dtype, (21, 19, 18, 4), 40)
    X[:, 3] = X[:20, 4] = 0.0

    def bound(n_threads: int) -> SparseNetwork:
        network = SparseNetwork(stack, rule, options=options, n_threads=n_threads)
        network.bind(X, y, weight)
        return network

    for new_rate in (None, 0.02):
        first, second = bound(1), bound(2)
        first.step(np.arange(40))
        first.begin_epoch(2)
        first.set_learning_rate(0.03)
        for i in range(4):
            first.step(np.arange(i, 20, 4))
        if new_rate is None:
            second.set_learning_rate(0.03)
        second.set_state(first.state())
        for network in (first, second):
            if new_rate is not None:  # decides how rows go on, not how they waited
                network.set_learning_rate(new_rate)
            for i in range(4):
                network.step(np.arange(i, 40, 4))
        ours, theirs = second.state(), first.state()
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
        assert second.stack() == first.stack()


def test_a_wrong_state_changes_nothing():
    """Missing, unknown and misshapen arrays are named, before anything is set"""
    network, _ = _bound()
    network.step(np.arange(10))
    before = network.stack()
    other, _ = _bound()
    state = other.state()
    with pytest.raises(ParameterError, match=r"lacks \['gamma.0'\]"):
        network.set_state({k: v for k, v in state.items() if k != "gamma.0"})
    with pytest.raises(ParameterError, match=r"has \['extra'\]"):
        network.set_state(state | {"extra": np.zeros(1)})
    with pytest.raises(ParameterError, match=r"m.W.1 of the state is float64 of shape"):
        network.set_state(state | {"m.W.1": np.zeros((2, 2))})
    assert network.stack() == before


def test_load_starts_batch_norm_anew():
    """A loaded stack has gamma 1, mean 0 and variance 1, as a new network has"""
    network, X = _bound()
    given = network.stack()
    network.step(np.arange(20))
    network.load(given)
    fresh, _ = _bound()
    fresh.load(given)
    assert network.step(np.arange(9)) == fresh.step(np.arange(9))
    assert network.stack() == fresh.stack()
    np.testing.assert_allclose(network.forward(X), network.stack()(X), atol=1e-12)


def test_classes_are_only_needed_by_step():
    """Without y the two halves of a step work, and step says what is missing"""
    network, X = _bound()
    network.bind(X)
    outputs = network.forward_batch(np.arange(5))
    network.backward_batch(np.zeros_like(outputs))
    with pytest.raises(ParameterError, match="bound without them"):
        network.step(np.arange(5))


def test_rates_that_do_not_fit_are_refused():
    """Dropout has a rate for the inputs and for each hidden layer"""
    stack = _stack(np.random.default_rng(0), (4, 5, 2), np.float64)
    with pytest.raises(ParameterError, match="dropout has 3 rates, expected 2"):
        build(stack, SGD(0.1), options=StepOptions(dropout=(0.1, 0.2, 0.3)))


@pytest.mark.parametrize("engine", ["auto", "sparse", "dense", "reference"])
def test_build_hands_the_options_on(engine):
    """Every engine gets them"""
    stack = _stack(np.random.default_rng(0), (4, 5, 2), np.float64)
    options = StepOptions(batch_norm=True)
    assert "gamma.0" in build(stack, SGD(0.1), engine, options=options).state()


def _assert_agreement(options, rule, activation, sparse) -> None:
    stack, X, y, weight = floating_task(activation, np.float64, (21, 19, 18, 4), 40)
    weight[:4] = 0.0
    results = []
    for engine, choice in (
        (ReferenceNetwork, {}),
        (SparseNetwork, {"mode": "sparse"}),
        (SparseNetwork, {"mode": "dense"}),
    ):
        network = engine(stack, rule, l1_activation=0.01, options=options, **choice)
        network.bind(sp.csr_array(X) if sparse else X, y, weight)
        losses = []
        for epoch in (1, 2):
            network.begin_epoch(epoch)
            losses += [network.step(np.arange(i, 40, 4)) for i in range(4)]
        results.append((losses, network))
    (expected_losses, expected), *others = results
    counted = expected.statistics()
    for losses, network in others:
        np.testing.assert_allclose(losses, expected_losses, rtol=1e-9)
        _assert_close(network.stack(), expected.stack(), atol=1e-9)
        np.testing.assert_allclose(network.forward(X), expected.forward(X), atol=1e-9)
        assert network.statistics() == counted


def _assert_close(ours, theirs, atol) -> None:
    for a, b in zip(ours.layers, theirs.layers, strict=True):
        for name, array in a.arrays().items():
            np.testing.assert_allclose(array, b.arrays()[name], atol=atol)


def _stack(rng, sizes, dtype, *activations: str) -> RectifierStack:
    names = [*(activations or ["rectifier"] * (len(sizes) - 2)), "identity"]
    layers = [
        Layer(rng.normal(size=(n, m)) / np.sqrt(n), 0.1 * rng.normal(size=m), name)
        for (n, m), name in zip(pairwise(sizes), names, strict=True)
    ]
    return RectifierStack(layers, "softmax").astype(dtype)


def _bound():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 23)) * (rng.random((60, 23)) < 0.3)
    stack = _stack(rng, (23, 37, 5), np.float64)
    options = StepOptions(batch_norm=True)
    network = SparseNetwork(stack, SGD(0.01, momentum=0.9), options=options)
    network.bind(X, rng.integers(0, 5, 60))
    return network, X


def _trained(rule, dtype, n_rows, sparse, **choice) -> RectifierStack:
    """Return the stack after some steps on random rows; == compares its bits."""
    rng = np.random.default_rng(4)
    activations = "rectifier", "prelu(0.25)", "softplus"
    stack = _stack(rng, (33, 150, 1, 70, 5), dtype, *activations)
    options = StepOptions(
        dropout=(0.2, 0.5, 0.1, 0.4),
        batch_norm=True,
        l1_weights=1e-3,
        max_norm=1.5,
        clip_norm=0.5,
    )
    X = (rng.normal(size=(300, 33)) * (rng.random((300, 33)) < 0.3)).astype(dtype)
    X[5] = 0.0
    network = SparseNetwork(stack, rule, l1_activation=1e-3, options=options, **choice)
    network.bind(sp.csr_array(X) if sparse else X, rng.integers(0, 5, 300))
    for epoch in (1, 2):
        network.begin_epoch(epoch)
        for _ in range(3):
            network.step(rng.permutation(300)[:n_rows])
    return network.stack()
