"""What is left of a fitted classifier when only its predictions are needed."""

import numbers
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hardzero.engine.forward import ForwardPass
from hardzero.errors import DataError, ParameterError
from hardzero.stack import RectifierStack, apply_link

LABEL_TYPES: Final = frozenset(
    [
        *("str", "bool", "float16", "float32", "float64"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    ]
)
# What an array of objects may hold; words and None are then read as NumPy does.
_REAL: Final = (numbers.Real, np.bool_, Decimal, str, type(None))


@runtime_checkable
class FittedClassifier(Protocol):
    """Any classifier that holds its network as a stack."""

    @property
    def stack_(self) -> RectifierStack:
        """The network, one output per class."""

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The class labels, of shape (n_classes,)."""


@dataclass(frozen=True, eq=False, repr=False)
class StackModel:
    """A network together with the names of what goes in and what comes out.

    Parameters
    ----------
    stack : RectifierStack
        The network, with the output link "softmax".
    classes : array_like of shape (n_classes,)
        The label that each output stands for: numbers, booleans or strings.
    feature_names : tuple of str or None, default=None
        Names of the inputs, if they have names.

    Raises
    ------
    ParameterError
        If the numbers of classes or names do not fit the stack, or a class is there
        twice or not finite.
    """

    stack: RectifierStack
    classes: npt.NDArray[Any]
    feature_names: tuple[str, ...] | None = None
    _forward: ForwardPass = field(default_factory=ForwardPass, init=False)

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        classes = np.asarray(self.classes)
        labels = classes.tolist()
        if classes.dtype.kind in "OU" and all(isinstance(c, str) for c in labels):
            classes = np.array(labels, dtype=np.str_)  # no wider than its widest label
        object.__setattr__(self, "classes", classes)
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", tuple(self.feature_names))
        self._check()

    @classmethod
    def of(cls, classifier: FittedClassifier) -> "StackModel":
        """Take over the network and the names of a fitted classifier.

        Parameters
        ----------
        classifier : object
            Has ``stack_``, ``classes_`` and perhaps ``feature_names_in_``.

        Returns
        -------
        StackModel
            With the same predictions.

        Raises
        ------
        ParameterError
            If the classifier is not fitted.
        """
        if not isinstance(classifier, FittedClassifier):
            raise ParameterError(
                f"{type(classifier).__name__} has no stack_ and classes_, expected a "
                "fitted classifier of hardzero. Call fit first."
            )
        names = getattr(classifier, "feature_names_in_", None)
        return cls(
            classifier.stack_,
            classifier.classes_,
            None if names is None else tuple(map(str, names)),
        )

    def predict_proba(self, X: Any, *, n_threads: int = 1) -> npt.NDArray[Any]:
        """Compute the probability of each class for each row.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
            Inputs, scaled as those that the network was trained on. Sparse input is
            not made dense. The columns of a data frame are put in the order of
            ``feature_names`` if both have names; else the order counts.
        n_threads : int, default=1
            Number of threads. The result does not depend on it.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes``; of the dtype of the stack.

        Raises
        ------
        DataError
            If ``X`` does not have one finite number per row and input, lacks or adds a
            named column, or is so large that the outputs are not finite.
        """
        return apply_link("softmax", self._outputs(X, n_threads))

    def predict(self, X: Any, *, n_threads: int = 1) -> npt.NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
            As for `predict_proba`.
        n_threads : int, default=1
            Number of threads.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels out of ``classes``.

        Raises
        ------
        DataError
            If ``X`` does not have one finite number per row and input, lacks or adds a
            named column, or is so large that the outputs are not finite.
        """
        best = self._outputs(X, n_threads).argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes[best]
        return labels

    def _outputs(self, X: Any, n_threads: int) -> npt.NDArray[Any]:
        rows = _check_rows(X, self.stack, self.feature_names)
        return self._forward(self.stack, rows, n_threads=n_threads)

    def __eq__(self, other: object) -> bool:
        """Whether networks, classes and names are the same."""
        if not isinstance(other, StackModel):
            return NotImplemented
        return (
            self.stack == other.stack
            and self.classes.dtype == other.classes.dtype
            and np.array_equal(self.classes, other.classes)
            and self.feature_names == other.feature_names
        )

    def __hash__(self) -> int:
        """Hash that agrees with ``==``; it reads all values."""
        return hash((self.stack, tuple(self.classes.tolist()), self.feature_names))

    def __repr__(self) -> str:
        """Return the classes and the network on one screen."""
        n_classes = len(self.classes)
        shown = ", ".join(map(repr, self.classes[:5].tolist()))
        dots = ", ..." if n_classes > 5 else ""
        return f"StackModel: {n_classes} classes ({shown}{dots})\n{self.stack!r}"

    def _check(self) -> None:
        self._check_classes()
        if self.stack.output_link != "softmax":
            raise ParameterError(
                f"the output link of the stack is {self.stack.output_link!r}, expected "
                "'softmax'. Give the stack of a classifier."
            )
        names = self.feature_names
        if names is not None and len(names) != self.stack.n_inputs:
            raise ParameterError(
                f"feature_names has {len(names)} names but the network has "
                f"{self.stack.n_inputs} inputs. Give one name per input, or None."
            )

    def _check_classes(self) -> None:
        classes, expected = self.classes, (self.stack.n_outputs,)
        if classes.shape != expected or label_type(classes) not in LABEL_TYPES:
            raise ParameterError(
                f"classes is {classes.dtype} of shape {classes.shape}, expected "
                f"numbers, booleans or strings of shape {expected}. Give one label per "
                "output of the network."
            )
        is_finite = classes.dtype.kind != "f" or bool(np.isfinite(classes).all())
        labels, counts = np.unique(classes, return_counts=True)
        if not is_finite or (counts > 1).any():
            twice = f"{labels.tolist()[counts.argmax()]!r} more than once"
            what = twice if is_finite else "NaN or infinity"
            raise ParameterError(
                f"classes has {what}, expected labels that can be told apart. Give "
                "each output of the network a finite label of its own."
            )


def label_type(classes: npt.NDArray[Any]) -> str:
    """Return the name of the type of class labels, the same for all strings.

    Parameters
    ----------
    classes : ndarray
        Labels.

    Returns
    -------
    str
        One of ``LABEL_TYPES`` if labels may be of this type.
    """
    return "str" if classes.dtype.kind == "U" else classes.dtype.name


def _check_rows(X: Any, stack: RectifierStack, names: tuple[str, ...] | None) -> Any:
    """Bring inputs to the form that the kernels read."""
    X = _put_in_order(X, names)
    if not sp.issparse(X):
        X = _to_array(X)
    if X.dtype.kind not in "biufOU":
        raise DataError(
            f"X has values of type {X.dtype}, expected real numbers. Convert them to "
            "numbers, or leave such columns out."
        )
    try:
        with np.errstate(over="ignore"):  # what is too large is refused below
            rows = _canonical(X, stack.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"X has values that are not numbers ({error}). Encode words as numbers, "
            "and fill in missing values."
        ) from error
    if rows.ndim != 2 or rows.shape[1] != stack.n_inputs:
        raise DataError(
            f"X has shape {rows.shape}, expected (n_samples, {stack.n_inputs}). Give "
            "one row per sample and one column per input of the network."
        )
    if not np.isfinite(rows.data if sp.issparse(rows) else rows).all():
        raise DataError(
            f"X has values that are missing, infinite or too large for {stack.dtype}, "
            "expected finite numbers. Fill in or leave out such values."
        )
    return rows


def _put_in_order(X: Any, names: tuple[str, ...] | None) -> Any:
    """Sort the columns of a data frame by the names of the inputs."""
    found = tuple(getattr(X, "columns", ()))
    has_names = any(isinstance(name, str) for name in found)
    if names is None or not has_names or found == names:
        return X
    known, given = set(names), set(found)
    missing = [repr(name) for name in names if name not in given][:10]
    unknown = [repr(name) for name in found if name not in known][:10]
    if missing or unknown or len(given) < len(found):
        raise DataError(
            f"X lacks the columns {', '.join(missing) or 'none'}, has the unknown "
            f"columns {', '.join(unknown) or 'none'}, and has {len(found)} columns in "
            f"all; expected each of the {len(names)} feature_names once. Select these "
            "columns, or pass an array without names to go by the order."
        )
    return X[list(names)]


def _to_array(X: Any) -> npt.NDArray[Any]:
    """Make an array of which the type says what is in it."""
    if np.ma.is_masked(X):
        raise DataError(
            "X is a masked array with masked values, expected a number for each. Fill "
            "them in."
        )
    try:
        array = np.asarray(X)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"X is not a table of numbers ({error}). Give rows of the same length."
        ) from error
    if array.dtype == object:
        types = set(map(type, array.ravel().tolist()))
        odd = sorted(one.__name__ for one in types if not issubclass(one, _REAL))
        if odd:
            raise DataError(
                f"X has values of type {odd[0]}, expected real numbers. Convert them "
                "to numbers, and fill in missing values."
            )
    return array


def _canonical(X: Any, dtype: np.dtype[Any]) -> Any:
    if not sp.issparse(X):
        return np.ascontiguousarray(X, dtype=dtype)
    rows = sp.csr_array(X, dtype=dtype)
    if not rows.has_canonical_format:
        rows = rows.copy()  # it may be the user's
        rows.sum_duplicates()
    return rows
