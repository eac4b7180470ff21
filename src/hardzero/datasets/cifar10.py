"""CIFAR-10, 60,000 tiny colour pictures, from the original binary version."""

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from hardzero.datasets import files
from hardzero.datasets.dataset import Dataset, scale_bytes
from hardzero.datasets.download import RemoteFile, cache_folder, fetch
from hardzero.errors import DataError

ARCHIVE = RemoteFile(
    name="cifar-10-binary.tar.gz",
    urls=(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "https://cave.cs.toronto.edu/kriz/cifar-10-binary.tar.gz",
    ),
    n_bytes=170_052_171,
    sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
TRAIN_BATCHES = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST_BATCH = "test_batch.bin"
CLASS_NAMES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
FEATURE_SHAPE = (3, 32, 32)
WANTED = f"{ARCHIVE.name}, or data_batch_1.bin to data_batch_5.bin and {TEST_BATCH}"
RECORD = 1 + 3 * 32 * 32
N_BATCH = 10_000

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


def load_cifar10(
    folder: str | os.PathLike[str] | None = None, *, verbose: bool = False
) -> Dataset:
    """Load CIFAR-10 from a folder, from ``HARDZERO_DATA``, or by download.

    Parameters
    ----------
    folder : path or None, default=None
        Folder with ``cifar-10-binary.tar.gz``, or with the six ``.bin`` files, plain,
        ``.gz`` or ``.xz`` (or with a sub-folder ``cifar10`` or
        ``cifar-10-batches-bin`` that has them). None takes the folder that the
        environment variable ``HARDZERO_DATA`` names; if that is not set or has no such
        files, the archive is downloaded (162 MiB, checksum verified) into the user's
        cache.
    verbose : bool, default=False
        Show a progress bar while downloading.

    Returns
    -------
    Dataset
        50,000 + 10,000 rows, 3,072 features in [0, 1] (all red values of a picture,
        then green, then blue), 10 classes. It takes 703 MiB of memory.

    Raises
    ------
    DataError
        If files are missing, malformed, cut off or swapped, or the download fails.

    References
    ----------
    .. [1] A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images",
       technical report, University of Toronto, 2009.
    """
    paths = files.locate("cifar10", folder, find_batches, WANTED)
    if paths is None:
        paths = [fetch(ARCHIVE, cache_folder() / "cifar10", verbose=verbose)]
    n_train = N_BATCH * len(TRAIN_BATCHES)
    X = np.empty((n_train + N_BATCH, RECORD - 1), np.float32)
    y = np.empty(n_train + N_BATCH, np.int64)
    order = (*TRAIN_BATCHES, TEST_BATCH)
    for name, pixels, labels in _read_all(paths):
        start = N_BATCH * order.index(name)
        X[start : start + N_BATCH] = scale_bytes(pixels)
        y[start : start + N_BATCH] = labels
    _check_balance(y[:n_train], y[n_train:])
    return Dataset(
        name="cifar10",
        X_train=X[:n_train],
        y_train=y[:n_train],
        X_test=X[n_train:],
        y_test=y[n_train:],
        feature_shape=FEATURE_SHAPE,
        class_names=CLASS_NAMES,
        source=(
            "A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, "
            "technical report, University of Toronto, 2009"
        ),
    )


def read_cifar10_batch(
    path: str | os.PathLike[str],
    *,
    member: str | None = None,
    n_records: int = N_BATCH,
) -> Batch:
    """Read one batch of the binary version, plain, ``.gz``, ``.xz`` or in an archive.

    Parameters
    ----------
    path : path
        The batch, or the archive that holds it (``.tar``, ``.tar.gz``, ``.tar.xz``,
        ``.tgz``). Nothing is unpacked to disk.
    member : str or None, default=None
        Name of the batch in the archive, such as ``"test_batch.bin"``; needed only for
        an archive.
    n_records : int, default=10000
        How many pictures the batch must hold.

    Returns
    -------
    pixels : ndarray of shape (n_records, 3, 32, 32), uint8
        Red, green and blue, each row by row.
    labels : ndarray of shape (n_records,), int64
        0 to 9.

    Raises
    ------
    DataError
        If the file is missing, cut off, too long, or has a label above 9; or if the
        archive has no such member.
    """
    path = Path(path)
    if not is_archive(path):
        with files.open_data(path) as stream:
            return _parse(stream, path, n_records)
    if member is None:
        raise DataError(
            f"{path} is an archive of several batches. Say which one to read with "
            f"member=, for example member={TEST_BATCH!r}."
        )
    [(_, pixels, labels)] = _read_archive(path, (member,), n_records)
    return pixels, labels


def find_batches(folder: Path) -> list[Path] | None:
    """Find the six batches of CIFAR-10, or else the archive that has them all.

    Parameters
    ----------
    folder : Path
        Where to look.

    Returns
    -------
    list of Path or None
        Six batches, five for training first, or one archive; None if there is neither.

    Raises
    ------
    DataError
        If some batches are there and some are not.
    """
    order = (*TRAIN_BATCHES, TEST_BATCH)
    for place in (folder, folder / "cifar-10-batches-bin"):
        found = {name: files.find_variant(place, name) for name in order}
        present = [path for path in found.values() if path is not None]
        if len(present) == len(order):
            return present
        if present:
            missing = ", ".join(name for name, path in found.items() if path is None)
            raise DataError(
                f"{place} has {len(present)} of the 6 CIFAR-10 batches but lacks "
                f"{missing} (plain, .gz or .xz). Put all six there."
            )
    archive = files.find_variant(folder, "cifar-10-binary.tar")
    return None if archive is None else [archive]


def is_archive(path: Path) -> bool:
    """Tell by its name whether a file is an archive.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    bool
        True for ``.tar``, ``.tar.gz``, ``.tar.xz`` and ``.tgz``.
    """
    return ".tar" in path.suffixes[-2:] or path.suffix == ".tgz"


def _read_all(paths: list[Path]) -> Iterator[tuple[str, *Batch]]:
    """Read six batches, or the archive that holds them."""
    order = (*TRAIN_BATCHES, TEST_BATCH)
    if is_archive(paths[0]):
        yield from _read_archive(paths[0], order, N_BATCH)
    else:
        for name, path in zip(order, paths, strict=True):
            yield name, *read_cifar10_batch(path, n_records=N_BATCH)


def _read_archive(
    path: Path, wanted: tuple[str, ...], n_records: int
) -> Iterator[tuple[str, *Batch]]:
    """Read the wanted members, in the order in which they lie in the archive."""
    missing = set(wanted)
    try:
        with (
            files.open_data(path) as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            for entry in archive:
                name = entry.name.rpartition("/")[2]
                content = archive.extractfile(entry) if name in missing else None
                if content is not None:
                    missing.remove(name)
                    yield name, *_parse(content, path / name, n_records)
            while stream.read(2**20):  # the checksum comes last
                pass
    except DataError:
        raise
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(
            f"{path} is not a sound tar archive ({error}). Get the file again."
        ) from error
    if missing:
        raise DataError(
            f"{path} has no {', '.join(sorted(missing))}. Expected the binary version "
            f"of CIFAR-10, {ARCHIVE.name}; the Python version is not read, because its "
            "pickles can run code when they are loaded."
        )


def _parse(stream: IO[bytes], path: Path, n_records: int) -> Batch:
    """Split records of one label byte and 3,072 colour bytes."""
    content = files.read_exactly(
        stream, n_records * RECORD, path, f"a batch of {n_records:,} pictures"
    )
    if stream.read(1):
        raise DataError(
            f"{path} goes on after {n_records:,} records of {RECORD:,} bytes. It is "
            "not a batch of CIFAR-10 in the binary version (CIFAR-100 has records of "
            f"{RECORD + 1:,} bytes), or it is damaged: get it again."
        )
    records = np.frombuffer(content, np.uint8).reshape(n_records, RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() > 9:
        row = int(np.argmax(labels > 9))
        raise DataError(
            f"{path}: record {row} has the label {labels[row]}, expected 0 to 9. It is "
            "not a batch of CIFAR-10 in the binary version, or it is damaged: get it "
            "again."
        )
    return records[:, 1:].reshape(n_records, *FEATURE_SHAPE), labels


def _check_balance(y_train: NDArray[np.int64], y_test: NDArray[np.int64]) -> None:
    """Check that each class is there as often as in the published data."""
    for part, y in (("training", y_train), ("test", y_test)):
        counts = np.bincount(y, minlength=len(CLASS_NAMES))
        expected = len(y) // len(CLASS_NAMES)
        if (counts != expected).any():
            raise DataError(
                f"The {part} part of CIFAR-10 has {', '.join(map(str, counts))} "
                f"pictures of the ten classes, expected {expected:,} of each. Perhaps "
                "two batches are swapped or one is there twice: check the names or get "
                "the files again."
            )
