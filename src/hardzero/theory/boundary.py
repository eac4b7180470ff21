"""Where the decision of a network changes: exact pieces, and how they hang together.

A decision is which of several functions is the largest: the outputs of a network, or,
with a single output, that output and the level that it is compared with. On a cell of
the network they are affine, and each leads on a convex part of the cell. A boundary
piece is what the parts on the two sides of a hyperplane have in common. Where it lies
on a wall between cells, the network beyond the wall is asked which of its cells are
there, so that nothing has to be remembered and each piece comes once.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardzero.errors import BudgetError, ParameterError
from hardzero.theory.cells import Pattern, axes, compose, minus
from hardzero.theory.cone import Cone, Row, coordinates, dot, negative, primitive
from hardzero.theory.disjoint import DisjointSets
from hardzero.theory.polyhedron import as_polytope
from hardzero.theory.rational import RationalNetwork, to_fraction
from hardzero.theory.regions import Cell, Regions, linear_regions

__all__ = [
    "Boundary",
    "BoundaryPiece",
    "Component",
    "TiedPart",
    "decision_boundary",
    "leaders",
]


def decision_boundary(
    model: Any,
    domain: Any = None,
    *,
    level: Any = 0,
    budget: int = 1_000_000,
    verbose: bool = False,
) -> "Boundary":
    """Find where the decision of a piecewise-linear network changes.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads. With one output it decides
        for class 1 where the output is at least `level`, and for class 0 elsewhere;
        with several, for the first of the largest outputs.
    domain : None, (lower, upper) or (A, b)
        All of R^d, a box, or the polytope A x <= b.
    level : int, float, Fraction or str, default=0
        What a single output is compared with.
    budget : int, default=1_000_000
        Largest number of cells that may be visited for a property of the whole
        boundary. Iterating has no limit.
    verbose : bool, default=False
        Whether a progress bar is shown on standard error.

    Returns
    -------
    Boundary
        Iterate over it for the pieces, ask it for hyperplanes and components. Nothing
        is computed before.

    Raises
    ------
    ParameterError
        If the model, the domain or the level cannot be read, the domain is empty, or a
        level is given for a network with several outputs.

    Examples
    --------
    >>> from hardzero import theory
    >>> layers = [([[1, 0], [0, 1]], [0, 0]), ([[-1], [-1]], [1])]  # 1 - R(x) - R(y)
    >>> boundary = theory.decision_boundary(theory.rational_network(layers))
    >>> [[str(a) for a in row] for row in boundary.hyperplanes]
    [['0', '1', '-1'], ['1', '0', '-1'], ['1', '1', '-1']]
    """
    regions = linear_regions(model, domain, budget=budget, verbose=verbose)
    regions = replace(regions, cone=regions.domain.cone())
    threshold = to_fraction(level, "level")
    n_outputs = regions.network.n_outputs
    if threshold and n_outputs > 1:
        raise ParameterError(
            f"level is {level!r} but the network has {n_outputs} outputs, which are "
            "compared with each other. Leave level out."
        )
    return Boundary(regions, threshold)


@dataclass(frozen=True, eq=False)
class _Part:
    """A polyhedron within the domain on which several classes tie.

    Parameters
    ----------
    cone : Cone
        The cone over it.
    classes : tuple of int
        The classes that tie and lead there: numbers of outputs, from 0 on; of a single
        output 1 and 0.
    """

    cone: Cone = field(repr=False)
    classes: tuple[int, ...]

    @property
    def polytope(self) -> tuple[list[list[Fraction]], list[Fraction]]:
        """(A, b) with the part {x : A x <= b}; an equation takes two rows."""
        return as_polytope(self.cone)

    @property
    def vertices(self) -> list[tuple[Fraction, ...]]:
        """The vertices, two for a segment, in no particular order; none with lines."""
        return self.cone.vertices

    @property
    def directions(self) -> list[tuple[int, ...]]:
        """Extreme directions in which it is unbounded; lines go both ways."""
        return self.cone.directions

    @property
    def point(self) -> tuple[Fraction, ...]:
        """A point in its relative interior."""
        return coordinates(self.cone.point())

    @property
    def is_bounded(self) -> bool:
        """Whether it lies in some box."""
        return self.cone.is_bounded


@dataclass(frozen=True, eq=False)
class TiedPart(_Part):
    """A part of the domain on which classes tie that is no piece of the boundary.

    Parameters
    ----------
    cone : Cone
        The cone over it.
    classes : tuple of int
        The classes that tie and lead there.
    pattern : tuple of tuple of int
        The activation pattern of a cell that it lies in.
    """

    pattern: Pattern


@dataclass(frozen=True, eq=False)
class BoundaryPiece(_Part):
    """A polyhedron, of one dimension less than the domain, between two decisions.

    Parameters
    ----------
    cone : Cone
        The cone over it.
    classes : tuple of int
        The classes that tie and lead on it.
    hyperplane : tuple of Fraction
        Coefficients of the inputs and a constant that give 0 on the piece; the first
        that is not 0 is 1.
    sides : tuple of two tuples of int
        The classes that lead where the hyperplane's row is negative, then those where
        it is positive: one for each side, several where they tie, none where the
        domain ends.
    patterns : tuple of tuples
        The activation patterns on the two sides, in the same order; the same one twice
        within a cell, and an empty one where the domain ends.
    """

    hyperplane: tuple[Fraction, ...]
    sides: tuple[tuple[int, ...], tuple[int, ...]]
    patterns: tuple[Pattern, Pattern]

    @property
    def pattern(self) -> Pattern:
        """The activation pattern of its cell, or of one of the cells beside it."""
        return self.patterns[0] or self.patterns[1]

    @property
    def changes(self) -> bool:
        """Whether the decision differs between the sides.

        It does not where another class, or the level, is met and not passed, as by
        ``-|x|`` at the level 0.
        """
        below, above = self.sides
        return bool(below and above) and below[0] != above[0]

    def __repr__(self) -> str:
        """Return the hyperplane and the sides."""
        *weights, bias = self.hyperplane
        terms = [f"{w} x{i}" for i, w in enumerate(weights) if w]
        verb = "between" if self.changes else "touched between"
        below, above = (_words(side) for side in self.sides)
        where = f"{' + '.join(terms)} + {bias} = 0"
        return f"BoundaryPiece({where}, {verb} {below} and {above})"


@dataclass(frozen=True, eq=False)
class Boundary:
    """The decision boundary of a network on a domain.

    Iterating yields each `BoundaryPiece`, in the order of the activation patterns of
    their cells, and holds nothing back. The properties need all pieces; they are
    found once.

    The set of all x where two leading classes tie (with one output: where it equals the
    level) is the union of the pieces, which have one dimension less than the domain,
    of `flat_parts`, which have as many, and of `thin_parts`, which have fewer.

    Parameters
    ----------
    regions : Regions
        The cells of the network.
    level : Fraction
        What a single output is compared with.
    """

    regions: Regions[Cone]
    level: Fraction

    def __iter__(self) -> Iterator[BoundaryPiece]:
        """Yield the pieces in the order of their cells."""
        for cell in self.regions:
            for part in self.parts_of(cell):
                if isinstance(part, BoundaryPiece):
                    yield part

    @cached_property
    def pieces(self) -> tuple[BoundaryPiece, ...]:
        """All pieces."""
        return self._found[0]

    @cached_property
    def flat_parts(self) -> tuple[TiedPart, ...]:
        """Where classes tie on a whole cell, or on a part of it with an interior."""
        return self._found[1]

    @cached_property
    def thin_parts(self) -> tuple[TiedPart, ...]:
        """Where classes tie on a part of lower dimension, outside all else.

        For example the origin for ``-|x| - |y|`` at the level 0.
        """
        covers = _Shelf([*self.pieces, *self.flat_parts])
        thin: list[TiedPart] = []
        for part in sorted(self._found[2], key=lambda p: -p.cone.dimension):
            for rest in covers.uncovered(part.cone):
                thin += [
                    TiedPart(new, part.classes, part.pattern)
                    for new in _Shelf(thin).uncovered(rest)
                ]
        return tuple(thin)

    @cached_property
    def hyperplanes(self) -> tuple[tuple[Fraction, ...], ...]:
        """The different hyperplanes across which the decision changes, sorted.

        As many units as these, and no fewer, does the first layer of a network of
        threshold units need that makes the same decisions (almost everywhere).
        """
        return tuple(sorted({p.hyperplane for p in self.pieces if p.changes}))

    @cached_property
    def components(self) -> "tuple[Component, ...]":
        """The connected components of the union of all pieces."""
        return tuple(
            Component(
                tuple(self.pieces[i] for i in members), self.regions.cone.dimension
            )
            for members in _connected(self.pieces)
        )

    @property
    def n_components(self) -> int:
        """Number of connected components of the union of all pieces."""
        return len(self.components)

    def parts_of(self, cell: Cell[Cone]) -> Iterator[_Part]:
        """Yield what there is of the boundary in one cell.

        A piece on a wall between cells is found in one of them.

        Parameters
        ----------
        cell : Cell
            A cell of `regions`.

        Yields
        ------
        BoundaryPiece or TiedPart
            Pieces, and parts of any other dimension.
        """
        cone, outputs = cell.piece.cone, cell.piece.outputs
        labels, rows = self._contest(outputs)
        for leader, part in leaders(cone, rows):
            gaps = [minus(rows[leader], row) for row in rows]
            tied = _vanishing(cone, gaps)
            if len(tied) > 1:
                yield TiedPart(part, _named(labels, tied), cell.pattern)
            seen: list[tuple[int, ...]] = []
            for gap in gaps:
                face = _met(part, gap)
                if face is None:
                    continue
                meeting = _vanishing(face, gaps)
                if meeting in seen or meeting == tied:
                    continue
                seen.append(meeting)
                if face.dimension < cone.dimension - 1:
                    yield TiedPart(face, _named(labels, meeting), cell.pattern)
                else:
                    yield from self._pieces(cell, part, face, gap, tied, meeting)

    def _pieces(
        self,
        cell: Cell[Cone],
        part: Cone,
        face: Cone,
        gap: Row,
        tied: tuple[int, ...],
        meeting: tuple[int, ...],
    ) -> Iterator[BoundaryPiece]:
        """Yield the pieces that make up a face of the part where some classes lead."""
        labels, _ = self._contest(cell.piece.outputs)
        normal = self._canonical(gap)
        is_above = dot(normal, part.point()) > 0
        hyperplane = _monic(normal)
        for beyond, pattern, leading in self._beyond(cell, part, face, gap, meeting):
            if leading not in ((), meeting) and not is_above:
                continue  # the other side sees this piece, too, and it yields it
            sides = (_named(labels, leading), _named(labels, tied))
            patterns = (pattern, cell.pattern)
            yield BoundaryPiece(
                beyond,
                _named(labels, meeting),
                hyperplane,
                sides if is_above else (sides[1], sides[0]),
                patterns if is_above else (patterns[1], patterns[0]),
            )

    def _beyond(
        self,
        cell: Cell[Cone],
        part: Cone,
        face: Cone,
        gap: Row,
        meeting: tuple[int, ...],
    ) -> Iterator[tuple[Cone, Pattern, tuple[int, ...]]]:
        """Yield parts of a face with the pattern and the leaders on its other side."""
        domain = self.regions.cone
        if any(_is_zero_on(face, row) for row in domain.facets):
            yield face, (), ()
            return
        step = _step(part.point(), face.point())

        def leading(outputs: Sequence[Row]) -> tuple[int, ...]:
            rows = self._contest(outputs)[1]
            slopes = {k: dot(rows[k], step) for k in meeting}
            steepest = max(slopes.values())
            return tuple(k for k in meeting if slopes[k] == steepest)

        if cell.piece.cone.signs(gap) == (True, True):  # inside of the cell
            yield face, cell.pattern, leading(cell.piece.outputs)
            return
        network = self.regions.network
        start = axes(network.n_inputs)
        for beyond, pattern, outputs in _across(network, 0, start, face, step, ()):
            yield beyond, pattern, leading(outputs)

    def _contest(self, outputs: Sequence[Row]) -> tuple[Sequence[int], tuple[Row, ...]]:
        """Return the classes, those that win a tie first, and their functions."""
        if len(outputs) > 1:
            return range(len(outputs)), tuple(outputs)
        ratio = self.level / self.regions.network.scales[-1]
        p, q = ratio.numerator, ratio.denominator
        *weights, bias = outputs[0]
        above = (*(q * w for w in weights), q * bias - p)
        return (1, 0), (above, (0,) * len(above))

    def _canonical(self, row: Row) -> Row:
        """Return the row for its hyperplane in the domain, with a positive lead."""
        for pivot in self._echelon:
            lead = next(i for i, a in enumerate(pivot) if a)
            sign = 1 if pivot[lead] > 0 else -1
            row = tuple(
                sign * (pivot[lead] * a - row[lead] * b)
                for a, b in zip(row, pivot, strict=True)
            )
        row = primitive(row)
        return row if next(a for a in row if a) > 0 else negative(row)

    @cached_property
    def _echelon(self) -> tuple[Row, ...]:
        """The equations of the domain, each without the leads of those before."""
        echelon: list[Row] = []
        for equation in self.regions.cone.equations:
            row = equation
            for pivot in echelon:
                lead = next(i for i, a in enumerate(pivot) if a)
                row = tuple(
                    pivot[lead] * a - row[lead] * b
                    for a, b in zip(row, pivot, strict=True)
                )
            echelon.append(primitive(row))
        return tuple(echelon)

    @cached_property
    def _found(
        self,
    ) -> tuple[tuple[BoundaryPiece, ...], tuple[TiedPart, ...], list[TiedPart]]:
        """All pieces, flat parts, and faces of lower dimension, covered or not."""
        budget = self.regions.budget
        pieces: list[BoundaryPiece] = []
        flat: list[TiedPart] = []
        thin: dict[frozenset[Row], TiedPart] = {}
        for number, cell in enumerate(self.regions, start=1):
            if number > budget:
                raise BudgetError(
                    f"there are more than {budget:,} cells, the budget. Raise budget, "
                    "give a smaller domain, or iterate over the boundary, which has no "
                    "limit. theory.region_bounds says how many there can be."
                )
            for part in self.parts_of(cell):
                if isinstance(part, BoundaryPiece):
                    pieces.append(part)
                elif isinstance(part, TiedPart):
                    if part.cone.dimension == self.regions.cone.dimension:
                        flat.append(part)
                    else:
                        key = frozenset((*part.cone.rays, *part.cone.lines))
                        thin.setdefault(key, part)
        return tuple(pieces), tuple(flat), list(thin.values())

    def __repr__(self) -> str:
        """Return what it is the boundary of, and its size once that is known."""
        size = f", {len(self.pieces)} pieces" if "_found" in vars(self) else ""
        return f"Boundary({self.regions.network}{size})"


@dataclass(frozen=True, eq=False)
class Component:
    """A connected part of a decision boundary.

    Parameters
    ----------
    pieces : tuple of BoundaryPiece
        What it is made of.
    n_dimensions : int
        Dimension of the domain.
    """

    pieces: tuple[BoundaryPiece, ...] = field(repr=False)
    n_dimensions: int

    @property
    def is_bounded(self) -> bool:
        """Whether it lies in some box."""
        return all(piece.is_bounded for piece in self.pieces)

    @cached_property
    def is_closed(self) -> bool:
        """Whether it is bounded and has no rim.

        In the plane, whether each end point of a segment lies on another one, as in a
        polygon. A component that ends where the domain ends is not closed.
        """
        if not self.is_bounded:
            return False
        n_owners: dict[frozenset[Row], int] = defaultdict(int)
        rims = []
        shelf = _Shelf(self.pieces)
        for number, piece in enumerate(self.pieces):
            for facet in piece.cone.facets:
                rim = _met(piece.cone, facet)
                if rim is not None:
                    n_owners[frozenset(rim.rays)] += 1
                    rims.append((number, rim))
        return all(
            n_owners[frozenset(rim.rays)] > 1 or not shelf.uncovered(rim, but=number)
            for number, rim in rims
        )

    def __repr__(self) -> str:
        """Return its size and whether it is closed."""
        shape = "closed" if self.is_closed else "open"
        return f"Component({len(self.pieces)} pieces, {shape})"


def leaders(
    cone: Cone, rows: Sequence[Row], step: Row | None = None
) -> list[tuple[int, Cone]]:
    """Return which rows are the largest somewhere inside of a cone, and where.

    Parameters
    ----------
    cone : Cone
        The cone.
    rows : sequence of tuple of int
        Functions on it.
    step : tuple of int, optional
        Of rows that are equal on the cone the one counts that grows most along this
        direction, and of those the first.

    Returns
    -------
    list of (int, Cone)
        Numbers of rows, in order, with the part of the cone where each is the largest;
        all parts have its dimension.
    """
    found = []
    for j, row in enumerate(rows):
        part: Cone | None = cone
        for i, other in enumerate(rows):
            if i == j or part is None:
                continue
            gap = minus(row, other)
            if _is_zero_on(part, gap):
                slope = dot(gap, step) if step else 0
                if slope < 0 or (slope == 0 and i < j):
                    part = None
            else:
                part = part.cut(gap)[1]
        if part is not None:
            found.append((j, part))
    return found


def _across(
    network: RationalNetwork,
    layer: int,
    inputs: Sequence[Row],
    face: Cone,
    step: Row,
    pattern: Pattern,
) -> Iterator[tuple[Cone, Pattern, tuple[Row, ...]]]:
    """Divide a face by the cells that lie beyond it, seen along `step`.

    Yields each part with the pattern and the outputs of the cell beyond.
    """
    units = compose(network.layers[layer], inputs)
    parts: list[tuple[Cone, tuple[int, ...]]] = [(face, ())]
    for pieces in units:
        parts = [
            (smaller, (*chosen, j))
            for part, chosen in parts
            for j, smaller in leaders(part, pieces, step)
        ]
    for part, chosen in parts:
        outputs = tuple(pieces[j] for pieces, j in zip(units, chosen, strict=True))
        longer = pattern
        if any(len(pieces) > 1 for pieces in units):
            longer = (*pattern, chosen)
        if layer + 1 == len(network.layers):
            yield part, longer, outputs
        else:
            yield from _across(network, layer + 1, outputs, part, step, longer)


def _met(cone: Cone, gap: Row) -> Cone | None:
    """Return where a row that is >= 0 on a cone is 0, if it is so anywhere."""
    if not any(ray[-1] and dot(gap, ray) == 0 for ray in cone.rays):
        return None
    return cone.face(gap)


def _vanishing(cone: Cone, rows: Sequence[Row]) -> tuple[int, ...]:
    return tuple(k for k, row in enumerate(rows) if _is_zero_on(cone, row))


def _is_zero_on(cone: Cone, row: Row) -> bool:
    return not any(dot(row, line) for line in cone.lines) and not any(
        dot(row, ray) for ray in cone.rays
    )


def _step(start: Row, end: Row) -> Row:
    """Return the direction from one point to another."""
    s, t = start[-1], end[-1]
    return primitive([s * b - t * a for a, b in zip(start, end, strict=True)])


def _monic(row: Row) -> tuple[Fraction, ...]:
    lead = next(a for a in row if a)
    return tuple(Fraction(a, lead) for a in row)


def _named(labels: Sequence[int], numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(labels[k] for k in numbers)


def _words(side: tuple[int, ...]) -> str:
    return " = ".join(map(str, side)) if side else "the end of the domain"


def _connected(parts: Sequence[_Part]) -> list[list[int]]:
    """Return which parts hang together, by number, in order."""
    groups = DisjointSets(len(parts))
    # Nearly all parts share a vertex with their neighbours. The others touch where a
    # vertex of one lies inside another: in networks with units that are 0 on cells.
    owner: dict[Row, int] = {}
    for number, part in enumerate(parts):
        if not part.cone.lines:
            for ray in part.cone.rays:
                if ray[-1]:
                    groups.join(number, owner.setdefault(ray, number))
    members = groups.members()
    if len(members) > 1:
        shelf = _Shelf(parts)
        largest = max(members, key=len)
        # Of two parts in different components at least one is not in the largest.
        for i in sorted(set(range(len(parts))) - set(largest)):
            for j in shelf.near(parts[i].cone):
                if not groups.are_joined(i, j) and _meet(parts[i].cone, parts[j].cone):
                    groups.join(i, j)
        members = groups.members()
    return members


class _Shelf:
    """Polyhedra, to be found by where they are."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self.parts = parts
        boxes = [_box(part.cone) for part in parts]
        self._low = np.array([low for low, _ in boxes])
        self._high = np.array([high for _, high in boxes])

    def near(self, cone: Cone) -> list[int]:
        """Return the numbers of all parts that may share a point with a polyhedron."""
        if not self.parts:
            return []
        low, high = _box(cone)
        overlap = np.all((self._low <= high) & (self._high >= low), axis=1)
        return list(np.flatnonzero(overlap).tolist())

    def uncovered(self, cone: Cone, but: int | None = None) -> list[Cone]:
        """Return what is left of a polyhedron outside of the parts, except for one."""
        rest = [cone]
        for i in self.near(cone):
            if i != but:
                rest = [p for part in rest for p in _outside(part, self.parts[i].cone)]
        return rest


def _box(cone: Cone) -> tuple[list[float], list[float]]:
    n = len((cone.rays or cone.lines)[0]) - 1
    low, high = [math.inf] * n, [-math.inf] * n
    for ray in cone.rays:
        for i in range(n):
            if ray[-1]:
                value = _nearest(ray[i], ray[-1])
                low[i] = min(low[i], math.nextafter(value, -math.inf))
                high[i] = max(high[i], math.nextafter(value, math.inf))
            elif ray[i]:
                low[i] = -math.inf if ray[i] < 0 else low[i]
                high[i] = math.inf if ray[i] > 0 else high[i]
    for line in cone.lines:
        for i in range(n):
            if line[i]:
                low[i], high[i] = -math.inf, math.inf
    return low, high


def _nearest(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def _meet(one: Cone, other: Cone) -> bool:
    """Return whether two polyhedra share a point."""
    common: Cone | None = one
    for row in other.equations:
        common = common.face(row) if common else None
    for row in other.facets:
        if common is None or common.is_empty:
            return False
        above = common.cut(row)[1]
        common = above if above is not None else common.face(row)
    return common is not None and not common.is_empty


def _outside(cone: Cone, cover: Cone) -> list[Cone]:
    """Return the parts of a polyhedron outside of another one."""
    if not all(_is_zero_on(cone, row) for row in cover.equations):
        return [cone]
    outside = []
    inside = cone
    for row in cover.facets:
        if _is_zero_on(inside, row):
            continue
        below, above = inside.cut(row)
        if above is None:
            return [cone]
        if below is not None:
            outside.append(below)
        inside = above
    return outside
