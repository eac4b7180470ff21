"""All checks of what users give to estimators: parameters, features, targets.

Parameters are checked against one table, `PARAMETERS`, when `fit` is called, as
scikit-learn asks for; each message says what was given, what is expected and what to
do. Features and targets go through scikit-learn's own checks first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from hardzero import activations
from hardzero.activations import Activation
from hardzero.engine.initialise import SCHEMES
from hardzero.engine.schedules import parse_schedule
from hardzero.errors import DataError, ParameterError
from hardzero.kernels.network import MAX_THREADS, Matrix, check_structure
from hardzero.kernels.rules import plain_float
from hardzero.random import generator

__all__ = [
    "PARAMETERS",
    "Check",
    "check_hidden_activations",
    "check_parameters",
    "draw_seed",
    "read_rows",
    "read_training_set",
    "read_validation_set",
    "split_off_validation_rows",
]

Array = npt.NDArray[Any]


# ------------------------------------------------------------------ parameters


@dataclass(frozen=True)
class Check:
    """What a parameter of an estimator may be.

    Parameters
    ----------
    accepts : callable
        Says whether a value is allowed.
    expected : str
        What is allowed, to follow "expected".
    remedy : str
        What to do, one sentence.
    """

    accepts: Callable[[Any], bool]
    expected: str
    remedy: str


def check_parameters(estimator: BaseEstimator) -> None:
    """Check the parameters of an estimator against `PARAMETERS`, then their mixture.

    Parameters
    ----------
    estimator : BaseEstimator
        Estimator; what its subclasses add to the table's parameters is not checked.

    Raises
    ------
    ParameterError
        If a value is not allowed, or two values contradict each other.
    """
    values = estimator.get_params(deep=False)
    for name, check in PARAMETERS.items():
        value = values[name]
        if not check.accepts(value):
            raise ParameterError(
                f"{name}={_show(value)} was given to {type(estimator).__name__}, "
                f"expected {check.expected}. {check.remedy}"
            )
    parse_schedule(values["learning_rate_schedule"])
    if values["momentum"] and values["solver"] != "sgd":
        raise ParameterError(
            f"momentum={values['momentum']!r} was given with solver="
            f"{values['solver']!r}, which has moments of its own. Give solver='sgd', "
            "or leave momentum at 0."
        )
    if values["nesterov"] and not (values["solver"] == "sgd" and values["momentum"]):
        raise ParameterError(
            f"nesterov=True was given with solver={values['solver']!r} and "
            f"momentum={values['momentum']!r}, expected solver='sgd' and a momentum "
            "above 0. Set these two, or nesterov=False."
        )


def _show(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python prints no whole number of more than 4300 digits
        return "(a number of thousands of digits)"
    return text if len(text) <= 500 else f"{text[:200]}..."


def _is_count(value: Any, most: int = 2**31 - 1) -> bool:
    return _is_whole(value) and bool(1 <= value <= most)


def _is_size(value: Any) -> bool:
    return _is_count(value, _MAX_UNITS)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not _is_flag(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_sequence_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def accepts_all(value: Any) -> bool:
        is_text = isinstance(value, str | bytes)
        is_vector = isinstance(value, np.ndarray) and value.ndim == 1
        is_sequence = is_vector or (isinstance(value, Sequence) and not is_text)
        return is_sequence and all(accepts(item) for item in value)

    return accepts_all


def _one_of(*choices: str) -> Check:
    listed = ", ".join(repr(choice) for choice in choices)
    return Check(
        lambda value: isinstance(value, str) and value in choices,
        f"one of {listed}",
        "Choose one of these.",
    )


def _number(
    accepts: Callable[[float], bool], expected: str, *, example: str, auto: bool = False
) -> Check:
    return Check(
        lambda value: (
            (auto and _is_auto(value))
            or (not _is_flag(value) and accepts(plain_float(value)))
        ),
        ("'auto' or " if auto else "") + expected,
        f"Give, for example, {example}.",
    )


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_random_state(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, np.random.RandomState)
        or (_is_whole(value) and bool(0 <= value < 2**32))
    )


_FLAG = Check(_is_flag, "True or False", "Give one of the two.")
_NOT_NEGATIVE = _number(
    lambda value: 0 <= value < np.inf,
    "a finite number of 0 or more",
    example="0.0 for none",
)
_COUNT = Check(
    _is_count, "a whole number of 1 or more, below 2**31", "Give such a number."
)
_MAX_UNITS = 10**7

PARAMETERS = {
    "hidden_sizes": Check(
        lambda value: _is_size(value) or _is_sequence_of(_is_size)(value),
        f"a whole number from 1 to {_MAX_UNITS}, or a sequence of them, one per hidden "
        "layer",
        "Give, for example, (100,) for one hidden layer of 100 units.",
    ),
    "activation": Check(
        lambda value: (
            isinstance(value, str | Activation)
            or _is_sequence_of(lambda item: isinstance(item, str | Activation))(value)
        ),
        "a name of hardzero.activations, or a sequence of names, one per hidden layer",
        "Give, for example, 'rectifier' or 'leaky_rectifier(0.1)'.",
    ),
    "sign_flip": _FLAG,
    "l1_activation": _NOT_NEGATIVE,
    "l2": _NOT_NEGATIVE,
    "solver": _one_of("adam", "sgd"),
    "learning_rate": _number(
        lambda value: 0 < value < np.inf,
        "a finite number above 0",
        example="0.001",
        auto=True,
    ),
    "learning_rate_schedule": Check(
        lambda value: isinstance(value, str),
        "the name of a schedule",
        "Give 'constant', 'step(10, 0.5)' or 'cosine'.",
    ),
    "momentum": _number(
        lambda value: 0 <= value < 1, "a number from 0 to below 1", example="0.9"
    ),
    "nesterov": _FLAG,
    "batch_size": Check(
        lambda value: _is_auto(value) or _is_count(value),
        "'auto' or a whole number of 1 or more, below 2**31",
        "Give such a number of rows.",
    ),
    "max_epochs": _COUNT,
    "early_stopping": _FLAG,
    "validation_fraction": _number(
        lambda value: 0 < value < 1, "a number between 0 and 1", example="0.1"
    ),
    "patience": _COUNT,
    "init": _one_of("auto", *SCHEMES),
    "engine": _one_of("auto", "sparse", "dense", "reference"),
    "n_threads": Check(
        lambda value: (
            _is_count(value, MAX_THREADS) or (_is_whole(value) and bool(value == -1))
        ),
        f"a whole number from 1 to {MAX_THREADS}, or -1 for all processors",
        "Give the number of threads.",
    ),
    "random_state": Check(
        _is_random_state,
        "None, a whole number from 0 to 4294967295, or a numpy.random.RandomState",
        "Give a number for the same result in each run.",
    ),
    "verbose": Check(
        lambda value: _is_flag(value) or _is_whole(value),
        "True or False",
        "Give True for a progress bar.",
    ),
}


def check_hidden_activations(
    activation: str | Activation | Sequence[str | Activation], n_hidden: int
) -> list[Activation]:
    """Return one activation for each hidden layer.

    Parameters
    ----------
    activation : str, Activation or sequence of them
        One for all hidden layers, or one for each.
    n_hidden : int
        Number of hidden layers.

    Returns
    -------
    list of Activation
        As many as there are hidden layers.

    Raises
    ------
    ParameterError
        If a name is unknown or the number of names does not fit.
    """
    if isinstance(activation, str | Activation):
        return [activations.get(activation)] * n_hidden
    if len(activation) != n_hidden:
        raise ParameterError(
            f"activation has {len(activation)} entries but hidden_sizes has {n_hidden}."
            " Give one activation per hidden layer, or a single one for all."
        )
    return [activations.get(one) for one in activation]


def draw_seed(random_state: int | np.random.RandomState | None) -> int:
    """Return the seed of one fit.

    Parameters
    ----------
    random_state : int, RandomState or None
        An integer is the seed itself. A RandomState is asked for a number, so that
        each fit gets another; None asks NumPy's global one.

    Returns
    -------
    int
        Seed, in [0, 2**32).
    """
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


# ---------------------------------------------------------- features and targets


def read_training_set(
    estimator: BaseEstimator, X: Any, y: Any
) -> tuple[Matrix, Array, Array]:
    """Return features, class numbers and classes; set the attributes on features.

    Parameters
    ----------
    estimator : BaseEstimator
        Gets ``n_features_in_`` and, if the columns of `X` have names,
        ``feature_names_in_``.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Features. float32 and float64 are kept, everything else becomes float32.
    y : array-like of shape (n_samples,)
        Labels: numbers, strings or booleans.

    Returns
    -------
    X : C-contiguous ndarray or canonical CSR matrix
        Features.
    numbers : ndarray of shape (n_samples,), dtype int64
        Index of each label in `classes`.
    classes : ndarray of shape (n_classes,)
        Sorted labels.

    Raises
    ------
    DataError
        If `y` mixes types that cannot be sorted, or holds bytes, or `X` is a damaged
        sparse matrix.
    ValueError
        If scikit-learn's checks do not accept `X` and `y` as a classification task.
    """
    X, y = _validate(estimator, X, y, dtype=(np.float32, np.float64))
    try:
        check_classification_targets(y)
        classes, class_numbers = np.unique(y, return_inverse=True)
    except TypeError as error:
        if any(isinstance(label, bytes) for label in y.tolist()):
            raise DataError(
                "y holds labels of type bytes, expected numbers, strings or booleans. "
                "Decode them first, for example with np.char.decode(y, 'utf-8')."
            ) from error
        raise DataError(
            f"y mixes labels that cannot be sorted ({error}), expected all numbers, "
            "all strings or all booleans. Drop rows without a label, or convert y."
        ) from error
    return _canonical(X), class_numbers.astype(np.int64, copy=False), classes


def read_validation_set(
    estimator: BaseEstimator, X_val: Any, y_val: Any, classes: Array, dtype: Any
) -> tuple[Matrix, Array] | None:
    """Return the user's validation rows and their class numbers, None if not given.

    Parameters
    ----------
    estimator : BaseEstimator
        Estimator whose training features were read already.
    X_val : array-like or sparse matrix of shape (n_samples, n_features), or None
        Features.
    y_val : array-like of shape (n_samples,), or None
        Labels.
    classes : ndarray of shape (n_classes,)
        Labels of the training rows.
    dtype : dtype
        dtype of the training features.

    Returns
    -------
    tuple of (X, numbers) or None
        As in `read_training_set`.

    Raises
    ------
    DataError
        If only one of the two is given, a label is not among `classes`, or `X_val` is
        a damaged sparse matrix.
    ValueError
        If scikit-learn's checks do not accept the arrays.
    """
    if X_val is None and y_val is None:
        return None
    if X_val is None or y_val is None:
        given, missing = ("y_val", "X_val") if X_val is None else ("X_val", "y_val")
        raise DataError(
            f"{given} was given without {missing}. Give both, or neither of them."
        )
    X_val, y_val = _validate(estimator, X_val, y_val, reset=False, dtype=dtype)
    index = {label: k for k, label in enumerate(classes.tolist())}
    labels = column_or_1d(y_val).tolist()
    unseen = sorted({repr(label) for label in labels if label not in index})
    if unseen:
        raise DataError(
            f"y_val has labels that y does not have: {', '.join(unseen)}. Give "
            "validation rows of the same classes."
        )
    class_numbers = np.array([index[label] for label in labels], dtype=np.int64)
    return _canonical(X_val), class_numbers


def split_off_validation_rows(
    class_numbers: Array, fraction: float, seed: int
) -> tuple[Array, Array]:
    """Return the rows to train on and those to validate on, class by class.

    Each class gives its share of the validation rows, as exactly as whole rows allow,
    and keeps at least one training row.

    Parameters
    ----------
    class_numbers : ndarray of shape (n_samples,), dtype int64
        Class of each row.
    fraction : float
        Share of validation rows, in (0, 1); at least one row is taken.
    seed : int
        Seed of the choice.

    Returns
    -------
    training, validation : ndarray of int64
        Sorted row numbers.

    Raises
    ------
    DataError
        If no class has a second row.
    """
    n_samples = len(class_numbers)
    sizes = np.bincount(class_numbers)
    wanted = max(1, round(fraction * n_samples))
    exact = wanted * sizes / n_samples
    counts = np.minimum(np.floor(exact).astype(np.int64), sizes - 1)
    # What rounding left over goes to the classes that lost most by it.
    for k in np.argsort(counts - exact, kind="stable"):
        if counts.sum() < wanted and counts[k] < sizes[k] - 1:
            counts[k] += 1
    if counts.sum() == 0:
        raise DataError(
            "early_stopping=True needs validation rows, but with "
            f"n_samples={n_samples} there is only one row of each class. Give more "
            "rows, X_val and y_val, or early_stopping=False."
        )
    order = generator(seed, "validation").permutation(n_samples)
    in_order = class_numbers[order]
    chosen = [order[in_order == k][:count] for k, count in enumerate(counts)]
    validation = np.sort(np.concatenate(chosen))
    training = np.setdiff1d(np.arange(n_samples), validation, assume_unique=True)
    return training, validation


def read_rows(estimator: BaseEstimator, X: Any, dtype: Any) -> Matrix:
    """Return the features of rows to predict.

    Parameters
    ----------
    estimator : BaseEstimator
        Fitted estimator.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Features.
    dtype : dtype
        dtype of the fitted weights; `X` is converted to it.

    Returns
    -------
    C-contiguous ndarray or canonical CSR matrix
        Features.

    Raises
    ------
    DataError
        If `X` is a damaged sparse matrix.
    ValueError
        If the number or the names of the columns are not those of `fit`, or an entry
        is not finite.
    """
    if (
        type(X) is np.ndarray
        and X.dtype == dtype
        and X.flags.c_contiguous
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
        and np.isfinite(X).all()
    ):
        return X  # exactly what the checks below would return, in a tenth of the time
    return _canonical(_validate(estimator, X, reset=False, dtype=dtype))


def _validate(estimator: BaseEstimator, X: Any, *y: Any, **options: Any) -> Any:
    if sp.issparse(X) and X.ndim == 2:
        check_structure(X)  # before compiled code, which trusts it, converts it
    with np.errstate(over="ignore"):  # what is too large for float32 is an error
        return validate_data(
            estimator, X, *y, accept_sparse="csr", order="C", **options
        )


def _canonical(X: Matrix) -> Matrix:
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()  # it may be the user's
        X.sum_duplicates()
    return X
