"""What to learn from the labels of a table."""

from pathlib import Path

import numpy as np
import pytest

from hardzero.cli.task import Task, choose_task, describe_quality
from hardzero.errors import DataError

TABLE = Path("table.csv")
MANY = np.arange(1000)


@pytest.mark.parametrize(
    ("y", "name"),
    [
        (["a", "b"] * 500, "classification"),
        ([*map(str, MANY), "a"], "classification"),
        (MANY % 2 == 0, "classification"),
        (MANY % 100, "classification"),
        (MANY % 101, "regression"),
        ((MANY % 100).astype(float), "classification"),
        (MANY % 20 / 4, "classification"),
        (MANY % 21 / 4, "regression"),
        ([0.5, 1.5, 2.5, 0.5], "regression"),
        ([0.5, 1.5, 0.5, 1.5], "classification"),
        ((MANY % 30 / 4).astype(str), "regression"),
        (MANY.astype(str), "regression"),
        ([f"{i}-x" for i in MANY], "classification"),
        (["nan", "inf", *map(str, MANY / 8)], "classification"),
    ],
)
def test_amounts_are_told_from_names(y, name):
    """By how many different numbers there are; the reason is given."""
    task = choose_task(TABLE, np.asarray(y), "auto")
    assert task.name == name
    assert task.y.dtype == (float if name == "regression" else np.asarray(y).dtype)
    assert bool(task.reason) == (name == "regression")


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


@pytest.mark.parametrize("given", ["auto", "classification", "regression", "rating"])
def test_one_label_teaches_nothing(given):
    """Whatever the task."""
    with pytest.raises(DataError, match=r"the same label 7 in each of its 3 rows, exp"):
        choose_task(TABLE, np.array([7, 7, 7]), given)


def test_quality():
    """The share of wrong rows; of numbers the root mean square and R²."""
    task = Task("classification", np.array(["a", "b", "a", "a"]))
    assert describe_quality(task, np.array(["a", "b", "b", "a"])) == (
        "Error        25.00% of the table's rows\n"
    )
    task = Task("regression", np.array([0.0, 2.0, 4.0]))
    assert describe_quality(task, np.array([1.0, 2.0, 5.0])) == (
        "Error        0.8165 (root mean square), R² 0.7500\n"
    )
