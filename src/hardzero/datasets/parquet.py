"""Tables in Parquet, read by pandas if that is installed."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero.datasets.columns import Table, Wanted, check_finite, choose_columns
from hardzero.errors import DataError, ParameterError


def read_parquet(path: Path, wanted: Wanted) -> Table:
    """Read ``.parquet``.

    Parameters
    ----------
    path : Path
        The table.
    wanted : Wanted
        Which columns to take. The others may hold anything.

    Returns
    -------
    Table
        Labels keep their type if they are numbers or booleans, else become strings.

    Raises
    ------
    DataError
        If the file is malformed, a feature is not a finite number, or a label is
        missing.
    ParameterError
        If pandas or pyarrow is not installed.
    """
    if not (find_spec("pandas") and find_spec("pyarrow")):
        raise ParameterError(
            f"{path}: Parquet is read by pandas and pyarrow, which are not installed. "
            "Run pip install pandas pyarrow, or convert the table to CSV."
        )
    frame = _read_frame(path)
    names = list(map(str, frame.columns))
    columns = choose_columns(path, names, wanted)
    X = np.empty((len(frame), len(columns.numbers)))
    for i, (name, place) in enumerate(columns.numbers.items()):
        X[:, i] = _to_numbers(path, name, frame.iloc[:, place])
    check_finite(path, X, tuple(columns.numbers))
    y = (
        None
        if columns.target is None
        else _to_labels(path, frame.iloc[:, columns.target])
    )
    return columns.make_table(X, y)


def _read_frame(path: Path) -> Any:
    import pandas as pd
    from pyarrow import ArrowException

    try:
        return pd.read_parquet(path, engine="pyarrow")
    except FileNotFoundError as error:
        raise DataError(f"Cannot read {path}: there is no such file.") from error
    except (ArrowException, OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{path} is not a sound Parquet file: {reason}. Get or write it again."
        ) from error


def _to_numbers(path: Path, name: str, column: Any) -> npt.NDArray[np.float64]:
    from pandas.api.types import is_complex_dtype, is_numeric_dtype

    if not is_numeric_dtype(column) or is_complex_dtype(column):
        raise DataError(
            f"{path}, column {name!r} has values of type {column.dtype}, expected "
            "numbers. Encode words as numbers, or leave the column out."
        )
    numbers: npt.NDArray[np.float64] = column.to_numpy(np.float64, na_value=np.nan)
    return numbers


def _to_labels(path: Path, column: Any) -> npt.NDArray[Any]:
    missing = column.isna().to_numpy()
    if missing.any():
        raise DataError(
            f"{path}, row {int(np.argmax(missing))} (counted from 0): the label is "
            "missing. Give every row a label, or leave the row out."
        )
    labels: npt.NDArray[Any] = column.to_numpy()
    if labels.dtype.kind in "biuf":
        return labels
    return np.array([str(label) for label in labels], dtype=np.str_)
