"""Download a file whose checksum is known, once, into the user's cache."""

import contextlib
import hashlib
import http.client
import os
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hardzero.errors import DataError

_CHUNK = 2**18


@dataclass(frozen=True)
class RemoteFile:
    """A file on the web, with what is known about it.

    Parameters
    ----------
    name : str
        File name in the cache.
    urls : tuple of str
        Addresses that serve the same bytes, tried in this order.
    n_bytes : int
        Its size.
    sha256 : str
        Its SHA-256 checksum, 64 hexadecimal digits.
    """

    name: str
    urls: tuple[str, ...]
    n_bytes: int
    sha256: str


def fetch(
    remote: RemoteFile,
    folder: Path,
    *,
    timeout: float = 30.0,
    verbose: bool = False,
) -> Path:
    """Return the local copy of a remote file; download it if there is no sound one.

    The file gets its name only after its checksum was found right, in one step, so
    that neither a killed download nor two at a time can leave a broken copy.

    Parameters
    ----------
    remote : RemoteFile
        What to get.
    folder : Path
        Where the copy lies; made if missing.
    timeout : float, default=30.0
        Seconds without an answer after which the next address is tried.
    verbose : bool, default=False
        Show a progress bar on standard error.

    Returns
    -------
    Path
        The local copy, checksum verified.

    Raises
    ------
    DataError
        If no address gives the right bytes, or the folder cannot be written to. The
        message lists each address with the reason.
    """
    target = folder / remote.name
    if target.is_file() and _has_checksum(target, remote):
        return target
    reasons = []
    for url in remote.urls:
        with _temporary_file(folder) as (stream, temporary):
            problem = _download(url, remote, stream, timeout, verbose)
            stream.close()
            if problem is None:
                temporary.replace(target)
                return target
            reasons.append(f"{url}: {problem}")
    raise DataError(
        f"Could not download {remote.name}. Tried {'; '.join(reasons)}. Connect to the "
        f"internet and try again, or put the file into {folder}, or give the folder "
        "that holds it as the folder argument or in the environment variable "
        f"HARDZERO_DATA (now {os.environ.get('HARDZERO_DATA') or 'not set'})."
    )


def cache_folder() -> Path:
    """Return the folder for downloads.

    Returns
    -------
    Path
        ``HARDZERO_CACHE`` if set, else ``hardzero`` in the usual cache folder of this
        operating system. It need not exist.
    """
    if given := os.environ.get("HARDZERO_CACHE"):
        return Path(given).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "hardzero"


def _has_checksum(path: Path, remote: RemoteFile) -> bool:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == remote.sha256


@contextlib.contextmanager
def _temporary_file(folder: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """Open a new file in ``folder`` that is gone afterwards unless it was renamed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".download-", dir=folder)
    except OSError as error:
        raise DataError(
            f"Cannot write to the cache folder {folder}: {error.strerror or error}. "
            "Name a folder that you may write to in the environment variable "
            "HARDZERO_CACHE."
        ) from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream, temporary
    finally:
        temporary.unlink(missing_ok=True)


def _download(
    url: str, remote: RemoteFile, stream: IO[bytes], timeout: float, verbose: bool
) -> str | None:
    """Copy what ``url`` serves to ``stream``; return what was wrong, if anything."""
    digest, n_received = hashlib.sha256(), 0
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "hardzero"})
        with (
            urllib.request.urlopen(request, timeout=timeout) as response,
            _progress_bar(remote, verbose) as advance,
        ):
            while piece := response.read(_CHUNK):
                n_received += len(piece)
                if n_received > remote.n_bytes:
                    return f"more than the expected {remote.n_bytes:,} bytes"
                digest.update(piece)
                stream.write(piece)
                advance(len(piece))
        stream.flush()
    except (OSError, http.client.HTTPException, ValueError) as error:
        return _reason(error)
    if n_received < remote.n_bytes:
        return f"only {n_received:,} of {remote.n_bytes:,} bytes"
    if digest.hexdigest() != remote.sha256:
        return f"SHA-256 is {digest.hexdigest()}, expected {remote.sha256}"
    return None


def _reason(error: Exception) -> str:
    """Put into words why an address did not answer."""
    if isinstance(error, urllib.error.URLError) and not hasattr(error, "code"):
        return str(error.reason)
    return str(error) or type(error).__name__


@contextlib.contextmanager
def _progress_bar(remote: RemoteFile, verbose: bool) -> Iterator[Callable[[int], None]]:
    """Show how much of the file has come; give a function to call with each piece."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn(remote.name), BarColumn(), DownloadColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not verbose
    ) as progress:
        task = progress.add_task(remote.name, total=remote.n_bytes)
        yield lambda n_bytes: progress.advance(task, n_bytes)
