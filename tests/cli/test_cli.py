"""The program as a whole: help, exit codes, one-line errors."""

import os
import subprocess
import sys
import warnings

import pytest

import hardzero
from hardzero import cli
from hardzero.errors import DataError


def test_help_is_quick():
    """``hardzero --help`` waits for no library, not even NumPy."""
    code = (
        "import sys; from hardzero.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print('modules', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    text, _, modules = done.stdout.partition("modules ")
    assert "fit" in text
    heavy = {"numpy", "scipy", "sklearn", "rich", "safetensors", "matplotlib", "torch"}
    assert heavy.isdisjoint(modules.split())


@pytest.mark.parametrize("command", ["fit", "predict", "compare", "info"])
def test_each_command_explains_itself(run, command):
    """``hardzero COMMAND --help`` shows its usage."""
    code, out, _ = run(command, "--help")
    assert code == 0
    assert out.startswith(f"usage: hardzero {command}")


def test_version(run):
    """``--version`` gives the version of the package."""
    assert run("--version") == (0, f"hardzero {hardzero.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("frobnicate",),
        ("fit", "table.csv"),
        ("fit", "table.csv", "-o", "/no/such/folder/model"),
        ("fit", "table.csv", "-o", "/"),
        ("fit", "table.csv", "-o", "m", "--hidden-sizes", "100,x"),
        ("fit", "table.csv", "-o", "m", "--max-epochs", "0"),
        ("fit", "table.csv", "-o", "m", "--threads", "1000000000000"),
        ("fit", "table.csv", "-o", "m", "--hidden-sizes", "9" * 20),
        ("fit", "table.csv", "-o", "m", "--hidden-sizes", "9" * 5000),
        ("compare", "--seeds", "-1"),
        ("compare", "--data", "iris"),
        ("compare", "--picture", "p.jpeg"),
    ],
)
def test_wrong_arguments_give_2(run, arguments):
    """A command that cannot be understood ends with 2 before anything is done."""
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert "usage: hardzero" in err


def test_errors_take_one_line_and_give_1(run, tmp_path):
    """What a user can cause is said on one line, without a traceback."""
    code, out, err = run("predict", tmp_path / "absent", "table.csv")
    assert (code, out) == (1, "")
    assert err.startswith("hardzero: error: Cannot read ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("before", [True, False])
def test_debug_shows_the_traceback(run, tmp_path, before):
    """``--debug`` lets the error through, before and after the command."""
    command = ["predict", tmp_path / "absent", "table.csv"]
    command.insert(0 if before else 3, "--debug")
    with pytest.raises(DataError, match="Cannot read"):
        run(*command)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "hardzero: interrupted\n"),
        (MemoryError(), 1, "hardzero: error: MemoryError\n"),
        (ValueError("two\n  lines"), 1, "hardzero: error: two lines\n"),
        (
            PermissionError(13, "no", "file"),
            1,
            "hardzero: error: [Errno 13] no: 'file'",
        ),
    ],
)
def test_exit_codes(run, monkeypatch, error, code, message):
    """Ctrl-C gives 130, other errors that can be explained give 1."""

    def fail(_):
        raise error

    monkeypatch.setattr(cli.info, "run", fail)
    found, _, err = run("info")
    assert found == code
    assert err.startswith(message)


def test_a_bug_keeps_its_traceback(run, monkeypatch):
    """An error that no user can cause is not dressed up."""
    monkeypatch.setattr(cli.info, "run", lambda _: [][0])
    with pytest.raises(IndexError):
        run("info")


def test_warnings_take_one_line(run, monkeypatch):
    """A warning is said like an error, without file and line number."""

    def warn(_):
        warnings.simplefilter("default")
        warnings.warn("mind\nthis", stacklevel=1)
        return 0

    monkeypatch.setattr(cli.info, "run", warn)
    assert run("info") == (0, "", "hardzero: warning: mind this\n")


def test_a_reader_that_goes_away(model, flowers):
    """With ``hardzero predict ... | head -1`` no traceback appears."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "hardzero", "predict", model, flowers],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("redirection", "encoding"),
    [(">&-", "utf-8"), (">&- 2>&-", "utf-8"), (">/dev/full", "utf-8"), ("", "ascii")],
)
def test_a_report_that_cannot_be_printed_fails_no_job(
    flowers, tmp_path, redirection, encoding
):
    """Closed or full standard output, letters it lacks: the model is saved, exit 0."""
    if "full" in redirection and not os.path.exists("/dev/full"):  # noqa: PTH110
        pytest.skip("has no /dev/full")
    done = subprocess.run(
        [
            *("sh", "-c", f'"$@" {redirection}', "sh", sys.executable, "-m"),
            *("hardzero", "fit", flowers, "--target", "kind", "--max-epochs", "1"),
            *("--threads", "1", "-o", tmp_path / "模型"),
        ],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "模型").exists()
    if not redirection:
        assert done.stdout.endswith(rb"\u6a21\u578b" + b"\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_predictions_with_nowhere_to_go(model, flowers):
    """Printing is the job of predict: a closed standard output is an error."""
    done = subprocess.run(
        [
            *("sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", "hardzero"),
            *("predict", model, flowers),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("hardzero: error: Standard output is closed")
    assert done.stderr.count("\n") == 1


def test_unknown_options_show_the_usage_of_the_command(run):
    """Not that of the program."""
    code, out, err = run("fit", "table.csv", "-o", "m", "--lossy", "3")
    assert (code, out) == (2, "")
    assert err.startswith("usage: hardzero fit ")
    assert err.endswith("hardzero fit: error: unrecognized arguments: --lossy 3\n")
