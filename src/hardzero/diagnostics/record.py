"""One pass over data: counts of zeros, sizes of signals and of gradients.

Everything is a running sum on the device of the model, so that memory does not grow
with the data. Of models with more activations than anybody reads about, and of layers
with very many units, evenly spaced ones are counted. The model, its mode, buffers,
gradients and all random states are left as they were.
"""

import contextlib
import math
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from hardzero.diagnostics.axes import mixes
from hardzero.diagnostics.sites import Call, Site, watching_calls
from hardzero.errors import ParameterError

__all__ = [
    "ParameterRecord",
    "Record",
    "UnitRecord",
    "call_model",
    "left_alone",
    "main_output",
    "placed",
    "record",
]

_MOST_CLASSES: Final = 1000
_MOST_SITES: Final = 1024  # beyond, every second one is counted, or every fourth...
_MOST_UNITS: Final = 16_384
_SATURATED: Final = 0.05  # slopes below this share of the largest count as flat

Loss = Callable[[Any, Any], Tensor]


@dataclass
class UnitRecord:
    """Sums over the examples for the units at one site.

    Parameters
    ----------
    site : Site
        The place.
    n_units : int
        Number of units that are counted.
    is_sure : bool
        Whether the axis of units is known.
    maker : str
        Name of the module that made what goes in.
    place : int
        How many activations the model computes before.
    chosen : Tensor or None
        Which units are counted; None for all.
    n_all : int
        Number of units that there are.
    """

    site: Site
    n_units: int
    is_sure: bool
    maker: str = ""
    place: int = 0
    chosen: Any = None
    n_all: int = 0
    n_examples: int = 0
    n_values: int = 0  # of each unit: examples times positions
    fired: Any = 0.0  # for each unit: in how many examples it was above 0
    active: Any = 0.0  # for each unit: how many of its values were not 0
    flat: Any = 0.0  # for each unit of a bounded function: values with a small slope
    input_sum: Any = 0.0  # of pre-activations, for each unit
    input_squares: Any = 0.0
    input_highest: Any = -math.inf
    zero_share: float = 0.0  # sums over examples of the share of zeros, and its square
    zero_share_squared: float = 0.0
    n_silent_examples: int = 0  # in which no unit fired
    gradient_squares: float = 0.0  # of the loss with respect to outputs
    n_gradients: int = 0
    by_class: dict[int, list[float]] = field(default_factory=dict)  # examples, zeros

    @classmethod
    def of(cls, call: Call, place: int) -> "UnitRecord":
        """Begin a record at a site.

        Parameters
        ----------
        call : Call
            The first one there.
        place : int
            How many activations the model computed before.

        Returns
        -------
        UnitRecord
            Without counts.
        """
        n_all = call.after.shape[call.unit_axis]
        n_units, chosen = min(n_all, _MOST_UNITS), None
        if n_units < n_all:
            chosen = torch.arange(n_units, device=call.after.device) * n_all // n_units
        return cls(
            call.site, n_units, call.is_sure, call.maker, place, chosen, int(n_all)
        )

    def add(self, call: Call, n_examples: int, labels: list[int] | None) -> None:
        """Count one call.

        Parameters
        ----------
        call : Call
            What went in and came out.
        n_examples : int
            Number of examples in the batch.
        labels : list of int or None
            Their classes.
        """
        if self.chosen is not None:
            call = replace(
                call,
                after=call.after.index_select(call.unit_axis, self.chosen),
                before=None
                if call.before is None or call.before.shape != call.after.shape
                else call.before.index_select(call.unit_axis, self.chosen),
            )
        after = _by_example(call.after, call.unit_axis, n_examples)
        self.n_examples += after.shape[0]
        self.n_values += after.shape[0] * after.shape[1]
        positive = after != 0 if self.site.kind != "leaky" else after > 0
        fires = positive.any(1)
        self.fired = self.fired + fires.sum(0, dtype=torch.float64)
        self.active = self.active + positive.sum((0, 1), dtype=torch.float64)
        shares = 1 - positive.to(torch.float32).mean((1, 2))
        self.zero_share += float(shares.sum())
        self.zero_share_squared += float(shares.square().sum())
        self.n_silent_examples += int((shares == 1).sum())
        if self.site.kind == "bounded":
            wide = after.to(torch.float32)
            slope = (
                1 - wide.square()
                if "tanh" in self.site.function
                else (4 * wide * (1 - wide))
            )
            self.flat = self.flat + (slope.abs() < _SATURATED).sum(
                (0, 1), dtype=torch.float64
            )
        if call.before is not None and call.before.shape == call.after.shape:
            before = _by_example(call.before, call.unit_axis, n_examples).float()
            self.input_sum = self.input_sum + before.sum((0, 1), dtype=torch.float64)
            self.input_squares = self.input_squares + before.square().sum(
                (0, 1), dtype=torch.float64
            )
            self.input_highest = torch.maximum(
                _as(self.input_highest, before), before.amax((0, 1))
            )
        if labels is not None and len(labels) == after.shape[0]:
            for label, share in zip(labels, shares.tolist(), strict=True):
                counts = self.by_class.setdefault(label, [0.0, 0.0])
                counts[0] += 1
                counts[1] += share

    @property
    def has_inputs(self) -> bool:
        """Whether pre-activations were seen."""
        return isinstance(self.input_sum, Tensor)

    @property
    def never_fired(self) -> Any:
        """For each unit whether it was 0 in all examples."""
        return (self.fired == 0).cpu().numpy()

    @property
    def zeros(self) -> float:
        """Share of exact zeros among all outputs."""
        return 1 - float(self.active.sum()) / max(self.n_values * self.n_units, 1)


@dataclass
class ParameterRecord:
    """What is known of one parameter tensor."""

    name: str
    shape: tuple[int, ...]
    is_finite: bool
    requires_grad: bool
    is_optimised: bool | None  # None without an optimiser
    gradient_squares: float = 0.0
    has_gradient: bool = False


@dataclass
class Record:
    """Everything that one pass collected."""

    sites: dict[str, UnitRecord] = field(default_factory=dict)
    n_sites: int = 0  # those that are not counted, too
    stride: int = 1  # from one that is counted to the next
    parameters: dict[str, ParameterRecord] = field(default_factory=dict)
    n_examples: int = 0
    n_batches: int = 0
    input_sum: Any = None  # of each feature of the data, where it is a matrix
    input_squares: Any = None
    input_lowest: Any = None
    input_highest: Any = None
    losses: list[float] = field(default_factory=list)
    loss_name: str = ""
    labels: dict[int, int] | None = None  # examples of each class
    targets: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])  # n, sum, sq
    target_lowest: float = math.inf
    makers: dict[str, str] = field(default_factory=dict)  # types of modules
    # Of linear maps and normalisations: for each unit bias and norm of the weights.
    incoming: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    # Of linear maps that are trained: how many units equal another, and of how many.
    clones: dict[str, tuple[int, int]] = field(default_factory=dict)
    output_lowest: Any = None
    output_highest: Any = None
    output_site: str | None = None  # the activation that the model ends with
    output_spread: float = 0.0  # largest deviation of an output over examples
    softmaxes: int = 0  # applied one to the outcome of another, or before the loss
    first_bad: tuple[str, str] | None = None  # module and function
    bad_gradient: str | None = None
    bad_input: tuple[int, int] | None = None  # example and feature, from 0 on
    spread: tuple[Any, Any] | None = None  # shapes of outputs and targets that differ
    optimizer: str = ""  # its type
    rates: tuple[float, ...] = ()  # and its learning rates, now
    # Of what reaches the first map: numbers, their squares; what the model does first
    # may change their scale.
    first_inputs: list[float] = field(default_factory=lambda: [0.0, 0.0])


def record(
    model: nn.Module,
    batches: Iterable[tuple[Any, Any]],
    loss: Loss | None = None,
    optimizer: Any = None,
) -> Record:
    """Run a model over data and count.

    Parameters
    ----------
    model : Module
        The model; it runs in evaluation mode.
    batches : iterable of (inputs, targets)
        Inputs are what the model takes: a tensor, or a tuple or dict of them. Targets
        may be None.
    loss : callable, optional
        Takes outputs and targets and returns a scalar; gradients are looked at, too.
    optimizer : Optimizer, optional
        Says which parameters are trained.

    Returns
    -------
    Record
        The sums.
    """
    found = Record()
    if loss is not None:
        found.loss_name = getattr(loss, "__name__", type(loss).__name__)
    optimised = None
    if optimizer is not None:
        found.rates = tuple(float(g.get("lr", 0)) for g in optimizer.param_groups)
        found.optimizer = type(optimizer).__name__
        optimised = {id(p) for group in optimizer.param_groups for p in group["params"]}
    with (
        left_alone(model),  # parametrised weights change buffers when read
        torch.inference_mode(False),
        torch.set_grad_enabled(loss is not None),
        _uncompiled(),
    ):
        for name, parameter in model.named_parameters():
            if nn.parameter.is_lazy(parameter):
                raise ParameterError(
                    f"parameter {name} has no values before the first batch. Run the "
                    "model on one."
                )
            if parameter.is_meta:
                raise ParameterError(
                    f"parameter {name} is on the meta device and holds no numbers. "
                    "Load the model's weights first."
                )
            if loss is not None and parameter.is_inference():
                raise ParameterError(
                    f"parameter {name} was made within torch.inference_mode(), so that "
                    "the loss has no gradients. Make the model outside of it, or leave "
                    "out loss."
                )
            values = parameter.detach()
            found.parameters[name] = ParameterRecord(
                name,
                tuple(values.shape),
                _is_finite(values),
                parameter.requires_grad,
                None if optimised is None else id(parameter) in optimised,
            )
        for name, module in model.named_modules():
            kind = getattr(module, "original_name", type(module).__name__)
            if "Norm" not in kind and hasattr(module, "running_mean"):
                kind = (
                    "BatchNorm"  # in programs from torch.export names of types are lost
                )
            found.makers[name] = kind
            weights, bias = (
                getattr(module, "weight", None),
                getattr(module, "bias", None),
            )
            is_map = "Embedding" not in kind and "Transpose" not in kind
            if is_map and isinstance(weights, Tensor) and _is_learned(weights):
                found.clones[name] = _n_clones(weights, bias), len(weights)
            if any(map(nn.parameter.is_lazy, (weights, bias))):
                continue
            if isinstance(weights, Tensor) and isinstance(bias, Tensor):
                rows = weights.detach().double().cpu()
                if "ConvTranspose" in type(module).__name__:
                    rows = rows.transpose(0, 1)
                norms = rows.reshape(len(rows), -1).norm(dim=1)
                if len(norms) == len(bias):
                    found.incoming[name] = (
                        bias.detach().double().cpu().numpy(),
                        norms.numpy(),
                    )
        for inputs, targets in placed(model, batches):
            _add_batch(found, model, inputs, targets, loss)
    return found


def _uncompiled() -> contextlib.AbstractContextManager[None]:
    """Let compiled parts run as they are written, so that their calls are seen."""
    stance = getattr(torch.compiler, "set_stance", None)  # from PyTorch 2.6 on
    found: contextlib.AbstractContextManager[None]
    found = contextlib.nullcontext() if stance is None else stance("force_eager")
    return found


def placed(
    model: nn.Module, batches: Iterable[tuple[Any, Any]]
) -> Iterator[tuple[Any, Any]]:
    """Yield batches whose tensors are where a model is.

    Parameters
    ----------
    model : Module
        Nothing is moved if its parameters are on several devices.
    batches : iterable of (inputs, targets)
        Of tensors, also nested, or anything else.

    Yields
    ------
    tuple
        The same, on the device of the model, and such that gradients may come through
        tensors that were made in inference mode.
    """
    devices = {p.device for p in model.parameters()}
    device = devices.pop() if len(devices) == 1 else None

    def at(part: Any) -> Any:
        if not isinstance(part, Tensor):
            return part
        part = part if device is None else part.to(device)
        return part.clone() if part.is_inference() else part

    for batch in batches:
        yield tree_map(at, batch)


def _is_finite(values: Tensor) -> bool:
    """Return whether there is no NaN and no infinity; most often a sum tells."""
    total = float(values.sum()) if values.is_floating_point() else math.nan
    return math.isfinite(total) or bool(torch.isfinite(values).all())


def _is_learned(weights: Tensor) -> bool:
    """Return whether it is a matrix that is trained; fixed filters may be equal."""
    return bool(weights.requires_grad) and weights.ndim > 1


def _n_clones(weights: Tensor, bias: Any) -> int:
    """Return how many units have weights, not all 0, and bias of another unit."""
    rows = weights.detach().reshape(len(weights), -1).float()
    is_used = (rows != 0).any(1)
    if isinstance(bias, Tensor) and len(bias) == len(rows):
        rows = torch.cat([rows, bias.detach().float()[:, None]], 1)
    rows = rows[is_used]
    if not len(rows):
        return 0
    counts = torch.unique(rows, dim=0, return_counts=True)[1]
    return int(counts[counts > 1].sum())


def _add_batch(
    found: Record, model: nn.Module, inputs: Any, targets: Any, loss: Loss | None
) -> None:
    axis = _example_axis(model, inputs, targets)
    n = _n_examples(inputs, axis)
    if not n:
        return
    labels = _labels(targets, n)
    _add_inputs(found, inputs, axis)
    _add_targets(found, targets, labels)
    softmaxed: list[Tensor] = []
    made: list[tuple[UnitRecord, Tensor]] = []
    place, skipped = 0, None

    def count(call: Call, place: int) -> None:
        units = found.sites.get(call.site.name)
        if units is None:
            units = found.sites[call.site.name] = UnitRecord.of(call, place)
        if call.after.shape[call.unit_axis] != units.n_all or call.after.is_complex():
            return
        if call.after.layout != torch.strided:
            return
        if call.after.ndim == 1 == len(_shape(inputs)) and n > 1:
            raise ParameterError(
                f"{call.site.name} puts out {tuple(call.after.shape)} for {n} "
                "examples. Give batches whose first axis counts examples."
            )
        with torch.no_grad():
            units.add(call, n, labels)
        made.append((units, call.after))

    def seen(call: Call) -> None:
        if call.site.kind == "softmax":
            if call.before is not None and any(call.before is t for t in softmaxed):
                found.softmaxes += 1
            if call.site.function == "softmax":  # a logarithm before it undoes it
                softmaxed.append(call.after)
            return
        nonlocal place, skipped
        place += 1
        if len(found.sites) >= _MOST_SITES and call.site.name not in found.sites:
            found.stride *= 2
            every = found.stride
            found.sites = {k: u for k, u in found.sites.items() if u.place % every == 0}
        is_last = place == found.n_sites
        skipped = None if is_last or not (place - 1) % found.stride else call
        if skipped is None:
            count(call, place - 1)

    reaching: Tensor | None = main_output(inputs)

    def every(module: str, name: str, result: Tensor) -> None:
        nonlocal reaching
        if reaching is not None:
            if mixes(name):
                _add_first_inputs(found, reaching)
                reaching = None
            elif result.numel() >= n:
                reaching = result
        is_dense = result.layout == torch.strided
        if found.first_bad is None and is_dense and result.is_floating_point():
            # The loss of a mask may well be infinite; the result of a layer may not.
            with torch.no_grad():
                if "mask" not in name and not _is_finite(result):
                    found.first_bad = module, name

    ran = f"the model ran on {_kinds(inputs)}"
    with watching_calls(model, seen, every), _said(ran):
        outputs = call_model(model, inputs)
        main = main_output(outputs)
    if skipped is not None:  # the last one is what the model ends with
        count(skipped, place - 1)
    found.n_sites = max(found.n_sites, place)
    if main is not None:
        _add_outputs(found, main)
        found.output_site = next((u.site.name for u, h in made if h is main), None)
        if any(main is t for t in softmaxed) and _takes_logits(loss):
            found.softmaxes += 1
    found.n_examples += n
    found.n_batches += 1
    if loss is not None:
        given = f"outputs {_kinds(outputs)} and targets {_kinds(targets)}"
        try:
            with _said(f"the loss took {given}"):
                value = loss(outputs, targets)
        except (TypeError, AttributeError) as error:
            if targets is not None:
                raise
            raise ParameterError(
                "loss is given, but data has no targets. Give (X, y), or batches of "
                "(inputs, targets)."
            ) from error
        if not isinstance(value, Tensor) or value.numel() != 1:
            shape = tuple(value.shape) if isinstance(value, Tensor) else None
            raise ParameterError(
                f"loss returns a {type(value).__name__}"
                f"{'' if shape is None else f' of shape {shape}'}, expected a tensor "
                "with one number. Take the mean over examples."
            )
        if main is not None and _are_spread(main, targets):
            found.spread = tuple(main.shape), tuple(targets.shape)
        value = value.reshape(())
        found.losses.append(float(value.detach()))
        outputs = [(units, h) for units, h in made if h.requires_grad]
        _add_gradients(found, model, value, outputs)


def _add_gradients(
    found: Record,
    model: nn.Module,
    value: Tensor,
    outputs_of_sites: list[tuple[UnitRecord, Tensor]],
) -> None:
    named = [(k, p) for k, p in model.named_parameters() if p.requires_grad]
    wanted = [p for _, p in named] + [h for _, h in outputs_of_sites]
    if not value.requires_grad or not wanted:
        return
    gradients = torch.autograd.grad(value, wanted, allow_unused=True)
    for (name, _), gradient in zip(named, gradients, strict=False):
        of_parameter = found.parameters[name]
        if gradient is None:
            continue
        of_parameter.has_gradient = True
        dense = gradient.coalesce().values() if gradient.is_sparse else gradient
        of_parameter.gradient_squares += float(dense.float().square().sum())
        if found.bad_gradient is None and not _is_finite(dense):
            found.bad_gradient = name
    for (units, _), gradient in zip(
        outputs_of_sites, gradients[len(named) :], strict=True
    ):
        if gradient is not None:
            units.gradient_squares += float(gradient.float().square().sum())
            units.n_gradients += gradient.numel()


def _add_inputs(found: Record, inputs: Any, axis: int) -> None:
    x = main_output(inputs)
    if x is None or not x.is_floating_point() or x.ndim < 2:
        return
    rows = x.detach().movedim(axis, 0)
    flat = rows.reshape(len(rows), -1).to(torch.float64)
    if found.bad_input is None:
        bad = (~torch.isfinite(flat)).nonzero()
        if len(bad):
            row, feature = map(int, bad[0])
            found.bad_input = found.n_examples + row, feature
    if found.input_sum is not None and found.input_sum.shape[0] != flat.shape[1]:
        return
    if found.input_sum is None:
        found.input_sum = torch.zeros(flat.shape[1], dtype=torch.float64)
        found.input_squares = torch.zeros(flat.shape[1], dtype=torch.float64)
        found.input_lowest = torch.full_like(found.input_sum, math.inf)
        found.input_highest = torch.full_like(found.input_sum, -math.inf)
    found.input_sum += flat.sum(0).cpu()
    found.input_squares += flat.square().sum(0).cpu()
    found.input_lowest = torch.minimum(found.input_lowest, flat.amin(0).cpu())
    found.input_highest = torch.maximum(found.input_highest, flat.amax(0).cpu())


def _add_first_inputs(found: Record, values: Tensor) -> None:
    if values.is_floating_point() and values.layout == torch.strided:
        found.first_inputs[0] += values.numel()
        found.first_inputs[1] += float(values.detach().double().square().sum())


def _are_spread(outputs: Tensor, targets: Any) -> bool:
    """Return whether each output is compared with more than its own target."""
    is_number = isinstance(targets, Tensor) and targets.is_floating_point()
    if not is_number or outputs.shape == targets.shape:
        return False
    try:
        shape = torch.broadcast_shapes(outputs.shape, targets.shape)
    except RuntimeError:
        return False
    return bool(math.prod(shape) > max(outputs.numel(), targets.numel()))


def _kinds(value: Any) -> str:
    """Return shapes and dtypes of tensors."""
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, Mapping):
        parts = ", ".join(f"{name}: {_kinds(part)}" for name, part in value.items())
        return f"{{{parts}}}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_kinds, value))})"
    return f"a {type(value).__name__}"


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    """Add to an error of the user's code what it was called with."""
    try:
        yield
    except Exception as error:
        error.add_note(f"hardzero.diagnose: {what} when this was raised.")
        raise


def _add_targets(found: Record, targets: Any, labels: list[int] | None) -> None:
    if labels is not None:
        found.labels = found.labels or {}
        for label in labels:
            found.labels[label] = found.labels.get(label, 0) + 1
    elif isinstance(targets, Tensor) and targets.is_floating_point() and len(targets):
        values = targets.detach().double()
        found.targets[0] += values.numel()
        found.targets[1] += float(values.sum())
        found.targets[2] += float(values.square().sum())
        found.target_lowest = min(found.target_lowest, float(values.min()))


def _add_outputs(found: Record, outputs: Tensor) -> None:
    if not outputs.is_floating_point() or not outputs.ndim or outputs.is_sparse:
        return
    flat = outputs.detach().float().reshape(outputs.shape[0], -1)
    low, high = flat.amin(0).cpu(), flat.amax(0).cpu()
    if found.output_lowest is None or found.output_lowest.shape != low.shape:
        found.output_lowest, found.output_highest = low, high
    else:
        found.output_lowest = torch.minimum(found.output_lowest, low)
        found.output_highest = torch.maximum(found.output_highest, high)
    found.output_spread = float((found.output_highest - found.output_lowest).max())


def _by_example(values: Tensor, unit_axis: int, n_examples: int) -> Tensor:
    """Return values as (examples, positions, units).

    Where a model makes fewer rows, or others, of its examples, those rows count.
    """
    values = values.detach().movedim(unit_axis, -1)
    n_units = values.shape[-1]
    if values.ndim > 2 and values.shape[1] == n_examples != values.shape[0]:
        values = values.movedim(1, 0)  # sequences first
    n_rows = values.shape[0] if values.ndim > 1 else 1
    first = n_rows if n_rows % n_examples else n_examples
    return values.reshape(first, -1, n_units)


def _as(value: Any, like: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return torch.full((like.shape[-1],), value, dtype=like.dtype, device=like.device)


def _example_axis(model: nn.Module, inputs: Any, targets: Any) -> int:
    """Return 1 if sequences come first, as in recurrent layers by default."""
    x = main_output(inputs)
    if x is None or x.ndim < 2:
        return 0
    if getattr(model, "batch_first", True) is False:
        return 1 if x.ndim == 3 else 0
    # Inside, a module may turn the axes; then the targets tell.
    is_first = (getattr(m, "batch_first", True) is False for m in model.modules())
    n = len(targets) if isinstance(targets, Tensor) and targets.ndim else None
    return 1 if n == x.shape[1] != x.shape[0] and any(is_first) else 0


def _n_examples(inputs: Any, axis: int) -> int:
    return int((*_shape(inputs), 1)[axis])


def _shape(inputs: Any) -> tuple[int, ...]:
    x = main_output(inputs)
    return () if x is None else tuple(x.shape)


def main_output(outputs: Any) -> Tensor | None:
    """Return the first tensor in what a model takes or gives.

    Parameters
    ----------
    outputs : object
        A tensor, or tuples, mappings and objects with some; logits come first.

    Returns
    -------
    Tensor or None
        None if there is no tensor.
    """
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, Mapping):
        logits = outputs.get("logits")
        items: Iterable[Any] = [logits] if logits is not None else outputs.values()
    elif isinstance(outputs, (tuple, list)):
        items = outputs
    else:
        items = [getattr(outputs, "logits", None)]
    for item in items:
        found = main_output(item) if item is not None else None
        if found is not None:
            return found
    return None


def _labels(targets: Any, n: int) -> list[int] | None:
    if (
        isinstance(targets, Tensor)
        and not targets.is_floating_point()
        and not targets.is_complex()
        and targets.shape == (n,)
    ):
        labels = [int(label) for label in targets.tolist()]
        return labels if len(set(labels)) <= _MOST_CLASSES else None
    return None


def call_model(model: nn.Module, inputs: Any) -> Any:
    """Run a model.

    Parameters
    ----------
    model : Module
        The model.
    inputs : Tensor, tuple or dict
        Its inputs.

    Returns
    -------
    object
        What it puts out.
    """
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, (tuple, list)):
        return model(*inputs)
    return model(inputs)


def _takes_logits(loss: Any) -> bool:
    name = getattr(loss, "__name__", type(loss).__name__).lower().replace("_", "")
    return "crossentropy" in name and not name.startswith("binarycrossentropy")


@contextlib.contextmanager
def left_alone(model: nn.Module) -> Iterator[None]:
    """Run the block in evaluation mode and put everything back.

    Parameters
    ----------
    model : Module
        Its modes, buffers and gradients, and all random states, are as before at the
        end.

    Yields
    ------
    None
        For the block.
    """
    # A frozen module of TorchScript has no mode.
    modes = {m: m.training for m in model.modules() if hasattr(m, "training")}
    buffers = {m: dict(m._buffers.items()) for m in modes}
    values = {
        buffer: buffer.detach().clone()
        for named in buffers.values()
        for buffer in named.values()
        if buffer is not None and not nn.parameter.is_lazy(buffer)
    }
    gradients = {p: p.grad for p in model.parameters()}
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    on_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        # A program from torch.export has its mode for ever.
        with contextlib.suppress(NotImplementedError):
            model.eval()
        with _without_backward_hooks(model):
            yield
    finally:
        for module, was_training in modes.items():
            module.training = was_training
        for module, named in buffers.items():
            if not isinstance(module, torch.jit.ScriptModule):
                module._buffers.clear()
                module._buffers.update(named)
        for buffer, value in values.items():
            if buffer.shape != value.shape:
                buffer.data = value
            elif not torch.equal(buffer, value):
                with torch.no_grad():
                    buffer.copy_(value)
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002
        if on_devices:
            torch.cuda.set_rng_state_all(on_devices)


@contextlib.contextmanager
def _without_backward_hooks(model: nn.Module) -> Iterator[None]:
    """Keep hooks that count or change gradients of a training from running."""
    parameters = {p: p._backward_hooks for p in model.parameters() if p._backward_hooks}
    modules = [m for m in model.modules() if not isinstance(m, torch.jit.ScriptModule)]
    kinds = [(m, m._backward_hooks, m._backward_pre_hooks) for m in modules]
    try:
        for parameter in parameters:
            parameter._backward_hooks = None
        for module in modules:
            module._backward_hooks = OrderedDict()
            module._backward_pre_hooks = OrderedDict()
        yield
    finally:
        for parameter, hooks in parameters.items():
            parameter._backward_hooks = hooks
        for module, after, before in kinds:
            module._backward_hooks, module._backward_pre_hooks = after, before
