"""The IDX reader, on sound, broken and hostile files."""

import contextlib
import gzip
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hardzero.datasets import read_idx
from hardzero.errors import DataError

SUFFIXES = ("", ".gz", ".xz")
Write = Callable[[Path, bytes], Path]
Encode = Callable[[np.ndarray[Any, Any]], bytes]
same_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
arrays = st.sampled_from(["u1", "i1", "i2", "i4", "f4", "f8"]).flatmap(
    lambda code: hnp.arrays(np.dtype(code), hnp.array_shapes(max_dims=4, max_side=5))
)


@same_folder
@given(values=arrays, suffix=st.sampled_from(SUFFIXES))
def test_reads_back_what_was_written(
    tmp_path: Path, write: Write, idx_bytes: Encode, values: Any, suffix: str
) -> None:
    """Every type and shape comes back bit by bit, in native byte order."""
    path = write(tmp_path / f"values{suffix}", idx_bytes(values))
    read = read_idx(path)
    assert read.dtype == values.dtype
    assert read.dtype.isnative
    assert read.shape == values.shape
    assert read.tobytes() == values.tobytes()


@same_folder
@given(
    content=st.binary(max_size=64)
    | st.binary(max_size=40).map(lambda rest: b"\0\0\x08\x01\0\0\0" + rest),
    suffix=st.sampled_from(SUFFIXES),
    is_compressed=st.booleans(),
)
def test_any_bytes_give_an_array_or_a_data_error(
    tmp_path: Path, write: Write, content: bytes, suffix: str, is_compressed: bool
) -> None:
    """Nothing but DataError ever comes out of a malformed file."""
    path = tmp_path / f"fuzz{suffix}"
    if is_compressed:
        write(path, content)
    else:
        path.write_bytes(content)
    with contextlib.suppress(DataError):
        assert isinstance(read_idx(path), np.ndarray)


@same_folder
@given(
    suffix=st.sampled_from(SUFFIXES),
    cut=st.floats(0, 1, exclude_max=True),
    flip=st.integers(0, 255),
)
def test_truncated_or_altered_files_are_refused(
    tmp_path: Path,
    write: Write,
    idx_bytes: Encode,
    suffix: str,
    cut: float,
    flip: int,
) -> None:
    """A file cut anywhere is a DataError; an altered byte never another exception."""
    values = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    path = write(tmp_path / f"whole{suffix}", idx_bytes(values))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(cut * len(whole))])
    with pytest.raises(DataError, match=r"cut off|damaged|should be|whole file has"):
        read_idx(path)
    altered = bytearray(whole)
    altered[int(cut * len(whole))] ^= flip
    path.write_bytes(altered)
    with contextlib.suppress(DataError):
        read_idx(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_oversized_claim_costs_no_memory(
    tmp_path: Path, write: Write, suffix: str
) -> None:
    """A header that claims a terabyte is refused before memory is taken for it."""
    header = b"\0\0\x08\x03" + struct.pack(">3I", 10**4, 10**4, 10**4)
    path = write(tmp_path / f"claim{suffix}", header + bytes(1000))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"1,000,000,000,000 bytes, but the whole file"):
        read_idx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**21


def test_a_claim_within_the_format_but_not_there_is_cut_off(
    tmp_path: Path, write: Write
) -> None:
    """A claim that the compressed size allows, but that is false, is found out."""
    path = write(
        tmp_path / "short.gz", b"\0\0\x08\x01" + struct.pack(">I", 9000) + b"1"
    )
    with pytest.raises(DataError, match=r"9,000 bytes but only 1 are there"):
        read_idx(path)


def test_a_bomb_is_stopped_by_max_bytes(tmp_path: Path, write: Write) -> None:
    """Content larger than max_bytes is refused although it is really there."""
    content = b"\0\0\x08\x01" + struct.pack(">I", 10**6) + bytes(10**6)
    path = write(tmp_path / "bomb.xz", content)
    with pytest.raises(DataError, match=r"at most 1,000 are allowed. Raise max_bytes"):
        read_idx(path, max_bytes=1000)
    assert read_idx(path, max_bytes=10**6).shape == (10**6,)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("wrong", b"\1\0\x08\x01\0\0\0\1x", r"starts with 01 00 08 01, which is not"),
        ("type", b"\0\0\x0a\x01\0\0\0\1x", r"not the magic number"),
        ("scalar", b"\0\0\x08\0", r"number of dimensions \(1 to 32\)"),
        ("empty", b"\0\0\x08\x01\0\0\0\0", r"empty array of shape \(0,\)"),
        ("long", b"\0\0\x08\x01\0\0\0\1xy", r"goes on after the 1 bytes"),
        ("nothing", b"", r"magic number .* should have 4 bytes but only 0"),
        ("plain.gz", b"\0\0\x08\x01\0\0\0\1x", r"Rename it to plain if .* unpacked"),
        ("plain.xz", b"\0\0\x08\x01\0\0\0\1x", r"should be a .xz file by its name"),
        ("packed", gzip.compress(b"x"), r"has .gz content .* Rename it to packed.gz"),
        ("other.xz", gzip.compress(b"x"), r"has .gz content .* Rename it to other.gz"),
    ],
)
def test_errors_say_what_is_wrong(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    """Each kind of malformed file has a message of its own."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_idx(tmp_path / name)


def test_a_missing_file_or_a_folder_is_a_data_error(tmp_path: Path) -> None:
    """The path is named, with the reason of the operating system."""
    with pytest.raises(DataError, match=r"nowhere: No such file"):
        read_idx(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"Cannot read"):
        read_idx(tmp_path)
