"""The same SGD step with dropout: by hardzero, and by PyTorch's ``nn.Dropout``.

Of the inputs `RATES[0]` are dropped, of each hidden layer `RATES[1]`. The networks,
data and steps are otherwise those of `training_contenders.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import training_contenders
from host import Ready
from numpy.typing import NDArray
from tasks import Case, Floats, stack_of

RATES = (0.2, 0.5)


def hardzero(case: Case) -> Ready:
    """Our own kernels, with the automatic choice between dense and sparse."""
    from hardzero import kernels
    from hardzero.kernels.rules import SGD

    network = kernels.build(
        stack_of(case.task.weights, case.task.biases),
        SGD(case.learning_rate),
        options=_options(case),
        n_threads=case.n_threads,
    )
    network.bind(case.X, case.y)
    rows = case.rows()
    epoch = 1

    def step(i: int) -> None:
        nonlocal epoch
        if i == 0:  # the batches go round: another epoch draws anew
            epoch += 1
            network.begin_epoch(epoch)
        network.step(rows[i])

    def parameters() -> list[Floats]:
        layers = network.stack().layers
        return [layer.W for layer in layers] + [layer.b for layer in layers]

    return Ready(step, parameters)


def torch_dropout(case: Case) -> Ready:
    """PyTorch with ``nn.Dropout`` before each layer, autograd and fused SGD.

    Its masks are its own, so the check steps, which are compared with NumPy, are taken
    with dropout switched off.
    """
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(case.n_threads)
    torch.manual_seed(0)
    plain = training_contenders.torch_network(case)
    first, *rest = plain
    modules = [torch.nn.Dropout(RATES[0]), first]
    for module in rest:
        modules.append(module)
        if isinstance(module, torch.nn.ReLU):
            modules.append(torch.nn.Dropout(RATES[1]))
    network = torch.nn.Sequential(*modules)
    optimizer = torch.optim.SGD(network.parameters(), lr=case.learning_rate, fused=True)
    X = [torch.from_numpy(rows) for rows in case.dense_batches()]
    y = [torch.from_numpy(labels) for labels in case.labels()]

    def step(i: int) -> None:
        network.train(i < case.n_batches)
        optimizer.zero_grad()
        cross_entropy(network(X[i]), y[i]).backward()
        optimizer.step()

    def parameters() -> list[Floats]:
        arrays = [p.detach().numpy() for p in network.parameters()]
        return [W.T for W in arrays[0::2]] + arrays[1::2]

    return Ready(step, parameters, lambda: {"checked": "without dropout"})


def check(case: Case, ready: Ready) -> dict[str, Any]:
    """Compare some steps with plain NumPy's in float64, see `training_contenders`."""
    if ready.notes().get("checked") == "without dropout":
        return training_contenders.check(case, ready)
    return training_contenders.agreement(case, ready, _expected(case))


def _expected(case: Case) -> list[NDArray[np.float64]]:
    """Take the check steps by the reference engine, in float64 and with our masks."""
    from hardzero import kernels
    from hardzero.kernels.rules import SGD

    task = case.task
    stack = stack_of(
        [W.astype(np.float64) for W in task.weights],
        [b.astype(np.float64) for b in task.biases],
    )
    network = kernels.build(
        stack, SGD(case.learning_rate), "reference", options=_options(case)
    )
    network.bind(case.X.astype(np.float64), case.y)
    rows = case.rows()
    for i in case.checks:
        network.step(rows[i])
    layers = network.stack().layers
    return [layer.W for layer in layers] + [layer.b for layer in layers]


def _options(case: Case) -> Any:
    from hardzero.kernels.options import StepOptions

    n_hidden = len(case.task.weights) - 1
    return StepOptions(dropout=(RATES[0], *[RATES[1]] * n_hidden))
