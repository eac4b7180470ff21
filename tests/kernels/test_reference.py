"""The reference: against finite differences, against PyTorch, and on paper."""

import numpy as np
import pytest
import scipy.special
from strategies import floating_task

from hardzero.activations import CATALOGUE, get
from hardzero.kernels.reference import ReferenceNetwork, log_loss
from hardzero.kernels.rules import SGD, Adam
from hardzero.stack import Layer, RectifierStack

L1 = 0.05


@pytest.mark.parametrize("name", CATALOGUE)
def test_gradients_are_finite_differences(name):
    """A step moves each parameter by the derivative of the documented objective"""
    stack, X, y, weights = floating_task(name, np.float64, (4, 5, 6, 3), n_rows=7)
    network = ReferenceNetwork(stack, SGD(1.0), l1_activation=L1)
    network.bind(X, y, weights)
    loss = network.step(np.arange(7))
    assert loss == pytest.approx(_objective(stack.arrays(), stack, X, y, weights, 0.0))

    moved = network.stack().arrays()
    for key, start in stack.arrays().items():
        if key.endswith("signs"):
            continue
        expected = np.empty_like(start)
        for index in np.ndindex(start.shape):
            sides = []
            for step in (1e-6, -1e-6):
                shifted = start.copy()
                shifted[index] += step
                arrays = {**stack.arrays(), key: shifted}
                sides.append(_objective(arrays, stack, X, y, weights, L1))
            expected[index] = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(
            start - moved[key], expected, rtol=1e-5, atol=1e-8, err_msg=key
        )


def _objective(arrays, stack, X, y, weights, l1):
    """Return the objective as `hardzero.kernels.network` states it, row by row."""
    stack = RectifierStack.from_arrays(stack.architecture, arrays)
    total = 0.0
    for x, target, share in zip(X, y, weights / weights.sum(), strict=True):
        scores = stack(x[np.newaxis])[0]
        total += share * (scipy.special.logsumexp(scores) - scores[target])
        for n_layers in range(1, len(stack.layers)):
            total += share * l1 * np.abs(stack.truncate(n_layers)(x[np.newaxis])).sum()
    return total


def test_one_step_by_hand():
    """A step of a network with two weights is what pencil and paper give

    h = max(3 * 2 - 1, 0) = 5 and the only output is 5 * 0.5; its derivative 1 moves the
    output weight by 5 and, through the weight 0.5, the hidden weight by 3 * 0.5.
    """
    stack = RectifierStack(
        [Layer([[2.0]], [-1.0], "rectifier"), Layer([[0.5]], [0.0], "identity")]
    )
    network = ReferenceNetwork(stack, SGD(1.0))
    network.bind(np.array([[3.0]]), np.array([0]))
    assert network.forward_batch(np.array([0])) == [[2.5]]
    network.backward_batch(np.array([[1.0]]))
    hidden, output = network.stack().layers
    assert (hidden.W, hidden.b) == ([[0.5]], [-1.5])
    assert (output.W, output.b) == ([[-4.5]], [-1.0])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (SGD(0.5), [0.5, 0.0]),
        (SGD(0.5, l2=1.0), [0.0, -0.5]),
        (SGD(0.5, momentum=0.5), [0.5, -0.25]),
        (SGD(0.5, momentum=0.5, nesterov=True), [0.25, -0.625]),
        (Adam(0.5, epsilon=1e-30), [0.5, 0.0]),
        (
            Adam(0.5, beta2=0.75, epsilon=0.5),
            [0.75, 0.75 - 0.5 * 7**0.5 / (7**0.5 + 2)],
        ),
    ],
    ids=repr,
)
def test_rules_by_hand(rule, expected):
    """From w = 1, two steps with gradient 1 lead where the formulas of the rule say"""
    network = ReferenceNetwork(
        RectifierStack([Layer([[1.0]], [0.0], "identity")]), rule
    )
    network.bind(np.array([[1.0]]), np.array([0]))
    for w in expected:
        network.forward_batch(np.array([0]))
        network.backward_batch(np.array([[1.0]]))
        assert network.stack().layers[0].W[0, 0] == pytest.approx(w, abs=1e-12)


def test_log_loss_is_stable_and_weighted():
    """Scores of 1e4 give exact losses; a share of 0 takes a row out"""
    outputs = np.array([[1e4, 0.0], [0.0, 1e4], [0.0, 0.0]])
    loss, delta = log_loss(outputs, np.array([0, 0, 1]), np.array([0.5, 0.5, 0.0]))
    assert loss == 5e3
    assert delta.tolist() == [[0.0, 0.0], [-0.5, 0.5], [0.0, 0.0]]


RULES = {
    "plain": (SGD(0.1), {}),
    "l2": (SGD(0.1, l2=0.05), {"weight_decay": 0.05}),
    "momentum": (SGD(0.05, momentum=0.9), {"momentum": 0.9}),
    "momentum and l2": (
        SGD(0.05, momentum=0.9, l2=0.05),
        {"momentum": 0.9, "weight_decay": 0.05},
    ),
    "nesterov": (
        SGD(0.05, momentum=0.9, nesterov=True, l2=0.05),
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
    ),
    "adam": (Adam(0.01), {}),
    "adam and l2": (
        Adam(0.01, beta1=0.8, beta2=0.99, epsilon=1e-6, l2=0.05),
        {"betas": (0.8, 0.99), "eps": 1e-6, "weight_decay": 0.05},
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", RULES)
def test_rules_are_pytorchs(name, dtype):
    """After 20 steps the weights are those of autograd and torch.optim"""
    rule, options = RULES[name]
    _compare_with_torch("rectifier", rule, options, dtype)


@pytest.mark.parametrize(
    "name",
    [
        "identity",
        "rectifier",
        "leaky_rectifier",
        "prelu",
        "elu",
        "selu",
        "gelu",
        "softplus",
        "rescaled_softplus",
        "silu",
        "mish",
        "sigmoid",
        "tanh",
        "capped_rectifier(6)",
    ],
)
def test_activations_are_pytorchs(name):
    """After 20 steps the weights are those of autograd for each function it has"""
    _compare_with_torch(name, SGD(0.1), {}, np.float64)
    _compare_with_torch(name, SGD(0.1), {}, np.float32)


def _compare_with_torch(name, rule, options, dtype):
    torch = pytest.importorskip("torch")
    stack, X, y, _ = floating_task(name, dtype, (30, 24, 17, 5), n_rows=200)
    network = ReferenceNetwork(stack, rule, l1_activation=L1 / 10)
    network.bind(X, y)

    twins = {
        key: torch.tensor(value, requires_grad=not key.endswith("signs"))
        for key, value in stack.arrays().items()
    }
    weights = [twin for key, twin in twins.items() if key.endswith("W")]
    others = [twin for key, twin in twins.items() if key[2:] in ("b", "slopes")]
    optimizer = {SGD: torch.optim.SGD, Adam: torch.optim.Adam}[type(rule)](
        [{"params": weights}, {"params": others, "weight_decay": 0.0}],
        lr=rule.learning_rate,
        **options,
    )
    function = _torch_function(get(name), torch)
    for t, rows in enumerate(np.arange(200).reshape(20, 10), 1):
        h, penalty = torch.from_numpy(X[rows]), 0.0
        for number in (1, 2):
            a = h @ twins[f"{number}.W"] + twins[f"{number}.b"]
            h = function(a, twins.get(f"{number}.slopes")) * twins[f"{number}.signs"]
            penalty = penalty + h.abs().sum() / 10
        scores = h @ twins["3.W"] + twins["3.b"]
        loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(y[rows]))
        optimizer.zero_grad()
        (loss + L1 / 10 * penalty).backward()
        if isinstance(rule, Adam):  # PyTorch adds epsilon after the correction
            for group in optimizer.param_groups:
                group["eps"] = rule.epsilon / np.sqrt(1 - rule.beta2**t)
        optimizer.step()
        assert network.step(rows) == pytest.approx(loss.item(), rel=1e-5)

    atol = 1e-6 if dtype == np.float32 else 1e-12
    for key, value in network.stack().arrays().items():
        twin = twins[key].detach().numpy()
        np.testing.assert_allclose(value, twin, rtol=0, atol=atol, err_msg=key)


def _torch_function(activation, torch):
    functional = torch.nn.functional
    p = activation.parameter
    return {
        "identity": lambda a, _: a,
        "rectifier": lambda a, _: functional.relu(a),
        "leaky_rectifier": lambda a, _: functional.leaky_relu(a, p),
        "prelu": functional.prelu,
        "elu": lambda a, _: functional.elu(a, p),
        "selu": lambda a, _: functional.selu(a),
        "gelu": lambda a, _: functional.gelu(a),
        "softplus": lambda a, _: functional.softplus(a),
        "rescaled_softplus": lambda a, _: functional.softplus(a, beta=p),
        "silu": lambda a, _: functional.silu(a),
        "mish": lambda a, _: functional.mish(a),
        "sigmoid": lambda a, _: torch.sigmoid(a),
        "tanh": lambda a, _: torch.tanh(a),
        "capped_rectifier": lambda a, _: functional.relu6(a),
    }[activation.name]
