"""Verdicts on two networks: each comes with a witness or holds at every sample."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardzero import theory
from hardzero.errors import BudgetError, ParameterError


def random_layers(rng, sizes):
    """Draw layers (W, b) with whole-numbered weights, mostly degenerate."""
    return [
        (
            rng.integers(-2, 3, (a, b)).astype(float),
            rng.integers(-2, 3, b).astype(float),
        )
        for a, b in pairwise(sizes)
    ]


def permuted_and_rescaled(layers, rng):
    """Return the same function with other weights: units in another order, rescaled."""
    changed = [(W.copy(), b.copy()) for W, b in layers]
    for number in range(len(changed) - 1):
        (W, b), (V, c) = changed[number], changed[number + 1]
        order = rng.permutation(len(b))
        scale = 2.0 ** rng.integers(-3, 4, len(b))
        changed[number] = (W[:, order] * scale, b[order] * scale)
        changed[number + 1] = (V[order] / scale[:, np.newaxis], c)
    return changed


@pytest.mark.parametrize(
    "sizes", [(2, 4, 1), (1, 3, 3, 1), (2, 3, 3, 2), (3, 3, 2, 2, 1)]
)
@pytest.mark.parametrize("domain", [None, (-1, 1)])
def test_a_permuted_and_rescaled_copy_is_equal(sizes, domain):
    """Symmetries of the weights do not change the function."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        layers = random_layers(rng, sizes)
        copy = permuted_and_rescaled(layers, rng)
        f, g = theory.rational_network(layers), theory.rational_network(copy)
        assert theory.equal(f, g, domain)


@pytest.mark.parametrize("sizes", [(2, 4, 1), (1, 3, 3, 1), (2, 3, 3, 2)])
def test_two_verdicts_are_never_both_wrong(sizes):
    """Where networks differ, the witness shows it; where they do not, neither does any
    of many points.
    """
    rng = np.random.default_rng(1)
    n_equal = 0
    for _ in range(60):
        f = theory.rational_network(random_layers(rng, sizes))
        g = theory.rational_network(random_layers(rng, sizes))
        if rng.random() < 0.5:  # no function is like another one; small changes are
            layers = random_layers(rng, sizes)
            f = theory.rational_network(layers)
            layers[0][1][0] += rng.integers(-1, 2)
            g = theory.rational_network(layers)
        found = theory.equal(f, g, (-1, 1))
        points = [
            [Fraction(int(a), 8) for a in row]
            for row in rng.integers(-8, 9, (40, sizes[0]))
        ]
        if found:
            n_equal += 1
            assert found.witness is None
            assert all(f(x) == g(x) for x in points)
        else:
            assert found.values == (f(found.witness), g(found.witness))
            assert found.values[0] != found.values[1]
            assert all(-1 <= a <= 1 for a in found.witness)
    assert n_equal > 5


def test_networks_may_be_equal_on_a_domain_only():
    """``|x|`` is x on [0, 1], and not on all of R."""
    absolute = theory.rational_network([([[1, -1]], [0, 0]), ([[1], [1]], [0])])
    identity = theory.rational_network([([[1]], [0])])
    assert theory.equal(absolute, identity, (0, 1))
    assert not theory.equal(absolute, identity)
    assert theory.equal(absolute, identity, ([[-1]], [0]))


def test_a_difference_on_a_lower_dimensional_domain():
    """On the diagonal x = y two functions may agree, and beside it differ."""
    f = theory.rational_network([([[1], [0]], [0]), ([[1]], [0])])
    g = theory.rational_network([([[0], [1]], [0]), ([[1]], [0])])
    diagonal = ([[1, -1], [-1, 1]], [0, 0])
    assert theory.equal(f, g, diagonal)
    assert not theory.equal(f, g, ([0, 0], [1, 1]))


@pytest.mark.parametrize("domain", [(-1, 1), None])
def test_a_change_of_2_to_the_minus_40_in_one_bias_is_found(domain):
    """Exact arithmetic sees what no float forward pass does."""
    rng = np.random.default_rng(2)
    layers = [
        (rng.normal(size=(a, b)), rng.normal(size=b))
        for a, b in [(2, 8), (8, 8), (8, 1)]
    ]
    f = theory.rational_network(layers)
    layers[0][1][3] += 2.0**-40
    found = theory.equal(f, theory.rational_network(layers), domain)
    assert not found
    (a,), (b,) = found.values
    assert 0 < abs(a - b) < Fraction(1, 2**30) or domain is None


def test_networks_of_different_depth_are_compared():
    """The shallower one is passed on by affine units."""
    shallow = theory.rational_network([([[1]], [0]), ([[1]], [0])])
    deep = theory.rational_network([([[1]], [0]), ([[1]], [0]), ([[1]], [0])])
    assert theory.equal(shallow, deep)
    assert theory.equal(deep, shallow, (-1, 1))


def test_decisions_can_be_the_same_where_functions_are_not():
    """G = 2 R(f) - R(-f) decides as f does, and is another function where f > 0."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        layers = random_layers(rng, (2, 3, 1))
        f = theory.rational_network(layers)
        W, b = layers[-1]
        both = np.hstack([W, -W]), np.hstack([b, -b])
        g = theory.rational_network([*layers[:-1], both, ([[2.0], [-1.0]], [0.0])])
        assert theory.same_decision(f, g, (-2, 2))
        is_never_positive = theory.maximum(f, (-2, 2)).value <= 0  # there g is f
        assert bool(theory.equal(f, g, (-2, 2))) == is_never_positive


def test_ties_count_or_not():
    """-R(x) and -R(x) - R(-x) decide alike except at one point, on x < 0 otherwise."""
    at_most_zero = theory.rational_network([([[1]], [0]), ([[-1]], [0])])
    only_at_zero = theory.rational_network([([[1, -1]], [0, 0]), ([[-1], [-1]], [0])])
    never = theory.rational_network([([[0]], [0]), ([[0]], [-1])])
    found = theory.same_decision(only_at_zero, never)
    assert found.witness == (0,)
    assert theory.same_decision(only_at_zero, never, ties="almost_everywhere")
    for ties in ("exact", "almost_everywhere"):
        found = theory.same_decision(at_most_zero, never, ties=ties)
        assert not found
        assert found.witness[0] <= 0


def test_decisions_of_several_classes():
    """The first of the largest outputs decides; a witness shows two of them."""
    rng = np.random.default_rng(4)
    n_equal = 0
    for _ in range(40):
        layers = random_layers(rng, (2, 3, 3))
        f = theory.rational_network(layers)
        layers[-1][1][rng.integers(3)] += rng.integers(0, 2)
        g = theory.rational_network(layers)
        found = theory.same_decision(f, g, (-1, 1))
        if found:
            n_equal += 1
            for x in rng.integers(-8, 9, (40, 2)):
                point = [Fraction(int(a), 8) for a in x]
                ours, theirs = f(point), g(point)
                assert ours.index(max(ours)) == theirs.index(max(theirs))
        else:
            ours, theirs = found.values
            assert ours.index(max(ours)) != theirs.index(max(theirs))
    assert 0 < n_equal < 40


def test_what_cannot_be_compared():
    """Errors say what was given and what was expected."""
    one = theory.rational_network([([[1]], [0])])
    two = theory.rational_network([([[1], [1]], [0])])
    wide = theory.rational_network([([[1, 1]], [0, 0])])
    with pytest.raises(
        ParameterError, match="first network has 1 inputs, the second 2"
    ):
        theory.equal(one, two)
    with pytest.raises(
        ParameterError, match="first network has 1 outputs, the second 2"
    ):
        theory.same_decision(one, wide)
    with pytest.raises(ParameterError, match="ties is 'never'"):
        theory.same_decision(one, one, ties="never")
    with pytest.raises(ParameterError, match="the model is a int"):
        theory.equal(3, one)
    bend = theory.rational_network(
        [([[1, 1]], [0, -1]), ([[1], [1]], [0], "rectifier"), ([[1]], [0])]
    )
    with pytest.raises(BudgetError, match="more than 1 cells"):
        theory.same_decision(bend, bend, (-1, 2), budget=1)


def test_copies_are_told_without_cells():
    """The same normal form is enough, whatever the number of inputs and the domain."""
    rng = np.random.default_rng(0)
    layers = random_layers(rng, (30, 20, 20, 1))
    copy = permuted_and_rescaled(layers, rng)
    found = theory.equal(
        theory.rational_network(layers), theory.rational_network(copy), (-1, 1)
    )
    assert (bool(found), found.method, found.n_cells) == (True, "normal form", 0)
