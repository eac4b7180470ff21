"""MNIST with 50 to 50,000 labels, with and without denoising pre-training.

The shape of figure 4 of Glorot, Bordes & Bengio 2011, which has NORB: error by number
of labels, for tanh and for the rectifier. The pre-trained layers are those that
`pretraining_mnist.py` learned from all 50,000 training rows without their labels, and
are made first if they are not in ``.cache/``; network and recipe are the same too. The
labelled rows are drawn anew several times, the same number of each digit.

Up to 5,000 labels a network trains for a fixed number of epochs, at each rate of
`RATES`, and the rate with the lowest mean error on the 10,000 validation rows counts,
for each point of each curve by itself. That many labels nobody has who has 50 to
train on; as in the paper they only choose a rate. For 50,000 labels the results of
`pretraining_mnist.py` are taken as they are. The result is written after each run,
``--resume`` goes on from there, and the picture is drawn at the end. About 15 minutes
on 2 cores, of which it uses one, after `pretraining_mnist.py`.
"""

from __future__ import annotations

import json
import pickle
import statistics
import time
from pathlib import Path
from typing import Any

import alone
import machine
import numpy as np
import pretraining_mnist
import racing
import tasks

ACTIVATIONS = ("tanh", "rectifier")  # the paper's left and right panel
RATES = (0.1, 0.01)

#: Number of labels: how many draws, and epochs.
POINTS = {50: (3, 400), 100: (3, 200), 500: (3, 100), 1000: (3, 100), 5000: (1, 40)}

PICTURE = machine.ROOT / "docs" / "figures" / "label_fractions.svg"

Record = dict[str, Any]


def main() -> None:
    """Train every network that has no result yet, then draw the curves."""
    parser = racing.arguments(__doc__)
    parser.add_argument(
        "--activations", nargs="+", choices=ACTIVATIONS, default=list(ACTIVATIONS)
    )
    parser.add_argument("--labels", nargs="+", type=int, default=list(POINTS))
    options = parser.parse_args()
    tasks.mnist_or_exit()
    rates = RATES
    if options.quick:
        options.activations, options.labels, rates = ["rectifier"], [50, 100], RATES[:1]
    result = racing.Result("label_fractions", options, __doc__.splitlines()[0])
    for activation in options.activations:
        file = pretraining_mnist.layers_file(activation, 0, quick=options.quick)
        if not file.exists():
            raise SystemExit(
                f"{file.name} is not in .cache/. Run pretraining_mnist.py"
                f"{' --quick' if options.quick else ''} first."
            )
        for n_labels in options.labels:
            n_draws, n_epochs = (1, 2) if options.quick else POINTS[n_labels]
            for draw in range(n_draws):
                for pretrained in (False, True):
                    for rate in rates:
                        spec = {
                            "n_labels": n_labels,
                            "activation": activation,
                            "pretrained": pretrained,
                            "draw": draw,
                            "learning_rate": rate,
                            "max_epochs": n_epochs,
                        }
                        if not result.has(**spec):
                            how = {"file": str(file) if pretrained else None}
                            found = alone.measure(__file__, spec | how, n_threads=1)
                            result.add(spec | found)
                            print(_sentence(result.records[-1]), flush=True)
    picture = result.path.with_suffix(".svg") if options.quick else PICTURE
    draw_curves(points(result.records), picture)
    print("drawn:", picture.name)


def points(records: list[Record]) -> list[Record]:
    """Return the points of the curves.

    Parameters
    ----------
    records : list of dict
        Finished runs with fewer than 50,000 labels.

    Returns
    -------
    list of dict
        ``activation``, ``pretrained``, ``n_labels``, the chosen ``learning_rate``, the
        test ``errors`` of all draws and their mean share of ``zeros``; the points with
        50,000 labels are those of `pretraining_mnist.py`, if it has run.
    """
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        if record["absent"] is None:
            key = tuple(record[k] for k in ("activation", "pretrained", "n_labels"))
            groups.setdefault(key, []).append(record)
    return [_point(*key, of=groups[key]) for key in sorted(groups)] + _all_labels()


def _point(
    activation: str, pretrained: bool, n_labels: int, of: list[Record]
) -> Record:
    by_rate: dict[float, list[Record]] = {}
    for record in of:
        by_rate.setdefault(record["learning_rate"], []).append(record)
    rate = min(
        by_rate,
        key=lambda rate: statistics.mean(r["validation_error"] for r in by_rate[rate]),
    )
    chosen = by_rate[rate]
    return {
        "activation": activation,
        "pretrained": pretrained,
        "n_labels": n_labels,
        "learning_rate": rate,
        "errors": [run["test_error"] for run in chosen],
        "zeros": statistics.mean(run["zeros"] for run in chosen),
    }


def _all_labels() -> list[Record]:
    path = racing.RESULTS / "pretraining_mnist.json"
    if not path.exists():
        return []
    records = json.loads(path.read_text())["records"]
    return [
        _point(activation, phase == "fine-tuning", pretraining_mnist.N_TRAIN, of=runs)
        for activation in ACTIVATIONS
        for phase in ("without", "fine-tuning")
        if (runs := pretraining_mnist.selected(records, activation, phase))
    ]


def train(spec: Record) -> Record:
    """Train one network on some labelled rows and measure it."""
    from sklearn.frozen import FrozenEstimator

    import hardzero

    data = tasks.mnist()
    n_train = pretraining_mnist.N_TRAIN
    rng = np.random.default_rng(spec["draw"])
    labelled = np.concatenate(
        [
            rng.permutation(np.flatnonzero(data.y_train[:n_train] == digit))[:n]
            for digit, n in enumerate([spec["n_labels"] // 10] * 10)
        ]
    )
    layers = None
    if spec["file"] is not None:
        layers = FrozenEstimator(pickle.loads(Path(spec["file"]).read_bytes()))
    model = hardzero.RectifierClassifier(
        **pretraining_mnist.settings(spec["activation"], spec["learning_rate"]),
        pretraining=layers,
        max_epochs=spec["max_epochs"],
        tol=None,
        random_state=spec["draw"],
    )
    started = time.process_time()
    model.fit(data.X_train[labelled], data.y_train[labelled])
    seconds = time.process_time() - started
    if model.history_.stopped == "interrupted":
        raise KeyboardInterrupt
    zeros = pretraining_mnist.zeros_of(model.stack_, data.X_test, 3)
    return {
        "test_error": _error(model, data.X_test, data.y_test),
        "validation_error": _error(
            model, data.X_train[n_train:], data.y_train[n_train:]
        ),
        "loss": float(f"{model.history_.loss[-1]:.3g}"),
        "zeros": round(float(np.mean(zeros)), 4),
        "cpu_seconds": round(seconds, 1),
    }


def _error(model: Any, X: Any, y: Any) -> float:
    return round(float(np.mean(model.predict(X) != y)), 4)


def draw_curves(curves: list[Record], path: Path) -> None:
    """Draw one panel an activation, with and without pre-training.

    Parameters
    ----------
    curves : list of dict
        From `points`.
    path : Path
        SVG file to write; equal points give equal bytes.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit(
            "The results are written, but matplotlib, which draws them, is not "
            "installed. Install it and call this again with --resume."
        ) from None
    settings = {
        "svg.hashsalt": "hardzero",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(settings):
        figure = Figure((7.5, 3.6), layout="constrained")
        panels = figure.subplots(1, len(ACTIVATIONS), sharey=True)
        for axes, activation in zip(panels, ACTIVATIONS, strict=True):
            for pretrained, style in ((False, "--"), (True, "-")):
                found = sorted(
                    (p for p in curves if p["activation"] == activation),
                    key=lambda point: point["n_labels"],
                )
                found = [p for p in found if p["pretrained"] == pretrained]
                if not found:
                    continue
                means = np.array([100 * statistics.mean(p["errors"]) for p in found])
                ends = 100 * np.array(
                    [[f(p["errors"]) for p in found] for f in (min, max)]
                )
                axes.errorbar(
                    [point["n_labels"] for point in found],
                    means,
                    yerr=abs(ends - means),
                    linestyle=style,
                    marker="o",
                    markersize=4,
                    capsize=2,
                    color="tab:blue" if pretrained else "tab:orange",
                    label=f"{'with' if pretrained else 'without'} pre-training",
                )
            axes.set_xscale("log")
            axes.set_yscale("log")
            ticks = [1, 2, 5, 10, 20, 50]
            axes.set_yticks(ticks, [str(tick) for tick in ticks])
            axes.minorticks_off()
            axes.set_title(activation)
            axes.set_xlabel("labelled rows")
            axes.grid(axis="y", color="0.9", linewidth=0.6)
            axes.set_axisbelow(True)
        panels[0].set_ylabel("test error (%)")
        panels[-1].legend(frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _sentence(record: Record) -> str:
    name = (
        f"{record['activation']}, {record['n_labels']} labels, draw {record['draw']}, "
        f"{'with' if record['pretrained'] else 'without'} pre-training, "
        f"rate {record['learning_rate']}"
    )
    if record["absent"] is not None:
        return f"{name}: {record['absent']}"
    return (
        f"{name}: test error {record['test_error']:.2%}, validation error "
        f"{record['validation_error']:.2%}, loss {record['loss']}, "
        f"{record['cpu_seconds']} CPU seconds"
    )


if __name__ == "__main__" and not alone.answer(train):
    main()
