"""Files that appear, or are replaced, in one step: never half a file."""

import contextlib
import os
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["remove_leftovers", "replacing"]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the place of ``path`` when all went well.

    It lies beside ``path`` as ``.hardzero-*.tmp``, and is left there only if the
    process is killed. File and folder are on disk, as far as the system tells, before
    this returns.

    Parameters
    ----------
    path : path
        File that should appear, or be replaced, in one step.

    Yields
    ------
    binary stream
        Where to write its content.

    Raises
    ------
    OSError
        If the folder does not exist or cannot be written to.
    """
    path = Path(path).resolve()  # write to what a symbolic link points at
    if path.exists() and not path.is_file():  # a device or a pipe must stay one
        with path.open("wb") as stream:
            yield stream
        return
    temporary = path.with_name(f"{_prefix(path)}{secrets.token_hex(8)}{_SUFFIX}")
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode)
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Delete the temporary files that killed processes left beside a file.

    Parameters
    ----------
    path : path
        File that `replacing` was called for.

    Raises
    ------
    OSError
        If the folder does not exist or cannot be written to.
    """
    path = Path(path).resolve()
    for other in path.parent.iterdir():
        if other.name.startswith(_prefix(path)) and other.name.endswith(_SUFFIX):
            other.unlink(missing_ok=True)


_SUFFIX = ".tmp"


def _prefix(path: Path) -> str:
    # Not the name itself: with more around it, it could be too long for one.
    return f".hardzero-{zlib.crc32(os.fsencode(path.name)):08x}-"


def _sync_folder(folder: Path) -> None:
    """Bring the new name of a file to disk, on systems that can be asked to."""
    with contextlib.suppress(OSError):  # Windows opens no folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
