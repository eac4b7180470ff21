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
before W is updated. `hardzero.kernels.rules` says what is done with the gradients. The
options of `hardzero.kernels.options` change this as follows; u are the numbers that
`hardzero.random` has for the key of the level and the content of each row.

===========  ==========================================================================
dropout      x = k * (h of the layer below, or the inputs) with k = 0 where u < p, and
             1 / (1 - p) elsewhere;  delta_h = k * delta_x of the layer above
batch_norm   in hidden layers: z = x W;  mu = sum r z;  var = sum r (z - mu)^2;
             n = (z - mu) / sqrt(var + epsilon);  a = gamma n + b
...backward  delta_z = gamma / sqrt(var + epsilon) (delta_a - r sum delta_a
             - r n sum (n delta_a)) takes the place of delta_a for W and x
...gradient  of gamma: n delta_a summed over rows
...running   mean <- 0.9 mean + 0.1 mu;  variance <- 0.9 variance + 0.1 var, with each
             update unless all r are 0
...folded    W and b of `forward` and `stack` are W gamma / sqrt(variance + epsilon)
             and b - mean gamma / sqrt(variance + epsilon)
clip_norm    g <- g min(1, clip_norm / |g|), g: all gradients, as one vector
l1_weights   W <- sign(W) max(|W| - learning_rate l1_weights, 0), after the rule
max_norm     w <- w min(1, max_norm / |w|), w: each column of W in hidden layers, last
===========  ==========================================================================

References
----------
.. [1] Glorot, Bordes & Bengio, "Deep sparse rectifier neural networks", 2011, section 3
   (signs, penalty on activations).
.. [2] Ioffe & Szegedy, "Batch normalization", 2015, section 3 (its backward pass, here
   with weighted rows).
"""

# ruff: noqa: D102  (the methods are documented in `Network`)

import math
from collections.abc import Iterator
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
    check_options,
    check_same_architecture,
    check_settings,
    check_softmax,
    check_state,
    check_training_set,
    moments,
    require_bound,
    require_classes,
)
from hardzero.kernels.options import (
    BATCH_NORM_EPSILON,
    BATCH_NORM_MOMENTUM,
    NO_OPTIONS,
    StepOptions,
)
from hardzero.kernels.rules import Adam, Rule
from hardzero.kernels.statistics import LayerStatistics, UnitCounter
from hardzero.random import uniforms
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
    options : StepOptions, optional
        Dropout, batch normalisation, penalties and bounds; none if left out.
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
        options: StepOptions = NO_OPTIONS,
        n_threads: int = 1,
    ) -> None:
        check_settings(stack, rule, l1_activation, n_threads)
        check_options(stack, options)
        self._rule = rule
        self._l1_activation = l1_activation
        self._options = options
        self._data: TrainingSet | None = None
        self._counters = [UnitCounter(layer.n_units) for layer in stack.layers[:-1]]
        self._outputs: Array | None = None
        self._given = stack
        self.begin_epoch(1)
        self.load(stack)

    def bind(
        self, X: Matrix, y: Array | None = None, sample_weight: Array | None = None
    ) -> None:
        self._data = check_training_set(self._given, X, y, sample_weight)

    def begin_epoch(self, number: int) -> None:
        self._keys = self._options.keys(number)
        self._epoch = number

    @np.errstate(over="ignore", invalid="ignore")
    def step(self, rows: Rows) -> float:
        check_softmax(self._given)
        y = require_classes(self._data)
        outputs = self.forward_batch(rows)
        loss, delta = log_loss(outputs, y[rows], self._shares)
        if math.isfinite(loss):
            self.backward_batch(delta)
        return loss

    @np.errstate(over="ignore", invalid="ignore")
    def forward_batch(self, rows: Rows) -> Array:
        data = require_bound(self._data)
        self._shares = data.shares(rows)
        self._masks = []
        h = data.X[rows]
        for level, layer in enumerate(self._layers):
            if self._options.drops:
                mask = self._mask(level, data, rows)
                self._masks.append(mask)
                h = (
                    h.multiply(mask).tocsr()
                    if level == 0 and data.is_sparse
                    else h * mask
                )
            h = layer.forward_batch(h, self._shares)
        for counter, layer in zip(self._counters, self._layers, strict=False):
            counter.add(layer.h != 0.0)
        self._outputs = self._layers[-1].h
        return self._outputs

    def _mask(self, level: int, data: TrainingSet, rows: Rows) -> Array:
        p = self._given.dtype.type(self._options.dropout[level])
        n_units = self._given.layers[level].n_inputs
        u = uniforms(self._keys[level], data.row_hashes[rows], n_units)
        kept = u >= np.float32(p)
        mask: Array = kept * (1 / (1 - p))
        return mask

    @np.errstate(over="ignore", invalid="ignore")
    def backward_batch(self, delta: Array) -> None:
        check_delta(delta, self._outputs)
        self._outputs = None
        self._n_steps += 1
        penalty = self._l1_activation * self._shares[:, np.newaxis]
        for level in reversed(range(len(self._layers))):
            layer = self._layers[level]
            if layer.is_hidden:
                if self._options.drops:
                    delta = self._masks[level + 1] * delta
                delta = delta + penalty * np.sign(layer.h)
            delta = layer.backward(delta, self._shares)
        self._descend()

    def _descend(self) -> None:
        learned = [
            parameter
            for layer in self._layers
            for name, parameter in layer.parameters.items()
            if name != "b" or self._options.fit_biases
        ]
        squares = [np.square(p.gradient, dtype=np.float64).sum() for p in learned]
        norm = math.sqrt(sum(squares))
        if norm > self._options.clip_norm:
            for p in learned:
                p.gradient = p.gradient * (self._options.clip_norm / norm)
        for p in learned:
            p.descend(self._rule, self._n_steps)
        shrinkage = self._rule.learning_rate * self._options.l1_weights
        for layer in self._layers:
            W = layer.parameters["W"]
            W.value = np.sign(W.value) * np.maximum(np.abs(W.value) - shrinkage, 0.0)
            if layer.is_hidden:
                norms = np.sqrt((W.value * W.value).sum(axis=0))
                is_long = norms > self._options.max_norm
                W.value[:, is_long] *= self._options.max_norm / norms[is_long]

    @np.errstate(over="ignore", invalid="ignore")
    def forward(self, X: Matrix) -> Array:
        check_inputs(self._given, X)
        h: Array = X
        for layer in self._layers:
            h = layer.outputs(h)
        return h

    def set_learning_rate(self, learning_rate: float) -> None:
        self._rule = replace(self._rule, learning_rate=learning_rate)

    def stack(self) -> RectifierStack:
        layers = tuple(layer.freeze() for layer in self._layers)
        return RectifierStack(layers, self._given.output_link)

    def load(self, stack: RectifierStack) -> None:
        check_same_architecture(self._given, stack)
        self._layers = [
            _Layer(
                layer,
                self._rule.l2,
                self._options,
                is_hidden=number < len(stack.layers),
            )
            for number, layer in enumerate(stack.layers, start=1)
        ]
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
        for number, layer in enumerate(self._layers):
            for name, parameter in layer.parameters.items():
                yield f"{name}.{number}", parameter.value
                for moment in moments(self._rule):
                    yield f"{moment}.{name}.{number}", parameter.moments[moment]
            if layer.normalises:
                yield f"mean.{number}", layer.mean
                yield f"variance.{number}", layer.variance

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

    def __init__(
        self, layer: Layer, l2: float, options: StepOptions, is_hidden: bool
    ) -> None:
        self.is_hidden = is_hidden
        self.normalises = options.batch_norm and is_hidden
        self._given = layer
        self._signs = np.ones_like(layer.b) if layer.signs is None else layer.signs
        self.parameters = {"W": _Parameter(layer.W, l2), "b": _Parameter(layer.b)}
        if layer.slopes is not None:
            self.parameters["slopes"] = _Parameter(layer.slopes)
        if self.normalises:
            self.parameters["gamma"] = _Parameter(np.ones_like(layer.b))
            self.mean = np.zeros_like(layer.b)
            self.variance = np.ones_like(layer.b)

    def forward_batch(self, x: Matrix, r: Array) -> Array:
        self.x = x
        z = x @ self._value("W")
        if self.normalises:
            self._mu = r @ z
            self._var = r @ (z - self._mu) ** 2
            self._n = (z - self._mu) / np.sqrt(self._var + BATCH_NORM_EPSILON)
            self.a = self._value("gamma") * self._n + self._value("b")
        else:
            self.a = z + self._value("b")
        self.h = self._signs * self._given.activation(self.a, self._slopes)
        return self.h

    def outputs(self, x: Matrix) -> Array:
        W, b = self._folded()
        h: Array = self._signs * self._given.activation(x @ W + b, self._slopes)
        return h

    def backward(self, delta_h: Array, r: Array) -> Array:
        """Set the gradients and return the derivative with respect to the inputs."""
        f = self._given.activation
        delta_f = self._signs * delta_h
        delta_a = f.derivative(self.a, self._slopes) * delta_f
        delta_z = self._normalise_back(delta_a, r) if self.normalises else delta_a
        self.parameters["W"].gradient = self.x.T @ delta_z
        self.parameters["b"].gradient = delta_a.sum(axis=0)
        if self._slopes is not None:
            gradient = (f.slope_derivative(self.a) * delta_f).sum(axis=0)
            self.parameters["slopes"].gradient = gradient
        delta_x: Array = delta_z @ self._value("W").T
        return delta_x

    def _normalise_back(self, delta_a: Array, r: Array) -> Array:
        n, r = self._n, r[:, np.newaxis]
        scale = self._value("gamma") / np.sqrt(self._var + BATCH_NORM_EPSILON)
        gradient = (n * delta_a).sum(axis=0)
        self.parameters["gamma"].gradient = gradient
        if r.any():
            m = BATCH_NORM_MOMENTUM
            self.mean = (1.0 - m) * self.mean + m * self._mu
            self.variance = (1.0 - m) * self.variance + m * self._var
        delta_z: Array = scale * (delta_a - r * delta_a.sum(axis=0) - r * n * gradient)
        return delta_z

    def freeze(self) -> Layer:
        W, b = self._folded()
        return Layer(W, b, self._given.activation, self._given.signs, self._slopes)

    def _folded(self) -> tuple[Array, Array]:
        W, b = self._value("W"), self._value("b")
        if not self.normalises:
            return W, b
        scale = self._value("gamma") / np.sqrt(self.variance + BATCH_NORM_EPSILON)
        return W * scale, b - self.mean * scale

    def _value(self, name: str) -> Array:
        return self.parameters[name].value

    @property
    def _slopes(self) -> Array | None:
        return self._value("slopes") if "slopes" in self.parameters else None


class _Parameter:
    """One array that is learned, its gradient, and the state of its update rule."""

    gradient: Array

    def __init__(self, value: Array, l2: float = 0.0) -> None:
        self.value = value.copy()
        self._l2 = l2
        self.moments = {"m": np.zeros_like(value), "v": np.zeros_like(value)}

    def descend(self, rule: Rule, t: int) -> None:
        g = self.gradient + self._l2 * self.value
        m, v = self.moments["m"], self.moments["v"]
        if isinstance(rule, Adam):
            m = rule.beta1 * m + (1.0 - rule.beta1) * g
            v = rule.beta2 * v + (1.0 - rule.beta2) * g * g
            mean = m / (1.0 - rule.beta1**t)
            scale = (np.sqrt(v) + rule.epsilon) / math.sqrt(1.0 - rule.beta2**t)
            self.value = self.value - rule.learning_rate * mean / scale
        else:
            m = rule.momentum * m + g
            move = g + rule.momentum * m if rule.nesterov else m
            self.value = self.value - rule.learning_rate * move
        self.moments = {"m": m, "v": v}
