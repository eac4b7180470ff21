"""One step of denoising pre-training, by every engine: same mathematics, same arrays.

Each function builds a contender, an auto-encoder of one layer whose parameters start at
the case's weights, for one of two parts:

* ``kernels``: the products and the update, for rows and deltas that are given;
* ``step``: noise, products, loss and update, for clean rows. Everybody draws noise of
  its own, but on the check batches, which all take with the noise of hardzero.

Data are put into the form that the library likes best before the timing starts.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pretraining_tasks
import training_contenders
from host import MissingError, Ready
from numpy.typing import NDArray
from scipy import sparse
from tasks import Case, Floats, Matrix

_KEY = 1  # of the noise that is the same for all


@dataclasses.dataclass
class PartReady(Ready):
    """A contender that is built and knows what it was built for."""

    part: str = "step"


class Given:
    """What a contender gets: rows with and without noise, and deltas.

    Parameters
    ----------
    case : Case
        Auto-encoder and rows.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self.noisy: Matrix = pretraining_tasks.with_noise(case.task, case.X, _KEY)

    def noisy_batches(self) -> list[Floats]:
        """Return the noisy rows of each batch as a C-contiguous array."""
        return [_dense(self.noisy[rows]) for rows in self._case.rows()]

    @functools.cached_property
    def deltas(self) -> list[Floats]:
        """Derivatives of the loss by the outputs at the first parameters, by batch."""
        case = self._case
        (W, V), (b, c) = case.task.weights, case.task.biases
        a = np.maximum(self.noisy @ W + b, 0) @ V + c
        slopes = _slopes(case, a, _dense(case.X)).astype(np.float32) / case.batch
        return [slopes[rows] for rows in case.rows()]


def hardzero(case: Case, part: str, engine: str = "auto") -> Ready:
    """Our own kernels, and the noise and the loss of `DenoisingAutoencoder`.

    ``auto`` is the product, ``dense`` never skips a zero but those of CSR input.
    """
    from hardzero import kernels
    from hardzero.engine.corruption import parse_corruption
    from hardzero.engine.denoise import DenoisingNetwork
    from hardzero.engine.reconstruction import Reconstruction, parse_decoder
    from hardzero.kernels.rules import SGD
    from hardzero.random import row_hashes

    task = case.task
    network: Any = kernels.build(
        pretraining_tasks.stack_of(task.weights, task.biases),
        SGD(case.learning_rate),
        engine=engine,
        n_threads=case.n_threads,
    )
    rows = case.rows()
    run: Callable[[int], object]
    if part == "kernels":
        given = Given(case)
        network.bind(given.noisy)
        deltas = given.deltas

        def run(i: int) -> None:
            network.forward_batch(rows[i])
            network.backward_batch(deltas[i])

    else:
        corruptor: Any = parse_corruption(task.about["corruption"]).fit(task.X)
        network = DenoisingNetwork(
            network,
            lambda X, hashes, _: corruptor(X, hashes, np.uint64(_KEY)),
            Reconstruction(parse_decoder(task.about["decoder"])),
            row_hashes(case.X),
            seed=0,
            purpose="benchmark",
        )
        network.bind(case.X)

        def run(i: int) -> None:
            network.step(rows[i])

    def parameters() -> list[Floats]:
        layers = network.stack().layers
        return [layer.W for layer in layers] + [layer.b for layer in layers]

    def notes() -> dict[str, Any]:
        W, b = network.stack().layers[0].W, network.stack().layers[0].b
        h = np.maximum(Given(case).noisy @ W + b, 0)
        return {"zeros_after": round(float(np.mean(h == 0)), 4)}

    return PartReady(run, parameters, notes, part)


def numpy_by_hand(case: Case, part: str) -> Ready:
    """NumPy with SciPy's sgemm: the update is added inside the gradient's product."""
    from scipy.linalg.blas import sgemm

    W, V = (weights.copy() for weights in case.task.weights)
    b, c = (biases.copy() for biases in case.task.biases)
    given, clean, rate = Given(case), case.dense_batches(), case.learning_rate
    noisy, slopes = given.noisy_batches(), _numpy_loss(case)
    noise, n_timed = _numpy_noise(case), case.n_batches
    deltas = given.deltas if part == "kernels" else None

    def run(i: int) -> None:
        x = noise(clean[i]) if deltas is None and i < n_timed else noisy[i]
        h = x @ W
        h += b
        np.maximum(h, 0, out=h)
        a = h @ V
        a += c
        delta = slopes(a, clean[i]) if deltas is None else deltas[i]
        below = delta @ V.T
        below *= h > 0
        # V -= rate * h.T @ delta; the transposes are Fortran's view, not copies
        sgemm(-rate, delta.T, h.T, 1, V.T, trans_b=1, overwrite_c=1)
        sgemm(-rate, below.T, x.T, 1, W.T, trans_b=1, overwrite_c=1)
        c[:] -= rate * delta.sum(axis=0)
        b[:] -= rate * below.sum(axis=0)

    return PartReady(run, lambda: [W, V, b, c], part=part)


def torch_by_hand(case: Case, part: str, bags: bool = False) -> Ready:
    """PyTorch without autograd: (in, out) weights, updated inside ``addmm_``.

    With `bags`, for sparse input, the encoder reads and updates only the rows of W
    whose input is active.
    """
    import torch

    torch.set_num_threads(case.n_threads)
    W, V = (torch.from_numpy(weights.copy()) for weights in case.task.weights)
    b, c = (torch.from_numpy(biases.copy()) for biases in case.task.biases)
    given, rate, n_timed = Given(case), case.learning_rate, case.n_batches
    clean = [torch.from_numpy(rows) for rows in case.dense_batches()]
    noisy = [torch.from_numpy(rows) for rows in given.noisy_batches()]
    noise, slopes = _torch_noise(case), _torch_loss(case)
    deltas: list[Any] | None = None
    if bags:
        _require_bags(case)
        listed = [_torch_bags(rows) for rows in noisy]
    if part == "kernels":
        deltas = [torch.from_numpy(delta) for delta in given.deltas]

    @torch.no_grad()
    def run(i: int) -> None:
        is_given = deltas is not None or i >= n_timed
        x = noisy[i] if is_given else noise(clean[i])
        if bags:
            rows, words, starts = listed[i] if is_given else _torch_bags(x)
            h = torch.nn.functional.embedding_bag(words, W, starts, mode="sum")
            h.add_(b).relu_()
        else:
            h = torch.addmm(b, x, W).relu_()
        if deltas is None:
            delta = slopes(torch.addmm(c, h, V), clean[i])
        else:
            torch.addmm(c, h, V)
            delta = deltas[i]
        below = torch.mm(delta, V.t()).mul_(h > 0)
        V.addmm_(h.t(), delta, alpha=-rate)
        c.sub_(delta.sum(dim=0), alpha=rate)
        if bags:
            W.index_add_(0, words, below[rows], alpha=-rate)
        else:
            W.addmm_(x.t(), below, alpha=-rate)
        b.sub_(below.sum(dim=0), alpha=rate)

    return PartReady(run, lambda: [array.numpy() for array in (W, V, b, c)], part=part)


def torch_eager(case: Case, part: str) -> Ready:
    """PyTorch as its tutorials write it: autograd and ``torch.optim.SGD``, fused."""
    import torch

    torch.set_num_threads(case.n_threads)
    network = training_contenders.torch_network(case)
    optimizer = torch.optim.SGD(network.parameters(), lr=case.learning_rate, fused=True)
    given, n_timed = Given(case), case.n_batches
    clean = [torch.from_numpy(rows) for rows in case.dense_batches()]
    noisy = [torch.from_numpy(rows) for rows in given.noisy_batches()]
    noise, loss = _torch_noise(case), _torch_autograd_loss(case)
    if part == "kernels":
        deltas = [torch.from_numpy(delta) for delta in given.deltas]

    def run(i: int) -> None:
        optimizer.zero_grad()
        if part == "kernels":
            network(noisy[i]).backward(deltas[i])
        else:
            x = noise(clean[i]) if i < n_timed else noisy[i]
            loss(network(x), clean[i]).backward()
        optimizer.step()

    return PartReady(run, lambda: _torch_parameters(network), part=part)


def torch_embedding_bag(case: Case, part: str) -> Ready:
    """PyTorch for bags of words: ``EmbeddingBag(sparse=True)``, then a Linear."""
    import torch

    _require_bags(case)
    torch.set_num_threads(case.n_threads)
    encoder = torch.nn.EmbeddingBag.from_pretrained(
        torch.from_numpy(case.task.weights[0].copy()),
        freeze=False,
        mode="sum",
        sparse=True,
    )
    bias = torch.nn.Parameter(torch.from_numpy(case.task.biases[0].copy()))
    decoder = training_contenders.torch_network(case, first_layer=1)
    sparse_rule = torch.optim.SGD([encoder.weight, bias], lr=case.learning_rate)
    dense_rule = torch.optim.SGD(
        decoder.parameters(), lr=case.learning_rate, fused=True
    )
    given, n_timed = Given(case), case.n_batches
    clean = [torch.from_numpy(rows) for rows in case.dense_batches()]
    listed = [_torch_bags(torch.from_numpy(rows)) for rows in given.noisy_batches()]
    noise, loss = _torch_noise(case), _torch_autograd_loss(case)
    if part == "kernels":
        deltas = [torch.from_numpy(delta) for delta in given.deltas]

    def run(i: int) -> None:
        sparse_rule.zero_grad()
        dense_rule.zero_grad()
        is_given = part == "kernels" or i >= n_timed
        _, words, starts = listed[i] if is_given else _torch_bags(noise(clean[i]))
        a = decoder(torch.relu(encoder(words, starts) + bias))
        if part == "kernels":
            a.backward(deltas[i])
        else:
            loss(a, clean[i]).backward()
        sparse_rule.step()
        dense_rule.step()

    def parameters() -> list[Floats]:
        V, c = _torch_parameters(decoder)
        return [encoder.weight.detach().numpy(), V, bias.detach().numpy(), c]

    return PartReady(run, parameters, part=part)


def check(case: Case, ready: PartReady) -> dict[str, Any]:
    """Take the check steps and compare the parameters with NumPy's in float64."""
    return training_contenders.agreement(case, ready, _expected(case, ready.part))


def _expected(case: Case, part: str) -> list[NDArray[np.float64]]:
    """Take the check steps in float64, written as the formulas are."""
    W, V = (weights.astype(np.float64) for weights in case.task.weights)
    b, c = (biases.astype(np.float64) for biases in case.task.biases)
    given, clean, rate = Given(case), case.dense_batches(), case.learning_rate
    noisy = given.noisy_batches()
    for i in case.checks:
        x = noisy[i].astype(np.float64)
        h = np.maximum(x @ W + b, 0)
        if part == "kernels":
            delta = given.deltas[i].astype(np.float64)
        else:
            delta = _slopes(case, h @ V + c, clean[i]) / case.batch
        below = delta @ V.T * (h > 0)
        V -= rate * h.T @ delta
        c -= rate * delta.sum(axis=0)
        W -= rate * x.T @ below
        b -= rate * below.sum(axis=0)
    return [W, V, b, c]


def _slopes(case: Case, a: Matrix, x: Floats) -> NDArray[np.float64]:
    """Return the derivatives of what each entry costs, in float64."""
    sigmoid = 1 / (1 + np.exp(-a.astype(np.float64)))
    if case.task.about["decoder"] == "sigmoid":
        return sigmoid - x
    return 2 * (np.logaddexp(0, a.astype(np.float64)) - x) * sigmoid


def _numpy_loss(case: Case) -> Callable[[Floats, Floats], Floats]:
    """Return what makes derivatives of the batch's loss of outputs and targets."""
    share = np.float32(1 / case.batch)

    def cross_entropy(a: Floats, x: Floats) -> Floats:
        np.negative(a, out=a)
        np.exp(a, out=a)
        a += 1
        np.reciprocal(a, out=a)
        a -= x
        a *= share
        return a

    def softplus(a: Floats, x: Floats) -> Floats:
        rest = np.abs(a)
        np.negative(rest, out=rest)
        np.exp(rest, out=rest)
        np.log1p(rest, out=rest)
        np.maximum(a, 0, out=a)
        a += rest
        slope = np.expm1(-a)  # minus the sigmoid
        a -= x
        a *= slope
        a *= -2 * share
        return a

    return cross_entropy if case.task.about["decoder"] == "sigmoid" else softplus


def _numpy_noise(case: Case) -> Callable[[Floats], Floats]:
    """Return what puts the case's noise on rows."""
    rng = np.random.default_rng(0)
    off, on = _rates(case)

    def mask(x: Floats) -> Floats:
        return x * (rng.random(x.shape, np.float32) >= off)

    def flip(x: Floats) -> Floats:
        u = rng.random(x.shape, np.float32)
        return np.where(x > 0, u >= off, u < on).astype(np.float32)

    return flip if on else mask


def _torch_noise(case: Case) -> Callable[[Any], Any]:
    """Return what puts the case's noise on rows."""
    import torch

    torch.manual_seed(0)
    off, on = _rates(case)

    def mask(x: Any) -> Any:
        return torch.empty_like(x).bernoulli_(1 - off).mul_(x)

    def flip(x: Any) -> Any:
        kept = torch.empty_like(x).bernoulli_(1 - off)
        return torch.where(x > 0, kept, torch.empty_like(x).bernoulli_(on))

    return flip if on else mask


def _torch_loss(case: Case) -> Callable[[Any, Any], Any]:
    """Return what makes derivatives of the batch's loss of outputs and targets."""
    from torch.nn.functional import softplus

    def cross_entropy_slopes(a: Any, x: Any) -> Any:
        return a.sigmoid_().sub_(x).div_(case.batch)

    def softplus_slopes(a: Any, x: Any) -> Any:
        return softplus(a).sub_(x).mul_(a.sigmoid_()).mul_(2 / case.batch)

    is_sigmoid = case.task.about["decoder"] == "sigmoid"
    return cross_entropy_slopes if is_sigmoid else softplus_slopes


def _torch_autograd_loss(case: Case) -> Callable[[Any, Any], Any]:
    """Return the loss of outputs and targets, for autograd."""
    from torch.nn.functional import binary_cross_entropy_with_logits, softplus

    def cross_entropy(a: Any, x: Any) -> Any:
        summed = binary_cross_entropy_with_logits(a, x, reduction="sum")
        return summed / case.batch

    def squared(a: Any, x: Any) -> Any:
        return (softplus(a) - x).square().sum() / case.batch

    return cross_entropy if case.task.about["decoder"] == "sigmoid" else squared


def _rates(case: Case) -> tuple[float, float]:
    """Return the probabilities that a non-zero turns off and that a zero turns on."""
    from hardzero.engine.corruption import Masking, SaltAndPepper, parse_corruption

    corruption = parse_corruption(case.task.about["corruption"])
    if isinstance(corruption, Masking):
        return corruption.rate, 0.0
    assert isinstance(corruption, SaltAndPepper)
    share = case.task.about["input_nonzero"]
    return corruption.off, corruption.off * share / (1 - share)


def _require_bags(case: Case) -> None:
    if not case.is_sparse:
        raise MissingError("only for sparse input")


def _torch_bags(x: Any) -> tuple[Any, Any, Any]:
    """Return the row and the column of each 1, and where the rows start."""
    import torch

    rows, words = x.nonzero(as_tuple=True)
    counts = torch.bincount(rows, minlength=len(x))
    return rows, words, counts.cumsum(0) - counts


def _torch_parameters(network: Any) -> list[Floats]:
    arrays = [p.detach().numpy() for p in network.parameters()]
    return [W.T for W in arrays[0::2]] + arrays[1::2]


def _dense(rows: Matrix) -> Floats:
    return np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows)
