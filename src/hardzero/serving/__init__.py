"""Trained networks without the estimator: predict, save to a file, load from one."""

from hardzero.serving.files import load, save
from hardzero.serving.model import StackModel

__all__ = ["StackModel", "load", "save"]
