"""Exact extreme values, against a search over breakpoints and against sampling."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardzero import theory
from hardzero.errors import BudgetError, ParameterError


def random_network(rng, sizes):
    """Draw a rectifier network with whole-numbered weights, mostly degenerate."""
    return [
        (rng.integers(-2, 3, (a, b)).tolist(), rng.integers(-2, 3, b).tolist())
        for a, b in pairwise(sizes)
    ]


def breakpoints(layers, low, high):
    """Return all kinks of a network of one input in an interval, and its ends."""
    points = [Fraction(low), Fraction(high)]
    for depth in range(1, len(layers)):
        below = theory.rational_network(
            [*layers[: depth - 1], (*layers[depth - 1], "identity")]
        )
        for left, right in zip(sorted(points), sorted(points)[1:], strict=False):
            for a, b in zip(below([left]), below([right]), strict=True):
                if a * b < 0:
                    points.append(left + (right - left) * a / (a - b))
        points = sorted(set(points))
    return points


@pytest.mark.parametrize("sizes", [(1, 4, 1), (1, 3, 3, 1), (1, 3, 2, 3, 2)])
def test_extremes_of_one_input_are_those_at_its_breakpoints(sizes):
    """A piecewise-linear function takes its extremes at a kink or an end."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        layers = random_network(rng, sizes)
        network = theory.rational_network(layers)
        c = [Fraction(int(a), 3) for a in rng.integers(-3, 4, sizes[-1])]
        values = [
            sum(a * y for a, y in zip(c, network([x]), strict=True))
            for x in breakpoints(layers, -2, 3)
        ]
        for found, expected in (
            (theory.maximum(layers_of(layers), (-2, 3), c), max(values)),
            (theory.minimum(layers_of(layers), (-2, 3), c), min(values)),
        ):
            assert found.value == expected
            at = network(found.argument)
            assert sum(a * y for a, y in zip(c, at, strict=True)) == found.value
            assert -2 <= found.argument[0] <= 3


def layers_of(layers):
    """Return the network, built anew."""
    return theory.rational_network(layers)


@pytest.mark.parametrize("k", [4, 16, 20, 24, 30, 200])
def test_a_spike_of_any_height_is_found(k):
    """The largest value of a spike of width 2^-k is found, where floats see none."""
    half, h = Fraction(1, 2), Fraction(1, 2 ** (k + 1))
    spike = theory.rational_network(
        [
            ([[1, 1, 1]], [-half, -half - h, -half - 2 * h]),
            ([[2**k], [-(2 ** (k + 1))], [2**k]], [0]),
        ]
    )
    found = theory.maximum(spike, (0, 1))
    assert (found.value, found.argument) == (half, (half + h,))


def test_a_maximum_is_at_least_what_sampling_finds():
    """No sample of a box lies above the maximum or below the minimum."""
    rng = np.random.default_rng(1)
    for sizes in [(2, 6, 6, 1), (3, 5, 4, 1), (4, 6, 1)]:
        layers = [
            (rng.normal(size=(a, b)), rng.normal(size=b)) for a, b in pairwise(sizes)
        ]
        network = theory.rational_network(layers)
        h = rng.uniform(-1, 1, (20_000, sizes[0]))
        for W, b in layers[:-1]:
            h = np.maximum(h @ W + b, 0)
        values = h @ layers[-1][0] + layers[-1][1]
        high, low = theory.maximum(network, (-1, 1)), theory.minimum(network, (-1, 1))
        assert values.max() <= float(high.value) + 1e-9
        assert values.min() >= float(low.value) - 1e-9
        assert values.max() > float(high.value) - 0.3 * float(high.value - low.value)
        assert network(high.argument)[0] == high.value
        assert network(low.argument)[0] == low.value


def test_without_a_largest_value_a_direction_is_given():
    """From the argument along the direction the function grows for ever."""
    hinge = theory.rational_network([([[1], [1]], [-1]), ([[2]], [1])])
    found = theory.maximum(hinge)
    assert found.value == math.inf
    assert found.direction is not None
    values = [
        hinge([a + t * v for a, v in zip(found.argument, found.direction, strict=True)])
        for t in (0, 10, 20, 30)
    ]
    assert values[1] < values[2] < values[3]
    assert theory.minimum(hinge).value == 1
    assert theory.maximum(hinge, ([None, None], [0, 0])).value == 1


def test_domains_of_any_shape():
    """A maximum over a triangle, a segment and a point."""
    total = theory.rational_network([([[1], [1]], [0])])
    triangle = ([[-1, 0], [0, -1], [2, 1]], [0, 0, 2])
    assert theory.maximum(total, triangle).value == 2
    assert theory.maximum(total, ([0, 1], [1, 1])).value == 2
    assert theory.maximum(total, ([1, 1], [1, 1])).value == 2
    with pytest.raises(ParameterError, match="the domain is empty"):
        theory.maximum(total, ([[1, 0], [-1, 0]], [0, -1]))


def test_the_largest_difference_of_two_networks():
    """Sup |f - g| over all outputs, signs and points; 0 for equal ones."""
    f = theory.rational_network([([[1, -1]], [0, 0]), ([[1, 0], [1, 0]], [0, 0])])
    g = theory.rational_network([([[1]], [0]), ([[1, 1]], [0, "1/7"])])
    found = theory.supremum_difference(f, g, (-3, 2))
    assert found.value == 3
    assert found.argument == (-3,)
    assert theory.supremum_difference(f, f).value == 0
    assert theory.supremum_difference(f, g).value == math.inf


def test_interval_ranges_contain_exact_ones_and_exact_ones_are_attained():
    """Intervals are never too narrow; exact ranges are reached at some point."""
    rng = np.random.default_rng(2)
    for sizes in [(2, 4, 4, 1), (1, 3, 3, 2), (3, 3, 3, 1)]:
        for _ in range(8):
            network = theory.rational_network(random_network(rng, sizes))
            wide = theory.preactivation_ranges(network, (-1, 2))
            exact = theory.preactivation_ranges(network, (-1, 2), method="exact")
            for number, (of_wide, of_exact) in enumerate(zip(wide, exact, strict=True)):
                for unit, (w, e) in enumerate(zip(of_wide, of_exact, strict=True)):
                    assert w.lower <= e.lower <= e.upper <= w.upper
                    assert w.piece in (None, e.piece)
                    # An output of the network that ends with this unit, made affine.
                    last = tuple(pieces[-1:] for pieces in network.layers[number])
                    cut_off = theory.RationalNetwork(
                        network.n_inputs,
                        (*network.layers[:number], last),
                        network.scales[: number + 1],
                    )
                    c = [int(i == unit) for i in range(len(last))]
                    assert theory.maximum(cut_off, (-1, 2), c).value == e.upper
                    assert theory.minimum(cut_off, (-1, 2), c).value == e.lower
                    if number < len(exact) - 1:
                        always = {True: 0, False: 1}.get(e.upper <= 0)
                        stable = e.upper <= 0 or e.lower >= 0
                        assert e.piece == (always if stable else None)


def test_ranges_on_all_inputs_are_infinite():
    """On R^d a unit that sees an input has no bounds, one that does not is constant."""
    network = theory.rational_network([([[1, 0]], [0, 3]), ([[1], [1]], [0])])
    for method in ("interval", "exact"):
        (first, second), (output,) = theory.preactivation_ranges(network, method=method)
        assert (first.lower, first.upper, first.piece) == (-math.inf, math.inf, None)
        assert (second.lower, second.upper, second.piece) == (3, 3, 1)
        assert (output.lower, output.upper) == (3, math.inf)


def test_arguments_that_cannot_be_read():
    """Errors say what was given and what was expected."""
    network = theory.rational_network([([[1, 2]], [0, 0]), ([[1, 0], [1, 1]], [0, 0])])
    with pytest.raises(ParameterError, match="2 outputs, and c is None"):
        theory.maximum(network, (0, 1))
    with pytest.raises(ParameterError, match="c has 3 entries, expected 2"):
        theory.maximum(network, (0, 1), [1, 2, 3])
    with pytest.raises(ParameterError, match="entry 1 of c is nan"):
        theory.maximum(network, (0, 1), [1, math.nan])
    with pytest.raises(ParameterError, match='expected "interval" or "exact"'):
        theory.preactivation_ranges(network, (0, 1), method="guess")
    with pytest.raises(
        BudgetError, match=r"more than 1 cells.*largest value so far is"
    ):
        theory.maximum(network, (-1, 1), [1, 1], budget=1)
    two_kinks = theory.rational_network(
        [([[1, 1]], [0, -1]), ([[1], [1]], [0], "rectifier"), ([[1]], [0])]
    )
    with pytest.raises(BudgetError, match="in layer 2 of 3"):
        theory.preactivation_ranges(two_kinks, (-1, 2), method="exact", budget=2)


@pytest.mark.parametrize("budget", [0, -1, 1.5, "a", None, True])
def test_a_budget_is_a_number_of_cells(budget):
    """Whatever takes a budget refuses what is no whole number from 1 on."""
    network = theory.rational_network([([[1]], [0]), ([[1]], [0])])
    for ask in (
        lambda: theory.maximum(network, (0, 1), budget=budget),
        lambda: theory.supremum_difference(network, network, budget=budget),
        lambda: theory.preactivation_ranges(network, budget=budget),
        lambda: theory.equal(network, network, budget=budget),
        lambda: theory.same_decision(network, network, budget=budget),
        lambda: theory.minimise(network, (0, 1), budget=budget),
        lambda: theory.linear_regions(network, budget=budget),
    ):
        with pytest.raises(ParameterError, match=r"budget is .*, expected a whole"):
            ask()


def test_a_difference_is_certified_about_both_networks():
    """The proof names f and g, not a network made from them."""
    f = theory.rational_network([([[1, -1]], [0, 0]), ([[1], [1]], [0])])
    g = theory.rational_network([([[1]], ["1/3"])])
    found = theory.supremum_difference(f, g, (-1, 1))
    certificate = found.certificate()
    assert found.value == Fraction(5, 3)
    assert certificate.is_about(f, g)
    assert theory.verify(certificate) == (
        "5/3 is the largest difference between outputs of 1 -> 2 -> 1 and 1 -> 1 on "
        "[-1, 1], at (-1)"
    )


def test_numbers_beyond_floats_are_no_trouble():
    """Intervals without end and error messages do not go through floats."""
    huge = theory.rational_network(
        [([[10**400, -1]], [0, 10**400], "identity"), ([[1], [1]], [0])]
    )
    ((one, _), (total,)) = theory.preactivation_ranges(huge, (0, None))
    assert (one.lower, one.upper) == (0, math.inf)
    assert (total.lower, total.upper) == (-math.inf, math.inf)
    bends = theory.rational_network(
        [([[1, 1]], [0, -1]), ([[10**400], [10**400]], [10**400])]
    )
    with pytest.raises(BudgetError, match="largest value so far is inf"):
        theory.maximum(bends, (-1, 2), budget=1)
