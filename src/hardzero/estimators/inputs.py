"""Checks of the features and targets that users give, and what is done with them.

scikit-learn's own checks come first, so that messages and attributes are as its users
know them. What targets mean is the business of `hardzero.estimators.targets`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, time, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from hardzero.errors import DataError
from hardzero.kernels.network import Matrix, canonical, check_structure

__all__ = [
    "check_mask",
    "holds_times",
    "naming",
    "read_features",
    "read_rows",
    "read_table",
]

Array = npt.NDArray[Any]

# Those of pandas are among them.
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)


def read_table(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    *,
    dtype: Any = (np.float32, np.float64),
    reset: bool = True,
    **options: Any,
) -> tuple[Matrix, Array]:
    """Return features and checked targets; set or check the attributes on features.

    Parameters
    ----------
    estimator : BaseEstimator
        Gets ``n_features_in_`` and, if the columns of `X` have names,
        ``feature_names_in_``.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Targets.
    dtype : dtype or sequence of dtype
        One of these becomes the dtype of `X`: its own if it is among them, else the
        first.
    reset : bool
        False compares the features with those known already, as to number and names.
    **options : bool
        ``multi_output`` and ``y_numeric`` of `sklearn.utils.validation.check_X_y`.

    Returns
    -------
    X : C-contiguous ndarray or canonical CSR matrix
        Features.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Targets.

    Raises
    ------
    DataError
        If `X` holds text, times or masked entries or is a damaged sparse matrix, or `y`
        holds masked entries or text that should be numbers.
    ValueError
        If scikit-learn's checks do not accept `X` and `y`.
    """
    check_mask(y, "y")
    if options.get("y_numeric") and y is not None and holds_times(y):
        raise DataError(
            f"y holds dates or times, but {type(estimator).__name__} learns numbers. "
            "Convert y first, for example by (y - start) / np.timedelta64(1, 'D')."
        )
    if options.get("y_numeric") and y is not None and _is_text(y):
        raise DataError(
            f"y holds text, but {type(estimator).__name__} learns numbers. Convert y"
            f"{_conversion(y)}, or use RectifierClassifier, which takes labels of any "
            "kind."
        )
    X, y = _validate(estimator, X, y, dtype=dtype, reset=reset, **options)
    return canonical(X), y.toarray() if sp.issparse(y) else y


def check_mask(values: Any, name: str) -> None:
    """Refuse an array with masked entries, which would be used in spite of the mask.

    Parameters
    ----------
    values : array-like
        What the user gave.
    name : str
        Name of the argument, for messages.

    Raises
    ------
    DataError
        If an entry is masked.
    """
    if np.ma.is_masked(values):
        n_masked = np.ma.getmaskarray(values).sum()
        raise DataError(
            f"{name} has {n_masked} masked entries, expected an "
            "array without. Fill them with .filled(value), or leave their rows out."
        )


@contextmanager
def naming(**names: str) -> Iterator[None]:
    """Let errors about `X` and `y` name the arguments that users gave instead.

    Parameters
    ----------
    **names : str
        The argument for ``X``, and that for ``y``.

    Yields
    ------
    None
        While checks are made.

    Raises
    ------
    ValueError, TypeError
        Errors of the checks, of the same type.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        if type(error) not in (ValueError, TypeError, DataError):
            raise
        told = str(error)
        text = _ARGUMENT.sub(lambda found: names.get(found[0], found[0]), told)
        if text == told:
            text = f"{' and '.join(names.values())}: {told}"
        raise type(error)(text) from error


_ARGUMENT = re.compile(r"(?<!')\b[Xy]\b(?!')")  # in quotes it is data


def holds_times(values: Any) -> bool:
    """Return whether there are dates or times among values.

    Parameters
    ----------
    values : array-like or sparse matrix
        What the user gave.

    Returns
    -------
    bool
        True if the dtype is of dates or times, or an object is a date or a time.
    """
    if sp.issparse(values):
        return False
    array = np.asarray(values)
    if array.dtype.kind == "O":
        return any(isinstance(value, _TIMES) for value in array.flat)
    return array.dtype.kind in "mM"


def _is_text(values: Any) -> bool:
    if sp.issparse(values):
        return False
    array = np.asarray(values)
    if array.dtype.kind == "O":
        return any(isinstance(value, str | bytes) for value in array.flat)
    return array.dtype.kind not in "biufcmM"  # these have errors of their own


def _conversion(y: Any) -> str:
    """Return how text that spells numbers becomes numbers."""
    try:
        numbers = np.asarray(y).astype(float)
    except (TypeError, ValueError):
        return ""
    is_whole = bool((numbers == np.round(numbers)).all())
    return f", here with y.astype({'int' if is_whole else 'float'})"


def read_features(
    estimator: BaseEstimator, X: Any, *, dtype: Any, reset: bool
) -> Matrix:
    """Return the features of rows without targets, to learn from.

    Parameters
    ----------
    estimator : BaseEstimator
        Gets ``n_features_in_`` and, if the columns of `X` have names,
        ``feature_names_in_``.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Features.
    dtype : dtype or sequence of dtype
        As in `read_table`.
    reset : bool
        False compares the features with those known already, as to number and names.

    Returns
    -------
    C-contiguous ndarray or canonical CSR matrix
        Features.

    Raises
    ------
    DataError
        If `X` holds text, times or masked entries or is a damaged sparse matrix.
    ValueError
        If scikit-learn's checks do not accept `X`.
    """
    return canonical(_validate(estimator, X, dtype=dtype, reset=reset))


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
        If `X` holds text, times or masked entries or is a damaged sparse matrix.
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
    return canonical(_validate(estimator, X, reset=False, dtype=dtype))


def _validate(estimator: BaseEstimator, X: Any, *y: Any, **options: Any) -> Any:
    check_mask(X, "X")
    if sp.issparse(X) and X.ndim == 2:
        check_structure(X)  # before compiled code, which trusts it, converts it
    # Lists, frames of other libraries: their dtype decides as that of an array does.
    if not any(hasattr(X, name) for name in ("dtype", "dtypes", "columns")):
        X = np.asarray(X)
    elif isinstance(options["dtype"], tuple) and _is_float64_frame(X):
        options["dtype"] = np.float64
    if holds_times(X[:1] if hasattr(X, "columns") else X):
        raise _times_as_features()
    with np.errstate(over="ignore"):  # what is too large for float32 is an error
        try:
            return validate_data(
                estimator, X, *y, accept_sparse="csr", order="C", **options
            )
        except OverflowError as error:
            raise DataError(
                f"X or y holds a number that is no finite float ({error}), expected "
                "numbers within the range of float64. Divide it by a constant."
            ) from error
        except TypeError as error:
            if not holds_times(X):
                raise
            raise _times_as_features() from error
        except ValueError as error:
            if "could not convert string to float" not in str(error):
                raise
            shown = str(error)
            shown = shown if len(shown) <= 100 else f"{shown[:97]}..."
            raise DataError(
                f"X holds text where numbers are needed ({shown}). Encode columns of "
                "words first, for example with sklearn.preprocessing.OneHotEncoder, "
                "and documents with "
                "sklearn.feature_extraction.text.TfidfVectorizer."
            ) from error


def _times_as_features() -> DataError:
    return DataError(
        "X holds dates or times, expected numbers. Convert them first, for example to "
        "days since a fixed date: (X - start) / np.timedelta64(1, 'D')."
    )


def _is_float64_frame(X: Any) -> bool:
    is_pandas = hasattr(getattr(X, "dtypes", None), "__array__")  # read by sklearn
    if is_pandas or not hasattr(X, "columns"):
        return False
    return bool(np.asarray(X[:1]).dtype == np.float64)
