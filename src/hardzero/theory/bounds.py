"""How many cells a network can have, and how many those of one layer are.

Bounds look at the sizes of the layers, and at which units can switch off, alone. The
count of one layer is exact: its units' hyperplanes are removed one after the other, and
each adds as many cells as the hyperplanes before it cut out of it.

References
----------
Zaslavsky 1975, "Facing up to arrangements", theorem A; Serra, Tjandraatmadja &
Ramalingam 2018, "Bounding and Counting Linear Regions of Deep Neural Networks", theorem
1; Montufar, Pascanu, Cho & Bengio 2014, "On the Number of Linear Regions of Deep Neural
Networks", the lower bound for rectifiers.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from hardzero.errors import BudgetError, ParameterError
from hardzero.theory.cells import axes, compose, minus
from hardzero.theory.cone import Row, primitive
from hardzero.theory.convert import as_network
from hardzero.theory.rational import RationalNetwork, Unit
from hardzero.theory.visits import check_budget

__all__ = ["RegionBounds", "count_arrangement", "region_bounds"]

_PRIME = 2**31 - 1
_MANY = 30  # rows, from which on a rank modulo a prime is worth while
_DEEPEST = 200  # dimensions; each is a call within the other


@dataclass(frozen=True)
class RegionBounds:
    """Bounds of the number of activation patterns of cells of full dimension.

    Parameters
    ----------
    n_inputs : int
        Number of inputs.
    widths : tuple of int
        Number of units with a kink, for each layer that has some.
    zaslavsky : int or None
        The number of cells of a single layer of units with two pieces in general
        position, which no weights exceed. None if there are several layers or other
        units.
    serra : int
        No weights give a network of this shape more cells, nor more linear regions.
    montufar : int or None
        The best weights for this shape give at least as many linear regions. That says
        nothing of the weights at hand: these may give a single one. None if not all
        units with kinks are rectifiers, or affine layers lie between them.
    """

    n_inputs: int
    widths: tuple[int, ...]
    zaslavsky: int | None
    serra: int
    montufar: int | None


def region_bounds(model_or_sizes: Any, n_inputs: int | None = None) -> RegionBounds:
    """Bound the number of linear regions by the sizes of the layers.

    Parameters
    ----------
    model_or_sizes : object or sequence of int
        Any model that `hardzero.theory.as_network` reads; or the number of inputs and
        the widths of the rectifier layers, without the affine outputs.
    n_inputs : int, optional
        Number of inputs. If it is given, all of the sizes are widths.

    Returns
    -------
    RegionBounds
        The bounds by name.

    Raises
    ------
    ParameterError
        If the model cannot be read, or sizes are no positive whole numbers.

    Notes
    -----
    The upper bound is that of Serra et al. for rectifiers: units that are off do not
    pass anything on, so the more of them, the fewer dimensions are left for the layers
    above. This holds for each unit of two pieces one of which is constant. Leaky
    rectifiers and absolute values always pass their input on and leave all dimensions;
    for them the bound is the product over the layers of the sum of binomials (n, j), j
    up to the least of the number of inputs and the widths below. A maxout unit of k
    pieces counts as the k (k - 1) / 2 hyperplanes on which two pieces tie.

    Examples
    --------
    >>> from hardzero import theory
    >>> theory.region_bounds([2, 4, 4])
    RegionBounds(n_inputs=2, widths=(4, 4), zaslavsky=None, serra=121, montufar=44)
    """
    if isinstance(model_or_sizes, (list, tuple, np.ndarray)):
        sizes = _read_sizes(list(model_or_sizes), n_inputs)
        n_inputs, *widths = sizes
        shapes = [_Shape(n_off=width) for width in widths]
        only_rectifiers = True
    else:
        network = as_network(model_or_sizes)
        if n_inputs is not None and n_inputs != network.n_inputs:
            raise ParameterError(
                f"n_inputs is {n_inputs} but the model has {network.n_inputs} inputs. "
                "Leave n_inputs out."
            )
        n_inputs = network.n_inputs
        shapes = [_shape(layer) for layer in network.layers]
        while shapes and not shapes[-1].n_kinked:
            shapes.pop()
        widths = [shape.n_kinked for shape in shapes if shape.n_kinked]
        only_rectifiers = all(
            len(unit) == 2 and not any(unit[0])
            for layer in network.layers[: len(shapes)]
            for unit in layer
        )
    is_single = len(widths) == 1 and len(shapes) == 1
    return RegionBounds(
        n_inputs,
        tuple(widths),
        _n_generic(shapes[0].n_hyperplanes, n_inputs)
        if is_single and shapes[0].n_hyperplanes == shapes[0].n_kinked
        else None,
        _upper(n_inputs, shapes),
        _lower_of_best(n_inputs, widths) if only_rectifiers else None,
    )


def count_arrangement(model: Any, *, budget: int = 1_000_000) -> int:
    """Count the cells of a network with one layer of kinks, without listing them.

    Any position of the units is counted right: parallel, equal, opposite or concurrent
    ones, constant ones, and biases of 0.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads with kinks in at most one
        layer, where each unit has at most two pieces.
    budget : int, default=1_000_000
        How many arrangements within intersections of hyperplanes may be looked at.
        Up to two inputs there are none; generic units need about n^(d - 2) / (d - 2)!.

    Returns
    -------
    int
        `Regions.n_activation_patterns` on R^d.

    Raises
    ------
    ParameterError
        If the model cannot be read, has kinks in two layers, or maxout units.
    BudgetError
        If the budget is exceeded.

    Notes
    -----
    With hyperplanes H_1, ..., H_n the number of cells is 1 plus the sum over k of the
    number of cells that H_1, ..., H_(k-1) make within H_k: deletion and restriction.
    Arrangements whose normals lie in complementary subspaces multiply; so n linearly
    independent units make 2^n cells whatever n is. In a plane, each line adds 1 and
    each point in which m lines meet m - 1.

    Examples
    --------
    >>> from hardzero import theory
    >>> three_lines = [[1, 0, 1], [0, 1, 1]], [0, 0, 0]
    >>> net = theory.rational_network([three_lines, ([[1]] * 3, [0])])
    >>> theory.count_arrangement(net)
    6
    """
    check_budget(budget, "arrangements")
    return _Counter(budget).count(_distinct(_hyperplanes(as_network(model))))


@dataclass(frozen=True)
class _Shape:
    """What the bounds look at in a layer.

    Parameters
    ----------
    n_off : int
        Units of two pieces, one of them constant.
    n_on : int
        Other units.
    n_bends : int
        Hyperplanes on which two pieces of these tie.
    n_affine : int
        Those of them with one piece.
    """

    n_off: int
    n_on: int = 0
    n_bends: int = 0
    n_affine: int = 0

    @property
    def n_kinked(self) -> int:
        return self.n_off + self.n_on - self.n_affine

    @property
    def n_hyperplanes(self) -> int:
        return self.n_off + self.n_bends


def _read_sizes(given: Sequence[Any], n_inputs: Any) -> list[int]:
    sizes = [*([] if n_inputs is None else [n_inputs]), *given]
    for size in sizes:
        if not isinstance(size, (int, np.integer)) or size < 1 or size is True:
            raise ParameterError(
                f"sizes has {size!r}, expected positive whole numbers: the number of "
                "inputs, then the width of each rectifier layer."
            )
    if not sizes:
        raise ParameterError(
            "sizes is empty, expected the number of inputs, then the width of each "
            "rectifier layer."
        )
    return [int(size) for size in sizes]


def _shape(layer: Sequence[Unit]) -> _Shape:
    can_be_off = [
        len(unit) == 2 and not all(any(row[:-1]) for row in unit) for unit in layer
    ]
    others = [unit for unit, off in zip(layer, can_be_off, strict=True) if not off]
    return _Shape(
        n_off=sum(can_be_off),
        n_on=len(others),
        n_bends=sum(math.comb(len(unit), 2) for unit in others),
        n_affine=sum(len(unit) == 1 for unit in others),
    )


def _upper(n_inputs: int, shapes: Sequence[_Shape]) -> int:
    """Return the bound of Serra et al., layer by layer from the last one.

    On a cell of the layers below, inputs of a layer fill at most d dimensions. Sort
    what the layer cuts the cell into by the number of units that are off. At most
    i of them are off in no more parts than `limit(i)`: there are no more choices of
    these units, times the parts that the other units make; nor more parts in all than
    hyperplanes in general position make. Where i units are off, at most n_on + n_off -
    i dimensions are left. As the bound of what comes above grows with the number of
    dimensions, it is largest if the parts with few units off are as many as allowed.
    """
    above = [1] * (n_inputs + 1)  # for each dimension the parts by the layers above
    for shape in reversed(shapes):
        here = []
        # With as many units off as there are dimensions, all parts are counted.
        choices = _prefix(shape.n_off, min(shape.n_off, n_inputs))
        in_general = _prefix(shape.n_hyperplanes, n_inputs)
        of_others = _prefix(shape.n_bends, n_inputs)
        for d in range(n_inputs + 1):
            total = limit = 0
            for i in range(shape.n_off + 1):
                before, limit = limit, min(in_general[d], choices[i] * of_others[d])
                left = min(d, shape.n_on + shape.n_off - i)
                total += (limit - before) * above[left]
                if limit == in_general[d]:
                    break
            here.append(total)
        above = here
    return above[n_inputs]


def _lower_of_best(n_inputs: int, widths: Sequence[int]) -> int:
    """Return the bound of Montufar et al., with the best number of inputs used."""
    if not widths:
        return 1
    *below, last = widths
    most = min([n_inputs, *below])
    best: int = max(
        math.prod([(width // d) ** d for width in below]) * _n_generic(last, d)
        for d in range(1, most + 1)
    )
    return best


def _n_generic(n: int, d: int) -> int:
    return sum(math.comb(n, i) for i in range(min(n, d) + 1))


def _prefix(n: int, d: int) -> list[int]:
    """Return the number of cells of n hyperplanes in general position, up to R^d."""
    return list(accumulate(math.comb(n, i) for i in range(d + 1)))


def _hyperplanes(network: RationalNetwork) -> list[Row]:
    """Return where two pieces of a unit tie, in the network's inputs."""
    inputs = axes(network.n_inputs)
    found: list[Row] = []
    for number, layer in enumerate(network.layers):
        if any(len(unit) > 1 for unit in layer):
            if found:
                raise ParameterError(
                    "the network has kinks in more than one layer, expected one. Count "
                    "with theory.linear_regions, or bound with theory.region_bounds."
                )
            if any(len(unit) > 2 for unit in layer):
                raise ParameterError(
                    f"layer {number + 1} has units of {max(map(len, layer))} pieces, "
                    "expected at most two: others make no arrangement of hyperplanes. "
                    "Count with theory.linear_regions."
                )
            rows = compose(layer, inputs)
            found = [minus(unit[1], unit[0]) for unit in rows if len(unit) == 2]
            inputs = ()
        elif not found:
            inputs = tuple(unit[0] for unit in compose(layer, inputs))
    return found


def _distinct(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the different hyperplanes among rows, each by a row of its own, sorted."""
    found = set()
    for row in rows:
        lead = next((value for value in row[:-1] if value), 0)
        if lead:
            found.add(primitive(row if lead > 0 else [-value for value in row]))
    return tuple(sorted(found))


class _Counter:
    """Counts cells of arrangements, each different one once."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._known: dict[tuple[Row, ...], int] = {}

    def count(self, rows: tuple[Row, ...]) -> int:
        """Return the number of cells of different hyperplanes."""
        if len(rows) <= 1 or len(rows[0]) == 2:
            return 1 + len(rows)
        if len(rows[0]) == 3:
            return _count_lines(rows)
        if rows not in self._known:
            if len(self._known) == self._budget:
                raise BudgetError(
                    f"more than {self._budget:,} arrangements within intersections of "
                    "hyperplanes are to be looked at, the budget. Raise budget, or "
                    "take the bound that theory.region_bounds gives."
                )
            self._known[rows] = self._count_anew(rows)
        return self._known[rows]

    def _count_anew(self, rows: tuple[Row, ...]) -> int:
        n = len(rows)
        if _MANY < n < len(rows[0]) and _are_independent(rows):
            return 1 << n
        pivots, circuits = _eliminated(rows)
        parts = _parts(n, circuits)
        if len(parts) > 1:
            return math.prod(self.count(tuple(rows[i] for i in p)) for p in parts)
        if len(circuits) == 1:
            # All choices of sides but one have a cell; two have none if all meet.
            return (1 << n) - (1 if circuits[0].constant else 2)
        if len(pivots) > _DEEPEST:
            raise BudgetError(
                f"{n} units depend on each other in {len(pivots)} dimensions, expected "
                f"at most {_DEEPEST}. Take the bound that theory.region_bounds gives."
            )
        essential = [tuple(row[i] for i in (*pivots, -1)) for row in rows]
        if len(pivots) <= 2:
            return self.count(_distinct(essential))
        return 1 + sum(
            self.count(_distinct(_within(row, other) for other in essential[:k]))
            for k, row in enumerate(essential)
        )


def _count_lines(rows: tuple[Row, ...]) -> int:
    """Count the cells of different lines in the plane."""
    n_cells = 1
    for k, (a, b, c) in enumerate(rows):
        # Each point in which the line meets those before it cuts it once more.
        points = set()
        for p, q, r in rows[:k]:
            if below := a * q - b * p:
                above = b * r - c * q if b else c * p - a * r
                common = math.gcd(above, below) * (1 if below > 0 else -1)
                points.add((above // common, below // common))
        n_cells += 1 + len(points)
    return n_cells


def _are_independent(rows: Sequence[Row]) -> bool:
    """Return whether normals are proved independent, by their rank modulo a prime."""
    M = np.array([[value % _PRIME for value in row[:-1]] for row in rows])
    for k in range(len(M)):
        places = np.flatnonzero(M[k])
        if not len(places):
            return False
        pivot = places[0]
        inverse = pow(int(M[k, pivot]), -1, _PRIME)
        M[k] = M[k] * inverse % _PRIME
        below = M[k + 1 :]
        below -= below[:, pivot, None] * M[k] % _PRIME
        below %= _PRIME
    return True


@dataclass(frozen=True)
class _Circuit:
    """Rows whose normals depend on each other, each of them on the others.

    Parameters
    ----------
    members : frozenset of int
        Their numbers.
    constant : int
        What their dependency makes of the constants; 0 if the hyperplanes all meet.
    """

    members: frozenset[int]
    constant: int


def _eliminated(rows: Sequence[Row]) -> tuple[list[int], list[_Circuit]]:
    """Return the pivots of the normals, and a circuit for each that is no basis row."""
    basis: list[tuple[int, Row]] = []
    circuits = []
    n, width = len(rows), len(rows[0])
    for number, row in enumerate(rows):
        vector: Row = (*row, *(int(i == number) for i in range(n)))
        for pivot, other in basis:
            if vector[pivot]:
                vector = _combined(other, vector, pivot)
        lead = next((i for i in range(width - 1) if vector[i]), None)
        if lead is not None:
            basis.append((lead, vector))
        else:
            members = frozenset(i for i, c in enumerate(vector[width:]) if c)
            circuits.append(_Circuit(members, vector[width - 1]))
    return sorted(pivot for pivot, _ in basis), circuits


def _combined(first: Row, second: Row, pivot: int) -> Row:
    """Return the combination of two rows that is 0 at the pivot."""
    a, b = first[pivot], second[pivot]
    return primitive([a * y - b * x for x, y in zip(first, second, strict=True)])


def _parts(n: int, circuits: Sequence[_Circuit]) -> list[list[int]]:
    """Return which rows hang together by circuits; the parts span direct summands."""
    parts = [{i} for i in range(n)]
    for circuit in circuits:
        touched = [part for part in parts if part & circuit.members]
        parts = [part for part in parts if not part & circuit.members]
        parts.append(set().union(*touched))
    return [sorted(part) for part in parts]


def _within(hyperplane: Row, row: Row) -> Row:
    """Return a row within a hyperplane, without the coordinate that this determines."""
    pivot = next(i for i, value in enumerate(hyperplane) if value)
    combined = _combined(hyperplane, row, pivot)
    return combined[:pivot] + combined[pivot + 1 :]
