"""Count and list the linear regions of a network."""

import argparse
import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardzero.cli.exact import (
    add_certificate,
    add_domain,
    add_network,
    read_domain,
    read_network,
)
from hardzero.cli.options import output_path, refuse_same_path, refuse_to_overwrite
from hardzero.cli.output import report
from hardzero.errors import DataError, ParameterError

if TYPE_CHECKING:
    from hardzero.theory import Cell, RationalNetwork, Regions


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero regions``.

    Parameters
    ----------
    parser : ArgumentParser
        Of this command.
    """
    add_network(parser)
    add_domain(parser)
    parser.add_argument(
        "--cells",
        type=output_path,
        metavar="OUT",
        help="write all cells: one JSON object a line with pattern, inequalities "
        "A x <= b, affine map x W + c, and a point inside",
    )
    parser.add_argument(
        "--plane",
        type=Path,
        metavar="FILE",
        help="look at f(origin + s u + t v) over s and t: JSON such as "
        '{"origin": [0, 0, 0], "u": [1, 0, 0], "v": [0, 1, 0]}',
    )
    parser.add_argument(
        "--picture",
        type=output_path,
        metavar="OUT",
        help="draw cells, decision and its boundary, of a network with two inputs or "
        "with --plane, into a .png or .svg file; needs --box or --domain, and "
        "matplotlib",
    )
    parser.add_argument(
        "--data", type=Path, metavar="TABLE", help="rows to draw into the picture"
    )
    parser.add_argument(
        "--target", metavar="COLUMN", help="column of TABLE that holds the labels"
    )
    add_certificate(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the three counts.

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

    inputs = [arguments.model, arguments.data, arguments.plane, arguments.domain]
    outputs = {
        "cells": arguments.cells,
        "picture": arguments.picture,
        "certificate": arguments.certificate,
    }
    for output in outputs.values():
        refuse_to_overwrite(output, *filter(None, inputs))
    refuse_same_path(**outputs)
    network, domain = read_network(arguments.model), read_domain(arguments)
    plane = None if arguments.plane is None else _read_plane(arguments.plane)
    if arguments.picture is not None:
        _draw(arguments, network, domain, plane)
    if plane is not None:
        network = theory.slice_plane(network, *plane)
    regions = theory.linear_regions(
        network, domain, budget=arguments.budget, verbose=True
    )
    if arguments.cells is not None:
        _write_cells(regions, arguments.cells)
    facts = {
        "activation patterns": regions.n_activation_patterns,
        "linear regions": regions.n_linear_regions,
        "affine maps": regions.n_affine_maps,
    }
    if arguments.json:
        report(json.dumps(facts, indent=1) + "\n")
    else:
        report("".join(f"{name:20} {count:,}\n" for name, count in facts.items()))
    if arguments.certificate is not None:
        regions.certificate().save(arguments.certificate)
    return 0


def _read_plane(path: Path) -> tuple[Any, Any, Any]:
    from hardzero.theory.files import read_json

    content = read_json(path)
    if not isinstance(content, dict) or content.keys() != {"origin", "u", "v"}:
        raise DataError(
            f'{path} says no plane. Write {{"origin": [0, 0, 0], "u": [1, 0, 0], '
            '"v": [0, 1, 0]}.'
        )
    return content["origin"], content["u"], content["v"]


def _draw(
    arguments: argparse.Namespace, network: "RationalNetwork", domain: Any, plane: Any
) -> None:
    from hardzero import theory
    from hardzero.datasets import read_table

    if domain is None:
        raise ParameterError(
            "A picture shows a part of the plane. Say which one with --box or --domain."
        )
    X, y = None, None
    if arguments.data is not None:
        table = read_table(
            arguments.data,
            has_labels=arguments.target is not None,
            target=arguments.target,
            n_features=network.n_inputs,
        )
        X, y = table.X, table.y
    theory.draw(
        network,
        arguments.picture,
        domain=domain,
        X=X,
        y=y,
        plane=plane,
        budget=arguments.budget,
        verbose=True,
    )


def _write_cells(regions: "Regions[Any]", path: Path) -> None:
    from hardzero.atomic import replacing

    with replacing(path) as stream:
        for cell in regions:
            stream.write(json.dumps(_describe(cell)).encode() + b"\n")


def _describe(cell: "Cell[Any]") -> dict[str, Any]:
    A, b = cell.polytope
    return {
        "pattern": cell.pattern,
        "A": [_texts(row) for row in A],
        "b": _texts(b),
        "W": [_texts(row) for row in cell.weights],
        "c": _texts(cell.biases),
        "point": _texts(cell.point),
    }


def _texts(numbers: "list[Fraction] | tuple[Fraction, ...]") -> list[str]:
    return [str(number) for number in numbers]
