"""Which axis of a tensor counts units, followed through a forward pass.

It is not guessed from shapes: a linear map puts units last, a convolution before its
positions, and everything else hands its input's axis on. Where an operation turns, adds
or drops axes, it is asked where they go: it runs once more, on a tensor without memory
whose strides or sizes are names of its axes.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

__all__ = ["Before", "UnitAxes", "mixes", "share_memory"]

_PRODUCTS: Final = {"matmul": 0, "mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
_NORMS: Final = frozenset({"layer_norm", "native_layer_norm"})
_LOOK_UPS: Final = frozenset({"embedding", "embedding_bag"})
_LAST: Final = frozenset(
    [
        *_PRODUCTS,
        *_NORMS,
        *_LOOK_UPS,
        "linear",
        "bilinear",
        "multi_head_attention_forward",
        "scaled_dot_product_attention",
        "rnn_relu",
        "rnn_tanh",
        "lstm",
        "gru",
        "rmatmul",
        "cdist",
    ]
)
_CONVOLUTIONS: Final = {
    f"conv{transpose}{n}d": n for transpose in ("", "_transpose") for n in (1, 2, 3)
}
_MIXING: Final = (_LAST | {*_CONVOLUTIONS, "convolution", "_convolution", "einsum"}) - (
    _NORMS | _LOOK_UPS
)
_RESHAPES: Final = frozenset(
    [
        "flatten",
        "ravel",
        "reshape",
        "reshape_as",
        "unflatten",
        "view",
        "view_as",
        "_unsafe_view",
        "_reshape_alias",
    ]
)
_JOINS: Final = frozenset({"cat", "concat", "concatenate"})
_FIRST_SIZE: Final = 64  # so that eight axes are not too many numbers


class Before:
    """What is known of a tensor before a call that may change it.

    Parameters
    ----------
    tensor : Tensor or None
        The first tensor that the call is given.
    axes : UnitAxes
        What is known so far.
    """

    def __init__(self, tensor: Tensor | None, axes: "UnitAxes") -> None:
        self.axis: int | None = None if tensor is None else axes.get(tensor)
        if tensor is not None and self.axis is not None:
            self.tensor = tensor
            self.shape = tuple(tensor.shape)
            is_strided = tensor.layout == torch.strided
            self.strides = tensor.stride() if is_strided else ()


class UnitAxes:
    """The axis of units of each tensor that a forward pass makes.

    Calls are handed to `follow` one after the other. Tensors that are gone are
    forgotten.
    """

    def __init__(self) -> None:
        self._axes: Any = WeakTensorKeyDictionary()

    def get(self, tensor: Tensor) -> int | None:
        """Return the axis that counts units.

        Parameters
        ----------
        tensor : Tensor
            Any tensor.

        Returns
        -------
        int or None
            From 0 on; None if it is not known.
        """
        axis: int | None = self._axes.get(tensor)
        return axis

    def follow(
        self, call: Any, name: str, args: Any, kwargs: Any, before: Before, out: Any
    ) -> None:
        """Keep which axis of a result counts units.

        Parameters
        ----------
        call : callable
            What was called.
        name : str
            Its name.
        args : tuple
            Its arguments.
        kwargs : dict
            Its arguments with names.
        before : Before
            The tensor that it was given first, as it was before.
        out : Tensor or sequence of Tensor
            What it returned.
        """
        for result in (out,) if isinstance(out, Tensor) else out:
            if not isinstance(result, Tensor):
                continue
            axis = self._axis(call, name, args, kwargs, before, result)
            if axis is not None and 0 <= axis < result.ndim:
                self._axes[result] = axis

    def _axis(
        self,
        call: Any,
        name: str,
        args: Any,
        kwargs: Any,
        before: Before,
        out: Tensor,
    ) -> int | None:
        name = _bare(name)
        last: int = out.ndim - 1
        if name in _LAST:
            first = _PRODUCTS.get(name)
            is_turned = first is not None and _has_weights_first(args[first:])
            return last - 1 if is_turned and last else last
        if name in _CONVOLUTIONS:
            return last - _CONVOLUTIONS[name]
        if name in {"convolution", "_convolution"}:
            return 1  # the operator below; it is given batches only
        if name == "einsum":
            return _of_einsum(args)
        if before.axis is not None:
            return _handed_on(call, name, args, kwargs, before, out)
        return self._of_others(name, args, kwargs, out)

    def _of_others(self, name: str, args: Any, kwargs: Any, out: Tensor) -> int | None:
        """Return the axis that other arguments tell, counted from the last one."""
        n_axes: int = out.ndim
        listed = [a for arg in args if isinstance(arg, (list, tuple)) for a in arg]
        for tensor in (*args, *kwargs.values(), *listed):
            if not isinstance(tensor, Tensor):
                continue
            axis = self.get(tensor)
            if axis is None:
                continue
            if name == "stack":
                place = kwargs.get("dim", args[1] if len(args) > 1 else 0)
                return axis + int(place % n_axes <= axis)
            if name in _JOINS or n_axes >= tensor.ndim:
                return axis + n_axes - int(tensor.ndim)
        return None


def _handed_on(
    call: Any, name: str, args: Any, kwargs: Any, before: Before, out: Tensor
) -> int | None:
    """Return where the axis of the first argument is in the result."""
    known, shape = before.axis, before.shape
    assert known is not None
    n_axes: int = out.ndim
    if out.layout != torch.strided or not before.strides:
        return known if n_axes == len(shape) else None
    if tuple(out.shape) == shape and out.stride() == before.strides:
        return known
    if name in _RESHAPES:
        return _of_reshape(shape, known, tuple(out.shape))
    is_view = out is before.tensor or share_memory(out, before.tensor)
    if is_view or n_axes < len(shape):
        names = _as_strides(shape) if is_view else _as_sizes(shape)
        moved = _asked(call, args, kwargs, before.tensor, *names)
        if moved is not None:
            found: Any = moved.stride() if is_view else tuple(moved.shape)
            name_of_axis = names[1 if is_view else 0][known]
            if found.count(name_of_axis) == 1:
                return int(found.index(name_of_axis))
        return known if n_axes == len(shape) else None
    return known + n_axes - len(shape)  # what it was combined with had more axes


def _as_strides(shape: Sequence[int]) -> tuple[Sequence[int], list[int]]:
    """Return the shape, and strides that are all different."""
    strides = [2]  # new axes get 1, or the stride and size of a neighbour
    for size in shape[:0:-1]:
        strides.insert(0, strides[0] * (size + 2))
    return shape, strides


def _as_sizes(shape: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return a shape whose sizes are all different, and strides for it."""
    sizes = [_FIRST_SIZE + axis for axis in range(len(shape))]
    return sizes, [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def _asked(
    call: Any,
    args: Any,
    kwargs: Any,
    tensor: Tensor,
    shape: Sequence[int],
    strides: Sequence[int],
) -> Tensor | None:
    """Return what a call makes of a tensor without memory, None if it cannot."""

    def swapped(value: Any) -> Any:
        return stand_in if value is tensor else value

    try:
        stand_in = torch.empty_strided(shape, strides, device="meta")
        with torch.no_grad():
            out = call(
                *map(swapped, args), **{k: swapped(v) for k, v in kwargs.items()}
            )
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return None
    if isinstance(out, (tuple, list)) and out:
        out = out[0]
    return out if isinstance(out, Tensor) else None


def _of_reshape(shape: Sequence[int], axis: int, after: Sequence[int]) -> int | None:
    """Return the axis whose index tells the unit, None if it takes several.

    Numbers stay in their order, so an axis is told by how many numbers lie behind it.
    """
    behind = math.prod(shape[axis + 1 :])
    rest = [math.prod(after[place + 1 :]) for place in range(len(after))]
    places = [
        place
        for place, size in enumerate(after)
        if rest[place] <= behind and size * rest[place] >= shape[axis] * behind
    ]
    if axis > 0:  # units that were merged with examples are no units
        n_examples = math.prod(shape[:axis])
        places = [p for p in places if math.prod(after[:p]) > 1 or n_examples == 1]
    return places[-1] if places else None


def _of_einsum(args: Any) -> int | None:
    """Return the axis that only the weights have."""
    equation, *operands = args
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return None
    inputs, out = equation.replace(" ", "").split("->")
    letters = {True: "", False: ""}
    for part, operand in zip(inputs.split(","), operands, strict=True):
        letters[_is_weights(operand)] += part
    new = [a for a in out if a in letters[True] and a not in letters[False]]
    return out.index(new[0]) if len(new) == 1 else None


def _has_weights_first(operands: Any) -> bool:
    """Return whether a product is W x, with examples as columns."""
    is_pair = len(operands) > 1 and all(isinstance(a, Tensor) for a in operands[:2])
    if not is_pair or operands[1].ndim < 2:
        return False
    return _is_weights(operands[0]) and not _is_weights(operands[1])


def _is_weights(tensor: Any) -> bool:
    return isinstance(tensor, nn.Parameter) or isinstance(
        getattr(tensor, "_base", None), nn.Parameter
    )


def mixes(name: str) -> bool:
    """Return whether a call of this name multiplies what it is given by weights.

    Parameters
    ----------
    name : str
        Name of a function.

    Returns
    -------
    bool
        True for linear maps, convolutions and recurrent layers.
    """
    return _bare(name) in _MIXING


def _bare(name: str) -> str:
    return name.strip("_") if name.endswith("__") else name


def share_memory(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are views of the same numbers.

    Parameters
    ----------
    a, b : Tensor
        Of any kind.

    Returns
    -------
    bool
        False where it cannot be told.
    """
    try:
        return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # a tensor that has no memory
        return False
