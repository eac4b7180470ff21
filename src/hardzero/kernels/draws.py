"""Uniform random numbers of rows, drawn by the compiled core.

They are those of `hardzero.random` to the last bit, at any instruction-set level.
Where the core does not load, `hardzero.random` draws them.
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero import random

try:
    from hardzero.kernels import _core
except ImportError:  # pragma: no cover - needs a broken installation
    _has_core = False
else:
    _has_core = True

__all__ = ["uniforms", "uniforms_at"]

Array = npt.NDArray[Any]


def uniforms(
    key: int | np.uint64, row_hashes: npt.ArrayLike, n_columns: int
) -> npt.NDArray[np.float32]:
    """Return what `hardzero.random.uniforms` returns, but sooner.

    Parameters
    ----------
    key : int or numpy.uint64
        What `hardzero.random.stream_key` returned.
    row_hashes : array_like of shape (n_samples,), dtype uint64
        What `hardzero.random.row_hashes` returned.
    n_columns : int
        Number of columns.

    Returns
    -------
    ndarray of shape (n_samples, n_columns), dtype float32
        Multiples of 2**-24 in [0, 1).
    """
    if not _has_core:
        return random.uniforms(key, row_hashes, n_columns)
    return _core.uniforms(int(key), _hashes(row_hashes), n_columns, _level())


def uniforms_at(
    key: int | np.uint64, row_hashes: npt.ArrayLike, indptr: Array, indices: Array
) -> npt.NDArray[np.float32]:
    """Return those of the same numbers that belong to the entries of a CSR matrix.

    Parameters
    ----------
    key : int or numpy.uint64
        What `hardzero.random.stream_key` returned.
    row_hashes : array_like of shape (n_samples,), dtype uint64
        What `hardzero.random.row_hashes` returned.
    indptr : ndarray of int32 or int64 of shape (n_samples + 1,)
        Where the entries of each row start and end.
    indices : ndarray of int32 or int64 of shape (n_entries,)
        Columns of the entries, from 0 to below 2**34.

    Returns
    -------
    ndarray of shape (n_entries,), dtype float32
        ``uniforms(key, row_hashes, n_columns)[row, column]`` of each entry.

    Raises
    ------
    ValueError
        If `indptr` does not cut `indices` into one part for each row, or a column is
        negative.
    """
    if not _has_core:
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        numbers = random.uniforms(key, row_hashes, int(indices.max(initial=-1)) + 1)
        return numbers[rows, indices]
    are_short = indptr.dtype == indices.dtype == np.int32
    dtype = np.int32 if are_short else np.int64
    return _core.uniforms_at(
        int(key),
        _hashes(row_hashes),
        np.ascontiguousarray(indptr, dtype=dtype),
        np.ascontiguousarray(indices, dtype=dtype),
        _level(),
    )


@cache
def _level() -> str:
    return _core.active_level()


def _hashes(row_hashes: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(row_hashes, dtype=np.uint64)
