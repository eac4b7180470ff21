"""A model as a chain of layers: which weights make a unit, and which ones read it.

Only types that are known by name are seen through. A subclass may compute anything, and
so may a hook.
"""

from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor, nn

from hardzero.diagnostics.remedies.tracing import trace_chain
from hardzero.errors import ParameterError

__all__ = [
    "AVERAGES",
    "CONVOLUTIONS",
    "LINEAR_MAPS",
    "NEUTRAL",
    "NORMS",
    "POOLS",
    "RECTIFIERS",
    "Link",
    "Pair",
    "links",
    "pairs",
]

CONVOLUTIONS: Final = frozenset({nn.Conv1d, nn.Conv2d, nn.Conv3d})
LINEAR_MAPS: Final = CONVOLUTIONS | {nn.Linear}
NORMS: Final = frozenset({nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d})
RECTIFIERS: Final = frozenset({nn.ReLU, nn.ReLU6})
NEUTRAL: Final = frozenset(
    {nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d}
)
AVERAGES: Final = frozenset(
    [
        nn.AvgPool1d,
        nn.AvgPool2d,
        nn.AvgPool3d,
        nn.AdaptiveAvgPool1d,
        nn.AdaptiveAvgPool2d,
        nn.AdaptiveAvgPool3d,
    ]
)
POOLS: Final = AVERAGES | {
    nn.MaxPool1d,
    nn.MaxPool2d,
    nn.MaxPool3d,
    nn.AdaptiveMaxPool1d,
    nn.AdaptiveMaxPool2d,
    nn.AdaptiveMaxPool3d,
}
_BY_UNIT: Final = (
    RECTIFIERS
    | NEUTRAL
    | {
        nn.LeakyReLU,
        nn.PReLU,
        nn.RReLU,
        nn.ELU,
        nn.CELU,
        nn.SELU,
        nn.GELU,
        nn.SiLU,
        nn.Mish,
        nn.Softplus,
        nn.Softsign,
        nn.Tanh,
        nn.Sigmoid,
        nn.Hardtanh,
        nn.Hardsigmoid,
        nn.Hardswish,
        nn.LogSigmoid,
    }
)


@dataclass(frozen=True)
class Link:
    """One layer of a chain.

    Parameters
    ----------
    name : str
        Its name in the model.
    module : Module
        The layer.
    """

    name: str
    module: Any

    def __str__(self) -> str:
        return f"layer {self.name!r} ({type(self.module).__name__})"

    def is_any(self, types: frozenset[Any]) -> bool:
        """Return whether it is of one of some types, subclasses not counted.

        Parameters
        ----------
        types : frozenset of type
            The types.

        Returns
        -------
        bool
            Whether it is.
        """
        return type(self.module) in types


@dataclass(frozen=True)
class Pair:
    """A linear map, what reads it, and what lies between.

    Parameters
    ----------
    first : Link
        Makes the units: a linear layer or a convolution.
    between : tuple of Link
        All layers up to the next linear map, or to the end.
    second : Link or None
        The next linear map; None at the end.
    place : int
        Place of the first map in the chain.
    """

    first: Link
    between: tuple[Link, ...]
    second: Link | None
    place: int

    @property
    def n_units(self) -> int:
        """Number of units, which are channels after a convolution."""
        return len(self.first.module.weight)

    def obstacle(self) -> str | None:
        """Say why a unit cannot be followed from the first map to the second.

        Returns
        -------
        str or None
            What is in the way; None if nothing is.
        """
        is_flat = False
        is_image = self.first.is_any(CONVOLUTIONS)
        for link in self.between:
            module = link.module
            if link.is_any(NORMS):
                if module.num_features != self.n_units or is_flat:
                    return f"{link} does not normalise the units of {self.first}"
            elif link.is_any(POOLS):
                if is_flat or not is_image or getattr(module, "return_indices", False):
                    return f"{link} does not pool channel by channel"
            elif type(module) is nn.PReLU:
                if module.num_parameters != 1 and is_flat:
                    return f"{link} has slopes for positions"
            elif type(module) is nn.Flatten:
                if (module.start_dim, module.end_dim) != (1, -1):
                    return f"{link} does not flatten whole examples"
                is_flat = True
            elif not link.is_any(_BY_UNIT):
                return f"{link} is not seen through"
        if self.second is None:
            return "no linear layer or convolution follows"
        if self.second.is_any(CONVOLUTIONS):
            if not is_image or is_flat:
                return f"{self.second} does not read the units of {self.first}"
            if self.second.module.groups != 1:
                return f"{self.second} is a grouped convolution"
            fits = self.second.module.in_channels == self.n_units
        elif is_image:
            fits = is_flat and self.second.module.in_features % self.n_units == 0
        else:
            fits = self.second.module.in_features == self.n_units
        if not fits:
            return f"{self.second} does not read the units of {self.first}"
        return None

    def by_unit(self, h: Tensor) -> Tensor | None:
        """Return a signal between the two maps by the unit that it belongs to.

        Parameters
        ----------
        h : Tensor of shape (n_examples, ...)
            What a layer between the two takes or gives.

        Returns
        -------
        Tensor of shape (n_examples, n_units, n_positions) or None
            None if its shape does not tell.
        """
        if not self.first.is_any(CONVOLUTIONS):
            if h.shape[-1] != self.n_units:
                return None
            return h.movedim(-1, 1).reshape(len(h), self.n_units, -1)
        if h[0].numel() % self.n_units:
            return None
        return h.reshape(len(h), self.n_units, -1)

    def outgoing(self, weights: Tensor) -> Tensor:
        """Return the weights of the second map by the unit that they read.

        Parameters
        ----------
        weights : Tensor
            Of the second map, or what has their shape.

        Returns
        -------
        Tensor of shape (n_outputs, n_units, n_positions)
            A view.
        """
        return weights.view(len(weights), self.n_units, -1)


def links(model: nn.Module) -> list[Link]:
    """Return the layers of a chain, those of chains within it put in their place.

    Parameters
    ----------
    model : Module
        A Sequential, or a model of another class whose forward method runs one layer
        after the other.

    Returns
    -------
    list of Link
        In the order in which they run.

    Raises
    ------
    ParameterError
        If the model is no chain, uses a parameter twice, or has hooks.
    """
    _refuse_hooks(model)
    _refuse_shared(model)
    if type(model) is not nn.Sequential:
        return [Link(name, module) for name, module in trace_chain(model)]
    found: list[Link] = []
    _add_links(found, "", model)
    return found


def pairs(chain: list[Link]) -> list[Pair]:
    """Return each linear map with the next one.

    Parameters
    ----------
    chain : list of Link
        The layers.

    Returns
    -------
    list of Pair
        One for each linear map.
    """
    places = [i for i, link in enumerate(chain) if link.is_any(LINEAR_MAPS)]
    ends = [*places[1:], len(chain)]
    return [
        Pair(
            chain[start],
            tuple(chain[start + 1 : end]),
            chain[end] if end < len(chain) else None,
            start,
        )
        for start, end in zip(places, ends, strict=True)
    ]


def _refuse_hooks(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if module._forward_hooks or module._forward_pre_hooks:
            raise ParameterError(
                f"{Link(name, module)} has hooks, which may compute anything. Remove "
                "them first."
            )


def _refuse_shared(model: nn.Module) -> None:
    named = [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]
    places: dict[int, list[str]] = {}
    for name, values in named:
        places.setdefault(id(values), []).append(name)
    for names in places.values():
        if len(names) > 1:
            raise ParameterError(
                f"{' and '.join(map(repr, names))} are one and the same tensor. A "
                "change that suits one place would spoil the other; give each its own."
            )


def _add_links(found: list[Link], prefix: str, chain: nn.Module) -> None:
    for name, module in chain._modules.items():
        if type(module) is nn.Sequential:
            _add_links(found, f"{prefix}{name}.", module)
        else:
            found.append(Link(f"{prefix}{name}", module))
