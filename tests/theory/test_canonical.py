"""The canonical form of networks with one hidden layer: exact, and unique."""

import pickle
import time
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardzero.errors import BudgetError, ParameterError
from hardzero.stack import Layer, RectifierStack
from hardzero.theory.canonical import CanonicalForm, canonical_form, first_difference
from hardzero.theory.rational import MaxLayer, max_pool, rational_network

ACTIVATIONS = [
    "rectifier",
    "rectifier",
    "leaky_rectifier",
    "prelu(-1)",
    "prelu(2)",
    "capped_rectifier",
    "identity",
]


def _entry(rng):
    """Mostly small whole numbers, so that kinks coincide; now and then others."""
    match rng.integers(6):
        case 0:
            return Fraction(int(rng.integers(-5, 6)), int(rng.integers(1, 5)))
        case 1:
            return float(rng.normal())
    return int(rng.integers(-2, 3))


def _layer(rng, n_inputs, n_units):
    W = [[_entry(rng) for _ in range(n_units)] for _ in range(n_inputs)]
    return W, [_entry(rng) for _ in range(n_units)]


def _point(rng, n):
    return [
        Fraction(int(a), int(q)) for a, q in rng.integers((-40, 1), (41, 9), (n, 2))
    ]


def _copy(rng, W, b, V):
    """The same function with units shuffled, rescaled, split, doubled and mirrored."""
    columns = [
        [*(Fraction(row[j]) for row in W), Fraction(b[j])] for j in range(len(b))
    ]
    units = [(w, [Fraction(v) for v in V[j]]) for j, w in enumerate(columns)]
    n = len(columns[0])
    found = []
    for w, v in units:
        a = Fraction(int(rng.integers(1, 9)), int(rng.integers(1, 9)))
        match rng.integers(4):
            case 0:  # split into two shares
                share = Fraction(int(rng.integers(-5, 6)), 3)
                found.append(([a * c for c in w], [share * c / a for c in v]))
                found.append((w, [(1 - share) * c for c in v]))
            case 1:  # R(h) = R(-h) + h = R(-h) + R(h + q) - R(-h - q) - q
                q = Fraction(int(rng.integers(-2, 3)))
                more = [*w[:-1], w[-1] + q]
                found.append(([-a * c for c in w], [c / a for c in v]))
                found.append((more, v))
                found.append(([-c for c in more], [-c for c in v]))
                found.append(([0] * (n - 1) + [1], [-q * c for c in v]))
            case 2:  # a unit that cancels itself
                found.append(([a * c for c in w], [c / a for c in v]))
                found.append((w[::-1], v))
                found.append(([2 * c for c in w[::-1]], [-c / 2 for c in v]))
            case 3:
                found.append(([a * c for c in w], [c / a for c in v]))
    rng.shuffle(found)
    return (
        [[w[i] for w, _ in found] for i in range(n - 1)],
        [w[-1] for w, _ in found],
        [v for _, v in found],
    )


@pytest.mark.parametrize("seed", range(150))
def test_the_form_is_the_function(seed):
    """A form and the network made from it have the outputs of the network, for any
    activation with two pieces, with affine layers before and after.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, 5)
    layers = [_layer(rng, a, b) for a, b in pairwise(sizes)]
    names = ["identity"] * 4
    names[rng.integers(4)] = ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
    net = rational_network(
        [(*layer, name) for layer, name in zip(layers, names, strict=True)]
    )
    form = canonical_form(net)
    again = form.to_network()
    for _ in range(20):
        x = _point(rng, net.n_inputs)
        assert form(x) == net(x) == again(x)
    assert canonical_form(again) == form


@pytest.mark.parametrize("seed", range(100))
def test_copies_have_the_same_form(seed):
    """Units shuffled, rescaled, split, doubled or mirrored leave the form as it is."""
    rng = np.random.default_rng(seed)
    d, n, q = rng.integers(1, 5, 3)
    (W, b), (V, c) = _layer(rng, d, n), _layer(rng, n, q)
    form = canonical_form(rational_network([(W, b), (V, c)]))
    W, b, V = _copy(rng, W, b, V)
    copy = canonical_form(rational_network([(W, b), (V, c)]))
    assert copy == form
    assert hash(copy) == hash(form)
    assert first_difference(copy, form) is None


@pytest.mark.parametrize("seed", range(150))
def test_forms_differ_only_if_functions_do(seed):
    """Where forms of unlike networks differ there is a point that shows it."""
    rng = np.random.default_rng(seed)
    d, n = rng.integers(1, 4, 2)
    (W, b), (V, c) = _layer(rng, d, n), _layer(rng, n, 2)
    f = rational_network([(W, b), (V, c)])
    W, b, V = _copy(rng, W, b, V)
    changed = [W[0], b, V[0], c][rng.integers(4)]
    changed[rng.integers(len(changed))] += Fraction(int(rng.integers(-1, 2)), 2**40)
    g = rational_network([(W, b), (V, c)])
    x = first_difference(f, g)
    assert (x is None) == (canonical_form(f) == canonical_form(g))
    if x is None:
        for _ in range(20):
            x = _point(rng, d)
            assert f(x) == g(x)
    else:
        assert f(x) != g(x)


def test_the_form_by_hand():
    """First coefficients are 1, and a kink and its mirror image are one."""
    net = rational_network(
        [
            ([[0, -2, 2, 0], [3, 1, -1, 0]], [6, 4, -4, 5]),
            ([[1, 0], [1, 2], [1, 0], ["1/5", 0]], [0, "1/3"]),
        ]
    )
    form = canonical_form(net)
    # Outputs R(3y + 6) + |4 - 2x + y| + 1 and 2 R(4 - 2x + y) + 1/3.
    assert form.constant == (1 + 4, 8 + Fraction(1, 3))
    assert form.linear == ((-2, 1), (-4, 2))
    assert form.kinks == {
        ((0, 1), 2): (3, 0),
        ((1, Fraction(-1, 2)), -2): (4, 4),
    }
    assert (form.n_inputs, form.n_outputs, form.n_kinks) == (2, 2, 2)
    assert repr(form) == "CanonicalForm(2 -> 2, 2 kinks)"


def test_networks_without_kinks():
    """An affine network, with or without hidden units that cancel, has no kinks."""
    affine = rational_network([([[1], [2]], [3])])
    W = [[1, 1, -1, 1, 0], [2, 2, -2, 2, 0]]
    layered = rational_network(
        [(W, [0, 7, -7, 0, 2]), ([[1], [1], [-1], [-1], [-2]], [0])]
    )
    form = canonical_form(layered)
    assert form == canonical_form(affine)
    assert form.kinks == {}
    assert form.to_network().sizes == (2, 1)
    assert canonical_form(rational_network([([[0]], [0])])) != form


def test_a_form_is_read_as_it_is():
    """A form of a form is itself, and it can be pickled after use."""
    form = canonical_form(rational_network([([[1]], [1]), ([[1]], [0])]))
    assert canonical_form(form) is form
    assert form.kinks
    assert form([2]) == (3,)
    assert pickle.loads(pickle.dumps(form)) == form


@pytest.mark.parametrize("seed", range(60))
def test_one_input_any_depth(seed):
    """With one input there is a form at any depth, also with maxout units."""
    rng = np.random.default_rng(seed)
    sizes = [1, *rng.integers(1, 4, 3), 1]
    layers = [(*_layer(rng, a, b), "rectifier") for a, b in pairwise(sizes)]
    n_pieces = int(rng.integers(1, 5))
    pieces = [([_entry(rng)], _entry(rng)) for _ in range(n_pieces)]
    net = rational_network([*layers, MaxLayer([pieces])])
    form = canonical_form(net)
    again = form.to_network()
    breaks = sorted(-b / u for (u,), b in form.kinks)
    assert len(set(breaks)) == form.n_kinks
    for x in [*breaks, *(_point(rng, 1)[0] for _ in range(20))]:
        assert form([x]) == net([x]) == again([x])


def test_a_sawtooth_has_its_number_of_kinks():
    """The composed tent map has 2^L - 1 kinks inside [0, 1], if the budget allows."""
    tent = [([[2, 4]], [0, -2]), ([[1], [-1]], [0], "identity")]
    form = canonical_form(rational_network(tent * 6))
    assert sum(0 < -b < 1 for _, b in form.kinks) == 2**6 - 1
    with pytest.raises(BudgetError, match=r"layer 5 have 11 kinks, the budget is 10"):
        canonical_form(rational_network(tent * 6), budget=10)


def test_deep_networks_are_refused():
    """A kink that depends on kinks in another direction has no canonical form."""
    deep = rational_network(
        [([[1, 0], [0, 1]], [0, 0]), ([[1], [-1]], [0]), ([[1]], [0])]
    )
    with pytest.raises(ParameterError, match=r"layer 2 has a kink.*theory\.equal"):
        canonical_form(deep)
    pool = rational_network(
        [([[1, 0], [0, 1]], [0, 0], "identity"), max_pool(2, [[0, 1]])]
    )
    assert canonical_form(pool).n_kinks == 1
    wide = rational_network([MaxLayer([[([1, 0], 0), ([0, 1], 0), ([0, 0], 0)]])])
    with pytest.raises(ParameterError, match=r"more than two pieces"):
        canonical_form(wide)


def test_shapes_must_agree():
    """Functions of unlike shapes are not compared point by point."""
    f, g = rational_network([([[1]], [0])]), rational_network([([[1], [1]], [0])])
    assert canonical_form(f) != canonical_form(g)
    with pytest.raises(ParameterError, match="1 inputs, the second 2"):
        first_difference(f, g)


@pytest.mark.parametrize("power", [40, 500])
def test_a_tiny_change_far_from_the_origin_is_found(power):
    """Two functions that differ only beyond one kink, by little, differ at a point."""
    W = [[1, 1, 2], [1, -1, 1]]
    b = [-(2**30), 5, 1]
    f = rational_network([(W, b), ([[1], [1], [1]], [0])])
    b[0] -= Fraction(1, 2**power)
    g = rational_network([(W, b), ([[1], [1], [1]], [0])])
    x = first_difference(f, g)
    assert f(x) != g(x)


def test_a_difference_between_close_kinks_is_found():
    """A bump between close kinks is found though both functions bend far away."""
    W, b = [[1, 1, 1, 1]], [0, -1, -2, -1000]
    f = rational_network([(W, b), ([[1], [-2], [1], [1]], [0])])
    g = rational_network([(W, b), ([[0], [0], [0], [1]], [0])])
    (x,) = first_difference(f, g)
    assert 0 < x < 2


def test_a_thousand_units():
    """Networks of 1,000 units and 50 inputs in floats are compared in seconds: a
    rescaled and shuffled copy is equal, a bias changed by its last bit is not.
    """
    rng = np.random.default_rng(0)
    W, b = rng.normal(size=(50, 1000)), rng.normal(size=1000)
    V, c = rng.normal(size=(1000, 1)), np.ones(1)
    order = rng.permutation(1000)
    scale = 2.0 ** rng.integers(-3, 4, 1000)
    start = time.process_time()
    form = _shallow(W, b, V, c)
    again = ((W * scale)[:, order], (b * scale)[order], (V / scale[:, None])[order], c)
    assert _shallow(*again) == form
    assert time.process_time() - start < 10
    again[1][17] = np.nextafter(again[1][17], 9.0)
    changed = _shallow(*again)
    assert changed != form
    x = first_difference(form, changed)
    assert form(x) != changed(x)


def _shallow(W, b, V, c):
    layers = (Layer(W, b, "rectifier"), Layer(V, c, "identity"))
    return canonical_form(RectifierStack(layers))


def test_fractions_with_unlike_denominators():
    """Rows are kept without common factors, so numbers stay as small as they are."""
    rng = np.random.default_rng(0)
    W = [[Fraction(1, int(q)) for q in rng.integers(1, 60, 40)] for _ in range(3)]
    form = canonical_form(rational_network([(W, [1] * 40), ([[1]] * 40, [0])]))
    assert isinstance(form, CanonicalForm)
    assert max(max(map(abs, row)) for row, _ in form.terms) < 60**3
