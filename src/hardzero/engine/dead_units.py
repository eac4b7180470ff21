"""The warning that many units have stopped, or never started, to fire."""

import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from hardzero.errors import DeadUnitWarning, warn_user
from hardzero.kernels.network import Matrix
from hardzero.kernels.statistics import LayerStatistics

__all__ = ["warn_of_dead_units"]

_TOLERATED_SHARE = 0.1
_MIN_ROWS = 160  # five default batches; fewer say little about units that fire rarely,
_MIN_LAST_ROWS = 64  # also when it comes to units that fired before
_LARGE_INPUT = 3.0  # root mean square; standardised inputs have 1
_SMALL_RATE = 0.001  # the default of Adam
_SAMPLE = 1000


def warn_of_dead_units(
    epoch: Sequence[LayerStatistics],
    last: Sequence[LayerStatistics],
    X: Matrix,
    learning_rate: float,
    l1_activation: float = 0.0,
    place: str = "",
) -> None:
    """Warn if more than a tenth of the units of a hidden layer do not fire any more.

    Parameters
    ----------
    epoch : sequence of LayerStatistics
        Counts over all steps of the first epoch, for each hidden layer. After fewer
        than 160 rows there is no warning.
    last : sequence of LayerStatistics
        Counts over its last steps alone, which find units that fired at first; with
        fewer than 64 rows they are not used.
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        Training rows.
    learning_rate : float
        Learning rate of these steps.
    l1_activation : float
        Penalty on the hidden activations.
    place : str, default=""
        What to call the only hidden layer; "hidden layer 1", if not given.

    Warns
    -----
    DeadUnitWarning
        Naming the layers, the likely causes and the remedies.
    """
    if not epoch or epoch[0].n_rows < _MIN_ROWS:
        return
    if last[0].n_rows < _MIN_LAST_ROWS:
        last = epoch
    numbers = [
        number
        for number, layer in enumerate(last, 1)
        if layer.dead_units > _TOLERATED_SHARE * layer.fired.size
    ]
    if not numbers:
        return
    worst = [last[number - 1] for number in numbers]
    fired_before = [epoch[number - 1].fired for number in numbers]
    n_dead = sum(layer.dead_units for layer in worst)
    n_killed = sum(
        int(np.count_nonzero(fired & ~layer.fired))
        for fired, layer in zip(fired_before, worst, strict=True)
    )
    counts = ", ".join(
        f"{layer.dead_units} of {layer.fired.size} in "
        f"{place or f'hidden layer {number}'}"
        for number, layer in zip(numbers, worst, strict=True)
    )
    were_killed = 2 * n_killed > n_dead
    found = _killers(X, learning_rate, l1_activation) if were_killed else _silencers(X)
    causes, remedies = zip(*found, strict=True)
    warn_user(
        f"dead units after the first epoch: {counts} put out 0 for each of the last "
        f"{last[0].n_rows} rows. Likely cause: {', or '.join(causes)}. Remedy: "
        f"{', or '.join(remedies)}, or take an activation that cannot die, such as "
        "'leaky_rectifier'.",
        DeadUnitWarning,
    )


_SCALE = "scale the inputs, for example with sklearn.preprocessing.StandardScaler"


def _killers(
    X: Matrix, learning_rate: float, l1_activation: float
) -> list[tuple[str, str]]:
    """Return what may have silenced units that fired, and what to do about each."""
    size, centre = _measure(X)
    found: list[tuple[str, str]] = []
    if size > _LARGE_INPUT:
        large = f"inputs of root mean square {size:.3g} make the steps too large"
        found.append((large, _SCALE))
    elif _is_far(size, centre):
        found.append(("the inputs are far from centred", _SCALE))
    if l1_activation > 0:
        penalty = f"the penalty l1_activation={l1_activation:g} is too high"
        found.append((penalty, "lower l1_activation"))
    if learning_rate > _SMALL_RATE or not found:
        found.append(
            (
                f"the learning rate {learning_rate:g} is too high",
                f"lower learning_rate, for example to {learning_rate / 10:g}",
            )
        )
    return found


def _silencers(X: Matrix) -> list[tuple[str, str]]:
    """Return why units may never have fired, and what to do about it."""
    silent = "they were silent from the start, because"
    if _is_far(*_measure(X)):
        return [(f"{silent} the inputs are far from centred", _SCALE)]
    suits = f"{silent} the initialisation does not suit them"
    return [(suits, "take another init, such as 'he_normal'")]


def _is_far(size: float, centre: float) -> bool:
    """Return whether the means of inputs are larger than their deviations."""
    return centre**2 > 0.5 * size**2


def _measure(X: Matrix) -> tuple[float, float]:
    """Return the root mean square of some rows, and that of the means of columns."""
    step = max(1, X.shape[0] // _SAMPLE)
    some = X[::step].astype(np.float64)
    values = some.data if sp.issparse(some) else some
    entries = some.shape[0] * some.shape[1]
    size = math.sqrt(float(np.square(values).sum()) / entries)
    centre = math.sqrt(float(np.square(np.asarray(some.mean(axis=0))).mean()))
    return size, centre
