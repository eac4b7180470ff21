"""Outputs of a network for any number of rows, in pieces that fit into memory."""

import os
import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero import kernels
from hardzero.errors import DataError
from hardzero.kernels import Engine
from hardzero.kernels.network import Matrix, Network
from hardzero.kernels.rules import SGD
from hardzero.stack import RectifierStack

__all__ = ["ForwardPass", "forward", "require_finite"]

Array = npt.NDArray[Any]

# Activations of one piece: 4 Mi numbers are 16 or 32 MiB for the widest layer, and a
# piece takes well under a second, after which Ctrl-C is heard.
_PIECE = 4 * 2**20


class ForwardPass:
    """The forward pass of one network after another, with the last kept ready.

    Building a network of kernels copies the weights, which takes longer than the
    prediction of a row. The copy lives only in memory: a pickle of this object, or a
    deep copy, is empty, and so it is in a forked process. Threads may share it; they
    take turns.
    """

    def __init__(self) -> None:
        self.forget()
        _PASSES.add(self)

    def forget(self) -> None:
        """Let go of the network that is kept, and of the thread that uses it."""
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
            Outputs in the dtype of the stack, all of them finite.

        Raises
        ------
        DataError
            If inputs are so large that an output is not finite.
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
            outputs = forward(self._network, X, max(stack.sizes[1:]))
        require_finite(outputs, X)
        return outputs

    def __reduce__(self) -> tuple[type["ForwardPass"], tuple[()]]:
        return ForwardPass, ()


# A child has only the thread that forked: no other would ever give a lock back.
_PASSES: weakref.WeakSet[ForwardPass] = weakref.WeakSet()


def _forget_all() -> None:
    for one in _PASSES:
        one.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


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


def require_finite(outputs: Array, X: Matrix) -> None:
    """Check that a network could compute its outputs.

    Parameters
    ----------
    outputs : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        What it computed.
    X : ndarray or CSR matrix of shape (n_samples, n_inputs)
        What it computed them from.

    Raises
    ------
    DataError
        If one is infinite or NaN, naming the first such row.
    """
    finite = np.isfinite(outputs)
    if not finite.all():
        row = int(np.argwhere(~finite)[0, 0])
        raise DataError(
            f"row {row} of X, counted from 0, has inputs of up to "
            f"{abs(X[[row]]).max():.3g} in size, for which the outputs of the network "
            f"overflow {outputs.dtype}, expected finite outputs. Scale the inputs as "
            "those that the network was trained on."
        )
