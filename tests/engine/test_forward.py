"""The forward pass in pieces."""

import copy
import multiprocessing
import os
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from hardzero import kernels
from hardzero.engine import forward as module
from hardzero.engine.forward import ForwardPass
from hardzero.engine.initialise import initialise
from hardzero.errors import DataError

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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_does_not_wait_for_threads_it_does_not_have(stack):
    """A child predicts although another thread predicted when it was forked."""
    run = ForwardPass()
    expected = run(stack, X)

    def child():
        assert np.array_equal(run(stack, X), expected)

    process = multiprocessing.get_context("fork").Process(target=child)
    with run._lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
        process.start()
    process.join(30)
    process.kill()
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("engine", ["auto", "sparse", "dense", "reference"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csr_array])
def test_outputs_that_overflow_are_refused(stack, make, engine):
    """Inputs that a network cannot compute with are an error that names the row."""
    rows = X.copy()
    rows[[7, 9]] = 1.7e308
    with pytest.raises(DataError, match=r"row 7 of X.*up to 1\.7e\+308.*Scale the inp"):
        ForwardPass()(stack, make(rows), engine=engine)
