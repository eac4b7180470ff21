"""Scale columns before training, then make the scaling part of the first layer."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hardzero.stack import Layer, RectifierStack

Array = npt.NDArray[np.float64]
Kind = Literal["auto", "standard", "maxabs", "none"]


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
    """

    kind: str
    shift: Array
    scale: Array

    @classmethod
    def measure(cls, X: Any, kind: Kind) -> "Scaling":
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

        Returns
        -------
        Scaling
            Columns of one value only are not scaled.
        """
        if kind == "auto":
            is_sparse = sp.issparse(X) or 2 * np.count_nonzero(X) < X.size
            kind = "maxabs" if is_sparse else "standard"
        shift, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if kind == "maxabs":
            largest = abs(X).max(axis=0)
            scale = largest.toarray().ravel() if sp.issparse(largest) else largest
        elif kind == "standard":
            mean, scale = _moments(X)
            if not sp.issparse(X):
                shift = mean
        return cls(kind, shift, np.where(scale > 0, scale, 1.0))

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
        """
        if sp.issparse(X):
            values = (X.data / self.scale[X.indices]).astype(np.float32)
            return sp.csr_array((values, X.indices, X.indptr), shape=X.shape)
        return ((X - self.shift) / self.scale).astype(np.float32)

    def fold_into(self, stack: RectifierStack) -> RectifierStack:
        """Return the network that takes rows as they are before scaling.

        Parameters
        ----------
        stack : RectifierStack
            Network for scaled rows.

        Returns
        -------
        RectifierStack
            Network for unscaled rows, float64: in float32 a column whose mean is large
            beside its deviation would lose its digits. Without scaling the same stack.
        """
        if self.kind == "none":
            return stack
        first, *rest = stack.astype(np.float64).layers
        W = first.W / self.scale[:, None]
        b = first.b - self.shift @ W
        folded = Layer(W, b, first.activation, first.signs, first.slopes)
        return RectifierStack((folded, *rest), stack.output_link)


def _moments(X: Any) -> tuple[Array, Array]:
    """Return mean and standard deviation of each column."""
    if not sp.issparse(X):
        # A column of equal values has deviation 0 exactly only from its own first row.
        centred = X - X[0]
        return X[0] + centred.mean(axis=0), centred.std(axis=0)
    mean = np.asarray(X.mean(axis=0)).ravel()
    square = np.asarray((X * X).mean(axis=0)).ravel()
    return mean, np.sqrt(np.maximum(square - mean**2, 0))
