"""Scaling columns, and making the scaling part of a network."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hardzero.cli.scaling import Scaling, ignore_empty_columns
from hardzero.errors import DataError
from hardzero.stack import Layer, RectifierStack


def rows(seed=0, n_rows=50):
    """Make columns of very different sizes, one constant and one empty."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5)) * [1, 1e-6, 1e3, 0, 0] + [0, 0, 1e6, 0.1, 0]
    X[:, :2] *= rng.random((n_rows, 2)) < 0.5
    return X


def network(seed=0):
    """Make a random network of two layers for such rows."""
    rng = np.random.default_rng(seed)
    hidden = Layer(rng.normal(size=(5, 8)), rng.normal(size=8), "rectifier")
    output = Layer(rng.normal(size=(8, 3)), rng.normal(size=3), "identity")
    return RectifierStack((hidden, output), "softmax").astype(np.float32)


def test_standard():
    """Mean 0 and deviation 1; constant columns become exactly 0."""
    X = rows()
    scaled = Scaling.measure(X, "standard").apply(X)
    assert scaled.dtype == np.float32
    assert np.allclose(scaled.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(scaled.std(axis=0), [1, 1, 1, 0, 0], atol=1e-5)
    assert (scaled[:, 3:] == 0).all()


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_maxabs(form):
    """The largest size of a column becomes 1, and zeros stay zeros."""
    X = form(rows())
    scaled = Scaling.measure(X, "maxabs").apply(X)
    dense = scaled.toarray() if sp.issparse(scaled) else scaled
    assert np.array_equal(dense != 0, rows() != 0)
    assert np.allclose(abs(dense).max(axis=0), [1, 1, 1, 1, 0])
    assert abs(dense).max() <= 1


def test_standard_does_not_shift_csr():
    """Sparse rows get deviation 1 and keep their zeros."""
    X = sp.csr_array(rows())
    scaled = Scaling.measure(X, "standard").apply(X).toarray()
    assert np.array_equal(scaled != 0, rows() != 0)
    assert np.allclose(scaled[:, :3].std(axis=0), 1, rtol=1e-3)


@pytest.mark.parametrize(
    ("X", "kind"),
    [
        (np.eye(3), "maxabs"),
        (np.ones((3, 3)), "standard"),
        (sp.csr_array(np.ones((3, 3))), "maxabs"),
    ],
)
def test_auto_keeps_zeros_where_there_are_many(X, kind):
    """Sparse or mostly zero: maxabs; else standard."""
    assert Scaling.measure(X, "auto").kind == kind


@given(seed=st.integers(0, 1000), kind=st.sampled_from(["standard", "maxabs", "none"]))
def test_the_folded_network_takes_unscaled_rows(seed, kind):
    """It gives what the network gives for scaled rows, up to float32's rounding."""
    X = rows(seed)
    scaling = Scaling.measure(X, kind)
    stack = network(seed)
    folded = scaling.fold_into(stack)
    wanted = stack(scaling.apply(X))
    scale = np.abs(wanted).max()
    assert np.allclose(folded(X) / scale, wanted / scale, atol=1e-5)


def test_no_scaling_changes_nothing():
    """The same stack, in float32."""
    stack = network()
    scaling = Scaling.measure(rows(), "none")
    assert scaling.fold_into(stack) is stack
    assert np.array_equal(scaling.apply(rows()), rows().astype(np.float32))


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
@pytest.mark.parametrize("kind", ["standard", "maxabs"])
@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e300])
def test_columns_of_any_size_are_scaled_alike(form, kind, size):
    """No square of a value overflows or vanishes, nor does the folded network."""
    X = rows()[:, :1]
    small, large = form(X), form(X * size)
    scaling = Scaling.measure(large, kind)
    expected = Scaling.measure(small, kind).apply(small)
    found = scaling.apply(large)
    assert abs(found - expected).max() < 1e-5
    layer = Layer([[1.0, -1.0]], [0.0, 0.0], "identity")
    stack = RectifierStack((layer,), "softmax")
    wanted = stack(expected.toarray() if sp.issparse(expected) else expected)
    assert np.allclose(scaling.fold_into(stack)(X * size), wanted, atol=1e-5)


@pytest.mark.parametrize("value", [1e-310, -0.1, 1e17, 1e300])
def test_constant_columns_of_any_size_become_zero(value):
    """Also in the folded network, where they must not swallow other columns."""
    X = np.column_stack([np.full(9, value), np.arange(9.0)])
    if abs(value) < 1e-300:
        with pytest.raises(DataError, match=r"Column 0 has values that are too small"):
            Scaling.measure(X, "standard")
        return
    scaling = Scaling.measure(X, "standard")
    scaled = scaling.apply(X)
    assert (scaled[:, 0] == 0).all()
    stack = RectifierStack((Layer(np.eye(2), [0.0, 0.0], "identity"),), "softmax")
    assert np.allclose(scaling.fold_into(stack)(X), stack(scaled), atol=1e-5)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.0, 1e-320], "standard"),
        ([0.0, 1e-320], "maxabs"),
        ([-1.7e308, 1.7e308], "standard"),
        ([0.0, 1e300], "none"),
    ],
)
@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_columns_that_cannot_be_scaled_are_named(values, kind, form):
    """A scale that is not a normal number, and a value beyond float32, are refused."""
    X = form(np.column_stack([[0.0, 1.0], values]))
    with pytest.raises(DataError, match=r"Column 'b' has values that are too"):
        Scaling.measure(X, kind, ("a", "b")).apply(X)


def test_weights_that_overflow_are_refused():
    """A column so small that a weight for it is beyond float64 is named."""
    layer = Layer([[1e9]], [0.0], "identity")
    scaling = Scaling.measure(np.array([[0.0], [1e-307]]), "maxabs")
    with pytest.raises(DataError, match=r"Column 0 .* a weight cannot be stored"):
        scaling.fold_into(RectifierStack((layer,), "softmax"))


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_columns_without_values_get_no_weights(form):
    """What was never seen does not count, and the rest stays as it was."""
    stack, X = network(), form([[1.0, 0, 0, 2, 0], [3, 0, 0, 0, 0]])
    found = ignore_empty_columns(stack, X)
    assert not found.layers[0].W[[1, 2, 4]].any()
    assert np.array_equal(found.layers[0].W[[0, 3]], stack.layers[0].W[[0, 3]])
    assert found.layers[1:] == stack.layers[1:]
    assert found.output_link == stack.output_link
    assert np.array_equal(found(X), stack(X))
    assert ignore_empty_columns(stack, form(np.eye(5))) is stack
