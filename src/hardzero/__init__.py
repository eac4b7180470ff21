"""Deep sparse rectifier networks, whose hidden units output exact zeros.

Public names load on first use, so that ``import hardzero`` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardzero import activations, datasets, theory
    from hardzero.diagnostics import callbacks, remedies
    from hardzero.diagnostics.diagnose import diagnose
    from hardzero.diagnostics.finding import Diagnosis, Finding
    from hardzero.diagnostics.investigate import investigate
    from hardzero.diagnostics.watch import watch
    from hardzero.errors import (
        BudgetError,
        DataError,
        DeadUnitWarning,
        DivergenceError,
        HardzeroError,
        ParameterError,
    )
    from hardzero.estimators.classifier import RectifierClassifier
    from hardzero.estimators.denoising import DenoisingAutoencoder
    from hardzero.estimators.rating import RatingRegressor
    from hardzero.estimators.recipes import glorot2011
    from hardzero.estimators.regressor import RectifierRegressor
    from hardzero.results import FitHistory
    from hardzero.serving.convert import from_sklearn, from_torch, to_sklearn, to_torch
    from hardzero.serving.files import load, save
    from hardzero.serving.model import StackModel
    from hardzero.significance import ErrorComparison, compare_errors
    from hardzero.stack import Layer, RectifierStack

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "DataError",
    "DeadUnitWarning",
    "DenoisingAutoencoder",
    "Diagnosis",
    "DivergenceError",
    "ErrorComparison",
    "Finding",
    "FitHistory",
    "HardzeroError",
    "Layer",
    "ParameterError",
    "RatingRegressor",
    "RectifierClassifier",
    "RectifierRegressor",
    "RectifierStack",
    "StackModel",
    "activations",
    "callbacks",
    "compare_errors",
    "datasets",
    "diagnose",
    "from_sklearn",
    "from_torch",
    "glorot2011",
    "investigate",
    "load",
    "remedies",
    "save",
    "theory",
    "to_sklearn",
    "to_torch",
    "watch",
]

_MODULES = {
    "activations": "activations",
    "callbacks": "diagnostics.callbacks",
    "datasets": "datasets",
    "remedies": "diagnostics.remedies",
    "theory": "theory",
}
_HOMES = {
    "BudgetError": "errors",
    "DataError": "errors",
    "DeadUnitWarning": "errors",
    "DenoisingAutoencoder": "estimators.denoising",
    "Diagnosis": "diagnostics.finding",
    "DivergenceError": "errors",
    "ErrorComparison": "significance",
    "Finding": "diagnostics.finding",
    "FitHistory": "results",
    "HardzeroError": "errors",
    "Layer": "stack",
    "ParameterError": "errors",
    "RatingRegressor": "estimators.rating",
    "RectifierClassifier": "estimators.classifier",
    "RectifierRegressor": "estimators.regressor",
    "RectifierStack": "stack",
    "StackModel": "serving.model",
    "compare_errors": "significance",
    "diagnose": "diagnostics.diagnose",
    "from_sklearn": "serving.convert",
    "from_torch": "serving.convert",
    "glorot2011": "estimators.recipes",
    "investigate": "diagnostics.investigate",
    "load": "serving.files",
    "save": "serving.files",
    "to_sklearn": "serving.convert",
    "to_torch": "serving.convert",
    "watch": "diagnostics.watch",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"hardzero.{_MODULES[name]}")
    if name in _HOMES:
        value = getattr(import_module(f"hardzero.{_HOMES[name]}"), name)
        globals()[name] = value  # from now on an ordinary attribute
        return value
    raise AttributeError(f"module 'hardzero' has no attribute {name!r}")


def __dir__() -> list[str]:
    hidden = {"Any", "TYPE_CHECKING", "import_module"}
    return sorted({*globals(), *__all__} - hidden)
