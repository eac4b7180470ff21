"""Take away what a network does not need, and prove that nothing changed."""

import argparse
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hardzero.cli.exact import (
    add_certificate,
    add_domain,
    add_network,
    how_proved,
    read_domain,
    read_network,
    show,
)
from hardzero.cli.options import output_path, refuse_same_path, refuse_to_overwrite
from hardzero.cli.output import report
from hardzero.errors import BudgetError, ParameterError

if TYPE_CHECKING:
    from hardzero.stack import RectifierStack
    from hardzero.theory import Minimised


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero minimise``.

    Parameters
    ----------
    parser : ArgumentParser
        Of this command.
    """
    add_network(parser)
    add_domain(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=output_path,
        metavar="OUT",
        help="write the smaller network: exact weights to a .json file, else a model "
        "file like MODEL, whose weights must be floats",
    )
    add_certificate(parser)
    parser.add_argument(
        "--rounding",
        action="store_true",
        help="let weights of a model file be rounded to the nearest float",
    )
    parser.add_argument(
        "--interval",
        action="store_true",
        help="bound units by intervals: quicker, and finds less",
    )


def run(arguments: argparse.Namespace) -> int:
    """Shrink the network and say what went.

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

    refuse_to_overwrite(arguments.output, arguments.model)
    refuse_to_overwrite(arguments.certificate, arguments.model)
    refuse_same_path(output=arguments.output, certificate=arguments.certificate)
    found = theory.minimise(
        read_network(arguments.model),
        read_domain(arguments),
        method="interval" if arguments.interval else "exact",
        budget=arguments.budget,
        verbose=True,
    )
    report(f"before  {' -> '.join(map(str, found.before))}\n")
    report(f"after   {' -> '.join(map(str, found.after))}\n")
    counts = Counter((rewrite.layer, rewrite.rule) for rewrite in found.rewrites)
    for (layer, rule), number in sorted(counts.items()):
        report(f"layer {layer}  {number} {rule}\n")
    report(f"proved equal {how_proved(found.proof)}\n")
    if arguments.certificate is not None:
        found.certificate().save(arguments.certificate)
    if arguments.output is not None:
        _write(found, arguments)
    return 0


def _write(found: "Minimised", arguments: argparse.Namespace) -> None:
    from hardzero import theory
    from hardzero.serving import StackModel, load, save

    output: Path = arguments.output
    if output.suffix.lower() == ".json":
        theory.save_network(found.network, output)
        return
    try:
        stack = theory.as_stack(found.network, rounding=arguments.rounding)
    except ParameterError as error:
        raise ParameterError(
            f"{output} was not written: {error} Here that is --rounding, and an OUT "
            "that ends in .json."
        ) from None
    if arguments.model.suffix.lower() == ".json":
        save(StackModel(stack), output)
    else:
        model = load(arguments.model)
        stack = replace(stack, output_link=model.stack.output_link)
        save(replace(model, stack=stack), output)
    if arguments.rounding:
        report(f"{output}: {_say_rounding(found, stack, arguments)}\n")


def _say_rounding(
    found: "Minimised", stack: "RectifierStack", arguments: argparse.Namespace
) -> str:
    """Say by how much rounded weights change the function."""
    from hardzero import theory

    rounded = theory.as_network(stack)
    if rounded == found.network:
        return "no weight had to be rounded"
    try:
        gap = theory.supremum_difference(
            found.network,
            rounded,
            found.proof.domain,
            budget=arguments.budget,
            verbose=True,
        ).value
    except BudgetError:
        return "weights rounded, so not equal; the difference takes a larger --budget"
    size = "more and more, far away" if gap == math.inf else f"by at most {show(gap)}"
    what = "; the certificate is about the exact weights"
    return (
        f"weights rounded, so not equal: outputs differ {size}"
        f"{what if arguments.certificate else ''}"
    )
