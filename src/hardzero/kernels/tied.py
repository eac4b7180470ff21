"""Tied auto-encoders: the decoder's weights are the transpose of the encoder's.

For rows x, encoder weights W, biases b, activation f and signs s, and decoder biases c:

=========  ============================================================================
forward    a = x W + b;  h = s f(a);  outputs = h W^T + c
backward   delta_h = delta W + l1_activation r sign(h);  delta_f = s delta_h;
           delta_a = f'(a) delta_f
gradients  of W: x^T delta_a + delta^T h;  of b: delta_a summed over rows;  of c: delta
           summed over rows;  of learned slopes: min(a, 0) delta_f summed over rows
=========  ============================================================================

where delta is the derivative with respect to the outputs and r the share of each row in
the batch's total weight. The gradient of W is one product, of x above delta with
delta_a above h, so the update rules of `hardzero.kernels.dense` serve as they are, in
place; weight decay meets W once.

The outputs are dense, and so is the decoder's half of the gradient: no row of W is left
alone by a step, and there is nothing to be skipped. This engine of plain formulas is
therefore the reference for tied networks and the fast one as well.

References
----------
.. [1] Vincent, Larochelle, Lajoie, Bengio & Manzagol, "Stacked denoising autoencoders",
   2010, section 2.2 (tied weights).
"""

# ruff: noqa: D102  (the methods are documented in `Network`)

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from hardzero.errors import ParameterError
from hardzero.kernels.dense import _Blas, _BlasThreads, _Parameter
from hardzero.kernels.network import (
    Array,
    Matrix,
    Network,
    Rows,
    TrainingSet,
    check_delta,
    check_inputs,
    check_same_architecture,
    check_settings,
    check_state,
    check_training_set,
    moments,
    require_bound,
)
from hardzero.kernels.rules import Rule
from hardzero.kernels.statistics import LayerStatistics, UnitCounter
from hardzero.stack import Layer, RectifierStack

__all__ = ["TiedNetwork"]


class TiedNetwork(Network):
    """A network of an encoder and a decoder that share their weights.

    Its loss is computed between `forward_batch` and `backward_batch`; it has no `step`.

    Parameters
    ----------
    stack : RectifierStack
        Encoder and decoder to start from; they are copied. The weights of the decoder
        are the transpose of the encoder's, its activation is "identity", and it has no
        signs.
    rule : SGD or Adam
        Update rule.
    l1_activation : float, default=0.0
        Coefficient of the mean over rows of the sum over hidden units of ``|h|``.
    n_threads : int, default=1
        Number of threads that BLAS may use while the network computes.

    Raises
    ------
    ParameterError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> from hardzero.kernels.rules import SGD
    >>> from hardzero.kernels.tied import TiedNetwork
    >>> from hardzero.stack import Layer, RectifierStack
    >>> W = np.array([[2.0], [1.0]])
    >>> encoder = Layer(W, [0.0], "rectifier")
    >>> decoder = Layer(W.T, [0.0, 0.0], "identity")
    >>> network = TiedNetwork(RectifierStack([encoder, decoder]), SGD(0.1))
    >>> network.bind(np.array([[1.0, 1.0]]))
    >>> network.forward_batch(np.array([0]))
    array([[6., 3.]])
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
        self._rule = rule
        self._l1_activation = l1_activation
        self._threads = _BlasThreads(n_threads)
        self._data: TrainingSet | None = None
        self._outputs: Array | None = None
        self._given = stack
        self.begin_epoch(1)
        self.load(stack)
        self._counter = UnitCounter(stack.layers[0].n_units)

    def bind(
        self, X: Matrix, y: Array | None = None, sample_weight: Array | None = None
    ) -> None:
        self._data = check_training_set(self._given, X, y, sample_weight)

    def begin_epoch(self, number: int) -> None:
        self._epoch = number

    def step(self, rows: Rows) -> float:
        raise ParameterError(
            f"step minimises the softmax log loss of classes, but a tied network "
            f"reconstructs its inputs: a batch of {len(rows)} rows has no loss here. "
            "Compute it between forward_batch and backward_batch."
        )

    @np.errstate(over="ignore", invalid="ignore")
    def forward_batch(self, rows: Rows) -> Array:
        data = require_bound(self._data)
        self._shares = data.shares(rows)
        self._x = data.X[rows] if data.is_sparse else data.X.take(rows, axis=0)
        with self._threads:
            self._a = self._x @ self._W.value + self._b.value
            self._h = self._activate(self._a)
            self._outputs = self._decode(self._h)
        self._counter.add(self._h != 0.0)
        return self._outputs

    @np.errstate(over="ignore", invalid="ignore")
    def backward_batch(self, delta: Array) -> None:
        check_delta(delta, self._outputs)
        self._outputs = None
        self._n_steps += 1
        f, slopes = self._encoder.activation, self._slopes
        with self._threads:
            delta_f = delta @ self._W.value
            if self._l1_activation:
                penalty = self._l1_activation * self._shares[:, np.newaxis]
                delta_f += penalty * np.sign(self._h)
            if self._encoder.signs is not None:
                delta_f *= self._encoder.signs
            delta_a = f.derivative(self._a, self._slope_values) * delta_f
            x = self._x.toarray() if sp.issparse(self._x) else self._x
            self._descend(
                self._W, np.concatenate([x, delta]), np.concatenate([delta_a, self._h])
            )
            ones = np.ones((len(delta), 1), dtype=delta.dtype)
            self._descend(self._b, ones, delta_a)
            self._descend(self._c, ones, delta)
            if slopes is not None:
                self._descend(slopes, ones, f.slope_derivative(self._a) * delta_f)

    def _descend(self, parameter: _Parameter, inputs: Array, delta: Array) -> None:
        """Update a parameter whose gradient is ``inputs.T @ delta``."""
        parameter.descend(inputs, delta, self._rule, self._n_steps, self._memory, 1.0)

    @np.errstate(over="ignore", invalid="ignore")
    def forward(self, X: Matrix) -> Array:
        check_inputs(self._given, X)
        with self._threads:
            return self._decode(self._activate(X @ self._W.value + self._b.value))

    def _activate(self, a: Array) -> Array:
        h = self._encoder.activation(a, self._slope_values)
        return h if self._encoder.signs is None else self._encoder.signs * h

    def _decode(self, h: Array) -> Array:
        outputs: Array = h @ self._W.value.T
        outputs += self._c.value
        return outputs

    def set_learning_rate(self, learning_rate: float) -> None:
        self._rule = replace(self._rule, learning_rate=learning_rate)

    def stack(self) -> RectifierStack:
        W, given = self._W.value, self._given
        b, c = self._b.value[0], self._c.value[0]
        encoder = replace(self._encoder, W=W, b=b, slopes=self._slope_values)
        decoder = Layer(W.T, c, "identity")
        return replace(given, layers=(encoder, decoder))

    def load(self, stack: RectifierStack) -> None:
        _check_tied(stack)
        check_same_architecture(self._given, stack)
        self._encoder, decoder = stack.layers
        slopes, blas = self._encoder.slopes, _Blas(stack.dtype)
        self._W = _Parameter(self._encoder.W, blas, self._rule.l2)
        self._b = _Parameter(self._encoder.b, blas)
        self._slopes = None if slopes is None else _Parameter(slopes, blas)
        self._c = _Parameter(decoder.b, blas)
        self._memory = np.empty(self._encoder.W.size, dtype=stack.dtype)
        self._outputs = None
        self._n_steps = 0

    def state(self) -> dict[str, Array]:
        return {
            "n_steps": np.array(self._n_steps, dtype=np.int64),
            "epoch": np.array(self._epoch, dtype=np.uint64),
            **{name: array.copy() for name, array in self._arrays()},
        }

    def set_state(self, state: dict[str, Array]) -> None:
        check_state(self.state(), state)
        for name, array in self._arrays():
            array[:] = state[name]
        self._outputs = None
        self._n_steps = int(state["n_steps"])
        self.begin_epoch(int(state["epoch"]))

    def _arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield the name of each array that a step changes, and the array itself."""
        learned = {"W.0": self._W, "b.0": self._b, "b.1": self._c}
        if self._slopes is not None:
            learned["slopes.0"] = self._slopes
        for name, parameter in learned.items():
            yield name, parameter.array("value")
            for moment in moments(self._rule):
                yield f"{moment}.{name}", parameter.array(moment)

    def statistics(self) -> list[LayerStatistics]:
        return [self._counter.take()]

    @property
    def _slope_values(self) -> Array | None:
        return None if self._slopes is None else self._slopes.value[0]


def _check_tied(stack: RectifierStack) -> None:
    if len(stack.layers) != 2:
        raise ParameterError(
            f"the stack has {len(stack.layers)} layers, expected 2: an encoder and a "
            "decoder. Train one layer at a time."
        )
    encoder, decoder = stack.layers
    if str(decoder.activation) != "identity" or decoder.signs is not None:
        raise ParameterError(
            f"the decoder is {decoder!r}, expected the activation 'identity' and no "
            "signs. Leave them to the loss that compares outputs with targets."
        )
    if not np.array_equal(decoder.W, encoder.W.T):
        raise ParameterError(
            f"the decoder's weights of shape {decoder.W.shape} are not the transpose "
            f"of the encoder's of shape {encoder.W.shape}, expected the same numbers. "
            "Build the decoder as Layer(encoder.W.T, c, 'identity'), or train it "
            "untied by another engine."
        )
