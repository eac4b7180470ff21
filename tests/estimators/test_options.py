"""What the options of training do, for all estimators that share them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import balanced_accuracy_score, check_scoring, log_loss

from hardzero import (
    DataError,
    ParameterError,
    RatingRegressor,
    RectifierClassifier,
    RectifierRegressor,
)

pytestmark = pytest.mark.filterwarnings("ignore::hardzero.DeadUnitWarning")

X, Y = load_digits(return_X_y=True)
X, Y = X[:300] / 16, Y[:300]
WORDS = np.array([f"digit {k}" for k in range(10)])[Y]
MATRIX = np.stack([Y > 4, Y % 2 == 0, Y < 2], axis=1).astype(int)
ESTIMATORS = [RectifierClassifier, RectifierRegressor, RatingRegressor]
OPTIONS = [
    {"dropout": 0.3, "input_dropout": 0.2},
    {"batch_norm": True},
    {"solver": "sgd", "momentum": 0.9, "nesterov": True, "l2": 1e-3},
    {"l1": 1e-4, "l1_activation": 1e-3, "max_norm": 1.0, "clip_norm": 0.5},
    {"early_stopping": True, "validation_fraction": 0.3},
    {"class_weight": "balanced", "fit_intercept": False},
]


def _name(options):
    return "-".join(options)


# ------------------------------------------------------------------ each option


def test_dropout_regularises():
    """Dropout makes training harder and the fit of the training rows less sure."""
    plain, dropped = (
        RectifierClassifier(50, dropout=p, max_epochs=30, random_state=0).fit(X, Y)
        for p in (0.0, 0.5)
    )
    assert dropped.loss_curve_[-1] > 1.5 * plain.loss_curve_[-1]
    assert log_loss(Y, dropped.predict_proba(X)) > log_loss(Y, plain.predict_proba(X))
    assert dropped.score(X, Y) > 0.9
    np.testing.assert_array_equal(dropped.predict_proba(X), dropped.predict_proba(X))


def test_dropout_is_one_number_or_one_for_each_layer():
    """A number stands for all hidden layers; the features have their own."""
    make = RectifierClassifier((8, 6), max_epochs=2, random_state=0)
    one, each, other, features = (
        clone(make).set_params(**options).fit(X, Y).stack_
        for options in (
            {"dropout": 0.4},
            {"dropout": [0.4, 0.4]},
            {"dropout": [0.4, 0.0]},
            {"input_dropout": 0.4},
        )
    )
    assert one == each
    assert one != other
    assert features not in (one, other)
    with pytest.raises(ParameterError, match=r"dropout has 1 entries .* has 2.*input_"):
        clone(make).set_params(dropout=[0.4]).fit(X, Y)


def test_batch_norm_is_folded_into_the_weights():
    """After training the network is a plain one, and it learned with bad inputs."""
    network = RectifierClassifier(
        (30, 30), batch_norm=True, max_epochs=30, random_state=0
    )
    network.fit(1000 * X + 3000, Y)
    assert network.score(1000 * X + 3000, Y) > 0.9
    assert len(network.stack_.layers) == 3
    np.testing.assert_allclose(
        network.stack_(1000 * X + 3000),
        network.decision_function(1000 * X + 3000),
        rtol=1e-6,
        atol=1e-6,
    )


def test_l1_makes_weights_exactly_zero():
    """A penalty on weights leaves many of them at exactly 0; without it none is."""
    share = [
        (
            RectifierClassifier(20, l1=l1, solver="sgd", random_state=0)
            .fit(X, Y)
            .stack_.layers[0]
            .W
            == 0
        )
        .mean()
        .item()
        for l1 in (0.0, 0.003)
    ]
    assert share[0] < 0.01
    assert share[1] > 0.3


def test_max_norm_bounds_the_weights_of_a_hidden_unit():
    """No hidden unit has weights of a larger norm; some would have had."""
    norms = [
        np.linalg.norm(
            RectifierClassifier(20, max_norm=bound, solver="sgd", random_state=0)
            .fit(X, Y)
            .stack_.layers[0]
            .W,
            axis=0,
        ).max()
        for bound in (None, 1.0)
    ]
    assert norms[0] > 1.2
    assert norms[1] <= 1.0 + 1e-9


def test_clip_norm_bounds_an_update():
    """One step of plain SGD moves no further than the rate times the bound."""
    options = {
        "solver": "sgd",
        "learning_rate": 0.5,
        "batch_size": 300,
        "random_state": 0,
    }
    moved = []
    for bound in (None, 0.01):
        first, second = (
            RectifierClassifier(10, clip_norm=bound, max_epochs=n, **options)
            .fit(X, Y)
            .stack_.arrays()
            for n in (1, 2)
        )
        moved.append(
            np.sqrt(sum(((second[name] - first[name]) ** 2).sum() for name in first))
        )
    assert moved[0] > 0.05
    assert moved[1] == pytest.approx(0.5 * 0.01, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-3, 0.7, 1e3])
def test_without_biases_outputs_scale_with_inputs(factor):
    """A rectifier network without biases answers c times as much to c times as much."""
    classifier = RectifierClassifier(
        (20, 10), fit_intercept=False, max_epochs=5, random_state=0
    ).fit(X, Y)
    np.testing.assert_allclose(
        classifier.decision_function(factor * X),
        factor * classifier.decision_function(X),
        rtol=1e-9,
        atol=1e-12,
    )
    np.testing.assert_array_equal(classifier.predict(factor * X), classifier.predict(X))
    regressor = RectifierRegressor(
        20, fit_intercept=False, max_epochs=5, random_state=0
    ).fit(X, Y)
    np.testing.assert_allclose(
        regressor.predict(factor * X), factor * regressor.predict(X), rtol=1e-9
    )


def test_warm_up_and_schedules():
    """The learning rate of each epoch is the schedule's, and the history shows it."""
    network = RectifierClassifier(
        5,
        learning_rate=0.01,
        learning_rate_schedule="warmup(3)+step(2, 0.5)",
        max_epochs=6,
    ).fit(X, Y)
    np.testing.assert_allclose(
        network.history_.learning_rate, [0.0025, 0.005, 0.0075, 0.01, 0.01, 0.005]
    )


def test_rows_may_stay_in_order():
    """Without shuffling the seed decides about the first weights alone."""
    make = RectifierClassifier(5, shuffle=False, max_epochs=2, random_state=0)
    first = clone(make).fit(X, Y)
    assert first.stack_ == clone(make).fit(X, Y).stack_
    assert first.stack_ != clone(make).set_params(shuffle=True).fit(X, Y).stack_


def test_batches_need_not_divide_the_rows():
    """A short last batch is a batch like the others, down to a single row."""
    for n in (299, 33, 257):
        network = RectifierClassifier(
            10, batch_size=32, batch_norm=True, max_epochs=3, random_state=0
        ).fit(X[:n], Y[:n])
        assert np.isfinite(network.loss_curve_).all()


def test_every_activation_and_one_for_each_layer():
    """Slopes can be set, and layers can differ."""
    network = RectifierRegressor(
        (6, 5, 4), activation=("leaky_rectifier(0.3)", "mish", "gelu"), max_epochs=2
    ).fit(X, Y)
    spelled = [str(layer.activation) for layer in network.stack_.layers]
    assert spelled == ["leaky_rectifier(0.3)", "mish", "gelu", "identity"]


# ------------------------------------------------------------------ weights


@pytest.mark.parametrize("engine", ["reference", "dense", "sparse"])
@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("options", OPTIONS, ids=_name)
def test_a_row_of_weight_two_is_two_rows(make, options, engine):
    """With all rows in one batch whole weights are repetitions, whatever the options,
    and rows of weight 0 are as good as absent.
    """
    options = {k: v for k, v in options.items() if k in make().get_params()}
    estimator = make(10, engine=engine, max_epochs=15, random_state=0, **options)
    rng = np.random.default_rng(0)
    rows, y, weights = X[:25], Y[:25] % 3, rng.integers(0, 4, 25)
    order = rng.permutation(np.repeat(np.arange(25), weights))
    weighted = clone(estimator).fit(rows, y, sample_weight=weights)
    repeated = clone(estimator).fit(rows[order], y[order])
    np.testing.assert_allclose(
        weighted.predict(X), repeated.predict(X), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(
        weighted.transform(X), repeated.transform(X), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(weighted.loss_curve_, repeated.loss_curve_, rtol=1e-6)


def test_only_ratios_of_weights_matter():
    """Weights 10^6 times as large give the same network."""
    weights = np.random.default_rng(0).integers(1, 4, 300)
    first, second = (
        RectifierClassifier(10, l2=0.01, max_epochs=3, random_state=0)
        .fit(X, Y, sample_weight=weights * factor)
        .stack_
        for factor in (1, 2.0**20)
    )
    assert first == second


def test_class_weights_move_the_decision():
    """A class of more weight is found more often; weights of rows do the same."""
    rare = (Y == 8).astype(int)
    make = RectifierClassifier(
        (), learning_rate=0.01, max_epochs=5, random_state=0, batch_size=50
    )
    plain, weighted, balanced = (
        clone(make).set_params(class_weight=weight).fit(X, rare)
        for weight in (None, {1: 20}, "balanced")
    )
    by_rows = clone(make).fit(X, rare, sample_weight=np.where(rare, 20, 1))
    found = [one.predict(X)[rare == 1].mean() for one in (plain, weighted, balanced)]
    assert found[0] < 0.5 < min(found[1:])
    assert weighted.stack_ == by_rows.stack_


def test_class_weights_count_in_validation():
    """Validation judges epochs by what training makes small."""
    rare = (Y == 8).astype(int)
    network = RectifierClassifier(
        10, class_weight="balanced", max_epochs=5, random_state=0
    ).fit(X[:200], rare[:200], X_val=X[200:], y_val=rare[200:])
    expected = balanced_accuracy_score(rare[200:], network.predict(X[200:]))
    best = network.best_epoch_ - 1
    assert network.validation_scores_[best] == pytest.approx(expected)


def test_class_weights_of_words():
    """Classes are named as in y; a matrix of labels has none."""
    weight = {"digit 3": 5.0}
    RectifierClassifier(5, class_weight=weight, max_epochs=1).fit(X, WORDS)
    with pytest.raises(ParameterError, match=r"'digit3', and y has labels without"):
        RectifierClassifier(5, class_weight={"digit3": 5.0}).fit(X, WORDS)
    with pytest.raises(ParameterError, match=r"a matrix of labels.*Give sample_weight"):
        RectifierClassifier(5, class_weight="balanced").fit(X, MATRIX)


def test_score_takes_weights():
    """`score` of all estimators takes weights of rows."""
    weights = np.arange(300)
    for make in ESTIMATORS:
        network = make(5, max_epochs=2, random_state=0).fit(X, Y)
        assert network.score(X, Y, sample_weight=weights) != network.score(X, Y)


# ------------------------------------------------------------------ validation


@pytest.mark.parametrize("make", ESTIMATORS)
def test_validation_curves(make):
    """With validation rows there is a validation loss beside each training loss."""
    network = make(20, early_stopping=True, patience=3, random_state=0).fit(X, Y)
    assert len(network.validation_loss_curve_) == network.n_iter_
    assert len(network.loss_curve_) == network.n_iter_
    best = network.best_epoch_ - 1
    if make is RectifierRegressor:
        assert not hasattr(network, "validation_scores_")
        assert network.validation_loss_curve_[best] == min(
            network.validation_loss_curve_
        )
    else:
        assert network.validation_scores_[best] == max(network.validation_scores_)
    network.set_params(early_stopping=False).fit(X, Y)
    with pytest.raises(
        AttributeError, match=r"no validation_loss_curve_.*Set early_st"
    ):
        network.validation_loss_curve_  # noqa: B018
    with pytest.raises(AttributeError, match="no validation_scores_: training had"):
        network.validation_scores_  # noqa: B018


@pytest.mark.parametrize(
    ("make", "y", "scoring"),
    [
        (RectifierClassifier, WORDS, "f1_macro"),
        (RectifierClassifier, Y > 4, "roc_auc"),
        (RectifierClassifier, MATRIX, "f1_micro"),
        (RectifierRegressor, Y, "neg_median_absolute_error"),
        (RectifierRegressor, np.column_stack([Y, -Y]), "r2"),
        (RatingRegressor, Y, "neg_mean_squared_error"),
        (
            RectifierClassifier,
            Y,
            lambda model, X, _: -np.abs(model.transform(X)).mean(),
        ),
    ],
)
def test_any_scorer_judges_validation_rows(make, y, scoring):
    """The best epoch is the best by the scorer, which sees what users see."""
    network = make(20, scoring=scoring, max_epochs=6, random_state=0)
    network.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    scores = network.validation_scores_
    assert len(scores) == 6
    assert scores[network.best_epoch_ - 1] == max(scores)
    call = check_scoring(network, scoring)
    assert call(network, X[200:], y[200:]) == pytest.approx(max(scores))


def test_scorers_get_weights_and_no_warning_of_names():
    """A scorer is given validation weights; frames make it warn of nothing."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X).add_prefix("pixel ")
    weights = np.arange(100.0)
    network = RectifierClassifier(20, scoring="accuracy", max_epochs=3, random_state=0)
    network.fit(
        frame[:200],
        WORDS[:200],
        X_val=frame[200:],
        y_val=WORDS[200:],
        sample_weight_val=weights,
    )
    expected = network.score(frame[200:], WORDS[200:], sample_weight=weights)
    assert max(network.validation_scores_) == pytest.approx(expected)


@pytest.mark.parametrize("options", OPTIONS, ids=_name)
def test_string_labels_with_every_option(options):
    """Labels may be words with any option, early stopping and scorers included."""
    network = RectifierClassifier(
        20, **{"early_stopping": True, "max_epochs": 3, "scoring": "accuracy"} | options
    )
    assert set(network.fit(X, WORDS).predict(X)) <= set(WORDS)


def test_own_validation_rows_survive_clone():
    """They are given to `fit`, so clones and searches lose nothing."""
    network = RectifierClassifier(5, max_epochs=2, random_state=0)
    validation = {"X_val": X[200:], "y_val": Y[200:]}
    network.fit(X[:200], Y[:200], **validation)
    again = clone(network).fit(X[:200], Y[:200], **validation)
    assert again.validation_loss_curve_ == network.validation_loss_curve_


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_early_stopping_of_regressors(make):
    """Training ends `patience` epochs after the lowest validation loss."""
    network = RectifierRegressor(
        30, early_stopping=True, patience=3, max_epochs=300, random_state=0
    ).fit(make(X), Y)
    assert network.n_iter_ == network.best_epoch_ + 3


def test_half_given_validation_rows():
    """Rows without targets, or weights alone, are refused by name."""
    network = RectifierRegressor(5)
    for given, missing in (
        ({"X_val": X}, "y_val"),
        ({"y_val": Y}, "X_val"),
        ({"sample_weight_val": Y}, "X_val and y_val"),
    ):
        with pytest.raises(
            DataError, match=f"were given without {missing}. Give X_val"
        ):
            network.fit(X, Y, **given)


def test_validation_rows_that_do_not_fit():
    """Unknown labels, other widths and other numbers of outputs are refused."""
    network = RectifierClassifier(5)
    with pytest.raises(DataError, match=r"y_val has labels .* 'digit 9'"):
        network.fit(X, np.where(Y == 9, "digit 1", WORDS), X_val=X, y_val=WORDS)
    with pytest.raises(ValueError, match="3 features, but"):
        network.fit(X, Y, X_val=X[:, :3], y_val=Y)
    with pytest.raises(DataError, match="y_val has 2 columns, expected 1"):
        RectifierRegressor(5).fit(X, Y, X_val=X, y_val=np.column_stack([Y, Y]))
    with pytest.raises(DataError, match="all sample_weight_val are zero"):
        network.fit(X, Y, X_val=X, y_val=Y, sample_weight_val=np.zeros(300))
