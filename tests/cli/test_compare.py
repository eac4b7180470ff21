"""``hardzero compare``: the table, the picture and the JSON."""

import json
import xml.etree.ElementTree as ET

import pytest

QUICK = ("--hidden-sizes", "20,10", "--max-epochs", 2, "--threads", 1)


def test_the_table_has_one_line_per_activation(run):
    """Error, zeros, dead units and seconds, mean and spread over seeds."""
    code, out, err = run("compare", *QUICK, "--seeds", 2)
    assert (code, err) == (0, "")
    assert "digits: hidden layers 20-10, 2 epochs, 2 seeds" in out
    rows = {
        line.split()[1]: line
        for line in out.splitlines()
        if line.startswith("│") and "±" in line
    }
    assert rows.keys() == {"rectifier", "tanh", "softplus"}
    assert "0.0 ± 0.0" in rows["tanh"]
    assert "0 of 30" in rows["softplus"]


def test_one_seed_has_no_spread(run):
    """A single network has a mean only."""
    out = run("compare", *QUICK, "--seeds", 1)[1]
    assert "1 seed " in out
    assert not [
        line for line in out.splitlines() if line.startswith("│") and "±" in line
    ]


def test_json_holds_every_run(run, tmp_path):
    """Settings, installation and all runs can be read by a program."""
    path = tmp_path / "runs.json"
    assert run("compare", *QUICK, "--seeds", 2, "--json", path)[0] == 0
    content = json.loads(path.read_text())
    assert content["contest"]["hidden_sizes"] == [20, 10]
    assert content["n_threads"] == 1
    assert "numpy" in content["installation"]
    assert len(content["runs"]) == 6


@pytest.mark.parametrize("suffix", [".png", ".svg", ".SVG"])
def test_picture(run, tmp_path, suffix):
    """A PNG or SVG file that says which data it shows."""
    pytest.importorskip("matplotlib")
    path = tmp_path / f"picture{suffix}"
    code, out, _ = run("compare", *QUICK, "--seeds", 1, "--picture", path)
    assert code == 0
    assert out.endswith(f"Picture in {path}\n")
    if suffix == ".png":
        assert path.read_bytes().startswith(b"\x89PNG")
    else:
        assert ET.parse(path).getroot().tag.endswith("svg")
    assert list(tmp_path.iterdir()) == [path]


def test_without_matplotlib_nothing_is_trained_in_vain(run, tmp_path, monkeypatch):
    """A picture that cannot be drawn is refused first; the way to it is named."""
    monkeypatch.setattr("hardzero.cli.compare.find_spec", lambda _: None)
    path = tmp_path / "p.png"
    code, out, err = run("compare", *QUICK, "--seeds", 1, "--picture", path)
    assert (code, out) == (2, "")
    assert "matplotlib is not installed. Run pip install 'hardzero[plots]', or" in err
    assert run("compare", *QUICK, "--seeds", 1)[0] == 0


def test_data_that_cannot_be_had(run, tmp_path, monkeypatch):
    """Offline and without files the error says what to do."""
    monkeypatch.setenv("HARDZERO_CACHE", str(tmp_path))
    monkeypatch.delenv("HARDZERO_DATA", raising=False)
    monkeypatch.setattr("hardzero.datasets.mnist.MIRRORS", ("http://127.0.0.1:1/",))
    code, _, err = run("compare", "--data", "mnist")
    assert code == 1
    assert "HARDZERO_DATA" in err
