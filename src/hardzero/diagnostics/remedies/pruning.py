"""A smaller network with the same outputs: units that never fire are taken out."""

import copy
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hardzero.diagnostics.record import left_alone
from hardzero.diagnostics.remedies.activity import (
    mean_activity,
    rectifiers,
    units_of,
)
from hardzero.diagnostics.remedies.chain import (
    CONVOLUTIONS,
    NEUTRAL,
    NORMS,
    Pair,
    links,
    pairs,
)
from hardzero.diagnostics.remedies.constants import constant_units, contribution
from hardzero.diagnostics.remedies.intervals import bound_inputs
from hardzero.diagnostics.remedies.reading import read_tensors
from hardzero.errors import ParameterError

__all__ = ["prune_dead"]

_Dead = dict[int, Tensor]  # by the place of a rectifier: which units never fire


def prune_dead(model: nn.Module, data: Any = None, *, domain: Any = None) -> nn.Module:
    """Take out units that never fire.

    Outputs in evaluation mode stay equal, up to the order of sums: on a domain for
    every input in it, as bounds with all roundings prove; on data for these rows, which
    is checked by running both networks, and other rows may make a unit fire.

    Units lie between two linear maps (layers, convolutions), with a rectifier, and
    perhaps normalisation, dropout, pooling and flattening in between. Behind a
    rectifier, a batch normalisation makes a unit that never fires a constant, which
    goes into the next bias. A leaky rectifier lets signals through on both sides: its
    units stay. So do the outputs, and one unit of each layer.

    Parameters
    ----------
    model : Module
        A Sequential, with others in it perhaps, or a model of another class whose
        forward method runs one layer after the other.
    data : DataLoader, tuple or array, optional
        Batches of inputs or of (input, target), or (X, y), or X.
    domain : (lower, upper), optional
        A box of inputs: bounds in the shape of one example, or numbers for all.
        Numbers need a linear layer first.

    Returns
    -------
    Module
        A smaller copy, whose layers have the names that they had.

    Raises
    ------
    ParameterError
        If not one of data and domain is given; the model is no chain, shares layers or
        parameters, or has hooks; or units never fire but a layer in the way, which the
        message names, keeps them from being taken out.
    """
    if (data is None) == (domain is None):
        raise ParameterError(
            "give either data, on which units never fire, or domain=(lower, upper), "
            f"in which they provably cannot; got {'none' if data is None else 'both'}."
        )
    links(model)
    pruned = copy.deepcopy(model).eval()
    with torch.no_grad():
        if data is not None:
            inputs = read_tensors(model, data)
            activity = mean_activity(links(pruned), inputs)
            dead = {place: means == 0 for place, means in activity.items()}
        else:
            low, high = _read_box(model, domain)
            dead = _dead_on_box(pruned, low, high)
            dtype = next((p.dtype for p in model.parameters()), low.dtype)
            inputs = [torch.cat([low, low / 2 + high / 2, high]).to(dtype)]
        for pair in pairs(links(pruned)):
            _prune(pair, dead)
        _compare(model, pruned, inputs)
    for old, new in zip(model.modules(), pruned.modules(), strict=True):
        new.training = old.training
    return pruned


def _dead_on_box(model: nn.Module, low: Tensor, high: Tensor) -> _Dead:
    chain = links(model)
    places = rectifiers(chain)
    until = chain[: max(places, default=-1) + 1]
    return {
        place: (units_of(places[place], upper) <= 0).all(2)[0]
        for place, (_, _, upper) in enumerate(bound_inputs(until, low, high))
        if place in places
    }


def _prune(pair: Pair, dead: _Dead) -> None:
    """Take the units of one layer that never fire out of it and of what reads it."""
    places = [pair.place + 1 + i for i in range(len(pair.between))]
    if not any(bool(dead[place].any()) for place in places if place in dead):
        return
    reason = pair.obstacle()
    if reason is None and getattr(pair.first.module, "groups", 1) != 1:
        reason = f"{pair.first} is a grouped convolution"
    if reason is not None:
        n = max(int(dead[place].sum()) for place in places if place in dead)
        raise ParameterError(
            f"{n} units of {pair.first} never fire but cannot be taken out: {reason}. "
            "Prune the chains before and behind it one by one."
        )
    assert pair.second is not None
    known, constants = constant_units(pair, dead)
    if known.all():
        known[0] = False  # no layer of width 0
    shift = contribution(pair, known, constants)
    if shift is not None:
        _add_bias(pair.second.module, shift)
    _slice(pair, ~known)


def _add_bias(module: Any, shift: Tensor) -> None:
    trained = module.weight.requires_grad
    if module.bias is not None:
        shift, trained = shift + module.bias.double(), module.bias.requires_grad
    module.bias = nn.Parameter(shift.to(module.weight.dtype), requires_grad=trained)


def _slice(pair: Pair, keep: Tensor) -> None:
    """Leave only some of the units."""
    assert pair.second is not None
    second = pair.second.module
    columns = pair.outgoing(second.weight)[:, keep]
    _set(second, "weight", columns.reshape(len(columns), -1, *second.weight.shape[2:]))
    name = "in_channels" if pair.second.is_any(CONVOLUTIONS) else "in_features"
    setattr(second, name, second.weight.shape[1])
    name = "out_channels" if pair.first.is_any(CONVOLUTIONS) else "out_features"
    _keep(pair.first.module, name, keep)
    for link in pair.between:
        if link.is_any(NORMS):
            _keep(link.module, "num_features", keep)
        elif type(link.module) is nn.PReLU and link.module.num_parameters > 1:
            _keep(link.module, "num_parameters", keep)


def _keep(module: nn.Module, width: str, keep: Tensor) -> None:
    for name in ("weight", "bias", "running_mean", "running_var"):
        values = getattr(module, name, None)
        if values is not None:
            _set(module, name, values[keep])
    setattr(module, width, int(keep.sum()))


def _set(module: nn.Module, name: str, values: Tensor) -> None:
    old = getattr(module, name)
    if isinstance(old, nn.Parameter):
        values = nn.Parameter(values, requires_grad=old.requires_grad)
    setattr(module, name, values)


def _read_box(model: nn.Module, domain: Any) -> tuple[Tensor, Tensor]:
    """Return the corners of a box in the shape of a batch of one."""
    if not isinstance(domain, (tuple, list)) or len(domain) != 2:
        raise ParameterError(
            f"domain is {domain!r}, expected (lower, upper): arrays in the shape of "
            "one example, or numbers."
        )
    low, high = torch.broadcast_tensors(*map(_as_tensor, domain))
    chain = links(model)
    first = next((link for link in chain if not link.is_any(NEUTRAL)), None)
    if low.ndim == 0:
        if first is None or type(first.module) is not nn.Linear:
            raise ParameterError(
                "domain has a number for each bound, which leaves the shape of an "
                f"input open, as {first} is no linear layer. Give arrays in the shape "
                "of one example."
            )
        low, high = (x.expand(first.module.in_features) for x in (low, high))
    shape = tuple(low.shape)
    if first is not None and type(first.module) is nn.Linear:
        if shape[-1] != first.module.in_features:
            raise ParameterError(
                f"domain has bounds of shape {shape}, but {first} takes "
                f"{first.module.in_features} features."
            )
    elif first is not None and first.is_any(CONVOLUTIONS):
        wanted = first.module.weight.ndim - 1, first.module.in_channels
        if (len(shape), shape[0]) != wanted:
            raise ParameterError(
                f"domain has bounds of shape {shape}, but {first} takes "
                f"{wanted[1]} channels and {wanted[0] - 1} axes of positions."
            )
    if not bool((torch.isfinite(low) & torch.isfinite(high) & (low <= high)).all()):
        raise ParameterError(
            "domain has bounds that are not finite, or a lower one above its upper "
            "one. Give lower <= upper."
        )
    parameter = next(model.parameters(), low)
    return low[None].to(parameter.device), high[None].to(parameter.device)


def _as_tensor(bound: Any) -> Tensor:
    if isinstance(bound, Tensor):
        return bound.detach().double()
    return torch.from_numpy(np.array(bound, dtype=np.float64))


def _compare(model: nn.Module, pruned: nn.Module, inputs: list[Any]) -> None:
    for batch in inputs:
        with left_alone(model):
            old = model(batch.clone())
        new = pruned(batch.clone())
        tolerance = math.sqrt(torch.finfo(old.dtype).eps)
        size = max(1.0, float(old.abs().max()))
        difference = float((old - new).abs().max())
        if not difference <= tolerance * size and bool(torch.isfinite(old).all()):
            raise ParameterError(
                f"outputs of the smaller network differ by {difference:.3g}, so some "
                "layer does not act unit by unit here. Inputs have to be batches, and "
                "what linear layers hand to a normalisation rows."
            )
