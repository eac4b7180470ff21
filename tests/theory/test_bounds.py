"""Bounds of the number of cells, and exact counts of one layer."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from theory import oracle

from hardzero.errors import BudgetError, ParameterError
from hardzero.theory.bounds import _are_independent, count_arrangement, region_bounds
from hardzero.theory.cells import split
from hardzero.theory.cone import Cone
from hardzero.theory.rational import MaxLayer, rational_network

# Inputs and widths, then how many cells some network of that shape has on R^d.
MEASURED = {
    (2, 8, 8): 111,
    (2, 16, 16): 450,
    (2, 32, 32): 2034,
    (2, 64, 64): 7397,
    (2, 16, 16, 16): 1047,
    (3, 8, 8): 796,
    (3, 16, 16): 4318,
    (4, 8, 8): 2367,
    (4, 16, 16): 33196,
}


def one_layer(rows, biases, activation="rectifier"):
    """Build a network from the weights of one layer, by units."""
    W = [*zip(*rows, strict=True)]
    n = len(biases)
    return rational_network([(W, biases, activation), ([[1]] * n, [0])])


def count_by_splitting(network):
    """Count cells by listing them."""
    return sum(1 for _ in split(network, Cone.whole_space(network.n_inputs)))


def rank(rows):
    """Return the rank of rational rows."""
    rows = [[Fraction(v) for v in row] for row in rows]
    found = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((row for row in rows[found:] if row[column]), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        rows.insert(found, pivot)
        for row in rows[found + 1 :]:
            factor = row[column] / pivot[column]
            row[:] = [a - factor * b for a, b in zip(row, pivot, strict=True)]
        found += 1
    return found


def whitney(rows, biases):
    """Sum (-1)^(|B| - rank B) over sets B of hyperplanes with a point in common."""
    distinct = {}
    for row, b in zip(rows, biases, strict=True):
        lead = next((v for v in row if v), None)
        if lead is not None:
            distinct[tuple(Fraction(v) / Fraction(lead) for v in (*row, b))] = None
    total = 0
    for size in range(len(distinct) + 1):
        for chosen in combinations(distinct, size):
            of_normals = rank([row[:-1] for row in chosen])
            if of_normals == rank(chosen):
                total += (-1) ** (size - of_normals)
    return total


def serra_by_enumeration(d, widths):
    """Sum the binomials of Serra et al. over all allowed (j_1, ..., j_L)."""
    total = 0
    for js in product(*(range(width + 1) for width in widths)):
        limit, allowed = d, True
        for j, width in zip(js, widths, strict=True):
            allowed &= j <= min(limit, width)
            limit = min(limit, width - j)
        total += allowed * math.prod(map(math.comb, widths, js))
    return total


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((2, 3, 3), 40),
        ((2, 4, 4), 121),
        ((2, 16, 16), 18_769),
        ((2, 64, 64), 4_330_561),
        ((4, 16, 16), 6_335_289),
        ((1, 5, 7, 2), 6 * 8 * 3),
    ],
)
def test_upper_bound_of_known_shapes(sizes, expected):
    """The bound of Serra et al. has its known values."""
    assert region_bounds(sizes).serra == expected
    assert region_bounds(list(sizes[1:]), n_inputs=sizes[0]).serra == expected


def test_upper_bound_is_the_sum_of_serra():
    """Layer by layer it gives what the sum over all tuples gives."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        d = int(rng.integers(1, 6))
        widths = rng.integers(1, 7, int(rng.integers(1, 5))).tolist()
        assert region_bounds([d, *widths]).serra == serra_by_enumeration(d, widths)


@pytest.mark.parametrize(("sizes", "n_cells"), MEASURED.items())
def test_networks_stay_below_the_upper_bound(sizes, n_cells):
    """Counts of random networks, and the lower bound of the best, are no larger."""
    bounds = region_bounds(sizes)
    assert n_cells <= bounds.serra
    assert 1 <= bounds.montufar <= bounds.serra


def test_lower_bound_of_the_best_network():
    """Montufar's fold has 44 regions; more inputs than units can be left unused."""
    assert region_bounds([2, 4, 4]).montufar == 44
    assert region_bounds([2, 5]).montufar == 1 + 5 + 10
    assert region_bounds([3, 2, 4]).montufar == region_bounds([2, 2, 4]).montufar == 11
    assert region_bounds([3, 4, 4]).montufar == 44  # 15 with all three
    fold = [
        ([[2, 4, 0, 0], [0, 0, 2, 4]], [0, -2, 0, -2]),
        (
            [[1, 0, 1, 1], [-1, 0, -1, -1], [0, 1, 1, -1], [0, -1, -1, 1]],
            ["-1/2", "-1/2", "-9/10", "1/7"],
        ),
        ([[1], [2], [-3], [5]], [0]),
    ]
    assert count_by_splitting(rational_network(fold)) >= 44


def test_single_layer_in_general_position():
    """Zaslavsky's number is the bound of Serra et al. for one layer, and is reached."""
    for d, n in ((1, 6), (2, 5), (3, 5), (4, 3)):
        bounds = region_bounds([d, n])
        rng = np.random.default_rng(1)
        network = one_layer(rng.normal(size=(n, d)).tolist(), rng.normal(size=n))
        count = count_arrangement(network)
        assert bounds.zaslavsky == bounds.serra == count == count_by_splitting(network)
        assert region_bounds(network) == bounds


def test_big_shapes_are_exact():
    """784-256-256: numbers of hundreds of digits, with no rounding."""
    bounds = region_bounds([784, 256, 256])
    assert bounds.zaslavsky is None
    # With as many inputs as units each j <= 256, and j_2 <= 256 - j_1.
    below = [sum(math.comb(256, j) for j in range(k + 1)) for k in range(257)]
    assert bounds.serra == sum(math.comb(256, j) * below[256 - j] for j in range(257))


@pytest.mark.parametrize("activation", ["leaky_rectifier", "rectifier", "identity"])
def test_bounds_hold_for_the_counts_of_models(activation):
    """For leaky, affine and maxout layers in any order, no network exceeds them."""
    rng = np.random.default_rng(2)
    for trial in range(30):
        d = 1 + trial % 3
        sizes = (d, *rng.integers(1, 4, 2).tolist(), 1)
        (first, second, last) = oracle.random_layers(
            rng, sizes, lambda rng: float(rng.normal())
        )
        n = len(second[1])
        maxout = MaxLayer(
            [[(rng.normal(size=n), rng.normal()) for _ in range(3)] for _ in range(n)]
        )
        middle = [maxout] if trial % 2 else []
        network = rational_network([(*first, activation), second, *middle, last])
        bounds = region_bounds(network)
        assert count_by_splitting(network) <= bounds.serra


def test_leaky_layers_keep_all_dimensions():
    """Where rectifiers lose dimensions leaky ones do not: their bound is larger."""
    rng = np.random.default_rng(3)
    layers = oracle.random_layers(rng, (2, 3, 3, 1), lambda rng: float(rng.normal()))
    leaky = rational_network([(W, b, "leaky_rectifier(0.5)") for W, b in layers[:2]])
    bounds = region_bounds(leaky)
    assert bounds.serra == 7 * 7 > region_bounds([2, 3, 3]).serra
    assert bounds.montufar is None
    assert bounds.zaslavsky is None
    assert region_bounds(one_layer([[1, 0]], [0], "leaky_rectifier")).zaslavsky == 2


def test_affine_layers_narrow_what_follows():
    """Two inputs through one affine unit are one dimension; no unit bends there."""
    narrow = rational_network(
        [([[1], [1]], [0], "identity"), ([[1] * 4], [0, 1, 2, 3]), ([[1]] * 4, [0])]
    )
    bounds = region_bounds(narrow)
    assert (bounds.widths, bounds.serra, bounds.montufar) == ((4,), 5, None)
    assert count_by_splitting(narrow) == count_arrangement(narrow) == 5
    affine = rational_network([([[1]], [0])])
    assert region_bounds(affine).serra == count_arrangement(affine) == 1


@pytest.mark.parametrize(
    ("rows", "biases", "expected"),
    [
        ([[1, 0], [0, 1], [1, 1]], [0, 0, 0], 6),
        ([[1, 0], [-1, 0], [2, 0]], [0, 0, 0], 2),
        ([[1, 0], [1, 0], [0, 1], [0, 1]], [0, -1, 0, -1], 9),
        ([[1, 0], [0, 1], [-1, -1]], [0, 0, Fraction(1, 2**52)], 7),
        ([[1, 0], [1, Fraction(1, 2**30)]], [0, 0], 4),
        ([[0, 0], [0, 0]], [1, -1], 1),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]], [0, 0, 0, 0], 14),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]], [0, 0, 0, 1], 15),
        ([[1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1]], [0, 0, 0], 8),
    ],
)
def test_degenerate_arrangements(rows, biases, expected):
    """Concurrent, equal, opposite, parallel and constant units are counted right."""
    assert count_arrangement(one_layer(rows, biases)) == expected


def test_braid_arrangements():
    """The hyperplanes x_i = x_j of R^d have d! cells, one for each order."""
    for d in range(2, 7):
        rows = [
            [(k == i) - (k == j) for k in range(d)]
            for i, j in combinations(range(d), 2)
        ]
        network = one_layer(rows, [0] * len(rows))
        assert count_arrangement(network) == math.factorial(d)


@pytest.mark.parametrize("seed", range(4))
def test_arrangements_by_whitney_and_by_splitting(seed):
    """Deletion-restriction, Whitney's sum and a list of cells give one number."""
    rng = np.random.default_rng(seed)
    for trial in range(40):
        d, n = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        if trial % 2:
            rows, biases = rng.integers(-2, 3, (n, d)), rng.integers(-1, 2, n)
        else:  # sparse, so that there are parts that do not touch each other
            rows = rng.integers(-1, 2, (n, d)) * rng.integers(0, 2, (n, d))
            biases = rng.integers(0, 2, n) * rng.integers(0, 2)
        network = one_layer(rows.tolist(), biases.tolist())
        count = count_arrangement(network)
        assert count == whitney(rows.tolist(), biases.tolist())
        assert count == count_by_splitting(network)
        assert count <= region_bounds(network).serra


def test_arrangements_too_large_to_list():
    """Counts in seconds: generic ones are Zaslavsky's number, independent ones 2^n."""
    rng = np.random.default_rng(4)
    for d, n in ((2, 200), (3, 40), (4, 25), (40, 36), (60, 61)):
        rows, biases = rng.normal(size=(n, d)).tolist(), rng.normal(size=n).tolist()
        expected = region_bounds([d, n]).zaslavsky
        assert count_arrangement(one_layer(rows, biases)) == expected
    # Two planes meet in each of 15 x 15 lines, each in one point with 15 others.
    grid = [[int(i == k % 3) for i in range(3)] for k in range(45)]
    assert count_arrangement(one_layer(grid, [k // 3 for k in range(45)])) == 16**3


def test_independence_modulo_a_prime_is_a_proof():
    """It is never claimed of dependent rows, and left open for few others."""
    rng = np.random.default_rng(5)
    rows = [tuple(row) for row in rng.integers(-9, 10, (6, 9)).tolist()]
    assert _are_independent(rows)
    total = tuple(map(sum, zip(*rows[:-1], strict=True)))
    assert rank([row[:-1] for row in [*rows[:-1], total]]) == 5
    assert not _are_independent([*rows[:-1], total])
    assert not _are_independent([(2**31 - 1, 0, 5), (0, 1, 7)])  # 0 modulo the prime


def test_leaky_units_and_opposite_pieces_are_hyperplanes():
    """Leaky rectifiers and absolute values cut where their pieces tie."""
    leaky = one_layer([[1, 0], [0, 1], [1, 1]], [0, 0, 1], "leaky_rectifier")
    assert count_arrangement(leaky) == count_by_splitting(leaky) == 7
    maxima = MaxLayer([[([1, 0], 0), ([-1, 0], 0)], [([1, 1], 0), ([1, 0], 1)]])
    network = rational_network([maxima, ([[1], [1]], [0])])
    assert count_arrangement(network) == count_by_splitting(network) == 4


def test_questions_without_an_answer_are_refused():
    """Errors say what was given and what to do."""
    deep = rational_network([([[1]], [0]), ([[1]], [0]), ([[1]], [0])])
    with pytest.raises(ParameterError, match="kinks in more than one layer"):
        count_arrangement(deep)
    maxout = MaxLayer([[([1], 0), ([2], 0), ([3], 1)]])
    with pytest.raises(ParameterError, match="units of 3 pieces, expected at most two"):
        count_arrangement(rational_network([maxout]))
    rng = np.random.default_rng(6)
    network = one_layer(rng.normal(size=(14, 6)).tolist(), [1] * 14)
    with pytest.raises(BudgetError, match="more than 100 arrangements"):
        count_arrangement(network, budget=100)
    with pytest.raises(ParameterError, match="budget is 0"):
        count_arrangement(network, budget=0)
    with pytest.raises(ParameterError, match="sizes has 0, expected positive whole"):
        region_bounds([2, 0])
    with pytest.raises(ParameterError, match="sizes is empty"):
        region_bounds([])
    with pytest.raises(ParameterError, match="n_inputs is 3 but the model has 1"):
        region_bounds(deep, 3)


def test_bounds_of_wide_layers_come_at_once():
    """A million units in the plane make as many cells as lines in general position."""
    assert region_bounds([2, 10**6]).serra == 1 + 10**6 + math.comb(10**6, 2)
