"""The denoising auto-encoders that `pretraining_step.py` times, trained here.

Each is built once, by ``python pretraining_tasks.py NAME``, and kept under ``.cache/``
as the tasks of `tasks.py` are, with encoder and decoder as its two layers:

* ``image-layer1``: 784-1000-784 on MNIST, noise "masking(0.25)", decoder "softplus",
  ten epochs of SGD in batches of 10 with the paper's L1 penalty of 1e-3;
* ``image-layer1-83``: the same with a penalty that makes 83 % of the hidden outputs
  zero, which the paper finds in its networks after fine-tuning;
* ``image-layer2``: 1000-1000-1000 on the encodings of ``image-layer1-83``, alike;
* ``text-layer1-29`` and ``text-layer1-54``: 5000-5000-5000 on Amazon reviews, words
  present or not, noise "salt_and_pepper(0.8, density)", decoder "sigmoid", with
  penalties that lead to 29 % zeros, the paper's figure for one pre-trained layer on
  text, and to 54 %, its figure for three.

Where a share of zeros is the aim, training ends as soon as it is reached.

References
----------
Glorot, Bordes & Bengio 2011, "Deep sparse rectifier neural networks", sections 4.1 and
4.2, table 2.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import numpy as np
import tabular
import tasks
from numpy.typing import NDArray
from scipy import sparse

BATCH = 10
TEXT_FOLDER = "amazon-reviews/bow5000"
N_WORDS = 5000


@dataclass(frozen=True)
class Recipe:
    """How an auto-encoder is trained.

    Parameters
    ----------
    n_units : int
        Hidden units.
    corruption, decoder : str
        Noise and decoder, as `hardzero.DenoisingAutoencoder` spells them.
    learning_rate, l1_activation : float
        Of plain SGD in batches of `BATCH`.
    n_steps : int
        Steps, at most.
    zeros : float or None
        Share of zero hidden outputs, for noisy rows, at which training ends.
    n_rows : int
        Rows that are kept to be timed on.
    """

    n_units: int
    corruption: str
    decoder: str
    learning_rate: float
    l1_activation: float
    n_steps: int
    zeros: float | None
    n_rows: int


_IMAGES = ("masking(0.25)", "softplus", 0.01)
_TEXT = ("salt_and_pepper(0.8, density)", "sigmoid", 0.005)

RECIPES = {
    "image-layer1": Recipe(1000, *_IMAGES, 1e-3, 50_000, None, 5000),
    "image-layer1-83": Recipe(1000, *_IMAGES, 3e-2, 50_000, tasks.PAPER_ZEROS, 5000),
    "image-layer2": Recipe(1000, *_IMAGES, 3e-2, 50_000, tasks.PAPER_ZEROS, 5000),
    "text-layer1-29": Recipe(5000, *_TEXT, 3e-2, 5000, 0.289, 2000),
    "text-layer1-54": Recipe(5000, *_TEXT, 1e-1, 5000, 0.539, 2000),
}

_PIECE = 100  # steps between two looks at the zeros


def require(*names: str) -> dict[str, dict[str, Any]]:
    """Build the tasks that are not cached yet, and return what each is about."""
    missing = [name for name in names if not tasks.path(name).exists()]
    if missing:
        subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), *missing],
            env=machine.environment(machine.n_usable_cores()),
            check=True,
        )
    return tasks.require(*names)


def build(name: str) -> tasks.Task:
    """Train an auto-encoder."""
    recipe = RECIPES[name]
    X = _rows(name)
    weights, biases, figures = _train(X, recipe)
    kept = X[: recipe.n_rows]
    y = np.zeros(recipe.n_rows, np.int64)  # nobody looks at them
    task = tasks.Task(name, {}, kept, y, weights, biases)
    task.about.update(
        data="Amazon reviews" if name.startswith("text") else "MNIST",
        sizes=task.sizes,
        corruption=recipe.corruption,
        decoder=recipe.decoder,
        l1_activation=recipe.l1_activation,
        is_sparse=sparse.issparse(X),
        **figures,
    )
    task.about.update(_shares(task))
    return task


def with_noise(task: tasks.Task, X: tasks.Matrix, key: int) -> tasks.Matrix:
    """Return rows with the noise that the task's auto-encoder has to undo.

    Parameters
    ----------
    task : Task
        Says which noise, and what it learns from.
    X : ndarray or csr_matrix of shape (n_rows, n_features), float32
        Rows.
    key : int
        What the noise depends on, beside the content of each row.

    Returns
    -------
    ndarray or csr_matrix
        Of the kind of `X`.
    """
    from hardzero.engine.corruption import parse_corruption
    from hardzero.random import row_hashes

    corruptor = parse_corruption(task.about["corruption"]).fit(task.X)
    return corruptor(X, row_hashes(X), np.uint64(key))


def stack_of(weights: list[tasks.Floats], biases: list[tasks.Floats]) -> Any:
    """Make the `RectifierStack` of encoder and decoder out of plain arrays."""
    from hardzero.stack import Layer, RectifierStack

    activations = ("rectifier", "identity")
    layers = zip(weights, biases, activations, strict=True)
    return RectifierStack(tuple(Layer(*layer) for layer in layers), "identity")


def _rows(name: str) -> tasks.Matrix:
    if name.startswith("text"):
        return _reviews()
    tasks.mnist_or_exit()
    X = tasks.mnist().X_train[:50_000]
    if name == "image-layer2":
        require("image-layer1-83")
        lower = tasks.load("image-layer1-83")
        X = np.maximum(X @ lower.weights[0] + lower.biases[0], 0)
    return X


def _reviews() -> sparse.csr_matrix:
    from sklearn.datasets import load_svmlight_files

    folder = tabular.find_folder(TEXT_FOLDER)
    if folder is None:
        raise SystemExit(f"The folder in HARDZERO_DATA has no {TEXT_FOLDER}.")
    parts = load_svmlight_files(
        sorted(folder.glob("*_*.svmlight.gz")),
        n_features=N_WORDS,
        dtype=np.float32,
        zero_based=True,
    )
    X = sparse.vstack(parts[::2], format="csr")
    X = X[np.random.default_rng(0).permutation(X.shape[0])]  # they come by topic
    X.data[:] = 1  # presence, not count
    X.sort_indices()
    return X


def _train(
    X: tasks.Matrix, recipe: Recipe
) -> tuple[list[tasks.Floats], list[tasks.Floats], dict[str, Any]]:
    """Train as the recipe says; return parameters and what came out."""
    from hardzero import kernels
    from hardzero.engine.corruption import parse_corruption
    from hardzero.engine.denoise import DenoisingNetwork
    from hardzero.engine.initialise import initialise
    from hardzero.engine.reconstruction import Reconstruction, parse_decoder
    from hardzero.kernels.rules import SGD
    from hardzero.random import row_hashes

    start = initialise(
        (X.shape[1], recipe.n_units, X.shape[1]),
        ["rectifier"],
        seed=0,
        scheme="auto",
        sign_flip=False,
        output_link="identity",
        dtype=X.dtype,
    )
    network = DenoisingNetwork(
        kernels.build(
            start, SGD(recipe.learning_rate), l1_activation=recipe.l1_activation
        ),
        parse_corruption(recipe.corruption).fit(X),
        Reconstruction(parse_decoder(recipe.decoder)),
        row_hashes(X),
        seed=0,
        purpose="benchmark",
    )
    network.bind(X)
    n_steps, loss, zeros = 0, float("nan"), 0.0
    for piece in _pieces(X.shape[0], recipe.n_steps):
        losses = []
        for epoch, rows in piece:
            network.begin_epoch(epoch)
            losses.append(network.step(rows))
        n_steps += len(losses)
        loss = float(np.mean(losses))
        counts = network.statistics()[0]
        zeros = 1 - counts.n_nonzero / (counts.n_rows * recipe.n_units)
        if n_steps % 1000 == 0:
            print(f"step {n_steps}: loss {loss:.2f}, zeros {zeros:.3f}", flush=True)
        if recipe.zeros is not None and zeros >= recipe.zeros:
            break
    layers = network.stack().layers
    figures = {"n_steps": n_steps, "loss": round(loss, 3), "zeros": round(zeros, 4)}
    return [layer.W for layer in layers], [layer.b for layer in layers], figures


def _pieces(n_rows: int, n_steps: int) -> list[list[tuple[int, NDArray[np.int64]]]]:
    """Return the steps, each an epoch and its rows, in pieces of equal length."""
    rng = np.random.default_rng(0)
    steps: list[tuple[int, NDArray[np.int64]]] = []
    epoch = 0
    while len(steps) < n_steps:
        epoch += 1
        order = rng.permutation(n_rows)[: n_rows // BATCH * BATCH]
        steps += [(epoch, rows) for rows in order.reshape(-1, BATCH)]
    del steps[n_steps:]
    return [steps[at : at + _PIECE] for at in range(0, n_steps, _PIECE)]


def _shares(task: tasks.Task) -> dict[str, Any]:
    """Return how many numbers are not zero, of the rows that are kept.

    ``pairs`` is the share of pairs of an input and a hidden unit that are both active
    for the same noisy row, ``batch_units`` the share of hidden units that are active
    for any row of a batch, by its size.
    """
    noisy = with_noise(task, task.X, key=0)
    is_active = noisy @ task.weights[0] + task.biases[0] > 0
    n_inputs, n_units = task.weights[0].shape
    active_inputs = np.asarray((noisy != 0).sum(axis=1)).ravel() / n_inputs
    active_units = is_active.mean(axis=1)
    shares = {
        "input_nonzero": float((task.X != 0).sum()) / np.prod(task.X.shape),
        "noisy_nonzero": active_inputs.mean(),
        "hidden_nonzero": active_units.mean(),
        "pairs": (active_inputs * active_units).mean(),
    }
    in_batch = {
        str(size): is_active.reshape(-1, size, n_units).any(axis=1).mean()
        for size in (10, 100)
    }
    return _rounded(shares) | {"batch_units": _rounded(in_batch)}


def _rounded(shares: dict[str, Any]) -> dict[str, float]:
    return {name: round(float(share), 5) for name, share in shares.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=RECIPES, metavar="NAME")
    for name in parser.parse_args().names:
        print(f"building the task {name}", flush=True)
        tasks.save(build(name))
