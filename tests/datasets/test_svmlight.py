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
