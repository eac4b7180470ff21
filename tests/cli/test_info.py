"""``hardzero info``: what a bug report needs."""

import json

import hardzero
from hardzero.cli.info import describe_installation


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
