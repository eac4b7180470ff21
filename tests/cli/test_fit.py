"""``hardzero fit``: from a table to a model file."""

import dataclasses
import warnings

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
    assert out.startswith("Task         classification\nTable")
    assert "120 rows, 2 features, 2 classes; scaling standard" in out
    assert "2 -> 12 -> 6 -> 2" in out
    assert "3 epochs in" in out
    assert "% on the rows held out, in epoch " in out
    assert "% on all rows, trained on or held out\n" in out
    assert out.count("% / ") == 1
    assert out.endswith(f"Saved to {tmp_path / 'm'}\n")


def test_options_reach_the_estimator(run, flowers, tmp_path, monkeypatch):
    """Each option is a parameter; those not given keep the estimator's default."""
    seen = {}

    def fit(self, X, y, sample_weight):
        seen.update(self.get_params(), X=X, y=y, weights=sample_weight)
        raise KeyboardInterrupt

    monkeypatch.setattr(RectifierClassifier, "fit", fit)
    code, _, _ = run(
        *("fit", flowers, "--target", "kind", "-o", tmp_path / "m", "--seed", 7),
        *("--activation", "tanh", "--sign-flip", "--l1-activation", 0.5, "--l2", 0.25),
        *("--solver", "sgd", "--momentum", 0.5, "--learning-rate", 0.125),
        *("--batch-size", 3, "--patience", 4, "--threads", 2, "--scale", "none"),
        *("--dropout", 0.5, "--input-dropout", 0.25, "--batch-norm", "--l1", 0.125),
        *("--schedule", "cosine", "--class-weight", "balanced"),
        *("--checkpoint", tmp_path / "c"),
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
        dropout=0.5,
        input_dropout=0.25,
        batch_norm=True,
        l1=0.125,
        learning_rate_schedule="cosine",
        class_weight="balanced",
        checkpoint=tmp_path / "c",
        n_threads=2,
        random_state=7,
    )
    assert expected.get_params().items() <= seen.items()
    assert seen["X"].dtype == np.float32
    assert seen["weights"] is None
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

    def interrupted(self, X, y, sample_weight):
        fit(self, X, y, sample_weight)
        warnings.warn("training was interrupted; Call fit again", stacklevel=1)
        self.history_ = dataclasses.replace(self.history_, stopped="interrupted")
        return self

    monkeypatch.setattr(RectifierClassifier, "fit", interrupted)
    command = ("fit", flowers, "--target", "kind", "-o", tmp_path / "m")
    code, out, err = run(*command, "--max-epochs", 2, "--threads", 1)
    assert (code, err) == (130, "")
    line = "Interrupted  the weights of epoch 2 are saved; the same command "
    assert f"{line}trains from the start\n" in out
    again = (
        *command,
        "--max-epochs",
        2,
        "--threads",
        1,
        "--checkpoint",
        tmp_path / "c",
    )
    assert f"{line}goes on from {tmp_path / 'c'}\n" in run(*again)[1]
    assert load(tmp_path / "m").stack.n_inputs == 2


def test_numbers_are_predicted_as_numbers(run, tmp_path):
    """Labels with many values are found to be amounts, which the report says."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (1e6 + 1e3 * X[:, 0]).round(2)
    path, model = tmp_path / "t.csv", tmp_path / "m"
    rows = np.column_stack([X, y]).tolist()
    path.write_text("a,b,c,y\n" + "".join(f"{p},{q},{r},{s}\n" for p, q, r, s in rows))
    command = ("fit", path, "--target", "y", "-o", model, "--threads", 1)
    code, out, err = run(*command)
    assert (code, err) == (0, "")
    assert "Task         regression: the labels are numbers with 300 diff" in out
    assert "to name classes by them, give --task classification\n" in out
    assert "300 rows, 3 features; scaling standard" in out
    loaded = load(model)
    assert loaded.kind == "regressor"
    assert np.std(loaded.predict(X) - y) < 200
    assert "R² 0.9" in out
    assert "on the rows it was trained on\n" in out


def test_ratings(run, tmp_path):
    """With --task rating the expected value of the classes is predicted."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.clip(np.rint(X[:, 0] + 3), 1, 5).astype(int)
    np.savez(tmp_path / "t.npz", X=X, y=y)
    command = ("fit", tmp_path / "t.npz", "-o", tmp_path / "m", "--threads", 1)
    code, out, err = run(*command, "--task", "rating")
    assert (code, err) == (0, "")
    assert out.startswith("Task         rating\nTable        300 rows, 2 feat")
    loaded = load(tmp_path / "m")
    assert loaded.kind == "rating"
    assert loaded.classes.tolist() == [1, 2, 3, 4, 5]
    assert np.sqrt(np.mean((loaded.predict(X) - y) ** 2)) < 0.6
    assert "(root mean square), R² 0." in out


def test_one_class_is_an_error(run, tmp_path):
    """There is nothing to learn from it, and probably it is the wrong column."""
    path = tmp_path / "t.csv"
    path.write_text("a,k\n1,x\n2,x\n3,x\n")
    code, out, err = run("fit", path, "--target", "k", "-o", tmp_path / "m")
    assert (code, out) == (1, "")
    assert "t.csv has the same label 'x' in each of its 3 rows, expected" in err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(("first", "line"), [(0, "from 0\n"), (1, "from 1; an index")])
def test_the_report_says_from_where_a_sparse_table_counts(run, tmp_path, first, line):
    """A column 0 that is empty by the numbering is no surprise then."""
    path = tmp_path / "t.svm"
    path.write_text(f"1 {first}:1 {first + 1}:2\n0 {first}:2 {first + 1}:1\n" * 20)
    command = ("fit", path, "-o", tmp_path / "m", "--max-epochs", 1, "--threads", 1)
    code, out, _ = run(*command)
    assert code == 0
    assert f"Indices      {line}" in out
    assert load(tmp_path / "m").stack.n_inputs == first + 2


def test_errors(run, flowers, tmp_path):
    """A wrong target, a missing one and a wrong parameter are explained."""
    output = ("-o", tmp_path / "m")
    assert "--target on the command line" in run("fit", flowers, *output)[2]
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
        ("fit", flowers, "--target", "kind", "-o", "m", "--checkpoint", "m"),
    ):
        code, _, err = run(*command)
        assert code == 2
        assert "is also the input" in err
    assert (flowers.read_bytes(), model.read_bytes()) == before


def test_weights_and_columns_that_are_no_features(run, tmp_path):
    """Rows of weight 0 teach nothing; columns that were named are left out."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    kinds, weights = np.where(a > 0, "up", "down"), np.ones(200)
    kinds[:50], weights[:50] = "up", 0.0
    path, model = tmp_path / "t.csv", tmp_path / "m"
    rows = zip(a.tolist(), kinds, weights, strict=True)
    lines = (f"{x},{k},{w},{i},word\n" for i, (x, k, w) in enumerate(rows))
    path.write_text("a,kind,w,number,note\n" + "".join(lines))
    command = ("fit", path, "--target", "kind", "-o", model, "--threads", 1)
    code, out, _ = run(
        *(*command, "--weights", "w", "--drop", "number", "--drop", "note"),
        *("--max-epochs", 50),
    )
    assert code == 0
    loaded = load(model)
    assert loaded.feature_names == ("a",)
    share = loaded.score(a[:, None], kinds, weights)
    assert f"Error        {1 - share:.2%} on the rows it was trained on\n" in out
    assert share > 0.95
    assert "no column 'x'" in run(*command, "--drop", "x")[2]


def test_the_loss_of_regression(run, tmp_path):
    """It reaches the estimator; a task without such an option says so."""
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{i},{i}\n" for i in range(30)))
    command = ("fit", path, "--target", "y", "-o", tmp_path / "m", "--max-epochs", 1)
    code, out, err = run(*command, "--loss", "huber(1)", "--task", "regression")
    assert (code, err) == (0, "")
    code, out, err = run(*command, "--loss", "huber(1)", "--task", "rating")
    assert (code, out) == (2, "")
    assert "--loss was given, but the task is rating, which has no such option" in err
    code, out, err = run(*command, "--loss", "softmax", "--task", "regression")
    assert (code, out) == (2, "")


def test_classes_that_are_numbers_come_with_a_hint(run, tmp_path):
    """How many there are, and how to predict them as amounts."""
    np.savez(tmp_path / "t.npz", X=np.eye(12), y=np.arange(12) % 3)
    command = ("fit", tmp_path / "t.npz", "-o", tmp_path / "m", "--max-epochs", 1)
    out = run(*command)[1]
    assert out.startswith(
        "Task         classification: the labels are numbers with 3 different values; "
        "to predict them as amounts, give --task regression\n"
    )
    assert run(*command, "--task", "classification")[1].startswith(
        "Task         classification\n"
    )


def test_a_run_goes_on_from_its_checkpoint(run, flowers, tmp_path):
    """The same command again gives the same model; another one says what differs."""
    command = ("fit", flowers, "--target", "kind", "--threads", 1, "--max-epochs", 2)
    command = (*command, "--checkpoint", tmp_path / "run.ckpt")
    assert run(*command, "-o", tmp_path / "a")[0] == 0
    assert run(*command, "-o", tmp_path / "b")[0] == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    code, _, err = run(*command, "-o", tmp_path / "c", "--l2", 1)
    assert code == 1
    assert "l2 is 0.0 in the file and 1.0 now" in err


def test_too_few_rows_to_hold_some_out(run, tmp_path):
    """The message speaks of the option, not of arguments of the library."""
    path = tmp_path / "t.csv"
    path.write_text("a,k\n1,x\n1,x\n2,y\n2,y\n")
    command = ("fit", path, "--target", "k", "-o", tmp_path / "m", "--early-stopping")
    code, _, err = run(*command)
    assert code == 1
    assert "error: --early-stopping needs validation rows" in err
    assert "Give more rows, or leave --early-stopping out." in err
    assert "X_val" not in err


@pytest.mark.parametrize(
    "wrong",
    [
        ("--learning-rate", -1),
        ("--activation", "relu"),
        ("--dropout", 1),
        ("--seed", -1),
        ("--solver", "adam", "--momentum", 0.5),
        ("--schedule", "sometimes"),
    ],
)
def test_values_that_the_library_refuses_are_wrong_arguments(
    run, flowers, tmp_path, wrong
):
    """They give 2, on one line."""
    command = ("fit", flowers, "--target", "kind", "-o", tmp_path / "m", *wrong)
    code, out, err = run(*command)
    assert (code, out, err.count("\n")) == (2, "", 1)
