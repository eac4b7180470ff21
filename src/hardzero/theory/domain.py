"""Where a network is looked at: all of R^d, a box, or a polytope."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from hardzero.errors import BudgetError, ParameterError, warn_user
from hardzero.theory.cone import Cone, Row, primitive
from hardzero.theory.rational import as_whole, to_fraction

__all__ = ["Domain", "read_domain"]

_MOST_RAYS: Final = 4096


@dataclass(frozen=True)
class Domain:
    """A closed convex polyhedron {x : A x + b >= 0}.

    Parameters
    ----------
    n_dimensions : int
        Length of x.
    rows : tuple of tuple of int
        (A, b) in whole numbers, one row for each inequality; none for R^d.
    """

    n_dimensions: int
    rows: tuple[Row, ...]

    def cone(self) -> Cone:
        """Return it by generators.

        Returns
        -------
        Cone
            The cone over the polyhedron.

        Raises
        ------
        ParameterError
            If no point satisfies all inequalities.
        BudgetError
            If there are too many vertices to list.
        """
        cone: Cone | None = Cone.whole_space(self.n_dimensions)
        for row in self.rows:
            assert cone is not None
            above = cone.cut(row)[1]
            cone = above if above is not None else cone.face(row)
            if cone is not None and len(cone.rays) > _MOST_RAYS:
                raise BudgetError(
                    f"the domain has more than {_MOST_RAYS:,} vertices, which are too "
                    f"many to list: a box has 2**{self.n_dimensions}. Give a plane "
                    "through it (theory.slice_plane), or ask for what needs no "
                    "vertices."
                )
            if cone is None or cone.is_empty:
                raise ParameterError(
                    "the domain is empty: no x satisfies all of its inequalities. Give "
                    "bounds that leave a point."
                )
        assert cone is not None
        return cone

    def contains(self, x: Iterable[Fraction]) -> bool:
        """Return whether a point lies in it.

        Parameters
        ----------
        x : iterable of Fraction, length `n_dimensions`
            The point.

        Returns
        -------
        bool
            True on the boundary, too.
        """
        point = (*x, Fraction(1))
        return all(
            sum(a * v for a, v in zip(row, point, strict=True)) >= 0
            for row in self.rows
        )


def read_domain(domain: Any, n_dimensions: int) -> Domain:
    """Read what a user calls a domain.

    Parameters
    ----------
    domain : None, Domain, (lower, upper) or (A, b)
        None is R^d. Lower and upper are numbers, or sequences of length `n_dimensions`
        with None or an infinity where there is no bound; arrays and tensors may have
        any shape with so many entries. A of shape (n_rows, n_dimensions) and b of shape
        (n_rows,) stand for A x <= b. Entries are ints, floats, Fractions or texts such
        as "1/3".
    n_dimensions : int
        Number of inputs of the network.

    Returns
    -------
    Domain
        In whole numbers.

    Raises
    ------
    ParameterError
        If it is none of these, shapes do not fit, or a lower bound is above its upper
        one.

    Warns
    -----
    UserWarning
        If a box in the plane, given by tuples, has no area, and would have one if they
        were meant as two intervals.
    """
    if domain is None:
        return Domain(n_dimensions, ())
    if isinstance(domain, Domain):
        if domain.n_dimensions != n_dimensions:
            raise ParameterError(
                f"the domain has {domain.n_dimensions} dimensions, expected "
                f"{n_dimensions}, one for each input of the network."
            )
        return domain
    if hasattr(domain, "shape") and len(domain.shape) > 1:
        domain = tuple(domain)
    if not isinstance(domain, (tuple, list)) or len(domain) != 2:
        intervals = ""
        if isinstance(domain, (tuple, list)) and _is_matrix(domain):
            intervals = " A box is all lower bounds, then all upper ones: no intervals."
        raise ParameterError(
            f"the domain is {_short(domain)}, expected None for all inputs, a box "
            f"(lower, upper), or a polytope (A, b) for A x <= b.{intervals}"
        )
    first, second = (p.toarray() if hasattr(p, "toarray") else p for p in domain)
    if _length(first) == _length(second) == 0:
        return Domain(n_dimensions, ())  # no rows, so no restriction
    if _is_matrix(first) and not _are_images(first, second, n_dimensions):
        return _polytope(first, second, n_dimensions)
    return _box(first, second, n_dimensions)


def _box(lower: Any, upper: Any, n_dimensions: int) -> Domain:
    lows = _bounds("lower", lower, n_dimensions)
    highs = _bounds("upper", upper, n_dimensions)
    if isinstance(lower, tuple) and isinstance(upper, tuple):
        _warn_of_intervals(lows, highs)
    rows = []
    for i, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if low is not None and high is not None and low > high:
            raise ParameterError(
                f"the box has lower bound {low} and upper bound {high} for input {i}, "
                "expected lower <= upper. Swap them."
            )
        axis = [Fraction(int(i == j)) for j in range(n_dimensions)]
        if low is not None:
            rows.append(_whole([*axis, -low]))
        if high is not None:
            rows.append(_whole([*(-a for a in axis), high]))
    return Domain(n_dimensions, tuple(rows))


def _warn_of_intervals(
    lows: Sequence[Fraction | None], highs: Sequence[Fraction | None]
) -> None:
    """Warn where (lower, upper) looks like [(low, high), (low, high)]."""
    numbers = (*lows, *highs)
    if len(lows) != 2 or None in numbers:
        return
    a, b, c, d = (value for value in numbers if value is not None)
    if (a == c or b == d) and a < b and c < d:
        warn_user(
            f"the box has lower bounds ({a}, {b}) and upper bounds ({c}, {d}), so that "
            "it has no area. If these are meant as an interval for each input, give "
            f"(({a}, {c}), ({b}, {d}))."
        )


def _bounds(name: str, given: Any, n_dimensions: int) -> list[Fraction | None]:
    if hasattr(given, "reshape") and hasattr(given, "tolist"):
        given = given.reshape(-1).tolist() if given.ndim else given.item()
    values = [given] * n_dimensions if _length(given) is None else list(given)
    if len(values) != n_dimensions:
        raise ParameterError(
            f"the box has {len(values)} {name} bounds, expected {n_dimensions}, one "
            "for each input, or a single number for all of them."
        )
    return [_bound(value, f"{name} bound {i}") for i, value in enumerate(values)]


def _bound(value: Any, what: str) -> Fraction | None:
    sign = -1 if what.startswith("lower") else 1
    if value is None:
        return None
    if not isinstance(value, (str, Fraction, int)) and value == sign * math.inf:
        return None
    return to_fraction(value, what)


def _polytope(A: Any, b: Any, n_dimensions: int) -> Domain:
    matrix = [list(row) for row in A]
    limits = list(b) if hasattr(b, "__len__") and not isinstance(b, str) else [b]
    if len(limits) != len(matrix):
        raise ParameterError(
            f"the polytope A x <= b has {len(matrix)} rows in A but {len(limits)} "
            "numbers in b. Give one for each row."
        )
    rows = []
    for number, (row, limit) in enumerate(zip(matrix, limits, strict=True)):
        if len(row) != n_dimensions:
            raise ParameterError(
                f"row {number} of A has {len(row)} entries, expected {n_dimensions}, "
                "one for each input of the network."
            )
        entries = [-to_fraction(a, f"an entry of row {number} of A") for a in row]
        rows.append(_whole([*entries, to_fraction(limit, f"b[{number}]")]))
    rows = [row for row in rows if any(row[:-1]) or row[-1] < 0]  # not always true
    return Domain(n_dimensions, tuple(rows))


def _are_images(lower: Any, upper: Any, n_dimensions: int) -> bool:
    """Return whether two arrays of the same shape are bounds, not rows and limits."""
    shapes = [tuple(getattr(array, "shape", ())) for array in (lower, upper)]
    return shapes[0] == shapes[1] and math.prod(shapes[0]) == n_dimensions > 1


def _is_matrix(given: Any) -> bool:
    return bool(_length(given)) and _length(given[0]) is not None


def _length(given: Any) -> int | None:
    """Return the number of entries of a sequence; None for what is none."""
    if isinstance(given, (str, dict, set)) or getattr(given, "ndim", 1) == 0:
        return None
    return len(given) if hasattr(given, "__len__") else None


def _whole(row: Sequence[Fraction]) -> Row:
    return primitive(as_whole(row)[0])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."
