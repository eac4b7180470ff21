"""Reconstruction sampling: unbiased, equal to dense decoding where nothing is left out,
and in the compiled core what plain NumPy computes.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from strategies import csr

from hardzero.errors import DataError, ParameterError
from hardzero.kernels import _core
from hardzero.kernels.reference import ReferenceNetwork
from hardzero.kernels.rules import SGD, Adam
from hardzero.kernels.sampled import (
    SampledAutoencoder,
    SampledOutputs,
    backward_chosen,
    forward_chosen,
    sample_outputs,
)
from hardzero.kernels.statistics import LayerStatistics
from hardzero.random import row_hashes, stream_key
from hardzero.stack import Layer, RectifierStack

L1 = 0.05
N_FEATURES, N_UNITS, N_ROWS = 23, 5, 12
KEY = stream_key(0, "test", 1)


# ------------------------------------------------------------ compiled core


@st.composite
def choices(draw):
    """Draw a decoder, hidden activations and chosen outputs, all small integers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, n_outputs = draw(st.integers(1, 9)), draw(st.integers(1, 40))
    n_units = 8 * draw(st.integers(1, 40))
    is_chosen = rng.random((n_outputs, n_rows)) < draw(st.sampled_from([0.0, 0.1, 1.0]))
    columns, rows = (index.astype(np.int32) for index in np.nonzero(is_chosen))
    return (
        rng.integers(-3, 4, (n_outputs, n_units)).astype(np.float64),
        rng.integers(-3, 4, n_outputs).astype(np.float64),
        rng.integers(-3, 4, (n_rows, n_units)).astype(np.float64),
        columns,
        rows,
        rng.integers(-3, 4, len(rows)).astype(np.float64),
    )


@pytest.mark.parametrize("level", _core.usable_levels())
@settings(deadline=None, max_examples=50)
@given(choice=choices(), n_threads=st.sampled_from([1, 2, 5]))
def test_core_is_its_plain_twin(level, choice, n_threads):
    """Outputs, derivatives and updates are those of plain NumPy, to the last bit"""
    D, c, h, columns, rows, delta = choice
    twin_D, twin_c = D.copy(), c.copy()
    outputs = _core.forward_chosen(D, c, h, columns, rows, n_threads, level)
    assert outputs.tolist() == forward_chosen(D, c, h, columns, rows).tolist()
    dh = _core.backward_chosen(D, c, h, columns, rows, delta, 0.5, n_threads, level)
    expected = backward_chosen(twin_D, twin_c, h, columns, rows, delta, 0.5)
    assert dh.tolist() == expected.tolist()
    assert D.tolist() == twin_D.tolist()
    assert c.tolist() == twin_c.tolist()


@pytest.mark.parametrize("level", _core.usable_levels())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_core_does_not_depend_on_threads(dtype, level):
    """With any number of threads the same bits come out, close to those of NumPy"""
    rng = np.random.default_rng(0)
    D, h = rng.normal(size=(300, 272)).astype(dtype), rng.normal(size=(40, 272))
    c, h = rng.normal(size=300).astype(dtype), h.astype(dtype)
    places = np.nonzero(rng.random((300, 40)) < 0.3)
    columns, rows = (index.astype(np.int32) for index in places)
    delta = rng.normal(size=len(rows)).astype(dtype)
    results = []
    for n_threads in (1, 2, 3, 7):
        new_D, new_c = D.copy(), c.copy()
        where = new_D, new_c, h, columns, rows
        outputs = _core.forward_chosen(*where, n_threads, level)
        dh = _core.backward_chosen(*where, delta, 0.1, n_threads, level)
        results.append((outputs, dh, new_D, new_c))
    for other in results[1:]:
        for array, same in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(array, same)
    expected = forward_chosen(D, c, h, columns, rows)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(results[0][0], expected, atol=tolerance)
    expected = backward_chosen(D, c, h, columns, rows, delta, 0.1)
    for array, twin in zip(results[0][1:], (expected, D, c), strict=True):
        np.testing.assert_allclose(array, twin, atol=tolerance)


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ([1, 0], [0, 0]),
        ([0, 4], [0, 0]),
        ([-1, 0], [0, 0]),
        ([0, 1], [0, 2]),
        ([0], []),
    ],
)
def test_core_refuses_places_that_are_not_there(columns, rows):
    """Outputs out of order or out of range are refused, nothing is read there"""
    places = [np.array(index, dtype=np.int32) for index in (columns, rows)]
    D, c, h = np.zeros((4, 8)), np.zeros(4), np.zeros((2, 8))
    level = _core.active_level()
    with pytest.raises(ValueError, match="not sorted by column, or do not fit"):
        _core.forward_chosen(D, c, h, *places, 1, level)
    delta = np.zeros(len(columns))
    with pytest.raises(ValueError, match="not sorted by column, or do not fit"):
        _core.backward_chosen(D, c, h, *places, delta, 0.1, 1, level)


# ------------------------------------------------------------ what is drawn


def test_non_zeros_are_certain_and_zeros_are_drawn():
    """Each place comes once, ordered, with target and weight as documented"""
    clean, corrupted = _rows(seed=0), _rows(seed=1)
    sampled = sample_outputs(clean, corrupted, row_hashes(clean), KEY, 0.25)
    assert sampled.columns.dtype == sampled.rows.dtype == np.int32
    places = list(zip(sampled.columns.tolist(), sampled.rows.tolist(), strict=True))
    assert places == sorted(set(places))
    weights = np.zeros(clean.shape)
    weights[sampled.rows, sampled.columns] = sampled.weights
    certain = (clean.toarray() != 0) | (corrupted.toarray() != 0)
    assert (weights[certain] == 1.0).all()
    assert set(weights[~certain].tolist()) == {0.0, 4.0}
    targets = clean.toarray()[sampled.rows, sampled.columns]
    np.testing.assert_array_equal(sampled.targets, targets)


def test_zeros_are_drawn_independently_with_the_share():
    """Over many rows each column, and each pair of neighbours, is drawn as often as
    independent draws are, within five standard deviations
    """
    n_rows, n_columns, share = 40_000, 12, 0.3
    hashes = np.random.default_rng(0).integers(0, 2**64, n_rows, dtype=np.uint64)
    zeros = sp.csr_array((n_rows, n_columns))
    sampled = sample_outputs(zeros, zeros, hashes, KEY, share)
    drawn = np.zeros(zeros.shape)
    drawn[sampled.rows, sampled.columns] = 1.0
    deviation = np.sqrt(share * (1 - share) / n_rows)
    assert np.abs(drawn.mean(axis=0) - share).max() < 5 * deviation
    both = (drawn[:, 1:] * drawn[:, :-1]).mean(axis=0)
    deviation = np.sqrt(share**2 * (1 - share**2) / n_rows)
    assert np.abs(both - share**2).max() < 5 * deviation


def test_draws_belong_to_key_and_content_of_the_row():
    """Order and batch of rows do not matter, and stored zeros are zeros"""
    clean = _rows(seed=0)
    order = np.random.default_rng(0).permutation(N_ROWS)[:7]
    whole = _drawn_columns(clean, KEY)
    assert _drawn_columns(clean[order], KEY) == [whole[row] for row in order]
    stored = csr(clean.toarray(), explicit_zeros=np.ones(clean.shape, dtype=bool))
    assert _drawn_columns(stored, KEY) == whole
    assert _drawn_columns(clean, stream_key(0, "test", 2)) != whole


def test_draws_are_made_from_gaps():
    """A few of ten million columns are drawn without a look at the others"""
    zeros = sp.csr_array((3, 10_000_000), dtype=np.float32)
    sampled = sample_outputs(zeros, zeros, np.arange(3, dtype=np.uint64), KEY, 1e-5)
    assert 150 < len(sampled.rows) < 500
    assert sampled.columns.max() > 9_000_000
    assert (sampled.weights == np.float32(1e5)).all()


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, np.nan])
def test_refuses_other_shares(share):
    """A share that no draws can have raises an error that says what it may be"""
    X = _rows(seed=0)
    with pytest.raises(ParameterError, match=r"share is .* expected a number above 0"):
        sample_outputs(X, X, row_hashes(X), KEY, share)


def _drawn_columns(X, key):
    sampled = sample_outputs(X, X, row_hashes(X), key, 0.25)
    return [sampled.columns[sampled.rows == i].tolist() for i in range(X.shape[0])]


# --------------------------------------------------------------- the network


@pytest.mark.parametrize("activation", ["rectifier", "tanh", "prelu"])
def test_share_of_1_is_dense_decoding(activation):
    """With all outputs, ten weighted steps are those of the reference"""
    stack = _stack(activation)
    sampling = SampledAutoencoder(stack, SGD(0.1), l1_activation=L1)
    reference = ReferenceNetwork(stack, SGD(0.1), l1_activation=L1)
    rng = np.random.default_rng(0)
    for n in range(10):
        clean, corrupted = _rows(seed=n), _rows(seed=n + 100)
        weights = 0.1 + rng.random(N_ROWS)
        shares = weights / weights.sum()
        reference.bind(corrupted, None, weights)
        outputs = reference.forward_batch(np.arange(N_ROWS))
        terms, slopes = _cross_entropy(outputs, clean.toarray())
        reference.backward_batch(slopes * shares[:, np.newaxis])
        loss = _step(sampling, clean, corrupted, shares, share=1.0)
        assert loss == pytest.approx(shares @ terms.sum(axis=1), rel=1e-12)
    _assert_close(sampling.stack(), reference.stack())
    assert sampling.statistics() == reference.statistics()


def test_gradients_are_unbiased():
    """The mean of loss and gradients over keys is that of dense decoding, within four
    standard errors, for each parameter
    """
    stack = _stack("tanh")
    network = SampledAutoencoder(stack, SGD(1.0), l1_activation=L1)
    clean, corrupted = _rows(seed=0), _rows(seed=1)
    shares = np.arange(1.0, N_ROWS + 1) / np.arange(1.0, N_ROWS + 1).sum()

    def gradients(share, key):
        network.load(stack)
        loss = _step(network, clean, corrupted, shares, share, key)
        moved = network.stack().arrays()
        moves = [stack.arrays()[name] - moved[name] for name in ("1.W", "1.b", "2.W")]
        moves.append(stack.arrays()["2.b"] - moved["2.b"])
        return np.concatenate([[loss], *(move.ravel() for move in moves)])

    exact = gradients(1.0, KEY)
    drawn = [gradients(0.2, stream_key(0, "draw", n)) for n in range(1500)]
    error = np.std(drawn, axis=0, ddof=1) / np.sqrt(len(drawn))
    assert (error > 0.0).mean() > 0.8
    assert (np.abs(np.mean(drawn, axis=0) - exact) <= 4.0 * error + 1e-12).all()


def test_only_what_was_drawn_changes():
    """Weights and biases of outputs that were not computed stay as they are"""
    stack = _stack("rectifier")
    network = SampledAutoencoder(stack, SGD(0.1))
    clean, corrupted = _rows(seed=0)[:2], _rows(seed=1)[:2]
    sampled = sample_outputs(clean, corrupted, row_hashes(clean), KEY, 0.1)
    network.step(corrupted, sampled, np.full(2, 0.5), _cross_entropy)
    before, after = stack.layers[1], network.stack().layers[1]
    changed = (before.W != after.W).any(axis=0) | (before.b != after.b)
    assert changed.tolist() == np.isin(range(N_FEATURES), sampled.columns).tolist()
    assert not changed.all()


def test_a_row_of_weight_2_counts_as_two_rows():
    """Weight 2 is the same as the row twice, and share 0 as the row left out"""
    clean, corrupted = _rows(seed=0), _rows(seed=1)
    weighted = SampledAutoencoder(_stack("tanh"), SGD(0.1), l1_activation=L1)
    repeated = SampledAutoencoder(_stack("tanh"), SGD(0.1), l1_activation=L1)
    shares = np.array([2.0, 0.0, 1.0]) / 3.0
    losses = (
        _step(weighted, clean[[0, 1, 2]], corrupted[[0, 1, 2]], shares, 0.3),
        _step(repeated, clean[[0, 0, 2]], corrupted[[0, 0, 2]], np.full(3, 1 / 3), 0.3),
    )
    assert losses[0] == pytest.approx(losses[1])
    _assert_close(weighted.stack(), repeated.stack())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_do_not_change_what_is_learned(dtype):
    """Steps with three threads give the bits of steps with one"""
    stacks = []
    for n_threads in (1, 3):
        stack = _stack("rectifier", dtype)
        network = SampledAutoencoder(stack, SGD(0.1), n_threads=n_threads)
        for n in range(5):
            clean, corrupted = _rows(n, dtype), _rows(n + 100, dtype)
            _step(network, clean, corrupted, np.full(N_ROWS, 1 / N_ROWS), 0.3)
        stacks.append(network.stack())
    assert stacks[0] == stacks[1] != stack
    assert stacks[0].dtype == dtype


def test_outputs_are_the_stacks():
    """The dense forward pass gives what the stack gives, before and after steps"""
    for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-12)):
        X = _rows(0, dtype)
        network = SampledAutoencoder(_stack("prelu", dtype), SGD(0.1))
        assert network.stack() == _stack("prelu", dtype)
        _step(network, X, X, np.full(N_ROWS, 1 / N_ROWS), 0.5)
        for rows in (X, X.toarray()):
            outputs = network.forward(rows)
            assert outputs.dtype == dtype
            np.testing.assert_allclose(outputs, network.stack()(X), atol=tolerance)


def test_chosen_outputs_are_those_of_dense_decoding():
    """Outputs in chosen places are what the dense forward pass has there; no weight
    changes and no row is counted
    """
    network = SampledAutoencoder(_stack("tanh"), SGD(0.1))
    clean, corrupted = _rows(seed=0), _rows(seed=1)
    chosen = sample_outputs(clean, corrupted, row_hashes(clean), KEY, 0.3)
    outputs = network.outputs(corrupted, chosen)
    expected = network.forward(corrupted)[chosen.rows, chosen.columns]
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-13)
    assert network.stack() == _stack("tanh")
    assert network.statistics()[0].n_rows == 0


@pytest.mark.parametrize("activation", ["rectifier", "prelu"])
def test_goes_on_from_its_state_with_the_same_bits(activation):
    """A network that is given the state does what the old one would have done"""
    X, shares = _rows(seed=0), np.full(N_ROWS, 1 / N_ROWS)
    first = SampledAutoencoder(_stack(activation), SGD(0.1))
    _step(first, X, X, shares, 0.3)
    second = SampledAutoencoder(_stack(activation), SGD(0.1))
    second.set_state(first.state())
    for network in (first, second):
        for epoch in range(3):
            _step(network, X, X, shares, 0.3, stream_key(0, "test", epoch))
    assert second.stack() == first.stack()
    ends = first.state(), second.state()
    assert ends[0].keys() == ends[1].keys()
    assert all(np.array_equal(ends[0][name], ends[1][name]) for name in ends[0])
    with pytest.raises(ParameterError, match=r"the state lacks .*'D'"):
        second.set_state({})


def test_load_starts_anew_and_learning_rate_acts_at_once():
    """After `load` a network does what a new one does; with the rate 0, nothing"""
    X, shares, stack = _rows(seed=0), np.full(N_ROWS, 1 / N_ROWS), _stack("prelu")
    network = SampledAutoencoder(stack, SGD(0.1))
    losses = [_step(network, X, X, shares, 0.3) for _ in range(3)]
    network.load(stack)
    assert network.stack() == stack
    assert [_step(network, X, X, shares, 0.3) for _ in range(3)] == losses
    before = network.stack()
    network.set_learning_rate(0.0)
    _step(network, X, X, shares, 0.3)
    assert network.stack() == before
    with pytest.raises(ParameterError, match="learning_rate of SGD is -1"):
        network.set_learning_rate(-1.0)


def test_statistics_count_hidden_zeros_and_start_again():
    """Statistics count the hidden zeros of steps, not of `forward`"""
    encoder = Layer(np.eye(2, 3), np.zeros(3), "rectifier", signs=[-1, -1, -1])
    decoder = Layer(np.ones((3, 2)), np.zeros(2), "identity")
    network = SampledAutoencoder(RectifierStack([encoder, decoder]), SGD(0.0))
    X = sp.csr_array([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    _step(network, X, X, np.full(3, 1 / 3), 0.5)
    network.forward(X)
    fired = np.array([True, False, False])
    assert network.statistics() == [LayerStatistics(3, 2, fired)]
    assert network.statistics() == [LayerStatistics(0, 0, np.zeros(3, dtype=bool))]


def test_divergence_is_told_without_a_warning_or_an_update():
    """A step whose loss is not finite says so and changes nothing"""
    X, shares = _rows(seed=0), np.full(N_ROWS, 1 / N_ROWS)
    network = SampledAutoencoder(_stack("rectifier"), SGD(1e200))
    losses = [_step(network, X, X, shares, 0.3, loss=_squares) for _ in range(5)]
    assert not np.isfinite(losses[-1])
    before = network.state()
    assert not np.isfinite(_step(network, X, X, shares, 0.3, loss=_squares))
    after = network.state()
    assert all(np.array_equal(before[name], after[name], True) for name in before)


def test_refuses_what_it_cannot_train():
    """Other rules and stacks, and rows of another dtype, raise errors with a remedy"""
    stack = _stack("rectifier")
    for rule in (Adam(0.1), SGD(0.1, momentum=0.5), SGD(0.1, l2=0.1)):
        with pytest.raises(
            ParameterError, match=r"sampling needs plain .*solver='sgd'"
        ):
            SampledAutoencoder(stack, rule)
    with pytest.raises(ParameterError, match="the stack has 1 layers, expected 2"):
        SampledAutoencoder(stack.truncate(1), SGD(0.1))
    curved = Layer(stack.layers[1].W, stack.layers[1].b, "tanh")
    with pytest.raises(ParameterError, match=r"expected the activation 'identity' and"):
        SampledAutoencoder(RectifierStack([stack.layers[0], curved]), SGD(0.1))
    network = SampledAutoencoder(stack, SGD(0.1))
    with pytest.raises(ParameterError, match="expected the architecture and dtype"):
        network.load(stack.astype(np.float32))
    X = _rows(0, np.float32)
    with pytest.raises(DataError, match="X is float32 but the network is float64"):
        _step(network, X, X, np.full(N_ROWS, 1 / N_ROWS), 0.5)


def _stack(activation, dtype=np.float64):
    rng = np.random.default_rng(1)
    W = rng.normal(size=(N_FEATURES, N_UNITS)) / 3
    V, b = rng.normal(size=(N_UNITS, N_FEATURES)), 0.3 * rng.normal(size=N_UNITS)
    encoder = Layer(W, b, activation, rng.choice([-1, 1], N_UNITS))
    decoder = Layer(V, rng.normal(size=N_FEATURES), "identity")
    return RectifierStack([encoder, decoder]).astype(dtype)


def _rows(seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.random((N_ROWS, N_FEATURES))
    return csr((X * (rng.random(X.shape) < 0.2)).astype(dtype))


def _cross_entropy(a, x):
    return np.logaddexp(0, a) - x * a, expit(a) - x


def _squares(a, x):
    with np.errstate(over="ignore", invalid="ignore"):
        return (a - x) ** 2, 2 * (a - x)


def _step(network, clean, corrupted, shares, share, key=KEY, loss=_cross_entropy):
    sampled = sample_outputs(clean, corrupted, row_hashes(clean), key, share)
    assert isinstance(sampled, SampledOutputs)
    return network.step(corrupted, sampled, shares, loss)


def _assert_close(given_stack, expected):
    for name, array in expected.arrays().items():
        np.testing.assert_allclose(
            given_stack.arrays()[name], array, rtol=0, atol=1e-12, err_msg=name
        )
