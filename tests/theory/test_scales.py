"""Normal form and balance of scales: the same function, whatever the copy."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardzero.errors import ParameterError
from hardzero.stack import Layer, RectifierStack
from hardzero.theory.convert import as_network
from hardzero.theory.rational import (
    from_rational_layers,
    rational_layers,
    rational_network,
)
from hardzero.theory.scales import balance_scales, normalise


def _network(rng):
    sizes = [int(n) for n in rng.integers(1, 5, rng.integers(2, 5))]
    names = [
        "rectifier",
        "identity",
        "prelu(-1)",
        "leaky_rectifier",
        "capped_rectifier",
    ]
    layers = []
    for a, b in pairwise(sizes):
        W = [[_entry(rng) for _ in range(b)] for _ in range(a)]
        name = names[rng.integers(len(names))]
        layers.append((W, [_entry(rng) for _ in range(b)], name))
    return rational_network(layers)


def _entry(rng):
    if rng.integers(4):
        return int(rng.integers(-2, 3))
    return Fraction(int(rng.integers(-5, 6)), int(rng.integers(1, 5)))


def _point(rng, n):
    return [
        Fraction(int(a), int(q)) for a, q in rng.integers((-40, 1), (41, 9), (n, 2))
    ]


def _copy(rng, network):
    """Rescale, split, double and shuffle all hidden units, and their pieces."""
    layers = rational_layers(network)
    for i in range(len(layers) - 1):
        units, above = [], []  # (pieces, weights above)
        for j, unit in enumerate(layers[i]):
            weights = [row[j] for upper in layers[i + 1] for row in upper]
            shares = [Fraction(1)]
            if rng.integers(2):
                share = Fraction(int(rng.integers(-3, 7)), 3)
                shares = [share, 1 - share]
            for share in shares:
                a = Fraction(int(rng.integers(1, 9)), int(rng.integers(1, 9)))
                pieces = [[a * w for w in row] for row in unit]
                units.append([pieces[p] for p in rng.permutation(len(pieces))])
                above.append([share * w / a for w in weights])
        n_inputs = len(units[0][0]) - 1
        units.append([[Fraction(1)] * (n_inputs + 1)])  # without weights above
        above.append([Fraction(0)] * len(above[0]))
        order = rng.permutation(len(units))
        layers[i] = [units[p] for p in order]
        columns = iter(zip(*(above[p] for p in order), strict=True))
        layers[i + 1] = [
            [[*next(columns), row[-1]] for row in upper] for upper in layers[i + 1]
        ]
    return from_rational_layers(layers)


@pytest.mark.parametrize("seed", range(200))
def test_copies_have_one_normal_form(seed):
    """Rescaled, split, doubled and shuffled copies are the same network in normal form,
    which computes the same function and is its own normal form.
    """
    rng = np.random.default_rng(seed)
    network = _network(rng)
    copy = _copy(rng, network)
    normal = normalise(network)
    assert normalise(copy) == normal
    assert normalise(normal) == normal
    assert all(
        a <= b for a, b in zip(normal.sizes[1:-1], copy.sizes[1:-1], strict=False)
    )
    for _ in range(20):
        x = _point(rng, network.n_inputs)
        assert network(x) == copy(x) == normal(x)


def test_normal_form_by_hand():
    """Units are whole numbers without a common factor, in order; what is parallel is
    one unit, what is constant is in the bias, what cancels or is not used is gone.
    """
    W = [[4, 1, -1, 0, 1, 3], [2, "1/2", -1, 0, 1, 5]]
    b = [0, 0, 0, 3, 7, 1]
    V = [[1], [2], [5], [2], [0], [0]]
    normal = normalise(rational_network([(W, b), (V, [-1])]))
    zero = (0, 0, 0)
    assert normal.layers == (
        ((((-1, -1, 0)), zero), (zero, (2, 1, 0))),
        (((5, 3, 5),),),
    )
    assert normal.scales == (1, 1)


def test_affine_units_have_no_sign():
    """An affine unit and its negative are one."""
    layers = [([[-2, 3]], [-4, 6], "identity"), ([[1], [1]], [0])]
    normal = normalise(rational_network(layers))
    assert normal.layers == ((((1, 2),),), (((1, 0),),))


def test_a_unit_that_loses_its_last_weight_goes():
    """What only a removed unit used is removed as well, also two layers below."""
    layers = [
        ([[1, 2]], [0, 1]),
        ([[1, 0, 0], [0, 1, 2]], [0, 0, 0]),
        ([[1], [2], [-1]], [0]),
    ]
    assert normalise(rational_network(layers)).sizes == (1, 1, 1, 1)


def test_a_constant_has_no_hidden_layer():
    """A network whose hidden units are all constant is its constant."""
    layers = [([[0, 0], [0, 0]], [1, 2]), ([[1], [1]], [0]), ([["1/3"]], [5])]
    normal = normalise(rational_network(layers))
    assert normal.sizes == (2, 1)
    assert normal([1, 2]) == (6,)
    assert normalise(rational_network([([[0], [0]], [0])])).layers == ((((0, 0, 0),),),)


def test_pieces_that_are_never_largest():
    """Of pieces with one slope the highest stays, so a unit can become affine."""
    rows = [[Fraction(2), Fraction(b)] for b in (1, 3, 2)]
    network = from_rational_layers([[rows], [[[Fraction(1), Fraction(0)]]]])
    assert normalise(network).layers[0] == (((2, 3),),)


def _stack(rng, dtype, spread):
    sizes = [int(n) for n in rng.integers(1, 7, rng.integers(2, 6))]
    names = ["rectifier", "leaky_rectifier", "prelu", "identity", "tanh", "softplus"]
    layers = []
    for a, b in pairwise(sizes):
        name = names[rng.choice(6, p=[0.4, 0.15, 0.15, 0.1, 0.1, 0.1])]
        W = rng.normal(size=(a, b)) * 2.0 ** rng.integers(-spread, spread + 1, (a, b))
        W[rng.random((a, b)) < 0.3] = 0.0
        signs = rng.choice([-1, 1], b) if rng.integers(2) else None
        slopes = rng.normal(size=b) if name == "prelu" else None
        bias = rng.normal(size=b) * rng.integers(0, 2)
        layers.append(Layer(W.astype(dtype), bias, name, signs, slopes))
    link = ["identity", "softmax"][rng.integers(2)]
    return RectifierStack(tuple(layers), link)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(40))
def test_balanced_outputs_are_the_same_bit_for_bit(seed, dtype):
    """Outputs stay what they were, and both sides of a unit differ by a factor of two
    at most, in layers whose activation allows it.
    """
    rng = np.random.default_rng(seed)
    stack = _stack(rng, dtype, 12)
    balanced = balance_scales(stack)
    X = rng.normal(size=(9, stack.n_inputs)).astype(dtype)
    assert np.array_equal(balanced(X), stack(X))
    assert balanced.dtype == stack.dtype
    assert balance_scales(balanced) == balanced
    for (old, _), (new, above) in zip(
        pairwise(stack.layers), pairwise(balanced.layers), strict=True
    ):
        if old.activation.name in ("tanh", "softplus"):
            continue
        incoming = np.hypot(np.linalg.norm(new.W, axis=0), new.b)
        outgoing = np.linalg.norm(above.W, axis=1)
        both = (incoming > 0) & (outgoing > 0)
        ratio = incoming[both] / outgoing[both]
        assert np.all((ratio < 2.0001) & (ratio > 0.4999))


@pytest.mark.parametrize("seed", range(20))
def test_balancing_is_exact(seed):
    """As networks of rationals, a stack and the balanced one are copies."""
    rng = np.random.default_rng(seed)
    W, V = rng.normal(size=(3, 5)) * 1e6, rng.normal(size=(5, 2)) * 1e-7
    signs = rng.choice([-1, 1], 5)
    hidden = Layer(W, rng.normal(size=5), "leaky_rectifier", signs)
    stack = RectifierStack((hidden, Layer(V, np.zeros(2), "identity")))
    balanced = balance_scales(stack)
    assert balanced != stack
    assert normalise(balanced) == normalise(stack)


def test_extreme_floats_are_not_rounded():
    """A unit whose numbers would underflow is rescaled as far as they do not."""
    tiny = np.finfo(np.float64).smallest_subnormal
    hidden = Layer([[2.0**600, 3 * tiny, 1.0]], [3 * tiny, 1.0, 0.0], "rectifier")
    V = [[1.0, 0.0], [2.0**1000, 0.0], [2.0**600, 3 * tiny]]
    stack = RectifierStack((hidden, Layer(V, [0.0, 0.0], "identity")))
    balanced = balance_scales(stack)
    assert balanced.layers[0].W[0, 0] == 2.0**600  # its bias cannot become smaller
    assert balanced.layers[0].b[1] == 2.0**500
    assert balanced.layers[1].W[2, 0] == 2.0**600  # nor can its other weight
    assert normalise(balanced) == normalise(stack)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_norms_beyond_the_floats(scale):
    """Squares of weights may overflow or underflow, the balance is found."""
    hidden = Layer([[scale, scale]], [0.0, 0.0], "rectifier")
    stack = RectifierStack((hidden, Layer([[1.0], [1.0]], [0.0], "identity")))
    first, second = balance_scales(stack).layers
    assert np.all(np.abs(np.log2(first.W[0] / second.W[:, 0])) <= 1)
    assert as_network(stack)([1]) == as_network(balance_scales(stack))([1])


def test_only_stacks_are_balanced():
    """A network of rationals has no floats to be balanced."""
    with pytest.raises(ParameterError, match="stack is a RationalNetwork, expected"):
        balance_scales(rational_network([([[1]], [0])]))
