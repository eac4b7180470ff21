"""The one way to write a network with one hidden layer, on all of R^d.

Every such network computes f(x) = c + v.x + sum_k s_k R(h_k(x)), R(z) = max(z, 0), with
distinct hyperplanes h_k = 0 and s_k != 0. If the first nonzero coefficient of each h_k
is 1, this form is unique: across h_k = 0 the gradient of f jumps by s_k times the
normal, and what is left without the jumps is affine. So two functions are equal if and
only if their forms are.

To find it, every unit is written as such a sum, layer by layer, with max(p, q) =
p + R(q - p) and, for a row with a negative first coefficient, R(-h) = R(h) - h. Affine
layers vanish on the way. R of a sum that has kinks itself is one again only if the sum
is a function of a single direction u.x; so it is for a capped rectifier, and always if
d = 1.

References
----------
Dereich & Kassing 2021, "On minimal representations of shallow ReLU networks".
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count, pairwise
from typing import Any

from hardzero.errors import BudgetError, ParameterError
from hardzero.theory.cone import Row, dot, primitive
from hardzero.theory.convert import as_network
from hardzero.theory.rational import RationalNetwork, check_alike
from hardzero.theory.visits import check_budget

__all__ = ["CanonicalForm", "Hyperplane", "canonical_form", "first_difference"]

Vector = tuple[Fraction, ...]
Hyperplane = tuple[Vector, Fraction]  # (u, b), which is where u.x + b = 0


def canonical_form(model: Any, *, budget: int = 1_000_000) -> "CanonicalForm":
    """Return the unique form of a network with one hidden layer.

    Parameters
    ----------
    model : object
        Any model that `hardzero.theory.as_network` reads, or a `CanonicalForm`, which
        is returned. Its units may be rectifiers, leaky ones, absolute values or any
        maximum of two affine pieces. There may be affine layers before and after, and
        further layers if what each of their kinked units gets depends on one direction
        only, as it does for one input.
    budget : int, default=1_000_000
        Largest number of kinks in a layer; with several layers they can be many.

    Returns
    -------
    CanonicalForm
        Forms are equal if and only if the functions are.

    Raises
    ------
    ParameterError
        If the model cannot be read, or is no sum of an affine function and rectifiers
        in general.
    BudgetError
        If there are more kinks than the budget.

    Examples
    --------
    >>> from hardzero import theory
    >>> absolute = theory.rational_network([([[2, -2]], [1, -1]), ([[1], [1]], [0])])
    >>> form = theory.canonical_form(absolute)
    >>> form.constant, form.linear
    ((Fraction(-1, 1),), ((Fraction(-2, 1),),))
    >>> form.kinks
    {((Fraction(1, 1),), Fraction(1, 2)): (Fraction(4, 1),)}
    """
    if isinstance(model, CanonicalForm):
        return model
    check_budget(budget, "kinks")
    network = as_network(model)
    n = network.n_inputs + 1
    units: list[_Sum] | None = None
    for number, layer in enumerate(network.layers, start=1):
        units = [_largest(number, unit, units, n) for unit in layer]
        n_kinks = sum(len(unit.kinks) for unit in units)
        if n_kinks > budget:
            raise BudgetError(
                f"the units of layer {number} have {n_kinks:,} kinks, the budget is "
                f"{budget:,}. Raise budget, or ask theory.equal on a bounded domain."
            )
    assert units is not None
    scale = network.scales[-1]
    affine = [[a * scale for a in unit.affine or [0] * n] for unit in units]
    rows = sorted({row for unit in units for row in unit.kinks})
    return CanonicalForm(
        network.n_inputs,
        tuple(row[-1] for row in affine),
        tuple(tuple(row[:-1]) for row in affine),
        tuple(
            (row, tuple(unit.kinks.get(row, 0) * scale for unit in units))
            for row in rows
        ),
    )


@dataclass(frozen=True, repr=False)
class CanonicalForm:
    """A function c + v.x + sum_k s_k R(h_k(x)), with a c, v and s_k for each output.

    Parameters
    ----------
    n_inputs : int
        Length d of x.
    constant : tuple of Fraction, length n_outputs
        For each output its c.
    linear : tuple of tuple of Fraction, n_outputs of length `n_inputs`
        For each output its v.
    terms : tuple of (row, weights)
        For each h_k, in order, its coefficients and its constant as whole numbers
        without a common factor, the first one positive; and for each output what
        R of that is multiplied with. `kinks` has the same with leading ones.
    """

    n_inputs: int
    constant: Vector
    linear: tuple[Vector, ...]
    terms: tuple[tuple[Row, Vector], ...]

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.constant)

    @property
    def n_kinks(self) -> int:
        """Number of hyperplanes across which the gradient jumps."""
        return len(self.terms)

    @cached_property
    def kinks(self) -> Mapping[Hyperplane, Vector]:
        """For each hyperplane (u, b), u.x + b = 0, the s of each output.

        The first nonzero coefficient of u is 1.
        """
        found: dict[Hyperplane, Vector] = {}
        for row, weights in self.terms:
            lead = next(filter(None, row))
            *u, b = (Fraction(a, lead) for a in row)
            found[tuple(u), b] = tuple(w * lead for w in weights)
        return found

    def __call__(self, x: Any) -> Vector:
        """Return the exact outputs for one input.

        Parameters
        ----------
        x : iterable of numbers, length `n_inputs`
            Ints, floats, Fractions or texts such as "1/3", each taken as it is.

        Returns
        -------
        tuple of Fraction
            One value for each output.

        Raises
        ------
        ParameterError
            If `x` has another length, or an entry is no finite number.
        """
        return self._network(x)

    def to_network(self) -> RationalNetwork:
        """Return a network that computes the function.

        Returns
        -------
        RationalNetwork
            With one rectifier for each kink, and one affine hidden unit for each output
            with v != 0. Without kinks it has no hidden layer.
        """
        return self._network

    @cached_property
    def _network(self) -> RationalNetwork:
        if not self.terms:
            pairs = zip(self.linear, self.constant, strict=True)
            outputs, scale = _whole([[*v, c] for v, c in pairs])
            return RationalNetwork(self.n_inputs, (_units(outputs),), (scale,))
        zero = (0,) * (self.n_inputs + 1)
        hidden: list[tuple[Row, ...]] = [(zero, row) for row, _ in self.terms]
        passed = []
        for o, v in enumerate(self.linear):
            if any(v):
                (row,), scale = _whole([[*v, Fraction(0)]])
                hidden.append((row,))
                passed.append((o, scale))
        outputs, scale = _whole(
            [
                [
                    *(weights[o] for _, weights in self.terms),
                    *(factor if o == p else Fraction(0) for p, factor in passed),
                    c,
                ]
                for o, c in enumerate(self.constant)
            ]
        )
        layers = (tuple(hidden), _units(outputs))
        return RationalNetwork(self.n_inputs, layers, (Fraction(1), scale))

    def __repr__(self) -> str:
        """Return the sizes, without the numbers."""
        return (
            f"CanonicalForm({self.n_inputs} -> {self.n_outputs}, "
            f"{self.n_kinks} kink{'s' * (self.n_kinks != 1)})"
        )


def first_difference(f: Any, g: Any) -> Vector | None:
    """Return a point at which two functions differ, if there is one.

    Parameters
    ----------
    f, g : object
        Canonical forms, or models that have one, with as many inputs and outputs as
        each other.

    Returns
    -------
    tuple of Fraction or None
        A point x with f(x) != g(x), the origin if it is one; None if f = g on R^d.

    Raises
    ------
    ParameterError
        If one has no canonical form, or numbers of inputs or outputs differ.

    Notes
    -----
    If a kink of f - g is k.x + b = 0, then f - g bends there on every line that crosses
    it away from all other kinks; so at one of three points of such a line, on k and a
    little to either side, f - g is not 0. A point of k that lies on no other kink is
    found on the curve (r, r^2, r^3, ...): each other kink meets it at most d times.
    """
    first, second = canonical_form(f), canonical_form(g)
    check_alike(first.to_network(), second.to_network())
    if first == second:
        return None
    return next(x for x in _candidates(first, second) if first(x) != second(x))


@dataclass(frozen=True)
class _Sum:
    """What a unit computes: an affine row and multiples of R of primitive rows."""

    affine: Sequence[int] | None  # None is 0
    kinks: Mapping[Row, int]


def _largest(
    number: int, pieces: Sequence[Row], units: Sequence[_Sum] | None, n: int
) -> _Sum:
    """Return the maximum of affine pieces of the units below."""
    largest = _combined(pieces[0], units, n)
    for piece in pieces[1:]:
        excess = _plus(_combined(piece, units, n), largest, -1)
        rectified = _rectified(excess)
        if rectified is None:
            raise ParameterError(
                f"layer {number} has a kink that depends on kinks before it, or a "
                "maximum of more than two pieces, so the network has no canonical "
                "form. Compare deep networks with theory.equal."
            )
        largest = _plus(largest, rectified, 1)
    return largest


def _combined(row: Row, units: Sequence[_Sum] | None, n: int) -> _Sum:
    """Return an affine function of the units below, or of the inputs."""
    if units is None:
        return _Sum(row, {})
    affine = [0] * (n - 1) + [row[-1]]
    kinks: dict[Row, int] = {}
    for w, unit in zip(row, units, strict=False):
        if not w:
            continue
        if unit.affine is not None:
            affine = [a + w * b for a, b in zip(affine, unit.affine, strict=True)]
        for key, weight in unit.kinks.items():
            kinks[key] = kinks.get(key, 0) + w * weight
    return _Sum(affine, {key: weight for key, weight in kinks.items() if weight})


def _plus(f: _Sum, g: _Sum, factor: int) -> _Sum:
    """Return f + factor g."""
    affine = f.affine
    if g.affine is not None:
        start = f.affine or (0,) * len(g.affine)
        affine = [a + factor * b for a, b in zip(start, g.affine, strict=True)]
    kinks = dict(f.kinks)
    for key, weight in g.kinks.items():
        kinks[key] = kinks.get(key, 0) + factor * weight
    return _Sum(affine, {key: weight for key, weight in kinks.items() if weight})


def _rectified(f: _Sum) -> _Sum | None:
    """Return R(f), or None if f depends on more than one direction and has kinks."""
    if f.kinks:
        return _rectified_ridge(f)
    row = f.affine or ()
    lead = next(filter(None, row[:-1]), 0)
    if not lead:
        return f if any(row) and row[-1] > 0 else _Sum(None, {})
    factor = math.gcd(*row)
    if lead > 0:
        return _Sum(None, {tuple(a // factor for a in row): factor})
    return _Sum(row, {tuple(-a // factor for a in row): factor})


def _rectified_ridge(f: _Sum) -> _Sum | None:
    """Return R(f) for f(x) = g(z), z = u.x, where g may have kinks."""
    u = primitive(next(iter(f.kinks))[:-1])
    bends = []
    for key, weight in f.kinks.items():
        m = _ratio(key[:-1], u)
        if m is None:
            return None
        bends.append((Fraction(-key[-1], m), weight * m, weight * key[-1]))
    *gradient, intercept = f.affine or (0,) * (len(u) + 1)
    slope = _ratio(gradient, u)
    if slope is None:
        return None
    bends.sort()
    # Far to the left, R(g) is g or 0; then its slope changes at bends and roots of g.
    is_positive = slope < 0 or (slope == 0 and intercept > 0)
    affine = f.affine if is_positive else None
    slopes: list[tuple[Fraction | None, int]] = []  # from where on, which slope
    lower: Fraction | None = None
    for upper, more, higher in [*bends, (None, 0, 0)]:
        root = Fraction(-intercept, slope) if slope else None
        if root is not None and _is_between(lower, root, upper):
            slopes += [(lower, min(slope, 0)), (root, max(slope, 0))]
        else:
            is_positive = slope * _inside(lower, upper) + intercept > 0
            slopes.append((lower, slope if is_positive else 0))
        lower, slope, intercept = upper, slope + more, intercept + higher
    kinks = {}
    for (_, before), (z, after) in pairwise(slopes):
        assert z is not None
        if before != after:  # the jump is a multiple of the denominator of z
            key = (*(a * z.denominator for a in u), -z.numerator)
            kinks[key] = (after - before) // z.denominator
    return _Sum(affine, kinks)


def _ratio(row: Sequence[int], u: Row) -> int | None:
    """Return m with row = m u, u being primitive, or None if there is none."""
    place = next(i for i, a in enumerate(u) if a)
    m = row[place] // u[place]
    return m if all(a == m * b for a, b in zip(row, u, strict=True)) else None


def _is_between(lower: Fraction | None, z: Fraction, upper: Fraction | None) -> bool:
    return (lower is None or lower < z) and (upper is None or z < upper)


def _inside(lower: Fraction | None, upper: Fraction | None) -> Fraction:
    """Return a point between two bends, one of which may be missing."""
    if lower is None:
        assert upper is not None
        return upper - 1
    return lower + 1 if upper is None else (lower + upper) / 2


def _whole(rows: Sequence[Sequence[Fraction]]) -> tuple[list[Row], Fraction]:
    """Return rows as multiples of one positive number, without a common factor."""
    flat = [value for row in rows for value in row]
    denominator = math.lcm(*(value.denominator for value in flat))
    factor = math.gcd(*(int(value * denominator) for value in flat)) or 1
    found = [tuple(int(v * denominator) // factor for v in row) for row in rows]
    return found, Fraction(factor, denominator)


def _candidates(f: CanonicalForm, g: CanonicalForm) -> Iterator[Vector]:
    """Yield points, at one of which f and g differ if they are not equal."""
    n = f.n_inputs
    yield (Fraction(0),) * n
    of_f, of_g = dict(f.terms), dict(g.terms)
    rows = sorted(of_f.keys() | of_g.keys())
    changed = [row for row in rows if of_f.get(row) != of_g.get(row)]
    if not changed:  # affine differences are not 0 at all corners of a simplex
        yield from (tuple(map(Fraction, row)) for row in _axes(n))
        return
    kink = changed[0]
    lead = next(i for i, a in enumerate(kink) if a)
    others = [row for row in rows if row != kink]
    for r in count():
        t = kink[lead]
        h = [t * r**i for i in range(1, n + 1)]
        h[lead] -= dot(kink, (*h, t)) // t
        distances = [(abs(dot(row, (*h, t))), abs(row[lead]) * t) for row in others]
        if all(distance for distance, _ in distances):
            break
    steps = [Fraction(distance, speed) for distance, speed in distances if speed]
    step = _power_below(min(steps, default=Fraction(1)))
    middle = [Fraction(a, t) for a in h]
    for move in (Fraction(0), step, -step):
        yield tuple(a + move * (i == lead) for i, a in enumerate(middle))


def _power_below(z: Fraction) -> Fraction:
    """Return a power of 2 that is at most z, and more than a quarter of it."""
    exponent = z.numerator.bit_length() - z.denominator.bit_length() - 1
    return Fraction(2) ** exponent


def _axes(n: int) -> list[Row]:
    return [tuple(int(i == j) for j in range(n)) for i in range(n)]


def _units(rows: Sequence[Row]) -> tuple[tuple[Row], ...]:
    return tuple((row,) for row in rows)
