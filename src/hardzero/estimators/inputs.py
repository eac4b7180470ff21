"""Checks of the features and targets that users give, and what is done with them.

scikit-learn's own checks come first, so that messages and attributes are as its users
know them. What targets mean is the business of `hardzero.estimators.targets`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from hardzero.errors import DataError
from hardzero.kernels.network import Matrix, check_structure

__all__ = ["read_rows", "read_table"]

Array = npt.NDArray[Any]


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
        If `X` holds text or is a damaged sparse matrix, or `y` holds text that should
        be numbers.
    ValueError
        If scikit-learn's checks do not accept `X` and `y`.
    """
    if options.get("y_numeric") and y is not None and _is_text(y):
        raise DataError(
            f"y holds text, but {type(estimator).__name__} learns numbers. Convert y, "
            "or use RectifierClassifier, which takes labels of any kind."
        )
    X, y = _validate(estimator, X, y, dtype=dtype, reset=reset, **options)
    return _canonical(X), y.toarray() if sp.issparse(y) else y


def _is_text(values: Any) -> bool:
    if sp.issparse(values):
        return False
    array = np.asarray(values)
    if array.dtype.kind == "O":
        return any(isinstance(value, str | bytes) for value in array.flat)
    return array.dtype.kind not in "biufc"  # complex numbers have an error of their own


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
        If `X` holds text or is a damaged sparse matrix.
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
    # Lists, frames of other libraries: their dtype decides as that of an array does.
    if not any(hasattr(X, name) for name in ("dtype", "dtypes", "columns")):
        X = np.asarray(X)
    elif isinstance(options["dtype"], tuple) and _is_float64_frame(X):
        options["dtype"] = np.float64
    with np.errstate(over="ignore"):  # what is too large for float32 is an error
        try:
            return validate_data(
                estimator, X, *y, accept_sparse="csr", order="C", **options
            )
        except ValueError as error:
            if "could not convert string to float" not in str(error):
                raise
            raise DataError(
                f"X holds text where numbers are needed ({error}). Encode such columns "
                "first, for example with sklearn.preprocessing.OneHotEncoder."
            ) from error


def _is_float64_frame(X: Any) -> bool:
    is_pandas = hasattr(getattr(X, "dtypes", None), "__array__")  # read by sklearn
    if is_pandas or not hasattr(X, "columns"):
        return False
    return bool(np.asarray(X[:1]).dtype == np.float64)


def _canonical(X: Matrix) -> Matrix:
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()  # it may be the user's
        X.sum_duplicates()
    return X
