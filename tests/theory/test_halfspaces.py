"""Polyhedra by inequalities do as those by generators, in any number of dimensions."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardzero import theory
from hardzero.errors import ParameterError
from hardzero.theory import halfspaces, lp
from hardzero.theory.cells import split
from hardzero.theory.cone import Cone
from hardzero.theory.domain import Domain, read_domain
from hardzero.theory.halfspaces import Halfspaces, polyhedron_of


def dot(a, b):
    """Return the inner product."""
    return sum(p * q for p, q in zip(a, b, strict=True))


def random_row(rng, n):
    """Draw a row of small whole numbers, so that ties are common."""
    return tuple(map(int, rng.integers(-2, 3, n + 1)))


def random_domain(rng, n):
    """Draw all of R^n, a box, part of one, or a polyhedron, flat ones among them."""
    kind = int(rng.integers(4))
    rows = []
    if kind == 1:
        rows = list(read_domain((-1, 2), n).rows)
    if kind == 2:
        rows = [r for r in read_domain((-1, 1), n).rows if rng.random() < 0.8]
    if kind >= 2:
        rows += [random_row(rng, n) for _ in range(int(rng.integers(1, 5)))]
    if rng.random() < 0.2:
        row = random_row(rng, n)
        rows += [row, tuple(-a for a in row)]
    return Domain(n, tuple(rows))


def random_network(rng, sizes, entry):
    """Draw a network of rectifiers."""
    layers = []
    for a, b in pairwise(sizes):
        W = [[entry(rng) for _ in range(b)] for _ in range(a)]
        layers.append((W, [entry(rng) for _ in range(b)]))
    return theory.rational_network(layers)


def anchor_network(*sizes):
    """Draw dyadic weights as the measured anchors do."""
    r = np.random.default_rng(0)
    layers = []
    for a, b in pairwise(sizes):
        W = np.round(r.normal(0, np.sqrt(2 / a), (b, a)) * 256) / 256
        layers.append((W.T, np.round(r.normal(0, 0.5, b) * 256) / 256))
    return theory.rational_network(layers)


def check_inside(polyhedron, rows=()):
    """Check that a point is inside, exactly: at rows of the boundary it is positive."""
    point = polyhedron.point()
    assert point[-1] > 0
    assert all(dot(row, point) >= 0 for row in (*polyhedron.rows, *rows))
    assert all(dot(row, point) > 0 for row in polyhedron.facets)
    assert all(dot(row, point) == 0 for row in polyhedron.equations)


def check_proof(polyhedron, row):
    """Check the multipliers by addition."""
    m, y = polyhedron.proof(row)
    assert m > 0
    assert all(value > 0 for value in y.values())
    total = [0] * (len(row) - 1) + [y.pop(-1, 0)]
    for number, value in y.items():
        total = [
            a + value * b for a, b in zip(total, polyhedron.rows[number], strict=True)
        ]
    assert total == [m * a for a in row]


def test_random_cuts_are_those_of_cones():
    """Cut, face, minimum, dimension and facets agree, and proofs hold, 200 times."""
    rng = np.random.default_rng(0)
    n_cut = n_empty = n_flat = 0
    for _ in range(200):
        n = int(rng.integers(1, 5))
        domain = random_domain(rng, n)
        try:
            cone = domain.cone()
        except ParameterError:
            n_empty += 1
            with pytest.raises(ParameterError, match="the domain is empty: no x"):
                Halfspaces.of(domain)
            continue
        ours = Halfspaces.of(domain)
        for _ in range(6):
            row = random_row(rng, n)
            compare(ours, cone, row)
            if rng.random() < 0.15:
                parts = (ours.face(row),), (cone.face(row),)
                if parts[0][0] is None:
                    assert parts[1][0] is None or parts[1][0].is_empty
                    continue
                assert not parts[1][0].is_empty
                n_flat += 1
            else:
                parts = ours.cut(row), cone.cut(row)
                assert [p is None for p in parts[0]] == [p is None for p in parts[1]]
                n_cut += None not in parts[0]
            side = int(rng.integers(len(parts[0])))
            if parts[0][side] is None:
                side = 1 - side
            ours, cone = parts[0][side], parts[1][side]
            check_inside(ours)
    assert min(n_cut, n_empty, n_flat) >= 15


def compare(ours, cone, row):
    """Check that both forms of a polyhedron answer alike about one row."""
    assert ours.dimension == cone.dimension
    assert ours.is_bounded == cone.is_bounded
    assert ours.signs(row) == cone.signs(row)
    for target in (row, tuple(-a for a in row)):
        place, is_bounded = ours.minimum(target)
        expected, expected_bounded = cone.minimum(target)
        assert is_bounded == expected_bounded
        if is_bounded:
            value = Fraction(dot(target, place), place[-1])
            assert value == Fraction(dot(target, expected), expected[-1])
            assert all(dot(r, place) >= 0 for r in ours.rows)
        else:
            assert place[-1] == 0
            assert dot(target, place) < 0
            assert all(dot(r, place) >= 0 for r in ours.rows)
        if not cone.signs(target)[0]:
            check_proof(ours, target)
        else:
            with pytest.raises(ParameterError, match="takes negative values"):
                ours.proof(target)
    if not cone.equations:
        assert set(ours.facets) == {r for r in cone.facets if any(r[:-1])}


ENTRIES = {
    "ints": lambda rng: int(rng.integers(-2, 3)),
    "floats": lambda rng: float(rng.normal()),
    "fractions": lambda rng: Fraction(
        int(rng.integers(-3, 4)), int(rng.integers(1, 4))
    ),
}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
@pytest.mark.parametrize("bounds", [(-1, 1), ("-1/3", None), None])
def test_cells_are_those_of_cones(entry, bounds):
    """Patterns agree in order, cell by cell, for degenerate and other networks."""
    rng = np.random.default_rng(1)
    shapes = [(2, 3, 3, 1), (3, 4, 1), (2, 2, 2, 2, 1), (4, 3, 2, 1), (3, 3, 3, 1)]
    for _ in range(3):
        for sizes in shapes:
            network = random_network(rng, sizes, entry)
            domain = read_domain(bounds, sizes[0])
            ours = list(split(network, Halfspaces.of(domain)))
            expected = list(split(network, domain.cone()))
            assert [p.pattern for p in ours] == [p.pattern for p in expected]
            for piece in ours:
                x, t = piece.cone.point()[:-1], piece.cone.point()[-1]
                assert network.pattern([Fraction(a, t) for a in x]) == piece.pattern


def test_cells_in_a_flat_domain():
    """A domain inside a hyperplane is split within it."""
    rng = np.random.default_rng(2)
    triangle = [[-1, 0, 0], [0, -1, 0], [0, 0, -1], [1, 1, 1], [-1, -1, -1]]
    domain = read_domain((triangle, [0, 0, 0, 1, -1]), 3)
    assert Halfspaces.of(domain).dimension == 2
    for _ in range(10):
        network = random_network(rng, (3, 4, 3, 1), ENTRIES["ints"])
        ours = [p.pattern for p in split(network, Halfspaces.of(domain))]
        assert ours == [p.pattern for p in split(network, domain.cone())]


def test_every_uncut_side_of_a_split_tree_is_proved(monkeypatch):
    """Whenever a cell is left whole, multipliers show why, to the letter."""
    plain = Halfspaces.cut
    checked = []

    def cut(self, row):
        below, above = plain(self, row)
        if above is None:
            check_proof(self, tuple(-a for a in row))
            checked.append(row)
        elif below is None:
            check_proof(self, row)
            checked.append(row)
        return below, above

    monkeypatch.setattr(Halfspaces, "cut", cut)
    rng = np.random.default_rng(3)
    for entry in ENTRIES.values():
        for sizes, bounds in (((4, 5, 4, 1), (-1, 1)), ((3, 4, 3, 1), None)):
            network = random_network(rng, sizes, entry)
            list(split(network, Halfspaces.of(read_domain(bounds, sizes[0]))))
    assert len(checked) > 300


def test_floats_never_decide(monkeypatch):
    """A float solver that lies changes no cell."""
    rng = np.random.default_rng(4)

    def lie(_, cost, rows):
        n = len(cost) - 1
        kind = ("optimum", "infeasible", "unbounded", "unknown")[int(rng.integers(4))]
        marginals = np.abs(rng.normal(size=len(rows)))
        value = float(rng.normal())
        return lp.FloatOptimum(kind, value, rng.normal(size=n), marginals, np.ones(n))

    monkeypatch.setattr(lp.FloatSolver, "minimise", lie)
    for sizes in ((3, 4, 3, 1), (4, 3, 3, 1)):
        network = random_network(rng, sizes, ENTRIES["ints"])
        domain = read_domain((-1, 1), sizes[0])
        ours = [p.pattern for p in split(network, Halfspaces.of(domain))]
        assert ours == [p.pattern for p in split(network, domain.cone())]


def test_no_cell_is_lost_to_tolerances():
    """Slivers of width 2^-60 and weights of 2^200 are cells like others."""
    tiny = Fraction(1, 2**60)
    W = [[1, 0, -1], [0, 1, -1], [0, 0, 0]]
    network = theory.rational_network([(W, [0, 0, tiny]), ([[1]] * 3, [0])])
    found = list(split(network, Halfspaces.of(read_domain((-1, 1), 3))))
    assert len(found) == 7
    k = 200
    spike = [[2**k, -(2**k), 2**k], [0, 0, 0]]
    b = [-(2 ** (k - 1)), 2 ** (k - 1) + Fraction(1, 2), -(2 ** (k - 1)) - 1]
    network = theory.rational_network([(spike, b), ([[1]] * 3, [0])])
    domain = read_domain((0, 1), 2)
    ours = [p.pattern for p in split(network, Halfspaces.of(domain))]
    assert ours == [p.pattern for p in split(network, domain.cone())]
    assert len(ours) == 4


def test_thirty_inputs_have_all_patterns_of_ten_units():
    """A box of 2^30 corners is no obstacle; each pattern is met by its point."""
    network = anchor_network(30, 8, 1)
    found = list(split(network, Halfspaces.of(read_domain((-1, 1), 30))))
    assert len({p.pattern for p in found}) == len(found) == 2**8
    for piece in found[::16]:
        *x, t = piece.cone.point()
        assert network.pattern([Fraction(a, t) for a in x]) == piece.pattern


def test_anchor_counts():
    """The published number of cells of 4-8-8 on a box is found by inequalities, too."""
    found = split(anchor_network(4, 8, 8, 1), Halfspaces.of(read_domain((-1, 1), 4)))
    assert sum(1 for _ in found) == 597


def test_wide_boxes_are_read_at_once():
    """A box for the digits' 784 inputs takes no linear program."""
    box = Halfspaces.of(read_domain((0, 1), 784))
    assert box.dimension == 784
    assert box.is_bounded
    assert box.point() == (1,) * 784 + (2,)
    ones = (1,) * 784
    assert box.cut((*ones, 1)) == (None, box)
    below, above = box.cut((*ones, -300))
    assert dot((*ones, -300), below.point()) < 0 < dot((*ones, -300), above.point())


def test_empty_domain_is_refused():
    """A domain without points is named, though each pair of rows leaves some."""
    rows = ((1, 0, 0), (0, 1, 0), (-1, -1, -1))
    with pytest.raises(
        ParameterError, match="no x satisfies all of its 3 inequalities"
    ):
        Halfspaces.of(Domain(2, rows))
    with pytest.raises(ParameterError, match="the domain is empty"):
        Halfspaces.of(Domain(1, ((0, -1),)))


def test_form_follows_the_number_of_dimensions():
    """Few dimensions get generators, many inequalities."""
    assert isinstance(polyhedron_of(read_domain((-1, 1), 6)), Cone)
    assert isinstance(polyhedron_of(read_domain((-1, 1), 7)), Halfspaces)
    assert isinstance(polyhedron_of(read_domain(None, 8)), Cone)
    assert isinstance(polyhedron_of(read_domain(None, 9)), Halfspaces)


def test_memory_of_proofs_is_bounded(monkeypatch):
    """Streams of cells do not pile up proofs."""
    monkeypatch.setattr(halfspaces, "_MOST_PROOFS", 5)
    polyhedron = Halfspaces.of(read_domain((-1, 1), 4))
    network = anchor_network(4, 5, 5, 1)
    expected = [p.pattern for p in split(network, read_domain((-1, 1), 4).cone())]
    assert [p.pattern for p in split(network, polyhedron)] == expected
    assert 1 <= len(polyhedron._shared.proofs) <= 5


@pytest.mark.parametrize("n", [6, 7, 8])
def test_weights_that_vanish_in_floats_still_count(n):
    """A coefficient 2^-1080 of the largest decides on a box that is as wide as that."""
    W = [[2.0**500], [-(2.0**-580)], *[[0.0]] * (n - 2)]
    unit = theory.rational_network([(W, [0.0]), ([[1.0]], [0.0])])
    affine = theory.rational_network([(W, [0.0])])
    box = (
        [2.0**-1000, *[0.0] * (n - 1)],
        [2.0**-999, 2.0**81, *[1.0] * (n - 2)],
    )
    assert theory.linear_regions(unit, box).n_activation_patterns == 2
    assert not theory.equal(unit, affine, box)
    assert theory.minimum(unit, box).value == 0


def test_a_box_of_the_smallest_floats():
    """Where floats have no digits left, whole numbers decide."""
    t = 2.0**-1074
    net = theory.rational_network([([[2], [-1], *[[0]] * 5], [t]), ([[1]], [0])])
    box = ([t, 2 * t, *[0] * 5], [t, 5 * t, *[1] * 5])
    assert theory.linear_regions(net, box).n_activation_patterns == 2
    assert theory.maximum(net, box).value == Fraction(t)
