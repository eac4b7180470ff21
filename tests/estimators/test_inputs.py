"""Checks of features and targets."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from hardzero import DataError, RectifierClassifier
from hardzero.estimators.inputs import naming, read_rows, read_table

X = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
Y = np.array(["b", "a", "b"])


@pytest.mark.parametrize(
    ("given", "kept"),
    [("f4", "f4"), ("f8", "f8"), ("i8", "f4"), ("u1", "f4"), ("?", "f4")],
)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_array])
def test_dtypes(make, given, kept):
    """float32 and float64 are kept, and everything else becomes float32."""
    rows, y = read_table(RectifierClassifier(), make(X.astype(given)), Y)
    assert rows.dtype == kept
    assert list(y) == list(Y)


def test_containers_have_the_dtype_of_their_numbers():
    """Lists and frames of floats are float64 as an array of them is, those of whole
    numbers float32.
    """
    polars = pytest.importorskip("polars")
    for values, kept in (([[0.1, 1], [2, 0.0], [0, 0]], "f8"), ([[1, 2]] * 3, "f4")):
        array = np.array(values)
        for given in (
            values,
            array,
            pd.DataFrame(array),
            polars.DataFrame(array, schema=["a", "b"]),
        ):
            rows, _ = read_table(RectifierClassifier(), given, Y)
            assert rows.dtype == kept
            np.testing.assert_array_equal(rows, array)


def test_good_arrays_are_not_copied():
    """C-contiguous floats and canonical CSR go through without a copy."""
    rows, _ = read_table(RectifierClassifier(), X, Y)
    assert np.shares_memory(rows, X)
    csr = sp.csr_matrix(X)
    rows, _ = read_table(RectifierClassifier(), csr, Y)
    assert np.shares_memory(rows.data, csr.data)


@pytest.mark.parametrize("make", [sp.csc_matrix, sp.coo_array, sp.lil_matrix])
def test_sparse_formats_become_csr(make):
    """Sparse matrices of any format are read as CSR."""
    rows, _ = read_table(RectifierClassifier(), make(X), Y)
    assert rows.format == "csr"
    np.testing.assert_array_equal(rows.toarray(), X)


def test_duplicates_are_added_up_in_a_copy():
    """Duplicate and unsorted entries are put in order; the user's matrix stays."""
    data, indices, indptr = [1.0, 2.0, 3.0], [1, 0, 1], [0, 3, 3, 3]
    messy = sp.csr_matrix((data, indices, indptr), shape=(3, 2))
    rows, _ = read_table(RectifierClassifier(), messy, Y)
    assert rows.has_canonical_format
    np.testing.assert_array_equal(rows.toarray(), [[2, 4], [0, 0], [0, 0]])
    np.testing.assert_array_equal(messy.indices, indices)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, np.nan, 1.0], "NaN"),
        ([[0, 1], [1, 0], [1, 1]], "1d array"),
        ([0, 1], "inconsistent numbers of samples"),
        (None, "requires y to be passed"),
    ],
)
def test_refused_targets(y, message):
    """Targets that are not one for each row are refused."""
    with pytest.raises(ValueError, match=message):
        read_table(RectifierClassifier(), X, y)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_targets_in_columns(make):
    """With multi_output targets may be a matrix, dense or sparse."""
    y = np.array([[0, 1], [1, 0], [1, 1]])
    _, read = read_table(RectifierClassifier(), X, make(y), multi_output=True)
    np.testing.assert_array_equal(read, y)


def test_text_is_refused_with_advice():
    """A column of words is named as such, with what to do about it."""
    words = np.array([["red", "1"], ["blue", "2"], ["red", "3"]], dtype=object)
    with pytest.raises(DataError, match=r"text where numbers.*'red'.*OneHotEncoder"):
        read_table(RectifierClassifier(), words, Y)


@pytest.fixture
def fitted():
    """Return a classifier of two features and the classes a and b."""
    return RectifierClassifier(2, max_epochs=1, random_state=0).fit(X, Y)


def test_fast_way_refuses_the_same(fitted):
    """Rows that need no conversion pass as they are; bad ones fail as all others do."""
    assert read_rows(fitted, X, np.float64) is X
    for bad, message in (
        (np.array([[0.0, np.nan]]), "NaN"),
        (np.array([[0.0, np.inf]]), "infinity"),
        (np.array([[0.0]]), "1 features, but RectifierClassifier is expecting 2"),
        (np.zeros((0, 2)), "0 sample"),
        (np.zeros(2), "1D array"),
    ):
        with pytest.raises(ValueError, match=message):
            read_rows(fitted, bad, np.float64)


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_array, sp.coo_matrix])
def test_damaged_sparse_matrices_are_refused(fitted, make):
    """A matrix whose indices leave it is refused before anything reads it."""
    damaged = make(X)
    (damaged.row if damaged.format == "coo" else damaged.indices)[-1] = 10**9
    for read in (
        lambda: read_table(RectifierClassifier(), damaged, Y),
        lambda: read_rows(fitted, damaged, np.float64),
    ):
        with pytest.raises(DataError, match=f"damaged {damaged.format} matrix.*Build"):
            read()


def test_numbers_too_large_for_float32(fitted):
    """Such a number is an error, without a warning of the conversion before it."""
    with pytest.raises(ValueError, match="too large for dtype"):
        read_rows(fitted, [[1e39, 0.0]], np.float32)


def test_names_are_checked_also_on_the_fast_way(fitted):
    """A classifier that knows names of columns warns if rows come without."""
    fitted.fit(pd.DataFrame(X, columns=["p", "q"]), Y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        read_rows(fitted, X, np.float64)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("Input X contains NaN."), "Input X_val contains NaN."),
        (DataError("y mixes; convert y, X.T"), "y_val mixes; convert y_val, X_val.T"),
        (TypeError("no 'X' in X"), "no 'X' in X_val"),
        (ValueError("Found 0 rows of my_X"), "X_val and y_val: Found 0 rows of my_X"),
    ],
)
def test_errors_name_the_argument(error, told):
    """As the user calls it; the type stays, and so does what is quoted."""
    with pytest.raises(type(error)) as raised, naming(X="X_val", y="y_val"):
        raise error
    assert str(raised.value) == told


def test_errors_of_other_kinds_stay():
    """They may not be made from a text alone."""
    error = UnicodeDecodeError("utf-8", b"X", 0, 1, "X")
    with pytest.raises(UnicodeDecodeError) as raised, naming(X="X_val"):
        raise error
    assert raised.value is error
