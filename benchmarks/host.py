"""The process in which contenders of a race live; it takes its turn when told to.

`racing.py` starts it with the thread variables already set and talks to it in lines of
JSON. First line in: the contenders to build. Then, for each line ``{"turn": k, ...}``
the k-th contender runs and its seconds per call go back; a turn of no calls
asks for its closing notes.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import importlib
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import IO, Any

import machine
import tasks


@dataclasses.dataclass
class Ready:
    """A contender that is built and can be timed.

    Parameters
    ----------
    run : callable
        ``run(i)`` does the timed work on the i-th mini-batch.
    result : callable
        ``result()`` returns the arrays that are compared with NumPy's: all parameters
        after some steps, or the outputs of the last call.
    notes : callable
        ``notes()``, called after the last turn, returns what a reader of the result
        should know.
    """

    run: Callable[[int], object]
    result: Callable[[], list[Any]]
    notes: Callable[[], dict[str, Any]] = dict


class MissingError(Exception):
    """A contender cannot run here; the text is the reason that the result gives."""


@dataclasses.dataclass
class Seat:
    """A contender, the batches it is timed on, and the one that is next."""

    case: tasks.Case
    ready: Ready
    next: int = 0

    def call(self) -> None:
        """Run the next mini-batch."""
        self.ready.run(self.next)
        self.next = (self.next + 1) % self.case.n_batches


def main() -> None:
    """Build the contenders of the first line, then answer until the pipe closes."""
    die_with_parent()
    with private_output() as answers:
        request = json.loads(sys.stdin.readline())
        if request["single_core"] and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        seats, reports = [], []
        for contender in request["contenders"]:
            seat, report = build(contender)
            seats.append(seat)
            reports.append(report)
        answer(answers, {"reports": reports, "libraries": machine.libraries()})
        gc.collect()
        gc.freeze()
        for line in sys.stdin:
            turn = json.loads(line)
            seat = seats[turn["turn"]]
            assert seat is not None, "an absent contender was given a turn"
            if turn["calls"]:
                answer(answers, time_calls(seat, turn["warm"], turn["calls"]))
            else:
                answer(answers, seat.ready.notes())


def build(contender: dict[str, Any]) -> tuple[Seat | None, dict[str, Any]]:
    """Build one contender and compare it with NumPy.

    Parameters
    ----------
    contender : dict
        ``module`` and ``factory`` to call with the case and ``options``.

    Returns
    -------
    seat : Seat or None
        None if the contender is absent.
    report : dict
        ``absent`` (the reason, or None) and ``agreement``.
    """
    case = open_case(json.dumps(contender["case"]))
    module = importlib.import_module(contender["module"])
    try:
        factory = getattr(module, contender["factory"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ready = factory(case, **contender["options"])
            agreement = module.check(case, ready)
    except Exception as error:  # noqa: BLE001 - whatever a peer raises, the race goes on
        return None, {"absent": reason(error), "agreement": None}
    absent = None if agreement["agrees"] else "its result differs from NumPy's"
    seat = Seat(case, ready) if absent is None else None
    return seat, {"absent": absent, "agreement": agreement}


def open_case(spec: str) -> tasks.Case:
    """Open a case once per process, however many contenders share it."""
    if spec not in _CASES:
        _CASES[spec] = tasks.open_case(**json.loads(spec))
    return _CASES[spec]


_CASES: dict[str, tasks.Case] = {}


def time_calls(seat: Seat, warm: int, calls: int) -> dict[str, list[float]]:
    """Call `warm` times untimed, then `calls` times; return seconds per call."""
    wall, cpu = [], []
    gc.disable()
    for _ in range(warm):
        seat.call()
    for _ in range(calls):
        cpu_start, wall_start = time.process_time(), time.perf_counter()
        seat.call()
        wall_end, cpu_end = time.perf_counter(), time.process_time()
        wall.append(wall_end - wall_start)
        cpu.append(cpu_end - cpu_start)
    gc.enable()
    return {"wall": wall, "cpu": cpu}


def reason(error: BaseException) -> str:
    """Say in one line why a contender is absent, without the machine's folders."""
    if isinstance(error, ImportError) and error.name:
        return f"{error.name} is not installed"
    text = str(error).strip().splitlines()
    first = text[0] if text else ""
    for folder, shown in ((str(machine.ROOT), "."), (sys.prefix, "PYTHON")):
        first = first.replace(folder, shown)
    if isinstance(error, MissingError):
        return first
    return f"{type(error).__name__}: {first}"[:200]


def answer(pipe: IO[str], message: dict[str, Any]) -> None:
    """Send one line."""
    pipe.write(json.dumps(message) + "\n")
    pipe.flush()


@contextlib.contextmanager
def private_output() -> Iterator[IO[str]]:
    """Keep stdout for the answers and send whatever libraries print to stderr."""
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with pipe:
        yield pipe


def die_with_parent() -> None:
    """Ask Linux to end this process with the race, even if it is stopped just then."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


if __name__ == "__main__":
    main()
