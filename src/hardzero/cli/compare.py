"""Train rectifier, tanh and softplus networks on real data and compare them."""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardzero.cli.options import (
    add_threads,
    output_path,
    positive,
    refuse_same_path,
    sizes,
)
from hardzero.cli.output import report
from hardzero.errors import ParameterError
from hardzero.threads import count_threads

if TYPE_CHECKING:
    from hardzero.cli.contest import Contest, Run

_SETTINGS: dict[str, dict[str, Any]] = {
    "digits": {
        "hidden_sizes": (300, 300, 300),
        "max_epochs": 40,
        "batch_size": 10,
        "n_seeds": 5,
    },
    "mnist": {
        "hidden_sizes": (500, 500, 500),
        "max_epochs": 10,
        "batch_size": 50,
        "n_seeds": 3,
    },
    "cifar10": {
        "hidden_sizes": (500, 500, 500),
        "max_epochs": 20,
        "batch_size": 50,
        "n_seeds": 3,
    },
}
_TRAINING_ROWS = {"digits": 1_200, "mnist": 60_000, "cifar10": 50_000}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hardzero compare``.

    Parameters
    ----------
    parser : ArgumentParser
        Of this command.
    """
    parser.add_argument(
        "--data",
        choices=tuple(_SETTINGS),
        default="digits",
        help="digits (default) come with scikit-learn; mnist and cifar10 come from the "
        "folder that HARDZERO_DATA names, or are downloaded",
    )
    parser.add_argument(
        "--seeds", type=positive, metavar="N", help="networks of each activation"
    )
    parser.add_argument(
        "--hidden-sizes", type=sizes, metavar="N,N", help="units of each hidden layer"
    )
    parser.add_argument(
        "--max-epochs",
        type=positive,
        metavar="N",
        help="passes over the rows with labels (default: fewer labels, more passes)",
    )
    parser.add_argument(
        "--labels",
        type=positive,
        metavar="N",
        help="draw N training rows whose labels are known (default: all)",
    )
    parser.add_argument(
        "--pretraining",
        action="store_true",
        help="train each network also with denoising pre-training, which uses rows "
        "without labels too, and compare the errors",
    )
    parser.add_argument(
        "--picture",
        type=_picture_path,
        metavar="PATH",
        help="draw the comparison as .png or .svg (needs matplotlib)",
    )
    parser.add_argument(
        "--json", type=output_path, metavar="PATH", help="write all results as JSON"
    )
    add_threads(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train all networks, write JSON and picture, print the table.

    The table is printed even if a file cannot be written, which is said at the end.

    Parameters
    ----------
    arguments : Namespace
        As parsed.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    ParameterError
        If a picture is wanted and matplotlib is not installed, more labels than there
        are, or one file for picture and JSON.
    OSError
        If a file cannot be written.
    """
    from hardzero.cli.contest import Contest

    refuse_same_path(json=arguments.json, picture=arguments.picture)
    given = {
        "n_seeds": arguments.seeds,
        "hidden_sizes": arguments.hidden_sizes,
        "max_epochs": arguments.max_epochs,
    }
    settings = dict(_SETTINGS[arguments.data])
    if arguments.labels:  # as many updates as with all labels
        rows = _TRAINING_ROWS[arguments.data]
        settings["max_epochs"] *= max(rows // arguments.labels, 1)
    chosen = {name: value for name, value in given.items() if value is not None}
    contest = Contest(
        arguments.data,
        **{**settings, **chosen},
        n_labels=arguments.labels,
        pretraining=arguments.pretraining,
    )
    if arguments.picture and find_spec("matplotlib") is None:
        raise ParameterError(
            "No picture can be drawn, because matplotlib is not installed. Run pip "
            "install 'hardzero[plots]', or leave --picture out."
        )
    n_threads = count_threads(arguments.threads)
    runs = _watch(contest, n_threads)
    failures: dict[str, str] = {}
    if arguments.json:
        with _noting(failures, "JSON", arguments.json):
            _write_json(arguments.json, contest, runs, n_threads)
    if arguments.picture:
        from hardzero.cli.picture import draw

        with _noting(failures, "picture", arguments.picture):
            draw(runs, contest.data, arguments.picture)
    _print(contest, runs)  # the files are there, even if this cannot be printed
    if arguments.picture and "picture" not in failures:
        report(f"Picture in {arguments.picture}\n")
    if failures:
        raise OSError(" ".join(failures.values()))
    return 0


@contextmanager
def _noting(failures: dict[str, str], what: str, path: Path) -> Iterator[None]:
    """Write down that a file cannot be written, and go on."""
    try:
        yield
    except OSError as error:
        failures[what] = (
            f"The {what} could not be written to {path}: {error.strerror or error}. "
            f"Give another path with --{what.lower()}."
        )


def _picture_path(text: str) -> Path:
    path = output_path(text)
    if path.suffix.lower() not in (".png", ".svg"):
        raise argparse.ArgumentTypeError(f"{text} ends neither in .png nor in .svg")
    return path


def _watch(contest: "Contest", n_threads: int) -> "list[Run]":
    """Hold the contest under a progress bar."""
    from rich.console import Console
    from rich.progress import Progress

    from hardzero.cli.contest import ACTIVATIONS, hold_contest

    runs = []
    total = contest.n_seeds * len(ACTIVATIONS) * len(contest.starts)
    console = Console(stderr=True)
    with Progress(
        console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("training", total=total)
        for finished in hold_contest(contest, n_threads=n_threads):
            runs.append(finished)
            bar.advance(task)
    return runs


def _print(contest: "Contest", runs: "Sequence[Run]") -> None:
    from rich.console import Console
    from rich.table import Table

    from hardzero.cli.contest import ACTIVATIONS, L1_ACTIVATION

    sizes = "-".join(map(str, contest.hidden_sizes))
    labels = f", {_count(contest.n_labels, 'label')}" if contest.n_labels else ""
    table = Table(
        title=f"{contest.data}: hidden layers {sizes}{labels}, "
        f"{_count(contest.max_epochs, 'epoch')}, {_count(contest.n_seeds, 'seed')}"
    )
    table.add_column("activation")
    for name in ("test error %", "exact zeros %", "dead units", "seconds"):
        table.add_column(name, justify="right")
    for activation, pretrained in product(ACTIVATIONS, contest.starts):
        mine = [
            run
            for run in runs
            if (run.activation, run.pretrained) == (activation, pretrained)
        ]
        dead = statistics.mean(run.dead_units for run in mine)
        seconds = _mean([run.seconds for run in mine], 1)
        if pretrained:
            before = statistics.mean(run.pretraining_seconds for run in mine)
            after = statistics.mean(run.seconds for run in mine)
            seconds = f"{before:.1f} + {after:.1f}"
        table.add_row(
            "  pre-trained" if pretrained else activation,
            _mean([100 * run.test_error for run in mine], 2),
            _mean([100 * statistics.mean(run.zeros) for run in mine], 1),
            f"{dead:.4g} of {mine[0].n_units}",
            seconds,
        )
    Console(file=sys.stdout, highlight=False).print(
        table,
        "Mean ± standard deviation over seeds. Zeros are counted on test rows over all "
        "hidden layers; a dead unit is zero for every training row. All networks: "
        f"stochastic gradient descent, learning rate {contest.learning_rate:g}, batch "
        f"{contest.batch_size}. Only the rectifier: L1 penalty {L1_ACTIVATION:g} on "
        "activations, sign -1 for half of the units.",
        *(_changes(runs) if contest.pretraining else ()),
        sep="\n",
    )


def _changes(runs: "Sequence[Run]") -> Iterator[str]:
    """Say what pre-training changed."""
    from hardzero.cli.contest import ACTIVATIONS, compare_starts

    comparisons = {name: compare_starts(runs, name) for name in ACTIVATIONS}
    test = comparisons[ACTIVATIONS[0]].test
    yield (
        "Pre-trained: hidden layers first learned to undo noise, on all training rows "
        "without labels, for the first number of seconds. That changed the test error "
        "by so many points (95 % interval over test rows, for these networks; p: "
        f"{test}):"
    )
    for name, comparison in comparisons.items():
        high, low = (-100 * end for end in comparison.interval)
        yield (
            f"  {name:<9} {-100 * comparison.difference:+z7.2f}  "
            f"({low:+z.2f} to {high:+z.2f})  p = {comparison.p_value:.2g}"
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _mean(values: Sequence[float], digits: int) -> str:
    mean = f"{statistics.mean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {statistics.stdev(values):.{digits}f}"


def _write_json(
    path: Path, contest: "Contest", runs: "Sequence[Run]", n_threads: int
) -> None:
    from hardzero.atomic import replacing
    from hardzero.cli.contest import ACTIVATIONS, compare_starts
    from hardzero.cli.info import describe_installation

    content = {
        "contest": asdict(contest),
        "n_threads": n_threads,
        "installation": describe_installation(),
        "runs": [asdict(run) for run in runs],
    }
    if contest.pretraining:
        content["comparisons"] = {
            activation: json.loads(compare_starts(runs, activation).to_json())
            for activation in ACTIVATIONS
        }
    with replacing(path) as stream:
        stream.write(json.dumps(content, indent=1).encode())
