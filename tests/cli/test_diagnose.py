"""``hardzero diagnose``: a verdict that can stand in a CI."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")


def test_a_healthy_model_passes(run, model, flowers, tmp_path):
    """Exit code 0, and what was looked at."""
    code, out, err = run("diagnose", model, flowers, "--target", "kind")
    assert (code, err) == (0, "")
    assert out.startswith("healthy: ")
    code, out, _ = run("diagnose", model, flowers, "--json")
    found = json.loads(out)
    assert (code, found["healthy"]) == (0, True)
    assert found["facts"]["n_examples"] == 120
    page = tmp_path / "page.html"
    assert run("diagnose", model, flowers, "--html", page)[0] == 0
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_a_model_with_dead_units_fails(run, model, flowers, tmp_path):
    """Exit code 1, with cause and remedy."""
    from dataclasses import replace

    from hardzero.serving import load, save
    from hardzero.stack import Layer, RectifierStack

    sound = load(model)
    first, *others = sound.stack.layers
    dead = Layer(first.W, np.full_like(first.b, -1e9), first.activation)
    path = tmp_path / "dead.model"
    stack = RectifierStack((dead, *others), sound.stack.output_link)
    save(replace(sound, stack=stack), path)
    code, out, _ = run("diagnose", path, flowers, "--target", "kind")
    assert code == 1
    assert out.startswith("not healthy: ")
    assert "serious: 100 of 100 units" in out
    assert "cause    Their biases are strongly negative" in out
    code, _, err = run("diagnose", path, path)
    assert code == 2
    assert "hardzero: error" in err
