"""Sparse tables as text in svmlight's format: label, then index:value pairs."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hardzero.datasets import files
from hardzero.datasets.columns import Table, Wanted
from hardzero.errors import DataError

_MANY_COLUMNS: Final = 2**20
_LAST_EXACT: Final = 2**53  # beyond, whole numbers collapse in float64


def read_svmlight(path: Path, wanted: Wanted) -> Table:
    """Read svmlight's format, plain, ``.gz`` or ``.xz``.

    Parameters
    ----------
    path : Path
        The table. An index is taken as the number of its column, counted from 0.
    wanted : Wanted
        ``n_features`` makes the table wide enough for columns without any value.
        Without it, a table of more than 1,048,576 columns must have at least as many
        values as columns: else one wrong index could ask for all memory.

    Returns
    -------
    Table
        ``X`` as a CSR array, never made dense; labels int64 if all are whole numbers.

    Raises
    ------
    DataError
        If the file is malformed, has an index beyond ``n_features`` or far beyond the
        number of its values, or a label beyond 2**53, where labels collapse.
    """
    from sklearn.datasets import load_svmlight_file  # 1 s to import

    with files.open_data(path) as stream:
        try:
            X, y = load_svmlight_file(
                files.Lines(stream, path),
                dtype=np.float64,
                n_features=wanted.n_features,
                zero_based=True,
            )
        except (ValueError, OverflowError) as error:
            last = f" to {wanted.n_features - 1}" if wanted.n_features else ""
            raise DataError(
                f"{path} is not as expected: {error}. Expected lines of the form "
                "'label index:value index:value ...' with increasing indices from "
                f"0{last}. An index is the number of a column: count as in the other "
                "tables of the same data."
            ) from error
    if not np.isfinite(X.data).all():
        raise DataError(
            f"{path} has values that are not finite numbers. Leave them out or fill "
            "them in."
        )
    n_columns = X.shape[1]
    if wanted.n_features is None and n_columns > max(_MANY_COLUMNS, X.nnz):
        raise DataError(
            f"{path} has the index {n_columns - 1:,} but only {X.nnz:,} values. Number "
            "the columns without gaps, or give n_features if this is intended."
        )
    return Table(sp.csr_array(X), _labels(path, y) if wanted.has_labels else None, None)


def _labels(path: Path, y: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Make integers of labels that are all whole numbers."""
    bad = ~(np.abs(y) <= _LAST_EXACT)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"{path}, row {row} (counted from 0): the label is {y[row]:g}, expected a "
            f"number of at most {_LAST_EXACT:,} in size. Number the classes from 0."
        )
    return y.astype(np.int64) if np.array_equal(y, np.rint(y)) else y
