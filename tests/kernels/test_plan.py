"""The choice between sparse and dense kernels."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hardzero.kernels.calibrate import calibrated_costs, measure_costs
from hardzero.kernels.plan import BATCH_SIZES, Costs, PassCosts, choose, shipped_costs
from hardzero.kernels.rules import SGD
from hardzero.kernels.sparse import SparseNetwork, instruction_sets
from hardzero.stack import Layer, RectifierStack

LEVELS = instruction_sets()[1]

_times = st.lists(
    st.floats(1e-3, 1.0), min_size=len(BATCH_SIZES), max_size=len(BATCH_SIZES)
).map(tuple)
_passes = st.builds(PassCosts, _times, _times, _times, st.floats(0, 1), st.floats(0, 1))
_costs = st.builds(Costs, _passes, _passes, st.floats(0, 1e4), st.floats(0, 10))


@given(
    costs=_costs,
    n_rows=st.integers(1, 1200),
    density=st.floats(0, 1),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)),
)
def test_core_chooses_as_its_twin(costs, n_rows, density, sizes):
    """The compiled choice and its two estimates are those of `choose`"""
    rng = np.random.default_rng(0)
    n_inputs, n_units = sizes
    stack = RectifierStack(
        (
            Layer(np.ones((n_inputs, n_units)), np.zeros(n_units), "rectifier"),
            Layer(np.ones((n_units, 2)), np.zeros(2), "identity"),
        ),
        "softmax",
    )
    X = sp.random_array((n_rows, n_inputs), density=density, rng=rng, format="csr")
    X.sort_indices()
    network = SparseNetwork(stack, SGD(0.1), costs=costs)
    network.bind(X, np.zeros(n_rows, dtype=np.int64))
    network.step(np.arange(n_rows))
    rows_of_weights = n_inputs * _padded(n_units) + n_units * _padded(2)
    for choice in network.choices():
        kernel, sparse_ns, dense_ns = choose(
            costs,
            choice.direction,
            n_rows=n_rows,
            n_inputs=n_inputs if choice.layer == 1 else n_units,
            n_units=_padded(n_units if choice.layer == 1 else 2),
            n_nonzero=choice.n_nonzero,
            n_active_inputs=choice.n_active_inputs,
            is_first_layer=choice.layer == 1,
            fits_cache=rows_of_weights * 8 <= costs.cache_bytes,
        )
        assert choice.sparse_ns == pytest.approx(sparse_ns)
        assert choice.dense_ns == pytest.approx(dense_ns)
        if abs(sparse_ns - dense_ns) > 1e-9 * dense_ns:
            assert choice.kernel == kernel


def _padded(n_units: int) -> int:
    return -(-n_units // 8) * 8


@pytest.mark.parametrize("level", LEVELS)
def test_shipped_costs_prefer_sparse_where_there_is_little_and_dense_where_all(level):
    """At 2 % density every pass goes sparse, at 100 % and 100 rows every pass dense"""
    costs = shipped_costs(level)
    for direction in ("forward", "backward"):
        for density, expected in ((0.02, "sparse"), (1.0, "dense")):
            kernel, _, _ = choose(
                costs,
                direction,
                n_rows=100,
                n_inputs=1000,
                n_units=1008,
                n_nonzero=int(density * 100 * 1000),
                n_active_inputs=1000,
            )
            assert kernel == expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_calibration_keeps_costs_plausible(dtype):
    """Measured costs are positive and within a factor 30 of the shipped ones"""
    level, _ = instruction_sets()
    costs = calibrated_costs(level, np.dtype(dtype)).as_list()
    shipped = shipped_costs(level).as_list()
    for ours, theirs in zip(costs, shipped, strict=True):
        assert theirs / 30 <= ours <= theirs * 30


def test_measuring_all_costs_works():
    """The measurement behind the shipped costs runs, here on a small layer"""
    level, _ = instruction_sets()
    costs = measure_costs(level, np.dtype("float32"), n_units=64)
    assert all(cost >= 0 for cost in costs.as_list())


def test_calibration_can_be_switched_off():
    """HARDZERO_CALIBRATE=0 leaves the shipped costs as they are"""
    code = """
import os; os.environ["HARDZERO_CALIBRATE"] = "0"
import numpy as np
from hardzero.kernels.calibrate import calibrated_costs
from hardzero.kernels.plan import shipped_costs
from hardzero.kernels.sparse import instruction_sets
level, _ = instruction_sets()
assert calibrated_costs(level, np.dtype("float32")) == shipped_costs(level)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
