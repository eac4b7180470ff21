"""The classifier, as its users see it."""

import copy
import pickle
import signal
import sys
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_score,
    train_test_split,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hardzero import DataError, DeadUnitWarning, DivergenceError, ParameterError
from hardzero import RectifierClassifier as Classifier
from hardzero.kernels.sparse import SparseNetwork

X, Y = load_digits(return_X_y=True)
SMALL = X[:300] / 16
LABELS = Y[:300]


@pytest.fixture(scope="module")
def fitted():
    """Return a small network of two hidden layers; tests leave it as it is."""
    classifier = Classifier((12, 7), sign_flip=True, max_epochs=5, random_state=0)
    return classifier.fit(SMALL, LABELS)


# ------------------------------------------------------------------ accuracy


def test_defaults_on_raw_digits():
    """The defaults reach 0.95 on digits that nobody scaled, without a warning."""
    train, test, train_labels, labels = train_test_split(X, Y, random_state=0)
    classifier = Classifier(random_state=0).fit(train, train_labels)
    assert classifier.score(test, labels) >= 0.95


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "sgd"},
        {"solver": "sgd", "momentum": 0.9, "nesterov": True, "l2": 1e-4},
        {"early_stopping": True, "learning_rate_schedule": "cosine"},
        {"hidden_sizes": (50, 50, 50), "activation": "softplus"},
        {"activation": "tanh", "learning_rate_schedule": "step(20, 0.5)"},
        {"sign_flip": True, "l1_activation": 1e-3},
        {"activation": ("prelu", "selu"), "hidden_sizes": (50, 20)},
    ],
    ids=str,
)
def test_options_on_scaled_digits(options):
    """With any options the rest of the defaults fits: 0.95 on scaled digits."""
    train, test, train_labels, labels = train_test_split(X, Y, random_state=0)
    classifier = make_pipeline(StandardScaler(), Classifier(random_state=0, **options))
    assert classifier.fit(train, train_labels).score(test, labels) >= 0.95


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "load", [load_digits, load_breast_cancer, load_wine, load_iris]
)
def test_defaults_are_no_worse_than_scikit_learns(load):
    """On scaled tables the defaults are as good as MLPClassifier's, up to noise."""
    X, y = load(return_X_y=True)

    def accuracies(make):
        return [
            cross_val_score(
                make_pipeline(StandardScaler(), make(random_state=seed)),
                X,
                y,
                cv=StratifiedKFold(5, shuffle=True, random_state=seed),
            ).mean()
            for seed in range(3)
        ]

    ours, theirs = accuracies(Classifier), accuracies(MLPClassifier)
    noise = np.sqrt(np.var(ours, ddof=1) + np.var(theirs, ddof=1))
    assert np.mean(ours) > np.mean(theirs) - max(2 * noise, 0.005)


def test_l1_makes_zeros():
    """The penalty on activations gives a sparser network, as the history shows."""
    plain, sparse = (
        Classifier(l1_activation=l1, random_state=0, max_epochs=30).fit(SMALL, LABELS)
        for l1 in (0.0, 0.01)
    )
    assert sparse.history_.sparsity[-1][0] > plain.history_.sparsity[-1][0] + 0.1
    zeros = (sparse.transform(SMALL) == 0).mean()
    assert zeros == pytest.approx(sparse.history_.sparsity[-1][0], abs=0.03)


# ------------------------------------------------------------------ trouble


def test_dying_units_are_warned_of():
    """A rate that kills units of unscaled digits is named, with the cure."""
    message = r"hidden layer 1.*mean square 7.*rate 0.1 is too high.*StandardScaler"
    with pytest.warns(DeadUnitWarning, match=message):
        Classifier((100, 100), learning_rate=0.1, max_epochs=1).fit(X, Y)


def test_divergence_is_an_error():
    """Weights that leave the range of floats raise, and the classifier is not fitted
    then, even if it was before.
    """
    classifier = Classifier(solver="sgd", learning_rate=1e30, random_state=0)
    for _ in range(2):
        with pytest.raises(DivergenceError, match=r"epoch 1 at learning rate 1e\+30"):
            classifier.fit(X.astype(np.float32), Y)
        with pytest.raises(NotFittedError):
            classifier.predict(X)
        classifier.set_params(learning_rate=0.01).fit(SMALL[:, :50], LABELS)
        classifier.set_params(learning_rate=1e30)


def test_ctrl_c_leaves_a_fitted_classifier(monkeypatch):
    """Ctrl-C ends fit with a warning; what was learned until then predicts."""
    step, count = SparseNetwork.step, iter(range(10**6))

    def interrupted(self, rows):
        if next(count) == 100:
            signal.raise_signal(signal.SIGINT)
        return step(self, rows)

    monkeypatch.setattr(SparseNetwork, "step", interrupted)
    classifier = Classifier(random_state=0, max_epochs=10**6)
    with pytest.warns(UserWarning, match="interrupted; the weights of epoch 10 of 10"):
        classifier.fit(SMALL, LABELS)
    assert classifier.history_.stopped == "interrupted"
    assert classifier.score(SMALL, LABELS) > 0.8


def test_ctrl_c_leaves_no_half_fitted_classifier(monkeypatch):
    """Ctrl-C while the results are put in place leaves all of them or none."""
    module = sys.modules["hardzero.estimators.base"]
    monkeypatch.setattr(module, "ForwardPass", _interrupt)
    classifier = Classifier(max_epochs=1, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        classifier.fit(SMALL, LABELS)
    assert [name for name in vars(classifier) if name.endswith("_")] == [
        "n_features_in_"
    ]


def _interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_inputs_that_overflow_are_refused(method):
    """There is no class for a row that the network cannot compute with."""
    classifier = Classifier(max_epochs=1, random_state=0).fit(SMALL, LABELS)
    with pytest.raises(DataError, match=r"row 1 of X.* up to 1\.7e\+308.*Scale the"):
        getattr(classifier, method)([SMALL[0], np.full(64, 1.7e308)])


def test_bad_parameters_are_found_in_fit():
    """The constructor takes anything; fit says what is wrong."""
    classifier = Classifier(solver="lbfgs")
    with pytest.raises(ParameterError, match="solver='lbfgs' was given to Rectifier"):
        classifier.fit(X, Y)
    with pytest.raises(ParameterError, match="activation has 2 entries"):
        Classifier(5, activation=["tanh", "elu"]).fit(X, Y)


# ------------------------------------------------------------------ labels


@pytest.mark.parametrize(
    "names",
    [
        np.array([f"digit {k}" for k in range(10)]),
        np.array([f"digit {k}" for k in range(10)], dtype=object),
        np.arange(10) * 0.5 // 0.5 + 3,
        np.arange(10) - 4,
    ],
    ids=["str", "object", "float", "negative"],
)
@pytest.mark.parametrize("early_stopping", [False, True])
def test_labels_of_any_kind(names, early_stopping):
    """Strings, objects and numbers come back as they were given."""
    classifier = Classifier(
        early_stopping=early_stopping, max_epochs=10, random_state=0
    ).fit(SMALL, names[LABELS])
    np.testing.assert_array_equal(classifier.classes_, np.sort(names))
    predicted = classifier.predict(SMALL)
    assert predicted.dtype == names.dtype
    assert (predicted == names[LABELS]).mean() > 0.6


def test_two_classes():
    """For two classes the decision is one column, the log-odds of the second."""
    classifier = Classifier(random_state=0, max_epochs=10).fit(SMALL, LABELS > 4)
    decision = classifier.decision_function(SMALL)
    probability = classifier.predict_proba(SMALL)
    assert decision.shape == (300,)
    assert probability.shape == (300, 2)
    np.testing.assert_allclose(
        decision, np.log(probability[:, 1]) - np.log(probability[:, 0]), rtol=1e-6
    )
    np.testing.assert_array_equal(classifier.predict(SMALL), decision > 0)


def test_one_class():
    """A single class is predicted with probability 1."""
    classifier = Classifier(max_epochs=2, random_state=0).fit(
        SMALL, np.full(300, "only")
    )
    assert set(classifier.predict(SMALL)) == {"only"}
    np.testing.assert_array_equal(classifier.predict_proba(SMALL), np.ones((300, 1)))
    assert classifier.decision_function(SMALL).shape == (300, 1)


def test_many_classes(fitted):
    """Probabilities are the softmax of the decisions and sum to 1."""
    decision = fitted.decision_function(SMALL)
    probability = fitted.predict_proba(SMALL)
    assert decision.shape == probability.shape == (300, 10)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_array_equal(decision.argmax(1), probability.argmax(1))
    np.testing.assert_allclose(decision, fitted.stack_(SMALL), rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------ several labels

MATRIX = np.stack([LABELS > 4, LABELS % 2 == 0, LABELS < 2], axis=1).astype(int)


@pytest.mark.parametrize(
    "make", [np.asarray, sp.csr_array, sp.csc_matrix, np.ndarray.tolist, pd.DataFrame]
)
def test_several_labels(make):
    """A matrix of 0 and 1, in any container, is learned one column for each label."""
    classifier = Classifier(30, max_epochs=40, random_state=0).fit(SMALL, make(MATRIX))
    assert classifier.out_activation_ == "sigmoid"
    assert list(classifier.classes_) == [0, 1, 2]
    assert classifier.score(SMALL, MATRIX) > 0.9
    predicted = classifier.predict(SMALL)
    assert predicted.dtype == np.int64
    probability = classifier.predict_proba(SMALL)
    assert probability.shape == classifier.decision_function(SMALL).shape == (300, 3)
    np.testing.assert_array_equal(predicted, probability > 0.5)
    np.testing.assert_array_equal(predicted, classifier.decision_function(SMALL) > 0)


def test_several_labels_are_learned_as_each_alone():
    """Without hidden layers labels do not mix: each is a regression of its own."""
    options = {"hidden_sizes": (), "solver": "sgd", "init": "glorot_uniform"}
    both = Classifier(**options, max_epochs=200, random_state=0).fit(SMALL, MATRIX)
    for k in range(3):
        alone = Classifier(**options, max_epochs=200, random_state=0)
        alone.fit(SMALL, MATRIX[:, k])
        assert (alone.predict(SMALL) == both.predict(SMALL)[:, k]).mean() > 0.95


def test_labels_that_a_row_does_not_have():
    """Rows without any label, labels of no row and of every row are allowed."""
    matrix = MATRIX * [0, 1, 1]
    matrix[:, 2] = 1
    matrix[:9] = 0
    matrix[:9, 2] = 1
    classifier = Classifier(20, max_epochs=30, random_state=0).fit(SMALL, matrix)
    assert not classifier.predict(SMALL)[:, 0].any()
    assert classifier.predict(SMALL)[:, 2].all()


# ------------------------------------------------------------------ features


@pytest.mark.parametrize(
    "make", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array]
)
def test_sparse_equals_dense(make):
    """Sparse features of any format give what dense ones give, up to rounding."""
    options = {"max_epochs": 5, "random_state": 0}
    dense = Classifier(**options).fit(SMALL, LABELS)
    sparse = Classifier(**options).fit(make(SMALL), LABELS)
    np.testing.assert_allclose(
        sparse.predict_proba(make(SMALL)), dense.predict_proba(SMALL), rtol=1e-6
    )
    np.testing.assert_allclose(
        sparse.transform(SMALL), dense.transform(make(SMALL)), rtol=1e-6, atol=1e-9
    )


@pytest.mark.filterwarnings("ignore::hardzero.DeadUnitWarning")  # of 4 units
def test_wide_sparse_features_are_never_made_dense():
    """Fit and predict on 300 x 300,000 stay far below the memory of a dense array."""
    rng = np.random.default_rng(0)
    wide = sp.random_array((300, 300_000), density=1e-4, format="csr", rng=rng)
    labels = np.arange(300) % 2
    classifier = Classifier(
        4, solver="sgd", batch_size=10, max_epochs=2, random_state=0
    )
    tracemalloc.start()
    try:
        classifier.fit(wide, labels, X_val=wide[:50], y_val=labels[:50]).predict(wide)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300 * 300_000 * 8 / 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(dtype):
    """float32 features give float32 weights and results; float64 gives float64."""
    classifier = Classifier(20, max_epochs=2, random_state=0)
    classifier.fit(SMALL.astype(dtype), LABELS)
    assert classifier.stack_.dtype == dtype
    for other in (np.float32, np.float64):
        rows = SMALL.astype(other)
        for method in ("predict_proba", "decision_function", "transform"):
            assert getattr(classifier, method)(rows).dtype == dtype


def test_integers_train_in_float32():
    """Features that are no floats are trained on as float32."""
    classifier = Classifier(20, max_epochs=2, random_state=0)
    classifier.fit(X.astype(np.uint8), Y)
    assert classifier.stack_.dtype == np.float32


def test_frames():
    """Names of columns are kept, checked, and given to what transform returns."""
    frame = pd.DataFrame(SMALL, index=np.arange(300) + 7).add_prefix("pixel ")
    classifier = Classifier((6, 3), activation="tanh", max_epochs=2)
    classifier.fit(frame, pd.Series(LABELS))
    assert classifier.feature_names_in_[1] == "pixel 1"
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(frame.rename(columns={"pixel 1": "x"}))
    classifier.set_output(transform="pandas")
    hidden = classifier.transform(frame)
    names = ["rectifierclassifier0", "rectifierclassifier1", "rectifierclassifier2"]
    assert list(hidden.columns) == list(classifier.get_feature_names_out()) == names
    assert list(hidden.index) == list(frame.index)
    with pytest.raises(ParameterError, match=r"names the units.*Give layer=-1"):
        classifier.transform(frame, layer=0)


# ------------------------------------------------------------------ hidden layers


def test_transform_gives_any_hidden_layer(fitted):
    """Layers count from 0 or from the end; signs are applied."""
    for layer, n_layers in ((0, 1), (1, 2), (-1, 2), (-2, 1), (np.int64(0), 1)):
        hidden = fitted.transform(SMALL, layer=layer)
        np.testing.assert_allclose(
            hidden, fitted.stack_.truncate(n_layers)(SMALL), rtol=1e-9, atol=1e-12
        )
        half = hidden.shape[1] // 2
        assert hidden[:, :-half].min() >= 0
        assert hidden[:, -half:].max() <= 0
        assert hidden.any()


@pytest.mark.parametrize("layer", [2, -3, 0.0, "last", None])
def test_no_such_layer(fitted, layer):
    """A layer that is not there is refused with the range of those that are."""
    with pytest.raises(
        ParameterError, match=r"2 hidden layers\. Give a number from -2 to"
    ):
        fitted.transform(SMALL, layer=layer)


def test_no_hidden_layer():
    """Without hidden layers the classifier is softmax regression."""
    classifier = Classifier((), max_epochs=20, learning_rate=0.01).fit(SMALL, LABELS)
    assert classifier.stack_.sizes == (64, 10)
    assert classifier.score(SMALL, LABELS) > 0.8
    with pytest.raises(ParameterError, match="the network has no hidden layer"):
        classifier.transform(SMALL)


def test_sizes_and_activations():
    """Sizes may be a number, a list or an array; activations one or one each."""
    for sizes in (6, [6], np.array([6])):
        classifier = Classifier(sizes, activation="tanh", max_epochs=1)
        assert classifier.fit(SMALL, LABELS).stack_.sizes[1] == 6
    classifier = Classifier((4, 3), activation=("tanh", "leaky_rectifier(0.1)"))
    layers = classifier.set_params(max_epochs=1).fit(SMALL, LABELS).stack_.layers
    assert [str(layer.activation) for layer in layers] == [
        "tanh",
        "leaky_rectifier(0.1)",
        "identity",
    ]


# ------------------------------------------------------------------ validation


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, sp.csr_matrix])
def test_own_validation_rows(make):
    """Rows given as X_val choose the best epoch, whatever container they are in."""
    classifier = Classifier(20, random_state=0, max_epochs=15)
    rows, labels = make(X[300:600] / 16), Y[300:600]
    classifier.fit(SMALL, LABELS, X_val=rows, y_val=labels)
    errors = classifier.history_.validation_error
    assert len(errors) == classifier.n_iter_ == 15
    assert errors[classifier.best_epoch_ - 1] == min(errors)
    assert classifier.score(rows, labels) == pytest.approx(1 - min(errors))


def test_early_stopping_means_what_it_says():
    """Training ends exactly `patience` epochs after the best, which is kept."""
    for patience in (1, 4):
        classifier = Classifier(
            early_stopping=True, patience=patience, max_epochs=1000, random_state=0
        ).fit(SMALL, LABELS)
        assert classifier.history_.stopped == "early_stopping"
        assert classifier.n_iter_ == classifier.best_epoch_ + patience


def test_split_leaves_rows_out():
    """Early stopping trains on the rest of the rows, which set the batch size."""
    classifier = Classifier(
        early_stopping=True, validation_fraction=0.9, max_epochs=2, random_state=0
    ).fit(SMALL, LABELS)
    assert classifier.batch_size_ == 30
    errors = np.array(classifier.history_.validation_error) * 270
    np.testing.assert_allclose(errors, errors.round())


def test_validation_rows_need_no_early_stopping():
    """With X_val alone all epochs run; early_stopping then takes no training rows."""
    validation = {"X_val": SMALL, "y_val": LABELS}
    plain = Classifier(max_epochs=3, random_state=0).fit(SMALL, LABELS, **validation)
    assert plain.history_.stopped == "max_epochs"
    stopping = clone(plain).set_params(early_stopping=True, validation_fraction=0.9)
    assert stopping.fit(SMALL, LABELS, **validation).batch_size_ == plain.batch_size_


# ------------------------------------------------------------------ attributes


def test_fitted_attributes(fitted):
    """After fit everything that is documented is there; before, nothing is."""
    with pytest.raises(AttributeError):
        Classifier().loss_curve_  # noqa: B018
    assert [name for name in vars(Classifier()) if name.endswith("_")] == []
    history = fitted.history_
    assert fitted.n_iter_ == history.n_epochs == fitted.best_epoch_ == 5
    assert fitted.loss_curve_ == list(history.loss)
    assert fitted.loss_curve_[-1] < fitted.loss_curve_[0]
    assert (fitted.learning_rate_, fitted.batch_size_) == (0.001, 32)
    assert (fitted.n_features_in_, fitted.n_outputs_) == (64, 10)
    assert fitted.out_activation_ == "softmax"
    assert fitted.stack_.sizes == (64, 12, 7, 10)
    assert len(history.sparsity[0]) == len(history.dead_units[0]) == 2


def test_automatic_values():
    """The automatic batch is a fiftieth of the rows, but 32 to 200 and not over all."""
    classifier = Classifier((), max_epochs=1)
    for copies, size in ((0.05, 15), (1, 32), (20, 120), (40, 200)):
        rows = np.arange(int(300 * copies)) % 300
        assert classifier.fit(SMALL[rows], LABELS[rows]).batch_size_ == size
    assert classifier.learning_rate_ == 0.001
    classifier.set_params(solver="sgd", momentum=0.9).fit(SMALL, LABELS)
    assert classifier.learning_rate_ == pytest.approx(0.005)


def test_pickle_is_small_and_complete(fitted):
    """A pickle takes 1.1 times the parameters; it, and a copy, predict the same."""
    big = Classifier(max_epochs=2, random_state=0).fit(SMALL, LABELS)
    big.predict(SMALL)
    assert len(pickle.dumps(big)) <= 1.1 * 8 * big.stack_.n_parameters
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        np.testing.assert_array_equal(other.predict_proba(X), fitted.predict_proba(X))
        assert other.history_ == fitted.history_


def test_predictions_follow_the_stack(fitted):
    """Predictions use `stack_`, also after it was replaced."""
    changed = copy.deepcopy(fitted)
    changed.predict(SMALL)
    other = clone(fitted).set_params(random_state=1).fit(SMALL, LABELS)
    changed.stack_ = other.stack_
    np.testing.assert_array_equal(
        changed.predict_proba(SMALL), other.predict_proba(SMALL)
    )


# ------------------------------------------------------------------ randomness


@pytest.mark.parametrize("solver", ["adam", "sgd"])
def test_same_seed_same_bits(solver):
    """The same seed gives the same bits, for any number of threads."""
    first, again, threads = (
        Classifier(solver=solver, max_epochs=3, random_state=5, n_threads=n).fit(
            X / 16, Y
        )
        for n in (1, 1, -1)
    )
    assert first.stack_ == again.stack_ == threads.stack_
    other = Classifier(solver=solver, max_epochs=3, random_state=6).fit(X / 16, Y)
    assert other.stack_ != first.stack_


def test_random_state_instance_moves_on():
    """A RandomState gives another fit each time, in a row that can be repeated."""

    def twice():
        state = np.random.RandomState(0)
        make = Classifier(3, max_epochs=1, random_state=state)
        return [make.fit(SMALL, LABELS).stack_ for _ in range(2)]

    first, second = twice()
    assert first != second
    assert twice() == [first, second]


# ------------------------------------------------------------------ surroundings


def test_verbose_shows_a_bar(capsys):
    """verbose=True shows progress on standard error; the default shows nothing."""
    Classifier((), max_epochs=1).fit(SMALL, LABELS)
    assert capsys.readouterr() == ("", "")
    Classifier((), max_epochs=2, verbose=True).fit(
        SMALL, LABELS, X_val=SMALL, y_val=LABELS
    )
    shown = capsys.readouterr()
    assert not shown.out
    assert "epoch 2" in shown.err
    assert "validation error" in shown.err


def test_searches():
    """The classifier works in a pipeline within a grid search."""
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Classifier(max_epochs=3, random_state=0)),
        {"rectifierclassifier__hidden_sizes": [(2,), (30,)]},
        cv=2,
    ).fit(SMALL, LABELS)
    assert search.best_params_["rectifierclassifier__hidden_sizes"] == (30,)


def test_as_a_transformer():
    """Hidden activations feed the next step of a pipeline."""
    pipeline = make_pipeline(
        Classifier((30, 20), max_epochs=20, random_state=0), Classifier(())
    )
    assert pipeline.fit(SMALL, LABELS).score(SMALL, LABELS) > 0.9


def test_representation_is_short():
    """The representation shows only what differs from the defaults."""
    assert repr(Classifier(5, solver="sgd")) == (
        "RectifierClassifier(hidden_sizes=5, solver='sgd')"
    )


def test_nothing_is_warned_of_without_reason():
    """A plain fit and predict raise no warning of any kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Classifier(max_epochs=2, random_state=0).fit(X, Y).predict(X)
