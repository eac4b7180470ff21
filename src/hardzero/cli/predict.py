"""Predict each row of a table with a saved model."""

import argparse
import csv
import io
import sys
import warnings
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hardzero.cli.options import (
    add_threads,
    output_path,
    refuse_to_overwrite,
)
from hardzero.threads import count_threads

if TYPE_CHECKING:
    from hardzero.serving import StackModel


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero predict``.

    Parameters
    ----------
    parser : ArgumentParser
        Of this command.
    """
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="what hardzero fit wrote"
    )
    parser.add_argument(
        "table",
        type=Path,
        metavar="TABLE",
        help="in the format of any table that hardzero fit reads; columns that the "
        "model does not know are left out",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=output_path,
        metavar="OUT",
        help="CSV file for predictions and probabilities (default: standard output)",
    )
    add_threads(parser)


def run(arguments: argparse.Namespace) -> int:
    """Predict and write one line per row.

    Parameters
    ----------
    arguments : Namespace
        As parsed.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    OSError
        If predictions have nowhere to go.
    """
    from hardzero.atomic import replacing
    from hardzero.datasets import read_table
    from hardzero.serving import load

    output = arguments.output
    if output is None and sys.__stdout__ is None:
        raise OSError(
            "Standard output is closed, so that predictions have nowhere to go. Give a "
            "file with --output."
        )
    refuse_to_overwrite(output, arguments.model, arguments.table)
    model = load(arguments.model)
    table = read_table(
        arguments.table,
        has_labels=False,
        features=model.feature_names,
        n_features=model.stack.n_inputs,
    )
    _check_numbering(model, table.X)
    outputs = model.outputs(table.X, n_threads=count_threads(arguments.threads))
    with replacing(output) if output else nullcontext(sys.stdout.buffer) as stream:
        _write(stream, model, outputs)
    return 0


def _check_numbering(model: "StackModel", X: Any) -> None:
    """Warn if the columns of a sparse table seem to be numbered in another way."""
    is_sparse = hasattr(X, "indices")
    if is_sparse and not model.stack.layers[0].W[0].any() and (X.indices == 0).any():
        warnings.warn(
            "The table has values with index 0, but the one that the model was fitted "
            "on had none. If that one counted from 1, count from 1 here too: an index "
            "is the number of a column.",
            stacklevel=1,
        )


def _write(stream: IO[bytes], model: "StackModel", outputs: Any) -> None:
    """Write CSV: a line of names, then one line per row."""
    predictions = model.decide(outputs).reshape(len(outputs), -1)
    names = _number("prediction", predictions.shape[1], model)
    # NumPy writes the fewest digits that give the same number again.
    columns = [predictions.astype(str)]
    if model.classes is not None:
        names += [f"probability_{label}" for label in model.classes]
        columns.append(model.apply_link(outputs).astype(str))
    text = io.TextIOWrapper(stream, "utf-8", newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(names)
    for row in zip(*columns, strict=True):
        lines.writerow(chain.from_iterable(row))
    text.detach()  # flush, and leave closing to the owner of the stream


def _number(name: str, n_columns: int, model: "StackModel") -> list[str]:
    """Return the names of columns: of labels if there are any, else numbered."""
    if model.kind == "multilabel":
        return [f"{name}_{label}" for label in model.classes]  # type: ignore[union-attr]
    return [name] if n_columns == 1 else [f"{name}_{i}" for i in range(n_columns)]
