"""Shrinking: the same function with fewer units, for reasons that are listed."""

from fractions import Fraction

import numpy as np
import pytest
from theory.oracle import random_layers

from hardzero import theory
from hardzero.errors import BudgetError, ParameterError


def rules(found):
    """Return which rules took which units away."""
    return {(r.layer, r.unit): r.rule for r in found.rewrites}


@pytest.mark.parametrize(
    "sizes", [(2, 3, 2, 1), (1, 3, 3, 1), (2, 2, 2, 2, 1), (3, 4, 2)]
)
@pytest.mark.parametrize("domain", [(-1, 1), None, (0, Fraction(1, 3))])
def test_the_function_stays_the_same_and_never_gets_wider(sizes, domain):
    """At points of the domain both networks put out the same, and no layer grows."""
    rng = np.random.default_rng(0)
    n_smaller = 0
    for _ in range(25):
        network = theory.rational_network(random_layers(rng, sizes))
        found = theory.minimise(network, domain)
        assert found.proof
        assert found.before == sizes
        assert sum(found.after[1:]) <= sum(sizes[1:])
        n_smaller += found.after != sizes
        low, high = (-3, 3) if domain is None else domain
        for x in rng.integers(0, 25, (20, sizes[0])):
            point = [low + (high - low) * Fraction(int(a), 24) for a in x]
            assert network(point) == found.network(point)
        again = theory.minimise(found.network, domain)
        assert (again.after, again.rewrites) == (found.after, ())
    assert n_smaller >= 3


def test_units_that_are_never_active_go_and_those_that_always_are_become_sums():
    """On a box, of four units one is off, two are affine and dependent, one bends."""
    network = theory.rational_network(
        [([[1, 1, 2, 1]], [-5, 5, 11, 0]), ([[3], [1], [1], [1]], [0])]
    )
    found = theory.minimise(network, (-1, 1))
    assert found.after == (1, 2, 1)
    assert rules(found) == {(1, 0): "constant", (1, 2): "dependent"}
    off, dependent = found.rewrites
    assert (off.lower, off.upper) == (-6, -4)
    assert (dependent.lower, dependent.upper, dependent.into) == (9, 13, (1,))


def test_an_affine_layer_disappears():
    """A layer of units that are always active is put into the next one."""
    network = theory.rational_network(
        [([[1, 2]], [3, 5]), ([[1, -1], [1, 1]], [-8, 0]), ([[1], [1]], [0])]
    )
    found = theory.minimise(network, (-1, 1))
    assert found.after == (1, 2, 1)
    assert rules(found) == {(1, 0): "affine layer", (1, 1): "affine layer"}


def test_parallel_units_are_merged_with_their_factors():
    """R(2a) is 2 R(a), R(-a) is not."""
    network = theory.rational_network(
        [([[1, 2, -1], [1, 2, -1]], [1, 2, -1]), ([[1], [5], [1]], [0])]
    )
    found = theory.minimise(network)
    assert found.after == (2, 2, 1)
    assert rules(found) == {(1, 1): "parallel"}
    assert found.network([1, 2]) == network([1, 2]) == (44,)


def test_units_that_nothing_uses_go_with_what_only_they_use():
    """Uselessness is inherited downwards."""
    network = theory.rational_network(
        [
            ([[1, 1, 2]], [0, -1, 1]),
            ([[1, 0], [0, 1], [1, 0]], [-1, 0]),
            ([[1], [0]], [0]),
        ]
    )
    found = theory.minimise(network)
    assert found.after == (1, 2, 1, 1)
    assert rules(found) == {(2, 1): "unused", (1, 1): "unused"}


def test_a_constant_network_becomes_one_row_of_zeros():
    """Nothing is left but the output's biases."""
    network = theory.rational_network(
        [([[1, 1]], [-3, -4]), ([[1], [1]], [2]), ([[1, 2]], [0, "1/3"])]
    )
    found = theory.minimise(network, (-1, 1))
    assert found.after == (1, 2)
    assert found.network([0]) == network([0]) == (2, Fraction(13, 3))
    assert len(found.rewrites) == 3


def test_leaky_units_and_maxima_are_understood():
    """An always active leaky unit is affine; a maximum that one piece wins is, too."""
    leaky = theory.rational_network(
        [([[1, 1]], [4, 0], "leaky_rectifier(0.5)"), ([[1], [1]], [0])]
    )
    assert theory.minimise(leaky, (-1, 1)).after == (1, 2, 1)
    pool = theory.rational_network(
        [([[1, 1]], [4, 0], "identity"), theory.max_pool(2, [[0, 1]]), ([[2]], [1])]
    )
    assert theory.minimise(pool, (-1, 1)).after == (1, 1)


def test_intervals_find_less_and_exact_ranges_more():
    """X and -x are never both positive, which intervals cannot see."""
    network = theory.rational_network(
        [([[1, -1]], [0, 0]), ([[1], [1]], ["-3/2"], "rectifier"), ([[1]], [0])]
    )
    assert theory.minimise(network, (-1, 1), method="interval").after == (1, 2, 1, 1)
    assert theory.minimise(network, (-1, 1)).after == (1, 1)


def test_the_smaller_network_can_be_given_in_floats():
    """as_stack is exact, rounds only when told to, and says what it cannot write."""
    network = theory.rational_network([([[1, 3]], [1, "1/3"]), ([[1], [1]], [0])])
    with pytest.raises(ParameterError, match="1/3, which is no float64"):
        theory.as_stack(network)
    stack = theory.as_stack(network, rounding=True)
    assert stack.sizes == (1, 2, 1)
    np.testing.assert_allclose(stack([[1.0]]), [[16 / 3]])
    mixed = theory.rational_network(
        [theory.MaxLayer([[([0], 0), ([1], 2)], [([1], 1)]]), ([[1], [1]], [0])]
    )
    stack = theory.as_stack(mixed)
    assert str(stack.layers[0].activation).startswith("prelu")
    assert stack([[-3.0]]) == [[-2.0]]
    maxima = theory.rational_network([theory.max_pool(3, [[0, 1, 2]])])
    with pytest.raises(ParameterError, match="maximum of 3 pieces"):
        theory.as_stack(maxima)
    huge = theory.rational_network([([[10**400]], [0])])
    with pytest.raises(ParameterError, match="1329 bits, too large for float64"):
        theory.as_stack(huge)


def test_a_budget_is_kept():
    """Ranges and proof visit no more cells than they may."""
    network = theory.rational_network(
        random_layers(np.random.default_rng(1), (2, 6, 6, 1))
    )
    with pytest.raises(BudgetError, match="more than 3 cells"):
        theory.minimise(network, (-1, 1), budget=3)
