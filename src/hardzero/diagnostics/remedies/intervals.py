"""Bounds on every signal of a chain of layers, for all inputs in a box.

They hold for the function in real numbers and for what a machine computes in the dtype
of the model, whatever the order of its sums: each bound is widened by the largest
rounding error of a sum of so many products (Higham, Accuracy and Stability of Numerical
Algorithms, section 3.1), in that dtype and in the float64 of the bounds. Transforms
(Winograd, FFT) and TF32 round otherwise and are not covered.
"""

import copy
import math
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hardzero.diagnostics.remedies.chain import (
    AVERAGES,
    LINEAR_MAPS,
    NEUTRAL,
    NORMS,
    POOLS,
    RECTIFIERS,
    Link,
)
from hardzero.errors import ParameterError

__all__ = ["bound_inputs"]

_PASSING: Final = NEUTRAL | RECTIFIERS | (POOLS - AVERAGES) | {nn.Flatten}
_RANGES: Final = {nn.Tanh: (-1.0, 1.0), nn.Sigmoid: (0.0, 1.0)}
_STEPS_OF_NORM: Final = 16  # roundings in a batch normalisation, amply


def bound_inputs(
    chain: list[Link], low: Tensor, high: Tensor
) -> Iterator[tuple[Link, Tensor, Tensor]]:
    """Bound what goes into each layer of a chain.

    Parameters
    ----------
    chain : list of Link
        The layers; they run in evaluation mode.
    low, high : Tensor of shape (1, ...)
        Corners of the box, in the shape of a batch of one.

    Yields
    ------
    tuple of (Link, Tensor, Tensor)
        The layer, the lower and the upper bound, in float64.

    Raises
    ------
    ParameterError
        At a layer through which there is no bound.
    """
    dtypes = {p.dtype for link in chain for p in link.module.parameters()}
    limits = max(map(torch.finfo, dtypes or {torch.float64}), key=lambda f: f.eps)
    low, high = low.double(), high.double()
    for link in chain:
        yield link, low, high
        low, high = _through(link, low, high, limits)


def _through(
    link: Link, low: Tensor, high: Tensor, limits: Any
) -> tuple[Tensor, Tensor]:
    module: Any = copy.deepcopy(link.module).double().eval()
    size = torch.maximum(low.abs(), high.abs())
    if type(module) in _RANGES:
        lowest, highest = _RANGES[type(module)]
        return torch.full_like(low, lowest), torch.full_like(high, highest)
    if link.is_any(_PASSING) and not getattr(module, "return_indices", False):
        return module(low.clone()), module(high.clone())
    if link.is_any(LINEAR_MAPS):
        return _mapped(link, module, low, high, limits)
    if link.is_any(NORMS) and module.running_mean is not None:
        scale = 1 / torch.sqrt(module.running_var + module.eps)
        shift = torch.zeros_like(scale)
        if module.weight is not None:
            scale, shift = scale * module.weight, module.bias
        shape = [1, -1, *[1] * (low.ndim - 2)]
        scale, shift, mean = (
            v.view(shape) for v in (scale, shift, module.running_mean)
        )
        ends = (low - mean) * scale + shift, (high - mean) * scale + shift
        amount = (size + mean.abs()) * scale.abs() + shift.abs()
        error = _widening(_STEPS_OF_NORM, limits) * amount + limits.tiny
        return _widened(torch.minimum(*ends), torch.maximum(*ends), error, link, limits)
    if link.is_any(AVERAGES) and getattr(module, "divisor_override", None) is None:
        n_terms = math.prod(low.shape[2:])
        ends = module(low), module(high)
        error = _widening(n_terms + 2, limits) * size.amax()
        return _widened(torch.minimum(*ends), torch.maximum(*ends), error, link, limits)
    if type(module) in {nn.LeakyReLU, nn.PReLU}:
        middle = module(torch.clamp(torch.zeros_like(low), min=low, max=high))
        ends = module(low), module(high)
        lowest = torch.minimum(torch.minimum(*ends), middle)
        highest = torch.maximum(torch.maximum(*ends), middle)
        error = _widening(2, limits) * torch.maximum(lowest.abs(), highest.abs())
        return _widened(lowest, highest, error, link, limits)
    raise ParameterError(
        f"{link} has no bounds here, so nothing behind it can be proved. Give data "
        "instead of a domain."
    )


def _mapped(
    link: Link, module: nn.Module, low: Tensor, high: Tensor, limits: Any
) -> tuple[Tensor, Tensor]:
    weight = module.weight
    positive, negative = weight.clamp(min=0), weight.clamp(max=0)
    bias = {} if module.bias is None else {"bias": module.bias}
    none = {} if module.bias is None else {"bias": torch.zeros_like(module.bias)}
    size = torch.maximum(low.abs(), high.abs())

    def run(weights: Tensor, others: dict[str, Tensor], inputs: Tensor) -> Tensor:
        return functional_call(module, {"weight": weights, **others}, (inputs,))

    lowest = run(positive, bias, low) + run(negative, none, high)
    highest = run(positive, bias, high) + run(negative, none, low)
    amount = run(weight.abs(), {k: v.abs() for k, v in bias.items()}, size)
    n_terms = weight[0].numel() + 3
    error = _widening(n_terms, limits) * amount  # 0 if and only if all products are
    error = error + n_terms * limits.tiny * (amount > 0)  # what underflow takes
    return _widened(lowest, highest, error, link, limits)


def _widening(n_terms: int, limits: Any) -> float:
    """Bound the relative error of a sum of products, in the model and here."""
    share = n_terms * limits.eps / 2
    return math.inf if share >= 0.5 else 2 * share + 4 * n_terms * 2.0**-53


def _widened(
    low: Tensor, high: Tensor, error: Tensor, link: Link, limits: Any
) -> tuple[Tensor, Tensor]:
    low, high = low - error, high + error
    if not bool((low >= limits.min).all() and (high <= limits.max).all()):
        raise ParameterError(
            f"after {link} the bounds leave the range of {limits.dtype}, so nothing "
            "behind it can be proved. Give a smaller domain, a wider dtype, or data."
        )
    return low, high
