"""How many threads a computation may use."""

import os
from typing import Final

from hardzero.errors import ParameterError

__all__ = ["MAX_THREADS", "count_threads"]

MAX_THREADS: Final = 1024
"""No computation takes more threads than this."""


def count_threads(n_threads: int = -1) -> int:
    """Return the number of threads that was asked for.

    Parameters
    ----------
    n_threads : int, default=-1
        A number from 1 to `MAX_THREADS`, or -1 for all processors that this process
        may use.

    Returns
    -------
    int
        From 1 to `MAX_THREADS`.

    Raises
    ------
    ParameterError
        If `n_threads` is no such number.
    """
    if n_threads == -1:
        return min(_count_processors(), MAX_THREADS)
    if not 1 <= n_threads <= MAX_THREADS:
        raise ParameterError(
            f"n_threads is {n_threads!r}, expected a number from 1 to {MAX_THREADS}, "
            "or -1 for all processors. Give the number of cores to use."
        )
    return int(n_threads)


def _count_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS and Windows tell no more
