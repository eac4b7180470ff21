"""What training minimises: losses per row, with their derivatives.

With outputs f of the last layer, before the output link, and targets y:

=================  =======================================  ========  =================
spelling           loss of a row                            link      targets
=================  =======================================  ========  =================
``softmax``        log sum_j exp(f_j) - f_y                 softmax   class numbers
``sigmoid``        sum_j log(1 + exp(f_j)) - y_j f_j        sigmoid   labels, 0 or 1
``squared``        sum_j (f_j - y_j)^2 / 2                  identity  numbers
``absolute``       sum_j abs(f_j - y_j)                     identity  numbers
``huber(delta)``   sum_j d^2 / 2 where d = abs(f_j - y_j)   identity  numbers
                   is at most delta, delta (d - delta / 2)
                   where it is more
``log_cosh``       sum_j log cosh(f_j - y_j)                identity  numbers
``quantile(q)``    sum_j q (y_j - f_j) where f_j < y_j,     identity  numbers
                   (1 - q) (f_j - y_j) where f_j > y_j
``poisson``        sum_j exp(f_j) - y_j f_j                 exp       numbers >= 0
=================  =======================================  ========  =================

Losses of several outputs are added up, not averaged, so an output learns the same
whether it is alone or not, as far as the hidden layers leave it free. ``huber`` alone
means ``huber(1)``, ``quantile`` alone ``quantile(0.5)``, half the absolute loss. At
the kinks of ``absolute`` and ``quantile``, f = y, the derivative used is 0.

Losses and derivatives are computed in the dtype of the outputs by forms that neither
cancel nor overflow before the result does, and added up in float64. A loss that
overflows is infinite or NaN, without a warning; the loop reports it as divergence.

References
----------
Huber 1964, "Robust estimation of a location parameter", section 4. Koenker & Bassett
1978, "Regression quantiles", eq. 2.1. McCullagh & Nelder 1989, "Generalized linear
models", chapter 6 (Poisson). Bishop 2006, "Pattern recognition and machine learning",
section 5.2 (the losses that belong to sigmoid, softmax and identity). Log-cosh is
folklore; its derivative is tanh.
"""

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from hardzero.errors import DataError, ParameterError
from hardzero.kernels.rules import plain_float
from hardzero.stack import OutputLink

__all__ = [
    "OBJECTIVES",
    "Absolute",
    "Huber",
    "LogCosh",
    "Objective",
    "Poisson",
    "Quantile",
    "SigmoidLogLoss",
    "SoftmaxLogLoss",
    "Squared",
    "check_targets",
    "parse_objective",
]

Array = npt.NDArray[Any]


def parse_objective(spelling: "str | Objective") -> "Objective":
    """Return the objective that a spelling names.

    Parameters
    ----------
    spelling : str or Objective
        One of the spellings in the table at the top of the module, with the parameter
        in parentheses where the default is not wanted: ``"huber"``, ``"huber(1.5)"``,
        ``"quantile(q=0.9)"``. An Objective is returned as it is.

    Returns
    -------
    Objective
        The objective.

    Raises
    ------
    ParameterError
        If the name is unknown, or the parameter is unknown, unreadable or out of range.

    Examples
    --------
    >>> from hardzero.engine.objectives import parse_objective
    >>> parse_objective("huber(1.5)")
    Huber(delta=1.5)
    >>> str(parse_objective("quantile"))
    'quantile(0.5)'
    """
    if isinstance(spelling, Objective):
        return spelling
    match = _SPELLING.fullmatch(spelling) if isinstance(spelling, str) else None
    if match is None:
        raise ParameterError(
            f"the loss is {spelling!r}, expected a name, or a name with one parameter "
            f"in parentheses. {_advice('')}"
        )
    name, key, text = match["name"], match["key"], match["value"]
    if name not in OBJECTIVES:
        raise ParameterError(f"the loss {name!r} is unknown. {_advice(name)}")
    kind = OBJECTIVES[name]
    return kind() if text is None else _with_parameter(kind, key, text)


def check_targets(
    objective: "Objective", y: Array, n_rows: int, n_outputs: int
) -> None:
    """Check that targets are what an objective compares outputs with.

    Parameters
    ----------
    objective : Objective
        What training minimises.
    y : ndarray
        Targets.
    n_rows : int
        Number of rows that they belong to.
    n_outputs : int
        Number of outputs of the network.

    Raises
    ------
    DataError
        If shape or dtype are not those of the table at the top of the module, or a
        value is out of range.
    """
    is_class = isinstance(objective, SoftmaxLogLoss)
    shape = (n_rows,) if is_class else (n_rows, n_outputs)
    if y.shape != shape or (y.dtype != np.int64 if is_class else y.dtype.kind != "f"):
        raise DataError(
            f"y is {y.dtype} of shape {y.shape}, expected "
            f"{'int64' if is_class else 'floats'} of shape {shape} for the loss "
            f"'{objective}'. Give one {'class number' if is_class else 'row'} for each "
            "row of X."
        )
    if y.size == 0:
        return
    low, high = y.min(), y.max()
    if is_class and not (low >= 0 and high < n_outputs):
        raise DataError(
            f"y has classes from {low} to {high}, expected 0 to {n_outputs - 1}. "
            "Number the classes from 0, or give the network one output for each class."
        )
    if not (np.isfinite(low) and np.isfinite(high)):
        raise DataError("y has a NaN or infinite value. Remove rows without a target.")
    if isinstance(objective, Poisson) and low < 0:
        raise DataError(
            f"y has the value {low:g}, expected counts or rates of 0 or more for the "
            "loss 'poisson'. Take another loss, such as 'squared', for such targets."
        )
    if isinstance(objective, SigmoidLogLoss) and not np.isin(y, (0, 1)).all():
        raise DataError(
            f"y has values from {low:g} to {high:g}, expected labels 0 and 1 only for "
            "the loss 'sigmoid'. Give one column of zeros and ones for each label."
        )


class Objective(ABC):
    """What training minimises; the module's table has the formulas."""

    name: ClassVar[str]
    """Name in `OBJECTIVES`."""

    output_link: ClassVar[OutputLink]
    """Link that makes predictions of the outputs, with which a stack is built."""

    is_computed_by_step: ClassVar[bool] = False
    """Whether the training loop leaves loss and derivative to `Network.step`."""

    def loss_and_delta(
        self, outputs: Array, y: Array, shares: Array
    ) -> tuple[float, Array]:
        """Return the loss of a batch and its derivative.

        Parameters
        ----------
        outputs : ndarray of shape (n_rows, n_outputs)
            Outputs of the last layer before the link.
        y : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Targets of these rows.
        shares : ndarray of shape (n_rows,)
            Share of each row in the total weight of the batch, which the losses are
            multiplied by. A row with share 0 has no influence, even if it overflows.

        Returns
        -------
        loss : float
            Sum over rows of share times loss; not finite if an output overflows.
        delta : ndarray of shape (n_rows, n_outputs)
            Its derivative with respect to the outputs, C-contiguous, in their dtype.

        Raises
        ------
        DataError
            If the shape of `y` does not fit that of the outputs.
        """
        self._check_shapes(outputs, y)
        with _quiet():
            losses = self._losses(outputs, y)
            delta = np.multiply(
                self._slopes(outputs, y),
                shares[:, None],
                dtype=outputs.dtype,
                casting="same_kind",
                order="C",
            )
            if not shares.all():
                losses = np.where(shares == 0, 0.0, losses)
                delta[shares == 0] = 0.0
            return float((losses * shares).sum(dtype=np.float64)), delta

    def losses(self, outputs: Array, y: Array) -> Array:
        """Return the loss of each row.

        Parameters
        ----------
        outputs : ndarray of shape (n_rows, n_outputs)
            Outputs of the last layer before the link.
        y : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Targets.

        Returns
        -------
        ndarray of float64 of shape (n_rows,)
            Losses; infinite or NaN where they overflow.

        Raises
        ------
        DataError
            If the shape of `y` does not fit that of the outputs.
        """
        self._check_shapes(outputs, y)
        with _quiet():
            return self._losses(outputs, y)

    def wrong(self, outputs: Array, y: Array) -> Array | None:  # noqa: ARG002
        """Return which rows are classified wrongly.

        Parameters
        ----------
        outputs : ndarray of shape (n_rows, n_outputs)
            Outputs of the last layer before the link.
        y : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Targets.

        Returns
        -------
        ndarray of bool of shape (n_rows,) or None
            Whether a row is wrong: the class with the largest output is another one,
            or, of several labels, one or more are on the wrong side of 0. None if the
            objective is no classifier's.
        """
        return None

    @abstractmethod
    def _losses(self, outputs: Array, y: Array) -> Array:
        """Return the loss of each row, in float64."""

    @abstractmethod
    def _slopes(self, outputs: Array, y: Array) -> Array:
        """Return the derivative of each row's loss."""

    def _check_shapes(self, outputs: Array, y: Array) -> None:
        expected = outputs.shape
        if isinstance(self, SoftmaxLogLoss):
            expected = expected[:1]
        if y.shape != expected:
            raise DataError(
                f"y has shape {y.shape}, expected {expected} for outputs of shape "
                f"{outputs.shape}. Give each row its targets."
            )

    def __str__(self) -> str:
        """Return the spelling that `parse_objective` reads."""
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        inside = ", ".join(_short(value) for value in values)
        return f"{self.name}({inside})" if inside else self.name


@dataclass(frozen=True)
class SoftmaxLogLoss(Objective):
    """Minus the log of the softmax probability of the right class.

    The derivative is the softmax minus 1 in place y. The training loop leaves this
    one to `Network.step`, which does the same faster.
    """

    name = "softmax"
    output_link = "softmax"
    is_computed_by_step = True

    def wrong(self, outputs: Array, y: Array) -> Array:  # noqa: D102
        return np.asarray(outputs.argmax(axis=1) != y)

    def _losses(self, outputs: Array, y: Array) -> Array:
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        log_sums = np.log(np.exp(shifted).sum(axis=1, dtype=np.float64))
        return np.asarray(log_sums - shifted[np.arange(len(y)), y])

    def _slopes(self, outputs: Array, y: Array) -> Array:
        slopes: Array = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        slopes /= slopes.sum(axis=1, keepdims=True)
        slopes[np.arange(len(y)), y] -= 1
        return slopes


class _SumOverOutputs(Objective):
    """An objective that adds up what each output costs by itself."""

    def _losses(self, outputs: Array, y: Array) -> Array:
        y = y.astype(outputs.dtype, copy=False)
        total: Array = self._terms(outputs, y).sum(axis=1, dtype=np.float64)
        return total

    def _slopes(self, outputs: Array, y: Array) -> Array:
        return self._derivatives(outputs, y.astype(outputs.dtype, copy=False))

    @abstractmethod
    def _terms(self, f: Array, y: Array) -> Array: ...

    @abstractmethod
    def _derivatives(self, f: Array, y: Array) -> Array: ...


@dataclass(frozen=True)
class SigmoidLogLoss(_SumOverOutputs):
    """Minus the log of the probability of each label, for labels that may coincide.

    The derivative is sigmoid(f) - y.
    """

    name = "sigmoid"
    output_link = "sigmoid"

    def wrong(self, outputs: Array, y: Array) -> Array:  # noqa: D102
        return np.asarray(((outputs > 0) != (y > 0)).any(axis=1))

    def _terms(self, f: Array, y: Array) -> Array:
        # log(1 + exp(f)) = max(f, 0) + log(1 + exp(-|f|))
        return np.asarray((np.maximum(f, 0) - y * f) + np.log1p(np.exp(-np.abs(f))))

    def _derivatives(self, f: Array, y: Array) -> Array:
        # for y = 1 the difference sigmoid(f) - 1 would cancel
        return np.asarray((1 - y) * expit(f) - y * expit(-f))


@dataclass(frozen=True)
class Squared(_SumOverOutputs):
    """Half the squared distance; its best constant prediction is the mean.

    The derivative is f - y.
    """

    name = "squared"
    output_link = "identity"

    def _terms(self, f: Array, y: Array) -> Array:
        return np.asarray(np.square(f - y) / 2)

    def _derivatives(self, f: Array, y: Array) -> Array:
        return np.asarray(f - y)


@dataclass(frozen=True)
class Absolute(_SumOverOutputs):
    """The distance; its best constant prediction is the median.

    The derivative is the sign of f - y, 0 at f = y.
    """

    name = "absolute"
    output_link = "identity"

    def _terms(self, f: Array, y: Array) -> Array:
        return np.asarray(np.abs(f - y))

    def _derivatives(self, f: Array, y: Array) -> Array:
        return np.asarray(np.sign(f - y))


@dataclass(frozen=True)
class Huber(_SumOverOutputs):
    """Squared loss for small errors, absolute loss for large ones.

    The derivative is f - y, cut off at -delta and delta.

    Parameters
    ----------
    delta : float, default=1.0
        Error from which on the loss grows linearly, finite and above 0.

    Raises
    ------
    ParameterError
        If `delta` is not such a number.
    """

    delta: float = 1.0

    name = "huber"
    output_link = "identity"

    def __post_init__(self) -> None:
        """Check the parameter."""
        _set_between(self, "delta", 0.0, math.inf)

    def _terms(self, f: Array, y: Array) -> Array:
        d = np.abs(f - y)
        inner = np.minimum(d, self.delta)
        return np.asarray(inner * (d - inner / 2))

    def _derivatives(self, f: Array, y: Array) -> Array:
        return np.asarray((f - y).clip(-self.delta, self.delta))


@dataclass(frozen=True)
class LogCosh(_SumOverOutputs):
    """Log of the hyperbolic cosine of the error: a Huber loss without a seam.

    The derivative is tanh(f - y).
    """

    name = "log_cosh"
    output_link = "identity"

    def _terms(self, f: Array, y: Array) -> Array:
        d = np.abs(f - y)
        near = np.log1p(2 * np.square(np.sinh(np.minimum(d, 1) / 2)))
        far = (d - math.log(2)) + np.log1p(np.exp(-2 * d))
        return np.asarray(np.where(d < 1, near, far))

    def _derivatives(self, f: Array, y: Array) -> Array:
        return np.asarray(np.tanh(f - y))


@dataclass(frozen=True)
class Quantile(_SumOverOutputs):
    """Pinball loss; its best constant prediction is the q-quantile.

    The derivative is -q below y, 1 - q above, and 0 at f = y.

    Parameters
    ----------
    q : float, default=0.5
        Quantile, between 0 and 1.

    Raises
    ------
    ParameterError
        If `q` is not such a number.
    """

    q: float = 0.5

    name = "quantile"
    output_link = "identity"

    def __post_init__(self) -> None:
        """Check the parameter."""
        _set_between(self, "q", 0.0, 1.0)

    def _terms(self, f: Array, y: Array) -> Array:
        d = f - y
        return np.asarray(np.maximum((1 - self.q) * d, -self.q * d))

    def _derivatives(self, f: Array, y: Array) -> Array:
        d = f - y
        return np.asarray((d > 0) * (1 - self.q) - (d < 0) * self.q)


@dataclass(frozen=True)
class Poisson(_SumOverOutputs):
    """Minus the log-likelihood of counts whose log rate is the output, up to log y!.

    The derivative is exp(f) - y. The loss may be negative.
    """

    name = "poisson"
    output_link = "exp"

    def _terms(self, f: Array, y: Array) -> Array:
        return np.asarray(np.exp(f) - y * f)

    def _derivatives(self, f: Array, y: Array) -> Array:
        return np.asarray(np.exp(f) - y)


OBJECTIVES: Final = MappingProxyType[str, type[Objective]](
    {
        kind.name: kind
        for kind in (
            SoftmaxLogLoss,
            SigmoidLogLoss,
            Squared,
            Absolute,
            Huber,
            LogCosh,
            Quantile,
            Poisson,
        )
    }
)
"""All objectives by name."""

_SPELLING: Final = re.compile(
    r"\s*(?P<name>\w+)\s*(\(\s*((?P<key>\w+)\s*=\s*)?(?P<value>[^=()]*?)\s*\)\s*)?"
)

# What other libraries call these; used only to give advice.
_ELSEWHERE: Final = {
    "cross_entropy": "softmax",
    "log_loss": "softmax",
    "binary_crossentropy": "sigmoid",
    "squared_error": "squared",
    "mse": "squared",
    "l2": "squared",
    "absolute_error": "absolute",
    "mae": "absolute",
    "l1": "absolute",
    "logcosh": "log_cosh",
    "pinball": "quantile",
}


def _quiet() -> np.errstate:
    return np.errstate(over="ignore", invalid="ignore", under="ignore")


def _advice(name: str) -> str:
    near = get_close_matches(name.lower(), [*OBJECTIVES, *_ELSEWHERE], n=1)
    if near:
        return f"Did you mean {_ELSEWHERE.get(near[0], near[0])!r}?"
    return f"Choose one of: {', '.join(OBJECTIVES)}."


def _with_parameter(kind: type[Objective], key: str | None, text: str) -> Objective:
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if not known:
        raise ParameterError(
            f"the loss {kind.name!r} takes no parameter but got {text!r}. Write "
            f"{kind.name!r}."
        )
    if key not in (None, *known):
        raise ParameterError(
            f"the loss {kind.name!r} has no parameter {key!r}; its parameter is "
            f"{known[0]!r}. Write '{kind.name}({known[0]}={text})'."
        )
    try:
        value = float(text)
    except ValueError:
        raise ParameterError(
            f"the loss {kind.name!r} got {text!r} for its parameter {known[0]!r}, "
            f"expected a number. Write for example '{kind()}'."
        ) from None
    return kind(**{known[0]: value})


def _set_between(objective: Objective, name: str, low: float, high: float) -> None:
    """Make a plain float of a parameter and check that it lies in (low, high)."""
    value = getattr(objective, name)
    number = plain_float(value)
    if not low < number < high:
        limit = "" if high == math.inf else f" and below {high:g}"
        raise ParameterError(
            f"{name} of the loss {objective.name!r} is {value!r}, expected a finite "
            f"number above {low:g}{limit}. Write for example '{type(objective)()}'."
        )
    object.__setattr__(objective, name, number)  # the objective is frozen


def _short(value: float) -> str:
    return repr(value).removesuffix(".0")
