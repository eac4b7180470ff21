"""What may be the cause of a trouble, and the change to a training that tests it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["SUSPECTS", "CannotBeTestedError", "Setup", "Suspect"]

_RATES: Final = frozenset({"lr", "learning_rate", "learning_rate_init", "eta", "eta0"})
_PENALTIES: Final = frozenset(
    {
        *("weight_decay", "wd", "l1", "l2", "l1_penalty", "l2_penalty", "penalty"),
        *("weight_penalty", "activity_penalty", "activation_penalty"),
    }
)
_SAME: Final = 0.2  # scales that differ by less are the same


class CannotBeTestedError(Exception):
    """Why a suspect cannot be tested: nothing here that could be changed."""


@dataclass
class Setup:
    """What a run of a training starts from; a change is made to it in place.

    Parameters
    ----------
    model : Module
        The model before training.
    X, y : array or Tensor
        The data.
    settings : dict
        What the training reads.
    rectified_output : str or None
        Name of the module that rectifies the output, if one does.
    """

    model: nn.Module
    X: Any
    y: Any
    settings: dict[str, Any]
    rectified_output: str | None = None


@dataclass(frozen=True)
class Suspect:
    """A possible cause.

    Parameters
    ----------
    name : str
        Such as "learning rate".
    change : callable
        Changes a setup and says how, or raises `CannotBeTestedError`.
    cause : str
        What is true if the change cures.
    remedy : str
        What to do then.
    unless : tuple of str
        Names of suspects whose proof makes this one needless.
    """

    name: str
    change: Callable[[Setup], str]
    cause: str
    remedy: str
    unless: tuple[str, ...] = ()


def _rate_times(factor: float) -> Callable[[Setup], str]:
    return lambda setup: _change_settings(
        setup, _RATES, "lr, learning_rate", lambda rate: rate * factor
    )


def _no_penalty(setup: Setup) -> str:
    return _change_settings(setup, _PENALTIES, "weight_decay, l1, l2", lambda _: 0.0)


def _change_settings(
    setup: Setup, names: frozenset[str], example: str, new: Callable[[Any], Any]
) -> str:
    known = [name for name in setup.settings if str(name).lower() in names]
    if not known:
        raise CannotBeTestedError(
            f"settings have no {example} or the like, which train would read"
        )
    changes = []
    for name in known:
        value = setup.settings[name]
        if isinstance(value, Real) and value:
            setup.settings[name] = new(value)
            changes.append(f"{name}={setup.settings[name]:.4g} instead of {value:.4g}")
    if not changes:
        values = ", ".join(f"{name}={setup.settings[name]!r}" for name in known)
        raise CannotBeTestedError(f"no number other than 0 in settings: {values}")
    return ", ".join(changes)


def _no_last_rectifier(setup: Setup) -> str:
    place = setup.rectified_output
    if place is None:
        raise CannotBeTestedError("the output is not rectified")
    module = dict(setup.model.named_modules()).get(place)
    if not isinstance(module, (nn.ReLU, nn.ReLU6)):
        raise CannotBeTestedError(
            f"the output is rectified by a call in forward ({place}), which only you "
            "can take out"
        )
    parent, _, name = place.rpartition(".")
    setattr(setup.model.get_submodule(parent), name, nn.Identity())
    return f"rectifier {place} at the output removed"


def _zero_biases(setup: Setup) -> str:
    biases = [
        value
        for module in _layers(setup.model)
        for name, value in _own_parameters(module)
        if "bias" in name and bool(value.any())
    ]
    if not biases:
        raise CannotBeTestedError("no layer has biases other than 0")
    with torch.no_grad():
        for bias in biases:
            bias.zero_()
    return f"{len(biases)} biases start at 0"


def _zero_shifts(setup: Setup) -> str:
    modules = [m for m in setup.model.modules() if _is_normalisation(m)]
    if not modules:
        raise CannotBeTestedError("the model has no normalisation layer")
    shifts = [
        value
        for module in modules
        for name, value in _own_parameters(module)
        if name == "bias" and bool(value.any())
    ]
    if not shifts:
        raise CannotBeTestedError("normalisation layers start with a shift of 0")
    with torch.no_grad():
        for shift in shifts:
            shift.zero_()
    return f"shifts of {len(shifts)} normalisation layers start at 0"


def _standard_inputs(setup: Setup) -> str:
    if any(
        isinstance(m, (nn.Embedding, nn.EmbeddingBag)) for m in setup.model.modules()
    ):
        raise CannotBeTestedError("inputs are numbers of embeddings, not values")
    X = setup.X
    if not isinstance(X, (Tensor, np.ndarray)):
        raise CannotBeTestedError(
            f"X is a {type(X).__name__}, which is not centred; only arrays and tensors"
        )
    values = torch.as_tensor(X)
    if not values.is_floating_point():
        values = values.float()
    if not bool(values.isfinite().all()):
        raise CannotBeTestedError("X holds NaN or infinity")
    # A feature has a column of its own; pixels and time steps share a scale.
    of = 0 if values.ndim == 2 else tuple(range(values.ndim))
    wide = values.cpu().double()
    mean, deviation = wide.mean(of), wide.std(of, correction=0)
    if bool((mean.abs() < _SAME).all()) and bool(_are_one(deviation).all()):
        raise CannotBeTestedError("inputs are standardised already")
    deviation = torch.where(deviation > 0, deviation, 1.0)
    scaled = ((wide - mean) / deviation).to(values.device, values.dtype)
    setup.X = scaled if isinstance(X, Tensor) else scaled.numpy()
    return "inputs standardised"


def _he_weights(setup: Setup) -> str:
    weights = _weights(setup.model)
    if not weights:
        raise CannotBeTestedError("the model has no layer with weights")
    if all(bool(_are_one(_scale(w))) for w in weights):
        raise CannotBeTestedError("weights have the scale of He's initialisation")
    # A generator of its own: training then draws what it drew without the change.
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in weights:
            drawn = torch.randn(weight.shape, generator=generator)
            weight.copy_(drawn * math.sqrt(2 / _fan_in(weight)))
    return f"He's initialisation of {len(weights)} layers"


def _balanced_layers(setup: Setup) -> str:
    layers = [
        (module, weight)
        for module in _layers(setup.model)
        for name, weight in _own_parameters(module)
        if name == "weight" and weight.ndim >= 2
    ]
    if len(layers) < 2:
        raise CannotBeTestedError("the model has fewer than two layers with weights")
    scales = torch.stack([_scale(weight) for _, weight in layers])
    if not bool((scales.isfinite() & (scales > 0)).all()):
        raise CannotBeTestedError("a layer has weights that are all the same")
    common = scales.log().mean().exp()
    if bool(_are_one(scales / common).all()):
        raise CannotBeTestedError("all layers have the same scale already")
    passed = 1.0  # by how much the layers so far change their outputs
    with torch.no_grad():
        for (module, weight), scale in zip(layers, scales, strict=True):
            factor = float(common / scale)
            passed *= factor
            weight.mul_(factor)
            bias = getattr(module, "bias", None)
            if isinstance(bias, Tensor):
                bias.mul_(passed)
    return (
        f"{len(layers)} layers start with one scale, {common:.2g} of He's, instead of "
        f"{scales.min():.2g} to {scales.max():.2g}"
    )


def _layers(model: nn.Module) -> Iterator[nn.Module]:
    """Yield modules that are neither normalisations nor embeddings."""
    for module in model.modules():
        if not _is_normalisation(module) and not isinstance(
            module, (nn.Embedding, nn.EmbeddingBag)
        ):
            yield module


def _is_normalisation(module: nn.Module) -> bool:
    return "Norm" in type(module).__name__


def _own_parameters(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters of a module itself that have values already."""
    for name, value in module.named_parameters(recurse=False):
        if not nn.parameter.is_lazy(value) and value.numel():
            yield name, value.detach()


def _weights(model: nn.Module) -> list[Tensor]:
    return [
        value
        for module in _layers(model)
        for name, value in _own_parameters(module)
        if value.ndim >= 2 and "bias" not in name
    ]


def _scale(weight: Tensor) -> Tensor:
    """Return the standard deviation of weights, relative to He's."""
    return weight.cpu().double().std(correction=0) * math.sqrt(_fan_in(weight) / 2)


def _fan_in(weight: Tensor) -> int:
    return int(weight[0].numel())


def _are_one(values: Tensor) -> Tensor:
    return (values - 1).abs() < _SAME


# In the order in which they are tested; what is decided by one look comes first.
SUSPECTS: Final = (
    Suspect(
        "rectifier at the output",
        _no_last_rectifier,
        "The rectifier at the output cuts values and gradients off.",
        "Take the rectifier off the last layer.",
    ),
    Suspect(
        "learning rate",
        _rate_times(0.1),
        "The learning rate is too high.",
        "Train with a tenth of the learning rate, or warm up to it.",
    ),
    Suspect(
        "learning rate",
        _rate_times(0.01),
        "The learning rate is far too high.",
        "Train with a hundredth of the learning rate, and warm up to more.",
        unless=("learning rate",),
    ),
    Suspect(
        "penalty",
        _no_penalty,
        "The penalty outweighs the loss.",
        "Lower the penalty by powers of ten, or leave it out.",
    ),
    Suspect(
        "biases",
        _zero_biases,
        "The initial biases keep the network from learning.",
        "Start with biases of 0.",
    ),
    Suspect(
        "scale of the inputs",
        _standard_inputs,
        "The inputs are not scaled.",
        "Standardise the inputs, such as by StandardScaler, also for predictions.",
    ),
    Suspect(
        "initial weights",
        _he_weights,
        "The initial weights have the wrong scale.",
        "Initialise by torch.nn.init.kaiming_normal_.",
    ),
    Suspect(
        "normalisation shift",
        _zero_shifts,
        "The initial shift of normalisation layers keeps units from firing.",
        "Start with a shift, the bias of normalisation layers, of 0.",
    ),
    Suspect(
        "balance of the layers",
        _balanced_layers,
        "The initial weights of some layers are much larger than those of others, so "
        "that one learning rate does not fit all.",
        "Start with the same scale in all layers, such as by "
        "torch.nn.init.kaiming_normal_.",
    ),
    Suspect(
        "low learning rate",
        _rate_times(10),
        "The learning rate is too low.",
        "Train with ten times the learning rate, or longer.",
        unless=("learning rate",),
    ),
    Suspect(
        "low learning rate",
        _rate_times(100),
        "The learning rate is far too low.",
        "Train with a hundred times the learning rate.",
        unless=("learning rate", "low learning rate"),
    ),
)
"""What `hardzero.investigate` tests, in this order."""
