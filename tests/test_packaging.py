"""What an installation holds."""

import importlib
import importlib.metadata
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import hardzero


@pytest.fixture(scope="module")
def distribution():
    """The installed distribution; without one there is nothing to check."""
    try:
        return importlib.metadata.distribution("hardzero")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("hardzero is not installed")


def test_tests_meet_the_installed_package(distribution):
    """The tests run on the installed package, not on the source tree."""
    installed = Path(distribution.locate_file("hardzero/__init__.py"))
    assert Path(hardzero.__file__).resolve() == installed.resolve()


def test_version_is_the_metadata_version(distribution):
    """``hardzero.__version__`` is the version that pip reports."""
    assert distribution.version == hardzero.__version__


def test_wheel_contents(distribution):
    """The wheel ships the marker for types and the compiled core, but no C++."""
    files = {str(file) for file in distribution.files}
    assert "hardzero/py.typed" in files
    assert any(file.startswith("hardzero/kernels/_core.") for file in files)
    assert not [file for file in files if file.endswith((".cpp", ".hpp", ".h"))]


def test_core_dependencies_are_few(distribution):
    """A plain installation brings few libraries, and no deep-learning framework."""
    core = [need for need in distribution.requires if "extra ==" not in need]
    names = {need.split(">=")[0] for need in core}
    assert names == {
        "numpy",
        "rich",
        "safetensors",
        "scikit-learn",
        "scipy",
        "threadpoolctl",  # scikit-learn needs it too
    }


def test_every_module_imports():
    """Every module of the package can be imported, in any order, without a warning."""
    for module in pkgutil.walk_packages(hardzero.__path__, "hardzero."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def test_module_runs():
    """``python -m hardzero`` is the command line."""
    command = [sys.executable, "-m", "hardzero", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "compare" in done.stdout
