"""Convex polyhedra in exact arithmetic, by inequalities and by generators at once.

A polyhedron {x : A x + b >= 0} is kept as the cone {(x, t) : A x + b t >= 0, t >= 0}
one dimension higher, so that nothing needs a denominator and what is unbounded needs no
special case: a generator with t > 0 is the vertex x / t, one with t = 0 a direction in
which the polyhedron is unbounded, and a line is a direction together with its opposite.

Cutting by a hyperplane is one step of the double description method: generators on
either side are kept, and each edge that crosses gives a generator on the hyperplane.
Two rays span an edge if no third ray lies on all the faces that both lie on.

References
----------
Motzkin, Raiffa, Thompson & Thrall 1953, "The double description method"; Fukuda &
Prodon 1996, "Double description method revisited", sections 2 and 3.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import mul

__all__ = ["Cone", "Row", "coordinates", "dot", "negative", "primitive"]

Row = tuple[int, ...]


@dataclass(frozen=True)
class Cone:
    """A polyhedral cone in the half-space t >= 0, t being the last coordinate.

    Rays are those of the cone modulo its lines. All rows are whole numbers without a
    common factor.

    Parameters
    ----------
    equations : tuple of tuple of int
        Rows that are 0 on the cone, linearly independent; none if it has an interior.
    facets : tuple of tuple of int
        Rows that are >= 0 on the cone, one for each facet.
    lines : tuple of tuple of int
        A basis of the linear space that the cone contains.
    rays : tuple of tuple of int
        Its extreme rays.
    faces : tuple of int
        For each ray the set of facets that it lies on, as bits.
    """

    equations: tuple[Row, ...]
    facets: tuple[Row, ...]
    lines: tuple[Row, ...]
    rays: tuple[Row, ...]
    faces: tuple[int, ...]

    @classmethod
    def whole_space(cls, n_dimensions: int) -> "Cone":
        """Return the cone of all x, with one ray for t and a line for each axis.

        Parameters
        ----------
        n_dimensions : int
            Length of x.

        Returns
        -------
        Cone
            In `n_dimensions` + 1 coordinates.
        """
        axes = [
            tuple(int(i == j) for j in range(n_dimensions + 1))
            for i in range(n_dimensions + 1)
        ]
        t = axes[-1]
        return cls((), (t,), tuple(axes[:-1]), (t,), (0,))

    @property
    def rows(self) -> tuple[Row, ...]:
        """Defining inequalities: its facets."""
        return self.facets

    @property
    def dimension(self) -> int:
        """Dimension of the polyhedron that it stands for."""
        n = len(self.rays[0]) if self.rays else len(self.lines[0])
        return n - 1 - len(self.equations)

    @property
    def is_empty(self) -> bool:
        """Whether no point with t > 0 is left."""
        return all(ray[-1] == 0 for ray in self.rays)

    @property
    def is_bounded(self) -> bool:
        """Whether the polyhedron lies in some box."""
        return not self.lines and all(ray[-1] > 0 for ray in self.rays)

    @property
    def vertices(self) -> list[tuple[Fraction, ...]]:
        """The vertices of the polyhedron; with lines there are none."""
        if self.lines:
            return []
        return [coordinates(ray) for ray in self.rays if ray[-1]]

    @property
    def directions(self) -> list[Row]:
        """Extreme directions x of the polyhedron; lines go both ways."""
        found = [ray[:-1] for ray in self.rays if ray[-1] == 0]
        for line in self.lines:
            found += [line[:-1], negative(line[:-1])]
        return found

    def point(self) -> Row:
        """Return a point in the relative interior: the sum of all rays, t > 0.

        Returns
        -------
        tuple of int
            Coordinates (x t, t), without a common factor.
        """
        return primitive([sum(column) for column in zip(*self.rays, strict=True)])

    def signs(self, row: Row) -> tuple[bool, bool]:
        """Return on which sides of a hyperplane through the origin the cone lies.

        Parameters
        ----------
        row : tuple of int
            Coefficients of the hyperplane.

        Returns
        -------
        below, above : bool
            Whether it takes negative and positive values on the cone.
        """
        below = above = False
        for line in self.lines:
            if dot(row, line):
                return True, True
        for ray in self.rays:
            value = dot(row, ray)
            below |= value < 0
            above |= value > 0
        return below, above

    def cut(self, row: Row) -> "tuple[Cone | None, Cone | None]":
        """Return the parts where a row is <= 0 and where it is >= 0.

        Parameters
        ----------
        row : tuple of int
            Coefficients of the hyperplane.

        Returns
        -------
        below, above : Cone or None
            Both parts if the hyperplane cuts the relative interior. Else the cone
            itself on the side where it lies, and None on the other one; a cone on which
            the row is 0 counts as below.
        """
        for number, line in enumerate(self.lines):
            value = dot(row, line)
            if value:
                return self._cut_across_line(row, number, value)
        values = [dot(row, ray) for ray in self.rays]
        if max(values, default=0) <= 0:
            return self, None
        if min(values) >= 0:
            return None, self
        created, faces = self._crossings(values)
        row = primitive(row)
        below, above = (
            self._part(tuple(sign * a for a in row), sign, values, created, faces)
            for sign in (-1, 1)
        )
        return below, above

    def face(self, row: Row) -> "Cone | None":
        """Return the part where a row is 0.

        Parameters
        ----------
        row : tuple of int
            Coefficients of the hyperplane.

        Returns
        -------
        Cone or None
            The cone itself if the row is 0 on it, None if only the origin is left.
        """
        for number, line in enumerate(self.lines):
            value = dot(row, line)
            if value:
                lines, rays = self._slide_along(row, number, value)
                return self._rebuilt(row, lines, rays, self.faces)
        values = [dot(row, ray) for ray in self.rays]
        if not any(values):
            return self
        kept = [r for r, v in zip(self.rays, values, strict=True) if v == 0]
        faces = [f for f, v in zip(self.faces, values, strict=True) if v == 0]
        if min(values) < 0 < max(values):
            created, created_faces = self._crossings(values)
            kept, faces = kept + created, faces + created_faces
        if not kept and not self.lines:
            return None
        return self._rebuilt(row, self.lines, kept, faces)

    def minimum(self, row: Row) -> tuple[Row, bool]:
        """Return where a row divided by t is least.

        Parameters
        ----------
        row : tuple of int
            Coefficients of an affine function of x, the constant last.

        Returns
        -------
        ray : tuple of int
            The vertex with the least value, or a direction or line in which the
            function falls without end.
        is_bounded : bool
            False in the latter case.
        """
        for line in self.lines:
            value = dot(row, line)
            if value:
                return (line if value < 0 else negative(line)), False
        best: Row | None = None
        best_value = 0
        for ray in self.rays:
            value = dot(row, ray)
            if ray[-1] == 0:
                if value < 0:
                    return ray, False
            elif best is None or value * best[-1] < best_value * ray[-1]:
                best, best_value = ray, value
        assert best is not None, "the polyhedron is empty"
        return best, True

    def _cut_across_line(
        self, row: Row, number: int, value: int
    ) -> "tuple[Cone, Cone]":
        lines, rays = self._slide_along(row, number, value)
        line = self.lines[number]
        upward = line if value > 0 else negative(line)
        row = primitive(row)
        new_bit = 1 << len(self.facets)
        faces = (*(face | new_bit for face in self.faces), new_bit - 1)
        facets = (*self.facets, negative(row)), (*self.facets, row)
        below = Cone(self.equations, facets[0], lines, (*rays, negative(upward)), faces)
        above = Cone(self.equations, facets[1], lines, (*rays, upward), faces)
        return below, above

    def _slide_along(
        self, row: Row, number: int, value: int
    ) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        """Move all other lines and all rays into the hyperplane, along one line."""
        line = self.lines[number]
        size = abs(value)
        sign = 1 if value > 0 else -1

        def moved(other: Row) -> Row:
            step = sign * dot(row, other)
            return primitive(
                [size * a - step * b for a, b in zip(other, line, strict=True)]
            )

        others = self.lines[:number] + self.lines[number + 1 :]
        return tuple(map(moved, others)), tuple(map(moved, self.rays))

    def _crossings(self, values: Sequence[int]) -> tuple[list[Row], list[int]]:
        """Return where edges cross the hyperplane, and the facets met there."""
        needed = self.dimension - 1 - len(self.lines)  # facets on an edge, at least
        negative = [i for i, value in enumerate(values) if value < 0]
        positive = [i for i, value in enumerate(values) if value > 0]
        created, faces = [], []
        for i in negative:
            for j in positive:
                common = self.faces[i] & self.faces[j]
                if common.bit_count() < needed or any(
                    common & face == common and k not in (i, j)
                    for k, face in enumerate(self.faces)
                ):
                    continue
                a, b = values[j], -values[i]
                created.append(
                    primitive(
                        [
                            a * p + b * q
                            for p, q in zip(self.rays[i], self.rays[j], strict=True)
                        ]
                    )
                )
                faces.append(common)
        return created, faces

    def _part(
        self,
        row: Row,
        sign: int,
        values: Sequence[int],
        created: Sequence[Row],
        created_faces: Sequence[int],
    ) -> "Cone":
        """Return the part where `row` is >= 0, with one more facet."""
        # A facet stays one if it reaches beyond the hyperplane.
        staying = 0
        for face, value in zip(self.faces, values, strict=True):
            if value * sign > 0:
                staying |= face
        kept = list(_bits(staying))
        new_bit = 1 << len(self.facets)
        rays, faces = [], []
        for ray, face, value in zip(self.rays, self.faces, values, strict=True):
            if value * sign >= 0:
                rays.append(ray)
                faces.append(face if value else face | new_bit)
        rays += created
        faces += [face | new_bit for face in created_faces]
        if len(kept) < len(self.facets):
            faces = _renumbered(faces, [*kept, len(self.facets)])
        facets = [self.facets[number] for number in kept]
        return Cone(
            self.equations, (*facets, row), self.lines, tuple(rays), tuple(faces)
        )

    def _rebuilt(
        self,
        equation: Row,
        lines: tuple[Row, ...],
        rays: Iterable[Row],
        faces: Iterable[int],
    ) -> "Cone":
        """Return the part inside a hyperplane; facets may now hold everywhere."""
        rays, faces = tuple(rays), list(faces)
        equations = [*self.equations, primitive(equation)]
        everywhere = -1
        for face in faces:
            everywhere &= face
        for number, facet in enumerate(self.facets):
            if everywhere >> number & 1:
                equations.append(facet)
        return _with_facets_only(
            _independent(equations), self.facets, lines, rays, faces
        )


def dot(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the inner product of two rows.

    Parameters
    ----------
    a, b : sequence of int
        Rows of equal length.

    Returns
    -------
    int
        Sum of products.
    """
    return sum(map(mul, a, b))


def negative(row: Row) -> Row:
    """Return a row times -1.

    Parameters
    ----------
    row : tuple of int
        Any row.

    Returns
    -------
    tuple of int
        The opposite one.
    """
    return tuple(-a for a in row)


def coordinates(row: Row) -> tuple[Fraction, ...]:
    """Return the point that a row with t > 0 stands for.

    Parameters
    ----------
    row : tuple of int
        Coordinates (x t, t).

    Returns
    -------
    tuple of Fraction
        Coordinates of x.
    """
    return tuple(Fraction(a, row[-1]) for a in row[:-1])


def primitive(row: Sequence[int]) -> Row:
    """Return a row divided by the greatest common divisor of its entries.

    Parameters
    ----------
    row : sequence of int
        Entries; all may be 0.

    Returns
    -------
    tuple of int
        Same direction, no common factor.
    """
    factor = math.gcd(*row)
    return tuple(row) if factor < 2 else tuple(a // factor for a in row)


def _with_facets_only(
    equations: tuple[Row, ...],
    rows: Sequence[Row],
    lines: tuple[Row, ...],
    rays: Sequence[Row],
    faces: Sequence[int],
) -> Cone:
    """Drop rows that are no facets: their rays lie in those of another one."""
    members = [0] * len(rows)
    for k, face in enumerate(faces):
        bit = 1 << k
        for number in _bits(face):
            members[number] |= bit
    everything = (1 << len(rays)) - 1
    kept = [
        number
        for number, rays_on in enumerate(members)
        if rays_on != everything
        and not any(
            rays_on & other == rays_on and (rays_on != other or number > rival)
            for rival, other in enumerate(members)
            if rival != number and other != everything
        )
    ]
    facets = tuple(rows[number] for number in kept)
    return Cone(equations, facets, lines, tuple(rays), tuple(_renumbered(faces, kept)))


def _renumbered(faces: Iterable[int], kept: Sequence[int]) -> list[int]:
    """Return sets of facets as bits, where only some facets are left."""
    places = {number: 1 << place for place, number in enumerate(kept)}
    return [sum(places.get(number, 0) for number in _bits(face)) for face in faces]


def _bits(face: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set."""
    while face:
        lowest = face & -face
        yield lowest.bit_length() - 1
        face ^= lowest


def _independent(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return those rows that no earlier ones span."""
    kept: list[Row] = []
    echelon: list[Row] = []
    for row in rows:
        rest = row
        for pivot in echelon:
            lead = next(i for i, a in enumerate(pivot) if a)
            if rest[lead]:
                rest = primitive(
                    [
                        pivot[lead] * a - rest[lead] * b
                        for a, b in zip(rest, pivot, strict=True)
                    ]
                )
        if any(rest):
            echelon.append(rest)
            kept.append(row)
    return tuple(kept)
