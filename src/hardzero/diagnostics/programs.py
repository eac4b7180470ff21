"""Models that come as programs: TorchScript, torch.export and ONNX."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hardzero.errors import DataError, ParameterError

Array = npt.NDArray[Any]

_OLDEST: Final = 13  # before, softmax and others had another meaning

__all__ = ["Graph", "likelihood", "read_arrays", "read_program"]


def read_program(path: Path) -> Any:
    """Read a model from a file of another library.

    Parameters
    ----------
    path : Path
        What torch.jit.save (.pt, .ts), torch.export.save (.pt2) or an exporter of ONNX
        (.onnx) wrote.

    Returns
    -------
    Module or ExportedProgram
        What `hardzero.diagnose` takes.

    Raises
    ------
    DataError
        If the file is not what its name says.
    ParameterError
        If an ONNX model cannot be converted.
    """
    with path.open("rb"):  # a file that is not there is no damaged one
        pass
    try:
        if path.suffix == ".pt2":
            return torch.export.load(path)
        if path.suffix == ".onnx":
            return Graph(_onnx().load(str(path)))
        return torch.jit.load(str(path), map_location="cpu")
    except ParameterError:
        raise
    except Exception as error:  # noqa: BLE001  # each library has its own
        writer = {".pt2": "torch.export.save", ".onnx": "ONNX"}
        raise DataError(
            f"{path} cannot be read: {str(error).splitlines()[0][:200]!r}. Expected "
            f"what {writer.get(path.suffix, 'torch.jit.save')} wrote; a state_dict or "
            "a pickled module has to be loaded in Python and given to "
            "hardzero.diagnose."
        ) from None


def read_arrays(path: Path) -> tuple[Array, Array | None]:
    """Read rows, and targets if there are any.

    Parameters
    ----------
    path : Path
        A .npy file with X, or a .npz file with X and perhaps y.

    Returns
    -------
    tuple of (ndarray, ndarray or None)
        X and y; whole numbers in y are labels.

    Raises
    ------
    DataError
        If the file is no such file, or has no numbers.
    """
    try:
        found = np.load(path, allow_pickle=False)
        arrays = {"X": found} if isinstance(found, np.ndarray) else dict(found)
    except ValueError as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    if "X" not in arrays:
        raise DataError(
            f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}, expected X, and "
            "y for targets."
        )
    for name in ("X", "y"):
        if name in arrays and arrays[name].dtype.kind not in "fiub":
            raise DataError(
                f"{name} in {path} has dtype {arrays[name].dtype}, expected numbers."
            )
    return arrays["X"], arrays.get("y")


def likelihood(outputs: Any, targets: Tensor) -> Tensor:
    """Return the mean loss of logits, probabilities or numbers.

    Parameters
    ----------
    outputs : Tensor
        What the model puts out; rows of shares that add up to 1 are probabilities.
    targets : Tensor
        Labels, for which outputs are logits or probabilities; or numbers.

    Returns
    -------
    Tensor
        Negative log-likelihood, or the mean square error.
    """
    if targets.is_floating_point():
        return nn.functional.mse_loss(
            outputs, targets.reshape(outputs.shape).to(outputs.dtype)
        )
    sums = outputs.detach().sum(1)
    if bool((outputs >= 0).all()) and torch.allclose(sums, torch.ones_like(sums)):
        tiny = torch.finfo(outputs.dtype).tiny
        return nn.functional.nll_loss(outputs.clamp_min(tiny).log(), targets.long())
    return nn.functional.cross_entropy(outputs, targets.long())


class Graph(nn.Module):  # type: ignore[misc]  # PyTorch is not followed
    """An ONNX model as a module, node by node.

    Parameters
    ----------
    model : onnx.ModelProto
        Of the operators of `OPERATORS`, and with one input.

    Raises
    ------
    ParameterError
        If another operator or setting is in it; all of them are named.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        graph = model.graph
        constants = _constants(graph)
        inputs = [i.name for i in graph.input if i.name not in constants]
        version = next((o.version for o in model.opset_import if not o.domain), 0)
        if version < _OLDEST:
            raise ParameterError(
                f"the ONNX model has opset {version}, expected {_OLDEST} or later. "
                "Convert it with onnx.version_converter."
            )
        used = {".".join(filter(None, [n.domain, n.op_type])) for n in graph.node}
        unknown = used - OPERATORS.keys() - {"Constant"}
        if unknown:
            raise ParameterError(
                f"the ONNX model uses {', '.join(sorted(unknown))}; known are "
                f"{', '.join(sorted(OPERATORS))}. Give the PyTorch model it came from."
            )
        if len(inputs) != 1:
            raise ParameterError(
                f"the ONNX model has {len(inputs)} inputs, expected one."
            )
        self._input, self._outputs = inputs[0], [o.name for o in graph.output]
        self._steps: list[tuple[str, list[str], str]] = []
        for number, node in enumerate(_biased(graph.node, constants)):
            if node.op_type == "Constant":
                continue
            name = (node.name or f"{node.op_type}_{number}").strip("/")
            name = name.replace("/", "_").replace(".", "_")
            while name in self._modules or hasattr(self, name):
                name += "_"
            module, taken = OPERATORS[node.op_type](_Node(node, constants))
            self.add_module(name, module)
            self._steps.append((name, taken, node.output[0]))

    def forward(self, x: Tensor) -> Any:
        """Compute the outputs.

        Parameters
        ----------
        x : Tensor
            The input.

        Returns
        -------
        Tensor or tuple of Tensor
            One for each output of the model.
        """
        values = {self._input: x}
        for name, used, made in self._steps:
            values[made] = self._modules[name](*(values[key] for key in used))
        outputs = tuple(values[name] for name in self._outputs)
        return outputs[0] if len(outputs) == 1 else outputs


class _Node:
    """An operator with its settings and the constants among its inputs."""

    def __init__(self, node: Any, constants: Mapping[str, Any]) -> None:
        onnx = _onnx()
        self.name = f"{node.op_type} {node.name!r}"
        self.inputs = list(node.input)
        self._settings = {
            a.name: onnx.helper.get_attribute_value(a) for a in node.attribute
        }
        self._constants = constants

    def get(self, name: str, otherwise: Any) -> Any:
        value = self._settings.get(name, otherwise)
        return value.decode() if isinstance(value, bytes) else value

    def constant(self, place: int) -> Tensor | None:
        """Return an input that is a constant; None if it is missing or computed."""
        name = self.inputs[place] if place < len(self.inputs) else ""
        return self._constants.get(name)

    def needed(self, place: int) -> Tensor:
        found = self.constant(place)
        if found is None:
            raise self.refusal(f"input {place} is not a constant")
        return found

    def refusal(self, why: str) -> ParameterError:
        return ParameterError(
            f"the ONNX model cannot be converted: in {self.name} {why}. Give the "
            "PyTorch model it came from."
        )


Made = tuple[nn.Module, list[str]]  # a module, and the names of what it takes


def _gemm(node: _Node) -> Made:
    weights = node.needed(1)
    if node.get("transA", 0):
        raise node.refusal("transA is not 0")
    weights = weights if node.get("transB", 0) else weights.T
    bias = node.constant(2)
    if bias is None and len(node.inputs) > 2 and node.inputs[2]:
        raise node.refusal("input 2 is not a constant")
    if bias is not None:
        bias = node.get("beta", 1.0) * bias.expand(1, len(weights))[0]
    return _linear(node.get("alpha", 1.0) * weights, bias), node.inputs[:1]


def _matmul(node: _Node) -> Made:
    weights = node.constant(1)
    if weights is None or weights.ndim != 2:
        return _operation(torch.matmul)(node)
    # A bias that was added behind, moved here by `_biased`.
    return _linear(weights.T, node.constant(2)), node.inputs[:1]


def _linear(weights: Tensor, bias: Tensor | None) -> nn.Module:
    module = nn.Linear(weights.shape[1], weights.shape[0], bias is not None)
    return _with(module, weights, bias)


def _with(module: nn.Module, weights: Tensor, bias: Tensor | None) -> nn.Module:
    module.weight = nn.Parameter(weights.contiguous())
    if bias is not None:
        module.bias = nn.Parameter(bias.contiguous())
    return module


def _convolution(node: _Node) -> Made:
    weights, bias = node.needed(1), node.constant(2)
    n_axes = weights.ndim - 2
    pads = list(node.get("pads", [0] * 2 * n_axes))
    if node.get("auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        raise node.refusal("auto_pad is used")
    if pads[:n_axes] != pads[n_axes:] or not 1 <= n_axes <= 3:
        raise node.refusal(f"pads {pads} differ between the sides")
    groups = node.get("group", 1)
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[n_axes - 1]
    module = kind(
        weights.shape[1] * groups,
        weights.shape[0],
        tuple(weights.shape[2:]),
        stride=tuple(node.get("strides", [1] * n_axes)),
        padding=tuple(pads[:n_axes]),
        dilation=tuple(node.get("dilations", [1] * n_axes)),
        groups=groups,
        bias=bias is not None,
    )
    return _with(module, weights, bias), node.inputs[:1]


class _BatchNorm(nn.modules.batchnorm._BatchNorm):  # type: ignore[misc]
    def _check_input_dim(self, _: Tensor) -> None:
        """Take any number of axes."""


def _batch_norm(node: _Node) -> Made:
    scale, shift, mean, variance = (node.needed(place) for place in range(1, 5))
    module = _with(_BatchNorm(len(scale), eps=node.get("epsilon", 1e-5)), scale, shift)
    module.running_mean, module.running_var = mean.clone(), variance.clone()
    return module, node.inputs[:1]


def _clip(node: _Node) -> Made:
    bounds = [node.constant(1), node.constant(2)]
    low, high = (
        float(node.get(name, default)) if bound is None else float(bound)
        for bound, name, default in zip(
            bounds, ("min", "max"), (-np.inf, np.inf), strict=True
        )
    )
    return _Function(lambda x: torch.clamp(x, low, high)), node.inputs[:1]


def _flatten(node: _Node) -> Made:
    if node.get("axis", 1) != 1:
        raise node.refusal(f"axis is {node.get('axis', 1)}, not 1")
    return nn.Flatten(), node.inputs[:1]


def _reshape(node: _Node) -> Made:
    shape = [int(n) for n in node.needed(1)]

    def reshape(x: Tensor) -> Tensor:
        kept = [x.shape[i] if n == 0 else n for i, n in enumerate(shape)]
        return x.reshape(kept)

    return _Function(reshape), node.inputs[:1]


def _pool(kind: str) -> Callable[[_Node], Made]:
    def make(node: _Node) -> Made:
        kernel = list(node.get("kernel_shape", []))
        n_axes = len(kernel)
        pads = list(node.get("pads", [0] * 2 * n_axes))
        odd = ("auto_pad", "ceil_mode", "dilations", "storage_order")
        plain = {"auto_pad": "NOTSET", "dilations": [1] * n_axes}
        if any(node.get(n, plain.get(n, 0)) != plain.get(n, 0) for n in odd):
            raise node.refusal("auto_pad, ceil_mode or dilations are used")
        if pads[:n_axes] != pads[n_axes:]:
            raise node.refusal(f"pads {pads} differ between the sides")
        module = getattr(nn, f"{kind}Pool{n_axes}d")(
            tuple(kernel),
            tuple(node.get("strides", [1] * n_axes)),
            tuple(pads[:n_axes]),
        )
        if kind == "Avg":
            module.count_include_pad = bool(node.get("count_include_pad", 0))
        return module, node.inputs[:1]

    return make


def _operation(function: Callable[..., Tensor]) -> Callable[[_Node], Made]:
    """Return what makes a module of a function of tensors, constant or not."""

    def make(node: _Node) -> Made:
        fixed = [node.constant(place) for place in range(len(node.inputs))]
        computed = [
            name for name, c in zip(node.inputs, fixed, strict=True) if c is None
        ]
        return _Function(function, fixed), computed

    return make


class _Function(nn.Module):  # type: ignore[misc]
    def __init__(
        self, function: Callable[..., Tensor], fixed: Sequence[Tensor | None] = (None,)
    ) -> None:
        super().__init__()
        self._function = function
        self._fixed = fixed

    def forward(self, *computed: Tensor) -> Tensor:
        given = iter(computed)
        return self._function(*(next(given) if c is None else c for c in self._fixed))


def _module(make: Callable[[_Node], nn.Module]) -> Callable[[_Node], Made]:
    return lambda node: (make(node), node.inputs[:1])


OPERATORS: Final[Mapping[str, Callable[[_Node], Made]]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Conv": _convolution,
    "BatchNormalization": _batch_norm,
    "Relu": _module(lambda _: nn.ReLU()),
    "LeakyRelu": _module(lambda node: nn.LeakyReLU(node.get("alpha", 0.01))),
    "Elu": _module(lambda node: nn.ELU(node.get("alpha", 1.0))),
    "Softplus": _module(lambda _: nn.Softplus()),
    "Sigmoid": _module(lambda _: nn.Sigmoid()),
    "Tanh": _module(lambda _: nn.Tanh()),
    "Softmax": _module(lambda node: nn.Softmax(node.get("axis", -1))),
    "LogSoftmax": _module(lambda node: nn.LogSoftmax(node.get("axis", -1))),
    "Clip": _clip,
    "Identity": _module(lambda _: nn.Identity()),
    "Dropout": _module(lambda _: nn.Identity()),
    "Flatten": _flatten,
    "Reshape": _reshape,
    "MaxPool": _pool("Max"),
    "AveragePool": _pool("Avg"),
    "GlobalAveragePool": _module(
        lambda _: _Function(lambda x: x.mean(tuple(range(2, x.ndim)), keepdim=True))
    ),
    "Add": _operation(torch.add),
    "Sub": _operation(torch.sub),
    "Mul": _operation(torch.mul),
    "Div": _operation(torch.div),
}
"""What each operator becomes."""


def _constants(graph: Any) -> dict[str, Tensor]:
    onnx = _onnx()
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            found[node.output[0]] = node.attribute[0].t
    return {
        name: torch.from_numpy(np.array(onnx.numpy_helper.to_array(tensor)))
        for name, tensor in found.items()
    }


def _biased(nodes: Sequence[Any], constants: Mapping[str, Tensor]) -> Iterator[Any]:
    """Make MatMul and the Add of a constant behind it one node."""
    onnx = _onnx()
    users: dict[str, list[Any]] = {}
    for node in nodes:
        for name in node.input:
            users.setdefault(name, []).append(node)
    done = set()
    for node in nodes:
        if node.output[0] in done:
            continue
        behind = users.get(node.output[0], [])
        is_map = node.op_type == "MatMul" and node.input[1] in constants
        if is_map and len(behind) == 1 and behind[0].op_type == "Add":
            (other,) = [n for n in behind[0].input if n != node.output[0]] or [""]
            shape = constants[node.input[1]].shape
            if other in constants and constants[other].shape == shape[1:]:
                done.add(behind[0].output[0])
                yield onnx.helper.make_node(
                    "MatMul", [*node.input, other], behind[0].output, node.name
                )
                continue
        yield node


def _onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise ParameterError(
            "ONNX models need onnx, which is not installed. Run pip install "
            "'hardzero[onnx]'."
        ) from None
    return onnx
