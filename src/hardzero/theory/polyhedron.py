"""What the exact algorithms ask of a polyhedron, whichever form it has."""

from fractions import Fraction
from typing import Protocol, Self

from hardzero.theory.cone import Row, negative

__all__ = ["Polyhedron", "as_polytope"]


class Polyhedron(Protocol):
    """A nonempty closed convex polyhedron; `Cone` says what each of these means."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Defining inequalities, with the equations or without."""
        ...

    @property
    def facets(self) -> tuple[Row, ...]:
        """One inequality for each facet."""
        ...

    @property
    def equations(self) -> tuple[Row, ...]:
        """Independent equations."""
        ...

    @property
    def dimension(self) -> int:
        """Dimension of the polyhedron."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether no point with t > 0 is left."""
        ...

    @property
    def is_bounded(self) -> bool:
        """Whether it lies in some box."""
        ...

    def signs(self, row: Row) -> tuple[bool, bool]:
        """Return on which sides of a hyperplane it lies.

        Parameters
        ----------
        row : tuple of int
            Coefficients of the hyperplane.
        """
        ...

    def cut(self, row: Row) -> tuple[Self | None, Self | None]:
        """Return the parts on either side of a hyperplane.

        Parameters
        ----------
        row : tuple of int
            Coefficients of the hyperplane.
        """
        ...

    def minimum(self, row: Row) -> tuple[Row, bool]:
        """Return where an affine function is least, and whether it is bounded.

        Parameters
        ----------
        row : tuple of int
            Coefficients of the function.
        """
        ...

    def point(self) -> Row:
        """Return a point in the relative interior."""
        ...

    def face(self, row: Row) -> Self | None:
        """Return the part within a hyperplane.

        Parameters
        ----------
        row : tuple of int
            Coefficients of the hyperplane.
        """
        ...


def as_polytope(
    polyhedron: Polyhedron,
) -> tuple[list[list[Fraction]], list[Fraction]]:
    """Return a polyhedron as a user gives one.

    Parameters
    ----------
    polyhedron : Polyhedron
        Any polyhedron.

    Returns
    -------
    A : list of list of Fraction
        One row for each facet, and two for each equation.
    b : list of Fraction
        It is {x : A x <= b}.
    """
    rows = [row for row in polyhedron.facets if any(row[:-1])]
    for row in polyhedron.equations:
        rows += [row, negative(row)]
    return (
        [[Fraction(-a) for a in row[:-1]] for row in rows],
        [Fraction(row[-1]) for row in rows],
    )
