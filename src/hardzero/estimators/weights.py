"""How much a row counts: the weights that users give to rows and to classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero.errors import DataError, ParameterError
from hardzero.estimators.inputs import check_mask

__all__ = ["read_weights", "weigh_classes"]

Array = npt.NDArray[Any]


def read_weights(sample_weight: Any, n_samples: int, name: str) -> Array | None:
    """Return checked weights of rows, None if they say nothing.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,), number or None
        Weights.
    n_samples : int
        Number of rows.
    name : str
        Name of the argument, for messages.

    Returns
    -------
    ndarray of float64 of shape (n_samples,) or None
        Weights, divided by the power of two that leaves the largest in [0.5, 1); None
        if all are equal.

    Raises
    ------
    DataError
        If weights are not numbers of 0 or more, one for each row, with one above 0.
    """
    if sample_weight is None:
        return None
    check_mask(sample_weight, name)
    weights = _as_floats(sample_weight, name)
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.shape != (n_samples,):
        raise DataError(
            f"{name} has shape {weights.shape}, expected ({n_samples},), one weight "
            "for each row of X."
        )
    wrong = ~((weights >= 0) & (weights < np.inf))
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"{name} is {weights[row]:g} in row {row}, counted from 0, expected finite "
            "numbers of 0 or more. Give 0 to leave a row out."
        )
    largest = weights.max(initial=0.0)
    if largest == 0:
        raise DataError(
            f"all {name} are zero, which leaves no row. Give at least one row a weight "
            "above 0."
        )
    if weights.min() == largest:
        return None
    # An exact division: sums of whole weights stay exact, and compare as counts do.
    scaled: Array = np.ldexp(weights, -np.frexp(largest)[1])
    return scaled


def weigh_classes(
    class_weight: Mapping[Any, float] | str | None,
    classes: Array,
    codes: Array,
    sample_weight: Array | None,
) -> Array | None:
    """Return the weights of rows, multiplied by those of their classes.

    Parameters
    ----------
    class_weight : mapping, "balanced" or None
        Weight of each label, 1 for labels that it lacks. "balanced" gives all classes
        the same total weight.
    classes : ndarray of shape (n_classes,)
        Labels.
    codes : ndarray of int64 of shape (n_samples,)
        Class of each row, an index into `classes`.
    sample_weight : ndarray of float64 of shape (n_samples,) or None
        Weights of the rows; None means all 1.

    Returns
    -------
    ndarray of float64 of shape (n_samples,) or None
        Weights; None means all 1.

    Raises
    ------
    ParameterError
        If labels of `class_weight` are no classes while classes have no weight there.
    DataError
        If no row is left with a weight above 0.
    """
    if class_weight is None:
        return sample_weight
    if isinstance(class_weight, str):
        totals = np.bincount(codes, sample_weight, minlength=len(classes))
        weights = 1.0 / np.where(totals > 0, totals, 1.0)
    else:
        weights = _look_up(class_weight, classes)
    of_rows: Array = weights[codes]
    if sample_weight is not None:
        of_rows = of_rows * sample_weight
    return read_weights(of_rows, len(codes), "weights of rows (by class_weight)")


def _as_floats(sample_weight: Any, name: str) -> Array:
    try:
        given = np.asarray(sample_weight)
        is_object = given.dtype.kind == "O"
        if is_object and any(isinstance(one, str | bytes) for one in given.flat):
            raise TypeError("there is text in it")
        if not is_object and given.dtype.kind not in "biuf":
            raise TypeError(f"it is {given.dtype}")
        with np.errstate(over="ignore"):  # what overflows is infinite, an error later
            return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{name} holds what is not a number ({error}), expected one number of 0 or "
            "more for each row. Convert it first."
        ) from error


def _look_up(class_weight: Mapping[Any, float], classes: Array) -> Array:
    labels = classes.tolist()
    unknown = [repr(label) for label in class_weight if label not in labels]
    missing = [repr(label) for label in labels if label not in class_weight]
    if unknown and missing:  # one alone is a choice, both together look like a slip
        raise ParameterError(
            f"class_weight has labels that y does not have: {', '.join(unknown[:10])}, "
            f"and y has labels without a weight: {', '.join(missing[:10])}. Spell "
            "labels as in y, or give every class a weight."
        )
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])
