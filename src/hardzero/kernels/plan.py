"""Dense or sparse: the kernel for each layer, pass and batch, by a model of its cost.

The core counts a batch's non-zeros before it reads a weight, and compares

    sparse   n_nonzero (n_units p s(n_rows) + c) + n_active_inputs n_units w
    dense    n_rows n_inputs n_units p d(n_rows) + n_inputs n_units w

in nanoseconds, where p is the number of products a weight takes part in (1 forward; 2
backward, but 1 in the first layer, which hands no deltas down), s and d are the times
of a multiply-add (s depends on the density too), w the time of bringing a weight from
the cache or from memory, and c that of putting a non-zero into the list of its column
(backward only).

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
    sparse_tenth : tuple of float
        One multiply-add of the sparse kernel, for each of `BATCH_SIZES`, where a tenth
        of the inputs or less is active.
    sparse_half : tuple of float
        The same where half of the inputs or more is active; in between, interpolated.
    dense : tuple of float
        One multiply-add of the dense kernel, for each of `BATCH_SIZES`.
    weight_cached : float
        One weight, where the network fits into the cache.
    weight_memory : float
        One weight, where it does not.
    """

    sparse_tenth: tuple[float, ...]
    sparse_half: tuple[float, ...]
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
    per_nonzero : float
        Nanoseconds that a non-zero costs however few units there are: in the backward
        pass to list it, in the forward pass to wait for the sum before it.
    """

    forward: PassCosts
    backward: PassCosts
    cache_bytes: float
    per_nonzero: float

    def as_list(self) -> list[float]:
        """Return the numbers in the order in which the core reads them.

        Returns
        -------
        list of float
            All costs, forward ones first.
        """
        numbers: list[float] = []
        for costs in (self.forward, self.backward):
            numbers += costs.sparse_tenth
            numbers += costs.sparse_half
            numbers += costs.dense
            numbers += [costs.weight_cached, costs.weight_memory]
        return [*numbers, self.cache_bytes, self.per_nonzero]


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
    tenth, half = (
        _at_size(sizes, n_rows) for sizes in (own.sparse_tenth, own.sparse_half)
    )
    density = max(n_nonzero, 1) / (n_rows * n_inputs)
    thickness = max(0.0, min(1.0, math.log(density / 0.1) / math.log(5.0)))
    product = tenth + thickness * (half - tenth)
    sparse_ns = (
        n_nonzero * (n_units * products * product + costs.per_nonzero)
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
    return _SHIPPED.get(level, _SHIPPED["v2"])


# Measured by `hardzero.kernels.calibrate.measure_costs` on an AMD EPYC (Zen 5); what
# weights cost in memory, on a network of 100 MB a layer.
_SHIPPED: Final = {
    "v4": Costs(
        PassCosts(
            (0.0208, 0.0287, 0.027, 0.0233, 0.0216, 0.0248),
            (0.0417, 0.024, 0.0166, 0.0144, 0.0138, 0.0148),
            (0.0317, 0.013, 0.0079, 0.0094, 0.0081, 0.0079),
            0.0,
            0.1,
        ),
        PassCosts(
            (0.021, 0.0255, 0.023, 0.0177, 0.0186, 0.0247),
            (0.026, 0.0191, 0.0133, 0.0184, 0.0159, 0.0192),
            (0.0446, 0.0177, 0.0098, 0.0087, 0.0081, 0.0083),
            0.0,
            0.16,
        ),
        24e6,
        1.0,
    ),
    "v3": Costs(
        PassCosts(
            (0.0297, 0.0387, 0.0371, 0.0321, 0.0292, 0.0341),
            (0.0499, 0.0304, 0.0244, 0.024, 0.0238, 0.0248),
            (0.0331, 0.0154, 0.0161, 0.0168, 0.0152, 0.0153),
            0.0,
            0.1,
        ),
        PassCosts(
            (0.0349, 0.0379, 0.0364, 0.035, 0.0302, 0.0354),
            (0.0393, 0.0345, 0.0325, 0.0276, 0.0266, 0.0293),
            (0.0569, 0.0272, 0.0174, 0.0153, 0.0156, 0.0155),
            0.0,
            0.16,
        ),
        24e6,
        1.0,
    ),
    "v2": Costs(
        PassCosts(
            (0.0603, 0.0781, 0.0741, 0.0638, 0.0589, 0.0648),
            (0.0715, 0.0612, 0.0491, 0.0481, 0.0492, 0.0522),
            (0.0411, 0.0386, 0.0461, 0.0404, 0.0395, 0.0389),
            0.0,
            0.1,
        ),
        PassCosts(
            (0.066, 0.0756, 0.0836, 0.0828, 0.0754, 0.0778),
            (0.0689, 0.0878, 0.0799, 0.0747, 0.0736, 0.0795),
            (0.1007, 0.055, 0.0435, 0.0406, 0.0413, 0.0425),
            0.0,
            0.16,
        ),
        24e6,
        1.0,
    ),
}
