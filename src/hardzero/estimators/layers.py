"""One layer of an auto-encoder: how it is to be trained, and what it has learned.

A layer sees what the layer below makes of the rows. Where that is not what the decoder
puts out, targets are made of it, and the way back turns outputs of the decoder into
outputs of the layer below:

==================================  ===========================  =======================
case                                target                       way back
==================================  ===========================  =======================
decoder without negative outputs    s h, with the signs s of     s times the
above a layer with signs            the layer below              reconstruction
"sigmoid" above a tanh layer        (h + 1) / 2                  2 (reconstruction) - 1
"linear(pre)"                       the pre-activation of the    the activation of the
                                    layer below                  layer below
all others                          h                            the reconstruction
==================================  ===========================  =======================
"""

# ruff: noqa: D102  (what is obvious from names and types has no docstring)

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hardzero.activations import Activation
from hardzero.engine.corruption import Corruption, parse_corruption
from hardzero.engine.denoise import Change
from hardzero.engine.reconstruction import Decoder, Linear, parse_decoder
from hardzero.engine.train import TrainingState
from hardzero.kernels.network import Matrix
from hardzero.results import FitHistory
from hardzero.stack import Layer, RectifierStack

__all__ = [
    "HOMOGENEOUS",
    "Forward",
    "LayerPlan",
    "LayerRows",
    "LearnedLayer",
    "choose_corruption",
    "choose_decoder",
    "value_range",
]

Array = npt.NDArray[Any]
UInt64 = npt.NDArray[np.uint64]

Forward = Callable[[RectifierStack, Matrix], Array]
"""Sends rows through a network."""


@dataclass(frozen=True, eq=False)
class LayerRows:
    """Rows that a layer is shown.

    Parameters
    ----------
    X : C-contiguous ndarray or canonical CSR matrix of shape (n_rows, n_columns)
        What the layer below makes of the rows; for the first layer the features.
    hashes : ndarray of uint64 of shape (n_rows,)
        What the noise of each row depends on: hashes of the features.
    weights : ndarray of float64 of shape (n_rows,) or None
        Weights; None means all 1.
    """

    X: Matrix
    hashes: UInt64
    weights: Array | None

    def take(self, chosen: Array) -> "LayerRows":
        weights = None if self.weights is None else self.weights[chosen]
        return LayerRows(self.X[chosen], self.hashes[chosen], weights)

    def replaced(self, X: Matrix) -> "LayerRows":
        return LayerRows(X, self.hashes, self.weights)

    def through(self, stack: RectifierStack, forward: Forward) -> "LayerRows":
        return self.replaced(forward(stack, self.X))


@dataclass(frozen=True, eq=False)
class LayerPlan:
    """How a layer is to be trained, and what its decoder puts out.

    Parameters
    ----------
    number : int
        Number of the layer, counted from 1.
    n_units : int
        Number of units.
    activation : Activation
        Activation of the units.
    corruption : Corruption
        Noise on the inputs.
    decoder : Decoder
        What outputs cost.
    l1_activation : float
        Penalty on the encodings.
    below : Layer or None
        Encoder of the layer below; None for the first layer.
    """

    number: int
    n_units: int
    activation: Activation
    corruption: Corruption
    decoder: Decoder
    l1_activation: float
    below: Layer | None  # the layer that makes its inputs

    @property
    def inputs(self) -> Change | None:
        """What makes inputs of the rows, which are pre-activations, if need be."""
        return self._activate if self.sees_preactivations else None

    @property
    def target(self) -> Change | None:
        """What makes targets of the rows."""
        is_same = self._signs is None and not self._is_shifted
        return None if is_same else self._to_target

    def reconstruct(self, a: Array) -> Array:
        """Return outputs of the decoder as outputs of the layer below.

        Parameters
        ----------
        a : ndarray of shape (n_rows, n_columns)
            Outputs of the decoder, before its link.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            What the layer below would have put out.
        """
        made = self.decoder.reconstruct(a)
        if self.sees_preactivations:
            return np.asarray(self._activate(made))
        if self._is_shifted:
            made = 2 * made - 1
        return np.asarray(made if self._signs is None else made * self._signs)

    @property
    def sees_preactivations(self) -> bool:
        is_asked = isinstance(self.decoder, Linear) and self.decoder.before_activation
        return self.below is not None and is_asked

    @property
    def _signs(self) -> Array | None:
        """Signs that targets do without."""
        if self.below is None or self.decoder.accepts[0] < 0:
            return None
        return self.below.signs

    @property
    def _is_shifted(self) -> bool:
        is_tanh = self.below is not None and self.below.activation.name == "tanh"
        return is_tanh and self.decoder.name == "sigmoid"

    def _to_target(self, h: Matrix) -> Matrix:
        target = h if self._signs is None else h * self._signs
        return (target + 1) / 2 if self._is_shifted else target

    def _activate(self, z: Matrix) -> Matrix:
        assert self.below is not None
        h: Array = self.below.activation(z, self.below.slopes)
        return h if self.below.signs is None else h * self.below.signs


@dataclass(frozen=True, eq=False)
class LearnedLayer:
    """A layer that was trained.

    Parameters
    ----------
    plan : LayerPlan
        How it was trained.
    stack : RectifierStack
        Encoder and decoder.
    history : FitHistory
        What happened in each epoch.
    rate : float
        Learning rate.
    state : TrainingState or None
        What later training goes on from; None if there is nothing.
    """

    plan: LayerPlan
    stack: RectifierStack
    history: FitHistory
    rate: float
    state: TrainingState | None

    @property
    def encoder(self) -> RectifierStack:
        return RectifierStack(self.stack.layers[:1], "identity")

    @property
    def linear(self) -> RectifierStack:
        """The encoder without its activation."""
        layer = self.stack.layers[0]
        return RectifierStack((Layer(layer.W, layer.b, "identity"),), "identity")

    @property
    def best_loss(self) -> float:
        """Validation loss of the epoch whose weights were kept."""
        return self.history.validation_loss[self.history.best_epoch - 1]

    def interrupted(self) -> "LearnedLayer":
        return replace(self, history=replace(self.history, stopped="interrupted"))

    def rescaled(self, scale: Array) -> "LearnedLayer":
        """Return the layer with smaller outputs, of which the decoder makes the same.

        Parameters
        ----------
        scale : ndarray of shape (n_units,)
            What outputs are divided by.

        Returns
        -------
        LearnedLayer
            Layer without a state to go on from.
        """
        encoder, decoder = self.stack.layers
        smaller = replace(encoder, W=encoder.W / scale, b=encoder.b / scale)
        larger = replace(decoder, W=decoder.W * scale[:, None])
        stack = RectifierStack((smaller, larger), "identity")
        return replace(self, stack=stack, state=None)


HOMOGENEOUS: Final = frozenset({"rectifier", "leaky_rectifier", "prelu", "identity"})


def choose_corruption(X: Matrix) -> Corruption:
    """Return the noise that suits inputs of a layer.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_columns)
        Inputs.

    Returns
    -------
    Corruption
        Masking; of more entries where most are 0 anyway.
    """
    return parse_corruption("masking(0.8)" if sp.issparse(X) else "masking(0.5)")


def choose_decoder(inputs: list[Matrix], below: Layer | None) -> Decoder:
    """Return the decoder that suits inputs of a layer.

    Parameters
    ----------
    inputs : list of ndarray or CSR matrix of shape (n_rows, n_columns)
        Training rows, and validation rows if there are any.
    below : Layer or None
        Layer that made them; None for the first layer.

    Returns
    -------
    Decoder
        Linear if there are negative targets; sigmoid for features that are all 0 or 1;
        else softplus.
    """
    if below is not None and below.signs is not None:
        inputs = [X * below.signs for X in inputs]
    if min(value_range(X)[0] for X in inputs) < 0:
        return parse_decoder("linear")
    if below is None and all(map(_is_binary, inputs)):
        return parse_decoder("sigmoid")
    return parse_decoder("softplus")


def _is_binary(X: Matrix) -> bool:
    values = X.data if sp.issparse(X) else X
    return bool(((values == 0) | (values == 1)).all())


def value_range(X: Matrix) -> tuple[float, float]:
    """Return the smallest and the largest entry.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_columns)
        Rows, at least one.

    Returns
    -------
    low, high : float
        Entries.
    """
    return float(X.min()), float(X.max())
