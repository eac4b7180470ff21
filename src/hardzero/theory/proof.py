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

from hardzero.theory.cells import minus
from hardzero.theory.cone import Cone, Row, dot, primitive
from hardzero.theory.domain import Domain
from hardzero.theory.halfspaces import Halfspaces, polyhedron_of
from hardzero.theory.rational import RationalNetwork, Unit

__all__ = ["Node", "prove"]

Node = int | list[int]
Step = tuple[slice, Unit]  # which of the rows so far a unit sees, and its pieces


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
    steps = _steps(networks, n)
    inputs = [tuple(int(i == j) for j in range(n + 1)) for i in range(n)]
    one = (*[0] * n, 1)
    cell = _Cell(_with_proofs(domain), [one, *domain.rows])
    waiting = [(cell, inputs, 0, 1)]
    while waiting:
        cell, maps, best, rival = waiting.pop()
        while len(maps) < n + len(steps):
            seen, pieces = steps[len(maps) - n]
            if rival == len(pieces):
                maps = [*maps, _composed(pieces[best], maps[seen])]
                best, rival = 0, 1
                continue
            h = _composed(minus(pieces[rival], pieces[best]), maps[seen])
            below, above = cell.area.cut(h)
            if below is None or above is None:
                yield cell.sign(h)
                best = rival if below is None else best
            else:
                yield 0
                row = primitive(h)
                waiting.append(
                    (_Cell(above, [*cell.rows, row]), maps, rival, rival + 1)
                )
                cell = _Cell(below, [*cell.rows, tuple(-a for a in row)])
            rival += 1
        if with_points:
            yield list(cell.area.point())
        for bound in bounds:
            common = math.lcm(*(a.denominator for a in bound))
            whole = tuple(int(a * common) for a in bound)
            h = _composed(whole, maps)
            if any(h):
                m, *terms = cell.sign(h, is_positive=True)
                yield [m * common, *terms]


@dataclass(frozen=True)
class _Cell:
    """A polyhedron and the rows that it was made with."""

    area: Cone | Halfspaces
    rows: list[Row]

    def sign(self, h: Row, *, is_positive: bool | None = None) -> list[int]:
        """Return the multipliers that show on which side of h = 0 the cell lies."""
        if is_positive is None:
            is_positive = self.area.signs(h)[1]
        sign = 1 if is_positive else -1
        row = tuple(sign * a for a in h)
        if isinstance(self.area, Cone):
            m, of_facets = _peeled(self.area, row)
            places = {row: i for i, row in reversed(list(enumerate(self.rows)))}
            terms = {places[facet]: y for facet, y in of_facets.items()}
        else:
            m, of_rows = self.area.proof(row)
            terms = {i + 1: y for i, y in of_rows.items()}
        return [sign * m, *(a for i, y in sorted(terms.items()) if y for a in (i, y))]


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
        p, q = min(
            ((v, a) for v, a in zip(values, heights, strict=True) if a),
            key=lambda pair: Fraction(*pair),
        )
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


def _steps(networks: Sequence[RationalNetwork], n_inputs: int) -> list[Step]:
    """Return the units of all networks, and where each finds its inputs."""
    steps: list[Step] = []
    for network in networks:
        seen = slice(0, n_inputs)
        for layer in network.layers:
            start = n_inputs + len(steps)
            steps += [(seen, unit) for unit in layer]
            seen = slice(start, start + len(layer))
    return steps


def _composed(row: Row, maps: Sequence[Row]) -> Row:
    """Return an affine function of affine functions."""
    columns = list(zip(*maps, strict=True))
    *slopes, constant = [dot(row, column) for column in columns]
    return (*slopes, constant + row[-1])
