"""``hardzero compare``: the table, the picture and the JSON."""

import json
import re
import statistics
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from hardzero.cli.compare import _TRAINING_ROWS, _changes
from hardzero.cli.contest import ACTIVATIONS, Run
from hardzero.datasets import cifar10, digits, mnist

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


def test_with_pre_training_and_without_side_by_side(run):
    """Two lines per activation, both phases timed, and what changed, how surely."""
    quick = (*QUICK, "--labels", 100, "--pretraining")
    code, out, err = run("compare", *quick, "--seeds", 2)
    assert (code, err) == (0, "")
    assert "hidden layers 20-10, 100 labels, 2 epochs, 2 seeds" in out
    lines = [line for line in out.splitlines() if line.startswith("│")]
    firsts = [line.split("│")[1].strip() for line in lines]
    assert firsts == [
        *("rectifier", "pre-trained"),
        *("tanh", "pre-trained"),
        *("softplus", "pre-trained"),
    ]
    assert ["+" in line for line in lines] == [False, True] * 3  # seconds
    words = " ".join(out.split())
    assert "That changed the test error by so many points" in words
    assert "p: paired bootstrap" in words
    changes = out.splitlines()[-3:]
    number = r"[+-]\d+\.\d\d"
    for name, line in zip(("rectifier", "tanh", "softplus"), changes, strict=True):
        assert re.fullmatch(
            rf"  {name} +{number}  \({number} to {number}\)  p = [\d.e-]+", line
        )
    out = run("compare", *quick, "--seeds", 1)[1]
    assert "p: exact McNemar" in " ".join(out.split())


def test_change_has_the_sign_of_the_table(run, tmp_path):
    """Fewer errors with pre-training are a change below 0, and a difference above 0
    of model a, the one without, in the JSON.
    """
    path = tmp_path / "runs.json"
    arguments = ("--pretraining", "--seeds", 2, "--json", path)
    out = run("compare", *QUICK, *arguments)[1]
    content = json.loads(path.read_text())
    assert content["contest"]["pretraining"] is True
    assert len(content["runs"]) == 12
    for name, line in zip(ACTIVATIONS, out.splitlines()[-3:], strict=True):
        without, pretrained = (
            statistics.mean(
                r["test_error"]
                for r in content["runs"]
                if (r["activation"], r["pretrained"]) == (name, start)
            )
            for start in (False, True)
        )
        comparison = content["comparisons"][name]
        assert comparison["difference"] == pytest.approx(without - pretrained)
        assert float(line.split()[1]) == round(100 * (pretrained - without), 2)
        low, high = (
            float(end) for end in re.findall(r"\(([^ ]+) to ([^)]+)\)", line)[0]
        )
        assert (low, high) == tuple(
            round(-100 * end, 2) for end in reversed(comparison["interval"])
        )


def test_fewer_labels_more_epochs(run):
    """Networks get as many updates as with all labels, unless epochs are given."""
    small = ("compare", "--hidden-sizes", 5, "--seeds", 1, "--threads", 1)
    assert "5, 600 labels, 80 epochs, 1 seed" in run(*small, "--labels", 600)[1]
    assert "5, 40 epochs, 1 seed" in run(*small)[1]
    few = run(*small, "--labels", 600, "--max-epochs", 3)[1]
    assert "5, 600 labels, 3 epochs, 1 seed" in few


def test_numbers_of_training_rows():
    """They are those of the data sets."""
    assert {
        "digits": digits.N_TRAIN,
        "mnist": mnist.N_TRAIN,
        "cifar10": len(cifar10.TRAIN_BATCHES) * cifar10.N_BATCH,
    } == _TRAINING_ROWS


def test_more_labels_than_rows(run):
    """What cannot be had is said, with how much there is."""
    code, _, err = run("compare", *QUICK, "--labels", 1201)
    assert code == 2
    assert "1,201 labels are wanted, but digits has 1,200 training rows" in err


def test_json_holds_every_run(run, tmp_path):
    """Settings, installation and all runs can be read by a program."""
    path = tmp_path / "runs.json"
    assert run("compare", *QUICK, "--seeds", 2, "--json", path)[0] == 0
    content = json.loads(path.read_text())
    assert content["contest"]["hidden_sizes"] == [20, 10]
    assert content["n_threads"] == 1
    assert "numpy" in content["installation"]
    assert len(content["runs"]) == 6
    assert "comparisons" not in content


@pytest.mark.parametrize(
    ("suffix", "options"),
    [(".png", ()), (".svg", ()), (".SVG", ()), (".png", ("--pretraining",))],
)
def test_picture(run, tmp_path, suffix, options):
    """A PNG or SVG file that says which data it shows."""
    pytest.importorskip("matplotlib")
    path = tmp_path / f"picture{suffix}"
    code, out, _ = run("compare", *QUICK, "--seeds", 1, "--picture", path, *options)
    assert code == 0
    assert out.endswith(f"Picture in {path}\n")
    if suffix == ".png":
        assert path.read_bytes().startswith(b"\x89PNG")
    else:
        assert ET.parse(path).getroot().tag.endswith("svg")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
def test_json_that_cannot_be_written(run, tmp_path):
    """Results are printed and the picture is drawn before the error says which file."""
    path = tmp_path / "picture.svg"
    files = ("--json", "/dev/full", "--picture", path)
    code, out, err = run("compare", *QUICK, "--seeds", 1, *files)
    assert code == 1
    assert "│ softplus " in out
    assert out.endswith(f"Picture in {path}\n")
    assert path.exists()
    assert err == (
        "hardzero: error: The JSON could not be written to /dev/full: No space left on "
        "device. Give another path with --json.\n"
    )


def test_files_that_cannot_be_written(run, tmp_path, monkeypatch):
    """Each of them is named, and no picture is claimed."""

    def fail(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("hardzero.cli.picture.draw", fail)
    monkeypatch.setattr("hardzero.cli.compare._write_json", fail)
    files = ("--json", tmp_path / "j", "--picture", tmp_path / "p.png")
    code, out, err = run("compare", *QUICK, "--seeds", 1, *files)
    assert code == 1
    assert "│ softplus " in out
    assert "Picture in" not in out
    assert (
        f"The JSON could not be written to {tmp_path / 'j'}: Permission denied." in err
    )
    assert f"The picture could not be written to {tmp_path / 'p.png'}: Perm" in err


def test_one_path_for_two_files(run, tmp_path, monkeypatch):
    """It is refused before anything is trained, however it is spelled."""
    monkeypatch.chdir(tmp_path)
    code, out, err = run(
        "compare", "--json", "same.svg", "--picture", tmp_path / "same.svg"
    )
    assert (code, out) == (2, "")
    assert "--json same.svg and --picture /" in err
    assert "are one and the same file, and one of the two would be lost" in err


def test_no_change_is_not_negative():
    """Where pre-training changes nothing, zeros have no minus sign."""
    runs = [
        Run(name, start, 0, 0.5, (1, 2), 4, (0.5,), 0, 5, 0.0, 0.1)
        for name in ACTIVATIONS
        for start in (False, True)
    ]
    lines = list(_changes(runs))[1:]
    assert len(lines) == 3
    for line in lines:
        assert line.split()[1] == "+0.00"
        assert "-0.00" not in line


@pytest.mark.parametrize("error", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("starts", [(False,), (False, True)])
def test_dots_are_whole(tmp_path, monkeypatch, error, starts):
    """No dot is cut off, neither at the axis nor at the other edges."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figures = []
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *_, **__: figures.append(figure)
    )
    from hardzero.cli.picture import draw

    runs = [
        Run(name, start, seed, error + seed / 100, (), 4, (0.98,), 0, 5, 0.0, 5 + seed)
        for name in ACTIVATIONS
        for start in starts
        for seed in range(2)
    ]
    draw(runs, "digits", tmp_path / "p.svg")
    figure = figures[0]
    figure.draw_without_rendering()
    for panel in figure.axes:
        low, high = panel.get_ylim()
        for line in panel.lines:
            assert not line.get_clip_on()
            assert all(low <= y <= high for y in line.get_ydata())
            dots = line.get_tightbbox()
            assert panel.bbox.x0 <= dots.x0
            assert dots.x1 <= panel.bbox.x1
            assert dots.y1 <= panel.bbox.y1


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
