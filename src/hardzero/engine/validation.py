"""Validation rows, and how good the outputs of a network for them are."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero.engine.objectives import Objective
from hardzero.errors import ParameterError
from hardzero.kernels.network import Matrix

__all__ = ["Validation", "Verdict", "judge"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Validation:
    """Rows that decide which epoch was the best.

    Parameters
    ----------
    X : C-contiguous ndarray or CSR matrix of shape (n_validation, n_inputs)
        Rows in the dtype of the network, at least one.
    y : ndarray of shape (n_validation,) or (n_validation, n_outputs)
        Targets, as the objective has them.
    sample_weight : ndarray of shape (n_validation,), optional
        Weights, 0 or more and not all 0; all 1, if not given.
    score : callable, optional
        Takes the outputs of the network before the link, of shape (n_validation,
        n_outputs), and returns a number, the greater the better. Without one, the
        share of wrong rows counts, or, if the objective is no classifier's, the loss.
    loss : callable, optional
        Returns the mean loss of the rows, for networks whose outputs for all of them
        would not fit into memory; nothing else counts then. A loss that is not finite
        counts as infinite.
    """

    X: Matrix
    y: Array
    sample_weight: Array | None = None
    score: Callable[[Array], float] | None = None
    loss: Callable[[], float] | None = None


@dataclass(frozen=True)
class Verdict:
    """How good outputs were; all None without validation rows.

    Parameters
    ----------
    rank : tuple of float or None
        What epochs are compared by, the smaller the better: minus the score, or the
        error, or 0, and then the loss.
    loss : float or None
        Weighted mean of the losses; infinite if one overflows.
    error : float or None
        Weighted share of the rows that were classified wrongly, in [0, 1]; None if
        the objective is no classifier's.
    score : float or None
        What `Validation.score` returned, and minus infinity if an output was not
        finite; None without a score.
    """

    rank: tuple[float, float] | None = None
    loss: float | None = None
    error: float | None = None
    score: float | None = None


def judge(validation: Validation, objective: Objective, outputs: Array) -> Verdict:
    """Compare outputs with targets.

    Parameters
    ----------
    validation : Validation
        Rows that the outputs belong to.
    objective : Objective
        What training minimises.
    outputs : ndarray of shape (n_validation, n_outputs)
        Outputs of the network before the link. One that is not finite is wrong.

    Returns
    -------
    Verdict
        How good they are.

    Raises
    ------
    ParameterError
        If the weights add up to 0, or the score is NaN.
    """
    losses = objective.losses(outputs, validation.y)
    wrong = objective.wrong(outputs, validation.y)
    loss = _mean(losses, validation.sample_weight)
    loss = math.inf if math.isnan(loss) else loss
    error = None
    if wrong is not None:
        error = _mean(wrong | ~np.isfinite(losses), validation.sample_weight)
    score = None if validation.score is None else _score(validation.score, outputs)
    first = -score if score is not None else error or 0.0
    return Verdict((first, loss), loss, error, score)


def _mean(values: Array, weights: Array | None) -> float:
    if weights is None:
        return float(values.mean(dtype=np.float64))
    counts = weights > 0  # 0 times infinity is not 0
    total = weights.sum(dtype=np.float64)
    if not total > 0:
        raise ParameterError(
            "the weights of the validation rows add up to 0, expected some above 0. "
            "Leave sample_weight out, or give other rows."
        )
    weighted = values[counts] * weights[counts].astype(np.float64)
    return float(weighted.sum() / total)


def _score(score: Callable[[Array], float], outputs: Array) -> float:
    if not np.isfinite(outputs).all():
        return -math.inf
    value = float(score(outputs))
    if math.isnan(value):
        raise ParameterError(
            "the score of the validation rows is nan, expected a number. Give rows "
            "for which the score is defined, or another score."
        )
    return value
