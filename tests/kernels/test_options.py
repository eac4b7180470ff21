"""The options of a training step: against formulas, PyTorch and each other's laws."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from strategies import csr, exact_rules, floating_task, problems

from hardzero.errors import ParameterError
from hardzero.kernels.dense import DenseNetwork
from hardzero.kernels.options import StepOptions
from hardzero.kernels.reference import ReferenceNetwork
from hardzero.kernels.rules import SGD, Adam
from hardzero.kernels.sparse import SparseNetwork
from hardzero.kernels.statistics import LayerStatistics
from hardzero.random import row_hashes, stream_key, uniforms
from hardzero.stack import Layer, RectifierStack

ENGINES = [ReferenceNetwork, DenseNetwork, SparseNetwork]
SIZES = (6, 5, 4, 3)
RULES = [
    SGD(0.1),
    SGD(0.1, l2=0.1),
    SGD(0.1, momentum=0.9, l2=0.01),
    SGD(0.1, momentum=0.9, nesterov=True),
    Adam(0.01, l2=0.01),
]
OPTIONS = {
    "none": StepOptions(),
    "dropout": StepOptions(dropout=(0.2, 0.5, 0.3), seed=5),
    "batch_norm": StepOptions(batch_norm=True),
    "l1_weights": StepOptions(l1_weights=0.5),
    "max_norm": StepOptions(max_norm=0.5),
    "clip_norm": StepOptions(clip_norm=0.1),
    "fit_biases": StepOptions(fit_biases=False),
    "all": StepOptions(
        dropout=(0.0, 0.5, 0.25),
        batch_norm=True,
        l1_weights=0.1,
        max_norm=0.8,
        clip_norm=0.1,
        fit_biases=False,
        seed=7,
    ),
}

engines = pytest.mark.parametrize("engine", ENGINES)
options_ = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@engines
@pytest.mark.parametrize("name", ["rectifier", "prelu", "tanh", "leaky_rectifier"])
@pytest.mark.parametrize("key", ["none", "dropout", "batch_norm", "both"])
def test_gradients_are_finite_differences(engine, name, key):
    """A step moves each parameter by the derivative of the documented objective

    Rows are weighted, one by 0; units have signs; activations are penalised as they are
    before dropout.
    """
    options = {
        "both": replace(OPTIONS["dropout"], batch_norm=True),
        **OPTIONS,
    }[key]
    stack, X, y, weights = floating_task(name, np.float64, SIZES, n_rows=8)
    weights[3] = 0.0
    network = engine(stack, SGD(1.0), l1_activation=0.05, options=options)
    network.bind(X, y, weights)
    network.begin_epoch(2)
    start = network.state()
    rng = np.random.default_rng(1)
    for array in (start[n] for n in start if n.startswith("gamma")):
        array[:] = rng.normal(size=array.shape)
    network.set_state(start)

    def objective(state, l1_activation=0.05):
        return _objective(state, stack, X, y, weights, options, l1_activation)

    assert network.step(np.arange(8)) == pytest.approx(objective(start, 0.0))
    moved = _parameters(network)
    learned = [n for n in start if n.split(".")[0] in ("W", "b", "slopes", "gamma")]
    assert len(learned) == 6 + 2 * (name == "prelu") + 2 * options.batch_norm
    for array in learned:
        expected = np.empty_like(start[array])
        for index in np.ndindex(expected.shape):
            sides = []
            for step in (1e-6, -1e-6):
                shifted = start[array].copy()
                shifted[index] += step
                sides.append(objective({**start, array: shifted}))
            expected[index] = (sides[0] - sides[1]) / 2e-6
        difference = start[array] - moved[array]
        np.testing.assert_allclose(
            difference, expected, rtol=1e-5, atol=1e-8, err_msg=array
        )


def _objective(state, stack, X, y, weights, options, l1_activation, epoch=2):
    """Return what a step in training mode minimises."""
    shares = weights / weights.sum()
    h, total = X, 0.0
    for level, layer in enumerate(stack.layers):
        if options.dropout:
            h = h * _mask(options, level, X, h.shape[1], epoch)
        a = h @ state[f"W.{level}"]
        is_hidden = level < len(stack.layers) - 1
        if options.batch_norm and is_hidden:
            mean = np.average(a, axis=0, weights=weights)
            variance = np.average((a - mean) ** 2, axis=0, weights=weights)
            a = state[f"gamma.{level}"] * (a - mean) / np.sqrt(variance + 1e-5)
        h = layer.activation(a + state[f"b.{level}"], state.get(f"slopes.{level}"))
        if is_hidden:
            h = h * layer.signs
            total += l1_activation * shares @ np.abs(h).sum(axis=1)
    log_losses = scipy.special.logsumexp(h, axis=1) - h[np.arange(len(y)), y]
    return total + shares @ log_losses


def _mask(options, level, X, n_units, epoch):
    """Return the factors of dropout, after the text of `hardzero.kernels.options`."""
    key = stream_key(options.seed, f"dropout {level}", epoch)
    p = options.dropout[level]
    is_dropped = uniforms(key, row_hashes(X), n_units) < np.float32(p)
    return np.where(is_dropped, 0.0, 1.0 / (1.0 - p))


@engines
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_are_pytorchs(engine, dtype):
    """After 20 steps all is as with autograd, batch_norm and clip_grad_norm_

    The masks of dropout are given to PyTorch. Its running variance would be divided by
    n - 1, so the running means are computed here.
    """
    torch = pytest.importorskip("torch")
    options = StepOptions(
        dropout=(0.2, 0.5, 0.3), batch_norm=True, clip_norm=0.3, seed=11
    )
    stack, X, y, _ = floating_task("prelu", dtype, (30, 24, 17, 5), n_rows=160)
    network = engine(stack, SGD(0.1, momentum=0.9), options=options)
    network.bind(X, y)
    twins = {
        name: torch.tensor(array, requires_grad=True)
        for name, array in network.state().items()
        if name.split(".")[0] in ("W", "b", "slopes", "gamma")
    }
    running = {}
    optimizer = torch.optim.SGD(twins.values(), lr=0.1, momentum=0.9)

    def forward(h, rows=None):
        for level in range(3):
            if rows is not None:
                mask = _mask(options, level, X[rows], h.shape[1], epoch=1)
                h = h * torch.tensor(mask.astype(dtype))
            a = h @ twins[f"W.{level}"]
            if level == 2:
                return a + twins["b.2"]
            mean, variance = running.get(
                level, (torch.zeros_like(a[0]), torch.ones_like(a[0]))
            )
            if rows is not None:
                running[level] = (
                    0.9 * mean + 0.1 * a.detach().mean(0),
                    0.9 * variance + 0.1 * a.detach().var(0, unbiased=False),
                )
            a = torch.nn.functional.batch_norm(
                a,
                *((None, None) if rows is not None else (mean, variance)),
                twins[f"gamma.{level}"],
                twins[f"b.{level}"],
                training=rows is not None,
                eps=1e-5,
            )
            signs = torch.from_numpy(stack.layers[level].signs.copy())
            h = torch.nn.functional.prelu(a, twins[f"slopes.{level}"]) * signs
        raise AssertionError

    n_clipped = 0
    for rows in np.arange(160).reshape(20, 8):
        outputs = forward(torch.from_numpy(X[rows]), rows)
        loss = torch.nn.functional.cross_entropy(outputs, torch.from_numpy(y[rows]))
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(twins.values(), 0.3)
        n_clipped += norm.item() > 0.3
        optimizer.step()
        assert network.step(rows) == pytest.approx(loss.item(), rel=1e-4)
    assert n_clipped > 10

    tolerance = {"rtol": 0, "atol": 1e-4 if dtype == np.float32 else 1e-6}
    state = _parameters(network)
    for name, twin in twins.items():
        np.testing.assert_allclose(
            state[name], twin.detach(), err_msg=name, **tolerance
        )
    for level, (mean, variance) in running.items():
        np.testing.assert_allclose(state[f"mean.{level}"], mean, **tolerance)
        np.testing.assert_allclose(state[f"variance.{level}"], variance, **tolerance)
    with torch.no_grad():
        expected = forward(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(network.forward(X), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("engine", ENGINES[1:])
@options_
@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_engines_agree_with_the_reference(engine, options, rule, sparse):
    """Losses and all of the state are the reference's after some weighted steps"""
    networks = [
        _bound(e, rule, options, sparse=sparse) for e in (ReferenceNetwork, engine)
    ]
    for epoch in (1, 2):
        for network in networks:
            network.begin_epoch(epoch)
        for rows in (np.arange(8), np.arange(6, 16), np.array([3])):
            first, second = (network.step(rows) for network in networks)
            assert second == pytest.approx(first, rel=1e-9)
    _assert_close(*networks)
    assert networks[0].statistics() == networks[1].statistics()


@pytest.mark.parametrize("engine", ENGINES[1:])
@given(
    problem=problems(),
    rule=exact_rules(),
    sparse=st.booleans(),
    l1_weights=st.sampled_from([0.0, 0.5, 4.0]),
    fit_biases=st.booleans(),
)
def test_engines_equal_the_reference(
    engine, problem, rule, sparse, l1_weights, fit_biases
):
    """On small integers dropout and the penalty on weights agree to the last bit"""
    options = StepOptions(
        dropout=(0.5,) * len(problem.stack.layers),
        l1_weights=l1_weights,
        fit_biases=fit_biases,
        seed=3,
    )
    expected = problem.train(ReferenceNetwork, rule, sparse=sparse, options=options)
    assert problem.train(engine, rule, sparse=sparse, options=options) == expected


@engines
@options_
def test_a_row_of_weight_2_counts_as_two_rows(engine, options):
    """Weight 2 is the row twice; a row of weight 0 may hold anything"""
    stack, X, y, _ = floating_task("rectifier", np.float64, SIZES, n_rows=12)
    weights = np.ones(12)
    weights[0], weights[1], weights[6], weights[7] = 2.0, 0.0, 0.0, 2.0
    weighted, repeated, changed = (
        engine(stack, SGD(0.1, momentum=0.5), l1_activation=0.1, options=options)
        for _ in range(3)
    )
    other = X.copy()
    other[1] = 50.0
    weighted.bind(X, y, weights)
    repeated.bind(X, y)
    changed.bind(other, y, weights)
    for rows, expanded in (([0, 1, 2, 3], [0, 0, 2, 3]), ([6, 5, 7], [7, 5, 7])):
        loss = repeated.step(np.array(expanded))
        assert weighted.step(np.array(rows)) == pytest.approx(loss)
        assert changed.step(np.array(rows)) == pytest.approx(loss)
    _assert_close(weighted, repeated)
    _assert_close(weighted, changed)


@engines
@options_
def test_weights_of_zero_change_nothing(engine, options):
    """A batch whose weights are all 0 has loss 0 and no gradient or statistics"""
    options = replace(options, l1_weights=0.0, max_norm=math.inf)
    network = _bound(engine, SGD(0.1), options, weights=np.zeros(20))
    before = _parameters(network)
    assert network.step(np.arange(8)) == 0.0
    after = _parameters(network)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)


@engines
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_dropout_is_the_documented_draw(engine, dtype, sparse):
    """An input is 0 where its number is below p, and divided by 1 - p elsewhere"""
    X = np.random.default_rng(0).normal(size=(500, 40)).astype(dtype)
    X[:, 7] = 0.0
    stack = RectifierStack(
        [
            Layer(np.eye(40), np.zeros(40), "identity"),
            Layer(np.eye(40), np.zeros(40), "identity"),
        ]
    ).astype(dtype)
    options = StepOptions(dropout=(0.3, 0.6), seed=9)
    network = engine(stack, SGD(0.1), options=options)
    network.bind(csr(X, explicit_zeros=X == 0.0) if sparse else X)
    for epoch in (1, 2):
        network.begin_epoch(epoch)
        masks = [_mask(options, level, X, 40, epoch) for level in (0, 1)]
        for rows in (np.arange(500), np.array([7]), np.array([3, 400, 3])):
            expected = X[rows] * masks[0][rows] * masks[1][rows]
            found = network.forward_batch(rows)
            assert ((found == 0.0) == (expected == 0.0)).all()
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        for mask, p in zip(masks, options.dropout, strict=True):
            assert (mask == 0.0).mean() == pytest.approx(p, abs=0.015)
    assert (network.forward(X) == X).all()


@engines
def test_dropout_depends_on_content_alone(engine):
    """Neither order, place, batch nor format of rows changes what is dropped

    Epoch and seed do.
    """
    stack, X, _, _ = floating_task("rectifier", np.float64, SIZES, n_rows=20)
    order = np.random.default_rng(2).permutation(20)
    options = OPTIONS["dropout"]

    def outputs(X, rows, *, epoch=1, options=options):
        network = engine(stack, SGD(0.1), options=options)
        network.bind(X)
        network.begin_epoch(epoch)
        return network.forward_batch(rows).copy()

    rows = np.arange(20)
    expected = outputs(X, rows)
    shuffled = np.ascontiguousarray(X[order])
    for found in (
        outputs(X, order)[np.argsort(order)],
        outputs(shuffled, rows)[np.argsort(order)],
        outputs(csr(X), rows),
        np.concatenate([outputs(X, rows[:7]), outputs(X, rows[7:])]),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert not np.allclose(outputs(X, rows, epoch=2), expected)
    other = replace(options, seed=6)
    assert not np.allclose(outputs(X, rows, options=other), expected)


@engines
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_steps_with_dropout_do_not_depend_on_order_or_format(engine, sparse):
    """A step over the same rows in another order and format is the same step"""
    one, other = (
        _bound(engine, SGD(0.1), OPTIONS["dropout"], sparse=s) for s in (False, sparse)
    )
    one.step(np.arange(12))
    other.step(np.arange(12)[::-1].copy())
    _assert_close(one, other)


@engines
def test_statistics_do_not_count_what_dropout_drops(engine):
    """Zeros are counted before dropout makes more of them"""
    layers = [
        Layer(np.eye(2, 3), np.zeros(3), "rectifier"),
        Layer(np.ones((3, 2)), np.ones(2), "identity"),
    ]
    options = StepOptions(dropout=(0.0, 0.9))
    network = engine(RectifierStack(layers, "softmax"), SGD(0.0), options=options)
    network.bind(np.arange(1.0, 41.0).reshape(20, 2), np.zeros(20, dtype=np.int64))
    network.step(np.arange(20))
    assert network.statistics() == [
        LayerStatistics(20, 40, np.array([True, True, False]))
    ]


@engines
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_batch_normalisation_is_folded(engine, dtype, sparse):
    """`forward` and `stack` normalise by the running means, in W and b"""
    network = _bound(
        engine, SGD(0.1), OPTIONS["batch_norm"], dtype=dtype, sparse=sparse
    )
    for first in range(10):
        network.step(np.arange(first, first + 8))
    stack, state = network.stack(), _parameters(network)
    _, X, _, _ = floating_task("rectifier", dtype, SIZES, n_rows=20)
    h = X.astype(np.float64)
    for level, layer in enumerate(stack.layers):
        h = h @ state[f"W.{level}"]
        if level < 2:
            root = np.sqrt(state[f"variance.{level}"] + 1e-5)
            assert not np.allclose(root, 1.0, atol=0.1)
            h = state[f"gamma.{level}"] * (h - state[f"mean.{level}"]) / root
        h = h + state[f"b.{level}"]
        h = layer.activation(h) * (1.0 if layer.signs is None else layer.signs)
    tolerance = {"rtol": 1e-4, "atol": 1e-5 if dtype == np.float32 else 1e-12}
    np.testing.assert_allclose(stack(X), h, **tolerance)
    outputs = network.forward(csr(X) if sparse else X)
    assert outputs.dtype == dtype
    np.testing.assert_allclose(outputs, h, **tolerance)


@engines
def test_batch_normalisation_ignores_scale_and_shift_of_a_unit(engine):
    """The training outputs do not change with the scale of the weights into a unit"""
    stack, X, y, _ = floating_task("rectifier", np.float64, SIZES, n_rows=20)
    hidden = stack.layers[0]
    larger = Layer(64.0 * hidden.W, hidden.b, "rectifier", hidden.signs)
    outputs = []
    for twin in (stack, RectifierStack((larger, *stack.layers[1:]), "softmax")):
        network = engine(twin, SGD(0.1), options=OPTIONS["batch_norm"])
        network.bind(X, y)
        outputs.append(network.forward_batch(np.arange(20)).copy())
    np.testing.assert_allclose(*outputs, atol=1e-4)


@engines
def test_running_means_move_with_updates_only(engine):
    """A forward pass that no update follows leaves no trace"""
    network = _bound(engine, SGD(0.1), OPTIONS["batch_norm"])
    before = _parameters(network)
    network.forward_batch(np.arange(8))
    after = _parameters(network)
    assert all((after[name] == before[name]).all() for name in before)


@engines
@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_weights_are_shrunk_and_then_bounded(engine, rule, batch_norm, sparse):
    """Each step ends with soft thresholds and then the bound on columns of W

    The threshold follows the learning rate; the last layer has no bound; nothing but W
    is changed.
    """
    free = _bound(engine, rule, StepOptions(batch_norm=batch_norm), sparse=sparse)
    options = StepOptions(batch_norm=batch_norm, l1_weights=2.0, max_norm=0.6)
    network = _bound(engine, rule, options, sparse=sparse)
    for each in (free, network):
        each.set_learning_rate(0.03)
        each.step(np.arange(8))
    expected, found = _parameters(free), _parameters(network)
    n_bounded = 0
    for level in range(3):
        W = expected[f"W.{level}"]
        W = np.sign(W) * np.maximum(np.abs(W) - 0.06, 0.0)
        if level < 2:
            norms = np.linalg.norm(W, axis=0)
            n_bounded += (norms > 0.6).sum()
            W = W * np.minimum(1.0, 0.6 / norms)
        assert (found[f"W.{level}"] == 0.0).any() or level == 2
        expected[f"W.{level}"] = W
    assert 0 < n_bounded < 9
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-12, err_msg=name)

    for first in range(10):
        network.step(np.arange(first, first + 8))
    for level in (0, 1):
        norms = np.linalg.norm(_parameters(network)[f"W.{level}"], axis=0)
        assert norms.max() <= 0.6 * (1 + 1e-12)


@engines
@pytest.mark.parametrize("fit_biases", [True, False])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_clipping_shortens_the_gradient(engine, fit_biases, sparse):
    """The gradient of what is learned keeps its direction and has at most this norm

    Decay is added after that.
    """
    base = StepOptions(batch_norm=True, fit_biases=fit_biases)

    def movement(rule, clip_norm):
        options = replace(base, clip_norm=clip_norm)
        network = _bound(engine, rule, options, sparse=sparse)
        start = _parameters(network)
        network.step(np.arange(8))
        moved = _parameters(network)
        learned = [n for n in start if n[0] in "Wbg"]
        return {name: start[name] - moved[name] for name in learned}, start

    gradient, start = movement(SGD(1.0), math.inf)
    norm = np.sqrt(sum((g**2).sum() for g in gradient.values()))
    assert norm > 0.2
    clipped, _ = movement(SGD(1.0), 0.2)
    decayed, _ = movement(SGD(1.0, l2=0.5), 0.2)
    for name, g in gradient.items():
        np.testing.assert_allclose(clipped[name], g * 0.2 / norm, atol=1e-12)
        decay = 0.5 * start[name] if name[0] == "W" else 0.0
        np.testing.assert_allclose(decayed[name], g * 0.2 / norm + decay, atol=1e-12)
    loose, _ = movement(SGD(1.0), 1.01 * norm)
    for name, g in gradient.items():
        np.testing.assert_array_equal(loose[name], g)


@engines
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_biases_can_stay(engine, rule):
    """Without learned biases a network of rectifiers stays positively homogeneous"""
    stack, X, y, _ = floating_task("rectifier", np.float64, SIZES, n_rows=20)
    layers = [
        Layer(layer.W, np.zeros_like(layer.b), layer.activation, layer.signs)
        for layer in stack.layers
    ]
    network = engine(
        RectifierStack(layers, "softmax"), rule, options=StepOptions(fit_biases=False)
    )
    network.bind(X, y)
    for _ in range(5):
        network.step(np.arange(20))
    for before, after in zip(layers, network.stack().layers, strict=True):
        assert not after.b.any()
        assert (after.W != before.W).any()
    np.testing.assert_array_equal(network.forward(2.0 * X), 2.0 * network.forward(X))


@engines
@options_
@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_a_network_goes_on_from_a_state(engine, options, rule, sparse):
    """A new network that is given the state makes the same steps, bit for bit"""
    network = _bound(engine, rule, options, sparse=sparse)
    network.begin_epoch(3)
    for rows in (np.arange(8), np.array([2]), np.arange(5, 9)):
        network.step(rows)
    state = network.state()
    kept = {name: array.copy() for name, array in state.items()}
    rest = (np.array([9, 2]), np.arange(20), np.array([11]), np.arange(8))
    losses = [network.step(rows) for rows in rest]
    for name, array in state.items():
        np.testing.assert_array_equal(array, kept[name], err_msg=name)

    resumed = _bound(engine, rule, options, sparse=sparse)
    resumed.step(np.arange(7))
    resumed.set_state(state)
    assert [resumed.step(rows) for rows in rest] == losses
    for name, array in state.items():
        np.testing.assert_array_equal(array, kept[name], err_msg=name)
    assert resumed.stack() == network.stack()
    found, expected = resumed.state(), network.state()
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    assert resumed.forward_batch(np.arange(8)).tolist() == (
        network.forward_batch(np.arange(8)).tolist()
    )


@engines
def test_load_starts_batch_normalisation_anew(engine):
    """After `load` a network does what a new one does in the same epoch"""
    options = OPTIONS["all"]
    stack, _, _, _ = floating_task("rectifier", np.float64, SIZES, n_rows=20)
    network, new = (_bound(engine, Adam(0.01), options) for _ in range(2))
    network.begin_epoch(4)
    network.step(np.arange(8))
    network.load(stack)
    new.begin_epoch(4)
    for rows in (np.arange(8), np.arange(3, 9)):
        assert network.step(rows) == new.step(rows)
    assert network.stack() == new.stack()


@engines
def test_step_needs_classes_and_its_halves_do_not(engine):
    """Without y the two halves work, and `step` says what is missing"""
    stack, X, _, _ = floating_task("rectifier", np.float64, SIZES, n_rows=20)
    network = engine(stack, SGD(0.1))
    network.bind(X)
    outputs = network.forward_batch(np.arange(4))
    network.backward_batch(np.ones_like(outputs))
    assert network.stack() != stack
    with pytest.raises(ParameterError, match=r"bound without them\. Call bind\(X, y\)"):
        network.step(np.arange(4))


@engines
def test_a_state_that_does_not_fit_changes_nothing(engine):
    """Names, shapes and dtypes of a state are checked before any is used"""
    network = _bound(engine, SGD(0.1, momentum=0.9), OPTIONS["batch_norm"])
    network.step(np.arange(8))
    before = network.state()
    changed = {name: np.zeros_like(array) for name, array in before.items()}
    rest = {name: changed[name] for name in changed if name != "b.1"}
    for state, message in (
        (rest, r"lacks \['b.1'\] and has \[\], expected .* arrays and no others"),
        ({**changed, "b.9": np.ones(2)}, r"lacks \[\] and has \['b.9'\]"),
        (
            {**changed, "b.2": np.ones(2)},
            r"b.2 of the state is float64 of shape \(2,\)",
        ),
        (
            {**changed, "W.2": changed["W.2"].astype(np.float32)},
            r"W.2 of the state is float32 of shape \(4, 3\), expected float64 of shape "
            r"\(4, 3\). Give the state of a network of the same class",
        ),
    ):
        with pytest.raises(ParameterError, match=message):
            network.set_state(state)
        after = network.state()
        assert all((after[name] == before[name]).all() for name in before)
    adam = _bound(engine, Adam(0.1), OPTIONS["batch_norm"])
    with pytest.raises(ParameterError, match="the state lacks"):
        adam.set_state(before)


@engines
def test_options_that_do_not_fit_are_errors(engine):
    """An engine wants options, and a rate for the inputs and for each hidden layer"""
    stack, _, _, _ = floating_task("rectifier", np.float64, SIZES, n_rows=20)
    for n_rates in (1, 2, 4):
        options = StepOptions(dropout=(0.5,) * n_rates)
        with pytest.raises(
            ParameterError,
            match=f"dropout has {n_rates} rates, expected 3: one for the inputs and "
            "one for each of 2 hidden layers",
        ):
            engine(stack, SGD(0.1), options=options)
    with pytest.raises(ParameterError, match=r"options is None.*StepOptions\(\.\.\.\)"):
        engine(stack, SGD(0.1), options=None)


@engines
def test_epochs_are_numbered(engine):
    """An epoch that has no stream of random numbers is an error"""
    network = _bound(engine, SGD(0.1), OPTIONS["dropout"])
    with pytest.raises(ValueError, match="epoch is -1, expected an integer from 0"):
        network.begin_epoch(-1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dropout": 0.5}, "dropout is 0.5, expected a tuple of probabilities"),
        ({"dropout": (0.5, 1.0)}, "dropout is 1.0, expected a probability from 0 to"),
        ({"dropout": (-0.1,)}, "dropout is -0.1, expected a probability"),
        ({"dropout": (1.0 - 1e-12,)}, "expected a probability from 0 to below 1"),
        ({"dropout": (math.nan,)}, "dropout is nan.*Give 0 to drop nothing"),
        ({"l1_weights": -1.0}, "l1_weights is -1.0, expected a finite number of 0 or"),
        ({"l1_weights": math.inf}, "l1_weights is inf.*Give 0 for no penalty"),
        ({"max_norm": 0.0}, "max_norm is 0.0, expected a number above 0"),
        ({"clip_norm": -2.0}, "clip_norm is -2.0.*Give infinity for no bound"),
        ({"clip_norm": "1"}, "clip_norm is '1', expected a number above 0"),
        ({"seed": -1}, r"seed is -1, expected a whole number from 0 to 2\*\*64 - 1"),
        ({"seed": 2**64}, "seed is 18446744073709551616.*Give for example 0"),
        ({"seed": 0.5}, "seed is 0.5, expected a whole number"),
    ],
)
def test_options_out_of_range_are_errors(changes, message):
    """Each option says what it got, what it takes and what to do"""
    with pytest.raises(ParameterError, match=message):
        StepOptions(**changes)


def _bound(engine, rule, options, *, dtype=np.float64, sparse=False, weights=None):
    stack, X, y, some = floating_task("rectifier", dtype, SIZES, n_rows=20)
    network = engine(stack, rule, options=options)
    network.bind(csr(X) if sparse else X, y, some if weights is None else weights)
    return network


def _parameters(network):
    """Return parameters and running means, with all that an engine had put off."""
    network.stack()
    kinds = ("W", "b", "slopes", "gamma", "mean", "variance")
    state = network.state()
    return {name: state[name] for name in state if name.split(".")[0] in kinds}


def _assert_close(network, other):
    found, expected = _parameters(network), _parameters(other)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(
            found[name], array, rtol=1e-9, atol=1e-11, err_msg=name
        )
