"""The one training loop: shuffled mini-batches, validation, best weights, history."""

import math
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero.engine.checkpoint import Checkpoint, CheckpointFile
from hardzero.engine.dead_units import warn_of_dead_units
from hardzero.engine.forward import forward
from hardzero.engine.objectives import Objective, SoftmaxLogLoss, check_targets
from hardzero.engine.progress import ProgressBar, show_progress
from hardzero.engine.state import Best, Epoch, PartialEpoch, TrainingState
from hardzero.engine.task import Settings, describe_task
from hardzero.engine.validation import Validation, Verdict, judge
from hardzero.errors import DivergenceError, ParameterError, warn_user
from hardzero.kernels.network import Matrix, Network, TrainingSet
from hardzero.kernels.statistics import LayerStatistics
from hardzero.random import generator
from hardzero.results import FitHistory, Stopped
from hardzero.stack import RectifierStack

__all__ = ["Epoch", "Settings", "Trained", "TrainingState", "Validation", "train"]

Array = npt.NDArray[Any]

_SAMPLE = 1000
_LARGEST = sys.float_info.max


@dataclass(frozen=True, eq=False)
class Trained:
    """What training hands over.

    Parameters
    ----------
    stack : RectifierStack
        Weights after the best epoch.
    history : FitHistory
        What happened in each epoch of the state.
    state : TrainingState
        Where training stands. Its ``network`` is None if weights and moments are in the
        network that was trained, whose `Network.state` copies them.
    is_whole : bool
        False if an interrupt came in the middle of an epoch and the network of the last
        complete one was not kept, so that nothing can go on from there exactly.
    """

    stack: RectifierStack
    history: FitHistory
    state: TrainingState
    is_whole: bool = True


def train(
    network: Network,
    X: Matrix,
    y: Array,
    *,
    settings: Settings,
    seed: int,
    objective: Objective = SoftmaxLogLoss(),  # noqa: B008 (it is frozen)
    sample_weight: Array | None = None,
    rows: Array | None = None,
    validation: Validation | None = None,
    start: TrainingState | None = None,
    n_epochs: int | None = None,
    checkpoint: Checkpoint | None = None,
    keeps_epochs: bool = False,
    l1_activation: float = 0.0,
    progress: bool = False,
    title: str = "training",
    on_epoch: Callable[[Epoch], bool | None] | None = None,
) -> Trained:
    """Train a network and return its best weights.

    Each epoch visits all rows once, in an order that depends on the seed and on the
    number of the epoch alone. With validation rows, the best epoch is the one with the
    highest score, if there is a score; else the one with the lowest share of wrong
    rows, if the objective is a classifier's; and where these are equal, or there are
    none, the one with the lowest validation loss. Without validation rows it is the
    last. Training that stops early therefore has ``history.n_epochs ==
    history.best_epoch + patience``. With ``settings.tol`` it also stops when the
    training loss no longer falls.

    Training may be cut into several calls at the ends of epochs: each goes on from the
    state that the last one returned, and together they do what one call does, bit for
    bit. With a checkpoint it may be cut by a killed process at any moment.

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
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Targets, as `hardzero.engine.objectives` says: int64 class numbers or floats.
    settings : Settings
        How to train.
    seed : int
        Seed of the shuffles.
    objective : Objective
        What to minimise. The stack of the network should have its output link.
    sample_weight : ndarray of shape (n_samples,), optional
        Weights of the rows, 0 or more; all 1, if not given.
    rows : ndarray of shape (n_rows,), dtype int64, optional
        The rows of `X` to train on; all, if not given.
    validation : Validation, optional
        Validation rows.
    start : TrainingState, optional
        State to go on from. Its ``network`` is loaded if it is there; else the network
        goes on as it is.
    n_epochs : int, optional
        How many epochs to run, at least 1, also beyond ``settings.max_epochs``. If not
        given, as many as are left of these.
    checkpoint : Checkpoint, optional
        File to go on from, if it exists, and to write the state to. Ctrl-C does not
        write.
    keeps_epochs : bool
        Copy the network after each epoch, so that training can go on even from an
        interrupt in the middle of the next. Without it that takes a ``start`` that
        holds the network, and an interrupt in the first epoch after it.
    l1_activation : float
        Penalty that the network was built with; the warning about dead units names it
        among the causes.
    progress : bool
        Show a progress bar on standard error.
    title : str
        What the progress bar calls it.
    on_epoch : callable, optional
        Called after each epoch; training ends when it returns True.

    Returns
    -------
    Trained
        Best weights, history and state.

    Raises
    ------
    DivergenceError
        As soon as a loss or a weight is not a finite number.
    DataError
        If targets or weights do not fit, or the checkpoint is damaged, of another
        task, or cannot be written at the start.
    ParameterError
        If no epoch was run, all weights are 0, or the state was left in the middle of
        an epoch of other rows.

    Warns
    -----
    DeadUnitWarning
        After the first epoch, if more than a tenth of the units of a hidden layer put
        out 0 for every row of its second half.
    UserWarning
        If a checkpoint after the first could not be written, the checkpoint holds more
        epochs than are planned, or the learning rate is 0 at the end.
    """
    rows = np.arange(X.shape[0]) if rows is None else rows
    start = start or TrainingState()
    n_before = start.n_epochs
    last = settings.max_epochs if n_epochs is None else start.n_epochs + n_epochs
    if not objective.is_computed_by_step:
        check_targets(objective, y, X.shape[0], y.shape[-1])
    network.bind(X, y if isinstance(objective, SoftmaxLogLoss) else None, sample_weight)
    if sample_weight is not None and not sample_weight[rows].any():
        raise ParameterError(
            "the weights of the training rows are all 0, expected some above 0. Leave "
            "sample_weight out, or give other rows."
        )
    file = None
    if checkpoint is not None:
        task = describe_task(
            network,
            X,
            y,
            sample_weight,
            rows,
            settings=settings,
            seed=seed,
            objective=objective,
            validation=validation,
            more=checkpoint.task,
        )
        file = CheckpointFile(checkpoint, task)
        start = file.load() or start
        if start.n_epochs > last:
            warn_user(
                f"the checkpoint {checkpoint.path} holds {start.n_epochs} epochs, more "
                f"than the {last} that max_epochs asks for. All of them are kept and "
                "none is trained. Raise max_epochs to train more, or delete the file, "
                "or give another path, to train fewer."
            )
    if start.network is not None:
        # First the rate: kernels bring idle weights up to date before it changes.
        network.set_learning_rate(_rate(settings, start.n_epochs + 1))
        network.set_state(start.network)
    n_left = max(last - start.n_epochs, 0)
    if n_left and settings.schedule.factor(last, settings.max_epochs) == 0.0:
        warn_user(
            f"the learning-rate schedule {settings.schedule} ends after max_epochs="
            f"{settings.max_epochs} epochs, counted from the first training call: from "
            "then on the learning rate is 0 and nothing is learned. Give a schedule "
            "that does not end at 0, such as 'cosine(0.1)', or, to partial_fit, a "
            "max_epochs that counts all of its calls, or train anew."
        )
    with show_progress(len(rows), n_left, enabled=progress, title=title) as bar:
        data = TrainingSet(X, None, _in_dtype(sample_weight, X.dtype))
        run = _Run(
            network,
            data,
            y,
            len(rows),
            objective,
            validation,
            start,
            file,
            bar,
            l1_activation,
            title,
            keeps_epochs=keeps_epochs,
        )
        try:
            stopped = _run_epochs(run, rows, settings, seed, n_before, last, on_epoch)
        except KeyboardInterrupt:
            if not run.keep_something():
                raise
            stopped = "interrupted"
    return run.finish(stopped)


def _run_epochs(
    run: "_Run",
    rows: Array,
    settings: Settings,
    seed: int,
    n_before: int,
    last: int,
    on_epoch: Callable[[Epoch], bool | None] | None,
) -> Stopped:
    """Run epochs until there is a reason to stop, and return it."""
    run.save(is_first=True)
    size = settings.batch_size
    patience = math.inf if settings.patience is None else settings.patience
    while run.epochs_since_best() < patience:
        if run.number > last:
            run.save()
            return "max_epochs"
        if settings.tol is not None:
            stalled = _epochs_stalled(run.losses[n_before:], settings.tol)
            if stalled >= settings.n_stalled:
                run.save()
                return "converged"
        number, order = run.number, rows
        if settings.shuffle:
            order = generator(seed, "shuffle", number).permutation(rows)
        n_seen = run.begin_epoch(_rate(settings, number))
        for first in range(n_seen, len(rows), size):
            run.step(order[first : first + size])
        epoch = run.end_epoch()
        if on_epoch is not None and on_epoch(epoch):
            run.save()
            return "interrupted"
    run.save()
    return "early_stopping"


def _epochs_stalled(losses: list[float], tol: float) -> int:
    """Return how many losses in a row, up to the last, were not lower by `tol`."""
    lowest, n_stalled = math.inf, 0
    for loss in losses:
        n_stalled = 0 if loss <= lowest - tol else n_stalled + 1
        lowest = min(lowest, loss)
    return n_stalled


def _rate(settings: Settings, number: int) -> float:
    """Return the learning rate of an epoch."""
    factor = settings.schedule.factor(number, settings.max_epochs)
    return settings.learning_rate * factor


class _Run:
    """The epoch in progress, those before it, and the best weights so far."""

    # As in PartialEpoch; set by _begin.
    _n_seen: int
    _is_changed: bool  # the network, since the last complete epoch
    _loss: float
    _weight: float
    _started: float
    _earlier: tuple[LayerStatistics, ...] | None
    _recent: tuple[LayerStatistics, ...] | None

    def __init__(
        self,
        network: Network,
        data: TrainingSet,
        y: Array,
        n_rows: int,
        objective: Objective,
        validation: Validation | None,
        start: TrainingState,
        file: CheckpointFile | None,
        bar: ProgressBar,
        l1_activation: float,
        title: str,
        *,
        keeps_epochs: bool,
    ) -> None:
        self._network = network
        self._data = data
        self._y = y
        self._n_rows = n_rows
        self._objective = objective
        self._validation = validation
        self._file = file
        self._bar = bar
        self._l1_activation = l1_activation
        self._title = title
        self._epochs = list(start.epochs)
        self._n_before = start.n_epochs
        self._best = start.best
        if self._best is None and validation is None and start.n_epochs:
            self._best = Best(None, start.n_epochs, self._weights())
        self._is_saved = False
        self._keeps_epochs = keeps_epochs
        self._kept: tuple[int, dict[str, Array]] | None = None
        if start.network is not None and start.partial is None:
            self._kept = start.n_epochs, start.network
        self._rate = 0.0
        self._begin(start.partial)
        bar.advance(self._n_seen)

    @property
    def number(self) -> int:
        """Number of the epoch in progress, or of the next."""
        return len(self._epochs) + 1

    @property
    def losses(self) -> list[float]:
        """Training loss of each epoch."""
        return [epoch.loss for epoch in self._epochs]

    def begin_epoch(self, rate: float) -> int:
        """Return how many rows of the epoch were seen before."""
        self._rate = rate
        if self._n_seen == 0:
            self._network.set_learning_rate(rate)
            self._started = time.perf_counter()
        self._network.begin_epoch(self.number)
        return self._n_seen

    def step(self, rows: Array) -> None:
        half_done = 2 * self._n_seen >= self._n_rows
        if self.number == 1 and half_done and self._earlier is None:
            self._count()
            self._earlier, self._recent = self._recent, None
        self._is_changed = True
        loss, weight, n = self._update(rows), self._weight_of(rows), len(rows)
        total = self._loss + loss * weight
        if not math.isfinite(total):
            raise self._divergence(rows)
        # All or, if an interrupt comes first, none.
        self._loss, self._weight, self._n_seen, self._is_saved = (
            total,
            self._weight + weight,
            self._n_seen + n,
            False,
        )
        self._bar.advance(n)
        if self._n_seen < self._n_rows:
            self._save_if_due(epoch_ended=False)

    def end_epoch(self) -> Epoch:
        self._count()
        last = counted = tuple(self._recent or ())
        if self._earlier is not None:
            counted = tuple(map(_add, self._earlier, last))
        if any(layer.n_rows == 0 for layer in counted):
            counted = last = self._recount()
        if self.number == 1:
            warn_of_dead_units(
                counted,
                last,
                self._data.X,
                self._rate,
                self._l1_activation,
                "" if self._title == "training" else self._title,
            )
        stack = self._weights()
        verdict = self._validate(stack)
        epoch = Epoch(
            number=self.number,
            learning_rate=self._rate,
            loss=self._loss / self._weight if self._weight else 0.0,
            validation_error=verdict.error,
            validation_loss=verdict.loss,
            validation_score=verdict.score,
            sparsity=tuple(layer.sparsity for layer in counted),
            dead_units=tuple(layer.dead_units for layer in counted),
            seconds=time.perf_counter() - self._started,
        )
        # In this order an interrupt in between leaves no best epoch without a record.
        self._epochs.append(epoch)
        rank = verdict.rank
        if self._best is None or _is_better(rank, self._best.rank):
            self._best = Best(rank, epoch.number, stack)
        self._begin(None)
        if self._keeps_epochs:
            self._kept = len(self._epochs), self._network.state()
        self._bar.describe(_describe(epoch))
        self._save_if_due(epoch_ended=True)
        return epoch

    def epochs_since_best(self) -> int:
        return len(self._epochs) - self._best.epoch if self._best else 0

    def keep_something(self) -> bool:
        """Make an epoch of what there is if none was finished; say if there is one."""
        if self._best is None and self._n_seen > 0:
            del self._epochs[self._n_before :]
            self._file = None
            self.end_epoch()
        return self._best is not None

    def save(self, *, is_first: bool = False) -> None:
        """Write a checkpoint if the last one is not up to date."""
        if self._file is not None and not self._is_saved:
            self._file.write(self._state(), is_first=is_first)
            self._is_saved = True

    def finish(self, stopped: Stopped) -> Trained:
        if self._best is None:
            raise ParameterError("no epoch was run. Give max_epochs of 1 or more.")
        epochs = self._epochs
        history = FitHistory(
            loss=tuple(e.loss for e in epochs),
            validation_error=_of_all(e.validation_error for e in epochs),
            sparsity=tuple(e.sparsity for e in epochs),
            dead_units=tuple(e.dead_units for e in epochs),
            seconds=tuple(e.seconds for e in epochs),
            learning_rate=tuple(e.learning_rate for e in epochs),
            best_epoch=self._best.epoch,
            stopped=stopped,
            validation_loss=_of_all(e.validation_loss for e in epochs),
            validation_score=_of_all(e.validation_score for e in epochs),
        )
        kept = None  # the network at the end of the last epoch, if it went on from it
        if self._is_changed and self._kept and self._kept[0] == len(epochs):
            kept = self._kept[1]
        state = TrainingState(tuple(epochs), self._best, kept)
        is_whole = not self._is_changed or kept is not None
        return Trained(self._best.stack, history, state, is_whole)

    def _begin(self, partial: PartialEpoch | None) -> None:
        """Set the counts of an epoch to what was counted of it so far."""
        if partial is None:
            partial = PartialEpoch(self._n_rows, 0, 0.0, 0.0, 0.0, None, None)
        if partial.n_rows != self._n_rows:
            raise ParameterError(
                f"the state was left in an epoch of {partial.n_rows} rows, but there "
                f"are {self._n_rows}. Give the same rows, or set its partial to None."
            )
        self._n_seen = partial.n_seen
        self._is_changed = partial.n_seen > 0
        self._loss = partial.loss
        self._weight = partial.weight
        self._started = time.perf_counter() - partial.seconds
        self._earlier = partial.earlier
        self._recent = partial.recent

    def _save_if_due(self, *, epoch_ended: bool) -> None:
        if self._file is not None and self._file.is_due(epoch_ended=epoch_ended):
            self.save()

    def _state(self) -> TrainingState:
        """Return the state with that of the network."""
        partial: PartialEpoch | None = None
        best = self._best
        if self._n_seen:
            self._count()
            partial = PartialEpoch(
                n_rows=self._n_rows,
                n_seen=self._n_seen,
                loss=self._loss,
                weight=self._weight,
                seconds=time.perf_counter() - self._started,
                earlier=self._earlier,
                recent=self._recent,
            )
        elif self._validation is None:
            best = None  # its weights are those of the network
        return TrainingState(tuple(self._epochs), best, self._network.state(), partial)

    def _update(self, rows: Array) -> float:
        if self._objective.is_computed_by_step:
            return self._network.step(rows)
        loss, delta = self._objective.loss_and_delta(
            self._network.forward_batch(rows),
            self._y[rows],
            self._data.shares(rows),
        )
        if math.isfinite(loss):
            self._network.backward_batch(delta)
        return loss

    def _weight_of(self, rows: Array) -> float:
        weights = self._data.sample_weight
        return len(rows) if weights is None else float(weights[rows].sum(dtype=float))

    def _count(self) -> None:
        """Add what the network has counted to the counts of the epoch."""
        new = tuple(self._network.statistics())
        old = self._recent
        self._recent = new if old is None else tuple(map(_add, old, new))

    def _recount(self) -> tuple[LayerStatistics, ...]:
        """Return counts of some rows: an interrupt has taken those of the steps."""
        stack, X = self._weights(), self._data.X[:_SAMPLE]
        outputs = [stack.truncate(n)(X) for n in range(1, len(stack.layers))]
        return tuple(
            LayerStatistics(len(h), int(np.count_nonzero(h)), (h != 0).any(0))
            for h in outputs
        )

    def _weights(self) -> RectifierStack:
        try:
            return self._network.stack()
        except ParameterError as error:
            raise self._divergence(np.arange(0)) from error

    def _validate(self, stack: RectifierStack) -> Verdict:
        if self._validation is None:
            return Verdict()
        if self._validation.loss is not None:
            loss = self._validation.loss()
            loss = loss if math.isfinite(loss) else math.inf
            return Verdict((0.0, loss), loss)
        outputs = forward(self._network, self._validation.X, max(stack.sizes[1:]))
        return judge(self._validation, self._objective, outputs)

    def _divergence(self, rows: Array) -> DivergenceError:
        layer, what = _find_layer(self._network, self._data.X[rows])
        smaller = self._rate / 10
        return DivergenceError(
            f"training diverged in epoch {self.number} at learning rate "
            f"{self._rate:g}: {what} are not finite numbers. Lower learning_rate, for "
            f"example to {smaller:g}, or scale the inputs, and targets that are "
            "numbers, to about 1, for example with "
            "sklearn.preprocessing.StandardScaler.",
            layer=layer,
            epoch=self.number,
            learning_rate=self._rate,
        )


def _in_dtype(weights: Array | None, dtype: npt.DTypeLike) -> Array | None:
    return None if weights is None else weights.astype(dtype, copy=False)


def _is_better(
    rank: tuple[float, float] | None, best: tuple[float, float] | None
) -> bool:
    """Compare ranks; without validation rows the later epoch is the better one."""
    return rank is None or best is None or rank < best


def _of_all(values: Iterable[float | None]) -> tuple[float, ...]:
    """Return the values, finite as JSON wants them; nothing if not all are there."""
    values = list(values)
    known = [min(max(v, -_LARGEST), _LARGEST) for v in values if v is not None]
    return tuple(known) if len(known) == len(values) else ()


def _find_layer(network: Network, X: Matrix) -> tuple[int | None, str]:
    """Return the first layer, counted from 1, that is not finite, and what of it."""
    try:
        stack = network.stack()
    except ParameterError as error:  # its text names the layer
        found = re.search(r"layer (\d+)", str(error))
        layer = int(found[1]) if found else 1
        return layer, f"the parameters of layer {layer}"
    with np.errstate(over="ignore", invalid="ignore"):
        for number in range(1, len(stack.layers) + 1):
            if not np.isfinite(stack.truncate(number)(X)).all():
                return number, f"the outputs of layer {number}"
    return None, "the losses, though not the outputs of the network,"


def _add(a: LayerStatistics, b: LayerStatistics) -> LayerStatistics:
    return LayerStatistics(
        a.n_rows + b.n_rows, a.n_nonzero + b.n_nonzero, a.fired | b.fired
    )


def _describe(epoch: Epoch) -> str:
    parts = [f"epoch {epoch.number}", f"loss {epoch.loss:.4f}"]
    if epoch.validation_score is not None:
        parts.append(f"validation score {epoch.validation_score:.4f}")
    elif epoch.validation_error is not None:
        parts.append(f"validation error {100 * epoch.validation_error:.2f} %")
    elif epoch.validation_loss is not None:
        parts.append(f"validation loss {epoch.validation_loss:.4f}")
    if epoch.sparsity:
        zeros = " ".join(f"{100 * share:.0f}" for share in epoch.sparsity)
        parts.append(f"zeros {zeros} %")
    return "  ".join(parts)
