"""The public names: these, no others, and quick to import."""

import inspect
import subprocess
import sys

import pytest

import hardzero

PUBLIC = [
    "BudgetError",
    "DataError",
    "DeadUnitWarning",
    "DenoisingAutoencoder",
    "Diagnosis",
    "DivergenceError",
    "ErrorComparison",
    "Finding",
    "FitHistory",
    "HardzeroError",
    "Layer",
    "ParameterError",
    "RatingRegressor",
    "RectifierClassifier",
    "RectifierRegressor",
    "RectifierStack",
    "StackModel",
    "activations",
    "callbacks",
    "compare_errors",
    "datasets",
    "diagnose",
    "from_sklearn",
    "from_torch",
    "glorot2011",
    "investigate",
    "load",
    "remedies",
    "save",
    "theory",
    "to_sklearn",
    "to_torch",
    "watch",
]


def test_names_are_pinned():
    """A public name appears or goes only by a change here."""
    assert hardzero.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_name_loads_and_is_documented(name):
    """Every public name can be had from ``hardzero`` and says what it is."""
    assert inspect.getdoc(getattr(hardzero, name))
    assert name in dir(hardzero)


def test_unknown_name_is_an_attribute_error():
    """A misspelt name fails as it does in any module."""
    with pytest.raises(AttributeError, match="no attribute 'RectifierClasifier'"):
        hardzero.RectifierClasifier  # noqa: B018


@pytest.mark.parametrize("statement", ["import hardzero", "import hardzero.cli"])
def test_import_is_light(statement):
    """Importing the package or its command line waits for no heavy library."""
    heavy = {"matplotlib", "pandas", "scipy", "sklearn", "torch"}
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert heavy.isdisjoint(done.stdout.split())
