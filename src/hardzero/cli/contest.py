"""Train rectifier, tanh and softplus networks on the same data from several seeds."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hardzero import datasets
from hardzero.datasets import Dataset
from hardzero.errors import DeadUnitWarning
from hardzero.estimators.classifier import RectifierClassifier

ACTIVATIONS: Final = ("rectifier", "tanh", "softplus")
# All three train alike, but only the rectifier gets a penalty on activations and signs
# that balance them: the others make no zeros, and with these tanh has more errors.
L1_ACTIVATION: Final = 0.001


@dataclass(frozen=True)
class Contest:
    """What is trained on what.

    Parameters
    ----------
    data : {"digits", "mnist", "cifar10"}
        Name of the data set.
    hidden_sizes : tuple of int
        Units of each hidden layer.
    max_epochs : int
        Passes over the training rows.
    batch_size : int
        Rows in a mini-batch.
    learning_rate : float
        Step size of plain stochastic gradient descent.
    n_seeds : int
        Networks of each activation.
    """

    data: str
    hidden_sizes: tuple[int, ...]
    max_epochs: int
    batch_size: int
    n_seeds: int
    learning_rate: float = 0.1


@dataclass(frozen=True)
class Run:
    """How one network turned out.

    Parameters
    ----------
    activation : str
        Activation of the hidden layers.
    seed : int
        Seed of first weights and shuffles.
    test_error : float
        Share of wrong test rows after the last epoch, in [0, 1].
    zeros : tuple of float
        Share of exact zeros in each hidden layer over the test rows, in [0, 1].
    dead_units : int
        Hidden units that put out zero for every training row.
    n_units : int
        Hidden units.
    seconds : float
        Time of training.
    """

    activation: str
    seed: int
    test_error: float
    zeros: tuple[float, ...]
    dead_units: int
    n_units: int
    seconds: float


def hold_contest(contest: Contest, *, n_threads: int) -> Iterator[Run]:
    """Train one network after another; seed by seed, so that early results compare.

    Parameters
    ----------
    contest : Contest
        What to train.
    n_threads : int
        Number of threads.

    Yields
    ------
    Run
        Each network, as soon as it is trained.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C ended the training of a network.
    """
    dataset: Dataset = getattr(datasets, f"load_{contest.data}")()
    for seed in range(contest.n_seeds):
        for activation in ACTIVATIONS:
            yield _train(contest, activation, seed, dataset, n_threads)


def _train(
    contest: Contest, activation: str, seed: int, dataset: Dataset, n_threads: int
) -> Run:
    is_sparse = activation == "rectifier"
    classifier = RectifierClassifier(
        contest.hidden_sizes,
        activation=activation,
        sign_flip=is_sparse,
        l1_activation=L1_ACTIVATION if is_sparse else 0.0,
        solver="sgd",
        learning_rate=contest.learning_rate,
        batch_size=contest.batch_size,
        max_epochs=contest.max_epochs,
        n_threads=n_threads,
        random_state=seed,
    )
    with warnings.catch_warnings():
        # Dead units are counted and interruptions dealt with below.
        warnings.simplefilter("ignore", DeadUnitWarning)
        warnings.filterwarnings("ignore", "training was interrupted")
        classifier.fit(dataset.X_train, dataset.y_train)
    history = classifier.history_
    if history.stopped == "interrupted":
        raise KeyboardInterrupt
    layers = range(len(contest.hidden_sizes))
    n_fired = sum(_count_fired(classifier, dataset.X_train, i) for i in layers)
    n_units = sum(contest.hidden_sizes)
    return Run(
        activation=activation,
        seed=seed,
        test_error=1 - float(classifier.score(dataset.X_test, dataset.y_test)),
        zeros=tuple(_share_zeros(classifier, dataset.X_test, i) for i in layers),
        dead_units=n_units - n_fired,
        n_units=n_units,
        seconds=sum(history.seconds),
    )


def _count_fired(classifier: RectifierClassifier, X: Any, layer: int) -> int:
    """Count the units of a layer that are not zero for every row."""
    pieces = np.array_split(X, max(len(X) // 5000, 1))  # all at once could be gigabytes
    fired = [(classifier.transform(piece, layer) != 0).any(axis=0) for piece in pieces]
    return int(np.any(fired, axis=0).sum())


def _share_zeros(classifier: RectifierClassifier, X: Any, layer: int) -> float:
    return float(np.mean(classifier.transform(X, layer) == 0))
