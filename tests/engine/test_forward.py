"""The forward pass in pieces."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from hardzero import kernels
from hardzero.engine import forward as module
from hardzero.engine.forward import ForwardPass
from hardzero.engine.initialise import initialise

X = np.random.default_rng(0).standard_normal((50, 4)) * (
    np.random.default_rng(1).random((50, 4)) < 0.5
)


@pytest.fixture
def stack():
    """Return a network of two hidden layers."""
    return initialise([4, 6, 5, 3], ["rectifier"] * 2, seed=0, dtype=np.float64)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csr_array])
def test_pieces_change_nothing(stack, make, monkeypatch):
    """Outputs are the same in one piece and in pieces of a row or seven rows."""
    whole = ForwardPass()(stack, make(X))
    np.testing.assert_allclose(whole, stack(X), rtol=1e-12)
    for rows in (1, 7):
        monkeypatch.setattr(module, "_PIECE", 6 * rows)
        np.testing.assert_array_equal(ForwardPass()(stack, make(X)), whole)


def test_network_is_built_once(stack, monkeypatch):
    """The kernels are built again only for another stack, layer, engine or thread."""
    built = []

    def build(stack, rule, **options):
        built.append(stack.sizes)
        return original(stack, rule, **options)

    original = kernels.build
    monkeypatch.setattr(kernels, "build", build)
    run = ForwardPass()
    run(stack, X), run(stack, X)
    assert built == [(4, 6, 5, 3)]
    np.testing.assert_allclose(
        run(stack, X, n_layers=1), stack.truncate(1)(X), rtol=1e-12
    )
    run(stack, X, engine="dense"), run(stack, X, n_threads=2)
    run(stack.astype(np.float32), X.astype(np.float32))
    assert built[1:] == [(4, 6), (4, 6, 5, 3), (4, 6, 5, 3), (4, 6, 5, 3)]


def test_kernels_are_not_pickled(stack):
    """A pickle and a deep copy start without kernels, and work."""
    run = ForwardPass()
    before = run(stack, X)
    assert len(pickle.dumps(run)) < 100
    for other in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run)):
        np.testing.assert_array_equal(other(stack, X), before)


def test_threads_may_share(stack):
    """Calls from many threads give what a single thread gives."""
    run = ForwardPass()
    expected = run(stack, X)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: run(stack, X), range(50)))
    assert all(np.array_equal(result, expected) for result in results)
