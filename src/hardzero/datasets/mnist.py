"""MNIST, 70,000 handwritten digits, from the four original IDX files."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardzero.datasets import files
from hardzero.datasets.dataset import Dataset, scale_bytes
from hardzero.datasets.download import RemoteFile, cache_folder, fetch
from hardzero.datasets.idx import read_idx
from hardzero.errors import DataError

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
# In the order train images, train labels, test images, test labels.
FILES = {
    "train-images-idx3-ubyte": (
        9_912_422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    "train-labels-idx1-ubyte": (
        28_881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    "t10k-images-idx3-ubyte": (
        1_648_877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    "t10k-labels-idx1-ubyte": (
        4_542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
}
N_TRAIN, N_TEST, SIDE = 60_000, 10_000, 28


def load_mnist(
    folder: str | os.PathLike[str] | None = None, *, verbose: bool = False
) -> Dataset:
    """Load MNIST from a folder, from ``HARDZERO_DATA``, or by download.

    Parameters
    ----------
    folder : path or None, default=None
        Folder with the four original files, plain, ``.gz`` or ``.xz`` (or with a
        sub-folder ``mnist`` that has them). None takes the folder that the environment
        variable ``HARDZERO_DATA`` names; if that is not set or has no such files,
        they are downloaded (11 MiB, checksums verified) into the user's cache.
    verbose : bool, default=False
        Show a progress bar while downloading.

    Returns
    -------
    Dataset
        60,000 + 10,000 rows, 784 features in [0, 1], 10 classes. The usual
        validation part is the last 10,000 training rows.

    Raises
    ------
    DataError
        If files are missing, malformed, cut off or swapped, or the download fails.

    References
    ----------
    .. [1] Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied
       to document recognition", Proc. IEEE 86(11), 1998.
    """
    paths = files.locate("mnist", folder, find_four_files, ", ".join(FILES))
    if paths is None:
        cache = cache_folder() / "mnist"
        paths = [fetch(_remote(name), cache, verbose=verbose) for name in FILES]
    return Dataset(
        name="mnist",
        X_train=scale_bytes(read_pictures(paths[0], N_TRAIN)),
        y_train=read_labels(paths[1], N_TRAIN),
        X_test=scale_bytes(read_pictures(paths[2], N_TEST)),
        y_test=read_labels(paths[3], N_TEST),
        feature_shape=(SIDE, SIDE),
        class_names=tuple("0123456789"),
        source=(
            "Y. LeCun, C. Cortes, C. J. C. Burges, The MNIST database of handwritten "
            "digits (1998); cite LeCun, Bottou, Bengio, Haffner, Proc. IEEE 86(11), "
            "1998"
        ),
    )


def find_four_files(folder: Path) -> list[Path] | None:
    """Find the four files of MNIST under either of their usual spellings.

    Parameters
    ----------
    folder : Path
        Where to look.

    Returns
    -------
    list of Path or None
        In the order of ``FILES``; None if none of them is there.

    Raises
    ------
    DataError
        If some are there and some are not.
    """
    found = {
        name: files.find_variant(folder, name, name.replace("-idx", ".idx"))
        for name in FILES
    }
    present = [path for path in found.values() if path is not None]
    if not present:
        return None
    if len(present) < len(FILES):
        missing = ", ".join(name for name, path in found.items() if path is None)
        raise DataError(
            f"{folder} has {len(present)} of the 4 MNIST files but lacks {missing} "
            "(plain, .gz or .xz). Put all four there."
        )
    return present


def _remote(name: str) -> RemoteFile:
    n_bytes, sha256 = FILES[name]
    urls = tuple(f"{mirror}{name}.gz" for mirror in MIRRORS)
    return RemoteFile(f"{name}.gz", urls, n_bytes, sha256)


def read_pictures(path: Path, n_expected: int) -> NDArray[np.uint8]:
    """Read ``n_expected`` pictures of 28x28 grey values.

    Parameters
    ----------
    path : Path
        An IDX file.
    n_expected : int
        How many pictures it must hold.

    Returns
    -------
    ndarray of shape (n_expected, 28, 28), uint8
        The pictures.

    Raises
    ------
    DataError
        If the file holds anything else.
    """
    return _read_as(path, (n_expected, SIDE, SIDE))


def read_labels(path: Path, n_expected: int) -> NDArray[np.int64]:
    """Read ``n_expected`` labels from 0 to 9.

    Parameters
    ----------
    path : Path
        An IDX file.
    n_expected : int
        How many labels it must hold.

    Returns
    -------
    ndarray of shape (n_expected,), int64
        The labels.

    Raises
    ------
    DataError
        If the file holds anything else.
    """
    labels = _read_as(path, (n_expected,))
    if labels.max() > 9:
        row = int(np.argmax(labels > 9))
        raise DataError(
            f"{path}: label {labels[row]} in row {row} is not a digit from 0 to 9. The "
            "file is damaged or does not hold the labels of MNIST: get it again."
        )
    return labels.astype(np.int64)


def _read_as(path: Path, expected: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read an IDX file that must hold bytes of the shape ``expected``."""
    values = read_idx(path)
    if values.shape == expected and values.dtype == np.uint8:
        return values
    if values.dtype != np.uint8:
        cause = "It is not a file of MNIST"
    elif values.ndim != len(expected):
        cause = "Perhaps the files of images and labels are swapped"
    elif len(values) in (N_TRAIN, N_TEST) and values.shape[1:] == expected[1:]:
        cause = "Perhaps the files of the training and the test part are swapped"
    else:
        cause = "It is not the complete file of MNIST"
    raise DataError(
        f"{path} holds {values.dtype.name} values of shape {values.shape}, expected "
        f"uint8 of shape {expected}. {cause}: check the names or get the file again."
    )
