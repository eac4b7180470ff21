"""How many hidden units may be zero before MNIST suffers: error by strength of L1.

Figure 3 of Glorot, Bordes & Bengio 2011, with 66 networks in place of 200: 11 L1
coefficients from 0 to 0.01, two learning rates, three seeds. Network and recipe are
those of `mnist.py`, but training is short: 8 epochs, with the rate going down along a
cosine, in place of 38 and more at a constant one. The epoch counts that has the lowest
error on the 10,000 validation rows; error and zeros are those of the 10,000 test rows.

The result is written after each network, ``--resume`` goes on from there, and the
picture is drawn at the end. About 20 minutes on 2 cores, of which it uses one.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import alone
import machine
import numpy as np
import racing
import tasks

#: From nothing to the paper's largest.
COEFFICIENTS = (0.0, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 7e-3, 1e-2)

#: The learning rate alone moves the zeros too, so there are two curves.
RATES = (0.02, 0.05)

#: Share of zeros at which the paper finds the same error everywhere, and above which
#: it finds a higher one.
PAPER_BAND = (0.70, 0.85)

#: The picture only counts networks with a higher error, which have died.
HIGHEST_DRAWN = 0.05

N_TRAIN = 50_000
PICTURE = machine.ROOT / "docs" / "figures" / "sparsity_curve.svg"

Record = dict[str, Any]


def main() -> None:
    """Train every network that has no result yet, then draw them all."""
    parser = racing.arguments(__doc__)
    parser.add_argument("--l1", type=float, nargs="+", default=list(COEFFICIENTS))
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    if options.quick:
        options.l1, options.seeds, options.epochs = [0.0, 1e-3], [0], 1
    tasks.mnist_or_exit()
    result = racing.Result("sparsity_curve", options, __doc__.splitlines()[0])
    specs = [
        {
            "l1_activation": l1,
            "learning_rate": rate,
            "seed": seed,
            "max_epochs": options.epochs,
        }
        for seed in options.seeds
        for l1 in options.l1
        for rate in options.rates
    ]
    how = {"n_train": 2000 if options.quick else N_TRAIN}
    for spec in specs:
        if not result.has(**spec):
            result.add(spec | alone.measure(__file__, spec | how, n_threads=1))
            print(_sentence(result.records[-1]), flush=True)
    picture = result.path.with_suffix(".svg") if options.quick else PICTURE
    draw(result.records, picture)
    print("drawn:", picture.name)


def train(spec: Record) -> Record:
    """Train one network and measure it on the test rows."""
    import hardzero

    data = tasks.mnist()
    settings = hardzero.glorot2011() | {
        "l1_activation": spec["l1_activation"],
        "learning_rate": spec["learning_rate"],
        "learning_rate_schedule": "cosine",
    }
    model = hardzero.RectifierClassifier(
        **settings,
        max_epochs=spec["max_epochs"],
        early_stopping=True,  # which only chooses the epoch: the patience never ends
        patience=spec["max_epochs"],
        random_state=spec["seed"],
    )
    started = time.process_time()
    model.fit(
        data.X_train[: spec["n_train"]],
        data.y_train[: spec["n_train"]],
        X_val=data.X_train[N_TRAIN:],
        y_val=data.y_train[N_TRAIN:],
    )
    seconds = time.process_time() - started
    history = model.history_
    if history.stopped == "interrupted":
        raise KeyboardInterrupt
    n_wrong = int(np.sum(model.predict(data.X_test) != data.y_test))
    zeros = [
        round(float(np.mean(model.transform(data.X_test, layer) == 0)), 4)
        for layer in range(len(model.stack_.layers) - 1)
    ]
    return {
        "test_error": n_wrong / len(data.y_test),
        "n_wrong": n_wrong,
        "validation_error": history.validation_error[history.best_epoch - 1],
        "zeros": round(float(np.mean(zeros)), 4),
        "zeros_by_layer": zeros,
        "dead_units": history.dead_units[history.best_epoch - 1],
        "n_epochs": history.n_epochs,
        "best_epoch": history.best_epoch,
        "cpu_seconds": round(seconds, 1),
        "validation_errors": history.validation_error,
    }


def by_coefficient(
    records: list[Record], learning_rate: float
) -> dict[float, list[Record]]:
    """Return the finished networks of one rate by L1 coefficient, in rising order."""
    groups: dict[float, list[Record]] = {}
    for record in sorted(records, key=lambda record: record["l1_activation"]):
        if record["learning_rate"] == learning_rate and record["absent"] is None:
            groups.setdefault(record["l1_activation"], []).append(record)
    return groups


def draw(records: list[Record], path: Path) -> None:
    """Draw error against zeros: a dot a network, a line a rate, colour by L1.

    Parameters
    ----------
    records : list of dict
        Finished networks.
    path : Path
        SVG file to write; equal records give equal bytes.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit(
            "The results are written, but matplotlib, which draws them, is not "
            "installed. Install it and call this again with --resume."
        ) from None
    present = [record for record in records if record["absent"] is None]
    drawn = [run for run in present if run["test_error"] <= HIGHEST_DRAWN]
    coefficients = [run["l1_activation"] for run in drawn]
    with mpl.rc_context({"svg.hashsalt": "hardzero", "svg.fonttype": "none"}):
        figure = Figure((7.5, 4.5), layout="constrained")
        axes = figure.add_subplot()
        _draw_band(axes)
        norm = mpl.colors.LogNorm(min(filter(None, coefficients)), max(coefficients))
        colours = mpl.cm.ScalarMappable(norm, "viridis_r")
        rates = sorted({run["learning_rate"] for run in drawn})
        for rate, marker in zip(rates, "os^D", strict=False):
            _draw_curve(axes, by_coefficient(drawn, rate), colours, marker, rate)
        if len(drawn) < len(present):
            words = f"not drawn: {len(present) - len(drawn)} that died"
            axes.text(0.03, 0.82, words, transform=axes.transAxes, va="top")
        errors = [run["test_error"] for run in drawn]
        axes.set_ylim(90 * min(errors), 105 * max(errors))
        axes.set_xlabel("hidden outputs that are exactly zero, test rows (%)")
        axes.set_ylabel("test error (%)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="upper left")
        figure.colorbar(colours, ax=axes, label="L1 coefficient (hollow: none)")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _draw_band(axes: Any) -> None:
    low, high = (100 * share for share in PAPER_BAND)
    axes.axvspan(low, high, color="0.93", zorder=0)
    axes.text(
        (low + high) / 2,
        0.98,
        "equally good\nin the paper",
        transform=axes.get_xaxis_transform(),
        ha="center",
        va="top",
        color="0.4",
    )


def _draw_curve(
    axes: Any,
    groups: dict[float, list[Record]],
    colours: Any,
    marker: str,
    rate: float,
) -> None:
    """Draw the networks of one rate and a line through the means of coefficients."""
    zeros, errors = (
        [100 * statistics.mean(run[key] for run in runs) for runs in groups.values()]
        for key in ("zeros", "test_error")
    )
    axes.plot(zeros, errors, color="0.6", linewidth=1, zorder=1)
    for l1, runs in groups.items():
        axes.scatter(
            [100 * run["zeros"] for run in runs],
            [100 * run["test_error"] for run in runs],
            s=28,
            marker=marker,
            color=colours.to_rgba(l1) if l1 else "white",
            edgecolor="0.3",
            linewidth=0.6,
            zorder=2,
        )
    style = {"marker": marker, "markerfacecolor": "0.6", "markeredgecolor": "0.3"}
    axes.plot([], [], color="0.6", label=f"first learning rate {rate:g}", **style)


def _sentence(record: Record) -> str:
    name = (
        f"L1 {record['l1_activation']:g}, rate {record['learning_rate']:g}, "
        f"seed {record['seed']}"
    )
    if record["absent"] is not None:
        return f"{name}: {record['absent']}"
    return (
        f"{name}: test error {record['test_error']:.2%}, zeros {record['zeros']:.1%}, "
        f"epoch {record['best_epoch']} of {record['n_epochs']}, "
        f"{record['cpu_seconds']} CPU seconds"
    )


if __name__ == "__main__" and not alone.answer(train):
    main()
