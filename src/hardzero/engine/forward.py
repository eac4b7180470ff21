"""Outputs of a network for any number of rows, in pieces that fit into memory."""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero import kernels
from hardzero.kernels import Engine
from hardzero.kernels.network import Matrix, Network
from hardzero.kernels.rules import SGD
from hardzero.stack import RectifierStack

__all__ = ["ForwardPass", "forward"]

Array = npt.NDArray[Any]

# Activations of one piece: 4 Mi numbers are 16 or 32 MiB for the widest layer, and a
# piece takes well under a second, after which Ctrl-C is heard.
_PIECE = 4 * 2**20


class ForwardPass:
    """The forward pass of one network after another, with the last kept ready.

    Building a network of kernels copies the weights, which takes longer than the
    prediction of a row. The copy lives only in memory: a pickle of this object, or a
    deep copy, is empty. Threads may share it; they take turns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stack: RectifierStack | None = None
        self._options: tuple[int | None, Engine, int] | None = None
        self._network: Network | None = None

    def __call__(
        self,
        stack: RectifierStack,
        X: Matrix,
        *,
        n_layers: int | None = None,
        engine: Engine = "auto",
        n_threads: int = 1,
    ) -> Array:
        """Return the outputs of a layer, before the output link.

        Parameters
        ----------
        stack : RectifierStack
            The network. The same object as in the last call costs nothing to set up.
        X : C-contiguous ndarray or CSR matrix of shape (n_samples, n_inputs)
            Inputs in the dtype of the stack.
        n_layers : int, optional
            Number of layers to go through; all, if not given.
        engine : {"auto", "sparse", "dense", "reference"}
            Which kernels to use.
        n_threads : int
            Number of threads, at least 1.

        Returns
        -------
        ndarray of shape (n_samples, n_units)
            Outputs in the dtype of the stack.
        """
        options = (n_layers, engine, n_threads)
        with self._lock:
            if self._network is None or (
                self._stack is not stack or self._options != options
            ):
                # A rule without state, so that nothing but the weights is copied.
                self._network = kernels.build(
                    stack if n_layers is None else stack.truncate(n_layers),
                    SGD(0.0),
                    engine=engine,
                    n_threads=n_threads,
                )
                self._stack, self._options = stack, options
            return forward(self._network, X, max(stack.sizes[1:]))

    def __reduce__(self) -> tuple[type["ForwardPass"], tuple[()]]:
        return ForwardPass, ()


def forward(network: Network, X: Matrix, widest: int) -> Array:
    """Return the outputs of a network, computed piece by piece.

    Parameters
    ----------
    network : Network
        Kernels with the weights.
    X : C-contiguous ndarray or CSR matrix of shape (n_samples, n_inputs)
        Inputs in the dtype of the network; at least one row.
    widest : int
        Number of units of the widest layer, which sets the size of the pieces.

    Returns
    -------
    ndarray of shape (n_samples, n_outputs)
        Outputs of the last layer before the output link.
    """
    n_rows = X.shape[0]
    size = max(1, _PIECE // widest)
    if n_rows <= size:
        return network.forward(X)
    pieces = (X[start : start + size] for start in range(0, n_rows, size))
    return np.concatenate([network.forward(piece) for piece in pieces])
