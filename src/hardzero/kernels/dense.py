"""The best that dense code can do: BLAS products that update the weights in place.

What is spared against a framework that computes gradients first and applies them later:

* Plain SGD forms no gradient: one product adds ``-learning_rate x^T delta`` to W. With
  momentum it adds to the momentum instead.
* Nesterov momentum, Adam and weight decay form one gradient at a time, in memory that
  all parameters share, and then work through it in blocks that stay in the cache.
* Weights are stored as (in, out), batches in buffers that are allocated once, and all
  products, also those of biases, are left to one BLAS.
* CSR inputs are multiplied as they are, and their gradient reaches only the rows of W
  whose input occurs in the batch; dropout draws for the stored entries only.
* Clipping scales the factor of those products. It makes each gradient once more, for
  its norm; penalty and bound on weights read all of them after each step.

Zeros inside the network are not used: that is what the compiled core is for, and this
module is what its speed is measured against.
"""

# ruff: noqa: D102  (the methods are documented in `Network`)

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from types import TracebackType
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs
from threadpoolctl import ThreadpoolController

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
from hardzero.kernels.rules import SGD, Adam, Rule
from hardzero.kernels.statistics import LayerStatistics, UnitCounter
from hardzero.random import philox, uniforms
from hardzero.stack import Layer, RectifierStack

__all__ = ["DenseNetwork"]


class DenseNetwork(Network):
    """A `Network` for which all hidden layers are dense.

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
        Number of threads that BLAS may use while the network computes. Results can
        depend on it in the last bits.

    Raises
    ------
    ParameterError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> from hardzero.kernels.dense import DenseNetwork
    >>> from hardzero.kernels.rules import SGD
    >>> from hardzero.stack import Layer, RectifierStack
    >>> stack = RectifierStack([Layer(np.eye(2), np.zeros(2), "identity")], "softmax")
    >>> network = DenseNetwork(stack, SGD(learning_rate=1.0))
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
        self._threads = _BlasThreads(n_threads)
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
        delta = self._layers[-1].delta
        loss = _log_loss(outputs, y[rows], self._shares, out=delta)
        if math.isfinite(loss):
            self.backward_batch(delta)
        return loss

    @np.errstate(over="ignore", invalid="ignore")
    def forward_batch(self, rows: Rows) -> Array:
        data = require_bound(self._data)
        self._shares = data.shares(rows)
        h = data.X[rows] if data.is_sparse else data.X.take(rows, axis=0)
        hashes = data.row_hashes[rows] if self._options.drops else None
        self._masks: list[Array | None] = []
        with self._threads:
            for level, layer in enumerate(self._layers):
                mask = None if hashes is None else self._mask(level, h, hashes)
                self._masks.append(mask)
                h = layer.forward_batch(_masked(h, mask), self._shares)
        for counter, layer in zip(self._counters, self._layers, strict=False):
            counter.add(layer.active)
        self._outputs = self._layers[-1].h
        return self._outputs

    def _mask(self, level: int, h: Matrix, hashes: Array) -> Array | None:
        """Return the factors of activations, of a CSR matrix those of its entries."""
        key, p = self._keys[level], h.dtype.type(self._options.dropout[level])
        if p == 0.0:
            return None
        if sp.issparse(h):
            u = _uniforms_of_entries(key, hashes, h)
        else:
            u = uniforms(key, hashes, h.shape[1])
        mask: Array = (u >= np.float32(p)) * (1 / (1 - p))
        return mask

    @np.errstate(over="ignore", invalid="ignore")
    def backward_batch(self, delta: Array) -> None:
        check_delta(delta, self._outputs)
        self._outputs = None
        self._n_steps += 1
        penalty = self._l1_activation * self._shares[:, np.newaxis]
        is_clipped = self._options.clip_norm < math.inf
        np.copyto(self._layers[-1].delta, delta)
        with self._threads:
            for number in reversed(range(len(self._layers))):
                layer = self._layers[number]
                is_penalised = self._l1_activation and number < len(self._layers) - 1
                layer.backward_activation(penalty if is_penalised else None)
                layer.backward_normalisation(self._shares)
                if number > 0:
                    below, mask = self._layers[number - 1], self._masks[number]
                    layer.backward_inputs(out=below.delta)
                    if mask is not None:
                        below.delta *= mask
                if not is_clipped:
                    self._descend(layer)
            if is_clipped:
                self._descend_clipped()

    def _descend(self, layer: "_Layer", scale: float = 1.0) -> None:
        layer.descend(self._rule, self._n_steps, self._memory, scale)
        layer.shrink(self._rule.learning_rate * self._options.l1_weights)
        if layer is not self._layers[-1]:
            layer.bound(self._options.max_norm)

    def _descend_clipped(self) -> None:
        norms = [layer.gradient_norm(self._memory) for layer in self._layers]
        norm = math.hypot(*norms)
        too_long = norm > self._options.clip_norm
        for layer in self._layers:
            self._descend(layer, self._options.clip_norm / norm if too_long else 1.0)

    @np.errstate(over="ignore", invalid="ignore")
    def forward(self, X: Matrix) -> Array:
        check_inputs(self._given, X)
        h: Array = X
        with self._threads:
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
        blas = _Blas(stack.dtype)
        self._layers = [
            _Layer(
                layer,
                self._rule.l2,
                blas,
                normalises=self._options.batch_norm and number < len(stack.layers),
                fits_biases=self._options.fit_biases,
            )
            for number, layer in enumerate(stack.layers, start=1)
        ]
        # One gradient at a time; no memory is taken by a rule that never writes to it.
        largest = max(layer.W.size for layer in stack.layers)
        self._memory = np.empty(largest, dtype=stack.dtype)
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
            for name, array in layer.arrays(moments(self._rule)):
                yield f"{name}.{number}", array

    def statistics(self) -> list[LayerStatistics]:
        return [counter.take() for counter in self._counters]


def _log_loss(outputs: Array, y: Array, shares: Array, out: Array) -> float:
    """Return the softmax log loss and write its derivative to `out`."""
    rows = np.arange(len(y))
    np.subtract(outputs, outputs.max(axis=1, keepdims=True), out=out)
    right = out[rows, y]
    np.exp(out, out=out)
    total = out.sum(axis=1, keepdims=True)
    out /= total
    out[rows, y] -= 1.0
    out *= shares[:, np.newaxis]
    return float((shares * (np.log(total[:, 0]) - right)).sum())


def _masked(h: Matrix, mask: Array | None) -> Matrix:
    """Return activations times a mask; a CSR matrix is changed in place."""
    if mask is None:
        return h
    if not sp.issparse(h):
        return h * mask
    h.data *= mask
    h.eliminate_zeros()
    return h


def _uniforms_of_entries(key: np.uint64, hashes: Array, x: Matrix) -> Array:
    """Return what `uniforms` holds where a CSR matrix has an entry."""
    row = np.repeat(hashes, np.diff(x.indptr))
    counter = np.zeros((len(row), 4), dtype=np.uint32)
    counter[:, 0] = row & np.uint64(0xFFFFFFFF)
    counter[:, 1] = row >> np.uint64(32)
    counter[:, 2] = x.indices // 4
    words = philox(counter, [int(key) & 0xFFFFFFFF, int(key) >> 32])
    chosen = words[np.arange(len(row)), x.indices % 4]
    u: Array = (chosen >> 8) * 2.0**-24
    return u


class _Layer:
    """One layer with its parameters and its buffers.

    `x`, `a`, `h`, `active` and `delta` are inputs, pre-activations, outputs, whether
    they are other than 0, and the derivative of the loss, for the rows of one batch.
    The rectifier works in place, so that `h` takes the place of `a`.
    """

    def __init__(
        self,
        layer: Layer,
        l2: float,
        blas: "_Blas",
        normalises: bool,
        fits_biases: bool,
    ) -> None:
        self._given = layer
        self._signs = layer.signs
        self._is_rectifier = layer.activation.name == "rectifier"
        self._is_identity = layer.activation.name == "identity"
        self._fits_biases = fits_biases
        self._blas = blas
        self._W = _Parameter(layer.W, blas, l2)
        self._b = _Parameter(layer.b, blas)
        self._slopes = None if layer.slopes is None else _Parameter(layer.slopes, blas)
        self._norm = _Normalisation(layer, blas) if normalises else None
        self._reserve(1)

    def _reserve(self, n_rows: int) -> None:
        shape = (n_rows, self._given.n_units)
        self._capacity = n_rows
        self._a_buffer = np.empty(shape, dtype=self._given.dtype)
        self._delta_buffer = np.empty(shape, dtype=self._given.dtype)
        self._active_buffer = np.empty(shape, dtype=np.bool_)
        self._ones = np.ones((n_rows, 1), dtype=self._given.dtype)

    def forward_batch(self, x: Matrix, shares: Array) -> Array:
        n_rows = x.shape[0]
        if n_rows > self._capacity:
            self._reserve(n_rows)
        self.x = _SparseInputs(x) if sp.issparse(x) else x
        self.a = self._a_buffer[:n_rows]
        self.delta = self._delta_buffer[:n_rows]
        self.active = self._active_buffer[:n_rows]
        self._multiply(x, out=self.a)
        if self._norm is not None:
            self._norm.forward(self.a, self._b.value, shares)
        self.h = self._activate(self.a)
        np.not_equal(self.h, 0.0, out=self.active)
        return self.h

    def outputs(self, x: Matrix) -> Array:
        a = np.empty((x.shape[0], self._given.n_units), dtype=self._given.dtype)
        self._multiply(x, out=a)
        if self._norm is not None:
            scale, shift = self._norm.folded(self._b.value)
            a *= scale
            a += shift
        return self._activate(a)

    def _multiply(self, x: Matrix, out: Array) -> None:
        out[:] = self._b.value if self._norm is None else 0.0
        if sp.issparse(x):
            out += x @ self._W.value
        else:
            self._blas.add_product(x, self._W.value, out)

    def _activate(self, a: Array) -> Array:
        if self._is_rectifier:
            h = np.maximum(a, 0.0, out=a)
        elif self._is_identity:
            h = a
        else:
            h = self._given.activation(a, self._slope_values)
        if self._signs is not None:
            h *= self._signs
        return h

    def backward_activation(self, penalty: Array | None) -> None:
        """Turn `delta` from one of the outputs into one of the pre-activations."""
        if penalty is not None and not self._is_rectifier:
            self.delta += penalty * np.sign(self.h)
        if self._signs is not None:
            self.delta *= self._signs
        if self._is_rectifier:
            if penalty is not None:
                self.delta += penalty  # signs * sign(h) is 1 wherever h is not 0
            self.delta *= self.active
        elif not self._is_identity:
            f = self._given.activation
            if self._slopes is not None:
                self._slopes_delta = self.delta * f.slope_derivative(self.a)
            self.delta *= f.derivative(self.a, self._slope_values)

    def backward_normalisation(self, shares: Array) -> None:
        """Turn `delta` into the derivative of what the weights put out."""
        self._b_delta = self.delta
        if self._norm is not None:
            # The bias still needs what `delta` was, summed over the rows.
            self._b_delta = self.delta.sum(axis=0, keepdims=True)
            self._norm.backward(self.delta, self._b_delta, shares)

    def backward_inputs(self, out: Array) -> None:
        self._blas.product_transposed(self.delta, self._W.value, out)

    def descend(self, rule: Rule, t: int, memory: Array, scale: float) -> None:
        for parameter, inputs, delta in self._gradients():
            parameter.descend(inputs, delta, rule, t, memory, scale)

    def gradient_norm(self, memory: Array) -> float:
        return math.hypot(
            *(p.gradient_norm(x, delta, memory) for p, x, delta in self._gradients())
        )

    def _gradients(self) -> Iterator[tuple["_Parameter", "Inputs", Array]]:
        """Yield what is learned, each with the two factors of its gradient."""
        yield self._W, self.x, self.delta
        if self._fits_biases:
            yield self._b, self._ones[: len(self._b_delta)], self._b_delta
        if self._slopes is not None:
            yield self._slopes, self._ones[: len(self.delta)], self._slopes_delta
        if self._norm is not None:
            yield self._norm.gamma, self._ones[:1], self._norm.gamma_delta

    def shrink(self, threshold: float) -> None:
        """Move the weights towards 0, and no further."""
        if threshold > 0.0:
            for (w,) in _blocks(self._W.value):
                w -= np.clip(w, -threshold, threshold)

    def bound(self, max_norm: float) -> None:
        """Scale down the columns of W that are too long."""
        if max_norm < math.inf:
            W = self._W.value
            norms = np.sqrt(np.einsum("ij,ij->j", W, W))
            W *= max_norm / np.maximum(norms, max_norm)

    def freeze(self) -> Layer:
        W, b = self._W.value, self._b.value
        if self._norm is not None:
            scale, b = self._norm.folded(b)
            W = W * scale
        return Layer(W, b[0], self._given.activation, self._signs, self._slope_values)

    def arrays(self, kept: tuple[str, ...]) -> Iterator[tuple[str, Array]]:
        """Yield all that a step changes, with the moments that are kept."""
        parameters = {"W": self._W, "b": self._b, "slopes": self._slopes}
        if self._norm is not None:
            parameters["gamma"] = self._norm.gamma
            yield "mean", self._norm.mean
            yield "variance", self._norm.variance
        for name, parameter in parameters.items():
            if parameter is not None:
                yield name, parameter.array("value")
                for moment in kept:
                    yield f"{moment}.{name}", parameter.array(moment)

    @property
    def _slope_values(self) -> Array | None:
        return None if self._slopes is None else self._slopes.value[0]


class _Normalisation:
    """Batch normalisation of one layer.

    `n` are the pre-activations without mean and scale, for the rows of one batch.
    """

    def __init__(self, layer: Layer, blas: "_Blas") -> None:
        self.gamma = _Parameter(np.ones_like(layer.b), blas)
        self.mean = np.zeros_like(layer.b)
        self.variance = np.ones_like(layer.b)

    def forward(self, a: Array, b: Array, shares: Array) -> None:
        """Turn products with the weights into pre-activations."""
        self._mu = shares @ a
        self.n = a - self._mu
        np.multiply(self.n, self.n, out=a)
        self._var = shares @ a
        self._root = np.sqrt(self._var + BATCH_NORM_EPSILON)
        self.n /= self._root
        np.multiply(self.n, self.gamma.value, out=a)
        a += b

    def backward(self, delta: Array, total: Array, shares: Array) -> None:
        """Turn `delta`, whose rows add up to `total`, into that of the products."""
        self.gamma_delta = np.einsum("ij,ij->j", self.n, delta)[np.newaxis]
        self.n *= self.gamma_delta
        self.n += total
        self.n *= shares[:, np.newaxis]
        delta -= self.n
        delta *= self.gamma.value / self._root
        if shares.any():
            self.mean += BATCH_NORM_MOMENTUM * (self._mu - self.mean)
            self.variance += BATCH_NORM_MOMENTUM * (self._var - self.variance)

    def folded(self, b: Array) -> tuple[Array, Array]:
        """Return the factor of a product with the weights, and what is added to it."""
        scale = self.gamma.value / np.sqrt(self.variance + BATCH_NORM_EPSILON)
        return scale, b - self.mean * scale


class _Parameter:
    """One array that is learned, with the state of its update rule.

    Its gradient is ``inputs.T @ delta``. Biases and slopes are matrices of one row
    whose input is 1 throughout.
    """

    def __init__(self, value: Array, blas: "_Blas", l2: float = 0.0) -> None:
        self.value = np.array(value, ndmin=2)
        self._shape = value.shape
        self._blas = blas
        self._l2 = l2
        # `zeros` takes no memory before the first write, `zeros_like` does.
        self._m = np.zeros(self.value.shape, dtype=value.dtype)
        self._v = np.zeros(self.value.shape, dtype=value.dtype)

    def array(self, name: str) -> Array:
        """Return the value or a moment in the shape it was given in."""
        arrays = {"value": self.value, "m": self._m, "v": self._v}
        return arrays[name].reshape(self._shape)

    def descend(
        self,
        inputs: "Inputs",
        delta: Array,
        rule: Rule,
        t: int,
        memory: Array,
        scale: float,
    ) -> None:
        """Update the value by `scale` times the gradient."""
        if isinstance(rule, SGD) and not (rule.nesterov or rule.momentum or self._l2):
            rate = rule.learning_rate * scale
            self._blas.add_outer(inputs, delta, -rate, 1.0, self.value)
            return
        if isinstance(rule, SGD) and rule.momentum and not rule.nesterov:
            self._heavy_ball(inputs, delta, rule, scale)
            return
        g = memory[: self.value.size].reshape(self.value.shape)
        if self._l2:
            np.multiply(self.value, self._l2, out=g)
        self._blas.add_outer(inputs, delta, scale, 1.0 if self._l2 else 0.0, g)
        if isinstance(rule, Adam):
            self._adam(g, rule, t)
        elif rule.nesterov:
            self._nesterov(g, rule)
        else:
            # Not W *= 1 - learning_rate l2: float32 rounds that factor to 1.
            self._add(g, -rule.learning_rate, self.value)

    def gradient_norm(self, inputs: "Inputs", delta: Array, memory: Array) -> float:
        """Return the Euclidean norm of the gradient without l2."""
        if isinstance(inputs, _SparseInputs):
            return self._blas.norm(inputs.gradient(delta))
        g = memory[: self.value.size].reshape(self.value.shape)
        self._blas.add_outer(inputs, delta, 1.0, 0.0, g)
        return self._blas.norm(g)

    def _heavy_ball(
        self, inputs: "Inputs", delta: Array, rule: SGD, scale: float
    ) -> None:
        self._blas.add_outer(inputs, delta, scale, rule.momentum, self._m)
        if self._l2:
            self._add(self.value, self._l2, self._m)
        self._add(self._m, -rule.learning_rate, self.value)

    def _nesterov(self, gradient: Array, rule: SGD) -> None:
        add = self._blas.axpy
        for w, m, g in _blocks(self.value, self._m, gradient):
            m *= rule.momentum
            add(g, m)
            add(g, w, a=-rule.learning_rate)
            add(m, w, a=-rule.learning_rate * rule.momentum)

    def _adam(self, gradient: Array, rule: Adam, t: int) -> None:
        add = self._blas.axpy
        root = (1.0 - rule.beta2**t) ** 0.5
        rate = rule.learning_rate / (1.0 - rule.beta1**t)
        for w, m, v, g in _blocks(self.value, self._m, self._v, gradient):
            m *= rule.beta1
            add(g, m, a=1.0 - rule.beta1)
            np.multiply(g, g, out=g)
            v *= rule.beta2
            add(g, v, a=1.0 - rule.beta2)
            np.sqrt(v, out=g)
            g += rule.epsilon
            g *= 1.0 / root
            np.divide(m, g, out=g)
            add(g, w, a=-rate)

    def _add(self, x: Array, factor: float, y: Array) -> None:
        self._blas.axpy(x.reshape(-1), y.reshape(-1), a=factor)


def _blocks(*arrays: Array) -> Iterator[list[Array]]:
    """Yield the same parts of some arrays, flat and small enough for the cache."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, _BLOCK):
        yield [array[start : start + _BLOCK] for array in flat]


# Four blocks of float32 fill 128 KiB; OpenBLAS runs vectors of up to 10,000 entries
# without waking its threads.
_BLOCK = 8192


class _SparseInputs:
    """Inputs of one batch in CSR form, ready for the gradient of the first layer."""

    def __init__(self, x: Matrix) -> None:
        self._columns, positions = np.unique(x.indices, return_inverse=True)
        shape = (x.shape[0], len(self._columns))
        self._transposed = sp.csr_array((x.data, positions, x.indptr), shape=shape).T

    def gradient(self, delta: Array) -> Array:
        """Return ``x.T @ delta`` for the inputs that occur."""
        product: Array = self._transposed @ delta
        return product

    def add_outer(self, delta: Array, alpha: float, out: Array) -> None:
        """Add ``alpha * x.T @ delta`` to the rows of `out` whose input occurs."""
        gradient = self.gradient(delta)
        gradient *= alpha
        out[self._columns] += gradient


Inputs = Array | _SparseInputs


class _Blas:
    """Products of row-major matrices, added to what the output holds.

    BLAS is column-major, so it is given each matrix as its transpose, which is the same
    memory. A batch of one row goes to the matrix-vector routines.
    """

    def __init__(self, dtype: "np.dtype[Any]") -> None:
        names = ("gemm", "gemv", "ger", "nrm2", "axpy")
        self._gemm, self._gemv, self._ger, self._nrm2, self.axpy = get_blas_funcs(
            names, dtype=dtype
        )

    def norm(self, x: Array) -> float:
        """Return the root of the sum of squares, which itself may overflow."""
        # BLAS takes no empty arrays: the gradient of W where no input occurs is one.
        return float(self._nrm2(x.reshape(-1))) if x.size else 0.0

    def add_product(self, x: Array, W: Array, out: Array) -> None:
        """Compute ``out += x @ W``."""
        if len(x) == 1:
            self._gemv(1.0, W.T, x[0], beta=1.0, y=out[0], overwrite_y=1)
        else:
            self._gemm(1.0, W.T, x.T, beta=1.0, c=out.T, overwrite_c=1)

    def product_transposed(self, delta: Array, W: Array, out: Array) -> None:
        """Compute ``out = delta @ W.T``."""
        if len(delta) == 1:
            self._gemv(1.0, W.T, delta[0], y=out[0], trans=1, overwrite_y=1)
        else:
            self._gemm(1.0, W.T, delta.T, c=out.T, trans_a=1, overwrite_c=1)

    def add_outer(
        self, x: Inputs, delta: Array, alpha: float, beta: float, out: Array
    ) -> None:
        """Compute ``out = beta * out + alpha * x.T @ delta``."""
        if isinstance(x, np.ndarray) and len(x) > 1:
            self._gemm(
                alpha, delta.T, x.T, beta=beta, c=out.T, trans_b=1, overwrite_c=1
            )
            return
        if beta == 0.0:
            out.fill(0.0)  # it may hold NaN
        elif beta != 1.0:
            out *= beta
        if isinstance(x, _SparseInputs):
            x.add_outer(delta, alpha, out)
        else:
            self._ger(alpha, delta[0], x[0], a=out.T, overwrite_a=1)


class _BlasThreads:
    """A context in which BLAS uses a given number of threads.

    Entering it when that is so already, and leaving it then, costs a microsecond.
    """

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self._libraries = _blas_libraries()
        self._changed: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        before = [(library, library.num_threads) for library in self._libraries]
        self._changed = [(b, n) for b, n in before if n != self._n_threads]
        for library, _ in self._changed:
            library.set_num_threads(self._n_threads)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for library, n_threads in self._changed:
            library.set_num_threads(n_threads)


@cache
def _blas_libraries() -> list[Any]:
    blas = ThreadpoolController().select(user_api="blas")
    libraries: list[Any] = blas.lib_controllers
    return libraries
