"""What the exact algorithms ask of a polyhedron, whichever form it has."""

from typing import Protocol, Self

from hardzero.theory.cone import Row

__all__ = ["Polyhedron"]


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
