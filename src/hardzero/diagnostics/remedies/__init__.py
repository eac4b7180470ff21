"""What to do about a PyTorch network that trains badly.

`rebalance`, `prune_dead` and `rescale_inputs` leave the function as it is; `revive`
leaves it on the data; `initialise` draws new weights. All return a changed copy and
leave the model alone, save `revive_`, which works in place, as underscores of PyTorch
say.

Names load on first use, as PyTorch is heavy and optional.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardzero.diagnostics.pytorch import require_pytorch

if TYPE_CHECKING:
    from hardzero.diagnostics.remedies.initialisation import initialise
    from hardzero.diagnostics.remedies.pruning import prune_dead
    from hardzero.diagnostics.remedies.rebalancing import rebalance
    from hardzero.diagnostics.remedies.rescaling import Standardise, rescale_inputs
    from hardzero.diagnostics.remedies.reviving import revive, revive_

__all__ = [
    "Standardise",
    "initialise",
    "prune_dead",
    "rebalance",
    "rescale_inputs",
    "revive",
    "revive_",
]

_HOMES = {
    "Standardise": "rescaling",
    "initialise": "initialisation",
    "prune_dead": "pruning",
    "rebalance": "rebalancing",
    "rescale_inputs": "rescaling",
    "revive": "reviving",
    "revive_": "reviving",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_pytorch(f"remedies.{name}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # from now on an ordinary attribute
    return value


def __dir__() -> list[str]:
    return list(__all__)
