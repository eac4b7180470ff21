"""Read a user's table; the suffix of the file says how."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hardzero.datasets import files
from hardzero.datasets.columns import Table, Wanted
from hardzero.datasets.delimited import read_delimited
from hardzero.datasets.npz import read_npz
from hardzero.datasets.parquet import read_parquet
from hardzero.datasets.svmlight import read_svmlight
from hardzero.errors import DataError, ParameterError

_READERS: Final[dict[str, Callable[[Path, Wanted], Table]]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".parquet": read_parquet,
    ".npz": read_npz,
    ".svmlight": read_svmlight,
    ".libsvm": read_svmlight,
    ".svm": read_svmlight,
}
_NAMED: Final = (read_delimited, read_parquet)


def read_table(
    path: str | os.PathLike[str],
    *,
    has_labels: bool = True,
    target: str | None = None,
    features: Sequence[str] | None = None,
    n_features: int | None = None,
    weights: str | None = None,
    drop: Sequence[str] = (),
) -> Table:
    """Read features, and labels if wanted, from a table.

    * ``.csv``, ``.tsv``, also with ``.gz`` or ``.xz`` behind: a line of names, then one
      line per row. A ``.csv`` without commas may have semicolons or tabs.
    * ``.parquet``: if pandas and pyarrow are installed.
    * ``.npz``: arrays ``X`` of shape (n_rows, n_features) and ``y`` of shape (n_rows,).
    * ``.svmlight``, ``.libsvm``, ``.svm``, also with ``.gz`` or ``.xz`` behind: the
      label, then ``index:value``. An index is the number of its column; if the file
      counts from 1, column 0 is empty.

    Parameters
    ----------
    path : path
        The table.
    has_labels : bool, default=True
        Whether labels are wanted. If not, they may be missing.
    target : str or None, default=None
        Name of the column with the labels; of the array in an npz file, where None
        means "y". CSV, TSV and Parquet need it if labels are wanted.
    features : sequence of str or None, default=None
        Names of the columns wanted as features, in this order. None takes all but the
        target. Formats without names take the number of names instead.
    n_features : int or None, default=None
        How many features there must be. None takes any number.
    weights : str or None, default=None
        Name of the column with the weights of the rows, which then is no feature. Only
        for formats with names, as is `drop`.
    drop : sequence of str, default=()
        Names of columns that are left out of the features.

    Returns
    -------
    Table
        Float64 features and weights, all finite, and the labels.

    Raises
    ------
    DataError
        If the table is missing or malformed, or a label is not a finite number of at
        most 64 bits, a boolean or a string; the message says where. To keep a small
        file from taking all memory, a line may have 16 Mi characters and compressed
        text may unpack to 4 GiB.
    ParameterError
        If the suffix is unknown, no ``target`` was given where one is needed,
        ``weights`` or ``drop`` was given where there are no names, or pandas is needed
        and not installed.

    Examples
    --------
    >>> from hardzero.datasets import read_table
    >>> table = read_table("flowers.csv", target="species")  # doctest: +SKIP
    """
    path = Path(path)
    read = _reader(path)
    if has_labels and target is None and read in _NAMED:
        raise ParameterError(
            f"No target was given for {path}. Name the column with the labels: "
            "target, or --target on the command line."
        )
    if (weights is not None or drop) and read not in _NAMED:
        raise ParameterError(
            f"Weights or columns to drop were named for {path}, which has no names of "
            "columns. Leave them out, or convert the table to CSV or Parquet."
        )
    if features is not None:
        n_features = len(features)
    names = None if features is None else tuple(features)
    left_out = tuple(drop)
    table = read(path, Wanted(has_labels, target, names, n_features, weights, left_out))
    n_rows, n_columns = table.X.shape
    if not n_rows or not n_columns:
        raise DataError(
            f"{path} has {n_rows} rows and {n_columns} feature columns, expected at "
            "least one of each. Check that it is the table that you meant."
        )
    if n_features not in (None, n_columns):
        raise DataError(
            f"{path} has {n_columns} feature columns, expected {n_features}. Give a "
            "table with the same columns as the one that the model was fitted on."
        )
    _check_labels(path, table.y)
    return table


def _check_labels(path: Path, y: npt.NDArray[Any] | None) -> None:
    """Refuse labels that no class could be named by."""
    if y is None or y.dtype.kind != "f":
        return
    bad = ~np.isfinite(y)
    if bad.any() or y.dtype.itemsize > 8:
        what = f"{y[bad.argmax()]} among them" if bad.any() else f"type {y.dtype}"
        raise DataError(
            f"{path} has labels with {what}, expected finite numbers of at most 64 "
            "bits. Name the classes by integers or words."
        )


def _reader(path: Path) -> Callable[[Path, Wanted], Table]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in files.SUFFIXES:
        suffixes.pop()
    kind = suffixes[-1] if suffixes else ""
    if kind not in _READERS:
        raise ParameterError(
            f"{path} has the suffix {kind!r}, expected one of {', '.join(_READERS)}. "
            "Rename it if it is such a table, or convert it."
        )
    return _READERS[kind]
