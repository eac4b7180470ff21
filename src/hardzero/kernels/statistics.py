"""How often hidden units put out exact zeros while a network is trained."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LayerStatistics", "UnitCounter"]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LayerStatistics:
    """Counts of one hidden layer over some training rows.

    Parameters
    ----------
    n_rows : int
        Number of rows seen; a row seen in two steps counts twice.
    n_nonzero : int
        Number of outputs other than 0, over all of these rows and all units.
    fired : ndarray of bool of shape (n_units,)
        Whether each unit put out something other than 0 for any of the rows.
    """

    n_rows: int
    n_nonzero: int
    fired: Bools

    @property
    def sparsity(self) -> float:
        """Fraction of exact zeros, in [0, 1]; NaN before the first row."""
        n_outputs = self.n_rows * self.fired.size
        return 1.0 - self.n_nonzero / n_outputs if n_outputs else math.nan

    @property
    def dead_units(self) -> int:
        """Number of units that put out 0 for every row."""
        return self.fired.size - int(np.count_nonzero(self.fired))

    def __eq__(self, other: object) -> bool:
        """Whether all counts are the same."""
        if not isinstance(other, LayerStatistics):
            return NotImplemented
        return (
            self.n_rows == other.n_rows
            and self.n_nonzero == other.n_nonzero
            and np.array_equal(self.fired, other.fired)
        )

    __hash__ = None  # type: ignore[assignment]


class UnitCounter:
    """Running counts of one hidden layer.

    Parameters
    ----------
    n_units : int
        Number of units.
    """

    def __init__(self, n_units: int) -> None:
        self._n_units = n_units
        self._start()

    def add(self, active: npt.NDArray[Any]) -> None:
        """Count the outputs of a batch.

        Parameters
        ----------
        active : ndarray of bool of shape (n_rows, n_units)
            Whether each output is other than 0.
        """
        self._n_rows += len(active)
        self._n_nonzero += int(np.count_nonzero(active))
        self._fired |= active.any(axis=0)

    def take(self) -> LayerStatistics:
        """Return the counts and start again from nothing.

        Returns
        -------
        LayerStatistics
            Counts since the last call.
        """
        counts = LayerStatistics(self._n_rows, self._n_nonzero, self._fired)
        self._start()
        return counts

    def _start(self) -> None:
        self._n_rows = 0
        self._n_nonzero = 0
        self._fired = np.zeros(self._n_units, dtype=np.bool_)
