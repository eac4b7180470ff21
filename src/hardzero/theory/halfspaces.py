"""Convex polyhedra of many dimensions, by inequalities alone.

Where `Cone` keeps vertices, of which a box has 2^d, this form keeps inequalities and a
few points in the interior. A hyperplane cuts the polyhedron if it has such points on
both sides. Points of floats, which are dyadic numbers, answer most questions; a float
product whose rounding error cannot have changed its sign is a proof. Else a linear
program finds a point on the other side, or multipliers that prove that there is none.
They are made whole numbers, and in a box whatever is then missing in an entry is made
up by a bound of that variable, so that an optimum in floats becomes a proof (Neumaier &
Shcherbina). Only if that leaves a doubt is the linear program solved exactly.

References
----------
Neumaier & Shcherbina 2004, "Safe bounds in linear and mixed-integer linear
programming", section 3.
"""

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from hardzero.errors import ParameterError
from hardzero.theory.cone import Cone, Row, dot, negative, primitive
from hardzero.theory.domain import Domain
from hardzero.theory.lp import (
    FloatOptimum,
    FloatSolver,
    Optimum,
    as_floats,
    exponent,
    minimise,
    minimise_exactly,
    tight_first,
)

__all__ = ["Halfspaces", "polyhedron_of"]

# Measured: on a box of 7 dimensions cells of 16 units take a third of the time of
# cones, on one of 6 three times theirs; on R^10 cells of 32 units take a third, on R^8
# four times theirs.
_FEW_DIMENSIONS = 6
_FEW_WITHOUT_BOUNDS = 8
_MOST_WALLS = 8  # that a walk goes along before a linear program is solved
_NEARLY = 0.999  # of the way to a wall
_FAR = 1e30  # steps beyond are not taken
_FLOAT_BITS = 300  # whatever has more is not taken for a float
_STILL = 1e-9  # speeds and sizes that are taken for 0 by a walk
_MOST_POINTS = 64  # that a polyhedron keeps
_MOST_PROOFS = 4096  # rows whose proofs the parts of a polyhedron share
_MOST_PROOFS_OF_A_ROW = 8
_MULTIPLIER_BITS = 40
_PLAIN = 10**4  # denominators of multipliers that are tried in place of float ones

Proof = tuple[
    int, dict[Row, int]
]  # m and y with m row = sum of y[r] r + something >= 0


def polyhedron_of(domain: Domain) -> "Cone | Halfspaces":
    """Return a domain in the form that suits its dimension.

    Parameters
    ----------
    domain : Domain
        Any domain.

    Returns
    -------
    Cone or Halfspaces
        By generators as long as cells can be expected to have few, up to 6 dimensions,
        or 8 without bounds; else by inequalities.

    Raises
    ------
    ParameterError
        If the domain is empty.
    """
    few = _FEW_DIMENSIONS if domain.rows else _FEW_WITHOUT_BOUNDS
    return domain.cone() if domain.n_dimensions <= few else Halfspaces.of(domain)


class Halfspaces:
    """A nonempty polyhedron in any number of dimensions; `of` and cuts make them.

    Rows and conventions are those of `Cone`, but that the face t = 0 far away is no
    facet here. Rows may be asked about that are wider than any float.

    Parameters
    ----------
    shared : object
        What it has in common with all parts of the same domain.
    rows : tuple of tuple of int
        The domain's inequalities, then those of cuts.
    inequalities : tuple of object
        Those among them that bound no single variable of the domain.
    equations : tuple of tuple of int
        Independent rows that are 0 on it.
    points : sequence of object
        Points in its relative interior, one at least.
    """

    def __init__(
        self,
        shared: "_Shared",
        rows: tuple[Row, ...],
        inequalities: tuple["_Inequality", ...],
        equations: tuple[Row, ...],
        points: Sequence["_Point"],
    ) -> None:
        self._shared = shared
        self._rows = rows
        self._inequalities = inequalities
        self._equations = equations
        self._points = list(points)

    @classmethod
    def of(cls, domain: Domain) -> Self:
        """Read a domain.

        Parameters
        ----------
        domain : Domain
            Any domain.

        Returns
        -------
        Halfspaces
            Its points.

        Raises
        ------
        ParameterError
            If no point satisfies all inequalities.
        """
        n = domain.n_dimensions
        inside = _relative_interior(n, domain.rows, ())
        if inside is None:
            raise ParameterError(
                "the domain is empty: no x satisfies all of its "
                f"{len(domain.rows)} inequalities. Give bounds that leave a point."
            )
        point, equations = inside
        shared = _Shared(n, domain.rows)
        inequalities = tuple(
            _Inequality(row, as_floats(row))
            for row in domain.rows
            if _variable(row) is None
        )
        whole = cls(shared, domain.rows, inequalities, equations, ())
        return whole._around(point)

    @property
    def rows(self) -> tuple[Row, ...]:
        """What it was built from: the domain's rows, then those of each cut."""
        return self._rows

    @property
    def equations(self) -> tuple[Row, ...]:
        """Independent rows that are 0 on it."""
        return self._equations

    @property
    def dimension(self) -> int:
        """Dimension."""
        return self._shared.n - len(self._equations)

    @property
    def is_empty(self) -> bool:
        """False: polyhedra without a point are never made."""
        return False

    @property
    def is_bounded(self) -> bool:
        """Whether some box holds it."""
        if self._shared.is_bounded:
            return True
        n = self._shared.n
        axes = (_axis(n, j, sign) for j in range(n) for sign in (1, -1))
        return all(self.minimum(axis)[1] for axis in axes)

    @property
    def facets(self) -> tuple[Row, ...]:
        """For each facet the row that is 0 on it and >= 0 here."""
        kept = list(dict.fromkeys(map(primitive, self._constraints)))
        for row in tuple(kept):
            others = [other for other in kept if other != row]
            found = minimise(row, others, self._equations)
            if found.value is not None and found.value >= 0:
                kept = others
        return tuple(kept)

    def point(self) -> Row:
        """Return a point in the relative interior.

        Returns
        -------
        tuple of int
            Coordinates (x t, t), t > 0, without a common factor.
        """
        return self._points[0].exact

    def signs(self, row: Row) -> tuple[bool, bool]:
        """Return on which sides of a hyperplane it lies.

        Parameters
        ----------
        row : tuple of int
            Coefficients of the hyperplane.

        Returns
        -------
        below, above : bool
            Whether the row takes negative and positive values on it.
        """
        below, above = self._sides(row)
        return bool(below), bool(above)

    def cut(self, row: Row) -> tuple[Self | None, Self | None]:
        """Return the parts where a row is <= 0 and where it is >= 0.

        Parameters
        ----------
        row : tuple of int
            Coefficients of the hyperplane.

        Returns
        -------
        below, above : Halfspaces or None
            Both parts if the hyperplane cuts the relative interior. Else the polyhedron
            itself on the side where it lies, and None on the other one; one on which
            the row is 0 counts as below.
        """
        below, above = self._sides(row)
        if not above:
            return self, None
        if not below:
            return None, self
        row = primitive(row)
        return self._part(negative(row), below), self._part(row, above)

    def face(self, row: Row) -> Self | None:
        """Return the part where a row is 0.

        Parameters
        ----------
        row : tuple of int
            Coefficients of the hyperplane.

        Returns
        -------
        Halfspaces or None
            The polyhedron itself if the row is 0 on it, None if no point is left. Both
            the row and its negative join `rows`.
        """
        below, above = self._sides(row)
        if not below and not above:
            return self
        row = primitive(row)
        rows = (*self._rows, row, negative(row))
        if below and above:
            low, high = below[0].exact, above[0].exact
            a, b = dot(row, high), -dot(row, low)
            point = primitive([a * p + b * q for p, q in zip(low, high, strict=True)])
            equations = (*self._equations, row)
        else:
            inside = _relative_interior(
                self._shared.n, self._constraints, (*self._equations, row)
            )
            if inside is None:
                return None
            point, equations = inside
        part = type(self)(self._shared, rows, self._inequalities, equations, ())
        return part._around(point)

    def minimum(self, row: Row) -> tuple[Row, bool]:
        """Return where a row divided by t is least.

        Parameters
        ----------
        row : tuple of int
            Coefficients of an affine function of x, the constant last.

        Returns
        -------
        ray : tuple of int
            A point with the least value, or a direction in which the function falls
            without end.
        is_bounded : bool
            False in the latter case.
        """
        found = self._optimum(row, self._in_floats(as_floats(row)))
        if found.direction is not None:
            return found.direction, False
        assert found.point is not None, "the polyhedron is not empty"
        return found.point, True

    def proof(self, row: Row) -> tuple[int, dict[int, int]]:
        """Return multipliers which show that a row is >= 0 here.

        Parameters
        ----------
        row : tuple of int
            Coefficients of an affine function that is nowhere negative here.

        Returns
        -------
        m : int
            Positive.
        y : dict from int to int
            Positive multipliers by the numbers of `rows`, that of the constant 1 under
            -1: m times the row is the sum of these rows times their multipliers.

        Raises
        ------
        ParameterError
            If the row is negative somewhere.
        """
        m, by_row = self._known_proof(row) or self._new_proof(row)
        numbers = {r: i for i, r in reversed(list(enumerate(self._rows)))}
        numbers[self._shared.one] = -1
        factor = math.gcd(m, *by_row.values())
        return m // factor, {numbers[r]: y // factor for r, y in by_row.items() if y}

    def _part(self, row: Row, points: "Sequence[_Point]") -> Self:
        """Return the part where `row` is >= 0, with points inside it."""
        return type(self)(
            self._shared,
            (*self._rows, row),
            (*self._inequalities, _Inequality(row, as_floats(row))),
            self._equations,
            points[:_MOST_POINTS],
        )

    def _sides(self, row: Row) -> "tuple[list[_Point], list[_Point]]":
        """Return inner points where a row is negative, and where it is positive."""
        approximate = as_floats(row)
        cloud = np.array([point.approximate for point in self._points])
        values, errors = cloud @ approximate, _error_bounds(cloud)
        below = [self._points[i] for i in np.flatnonzero(values < -errors)]
        above = [self._points[i] for i in np.flatnonzero(values > errors)]
        if abs(values[0]) <= errors[0]:
            value = dot(row, self._points[0].exact)
            if value:
                (below if value < 0 else above).append(self._points[0])
            elif _is_spanned(row, self._equations):
                return [], []
        if not below:
            below = self._search(row, approximate)
        if not above:
            above = self._search(negative(row), -approximate)
        return below, above

    def _search(self, row: Row, approximate: np.ndarray) -> "list[_Point]":
        """Return an inner point where a row is negative, in a list, if there is one."""
        if self._shared.is_nowhere_negative(approximate) or self._known_proof(row):
            return []
        x = self._walk_down(approximate)
        if x is not None and (point := self._float_point(x, approximate)):
            return [point]
        found = self._in_floats(approximate)
        if found.kind == "optimum":
            if found.value < 0 and (point := self._float_point(found.x, approximate)):
                return [point]
            if self._float_proof(row, found) is not None:
                return []
        exact = self._optimum(row, found)
        if exact.value is not None and exact.value >= 0:
            self._keep_exact_proof(row, exact)
            return []
        end = exact.direction if exact.direction is not None else exact.point
        assert end is not None
        return [self._between(end, row)]

    def _walk_down(self, row: np.ndarray) -> np.ndarray | None:
        """Walk down a row inside, along each wall that is met; stop below 0."""
        x = self._start
        if x is None:
            return None
        matrix, low, high = self._matrix, self._shared.low, self._shared.high
        heights = matrix[:, :-1] @ x + matrix[:, -1]
        left = float(row[:-1] @ x + row[-1])
        direction = -row[:-1]
        walls: list[np.ndarray] = []
        for _ in range(_MOST_WALLS):
            speeds = matrix[:, :-1] @ direction
            ways = np.concatenate([heights, np.where(direction < 0, x - low, high - x)])
            closing = np.concatenate([-speeds, np.abs(direction)])
            steps = np.full(len(ways), np.inf)
            np.divide(ways, closing, out=steps, where=closing > _STILL)
            nearest = int(steps.argmin())
            step = min(_NEARLY * float(steps[nearest]), _FAR)
            x = x + step * direction
            left += step * float(row[:-1] @ direction)
            if left < 0:
                return x
            if step == _FAR:
                return None
            heights = heights + step * speeds
            if nearest < len(heights):
                wall = matrix[nearest, :-1]
            else:
                wall = np.zeros(len(x))
                wall[nearest - len(heights)] = 1.0
            for other in walls:
                wall = wall - (wall @ other) * other
            size = math.sqrt(wall @ wall)
            if size < _STILL:
                return None
            walls.append(wall / size)
            direction = direction - (direction @ walls[-1]) * walls[-1]
        return None

    def _float_point(self, x: np.ndarray, row: np.ndarray) -> "_Point | None":
        """Return a point between x, where a row is negative, and where it is 0."""
        start = self._start
        if start is None:
            return None
        far = float(row[:-1] @ x + row[-1])
        near = float(row[:-1] @ start + row[-1])
        step = far / (far - near) / 2 if far < 0 < near else 0.5
        point = np.append(x + step * (start - x), 1.0)
        if row @ point < -_error_bounds(point[None])[0] and self._is_inside(point):
            return _Point(point, None)
        return None

    def _is_inside(self, point: np.ndarray) -> bool:
        """Return True only if (x, 1) is inside for certain, whatever rounding does."""
        x = point[:-1]
        return bool(
            (x > self._shared.inner_low).all()
            and (x < self._shared.inner_high).all()
            and (self._matrix @ point > _error_bounds(point[None])[0]).all()
        )

    def _around(self, point: Row) -> Self:
        """Return the same polyhedron with one inner point."""
        return type(self)(
            self._shared,
            self._rows,
            self._inequalities,
            self._equations,
            [self._settled(point)],
        )

    def _settled(self, point: Row) -> "_Point":
        """Return a point in floats if it is inside for certain, else the exact one."""
        t = point[-1]
        if not self._equations and exponent(point) - t.bit_length() < _FLOAT_BITS:
            plain = np.array([a / t for a in point])
            if self._is_inside(plain):
                return _Point(plain, None)
        return _Point(as_floats(point), point)

    def _between(self, end: Row, row: Row) -> "_Point":
        """Return an inner point where a row is negative, as it is at the end.

        It is not at the point that one starts from.
        """
        start = self._points[0].exact
        far, near = -dot(row, end), dot(row, start)
        point = primitive(
            [far * p + (near + far) * q for p, q in zip(start, end, strict=True)]
        )
        settled = self._settled(point)
        return (
            settled if dot(row, settled.exact) < 0 else _Point(as_floats(point), point)
        )

    def _in_floats(self, approximate: np.ndarray) -> FloatOptimum:
        return self._shared.solver.minimise(
            approximate,
            [
                *(q.approximate for q in self._inequalities),
                *(f for e in self._equations for f in _both_signs(as_floats(e))),
            ],
        )

    def _optimum(self, row: Row, hint: FloatOptimum) -> Optimum:
        """Minimise exactly, guided by an optimum in floats."""
        if hint.kind != "optimum":
            return minimise_exactly(row, self._constraints, self._equations)
        general = [float(y) for y in hint.marginals[: len(self._inequalities)]]
        of_bounds = []
        for bound in self._shared.bound_rows:
            j = _variable(bound)
            assert j is not None
            of_bounds.append(float(hint.bounds[j]) * (1 if bound[j] > 0 else -1))
        order = tight_first(
            replace(hint, marginals=np.array(general + of_bounds)),
            [as_floats(r) for r in self._constraints],
        )
        return minimise_exactly(row, self._constraints, self._equations, order)

    @property
    def _constraints(self) -> tuple[Row, ...]:
        """All rows that are >= 0 here: those of cuts and of the domain."""
        return (*(q.exact for q in self._inequalities), *self._shared.bound_rows)

    @cached_property
    def _matrix(self) -> np.ndarray:
        rows = [q.approximate for q in self._inequalities]
        return np.array(rows).reshape(len(rows), self._shared.n + 1)

    @cached_property
    def _start(self) -> np.ndarray | None:
        """An inner point that is known in floats."""
        point = self._points[0]
        return np.array(point.approximate[:-1]) if point.is_float else None

    def _known_proof(self, row: Row) -> Proof | None:
        """Return a proof that a part with the same rows has needed."""
        known = self._shared.proofs.get(row)
        if known is None:
            return None
        return next((proof for used, proof in known if used <= self._cuts), None)

    @cached_property
    def _cuts(self) -> frozenset[Row]:
        return frozenset(self._rows[self._shared.n_rows :])

    def _float_proof(self, row: Row, found: FloatOptimum) -> Proof | None:
        """Make multipliers in floats exact ones."""
        shift = exponent(row)
        # Rows are divided by powers of two in floats: see as_floats.
        used = [
            (q.exact, float(y), exponent(q.exact))
            for q, y in zip(self._inequalities, found.marginals, strict=False)
            if y > 2.0**-_MULTIPLIER_BITS
        ]
        top = max([shift, *(e for _, _, e in used)])
        proof = self._shared.completed(
            row,
            1 << (_MULTIPLIER_BITS + top - shift),
            {r: round(y * 2**_MULTIPLIER_BITS) << (top - e) for r, y, e in used},
        )
        if proof is None:
            plain = [Fraction(y).limit_denominator(_PLAIN) for _, y, _ in used]
            scale = math.lcm(*(y.denominator for y in plain))
            proof = self._shared.completed(
                row,
                scale << (top - shift),
                {
                    r: int(scale * y) << (top - e)
                    for (r, _, e), y in zip(used, plain, strict=True)
                },
            )
        if proof is not None:
            self._shared.keep(row, proof)
        return proof

    def _new_proof(self, row: Row) -> Proof:
        proof = self._shared.completed(row, 1, {})
        if proof is not None:
            return proof
        if not self._equations:
            found = self._in_floats(as_floats(row))
            if found.kind == "optimum":
                proof = self._float_proof(row, found)
                if proof is not None:
                    return proof
        exact = minimise(row, self._rows)
        if exact.value is None or exact.value < 0:
            raise ParameterError(
                "the row takes negative values on the polyhedron, expected one that is "
                "nowhere negative. Ask `signs` first."
            )
        return _as_proof(exact, self._rows, self._shared.one)

    def _keep_exact_proof(self, row: Row, found: Optimum) -> None:
        if not self._equations:
            proof = _as_proof(found, self._constraints, self._shared.one)
            self._shared.keep(row, proof)


@dataclass(frozen=True)
class _Inequality:
    """A row that is >= 0, exactly and in floats."""

    exact: Row
    approximate: np.ndarray


class _Point:
    """A point (x t, t): one of floats with t = 1, or an exact one close to floats."""

    def __init__(self, approximate: np.ndarray, exact: Row | None) -> None:
        self.approximate = approximate
        self.is_float = exact is None
        self._exact = exact

    @property
    def exact(self) -> Row:
        if self._exact is None:
            ratios = [float(a).as_integer_ratio() for a in self.approximate]
            scale = max(q for _, q in ratios)
            self._exact = primitive([p * (scale // q) for p, q in ratios])
        return self._exact


class _Shared:
    """What a polyhedron shares with its parts: a box around it, a solver, proofs."""

    def __init__(self, n: int, rows: Sequence[Row]) -> None:
        self.n = n
        self.one = _axis(n, n, 1)
        self.n_rows = len(rows)
        self.proofs: OrderedDict[Row, list[tuple[frozenset[Row], Proof]]]
        self.proofs = OrderedDict()
        self._always = frozenset((*rows, self.one))
        bounds = _bounds(n, rows)
        self.is_bounded = all(bound is not None for bound in bounds)
        # bound 2 j says x_j >= value, bound 2 j + 1 says -x_j >= value
        self._scale = math.lcm(
            *(y.denominator for b in bounds if b for y in (b[0], *b[1].values()))
        )
        self._values = [int(b[0] * self._scale) if b else None for b in bounds]
        self._proofs = [
            {r: int(y * self._scale) for r, y in b[1].items()} if b else {}
            for b in bounds
        ]
        self.bound_rows = tuple(row for row in rows if _variable(row) is not None)
        low = np.array([_as_float(b[0]) if b else -np.inf for b in bounds[::2]])
        high = np.array([-_as_float(b[0]) if b else np.inf for b in bounds[1::2]])
        self.low, self.high = low, high
        # Bounds that a float beyond is within for certain; none is beyond the widest.
        widest = 2.0**_FLOAT_BITS
        self.inner_low = np.maximum(np.nextafter(low, np.inf), -widest)
        self.inner_high = np.minimum(np.nextafter(high, -np.inf), widest)
        self.solver = FloatSolver(low, high)
        self._is_box = bool(np.isfinite(low).all() and np.isfinite(high).all())
        if self._is_box:
            self._middle = (low + high) / 2
            self._size = np.abs(self._middle) + (high - low)
            self._half = (high - low) / 2 + 2.0**-50 * self._size

    def is_nowhere_negative(self, row: np.ndarray) -> bool:
        """Return True only if a row is > 0 all over the box, whatever rounding does."""
        if not self._is_box:
            return False
        size = np.abs(row[:-1])
        error = (self.n + 8) * 2.0**-51 * (size @ self._size + abs(row[-1]))
        # Entries and products too small for floats are off by 2^-1074 times the others.
        error += (self.n + 8) * 2.0**-1070 * (1 + self._size.sum())
        least = row[:-1] @ self._middle + row[-1] - size @ self._half
        return bool(least > error)

    def completed(self, row: Row, m: int, y: Mapping[Row, int]) -> Proof | None:
        """Return a proof with these multipliers, and bounds that make up for the rest.

        It is None if m row - sum of y[r] r is not seen to be >= 0 in the box.
        """
        rest = [m * a for a in row]
        for r, weight in y.items():
            rest = [a - weight * b for a, b in zip(rest, r, strict=True)]
        slack = rest.pop() * self._scale
        needed = []
        for j, a in enumerate(rest):
            if a:
                number = 2 * j + (a < 0)
                value = self._values[number]
                if value is None:
                    return None
                slack += abs(a) * value
                needed.append((number, abs(a)))
        if slack < 0:
            return None
        total = {r: weight * self._scale for r, weight in y.items() if weight}
        for number, a in needed:
            for r, weight in self._proofs[number].items():
                total[r] = total.get(r, 0) + a * weight
        if slack:
            total[self.one] = total.get(self.one, 0) + slack
        return m * self._scale, total

    def keep(self, row: Row, proof: Proof) -> None:
        """Remember a proof for as long as there is room."""
        used = proof[1].keys() - self._always
        known = self.proofs.setdefault(row, [])
        known.append((frozenset(used), proof))
        del known[:-_MOST_PROOFS_OF_A_ROW]
        if len(self.proofs) > _MOST_PROOFS:
            self.proofs.popitem(last=False)


Bound = tuple[Fraction, dict[Row, Fraction]]  # x_j >= value, = value + sum of y[r] r


def _bounds(n: int, rows: Sequence[Row]) -> list[Bound | None]:
    """Return for each variable a lower bound, and an upper one as that of -x_j."""
    bounds: list[Bound | None] = [None] * (2 * n)
    others = False
    for row in rows:
        variable = _variable(row)
        if variable is None:
            others = True
            continue
        a = row[variable]
        number = 2 * variable + (a < 0)
        value = Fraction(-row[-1], abs(a))
        bound = bounds[number]
        if bound is None or bound[0] < value:
            bounds[number] = value, {row: Fraction(1, abs(a))}
    for number in range(2 * n) if others else ():
        if bounds[number] is not None:
            continue
        found = minimise(_axis(n, number // 2, -1 if number % 2 else 1), rows)
        if found.value is not None:
            weights = zip(rows, found.multipliers, strict=True)
            bounds[number] = found.value, {r: y for r, y in weights if y}
    return bounds


def _relative_interior(
    n: int, rows: Sequence[Row], equations: tuple[Row, ...]
) -> tuple[Row, tuple[Row, ...]] | None:
    """Return an inner point, and equations of the smallest flat that holds all points.

    None if there is no point.
    """
    left = list(dict.fromkeys(rows))
    if not equations:
        middle = _middle(n, left)
        if all(dot(row, middle) > 0 for row in left):
            return middle, ()
    while True:
        # Make the least of all rows, each over its size, as large as 1 at most.
        deeper = [(*r[:-1], -(1 << exponent(r)), r[-1]) for r in left]
        deeper.append((*(0,) * n, -1, 1))
        flat = [(*e[:-1], 0, e[-1]) for e in equations]
        found = minimise((*(0,) * n, -1, 0), deeper, flat)
        if found.value is None or found.value > 0:
            return None
        assert found.point is not None
        if found.value < 0:
            return primitive((*found.point[:n], found.point[-1])), equations
        for row, y in zip(tuple(left), found.multipliers, strict=False):
            if y:
                left.remove(row)
                if not _is_spanned(row, equations):
                    equations = (*equations, primitive(row))


def _middle(n: int, rows: Iterable[Row]) -> Row:
    """Return the middle of the box that rows of a single variable leave."""
    low: list[Fraction | None] = [None] * n
    high: list[Fraction | None] = [None] * n
    for row in rows:
        j = _variable(row)
        if j is None:
            continue
        value = Fraction(-row[-1], row[j])
        if row[j] > 0:
            low[j] = value if (old := low[j]) is None else max(old, value)
        else:
            high[j] = value if (old := high[j]) is None else min(old, value)
    point = []
    for a, b in zip(low, high, strict=True):
        if a is not None and b is not None:
            point.append((a + b) / 2)
        elif a is not None:
            point.append(a + 1)
        else:
            point.append(Fraction(0) if b is None else b - 1)
    t = math.lcm(*(value.denominator for value in point))
    return (*(int(value * t) for value in point), t)


def _error_bounds(points: np.ndarray) -> np.ndarray:
    """Return how far products of rows and points in floats may be off, at most.

    Entries of rows are at most 1 and rounded once, and so may be those of points.
    """
    return np.asarray(
        (points.shape[1] + 6) * 2.0**-52 * np.abs(points).sum(axis=1), dtype=np.float64
    )


def _as_proof(found: Optimum, rows: Sequence[Row], one: Row) -> Proof:
    """Write an optimum >= 0 in whole numbers."""
    assert found.value is not None
    weights = [found.value, *found.multipliers]
    m = math.lcm(*(y.denominator for y in weights))
    total: dict[Row, int] = {}
    for r, y in zip((one, *rows), weights, strict=True):
        if y:
            total[r] = total.get(r, 0) + int(y * m)
    return m, total


def _is_spanned(row: Row, equations: Sequence[Row]) -> bool:
    """Return whether a row is 0 where others are, which have a common zero."""
    if not any(row):
        return True
    return bool(equations) and minimise_exactly(row, (), equations).value == 0


def _as_float(value: Fraction) -> float:
    """Return the nearest float, or an infinity if it is far from 0."""
    if abs(value) < 1 << _FLOAT_BITS:
        return float(value)
    return math.inf if value > 0 else -math.inf


def _variable(row: Row) -> int | None:
    """Return which variable a row is about, if it is a single one."""
    used = [j for j, a in enumerate(row[:-1]) if a]
    return used[0] if len(used) == 1 else None


def _axis(n: int, j: int, sign: int) -> Row:
    return tuple(sign * (i == j) for i in range(n + 1))


def _both_signs(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return row, -row
