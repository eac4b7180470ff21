"""A network along a segment or a polyline: every breakpoint and every affine piece.

On a line each unit is a function of one number s, whatever the number of inputs, and
changes its piece at a few values of s. Layer by layer, each span between two
breakpoints is divided where a unit of that layer changes its piece. Within a span the
pieces of a unit are lines slope * s + value, in whole numbers; from one span to the
next only what changed below is added to them.

In floats the same is done for all spans at once, from the values at their ends.

References
----------
Raghu et al. 2017, "On the Expressive Power of Deep Neural Networks": the number of
transitions along a trajectory.
"""

import math
import operator
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero.errors import ParameterError
from hardzero.theory.cells import Pattern
from hardzero.theory.cone import Row
from hardzero.theory.convert import as_network, stack_of
from hardzero.theory.rational import (
    RationalNetwork,
    Unit,
    rational_layers,
    read_vector,
    to_fraction,
    unit_pieces,
)

__all__ = ["Crossing", "Decision", "LinePiece", "PiecesAlong", "along"]

Number = Fraction | float
Line = tuple[Any, Any]  # slope and value at 0
Array = npt.NDArray[Any]

_NOISE = 1e-9  # relative difference of slopes that rounding is taken to explain


def along(model: Any, points: Any, *, exact: bool = True) -> "PiecesAlong":
    """Divide a segment or polyline into the pieces on which a network is affine.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads, with any number of inputs.
    points : sequence of points, at least 2
        The path leads from each point straight to the next one, which must differ. A
        point is a sequence of length n_inputs of ints, floats, Fractions or texts such
        as "1/3", each taken as it is; or an array or tensor with so many entries, such
        as an image.
    exact : bool, default=True
        Whether to compute in rationals. False is the fast way for large networks: it
        computes in float64, so that breakpoints closer together than rounding errors
        may come out twice, not at all, or in the wrong order.

    Returns
    -------
    PiecesAlong
        Iterate over it for the pieces; ask it for breakpoints, counts, values, and for
        the places where an output has a given value or the decision changes.

    Raises
    ------
    ParameterError
        If the model cannot be read, there are fewer than two points, one has a length
        other than the number of inputs, an entry is no finite number, or two points in
        a row are equal.

    Examples
    --------
    >>> from hardzero import theory
    >>> hat = [([[1, 1, 1]], [0, -1, -2]), ([[1], [-2], [1]], ["-1/2"])]
    >>> path = theory.along(theory.rational_network(hat), [[-1], [3]])
    >>> path.breakpoints
    (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
    >>> [path.point(crossing.start) for crossing in path.crossings()]
    [(Fraction(1, 2),), (Fraction(3, 2),)]
    """
    if exact:
        network = as_network(model)
        rational = _read_points(points, network.n_inputs)
        return PiecesAlong(tuple(rational), tuple(_exact_pieces(network, rational)))
    try:
        layers = _float_layers(model)
        rational = _read_points(points, layers[0].W.shape[2])
        corners = [tuple(float(value) for value in point) for point in rational]
        _check_distinct(corners)
        with np.errstate(over="raise", invalid="raise"):
            pieces = _float_pieces(layers, np.array(corners))
    except (OverflowError, FloatingPointError):
        raise ParameterError(
            "numbers of the network along the path are too large for float64. Ask for "
            "exact=True."
        ) from None
    return PiecesAlong(tuple(corners), tuple(pieces), exact=False)


@dataclass(frozen=True)
class LinePiece:
    """A part of a segment on which no unit changes its piece.

    Parameters
    ----------
    segment : int
        Number of the segment, from 0 on.
    start, stop : Fraction or float
        Where it begins and ends on that segment, from 0 to 1.
    pattern : tuple of tuple of int
        For each layer with kinks and each of its units the number of its piece: 0 for a
        rectifier that is off, 1 for an active one.
    slopes, intercepts : tuple of Fraction or float
        For s on the segment, from 0 to 1, output i is ``slopes[i] * s +
        intercepts[i]``.
    """

    segment: int
    start: Number
    stop: Number
    pattern: Pattern
    slopes: tuple[Any, ...] = field(repr=False)
    intercepts: tuple[Any, ...] = field(repr=False)

    @property
    def positions(self) -> tuple[Any, Any]:
        """Where it begins and ends on the whole path: segment + s."""
        return self.segment + self.start, self.segment + self.stop


@dataclass(frozen=True)
class Crossing:
    """A place where an output has a given value.

    Parameters
    ----------
    start, stop : Fraction or float
        Positions; equal, unless the output keeps the value over a while.
    before, after : {-1, 0, 1}
        Whether the output is below or above the value before and after; 0 at an end of
        the path.
    """

    start: Any
    stop: Any
    before: int
    after: int

    @property
    def changes_sign(self) -> bool:
        """Whether the output leads from one side of the value to the other."""
        return self.before * self.after < 0


@dataclass(frozen=True)
class Decision:
    """A part of the path with one decision.

    Parameters
    ----------
    start, stop : Fraction or float
        Positions on the path.
    label : int
        Number of the largest output, the first of those that tie. With one output 1 if
        it is at least the level, else 0.
    """

    start: Any
    stop: Any
    label: int


@dataclass(frozen=True, eq=False, repr=False)
class PiecesAlong:
    """A network along a path.

    A position is a number from 0 to `n_segments`: k + s with s from 0 to 1 is the point
    (1 - s) points[k] + s points[k + 1].

    Parameters
    ----------
    points : tuple of tuple
        The corners of the path.
    pieces : tuple of LinePiece
        From the beginning to the end. Within a segment, neighbours differ in their
        patterns.
    exact : bool
        Whether all numbers are Fractions and right. If not they are floats, and
        approximate.
    """

    points: tuple[tuple[Any, ...], ...]
    pieces: tuple[LinePiece, ...]
    exact: bool = True

    def __iter__(self) -> Iterator[LinePiece]:
        """Yield the pieces from the beginning to the end."""
        return iter(self.pieces)

    def __len__(self) -> int:
        """Return the number of pieces; a corner ends one, too."""
        return len(self.pieces)

    def __repr__(self) -> str:
        """Return the counts, without the pieces."""
        how = "exact" if self.exact else "approximate"
        return (
            f"PiecesAlong({self.n_segments} segments in {len(self.points[0])} "
            f"dimensions, {self.n_transitions} breakpoints, {how})"
        )

    @property
    def n_segments(self) -> int:
        """Number of segments."""
        return len(self.points) - 1

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.pieces[0].slopes)

    @cached_property
    def breakpoints(self) -> tuple[Any, ...]:
        """The positions at which a unit changes its piece.

        Corners are among them if the patterns before and after differ. A unit that is 0
        all along a piece counts as off there.
        """
        return tuple(
            after.positions[0]
            for before, after in pairwise(self.pieces)
            if before.pattern != after.pattern
        )

    @property
    def n_transitions(self) -> int:
        """Number of changes of the pattern on the way (Raghu et al. 2017)."""
        return len(self.breakpoints)

    @cached_property
    def n_activation_patterns(self) -> int:
        """Number of different patterns; a path with corners may meet one again."""
        return len({piece.pattern for piece in self.pieces})

    @cached_property
    def n_affine_pieces(self) -> int:
        """Number of longest parts of segments on which all outputs are affine.

        Where the pattern changes and the function does not, none begins. A corner
        always begins one.
        """
        return 1 + sum(
            before.segment != after.segment or not self._same_lines(before, after)
            for before, after in pairwise(self.pieces)
        )

    def point(self, position: Any) -> tuple[Any, ...]:
        """Return the input at a position.

        Parameters
        ----------
        position : int, float, Fraction or str
            From 0 to `n_segments`.

        Returns
        -------
        tuple of Fraction or float
            One value for each input.

        Raises
        ------
        ParameterError
            If the position is no number on the path.
        """
        k, s = self._place(position)
        ends = zip(self.points[k], self.points[k + 1], strict=True)
        return tuple(a + s * (b - a) for a, b in ends)

    def at(self, position: Any) -> tuple[Any, ...]:
        """Return the outputs at a position.

        Parameters
        ----------
        position : int, float, Fraction or str
            From 0 to `n_segments`.

        Returns
        -------
        tuple of Fraction or float
            One value for each output.

        Raises
        ------
        ParameterError
            If the position is no number on the path.
        """
        k, s = self._place(position)
        piece = self.pieces[bisect_right(self._begins, (k, s)) - 1]
        return _values(piece, s)

    def __call__(self, position: Any) -> tuple[Any, ...]:
        """Return the outputs at a position, as `at` does.

        Parameters
        ----------
        position : int, float, Fraction or str
            From 0 to `n_segments`.

        Returns
        -------
        tuple of Fraction or float
            One value for each output.
        """
        return self.at(position)

    def crossings(self, output: int = 0, level: Any = 0) -> tuple[Crossing, ...]:
        """Find all places where an output has a given value.

        Parameters
        ----------
        output : int, default=0
            Number of the output.
        level : int, float, Fraction or str, default=0
            The value.

        Returns
        -------
        tuple of Crossing
            In the order of the path, touches without a change of sign included.

        Raises
        ------
        ParameterError
            If there is no such output, or `level` is no finite number.
        """
        if not isinstance(output, int) or not 0 <= output < self.n_outputs:
            raise ParameterError(
                f"output is {output!r}, expected the number of an output, from 0 to "
                f"{self.n_outputs - 1}."
            )
        value = self._number(level, "level")
        parts = [
            part
            for piece in self.pieces
            for part in _signed_parts(piece, output, value)
        ]
        return tuple(_zeros(parts))

    def decisions(self, level: Any = 0) -> tuple[Decision, ...]:
        """Divide the path into parts with the same decision.

        Single points with another decision, where a tie is touched, are left out.

        Parameters
        ----------
        level : int, float, Fraction or str, default=0
            What a single output is compared with; not used for several outputs.

        Returns
        -------
        tuple of Decision
            In the order of the path; neighbours differ. The decision changes where one
            begins.

        Raises
        ------
        ParameterError
            If `level` is no finite number.
        """
        value = self._number(level, "level")
        divide = Fraction if self.exact else operator.truediv
        found: list[Decision] = []
        for piece in self.pieces:
            lines: list[Line] = list(zip(piece.slopes, piece.intercepts, strict=True))
            if self.n_outputs == 1:
                lines.append((0, value))
            runs = _envelope(lines, piece.start, piece.stop, divide)
            stops = [*(start for start, _ in runs[1:]), piece.stop]
            for (start, winner), stop in zip(runs, stops, strict=True):
                label = 1 - winner if self.n_outputs == 1 else winner
                begin = piece.segment + start
                if found and found[-1].label == label:
                    begin = found.pop().start
                found.append(Decision(begin, piece.segment + stop, label))
        return tuple(found)

    @cached_property
    def _begins(self) -> list[tuple[int, Number]]:
        return [(piece.segment, piece.start) for piece in self.pieces]

    def _same_lines(self, one: LinePiece, other: LinePiece) -> bool:
        if self.exact:
            return one.slopes == other.slopes and one.intercepts == other.intercepts
        return np.allclose(one.slopes, other.slopes, rtol=_NOISE, atol=self._noise)

    @cached_property
    def _noise(self) -> float:
        largest: float = max(abs(slope) for piece in self for slope in piece.slopes)
        return _NOISE * largest

    def _number(self, value: Any, what: str) -> Number:
        number = to_fraction(value, what)
        return number if self.exact else float(number)

    def _place(self, position: Any) -> tuple[int, Number]:
        where = to_fraction(position, "position")
        if not 0 <= where <= self.n_segments:
            raise ParameterError(
                f"position is {position}, expected a number from 0 to "
                f"{self.n_segments}, the number of segments of the path."
            )
        k = min(math.floor(where), self.n_segments - 1)
        return k, where - k if self.exact else float(where - k)


def _read_points(points: Any, n_inputs: int) -> list[tuple[Fraction, ...]]:
    try:
        rows = list(points)
    except TypeError:
        raise ParameterError(
            f"points is {type(points).__name__} without points in it, expected a "
            f"sequence of at least two points, each of {n_inputs} numbers."
        ) from None
    if len(rows) < 2:
        raise ParameterError(
            f"points has {len(rows)} points, expected at least two: where the path "
            "begins and where it ends."
        )
    read = [
        tuple(read_vector(point, n_inputs, f"point {k}"))
        for k, point in enumerate(rows)
    ]
    _check_distinct(read)
    return read


def _check_distinct(points: Sequence[tuple[Number, ...]]) -> None:
    for number, (a, b) in enumerate(pairwise(points)):
        if a == b:
            raise ParameterError(
                f"points {number} and {number + 1} are equal, so that the segment "
                "between them has no length. Leave one of them out."
            )


@dataclass
class _Span:
    """Where a segment has no breakpoint of the layers so far."""

    start: Fraction
    pattern: Pattern
    outputs: list[tuple[int, int]]  # of the last of these layers, as lines


def _exact_pieces(
    network: RationalNetwork, points: Sequence[tuple[Fraction, ...]]
) -> Iterator[LinePiece]:
    """Yield the pieces of all segments.

    All coordinates get one denominator. As a network is homogeneous in its inputs and
    the constant 1, it computes with the numerators and the constant `denominator`
    instead.
    """
    denominator = math.lcm(*(value.denominator for point in points for value in point))
    corners = [[int(value * denominator) for value in point] for point in points]
    scale = network.scales[-1] / denominator
    for segment, (a, b) in enumerate(pairwise(corners)):
        inputs = [(end - start, start) for start, end in zip(a, b, strict=True)]
        spans = [_Span(Fraction(0), (), inputs)]
        for layer in network.layers:
            spans = _divide(layer, denominator, spans)
        stops = [*(span.start for span in spans[1:]), Fraction(1)]
        for span, stop in zip(spans, stops, strict=True):
            slopes, intercepts = zip(*span.outputs, strict=True)
            yield LinePiece(
                segment,
                span.start,
                stop,
                span.pattern,
                tuple(scale * slope for slope in slopes),
                tuple(scale * value for value in intercepts),
            )


def _divide(layer: tuple[Unit, ...], one: int, spans: list[_Span]) -> list[_Span]:
    """Divide spans where a unit of a layer changes its piece."""
    lines = [[_on_span(row, spans[0].outputs, one) for row in unit] for unit in layer]
    feeds = _feeds(layer, lines) if len(spans) > 1 else []
    has_kinks = any(len(unit) > 1 for unit in layer)
    stops = [*(span.start for span in spans[1:]), Fraction(1)]
    before = spans[0]
    divided = []
    for span, stop in zip(spans, stops, strict=True):
        if span is not before:
            _follow(feeds, before.outputs, span.outputs)
            before = span
        changes: dict[Fraction, list[tuple[int, int]]] = defaultdict(list)
        for number, pieces in enumerate(lines):
            for start, piece in _runs(pieces, span.start, stop):
                changes[start].append((number, piece))
        chosen = [0] * len(lines)
        outputs = [(0, 0)] * len(lines)
        for start in sorted(changes):
            outputs = outputs.copy()
            for number, piece in changes[start]:
                slope, value = lines[number][piece]
                chosen[number], outputs[number] = piece, (slope, value)
            pattern = (*span.pattern, tuple(chosen)) if has_kinks else span.pattern
            divided.append(_Span(start, pattern, outputs))
    return divided


def _on_span(row: Row, inputs: Sequence[tuple[int, int]], one: int) -> list[int]:
    """Return the line of a piece, to be changed in place later on."""
    if not any(row):  # one of the two of each rectifier
        return [0, 0]
    slopes, values = zip(*inputs, strict=True)
    weights = row[:-1]
    return [
        sum(map(operator.mul, weights, slopes)),
        sum(map(operator.mul, weights, values), start=row[-1] * one),
    ]


def _feeds(
    layer: tuple[Unit, ...], lines: list[list[list[int]]]
) -> list[list[tuple[int, list[int]]]]:
    """Return for each output of the layer below what it feeds, and by what weight."""
    rows = [
        (row, line)
        for unit, of_unit in zip(layer, lines, strict=True)
        for row, line in zip(unit, of_unit, strict=True)
        if any(row)
    ]
    n_inputs = len(layer[0][0]) - 1
    return [[(row[i], line) for row, line in rows if row[i]] for i in range(n_inputs)]


def _follow(
    feeds: list[list[tuple[int, list[int]]]],
    before: Sequence[tuple[int, int]],
    after: Sequence[tuple[int, int]],
) -> None:
    """Add to all lines what the outputs below changed by."""
    for fed, old, new in zip(feeds, before, after, strict=True):
        if old != new:
            slope, value = new[0] - old[0], new[1] - old[1]
            for weight, line in fed:
                line[0] += weight * slope
                line[1] += weight * value


def _runs(
    pieces: Sequence[Sequence[int]], start: Fraction, stop: Fraction
) -> list[tuple[Fraction, int]]:
    """Return which pieces are the largest, and from where on."""
    if len(pieces) == 1:
        return [(start, 0)]
    if len(pieces) > 2:
        lines = [(slope, value) for slope, value in pieces]
        return _envelope(lines, start, stop, Fraction)
    slope, value = pieces[1][0] - pieces[0][0], pieces[1][1] - pieces[0][1]
    left = slope * start.numerator + value * start.denominator
    right = slope * stop.numerator + value * stop.denominator
    if left < 0 < right or right < 0 < left:
        return [(start, int(left > 0)), (Fraction(-value, slope), int(right > 0))]
    return [(start, int(left > 0 or right > 0))]


def _envelope(
    lines: Sequence[Line], start: Any, stop: Any, divide: Callable[[Any, Any], Any]
) -> list[tuple[Any, int]]:
    """Return which lines are the largest, the first of equal ones, from where on."""
    best = max(
        range(len(lines)),
        key=lambda i: (lines[i][0] * start + lines[i][1], lines[i][0], -i),
    )
    runs = [(start, best)]
    while True:
        slope, value = lines[best]
        ahead = [
            (divide(value - line[1], line[0] - slope), -line[0], i)
            for i, line in enumerate(lines)
            if line[0] > slope
        ]
        if not ahead or min(ahead)[0] >= stop:
            return runs
        at, _, best = min(ahead)
        runs.append((max(at, runs[-1][0]), best))  # in floats it may be a little less


def _values(piece: LinePiece, s: Any) -> tuple[Any, ...]:
    lines = zip(piece.slopes, piece.intercepts, strict=True)
    return tuple(slope * s + intercept for slope, intercept in lines)


@dataclass(frozen=True)
class _Part:
    """A part of the path on which output - level does not change its sign."""

    start: Any
    stop: Any
    sign: int
    is_zero_at_start: bool
    is_zero_at_stop: bool


def _signed_parts(piece: LinePiece, output: int, level: Any) -> list[_Part]:
    slope = piece.slopes[output]
    intercept = piece.intercepts[output] - level
    left, right = (slope * s + intercept for s in (piece.start, piece.stop))
    begin, end = piece.positions
    if left * right >= 0:
        return [_Part(begin, end, _sign(left + right), left == 0, right == 0)]
    middle = piece.segment - intercept / slope
    return [
        _Part(begin, middle, _sign(left), False, True),
        _Part(middle, end, _sign(right), True, False),
    ]


def _zeros(parts: Sequence[_Part]) -> Iterator[Crossing]:
    """Yield where consecutive parts are 0, at their borders or all along."""
    before, since = 0, None  # last sign other than 0; where the present zero began
    for part in parts:
        has_border = part.is_zero_at_start or before * part.sign < 0
        if since is None and (has_border or part.sign == 0):
            since = part.start
        if part.sign != 0:
            if since is not None:
                yield Crossing(since, part.start, before, part.sign)
            before, since = part.sign, None
    if parts[-1].is_zero_at_stop:
        end = parts[-1].stop
        yield Crossing(end if since is None else since, end, before, 0)


def _sign(value: Any) -> int:
    return int(value > 0) - int(value < 0)


@dataclass(frozen=True)
class _FloatLayer:
    """Units of equally many pieces; one with fewer has its first piece repeatedly."""

    W: Array  # (n_units, n_pieces, n_inputs)
    b: Array  # (n_units, n_pieces)


def _float_layers(model: Any) -> list[_FloatLayer]:
    """Return the layers that `as_network` would, in float64."""
    if isinstance(model, RationalNetwork):
        return [_float_layer(units) for units in rational_layers(model)]
    layers = []
    taken: Array = np.ones(1)  # signs of the outputs so far
    for number, layer in enumerate(stack_of(model).layers, start=1):
        W = taken[:, None] * layer.W.astype(np.float64)
        b = layer.b.astype(np.float64)
        n = layer.n_units
        slopes = [layer.activation.parameter] * n
        if layer.slopes is not None:
            slopes = layer.slopes.tolist()
        pieces = [
            unit_pieces(number, layer.activation, Fraction(slope)) for slope in slopes
        ]
        times = np.array([list(map(float, factors)) for factors, _ in pieces])
        layers.append(
            _FloatLayer(times[:, :, None] * W.T[:, None, :], times * b[:, None])
        )
        taken = np.array([float(sign) for _, sign in pieces])
        if layer.activation.name == "capped_rectifier":
            caps = np.stack([np.zeros(n), np.full(n, -layer.activation.parameter)], 1)
            below = np.stack([-np.eye(n), np.zeros((n, n))], 1)
            layers.append(_FloatLayer(below, caps))
            taken = -taken
        if layer.signs is not None:
            taken = taken * layer.signs
    if (taken < 0).any():
        layers.append(_FloatLayer(np.diag(taken)[:, None, :], np.zeros((n, 1))))
    return layers


def _float_layer(units: Sequence[Sequence[Sequence[Fraction]]]) -> _FloatLayer:
    n_pieces = max(map(len, units))
    padded = [[*unit, *[unit[0]] * (n_pieces - len(unit))] for unit in units]
    rows = np.array([[list(map(float, row)) for row in unit] for unit in padded])
    return _FloatLayer(rows[:, :, :-1], rows[:, :, -1])


def _float_pieces(layers: Sequence[_FloatLayer], corners: Array) -> list[LinePiece]:
    """Return the pieces of all segments at once.

    Outputs `h` are kept at the ends of all spans, their `slopes` on the spans.
    """
    h, slopes = corners, np.diff(corners, axis=0)
    segment = np.arange(len(slopes))
    start, stop = np.zeros(len(slopes)), np.ones(len(slopes))
    patterns: list[Array] = []
    for layer in layers:
        n_units, n_pieces, n_inputs = layer.W.shape
        W = layer.W.reshape(-1, n_inputs).T
        values = (h @ W).reshape(-1, n_units, n_pieces) + layer.b
        slopes = (slopes @ W).reshape(-1, n_units, n_pieces)
        if n_pieces == 1:
            h, slopes = values[:, :, 0], slopes[:, :, 0]
            continue
        span, share = _cuts(values, start, stop)
        # Part i is what lies before cut i, or before the end of its span.
        parts = np.sort(np.concatenate([span, np.arange(len(start))]))
        at = start[span] + share * (stop - start)[span]
        place = span + np.arange(len(span))  # of the cut among the parts
        between = values[span] + share[:, None, None] * (
            values[span + 1] - values[span]
        )
        values = np.insert(values, span + 1, between, axis=0)
        start, stop, segment = start[parts], stop[parts], segment[parts]
        stop[place], start[place + 1] = at, at
        piece = np.argmax(values[:-1] + values[1:], axis=2)
        patterns = [*(pattern[parts] for pattern in patterns), piece]
        h = values.max(axis=2)
        slopes = np.take_along_axis(slopes[parts], piece[:, :, None], axis=2)[:, :, 0]
    intercepts = h[:-1] - start[:, None] * slopes
    return _joined(segment, start, stop, patterns, slopes, intercepts)


def _cuts(values: Array, start: Array, stop: Array) -> tuple[Array, Array]:
    """Return the spans in which a unit changes its piece, and how far along, sorted."""
    if values.shape[2] == 2:
        ahead = values[:, :, 1] - values[:, :, 0]
        left, right = ahead[:-1], ahead[1:]
        span, unit = np.nonzero((left < 0) & (right > 0) | (left > 0) & (right < 0))
        share = left[span, unit] / (left[span, unit] - right[span, unit])
    else:
        best = np.argmax(values, axis=2)
        found = []
        for i, j in zip(*np.nonzero(best[:-1] != best[1:]), strict=True):
            ends = zip(values[i, j].tolist(), values[i + 1, j].tolist(), strict=True)
            lines = [(right - left, left) for left, right in ends]
            runs = _envelope(lines, 0.0, 1.0, operator.truediv)
            found += [(i, at) for at, _ in runs[1:]]
        span = np.array([i for i, _ in found], dtype=np.intp)
        share = np.array([at for _, at in found], dtype=np.float64)
    order = np.lexsort((share, span))
    span, share = span[order], share[order]
    at = start[span] + share * (stop - start)[span]
    last = np.where(np.diff(span, prepend=-1) > 0, start[span], np.roll(at, 1))
    inside = (at > last) & (at < stop[span])
    return span[inside], share[inside]


def _joined(
    segment: Array,
    start: Array,
    stop: Array,
    patterns: Sequence[Array],
    slopes: Array,
    intercepts: Array,
) -> list[LinePiece]:
    """Return spans as pieces, neighbours with the same pattern as one."""
    pieces: list[LinePiece] = []
    for i in range(len(segment)):
        pattern = tuple(tuple(of_layer[i].tolist()) for of_layer in patterns)
        piece = LinePiece(
            int(segment[i]),
            float(start[i]),
            float(stop[i]),
            pattern,
            tuple(slopes[i].tolist()),
            tuple(intercepts[i].tolist()),
        )
        last = pieces[-1] if pieces else None
        if last and (last.segment, last.pattern) == (piece.segment, pattern):
            pieces[-1] = replace(last, stop=piece.stop)
        else:
            pieces.append(piece)
    return pieces
