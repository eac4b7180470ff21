"""What is left of a fitted estimator when only its predictions are needed."""

import numbers
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hardzero.engine.forward import ForwardPass
from hardzero.errors import DataError, ParameterError
from hardzero.kernels.network import canonical
from hardzero.serving.folding import fold_scaling, read_pipeline
from hardzero.stack import RectifierStack, apply_link

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

LABEL_TYPES: Final = frozenset(
    [
        *("str", "bool", "float16", "float32", "float64"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    ]
)
# What an array of objects may hold; words and None are then read as NumPy does.
_REAL: Final = (numbers.Real, np.bool_, Decimal, str, type(None))


Array = npt.NDArray[Any]
Kind = Literal["classifier", "multilabel", "rating", "regressor"]

_LINKS: Final[dict[str, tuple[str, ...]]] = {
    "classifier": ("softmax",),
    "multilabel": ("sigmoid",),
    "rating": ("softmax",),
    "regressor": ("identity", "exp"),
}
_KIND_OF_LINK: Final[dict[str, Kind]] = {
    "softmax": "classifier",
    "sigmoid": "multilabel",
    "identity": "regressor",
    "exp": "regressor",
}


@runtime_checkable
class FittedEstimator(Protocol):
    """Any estimator of scikit-learn's kind that holds its network as a stack.

    Without ``classes_`` it must be a regressor.
    """

    @property
    def stack_(self) -> RectifierStack:
        """The network."""


@dataclass(frozen=True, eq=False, repr=False)
class StackModel:
    """A network together with the names of what goes in and what comes out.

    Parameters
    ----------
    stack : RectifierStack
        The network. Its output link is "softmax" for a classifier and for ratings,
        "sigmoid" for several labels at once, "identity" or "exp" for a regressor.
    classes : array_like of shape (n_outputs,) or None, default=None
        The label that each output stands for: numbers, booleans or strings; numbers
        for ratings. None for a regressor.
    feature_names : tuple of str or None, default=None
        Names of the inputs, if they have names.
    kind : {"classifier", "multilabel", "rating", "regressor"} or None, default=None
        What `predict` gives: the most probable class, whether each of several labels
        holds, the expected value of the classes, or numbers. None takes the kind that
        has the link of the stack, "classifier" for "softmax".

    Raises
    ------
    ParameterError
        If kind and link, or the numbers of classes or names and the stack, do not fit,
        a class is there twice, not finite or, as a rating, no number, or a text is not
        Unicode.
    """

    stack: RectifierStack
    classes: Array | None = None
    feature_names: tuple[str, ...] | None = None
    kind: Kind | None = None
    _forward: ForwardPass = field(default_factory=ForwardPass, init=False)

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        if self.kind is None:
            object.__setattr__(self, "kind", _KIND_OF_LINK[self.stack.output_link])
        if self.classes is not None:
            object.__setattr__(self, "classes", _narrow(self.classes))
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", tuple(self.feature_names))
        self._check()

    @classmethod
    def of(cls, estimator: "FittedEstimator | Pipeline") -> "StackModel":
        """Take over the network and the names of a fitted estimator.

        Parameters
        ----------
        estimator : object
            Has ``stack_``, ``classes_`` unless it is a plain regressor, and perhaps
            ``feature_names_in_``. A regressor with classes predicts ratings, another
            estimator with the output link "sigmoid" several labels at once. Or a
            pipeline of scikit-learn with such an estimator behind scalers
            (StandardScaler, RobustScaler, MaxAbsScaler, MinMaxScaler): they become
            part of the first layer, in float64, so that the model takes rows that are
            not scaled.

        Returns
        -------
        StackModel
            With the same predictions; those of a pipeline up to rounding.

        Raises
        ------
        ParameterError
            If the estimator is not fitted, or a step of a pipeline is no such scaler.
        DataError
            If the scale of a column is too small for float64.
        """
        from sklearn.base import is_regressor  # 0.5 s to import, and not to predict
        from sklearn.pipeline import Pipeline

        names = getattr(estimator, "feature_names_in_", None)
        scalings: list[tuple[Array, Array]] = []
        if isinstance(estimator, Pipeline):
            scalings, estimator = read_pipeline(estimator)
        if not isinstance(estimator, FittedEstimator):
            raise ParameterError(
                f"{type(estimator).__name__} has no stack_, expected a fitted "
                "estimator of hardzero, or a pipeline of scalers and one. Call fit "
                "first, or take the estimator out of what holds it."
            )
        if hasattr(estimator, "inverse_transform"):
            raise ParameterError(
                f"{type(estimator).__name__} has decoders beside its network, which a "
                "model file does not hold. Keep a pickle of it, or save the estimator "
                "that was pre-trained with it."
            )
        stack = estimator.stack_
        for shift, scale in reversed(scalings):
            stack = fold_scaling(stack, shift, scale)
        classes = getattr(estimator, "classes_", None)
        is_rating = classes is not None and is_regressor(estimator)
        return cls(
            stack,
            classes,
            None if names is None else tuple(map(str, names)),
            "rating" if is_rating else None,
        )

    def predict_proba(self, X: Any, *, n_threads: int = 1) -> Array:
        """Compute the probability of each class, or of each label, for each row.

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
        ParameterError
            If the model is a regressor.
        """
        if self.classes is None:
            raise ParameterError(
                "A regressor has no probabilities. Call predict, or give the model of "
                "a classifier."
            )
        return self.apply_link(self.outputs(X, n_threads=n_threads))

    def predict(self, X: Any, *, n_threads: int = 1) -> Array:
        """Predict each row.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
            As for `predict_proba`.
        n_threads : int, default=1
            Number of threads.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            By kind: the label with the largest output (classifier); 1 for each label
            that is more probable than not, else 0, int64, two-dimensional
            (multilabel); the mean of the classes, weighted by their probabilities
            (rating); the numbers, two-dimensional if there are several (regressor).

        Raises
        ------
        DataError
            If ``X`` does not have one finite number per row and input, lacks or adds a
            named column, or is so large that the outputs are not finite.
        """
        return self.decide(self.outputs(X, n_threads=n_threads))

    def transform(self, X: Any, layer: int = -1, *, n_threads: int = 1) -> Array:
        """Return the activations of a hidden layer, signs applied.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
            As for `predict_proba`.
        layer : int, default=-1
            Number of the hidden layer, counted from 0, or from the last one backwards
            as -1, -2, ...
        n_threads : int, default=1
            Number of threads.

        Returns
        -------
        ndarray of shape (n_samples, n_units)
            Activations, of the dtype of the stack.

        Raises
        ------
        DataError
            As for `predict`.
        ParameterError
            If there is no such layer.
        """
        n_hidden = len(self.stack.layers) - 1
        is_whole = isinstance(layer, int | np.integer)
        if not (is_whole and -n_hidden <= layer < n_hidden):
            raise ParameterError(
                f"layer={layer!r} was given to transform, but the network has "
                f"{n_hidden} hidden layers, expected the number of one, counted from 0 "
                "or, backwards, from -1. Give such a number."
            )
        rows = _check_rows(X, self.stack, self.feature_names)
        number = int(layer) % n_hidden + 1
        return self._forward(self.stack, rows, n_layers=number, n_threads=n_threads)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, n_threads: int = 1
    ) -> float:
        """Say how good the predictions are, by the measure of the estimators.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
            As for `predict_proba`.
        y : array_like of shape (n_samples,) or (n_samples, n_outputs)
            What should be predicted.
        sample_weight : array_like of shape (n_samples,), optional
            Weights of the rows.
        n_threads : int, default=1
            Number of threads.

        Returns
        -------
        float
            Share of rows whose label is right (classifier), or all of whose labels are
            (multilabel); R² (rating, regressor), the mean over the outputs.

        Raises
        ------
        DataError
            As for `predict`.
        ValueError
            If scikit-learn's measures do not accept `y` or the weights.
        """
        from sklearn.metrics import accuracy_score, r2_score

        is_number = self.kind in ("rating", "regressor")
        measure = r2_score if is_number else accuracy_score
        predicted = self.predict(X, n_threads=n_threads)
        return float(measure(y, predicted, sample_weight=sample_weight))

    def outputs(self, X: Any, *, n_threads: int = 1) -> Array:
        """Compute the outputs of the last layer, from which all predictions follow.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
            As for `predict_proba`.
        n_threads : int, default=1
            Number of threads.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            Finite numbers, of the dtype of the stack.

        Raises
        ------
        DataError
            If ``X`` does not have one finite number per row and input, lacks or adds a
            named column, or is so large that the outputs are not finite.
        """
        rows = _check_rows(X, self.stack, self.feature_names)
        return self._forward(self.stack, rows, n_threads=n_threads)

    def apply_link(self, outputs: Array) -> Array:
        """Turn outputs into probabilities or, for a regressor, into numbers.

        Parameters
        ----------
        outputs : ndarray of shape (n_samples, n_outputs)
            What `outputs` returned.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            What `predict_proba` returns, if the model is no regressor.
        """
        return apply_link(self.stack.output_link, outputs)

    def decide(self, outputs: Array) -> Array:
        """Turn outputs into predictions.

        Parameters
        ----------
        outputs : ndarray of shape (n_samples, n_outputs)
            What `outputs` returned.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            What `predict` returns.
        """
        if self.classes is None:
            numbers = self.apply_link(outputs)
            return numbers[:, 0] if numbers.shape[1] == 1 else numbers
        if self.kind == "multilabel":
            return (outputs > 0).astype(np.int64)
        if self.kind == "rating":
            mean: Array = self.apply_link(outputs) @ self.classes.astype(outputs.dtype)
            return mean
        labels: Array = self.classes[outputs.argmax(axis=1)]
        return labels

    def __eq__(self, other: object) -> bool:
        """Whether kinds, networks, classes and names are the same."""
        if not isinstance(other, StackModel):
            return NotImplemented
        return (
            self.kind == other.kind
            and self.stack == other.stack
            and _are_same(self.classes, other.classes)
            and self.feature_names == other.feature_names
        )

    def __hash__(self) -> int:
        """Hash that agrees with ``==``; it reads all values."""
        labels = None if self.classes is None else tuple(self.classes.tolist())
        return hash((self.kind, self.stack, labels, self.feature_names))

    def __repr__(self) -> str:
        """Return the kind, the classes and the network on one screen."""
        if self.classes is None:
            what = f"regressor, {self.stack.n_outputs} output(s)"
        else:
            shown = ", ".join(map(repr, self.classes[:5].tolist()))
            dots = ", ..." if len(self.classes) > 5 else ""
            what = f"{self.kind} of {len(self.classes)} classes ({shown}{dots})"
        return f"StackModel: {what}\n{self.stack!r}"

    def _check(self) -> None:
        links = _LINKS.get(str(self.kind))
        if links is None:
            raise ParameterError(
                f"kind is {self.kind!r}, expected one of {', '.join(_LINKS)}. Leave it "
                "out unless the model predicts ratings."
            )
        if self.stack.output_link not in links:
            raise ParameterError(
                f"the output link of the stack is {self.stack.output_link!r}, expected "
                f"{' or '.join(map(repr, links))} for a model of kind {self.kind!r}. "
                "Give another kind, or a stack with another link."
            )
        if self.kind == "regressor":
            if self.classes is not None:
                raise ParameterError(
                    "classes were given for a regressor, which the output link "
                    f"{self.stack.output_link!r} makes it, expected None. Leave them "
                    "out, or give a stack with the link 'softmax'."
                )
        else:
            self._check_classes()
        names = self.feature_names
        if names is not None and len(names) != self.stack.n_inputs:
            raise ParameterError(
                f"feature_names has {len(names)} names but the network has "
                f"{self.stack.n_inputs} inputs. Give one name per input, or None."
            )
        _check_unicode("feature_names", names or ())

    def _check_classes(self) -> None:
        classes, expected = np.asarray(self.classes), (self.stack.n_outputs,)
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
        if self.kind == "rating" and classes.dtype.kind not in "iuf":
            raise ParameterError(
                f"classes is {classes.dtype}, expected numbers, of which a rating is "
                "the mean. Give each class its number, or the kind 'classifier'."
            )
        if classes.dtype.kind == "U":
            _check_unicode("classes", classes.tolist())


def label_type(classes: Array) -> str:
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


def _narrow(classes: Any) -> Array:
    """Make an array of labels, no wider than its widest label."""
    array: Array = np.asarray(classes)
    labels = array.tolist()
    if array.dtype.kind in "OU" and all(isinstance(c, str) for c in labels):
        return np.array(labels, dtype=np.str_)
    return array


def _are_same(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool(one.dtype == other.dtype and np.array_equal(one, other))


def _check_unicode(what: str, texts: Iterable[str]) -> None:
    """Refuse text that no file and no terminal could show."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise ParameterError(
            f"{what} has a text with the lone surrogate "
            f"{error.object[error.start]!r}, expected Unicode. Decode it properly."
        ) from error


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
            rows = _rows_in(X, stack.dtype)
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


def _to_array(X: Any) -> Array:
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


def _rows_in(X: Any, dtype: np.dtype[Any]) -> Any:
    if not sp.issparse(X):
        return np.ascontiguousarray(X, dtype=dtype)
    return canonical(sp.csr_array(X, dtype=dtype))
