"""MNIST from local files, real and made up."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardzero.datasets import load_mnist, mnist
from hardzero.errors import DataError

Write = Callable[[Path, bytes], Path]
Encode = Callable[[np.ndarray[Any, Any]], bytes]


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, write: Write, idx_bytes: Encode
) -> Path:
    """A folder with four files of the right sizes, almost black pictures."""
    folder = tmp_path_factory.mktemp("mnist")
    for part, n in (("train", 60_000), ("t10k", 10_000)):
        pictures = np.zeros((n, 28, 28), np.uint8)
        pictures[:, 3, 4] = 255
        labels = np.arange(n) % 10
        write(folder / f"{part}-images-idx3-ubyte.gz", idx_bytes(pictures))
        write(
            folder / f"{part}-labels-idx1-ubyte.gz", idx_bytes(labels.astype(np.uint8))
        )
    return folder


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A copy of the folder that a test may spoil."""
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_loads_the_four_files(folder: Path) -> None:
    """Features are scaled, flat float32 rows; labels are int64."""
    data = load_mnist(folder)
    assert data.X_train.shape == (60_000, 784)
    assert data.X_test.shape == (10_000, 784)
    assert data.X_train.dtype == np.float32
    assert data.X_train[7].nonzero()[0].tolist() == [3 * 28 + 4]
    assert data.X_train.max() == 1
    assert data.y_test[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]


def test_loads_from_the_environment_and_dotted_names(
    copy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """HARDZERO_DATA with a sub-folder works, and so do names with a dot."""
    for path in copy.iterdir():
        path.rename(copy / path.name.replace("-idx", ".idx"))
    copy.rename(tmp_path / "mnist")
    monkeypatch.setenv("HARDZERO_DATA", str(tmp_path))
    assert len(load_mnist().y_train) == 60_000


def swap(folder: Path, first: str, second: str) -> None:
    """Exchange the names of two files."""
    a, b = next(folder.glob(f"{first}*")), next(folder.glob(f"{second}*"))
    a.rename(folder / "aside")
    b.rename(a)
    (folder / "aside").rename(b)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("train-images", "train-labels", r"images and labels are swapped"),
        ("t10k-images", "train-images", r"training and the test part are swapped"),
        ("t10k-labels", "train-labels", r"training and the test part are swapped"),
    ],
)
def test_swapped_files_are_noticed(
    copy: Path, first: str, second: str, message: str
) -> None:
    """Images for labels, or training for test, is said in so many words."""
    swap(copy, first, second)
    with pytest.raises(DataError, match=message):
        load_mnist(copy)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.full(60_000, 10, np.uint8), r"label 10 in row 0 is not a digit"),
        (np.zeros(59_999, np.uint8), r"\(59999,\), expected uint8 of shape \(60000,\)"),
        (np.zeros(60_000, np.int32), r"holds int32 values .* not a file of MNIST"),
    ],
)
def test_wrong_labels_are_refused(
    copy: Path, write: Write, idx_bytes: Encode, values: Any, message: str
) -> None:
    """Labels must be 60,000 bytes from 0 to 9."""
    write(copy / "train-labels-idx1-ubyte.gz", idx_bytes(values))
    with pytest.raises(DataError, match=message):
        load_mnist(copy)


def test_a_missing_file_is_named(copy: Path) -> None:
    """An incomplete set says which files are lacking."""
    (copy / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"3 of the 4 .* lacks t10k-labels-idx1-ubyte"):
        load_mnist(copy)


def test_offline_the_error_lists_what_was_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without files and network, the message says what was tried and what to do."""
    monkeypatch.setattr(mnist, "MIRRORS", ("http://127.0.0.1:1/mnist/",))
    monkeypatch.setenv("HARDZERO_DATA", str(tmp_path))
    with pytest.raises(DataError) as caught:
        load_mnist()
    message = str(caught.value)
    assert "http://127.0.0.1:1/mnist/train-images-idx3-ubyte.gz: " in message
    assert f"HARDZERO_DATA (now {tmp_path})" in message
    assert str(tmp_path / "cache" / "mnist") in message


def test_real_mnist(real_data: Callable[[str], Path]) -> None:
    """The real files give the published class counts; 19 % of the grey is not zero."""
    data = load_mnist(real_data("mnist"))
    assert np.bincount(data.y_train).tolist() == [
        *(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    ]
    assert np.bincount(data.y_test).tolist() == [
        *(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
    ]
    assert np.mean(data.X_train != 0) == pytest.approx(0.191, abs=5e-4)
    assert data.X_train.max() == 1


def test_real_files_have_the_known_checksums(
    real_data: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a download would be checked against fits the original files."""
    folder = real_data("mnist")
    monkeypatch.setattr(mnist, "MIRRORS", (f"{folder.resolve().as_uri()}/",))
    assert len(load_mnist().y_test) == 10_000
