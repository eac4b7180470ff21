"""The double description of polyhedra, beside solving every system of equations."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from theory import oracle

from hardzero.theory.cone import Cone, dot, primitive


def random_rows(rng, d, n_rows):
    """Draw inequalities with small coefficients, many of them degenerate."""
    return [tuple(int(a) for a in rng.integers(-2, 3, d + 1)) for _ in range(n_rows)]


def rank(rows):
    """Return the rank of rows, exactly."""
    left = [list(map(Fraction, row)) for row in rows]
    found = 0
    for i in range(len(rows[0]) if rows else 0):
        pivot = next((row for row in left if row[i]), None)
        if pivot is None:
            continue
        left.remove(pivot)
        found += 1
        for row in left:
            factor = row[i] / pivot[i]
            row[:] = [a - factor * b for a, b in zip(row, pivot, strict=True)]
    return found


def null_vector(rows, n):
    """Return what is orthogonal to n - 1 independent rows, by minors."""
    return [
        (-1) ** i * determinant([[*row[:i], *row[i + 1 :]] for row in rows])
        for i in range(n)
    ]


def determinant(matrix):
    """Return the determinant by its definition."""
    if not matrix:
        return 1
    return sum(
        (-1) ** i * a * determinant([[*row[:i], *row[i + 1 :]] for row in matrix[1:]])
        for i, a in enumerate(matrix[0])
    )


def extreme_rays(rows, d):
    """Return the extreme rays of the pointed cone {t >= 0, rows >= 0}."""
    rows = [*rows, (*[0] * d, 1)]
    found = set()
    for some in combinations(rows, d):
        ray = primitive(null_vector(some, d + 1))
        for candidate in (ray, tuple(-a for a in ray)):
            if any(ray) and all(dot(row, candidate) >= 0 for row in rows):
                found.add(candidate)
    return found


def widened(rows):
    """Move rows out; in whole numbers this small, an empty set is empty still."""
    return [(*row[:-1], row[-1] + Fraction(1, 10**5)) for row in rows]


def intersection(rows, d):
    """Cut all of R^d by one inequality after the other; None if nothing is left."""
    cone = Cone.whole_space(d)
    for row in rows:
        above = cone.cut(row)[1]
        cone = cone.face(row) if above is None else above
        if cone is None or cone.is_empty:
            return None
    return cone


def check(cone, rows, d):
    """Check that generators and inequalities belong to each other and to `rows`."""
    t = (*[0] * d, 1)
    assert cone.dimension == rank([*cone.rays, *cone.lines]) - 1
    assert rank(list(cone.equations)) == len(cone.equations) == d - cone.dimension
    for line in cone.lines:
        assert primitive(line) == line
        assert all(dot(row, line) == 0 for row in [*rows, t, *cone.facets])
    for ray, face in zip(cone.rays, cone.faces, strict=True):
        assert primitive(ray) == ray
        assert all(dot(row, ray) >= 0 for row in [*rows, t])
        assert all(dot(row, ray) == 0 for row in cone.equations)
        on = [dot(facet, ray) == 0 for facet in cone.facets]
        assert [bool(face >> k & 1) for k in range(len(on))] == on
    on_facets = [
        sum(1 << k for k, face in enumerate(cone.faces) if face >> number & 1)
        for number in range(len(cone.facets))
    ]
    assert len(set(on_facets)) == len(on_facets)
    for number in range(len(cone.facets)):
        on_it = [
            r for r, f in zip(cone.rays, cone.faces, strict=True) if f >> number & 1
        ]
        assert rank([*on_it, *cone.lines]) == cone.dimension
    assert len(cone.lines) == d + 1 - rank([*rows, t])
    if not cone.lines:
        assert set(cone.rays) == extreme_rays(rows, d)
        assert len(set(cone.rays)) == len(cone.rays)
    point = cone.point()
    assert point[-1] > 0
    assert all(dot(facet, point) > 0 for facet in cone.facets if any(facet[:-1]))
    assert cone.is_bounded == all(ray[-1] for ray in [*cone.rays, *cone.lines])


@pytest.mark.parametrize("part", range(4))
def test_generators_are_those_of_all_subsystems(part):
    """Cutting gives the extreme rays, lines and facets that elimination finds"""
    rng = np.random.default_rng([0, part])
    n_thin = n_empty = 0
    for k in range(80):
        d = 1 + k % 3
        rows = random_rows(rng, d, int(rng.integers(1, 8)))
        if k % 4 == 0:
            rows.append(tuple(-a for a in rows[0]))
        cone = intersection(rows, d)
        if oracle.has_point(rows, d):
            assert cone is not None
            assert cone.dimension == d
            check(cone, rows, d)
        elif cone is not None and len(cone.equations):
            n_thin += 1
            check(cone, rows, d)
        elif cone is not None:  # a row that is 0 everywhere
            assert not all(map(any, rows))
            check(cone, rows, d)
        else:
            n_empty += 1
            assert not oracle.has_point(widened(rows), d)
    assert n_thin
    assert n_empty


def test_edges_of_five_dimensions():
    """Corners that share many facets need not be neighbours, from five dimensions on"""
    pyramid = [(-1, 0, 1), (1, 0, 1), (0, -1, 1), (0, 1, 1)]  # |x|, |y| <= z
    rows = [(*row, 0, 0, 0) for row in pyramid]
    rows += [(0, 0, 0, 1, 0, 0), (0, 0, 0, -1, 0, 1)]  # a square beside it
    rows += [(0, 0, 0, 0, 1, 0), (0, 0, 0, 0, -1, 1)]
    rows += [(0, 0, 0, 2, 2, -1)]  # cuts one of its corners off
    cone = intersection(rows, 5)
    check(cone, rows, 5)
    # The other way round: a square that four facets of a product meet in.
    rows[-1] = (0, 0, 1, 2, 2, -1)
    check(intersection(rows, 5), rows, 5)


@pytest.mark.parametrize("d", [4, 5])
def test_generators_in_more_dimensions(d):
    """So it is in four and five dimensions, where vertices lie on many facets"""
    rng = np.random.default_rng(d)
    n_checked = 0
    axes = [tuple(int(i == j) for j in range(d + 1)) for i in range(d)]
    while n_checked < 6:
        rows = [tuple(int(v) for v in rng.integers(-1, 2, d + 1)) for _ in range(4)]
        rows += axes
        if oracle.has_point(rows, d):
            n_checked += 1
            check(intersection(rows, d), rows, d)


def test_cut_gives_both_sides():
    """Both parts have the hyperplane as facet, and a point has its side"""
    rng = np.random.default_rng(1)
    n_cut = 0
    for k in range(200):
        d = 1 + k % 3
        rows = random_rows(rng, d, int(rng.integers(0, 5)))
        if not oracle.has_point(rows, d):
            continue
        cone = intersection(rows, d)
        (row,) = random_rows(rng, d, 1)
        opposite = tuple(-a for a in row)
        below, above = cone.cut(row)
        has_above = oracle.has_point([*rows, row], d)
        has_below = oracle.has_point([*rows, opposite], d)
        assert cone.signs(row) == (has_below, has_above)
        if has_above and has_below:
            n_cut += 1
            check(above, [*rows, row], d)
            check(below, [*rows, opposite], d)
            assert primitive(row) in above.facets
            assert primitive(opposite) in below.facets
        elif has_above:
            assert (below, above) == (None, cone)
        else:
            assert (below, above) == (cone, None)
    assert n_cut > 50


def test_face_is_the_part_on_the_hyperplane():
    """A face has the equation, and the generators that elimination finds"""
    rng = np.random.default_rng(2)
    found = set()
    for k in range(300):
        d = 1 + k % 3
        rows = random_rows(rng, d, int(rng.integers(0, 6)))
        if not oracle.has_point(rows, d):
            continue
        cone = intersection(rows, d)
        (row,) = random_rows(rng, d, 1)
        if k % 2 and len(rows) > 1:  # touches where two of the others are 0
            row = tuple(a + b for a, b in zip(*rows[:2], strict=True))
        face = cone.face(row)
        if not any(row):
            assert face is cone
            continue
        both = [*rows, row, tuple(-a for a in row)]
        if face is None or face.is_empty:
            found.add("empty")
            assert not oracle.has_point(widened(both), d)
            continue
        found.add(face.dimension - d)
        check(face, both, d)
        assert dot(row, face.point()) == 0
    assert {"empty", -1, -2} <= found


def test_cuts_of_a_face_stay_inside():
    """What lies within a hyperplane is cut as a polyhedron of fewer dimensions"""
    rng = np.random.default_rng(3)
    for k in range(200):
        d = 2 + k % 2
        first, *rows = random_rows(rng, d, 4)
        if not any(first[:-1]):
            continue
        cone = Cone.whole_space(d).face(first)
        done = [first, tuple(-a for a in first)]
        for row in rows:
            below, above = cone.cut(row)
            for part, sign in ((below, -1), (above, 1)):
                if part is not None:
                    check(part, [*done, tuple(sign * a for a in row)], d)
            cone = below if above is None else above
            done.append(row if above is not None else tuple(-a for a in row))


def test_minimum_is_that_of_all_vertices():
    """A linear function is least at a vertex, or falls along a direction"""
    rng = np.random.default_rng(4)
    kinds = set()
    for k in range(200):
        d = 1 + k % 3
        rows = random_rows(rng, d, int(rng.integers(1, 7)))
        if not oracle.has_point(rows, d):
            continue
        cone = intersection(rows, d)
        (row,) = random_rows(rng, d, 1)
        place, is_bounded = cone.minimum(row)
        # min < v iff {rows, v - row > 0} has a point.
        if is_bounded:
            assert place[-1] > 0
            value = Fraction(dot(row, place), place[-1])
            lower = (*(-a for a in row[:-1]), value - row[-1])
            assert not oracle.has_point([*rows, lower], d)
            assert all(dot(other, place) >= 0 for other in rows)
        else:
            assert place[-1] == 0
            assert dot(row, place) < 0
            assert all(dot(other, place) >= 0 for other in rows)
        kinds.add((is_bounded, bool(cone.lines)))
    assert kinds == {(True, True), (True, False), (False, True), (False, False)}


def test_minimum_along_lines():
    """Along a line a function falls one way, or is constant"""
    whole = Cone.whole_space(2)
    (x, y, t), is_bounded = whole.minimum((3, 0, 5))
    assert not is_bounded
    assert (x, y, t) == (-1, 0, 0)
    assert whole.minimum((0, 0, 5)) == ((0, 0, 1), True)


def test_whole_space():
    """All of R^d has a line for each axis, one point as ray and no facet at hand"""
    cone = Cone.whole_space(3)
    assert cone.dimension == 3
    assert len(cone.lines) == 3
    assert cone.rays == ((0, 0, 0, 1),)
    assert not cone.is_bounded
    assert not cone.is_empty
    assert cone.point() == (0, 0, 0, 1)


def test_large_numbers_stay_exact():
    """Coefficients of hundreds of bits decide by their last bit"""
    big = 2**300
    square = intersection([(1, 0, 0), (0, 1, 0), (-1, 0, 1), (0, -1, 1)], 2)
    below, above = square.cut((big, big, -2 * big))  # touches (1, 1) only
    assert above is None
    assert below is square
    below, above = square.cut((big, big, 1 - 2 * big))
    assert above is not None
    assert set(above.rays) == {
        (1, 1, 1),
        (big - 1, big, big),
        (big, big - 1, big),
    }
    assert below.cut((big, big, 1 - 2 * big)) == (below, None)


def test_primitive_divides_by_the_common_factor():
    """Signs stay, zeros stay, and the zero row stays"""
    assert primitive([4, -6, 0]) == (2, -3, 0)
    assert primitive((-5, 0)) == (-1, 0)
    assert primitive([0, 0]) == (0, 0)
    assert primitive((1, 7)) == (1, 7)
