"""The definition of right: a network trained by plain NumPy, one formula a line.

For a layer with inputs x, weights W, biases b, activation f and signs s:

=========  ============================================================================
forward    a = x W + b;  h = s f(a)
penalty    delta_h <- delta_h + l1_activation r sign(h), in hidden layers only
backward   delta_f = s delta_h;  delta_a = f'(a) delta_f;  delta_x = delta_a W^T
gradients  of W: x^T delta_a;  of b: delta_a summed over rows;
           of learned slopes: min(a, 0) delta_f summed over rows
=========  ============================================================================

where r is the share of each row in the batch's total weight, and delta_x is computed
before W is updated. `hardzero.kernels.rules` says what is done with the gradients.

References
----------
.. [1] Glorot, Bordes & Bengio, "Deep sparse rectifier neural networks", 2011, section 3
   (signs, penalty on activations).
"""

# ruff: noqa: D102  (the methods are documented in `Network`)

import math
from dataclasses import replace

import numpy as np

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
    check_softmax,
    check_training_set,
    require_bound,
)
from hardzero.kernels.rules import Adam, Rule
from hardzero.kernels.statistics import LayerStatistics, UnitCounter
from hardzero.stack import Layer, RectifierStack

__all__ = ["ReferenceNetwork", "log_loss"]


class ReferenceNetwork(Network):
    """The network that all others are compared with.

    Parameters
    ----------
    stack : RectifierStack
        Parameters to start from; they are copied.
    rule : SGD or Adam
        Update rule.
    l1_activation : float, default=0.0
        Coefficient of the mean over rows of the sum over hidden units of ``|h|``.
    n_threads : int, default=1
        Not used: NumPy decides.

    Raises
    ------
    ParameterError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> from hardzero.kernels.reference import ReferenceNetwork
    >>> from hardzero.kernels.rules import SGD
    >>> from hardzero.stack import Layer, RectifierStack
    >>> stack = RectifierStack([Layer(np.eye(2), np.zeros(2), "identity")], "softmax")
    >>> network = ReferenceNetwork(stack, SGD(learning_rate=1.0))
    >>> network.bind(np.array([[0.0, 0.0], [0.0, 0.0]]), np.array([0, 1]))
    >>> network.step(np.array([0, 1]))  # the logarithm of 2
    0.6931471805599453
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
        self._data: TrainingSet | None = None
        self._counters = [UnitCounter(layer.n_units) for layer in stack.layers[:-1]]
        self._outputs: Array | None = None
        self._given = stack
        self.load(stack)

    def bind(self, X: Matrix, y: Array, sample_weight: Array | None = None) -> None:
        self._data = check_training_set(self._given, X, y, sample_weight)

    @np.errstate(over="ignore", invalid="ignore")
    def step(self, rows: Rows) -> float:
        check_softmax(self._given)
        outputs = self.forward_batch(rows)
        y = require_bound(self._data).y[rows]
        loss, delta = log_loss(outputs, y, self._shares)
        if math.isfinite(loss):
            self.backward_batch(delta)
        return loss

    @np.errstate(over="ignore", invalid="ignore")
    def forward_batch(self, rows: Rows) -> Array:
        data = require_bound(self._data)
        self._shares = data.shares(rows)
        h = data.X[rows]
        for layer in self._layers:
            layer.x = h
            layer.a, layer.h = layer.outputs(h)
            h = layer.h
        for counter, layer in zip(self._counters, self._layers, strict=False):
            counter.add(layer.h != 0.0)
        self._outputs = self._layers[-1].h
        return self._outputs

    @np.errstate(over="ignore", invalid="ignore")
    def backward_batch(self, delta: Array) -> None:
        check_delta(delta, self._outputs)
        self._outputs = None
        self._n_steps += 1
        penalty = self._l1_activation * self._shares[:, np.newaxis]
        for layer in reversed(self._layers):
            if layer is not self._layers[-1]:
                delta = delta + penalty * np.sign(layer.h)
            delta = layer.backward(delta, self._rule, self._n_steps)

    @np.errstate(over="ignore", invalid="ignore")
    def forward(self, X: Matrix) -> Array:
        check_inputs(self._given, X)
        h: Array = X
        for layer in self._layers:
            _, h = layer.outputs(h)
        return h

    def set_learning_rate(self, learning_rate: float) -> None:
        self._rule = replace(self._rule, learning_rate=learning_rate)

    def stack(self) -> RectifierStack:
        layers = tuple(layer.freeze() for layer in self._layers)
        return RectifierStack(layers, self._given.output_link)

    def load(self, stack: RectifierStack) -> None:
        check_same_architecture(self._given, stack)
        self._layers = [_Layer(layer, self._rule.l2) for layer in stack.layers]
        self._outputs = None
        self._n_steps = 0

    def statistics(self) -> list[LayerStatistics]:
        return [counter.take() for counter in self._counters]


def log_loss(outputs: Array, y: Array, shares: Array) -> tuple[float, Array]:
    """Return the softmax log loss of a batch and its derivative.

    Parameters
    ----------
    outputs : ndarray of shape (n_rows, n_classes)
        Scores of the classes.
    y : ndarray of int64 of shape (n_rows,)
        Class of each row.
    shares : ndarray of shape (n_rows,)
        Share of each row in the total weight.

    Returns
    -------
    loss : float
        Weighted mean of minus the log-probability of the right class.
    delta : ndarray of shape (n_rows, n_classes)
        Derivative of the loss with respect to `outputs`.
    """
    z = outputs - outputs.max(axis=1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    is_right = np.arange(outputs.shape[1]) == y[:, np.newaxis]
    loss = (shares * -log_p[is_right]).sum()
    delta: Array = shares[:, np.newaxis] * (np.exp(log_p) - is_right)
    return float(loss), delta


class _Layer:
    """Parameters of one layer, and what its backward pass needs of its forward pass."""

    x: Matrix
    a: Array
    h: Array

    def __init__(self, layer: Layer, l2: float) -> None:
        self._given = layer
        self._signs = np.ones_like(layer.b) if layer.signs is None else layer.signs
        self._W = _Parameter(layer.W, l2)
        self._b = _Parameter(layer.b)
        self._slopes = None if layer.slopes is None else _Parameter(layer.slopes)

    def outputs(self, x: Matrix) -> tuple[Array, Array]:
        a = x @ self._W.value + self._b.value
        return a, self._signs * self._given.activation(a, self._slope_values)

    def backward(self, delta_h: Array, rule: Rule, t: int) -> Array:
        f = self._given.activation
        delta_f = self._signs * delta_h
        delta_a = f.derivative(self.a, self._slope_values) * delta_f
        delta_x: Array = delta_a @ self._W.value.T
        self._W.descend(self.x.T @ delta_a, rule, t)
        self._b.descend(delta_a.sum(axis=0), rule, t)
        if self._slopes is not None:
            gradient = (f.slope_derivative(self.a) * delta_f).sum(axis=0)
            self._slopes.descend(gradient, rule, t)
        return delta_x

    def freeze(self) -> Layer:
        return Layer(
            self._W.value,
            self._b.value,
            self._given.activation,
            self._given.signs,
            self._slope_values,
        )

    @property
    def _slope_values(self) -> Array | None:
        return None if self._slopes is None else self._slopes.value


class _Parameter:
    """One array that is learned, and the state of its update rule."""

    def __init__(self, value: Array, l2: float = 0.0) -> None:
        self.value = value.copy()
        self._l2 = l2
        self._m = np.zeros_like(value)
        self._v = np.zeros_like(value)

    def descend(self, gradient: Array, rule: Rule, t: int) -> None:
        g = gradient + self._l2 * self.value
        if isinstance(rule, Adam):
            self._m = rule.beta1 * self._m + (1.0 - rule.beta1) * g
            self._v = rule.beta2 * self._v + (1.0 - rule.beta2) * g * g
            mean = self._m / (1.0 - rule.beta1**t)
            scale = np.sqrt(self._v / (1.0 - rule.beta2**t)) + rule.epsilon
            self.value = self.value - rule.learning_rate * mean / scale
        else:
            self._m = rule.momentum * self._m + g
            move = g + rule.momentum * self._m if rule.nesterov else self._m
            self.value = self.value - rule.learning_rate * move
