"""Labelled trainings for `diagnosis.py`, of which only a watch sees the whole story.

Six with a trouble and three healthy ones, on handwritten digits. For each there are the
findings that are right, none for a healthy one, and between which updates the trouble
begins. Needs PyTorch and scikit-learn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from diagnosis_networks import DEAD, DIGITS, ENTROPY, TOO_FAST, mlp
from torch import nn

__all__ = ["trainings"]

PLASTIC = "loss-of-plasticity"
X, Y = DIGITS
CE = nn.CrossEntropyLoss()

Watched = tuple[Any, Any, Any]  # watch, (X, y), loss
Make = Callable[[int], Watched]


def trainings() -> Iterator[tuple[str, frozenset[str], tuple[float, float], Make]]:
    """Yield name, findings that are right, when they begin, and how to train."""
    torch.set_num_threads(1)
    ever = 0, math.inf
    cases: list[tuple[str, set[str], tuple[float, float], Make]] = [
        ("tasks of permuted pixels, rate 0.1", set(), ever, permuted(0.1)),
        ("recurrent, clipped", set(), ever, recurrent(1.0, 800)),
        ("mlp, Adam, weight decay 1e-4", set(), ever, plain(1e-3, 1e-4, 1500)),
        ("tasks of new labels, rate 0.5", {PLASTIC}, (1, 8000), relabelled(0.5, 100)),
        ("tasks of new labels, Adam", {PLASTIC}, (1, 8000), relabelled(0.003, 50)),
        ("tasks of permuted pixels, Adam", {PLASTIC}, (1, 4000), permuted(0.01)),
        ("spike of the rate", TOO_FAST, (1190, 1230), spike()),
        ("recurrent, not clipped", TOO_FAST, (0, 10), recurrent(None, 100)),
        ("weight decay 0.3", {DEAD, ENTROPY}, (1, 1500), plain(0.1, 0.3, 1500)),
    ]
    for name, label, when, make in cases:
        yield name, frozenset(label), when, make


def plain(rate: float, decay: float, n_updates: int) -> Make:
    """Train a perceptron on one task."""

    def run(seed: int) -> Watched:
        model = seeded(seed, lambda: mlp(64, 100, 100, 10))
        kind = torch.optim.Adam if rate < 0.05 else torch.optim.SGD
        optimizer = kind(model.parameters(), rate, weight_decay=decay)
        return follow(model, optimizer, n_updates, lambda _: (X, Y))

    return run


def spike() -> Make:
    """Train at a rate of 0.1, and for five updates at 30."""

    def run(seed: int) -> Watched:
        model = seeded(seed, lambda: mlp(64, 100, 100, 10))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def data(update: int) -> tuple[Any, Any]:
            high = 1200 <= update < 1205
            optimizer.param_groups[0]["lr"] = 30.0 if high else 0.1
            return X, Y

        return follow(model, optimizer, 2400, data)

    return run


def relabelled(rate: float, width: int) -> Make:
    """Train on 40 tasks, each with labels of 400 digits drawn anew."""

    def run(seed: int) -> Watched:
        model = seeded(seed, lambda: mlp(64, width, width, 10))
        kind = torch.optim.Adam if rate < 0.05 else torch.optim.SGD
        optimizer = kind(model.parameters(), rate)
        labels = torch.randint(0, 10, (40, 400))
        return follow(
            model, optimizer, 8000, lambda update: (X[:400], labels[update // 200])
        )

    return run


def permuted(rate: float) -> Make:
    """Train on 40 tasks, each with its own order of pixels; Adam at 0.01."""

    def run(seed: int) -> Watched:
        model = seeded(seed, lambda: mlp(64, 100, 100, 10))
        kind = torch.optim.Adam if rate < 0.05 else torch.optim.SGD
        optimizer = kind(model.parameters(), rate)
        orders = torch.stack([torch.randperm(64) for _ in range(40)])
        return follow(
            model, optimizer, 4000, lambda update: (X[:, orders[update // 100]], Y)
        )

    return run


class Reader(nn.Module):
    """A recurrent layer of rectifiers over 32 steps, which starts as the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.RNN(2, 64, nonlinearity="relu", batch_first=True)
        self.end = nn.Linear(64, 10)
        nn.init.eye_(self.memory.weight_hh_l0)

    def forward(self, x: Any) -> Any:
        """Return logits."""
        return self.end(self.memory(x)[0][:, -1])


def recurrent(clip: float | None, n_updates: int) -> Make:
    """Train a recurrent network, with gradients clipped or not."""

    def run(seed: int) -> Watched:
        model = seeded(seed, Reader)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        data = (2 * X - 1).view(-1, 32, 2), Y
        return follow(model, optimizer, n_updates, lambda _: data, clip)

    return run


def seeded(seed: int, make: Callable[[], Any]) -> Any:
    """Return a model that is drawn from a seed."""
    torch.manual_seed(seed)
    return make()


def follow(
    model: Any,
    optimizer: Any,
    n_updates: int,
    data: Callable[[int], tuple[Any, Any]],
    clip: float | None = None,
) -> Watched:
    """Train within a watch; return it, the last data and the loss."""
    import hardzero

    with hardzero.watch(model) as watch:
        for update in range(n_updates):
            inputs, targets = data(update)
            rows = torch.randint(0, len(inputs), (64,))
            optimizer.zero_grad()
            CE(model(inputs[rows]), targets[rows]).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
    return watch, (inputs, targets), CE
