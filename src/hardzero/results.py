"""What a finished computation hands over: frozen dataclasses that go to JSON and back.

Reports and command line read these, never models.
"""

import json
import math
import numbers
from dataclasses import asdict, dataclass, fields
from reprlib import repr as shorten
from typing import Any, Final, Literal, get_args

from hardzero.errors import DataError, ParameterError

__all__ = ["FitHistory", "Stopped"]

Stopped = Literal["max_epochs", "early_stopping", "converged", "interrupted"]

_STOPPED: Final[tuple[str, ...]] = get_args(Stopped)
_OPTIONAL: Final = ("validation_error", "validation_loss", "validation_score")


@dataclass(frozen=True, repr=False)
class FitHistory:
    """What happened in each epoch of a training run.

    Entry ``i`` of a tuple belongs to epoch ``i + 1``; only finished epochs are there.

    Parameters
    ----------
    loss : tuple of float
        Weighted mean loss over the training rows, each taken before the update that it
        was used for; without penalties.
    validation_error : tuple of float
        Weighted fraction of wrong validation rows after the epoch, in [0, 1]; empty if
        there was no validation set in one of the epochs, or nothing is classified.
    sparsity : tuple of tuple of float
        For each hidden layer the fraction of outputs that were exactly zero over the
        training rows of the epoch, in [0, 1].
    dead_units : tuple of tuple of int
        For each hidden layer the number of units that put out zero for every training
        row of the epoch.
    seconds : tuple of float
        Wall-clock time of the epoch, validation included.
    learning_rate : tuple of float
        Learning rate in the epoch.
    best_epoch : int
        Epoch, counted from 1, whose weights were kept; 0 if no epoch was finished.
    stopped : {"max_epochs", "early_stopping", "converged", "interrupted"}
        Why training ended.
    validation_loss : tuple of float
        Weighted mean loss over the validation rows after the epoch, which decides
        between epochs of equal validation error or score; empty if there was no
        validation set in one of the epochs. What overflows is the largest float.
    validation_score : tuple of float
        Score of the validation rows after the epoch, the greater the better; empty if
        there was no score in one of the epochs.
    pretraining : tuple of FitHistory
        What happened before, while each hidden layer was pre-trained; empty without
        pre-training. Their losses are those of the reconstruction.

    Raises
    ------
    ParameterError
        If a value has another type than described or is out of its range, the tuples
        have different lengths, or a history in `pretraining` has one of its own.

    Examples
    --------
    >>> from hardzero.results import FitHistory
    >>> history = FitHistory(
    ...     loss=(0.9, 0.4),
    ...     validation_error=(0.2, 0.1),
    ...     sparsity=((0.5,), (0.75,)),
    ...     dead_units=((0,), (2,)),
    ...     seconds=(1.0, 1.5),
    ...     learning_rate=(0.1, 0.1),
    ...     best_epoch=2,
    ...     stopped="max_epochs",
    ... )
    >>> FitHistory.from_json(history.to_json()) == history
    True
    >>> history
    FitHistory: 2 epochs in 2.5 s, stopped by max_epochs
      best epoch 2: loss 0.4, validation error 0.1, sparsity 75.0 %, dead units 2
    """

    loss: tuple[float, ...]
    validation_error: tuple[float, ...]
    sparsity: tuple[tuple[float, ...], ...]
    dead_units: tuple[tuple[int, ...], ...]
    seconds: tuple[float, ...]
    learning_rate: tuple[float, ...]
    best_epoch: int
    stopped: Stopped
    validation_loss: tuple[float, ...] = ()
    validation_score: tuple[float, ...] = ()
    pretraining: "tuple[FitHistory, ...]" = ()

    def __post_init__(self) -> None:
        """Make lists tuples, NumPy numbers Python's, and check."""
        convert = object.__setattr__
        for name in ("loss", *_OPTIONAL, "seconds", "learning_rate"):
            entries = _entries(name, getattr(self, name))
            convert(self, name, tuple(_number(name, entry) for entry in entries))
        for name, read in (("sparsity", _number), ("dead_units", _whole_number)):
            rows = [_entries(name, row) for row in _entries(name, getattr(self, name))]
            convert(self, name, tuple(tuple(read(name, x) for x in r) for r in rows))
        convert(self, "best_epoch", _whole_number("best_epoch", self.best_epoch))
        given = _entries("pretraining", self.pretraining)
        convert(self, "pretraining", tuple(map(_as_history, range(len(given)), given)))
        self._check()

    @property
    def n_epochs(self) -> int:
        """Number of finished epochs."""
        return len(self.loss)

    def to_json(self) -> str:
        """Return the history as JSON.

        Returns
        -------
        str
            One object with "format", "version" and the fields of the class.
        """
        return json.dumps({**_HEADER, **asdict(self)}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "FitHistory":
        """Read what `to_json` wrote.

        Parameters
        ----------
        text : str or bytes
            JSON.

        Returns
        -------
        FitHistory
            Equal to the one that was written. JSON of versions 1, which knew no
            validation score, and 2, which knew no pre-training, is read too.

        Raises
        ------
        DataError
            If the text is not the JSON of a history.
        """
        if not isinstance(text, str | bytes):
            raise DataError(
                f"the history is of type {type(text).__name__}, expected str or bytes. "
                f"{_REMEDY}"
            )
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the history is not JSON: {error}. {_REMEDY}") from error
        version = content.get("version") if isinstance(content, dict) else None
        unknown = _ADDED_AFTER.get(version, ()) if type(version) is int else ()
        names = {field.name for field in fields(cls)}
        expected = {*_HEADER, *names}.difference(unknown)
        if not isinstance(content, dict) or content.keys() != expected:
            raise DataError(
                f"the history has {_keys(content)}, expected an object with "
                f"{sorted(expected)}. {_REMEDY}"
            )
        if content["format"] != _HEADER["format"]:
            raise _another("format")
        if type(version) is not int or version not in _READ:
            raise _another("version")
        try:
            return cls(**{key: content[key] for key in names & content.keys()})
        except ParameterError as error:
            raise DataError(f"the history is malformed: {error} {_REMEDY}") from error

    def __repr__(self) -> str:
        """Return a summary in two lines, and two for each pre-trained layer."""
        n = self.n_epochs
        lines = [
            f"FitHistory: {n} epoch{'' if n == 1 else 's'} in {sum(self.seconds):.1f} s"
            f", stopped by {self.stopped}"
        ]
        if n:
            i = self.best_epoch - 1
            parts = [f"loss {self.loss[i]:.4g}"]
            if self.validation_score:
                parts.append(f"validation score {self.validation_score[i]:.4g}")
            if self.validation_error:
                parts.append(f"validation error {self.validation_error[i]:.4g}")
            if self.sparsity[i]:
                shares = " / ".join(f"{100 * s:.1f}" for s in self.sparsity[i])
                parts.append(f"sparsity {shares} %")
                parts.append(f"dead units {' / '.join(map(str, self.dead_units[i]))}")
            lines.append(f"  best epoch {self.best_epoch}: {', '.join(parts)}")
        for number, history in enumerate(self.pretraining, 1):
            first, *rest = repr(history).splitlines()
            lines.append(f"  pre-training of layer {number}: {first}")
            lines += [f"  {line}" for line in rest]
        return "\n".join(lines)

    def _check(self) -> None:
        n = self.n_epochs
        lengths = {
            field.name: len(value)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), tuple)
        }
        del lengths["pretraining"]
        for name in _OPTIONAL:
            if not getattr(self, name):
                del lengths[name]
        if set(lengths.values()) != {n}:
            raise ParameterError(
                f"the entries per epoch differ in number: {lengths}. Give each the "
                f"same number; only {', '.join(_OPTIONAL)} may be empty instead."
            )
        if not (1 <= self.best_epoch <= n or self.best_epoch == n == 0):
            raise ParameterError(
                f"best_epoch is {shorten(self.best_epoch)} but there are {n} epochs. "
                "Count epochs from 1; give 0 if none was finished."
            )
        if not isinstance(self.stopped, str) or self.stopped not in _STOPPED:
            raise ParameterError(
                f"stopped is {shorten(self.stopped)}, expected one of "
                f"{', '.join(_STOPPED)}."
            )
        shapes = {len(row) for row in (*self.sparsity, *self.dead_units)}
        if len(shapes) > 1:
            raise ParameterError(
                f"sparsity and dead_units have rows of {sorted(shapes)} entries. Give "
                "one entry per hidden layer in every epoch."
            )
        _check_range("loss", self.loss, -math.inf, math.inf)
        _check_range("validation_error", self.validation_error, 0.0, 1.0)
        _check_range("validation_loss", self.validation_loss, -math.inf, math.inf)
        _check_range("validation_score", self.validation_score, -math.inf, math.inf)
        _check_range("seconds", self.seconds, 0.0, math.inf)
        _check_range("learning_rate", self.learning_rate, 0.0, math.inf)
        for shares, counts in zip(self.sparsity, self.dead_units, strict=True):
            _check_range("sparsity", shares, 0.0, 1.0)
            _check_range("dead_units", counts, 0, 2.0**63)


_HEADER: Final = {"format": "hardzero.fit_history", "version": 3}
_REMEDY: Final = "Give the JSON that FitHistory.to_json wrote."
# What histories of older versions do not have.
_ADDED_AFTER: Final = {1: ("validation_score", "pretraining"), 2: ("pretraining",)}
_READ: Final = (*_ADDED_AFTER, _HEADER["version"])


def _entries(name: str, values: Any) -> list[Any]:
    """Return the entries of a tuple, a list or an array."""
    if not (isinstance(values, list | tuple) or getattr(values, "ndim", 0) > 0):
        raise ParameterError(
            f"{name} holds {shorten(values)}, expected a list of entries."
        )
    return list(values)


def _number(name: str, value: Any) -> float:
    """Return a float; the range is checked elsewhere."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ParameterError(f"{name} holds {shorten(value)}, expected a number.")
    try:
        return float(value)
    except OverflowError:
        raise ParameterError(
            f"{name} holds {shorten(value)}, expected a number in the range of float64."
        ) from None


def _whole_number(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ParameterError(f"{name} holds {shorten(value)}, expected a whole number.")
    return int(value)


def _as_history(number: int, given: Any) -> FitHistory:
    """Return what is in a place of `pretraining`."""
    where = f"pretraining[{number}]"
    if isinstance(given, FitHistory):
        inner: Any = given.pretraining
    elif isinstance(given, dict) and given.keys() == _NAMES:
        inner = given["pretraining"]
    else:
        raise ParameterError(
            f"{where} has {_keys(given)}, expected a history with {sorted(_NAMES)}."
        )
    if not isinstance(inner, list | tuple) or inner:
        raise ParameterError(
            f"{where} has a pretraining of its own, {shorten(inner)}, expected none: "
            "pre-training is not pre-trained."
        )
    if isinstance(given, FitHistory):
        return given
    try:
        return FitHistory(**given)
    except ParameterError as error:
        raise ParameterError(f"{where}: {error}") from error


_NAMES: Final = {field.name for field in fields(FitHistory)}


def _another(key: str) -> DataError:
    return DataError(
        f"the history does not have {key} {_HEADER[key]!r}, which this version reads. "
        f"{_REMEDY}"
    )


def _keys(content: Any) -> Any:
    return sorted(content) if isinstance(content, dict) else type(content).__name__


def _check_range(name: str, values: tuple[float, ...], low: float, high: float) -> None:
    for value in values:
        if not (low <= value <= high and math.isfinite(value)):
            raise ParameterError(
                f"{name} holds {shorten(value)}, expected finite values from "
                f"{low:g} to {high:g}."
            )
