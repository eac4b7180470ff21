"""Compiled uniform numbers: those of `hardzero.random`, in whole rows and in places."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hardzero import random
from hardzero.kernels import _core, draws

KEYS = st.integers(0, 2**64 - 1)
HASHES = st.lists(st.sampled_from([0, 1, 2**32, 2**64 - 1]) | KEYS, max_size=5)
LEVELS = pytest.mark.parametrize("level", _core.usable_levels())


@LEVELS
@given(KEYS, HASHES, st.integers(0, 150))
def test_whole_rows(level, key, hashes, n_columns):
    """Every instruction-set level draws the reference's numbers, bit for bit."""
    hashes = np.array(hashes, dtype=np.uint64)
    numbers = _core.uniforms(key, hashes, n_columns, level)
    assert numbers.dtype == np.float32
    assert numbers.shape == (len(hashes), n_columns)
    np.testing.assert_array_equal(numbers, random.uniforms(key, hashes, n_columns))


@LEVELS
@given(
    KEYS,
    st.lists(st.tuples(KEYS, st.lists(st.integers(0, 300))), max_size=5),
    st.data(),
)
def test_places(level, key, rows, data):
    """In places, in any order and repeated, stand the numbers of whole rows."""
    hashes = np.array([row_hash for row_hash, _ in rows], dtype=np.uint64)
    starts = np.cumsum([0] + [len(columns) for _, columns in rows])
    columns = np.array([j for _, columns in rows for j in columns], dtype=np.int64)
    dtype = data.draw(st.sampled_from([np.int32, np.int64]))
    numbers = _core.uniforms_at(
        key, hashes, starts.astype(dtype), columns.astype(dtype), level
    )
    assert numbers.dtype == np.float32
    row = np.repeat(np.arange(len(rows)), np.diff(starts))
    whole = random.uniforms(key, hashes, 301)
    np.testing.assert_array_equal(numbers, whole[row, columns])


@pytest.mark.parametrize("has_core", [True, False])
def test_with_and_without_the_core(monkeypatch, has_core):
    """Where the core does not load, the same numbers come from the reference."""
    monkeypatch.setattr(draws, "_has_core", has_core)
    X = sp.random_array((40, 500), density=0.01, format="csr", random_state=0)
    hashes, key = random.row_hashes(X), random.stream_key(3, "corruption", 2)
    whole = random.uniforms(key, hashes, 500)
    np.testing.assert_array_equal(draws.uniforms(key, hashes, 500), whole)
    np.testing.assert_array_equal(draws.uniforms(key, hashes.tolist(), 500), whole)
    expected = whole[X.nonzero()]
    for form in (np.int32, np.int64):
        indptr, indices = X.indptr.astype(form), X.indices.astype(form)
        numbers = draws.uniforms_at(key, hashes, indptr, indices)
        np.testing.assert_array_equal(numbers, expected)
    mixed = draws.uniforms_at(key, hashes, X.indptr.astype(np.int64), X.indices)
    np.testing.assert_array_equal(mixed, expected)


def test_arrays_with_gaps():
    """Arrays need not be contiguous."""
    hashes = np.arange(10, dtype=np.uint64)
    indptr = np.repeat(np.arange(6, dtype=np.int32), 2)
    indices = np.arange(10, dtype=np.int32)
    whole = random.uniforms(5, hashes, 10)
    np.testing.assert_array_equal(draws.uniforms(5, hashes[::-1], 10), whole[::-1])
    np.testing.assert_array_equal(
        draws.uniforms_at(5, hashes[::2], indptr[::2], indices[::2]),
        [whole[2 * i, 2 * i] for i in range(5)],
    )


def test_wide_rows():
    """Columns beyond the reach of int32 have numbers of their own."""
    columns = np.array([2**31 - 1, 2**31, 2**34 - 1])
    for column, number in zip(
        columns, draws.uniforms_at(5, [9], np.array([0, 3]), columns), strict=True
    ):
        block = random.philox([9, 0, column // 4, 0], [5, 0])
        assert number == (int(block[column % 4]) >> 8) / 2**24


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 2], [0, 1]),
        ([0, 1, 3], [0, 1]),
        ([0, 1, 1], [0, 1]),
        ([1, 1, 2], [0, 1]),
        ([0, 3, 2], [0, 1]),
        ([0, 1, 2], [0, -1]),
    ],
)
def test_damaged_matrices(indptr, indices):
    """Structures that point outside of themselves or of the row are refused."""
    with pytest.raises(ValueError, match="points outside of its own arrays"):
        draws.uniforms_at(0, [1, 2], np.array(indptr), np.array(indices))


def test_negative_number_of_columns():
    """So is a negative number of columns."""
    with pytest.raises(ValueError, match="number of columns is negative"):
        draws.uniforms(0, [1, 2], -1)
