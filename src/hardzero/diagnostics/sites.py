"""Where a PyTorch model bends its signals, found while it runs.

Rectifiers are modules, functions, methods or clamps, in place or not, and one module
may be used at several places. So nothing is read off the list of modules: a
`TorchFunctionMode` sees each call of PyTorch while the model computes, whatever it was
spelled like, and it keeps fused layers from hiding theirs. Hooks on all modules say in
which one a call happens.

Within TorchScript there are no such calls. There a `TorchDispatchMode` hands the
operators on, and the function mode sees those. It sees those of a program from
torch.export, too. What torch.func maps or transforms has no numbers and is passed over.
In which module they happen is told by the parameters that they use.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from hardzero.diagnostics.axes import Before, UnitAxes, share_memory

__all__ = ["Call", "Kind", "Site", "watching_calls"]

Kind = Literal["rectifier", "leaky", "bounded", "softmax"]

_RECTIFIERS: Final = frozenset({"relu", "relu_", "relu6", "rnn_relu"})
_LEAKY: Final = frozenset(
    [
        "leaky_relu",
        "leaky_relu_",
        "prelu",
        "rrelu",
        "rrelu_",
        "elu",
        "elu_",
        "selu",
        "selu_",
        "celu",
        "celu_",
        "gelu",
        "silu",
        "mish",
        "softplus",
        "hardswish",
    ]
)
_BOUNDED: Final = frozenset(
    ["tanh", "tanh_", "sigmoid", "sigmoid_", "hardsigmoid", "softsign", "rnn_tanh"]
)
_CLAMPS: Final = frozenset(
    ["clamp", "clamp_", "clip", "clip_", "hardtanh", "hardtanh_"]
)
_LOWER_CLAMPS: Final = frozenset(
    {"clamp_min", "clamp_min_", "threshold", "threshold_", "_threshold"}
)
_SOFTMAXES: Final = frozenset({"softmax", "log_softmax", "_softmax", "_log_softmax"})

_NOT_MADE: Final = ("__get", "empty", "new_empty")  # nothing was computed


@dataclass(frozen=True)
class Site:
    """One place in a model where an activation function is applied.

    Parameters
    ----------
    name : str
        Module that does nothing else; or the function and the module that made what it
        is given. With a number if there are several.
    module : str
        Name of that module; empty for the model itself.
    function : str
        Name of the function, such as "relu" or "clamp".
    kind : {"rectifier", "leaky", "bounded", "softmax"}
        Rectifiers put out exact zeros, bounded functions saturate.
    """

    name: str
    module: str
    function: str
    kind: Kind

    @property
    def is_rectifier(self) -> bool:
        """Whether units are off on one side, with an output of 0 or a small slope."""
        return self.kind in ("rectifier", "leaky")


@dataclass(frozen=True)
class Call:
    """One use of a site in a forward pass.

    Parameters
    ----------
    site : Site
        The place.
    before : Tensor or None
        What went in; None where the call had no single input.
    after : Tensor
        What came out.
    unit_axis : int
        Axis that counts units, from 0 on.
    is_sure : bool
        Whether the axis is known from the layer that made the input; otherwise it is
        the last one.
    maker : str
        Name of the module that made what went in.
    """

    site: Site
    before: Tensor | None
    after: Tensor
    unit_axis: int
    is_sure: bool
    maker: str


@contextmanager
def watching_calls(
    model: nn.Module,
    seen: Callable[[Call], None],
    every: Callable[[str, str, Any], None] | None = None,
    *,
    inside: nn.Module | None = None,
) -> Iterator[None]:
    """Report activations while the block runs the model.

    Parameters
    ----------
    model : Module
        The model; it may run any number of times, and from within other code.
    seen : callable
        Is told of each call of an activation function within the model. What was there
        before a call in place is a copy.
    every : callable, optional
        Is told of the result of each call of PyTorch: name of the module, name of the
        function, result.
    inside : Module, optional
        The module within a call of which the block begins and ends.

    Yields
    ------
    None
        Hooks are removed at the end, however it comes.
    """
    names = {module: name for name, module in model.named_modules()}
    scripted = {m for m in names if isinstance(m, torch.jit.ScriptModule)}
    # Hooks of scripted modules are not run; what happens in one counts for the module
    # around it.
    if inside is None and model in scripted:
        inside = model
    stack: list[nn.Module] = [] if inside is None else [inside]
    counts: dict[str, int] = {}

    def enter(module: nn.Module, _: Any) -> None:
        if module is model and not stack:
            counts.clear()
        stack.append(module)

    def leave(module: nn.Module, _: Any, __: Any) -> None:
        while stack and stack.pop() is not module:
            pass

    handles = []
    for module in names.keys() - scripted:
        if module is inside:
            continue  # it was entered, and its own hooks may end the block
        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave, always_call=True))
    mode = _Mode(lambda: names[stack[-1]] if stack else None, counts, seen, every)
    mode.owners = _owners(model)
    mode.composed = {
        name for m, name in names.items() if any(True for _ in m.children())
    }
    try:
        with ExitStack() as modes:
            if scripted:  # and not fused
                modes.enter_context(torch.jit.optimized_execution(False))
            modes.enter_context(mode)
            if scripted:
                modes.enter_context(_Through())
            yield
    finally:
        for handle in handles:
            handle.remove()


def _owners(model: nn.Module) -> dict[int, str]:
    """Return for the memory of each parameter the name of its module."""
    return {
        parameter.untyped_storage().data_ptr(): name.rpartition(".")[0]
        for name, parameter in model.named_parameters()
        if not parameter.is_meta
    }


class _Through(TorchDispatchMode):  # type: ignore[misc]
    """Hand operators on, which is a call that the function mode sees."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class _Mode(TorchFunctionMode):  # type: ignore[misc]  # PyTorch is not followed
    def __init__(
        self,
        current: Callable[[], str | None],
        counts: dict[str, int],
        seen: Callable[[Call], None],
        every: Callable[[str, str, Any], None] | None,
    ) -> None:
        super().__init__()
        self._current = current
        self._counts = counts
        self._seen = seen
        self._every = every
        self.owners: dict[int, str] = {}
        self.composed: set[str] = set()  # modules with others in them
        self._axes = UnitAxes()
        self._makers: Any = WeakTensorKeyDictionary()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        module = self._current()
        if module is None or torch._C._functorch.peek_interpreter_stack() is not None:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "").partition(".")[0]  # not its overload
        kind = None
        if args or kwargs:
            kind = _kind(name, args, kwargs)
        before = args[0] if args and isinstance(args[0], Tensor) else None
        if before is None and isinstance(kwargs.get("input"), Tensor):
            before = kwargs["input"]
        is_in_place = name.endswith("_") or bool(kwargs.get("inplace"))
        known = Before(before, self._axes)
        maker = "" if before is None else self._makers.get(before, "")
        kept = before
        if kind and before is not None and (is_in_place or _has_inplace(func, args)):
            kept = before.detach().clone()
        out = func(*args, **kwargs)
        results = out if isinstance(out, (tuple, list)) else (out,)
        if not results or not isinstance(results[0], Tensor):
            return out
        self._axes.follow(func, name, args, kwargs, known, results)
        result = results[0]
        if kind is None:
            masked = _masked(name, args, result)
            if masked is not None:
                kind, kept = "rectifier", masked
                maker = self._makers.get(masked, "")
        place = module
        if isinstance(func, OpOverload):
            module = self._owner(args) or maker or module
            place = f"{name.strip('_')} after {module}" if module else ""
        elif module in self.composed and maker not in ("", module):
            place = f"{name.strip('_')} after {maker}"
        if kind is not None:
            self._report(module, place or "model", name, kind, kept, result, maker)
        if self._every is not None and not name.startswith(_NOT_MADE):
            self._every(module, name, result)
        is_view = kind is None and before is not None and result is not before
        if is_view and share_memory(result, before):
            module = maker or module  # nothing was computed
        for tensor in filter(torch.is_tensor, results):
            self._makers[tensor] = module
        return out

    def _owner(self, args: Any) -> str | None:
        """Return the module whose parameter is among the arguments."""
        tensors = (a for a in args if isinstance(a, Tensor) and not a.is_meta)
        found = (self.owners.get(a.untyped_storage().data_ptr()) for a in tensors)
        return next(filter(None, found), None)

    def _report(
        self,
        module: str,
        where: str,
        name: str,
        kind: Kind,
        before: Tensor | None,
        out: Tensor,
        maker: str,
    ) -> None:
        number = self._counts.get(where, 0)
        self._counts[where] = number + 1
        label = where if number == 0 else f"{where}#{number + 1}"
        axis = self._axes.get(out)
        if out.ndim == 0:
            return
        site = Site(label, module, name.strip("_"), kind)
        place = out.ndim - 1 if axis is None else axis
        self._seen(Call(site, before, out, place, axis is not None, maker))


def _kind(name: str, args: Any, kwargs: Any) -> Kind | None:
    if name in _RECTIFIERS:
        return "rectifier"
    if name in _LEAKY:
        return "leaky"
    if name in _BOUNDED:
        return "bounded"
    if name in _SOFTMAXES:
        return "softmax"
    if name in _CLAMPS:
        low = kwargs.get(
            "min", kwargs.get("min_val", args[1] if len(args) > 1 else None)
        )
        if name.startswith("hardtanh") and low is None:
            low = -1.0
        if isinstance(low, (int, float)):
            return "rectifier" if low == 0 else "bounded"
    if name in _LOWER_CLAMPS:
        low = kwargs.get(
            "min", kwargs.get("threshold", args[1] if len(args) > 1 else 0)
        )
        return "rectifier" if isinstance(low, (int, float)) and low == 0 else None
    if name in {"maximum", "max"} and len(args) == 2:
        return "rectifier" if any(_is_zero(a) for a in args) else None
    return None


def _is_zero(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value.numel() == 1
        and not value.is_meta
        and (float(value) == 0)
    )


def _has_inplace(func: Any, args: Any) -> bool:
    """Return whether a functional activation was told to work in place."""
    return any(a is True for a in args[1:]) and "relu" in getattr(func, "__name__", "")


def _masked(name: str, args: Any, out: Tensor) -> Tensor | None:
    """Return x for x * (x > 0) and where(x > 0, x, 0), known by what comes out."""
    if name not in {"mul", "__mul__", "__rmul__", "where", "mul_"} or out.ndim < 2:
        return None
    tensors = [a for a in args if isinstance(a, Tensor)]
    masks = [a for a in tensors if a.dtype == torch.bool and a.shape == out.shape]
    values = [
        a
        for a in tensors
        if a.is_floating_point() and a.shape == out.shape and a is not out
    ]
    if len(masks) != 1 or not out.is_floating_point():
        return None
    rectified = (x for x in values if torch.equal(out, x.clamp(min=0)))
    return next(rectified, None)
