"""Train rectifier, tanh and softplus networks on the same data from several seeds."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hardzero import datasets
from hardzero.datasets import Dataset
from hardzero.errors import DeadUnitWarning, ParameterError
from hardzero.estimators.classifier import RectifierClassifier
from hardzero.random import generator
from hardzero.significance import ErrorComparison, compare_errors

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
    n_labels : int or None, default=None
        Training rows whose label is known, drawn from each seed anew; None means all.
    pretraining : bool, default=False
        Train each network a second time, with denoising pre-training on all training
        rows.
    """

    data: str
    hidden_sizes: tuple[int, ...]
    max_epochs: int
    batch_size: int
    n_seeds: int
    learning_rate: float = 0.1
    n_labels: int | None = None
    pretraining: bool = False

    @property
    def starts(self) -> tuple[bool, ...]:
        """Whether networks are pre-trained: no, or no and yes."""
        return (False, True) if self.pretraining else (False,)


@dataclass(frozen=True)
class Run:
    """How one network turned out.

    Parameters
    ----------
    activation : str
        Activation of the hidden layers.
    pretrained : bool
        Whether denoising pre-training came first.
    seed : int
        Seed of first weights, shuffles, noise and the choice of labels.
    test_error : float
        Share of wrong test rows after the last epoch, in [0, 1].
    wrong_rows : tuple of int
        Which test rows these are, counted from 0.
    n_rows : int
        Test rows.
    zeros : tuple of float
        Share of exact zeros in each hidden layer over the test rows, in [0, 1].
    dead_units : int
        Hidden units that put out zero for every training row.
    n_units : int
        Hidden units.
    pretraining_seconds : float
        Time of pre-training.
    seconds : float
        Time of training after that.
    """

    activation: str
    pretrained: bool
    seed: int
    test_error: float
    wrong_rows: tuple[int, ...]
    n_rows: int
    zeros: tuple[float, ...]
    dead_units: int
    n_units: int
    pretraining_seconds: float
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
    ParameterError
        If more labels are wanted than there are.
    KeyboardInterrupt
        If Ctrl-C ended the training of a network.
    """
    dataset: Dataset = getattr(datasets, f"load_{contest.data}")()
    n_train = len(dataset.X_train)
    if contest.n_labels is not None and contest.n_labels > n_train:
        raise ParameterError(
            f"{contest.n_labels:,} labels are wanted, but {contest.data} has "
            f"{n_train:,} training rows. Give fewer with --labels."
        )
    for seed in range(contest.n_seeds):
        for activation in ACTIVATIONS:
            for pretrained in contest.starts:
                yield _train(contest, activation, pretrained, seed, dataset, n_threads)


def compare_starts(runs: Sequence[Run], activation: str) -> ErrorComparison:
    """Compare the networks of an activation without and with pre-training.

    Of several seeds, a test row counts with the share of networks that get it wrong:
    networks of other seeds are wrong on the same rows, so that wrong rows of all
    networks together would pretend to more evidence than there is.

    Parameters
    ----------
    runs : sequence of Run
        Of a contest with pre-training.
    activation : str
        Which of them to compare.

    Returns
    -------
    ErrorComparison
        Model a is the one without: a difference above 0 is a gain from pre-training.
        Exact McNemar for one seed, else a paired bootstrap of the mean over seeds.
    """
    without, pretrained = (
        np.column_stack(
            [
                np.isin(np.arange(run.n_rows), run.wrong_rows)
                for run in runs
                if run.activation == activation and run.pretrained == start
            ]
        )
        for start in (False, True)
    )
    nothing_wrong = np.zeros_like(without)
    if without.shape[1] == 1:
        return compare_errors(nothing_wrong, without, pretrained)
    return compare_errors(
        nothing_wrong, without, pretrained, kind="regression", measure="mae"
    )


def _train(
    contest: Contest,
    activation: str,
    pretrained: bool,
    seed: int,
    dataset: Dataset,
    n_threads: int,
) -> Run:
    X, y, more = dataset.X_train, dataset.y_train, {}
    if contest.n_labels is not None:
        order = generator(seed, "labels").permutation(len(X))
        labelled, others = np.split(order, [contest.n_labels])
        more = {"X_unlabeled": X[others]} if pretrained and len(others) else {}
        X, y = X[labelled], y[labelled]
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
        pretraining="denoising" if pretrained else None,
        n_threads=n_threads,
        random_state=seed,
    )
    with warnings.catch_warnings():
        # Dead units are counted and interruptions dealt with below.
        warnings.simplefilter("ignore", DeadUnitWarning)
        warnings.filterwarnings("ignore", "training was interrupted")
        classifier.fit(X, y, **more)
    history = classifier.history_
    if history.stopped == "interrupted":
        raise KeyboardInterrupt
    wrong = np.flatnonzero(classifier.predict(dataset.X_test) != dataset.y_test)
    layers = range(len(contest.hidden_sizes))
    n_fired = sum(_count_fired(classifier, dataset.X_train, i) for i in layers)
    n_units = sum(contest.hidden_sizes)
    return Run(
        activation=activation,
        pretrained=pretrained,
        seed=seed,
        test_error=len(wrong) / len(dataset.y_test),
        wrong_rows=tuple(wrong.tolist()),
        n_rows=len(dataset.y_test),
        zeros=tuple(_share_zeros(classifier, dataset.X_test, i) for i in layers),
        dead_units=n_units - n_fired,
        n_units=n_units,
        pretraining_seconds=sum(sum(layer.seconds) for layer in history.pretraining),
        seconds=sum(history.seconds),
    )


def _count_fired(classifier: RectifierClassifier, X: Any, layer: int) -> int:
    """Count the units of a layer that are not zero for every row."""
    pieces = np.array_split(X, max(len(X) // 5000, 1))  # all at once could be gigabytes
    fired = [(classifier.transform(piece, layer) != 0).any(axis=0) for piece in pieces]
    return int(np.any(fired, axis=0).sum())


def _share_zeros(classifier: RectifierClassifier, X: Any, layer: int) -> float:
    return float(np.mean(classifier.transform(X, layer) == 0))
