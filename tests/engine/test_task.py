"""Descriptions of training runs: equal for equal runs, different for different ones."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from hardzero import kernels
from hardzero.engine.initialise import initialise
from hardzero.engine.objectives import SoftmaxLogLoss
from hardzero.engine.schedules import parse_schedule
from hardzero.engine.task import Settings, describe_task
from hardzero.kernels.rules import SGD

X, Y = np.random.default_rng(0).standard_normal((6, 3)), np.array([0, 1, 0, 1, 1, 0])


def _describe(
    X=X, y=Y, activation="rectifier", sign_flip=False, schedule="constant", max_epochs=5
):
    stack = initialise(
        (3, 4, 2), [activation], seed=0, sign_flip=sign_flip, dtype=float
    )
    return describe_task(
        kernels.build(stack, SGD(0.1), engine="reference"),
        X,
        y,
        None,
        np.arange(len(y)),
        settings=Settings(2, max_epochs, 0.1, parse_schedule(schedule), patience=3),
        seed=np.int64(0),
        objective=SoftmaxLogLoss(),
        validation=None,
        more={"rule": "SGD"},
    )


def test_json_holds_it():
    """A description survives JSON, and copies of arrays are the same task."""
    task = _describe()
    assert json.loads(json.dumps(task)) == task
    assert task["rule"] == "SGD"
    assert task == _describe(X=np.asfortranarray(X), max_epochs=9)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"X": X + 1}, {"content of X"}),
        ({"X": sp.csr_array(X)}, {"X", "content of X"}),
        ({"y": 1 - Y}, {"content of y"}),
        ({"activation": "tanh"}, {"activations"}),
        ({"sign_flip": True}, {"layers with signs"}),
        ({"schedule": "step(2, 0.5)"}, {"learning rate schedule"}),
    ],
)
def test_what_differs_is_named(change, names):
    """Each difference changes the entries that it should, and no others."""
    one, other = _describe(), _describe(**change)
    assert {name for name in one.keys() | other if one[name] != other[name]} == names


def test_planned_epochs_count_for_a_cosine_alone():
    """The number of planned epochs is part of a task if the schedule depends on it."""
    cosine = [_describe(schedule="cosine", max_epochs=n) for n in (5, 6)]
    assert cosine[0] != cosine[1]


def test_arrays_of_no_entries():
    """No rows, and matrices of zeros alone, can be described."""
    none = _describe(X=X[:0], y=Y[:0])
    assert none["content of X"] == "00000000"
    assert _describe(X=sp.csr_array((6, 3)))["X"] == "CSR float64 of shape (6, 3)"
