"""Pre-training: rows without targets, and hidden layers that were learned from them."""

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator

from hardzero.errors import DataError, ParameterError
from hardzero.estimators.denoising import DenoisingAutoencoder
from hardzero.kernels.network import Matrix
from hardzero.results import FitHistory
from hardzero.stack import Layer, RectifierStack

__all__ = [
    "Pretrained",
    "Unlabeled",
    "describe_pretraining",
    "is_fitted",
    "kept_seed",
    "pretrain",
    "separate_labels",
    "separate_numbers",
]

Array = npt.NDArray[Any]

_OWN = ("hidden_sizes", "activation", "sign_flip")  # of the supervised estimator
_SHARED = ("engine", "n_threads", "verbose", "checkpoint", "checkpoint_seconds")


@dataclass(frozen=True, eq=False)
class Unlabeled:
    """Rows without targets.

    Parameters
    ----------
    X : C-contiguous ndarray or canonical CSR matrix of shape (n, n_features)
        Features.
    sample_weight : ndarray of float64 of shape (n,) or None
        Weights; None means all 1.
    """

    X: Matrix
    sample_weight: Array | None


@dataclass(frozen=True, eq=False)
class Pretrained:
    """Hidden layers to start from.

    Parameters
    ----------
    layers : tuple of Layer
        One for each hidden layer.
    histories : tuple of FitHistory
        How each of them was trained.
    """

    layers: tuple[Layer, ...]
    histories: tuple[FitHistory, ...]

    def put_into(self, stack: RectifierStack) -> RectifierStack:
        """Return a network that starts from these layers.

        Parameters
        ----------
        stack : RectifierStack
            A network with first weights; its output layer stays.

        Returns
        -------
        RectifierStack
            Network.
        """
        return replace(stack, layers=(*self.layers, stack.layers[-1]))

    def checksum(self) -> str:
        """Return what tells these layers from others.

        Returns
        -------
        str
            Checksum of all arrays.
        """
        total = 0
        for layer in self.layers:
            for array in layer.arrays().values():
                total = zlib.crc32(np.ascontiguousarray(array).data, total)
        return f"{total:08x}"


def pretrain(
    estimator: BaseEstimator, parts: list[Unlabeled], first: RectifierStack, seed: int
) -> Pretrained:
    """Return hidden layers for a supervised network.

    Parameters
    ----------
    estimator : BaseEstimator
        The supervised estimator. Its `pretraining` says how; its architecture, engine,
        threads and checkpoint count, not those of `pretraining`.
    parts : list of Unlabeled
        All rows to learn from, all of them dense or all of them sparse.
    first : RectifierStack
        The supervised network with first weights.
    seed : int
        Seed, used if `pretraining` has none.

    Returns
    -------
    Pretrained
        The layers.

    Raises
    ------
    ParameterError
        If a fitted auto-encoder was given that has another architecture.
    KeyboardInterrupt
        If Ctrl-C ended the training of a layer.
    """
    given = estimator.pretraining
    if is_fitted(given):
        return _fitted(given.estimator, first)
    autoencoder = _configured(estimator)
    layers, histories = autoencoder.learn_layers(*_join(parts), seed)
    if histories[-1].stopped == "interrupted":
        raise KeyboardInterrupt
    return Pretrained(layers, histories)


def describe_pretraining(estimator: BaseEstimator) -> str:
    """Return how long hidden layers are trained, before they are.

    A checkpoint of the network that starts from them says so, to be refused before
    files of these layers are written.

    Parameters
    ----------
    estimator : BaseEstimator
        The supervised estimator.

    Returns
    -------
    str
        Description.
    """
    if is_fitted(estimator.pretraining):
        return "fitted before"
    autoencoder = _configured(estimator)
    length = f"{autoencoder.max_epochs} epochs a layer"
    if autoencoder.early_stopping:
        length = f"up to {length} with patience {autoencoder.patience}"
    return length


def kept_seed(estimator: BaseEstimator) -> int | None:
    """Return the seed of a run that was cut off while hidden layers were trained.

    Parameters
    ----------
    estimator : BaseEstimator
        The supervised estimator, whose seed the first phase took over.

    Returns
    -------
    int or None
        Seed; None if there is no such run.
    """
    if estimator.pretraining is None or is_fitted(estimator.pretraining):
        return None
    autoencoder = _configured(estimator)
    if isinstance(autoencoder.random_state, int | np.integer):
        return None  # a seed of its own
    return autoencoder.kept_seed()


def _configured(estimator: BaseEstimator) -> DenoisingAutoencoder:
    """Return the auto-encoder that trains the hidden layers of an estimator."""
    given = estimator.pretraining
    autoencoder = (
        DenoisingAutoencoder() if isinstance(given, str) else clone(given, safe=True)
    )
    autoencoder.set_params(
        **{name: getattr(estimator, name) for name in (*_OWN, *_SHARED)}
    )
    return autoencoder


def is_fitted(pretraining: Any) -> bool:
    """Return whether hidden layers are used as they are, without pre-training.

    Parameters
    ----------
    pretraining : str, DenoisingAutoencoder or FrozenEstimator
        The parameter of an estimator.

    Returns
    -------
    bool
        True for an auto-encoder that is frozen.
    """
    return isinstance(pretraining, FrozenEstimator)


def _fitted(autoencoder: DenoisingAutoencoder, first: RectifierStack) -> Pretrained:
    if not hasattr(autoencoder, "stack_"):
        raise ParameterError(
            "pretraining is a frozen DenoisingAutoencoder that was not fitted, "
            "expected a fitted one. Fit it first, or give it without FrozenEstimator "
            "to have it trained by fit."
        )
    learned = autoencoder.stack_.astype(first.dtype)
    expected = replace(first, layers=first.layers[:-1], output_link="identity")
    if learned.architecture != expected.architecture:
        raise ParameterError(
            f"pretraining is a fitted DenoisingAutoencoder with the layers\n{learned!r}"
            f"\nexpected\n{expected!r}\nGive the estimator the hidden_sizes, activation"
            " and sign_flip of the auto-encoder, and data with the same features."
        )
    return Pretrained(learned.layers, autoencoder.histories_)


def _join(parts: list[Unlabeled]) -> tuple[Matrix, Array | None]:
    """Return all rows, and their weights, in one piece."""
    if len(parts) == 1:
        return parts[0].X, parts[0].sample_weight
    kinds = {sp.issparse(part.X) for part in parts}
    if len(kinds) > 1:
        raise DataError(
            "X and X_unlabeled are a dense and a sparse matrix, expected two of one "
            "kind. Convert one of them, for example with scipy.sparse.csr_array(X)."
        )
    stack = sp.vstack if kinds == {True} else np.concatenate
    X = stack([part.X for part in parts])
    if all(part.sample_weight is None for part in parts):
        return X, None
    weights = [
        np.ones(part.X.shape[0]) if part.sample_weight is None else part.sample_weight
        for part in parts
    ]
    return X, np.concatenate(weights)


def separate_labels(y: Any, classes: Array | None = None) -> tuple[Any, Array | None]:
    """Return labels, with some label in place of the marks, and where the marks were.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
        Labels. The number -1 marks a row without a label, in a matrix of labels a row
        of -1.
    classes : ndarray of shape (n_classes,), optional
        All labels, if they are known: if -1 is among them, it is no mark. If they are
        not, and there is only one number beside -1, both are labels.

    Returns
    -------
    y : array-like
        The same, or a copy in which each mark is the first label.
    is_unlabeled : ndarray of bool of shape (n_samples,) or None
        Where the marks were; None if there were none.

    Raises
    ------
    DataError
        If labels are text and one is "-1", a row of a matrix has some -1, or a label
        is NaN or None.
    """
    labels = np.asarray(y)
    if sp.issparse(y) or labels.ndim not in (1, 2):
        return y, None
    _refuse_missing(labels)
    if classes is not None and any(map(_stands_for_minus_1, classes.tolist())):
        return y, None
    if labels.dtype.kind in "USO" and any(map(_is_text_of_minus_1, labels.flat)):
        raise DataError(
            "y is text and has the label '-1', expected the number -1 for rows "
            "without a label. Give an array of objects, such as "
            "numpy.array(['spam', -1], dtype=object), or another name for that "
            "label."
        )
    if labels.dtype.kind in "US":
        return y, None
    if labels.dtype == object:
        marks = np.reshape([_is_minus_1(label) for label in labels.flat], labels.shape)
    else:
        marks = labels == -1
    is_unlabeled, labels = _whole_rows(marks, labels, "-1")
    if not is_unlabeled.any():
        return y, None
    known = labels[~is_unlabeled]
    if len(known) == 0:
        return y, is_unlabeled
    is_undecided = classes is None and labels.ndim == 1 and labels.dtype != object
    if is_undecided and len(set(known.tolist())) == 1:
        return y, None
    labels = labels.copy()
    labels[is_unlabeled] = known[0]
    return labels, is_unlabeled


def separate_numbers(y: Any) -> tuple[Any, Array | None]:
    """Return numbers, with some number in place of NaN, and where NaN was.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Targets. NaN, or None, marks a row without a target.

    Returns
    -------
    y : array-like
        The same, or a copy in which each mark is the first target.
    is_unlabeled : ndarray of bool of shape (n_samples,) or None
        Where the marks were; None if there were none.

    Raises
    ------
    DataError
        If a row has some targets and some NaN.
    """
    numbers = np.asarray(y)
    if numbers.dtype == object:
        if any(isinstance(number, str | bytes) for number in numbers.flat):
            return y, None  # text is refused by later checks
        try:
            numbers = numbers.astype(np.float64)
        except (TypeError, ValueError):  # what it is instead is told by later checks
            return y, None
    if numbers.dtype.kind != "f" or numbers.ndim not in (1, 2):
        return y, None
    is_unlabeled, numbers = _whole_rows(np.isnan(numbers), numbers, "NaN")
    if not is_unlabeled.any():
        return y, None
    known = numbers[~is_unlabeled]
    if len(known) == 0:
        return y, is_unlabeled
    numbers = numbers.copy()
    numbers[is_unlabeled] = known[0]
    return numbers, is_unlabeled


def _refuse_missing(labels: Array) -> None:
    """Refuse the marks of other programs."""
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype == object:
        missing = np.reshape([_is_missing(one) for one in labels.flat], labels.shape)
    else:
        return
    if missing.any():
        row = int(missing.reshape(len(labels), -1).any(axis=1).argmax())
        raise DataError(
            f"y has a NaN or None as label in row {row}, counted from 0, expected the "
            "number -1 for rows without a label. Convert it, for example with "
            "pandas.Series(y, dtype=object).fillna(-1), or leave these rows out."
        )


def _is_missing(label: Any) -> bool:
    is_nan = isinstance(label, float | np.floating) and bool(np.isnan(label))
    return label is None or is_nan or type(label).__name__ in ("NAType", "NaTType")


def _is_text_of_minus_1(label: Any) -> bool:
    return isinstance(label, str | bytes) and label in ("-1", b"-1")


def _stands_for_minus_1(label: Any) -> bool:
    return _is_minus_1(label) or _is_text_of_minus_1(label)


def _is_minus_1(label: Any) -> bool:
    is_number = isinstance(label, int | float | np.number)
    return is_number and not isinstance(label, bool) and bool(label == -1)


def _whole_rows(marks: Array, y: Array, mark: str) -> tuple[Array, Array]:
    """Return which rows are marked."""
    if y.ndim == 2:
        partly = marks.any(axis=1) & ~marks.all(axis=1)
        if partly.any():
            raise DataError(
                f"y has {mark} in some columns of row {int(partly.argmax())}, counted "
                "from 0, expected it in all columns or in none. Leave such rows out, "
                f"or put {mark} into the whole row to use its features only."
            )
        marks = np.asarray(marks.all(axis=1))
    return marks, y
