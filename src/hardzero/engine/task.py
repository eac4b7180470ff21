"""What a training run is about: its settings, and the description that tells it apart.

Two runs with the same description go through the same states, bit for bit, so one may
go on from the checkpoint of the other.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hardzero.engine.objectives import Objective
from hardzero.engine.schedules import CONSTANT, Schedule
from hardzero.engine.validation import Validation
from hardzero.kernels.network import Matrix, Network

__all__ = ["Settings", "describe_task"]

Array = npt.NDArray[Any]


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
    shuffle : bool, default=True
        False visits the rows in the order in which they are given.
    tol : float or None
        Stop after `n_stalled` epochs in a row whose training loss was not lower than
        the lowest before by this much; None never does.
    n_stalled : int
        See `tol`; at least 1.
    """

    batch_size: int
    max_epochs: int
    learning_rate: float
    schedule: Schedule = CONSTANT
    patience: int | None = None
    shuffle: bool = True
    tol: float | None = None
    n_stalled: int = 10


def describe_task(
    network: Network,
    X: Matrix,
    y: Array,
    sample_weight: Array | None,
    rows: Array,
    *,
    settings: Settings,
    seed: int,
    objective: Objective,
    validation: Validation | None,
    more: Mapping[str, str | int | float | bool | None],
) -> dict[str, Any]:
    """Describe all that the states of a training run depend on.

    When it stops (`max_epochs`, unless the schedule depends on it, `patience`, `tol`)
    and the number of threads are no part of it.

    Parameters
    ----------
    network : Network
        Kernels.
    X : ndarray or CSR matrix of shape (n_samples, n_inputs)
        Training rows.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Targets.
    sample_weight : ndarray of shape (n_samples,) or None
        Weights.
    rows : ndarray of shape (n_rows,), dtype int64
        Rows that are trained on.
    settings : Settings
        How to train.
    seed : int
        Seed of the shuffles.
    objective : Objective
        What training minimises.
    validation : Validation or None
        Validation rows. Their score has no description, but a name in `more`.
    more : mapping of str to str, int, float, bool or None
        What else the states depend on: update rule, penalties and options.

    Returns
    -------
    dict of str to str, int, float, bool or None
        Values that JSON can hold. Arrays are described by shape, dtype and a checksum
        of their content.
    """
    stack = network.stack()
    schedule = str(settings.schedule)
    if settings.schedule.depends_on_max_epochs:
        schedule += f" over {settings.max_epochs} epochs"
    return {
        "seed": int(seed),
        "batch_size": settings.batch_size,
        "learning_rate": settings.learning_rate,
        "learning rate schedule": schedule,
        "shuffle": settings.shuffle,
        "loss": str(objective),
        "kernels": type(network).__name__,
        "layer sizes": "-".join(map(str, stack.sizes)),
        "activations": ", ".join(str(layer.activation) for layer in stack.layers),
        "layers with signs": str([layer.signs is not None for layer in stack.layers]),
        **_describe_array("X", X),
        **_describe_array("y", y),
        **_describe_array("sample_weight", sample_weight),
        **_describe_array("rows", rows),
        **_describe_array("validation X", validation and validation.X),
        **_describe_array("validation y", validation and validation.y),
        **_describe_array(
            "validation weights", validation and validation.sample_weight
        ),
        **more,
    }


def _describe_array(name: str, array: Any) -> dict[str, str | None]:
    if array is None:
        return {name: None}
    parts = [array]
    if sp.issparse(array):
        parts = [array.data, array.indices, array.indptr]
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(np.ascontiguousarray(part).data, checksum)
    kind = "CSR " if sp.issparse(array) else ""
    return {
        name: f"{kind}{array.dtype} of shape {array.shape}",
        f"content of {name}": f"{checksum:08x}",
    }
