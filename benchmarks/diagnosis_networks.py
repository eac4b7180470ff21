"""Labelled networks for `diagnosis.py`: 24 healthy ones and 46 with a trouble.

Troubles are made by training or initialisation, not painted on. Four data sets of
scikit-learn: handwritten digits, two tables with classes, one with a number. Needs
PyTorch and scikit-learn only, so that other tools can be asked about the same networks
in an environment of their own.

A label is the set of findings that are right for a network, none for a healthy one. For
some troubles more than one is: a learning rate of 3 may kill units or end in NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
)
from torch import nn

__all__ = ["networks"]

Made = tuple[Any, Any, Any, Any]  # model, (X, y), loss, optimizer
Make = Callable[[int], Made]

# What findings are called.
DEAD, ENTROPY, NAN = "dead-units", "loss-at-entropy", "non-finite-parameter"
LARGE, BLOWS_UP, FADES = "exploding-signal", "exploding-gradient", "vanishing-gradient"
NO_LOSS, NO_VALUE = "non-finite-loss", "non-finite-value"
NO_GRADIENT = "non-finite-gradient"
FLAT, SCALE, IDLE = "saturated-units", "input-scale", "inactive-inputs"
RECTIFIED, TWICE = "rectified-output", "softmax-twice"
LEFT_OUT, FROZEN, UNUSED = "not-optimised", "frozen", "no-gradient"
TOO_FAST = {DEAD, ENTROPY, NAN, LARGE, NO_LOSS, BLOWS_UP}


def networks() -> Iterator[tuple[str, frozenset[str], Make]]:
    """Yield name, findings that are right, and how to make the network."""
    torch.set_num_threads(1)
    for name, make in _healthy().items():
        yield name, frozenset(), make
    for name, (label, make) in _sick().items():
        yield name, frozenset(label), make


def _healthy() -> dict[str, Make]:
    return {
        "mlp": trained(lambda: mlp(64, 100, 100, 10)),
        "narrow mlp": trained(lambda: mlp(64, 8, 10)),
        "wide mlp": trained(lambda: mlp(64, 512, 512, 10)),
        "mlp with Adam": trained(lambda: mlp(64, 200, 200, 10), lr=1e-3, adam=True),
        "mlp with dropout": trained(
            lambda: nn.Sequential(
                *[nn.Linear(64, 200), nn.ReLU(), nn.Dropout(0.5)],
                *[nn.Linear(200, 200), nn.ReLU(), nn.Dropout(0.5), nn.Linear(200, 10)],
            )
        ),
        "mlp with batch normalisation": trained(lambda: normalised(64, 100, 100, 10)),
        "10 layers, He": trained(lambda: he(mlp(64, *[64] * 10, 10)), lr=0.02),
        "sparse by L1": trained(lambda: mlp(64, 200, 200, 10), l1=2e-3, steps=800),
        "sparser by L1": trained(lambda: mlp(64, 200, 200, 10), l1=5e-3, steps=800),
        "weight decay 1e-3": trained(lambda: mlp(64, 100, 10), weight_decay=1e-3),
        "leaky rectifier": trained(lambda: mlp(64, 100, 100, 10, act=nn.LeakyReLU)),
        "gelu": trained(lambda: mlp(64, 100, 10, act=nn.GELU), lr=0.3),
        "elu, 6 layers": trained(lambda: mlp(64, *[64] * 6, 10, act=nn.ELU), lr=0.05),
        "tanh": trained(lambda: mlp(64, 100, 100, 10, act=nn.Tanh), lr=0.3),
        "conv": trained(conv, IMAGES),
        "conv with batch normalisation": trained(
            lambda: conv(norm=nn.BatchNorm2d), IMAGES
        ),
        "residual": trained(Residual, lr=0.05),
        "transformer": trained(Transformer, lr=0.05),
        "recurrent rectifier": trained(Recurrent, lr=0.05),
        "recurrent tanh": trained(lambda: Recurrent("tanh")),
        "two classes, sigmoid output": trained(
            lambda: nn.Sequential(*mlp(30, 50, 1), nn.Sigmoid()),
            *CANCER,
            loss=nn.BCELoss(),
        ),
        "two classes, logits": trained(
            lambda: mlp(30, 100, 100, 1), *CANCER, loss=nn.BCEWithLogitsLoss()
        ),
        "three classes": trained(lambda: mlp(13, 50, 3), *WINE),
        "regression": trained(
            lambda: mlp(10, 50, 50, 1), *DIABETES, lr=0.02, loss=nn.MSELoss()
        ),
    }


def _sick() -> dict[str, tuple[set[str], Make]]:
    wide = (64, 300, 300, 10)
    usual = (64, 100, 100, 10)
    return {
        # Dead at birth.
        "biases -5": ({DEAD}, trained(lambda: biased(mlp(*usual), 0, -5.0))),
        "biases -5 above": ({DEAD}, trained(lambda: biased(mlp(*usual), 2, -5.0))),
        "conv, biases -3": ({DEAD}, trained(lambda: biased(conv(), 0, -3.0), IMAGES)),
        "table, biases -8": (
            {DEAD},
            trained(lambda: biased(mlp(13, 50, 3), 0, -8.0), *WINE),
        ),
        # Killed by the learning rate.
        "mlp, rate 3": (TOO_FAST, trained(lambda: mlp(*usual), lr=3.0)),
        "wide mlp, Adam, rate 0.3": (
            TOO_FAST,
            trained(lambda: mlp(*wide), lr=0.3, adam=True),
        ),
        "conv, rate 2": (TOO_FAST, trained(conv, IMAGES, lr=2.0)),
        "residual, rate 3": (TOO_FAST, trained(Residual, lr=3.0)),
        "recurrent, rate 3": (TOO_FAST, trained(Recurrent, lr=3.0)),
        "transformer, rate 3": (TOO_FAST, trained(Transformer, lr=3.0)),
        "table, rate 5": (TOO_FAST, trained(lambda: mlp(13, 50, 50, 3), *WINE, lr=5.0)),
        "regression, rate 1": (
            TOO_FAST,
            trained(lambda: mlp(10, 50, 50, 1), *DIABETES, lr=1.0, loss=nn.MSELoss()),
        ),
        # Killed by the scale of the inputs.
        "mlp, raw inputs": (
            TOO_FAST | {SCALE},
            trained(lambda: mlp(*usual), DIGITS[0] * 255),
        ),
        "conv, raw inputs": (TOO_FAST | {SCALE}, trained(conv, IMAGES * 255)),
        "table, raw inputs": (
            TOO_FAST | {SCALE},
            trained(lambda: mlp(13, 50, 3), *RAW_WINE),
        ),
        "two classes, raw inputs": (
            TOO_FAST | {SCALE},
            trained(lambda: mlp(30, 50, 1), *RAW_CANCER, loss=nn.BCEWithLogitsLoss()),
        ),
        # Killed by a penalty.
        "weight decay 0.3": (
            {DEAD, ENTROPY},
            trained(lambda: mlp(*usual), weight_decay=0.3),
        ),
        "conv, weight decay 0.3": (
            {DEAD, ENTROPY},
            trained(conv, IMAGES, weight_decay=0.3),
        ),
        "L1 penalty 0.1": ({DEAD, ENTROPY}, trained(lambda: mlp(*usual), l1=0.1)),
        # Killed by a normalisation layer's shift.
        "batch normalisation, shift -4": (
            {DEAD},
            trained(lambda: biased(normalised(*usual), 1, -4.0), lr=0.01),
        ),
        "conv, batch normalisation, shift -4": (
            {DEAD},
            trained(
                lambda: biased(conv(norm=nn.BatchNorm2d), 1, -4.0), IMAGES, lr=0.01
            ),
        ),
        # Unbalanced layer scales.
        "first layer times 1000, second by 1000": (
            TOO_FAST | {FADES},
            trained(lambda: unbalanced(mlp(*usual), 1000.0)),
        ),
        "last layer times 1000, first by 1000": (
            TOO_FAST | {FADES},
            trained(lambda: unbalanced(mlp(*usual), 1e-3)),
        ),
        # Signals and gradients that fade or blow up.
        "20 layers, default initialisation": (
            {FADES, ENTROPY},
            trained(lambda: mlp(64, *[64] * 20, 10), lr=0.01, steps=400),
        ),
        "8 sigmoid layers": (
            {FADES, ENTROPY},
            trained(lambda: mlp(64, *[64] * 8, 10, act=nn.Sigmoid), steps=400),
        ),
        "12 tanh layers, small weights": (
            {FADES, ENTROPY},
            trained(
                lambda: scaled(mlp(64, *[64] * 12, 10, act=nn.Tanh), 0.3), steps=400
            ),
        ),
        "weights times 30": (
            {LARGE, BLOWS_UP},
            trained(lambda: scaled(mlp(64, 50, 50, 10), 30.0), lr=1e-6, steps=5),
        ),
        "10 layers, weights times 10": (
            {LARGE, BLOWS_UP},
            trained(lambda: scaled(mlp(64, *[64] * 10, 10), 10.0), lr=1e-9, steps=5),
        ),
        "recurrent, weights times 8": (
            {LARGE, BLOWS_UP},
            trained(lambda: scaled(Recurrent(), 8.0), lr=1e-9, steps=5),
        ),
        # The end of the network.
        "rectified output": (
            {RECTIFIED},
            trained(lambda: nn.Sequential(*mlp(64, 50, 10), nn.ReLU())),
        ),
        "regression, rectified output": (
            {RECTIFIED},
            trained(
                lambda: nn.Sequential(*mlp(10, 50, 1), nn.ReLU()),
                *DIABETES,
                lr=0.02,
                loss=nn.MSELoss(),
            ),
        ),
        "mlp, softmax twice": (
            {TWICE},
            trained(lambda: nn.Sequential(*mlp(*usual), nn.Softmax(1))),
        ),
        "conv, softmax twice": (
            {TWICE},
            trained(lambda: nn.Sequential(*conv(), nn.Softmax(1)), IMAGES),
        ),
        # Parameters that do not move.
        "all weights frozen": ({FROZEN}, trained(lambda: frozen(mlp(*usual)))),
        "optimizer without the first layer": (
            {LEFT_OUT},
            trained(lambda: mlp(*usual), chosen=lambda m: m[2:].parameters()),
        ),
        "optimizer of another head": (
            {LEFT_OUT},
            trained(lambda: mlp(*usual), chosen=_before_a_new_head),
        ),
        "a branch that the loss does not see": (
            {UNUSED},
            trained(TwoHeads),
        ),
        # Values that are no numbers.
        "distances of rows to themselves": (
            {NO_GRADIENT, NAN},
            trained(lambda: Ending(_with_distances), steps=1),
        ),
        "logarithm of 0": (
            {NO_VALUE, NAN, NO_GRADIENT},
            trained(lambda: Ending(lambda h: h.relu().log()), steps=1),
        ),
        "half precision": (
            {NO_VALUE, NAN, NO_LOSS},
            trained(
                lambda: Ending(lambda h: (h * 1e4).half().square().float()), steps=1
            ),
        ),
        # Saturation.
        "tanh, inputs times 50": (
            {FLAT},
            trained(lambda: mlp(*usual, act=nn.Tanh), DIGITS[0] * 50, lr=1.0),
        ),
        "sigmoid, weights times 100": (
            {FLAT, FADES},
            trained(lambda: scaled(mlp(64, 100, 10, act=nn.Sigmoid), 100.0), lr=0.01),
        ),
        "tanh on a table, raw inputs": (
            {FLAT, SCALE},
            trained(lambda: mlp(13, 50, 50, 3, act=nn.Tanh), *RAW_WINE),
        ),
        # Nothing to be learnt.
        "shuffled labels": (
            {ENTROPY},
            trained(lambda: mlp(64, 50, 10), DIGITS[0], "shuffled", lr=0.01, steps=200),
        ),
        "table, shuffled labels": (
            {ENTROPY},
            trained(
                lambda: mlp(30, 20, 1),
                CANCER[0],
                "coins",
                lr=0.01,
                steps=200,
                loss=nn.BCEWithLogitsLoss(),
            ),
        ),
        "inputs all alike": (
            {IDLE, ENTROPY},
            trained(lambda: mlp(64, 50, 10), DIGITS[0] * 0 + 0.5, DIGITS[1], lr=0.01),
        ),
    }


def trained(
    make: Callable[[], Any],
    inputs: Any = None,
    targets: Any = None,
    *,
    lr: float = 0.1,
    steps: int = 600,
    loss: Any = None,
    adam: bool = False,
    weight_decay: float = 0.0,
    l1: float = 0.0,
    chosen: Callable[[Any], Any] = lambda model: model.parameters(),
) -> Make:
    """Return how to train a network for a seed."""
    X = DIGITS[0] if inputs is None else inputs
    loss = nn.CrossEntropyLoss() if loss is None else loss

    def run(seed: int) -> Made:
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
        y = DIGITS[1] if targets is None else targets
        if isinstance(y, str) and y == "shuffled":
            y = DIGITS[1][torch.randperm(len(X), generator=generator)]
        elif isinstance(y, str):
            y = torch.randint(0, 2, (len(X), 1), generator=generator).float()
        model = make()
        kind = torch.optim.Adam if adam else torch.optim.SGD
        optimizer = kind(chosen(model), lr, weight_decay=weight_decay)
        for _ in range(steps):
            batch = torch.randint(0, len(X), (64,), generator=generator)
            optimizer.zero_grad()
            cost = loss(model(X[batch]), y[batch])
            if l1:
                h = X[batch]
                for module in model[:-1]:
                    h = module(h)
                    cost = cost + l1 * h.abs().sum(1).mean()
            cost.backward()
            optimizer.step()
        return model, (X, y), loss, optimizer

    return run


def mlp(*sizes: int, act: Any = nn.ReLU) -> nn.Sequential:
    """Return a perceptron."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def normalised(*sizes: int) -> nn.Sequential:
    """Return a perceptron with batch normalisation before each rectifier."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers[:-2])


def conv(norm: Any = None) -> nn.Sequential:
    """Return a small convolutional network for images of 8 by 8."""
    norms: list[Any] = [[] if norm is None else [norm(n)] for n in (16, 32)]
    return nn.Sequential(
        *[nn.Conv2d(1, 16, 3), *norms[0], nn.ReLU()],
        *[nn.Conv2d(16, 32, 3), *norms[1], nn.ReLU(), nn.Flatten()],
        *[nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)],
    )


class Residual(nn.Module):
    """Blocks that add to what they see; rectifiers are functions."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Linear(64, 64)
        self.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.end = nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        h = nn.functional.relu(self.start(x))
        for block in self.blocks:
            h = h + nn.functional.relu(block(h))
        return self.end(h)


class Transformer(nn.Module):
    """An encoder over the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.embed = nn.Linear(8, 32)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.end = nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        return self.end(self.encoder(self.embed(x.view(-1, 8, 8))).mean(1))


class Recurrent(nn.Module):
    """A recurrent network over the rows of an image."""

    def __init__(self, kind: str = "relu") -> None:
        super().__init__()
        self.cells = nn.RNN(8, 64, nonlinearity=kind, batch_first=True)
        self.end = nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        return self.end(self.cells(x.view(-1, 8, 8))[0][:, -1])


class TwoHeads(nn.Module):
    """A second head whose output nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(64, 100, 100)
        self.head, self.other = nn.Linear(100, 10), nn.Linear(100, 5)

    def forward(self, x: Any) -> Any:
        """Return the logits of one head."""
        h = self.body(x).relu()
        self.other(h)
        return self.head(h)


class Ending(nn.Module):
    """A perceptron with one more operation at its end."""

    def __init__(self, end: Callable[[Any], Any]) -> None:
        super().__init__()
        self.body, self.end = mlp(64, 50, 10), end

    def forward(self, x: Any) -> Any:
        """Return what comes out of that operation."""
        return self.end(self.body(x))


def _with_distances(h: Any) -> Any:
    """Add the mean distance to all rows, whose root has no slope at 0."""
    gaps = h[:, None] - h[None]
    return h + gaps.square().sum(-1).sqrt().mean(1, keepdim=True)


def he(model: nn.Module) -> nn.Module:
    """Initialise for rectifiers."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)
    return model


def biased(model: nn.Sequential, place: int, bias: float) -> nn.Sequential:
    """Set the biases, or the shifts, of one module."""
    with torch.no_grad():
        model[place].bias.fill_(bias)
    return model


def scaled(model: nn.Module, factor: float) -> nn.Module:
    """Multiply all parameters."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factor)
    return model


def unbalanced(model: nn.Sequential, factor: float) -> nn.Sequential:
    """Multiply the first layer and divide the last: the same function."""
    with torch.no_grad():
        model[0].weight.mul_(factor)
        model[0].bias.mul_(factor)
        model[2].bias.mul_(factor)
        model[-1].weight.div_(factor)
    return model


def frozen(model: nn.Sequential) -> nn.Sequential:
    """Exclude all but biases from gradients."""
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.ndim == 1)
    return model


def _before_a_new_head(model: nn.Sequential) -> list[Any]:
    """Return the parameters, then replace the head."""
    parameters = list(model.parameters())
    model[-1] = nn.Linear(model[-1].in_features, model[-1].out_features)
    return parameters


def _table(load: Any, *, standardise: bool = True, column: bool = False) -> Any:
    rows, targets = load(return_X_y=True)
    if standardise:
        rows = (rows - rows.mean(0)) / rows.std(0)
    X = torch.tensor(rows, dtype=torch.float32)
    y = torch.tensor(targets)
    return X, y.float()[:, None] if column else y


def _diabetes() -> Any:
    X, y = _table(load_diabetes, column=True)
    return X, (y - y.mean()) / y.std()


_DIGITS = load_digits(return_X_y=True)
DIGITS = torch.tensor(_DIGITS[0] / 16, dtype=torch.float32), torch.tensor(_DIGITS[1])
IMAGES = DIGITS[0].view(-1, 1, 8, 8)
CANCER = _table(load_breast_cancer, column=True)
RAW_CANCER = _table(load_breast_cancer, standardise=False, column=True)
WINE = _table(load_wine)
RAW_WINE = _table(load_wine, standardise=False)
DIABETES = _diabetes()
