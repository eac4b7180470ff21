"""Lossless shrinking: the same function on a domain with fewer units.

What may go is known from exact ranges of the units on the domain:

* a unit that is constant there (a rectifier that is never active) becomes part of the
  biases above it;
* of the units that are affine there (rectifiers that are always active), as many stay
  as their rows have rank, and the others are written as sums of those;
* a layer in which all units are affine there disappears into the next one;
* of units that are positive multiples of each other one stays;
* a unit that nothing uses goes.

References
----------
Serra, Kumar & Ramalingam 2020, "Lossless compression of deep neural networks"
(arXiv 2001.00218), for the first three.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from hardzero.theory.certificate import Certificate
from hardzero.theory.convert import as_network
from hardzero.theory.domain import read_domain
from hardzero.theory.equality import Equality, equal
from hardzero.theory.extrema import UnitRange, preactivation_ranges
from hardzero.theory.rational import (
    RationalNetwork,
    from_rational_layers,
    rational_layers,
)

__all__ = ["Minimised", "Rewrite", "minimise"]

Vector = list[Fraction]


@dataclass(frozen=True)
class Rewrite:
    """One unit that is not needed.

    Parameters
    ----------
    layer : int
        Number of its layer in the network that was given, counted from 1.
    unit : int
        Its place in that layer, from 0 on.
    rule : {"constant", "dependent", "affine layer", "parallel", "unused"}
        Why it may go.
    lower, upper : Fraction or float
        Between which values its pre-activation lies on the domain.
    into : tuple of int
        Units of the same layer that stand for it from now on.
    """

    layer: int
    unit: int
    rule: Literal["constant", "dependent", "affine layer", "parallel", "unused"]
    lower: Fraction | float
    upper: Fraction | float
    into: tuple[int, ...] = ()


@dataclass(frozen=True)
class Minimised:
    """A smaller network with the same function on a domain.

    Parameters
    ----------
    network : RationalNetwork
        The smaller network; `hardzero.theory.as_stack` gives it in floats.
    before : tuple of int
        Sizes of the network that was given: inputs, then units of each layer.
    rewrites : tuple of Rewrite
        What was taken away, in this order.
    proof : Equality
        The verdict of `hardzero.theory.equal` on both networks and the domain.
    """

    network: RationalNetwork
    before: tuple[int, ...]
    rewrites: tuple[Rewrite, ...] = field(repr=False)
    proof: Equality = field(repr=False)

    @property
    def after(self) -> tuple[int, ...]:
        """Shape of the smaller network: inputs, then units of each layer."""
        return self.network.sizes

    def certificate(self) -> Certificate:
        """Return the proof of equality for others to check.

        Returns
        -------
        Certificate
            That both networks are equal on the domain.
        """
        return self.proof.certificate()


def minimise(
    model: Any,
    domain: Any = None,
    *,
    method: Literal["exact", "interval"] = "exact",
    budget: int = 1_000_000,
    verbose: bool = False,
) -> Minimised:
    """Take away what a network does not need on a domain, and prove it.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads.
    domain : None, (lower, upper) or (A, b)
        Where the function is to stay the same: all of R^d, a box, or the polytope
        A x <= b.
    method : {"exact", "interval"}, default="exact"
        How the ranges of units are found, see `hardzero.theory.preactivation_ranges`.
        Intervals are quicker and find less.
    budget : int, default=1_000_000
        Largest number of cells that ranges, and then the proof, may take.
    verbose : bool, default=False
        Whether a progress bar is shown on standard error.

    Returns
    -------
    Minimised
        The smaller network with the list of what went, proved equal.

    Raises
    ------
    ParameterError
        If an argument cannot be read.
    BudgetError
        If there are more cells than the budget.

    Examples
    --------
    >>> from hardzero import theory
    >>> net = theory.rational_network([([[1, 2, -1]], [0, 0, -3]), ([[1]] * 3, [0])])
    >>> theory.minimise(net, (-1, 1)).after
    (1, 1, 1)
    """
    network = as_network(model)
    area = read_domain(domain, network.n_inputs)
    ranges = preactivation_ranges(
        network, area, method=method, budget=budget, verbose=verbose
    )
    work = _Work(network, ranges)
    while work.sweep():
        pass
    smaller = work.network()
    proof = equal(network, smaller, area, budget=budget, verbose=verbose)
    if not proof:
        raise AssertionError(f"a rewrite changed the function: {proof}")
    return Minimised(smaller, network.sizes, tuple(work.rewrites), proof)


class _Work:
    """A network that is being shrunk, in rationals."""

    def __init__(self, network: RationalNetwork, ranges: list[list[UnitRange]]) -> None:
        self._layers = rational_layers(network)
        self._ranges = [list(of_layer) for of_layer in ranges]
        self._labels = [
            [(number, unit) for unit in range(len(layer))]
            for number, layer in enumerate(network.layers, start=1)
        ]
        self._n_inputs = network.n_inputs
        self.rewrites: list[Rewrite] = []

    def network(self) -> RationalNetwork:
        return from_rational_layers(self._layers)

    def sweep(self) -> bool:
        """Apply each rule to each hidden layer once; return whether one did."""
        n_before = len(self.rewrites)
        number = 0
        while number < len(self._layers) - 1:
            self._fold_constants(number)
            if not self._layers[number]:
                self._collapse_below(number)
                return True
            if all(
                self._affine_row(number, k) for k in range(len(self._layers[number]))
            ):
                self._compose_away(number)
                continue
            self._fold_dependent(number)
            self._merge_parallel(number)
            number += 1
        for number in reversed(range(len(self._layers) - 1)):
            self._drop_unused(number)
        return len(self.rewrites) > n_before

    def _affine_row(self, number: int, k: int) -> Vector | None:
        """Return what a unit is on the domain, if that is one affine piece."""
        unit = self._layers[number][k]
        if len(unit) == 1:
            return unit[0]
        piece = self._ranges[number][k].piece
        return None if piece is None else unit[piece]

    def _fold_constants(self, number: int) -> None:
        for k in reversed(range(len(self._layers[number]))):
            row = self._affine_row(number, k)
            pieces = self._layers[number][k]
            if row is None and not any(any(piece[:-1]) for piece in pieces):
                row = max(pieces, key=lambda piece: piece[-1])
            if row is not None and not any(row[:-1]):
                self._replace(number, k, {}, row[-1], "constant")

    def _fold_dependent(self, number: int) -> None:
        """Keep as many affine units as their rows have rank."""
        basis: list[int] = []
        echelon: list[tuple[Vector, dict[int, Fraction]]] = []
        sums: list[tuple[int, dict[int, Fraction]]] = []
        for k in range(len(self._layers[number])):
            row = self._affine_row(number, k)
            if row is None:
                continue
            rest, combination = _reduce(row[:-1], echelon)
            if any(rest):
                basis.append(k)
                echelon.append((rest, {**_negative(combination), k: Fraction(1)}))
            else:
                sums.append((k, combination))
        for k, combination in reversed(sums):
            row = self._affine_row(number, k)
            assert row is not None
            constant = row[-1]
            for i, a in combination.items():
                other = self._affine_row(number, i)
                assert other is not None
                constant -= a * other[-1]
            self._replace(number, k, combination, constant, "dependent")

    def _merge_parallel(self, number: int) -> None:
        """Keep one of the units that are positive multiples of each other."""
        first: dict[tuple[tuple[Fraction, ...], ...], tuple[int, Fraction]] = {}
        merged: list[tuple[int, int, Fraction]] = []
        for k, unit in enumerate(self._layers[number]):
            size = next((abs(a) for piece in unit for a in piece if a), Fraction(1))
            key = tuple(sorted({tuple(a / size for a in piece) for piece in unit}))
            if key in first:
                rival, other = first[key]
                merged.append((k, rival, size / other))
            else:
                first[key] = k, size
        for k, rival, factor in reversed(merged):
            self._replace(number, k, {rival: factor}, Fraction(0), "parallel")

    def _drop_unused(self, number: int) -> None:
        if len(self._layers[number]) == 1:
            return  # a layer needs a unit; the sweep finds it constant if it is
        for k in reversed(range(len(self._layers[number]))):
            if not any(piece[k] for unit in self._layers[number + 1] for piece in unit):
                self._replace(number, k, {}, Fraction(0), "unused")

    def _compose_away(self, number: int) -> None:
        """Put the rows of an affine layer into the next one."""
        rows: list[Vector] = []
        for k in range(len(self._layers[number])):
            row = self._affine_row(number, k)
            assert row is not None
            rows.append(row)
            self._note(number, k, "affine layer", ())
        self._layers[number + 1] = [
            [_composed(piece, rows) for piece in unit]
            for unit in self._layers[number + 1]
        ]
        for of_layer in (self._layers, self._ranges, self._labels):
            del of_layer[number]

    def _collapse_below(self, number: int) -> None:
        """Turn a network with an empty layer into the constant that it is."""
        for below in range(number):
            for k in range(len(self._layers[below])):
                self._note(below, k, "unused", ())
        no_inputs = [Fraction(0)] * self._n_inputs
        self._layers[number + 1] = [
            [[*no_inputs, max(piece[-1] for piece in unit)]]
            for unit in self._layers[number + 1]
        ]
        for of_layer in (self._layers, self._ranges, self._labels):
            del of_layer[: number + 1]

    def _replace(
        self,
        number: int,
        k: int,
        combination: dict[int, Fraction],
        constant: Fraction,
        rule: Any,
    ) -> None:
        """Put constant + a combination of other units wherever unit k is used."""
        self._note(number, k, rule, tuple(combination))
        for unit in self._layers[number + 1]:
            for piece in unit:
                weight = piece[k]
                for i, a in combination.items():
                    piece[i] += weight * a
                piece[-1] += weight * constant
                del piece[k]
        for of_layer in (self._layers, self._ranges, self._labels):
            del of_layer[number][k]

    def _note(self, number: int, k: int, rule: Any, into: Sequence[int]) -> None:
        layer, unit = self._labels[number][k]
        of_unit = self._ranges[number][k]
        others = tuple(self._labels[number][i][1] for i in into)
        self.rewrites.append(
            Rewrite(layer, unit, rule, of_unit.lower, of_unit.upper, others)
        )


def _reduce(
    row: Vector, echelon: list[tuple[Vector, dict[int, Fraction]]]
) -> tuple[Vector, dict[int, Fraction]]:
    """Return row minus a combination of known rows, and the combination."""
    rest = list(row)
    combination: dict[int, Fraction] = {}
    for pivot, parts in echelon:
        lead = next(i for i, a in enumerate(pivot) if a)
        factor = rest[lead] / pivot[lead]
        if factor:
            rest = [a - factor * b for a, b in zip(rest, pivot, strict=True)]
            for i, a in parts.items():
                combination[i] = combination.get(i, Fraction(0)) + factor * a
    return rest, combination


def _negative(combination: dict[int, Fraction]) -> dict[int, Fraction]:
    return {i: -a for i, a in combination.items()}


def _composed(piece: Vector, rows: list[Vector]) -> Vector:
    """Return an affine function of affine functions."""
    total = [Fraction(0)] * (len(rows[0]) - 1) + [piece[-1]]
    for weight, row in zip(piece[:-1], rows, strict=True):
        if weight:
            total = [a + weight * b for a, b in zip(total, row, strict=True)]
    return total
