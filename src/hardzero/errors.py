"""Every exception and warning that hardzero raises on purpose.

The exceptions also derive from the built-in class that fits best, so that code which
knows nothing about hardzero (``except ValueError``) still catches them.
"""

import sys
import warnings

__all__ = [
    "BudgetError",
    "DataError",
    "DeadUnitWarning",
    "DivergenceError",
    "HardzeroError",
    "NotBuiltError",
    "ParameterError",
    "warn_user",
]

# Packages between the line that a user wrote and the one that warns.
_MACHINERY = frozenset({"hardzero", "sklearn", "joblib"})


class HardzeroError(Exception):
    """Base class of all errors that hardzero raises on purpose."""


class ParameterError(HardzeroError, ValueError):
    """An argument has a value or a shape that the called function cannot use."""


class DataError(HardzeroError, ValueError):
    """A data file or data array is malformed, truncated or not what its name says."""


class BudgetError(HardzeroError, RuntimeError):
    """A computation was given up because it would exceed the budget that it was given.

    Parameters
    ----------
    message : str
        What was asked, how far it came, and what to do.
    """


class NotBuiltError(HardzeroError, ImportError):
    """The compiled core is missing or cannot be loaded on this machine."""


class DivergenceError(HardzeroError, ArithmeticError):
    """Weights or losses stopped being finite numbers while training.

    Parameters
    ----------
    message : str
        What happened and what to do about it.
    layer : int or None
        Number of the first layer with a non-finite weight, counted from 1; None if
        the loss alone was not finite.
    epoch : int or None
        Epoch in which it was noticed, counted from 1.
    learning_rate : float or None
        Learning rate in that epoch.
    """

    layer: int | None
    epoch: int | None
    learning_rate: float | None

    def __init__(
        self,
        message: str,
        *,
        layer: int | None = None,
        epoch: int | None = None,
        learning_rate: float | None = None,
    ) -> None:
        super().__init__(message)
        self.layer = layer
        self.epoch = epoch
        self.learning_rate = learning_rate


class DeadUnitWarning(UserWarning):
    """Many units of a hidden layer put out zero for every training row so far."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and point at the line of the user that led here.

    That is the innermost one outside hardzero, scikit-learn and joblib.

    Parameters
    ----------
    message : str
        What happened and what to do about it.
    category : type of Warning, default=UserWarning
        Class of the warning.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back and _package(frame.f_globals) in _MACHINERY:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(module: dict[str, object]) -> str:
    return str(module.get("__name__", "")).partition(".")[0]
