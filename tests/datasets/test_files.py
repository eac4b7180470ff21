"""Opening and finding data files."""

import gzip
import lzma
from pathlib import Path

import pytest

from hardzero.datasets import files, read_table
from hardzero.errors import DataError


def find_x(folder: Path) -> Path | None:
    """Find a data set that consists of one file x."""
    return files.find_variant(folder, "x")


@pytest.mark.parametrize("place", ["", "set"])
@pytest.mark.parametrize("by", ["argument", "variable"])
def test_locate_takes_a_folder_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, by: str
) -> None:
    """Both may hold the files or a sub-folder with the name of the set."""
    (tmp_path / place).mkdir(exist_ok=True)
    expected = tmp_path / place / "x.gz"
    expected.touch()
    folder = tmp_path if by == "argument" else None
    if by == "variable":
        monkeypatch.setenv("HARDZERO_DATA", str(tmp_path))
    assert files.locate("set", folder, find_x, "x") == expected


def test_locate_gives_none_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HARDZERO_DATA may be unset, empty, or hold other sets: then download."""
    assert files.locate("set", None, find_x, "x") is None
    monkeypatch.setenv("HARDZERO_DATA", "")
    assert files.locate("set", None, find_x, "x") is None
    monkeypatch.setenv("HARDZERO_DATA", str(tmp_path))
    assert files.locate("set", None, find_x, "x") is None


def test_locate_refuses_a_given_folder_without_the_files(tmp_path: Path) -> None:
    """A folder that the user named is never silently replaced by a download."""
    with pytest.raises(DataError, match=r"has no files of set. Give the folder that"):
        files.locate("set", tmp_path, find_x, "x")
    with pytest.raises(DataError, match=r"is not a folder with set"):
        files.locate("set", tmp_path / "absent", find_x, "x")


def test_find_variant_prefers_plain_files(tmp_path: Path) -> None:
    """Plain before .gz before .xz."""
    for suffix in (".xz", ".gz", ""):
        (tmp_path / f"x{suffix}").touch()
        assert files.find_variant(tmp_path, "x") == tmp_path / f"x{suffix}"


@pytest.mark.parametrize("byte", [b"\0", b"a"])
def test_expansion_bounds_hold_for_the_most_compressible_content(
    tmp_path: Path, byte: bytes
) -> None:
    """The bound that refuses oversized claims never refuses a true one."""
    n_bytes = 2**25
    content = byte * n_bytes
    for suffix, compress in ((".gz", gzip.compress), (".xz", lzma.compress)):
        path = tmp_path / f"x{suffix}"
        path.write_bytes(compress(content))
        files.check_claim(path, n_bytes, n_bytes, "one byte again and again")


def test_an_xz_header_that_asks_for_too_much_memory_is_a_data_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running out of memory while decompressing is reported as a damaged file."""

    def read(*_: object) -> bytes:
        raise MemoryError

    path = tmp_path / "x.xz"
    path.write_bytes(lzma.compress(b"x"))
    monkeypatch.setattr(lzma.LZMAFile, "read", read)
    with (
        pytest.raises(DataError, match=r"asks for too much memory"),
        files.open_data(path) as stream,
    ):
        stream.read(1)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.svm.gz", "t.csv.xz"])
def test_an_endless_line_is_refused(tmp_path, write, name):
    """A small file that unpacks to one long line is not read to its end."""
    path = write(tmp_path / name, b"1" * (files.MAX_LINE + 2) + b"\n")
    with pytest.raises(DataError, match=r"line 1 has more than 16,777,216 characters"):
        read_table(path, target="k")


def test_text_that_unpacks_to_too_much_is_refused(tmp_path, write, monkeypatch):
    """The limit holds for compressed files only: plain ones cost what they take."""
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    text = b"a,k\n" + b"1,x\n" * 30
    with pytest.raises(DataError, match=r"unpacks to more than 100 bytes"):
        read_table(write(tmp_path / "t.csv.gz", text), target="k")
    assert len(read_table(write(tmp_path / "t.csv", text), target="k").y) == 30
