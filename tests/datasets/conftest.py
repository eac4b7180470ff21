"""Files that the tests of the readers share."""

import gzip
import lzma
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


@pytest.fixture(autouse=True)
def no_outside_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the user's folders or cache."""
    monkeypatch.delenv("HARDZERO_DATA", raising=False)
    monkeypatch.setenv("HARDZERO_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def real_data(data_folder: Path) -> Callable[[str], Path]:
    """Give the folder of a real data set; skip the test if it is not there."""

    def find(name: str) -> Path:
        if not (data_folder / name).is_dir():
            pytest.skip(f"no {name} in {data_folder}")
        return data_folder / name

    return find


@pytest.fixture(scope="session")
def write() -> Callable[[Path, bytes], Path]:
    """Write content to a file, compressed as its suffix says."""

    def write_content(path: Path, content: bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(content, 1))
        elif path.suffix == ".xz":
            path.write_bytes(lzma.compress(content, preset=0))
        else:
            path.write_bytes(content)
        return path

    return write_content


@pytest.fixture(scope="session")
def idx_bytes() -> Callable[[np.ndarray[Any, Any]], bytes]:
    """Encode an array as IDX."""

    def encode(values: np.ndarray[Any, Any]) -> bytes:
        big_endian = values.astype(values.dtype.newbyteorder(">"))
        header = bytes([0, 0, CODES[values.dtype.str[1:]], values.ndim])
        sizes = struct.pack(f">{values.ndim}I", *values.shape)
        return header + sizes + big_endian.tobytes()

    return encode
