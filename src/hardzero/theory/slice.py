"""A network looked at on a plane, or on any affine subspace, of its inputs."""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from hardzero.errors import ParameterError
from hardzero.theory.cone import Row, dot
from hardzero.theory.convert import as_network
from hardzero.theory.rational import RationalNetwork, read_vector

__all__ = ["restrict", "slice_plane"]


def slice_plane(model: Any, origin: Any, u: Any, v: Any) -> RationalNetwork:
    """Return the network that computes f(origin + s u + t v) from s and t.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads; f is what it computes.
    origin, u, v : sequence of numbers, length n_inputs
        A point of the plane and two directions in it, not parallel. Entries are ints,
        floats, Fractions or texts such as "1/3", each taken as it is.

    Returns
    -------
    RationalNetwork
        With two inputs and as many layers, exactly.

    Raises
    ------
    ParameterError
        If the model cannot be read, a length differs from the number of inputs, an
        entry is no finite number, or the directions are parallel.

    Examples
    --------
    >>> from hardzero import theory
    >>> total = theory.rational_network([([[1]] * 3, [0])])
    >>> plane = theory.slice_plane(total, ["1/2", 0, 0], [1, 1, 0], [0, 0, 1])
    >>> plane([1, 1])
    (Fraction(7, 2),)
    """
    network = as_network(model)
    first, second = (
        _vector(network, name, vector) for name, vector in (("u", u), ("v", v))
    )
    if _are_parallel(first, second):
        raise ParameterError(
            "u and v are parallel, or one of them is 0, so that they span no plane. "
            "Give two directions that are not multiples of each other."
        )
    return restrict(network, origin, [first, second])


def restrict(model: Any, origin: Any, directions: Any) -> RationalNetwork:
    """Return the network that computes f(origin + sum of s_k directions[k]) from s.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads; f is what it computes.
    origin : sequence of numbers, length n_inputs
        The input for s = 0.
    directions : sequence of sequences of numbers, shape (n_directions, n_inputs)
        At least one direction.

    Returns
    -------
    RationalNetwork
        With `n_directions` inputs and as many layers, exactly.

    Raises
    ------
    ParameterError
        If the model cannot be read, there is no direction, a length differs from the
        number of inputs, or an entry is no finite number.
    """
    network = as_network(model)
    start = _vector(network, "origin", origin)
    if not isinstance(directions, Iterable) or not (given := list(directions)):
        raise ParameterError(
            f"directions is {directions!r}, expected a list of at least one direction."
        )
    steps = [_vector(network, f"direction {k}", v) for k, v in enumerate(given)]
    scale = math.lcm(*(a.denominator for vector in (start, *steps) for a in vector))
    point, *moves = (
        tuple(int(a * scale) for a in vector) for vector in (start, *steps)
    )
    # With x = (point + sum of s_k moves[k]) / scale, the first layer's rows become
    # these, for (s, 1), times 1 / scale; each later layer divides by what its inputs
    # are too large, all in whole numbers.
    layers = [
        tuple(
            tuple(
                (*(dot(row[:-1], move) for move in moves), dot(row, (*point, scale)))
                for row in unit
            )
            for unit in network.layers[0]
        )
    ]
    layers += network.layers[1:]
    return _reduced(len(steps), layers, network.scales, scale)


def _reduced(
    n_inputs: int,
    layers: Sequence[tuple[tuple[Row, ...], ...]],
    scales: Sequence[Fraction],
    excess: int,
) -> RationalNetwork:
    """Return the network whose first layer is `excess` times too large.

    Each layer loses its common factor, for which the scales and the biases of the
    layers above make up.
    """
    factor = Fraction(1, excess)  # what the outputs of a layer are to be multiplied by
    reduced, new_scales = [], []
    for number, (layer, scale) in enumerate(zip(layers, scales, strict=True)):
        p, q = (1, 1) if number == 0 else factor.as_integer_ratio()
        rows = [
            [[*(p * a for a in row[:-1]), q * row[-1]] for row in unit]
            for unit in layer
        ]
        common = math.gcd(*(a for unit in rows for row in unit for a in row)) or 1
        reduced.append(
            tuple(
                tuple(tuple(a // common for a in row) for row in unit) for unit in rows
            )
        )
        factor = factor * common if number == 0 else Fraction(common, q)
        new_scales.append(scale * factor)
    return RationalNetwork(n_inputs, tuple(reduced), tuple(new_scales))


def _vector(network: RationalNetwork, name: str, given: Any) -> tuple[Fraction, ...]:
    return tuple(read_vector(given, network.n_inputs, name))


def _are_parallel(u: Sequence[Fraction], v: Sequence[Fraction]) -> bool:
    lead = next((i for i, a in enumerate(u) if a), None)
    if lead is None:
        return True
    return all(u[lead] * b == v[lead] * a for a, b in zip(u, v, strict=True))
