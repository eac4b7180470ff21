"""Checks of parameters, features and targets."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hardzero import DataError, ParameterError, RectifierClassifier, activations
from hardzero.estimators.inputs import (
    PARAMETERS,
    check_hidden_activations,
    check_parameters,
    draw_seed,
    read_rows,
    read_training_set,
    read_validation_set,
    split_off_validation_rows,
)

X = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
Y = np.array(["b", "a", "b"])


# ------------------------------------------------------------------ parameters


def test_table_has_each_parameter():
    """Each parameter of the classifier has a line in the table, and no other."""
    assert PARAMETERS.keys() == RectifierClassifier().get_params().keys()


def test_defaults_are_allowed():
    """The defaults pass their own checks."""
    check_parameters(RectifierClassifier())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_sizes", 5),
        ("hidden_sizes", np.int64(5)),
        ("hidden_sizes", ()),
        ("hidden_sizes", [3, np.int32(4)]),
        ("hidden_sizes", np.array([3, 4])),
        ("activation", ["tanh", "rectifier"]),
        ("activation", activations.get("elu")),
        ("sign_flip", np.True_),
        ("l2", np.float32(0.5)),
        ("learning_rate", 1),
        ("learning_rate_schedule", "step(3, 0.1)"),
        ("n_threads", -1),
        ("random_state", np.uint32(2**32 - 1)),
        ("random_state", np.random.RandomState(0)),
        ("verbose", 1),
    ],
)
def test_allowed_values(name, value):
    """NumPy scalars, lists and arrays are as good as Python's numbers and tuples."""
    check_parameters(RectifierClassifier(**{name: value}))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("hidden_sizes", 0, "a whole number from 1 to 10000000, or a sequence"),
        ("hidden_sizes", (10, 0), "one per hidden layer. Give, for example, "),
        ("hidden_sizes", [10**20], "a whole number from 1 to 10000000"),
        ("hidden_sizes", "100", "a whole number"),
        ("hidden_sizes", 1.5, "a whole number"),
        ("hidden_sizes", np.array(5), "a whole number"),
        ("hidden_sizes", True, "a whole number"),
        ("activation", 3, "a name of hardzero.activations"),
        ("activation", ["tanh", 3], "a name of hardzero.activations"),
        ("sign_flip", 1, "True or False. Give one of the two"),
        ("l1_activation", -1, "a finite number of 0 or more"),
        ("l2", float("nan"), "a finite number of 0 or more"),
        ("l2", 10**400, "a finite number of 0 or more"),
        ("l1_activation", 10**400, "a finite number of 0 or more"),
        ("l2", "0.1", "a finite number of 0 or more"),
        ("solver", "lbfgs", "one of 'adam', 'sgd'. Choose one"),
        ("learning_rate", 10**400, "'auto' or a finite number above 0"),
        ("learning_rate", Fraction(1, 10**400), "a finite number above 0"),
        ("learning_rate", 0, "'auto' or a finite number above 0"),
        ("learning_rate", "invscaling", "'auto' or a finite number above 0"),
        ("learning_rate_schedule", 0.1, "the name of a schedule. Give 'constant', "),
        ("momentum", 1.0, "a number from 0 to below 1"),
        ("nesterov", "no", "True or False"),
        ("batch_size", 0, "'auto' or a whole number of 1 or more"),
        ("batch_size", 2**31, "of 1 or more, below 2**31"),
        ("batch_size", 12.0, "'auto' or a whole number of 1 or more"),
        ("max_epochs", 10**400, "a whole number of 1 or more, below 2**31"),
        ("max_epochs", 0, "a whole number of 1 or more"),
        ("early_stopping", None, "True or False"),
        ("validation_fraction", 1.0, "a number between 0 and 1"),
        ("patience", 0, "a whole number of 1 or more"),
        ("init", "xavier", "one of 'auto', 'glorot_normal'"),
        ("engine", "gpu", "one of 'auto', 'sparse', 'dense', 'reference'"),
        ("n_threads", 2**31, "a whole number from 1 to 1024, or -1"),
        ("n_threads", 10**12, "a whole number from 1 to 1024, or -1"),
        ("n_threads", 0, "or -1 for all processors"),
        ("random_state", -1, "None, a whole number from 0 to 4294967295"),
        ("random_state", np.random.default_rng(0), "numpy.random.RandomState"),
        ("verbose", "yes", "True or False. Give True for a progress bar"),
    ],
)
def test_refused_values(name, value, expected):
    """An error says what was given, what is expected and what to do."""
    with pytest.raises(ParameterError) as raised:
        RectifierClassifier(**{name: value}).fit(X, Y)
    message = str(raised.value)
    assert f"{name}={value!r} was given to RectifierClassifier, expected" in message
    assert expected in message
    assert message.endswith(".")


def test_numbers_too_long_to_print():
    """A number of more digits than Python prints is refused as any other."""
    for value in (10**5000, (5, 10**5000)):
        with pytest.raises(ParameterError, match=r"=\(a number of thousands of digits"):
            RectifierClassifier(value).fit(X, Y)


def test_refused_mixtures():
    """Values that contradict each other, or spell nothing, are refused."""
    with pytest.raises(ParameterError, match="Set these two, or nesterov=False"):
        RectifierClassifier(nesterov=True).fit(X, Y)
    with pytest.raises(ParameterError, match="Set these two, or nesterov=False"):
        RectifierClassifier(nesterov=True, solver="sgd").fit(X, Y)
    with pytest.raises(ParameterError, match="is not a learning-rate schedule"):
        RectifierClassifier(learning_rate_schedule="linear").fit(X, Y)


def test_activations_are_one_or_one_each():
    """One activation serves all hidden layers; a list has one for each."""
    tanh, elu = activations.get("tanh"), activations.get("elu(0.5)")
    assert check_hidden_activations("tanh", 2) == [tanh, tanh]
    assert check_hidden_activations(["tanh", "elu(0.5)"], 2) == [tanh, elu]
    with pytest.raises(
        ParameterError, match=r"activation has 1 entries but hidden_.*2"
    ):
        check_hidden_activations(["tanh"], 2)
    with pytest.raises(ParameterError, match="Did you mean 'rectifier'"):
        check_hidden_activations("relu", 1)


def test_seed_of_a_fit():
    """An integer is its own seed, a RandomState moves on, None follows NumPy's."""
    assert draw_seed(7) == draw_seed(np.int64(7)) == 7
    state = np.random.RandomState(0)
    assert draw_seed(state) != draw_seed(state)
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    first = draw_seed(None)
    np.random.seed(3)  # noqa: NPY002
    assert draw_seed(None) == first
    np.random.set_state(before)  # noqa: NPY002


# ---------------------------------------------------------- features and targets


@pytest.mark.parametrize(
    ("given", "kept"),
    [("f4", "f4"), ("f8", "f8"), ("i8", "f4"), ("u1", "f4"), ("?", "f4")],
)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_array])
def test_dtypes(make, given, kept):
    """float32 and float64 are kept, and everything else becomes float32."""
    rows, numbers, classes = read_training_set(
        RectifierClassifier(), make(X.astype(given)), Y
    )
    assert rows.dtype == kept
    assert numbers.dtype == np.int64
    assert (list(numbers), list(classes)) == ([1, 0, 1], ["a", "b"])


def test_good_arrays_are_not_copied():
    """C-contiguous floats and canonical CSR go through without a copy."""
    rows, _, _ = read_training_set(RectifierClassifier(), X, Y)
    assert np.shares_memory(rows, X)
    csr = sp.csr_matrix(X)
    rows, _, _ = read_training_set(RectifierClassifier(), csr, Y)
    assert np.shares_memory(rows.data, csr.data)


@pytest.mark.parametrize("make", [sp.csc_matrix, sp.coo_array, sp.lil_matrix])
def test_sparse_formats_become_csr(make):
    """Sparse matrices of any format are read as CSR."""
    rows, _, _ = read_training_set(RectifierClassifier(), make(X), Y)
    assert rows.format == "csr"
    np.testing.assert_array_equal(rows.toarray(), X)


def test_duplicates_are_added_up_in_a_copy():
    """Duplicate and unsorted entries are put in order; the user's matrix stays."""
    data, indices, indptr = [1.0, 2.0, 3.0], [1, 0, 1], [0, 3, 3, 3]
    messy = sp.csr_matrix((data, indices, indptr), shape=(3, 2))
    rows, _, _ = read_training_set(RectifierClassifier(), messy, Y)
    assert rows.has_canonical_format
    np.testing.assert_array_equal(rows.toarray(), [[2, 4], [0, 0], [0, 0]])
    np.testing.assert_array_equal(messy.indices, indices)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.5, 2.5, 1.0], "Unknown label type"),
        ([1.0, np.nan, 1.0], "NaN"),
        (np.array(["a", None, "b"], dtype=object), "y mixes labels.*Drop rows"),
        (np.array([b"a", b"b", b"a"]), "labels of type bytes.*Decode them first"),
        (np.array(["a", b"b", "a"], object), "labels of type bytes.*Decode them first"),
        ([[0, 1], [1, 0], [1, 1]], "1d array"),
        ([0, 1], "inconsistent numbers of samples"),
        (None, "requires y to be passed"),
    ],
)
def test_refused_targets(y, message):
    """Targets that are no labels are refused."""
    with pytest.raises(ValueError, match=message):
        read_training_set(RectifierClassifier(), X, y)


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
        lambda: read_training_set(RectifierClassifier(), damaged, Y),
        lambda: read_validation_set(fitted, damaged, Y, fitted.classes_, np.float64),
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
    "make", [np.asarray, sp.csr_matrix, sp.csc_array, pd.DataFrame, np.ndarray.tolist]
)
def test_validation_rows_of_any_kind(fitted, make):
    """X_val may be an array, a frame, a list or sparse, whatever X was."""
    labels = pd.Series(Y) if make is pd.DataFrame else Y
    rows, numbers = read_validation_set(
        fitted, make(X), labels, fitted.classes_, np.float32
    )
    assert rows.dtype == np.float32
    assert list(numbers) == [1, 0, 1]


def test_refused_validation_rows(fitted):
    """Half of the pair, unknown labels and other widths are refused."""
    read = [fitted, X, Y, fitted.classes_, np.float64]
    assert read_validation_set(fitted, None, None, *read[3:]) is None
    with pytest.raises(DataError, match=r"X_val was given without y_val\. Give both"):
        read_validation_set(fitted, X, None, *read[3:])
    with pytest.raises(DataError, match="y_val was given without X_val"):
        read_validation_set(fitted, None, Y, *read[3:])
    with pytest.raises(DataError, match="labels that y does not have: 'c', 'd'"):
        read_validation_set(fitted, X, ["d", "a", "c"], *read[3:])
    with pytest.raises(ValueError, match="3 features, but"):
        read_validation_set(fitted, np.zeros((3, 3)), Y, *read[3:])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        read_validation_set(fitted, X[:2], Y, *read[3:])


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60),
    st.floats(0.01, 0.99),
    st.integers(0, 5),
)
def test_split_is_a_stratified_partition(labels, fraction, seed):
    """The split parts the rows; each class gives its share and keeps a row."""
    numbers = np.unique(labels, return_inverse=True)[1]
    sizes = np.bincount(numbers)
    if sizes.max() == 1:
        with pytest.raises(DataError, match=f"n_samples={len(labels)} there is only"):
            split_off_validation_rows(numbers, fraction, seed)
        return
    training, validation = split_off_validation_rows(numbers, fraction, seed)
    together = np.sort(np.concatenate([training, validation]))
    np.testing.assert_array_equal(together, np.arange(len(labels)))
    counts = np.bincount(numbers[validation], minlength=len(sizes))
    assert (counts < sizes).all()
    assert (counts <= np.ceil(fraction * sizes) + 1).all()
    wanted = max(1, round(fraction * len(labels)))
    assert 1 <= len(validation) <= wanted
    if (sizes - 1).sum() >= wanted and (sizes * (1 - fraction) >= 2).all():
        assert len(validation) == wanted
        assert (np.abs(counts - fraction * sizes) <= 1.5).all()


def test_split_depends_on_the_seed():
    """One seed gives one split; another gives another."""
    numbers = np.arange(100) % 2
    first, again, other = (
        split_off_validation_rows(numbers, 0.2, seed)[1] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert list(np.bincount(numbers[first])) == [10, 10]


def test_momentum_is_not_ignored():
    """Momentum needs sgd: with Adam it is refused, not left unused"""
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(ParameterError, match=r"momentum=0.9 .* Give solver='sgd'"):
        RectifierClassifier(momentum=0.9).fit(X, y)
