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


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_programs_of_other_libraries_and_arrays(run, tmp_path):
    """TorchScript on .npy, .npz and tables; what does not fit is explained."""
    import torch

    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(4, 20), torch.nn.ReLU(), torch.nn.Linear(20, 3)
    )
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.integers(0, 3, 300)
    np.save(tmp_path / "X.npy", X)
    np.savez(tmp_path / "both.npz", X=X, y=y)
    np.savez(tmp_path / "wide.npz", X=np.ones((5, 9)))
    rows = "".join(
        ",".join(map(str, [*row, k])) + "\n" for row, k in zip(X, y, strict=True)
    )
    (tmp_path / "rows.csv").write_text("a,b,c,d,kind\n" + rows)
    path = tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(network), path)
    code, out, _ = run("diagnose", path, tmp_path / "X.npy", "--json")
    assert (code, json.loads(out)["facts"]["loss"]) == (0, None)
    code, out, _ = run("diagnose", path, tmp_path / "both.npz", "--json")
    loss = json.loads(out)["facts"]["loss"]
    assert loss == pytest.approx(np.log(3), abs=0.3)
    code, out, _ = run(
        "diagnose", path, tmp_path / "rows.csv", "--target", "kind", "--json"
    )
    assert json.loads(out)["facts"]["loss"] == pytest.approx(loss, rel=1e-5)
    with torch.no_grad():
        network[0].bias.fill_(-50)
    torch.jit.save(torch.jit.script(network), path)
    code, out, _ = run("diagnose", path, tmp_path / "X.npy")
    assert code == 1
    assert "20 of 20 units of relu after 0" in out
    code, _, err = run("diagnose", path, tmp_path / "wide.npz")
    assert code == 2
    assert "does not run on" in err
    (tmp_path / "text.csv").write_text("a,b,c,d,kind\n1,2,3,4,rose\n2,2,3,4,iris\n")
    code, _, err = run("diagnose", path, tmp_path / "text.csv", "--target", "kind")
    assert code == 2
    assert "Give whole numbers from 0 on" in err


def test_a_model_of_hardzero_reads_npy(run, model, tmp_path):
    """Rows without labels."""
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(50, 2)))
    code, out, _ = run("diagnose", model, tmp_path / "X.npy", "--json")
    assert code in (0, 1)
    assert json.loads(out)["facts"]["n_examples"] == 50
