"""Results: checks, JSON and back, a summary."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardzero.errors import DataError, ParameterError
from hardzero.results import FitHistory


def _history(**changes):
    fields = {
        "loss": (2.0, 1.0, 0.5),
        "validation_error": (0.5, 0.125, 0.25),
        "sparsity": ((0.5, 0.5), (0.625, 0.75), (0.75, 0.875)),
        "dead_units": ((0, 0), (1, 0), (1, 2)),
        "seconds": (1.0, 2.0, 1.5),
        "learning_rate": (0.1, 0.1, 0.05),
        "best_epoch": 2,
        "stopped": "early_stopping",
        "validation_loss": (1.5, 0.5, 0.75),
    }
    return FitHistory(**fields | changes)


@st.composite
def histories(draw, *, is_pretrained=True):
    """Histories of any number of epochs and hidden layers."""
    n, n_layers = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    share = st.floats(0, 1)
    positive = st.floats(0, 1e9)

    def per_epoch(strategy):
        return draw(st.lists(strategy, min_size=n, max_size=n))

    def per_layer(strategy):
        return st.lists(strategy, min_size=n_layers, max_size=n_layers)

    return FitHistory(
        loss=per_epoch(finite),
        validation_error=per_epoch(share) if draw(st.booleans()) else (),
        sparsity=per_epoch(per_layer(share)),
        dead_units=per_epoch(per_layer(st.integers(0, 10**6))),
        seconds=per_epoch(positive),
        learning_rate=per_epoch(positive),
        best_epoch=draw(st.integers(1, n)) if n else 0,
        stopped=draw(st.sampled_from(["max_epochs", "early_stopping", "interrupted"])),
        validation_loss=per_epoch(finite) if draw(st.booleans()) else (),
        validation_score=per_epoch(finite) if draw(st.booleans()) else (),
        pretraining=draw(st.lists(histories(is_pretrained=False), max_size=2))
        if is_pretrained
        else (),
    )


@given(histories())
def test_json_and_back_is_the_same_history(history):
    """No digit is lost on the way through JSON."""
    again = FitHistory.from_json(history.to_json())
    assert again == history
    assert hash(again) == hash(history)
    assert repr(again) == repr(history)


def test_numpy_numbers_and_lists_become_plain():
    """A history is made of Python numbers and tuples, whatever it was made from."""
    history = _history(
        loss=np.array([2, 1, 0.5], np.float32),
        best_epoch=np.int64(2),
        dead_units=[[0]] * 3,
        sparsity=np.full((3, 1), 0.5),
    )
    assert history.loss == (2.0, 1.0, 0.5)
    assert type(history.loss[0]) is float
    assert type(history.best_epoch) is int
    assert history.n_epochs == 3
    json.loads(history.to_json())


def test_summary():
    """The summary has the best epoch with its numbers."""
    assert repr(_history()) == (
        "FitHistory: 3 epochs in 4.5 s, stopped by early_stopping\n"
        "  best epoch 2: loss 1, validation error 0.125, sparsity 62.5 / 75.0 %, "
        "dead units 1 / 0"
    )


def test_summary_has_the_score():
    """The score that chose the best epoch stands in the summary."""
    history = _history(validation_error=(), validation_score=(0.25, 0.5, 0.375))
    assert (
        repr(history)
        .splitlines()[1]
        .startswith("  best epoch 2: loss 1, validation score 0.5, sparsity")
    )


@pytest.mark.parametrize(
    ("version", "unknown"),
    [(2, ["pretraining"]), (1, ["pretraining", "validation_score"])],
)
def test_json_of_older_versions_is_read(version, unknown):
    """Histories written before there was pre-training, or before there were validation
    scores, can still be read.
    """
    old = json.loads(_history().to_json())
    for name in unknown:
        del old[name]
    assert FitHistory.from_json(json.dumps({**old, "version": version})) == _history()


def test_summary_without_validation_and_hidden_layers():
    """What was not measured is not mentioned."""
    history = _history(
        validation_error=(),
        sparsity=((), (), ()),
        dead_units=((), (), ()),
        best_epoch=3,
    )
    assert repr(history).splitlines()[1] == "  best epoch 3: loss 0.5"


def test_summary_with_pretraining():
    """Each layer that was pre-trained has two lines of its own."""
    first, second = _history(), _history(loss=(9.0, 8.0, 7.0))
    lines = repr(_history(pretraining=[first, second])).splitlines()
    assert lines[:2] == repr(_history()).splitlines()
    assert lines[2] == (
        "  pre-training of layer 1: FitHistory: 3 epochs in 4.5 s, stopped by "
        "early_stopping"
    )
    assert lines[3].strip() == repr(first).splitlines()[1].strip()
    assert lines[4].startswith("  pre-training of layer 2: FitHistory: 3 epochs")
    assert "loss 8," in lines[5]
    assert len(lines) == 6


def test_pretraining_may_have_as_many_epochs_as_it_likes():
    """Its lengths are its own; it may be given as dicts, as JSON has it."""
    short = FitHistory((1.0,), (), ((0.5,),), ((0,),), (1.0,), (0.1,), 1, "max_epochs")
    history = _history(pretraining=[dataclasses.asdict(short)])
    assert history.pretraining == (short,)
    assert history.n_epochs == 3
    with pytest.raises(ParameterError, match="best_epoch is 7"):
        _history(pretraining=[{**dataclasses.asdict(short), "best_epoch": 7}])


def test_interrupted_before_the_first_epoch_ended():
    """A run may end with no epoch at all."""
    empty = FitHistory((), (), (), (), (), (), 0, "interrupted")
    assert empty.n_epochs == 0
    assert repr(empty) == "FitHistory: 0 epochs in 0.0 s, stopped by interrupted"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": (1.0,)}, "differ in number: .*'loss': 1.*only validation_error, v"),
        ({"seconds": ()}, "differ in number"),
        ({"validation_error": (0.1,)}, "differ in number"),
        ({"best_epoch": 0}, "best_epoch is 0 but there are 3 epochs"),
        ({"best_epoch": 4}, "best_epoch is 4"),
        ({"stopped": "bored"}, "stopped is 'bored', expected one of max_epochs, early"),
        ({"validation_error": (0.5, 12.5, 0.25)}, "12.5, expected .* from 0 to 1"),
        ({"loss": (2.0, float("nan"), 1.0)}, "loss holds nan, expected finite"),
        ({"loss": (2.0, float("inf"), 1.0)}, "loss holds inf, expected finite"),
        ({"validation_score": (0.1, 0.2)}, "differ in number"),
        ({"validation_score": (0.1, 0.2, float("inf"))}, "validation_score holds inf"),
        ({"seconds": (-1.0, 2.0, 1.5)}, "seconds holds -1.0"),
        ({"learning_rate": (-0.1, 0.1, 0.1)}, "learning_rate holds -0.1"),
        ({"sparsity": ((0.5, 83.0),) * 3}, "sparsity holds 83.0, .* from 0 to 1"),
        ({"dead_units": ((0, -1),) * 3}, "dead_units holds -1"),
        ({"dead_units": ((0,),) * 3}, r"rows of \[1, 2\] entries.*per hidden layer"),
    ],
)
def test_impossible_histories_are_refused(changes, message):
    """The error says which field holds what."""
    with pytest.raises(ParameterError, match=message):
        _history(**changes)


def _edit(**changes):
    return json.dumps({**json.loads(_history().to_json()), **changes})


_TYPES = [
    ("loss", "12", "loss holds '12', expected a list"),
    ("loss", 3, "loss holds 3, expected a list"),
    ("loss", None, "loss holds None, expected a list"),
    ("loss", {"0": 1}, "loss holds {'0': 1}, expected a list"),
    ("seconds", ["a", "b", "c"], "seconds holds 'a', expected a number"),
    ("seconds", [True, 1, 1], "seconds holds True, expected a number"),
    ("seconds", [None, 1, 1], "seconds holds None, expected a number"),
    ("validation_loss", [[1], 1, 1], r"validation_loss holds \[1\], expected a number"),
    (
        "loss",
        [10**400, 1, 1],
        r"loss holds 1000+\.\.\.0+, expected a number in the range",
    ),
    ("sparsity", [1, 2, 3], "sparsity holds 1, expected a list"),
    ("sparsity", ["12", "12", "12"], "sparsity holds '12', expected a list"),
    ("dead_units", [[0.5, 1]] * 3, "dead_units holds 0.5, expected a whole number"),
    ("dead_units", [["1", 1]] * 3, "dead_units holds '1', expected a whole number"),
    (
        "dead_units",
        [[10**400, 1]] * 3,
        r"dead_units holds 1000+\.\.\.0+, expected finite",
    ),
    ("best_epoch", 1.7, "best_epoch holds 1.7, expected a whole number"),
    ("best_epoch", "2", "best_epoch holds '2', expected a whole number"),
    ("best_epoch", True, "best_epoch holds True, expected a whole number"),
    ("best_epoch", None, "best_epoch holds None, expected a whole number"),
    ("best_epoch", 10**400, r"best_epoch is 1000+\.\.\.0+ but there are 3 epochs"),
    ("stopped", ["max_epochs"], r"stopped is \['max_epochs'\], expected one of"),
    ("pretraining", 3, "pretraining holds 3, expected a list"),
    ("pretraining", [3], r"pretraining\[0\] has int, expected a history with \['best"),
    ("pretraining", [{"loss": []}], r"pretraining\[0\] has \['loss'\], expected"),
]


@pytest.mark.parametrize(("name", "value", "message"), _TYPES)
def test_values_of_other_types_are_refused(name, value, message):
    """A value is never turned into one of another type; in JSON as little as in Python,
    and the error names field, value and what was expected.
    """
    with pytest.raises(ParameterError, match=message):
        _history(**{name: value})
    with pytest.raises(DataError, match=f"the history is malformed: {message}"):
        FitHistory.from_json(_edit(**{name: value}))


@pytest.mark.parametrize("depth", [1, 400])
def test_pretraining_has_no_pretraining(depth):
    """However deep histories are nested, the error is the same."""
    inside = dataclasses.asdict(_history())
    for _ in range(depth):
        inside = {**inside, "pretraining": [inside]}
    message = r"pretraining\[0\] has a pretraining of its own, .*expected none"
    with pytest.raises(ParameterError, match=message):
        _history(pretraining=[inside])
    with pytest.raises(ParameterError, match=message):
        _history(pretraining=[_history(pretraining=[_history()])])


def test_error_in_pretraining_says_where():
    """The place in the list stands before the message."""
    broken = {**dataclasses.asdict(_history()), "best_epoch": 7}
    with pytest.raises(
        DataError, match=r"malformed: pretraining\[1\]: best_epoch is 7"
    ):
        FitHistory.from_json(
            _edit(pretraining=[dataclasses.asdict(_history()), broken])
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        (None, "the history is of type NoneType, expected str or bytes"),
        ("[]", "the history has list, expected an object with"),
        ("{}", r"the history has \[\], expected"),
        (_edit(more=1), "the history has .*'more'"),
        (_edit(version=4), "does not have version 3"),
        (_edit(version=3.0), "does not have version 3"),
        (_edit(version=[3]), "does not have version 3"),
        (_edit(version=2), "the history has .*'pretraining'.*expected an object with"),
        (_edit(format="x"), "does not have format 'hardzero.fit_history'"),
        (_edit(best_epoch=9), "malformed: best_epoch is 9"),
        (_edit(best_epoch=math.inf), "malformed: best_epoch holds inf"),
        (_edit(loss=[math.nan, 1, 1]), "malformed: loss holds nan, expected finite"),
    ],
)
def test_damaged_json_gives_a_clear_error(text, message):
    """Whatever stands in the file, the error says what is wrong."""
    with pytest.raises(DataError, match=f"{message}.*Give the JSON that FitHistory.to"):
        FitHistory.from_json(text)


def test_history_is_frozen():
    """A result cannot be changed."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        _history().best_epoch = 1
