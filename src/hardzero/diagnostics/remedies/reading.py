"""Data of any form that `diagnose` takes, as a list of inputs of a model."""

from typing import Any

import torch
from torch import nn

from hardzero.diagnostics.diagnose import each_batch
from hardzero.errors import ParameterError

__all__ = ["read_inputs", "read_tensors"]


def read_inputs(model: nn.Module, data: Any) -> list[Any]:
    """Return the inputs in data, batch by batch.

    Parameters
    ----------
    model : Module
        Its dtype is what arrays become.
    data : DataLoader, tuple or array
        Batches of inputs or of (input, target), or (X, y), or X.

    Returns
    -------
    list
        One entry for each batch. It is kept in memory, as it is run several times.

    Raises
    ------
    ParameterError
        If there are none.
    """
    found = [inputs for inputs, _ in each_batch(model, data)]
    if not found:
        raise ParameterError("data has no batches. Give at least one example.")
    return found


def read_tensors(model: nn.Module, data: Any) -> list[Any]:
    """Return the inputs in data, each of which is one tensor.

    Parameters
    ----------
    model : Module
        Its dtype is what arrays become.
    data : DataLoader, tuple or array
        Batches of inputs or of (input, target), or (X, y), or X.

    Returns
    -------
    list of Tensor
        One entry for each batch.

    Raises
    ------
    ParameterError
        If there are none, or they are anything else.
    """
    found = read_inputs(model, data)
    for inputs in found:
        if not isinstance(inputs, torch.Tensor):
            raise ParameterError(
                f"inputs are {type(inputs).__name__}, expected tensors: a chain of "
                "layers takes one. Give batches of (input, target)."
            )
    return found
