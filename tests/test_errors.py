"""Errors: who can catch them, and what they carry."""

import pickle

import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from hardzero import RectifierClassifier, errors


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.ParameterError, ValueError),
        (errors.DataError, ValueError),
        (errors.DivergenceError, ArithmeticError),
        (errors.NotBuiltError, ImportError),
    ],
)
def test_errors_are_caught_by_both_names(error, builtin):
    """Code that knows only Python's own exceptions catches ours too."""
    assert issubclass(error, errors.HardzeroError)
    assert issubclass(error, builtin)
    assert issubclass(errors.DeadUnitWarning, UserWarning)


def test_divergence_says_where_and_when():
    """Layer, epoch and learning rate come along, also out of another process."""
    error = errors.DivergenceError("too fast", layer=2, epoch=3, learning_rate=0.5)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "too fast"
    assert (again.layer, again.epoch, again.learning_rate) == (2, 3, 0.5)


def test_warnings_point_at_the_line_of_the_user():
    """Lines of hardzero and scikit-learn are passed over."""
    layers = {}
    for name, inner in (("hardzero.x", None), ("sklearn.x", "hardzero.x")):
        body = "warn_user('mind', Odd)" if inner is None else "inner()"
        names = {"__name__": name, "warn_user": errors.warn_user, "Odd": RuntimeWarning}
        exec(f"def call():\n    {body}", names | {"inner": layers.get(inner)}, layers)
        layers[name] = layers.pop("call")
    with pytest.warns(RuntimeWarning, match="mind") as caught:
        layers["sklearn.x"]()
    assert caught[0].filename == __file__


def test_dead_units_are_warned_of_where_fit_was_called():
    """Also through a pipeline: the line of the user is the one that fits."""
    X, y = load_digits(return_X_y=True)
    classifier = RectifierClassifier(
        solver="sgd", learning_rate=0.3, max_epochs=1, random_state=0
    )
    for estimator in (classifier, make_pipeline(classifier)):
        with pytest.warns(errors.DeadUnitWarning, match="dead units") as caught:
            estimator.fit(X, y)
        assert caught[0].filename == __file__
