"""Reader of IDX, the file format of MNIST: a shape, then big-endian numbers."""

import math
import os
import struct
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hardzero.datasets import files
from hardzero.errors import DataError

DTYPES: dict[int, np.dtype[Any]] = {
    0x08: np.dtype(">u1"),
    0x09: np.dtype(">i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
MAX_DIMENSIONS = 32


def read_idx(
    path: str | os.PathLike[str], *, max_bytes: int = files.MAX_BYTES
) -> NDArray[Any]:
    """Read an IDX file, plain, ``.gz`` or ``.xz``.

    Parameters
    ----------
    path : path
        The file. Its suffix says whether it is compressed.
    max_bytes : int, default=4 GiB
        Refuse a file whose header announces more than this.

    Returns
    -------
    ndarray
        Of the shape in the header; dtype uint8, int8, int16, int32, float32 or
        float64, in the byte order of this machine.

    Raises
    ------
    DataError
        If the file is missing, not IDX, cut off, longer than its header says, or
        announces more than it can hold; the message says which.

    References
    ----------
    .. [1] Y. LeCun, C. Cortes, C. J. C. Burges, "The MNIST database of handwritten
       digits", 1998, section "File formats".
    """
    path = Path(path)
    with files.open_data(path) as stream:
        dtype, shape = _read_header(stream, path)
        n_bytes = math.prod(shape) * dtype.itemsize
        claim = f"an array of shape {shape} and type {dtype.newbyteorder('=').name}"
        files.check_claim(path, n_bytes, max_bytes, claim)
        content = files.read_exactly(stream, n_bytes, path, claim)
        if stream.read(1):
            raise DataError(
                f"{path} goes on after the {n_bytes:,} bytes that its header announces "
                f"({claim}). It is damaged or not an IDX file: get it again."
            )
    values = np.frombuffer(content, dtype).reshape(shape)
    return values.astype(dtype.newbyteorder("="), copy=False)


def _read_header(
    stream: IO[bytes], path: Path
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Read the magic number and the shape."""
    magic = bytes(
        files.read_exactly(stream, 4, path, "the magic number of an IDX file")
    )
    zero, code, n_dimensions = struct.unpack(">HBB", magic)
    if zero != 0 or code not in DTYPES or not 1 <= n_dimensions <= MAX_DIMENSIONS:
        codes = ", ".join(f"{code:02x}" for code in DTYPES)
        raise DataError(
            f"{path} starts with {magic.hex(' ')}, which is not the magic number of an "
            f"IDX file: 00 00, one of {codes}, number of dimensions (1 to "
            f"{MAX_DIMENSIONS}). Check that it is the file that you meant."
        )
    sizes = files.read_exactly(stream, 4 * n_dimensions, path, "the shape")
    shape = struct.unpack(f">{n_dimensions}I", sizes)
    if 0 in shape:
        raise DataError(
            f"{path} announces an empty array of shape {shape}. "
            "Every dimension must be at least 1: get the file again."
        )
    return DTYPES[code], shape
