"""Scaling of columns that becomes part of the first layer of a network."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from hardzero.errors import DataError, ParameterError
from hardzero.stack import Layer, RectifierStack

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

__all__ = ["fold_scaling", "read_pipeline"]

Array = npt.NDArray[Any]
Scaling = tuple[Array, Array]

_SCALERS: Final = ("StandardScaler", "RobustScaler", "MaxAbsScaler", "MinMaxScaler")


def fold_scaling(
    stack: RectifierStack,
    shift: Array,
    scale: Array,
    names: Sequence[str] | None = None,
) -> RectifierStack:
    """Return the network that takes rows as they are before ``(X - shift) / scale``.

    Parameters
    ----------
    stack : RectifierStack
        Network for scaled rows.
    shift : ndarray of shape (n_inputs,), float64
        What is subtracted from each column.
    scale : ndarray of shape (n_inputs,), float64
        By what each column is then divided; none is 0.
    names : sequence of str or None, default=None
        Names of the columns, for messages.

    Returns
    -------
    RectifierStack
        Network for unscaled rows, float64: in float32 a column whose mean is large
        beside its deviation would lose its digits.

    Raises
    ------
    DataError
        If a weight becomes too large for float64.
    """
    first, *rest = stack.astype(np.float64).layers
    with np.errstate(over="ignore"):  # what is too large is refused next
        W = first.W / scale[:, None]
    is_sound = np.isfinite(W).all(axis=1)
    if not is_sound.all():
        column = int(np.argmin(is_sound))
        raise DataError(
            f"Column {repr(names[column]) if names else column} has values that are "
            "too small or too large: a weight cannot be stored. Multiply the column by "
            "a constant, scale it in another way, or leave it out."
        )
    b = first.b - shift @ W
    folded = Layer(W, b, first.activation, first.signs, first.slopes)
    return RectifierStack((folded, *rest), stack.output_link)


def read_pipeline(pipeline: "Pipeline") -> tuple[list[Scaling], Any]:
    """Take a pipeline of fitted scalers and an estimator apart.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline
        Each step but the last is a StandardScaler, RobustScaler, MaxAbsScaler or
        MinMaxScaler, without clipping, or is passed through.

    Returns
    -------
    scalings : list of (shift, scale)
        What the scalers do, in their order, as `fold_scaling` takes it.
    estimator : object
        The last step.

    Raises
    ------
    ParameterError
        If a step does something else, or is not fitted.
    """
    *steps, (_, estimator) = pipeline.steps
    scalings = [
        _read_scaler(name, step) for name, step in steps if not _does_nothing(step)
    ]
    return scalings, estimator


def _does_nothing(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _read_scaler(name: str, step: Any) -> Scaling:
    from sklearn import preprocessing

    kinds = {getattr(preprocessing, kind): kind for kind in _SCALERS}
    kind = kinds.get(type(step))
    if kind is None or getattr(step, "clip", False):
        what = "clips values" if kind else f"is a {type(step).__name__}"
        raise ParameterError(
            f"step {name!r} of the pipeline {what}, which cannot become part of the "
            f"first layer, expected one of {', '.join(_SCALERS)}, without clip. Take "
            "the last step alone and prepare the rows yourself, or pickle the pipeline."
        )
    if not hasattr(step, "n_features_in_"):
        raise ParameterError(
            f"step {name!r} of the pipeline is not fitted, expected a fitted pipeline. "
            "Call fit first."
        )
    if kind == "MinMaxScaler":  # X * scale_ + min_
        scale = 1 / np.asarray(step.scale_, dtype=np.float64)
        return -step.min_ * scale, scale
    shift = {"StandardScaler": "mean_", "RobustScaler": "center_"}.get(kind, "")
    if kind == "StandardScaler" and not step.with_mean:  # it has a mean all the same
        shift = ""
    nothing = np.zeros(step.n_features_in_), np.ones(step.n_features_in_)
    found = getattr(step, shift, None), step.scale_
    subtracted, divided = (
        default if value is None else np.asarray(value, dtype=np.float64)
        for value, default in zip(found, nothing, strict=True)
    )
    return subtracted, divided
