"""What is wrong with a network: one pass over data, then rules with their reasons."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from hardzero.diagnostics.finding import Diagnosis, by_severity
from hardzero.diagnostics.pytorch import require_pytorch
from hardzero.errors import ParameterError

__all__ = ["diagnose", "each_batch"]

_BATCH: Final = 256


def diagnose(
    model: Any, data: Any, loss: Any = None, optimizer: Any = None
) -> Diagnosis:
    """Say what is wrong with a network, why, and what to do.

    Parameters
    ----------
    model : Module or object
        Any ``torch.nn.Module``, also one of TorchScript; a program from
        ``torch.export``; an ``onnx.ModelProto`` of common operators; or a
        `RectifierStack`, a `StackModel`, a fitted estimator, or scikit-learn's MLPs,
        which become one. It runs in evaluation mode and is left as it was: mode,
        buffers, gradients and random states. A pair (generator, discriminator) of
        modules that are trained against each other is looked at as one.
    data : DataLoader, tuple or array
        Batches, each the model's input or (input, target); or arrays or tensors (X, y)
        or X, of which batches are made. For a pair: (latent vectors, real rows), both
        of such kinds.
    loss : callable, optional
        Takes outputs and targets and returns a scalar, such as
        ``torch.nn.CrossEntropyLoss()``. Gradients are looked at, too. Models that are
        not PyTorch's have their own, which is used if there are targets. That of a pair
        takes the discriminator's outputs and targets 1 (real) and 0 (generated);
        without one it is ``torch.nn.BCEWithLogitsLoss()``.
    optimizer : torch Optimizer, optional
        Tells which parameters are trained; for a pair two of them.

    Returns
    -------
    Diagnosis
        Findings, the most serious first.

    Raises
    ------
    ParameterError
        If PyTorch is not installed, or the model or the data cannot be used.
    """
    torch = require_pytorch("diagnose")
    from hardzero.diagnostics.programs import Graph
    from hardzero.diagnostics.record import record
    from hardzero.diagnostics.rules import RULES, describe, facts

    if loss is not None and not callable(loss):
        raise ParameterError(
            f"loss is {loss!r:.60}, expected a function of outputs and targets, such "
            "as torch.nn.CrossEntropyLoss()."
        )
    if _is_pair(model, torch):
        from hardzero.diagnostics.pair import diagnose_pair

        return diagnose_pair(model[0], model[1], data, loss, optimizer)
    n_rows = _BATCH
    if isinstance(model, torch.nn.Module):
        network = getattr(model, "_orig_mod", model)  # of a compiled one
    elif isinstance(model, torch.export.ExportedProgram):
        network, n_rows = model.module(), _rows_of(model) or _BATCH
        if n_rows != _BATCH:
            _check_multiple(data, n_rows)
    elif hasattr(model, "graph") and hasattr(model, "opset_import"):
        network = Graph(model)
    else:
        network, link, classes, own_loss = _converted(model, torch)
        data = _encoded(data, link, classes)
        loss = loss or (own_loss if _has_targets(data) else None)
    found = record(network, each_batch(network, data, n_rows), loss, optimizer)
    if not found.n_batches:
        raise ParameterError("data has no batches. Give at least one example.")
    findings = [finding for rule in RULES for finding in rule(found)]
    layers = tuple(describe(units) for units in found.sites.values())
    return Diagnosis(by_severity(findings), layers, facts(found))


def _is_pair(model: Any, torch: Any) -> bool:
    is_two = isinstance(model, (tuple, list)) and len(model) == 2
    return is_two and all(isinstance(m, torch.nn.Module) for m in model)


def _converted(model: Any, torch: Any) -> tuple[Any, str, Any, Any]:
    """Return a model of another kind as a module, its link, classes and loss."""
    from hardzero.serving.convert import from_sklearn, to_torch
    from hardzero.serving.model import StackModel
    from hardzero.stack import RectifierStack

    if hasattr(model, "coefs_") and hasattr(model, "intercepts_"):
        model = from_sklearn(model)
    stack = model
    for name in ("stack", "stack_"):
        stack = getattr(model, name, stack)
    if not isinstance(stack, RectifierStack):
        raise ParameterError(
            f"the model is a {type(model).__name__}, expected a torch.nn.Module, a "
            "program from torch.export, an onnx.ModelProto, a RectifierStack, a "
            "StackModel, a fitted estimator or a scikit-learn MLP."
        )
    classes = getattr(model, "classes", getattr(model, "classes_", None))
    loss = {
        "softmax": torch.nn.CrossEntropyLoss(),
        "sigmoid": torch.nn.BCEWithLogitsLoss(),
        "identity": torch.nn.MSELoss(),
        "exp": torch.nn.PoissonNLLLoss(),
    }[stack.output_link]
    # Without the output link: losses of PyTorch take logits.
    network = to_torch(StackModel(RectifierStack(stack.layers)))
    return network, stack.output_link, classes, loss


def _has_targets(data: Any) -> bool:
    return isinstance(data, (tuple, list)) and len(data) == 2 and data[1] is not None


def _encoded(data: Any, link: str, classes: Any) -> Any:
    """Return data whose labels are numbers of classes, and targets a matrix."""
    if not _has_targets(data) or not hasattr(data[1], "shape"):
        return data
    X, y = data
    if hasattr(y, "numpy"):
        y = y.numpy()
    y = np.asarray(y)
    if link != "softmax":
        return X, y.reshape(len(y), -1).astype(np.float64)
    if classes is None:
        return X, y
    order = np.argsort(classes)
    places = np.searchsorted(np.asarray(classes)[order], y)
    codes = order[np.minimum(places, len(order) - 1)]
    unknown = np.asarray(classes)[codes] != y
    if unknown.any():
        raise ParameterError(
            f"label {y[unknown][0]!r} is unknown to the model, whose "
            f"classes are {', '.join(map(str, classes[:10]))}."
        )
    return X, codes


def _rows_of(program: Any) -> int | None:
    """Return how many examples a batch must have, None if that is open."""
    names = program.graph_signature.user_inputs
    inputs = (n for n in program.graph.nodes if n.op == "placeholder")
    shapes = [n.meta["val"].shape for n in inputs if n.name in names]
    n_rows = shapes[0][0] if shapes and len(shapes[0]) else None
    return n_rows if isinstance(n_rows, int) else None


def _check_multiple(data: Any, n_rows: int) -> None:
    X = data[0] if _has_targets(data) else data
    if hasattr(X, "shape") and len(X) % n_rows:
        raise ParameterError(
            f"the program takes batches of {n_rows} examples, and X has {len(X):,}. "
            "Give a multiple of that, or export it with a dynamic first axis."
        )


def each_batch(
    model: Any, data: Any, n_rows: int = _BATCH
) -> Iterator[tuple[Any, Any]]:
    """Go through data of any form that `diagnose` takes.

    Parameters
    ----------
    model : Module
        Its dtype is what real numbers in arrays become.
    data : DataLoader, tuple or array
        Batches of inputs or of (input, target), or (X, y), or X.
    n_rows : int, default=256
        Examples in a batch that is made of arrays.

    Yields
    ------
    tuple
        Inputs and targets; None where there are no targets.

    Raises
    ------
    ParameterError
        If data is anything else.
    """
    import torch

    parameter = next(model.parameters(), None)
    dtype = torch.float32 if parameter is None else parameter.dtype
    tensor = partial(_tensor, torch, dtype)
    is_pair = isinstance(data, (tuple, list)) and len(data) == 2
    if is_pair and hasattr(data[0], "shape"):
        y = np.asarray(data[1]) if _is_numbers(data[1]) else data[1]
        if isinstance(y, np.ndarray) and y.dtype.kind in "ub":
            y = y.astype(np.int64)  # labels
        data = data[0], y
    if is_pair and all(hasattr(part, "shape") or part is None for part in data):
        yield from _slices(
            tensor(data[0]), None if data[1] is None else tensor(data[1]), n_rows
        )
    elif hasattr(data, "shape"):
        yield from _slices(tensor(data), None, n_rows)
    elif isinstance(data, Mapping):
        yield data, data.get("labels")
    elif isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        for batch in data:
            if _is_numbers(batch) or isinstance(batch, (str, bytes)):
                raise ParameterError(
                    "data is a list of numbers, expected a DataLoader, (X, y) or X of "
                    "arrays or tensors. Make an array of it."
                )
            if isinstance(batch, Mapping):
                yield batch, batch.get("labels")
            elif isinstance(batch, (tuple, list)) and len(batch) >= 2:
                *inputs, targets = batch
                yield (inputs[0] if len(inputs) == 1 else tuple(inputs)), targets
            else:
                yield (batch[0] if isinstance(batch, (tuple, list)) else batch), None
    else:
        raise ParameterError(
            f"data is a {type(data).__name__}, expected a DataLoader, (X, y) or X."
        )


def _is_numbers(data: Any) -> bool:
    """Return whether it is a number, or lists of numbers."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (int, float, np.generic)) and not hasattr(data, "dim")


def _slices(X: Any, y: Any, n_rows: int) -> Iterator[tuple[Any, Any]]:
    if y is not None and len(y) != len(X):
        raise ParameterError(
            f"X has {len(X)} rows and y has {len(y)}. Give one target for each."
        )
    for start in range(0, len(X), n_rows):
        part = slice(start, start + n_rows)
        yield X[part], None if y is None else y[part]


def _tensor(torch: Any, dtype: Any, values: Any) -> Any:
    """Return an array as a tensor, real numbers in the model's dtype.

    Whole numbers stay whole, save bytes and truth values, of which images are made.
    """
    if isinstance(values, torch.Tensor):
        return values.to(dtype) if values.is_floating_point() else values
    dense = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    if dense.dtype.kind not in "fiub":
        raise ParameterError(
            f"data has dtype {dense.dtype}, expected numbers. Give text labels as "
            "whole numbers."
        )
    if dense.dtype.kind == "u" and dense.dtype.itemsize > 1:
        dense = dense.astype(np.int64)
    if not dense.dtype.isnative:
        dense = dense.astype(dense.dtype.newbyteorder("="))
    found = torch.from_numpy(np.ascontiguousarray(dense))
    return found if dense.dtype.kind == "i" else found.to(dtype)
