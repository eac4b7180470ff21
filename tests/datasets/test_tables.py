"""Tables in four formats say the same; malformed ones say what is wrong."""

import contextlib
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardzero.datasets import read_table
from hardzero.errors import DataError, ParameterError

same_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
needs_pandas = pytest.mark.skipif(
    not (find_spec("pandas") and find_spec("pyarrow")), reason="needs pandas, pyarrow"
)
X = [[1, 2], [0, -0.5], [300, 4]]
Y = ["x", "y", "x"]


def write_table(folder, kind, X=X, y=Y):
    """Write the same table in one of the formats."""
    path = folder / f"table{kind}"
    if kind.startswith((".csv", ".tsv")):
        separator = "\t" if kind == ".tsv" else ","
        lines = [
            ["a", "b", "kind"],
            *([*row, label] for row, label in zip(X, y, strict=True)),
        ]
        path.write_text("\n".join(separator.join(map(str, line)) for line in lines))
    elif kind == ".parquet":
        import pandas as pd

        frame = pd.DataFrame(X, columns=["a", "b"])
        frame["kind"] = y
        frame.to_parquet(path)
    elif kind == ".npz":
        np.savez_compressed(path, X=np.array(X), y=np.array(y), kind=np.array(y))
    else:
        rows = (
            " ".join([str(label), *(f"{i}:{v}" for i, v in enumerate(row) if v)])
            for row, label in zip(X, y, strict=True)
        )
        path.write_text("\n".join(rows) + "\n")
    return path


FORMATS = [
    ".csv",
    ".tsv",
    ".npz",
    ".svmlight",
    pytest.param(".parquet", marks=needs_pandas),
]


@pytest.mark.parametrize("kind", FORMATS)
def test_formats_agree(tmp_path, kind):
    """Numbers come as float64, integer labels as integers, names where there are."""
    table = read_table(write_table(tmp_path, kind, y=[7, 8, 7]), target="kind")
    assert table.X.dtype == np.float64
    assert sp.issparse(table.X) == (kind == ".svmlight")
    assert (
        np.asarray(table.X.todense() if sp.issparse(table.X) else table.X).tolist() == X
    )
    assert table.y.tolist() == [7, 8, 7]
    assert table.y.dtype == np.int64
    has_names = kind not in (".npz", ".svmlight")
    assert table.feature_names == (("a", "b") if has_names else None)


@pytest.mark.parametrize("kind", [k for k in FORMATS if k != ".svmlight"])
def test_labels_may_be_words(tmp_path, kind):
    """Strings stay strings."""
    table = read_table(write_table(tmp_path, kind), target="kind")
    assert table.y.tolist() == Y
    assert table.y.dtype.kind == "U"


@pytest.mark.parametrize("kind", FORMATS)
def test_labels_may_be_left_out(tmp_path, kind):
    """For predictions only the features are read, by name where there are names."""
    path = write_table(tmp_path, kind, y=[7, 8, 7])
    table = read_table(path, has_labels=False, features=["b", "a"])
    assert table.y is None
    rows = np.asarray(table.X.todense() if sp.issparse(table.X) else table.X)
    is_named = kind not in (".npz", ".svmlight")
    assert rows.tolist() == (np.array(X)[:, ::-1].tolist() if is_named else X)


@pytest.mark.parametrize("kind", [".csv", pytest.param(".parquet", marks=needs_pandas)])
def test_weights_and_columns_that_are_no_features(tmp_path, kind):
    """Weights come by themselves; what is dropped may hold anything."""
    path = write_table(tmp_path, kind)
    table = read_table(path, has_labels=False, weights="a", drop=["kind"])
    assert table.weights.tolist() == [1, 0, 300]
    assert table.X.tolist() == [[2], [-0.5], [4]]
    assert table.feature_names == ("b",)
    table = read_table(path, target="kind", drop=["a"])
    assert (table.feature_names, table.weights) == (("b",), None)
    with pytest.raises(DataError, match=r"no column 'c', 'd'; it has 'a'"):
        read_table(path, target="kind", weights="c", drop=["d"])
    with pytest.raises(DataError, match=r"'kind' was given as target and as weights"):
        read_table(path, target="kind", weights="kind")


@pytest.mark.parametrize("suffix", [".csv.gz", ".CSV", ".svmlight.xz"])
def test_compressed_tables_and_capitals(tmp_path, write, suffix):
    """A table may be compressed, and its suffix in capitals."""
    content = b"1 0:1 1:2\n" if "svm" in suffix else b"a,b,kind\n1,2,1\n"
    path = write(tmp_path / f"t{suffix}", content)
    assert read_table(path, target="kind").X.shape == (1, 2)


def test_a_table_without_names_must_have_the_right_width(tmp_path):
    """The number of columns is checked before their content."""
    path = write_table(tmp_path, ".csv")
    with pytest.raises(DataError, match=r"3 feature columns, 'a', 'b', 'kind'; expec"):
        read_table(path, has_labels=False, n_features=2)
    with pytest.raises(DataError, match=r"has 2 feature columns, expected 5"):
        read_table(write_table(tmp_path, ".npz"), n_features=5)


def test_wrong_questions(tmp_path):
    """An unknown suffix and a missing target are the caller's errors."""
    with pytest.raises(ParameterError, match=r"suffix '.xlsx', expected one of .csv"):
        read_table(tmp_path / "t.xlsx")
    with pytest.raises(ParameterError, match=r"suffix ''"):
        read_table(tmp_path / "table")
    with pytest.raises(ParameterError, match=r"No target was given"):
        read_table(write_table(tmp_path, ".csv"))
    for wrong in ({"weights": "w"}, {"drop": ["a"]}):
        with pytest.raises(ParameterError, match=r"which has no names of columns. Le"):
            read_table(write_table(tmp_path, ".npz"), **wrong)
    for kind in (".csv", ".npz", ".svmlight"):
        with pytest.raises(DataError, match=r"absent.*No such file"):
            read_table(tmp_path / f"absent{kind}", target="k")


@same_folder
@given(
    kind=st.sampled_from([".npz", ".csv", ".svmlight", ".csv.gz"]),
    place=st.floats(0, 1, exclude_max=True),
    new=st.binary(max_size=4),
)
def test_altered_tables_give_a_table_or_a_data_error(tmp_path, kind, place, new):
    """Nothing but DataError comes out of a damaged table."""
    path = write_table(tmp_path, kind, y=[7, 8, 7])
    content = path.read_bytes()
    start = int(place * len(content))
    path.write_bytes(content[:start] + new + content[start + max(len(new), 1) :])
    with contextlib.suppress(DataError):
        read_table(path, target="kind" if "csv" in kind else None)
