"""``hardzero regions``, ``equal``, ``maximum``, ``minimise``: exact answers."""

import json
from fractions import Fraction

import numpy as np
import pytest

import hardzero
from hardzero import theory
from hardzero.serving import StackModel, save
from hardzero.stack import Layer, RectifierStack


@pytest.fixture
def absolute(tmp_path):
    """Return a file with the network ``|x|``."""
    path = tmp_path / "absolute.json"
    path.write_text(
        '{"layers": [{"W": [[1, -1]], "b": [0, 0]}, {"W": [[1], [1]], "b": [0]}]}'
    )
    return path


@pytest.fixture
def identity(tmp_path):
    """Return a file with the network x."""
    path = tmp_path / "identity.json"
    path.write_text('{"layers": [{"W": [[1]], "b": [0]}]}')
    return path


@pytest.fixture
def classifier(tmp_path):
    """Return a model file with a unit that is never active between -1 and 1."""
    hidden = Layer([[1.0, -1.0, 1.0]], [0.0, 0.0, -3.0], "rectifier", signs=[1, 1, -1])
    output = Layer([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0.0, 0.5], "identity")
    path = tmp_path / "classifier.hz"
    save(StackModel(RectifierStack((hidden, output), "softmax"), ["no", "yes"]), path)
    return path


def test_regions_are_counted_by_three_names(run, absolute, identity):
    """Counts on all inputs and on a box; a progress bar goes to standard error."""
    code, out, _ = run("regions", absolute)
    assert code == 0
    assert out.split() == [
        *["activation", "patterns", "2", "linear", "regions", "2"],
        "affine",
        "maps",
        "2",
    ]
    code, out, _ = run("regions", absolute, "--box", "1/2", "3", "--json")
    assert json.loads(out) == {
        "activation patterns": 1,
        "linear regions": 1,
        "affine maps": 1,
    }
    assert run("regions", identity)[1].split()[-1] == "1"


def test_cells_are_written_one_a_line(run, classifier, tmp_path):
    """Each line has a cell's pattern, inequalities, map and a point inside."""
    path = tmp_path / "cells.jsonl"
    code, _, _ = run("regions", classifier, "--box", -1, 1, "--cells", path)
    assert code == 0
    cells = [json.loads(line) for line in path.read_text().splitlines()]
    assert [cell["pattern"] for cell in cells] == [[[0, 1, 0]], [[1, 0, 0]]]
    network = theory.as_network(hardzero.load(classifier))
    for cell in cells:
        (x,) = map(Fraction, cell["point"])
        rows = [Fraction(row[0]) * x for row in cell["A"]]
        assert all(a < Fraction(b) for a, b in zip(rows, cell["b"], strict=True))
        values = [
            Fraction(w) * x + Fraction(c)
            for w, c in zip(cell["W"][0], cell["c"], strict=True)
        ]
        assert network([x]) == tuple(values)


def test_equality_is_an_exit_code_and_a_point(run, absolute, identity):
    """0 if equal, 1 with a witness if not."""
    code, out, _ = run("equal", absolute, identity, "--box", 0, 1)
    assert (code, out) == (0, "They are equal, proved on 1 cells.\n")
    code, out, _ = run("equal", absolute, identity)
    assert code == 1
    assert out.splitlines() == [
        "They differ.",
        "at              (-0.5)",
        "first           1/2 (0.5)",
        "second          -1/2 (-0.5)",
        "first - second  1",
    ]
    code, out, _ = run("equal", absolute, identity, "--json")
    found = json.loads(out)
    assert code == 1
    assert found["equal"] is False
    assert found["values"] == [["1/2"], ["-1/2"]]
    assert run("equal", absolute, absolute, "--decision")[0] == 0
    code, out, _ = run("equal", absolute, identity, "--decision")
    assert (code, out.splitlines()[0]) == (1, "They decide differently.")


def test_maxima_with_their_places(run, absolute, classifier, tmp_path):
    """A value and a point, or infinity and a direction; of several outputs a sum."""
    code, out, _ = run("maximum", absolute, "--box", -2, "1/3")
    assert (code, out) == (0, "maximum  2\nat       (-2)\ncells    2\n")
    assert run("maximum", absolute)[1].startswith("maximum  infinity\nfrom")
    out = run("maximum", absolute, "--minimum", "--json")[1]
    assert json.loads(out)["value"] == "0"
    out = run("maximum", classifier, "--box", -1, 1, "-c", -1, "1/3")[1]
    assert out.startswith("maximum  1/2 (0.5)\nat       (-1)\n")
    code, _, err = run("maximum", classifier, "--box", -1, 1)
    assert code == 2
    assert "2 outputs. Say which sum of them with -c" in err
    domain = tmp_path / "domain.json"
    domain.write_text('{"A": [[2], [-1]], "b": [0.1, 0]}')
    assert run("maximum", absolute, "--domain", domain)[1].startswith(
        "maximum  1/20 (0.05)"
    )


def test_a_smaller_model_file_predicts_the_same(run, classifier, tmp_path):
    """Classes and output link stay; a unit that is never active is gone."""
    smaller = tmp_path / "smaller.hz"
    code, out, _ = run("minimise", classifier, "--box", -1, 1, "-o", smaller)
    assert code == 0
    assert out == (
        "before  1 -> 3 -> 2\nafter   1 -> 2 -> 2\nlayer 1  1 constant\n"
        "proved equal on 2 cells\n"
    )
    X = np.linspace(-1, 1, 9)[:, np.newaxis]
    before, after = hardzero.load(classifier), hardzero.load(smaller)
    np.testing.assert_array_equal(before.predict_proba(X), after.predict_proba(X))
    np.testing.assert_array_equal(before.predict(X), after.predict(X))
    exact = tmp_path / "smaller.json"
    assert run("minimise", classifier, "--box", -1, 1, "-o", exact)[0] == 0
    assert run("equal", exact, smaller)[0] == 0
    assert run("minimise", classifier, "--interval", "--box", -1, 1)[0] == 0
    code, _, err = run("minimise", classifier, "-o", classifier)
    assert code == 2
    assert "is also the input" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--box", "0", "x"], 2, "'x' is no number such as -1, 0.5 or 1/3"),
        (["--box", "1", "0"], 2, "lower bound 1 and upper bound 0"),
        (["--budget", "1"], 1, "more than 1 cells, the budget"),
        (["--domain", "no-such-file"], 1, "No such file"),
    ],
)
def test_wrong_arguments_are_told(run, absolute, arguments, code, message):
    """Exit code 2 for arguments, 1 for what happened."""
    found = run("regions", absolute, *arguments)
    assert found[0] == code
    assert message in found[2]


@pytest.mark.parametrize("content", ["", "3", '{"lower": [0]}', "[" * 10_000])
def test_files_that_say_no_domain(run, absolute, tmp_path, content):
    """The error names the file and shows what to write."""
    path = tmp_path / "domain.json"
    path.write_text(content)
    code, _, err = run("regions", absolute, "--domain", path)
    assert code == 1
    assert str(path) in err


def test_numbers_are_short_or_say_that_they_are_long(run, tmp_path):
    """A fraction of many bits is shown as a decimal; a huge one by its size."""
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"layers": [{"W": [["1/3"]], "b": [f"1/{7**60}"]}]}))
    assert "a fraction of" in run("maximum", path, "--box", 0, 1)[1]
    path.write_text(json.dumps({"layers": [{"W": [[str(10**400)]], "b": [0]}]}))
    assert "about 10^" in run("maximum", path, "--box", 0, 1)[1]


def test_a_picture_of_two_inputs_with_rows(run, tmp_path):
    """Cells and decision are drawn with the rows of a table on top."""
    pytest.importorskip("matplotlib")
    path, table = tmp_path / "fold.json", tmp_path / "rows.csv"
    path.write_text(
        '{"layers": [{"W": [[1, 1], [-1, 1]], "b": [0, "1/3"]},'
        ' {"W": [[1], [-1]], "b": [0]}]}'
    )
    table.write_text("a,b,kind\n0,0,x\n1,-1,o\n0.5,0.5,x\n")
    picture = tmp_path / "fold.svg"
    arguments = ("--data", table, "--target", "kind", "--picture", picture)
    code, out, _ = run("regions", path, "--box", -1, 1, *arguments)
    assert (code, out.split()[2]) == (0, "4")
    assert picture.read_text().startswith("<?xml")
    code, _, err = run("regions", path, "--picture", picture)
    assert code == 2
    assert "Say which one with --box or --domain" in err


def test_a_plane_through_more_inputs(run, tmp_path):
    """Regions are those of the slice."""
    path, plane = tmp_path / "network.json", tmp_path / "plane.json"
    path.write_text(
        '{"layers": [{"W": [[1, 0], [0, 1], [5, 7]], "b": [0, 0]},'
        ' {"W": [[1], [1]], "b": [0]}]}'
    )
    plane.write_text('{"origin": [0, 0, 0], "u": [1, 0, 0], "v": [0, 0.5, 0]}')
    code, out, _ = run("regions", path, "--plane", plane)
    assert (code, out.split()[2]) == (0, "4")
    plane.write_text('{"origin": [0, 0, 0]}')
    code, _, err = run("regions", path, "--plane", plane)
    assert code == 1
    assert "says no plane" in err


def test_rounded_weights_are_not_called_equal(run, tmp_path):
    """Exact weights go to .json; rounded ones are told, and by how much they differ."""
    model, exact = tmp_path / "thirds.json", tmp_path / "smaller.json"
    model.write_text(
        '{"layers": [{"W": [[1, 1]], "b": [0, -9]}, {"W": [["1/3"], [1]], "b": [0]}]}'
    )
    rounded, proof = tmp_path / "smaller.hz", tmp_path / "proof.json"
    code, out, err = run("minimise", model, "--box", 0, 1, "-o", rounded)
    assert code == 2
    assert "proved equal" in out
    assert "smaller.hz was not written" in err
    assert "--rounding, and an OUT that ends in .json" in err
    assert not rounded.exists()
    given = ("minimise", model, "--box", 0, 1, "--certificate", proof, "-o")
    out = run(*given, rounded, "--rounding")[1]
    assert "weights rounded, so not equal: outputs differ by at most" in out
    assert out.endswith("the certificate is about the exact weights\n")
    assert "1/54043195528445952" in out
    assert run("equal", model, rounded, "--box", 0, 1)[0] == 1
    assert "rounded" not in run(*given, exact)[1]
    assert run("verify", proof, model, exact)[0] == 0
    code, _, err = run("verify", proof, model)
    assert code == 2
    assert "is valid and about 2 networks, but 1 were given" in err


def test_exact_networks_are_described(run, absolute):
    """``hardzero info`` knows .json files, too."""
    code, out, _ = run("info", absolute)
    assert code == 0
    assert "network with exact weights" in out
    assert "1, 2, 1" in out


def test_a_verdict_without_certificate_is_still_told(run, absolute, tmp_path):
    """What was found is printed before a proof of it is written, or refused."""
    proof = tmp_path / "proof.json"
    code, out, err = run(
        "equal", absolute, absolute, "--decision", "--certificate", proof
    )
    assert (code, out.splitlines()[0][:20]) == (2, "They decide the same")
    assert "Certificates are about functions" in err
    code, out, err = run("maximum", absolute, "--certificate", proof)
    assert (code, out.splitlines()[0]) == (2, "maximum  infinity")
    assert "has no certificate" in err
    assert not proof.exists()
