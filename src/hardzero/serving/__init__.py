"""Trained networks without the estimator: predict, save to a file, load from one."""

from hardzero.serving.convert import from_sklearn, from_torch, to_sklearn, to_torch
from hardzero.serving.files import load, save
from hardzero.serving.model import StackModel

__all__ = [
    "StackModel",
    "from_sklearn",
    "from_torch",
    "load",
    "save",
    "to_sklearn",
    "to_torch",
]
