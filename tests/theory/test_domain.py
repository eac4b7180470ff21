"""What a user may give as a domain, and the polyhedron that it is."""

import math
from fractions import Fraction

import numpy as np
import pytest
from theory import oracle

from hardzero.errors import ParameterError
from hardzero.theory.domain import Domain, read_domain


def test_none_is_everything():
    """None is R^d"""
    domain = read_domain(None, 3)
    assert domain == Domain(3, ())
    assert domain.contains([Fraction(10**30), Fraction(-1), Fraction(0)])
    assert domain.cone().dimension == 3
    assert len(domain.cone().lines) == 3


@pytest.mark.parametrize(
    "given",
    [
        (-1, 1),
        [-1, 1],
        ([-1, -1], [1, 1]),
        (np.array([-1.0, -1.0]), np.array([1.0, 1.0])),
        (np.float32(-1), [1, "1"]),
        ("-1", ("2/2", Fraction(1))),
    ],
    ids=str,
)
def test_boxes(given):
    """A box is two numbers or two sequences, of any kind of numbers"""
    domain = read_domain(given, 2)
    assert set(domain.rows) == {(1, 0, 1), (-1, 0, 1), (0, 1, 1), (0, -1, 1)}
    corners = {ray[:-1] for ray in domain.cone().rays}
    assert corners == {(-1, -1), (-1, 1), (1, -1), (1, 1)}


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ((0, None), {(1, 0, 0), (0, 1, 0)}),
        ((None, 0), {(-1, 0, 0), (0, -1, 0)}),
        ((None, None), set()),
        ((-math.inf, math.inf), set()),
        (([0, -np.inf], [np.float64("inf"), 2]), {(1, 0, 0), (0, -1, 2)}),
        (([None, "1/3"], [0.5, None]), {(-2, 0, 1), (0, 3, -1)}),
        (([-math.inf, float("-inf")], [None, None]), set()),
    ],
    ids=str,
)
def test_boxes_without_some_bounds(given, rows):
    """None and infinities leave a side open"""
    assert set(read_domain(given, 2).rows) == rows


@pytest.mark.parametrize(
    ("A", "b"),
    [
        ([[1, 2], [0, -3]], [3, "1/2"]),
        (np.array([[1.0, 2.0], [0.0, -3.0]]), np.array([3.0, 0.5])),
        ([["1", Fraction(2)], (0, np.float32(-3))], (3, 0.5)),
    ],
    ids=["lists", "arrays", "mixed"],
)
def test_polytopes(A, b):
    """A polytope is A x <= b, of any kind of numbers"""
    domain = read_domain((A, b), 2)
    assert domain.rows == ((-1, -2, 3), (0, 6, 1))
    assert domain.contains([Fraction(3), Fraction(0)])
    assert not domain.contains([Fraction(3), Fraction(1, 10**9)])


def test_polytope_of_one_row_with_a_number():
    """One row may have its limit as a number"""
    assert read_domain(([[1, 1]], 2), 2).rows == ((-1, -1, 2),)


def test_floats_are_taken_exactly():
    """0.1 is the float that it is, not one tenth"""
    (row,) = read_domain(([0.1], [None]), 1).rows
    assert Fraction(-row[1], row[0]) == Fraction(0.1) != Fraction(1, 10)
    (row,) = read_domain(([np.float32(0.1)], [None]), 1).rows
    assert Fraction(-row[1], row[0]) == Fraction(float(np.float32(0.1)))


def test_a_domain_is_read_again():
    """What was read may be given again"""
    domain = read_domain((0, 1), 2)
    assert read_domain(domain, 2) is domain


def test_contains_agrees_with_the_cone():
    """A point is in a domain iff no inequality of the user forbids it"""
    rng = np.random.default_rng(0)
    for k in range(100):
        d = 1 + k % 3
        A = rng.integers(-3, 4, (4, d))
        b = rng.integers(-1, 4, 4)
        domain = read_domain((A, b), d)
        x = [Fraction(int(v), 2) for v in rng.integers(-4, 5, d)]
        expected = all(
            sum(int(a) * v for a, v in zip(row, x, strict=True)) <= limit
            for row, limit in zip(A, b, strict=True)
        )
        assert domain.contains(x) == expected
        if expected:
            cone = domain.cone()
            point = [Fraction(a, cone.point()[-1]) for a in cone.point()[:-1]]
            assert domain.contains(point)


def test_dimension_of_thin_domains():
    """Equal bounds and opposite inequalities leave fewer dimensions"""
    assert read_domain(([0, 0], [1, 1]), 2).cone().dimension == 2
    assert read_domain(([0, 2], [1, 2]), 2).cone().dimension == 1
    assert read_domain(([3, 2], [3, 2]), 2).cone().dimension == 0
    assert read_domain(([[1, 1], [-1, -1]], [1, -1]), 2).cone().dimension == 1
    # Three half-planes that leave the origin only.
    corner = [[-1, 0], [0, -1], [1, 1]], [0, 0, 0]
    assert read_domain(corner, 2).cone().dimension == 0
    # Inequalities that say nothing change nothing.
    assert read_domain(([[0, 0], [0, 0]], [0, 1]), 2).cone().dimension == 2


def test_empty_domains_are_refused_whatever_their_form():
    """A domain without a point is an error, one with a single point is not"""
    rng = np.random.default_rng(1)
    n_empty = 0
    for k in range(150):
        d = 1 + k % 3
        A = rng.integers(-2, 3, (5, d))
        b = rng.integers(-2, 2, 5)
        domain = read_domain((A, b), d)
        # Empty iff all inequalities moved out by any amount have no point. In whole
        # numbers this small, a hundred-thousandth is enough to see it.
        rows = [(*(-int(a) for a in row), int(v)) for row, v in zip(A, b, strict=True)]
        wider = [(*row[:-1], row[-1] + Fraction(1, 10**5)) for row in rows]
        if oracle.has_point(wider, d):
            assert all(domain.contains(x) for x in [point_of(domain.cone())])
        else:
            n_empty += 1
            with pytest.raises(
                ParameterError, match="empty: no x satisfies all of its"
            ):
                domain.cone()
    assert n_empty > 10


def point_of(cone):
    """Return the inner point of a cone."""
    *x, t = cone.point()
    return [Fraction(a, t) for a in x]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "the domain is 5, expected None for all inputs, a box"),
        ("box", "the domain is 'box'"),
        ((1, 2, 3), r"the domain is \(1, 2, 3\)"),
        (list(range(200)), r"the domain is \[0, 1, .*\.\.\."),
        ({"lower": 0, "upper": 1}, "the domain is {'lower'"),
        (({0}, {1}), r"lower bound 0 is \{0\}, expected a finite number"),
        ((1, 0), "lower bound 1 and upper bound 0 for input 0.*Swap them"),
        (([0, 0.5], [1, "1/4"]), "lower bound 1/2 and upper bound 1/4 for input 1"),
        (([0], [1, 1]), "1 lower bounds, expected 2, one for each input"),
        (([0, 0], [1, 1, 1]), "3 upper bounds, expected 2"),
        ((math.nan, 1), "lower bound 0 is nan, expected a finite number"),
        ((math.inf, math.inf), "lower bound 0 is inf, expected a finite number"),
        ((0, -math.inf), "upper bound 0 is -inf, expected a finite number"),
        (("low", 1), "lower bound 0 is 'low', expected a finite number"),
        (([[1, 2]], [1, 2]), "1 rows in A but 2 numbers in b"),
        (([[1, 2, 3]], [1]), "row 0 of A has 3 entries, expected 2"),
        (([[1, 2], [1]], [1, 1]), "row 1 of A has 1 entries, expected 2"),
        (([[1, math.inf]], [1]), "an entry of row 0 of A is inf"),
        (([[1, 1]], [math.nan]), r"b\[0\] is nan"),
        (([[1, 1]], [None]), r"b\[0\] is None"),
        (Domain(3, ()), "the domain has 3 dimensions, expected 2"),
    ],
    ids=str,
)
def test_bad_domains(given, message):
    """Errors say what was given and what is expected"""
    with pytest.raises(ParameterError, match=message):
        read_domain(given, 2)


@pytest.mark.parametrize(
    "intervals", [[(-1, 1)] * 2, ((0, 1), (0, 2)), [(-3, 2), (1, 2)]]
)
def test_intervals_are_not_taken_for_a_box_without_a_word(intervals):
    """A flat box that reads like two intervals is warned of, with the box they make"""
    (a, b), (c, d) = intervals
    with pytest.warns(UserWarning, match=rf"give \(\({a}, {c}\), \({b}, {d}\)\)"):
        read_domain(intervals, 2)


@pytest.mark.parametrize("n", [1, 3])
def test_lists_of_intervals_are_refused_with_the_order_of_bounds(n):
    """Of other lengths they are no pair"""
    with pytest.raises(ParameterError, match="all lower bounds, then all upper ones"):
        read_domain([(-1, 1)] * n, n)


def test_arrays_of_any_shape_are_bounds():
    """Images, arrays without axes, batches of one, and both bounds in one array"""
    low, high = np.arange(6.0).reshape(2, 3), np.full((2, 3), 7)
    expected = read_domain((low.ravel(), high.ravel()), 6)
    assert read_domain((low, high), 6) == expected
    assert read_domain((low[np.newaxis], high[np.newaxis]), 6) == expected
    assert read_domain(np.stack([low.ravel(), high.ravel()]), 6) == expected
    assert read_domain((np.array(-1), np.array(1)), 3) == read_domain((-1, 1), 3)
    # One row and one limit stay a half-plane.
    assert len(read_domain((np.ones((1, 6)), np.ones(1)), 6).rows) == 1


def test_no_rows_leave_everything():
    """A polytope without inequalities, or with some that always hold, is all of R^d"""
    assert read_domain(([[0, 0], [0, 0]], [0, 3]), 2) == read_domain(None, 2)
    assert read_domain(([], []), 2) == read_domain(None, 2)
