"""Decision boundaries: exact pieces, hyperplanes and components."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from theory import oracle

from hardzero.errors import BudgetError, ParameterError
from hardzero.theory.boundary import (
    Component,
    TiedPart,
    _connected,
    _meet,
    _Shelf,
    decision_boundary,
)
from hardzero.theory.convert import as_network
from hardzero.theory.domain import read_domain
from hardzero.theory.rational import MaxLayer, rational_network

SHAPES = [
    *[(1, 3, 1), (2, 3, 1), (2, 2, 2, 1), (2, 4, 1), (3, 3, 1), (2, 3, 2, 1)],
    *[(2, 2, 2), (2, 3, 3), (1, 3, 3), (2, 2, 2, 3), (3, 2, 2), (2, 2)],
]
EPSILON = Fraction(1, 2**60)


def absolutes(weights, bias):
    """The network of sum_i weights[i] |x_i| + bias."""
    n = len(weights)
    W = [[s * (i == j) for i in range(n) for s in (1, -1)] for j in range(n)]
    out = [[w] for w in weights for _ in range(2)]
    return rational_network([(W, [0] * 2 * n), (out, [bias])])


def draw(seed):
    """A network with weights from -2 to 2, and a domain or none, drawn by number."""
    rng = np.random.default_rng(seed)
    network = rational_network(oracle.random_layers(rng, SHAPES[seed % len(SHAPES)]))
    return network, (None, (-2, 2))[seed // len(SHAPES) % 2]


def leading(network, x, level=0):
    """The classes that tie and lead at a point."""
    values = network(x)
    if len(values) == 1:
        value = values[0] - level
        return (1, 0) if value == 0 else (1,) if value > 0 else (0,)
    return tuple(k for k, value in enumerate(values) if value == max(values))


def holds(part, x):
    """Whether a point lies in a part of a boundary."""
    point = (*x, 1)
    value = lambda row: sum(a * v for a, v in zip(row, point, strict=True))  # noqa: E731
    return all(value(row) == 0 for row in part.cone.equations) and all(
        value(row) >= 0 for row in part.cone.facets
    )


def parts(boundary):
    """All parts of a boundary."""
    return [*boundary.pieces, *boundary.flat_parts, *boundary.thin_parts]


def texts(hyperplanes):
    """Coefficients as they are printed."""
    return [tuple(map(str, row)) for row in hyperplanes]


@pytest.mark.parametrize("seed", range(60))
def test_a_tie_is_in_the_boundary_and_nothing_else_is(seed):
    """On a lattice, a point lies in a part exactly if leading classes tie there."""
    network, domain = draw(seed)
    found = parts(decision_boundary(network, domain))
    steps = [
        Fraction(i, 2)
        for i in (range(-4, 5) if network.n_inputs < 3 else (-2, 0, 1, 2))
    ]
    for x in itertools.product(steps, repeat=network.n_inputs):
        tied = leading(network, x)
        covers = [part for part in found if holds(part, x)]
        assert (len(tied) > 1) == bool(covers)
        assert all(set(part.classes) <= set(tied) for part in covers)


@pytest.mark.parametrize("seed", range(60))
def test_no_zero_on_a_line_is_missed(seed):
    """Where the output is 0 on a random line, by brute force, there is a part."""
    rng = np.random.default_rng(seed)
    layers = oracle.random_layers(rng, [(2, 3, 1), (2, 2, 2, 1), (3, 3, 1)][seed % 3])
    n_inputs = len(layers[0][0])
    found = parts(decision_boundary(rational_network(layers)))
    for _ in range(5):
        direction, origin = rng.integers(-9, 10, (2, n_inputs)).tolist()
        on_line = oracle.restricted(
            oracle.network(layers), [tuple(direction)], tuple(origin)
        )
        for cell in oracle.cells(on_line, 1):
            slope, constant = cell.outputs[0]
            if slope == 0:
                continue
            s = -Fraction(constant) / slope
            x = [o + s * v for o, v in zip(origin, direction, strict=True)]
            if all(a * s + b >= 0 for a, b in cell.rows):
                assert any(holds(part, x) for part in found)


@pytest.mark.parametrize("seed", range(60))
def test_a_piece_tells_what_is_on_its_sides(seed):
    """Classes and patterns are those of points right beside it, and it comes once."""
    network, domain = draw(seed)
    boundary = decision_boundary(network, domain)
    pieces = list(boundary)
    for piece in pieces:
        *normal, _ = piece.hyperplane
        assert next(a for a in normal if a) == 1
        assert piece.cone.dimension == network.n_inputs - 1
        assert leading(network, piece.point) == piece.classes
        for sign, side, pattern in zip(
            (-1, 1), piece.sides, piece.patterns, strict=True
        ):
            x = [
                p + sign * EPSILON * a for p, a in zip(piece.point, normal, strict=True)
            ]
            if side:
                assert leading(network, x) == side
                assert network.pattern(x) == pattern
            else:
                assert not boundary.regions.domain.contains(x)
                assert pattern == ()
        if all(piece.sides):
            first = [side[0] for side in piece.sides]
            assert piece.changes == (first[0] != first[1])
    for one, other in itertools.combinations(pieces, 2):
        if one.hyperplane == other.hyperplane:
            common = one.cone
            for row in other.cone.facets:
                common = common and (common.cut(row)[1] or common.face(row))
            assert (
                common is None
                or common.is_empty
                or common.dimension < one.cone.dimension
            )


@pytest.mark.parametrize("seed", range(80))
def test_components_are_those_of_segments_compared_in_pairs(seed):
    """In a box in the plane, components and closedness agree with a plain twin."""
    rng = np.random.default_rng(seed)
    shape = [(2, 4, 1), (2, 3, 2, 1), (2, 3, 3), (2, 4, 2, 1)][seed % 4]
    boundary = decision_boundary(
        rational_network(oracle.random_layers(rng, shape)), (-2, 2)
    )
    segments = [piece.vertices for piece in boundary.pieces]
    groups = [{i} for i in range(len(segments))]
    for i, j in itertools.combinations(range(len(segments)), 2):
        if cross(segments[i], segments[j]):
            one, other = (next(g for g in groups if k in g) for k in (i, j))
            if one is not other:
                groups.remove(other)
                one |= other
    closed = Counter(
        all(
            any(cross(segments[j], [end, end]) for j in group if j != i)
            for i in group
            for end in segments[i]
        )
        for group in groups
    )
    assert Counter(c.is_closed for c in boundary.components) == closed
    assert boundary.n_components == len(groups)
    assert sorted(len(c.pieces) for c in boundary.components) == sorted(
        map(len, groups)
    )


@pytest.mark.parametrize("seed", range(60))
def test_segments_that_meet_between_their_ends_are_connected(seed):
    """Segments between points of a small lattice, many of them across others."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, 4, (int(rng.integers(2, 8)), 2, 2)).tolist()
    ends = [(a, b) for a, b in ends if a != b]
    segments = [TiedPart(segment(a, b), (), ()) for a, b in ends]
    groups = _connected(segments)
    assert sorted(itertools.chain(*groups)) == list(range(len(ends)))
    for i, j in itertools.combinations(range(len(ends)), 2):
        if cross(ends[i], ends[j]):
            assert any({i, j} <= set(group) for group in groups)
    for group in groups:
        assert reachable(ends, group[0]) == set(group)
        component = Component(tuple(segments[i] for i in group), 2)
        assert component.is_closed == all(
            any(cross(ends[j], [end, end]) for j in group if j != i)
            for i in group
            for end in ends[i]
        )


def reachable(ends, start):
    """Numbers of the segments that are connected with one."""
    found, waiting = {start}, [start]
    while waiting:
        i = waiting.pop()
        new = [
            j for j in range(len(ends)) if j not in found and cross(ends[i], ends[j])
        ]
        found.update(new)
        waiting += new
    return found


def segment(a, b):
    """The cone over a segment in the plane."""
    (x, y), (u, v) = a, b
    along = [u - x, v - y]
    across = [v - y, x - u]
    level = across[0] * x + across[1] * y
    start, end = (along[0] * p + along[1] * q for p, q in (a, b))
    A = [across, [-c for c in across], along, [-c for c in along]]
    return read_domain((A, [level, -level, end, -start]), 2).cone()


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_of_a_box_outside_of_others(seed):
    """The parts of a box outside of others have, with them, its volume, and no more."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    lower, upper = np.zeros(n, int), np.full(n, 4)
    others = np.sort(rng.integers(-1, 6, (3, 2, n)), axis=1)
    covers = [TiedPart(box_cone(*bounds), (), ()) for bounds in others]
    rest = _Shelf(covers).uncovered(box_cone(lower, upper))
    assert all(cone.dimension == n for cone in rest)
    for x in itertools.product(
        [Fraction(i) + Fraction(1, 2) for i in range(4)], repeat=n
    ):
        covered = any(holds(cover, x) for cover in covers)
        copies = sum(holds(TiedPart(cone, (), ()), x) for cone in rest)
        assert copies == (not covered)


def box_cone(lower, upper):
    """The cone over a box."""
    return read_domain((lower.tolist(), upper.tolist()), len(lower)).cone()


def test_numbers_beyond_all_floats_only_make_boxes_larger():
    """Parts at 10^400 and at -10^400 are told apart, and found."""
    far = 10**400
    boundary = decision_boundary(absolutes([1], -far))
    assert [piece.vertices for piece in boundary.pieces] == [[(-far,)], [(far,)]]
    assert boundary.n_components == 2
    assert [component.is_closed for component in boundary.components] == [True, True]
    crossing = [segment((1, 0), (far, 0)), segment((2, -1), (2, 1))]
    assert _connected([TiedPart(cone, (), ()) for cone in crossing]) == [[0, 1]]


def cross(one, other):
    """Whether two closed segments in the plane share a point."""

    def side(a, b, c):
        turn = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        return (turn > 0) - (turn < 0)

    def within(a, b, c):
        return all(min(a[k], b[k]) <= c[k] <= max(a[k], b[k]) for k in (0, 1))

    (a, b), (c, d) = one, other
    turns = side(a, b, c), side(a, b, d), side(c, d, a), side(c, d, b)
    if a != b and c != d and turns[0] * turns[1] < 0 and turns[2] * turns[3] < 0:
        return True
    return (
        (turns[0] == 0 and within(a, b, c))
        or (turns[1] == 0 and within(a, b, d))
        or (turns[2] == 0 and within(c, d, a))
        or (turns[3] == 0 and within(c, d, b))
    )


@pytest.mark.parametrize("n", range(1, 7))
def test_one_minus_a_sum_of_rectifiers_has_all_facets(n):
    """The region where 1 >= sum of R(x_k) has 2^n - 1 facets, one component."""
    identity = np.eye(n, dtype=int).tolist()
    network = rational_network([(identity, [0] * n), ([[-1]] * n, [1])])
    boundary = decision_boundary(network)
    expected = {
        tuple(map(Fraction, (*subset, -1)))
        for subset in itertools.product((0, 1), repeat=n)
        if any(subset)
    }
    assert set(boundary.hyperplanes) == expected
    assert len(boundary.pieces) == 2**n - 1
    assert boundary.n_components == 1


@pytest.mark.parametrize("n", [3, 4, 5])
@pytest.mark.parametrize("d", [2, 3])
def test_few_dimensions_bound_the_number_of_hyperplanes(d, n):
    """With negative output weights: 2 n in the plane, n^2 - n + 2 in space."""
    rng = np.random.default_rng(n)
    for _ in range(5):
        W = rng.integers(-9, 10, (d, n)).tolist()
        b = rng.integers(-9, 3, n).tolist()
        boundary = decision_boundary(rational_network([(W, b), ([[-1]] * n, [5])]))
        limit = 2 * n if d == 2 else n * n - n + 2
        assert 0 < len(boundary.hyperplanes) <= min(limit, 2**n - 1)


def test_a_level_that_is_touched_is_no_change():
    """-|x| meets 0 at one point, from below on both sides."""
    boundary = decision_boundary(absolutes([-1], 0))
    (piece,) = boundary.pieces
    assert piece.vertices == [(0,)]
    assert (piece.sides, piece.changes) == (((0,), (0,)), False)
    assert boundary.hyperplanes == ()
    assert repr(piece) == "BoundaryPiece(1 x0 + 0 = 0, touched between 0 and 0)"


def test_a_touched_line_is_whole():
    """-|x| in the plane is 0 on a line, which is one piece with no end."""
    network = rational_network([([[1, -1], [0, 0]], [0, 0]), ([[-1], [-1]], [0])])
    (piece,) = decision_boundary(network).pieces
    assert (piece.vertices, piece.changes) == ([], False)
    assert sorted(piece.directions) == [(0, -1), (0, 1)]
    assert piece.point[0] == 0


def test_a_tie_at_a_point_is_thin():
    """-|x| - |y| is 0 at the origin only: no piece, but not lost."""
    boundary = decision_boundary(absolutes([-1, -1], 0))
    (thin,) = boundary.thin_parts
    assert (boundary.pieces, boundary.flat_parts) == ((), ())
    assert (thin.vertices, thin.classes, thin.is_bounded) == ([(0, 0)], (1, 0), True)


def test_a_thin_part_is_what_pieces_leave():
    """-|x| - |y| + R(z) is 0 on the lower half of an axis and on a cone above it."""
    W = [[1, -1, 0, 0, 0], [0, 0, 1, -1, 0], [0, 0, 0, 0, 1]]
    network = rational_network([(W, [0] * 5), ([[-1]] * 4 + [[1]], [0])])
    boundary = decision_boundary(network)
    assert len(boundary.pieces) == 4
    (thin,) = boundary.thin_parts
    assert (thin.vertices, thin.directions) == ([(0, 0, 0)], [(0, 0, -1)])


def test_a_cross_is_one_component_with_two_hyperplanes():
    """|x| - |y| is 0 on two lines that meet."""
    boundary = decision_boundary(absolutes([1, -1], 0))
    assert texts(boundary.hyperplanes) == [("1", "-1", "0"), ("1", "1", "0")]
    assert (len(boundary.pieces), boundary.n_components) == (4, 1)
    assert not boundary.components[0].is_closed


@pytest.mark.parametrize(("sign", "changes"), [(1, False), (-1, True)])
def test_an_output_that_is_zero_on_a_quadrant(sign, changes):
    """R(x) + R(y) is 0 on a whole cell, whose rim counts if 0 and beyond differ."""
    network = rational_network([([[1, 0], [0, 1]], [0, 0]), ([[sign], [sign]], [0])])
    boundary = decision_boundary(network)
    (flat,) = boundary.flat_parts
    assert (flat.pattern, flat.classes) == (((0, 0),), (1, 0))
    assert sorted(flat.directions) == [(-1, 0), (0, -1)]
    assert flat.polytope == ([[1, 0], [0, 1]], [0, 0])
    assert [piece.changes for piece in boundary.pieces] == [changes] * 2
    assert len(boundary.hyperplanes) == 2 * changes
    assert boundary.n_components == 1
    assert boundary.thin_parts == ()


def test_a_body_is_closed_until_the_domain_cuts_it():
    """The surface of an octahedron has no rim; that of a half of it has one."""
    ball = absolutes([-1, -1, -1], 1)
    (surface,) = decision_boundary(ball).components
    assert (len(surface.pieces), surface.is_closed) == (8, True)
    (rest,) = decision_boundary(ball, ((0, -2, -2), (2, 2, 2))).components
    assert (len(rest.pieces), rest.is_closed, rest.is_bounded) == (4, False, True)
    assert repr(rest) == "Component(4 pieces, open)"


@pytest.mark.parametrize(("distance", "n_components"), [(3, 2), (2, 1), (1, 1)])
def test_two_bodies_that_touch_are_one_component(distance, n_components):
    """Squares of radius 1 around points at a distance: apart, at a corner, across."""
    units = [
        [(["1", "1"], 0), (["1", "-1"], 0), (["-1", "1"], 0), (["-1", "-1"], 0)],
        [([a, b], -a * distance) for a, b in itertools.product((1, -1), repeat=2)],
    ]
    network = rational_network([MaxLayer(units), ([[1, 0], [0, 1]], [0, 0]), *_least()])
    boundary = decision_boundary(network, level=1)
    assert boundary.n_components == n_components
    assert all(component.is_closed for component in boundary.components)


def _least():
    """Layers that take the smaller of two inputs that are not negative."""
    return [([[1, 1], [-1, 0]], [0, 0], "rectifier"), ([[-1], [1]], [0])]


def test_several_classes_meet_where_they_lead():
    """Of x, y and 0 each leads on a sector; the pieces are three rays."""
    network = rational_network([([[1, 0, 0], [0, 1, 0]], [0, 0, 0])])
    boundary = decision_boundary(network)
    assert {piece.classes: piece.directions for piece in boundary.pieces} == {
        (0, 1): [(1, 1)],
        (0, 2): [(0, -1)],
        (1, 2): [(-1, 0)],
    }
    assert all(piece.changes for piece in boundary.pieces)
    assert (len(boundary.hyperplanes), boundary.n_components) == (3, 1)


def test_classes_that_are_the_same_tie_on_cells():
    """Two outputs x and one y: the tie of the two is flat, both sides know it."""
    network = rational_network([([[1, 0, 1], [0, 1, 0]], [0, 0, 0])])
    boundary = decision_boundary(network)
    (piece,) = boundary.pieces
    (flat,) = boundary.flat_parts
    assert (piece.classes, flat.classes) == ((0, 1, 2), (0, 2))
    assert piece.sides == ((1,), (0, 2))
    assert repr(piece) == "BoundaryPiece(1 x0 + -1 x1 + 0 = 0, between 1 and 0 = 2)"


def test_a_class_behind_a_leader_has_no_boundary():
    """Where two outputs tie below a third there is nothing."""
    network = rational_network([([[1, -1, 0]], [0, 0, "1/2"])])
    boundary = decision_boundary(network)
    assert sorted(piece.vertices[0][0] for piece in boundary.pieces) == [
        Fraction(-1, 2),
        Fraction(1, 2),
    ]


def test_leaky_rectifiers_and_a_level():
    """max(x, x / 4) = -1 at x = -4, and nowhere else."""
    network = rational_network([([[1]], [0], "leaky_rectifier(0.25)"), ([[1]], [0])])
    boundary = decision_boundary(network, level="-1")
    (piece,) = boundary.pieces
    assert (piece.vertices, piece.pattern) == ([(-4,)], ((0,),))
    assert (piece.sides, piece.is_bounded) == (((0,), (1,)), True)


def test_maxout_units_make_a_polygon():
    """The largest of three affine pieces is 0 on a triangle's rim."""
    unit = [([1, 0], -1), ([0, 1], -1), ([-1, -1], -1)]
    boundary = decision_boundary(rational_network([MaxLayer([unit])]))
    (triangle,) = boundary.components
    assert triangle.is_closed
    corners = {vertex for piece in triangle.pieces for vertex in piece.vertices}
    assert corners == {(1, 1), (1, -2), (-2, 1)}


def test_a_piece_on_the_border_of_the_domain_has_one_side():
    """For x in the domain x >= 0 the level is met where the domain ends."""
    boundary = decision_boundary(rational_network([([[1]], [0])]), (0, None))
    (piece,) = boundary.pieces
    assert (piece.sides, piece.patterns) == (((), (1,)), ((), ()))
    assert not piece.changes
    assert repr(piece).endswith("touched between the end of the domain and 1)")


def test_a_domain_in_a_hyperplane():
    """On the plane x + y + z = 0 the boundary of x - y is a line, named without x."""
    network = rational_network([([[1], [-1], [0]], [0])])
    plane = ([[1, 1, 1], [-1, -1, -1]], [0, 0])
    boundary = decision_boundary(network, plane)
    (piece,) = boundary.pieces
    assert piece.cone.dimension == 1
    assert texts(boundary.hyperplanes) == [("0", "1", "1/2", "0")]
    assert sorted(piece.directions) == [(-1, -1, 2), (1, 1, -2)]


def test_a_domain_in_two_hyperplanes():
    """On the line x = y = z a boundary is a point, named by the last input."""
    network = rational_network([([[1], [2], [1]], [-1])])
    line = ([[1, -1, 0], [-1, 1, 0], [0, 1, -1], [0, -1, 1]], [0] * 4)
    boundary = decision_boundary(network, line)
    assert [piece.vertices for piece in boundary.pieces] == [[(Fraction(1, 4),) * 3]]
    assert texts(boundary.hyperplanes) == [("0", "0", "1", "-1/4")]


def test_polytope_and_vertices_of_a_segment():
    """One side of the square |x| + |y| = 1: two ends, and rows that hold on it."""
    boundary = decision_boundary(absolutes([-1, -1], 1))
    for piece in boundary.pieces:
        A, b = piece.polytope
        assert len(piece.vertices) == 2
        for vertex in piece.vertices:
            values = [sum(a * v for a, v in zip(r, vertex, strict=True)) for r in A]
            assert all(v <= limit for v, limit in zip(values, b, strict=True))
            assert sum(map(abs, vertex)) == 1


def test_pieces_stream_and_properties_keep_to_the_budget():
    """Iterating has no limit; what needs all cells stops above the budget."""
    boundary = decision_boundary(absolutes([-1, -1], 1), budget=3)
    assert len(list(boundary)) == 4
    with pytest.raises(BudgetError, match=r"more than 3 cells, the budget\. Raise"):
        boundary.hyperplanes  # noqa: B018


def test_a_boundary_says_how_large_it_is():
    """Its text has the sizes of the network, and the pieces once they are known."""
    boundary = decision_boundary(absolutes([-1, -1], 1))
    assert repr(boundary) == "Boundary(RationalNetwork(2 -> 4 -> 1))"
    assert boundary.n_components == 1
    assert repr(boundary) == "Boundary(RationalNetwork(2 -> 4 -> 1), 4 pieces)"


def test_a_level_needs_a_single_output():
    """Several outputs are compared with each other."""
    network = rational_network([([[1, 2]], [0, 0])])
    with pytest.raises(
        ParameterError, match="level is 1 but the network has 2 outputs"
    ):
        decision_boundary(network, level=1)
    with pytest.raises(ParameterError, match="level is 'x', expected a finite number"):
        decision_boundary(network, level="x")


def test_meeting_is_decided_exactly():
    """Polyhedra that miss each other by 2^-80 do not meet."""
    gap = Fraction(1, 2**80)
    line = rational_network([([[1], [0]], [0])])
    close = rational_network([([[1], [0]], [-gap])])
    one, same, other = (
        decision_boundary(as_network(net), (-1, 1)).pieces[0].cone
        for net in (line, line, close)
    )
    assert _meet(one, same)
    assert not _meet(one, other)
