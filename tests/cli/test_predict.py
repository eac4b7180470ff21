"""``hardzero predict``: from a model and a table to a CSV file."""

import csv

import numpy as np
import pytest

from hardzero.datasets import read_table
from hardzero.serving import StackModel, load, save


def read_predictions(path):
    """Read what predict wrote."""
    with path.open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def test_one_line_per_row(run, model, flowers, tmp_path):
    """The class and the probability of each class, exactly as in Python."""
    out = tmp_path / "out.csv"
    assert run("predict", model, flowers, "-o", out) == (0, "", "")
    lines = read_predictions(out)
    table = read_table(flowers, target="kind")
    expected = load(model).predict_proba(table.X)
    assert list(lines[0]) == ["prediction", "probability_iris", "probability_rose"]
    found = [
        [float(line[f"probability_{k}"]) for k in ("iris", "rose")] for line in lines
    ]
    assert np.array_equal(np.array(found, expected.dtype), expected)
    right = [
        line["prediction"] == label for line, label in zip(lines, table.y, strict=True)
    ]
    assert np.mean(right) > 0.9


def test_writes_to_standard_output_by_default(run, model, flowers, tmp_path):
    """Without -o the same bytes appear on standard output."""
    run("predict", model, flowers, "-o", tmp_path / "out.csv")
    code, out, err = run("predict", model, flowers)
    assert (code, err) == (0, "")
    assert out == (tmp_path / "out.csv").read_text()


def test_columns_are_found_by_name(run, model, tmp_path):
    """Their order does not matter, and columns that the model lacks are left out."""
    (tmp_path / "a.csv").write_text("length,width\n1000000,0.001\n")
    (tmp_path / "b.csv").write_text("width,note,length\n0.001,old,1000000\n")
    first = run("predict", model, tmp_path / "a.csv")
    assert first[0] == 0
    assert run("predict", model, tmp_path / "b.csv") == first
    (tmp_path / "c.csv").write_text("width\n0.001\n")
    code, _, err = run("predict", model, tmp_path / "c.csv")
    assert code == 1
    assert "no column 'length'; it has 'width'" in err


def test_tables_without_names_are_taken_by_position(run, model, tmp_path):
    """An npz file must have as many columns as the model has inputs."""
    np.savez(tmp_path / "t.npz", X=[[1e6, 0.001]])
    assert run("predict", model, tmp_path / "t.npz")[0] == 0
    np.savez(tmp_path / "t.npz", X=[[1e6, 0.001, 0.0]])
    code, _, err = run("predict", model, tmp_path / "t.npz")
    assert code == 1
    assert "3 feature columns, expected 2" in err


@pytest.mark.parametrize("labels", [(3, 5), ("ä, b", 'c"')])
def test_labels_of_any_type(run, model, tmp_path, labels):
    """Numbers and words with separators come out of the CSV as they were."""
    other = StackModel(load(model).stack, labels)
    save(other, tmp_path / "m")
    np.savez(tmp_path / "t.npz", X=[[1e6, 0.0]])
    assert (
        run("predict", tmp_path / "m", tmp_path / "t.npz", "-o", tmp_path / "o")[0] == 0
    )
    [line] = read_predictions(tmp_path / "o")
    assert line["prediction"] in map(str, labels)
    assert f"probability_{labels[1]}" in line


def test_a_damaged_model_is_an_error(run, model, flowers, tmp_path):
    """One line that names the file; no output is left."""
    content = model.read_bytes()
    (tmp_path / "m").write_bytes(content[:-3])
    code, _, err = run("predict", tmp_path / "m", flowers, "-o", tmp_path / "o")
    assert code == 1
    assert "m is not a sound model file" in err
    assert not (tmp_path / "o").exists()
