"""From the same weights, training goes the way of scikit-learn's perceptrons.

scikit-learn divides its penalty alpha/2 |W|^2 by the weight of the batch, so alpha
there is l2 here times the size of the batches.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import xlogy
from sklearn.datasets import load_digits

from hardzero import kernels
from hardzero.engine.objectives import Poisson, SigmoidLogLoss, Squared
from hardzero.kernels.rules import SGD, Adam
from hardzero.serving.convert import to_sklearn
from hardzero.stack import Layer, RectifierStack

ENGINES = ["reference", "dense", "sparse", "auto"]
RULES = {
    "SGD": SGD(0.05),
    "momentum": SGD(0.02, momentum=0.9),
    "Nesterov": SGD(0.02, momentum=0.9, nesterov=True),
    "Adam": Adam(0.005, beta1=0.8, beta2=0.99, epsilon=1e-8),
}
OBJECTIVES = {"sigmoid": SigmoidLogLoss(), "identity": Squared(), "exp": Poisson()}
TARGETS = {
    "classes": ("softmax", 3),
    "one label": ("sigmoid", 1),
    "labels": ("sigmoid", 3),
    "number": ("identity", 1),
    "numbers": ("identity", 3),
    "counts": ("exp", 2),
}


class Race:
    """A network and a perceptron that start from the same weights."""

    def __init__(
        self,
        stack,
        X,
        y,
        rule,
        *,
        alpha=0.5,
        batch_size=20,
        engine="reference",
        sample_weight=None,
    ):
        self.X, self.y = X, y
        self.alpha, self.batch_size = alpha, batch_size
        self.weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        weights = np.ones(len(y)) if sample_weight is None else sample_weight
        self.batch_weight = weights[:batch_size].sum()
        self.shares = weights / self.batch_weight
        self.network = kernels.build(
            stack, replace(rule, l2=alpha / self.batch_weight), engine
        )
        is_softmax = stack.output_link == "softmax"
        self.network.bind(X, y if is_softmax else None, sample_weight)
        self.mlp = perceptron(stack, rule).set_params(
            alpha=alpha, batch_size=batch_size, shuffle=False
        )
        self.losses = []

    def run(self, n_epochs):
        """Train both; keep our losses as scikit-learn computes its own."""
        y = self.y[:, 0] if self.y.shape[1:] == (1,) else self.y
        for _ in range(n_epochs):
            batches = np.arange(len(y)).reshape(-1, self.batch_size)
            self.losses.append(np.mean([self.step(rows) for rows in batches]))
            self.mlp.partial_fit(self.X, y, **self.weights)
        return self

    def step(self, rows):
        """Make our update; return the loss of the batch with the penalty."""
        stack = self.network.stack()
        squares = sum(np.square(layer.W).sum() for layer in stack.layers)
        penalty = self.alpha / 2 * squares / self.batch_weight
        if stack.output_link == "softmax":
            return self.network.step(rows) + penalty
        y, shares = self.y[rows], self.shares[rows]
        outputs = self.network.forward_batch(rows)
        objective = OBJECTIVES[stack.output_link]
        loss, delta = objective.loss_and_delta(outputs, y, shares)
        self.network.backward_batch(delta)
        if stack.output_link == "identity":
            loss /= stack.n_outputs  # it descends the sum but reports the mean
        if stack.output_link == "exp":
            loss += shares @ (xlogy(y, y) - y).sum(axis=1)  # the deviance's constant
        return loss + penalty

    def check(self, tolerance):
        """Check that losses and weights are the same."""
        pairs = [(np.array(self.losses), np.array(self.mlp.loss_curve_))]
        for k, layer in enumerate(self.network.stack().layers):
            pairs.append((layer.W, self.mlp.coefs_[k]))
            pairs.append((layer.b, self.mlp.intercepts_[k]))
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)
        assert self.losses[-1] < self.losses[0]


def perceptron(stack, rule):
    """Return an MLP with the weights of a stack and the settings of a rule."""
    if stack.output_link == "sigmoid" and stack.n_outputs == 1:
        last = stack.layers[-1]  # z becomes the outputs (0, z)
        W, b = np.pad(last.W, ((0, 0), (1, 0))), np.pad(last.b, (1, 0))
        layers = (*stack.layers[:-1], Layer(W, b, "identity"))
        stack = RectifierStack(layers, "softmax")
    settings = {"learning_rate_init": rule.learning_rate}
    if isinstance(rule, Adam):
        settings |= {"beta_1": rule.beta1, "beta_2": rule.beta2}
        settings |= {"epsilon": rule.epsilon, "solver": "adam"}
    else:
        settings |= {"momentum": rule.momentum, "nesterovs_momentum": rule.nesterov}
        settings |= {"solver": "sgd"}
    return to_sklearn(stack).set_params(**settings)


def draw_stack(sizes, link, activation="rectifier"):
    """Draw a network as scikit-learn does, with biases."""
    rng = np.random.default_rng(0)
    layers = []
    for shape in pairwise(sizes):
        bound = np.sqrt(6 / sum(shape))
        W, b = (rng.uniform(-bound, bound, size) for size in (shape, shape[1]))
        is_last = len(layers) == len(sizes) - 2
        layers.append(Layer(W, b, "identity" if is_last else activation))
    return RectifierStack(layers, link)


def problem(kind, activation="rectifier"):
    """Draw a network, sparse inputs, and targets of some kind."""
    link, n_outputs = TARGETS[kind]
    rng = np.random.default_rng(1)
    X = np.maximum(rng.normal(size=(100, 6)), 0)
    shape = (100, n_outputs)
    y = {
        "softmax": rng.integers(0, n_outputs, 100),
        "sigmoid": rng.integers(0, 2, shape).astype(float),
        "identity": rng.normal(size=shape),
        "exp": rng.poisson(1.5, shape).astype(float),
    }[link]
    return draw_stack((6, 9, 8, n_outputs), link, activation), X, y


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", TARGETS)
def test_the_first_epochs_are_those_of_scikit_learn(kind, rule, engine):
    """Same weights, rule, alpha and batches give the same losses and weights, for every
    kind of target and each of our engines.
    """
    stack, X, y = problem(kind)
    Race(stack, X, y, RULES[rule], engine=engine).run(5).check(1e-9)


@pytest.mark.parametrize("activation", ["identity", "sigmoid", "tanh"])
def test_so_they_are_for_other_activations(activation):
    """scikit-learn's other three activations train the same, too."""
    stack, X, y = problem("classes", activation)
    Race(stack, X, y, RULES["Nesterov"]).run(5).check(1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rule", RULES)
def test_so_they_are_for_sparse_rows(rule, engine):
    """Rows that keep zeros out, with Adam's and momentum's memory of idle ones."""
    stack, X, y = problem("classes")
    Race(stack, sp.csr_array(X), y, RULES[rule], engine=engine).run(5).check(1e-9)


@pytest.mark.parametrize("kind", ["classes", "labels", "numbers"])
def test_so_they_are_with_sample_weights(kind):
    """Weights of rows count the same, where all batches have the same total."""
    stack, X, y = problem(kind)
    weights = np.tile(np.random.default_rng(2).uniform(0, 2, 20), 5)
    Race(stack, X, y, RULES["Adam"], sample_weight=weights).run(5).check(1e-9)


def digits():
    """Return a network for 8 x 8 images of digits, the images, and the digits."""
    X, y = load_digits(return_X_y=True)
    X = np.ascontiguousarray(X[:1600] / 16)
    return draw_stack((64, 100, 10), "softmax"), X, y[:1600]


@pytest.mark.parametrize("rule", [*RULES.values(), Adam(0.001, epsilon=1e-8)], ids=str)
def test_so_they_are_on_real_data(rule):
    """On images of digits, in batches of 200, all losses stay the same to 1e-6."""
    race = Race(*digits(), rule, alpha=1e-4, batch_size=200, engine="auto").run(5)
    np.testing.assert_allclose(race.losses, race.mlp.loss_curve_, rtol=0, atol=1e-6)
