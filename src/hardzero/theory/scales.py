"""One network out of the many that differ only by scales and order of hidden units.

If f(a z) = a f(z) for a > 0, as for rectifiers, the weights and the bias of a hidden
unit may be multiplied by a, if what it feeds is divided by a; units may be put in
another order, split or doubled. None of this changes the function. `normalise` undoes
it exactly, `balance_scales` uses it to make floats of similar size.

References
----------
Phuong & Lampert 2020, "Functional vs. parametric equivalence of ReLU networks": for
almost all networks whose widths do not increase there is no other freedom. There is for
some: see Grigsby, Lindsey & Rolnick 2023, "Hidden symmetries of ReLU networks".
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero.errors import ParameterError
from hardzero.stack import Layer, RectifierStack
from hardzero.theory.cone import Row
from hardzero.theory.convert import as_network
from hardzero.theory.rational import RationalNetwork

__all__ = ["balance_scales", "normalise"]

Array = npt.NDArray[Any]
Unit = tuple[Row, ...]
_Place = tuple[
    int | None, int
]  # new number of a unit and factor, or None and its value

_HOMOGENEOUS = frozenset({"identity", "rectifier", "leaky_rectifier", "prelu"})


def normalise(model: Any) -> RationalNetwork:
    """Return the same function with hidden units in a fixed scale and order.

    Hidden units that are positive multiples of each other become one, units that are
    constant become part of the biases above them, and units with no weight in the layer
    above go. The others are scaled so that their coefficients are whole numbers without
    a common factor, and sorted by them, layer by layer.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads.

    Returns
    -------
    RationalNetwork
        The same one for copies of a network whose hidden units are rescaled, permuted,
        doubled or split. Networks whose normal forms are equal are equal functions; the
        converse does not hold, see `canonical_form` and `equal` for that.

    Raises
    ------
    ParameterError
        If the model cannot be read.

    Examples
    --------
    >>> from hardzero import theory
    >>> f = theory.rational_network([([[2, 1]], [0, 1]), ([[1], [3]], [0])])
    >>> g = theory.rational_network([([["1/2", 1]], ["1/2", 0]), ([[6], [2]], [0])])
    >>> theory.normalise(f) == theory.normalise(g)
    True
    """
    network = as_network(model)
    while (simpler := _once(network)) != network:
        network = simpler
    return network


def balance_scales(stack: RectifierStack) -> RectifierStack:
    """Return the same function with incoming and outgoing weights of similar size.

    Each hidden unit is multiplied by a power of two, so that the Euclidean norm of its
    incoming weights and bias and that of its outgoing weights differ by a factor of at
    most two. This lowers the sum of squares of all numbers as far as rescaling single
    units by powers of two can.

    Parameters
    ----------
    stack : RectifierStack
        The network. Layers with other activations than identity, rectifier,
        leaky_rectifier and prelu, and units without weights on one side, stay as they
        are.

    Returns
    -------
    RectifierStack
        Exactly the same function: no weight is rounded, since a unit is rescaled only
        as far as its numbers are neither too large nor too small for that. Outputs are
        the same bit for bit, unless the activations themselves come near the largest
        or smallest floats.

    Raises
    ------
    ParameterError
        If `stack` is no RectifierStack.

    Examples
    --------
    >>> from hardzero import theory
    >>> from hardzero.stack import Layer, RectifierStack
    >>> hidden = Layer([[64.0]], [0.0], "rectifier")
    >>> stack = RectifierStack((hidden, Layer([[1.0]], [0.0], "identity")))
    >>> [layer.W.item() for layer in theory.balance_scales(stack).layers]
    [8.0, 8.0]
    """
    if not isinstance(stack, RectifierStack):
        raise ParameterError(
            f"stack is a {type(stack).__name__}, expected a RectifierStack. Take the "
            "one that a model has as its attribute stack or stack_."
        )
    weights = [layer.W.copy() for layer in stack.layers]
    biases = [layer.b.copy() for layer in stack.layers]
    hidden = [
        i
        for i, layer in enumerate(stack.layers[:-1])
        if layer.activation.name in _HOMOGENEOUS
    ]
    # Each change lowers the sum of squares, so this ends.
    while any(_balance(weights[i], biases[i], weights[i + 1]) for i in hidden):
        pass
    layers = (
        Layer(W, b, layer.activation, layer.signs, layer.slopes)
        for W, b, layer in zip(weights, biases, stack.layers, strict=True)
    )
    return RectifierStack(tuple(layers), stack.output_link)


def _once(network: RationalNetwork) -> RationalNetwork:
    """Go through the layers once; it may leave units without weights above them."""
    found: list[tuple[Unit, ...]] = []
    n_below = network.n_inputs
    places: list[_Place] = [(i, 1) for i in range(n_below)]  # of the units below
    for layer, above in pairwise(network.layers):
        used = {i for unit in above for row in unit for i, w in enumerate(row) if w}
        scaled = [_scaled(_simplified(unit, places, n_below)) for unit in layer]
        kept = sorted(
            {
                unit
                for i, (unit, _) in enumerate(scaled)
                if i in used and not _is_constant(unit)
            }
        )
        numbers = {unit: number for number, unit in enumerate(kept)}
        places = [
            (numbers.get(unit), unit[0][-1] * factor if _is_constant(unit) else factor)
            for unit, factor in scaled
        ]
        n_below = len(kept)
        found.append(tuple(kept))
    outputs = [_simplified(unit, places, n_below) for unit in network.layers[-1]]
    if not n_below:  # the function is constant
        found = []
        zeros = (0,) * network.n_inputs
        outputs = [tuple((*zeros, *row) for row in unit) for unit in outputs]
    factor = math.gcd(*(w for unit in outputs for row in unit for w in row)) or 1
    found.append(tuple(_divided(unit, factor) for unit in outputs))
    scales = [Fraction(1)] * (len(found) - 1) + [network.scales[-1] * factor]
    return RationalNetwork(network.n_inputs, tuple(found), tuple(scales))


def _simplified(unit: Unit, places: Sequence[_Place], n_below: int) -> Unit:
    """Return the pieces that can be the largest, for the new units below."""
    largest: dict[Row, int] = {}
    for row in unit:
        *moved, constant = [0] * n_below + [row[-1]]
        for w, (number, factor) in zip(row, places, strict=False):
            if number is None:
                constant += w * factor
            else:
                moved[number] += w * factor
        key = tuple(moved)
        largest[key] = max(constant, largest.get(key, constant))
    return tuple(sorted((*key, constant) for key, constant in largest.items()))


def _scaled(unit: Unit) -> tuple[Unit, int]:
    """Return the unit without a common factor, and that factor."""
    factor = math.gcd(*(w for row in unit for w in row)) or 1
    if len(unit) == 1 and not _is_constant(unit):  # an affine unit has no sign
        factor *= 1 if next(filter(None, unit[0])) > 0 else -1
    return _divided(unit, factor), factor


def _is_constant(unit: Unit) -> bool:
    return len(unit) == 1 and not any(unit[0][:-1])


def _divided(unit: Unit, factor: int) -> Unit:
    return tuple(tuple(w // factor for w in row) for row in unit)


def _balance(W: Array, b: Array, W_above: Array) -> bool:
    """Rescale the units of a layer in place; return whether one was."""
    incoming = _log_norms(np.vstack([W, b]))
    outgoing = _log_norms(W_above.T)
    changed = False
    for j in np.flatnonzero(np.isfinite(incoming) & np.isfinite(outgoing)):
        difference = outgoing[j] - incoming[j]
        if abs(difference) <= 1 + 1e-9:
            continue
        sign = 1 if difference > 0 else -1
        for size in range(round(abs(difference) / 2), 0, -1):
            power = sign * size
            if (
                _is_exact(W[:, j], power)
                and _is_exact(b[j], power)
                and _is_exact(W_above[j], -power)
            ):
                W[:, j] = np.ldexp(W[:, j], power)
                b[j] = np.ldexp(b[j], power)
                W_above[j] = np.ldexp(W_above[j], -power)
                changed = True
                break
    return changed


def _log_norms(columns: Array) -> Array:
    """Return the base-2 logarithms of Euclidean norms, -inf for columns of zeros."""
    columns = np.abs(columns.astype(np.float64))
    largest = columns.max(axis=0)
    squares = np.square(columns / np.where(largest > 0, largest, 1)).sum(axis=0)
    with np.errstate(divide="ignore"):
        logarithms: Array = np.log2(largest) + 0.5 * np.log2(squares)
    return logarithms


def _is_exact(values: Array, power: int) -> bool:
    """Return whether multiplying with 2**power rounds nothing."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(values, power)
        return bool(np.all(np.isfinite(scaled) & (np.ldexp(scaled, -power) == values)))
