"""Exact linear programs: proofs hold to the letter, and floats never decide."""

from fractions import Fraction

import numpy as np
import pytest

from hardzero.theory import lp
from hardzero.theory.lp import Optimum, minimise, minimise_exactly


def dot(a, b):
    """Return the inner product."""
    return sum(p * q for p, q in zip(a, b, strict=True))


def combination(found, rows, equations):
    """Sum up rows and equations times their multipliers."""
    weighted = [*zip(found.multipliers, rows, strict=True)]
    weighted += zip(found.equation_multipliers, equations, strict=True)
    n = len([*rows, *equations][0])
    return [sum((y * r[j] for y, r in weighted), Fraction(0)) for j in range(n)]


def check_proof(found, row, rows, equations=()):
    """Check an answer with nothing but multiplication and addition."""
    assert all(y >= 0 for y in found.multipliers)
    if found.kind == "infeasible":
        assert combination(found, rows, equations) == [0] * (len(row) - 1) + [-1]
        return
    point = found.point
    assert point[-1] > 0
    assert all(dot(r, point) >= 0 for r in rows)
    assert all(dot(e, point) == 0 for e in equations)
    if found.kind == "unbounded":
        direction = found.direction
        assert direction[-1] == 0
        assert dot(row, direction) < 0
        assert all(dot(r, direction) >= 0 for r in rows)
        assert all(dot(e, direction) == 0 for e in equations)
        return
    assert found.kind == "optimum"
    assert Fraction(dot(row, point), point[-1]) == found.value
    if rows or equations:
        total = combination(found, rows, equations)
        assert total == [*row[:-1], row[-1] - found.value]
    else:
        assert not any(row[:-1])


@pytest.fixture
def always_floats(monkeypatch):
    """Ask HiGHS for hints in the smallest programs, too."""
    monkeypatch.setattr(lp, "_SMALL", -1)


def random_program(rng, n=None, m=None):
    """Draw small whole numbers, so that most programs are degenerate."""
    n = int(rng.integers(1, 5)) if n is None else n
    m = int(rng.integers(0, 9)) if m is None else m
    draw = rng.integers(-2, 3, (m + 3, n + 1))
    rows = [tuple(map(int, r)) for r in draw[3:]]
    equations = [tuple(map(int, r)) for r in draw[1 : 1 + int(rng.integers(0, 3))]]
    if rng.random() < 0.6:
        equations = []
    if rng.random() < 0.4:
        axes = np.eye(n, dtype=int)
        rows += [(*map(int, sign * a), 1) for a in axes for sign in (1, -1)]
    return tuple(map(int, draw[0])), rows, equations


def test_simplex_proves_thousands_of_degenerate_programs():
    """Every kind of answer comes with a proof, however the program degenerates."""
    rng = np.random.default_rng(0)
    kinds = {"optimum": 0, "unbounded": 0, "infeasible": 0}
    for _ in range(4000):
        row, rows, equations = random_program(rng)
        found = minimise_exactly(row, rows, equations)
        check_proof(found, row, rows, equations)
        kinds[found.kind] += 1
    assert min(kinds.values()) > 200


def test_hints_change_no_answer():
    """Rows named as tight, rightly or wrongly, leave kind and value as they are."""
    rng = np.random.default_rng(1)
    for _ in range(1000):
        row, rows, equations = random_program(rng)
        plain = minimise_exactly(row, rows, equations)
        first = [int(i) for i in rng.permutation(len(rows))]
        found = minimise_exactly(row, rows, equations, first)
        check_proof(found, row, rows, equations)
        assert (found.kind, found.value) == (plain.kind, plain.value)


@pytest.mark.usefixtures("always_floats")
def test_floats_change_no_answer():
    """With HiGHS as a guide the answers are those of the plain simplex method."""
    rng = np.random.default_rng(2)
    for _ in range(400):
        row, rows, equations = random_program(rng)
        plain = minimise_exactly(row, rows, equations)
        found = minimise(row, rows, equations)
        check_proof(found, row, rows, equations)
        assert (found.kind, found.value) == (plain.kind, plain.value)


@pytest.mark.usefixtures("always_floats")
def test_answers_are_right_where_all_floats_are_misled(monkeypatch):
    """A solver that lies about everything only costs time."""
    rng = np.random.default_rng(3)

    def lie(_, cost, rows):
        n = len(cost) - 1
        kind = ("optimum", "infeasible", "unbounded", "unknown")[int(rng.integers(4))]
        marginals = rng.normal(size=len(rows))
        return lp.FloatOptimum(kind, 7.0, rng.normal(size=n), marginals, np.zeros(n))

    monkeypatch.setattr(lp.FloatSolver, "minimise", lie)
    for _ in range(500):
        row, rows, equations = random_program(rng)
        found = minimise(row, rows, equations)
        check_proof(found, row, rows, equations)
        plain = minimise_exactly(row, rows, equations)
        assert (found.kind, found.value) == (plain.kind, plain.value)


@pytest.mark.usefixtures("always_floats")
def test_scipy_stands_in_for_highspy(monkeypatch):
    """Without the optional package the answers are the same."""
    monkeypatch.setattr(lp, "_highspy", lambda: None)
    rng = np.random.default_rng(4)
    for _ in range(200):
        row, rows, equations = random_program(rng)
        found = minimise(row, rows, equations)
        check_proof(found, row, rows, equations)
        plain = minimise_exactly(row, rows, equations)
        assert (found.kind, found.value) == (plain.kind, plain.value)


@pytest.mark.parametrize("bits", [60, 400, 3000])
@pytest.mark.usefixtures("always_floats")
def test_huge_numbers_neither_overflow_nor_round(bits):
    """Coefficients beyond every float are read without loss."""
    huge = 1 << bits
    rows = [(3, -1, huge), (-3, 1, huge), (1, 1, 1 - huge), (-1, -1, huge)]
    found = minimise((1, 0, 0), rows)
    check_proof(found, (1, 0, 0), rows)
    assert found.value == Fraction(-1, 4)
    off = minimise((1, 0, 0), [(huge, 0, -1), (-huge, 0, 1 - huge)])
    check_proof(off, (1, 0, 0), [(huge, 0, -1), (-huge, 0, 1 - huge)])
    assert off.kind == "infeasible"


@pytest.mark.usefixtures("always_floats")
def test_value_below_all_tolerances_is_seen():
    """That x exceeds y by 2^-90 at most, and does so, is found."""
    rows = [(1, 0, 0), (0, 1, 0), (-1, 0, 1), (0, -1, 1), (-(2**90), 2**90, 1)]
    found = minimise((-1, 1, 0), rows)
    check_proof(found, (-1, 1, 0), rows)
    assert found.value == Fraction(-1, 2**90)


def test_larger_programs_end_and_are_proved():
    """Degenerate programs in ten variables take the same road."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        row, rows, equations = random_program(rng, 10, 40)
        check_proof(minimise_exactly(row, rows, equations), row, rows, equations)
        rows = [(*r[:-1], abs(r[-1])) for r in rows]
        found = minimise(row, rows)
        check_proof(found, row, rows)
        assert found.value == minimise_exactly(row, rows).value


@pytest.mark.usefixtures("always_floats")
def test_function_without_constraints():
    """Only a constant has a least value on the whole space."""
    assert minimise((0, 0, 5), []).value == 5
    found = minimise((0, 2, 5), [])
    assert found == Optimum("unbounded", None, (0, 0, 1), (0, -1, 0), (), ())


def test_highspy_prints_nothing(capfd):
    """The solver's greeting does not get into what a program prints."""
    pytest.importorskip("highspy")
    solver = lp.FloatSolver(np.zeros(2), np.ones(2))
    found = solver.minimise(np.array([1.0, -2.0, 0.0]), [np.array([1.0, -1.0, 0.0])])
    assert found.value == -1
    assert capfd.readouterr() == ("", "")
