"""NumPy archives, sound, malformed and hostile."""

import numpy as np
import pytest

from hardzero.datasets import read_table
from hardzero.errors import DataError


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.ones((2, 2))}, r"no array 'y', only X"),
        ({"y": np.ones(2)}, r"no array 'X', only y"),
        ({"X": np.ones(2), "y": np.ones(2)}, r"X is float64 of shape \(2,\)"),
        ({"X": np.ones((2, 2)), "y": np.ones(3)}, r"y has shape \(3,\), expected \(2,"),
        ({"X": np.array([["a"]]), "y": np.ones(1)}, r"X is <U1 of shape"),
        ({"X": np.array([[np.inf]]), "y": np.ones(1)}, r"row 0, column 0: inf is not"),
        ({"X": np.ones((1, 1)), "y": np.array([{}])}, r"'y' is of type object"),
        ({"X": np.ones((1, 1)), "y": np.array([np.nan])}, r"labels with nan among"),
        ({"X": np.ones((1, 1)), "y": np.array([-np.inf])}, r"labels with -inf among"),
        ({"X": np.ones((1, 1)), "y": np.ones(1, complex)}, r"'y' is of type complex"),
    ],
)
def test_malformed_npz(tmp_path, arrays, message):
    """Missing, misshapen and object arrays are refused; nothing is unpickled."""
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.npz")


def test_npz_in_fortran_order_and_other_bytes(tmp_path):
    """Layout and byte order of the arrays do not matter."""
    values = np.arange(6, dtype=">f4").reshape(2, 3)
    np.savez(tmp_path / "t.npz", X=np.asfortranarray(values), y=np.ones(2))
    assert read_table(tmp_path / "t.npz").X.tolist() == values.tolist()


def test_an_npz_header_that_claims_too_much(tmp_path):
    """A claimed terabyte is refused before memory is taken for it."""
    path = tmp_path / "t.npz"
    np.savez(path, X=np.ones((1, 9)), y=np.ones(1))
    content = path.read_bytes()
    assert content.count(b"(1, 9), ") == 1
    path.write_bytes(content.replace(b"(1, 9), ", b"(9**9,) "))
    with pytest.raises(DataError, match=r"not a sound npz file"):
        read_table(path)
    path.write_bytes(content.replace(b"(1, 9), }      ", b"(99999999, 9), }"[:15]))
    with pytest.raises(DataError, match=r"not a sound npz file"):
        read_table(path)


@pytest.mark.skipif(
    np.finfo(np.longdouble).max == np.finfo(np.float64).max, reason="is float64 here"
)
def test_what_is_too_large_for_float64(tmp_path):
    """Checked are the numbers that are handed out, not those in the file."""
    X = np.array([["1e4000"]]).astype(np.longdouble)
    np.savez(tmp_path / "t.npz", X=X, y=np.ones(1))
    with pytest.raises(DataError, match=r"row 0, column 0: inf is not a finite number"):
        read_table(tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", X=np.ones((1, 1)), y=X[0])
    with pytest.raises(DataError, match=r"labels with type .*at most 64 bits"):
        read_table(tmp_path / "t.npz")
