"""Arguments that several commands share, checked while they are parsed."""

import argparse
import os
from pathlib import Path


def positive(text: str) -> int:
    """Read a whole number above 0.

    Parameters
    ----------
    text : str
        As typed.

    Returns
    -------
    int
        The number.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none, or 0 or less.
    """
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


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
        type=positive,
        metavar="N",
        help="number of threads; results do not depend on it (default: all processors)",
    )


def count_threads(given: int | None) -> int:
    """Return the number of threads to use.

    Parameters
    ----------
    given : int or None
        What the user asked for.

    Returns
    -------
    int
        That, or the number of processors that this process may use.
    """
    if given is not None:
        return given
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
