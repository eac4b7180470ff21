"""Read safetensors files that may come from anyone.

The format is the library's, which also writes them; only reading is done here, because
the library's reader maps the file into memory, so that a file which shrinks meanwhile
ends the process, waits for ever for a pipe, and takes the last of two equal names.
This one reads an ordinary file, each byte once, and allocates nothing that is not
there.

References
----------
https://github.com/huggingface/safetensors, "Format".
"""

import json
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from reprlib import repr as brief
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from hardzero.errors import DataError

__all__ = ["LARGEST_HEADER", "Place", "TensorFile", "open_tensors", "parse_json"]

LARGEST_HEADER: Final = 2**24
"""Most bytes that a header may have: parsing it takes some twenty times as many."""

_DTYPES: Final = {"F32": "float32", "F64": "float64"}
_MOST_DIMENSIONS: Final = 8
_METADATA: Final = "__metadata__"


@dataclass(frozen=True)
class Place:
    """Where an array lies in a file.

    Parameters
    ----------
    dtype : {"float32", "float64"}
        Its type.
    shape : tuple of int
        Its shape.
    start, end : int
        Its first byte and the one after its last, counted from the end of the header.
    """

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class TensorFile:
    """An open file whose header was read and found sound.

    Parameters
    ----------
    metadata : dict of str to str
        What the header says beside the arrays.
    places : dict of str to Place
        The arrays.
    n_bytes : int
        Size of the file.
    stream : binary stream
        The file.
    n_header : int
        Bytes before the arrays.
    """

    metadata: Mapping[str, str]
    places: Mapping[str, Place]
    n_bytes: int
    stream: IO[bytes]
    n_header: int

    def read(self, name: str) -> npt.NDArray[Any]:
        """Read an array.

        Parameters
        ----------
        name : str
            One of the names in ``places``.

        Returns
        -------
        ndarray
            Read-only.

        Raises
        ------
        DataError
            If the file has become shorter.
        """
        place = self.places[name]
        array = np.empty(place.shape, np.dtype(place.dtype).newbyteorder("<"))
        self.stream.seek(self.n_header + place.start)
        _fill(self.stream, array.reshape(-1).view(np.uint8).data)
        array = array.astype(place.dtype, copy=False)
        array.flags.writeable = False
        return array


@contextmanager
def open_tensors(
    path: Path, check_metadata: Callable[[Mapping[str, str]], None] = lambda _: None
) -> Iterator[TensorFile]:
    """Open a safetensors file and check its header.

    Parameters
    ----------
    path : Path
        An ordinary file; a symbolic link to one is followed.
    check_metadata : callable, optional
        Is given the metadata before the arrays are looked at, and may raise.

    Yields
    ------
    TensorFile
        The arrays are not yet read.

    Raises
    ------
    DataError
        If it is no ordinary file, or its header is malformed, longer than
        `LARGEST_HEADER`, or does not account for each byte of the file exactly once.
    OSError
        If the file cannot be opened or read.
    """
    with open(path, "rb", opener=_open_without_waiting) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise DataError("it is no ordinary file but a device, a pipe or a socket")
        n_header = 8 + _header_size(stream, status.st_size)
        header = _parse_header(_read(stream, n_header - 8))
        metadata = _read_metadata(header.pop(_METADATA, {}))
        check_metadata(metadata)
        places = {name: _check_place(name, entry) for name, entry in header.items()}
        _check_gaps(places.values(), status.st_size - n_header)
        yield TensorFile(metadata, places, status.st_size, stream, n_header)


def parse_json(text: str, what: str) -> Any:
    """Parse JSON in which no object has a name twice and no number is NaN or infinite.

    Parameters
    ----------
    text : str
        JSON.
    what : str
        What the text is, for the message.

    Returns
    -------
    object
        Its value.

    Raises
    ------
    DataError
        If it is no such JSON, or is nested too deeply to be parsed.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{what} is not JSON ({error})") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = sorted(name for name, _ in pairs)
        twice = next(name for name, following in pairwise(names) if name == following)
        raise ValueError(f"it has the name {brief(twice)} twice in one object")
    return made


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; of a pipe without a writer, do not wait for one."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _header_size(stream: IO[bytes], n_bytes: int) -> int:
    """Read the size that the first 8 bytes claim, and check it against the file's."""
    start = stream.read(8)
    n_header = int.from_bytes(start, "little")
    if n_header > LARGEST_HEADER or len(start) < 8:
        raise DataError(
            "it is not a safetensors file, which starts with the size of its header, "
            f"at most {LARGEST_HEADER:,}, in 8 bytes"
        )
    if n_header > n_bytes - 8:
        raise DataError(
            f"it is cut off or not a safetensors file: its header claims {n_header:,} "
            f"bytes, but the file has {n_bytes:,}"
        )
    return n_header


def _read(stream: IO[bytes], n_bytes: int) -> bytearray:
    content = bytearray(n_bytes)
    _fill(stream, memoryview(content))
    return content


def _fill(stream: IO[bytes], memory: memoryview) -> None:
    done = 0
    while done < len(memory):
        n_read = stream.readinto(memory[done:])  # type: ignore[attr-defined]
        if not n_read:
            raise DataError("it became shorter while it was read")
        done += n_read


def _parse_header(content: bytearray) -> dict[str, Any]:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"its header is not UTF-8 text ({error.reason})") from error
    header = parse_json(text, "its header")
    if not isinstance(header, dict):
        raise DataError("its header is no JSON object")
    return header


def _read_metadata(metadata: Any) -> dict[str, str]:
    is_sound = isinstance(metadata, dict) and all(
        isinstance(value, str) for value in metadata.values()
    )
    if not is_sound:
        raise DataError(f"its {_METADATA} is no object of strings")
    found: dict[str, str] = metadata
    return found


def _check_place(name: str, entry: Any) -> Place:
    """Check what a header says about one array, apart from the other arrays."""
    try:
        dtype, shape, offsets = (entry[k] for k in ("dtype", "shape", "data_offsets"))
        start, end = offsets
        numbers = [*shape, start, end]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"its header says {brief(entry)} of the array {brief(name)}, expected an "
            "object with dtype, shape and two data_offsets"
        ) from error
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise DataError(
            f"its array {brief(name)} is of type {brief(dtype)}, expected one of "
            f"{', '.join(_DTYPES)}"
        )
    is_sound = all(type(n) is int and 0 <= n < 2**63 for n in numbers)
    if not is_sound or len(shape) > _MOST_DIMENSIONS:
        raise DataError(
            f"its array {brief(name)} has the shape {brief(shape)} and the offsets "
            f"{brief(offsets)}, expected whole numbers from 0 to 2**63 - 1"
        )
    n_bytes = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
    if start + n_bytes != end:
        raise DataError(
            f"its array {brief(name)} is {dtype} of shape {tuple(shape)}, which takes "
            f"{n_bytes:,} bytes, but its offsets are {start:,} and {end:,}"
        )
    return Place(_DTYPES[dtype], tuple(shape), start, end)


def _check_gaps(places: Iterable[Place], n_bytes: int) -> None:
    """Check that the arrays fill the rest of the file, none over another."""
    end = 0
    for place in sorted(places, key=lambda place: (place.start, place.end)):
        if place.start != end:
            raise DataError(
                f"an array starts at byte {place.start:,} of the data, expected "
                f"{end:,}, where the one before it ends"
            )
        end = place.end
    if end != n_bytes:
        raise DataError(
            f"its arrays take {end:,} bytes, but {n_bytes:,} follow its header"
        )
