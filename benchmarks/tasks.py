"""The networks and data of the races: the same rows and weights for every contender.

A task is built once, by ``python tasks.py NAME``, and kept under ``.cache/``:

* ``image-l1``: 784-1000-1000-1000-10 on MNIST, trained here by hardzero with the L1
  penalty on the activations at which about 83 % of the hidden ones are zero (the
  paper's figure), ``image-plain``: the same without a penalty;
* ``text-50`` and ``text-83``: 5000-5000-5000-5000-5 on a bag of words, at its natural
  half of zeros after He initialisation, or with biases set so that 83 % are zero;
* ``text1000-50``: as ``text-50``, with hidden layers of 1000;
* ``layers-D``: 1000-1000-1000-1000-10 with D % of the inputs and hidden units active.

Without MNIST (see ``HARDZERO_DATA`` in the README) the image tasks fall back on the
bundled digits, enlarged, and say so in every result.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

CACHE = Path(__file__).resolve().parent / ".cache"
VERSION = 1  # raise it when a recipe below changes, so that caches are rebuilt

IMAGE_SIZES = (784, 1000, 1000, 1000, 10)
TEXT_SIZES = (5000, 5000, 5000, 5000, 5)
NARROW_TEXT_SIZES = (5000, 1000, 1000, 1000, 5)
LAYER_SIZES = (1000, 1000, 1000, 1000, 10)

PAPER_ZEROS = 0.83  # Glorot, Bordes & Bengio 2011, table 1: 83.4 % on MNIST

Floats = NDArray[np.float32]
Matrix = Any  # an array or a CSR matrix; SciPy has no types


@dataclass(frozen=True)
class Task:
    """A network and the rows it is timed on.

    Parameters
    ----------
    name : str
        Name of the task, as in the module's docstring.
    about : dict
        What it is: data, sizes, share of zeros per layer; goes into each result.
    X : ndarray or csr_matrix of shape (n_rows, n_features), float32
        The rows.
    y : ndarray of shape (n_rows,), int64
        Their classes.
    weights : list of ndarray of shape (n_inputs, n_units), float32
        Initial weights, one array a layer.
    biases : list of ndarray of shape (n_units,), float32
        Initial biases.
    """

    name: str
    about: dict[str, Any]
    X: Matrix
    y: NDArray[np.int64]
    weights: list[Floats]
    biases: list[Floats]

    @property
    def sizes(self) -> list[int]:
        """Number of inputs, then of units of each layer."""
        return [len(self.weights[0]), *(W.shape[1] for W in self.weights)]

    def zeros(self, weights: list[Floats], biases: list[Floats]) -> list[float]:
        """Return the share of exact zeros in each hidden layer, over 1,000 rows."""
        h = self.X[:1000]
        shares = []
        for W, b in zip(weights[:-1], biases[:-1], strict=True):
            h = np.maximum(h @ W + b, 0)
            shares.append(round(float(np.mean(h == 0)), 4))
        return shares


@dataclass(frozen=True)
class Case:
    """A task cut into mini-batches for one race.

    The last `N_CHECKS` batches repeat the first ones with wrong labels: on them a
    trained network has gradients large enough to compare. They are never timed.

    Parameters
    ----------
    task : Task
        Network and rows.
    batch : int
        Rows in a mini-batch.
    n_threads : int
        Threads that a contender may use.
    learning_rate : float
        Rate of the timed steps, small, so that the zeros stay where they are.
    """

    task: Task
    batch: int
    n_threads: int
    learning_rate: float

    N_CHECKS = 3
    MAX_BATCHES = 50

    @property
    def n_batches(self) -> int:
        """Number of different mini-batches that are timed, in rotation."""
        return min(self.MAX_BATCHES, self.task.X.shape[0] // self.batch)

    @property
    def checks(self) -> range:
        """Indices of the batches with wrong labels."""
        return range(self.n_batches, self.n_batches + self.N_CHECKS)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are stored as CSR."""
        return sparse.issparse(self.task.X)

    @functools.cached_property
    def order(self) -> NDArray[np.int64]:
        """Rows of the task in all batches, one batch after the other."""
        timed = np.arange(self.n_batches * self.batch)
        again = np.arange(self.N_CHECKS * self.batch) % len(timed)
        return np.concatenate([timed, again])

    @functools.cached_property
    def X(self) -> Matrix:  # noqa: N802 - as everywhere
        """Rows of all batches, in the task's format."""
        return self.task.X[self.order]

    @functools.cached_property
    def y(self) -> NDArray[np.int64]:
        """Labels of all batches."""
        labels = self.task.y[self.order]
        n_timed = self.n_batches * self.batch
        labels[n_timed:] = (labels[n_timed:] + 1) % self.task.sizes[-1]
        return labels

    def rows(self) -> list[NDArray[np.int64]]:
        """Return, for each batch, the positions of its rows in `X` and `y`."""
        n_batches = self.n_batches + self.N_CHECKS
        return np.split(np.arange(n_batches * self.batch), n_batches)

    def labels(self) -> list[NDArray[np.int64]]:
        """Return the labels of each batch."""
        return [self.y[rows] for rows in self.rows()]

    def dense_batches(self) -> list[Floats]:
        """Return the rows of each batch as a C-contiguous array."""
        return [self._dense(rows) for rows in self.rows()]

    def csr_batches(self) -> list[sparse.csr_matrix]:
        """Return the rows of each batch as CSR."""
        X = sparse.csr_matrix(self.X)
        return [X[rows] for rows in self.rows()]

    def batches(self) -> list[Any]:
        """Return the rows of each batch in the task's own format."""
        return self.csr_batches() if self.is_sparse else self.dense_batches()

    def _dense(self, rows: NDArray[np.int64]) -> Floats:
        part = self.X[rows]
        return np.ascontiguousarray(part.toarray() if self.is_sparse else part)


def open_case(
    task: str, *, batch: int, n_threads: int, learning_rate: float = 1e-3
) -> Case:
    """Load a prepared task and cut it into batches of `batch` rows."""
    return Case(load(task), batch, n_threads, learning_rate)


def require(*names: str) -> dict[str, dict[str, Any]]:
    """Build the tasks that are not cached yet, and return what each is about.

    They are built in a process of their own, which leaves this one small and lets
    BLAS choose its kernel freely (see `machine.environment`).
    """
    missing = [name for name in names if not path(name).exists()]
    if missing:
        subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), *missing],
            env=machine.environment(machine.n_usable_cores()),
            check=True,
        )
    abouts = {}
    for name in names:
        with np.load(path(name)) as arrays:
            abouts[name] = json.loads(str(arrays["about"]))
    return abouts


@functools.cache
def load(name: str) -> Task:
    """Load a task from the cache."""
    with np.load(path(name)) as arrays:
        about = json.loads(str(arrays["about"]))
        n_layers = len(about["sizes"]) - 1
        X = arrays["X"] if "X" in arrays else _csr(arrays)
        return Task(
            name,
            about,
            X,
            arrays["y"],
            [arrays[f"W{layer}"] for layer in range(n_layers)],
            [arrays[f"b{layer}"] for layer in range(n_layers)],
        )


def path(name: str) -> Path:
    """Return where a task is kept."""
    data = ""
    if name.startswith("image"):
        data = "-mnist" if mnist_folder() else "-digits"
    return CACHE / f"{name}{data}.v{VERSION}.npz"


def mnist_folder() -> Path | None:
    """Return the folder that holds MNIST's files, None if there is none here."""
    shared = machine.ROOT.parent / "shared" / "data"
    for root in (os.environ.get("HARDZERO_DATA"), shared):
        for folder in (Path(root or "."), Path(root or ".") / "mnist"):
            if root and any(folder.glob("train-images*")):
                return folder
    return None


def mnist() -> Any:
    """Load MNIST from `mnist_folder` (a `hardzero.datasets.Dataset`)."""
    from hardzero import datasets

    return datasets.load_mnist(mnist_folder())


def mnist_or_exit() -> None:
    """End the script with advice if MNIST is not here."""
    if mnist_folder() is None:
        raise SystemExit(
            "MNIST is not here. Set HARDZERO_DATA to a folder that holds its four "
            "original files (train-images-idx3-ubyte.gz and so on)."
        )


def build(name: str) -> Task:
    """Build a task from scratch."""
    kind, _, detail = name.partition("-")
    if name in ("image-l1", "image-plain"):
        return _image(name, zeros=PAPER_ZEROS if detail == "l1" else None)
    if kind == "text" and detail in ("50", "83"):
        active = None if detail == "50" else 1 - PAPER_ZEROS
        return _text(name, TEXT_SIZES, active)
    if name == "text1000-50":
        return _text(name, NARROW_TEXT_SIZES, active=None)
    if kind == "layers" and detail.isdecimal() and 1 <= int(detail) <= 100:
        return _layers(name, active=int(detail) / 100)
    raise ValueError(
        f"No task is called {name!r}. Tasks: image-l1, image-plain, text-50, text-83, "
        "text1000-50, layers-1 to layers-100."
    )


def save(task: Task) -> None:
    """Write a task into the cache, all or nothing."""
    CACHE.mkdir(exist_ok=True)
    arrays: dict[str, Any] = {"about": json.dumps(task.about), "y": task.y}
    if sparse.issparse(task.X):
        arrays |= {"data": task.X.data, "indices": task.X.indices}
        arrays |= {"indptr": task.X.indptr, "shape": task.X.shape}
    else:
        arrays["X"] = task.X
    for layer, (W, b) in enumerate(zip(task.weights, task.biases, strict=True)):
        arrays |= {f"W{layer}": W, f"b{layer}": b}
    target = path(task.name)
    partial = target.with_suffix(".partial.npz")
    np.savez(partial, **arrays)
    partial.replace(target)


def _image(name: str, zeros: float | None) -> Task:
    """MNIST's network after five epochs, with the penalty that gives `zeros`."""
    if mnist_folder():
        dataset = mnist()
        X, y, data = dataset.X_train[:50_000], dataset.y_train[:50_000], "MNIST"
    else:
        X, y = _enlarged_digits()
        data = "8x8 digits enlarged to 28x28 (MNIST was not found)"
    low, high, l1 = 1e-5, 1e-2, 0.0 if zeros is None else 3e-4
    for _ in range(8):
        weights, biases, loss = _train(X, y, l1)
        task = Task(name, {}, X[:10_000], y[:10_000], weights, biases)
        share = float(np.mean(task.zeros(weights, biases)))
        print(f"L1 {l1:.2g}: loss {loss:.4f}, zeros {share:.3f}", flush=True)
        if zeros is None or abs(share - zeros) < 0.005:
            break
        low, high = (l1, high) if share < zeros else (low, l1)
        l1 = float(np.sqrt(low * high))
    return _described(
        task, f"{data}, trained for 5 epochs with L1 {l1:.2g}", loss=round(loss, 4)
    )


def _train(
    X: Floats, y: NDArray[np.int64], l1: float
) -> tuple[list[Floats], list[Floats], float]:
    """Train by SGD at rate 0.05 and batch 10; return parameters and last mean loss."""
    from hardzero import kernels
    from hardzero.kernels.rules import SGD

    rng = np.random.default_rng(0)
    network = kernels.build(
        stack_of(*_glorot_uniform(rng, IMAGE_SIZES)), SGD(0.05), l1_activation=l1
    )
    network.bind(X, y)
    for _ in range(5):
        order = rng.permutation(len(y))
        steps = order[: len(y) // 10 * 10].reshape(-1, 10)
        loss = float(np.mean([network.step(rows) for rows in steps]))
    layers = network.stack().layers
    return [layer.W for layer in layers], [layer.b for layer in layers], loss


def stack_of(weights: list[Floats], biases: list[Floats]) -> Any:
    """Make the `RectifierStack` of a classifier out of plain arrays."""
    from hardzero.stack import Layer, RectifierStack

    activations = ["rectifier"] * (len(weights) - 1) + ["identity"]
    layers = zip(weights, biases, activations, strict=True)
    return RectifierStack(tuple(Layer(*layer) for layer in layers), "softmax")


def _glorot_uniform(
    rng: np.random.Generator, sizes: tuple[int, ...]
) -> tuple[list[Floats], list[Floats]]:
    weights = []
    for n_inputs, n_units in itertools.pairwise(sizes):
        bound = np.sqrt(6 / (n_inputs + n_units))
        W = rng.uniform(-bound, bound, (n_inputs, n_units))
        weights.append(W.astype(np.float32))
    return weights, [np.zeros(n_units, np.float32) for n_units in sizes[1:]]


def _enlarged_digits() -> tuple[Floats, NDArray[np.int64]]:
    """Scikit-learn's digits as 28x28 images with MNIST's share of non-zero pixels."""
    from sklearn.datasets import load_digits

    pixels, y = load_digits(return_X_y=True)
    images = np.kron(pixels.reshape(-1, 8, 8) / 16, np.ones((3, 3)))
    images = np.pad(images, ((0, 0), (2, 2), (2, 2)))
    faint = np.quantile(images, 0.81)  # 19 % of MNIST's pixels are not zero
    X = np.maximum(images - faint, 0).reshape(len(images), 784) / (1 - faint)
    return X.astype(np.float32), y.astype(np.int64)


def _text(name: str, sizes: tuple[int, ...], active: float | None) -> Task:
    """Documents of about 30 distinct words by Zipf's law; a linear teacher labels."""
    rng = np.random.default_rng(0)
    n_documents, n_words, n_distinct = 2000, sizes[0], 30
    frequency = 1 / (np.arange(n_words) + 10.0)
    lengths = np.maximum(rng.poisson(1.25 * n_distinct, n_documents), 3)
    words = rng.choice(n_words, lengths.sum(), p=frequency / frequency.sum())
    documents = np.repeat(np.arange(n_documents), lengths)
    counts = sparse.csr_matrix(
        (np.ones(len(words), np.float32), (documents, words)), (n_documents, n_words)
    )
    counts.data[:] = 1  # presence, not count
    counts.sort_indices()
    scores = counts @ rng.normal(size=n_words)
    cuts = np.quantile(scores, np.arange(1, sizes[-1]) / sizes[-1])
    y = np.searchsorted(cuts, scores).astype(np.int64)
    weights, biases = [], []
    fans = (n_distinct, *sizes[1:-1])
    for fan, n_inputs, n_units in zip(fans, sizes, sizes[1:], strict=False):
        W = rng.standard_normal((n_inputs, n_units), np.float32)
        weights.append(W * np.float32(np.sqrt(2 / fan)))
        biases.append(np.zeros(n_units, np.float32))
    if active is not None:
        _set_biases(counts[:500], weights, biases, active)
    return _described(
        Task(name, {}, counts, y, weights, biases),
        "Zipf bag of words, He initialisation"
        + ("" if active is None else f", biases set for {active:.0%} active units"),
    )


def _layers(name: str, active: float) -> Task:
    """Random rows and layers of 1,000 units, `active` of each above zero."""
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((5000, LAYER_SIZES[0]), np.float32))
    X[rng.random(X.shape) >= active] = 0
    y = rng.integers(0, LAYER_SIZES[-1], len(X))
    weights, biases, h = [], [], X
    for n_inputs, n_units in itertools.pairwise(LAYER_SIZES):
        W = rng.standard_normal((n_inputs, n_units), np.float32)
        a = h @ W
        W /= a.std(axis=0)  # every unit's pre-activation has variance 1
        a /= a.std(axis=0)
        weights.append(W)
        biases.append(-np.quantile(a, 1 - active, axis=0).astype(np.float32))
        if active == 1:
            biases[-1] += 1  # a margin: small steps must not silence a unit
        h = np.maximum(a + biases[-1], 0)
    biases[-1] = -np.mean(a, axis=0)  # no class is preferred: gradients stay large
    return _described(
        Task(name, {}, X, y, weights, biases),
        f"random rows, {active:.0%} of the inputs and hidden units active",
    )


def _set_biases(
    X: Any, weights: list[Floats], biases: list[Floats], active: float
) -> None:
    """Shift each hidden unit so that it is above zero for `active` of the rows."""
    h = X
    for W, b in zip(weights[:-1], biases[:-1], strict=True):
        a = h @ W
        b[:] = -np.quantile(a, 1 - active, axis=0)
        h = np.maximum(a + b, 0)


def _described(task: Task, data: str, **more: Any) -> Task:
    """Return the task with its `about` filled in."""
    n_cells = task.X.shape[0] * task.X.shape[1]
    n_nonzero = task.X.nnz if sparse.issparse(task.X) else np.count_nonzero(task.X)
    task.about.update(
        data=data,
        sizes=task.sizes,
        input_nonzero=round(float(n_nonzero) / n_cells, 4),
        zeros_by_layer=(zeros := task.zeros(task.weights, task.biases)),
        zeros=round(float(np.mean(zeros)), 4),
        **more,
    )
    return task


def _csr(arrays: Any) -> sparse.csr_matrix:
    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    return sparse.csr_matrix(parts, shape=tuple(arrays["shape"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", help="tasks to build, such as image-l1")
    for name in parser.parse_args().names:
        print(f"building the task {name}", flush=True)
        save(build(name))
