"""Checks of the constructor parameters."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from hardzero import (
    DenoisingAutoencoder,
    ParameterError,
    RatingRegressor,
    RectifierClassifier,
    RectifierRegressor,
    activations,
)
from hardzero.estimators.parameters import (
    DENOISING,
    PARAMETERS,
    changes_between,
    check_hidden_activations,
    check_parameters,
    draw_seed,
)

X = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
Y = np.array(["b", "a", "b"])

ESTIMATORS = [RectifierClassifier, RectifierRegressor, RatingRegressor]


def test_table_has_each_parameter():
    """Each parameter of the estimators has a line in the table, and no other."""
    names = {name for make in ESTIMATORS for name in make().get_params()}
    assert PARAMETERS.keys() == names


@pytest.mark.parametrize("make", ESTIMATORS)
def test_defaults_are_allowed(make):
    """The defaults pass their own checks."""
    check_parameters(make())


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
        ("dropout", [0.5, 0]),
        ("dropout", np.float32(0.5)),
        ("input_dropout", 0),
        ("max_norm", 1),
        ("class_weight", {"a": 2, "b": np.float64(0)}),
        ("class_weight", "balanced"),
        ("scoring", "roc_auc"),
        ("scoring", len),
        ("checkpoint", Path("file")),
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
        ("dropout", 1.0, "a number from 0 to below 1, or a sequence"),
        ("dropout", [0.5, -0.1], "one per hidden layer"),
        ("dropout", "half", "a number from 0 to below 1"),
        ("input_dropout", [0.1], "a number from 0 to below 1"),
        ("input_dropout", True, "a number from 0 to below 1"),
        ("batch_norm", 1, "True or False"),
        ("l1", -0.1, "a finite number of 0 or more"),
        ("max_norm", 0, "None or a finite number above 0. Give None for no bound"),
        ("clip_norm", float("inf"), "None or a finite number above 0"),
        ("fit_intercept", None, "True or False"),
        ("class_weight", "even", "None, 'balanced', or a dict from labels"),
        ("class_weight", {"a": -1}, "a dict from labels to finite numbers of 0 or"),
        ("shuffle", "yes", "True or False"),
        ("scoring", 3, "None, the name of a scorer, or a callable"),
        ("scoring", "nonsense", "'accuracy' to a classifier or 'r2' to a regressor"),
        ("warm_start", 1, "True or False"),
        ("checkpoint", True, "None or the path of a file"),
        ("tol", "auto", "None or a finite number of 0 or more. Give None to train"),
        ("checkpoint_seconds", -1, "None or a finite number of 0 or more"),
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
    with pytest.raises(ParameterError, match=r"warm_start=True, but both .* one of"):
        RectifierClassifier(warm_start=True, checkpoint="file").fit(X, Y)
    with pytest.raises(ParameterError, match="without a file to write"):
        RectifierClassifier(checkpoint_seconds=5).fit(X, Y)
    with pytest.raises(ParameterError, match=r"dropout has 2 entries but hidden_s.* 1"):
        RectifierClassifier(5, dropout=[0.1, 0.2]).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("loss", 2, "the name of a loss. Give 'squared', 'absolute'"),
        ("target_scaling", True, "one of 'standard', 'none'"),
    ],
)
def test_refused_values_of_the_regressor(name, value, expected):
    """The regressor checks its own parameters in the same way."""
    with pytest.raises(ParameterError, match=f"{name}={value!r} was given.*{expected}"):
        RectifierRegressor(**{name: value}).fit(X, [0.0, 1.0, 2.0])


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


def test_momentum_is_not_ignored():
    """Momentum needs sgd: with Adam it is refused, not left unused"""
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(ParameterError, match=r"momentum=0.9 .* Give solver='sgd'"):
        RectifierClassifier(momentum=0.9).fit(X, y)


@pytest.mark.parametrize("make", [*ESTIMATORS, DenoisingAutoencoder])
@pytest.mark.parametrize("path", ["", ".", "folder/", "folder/..", Path()])
def test_a_checkpoint_has_a_name(make, path):
    """Where it has none, an auto-encoder would write files that start with a dot."""
    with pytest.raises(
        ParameterError, match=r"checkpoint=.* expected None or the path"
    ):
        check_parameters(make(checkpoint=path), DENOISING)


def test_changes_between_two_calls():
    """What differs is told, but for engines that share their state."""
    then = {"engine": "'auto'", "solver": "'sgd'"}
    assert changes_between(then, {"engine": "'sparse'", "solver": "'sgd'"}) == []
    assert changes_between(then, {"engine": "'dense'", "solver": "'adam'"}) == [
        "engine was 'auto' and is 'dense'",
        "solver was 'sgd' and is 'adam'",
    ]
