"""Turn the committed results into the tables of the README and the documentation.

A table stands between the lines ``<!-- table:NAME -->`` and ``<!-- /table -->``; this
script rewrites what is between them, so no number is typed by hand. Names:

* ``training_step:TASK`` and ``inference:TASK``, with ``:N`` for N threads;
* ``never_lose`` (``:N``), ``memory``, ``mnist``, ``wide_sparse``, ``dropout``;
* ``pretraining_step:kernels``, ``pretraining_step:step``;
* ``reconstruction_sampling``;
* ``pretraining_ratings``, ``pretraining_ratings:pairs``;
* ``pretraining_amazon``, ``pretraining_amazon:gains``;
* ``sparsity_curve``, ``sparsity_curve:verdict`` (sentences);
* ``tabular`` (scores), ``tabular:seconds``, ``tabular:verdict`` (sentences);
* ``pretraining_mnist`` (errors), ``pretraining_mnist:layers``;
* ``label_fractions``; ``few_labels`` (final), ``few_labels:search``;
* ``diagnosis`` (tools, then sentences); ``watch_overhead``;
* ``theory:cells``, ``theory:degenerate``, ``theory:answers``;
* ``machine:SCRIPT``, one sentence on where a result was taken.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dropout
import few_labels
import label_fractions
import machine
import mnist
import pretraining_amazon
import pretraining_mnist
import pretraining_ratings
import pretraining_step
import sparsity_curve
import tabular
from racing import RESULTS, record_ratio, spread

MARKED = re.compile(
    r"(?P<start><!-- table:(?P<name>[\w:.-]+) -->\n)"
    r"(?P<body>.*?)"
    r"(?P<end><!-- /table -->)",
    re.DOTALL,
)

Record = dict[str, Any]


def main() -> None:
    """Rewrite the tables of the given files, or check that they are up to date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        help="Markdown files; usually README.md, benchmarks/README.md and docs/",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if stale"
    )
    parser.add_argument("--print", metavar="NAME", help="print one table and stop")
    options = parser.parse_args()
    if options.print:
        print(table(options.print))
        return
    stale = []
    for path in options.files or _usual_files():
        old = path.read_text()
        new = fill(old)
        if new != old:
            stale.append(path.name)
            if not options.check:
                path.write_text(new)
    if stale:
        print(f"{'stale' if options.check else 'rewritten'}: {', '.join(stale)}")
    sys.exit(bool(stale) and options.check)


def fill(text: str) -> str:
    """Return `text` with every marked table replaced by a new one."""
    return MARKED.sub(
        lambda found: f"{found['start']}{table(found['name'])}\n{found['end']}", text
    )


def table(name: str) -> str:
    """Return a table in Markdown.

    Parameters
    ----------
    name : str
        As in the module's docstring.

    Returns
    -------
    str
        Lines of Markdown without a newline at the end.
    """
    kind, *details = name.split(":")
    if kind not in TABLES:
        raise SystemExit(f"No table is called {name!r}. Tables: {', '.join(TABLES)}.")
    return TABLES[kind](kind, *details)


def race_table(script: str, task: str, n_threads: str = "1") -> str:
    """One row a contender, one column a batch: milliseconds and the two ratios."""
    records = [
        record
        for record in _read(script)["records"]
        if record["task"] == task and record["n_threads"] == int(n_threads)
    ]
    if not records:
        raise SystemExit(f"{script}.json has no {task} at {n_threads} threads yet.")
    batches = sorted({record["batch"] for record in records})
    times = {
        (contender["name"], record["batch"], record["mode"]): contender
        for record in records
        for contender in record["contenders"]
    }
    names = list(dict.fromkeys(name for name, _, _ in times))
    clock = "cpu_ms" if int(n_threads) == 1 else "wall_ms"
    absent: dict[str, str] = {}
    rows = []
    for name in names:
        cells = []
        for batch in batches:
            own = times.get((name, batch, "own"), {})
            shared = times.get((name, batch, "shared"), {})
            cells.append(_race_cell(own, shared, clock))
            absent |= {name: own["absent"]} if own.get("absent") else {}
        if any(cells):
            rows.append([name, *cells])
    header = ["ms a call", *(f"batch {batch}" for batch in batches)]
    lines = [_markdown(header, rows)]
    if absent:
        reasons = [f"{name} ({reason})" for name, reason in absent.items()]
        lines += ["", f"Not run: {'; '.join(reasons)}."]
    return "\n".join(lines)


def never_lose_table(script: str, n_threads: str = "1") -> str:
    """How much slower than the best alternative, by density, pass and batch."""
    records = [
        record
        for record in _read(script)["records"]
        if record["n_threads"] == int(n_threads)
    ]
    columns = sorted({(record["pass"], record["batch"]) for record in records})
    columns.sort(key=lambda column: (column[0] != "step", column[1]))
    found = {(r["density"], r["pass"], r["batch"]): r["loss"] for r in records}
    rows = []
    for density in sorted({record["density"] for record in records}):
        losses = [found.get((density, *column)) for column in columns]
        rows.append([f"{density} %", *map(_percent, losses)])
    header = ["active", *(f"{which}, {batch}" for which, batch in columns)]
    return _markdown(header, rows)


def memory_table(script: str) -> str:
    """Peak of the process, and how far it rose while training."""
    records = _read(script)["records"]
    batches = sorted({record["batch"] for record in records})
    found = {(record["contender"], record["batch"]): record for record in records}
    rows = []
    for name in dict.fromkeys(record["contender"] for record in records):
        cells = []
        for batch in batches:
            record = found.get((name, batch), {"absent": ""})
            if record["absent"] is None:
                peak, training = record["peak_mib"], record["training_mib"]
                cells.append(f"{peak:.0f} MiB ({training:.0f})")
            else:
                cells.append(record["absent"])
        rows.append([name, *cells])
    header = ["peak (of it training)", *(f"batch {batch}" for batch in batches)]
    return _markdown(header, rows)


def mnist_table(script: str) -> str:
    """Error and zeros of the rate chosen on validation error, beside the paper's."""
    records = _read(script)["records"]
    rows = []
    for activation in mnist.ACTIVATIONS:
        error, zeros = mnist.PUBLISHED[activation]
        runs = mnist.selected(records, activation)
        rows += [
            [
                activation,
                f"{100 * run['test_error']:.2f} %",
                f"{error:.2f} %",
                f"{100 * run['zeros']:.1f} %",
                "" if zeros is None else f"{zeros:.1f} %",
                f"{run['learning_rate']:g}",
                f"{run['best_epoch']} of {run['n_epochs']}",
                f"{run['cpu_minutes']:.0f}",
            ]
            for run in runs
        ]
    header = ["activation", "test error", "paper", "exact zeros", "paper"]
    return _markdown([*header, "rate", "best epoch", "CPU minutes"], rows)


def tabular_table(script: str, detail: str = "scores") -> str:
    """Scores or seconds of all estimators on all data sets, or who wins where."""
    details = {
        "scores": _tabular_scores,
        "seconds": _tabular_seconds,
        "verdict": _tabular_verdict,
    }
    if detail not in details:
        raise SystemExit(
            f"No table is called {script}:{detail}. Details: {', '.join(details)}."
        )
    found: dict[str, dict[str, Record]] = {name: {} for name in tabular.SOURCES}
    for record in _read(script)["records"]:
        found[record["dataset"]][record["contender"]] = record
    return details[detail]({name: of for name, of in found.items() if of})


def wide_sparse_table(script: str) -> str:
    """Seconds an epoch, peak memory and accuracy by solver, with ratios to hardzero."""
    records = _read(script)["records"]
    names = list(dict.fromkeys(record["contender"] for record in records))
    solvers = list(dict.fromkeys(record["solver"] for record in records))
    rows = []
    for solver in solvers:
        found = {
            name: [
                record
                for record in records
                if (record["contender"], record["solver"]) == (name, solver)
            ]
            for name in names
        }
        base = _wide_sparse_numbers(found["hardzero"])
        for name, runs in found.items():
            reasons = [run["absent"] for run in runs if run["absent"] is not None]
            if reasons or not runs:
                rows.append(
                    [solver, name, *reasons[:1], *[""] * (5 - len(reasons[:1]))]
                )
                continue
            seconds, q1, q3, peak, accuracy = _wide_sparse_numbers(runs)
            is_base = name == "hardzero"
            rows.append(
                [
                    solver,
                    name,
                    f"{_three_digits(seconds)} ({_three_digits(q1)} to "
                    f"{_three_digits(q3)})",
                    "" if is_base else _times(seconds / base[0]),
                    f"{peak:.0f} MiB",
                    "" if is_base else _times(peak / base[3]),
                    f"{100 * accuracy:.1f} %",
                ]
            )
    header = ["solver", "", "seconds an epoch", "ratio", "peak", "ratio", "accuracy"]
    return _markdown(header, rows)


def dropout_table(script: str) -> str:
    """How long a step takes without and with dropout, by hardzero and by PyTorch."""
    rows = []
    for record in _read(script)["records"]:
        if record["mode"] != "own":
            continue
        found = {contender["name"]: contender for contender in record["contenders"]}
        network = dropout.NETWORKS[record["task"]]
        zeros = f"{100 * record['about']['zeros']:.0f} %"
        cells = [*_dropout_cells(found, "hardzero"), *_dropout_cells(found, "PyTorch")]
        ours, theirs = (
            found[f"{library} with dropout"].get("ratio_cpu")
            for library in ("hardzero", "PyTorch")
        )
        cells.append(_times(theirs["median"] / ours["median"]) if theirs else "")
        rows.append([network, zeros, str(record["batch"]), *cells])
    header = ["ms a step", "zeros", "batch", "hardzero", "with dropout", "PyTorch"]
    return _markdown([*header, "with dropout", "both with dropout"], rows)


def pretraining_step_table(script: str, part: str) -> str:
    """One row a contender, one column a case, then the limits beside the fastest."""
    records = _read(script)["records"]
    shown = [r for r in records if r["part"] == part and r["n_threads"] == 1]
    header = ["ms a call"]
    footer = [["limit beside the fastest other"], ["reached"]]
    cells: dict[str, list[str]] = {name: [] for name in pretraining_step.CONTENDERS}
    for record in shown:
        network, about = pretraining_step.NETWORKS[record["task"]], record["about"]
        zeros = f"{100 * (1 - about['hidden_nonzero']):.0f} %"
        header.append(f"{network}: {zeros}, {record['batch']}")
        found = {contender["name"]: contender for contender in record["contenders"]}
        for name, row in cells.items():
            row.append(_race_cell(found.get(name, {}), {}, "cpu_ms"))
        others = [other for other in found.values() if "reached" in other]
        fastest = min(others, key=lambda other: other["ratio_cpu"]["median"])
        footer[0].append(_times(fastest["limit"]))
        footer[1].append(f"{100 * fastest['reached']:.0f} %")
    rows = [[name, *row] for name, row in cells.items() if any(row)]
    if part == "step":
        label = "hardzero outside of its kernels"
        shares = [record["outside_kernels"] for record in shown]
    else:
        label = "units active in a batch"
        shares = [r["about"]["batch_units"][str(r["batch"])] for r in shown]
    footer.append([label, *(f"{100 * share:.0f} %" for share in shares)])
    return _markdown(header, rows + footer)


def reconstruction_sampling_table(script: str) -> str:
    """CPU seconds of an epoch, peak memory and loss afterwards, sampled and exact."""
    found: dict[str, list[Record]] = {}
    for record in _read(script)["records"]:
        if record["absent"] is None:
            found.setdefault(record["contender"], []).append(record)
    seconds = {
        name: statistics.median(s for run in runs for s in run["epoch_cpu_seconds"])
        for name, runs in found.items()
    }
    best = min(value for name, value in seconds.items() if name.startswith("exact"))
    rows = []
    for name, runs in found.items():
        is_exact = name.startswith("exact")
        rows.append(
            [
                name,
                _three_digits(seconds[name]) + (" (scaled)" if is_exact else ""),
                "" if is_exact else f"{best / seconds[name]:.1f}x less",
                f"{max(run['peak_mib'] for run in runs):.0f} MiB",
                "" if is_exact else _three_digits(runs[0]["test_loss"][-1]),
            ]
        )
    header = ["decoding", "CPU seconds an epoch", "than exact", "peak", "loss after 2"]
    return _markdown(header, rows)


def sparsity_curve_table(script: str, detail: str = "errors") -> str:
    """Zeros and test error by L1 coefficient and learning rate, or what they show."""
    details = {"errors": _curve_errors, "verdict": _curve_verdict}
    if detail not in details:
        raise SystemExit(
            f"No table is called {script}:{detail}. Details: {', '.join(details)}."
        )
    records = _read(script)["records"]
    return details[detail]([r for r in records if r["absent"] is None])


def pretraining_ratings_table(script: str, detail: str = "errors") -> str:
    """RMSE and zeros of each model beside the paper's, or models in pairs."""
    details = {"errors": _ratings_errors, "pairs": _ratings_pairs}
    if detail not in details:
        raise SystemExit(
            f"No table is called {script}:{detail}. Details: {', '.join(details)}."
        )
    return details[detail](_read(script)["records"])


def pretraining_amazon_table(script: str, detail: str = "accuracies") -> str:
    """Accuracy of each contender by labels and domain, or the gains of pre-training."""
    details = {"accuracies": _amazon_accuracies, "gains": _amazon_gains}
    if detail not in details:
        raise SystemExit(
            f"No table is called {script}:{detail}. Details: {', '.join(details)}."
        )
    return details[detail](_read(script)["records"])


def pretraining_mnist_table(script: str, detail: str = "errors") -> str:
    """Errors with and without pre-training, or how the layers were learned."""
    details = {"errors": _pretraining_errors, "layers": _pretraining_layers}
    if detail not in details:
        raise SystemExit(
            f"No table is called {script}:{detail}. Details: {', '.join(details)}."
        )
    return details[detail](_read(script))


def label_fractions_table(script: str) -> str:
    """One row a number of labels: mean error and deviation of each kind of network."""
    found = {
        (point["n_labels"], point["activation"], point["pretrained"]): point["errors"]
        for point in label_fractions.points(_read(script)["records"])
    }
    columns = [
        (activation, pretrained)
        for activation in label_fractions.ACTIVATIONS
        for pretrained in (False, True)
    ]
    rows = []
    for n_labels in sorted({key[0] for key in found}):
        of = [found.get((n_labels, *column), []) for column in columns]
        cells = [_mean_error(errors) for errors in of]
        rows.append([f"{n_labels:,}", str(max(map(len, of))), *cells])
    names = [f"{a}, {'with' if with_ else 'without'}" for a, with_ in columns]
    return _markdown(["labels", "draws", *names], rows)


def few_labels_table(script: str, detail: str = "final") -> str:
    """Show the final comparison, or the best of each recipe in the search."""
    content = _read(script)
    if detail == "search":
        return _few_labels_search(content["records"])
    if detail != "final":
        raise SystemExit(
            f"No table is called {script}:{detail}. Details: final, search."
        )
    rows = []
    for recipe, how in content["chosen"]["pair"].items():
        runs = few_labels.final_runs(content["records"], content["chosen"], recipe)
        tuned = f"{how['fine_tuning']}, {how['n_epochs']} epochs"
        rows.append([recipe, tuned, _mean_percent(runs, "error")])
    gain = content["comparison"]
    rows.append(
        [
            "gain",
            f"better on {gain['n_gains']} of {gain['n_splits']} splits, "
            f"p = {gain['p_value']:.2g} (corrected {gain['corrected_p_value']:.2g})",
            f"{100 * gain['gain']:.2f} ± {100 * gain['deviation_of_gain']:.2f} points",
        ]
    )
    return _markdown(["pre-training", "fine-tuning", "test error"], rows)


def diagnosis_table(script: str) -> str:
    """Return how many verdicts of each tool were right, and which of ours were not."""
    records = _read(script)["records"]
    tools = list(dict.fromkeys(record["tool"] for record in records))
    rows = []
    for tool in tools:
        of_tool = [record for record in records if record["tool"] == tool]
        cells = [tool]
        for is_sick in (True, False):
            kind = [record for record in of_tool if bool(record["label"]) is is_sick]
            count = sum(record["right"] is is_sick for record in kind)
            cells.append(f"{count} of {len(kind)}")
        rows.append(cells)
    table = _markdown(["tool", "troubles named", "false alarms"], rows)
    wrong = [
        f"{record['network']} (seed {record['seed']}): "
        f"{', '.join(record['findings'][:2]) or 'healthy'}"
        for record in records
        if record["tool"].startswith("hardzero") and not record["right"]
    ]
    return f"{table}\nWrong verdicts of hardzero: {'; '.join(wrong) or 'none'}.\n"


def watch_overhead_table(script: str) -> str:
    """Return ratios with their quartiles, a row for each training."""
    records = _read(script)["records"]
    tools = list(dict.fromkeys(record["tool"] for record in records))
    rows = []
    for training in dict.fromkeys(record["training"] for record in records):
        of_tool = {r["tool"]: r for r in records if r["training"] == training}
        cells = [
            "fails"
            if "absent" in of_tool[tool]
            else f"{of_tool[tool]['ratio']:.3g} "
            f"({' to '.join(f'{q:.3g}' for q in of_tool[tool]['quartiles'])})"
            for tool in tools
        ]
        rows.append([training, *cells])
    return _markdown(["training", *tools], rows)


def theory_table(script: str, part: str) -> str:
    """Return CPU seconds for cells or other answers, or counts of degenerate nets."""
    records = _read(script)["records"]
    if part == "answers":
        others = [record for record in records if not record["where"]]
        return _markdown(
            ["question", "answer", "CPU seconds"],
            [
                [record["case"], _theory_answer(record["answer"]), _seconds(record)]
                for record in others
            ],
        )
    counted = [
        record
        for record in records
        if record["where"] and record["case"][0].isdigit() == (part == "cells")
    ]
    cases = dict.fromkeys((record["case"], record["where"]) for record in counted)
    names = {"all": "R^d", "box": "box"}
    rows = []
    for case, where in cases:
        found = {
            record["tool"]: record
            for record in counted
            if (record["case"], record["where"]) == (case, where)
        }
        cells = [_theory_cell(found.get(tool), part) for tool in _THEORY_TOOLS]
        rows.append([f"{case}, {names[where]}", *cells])
    return _markdown(["network", *_THEORY_TOOLS], rows)


def machine_sentence(_: str, script: str) -> str:
    """Processor, cores, versions, commit and date of a result."""
    content = _read(script)
    host = content["machine"]
    packages = [
        f"{name} {number}" for name, number in host["versions"].items() if number
    ]
    commits = {record["commit"] for record in content["records"]}
    commit = ", ".join(sorted(filter(None, commits))) or "not recorded"
    return (
        f"{host['cpu']}, {host['cores_usable']} cores, {host['memory_gib']:.0f} GiB, "
        f"L2 {host['caches'].get('L2', 'unknown')}; Python {host['python']}, "
        f"{', '.join(packages)}; {host['date'][:10]}, commit {commit}."
    )


TABLES: dict[str, Callable[..., str]] = {
    "training_step": race_table,
    "inference": race_table,
    "never_lose": never_lose_table,
    "memory": memory_table,
    "mnist": mnist_table,
    "tabular": tabular_table,
    "wide_sparse": wide_sparse_table,
    "dropout": dropout_table,
    "pretraining_step": pretraining_step_table,
    "reconstruction_sampling": reconstruction_sampling_table,
    "pretraining_ratings": pretraining_ratings_table,
    "diagnosis": diagnosis_table,
    "watch_overhead": watch_overhead_table,
    "theory": theory_table,
    "pretraining_amazon": pretraining_amazon_table,
    "sparsity_curve": sparsity_curve_table,
    "pretraining_mnist": pretraining_mnist_table,
    "label_fractions": label_fractions_table,
    "few_labels": few_labels_table,
    "machine": machine_sentence,
}


_THEORY_TOOLS = ("hardzero", "affinitree", "relucent", "regioncam")


def _theory_cell(record: Record | None, part: str) -> str:
    if record is None:
        return ""
    if record.get("absent"):
        return str(record["absent"]) if part == "cells" else "refused"
    wrong = "" if record["right"] else ", **wrong**"
    if part == "cells":
        return f"{_seconds(record)} s, {record['count']:,} cells{wrong}"
    return f"{record['count']}{wrong}"


def _theory_answer(answer: Any) -> str:
    if isinstance(answer, bool):
        return "equal" if answer else "not equal"
    if isinstance(answer, list):
        return f"right {sum(answer)} times of {len(answer)}"
    return f"{answer:.4g}" if isinstance(answer, float) else str(answer)


def _seconds(record: Record) -> str:
    low, high = record["range"]
    return f"{record['cpu_seconds']:.3g} ({low:.3g} to {high:.3g})"


def _race_cell(own: Record, shared: Record, clock: str) -> str:
    """``2.18 (6.3x; 3.3x)``: time, ratio in own processes, ratio in a shared one."""
    if clock not in own:
        return ""
    time = _three_digits(own[clock]["median" if clock == "cpu_ms" else "p10"])
    found = [record_ratio(record, clock == "cpu_ms") for record in (own, shared)]
    ratios = [_times(ratio) for ratio in found if ratio is not None]
    if found[0] == 1:  # the base itself
        return time
    return f"{time} ({'; '.join(ratios)})" if ratios else time


def _dropout_cells(found: dict[str, Record], library: str) -> list[str]:
    """``5.46`` and ``4.08 (0.75x)``: without dropout, with it, and the ratio."""
    pair = found[library], found[f"{library} with dropout"]
    if any("cpu_ms" not in record for record in pair):
        return ["", ""]
    times = [_three_digits(record["cpu_ms"]["median"]) for record in pair]
    ratios = [record["ratio_cpu"]["median"] for record in pair]
    return [times[0], f"{times[1]} ({ratios[1] / ratios[0]:.2f}x)"]


def _plus_minus(values: Sequence[float], digits: int) -> str:
    mean, deviation = values
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def _ratings_errors(records: list[Record]) -> str:
    """One row a model: without, with pre-training and in the paper, error and zeros."""
    found: dict[str, list[Record]] = {}
    for summary in pretraining_ratings.summaries(records):
        found.setdefault(summary["model"], []).append(summary)
    rows = []
    for model, of in found.items():
        errors = [_plus_minus(summary["rmse"], 3) for summary in of]
        zeros = [_plus_minus(s["zeros"], 1) for s in of if s["zeros"] is not None]
        published = ["", ""]
        if model in pretraining_ratings.ARCHITECTURES:
            paper = pretraining_ratings.ARCHITECTURES[model].published
            published = [_plus_minus(paper[:2], 3), _plus_minus(paper[2:], 1)]
        if not zeros:  # the paper gives those of the words
            published[1] = ""
        row = [*errors, *[""] * (2 - len(errors)), published[0]]
        rows.append([model, *row, *zeros, *[""] * (2 - len(zeros)), published[1]])
    header = ["RMSE in stars", "without", "pre-trained", "paper, pre-trained"]
    return _markdown([*header, "zeros, %", "pre-trained", "paper"], rows)


def _ratings_pairs(records: list[Record]) -> str:
    """One row a pair: how much lower the first one's RMSE is, over the rows."""
    rows = []
    for pair in pretraining_ratings.COMPARED:
        comparison, n_better, n_folds = pretraining_ratings.compare(records, *pair)
        names = [name + ", pre-trained" * is_pretrained for name, is_pretrained in pair]
        low, high = comparison.interval
        rows.append(
            [
                *names,
                f"{comparison.difference:+.3f} ({low:+.3f} to {high:+.3f})",
                f"{comparison.p_value:.2g}",
                f"{n_better} of {n_folds}",
            ]
        )
    return _markdown(["network", "beside", "gain (95 %)", "p", "better folds"], rows)


def _amazon_accuracies(records: list[Record]) -> str:
    """One row a contender; mean of all domains, then of each, by number of labels."""
    found = pretraining_amazon.accuracies(records)
    counts = sorted({key[0] for scores in found.values() for key in scores})
    domains = dict.fromkeys(key[1] for scores in found.values() for key in scores)
    rows = []
    for n_labels in counts:
        for name, scores in found.items():
            means = [
                statistics.mean(
                    score for key, score in scores.items() if key[:2] == (n_labels, of)
                )
                for of in domains
            ]
            cells = [f"{100 * mean:.1f}" for mean in (statistics.mean(means), *means)]
            rows.append([f"{n_labels:,}", name, *cells])
    return _markdown(["labels", "accuracy, %", "mean", *domains], rows)


def _amazon_gains(records: list[Record]) -> str:
    """One row a pair: points of accuracy by number of labels, and McNemar's test."""
    found = pretraining_amazon.accuracies(records)
    counts = sorted({key[0] for scores in found.values() for key in scores})
    rows = []
    for better, other in pretraining_amazon.pairs(found):
        cells = []
        for n_labels in counts:
            mean, low, high = pretraining_amazon.gain(
                found[better], found[other], n_labels
            )
            cells.append(f"{100 * mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})")
        p_value = pretraining_amazon.paired(records, better, other).p_value
        rows.append([f"{better}, less {other}", *cells, f"{p_value:.2g}"])
    header = ["points", *(f"{n_labels:,} labels" for n_labels in counts)]
    return _markdown([*header, f"McNemar's p, {counts[-1]:,}"], rows)


def _curve_errors(records: list[Record]) -> str:
    """One row a coefficient: for each rate zeros and error, mean and deviation."""
    rates = sorted({record["learning_rate"] for record in records})
    curves = [sparsity_curve.by_coefficient(records, rate) for rate in rates]
    rows = []
    for l1 in sorted(set().union(*curves)):
        row = [f"{l1:g}"]
        for curve in curves:
            runs = curve.get(l1, [])
            row += [_mean_percent(runs, key) for key in ("zeros", "test_error")]
        rows.append(row)
    header = ["L1"]
    for rate in rates:
        header += [f"zeros, rate {rate:g}", "test error"]
    return _markdown(header, rows)


def _curve_verdict(records: list[Record]) -> str:
    """One sentence a rate: the mean errors below, in and above the paper's band."""
    alive = [r for r in records if r["test_error"] <= sparsity_curve.HIGHEST_DRAWN]
    low, high = sparsity_curve.PAPER_BAND
    bands = {
        f"below {low:.0%} zeros": (0, low),
        f"from {low:.0%} to {high:.0%}": (low, high),
        "above": (high, 1),
    }
    lines = []
    for rate in sorted({record["learning_rate"] for record in alive}):
        curve = sparsity_curve.by_coefficient(alive, rate)
        zeros = {l1: _mean(runs, "zeros") for l1, runs in curve.items()}
        errors = {l1: _mean(runs, "test_error") for l1, runs in curve.items()}
        parts = []
        for words, (start, end) in bands.items():
            inside = [errors[l1] for l1 in curve if start <= zeros[l1] < end]
            if inside:
                parts.append(f"{min(inside):.2%} to {max(inside):.2%} {words}")
        best = min(errors, key=lambda l1: errors[l1])
        lines.append(
            f"* First learning rate {rate:g}: mean test errors are {'; '.join(parts)}. "
            f"The lowest is that of L1 {best:g}, at {zeros[best]:.0%} zeros."
        )
    n_dead = len(records) - len(alive)
    lines.append(
        f"* {n_dead} of {len(records)} networks died and are not in the means."
    )
    return "\n".join(lines).replace("%", " %")


def _mean(runs: list[Record], key: str) -> float:
    return statistics.mean(run[key] for run in runs)


def _mean_percent(runs: list[Record], key: str) -> str:
    if not runs:
        return ""
    values = [100 * run[key] for run in runs]
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2f} ± {deviation:.2f} %"


def _pretraining_errors(content: Record) -> str:
    """One row a pair of networks: ours, the paper's, and how sure the difference is."""
    rows = []
    for pair in content["comparisons"]:
        activation, l1 = pair["activation"], pair["l1_activation"]
        runs = [
            run
            for phase in ("fine-tuning", "without")
            for run in pretraining_mnist.selected(
                content["records"], activation, phase, l1
            )
            if run["seed"] == pair["seed"]
        ]
        paper = pretraining_mnist.PUBLISHED[activation]
        name = activation if l1 is None else f"{activation}, L1 {l1:g} in fine-tuning"
        low, high = (100 * end for end in pair["interval"])
        rows.append(
            [
                name,
                " / ".join(f"{100 * run['test_error']:.2f}" for run in runs) + " %",
                " / ".join(f"{error:.2f}" for error in paper) + " %",
                f"{100 * pair['difference']:+.2f} ({low:+.2f} to {high:+.2f})",
                f"{pair['p_value']:.2g}",
                " / ".join(f"{100 * run['zeros']:.1f}" for run in runs) + " %",
                " / ".join(f"{run['learning_rate']:g}" for run in runs),
            ]
        )
    header = ["with / without", "test error", "paper", "gain in points (95 %)", "p"]
    return _markdown([*header, "exact zeros", "rate"], rows)


def _pretraining_layers(content: Record) -> str:
    """Which rate was kept for each layer, and what the first phase took."""
    rows = [
        [
            run["activation"],
            ", ".join(dict.fromkeys(run["decoder"])),
            ", ".join(f"{rate:g}" for rate in run["learning_rates"]),
            ", ".join(f"{min(of):.3g}" for of in run["validation_losses"]),
            ", ".join(f"{100 * zeros:.0f} %" for zeros in run["zeros_by_layer"]),
            f"{run['cpu_minutes']:.1f}",
        ]
        for run in content["records"]
        if run["phase"] == "pretraining" and run["absent"] is None
    ]
    header = ["layers", "decoder", "rates", "validation losses", "zeros"]
    return _markdown([*header, "CPU minutes"], rows)


def _mean_error(errors: list[float]) -> str:
    if len(errors) < 2:
        return "".join(f"{100 * error:.2f} %" for error in errors)
    return _mean_percent([{"error": error} for error in errors], "error")


def _few_labels_search(records: list[Record]) -> str:
    searched = few_labels.searched(records)
    rows = []
    for network, recipe in dict.fromkeys((r["network"], r["recipe"]) for r in searched):
        best = few_labels.best_fine_tuning(records, network, recipe)
        runs = [r for r in searched if (r["network"], r["recipe"]) == (network, recipe)]
        zeros = [statistics.mean(run["zeros"]) for run in runs if "zeros" in run]
        seconds = statistics.mean(run.get("pretraining_cpu_seconds", 0) for run in runs)
        rows.append(
            [
                network,
                recipe or "none",
                f"{100 * best['error']:.1f} %",
                f"{best['fine_tuning']}, {best['n_epochs']} epochs",
                f"{100 * statistics.mean(zeros):.0f} %" if zeros else "",
                f"{seconds:.0f}" if recipe else "",
            ]
        )
    header = ["hidden units", "pre-training", "error", "best fine-tuning"]
    return _markdown([*header, "zeros of the code", "CPU seconds"], rows)


def _tabular_scores(found: dict[str, dict[str, Record]]) -> str:
    rows, absent = [], []
    for dataset, records in found.items():
        present = {n: r for n, r in records.items() if r["absent"] is None}
        absent += [
            f"{name} on {dataset} ({record['absent']})"
            for name, record in records.items()
            if name not in present
        ]
        if not present:
            continue
        means = {n: statistics.mean(r["scores"]) for n, r in present.items()}
        size = next(present[n] for n in tabular.CONTENDERS if n in present)
        row = [dataset, f"{size['n_train']:,} x {size['n_columns']:,}"]
        for name in tabular.CONTENDERS:
            cell = "" if name not in present else _score(present[name])
            row.append(
                f"**{cell}**" if means.get(name) == max(means.values()) else cell
            )
        row.append("")
        if {"hardzero", "MLP"} <= present.keys():
            ours, theirs = present["hardzero"], present["MLP"]
            mean, error, verdict = tabular.difference(ours, theirs)
            row[-1] = f"{_number(mean, ours, '+')} ± {_number(error, ours)}: {verdict}"
        rows.append(row)
    header = ["score", "trained on", *tabular.CONTENDERS, "hardzero less MLP"]
    lines = [_markdown(header, rows)]
    absent += [f"{name} (not here)" for name in tabular.SOURCES if name not in found]
    if absent:
        lines += ["", f"Not run: {'; '.join(absent)}."]
    return "\n".join(lines)


def _tabular_seconds(found: dict[str, dict[str, Record]]) -> str:
    rows = []
    for dataset, records in found.items():
        cells = [
            _three_digits(records[name]["cpu"]["median"])
            if name in records and records[name]["absent"] is None
            else ""
            for name in tabular.CONTENDERS
        ]
        rows.append([dataset, *cells])
    return _markdown(["CPU seconds of fit", *tabular.CONTENDERS], rows)


def _tabular_verdict(found: dict[str, dict[str, Record]]) -> str:
    """One sentence for each rival: where it is better, where worse, beyond noise."""
    labels = {"MLP": "the MLP", "boosting": "boosting", "linear": "the linear model"}
    lines = []
    for rival in tabular.CONTENDERS[1:]:
        where: dict[str, list[str]] = {"better": [], "worse": [], "same": []}
        for dataset, records in found.items():
            present = {n: r for n, r in records.items() if r["absent"] is None}
            if {"hardzero", rival} <= present.keys():
                ours, theirs = present["hardzero"], present[rival]
                where[tabular.difference(ours, theirs)[2]].append(dataset)
        lines.append(
            f"* Beside {labels[rival]}, hardzero is worse on "
            f"{', '.join(where['worse']) or 'none'}; better on "
            f"{', '.join(where['better']) or 'none'}; the same within noise on "
            f"{', '.join(where['same']) or 'none'}."
        )
    return "\n".join(lines)


def _score(record: Record) -> str:
    scores = record["scores"]
    deviation = statistics.stdev(scores) if len(scores) > 1 else 0.0
    mean = _number(statistics.mean(scores), record)
    return f"{mean} ± {_number(deviation, record)}"


def _number(value: float, record: Record, sign: str = "") -> str:
    """Accuracy in percent, R2 as it is."""
    if record["is_regression"]:
        return f"{value:{sign}.3f}"
    return f"{100 * value:{sign}.2f}"


def _wide_sparse_numbers(runs: list[Record]) -> tuple[float, ...]:
    """Seconds an epoch with quartiles, the largest peak, mean accuracy."""
    runs = [run for run in runs if run["absent"] is None]
    if not runs:
        raise SystemExit("wide_sparse.json has no run of hardzero to compare with.")
    seconds = spread([epoch for run in runs for epoch in run["epoch_seconds"]])
    return (
        seconds["median"],
        seconds["q1"],
        seconds["q3"],
        max(run["peak_mib"] for run in runs),
        statistics.mean(run["accuracy"] for run in runs),
    )


def _times(ratio: float) -> str:
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{ratio:.0f}x"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    digits = 2 if value < 9.995 else 1
    return f"{value:.{digits + (value < 0.9995)}f}"


def _percent(loss: float | None) -> str:
    return "" if loss is None else f"{round(100 * loss):+d} %"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _read(script: str) -> Record:
    path = RESULTS / f"{script}.json"
    if not path.exists():
        raise SystemExit(
            f"results/{path.name} does not exist. Run benchmarks/{script}.py first."
        )
    content: Record = json.loads(path.read_text())
    if content["quick"]:
        raise SystemExit(f"results/{path.name} comes from --quick: no measurement.")
    return content


def _usual_files() -> list[Path]:
    candidates = [machine.ROOT / "README.md", machine.ROOT / "benchmarks" / "README.md"]
    candidates += sorted((machine.ROOT / "docs").rglob("*.md"))
    return [path for path in candidates if path.exists() and "_build" not in path.parts]


if __name__ == "__main__":
    main()
