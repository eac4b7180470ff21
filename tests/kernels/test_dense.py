"""The dense network: the reference's numbers without the reference's memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import csr, exact_rules, floating_task, problems, short_problems
from threadpoolctl import threadpool_info, threadpool_limits

from hardzero.activations import CATALOGUE
from hardzero.kernels.dense import DenseNetwork
from hardzero.kernels.options import StepOptions
from hardzero.kernels.reference import ReferenceNetwork
from hardzero.kernels.rules import SGD, Adam
from hardzero.stack import Layer, RectifierStack

SIZES = (30, 300, 33, 5)  # 300 x 33 is more than one block of the update
RULES = [
    SGD(0.1),
    SGD(0.1, l2=0.01),
    SGD(0.1, momentum=0.9),
    SGD(0.1, momentum=0.9, l2=0.01),
    SGD(0.1, momentum=0.9, nesterov=True),
    SGD(0.1, momentum=0.9, nesterov=True, l2=0.01),
    Adam(0.01),
    Adam(0.01, l2=0.01),
]


@given(problem=problems(), rule=exact_rules(), sparse=st.booleans())
def test_equals_the_reference_with_integers(problem, rule, sparse):
    """One update of a network of integers equals the reference's with ``==``"""
    expected = problem.train(ReferenceNetwork, rule)
    assert problem.train(DenseNetwork, rule, sparse=sparse) == expected


@given(problem=short_problems(), rule=exact_rules(), sparse=st.booleans())
def test_equals_the_reference_over_two_batches(problem, rule, sparse):
    """The second update, with momentum and weight decay, equals too"""
    expected = problem.train(ReferenceNetwork, rule)
    assert problem.train(DenseNetwork, rule, sparse=sparse) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_follows_the_reference(rule, sparse, dtype):
    """Losses, weights and counts follow the reference over batches of any size"""
    stack, X, y, weights = floating_task("rectifier", dtype, SIZES, n_rows=40)
    networks = [
        engine(stack, rule, l1_activation=0.01)
        for engine in (ReferenceNetwork, DenseNetwork)
    ]
    rng = np.random.default_rng(1)
    for network in networks:
        network.bind(csr(X) if sparse else X, y, weights)
    for size in (8, 3, 1, 17, 1, 8):
        rows = rng.choice(len(X), size)  # the same row may come twice
        losses = [network.step(rows) for network in networks]
        assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    _assert_close(networks, dtype)


@pytest.mark.parametrize("name", CATALOGUE)
def test_follows_the_reference_for_every_activation(name):
    """Every activation of the catalogue trains as in the reference"""
    stack, X, y, weights = floating_task(name, np.float64, SIZES, n_rows=40)
    networks = [
        engine(stack, SGD(0.1), l1_activation=0.01)
        for engine in (ReferenceNetwork, DenseNetwork)
    ]
    for network in networks:
        network.bind(X, y, weights)
        for rows in np.arange(24).reshape(3, 8):
            network.step(rows)
    _assert_close(networks, np.float64)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("size", [1, 16])
def test_allocates_nothing_large(rule, size):
    """After the first step, no step allocates as much as one weight matrix"""
    rng = np.random.default_rng(0)
    layers = [
        Layer(rng.normal(size=(400, 400)), np.zeros(400), "rectifier"),
        Layer(rng.normal(size=(400, 400)), np.zeros(400), "identity"),
    ]
    network = DenseNetwork(RectifierStack(layers, "softmax"), rule)
    network.bind(rng.normal(size=(16, 400)), np.arange(16))
    rows = np.arange(size)
    network.step(rows)
    tracemalloc.start()
    try:
        network.step(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 400 * 400 * 8 / 4


def test_restores_the_threads_of_blas():
    """The number of BLAS threads is what it was after each call"""
    stack, X, y, _ = floating_task("rectifier", np.float64, SIZES, n_rows=40)
    network = DenseNetwork(stack, SGD(0.1), n_threads=2)
    network.bind(X, y)
    with threadpool_limits(1, user_api="blas"):
        network.step(np.arange(4))
        network.forward(X)
        blas = [i for i in threadpool_info() if i["user_api"] == "blas"]
        assert all(library["num_threads"] == 1 for library in blas)


def test_decay_is_not_rounded_away():
    """In float32, decay too weak to move an idle weight still moves a busy one"""
    rule = SGD(1e-3, l2=1e-5)  # 1 - 1e-8 is 1 in float32
    stack = RectifierStack([Layer(np.full((1, 8), 4.0), np.zeros(8), "identity")])
    exact = ReferenceNetwork(stack, rule)
    rounded = DenseNetwork(stack.astype(np.float32), rule)
    for network, dtype in ((exact, np.float64), (rounded, np.float32)):
        network.bind(np.ones((1, 1), dtype=dtype), np.zeros(1, dtype=np.int64))
        rng = np.random.default_rng(0)
        for _ in range(2000):
            network.forward_batch(np.zeros(1, dtype=np.int64))
            network.backward_batch(rng.normal(size=(1, 8)).astype(dtype))
    decay = 2000 * 1e-3 * 1e-5 * 4.0
    difference = rounded.stack().layers[0].W - exact.stack().layers[0].W
    assert abs(difference.mean()) < 0.2 * decay


def _assert_close(networks, dtype):
    atol = 2e-5 if dtype == np.float32 else 1e-12
    expected, given = (network.stack().arrays() for network in networks)
    for name, array in expected.items():
        assert given[name].dtype == dtype
        np.testing.assert_allclose(given[name], array, rtol=0, atol=atol, err_msg=name)
    assert networks[0].statistics() == networks[1].statistics()


def test_clipping_where_no_input_occurs():
    """A batch of empty CSR rows is clipped as the reference clips it."""
    stack, X, y, _ = floating_task("rectifier", np.float64, SIZES, n_rows=4)
    arrays = []
    for engine in (ReferenceNetwork, DenseNetwork):
        network = engine(stack, SGD(0.1), options=StepOptions(clip_norm=1e-3))
        network.bind(csr(np.zeros_like(X)), y)
        network.step(np.arange(4))
        arrays.append(network.stack().arrays())
    for name, expected in arrays[0].items():
        np.testing.assert_allclose(arrays[1][name], expected, rtol=1e-12)
