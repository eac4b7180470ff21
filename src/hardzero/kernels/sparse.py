"""Exact zero-skipping: the compiled core behind the protocol that all engines obey.

The core (``core/*.cpp``) works on lists of a batch's non-zeros. Its forward pass reads
only the rows of W whose input is active; its backward pass makes deltas only for
active units and updates only the rows of W with an active input, both in one pass over
W. Momentum and weight decay of idle rows are caught up on when a row is next used.
Where a layer's inputs are so dense that skipping does not pay, it takes dense kernels
(`hardzero.kernels.plan`).

Every sum is taken in one order, by all kernels and for any number of threads, and
leaving out a zero term does not change a sum: weights must be finite, and then results
depend neither on the plan nor on the threads, to the last bit.
"""

# ruff: noqa: D102  (the methods are documented in `Network`)

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from hardzero.errors import NotBuiltError
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
    require_rows,
)
from hardzero.kernels.options import (
    BATCH_NORM_EPSILON,
    BATCH_NORM_MOMENTUM,
    NO_OPTIONS,
    StepOptions,
)
from hardzero.kernels.plan import Costs, Kernel, LayerChoice, shipped_costs
from hardzero.kernels.rules import SGD, Adam, Rule
from hardzero.kernels.statistics import LayerStatistics
from hardzero.stack import RectifierStack

try:
    from hardzero.kernels import _core
except ImportError as error:  # pragma: no cover - needs a broken installation
    raise NotBuiltError(
        f"the compiled core of hardzero does not load: {error}. Install hardzero with "
        "pip from a wheel or from its sources with a C++17 compiler, or choose "
        "engine='dense'."
    ) from error

__all__ = ["SparseNetwork", "instruction_sets"]

_MODES = {"auto": 0, "sparse": 1, "dense": 2}
_KERNELS: dict[int, Kernel] = {1: "sparse", 2: "dense"}
_WORTH_CALIBRATING = 100_000  # parameters; in smaller networks choices hardly matter
_CHUNK_ROWS = 1024  # rows that `forward` has in memory at a time


def instruction_sets() -> tuple[str, list[str]]:
    """Return the instruction-set level in use, and all that this machine has.

    Returns
    -------
    active : str
        Level that new networks use: the best, or that of the environment variable
        ``HARDZERO_ISA``.
    usable : list of str
        Levels that the compiled core and the processor have, best last.

    Raises
    ------
    ValueError
        If ``HARDZERO_ISA`` names none of these.
    """
    return _core.active_level(), _core.usable_levels()


class SparseNetwork(Network):
    """A network trained by the compiled core.

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
        Threads to use. The result does not depend on it.
    mode : {"auto", "sparse", "dense"}, default="auto"
        Whether to choose kernels by cost, to always skip zeros, or never.
    costs : Costs, optional
        Costs to choose by; by default those of this machine.
    level : str, optional
        Instruction-set level; by default the one of `instruction_sets`.
    timed : bool, default=False
        Whether to time each pass of each layer, for `choices`.
    skip_zeros : bool, default=True
        False lists zeros as if they were not: for checking that skipping is exact.

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
        options: StepOptions = NO_OPTIONS,
        n_threads: int = 1,
        mode: Literal["auto", "sparse", "dense"] = "auto",
        costs: Costs | None = None,
        level: str | None = None,
        timed: bool = False,
        skip_zeros: bool = True,
    ) -> None:
        check_settings(stack, rule, l1_activation, n_threads)
        check_options(stack, options)
        self._given = stack
        self._options = options
        self._l1_activation = l1_activation
        self._is_double = stack.dtype == np.float64
        self._level = level or _core.active_level()
        make = _core.Network64 if self._is_double else _core.Network32
        shapes = [
            (
                layer.n_inputs,
                layer.n_units,
                layer.activation.code,
                layer.activation.parameter,
                layer.signs is not None,
            )
            for layer in stack.layers
        ]
        self._core = make(shapes, self._level)
        self._core.set_options(
            list(options.dropout) or [0.0] * len(shapes),
            options.batch_norm,
            BATCH_NORM_EPSILON,
            BATCH_NORM_MOMENTUM,
            options.l1_weights,
            options.max_norm,
            options.clip_norm,
            options.fit_biases,
        )
        if costs is None:
            costs = self._find_costs() if mode == "auto" else shipped_costs(self._level)
        self._core.set_plan(_MODES[mode], skip_zeros, timed, n_threads, costs.as_list())
        self._data: TrainingSet | None = None
        self._outputs: Array | None = None
        self._set_rule(rule)
        self.load(stack)
        self.begin_epoch(1)

    def bind(
        self, X: Matrix, y: Array | None = None, sample_weight: Array | None = None
    ) -> None:
        data = check_training_set(self._given, X, y, sample_weight)
        y, weight = data.y, data.sample_weight
        self._core.bind(
            self._inputs(data.X),
            None if y is None else np.ascontiguousarray(y),
            None if weight is None else np.ascontiguousarray(weight),
            data.row_hashes if self._options.drops else None,
        )
        self._data = data

    def begin_epoch(self, number: int) -> None:
        self._epoch = number
        if self._options.drops:
            self._core.set_keys([int(key) for key in self._options.keys(number)])

    def step(self, rows: Rows) -> float:
        check_softmax(self._given)
        require_classes(self._data)
        self._outputs = None
        loss: float = self._core.step(self._checked(rows))
        return loss

    def forward_batch(self, rows: Rows) -> Array:
        outputs = self._core.forward_batch(self._checked(rows))
        self._outputs = outputs
        return outputs

    def backward_batch(self, delta: Array) -> None:
        check_delta(delta, self._outputs)
        self._outputs = None
        self._core.backward_batch(delta)

    def forward(self, X: Matrix) -> Array:
        check_inputs(self._given, X)
        inputs, n = self._inputs(X), X.shape[0]
        if n <= _CHUNK_ROWS:
            outputs: Array = self._core.forward(inputs, 0, n)
            return outputs
        outputs = np.empty((n, self._given.n_outputs), dtype=self._given.dtype)
        for start in range(0, n, _CHUNK_ROWS):
            stop = min(start + _CHUNK_ROWS, n)
            outputs[start:stop] = self._core.forward(inputs, start, stop)
        return outputs

    def set_learning_rate(self, learning_rate: float) -> None:
        self._set_rule(replace(self._rule, learning_rate=learning_rate))

    def stack(self) -> RectifierStack:
        self._core.flush()
        layers = []
        for i, layer in enumerate(self._given.layers):
            arrays = {name: self._core.array(i, name) for name in layer.arrays()}
            if self._normalises(i):
                variance = self._core.array(i, "variance") + BATCH_NORM_EPSILON
                scale = self._core.array(i, "gamma") / np.sqrt(variance)
                arrays["W"] = arrays["W"] * scale
                arrays["b"] = arrays["b"] - self._core.array(i, "mean") * scale
            slopes = arrays.get("slopes")
            layers.append(replace(layer, W=arrays["W"], b=arrays["b"], slopes=slopes))
        return replace(self._given, layers=tuple(layers))

    def load(self, stack: RectifierStack) -> None:
        check_same_architecture(self._given, stack)
        self._core.forget()
        for i, layer in enumerate(stack.layers):
            for name, array in layer.arrays().items():
                self._core.array(i, name)[:] = array
        self._outputs = None

    def state(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self._arrays()}

    def set_state(self, state: dict[str, Array]) -> None:
        check_state(self.state(), state)
        self.begin_epoch(int(state["epoch"]))
        # Updates that idle rows wait for go by the rate that they were made at.
        rate, self._outputs = self._rule.learning_rate, None
        self.set_learning_rate(float(state["learning_rate"]))
        for name, array in self._arrays():
            array[...] = state[name]
        if rate != self._rule.learning_rate:
            self.set_learning_rate(rate)

    def statistics(self) -> list[LayerStatistics]:
        counts = []
        for i in range(len(self._given.layers) - 1):
            n_rows, n_nonzero, fired = self._core.statistics(i)
            counts.append(
                LayerStatistics(n_rows, n_nonzero, np.frombuffer(fired, dtype=np.bool_))
            )
        return counts

    def choices(self) -> list[LayerChoice]:
        """Return the kernels chosen in the last passes, and why.

        Returns
        -------
        list of LayerChoice
            One entry for each layer and pass that has run, forward passes first.
        """
        choices = []
        for direction in ("forward", "backward"):
            for i in range(len(self._given.layers)):
                choice = self._core.choice(i, direction == "backward")
                if choice[0]:
                    kernel = _KERNELS[choice[0]]
                    choices.append(LayerChoice(i + 1, direction, kernel, *choice[1:]))
        return choices

    def _arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield the name of each array of the state, and the core's array itself."""
        yield "n_steps", self._core.n_steps().reshape(())
        yield "epoch", np.array(self._epoch, dtype=np.uint64)
        yield "learning_rate", np.array(self._rule.learning_rate)
        is_lazy = isinstance(self._rule, SGD) and (self._rule.momentum or self._rule.l2)
        for i, layer in enumerate(self._given.layers):
            names = list(layer.arrays())
            learned = [name for name in names if name != "signs"]
            if self._normalises(i):
                names += ["gamma", "mean", "variance"]
                learned.append("gamma")
            for name in names:
                yield f"{name}.{i}", self._core.array(i, name)
            for k, moment in enumerate(moments(self._rule), start=1):
                for name in learned:
                    yield f"{moment}.{name}.{i}", self._core.array(i, name, k)
            if is_lazy:
                yield f"n_updates.{i}", self._core.times(i)

    def _normalises(self, layer: int) -> bool:
        return self._options.batch_norm and layer < len(self._given.layers) - 1

    def _find_costs(self) -> Costs:
        if self._given.n_parameters < _WORTH_CALIBRATING:
            return shipped_costs(self._level)
        from hardzero.kernels.calibrate import calibrated_costs  # it needs this class

        return calibrated_costs(self._level, self._given.dtype)

    def _checked(self, rows: Rows) -> Array:
        require_bound(self._data)
        require_rows(rows)
        return np.ascontiguousarray(rows, dtype=np.int64)

    def _inputs(self, X: Matrix) -> Any:
        kind = _core.Inputs64 if self._is_double else _core.Inputs32
        if not sp.issparse(X):
            return kind.dense(X)
        return kind.csr(
            np.ascontiguousarray(X.indptr, dtype=np.int64),
            np.ascontiguousarray(X.indices, dtype=np.int32),
            np.ascontiguousarray(X.data),
            X.shape[1],
        )

    def _set_rule(self, rule: Rule) -> None:
        self._rule = rule
        if isinstance(rule, Adam):
            self._core.set_rule(
                3,
                rule.learning_rate,
                0.0,
                rule.l2,
                rule.beta1,
                rule.beta2,
                rule.epsilon,
                self._l1_activation,
            )
        else:
            kind = 2 if rule.nesterov else 1 if rule.momentum else 0
            self._core.set_rule(
                kind,
                rule.learning_rate,
                rule.momentum,
                rule.l2,
                0.0,
                0.0,
                0.0,
                self._l1_activation,
            )
