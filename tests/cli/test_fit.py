"""``hardzero fit``: from a table to a model file."""

import dataclasses

import numpy as np
import pytest

from hardzero.datasets import read_table
from hardzero.estimators.classifier import RectifierClassifier
from hardzero.serving import load


def test_the_model_takes_the_table_as_it_is(model, flowers):
    """Columns of any size are learned from; the model predicts unscaled rows."""
    table = read_table(flowers, target="kind")
    loaded = load(model)
    assert loaded.feature_names == ("length", "width")
    assert loaded.classes.tolist() == ["iris", "rose"]
    assert np.mean(loaded.predict(table.X) == table.y) > 0.9


def test_the_report_says_how_it_went(run, flowers, tmp_path):
    """Sizes, epochs, validation error, zeros, dead units, and where the model is."""
    code, out, err = run(
        *("fit", flowers, "--target", "kind", "-o", tmp_path / "m"),
        *("--hidden-sizes", "12,6", "--max-epochs", 3, "--early-stopping"),
        *("--threads", 1),
    )
    assert (code, err) == (0, "")
    assert "120 rows, 2 features, 2 classes; scaling standard" in out
    assert "2 -> 12 -> 6 -> 2" in out
    assert "3 epochs in" in out
    assert "Validation   error " in out
    assert "Error        " in out
    assert out.count("% / ") == 1
    assert out.endswith(f"Saved to {tmp_path / 'm'}\n")


def test_options_reach_the_estimator(run, flowers, tmp_path, monkeypatch):
    """Each option is a parameter; those not given keep the estimator's default."""
    seen = {}

    def fit(self, X, y):
        seen.update(self.get_params(), X=X, y=y)
        raise KeyboardInterrupt

    monkeypatch.setattr(RectifierClassifier, "fit", fit)
    code, _, _ = run(
        *("fit", flowers, "--target", "kind", "-o", tmp_path / "m", "--seed", 7),
        *("--activation", "tanh", "--sign-flip", "--l1-activation", 0.5, "--l2", 0.25),
        *("--solver", "sgd", "--momentum", 0.5, "--learning-rate", 0.125),
        *("--batch-size", 3, "--patience", 4, "--threads", 2, "--scale", "none"),
    )
    assert code == 130
    expected = RectifierClassifier(
        activation="tanh",
        sign_flip=True,
        l1_activation=0.5,
        l2=0.25,
        solver="sgd",
        momentum=0.5,
        learning_rate=0.125,
        batch_size=3,
        patience=4,
        n_threads=2,
        random_state=7,
    )
    assert expected.get_params().items() <= seen.items()
    assert seen["X"].dtype == np.float32
    assert seen["y"].tolist()[:2] == ["iris", "rose"]


def test_the_same_seed_gives_the_same_file(run, flowers, tmp_path):
    """Byte by byte, whatever the number of threads."""
    for name, threads in (("a", 1), ("b", 2)):
        command = ("fit", flowers, "--target", "kind", "-o", tmp_path / name)
        assert run(*command, "--max-epochs", 2, "--threads", threads)[0] == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("kind", [".npz", ".svmlight"])
def test_tables_without_names(run, tmp_path, kind):
    """Arrays and sparse rows can be fitted without a target."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    path = tmp_path / f"t{kind}"
    if kind == ".npz":
        np.savez(path, X=X, y=y)
    else:
        path.write_text(
            "".join(
                f"{label} 0:{a} 1:{b} 2:{c}\n"
                for label, (a, b, c) in zip(y, X, strict=True)
            )
        )
    command = ("fit", path, "-o", tmp_path / "m", "--max-epochs", 1, "--threads", 1)
    assert run(*command)[0] == 0
    loaded = load(tmp_path / "m")
    assert loaded.feature_names is None
    assert loaded.classes.tolist() == [0, 1]


def test_ctrl_c_saves_the_best_weights_so_far(run, flowers, tmp_path, monkeypatch):
    """Training that was interrupted leaves a model, and the exit code says so."""
    fit = RectifierClassifier.fit

    def interrupted(self, X, y):
        fit(self, X, y)
        self.history_ = dataclasses.replace(self.history_, stopped="interrupted")
        return self

    monkeypatch.setattr(RectifierClassifier, "fit", interrupted)
    command = ("fit", flowers, "--target", "kind", "-o", tmp_path / "m")
    code, out, _ = run(*command, "--max-epochs", 2, "--threads", 1)
    assert code == 130
    assert "interrupted" in out
    assert load(tmp_path / "m").stack.n_inputs == 2


def test_errors(run, flowers, tmp_path):
    """A wrong target, a missing one and a wrong parameter are explained."""
    output = ("-o", tmp_path / "m")
    assert "No target was given" in run("fit", flowers, *output)[2]
    assert "no column 'sort'" in run("fit", flowers, "--target", "sort", *output)[2]
    assert (
        "activation"
        in run("fit", flowers, "--target", "kind", "--activation", "reluu", *output)[2]
    )
    assert not (tmp_path / "m").exists()


def test_an_input_is_never_overwritten(run, model, flowers):
    """An output that is one of the inputs is refused before anything is read."""
    before = flowers.read_bytes(), model.read_bytes()
    for command in (
        ("fit", flowers, "--target", "kind", "-o", flowers),
        ("predict", model, flowers, "-o", flowers),
        ("predict", model, flowers, "-o", model),
    ):
        code, _, err = run(*command)
        assert code == 1
        assert "is also the input" in err
    assert (flowers.read_bytes(), model.read_bytes()) == before
