"""``hardzero info``: what a model file holds, and what a bug report needs."""

import json

import numpy as np

import hardzero
from hardzero.cli.info import describe_installation, describe_model
from hardzero.serving import StackModel, save
from hardzero.stack import Layer, RectifierStack


def test_lists_versions_instruction_set_and_threads(run):
    """One fact a line, on standard output."""
    code, out, err = run("info")
    assert (code, err) == (0, "")
    facts = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert facts["hardzero"] == hardzero.__version__
    assert int(facts["threads"]) >= 1
    assert {"python", "numpy", "compiled", "torch", "cache"} <= facts.keys()


def test_json_says_the_same(run):
    """``--json`` is for programs."""
    assert json.loads(run("info", "--json")[1]) == describe_installation()


def test_missing_packages_are_said_to_be_missing(run, monkeypatch):
    """A package that is not there does not stop the others from being listed."""
    monkeypatch.setattr("hardzero.cli.info._OPTIONAL", ("no-such-package",))
    assert "no-such-package  not installed\n" in run("info")[1]


def test_a_model_is_described(run, model):
    """Kind, sizes, classes, names and versions, one a line."""
    code, out, err = run("info", model)
    assert (code, err) == (0, "")
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    facts = {name: fact.strip() for name, fact in facts.items()}
    assert facts["kind"] == "classifier"
    assert facts["layer sizes"] == "2, 100, 2"
    assert facts["activations"] == "rectifier, identity"
    assert facts["output link"] == "softmax"
    assert facts["parameters"] == "502"
    assert facts["classes"] == "iris, rose"
    assert facts["feature names"] == "length, width"
    assert facts["file"] == str(model)
    assert facts["file version"] == "2"
    assert f"hardzero {hardzero.__version__}, numpy {np.__version__}" in out
    assert "they depend on the rows" in facts["exact zeros"]


def test_a_model_is_described_to_programs(run, tmp_path):
    """``--json`` has every class; other lists are cut only for people."""
    layers = (
        Layer(np.eye(2, 30), np.zeros(30), "tanh", signs=[1, -1] * 15),
        Layer(np.eye(30), np.zeros(30), "identity"),
    )
    path = tmp_path / "m"
    save(StackModel(RectifierStack(layers, "softmax"), range(30)), path)
    found = json.loads(run("info", path, "--json")[1])
    assert found == describe_model(path)
    assert found["classes"] == list(range(30))
    assert found["negative signs"] == [15, 0]
    assert found["feature names"] is None
    out = run("info", path)[1]
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... (30 in all)" in out
    assert "feature names   none" in out


def test_a_regressor_has_no_classes(run, tmp_path):
    """It says so."""
    save(
        StackModel(RectifierStack((Layer([[1.0]], [0.0], "identity"),))), tmp_path / "m"
    )
    out = run("info", tmp_path / "m")[1]
    assert "regressor" in out
    assert "classes         none" in out


def test_what_is_no_model(run, flowers):
    """The error names the file."""
    code, out, err = run("info", flowers)
    assert (code, out) == (1, "")
    assert "flowers.csv is not a sound model file: it is not a safetensors file" in err


def test_a_checkpoint_is_no_damaged_model(run, flowers, tmp_path):
    """The error says what it is, and how to go on from it."""
    path = tmp_path / "run.ckpt"
    command = ("fit", flowers, "--target", "kind", "-o", tmp_path / "m")
    assert run(*command, "--max-epochs", 1, "--checkpoint", path)[0] == 0
    code, out, err = run("info", path)
    assert (code, out) == (1, "")
    assert "run.ckpt is a checkpoint of training, not a model. To go on" in err
    assert "hardzero fit --checkpoint" in err
    assert "damaged" not in err
