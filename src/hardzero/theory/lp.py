"""Exact linear programs over the rationals.

HiGHS solves a program in floats and so says which inequalities are tight at the
optimum. They are the start of an exact simplex method in whole numbers, which as a rule
has nothing left to do but to confirm them. Where floats were misled it goes on from
there, by the least-index criss-cross rule, which needs no feasible start and ends on
every program. Answers bring multipliers that prove them.

References
----------
Terlaky 1985, "A convergent criss-cross method"; Fukuda & Terlaky 1997, "Criss-cross
methods: a fresh view on pivot algorithms", section 3; Edmonds 1967 for the integer
pivots.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any, Literal

import numpy as np

from hardzero.theory.cone import Row, negative, primitive

__all__ = [
    "FloatOptimum",
    "FloatSolver",
    "Optimum",
    "as_floats",
    "minimise",
    "minimise_exactly",
]


_SMALL = 100  # entries of a program that is solved as fast without floats


@dataclass(frozen=True)
class Optimum:
    """What an exact linear program has come to, with its proof.

    Parameters
    ----------
    kind : {"optimum", "unbounded", "infeasible"}
        Which of the three it is.
    value : Fraction or None
        The least value, if there is one.
    point : tuple of int or None
        Where it is taken, as (x t, t) with t > 0; with "unbounded" any point from which
        the function falls without end along `direction`.
    direction : tuple of int or None
        With "unbounded" a direction in which one can go on for ever, with last entry 0.
    multipliers : tuple of Fraction
        One for each inequality, none negative. With "optimum" the function is `value`
        plus the sum of the inequalities' and equations' rows times their multipliers.
        With "infeasible" that sum is the constant -1. With "unbounded" all are 0.
    equation_multipliers : tuple of Fraction
        One for each equation, of any sign.
    """

    kind: Literal["optimum", "unbounded", "infeasible"]
    value: Fraction | None
    point: Row | None
    direction: Row | None
    multipliers: tuple[Fraction, ...]
    equation_multipliers: tuple[Fraction, ...]


def minimise(row: Row, rows: Sequence[Row], equations: Sequence[Row] = ()) -> Optimum:
    """Minimise an affine function over a polyhedron, exactly.

    Parameters
    ----------
    row : tuple of int
        Coefficients of the function, the constant last.
    rows : sequence of tuple of int
        Affine functions that are to be >= 0.
    equations : sequence of tuple of int
        Affine functions that are to be 0.

    Returns
    -------
    Optimum
        The least value, or why there is none.
    """
    n = len(row) - 1
    if n * len(rows) <= _SMALL:
        return minimise_exactly(row, rows, equations)
    approximate = [as_floats(r) for r in (*rows, *equations, *map(negative, equations))]
    solver = FloatSolver(np.full(n, -np.inf), np.full(n, np.inf))
    found = solver.minimise(as_floats(row), approximate)
    if found.kind == "infeasible":
        found = _least_violation(approximate, n)
    order = tight_first(found, approximate)
    return minimise_exactly(row, rows, equations, [i for i in order if i < len(rows)])


def minimise_exactly(
    row: Row,
    rows: Sequence[Row],
    equations: Sequence[Row] = (),
    first: Iterable[int] = (),
) -> Optimum:
    """Minimise without floats.

    Parameters
    ----------
    row : tuple of int
        Coefficients of the function, the constant last.
    rows : sequence of tuple of int
        Affine functions that are to be >= 0.
    equations : sequence of tuple of int
        Affine functions that are to be 0.
    first : iterable of int
        Numbers of rows that may be tight at the optimum, the likeliest first.

    Returns
    -------
    Optimum
        As of `minimise`.
    """
    return _Dictionary(row, rows, equations).solve(first)


def tight_first(found: "FloatOptimum", rows: Sequence[np.ndarray]) -> list[int]:
    """Return the numbers of rows, those likely to be tight at an optimum first.

    Parameters
    ----------
    found : FloatOptimum
        The optimum in floats.
    rows : sequence of array
        Rows that it is of, as floats.

    Returns
    -------
    list of int
        Rows with multipliers, then by their distance; empty without an optimum.
    """
    if found.kind != "optimum":
        return []
    slack = np.array(rows) @ np.append(found.x, 1.0) if len(rows) else np.zeros(0)
    order = np.lexsort((slack, -np.where(found.marginals > 1e-11, found.marginals, 0)))
    return [int(i) for i in order]


def as_floats(row: Row) -> np.ndarray:
    """Return a row as floats, divided by a power of two.

    Parameters
    ----------
    row : tuple of int
        Whole numbers of any size.

    Returns
    -------
    ndarray of shape (len(row),)
        Each entry is rounded once; the largest is about 1.
    """
    scale = 1 << exponent(row)
    return np.array([a / scale for a in row])


def exponent(row: Row) -> int:
    """Return the power of two that `as_floats` divides by.

    Parameters
    ----------
    row : tuple of int
        Whole numbers.

    Returns
    -------
    int
        Number of bits of the largest.
    """
    return max(max(row), -min(row)).bit_length()


@dataclass(frozen=True)
class FloatOptimum:
    """What a linear program has come to in floats: a hint, no proof.

    Parameters
    ----------
    kind : {"optimum", "unbounded", "infeasible", "unknown"}
        What the solver says; all but "optimum" leave the rest empty.
    value : float
        The least value.
    x : ndarray
        Where it is.
    marginals : ndarray
        A multiplier for each row.
    bounds : ndarray
        A multiplier for each variable's bounds: positive for the lower one.
    """

    kind: Literal["optimum", "unbounded", "infeasible", "unknown"]
    value: float
    x: np.ndarray
    marginals: np.ndarray
    bounds: np.ndarray


class FloatSolver:
    """Linear programs in floats with the same bounds of their variables.

    With highspy one model is changed from program to program, so that programs which
    share most rows with the one before cost little. Without it scipy starts anew.

    Parameters
    ----------
    lower, upper : ndarray of shape (n,)
        Bounds of the variables.
    """

    def __init__(self, lower: np.ndarray, upper: np.ndarray) -> None:
        self._bounds = np.column_stack([lower, upper])
        self._loaded: list[np.ndarray] = []
        self._lock = threading.Lock()  # parts of a polyhedron share a solver
        self._highspy = _highspy()
        if self._highspy is not None:
            self._model = _quiet_model(self._highspy)
            for option, value in (("output_flag", False), ("presolve", "off")):
                self._model.setOptionValue(option, value)
            self._model.setOptionValue("threads", 1)
            self._model.addVars(len(lower), lower, upper)
            self._columns = np.arange(len(lower), dtype=np.int32)

    def minimise(self, cost: np.ndarray, rows: Sequence[np.ndarray]) -> FloatOptimum:
        """Minimise an affine function where rows are >= 0.

        Parameters
        ----------
        cost : ndarray of shape (n + 1,)
            Its coefficients, the constant last.
        rows : sequence of ndarray of shape (n + 1,)
            Affine functions.

        Returns
        -------
        FloatOptimum
            The solver's answer.
        """
        if self._highspy is None:
            return self._with_scipy(cost, rows)
        with self._lock:
            return self._with_highspy(cost, rows)

    def _with_highspy(
        self, cost: np.ndarray, rows: Sequence[np.ndarray]
    ) -> FloatOptimum:
        same = 0
        for old, new in zip(self._loaded, rows, strict=False):
            if old is not new:
                break
            same += 1
        stale = np.arange(same, len(self._loaded), dtype=np.int32)
        if len(stale):
            self._model.deleteRows(len(stale), stale)
        for row in rows[same:]:
            support = np.flatnonzero(row[:-1]).astype(np.int32)
            self._model.addRow(-row[-1], np.inf, len(support), support, row[support])
        self._loaded = list(rows)
        self._model.changeColsCost(len(self._columns), self._columns, cost[:-1])
        self._model.run()
        return self._answer(float(cost[-1]))

    def _answer(self, constant: float) -> FloatOptimum:
        kind = _KINDS.get(self._model.getModelStatus().name, "unknown")
        if kind != "optimum":
            return _no_optimum(kind)
        solution = self._model.getSolution()
        return FloatOptimum(
            "optimum",
            self._model.getInfo().objective_function_value + constant,
            np.array(solution.col_value),
            np.array(solution.row_dual),
            np.array(solution.col_dual),
        )

    def _with_scipy(self, cost: np.ndarray, rows: Sequence[np.ndarray]) -> FloatOptimum:
        from scipy.optimize import linprog  # slow to import

        n = len(cost) - 1
        matrix = np.array(rows).reshape(len(rows), n + 1)
        found = linprog(
            cost[:-1],
            -matrix[:, :-1],
            matrix[:, -1],
            bounds=self._bounds,
            method="highs-ds",
            options={"presolve": False},
        )
        kind = _SCIPY_KINDS.get(found.status, "unknown")
        if kind != "optimum":
            return _no_optimum(kind)
        return FloatOptimum(
            "optimum",
            float(found.fun) + float(cost[-1]),
            found.x,
            -found.ineqlin.marginals,
            found.lower.marginals + found.upper.marginals,
        )


Kind = Literal["optimum", "unbounded", "infeasible", "unknown"]
_KINDS: dict[str, Kind] = {
    "kOptimal": "optimum",
    "kInfeasible": "infeasible",
    "kUnbounded": "unbounded",
}
_SCIPY_KINDS: dict[int, Kind] = {0: "optimum", 2: "infeasible", 3: "unbounded"}


def _no_optimum(kind: Kind) -> FloatOptimum:
    nothing = np.zeros(0)
    return FloatOptimum(kind, np.nan, nothing, nothing, nothing)


def _highspy() -> Any:
    """Return the module, or None where it is not installed."""
    try:
        return import_module("highspy")
    except ImportError:
        return None


def _quiet_model(highspy: Any) -> Any:
    """Return a new model; a plain one greets on stdout as its callbacks are set up."""
    return type("Quiet", (highspy.Highs,), {"enableCallbacks": lambda _: None})()


def _least_violation(rows: Sequence[np.ndarray], n: int) -> FloatOptimum:
    """Minimise s with rows + s >= 0: its multipliers tell which rows contradict."""
    solver = FloatSolver(np.full(n + 1, -np.inf), np.full(n + 1, np.inf))
    longer = [np.concatenate([row[:-1], [1.0, row[-1]]]) for row in rows]
    found = solver.minimise(np.eye(n + 2)[n], longer)
    if found.kind != "optimum":
        return found
    return FloatOptimum(
        "optimum", found.value, found.x[:-1], found.marginals, found.bounds[:-1]
    )


class _Dictionary:
    """Rows and x as functions of as many independent rows, times a common `d`.

    A variable is a number: row i is i, equation k is -1 - k, and x_j is m + j for m
    rows. `tableau[v]` says d v = sum_j tableau[v][j] columns[j] + tableau[v][-1].
    """

    def __init__(self, row: Row, rows: Sequence[Row], equations: Sequence[Row]) -> None:
        self.n = len(row) - 1
        self.m = len(rows)
        self.n_equations = len(equations)
        self.d = 1
        self.columns = [self.m + j for j in range(self.n)]
        self.tableau = {i: list(r) for i, r in enumerate(rows)}
        self.tableau.update({-1 - k: list(r) for k, r in enumerate(equations)})
        self.cost = list(row)

    def solve(self, first: Iterable[int]) -> Optimum:
        for k in range(self.n_equations):
            self._make_independent(-1 - k)
            left = self.tableau.get(-1 - k)
            if left is not None and left[-1]:
                return self._infeasible(left, -1 - k)
        for i in (*first, *range(self.m)):
            self._make_independent(i)
        if free := self._falls_along_free():
            self.cost = [0] * (self.n + 1)
            found = self._criss_cross()
            return self._unbounded(free) if found.kind == "optimum" else found
        return self._criss_cross()

    def _make_independent(self, variable: int) -> None:
        """Exchange a row with an x that is still independent, if it depends on one."""
        row = self.tableau.get(variable)
        if row is None:
            return
        for place, column in enumerate(self.columns):
            if column >= self.m and row[place]:
                self._pivot(variable, place)
                return

    def _pivot(self, variable: int, place: int) -> None:
        """Exchange a dependent variable with an independent one."""
        pivot_row = self.tableau.pop(variable)
        entering, self.columns[place] = self.columns[place], variable
        d, pivot = self.d, pivot_row[place]
        sign = 1 if pivot > 0 else -1
        size = abs(pivot)
        support = [j for j, a in enumerate(pivot_row) if a and j != place]

        def exchanged(row: list[int]) -> list[int]:
            factor = row[place] * sign
            if size != d:
                new = [a * size for a in row]
                if factor:
                    for j in support:
                        new[j] -= factor * pivot_row[j]
                new = [a // d for a in new]
            elif factor:
                new = row.copy()
                for j in support:
                    new[j] -= factor * pivot_row[j] // d
            else:
                return row
            new[place] = factor
            return new

        self.tableau = {v: exchanged(row) for v, row in self.tableau.items()}
        self.cost = exchanged(self.cost)
        solved = [-sign * a for a in pivot_row]
        solved[place] = sign * d
        self.tableau[entering] = solved
        self.d = size

    def _falls_along_free(self) -> Row | None:
        """Return a line of the polyhedron along which the function falls."""
        for place, column in enumerate(self.columns):
            if column >= self.m and self.cost[place]:
                return self._along(place, -1 if self.cost[place] > 0 else 1)
        return None

    def _along(self, place: int, sign: int) -> Row:
        """Return where x goes if one independent variable grows."""
        entries = [0] * self.n
        for j in range(self.n):
            if (row := self.tableau.get(self.m + j)) is not None:
                entries[j] = sign * row[place]
        if self.columns[place] >= self.m:
            entries[self.columns[place] - self.m] = sign * self.d
        return primitive((*entries, 0))

    def _criss_cross(self) -> Optimum:
        while True:
            wrong = [
                v for v, row in self.tableau.items() if 0 <= v < self.m and row[-1] < 0
            ]
            wrong += [
                v
                for v, a in zip(self.columns, self.cost, strict=False)
                if 0 <= v < self.m and a < 0
            ]
            if not wrong:
                return self._optimum()
            variable = min(wrong)
            if (row := self.tableau.get(variable)) is not None:
                choices = [
                    (v, place)
                    for place, v in enumerate(self.columns)
                    if 0 <= v < self.m and row[place] > 0
                ]
                if not choices:
                    return self._infeasible(row, variable)
                self._pivot(variable, min(choices)[1])
                continue
            place = self.columns.index(variable)
            leaving = [
                v
                for v, row in self.tableau.items()
                if 0 <= v < self.m and row[place] < 0
            ]
            if leaving:
                self._pivot(min(leaving), place)
                continue
            direction = self._along(place, 1)
            self.cost = [0] * (self.n + 1)
            found = self._criss_cross()
            return self._unbounded(direction) if found.kind == "optimum" else found

    def _point(self) -> Row:
        entries = [0] * self.n
        for j in range(self.n):
            if (row := self.tableau.get(self.m + j)) is not None:
                entries[j] = row[-1]
        return primitive((*entries, self.d))

    def _optimum(self) -> Optimum:
        multipliers = self._multipliers(self.cost, self.d)
        value = Fraction(self.cost[-1], self.d)
        return Optimum("optimum", value, self._point(), None, *multipliers)

    def _unbounded(self, direction: Row) -> Optimum:
        nothing = (Fraction(0),) * self.m, (Fraction(0),) * self.n_equations
        return Optimum("unbounded", None, self._point(), direction, *nothing)

    def _infeasible(self, row: list[int], variable: int) -> Optimum:
        """Read a contradiction off a row that cannot become what it must be."""
        size = -row[-1]  # of either sign if the row is an equation
        y, z = self._multipliers([-a for a in row], size)
        rows, equations = list(y), list(z)
        if variable >= 0:
            rows[variable] = Fraction(self.d, size)
        else:
            equations[-1 - variable] = Fraction(self.d, size)
        return Optimum("infeasible", None, None, None, tuple(rows), tuple(equations))

    def _multipliers(
        self, row: Sequence[int], size: int
    ) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
        """Return the coefficients of a row of the dictionary, of rows and equations."""
        y = [Fraction(0)] * self.m
        z = [Fraction(0)] * self.n_equations
        for v, a in zip(self.columns, row, strict=False):
            if 0 <= v < self.m:
                y[v] = Fraction(a, size)
            elif v < 0:
                z[-1 - v] = Fraction(a, size)
        return tuple(y), tuple(z)
