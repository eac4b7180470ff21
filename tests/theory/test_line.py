"""Breakpoints and affine pieces along a path, beside the cells and the network."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from theory import oracle

from hardzero.errors import ParameterError
from hardzero.stack import Layer, RectifierStack
from hardzero.theory.cells import split
from hardzero.theory.convert import as_network
from hardzero.theory.domain import read_domain
from hardzero.theory.line import Crossing, Decision, along
from hardzero.theory.rational import MaxLayer, max_pool, rational_network
from hardzero.theory.slice import restrict

HAT = [([[1, 1, 1]], [0, -1, -2]), ([[1], [-2], [1]], ["-1/2"])]
ENTRIES = {
    "small ints": lambda rng: int(rng.integers(-2, 3)),
    "fractions": lambda rng: Fraction(
        int(rng.integers(-9, 10)), int(rng.integers(1, 9))
    ),
    "floats": lambda rng: float(rng.normal()),
}


def random_network(rng, sizes, entry, with_max=True):
    """Draw a network; some layers are leaky, steeper below 0, or maxout."""
    layers = []
    for number, (W, b) in enumerate(oracle.random_layers(rng, sizes, entry)):
        kind = rng.integers(4) if with_max and number < len(sizes) - 2 else 0
        if kind == 3:
            rows = [*zip(*W, strict=True)]
            n_pieces = [int(rng.integers(1, 5)) for _ in rows]
            layers.append(
                MaxLayer(
                    [
                        [([entry(rng) for _ in W], entry(rng)) for _ in range(n)]
                        for n in n_pieces
                    ]
                )
            )
        elif kind:
            layers.append(
                (W, b, ("leaky_rectifier(0.25)", "leaky_rectifier(2)")[kind - 1])
            )
        else:
            layers.append((W, b))
    return rational_network(layers)


def random_points(rng, n, d, low=-3, high=4):
    """Draw whole points of which no two in a row are equal."""
    points = [rng.integers(low, high, d).tolist()]
    while len(points) < n:
        point = rng.integers(low, high, d).tolist()
        if point != points[-1]:
            points.append(point)
    return points


def random_stack(sizes, seed=0):
    """Draw a generic stack of rectifiers with float32 weights."""
    rng = np.random.default_rng(seed)
    last = len(sizes) - 2
    return RectifierStack(
        tuple(
            Layer(
                rng.normal(0, np.sqrt(2 / a), (a, b)).astype(np.float32),
                rng.normal(0, 0.3, b).astype(np.float32),
                "rectifier" if number < last else "identity",
            )
            for number, (a, b) in enumerate(pairwise(sizes))
        )
    )


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_pieces_are_the_cells_of_the_network_restricted_to_each_segment(entry):
    """Layered splitting of the one-input network gives the same pieces throughout."""
    rng = np.random.default_rng(5)
    for trial in range(60):
        d = int(rng.integers(1, 4))
        sizes = (d, *rng.integers(1, 6, rng.integers(1, 4)).tolist(), 2)
        network = random_network(rng, sizes, entry)
        points = random_points(rng, 2 + trial % 2, d)
        path = along(network, points)
        for k, (a, b) in enumerate(pairwise(points)):
            step = [y - x for x, y in zip(a, b, strict=True)]
            line = restrict(network, a, [step])
            scale = line.scales[-1]
            expected = set()
            for cell in split(line, read_domain((0, 1), 1).cone()):
                start, stop = sorted(Fraction(s, t) for s, t in cell.cone.rays)
                lines = tuple(
                    (slope * scale, at0 * scale) for slope, at0 in cell.outputs
                )
                expected.add((start, stop, cell.pattern, lines))
            found = [
                (
                    piece.start,
                    piece.stop,
                    piece.pattern,
                    tuple(zip(piece.slopes, piece.intercepts, strict=True)),
                )
                for piece in path
                if piece.segment == k
            ]
            assert set(found) == expected
            assert found == sorted(found)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_values_are_those_of_the_network(entry):
    """At breakpoints, corners and between them, `at` gives what a call gives."""
    rng = np.random.default_rng(6)
    for _ in range(30):
        network = random_network(rng, (3, 4, 4, 2), entry)
        path = along(network, random_points(rng, 4, 3))
        middles = [sum(piece.positions) / 2 for piece in path]
        for position in [0, 1, 2, 3, "5/7", 0.5, *path.breakpoints, *middles]:
            assert path(position) == path.at(position) == network(path.point(position))
        for piece, middle in zip(path, middles, strict=True):
            values = network.pattern(path.point(middle))
            assert len(values) == len(piece.pattern)


def test_tents_composed():
    """Sawteeth of depth L have 2^L affine pieces on [0, 1], each of slope 2^L."""
    for depth in range(1, 7):
        fold = ([[2, 4]], [0, -2])
        again = ([[2, 4], [-2, -4]], [0, -2])
        layers = [fold, *[again] * (depth - 1), ([[1], [-1]], [0])]
        path = along(rational_network(layers), [[0], [1]])
        assert path.n_affine_pieces == path.n_activation_patterns == 2**depth
        assert path.breakpoints == tuple(
            Fraction(i, 2**depth) for i in range(1, 2**depth)
        )
        assert {abs(piece.slopes[0]) for piece in path} == {2**depth}


def test_pattern_changes_without_a_kink_are_told_apart():
    """R(x) - R(-x) is x: two patterns, one transition, one affine piece."""
    network = rational_network([([[1, -1]], [0, 0]), ([[1], [-1]], [0])])
    path = along(network, [[-1], [2]])
    assert (path.n_transitions, path.n_activation_patterns) == (1, 2)
    assert path.n_affine_pieces == 1
    assert path.breakpoints == (Fraction(1, 3),)
    floats = along(network, [[-1], [2]], exact=False)
    assert (floats.n_transitions, floats.n_affine_pieces) == (1, 1)


def test_coincident_breakpoints_are_one():
    """Units that change at the same place, in any layers, make one breakpoint."""
    layers = [([[1, -2, 3]], [0, 0, 0]), ([[1], [0], [0]], [0]), ([[1]], [0])]
    path = along(rational_network(layers), [[-1], [1]])
    assert path.breakpoints == (Fraction(1, 2),)
    assert [piece.pattern for piece in path] == [((0, 1, 0), (0,)), ((1, 0, 1), (1,))]


def test_units_that_are_zero_all_along_are_off():
    """On the line x = y a unit x - y is 0, which counts as off."""
    network = rational_network(
        [([[1, -1, 1], [-1, 1, 0]], [0, 0, 0]), ([[1]] * 3, [0])]
    )
    path = along(network, [[-1, -1], [1, 1]])
    assert [piece.pattern for piece in path] == [((0, 0, 0),), ((0, 0, 1),)]


def test_a_path_may_meet_a_pattern_again():
    """There and back: two transitions, two patterns, and a corner in one of them."""
    network = rational_network([([[1]], [0]), ([[1]], [0])])
    path = along(network, [[-1], [1], [-1]])
    assert path.breakpoints == (Fraction(1, 2), Fraction(3, 2))
    assert (path.n_activation_patterns, path.n_affine_pieces) == (2, 4)
    assert (path.n_segments, len(path), path.n_outputs) == (2, 4, 1)


def test_a_corner_on_a_kink_is_a_breakpoint_if_the_pattern_differs():
    """A corner is a transition where the path goes on on the other side only."""
    network = rational_network([([[1]], [0]), ([[1]], [0])])
    assert along(network, [[-1], [0], [1]]).breakpoints == (1,)
    assert along(network, [[1], [0], [1]]).breakpoints == ()


def test_points_are_read_as_they_are():
    """Ints, floats, Fractions, texts and rows of NumPy are the rationals they are."""
    network = rational_network([([[1], [1]], [0])])
    path = along(network, [["1/3", 0.5], (Fraction(1, 7), 2)])
    assert path.points == (
        (Fraction(1, 3), Fraction(1, 2)),
        (Fraction(1, 7), Fraction(2)),
    )
    rows = np.array([[0.1, 1], [0.5, 2]], dtype=np.float32)
    assert along(network, rows).points[0][0] == Fraction(float(np.float32(0.1)))


@pytest.mark.parametrize("with_max", [False, True])
def test_floats_agree_on_generic_networks(with_max):
    """Same patterns in the same order, and breakpoints that differ by rounding."""
    rng = np.random.default_rng(8)
    for _ in range(40):
        network = random_network(rng, (5, 8, 7, 6, 3), ENTRIES["floats"], with_max)
        points = rng.normal(size=(4, 5))
        exact, approximate = along(network, points), along(network, points, exact=False)
        assert [p.pattern for p in approximate] == [p.pattern for p in exact]
        assert approximate.n_affine_pieces == exact.n_affine_pieces
        close = pytest.approx([float(b) for b in exact.breakpoints], abs=1e-9)
        assert list(approximate.breakpoints) == close
        assert all(type(b) is float for b in approximate.breakpoints)
        for position in (0, 0.3, 1, 1.7, 2.9, 3):
            values = [float(v) for v in exact(position)]
            assert approximate(position) == pytest.approx(values, rel=1e-9, abs=1e-9)
        labels = [d.label for d in exact.decisions()]
        assert [d.label for d in approximate.decisions()] == labels
        signs = [(c.before, c.after) for c in exact.crossings(1, "1/2")]
        assert [(c.before, c.after) for c in approximate.crossings(1, 0.5)] == signs


def test_stacks_in_floats_have_the_units_of_the_exact_network():
    """Signs, slopes above 1, caps and leaks give the same layers and pieces."""
    rng = np.random.default_rng(9)
    W = [rng.normal(size=shape) for shape in ((3, 4), (4, 4), (4, 4), (4, 2))]
    layers = (
        Layer(W[0], rng.normal(size=4), "rectifier", signs=[1, -1, 1, -1]),
        Layer(W[1], rng.normal(size=4), "capped_rectifier(0.5)"),
        Layer(W[2], rng.normal(size=4), "prelu", slopes=[2.0, 0.5, -1.0, 1.5]),
        Layer(W[3], rng.normal(size=2), "leaky_rectifier", signs=[1, -1]),
    )
    stack = RectifierStack(layers)
    points = rng.normal(size=(3, 3)) * 3
    exact, approximate = along(stack, points), along(stack, points, exact=False)
    assert [p.pattern for p in approximate] == [p.pattern for p in exact]
    values = [float(v) for v in exact("4/3")]
    assert approximate("4/3") == pytest.approx(values, rel=1e-9)
    assert len(exact) > 10


def test_large_networks():
    """784-64-64-10 along a segment: exact, and the same in floats."""
    stack = random_stack((784, 64, 64, 10))
    points = (np.random.default_rng(1).normal(size=(2, 784)) * 3).astype(np.float32)
    exact, approximate = along(stack, points), along(stack, points, exact=False)
    assert [p.pattern for p in exact] == [p.pattern for p in approximate]
    assert exact.n_transitions > 50
    middle = exact.breakpoints[30]
    network = as_network(stack)
    assert exact(middle) == network(exact.point(middle))
    for before, after in pairwise(exact.decisions()):
        assert exact(after.start)[before.label] == exact(after.start)[after.label]


def test_crossings_are_exact():
    """A hat of height 1 passes 1/2 twice, and touches 1 and 0."""
    path = along(rational_network(HAT), [[-1], [3]])
    assert path.crossings() == (
        Crossing(Fraction(3, 8), Fraction(3, 8), -1, 1),
        Crossing(Fraction(5, 8), Fraction(5, 8), 1, -1),
    )
    (top,) = path.crossings(level="1/2")
    assert (top.start, top.stop, top.changes_sign) == (
        Fraction(1, 2),
        Fraction(1, 2),
        False,
    )
    bottom = path.crossings(0, Fraction(-1, 2))
    assert bottom == (
        Crossing(0, Fraction(1, 4), 0, 1),
        Crossing(Fraction(3, 4), 1, 1, 0),
    )
    assert path.crossings(level=5) == ()


def test_crossings_at_the_ends_of_the_path():
    """A path that begins or ends where the output is 0 has a crossing there."""
    network = rational_network([([[1]], [0])])
    assert along(network, [[0], [1]]).crossings() == (Crossing(0, 0, 0, 1),)
    assert along(network, [[-1], [0]]).crossings() == (Crossing(1, 1, -1, 0),)
    assert along(network, [[-1], [0], [1]]).crossings() == (Crossing(1, 1, -1, 1),)
    nothing = rational_network([([[0]], [0])])
    assert along(nothing, [[0], [1], [0]]).crossings() == (Crossing(0, 2, 0, 0),)


def test_crossings_and_decisions_by_evaluation():
    """Between crossings the sign stays, and decisions are those of the values."""
    rng = np.random.default_rng(10)
    for trial in range(80):
        n_outputs = 1 + trial % 3
        network = random_network(rng, (2, 4, 3, n_outputs), ENTRIES["small ints"])
        path = along(network, random_points(rng, 3, 2))
        crossings = path.crossings(n_outputs - 1, 1)
        ends = [0, *(x for c in crossings for x in (c.start, c.stop)), path.n_segments]
        for crossing in crossings:
            assert {path(crossing.start)[-1], path(crossing.stop)[-1]} == {1}
        for number, (a, b) in enumerate(pairwise(ends)):
            inside = {path(a + (b - a) * Fraction(i, 7))[-1] - 1 for i in range(1, 7)}
            if a < b:
                signs = {(v > 0) - (v < 0) for v in inside}
                assert len(signs) == 1
                assert (signs == {0}) == (number % 2 == 1)
        decisions = path.decisions()
        assert [decisions[0].start, decisions[-1].stop] == [0, path.n_segments]
        for before, after in pairwise(decisions):
            assert before.stop == after.start
            assert before.label != after.label
        for decision in decisions:
            # Off the crossings' denominators, so that single tied points are missed.
            for i in range(1, 12):
                share = Fraction(i, 12) + Fraction(1, 1009)
                values = path(decision.start + (decision.stop - decision.start) * share)
                if n_outputs == 1:
                    assert decision.label == (values[0] >= 0)
                else:
                    assert decision.label == values.index(max(values))


def test_decisions_on_ties():
    """An output that is 0 all along decides 1; among equal outputs the first wins."""
    nothing = rational_network([([[0]], [0])])
    assert along(nothing, [[0], [1]]).decisions() == (Decision(0, 1, 1),)
    assert along(nothing, [[0], [1]]).decisions(level=1) == (Decision(0, 1, 0),)
    twice = rational_network([([[1, 1, -1]], [0, 0, 0])])
    assert along(twice, [[-1], [1]]).decisions() == (
        Decision(0, Fraction(1, 2), 2),
        Decision(Fraction(1, 2), 1, 0),
    )


def test_spike_of_any_width_is_found():
    """A spike of width 2^-k on [0, 1] is found exactly, far below what floats see."""
    for k in (20, 60, 200):
        w = Fraction(1, 2**k)
        half = Fraction(1, 2)
        layers = [
            ([[1, 1, 1]], [-half, -half - w / 2, -half - w]),
            ([[2**k], [-(2 ** (k + 1))], [2**k]], [0]),
        ]
        path = along(rational_network(layers), [[0], [1]])
        assert path.breakpoints == (half, half + w / 2, half + w)
        assert path(half + w / 2) == (half,)


def test_repr_shows_counts():
    """It says how many breakpoints there are, and whether they are exact."""
    path = along(rational_network(HAT), [[-1], [3]])
    expected = "PiecesAlong(1 segments in 1 dimensions, 3 breakpoints, exact)"
    assert repr(path) == expected
    floats = along(rational_network(HAT), [[-1], [3]], exact=False)
    assert "approximate" in repr(floats)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0, 0]], "has 1 points, expected at least two"),
        ([[0, 0], [1]], "point 1 has 1 entries, expected 2"),
        (
            [[0, 0], [1, 1], [1, "2/2"]],
            "points 1 and 2 are equal.*Leave one of them out",
        ),
        ([[0, 0], [1, float("nan")]], "entry 1 of point 1 is nan"),
        ([1, 2], "point 0 is 1, expected a sequence of 2 numbers"),
        (3, "points is int without points in it"),
    ],
)
@pytest.mark.parametrize("exact", [True, False])
def test_points_that_are_no_path_are_refused(points, message, exact):
    """Errors name the point."""
    network = rational_network([([[1], [1]], [0])])
    with pytest.raises(ParameterError, match=message):
        along(network, points, exact=exact)


def test_points_that_are_equal_in_floats_are_refused_there():
    """Exactly they make a path; in floats they do not."""
    network = rational_network([([[1]], [0])])
    points = [[1], [1 + Fraction(1, 10**30)]]
    assert len(along(network, points)) == 1
    with pytest.raises(ParameterError, match="points 0 and 1 are equal"):
        along(network, points, exact=False)


def test_wrong_questions_are_refused():
    """Positions off the path, and outputs that are not there."""
    path = along(rational_network(HAT), [[-1], [3]])
    with pytest.raises(ParameterError, match="position is 2, expected a number from 0"):
        path.at(2)
    with pytest.raises(ParameterError, match="output is 1, expected the number"):
        path.crossings(1)
    with pytest.raises(ParameterError, match="level is 'x'"):
        path.crossings(0, "x")
    with pytest.raises(ParameterError, match="not piecewise linear"):
        along(RectifierStack((Layer([[1.0]], [0.0], "tanh"),)), [[0], [1]], exact=False)


def test_max_pooling_along_a_line():
    """The largest of x, 1 - x and 3/4 changes at 1/4 and 3/4."""
    layers = [
        ([[1, -1, 0]], [0, 1, "3/4"], "identity"),
        max_pool(3, [[0, 1, 2]]),
        ([[1]], [0]),
    ]
    path = along(rational_network(layers), [[0], [1]])
    assert path.breakpoints == (Fraction(1, 4), Fraction(3, 4))
    assert [piece.pattern for piece in path] == [((1,),), ((2,),), ((0,),)]


def test_numbers_too_large_for_floats_are_told():
    """Weights, points, and what they give; in rationals there is no such limit."""
    weights = rational_network([([[10**400]], [0])])
    with pytest.raises(ParameterError, match=r"too large for float64.*exact=True"):
        along(weights, [[0], [1]], exact=False)
    steep = rational_network([([[1e200]], [0]), ([[1e200]], [0])])
    with pytest.raises(ParameterError, match="too large for float64"):
        along(steep, [[-1], [1e10]], exact=False)
    assert along(steep, [[-1], [1e10]]).breakpoints
