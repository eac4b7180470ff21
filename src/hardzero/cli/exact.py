"""What the commands about exact answers share: networks, domains, numbers."""

import argparse
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hardzero.cli.options import output_path, positive
from hardzero.errors import DataError

if TYPE_CHECKING:
    from hardzero.theory import Equality, RationalNetwork

_MOST_DIGITS: Final = 40


def add_network(parser: argparse.ArgumentParser, name: str = "model") -> None:
    """Add an argument for a network.

    Parameters
    ----------
    parser : ArgumentParser
        Of a command.
    name : str, default="model"
        Of the argument.
    """
    parser.add_argument(
        name,
        type=Path,
        metavar=name.upper(),
        help="what hardzero fit wrote, or a .json file with exact weights: "
        '{"layers": [{"W": [[1, "1/2"]], "b": [0, 0]}, ...]}',
    )


def add_domain(parser: argparse.ArgumentParser) -> None:
    """Add ``--box``, ``--domain`` and ``--budget``.

    Parameters
    ----------
    parser : ArgumentParser
        Of a command.
    """
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--box",
        nargs=2,
        type=_number,
        metavar=("LOWER", "UPPER"),
        help="look at inputs between two numbers only, such as -1 1/2 (default: at all "
        "inputs)",
    )
    where.add_argument(
        "--domain",
        type=Path,
        metavar="FILE",
        help="look at a box or a polytope A x <= b only: JSON such as "
        '{"lower": [0, 0], "upper": [1, "1/2"]} or {"A": [[1, 1]], "b": [1]}',
    )
    parser.add_argument(
        "--budget",
        type=positive,
        default=1_000_000,
        metavar="N",
        help="give up when there are more cells than this (default: 1000000)",
    )


def add_certificate(parser: argparse.ArgumentParser) -> None:
    """Add ``--certificate``.

    Parameters
    ----------
    parser : ArgumentParser
        Of a command.
    """
    parser.add_argument(
        "--certificate",
        type=output_path,
        metavar="OUT",
        help="write a proof that hardzero verify, or anybody, can check (.json, or "
        "compressed: .json.gz)",
    )


def read_network(path: Path) -> "RationalNetwork":
    """Read a network exactly.

    Parameters
    ----------
    path : Path
        A model file, or a JSON file with rational weights.

    Returns
    -------
    RationalNetwork
        The network.

    Raises
    ------
    DataError
        If the file is neither.
    ParameterError
        If its activations are not piecewise linear.
    """
    from hardzero import theory
    from hardzero.serving import load

    if path.suffix.lower() == ".json":
        return theory.load_network(path)
    return theory.as_network(load(path))


def read_domain(arguments: argparse.Namespace) -> Any:
    """Return the domain that was asked for.

    Parameters
    ----------
    arguments : Namespace
        With what `add_domain` added.

    Returns
    -------
    None or tuple
        As functions of `hardzero.theory` take it.

    Raises
    ------
    DataError
        If the file says no domain.
    """
    if arguments.box is not None:
        return tuple(arguments.box)
    if arguments.domain is None:
        return None
    from hardzero.theory.files import read_json

    path = arguments.domain
    content = read_json(path)
    for names in (("lower", "upper"), ("A", "b")):
        if isinstance(content, dict) and content.keys() == set(names):
            return tuple(content[name] for name in names)
    raise DataError(
        f'{path} says no domain. Write {{"lower": [0, 0], "upper": [1, 1]}}, or '
        '{"A": [[1, 1]], "b": [1]} for A x <= b.'
    )


def how_proved(found: "Equality") -> str:
    """Say what a verdict rests on.

    Parameters
    ----------
    found : Equality
        The verdict.

    Returns
    -------
    str
        Such as "on 12 cells" or "by canonical forms".
    """
    return f"on {found.n_cells:,} cells" if found.n_cells else f"by {found.method}s"


def show(value: Fraction | float) -> str:
    """Write a number exactly if that is short, and as a decimal fraction.

    Parameters
    ----------
    value : Fraction or float
        The number; a float is an infinity.

    Returns
    -------
    str
        Such as "1/3 (0.333333)" or "2".
    """
    if not isinstance(value, Fraction):
        return "infinity" if value > 0 else "-infinity"
    if value.denominator == 1 and abs(value) < 10**_MOST_DIGITS:
        return str(value)
    decimal = _decimal(value)
    bits = value.numerator.bit_length() + value.denominator.bit_length()
    if bits > 3 * _MOST_DIGITS:
        return f"{decimal} (a fraction of {bits} bits; --json has it)"
    return f"{value} ({decimal})"


def show_point(point: tuple[Fraction, ...]) -> str:
    """Write a point by decimal fractions.

    Parameters
    ----------
    point : tuple of Fraction
        Its coordinates.

    Returns
    -------
    str
        Such as "(0.5, -1)"; of many coordinates the first ones.
    """
    shown = [_decimal(value) for value in point[:8]]
    more = [f"... {len(point)} in all"] if len(point) > len(shown) else []
    return f"({', '.join(shown + more)})"


def _decimal(value: Fraction) -> str:
    try:
        return f"{float(value):g}"
    except OverflowError:
        digits = int(abs(value)).bit_length() * 3 // 10
        return f"about {'-' if value < 0 else ''}10^{digits}"


def _number(text: str) -> Fraction:
    from hardzero.theory.rational import text_to_fraction

    try:
        return text_to_fraction(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number such as -1, 0.5 or 1/3"
        ) from None
