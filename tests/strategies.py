"""Random networks of small integers, on which all engines must agree with ``==``.

In float64 every sum of such a network is exact, so its order does not matter: rates and
penalties are powers of two, batches have 1, 2, 4 or 8 rows, and sizes are bounded such
that no number needs more than 53 bits. The shapes are drawn by Hypothesis, the numbers
by NumPy from a seed that Hypothesis draws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from hardzero.kernels.rules import SGD, Rule
from hardzero.stack import Layer, RectifierStack

EXACT_ACTIVATIONS = (
    "rectifier",
    "identity",
    "leaky_rectifier(0.5)",
    "capped_rectifier(2)",
    "prelu(0.25)",
)


@dataclass(frozen=True)
class Problem:
    """A network, a training set and the batches to train it on."""

    stack: RectifierStack
    X: np.ndarray
    X_csr: sp.csr_array
    y: np.ndarray
    sample_weight: np.ndarray | None
    batches: tuple[tuple[np.ndarray, np.ndarray], ...]
    l1_activation: float

    def train(
        self,
        engine: Callable[..., Any],
        rule: Rule,
        *,
        sparse: bool = False,
        **options: Any,
    ) -> tuple[Any, ...]:
        """Train by the two halves of a step; return all there is to see, for ``==``."""
        X = self.X_csr if sparse else self.X
        network = engine(self.stack, rule, l1_activation=self.l1_activation, **options)
        network.bind(X, self.y, self.sample_weight)
        outputs = [network.forward(X).tolist()]  # after updates it would not be exact
        for rows, delta in self.batches:
            outputs.append(network.forward_batch(rows).tolist())
            network.backward_batch(delta)
        return outputs, network.stack(), network.statistics()


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    n_batches: int = 1,
    max_layers: int = 3,
    max_units: int = 40,
    largest: int = 3,
    activations: tuple[str, ...] = EXACT_ACTIVATIONS,
) -> Problem:
    """Draw a problem.

    The defaults are exact for one batch. For two, ask `short_problems`.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    sizes = draw(
        st.lists(st.integers(1, max_units), min_size=2, max_size=max_layers + 1),
        label="sizes",
    )
    batch_size = draw(st.sampled_from([1, 2, 4, 8]), label="batch size")
    density = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]), label="density of X")
    n_rows = batch_size * n_batches

    layers = []
    for n_inputs, n_units in pairwise(sizes):
        b = rng.integers(-largest, largest, n_units, endpoint=True)
        b += draw(st.sampled_from([0, 1, -1]), label="any, all, no unit active") * (
            2 * max_units * largest**2
        )
        has_signs = draw(st.booleans(), label="has signs")
        W = rng.integers(-largest, largest, (n_inputs, n_units), endpoint=True)
        activation = draw(st.sampled_from(activations), label="activation")
        signs = rng.choice([-1, 1], n_units) if has_signs else None
        layers.append(Layer(W, b, activation, signs))

    X = rng.integers(-largest, largest, (n_rows, sizes[0]), endpoint=True)
    X = (X * (rng.random(X.shape) < density)).astype(np.float64)
    X[rng.random(n_rows) < 0.2] = 0.0  # whole rows
    rows = rng.permutation(n_rows).reshape(n_batches, batch_size)
    deltas = rng.integers(-largest, largest, (*rows.shape, sizes[-1]), endpoint=True)
    return Problem(
        stack=RectifierStack(layers, "softmax"),
        X=X,
        X_csr=csr(X, explicit_zeros=rng.random(X.shape) < 0.1),
        y=rng.integers(0, sizes[-1], n_rows),
        sample_weight=draw(
            st.sampled_from([None, _weights(rows, rng)]), label="sample weights"
        ),
        batches=tuple(zip(rows, deltas.astype(np.float64), strict=True)),
        l1_activation=draw(st.sampled_from([0.0, 0.5]), label="L1 on activations"),
    )


def short_problems(n_batches: int = 2) -> st.SearchStrategy[Problem]:
    """Draw problems small enough for two exact updates, so that momentum shows."""
    return problems(
        n_batches=n_batches,
        max_layers=2,
        max_units=17,
        largest=1,
        activations=EXACT_ACTIVATIONS[:-1],  # learned slopes multiply: too many bits
    )


def exact_rules(**fixed: Any) -> st.SearchStrategy[SGD]:
    """Draw rules whose updates are exact."""
    return st.builds(
        lambda learning_rate, momentum, nesterov, l2: SGD(
            **{
                "learning_rate": learning_rate,
                "momentum": momentum,
                "nesterov": nesterov and momentum > 0.0,
                "l2": l2,
                **fixed,
            }
        ),
        st.sampled_from([0.5, 0.25]),
        st.sampled_from([0.0, 0.5]),
        st.booleans(),
        st.sampled_from([0.0, 0.25]),
    )


def floating_task(
    activation: str, dtype: type, sizes: tuple[int, ...], n_rows: int
) -> tuple[RectifierStack, np.ndarray, np.ndarray, np.ndarray]:
    """Return a random classifier with signs, and X, y and weights to train it on."""
    rng = np.random.default_rng(0)
    layers = []
    for n_inputs, n_units in pairwise(sizes):
        W = rng.normal(size=(n_inputs, n_units)) / np.sqrt(n_inputs)
        b = 0.1 * rng.normal(size=n_units)
        layers.append(Layer(W, b, activation, signs=rng.choice([-1, 1], n_units)))
    layers[-1] = Layer(layers[-1].W, layers[-1].b, "identity")
    X = rng.normal(size=(n_rows, sizes[0])) * (rng.random((n_rows, sizes[0])) < 0.5)
    y = rng.integers(0, sizes[-1], n_rows)
    stack = RectifierStack(layers, "softmax").astype(dtype)
    return stack, X.astype(dtype), y, rng.random(n_rows)


def csr(X: np.ndarray, explicit_zeros: np.ndarray | None = None) -> sp.csr_array:
    """Return X in canonical CSR form, with some of its zeros stored."""
    stored = X != 0.0 if explicit_zeros is None else (X != 0.0) | explicit_zeros
    row, column = np.nonzero(stored)
    indptr = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    return sp.csr_array((X[row, column], column, indptr), shape=X.shape)


def _weights(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return weights 0, 1 and 2 whose sum in each batch is a power of two."""
    weights = np.ones(rows.size)
    for batch in rows:
        for first, second in batch[: len(batch) // 2 * 2].reshape(-1, 2):
            if rng.random() < 0.5:
                weights[first], weights[second] = 2.0, 0.0
    return weights
