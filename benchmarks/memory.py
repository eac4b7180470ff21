"""Peak memory of training on MNIST: hardzero, PyTorch and scikit-learn.

784-1000-1000-1000-10, plain SGD, one epoch over 50,000 rows; each in a process of its
own. Two numbers: the peak of the whole process, with Python, the library and the data;
and how far that lies above what it held when the data were loaded and training began.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import alone
import numpy as np
import racing
import tasks
from numpy.typing import NDArray
from tasks import Floats

CONTENDERS = ("hardzero", "PyTorch", "scikit-learn")
HIDDEN = (1000, 1000, 1000)
RATE = 0.01

Labels = NDArray[np.int64]


def main() -> None:
    """Measure each library at each batch size."""
    parser = racing.arguments(__doc__)
    parser.add_argument("--batches", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=50_000)
    options = parser.parse_args()
    if options.quick:
        options.batches, options.rows = options.batches[:1], 1000
    tasks.mnist_or_exit()
    result = racing.Result("memory", options, __doc__.splitlines()[0])
    for batch in options.batches:
        for name in CONTENDERS:
            spec = {"contender": name, "batch": batch, "n_threads": options.threads}
            if result.has(**spec):
                continue
            measured = alone.measure(
                __file__, spec | {"n_rows": options.rows}, options.threads
            )
            result.add(spec | measured)
            print(f"{name}, batch {batch}: {measured}", flush=True)


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Train for one epoch and read the peak."""
    data = tasks.mnist()
    X = data.X_train[: spec["n_rows"]].copy()
    y = data.y_train[: spec["n_rows"]].copy()
    del data
    train = TRAIN[spec["contender"]](X, y, spec["batch"], spec["n_threads"])
    gc.collect()
    is_exact = forget_peak()
    before = peak_mib()
    train()
    return {
        "peak_mib": peak_mib(),
        "before_training_mib": before,
        "training_mib": round(peak_mib() - before, 1),
        "data_mib": round((X.nbytes + y.nbytes) / 2**20, 1),
        "peak_forgotten_before_training": is_exact,
    }


def hardzero(X: Floats, y: Labels, batch: int, n_threads: int) -> Callable[[], object]:
    """Return the call that fits our classifier."""
    from hardzero import RectifierClassifier

    model = RectifierClassifier(
        HIDDEN,
        solver="sgd",
        learning_rate=RATE,
        batch_size=batch,
        max_epochs=1,
        n_threads=n_threads,
        random_state=0,
    )
    return lambda: model.fit(X, y)


def pytorch(X: Floats, y: Labels, batch: int, n_threads: int) -> Callable[[], object]:
    """Return the call that trains PyTorch's modules on tensors that share `X`."""
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(n_threads)
    torch.manual_seed(0)
    inputs, labels = torch.from_numpy(X), torch.from_numpy(y)

    def train() -> None:
        sizes = (X.shape[1], *HIDDEN, 10)
        modules: list[torch.nn.Module] = []
        for n_inputs, n_units in itertools.pairwise(sizes):
            modules += [torch.nn.Linear(n_inputs, n_units), torch.nn.ReLU()]
        network = torch.nn.Sequential(*modules[:-1])
        optimizer = torch.optim.SGD(network.parameters(), lr=RATE, fused=True)
        for rows in torch.randperm(len(labels)).split(batch):
            optimizer.zero_grad()
            cross_entropy(network(inputs[rows]), labels[rows]).backward()
            optimizer.step()

    return train


def sklearn(X: Floats, y: Labels, batch: int, n_threads: int) -> Callable[[], object]:
    """Return the call that fits scikit-learn's network."""
    from sklearn.neural_network import MLPClassifier

    del n_threads  # it has no such parameter: the environment decides
    model = MLPClassifier(
        HIDDEN,
        solver="sgd",
        alpha=0,
        momentum=0,
        nesterovs_momentum=False,
        learning_rate_init=RATE,
        batch_size=batch,
        max_iter=1,
        random_state=0,
    )

    def train() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one epoch is not convergence
            model.fit(X, y)

    return train


TRAIN = {"hardzero": hardzero, "PyTorch": pytorch, "scikit-learn": sklearn}


def peak_mib() -> float:
    """Return the largest resident set of this process so far, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024
    return round(peak * unit / 2**20, 1)


def forget_peak() -> bool:
    """Set the peak back to what is held now; tell whether the system can (Linux)."""
    try:
        Path(f"/proc/{os.getpid()}/clear_refs").write_text("5")
    except OSError:
        return False
    return True


if __name__ == "__main__" and not alone.answer(measure):
    main()
