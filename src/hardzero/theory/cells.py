"""Layered splitting: the cells on which a network is affine, one after the other.

Start with the domain as one cell. Unit by unit and layer by layer, cut every cell by
the hyperplane on which the unit changes its piece; within a cell all layers below are
affine, so that is one hyperplane indeed. What remains after the last layer are the
cells of full dimension with their activation patterns. Depth first and lower pieces
first, they come in the order of their patterns.

This is the plain form, in whole numbers throughout.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import mul, sub
from typing import Generic, TypeVar

from hardzero.theory.cone import Row
from hardzero.theory.polyhedron import Polyhedron
from hardzero.theory.rational import RationalNetwork, Unit

__all__ = [
    "Area",
    "Pattern",
    "Piece",
    "axes",
    "columns_of",
    "compose",
    "compose_row",
    "minus",
    "split",
]

Pattern = tuple[tuple[int, ...], ...]
Area = TypeVar("Area", bound=Polyhedron)


@dataclass(frozen=True)
class Piece(Generic[Area]):
    """A cell of full dimension with what the network is there.

    Parameters
    ----------
    cone : Cone or another Polyhedron
        The cone over the cell.
    pattern : tuple of tuple of int
        For each layer with kinks and each of its units the number of its piece.
    outputs : tuple of tuple of int
        For each output its row (coefficients of x, then the constant), to be multiplied
        with the scale of the last layer.
    share : float
        How much of the work this cell was, as far as one can tell: a cut shares what is
        left among its parts, and all shares add up to 1.
    """

    cone: Area
    pattern: Pattern
    outputs: tuple[Row, ...]
    share: float


@dataclass(frozen=True)
class _Node(Generic[Area]):
    area: Area
    pattern: Pattern
    layer: int
    rows: tuple[tuple[Row, ...], ...]  # pieces of the units of this layer, on this cell
    chosen: tuple[int, ...]  # pieces of the units decided so far
    share: float


def split(network: RationalNetwork, cone: Area) -> Iterator[Piece[Area]]:
    """Yield the cells of a network in the order of their patterns.

    Parameters
    ----------
    network : RationalNetwork
        The network.
    cone : Cone or another Polyhedron
        The domain.

    Yields
    ------
    Piece
        Cells that have the dimension of the domain; together they cover it.
    """
    rows = compose(network.layers[0], axes(network.n_inputs))
    waiting = [_Node(cone, (), 0, rows, (), 1.0)]
    while waiting:
        node = waiting.pop()
        area, chosen = node.area, list(node.chosen)
        for pieces in node.rows[len(chosen) :]:
            choices = _choices(area, pieces)
            if len(choices) > 1:
                share = node.share / len(choices)
                waiting.extend(
                    replace(node, area=part, chosen=(*chosen, piece), share=share)
                    for piece, part in reversed(choices)
                )
                break
            ((piece, area),) = choices
            chosen.append(piece)
        else:
            layer = node.layer + 1
            outputs = tuple(
                pieces[piece] for pieces, piece in zip(node.rows, chosen, strict=True)
            )
            pattern = node.pattern
            if any(len(pieces) > 1 for pieces in node.rows):
                pattern = (*pattern, tuple(chosen))
            if layer == len(network.layers):
                yield Piece(area, pattern, outputs, node.share)
            else:
                rows = compose(network.layers[layer], outputs)
                waiting.append(_Node(area, pattern, layer, rows, (), node.share))


def axes(n_inputs: int) -> tuple[Row, ...]:
    """Return the rows of the inputs themselves.

    Parameters
    ----------
    n_inputs : int
        Number of inputs.

    Returns
    -------
    tuple of tuple of int
        Row i has a one at i; the constants are 0.
    """
    return tuple(
        tuple(int(i == j) for j in range(n_inputs + 1)) for i in range(n_inputs)
    )


def compose(layer: Sequence[Unit], inputs: Sequence[Row]) -> tuple[Unit, ...]:
    """Return the pieces of a layer's units as functions of the network's input.

    Parameters
    ----------
    layer : sequence of tuple of tuple of int
        The units by their pieces.
    inputs : sequence of tuple of int
        For each output of the layer below its row on a cell.

    Returns
    -------
    tuple of tuple of tuple of int
        For each unit and each of its pieces the row on that cell.
    """
    columns = columns_of(inputs)
    return tuple(tuple(compose_row(piece, columns) for piece in unit) for unit in layer)


def columns_of(maps: Sequence[Row]) -> list[tuple[int, ...]]:
    """Return affine maps, and the constant 1, by what each input contributes.

    Parameters
    ----------
    maps : sequence of tuple of int
        Affine functions of the network's input, one at least.

    Returns
    -------
    list of tuple of int
        For `compose_row`.
    """
    one = (*[0] * (len(maps[0]) - 1), 1)
    return list(zip(*maps, one, strict=True))


def compose_row(row: Row, columns: Sequence[tuple[int, ...]]) -> Row:
    """Return an affine function of affine functions.

    Parameters
    ----------
    row : tuple of int
        Coefficients of the functions, then the constant.
    columns : sequence of tuple of int
        What `columns_of` makes of the functions.

    Returns
    -------
    tuple of int
        Coefficients of the network's input, then the constant.
    """
    if not any(row):  # one of the two pieces of each rectifier
        return (0,) * len(columns)
    return tuple([sum(map(mul, row, column)) for column in columns])


def _choices(cone: Area, pieces: Sequence[Row]) -> list[tuple[int, Area]]:
    """Return which pieces are the largest somewhere inside, and where."""
    if len(pieces) == 1:
        return [(0, cone)]
    if len(pieces) == 2:
        low, high = cone.cut(minus(pieces[1], pieces[0]))
        return [(i, part) for i, part in ((0, low), (1, high)) if part is not None]
    found = []
    for j, piece in enumerate(pieces):
        part: Area | None = cone
        for i, other in enumerate(pieces):
            if part is None or i == j:
                continue
            # The first of pieces that are the same everywhere on the cell counts.
            if i < j:
                part = part.cut(minus(piece, other))[1]
            else:
                part = part.cut(minus(other, piece))[0]
        if part is not None:
            found.append((j, part))
    return found


def minus(a: Row, b: Row) -> Row:
    """Return the difference of two rows.

    Parameters
    ----------
    a, b : tuple of int
        Rows of equal length.

    Returns
    -------
    tuple of int
        Row a - b.
    """
    return tuple(map(sub, a, b)) if any(b) else a
