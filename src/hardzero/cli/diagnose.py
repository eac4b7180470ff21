"""Say what is wrong with a network and why; exit code 1 if it is not healthy."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hardzero.cli.options import output_path, refuse_to_overwrite
from hardzero.cli.output import report
from hardzero.errors import ParameterError

_PROGRAMS: Final = (".pt", ".ts", ".pt2", ".onnx")

if TYPE_CHECKING:
    from hardzero.diagnostics import Diagnosis


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero diagnose``.

    Parameters
    ----------
    parser : ArgumentParser
        Of this command.
    """
    parser.add_argument(
        "model",
        type=Path,
        metavar="MODEL",
        help="what hardzero fit wrote; or .pt, .ts (TorchScript), .pt2 (torch.export) "
        "or .onnx",
    )
    parser.add_argument(
        "table",
        type=Path,
        metavar="TABLE",
        help="rows to look at, in any format that hardzero fit reads; or .npz with X "
        "and y, or .npy",
    )
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="column of a table with the labels: then loss and gradients are looked "
        "at, too",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--html", type=output_path, metavar="OUT", help="write a page to look at"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the diagnosis.

    Parameters
    ----------
    arguments : Namespace
        As parsed.

    Returns
    -------
    int
        Exit code 0 if the network is healthy, else 1.
    """
    from hardzero.diagnostics import diagnose

    refuse_to_overwrite(arguments.html, arguments.model, arguments.table)
    if arguments.model.suffix in _PROGRAMS:
        found = _diagnose_program(arguments)
    else:
        from hardzero.serving import load

        model = load(arguments.model)
        found = diagnose(
            model, _data(arguments, model.feature_names, model.stack.n_inputs)
        )
    if arguments.html is not None:
        found.save_html(arguments.html)
    report((found.to_json() if arguments.json else str(found)) + "\n")
    return 0 if found.healthy else 1


def _diagnose_program(arguments: argparse.Namespace) -> "Diagnosis":
    from hardzero.diagnostics import diagnose
    from hardzero.diagnostics.pytorch import require_pytorch

    require_pytorch("diagnose")
    from hardzero.diagnostics.programs import likelihood, read_program

    model = read_program(arguments.model)
    data = _data(arguments)
    has_targets = isinstance(data, tuple)
    if has_targets and data[1].dtype.kind not in "fiub":
        raise ParameterError(
            f"the labels in {arguments.table} are text, and {arguments.model} does not "
            "say which output stands for which. Give whole numbers from 0 on."
        )
    try:
        return diagnose(model, data, likelihood if has_targets else None)
    except (RuntimeError, IndexError) as error:  # PyTorch's, mostly about shapes
        reason = str(error).strip().splitlines()
        raise ParameterError(
            f"{arguments.model} does not run on {arguments.table}: "
            f"{reason[-1] if reason else type(error).__name__}"
        ) from error


def _data(
    arguments: argparse.Namespace,
    features: Sequence[str] | None = None,
    n_features: int | None = None,
) -> Any:
    """Return X, or X and y."""
    is_program = arguments.model.suffix in _PROGRAMS
    arrays = (".npy", ".npz") if is_program else (".npy",)
    if arguments.table.suffix in arrays and arguments.target is None:
        from hardzero.diagnostics.programs import read_arrays

        X, y = read_arrays(arguments.table)
        return X if y is None else (X, y)
    from hardzero.datasets import read_table

    table = read_table(
        arguments.table,
        has_labels=arguments.target is not None,
        target=arguments.target,
        features=features,
        n_features=n_features,
    )
    return (table.X, table.y) if arguments.target else table.X
