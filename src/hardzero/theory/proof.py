"""Proofs, line by line, that a checker without any geometry can follow.

A proof goes through the units in order, as `hardzero.theory.cells.split` does, those of
the first network before those of the second, and keeps the rows that are >= 0 on the
cell: t, the domain's, and one for each cut. Where a unit may change its piece, with the
row h of the difference of two pieces, there is one entry:

* 0, the hyperplane h = 0 cuts the cell: first the part with h <= 0 follows, then the
  other one;
* [m, i, y, j, z, ...] with m h = y rows[i] + z rows[j] + ..., y, z, ... >= 0: so h has
  the sign of m on the cell (Farkas' lemma).

Such multipliers are read off the generators of the cell. Take a facet that contains all
rays on which h is 0, and subtract from h as much of it as leaves h >= 0; then h is 0 on
one more ray. After at most d + 1 steps nothing is left.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import and_

from hardzero.theory.cells import axes, columns_of, compose, compose_row, minus
from hardzero.theory.cone import Cone, Row, dot, negative, primitive
from hardzero.theory.domain import Domain
from hardzero.theory.halfspaces import Halfspaces, polyhedron_of
from hardzero.theory.rational import RationalNetwork, Unit, as_whole

__all__ = ["Node", "prove"]

Node = int | list[int]


def prove(
    networks: Sequence[RationalNetwork],
    domain: Domain,
    bounds: Sequence[Sequence[Fraction]],
    *,
    with_points: bool,
) -> Iterator[Node]:
    """Yield the entries of a proof.

    Parameters
    ----------
    networks : sequence of RationalNetwork
        Whose cells it goes through, all at once.
    domain : Domain
        Where.
    bounds : sequence of sequence of Fraction
        Rows of coefficients of the inputs, of all units of all networks in order, and a
        constant; each is proved to be >= 0 on each cell.
    with_points : bool
        Whether a point inside is given for each cell.

    Yields
    ------
    int or list of int
        Entries as above; at the end of each cell a point (x t, t) if there is to be
        one, then an entry for each bound that is not 0 all over the cell.
    """
    n = domain.n_dimensions
    layers = _layers(networks, n)
    wholes = [as_whole(bound) for bound in bounds]
    start = _Cell.of(domain)
    waiting = [_Node(start, 0, axes(n), _composed(layers, 0, axes(n)), (), 0, 1)]
    while waiting:
        node = waiting.pop()
        cell, depth, maps, rows = node.cell, node.depth, node.maps, node.rows
        chosen, best, rival = node.chosen, node.best, node.rival
        while depth < len(layers):
            if len(chosen) == len(rows):
                depth, maps, chosen = depth + 1, (*maps, *chosen), ()
                rows = _composed(layers, depth, maps)
                continue
            pieces = rows[len(chosen)]
            if rival == len(pieces):
                chosen, best, rival = (*chosen, pieces[best]), 0, 1
                continue
            h = minus(pieces[rival], pieces[best])
            below, above = cell.area.cut(h)
            if below is None or above is None:
                yield cell.sign(h, above is not None)
                best = best if above is None else rival
            else:
                yield 0
                row = primitive(h)
                upper = cell.part(above, row)
                waiting.append(
                    _Node(upper, depth, maps, rows, chosen, rival, rival + 1)
                )
                cell = cell.part(below, negative(row))
            rival += 1
        if with_points:
            yield list(cell.area.point())
        columns = columns_of(maps)
        for whole, common in wholes:
            h = compose_row(tuple(whole), columns)
            if any(h):
                m, *terms = cell.sign(h, True)
                yield [m * common, *terms]


@dataclass(frozen=True)
class _Cell:
    """A polyhedron, and the numbers of the rows that it was made with."""

    area: Cone | Halfspaces
    numbers: dict[Row, int]
    n_rows: int

    @classmethod
    def of(cls, domain: Domain) -> "_Cell":
        rows = [(*[0] * domain.n_dimensions, 1), *domain.rows]
        numbers = {row: i for i, row in reversed(list(enumerate(rows)))}
        return cls(_with_proofs(domain), numbers, len(rows))

    def part(self, area: Cone | Halfspaces, row: Row) -> "_Cell":
        """Return the part where one more row is >= 0."""
        numbers = {row: self.n_rows, **self.numbers}
        return _Cell(area, numbers, self.n_rows + 1)

    def sign(self, h: Row, is_positive: bool) -> list[int]:
        """Return the multipliers that show that h, or else -h, is >= 0 here."""
        row = h if is_positive else negative(h)
        if isinstance(self.area, Cone):
            m, of_facets = _peeled(self.area, row)
            terms = {self.numbers[facet]: y for facet, y in of_facets.items()}
        else:
            m, of_rows = self.area.proof(row)
            terms = {i + 1: y for i, y in of_rows.items()}
        flat = [a for i, y in sorted(terms.items()) if y for a in (i, y)]
        return [m if is_positive else -m, *flat]


@dataclass(frozen=True)
class _Node:
    """A cell that is still to be divided."""

    cell: _Cell
    depth: int
    maps: tuple[Row, ...]  # of the inputs and of all units in the layers before
    rows: tuple[Unit, ...]  # pieces of the units of this layer, on this cell
    chosen: tuple[Row, ...]  # the largest pieces of the units decided so far
    best: int  # the largest of those pieces of the next unit that were compared
    rival: int  # the piece that it is to be compared with


def _with_proofs(domain: Domain) -> Cone | Halfspaces:
    """Return the domain in a form that multipliers can be had from."""
    area = polyhedron_of(domain)
    return Halfspaces.of(domain) if area.equations else area


def _peeled(cone: Cone, row: Row) -> tuple[int, dict[Row, int]]:
    """Return m and y with m row = sum of y[facet] facet, for a row >= 0 on the cone."""
    values = [dot(row, ray) for ray in cone.rays]
    m, terms = 1, dict[Row, int]()
    while any(values):
        everywhere = (1 << len(cone.facets)) - 1
        zeros = (f for f, v in zip(cone.faces, values, strict=True) if not v)
        common = reduce(and_, zeros, everywhere)
        facet = cone.facets[(common & -common).bit_length() - 1]
        heights = [dot(facet, ray) for ray in cone.rays]
        p, q = 0, 0  # the least value / height
        for value, height in zip(values, heights, strict=True):
            if height and (not q or value * q < p * height):
                p, q = value, height
        factor = math.gcd(p, q)
        p, q = p // factor, q // factor
        values = [q * v - p * a for v, a in zip(values, heights, strict=True)]
        m, terms = q * m, {other: q * y for other, y in terms.items()}
        terms[facet] = terms.get(facet, 0) + p
        factor = math.gcd(m, *terms.values(), *values)
        if factor > 1:
            m, values = m // factor, [v // factor for v in values]
            terms = {other: y // factor for other, y in terms.items()}
    return m, terms


def _layers(
    networks: Sequence[RationalNetwork], n_inputs: int
) -> list[tuple[slice, tuple[Unit, ...]]]:
    """Return the layers of all networks, and which of the maps each sees."""
    layers = []
    n_maps = n_inputs
    for network in networks:
        seen = slice(0, n_inputs)
        for layer in network.layers:
            layers.append((seen, layer))
            seen = slice(n_maps, n_maps + len(layer))
            n_maps += len(layer)
    return layers


def _composed(
    layers: Sequence[tuple[slice, tuple[Unit, ...]]], depth: int, maps: Sequence[Row]
) -> tuple[Unit, ...]:
    """Return the pieces of a layer on a cell; none after the last one."""
    if depth == len(layers):
        return ()
    seen, layer = layers[depth]
    return compose(layer, maps[seen])
