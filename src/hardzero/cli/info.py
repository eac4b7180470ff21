"""Show versions, instruction set, threads and folders."""

import argparse
import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version

import hardzero
from hardzero.cli.options import count_threads
from hardzero.cli.output import report

_NEEDED = ("numpy", "scipy", "scikit-learn", "safetensors", "rich")
_OPTIONAL = ("matplotlib", "pandas", "pyarrow", "torch", "onnxruntime")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero info``.

    Parameters
    ----------
    parser : ArgumentParser
        Of this command.
    """
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print what a bug report needs.

    Parameters
    ----------
    arguments : Namespace
        As parsed.

    Returns
    -------
    int
        Exit code 0.
    """
    facts = describe_installation()
    if arguments.json:
        report(json.dumps(facts, indent=1) + "\n")
    else:
        width = max(map(len, facts))
        report("".join(f"{name:{width}}  {facts[name]}\n" for name in facts))
    return 0


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
        "threads": str(count_threads(None)),
        **{name: _version(name) for name in (*_NEEDED, *_OPTIONAL)},
        "HARDZERO_DATA": os.environ.get("HARDZERO_DATA") or "not set",
        "cache": str(cache_folder()),
    }


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
