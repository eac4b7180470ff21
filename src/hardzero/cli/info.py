"""Describe a model file, or this installation."""

import argparse
import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hardzero
from hardzero.cli.output import report
from hardzero.threads import count_threads

if TYPE_CHECKING:
    from hardzero.stack import Layer

_MOST_SHOWN: Final = 10
_NEEDED = ("numpy", "scipy", "scikit-learn", "safetensors", "rich")
_OPTIONAL = ("matplotlib", "pandas", "pyarrow", "torch", "onnxruntime")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero info``.

    Parameters
    ----------
    parser : ArgumentParser
        Of this command.
    """
    parser.add_argument(
        "model",
        type=Path,
        nargs="?",
        metavar="MODEL",
        help="what hardzero fit wrote, or a .json file with exact weights (default: "
        "show versions, instruction set, threads and folders)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print what a model file holds, or what a bug report needs.

    Parameters
    ----------
    arguments : Namespace
        As parsed.

    Returns
    -------
    int
        Exit code 0.
    """
    if arguments.model is None:
        facts: Mapping[str, Any] = describe_installation()
    else:
        facts = describe_model(arguments.model)
    if arguments.json:
        report(json.dumps(facts, indent=1) + "\n")
    else:
        width = max(map(len, facts))
        report("".join(f"{name:{width}}  {_show(facts[name])}\n" for name in facts))
    return 0


def describe_model(path: Path) -> dict[str, Any]:
    """Collect what a model file says about its model.

    Parameters
    ----------
    path : Path
        What `hardzero.save` wrote, or a JSON file with exact weights.

    Returns
    -------
    dict of str to object
        In the order in which they should be shown; fit for JSON.
    """
    from hardzero.serving.files import read_model_file

    if path.suffix.lower() == ".json":
        return _describe_rational(path)
    found = read_model_file(path)
    model, stack = found.model, found.model.stack
    return {
        "kind": model.kind,
        "layer sizes": list(stack.sizes),
        "activations": [str(layer.activation) for layer in stack.layers],
        "negative signs": [_count_negative(layer) for layer in stack.layers],
        "output link": stack.output_link,
        "parameters": stack.n_parameters,
        "dtype": stack.dtype.name,
        "exact zeros": "not in the file: they depend on the rows",
        "classes": None if model.classes is None else model.classes.tolist(),
        "feature names": model.feature_names and list(model.feature_names),
        "file": str(path),
        "file version": found.version,
        "written by": ", ".join(map(" ".join, sorted(found.written_by.items()))),
    }


def describe_installation() -> dict[str, str]:
    """Collect versions, instruction set, threads and folders.

    Returns
    -------
    dict of str to str
        In the order in which they should be shown.
    """
    from hardzero.datasets.download import cache_folder

    return {
        "hardzero": hardzero.__version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "compiled core": _describe_core(),
        "threads": str(count_threads()),
        **{name: _version(name) for name in (*_NEEDED, *_OPTIONAL)},
        "HARDZERO_DATA": os.environ.get("HARDZERO_DATA") or "not set",
        "cache": str(cache_folder()),
    }


def _describe_rational(path: Path) -> dict[str, Any]:
    from hardzero.theory import load_network

    network = load_network(path)
    return {
        "kind": "network with exact weights",
        "layer sizes": list(network.sizes),
        "pieces of a unit": [max(map(len, layer)) for layer in network.layers],
        "file": str(path),
    }


def _count_negative(layer: "Layer") -> int:
    return 0 if layer.signs is None else int((layer.signs < 0).sum())


def _show(fact: object) -> str:
    """Write a fact on one line, of a long list the first entries."""
    if fact is None:
        return "none"
    if not isinstance(fact, list):
        return str(fact)
    shown = ", ".join(map(str, fact[:_MOST_SHOWN]))
    if len(fact) > _MOST_SHOWN:
        return f"{shown}, ... ({len(fact):,} in all)"
    return shown


def _describe_core() -> str:
    """Name the instruction sets that the kernels were compiled for and can use here."""
    try:
        from hardzero.kernels.sparse import instruction_sets
    except hardzero.HardzeroError as error:
        return f"missing: {error}"
    active, usable = instruction_sets()
    return f"{active} (this machine has {', '.join(usable)})"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
