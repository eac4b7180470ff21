"""Models of other kinds, read into whole numbers and written back in floats."""

import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hardzero.errors import ParameterError
from hardzero.stack import Layer, RectifierStack
from hardzero.theory.rational import Builder, RationalNetwork, rational_layers

__all__ = ["as_network", "as_stack", "stack_of"]


def as_network(model: Any) -> RationalNetwork:
    """Read a model exactly: each of its floats is the dyadic rational that it is.

    Parameters
    ----------
    model : object
        A `RationalNetwork`, a `RectifierStack`, a `StackModel`, a fitted estimator of
        hardzero, a fitted ``MLPClassifier`` or ``MLPRegressor``, or a
        ``torch.nn.Sequential`` of Linear, ReLU, LeakyReLU, PReLU, ReLU6, Hardtanh from
        0 on, Flatten and Dropout. Softmax or sigmoid at the end are left out: outputs
        are those before the output link.

    Returns
    -------
    RationalNetwork
        The function that the model's weights define. What the model computes in floats
        differs from it by rounding only.

    Raises
    ------
    ParameterError
        If the model is none of these, or has activations that are not piecewise linear
        or a normalisation, which cannot be folded into weights without rounding.
    """
    if isinstance(model, RationalNetwork):
        return model
    stack = stack_of(model)
    builder = Builder()
    for number, layer in enumerate(stack.layers, start=1):
        rows = np.vstack([layer.W, layer.b]).T
        builder.add(number, *_dyadic(rows), layer.activation, layer.slopes, layer.signs)
    return builder.finish()


def stack_of(model: Any) -> RectifierStack:
    """Return the stack of a model, as `as_network` reads it.

    Parameters
    ----------
    model : object
        Any model that `as_network` reads but a RationalNetwork.

    Returns
    -------
    RectifierStack
        Its layers.

    Raises
    ------
    ParameterError
        If the model is none of these, or has a normalisation.
    """
    if isinstance(model, RectifierStack):
        return model
    for name in ("stack", "stack_"):
        stack = getattr(model, name, None)
        if isinstance(stack, RectifierStack):
            return stack
    origins = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if "torch" in origins:
        from hardzero.serving.convert import from_torch

        if any(parameter.is_meta for parameter in model.parameters()):
            raise ParameterError(
                "the model's parameters are on the meta device and hold no numbers. "
                "Load its weights first."
            )
        for place, module in model.named_modules():
            if "Norm" in type(module).__name__:
                raise ParameterError(
                    f"module {place!r} is a {type(module).__name__}, which cannot be "
                    "folded into weights without rounding. Fold it yourself: give "
                    "hardzero.from_torch(network).stack, which is then the network "
                    "that the answers are about."
                )
        return from_torch(model).stack
    if hasattr(model, "coefs_") and hasattr(model, "intercepts_"):
        from hardzero.serving.convert import from_sklearn

        return from_sklearn(model).stack
    hint = ""
    if isinstance(model, (str, os.PathLike)):
        hint = " Read files with hardzero.load, or theory.load_network for .json."
    elif "sklearn" in origins and hasattr(model, "steps"):
        hint = (
            " Scalers cannot be folded into weights without rounding. Fold them "
            "yourself: give hardzero.StackModel.of(pipeline), which is then the "
            "network that the answers are about, or give the last step alone."
        )
    elif "sklearn" in origins or hasattr(model, "fit"):
        hint = " An estimator must be fitted: call fit first."
    raise ParameterError(
        f"the model is a {type(model).__name__}, expected a RectifierStack, a "
        "StackModel, a fitted estimator, a torch.nn.Sequential, a fitted MLPClassifier "
        f"or MLPRegressor, or what theory.rational_network returns.{hint}"
    )


def _dyadic(rows: npt.NDArray[Any]) -> tuple[list[list[int]], int]:
    """Return floats times a power of two, as whole numbers, and that power."""
    mantissas, exponents = np.frexp(rows.astype(np.float64))
    digits = np.ldexp(mantissas, 53).astype(np.int64)
    shifts = np.where(digits == 0, 0, exponents - 53)
    lowest = min(int(shifts.min()), 0)
    places = (shifts - lowest).tolist()
    whole = [
        [a << place for a, place in zip(*pair, strict=True)]
        for pair in zip(digits.tolist(), places, strict=True)
    ]
    return whole, 1 << -lowest


def as_stack(model: Any, *, rounding: bool = False) -> RectifierStack:
    """Return a network in float64, as other tools want it.

    Parameters
    ----------
    model : object
        Any model that `as_network` reads; its units are affine, rectifiers, leaky ones,
        or absolute values.
    rounding : bool, default=False
        Whether weights that are no floats may be rounded to the nearest one.

    Returns
    -------
    RectifierStack
        With identity, rectifier, or, where units of a layer differ, PReLU layers.

    Raises
    ------
    ParameterError
        If the model cannot be read, a weight is no float64 and `rounding` is False, one
        is too large, or a unit is a maximum of other pieces.
    """
    layers = []
    for number, units in enumerate(rational_layers(as_network(model)), start=1):
        leaky = [_leaky(number, j, unit) for j, unit in enumerate(units)]
        what = f"layer {number} has"
        W = [[_float(w, what, rounding) for w in row[:-1]] for _, row, _ in leaky]
        b = [_float(row[-1], what, rounding) for _, row, _ in leaky]
        slopes = [_float(slope, what, rounding) for slope, _, _ in leaky]
        signs = [sign for _, _, sign in leaky]
        kind = "prelu"
        if all(slope == 1 for slope in slopes):
            kind = "identity"
        elif not any(slopes):
            kind = "rectifier"
        layers.append(
            Layer(
                np.array(W).T,
                b,
                kind,
                signs if -1 in signs else None,
                slopes if kind == "prelu" else None,
            )
        )
    return RectifierStack(tuple(layers))


def _leaky(
    number: int, unit: int, pieces: Sequence[Sequence[Fraction]]
) -> tuple[Fraction, Sequence[Fraction], int]:
    """Return c, a and a sign for a unit sign * (a if a > 0, else c a)."""
    *others, row = pieces
    if not others:
        return Fraction(1), row, 1
    lead = next((i for i, a in enumerate(row) if a), None)
    if len(others) == 1:
        slope = Fraction(0) if lead is None else others[0][lead] / row[lead]
        if list(others[0]) == [slope * a for a in row]:
            if slope <= 1:
                return slope, row, 1
            return slope, [-a for a in row], -1
    raise ParameterError(
        f"unit {unit} of layer {number} is a maximum of {len(pieces)} pieces, expected "
        "rectifiers, leaky ones or absolute values: a RectifierStack has no others."
    )


def _float(value: Fraction, what: str, rounding: bool) -> float:
    try:
        number = float(value)
    except OverflowError:
        raise ParameterError(
            f"{what} a number of {int(abs(value)).bit_length()} bits, too large for "
            "float64. Rescale the network."
        ) from None
    if not rounding and Fraction(number) != value:
        raise ParameterError(
            f"{what} the number {value}, which is no float64. Allow rounding, and the "
            "outputs differ a little, or keep the network in rationals."
        )
    return number
