"""Going through cells: how many at most, and how far one has come."""

from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any, Final

from hardzero.engine.progress import show_progress
from hardzero.errors import ParameterError
from hardzero.theory.cells import Area, Piece

__all__ = ["check_budget", "visit"]

_STEPS: Final = 1_000_000  # of a progress bar


def check_budget(budget: Any, what: str = "cells") -> None:
    """Refuse what is no number of cells.

    Parameters
    ----------
    budget : object
        What a user gave.
    what : str, default="cells"
        What it counts.

    Raises
    ------
    ParameterError
        If it is not a whole number from 1 on.
    """
    if isinstance(budget, bool) or not isinstance(budget, Integral) or budget < 1:
        raise ParameterError(
            f"budget is {budget!r}, expected a whole number of {what}, at least 1."
        )


def visit(
    cells: Iterable[Piece[Area]], *, verbose: bool, title: str = "cells"
) -> Iterator[tuple[int, Piece[Area]]]:
    """Yield cells with their numbers, and show how much of the domain is done.

    Parameters
    ----------
    cells : iterable of Piece
        What `hardzero.theory.cells.split` yields.
    verbose : bool
        Whether a progress bar is shown on standard error.
    title : str, default="cells"
        What is going on.

    Yields
    ------
    number : int
        How many there were so far, this one included.
    cell : Piece
        The cell.
    """
    number, steps, done = 0, 0, 0.0
    with show_progress(_STEPS, 1, enabled=verbose, title=title) as bar:
        for number, cell in enumerate(cells, start=1):
            done += cell.share
            bar.advance(round(done * _STEPS) - steps)
            steps = round(done * _STEPS)
            if number % 1000 == 0:
                bar.describe(f"{number:,}")
            yield number, cell
        bar.describe(f"{number:,}")
