"""Cells and counts of piecewise-linear networks, beside a brute force."""

import itertools
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from theory import oracle

from hardzero.errors import BudgetError, ParameterError
from hardzero.stack import Layer, RectifierStack
from hardzero.theory.domain import Domain
from hardzero.theory.rational import MaxLayer, max_pool, rational_network
from hardzero.theory.regions import linear_regions

# Sizes from the inputs to the outputs, small enough to try all patterns.
SHAPES = [
    *[
        (2, 3, 2, 1),
        (2, 2, 3, 1),
        (2, 4, 1),
        (3, 3, 3, 1),
        (1, 3, 3, 1),
        (2, 2, 2, 2, 1),
    ],
    *[(3, 4, 1), (1, 2, 2, 2, 1), (2, 3, 3, 1), (2, 2, 2, 2), (1, 6, 1), (2, 5, 1)],
]
# Hidden sizes of `anchor`, the counts on R^d and on [-1, 1]^d.
ANCHORS = {
    (2, 8, 8): (111, 38),
    (2, 16, 16): (450, 225),
    (2, 32, 32): (2034, 1027),
    (2, 64, 64): (7397, 3846),
    (2, 16, 16, 16): (1047, 485),
    (3, 8, 8): (796, 280),
    (3, 16, 16): (4318, 1431),
    (4, 8, 8): (2367, 597),
    (4, 16, 16): (33196, 5235),
}
SLOW = ((2, 64, 64), (4, 16, 16))
AXES = ([[1, 0], [0, 1]], [0, 0])
# Weights as rows of units, then biases; the number of cells of the plane.
DEGENERATE = {
    "three concurrent lines": ([([[1, 0], [0, 1], [1, 1]], [0] * 3)], 6),
    "a unit twice and its opposite": ([([[1, 0], [-1, 0], [2, 0]], [0] * 3)], 2),
    "a grid of parallels": ([([[1, 0], [1, 0], [0, 1], [0, 1]], [0, -1, 0, -1])], 9),
    "concurrency across layers": (
        [
            ([[1, 0], [-1, 0], [0, 1], [0, -1]], [0] * 4),
            ([[1, 1, 1, 1], [1, 1, -1, -1]], [-1, 0]),
        ],
        16,
    ),
    "a unit that is 0 on a cell": ([AXES, ([[1, 0], [-1, 0], [1, 1]], [0] * 3)], 4),
    **{
        f"a triangle of size 2^-{e}": (
            [([[1, 0], [0, 1], [-1, -1]], [0, 0, Fraction(1, 2**e)])],
            7,
        )
        for e in (10, 20, 24, 30, 40, 52)
    },
    "a sliver": ([([[1, 0], [1, Fraction(1, 2**30)]], [0, 0])], 4),
    "no biases": (
        [
            ([[1, 2], [-2, 1], [3, -1], [1, 1]], [0] * 4),
            ([[1, -1, 1, 0], [-1, 1, 0, 1], [2, -1, -1, 1], [0, 1, -1, -1]], [0] * 4),
        ],
        12,
    ),
}


def anchor(hidden):
    """Draw the network with weights in 1/256 whose counts are known."""
    rng = np.random.default_rng(0)
    layers = []
    for a, b in pairwise((*hidden, 1)):
        W = np.round(rng.normal(0, np.sqrt(2 / a), (b, a)) * 256) / 256
        B = np.round(rng.normal(0, 0.5, b) * 256) / 256
        layers.append((W.T, B))
    return rational_network(layers)


def sawtooth(depth):
    """Compose t(x) = R(2x) - R(4x - 2) with itself."""
    first = ([[2, 4]], [0, -2])
    other = ([[2, 4], [-2, -4]], [0, -2])
    return rational_network([first, *[other] * (depth - 1), ([[1], [-1]], [0])])


def transposed(layers):
    """Turn rows of units into W of shape (in, out)."""
    return [([list(column) for column in zip(*W, strict=True)], b) for W, b in layers]


def three_counts(regions):
    """Return all counts."""
    return (
        regions.n_activation_patterns,
        regions.n_linear_regions,
        regions.n_affine_maps,
    )


def agree(model, net, n_inputs, domain=None, rows=()):
    """Compare patterns, their order, affine maps and all counts with brute force."""
    expected = oracle.cells(net, n_inputs, rows)
    regions = linear_regions(model, domain)
    found = list(regions)
    assert [cell.pattern for cell in found] == [cell.pattern for cell in expected]
    for cell, other in zip(found, expected, strict=True):
        assert affine_rows(cell) == list(other.outputs)
    assert three_counts(regions) == oracle.counts(expected, n_inputs)
    return found, expected


def affine_rows(cell):
    """Return the affine map of a cell, one row an output."""
    columns = zip(*cell.weights, strict=True)
    return [(*w, b) for w, b in zip(columns, cell.biases, strict=True)]


def agree_on_both(layers, n_inputs):
    """Compare a rectifier network with brute force on R^d and on a box."""
    model, net = rational_network(layers), oracle.network(layers)
    agree(model, net, n_inputs)
    low, high = [-1] * n_inputs, [1] * n_inputs
    agree(model, net, n_inputs, (low, high), oracle.box(low, high))


def open_rows(cell):
    """Return the rows that are positive inside of a cell."""
    A, b = cell.polytope
    return [(*(-a for a in row), limit) for row, limit in zip(A, b, strict=True)]


def points_of(cell, rng, n):
    """Draw rational points of a cell from its generators."""
    corners = cell.vertices or [cell.point]
    for _ in range(n):
        weights = [int(w) for w in rng.integers(1, 10, len(corners))]
        steps = [int(w) for w in rng.integers(0, 10, len(cell.directions))]
        yield tuple(
            sum(w * Fraction(v[i]) for w, v in zip(weights, corners, strict=True))
            / sum(weights)
            + sum(s * v[i] for s, v in zip(steps, cell.directions, strict=True))
            for i in range(len(cell.point))
        )


def check_cell(cell, other, net, rng):
    """Check all that a cell of full dimension says of itself."""
    d = len(cell.point)
    rows = open_rows(cell)
    assert all(oracle.value(row, cell.point) > 0 for row in rows)
    assert oracle.pattern_at(net, cell.point) == cell.pattern
    # One row for each facet: without it there are points beyond it.
    for row in rows:
        beyond = [tuple(-a for a in row), *(r for r in rows if r != row)]
        assert oracle.has_point(beyond, d)
    # The same open set as brute force has: no row of either cuts off anything.
    for row in other.rows:
        assert not oracle.has_point([*rows, tuple(-a for a in row)], d)
    for row in rows:
        assert not oracle.has_point([*other.rows, tuple(-a for a in row)], d)
    for vertex in cell.vertices:
        values = [oracle.value(row, vertex) for row in rows]
        assert min(values) == 0
        tight = [row[:-1] for row, v in zip(rows, values, strict=True) if v == 0]
        assert np.linalg.matrix_rank(np.array(tight, float)) == d
    for direction in cell.directions:
        assert any(direction)
        assert all(oracle.value((*row[:-1], 0), direction) >= 0 for row in rows)
    assert cell.is_bounded == (not cell.directions)
    for point in points_of(cell, rng, 3):
        assert all(oracle.value(row, point) >= 0 for row in rows)
        assert [oracle.value(row, point) for row in affine_rows(cell)] == list(
            oracle.evaluate(net, point)
        )


def covers(found, rng, d, scale=3):
    """Check that random points lie inside of one cell or on borders."""
    n_inside = 0
    for _ in range(20):
        x = [Fraction(int(rng.integers(-89, 90)) * scale, 90) for _ in range(d)]
        values = [[oracle.value(row, x) for row in open_rows(cell)] for cell in found]
        inside = sum(all(v > 0 for v in of_cell) for of_cell in values)
        touched = sum(all(v >= 0 for v in of_cell) for of_cell in values)
        assert (inside == 1 and touched == 1) or (inside == 0 and touched > 1)
        n_inside += inside
    assert n_inside


@pytest.mark.parametrize(
    "hidden",
    [pytest.param(h, marks=[pytest.mark.slow] * (h in SLOW)) for h in ANCHORS],
)
def test_anchors(hidden):
    """Random networks have as many cells as polyhedra libraries count"""
    network = anchor(hidden)
    counts = [linear_regions(network, d).n_activation_patterns for d in (None, (-1, 1))]
    assert tuple(counts) == ANCHORS[hidden]


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_cases(case):
    """Coincident, concurrent and nearly coincident lines are counted right"""
    layers, n_cells = DEGENERATE[case]
    n_units = len(layers[-1][0])
    layers = transposed([*layers, ([list(range(1, n_units + 1))], [1])])
    found, _ = agree(rational_network(layers), oracle.network(layers), 2)
    assert len(found) == n_cells


def test_there_are_13_degenerate_cases():
    """All cases of the published comparison are there"""
    assert len(DEGENERATE) == 13


@pytest.mark.parametrize("depth", range(1, 7))
def test_sawtooth_counts(depth):
    """On the line the sawtooth has one map less than regions, on [0, 1] it has not"""
    network = sawtooth(depth)
    n = 2**depth
    assert three_counts(linear_regions(network, (0, 1))) == (n, n, n)
    if depth > 1:
        assert three_counts(linear_regions(network)) == (n + 2, n + 2, n + 1)


def test_fold_counts():
    """The three counts of Montufar's folding network differ as published"""
    folds = ([[2, 4, 0, 0], [0, 0, 2, 4]], [0, -2, 0, -2])
    lines = [[1, 0, 1, 1], [-1, 0, -1, -1], [0, 1, 1, -1], [0, -1, -1, 1]]
    biases = ["-1/2", "-1/2", "-9/10", "1/7"]
    network = rational_network([folds, (lines, biases), ([[1], [2], [-3], [5]], [0])])
    assert three_counts(linear_regions(network, (0, 1))) == (44, 44, 39)
    assert three_counts(linear_regions(network)) == (60, 55, 50)


@pytest.mark.parametrize("part", range(6))
def test_random_networks_equal_brute_force(part):
    """Patterns, maps and counts are those of trying everything, on R^d and a box"""
    rng = np.random.default_rng([0, part])
    for k in range(60):
        shape = SHAPES[k % len(SHAPES)]
        agree_on_both(oracle.random_layers(rng, shape), shape[0])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_random_networks_equal_brute_force(part):
    """The same for 500 networks in each part, some of them with more units"""
    rng = np.random.default_rng([1, part])
    shapes = [
        *SHAPES,
        (2, 5, 3, 1),
        (3, 5, 1),
        (2, 4, 4, 1),
        (4, 4, 1),
        (2, 3, 3, 2, 1),
    ]
    for k in range(500):
        shape = shapes[k % len(shapes)]
        agree_on_both(oracle.random_layers(rng, shape), shape[0])


@pytest.mark.parametrize(
    "entry",
    [
        lambda rng: Fraction(int(rng.integers(-6, 7)), int(rng.integers(1, 5))),
        lambda rng: float(rng.normal()),
        lambda rng: np.float32(rng.normal()),
        lambda rng: str(Fraction(int(rng.integers(-3, 4)), 3)),
    ],
    ids=["Fraction", "float64", "float32", "text"],
)
def test_weights_of_all_kinds_equal_brute_force(entry):
    """Fractions, floats and texts are taken as the rationals that they are"""
    rng = np.random.default_rng(2)
    for shape in [(2, 3, 2, 1), (1, 3, 3, 2), (3, 3, 1), (2, 2, 2, 1)] * 3:
        agree_on_both(oracle.random_layers(rng, shape, entry), shape[0])


@pytest.mark.parametrize("domain", [None, (-1, 1), (0, None), (["-1/3", 0], [None, 2])])
def test_cells_say_the_truth_about_themselves(domain):
    """Rows, vertices, directions, interior point and map of each cell fit together"""
    rng = np.random.default_rng(3)
    for k in range(12):
        d = 2 if domain and isinstance(domain[0], list) else 1 + k % 3
        layers = oracle.random_layers(rng, (d, 3, 2, 1 + k % 2))
        lower, upper = domain or (None, None)
        lows, highs = (v if isinstance(v, list) else [v] * d for v in (lower, upper))
        model, net = rational_network(layers), oracle.network(layers)
        cells = agree(model, net, d, domain, oracle.box(lows, highs))
        for cell, other in zip(*cells, strict=True):
            check_cell(cell, other, net, rng)


def test_cells_cover_the_domain_without_overlap():
    """A random point lies inside of exactly one cell, or on borders of several"""
    rng = np.random.default_rng(4)
    for k in range(20):
        d = 1 + k % 3
        network = rational_network(oracle.random_layers(rng, (d, 3, 3, 1)))
        covers(list(linear_regions(network)), rng, d)
        covers(list(linear_regions(network, (-1, 1))), rng, d, scale=1)


def test_polytopes_equal_brute_force():
    """So do cells within random polytopes, with and without an end"""
    rng = np.random.default_rng(5)
    for k in range(60):
        d = 1 + k % 3
        A = rng.integers(-3, 4, (rng.integers(1, 6), d))
        b = A @ rng.integers(-1, 2, d) + rng.integers(1, 4, len(A))  # has an interior
        rows = [(*(-a for a in row), limit) for row, limit in zip(A, b, strict=True)]
        rows = [tuple(map(int, row)) for row in rows]
        layers = oracle.random_layers(rng, (d, 3, 2, 1))
        model, net = rational_network(layers), oracle.network(layers)
        cells = agree(model, net, d, (A, b), rows)
        for cell, other in zip(*cells, strict=True):
            check_cell(cell, other, net, rng)


def test_cells_come_in_the_order_of_their_patterns():
    """Cells come sorted by pattern, each pattern once, each time the same"""
    regions = linear_regions(anchor((3, 8, 8)))
    patterns = [cell.pattern for cell in regions]
    assert patterns == sorted(set(patterns))
    again = linear_regions(anchor((3, 8, 8)))
    for cell, other in zip(regions, again, strict=True):
        assert (cell.pattern, cell.point) == (other.pattern, other.point)
        assert cell.polytope == other.polytope
        assert cell.vertices == other.vertices


# ------------------------------------------------------- domains within a hyperplane


def test_box_without_extent_in_one_direction():
    """With lower == upper for one input, cells are those of the other inputs"""
    rng = np.random.default_rng(6)
    for k in range(60):
        layers = oracle.random_layers(rng, (3, 3, 3, 1))
        fixed = Fraction(int(rng.integers(-2, 3)), 2)
        lower, upper = [[-2, -2, -2], [None, None, None]][k % 2], [2, 2, 2]
        net = oracle.network(layers)
        inside = oracle.restricted(net, [(1, 0, 0), (0, 0, 1)], (0, fixed, 0))
        domain = [lower[0], fixed, lower[2]], [upper[0], fixed, upper[2]]
        rows = oracle.box([lower[0], lower[2]], [upper[0], upper[2]])
        expected = oracle.cells(inside, 2, rows)
        regions = linear_regions(rational_network(layers), domain)
        assert [cell.pattern for cell in regions] == [c.pattern for c in expected]
        assert three_counts(regions) == oracle.counts(expected, 2)
        for cell in regions:
            check_thin_cell(cell, net, rng, regions.domain)


def test_segment_in_space():
    """A segment given by equations is cut where the network has kinks along it"""
    rng = np.random.default_rng(7)
    for _ in range(60):
        d = int(rng.integers(2, 4))
        layers = oracle.random_layers(rng, (d, 3, 3, 1))
        net = oracle.network(layers)
        origin = [int(v) for v in rng.integers(-2, 3, d)]
        step = [int(v) for v in rng.integers(-2, 3, d)]
        step[0] = 1
        # x = origin + u * step, u from 0 to 1: x_i - step_i x_0 is fixed for i > 0.
        A, b = [[-1] + [0] * (d - 1), [1] + [0] * (d - 1)], [-origin[0], origin[0] + 1]
        for i in range(1, d):
            row = [-step[i]] + [int(i == j) for j in range(1, d)]
            level = origin[i] - step[i] * origin[0]
            A += [row, [-a for a in row]]
            b += [level, -level]
        inside = oracle.restricted(net, [tuple(step)], tuple(origin))
        expected = oracle.cells(inside, 1, oracle.box([0], [1]))
        regions = linear_regions(rational_network(layers), (A, b))
        assert [cell.pattern for cell in regions] == [c.pattern for c in expected]
        assert three_counts(regions) == oracle.counts(expected, 1)
        for cell in regions:
            check_thin_cell(cell, net, rng, regions.domain)
            assert len(cell.vertices) == 2


def check_thin_cell(cell, net, rng, domain):
    """Check what a cell within a hyperplane says of itself."""
    A, b = cell.polytope
    assert oracle.pattern_at(net, cell.point) == cell.pattern
    for point in [cell.point, *cell.vertices, *points_of(cell, rng, 2)]:
        for row, limit in zip(A, b, strict=True):
            assert sum(a * v for a, v in zip(row, point, strict=True)) <= limit
        found = [oracle.value(row, point) for row in affine_rows(cell)]
        assert found == list(oracle.evaluate(net, point))
    n_left = 0
    for i in range(len(cell.point)):
        for step in (Fraction(-1, 10**6), Fraction(1, 10**6)):
            x = [v + step * (i == j) for j, v in enumerate(cell.point)]
            if not domain.contains(x):
                n_left += 1
                assert any(
                    sum(a * v for a, v in zip(row, x, strict=True)) > limit
                    for row, limit in zip(A, b, strict=True)
                )
    assert n_left


def test_a_single_point():
    """A domain of one point is one cell"""
    network = rational_network(transposed([AXES, ([[1, 1]], [1])]))
    for x in ([0, 0], ["1/3", -2], [5, 7]):
        (cell,) = linear_regions(network, (x, x))
        assert cell.vertices == [cell.point] == [tuple(map(Fraction, x))]
        assert cell.pattern == network.pattern(x)
        assert cell.is_bounded
        assert three_counts(linear_regions(network, (x, x))) == (1, 1, 1)


def test_maps_are_compared_on_the_domain():
    """Maps that differ only off the domain are one map, and one region"""
    # f(x, y) = R(x) - R(-y): on the line x = y it is the identity on both halves.
    network = rational_network([([[1, 0], [0, -1]], [0, 0]), ([[1], [-1]], [0])])
    diagonal = ([[1, -1], [-1, 1]], [0, 0])
    assert three_counts(linear_regions(network, diagonal)) == (2, 1, 1)


# ------------------------------------------------------------- other kinds of units


def with_pieces(rng, shape, kind):
    """Draw a network of some kind of units, for the library and for the oracle."""
    layers = oracle.random_layers(rng, shape)
    given, net = [], []
    for W, b in layers[:-1]:
        rows = [(*column, v) for column, v in zip(zip(*W, strict=True), b, strict=True)]
        zero = (0,) * (len(W) + 1)
        if kind == "maxout":
            others = [
                tuple(int(v) for v in rng.integers(-2, 3, len(W) + 1)) for _ in rows
            ]
            units = [
                (row, zero, other) for row, other in zip(rows, others, strict=True)
            ]
            given.append(MaxLayer([[(r[:-1], r[-1]) for r in unit] for unit in units]))
            net.append([oracle.Unit(unit) for unit in units])
        elif kind == "capped":
            given.append((W, b, "capped_rectifier(2)"))
            net.append([oracle.Unit((zero, row)) for row in rows])
            n = len(rows)
            minus = [tuple(-int(i == j) for j in range(n + 1)) for i in range(n)]
            cap = (*(0,) * n, -2)
            net.append([oracle.Unit((row, cap), -1) for row in minus])
        else:
            slope = {"leaky": Fraction(1, 4), "absolute": -1, "steep": 3}[kind]
            name = "prelu" if slope < 0 else "leaky_rectifier"
            given.append((W, b, f"{name}({float(slope)})"))
            sign = -1 if slope > 1 else 1
            net.append(
                [
                    oracle.Unit(
                        (
                            tuple(sign * slope * a for a in row),
                            tuple(sign * a for a in row),
                        ),
                        sign,
                    )
                    for row in rows
                ]
            )
    given.append(layers[-1])
    net.append(oracle.network(layers[-1:])[0])
    return rational_network(given), net


@pytest.mark.parametrize("kind", ["leaky", "absolute", "steep", "capped", "maxout"])
def test_other_units_equal_brute_force(kind):
    """So do leaky, absolute value, capped and maxout units"""
    rng = np.random.default_rng(8)
    for shape in [(2, 2, 2, 1), (1, 3, 1), (3, 3, 1), (2, 3, 1)] * 6:
        model, net = with_pieces(rng, shape, kind)
        d = shape[0]
        agree(model, net, d)
        box = oracle.box([-1] * d, [1] * d)
        for cell, other in zip(*agree(model, net, d, (-1, 1), box), strict=True):
            check_cell(cell, other, net, rng)


def test_max_pooling_equals_brute_force():
    """So does max pooling behind rectifiers, with units that it may see twice"""
    rng = np.random.default_rng(9)
    for _ in range(30):
        layers = oracle.random_layers(rng, (2, 4, 3, 1))
        groups = [[0, 1], [1, 2, 3], [2], [0, 3]]
        W, b = oracle.random_layers(rng, (4, 1))[0]
        first = layers[0]
        model = rational_network([first, max_pool(4, groups), (W, b)])
        one_hot = [tuple(int(i == j) for j in range(5)) for i in range(4)]
        net = oracle.network([first, (W, b)])
        pool = [oracle.Unit(tuple(one_hot[i] for i in group)) for group in groups]
        net.insert(1, pool)
        agree(model, net, 2)


def test_signs_of_units_are_obeyed():
    """A stack with output signs has the cells and maps of its own function"""
    rng = np.random.default_rng(10)
    for k in range(40):
        names = ["rectifier", "leaky_rectifier(0.25)"]
        (W, b), (V, c) = oracle.random_layers(rng, (2, 3, 2))
        U, e = oracle.random_layers(rng, (2, 1))[0]
        signs = rng.choice([-1, 1], 3), rng.choice([-1, 1], 2)
        stack = RectifierStack(
            [
                Layer(W, b, names[k % 2], signs[0]),
                Layer(V, c, "rectifier", signs[1]),
                Layer(U, e, "identity", [-1] if k % 3 else None),
            ]
        )
        net = oracle.network([(W, b), (V, c), (U, e)])
        first = [unit.pieces[1] for unit in net[0]]
        slope = Fraction(k % 2, 4)
        net[0] = [
            oracle.Unit((tuple(slope * a for a in row), row), int(s))
            for row, s in zip(first, signs[0], strict=True)
        ]
        net[1] = [
            oracle.Unit(unit.pieces, int(s))
            for unit, s in zip(net[1], signs[1], strict=True)
        ]
        (last,) = net[2]
        net[2] = [oracle.Unit(last.pieces, -1 if k % 3 else 1)]
        if k % 3:  # the library passes on what has a sign by one more affine layer
            net[2] = [oracle.Unit((tuple(-a for a in last.pieces[0]),))]
        agree(stack, net, 2)


def test_network_without_kinks_is_one_cell():
    """An affine network is one region, with an empty pattern"""
    (cell,) = linear_regions(rational_network([([[2], [3]], ["1/2"])]))
    assert cell.pattern == ()
    assert affine_rows(cell) == [(2, 3, Fraction(1, 2))]
    assert cell.polytope == ([], [])
    assert cell.vertices == []
    assert not cell.is_bounded
    assert len(cell.directions) == 4
    assert "no kinks" in repr(cell)


# ------------------------------------------------------------ budgets, bars, errors


def test_counts_stop_at_the_budget():
    """A count gives up beyond its budget and says so; iterating goes on"""
    network = anchor((2, 8, 8))
    for name in ("n_activation_patterns", "n_linear_regions", "n_affine_maps"):
        with pytest.raises(BudgetError, match=r"more than 110 cells.*iterate"):
            getattr(linear_regions(network, budget=110), name)
    assert linear_regions(network, budget=111).n_activation_patterns == 111
    assert sum(1 for _ in linear_regions(network, budget=1)) == 111


def test_cells_are_streamed():
    """The first cells come at once, even where nobody could wait for the last"""
    rng = np.random.default_rng(11)
    network = rational_network(oracle.random_layers(rng, (6, 40, 40, 1)))
    first = list(itertools.islice(linear_regions(network), 3))
    assert len({cell.pattern for cell in first}) == 3


def test_verbose_shows_a_bar(capsys):
    """With verbose a bar goes to standard error, without it nothing"""
    network = anchor((2, 8, 8))
    assert linear_regions(network, verbose=True).n_activation_patterns == 111
    shown = capsys.readouterr()
    assert "cells" in shown.err
    assert "100 %" in shown.err
    assert shown.out == ""
    linear_regions(network).n_affine_maps  # noqa: B018 - the count is made
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("budget", [0, -1, 2.5, "many", None])
def test_budget_must_be_a_number_of_cells(budget):
    """Any other budget is refused"""
    with pytest.raises(ParameterError, match=r"budget is .*, expected a whole number"):
        linear_regions(sawtooth(1), budget=budget)


def test_errors_come_before_any_cell():
    """Domains that are empty or do not fit and unknown models are refused at once"""
    network = anchor((2, 8, 8))
    with pytest.raises(ParameterError, match="the domain is empty"):
        linear_regions(network, ([[1, 0], [-1, 0]], [0, -1]))
    with pytest.raises(ParameterError, match="3 lower bounds, expected 2"):
        linear_regions(network, ([0, 0, 0], [1, 1, 1]))
    with pytest.raises(ParameterError, match="lower bound 1 and upper bound 0"):
        linear_regions(network, (1, 0))
    with pytest.raises(ParameterError, match="3 dimensions, expected 2"):
        linear_regions(network, Domain(3, ()))
    with pytest.raises(ParameterError, match="the model is a str"):
        linear_regions("model.npz")


def test_representations_are_short():
    """Printing regions and cells shows sizes, pattern and a point, but no weights"""
    network = rational_network(transposed([AXES, ([[1, 1]], [1])]))
    regions = linear_regions(network, (-1, 1))
    assert "2 -> 2 -> 1" in repr(regions)
    assert len(repr(regions)) < 400
    assert repr(next(iter(regions))) == "Cell(00, around (-1/2, -1/2))"
