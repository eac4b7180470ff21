"""Training that goes on: partial_fit, warm starts, checkpoints, pickles."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from hardzero import (
    DataError,
    DivergenceError,
    ParameterError,
    RatingRegressor,
    RectifierClassifier,
    RectifierRegressor,
)
from hardzero.kernels.sparse import SparseNetwork

pytestmark = pytest.mark.filterwarnings("ignore::hardzero.DeadUnitWarning")

X, Y = load_digits(return_X_y=True)
X, Y = X[:300] / 16, Y[:300]
MATRIX = np.stack([Y > 4, Y % 2 == 0, Y < 2], axis=1).astype(int)
KINDS = [
    (RectifierClassifier, Y),
    (RectifierClassifier, MATRIX),
    (RectifierRegressor, Y),
    (RectifierRegressor, np.column_stack([Y, -Y])),
    (RatingRegressor, Y),
]
NAMES = ["classes", "labels", "numbers", "columns", "ratings"]
OPTIONS = [
    {},
    {"solver": "sgd", "momentum": 0.9, "l2": 1e-3, "learning_rate_schedule": "cosine"},
    {"dropout": 0.3, "batch_norm": True, "learning_rate_schedule": "step(2, 0.5)"},
    {"engine": "dense", "l1": 1e-4, "activation": "prelu"},
    {"engine": "reference", "dropout": 0.2, "input_dropout": 0.1},
]


def make_network(make, **options):
    """Return a small network; its schedule is stretched over eight epochs."""
    return make((12, 8), **{"max_epochs": 8, "random_state": 3} | options)


# ------------------------------------------------------------------ partial_fit


@pytest.mark.parametrize(("make", "y"), KINDS, ids=NAMES)
@pytest.mark.parametrize("options", OPTIONS, ids="-".join)
def test_calls_of_partial_fit_equal_epochs_of_fit(make, y, options):
    """K calls over the same rows give the bits of fit with k epochs, and its record."""
    whole = make_network(make, **options).fit(X, y)
    pieces = make_network(make, **options)
    for _ in range(8):
        assert pieces.partial_fit(X, y) is pieces
    assert pieces.stack_ == whole.stack_
    assert pieces.loss_curve_ == whole.loss_curve_
    assert pieces.n_iter_ == whole.n_iter_ == 8
    assert pieces.history_.learning_rate == whole.history_.learning_rate


def test_partial_fit_with_weights_equals_fit():
    """Weights of rows and classes work the same in both."""
    weights = np.random.default_rng(0).integers(0, 3, 300)
    network = make_network(RectifierClassifier, class_weight="balanced", max_epochs=3)
    whole = clone(network).fit(X, Y, sample_weight=weights)
    for _ in range(3):
        network.partial_fit(X, Y, sample_weight=weights)
    assert network.stack_ == whole.stack_


def test_rows_may_come_in_pieces():
    """A stream of pieces is learned as well as the whole."""
    network = RectifierClassifier(30, random_state=0)
    for _ in range(50):
        for start in range(0, 300, 100):
            rows = slice(start, start + 100)
            network.partial_fit(X[rows], Y[rows], classes=range(10))
    assert network.n_iter_ == 150
    assert network.score(X, Y) > 0.95


def test_classes_are_known_from_the_first_call():
    """Later labels must be among `classes`, or, without them, among the first ones."""
    network = make_network(RectifierClassifier)
    few = Y < 5
    network.partial_fit(X[few], Y[few])
    with pytest.raises(
        DataError, match=r"y has labels.*5 known classes: 5, 6.*partial"
    ):
        network.partial_fit(X, Y)
    with pytest.raises(DataError, match=r"classes are \[0, 1\] and were \[0, 1, 2"):
        network.partial_fit(X[few], Y[few], classes=[0, 1])
    assert network.n_iter_ == 1
    network = make_network(RectifierClassifier)
    network.partial_fit(X[few], Y[few], classes=np.arange(10)).partial_fit(X, Y)
    assert list(network.classes_) == list(range(10))
    stars = make_network(RatingRegressor).partial_fit(X[few], Y[few], classes=range(10))
    assert len(stars.partial_fit(X, Y).classes_) == 10
    with pytest.raises(DataError, match=r"classes are \[0, 1\]"):
        stars.partial_fit(X, Y, classes=[1, 0])


@pytest.mark.parametrize("make", [RectifierClassifier, RectifierRegressor])
def test_partial_fit_after_early_stopping(make):
    """It goes on from the last epoch, as if training had not stopped there; there are
    no validation rows then.
    """
    network = make_network(make, early_stopping=True, patience=2, max_epochs=200)
    network.fit(X, Y)
    n = network.n_iter_
    assert n == network.best_epoch_ + 2
    kept = network.stack_
    network.partial_fit(X, Y)
    assert network.n_iter_ == len(network.loss_curve_) == network.best_epoch_ == n + 1
    assert network.stack_ != kept
    assert network.loss_curve_[-1] < network.loss_curve_[0]


def test_fit_after_partial_fit_starts_anew():
    """Without warm_start nothing is left of earlier calls."""
    network = make_network(RectifierRegressor).partial_fit(X, Y)
    assert network.fit(X, Y).stack_ == make_network(RectifierRegressor).fit(X, Y).stack_


def test_a_failed_call_changes_nothing():
    """Bad rows, or weights that blow up, leave the estimator as it was."""
    network = make_network(RectifierClassifier, solver="sgd").partial_fit(X, Y)
    before = network.stack_
    with pytest.raises(ValueError, match="NaN"):
        network.partial_fit(np.full_like(X, np.nan), Y)
    with pytest.raises(ValueError, match="3 features, but RectifierClassifier is exp"):
        network.partial_fit(X[:, :3], Y)
    with pytest.raises(DivergenceError, match="epoch 2"):
        network.set_params(learning_rate=1e200).partial_fit(X, Y)
    network.set_params(learning_rate="auto")
    assert network.stack_ == before
    whole = make_network(RectifierClassifier, solver="sgd", max_epochs=2).fit(X, Y)
    assert network.partial_fit(X, Y).stack_ == whole.stack_


def test_the_network_cannot_change_in_between():
    """A parameter that the network is made of is named when it was changed."""
    network = make_network(RectifierRegressor).partial_fit(X, Y)
    for name, value, shown in (
        ("hidden_sizes", (5, 5), r"hidden_sizes was \(12, 8\) and is \(5, 5\)"),
        ("activation", "tanh", "activation was rectifier, rectifier and is tanh, tanh"),
        ("loss", "absolute", "loss was 'squared' and is 'absolute'"),
        ("batch_norm", True, "batch_norm was False and is True"),
        ("solver", "sgd", "solver was 'adam' and is 'sgd'"),
        ("fit_intercept", False, "fit_intercept was True and is False"),
    ):
        changed = copy.deepcopy(network).set_params(**{name: value})
        with pytest.raises(ParameterError, match=f"{shown}. Set it back"):
            changed.partial_fit(X, Y)
    with pytest.raises(ParameterError, match=r"hidden_sizes was .*; solver was"):
        network.set_params(hidden_sizes=(5, 5), solver="sgd").partial_fit(X, Y)


@pytest.mark.parametrize(
    ("first", "second"),
    [("auto", "dense"), ("sparse", "reference"), ("reference", "auto")],
)
def test_engines_of_another_family(first, second):
    """Their states differ, so that training cannot go on: the message names both."""
    network = make_network(RectifierClassifier, engine=first).partial_fit(X, Y)
    with pytest.raises(
        ParameterError, match=f"engine was '{first}' and is '{second}'. Set it back"
    ):
        network.set_params(engine=second).partial_fit(X, Y)


@pytest.mark.parametrize(
    ("first", "second"), [("auto", "sparse"), ("dense", "reference")]
)
def test_engines_of_one_family(first, second):
    """They take turns, and learn what one of them does alone."""
    network = make_network(RectifierClassifier, max_epochs=3, tol=None)
    whole = clone(network).set_params(engine=first).fit(X, Y)
    for engine in (first, second, first):
        network.set_params(engine=engine).partial_fit(X, Y)
    np.testing.assert_allclose(
        network.predict_proba(X), whole.predict_proba(X), atol=1e-6
    )


def test_what_may_change_in_between():
    """Rates, sizes of batches and penalties may, as the docstring says."""
    network = make_network(RectifierClassifier).partial_fit(X, Y)
    network.set_params(learning_rate=0.01, batch_size=7, dropout=0.2, l2=1e-3, l1=1e-5)
    network.set_params(l1_activation=1e-4, max_norm=3.0, class_weight="balanced")
    assert network.partial_fit(X, Y).n_iter_ == 2
    assert (network.learning_rate_, network.batch_size_) == (0.01, 7)
    assert network.set_params(batch_size="auto").partial_fit(X, Y).batch_size_ == 32
    assert network.partial_fit(X[:50], Y[:50]).batch_size_ == 50


def test_targets_keep_their_form():
    """Outputs, labels and classes are what they were in the first call."""
    network = make_network(RectifierRegressor).partial_fit(X, Y)
    with pytest.raises(DataError, match="y has 2 columns, expected 1"):
        network.partial_fit(X, np.column_stack([Y, Y]))
    network = make_network(RectifierClassifier).partial_fit(X, MATRIX)
    with pytest.raises(
        DataError, match=r"y has shape \(300,\), expected \(n_samples, 3"
    ):
        network.partial_fit(X, Y)
    network = make_network(RectifierClassifier).partial_fit(X, Y)
    with pytest.raises(DataError, match=r"expected \(n_samples,\): one label"):
        network.partial_fit(X, MATRIX)


# ------------------------------------------------------------------ warm starts


@pytest.mark.parametrize(("make", "y"), KINDS, ids=NAMES)
@pytest.mark.parametrize("options", OPTIONS[:3], ids="-".join)
def test_a_warm_start_keeps_the_state_of_the_optimiser(make, y, options):
    """Two fits of four epochs are one of eight: moments, shuffles, schedule go on."""
    options = options | {"learning_rate_schedule": "step(3, 0.5)"}
    whole = make_network(make, **options).fit(X, y)
    parts = make_network(make, **options).set_params(warm_start=True, max_epochs=4)
    assert parts.fit(X, y).n_iter_ == 4
    assert parts.fit(X, y).stack_ == whole.stack_
    assert parts.history_.learning_rate == whole.history_.learning_rate


def test_what_epochs_mean_after_a_warm_start():
    """max_epochs counts those of a call, n_iter_ and the curves all of them."""
    network = make_network(RectifierClassifier, warm_start=True, max_epochs=3)
    for n in (3, 6, 9):
        network.fit(X, Y)
        assert network.n_iter_ == n
        assert len(network.loss_curve_) == n
        assert network.best_epoch_ == n


def test_early_stopping_after_a_warm_start():
    """Each fit has its own best epoch and counts its patience from its own start."""
    network = make_network(
        RectifierClassifier,
        warm_start=True,
        early_stopping=True,
        patience=3,
        max_epochs=100,
    ).fit(X, Y)
    first = network.n_iter_
    network.fit(X, Y)
    assert network.n_iter_ >= first + 3
    assert network.best_epoch_ > first
    assert len(network.validation_loss_curve_) == network.n_iter_


def test_a_warm_start_needs_the_same_features_and_labels():
    """Other widths and unknown labels are refused; nothing is lost by that."""
    network = make_network(RectifierClassifier, warm_start=True).fit(X, Y % 5)
    before = network.stack_
    with pytest.raises(ValueError, match="3 features, but RectifierClassifier is exp"):
        network.fit(X[:, :3], Y % 5)
    with pytest.raises(DataError, match="5 known classes: 5, 6, 7, 8, 9"):
        network.fit(X, Y)
    assert network.stack_ is before


def test_training_ends_when_the_loss_no_longer_falls():
    """`tol` ends it after `patience` epochs; None, or a new call, gives it more."""
    network = make_network(RectifierClassifier, max_epochs=50, tol=0.1, patience=3)
    stopped = clone(network).set_params(warm_start=True).fit(X, Y)
    losses = stopped.loss_curve_
    assert stopped.history_.stopped == "converged"
    assert losses[-4] - min(losses[-3:]) < 0.1 * 3
    n_epochs = stopped.n_iter_
    assert stopped.fit(X, Y).n_iter_ > n_epochs
    assert clone(network).set_params(tol=None).fit(X, Y).n_iter_ == 50


def test_a_schedule_that_is_used_up():
    """Epochs at a rate of 0 learn nothing, of which a warning tells."""
    network = make_network(
        RectifierClassifier,
        warm_start=True,
        max_epochs=5,
        learning_rate_schedule="cosine",
    ).fit(X, Y)
    kept = network.stack_
    used_up = r"schedule cosine\(0\) ends after max_epochs=5 epochs.*rate is 0.*Give"
    with pytest.warns(UserWarning, match=used_up):
        network.fit(X, Y)
    assert network.stack_ == kept
    assert network.history_.learning_rate[5:] == (0.0,) * 5
    with pytest.warns(UserWarning, match=used_up):
        network.partial_fit(X, Y)
    network.set_params(learning_rate_schedule="cosine(0.1)").fit(X, Y)
    assert network.stack_ != kept


# ------------------------------------------------------------------ checkpoints


@pytest.mark.parametrize("seconds", [None, 0.0])
@pytest.mark.parametrize(("make", "y"), KINDS, ids=NAMES)
def test_a_checkpoint_goes_on_with_the_same_bits(make, y, seconds, tmp_path):
    """A fit that was ended after three epochs is finished by the next as if nothing
    had happened, also when no seed was set.
    """
    path = tmp_path / "training"
    network = make_network(
        make,
        dropout=0.2,
        random_state=None,
        checkpoint=path,
        checkpoint_seconds=seconds,
    )
    clone(network).set_params(max_epochs=3).fit(X, y)
    resumed = clone(network).fit(X, y)
    assert resumed.n_iter_ == 8
    path.unlink()
    np.random.seed(0)  # noqa: NPY002
    whole = clone(network)
    whole.set_params(checkpoint=None, checkpoint_seconds=None).fit(X, y)
    np.random.seed(0)  # noqa: NPY002
    clone(network).set_params(max_epochs=3).fit(X, y)
    assert clone(network).fit(X, y).stack_ == whole.stack_
    finished = clone(network).fit(X, y)
    assert finished.stack_ == whole.stack_
    assert finished.loss_curve_ == whole.loss_curve_


def test_a_checkpoint_of_another_task_is_refused(tmp_path):
    """What differs is named: data, settings, or the kind of estimator."""
    path = tmp_path / "training"
    network = make_network(RectifierClassifier, checkpoint=path, max_epochs=1)
    network.fit(X, Y)
    for other, message in (
        ({"l2": 0.5}, "l2"),
        ({"dropout": 0.5}, "dropout"),
        ({"scoring": "accuracy"}, "scoring"),
        ({"learning_rate": 0.5}, "learning_rate"),
    ):
        with pytest.raises(DataError, match=message):
            clone(network).set_params(**other).fit(X, Y)
    with pytest.raises(DataError, match="X"):
        clone(network).fit(2 * X, Y)
    with pytest.raises(DataError, match="weight"):
        clone(network).fit(X, Y, sample_weight=np.arange(1, 301))
    with pytest.raises(DataError, match="estimator"):
        make_network(RatingRegressor, checkpoint=path, max_epochs=1).fit(X, Y)


def test_a_checkpoint_knows_parameters_by_value(tmp_path):
    """Spelled another way, in another process, a setting is the same setting."""
    network = make_network(
        RectifierClassifier,
        checkpoint=tmp_path / "training",
        dropout=(0.25, 0.5),
        scoring=_negative_error,
        early_stopping=True,
    ).fit(X, Y)
    again = clone(network).set_params(dropout=np.array([0.25, 0.5]), l2=np.float64(0))
    again.set_params(scoring=pickle.loads(pickle.dumps(_negative_error)))
    assert again.fit(X, Y).stack_ == network.stack_


def _negative_error(network, X, y):
    return network.score(X, y) - 1


def test_a_checkpoint_of_more_epochs_than_planned(tmp_path):
    """All its epochs are kept, of which a warning tells; as many are the finished run,
    and the file stays for a run of more.
    """
    network = make_network(RectifierClassifier, checkpoint=tmp_path / "training")
    whole = clone(network).fit(X, Y)
    with pytest.warns(
        UserWarning, match=r"training holds 8 epochs, more than the 5.*Raise max_epochs"
    ):
        fewer = clone(network).set_params(max_epochs=5).fit(X, Y)
    assert fewer.n_iter_ == 8
    assert fewer.stack_ == whole.stack_
    assert clone(network).fit(X, Y).n_iter_ == 8
    assert clone(network).set_params(max_epochs=9).fit(X, Y).n_iter_ == 9


@pytest.mark.parametrize("seed", [0, None])
def test_a_folder_is_no_checkpoint(seed, tmp_path):
    """It is refused as such."""
    network = RectifierClassifier(checkpoint=tmp_path, random_state=seed)
    with pytest.raises(DataError, match="is a folder, expected"):
        network.fit(X, Y)


def test_partial_fit_writes_no_checkpoint(tmp_path):
    """It is refused there rather than left undone."""
    path = tmp_path / "training"
    with pytest.raises(ParameterError, match="which partial_fit does not write"):
        RectifierClassifier(checkpoint=path).partial_fit(X, Y)
    assert not path.exists()


# ------------------------------------------------------------------ pickles


@pytest.mark.parametrize(("make", "y"), KINDS, ids=NAMES)
def test_pickles_hold_the_parameters_and_little_else(make, y):
    """A pickle takes at most 1.1 times the bytes of the weights, and predicts alike."""
    network = make(100, max_epochs=2, random_state=0).fit(X, y)
    data = pickle.dumps(network)
    assert len(data) <= 1.1 * 8 * network.stack_.n_parameters
    np.testing.assert_array_equal(pickle.loads(data).predict(X), network.predict(X))


def test_pickles_that_training_goes_on_from():
    """With warm_start, or after partial_fit, a pickle goes on with the same bits."""
    network = make_network(RectifierRegressor, warm_start=True).fit(X, Y)
    again = pickle.loads(pickle.dumps(network))
    assert again.fit(X, Y).stack_ == network.fit(X, Y).stack_
    network = make_network(RectifierRegressor).partial_fit(X, Y)
    again = pickle.loads(pickle.dumps(network))
    assert again.partial_fit(X, Y).stack_ == network.partial_fit(X, Y).stack_


def test_pickles_without_the_state_say_so():
    """After a plain fit the state is not in the pickle, and partial_fit says why."""
    again = pickle.loads(pickle.dumps(make_network(RectifierRegressor).fit(X, Y)))
    with pytest.raises(
        ParameterError, match=r"not there any more.*Set warm_start=True"
    ):
        again.partial_fit(X, Y)
    assert again.fit(X, Y).n_iter_ == 8


# ------------------------------------------------------------------ interrupts


def _interrupt_step(number, monkeypatch):
    """Let Ctrl-C come in this step, counted from 1, after its update."""
    step, count = SparseNetwork.step, iter(range(1, 10**6))

    def interrupted(self, rows):
        loss = step(self, rows)
        if next(count) == number:
            raise KeyboardInterrupt
        return loss

    monkeypatch.setattr(SparseNetwork, "step", interrupted)


@pytest.mark.parametrize("options", [{}, {"batch_norm": True, "dropout": 0.2}], ids=str)
@pytest.mark.parametrize("number", [21, 25, 30])
def test_a_warm_start_after_ctrl_c(number, options, monkeypatch):
    """It goes on from the last complete epoch, with the bits of that."""
    network = make_network(RectifierClassifier, warm_start=True, tol=None, **options)
    whole = clone(network).set_params(max_epochs=2).fit(X, Y)
    with monkeypatch.context() as patch:
        _interrupt_step(number, patch)
        with pytest.warns(UserWarning, match="interrupted.*epoch 2 of 2.*to go on"):
            network.fit(X, Y)
    assert network.stack_ == whole.stack_
    for one in (network, whole):
        one.set_params(max_epochs=3).fit(X, Y)
    assert network.n_iter_ == whole.n_iter_ == 5
    assert network.stack_ == whole.stack_


def test_partial_fit_after_ctrl_c(monkeypatch):
    """A call that was interrupted has done nothing."""
    network = make_network(RectifierClassifier).partial_fit(X, Y)
    whole = copy.deepcopy(network).partial_fit(X, Y)
    with monkeypatch.context() as patch:
        _interrupt_step(3, patch)
        with pytest.warns(UserWarning, match="epoch 1 of 1 are kept"):
            network.partial_fit(X, Y)
    assert network.partial_fit(X, Y).stack_ == whole.stack_


def test_half_an_epoch_is_nothing_to_go_on_from(monkeypatch):
    """Without warm_start, Ctrl-C leaves a network that predicts, and no more."""
    network = make_network(RectifierClassifier)
    with monkeypatch.context() as patch:
        _interrupt_step(25, patch)
        with pytest.warns(UserWarning, match=r"train from the start\.$"):
            network.fit(X, Y)
    whole = make_network(RectifierClassifier, max_epochs=2).fit(X, Y)
    assert network.stack_ == whole.stack_
    with pytest.raises(ParameterError, match="interrupted in the middle of an epoch"):
        network.partial_fit(X, Y)
    assert network.fit(X, Y).n_iter_ == 8


# ------------------------------------------------------------------ spellings


def test_other_spellings_are_the_same_network():
    """What means the same may take turns."""
    network = make_network(RectifierRegressor, loss="huber", sign_flip=False)
    network.partial_fit(X, Y).set_params(loss="huber(1)", sign_flip=np.False_)
    assert network.partial_fit(X, Y).n_iter_ == 2
    with pytest.raises(ParameterError, match=r"loss was 'huber\(1\)' and is 'huber\(2"):
        network.set_params(loss="huber(2)").partial_fit(X, Y)


def test_other_spellings_in_a_checkpoint(tmp_path):
    """One rate of dropout is that of every layer; numbers are compared by value."""
    network = make_network(
        RectifierClassifier,
        checkpoint=tmp_path / "training",
        dropout=0.25,
        l2=0.5,
        batch_norm=False,
    ).fit(X, Y)
    network.set_params(dropout=[0.25, 0.25], l2=Fraction(1, 2), batch_norm=np.False_)
    assert clone(network).fit(X, Y).n_iter_ == 8
    network.set_params(l2=np.longdouble(0.5))
    assert clone(network).fit(X, Y).n_iter_ == 8


def test_a_checkpoint_needs_a_scorer_with_a_name(tmp_path):
    """Two lambdas cannot be told apart, so there is no checkpoint with one."""
    path = tmp_path / "training"
    network = make_network(RectifierClassifier, checkpoint=path, scoring=lambda *_: 0.0)
    with pytest.raises(ParameterError, match=r"scoring=<function .* with a checkpoint"):
        network.fit(X, Y)
    assert not path.exists()
