"""Files that appear, or are replaced, in one step: never half a file."""

import contextlib
import errno
import os
import secrets
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

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
        If the folder does not exist or cannot be written to, or the temporary file was
        deleted meanwhile.
    """
    path = _target(path)
    if path.exists() and not path.is_file():  # a device or a pipe must stay one
        with path.open("wb") as stream:
            yield stream
        return
    temporary = path.with_name(f"{_prefix(path)}{secrets.token_hex(8)}{_SUFFIX}")
    try:
        with _claim(temporary):
            with temporary.open("wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            _move(temporary, path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Delete the temporary files that killed processes left beside a file.

    Those that a process still writes stay. Where the system has no locks to tell, a
    file counts as left when it was not written to for an hour.

    Parameters
    ----------
    path : path
        File that `replacing` was called for.

    Raises
    ------
    OSError
        If the folder does not exist or cannot be written to.
    """
    path = _target(path)
    for other in path.parent.iterdir():
        if other.name.startswith(_prefix(path)) and other.name.endswith(_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                _remove_if_left(other)


_SUFFIX = ".tmp"
_SECONDS_LEFT = 3600.0


def _target(path: str | os.PathLike[str]) -> Path:
    """Return what a symbolic link points at: that is to be written, not the link."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def _prefix(path: Path) -> str:
    # Not the name itself: with more around it, it could be too long for one.
    return f".hardzero-{zlib.crc32(os.fsencode(path.name)):08x}-"


@contextlib.contextmanager
def _claim(temporary: Path) -> Iterator[None]:
    """Create a file, and hold a lock on it that the system drops if we are killed."""
    if sys.platform == "win32":  # a file that is open cannot be moved there
        temporary.touch(exist_ok=False)
        yield
        return
    with temporary.open("xb") as stream:
        with contextlib.suppress(OSError):  # not all file systems have locks
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _remove_if_left(temporary: Path) -> None:
    if sys.platform != "win32":
        with temporary.open("r+b") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            except OSError:
                pass
            else:
                temporary.unlink()
                return
    if time.time() - temporary.stat().st_mtime > _SECONDS_LEFT:
        temporary.unlink()


def _move(temporary: Path, path: Path) -> None:
    try:
        if path.exists():
            temporary.chmod(path.stat().st_mode)
        temporary.replace(path)
    except FileNotFoundError as error:
        why = (
            "its temporary file is gone, perhaps because another run uses this path; "
            "each needs a path of its own"
        )
        raise FileNotFoundError(error.errno, why, str(path)) from error


def _sync_folder(folder: Path) -> None:
    """Bring the new name of a file to disk, on systems that can be asked to."""
    with contextlib.suppress(OSError):  # Windows opens no folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
