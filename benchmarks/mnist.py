"""Glorot, Bordes & Bengio 2011 on MNIST, without pre-training: error and exact zeros.

784-1000-1000-1000-10, 50,000 rows to train on, 10,000 to validate, 10,000 to test; the
recipe `hardzero.glorot2011` (batches of 10, SGD at a constant rate, L1 on activations
1e-3, half of the units with flipped sign) for the rectifier. Tanh and softplus, which
have no zeros to win, go without the penalty, and tanh, which is symmetric, without the
flip: both would only handicap them. For each activation the rate with the lowest
validation error counts; all runs have the same budget of epochs and the same patience.
The result is written after each run, and ``--resume`` goes on from there.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import alone
import numpy as np
import racing
import tasks

ACTIVATIONS = ("rectifier", "tanh", "softplus")
RATES = (0.1, 0.01, 0.001, 0.0001)

#: Test error in percent, and zeros in percent: table 1 and section 4.1 of the paper.
PUBLISHED = {"rectifier": (1.43, 83.4), "tanh": (1.57, None), "softplus": (1.77, None)}

#: Where the recipe is softened for an activation that it was not made for.
SOFTENED: dict[str, dict[str, Any]] = {
    "rectifier": {},
    "tanh": {"l1_activation": 0.0, "sign_flip": False},
    "softplus": {"l1_activation": 0.0},
}

N_TRAIN = 50_000


def main() -> None:
    """Train every activation at every rate that has no result yet."""
    parser = racing.arguments(__doc__)
    parser.add_argument(
        "--activations", nargs="+", choices=ACTIVATIONS, default=list(ACTIVATIONS)
    )
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--max-epochs", type=int, default=100)
    parser.add_argument("--patience", type=int, default=20)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--threads", type=int, default=1, help="threads of one run")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    options = parser.parse_args()
    if options.quick:
        options.rates, options.max_epochs = options.rates[:1], 1
    tasks.mnist_or_exit()
    result = racing.Result("mnist", options, __doc__.splitlines()[0])
    specs = [
        {
            "activation": activation,
            "learning_rate": rate,
            "seed": seed,
            "max_epochs": options.max_epochs,
            "patience": options.patience,
        }
        for seed in options.seeds
        for rate in options.rates
        for activation in options.activations
    ]
    specs = [spec for spec in specs if not result.has(**spec)]
    how = {
        "engine": options.engine,
        "n_threads": options.threads,
        "n_train": 2000 if options.quick else N_TRAIN,
        "verbose": options.jobs == 1,
    }

    def run(spec: dict[str, Any]) -> dict[str, Any]:
        print(f"{spec['activation']}, rate {spec['learning_rate']}", flush=True)
        return spec | alone.measure(__file__, spec | how, options.threads)

    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            for finished in as_completed([pool.submit(run, spec) for spec in specs]):
                result.add(finished.result())
                print(_sentence(result.records[-1]), flush=True)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise SystemExit("interrupted; --resume goes on from here") from None
    for activation in options.activations:
        for record in selected(result.records, activation):
            print("chosen by validation error:", _sentence(record))


def selected(records: list[dict[str, Any]], activation: str) -> list[dict[str, Any]]:
    """Return, for each seed, the run with the lowest validation error.

    Parameters
    ----------
    records : list of dict
        Finished runs.
    activation : str
        Which runs to choose among.

    Returns
    -------
    list of dict
        One run a seed; of equal ones the one with the higher rate.
    """
    runs: dict[int, list[dict[str, Any]]] = {}
    for record in records:
        if record["activation"] == activation and record["absent"] is None:
            runs.setdefault(record["seed"], []).append(record)
    return [
        min(of_seed, key=lambda run: (run["validation_error"], -run["learning_rate"]))
        for _, of_seed in sorted(runs.items())
    ]


def train(spec: dict[str, Any]) -> dict[str, Any]:
    """Train one network and measure it on the test rows."""
    import hardzero

    data = tasks.mnist()
    n_train = spec["n_train"]
    model = hardzero.RectifierClassifier(
        **hardzero.glorot2011(learning_rate=spec["learning_rate"])
        | {"activation": spec["activation"]}
        | SOFTENED[spec["activation"]],
        max_epochs=spec["max_epochs"],
        early_stopping=True,
        patience=spec["patience"],
        engine=spec["engine"],
        n_threads=spec["n_threads"],
        random_state=spec["seed"],
        verbose=spec["verbose"],
    )
    started, cpu_started = time.perf_counter(), time.process_time()
    model.fit(
        data.X_train[:n_train],
        data.y_train[:n_train],
        X_val=data.X_train[N_TRAIN:],
        y_val=data.y_train[N_TRAIN:],
    )
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_started
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
        "stopped": history.stopped,
        "minutes": round(seconds / 60, 2),
        "cpu_minutes": round(cpu / 60, 2),
        "validation_errors": history.validation_error,
        "losses": [float(f"{loss:.4g}") for loss in history.loss],
    }


def _sentence(record: dict[str, Any]) -> str:
    name = f"{record['activation']}, rate {record['learning_rate']}"
    if record["absent"] is not None:
        return f"{name}: {record['absent']}"
    return (
        f"{name}: test error {record['test_error']:.2%}, validation error "
        f"{record['validation_error']:.2%}, zeros {record['zeros']:.1%}, "
        f"epoch {record['best_epoch']} of {record['n_epochs']}, "
        f"{record['minutes']} minutes"
    )


if __name__ == "__main__" and not alone.answer(train):
    main()
