"""Tables as the arrays X and y of a NumPy archive; arrays of objects are refused."""

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from hardzero.datasets import files
from hardzero.datasets.columns import Table, Wanted, check_finite
from hardzero.errors import DataError

_REMEDY: Final = "Write it with numpy.savez_compressed(path, X=X, y=y)."
_DAMAGED: Final = (
    *(ValueError, EOFError, OSError, zlib.error, zipfile.BadZipFile),
    *(NotImplementedError, RuntimeError, MemoryError, OverflowError),
)


def read_npz(path: Path, wanted: Wanted) -> Table:
    """Read ``.npz``.

    Parameters
    ----------
    path : Path
        The archive.
    wanted : Wanted
        ``target`` is the name of the array of labels; None means "y".

    Returns
    -------
    Table
        Without names.

    Raises
    ------
    DataError
        If an array is missing, malformed, of another shape, or not of finite numbers.
    """
    name = wanted.target or "y"
    with files.open_data(path) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                X = _read_array(archive, "X")
                y = _read_array(archive, name) if wanted.has_labels else None
        except _DAMAGED as error:
            raise DataError(
                f"{path} is not a sound npz file: {error}. {_REMEDY}"
            ) from error
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataError(
            f"{path}: X is {X.dtype} of shape {X.shape}, expected numbers of shape "
            f"(n_rows, n_features). {_REMEDY}"
        )
    with np.errstate(over="ignore"):  # what is too large is refused next
        X = X.astype(np.float64)
    check_finite(path, X)
    if y is not None and y.shape != (len(X),):
        raise DataError(
            f"{path}: {name} has shape {y.shape}, expected ({len(X)},): one label for "
            f"each row of X. {_REMEDY}"
        )
    return Table(X, y, None)


def _read_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """Read one array; its header is believed only as far as the file has bytes."""
    entry = f"{name}.npy"
    if entry not in archive.namelist():
        found = ", ".join(n.removesuffix(".npy") for n in archive.namelist()[:10])
        raise ValueError(f"it has no array {name!r}, only {found or 'none'}")
    with archive.open(entry) as stream:
        shape, is_fortran, dtype = _read_header(stream)
        if dtype.kind not in "biufU" or not dtype.itemsize:
            raise ValueError(
                f"array {name!r} is of type {dtype}, expected numbers or strings of "
                f"fixed width, such as {name}.astype(str) has (objects are never "
                "unpickled: that can run code)"
            )
        n_bytes = math.prod(shape) * dtype.itemsize
        size = archive.getinfo(entry).compress_size
        if n_bytes > size * files.EXPANSION[".gz"]:
            raise ValueError(
                f"array {name!r} claims the shape {shape}, {n_bytes:,} bytes, in "
                f"{size:,} bytes of the file"
            )
        what = f"array {name!r}"
        content = files.read_exactly(stream, n_bytes, Path(entry), what)
        if stream.read(1):
            raise ValueError(f"{what} is longer than its header says")
    values = np.frombuffer(content, dtype)
    return values.reshape(shape, order="F" if is_fortran else "C")


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    return np.lib.format.read_array_header_2_0(stream)
