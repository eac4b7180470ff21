"""How many cells a computation may look at."""

from typing import Any

from hardzero.errors import ParameterError

__all__ = ["check_budget"]


def check_budget(budget: Any) -> None:
    """Refuse what is no number of cells.

    Parameters
    ----------
    budget : object
        What a user gave.

    Raises
    ------
    ParameterError
        If it is not a whole number from 1 on.
    """
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1:
        raise ParameterError(
            f"budget is {budget!r}, expected a whole number of cells, at least 1."
        )
