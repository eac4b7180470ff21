"""MNIST with and without denoising pre-training: rectifier, tanh and softplus.

The protocol of Glorot, Bordes & Bengio 2011, table 1: 784-1000-1000-1000-10, 50,000
rows to train on, 10,000 to validate, 10,000 to test, SGD in batches of 10 at constant
rates, for the rectifier with half of the units flipped and L1 on activations 1e-3 in
both phases (see `mnist.py` for why the others go without).

Pre-training: masking noise 0.25, one layer after the other on the 50,000 rows, each at
every rate of a grid; the rate whose layer reconstructs the validation rows best is
kept. Once for each activation and seed: the layers are a file in ``.cache/`` that all
further runs start from. Fine-tuning: every rate of a grid; the one with the lowest
validation error counts. Without pre-training the rate is the one that `mnist.py` found
best (there with up to 100 epochs and more patience); that network is trained here
again, with the budget of the others, for its predictions. `hardzero.compare_errors`
then compares the two on the test rows. The result is written after each run, and
``--resume`` goes on from there; about 40 minutes on 2 cores, of which it uses one.
"""

from __future__ import annotations

import json
import pickle
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import alone
import mnist
import numpy as np
import racing
import tasks

ACTIVATIONS = mnist.ACTIVATIONS
N_TRAIN = mnist.N_TRAIN

#: Test error in percent with and without pre-training: table 1 of the paper.
PUBLISHED = {"rectifier": (1.20, 1.43), "tanh": (1.16, 1.57), "softplus": (1.17, 1.77)}

#: Softplus and quadratic cost, which the paper found best on images; for tanh
#: cross-entropy, of (h + 1) / 2 where tanh units are reconstructed, as there.
DECODERS = {"rectifier": "softplus", "tanh": "sigmoid", "softplus": "softplus"}

#: Fine-tuning rates. `mnist.py` tried all of the paper's; those that were far off there
#: are left out here.
RATES = {"rectifier": (0.1, 0.01, 0.001), "tanh": (0.1, 0.01), "softplus": (0.1, 0.01)}

PRETRAINING_RATES = (0.1, 0.01, 0.001)

Record = dict[str, Any]


def main() -> None:
    """Pre-train, fine-tune and compare whatever has no result yet."""
    parser = racing.arguments(__doc__)
    parser.add_argument(
        "--activations", nargs="+", choices=ACTIVATIONS, default=list(ACTIVATIONS)
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--pretraining-epochs", type=int, default=8)
    parser.add_argument(
        "--weaker-l1",
        type=float,
        nargs="*",
        default=[1e-4],
        help="penalties under which the rectifier is fine-tuned as well",
    )
    parser.add_argument("--max-epochs", type=int, default=60)
    parser.add_argument("--patience", type=int, default=12)
    options = parser.parse_args()
    tasks.mnist_or_exit()
    result = racing.Result("pretraining_mnist", options, __doc__.splitlines()[0])
    if options.quick:
        options.pretraining_epochs, options.max_epochs = 1, 1
    budget = {"max_epochs": options.max_epochs, "patience": options.patience}
    n_train = 2000 if options.quick else N_TRAIN
    for seed in options.seeds:
        for activation in options.activations:
            network = {"activation": activation, "seed": seed}
            file = layers_file(activation, seed, quick=options.quick)
            spec = network | {"phase": "pretraining"}
            spec |= {"max_epochs": options.pretraining_epochs}
            if not (result.has(**spec) and file.exists()):
                result.records[:] = [r for r in result.records if not same(r, spec)]
                _run(result, spec, file=str(file), n_train=n_train)
            for rate in _rates(activation, options.quick):
                spec = network | {"phase": "fine-tuning", "learning_rate": rate}
                spec |= {"l1_activation": None} | budget
                if not result.has(**spec):
                    _run(result, spec, file=str(file), n_train=n_train)
            rate = _best_without(activation)
            spec = network | {"phase": "without", "learning_rate": rate}
            spec |= {"l1_activation": None} | budget
            if not result.has(**spec):
                _run(result, spec, file=None, n_train=n_train)
            for l1 in options.weaker_l1 if activation == "rectifier" else ():
                for rate in _rates(activation, options.quick)[:2]:
                    for phase in ("fine-tuning", "without"):
                        spec = network | {"phase": phase, "learning_rate": rate}
                        spec |= {"l1_activation": l1} | budget
                        if not result.has(**spec):
                            where = str(file) if phase == "fine-tuning" else None
                            _run(result, spec, file=where, n_train=n_train)
    result.content["comparisons"] = compare(result.records)
    result.write()
    for comparison in result.content["comparisons"]:
        print(json.dumps(comparison))


def same(record: Record, spec: Record) -> bool:
    """Tell whether a record is of a run."""
    return spec.items() <= record.items()


def layers_file(activation: str, seed: int, *, quick: bool = False) -> Path:
    """Return where the pre-trained layers of an activation are kept."""
    folder = tasks.CACHE / "quick" if quick else tasks.CACHE
    return folder / f"pretrained-{activation}-{seed}.v1.pickle"


def selected(
    records: list[Record], activation: str, phase: str, l1: float | None = None
) -> list[Record]:
    """Return, for each seed, the run with the lowest validation error.

    Parameters
    ----------
    records : list of dict
        Finished runs.
    activation : str
        Which runs to choose among.
    phase : {"fine-tuning", "without"}
        With pre-training or without.
    l1 : float, optional
        Penalty on activations; that of the recipe, if not given.

    Returns
    -------
    list of dict
        One run a seed.
    """
    chosen = [
        r for r in records if r["phase"] == phase and r.get("l1_activation") == l1
    ]
    return mnist.selected(chosen, activation)


def compare(records: list[Record]) -> list[Record]:
    """Compare, for each activation and seed, the networks with and without.

    Parameters
    ----------
    records : list of dict
        Finished runs.

    Returns
    -------
    list of dict
        Fields of `hardzero.ErrorComparison`, a the network without pre-training.
    """
    import hardzero

    y = tasks.mnist().y_test
    found = []
    kinds = {(r["activation"], r.get("l1_activation")) for r in records}
    for activation, l1 in sorted(kinds, key=str):
        pairs = zip(
            selected(records, activation, "without", l1),
            selected(records, activation, "fine-tuning", l1),
            strict=False,
        )
        for without, tuned in pairs:
            a, b = (_predictions(y, run["wrong_rows"]) for run in (without, tuned))
            comparison = asdict(hardzero.compare_errors(y, a, b))
            about = {"activation": activation, "seed": tuned["seed"]}
            found.append(about | {"l1_activation": l1} | comparison)
    return found


def _predictions(y: Any, wrong_rows: list[int]) -> Any:
    """Return predictions that are right but for some rows; how wrong is immaterial."""
    predictions = y.copy()
    predictions[wrong_rows] = (y[wrong_rows] + 1) % 10
    return predictions


def _rates(activation: str, quick: bool) -> tuple[float, ...]:
    return RATES[activation][:1] if quick else RATES[activation]


def _best_without(activation: str) -> float:
    """Return the rate that `mnist.py` found best."""
    path = racing.RESULTS / "mnist.json"
    if not path.exists():
        raise SystemExit("results/mnist.json does not exist. Run mnist.py first.")
    runs = mnist.selected(json.loads(path.read_text())["records"], activation)
    if not runs:
        raise SystemExit(f"results/mnist.json has no {activation}. Run mnist.py first.")
    rate: float = runs[0]["learning_rate"]
    return rate


def _run(result: racing.Result, spec: Record, **how: Any) -> None:
    print(", ".join(f"{key} {value}" for key, value in spec.items()), flush=True)
    result.add(spec | alone.measure(__file__, spec | how, n_threads=1))
    print("  ", _sentence(result.records[-1]), flush=True)


def settings(activation: str, rate: float, l1: float | None = None) -> Record:
    """Return the paper's recipe, softened as in `mnist.py`.

    Parameters
    ----------
    activation : str
        Of the hidden layers.
    rate : float
        Learning rate.
    l1 : float, optional
        Penalty on activations in place of the recipe's.

    Returns
    -------
    dict
        Parameters of `hardzero.RectifierClassifier`.
    """
    import hardzero

    recipe = hardzero.glorot2011(learning_rate=rate) | {"activation": activation}
    recipe |= mnist.SOFTENED[activation]
    return recipe if l1 is None else recipe | {"l1_activation": l1}


def zeros_of(stack: Any, X: Any, n_layers: int) -> list[float]:
    """Return the share of exact zeros in each of the first layers.

    Parameters
    ----------
    stack : RectifierStack
        Network.
    X : ndarray of shape (n_rows, n_features)
        Rows.
    n_layers : int
        Number of layers.

    Returns
    -------
    list of float
        One share a layer, in [0, 1].
    """
    shares, h = [], X
    for layer in stack.layers[:n_layers]:
        h = layer.activation(h @ layer.W + layer.b)
        h = h if layer.signs is None else h * layer.signs
        shares.append(round(float(np.mean(h == 0)), 4))
    return shares


def work(spec: Record) -> Record:
    """Pre-train or train one network, in a process of its own."""
    return pretrain(spec) if spec["phase"] == "pretraining" else train(spec)


def pretrain(spec: Record) -> Record:
    """Pre-train three layers, keep them in a file and say how well they reconstruct."""
    import hardzero

    data = tasks.mnist()
    recipe = settings(spec["activation"], 0.01)
    model = hardzero.DenoisingAutoencoder(
        recipe["hidden_sizes"],
        activation=spec["activation"],
        sign_flip=recipe["sign_flip"],
        corruption="masking(0.25)",
        decoder=DECODERS[spec["activation"]],
        l1_activation=recipe["l1_activation"],
        solver="sgd",
        learning_rate=PRETRAINING_RATES,
        batch_size=10,
        init=recipe["init"],
        max_epochs=spec["max_epochs"],
        random_state=spec["seed"],
        verbose=True,
    )
    started = time.process_time()
    model.fit(data.X_train[: spec["n_train"]], X_val=data.X_train[N_TRAIN:])
    seconds = time.process_time() - started
    if any(history.stopped == "interrupted" for history in model.histories_):
        raise KeyboardInterrupt
    file = Path(spec["file"])
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_bytes(pickle.dumps(model))
    partial.replace(file)
    return {
        "corruption": list(model.corruptions_),
        "decoder": list(model.decoders_),
        "learning_rates": list(model.learning_rates_),
        "validation_losses": [
            [round(loss, 4) for loss in history.validation_loss]
            for history in model.histories_
        ],
        "zeros_by_layer": zeros_of(model.stack_, data.X_test, 3),
        "cpu_minutes": round(seconds / 60, 2),
    }


def train(spec: Record) -> Record:
    """Train one network, from pre-trained layers or not, and measure it."""
    from sklearn.frozen import FrozenEstimator

    import hardzero

    data = tasks.mnist()
    layers = None
    if spec["file"] is not None:
        layers = FrozenEstimator(pickle.loads(Path(spec["file"]).read_bytes()))
    model = hardzero.RectifierClassifier(
        **settings(spec["activation"], spec["learning_rate"], spec["l1_activation"]),
        pretraining=layers,
        max_epochs=spec["max_epochs"],
        early_stopping=True,
        patience=spec["patience"],
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
    wrong = np.flatnonzero(model.predict(data.X_test) != data.y_test)
    zeros = zeros_of(model.stack_, data.X_test, len(model.stack_.layers) - 1)
    return {
        "test_error": len(wrong) / len(data.y_test),
        "validation_error": history.validation_error[history.best_epoch - 1],
        "zeros": round(float(np.mean(zeros)), 4),
        "zeros_by_layer": zeros,
        "dead_units": history.dead_units[history.best_epoch - 1],
        "n_epochs": history.n_epochs,
        "best_epoch": history.best_epoch,
        "stopped": history.stopped,
        "cpu_minutes": round(seconds / 60, 2),
        "validation_errors": history.validation_error,
        "wrong_rows": wrong.tolist(),
    }


def _sentence(record: Record) -> str:
    if record["absent"] is not None:
        return str(record["absent"])
    if record["phase"] == "pretraining":
        losses = ", ".join(f"{min(of):.3f}" for of in record["validation_losses"])
        rates = ", ".join(f"{rate:g}" for rate in record["learning_rates"])
        return (
            f"rates {rates}, validation losses {losses}, "
            f"{record['cpu_minutes']} CPU minutes"
        )
    return (
        f"test error {record['test_error']:.2%}, validation error "
        f"{record['validation_error']:.2%}, zeros {record['zeros']:.1%}, epoch "
        f"{record['best_epoch']} of {record['n_epochs']}, "
        f"{record['cpu_minutes']} CPU minutes"
    )


if __name__ == "__main__" and not alone.answer(work):
    main()
