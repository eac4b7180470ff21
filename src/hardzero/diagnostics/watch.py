"""Watch a training while it goes on."""

from typing import TYPE_CHECKING, Any

from hardzero.diagnostics.pytorch import require_pytorch
from hardzero.errors import ParameterError

if TYPE_CHECKING:
    from hardzero.diagnostics.monitor import Watch

__all__ = ["watch"]


def watch(
    model: Any, optimizer: Any = None, *, every: int = 10, probe: Any = None
) -> "Watch":
    """Watch a training: ``with hardzero.watch(model) as watch:`` around any code.

    Units of rectifiers that are modules are counted in each update, exactly; what takes
    longer (norms of gradients, and units of rectifiers that are function calls) once in
    `every` updates, and what takes longer still (norms and changes of weights, sizes
    and ranks of signals) once in 8 times as many. The training is the same bit for bit
    as without.

    Parameters
    ----------
    model : Module
        The model that is trained. Passes in evaluation mode or without gradients do not
        count.
    optimizer : Optimizer, optional
        Its steps are the updates. None means any optimizer that holds parameters of the
        model.
    every : int, default=10
        Updates from one measurement to the next. Times of death are known this exactly.

    probe : Tensor, tuple or dict, optional
        Inputs of the model. Once in 8 blocks it runs on them in evaluation mode, to see
        how many units went on or off since the last time: the stability of the set of
        active units.

    Returns
    -------
    Watch
        A context manager; print it, take its `records`, or call its `diagnose`.

    Raises
    ------
    ParameterError
        If PyTorch is not installed, or an argument cannot be used.

    Examples
    --------
    >>> import torch, hardzero
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU())
    >>> optimizer = torch.optim.SGD(model.parameters(), 0.1)
    >>> with hardzero.watch(model) as watch:
    ...     for _ in range(20):
    ...         optimizer.zero_grad()
    ...         model(torch.randn(16, 2)).square().mean().backward()
    ...         optimizer.step()
    >>> watch.n_updates
    20
    """
    torch = require_pytorch("watch")
    from hardzero.diagnostics.monitor import Watch

    if not isinstance(model, torch.nn.Module):
        raise ParameterError(
            f"model is a {type(model).__name__}, expected the torch.nn.Module that is "
            "trained."
        )
    if optimizer is not None and not hasattr(optimizer, "register_step_pre_hook"):
        raise ParameterError(
            f"optimizer is a {type(optimizer).__name__}, expected a torch Optimizer, "
            "or None for any that holds parameters of the model."
        )
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ParameterError(f"every is {every!r}, expected a whole number from 1 on.")
    return Watch(model, optimizer, every, probe)
