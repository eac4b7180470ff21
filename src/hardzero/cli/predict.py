"""Predict the class of each row of a table with a saved model."""

import argparse
import csv
import io
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

from hardzero.cli.options import (
    add_threads,
    count_threads,
    output_path,
    refuse_to_overwrite,
)
from hardzero.errors import ParameterError


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
        help="CSV file for classes and probabilities (default: standard output)",
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
    """
    from hardzero.datasets import read_table
    from hardzero.serving import load
    from hardzero.serving.files import replacing

    output = arguments.output
    if output is None and sys.__stdout__ is None:
        raise ParameterError(
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
    n_threads = count_threads(arguments.threads)
    labels = model.predict(table.X, n_threads=n_threads)
    probabilities = model.predict_proba(table.X, n_threads=n_threads)
    with replacing(output) if output else nullcontext(sys.stdout.buffer) as stream:
        _write(stream, model.classes, labels, probabilities)
    return 0


def _write(stream: IO[bytes], classes: Any, labels: Any, probabilities: Any) -> None:
    """Write CSV: a line of names, then one line per row."""
    text = io.TextIOWrapper(stream, "utf-8", newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["prediction", *(f"probability_{label}" for label in classes)])
    # NumPy writes the fewest digits that give the same number again.
    for label, row in zip(labels, probabilities.astype(str), strict=True):
        lines.writerow([label, *row])
    text.detach()  # flush, and leave closing to the owner of the stream
