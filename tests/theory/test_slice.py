"""Networks on planes and other affine subspaces of their inputs."""

import time
from fractions import Fraction

import numpy as np
import pytest
from theory import oracle

from hardzero.errors import ParameterError
from hardzero.theory.rational import MaxLayer, rational_network
from hardzero.theory.regions import linear_regions
from hardzero.theory.slice import restrict, slice_plane

ACTIVATIONS = ("rectifier", "leaky_rectifier(0.25)", "capped_rectifier(1)")


def fraction(rng):
    """A fraction between -6 and 6."""
    return Fraction(int(rng.integers(-6, 7)), int(rng.integers(1, 6)))


@pytest.mark.parametrize("seed", range(40))
def test_a_restriction_computes_the_network_on_the_subspace(seed):
    """At random points, for random networks of several kinds, exactly."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, 4).tolist()
    layers = [
        (W, b, ACTIVATIONS[seed % 3])
        for W, b in oracle.random_layers(rng, sizes, fraction)
    ]
    network = rational_network(layers)
    k = int(rng.integers(1, 4))
    vectors = [[fraction(rng) for _ in range(sizes[0])] for _ in range(k + 1)]
    origin, *directions = vectors
    smaller = restrict(network, origin, directions)
    assert (smaller.n_inputs, len(smaller.layers)) == (k, len(network.layers))
    for _ in range(5):
        s = [fraction(rng) for _ in range(k)]
        x = [
            o + sum(a * v for a, v in zip(s, column, strict=True))
            for o, column in zip(origin, zip(*directions, strict=True), strict=True)
        ]
        assert smaller(s) == network(x)
        assert smaller.pattern(s) == network.pattern(x)


def test_the_layers_have_no_common_factor():
    """Weights stay small: what all rows of a layer share moves to the scales."""
    network = rational_network([([[6], [10]], [4]), ([[1]], [2])])
    smaller = restrict(network, ["1/3", 0], [["2/3", 0]])
    assert smaller.layers == ((((0, 0), (2, 3)),), (((1, 1),),))
    assert smaller.scales == (2, 2)
    assert smaller([3]) == network(["7/3", 0])


def test_a_slice_has_the_regions_of_the_network_on_the_plane():
    """Four hyperplanes x_i = 0 cut a plane that misses their centre in 4 lines."""
    identity = np.eye(4, dtype=int).tolist()
    network = rational_network([(identity, [0] * 4), ([[1]] * 4, [0])])
    plane = slice_plane(network, [0, 0, 1, 3], [1, 0, 1, 1], [0, 1, 1, -1])
    assert linear_regions(plane).n_activation_patterns == 1 + 4 + 6


def test_maxout_is_restricted_piece_by_piece():
    """The largest of three inputs, on a line on which each is the largest once."""
    units = [[([int(i == j) for j in range(3)], 0) for i in range(3)]]
    line = restrict(rational_network([MaxLayer(units)]), [0, 3, -10], [[-1, 0, 2]])
    assert [line([s])[0] for s in (-5, 0, 10)] == [5, 3, 10]
    assert linear_regions(line).n_activation_patterns == 3


def test_a_large_network_is_sliced_in_seconds():
    """784-64-10 with float32 weights and directions, after it was read."""
    rng = np.random.default_rng(0)
    layers = [
        (rng.normal(0, a**-0.5, (a, b)).astype(np.float32), np.zeros(b))
        for a, b in ((784, 64), (64, 10))
    ]
    network = rational_network(layers)
    origin, u, v = rng.normal(size=(3, 784)).astype(np.float32)
    start = time.process_time()
    plane = slice_plane(network, origin, u, v)
    assert time.process_time() - start < 2
    x = [
        Fraction(float(a)) - Fraction(float(b)) for a, b in zip(origin, v, strict=True)
    ]
    assert plane([0, -1]) == network(x)


@pytest.mark.parametrize(
    ("origin", "u", "v", "message"),
    [
        ([0, 0], [1, 0, 0], [0, 1, 0], "origin has 2 entries, expected 3"),
        ([0, 0, 0], [1, 0], [0, 1, 0], "u has 2 entries, expected 3"),
        ([0, 0, 0], [1, 2, 3], [2, 4, 6], "u and v are parallel"),
        ([0, 0, 0], [0, 0, 0], [2, 4, 6], "or one of them is 0"),
        ([0, 0, "x"], [1, 0, 0], [0, 1, 0], "entry 2 of origin is 'x', expected"),
    ],
)
def test_what_is_no_plane_is_refused(origin, u, v, message):
    """Wrong lengths, parallel directions and texts without a number."""
    network = rational_network([([[1]] * 3, [0])])
    with pytest.raises(ParameterError, match=message):
        slice_plane(network, origin, u, v)


def test_a_subspace_has_a_direction():
    """A single point is no subspace to look at."""
    network = rational_network([([[1]], [0])])
    with pytest.raises(ParameterError, match=r"directions is \[\], expected a list"):
        restrict(network, [0], [])
    with pytest.raises(ParameterError, match="direction 1 has 2 entries, expected 1"):
        restrict(network, [0], [[1], [1, 2]])
