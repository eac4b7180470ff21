"""Noise: what it depends on, how often it strikes, and what it leaves alone."""

import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from hardzero.engine import corruptors
from hardzero.engine.corruption import parse_corruption
from hardzero.errors import ParameterError
from hardzero.random import row_hashes, stream_key, uniforms

KEY = stream_key(7, "corruption", 1)
SPARSE = (
    "none",
    "masking(0.25)",
    "salt_and_pepper(0.8, 0.02)",
    "salt_and_pepper(0.7, density)",
    "swap(0.3)",
)
ALL = (*SPARSE, "gaussian(0.3)")


def _rows(n=300, d=90, density=0.2, dtype=np.float32, seed=0):
    """Return rows with few different values; most are there twice, some are zeros."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 6, (n, d)) / 4 * (rng.random((n, d)) < density)
    X[[3, 8]] = 0
    X[n // 2 + 1 :] = X[1 : n - n // 2]
    return np.ascontiguousarray(X, dtype=dtype)


def _noisy(spelling, X, train=None, weight=None, key=KEY):
    corruptor = parse_corruption(spelling).fit(X if train is None else train, weight)
    return corruptor(X, row_hashes(X), key)


def _near(share, probability, n):
    """Whether a share of n trials is within 4 standard errors."""
    return abs(share - probability) <= 4 * math.sqrt(
        probability * (1 - probability) / n
    )


# -------------------------------------------------------- what it depends on


@pytest.mark.parametrize(
    ("spelling", "form"),
    [(spelling, np.asarray) for spelling in ALL]
    + [(spelling, sp.csr_array) for spelling in SPARSE],
)
def test_rows_have_noise_of_their_own(spelling, form):
    """Neither the order of rows nor their batch matters; equal rows fare alike."""
    X = _rows(d=91)
    corruptor = parse_corruption(spelling).fit(form(X))
    hashes = row_hashes(X)

    def noisy(rows):
        result = corruptor(form(X)[rows], hashes[rows], KEY)
        return result.toarray() if sp.issparse(result) else result

    whole = noisy(slice(None))
    shuffled = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_array_equal(noisy(shuffled), whole[shuffled])
    for size in (1, 2, 3, 7, 16, 50):
        for start in (0, 1, 2, 30):
            rows = slice(start, start + size)
            np.testing.assert_array_equal(noisy(rows), whole[rows])
    np.testing.assert_array_equal(whole[151:], whole[1:150])
    np.testing.assert_array_equal(whole[3], whole[8])
    assert noisy(slice(0, 0)).shape == (0, 91)


@pytest.mark.parametrize("spelling", SPARSE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix])
def test_dense_and_sparse_rows_fare_alike(spelling, dtype, form):
    """CSR rows get the noise of dense rows to the last bit, and stay canonical CSR."""
    X = _rows(dtype=dtype) * dtype(math.pi)
    dense, sparse = _noisy(spelling, X), _noisy(spelling, form(X))
    assert type(dense) is np.ndarray
    assert dense.flags.c_contiguous
    assert type(sparse) is form
    assert dense.dtype == sparse.dtype == dtype
    assert sparse.indices.dtype == form(X).indices.dtype
    np.testing.assert_array_equal(sparse.toarray(), dense)
    again = form((sparse.data, sparse.indices, sparse.indptr), shape=sparse.shape)
    assert again.has_canonical_format
    assert sparse.data.all()


@pytest.mark.parametrize("spelling", SPARSE)
def test_stored_zeros_are_zeros(spelling):
    """Zeros that a CSR matrix stores change nothing, and the matrix is left alone."""
    X = _rows()
    full = sp.csr_array(np.ones_like(X))
    full.data = X.ravel().copy()
    noisy = _noisy(spelling, full)
    np.testing.assert_array_equal(noisy.toarray(), _noisy(spelling, X))
    assert noisy.data.all()
    assert full.nnz == X.size
    np.testing.assert_array_equal(full.toarray(), X)


@pytest.mark.parametrize("spelling", ALL)
def test_inputs_are_left_alone(spelling):
    """Noise makes a new matrix."""
    X = _rows()
    before = X.copy()
    noisy = _noisy(spelling, X)
    np.testing.assert_array_equal(X, before)
    assert (noisy is X) is (spelling == "none")


@pytest.mark.parametrize("spelling", ALL[1:])
def test_keys_have_noise_of_their_own(spelling):
    """Another epoch has other noise, the same key the same."""
    X = _rows()
    first = _noisy(spelling, X)
    np.testing.assert_array_equal(first, _noisy(spelling, X))
    other = _noisy(spelling, X, key=stream_key(7, "corruption", 2))
    assert (first != other)[X.any(axis=1)].any(axis=1).mean() > 0.9


@pytest.mark.parametrize("spelling", ALL[1:])
def test_hashes_decide(spelling):
    """Rows made from others, such as hidden layers, have the noise of the others."""
    X = np.ones((200, 40), dtype=np.float32)
    train = np.concatenate([X, 2 * X, np.zeros((600, 40), dtype=np.float32)])
    corruptor = parse_corruption(spelling).fit(train)
    own = corruptor(X, np.arange(200, dtype=np.uint64), KEY)
    assert len(np.unique(own, axis=0)) > 150
    same = corruptor(X, np.zeros(200, dtype=np.uint64), KEY)
    assert len(np.unique(same, axis=0)) == 1


@pytest.mark.parametrize("spelling", SPARSE)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_weights_count_rows(spelling, form):
    """Training rows with weights are as good as repeated rows, in any order."""
    X, rows = _rows(60), _rows(seed=1)
    weight = np.random.default_rng(2).integers(0, 4, len(X)).astype(np.float32)
    repeated = np.repeat(X, weight.astype(int), axis=0)[::-1].copy()
    weighted = _noisy(spelling, rows, form(X), weight)
    np.testing.assert_array_equal(weighted, _noisy(spelling, rows, form(repeated)))
    kept = weight > 0
    np.testing.assert_array_equal(
        weighted, _noisy(spelling, rows, form(X[kept]), weight[kept])
    )
    if spelling.endswith(("density)", "(0.3)")):
        assert (weighted != _noisy(spelling, rows, form(X))).any()


@pytest.mark.parametrize("spelling", SPARSE)
def test_training_set_in_pieces(spelling, monkeypatch):
    """How a training set is cut to be read does not show."""
    X, rows = _rows(), _rows(seed=1)
    whole = _noisy(spelling, rows, X)
    for size in (1, 1000):
        monkeypatch.setattr(corruptors, "_BLOCK_ENTRIES", size)
        for form in (X, sp.csr_array(X)):
            np.testing.assert_array_equal(_noisy(spelling, rows, form), whole)


# -------------------------------------------------------- what becomes of rows


def _arrivals(row_hash, lengths):
    """Return the columns that are hit, one point at a time."""
    u = uniforms(stream_key(int(KEY), "on", 0), [row_hash], 1000)[0]
    ends, point, hit = np.cumsum(lengths), 0.0, set()
    for number in u:
        point -= math.log1p(-float(number))
        if point >= ends[-1]:
            return hit
        hit.add(int(np.argmax(ends > point)))
    raise AssertionError("too few numbers")


def test_masking_is_its_formula():
    """Entries whose number lies below the rate become 0, the others stay."""
    X = _rows()
    masked = uniforms(KEY, row_hashes(X), X.shape[1]) < 0.25
    np.testing.assert_array_equal(_noisy("masking(0.25)", X), np.where(masked, 0, X))


def test_salt_and_pepper_is_its_formula():
    """Non-zeros turn off by their numbers; zeros turn on where points fall."""
    X = _rows(40)
    hashes = row_hashes(X)
    is_off = uniforms(KEY, hashes, X.shape[1]) < np.float32(0.6)
    expected = np.where(is_off, 0, X)
    lengths = np.full(X.shape[1], -math.log1p(-0.1))
    for i, row_hash in enumerate(hashes):
        for j in _arrivals(row_hash, lengths):
            if X[i, j] == 0:
                expected[i, j] = X[X != 0].mean(dtype=float)
    np.testing.assert_array_equal(_noisy("salt_and_pepper(0.6, 0.1)", X), expected)


def test_swap_is_its_formula():
    """A swapped entry is the one of its column that its second number points at."""
    X = _rows(40)
    hashes = row_hashes(X)
    u = uniforms(KEY, hashes, X.shape[1])
    v = uniforms(stream_key(int(KEY), "value", 0), hashes, X.shape[1]).astype(float)
    non_zeros = [np.sort(column[column != 0]) for column in X.T]
    lengths = [-math.log1p(-0.3 * len(values) / len(X)) for values in non_zeros]
    expected = X.copy()
    for i, row_hash in enumerate(hashes):
        hit = _arrivals(row_hash, lengths)
        for j, values in enumerate(non_zeros):
            if X[i, j] != 0 and u[i, j] < np.float32(0.3):
                place = int(v[i, j] * len(X))
                expected[i, j] = values[place] if place < len(values) else 0
            elif X[i, j] == 0 and j in hit:
                expected[i, j] = values[int(v[i, j] * len(values))]
    np.testing.assert_array_equal(_noisy("swap(0.3)", X), expected)


def test_gaussian_noise_is_its_formula():
    """Two columns share two numbers, as radius and angle of a point in the plane."""
    X = _rows(40, 7)
    u = uniforms(KEY, row_hashes(X), 8).astype(float)
    radius, angle = np.sqrt(-2 * np.log(1 - u[:, ::2])), 2 * np.pi * u[:, 1::2]
    z = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    expected = X + 0.3 * z.reshape(40, 8)[:, :7]
    np.testing.assert_allclose(_noisy("gaussian(0.3)", X), expected, atol=1e-5)


def test_pinned_noise():
    """Noise of these rows never changes."""
    X = np.arange(1.0, 9.0).reshape(1, 8) * [1, 0, 1, 1, 0, 0, 1, 1]
    salted = [[0, 4.6, 0, 4, 0, 4.6, 7, 8]]
    assert _noisy("masking(0.5)", X).tolist() == [[0, 0, 0, 4, 0, 0, 7, 8]]
    assert _noisy("salt_and_pepper(0.5, 0.5)", X).tolist() == salted
    train = np.vstack([X, 2 * X, 0 * X])
    assert _noisy("swap(0.9)", X, train).tolist() == [[0, 0, 6, 8, 0, 0, 14, 8]]


# --------------------------------------------------------------- how often


def test_rates_of_masking():
    """As many entries are masked as the rate says, in every column."""
    X = np.arange(1.0, 4001.0)[:, None] + np.arange(50)
    masked = _noisy("masking(0.25)", X) == 0
    assert _near(masked.mean(), 0.25, masked.size)
    z = (masked.mean(axis=0) - 0.25) / math.sqrt(0.25 * 0.75 / len(X))
    assert np.abs(z).max() < 4.5


@pytest.mark.parametrize("on", [0.005, 0.3, 0.9, 1.0])
def test_rates_of_salt_and_pepper(on):
    """Off and on strike at their own rates, on in every column, and independently."""
    X = np.zeros((4000, 60), dtype=np.float32)
    X[:, 40:] = np.random.default_rng(0).random((4000, 20)) + 0.5
    noisy = _noisy(f"salt_and_pepper(0.8, {on})", X)
    turned_on, turned_off = noisy[:, :40] != 0, noisy[:, 40:] == 0
    assert _near(turned_off.mean(), 0.8, turned_off.size)
    assert _near(turned_on.mean(), on, turned_on.size)
    if on < 1:
        z = (turned_on.mean(axis=0) - on) / math.sqrt(on * (1 - on) / len(X))
        assert np.abs(z).max() < 4.5
        both = (turned_on[:, 1:] & turned_on[:, :-1]).mean()
        assert _near(both, on**2, turned_on.size / 3)


def test_salt_and_pepper_values():
    """What stays on is unchanged; what turns on is the mean of all non-zeros."""
    X = _rows()
    noisy = _noisy("salt_and_pepper(0.5, 0.2)", X)
    on = X != 0
    assert set(np.unique(noisy[on] / X[on])) == {0, 1}
    assert set(np.unique(noisy[~on])) == {0, np.float32(X[on].mean(dtype=float))}
    binary = _noisy("salt_and_pepper(0.5, 0.2)", (X != 0).astype(np.float32))
    assert set(np.unique(binary)) == {0, 1}


@pytest.mark.parametrize("off", [0.25, 0.8])
@pytest.mark.parametrize("density", [0.006, 0.4])
def test_density_is_kept(off, density):
    """With "density" as many entries turn on as off."""
    X = sp.random_array((3000, 500), density=density, format="csr", random_state=0)
    noisy = _noisy(f"salt_and_pepper({off}, density)", X)
    rho = X.nnz / np.prod(X.shape)
    on = off * rho / (1 - rho)
    deviation = math.sqrt(
        X.nnz * off * (1 - off) + (np.prod(X.shape) - X.nnz) * on * (1 - on)
    )
    assert abs(noisy.nnz - X.nnz) < 4 * deviation
    kept = (noisy != 0).multiply(X != 0).sum()
    assert _near(kept / X.nnz, 1 - off, X.nnz)


def test_values_that_cancel():
    """Where the mean non-zero is 0, zeros turn on to 0, and are not stored."""
    X = sp.csr_array(np.kron(np.eye(30), [[1.0, -1.0]]))
    noisy = _noisy("salt_and_pepper(0.5, 0.5)", X)
    assert noisy.data.all()
    assert noisy.nnz < X.nnz


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_swap_keeps_the_distribution_of_columns(form):
    """Each value of a column is as frequent after swapping as before, at any rate."""
    rng = np.random.default_rng(0)
    n = 6000
    X = np.column_stack(
        [
            rng.choice([0, 1, 2.5], n, p=[0.7, 0.2, 0.1]),
            rng.choice([-1, 0, 3], n, p=[0.05, 0.05, 0.9]),
            rng.choice([1, 2], n),
            np.arange(n),  # makes rows differ
        ]
    )
    weight = rng.integers(1, 4, n).astype(float)
    for rate in (0.3, 1):
        noisy = _noisy(f"swap({rate})", form(X), weight=weight)
        noisy = noisy.toarray() if sp.issparse(noisy) else noisy
        for j in range(3):
            for value in np.unique(X[:, j]):
                share = weight[X[:, j] == value].sum() / weight.sum()
                before = (X[:, j] == value).mean()
                expected = (1 - rate) * before + rate * share
                assert _near((noisy[:, j] == value).mean(), expected, n)


def test_swap_forgets_the_row():
    """A swapped entry does not depend on what it was, nor on the other columns."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, (8000, 4)), rng.random((8000, 9)) + 1])
    noisy = _noisy("swap(1)", X)
    off_diagonal = np.corrcoef(np.hstack([X, noisy]).T) - np.eye(26)
    assert np.abs(off_diagonal).max() < 4.5 / math.sqrt(len(X))


def test_swap_at_its_rate():
    """Entries change at the rate, where all values of a column differ."""
    X = np.random.default_rng(0).random((2000, 30)).astype(np.float32) + 1
    noisy = _noisy("swap(0.15)", X)
    changed = noisy != X
    assert _near(changed.mean(), 0.15, changed.size)
    for j in range(30):
        assert np.isin(noisy[:, j], X[:, j]).all()


def test_swap_of_columns_that_are_constant():
    """Columns of one value stay as they are, those of zeros among them."""
    X = _rows()
    X[:, 5], X[:, 6] = 2.5, 0
    for form in (X, sp.csr_array(X)):
        noisy = sp.csr_array(_noisy("swap(1)", form)).toarray()
        np.testing.assert_array_equal(noisy[:, [5, 6]], X[:, [5, 6]])


def test_swap_of_rows_that_were_not_trained_on():
    """Values unknown to the training set are replaced by known ones."""
    train = np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 0.0]])
    X = np.arange(1.0, 1001.0)[:, None] + np.arange(3)
    noisy = _noisy("swap(1)", X, train)
    assert set(noisy[:, 0]) == {0}
    assert set(noisy[:, 1]) == {1, 3}
    assert set(noisy[:, 2]) == {0, 2}


@pytest.mark.parametrize("n_columns", [1, 6, 7])
def test_gaussian_noise_is_normal(n_columns):
    """Noise has mean 0, the deviation, a normal shape, and no correlations."""
    X = np.random.default_rng(0).random((6000, n_columns))
    noise = (_noisy("gaussian(0.3)", X) - X) / 0.3
    n = noise.size
    assert abs(noise.mean()) < 4 / math.sqrt(n)
    assert abs(noise.var() - 1) < 4 * math.sqrt(2 / n)
    assert kstest(noise.ravel(), "norm").pvalue > 1e-4
    for columns in (noise, np.square(noise)):
        off_diagonal = np.corrcoef(columns.T) - np.eye(n_columns)
        assert np.abs(off_diagonal).max() < 4.5 / math.sqrt(len(X))


def test_gaussian_noise_of_the_dtype():
    """Noise has the dtype of the rows, and the same first columns in wider rows."""
    X = _rows(d=9)
    noisy = _noisy("gaussian(0.3)", X)
    assert noisy.dtype == np.float32
    double = _noisy("gaussian(0.3)", X.astype(float))
    assert double.dtype == np.float64
    np.testing.assert_array_equal(double.astype(np.float32), noisy)
    wide = _noisy("gaussian(0.3)", np.hstack([X, np.zeros_like(X)]))
    np.testing.assert_array_equal(wide[:, :9], noisy)


# ------------------------------------------------------------------ extremes


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "spelling",
    [
        "none",
        "masking(0)",
        "salt_and_pepper(0, 0)",
        "salt_and_pepper(0, density)",
        "swap(0)",
    ],
)
def test_no_noise(spelling, form):
    """At a rate of 0 nothing changes."""
    X = _rows()
    noisy = _noisy(spelling, form(X))
    np.testing.assert_array_equal(sp.csr_array(noisy).toarray(), X)


@pytest.mark.parametrize("spelling", ["masking(1)", "salt_and_pepper(1, 0)"])
def test_nothing_left(spelling):
    """At a rate of 1 nothing stays."""
    assert not _noisy(spelling, _rows()).any()
    assert _noisy(spelling, sp.csr_array(_rows())).nnz == 0


@pytest.mark.parametrize("spelling", ALL)
def test_training_set_of_zeros(spelling):
    """Nothing to learn is no error; what turns on turns on to 1."""
    X = np.zeros((4, 200), dtype=np.float32)
    noisy = _noisy(spelling, X)
    if spelling == "salt_and_pepper(0.8, 0.02)":
        assert set(np.unique(noisy)) == {0, 1}
    elif not spelling.startswith("gaussian"):
        assert not noisy.any()


@pytest.mark.parametrize("spelling", ALL)
def test_one_row_with_one_column(spelling):
    """The smallest training set is one."""
    X = np.array([[2.0]])
    if spelling.endswith("density)"):
        X = np.array([[2.0, 0.0, 0.0]])
    noisy = _noisy(spelling, X)
    assert noisy.shape == X.shape
    if spelling.startswith("swap"):
        np.testing.assert_array_equal(noisy, X)


def test_wide_rows_cost_what_turns_on(monkeypatch):
    """The numbers drawn for CSR rows are of the order of their non-zeros."""
    X = sp.random_array((10, 1_000_000), density=1e-4, format="csr", random_state=0)
    hashes, n_drawn = row_hashes(X), 0

    def counted(draw):
        def wrapped(*arguments):
            nonlocal n_drawn
            numbers = draw(*arguments)
            n_drawn += numbers.size
            return numbers

        return wrapped

    monkeypatch.setattr(corruptors, "uniforms", counted(corruptors.uniforms))
    monkeypatch.setattr(corruptors, "uniforms_at", counted(corruptors.uniforms_at))
    for spelling in SPARSE:
        corruptor = parse_corruption(spelling.replace("0.02", "0.0001")).fit(X)
        n_drawn = 0
        noisy = corruptor(X, hashes, KEY)
        assert noisy.shape == X.shape
        assert n_drawn <= 4 * X.nnz


@given(st.integers(0, 2**64 - 1), st.integers(1, 40), st.floats(0, 300))
def test_points_go_far_enough(key, n_rows, end):
    """However the numbers fall, points reach the end, and more do not change them."""
    hashes = np.arange(n_rows, dtype=np.uint64)
    points = corruptors._points(np.uint64(key), hashes, end)
    assert (points[:, -1] >= end).all()
    further = corruptors._points(np.uint64(key), hashes, 2 * end + 50)
    n = min(points.shape[1], further.shape[1])
    np.testing.assert_array_equal(points[:, :n], further[:, :n])


def test_points_that_fall_short(monkeypatch):
    """Where a row's first numbers are too small, more are drawn."""
    drawn = []

    def small(_key, hashes, n_columns):
        drawn.append(n_columns)
        return np.full((len(hashes), n_columns), 0.01, dtype=np.float32)

    monkeypatch.setattr(corruptors, "uniforms", small)
    points = corruptors._points(KEY, np.zeros(2, dtype=np.uint64), 3.0)
    assert points[:, -1].min() >= 3.0
    assert len(drawn) > 3


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("spelling", ["salt_and_pepper(0.5, 1)", "swap(0.9)"])
def test_rows_are_drawn_a_few_at_a_time(spelling, form, monkeypatch):
    """How many of them changes nothing."""
    X = form(_rows(density=0.9))
    corruptor, hashes = parse_corruption(spelling).fit(X), row_hashes(X)
    whole = corruptor(X, hashes, KEY)
    for size in (1, 3_000):
        monkeypatch.setattr(corruptors, "_BLOCK_ENTRIES", size)
        assert abs(corruptor(X, hashes, KEY) - whole).max() == 0


def test_memory_is_that_of_the_result():
    """Where all zeros of wide sparse rows turn on, 16 points a column are not kept."""
    X = sp.csr_array(([np.float32(2)], ([0], [0])), shape=(100, 20_000))
    tracemalloc.start()
    try:
        noisy = _noisy("salt_and_pepper(0, 1)", X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert noisy.nnz > 0.999 * 100 * 20_000
    assert peak < 80 * noisy.nnz  # all points alone took 133 bytes an entry


def test_more_entries_than_sparse_rows_hold():
    """They are refused before anything is drawn, with their size."""
    X = sp.csr_array((30_000, 100_000), dtype=np.float32)
    corruptor = parse_corruption("salt_and_pepper(0.5, 1.0)").fit(X)
    message = (
        "up to 3,000,000,000 zeros of a batch of 30,000 sparse rows with 100,000 "
        "columns, which takes about 168 GiB.*smaller batch_size"
    )
    with pytest.raises(ParameterError, match=message):
        corruptor(X, np.zeros(30_000, np.uint64), KEY)
