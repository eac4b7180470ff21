"""Pre-training: rows without targets, hidden layers learned from them, both phases."""

import contextlib
import json
import pickle
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from hardzero import (
    DataError,
    DenoisingAutoencoder,
    DivergenceError,
    FitHistory,
    ParameterError,
    RatingRegressor,
    RectifierClassifier,
    RectifierRegressor,
    save,
)
from hardzero.engine.denoise import DenoisingNetwork
from hardzero.kernels.sparse import SparseNetwork

pytestmark = pytest.mark.filterwarnings("ignore::hardzero.DeadUnitWarning")

X, Y = load_digits(return_X_y=True)
X, Y = X[:200] / 16, Y[:200]
IS_UNLABELED = np.arange(200) % 3 > 0
LABELED, UNLABELED = np.flatnonzero(~IS_UNLABELED), np.flatnonzero(IS_UNLABELED)
MARKED = np.where(IS_UNLABELED, -1, Y)
MATRIX = np.stack([Y > 4, Y % 2 == 0, Y < 2], axis=1).astype(int)
NUMBERS = np.where(IS_UNLABELED, np.nan, Y)
COLUMNS = np.column_stack([NUMBERS, -NUMBERS])
KINDS = [
    (RectifierClassifier, Y, MARKED),
    (RectifierClassifier, MATRIX, np.where(IS_UNLABELED[:, None], -1, MATRIX)),
    (RectifierRegressor, Y, NUMBERS),
    (RectifierRegressor, np.column_stack([Y, -Y]), COLUMNS),
    (RatingRegressor, Y, NUMBERS),
]
NAMES = ["classes", "labels", "numbers", "columns", "ratings"]
every_kind = pytest.mark.parametrize(("make", "y", "marked"), KINDS, ids=NAMES)
every = pytest.mark.parametrize(
    "make", [RectifierClassifier, RectifierRegressor, RatingRegressor]
)


def autoencoder(**options):
    """Return an auto-encoder that is trained in no time."""
    settings = {"corruption": "masking(0.3)", "decoder": "softplus", "max_epochs": 3}
    return DenoisingAutoencoder(**settings | {"learning_rate": 0.01} | options)


def network(make=RectifierClassifier, **options):
    """Return a small network that is pre-trained."""
    settings = {"hidden_sizes": (12, 6), "max_epochs": 4, "random_state": 0}
    return make(**settings | {"pretraining": autoencoder()} | options)


def still(make=RectifierClassifier, **options):
    """Return a network whose layers stay as they were pre-trained."""
    return network(make, solver="sgd", learning_rate=1e-300, max_epochs=1, **options)


# ------------------------------------------------------------------ two phases


@every_kind
def test_hidden_layers_are_those_of_an_autoencoder(make, y, marked):
    """Training starts from what a DenoisingAutoencoder learns from all rows."""
    fitted = still(make).fit(X[LABELED], y[LABELED], X_unlabeled=X[UNLABELED])
    rows = np.concatenate([X[LABELED], X[UNLABELED]])
    alone = autoencoder(hidden_sizes=(12, 6), random_state=0).fit(rows)
    assert fitted.stack_.layers[:2] == alone.stack_.layers
    told = [history.loss for history in fitted.history_.pretraining]
    assert told == [history.loss for history in alone.histories_]
    moved = network(make).fit(X, marked)
    assert moved.stack_.layers[0] != fitted.stack_.layers[0]
    assert moved.history_.pretraining[0].loss == told[0]


@every_kind
def test_marked_rows_are_rows_without_targets(make, y, marked):
    """Marks in y and X_unlabeled give the same bits; both differ from neither."""
    by_marks = network(make).fit(X, marked)
    given = network(make).fit(X[LABELED], y[LABELED], X_unlabeled=X[UNLABELED])
    assert by_marks.stack_ == given.stack_
    assert by_marks.batch_size_ == given.batch_size_
    fewer = network(make).fit(X[LABELED], y[LABELED])
    assert by_marks.stack_ != fewer.stack_
    both = network(make).fit(X[:150], marked[:150], X_unlabeled=X[150:])
    assert both.history_.pretraining[0].loss != by_marks.history_.pretraining[0].loss
    np.testing.assert_array_equal(by_marks.predict(X), given.predict(X))


@every
def test_the_name_alone_means_the_defaults(make):
    """Pre-training by name is that of an auto-encoder without arguments."""
    by_name, by_object = (
        make((8,), pretraining=how, max_epochs=2, random_state=0).fit(X, Y)
        for how in ("denoising", DenoisingAutoencoder())
    )
    assert by_name.stack_ == by_object.stack_
    assert by_name.history_.pretraining[0].n_epochs == DenoisingAutoencoder().max_epochs


def test_the_network_decides_about_its_layers():
    """Sizes, activations, signs, engine, threads and files are the network's; noise
    and rates are the auto-encoder's, which is left as it was.
    """
    given = autoencoder(
        hidden_sizes=(3,), activation="tanh", engine="reference", n_threads=2
    )
    fitted = still(
        pretraining=given, activation=("rectifier", "softplus"), sign_flip=True
    ).fit(X, Y)
    expected = autoencoder(
        hidden_sizes=(12, 6),
        activation=("rectifier", "softplus"),
        sign_flip=True,
        random_state=0,
    ).fit(X)
    assert fitted.stack_.layers[:2] == expected.stack_.layers
    assert (
        given.get_params()
        == autoencoder(
            hidden_sizes=(3,), activation="tanh", engine="reference", n_threads=2
        ).get_params()
    )
    assert not hasattr(given, "stack_")


def test_parameters_for_each_layer():
    """They must be as many as the network has hidden layers."""
    given = autoencoder(
        corruption=("none", "swap(0.1)"), decoder=("softplus", "linear")
    )
    assert len(network(pretraining=given).fit(X, Y).history_.pretraining) == 2
    with pytest.raises(ParameterError, match=r"corruption has 2 entries but .* 1"):
        network(pretraining=given, hidden_sizes=(5,)).fit(X, Y)


def test_seeds():
    """The auto-encoder's counts if it has one, else the network's."""
    plain = still().fit(X, Y).stack_.layers[:2]
    assert still().fit(X, Y).stack_.layers[:2] == plain
    assert still(random_state=1).fit(X, Y).stack_.layers[:2] != plain
    own = still(random_state=1, pretraining=autoencoder(random_state=0))
    assert own.fit(X, Y).stack_.layers[:2] == plain
    drawn = still(random_state=None)
    assert drawn.fit(X, Y).stack_ != drawn.fit(X, Y).stack_


def test_no_hidden_layers():
    """There is nothing to pre-train then; rows without labels are left out."""
    fitted = network(hidden_sizes=()).fit(X, MARKED)
    assert fitted.history_.pretraining == ()
    plain = network(hidden_sizes=(), pretraining=None).fit(X[LABELED], Y[LABELED])
    assert fitted.stack_ == plain.stack_
    with pytest.warns(UserWarning, match="X_unlabeled is not used"):
        network(hidden_sizes=()).fit(X, Y, X_unlabeled=X)


def test_pretraining_helps_where_labels_are_few():
    """Of documents on four themes twelve have labels; what words go together is
    learned from the others, and tells the theme of documents without a labelled word.
    """
    gains = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        (rows, y), (test, expected) = _documents(1000, rng), _documents(500, rng)
        few = np.concatenate([np.flatnonzero(y == theme)[:3] for theme in range(4)])
        marked = np.full(1000, -1)
        marked[few] = y[few]
        scratch = RectifierClassifier((30,), random_state=seed).fit(rows[few], y[few])
        pretrained = clone(scratch).set_params(
            pretraining=DenoisingAutoencoder(
                corruption="masking(0.5)", decoder="sigmoid", learning_rate=0.001
            )
        )
        pretrained.fit(rows, marked)
        gains.append(pretrained.score(test, expected) - scratch.score(test, expected))
    assert min(gains) > 0.02
    assert np.mean(gains) > 0.05


def _documents(n, rng):
    """Return which words are in documents, and their themes."""
    theme = rng.integers(0, 4, n)
    own = 60 * theme[:, None] + rng.integers(0, 60, (n, 8))
    words = np.where(rng.random((n, 8)) < 0.2, rng.integers(0, 240, (n, 8)), own)
    rows = np.zeros((n, 240), dtype=np.float32)
    np.put_along_axis(rows, words, 1, axis=1)
    return sp.csr_array(rows), theme


# ------------------------------------------------------------------ marks in y

WORDS = np.array([f"digit {k}" for k in Y], dtype=object)
MARKED_WORDS = np.where(IS_UNLABELED, -1, WORDS)


@pytest.mark.parametrize(
    "y",
    [
        MARKED,
        MARKED.astype(float),
        MARKED.tolist(),
        pd.Series(MARKED),
        MARKED[:, None],
        MARKED_WORDS,
        pd.Series(MARKED_WORDS),
        pd.Series(MARKED_WORDS).astype("category"),
        np.where(IS_UNLABELED, np.int64(-1), WORDS),
        np.where(IS_UNLABELED, -1.0, WORDS),
    ],
    ids=[
        *("int", "float", "list", "series", "column", "words"),
        *("series of words", "category", "numpy", "words and -1.0"),
    ],
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_labels_of_all_kinds(y):
    """The number -1 marks a row, whatever the other labels are; it is no class."""
    fitted = network().fit(X, y)
    plain = network().fit(X[LABELED], Y[LABELED], X_unlabeled=X[UNLABELED])
    assert [layer.W.tolist() for layer in fitted.stack_.layers] == [
        layer.W.tolist() for layer in plain.stack_.layers
    ]
    assert len(fitted.classes_) == 10
    assert set(fitted.classes_) == set(np.ravel(y)) - {-1}
    assert set(fitted.predict(X)) <= set(fitted.classes_)


@pytest.mark.parametrize(
    "y",
    [
        MARKED_WORDS.astype(str),
        MARKED_WORDS.astype(str).astype(object),
        MARKED_WORDS.astype(str).tolist(),
        MARKED_WORDS.astype(bytes),
        pd.Series(MARKED_WORDS.astype(str)),
        MARKED_WORDS.tolist(),  # of which NumPy makes text
        np.where(IS_UNLABELED, "-1", MARKED_WORDS),
    ],
    ids=["str", "object", "list", "bytes", "series", "mixed list", "both"],
)
def test_text_of_minus_1(y):
    """It may be a label or a mark, so it is refused with how to write either."""
    message = r"text and has the label '-1', expected the number -1.*dtype=object"
    with pytest.raises(DataError, match=message):
        network().fit(X, y)
    if not isinstance(y, list):
        assert "-1" in network(pretraining=None).fit(X, y.astype(str)).classes_


def test_minus_1_and_one_other_label_are_two_labels():
    """As everywhere in scikit-learn: there would be nothing to tell apart. Beside
    words, -1 is always a mark.
    """
    for signs in (np.where(Y > 4, 1, -1), np.where(Y > 4, 1.0, -1.0)):
        assert list(network().fit(X, signs).classes_) == [-1, 1]
    three = np.where(IS_UNLABELED, -1, Y > 4)
    assert list(network().fit(X, three).classes_) == [0, 1]
    word = np.where(IS_UNLABELED, -1, np.array("word", dtype=object))
    assert list(network().fit(X, word).classes_) == ["word"]


def test_without_pretraining_minus_1_is_a_label():
    """Nothing changes where no pre-training was asked for; NaN stays an error."""
    assert -1 in network(pretraining=None).fit(X, MARKED).classes_
    with pytest.raises(ValueError, match="Input y contains NaN"):
        network(RectifierRegressor, pretraining=None).fit(X, NUMBERS)


@pytest.mark.parametrize("make", [RectifierRegressor, RatingRegressor])
@pytest.mark.parametrize(
    "y",
    [
        NUMBERS,
        NUMBERS.astype(np.float32),
        np.where(IS_UNLABELED, None, Y),
        np.where(IS_UNLABELED, None, Y).tolist(),
        pd.Series(NUMBERS),
        pd.Series(NUMBERS).astype("Float64"),
        pd.Series(np.where(IS_UNLABELED, None, Y)).astype("Int64"),
    ],
    ids=["float64", "float32", "none", "list", "series", "Float64", "Int64"],
)
def test_numbers_of_all_kinds(make, y):
    """NaN, None and the missing value of pandas mark rows."""
    fitted = network(make).fit(X, y)
    plain = network(make).fit(X[LABELED], Y[LABELED], X_unlabeled=X[UNLABELED])
    np.testing.assert_allclose(fitted.predict(X), plain.predict(X), rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "y", "message"),
    [
        (RectifierClassifier, np.full(200, -1), "y is -1 in all rows, expected some"),
        (RectifierClassifier, np.full((200, 3), -1), "y is -1 in all rows.*Denoising"),
        (
            RectifierClassifier,
            np.where(IS_UNLABELED[:, None] & [True, False, True], -1, MATRIX),
            r"y has -1 in some columns of row 1, counted from 0.*put -1 into the whole",
        ),
        (RectifierRegressor, np.full(200, np.nan), "y is NaN in all rows, expected"),
        (
            RectifierRegressor,
            [None] * 200,
            "y is NaN in all rows.*DenoisingAutoencoder",
        ),
        (
            RectifierRegressor,
            np.column_stack([NUMBERS, Y]),
            r"y has NaN in some columns of row 1, counted from 0.*put NaN into",
        ),
        (
            RectifierRegressor,
            np.where(IS_UNLABELED, None, Y.astype(str).astype(object)),
            "y holds text, but RectifierRegressor learns numbers",
        ),
        (RatingRegressor, np.where(IS_UNLABELED, np.inf, Y), "y contains infinity"),
        (RatingRegressor, np.full(200, np.nan), "y is NaN in all rows, expected"),
        (
            RectifierClassifier,
            NUMBERS,
            "NaN or None as label in row 1, counted from 0, expected the number -1 for",
        ),
        (
            RectifierClassifier,
            np.where(IS_UNLABELED, None, Y),
            "a NaN or None as label",
        ),
        (
            RectifierClassifier,
            pd.Series(NUMBERS).astype("Int64"),
            "NaN or None as label",
        ),
        (
            RectifierClassifier,
            np.where(IS_UNLABELED[:, None], np.nan, MATRIX),
            "NaN or None as label in row 1",
        ),
        (RectifierClassifier, np.ma.array(Y, mask=IS_UNLABELED), "y has 133 masked"),
        (RectifierClassifier, MARKED[:9], "inconsistent numbers of samples"),
        (RectifierClassifier, None, "requires y to be passed"),
        (RectifierRegressor, None, "requires y to be passed|y cannot be None"),
        (RectifierRegressor, np.zeros((200, 2, 2)), "dim 3"),
    ],
)
def test_targets_that_cannot_be_used(make, y, message):
    """All rows, or parts of rows, cannot be marked; the rest is as without marks."""
    for train in (network(make).fit, network(make).partial_fit):
        with pytest.raises(ValueError, match=message):
            train(X, y)


def test_marks_are_no_labels_to_validate_on():
    """Validation rows need targets."""
    with pytest.raises(DataError, match=r"y_val has labels that are not among.*: -1"):
        network().fit(X, MARKED, X_val=X, y_val=MARKED)
    with pytest.raises(ValueError, match="Input y_val contains NaN"):
        network(RectifierRegressor).fit(X, NUMBERS, X_val=X, y_val=NUMBERS)
    mixed = np.where(IS_UNLABELED, None, MARKED_WORDS)
    with pytest.raises(DataError, match=r"y_val mixes labels .* convert y_val"):
        network().fit(X, WORDS, X_val=X, y_val=mixed)
    with pytest.raises(
        DataError, match=r"sample_weight_val .* for each row of X_val\."
    ):
        network().fit(X, Y, X_val=X, y_val=Y, sample_weight_val=[1, 2])


def test_statistics_of_targets_leave_out_marked_rows():
    """Classes are balanced, and numbers scaled, by the rows that have targets."""
    for make, y, marked, options in (
        (RectifierClassifier, Y, MARKED, {"class_weight": "balanced"}),
        (RatingRegressor, Y, NUMBERS, {"class_weight": "balanced"}),
        (RectifierRegressor, 1e6 + Y, 1e6 + NUMBERS, {}),
    ):
        by_marks = network(make, **options).fit(X, marked)
        given = network(make, **options)
        given.fit(X[LABELED], y[LABELED], X_unlabeled=X[UNLABELED])
        assert by_marks.stack_ == given.stack_


# ------------------------------------------------------------------ what -1 is

SIGNS = np.where(Y > 4, 1, -1)


def n_trained(one, rows, y, **options):
    """Return how many rows a further call trains on."""
    seen = []
    step = SparseNetwork.step

    def counted(self, rows):
        seen.extend(rows)
        return step(self, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparseNetwork, "step", counted)
        getattr(one, "fit" if one.warm_start else "partial_fit")(rows, y, **options)
    return len(seen)


def test_a_declared_class_of_minus_1_is_a_class():
    """It is counted as one, with any number of others, in each call and in scores."""
    three = Y % 3 - 1
    one = network(engine="sparse")
    assert n_trained(one, X, three, classes=[-1, 0, 1]) == 200
    assert n_trained(one, X, three) == 200
    assert n_trained(one, X[:5], np.full(5, -1)) == 5
    right = one.predict(X) == three
    assert one.score(X, three) == right.mean()
    assert one.score(X[three < 0], three[three < 0]) == right[three < 0].mean()


def test_the_first_call_decides_what_minus_1_is():
    """Two labels, -1 and another, stay labels, whatever later rows have of them."""
    one = network(engine="sparse").partial_fit(X, SIGNS)
    assert n_trained(one, X[:5], np.full(5, -1)) == 5
    assert n_trained(one, X, SIGNS) == 200
    kept = pickle.loads(pickle.dumps(one))
    assert n_trained(kept, X[:5], np.full(5, -1)) == 5


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_mark_stays_a_mark(warm_start):
    """Also where rows have one other label, in later calls and in scores."""
    one = network(engine="sparse", max_epochs=1, warm_start=warm_start)
    n_trained(one, X, MARKED)
    ones = MARKED == 1
    rows = X[ones | IS_UNLABELED], MARKED[ones | IS_UNLABELED]
    assert n_trained(one, *rows) == ones.sum()
    assert one.score(*rows) == (one.predict(X[ones]) == 1).mean()
    with pytest.raises(DataError, match="y is -1 in all rows"):
        one.score(X[:5], np.full(5, -1))


def test_declared_classes_decide_in_the_first_call():
    """Rows with one of them, and marked ones, can come first."""
    y = np.where(IS_UNLABELED, -1, 1)
    one = network(engine="sparse")
    assert n_trained(one, X, y, classes=[0, 1, 2]) == len(LABELED)
    assert list(one.classes_) == [0, 1, 2]
    text = MARKED.astype(str)  # where "-1" is declared, it is no slip
    assert n_trained(network(engine="sparse"), X, text, classes=np.unique(text)) == 200


@pytest.mark.parametrize(("make", "marked"), [k[::2] for k in KINDS], ids=NAMES)
def test_rows_without_targets_alone(make, marked):
    """In a later call they change nothing, as pre-training is over; they are checked
    all the same. The first call, and fit, need targets.
    """
    one, without = network(make), (X[UNLABELED], marked[UNLABELED])
    for train in (one.partial_fit, one.fit, network(make, warm_start=True).fit):
        with pytest.raises(DataError, match=r"y is (-1|NaN) in all rows"):
            train(*without)
    one.partial_fit(X, marked)
    before = one.stack_
    assert one.partial_fit(*without) is one
    assert one.stack_ is before
    assert one.n_iter_ == 1
    for rows, weight, message in (
        (X[UNLABELED] * np.nan, None, "Input X contains NaN"),
        (X[:3], None, "inconsistent numbers of samples"),
        (X[UNLABELED], [1.0], "sample_weight has shape"),
    ):
        with pytest.raises(ValueError, match=message):
            one.partial_fit(rows, marked[UNLABELED], sample_weight=weight)
    assert one.partial_fit(X, marked).n_iter_ == 2


def test_scores_need_a_fitted_network():
    """Which knows what -1 is."""
    with pytest.raises(NotFittedError):
        network().score(X, MARKED)


def test_errors_name_declared_classes():
    """Not y, which is sound."""
    with pytest.raises(DataError, match="classes mixes labels that cannot be sorted"):
        network().partial_fit(X, Y, classes=np.array(["a", 1], dtype=object))


# ------------------------------------------------------------------ X_unlabeled


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_rows(form):
    """They are pre-trained on as they are, in any format, marked or given apart."""
    by_marks = network().fit(form(X), MARKED)
    given = network().fit(
        form(X[LABELED]), Y[LABELED], X_unlabeled=sp.csr_array(X[UNLABELED])
    )
    assert by_marks.stack_ == given.stack_
    dense = network().fit(X, MARKED)
    np.testing.assert_allclose(by_marks.predict_proba(X), dense.predict_proba(X))


def test_forms_of_rows_without_targets():
    """Lists, frames, float32 and whole numbers are read as X is."""
    expected = network().fit(X[LABELED], Y[LABELED], X_unlabeled=X[UNLABELED])
    rows = X[UNLABELED]
    for form in (list, pd.DataFrame, np.asfortranarray, lambda a: a.astype(object)):
        fitted = network().fit(X[LABELED], Y[LABELED], X_unlabeled=form(rows))
        assert fitted.stack_ == expected.stack_
    single = network().fit(X[LABELED].astype(np.float32), Y[LABELED], X_unlabeled=rows)
    assert single.stack_.dtype == np.float32
    np.testing.assert_allclose(
        single.predict_proba(X), expected.predict_proba(X), atol=1e-2
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X[:, :9], "X_unlabeled has 9 features, but RectifierClassifier is expecting"),
        (np.full_like(X, np.nan), "Input X_unlabeled contains NaN"),
        (np.ma.masked_array(X, X > 0.5), r"^X_unlabeled has \d+ masked entries"),
        (X[:0], r"^X_unlabeled: .*0 sample\(s\)"),
        (sp.csr_array(X), r"a dense and a sparse.*two of one kind.*csr_array\(X\)"),
        (np.full((5, 64), "x"), "X_unlabeled holds text"),
        (X - 1, r"'softplus' of layer 1 puts out numbers from 0 to inf.*'linear'"),
    ],
    ids=["width", "nan", "masked", "no rows", "sparse", "text", "range"],
)
def test_rows_without_targets_that_cannot_be_used(rows, message):
    """They are checked as rows of X, and the network is as it was before."""
    one = network()
    with pytest.raises(ValueError, match=message):
        one.fit(X, Y, X_unlabeled=rows)
    assert not hasattr(one, "stack_")


def test_names_of_features_are_compared():
    """Columns in another order are refused."""
    frame = pd.DataFrame(X, columns=[f"pixel {k}" for k in range(64)])
    network().fit(frame, Y, X_unlabeled=frame)
    with pytest.raises(ValueError, match="feature names should match"):
        network().fit(frame, Y, X_unlabeled=frame[frame.columns[::-1]])


@every
def test_rows_that_are_not_used_are_told(make):
    """Without pre-training there is no use for them."""
    one = network(make, pretraining=None)
    with pytest.warns(
        UserWarning,
        match=r"X_unlabeled is not used: there is no pre-training.*'denoising'",
    ):
        one.fit(X, Y, X_unlabeled=X)
    assert one.stack_ == clone(one).fit(X, Y).stack_


# ------------------------------------------------------------------ weights


def test_a_weight_of_two_is_two_rows():
    """In one batch, with marked rows and rows given apart; weight 0 is absence."""
    weights = np.random.default_rng(0).integers(0, 4, 200)
    one = network(batch_size=10**4, pretraining=autoencoder(batch_size=10**4))
    weighted = clone(one).fit(X, MARKED, sample_weight=weights)
    repeated = clone(one).fit(np.repeat(X, weights, axis=0), np.repeat(MARKED, weights))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X))
    for one, other in zip(
        weighted.history_.pretraining, repeated.history_.pretraining, strict=True
    ):
        assert one.loss == pytest.approx(other.loss)


def test_rows_given_apart_count_as_much_as_rows_of_x_on_average():
    """All weights times ten change nothing, and equal weights are none."""
    given = {"X_unlabeled": X[150:]}
    plain = still().fit(X[:150], Y[:150], **given)
    for weight in (1.0, 10.0):
        fitted = still().fit(X[:150], Y[:150], np.full(150, weight), **given)
        for one, other in zip(fitted.stack_.layers, plain.stack_.layers, strict=True):
            np.testing.assert_allclose(one.W, other.W, rtol=1e-9, atol=1e-12)
    weights = np.arange(1.0, 151)
    fitted = still().fit(X[:150], Y[:150], weights, **given)
    alone = autoencoder(hidden_sizes=(12, 6), random_state=0)
    alone.fit(X, sample_weight=np.append(weights, [weights.mean()] * 50))
    assert fitted.stack_.layers[:2] == alone.stack_.layers


def test_targets_without_weight():
    """If all rows with targets have weight 0, nothing can be learned from them."""
    with pytest.raises(DataError, match="all rows with targets have weight 0, expec"):
        network().fit(X, MARKED, sample_weight=IS_UNLABELED * 1.0)
    fitted = network().fit(X, MARKED, sample_weight=~IS_UNLABELED * 1.0)
    fewer = network().fit(X[LABELED], Y[LABELED])
    np.testing.assert_allclose(fitted.predict_proba(X), fewer.predict_proba(X))


# ------------------------------------------------------------------ validation


@every_kind
def test_validation_rows_have_targets(make, y, marked):
    """Early stopping sets rows with targets aside, as if there were no others."""
    options = {"early_stopping": True, "validation_fraction": 0.3, "patience": 2}
    by_marks = network(make, max_epochs=30, **options).fit(X, marked)
    given = network(make, max_epochs=30, **options)
    given.fit(X[LABELED], y[LABELED], X_unlabeled=X[UNLABELED])
    assert by_marks.stack_ == given.stack_
    assert len(by_marks.validation_loss_curve_) == by_marks.n_iter_
    assert by_marks.history_.pretraining[0].validation_loss == ()


def test_the_first_phase_can_stop_early_too():
    """By reconstruction error on rows of its own; a grid chooses its rate."""
    given = autoencoder(
        early_stopping=True, learning_rate=(0.05, 1e-5), corruption="none", patience=2
    ).set_params(max_epochs=60)
    fitted = network(pretraining=given).fit(X, MARKED)
    for history in fitted.history_.pretraining:
        assert len(history.validation_loss) == history.n_epochs
        assert history.learning_rate[0] == 0.05
    fitted = network(pretraining=given, early_stopping=True).fit(X, MARKED)
    assert fitted.validation_loss_curve_


# ------------------------------------------------------------------ frozen


def test_a_fitted_autoencoder_is_used_as_it_is():
    """In a FrozenEstimator; it may have been fitted on other rows, and to float32."""
    rows = np.random.default_rng(0).uniform(size=(99, 64))
    fitted = autoencoder(hidden_sizes=(12, 6), random_state=0).fit(rows)
    one = still(pretraining=FrozenEstimator(fitted))
    assert one.fit(X, MARKED).stack_.layers[:2] == fitted.stack_.layers
    assert one.history_.pretraining == fitted.histories_
    assert clone(one).fit(X, MARKED).stack_ == one.stack_
    single = clone(one).fit(X.astype(np.float32), Y)
    assert single.stack_.dtype == np.float32
    assert single.stack_.layers[0] == fitted.stack_.astype(np.float32).layers[0]


@pytest.mark.parametrize(
    "options",
    [
        {"hidden_sizes": (12,)},
        {"hidden_sizes": (12, 7)},
        {"activation": "tanh"},
        {"sign_flip": True},
    ],
    ids=str,
)
def test_a_fitted_autoencoder_of_another_architecture(options):
    """Both architectures are shown, and what to give."""
    fitted = FrozenEstimator(autoencoder(hidden_sizes=(12, 6)).fit(X))
    message = r"(?s)fitted DenoisingAutoencoder with the layers.*expected.*Give the est"
    with pytest.raises(ParameterError, match=message):
        network(pretraining=fitted, **options).fit(X, Y)


def test_a_fitted_autoencoder_of_other_features_or_none():
    """Other widths are refused, and one that was not fitted."""
    fitted = FrozenEstimator(autoencoder(hidden_sizes=(12, 6)).fit(X))
    with pytest.raises(ParameterError, match="and data with the same features"):
        network(pretraining=fitted).fit(X[:, :9], Y)
    with pytest.raises(ParameterError, match=r"frozen .* not fitted.*Fit it first, or"):
        network(pretraining=FrozenEstimator(autoencoder())).fit(X, Y)


def test_a_fitted_autoencoder_without_freezer_is_trained_anew():
    """As scikit-learn has it: fitting an estimator starts from its parameters."""
    fitted = autoencoder(hidden_sizes=(12, 6)).fit(X[:50])
    kept = fitted.stack_
    anew = still(pretraining=fitted).fit(X, Y)
    assert anew.stack_ == still().fit(X, Y).stack_
    assert fitted.stack_ is kept


# ------------------------------------------------------------------ parameters


@every
@pytest.mark.parametrize("given", ["masking", True, 3, RectifierClassifier()], ids=str)
def test_pretraining_that_is_none(make, given):
    """Anything else is refused with what is allowed."""
    with pytest.raises(
        ParameterError,
        match=rf"(?s)pretraining=.* was given to {make.__name__}, expected None, 'den",
    ):
        make(5, pretraining=given).fit(X, Y)


@every
def test_biases_are_needed(make):
    """Without them there is no pre-training."""
    one = network(make, fit_intercept=False)
    for train in (one.fit, one.partial_fit):
        with pytest.raises(ParameterError, match=r"pretraining .* fit_intercept=False"):
            train(X, Y)


def test_wrong_parameters_of_the_autoencoder():
    """They are refused by its name, and rates that diverge by theirs."""
    with pytest.raises(
        ParameterError, match="rescale='x' was given to DenoisingAutoencoder"
    ):
        network(pretraining=autoencoder(rescale="x")).fit(X, Y)
    blown = autoencoder(solver="sgd", learning_rate=1e200)
    with pytest.raises(DivergenceError, match=r"at learning rate 1e\+200"):
        network(pretraining=blown).fit(X, Y)


@every
def test_options_of_the_second_phase_work(make):
    """Dropout, normalisation, norms and schedules act on pre-trained layers."""
    plain = network(make).fit(X, Y)
    for options in (
        {"dropout": 0.3, "input_dropout": 0.1, "max_norm": 2.0},
        {"batch_norm": True, "clip_norm": 1.0},
        {"solver": "sgd", "momentum": 0.9, "nesterov": True, "l1": 1e-4, "l2": 1e-4},
        {"engine": "dense", "learning_rate_schedule": "cosine", "shuffle": False},
        {"engine": "reference", "l1_activation": 1e-3},
    ):
        fitted = network(make, **options).fit(X, Y)
        assert fitted.stack_ != plain.stack_
        assert fitted.n_iter_ == 4
        assert fitted.score(X, Y) > -9


def test_searches_reach_the_parameters_of_the_autoencoder():
    """Nested names work in grids; clones are independent."""
    one = network()
    one.set_params(pretraining__max_epochs=2, pretraining__corruption="swap(0.1)")
    assert one.get_params()["pretraining__max_epochs"] == 2
    other = clone(one)
    assert other.pretraining is not one.pretraining
    assert len(other.fit(X, Y).history_.pretraining[0].loss) == 2
    grid = {"pretraining__max_epochs": [1, 5]}
    search = GridSearchCV(network(hidden_sizes=(8,)), grid, cv=2).fit(X, Y)
    n_epochs = search.best_params_["pretraining__max_epochs"]
    assert search.best_estimator_.history_.pretraining[0].n_epochs == n_epochs
    choice = GridSearchCV(network(), {"pretraining": [None, "denoising"]}, cv=2)
    assert choice.fit(X, Y).best_params_["pretraining"] in (None, "denoising")


def test_rows_without_targets_are_routed_whole():
    """Searches and cross-validation hand them to each fit, all of them."""
    with config_context(enable_metadata_routing=True):
        routed = network().set_fit_request(X_unlabeled=True)
        given = {"X_unlabeled": X[150:]}
        result = cross_validate(
            routed, X[:150], Y[:150], cv=2, params=given, return_estimator=True
        )
        search = GridSearchCV(routed, {"hidden_sizes": [(5,), (12, 6)]}, cv=2)
        search.fit(X[:150], Y[:150], **given)
    for fitted in result["estimator"]:
        assert fitted.history_.pretraining[0].n_epochs == 3
    direct = clone(search.best_estimator_).fit(X[:150], Y[:150], **given)
    assert direct.stack_ == search.best_estimator_.stack_


def test_rows_without_targets_in_a_pipeline():
    """They go through the steps before, if it is told to transform them, too."""
    labeled, unlabeled = 9 * X[LABELED] - 3, 9 * X[UNLABELED] - 3
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(
            MinMaxScaler(clip=True),
            network().set_fit_request(X_unlabeled=True),
            transform_input=["X_unlabeled"],
        )
        pipeline.fit(labeled, Y[LABELED], X_unlabeled=unlabeled)
    scale = pipeline[0].transform
    direct = network().fit(scale(labeled), Y[LABELED], X_unlabeled=scale(unlabeled))
    assert pipeline[-1].stack_ == direct.stack_


@every
def test_cross_validation(make):
    """Scores of folds can be had; each fold is pre-trained on its own rows."""
    scores = cross_val_score(
        network(make, max_epochs=40, learning_rate=0.01), X, Y, cv=3
    )
    assert scores.mean() > 0.3


# ------------------------------------------------------------------ going on


@every_kind
def test_a_warm_start_does_not_pretrain_again(make, y, marked):
    """Two fits of two epochs are one of four, and the first phase stays on record."""
    whole = network(make, tol=None).fit(X, marked)
    parts = network(make, tol=None, warm_start=True, max_epochs=2).fit(X, marked)
    told = parts.history_.pretraining
    assert parts.fit(X, marked).stack_ == whole.stack_
    assert parts.history_.pretraining == told
    assert parts.n_iter_ == 4
    with pytest.warns(
        UserWarning, match=r"is not used: training goes on.*warm_start=F"
    ):
        parts.fit(X[LABELED], y[LABELED], X_unlabeled=X[UNLABELED])


@every_kind
def test_partial_fit_pretrains_in_its_first_call(make, y, marked):
    """Calls over the same rows give the bits of fit; marked rows count in the first."""
    whole = network(make, tol=None).fit(X, marked)
    parts = network(make, tol=None)
    for _ in range(4):
        parts.partial_fit(X, marked)
    assert parts.stack_ == whole.stack_
    assert len(parts.history_.pretraining) == 2
    before = parts.history_.pretraining
    assert parts.partial_fit(X[LABELED], y[LABELED]).history_.pretraining == before
    again = pickle.loads(pickle.dumps(parts))
    assert again.partial_fit(X, marked).stack_ == parts.partial_fit(X, marked).stack_


def test_classes_of_the_first_call():
    """They can be told, so that the first rows need not have all of them."""
    few = np.flatnonzero((Y < 5) | IS_UNLABELED)
    one = network().partial_fit(X[few], MARKED[few], classes=range(10))
    assert list(one.classes_) == list(range(10))
    assert one.partial_fit(X, MARKED).n_iter_ == 2


def test_a_new_fit_starts_anew():
    """Without warm_start it is pre-trained again, and forgets it when told to."""
    one = network().fit(X[:100], Y[:100])
    assert one.fit(X, Y).stack_ == network().fit(X, Y).stack_
    assert one.set_params(pretraining=None).fit(X, Y).history_.pretraining == ()


# ------------------------------------------------------------------ what is told


def test_history_of_both_phases():
    """It survives JSON, and its summary has a part for each layer."""
    fitted = network().fit(X, MARKED)
    history = fitted.history_
    assert FitHistory.from_json(history.to_json()) == history
    assert json.loads(history.to_json())["version"] == 3
    for number, layer in enumerate(history.pretraining, 1):
        assert f"pre-training of layer {number}: FitHistory: 3 epochs" in repr(history)
        assert layer.n_epochs == 3
        assert layer.validation_error == ()
    assert history.n_epochs == fitted.n_iter_ == 4


def test_progress_of_both_phases(capsys):
    """Each layer has a bar, then training."""
    network(verbose=True).fit(X, Y)
    shown = capsys.readouterr()
    assert not shown.out
    places = [
        shown.err.index(text) for text in ("layer 1 of 2", "layer 2 of 2", "training")
    ]
    assert places == sorted(places)
    network(pretraining=autoencoder(verbose=True)).fit(X, Y)
    assert capsys.readouterr() == ("", "")


def test_pickles_hold_no_autoencoder():
    """What is kept is the network, as without pre-training."""
    plain = network(hidden_sizes=(200,), pretraining=None).fit(X, Y)
    fitted = network(hidden_sizes=(200,)).fit(X, MARKED)
    size = len(pickle.dumps(fitted))
    assert size < len(pickle.dumps(plain)) + 5000
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.history_ == fitted.history_


def test_skops():
    """A skops file asks to trust nothing but our own classes."""
    skops = pytest.importorskip("skops.io")
    fitted = network().fit(X, MARKED)
    data = skops.dumps(fitted)
    untrusted = skops.get_untrusted_types(data=data)
    assert all(name.startswith("hardzero.") for name in untrusted), untrusted
    again = skops.loads(data, trusted=untrusted)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.history_ == fitted.history_


# ------------------------------------------------------------------ checkpoints


class _CutOffError(Exception):
    """Ends a run."""


def _cut_off():
    raise _CutOffError


@contextlib.contextmanager
def _ended_at(kind, number, how):
    """Let something happen in this step of a kind of network, after its update."""
    step, n_steps = kind.step, 0

    def counted(self, rows):
        nonlocal n_steps
        loss = step(self, rows)
        n_steps += 1
        if n_steps == number:
            how()
        return loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "step", counted)
        yield


# 200 rows are 7 batches, so that a layer has 21 steps, and of 67 with targets 3.
@pytest.mark.parametrize(
    ("kind", "number"),
    [(DenoisingNetwork, 10), (DenoisingNetwork, 30), (SparseNetwork, 8)],
    ids=["layer 1", "layer 2", "second phase"],
)
@pytest.mark.parametrize(("seconds", "seed"), [(None, None), (0.0, 0)])
def test_a_checkpoint_covers_both_phases(kind, number, seconds, seed, tmp_path):
    """A fit that was ended in either phase is finished with the same bits, in files
    of the given name and of that and the number of the layer.
    """
    np.random.seed(0)  # noqa: NPY002
    whole = network(random_state=seed).fit(X, MARKED)
    np.random.seed(0)  # noqa: NPY002
    one = network(
        random_state=seed,
        checkpoint=tmp_path / "file",
        checkpoint_seconds=seconds,
        engine="sparse",
    )
    with _ended_at(kind, number, _cut_off), pytest.raises(_CutOffError):
        clone(one).fit(X, MARKED)
    resumed = clone(one).fit(X, MARKED)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"file", "file.layer1", "file.layer2"}
    finished = clone(one).fit(X, MARKED)
    assert finished.stack_ == resumed.stack_
    assert finished.history_ == resumed.history_
    if seed is not None or kind is SparseNetwork:
        assert resumed.stack_ == whole.stack_
    told = [history.loss for history in resumed.history_.pretraining]
    assert told == [history.loss for history in whole.history_.pretraining]


_KILLED = """
import os, signal, sys
import numpy as np
from hardzero import DenoisingAutoencoder, RectifierClassifier
from hardzero.engine.denoise import DenoisingNetwork

path, number, n_steps, step = sys.argv[1], int(sys.argv[2]), 0, DenoisingNetwork.step

def counted(self, rows):
    global n_steps
    n_steps += 1
    if n_steps == number:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, rows)

DenoisingNetwork.step = counted
X, y = np.load(path + ".X.npy"), np.load(path + ".y.npy")
RectifierClassifier(
    (12, 6), max_epochs=4, random_state=0, checkpoint=path,
    pretraining=DenoisingAutoencoder(
        corruption="masking(0.3)", decoder="softplus", max_epochs=3, learning_rate=0.01
    ),
).fit(X, y)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("number", [9, 24, 40])
def test_kill_9_while_a_layer_is_pretrained(number, tmp_path):
    """The next process goes on from the files, with the same bits."""
    path = tmp_path / "file"
    np.save(f"{path}.X.npy", X)
    np.save(f"{path}.y.npy", MARKED)
    command = [sys.executable, "-c", _KILLED, str(path), str(number)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    whole = network().fit(X, MARKED)
    assert network(checkpoint=path).fit(X, MARKED).stack_ == whole.stack_


def test_checkpoints_after_another_pretraining_are_refused(tmp_path):
    """The file of the second phase knows the layers that it started from."""
    one = network(checkpoint=tmp_path / "file").fit(X, MARKED)
    with pytest.raises(DataError, match=r"layer1 is of another task.*corruption"):
        clone(one).set_params(pretraining__corruption="none").fit(X, MARKED)
    with pytest.raises(DataError, match=r"file is of another task.*content of X"):
        clone(one).fit(X[:150], MARKED[:150])
    with pytest.raises(DataError, match=r"layer1 is of another task.*content of X"):
        clone(one).fit(X, MARKED, X_unlabeled=X[:9])
    for layer in (1, 2):
        (tmp_path / f"file.layer{layer}").unlink()
    with pytest.raises(DataError, match="file is of another task: pre-trained layers"):
        clone(one).set_params(pretraining__corruption="none").fit(X, MARKED)
    with pytest.raises(DataError, match=r"pre-trained layers is \w+ in the file and"):
        clone(one).set_params(pretraining=None).fit(X[LABELED], Y[LABELED])


@pytest.mark.parametrize("sizes", [(12,), (12, 6)], ids=str)
def test_more_epochs_of_the_first_phase_change_no_file(sizes, tmp_path):
    """The file of the second started from its layers; it is refused before they are
    trained on, and the old number goes on to be good.
    """
    one = network(hidden_sizes=sizes, checkpoint=tmp_path / "file").fit(X, MARKED)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for name, value, message in (
        ("max_epochs", 5, "pre-training is 3 epochs a layer in the file and 5 epochs"),
        (
            "early_stopping",
            True,
            "pre-training is 3 .* up to 3 epochs a layer with patience 10 now",
        ),
    ):
        changed = clone(one).set_params(**{f"pretraining__{name}": value})
        with pytest.raises(DataError, match=rf"file is of another task: {message}"):
            changed.fit(X, MARKED)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert clone(one).fit(X, MARKED).stack_ == one.stack_
    longer = clone(one).set_params(max_epochs=6).fit(X, MARKED)
    assert (
        longer.stack_ == network(hidden_sizes=sizes, max_epochs=6).fit(X, MARKED).stack_
    )


@pytest.mark.parametrize("seed", [0, None])
def test_files_of_the_second_phase_are_read_before_the_first(seed, tmp_path):
    """What is wrong with them is told before anything is trained."""
    path = tmp_path / "file"
    one = network(checkpoint=path, random_state=seed)
    path.write_text("garbage")
    with pytest.raises(DataError, match="file is not a sound checkpoint"):
        clone(one).fit(X, MARKED)
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match="it is a folder"):
        clone(one).fit(X, MARKED)
    path.rmdir()
    network(pretraining=None, checkpoint=path).fit(X[LABELED], Y[LABELED])
    with pytest.raises(DataError, match="pre-training is absent in the file and 3 epo"):
        clone(one).fit(X, MARKED)
    with pytest.raises(DataError, match="batch_size is 32 in the file and 9 now"):
        clone(one).set_params(batch_size=9).fit(X, MARKED)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with pytest.raises(DataError, match=r"cannot write the checkpoint .*No such file"):
        clone(one).set_params(checkpoint=tmp_path / "nowhere" / "file").fit(X, MARKED)


# ------------------------------------------------------------------ interrupts


def _press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_in_the_first_phase(tmp_path):
    """There is no network yet, so it is passed on; with a checkpoint, the next fit
    goes on from there.
    """
    one = network(checkpoint=tmp_path / "file")
    for number in (10, 30):
        with (
            _ended_at(DenoisingNetwork, number, _press_ctrl_c),
            pytest.raises(KeyboardInterrupt),
        ):
            one.fit(X, MARKED)
        with pytest.raises(NotFittedError):
            one.predict(X)
    assert one.fit(X, MARKED).stack_ == network().fit(X, MARKED).stack_


def test_ctrl_c_in_the_second_phase():
    """The weights of the last epoch are kept, and what is known of the first phase."""
    one = network(engine="sparse", warm_start=True)
    with (
        _ended_at(SparseNetwork, 8, _press_ctrl_c),
        pytest.warns(UserWarning, match="interrupted.*epoch 2 of 2"),
    ):
        one.fit(X, MARKED)
    assert len(one.history_.pretraining) == 2
    whole = network(max_epochs=2).fit(X, MARKED)
    assert one.stack_ == whole.stack_


def test_scores_count_rows_with_targets_only():
    """Rows marked by -1 or NaN neither help nor harm a score; weights go with rows"""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = (X[:, 0] > 0).astype(int) + 2 * (X[:, 1] > 0)
    known = np.arange(60) < 40
    weights = rng.uniform(1, 2, 60)
    classifier = RectifierClassifier((8,), pretraining="denoising", random_state=0)
    classifier.fit(X, np.where(known, y, -1))
    expected = classifier.score(X[known], y[known], weights[known])
    assert classifier.score(X, np.where(known, y, -1), weights) == expected
    regressor = RectifierRegressor((8,), pretraining="denoising", random_state=0)
    target = np.where(known, X[:, 0], np.nan)
    regressor.fit(X, target)
    expected = regressor.score(X[known], X[known, 0])
    assert regressor.score(X, target) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(DataError, match="y is NaN in all rows"):
        regressor.score(X[~known], target[~known])


def test_an_autoencoder_is_no_model_file(tmp_path):
    """Its decoders would be lost, so saving it is refused"""
    autoencoder = DenoisingAutoencoder((3,), max_epochs=1).fit(np.eye(20))
    with pytest.raises(ParameterError, match="has decoders beside its network"):
        save(autoencoder, tmp_path / "model")


def test_a_run_without_a_seed_goes_on_with_the_seed_of_its_first_phase(tmp_path):
    """Stopped in the first phase, first weights of the second are those it drew then"""
    model = RectifierClassifier(
        (6,),
        pretraining=DenoisingAutoencoder(max_epochs=2),
        max_epochs=2,
        checkpoint=tmp_path / "run",
    ).fit(X, Y)
    (tmp_path / "run").unlink()
    again = clone(model).fit(X, Y)
    assert again.stack_ == model.stack_
