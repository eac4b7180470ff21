"""Tied networks: against PyTorch, against finite differences, and on paper."""

import inspect

import numpy as np
import pytest
from strategies import csr

from hardzero.errors import DataError, ParameterError
from hardzero.kernels.network import Network
from hardzero.kernels.reference import ReferenceNetwork
from hardzero.kernels.rules import SGD, Adam
from hardzero.kernels.statistics import LayerStatistics
from hardzero.kernels.tied import TiedNetwork
from hardzero.stack import Layer, RectifierStack

L1 = 0.05
N_FEATURES, N_UNITS, N_ROWS = 9, 6, 40

RULES = {
    "plain": (SGD(0.1), {}),
    "l2": (SGD(0.1, l2=0.05), {"weight_decay": 0.05}),
    "momentum and l2": (
        SGD(0.01, momentum=0.9, l2=0.05),
        {"momentum": 0.9, "weight_decay": 0.05},
    ),
    "nesterov": (
        SGD(0.01, momentum=0.9, nesterov=True),
        {"momentum": 0.9, "nesterov": True},
    ),
    "adam and l2": (Adam(0.01, l2=0.05), {"weight_decay": 0.05}),
}


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("activation", ["rectifier", "softplus", "prelu"])
@pytest.mark.parametrize("name", RULES)
def test_twenty_steps_are_pytorchs(name, activation, sparse):
    """After 20 weighted steps the parameters are those of autograd and torch.optim"""
    torch = pytest.importorskip("torch")
    rule, options = RULES[name]
    stack, X, weights = _task(activation)
    network = TiedNetwork(stack, rule, l1_activation=L1)
    network.bind(csr(X) if sparse else X, None, weights)
    functional = torch.nn.functional
    function = {
        "rectifier": lambda a: functional.relu(a),
        "softplus": lambda a: functional.softplus(a),
        "prelu": lambda a: functional.prelu(a, slopes),
    }[activation]

    encoder = stack.layers[0]
    W, b, c = (torch.tensor(p, requires_grad=True) for p in _arrays(stack))
    others = [b, c]
    if activation == "prelu":
        slopes = torch.tensor(encoder.slopes, requires_grad=True)
        others.append(slopes)
    optimizer = {SGD: torch.optim.SGD, Adam: torch.optim.Adam}[type(rule)](
        [{"params": [W]}, {"params": others, "weight_decay": 0.0}],
        lr=rule.learning_rate,
        **options,
    )
    signs = torch.tensor(encoder.signs)
    for t, rows in enumerate((np.arange(160) % N_ROWS).reshape(20, 8), 1):
        x = torch.from_numpy(X[rows])
        share = torch.from_numpy(weights[rows] / weights[rows].sum())[:, None]
        h = signs * function(x @ W + b)
        outputs = h @ W.T + c
        loss = (share * (outputs - x) ** 2).sum()
        optimizer.zero_grad()
        (loss + L1 * (share * h.abs()).sum()).backward()
        if isinstance(rule, Adam):  # PyTorch adds epsilon after the correction
            for group in optimizer.param_groups:
                group["eps"] = rule.epsilon / np.sqrt(1 - rule.beta2**t)
        optimizer.step()
        assert _step(network, X, weights, rows) == pytest.approx(loss.item())

    trained, trained_decoder = network.stack().layers
    expected = {"W": W, "b": b}
    if activation == "prelu":
        expected["slopes"] = slopes
    for key, tensor in expected.items():
        np.testing.assert_allclose(
            trained.arrays()[key], tensor.detach().numpy(), rtol=0, atol=1e-10
        )
    np.testing.assert_allclose(trained_decoder.b, c.detach().numpy(), atol=1e-10)
    np.testing.assert_array_equal(trained_decoder.W, trained.W.T)


@pytest.mark.parametrize("activation", ["rectifier", "tanh", "prelu", "softplus"])
def test_gradients_are_finite_differences(activation):
    """A step moves each parameter by the derivative of the documented objective"""
    stack, X, weights = _task(activation)
    rows = np.arange(7)
    network = TiedNetwork(stack, SGD(1.0), l1_activation=L1)
    network.bind(X, None, weights)
    _step(network, X, weights, rows)
    moved = network.stack().arrays()
    share = weights[rows] / weights[rows].sum()

    def objective(arrays):
        given = RectifierStack.from_arrays(stack.architecture, arrays)
        h = given.truncate(1)(X[rows])
        errors = ((given(X[rows]) - X[rows]) ** 2).sum(axis=1)
        return share @ (errors + L1 * np.abs(h).sum(axis=1))

    for key in {"1.W", "1.b", "1.slopes", "2.b"} & moved.keys():
        start = stack.arrays()[key]
        expected = np.empty_like(start)
        for index in np.ndindex(start.shape):
            sides = []
            for step in (1e-6, -1e-6):
                shifted = start.copy()
                shifted[index] += step
                arrays = {**stack.arrays(), key: shifted}
                arrays["2.W"] = arrays["1.W"].T.copy()
                sides.append(objective(arrays))
            expected[index] = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(
            start - moved[key], expected, rtol=1e-6, atol=1e-8, err_msg=key
        )


def test_gradient_of_the_weights_is_the_sum_of_both_layers():
    """One plain step moves W by what an untied network moves W and V by, together"""
    stack, X, weights = _task("rectifier")
    tied = TiedNetwork(stack, SGD(0.5), l1_activation=L1)
    untied = ReferenceNetwork(stack, SGD(0.5), l1_activation=L1)
    for network in (tied, untied):
        network.bind(X, None, weights)
        _step(network, X, weights, np.arange(10))
    encoder, decoder = untied.stack().layers
    start = stack.layers[0].W
    expected = start + (encoder.W - start) + (decoder.W.T - start)
    np.testing.assert_allclose(tied.stack().layers[0].W, expected, rtol=0, atol=1e-13)


def test_one_step_by_hand():
    """A step of a network with one weight is what pencil and paper give

    h = 2 * 3 = 6 and the output is 12; its derivative 1 moves W by h, and through the
    weight 2 of the decoder by 2 * 3 as well.
    """
    layers = [Layer([[2.0]], [0.0], "rectifier"), Layer([[2.0]], [0.0], "identity")]
    network = TiedNetwork(RectifierStack(layers), SGD(1.0))
    network.bind(np.array([[3.0]]))
    assert network.forward_batch(np.array([0])) == [[12.0]]
    network.backward_batch(np.array([[1.0]]))
    encoder, decoder = network.stack().layers
    assert (encoder.W, encoder.b) == ([[2.0 - 6.0 - 6.0]], [-2.0])
    assert (decoder.W, decoder.b) == (encoder.W, [-1.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_csr_rows_are_dense_rows(dtype):
    """CSR rows, also with stored zeros, lead to the same outputs and parameters"""
    stack, X, weights = _task("rectifier", dtype)
    networks = []
    for given in (X, csr(X, explicit_zeros=np.ones(X.shape, dtype=bool)), csr(X)):
        network = TiedNetwork(stack, Adam(0.01), l1_activation=L1)
        network.bind(given, None, weights)
        for rows in np.arange(N_ROWS).reshape(10, 4):
            _step(network, X, weights, rows)
        networks.append((network.stack(), network.forward(given)))
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for trained, outputs in networks[1:]:
        assert outputs.dtype == dtype
        np.testing.assert_allclose(outputs, networks[0][1], atol=tolerance)
        for key, array in networks[0][0].arrays().items():
            np.testing.assert_allclose(trained.arrays()[key], array, atol=tolerance)


def test_outputs_are_the_stacks():
    """Both forward passes give what the stack gives, with the weights transposed"""
    stack, X, _ = _task("tanh")
    network = TiedNetwork(stack, SGD(0.1))
    network.bind(X)
    np.testing.assert_allclose(network.forward(X), stack(X), atol=1e-14)
    np.testing.assert_allclose(network.forward_batch(np.arange(5)), stack(X[:5]))
    assert network.stack() == stack


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("activation", ["rectifier", "prelu"])
def test_goes_on_from_its_state_with_the_same_bits(name, activation):
    """A new network that is given the state does what the old one would have done"""
    stack, X, weights = _task(activation)
    rule = RULES[name][0]
    first, second = TiedNetwork(stack, rule), TiedNetwork(stack, rule)
    first.bind(X, None, weights)
    second.bind(X, None, weights)
    first.begin_epoch(3)
    for rows in np.arange(N_ROWS).reshape(10, 4)[:5]:
        _step(first, X, weights, rows)
    second.set_state(first.state())
    for rows in np.arange(N_ROWS).reshape(10, 4)[5:]:
        _step(first, X, weights, rows)
        _step(second, X, weights, rows)
    assert second.stack() == first.stack() != stack
    ends = first.state(), second.state()
    assert ends[0].keys() == ends[1].keys()
    assert all(np.array_equal(ends[0][key], ends[1][key]) for key in ends[0])
    assert ends[1]["n_steps"] == 10
    assert ends[1]["epoch"] == 3


def test_load_starts_anew():
    """After `load` a network does what a new one does"""
    stack, X, weights = _task("rectifier")
    network = TiedNetwork(stack, Adam(0.01))
    network.bind(X, None, weights)
    losses = [_step(network, X, weights, np.arange(5)) for _ in range(3)]
    network.load(stack)
    assert [_step(network, X, weights, np.arange(5)) for _ in range(3)] == losses


def test_statistics_count_zeros_and_start_again():
    """Statistics count the hidden zeros of batches, not of `forward`"""
    W = np.eye(2, 3)
    layers = [Layer(W, np.zeros(3), "rectifier"), Layer(W.T, np.zeros(2), "identity")]
    network = TiedNetwork(RectifierStack(layers), SGD(0.0))
    X = np.array([[1.0, -1.0], [2.0, -1.0], [-1.0, -1.0]])
    network.bind(X)
    network.forward_batch(np.array([0, 1]))
    network.forward_batch(np.array([2]))
    network.forward(X)
    assert network.statistics() == [
        LayerStatistics(3, 2, np.array([True, False, False]))
    ]
    assert network.statistics() == [LayerStatistics(0, 0, np.zeros(3, dtype=bool))]


def test_learning_rate_acts_at_once():
    """With the rate 0 a step changes nothing"""
    stack, X, weights = _task("rectifier")
    network = TiedNetwork(stack, SGD(0.1))
    network.bind(X)
    network.set_learning_rate(0.0)
    _step(network, X, weights, np.arange(5))
    assert network.stack() == stack
    with pytest.raises(ParameterError, match="learning_rate of SGD is -1"):
        network.set_learning_rate(-1.0)


def test_does_not_change_what_it_is_given():
    """Neither the rows, the derivatives nor the stack change by a step"""
    stack, X, _ = _task("rectifier")
    twin, rows, _ = _task("rectifier")
    network = TiedNetwork(stack, SGD(0.1), l1_activation=L1)
    network.bind(X)
    delta = network.forward_batch(np.arange(5)) - X[:5]
    before = delta.copy()
    network.backward_batch(delta)
    np.testing.assert_array_equal(delta, before)
    np.testing.assert_array_equal(X, rows)
    assert stack == twin != network.stack()


def test_diverges_without_a_warning():
    """Parameters that overflow are reported by `stack`, and nothing warns before"""
    stack, X, _ = _task("rectifier")
    network = TiedNetwork(stack, SGD(1e200))
    network.bind(X)
    for _ in range(5):
        outputs = network.forward_batch(np.arange(N_ROWS))
        with np.errstate(over="ignore", invalid="ignore"):
            delta = outputs - X
        network.backward_batch(delta)
    with pytest.raises(ParameterError, match="layer 1"):
        network.stack()


def test_refuses_steps_it_cannot_take():
    """Steps out of turn raise errors that say what to call first"""
    stack, X, _ = _task("rectifier")
    network = TiedNetwork(stack, SGD(0.1))
    with pytest.raises(ParameterError, match=r"Call bind\(X, y\) first"):
        network.forward_batch(np.arange(4))
    network.bind(X)
    with pytest.raises(ParameterError, match="a tied network reconstructs its inputs"):
        network.step(np.arange(4))
    with pytest.raises(ParameterError, match="batch has 0 rows, expected at least 1"):
        network.forward_batch(np.arange(0))
    with pytest.raises(ParameterError, match="Call forward_batch before each"):
        network.backward_batch(np.zeros((4, N_FEATURES)))
    network.forward_batch(np.arange(4))
    with pytest.raises(ParameterError, match=r"shape \(9, 4\), expected float64 of"):
        network.backward_batch(np.zeros((N_FEATURES, 4)))
    network.backward_batch(np.zeros((4, N_FEATURES)))
    with pytest.raises(ParameterError, match="Call forward_batch before each"):
        network.backward_batch(np.zeros((4, N_FEATURES)))
    with pytest.raises(DataError, match="X is float32 but the network is float64"):
        network.bind(X.astype(np.float32))
    with pytest.raises(ParameterError, match=r"the state lacks \['W\.0'"):
        network.set_state({})


def test_refuses_stacks_that_are_not_tied():
    """Only an encoder with its transpose as the decoder is taken, and loaded"""
    stack, _, _ = _task("rectifier")
    encoder, decoder = stack.layers
    other = Layer(decoder.W + 1.0, decoder.b, "identity")
    signed = Layer(decoder.W, decoder.b, "identity", signs=np.ones(N_FEATURES))
    curved = Layer(decoder.W, decoder.b, "softplus")
    refused = {
        "are not the transpose": [encoder, other],
        r"\(12,.*expected the same|shape \(6, 6\) are not": [
            encoder,
            Layer(np.eye(6), np.zeros(6), "identity"),
        ],
        "the stack has 1 layers, expected 2": [encoder],
        "the stack has 3 layers, expected 2": [encoder, decoder, encoder],
        "expected the activation 'identity' and no signs": [encoder, signed],
        "softplus.*expected the activation 'identity'": [encoder, curved],
    }
    network = TiedNetwork(stack, SGD(0.1))
    for message, layers in refused.items():
        with pytest.raises(ParameterError, match=message):
            TiedNetwork(RectifierStack(layers), SGD(0.1))
        with pytest.raises(ParameterError, match=message):
            network.load(RectifierStack(layers))
    with pytest.raises(ParameterError, match="expected the architecture and dtype"):
        network.load(stack.astype(np.float32))
    with pytest.raises(ParameterError, match="l1_activation is -1"):
        TiedNetwork(stack, SGD(0.1), l1_activation=-1.0)


def test_methods_are_those_of_the_protocol():
    """Each method of the protocol is there, with its signature and documentation"""
    for name in (name for name in vars(Network) if not name.startswith("_")):
        method, promised = getattr(TiedNetwork, name), getattr(Network, name)
        assert inspect.signature(method) == inspect.signature(promised)
        assert inspect.getdoc(method) == inspect.getdoc(promised)


def _task(activation, dtype=np.float64):
    """Return a tied stack with signs, rows and weights."""
    rng = np.random.default_rng(1)
    W = rng.normal(size=(N_FEATURES, N_UNITS)) / 3
    b, c = 0.3 * rng.normal(size=N_UNITS), 0.3 * rng.normal(size=N_FEATURES)
    signs = rng.choice([-1, 1], N_UNITS)
    layers = Layer(W, b, activation, signs), Layer(W.T, c, "identity")
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * (rng.random((N_ROWS, N_FEATURES)) < 0.5)
    stack = RectifierStack(layers).astype(dtype)
    return stack, X.astype(dtype), (0.1 + rng.random(N_ROWS)).astype(dtype)


def _arrays(stack):
    encoder, decoder = stack.layers
    return encoder.W, encoder.b, decoder.b


def _step(network, X, weights, rows):
    """Make a step with the squared error and return its weighted mean."""
    share = (weights[rows] / weights[rows].sum())[:, np.newaxis]
    error = network.forward_batch(rows) - X[rows]
    network.backward_batch(2 * share * error)
    return float((share * error**2).sum())
