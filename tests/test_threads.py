"""Counting threads."""

import os

import pytest

from hardzero.errors import ParameterError
from hardzero.threads import MAX_THREADS, count_threads


@pytest.mark.parametrize("n_threads", [1, 3, MAX_THREADS])
def test_what_is_asked_for(n_threads):
    """A number stands for itself."""
    assert count_threads(n_threads) == n_threads


def test_all_processors(monkeypatch):
    """-1 counts the processors of this process, or of the machine, up to a limit."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 7}, raising=False)
    assert count_threads() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    for n_processors, expected in ((6, 6), (None, 1), (5000, MAX_THREADS)):
        monkeypatch.setattr(os, "cpu_count", lambda n=n_processors: n)
        assert count_threads(-1) == expected


@pytest.mark.parametrize("n_threads", [0, -2, MAX_THREADS + 1])
def test_other_numbers_are_refused(n_threads):
    """The message says which numbers there are."""
    with pytest.raises(ParameterError, match=rf"is {n_threads}, expected .* to 1024"):
        count_threads(n_threads)
