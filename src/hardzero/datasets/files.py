"""Open data files, plain or compressed, and say clearly what is wrong with broken ones.

The content of a file is never trusted: memory follows the bytes that are really
there, not the size that a header claims.
"""

import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, AnyStr, Generic, TypeVar, cast

from hardzero.errors import DataError

Found = TypeVar("Found")

SUFFIXES = ("", ".gz", ".xz")
MAX_BYTES = 4 * 2**30
MAX_LINE = 2**24

_MAGIC = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00"}
# No stream of these formats holds more bytes per compressed byte: a deflate match is
# at most 258 bytes in 2 bits; an LZMA match 273 bytes in 14 decisions of 0.022 bits.
EXPANSION = {"": 1, ".gz": 1032, ".xz": 8000}
_BROKEN_STREAM = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_CHUNK = 2**20


@contextmanager
def open_data(path: Path) -> Iterator[IO[bytes]]:
    """Open a data file for reading, decompressing ``.gz`` and ``.xz`` on the way.

    Parameters
    ----------
    path : Path
        The file; its suffix says how it is compressed.

    Yields
    ------
    binary stream
        The decompressed content.

    Raises
    ------
    DataError
        If the file is missing or unreadable, if its content does not match its
        suffix, or if the compressed stream is damaged or cut off.
    """
    try:
        with path.open("rb") as raw:
            suffix = _check_compression(path, raw)
            if suffix == ".gz":
                with gzip.GzipFile(fileobj=raw) as unzipped:
                    yield cast(IO[bytes], unzipped)
            elif suffix == ".xz":
                with lzma.LZMAFile(raw) as unpacked:
                    yield unpacked
            else:
                yield raw
    except (*_BROKEN_STREAM, MemoryError) as error:
        raise DataError(
            f"{path} is cut off or damaged: it cannot be decompressed to its end ("
            f"{str(error) or 'its header asks for too much memory'}). Get it again."
        ) from error
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {error.strerror or error}. "
            "Give the path of an existing, readable file."
        ) from error


def _check_compression(path: Path, raw: IO[bytes]) -> str:
    """Return the suffix that says how ``raw`` is compressed, if the content agrees."""
    start = raw.read(6)
    raw.seek(0)
    suffix = path.suffix if path.suffix in _MAGIC else ""
    actual = next((s for s, magic in _MAGIC.items() if start.startswith(magic)), "")
    if suffix == actual:
        return suffix
    kind = f"{actual} content" if actual else "content that is not compressed that way"
    renamed = path.with_suffix("") if suffix else path
    raise DataError(
        f"{path.name} should be {f'a {suffix} file' if suffix else 'uncompressed'} by "
        f"its name but has {kind} (it starts with {start.hex(' ') or 'nothing'}). "
        f"Rename it to {renamed.name}{actual} if it was merely "
        f"{'unpacked' if suffix else 'packed'} under its old name; "
        f"otherwise get it again."
    )


def check_claim(path: Path, n_bytes: int, max_bytes: int, claim: str) -> None:
    """Refuse, before anything is allocated, a content that cannot be in the file.

    Parameters
    ----------
    path : Path
        The file as it lies on disk.
    n_bytes : int
        Size of the content according to its header.
    max_bytes : int
        Most that the caller wants in memory.
    claim : str
        What the header says, for the message.

    Raises
    ------
    DataError
        If ``n_bytes`` is more than ``max_bytes``, or more than a file of this size
        can hold in its format.
    """
    suffix = path.suffix if path.suffix in _MAGIC else ""
    size = path.stat().st_size
    if n_bytes > size * EXPANSION[suffix]:
        raise DataError(
            f"{path} says that it holds {claim}, {n_bytes:,} bytes, but the whole file "
            f"has {size:,} bytes. It is cut off or its header is damaged: get it again."
        )
    if n_bytes > max_bytes:
        raise DataError(
            f"{path} says that it holds {claim}, {n_bytes:,} bytes; at most "
            f"{max_bytes:,} are allowed. Raise max_bytes if this is intended."
        )


def read_exactly(stream: IO[bytes], n_bytes: int, path: Path, what: str) -> bytearray:
    """Read the next ``n_bytes`` bytes, in pieces, so that a lie costs no memory.

    Parameters
    ----------
    stream : binary stream
        Where to read.
    n_bytes : int
        How many bytes must be there.
    path : Path
        The file, for the message.
    what : str
        What the bytes are, for the message.

    Returns
    -------
    bytearray
        ``n_bytes`` bytes.

    Raises
    ------
    DataError
        If the stream ends early.
    """
    content = bytearray()
    while len(content) < n_bytes:
        piece = stream.read(min(_CHUNK, n_bytes - len(content)))
        if not piece:
            raise DataError(
                f"{path} is cut off: {what} should have {n_bytes:,} bytes but only "
                f"{len(content):,} are there. Get the file again."
            )
        content += piece
    return content


class Lines(Generic[AnyStr]):
    """The lines of a text, none of them endless.

    Parameters
    ----------
    stream : stream
        Text or bytes, from `open_data`.
    path : Path
        The file, for messages.
    """

    def __init__(self, stream: IO[AnyStr], path: Path) -> None:
        self._stream: IO[AnyStr] = stream
        self._path = path
        # Readers know by this attribute that it is an open file.
        self.read: Callable[..., AnyStr] = stream.read

    def __iter__(self) -> Iterator[AnyStr]:
        """Yield one line after another.

        Yields
        ------
        str or bytes
            A line with its end.

        Raises
        ------
        DataError
            If a line is longer than ``MAX_LINE``, or more than ``MAX_BYTES`` come out
            of a compressed file.
        """
        total, number = 0, 0
        is_compressed = self._path.suffix in _MAGIC
        while line := self._stream.readline(MAX_LINE + 1):
            total, number = total + len(line), number + 1
            if len(line) > MAX_LINE:
                raise DataError(
                    f"{self._path}, line {number} has more than {MAX_LINE:,} "
                    "characters. Expected a table with one row per line: check that it "
                    "is one."
                )
            if is_compressed and total > MAX_BYTES:
                raise DataError(
                    f"{self._path} unpacks to more than {MAX_BYTES:,} bytes. Unpack it "
                    "yourself if this is intended: a plain file may have any size."
                )
            yield line


def locate(
    name: str,
    folder: str | os.PathLike[str] | None,
    find: Callable[[Path], Found | None],
    wanted: str,
) -> Found | None:
    """Look for a data set in the folder given, else in ``HARDZERO_DATA``.

    Both may hold the files themselves or a sub-folder called ``name``.

    Parameters
    ----------
    name : str
        Name of the data set.
    folder : path or None
        Where the user says that the files are.
    find : callable
        Takes a folder; returns what it found there, None if nothing.
    wanted : str
        The files, for the message.

    Returns
    -------
    object or None
        What ``find`` returned; None if no folder was given and ``HARDZERO_DATA`` is
        unset or has no such files, so that they should be downloaded.

    Raises
    ------
    DataError
        If ``folder`` is given and has no such files.
    """
    given = folder if folder is not None else os.environ.get("HARDZERO_DATA")
    if not given:
        return None
    root = Path(given).expanduser()
    for place in (root / name, root):
        if place.is_dir() and (found := find(place)) is not None:
            return found
    if folder is None:
        return None
    state = "has no files of" if root.is_dir() else "is not a folder with"
    raise DataError(
        f"{root} {state} {name}. Give the folder that holds {wanted} (or a sub-folder "
        f"{name!r} with them), or leave it out to use HARDZERO_DATA or a download."
    )


def find_variant(folder: Path, *names: str) -> Path | None:
    """Find a file under any of its usual names, plain, ``.gz`` or ``.xz``.

    Parameters
    ----------
    folder : Path
        Where to look.
    *names : str
        Names without the suffix of a compression.

    Returns
    -------
    Path or None
        The first that exists.
    """
    paths = (folder / f"{name}{suffix}" for name in names for suffix in SUFFIXES)
    return next((path for path in paths if path.is_file()), None)
