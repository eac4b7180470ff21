"""The one training loop: shuffled mini-batches, validation, best weights, history."""

import math
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hardzero.engine.dead_units import warn_of_dead_units
from hardzero.engine.forward import forward
from hardzero.engine.progress import ProgressBar, show_progress
from hardzero.engine.schedules import CONSTANT, Schedule
from hardzero.errors import DivergenceError, ParameterError
from hardzero.kernels.network import Matrix, Network
from hardzero.kernels.statistics import LayerStatistics
from hardzero.random import generator
from hardzero.results import FitHistory, Stopped
from hardzero.stack import RectifierStack

__all__ = ["Epoch", "Settings", "train"]

Array = npt.NDArray[Any]

_SAMPLE = 1000


@dataclass(frozen=True)
class Settings:
    """How to train, as far as the loop is concerned.

    Parameters
    ----------
    batch_size : int
        Rows in a mini-batch, at least 1. The last batch of an epoch has what is left.
    max_epochs : int
        Number of passes over the training rows, at least 1.
    learning_rate : float
        Learning rate before the schedule.
    schedule : Schedule
        Factor on the learning rate in each epoch.
    patience : int or None
        Stop after this many epochs in a row that were not better than the best one
        before them; None never stops early.
    """

    batch_size: int
    max_epochs: int
    learning_rate: float
    schedule: Schedule = CONSTANT
    patience: int | None = None


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
        Mean log loss of the training rows, each before the step that used it.
    validation_error : float or None
        Share of validation rows that were classified wrongly; None without such rows.
    validation_loss : float or None
        Mean log loss of the validation rows; None without such rows.
    sparsity : tuple of float
        Share of exact zeros in each hidden layer.
    dead_units : tuple of int
        Number of units in each hidden layer that never fired.
    seconds : float
        Wall-clock time, validation included.
    """

    number: int
    learning_rate: float
    loss: float
    validation_error: float | None
    validation_loss: float | None
    sparsity: tuple[float, ...]
    dead_units: tuple[int, ...]
    seconds: float


def train(
    network: Network,
    X: Matrix,
    y: Array,
    *,
    settings: Settings,
    seed: int,
    rows: Array | None = None,
    validation: tuple[Matrix, Array] | None = None,
    progress: bool = False,
    on_epoch: Callable[[Epoch], bool | None] | None = None,
) -> tuple[RectifierStack, FitHistory]:
    """Train a network and return its best weights.

    Each epoch visits all rows once, in an order that depends on the seed and on the
    number of the epoch alone. With validation rows, the best epoch is the one with the
    lowest validation error and, where errors are equal, the lowest validation loss;
    without, it is the last. Training that stops early therefore has
    ``history.n_epochs == history.best_epoch + patience``.

    Ctrl-C ends training as if the last complete epoch had been the last planned one.
    In the first epoch the rows that were seen until then count as an epoch; before
    the first step there is nothing to keep, and KeyboardInterrupt goes on to the
    caller.

    Parameters
    ----------
    network : Network
        Kernels with the first weights; afterwards they hold the last weights.
    X : C-contiguous ndarray or CSR matrix of shape (n_samples, n_inputs)
        Training rows in the dtype of the network.
    y : ndarray of shape (n_samples,), dtype int64
        Class numbers.
    settings : Settings
        How to train.
    seed : int
        Seed of the shuffles.
    rows : ndarray of shape (n_rows,), dtype int64, optional
        The rows of `X` to train on; all, if not given.
    validation : tuple of (X, y), optional
        Validation rows and their class numbers, of the same kind.
    progress : bool
        Show a progress bar on standard error.
    on_epoch : callable, optional
        Called after each epoch; training ends when it returns True.

    Returns
    -------
    stack : RectifierStack
        Weights after the best epoch.
    history : FitHistory
        What happened.

    Raises
    ------
    DivergenceError
        As soon as a loss or a weight is not a finite number.

    Warns
    -----
    DeadUnitWarning
        After the first epoch, if more than a tenth of the units of a hidden layer put
        out 0 for every row of its second half.
    """
    rows = np.arange(X.shape[0]) if rows is None else rows
    network.bind(X, y)
    stopped: Stopped = "max_epochs"
    with show_progress(len(rows), settings.max_epochs, enabled=progress) as bar:
        run = _Run(network, X, len(rows), validation, bar)
        try:
            for number in range(1, settings.max_epochs + 1):
                rate = settings.learning_rate * settings.schedule.factor(
                    number, settings.max_epochs
                )
                network.set_learning_rate(rate)
                run.begin_epoch(number, rate)
                order = generator(seed, "shuffle", number).permutation(rows)
                for start in range(0, len(rows), settings.batch_size):
                    run.step(order[start : start + settings.batch_size])
                epoch = run.end_epoch()
                if on_epoch is not None and on_epoch(epoch):
                    stopped = "interrupted"
                    break
                if run.epochs_since_best() == settings.patience:
                    stopped = "early_stopping"
                    break
        except KeyboardInterrupt:
            if not run.keep_something():
                raise
            stopped = "interrupted"
    return run.finish(stopped)


class _Best(NamedTuple):
    score: tuple[float, float]
    epoch: int
    stack: RectifierStack


class _Run:
    """The epoch in progress, those before it, and the best weights so far."""

    def __init__(
        self,
        network: Network,
        X: Matrix,
        n_rows: int,
        validation: tuple[Matrix, Array] | None,
        bar: ProgressBar,
    ) -> None:
        self._best: _Best | None = None
        self._network = network
        self._X = X
        self._n_rows = n_rows
        self._validation = validation
        self._bar = bar
        self._epochs: list[Epoch] = []
        self.begin_epoch(1, 0.0)

    def begin_epoch(self, number: int, rate: float) -> None:
        self._number = number
        self._rate = rate
        self._n_seen = 0
        self._loss = 0.0
        self._counted: list[LayerStatistics] | None = None
        self._started = time.perf_counter()

    def step(self, rows: Array) -> None:
        half_done = 2 * self._n_seen >= self._n_rows
        if self._number == 1 and half_done and self._counted is None:
            self._count()
        loss, n = self._network.step(rows), len(rows)
        if not math.isfinite(loss):
            raise self._divergence(rows)
        # Both or, if an interrupt comes first, neither.
        self._loss, self._n_seen = self._loss + loss * n, self._n_seen + n
        self._bar.advance(n)

    def end_epoch(self) -> Epoch:
        counted, last = self._count()
        if any(layer.n_rows == 0 for layer in counted):
            counted = last = self._recount()
        if self._number == 1:
            warn_of_dead_units(counted, last, self._X, self._rate)
        stack = self._weights()
        error, loss = self._validate(stack)
        epoch = Epoch(
            number=self._number,
            learning_rate=self._rate,
            loss=self._loss / self._n_seen,
            validation_error=error,
            validation_loss=loss,
            sparsity=tuple(layer.sparsity for layer in counted),
            dead_units=tuple(layer.dead_units for layer in counted),
            seconds=time.perf_counter() - self._started,
        )
        # In this order an interrupt in between leaves no best epoch without a record.
        self._epochs.append(epoch)
        score = (error or 0.0, loss or 0.0)
        if error is None or self._best is None or score < self._best.score:
            self._best = _Best(score, self._number, stack)
        self._bar.describe(_describe(epoch))
        return epoch

    def epochs_since_best(self) -> int:
        return self._number - self._best.epoch if self._best else 0

    def keep_something(self) -> bool:
        """Make an epoch of what there is if none was finished; say if there is one."""
        if self._best is None and self._n_seen > 0:
            self._epochs.clear()
            self.end_epoch()
        return self._best is not None

    def finish(self, stopped: Stopped) -> tuple[RectifierStack, FitHistory]:
        if self._best is None:
            raise ParameterError("no epoch was run. Give max_epochs of 1 or more.")
        epochs = self._epochs
        errors = [e.validation_error for e in epochs if e.validation_error is not None]
        losses = [e.validation_loss for e in epochs if e.validation_loss is not None]
        return self._best.stack, FitHistory(
            loss=tuple(e.loss for e in epochs),
            validation_error=tuple(errors),
            sparsity=tuple(e.sparsity for e in epochs),
            dead_units=tuple(e.dead_units for e in epochs),
            seconds=tuple(e.seconds for e in epochs),
            learning_rate=tuple(e.learning_rate for e in epochs),
            best_epoch=self._best.epoch,
            stopped=stopped,
            # an overflow is as bad as a loss can be, and JSON knows no infinity
            validation_loss=tuple(min(loss, sys.float_info.max) for loss in losses),
        )

    def _count(self) -> tuple[list[LayerStatistics], list[LayerStatistics]]:
        """Return the counts of the epoch so far, and those since the last call."""
        new = self._network.statistics()
        old = self._counted
        self._counted = new if old is None else list(map(_add, old, new))
        return self._counted, new

    def _recount(self) -> list[LayerStatistics]:
        """Return counts of some rows: an interrupt has taken those of the steps."""
        stack, X = self._weights(), self._X[:_SAMPLE]
        outputs = [stack.truncate(n)(X) for n in range(1, len(stack.layers))]
        return [
            LayerStatistics(len(h), int(np.count_nonzero(h)), (h != 0).any(0))
            for h in outputs
        ]

    def _weights(self) -> RectifierStack:
        try:
            return self._network.stack()
        except ParameterError as error:
            raise self._divergence(np.arange(0)) from error

    def _validate(
        self, stack: RectifierStack
    ) -> tuple[float, float] | tuple[None, None]:
        if self._validation is None:
            return None, None
        X, y = self._validation
        return _score(forward(self._network, X, max(stack.sizes[1:])), y)

    def _divergence(self, rows: Array) -> DivergenceError:
        layer, what = _find_layer(self._network, self._X[rows])
        smaller = self._rate / 10
        return DivergenceError(
            f"training diverged in epoch {self._number} at learning rate "
            f"{self._rate:g}: {what} of layer {layer} are not finite numbers. Lower "
            f"learning_rate, for example to {smaller:g}, or scale the inputs to about "
            "1, for example with sklearn.preprocessing.StandardScaler.",
            layer=layer,
            epoch=self._number,
            learning_rate=self._rate,
        )


def _score(outputs: Array, y: Array) -> tuple[float, float]:
    """Return error and mean log loss; outputs that are not finite are wrong."""
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(y)), y]
    wrong = (outputs.argmax(axis=1) != y) | ~np.isfinite(losses)
    loss = float(losses.mean(dtype=np.float64))
    return np.count_nonzero(wrong) / len(y), math.inf if math.isnan(loss) else loss


def _find_layer(network: Network, X: Matrix) -> tuple[int, str]:
    """Return the first layer, counted from 1, that is not finite, and what of it."""
    try:
        stack = network.stack()
    except ParameterError as error:  # its text names the layer
        found = re.search(r"layer (\d+)", str(error))
        return int(found[1]) if found else 1, "the parameters"
    with np.errstate(over="ignore", invalid="ignore"):
        for number in range(1, len(stack.layers)):
            if not np.isfinite(stack.truncate(number)(X)).all():
                return number, "the outputs"
    return len(stack.layers), "the outputs"


def _add(a: LayerStatistics, b: LayerStatistics) -> LayerStatistics:
    return LayerStatistics(
        a.n_rows + b.n_rows, a.n_nonzero + b.n_nonzero, a.fired | b.fired
    )


def _describe(epoch: Epoch) -> str:
    parts = [f"epoch {epoch.number}", f"loss {epoch.loss:.4f}"]
    if epoch.validation_error is not None:
        parts.append(f"validation error {100 * epoch.validation_error:.2f} %")
    if epoch.sparsity:
        zeros = " ".join(f"{100 * share:.0f}" for share in epoch.sparsity)
        parts.append(f"zeros {zeros} %")
    return "  ".join(parts)
