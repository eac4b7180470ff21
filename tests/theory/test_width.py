"""The least width of a hidden layer, against a search over all smaller networks."""

import time
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from hardzero.errors import BudgetError, ParameterError
from hardzero.theory.canonical import canonical_form
from hardzero.theory.rational import rational_network
from hardzero.theory.width import least_width


def _network(rng, d, n, linear=None):
    """Small whole numbers; `linear` is added by a rectifier and its mirror image."""
    columns = rng.integers(-2, 3, (n, d + 1)).tolist()
    weights = [[w] for w in rng.choice([-2, -1, 1, 2], n).tolist()]
    if linear is not None:
        columns += [[*linear, 0], [*(-v for v in linear), 0]]
        weights += [[1], [-1]]
    W = [[column[i] for column in columns] for i in range(d)]
    return rational_network([(W, [column[-1] for column in columns]), (weights, [1])])


def _is_solvable(columns, target):
    """Whether sum_k w_k columns[k] = target for rationals w, by elimination."""
    rows = [
        [Fraction(a) for a in (*(column[i] for column in columns), target[i])]
        for i in range(len(target))
    ]
    top = 0
    for column in range(len(columns)):
        pivot = next((r for r in range(top, len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        rows[top], rows[pivot] = rows[pivot], rows[top]
        for r in range(top + 1, len(rows)):
            factor = rows[r][column] / rows[top][column]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[top], strict=True)]
        top += 1
    return not any(row[-1] for row in rows[top:])


def _width_by_search(form):
    """Try all sets of rectifiers on hyperplanes that could be of use, either way round:
    those of the kinks, one of the direction of v, and two others. The weights are
    solved for, so that each kink gets its jump and the linear part is right.
    """
    d = form.n_inputs
    hyperplanes = [(tuple(u), b) for u, b in form.kinks]
    (v,) = form.linear
    extra = [(v, Fraction(91))] if any(v) else []
    extra += [((1,) * d, Fraction(92)), ((*(0,) * (d - 1), 1), Fraction(93))]
    places = {h: i for i, h in enumerate([*hyperplanes, *extra])}
    units = []
    for (u, _), place in places.items():
        jumps = [int(i == place) for i in range(len(places))]
        units.append([*jumps, *(0 for _ in u)])  # R(h)
        units.append([*jumps, *(-a for a in u)])  # R(-h) = R(h) - h
    target = [*(s for (s,) in form.kinks.values()), *(0 for _ in extra), *v]
    for width in range(form.n_kinks + 3):
        if any(_is_solvable(chosen, target) for chosen in combinations(units, width)):
            return width
    raise AssertionError("two more than the kinks are always enough")


@pytest.mark.parametrize("seed", range(120))
def test_least_width_is_that_of_a_search(seed):
    """The width is the least one that a search finds, and the network has that many
    rectifiers and the same canonical form.
    """
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 4)), int(rng.integers(0, 4))
    linear = None if seed % 3 == 0 else rng.integers(-2, 3, d).tolist()
    network = _network(rng, d, max(n, 1), linear)
    form = canonical_form(network)
    least = least_width(network)
    assert least.width == _width_by_search(form)
    assert least.n_kinks == form.n_kinks
    assert canonical_form(least.network) == form
    if least.width:
        (hidden, _) = least.network.layers
        assert len(hidden) == least.width
        assert all(sorted(map(any, unit)) == [False, True] for unit in hidden)
    else:
        assert len(least.network.layers) == 1
    assert least_width(form).width == least.width


def test_all_three_cases_occur():
    """Two kinks, 2 R(x) + 2 R(y) + v.x, worked out by hand."""
    for linear, width in (
        ([0, 0], 2),
        ([-2, 0], 2),  # x is turned
        ([-2, -2], 2),  # both are
        ([-1, 0], 3),  # x is there twice
        ([-2, 5], 3),  # x is turned and y is there twice
        ([-1, -1], 4),
        ([3, 5], 4),
    ):
        columns = [[2, 0], [0, 2], linear, [-a for a in linear]]
        W = [[column[i] for column in columns] for i in range(2)]
        network = rational_network([(W, [0, 0, 0, 0]), ([[1], [1], [1], [-1]], [0])])
        assert least_width(canonical_form(network)).width == width, linear


def _plain_subset(steps, v):
    """Whether v plus some of the steps is 0, by trying all."""
    sums = {tuple(v)}
    for step in steps:
        sums |= {tuple(a + b for a, b in zip(s, step, strict=True)) for s in sums}
    return (0,) * len(v) in sums


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("d", [1, 2, 3, 9])
def test_least_width_of_more_kinks(seed, d):
    """With up to 10 kinks the answer is that of trying all subsets: by halves if there
    are few inputs, by what the equations leave free if there are many.
    """
    rng = np.random.default_rng(seed)
    m = int(rng.integers(5, 11))
    turned = rng.integers(0, 2, m)
    normals, biases = rng.integers(-2, 3, (m, d)), rng.integers(-50, 51, m)
    linear = -(turned @ normals) + (seed % 4 == 1) * 2 * normals[0]
    linear[0] += int(seed % 4 == 2)
    columns = [*normals.tolist(), linear.tolist(), (-linear).tolist()]
    W = [[column[i] for column in columns] for i in range(d)]
    b = [*biases.tolist(), 0, 0]
    network = rational_network([(W, b), ([[1]] * (m + 1) + [[-1]], [0])])
    form = canonical_form(network)
    (v,) = form.linear
    steps = [[s * a for a in u] for (u, _), (s,) in form.kinks.items()]
    expected = form.n_kinks
    if not _plain_subset(steps, v):
        expected += 1
        if not any(
            _plain_subset([_cross(step, u) for step in steps], _cross(v, u))
            for u, _ in form.kinks
        ):
            expected += 1
    assert least_width(form).width == expected
    assert least_width(network).width == expected


def _cross(a, u):
    """All 2 x 2 minors: they are 0 if and only if a is parallel to u."""
    return [a[i] * u[j] - a[j] * u[i] for i, j in combinations(range(len(u)), 2)]


@pytest.mark.parametrize("more", [[0, 0], [3, 3], [0, 3]])
def test_thirty_kinks(more):
    """Thirty kinks take less than five seconds, in each of the three cases."""
    rng = np.random.default_rng(0)
    normals = np.round(rng.normal(size=(30, 2)) * 2**40) / 2**40  # exact sums
    turned = rng.integers(0, 2, 30)
    linear = -(turned @ normals) + more * normals[4]  # a subset fits, or not
    W = np.vstack([normals, linear, -linear]).T
    b = np.append(rng.normal(size=30), [0, 0])
    start = time.process_time()
    least = least_width(rational_network([(W, b), ([[1]] * 31 + [[-1]], [0])]))
    assert time.process_time() - start < 5
    assert least.width == 30 + {(0, 0): 0, (3, 3): 1, (0, 3): 2}[tuple(more)]


def test_a_network_that_is_narrow_as_it_is():
    """A network with one rectifier for each kink needs no search, however wide."""
    rng = np.random.default_rng(0)
    network = rational_network(
        [(rng.normal(size=(3, 200)), rng.normal(size=200)), ([[1]] * 200, [0])]
    )
    assert least_width(network).width == 200


def test_a_budget_is_kept():
    """With too many kinks the search is refused, with the number of sums it needs."""
    rng = np.random.default_rng(0)
    W, b = rng.normal(size=(3, 50)), rng.normal(size=50)
    form = canonical_form(rational_network([(W, b), ([[1]] * 50, [0])]))
    assert any(form.linear[0])
    with pytest.raises(BudgetError, match=r"asks for 2\*\*25 partial sums.* 1,048,576"):
        least_width(form)
    W = rng.normal(size=(50, 50))  # as many equations as unknowns: nothing to search
    form = canonical_form(rational_network([(W, b), ([[1]] * 50, [0])]))
    assert least_width(form).width == 50


def test_constants_and_affine_functions():
    """A constant needs no rectifier, an affine function two."""
    constant = least_width(rational_network([([[0], [0]], ["1/3"])]))
    assert (constant.width, constant.network([1, 2])) == (0, (Fraction(1, 3),))
    affine = least_width(rational_network([([[3], ["-1/2"]], [1])]))
    assert (affine.width, affine.network([1, 2])) == (2, (3,))


def test_one_output_is_expected():
    """What is least for several outputs together is not known here."""
    network = rational_network([([[1, 1]], [0, 0])])
    with pytest.raises(ParameterError, match="has 2 outputs, expected 1"):
        least_width(network)
