"""Reading safetensors files that may come from anyone."""

import json
import os
import socket
import struct
import sys
import threading

import numpy as np
import pytest
from safetensors.numpy import save as to_safetensors

from hardzero.errors import DataError
from hardzero.serving.tensors import open_tensors, parse_json

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX files")
ENTRY = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def write(path, header, data=b"\0" * 24):
    """Write a file with this header, given as a text or as a tree of JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reads_what_the_library_writes(tmp_path, dtype):
    """Arrays of any shape, also empty ones, and the metadata."""
    rng = np.random.default_rng(0)
    shapes = ((2, 3), (4,), (), (0, 5), (1, 2, 3))
    arrays = {str(i): rng.normal(size=s).astype(dtype) for i, s in enumerate(shapes)}
    path = tmp_path / "t"
    path.write_bytes(to_safetensors(arrays, {"größe": "ja"}))
    with open_tensors(path) as tensors:
        assert tensors.metadata == {"größe": "ja"}
        assert tensors.n_bytes == path.stat().st_size
        found = {name: tensors.read(name) for name in tensors.places}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
        assert not found[name].flags.writeable


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"\xff", r"its header is not UTF-8 text"),
        (b"{'a': 1}", r"its header is not JSON"),
        (b"[" * 100_000, r"its header is not JSON \(maximum recursion"),
        (b'{"a": NaN}', r"its header is not JSON \(NaN is no number"),
        (b'{"a": ' + b"9" * 5000 + b"}", r"its header is not JSON .*integer string"),
        (b'{"a": 1, "b": 2, "a": 1}', r"the name 'a' twice in one object"),
        ([ENTRY], r"its header is no JSON object"),
        ({"__metadata__": ["a"]}, r"__metadata__ is no object of strings"),
        ({"__metadata__": {"a": 1}}, r"__metadata__ is no object of strings"),
        (
            {"a": 5},
            r"its header says 5 of the array 'a', expected an object with dtype",
        ),
        ({"a": {"dtype": "F32"}}, r"its header says \{'dtype': 'F32'\} of the array"),
        ({"a": {**ENTRY, "shape": 6}}, r"its header says .* of the array 'a'"),
        ({"a": {**ENTRY, "data_offsets": [0, 9, 24]}}, r"and two data_offsets"),
        ({"a": {**ENTRY, "dtype": "BF16"}}, r"is of type 'BF16', expected one of F32"),
        ({"a": {**ENTRY, "dtype": ["F32"]}}, r"is of type \['F32'\], expected"),
        ({"a": {**ENTRY, "shape": [2, -3]}}, r"shape \[2, -3\] .* from 0 to 2\*\*63"),
        ({"a": {**ENTRY, "shape": [2, 3.0]}}, r"shape \[2, 3.0\]"),
        ({"a": {**ENTRY, "shape": [6, True]}}, r"shape \[6, True\]"),
        ({"a": {**ENTRY, "shape": [2**63, 0]}}, r"shape \[9223372036854775808, 0\]"),
        ({"a": {**ENTRY, "shape": [1] * 9}}, r"shape \[1, 1, 1, 1, 1, 1, ...\]"),
        (
            {"a": {**ENTRY, "shape": [2**62, 2**62, 4]}},
            r"which takes .* bytes, but its",
        ),
        ({"a": {**ENTRY, "data_offsets": [0, 20]}}, r"takes 24 bytes, but its offsets"),
        ({"a": {**ENTRY, "data_offsets": [24, 0]}}, r"its offsets are 24 and 0"),
        ({"a": {**ENTRY, "data_offsets": [4, 28]}}, r"starts at byte 4 .* expected 0"),
        ({"a": ENTRY, "b": ENTRY}, r"starts at byte 0 of the data, expected 24"),
        ({"a": {**ENTRY, "data_offsets": [2**60, 2**60 + 24]}}, r"starts at byte 1,15"),
        ({}, r"its arrays take 0 bytes, but 24 follow its header"),
    ],
)
def test_malformed_headers(tmp_path, header, message):
    """Every part is checked before anything is allocated for it."""
    path = write(tmp_path / "t", header)
    with pytest.raises(DataError, match=message), open_tensors(path):
        pass


@pytest.mark.parametrize("n_bytes", [23, 25])
def test_each_byte_belongs_to_an_array(tmp_path, n_bytes):
    """A file that is too short or too long for its arrays is refused."""
    path = write(tmp_path / "t", {"a": ENTRY}, b"\0" * n_bytes)
    with (
        pytest.raises(DataError, match=rf"take 24 bytes, but {n_bytes} follow"),
        open_tensors(path),
    ):
        pass


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    """An error, and no end of the process."""
    array = np.zeros(2**20, np.float32)
    path = tmp_path / "t"
    path.write_bytes(to_safetensors({"a": array}))
    with open_tensors(path) as tensors:
        os.truncate(path, 2**20)
        with pytest.raises(DataError, match="it became shorter while it was read"):
            tensors.read("a")


@POSIX
def test_pipes_devices_and_sockets_are_no_files(tmp_path):
    """They are refused at once; a pipe is not waited for."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link, "/dev/zero"):
        found = refusal(path)
        assert "it is no ordinary file but a device, a pipe" in found
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
        with pytest.raises(OSError, match="No such device"):
            open_tensors(tmp_path / "socket").__enter__()


def refusal(path):
    """Open a file in a thread, so that waiting for it fails the test."""
    found = []

    def attempt():
        try:
            open_tensors(path).__enter__()
        except DataError as error:
            found.append(str(error))

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(timeout=10)
    assert found, f"{path} was waited for"
    return found[0]


def test_json_without_what_parsers_read_differently():
    """Equal names, NaN and infinities are refused; the rest is ordinary JSON."""
    assert parse_json('{"a": [1, {"a": null}]}', "x") == {"a": [1, {"a": None}]}
    for text in ('[{"b": {"a": 1, "a": 2}}]', "[NaN]", "-Infinity", "[1,]", ""):
        with pytest.raises(DataError, match=r"^x is not JSON \("):
            parse_json(text, "x")
