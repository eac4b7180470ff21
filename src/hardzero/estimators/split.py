"""Which rows early stopping sets aside."""

from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero.errors import DataError
from hardzero.kernels.network import Matrix
from hardzero.random import row_hashes, stream_key, uniforms

__all__ = ["split_off_validation_rows"]

Array = npt.NDArray[Any]


def split_off_validation_rows(
    X: Matrix,
    strata: Array,
    sample_weight: Array | None,
    fraction: float,
    seed: int,
    *,
    purpose: str = "early_stopping=True",
    remedy: str = "X_val and y_val, or early_stopping=False",
) -> tuple[Array, Array]:
    """Return the rows to train on and those to validate on, class by class.

    Each class gives its share of the validation rows, as exactly as whole rows allow.
    Equal rows of a class stay together, and chance depends on the seed and on the
    content of a row alone: a row of weight 2 does what two equal rows do, the order of
    the rows does not matter, and no validation row has a twin among the training rows
    of its class.

    Parameters
    ----------
    X : C-contiguous ndarray or canonical CSR matrix of shape (n_samples, n_features)
        Features.
    strata : ndarray of shape (n_samples,), dtype int64
        Class of each row; all 0 where there are no classes.
    sample_weight : ndarray of float64 of shape (n_samples,) or None
        Weights above 0; None means all 1.
    fraction : float
        Share of validation rows, by weight, in (0, 1); at least one row is taken.
    seed : int
        Seed of the choice.
    purpose : str
        What the rows are needed for, for messages.
    remedy : str
        What to give in place of more rows, for messages.

    Returns
    -------
    training, validation : ndarray of int64
        Sorted row numbers.

    Raises
    ------
    DataError
        If no class has two different rows.
    """
    n_samples = len(strata)
    weights = np.ones(n_samples) if sample_weight is None else sample_weight
    hashes = row_hashes(X)
    draws = uniforms(stream_key(seed, "validation", 0), hashes, 1)[:, 0]
    by_class = np.lexsort((hashes, draws, strata))
    new = np.ones(n_samples, dtype=bool)  # the first of each group of equal rows
    new[1:] = (np.diff(strata[by_class]) != 0) | (np.diff(hashes[by_class]) != 0)
    group = np.empty(n_samples, dtype=np.int64)
    group[by_class] = np.cumsum(new) - 1
    heads = by_class[new]

    size = np.bincount(group, weights)
    place = _places(size, strata[heads])
    is_last = np.append(np.diff(strata[heads]) != 0, True)  # stays, whatever it weighs
    order = np.lexsort((hashes[heads], draws[heads], place))
    order = order[~is_last[order]]
    if len(order) == 0:
        raise DataError(
            f"{purpose} needs validation rows, but with n_samples={n_samples} there is "
            f"only one row{' of each class' if strata.any() else ''}, counting equal "
            f"rows once. Give more rows, {remedy}."
        )
    middles = np.cumsum(size[order]) - size[order] / 2
    n_chosen = max(1, np.count_nonzero(middles <= fraction * weights.sum()))
    chosen = np.zeros(len(size), dtype=bool)
    chosen[order[:n_chosen]] = True
    is_validation = chosen[group]
    return np.flatnonzero(~is_validation), np.flatnonzero(is_validation)


def _places(size: Array, strata: Array) -> Array:
    """Return the middle of each group in [0, 1], when its class is laid on [0, 1]."""
    ends = np.cumsum(size)
    totals = np.bincount(strata, size)
    before = np.cumsum(totals) - totals
    places: Array = (ends - size / 2 - before[strata]) / totals[strata]
    return places
