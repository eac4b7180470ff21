"""The rows that early stopping sets aside."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hardzero import DataError
from hardzero.estimators.split import split_off_validation_rows


def rows(n):
    """Return n different rows."""
    return np.arange(1.0, n + 1)[:, None] * [1, 0, 3]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60),
    st.floats(0.01, 0.99),
    st.integers(0, 5),
)
def test_split_is_a_stratified_partition(labels, fraction, seed):
    """The split parts the rows; each class gives its share and keeps a row."""
    numbers = np.unique(labels, return_inverse=True)[1]
    sizes = np.bincount(numbers)
    split = [rows(len(labels)), numbers, None, fraction, seed]
    if sizes.max() == 1:
        with pytest.raises(DataError, match=f"n_samples={len(labels)} there is only"):
            split_off_validation_rows(*split)
        return
    training, validation = split_off_validation_rows(*split)
    together = np.sort(np.concatenate([training, validation]))
    np.testing.assert_array_equal(together, np.arange(len(labels)))
    counts = np.bincount(numbers[validation], minlength=len(sizes))
    assert (counts < sizes).all()
    wanted = fraction * len(labels)
    assert 1 <= len(validation) <= max(1, wanted + 0.5)
    if (sizes - 1).sum() >= wanted and (sizes * (1 - fraction) >= 2).all():
        assert abs(len(validation) - max(1, wanted)) <= 0.5 + 1e-9
        assert (np.abs(counts - fraction * sizes) <= 1.5).all()


def test_split_depends_on_the_seed():
    """One seed gives one split; another gives another."""
    numbers = np.arange(100) % 2
    first, again, other = (
        split_off_validation_rows(rows(100), numbers, None, 0.2, seed)[1]
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert list(np.bincount(numbers[first])) == [10, 10]


def test_split_depends_on_the_content_of_rows_alone():
    """Order and format do not matter: the same rows are set aside."""
    X, numbers = rows(60), np.arange(60) % 3
    first = split_off_validation_rows(X, numbers, None, 0.3, 7)[1]
    order = np.random.default_rng(0).permutation(60)
    for again in (X[order], sp.csr_array(X[order]), X[order].astype(np.float32)):
        second = split_off_validation_rows(again, numbers[order], None, 0.3, 7)[1]
        np.testing.assert_array_equal(np.sort(order[second]), first)


@given(st.lists(st.integers(1, 4), min_size=8, max_size=30), st.integers(0, 9))
def test_weight_two_is_two_rows(weights, seed):
    """Rows of whole weights are set aside as that many equal rows are, all together."""
    X, numbers = rows(len(weights)), np.arange(len(weights)) % 2
    copies = np.repeat(np.arange(len(weights)), weights)
    weighted = split_off_validation_rows(
        X, numbers, np.array(weights, float), 0.3, seed
    )
    repeated = split_off_validation_rows(X[copies], numbers[copies], None, 0.3, seed)
    for one, other in zip(weighted, repeated, strict=True):
        np.testing.assert_array_equal(
            np.repeat(one, np.take(weights, one)), copies[other]
        )


def test_no_row_has_a_twin_on_the_other_side():
    """Equal rows of a class stay together."""
    X = np.random.default_rng(0).integers(0, 2, (200, 3)).astype(float)
    training, validation = split_off_validation_rows(
        X, np.zeros(200, np.int64), None, 0.3, 0
    )
    there = {tuple(row) for row in X[training]}
    assert not any(tuple(row) in there for row in X[validation])


def test_equal_rows_cannot_be_split():
    """Where all rows of each class are equal there is nothing to set aside."""
    with pytest.raises(DataError, match="only one row of each class, counting equal"):
        split_off_validation_rows(np.ones((9, 2)), np.arange(9) % 3, None, 0.5, 0)


def test_the_error_says_what_rows_are_needed_for():
    """And what to give instead; where there are no classes it speaks of none"""
    rows, strata = np.ones((9, 2)), np.zeros(9, np.int64)
    message = (
        r"^a choice needs .*n_samples=9 .* one row, counting.*Give more rows, X2\.$"
    )
    with pytest.raises(DataError, match=message):
        split_off_validation_rows(
            rows, strata, None, 0.5, 0, purpose="a choice", remedy="X2"
        )
