"""``hardzero predict``: from a model and a table to a CSV file."""

import csv
import warnings

import numpy as np
import pytest

from hardzero.datasets import read_table
from hardzero.engine.forward import ForwardPass
from hardzero.serving import StackModel, load, save
from hardzero.stack import Layer, RectifierStack


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


def test_one_pass_through_the_network(run, model, flowers, monkeypatch):
    """Classes and probabilities come from the same outputs."""
    passes = []
    forward = ForwardPass.__call__

    def counted(self, *arguments, **options):
        passes.append(1)
        return forward(self, *arguments, **options)

    monkeypatch.setattr(ForwardPass, "__call__", counted)
    assert run("predict", model, flowers)[0] == 0
    assert passes == [1]


def stack_of(link, n_outputs=2):
    """Make a network of one layer with two inputs."""
    W = [[1.0, 0.0, -2.0][:n_outputs], [0.0, 2.0, 0.5][:n_outputs]]
    return RectifierStack((Layer(W, np.zeros(n_outputs), "identity"),), link)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (StackModel(stack_of("identity", 1)), "prediction\n3.0\n0.0\n"),
        (
            StackModel(stack_of("identity")),
            "prediction_0,prediction_1\n3.0,-2.0\n0.0,0.0\n",
        ),
        (StackModel(stack_of("exp", 1)), f"prediction\n{np.exp(3.0)}\n1.0\n"),
        (
            StackModel(stack_of("sigmoid"), ("sun", "rain")),
            "prediction_sun,prediction_rain,probability_sun,probability_rain\n"
            f"1,0,{1 / (1 + np.exp(-3.0))},{1 / (1 + np.exp(2.0))}\n0,0,0.5,0.5\n",
        ),
        (
            StackModel(stack_of("softmax"), (1, 5), kind="rating"),
            "prediction,probability_1,probability_5\n"
            "1.0267714036988853,0.9933071490757152,0.006692850924284855\n3.0,0.5,0.5\n",
        ),
    ],
)
def test_every_kind_of_model(run, tmp_path, model, expected):
    """Numbers, several labels and ratings have columns of their own."""
    save(model, tmp_path / "m")
    np.savez(tmp_path / "t.npz", X=[[3.0, -1.0], [0.0, 0.0]])
    code, out, err = run("predict", tmp_path / "m", tmp_path / "t.npz")
    assert (code, err) == (0, "")
    names, *rows = out.splitlines()
    wanted_names, *wanted = expected.splitlines()
    assert names == wanted_names
    read = [[float(cell) for cell in row.split(",")] for row in rows]
    assert np.allclose(
        read, [[float(cell) for cell in row.split(",")] for row in wanted], rtol=1e-14
    )


def test_indices_that_seem_to_count_from_0(run, tmp_path):
    """A model that has never seen column 0 warns of a table that has it."""
    path, model = tmp_path / "t.svm", tmp_path / "m"
    path.write_text("1 1:1 2:2\n0 1:2 2:1\n" * 20)
    command = ("fit", path, "-o", model, "--max-epochs", 1, "--threads", 1)
    assert run(*command)[0] == 0
    assert run("predict", model, path)[2] == ""
    path.write_text("1 0:1 1:2\n")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, out, err = run("predict", model, path)
    assert code == 0
    assert out.count("\n") == 2
    assert err.startswith("hardzero: warning: The table has values with index 0, but")
    path.write_text("1 1:1 3:2\n")
    code, _, err = run("predict", model, path)
    assert code == 1
    assert "indices from 0 to 2. An index is the number of a column" in err
