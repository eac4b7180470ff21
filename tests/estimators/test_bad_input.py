"""What users give by mistake: an error that says so, or a behaviour that is told."""

import contextlib
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from hardzero import (
    DataError,
    DeadUnitWarning,
    DivergenceError,
    ParameterError,
    RatingRegressor,
    RectifierClassifier,
    RectifierRegressor,
)

X = np.random.default_rng(0).normal(size=(80, 4))
Y = (X[:, 0] > 0).astype(int)
ESTIMATORS = [RectifierClassifier, RectifierRegressor, RatingRegressor]
every = pytest.mark.parametrize("make", ESTIMATORS)


@every
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.where(X[3, 1] == X, np.nan, X), r"Input X contains NaN[\s\S]*impute"),
        (np.where(X[3, 1] == X, np.inf, X), "Input X contains infinity or a value too"),
        (sp.csr_array(np.where(X[3, 1] == X, np.nan, X)), "Input X contains NaN"),
        (
            np.array(["red", "blue", "red", "2"] * 80).reshape(80, 4),
            "X holds text.*OneHotEncoder, and documents with .*TfidfVectorizer",
        ),
        (X[:, 0], "Expected 2D array, got 1D array instead"),
        (X[:0], r"0 sample\(s\)"),
        (X[:, :0], r"0 feature\(s\)"),
        (X[:5], r"inconsistent numbers of samples: \[5, 80\]"),
        (X * 1j, "Complex data not supported"),
    ],
    ids=[
        "nan",
        "inf",
        "sparse",
        "text",
        "1d",
        "no rows",
        "no columns",
        "few",
        "complex",
    ],
)
def test_features_that_cannot_be_used(make, method, rows, message):
    """Each is refused by name, and the estimator is as it was before."""
    estimator = make(5)
    with pytest.raises(ValueError, match=message):
        getattr(estimator, method)(rows, Y[: 80 * bool(rows.shape[0])])
    assert not hasattr(estimator, "stack_")


@every
def test_rows_of_another_width(make):
    """Rows to predict must have the columns of fit."""
    network = make(5, max_epochs=1).fit(X, Y)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4"):
        network.predict(X[:, :3])


@every
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.where(Y == 1, np.nan, 0.0), "Input y contains NaN"),
        (None, "requires y to be passed"),
        (Y[:9], "inconsistent numbers of samples"),
        (np.zeros((80, 2, 2)), "dim 3|1d array"),
    ],
    ids=["nan", "none", "few", "3d"],
)
def test_targets_that_cannot_be_used(make, y, message):
    """Each is refused by scikit-learn's checks, which name y."""
    with pytest.raises(ValueError, match=message):
        make(5).fit(X, y)


@pytest.mark.parametrize("make", [RectifierRegressor, RatingRegressor])
@pytest.mark.parametrize("dtype", [str, object])
def test_words_are_no_numbers(make, dtype):
    """Regressors refuse words and say who takes them."""
    words = np.where(Y, "good", "bad").astype(dtype)
    with pytest.raises(
        DataError, match=r"y holds text, but R.*use RectifierClassifier"
    ):
        make(5).fit(X, words)


@pytest.mark.parametrize("make", [RectifierRegressor, RatingRegressor])
@pytest.mark.parametrize("dtype", [str, object, bytes])
def test_numbers_as_text(make, dtype):
    """Numbers that are spelled are refused with the way to convert them."""
    stars = (1 + np.arange(80) % 5).astype(str)
    with pytest.raises(DataError, match=r"Convert y, here with y.astype\(int\), or"):
        make(5).fit(X, stars.astype(dtype))
    halves = (1 + np.arange(80) % 5 / 2).astype(str)
    with pytest.raises(DataError, match=r"Convert y, here with y.astype\(float\), or"):
        make(5).fit(X, halves.astype(dtype))


@every
@pytest.mark.parametrize("form", [list, np.array, lambda rows: [[row] for row in rows]])
def test_documents(make, form):
    """They are shown in part, and the vectoriser for them is named."""
    documents = form(["the cat sat on the mat, and so on, " * 50] * 80)
    with pytest.raises(DataError, match=r"float.*the cat.*Tfidf") as raised:
        make(5).fit(documents, Y)
    assert len(str(raised.value)) < 400


def test_targets_of_several_classes_each():
    """Several columns of more than two values are no labels."""
    with pytest.raises(ValueError, match="1d array"):
        RectifierClassifier(5).fit(X, np.stack([np.arange(80) % 3] * 2, axis=1))


def test_negative_counts():
    """Poisson's loss is for numbers of 0 or more."""
    with pytest.raises(DataError, match=r"negative values, down to -1.*loss='poisson'"):
        RectifierRegressor(loss="poisson").fit(X, Y - 1)


def test_losses_that_are_none():
    """A loss for classes, and a misspelt one, are refused with what is allowed."""
    with pytest.raises(
        ParameterError, match=r"loss='softmax' is for classes, expected"
    ):
        RectifierRegressor(loss="softmax").fit(X, Y)
    with pytest.raises(ParameterError, match=r"'squarred' is unknown.*'squared'"):
        RectifierRegressor(loss="squarred").fit(X, Y)
    with pytest.raises(
        ParameterError, match=r"scoring='acuracy' was given.*'r2' to a r"
    ):
        RectifierRegressor(scoring="acuracy").fit(X, Y)


@every
def test_weights_that_leave_no_row(make):
    """Weights that are all 0, negative, or too few are refused."""
    for weights, message in (
        (np.zeros(80), "all sample_weight are zero"),
        (np.where(Y, 1, -1), "sample_weight is -1 in row"),
        (np.ones(79), r"shape \(79,\), expected \(80,\)"),
    ):
        with pytest.raises(DataError, match=message):
            make(5).fit(X, Y, sample_weight=weights)


@every
@pytest.mark.parametrize("options", [{}, {"dropout": 0.5}], ids=str)
def test_one_row(make, options):
    """A single row is learned; its target is what is predicted for it."""
    network = make(20, max_epochs=300, random_state=0, **options).fit(X[:1], [4])
    np.testing.assert_allclose(network.predict(X[:1]), [4], rtol=1e-6)


@every
def test_batch_norm_needs_two_rows(make):
    """A mini-batch of one row has no variance, so nothing would be learned."""
    network = make(5, batch_norm=True, max_epochs=1)
    message = r"mini-batches of 1 sample \(batch_size={}, {} to train.*Give a batch_si"
    with pytest.raises(ParameterError, match=message.format(1, 80)):
        clone(network).set_params(batch_size=1).fit(X, Y)
    with pytest.raises(ParameterError, match=message.format("'auto'", 1)):
        clone(network).partial_fit(X[:1], Y[:1])
    assert clone(network).set_params(batch_size=2).fit(X, Y).n_iter_ == 1


@every
@pytest.mark.parametrize("options", [{}, {"batch_norm": True}], ids=str)
def test_constant_columns(make, options):
    """They say nothing and do no harm."""
    constant = np.column_stack([X, np.full(80, 3.0), np.zeros(80)])
    network = make(30, max_epochs=200, tol=None, random_state=0, **options)
    network.fit(constant, Y)
    assert network.score(constant, Y) > 0.7
    alone = make(5, max_epochs=50, **options).fit(np.ones((80, 2)), Y)
    assert len(np.unique(alone.predict(np.ones((80, 2))))) == 1


@every
def test_one_target(make):
    """If all targets are equal, that is the prediction."""
    network = make(5, max_epochs=50, random_state=0).fit(X, np.full(80, 7))
    np.testing.assert_allclose(network.predict(X), 7, rtol=1e-6)


@every
@pytest.mark.parametrize("size", [1e-30, 1e30])
@pytest.mark.parametrize("solver", ["adam", "sgd"])
@pytest.mark.filterwarnings("ignore::hardzero.DeadUnitWarning")
def test_tiny_and_huge_features(make, size, solver):
    """They end in finite predictions or in an error that tells the cure."""
    network = make(20, solver=solver, max_epochs=5, random_state=0)
    cure = "epoch [12] at learning rate .*, or scale the inputs.*StandardScaler"
    with contextlib.ExitStack() as stack:
        if size > 1:
            stack.enter_context(contextlib.suppress(DivergenceError))
            stack.enter_context(_only_with(DivergenceError, cure))
        network.fit(X * size, Y)
        assert np.isfinite(network.predict(X * size)).all()


@contextlib.contextmanager
def _only_with(error, message):
    """Let an error of this kind pass only if its text matches."""
    try:
        yield
    except error as raised:
        if not re.search(message, str(raised)):
            raise AssertionError(str(raised)) from raised
        raise


def test_huge_targets():
    """Targets are standardised inside, so that their size does not matter."""
    for size in (1e-30, 1e30):
        network = RectifierRegressor(30, max_epochs=200, random_state=0)
        network.fit(X.astype(np.float32), size * X[:, 0])
        # the ratio, as squares of such numbers are no floats
        assert network.predict(X)[:9] / size == pytest.approx(X[:9, 0], abs=0.5)


def test_dead_units_are_warned_of_within_an_epoch():
    """So are cause and cure, for regressors as well."""
    rows, y = load_digits(return_X_y=True)
    network = RectifierRegressor((100, 100), learning_rate=0.1, max_epochs=1)
    with pytest.warns(DeadUnitWarning, match=r"dead units.*cause.*Remedy"):
        network.fit(rows, y)


@every
def test_a_failed_fit_leaves_nothing(make):
    """An estimator that could not be fitted again does not look fitted."""
    network = make(5, max_epochs=1).fit(X, Y)
    with pytest.raises(DivergenceError):
        network.set_params(solver="sgd", learning_rate=1e300).fit(X, Y)
    with pytest.raises(NotFittedError):
        network.predict(X)


@every
def test_masked_entries(make):
    """A mask would be lost: rows and targets that have one are refused."""
    mask = np.zeros((80, 4), bool)
    mask[3, 1] = True
    with pytest.raises(DataError, match=r"X has 1 masked entries.*\.filled"):
        make(5).fit(np.ma.array(X, mask=mask), Y)
    with pytest.raises(DataError, match="y has 1 masked entries"):
        make(5).fit(X, np.ma.array(Y, mask=mask[:, 1]))
    network = make(5, max_epochs=1).fit(np.ma.array(X), Y)
    with pytest.raises(DataError, match="X has 1 masked entries"):
        network.predict(np.ma.array(X, mask=mask))


@every
@pytest.mark.parametrize("form", [np.array, pd.DataFrame, list], ids=str)
@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]"])
def test_dates_are_no_features(make, form, dtype):
    """Dates and times are refused, and how to make numbers of them is told."""
    days = np.arange(160).reshape(80, 2).astype(dtype)
    with pytest.raises(DataError, match=r"X holds dates or times.*timedelta64"):
        make(5).fit(form(days), Y)
    with pytest.raises(DataError, match="X holds dates or times"):
        make(5).fit(days.astype(object), Y)
    with pytest.raises(DataError, match="y holds dates or times"):
        make(5).fit(X, days[:, 0])


@every
@pytest.mark.parametrize("n_threads", ["x", None, 2.7, 0])
def test_threads_that_are_no_number(make, n_threads):
    """After fit, too, parameters are checked before they are used."""
    network = make(5, max_epochs=1).fit(X, Y).set_params(n_threads=n_threads)
    message = f"n_threads={n_threads!r} was given to {make.__name__}, expected a whole"
    with pytest.raises(ParameterError, match=message):
        network.predict(X)


@pytest.mark.parametrize(
    ("loss", "size"), [("squared", 1.7e308), ("poisson", 1e307)], ids=str
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_targets_too_large(loss, size, dtype):
    """Finite targets are not called infinite, and there is no other warning."""
    with pytest.raises(DataError, match=r"y has numbers of up to .*Divide y by"):
        RectifierRegressor(5, loss=loss).fit(X.astype(dtype), size * Y)


def test_targets_with_a_large_offset():
    """float32 features do not silently cost the precision of targets."""
    y = 1.7e9 + 10 * X[:, 0]
    network = RectifierRegressor(20, max_epochs=100, random_state=0)
    with pytest.raises(DataError, match=r"Subtract a constant from y, or give X\.ast"):
        network.fit(X.astype(np.float32), y)
    assert network.fit(X, y).score(X, y) > 0.8


@every
def test_objects_that_are_no_numbers(make):
    """Dates further down in a frame, and whole numbers that no float holds."""
    mixed = pd.DataFrame({"a": [1.0] + [pd.Timestamp("2020")] * 79})
    with pytest.raises(DataError, match="X holds dates or times"):
        make(5).fit(mixed, Y)
    huge = X.astype(object)
    huge[0, 0] = 10**400
    with pytest.raises(DataError, match=r"no finite float .*Divide it"):
        make(5).fit(huge, Y)
    with pytest.raises(ValueError, match="scalar array"):
        make(5).fit(np.float64(3), Y)
