"""Reconstruction sampling: auto-encoders of wide sparse rows, without dense decoding.

Most of what a decoder puts out for a sparse row is to be 0. Of these outputs a random
share is computed and counts in proportion; all others are computed, that is those whose
target is not 0 and those that noise has turned on:

    loss = sum_i r_i sum_j w_ij l(a_ij, x_ij)

    w_ij = 1          where the target x_ij or the corrupted input is not 0
           1 / share  with probability `share` elsewhere
           0          with probability 1 - `share` elsewhere

where r is the share of each row in the batch's total weight. The expectation of the
weights is 1, so loss and gradients are those of dense decoding on average, and the work
of a step is proportional to the outputs that are computed. Only the rows of the
decoder's weights that belong to these change.

Which zeros are drawn depends on the key, the content of the row and nothing else. The
gaps between them are geometric: floor(log(1 - u) / log(1 - share)) columns are left out
before each, with the numbers u that belong to the row in `hardzero.random`. These are
multiples of 2^-24, and so exact is the probability of a column.

References
----------
.. [1] Dauphin, Glorot & Bengio, "Large-scale learning of embeddings with reconstruction
   sampling", 2011.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hardzero.errors import ParameterError
from hardzero.kernels.dense import _BlasThreads
from hardzero.kernels.draws import uniforms
from hardzero.kernels.network import (
    Array,
    Matrix,
    check_same_architecture,
    check_settings,
    check_state,
)
from hardzero.kernels.rules import SGD, Rule
from hardzero.kernels.sparse import SparseNetwork  # says why the core is missing
from hardzero.kernels.statistics import LayerStatistics, UnitCounter
from hardzero.stack import Layer, RectifierStack

# isort: split
from hardzero.kernels import _core

__all__ = [
    "SampledAutoencoder",
    "SampledOutputs",
    "backward_chosen",
    "forward_chosen",
    "sample_outputs",
]

UInt64 = npt.NDArray[np.uint64]
Losses = Callable[[Array, Array], tuple[Array, Array]]
"""Takes outputs and targets, returns what each costs and the derivatives."""


@dataclass(frozen=True, eq=False)
class SampledOutputs:
    """Outputs of a decoder that are computed for a batch; made by `sample_outputs`.

    They are sorted by column, and by row within a column.

    Parameters
    ----------
    columns : ndarray of int32 of shape (n,)
        Number of each output.
    rows : ndarray of int32 of shape (n,)
        Row of the batch that it belongs to.
    targets : ndarray of shape (n,)
        What it is to be.
    weights : ndarray of shape (n,)
        How many outputs it stands for.
    """

    columns: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    targets: Array
    weights: Array


def sample_outputs(
    clean: Matrix, corrupted: Matrix, hashes: UInt64, key: np.uint64, share: float
) -> SampledOutputs:
    """Choose the outputs of a decoder that are computed for a batch.

    Parameters
    ----------
    clean : CSR matrix of shape (n_rows, n_columns)
        Rows to reconstruct; with sorted indices and no duplicates. Stored zeros count
        as zeros.
    corrupted : CSR matrix of shape (n_rows, n_columns)
        The same rows with noise, in the same form.
    hashes : ndarray of uint64 of shape (n_rows,)
        What `hardzero.random.row_hashes` returned for the clean rows, or for those that
        they were made from.
    key : numpy.uint64
        What `hardzero.random.stream_key` returned for the epoch, for a purpose of its
        own.
    share : float
        Share of the zeros that are drawn, above 0 and at most 1.

    Returns
    -------
    SampledOutputs
        Places, targets and weights, in the dtype of `clean`.

    Raises
    ------
    ParameterError
        If `share` is out of range.
    """
    if not 0.0 < share <= 1.0:
        raise ParameterError(
            f"share is {share!r}, expected a number above 0 and at most 1. Give for "
            "example 0.02; 1 computes all outputs."
        )
    # A place is column * n_rows + row; the two lowest bits say why it is there.
    n_rows, n_columns = clean.shape
    places, targets = _non_zeros(clean)
    order = np.argsort(places)
    turned_on, _ = _non_zeros(corrupted)
    drawn = _draw(hashes, key, n_columns, share)
    found = np.concatenate([places << 2, turned_on << 2 | 1, drawn << 2 | 2])
    found.sort()
    is_first = np.ones(len(found), dtype=np.bool_)
    is_first[1:] = (found[1:] ^ found[:-1]) > 3
    found = found[is_first]
    reason = found & 3
    columns, rows = np.divmod(found >> 2, n_rows)
    weights = np.ones(len(found), dtype=clean.dtype)
    weights[reason == 2] = 1.0 / share
    wanted = np.zeros(len(found), dtype=clean.dtype)
    wanted[reason == 0] = targets[order]
    return SampledOutputs(
        columns.astype(np.int32), rows.astype(np.int32), wanted, weights
    )


def _non_zeros(X: Matrix) -> tuple[Array, Array]:
    """Return places and values of the entries that are not 0."""
    n_rows = X.shape[0]
    rows = np.repeat(np.arange(n_rows), np.diff(X.indptr))
    places = X.indices.astype(np.int64) * n_rows + rows
    is_set = X.data != 0
    return (places, X.data) if is_set.all() else (places[is_set], X.data[is_set])


def _draw(hashes: UInt64, key: np.uint64, n_columns: int, share: float) -> Array:
    """Return places that hold each column of each row with probability `share`."""
    n_rows = len(hashes)
    n_drawn = int(share * n_columns + 5.0 * (share * n_columns) ** 0.5) + 8
    rate = np.log1p(-share) if share < 1.0 else -np.inf
    while True:
        numbers = uniforms(key, hashes, n_drawn).astype(np.float64)
        gaps = np.minimum(np.log1p(-numbers) / rate, n_columns).astype(np.int64)
        columns = np.cumsum(gaps + 1, axis=1) - 1
        if columns[:, -1].min(initial=n_columns) >= n_columns:
            break
        n_drawn *= 2
    rows = np.arange(n_rows)[:, np.newaxis]
    places: Array = (columns * n_rows + rows)[columns < n_columns]
    return places


class SampledAutoencoder:
    """An auto-encoder of sparse rows that is trained by reconstruction sampling.

    It lacks what `Network` has for training sets: each `step` is given its rows. The
    hidden activations are h = signs * f(x W + b), the outputs h V + c. The transpose of
    V is kept, so that what belongs to an output lies together.

    Parameters
    ----------
    stack : RectifierStack
        Encoder and decoder to start from; they are copied. The decoder has the
        activation "identity" and no signs.
    rule : SGD
        Update rule, without momentum and weight decay, which would move all weights in
        every step.
    l1_activation : float, default=0.0
        Coefficient of the mean over rows of the sum over hidden units of ``|h|``.
    n_threads : int, default=1
        Threads to use. What steps do does not depend on it.

    Raises
    ------
    ParameterError
        If an argument is not as described.
    """

    def __init__(
        self,
        stack: RectifierStack,
        rule: Rule,
        *,
        l1_activation: float = 0.0,
        n_threads: int = 1,
    ) -> None:
        check_settings(stack, rule, l1_activation, n_threads)
        _check_stack(stack)
        self._given = stack
        self._rule = _checked(rule)
        self._l1_activation = l1_activation
        self._n_threads = n_threads
        self._threads = _BlasThreads(n_threads)
        self._level = _core.active_level()
        self._counter = UnitCounter(stack.layers[0].n_units)
        # The encoder up to its pre-activations; activations are few, and NumPy's.
        self._encoder = SparseNetwork(
            _linear(stack), rule, n_threads=n_threads, mode="sparse"
        )
        self.load(stack)

    def step(
        self,
        corrupted: Matrix,
        sampled: SampledOutputs,
        shares: Array,
        losses: Losses,
    ) -> float:
        """Make one mini-batch update.

        Parameters
        ----------
        corrupted : CSR matrix of shape (n_rows, n_inputs)
            Rows to encode, in the dtype of the stack; at least one.
        sampled : SampledOutputs
            Outputs to compute for these rows.
        shares : ndarray of shape (n_rows,)
            Share of each row in the total weight of the batch. A row with share 0 has
            no influence, even if it overflows.
        losses : callable
            Takes outputs and targets as vectors of equal length, returns what each
            output costs and the derivative of that with respect to the output.

        Returns
        -------
        float
            Loss before the update, without the penalty. Not finite, and without an
            update, when the network has diverged.

        Raises
        ------
        DataError
            If `corrupted` is not as described.
        """
        n_rows = corrupted.shape[0]
        shares = shares.astype(self._D.dtype, copy=False)
        self._encoder.bind(corrupted)
        z = self._encoder.forward_batch(np.arange(n_rows))
        with np.errstate(over="ignore", invalid="ignore"):
            h = self._activate(z)
        self._counter.add(h != 0.0)
        places = self._pad(h), sampled.columns, sampled.rows
        outputs = _core.forward_chosen(
            self._D, self._c, *places, self._n_threads, self._level
        )
        terms, slopes = losses(outputs, sampled.targets)
        factors = sampled.weights * shares[sampled.rows]
        with np.errstate(over="ignore", invalid="ignore"):
            terms, delta = terms * factors, slopes * factors
            if not shares.all():
                terms[factors == 0.0] = delta[factors == 0.0] = 0.0
            loss = float(terms.sum(dtype=np.float64))
            if np.isfinite(loss):
                dh = _core.backward_chosen(
                    self._D,
                    self._c,
                    *places,
                    delta,
                    self._rule.learning_rate,
                    self._n_threads,
                    self._level,
                )
                self._descend(z, h, dh[:, : h.shape[1]], shares)
        return loss

    @np.errstate(over="ignore", invalid="ignore")
    def outputs(self, X: Matrix, sampled: SampledOutputs) -> Array:
        """Compute chosen outputs without an update.

        Parameters
        ----------
        X : CSR matrix of shape (n_rows, n_inputs)
            Rows to encode, in the dtype of the stack.
        sampled : SampledOutputs
            Outputs to compute for these rows.

        Returns
        -------
        ndarray of shape (n,)
            Outputs, in the order of `sampled`.

        Raises
        ------
        DataError
            If `X` is not as described.
        """
        h = self._pad(self._activate(self._encoder.forward(X)))
        outputs: Array = _core.forward_chosen(
            self._D,
            self._c,
            h,
            sampled.columns,
            sampled.rows,
            self._n_threads,
            self._level,
        )
        return outputs

    def _pad(self, h: Array) -> Array:
        """Return activations in rows as long as those of the decoder."""
        padded = np.zeros((len(h), self._D.shape[1]), dtype=h.dtype)
        padded[:, : h.shape[1]] = h
        return padded

    def _activate(self, z: Array) -> Array:
        h = self._layer.activation(z, self._slopes)
        return h if self._layer.signs is None else self._layer.signs * h

    def _descend(self, z: Array, h: Array, dh: Array, shares: Array) -> None:
        """Update the encoder by the derivative with respect to its activations."""
        if self._l1_activation:
            dh += self._l1_activation * shares[:, np.newaxis] * np.sign(h)
        if self._layer.signs is not None:
            dh *= self._layer.signs
        dz = self._layer.activation.derivative(z, self._slopes) * dh
        if self._slopes is not None:
            gradient = (self._layer.activation.slope_derivative(z) * dh).sum(axis=0)
            self._slopes -= self._rule.learning_rate * gradient
        self._encoder.backward_batch(dz)

    @np.errstate(over="ignore", invalid="ignore")
    def forward(self, X: Matrix) -> Array:
        """Compute all outputs, by dense decoding.

        Parameters
        ----------
        X : C-contiguous ndarray or CSR matrix of shape (n_samples, n_inputs)
            Inputs in the dtype of the stack; the caller cuts large inputs into chunks.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            Outputs, in memory of their own.

        Raises
        ------
        DataError
            If `X` is not as described.
        """
        h = self._activate(self._encoder.forward(X))
        with self._threads:
            outputs: Array = h @ self._D[:, : h.shape[1]].T
        outputs += self._c
        return outputs

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
        self._rule = replace(self._rule, learning_rate=learning_rate)
        self._encoder.set_learning_rate(learning_rate)

    def stack(self) -> RectifierStack:
        """Return the parameters as they are after the last step.

        Returns
        -------
        RectifierStack
            Encoder and decoder, copied.

        Raises
        ------
        ParameterError
            If a parameter is not finite.
        """
        linear = self._encoder.stack().layers[0]
        encoder = replace(self._layer, W=linear.W, b=linear.b, slopes=self._slopes)
        decoder = Layer(self._D[:, : encoder.n_units].T, self._c, "identity")
        return replace(self._given, layers=(encoder, decoder))

    def load(self, stack: RectifierStack) -> None:
        """Go on from the parameters of a stack.

        Parameters
        ----------
        stack : RectifierStack
            A stack of the same architecture and dtype.

        Raises
        ------
        ParameterError
            If its architecture or dtype is another one.
        """
        check_same_architecture(self._given, stack)
        self._layer, decoder = stack.layers
        self._encoder.load(_linear(stack))
        slopes = self._layer.slopes
        self._slopes = None if slopes is None else slopes.copy()
        # Rows of whole blocks of 64 bytes, which the core reads at a time.
        n_units, n_outputs = decoder.W.shape
        lanes = 64 // stack.dtype.itemsize
        n_padded = -(-n_units // lanes) * lanes
        self._D = np.zeros((n_outputs, n_padded), dtype=stack.dtype)
        self._D[:, :n_units] = decoder.W.T
        self._c = decoder.b.copy()

    def state(self) -> dict[str, Array]:
        """Return all that later steps depend on, but the learning rate.

        Returns
        -------
        dict of str to ndarray
            Parameters, copied. A network built from the same arguments goes on from
            them with the same bits.
        """
        return self._encoder.state() | {
            name: array.copy() for name, array in self._arrays().items()
        }

    def set_state(self, state: dict[str, Array]) -> None:
        """Go on from what `state` returned.

        Parameters
        ----------
        state : dict of str to ndarray
            State of a network of the same architecture.

        Raises
        ------
        ParameterError
            If an array is missing, unknown, or of another shape or dtype. Nothing is
            changed then.
        """
        check_state(self.state(), state)
        arrays = self._arrays()
        for name, array in arrays.items():
            array[:] = state[name]
        self._encoder.set_state(
            {name: array for name, array in state.items() if name not in arrays}
        )

    def _arrays(self) -> dict[str, Array]:
        """Return the arrays that a step changes, but for those of the encoder."""
        arrays = {"D": self._D, "c": self._c}
        if self._slopes is not None:
            arrays["slopes"] = self._slopes
        return arrays

    def statistics(self) -> list[LayerStatistics]:
        """Return the counts of hidden zeros since the last call and start new ones.

        Returns
        -------
        list of LayerStatistics
            One entry, over the rows of all steps since then.
        """
        return [self._counter.take()]


def forward_chosen(D: Array, c: Array, h: Array, columns: Array, rows: Array) -> Array:
    """Compute chosen outputs of a decoder: what the compiled core does, plainly.

    Parameters
    ----------
    D : ndarray of shape (n_outputs, n_units)
        Weights, one row for each output.
    c : ndarray of shape (n_outputs,)
        Biases.
    h : ndarray of shape (n_rows, n_units)
        Hidden activations.
    columns, rows : ndarray of int32 of shape (n,)
        Output, and row of the batch that it belongs to.

    Returns
    -------
    ndarray of shape (n,)
        Outputs.
    """
    outputs: Array = (D[columns] * h[rows]).sum(axis=1) + c[columns]
    return outputs


def backward_chosen(
    D: Array,
    c: Array,
    h: Array,
    columns: Array,
    rows: Array,
    delta: Array,
    rate: float,
) -> Array:
    """Update a decoder in place: what the compiled core does, plainly.

    Parameters
    ----------
    D : ndarray of shape (n_outputs, n_units)
        Weights, one row for each output. Only rows in `columns` change.
    c : ndarray of shape (n_outputs,)
        Biases, alike.
    h : ndarray of shape (n_rows, n_units)
        Hidden activations.
    columns, rows : ndarray of int32 of shape (n,)
        Output, and row of the batch that it belongs to.
    delta : ndarray of shape (n,)
        Derivative of the loss with respect to each of these outputs.
    rate : float
        Learning rate.

    Returns
    -------
    ndarray of shape (n_rows, n_units)
        Derivative with respect to `h`, by the weights before the update.
    """
    dh = np.zeros_like(h)
    np.add.at(dh, rows, delta[:, np.newaxis] * D[columns])
    np.subtract.at(D, columns, rate * delta[:, np.newaxis] * h[rows])
    np.subtract.at(c, columns, rate * delta)
    return dh


def _linear(stack: RectifierStack) -> RectifierStack:
    """Return the encoder without its activation."""
    encoder = stack.layers[0]
    return RectifierStack((Layer(encoder.W, encoder.b, "identity"),))


def _check_stack(stack: RectifierStack) -> None:
    if len(stack.layers) != 2:
        raise ParameterError(
            f"the stack has {len(stack.layers)} layers, expected 2: an encoder and a "
            "decoder. Train one layer at a time."
        )
    decoder = stack.layers[1]
    if str(decoder.activation) != "identity" or decoder.signs is not None:
        raise ParameterError(
            f"the decoder is {decoder!r}, expected the activation 'identity' and no "
            "signs. Leave them to the loss that compares outputs with targets."
        )


def _checked(rule: Rule) -> SGD:
    if isinstance(rule, SGD) and rule.momentum == 0.0 and rule.l2 == 0.0:
        return rule
    raise ParameterError(
        f"rule is {rule!r}, but reconstruction sampling needs plain gradient descent: "
        "momentum, weight decay and Adam would move all weights in every step. Give "
        "solver='sgd' with momentum 0 and no weight decay, or decode all outputs."
    )
