"""New weights that keep signals at one size from layer to layer."""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from hardzero.diagnostics.record import call_model, left_alone
from hardzero.diagnostics.remedies.chain import (
    RECTIFIERS,
    Pair,
    links,
    pairs,
)
from hardzero.diagnostics.remedies.moments import Moments
from hardzero.diagnostics.remedies.reading import read_inputs
from hardzero.diagnostics.sites import Call, watching_calls
from hardzero.errors import ParameterError

__all__ = ["initialise"]

Method = Literal["he", "lsuv"]

_RECTIFYING: Final = frozenset({"leaky_relu", "prelu", "rrelu"})
_TRIES: Final = 10  # as Mishkin and Matas
_TOLERANCE: Final = 0.01  # of the variance; theirs is 0.1


def initialise(
    model: nn.Module,
    method: Method = "he",
    data: Any = None,
    *,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Draw new weights for a network of rectifiers.

    Linear layers and convolutions, transposed ones too, get new weights and biases 0;
    normalisations become the identity. Other layers stay as they are.

    Parameters
    ----------
    model : Module
        The model: any with data, else a chain of layers.
    method : {"he", "lsuv"}, default="he"
        "he" draws normal weights of variance ``2 / ((1 + a**2) n_in)`` for layers that
        feed a rectifier with slope a on its other side, directly or through
        normalisation, dropout or pooling (He et al. 2015, equations 10 and 15), and
        uniform ones of variance ``2 / (n_in + n_out)`` for all others (Glorot and
        Bengio 2010, equation 16). "lsuv" draws orthogonal weights and scales layer
        after layer, in the order in which they run, until pre-activations have
        variance 1 over the data (Mishkin and Matas 2016, algorithm 1; without its
        batches: over all of the data).
    data : DataLoader, tuple or array, optional
        Batches of inputs or of (input, target), or (X, y), or X. With it, "he" finds
        what follows a layer by running the first batch: it is the next activation
        function before another layer runs.
    generator : Generator, optional
        Draws the weights; without it, PyTorch's own does.

    Returns
    -------
    Module
        A changed copy.

    Raises
    ------
    ParameterError
        If the method is unknown; "lsuv" has no data; "he" has none and the model is no
        chain of layers; a layer is parametrised; or signals do not vary.
    """
    if method not in ("he", "lsuv"):
        raise ParameterError(f"method is {method!r}, expected 'he' or 'lsuv'.")
    if method == "lsuv" and data is None:
        raise ParameterError(
            "method='lsuv' scales weights by the signals of data, but data is None. "
            "Give data, or take method='he'."
        )
    inputs = None if data is None else read_inputs(model, data)
    slopes = _slopes(model, inputs) if method == "he" else {}
    fresh = copy.deepcopy(model)
    with torch.no_grad():
        for name, module in fresh.named_modules():
            if isinstance(module, (nn.Linear, _ConvNd)):
                _check(name, module)
                draw = _orthogonal if method == "lsuv" else _he_or_glorot(slopes, name)
                module.weight.copy_(draw(module, generator).to(module.weight))
                if module.bias is not None:
                    module.bias.zero_()
            elif isinstance(module, (_NormBase, nn.LayerNorm, nn.GroupNorm)):
                module.reset_parameters()
        if method == "lsuv":
            assert inputs is not None
            for name in _order(fresh, inputs[:1]):
                _scale(fresh, name, inputs)
    return fresh


def _slopes(model: nn.Module, inputs: list[Any] | None) -> dict[str, float]:
    """Return the layers that feed a rectifier, and its slope on the other side."""
    if inputs is None:
        found = {pair.first.name: _slope_of(pair) for pair in pairs(links(model))}
        return {name: slope for name, slope in found.items() if slope is not None}
    slopes: dict[str, float] = {}
    last: list[str] = []

    def enter(name: str, _: Any) -> None:
        last[:] = [name]

    def seen(call: Call) -> None:
        slope = _slope_seen(call)
        if last and slope is not None:
            slopes[last[0]] = slope
        last.clear()

    with (
        torch.no_grad(),
        left_alone(model),
        _watching(model, enter),
        watching_calls(model, seen),
    ):
        call_model(model, inputs[0])
    return slopes


def _slope_of(pair: Pair) -> float | None:
    for link in pair.between:
        module = link.module
        if link.is_any(RECTIFIERS):
            return 0.0
        if type(module) is nn.LeakyReLU:
            return float(module.negative_slope)
        if type(module) is nn.PReLU:
            return float(module.weight.detach().mean())
        if type(module) is nn.RReLU:
            return (float(module.lower) + float(module.upper)) / 2
        home = type(module).__module__
        if home == "torch.nn.modules.activation":
            return None
        if not home.startswith("torch.nn."):
            raise ParameterError(
                f"{link} follows {pair.first}, and what it does shows only when it "
                "runs. Give data, one batch is enough."
            )
    return None


def _slope_seen(call: Call) -> float | None:
    if call.site.kind == "rectifier":
        return 0.0
    if call.site.function not in _RECTIFYING or call.before is None:
        return None
    below = call.before < 0
    if not bool(below.any()):
        return None
    return float((call.after[below] / call.before[below]).mean())


@contextmanager
def _watching(model: nn.Module, see: Callable[[str, Any], None]) -> Iterator[None]:
    """Report the outputs of linear maps while the block runs the model."""

    def hook(name: str) -> Any:
        return lambda _, __, output: see(name, output)

    handles = [
        module.register_forward_hook(hook(name))
        for name, module in model.named_modules()
        if isinstance(module, (nn.Linear, _ConvNd))
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _check(name: str, module: Any) -> None:
    if getattr(module, "parametrizations", None) or module._forward_pre_hooks:
        raise ParameterError(
            f"layer {name!r} ({type(module).__name__}) is parametrised or has hooks, "
            "which make its weights anew. Remove them first."
        )


def _fans(module: Any) -> tuple[float, float]:
    """Return how many inputs reach an output, and how many outputs an input."""
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    size = module.weight[0, 0].numel() / module.groups
    if isinstance(module, _ConvTransposeNd):  # strides spread inputs out
        n_in = module.in_channels * size / math.prod(module.stride)
        return n_in, module.out_channels * size
    return module.in_channels * size, module.out_channels * size


def _he_or_glorot(
    slopes: dict[str, float], name: str
) -> Callable[[Any, torch.Generator | None], Tensor]:
    def draw(module: Any, generator: torch.Generator | None) -> Tensor:
        n_in, n_out = _fans(module)
        values = _empty(module, generator)
        if name in slopes:
            spread = math.sqrt(2 / ((1 + slopes[name] ** 2) * n_in))
            return values.normal_(0, spread, generator=generator)
        bound = math.sqrt(6 / (n_in + n_out))
        return values.uniform_(-bound, bound, generator=generator)

    return draw


def _orthogonal(module: Any, generator: torch.Generator | None) -> Tensor:
    """Draw a matrix with orthonormal rows or columns (Saxe et al. 2014)."""
    values = _empty(module, generator).normal_(generator=generator)
    rows = values.flatten(1)
    is_wide = rows.shape[0] < rows.shape[1]
    q, r = torch.linalg.qr(rows.T if is_wide else rows)
    q = q * r.diagonal().sign()  # uniform over orthogonal matrices
    return (q.T if is_wide else q).reshape(values.shape)


def _empty(module: Any, generator: torch.Generator | None) -> Tensor:
    device = "cpu" if generator is None else generator.device
    return torch.empty(module.weight.shape, device=device)


def _order(model: nn.Module, inputs: list[Any]) -> list[str]:
    names: dict[str, None] = {}
    with left_alone(model), _watching(model, lambda name, _: names.setdefault(name)):
        for batch in inputs:
            call_model(model, batch)
    return list(names)


def _scale(model: nn.Module, name: str, inputs: list[Any]) -> None:
    """Give what a layer puts out variance 1 over all of the data."""
    module = model.get_submodule(name)
    for _ in range(_TRIES):
        variance = _variance(model, module, inputs)
        if not 0 < variance < math.inf:
            raise ParameterError(
                f"what layer {name!r} ({type(module).__name__}) puts out has variance "
                f"{variance:.3g} over the data, which no scale turns into 1. Look for "
                "constant or infinite inputs."
            )
        if abs(variance - 1) <= _TOLERANCE:
            break
        module.weight.div_(math.sqrt(variance))


def _variance(model: nn.Module, module: nn.Module, inputs: list[Any]) -> float:
    found = Moments(1)
    handle = module.register_forward_hook(
        lambda _, __, output: found.add(output.reshape(-1, 1))
    )
    try:
        with left_alone(model):
            for batch in inputs:
                call_model(model, batch)
    finally:
        handle.remove()
    return float(found.variance)
