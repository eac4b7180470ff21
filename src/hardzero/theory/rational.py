"""Piecewise-linear networks with rational weights, kept as whole numbers.

Every unit of a network here is a maximum of affine pieces of its inputs: a rectifier is
max(0, a), a leaky rectifier max(a/100, a), the absolute value max(-a, a), an affine
unit has one piece, maxout and max pooling have several. Nothing else is needed to write
any network whose activations are piecewise linear.

Such a network computes a positively homogeneous function of (x, t) if each bias is
multiplied by t, and is itself again for t = 1. So the weights of a layer may be
multiplied by any positive number, if what the layer feeds is divided by it. That is
used to clear all denominators: rows are whole numbers, without a common factor over a
layer, and `RationalNetwork.scales` says what the outputs of a layer are multiples of.
"""

import math
import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from hardzero.activations import Activation, get
from hardzero.errors import ParameterError
from hardzero.theory.cone import Row

__all__ = [
    "Builder",
    "MaxLayer",
    "RationalNetwork",
    "as_whole",
    "difference",
    "from_rational_layers",
    "max_pool",
    "nearest_float",
    "rational_layers",
    "rational_network",
    "read_vector",
    "side_by_side",
    "text_to_fraction",
    "to_fraction",
]

Unit = tuple[Row, ...]  # its value is the maximum of these affine pieces
Units = list[list[list[list[Fraction]]]]  # of all layers, with true coefficients


@dataclass(frozen=True)
class RationalNetwork:
    """A network of maxima of affine pieces, in whole numbers.

    Build one with `rational_network`, or hand a model to any function of
    `hardzero.theory`, which reads it with `as_network`.

    Parameters
    ----------
    n_inputs : int
        Number of inputs.
    layers : tuple of tuple of tuple of tuple of int
        For each layer, for each unit, its pieces; a piece has one coefficient for each
        output of the layer below and a last one for the constant.
    scales : tuple of Fraction
        For each layer the positive number that its outputs are to be multiplied with.

    Examples
    --------
    >>> from hardzero import theory
    >>> tent = theory.rational_network([([[1, 1]], [0, "-1/2"]), ([[2], [-4]], [0])])
    >>> tent(["3/4"])
    (Fraction(1, 2),)
    """

    n_inputs: int
    layers: tuple[tuple[Unit, ...], ...]
    scales: tuple[Fraction, ...]

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.layers[-1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of inputs, then of the units of each layer."""
        return (self.n_inputs, *map(len, self.layers))

    @property
    def n_kinked(self) -> int:
        """Number of units with more than one piece."""
        return sum(len(unit) > 1 for layer in self.layers for unit in layer)

    def __call__(self, x: Iterable[Any]) -> tuple[Fraction, ...]:
        """Return the exact outputs for one input.

        Parameters
        ----------
        x : iterable of numbers, length `n_inputs`
            Ints, floats, Fractions or texts such as "1/3", each taken as it is. Arrays
            and tensors may have any shape with so many entries.

        Returns
        -------
        tuple of Fraction
            One value for each output.

        Raises
        ------
        ParameterError
            If `x` has another length, or an entry is no finite number.
        """
        h, t = self._homogeneous(x)
        return tuple(Fraction(a, t) * self.scales[-1] for a in self.outputs(h, t))

    def outputs(self, h: Sequence[int], t: int) -> list[int]:
        """Return the outputs for the input h / t, divided by ``scales[-1] / t``.

        Parameters
        ----------
        h : sequence of int, length `n_inputs`
            Numerators.
        t : int
            Denominator, positive; 0 gives the outputs far away in the direction h.

        Returns
        -------
        list of int
            One value for each output.
        """
        for layer in self.layers:
            point = (*h, t)
            h = [
                max(sum(map(operator.mul, row, point)) for row in unit)
                for unit in layer
            ]
        return list(h)

    def pattern(self, x: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
        """Return which piece of each unit is the largest for one input.

        Parameters
        ----------
        x : iterable of numbers, length `n_inputs`
            The input, as for a call.

        Returns
        -------
        tuple of tuple of int
            For each layer with kinks and each of its units the number of its piece, the
            first of those that tie: 0 for a rectifier that is off, 1 for an active one.

        Raises
        ------
        ParameterError
            If `x` has another length, or an entry is no finite number.
        """
        h, t = self._homogeneous(x)
        found = []
        for layer in self.layers:
            values = [
                [sum(map(operator.mul, row, (*h, t))) for row in unit] for unit in layer
            ]
            h = [max(of_unit) for of_unit in values]
            if any(len(unit) > 1 for unit in layer):
                found.append(tuple(v.index(max(v)) for v in values))
        return tuple(found)

    def _homogeneous(self, x: Iterable[Any]) -> tuple[list[int], int]:
        """Return numerators and their common denominator."""
        return as_whole(read_vector(x, self.n_inputs, "x"))

    def __repr__(self) -> str:
        """Return the sizes, without the weights."""
        return f"RationalNetwork({' -> '.join(map(str, self.sizes))})"


@dataclass(frozen=True)
class MaxLayer:
    """A layer of maxout units: unit j is the largest of its affine pieces.

    Parameters
    ----------
    units : sequence of sequence of tuple
        For each unit its pieces (w, b), with w of length n_inputs; entries are ints,
        floats, Fractions or texts such as "1/3".

    References
    ----------
    Goodfellow et al. 2013, "Maxout Networks", section 2.
    """

    units: Sequence[Sequence[tuple[Sequence[Any], Any]]]


def max_pool(n_inputs: int, groups: Iterable[Iterable[int]]) -> MaxLayer:
    """Return the layer that takes maxima over groups of its inputs.

    Parameters
    ----------
    n_inputs : int
        Number of inputs of the layer.
    groups : iterable of iterable of int
        For each unit the numbers of the inputs that it sees, from 0 on.

    Returns
    -------
    MaxLayer
        To be put between other layers in `rational_network`.

    Raises
    ------
    ParameterError
        If a group is empty or names an input that is not there.
    """
    try:
        members = [list(map(operator.index, group)) for group in groups]
        n_inputs = operator.index(n_inputs)
    except TypeError:
        raise ParameterError(
            f"n_inputs is {n_inputs!r} and groups is {groups!r}, expected a whole "
            "number, and for each unit a list of numbers of inputs."
        ) from None
    for number, group in enumerate(members):
        if not group or not all(0 <= i < n_inputs for i in group):
            raise ParameterError(
                f"group {number} is {group}, expected numbers of inputs from 0 to "
                f"{n_inputs - 1}. Name those that the maximum is taken over."
            )
    one_hot = [[int(i == j) for j in range(n_inputs)] for i in range(n_inputs)]
    return MaxLayer([[(one_hot[i], 0) for i in group] for group in members])


def rational_network(layers: Iterable[Any]) -> RationalNetwork:
    """Build a network from exact weights.

    Parameters
    ----------
    layers : iterable
        From the input to the output. Each is (W, b), with W of shape (n_inputs,
        n_units) and b of shape (n_units,), or (W, b, activation) with the name of a
        piecewise-linear activation of `hardzero.activations`, or a `MaxLayer`. Without
        a name all layers but the last are rectifiers, the last is affine. Entries are
        ints, floats (taken as the dyadic rationals they are), Fractions, or texts such
        as "1/3" and "0.1".

    Returns
    -------
    RationalNetwork
        It computes what the layers say, without rounding.

    Raises
    ------
    ParameterError
        If a layer is none of these, shapes do not fit, an entry is no finite number,
        or an activation is not piecewise linear.

    Examples
    --------
    >>> from hardzero import theory
    >>> absolute = theory.rational_network([([[1]], [0], "prelu(-1)")])
    >>> absolute(["-1/3"])
    (Fraction(1, 3),)
    """
    if not isinstance(layers, Iterable):
        raise ParameterError(
            f"layers is a {type(layers).__name__}, expected a list of layers (W, b)."
        )
    given = list(layers)
    if not given:
        raise ParameterError("layers is empty. Give at least one layer (W, b).")
    builder = Builder()
    for number, layer in enumerate(given, start=1):
        if isinstance(layer, MaxLayer):
            builder.add_max(number, layer)
            continue
        if not isinstance(layer, (tuple, list)) or len(layer) not in (2, 3):
            raise ParameterError(
                f"layer {number} is {type(layer).__name__}, expected (W, b), "
                "(W, b, activation) or a MaxLayer."
            )
        default = "identity" if number == len(given) else "rectifier"
        activation = get(layer[2]) if len(layer) == 3 else get(default)
        W, b = _entries(number, layer[0], layer[1])
        rows = [[*column, c] for *column, c in zip(*W, b, strict=True)]
        builder.add(number, *_whole(rows), activation)
    return builder.finish()


def rational_layers(network: RationalNetwork) -> Units:
    """Return the pieces of all units with their true coefficients.

    Parameters
    ----------
    network : RationalNetwork
        The network.

    Returns
    -------
    list of list of list of list of Fraction
        For each layer, each unit and each piece the coefficients of the outputs of the
        layer below, then the constant.
    """
    scales = [Fraction(1), *network.scales]
    return [
        [
            [[*(w * after / before for w in row[:-1]), row[-1] * after] for row in unit]
            for unit in layer
        ]
        for layer, (before, after) in zip(network.layers, pairwise(scales), strict=True)
    ]


def from_rational_layers(units: Units) -> RationalNetwork:
    """Build a network from the pieces of all units; inverse of `rational_layers`.

    Parameters
    ----------
    units : list of list of list of list of Fraction
        For each layer, each unit and each piece the coefficients of the outputs of the
        layer below, then the constant; at least one unit in each layer, and shapes fit.

    Returns
    -------
    RationalNetwork
        The network in whole numbers.
    """
    builder = Builder()
    for layer in units:
        builder.add_units(layer)
    return builder.finish()


def difference(f: RationalNetwork, g: RationalNetwork) -> RationalNetwork:
    """Return the network that computes f - g.

    Parameters
    ----------
    f, g : RationalNetwork
        Networks with as many inputs and outputs as each other.

    Returns
    -------
    RationalNetwork
        That of `side_by_side` with one more layer.

    Raises
    ------
    ParameterError
        If the numbers of inputs or outputs differ.
    """
    n = f.n_outputs
    builder = _beside(f, g)
    builder.add_units([[_unit_row(2 * n, {i: 1, n + i: -1})] for i in range(n)])
    return builder.finish()


def side_by_side(f: RationalNetwork, g: RationalNetwork) -> RationalNetwork:
    """Return the network with the outputs of both, those of `f` first.

    Parameters
    ----------
    f, g : RationalNetwork
        Networks with as many inputs and outputs as each other.

    Returns
    -------
    RationalNetwork
        Its layers hold the units of both, those of `f` first; the shallower network is
        passed on by affine units.

    Raises
    ------
    ParameterError
        If the numbers of inputs or outputs differ.
    """
    return _beside(f, g).finish()


def check_alike(f: RationalNetwork, g: RationalNetwork) -> None:
    """Raise ParameterError unless both have as many inputs and outputs.

    Parameters
    ----------
    f, g : RationalNetwork
        Networks to be compared.
    """
    for what, of_f, of_g in (
        ("inputs", f.n_inputs, g.n_inputs),
        ("outputs", f.n_outputs, g.n_outputs),
    ):
        if of_f != of_g:
            raise ParameterError(
                f"the first network has {of_f} {what}, the second {of_g}. Compare "
                f"networks with equally many {what}."
            )


def as_whole(values: Sequence[Fraction]) -> tuple[list[int], int]:
    """Return numbers times their least common denominator, and that.

    Parameters
    ----------
    values : sequence of Fraction
        Numbers.

    Returns
    -------
    whole : list of int
        The numbers times `denominator`.
    denominator : int
        Positive.
    """
    denominator = math.lcm(*(value.denominator for value in values))
    return [int(value * denominator) for value in values], denominator


def read_vector(
    given: Any, length: int, what: str, role: str = "input of the network"
) -> list[Fraction]:
    """Return the numbers of a vector as the rationals that they are.

    Parameters
    ----------
    given : iterable of numbers, array or tensor
        The vector; an array may have any shape, such as that of an image.
    length : int
        Number of entries that it has to have.
    what : str
        What an error calls it.
    role : str, default="input of the network"
        What there is one entry for.

    Returns
    -------
    list of Fraction
        Its entries, those of an array in C order.

    Raises
    ------
    ParameterError
        If it is no vector, has another length, or an entry is no finite number.
    """
    if hasattr(given, "reshape") and hasattr(given, "tolist"):
        given = given.reshape(-1).tolist()
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, dict)):
        raise ParameterError(
            f"{what} is {given!r}, expected a sequence of {length} numbers, one for "
            f"each {role}."
        )
    entries = list(given)
    if len(entries) != length:
        raise ParameterError(
            f"{what} has {len(entries)} entries, expected {length}, one for each "
            f"{role}."
        )
    return [to_fraction(a, f"entry {i} of {what}") for i, a in enumerate(entries)]


def to_fraction(value: Any, what: str) -> Fraction:
    """Return a number as the rational that it is.

    Parameters
    ----------
    value : int, float, Fraction, str, or array or tensor with one entry
        The number.
    what : str
        What an error calls it.

    Returns
    -------
    Fraction
        Equal to `value`.

    Raises
    ------
    ParameterError
        If it is no finite real number.
    """
    try:
        if isinstance(value, str):
            return text_to_fraction(value)
        return Fraction(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, RuntimeError, OverflowError, ZeroDivisionError):
        raise ParameterError(
            f"{what} is {value!r}, expected a finite number: an int, a float, a "
            'Fraction, or a text such as "1/3".'
        ) from None


def text_to_fraction(text: str) -> Fraction:
    """Return the number that a text stands for.

    Parameters
    ----------
    text : str
        Such as "-1", "0.1", "1e-3" or "1/3".

    Returns
    -------
    Fraction
        Exactly that.

    Raises
    ------
    ValueError
        If it is no number, or its exponent is beyond 100,000 in size: such a number
        would fill the memory.
    ZeroDivisionError
        If it is a fraction with the denominator 0.
    """
    exponent = text.lower().partition("e")[2].strip().lstrip("+-0")
    if len(exponent) > 5 and exponent != "100000":
        raise ValueError(f"the exponent of {text[:40]} is too large")
    return Fraction(text)


def nearest_float(value: Fraction) -> float:
    """Return the nearest float, for what need not be exact.

    Parameters
    ----------
    value : Fraction
        Any number.

    Returns
    -------
    float
        An infinity if it is beyond all floats.
    """
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


class Builder:
    """Layers in rationals, turned into whole numbers one after the other."""

    def __init__(self) -> None:
        self._n_inputs = 0
        self._layers: list[tuple[Unit, ...]] = []
        self._scales: list[Fraction] = []
        self._signs: list[int] | None = None  # that the next layer has to multiply with
        self._n_outputs: int | None = None  # of the last layer so far

    def add(
        self,
        number: int,
        rows: Sequence[Sequence[int]],
        denominator: int,
        activation: Activation,
        slopes: Any = None,
        signs: Any = None,
    ) -> None:
        """Append signs * activation(x W + b).

        Parameters
        ----------
        number : int
            Of the layer, for errors.
        rows : sequence of sequence of int
            For each unit its weights and its bias, times `denominator`.
        denominator : int
            Positive.
        activation : Activation
            One that is piecewise linear.
        slopes : sequence of numbers, optional
            Of PReLU units.
        signs : sequence of numbers, optional
            Output signs, 1 or -1.
        """
        self._check_width(number, len(rows[0]) - 1)
        n = len(rows)
        if slopes is None:
            slopes = [activation.parameter] * n
        exact = [to_fraction(slope, f"a slope of layer {number}") for slope in slopes]
        one = math.lcm(*(slope.denominator for slope in exact))
        units = []
        flipped = []
        for row, slope in zip(rows, exact, strict=True):
            factors, sign = unit_pieces(number, activation, slope)
            units.append([[int(a * one) * w for w in row] for a in factors])
            flipped.append(sign)
        self._append(units, denominator * one, flipped)
        if activation.name == "capped_rectifier":
            cap = to_fraction(activation.parameter, "cap")
            self.add_units(
                [[_unit_row(n, {j: -1}), [Fraction(0)] * n + [-cap]] for j in range(n)],
                [-1] * n,
            )
        if signs is not None and any(sign < 0 for sign in signs):
            assert self._signs is not None
            self._signs = [
                old * int(new) for old, new in zip(self._signs, signs, strict=True)
            ]

    def add_max(self, number: int, layer: MaxLayer) -> None:
        """Append a layer of maxout units.

        Parameters
        ----------
        number : int
            Of the layer, for errors.
        layer : MaxLayer
            The units.

        Raises
        ------
        ParameterError
            If it has no units, or they have no pieces or see other inputs.
        """
        try:
            given = [[(list(ws), b) for ws, b in unit] for unit in layer.units]
        except (TypeError, ValueError):
            raise ParameterError(
                f"units of layer {number} are {layer.units!r}, expected for each unit "
                "a list of pieces, each a pair of its weights and its constant."
            ) from None
        if not given:
            raise ParameterError(f"layer {number} has no units. Give at least one.")
        width = len(given[0][0][0]) if given[0] else 0
        for j, unit in enumerate(given):
            lengths = [len(ws) for ws, _ in unit]
            if not lengths or {*lengths} != {width} or not width:
                raise ParameterError(
                    f"unit {j} of layer {number} has pieces with {lengths} weights, "
                    "expected at least one piece, and one weight for each input of the "
                    "layer in all of them, as in other units."
                )
        self._check_width(number, width)
        self.add_units(
            [
                [
                    [
                        to_fraction(a, f"a number of unit {j} of layer {number}")
                        for a in (*ws, b)
                    ]
                    for ws, b in unit
                ]
                for j, unit in enumerate(given)
            ]
        )

    def add_units(
        self,
        units: Sequence[Sequence[Sequence[Fraction]]],
        signs: Sequence[int] | None = None,
    ) -> None:
        """Append units given by their rational pieces.

        Parameters
        ----------
        units : sequence of sequence of sequence of Fraction
            For each unit and each of its pieces weights and constant.
        signs : sequence of int, optional
            Output signs, 1 or -1.
        """
        whole, denominator = _whole([row for unit in units for row in unit])
        rows = iter(whole)
        self._append([[next(rows) for _ in unit] for unit in units], denominator, signs)

    def _append(
        self,
        units: Sequence[Sequence[Sequence[int]]],
        denominator: int,
        signs: Sequence[int] | None,
    ) -> None:
        """Append units given by their pieces times a denominator."""
        n_inputs = len(units[0][0]) - 1
        if self._n_outputs is None:
            self._n_inputs = n_inputs
        scale = self._scales[-1] if self._scales else Fraction(1)
        factors = [scale.numerator * sign for sign in self._signs or [1] * n_inputs]
        factors.append(scale.denominator)
        whole = [
            [list(map(operator.mul, row, factors)) for row in unit] for unit in units
        ]
        common = math.gcd(*(a for unit in whole for row in unit for a in row))
        self._layers.append(
            tuple(
                tuple(tuple(a // (common or 1) for a in row) for row in unit)
                for unit in whole
            )
        )
        # Of a layer of zeros any scale is right: the same one for all.
        new = Fraction(common, denominator * scale.denominator) or Fraction(1)
        self._scales.append(new)
        self._n_outputs = len(units)
        self._signs = list(signs) if signs is not None else [1] * len(units)

    def finish(self) -> RationalNetwork:
        """Return the network.

        Returns
        -------
        RationalNetwork
            Of the layers so far.
        """
        assert self._n_outputs is not None
        if self._signs is not None and any(sign < 0 for sign in self._signs):
            n = self._n_outputs
            self.add_units([[_unit_row(n, {i: 1})] for i in range(n)])
        return RationalNetwork(self._n_inputs, tuple(self._layers), tuple(self._scales))

    def _check_width(self, number: int, n_inputs: int) -> None:
        if self._n_outputs is not None and n_inputs != self._n_outputs:
            raise ParameterError(
                f"layer {number} has {n_inputs} inputs but layer {number - 1} has "
                f"{self._n_outputs} units. Give W of shape (n_inputs, n_units)."
            )


def unit_pieces(
    number: int, activation: Activation, slope: Fraction
) -> tuple[list[Fraction], int]:
    """Return an activation of a as sign * max(factors times a).

    Parameters
    ----------
    number : int
        Of the layer, for errors.
    activation : Activation
        The activation; a capped rectifier is left without its cap.
    slope : Fraction
        Slope of a leaky unit, for negative a.

    Returns
    -------
    factors : list of Fraction
        One for each piece.
    sign : int
        Plus or minus one.

    Raises
    ------
    ParameterError
        If the activation is not piecewise linear.
    """
    match activation.name:
        case "identity":
            return [Fraction(1)], 1
        case "rectifier" | "capped_rectifier":
            return [Fraction(0), Fraction(1)], 1
        case "leaky_rectifier" | "prelu":
            sign = 1 if slope <= 1 else -1
            return [sign * slope, Fraction(sign)], sign
    raise ParameterError(
        f"layer {number} has the activation {activation}, which is not piecewise "
        "linear. Exact answers exist for identity, rectifier, leaky_rectifier, prelu "
        "and capped_rectifier."
    )


def _entries(
    number: int, W: Any, b: Any
) -> tuple[list[list[Fraction]], list[Fraction]]:
    if hasattr(W, "toarray"):
        W = W.toarray()
    try:
        rows, biases = [list(row) for row in W], list(b)
        if any(isinstance(part, (str, Mapping, Set)) for part in (W, b, *W)):
            raise TypeError
    except TypeError:
        raise ParameterError(
            f"layer {number} has W of type {type(W).__name__} and b of type "
            f"{type(b).__name__}, expected W as rows of numbers, one row for each "
            "input, and b as a sequence of numbers."
        ) from None
    widths = {len(row) for row in rows} | {len(biases)}
    if not rows or len(widths) != 1 or not biases:
        raise ParameterError(
            f"layer {number} has W with {len(rows)} rows of length "
            f"{sorted({len(row) for row in rows})} and b of length {len(biases)}, "
            "expected W of shape (n_inputs, n_units) and b of shape (n_units,)."
        )
    exact = [
        [to_fraction(w, f"W[{i}][{j}] of layer {number}") for j, w in enumerate(row)]
        for i, row in enumerate(rows)
    ]
    return exact, [
        to_fraction(v, f"b[{j}] of layer {number}") for j, v in enumerate(biases)
    ]


def _whole(rows: Sequence[Sequence[Fraction]]) -> tuple[list[list[int]], int]:
    """Return rows times their least common denominator, and that."""
    denominator = math.lcm(*(a.denominator for row in rows for a in row))
    return [[int(a * denominator) for a in row] for row in rows], denominator


def _beside(f: RationalNetwork, g: RationalNetwork) -> "Builder":
    check_alike(f, g)
    builder = Builder()
    depth = max(len(f.layers), len(g.layers))
    before, after = 0, 0
    for of_f, of_g in zip(_passed_on(f, depth), _passed_on(g, depth), strict=True):
        units = [[_padded(row, 0, after) for row in unit] for unit in of_f]
        units += [[_padded(row, before, 0) for row in unit] for unit in of_g]
        builder.add_units(units)
        before, after = len(of_f), len(of_g)
    return builder


def _passed_on(network: RationalNetwork, depth: int) -> Units:
    """Return the units of each layer, and identities from then on until `depth`."""
    n = network.n_outputs
    identity = [[_unit_row(n, {i: 1})] for i in range(n)]
    return rational_layers(network) + [identity] * (depth - len(network.layers))


def _padded(row: Sequence[Fraction], before: int, after: int) -> list[Fraction]:
    zero = Fraction(0)
    return [*[zero] * before, *row[:-1], *[zero] * after, row[-1]]


def _unit_row(n: int, entries: dict[int, int]) -> list[Fraction]:
    return [Fraction(entries.get(i, 0)) for i in range(n + 1)]
