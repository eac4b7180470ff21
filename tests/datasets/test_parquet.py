"""Parquet files."""

import pytest

from hardzero.datasets import read_table
from hardzero.errors import DataError, ParameterError

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


def test_malformed_parquet(tmp_path, monkeypatch):
    """Words, gaps and damage are refused; without pandas the message says so."""
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"a": [1.0, None], "b": ["u", "v"], "k": ["x", None]})
    frame.to_parquet(path)
    with pytest.raises(DataError, match=r"row 1, column 'a': nan is not a finite"):
        read_table(path, has_labels=False, features=["a"])
    with pytest.raises(DataError, match=r"column 'b' has values of type"):
        read_table(path, has_labels=False, features=["b"])
    frame.assign(a=1, b=2).to_parquet(path)
    with pytest.raises(DataError, match=r"row 1 .*: the label is missing"):
        read_table(path, target="k")
    content = path.read_bytes()
    for wrong in (content[:-20], b"", content[:50] + b"x" * 50 + content[100:]):
        path.write_bytes(wrong)
        with pytest.raises(DataError, match=r"not a sound Parquet file"):
            read_table(path, target="k")
    with pytest.raises(DataError, match=r"no such file"):
        read_table(tmp_path / "absent.parquet", target="k")
    monkeypatch.setattr("hardzero.datasets.parquet.find_spec", lambda _: None)
    with pytest.raises(ParameterError, match=r"pip install pandas pyarrow"):
        read_table(path, target="k")
