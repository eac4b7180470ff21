"""Networks in whole numbers compute what their floats and fractions say."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier, MLPRegressor
from theory import oracle

from hardzero import RectifierClassifier, RectifierRegressor
from hardzero.errors import ParameterError
from hardzero.serving.model import StackModel
from hardzero.stack import Layer, RectifierStack, apply_link
from hardzero.theory.convert import as_network, as_stack
from hardzero.theory.rational import (
    MaxLayer,
    RationalNetwork,
    difference,
    from_rational_layers,
    max_pool,
    rational_layers,
    rational_network,
    side_by_side,
    to_fraction,
)

KINDS = {
    "int": lambda rng: int(rng.integers(-3, 4)),
    "Fraction": lambda rng: Fraction(
        int(rng.integers(-9, 10)), int(rng.integers(1, 8))
    ),
    "float": lambda rng: float(rng.normal()),
    "float32": lambda rng: np.float32(rng.normal()),
    "text": lambda rng: f"{int(rng.integers(-9, 10))}/7",
    "decimal text": lambda rng: f"{rng.normal():.3f}",
    "Decimal": lambda rng: Decimal(f"{rng.normal():.3f}"),
    "int64": lambda rng: rng.integers(-3, 4),
}


def point(rng, n):
    """Draw a rational point."""
    return [Fraction(int(v), int(rng.integers(1, 9))) for v in rng.integers(-9, 10, n)]


def tent():
    """Return the tent R(x) 2 - R(x - 1/2) 4, that is 1/2 at 3/4 and 1 at 1/2."""
    return rational_network([([[1, 1]], [0, "-1/2"]), ([[2], [-4]], [0])])


# ---------------------------------------------------------------- rational_network


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_exact(kind):
    """Outputs and patterns are those of plain arithmetic with fractions"""
    rng = np.random.default_rng(0)
    for sizes in [(2, 1), (1, 3, 2), (3, 4, 4, 1), (2, 3, 3, 3, 3, 2)] * 4:
        layers = oracle.random_layers(rng, sizes, KINDS[kind])
        network, net = rational_network(layers), oracle.network(layers)
        assert network.sizes == sizes
        assert network.n_inputs == sizes[0]
        assert network.n_outputs == sizes[-1]
        assert network.n_kinked == sum(sizes[1:-1])
        for _ in range(5):
            x = point(rng, sizes[0])
            assert network(x) == tuple(oracle.evaluate(net, x))
            assert network.pattern(x) == oracle.pattern_at(net, x)


def test_results_are_fractions():
    """Outputs are Fractions, inputs are taken of every kind of number"""
    assert tent()(["3/4"]) == (Fraction(1, 2),)
    assert type(tent()([0.75])[0]) is Fraction
    for x in (0.75, "0.75", Fraction(3, 4), np.float32(0.75), Decimal("0.75")):
        assert tent()([x]) == (Fraction(1, 2),)
    assert tent()([0.1]) == (2 * Fraction(0.1),)
    assert tent()(np.array([0.1])) == (2 * Fraction(0.1),)


def test_weights_are_whole_numbers_without_common_factor():
    """All rows are ints, those of a layer have no common factor, scales are positive"""
    rng = np.random.default_rng(1)
    for kind in KINDS.values():
        network = rational_network(oracle.random_layers(rng, (3, 4, 4, 2), kind))
        for layer in network.layers:
            entries = [a for unit in layer for row in unit for a in row]
            assert all(type(a) is int for a in entries)
            assert math.gcd(*entries) == 1
        assert all(scale > 0 for scale in network.scales)


def test_a_layer_of_zeros():
    """A layer without any weight is a constant 0"""
    network = rational_network([([[0, 0]], [0, 0]), ([[1], [1]], [5]), ([[2]], [1])])
    assert network([3]) == (11,)
    assert network.pattern([3]) == ((0, 0), (1,))


def test_outputs_far_away():
    """With t = 0 outputs are the slopes along a ray, and scaling (h, t) scales them"""
    rng = np.random.default_rng(2)
    for _ in range(20):
        network = rational_network(oracle.random_layers(rng, (2, 4, 3, 2)))
        h = [int(v) for v in rng.integers(-5, 6, 2)]
        assert network.outputs([3 * v for v in h], 6) == [
            3 * v for v in network.outputs(h, 2)
        ]
        slopes = [v * network.scales[-1] for v in network.outputs(h, 0)]
        far = 10**9  # small whole weights: all kinks along the ray are nearer
        near, further = (network([s * v for v in h]) for s in (far, far + 1))
        assert slopes == [b - a for a, b in zip(near, further, strict=True)]


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("identity", {-2: -2, 0: 0, 3: 3}),
        ("rectifier", {-2: 0, 0: 0, 3: 3}),
        ("leaky_rectifier(0.5)", {-2: -1, 0: 0, 3: 3}),
        ("leaky_rectifier(1)", {-2: -2, 0: 0, 3: 3}),
        ("leaky_rectifier(4)", {-2: -8, 0: 0, 3: 3}),
        ("prelu(-1)", {-2: 2, 0: 0, 3: 3}),
        ("prelu(0)", {-2: 0, 0: 0, 3: 3}),
        ("capped_rectifier(2)", {-2: 0, 0: 0, 1: 1, 2: 2, 3: 2}),
    ],
)
def test_activations(activation, expected):
    """Each piecewise-linear activation has its values, hidden and at the output"""
    last = rational_network([([[1]], [0], activation)])
    hidden = rational_network([([[1]], [0], activation), ([["1/2"]], [1])])
    for x, value in expected.items():
        assert last([x]) == (value,)
        assert hidden([x]) == (Fraction(value, 2) + 1,)


def test_default_slope_is_the_float():
    """The slope 0.01 is the nearest float, as in the network that is run"""
    network = rational_network([([[1]], [0], "leaky_rectifier")])
    assert network([-1]) == (-Fraction(0.01),)


def test_an_affine_layer_in_the_middle():
    """A named layer stands anywhere; affine layers have no part in patterns"""
    network = rational_network(
        [([[1, -1]], [0, 0], "rectifier"), ([[1], [1]], [0], "identity"), ([[2]], [1])]
    )
    assert network([-3]) == (7,)
    assert network.pattern([-3]) == ((0, 1),)
    assert network.n_kinked == 2


def test_maxout():
    """A maxout unit is the largest of its pieces"""
    pieces = [([1, 0], 0), ([0, 1], "1/2"), ([-1, -1], 0)]
    network = rational_network([MaxLayer([pieces, pieces[:1]]), ([[1], [10]], [0])])
    assert network([1, 0]) == (11,)
    assert network([0, 1]) == (Fraction(3, 2),)
    assert network([-3, -4]) == (7 - 30,)
    assert network.pattern([-3, -4]) == ((2, 0),)
    assert network.pattern([1, "1/2"]) == ((0, 0),)  # a tie: the first


def test_max_pooling():
    """Pooling takes maxima over groups, which may overlap"""
    network = rational_network([max_pool(3, [[0, 1], [1, 2], [2]])])
    assert network([1, 2, 3]) == (2, 3, 3)
    assert network([3, 1, -1]) == (3, 1, -1)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "layers is empty"),
        ([5], r"layer 1 is int, expected \(W, b\)"),
        ([([[1]],)], "layer 1 is tuple, expected"),
        ([([[1]], [0], "rectifier", 3)], "layer 1 is tuple, expected"),
        ([(1, 2)], "layer 1 has W of type int and b of type int"),
        ([([[1, 2]], [0])], r"W with 1 rows of length \[2\] and b of length 1"),
        ([([[1, 2], [1]], [0, 0])], r"rows of length \[1, 2\]"),
        ([([], [])], "layer 1 has W with 0 rows"),
        ([([[1]], [0]), ([[1], [1]], [0])], "layer 2 has 2 inputs but layer 1 has 1"),
        ([([[math.nan]], [0])], r"W\[0\]\[0\] of layer 1 is nan, expected a finite"),
        ([([[1]], [math.inf])], r"b\[0\] of layer 1 is inf"),
        ([([["1/0"]], [0])], r"W\[0\]\[0\] of layer 1 is '1/0'"),
        ([([["one"]], [0])], r"W\[0\]\[0\] of layer 1 is 'one'"),
        ([([[1j]], [0])], r"W\[0\]\[0\] of layer 1 is 1j"),
        ([([[None]], [0])], r"W\[0\]\[0\] of layer 1 is None"),
        ([([[1]], [0], "tanh")], "layer 1 has the activation tanh, which is not piece"),
        ([([[1]], [0], "relu")], "Did you mean 'rectifier'"),
        ([MaxLayer([])], "layer 1 has no units"),
        ([MaxLayer(3)], "units of layer 1 are 3, expected for each unit a list"),
        ([MaxLayer([[(1, 2)]])], "expected for each unit a list of pieces"),
        ([MaxLayer([[([1], 2, 3)]])], "expected for each unit a list of pieces"),
        ([MaxLayer([[([], 1)]])], r"unit 0 of layer 1 has pieces with \[0\] weights"),
        (
            [MaxLayer([[([1], 0)], [([1, 2], 0)]])],
            r"unit 1 of layer 1 has pieces with \[2\] weights",
        ),
        ([MaxLayer([[]])], "unit 0 of layer 1 has pieces with"),
        ([MaxLayer([[([1], 0), ([1, 2], 0)]])], r"pieces with \[1, 2\] weights"),
        ([MaxLayer([[([math.nan], 0)]])], "a number of unit 0 of layer 1 is nan"),
        ([([[1, 1]], [0, 0]), MaxLayer([[([1], 0)]])], "layer 2 has 1 inputs"),
    ],
)
def test_bad_layers(layers, message):
    """Errors name the layer, what it has and what is expected"""
    with pytest.raises(ParameterError, match=message):
        rational_network(layers)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[0], []], r"group 1 is \[\], expected numbers of inputs from 0 to 2"),
        ([[0, 3]], r"group 0 is \[0, 3\]"),
        ([[-1]], r"group 0 is \[-1\]"),
        ([[0.5]], r"groups is \[\[0.5\]\], expected a whole number"),
        (3, "groups is 3"),
    ],
)
def test_bad_groups(groups, message):
    """A group must name inputs that are there"""
    with pytest.raises(ParameterError, match=message):
        max_pool(3, groups)


@pytest.mark.parametrize("number", ["1e999999999", "-1E-100001", "1e+0_999_999"])
def test_exponents_that_would_fill_the_memory_are_refused(number):
    """They are refused at once, smaller ones are read"""
    with pytest.raises(ParameterError, match="expected a finite number"):
        rational_network([([[number]], [0])])
    assert rational_network([([["1e0100000"]], [0])])([1]) == (10**100_000,)


def test_arrays_and_tensors_of_any_shape_are_points():
    """An image is a vector in C order, an entry may be an array with one number"""
    network = rational_network([([[1], [2], [3], [4]], [0])])
    image = np.array([[1.0, 0.5], [0.25, 0]])
    assert network(image) == network(image.ravel()) == (Fraction(11, 4),)
    assert network([np.array(1), np.float32(0.5), np.array([0.25]), 0]) == (2.75,)
    torch = pytest.importorskip("torch")
    assert network(torch.tensor(image, requires_grad=True)) == (2.75,)
    assert network(list(torch.tensor(image).half().ravel())) == (2.75,)
    with pytest.raises(ParameterError, match="x has 2 entries, expected 4"):
        network(image[0])
    with pytest.raises(ParameterError, match="x is 3, expected a sequence of 4"):
        network(3)


def test_bad_inputs():
    """A point must have an entry for each input, each a finite number"""
    network = rational_network([([[1], [1]], [0])])
    with pytest.raises(ParameterError, match="x has 3 entries, expected 2"):
        network([1, 2, 3])
    with pytest.raises(ParameterError, match="entry 1 of x is nan"):
        network([1, math.nan])
    with pytest.raises(ParameterError, match="entry 0 of x is 'a'"):
        network.pattern(["a", 1])


def test_pattern_needs_an_entry_for_each_input():
    """So must the point that a pattern is asked for"""
    network = rational_network([([[1], [1]], [0]), ([[1]], [0])])
    for x in ([1], [1, 2, 3]):
        with pytest.raises(ParameterError, match=f"x has {len(x)} entries, expected 2"):
            network.pattern(x)


def test_representation_gives_sizes_only():
    """Weights of thousands of digits are not printed"""
    assert repr(tent()) == "RationalNetwork(1 -> 2 -> 1)"


def test_to_fraction():
    """Every finite number is the rational that it is"""
    assert to_fraction(0.1, "it") == Fraction(3602879701896397, 36028797018963968)
    assert to_fraction(np.float32(0.1), "it") == Fraction(13421773, 134217728)
    assert to_fraction("1/3", "it") == Fraction(1, 3)
    assert to_fraction(" 0.1 ", "it") == Fraction(1, 10)
    assert to_fraction(2**200, "it") == 2**200
    with pytest.raises(ParameterError, match=r"it is \[1\], expected a finite number"):
        to_fraction([1], "it")


# ---------------------------------------------------------------------- as_network


def float_outputs(stack, X):
    """Run a stack in its own floats, without the output link."""
    h = np.asarray(X, dtype=stack.layers[0].dtype)
    for layer in stack.layers:
        h = layer.activation(h @ layer.W + layer.b, layer.slopes)
        h = h if layer.signs is None else h * layer.signs
    return h


def random_stack(rng, dtype, link="identity"):
    """Draw a stack of all piecewise-linear activations with signs and slopes."""
    names = ["rectifier", "leaky_rectifier(0.1)", "prelu(0.3)", "capped_rectifier(1)"]
    sizes = [3, 6, 5, 4, 4, 2]
    layers = []
    for k, (a, b) in enumerate(pairwise(sizes)):
        name = names[k] if k < len(names) else "identity"
        layers.append(
            Layer(
                rng.normal(size=(a, b)).astype(dtype),
                rng.normal(size=b).astype(dtype),
                name,
                signs=rng.choice([-1.0, 1.0], b),
                slopes=rng.normal(size=b) * 2 if name.startswith("prelu") else None,
            )
        )
    return RectifierStack(layers, output_link=link)


def same_up_to_rounding(network, floats, X, dtype):
    """Compare exact outputs with those of a forward pass in floats."""
    exact = np.array([[float(v) for v in network(x)] for x in X.tolist()])
    tolerance = 2e-4 if dtype == np.float32 else 1e-12
    scale = max(1, np.abs(exact).max())
    np.testing.assert_allclose(floats, exact, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stacks(dtype):
    """A stack is taken exactly, with activations, slopes and signs"""
    rng = np.random.default_rng(3)
    for _ in range(10):
        stack = random_stack(rng, dtype)
        X = rng.normal(size=(20, 3)).astype(dtype)
        same_up_to_rounding(as_network(stack), float_outputs(stack, X), X, dtype)


def test_stacks_are_exact_on_dyadic_numbers():
    """Where floats do not round, exact outputs are equal to theirs"""
    rng = np.random.default_rng(4)
    for _ in range(20):
        layers = [
            Layer(W, b, name, signs=rng.choice([-1, 1], len(b)))
            for (W, b), name in zip(
                oracle.random_layers(rng, (2, 3, 3, 3, 2)),
                [
                    "leaky_rectifier(0.5)",
                    "capped_rectifier(2)",
                    "rectifier",
                    "identity",
                ],
                strict=True,
            )
        ]
        stack = RectifierStack(layers)
        network = as_network(stack)
        X = rng.integers(-8, 9, (10, 2)) / 4
        for x, outputs in zip(
            X.tolist(), float_outputs(stack, X).tolist(), strict=True
        ):
            assert network(x) == tuple(map(Fraction, outputs))


def test_a_float32_stack_is_not_rounded_again():
    """Weights of float32 are those floats, not the decimals they were written as"""
    stack = RectifierStack([Layer(np.array([[0.1]], np.float32), [0.2], "identity")])
    total = Fraction(float(np.float32(0.1))) + Fraction(float(np.float32(0.2)))
    assert as_network(stack)([1]) == (total,)


def test_a_network_is_read_again():
    """What was read may be given again"""
    network = tent()
    assert as_network(network) is network


@pytest.mark.parametrize("link", ["softmax", "sigmoid", "exp"])
def test_output_links_are_left_out(link):
    """Outputs are those before the link"""
    stack = random_stack(np.random.default_rng(5), np.float64, link)
    same = RectifierStack(stack.layers)
    assert as_network(stack) == as_network(same)
    classes = None if link == "exp" else ["a", "b"]
    assert as_network(StackModel(stack, classes)) == as_network(same)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fitted_estimators(dtype):
    """A fitted estimator gives the function behind its predictions"""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 3)).astype(dtype)
    y = (np.abs(X[:, 0]) > X[:, 1]).astype(int)
    options = {"max_epochs": 3, "random_state": 0}
    classifier = RectifierClassifier((5, 4), **options).fit(X, y)
    network = as_network(classifier)
    outputs = np.array([[float(v) for v in network(x)] for x in X.tolist()])
    found = apply_link(classifier.stack_.output_link, outputs)
    np.testing.assert_allclose(found, classifier.predict_proba(X), atol=1e-5)
    regressor = RectifierRegressor((5, 4), **options).fit(X, X[:, 0] * X[:, 1])
    found = np.array([float(as_network(regressor)(x)[0]) for x in X.tolist()])
    np.testing.assert_allclose(found, regressor.predict(X), atol=1e-5)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_perceptrons_of_sklearn(n_classes):
    """MLPClassifier and MLPRegressor give the function behind their predictions"""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 3))
    y = np.arange(60) % n_classes
    classifier = MLPClassifier(
        hidden_layer_sizes=(5, 4), max_iter=5, random_state=0
    ).fit(X, y)
    network = as_network(classifier)
    outputs = np.array([[float(v) for v in network(x)] for x in X.tolist()])
    if outputs.shape[1] == 1:
        found = 1 / (1 + np.exp(-outputs[:, 0]))
        np.testing.assert_allclose(found, classifier.predict_proba(X)[:, 1], rtol=1e-9)
    else:
        found = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found, classifier.predict_proba(X), rtol=1e-9)
    regressor = MLPRegressor(hidden_layer_sizes=(5, 4), max_iter=5, random_state=0).fit(
        X, X[:, :2]
    )
    network = as_network(regressor)
    found = np.array([[float(v) for v in network(x)] for x in X.tolist()])
    np.testing.assert_allclose(found, regressor.predict(X), rtol=1e-9)


def test_modules_of_torch():
    """A Sequential is taken exactly, with all its piecewise-linear activations"""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        module = nn.Sequential(
            nn.Flatten(),
            nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Dropout(0.5)),
            *(nn.Linear(6, 5), nn.LeakyReLU(0.2)),
            *(nn.Linear(5, 5), nn.PReLU(5, init=0.3)),
            *(nn.Linear(5, 4), nn.ReLU6()),
            *(nn.Linear(4, 4), nn.Hardtanh(0.0, 2.0)),
            nn.Linear(4, 2),
        )
        module = module.to(dtype).eval()
        X = torch.randn(20, 3, dtype=dtype)
        with torch.no_grad():
            floats = module(X).numpy()
        same_up_to_rounding(as_network(module), floats, X.numpy(), floats.dtype)


def test_softmax_of_torch_is_left_out():
    """Softmax at the end changes no answer"""
    nn = pytest.importorskip("torch").nn
    modules = [nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)]
    logits = as_network(nn.Sequential(*modules))
    assert as_network(nn.Sequential(*modules, nn.Softmax(1))) == logits


def test_normalisation_is_refused():
    """BatchNorm cannot be folded without rounding; the message names the place"""
    nn = pytest.importorskip("torch").nn
    module = nn.Sequential(
        nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1)
    )
    with pytest.raises(ParameterError, match=r"module '1' is a BatchNorm1d.*Fold it"):
        as_network(module.eval())
    nested = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)))
    with pytest.raises(ParameterError, match=r"module '0\.1' is a LayerNorm"):
        as_network(nested)


def test_smooth_networks_are_refused():
    """A layer that is not piecewise linear is named, in every kind of model"""
    stack = RectifierStack(
        [Layer([[1.0]], [0.0], "tanh"), Layer([[1.0]], [0.0], "identity")]
    )
    with pytest.raises(ParameterError, match="layer 1 has the activation tanh"):
        as_network(stack)
    X = np.random.default_rng(8).normal(size=(20, 2))
    with pytest.warns(UserWarning, match="Maximum iterations"):
        model = MLPRegressor(
            hidden_layer_sizes=(3,), activation="logistic", max_iter=1
        ).fit(X, X[:, 0])
    with pytest.raises(ParameterError, match="layer 1 has the activation sigmoid"):
        as_network(model)


@pytest.mark.parametrize("model", [None, 3, "net.npz", [[1.0]], object()])
def test_other_models_are_refused(model):
    """What is no model is named by its type"""
    name = type(model).__name__
    with pytest.raises(ParameterError, match=f"the model is a {name}, expected a Rect"):
        as_network(model)


# ---------------------------------------------------- differences and the way back


def test_difference_and_side_by_side():
    """Both compute what they say for networks of different depth and kind"""
    rng = np.random.default_rng(9)
    for k in range(30):
        depths = [(2, 3, 2), (2, 2, 3, 2), (2, 2), (2, 3, 2, 2, 2)]
        f, g = (
            rational_network(oracle.random_layers(rng, sizes, KINDS["Fraction"]))
            for sizes in (depths[k % 4], depths[k // 4 % 4])
        )
        if k % 5 == 0:
            pool = MaxLayer([[((1, 2), 0), ((0, "1/3"), 1)], [((1, 1), 0)]])
            g = rational_network([pool, ([[1, 0], [0, 1]], [0, 0])])
        x = point(rng, 2)
        assert difference(f, g)(x) == tuple(
            a - b for a, b in zip(f(x), g(x), strict=True)
        )
        assert side_by_side(f, g)(x) == f(x) + g(x)
        assert set(difference(f, f)(x)) == {0}


def test_networks_that_cannot_be_compared():
    """Numbers of inputs and outputs must be equal"""
    f, g = (rational_network([([[1]] * n, [0])]) for n in (1, 2))
    h = rational_network([([[1, 1]], [0, 0])])
    for compare in (difference, side_by_side):
        with pytest.raises(ParameterError, match="has 1 inputs, the second 2"):
            compare(f, g)
        with pytest.raises(ParameterError, match="has 1 outputs, the second 2"):
            compare(f, h)


def test_rational_layers_and_back():
    """The true coefficients give the network again, and are those that were given"""
    rng = np.random.default_rng(10)
    for _ in range(10):
        layers = oracle.random_layers(rng, (2, 3, 3, 2), KINDS["Fraction"])
        network = rational_network(layers)
        assert from_rational_layers(rational_layers(network)) == network
        for units, (W, b) in zip(rational_layers(network), layers, strict=True):
            rows = [unit[-1] for unit in units]
            columns = [*zip(*W, strict=True)]
            assert rows == [[*w, v] for w, v in zip(columns, b, strict=True)]
            assert all(not any(row) for unit in units for row in unit[:-1])


@pytest.mark.parametrize(
    "names",
    [("rectifier",), ("prelu(-0.5)", "rectifier"), ("leaky_rectifier(3)",)],
    ids=str,
)
def test_as_stack_and_back(names):
    """A network of floats is that of its stack, weight by weight"""
    rng = np.random.default_rng(11)
    sizes = (2, *[3] * len(names), 2)
    layers = oracle.random_layers(rng, sizes, KINDS["float"])
    given = [(*layer, name) for layer, name in zip(layers, names, strict=False)]
    network = rational_network([*given, layers[-1]])
    again = as_network(as_stack(network))
    for _ in range(10):
        x = point(rng, 2)
        assert again(x) == network(x)


def test_as_stack_rounds_only_if_it_may():
    """A weight that is no float is an error, or is rounded to the nearest one"""
    network = rational_network([([["1/3"]], [0]), ([[1]], [0])])
    with pytest.raises(ParameterError, match="1/3"):
        as_stack(network)
    stack = as_stack(network, rounding=True)
    assert stack.layers[0].W.tolist() == [[1 / 3]]
    with pytest.raises(ParameterError, match="layer 1"):
        as_stack(rational_network([([[10**400]], [0])]), rounding=True)
    with pytest.raises(ParameterError, match="layer 1"):
        as_stack(rational_network([max_pool(2, [[0, 1]]), ([[1]], [0])]))


def test_networks_are_values():
    """Equal layers make equal networks, which can be keys"""
    assert tent() == tent()
    assert hash(tent()) == hash(tent())
    assert isinstance(tent(), RationalNetwork)
