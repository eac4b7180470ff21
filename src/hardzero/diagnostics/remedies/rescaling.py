"""Inputs on one scale, at no change of the function."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from hardzero.diagnostics.record import call_model, left_alone
from hardzero.diagnostics.remedies.chain import CONVOLUTIONS, LINEAR_MAPS, Link
from hardzero.diagnostics.remedies.constants import pads_zeros
from hardzero.diagnostics.remedies.moments import Moments
from hardzero.diagnostics.remedies.reading import read_inputs
from hardzero.errors import ParameterError

__all__ = ["Standardise", "rescale_inputs"]


def rescale_inputs(model: nn.Module, data: Any) -> nn.Module:
    """Standardise what goes into the first layer, and adapt the layer to that.

    The first linear layer or convolution that runs becomes a chain of two:
    `Standardise` with the mean and the standard deviation of each feature (channel, for
    a convolution) of the data, and the layer with its weights multiplied by the
    deviations and its bias moved. So the function stays as it is, up to rounding, in
    training and in evaluation, while gradients of the weights no longer go by the
    scales of features. Weights keep the size that they have on raw inputs: to draw new
    ones on the new scale, use `initialise`.

    A zero-padded convolution cannot absorb a shift, as its padding would no longer be
    zero: there inputs are only divided by their root mean square. Features that are
    constant in the data are shifted to 0 and not scaled.

    Parameters
    ----------
    model : Module
        Any model that calls such a layer.
    data : DataLoader, tuple or array
        Batches of inputs or of (input, target), or (X, y), or X.

    Returns
    -------
    Module
        A changed copy.

    Raises
    ------
    ParameterError
        If no linear layer or convolution runs; or the first one is of another class,
        parametrised, has hooks, or shares parameters; or inputs are not finite.
    """
    changed = copy.deepcopy(model)
    inputs = read_inputs(model, data)
    with torch.no_grad():
        link, moments = _first_inputs(changed, inputs)
        _check(changed, link)
        if not bool(torch.isfinite(moments.mean).all()):
            raise ParameterError(
                f"inputs of {link} are not all finite. Fill in or leave out missing "
                "values first."
            )
        pair = nn.Sequential(_standardise(link, moments), link.module)
    parent, _, leaf = link.name.rpartition(".")
    if not link.name:
        return pair
    setattr(changed.get_submodule(parent), leaf, pair)
    return changed


class Standardise(nn.Module):  # type: ignore[misc]  # PyTorch is not followed
    """Subtract a mean and divide by a scale.

    Parameters
    ----------
    mean : Tensor
        In a shape that broadcasts over inputs.
    scale : Tensor
        In the same shape.
    """

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    def forward(self, x: Tensor) -> Tensor:
        """Standardise inputs.

        Parameters
        ----------
        x : Tensor
            Inputs.

        Returns
        -------
        Tensor
            ``(x - mean) / scale``.
        """
        return (x - self.mean) / self.scale

    def extra_repr(self) -> str:
        """Say how many features there are.

        Returns
        -------
        str
            For ``repr``.
        """
        return f"n_features={self.scale.numel()}"


def _first_inputs(model: nn.Module, inputs: list[Any]) -> tuple[Link, Moments]:
    """Return the first linear map that runs, and the moments of what goes in."""
    first: list[Link] = []
    moments: list[Moments] = []

    def see(name: str, module: Any, x: Tensor) -> None:
        if not first:
            first.append(Link(name, module))
            moments.append(Moments(x.shape[_axis(module)]))
        if first[0].module is module:
            moments[0].add(x.movedim(_axis(module), -1).flatten(0, -2))

    with left_alone(model), _watching(model, see):
        for batch in inputs:
            call_model(model, batch)
    if not first:
        raise ParameterError(
            "no linear layer or convolution runs in the model, so nothing can absorb "
            "the scale of inputs. Standardise the data instead."
        )
    return first[0], moments[0]


@contextmanager
def _watching(model: nn.Module, see: Any) -> Iterator[None]:
    def hook(name: str) -> Any:
        return lambda module, args, kwargs: see(
            name, module, args[0] if args else kwargs["input"]
        )

    handles = [
        module.register_forward_pre_hook(hook(name), with_kwargs=True)
        for name, module in model.named_modules()
        if isinstance(module, (nn.Linear, _ConvNd))
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _axis(module: Any) -> int:
    """Return which axis of inputs counts features."""
    return 1 - int(module.weight.ndim)


def _check(model: nn.Module, link: Link) -> None:
    module = link.module
    reason = None
    if not link.is_any(LINEAR_MAPS):
        reason = "is no plain linear layer or convolution"
    elif module._forward_hooks or module._forward_pre_hooks:
        reason = "has hooks"
    else:
        own = {id(p) for p in module.parameters()}
        named = model.named_parameters(remove_duplicate=False)
        if sum(id(p) in own for _, p in named) > len(own):
            reason = "shares its parameters"
    if reason is not None:
        raise ParameterError(
            f"{link} runs first, but {reason}, so that new weights might not mean what "
            "they should. Standardise the data instead."
        )


def _standardise(link: Link, moments: Moments) -> Standardise:
    """Adapt a layer's weights, and return what has to come before it."""
    module = link.module
    weight = module.weight
    mean, variance = moments.mean, moments.variance
    if link.is_any(CONVOLUTIONS) and pads_zeros(module):
        mean, variance = torch.zeros_like(mean), variance + mean.square()
    mean, scale = mean.to(weight), variance.sqrt().to(weight)
    scale[scale == 0] = 1
    groups = getattr(module, "groups", 1)
    shape = [len(weight), -1, *[1] * (weight.ndim - 2)]
    per_row = (
        v.double().view(groups, 1, -1).expand(-1, len(weight) // groups, -1)
        for v in (mean, scale)
    )
    means, scales = (v.reshape(shape) for v in per_row)
    if bool(mean.any()):
        shift = (weight.double() * means).flatten(1).sum(1)
        old = 0 if module.bias is None else module.bias.double()
        trained = (
            weight.requires_grad if module.bias is None else module.bias.requires_grad
        )
        module.bias = nn.Parameter(
            (old + shift).to(weight.dtype), requires_grad=trained
        )
    weight.copy_(weight.double() * scales)
    place = [-1, *[1] * (weight.ndim - 2)]
    return Standardise(mean.view(place), scale.view(place))
