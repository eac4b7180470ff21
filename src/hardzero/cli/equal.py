"""Decide whether two networks compute the same; exit code 1 if not."""

import argparse
import json
from typing import TYPE_CHECKING

from hardzero.cli.exact import (
    add_certificate,
    add_domain,
    add_network,
    how_proved,
    read_domain,
    read_network,
    show,
    show_point,
)
from hardzero.cli.options import refuse_to_overwrite
from hardzero.cli.output import report

if TYPE_CHECKING:
    from hardzero.theory import Equality


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero equal``.

    Parameters
    ----------
    parser : ArgumentParser
        Of this command.
    """
    add_network(parser)
    add_network(parser, "other")
    add_domain(parser)
    parser.add_argument(
        "--decision",
        action="store_true",
        help="compare decisions only: the class of the largest output, or whether the "
        "only output is at least 0",
    )
    add_certificate(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict, and a point at which they differ if they do.

    Parameters
    ----------
    arguments : Namespace
        As parsed.

    Returns
    -------
    int
        Exit code 0 if they are equal, else 1.
    """
    from hardzero import theory

    refuse_to_overwrite(arguments.certificate, arguments.model, arguments.other)
    compare = theory.same_decision if arguments.decision else theory.equal
    found = compare(
        read_network(arguments.model),
        read_network(arguments.other),
        read_domain(arguments),
        budget=arguments.budget,
        verbose=True,
    )
    _report(found, arguments)
    if arguments.certificate is not None:
        found.certificate().save(arguments.certificate)
    return 0 if found else 1


def _report(found: "Equality", arguments: argparse.Namespace) -> None:
    if arguments.json:
        facts = {
            "equal": found.equal,
            "witness": found.witness and [str(value) for value in found.witness],
            "values": found.values
            and [[str(v) for v in side] for side in found.values],
            "method": found.method,
            "cells": found.n_cells,
        }
        report(json.dumps(facts, indent=1) + "\n")
        return
    what = "decide the same" if arguments.decision else "are equal"
    if found:
        report(f"They {what}, proved {how_proved(found)}.\n")
        return
    assert found.witness is not None
    assert found.values is not None
    what = "decide differently" if arguments.decision else "differ"
    report(f"They {what}.\n")
    first, second = found.values
    rows = {
        "first": first,
        "second": second,
        "first - second": [a - b for a, b in zip(first, second, strict=True)],
    }
    report(f"{'at':14}  {show_point(found.witness)}\n")
    for name, values in rows.items():
        report(f"{name:14}  {', '.join(map(show, values))}\n")
