"""Find the exact largest or smallest output of a network."""

import argparse
import json
from typing import TYPE_CHECKING

from hardzero.cli.exact import (
    add_certificate,
    add_domain,
    add_network,
    read_domain,
    read_network,
    show,
    show_point,
)
from hardzero.cli.options import refuse_to_overwrite
from hardzero.cli.output import report
from hardzero.errors import ParameterError

if TYPE_CHECKING:
    from hardzero.theory import Extremum


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero maximum``.

    Parameters
    ----------
    parser : ArgumentParser
        Of this command.
    """
    add_network(parser)
    add_domain(parser)
    parser.add_argument(
        "-c",
        "--coefficients",
        nargs="+",
        metavar="C",
        help="of the outputs: their sum with these is maximised; needed if there are "
        "several outputs",
    )
    parser.add_argument(
        "--minimum", action="store_true", help="find the smallest value instead"
    )
    add_certificate(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the value and where it is taken.

    Parameters
    ----------
    arguments : Namespace
        As parsed.

    Returns
    -------
    int
        Exit code 0.
    """
    from hardzero import theory

    refuse_to_overwrite(arguments.certificate, arguments.model)
    network = read_network(arguments.model)
    if arguments.coefficients is None and network.n_outputs != 1:
        raise ParameterError(
            f"the network has {network.n_outputs} outputs. Say which sum of them with "
            "-c and one coefficient for each: -c 1 0 0 is the first one of three."
        )
    find = theory.minimum if arguments.minimum else theory.maximum
    found = find(
        network,
        read_domain(arguments),
        arguments.coefficients,
        budget=arguments.budget,
        verbose=True,
    )
    _report(found, arguments)
    if arguments.certificate is not None:
        found.certificate().save(arguments.certificate)
    return 0


def _report(found: "Extremum", arguments: argparse.Namespace) -> None:
    if arguments.json:
        facts = {
            "value": str(found.value),
            "argument": [str(value) for value in found.argument],
            "direction": found.direction and [str(a) for a in found.direction],
            "cells": found.n_cells,
        }
        report(json.dumps(facts, indent=1) + "\n")
        return
    name = "minimum" if arguments.minimum else "maximum"
    report(f"{name}  {show(found.value)}\n")
    if found.direction is None:
        report(f"at       {show_point(found.argument)}\n")
    else:
        report(f"from     {show_point(found.argument)}\n")
        report(f"towards  {found.direction}\n")
    report(f"cells    {found.n_cells:,}\n")
