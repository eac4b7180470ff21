"""Errors: who can catch them, and what they carry."""

import pickle

import pytest

from hardzero import errors


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
