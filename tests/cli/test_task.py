"""What to learn from the labels of a table."""

from pathlib import Path

import numpy as np
import pytest

from hardzero.cli.task import Task, choose_task, describe_quality
from hardzero.errors import DataError

TABLE = Path("table.csv")
MANY = np.arange(1000)
OTHER = {"classification": "regression", "regression": "classification"}


@pytest.mark.parametrize(
    ("y", "name", "reasoned"),
    [
        (["a", "b"] * 500, "classification", False),
        ([*map(str, MANY), "a"], "classification", False),
        (MANY % 2 == 0, "classification", False),
        (MANY % 100, "classification", True),
        (MANY % 101, "regression", True),
        ((MANY % 100).astype(float), "classification", True),
        (MANY % 20 / 4, "classification", True),
        (MANY % 21 / 4, "regression", True),
        ([0.5, 1.5, 2.5, 0.5], "regression", True),
        ([0.5, 1.5, 0.5, 1.5], "classification", True),
        ((MANY % 30 / 4).astype(str), "regression", True),
        (MANY.astype(str), "regression", True),
        ([f"{i}-x" for i in MANY], "classification", False),
        (["nan", "inf", *map(str, MANY / 8)], "classification", False),
    ],
)
def test_amounts_are_told_from_names(y, name, reasoned):
    """By how many different numbers there are; the reason says how to get the other."""
    task = choose_task(TABLE, np.asarray(y), "auto")
    assert task.name == name
    assert task.y.dtype == (float if name == "regression" else np.asarray(y).dtype)
    assert (f"give --task {OTHER[name]}" in task.reason) == reasoned


def test_the_user_knows_better():
    """What was asked for is done, with labels of the type that it needs."""
    y = np.array(["1", "2.5", "4"])
    assert choose_task(TABLE, y, "classification").y is y
    assert choose_task(TABLE, y, "regression").y.tolist() == [1, 2.5, 4]
    rating = choose_task(TABLE, np.array([1, 2, 2]), "rating")
    assert (rating.name, rating.y.dtype, rating.reason) == ("rating", np.int64, "")
    assert choose_task(TABLE, y, "rating").y.dtype == np.float64


@pytest.mark.parametrize("given", ["regression", "rating"])
@pytest.mark.parametrize("bad", ["rose", "inf", "nan", "1,5"])
def test_words_are_no_numbers(given, bad):
    """The message says where the first one is."""
    with pytest.raises(
        DataError, match=rf"table.csv, row 1 .*: the label is '{bad}', .*--task {given}"
    ):
        choose_task(TABLE, np.array(["2", bad, "x"]), given)
    with pytest.raises(DataError, match=rf"table.csv, line 4: the label is '{bad}'"):
        choose_task(TABLE, np.array(["2", bad]), given, np.array([2, 4]))


@pytest.mark.parametrize("given", ["auto", "classification", "regression", "rating"])
def test_one_label_teaches_nothing(given):
    """Whatever the task."""
    with pytest.raises(DataError, match=r"the same label 7 in each of its 3 rows, exp"):
        choose_task(TABLE, np.array([7, 7, 7]), given)


def test_quality():
    """The share of wrong rows; of numbers the root mean square and R²."""
    task = Task("classification", np.array(["a", "b", "a", "a"]))
    predicted = np.array(["a", "b", "b", "a"])
    assert describe_quality(task, predicted) == (
        "Error        25.00% on the rows it was trained on\n"
    )
    assert describe_quality(task, predicted, has_held_out=True) == (
        "Error        25.00% on all rows, trained on or held out\n"
    )
    assert "50.00%" in describe_quality(task, predicted, np.array([1, 1, 2, 0]))
    task = Task("regression", np.array([0.0, 2.0, 4.0]))
    assert describe_quality(task, np.array([1.0, 2.0, 5.0])) == (
        "Error        0.8165 (root mean square), R² 0.7500 on the rows it was trained "
        "on\n"
    )
    weights = np.array([1.0, 0.0, 1.0])
    assert "1 (root mean square), R² 0.7500" in describe_quality(
        task, np.array([1.0, 9.0, 5.0]), weights
    )
    assert "R²" not in describe_quality(task, np.zeros(3), np.array([0, 1, 0]))
