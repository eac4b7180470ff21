"""What every engine promises, and the errors of those who hold it wrong."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from strategies import csr, floating_task

from hardzero.errors import DataError, ParameterError
from hardzero.kernels.dense import DenseNetwork
from hardzero.kernels.network import Network
from hardzero.kernels.reference import ReferenceNetwork
from hardzero.kernels.rules import SGD, Adam
from hardzero.kernels.sparse import SparseNetwork
from hardzero.kernels.statistics import LayerStatistics
from hardzero.stack import Layer, RectifierStack

ENGINES = [ReferenceNetwork, DenseNetwork, SparseNetwork]
RULES = [SGD(0.1, l2=0.01), SGD(0.1, momentum=0.9), Adam(0.01)]
SIZES = (12, 9, 7, 3)

DAMAGES = [
    {"indices": [0, 12]},
    {"indices": [0, -1]},
    {"indptr": [0, 2, 1, *[2] * 18]},
    {"indptr": [0, 5, *[0] * 19]},
    {"indptr": [0, *[9] * 20]},
    {"indptr": [1, *[2] * 20]},
    {"indptr": [0, 2]},
]


def _damaged(**changes):
    X = sp.csr_array(([1.0, 1.0], [0, 1], [0, *[2] * 20]), shape=(20, 12))
    for name, values in changes.items():
        setattr(X, name, np.array(values, dtype=np.int32))
    return X


pytestmark = pytest.mark.parametrize("engine", ENGINES)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forward_is_the_stacks(engine, dtype, sparse):
    """Outputs are those of the stack, in its dtype and in memory of their own"""
    network, X, _ = _bound(engine, dtype=dtype, sparse=sparse)
    outputs = network.forward(X)
    expected = network.stack()(X)
    assert outputs.dtype == dtype
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    network.step(np.arange(4))
    network.forward(X)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_step_is_its_two_halves(engine, rule):
    """A step is forward_batch, the loss and its derivative, and backward_batch"""
    whole, _, y = _bound(engine, rule)
    halves, _, _ = _bound(engine, rule)
    for rows in (np.arange(5), np.arange(3, 9)):
        loss = whole.step(rows)
        scores = halves.forward_batch(rows)
        p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        assert loss == pytest.approx(-np.log(p[range(len(rows)), y[rows]]).mean())
        delta = (p - np.eye(3)[y[rows]]) / len(rows)
        before = delta.copy()
        halves.backward_batch(delta)
        np.testing.assert_array_equal(delta, before)
    _assert_close(whole.stack(), halves.stack())


def test_a_row_of_weight_2_counts_as_two_rows(engine):
    """Weight 2 is the same as the row twice, weight 0 as the row left out"""
    weights = np.ones(20)
    weights[0], weights[1] = 2.0, 0.0
    weighted, _, _ = _bound(engine, weights=weights, l1_activation=0.1)
    repeated, _, _ = _bound(engine, l1_activation=0.1)
    losses = weighted.step(np.array([0, 1, 2])), repeated.step(np.array([0, 0, 2]))
    assert losses[0] == pytest.approx(losses[1])
    _assert_close(weighted.stack(), repeated.stack())


def test_weights_of_zero_give_no_gradient(engine):
    """A batch whose weights are all 0 has loss 0 and changes nothing"""
    network, _, _ = _bound(engine, SGD(0.1), weights=np.zeros(20), l1_activation=1.0)
    before = network.stack()
    assert network.step(np.arange(4)) == 0.0
    assert network.stack() == before


def test_silent_units_do_not_move(engine):
    """The penalty on activations has derivative 0 where a unit puts out 0"""
    layers = [
        Layer(np.ones((2, 3)), np.full(3, -9.0), "rectifier"),
        Layer(np.ones((3, 2)), np.zeros(2), "identity"),
    ]
    stack = RectifierStack(layers, "softmax")
    network = engine(stack, SGD(1.0), l1_activation=1.0)
    network.bind(np.ones((4, 2)), np.array([0, 1, 0, 1]))
    network.step(np.arange(4))
    assert network.stack() == stack


def test_penalty_pulls_active_units_to_zero(engine):
    """The penalty lowers |h| of hidden units of either sign, and no output"""
    layers = [
        Layer(np.ones((1, 2)), np.zeros(2), "rectifier", signs=[1, -1]),
        Layer(np.ones((2, 2)), np.ones(2), "identity"),
    ]
    network = engine(RectifierStack(layers, "softmax"), SGD(1.0), l1_activation=0.25)
    network.bind(np.ones((2, 1)), np.array([0, 1]))
    network.forward_batch(np.array([0, 1]))
    network.backward_batch(np.zeros((2, 2)))
    hidden, output = network.stack().layers
    assert hidden.W.tolist() == [[0.75, 0.75]]
    assert hidden.b.tolist() == [-0.25, -0.25]
    assert output == layers[1]


def test_statistics_count_zeros_and_start_again(engine):
    """Statistics count the rows of steps, not of `forward`, and then start from 0"""
    layers = [
        Layer(np.eye(2, 3), np.zeros(3), "rectifier", signs=[-1, -1, -1]),
        Layer(np.ones((3, 2)), np.ones(2), "identity"),
    ]
    network = engine(RectifierStack(layers, "softmax"), SGD(0.0))
    X = np.array([[1.0, -1.0], [2.0, -1.0], [-1.0, -1.0]])
    network.bind(X, np.array([0, 1, 0]))
    network.step(np.array([0, 1]))
    network.step(np.array([2]))
    network.forward(X)
    (counts,) = network.statistics()
    assert counts == LayerStatistics(3, 2, np.array([True, False, False]))
    assert counts.sparsity == pytest.approx(7 / 9)
    assert counts.dead_units == 2
    (empty,) = network.statistics()
    assert empty == LayerStatistics(0, 0, np.zeros(3, dtype=bool))
    assert np.isnan(empty.sparsity)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_load_starts_anew(engine, rule):
    """After `load` a network does what a new one does, at the same learning rate"""
    network, _, _ = _bound(engine, rule)
    start = network.stack()
    network.set_learning_rate(0.05)
    first = [network.step(np.arange(n, n + 5)) for n in range(3)]
    end = network.stack()
    network.load(start)
    assert network.stack() == start
    assert [network.step(np.arange(n, n + 5)) for n in range(3)] == first
    assert network.stack() == end


def test_stacks_are_copies(engine):
    """Neither the stack it was built from nor one it returned changes by a step"""
    stack, X, y, _ = floating_task("prelu", np.float64, SIZES, n_rows=20)
    twin, _, _, _ = floating_task("prelu", np.float64, SIZES, n_rows=20)
    network = engine(stack, SGD(0.1))
    network.bind(X, y)
    returned = network.stack()
    network.step(np.arange(20))
    assert stack == returned == twin
    assert network.stack() != twin


def test_set_learning_rate_acts_at_once(engine):
    """The next step uses the new rate: twice the rate, twice the movement"""
    network, _, _ = _bound(engine, SGD(0.25))
    start = network.stack().layers[0].b
    network.step(np.arange(5))
    once = network.stack().layers[0].b - start
    again, _, _ = _bound(engine, SGD(0.25))
    again.set_learning_rate(0.5)
    again.step(np.arange(5))
    np.testing.assert_allclose(again.stack().layers[0].b - start, 2.0 * once)
    with pytest.raises(ParameterError, match="learning_rate of SGD is -1"):
        again.set_learning_rate(-1.0)


def test_divergence_is_silent_and_visible(engine):
    """A step whose loss is not finite says so, without a warning or an update"""
    network, _, _ = _bound(engine, SGD(1e200), dtype=np.float64)
    losses = [network.step(np.arange(5)) for _ in range(6)]
    assert not np.isfinite(losses[-1])
    before = network.stack()
    assert not np.isfinite(network.step(np.arange(5)))
    assert network.stack() == before


def test_refuses_steps_it_cannot_take(engine):
    """Steps out of turn raise errors that say what to call first"""
    stack, X, y, _ = floating_task("rectifier", np.float64, SIZES, n_rows=20)
    network = engine(stack, SGD(0.1))
    with pytest.raises(ParameterError, match=r"Call bind\(X, y\) first"):
        network.step(np.arange(4))
    network.bind(X, y)
    with pytest.raises(ParameterError, match="batch has 0 rows, expected at least 1"):
        network.step(np.arange(0))
    with pytest.raises(ParameterError, match="Call forward_batch before each"):
        network.backward_batch(np.zeros((4, 3)))
    network.forward_batch(np.arange(4))
    with pytest.raises(
        ParameterError, match=r"shape \(3, 4\), expected float64 of .*4, 3"
    ):
        network.backward_batch(np.zeros((3, 4)))
    network.backward_batch(np.zeros((4, 3)))
    with pytest.raises(ParameterError, match="Call forward_batch before each"):
        network.backward_batch(np.zeros((4, 3)))

    network = engine(RectifierStack(stack.layers, "sigmoid"), SGD(0.1))
    network.bind(X, y)
    with pytest.raises(ParameterError, match=r"link 'sigmoid'\. Build the stack with"):
        network.step(np.arange(4))
    assert network.forward_batch(np.arange(4)).shape == (4, 3)


def test_refuses_settings_out_of_range(engine):
    """Settings that no network can have raise errors that name them"""
    stack, *_ = floating_task("rectifier", np.float64, SIZES, n_rows=20)
    with pytest.raises(ParameterError, match="stack is a list, expected a Rect"):
        engine([1], SGD(0.1))
    with pytest.raises(ParameterError, match=r"rule is 0\.1, expected an update rule"):
        engine(stack, 0.1)
    with pytest.raises(ParameterError, match="l1_activation is -1"):
        engine(stack, SGD(0.1), l1_activation=-1.0)
    with pytest.raises(
        ParameterError, match=r"n_threads is 0, expected a whole .* 1024"
    ):
        engine(stack, SGD(0.1), n_threads=0)
    with pytest.raises(ParameterError, match=f"n_threads is {2**31}, expected a whole"):
        engine(stack, SGD(0.1), n_threads=2**31)
    with pytest.raises(
        ParameterError, match=r"l1_activation is 10+, expected a finite"
    ):
        engine(stack, SGD(0.1), l1_activation=10**400)


def test_refuses_stacks_of_another_shape(engine):
    """Only a stack of the same sizes, activations, link and dtype can be loaded"""
    network, _, _ = _bound(engine)
    stack = network.stack()
    others = [
        stack.astype(np.float32),
        RectifierStack(stack.layers, "sigmoid"),
        stack.truncate(2),
        floating_task("tanh", np.float64, SIZES, n_rows=1)[0],
    ]
    for other in others:
        with pytest.raises(ParameterError, match="expected the architecture and dtype"):
            network.load(other)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((20, 12))[:, ::-1], "C-contiguous ndarray or a CSR matrix. Use"),
        (sp.csc_array(np.eye(20, 12)), "X is a csc matrix"),
        ([[0.0] * 12] * 20, "X is a list"),
        (np.zeros((20, 11)), r"X has shape \(20, 11\), expected \(n_rows, 12\)"),
        (np.zeros(12), r"X has shape \(12,\), expected"),
        (
            np.zeros((20, 12), dtype=np.float32),
            "X is float32 but the network is float64",
        ),
        (
            sp.csr_array(([1.0, 1.0], [3, 2], [0, *[2] * 20]), shape=(20, 12)),
            "unsorted or duplicate entries",
        ),
        *((_damaged(**change), "a damaged csr matrix") for change in DAMAGES),
    ],
)
def test_refuses_inputs_it_cannot_read(engine, X, message):
    """Inputs of the wrong kind, shape or dtype raise errors that say what is right"""
    stack, _, y, _ = floating_task("rectifier", np.float64, SIZES, n_rows=20)
    network = engine(stack, SGD(0.1))
    with pytest.raises(DataError, match=message):
        network.bind(X, y)
    with pytest.raises(DataError, match=message):
        network.forward(X)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.zeros(19, dtype=np.int64)}, r"shape \(19,\), expected int64 of .*20"),
        ({"y": np.zeros(20)}, "y is float64"),
        ({"y": np.full(20, 3)}, "classes from 3 to 3, expected 0 to 2"),
        ({"y": np.full(20, -1)}, "classes from -1 to -1"),
        (
            {"sample_weight": np.ones(3)},
            r"sample_weight has shape \(3,\), expected \(20",
        ),
        ({"sample_weight": np.full(20, -1.0)}, "a negative or non-finite entry"),
        ({"sample_weight": np.full(20, np.nan)}, "a negative or non-finite entry"),
    ],
)
def test_refuses_targets_it_cannot_use(engine, changes, message):
    """Classes out of range and unusable weights raise errors that say what is right"""
    stack, X, y, _ = floating_task("rectifier", np.float64, SIZES, n_rows=20)
    with pytest.raises(DataError, match=message):
        engine(stack, SGD(0.1)).bind(**{"X": X, "y": y, **changes})


def test_methods_are_documented_by_the_protocol(engine):
    """Each method of the protocol is there, with its signature and documentation"""
    names = [name for name in vars(Network) if not name.startswith("_")]
    assert len(names) == 12
    for name in names:
        method, promised = getattr(engine, name), getattr(Network, name)
        assert inspect.signature(method) == inspect.signature(promised)
        assert inspect.getdoc(method) == inspect.getdoc(promised)


def _bound(
    engine, rule=RULES[0], dtype=np.float64, sparse=False, weights=None, **options
):
    stack, X, y, _ = floating_task("rectifier", dtype, SIZES, n_rows=20)
    network = engine(stack, rule, **options)
    X = csr(X) if sparse else X
    network.bind(X, y, weights)
    return network, X, y


def _assert_close(given, expected):
    for name, array in expected.arrays().items():
        np.testing.assert_allclose(given.arrays()[name], array, rtol=0, atol=1e-12)
