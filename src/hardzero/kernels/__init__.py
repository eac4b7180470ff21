"""Engines that train a network: compiled and zero-skipping, BLAS, plain NumPy."""

from typing import Literal

from hardzero.errors import ParameterError
from hardzero.kernels.network import Network
from hardzero.kernels.options import NO_OPTIONS, StepOptions
from hardzero.kernels.rules import Rule
from hardzero.stack import RectifierStack

__all__ = ["Engine", "build"]

Engine = Literal["auto", "sparse", "dense", "reference"]


def build(
    stack: RectifierStack,
    rule: Rule,
    engine: Engine = "auto",
    *,
    l1_activation: float = 0.0,
    options: StepOptions = NO_OPTIONS,
    n_threads: int = 1,
) -> Network:
    """Build the engine that trains a copy of a stack.

    Parameters
    ----------
    stack : RectifierStack
        Parameters to start from.
    rule : SGD or Adam
        Update rule.
    engine : {"auto", "sparse", "dense", "reference"}, default="auto"
        "auto" is the compiled core, which chooses between its sparse and its dense
        kernels; "sparse" always skips zeros; "dense" is NumPy with BLAS; "reference" is
        the plain and slow definition.
    l1_activation : float, default=0.0
        Coefficient of the mean over rows of the sum over hidden units of ``|h|``.
    options : StepOptions, optional
        Dropout, batch normalisation, penalties and bounds; none if left out.
    n_threads : int, default=1
        Threads to use.

    Returns
    -------
    Network
        The engine.

    Raises
    ------
    ParameterError
        If an argument is not as described.
    NotBuiltError
        If the compiled core is asked for and cannot be loaded.
    """
    if engine in ("auto", "sparse"):
        from hardzero.kernels.sparse import SparseNetwork

        return SparseNetwork(
            stack,
            rule,
            l1_activation=l1_activation,
            options=options,
            n_threads=n_threads,
            mode=engine,
        )
    if engine == "dense":
        from hardzero.kernels.dense import DenseNetwork

        return DenseNetwork(
            stack,
            rule,
            l1_activation=l1_activation,
            options=options,
            n_threads=n_threads,
        )
    if engine == "reference":
        from hardzero.kernels.reference import ReferenceNetwork

        return ReferenceNetwork(
            stack,
            rule,
            l1_activation=l1_activation,
            options=options,
            n_threads=n_threads,
        )
    raise ParameterError(
        f"engine is {engine!r}, expected 'auto', 'sparse', 'dense' or 'reference'. "
        "Leave it out to let hardzero choose."
    )
