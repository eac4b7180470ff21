"""The best that dense code can do: BLAS products that update the weights in place.

What is spared against a framework that computes gradients first and applies them later:

* Plain SGD forms no gradient: one product adds ``-learning_rate x^T delta`` to W. With
  momentum it adds to the momentum instead.
* Nesterov momentum, Adam and weight decay form one gradient at a time, in memory that
  all parameters share, and then work through it in blocks that stay in the cache.
* Weights are stored as (in, out), batches in buffers that are allocated once, and all
  products, also those of biases, are left to one BLAS.
* CSR inputs are multiplied as they are, and their gradient reaches only the rows of W
  whose input occurs in the batch.

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
    check_same_architecture,
    check_settings,
    check_softmax,
    check_training_set,
    require_bound,
)
from hardzero.kernels.rules import SGD, Adam, Rule
from hardzero.kernels.statistics import LayerStatistics, UnitCounter
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
        n_threads: int = 1,
    ) -> None:
        check_settings(stack, rule, l1_activation, n_threads)
        self._rule = rule
        self._l1_activation = l1_activation
        self._threads = _BlasThreads(n_threads)
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
        delta = self._layers[-1].delta
        loss = _log_loss(outputs, y, self._shares, out=delta)
        if math.isfinite(loss):
            self.backward_batch(delta)
        return loss

    @np.errstate(over="ignore", invalid="ignore")
    def forward_batch(self, rows: Rows) -> Array:
        data = require_bound(self._data)
        self._shares = data.shares(rows)
        h = data.X[rows] if data.is_sparse else data.X.take(rows, axis=0)
        with self._threads:
            for layer in self._layers:
                h = layer.forward_batch(h)
        for counter, layer in zip(self._counters, self._layers, strict=False):
            counter.add(layer.active)
        self._outputs = self._layers[-1].h
        return self._outputs

    @np.errstate(over="ignore", invalid="ignore")
    def backward_batch(self, delta: Array) -> None:
        check_delta(delta, self._outputs)
        self._outputs = None
        self._n_steps += 1
        penalty = self._l1_activation * self._shares[:, np.newaxis]
        np.copyto(self._layers[-1].delta, delta)
        with self._threads:
            for number in reversed(range(len(self._layers))):
                layer = self._layers[number]
                is_penalised = self._l1_activation and number < len(self._layers) - 1
                layer.backward_activation(penalty if is_penalised else None)
                if number > 0:
                    layer.backward_inputs(out=self._layers[number - 1].delta)
                layer.descend(self._rule, self._n_steps, self._memory)

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
        self._layers = [_Layer(layer, self._rule.l2, blas) for layer in stack.layers]
        # One gradient at a time; no memory is taken by a rule that never writes to it.
        largest = max(layer.W.size for layer in stack.layers)
        self._memory = np.empty(largest, dtype=stack.dtype)
        self._outputs = None
        self._n_steps = 0

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


class _Layer:
    """One layer with its parameters and its buffers.

    `x`, `a`, `h`, `active` and `delta` are inputs, pre-activations, outputs, whether
    they are other than 0, and the derivative of the loss, for the rows of one batch.
    The rectifier works in place, so that `h` takes the place of `a`.
    """

    def __init__(self, layer: Layer, l2: float, blas: "_Blas") -> None:
        self._given = layer
        self._signs = layer.signs
        self._is_rectifier = layer.activation.name == "rectifier"
        self._is_identity = layer.activation.name == "identity"
        self._blas = blas
        self._W = _Parameter(layer.W, blas, l2)
        self._b = _Parameter(layer.b, blas)
        self._slopes = None if layer.slopes is None else _Parameter(layer.slopes, blas)
        self._reserve(1)

    def _reserve(self, n_rows: int) -> None:
        shape = (n_rows, self._given.n_units)
        self._capacity = n_rows
        self._a_buffer = np.empty(shape, dtype=self._given.dtype)
        self._delta_buffer = np.empty(shape, dtype=self._given.dtype)
        self._active_buffer = np.empty(shape, dtype=np.bool_)
        self._ones = np.ones((n_rows, 1), dtype=self._given.dtype)

    def forward_batch(self, x: Matrix) -> Array:
        n_rows = x.shape[0]
        if n_rows > self._capacity:
            self._reserve(n_rows)
        self.x = _SparseInputs(x) if sp.issparse(x) else x
        self.a = self._a_buffer[:n_rows]
        self.delta = self._delta_buffer[:n_rows]
        self.active = self._active_buffer[:n_rows]
        self._multiply(x, out=self.a)
        self.h = self._activate(self.a)
        np.not_equal(self.h, 0.0, out=self.active)
        return self.h

    def outputs(self, x: Matrix) -> Array:
        a = np.empty((x.shape[0], self._given.n_units), dtype=self._given.dtype)
        self._multiply(x, out=a)
        return self._activate(a)

    def _multiply(self, x: Matrix, out: Array) -> None:
        out[:] = self._b.value
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

    def backward_inputs(self, out: Array) -> None:
        self._blas.product_transposed(self.delta, self._W.value, out)

    def descend(self, rule: Rule, t: int, memory: Array) -> None:
        ones = self._ones[: len(self.delta)]
        self._W.descend(self.x, self.delta, rule, t, memory)
        self._b.descend(ones, self.delta, rule, t, memory)
        if self._slopes is not None:
            self._slopes.descend(ones, self._slopes_delta, rule, t, memory)

    def freeze(self) -> Layer:
        return Layer(
            self._W.value,
            self._b.value[0],
            self._given.activation,
            self._signs,
            self._slope_values,
        )

    @property
    def _slope_values(self) -> Array | None:
        return None if self._slopes is None else self._slopes.value[0]


class _Parameter:
    """One array that is learned, with the state of its update rule.

    Its gradient is ``inputs.T @ delta``. Biases and slopes are matrices of one row
    whose input is 1 throughout.
    """

    def __init__(self, value: Array, blas: "_Blas", l2: float = 0.0) -> None:
        self.value = np.array(value, ndmin=2)
        self._blas = blas
        self._l2 = l2
        # `zeros` takes no memory before the first write, `zeros_like` does.
        self._m = np.zeros(self.value.shape, dtype=value.dtype)
        self._v = np.zeros(self.value.shape, dtype=value.dtype)

    def descend(
        self, inputs: "Inputs", delta: Array, rule: Rule, t: int, memory: Array
    ) -> None:
        if isinstance(rule, Adam):
            self._adam(self._gradient(inputs, delta, memory), rule, t)
        elif rule.nesterov:
            self._nesterov(self._gradient(inputs, delta, memory), rule)
        elif rule.momentum:
            self._heavy_ball(inputs, delta, rule)
        elif self._l2:
            # Not W *= 1 - learning_rate l2: float32 rounds that factor to 1.
            gradient = self._gradient(inputs, delta, memory)
            self._add(gradient, -rule.learning_rate, self.value)
        else:
            self._blas.add_outer(inputs, delta, -rule.learning_rate, 1.0, self.value)

    def _gradient(self, inputs: "Inputs", delta: Array, memory: Array) -> Array:
        g = memory[: self.value.size].reshape(self.value.shape)
        if self._l2:
            np.multiply(self.value, self._l2, out=g)
        self._blas.add_outer(inputs, delta, 1.0, 1.0 if self._l2 else 0.0, g)
        return g

    def _heavy_ball(self, inputs: "Inputs", delta: Array, rule: SGD) -> None:
        self._blas.add_outer(inputs, delta, 1.0, rule.momentum, self._m)
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
            g *= 1.0 / root
            g += rule.epsilon
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

    def add_outer(self, delta: Array, alpha: float, out: Array) -> None:
        """Add ``alpha * x.T @ delta`` to the rows of `out` whose input occurs."""
        gradient = self._transposed @ delta
        gradient *= alpha
        out[self._columns] += gradient


Inputs = Array | _SparseInputs


class _Blas:
    """Products of row-major matrices, added to what the output holds.

    BLAS is column-major, so it is given each matrix as its transpose, which is the same
    memory. A batch of one row goes to the matrix-vector routines.
    """

    def __init__(self, dtype: "np.dtype[Any]") -> None:
        names = ("gemm", "gemv", "ger", "axpy")
        self._gemm, self._gemv, self._ger, self.axpy = get_blas_funcs(
            names, dtype=dtype
        )

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
