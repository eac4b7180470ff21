"""Wide sparse rows: peak memory and seconds an epoch beside scikit-learn and PyTorch.

100,000 rows of 100,000 columns in CSR form, 100 ones a row (0.1 %), drawn by Zipf's law
as words are; a linear teacher labels them with five classes. As a dense float32 array
they would take 37 GiB. All train 100000-256-256-5 on the same rows at the same rate and
batch, each in a process of its own.

PyTorch's first layer is ``EmbeddingBag(sparse=True)``. With Adam it has to use
``SparseAdam`` there, which leaves the weights of absent columns as they are and so
does other and less work than Adam, whose moments move every weight in every step.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable
from typing import Any

import alone
import numpy as np
import racing
from memory import forget_peak, peak_mib
from numpy.typing import NDArray
from scipy import sparse

CONTENDERS = ("hardzero", "EmbeddingBag(sparse)", "scikit-learn")
HIDDEN = (256, 256)
N_CLASSES = 5
N_WORDS = 100  # non-zeros a row
N_TEST = 5000
RATES = {"sgd": 0.2, "adam": 0.001}
LIMIT_MIB = 2048

Labels = NDArray[np.int64]
Predict = Callable[[Any], Labels]
Train = Callable[[], tuple[list[float], Predict]]


def main() -> None:
    """Measure each library with each solver."""
    parser = racing.arguments(__doc__)
    parser.add_argument("--solvers", nargs="+", choices=RATES, default=list(RATES))
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS)
    )
    parser.add_argument("--size", type=int, default=100_000, help="rows and columns")
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.size, options.repeats = 2000, 1
    result = racing.Result("wide_sparse", options, __doc__.splitlines()[0])
    specs = [
        {
            "contender": contender,
            "solver": solver,
            "size": options.size,
            "batch": options.batch,
            "n_epochs": options.epochs,
            "n_threads": options.threads,
            "repeat": repeat,
        }
        for repeat in range(options.repeats)
        for solver in options.solvers
        for contender in options.contenders
    ]
    for spec in specs:
        if result.has(**spec):
            continue
        result.add(spec | alone.measure(__file__, spec, options.threads))
        print(_sentence(result.records[-1]), flush=True)
    over = [
        record
        for record in result.records
        if record["contender"] == "hardzero"
        and (record["absent"] is not None or record["peak_mib"] >= LIMIT_MIB)
    ]
    if over:
        raise SystemExit(f"hardzero must stay below {LIMIT_MIB} MiB: {over}")


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Train one network; read time, peak and accuracy."""
    X, y = wide_rows(spec["size"] + N_TEST, spec["size"])
    X_test, y_test = X[spec["size"] :], y[spec["size"] :]
    X, y = X[: spec["size"]], y[: spec["size"]]
    train = TRAIN[spec["contender"]](X, y, spec)
    gc.collect()
    is_exact = forget_peak()
    before = peak_mib()
    started, cpu_started = time.perf_counter(), time.process_time()
    epochs, predict = train()
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    peak = peak_mib()
    n_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes
    return {
        "epoch_seconds": [round(seconds, 3) for seconds in epochs],
        "wall_seconds": round(wall, 2),  # of all epochs and of setting up
        "cpu_seconds": round(cpu, 2),
        "peak_mib": peak,
        "before_training_mib": before,
        "training_mib": round(peak - before, 1),
        "data_mib": round(n_bytes / 2**20, 1),
        "peak_forgotten_before_training": is_exact,
        "accuracy": round(float(np.mean(predict(X_test) == y_test)), 4),
    }


def wide_rows(n_rows: int, n_columns: int) -> tuple[sparse.csr_matrix, Labels]:
    """Draw rows with `N_WORDS` distinct ones each, and their labels.

    Parameters
    ----------
    n_rows, n_columns : int
        Shape; at least 1,000 columns.

    Returns
    -------
    X : csr_matrix of shape (n_rows, n_columns), float32
        Ones. Column k is about as frequent as 1 / (k + 100); each row has one column
        out of each of `N_WORDS` bands that are equally likely.
    y : ndarray of shape (n_rows,), int64
        Classes 0 to 4 in equal shares, by the sum of the random scores of a row's
        columns.
    """
    rng = np.random.default_rng(0)
    first = 100.0  # so that the narrowest band still has a few columns
    edges = np.geomspace(first, n_columns + first, N_WORDS + 1) - first
    starts = np.round(edges).astype(np.int32)
    columns = rng.random((n_rows, N_WORDS), dtype=np.float32)
    columns *= np.diff(starts)
    columns = columns.astype(np.int32)
    np.minimum(columns, np.diff(starts) - 1, out=columns)  # rounding could reach it
    columns += starts[:-1]
    X = sparse.csr_matrix(
        (
            np.ones(columns.size, np.float32),
            columns.ravel(),
            np.arange(0, columns.size + 1, N_WORDS, dtype=np.int32),
        ),
        (n_rows, n_columns),
    )
    scores = X @ rng.standard_normal(n_columns, np.float32)
    cuts = np.quantile(scores, np.arange(1, N_CLASSES) / N_CLASSES)
    return X, np.searchsorted(cuts, scores).astype(np.int64)


def hardzero(X: Any, y: Labels, spec: dict[str, Any]) -> Train:
    """Return the call that fits our classifier."""
    from hardzero import RectifierClassifier

    model = RectifierClassifier(
        HIDDEN,
        solver=spec["solver"],
        learning_rate=RATES[spec["solver"]],
        batch_size=spec["batch"],
        max_epochs=spec["n_epochs"],
        n_threads=spec["n_threads"],
        random_state=0,
    )

    def train() -> tuple[list[float], Predict]:
        model.fit(X, y)
        return list(model.history_.seconds), model.predict

    return train


def embedding_bag(X: Any, y: Labels, spec: dict[str, Any]) -> Train:
    """Return the call that trains PyTorch's network for bags of words."""
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(spec["n_threads"])
    torch.manual_seed(0)
    rate, labels = RATES[spec["solver"]], torch.from_numpy(y)

    def train() -> tuple[list[float], Predict]:
        sizes = (X.shape[1], *HIDDEN, N_CLASSES)
        first = torch.nn.EmbeddingBag(*sizes[:2], mode="sum", sparse=True)
        torch.nn.init.xavier_uniform_(first.weight)  # its own is far too large here
        bias = torch.nn.Parameter(torch.zeros(sizes[1]))
        modules: list[torch.nn.Module] = []
        for n_inputs, n_units in itertools.pairwise(sizes[1:]):
            modules += [torch.nn.Linear(n_inputs, n_units), torch.nn.ReLU()]
        rest = torch.nn.Sequential(*modules[:-1])
        others = [bias, *rest.parameters()]
        if spec["solver"] == "sgd":
            rules = [
                torch.optim.SGD([first.weight], lr=rate),
                torch.optim.SGD(others, lr=rate, fused=True),
            ]
        else:
            rules = [
                torch.optim.SparseAdam([first.weight], lr=rate),
                torch.optim.Adam(others, lr=rate, fused=True),
            ]

        def outputs(bags: Any) -> torch.Tensor:
            words = torch.from_numpy(bags.indices.astype(np.int64))
            starts = torch.from_numpy(bags.indptr[:-1].astype(np.int64))
            scores: torch.Tensor = rest(torch.relu(first(words, starts) + bias))
            return scores

        def epoch() -> None:
            for rows in torch.randperm(len(labels)).split(spec["batch"]):
                for rule in rules:
                    rule.zero_grad()
                cross_entropy(outputs(X[rows.numpy()]), labels[rows]).backward()
                for rule in rules:
                    rule.step()

        def predict(bags: Any) -> Labels:
            with torch.no_grad():
                best: Labels = outputs(bags).argmax(dim=1).numpy()
            return best

        return [_seconds(epoch) for _ in range(spec["n_epochs"])], predict

    return train


def sklearn(X: Any, y: Labels, spec: dict[str, Any]) -> Train:
    """Return the call that trains scikit-learn's network, one epoch a call."""
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(
        HIDDEN,
        solver=spec["solver"],
        alpha=0,
        momentum=0,
        nesterovs_momentum=False,
        learning_rate_init=RATES[spec["solver"]],
        batch_size=spec["batch"],
        random_state=0,
    )

    def train() -> tuple[list[float], Predict]:
        def epoch() -> None:
            model.partial_fit(X, y, classes=np.arange(N_CLASSES))

        return [_seconds(epoch) for _ in range(spec["n_epochs"])], model.predict

    return train


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _sentence(record: dict[str, Any]) -> str:
    name = f"{record['contender']}, {record['solver']}, repeat {record['repeat']}"
    if record["absent"] is not None:
        return f"{name}: {record['absent']}"
    return (
        f"{name}: epochs of {record['epoch_seconds']} s, peak {record['peak_mib']:.0f} "
        f"MiB ({record['training_mib']:.0f} of it training), accuracy "
        f"{record['accuracy']:.1%}"
    )


TRAIN = {
    "hardzero": hardzero,
    "EmbeddingBag(sparse)": embedding_bag,
    "scikit-learn": sklearn,
}

if __name__ == "__main__" and not alone.answer(measure):
    main()
