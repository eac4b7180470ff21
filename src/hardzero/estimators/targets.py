"""Targets: what users give as `y`, what networks learn, and the way back.

A coding is learned from the training targets. It turns targets into what an objective
compares outputs with, and knows how the network that learned them becomes one that puts
out what users expect.

============  ==================  ==========================  ==========================
coding        y                   codes                       output link of the network
============  ==================  ==========================  ==========================
`Classes`     labels              index of the label          softmax
`Indicators`  matrix of 0 and 1   the same                    sigmoid
`Numbers`     numbers             (y - centre) / scale        identity
`Counts`      numbers, 0 or more  the same                    exp
============  ==================  ==========================  ==========================
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets

from hardzero.errors import DataError
from hardzero.estimators.inputs import holds_times
from hardzero.stack import Layer, OutputLink, RectifierStack

__all__ = ["Classes", "Coding", "Counts", "Indicators", "Numbers"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Classes:
    """Labels, each one of several.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted labels.
    """

    classes: Array
    link: ClassVar[OutputLink] = "softmax"

    @classmethod
    def learn(cls, y: Array) -> "Classes":
        """Return the coding of the labels in an array.

        Parameters
        ----------
        y : ndarray of shape (n_samples,)
            Labels: numbers, strings or booleans.

        Returns
        -------
        Classes
            Coding.

        Raises
        ------
        DataError
            If labels are of types that cannot be sorted, bytes, dates or times.
        ValueError
            If they are numbers that are no labels.
        """
        if holds_times(y):
            raise DataError(
                "y holds dates or times, expected labels that are numbers, strings or "
                "booleans. Convert them first, for example with y.astype(str)."
            )
        try:
            check_classification_targets(y)
            return cls(np.unique(y))
        except TypeError as error:
            raise _not_sortable(y, error) from error

    @property
    def n_outputs(self) -> int:
        """Number of outputs of the network."""
        return len(self.classes)

    def encode(self, y: Array, name: str = "y") -> Array:
        """Return the index of each label.

        Parameters
        ----------
        y : ndarray of shape (n_samples,)
            Labels.
        name : str
            Name of the argument, for messages.

        Returns
        -------
        ndarray of shape (n_samples,), dtype int64
            Indices into `classes`.

        Raises
        ------
        DataError
            If a label is not among the classes.
        """
        if y.ndim != 1:
            raise DataError(
                f"{name} has shape {y.shape}, expected (n_samples,): one label for each"
                " row, as in the first training call."
            )
        try:
            labels, inverse = np.unique(y, return_inverse=True)
        except TypeError as error:
            raise _not_sortable(y, error, name) from error
        index = {label: k for k, label in enumerate(self.classes.tolist())}
        unseen = [repr(label) for label in labels.tolist() if label not in index]
        if unseen:
            raise DataError(
                f"{name} has labels that are not among the {self.n_outputs} known "
                f"classes: {', '.join(unseen[:10])}. Leave these rows out, or name all "
                "classes at the start: in y of fit, or as classes in the first call "
                "of partial_fit."
            )
        numbers = np.array([index[label] for label in labels.tolist()], dtype=np.int64)
        return numbers[inverse]

    def decode(self, codes: Array) -> Array:
        """Return the labels of indices.

        Parameters
        ----------
        codes : ndarray of int64 of shape (n_samples,)
            Indices into `classes`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        labels: Array = self.classes[codes]
        return labels

    def strata(self, codes: Array) -> Array:
        """Return the classes that a validation split keeps in proportion.

        Parameters
        ----------
        codes : ndarray of int64 of shape (n_samples,)
            Indices into `classes`.

        Returns
        -------
        ndarray of int64 of shape (n_samples,)
            The indices themselves.
        """
        return codes

    def finish(self, stack: RectifierStack) -> RectifierStack:
        """Return the network for predictions.

        Parameters
        ----------
        stack : RectifierStack
            Network that learned the codes.

        Returns
        -------
        RectifierStack
            The same.
        """
        return stack


@dataclass(frozen=True)
class _Columns:
    """Targets in columns: one output each, no classes to keep in proportion."""

    n_outputs: int

    def strata(self, codes: Array) -> Array:
        """Return the classes that a validation split keeps in proportion.

        Parameters
        ----------
        codes : ndarray of shape (n_samples, n_outputs)
            Codes.

        Returns
        -------
        ndarray of int64 of shape (n_samples,)
            All 0.
        """
        return np.zeros(len(codes), dtype=np.int64)

    def finish(self, stack: RectifierStack) -> RectifierStack:
        """Return the network for predictions.

        Parameters
        ----------
        stack : RectifierStack
            Network that learned the codes.

        Returns
        -------
        RectifierStack
            The same, for targets that were not scaled.
        """
        return stack

    def _check_width(self, y: Array, name: str) -> Array:
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != self.n_outputs:
            raise DataError(
                f"{name} has {columns.shape[1]} columns, expected {self.n_outputs} as "
                "in the first training call. Give the same outputs."
            )
        return columns


@dataclass(frozen=True)
class Indicators(_Columns):
    """Any number of labels for each row: a column of 0 and 1 for each label.

    Parameters
    ----------
    n_outputs : int
        Number of labels.
    """

    link: ClassVar[OutputLink] = "sigmoid"

    @property
    def classes(self) -> Array:
        """All labels, as numbers counted from 0."""
        return np.arange(self.n_outputs)

    def encode(self, y: Array, name: str = "y") -> Array:
        """Return the indicators.

        Parameters
        ----------
        y : ndarray of shape (n_samples, n_outputs)
            0 and 1, or False and True.
        name : str
            Name of the argument, for messages.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_outputs)
            0 and 1.

        Raises
        ------
        DataError
            If there is anything else, or another number of columns.
        """
        if y.ndim != 2:
            raise DataError(
                f"{name} has shape {y.shape}, expected (n_samples, {self.n_outputs}): "
                "a column of 0 and 1 for each label. "
                "sklearn.preprocessing.MultiLabelBinarizer makes it."
            )
        columns = self._check_width(y, name)
        if not np.isin(columns, (0, 1)).all():
            raise DataError(
                f"{name} has entries other than 0 and 1, expected a column of 0 and 1 "
                "for each label. sklearn.preprocessing.MultiLabelBinarizer makes it."
            )
        return columns.astype(np.float64)

    def decode(self, codes: Array) -> Array:
        """Return indicators as predictions have them.

        Parameters
        ----------
        codes : ndarray of shape (n_samples, n_outputs)
            0 and 1, or False and True.

        Returns
        -------
        ndarray of int64 of shape (n_samples, n_outputs)
            0 and 1.
        """
        return codes.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Numbers(_Columns):
    """Real numbers, which the network learns as (y - centre) / scale.

    Parameters
    ----------
    n_outputs : int
        Number of columns.
    is_vector : bool
        Whether targets have one dimension.
    centre, scale : ndarray of float64 of shape (n_outputs,)
        Of each column.
    """

    is_vector: bool
    centre: Array
    scale: Array
    link: ClassVar[OutputLink] = "identity"

    @classmethod
    def learn(
        cls,
        y: Array,
        sample_weight: Array | None,
        dtype: npt.DTypeLike,
        *,
        scaled: bool,
        centred: bool,
    ) -> "Numbers":
        """Return the coding that gives columns mean 0 and mean square 1.

        Parameters
        ----------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : ndarray of float64 of shape (n_samples,) or None
            Weights; None means all 1.
        dtype : dtype
            Of the network.
        scaled : bool
            False leaves the numbers as they are.
        centred : bool
            False leaves the mean as it is.

        Returns
        -------
        Numbers
            Coding. The codes of constant columns are 0, if they are centred.

        Raises
        ------
        DataError
            If numbers are too large or too small for `dtype`, or differ by too little.
        """
        columns = y.reshape(len(y), -1).astype(np.float64)
        n_outputs = columns.shape[1]
        _check_size(columns, np.dtype(dtype))
        centre, scale = np.zeros(n_outputs), np.ones(n_outputs)
        if scaled:
            size = np.abs(columns).max(axis=0)  # squares must not overflow
            size[size == 0] = 1.0
            columns = columns / size
            if centred:
                centre = np.average(columns, axis=0, weights=sample_weight)
            squares = (columns - centre) ** 2
            scale = np.sqrt(np.average(squares, axis=0, weights=sample_weight))
            if centred:  # without rounding, so that the codes are exactly 0
                constant = columns.max(axis=0) == columns.min(axis=0)
                centre[constant], scale[constant] = columns[0, constant], 1.0
            scale[scale == 0] = 1.0
            centre, scale = centre * size, scale * size
        return cls(n_outputs, y.ndim == 1, centre, scale)

    def encode(self, y: Array, name: str = "y") -> Array:
        """Return the numbers as the network learns them.

        Parameters
        ----------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        name : str
            Name of the argument, for messages.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_outputs)
            Codes.

        Raises
        ------
        DataError
            If there is another number of columns, or a number is too large.
        """
        columns = self._check_width(y, name).astype(np.float64)
        with np.errstate(over="ignore"):
            codes: Array = (columns - self.centre) / self.scale
        if not np.isfinite(codes).all():
            raise _too_large(columns, name)
        return codes

    def decode(self, codes: Array) -> Array:
        """Return the numbers that codes stand for.

        Parameters
        ----------
        codes : ndarray of shape (n_samples, n_outputs)
            Codes.

        Returns
        -------
        ndarray of float64 of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        """
        numbers: Array = codes * self.scale + self.centre
        return numbers[:, 0] if self.is_vector else numbers

    def finish(self, stack: RectifierStack) -> RectifierStack:
        """Return the network that puts out numbers on the scale of the targets.

        Parameters
        ----------
        stack : RectifierStack
            Network that learned the codes.

        Returns
        -------
        RectifierStack
            The same, with centre and scale folded into its last layer.
        """
        last = stack.layers[-1]
        scaled = Layer(
            last.W * self.scale.astype(last.dtype),
            last.b * self.scale.astype(last.dtype) + self.centre.astype(last.dtype),
            last.activation,
        )
        return replace(stack, layers=(*stack.layers[:-1], scaled))


@dataclass(frozen=True)
class Counts(_Columns):
    """Numbers of 0 or more whose logarithm of the expected value the network learns.

    Parameters
    ----------
    n_outputs : int
        Number of columns.
    is_vector : bool
        Whether targets have one dimension.
    """

    is_vector: bool
    link: ClassVar[OutputLink] = "exp"

    @classmethod
    def learn(cls, y: Array) -> "Counts":
        """Return the coding of counts.

        Parameters
        ----------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Numbers of 0 or more.

        Returns
        -------
        Counts
            Coding.
        """
        return cls(y.reshape(len(y), -1).shape[1], y.ndim == 1)

    def encode(self, y: Array, name: str = "y") -> Array:
        """Return the counts, a column for each output.

        Parameters
        ----------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Numbers of 0 or more.
        name : str
            Name of the argument, for messages.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_outputs)
            The same numbers.

        Raises
        ------
        DataError
            If a number is negative or above 1e100, or there is another number of
            columns.
        """
        columns = self._check_width(y, name).astype(np.float64)
        if columns.min() < 0:
            raise DataError(
                f"{name} has negative values, down to {columns.min():g}, expected "
                "counts or rates of 0 or more for loss='poisson'. Use another loss."
            )
        if columns.max() > 1e100:
            raise _too_large(columns, name)
        return columns

    def decode(self, codes: Array) -> Array:
        """Return the numbers in the shape of the targets.

        Parameters
        ----------
        codes : ndarray of shape (n_samples, n_outputs)
            Numbers.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The same numbers.
        """
        return codes[:, 0] if self.is_vector else codes


Coding = Classes | Indicators | Numbers | Counts


def _check_size(columns: Array, dtype: np.dtype[Any]) -> None:
    """Refuse numbers that outputs of this dtype cannot come near."""
    info = np.finfo(dtype)
    size = np.abs(columns).max(axis=0)
    largest = size.max()
    if largest > info.max:
        raise DataError(
            f"y has numbers of up to {largest:g} in size, which {dtype} cannot hold, "
            "expected numbers within its range. Divide y by a constant, or give X as "
            "float64."
        )
    if largest > info.max / 16:  # differences and means must not overflow
        raise _too_large(columns, "y")
    too_small = (size > 0) & (size < info.tiny)
    if too_small.any():
        raise DataError(
            f"y has a column of numbers of at most {size[too_small][0]:g} in size, "
            f"which {dtype} cannot hold with full precision, expected {info.tiny:g} or "
            "more. Multiply y by a constant, or give X as float64."
        )
    if dtype == np.float64:
        return  # as coarse as the numbers themselves
    spread = (columns / np.maximum(size, 1e-300)).std(axis=0) * size
    varies = columns.max(axis=0) > columns.min(axis=0)
    too_coarse = varies & (info.eps * size > 1e-3 * spread)
    if too_coarse.any():
        column = int(too_coarse.argmax())
        raise DataError(
            f"y has numbers of about {size[column]:g} that differ by about "
            f"{spread[column]:g}, too little for outputs of {dtype}, whose steps are "
            f"{info.eps * size[column]:.2g} there. Subtract a constant from y, or give "
            "X.astype(np.float64)."
        )


def _too_large(columns: Array, name: str) -> DataError:
    return DataError(
        f"{name} has numbers of up to {np.abs(columns).max():g} in size, which is too "
        "large to compute with. Divide y by a constant."
    )


def _not_sortable(y: Array, error: TypeError, name: str = "y") -> DataError:
    if any(isinstance(label, bytes) for label in y.tolist()):
        return DataError(
            f"{name} holds labels of type bytes, expected numbers, strings or "
            "booleans. Decode them first, for example with "
            f"np.char.decode({name}, 'utf-8')."
        )
    return DataError(
        f"{name} mixes labels that cannot be sorted ({error}), expected all numbers, "
        f"all strings or all booleans. Drop rows without a label, or convert {name}."
    )
