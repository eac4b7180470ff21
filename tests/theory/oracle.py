"""Networks and their cells by brute force: what `hardzero.theory` must agree with.

Nothing is imported from the library. A network is a list of layers, a layer a list of
`Unit`: plus or minus the largest of some affine pieces. A row is affine: coefficients,
then the constant. Every choice of pieces is tried; whether its open cell has a point is
decided by eliminating one coordinate after the other (Fourier and Motzkin), in whole
numbers. That is slow beyond a few units, and so short that it is seen to be right.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np

Row = tuple[Any, ...]  # ints or Fractions


@dataclass(frozen=True)
class Unit:
    """A unit with the value sign * max(pieces)."""

    pieces: tuple[Row, ...]
    sign: int = 1


Network = list[list[Unit]]


@dataclass(frozen=True)
class OracleCell:
    """The open set where all `rows` are positive, with the network's `outputs`."""

    pattern: tuple[tuple[int, ...], ...]
    rows: tuple[Row, ...]
    outputs: tuple[Row, ...]


def network(layers: Iterable[tuple[Any, Any]]) -> Network:
    """Read [(W, b), ...], W of shape (in, out): rectifiers, then an affine layer."""
    *hidden, last = [(_columns(W), list(b)) for W, b in layers]
    found = []
    for columns, biases in hidden:
        rows = [
            (*map(_number, w), _number(b)) for w, b in zip(columns, biases, strict=True)
        ]
        found.append([Unit(((0,) * len(row), row)) for row in rows])
    columns, biases = last
    rows = [
        (*map(_number, w), _number(b)) for w, b in zip(columns, biases, strict=True)
    ]
    return [*found, [Unit((row,)) for row in rows]]


def random_layers(
    rng: np.random.Generator,
    sizes: Sequence[int],
    entry: Callable[[np.random.Generator], Any] = lambda rng: int(rng.integers(-2, 3)),
) -> list[tuple[list[list[Any]], list[Any]]]:
    """Draw [(W, b), ...] in small whole numbers, so that many nets are degenerate."""
    layers = []
    for n_inputs, n_units in pairwise(sizes):
        W = [[entry(rng) for _ in range(n_units)] for _ in range(n_inputs)]
        layers.append((W, [entry(rng) for _ in range(n_units)]))
    return layers


def box(lower: Sequence[Any], upper: Sequence[Any]) -> list[Row]:
    """Return rows that are positive inside a box; None stands for no bound."""
    rows: list[Row] = []
    for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
        axis = tuple(int(i == j) for j in range(len(lower)))
        if low is not None:
            rows.append((*axis, -_number(low)))
        if high is not None:
            rows.append((*(-a for a in axis), _number(high)))
    return rows


def evaluate(layers: Network, x: Sequence[Any]) -> list[Any]:
    """Return the outputs at a point."""
    h = list(x)
    for layer in layers:
        h = [u.sign * max(value(row, h) for row in u.pieces) for u in layer]
    return h


def pattern_at(layers: Network, x: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Return the first largest piece of each unit, layer by layer with kinks."""
    h = list(x)
    found = []
    for layer in layers:
        values = [[value(row, h) for row in u.pieces] for u in layer]
        h = [u.sign * max(of) for u, of in zip(layer, values, strict=True)]
        if any(len(of) > 1 for of in values):
            found.append(tuple(of.index(max(of)) for of in values))
    return tuple(found)


def value(row: Row, x: Sequence[Any]) -> Any:
    """Return the value of an affine row at a point."""
    return sum(a * v for a, v in zip(row[:-1], x, strict=True)) + row[-1]


def restricted(layers: Network, directions: Sequence[Row], origin: Row) -> Network:
    """Return the network of u that computes f(sum_i u_i directions_i + origin)."""
    first = [
        Unit(
            tuple(
                (
                    *(value((*row[:-1], 0), direction) for direction in directions),
                    value(row, origin),
                )
                for row in unit.pieces
            ),
            unit.sign,
        )
        for unit in layers[0]
    ]
    return [first, *layers[1:]]


def cells(
    layers: Network, n_inputs: int, domain: Sequence[Row] = ()
) -> list[OracleCell]:
    """Return all cells with an interior point, in the order of their patterns."""
    inputs = [tuple(int(i == j) for j in range(n_inputs + 1)) for i in range(n_inputs)]
    return [
        OracleCell(pattern, tuple(rows), outputs)
        for pattern, rows, outputs in _choices(layers, inputs, (), list(domain))
        if has_point(rows, n_inputs)
    ]


def counts(found: Sequence[OracleCell], n_inputs: int) -> tuple[int, int, int]:
    """Return the numbers of patterns, of linear regions, and of affine maps."""
    cells_of_map: dict[tuple[Row, ...], list[OracleCell]] = {}
    for cell in found:
        cells_of_map.setdefault(cell.outputs, []).append(cell)
    n_regions = 0
    for group in cells_of_map.values():
        component = list(range(len(group)))
        for i, j in combinations(range(len(group)), 2):
            if component[i] != component[j] and share_facet(
                group[i], group[j], n_inputs
            ):
                old, new = component[i], component[j]
                component = [new if c == old else c for c in component]
        n_regions += len(set(component))
    return len(found), n_regions, len(cells_of_map)


def share_facet(one: OracleCell, other: OracleCell, n_inputs: int) -> bool:
    """Return whether two cells touch in more than their rims."""
    rows = {whole(row) for row in (*one.rows, *other.rows)}
    for row in {whole(row) for row in one.rows}:
        opposite = tuple(-a for a in row)
        if opposite not in rows or not any(row[:-1]):
            continue
        pivot = next(i for i, a in enumerate(row) if a)
        on_it = [
            [
                b * abs(row[pivot]) - a * r[pivot] * (1 if row[pivot] > 0 else -1)
                for a, b in zip(row, r, strict=True)
            ]
            for r in rows - {row, opposite}
        ]
        if has_point(on_it, n_inputs):
            return True
    return False


def has_point(rows: Iterable[Sequence[Any]], n_inputs: int) -> bool:
    """Return whether all rows are positive somewhere."""
    left = {whole(row) for row in rows}
    variables = set(range(n_inputs))
    while True:
        if any(row[-1] <= 0 and not any(row[:-1]) for row in left):
            return False
        signs = {
            i: (sum(row[i] > 0 for row in left), sum(row[i] < 0 for row in left))
            for i in variables
        }
        if not signs:
            return True
        i = min(signs, key=lambda i: signs[i][0] * signs[i][1])
        variables.remove(i)
        low = [row for row in left if row[i] > 0]
        high = [row for row in left if row[i] < 0]
        left = {row for row in left if row[i] == 0}
        for p in low:
            for q in high:
                left.add(
                    whole([p[i] * b - q[i] * a for a, b in zip(p, q, strict=True)])
                )


def whole(row: Sequence[Any]) -> tuple[int, ...]:
    """Return the positive multiple of a row in whole numbers without common factor."""
    if not all(type(a) is int for a in row):
        exact = [Fraction(a) for a in row]
        denominator = math.lcm(*(a.denominator for a in exact))
        row = [int(a * denominator) for a in exact]
    factor = math.gcd(*row) or 1
    return tuple(a // factor for a in row)


def _choices(
    layers: Network, inputs: Sequence[Row], pattern: tuple[Any, ...], rows: list[Row]
) -> Iterator[tuple[tuple[Any, ...], list[Row], tuple[Row, ...]]]:
    """Yield pattern, conditions and outputs for every choice of pieces."""
    if not layers:
        yield pattern, rows, tuple(inputs)
        return
    one = (*(0,) * (len(inputs[0]) - 1), 1)
    columns = list(zip(*inputs, one, strict=True))
    units = []
    for unit in layers[0]:
        composed = [
            tuple(
                sum(w * a for w, a in zip(row, column, strict=True))
                for column in columns
            )
            for row in unit.pieces
        ]
        units.append((unit.sign, composed))
    has_kinks = any(len(pieces) > 1 for _, pieces in units)
    for chosen, conditions in _of_layer([pieces for _, pieces in units]):
        outputs = [
            tuple(sign * a for a in pieces[k])
            for (sign, pieces), k in zip(units, chosen, strict=True)
        ]
        longer = (*pattern, chosen) if has_kinks else pattern
        yield from _choices(layers[1:], outputs, longer, rows + conditions)


def _of_layer(
    units: Sequence[Sequence[Row]],
) -> Iterator[tuple[tuple[int, ...], list[Row]]]:
    """Yield every choice for a layer's units with the rows that must be positive."""
    if not units:
        yield (), []
        return
    first, *others = units
    for k, piece in enumerate(first):
        conditions = []
        for i, other in enumerate(first):
            difference = tuple(a - b for a, b in zip(piece, other, strict=True))
            if any(difference):
                conditions.append(difference)
            elif i < k:  # the same everywhere: the first of them counts
                break
        else:
            for chosen, more in _of_layer(others):
                yield (k, *chosen), conditions + more


def _columns(W: Any) -> list[tuple[Any, ...]]:
    return list(zip(*W, strict=True))


def _number(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return value if type(value) is int else Fraction(value)
