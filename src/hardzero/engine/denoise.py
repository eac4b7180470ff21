"""Denoising: training a network to put out its inputs as they were before the noise.

A step corrupts the rows of its batch, sends them through the network and compares the
outputs with what the rows were, or with targets made from that:

    x~ = corrupted x;  h = s f(x~ W + b);  a = h V + c;  loss = sum_j l(a_j, x_j)

The noise of a row depends on the seed, the layer, the epoch and the content of the row
of the training set, never on its number or its batch.

References
----------
Vincent, Larochelle, Bengio & Manzagol 2008, "Extracting and composing robust features
with denoising autoencoders", section 2.3. Glorot, Bordes & Bengio 2011, "Deep sparse
rectifier neural networks", section 3.2.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hardzero.engine.corruption import Corruptor
from hardzero.engine.reconstruction import Reconstruction
from hardzero.kernels.network import Matrix, Network, Rows, TrainingSet, require_bound
from hardzero.kernels.sampled import (
    SampledAutoencoder,
    SampledOutputs,
    sample_outputs,
)
from hardzero.kernels.statistics import LayerStatistics
from hardzero.random import stream_key
from hardzero.stack import RectifierStack

__all__ = ["Change", "DenoisingNetwork", "SampledDenoisingNetwork"]

Array = npt.NDArray[Any]
UInt64 = npt.NDArray[np.uint64]
Change = Callable[[Matrix], Matrix]
"""Makes other rows of rows, of the same shape."""

_PIECE = 2**20  # outputs that are in memory at a time when no step is made
_SAMPLED_ROWS = 1000  # the same, where some outputs of a row are computed
_VALIDATION = 0  # the epoch that validation rows get their noise from


class DenoisingNetwork:
    """A network with inputs as targets, whose steps corrupt the inputs.

    It obeys the protocol `hardzero.kernels.network.Network`, so that
    `hardzero.engine.train.train` trains it with `Reconstruction` as objective.

    Parameters
    ----------
    network : Network
        Kernels of encoder and decoder.
    corruptor : Corruptor
        Noise.
    objective : Reconstruction
        What outputs cost.
    row_hashes : ndarray of uint64 of shape (n_samples,)
        What the noise of each row of the training set depends on.
    seed : int
        Seed of the noise.
    purpose : str
        What tells its noise from that of other networks with the same seed.
    inputs, target : callable, optional
        Make inputs and targets of the rows; the rows themselves, if not given.
    """

    def __init__(
        self,
        network: Network,
        corruptor: Corruptor,
        objective: Reconstruction,
        row_hashes: UInt64,
        *,
        seed: int,
        purpose: str,
        inputs: Change | None = None,
        target: Change | None = None,
    ) -> None:
        self._network = network
        self._corruptor = corruptor
        self._objective = objective
        self._hashes = row_hashes
        self._seed = seed
        self._purpose = purpose
        self._inputs = inputs or _unchanged
        self._target = target or _unchanged
        self._data: TrainingSet | None = None
        self.begin_epoch(1)

    def bind(  # noqa: D102
        self, X: Matrix, y: Array | None = None, sample_weight: Array | None = None
    ) -> None:
        if sample_weight is not None:
            sample_weight = sample_weight.astype(X.dtype, copy=False)
        self._data = TrainingSet(X, y, sample_weight)

    def begin_epoch(self, number: int) -> None:  # noqa: D102
        self._key = self._key_of(number)
        self._network.begin_epoch(number)

    def step(self, rows: Rows) -> float:  # noqa: D102
        data = require_bound(self._data)
        shown = data.X[rows]
        outputs = self._forward(rows, shown)
        loss, delta = self._objective.loss_and_delta(
            outputs, self._target(shown), data.shares(rows)
        )
        if math.isfinite(loss):
            self._network.backward_batch(delta)
        return loss

    def forward_batch(self, rows: Rows) -> Array:  # noqa: D102
        return self._forward(rows, require_bound(self._data).X[rows])

    def loss(self, X: Matrix, row_hashes: UInt64, sample_weight: Array | None) -> float:
        """Return the weighted mean loss of some rows, always with the same noise.

        Parameters
        ----------
        X : C-contiguous ndarray or CSR matrix of shape (n, n_inputs)
            Rows.
        row_hashes : ndarray of uint64 of shape (n,)
            What the noise of each row depends on.
        sample_weight : ndarray of shape (n,) or None
            Weights, 0 or more and not all 0.

        Returns
        -------
        float
            Loss.
        """
        weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        size = max(1, _PIECE // X.shape[1])
        key, total = self._key_of(_VALIDATION), 0.0
        for start in range(0, X.shape[0], size):
            rows = slice(start, start + size)
            corrupted = self._corruptor(self._inputs(X[rows]), row_hashes[rows], key)
            losses = self._objective.losses(
                self._network.forward(corrupted), self._target(X[rows])
            )
            counts = weights[rows] > 0  # 0 times infinity is not 0
            total += float(losses[counts] @ weights[rows][counts].astype(np.float64))
        return total / float(weights.sum(dtype=np.float64))

    def backward_batch(self, delta: Array) -> None:  # noqa: D102
        self._network.backward_batch(delta)

    def forward(self, X: Matrix) -> Array:  # noqa: D102
        return self._network.forward(X)

    def set_learning_rate(self, learning_rate: float) -> None:  # noqa: D102
        self._network.set_learning_rate(learning_rate)

    def stack(self) -> RectifierStack:  # noqa: D102
        return self._network.stack()

    def load(self, stack: RectifierStack) -> None:  # noqa: D102
        self._network.load(stack)

    def state(self) -> dict[str, Array]:  # noqa: D102
        return self._network.state()

    def set_state(self, state: dict[str, Array]) -> None:  # noqa: D102
        self._network.set_state(state)

    def statistics(self) -> list[LayerStatistics]:  # noqa: D102
        return self._network.statistics()

    def _forward(self, rows: Rows, shown: Matrix) -> Array:
        data = require_bound(self._data)
        weights = None if data.sample_weight is None else data.sample_weight[rows]
        hashes = self._hashes[rows]
        corrupted = self._corruptor(self._inputs(shown), hashes, self._key)
        self._network.bind(corrupted, None, weights)
        return self._network.forward_batch(np.arange(len(rows)))

    def _key_of(self, epoch: int) -> np.uint64:
        return stream_key(self._seed, f"corruption of {self._purpose}", epoch)


class SampledDenoisingNetwork(DenoisingNetwork):
    """The same for sparse rows, of whose many outputs only some are computed.

    Parameters
    ----------
    network : SampledAutoencoder
        Kernels of encoder and decoder.
    corruptor : Corruptor
        Noise.
    objective : Reconstruction
        What outputs cost.
    row_hashes : ndarray of uint64 of shape (n_samples,)
        What the noise of each row of the training set depends on.
    share : float
        Share of the zeros that are computed, above 0 and at most 1.
    seed : int
        Seed of the noise, and of the choice of zeros.
    purpose : str
        What tells its noise from that of other networks with the same seed.

    References
    ----------
    Dauphin, Glorot & Bengio 2011, "Large-scale learning of embeddings with
    reconstruction sampling", section 3.
    """

    def __init__(
        self,
        network: SampledAutoencoder,
        corruptor: Corruptor,
        objective: Reconstruction,
        row_hashes: UInt64,
        *,
        share: float,
        seed: int,
        purpose: str,
    ) -> None:
        self._sampled = network
        self._share = share
        super().__init__(
            cast("Network", network),  # asked for nothing that it has not
            corruptor,
            objective,
            row_hashes,
            seed=seed,
            purpose=purpose,
        )

    def begin_epoch(self, number: int) -> None:  # noqa: D102
        self._key, self._choice = self._key_of(number), self._choice_of(number)

    def step(self, rows: Rows) -> float:  # noqa: D102
        data = require_bound(self._data)
        corrupted, chosen = self._draw(
            data.X[rows], self._hashes[rows], self._key, self._choice
        )
        return self._sampled.step(
            corrupted, chosen, data.shares(rows), self._objective.decoder.both
        )

    def loss(  # noqa: D102
        self, X: Matrix, row_hashes: UInt64, sample_weight: Array | None
    ) -> float:
        weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        shares = weights / weights.sum(dtype=np.float64)
        keys = self._key_of(_VALIDATION), self._choice_of(_VALIDATION)
        total = 0.0
        for start in range(0, X.shape[0], _SAMPLED_ROWS):
            rows = slice(start, start + _SAMPLED_ROWS)
            corrupted, chosen = self._draw(X[rows], row_hashes[rows], *keys)
            outputs = self._sampled.outputs(corrupted, chosen)
            terms = self._objective.decoder.terms(outputs, chosen.targets)
            total += float((terms * chosen.weights) @ shares[rows][chosen.rows])
        return total

    def _draw(
        self, clean: Matrix, row_hashes: UInt64, key: np.uint64, choice: np.uint64
    ) -> tuple[Matrix, SampledOutputs]:
        corrupted = self._corruptor(clean, row_hashes, key)
        chosen = sample_outputs(clean, corrupted, row_hashes, choice, self._share)
        return corrupted, chosen

    def _choice_of(self, epoch: int) -> np.uint64:
        return stream_key(self._seed, f"outputs of {self._purpose}", epoch)


def _unchanged(rows: Matrix) -> Matrix:
    return rows
