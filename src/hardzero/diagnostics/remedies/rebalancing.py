"""Equal norms into and out of each rectifier, at no change of the function.

A rectifier is positively homogeneous: max(0, c z) = c max(0, z) for c > 0. So what
leads into a unit can be multiplied by c and what leads out of it divided by c.
Gradients of the two sides go by their norms, which gradient descent itself never evens
out (Du, Hu and Lee 2018).
"""

import copy
import math
from typing import Final

import torch
from torch import Tensor, nn

from hardzero.diagnostics.remedies.chain import (
    NEUTRAL,
    NORMS,
    POOLS,
    Link,
    Pair,
    links,
    pairs,
)
from hardzero.errors import ParameterError

__all__ = ["rebalance"]

_HOMOGENEOUS: Final = (
    NEUTRAL | POOLS | {nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.Flatten}
)
_MARGIN: Final = 1e-6  # beyond rounding, so that each step lowers the sum of squares


def rebalance(model: nn.Module) -> nn.Module:
    """Even out the norms of what leads into and out of each unit.

    For each unit between two linear maps (layers, convolutions) through rectifiers,
    leaky rectifiers, dropout, pooling and flattening, its weights and bias are
    multiplied by a power of two and the weights that read it are divided by it, until
    both norms differ by less than a factor of two. After a batch normalisation, its
    weight and bias are what leads in. Units behind anything else, such as ``ReLU6`` or
    ``Tanh``, stay as they are. The sum of all squared weights only falls.

    Powers of two are exact: outputs in training and in evaluation are the same bits,
    short of overflow and underflow in between. Inputs are batches, and inputs of linear
    layers are rows.

    Parameters
    ----------
    model : Module
        A Sequential, with others in it perhaps, or a model of another class whose
        forward method runs one layer after the other.

    Returns
    -------
    Module
        A changed copy.

    Raises
    ------
    ParameterError
        If the model is no chain, shares layers or parameters, has hooks, or has weights
        that are not finite.
    """
    links(model)
    balanced = copy.deepcopy(model)
    found = [
        (source, pair)
        for pair in pairs(links(balanced))
        if pair.obstacle() is None and (source := _source(pair)) is not None
    ]
    with torch.no_grad():
        while sum(_balance(source, pair) for source, pair in found):
            pass  # until no unit has to change
    return balanced


def _source(pair: Pair) -> Link | None:
    """Return the layer whose rows can be scaled, if what follows lets them through."""
    chain = pair.first, *pair.between
    last = max(i for i, link in enumerate(chain) if i == 0 or link.is_any(NORMS))
    if not all(link.is_any(_HOMOGENEOUS) for link in chain[last + 1 :]):
        return None
    return chain[last] if chain[last].module.weight is not None else None


def _balance(source: Link, pair: Pair) -> bool:
    """Scale each unit of a layer once, and return whether any had to be."""
    assert pair.second is not None
    rows = [p.data for p in (source.module.weight, source.module.bias) if p is not None]
    columns = pair.outgoing(pair.second.module.weight.data).transpose(0, 1)
    if not all(bool(torch.isfinite(values).all()) for values in (*rows, columns)):
        raise ParameterError(
            f"{source} or {pair.second} has weights that are not finite. Go back to "
            "weights that are."
        )
    into = torch.stack([_norms(values) for values in rows]).norm(dim=0)
    ratios = torch.log2(_norms(columns) / into)
    ratios[~torch.isfinite(ratios)] = 0  # nothing leads in or out
    ratios[ratios.abs() <= 1 + _MARGIN] = 0
    powers = (ratios / 2).round()
    if not powers.any():
        return False
    sides = [*((values, powers) for values in rows), (columns, -powers)]
    scaled = [_scaled(values, by) for values, by in sides]
    exact = torch.ones_like(powers, dtype=torch.bool)
    for (values, by), new in zip(sides, scaled, strict=True):
        exact &= (_scaled(new, -by) == values).reshape(len(by), -1).all(1)
    for (values, _), new in zip(sides, scaled, strict=True):
        values[exact] = new[exact]
    return bool((exact & (powers != 0)).any())


def _norms(values: Tensor) -> Tensor:
    return values.double().reshape(len(values), -1).norm(dim=1)


def _scaled(values: Tensor, powers: Tensor) -> Tensor:
    """Multiply each unit by its power of two, exactly."""
    factors = [math.ldexp(1.0, int(power)) for power in powers.tolist()]
    column = torch.tensor(factors, dtype=torch.float64, device=values.device)
    shape = [-1, *[1] * (values.ndim - 1)]
    return (values.double() * column.view(shape)).to(values.dtype)
