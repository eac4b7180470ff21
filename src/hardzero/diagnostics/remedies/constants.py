"""Units that never fire are constants: which, at what, and what they contribute."""

from typing import Any, Final

import torch
from torch import Tensor, nn

from hardzero.diagnostics.remedies.chain import (
    AVERAGES,
    CONVOLUTIONS,
    NEUTRAL,
    POOLS,
    Pair,
)
from hardzero.errors import ParameterError

__all__ = ["constant_units", "contribution", "pads_zeros"]

_KEPT: Final = NEUTRAL | (POOLS - AVERAGES) | {nn.Flatten}  # of a constant, a constant


def constant_units(pair: Pair, dead: dict[int, Tensor]) -> tuple[Tensor, Tensor]:
    """Follow units that never fire to the map that reads them.

    Parameters
    ----------
    pair : Pair
        The maps and the layers in between, in evaluation mode.
    dead : dict
        For the places of rectifiers, which units never fire.

    Returns
    -------
    known : Tensor of bool
        Which units never fire behind some rectifier.
    constants : Tensor
        What comes of each of them. Others have any value.

    Raises
    ------
    ParameterError
        If a layer makes them differ from place to place.
    """
    weight = pair.first.module.weight
    known = torch.zeros(pair.n_units, dtype=torch.bool, device=weight.device)
    values = weight.new_zeros(1, pair.n_units, *[1] * (weight.ndim - 2))
    for place, link in enumerate(pair.between, start=pair.place + 1):
        if place in dead:
            known = known | dead[place]
            values = link.module(values)
            values[:, dead[place]] = 0
        elif link.is_any(AVERAGES):
            if _averages_padding(link.module) and bool(values[:, known].any()):
                raise ParameterError(
                    f"units of {pair.first} that never fire are constants other than 0 "
                    f"in front of {link}, which averages them with its padding, so "
                    "that they are no longer the same everywhere. Fold the "
                    "normalisation away first."
                )
        elif not link.is_any(_KEPT):
            values = link.module(values)
    return known, values.flatten()


def contribution(pair: Pair, known: Tensor, constants: Tensor) -> Tensor | None:
    """Sum up what constant units add to what the second map puts out.

    Parameters
    ----------
    pair : Pair
        The maps.
    known : Tensor of bool
        Which units are constant.
    constants : Tensor
        Their values.

    Returns
    -------
    Tensor of shape (n_outputs,) or None
        In float64; None if all of them are 0.

    Raises
    ------
    ParameterError
        If it differs from place to place, because of zeros around an image.
    """
    assert pair.second is not None
    if not bool(constants[known].any()):
        return None
    module = pair.second.module
    if pair.second.is_any(CONVOLUTIONS) and pads_zeros(module):
        raise ParameterError(
            f"units of {pair.first} that never fire are constants other than 0 in "
            f"front of {pair.second}, whose zero padding tells borders from the rest: "
            "no bias can stand for them. Fold the normalisation away first."
        )
    weights = pair.outgoing(module.weight)[:, known].double()
    return (weights * constants[known].double()[:, None]).sum((1, 2))


def _averages_padding(module: Any) -> bool:
    padding = getattr(module, "padding", 0)
    is_padded = any(padding) if isinstance(padding, tuple) else padding != 0
    return bool(
        getattr(module, "divisor_override", None)
        or (is_padded and module.count_include_pad)
    )


def pads_zeros(module: Any) -> bool:
    """Return whether a convolution puts zeros around its inputs.

    Parameters
    ----------
    module : Module
        The convolution.

    Returns
    -------
    bool
        Whether it does.
    """
    if module.padding_mode != "zeros" or module.padding == "valid":
        return False
    return module.padding == "same" or any(module.padding)
