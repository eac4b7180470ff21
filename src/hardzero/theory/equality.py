"""Whether two networks compute the same function, or take the same decisions.

f = g on a domain if and only if the affine map of f - g is 0 on every cell of both
networks together; where it is not, a point at which they differ is at hand. On all of
R^d, networks with one hidden layer are compared by their canonical forms, which are
equal if and only if the functions are, without visiting cells. Networks with the same
normal form, such as copies with units in another order and scale, are equal.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, Literal

from hardzero.errors import BudgetError, ParameterError
from hardzero.theory.canonical import canonical_form, first_difference
from hardzero.theory.cells import Piece, minus, split
from hardzero.theory.certificate import Certificate, certify_different, certify_equal
from hardzero.theory.cone import Cone, Row, coordinates, dot, negative
from hardzero.theory.convert import as_network
from hardzero.theory.domain import Domain, read_domain
from hardzero.theory.halfspaces import Halfspaces, polyhedron_of
from hardzero.theory.polyhedron import Polyhedron
from hardzero.theory.rational import (
    RationalNetwork,
    check_alike,
    difference,
    side_by_side,
)
from hardzero.theory.scales import normalise
from hardzero.theory.visits import check_budget, visit

__all__ = ["Equality", "equal", "same_decision"]

_Asked = tuple[
    Literal["function", "decision"], tuple[RationalNetwork, RationalNetwork], Domain
]


@dataclass(frozen=True)
class Equality:
    """A verdict on two networks; it is true where they agree.

    Parameters
    ----------
    equal : bool
        Whether they agree on all of the domain.
    witness : tuple of Fraction or None
        A point of the domain at which they do not.
    values : tuple or None
        The outputs of both networks at the witness.
    method : {"canonical form", "normal form", "cells"}
        What the verdict rests on.
    n_cells : int
        Number of cells that were looked at.
    question : {"function", "decision"}
        What was compared.
    networks : tuple of two RationalNetwork
        The networks.
    domain : Domain
        Where they were compared.
    """

    equal: bool
    witness: tuple[Fraction, ...] | None
    values: tuple[tuple[Fraction, ...], tuple[Fraction, ...]] | None
    method: Literal["canonical form", "normal form", "cells"]
    n_cells: int
    question: Literal["function", "decision"] = field(repr=False)
    networks: tuple[RationalNetwork, RationalNetwork] = field(repr=False)
    domain: Domain = field(repr=False)

    def __bool__(self) -> bool:
        """Whether they agree."""
        return self.equal

    def certificate(self) -> Certificate:
        """Return the verdict with a proof that can be checked without hardzero.

        Returns
        -------
        Certificate
            Of equality cell by cell, whatever the method was, or of a point at which
            the networks differ.

        Raises
        ------
        ParameterError
            If decisions were compared and agree: there are no certificates for that.
        """
        f, g = self.networks
        if self.witness is not None and f(self.witness) != g(self.witness):
            return certify_different(f, g, self.domain, self.witness)
        if self.question == "decision":
            raise ParameterError(
                "Certificates are about functions, and here decisions were compared. "
                "Ask theory.equal for one."
            )
        return certify_equal(f, g, self.domain)


def equal(
    f: Any,
    g: Any,
    domain: Any = None,
    *,
    budget: int = 1_000_000,
    verbose: bool = False,
) -> Equality:
    """Decide whether two networks compute the same function.

    Parameters
    ----------
    f, g : object
        Any models that `hardzero.theory.as_network` reads, with as many inputs and
        outputs as each other.
    domain : None, (lower, upper) or (A, b)
        Where they are compared: all of R^d, a box, or the polytope A x <= b.
    budget : int, default=1_000_000
        Largest number of cells to be looked at.
    verbose : bool, default=False
        Whether a progress bar is shown on standard error.

    Returns
    -------
    Equality
        The verdict, with a point at which they differ if they do.

    Raises
    ------
    ParameterError
        If models or domain cannot be read, or do not fit together.
    BudgetError
        If there are more cells than the budget, and no difference was found so far.

    Examples
    --------
    >>> from hardzero import theory
    >>> absolute = theory.rational_network([([[1, -1]], [0, 0]), ([[1], [1]], [0])])
    >>> same = theory.rational_network([([[1]], [0]), ([[2]], [0])])
    >>> bool(theory.equal(absolute, same)), bool(theory.equal(absolute, same, (0, 1)))
    (False, False)
    """
    check_budget(budget)
    first, second = as_network(f), as_network(g)
    check_alike(first, second)
    area = read_domain(domain, first.n_inputs)
    asked: _Asked = ("function", (first, second), area)
    if not area.rows:
        verdict = _by_canonical_forms(asked, budget)
        if verdict is not None:
            return verdict
    if normalise(first) == normalise(second):
        return Equality(True, None, None, "normal form", 0, *asked)
    n_cells = 0
    for n_cells, cell in _cells(difference(first, second), area, budget, verbose):
        for row in cell.outputs:
            place = _where_not_zero(cell.cone, row)
            if place is not None:
                return _differ(asked, place, n_cells)
    return Equality(True, None, None, "cells", n_cells, *asked)


def same_decision(
    f: Any,
    g: Any,
    domain: Any = None,
    *,
    ties: Literal["exact", "almost_everywhere"] = "exact",
    budget: int = 1_000_000,
    verbose: bool = False,
) -> Equality:
    """Decide whether two networks decide for the same class everywhere.

    With one output the decision is whether it is at least 0. With several it is the
    class of the largest output, the first of those that tie.

    Parameters
    ----------
    f, g : object
        Any models that `hardzero.theory.as_network` reads, with as many inputs and
        outputs as each other.
    domain : None, (lower, upper) or (A, b)
        Where they are compared: all of R^d, a box, or the polytope A x <= b.
    ties : {"exact", "almost_everywhere"}, default="exact"
        "almost_everywhere" forgives differences on sets without volume in the domain,
        which only ties can make.
    budget : int, default=1_000_000
        Largest number of cells to be looked at.
    verbose : bool, default=False
        Whether a progress bar is shown on standard error.

    Returns
    -------
    Equality
        The verdict, with a point at which the decisions differ if they do.

    Raises
    ------
    ParameterError
        If an argument cannot be read, or the networks do not fit together.
    BudgetError
        If there are more cells than the budget, and no difference was found so far.
    """
    if ties not in ("exact", "almost_everywhere"):
        raise ParameterError(
            f'ties is {ties!r}, expected "exact" or "almost_everywhere".'
        )
    check_budget(budget)
    first, second = as_network(f), as_network(g)
    n = first.n_outputs
    network = side_by_side(first, second)
    area = read_domain(domain, network.n_inputs)
    asked: _Asked = ("decision", (first, second), area)
    n_cells = 0
    for n_cells, cell in _cells(network, area, budget, verbose):
        of_f, of_g = _decisions(cell.outputs[:n]), _decisions(cell.outputs[n:])
        for (i, here), (j, there) in product(enumerate(of_f), enumerate(of_g)):
            if i == j:
                continue
            place = _where(cell.cone, [*here, *there], ties == "exact")
            if place is not None:
                return _differ(asked, place, n_cells)
    return Equality(True, None, None, "cells", n_cells, *asked)


def _by_canonical_forms(asked: _Asked, budget: int) -> Equality | None:
    """Compare without visiting cells, on R^d; None if there are no such forms."""
    f, g = asked[1]
    try:
        forms = canonical_form(f, budget=budget), canonical_form(g, budget=budget)
    except (ParameterError, BudgetError):
        return None
    x = first_difference(*forms)
    values = None if x is None else (f(x), g(x))
    return Equality(x is None, x, values, "canonical form", 0, *asked)


def _cells(
    network: RationalNetwork, area: Domain, budget: int, verbose: bool
) -> Iterator[tuple[int, Piece[Cone | Halfspaces]]]:
    pieces = split(network, polyhedron_of(area))
    for n_cells, cell in visit(pieces, verbose=verbose):
        if n_cells > budget:
            raise BudgetError(
                f"there are more than {budget:,} cells, the budget; the networks "
                "agree on those. Raise budget, or give a smaller domain."
            )
        yield n_cells, cell


def _where_not_zero(cone: Polyhedron, row: Row) -> Row | None:
    """Return a point where a row is not 0, if there is one."""
    if not any(row):
        return None
    inside = cone.point()
    if dot(row, inside):
        return inside
    # It is 0 in the middle: either 0 all over, or of both signs.
    place, _ = cone.minimum(row)
    if not dot(row, place):
        return None
    return (
        place if place[-1] else tuple(a + b for a, b in zip(inside, place, strict=True))
    )


def _decisions(rows: Sequence[Row]) -> list[list[tuple[Row, bool]]]:
    """Return for each class its conditions: a row, and whether it may be 0."""
    if len(rows) == 1:
        return [[(negative(rows[0]), False)], [(rows[0], True)]]
    return [
        [(minus(row, other), i < j) for j, other in enumerate(rows) if i != j]
        for i, row in enumerate(rows)
    ]


def _where(
    cone: Polyhedron, conditions: Sequence[tuple[Row, bool]], with_ties: bool
) -> Row | None:
    """Return a point with all rows positive, or 0 where that is allowed."""
    part: Polyhedron | None = cone
    for row, may_be_zero in conditions:
        assert part is not None
        _, above = part.cut(row)
        if above is None and may_be_zero:
            is_zero = dot(row, part.point()) == 0  # inside, so all over
            if is_zero or with_ties:
                above = part.face(row)
        if above is None or above.is_empty:
            return None
        part = above
    assert part is not None
    inside = part.point()
    if all(may_be_zero or dot(row, inside) > 0 for row, may_be_zero in conditions):
        return inside
    return None


def _differ(asked: _Asked, place: Row, n_cells: int) -> Equality:
    f, g = asked[1]
    x = coordinates(place)
    return Equality(False, x, (f(x), g(x)), "cells", n_cells, *asked)
