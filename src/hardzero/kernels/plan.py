"""Dense or sparse: the kernel for each layer, pass and batch, by a model of its cost.

The core counts a batch's non-zeros before it reads a weight, and compares

    sparse   n_nonzero (n_units p s(n_rows) + c) + n_active_inputs n_units w
    dense    n_rows n_inputs n_units p d(n_rows) + n_inputs n_units w

in nanoseconds, where p is the number of products a weight takes part in (1 forward; 2
backward, but 1 in the first layer, which hands no deltas down), s and d are the times
of a multiply-add, w the time of bringing a weight from the cache or from memory, and c
that of putting a non-zero into the list of its column (backward only).

Both kernels give the same bits, so costs decide about time alone. They ship with
hardzero for each instruction-set level and are refined by measurement
(`hardzero.kernels.calibrate`).
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["BATCH_SIZES", "Costs", "LayerChoice", "PassCosts", "choose"]

BATCH_SIZES: Final = (1, 3, 10, 32, 100, 1000)
"""Numbers of rows for which costs are given; between them they are interpolated."""

Kernel = Literal["sparse", "dense"]


@dataclass(frozen=True)
class PassCosts:
    """What the kernels of a forward or a backward pass take, in nanoseconds.

    Parameters
    ----------
    sparse : tuple of float
        One multiply-add of the sparse kernel, for each of `BATCH_SIZES`.
    dense : tuple of float
        One multiply-add of the dense kernel, for each of `BATCH_SIZES`.
    weight_cached : float
        One weight, where the network fits into the cache.
    weight_memory : float
        One weight, where it does not.
    """

    sparse: tuple[float, ...]
    dense: tuple[float, ...]
    weight_cached: float
    weight_memory: float


@dataclass(frozen=True)
class Costs:
    """What a choice of kernels rests on.

    Parameters
    ----------
    forward : PassCosts
        Costs of the forward pass.
    backward : PassCosts
        Costs of the backward pass, update included.
    cache_bytes : float
        Size of the weights that the last-level cache holds.
    list_entry : float
        Nanoseconds for putting a non-zero into the list of its column.
    """

    forward: PassCosts
    backward: PassCosts
    cache_bytes: float
    list_entry: float

    def as_list(self) -> list[float]:
        """Return the numbers in the order in which the core reads them.

        Returns
        -------
        list of float
            All costs, forward ones first.
        """
        numbers: list[float] = []
        for costs in (self.forward, self.backward):
            numbers += costs.sparse
            numbers += costs.dense
            numbers += [costs.weight_cached, costs.weight_memory]
        return [*numbers, self.cache_bytes, self.list_entry]


@dataclass(frozen=True)
class LayerChoice:
    """The kernel chosen for one pass of one layer, and why.

    Parameters
    ----------
    layer : int
        Number of the layer, from 1.
    direction : {"forward", "backward"}
        Pass.
    kernel : {"sparse", "dense"}
        Kernel that ran.
    n_rows : int
        Rows of the batch.
    n_nonzero : int
        Non-zero inputs of the layer, over all rows.
    n_active_inputs : int
        Inputs that are not zero in all rows.
    sparse_ns : float
        Nanoseconds expected of the sparse kernel.
    dense_ns : float
        Nanoseconds expected of the dense kernel.
    measured_ns : float
        Nanoseconds that the pass took; 0 where passes are not timed.
    """

    layer: int
    direction: Literal["forward", "backward"]
    kernel: Kernel
    n_rows: int
    n_nonzero: int
    n_active_inputs: int
    sparse_ns: float
    dense_ns: float
    measured_ns: float

    def __str__(self) -> str:
        """Return the choice and its reason on one line."""
        measured = f"; took {self.measured_ns / 1e3:.1f}" if self.measured_ns else ""
        return (
            f"layer {self.layer} {self.direction}: {self.kernel} "
            f"({self.n_nonzero} non-zeros in {self.n_rows} rows, "
            f"{self.n_active_inputs} active inputs; expected microseconds: "
            f"sparse {self.sparse_ns / 1e3:.1f}, dense {self.dense_ns / 1e3:.1f}"
            f"{measured})"
        )


def choose(
    costs: Costs,
    direction: Literal["forward", "backward"],
    *,
    n_rows: int,
    n_inputs: int,
    n_units: int,
    n_nonzero: int,
    n_active_inputs: int,
    is_first_layer: bool = False,
    fits_cache: bool = True,
) -> tuple[Kernel, float, float]:
    """Choose a kernel: the readable twin of what the core does.

    Parameters
    ----------
    costs : Costs
        Costs to choose by.
    direction : {"forward", "backward"}
        Pass.
    n_rows : int
        Rows of the batch.
    n_inputs : int
        Inputs of the layer.
    n_units : int
        Units of the layer, rounded up to whole blocks of 64 bytes.
    n_nonzero : int
        Non-zero inputs, over all rows.
    n_active_inputs : int
        Inputs that are not zero in all rows.
    is_first_layer : bool, default=False
        Whether the layer reads the data, and hands no deltas down.
    fits_cache : bool, default=True
        Whether all weights of the network fit into the last-level cache.

    Returns
    -------
    kernel : {"sparse", "dense"}
        The cheaper kernel; sparse in case of a tie.
    sparse_ns : float
        Nanoseconds expected of the sparse kernel.
    dense_ns : float
        Nanoseconds expected of the dense kernel.
    """
    is_backward = direction == "backward"
    own = costs.backward if is_backward else costs.forward
    weight = own.weight_cached if fits_cache else own.weight_memory
    products = 2 if is_backward and not is_first_layer else 1
    entry = costs.list_entry if is_backward else 0.0
    sparse_ns = (
        n_nonzero * (n_units * products * _at_size(own.sparse, n_rows) + entry)
        + n_active_inputs * n_units * weight
    )
    dense_ns = (
        n_rows * n_inputs * n_units * products * _at_size(own.dense, n_rows)
        + n_inputs * n_units * weight
    )
    return "dense" if dense_ns < sparse_ns else "sparse", sparse_ns, dense_ns


def _at_size(costs: tuple[float, ...], n_rows: int) -> float:
    """Interpolate costs between batch sizes, on a logarithmic scale."""
    upper = 1
    while upper < len(BATCH_SIZES) - 1 and n_rows > BATCH_SIZES[upper]:
        upper += 1
    low, high = BATCH_SIZES[upper - 1 : upper + 1]
    share = math.log(min(n_rows, high) / low) / math.log(high / low)
    return costs[upper - 1] + share * (costs[upper] - costs[upper - 1])


def shipped_costs(level: str) -> Costs:
    """Return the costs that ship with hardzero.

    Parameters
    ----------
    level : str
        Instruction-set level.

    Returns
    -------
    Costs
        Costs measured on one machine; those of "v2" for levels without measurements.
    """
    return _SHIPPED.get(level, _SHIPPED["v4"])


_SHIPPED: Final = {
    "v4": Costs(
        PassCosts((0.02,) * 6, (0.035, 0.02, 0.009, 0.009, 0.009, 0.0085), 0.0, 0.1),
        PassCosts((0.014,) * 6, (0.05, 0.02, 0.012, 0.012, 0.011, 0.009), 0.0, 0.1),
        24e6,
        1.0,
    )
}
