"""A table, a model and a way to run commands in this process."""

import numpy as np
import pytest

from hardzero.cli import main


@pytest.fixture(scope="session")
def flowers(tmp_path_factory):
    """A CSV table of two kinds of flowers, on very different scales."""
    rng = np.random.default_rng(0)
    kinds = np.array(["iris", "rose"])[np.arange(120) % 2]
    length = rng.normal(np.where(kinds == "iris", 1e6, 1e6 + 3), 1.0).tolist()
    width = rng.normal(np.where(kinds == "iris", 0, 2e-3), 1e-3).tolist()
    path = tmp_path_factory.mktemp("table") / "flowers.csv"
    rows = zip(length, width, kinds, strict=True)
    path.write_text(
        "length,width,kind\n" + "".join(f"{a},{b},{k}\n" for a, b, k in rows)
    )
    return path


@pytest.fixture(scope="session")
def model(flowers, tmp_path_factory):
    """What ``hardzero fit`` makes of that table."""
    path = tmp_path_factory.mktemp("model") / "flowers.model"
    arguments = ["fit", flowers, "--target", "kind", "-o", path]
    assert main([*map(str, arguments), "--max-epochs", "40", "--threads", "1"]) == 0
    return path


@pytest.fixture
def run(capsys):
    """Run a command; return its exit code, standard output and standard error."""

    def run_command(*arguments):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command
