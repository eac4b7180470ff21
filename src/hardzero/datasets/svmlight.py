"""Sparse tables as text in svmlight's format: label, then index:value pairs."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hardzero.datasets import files
from hardzero.datasets.columns import Table, Wanted
from hardzero.errors import DataError


def read_svmlight(path: Path, wanted: Wanted) -> Table:
    """Read svmlight's format, plain, ``.gz`` or ``.xz``.

    Parameters
    ----------
    path : Path
        The table. An index is taken as the number of its column, counted from 0.
    wanted : Wanted
        ``n_features`` makes the table wide enough for columns without any value.

    Returns
    -------
    Table
        ``X`` as a CSR array, never made dense; labels int64 if all are whole numbers.

    Raises
    ------
    DataError
        If the file is malformed or has an index beyond ``n_features``.
    """
    from sklearn.datasets import load_svmlight_file  # 1 s to import

    with files.open_data(path) as stream:
        try:
            X, y = load_svmlight_file(
                stream, dtype=np.float64, n_features=wanted.n_features, zero_based=True
            )
        except (ValueError, OverflowError) as error:
            last = f" to {wanted.n_features - 1}" if wanted.n_features else ""
            raise DataError(
                f"{path} is not as expected: {error}. Expected lines of the form "
                "'label index:value index:value ...' with increasing indices from "
                f"0{last}."
            ) from error
    if not np.isfinite(X.data).all():
        raise DataError(
            f"{path} has values that are not finite numbers. Leave them out or fill "
            "them in."
        )
    if np.array_equal(y, np.rint(y)):
        y = y.astype(np.int64)
    return Table(sp.csr_array(X), y if wanted.has_labels else None, None)
