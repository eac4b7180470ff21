"""Scores of validation rows, by scorers that users choose."""

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero.errors import ParameterError
from hardzero.kernels.network import Matrix

__all__ = ["name_scorer", "score_rows"]

Array = npt.NDArray[Any]


def score_rows(
    scorer: Callable[..., Any],
    scoring: Any,
    estimator: Any,
    X: Matrix,
    y: Array,
    sample_weight: Array | None,
) -> float:
    """Return the score of an estimator on some rows.

    Parameters
    ----------
    scorer : callable
        Takes the estimator, `X`, `y` and, if there are weights, ``sample_weight``.
    scoring : str or callable
        What the user gave, for messages.
    estimator : BaseEstimator
        Fitted estimator.
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        Features.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Targets.
    sample_weight : ndarray of shape (n_samples,) or None
        Weights; None means all 1.

    Returns
    -------
    float
        The score.

    Raises
    ------
    ParameterError
        If the scorer cannot be called like this, or does not return one number.
    """
    weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
    call = "(estimator, X, y, sample_weight=...)" if weighted else "(estimator, X, y)"
    try:
        score = scorer(estimator, X, y, **weighted)
    except TypeError as error:
        unweighted = ", or leave sample_weight and class_weight out" if weighted else ""
        raise ParameterError(
            f"scoring={_name(scoring)} failed when it was called with {call}: {error}. "
            f"Give a scorer that can be called like this{unweighted}."
        ) from error
    number = np.asarray(score)
    if number.ndim or number.dtype.kind not in "biuf":
        raise ParameterError(
            f"scoring={_name(scoring)} returned {_brief(score)} of type "
            f"{type(score).__name__}, expected one number, the greater the better. "
            "Let it return a float."
        )
    return float(number)


def name_scorer(scoring: Any) -> str | None:
    """Return what tells a scorer from all others, the same in every process.

    Parameters
    ----------
    scoring : str, callable or None
        What the user gave.

    Returns
    -------
    str or None
        The name of a scorer as it is, that of a function with its module.

    Raises
    ------
    ParameterError
        If it is a callable without such a name: a lambda, a function within another
        one, an object.
    """
    if scoring is None or isinstance(scoring, str):
        return scoring
    is_function = isinstance(scoring, FunctionType | BuiltinFunctionType)
    if not is_function or "<" in scoring.__qualname__:
        raise ParameterError(
            f"scoring={_brief(scoring)} was given with a checkpoint, which cannot tell "
            "it from others that look alike. Give the name of a scorer or a function "
            "of a module, defined there by def."
        )
    return f"{scoring.__module__}.{scoring.__qualname__}"


def _name(scoring: Any) -> str:
    return str(getattr(scoring, "__qualname__", None) or _brief(scoring))


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
