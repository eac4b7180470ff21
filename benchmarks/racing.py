"""A fair race: contenders take turns, so that drift and neighbours hit them all alike.

Normally each contender has a process of its own and a turn lasts many calls, the first
of them untimed: it then runs with warm caches, as it would in a program of its own. The
processes that are not on turn are stopped, because threads that wait for work by
spinning would steal time. In ``shared`` mode all live in one process and a turn is one
call, so each finds the caches full of another's weights: the worst case, above all for
an engine that lives on small working sets.

What is reported: per contender the median over rounds of CPU and wall time per call,
with quartiles, the tenth percentile of the wall time, and the ratio to the first
contender, paired by round.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import machine
import tasks

HOST = Path(__file__).resolve().parent / "host.py"
RESULTS = Path(__file__).resolve().parent / "results"
PATIENCE = 1800  # seconds that a contender has for one answer, building included
QUICK_RESULTS = tasks.CACHE / "quick"


@dataclass(frozen=True)
class Contender:
    """How to build a contender inside its process.

    Parameters
    ----------
    name : str
        What tables call it.
    module, factory : str
        Module of this folder and function in it, called with the case and `options`.
        The module also has ``check(case, ready)``.
    options : dict
        Keyword arguments of the factory.
    environment : dict
        Variables for this contender alone; it is left out of shared races.
    single_core : bool
        Tie the process to one core when one thread is asked for: for libraries that
        have no other way to be held to one.
    case : dict
        Fields of the case that differ from the race's.
    """

    name: str
    module: str
    factory: str
    options: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    single_core: bool = False
    case: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pace:
    """How long a race lasts.

    Parameters
    ----------
    rounds : int
        Turns of each contender.
    turn_seconds : float
        Aim for the timed part of a turn; at least one call is made.
    shared_rounds : int
        Turns, of one call each, in shared mode.
    """

    rounds: int = 30
    turn_seconds: float = 0.1
    shared_rounds: int = 60

    MAX_CALLS = 200


def race(
    contenders: Sequence[Contender],
    case: dict[str, Any],
    pace: Pace,
    *,
    shared: bool = False,
) -> list[dict[str, Any]]:
    """Let the contenders take turns and return one record for each.

    Parameters
    ----------
    contenders : sequence of Contender
        The first one is the base of the ratios; if it is absent there are none.
    case : dict
        Arguments of `tasks.open_case`.
    pace : Pace
        Number and length of the turns.
    shared : bool, default=False
        Put all into one process (see the module's docstring).

    Returns
    -------
    list of dict
        In the order of `contenders`. A contender that could not run has a reason
        under ``absent`` and no times.
    """
    with contextlib.ExitStack() as stack:
        if shared:
            runners = [c for c in contenders if not c.environment]
            groups = [runners]
        else:
            groups = [[contender] for contender in contenders]
        seats: list[_Seat] = []
        for group in groups:
            process = stack.enter_context(_process(group, case))
            seats += [_Seat(c, process, k) for k, c in enumerate(group)]
        present = [seat for seat in seats if seat.absent is None]
        if shared:
            _take_turns(present, pace.shared_rounds, warm=0, turn_seconds=0.0)
        else:
            _take_turns(present, pace.rounds, warm=2, turn_seconds=pace.turn_seconds)
        records = [seat.record(seats[0]) for seat in seats]
    left_out = [c for c in contenders if shared and c.environment]
    return records + [
        {"name": c.name, "absent": "needs an environment of its own"} for c in left_out
    ]


def _take_turns(
    seats: list[_Seat], rounds: int, *, warm: int, turn_seconds: float
) -> None:
    """Run all rounds, each in a random order so that nobody follows the same one."""
    for seat in seats:
        seat.turn(warm=3, calls=1, keep=False)  # lets compilers finish
        seconds = seat.turn(warm=0, calls=3, keep=False)
        seat.calls = round(turn_seconds / max(seconds, 1e-9))
        seat.calls = min(max(seat.calls, 1), Pace.MAX_CALLS)
        seat.warm = warm if seconds < 0.05 else min(warm, 1)
    order = random.Random(0)
    for _ in range(rounds):
        for seat in order.sample(seats, len(seats)):
            if seat.absent is None:
                seat.turn(seat.warm, seat.calls)


class _Seat:
    """A contender, the process it lives in, and its times by round."""

    def __init__(self, contender: Contender, process: _Process, index: int) -> None:
        self.contender = contender
        self.process = process
        self.index = index
        self.calls = 1
        self.warm = 0
        self.wall: list[list[float]] = []
        self.cpu: list[list[float]] = []
        self.report = process.reports[index]
        self.absent: str | None = self.report["absent"]

    def turn(self, warm: int, calls: int, *, keep: bool = True) -> float:
        """Take a turn; return the shortest wall time of a call."""
        request = {"turn": self.index, "warm": warm, "calls": calls}
        times = self.process.ask(request)
        if times is None:
            self.absent = self.process.failure
            return 0.0
        if keep:
            self.wall.append(times["wall"])
            self.cpu.append(times["cpu"])
        return min(times["wall"])

    def record(self, base: _Seat) -> dict[str, Any]:
        """Return what goes into the result."""
        record: dict[str, Any] = {"name": self.contender.name, "absent": self.absent}
        if self.absent is not None:
            return record | {"agreement": self.report["agreement"]}
        wall = [statistics.median(calls) for calls in self.wall]
        cpu = [statistics.median(calls) for calls in self.cpu]
        record |= {
            "cpu_ms": spread(cpu, scale=1e3),
            "wall_ms": spread(wall, scale=1e3) | {"p10": _digits(1e3 * p10(self.wall))},
            "cores_used": _digits(sum(map(sum, self.cpu)) / sum(map(sum, self.wall))),
            "rounds": len(wall),
            "calls_per_turn": self.calls,
        }
        if base.absent is None:
            record |= {
                "ratio_cpu": spread(ratios(self.cpu, base.cpu)),
                "ratio_wall": spread(ratios(self.wall, base.wall)),
                "ratio_wall_p10": _digits(p10(self.wall) / p10(base.wall)),
            }
        return record | {
            "agreement": self.report["agreement"],
            "notes": self.process.ask({"turn": self.index, "calls": 0}) or {},
            "libraries": self.process.libraries,
        }


def spread(values: Sequence[float], scale: float = 1.0) -> dict[str, float]:
    """Return median and quartiles of `values`, times `scale`."""
    if len(values) > 1:
        quartiles = statistics.quantiles(values, n=4, method="inclusive")
    else:
        quartiles = list(values) * 3
    names = ("q1", "median", "q3")
    return {n: _digits(scale * q) for n, q in zip(names, quartiles, strict=True)}


def p10(rounds: Sequence[Sequence[float]]) -> float:
    """Return the tenth percentile of all calls."""
    calls = sorted(call for calls in rounds for call in calls)
    return calls[len(calls) // 10]


def ratios(
    rounds: Sequence[Sequence[float]], base: Sequence[Sequence[float]]
) -> list[float]:
    """Divide the median of each round by the base's median in the same round."""
    return [
        statistics.median(ours) / statistics.median(theirs)
        for ours, theirs in zip(rounds, base, strict=True)
    ]


class _Process:
    """The parent's end of a `host.py`."""

    def __init__(self, contenders: Sequence[Contender], case: dict[str, Any]) -> None:
        environment = machine.environment(case["n_threads"])
        for contender in contenders:
            environment |= contender.environment
        self.failure: str | None = None
        self.child = subprocess.Popen(
            [sys.executable, str(HOST)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        request = {
            "single_core": case["n_threads"] == 1
            and len(contenders) == 1
            and contenders[0].single_core,
            "contenders": [
                {
                    "module": contender.module,
                    "factory": contender.factory,
                    "options": contender.options,
                    "case": case | contender.case,
                }
                for contender in contenders
            ],
        }
        reply = self.ask(request)
        if reply is None:
            lost = {"absent": self.failure, "agreement": None}
            reply = {"reports": [lost] * len(contenders), "libraries": []}
        self.reports: list[dict[str, Any]] = reply["reports"]
        self.libraries: list[str] = reply["libraries"]

    def ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Wake the process, wait for its answer and stop it again.

        Returns None, with the reason in `failure`, if it died or took too long.
        """
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        alarm = threading.Timer(PATIENCE, self.child.kill)
        alarm.start()
        try:
            self._signal("SIGCONT")
            self.child.stdin.write(json.dumps(request) + "\n")
            self.child.stdin.flush()
            line = self.child.stdout.readline()
            self._signal("SIGSTOP")
        except OSError:
            line = ""
        finally:
            alarm.cancel()
        if not line:
            code = self.child.wait()
            self.failure = f"its process ended with code {code}"
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _signal(self, name: str) -> None:
        number = getattr(signal, name, None)  # Windows has neither of the two
        if number is not None and self.child.poll() is None:
            os.kill(self.child.pid, number)


@contextlib.contextmanager
def _process(
    contenders: Sequence[Contender], case: dict[str, Any]
) -> Iterator[_Process]:
    process = _Process(contenders, case)
    try:
        yield process
    finally:
        process.close()


class Result:
    """A result file, written after every race so that nothing is lost.

    Parameters
    ----------
    name : str
        Name of the script; the file is ``results/NAME.json``.
    options : Namespace
        From `arguments`: ``quick``, ``resume`` and ``output`` decide about the file.
    what : str
        One sentence on what was measured.
    """

    def __init__(self, name: str, options: argparse.Namespace, what: str) -> None:
        folder = QUICK_RESULTS if options.quick else RESULTS
        self.path = Path(options.output or folder / f"{name}.json")
        self.content: dict[str, Any] = {
            "name": name,
            "what": what,
            "quick": options.quick,
            "machine": machine.describe(),
            "settings": _settings(options),
            "records": [],
        }
        if options.resume and self.path.exists():
            earlier = json.loads(self.path.read_text())
            if not _same_software(earlier["machine"], self.content["machine"]):
                raise SystemExit(
                    f"{self.path.name} was made on another machine or with other "
                    "versions, so it cannot be continued. Leave out --resume to start "
                    "it again."
                )
            self.content["records"] = earlier["records"]

    @property
    def records(self) -> list[dict[str, Any]]:
        """What has been measured so far."""
        records: list[dict[str, Any]] = self.content["records"]
        return records

    def has(self, **key: Any) -> bool:
        """Tell whether a record with these fields is there already."""
        return any(key.items() <= record.items() for record in self.records)

    def add(self, record: dict[str, Any]) -> None:
        """Add a record, stamped with time, commit and load, and write the file."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        stamp = {"finished": now, "commit": machine.commit(), "load_average": load}
        self.records.append(record | stamp)
        self.write()

    def write(self) -> None:
        """Write the file, all or nothing."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.content, indent=1) + "\n")
        partial.replace(self.path)


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all scripts share."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two rounds of the first cases, to see that all runs; no measurement: the "
        "result goes to .cache/quick/",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep what the result file has and measure the rest",
    )
    parser.add_argument("--output", help="result file instead of results/NAME.json")
    return parser


def run_script(
    name: str,
    description: str,
    contenders: Sequence[Contender],
    batches: Mapping[str, Sequence[int]],
    needs_csr: Collection[str] = (),
) -> None:
    """Be the main function of a script that races contenders over tasks and batches.

    Parameters
    ----------
    name : str
        Name of the script and of its result file.
    description : str
        The script's docstring.
    contenders : sequence of Contender
        All of them, the base first.
    batches : mapping of str to sequence of int
        Batch sizes of each task; ``--quick`` takes the first of each.
    needs_csr : collection of str
        Names of contenders that only race where the input is sparse.
    """
    options = _race_options(description, contenders, batches)
    result = Result(name, options, description.splitlines()[0])
    abouts = tasks.require(*options.tasks)
    for n_threads in options.threads:
        for task in options.tasks:
            entered = [
                contender
                for contender in contenders
                if (options.huge_pages or not contender.environment)
                and (task.startswith("text") or contender.name not in needs_csr)
                and (not options.contenders or contender.name in options.contenders)
            ]
            sizes = options.batches or batches[task]
            for batch in sizes[:1] if options.quick else sizes:
                case = {"task": task, "batch": batch, "n_threads": n_threads}
                for mode in options.modes:
                    if result.has(mode=mode, **case):
                        continue
                    print(f"{task}, batch {batch}, {n_threads} threads, {mode} process")
                    times = race(entered, case, pace(options), shared=mode == "shared")
                    show(times, n_threads)
                    record = case | {"mode": mode, "about": abouts[task]}
                    result.add(record | {"contenders": times})


def _race_options(
    description: str,
    contenders: Sequence[Contender],
    batches: Mapping[str, Sequence[int]],
) -> argparse.Namespace:
    """Parse the command line of `run_script`."""
    parser = arguments(description)
    pace_arguments(parser)
    parser.add_argument(
        "--tasks",
        nargs="+",
        choices=batches,
        default=list(batches),
        metavar="TASK",
        help="which of " + ", ".join(batches),
    )
    parser.add_argument("--batches", type=int, nargs="+", metavar="ROWS")
    names = [contender.name for contender in contenders]
    parser.add_argument(
        "--contenders",
        nargs="+",
        choices=names,
        metavar="NAME",
        help=f"only these, and {names[0]}, the base of the ratios: {', '.join(names)}",
    )
    parser.add_argument(
        "--modes",
        nargs="+",
        choices=("own", "shared"),
        default=["own", "shared"],
        help="a process for each contender, or one for all",
    )
    if any(contender.environment for contender in contenders):
        parser.add_argument(
            "--huge-pages",
            action="store_true",
            help="let PyTorch take part also with THP_MEM_ALLOC_ENABLE=1",
        )
    else:
        parser.set_defaults(huge_pages=False)
    options = parser.parse_args()
    if options.contenders:
        options.contenders.insert(0, names[0])
    return options


def pace_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options on threads and on the number and length of the turns."""
    usual = Pace()
    parser.add_argument("--threads", type=int, nargs="+", default=[1], metavar="N")
    parser.add_argument("--rounds", type=int, default=usual.rounds)
    parser.add_argument("--turn-seconds", type=float, default=usual.turn_seconds)
    parser.add_argument("--shared-rounds", type=int, default=usual.shared_rounds)


def pace(options: argparse.Namespace) -> Pace:
    """Return the pace that the options ask for."""
    if options.quick:
        return Pace(rounds=2, turn_seconds=0.01, shared_rounds=2)
    return Pace(options.rounds, options.turn_seconds, options.shared_rounds)


def show(records: Sequence[dict[str, Any]], n_threads: int) -> None:
    """Print the times of a race and how many times slower than the first each is."""
    for record in records:
        if "cpu_ms" not in record:
            print(f"  {record['name']:32s} absent: {record['absent']}")
            continue
        cpu, wall = record["cpu_ms"], record["wall_ms"]
        ratio = record_ratio(record, n_threads == 1)
        print(
            f"  {record['name']:32s} cpu {cpu['median']:9.3f} ms "
            f"[{cpu['q1']:.3f}, {cpu['q3']:.3f}]  wall p10 {wall['p10']:9.3f} ms  "
            + ("" if ratio is None else f"{ratio:6.2f}x"),
            flush=True,
        )


def record_ratio(record: dict[str, Any], by_cpu_time: bool) -> float | None:
    """Return a contender's ratio of record to the base, None if it has none.

    At one thread that is the median over rounds of the ratio of CPU times, else the
    ratio of the tenth percentiles of the wall times.
    """
    if "ratio_cpu" not in record:
        return None
    ratio: float = (
        record["ratio_cpu"]["median"] if by_cpu_time else record["ratio_wall_p10"]
    )
    return ratio


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    hidden = {"quick", "resume", "output"}
    return {k: v for k, v in vars(options).items() if k not in hidden}


def _same_software(one: dict[str, Any], other: dict[str, Any]) -> bool:
    def constant(machine: dict[str, Any]) -> list[Any]:
        peers = machine["versions"] | {"hardzero": None}  # a record has its own commit
        return [peers, *(machine[key] for key in ("cpu", "cores_usable", "python"))]

    return constant(one) == constant(other)


def _digits(value: float, n_digits: int = 4) -> float:
    return float(f"{value:.{n_digits}g}")
