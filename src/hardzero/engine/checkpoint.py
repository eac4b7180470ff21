"""Checkpoints: the state of training on disk, so that a killed run can go on.

A checkpoint is an ordinary safetensors file. Its arrays are those of `Network.state`
("network.*"), the best weights so far ("best.*") and, in the middle of an epoch, which
units fired ("earlier.*", "recent.*"); its metadata has one entry, "hardzero", a JSON
object with the finished epochs, the position in the one under way, the description of
the task (`hardzero.engine.task`) and a SHA-256 checksum over the values of all of that.
Loading runs no code. Files are replaced in one step, so at any time the file is the
last one that was written completely.
"""

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from hardzero.atomic import remove_leftovers, replacing
from hardzero.engine.state import Best, Epoch, PartialEpoch, TrainingState
from hardzero.errors import DataError, ParameterError, warn_user
from hardzero.kernels.rules import plain_float
from hardzero.kernels.statistics import LayerStatistics
from hardzero.stack import Architecture, RectifierStack

__all__ = ["Checkpoint", "CheckpointFile"]

Array = npt.NDArray[Any]

_HEADER: Final = {"format": "hardzero.checkpoint", "version": 1}
_ENTRY: Final = "hardzero"


@dataclass(frozen=True)
class Checkpoint:
    """Where and when to write the state of training.

    Parameters
    ----------
    path : path
        File to go on from, if there is one, and to write to. One run at a time.
    every_seconds : float, optional
        Write after this many seconds, also in the middle of an epoch, and at the end.
        If not given, after each epoch.
    task : mapping of str to str, int, float, bool or None
        What the run depends on beside what `train` is told: update rule, penalties,
        options. A file whose task is another one is refused.
    free : collection of str
        Names in `task` that may have other values in the file.
    later : collection of str
        Files of what was trained on the outcome of this run, for messages: who deletes
        its file must delete them, too.

    Raises
    ------
    ParameterError
        If `every_seconds` is not a number of 0 or more.
    """

    path: str | os.PathLike[str]
    every_seconds: float | None = None
    task: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    free: Collection[str] = ()
    later: Collection[str] = ()

    def __post_init__(self) -> None:
        """Check the interval."""
        seconds = self.every_seconds
        if seconds is not None and not plain_float(seconds) >= 0.0:
            raise ParameterError(
                f"every_seconds is {seconds!r}, expected a number of 0 or more. Leave "
                "it out to write after each epoch."
            )

    def seed(self) -> int | None:
        """Return the seed of the run in the file.

        Who draws seeds at random can go on from a checkpoint only with this one.

        Returns
        -------
        int or None
            The seed; None if there is no file.

        Raises
        ------
        DataError
            If the file is not a checkpoint, or damaged.
        """
        content = _read(Path(self.path))
        return None if content is None else int(content[1]["seed"])

    def check(self, known: Mapping[str, Any]) -> None:
        """Refuse what would be refused later, before work is put into the run.

        Parameters
        ----------
        known : mapping of str to str, int, float, bool or None
            What is known of the description of the run.

        Raises
        ------
        DataError
            If the file is not a checkpoint, is damaged, or of another task as far as
            that is known, or if it could not be written.
        """
        content = _read(Path(self.path))
        if content is not None:
            self.compare(content[1], known, known)
        try:
            _is_there(Path(self.path))
            with contextlib.suppress(_NothingToWriteError), replacing(self.path):
                raise _NothingToWriteError
        except OSError as error:
            raise _not_writable(Path(self.path), error) from error

    def compare(
        self,
        then: Mapping[str, Any],
        now: Mapping[str, Any],
        names: Collection[str],
    ) -> None:
        """Refuse the file if descriptions differ.

        Parameters
        ----------
        then : mapping of str to str, int, float, bool or None
            Description in the file.
        now : mapping of str to str, int, float, bool or None
            Description of the run.
        names : collection of str
            Which of their entries to compare.

        Raises
        ------
        DataError
            If the file is of another task; the message says what differs.
        """
        differences = [
            f"{name} is {_brief(then.get(name))} in the file and "
            f"{_brief(now.get(name))} now"
            for name in names
            if then.get(name) != now.get(name) and name not in self.free
        ]
        if differences:
            deletion = "delete the file"
            if self.later:
                deletion += ", and with it those of what was trained on its outcome: "
                deletion += ", ".join(_name(Path(path)) for path in self.later)
            raise DataError(
                f"the checkpoint {self.path} is of another task: "
                f"{'; '.join(differences)}. Give the data and settings that it was "
                f"written with, another path, or {deletion}."
            )


class _NothingToWriteError(Exception):
    """Leaves a file as it is, once it is known that it could be replaced."""


class CheckpointFile:
    """The file of a checkpoint while a run uses it.

    Parameters
    ----------
    checkpoint : Checkpoint
        Where and when to write.
    task : dict
        Description of the run, as JSON can hold it.
    """

    def __init__(self, checkpoint: Checkpoint, task: dict[str, Any]) -> None:
        self._checkpoint = checkpoint
        self._path = Path(checkpoint.path)
        self._every = checkpoint.every_seconds
        self._task = json.loads(json.dumps(task))
        self._last = time.monotonic()
        self._has_failed = False

    def load(self) -> TrainingState | None:
        """Read the state of the run in the file.

        Returns
        -------
        TrainingState or None
            The state, with ``network`` filled; None if there is no file.

        Raises
        ------
        DataError
            If the file is not a checkpoint, is damaged, or of another task; the
            message says what differs.
        """
        content = _read(self._path)
        if content is None:
            return None
        state, task = content
        self._checkpoint.compare(task, self._task, {**task, **self._task})
        return state

    def is_due(self, *, epoch_ended: bool) -> bool:
        """Return whether it is time to write.

        Parameters
        ----------
        epoch_ended : bool
            Whether an epoch has just ended.

        Returns
        -------
        bool
            Whether to call `write`.
        """
        if self._every is None:
            return epoch_ended
        return time.monotonic() - self._last >= self._every

    def write(self, state: TrainingState, *, is_first: bool = False) -> None:
        """Replace the file.

        Parameters
        ----------
        state : TrainingState
            State to write, with ``network`` filled.
        is_first : bool, default=False
            Whether nothing is lost yet if this fails.

        Raises
        ------
        DataError
            If it is the first and cannot be written.

        Warns
        -----
        UserWarning
            If a later one cannot be written, once. The last good file stays.
        """
        try:
            if is_first:
                _is_there(self._path)
                remove_leftovers(self._path)
            with replacing(self._path) as stream:
                stream.write(_pack(state, self._task))
        except OSError as error:
            if is_first:
                raise _not_writable(self._path, error) from error
            if not self._has_failed:
                warn_user(
                    f"{_cannot_write(self._path, error)} Training goes on, and the "
                    "last checkpoint stays as it is. Make room; each checkpoint is "
                    "tried again."
                )
            self._has_failed = True
        self._last = time.monotonic()


def _not_writable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{_cannot_write(path, error)} Give a file in a folder that can be written to "
        "and has room for the network three times over."
    )


def _cannot_write(path: Path, error: OSError) -> str:
    return f"cannot write the checkpoint {_name(path)}: {_reason(error)}."


def _is_there(path: Path) -> bool:
    """Return whether there is a file; anything else at the path is an OSError."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except ValueError as error:
        raise OSError(f"it is no path ({error})") from error
    if not stat.S_ISREG(mode):  # reading a pipe would wait for ever
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(f"it is {kind}, expected a regular file")
    return True


_KINDS: Final = {
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def _name(path: Path) -> str:
    text = str(path)
    return text if text.isprintable() else repr(text)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _brief(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _pack(state: TrainingState, task: dict[str, Any]) -> bytes:
    arrays = _prefixed("network", state.network or {})
    description: dict[str, Any] = {
        **_HEADER,
        "task": task,
        "epochs": [asdict(epoch) for epoch in state.epochs],
        "best": None,
        "partial": None,
    }
    if state.best is not None:
        description["best"] = {
            "rank": state.best.rank,
            "epoch": state.best.epoch,
            "architecture": state.best.stack.to_json(),
        }
        arrays |= _prefixed("best", state.best.stack.arrays())
    if state.partial is not None:
        numbers = {name: getattr(state.partial, name) for name in _NUMBERS}
        description["partial"] = numbers
        for name in _COUNTS:
            layers = getattr(state.partial, name)
            fired = {str(i): layer.fired for i, layer in enumerate(layers or ())}
            if layers is not None:
                layers = [[layer.n_rows, layer.n_nonzero] for layer in layers]
            numbers[name] = layers
            arrays |= _prefixed(name, fired)
    description["sha256"] = _checksum(description, arrays)
    return to_safetensors(arrays, {_ENTRY: json.dumps(description)})


_COUNTS: Final = ("earlier", "recent")
_NUMBERS: Final = tuple(
    field.name for field in fields(PartialEpoch) if field.name not in _COUNTS
)


def _read(path: Path) -> tuple[TrainingState, dict[str, Any]] | None:
    """Return state and task; None if there is no file."""
    try:
        if not _is_there(path):
            return None
        with safe_open(path, framework="numpy") as tensors:
            text = (tensors.metadata() or {}).get(_ENTRY)
            if text is None:
                raise DataError("it is a safetensors file without a checkpoint")
            arrays = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118
        description = json.loads(text)
        for key, expected in _HEADER.items():
            if description[key] != expected:
                raise DataError(
                    f"its {key} is {description[key]!r} and this version of hardzero "
                    f"reads {expected!r}"
                )
        if _checksum(description, arrays) != description["sha256"]:
            raise DataError("its checksum does not fit its content")
        return _unpack(description, arrays), description["task"]
    except OSError as error:
        raise DataError(
            f"cannot read the checkpoint {_name(path)}: {_reason(error)}. Give another "
            "path."
        ) from error
    except (
        SafetensorError,
        DataError,
        ParameterError,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ) as error:
        raise DataError(
            f"{path} is not a sound checkpoint: {str(error).rstrip('.')}. Delete it to "
            "start anew, or give another path."
        ) from error


def _unpack(description: dict[str, Any], arrays: dict[str, Array]) -> TrainingState:
    best, partial = description["best"], description["partial"]
    if best is not None:
        stack = RectifierStack.from_arrays(
            Architecture.from_json(best["architecture"]), _chosen("best", arrays)
        )
        rank = best["rank"] and tuple(best["rank"])
        best = Best(rank=rank, epoch=best["epoch"], stack=stack)
    if partial is not None:
        for name in _COUNTS:
            if partial[name] is not None:
                fired = _chosen(name, arrays)
                partial[name] = tuple(
                    LayerStatistics(n_rows, n_nonzero, fired[str(i)])
                    for i, (n_rows, n_nonzero) in enumerate(partial[name])
                )
        partial = PartialEpoch(**partial)
    return TrainingState(
        epochs=tuple(_epoch(entry) for entry in description["epochs"]),
        best=best,
        network=_chosen("network", arrays),
        partial=partial,
    )


def _epoch(entry: dict[str, Any]) -> Epoch:
    tuples = {name: tuple(entry[name]) for name in ("sparsity", "dead_units")}
    return Epoch(**{**entry, **tuples})


def _prefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    # ascontiguousarray would give an array without dimensions one
    return {
        f"{prefix}.{name}": np.asarray(array, order="C")
        for name, array in arrays.items()
    }


def _chosen(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    start = f"{prefix}."
    return {
        name.removeprefix(start): array
        for name, array in arrays.items()
        if name.startswith(start)
    }


def _checksum(description: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """Return the SHA-256 of everything but the checksum itself."""
    rest = {key: value for key, value in description.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
