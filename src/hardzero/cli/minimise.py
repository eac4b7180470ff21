"""Take away what a network does not need, and prove that nothing changed."""

import argparse
from collections import Counter
from pathlib import Path

from hardzero.cli.exact import (
    add_certificate,
    add_domain,
    add_network,
    read_domain,
    read_network,
)
from hardzero.cli.options import output_path, refuse_same_path, refuse_to_overwrite
from hardzero.cli.output import report


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
    if arguments.output is not None:
        _write(found.network, arguments)
    if arguments.certificate is not None:
        found.proof.certificate().save(arguments.certificate)
    report(f"before  {' -> '.join(map(str, found.before))}\n")
    report(f"after   {' -> '.join(map(str, found.after))}\n")
    counts = Counter((rewrite.layer, rewrite.rule) for rewrite in found.rewrites)
    for (layer, rule), number in sorted(counts.items()):
        report(f"layer {layer + 1}  {number} {rule}\n")
    n_cells = found.proof.n_cells
    how = f"on {n_cells:,} cells" if n_cells else "by canonical forms"
    report(f"proved equal {how}\n")
    return 0


def _write(network: "object", arguments: argparse.Namespace) -> None:
    from dataclasses import replace

    from hardzero import theory
    from hardzero.serving import StackModel, load, save

    output: Path = arguments.output
    assert isinstance(network, theory.RationalNetwork)
    if output.suffix.lower() == ".json":
        theory.save_network(network, output)
        return
    stack = theory.as_stack(network, rounding=arguments.rounding)
    if arguments.model.suffix.lower() == ".json":
        save(StackModel(stack), output)
        return
    model = load(arguments.model)
    stack = replace(stack, output_link=model.stack.output_link)
    save(replace(model, stack=stack), output)
