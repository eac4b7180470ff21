"""Scale columns before training, then make the scaling part of the first layer."""

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hardzero.errors import DataError
from hardzero.serving.folding import fold_scaling
from hardzero.stack import Layer, RectifierStack

Array = npt.NDArray[np.float64]
Kind = Literal["auto", "standard", "maxabs", "none"]

# Normal float64 numbers that can be added and subtracted once without overflow.
_SMALLEST: Final = float(np.finfo(np.float64).tiny)
_LARGEST: Final = float(np.finfo(np.float64).max) / 4


@dataclass(frozen=True, eq=False)
class Scaling:
    """The map ``(X - shift) / scale`` of each column.

    Parameters
    ----------
    kind : {"standard", "maxabs", "none"}
        How it was measured.
    shift : ndarray of shape (n_features,), float64
        All 0 but for "standard".
    scale : ndarray of shape (n_features,), float64
        All above 0.
    names : tuple of str or None, default=None
        Names of the columns, for messages.
    """

    kind: str
    shift: Array
    scale: Array
    names: tuple[str, ...] | None = None

    @classmethod
    def measure(
        cls, X: Any, kind: Kind, names: tuple[str, ...] | None = None
    ) -> "Scaling":
        """Measure columns.

        Parameters
        ----------
        X : ndarray or CSR array of shape (n_rows, n_features)
            Training rows.
        kind : {"auto", "standard", "maxabs", "none"}
            "standard" makes the mean 0 and the standard deviation 1. "maxabs" makes the
            largest absolute value 1 and leaves zeros zeros. "auto" takes "maxabs" if
            ``X`` is a CSR array or more than half of it is zero, else "standard".
            CSR stays sparse: "standard" does not shift it.
        names : tuple of str or None, default=None
            Names of the columns, for messages.

        Returns
        -------
        Scaling
            Columns of one value only are scaled by that value.

        Raises
        ------
        DataError
            If the scale of a column is too small or too large for float64.
        """
        if kind == "auto":
            is_sparse = sp.issparse(X) or 2 * np.count_nonzero(X) < X.size
            kind = "maxabs" if is_sparse else "standard"
        shift, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if kind != "none":
            largest = abs(X).max(axis=0)
            scale = largest.toarray().ravel() if sp.issparse(largest) else largest
            scale = np.where(scale > 0, scale, 1.0)
        if kind == "standard":
            mean, deviation = _moments(X, scale)
            if not sp.issparse(X):
                shift = mean * scale
            scale = scale * np.where(deviation > 0, deviation, 1.0)
        scaling = cls(kind, shift, scale, names)
        scaling._check((scale >= _SMALLEST) & (scale <= _LARGEST), "its scale")
        return scaling

    def apply(self, X: Any) -> Any:
        """Scale rows.

        Parameters
        ----------
        X : ndarray or CSR array of shape (n_rows, n_features), float64
            Rows; not changed.

        Returns
        -------
        ndarray or CSR array of shape (n_rows, n_features), float32
            Scaled rows.

        Raises
        ------
        DataError
            If a scaled value is too large for float32.
        """
        with np.errstate(over="ignore"):  # what is too large is refused below
            if sp.issparse(X):
                values = (X.data / self.scale[X.indices]).astype(np.float32)
                scaled = sp.csr_array((values, X.indices, X.indptr), shape=X.shape)
                bad = X.indices[~np.isfinite(values)]
            else:
                scaled = ((X - self.shift) / self.scale).astype(np.float32)
                bad = np.flatnonzero(~np.isfinite(scaled).all(axis=0))
        self._check(~np.isin(np.arange(X.shape[1]), bad), "a scaled value")
        return scaled

    def fold_into(self, stack: RectifierStack) -> RectifierStack:
        """Return the network that takes rows as they are before scaling.

        Parameters
        ----------
        stack : RectifierStack
            Network for scaled rows.

        Returns
        -------
        RectifierStack
            Network for unscaled rows, float64; without scaling the same stack.

        Raises
        ------
        DataError
            If a weight becomes too large for float64.
        """
        if self.kind == "none":
            return stack
        return fold_scaling(stack, self.shift, self.scale, self.names)

    def _check(self, is_sound: npt.NDArray[np.bool_], what: str) -> None:
        """Refuse the first column for which something is not sound."""
        if not is_sound.all():
            column = int(np.argmin(is_sound))
            raise DataError(
                f"Column {repr(self.names[column]) if self.names else column} has "
                f"values that are too small or too large: {what} cannot be stored. "
                "Multiply the column by a constant, choose another --scale, or leave "
                "it out."
            )


def ignore_empty_columns(stack: RectifierStack, X: Any) -> RectifierStack:
    """Return the network without weights for columns that it learned nothing about.

    Those are still the random ones from the start, so that a value in such a column,
    which may turn up later, would change predictions at random.

    Parameters
    ----------
    stack : RectifierStack
        Network that was trained on `X`.
    X : ndarray or CSR array of shape (n_rows, n_features)
        Rows, scaled.

    Returns
    -------
    RectifierStack
        With weights of 0 for columns that are 0 in each row; the same stack if there
        are none.
    """
    if sp.issparse(X):
        counts = np.bincount(X.indices[X.data != 0], minlength=X.shape[1])
    else:
        counts = np.count_nonzero(X, axis=0)
    if counts.all():
        return stack
    first, *rest = stack.layers
    W = np.where(counts[:, None] > 0, first.W, first.W.dtype.type(0))
    first = Layer(W, first.b, first.activation, first.signs, first.slopes)
    return RectifierStack((first, *rest), stack.output_link)


def _moments(X: Any, largest: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of each column divided by its largest size.

    So divided, nothing overflows, and columns of one value are exactly 1 or -1, of
    which the deviation is exactly 0.
    """
    if not sp.issparse(X):
        parts = X / largest
        centred = parts - parts[0]
        return parts[0] + centred.mean(axis=0), centred.std(axis=0)
    n_rows, n_columns = X.shape
    parts = X.data / largest[X.indices]
    mean = np.bincount(X.indices, parts, n_columns) / n_rows
    n_zeros = n_rows - np.bincount(X.indices, minlength=n_columns)
    squares = np.bincount(X.indices, (parts - mean[X.indices]) ** 2, n_columns)
    return mean, np.sqrt((squares + n_zeros * mean**2) / n_rows)
