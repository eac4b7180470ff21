"""Measure what the kernels cost on this machine.

`calibrated_costs` corrects the shipped costs by a few measurements that take some
hundredths of a second, once in a process and instruction-set level, when the first
network is built for which it matters. Set the environment variable
``HARDZERO_CALIBRATE=0`` to do without. The outcome decides which kernel runs, never
what it computes.
"""

import math
import os
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from hardzero.kernels.plan import (
    BATCH_SIZES,
    Costs,
    LayerChoice,
    PassCosts,
    shipped_costs,
)
from hardzero.kernels.rules import SGD
from hardzero.kernels.sparse import SparseNetwork
from hardzero.stack import Layer, RectifierStack

__all__ = ["calibrated_costs", "measure_costs"]

DType = np.dtype[Any]


@cache
def calibrated_costs(level: str, dtype: DType) -> Costs:
    """Return the shipped costs, corrected for this machine.

    Parameters
    ----------
    level : str
        Instruction-set level.
    dtype : dtype
        Float32 or float64.

    Returns
    -------
    Costs
        The shipped costs times one factor for each kernel, or the shipped costs as they
        are if ``HARDZERO_CALIBRATE`` is 0 in the environment.
    """
    costs = shipped_costs(level)
    if os.environ.get("HARDZERO_CALIBRATE") == "0":
        return costs
    factors: dict[tuple[str, str], list[float]] = {}
    for n_rows, mode in product((10, 100), ("sparse", "dense")):
        for choice in _time_passes(level, dtype, mode, n_rows, 0.2, 384, repeats=5):
            expected = choice.sparse_ns if mode == "sparse" else choice.dense_ns
            factors.setdefault((choice.direction, mode), []).append(
                math.log(choice.measured_ns / expected)
            )
    scale = {key: math.exp(float(np.mean(logs))) for key, logs in factors.items()}
    return replace(
        costs,
        forward=_scaled(costs.forward, "forward", scale),
        backward=_scaled(costs.backward, "backward", scale),
        cache_bytes=_cache_bytes() or costs.cache_bytes,
    )


def _cache_bytes() -> float:
    """Return three quarters of the last-level cache, 0 where the system hides it."""
    try:
        return 0.75 * max(os.sysconf("SC_LEVEL3_CACHE_SIZE"), 0)
    except (AttributeError, OSError, ValueError):
        return 0.0


def _scaled(
    costs: PassCosts, direction: str, scale: dict[tuple[str, str], float]
) -> PassCosts:
    return replace(
        costs,
        sparse_tenth=tuple(c * scale[direction, "sparse"] for c in costs.sparse_tenth),
        sparse_half=tuple(c * scale[direction, "sparse"] for c in costs.sparse_half),
        dense=tuple(c * scale[direction, "dense"] for c in costs.dense),
    )


def measure_costs(level: str, dtype: DType, n_units: int = 1000) -> Costs:
    """Measure all costs anew: where the shipped ones come from.

    Takes some seconds of an otherwise idle machine.

    Parameters
    ----------
    level : str
        Instruction-set level.
    dtype : dtype
        Float32 or float64.
    n_units : int, default=1000
        Width of the layer that is timed.

    Returns
    -------
    Costs
        Costs fitted to times at several densities.
    """
    costs = shipped_costs(level)
    passes = {}
    for direction in ("forward", "backward"):
        tenth, half, dense = (
            tuple(
                _per_product(level, dtype, mode, direction, n_rows, density, n_units)
                for n_rows in BATCH_SIZES
            )
            for mode, density in (("sparse", 0.1), ("sparse", 0.5), ("dense", 0.2))
        )
        old = costs.forward if direction == "forward" else costs.backward
        passes[direction] = replace(
            old, sparse_tenth=tenth, sparse_half=half, dense=dense
        )
    return replace(costs, forward=passes["forward"], backward=passes["backward"])


def _per_product(
    level: str,
    dtype: DType,
    mode: Any,
    direction: str,
    n_rows: int,
    density: float,
    n_units: int,
) -> float:
    repeats = max(5, 300 // n_rows)
    (choice,) = (
        c
        for c in _time_passes(level, dtype, mode, n_rows, density, n_units, repeats)
        if c.direction == direction
    )
    products = n_units * (2 if direction == "backward" else 1)
    if mode == "dense":
        return float(choice.measured_ns / (n_rows * n_units * products))
    of_units = choice.measured_ns / choice.n_nonzero - shipped_costs(level).per_nonzero
    return float(max(of_units, 0.0) / products)


def _time_passes(
    level: str,
    dtype: DType,
    mode: Any,
    n_rows: int,
    density: float,
    n_units: int,
    repeats: int,
) -> Collection[LayerChoice]:
    """Time both passes of a layer whose inputs have a given density.

    The layer lies between two others, so that it reads activations and hands deltas
    down, and a second layer of its kind takes turns with it, so that it is not always
    found in the cache.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 16)).astype(dtype)
    W = rng.normal(size=(16, n_units))
    b = -np.quantile(X @ W, 1.0 - density, axis=None) * np.ones(n_units)
    square = rng.normal(size=(n_units, n_units)) / math.sqrt(n_units)
    stack = RectifierStack(
        (
            Layer(W, b, "rectifier"),
            Layer(square, np.zeros(n_units), "rectifier"),
            Layer(rng.normal(size=(n_units, 4)), np.zeros(4), "identity"),
        ),
        "softmax",
    ).astype(dtype)
    network = SparseNetwork(
        stack, SGD(0.0), mode=mode, level=level, timed=True, costs=shipped_costs(level)
    )
    network.bind(X, np.zeros(n_rows, dtype=np.int64))
    rows = np.arange(n_rows)
    best: dict[str, LayerChoice] = {}
    for _ in range(repeats + 1):
        network.step(rows)
        for choice in network.choices():
            if choice.layer == 2:
                old = best.get(choice.direction)
                if old is None or choice.measured_ns < old.measured_ns:
                    best[choice.direction] = choice
    return best.values()
