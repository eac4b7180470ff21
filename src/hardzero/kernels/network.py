"""The protocol that every engine obeys; the checks and the training set they share.

`ReferenceNetwork` defines what is right, `DenseNetwork` and `SparseNetwork` do the same
faster. The loop that trains them knows only `Network`::

    network = DenseNetwork(stack, SGD(0.01))
    network.bind(X, y)
    for rows in np.split(shuffled, n_batches):
        loss = network.step(rows)
    trained = network.stack()

The objective of a batch of rows i with weights s_i is, with r_i = s_i / sum(s),

    sum_i r_i (log loss of row i + l1_activation sum over hidden units |h_i|)

and the penalty's derivative is that of |h| where h is not 0, and 0 where it is. All
arrays of numbers have the dtype of the stack, float32 or float64.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hardzero.errors import DataError, ParameterError
from hardzero.kernels.options import StepOptions
from hardzero.kernels.rules import SGD, Adam, Rule, plain_float
from hardzero.kernels.statistics import LayerStatistics
from hardzero.random import row_hashes
from hardzero.stack import RectifierStack
from hardzero.threads import MAX_THREADS

__all__ = [
    "Network",
    "TrainingSet",
    "canonical",
    "check_delta",
    "check_inputs",
    "check_options",
    "check_same_architecture",
    "check_settings",
    "check_softmax",
    "check_state",
    "check_structure",
    "check_training_set",
    "moments",
    "require_bound",
    "require_classes",
    "require_rows",
]

Array = npt.NDArray[Any]
UInt64 = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.integer[Any]]
Matrix = Any
"""A C-contiguous ndarray or a SciPy CSR matrix or array; SciPy has no types."""


class Network(Protocol):
    """A copy of a stack's parameters that mini-batch steps change.

    An engine is built as ``Engine(stack, rule, *, l1_activation=0.0,
    options=StepOptions(), n_threads=1)``; `hardzero.kernels.options` describes what a
    step does beside the loss and the rule. `step` is `forward_batch`, the softmax log
    loss with its derivative, and `backward_batch`; other objectives call the two halves
    themselves.
    """

    def bind(
        self, X: Matrix, y: Array | None = None, sample_weight: Array | None = None
    ) -> None:
        """Set the training set that later steps draw rows from; nothing is copied.

        Parameters
        ----------
        X : C-contiguous ndarray or CSR matrix of shape (n, n_inputs)
            Inputs in the dtype of the stack. CSR has sorted indices and no duplicates;
            explicit zeros are allowed.
        y : ndarray of int64 of shape (n,), optional
            Class of each row, an index in [0, n_outputs); only `step` needs them.
        sample_weight : ndarray of shape (n,), optional
            Weight of each row, 0 or more. None means all 1.

        Raises
        ------
        DataError
            If an array is not as described.
        """
        ...

    def begin_epoch(self, number: int) -> None:
        """Draw anew what dropout drops; before the first call the epoch is 1.

        Parameters
        ----------
        number : int
            Number of the epoch.
        """
        ...

    def step(self, rows: Rows) -> float:
        """Make one mini-batch update.

        Parameters
        ----------
        rows : ndarray of int64 of shape (n_rows,)
            At least one index into the training set, each in [0, n).

        Returns
        -------
        float
            Weighted mean of the rows' softmax log loss before the update, without
            penalties. Not finite, without a warning and without an update, when the
            network has diverged.
            A batch whose weights are all 0 has loss 0 and gradient 0.

        Raises
        ------
        ParameterError
            If there are no rows, no training set with classes is bound, or the output
            link of the stack is not "softmax".
        """
        ...

    def forward_batch(self, rows: Rows) -> Array:
        """Compute the outputs for some rows and keep what `backward_batch` needs.

        The rows' shares of the batch's total weight are kept too, for the penalty on
        activations, and the rows count in `statistics`.

        Parameters
        ----------
        rows : ndarray of int64 of shape (n_rows,)
            At least one index into the training set, each in [0, n).

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            Outputs of the last layer before the output link, C-contiguous. They may
            lie in a buffer of the network: read them before its next call, do not
            write to them.

        Raises
        ------
        ParameterError
            If there are no rows or no training set is bound.
        """
        ...

    def backward_batch(self, delta: Array) -> None:
        """Update the parameters for the rows of the last `forward_batch`.

        The running means of batch normalisation move too, unless all weights of the
        batch are 0.

        Parameters
        ----------
        delta : ndarray of shape (n_rows, n_outputs)
            Derivative of the loss with respect to the outputs, already divided by the
            batch's total weight, C-contiguous. It is not changed. The penalties (L1 on
            activations, L2 on weights) are added here.

        Raises
        ------
        ParameterError
            If `delta` is not of the shape and dtype of the outputs of `forward_batch`,
            or that has not been called since the last update.
        """
        ...

    def forward(self, X: Matrix) -> Array:
        """Compute the outputs for any inputs.

        Parameters
        ----------
        X : C-contiguous ndarray or CSR matrix of shape (n_samples, n_inputs)
            Inputs in the dtype of the stack; the caller cuts large inputs into chunks.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            Outputs of the last layer before the output link, in memory of their own.

        Raises
        ------
        DataError
            If `X` is not as described.
        """
        ...

    def set_learning_rate(self, learning_rate: float) -> None:
        """Change the learning rate from the next step on.

        Parameters
        ----------
        learning_rate : float
            Step size, 0 or more.

        Raises
        ------
        ParameterError
            If it is negative or not finite.
        """
        ...

    def stack(self) -> RectifierStack:
        """Return the parameters as they are after the last step.

        Returns
        -------
        RectifierStack
            A copy, which later steps do not change. Batch normalisation is folded into
            its weights and biases.

        Raises
        ------
        ParameterError
            If a parameter is not finite.
        """
        ...

    def load(self, stack: RectifierStack) -> None:
        """Go on from the parameters of a stack.

        The state of the update rule (momentum, Adam's means and step count) and of
        batch normalisation (gamma 1, mean 0, variance 1) starts anew. Training set,
        learning rate, epoch and statistics stay.

        Parameters
        ----------
        stack : RectifierStack
            A stack of the same architecture and dtype.

        Raises
        ------
        ParameterError
            If its architecture or dtype is another one.
        """
        ...

    def state(self) -> dict[str, Array]:
        """Return all that later steps depend on, but training set and learning rate.

        Returns
        -------
        dict of str to ndarray
            Parameters, moments, running means and the numbers of steps and epoch,
            copied. A network of the same class, built from the same arguments, goes on
            from them with the same bits.
        """
        ...

    def set_state(self, state: dict[str, Array]) -> None:
        """Go on from what `state` returned.

        Parameters
        ----------
        state : dict of str to ndarray
            State of a network of the same class and architecture.

        Raises
        ------
        ParameterError
            If an array is missing, unknown, or of another shape or dtype. Nothing is
            changed then.
        """
        ...

    def statistics(self) -> list[LayerStatistics]:
        """Return the counts of zeros since the last call and start new ones.

        Returns
        -------
        list of LayerStatistics
            One entry for each hidden layer, over the rows of all steps since then;
            zeros that dropout made do not count.
        """
        ...


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rows that steps draw from; made by `check_training_set`.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, n_inputs)
        Inputs.
    y : ndarray of int64 of shape (n,) or None
        Classes, if there are any.
    sample_weight : ndarray of shape (n,) or None
        Weights in the dtype of `X`; None means all 1.
    """

    X: Matrix
    y: Array | None
    sample_weight: Array | None

    @property
    def is_sparse(self) -> bool:
        """Whether `X` is a CSR matrix."""
        return bool(sp.issparse(self.X))

    @cached_property
    def row_hashes(self) -> UInt64:
        """Hash of each row's content, which dropout draws from, made when asked for.

        Returns
        -------
        ndarray of shape (n,), dtype uint64
            What `hardzero.random.row_hashes` returns for `X`.
        """
        return row_hashes(self.X)

    def shares(self, rows: Rows) -> Array:
        """Return the share of each row in the total weight of a batch.

        Parameters
        ----------
        rows : ndarray of int64 of shape (n_rows,)
            Rows of the batch.

        Returns
        -------
        ndarray of shape (n_rows,)
            Shares that add up to 1; all 0 if all weights are 0.

        Raises
        ------
        ParameterError
            If there are no rows.
        """
        require_rows(rows)
        if self.sample_weight is None:
            return np.full(len(rows), 1.0 / len(rows), dtype=self.X.dtype)
        weights: Array = self.sample_weight[rows]
        total = weights.sum()
        return weights / total if total > 0.0 else np.zeros_like(weights)


def require_rows(rows: Rows) -> None:
    """Check that a batch is not empty.

    Parameters
    ----------
    rows : ndarray of int64 of shape (n_rows,)
        Rows of the batch.

    Raises
    ------
    ParameterError
        If there are none.
    """
    if len(rows) == 0:
        raise ParameterError("a batch has 0 rows, expected at least 1. Leave it out.")


def check_settings(
    stack: RectifierStack, rule: Rule, l1_activation: float, n_threads: int
) -> None:
    """Check what an engine is built from.

    Parameters
    ----------
    stack : RectifierStack
        Parameters to start from.
    rule : SGD or Adam
        Update rule.
    l1_activation : float
        Penalty on the mean absolute sum of each hidden layer, 0 or more.
    n_threads : int
        Number of threads, from 1 to `MAX_THREADS`.

    Raises
    ------
    ParameterError
        If one of them is not as described.
    """
    if not isinstance(stack, RectifierStack):
        raise ParameterError(
            f"stack is a {type(stack).__name__}, expected a RectifierStack. Build one "
            "from layers first."
        )
    if not isinstance(rule, SGD | Adam):
        raise ParameterError(
            f"rule is {rule!r}, expected an update rule. Give SGD(...) or Adam(...)."
        )
    if not 0.0 <= plain_float(l1_activation) < np.inf:
        raise ParameterError(
            f"l1_activation is {l1_activation!r}, expected a finite number of 0 or "
            "more. Give 0 for no penalty."
        )
    is_whole = isinstance(n_threads, int | np.integer)
    if not (is_whole and 1 <= n_threads <= MAX_THREADS):
        raise ParameterError(
            f"n_threads is {n_threads!r}, expected a whole number from 1 to "
            f"{MAX_THREADS}. Give the number of cores to use."
        )


def check_options(stack: RectifierStack, options: StepOptions) -> None:
    """Check that the options of a step fit a stack.

    Parameters
    ----------
    stack : RectifierStack
        Parameters to start from.
    options : StepOptions
        Options.

    Raises
    ------
    ParameterError
        If they are none, or dropout has another number of levels than the stack.
    """
    if not isinstance(options, StepOptions):
        raise ParameterError(
            f"options is {options!r}, expected the options of a training step. Give "
            "StepOptions(...)."
        )
    n_levels = len(stack.layers)
    if len(options.dropout) not in (0, n_levels):
        raise ParameterError(
            f"dropout has {len(options.dropout)} rates, expected {n_levels}: one for "
            f"the inputs and one for each of {n_levels - 1} hidden layers. Give 0 for "
            "those that drop nothing, or no rates at all."
        )


def check_training_set(
    stack: RectifierStack, X: Matrix, y: Array | None, sample_weight: Array | None
) -> TrainingSet:
    """Check the arguments of `Network.bind`.

    Shapes, dtypes and memory layout are checked, and the range of `y` and
    `sample_weight`; whether `X` is finite is left to those who read user data.

    Parameters
    ----------
    stack : RectifierStack
        Network to be trained.
    X : ndarray or CSR matrix of shape (n, n_inputs)
        Inputs.
    y : ndarray of int64 of shape (n,) or None
        Classes.
    sample_weight : ndarray of shape (n,) or None
        Weights.

    Returns
    -------
    TrainingSet
        The same arrays; weights in the dtype of the stack.

    Raises
    ------
    DataError
        If an array is not as `Network.bind` describes it.
    """
    check_inputs(stack, X)
    n_rows = X.shape[0]
    if y is not None:
        _check_classes(y, n_rows, stack.n_outputs)
    if sample_weight is not None:
        if sample_weight.shape != (n_rows,):
            raise DataError(
                f"sample_weight has shape {sample_weight.shape}, expected ({n_rows},). "
                "Give one weight for each row of X."
            )
        sample_weight = sample_weight.astype(X.dtype, copy=False)
        if not (np.isfinite(sample_weight).all() and (sample_weight >= 0.0).all()):
            raise DataError(
                "sample_weight has a negative or non-finite entry, expected finite "
                "numbers of 0 or more. Set the weight of rows to be ignored to 0."
            )
    return TrainingSet(X, y, sample_weight)


def _check_classes(y: Array, n_rows: int, n_classes: int) -> None:
    if y.shape != (n_rows,) or y.dtype != np.int64:
        raise DataError(
            f"y is {y.dtype} of shape {y.shape}, expected int64 of shape ({n_rows},). "
            "Give one class index for each row of X."
        )
    if n_rows and not (y.min() >= 0 and y.max() < n_classes):
        raise DataError(
            f"y has classes from {y.min()} to {y.max()}, expected 0 to "
            f"{n_classes - 1}. Number the classes from 0, or give the network one "
            "output for each class."
        )


def check_inputs(stack: RectifierStack, X: Matrix) -> None:
    """Check inputs for `Network.bind` and `Network.forward`.

    Parameters
    ----------
    stack : RectifierStack
        Network that is to read them.
    X : ndarray or CSR matrix of shape (n, n_inputs)
        Inputs.

    Raises
    ------
    DataError
        If they are not as `Network.bind` describes them.
    """
    is_csr = sp.issparse(X) and X.format == "csr"
    is_dense = isinstance(X, np.ndarray) and X.flags.c_contiguous
    if not (is_csr or is_dense):
        kind = f"{X.format} matrix" if sp.issparse(X) else type(X).__name__
        raise DataError(
            f"X is a {kind} that rows cannot be read from quickly, expected a "
            "C-contiguous ndarray or a CSR matrix. Use np.ascontiguousarray or tocsr."
        )
    if X.ndim != 2 or X.shape[1] != stack.n_inputs:
        raise DataError(
            f"X has shape {X.shape}, expected (n_rows, {stack.n_inputs}) for a network "
            f"with {stack.n_inputs} inputs. Give one column for each input."
        )
    if X.dtype != stack.dtype:
        raise DataError(
            f"X is {X.dtype} but the network is {stack.dtype}. Convert one to the "
            "dtype of the other with astype."
        )
    if is_csr:
        check_structure(X)
    if is_csr and not X.has_canonical_format:
        raise DataError(
            "X is a CSR matrix with unsorted or duplicate entries, expected sorted "
            "and unique ones. Call X.sum_duplicates() first."
        )


def canonical(X: Matrix) -> Matrix:
    """Return rows with sorted and unique entries, as `Network.bind` wants them.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_columns)
        Rows. They are not changed.

    Returns
    -------
    ndarray or CSR matrix of shape (n_rows, n_columns)
        The same object, or a copy of a CSR matrix that was not canonical.
    """
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()  # it may be the user's
        X.sum_duplicates()
    return X


def check_structure(X: Any) -> None:
    """Check that the indices of a sparse matrix lie within it.

    SciPy does not look at them when a matrix is built from its arrays, or when these
    are changed later, and compiled code would read beyond their ends.

    Parameters
    ----------
    X : sparse matrix of shape (n_rows, n_columns)
        Matrix; of formats other than "csr", "csc", "bsr" and "coo" nothing is checked.

    Raises
    ------
    DataError
        If they do not.
    """
    if X.format == "coo":
        bounds = [(X.row, X.shape[0]), (X.col, X.shape[1])]
        is_sound = len(X.row) == len(X.col) == len(X.data)
    elif X.format in ("csr", "csc", "bsr"):
        blocks = X.blocksize if X.format == "bsr" else (1, 1)
        n_slices, size = (n // block for n, block in zip(X.shape, blocks, strict=True))
        if X.format == "csc":
            n_slices, size = size, n_slices
        starts, stored = X.indptr, min(len(X.indices), len(X.data))
        is_sound = (
            len(starts) == n_slices + 1
            and starts[0] == 0
            and starts[-1] <= stored
            and bool((starts[:-1] <= starts[1:]).all())
        )
        bounds = [(X.indices[: starts[-1]], size)] if is_sound else []
    else:
        return
    within = (
        index.size == 0 or (index.min() >= 0 and index.max() < n) for index, n in bounds
    )
    if not (is_sound and all(within)):
        raise DataError(
            f"X is a damaged {X.format} matrix: its index arrays point outside of its "
            f"shape {X.shape} or its stored entries, expected indices from 0 to below "
            "the shape and, if compressed, an indptr that starts at 0 and never falls. "
            "Build it again from the data, and call its check_format() if it has one."
        )


def check_same_architecture(expected: RectifierStack, given: RectifierStack) -> None:
    """Check that the parameters of one stack fit another.

    Parameters
    ----------
    expected : RectifierStack
        Stack that the network was built from.
    given : RectifierStack
        Stack to load.

    Raises
    ------
    ParameterError
        If sizes, activations, output link or dtype differ, or only one has signs.
    """
    if given.architecture != expected.architecture:
        raise ParameterError(
            f"the stack to load is {given!r}\nexpected the architecture and dtype of "
            f"{expected!r}\nBuild a new network from it instead."
        )


def check_softmax(stack: RectifierStack) -> None:
    """Check that the loss of `Network.step` is meant.

    Parameters
    ----------
    stack : RectifierStack
        Network to be trained.

    Raises
    ------
    ParameterError
        If the output link is not "softmax".
    """
    if stack.output_link != "softmax":
        raise ParameterError(
            f"step minimises the softmax log loss, but the stack has the output link "
            f"{stack.output_link!r}. Build the stack with 'softmax', or compute "
            "another loss between forward_batch and backward_batch."
        )


def require_bound(data: TrainingSet | None) -> TrainingSet:
    """Return the training set of a network.

    Parameters
    ----------
    data : TrainingSet or None
        Training set, if `Network.bind` has been called.

    Returns
    -------
    TrainingSet
        The same set.

    Raises
    ------
    ParameterError
        If there is none.
    """
    if data is None:
        raise ParameterError("no training set is bound. Call bind(X, y) first.")
    return data


def require_classes(data: TrainingSet | None) -> Array:
    """Return the classes that a network is trained on.

    Parameters
    ----------
    data : TrainingSet or None
        Training set, if `Network.bind` has been called.

    Returns
    -------
    ndarray of int64 of shape (n,)
        Classes.

    Raises
    ------
    ParameterError
        If there is no training set, or it has no classes.
    """
    y = require_bound(data).y
    if y is None:
        raise ParameterError(
            "step needs classes, but the training set was bound without them. Call "
            "bind(X, y), or compute the loss between forward_batch and backward_batch."
        )
    return y


def moments(rule: Rule) -> tuple[str, ...]:
    """Return the names of the arrays that a rule keeps for each parameter.

    Parameters
    ----------
    rule : SGD or Adam
        Update rule.

    Returns
    -------
    tuple of str
        "m" and "v" as in `hardzero.kernels.rules`, as far as the rule needs them.
    """
    if isinstance(rule, Adam):
        return "m", "v"
    return ("m",) if rule.momentum else ()


def check_state(expected: Mapping[str, Array], given: Mapping[str, Array]) -> None:
    """Check the argument of `Network.set_state`.

    Parameters
    ----------
    expected : dict of str to ndarray
        State of the network that is to go on from it.
    given : dict of str to ndarray
        State of another one.

    Raises
    ------
    ParameterError
        If names, shapes or dtypes differ.
    """
    remedy = (
        "Give the state of a network of the same class, architecture, dtype, rule and "
        "options."
    )
    missing, unknown = expected.keys() - given.keys(), given.keys() - expected.keys()
    if missing or unknown:
        raise ParameterError(
            f"the state lacks {sorted(missing)} and has {sorted(unknown)}, expected "
            f"{len(expected)} arrays and no others. {remedy}"
        )
    for name, array in expected.items():
        found = np.asarray(given[name])
        if found.shape != array.shape or found.dtype != array.dtype:
            raise ParameterError(
                f"{name} of the state is {found.dtype} of shape {found.shape}, "
                f"expected {array.dtype} of shape {array.shape}. {remedy}"
            )


def check_delta(delta: Array, outputs: Array | None) -> None:
    """Check the argument of `Network.backward_batch`.

    Parameters
    ----------
    delta : ndarray
        Derivative of the loss with respect to the outputs.
    outputs : ndarray of shape (n_rows, n_outputs) or None
        What the last `Network.forward_batch` returned; None after an update.

    Raises
    ------
    ParameterError
        If there are no outputs, or shape or dtype differ from theirs.
    """
    if outputs is None:
        raise ParameterError(
            "backward_batch has no forward pass to go back through. Call forward_batch "
            "before each backward_batch."
        )
    if delta.shape != outputs.shape or delta.dtype != outputs.dtype:
        raise ParameterError(
            f"delta is {delta.dtype} of shape {delta.shape}, expected {outputs.dtype} "
            f"of shape {outputs.shape}. Give one derivative for each output that "
            "forward_batch returned."
        )
