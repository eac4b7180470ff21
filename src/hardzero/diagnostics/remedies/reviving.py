"""New life for units that never fire: fresh weights in, zeros out."""

import copy
import math
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from hardzero.diagnostics.remedies.activity import (
    mean_activity,
    rectifiers,
    units_of,
)
from hardzero.diagnostics.remedies.chain import (
    NEUTRAL,
    NORMS,
    POOLS,
    Link,
    Pair,
    links,
    pairs,
)
from hardzero.diagnostics.remedies.constants import constant_units, contribution
from hardzero.diagnostics.remedies.moments import Moments
from hardzero.diagnostics.remedies.reading import read_tensors
from hardzero.errors import ParameterError

__all__ = ["revive", "revive_"]

Form = Literal["redo", "data"]

_SHIFTED: Final = NEUTRAL | POOLS | NORMS | {nn.Flatten}  # let scale and shift through


def revive(
    model: nn.Module,
    data: Any,
    *,
    form: Form = "redo",
    tau: float = 0.0,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Give units that never fire new weights, in a copy of the model.

    It is `revive_` on a copy.

    Parameters
    ----------
    model : Module
        A Sequential, with others in it perhaps, or a model of another class whose
        forward method runs one layer after the other.
    data : DataLoader, tuple or array
        Batches of inputs or of (input, target), or (X, y), or X.
    form : {"redo", "data"}, default="redo"
        Where new incoming weights come from.
    tau : float, default=0
        Units below this share of their layer's mean activity are revived, too.
    generator : Generator, optional
        Draws the weights; without it, PyTorch's own does.

    Returns
    -------
    Module
        A changed copy.

    Raises
    ------
    ParameterError
        As `revive_`.

    See Also
    --------
    revive_ : The same in place, for a model in training.
    """
    revived = copy.deepcopy(model)
    revive_(revived, data, form=form, tau=tau, generator=generator)
    return revived


def revive_(
    model: nn.Module,
    data: Any,
    *,
    form: Form = "redo",
    tau: float = 0.0,
    optimizer: Any = None,
    generator: torch.Generator | None = None,
) -> dict[str, list[int]]:
    """Give units that never fire new weights, in place.

    A unit is dormant if its mean activity is at most `tau` times the mean of its layer
    (Sokar et al. 2023, section 3); with ``tau=0`` these are the units that never fire
    on the data, and the network's outputs on the data in evaluation mode do not change.

    Weights into a dormant unit are drawn as PyTorch draws those of a new layer, its
    bias is 0, and weights out of it are 0: gradients reach these in the next step, and
    then the others. In the form "data" the drawn weights are also scaled and the bias
    set so that the unit's pre-activation has mean 0 over the data, and the variance
    that the layer's other units have on average (1 if there are none): it fires on
    about half of the data. A batch normalisation between two maps starts anew for
    these units, with the mean and the variance of the data. What a unit contributed
    through a normalisation behind its rectifier goes into the next bias.

    Parameters
    ----------
    model : Module
        A Sequential, with others in it perhaps, or a model of another class whose
        forward method runs one layer after the other.
    data : DataLoader, tuple or array
        Batches of inputs or of (input, target), or (X, y), or X.
    form : {"redo", "data"}, default="redo"
        Where new incoming weights come from.
    tau : float, default=0
        Units below this share of their layer's mean activity are revived, too; ReDo
        takes 0.1. Outputs change if there are any.
    optimizer : Optimizer, optional
        Its state for the new weights is set to 0 where it has the shape of a parameter:
        momentum, and both averages of Adam.
    generator : Generator, optional
        Draws the weights; without it, PyTorch's own does.

    Returns
    -------
    dict
        For the name of each layer with dormant units, their numbers.

    Raises
    ------
    ParameterError
        If the model is no chain, shares parameters, or has hooks; a layer between two
        maps, which the message names, hides which weights belong to a dormant unit; an
        argument has no meaning; or inputs of a layer are all equal, so that no weights
        make its units fire on half of the data.
    """
    if form not in ("redo", "data"):
        raise ParameterError(f"form is {form!r}, expected 'redo' or 'data'.")
    if not 0 <= tau < math.inf:
        raise ParameterError(f"tau is {tau!r}, expected a number from 0 on, as 0.1.")
    own = pairs(links(model))
    if optimizer is not None:
        _check_optimizer(model, optimizer)
    inputs = read_tensors(model, data)
    work = copy.deepcopy(model).eval()  # so that an error leaves the model as it was
    chain = links(work)
    revived: list[tuple[Pair, Tensor]] = []
    with torch.no_grad():
        activity = mean_activity(chain, inputs)
        for pair, original in zip(pairs(chain), own, strict=True):
            places = [
                p for p, at in rectifiers(chain).items() if at.place == pair.place
            ]
            if not places:
                continue
            dormant = _dormant([activity[place] for place in places], tau)
            if not dormant.any():
                continue
            _cut(pair, dormant, {place: activity[place] == 0 for place in places})
            _draw(pair, dormant, generator)
            _settle(chain, pair, dormant, inputs, places[0], form)
            revived.append((original, dormant))
        _copy(work, model)
        for pair, dormant in revived if optimizer is not None else ():
            _forget(optimizer, pair, dormant)
    return {
        pair.first.name: dormant.nonzero().flatten().tolist()
        for pair, dormant in revived
    }


def _copy(source: nn.Module, target: nn.Module) -> None:
    for parts in ("parameters", "buffers"):
        news, olds = getattr(source, parts)(), getattr(target, parts)()
        for new, old in zip(news, olds, strict=True):
            old.copy_(new)


def _check_optimizer(model: nn.Module, optimizer: Any) -> None:
    own = set(map(id, model.parameters()))
    if not any(
        id(p) in own for group in optimizer.param_groups for p in group["params"]
    ):
        raise ParameterError(
            "optimizer trains no parameter of the model. Give the one that was made "
            "with model.parameters()."
        )


def _dormant(activities: list[Tensor], tau: float) -> Tensor:
    """Return which units are dormant behind one of a layer's rectifiers."""
    return torch.stack([means <= tau * means.mean() for means in activities]).any(0)


def _cut(pair: Pair, dormant: Tensor, dead: dict[int, Tensor]) -> None:
    """Let nothing read dormant units."""
    reason = pair.obstacle()
    if reason is not None:
        raise ParameterError(
            f"{int(dormant.sum())} units of {pair.first} are dormant but cannot be "
            f"revived: {reason}, so that it is open which weights read them. Revive "
            "the chains before and behind it one by one."
        )
    assert pair.second is not None
    module = pair.second.module
    shift = contribution(pair, *constant_units(pair, dead))
    if shift is not None:
        if module.bias is None:
            raise ParameterError(
                f"{pair.second} has no bias to take what units of {pair.first} that "
                "never fire contribute through a normalisation. Give it one, of zeros."
            )
        module.bias.copy_(module.bias.double() + shift)
    pair.outgoing(module.weight)[:, dormant] = 0


def _draw(pair: Pair, dormant: Tensor, generator: torch.Generator | None) -> None:
    """Draw weights as PyTorch does for a new layer, without a bias."""
    module = pair.first.module
    weights = module.weight[dormant]
    bound = 1 / math.sqrt(weights[0].numel())
    device = "cpu" if generator is None else generator.device
    fresh = torch.empty(weights.shape, device=device)
    module.weight[dormant] = fresh.uniform_(-bound, bound, generator=generator).to(
        weights
    )
    if module.bias is not None:
        module.bias[dormant] = 0


def _settle(
    chain: list[Link],
    pair: Pair,
    dormant: Tensor,
    inputs: list[Any],
    rectifier: int,
    form: Form,
) -> None:
    """Start normalisations anew, and let pre-activations straddle 0."""
    source = pair.first
    for place, link in enumerate(pair.between, start=pair.place + 1):
        if link.is_any(NORMS):
            _restart(link.module, dormant, _moments(chain[:place], pair, inputs))
            source = link if place < rectifier else source
        if place == rectifier and form == "data":
            way = chain[pair.place + 1 : rectifier]
            odd = next((link for link in way if not link.is_any(_SHIFTED)), None)
            if odd is not None:
                raise ParameterError(
                    f"{odd} is not linear, so no scale and bias make "
                    "pre-activations behind it straddle 0. Use form='redo'."
                )
            _centre(source, dormant, _moments(chain[:place], pair, inputs))


def _moments(chain: list[Link], pair: Pair, inputs: list[Any]) -> Moments:
    """Return the moments of each unit behind some layers."""
    found = Moments(pair.n_units)
    for batch in inputs:
        x = batch.clone()
        for link in chain:
            x = link.module(x)
        found.add(units_of(pair, x).movedim(1, 2).flatten(0, 1))
    return found


def _restart(module: Any, dormant: Tensor, moments: Moments) -> None:
    if module.weight is not None:
        module.weight[dormant] = 1
        module.bias[dormant] = 0
    if module.running_mean is not None:
        mean, variance = module.running_mean, module.running_var
        mean[dormant] = moments.mean.to(mean)[dormant]
        variance[dormant] = moments.variance.to(variance)[dormant]


def _centre(source: Link, dormant: Tensor, moments: Moments) -> None:
    """Shift and scale what leads into dormant units."""
    module = source.module
    if module.weight is None:
        return  # a normalisation without weights has centred them
    if module.bias is None:
        raise ParameterError(
            f"{source} has no bias, without which its units' pre-activations cannot be "
            "centred. Use form='redo', or give it one."
        )
    places = dormant.cpu()
    mean, variance = moments.mean[places], moments.variance
    if not (variance[places] > 0).all():
        raise ParameterError(
            f"inputs of {source} are the same for all of the data, so no weights make "
            "its units fire on half of it. Give more data, or mend the layers below."
        )
    alive = variance[~places]
    target = alive.mean() if bool((alive > 0).any()) else torch.tensor(1.0)
    scale = (target / variance[places]).sqrt()
    weight, bias = module.weight, module.bias
    column = scale.view(-1, *[1] * (weight.ndim - 1))
    weight[dormant] = (weight[dormant].double().cpu() * column).to(weight)
    bias[dormant] = ((bias[dormant].double().cpu() - mean) * scale).to(bias)


def _forget(optimizer: Any, pair: Pair, dormant: Tensor) -> None:
    """Set the state of an optimiser for new weights to 0."""
    assert pair.second is not None
    norms = [link.module for link in pair.between if link.is_any(NORMS)]
    for module in (pair.first.module, *norms):
        for parameter in (module.weight, module.bias):
            for values in _states(optimizer, parameter):
                values[dormant] = 0
    for values in _states(optimizer, pair.second.module.weight):
        pair.outgoing(values)[:, dormant] = 0


def _states(optimizer: Any, parameter: Any) -> list[Tensor]:
    if parameter is None:
        return []
    state = optimizer.state.get(parameter, {}).values()
    return [v for v in state if isinstance(v, Tensor) and v.shape == parameter.shape]
