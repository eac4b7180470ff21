"""One plain SGD step on a mini-batch, by every engine: same mathematics, same arrays.

Each function builds a contender: a rectifier network with softmax log loss whose
parameters start at the case's weights. Data are put into the form that the library
likes best before the timing starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from host import MissingError, Ready
from numpy.typing import NDArray
from tasks import Case, Floats, stack_of

#: Share of an update that may differ from NumPy's in float64 beyond what float32 must
#: round off the parameters. A unit whose pre-activation is so near 0 that rounding
#: decides about its side costs 1e-3; a forgotten bias or a wrong mean costs over 0.1.
TOLERANCE = 1e-2


def hardzero(case: Case, engine: str) -> Ready:
    """Our own kernels.

    ``auto`` is the product, ``sparse`` always skips, ``dense`` never does.
    """
    from hardzero import kernels
    from hardzero.kernels.rules import SGD

    network = kernels.build(
        stack_of(case.task.weights, case.task.biases),
        SGD(case.learning_rate),
        engine=engine,
        n_threads=case.n_threads,
    )
    network.bind(case.X, case.y)
    rows = case.rows()

    def parameters() -> list[Floats]:
        layers = network.stack().layers
        return [layer.W for layer in layers] + [layer.b for layer in layers]

    def notes() -> dict[str, Any]:
        found = parameters()
        half = len(found) // 2
        return {"zeros_after": case.task.zeros(found[:half], found[half:])}

    return Ready(lambda i: network.step(rows[i]), parameters, notes)


def numpy_by_hand(case: Case) -> Ready:
    """NumPy with SciPy's sgemm: the update is added inside the gradient's product."""
    from scipy.linalg.blas import sgemm

    W = [weights.copy() for weights in case.task.weights]
    b = [biases.copy() for biases in case.task.biases]
    X, y, rate = case.dense_batches(), case.labels(), case.learning_rate
    last, every_row = len(W) - 1, np.arange(case.batch)

    def step(i: int) -> None:
        h = [X[i]]
        for layer in range(last + 1):
            a = h[-1] @ W[layer]
            a += b[layer]
            if layer < last:
                np.maximum(a, 0, out=a)
            h.append(a)
        delta = h.pop()
        delta -= delta.max(axis=1, keepdims=True)
        np.exp(delta, out=delta)
        delta /= delta.sum(axis=1, keepdims=True)
        delta[every_row, y[i]] -= 1
        delta /= case.batch
        for layer in range(last, -1, -1):
            below = None
            if layer:
                below = delta @ W[layer].T
                below *= h[layer] > 0
            # W -= rate * h.T @ delta; the transposes are Fortran's view, not copies
            sgemm(-rate, delta.T, h[layer].T, 1, W[layer].T, trans_b=1, overwrite_c=1)
            b[layer] -= rate * delta.sum(axis=0)
            delta = below

    return Ready(step, lambda: W + b)


def torch_eager(case: Case, fused: bool = False, compiled: bool = False) -> Ready:
    """PyTorch as its tutorials write it: autograd and ``torch.optim.SGD``."""
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(case.n_threads)
    network = torch_network(case)
    optimizer = torch.optim.SGD(
        network.parameters(), lr=case.learning_rate, fused=fused or None
    )
    X = [torch.from_numpy(rows) for rows in case.dense_batches()]
    y = [torch.from_numpy(labels) for labels in case.labels()]

    def loss(X: Any, y: Any) -> Any:
        return cross_entropy(network(X), y)

    if compiled:
        loss = torch.compile(loss, fullgraph=True)

    def step(i: int) -> None:
        optimizer.zero_grad()
        loss(X[i], y[i]).backward()
        optimizer.step()

    return Ready(step, lambda: _torch_parameters(network))


def torch_by_hand(case: Case) -> Ready:
    """PyTorch without autograd: (in, out) weights, updated inside ``addmm_``."""
    import torch

    torch.set_num_threads(case.n_threads)
    W = [torch.from_numpy(weights.copy()) for weights in case.task.weights]
    b = [torch.from_numpy(biases.copy()) for biases in case.task.biases]
    X = [torch.from_numpy(rows) for rows in case.dense_batches()]
    y = [torch.from_numpy(labels)[:, None] for labels in case.labels()]
    ones = torch.full((case.batch, 1), -1.0)
    last, rate = len(W) - 1, case.learning_rate

    @torch.no_grad()
    def step(i: int) -> None:
        h = [X[i]]
        for layer in range(last):
            h.append(torch.addmm(b[layer], h[-1], W[layer]).relu_())
        delta = torch.addmm(b[last], h[-1], W[last]).softmax(dim=1)
        delta.scatter_add_(1, y[i], ones).div_(case.batch)
        for layer in range(last, -1, -1):
            below = None
            if layer:
                below = torch.mm(delta, W[layer].t()).mul_(h[layer] > 0)
            W[layer].addmm_(h[layer].t(), delta, alpha=-rate)
            b[layer].sub_(delta.sum(dim=0), alpha=rate)
            delta = below

    return Ready(step, lambda: [array.numpy() for array in W + b])


def torch_embedding_bag(case: Case) -> Ready:
    """PyTorch for bags of words: ``EmbeddingBag(sparse=True)``, then fused SGD."""
    import torch
    from torch.nn.functional import cross_entropy

    if not case.is_sparse:
        raise MissingError("only for sparse input")
    bags = case.csr_batches()
    if any(np.any(bag.data != 1) for bag in bags):
        raise MissingError("written for zeros and ones")
    torch.set_num_threads(case.n_threads)
    first = torch.nn.EmbeddingBag.from_pretrained(
        torch.from_numpy(case.task.weights[0].copy()),
        freeze=False,
        mode="sum",
        sparse=True,
    )
    bias = torch.nn.Parameter(torch.from_numpy(case.task.biases[0].copy()))
    rest = torch_network(case, first_layer=1)
    sparse_rule = torch.optim.SGD([first.weight, bias], lr=case.learning_rate)
    dense_rule = torch.optim.SGD(rest.parameters(), lr=case.learning_rate, fused=True)
    words = [torch.from_numpy(bag.indices.astype(np.int64)) for bag in bags]
    starts = [torch.from_numpy(bag.indptr[:-1].astype(np.int64)) for bag in bags]
    y = [torch.from_numpy(labels) for labels in case.labels()]

    def step(i: int) -> None:
        sparse_rule.zero_grad()
        dense_rule.zero_grad()
        h = torch.relu(first(words[i], starts[i]) + bias)
        cross_entropy(rest(h), y[i]).backward()
        sparse_rule.step()
        dense_rule.step()

    def parameters() -> list[Floats]:
        later = _torch_parameters(rest)
        n_later = len(later) // 2
        W = [first.weight.detach().numpy(), *later[:n_later]]
        return [*W, bias.detach().numpy(), *later[n_later:]]

    return Ready(step, parameters)


def jax_jit(case: Case) -> Ready:
    """JAX: one compiled step whose parameters are donated, that is reused in place."""
    import jax
    import jax.numpy as jnp

    last, rate = len(case.task.weights) - 1, case.learning_rate

    def loss(parameters: Any, X: Any, y: Any) -> Any:
        h = X
        for layer, (W, b) in enumerate(parameters):
            h = h @ W + b
            if layer < last:
                h = jax.nn.relu(h)
        scores = jnp.take_along_axis(jax.nn.log_softmax(h), y[:, None], axis=1)
        return -jnp.mean(scores)

    def update(parameters: Any, X: Any, y: Any) -> Any:
        gradients = jax.grad(loss)(parameters, X, y)
        return jax.tree.map(lambda p, g: p - rate * g, parameters, gradients)

    compiled = jax.jit(update, donate_argnums=0)
    pairs = zip(case.task.weights, case.task.biases, strict=True)
    state = [[(jnp.array(W), jnp.array(b)) for W, b in pairs]]
    X = [jnp.array(rows) for rows in case.dense_batches()]
    y = [jnp.array(labels.astype(np.int32)) for labels in case.labels()]

    def step(i: int) -> None:
        state[0] = jax.block_until_ready(compiled(state[0], X[i], y[i]))

    def parameters() -> list[Floats]:
        W, b = zip(*state[0], strict=True)
        return [np.asarray(array) for array in W + b]

    return Ready(step, parameters)


def sklearn_partial_fit(case: Case) -> Ready:
    """Scikit-learn's ``MLPClassifier.partial_fit`` on one batch at a time."""
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(
        case.task.sizes[1:-1],
        solver="sgd",
        alpha=0,
        momentum=0,
        nesterovs_momentum=False,
        batch_size=case.batch,
        learning_rate_init=case.learning_rate,
        shuffle=False,
    )
    X, y = case.batches(), case.labels()
    model.partial_fit(X[0], y[0], classes=np.arange(case.task.sizes[-1]))
    ours = case.task.weights + case.task.biases
    for theirs, start in zip(model.coefs_ + model.intercepts_, ours, strict=True):
        theirs[...] = start  # in place: the optimizer holds the same arrays

    return Ready(
        lambda i: model.partial_fit(X[i], y[i]),
        lambda: model.coefs_ + model.intercepts_,
        lambda: {"dtype": str(model.coefs_[0].dtype)},
    )


def torch_network(case: Case, first_layer: int = 0) -> Any:
    """Build the case's network, or its layers from `first_layer` on, as modules."""
    import torch

    weights, biases = case.task.weights[first_layer:], case.task.biases[first_layer:]
    modules: list[torch.nn.Module] = []
    for W, b in zip(weights, biases, strict=True):
        linear = torch.nn.Linear(*W.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(W).t())
            linear.bias.copy_(torch.from_numpy(b))
        modules += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*modules[:-1])


def check(case: Case, ready: Ready) -> dict[str, Any]:
    """Take the check steps and compare the parameters with NumPy's in float64.

    Parameters
    ----------
    case : Case
        The network and batches; the check batches have wrong labels, see there.
    ready : Ready
        A contender at the initial parameters.

    Returns
    -------
    dict
        ``steps``; ``largest_difference`` of a parameter; ``largest_update``;
        ``share_of_update``, the norm of the difference over the norm of the update;
        ``share_of_rounding``, the same over the norm that rounding can reach;
        ``agrees``, whether the difference is explained (see `TOLERANCE`).
    """
    return agreement(case, ready, _expected(case))


def agreement(
    case: Case, ready: Ready, expected: list[NDArray[np.float64]]
) -> dict[str, Any]:
    """Take the check steps and compare the parameters with those `expected`."""
    for i in case.checks:
        ready.run(i)
    found = ready.result()
    start = case.task.weights + case.task.biases
    difference = update = size = largest_difference = largest_update = 0.0
    for ours, right, before in zip(found, expected, start, strict=True):
        gap = np.abs(ours - right).ravel()
        moved = np.abs(right - before).ravel()
        difference += float(gap @ gap)
        update += float(moved @ moved)
        size += float(np.vdot(right, right))
        largest_difference = max(largest_difference, float(gap.max()))
        largest_update = max(largest_update, float(moved.max()))
    n_steps = len(case.checks)
    rounding = n_steps * float(np.finfo(np.float32).eps) * size**0.5
    allowed = TOLERANCE * update**0.5 + rounding
    figures = {
        "largest_difference": largest_difference,
        "largest_update": largest_update,
        "share_of_update": (difference / update) ** 0.5,
        "share_of_rounding": difference**0.5 / rounding,
    }
    rounded: dict[str, Any] = {k: float(f"{v:.2g}") for k, v in figures.items()}
    return {"steps": n_steps, **rounded, "agrees": bool(difference**0.5 <= allowed)}


def _expected(case: Case) -> list[NDArray[np.float64]]:
    """Take the check steps in float64, written as the formulas are."""
    W = [weights.astype(np.float64) for weights in case.task.weights]
    b = [biases.astype(np.float64) for biases in case.task.biases]
    X, y = case.batches(), case.labels()
    last = len(W) - 1
    for i in case.checks:
        h = [X[i].astype(np.float64)]
        for layer in range(last + 1):
            a = h[-1] @ W[layer] + b[layer]
            h.append(np.maximum(a, 0) if layer < last else a)
        p = np.exp(a - a.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        delta = (p - np.eye(len(b[-1]))[y[i]]) / case.batch
        for layer in range(last, -1, -1):
            gradient, slope = h[layer].T @ delta, delta.sum(axis=0)
            if layer:
                delta = delta @ W[layer].T * (h[layer] > 0)
            W[layer] -= case.learning_rate * gradient
            b[layer] -= case.learning_rate * slope
    return W + b


def _torch_parameters(network: Any) -> list[Floats]:
    arrays = [p.detach().numpy() for p in network.parameters()]
    return [W.T for W in arrays[0::2]] + arrays[1::2]
