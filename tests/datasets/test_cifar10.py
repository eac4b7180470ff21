"""CIFAR-10 from batches and archives, real and made up."""

import contextlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardzero.datasets import cifar10, load_cifar10, read_cifar10_batch
from hardzero.errors import DataError

Write = Callable[[Path, bytes], Path]
NAMES = (*cifar10.TRAIN_BATCHES, cifar10.TEST_BATCH)


def batch_bytes(seed: int, n_records: int = 20) -> bytes:
    """Make a batch of coloured noise with the labels 0, 1, ..., 9, 0, ..."""
    rng = np.random.default_rng(seed)
    records = rng.integers(0, 256, (n_records, 3073), dtype=np.uint8)
    records[:, 0] = np.arange(n_records) % 10
    return records.tobytes()


def pack(path: Path, contents: dict[str, bytes]) -> Path:
    """Write an archive of files with these names."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 20 pictures in place of 10,000."""
    monkeypatch.setattr(cifar10, "N_BATCH", 20)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_reads_a_batch(tmp_path: Path, write: Write, suffix: str) -> None:
    """A record is a label, then 32x32 red, green and blue values."""
    content = batch_bytes(0, n_records=3)
    path = write(tmp_path / f"data_batch_1.bin{suffix}", content)
    pixels, labels = read_cifar10_batch(path, n_records=3)
    assert pixels.shape == (3, 3, 32, 32)
    assert labels.tolist() == [0, 1, 2]
    assert pixels[1, 2, 5, 7] == content[3073 + 1 + 2 * 1024 + 5 * 32 + 7]


def test_reads_a_batch_from_an_archive(tmp_path: Path) -> None:
    """A member is found by its last name; nothing is unpacked to disk."""
    path = pack(tmp_path / "a.tar.gz", {"d/x": b"", "d/two.bin": batch_bytes(1, 2)})
    pixels, _ = read_cifar10_batch(path, member="two.bin", n_records=2)
    assert pixels.tobytes()[:5] == batch_bytes(1, 2)[1:6]
    assert [p.name for p in tmp_path.iterdir()] == ["a.tar.gz"]
    with pytest.raises(DataError, match=r"archive of several batches. Say which"):
        read_cifar10_batch(path)
    with pytest.raises(DataError, match=r"has no three.bin. Expected the binary"):
        read_cifar10_batch(path, member="three.bin")


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("form", ["plain", "xz", "folder", "archive"])
def test_loads_every_form(tmp_path: Path, write: Write, form: str) -> None:
    """Six files, a folder as it comes out of the archive, and the archive agree."""
    contents = {name: batch_bytes(i) for i, name in enumerate(NAMES)}
    if form == "archive":
        backwards = {f"cifar-10-batches-bin/{n}": contents[n] for n in reversed(NAMES)}
        pack(tmp_path / "cifar-10-binary.tar.gz", backwards)
    else:
        inner = "cifar-10-batches-bin/" if form == "folder" else ""
        suffix = ".xz" if form == "xz" else ""
        for name in NAMES:
            write(tmp_path / f"{inner}{name}{suffix}", contents[name])
    data = load_cifar10(tmp_path)
    expected = np.frombuffer(contents["data_batch_3.bin"], np.uint8).reshape(20, 3073)
    assert data.X_train.shape == (100, 3072)
    assert data.X_test.shape == (20, 3072)
    assert np.array_equal(data.X_train[40:60], expected[:, 1:] / np.float32(255))
    assert data.y_train[40:60].tolist() == expected[:, 0].tolist()
    assert data.feature_shape == (3, 32, 32)


@pytest.mark.usefixtures("small_batches")
def test_errors_of_a_folder(tmp_path: Path, write: Write) -> None:
    """Missing batches are named, and unequal classes point to swapped batches."""
    for i, name in enumerate(NAMES[:5]):
        write(tmp_path / name, batch_bytes(i))
    with pytest.raises(DataError, match=r"5 of the 6 .* lacks test_batch.bin"):
        load_cifar10(tmp_path)
    uneven = bytearray(batch_bytes(5))
    uneven[0] = 9
    write(tmp_path / "test_batch.bin", bytes(uneven))
    with pytest.raises(
        DataError, match=r"test part .* 1, 2, .* 3 pictures .* expected 2 of each"
    ):
        load_cifar10(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (batch_bytes(0, 3)[:-1], r"should have 9,219 bytes but only 9,218"),
        (batch_bytes(0, 3) + b"x", r"goes on after 3 records .*CIFAR-100"),
        (b"\x0a" + batch_bytes(0, 3)[1:], r"record 0 has the label 10, expected 0 to"),
    ],
)
def test_errors_of_a_batch(tmp_path: Path, content: bytes, message: str) -> None:
    """Short, long and mislabelled batches are refused."""
    (tmp_path / "b.bin").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_cifar10_batch(tmp_path / "b.bin", n_records=3)


def test_the_python_version_is_not_unpickled(tmp_path: Path) -> None:
    """The archive with pickles is refused, with the reason."""
    path = pack(tmp_path / "py.tar.gz", {"cifar-10-batches-py/test_batch": b"cos\n."})
    with pytest.raises(DataError, match=r"pickles can run code"):
        read_cifar10_batch(path, member="test_batch.bin")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=200,
)
@given(
    cut=st.floats(0, 1, exclude_max=True),
    place=st.integers(0, 1023),
    new=st.binary(min_size=1, max_size=12),
)
def test_damaged_archives_give_a_data_error(
    tmp_path: Path, write: Write, cut: float, place: int, new: bytes
) -> None:
    """Cutting an archive or altering its headers never gives another exception."""
    whole = pack(tmp_path / "a.tar.gz", {"test_batch.bin": batch_bytes(0, 1)})
    packed = whole.read_bytes()
    whole.write_bytes(packed[: int(cut * len(packed))])
    with pytest.raises(DataError, match=r"[Gg]et (it|the file) again"):
        read_cifar10_batch(whole, member="test_batch.bin", n_records=1)
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo("test_batch.bin")
        entry.size = 3073
        entry.pax_headers = {"comment": "é"}
        archive.addfile(entry, io.BytesIO(batch_bytes(0, 1)))
    altered = bytearray(inner.getvalue())
    altered[place : place + len(new)] = new
    path = write(tmp_path / "b.tar.gz", bytes(altered))
    with contextlib.suppress(DataError):
        read_cifar10_batch(path, member="test_batch.bin", n_records=1)


def test_real_cifar10_batch(real_data: Callable[[str], Path]) -> None:
    """The real test batch has 1,000 pictures of each class; the first is a cat."""
    path = real_data("cifar10") / "test_batch.bin.xz"
    pixels, labels = read_cifar10_batch(path)
    assert np.bincount(labels).tolist() == [1000] * 10
    assert cifar10.CLASS_NAMES[labels[0]] == "cat"
    assert pixels.mean() == pytest.approx(121.5, abs=0.1)


@pytest.mark.slow
def test_real_cifar10(real_data: Callable[[str], Path]) -> None:
    """All six real batches load, with 5,000 training pictures of each class."""
    data = load_cifar10(real_data("cifar10"))
    assert data.X_train.shape == (50_000, 3072)
    assert np.bincount(data.y_train).tolist() == [5000] * 10


def test_headers_without_end_are_a_data_error(tmp_path: Path) -> None:
    """Thousands of long names, each for the next header, are not followed."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1
    one = header.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0")
    path = tmp_path / "cifar-10-binary.tar"
    path.write_bytes(one * 5000)
    with pytest.raises(DataError, match=r"not a sound tar archive"):
        read_cifar10_batch(path, member="test_batch.bin")
