"""CSV and TSV: what spreadsheets write, and what is wrong with the rest."""

import numpy as np
import pytest

from hardzero.datasets import read_table
from hardzero.errors import DataError


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("1,-2,30", [1, -2, 30]),
        ("01,2,3", ["01", "2", "3"]),
        ("1.0,2,3", ["1.0", "2", "3"]),
        ("1_0,2,3", ["1_0", "2", "3"]),
        ("9223372036854775808,2,3", ["9223372036854775808", "2", "3"]),
        ("yes, no ,yes", ["yes", "no", "yes"]),
    ],
)
def test_labels_of_a_csv_table_are_what_is_written(tmp_path, text, labels):
    """Labels are integers only if they are written as such."""
    path = tmp_path / "t.csv"
    path.write_text("a,k\n" + "".join(f"0,{label}\n" for label in text.split(",")))
    assert read_table(path, target="k").y.tolist() == labels


def test_quotes_bom_blank_lines_and_line_ends(tmp_path):
    """What spreadsheets write is read."""
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeff"a, b",k\r\n\r\n" 1 ","x, ""y"""\r\n'.encode())
    table = read_table(path, target="k")
    assert table.feature_names == ("a, b",)
    assert table.X.tolist() == [[1]]
    assert table.y.tolist() == ['x, "y"']


def test_many_rows_come_in_order(tmp_path):
    """More rows than are parsed at once."""
    path = tmp_path / "t.csv"
    path.write_text("a,k\n" + "".join(f"{i},{i % 3}\n" for i in range(20_001)))
    table = read_table(path, target="k")
    assert np.array_equal(table.X[:, 0], np.arange(20_001))
    assert np.array_equal(table.y, np.arange(20_001) % 3)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_are_found_in_the_first_line(tmp_path, separator):
    """Spreadsheets in many languages write CSV with semicolons."""
    path = tmp_path / "t.csv"
    lines = (("a", '"b, c"', "k"), ("1", "2.5", '"x,y"'))
    path.write_text("\n".join(map(separator.join, lines)))
    table = read_table(path, target="k")
    assert table.feature_names == ("a", "b, c")
    assert table.X.tolist() == [[1, 2.5]]
    assert table.y.tolist() == ["x,y"]


def test_commas_separate_if_there_are_any(tmp_path):
    """Semicolons in names are part of them; a TSV file has tabs, whatever else."""
    path = tmp_path / "t.csv"
    path.write_text("a;b,k\n1,x\n")
    assert read_table(path, target="k").feature_names == ("a;b",)
    path = tmp_path / "t.tsv"
    path.write_text("a,b\tk\n1\tx\n")
    assert read_table(path, target="k").feature_names == ("a,b",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;k\n1,5;x\n", r"'1,5' is not a finite .*: write its decimals with a point"),
        ('"a;k\n1;x\n', r"line 2: unexpected end of data"),
        ("a,k\n1,x\ntwo,x\n", r"line 3, column 'a': 'two' is not a finite number"),
        ("a,k\n1,x\nnan,x\n", r"line 3, column 'a': 'nan' is not a finite number"),
        ("a,k\n1e999,x\n", r"line 2, column 'a': '1e999' is not a finite"),
        ("a,k\n1,x\n ,x\n", r"line 3, column 'a': the value is missing"),
        ("a,k\n1,\n", r"line 2: the label is missing"),
        ("a,k\n1,x,3\n", r"line 2 has 3 fields, expected 2"),
        ("a,k\n1\n", r"line 2 has 1 fields, expected 2"),
        ("a,a,k\n1,2,x\n", r"more than one column 'a'"),
        ("a,b\n1,2\n", r"no column 'k'; it has 'a', 'b'"),
        ("k\nx\n", r"1 rows and 0 feature columns"),
        ("a,k\n", r"0 rows and 1 feature columns"),
        ("", r"no column 'k'; it has none"),
        ('a,k\n"1,x\n', r"line 2: unexpected end of data"),
        ('a,k\n"1"2,x\n', r"line 2: .* Expected fields separated by ','"),
    ],
)
def test_malformed_csv(tmp_path, text, message):
    """The message names the line and the column."""
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_table(path, target="k")


def test_text_that_is_not_utf8(tmp_path):
    """The byte is named."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,k\n1,stra\xdfe\n")
    with pytest.raises(DataError, match=r"not UTF-8 text: it has the byte 0xdf"):
        read_table(path, target="k")


def test_a_table_without_names_loses_no_row(tmp_path):
    """A first line of numbers is refused, unless they number the columns."""
    path = tmp_path / "t.csv"
    path.write_text("5.1,3,2\n4.9,7,2\n")
    with pytest.raises(
        DataError,
        match=r"only numbers in its first line \(5.1, 3, 2\), which must hold",
    ):
        read_table(path, target="2")
    path.write_text("0,1,2\n4.9,7,2\n")
    assert read_table(path, target="2").X.tolist() == [[4.9, 7]]
    path.write_text("7,9\n1,2\n")
    assert read_table(path, has_labels=False, features=["9"]).X.tolist() == [[2]]


def test_rows_know_their_lines(tmp_path):
    """Empty lines and line breaks in quotes count; bad weights are named by line."""
    path = tmp_path / "t.csv"
    path.write_text('a,k,w\n1,x,1\n\n2,"y\nz",1\n3,x,heavy\n')
    assert read_table(path, target="k", drop=["w"]).lines.tolist() == [2, 5, 6]
    with pytest.raises(DataError, match=r"line 6, column 'w': 'heavy' is not a finite"):
        read_table(path, target="k", weights="w")
