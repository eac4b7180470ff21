"""From counts to findings: pure functions of a record, one for each kind of trouble.

Statistics, not thresholds alone: a unit that never fired in n independent examples has
a firing rate below 1 - 0.05^(1/n), about 3/n, at 95 %. Rules say how many examples they
rest on.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hardzero.diagnostics.finding import Finding, Severity
from hardzero.diagnostics.record import Record, UnitRecord

__all__ = ["RULES", "describe", "facts"]

Array = npt.NDArray[Any]

_ENOUGH: Final = 3000  # examples for "dead"; below, a unit was only not seen firing
# Shares of dead units that are a warning, and serious. A sound network of 20 layers has
# 9 % of them at its start, so that fewer are never called a trouble.
_SOME: Final = 0.2
_HALF: Final = 0.5
_NEARLY_ALL: Final = 0.9
_GONE: Final = 0.02  # norm of a unit's weights; initialisations make it 0.5 to 1.5
_LOW: Final = 0.1
_FAINT: Final = 0.03  # spread of pre-activations relative to the norm of weights
_UNBALANCED: Final = 100.0  # between norms of neighbouring layers
_ELEMENTWISE: Final = ("mse", "l1loss", "smoothl1", "huber", "bce", "binarycross")
_SMALL, _LARGE = 1e-4, 1e4  # of signals, relative to those of another layer


def _bad_inputs(found: Record) -> Iterator[Finding]:
    """Find data that hold NaN or infinity, which spoil whatever is trained on them."""
    if found.bad_input is None:
        return
    row, feature = found.bad_input
    yield Finding(
        "non-finite-input",
        "serious",
        "input",
        f"The data hold NaN or infinity: first in example {row}, feature {feature}.",
        (f"{found.n_examples:,} examples",),
        "Values are missing, or were divided by 0 or by a deviation of 0.",
        "Leave out or fill in such examples, then train anew: parameters that they "
        "reached are lost.",
        ("learning rate: no rate makes a step on them finite",),
        0.97,
    )


def _wrong_loss(found: Record) -> Iterator[Finding]:
    """Find outputs that are not what the loss takes."""
    name = found.loss_name.lower().replace("_", "")
    if found.spread is not None and name.startswith(_ELEMENTWISE):
        outputs, targets = found.spread
        yield Finding(
            "wrong-loss",
            "serious",
            "output",
            f"Outputs of shape {outputs} and targets of shape {targets} do not match.",
            (f"{found.n_examples:,} examples",),
            "The loss compares each output with the targets of other examples as well: "
            "PyTorch repeats axes of size 1 until shapes fit. The best that can be "
            "learned is the mean of all targets.",
            "Give targets the shape of outputs: y[:, None], or model(x).squeeze(1).",
            ("learning rate, width: no network can do better",),
            0.97,
        )
    if name.startswith("nll") and found.losses and _mean(found.losses) < 0:
        yield Finding(
            "wrong-loss",
            "serious",
            "output",
            f"The negative log-likelihood is {_mean(found.losses):.4g}, below 0.",
            (f"{found.n_examples:,} examples",),
            "The loss takes logarithms of probabilities, which are at most 0; the "
            "model puts out something else, and can lower the loss without end.",
            "End the model with log_softmax, or give logits to cross-entropy.",
            confidence=0.97,
        )
    site = found.output_site
    if site is None or not name.startswith(("bcewithlogits", "binarycrossentropywith")):
        return
    if "sigmoid" in found.sites[site].site.function:
        yield Finding(
            "sigmoid-twice",
            "serious",
            site,
            "The model ends with a sigmoid, and the loss applies another one.",
            (f"{found.n_examples:,} examples",),
            "The loss takes logits; probabilities as logits stay between 1/2 and 0.73 "
            "behind the second sigmoid.",
            "Leave the sigmoid out of the model in training, or use BCELoss.",
            confidence=0.98,
        )


def _not_finite(found: Record) -> Iterator[Finding]:
    """Find values that are no numbers, and the first operation that made them."""
    bad = [p.name for p in found.parameters.values() if not p.is_finite]
    if bad:
        yield Finding(
            "non-finite-parameter",
            "serious",
            bad[0],
            f"{len(bad)} of {len(found.parameters)} parameters hold NaN or infinity, "
            f"{bad[0]} first.",
            (f"not finite: {', '.join(bad[:5])}",),
            "An update added NaN or infinity: the step before was too large, or its "
            "gradient was not finite.",
            "Go back to a checkpoint before, lower the learning rate or clip "
            "gradients, and watch the first steps.",
            confidence=0.9,
        )
    if found.first_bad is not None and not bad:
        module, function = found.first_bad
        yield Finding(
            "non-finite-value",
            "serious",
            module or "model",
            f"{function} in {module or 'the model'} puts out NaN or infinity though "
            "all parameters are finite.",
            (f"first in {found.n_batches} batches of {found.n_examples:,} examples",),
            f"{function} left the range of its dtype, or was given what it is not "
            "defined for, such as 0/0, log 0, or the root of 0 in the backward pass.",
            "Look at the input of that operation; add a small constant under the root "
            "or in the denominator, or compute it in float32.",
            confidence=0.8,
        )
    if found.bad_gradient is not None and not bad and found.first_bad is None:
        yield Finding(
            "non-finite-gradient",
            "serious",
            found.bad_gradient,
            f"The loss is finite, but the gradient of {found.bad_gradient} is not.",
            (f"mean loss {_mean(found.losses):.4g} over {found.n_batches} batches",),
            "An operation has no finite derivative where it was evaluated, such as the "
            "norm or the root of 0.",
            "Run one batch under torch.autograd.detect_anomaly() for the operation, "
            "and add a small constant inside it.",
            confidence=0.8,
        )


def _loss_not_finite(found: Record) -> Iterator[Finding]:
    """Find a loss that is no number where all else is one."""
    is_sound = all(p.is_finite for p in found.parameters.values())
    if is_sound and found.losses and found.first_bad is None:
        if math.isfinite(_mean(found.losses)):
            return
        largest = _largest_output(found)
        yield Finding(
            "non-finite-loss",
            "serious",
            "output",
            "The loss is NaN or infinite, though outputs and parameters are finite.",
            (f"outputs up to {largest:.3g}, {found.n_examples:,} examples",),
            "Outputs are so large that the loss overflows: training has diverged, or "
            "the loss takes the logarithm of 0.",
            "Start anew with a lower learning rate or clipped gradients; give logits "
            "to a loss that takes them.",
            confidence=0.8,
        )


def _softmax_twice(found: Record) -> Iterator[Finding]:
    """Find a softmax on a softmax, most often one that the loss has in it."""
    if not found.softmaxes:
        return
    yield Finding(
        "softmax-twice",
        "serious",
        "output",
        "The model ends with a softmax, and the loss applies another one.",
        (f"seen in {found.softmaxes} of {found.n_batches} batches",),
        "Cross-entropy takes logits; probabilities as logits keep the loss above "
        "ln(1 + (C - 1)/e) for C classes, whatever the network does.",
        "Leave the softmax out of the model in training; apply it to predictions.",
        not_the_cause=("learning rate: the floor of the loss does not depend on it",),
        confidence=0.98,
    )


def _rectified_output(found: Record) -> Iterator[Finding]:
    """Find a model whose last operation is a rectifier."""
    name = found.output_site
    if name is None or found.sites[name].site.kind != "rectifier":
        return
    units = found.sites[name]
    n, total, _ = found.targets
    has_negative = found.target_lowest < 0
    is_silent = units.zeros == 1
    severity: Severity = "note"
    if found.labels is not None or has_negative or is_silent:
        severity = "serious"
    elif n and units.zeros > _HALF and total > 0:
        severity = "warning"
    yield Finding(
        "rectified-output",
        severity,
        name,
        f"The model ends with a rectifier, and {units.zeros:.0%} of its outputs are "
        "exactly 0.",
        (f"{units.n_examples:,} examples", f"targets below 0: {has_negative}"),
        "An output below 0 is cut off, and no gradient comes back through it: rows "
        "with output 0 teach nothing.",
        "Take the rectifier off the last layer; for positive targets use softplus or "
        "the logarithm of the target.",
        confidence=0.95 if severity == "serious" else 0.6,
    )


def _dead_units(found: Record) -> Iterator[Finding]:
    """Find units of rectifiers that never fire, and tell the likely causes apart."""
    silent: str | None = None  # a layer below, of which nothing comes through
    for units in found.sites.values():
        if units.site.kind != "rectifier" or units.site.name == found.output_site:
            continue
        dead = units.never_fired
        n_dead, share = int(dead.sum()), float(dead.mean())
        if not n_dead or silent is not None:
            continue
        silent = units.site.name if share == 1 else None
        rate = 1 - 0.05 ** (1 / units.n_examples)
        severity = _how_bad(found, units, share)
        cause, remedy, others, confidence = _why_dead(found, units, dead)
        if _all_inputs_are_constant(found):
            severity = "note"  # it says nothing of the units
        if _is_constant(found, units) and units is not next(iter(found.sites.values())):
            severity = "note"
            cause = (
                "What reaches this layer is nearly the same for all examples, so the "
                "sign of a constant decides: a signal that vanished below."
            )
            remedy = "Mend the layers below; see the other findings."
            others, confidence = (), 0.8
        if severity == "note" and others:
            cause = "Few enough to do no harm: sound networks have some as well."
            remedy = "Nothing, or hardzero.remedies.prune_dead to save work."
        word = "dead" if units.n_examples >= _ENOUGH else "not seen firing"
        yield Finding(
            "dead-units",
            severity,
            units.site.name,
            f"{n_dead} of {units.n_units} units of {units.site.name}"
            f"{_sampled(units)} are {word} in {units.n_examples:,} examples.",
            (
                f"firing rate of each below {rate:.2g} (95 %)",
                f"exact zeros {units.zeros:.0%} of the layer",
                *_pre_activations(units, dead),
            ),
            cause,
            remedy,
            others,
            confidence,
        )


def _cloned_units(found: Record) -> Iterator[Finding]:
    """Find units that compute the same, as after a constant initialisation."""
    for name, (n_clones, n_units) in found.clones.items():
        if n_clones < max(2, _HALF * n_units):
            continue
        yield Finding(
            "cloned-units",
            "note" if _has_learned(found) else "warning",
            name or "model",
            f"{n_clones} of {n_units} units of {name or 'the model'} have the weights "
            "and bias of another unit.",
            (f"equal in every bit: {n_clones} of {n_units}",),
            "The weights were set to one constant, or units were copied. Units that "
            "are equal get equal gradients as long as what reads them is equal, too: "
            "they learn as one.",
            "Draw the weights at random, as PyTorch does unless told otherwise.",
            ("learning rate: updates do not make units equal",),
            0.9,
        )


def _constant_units(found: Record) -> Iterator[Finding]:
    """Find units that fire with the same value for all examples: no dead ones."""
    for units in found.sites.values():
        if units.site.kind != "rectifier" or not units.has_inputs:
            continue
        mean, spread = _moments(units)
        constant = (mean > 0) & (spread <= 1e-5 * mean)
        n_constant = int(constant.sum())
        if not n_constant or found.n_examples < 2 or _all_inputs_are_constant(found):
            continue
        kind = found.makers.get(units.maker, "")
        yield Finding(
            "constant-units",
            "warning" if n_constant > _HALF * units.n_units else "note",
            units.site.name,
            f"{n_constant} of {units.n_units} units of {units.site.name}"
            f"{_sampled(units)} put out one value above 0 for all "
            f"{units.n_examples:,} examples.",
            (f"deviation up to {spread[constant].max():.2g}",),
            f"{units.maker} ({kind}) multiplies by 0 or nearly so and adds its bias."
            if "Norm" in kind
            else "Their weights are 0 or nearly so, and their biases are not.",
            "They are biases of the next layer: fold them into it, or let their scale "
            "grow again by a lower penalty.",
            ("dead units: these fire, but carry nothing",),
            0.85,
        )


def _saturation(found: Record) -> Iterator[Finding]:
    """Find bounded units that stay where their slope is next to nothing."""
    for units in found.sites.values():
        if units.site.kind != "bounded" or units.site.name == found.output_site:
            continue
        flat = float(units.flat.sum()) / max(units.n_values * units.n_units, 1)
        if flat < _HALF:
            continue
        scale = _input_scale(found) or 0.0
        is_first = units is next(iter(found.sites.values()))
        yield Finding(
            "saturated-units",
            "serious" if flat > 0.8 else "warning",
            units.site.name,
            f"{flat:.0%} of the outputs of {units.site.name} ({units.site.function}) "
            "lie where the slope is under 5 % of its largest.",
            (f"{units.n_examples:,} examples, {units.n_units} units",),
            f"Inputs are on a scale of {scale:.3g}, and pre-activations with them."
            if is_first and scale > 20
            else "Pre-activations are too large: weights or inputs have a large scale.",
            "Standardise the inputs, lower the scale of the weights (Glorot "
            "initialisation) or the learning rate.",
            confidence=0.7,
        )


def _exploding_signal(found: Record) -> Iterator[Finding]:
    """Find a loss far above that of a constant prediction."""
    constant = _entropy(found)
    if constant is None or not found.losses:
        return
    loss, largest = _mean(found.losses), _largest_output(found)
    if not math.isfinite(loss) or loss < 5 * constant:
        return
    yield Finding(
        "exploding-signal",
        "serious",
        "output",
        f"The loss, {loss:.4g}, is far above that of a constant prediction, "
        f"{constant:.4g}.",
        (f"outputs up to {largest:.3g}, {found.n_examples:,} examples",),
        "Signals grow on their way through the network: weights are too large, "
        "from the start or since training diverged.",
        "Initialise so that the variance is kept (He for rectifiers), or lower the "
        "learning rate.",
        confidence=0.7,
    )


def _untrained(found: Record) -> Iterator[Finding]:
    """Find parameters that no update reaches."""
    parameters = list(found.parameters.values())
    left_out = [
        p.name for p in parameters if p.requires_grad and p.is_optimised is False
    ]
    if left_out:
        yield Finding(
            "not-optimised",
            "serious",
            left_out[0],
            f"{len(left_out)} of {len(parameters)} trainable parameters are not in the "
            f"optimizer, {left_out[0]} first.",
            (f"left out: {', '.join(left_out[:5])}",),
            "The optimizer was made before these parameters were, or from another "
            "model.",
            "Make the optimizer after the model is complete, from model.parameters().",
            confidence=0.97,
        )
    frozen = [p.name for p in parameters if not p.requires_grad]
    if frozen:
        sizes = {p.name: math.prod(p.shape) for p in parameters}
        share = sum(sizes[name] for name in frozen) / max(sum(sizes.values()), 1)
        everything = len(frozen) == len(parameters)
        is_stuck = share > _HALF and not _has_learned(found)
        yield Finding(
            "frozen",
            "serious" if everything or (is_stuck and found.losses) else "note",
            frozen[0],
            f"{len(frozen)} of {len(parameters)} parameters, {share:.0%} of all "
            "numbers, have requires_grad=False.",
            (f"frozen: {', '.join(frozen[:5])}",),
            "They were frozen on purpose, or left so after fine-tuning.",
            "If they should learn, call requires_grad_(True).",
            confidence=0.9,
        )
    if found.losses:
        unreached = [
            p.name for p in parameters if p.requires_grad and not p.has_gradient
        ]
        if unreached:
            yield Finding(
                "no-gradient",
                "warning" if len(unreached) < len(parameters) else "serious",
                unreached[0],
                f"{len(unreached)} of {len(parameters)} parameters get no gradient: "
                "the loss does not depend on them.",
                (f"unreached: {', '.join(unreached[:5])}",),
                "A part of the model is not used, or a detach, an argmax or NumPy cuts "
                "the way back.",
                "Use what should be used; take out detach() and item() on the way to "
                "the loss.",
                confidence=0.8,
            )


def _signals(found: Record) -> Iterator[Finding]:
    """Find gradients that vanish or explode on their way down, without dead units."""
    of_sites = [
        (u, math.sqrt(u.gradient_squares / u.n_gradients))
        for u in found.sites.values()
        if u.n_gradients
    ]
    if len(of_sites) < 3 or any(not math.isfinite(g) for _, g in of_sites):
        return
    (lowest, low), (highest, high) = of_sites[0], of_sites[-1]
    if high == 0 or (low == 0 and any(_is_silent(u) for u in found.sites.values())):
        return  # a layer of which nothing comes through says why
    first, last = lowest.site.name, highest.site.name
    n_steps = highest.place - lowest.place
    factor = (low / high) ** (1 / n_steps) if low > 0 else 0.0
    ratio = low / high
    if _SMALL < ratio < _LARGE or _has_shrunk(found):
        return
    shrinks = ratio <= _SMALL
    yield Finding(
        "vanishing-gradient" if shrinks else "exploding-gradient",
        "serious",
        first,
        f"Gradients {'shrink' if shrinks else 'grow'} by a factor of {factor:.2g} a "
        f"layer from {last} down to {first}.",
        (
            f"root mean square {high:.2g} at {last}, {low:.2g} at {first}",
            f"{found.n_examples:,} examples",
        ),
        *_why_signals(lowest.site.function, shrinks=shrinks),
    )


def _is_silent(units: UnitRecord) -> bool:
    return units.site.kind == "rectifier" and bool(units.never_fired.all())


def _why_signals(function: str, *, shrinks: bool) -> tuple[str, str, Any, float]:
    """Return cause, remedy, what is not the cause, and confidence."""
    if shrinks and "sigmoid" in function:
        return (
            "A sigmoid's slope is at most 1/4, so that each layer takes three quarters "
            "of the gradient or more.",
            "Use rectifiers with He's initialisation, or tanh with Glorot's; normalise "
            "or add residual connections.",
            (),
            0.8,
        )
    name = "Glorot for tanh" if "tanh" in function else "He for rectifiers"
    return (
        f"Weights are too {'small' if shrinks else 'large'} for the depth: each layer "
        "multiplies signals and gradients by the same factor.",
        f"Initialise so that the variance is kept ({name}), normalise, or add residual "
        "connections.",
        (),
        0.8,
    )


def _inputs(found: Record) -> Iterator[Finding]:
    """Find features that are constant, and data on a scale that hurts training."""
    if found.input_sum is None or found.n_examples < 2:
        return
    lowest, highest = found.input_lowest.numpy(), found.input_highest.numpy()
    constant = lowest == highest
    if constant.any():
        yield Finding(
            "inactive-inputs",
            "serious" if constant.all() else "note",
            "input",
            f"{int(constant.sum())} of {len(constant)} input features are the same in "
            f"all {found.n_examples:,} examples.",
            (f"the first: feature {int(np.argmax(constant))}",),
            "They carry nothing here; their weights get no gradient if they are 0.",
            "Leave them out, or give examples in which they differ.",
            confidence=0.9,
        )
    scale = _input_scale(found) or 0.0
    mean, deviation = _input_moments(found)
    far = np.median(np.abs(mean)) > 3 * np.median(deviation)
    if scale > 20 and not _has_learned(found) and not _absorbs_scale(found):
        yield Finding(
            "input-scale",
            "warning",
            "input",
            f"Inputs have a root mean square of {scale:.3g}; initialisations assume "
            "about 1.",
            (
                f"from {lowest.min():.4g} to {highest.max():.4g}, "
                f"{found.n_examples:,} examples",
            ),
            "The features lie far from 0: their mean is "
            f"{np.median(mean):.3g}, their deviation {np.median(deviation):.3g} "
            "(medians)."
            if far
            else "The features are not scaled.",
            "Subtract the mean and divide by the deviation (StandardScaler) before the "
            "model, and train anew.",
            confidence=0.9,
        )


def _stuck_loss(found: Record) -> Iterator[Finding]:
    """Find a loss no better than that of the best constant prediction."""
    entropy = _entropy(found)
    if entropy is None or not found.losses:
        return
    loss = _mean(found.losses)
    if not math.isfinite(loss) or abs(loss - entropy) > 0.03 * entropy:
        return
    is_constant = found.output_spread < 0.05
    yield Finding(
        "loss-at-entropy",
        "warning",
        "output",
        f"The loss, {loss:.4g}, is that of the best constant prediction, "
        f"{entropy:.4g}, whatever the input.",
        (
            f"largest difference of an output over examples {found.output_spread:.2g}",
            f"{found.n_examples:,} examples{_classes(found)}",
        ),
        *_why_stuck(found, is_constant),
    )


def _why_stuck(
    found: Record, is_constant: bool
) -> tuple[str, str, tuple[str, ...], float]:
    """Return cause, remedy, what is not the cause, and confidence."""
    silent = next((u.site.name for u in found.sites.values() if _is_silent(u)), None)
    if silent is not None and is_constant:
        return (
            f"Nothing comes through {silent}, all of whose units are off, so that the "
            "network puts out the same for all.",
            f"Mend {silent} first; see the finding about it.",
            (),
            0.9,
        )
    if _has_shrunk(found):
        sizes = sorted(_layer_sizes(found))
        return (
            "The weights of most layers are next to nothing (median norm of a unit's "
            f"weights {sizes[len(sizes) // 2]:.2g}): a penalty or weight decay took "
            "them, or they were drawn too small.",
            "Lower the penalty or the weight decay by a factor of ten; if there is "
            "none, initialise anew (hardzero.remedies.initialise).",
            ("learning rate: weights that it throws off become large",),
            0.8,
        )
    return (
        "The network has not learned anything from the inputs"
        + (": it puts out the same for all." if is_constant else "."),
        "If training is over: try a single batch first, which any sound network learns "
        "by heart; then look at rate, scale and whether inputs and labels belong "
        "together.",
        (),
        0.7,
    )


def _classes(found: Record) -> str:
    return "" if found.labels is None else f" of {len(found.labels)} classes"


RULES: Final[tuple[Callable[[Record], Iterator[Finding]], ...]] = (
    _bad_inputs,
    _not_finite,
    _loss_not_finite,
    _softmax_twice,
    _wrong_loss,
    _rectified_output,
    _dead_units,
    _cloned_units,
    _constant_units,
    _saturation,
    _exploding_signal,
    _untrained,
    _signals,
    _inputs,
    _stuck_loss,
)
"""In the order in which they speak among findings of one severity."""


def describe(units: UnitRecord) -> dict[str, Any]:
    """Return the row of a table about one site.

    Parameters
    ----------
    units : UnitRecord
        Sums at the site.

    Returns
    -------
    dict
        Fit for JSON.
    """
    n = units.n_examples
    mean = units.zero_share / n
    variance = max(units.zero_share_squared / n - mean**2, 0.0)
    half = 1.96 * math.sqrt(variance / n)
    dead = int(units.never_fired.sum()) if units.site.kind == "rectifier" else None
    return {
        "name": units.site.name,
        "function": units.site.function,
        "units": units.n_all,
        "counted": units.n_units,
        "examples": n,
        "zeros": mean,
        "zeros_low": max(mean - half, 0.0),
        "zeros_high": min(mean + half, 1.0),
        "dead": dead,
        "silent_examples": units.n_silent_examples,
        "axis_is_sure": units.is_sure,
        "zeros_by_class": {
            str(label): zeros / count
            for label, (count, zeros) in sorted(units.by_class.items())
        },
    }


def facts(found: Record) -> dict[str, Any]:
    """Return what is known of data, loss and parameters.

    Parameters
    ----------
    found : Record
        The record.

    Returns
    -------
    dict
        Fit for JSON.
    """
    loss = _mean(found.losses) if found.losses else None
    return {
        "n_activations": found.n_sites,
        "n_examples": found.n_examples,
        "n_batches": found.n_batches,
        "loss": loss if loss is None or math.isfinite(loss) else None,
        "n_parameters": sum(math.prod(p.shape) for p in found.parameters.values()),
        "n_classes": None if found.labels is None else len(found.labels),
    }


def _how_bad(found: Record, units: UnitRecord, share: float) -> Severity:
    """Weigh a share of dead units by whether the network has learned without them."""
    if share == 1:
        return "serious"
    if _has_learned(found):
        return "warning" if share >= _NEARLY_ALL else "note"
    if share >= _HALF:
        return "serious"
    return "warning" if share >= _SOME and units.n_examples >= 100 else "note"


def _largest_output(found: Record) -> float:
    if found.output_highest is None:
        return 0.0
    return float(max(found.output_highest.abs().max(), found.output_lowest.abs().max()))


def _has_learned(found: Record) -> bool:
    """Return whether the loss is known to be well below that of a constant."""
    best = _entropy(found)
    return best is not None and bool(found.losses) and _mean(found.losses) < 0.7 * best


def _absorbs_scale(found: Record) -> bool:
    """Return whether the first layer makes pre-activations of a sound size."""
    first = next(iter(found.sites.values()), None)
    if first is None or not first.has_inputs:
        return False
    mean_square = float(_column(first.input_squares).mean()) / first.n_values
    return mean_square < 100


def _entropy(found: Record) -> float | None:
    """Return the loss of the best constant prediction, if it is known."""
    name = found.loss_name.lower().replace("_", "")
    n, total, squares = found.targets
    if found.labels is not None:
        counts = np.array(list(found.labels.values()), dtype=float)
    elif not n or squares == total * total / n:
        return None
    elif name.startswith(("bce", "binarycrossentropy")) and squares == total:
        counts = np.array([n - total, total])
    elif name.startswith("mse"):
        return squares / n - (total / n) ** 2
    else:
        return None
    if np.count_nonzero(counts) < 2:
        return None
    shares = counts / counts.sum()
    return -float((shares * np.log(shares)).sum())


def _why_dead(
    found: Record, units: UnitRecord, dead: Array
) -> tuple[str, str, tuple[str, ...], float]:
    """Return cause, remedy, what is not the cause, and confidence."""
    bias, weights = _incoming(found, units)
    kind = found.makers.get(units.maker, "")
    if "Norm" in kind:
        return (
            f"{units.maker} ({kind}) shifts them below 0: its bias is too low for its "
            "weight.",
            "Set the bias of these channels to 0, or leave the penalty off "
            "normalisation layers.",
            ("learning rate of the layer before: the normalisation undoes its scale",),
            0.8,
        )
    if bias is None or len(bias) != len(dead) or not units.has_inputs:
        return (
            "Their pre-activations are never above 0; what made them so cannot be seen "
            "from here.",
            "Watch the training to see when they died.",
            (),
            0.3,
        )
    median = float(np.median(weights))
    if not weights[dead].any() and not bias[dead].any():
        return (
            "Their weights and biases are exactly 0: set so at the start, and no "
            "gradient moves them.",
            "Draw the weights at random (hardzero.remedies.initialise).",
            ("learning rate: updates do not make weights exactly 0",),
            0.85,
        )
    if (
        float(np.median(weights[dead])) < 1e-3 * max(1.0, median)
        and bias[dead].max() <= 0
    ):
        return (
            "Their incoming weights have shrunk to almost nothing: a penalty or weight "
            "decay took them.",
            "Lower the penalty; hardzero.remedies.prune_dead takes such units out.",
            ("learning rate: it leaves large weights behind, not small ones",),
            0.75,
        )
    mean = _column(units.input_sum) / max(units.n_values, 1)
    from_inputs = mean[dead] - bias[dead]
    if np.median(bias[dead]) < -np.median(np.abs(from_inputs)):
        return (
            "Their biases are strongly negative (median "
            f"{np.median(bias[dead]):.3g}): set so at the start, or driven there by "
            "updates.",
            "Set these biases to 0, or revive the units (hardzero.remedies.revive); if "
            "they fall again, lower the learning rate.",
            ("input scale: the part of the inputs is smaller than the bias",),
            0.7,
        )
    sizes = _layer_sizes(found)
    # Updates that are too large leave large weights behind, and no small ones.
    if sizes and 0 < min(sizes) < _LOW and max(sizes) > _UNBALANCED * min(sizes):
        return (
            "The scales of the layers are unbalanced: the norm of a unit's weights is "
            f"{min(sizes):.2g} in one layer and {max(sizes):.2g} in another, so a rate "
            "that suits one throws the other off.",
            "Even them out (hardzero.remedies.rebalance, which keeps the function), "
            "then revive the units.",
            (),
            0.6,
        )
    scale = _input_scale(found)
    is_first = units is next(iter(found.sites.values()))
    if scale is not None and scale > 20 and is_first and not _absorbs_scale(found):
        return (
            f"Inputs are on a scale of {scale:.3g}: a step that suits the bias throws "
            "the weights far off.",
            "Standardise the inputs, or hardzero.remedies.rescale_inputs and then "
            "initialise, and train anew.",
            (),
            0.7,
        )
    if _is_modest(found):
        return (
            "Their weights turn every input of the data to below 0: updates threw them "
            "there. The learning rate is not high now "
            f"({max(found.rates):g}, {found.optimizer}): it was higher before, or a "
            "penalty on activations did it.",
            "Lower the penalty on activations, if there is one, or the highest rate of "
            "the schedule; watch the training to see when they died.",
            ("biases: they are smaller than what the weights contribute",),
            0.4,
        )
    return (
        "Their weights turn every input of the data to below 0: updates threw them "
        "there, most often at a learning rate that is too high"
        + (f" (the optimizer's is {max(found.rates):g})." if found.rates else "."),
        "Lower the learning rate, above all in the first steps, and revive the units "
        "(hardzero.remedies.revive).",
        ("biases: they are smaller than what the weights contribute",),
        0.6,
    )


def _incoming(found: Record, units: UnitRecord) -> tuple[Any, Any]:
    """Return biases and norms of the weights of the units, if they are known."""
    bias, norms = found.incoming.get(units.maker, (None, None))
    if bias is None or units.chosen is None or len(bias) != units.n_all:
        return bias, norms
    chosen = units.chosen.cpu().numpy()
    return bias[chosen], norms[chosen]


def _sampled(units: UnitRecord) -> str:
    if units.chosen is None:
        return ""
    return f" ({units.n_units:,} evenly spaced ones of {units.n_all:,} were counted)"


def _is_modest(found: Record) -> bool:
    """Return whether the optimizer is known to take steps of a usual size."""
    usual = 0.1 if "SGD" in found.optimizer else 0.003
    return bool(found.rates) and max(found.rates) <= usual


def _is_constant(found: Record, units: UnitRecord) -> bool:
    """Return whether what the layer below adds to biases hardly differs."""
    if not units.has_inputs:
        return False
    mean, spread = _moments(units)
    if not np.isfinite(spread).all():
        return False
    bias, norms = _incoming(found, units)
    if bias is not None and len(bias) == len(mean):
        if np.median(spread / (norms + 1e-30)) < _FAINT:
            return True
        mean = mean - bias
    return bool(np.median(spread / (np.abs(mean) + 1e-30)) < 0.1)


def _moments(units: UnitRecord) -> tuple[Array, Array]:
    """Return mean and deviation of each unit's pre-activation."""
    mean = _column(units.input_sum) / units.n_values
    mean_square = _column(units.input_squares) / units.n_values
    with np.errstate(invalid="ignore", over="ignore"):
        return mean, np.sqrt(np.maximum(mean_square - mean**2, 0))


def _all_inputs_are_constant(found: Record) -> bool:
    if found.input_lowest is None or found.n_examples < 2:
        return False
    return bool((found.input_lowest == found.input_highest).all())


def _has_shrunk(found: Record) -> bool:
    """Return whether the weights of nearly all layers are next to nothing."""
    sizes = _layer_sizes(found)
    return len(sizes) > 1 and sorted(sizes)[len(sizes) // 2] < _GONE


def _layer_sizes(found: Record) -> list[float]:
    """Return the median norm of a unit's weights, for each linear map."""
    return [
        float(np.median(norms))
        for name, (_, norms) in found.incoming.items()
        if "Norm" not in found.makers.get(name, "")
    ]


def _input_moments(found: Record) -> tuple[Array, Array]:
    """Return mean and deviation of each feature."""
    mean = found.input_sum.numpy() / found.n_examples
    square = found.input_squares.numpy() / found.n_examples
    with np.errstate(invalid="ignore", over="ignore"):
        return mean, np.sqrt(np.maximum(square - mean**2, 0))


def _input_scale(found: Record) -> float | None:
    """Return the root mean square of what reaches the first map."""
    if found.input_squares is None or not found.n_examples:
        return None
    n_values, squares = found.first_inputs
    if n_values:
        return math.sqrt(squares / n_values)
    n_values = found.n_examples * len(found.input_squares)
    return math.sqrt(float(found.input_squares.sum()) / n_values)


def _pre_activations(units: UnitRecord, dead: Array) -> tuple[str, ...]:
    if not units.has_inputs:
        return ()
    highest = _column(units.input_highest)[dead]
    return (f"their largest pre-activation: median {np.median(highest):.3g}",)


def _column(values: Any) -> Array:
    array: Array = values.double().cpu().numpy()
    return array


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
