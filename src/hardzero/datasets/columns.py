"""A user's table in memory, and which of its columns are wanted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero.errors import DataError


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers, perhaps with labels.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_rows, n_features), float64
        Features, all finite. Of an svmlight file CSR, else dense.
    y : ndarray of shape (n_rows,) or None
        Labels: numbers, booleans or strings; None if none were asked for.
    feature_names : tuple of str or None
        Names of the columns of ``X``; None if the format has no names.
    weights : ndarray of shape (n_rows,), float64, or None
        Weights of the rows; None if none were asked for.
    lines : ndarray of shape (n_rows,), int64, or None
        Line of the file on which each row ends, counted from 1; None if it has none.
    """

    X: Any
    y: npt.NDArray[Any] | None
    feature_names: tuple[str, ...] | None
    weights: npt.NDArray[np.float64] | None = None
    lines: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Wanted:
    """What a reader should take from a table.

    Parameters
    ----------
    has_labels : bool
        Whether labels are wanted.
    target : str or None
        Name of the column with the labels; None for the usual place of the format.
    features : tuple of str or None
        Names of the columns wanted as features, in this order; None for all others.
    n_features : int or None
        How many features there must be; None for any number.
    weights : str or None
        Name of the column with the weights of the rows; None for no weights.
    drop : tuple of str
        Names of columns that are no features.
    """

    has_labels: bool = True
    target: str | None = None
    features: tuple[str, ...] | None = None
    n_features: int | None = None
    weights: str | None = None
    drop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Columns:
    """Where the wanted columns of a table with names are.

    Parameters
    ----------
    features : dict of str to int
        Place of each feature, by name, in the order wanted.
    target : int or None
        Place of the labels; None if they are not wanted.
    weights : dict of str to int
        Place of the weights, by name; empty if they are not wanted.
    """

    features: dict[str, int]
    target: int | None
    weights: dict[str, int] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, int]:
        """The places of all columns of numbers: the features, then the weights."""
        return self.features | self.weights

    def make_table(
        self,
        numbers: npt.NDArray[np.float64],
        y: npt.NDArray[Any] | None,
        lines: npt.NDArray[np.int64] | None = None,
    ) -> Table:
        """Make a table of what was read.

        Parameters
        ----------
        numbers : ndarray of shape (n_rows, n_numbers)
            The columns in ``numbers``.
        y : ndarray of shape (n_rows,) or None
            Labels.
        lines : ndarray of shape (n_rows,) or None, default=None
            Lines of the rows.

        Returns
        -------
        Table
            With weights if they are wanted.
        """
        X, weights = np.split(numbers, [len(self.features)], axis=1)
        names = tuple(self.features)
        return Table(X, y, names, weights[:, 0] if self.weights else None, lines)


def choose_columns(path: Path, header: Sequence[str], wanted: Wanted) -> Columns:
    """Find the wanted columns by their names.

    Parameters
    ----------
    path : Path
        The table, for messages.
    header : sequence of str
        Names of all columns.
    wanted : Wanted
        Which ones to take.

    Returns
    -------
    Columns
        Their places.

    Raises
    ------
    DataError
        If two columns share a name, one that was named is missing, there are too many,
        or one would be both labels and weights.
    """
    place = {name.strip(): i for i, name in enumerate(header)}
    if len(place) < len(header):
        repeated = next(n for i, n in enumerate(header) if place[n.strip()] != i)
        raise DataError(
            f"{path} has more than one column {repeated.strip()!r}. "
            "Give each column a name of its own."
        )
    target = wanted.target if wanted.has_labels else None
    weights = () if wanted.weights is None else (wanted.weights,)
    if target in weights:
        raise DataError(
            f"{path}: the column {target!r} was given as target and as weights, "
            "expected two columns. Name another one for the weights."
        )
    features = wanted.features
    if features is None:
        others = {target, *weights, *wanted.drop}
        features = tuple(name for name in place if name not in others)
        if wanted.n_features not in (None, len(features)):
            raise DataError(
                f"{path} has {len(features)} feature columns, {_shorten(features)}; "
                f"expected {wanted.n_features}, in the order in which the model was "
                "fitted. Leave out the others."
            )
    labels = () if target is None else (target,)
    needed = (*features, *labels, *weights, *wanted.drop)
    missing = [name for name in needed if name not in place]
    if missing:
        raise DataError(
            f"{path} has no column {_shorten(missing)}; it has {_shorten(place)}. "
            "Check the names of its columns."
        )
    return Columns(
        {name: place[name] for name in features},
        None if target is None else place[target],
        {name: place[name] for name in weights},
    )


def check_finite(
    path: Path, X: npt.NDArray[Any], names: Sequence[str] | None = None
) -> None:
    """Refuse values that are missing or infinite; name the first.

    Parameters
    ----------
    path : Path
        The table, for the message.
    X : ndarray of shape (n_rows, n_features)
        Features.
    names : sequence of str or None, default=None
        Names of the columns, for the message.

    Raises
    ------
    DataError
        If any value is NaN or infinite.
    """
    bad = ~np.isfinite(X)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise DataError(
            f"{path}, row {row}, column {repr(names[column]) if names else column}: "
            f"{X[row, column]} is not a finite number (rows counted from 0). Fill in "
            "missing values, or leave the row or the column out."
        )


def _shorten(names: Sequence[str] | dict[str, int]) -> str:
    """List some names."""
    shown = ", ".join(map(repr, list(names)[:10]))
    if len(names) > 10:
        return f"{shown}, ... ({len(names):,} in all)"
    return shown or "none"
