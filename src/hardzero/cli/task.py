"""What a network should learn from a table: classes, numbers or ratings."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from hardzero.errors import DataError

Array = npt.NDArray[Any]
Name = Literal["classification", "regression", "rating"]

ESTIMATORS: Final[dict[Name, str]] = {
    "classification": "RectifierClassifier",
    "regression": "RectifierRegressor",
    "rating": "RatingRegressor",
}
# More different labels than this are numbers to predict, not names of classes.
_MOST_WHOLE_CLASSES: Final = 100
_MOST_FRACTION_CLASSES: Final = 20


@dataclass(frozen=True, eq=False)
class Task:
    """What to learn.

    Parameters
    ----------
    name : {"classification", "regression", "rating"}
        Which estimator learns it.
    y : ndarray of shape (n_rows,)
        Labels as it takes them: float64 for regression, numbers for ratings.
    reason : str
        Why this one was chosen, and how to get the other; empty if the user chose it,
        or the labels are not numbers.
    """

    name: Name
    y: Array
    reason: str = ""


def choose_task(
    path: Path,
    y: Array,
    given: Literal["auto"] | Name,
    lines: Array | None = None,
) -> Task:
    """Find out what to learn, and bring the labels to the type that it needs.

    Parameters
    ----------
    path : Path
        The table, for messages.
    y : ndarray of shape (n_rows,)
        Labels: numbers, booleans or strings.
    given : {"auto", "classification", "regression", "rating"}
        What the user asked for. "auto" is regression for numbers with more than 100
        different values, or, if some are fractions, more than 20 or more than half as
        many as rows; else classification.
    lines : ndarray of shape (n_rows,) or None, default=None
        Lines of the rows in the file, for messages.

    Returns
    -------
    Task
        The task.

    Raises
    ------
    DataError
        If all labels are the same, or the task needs numbers and one is none.
    """
    n_different = len(np.unique(y))
    if n_different < 2:
        raise DataError(
            f"{path} has the same label {y[0].item()!r} in each of its {len(y):,} "
            "rows, expected at least two different ones. Check that --target names "
            "the column that you meant."
        )
    if given in ("regression", "rating"):
        numbers, number = _to_numbers(y)
        if number < len(y):
            place = f"row {number} (counted from 0)"
            if lines is not None:
                place = f"line {lines[number]}"
            raise DataError(
                f"{path}, {place}: the label is {y[number].item()!r}, expected "
                f"a finite number for --task {given}. Leave such rows out, or take "
                "--task classification."
            )
        keeps = given == "rating" and y.dtype.kind in "iu"
        return Task(given, y if keeps else numbers)
    if given == "classification":
        return Task(given, y)
    numbers, first_bad = _to_numbers(y)
    if y.dtype.kind == "b" or first_bad < len(y):
        return Task("classification", y)
    reason = f"the labels are numbers with {n_different:,} different values; to "
    if _are_amounts(numbers, n_different):
        reason += "name classes by them, give --task classification"
        return Task("regression", numbers, reason)
    reason += "predict them as amounts, give --task regression"
    return Task("classification", y, reason)


def describe_quality(
    task: Task,
    predictions: Array,
    weights: Array | None = None,
    *,
    has_held_out: bool = False,
) -> str:
    """Say how well the rows of the table are predicted.

    Parameters
    ----------
    task : Task
        What was learned.
    predictions : ndarray of shape (n_rows,)
        What the network makes of the rows.
    weights : ndarray of shape (n_rows,) or None, default=None
        Weights of the rows.
    has_held_out : bool, default=False
        Whether some of the rows were held out of training.

    Returns
    -------
    str
        One line.
    """
    rows = "on the rows it was trained on"
    if has_held_out:
        rows = "on all rows, trained on or held out"
    if task.name == "classification":
        share = np.average(predictions != task.y, weights=weights)
        return f"Error        {share:.2%} {rows}\n"
    y = task.y.astype(np.float64)
    mean_square = np.average((predictions - y) ** 2, weights=weights)
    variance = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
    # Rows of one value only have weights above 0: there is nothing to explain.
    explained = f", R² {1 - mean_square / variance:.4f}" if variance > 0 else ""
    error = np.sqrt(mean_square)
    return f"Error        {error:.4g} (root mean square){explained} {rows}\n"


def _to_numbers(y: Array) -> tuple[Array, int]:
    """Return labels as float64, and the row of the first that is no finite number."""
    numbers = np.empty(len(y))
    for row, label in enumerate(y.tolist()):
        try:
            numbers[row] = float(label)
        except ValueError:
            return numbers, row
        if not math.isfinite(numbers[row]):
            return numbers, row
    return numbers, len(y)


def _are_amounts(numbers: Array, n_different: int) -> bool:
    """Whether numbers have so many values that they name no classes."""
    if np.array_equal(numbers, np.rint(numbers)):
        return n_different > _MOST_WHOLE_CLASSES
    return n_different > _MOST_FRACTION_CLASSES or 2 * n_different > len(numbers)
