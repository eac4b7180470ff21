"""The least number of rectifiers that one hidden layer needs for a function.

Let f = c + v.x + sum_k s_k R(h_k), with m kinks h_k and their normals n_k, be the
canonical form. Each hyperplane h_k = 0 needs a unit. A single one there is w R(a h_k)
with w a = s_k, or w R(-a h_k), which is s_k R(h_k) - s_k h_k: so m units do if and only
if v + sum_{k in O} s_k n_k = 0 for a set O of units that look the other way. With one
more unit, no new hyperplane can have a single unit, for it would be a kink; so a
hyperplane h_j has two, looking either way, and these can take any multiple of n_j from
v: m + 1 units do if and only if v + sum_{k in O} s_k n_k is parallel to a normal n_j.
With m + 2 units, R(v.x) - R(-v.x) = v.x can be added on a new hyperplane.

Whether such a set O exists is a subset sum problem in d dimensions.

References
----------
Dereich & Kassing 2021, "On minimal representations of shallow ReLU networks".
Horowitz & Sahni 1974, "Computing partitions with applications to the knapsack problem".
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero.errors import BudgetError, ParameterError
from hardzero.theory.canonical import CanonicalForm, canonical_form
from hardzero.theory.cone import Row, dot, negative, primitive
from hardzero.theory.convert import as_network
from hardzero.theory.rational import RationalNetwork, from_rational_layers
from hardzero.theory.scales import normalise
from hardzero.theory.visits import check_budget

__all__ = ["LeastWidth", "least_width"]

Numbers = npt.NDArray[np.int64]

_SMALL_PRIME = 2**31 - 1  # products of residues fit into 64 bits
_LARGE_PRIME = 2**61 - 1  # sums of two residues do


@dataclass(frozen=True)
class LeastWidth:
    """The least width of a hidden layer, with a network that has it.

    Parameters
    ----------
    width : int
        Least number of rectifiers in one hidden layer, from `n_kinks` to `n_kinks` + 2.
    n_kinks : int
        Number of hyperplanes across which the gradient jumps.
    network : RationalNetwork
        The same function with `width` rectifiers; none if it is constant.
    """

    width: int
    n_kinks: int
    network: RationalNetwork


def least_width(model: Any, *, budget: int = 2**20) -> LeastWidth:
    """Return the least width of a hidden layer that computes the same function on R^d.

    Parameters
    ----------
    model : object
        Any model with one output that has a `canonical_form`; units may be others than
        rectifiers, those of the answer are rectifiers.
    budget : int, default=2**20
        Largest number of partial sums to be held for the subset sum problem. With m
        kinks whose normals have rank r there are 2**(m/2) or 2**(m - r), whichever is
        less, so the default is enough for m = 40.

    Returns
    -------
    LeastWidth
        The width and a network, whose canonical form is that of the model.

    Raises
    ------
    ParameterError
        If the model has no canonical form, or more than one output.
    BudgetError
        If more partial sums were needed.

    Examples
    --------
    >>> from hardzero import theory
    >>> identity = theory.rational_network([([[1]], [0])])
    >>> theory.least_width(identity).width
    2
    """
    check_budget(budget, "partial sums")
    form = canonical_form(model)
    if form.n_outputs != 1:
        raise ParameterError(
            f"the model has {form.n_outputs} outputs, expected 1: the least width is "
            "known for one output only. Ask for one output at a time."
        )
    network = _narrowest(form, model, budget)
    if canonical_form(network) != form:
        raise AssertionError("the narrowed network computes another function")
    width = len(network.layers[0]) if len(network.layers) > 1 else 0
    return LeastWidth(width, form.n_kinks, network)


def _narrowest(form: CanonicalForm, model: Any, budget: int) -> RationalNetwork:
    m = form.n_kinks
    given = None if isinstance(model, CanonicalForm) else _rectifiers(as_network(model))
    known = m + 2 if given is None else len(given.layers[0])
    if given is not None and known == m:
        return given
    steps, v = _whole_vectors(form)
    turned = _subset(steps, v, budget)
    if turned is not None:
        return _built(form, turned)
    if given is not None and known == m + 1:
        return given
    normals = {primitive(row[:-1]): j for j, (row, _) in enumerate(form.terms)}
    for normal, j in normals.items():
        turned = _subset(
            [_without(step, normal) for step in steps], _without(v, normal), budget
        )
        if turned is not None:
            return _built(form, turned, j)
    return _built(form, set())


def _rectifiers(network: RationalNetwork) -> RationalNetwork | None:
    """Return the network in normal form if it has rectifiers in one hidden layer."""
    normal = normalise(network)
    if len(normal.layers) != 2 or len(normal.layers[1][0]) != 1:
        return None
    is_plain = all(
        len(unit) == 2 and not (any(unit[0]) and any(unit[1]))
        for unit in normal.layers[0]
    )
    return normal if is_plain else None


def _whole_vectors(form: CanonicalForm) -> tuple[list[Row], Row]:
    """Return all s_k n_k, and v, times one positive number."""
    scale = math.lcm(
        *(weight.denominator for _, (weight,) in form.terms),
        *(a.denominator for a in form.linear[0]),
    )
    steps = [
        tuple(int(weight * scale) * a for a in row[:-1])
        for row, (weight,) in form.terms
    ]
    return steps, tuple(int(a * scale) for a in form.linear[0])


def _without(row: Row, normal: Row) -> Row:
    """Map the row linearly, so that only multiples of the normal become 0."""
    lead = next(i for i, a in enumerate(normal) if a)
    return tuple(
        a * normal[lead] - row[lead] * b for a, b in zip(row, normal, strict=True)
    )


def _built(
    form: CanonicalForm, turned: set[int], doubled: int | None = None
) -> RationalNetwork:
    """Return the network whose units `turned` look the other way.

    What is left of the linear part becomes w R(h) - w R(-h) = w h, on the hyperplane
    `doubled` or on a new one.
    """
    (constant,), (linear,) = form.constant, form.linear
    units: dict[Row, Fraction] = defaultdict(Fraction)
    for k, (row, (weight,)) in enumerate(form.terms):
        if k in turned:  # R(h) = R(-h) + h
            units[negative(row)] += weight
            linear = tuple(v + weight * a for v, a in zip(linear, row, strict=False))
            constant += weight * row[-1]
        else:
            units[row] += weight
    if any(linear):
        if doubled is None:
            scale = math.lcm(*(v.denominator for v in linear))
            row = (*primitive([int(v * scale) for v in linear]), 0)
        else:
            row, _ = form.terms[doubled]
        weight = next(v / a for v, a in zip(linear, row, strict=False) if a)
        units[row] += weight
        units[negative(row)] -= weight
        constant -= weight * row[-1]
    if not units:
        return from_rational_layers([[[[*linear, constant]]]])
    zero = [Fraction(0)] * (form.n_inputs + 1)
    hidden = [[zero, [Fraction(a) for a in row]] for row in units]
    return from_rational_layers([hidden, [[[*units.values(), constant]]]])


def _subset(steps: Sequence[Row], v: Row, budget: int) -> set[int] | None:
    """Return a set O with v + sum_{k in O} steps[k] = 0, or None if there is none."""
    members = [k for k, step in enumerate(steps) if any(step)]
    steps = [steps[k] for k in members]
    if not any(v):
        return set()
    n_sums = min(len(v), len(steps))
    _check_budget(min((len(steps) + 1) // 2, len(steps) - n_sums), budget)
    reduced, pivots = _reduced(steps, v)
    if len(steps) in pivots:  # says 0 = 1
        return None
    n_free = len(steps) - len(pivots)
    n_half = (len(steps) + 1) // 2
    _check_budget(min(n_half, n_free), budget)
    search = (
        _by_free_choices(reduced, pivots) if n_free <= n_half else _by_halves(steps, v)
    )
    for chosen in search:
        total = list(v)
        for k in chosen:
            total = [a + b for a, b in zip(total, steps[k], strict=True)]
        if not any(total):
            return {members[k] for k in chosen}
    return None


def _check_budget(n_bits: int, budget: int) -> None:
    if 2**n_bits > budget:
        raise BudgetError(
            f"the least width asks for 2**{n_bits} partial sums, the budget is "
            f"{budget:,}. It is the number of kinks or at most 2 more: raise budget "
            "to know it, or be content with canonical_form."
        )


def _reduced(steps: Sequence[Row], v: Row) -> tuple[Numbers, list[int]]:
    """Return sum_k x_k steps[k] = -v, solved for some x_k modulo the small prime.

    Solutions in whole numbers are among those modulo a prime, so none is lost.
    """
    p = _SMALL_PRIME
    columns = [[a % p for a in step] for step in steps] + [[-a % p for a in v]]
    matrix = np.array(columns, dtype=np.int64).T.copy()
    pivots: list[int] = []
    for column in range(matrix.shape[1]):
        top = len(pivots)
        below = np.flatnonzero(matrix[top:, column])
        if not len(below):
            continue
        matrix[[top, top + below[0]]] = matrix[[top + below[0], top]]
        matrix[top] = matrix[top] * pow(int(matrix[top, column]), -1, p) % p
        others = np.flatnonzero(matrix[:, column])
        others = others[others != top]
        matrix[others] -= matrix[others, column, None] * matrix[top] % p
        matrix[others] %= p
        pivots.append(column)
        if len(pivots) == len(matrix):
            break
    return matrix[: len(pivots)], pivots


def _by_free_choices(matrix: Numbers, pivots: Sequence[int]) -> Iterator[list[int]]:
    """Yield sets O modulo the small prime: all choices of what is free, if they fit."""
    free = [k for k in range(matrix.shape[1] - 1) if k not in pivots]
    choices = np.arange(2 ** len(free), dtype=np.int64)
    for row in matrix:
        choices = choices[_solved(row, free, choices) <= 1]
    for choice in choices:
        bound = [
            k
            for k, row in zip(pivots, matrix, strict=True)
            if _solved(row, free, choice)
        ]
        yield bound + [k for i, k in enumerate(free) if choice >> i & 1]


def _solved(row: Numbers, free: Sequence[int], choices: Any) -> Any:
    """Return what the unknown of a pivot must be for choices of the free ones."""
    used = sum((choices >> i & 1) * row[k] for i, k in enumerate(free))
    return (row[-1] - used) % _SMALL_PRIME


def _by_halves(steps: Sequence[Row], v: Row) -> Iterator[list[int]]:
    """Yield sets O modulo the large prime: sums of one half that complete the other."""
    draw = random.Random(0)
    weights = [draw.randrange(1, _LARGE_PRIME) for _ in v]
    values = [dot(step, weights) % _LARGE_PRIME for step in steps]
    n = len(values) // 2
    left, right = _sums(values[:n]), _sums(values[n:])
    missing = (-dot(v, weights) % _LARGE_PRIME - right) % _LARGE_PRIME
    for value in _common(left, missing):
        for i in np.flatnonzero(left == value):
            for j in np.flatnonzero(missing == value):
                chosen = int(i) | int(j) << n
                yield [k for k in range(len(values)) if chosen >> k & 1]


def _common(a: Numbers, b: Numbers) -> Numbers:
    """Return the values that are in both, by a table of their last bits at first."""
    size = 2 ** (len(a).bit_length() + 5)
    for _ in range(2):
        seen = np.zeros(size, dtype=bool)
        seen[a % size] = True
        a, b = b[seen[b % size]], a
    return np.intersect1d(a, b)


def _sums(values: Sequence[int]) -> Numbers:
    """Return the sums of all subsets, that of the set with bits i at place i."""
    sums = np.zeros(1, dtype=np.int64)
    for value in values:
        sums = np.concatenate([sums, (sums + value) % _LARGE_PRIME])
    return sums
