"""Whether `hardzero.diagnose` names the trouble, and leaves healthy networks alone.

The labelled networks of `diagnosis_networks.py`: 24 healthy ones and 46 with a trouble.
A verdict is right if the first finding that is more than a note is of the kind that was
made. Rules were tuned on seeds 0 to 3; the result is about others. The trainings of
`diagnosis_trainings.py` are watched, and the update in which the trouble began must be
right, too.

One snapshot after training, no reruns. torchdiag and dead-relu-viz are asked about the
same networks with the interpreter given by ``--peers``; any of the alarms that they
raise counts as theirs, not only the first. Cockpit gives no verdict to compare.
About 3 minutes a seed on one core, and as much for the other tools.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine
import racing

TUNED_ON = (0, 1, 2, 3)
WATCH = "hardzero.watch"
PEERS = ("torchdiag", "dead-relu-viz")


def main() -> None:
    """Diagnose every network of every seed that has no result yet."""
    parser = racing.arguments(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22])
    parser.add_argument("--peers", help="python that has torchdiag and dead-relu-viz")
    options = parser.parse_args()
    if options.quick:
        options.seeds = options.seeds[:1]
    overlap = set(options.seeds) & set(TUNED_ON)
    if overlap:
        raise SystemExit(f"seeds {sorted(overlap)} were used to tune the rules.")
    peers, options.peers = options.peers, machine.versions_in(options.peers, PEERS)
    result = racing.Result("diagnosis", options, __doc__.splitlines()[0])
    from diagnosis_networks import networks
    from diagnosis_trainings import trainings

    for seed in options.seeds:
        cases = list(itertools.islice(networks(), 4 if options.quick else None))
        for name, label, make in cases:
            key = {"network": name, "seed": seed, "tool": "hardzero"}
            if not result.has(**key):
                result.add(key | judge(label, make, seed))
        for name, label, when, make in trainings():
            key = {"network": name, "seed": seed, "tool": WATCH}
            if not options.quick and not result.has(**key):
                result.add(key | judge_training(label, when, make, seed))
        labels = {name: label for name, label, _ in cases}
        if peers and not result.has(seed=seed, tool=PEERS[-1]):
            for name, tool, findings in ask(peers, seed, len(cases)):
                result.add(
                    {"network": name, "seed": seed, "tool": tool}
                    | verdict(labels[name], findings, first_only=False)
                )
    for tool in ("hardzero", WATCH, *PEERS):
        print(f"{tool}: {summary(result.records, tool)}")


def judge(
    label: frozenset[str], make: Callable[[int], Any], seed: int
) -> dict[str, Any]:
    """Train one network and compare its diagnosis with its label."""
    import hardzero

    model, data, loss, optimizer = make(seed)
    started = time.process_time()
    found = hardzero.diagnose(model, data, loss, optimizer)
    seconds = time.process_time() - started
    findings = [f.code for f in found.findings if f.severity != "note"]
    return verdict(label, findings, first_only=True) | {
        "loss": found.facts["loss"],
        "cpu_seconds": round(seconds, 3),
    }


def judge_training(
    label: frozenset[str],
    when: tuple[float, float],
    make: Callable[[int], Any],
    seed: int,
) -> dict[str, Any]:
    """Watch one training and compare its diagnosis with its label."""
    watch, data, loss = make(seed)
    found = watch.diagnose(data, loss)
    serious = [f for f in found.findings if f.severity != "note"]
    judged = verdict(label, [f.code for f in serious], first_only=True)
    began = serious[0].when if serious else None
    if label and began is not None:
        judged["right"] = judged["right"] and when[0] <= began <= when[1]
    return judged | {"began": began, "loss": found.facts["loss"]}


def verdict(
    label: frozenset[str], findings: list[str], *, first_only: bool
) -> dict[str, Any]:
    """Say whether findings fit a label."""
    counted = findings[:1] if first_only else findings
    right = bool(label & set(counted)) if label else not findings
    return {"label": sorted(label), "findings": findings, "right": right}


def ask(peers: str, seed: int, n_cases: int) -> Iterator[tuple[str, str, list[str]]]:
    """Yield network, tool and alarms of the other tools."""
    script = Path(__file__).with_name("diagnosis_contenders.py")
    done = subprocess.run(
        [peers, "-W", "ignore", str(script), str(seed), str(n_cases)],
        capture_output=True,
        text=True,
        check=True,
        env=machine.environment(1),
    )
    for line in done.stdout.splitlines():
        found = json.loads(line)
        for tool, findings in found["alarms"].items():
            yield found["network"], tool, findings


def summary(records: list[dict[str, Any]], tool: str = "hardzero") -> str:
    """Say how many verdicts of a tool were right."""
    of_tool = [record for record in records if record["tool"] == tool]
    healthy = [record for record in of_tool if not record["label"]]
    sick = [record for record in of_tool if record["label"]]
    n_right = sum(record["right"] for record in sick)
    n_alarms = sum(not record["right"] for record in healthy)
    return (
        f"{n_right} of {len(sick)} troubles named, "
        f"{n_alarms} false alarms on {len(healthy)} healthy networks"
    )


if __name__ == "__main__":
    main()
