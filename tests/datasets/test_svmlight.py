"""svmlight files."""

import pytest

from hardzero.datasets import read_table
from hardzero.errors import DataError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0:1 0:2\n", r"not as expected"),
        ("1 a:1\n", r"not as expected.*index:value"),
        ("x 0:1\n", r"not as expected"),
        ("1 0:nan\n", r"not finite"),
        ("1 0:1\n1e300 0:2\n", r"row 1 .*: the label is 1e\+300, expected a number"),
        ("inf 0:1\n", r"the label is inf"),
        ("nan 0:1\n", r"the label is nan"),
        ("-9007199254740994 0:1\n", r"at most 9,007,199,254,740,992 in size"),
        ("1 2147483646:1\n", r"has the index 2,147,483,646 but only 1 values"),
        ("", r"rows and . feature columns|not as expected"),
    ],
)
def test_malformed_svmlight(tmp_path, text, message):
    """Wrong indices and values are refused."""
    path = tmp_path / "t.svmlight"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_table(path)


def test_svmlight_with_an_index_beyond_the_features(tmp_path):
    """An index that the model does not know is refused; fewer columns are not."""
    path = tmp_path / "t.svmlight"
    path.write_text("1 0:1 5:2\n")
    with pytest.raises(DataError, match=r"increasing indices from 0 to 4"):
        read_table(path, n_features=5)
    assert read_table(path, n_features=9).X.shape == (1, 9)


def test_labels_that_are_not_wanted_may_be_anything(tmp_path):
    """Only wanted labels are checked; whole numbers become integers exactly."""
    path = tmp_path / "t.svmlight"
    path.write_text("inf 0:1\n")
    assert read_table(path, has_labels=False).y is None
    path.write_text("9007199254740992 0:1\n-3 0:1\n")
    assert read_table(path).y.tolist() == [2**53, -3]
    path.write_text("0.5 0:1\n-3 0:1\n")
    assert read_table(path).y.tolist() == [0.5, -3]
