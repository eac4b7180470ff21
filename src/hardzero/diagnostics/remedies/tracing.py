"""The chain of layers that the forward method of a model of any class computes.

PyTorch's symbolic tracing runs the method once on a stand-in for its input, and writes
down what happens. Functions become the modules that compute the same in evaluation.
What has no such module is kept as a step that is run but not seen through.
"""

import copy
import operator
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, fx, nn

from hardzero.errors import ParameterError

__all__ = ["Step", "trace_chain"]

_ERRORS: Final = (
    AttributeError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    fx.proxy.TraceError,
)


def trace_chain(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the layers that a model runs, one after the other.

    Parameters
    ----------
    model : Module
        The model, of any class.

    Returns
    -------
    list of tuple
        Names, and the modules themselves or, for functions, ones that do the same.

    Raises
    ------
    ParameterError
        If its forward method cannot be traced, does something else in training than in
        evaluation, or is no chain: some step reads more than what came before it.
    """
    graph, in_training = (_traced(model, mode) for mode in (False, True))
    steps = [(node.op, node.target) for node in graph.nodes]
    if steps != [(node.op, node.target) for node in in_training.nodes]:
        raise ParameterError(
            f"the model is a {type(model).__name__}, which runs other layers in "
            "training than in evaluation. Give the chains of layers within it one by "
            "one."
        )
    layers: list[tuple[str, nn.Module]] = []
    current: Any = None
    sizes: set[Any] = set()  # the number of examples, and what leads to it
    for node in graph.nodes:
        if node.op == "placeholder" and (current is None or not node.users):
            current = node if current is None else current
        elif node.op == "output" and node.args == (current,):
            _refuse_repeated(layers)
            return layers
        elif _is_size(node, current, sizes):
            sizes.add(node)
        elif node.args[:1] == (current,):
            module = _module(model, node, sizes)
            if module is None:
                break
            name = node.target if node.op == "call_module" else node.name
            layers.append((name, module))
            current = node
            if isinstance(module, Step):
                sizes.clear()  # it may put examples together
        else:
            break
    raise ParameterError(
        f"the model is a {type(model).__name__} whose forward method is no chain of "
        f"layers: {node} reads more than what came before it. Give the chains of "
        "layers within the model one by one."
    )


def _traced(model: nn.Module, is_training: bool) -> fx.Graph:
    work = copy.deepcopy(model).train(is_training)
    try:
        return fx.Tracer().trace(work)
    except _ERRORS as error:
        raise ParameterError(
            f"the model is a {type(model).__name__} whose forward method cannot be "
            f"traced ({error}). Give the chains of layers within the model one by one."
        ) from error


def _refuse_repeated(layers: list[tuple[str, nn.Module]]) -> None:
    names = [name for name, module in layers if module.state_dict()]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(
                f"layer {name!r} runs at {names.count(name)} places. A change that "
                "suits one would spoil the others; give each its own layer."
            )


def _is_size(node: fx.Node, current: Any, sizes: set[Any]) -> bool:
    """Return whether a step asks how many examples there are."""
    if node.target == "size":
        return bool(node.args in {(current,), (current, 0)})
    if node.target is getattr:
        return bool(node.args == (current, "shape"))
    is_item = node.target is operator.getitem and node.args[0] in sizes
    return bool(is_item and node.args[1] == 0)


def _module(model: nn.Module, node: fx.Node, sizes: set[Any]) -> nn.Module | None:
    """Return a module that does what a step does; None if it reads anything else."""
    rest, named = node.args[1:], dict(node.kwargs)
    if node.op == "call_module":
        return None if rest or named else model.get_submodule(str(node.target))
    is_view = node.target in {"view", "reshape"} and len(rest) == 2
    if is_view and rest[0] in sizes and rest[1] == -1:
        return nn.Flatten().eval()
    if len(node.all_input_nodes) > 1:
        return None
    named.pop("inplace", None)
    make = _MODULES.get(node.target)
    try:
        module = None if make is None else make(*rest, **named)
    except TypeError:  # an argument that modules do not have
        module = None
    if module is None:
        module = Step(node.op, node.target, rest, dict(node.kwargs))
    return module.eval()


class Step(nn.Module):  # type: ignore[misc]  # PyTorch is not followed
    """A function with all of its arguments but the first.

    Parameters
    ----------
    op : {"call_function", "call_method"}
        What the target is.
    target : callable or str
        The function, or the name of a method of tensors.
    rest : tuple
        The other arguments.
    named : dict
        Those given by name.
    """

    def __init__(self, op: str, target: Any, rest: Any, named: Any) -> None:
        super().__init__()
        self._call = op, target, rest, named

    def forward(self, x: Tensor) -> Any:
        """Call it.

        Parameters
        ----------
        x : Tensor
            The first argument.

        Returns
        -------
        object
            The result.
        """
        op, target, rest, named = self._call
        if op == "call_method":
            return getattr(x, target)(*rest, **named)
        return target(x, *rest, **named)


def _rectifier(*_: Any) -> nn.Module:
    return nn.ReLU()


def _leaky(negative_slope: float = 0.01, *_: Any) -> nn.Module:
    return nn.LeakyReLU(negative_slope)


def _dropout(p: float = 0.5, training: bool = True, *_: Any) -> nn.Module | None:
    return None if training else nn.Dropout(p)


def _flatten(start_dim: int = 0, end_dim: int = -1) -> nn.Module:
    return nn.Flatten(start_dim, end_dim)


def _softmax(kind: Any) -> Callable[..., nn.Module | None]:
    def make(dim: int, *rest: Any, dtype: Any = None, **_: Any) -> nn.Module | None:
        return None if rest or dtype is not None else kind(dim)

    return make


def _max_pool(kind: Any) -> Callable[..., nn.Module | None]:
    def make(*args: Any, **named: Any) -> nn.Module | None:
        return kind(*args, **named) if len(args) <= 4 else None

    return make


_MODULES: Final[dict[Any, Callable[..., nn.Module | None]]] = {
    **dict.fromkeys(
        [F.relu, F.relu_, torch.relu, torch.relu_, "relu", "relu_"], _rectifier
    ),
    **dict.fromkeys([F.leaky_relu, F.leaky_relu_], _leaky),
    **dict.fromkeys([F.relu6], lambda *_: nn.ReLU6()),
    **dict.fromkeys([F.tanh, torch.tanh, "tanh"], nn.Tanh),
    **dict.fromkeys([F.sigmoid, torch.sigmoid, "sigmoid"], nn.Sigmoid),
    **dict.fromkeys([F.softmax, torch.softmax, "softmax"], _softmax(nn.Softmax)),
    **dict.fromkeys(
        [F.log_softmax, torch.log_softmax, "log_softmax"], _softmax(nn.LogSoftmax)
    ),
    **dict.fromkeys([F.dropout, F.dropout1d, F.dropout2d, F.dropout3d], _dropout),
    **dict.fromkeys([torch.flatten, "flatten"], _flatten),
    F.max_pool1d: _max_pool(nn.MaxPool1d),
    F.max_pool2d: _max_pool(nn.MaxPool2d),
    F.max_pool3d: _max_pool(nn.MaxPool3d),
    F.avg_pool1d: nn.AvgPool1d,
    F.avg_pool2d: nn.AvgPool2d,
    F.avg_pool3d: nn.AvgPool3d,
    F.adaptive_avg_pool1d: nn.AdaptiveAvgPool1d,
    F.adaptive_avg_pool2d: nn.AdaptiveAvgPool2d,
    F.adaptive_avg_pool3d: nn.AdaptiveAvgPool3d,
}
