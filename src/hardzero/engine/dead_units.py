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
_SAMPLE = 1000


def warn_of_dead_units(
    epoch: Sequence[LayerStatistics],
    last: Sequence[LayerStatistics],
    X: Matrix,
    learning_rate: float,
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

    Warns
    -----
    DeadUnitWarning
        Naming the layers, the likely cause and the remedy.
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
        f"{layer.dead_units} of {layer.fired.size} in hidden layer {number}"
        for number, layer in zip(numbers, worst, strict=True)
    )
    warn_user(
        f"dead units after the first epoch: {counts} put out 0 for each of the last "
        f"{last[0].n_rows} rows. "
        f"{_explain(2 * n_killed > n_dead, _size(X), learning_rate)}",
        DeadUnitWarning,
    )


def _explain(were_killed: bool, size: float, learning_rate: float) -> str:
    scale = "scale the inputs, for example with sklearn.preprocessing.StandardScaler"
    lower = f"lower learning_rate, for example to {learning_rate / 10:g}"
    if were_killed and size > _LARGE_INPUT:
        return (
            f"Likely cause: inputs of root mean square {size:.3g} make the steps at "
            f"learning rate {learning_rate:g} too large. Remedy: {scale}, or {lower}."
        )
    if were_killed:
        return (
            f"Likely cause: the learning rate {learning_rate:g} is too high, or "
            f"l1_activation is. Remedy: {lower}, or lower l1_activation."
        )
    return (
        "Likely cause: they were silent from the start, because the inputs are far "
        "from centred or the initialisation does not suit them. Remedy: "
        f"{scale}, take init='he_normal', or an activation that cannot die, such as "
        "'leaky_rectifier'."
    )


def _size(X: Matrix) -> float:
    """Return the root mean square of the entries of some rows."""
    step = max(1, X.shape[0] // _SAMPLE)
    some = X[::step]
    values = some.data if sp.issparse(some) else some
    total = float(np.square(values, dtype=np.float64).sum())
    return math.sqrt(total / (some.shape[0] * some.shape[1]))
