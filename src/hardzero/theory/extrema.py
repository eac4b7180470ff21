"""Exact extreme values of a network and of its units.

A piecewise-linear function on a polyhedron takes its maximum at a vertex of one of its
cells, or grows without end along one of their directions. So the cells are visited one
after the other, and nothing is rounded.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import permutations
from typing import Any, Literal

from hardzero.errors import BudgetError, ParameterError
from hardzero.theory.cells import axes, compose, minus, split
from hardzero.theory.certificate import Certificate, certify_maximum, differences
from hardzero.theory.cone import Row, coordinates, dot, negative
from hardzero.theory.convert import as_network
from hardzero.theory.domain import Domain, read_domain
from hardzero.theory.halfspaces import polyhedron_of
from hardzero.theory.polyhedron import Polyhedron
from hardzero.theory.rational import (
    RationalNetwork,
    check_alike,
    nearest_float,
    read_vector,
    side_by_side,
)
from hardzero.theory.visits import check_budget, visit

__all__ = [
    "Extremum",
    "UnitRange",
    "maximum",
    "minimum",
    "preactivation_ranges",
    "supremum_difference",
]

Interval = tuple[Fraction | float, Fraction | float]


@dataclass(frozen=True)
class Extremum:
    """An exact extreme value and where it is taken.

    Parameters
    ----------
    value : Fraction or float
        The value; plus or minus infinity if there is no largest or smallest one.
    argument : tuple of Fraction
        A point of the domain where the value is taken. If the value is infinite, a
        point from which the function goes there along `direction`.
    direction : tuple of int or None
        Direction of the domain in which the function goes to infinity, else None.
    n_cells : int
        Number of cells that were looked at.
    networks : tuple of RationalNetwork
        The network; of a difference, both.
    domain : Domain
        Where it was looked at.
    functionals : tuple of tuple of Fraction
        Coefficients of the outputs of all networks; the largest value of any of them is
        the maximum, or minus the minimum.
    """

    value: Fraction | float
    argument: tuple[Fraction, ...]
    direction: tuple[int, ...] | None
    n_cells: int
    networks: tuple[RationalNetwork, ...] = field(repr=False)
    domain: Domain = field(repr=False)
    functionals: tuple[tuple[Fraction, ...], ...] = field(repr=False)

    def certificate(self) -> Certificate:
        """Return the value with a proof that others can check.

        Returns
        -------
        Certificate
            Of a maximum; that of a minimum is about the negative output.

        Raises
        ------
        ParameterError
            If the value is infinite.
        """
        if not isinstance(self.value, Fraction):
            raise ParameterError(
                f"the extreme value is {self.value}, which has no certificate. Give a "
                "domain on which it is finite."
            )
        outputs = [y for network in self.networks for y in network(self.argument)]
        value = max(
            sum(a * y for a, y in zip(c, outputs, strict=True))
            for c in self.functionals
        )
        return certify_maximum(
            self.networks, self.domain, self.functionals, Fraction(value), self.argument
        )


def maximum(
    model: Any,
    domain: Any = None,
    c: Iterable[Any] | None = None,
    *,
    budget: int = 1_000_000,
    verbose: bool = False,
) -> Extremum:
    """Return the exact maximum of a linear functional of the outputs.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads, with the function f.
    domain : None, (lower, upper) or (A, b)
        All of R^d, a box, or the polytope A x <= b.
    c : iterable of numbers, length n_outputs, optional
        Coefficients of the outputs: c . f(x) is maximised. None is for networks with
        one output, and means that output.
    budget : int, default=1_000_000
        Largest number of cells to be looked at.
    verbose : bool, default=False
        Whether a progress bar is shown on standard error.

    Returns
    -------
    Extremum
        Value and argument.

    Raises
    ------
    ParameterError
        If the model, the domain or `c` cannot be read.
    BudgetError
        If there are more cells than the budget; it says what was found so far.

    Examples
    --------
    >>> from hardzero import theory
    >>> tent = theory.rational_network([([[1, 1]], [0, "-1/2"]), ([[2], [-4]], [0])])
    >>> found = theory.maximum(tent, (0, 1))
    >>> found.value, found.argument
    (Fraction(1, 1), (Fraction(1, 2),))
    """
    network = as_network(model)
    coefficients = _read_functional(c, network.n_outputs)
    area = read_domain(domain, network.n_inputs)
    return _maximise((network,), area, [coefficients], budget, verbose)


def minimum(
    model: Any,
    domain: Any = None,
    c: Iterable[Any] | None = None,
    *,
    budget: int = 1_000_000,
    verbose: bool = False,
) -> Extremum:
    """Return the exact minimum of a linear functional of the outputs.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads, with the function f.
    domain : None, (lower, upper) or (A, b)
        All of R^d, a box, or the polytope A x <= b.
    c : iterable of numbers, length n_outputs, optional
        Coefficients of the outputs: c . f(x) is minimised. None is for networks with
        one output, and means that output.
    budget : int, default=1_000_000
        Largest number of cells to be looked at.
    verbose : bool, default=False
        Whether a progress bar is shown on standard error.

    Returns
    -------
    Extremum
        Value and argument.

    Raises
    ------
    ParameterError
        If the model, the domain or `c` cannot be read.
    BudgetError
        If there are more cells than the budget.
    """
    network = as_network(model)
    coefficients = [-a for a in _read_functional(c, network.n_outputs)]
    area = read_domain(domain, network.n_inputs)
    found = _maximise((network,), area, [coefficients], budget, verbose)
    return replace(found, value=-found.value)


def supremum_difference(
    f: Any,
    g: Any,
    domain: Any = None,
    *,
    budget: int = 1_000_000,
    verbose: bool = False,
) -> Extremum:
    """Return the exact supremum of ``|f - g|`` over a domain.

    Parameters
    ----------
    f, g : object
        Any models that `hardzero.theory.as_network` reads.
    domain : None, (lower, upper) or (A, b)
        All of R^d, a box, or the polytope A x <= b.
    budget : int, default=1_000_000
        Largest number of cells to be looked at.
    verbose : bool, default=False
        Whether a progress bar is shown on standard error.

    Returns
    -------
    Extremum
        The largest absolute difference of one output, and where it is.

    Raises
    ------
    ParameterError
        If models or domain cannot be read, or do not fit together.
    BudgetError
        If there are more cells than the budget.
    """
    first, second = as_network(f), as_network(g)
    check_alike(first, second)
    area = read_domain(domain, first.n_inputs)
    either = differences(first.n_outputs)
    return _maximise((first, second), area, either, budget, verbose)


@dataclass(frozen=True)
class UnitRange:
    """What a unit does on a domain.

    Parameters
    ----------
    lower, upper : Fraction or float
        Bounds of its pre-activation (of its last affine piece, which for a rectifier is
        that); minus and plus infinity if there are none.
    piece : int or None
        The piece that is the largest all over the domain: 0 for a rectifier that is
        never active, 1 for one that always is; None if that changes, or, with
        intervals, may change.
    """

    lower: Fraction | float
    upper: Fraction | float
    piece: int | None


def preactivation_ranges(
    model: Any,
    domain: Any = None,
    *,
    method: Literal["interval", "exact"] = "interval",
    budget: int = 1_000_000,
    verbose: bool = False,
) -> list[list[UnitRange]]:
    """Return between which values the units of each layer lie.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads.
    domain : None, (lower, upper) or (A, b)
        All of R^d, a box, or the polytope A x <= b.
    method : {"interval", "exact"}, default="interval"
        "exact" takes the extremes over all cells of the layers below, in which each is
        attained or approached. "interval" adds up the extremes of the inputs of a unit
        as if they were independent: quick, certainly not too narrow, exact in the first
        layer of a box.
    budget : int, default=1_000_000
        Largest number of cells for "exact".
    verbose : bool, default=False
        Whether a progress bar is shown on standard error.

    Returns
    -------
    list of list of UnitRange
        For each layer, the affine ones among them, and each unit.

    Raises
    ------
    ParameterError
        If an argument cannot be read.
    BudgetError
        If there are more cells than the budget.
    """
    network = as_network(model)
    area = read_domain(domain, network.n_inputs)
    check_budget(budget)
    if method == "interval":
        return _interval_ranges(network, area)
    if method == "exact":
        return _exact_ranges(network, area, budget, verbose)
    raise ParameterError(f'method is {method!r}, expected "interval" or "exact".')


def _read_functional(c: Iterable[Any] | None, n_outputs: int) -> list[Fraction]:
    if c is None:
        if n_outputs != 1:
            raise ParameterError(
                f"the network has {n_outputs} outputs, and c is None, which means the "
                "only output. Give c with one coefficient for each output."
            )
        return [Fraction(1)]
    if not isinstance(c, Iterable) or isinstance(c, str):
        c = [c]
    return read_vector(c, n_outputs, "c", "output of the network")


def _maximise(
    networks: tuple[RationalNetwork, ...],
    domain: Domain,
    functionals: Sequence[Sequence[Fraction]],
    budget: int,
    verbose: bool,
) -> Extremum:
    """Maximise the largest of several functionals of the outputs of all networks."""
    check_budget(budget)
    network = networks[0] if len(networks) == 1 else side_by_side(*networks)
    denominator = math.lcm(*(a.denominator for c in functionals for a in c))
    whole = [[int(a * denominator) for a in c] for c in functionals]
    asked = networks, domain, tuple(map(tuple, functionals))
    best: Row | None = None
    best_value = 0  # of a functional at `best`, times t
    n_cells = 0
    pieces = split(network, polyhedron_of(domain))
    for n_cells, cell in visit(pieces, verbose=verbose):
        if n_cells > budget:
            assert best is not None
            known = Fraction(best_value, best[-1] * denominator) * network.scales[-1]
            raise BudgetError(
                f"there are more than {budget:,} cells, the budget; the largest value "
                f"so far is {nearest_float(known):g}. Raise budget, or give a smaller "
                "domain."
            )
        for c in whole:
            row = tuple(dot(c, column) for column in zip(*cell.outputs, strict=True))
            place, is_bounded = cell.cone.minimum(negative(row))
            if not is_bounded:
                at = coordinates(cell.cone.point())
                return Extremum(math.inf, at, place[:-1], n_cells, *asked)
            value = dot(row, place)
            if best is None or value * best[-1] > best_value * place[-1]:
                best, best_value = place, value
    assert best is not None
    highest = Fraction(best_value, best[-1] * denominator) * network.scales[-1]
    return Extremum(highest, coordinates(best), None, n_cells, *asked)


def _interval_ranges(network: RationalNetwork, domain: Domain) -> list[list[UnitRange]]:
    area = polyhedron_of(domain)
    bounds = [_extremes(area, axis) for axis in axes(network.n_inputs)]
    found = []
    for layer, scale in zip(network.layers, network.scales, strict=True):
        of_layer = []
        inputs, bounds = bounds, []
        for unit in layer:
            pieces = [_interval(row, inputs) for row in unit]
            losers = {
                i
                for i, j in permutations(range(len(unit)), 2)
                if _interval(minus(unit[i], unit[j]), inputs)[0] < 0
            }
            of_layer.append(_unit_range(pieces[-1], scale, len(unit), losers))
            bounds.append((max(p[0] for p in pieces), max(p[1] for p in pieces)))
        found.append(of_layer)
    return found


def _interval(row: Row, bounds: Sequence[Interval]) -> Interval:
    """Return between which values an affine function of independent inputs lies."""
    low: Fraction | float = Fraction(row[-1])
    high = low
    for a, (least, most) in zip(row[:-1], bounds, strict=True):
        if a:  # 0 times infinity is 0 here
            ends = _times(least, Fraction(a)), _times(most, Fraction(a))
            low, high = _plus(low, min(ends)), _plus(high, max(ends))
    return low, high


def _exact_ranges(
    network: RationalNetwork, domain: Domain, budget: int, verbose: bool
) -> list[list[UnitRange]]:
    area = polyhedron_of(domain)
    found = []
    n_cells = 0
    for number, layer in enumerate(network.layers):
        bounds: list[Interval] = [(math.inf, -math.inf)] * len(layer)
        losers: list[set[int]] = [set() for _ in layer]
        for cone, inputs in _cells_below(network, number, area, verbose):
            n_cells += 1
            if n_cells > budget:
                raise BudgetError(
                    f"there are more than {budget:,} cells, the budget, in layer "
                    f"{number + 1} of {len(network.layers)}. Raise budget, give a "
                    'smaller domain, or use method="interval".'
                )
            for k, unit in enumerate(compose(layer, inputs)):
                low, high = _extremes(cone, unit[-1])
                bounds[k] = min(bounds[k][0], low), max(bounds[k][1], high)
                losers[k] |= {
                    i
                    for i, j in permutations(range(len(unit)), 2)
                    if i not in losers[k]
                    and _extremes(cone, minus(unit[i], unit[j]))[0] < 0
                }
        found.append(
            [
                _unit_range(bounds[k], network.scales[number], len(unit), losers[k])
                for k, unit in enumerate(layer)
            ]
        )
    return found


def _cells_below(
    network: RationalNetwork, number: int, area: Polyhedron, verbose: bool
) -> Iterator[tuple[Polyhedron, Sequence[Row]]]:
    """Yield the cells of the layers below one, and its inputs on them."""
    if number == 0:
        yield area, axes(network.n_inputs)
        return
    below = RationalNetwork(
        network.n_inputs, network.layers[:number], network.scales[:number]
    )
    title = f"cells below layer {number + 1}"
    for _, cell in visit(split(below, area), verbose=verbose, title=title):
        yield cell.cone, cell.outputs


def _extremes(cone: Polyhedron, row: Row) -> Interval:
    """Return the infimum and the supremum of an affine function."""
    ends: list[Fraction | float] = []
    for sign in (1, -1):
        place, is_bounded = cone.minimum(tuple(sign * a for a in row))
        value = Fraction(dot(row, place), place[-1]) if is_bounded else -sign * math.inf
        ends.append(value)
    return ends[0], ends[1]


def _unit_range(
    bounds: Interval, scale: Fraction, n_pieces: int, losers: set[int]
) -> UnitRange:
    winners = sorted(set(range(n_pieces)) - losers)
    return UnitRange(
        _times(bounds[0], scale),
        _times(bounds[1], scale),
        winners[0] if winners else None,
    )


def _plus(a: Fraction | float, b: Fraction | float) -> Fraction | float:
    """Add; a float is an infinity, and two have the same sign."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a + b
    return b if isinstance(a, Fraction) else a


def _times(value: Fraction | float, factor: Fraction) -> Fraction | float:
    """Multiply; a float is an infinity, and the factor is not 0."""
    if isinstance(value, Fraction):
        return value * factor
    return value if factor > 0 else -value
