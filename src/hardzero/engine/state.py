"""Where training stands: all that it needs to go on as if it had never stopped."""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from hardzero.kernels.statistics import LayerStatistics
from hardzero.stack import RectifierStack

__all__ = ["Best", "Epoch", "PartialEpoch", "TrainingState"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Epoch:
    """What one epoch was like; the fields mean what they mean in `FitHistory`.

    Parameters
    ----------
    number : int
        Number of the epoch, counted from 1.
    learning_rate : float
        Learning rate of its steps.
    loss : float
        Weighted mean loss of the training rows, each before the step that used it.
    validation_error : float or None
        Share of validation rows that were classified wrongly; None without such rows,
        and where nothing is classified.
    validation_loss : float or None
        Weighted mean loss of the validation rows; None without such rows.
    sparsity : tuple of float
        Share of exact zeros in each hidden layer.
    dead_units : tuple of int
        Number of units in each hidden layer that never fired.
    seconds : float
        Wall-clock time, validation included.
    validation_score : float or None, default=None
        Score of the validation rows; None without a score.
    """

    number: int
    learning_rate: float
    loss: float
    validation_error: float | None
    validation_loss: float | None
    sparsity: tuple[float, ...]
    dead_units: tuple[int, ...]
    seconds: float
    validation_score: float | None = None


@dataclass(frozen=True, eq=False)
class Best:
    """The best epoch so far.

    Parameters
    ----------
    rank : tuple of float or None
        What it is compared by, the smaller the better; None without validation rows.
    epoch : int
        Number of the epoch.
    stack : RectifierStack
        Weights after it.
    """

    rank: tuple[float, float] | None
    epoch: int
    stack: RectifierStack


@dataclass(frozen=True, eq=False)
class PartialEpoch:
    """An epoch that is under way.

    Parameters
    ----------
    n_rows : int
        Rows of the epoch.
    n_seen : int
        Rows that went through a step.
    loss : float
        Sum over these rows of weight times loss.
    weight : float
        Sum of their weights.
    seconds : float
        Wall-clock time so far.
    earlier, recent : tuple of LayerStatistics or None
        Counts of the first half of the first epoch, and those after them; None where
        nothing was counted yet.
    """

    n_rows: int
    n_seen: int
    loss: float
    weight: float
    seconds: float
    earlier: tuple[LayerStatistics, ...] | None
    recent: tuple[LayerStatistics, ...] | None


@dataclass(frozen=True, eq=False)
class TrainingState:
    """Where training stands.

    Parameters
    ----------
    epochs : tuple of Epoch, default=()
        All finished epochs. The next one has the number after theirs, on which its
        shuffle, its learning rate and what dropout drops depend.
    best : Best or None, default=None
        The best of them; None to look for the best among those to come.
    network : dict of str to ndarray or None, default=None
        What `Network.state` returned; None if the network is at hand that it is in.
    partial : PartialEpoch or None, default=None
        The epoch under way; None between epochs.
    """

    epochs: tuple[Epoch, ...] = ()
    best: Best | None = None
    network: dict[str, Array] | None = None
    partial: PartialEpoch | None = None

    @property
    def n_epochs(self) -> int:
        """Number of finished epochs."""
        return len(self.epochs)
