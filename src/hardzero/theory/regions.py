"""The linear regions of a network, listed and counted exactly."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic

from hardzero.errors import BudgetError, ParameterError
from hardzero.theory.cells import Area, Pattern, Piece, split
from hardzero.theory.certificate import Certificate, certify_regions
from hardzero.theory.cone import Cone, Row, coordinates, negative
from hardzero.theory.convert import as_network
from hardzero.theory.disjoint import DisjointSets
from hardzero.theory.domain import Domain, read_domain
from hardzero.theory.halfspaces import polyhedron_of
from hardzero.theory.polyhedron import Polyhedron, as_polytope
from hardzero.theory.rational import RationalNetwork
from hardzero.theory.visits import check_budget, visit

__all__ = ["Cell", "Regions", "linear_regions"]


def linear_regions(
    model: Any, domain: Any = None, *, budget: int = 1_000_000, verbose: bool = False
) -> "Regions[Any]":
    """Divide a domain into the cells on which a piecewise-linear network is affine.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads.
    domain : None, (lower, upper) or (A, b)
        All of R^d, a box, or the polytope A x <= b. A domain within a hyperplane is
        divided as a subset of that hyperplane.
    budget : int, default=1_000_000
        Largest number of cells that a count may visit. Iterating has no limit.
    verbose : bool, default=False
        Whether a progress bar is shown on standard error.

    Returns
    -------
    Regions
        Iterate over it for the cells, ask it for counts. Nothing is computed before.

    Raises
    ------
    ParameterError
        If the model or the domain cannot be read, or the domain is empty.

    Examples
    --------
    >>> from hardzero import theory
    >>> three_lines = [[1, 0, 1], [0, 1, 1]], [0, 0, 0]
    >>> net = theory.rational_network([three_lines, ([[1]] * 3, [0])])
    >>> regions = theory.linear_regions(net)
    >>> regions.n_activation_patterns
    6
    >>> next(iter(regions)).pattern
    ((0, 0, 0),)
    """
    network = as_network(model)
    check_budget(budget)
    area = read_domain(domain, network.n_inputs)
    return Regions(network, area, budget, verbose, polyhedron_of(area))


@dataclass(frozen=True, eq=False)
class Regions(Generic[Area]):
    """The cells of a network on a domain.

    Iterating yields each `Cell` in the order of the activation patterns, always the
    same, and holds only the cells that are still to be divided. Each iteration and
    the first count do the work anew.

    Parameters
    ----------
    network : RationalNetwork
        The network.
    domain : Domain
        Where it is looked at.
    budget : int
        Largest number of cells that a count may visit.
    verbose : bool
        Whether a progress bar is shown.
    cone : Cone or Halfspaces
        The domain by generators, or in many dimensions by inequalities.

    Notes
    -----
    Three counts go by the name of "number of linear regions", and they differ (for
    definitions that differ see arXiv 2505.16716):

    * `n_activation_patterns`, patterns of cells of full dimension, where a unit that is
      0 all over a cell counts as off;
    * `n_linear_regions`, unions of cells with the same affine map that hang together
      through facets;
    * `n_affine_maps`, different affine maps.
    """

    network: RationalNetwork
    domain: Domain
    budget: int
    verbose: bool
    cone: Area = field(repr=False)

    def __iter__(self) -> "Iterator[Cell[Area]]":
        """Yield the cells in the order of their patterns."""
        pieces = split(self.network, self.cone)
        for _, piece in visit(pieces, verbose=self.verbose):
            yield Cell(self.network, piece)

    @property
    def n_activation_patterns(self) -> int:
        """Number of cells of full dimension."""
        return self._counted[0]

    @cached_property
    def n_linear_regions(self) -> int:
        """Number of facet-connected unions of cells with the same affine map."""
        _, n_maps, shared = self._counted
        return n_maps - len(shared) + sum(map(_count_components, shared))

    @property
    def n_affine_maps(self) -> int:
        """Number of different affine maps of the outputs."""
        return self._counted[1]

    def certificate(self) -> Certificate:
        """Return `n_activation_patterns` with a proof that others can check.

        Returns
        -------
        Certificate
            With a point inside each cell, and a proof that there are no other cells.

        Raises
        ------
        ParameterError
            If the domain has no interior.
        BudgetError
            If there are more cells than the budget.
        """
        if self.cone.equations:
            raise ParameterError(
                "the domain lies in a hyperplane, so that its cells have no interior "
                "points to show. Slice the network with theory.restrict first."
            )
        return certify_regions(self.network, self.domain, self.n_activation_patterns)

    @cached_property
    def _counted(self) -> tuple[int, int, list[list[Area]]]:
        """Numbers of patterns and maps, and the cells that share their map."""
        cells_of_map: dict[Any, list[Area]] = defaultdict(list)
        n_patterns = 0
        for n_patterns, cell in enumerate(self, start=1):
            if n_patterns > self.budget:
                raise BudgetError(
                    f"there are more than {self.budget:,} cells, the budget. Raise "
                    "budget, give a smaller domain, or iterate over the regions, which "
                    "has no limit. theory.region_bounds says how many there can be."
                )
            cone = cell.piece.cone
            outputs: Any = cell.piece.outputs
            if cone.equations:  # maps may differ off the domain
                outputs = tuple(_reduced(row, cone.equations) for row in outputs)
            cells_of_map[outputs].append(cone)
        shared = [cells for cells in cells_of_map.values() if len(cells) > 1]
        return n_patterns, len(cells_of_map), shared


@dataclass(frozen=True, eq=False)
class Cell(Generic[Area]):
    """A closed polyhedron of full dimension with one activation pattern inside.

    Parameters
    ----------
    network : RationalNetwork
        The network.
    piece : Piece
        The cell in whole numbers.
    """

    network: RationalNetwork = field(repr=False)
    piece: Piece[Area] = field(repr=False)

    @property
    def pattern(self) -> Pattern:
        """For each layer with kinks and each of its units the number of its piece.

        A rectifier is off with 0 and active with 1.
        """
        return self.piece.pattern

    @property
    def polytope(self) -> tuple[list[list[Fraction]], list[Fraction]]:
        """(A, b) with the cell {x : A x <= b}, one row for each facet.

        A cell of a domain within a hyperplane has rows for that hyperplane, too.
        """
        return as_polytope(self.piece.cone)

    @property
    def weights(self) -> list[list[Fraction]]:
        """W of the affine map x W + b, of shape (n_inputs, n_outputs)."""
        rows = self._outputs
        return [
            list(column) for column in zip(*(row[:-1] for row in rows), strict=True)
        ]

    @property
    def biases(self) -> list[Fraction]:
        """The b of the affine map x W + b, one for each output."""
        return [row[-1] for row in self._outputs]

    @property
    def _outputs(self) -> list[list[Fraction]]:
        scale = self.network.scales[-1]
        return [[a * scale for a in row] for row in self.piece.outputs]

    @property
    def point(self) -> tuple[Fraction, ...]:
        """A point inside."""
        return coordinates(self.piece.cone.point())

    @property
    def vertices(self) -> list[tuple[Fraction, ...]]:
        """The vertices, in no particular order; a cell with lines has none."""
        return self._generators.vertices

    @property
    def directions(self) -> list[tuple[int, ...]]:
        """Extreme directions in which it is unbounded; lines go both ways."""
        return self._generators.directions

    @cached_property
    def _generators(self) -> Cone:
        cone = self.piece.cone
        if isinstance(cone, Cone):
            return cone
        rows = (*cone.facets, *cone.equations, *map(negative, cone.equations))
        return Domain(self.network.n_inputs, rows).cone()

    @property
    def is_bounded(self) -> bool:
        """Whether the cell lies in some box."""
        return self.piece.cone.is_bounded

    def __repr__(self) -> str:
        """Return the pattern and a point."""
        pattern = " ".join("".join(map(str, layer)) for layer in self.pattern)
        point = ", ".join(map(str, self.point))
        return f"Cell({pattern or 'no kinks'}, around ({point}))"


def _reduced(row: Row, equations: Sequence[Row]) -> tuple[Fraction, ...]:
    """Return the one row that is the same where equations are 0, and 0 at pivots."""
    echelon: list[list[Fraction]] = []
    for given in (*equations, row):
        rest = [Fraction(a) for a in given]
        for pivot in echelon:
            lead = next(i for i, a in enumerate(pivot) if a)
            factor = rest[lead] / pivot[lead]
            rest = [a - factor * b for a, b in zip(rest, pivot, strict=True)]
        echelon.append(rest)
    return tuple(echelon[-1])


def _count_components(cells: Sequence[Polyhedron]) -> int:
    """Count the facet-connected unions of cells."""
    groups = DisjointSets(len(cells))
    # Cells that share a facet lie on the two sides of its hyperplane.
    sides: dict[Row, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for number, cell in enumerate(cells):
        for row in cell.rows:
            opposite = negative(row)
            sides[max(row, opposite)][row < opposite].append(number)
    for row, (above, below) in sides.items():
        for i in above:
            for j in below:
                if not groups.are_joined(i, j) and _share_facet(
                    cells[i], cells[j], row
                ):
                    groups.join(i, j)
    return len(groups.members())


def _share_facet(one: Polyhedron, other: Polyhedron, row: Row) -> bool:
    """Return whether facets in one hyperplane overlap in more than their rims."""
    common = one.face(row)
    if common is None or common.dimension < one.dimension - 1:
        return False
    for side in other.rows:
        below, above = common.cut(side)
        if above is None and below is not None and any(below.signs(side)):
            return False
        common = above or below
        assert common is not None
    return not common.is_empty
