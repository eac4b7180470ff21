"""Say what is wrong with a network and why; exit code 1 if it is not healthy."""

import argparse
from pathlib import Path

from hardzero.cli.options import output_path, refuse_to_overwrite
from hardzero.cli.output import report


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero diagnose``.

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
        help="rows to look at, in any format that hardzero fit reads",
    )
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="column with the labels: then loss and gradients are looked at, too",
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
    from hardzero.datasets import read_table
    from hardzero.diagnostics import diagnose
    from hardzero.serving import load

    refuse_to_overwrite(arguments.html, arguments.model, arguments.table)
    model = load(arguments.model)
    table = read_table(
        arguments.table,
        has_labels=arguments.target is not None,
        target=arguments.target,
        features=model.feature_names,
        n_features=model.stack.n_inputs,
    )
    found = diagnose(model, (table.X, table.y) if arguments.target else table.X)
    if arguments.html is not None:
        found.save_html(arguments.html)
    report((found.to_json() if arguments.json else str(found)) + "\n")
    return 0 if found.healthy else 1
