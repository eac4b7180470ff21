"""Arguments that several commands share, checked while they are parsed."""

import argparse
from itertools import combinations
from pathlib import Path
from typing import Final

from hardzero.errors import ParameterError
from hardzero.threads import MAX_THREADS

_LARGEST: Final = 2**31 - 1


def positive(text: str, largest: int = _LARGEST) -> int:
    """Read a whole number above 0.

    Parameters
    ----------
    text : str
        As typed.
    largest : int, default=2147483647
        The largest that is accepted.

    Returns
    -------
    int
        The number.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none, 0 or less, or more than ``largest``.
    """
    # A number with more digits than the largest is not even read.
    digits = text.lstrip("0") if text.isdecimal() else ""
    if not digits:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    if len(digits) > len(str(largest)) or int(digits) > largest:
        raise argparse.ArgumentTypeError(f"{digits:.20} is more than {largest:,}")
    return int(digits)


def threads(text: str) -> int:
    """Read a number of threads.

    Parameters
    ----------
    text : str
        As typed.

    Returns
    -------
    int
        From 1 to 1024.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is no such number.
    """
    return positive(text, MAX_THREADS)


def sizes(text: str) -> tuple[int, ...]:
    """Read whole numbers above 0, separated by commas.

    Parameters
    ----------
    text : str
        As typed, such as "300,100".

    Returns
    -------
    tuple of int
        The numbers.

    Raises
    ------
    argparse.ArgumentTypeError
        If one of them is not such a number.
    """
    return tuple(positive(part.strip()) for part in text.split(","))


def output_path(text: str) -> Path:
    """Read the path of a file to be written, before any work is done for it.

    Parameters
    ----------
    text : str
        As typed.

    Returns
    -------
    Path
        The path.

    Raises
    ------
    argparse.ArgumentTypeError
        If its folder does not exist, or it is a folder itself.
    """
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder, not a file")
    return path


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add ``--seed``.

    Parameters
    ----------
    parser : ArgumentParser
        Of a command.
    """
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="decides about first weights and shuffles (default: 0)",
    )


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Add ``--threads``.

    Parameters
    ----------
    parser : ArgumentParser
        Of a command.
    """
    parser.add_argument(
        "--threads",
        type=threads,
        default=-1,
        metavar="N",
        help="number of threads; results do not depend on it (default: all processors)",
    )


def refuse_to_overwrite(output: Path | None, *inputs: Path) -> None:
    """Refuse an output that is one of the inputs: it would be lost.

    Parameters
    ----------
    output : Path or None
        File to be written.
    *inputs : Path
        Files that are read.

    Raises
    ------
    ParameterError
        If the output is one of them.
    """
    for path in inputs:
        if output and _are_same(output, path):
            raise ParameterError(
                f"The output {output} is also the input {path}, which would be lost. "
                "Give another name with --output."
            )


def refuse_same_path(**outputs: Path | None) -> None:
    """Refuse one path for two outputs: one would be lost.

    Parameters
    ----------
    **outputs : Path or None
        Files to be written, by the names of their options.

    Raises
    ------
    ParameterError
        If two of them are the same.
    """
    given = [(name, path) for name, path in outputs.items() if path]
    for (name, path), (other_name, other) in combinations(given, 2):
        if _are_same(path, other):
            raise ParameterError(
                f"--{name} {path} and --{other_name} {other} are one and the same "
                "file, and one of the two would be lost. Give each a name of its own."
            )


def _are_same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()
