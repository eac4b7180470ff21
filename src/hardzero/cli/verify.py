"""Check a certificate from the weights up; exit code 1 if it proves nothing."""

import argparse
from pathlib import Path

from hardzero.cli.exact import read_network
from hardzero.cli.output import report
from hardzero.errors import DataError, ParameterError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero verify``.

    Parameters
    ----------
    parser : ArgumentParser
        Of this command.
    """
    parser.add_argument(
        "certificate",
        type=Path,
        metavar="CERTIFICATE",
        help="what --certificate of regions, equal, minimise or maximum wrote",
    )
    parser.add_argument(
        "models",
        type=Path,
        nargs="*",
        metavar="MODEL",
        help="networks that it should be about; without, it is only checked in itself",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what is proved.

    Parameters
    ----------
    arguments : Namespace
        As parsed.

    Returns
    -------
    int
        Exit code 0; a certificate that proves nothing is an error.
    """
    from hardzero import theory

    certificate = theory.load_certificate(arguments.certificate)
    claim = theory.verify(certificate)
    models = [read_network(path) for path in arguments.models]
    n_networks = len(certificate.networks)
    if models and len(models) != n_networks:
        raise ParameterError(
            f"{arguments.certificate} is valid and about {n_networks} networks, but "
            f"{len(models)} were given to compare with. Give as many, in that order: "
            f"{claim}."
        )
    if models and not certificate.is_about(*models):
        raise DataError(
            f"{arguments.certificate} is valid, but about other networks than "
            f"{', '.join(map(str, arguments.models))}: {claim}."
        )
    report(f"valid: {claim}\n")
    return 0
