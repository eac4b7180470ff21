"""PyTorch, which is optional, for functions that cannot do without."""

from importlib import import_module
from typing import Any

from hardzero.errors import ParameterError

__all__ = ["require_pytorch"]


def require_pytorch(what: str) -> Any:
    """Return the module.

    Parameters
    ----------
    what : str
        What needs it, for the error.

    Returns
    -------
    module
        ``torch``.

    Raises
    ------
    ParameterError
        If it is not installed.
    """
    try:
        return import_module("torch")
    except ImportError:
        raise ParameterError(
            f"{what} needs PyTorch, which is not installed. Run pip install "
            "'hardzero[torch]'."
        ) from None
