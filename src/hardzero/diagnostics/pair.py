"""A generator and a discriminator that are trained against each other.

Each is looked at with the loss that it is trained on: the discriminator on real and
generated rows, the generator through the discriminator. What only the two together show
is told besides: whether generated rows lie on one spot or leave out a part of the data,
whether one side has won, and for how many rows no gradient comes back through the
discriminator.

What lies where the data are is counted by the balls around real rows that reach to the
fifth nearest other one (coverage: Naeem et al. 2020, "Reliable Fidelity and Diversity
Metrics for Generative Models", section 3).
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from hardzero.diagnostics.diagnose import each_batch
from hardzero.diagnostics.finding import Diagnosis, Finding, by_severity
from hardzero.diagnostics.record import Record, left_alone, placed, record
from hardzero.diagnostics.rules import RULES, describe, facts
from hardzero.errors import ParameterError

__all__ = ["diagnose_pair"]

_MOST_ROWS: Final = 1024  # that distances are taken between
_CLOSE: Final = 0.1  # of the distance of real neighbours
_NEIGHBOUR: Final = 5  # how far it is to this one is what counts as near
_HALF: Final = 0.5
_AHEAD, _WON = 0.85, 0.99  # of the rows told rightly
_BLOCKED: Final = 0.1  # of the rows


@dataclass
class _Meeting:
    """What is counted while generated rows pass the discriminator."""

    real: list[Tensor] = field(default_factory=list)
    generated: list[Tensor] = field(default_factory=list)
    n_rows: int = 0  # of each kind
    n_right: int = 0  # of both kinds
    n_generated: int = 0  # that gradients were taken of
    n_blocked: int = 0  # those that get none


def diagnose_pair(
    generator: nn.Module,
    discriminator: nn.Module,
    data: Any,
    loss: Callable[[Any, Any], Tensor] | None = None,
    optimizer: Any = None,
) -> Diagnosis:
    """Say what is wrong with a generator and its discriminator.

    Parameters
    ----------
    generator : Module
        Makes rows of latent vectors.
    discriminator : Module
        Gives each row a number, higher for real ones.
    data : tuple
        Latent vectors and real rows, each in a form that `diagnose` takes.
    loss : callable, optional
        Takes the discriminator's outputs and targets of their shape, 1 for real rows
        and 0 for generated ones. None means ``BCEWithLogitsLoss``.
    optimizer : Optimizer or pair of them, optional
        Tell which parameters are trained.

    Returns
    -------
    Diagnosis
        Findings of both; names of layers begin with "generator" or "discriminator".

    Raises
    ------
    ParameterError
        If data is no such pair, or generated rows have another shape than real ones.
    """
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise ParameterError(
            f"data is a {type(data).__name__}, expected (latent, rows) for a generator "
            "and its discriminator."
        )
    if any(isinstance(part, Iterator) for part in data):
        raise ParameterError(
            "latent vectors or rows are an iterator that ends after one pass. Give a "
            "DataLoader, a list of batches, or a tensor."
        )
    takes = loss or nn.BCEWithLogitsLoss()
    optimizers = _for_each((generator, discriminator), optimizer)
    met = _Meeting()

    def of_discriminator(outputs: Tensor, labels: Tensor) -> Tensor:
        met.n_right += _count_right(outputs, labels, is_logit=_takes_logits(takes))
        shape = -1, *[1] * (outputs.ndim - 1)
        return takes(outputs, labels.to(outputs.dtype).view(shape).expand_as(outputs))

    def of_generator(rows: Tensor, _: Any) -> Tensor:
        outputs = discriminator(rows)
        if rows.requires_grad:
            (gradient,) = torch.autograd.grad(
                outputs.sum(), rows, retain_graph=True, allow_unused=True
            )
            if gradient is None:
                gradient = torch.zeros_like(rows)
            met.n_blocked += int((_flat(gradient) == 0).all(1).sum())
        met.n_generated += len(rows)
        return takes(outputs, torch.ones_like(outputs))

    batches = _both(generator, discriminator, data, met)
    with left_alone(generator), left_alone(discriminator):
        second = record(discriminator, batches, of_discriminator, optimizers[1])
        latent = ((z, None) for z, _ in each_batch(generator, data[0]))
        first = record(
            generator,
            itertools.islice(latent, second.n_batches),
            of_generator,
            optimizers[0],
        )
    if not met.n_rows:
        raise ParameterError("data has no batches. Give at least one example of each.")
    first.loss_name, second.loss_name = "", type(takes).__name__
    places = _Places(
        *(torch.cat(rows)[:_MOST_ROWS] for rows in (met.real, met.generated))
    )
    findings = [
        *_of_one("generator", first),
        *_of_one("discriminator", second),
        *_together(met, places),
    ]
    layers = [
        {**describe(units), "name": f"{role}.{units.site.name}"}
        for role, found in (("generator", first), ("discriminator", second))
        for units in found.sites.values()
    ]
    known = facts(second) | {
        "n_activations": first.n_sites + second.n_sites,
        "generator_loss": facts(first)["loss"],
        "told_rightly": met.n_right / (2 * met.n_rows),
        "blocked_rows": met.n_blocked / met.n_generated,
        "realistic": places.realistic,
        "covered": places.covered,
    }
    return Diagnosis(by_severity(findings), tuple(layers), known)


def _for_each(models: tuple[nn.Module, nn.Module], optimizer: Any) -> list[Any]:
    """Return an optimizer for each model; a single one may be of one of them only."""
    if isinstance(optimizer, (tuple, list)):
        if len(optimizer) != 2:
            raise ParameterError(
                f"optimizer has {len(optimizer)} parts, expected one for the generator "
                "and one for the discriminator."
            )
        return list(optimizer)
    groups = [] if optimizer is None else optimizer.param_groups
    held = {id(p) for group in groups for p in group["params"]}
    return [
        optimizer if any(id(p) in held for p in model.parameters()) else None
        for model in models
    ]


def _both(
    generator: nn.Module, discriminator: nn.Module, data: Any, met: _Meeting
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield real and generated rows, as many of each, and which are real."""
    pairs = zip(
        placed(generator, each_batch(generator, data[0])),
        placed(discriminator, each_batch(discriminator, data[1])),
        strict=False,
    )
    for (latent, _), (real, _) in pairs:
        for part, name in ((latent, "latent vectors"), (real, "rows")):
            if not isinstance(part, Tensor):
                raise ParameterError(
                    f"{name} are batches of {type(part).__name__}, expected tensors. "
                    "Look at a pair that takes more, such as labels, one by one."
                )
        with torch.no_grad():
            generated = generator(latent)
        if generated.shape[1:] != real.shape[1:]:
            raise ParameterError(
                f"the generator makes rows of shape {tuple(generated.shape[1:])}, and "
                f"real ones have {tuple(real.shape[1:])}. Give data=(latent, rows)."
            )
        n = min(len(real), len(generated))
        real, generated = real[:n].to(generated.dtype), generated[:n]
        if met.n_rows < _MOST_ROWS:
            met.real.append(_flat(real).float())
            met.generated.append(_flat(generated).float())
        met.n_rows += n
        labels = torch.arange(2 * n, device=real.device) < n
        yield torch.cat([real, generated]), labels.long()


def _takes_logits(loss: Any) -> bool:
    return "logits" in getattr(loss, "__name__", type(loss).__name__).lower()


def _count_right(outputs: Tensor, labels: Tensor, *, is_logit: bool) -> int:
    """Return how many rows are on their side of the middle."""
    values = _flat(outputs.detach()).mean(1)
    return int(((values > (0.0 if is_logit else 0.5)) == labels.bool()).sum())


def _of_one(role: str, found: Record) -> Iterable[Finding]:
    """Yield the findings about one of the two, with its name."""
    for finding in (finding for rule in RULES for finding in rule(found)):
        if finding.code == "loss-at-entropy":  # where both have learned, it is that
            finding = replace(
                finding,
                severity="note",
                cause="Either the generator is as good as the data, or the "
                "discriminator has learned nothing.",
                remedy="Look at generated rows.",
                not_the_cause=(),
            )
        if finding.code == "dead-units" and finding.severity == "warning":
            # A loss that stays high is the aim here, so that it says nothing of them.
            finding = replace(finding, severity="note")
        yield replace(
            finding,
            where=f"{role}.{finding.where}",
            summary=f"{role.capitalize()}: {finding.summary}",
        )


class _Places:
    """Where generated rows lie, compared with real ones."""

    def __init__(self, real: Tensor, generated: Tensor) -> None:
        self.distance, self.of_real = _to_next(generated), _to_next(real)
        self.realistic = self.covered = 1.0
        if len(real) > _NEIGHBOUR:
            balls = torch.cdist(real, real).kthvalue(_NEIGHBOUR + 1).values[:, None]
            is_near = torch.cdist(real, generated) <= balls
            self.realistic = float(is_near.any(0).float().mean())
            self.covered = float(is_near.any(1).float().mean())


def _together(met: _Meeting, places: _Places) -> Iterator[Finding]:
    """Yield what only the two together show."""
    n = f"{met.n_rows:,} generated and as many real rows"
    right = met.n_right / (2 * met.n_rows)
    blocked = met.n_blocked / met.n_generated
    is_close = met.n_rows > 1 and places.distance < _CLOSE * places.of_real
    if is_close or (places.realistic > _HALF and places.covered < _HALF):
        yield Finding(
            "mode-collapse",
            "serious" if is_close or places.covered < 1 / 3 else "warning",
            "generator",
            "Generated rows lie close together: each has another at a distance of "
            f"{places.distance:.2g}, real ones at {places.of_real:.2g} (medians)."
            if is_close
            else f"{places.realistic:.0%} of the generated rows lie among real ones, "
            f"but only near {places.covered:.0%} of these.",
            (n, f"near: within the distance to the {_NEIGHBOUR}th real neighbour"),
            "The generator makes nearly the same for many latent vectors: it follows "
            "the discriminator to the rows that pass best at the moment.",
            "The discriminator is ahead: lower its learning rate, or use leaky "
            "rectifiers in it."
            if right > _AHEAD
            else "Train the discriminator more often or at a higher rate than the "
            "generator; let it see several rows at once (minibatch discrimination), or "
            "use a loss that measures a distance (Wasserstein with a gradient "
            "penalty).",
            ("training time: it does not spread them by itself",),
            0.8,
        )
    if blocked > _BLOCKED:
        yield Finding(
            "blocked-gradient",
            "serious" if blocked > 0.5 else "warning",
            "discriminator",
            f"{blocked:.0%} of the generated rows get no gradient at all from the "
            "discriminator.",
            (n, "entries that are exactly 0, in all inputs of a row"),
            "All rectifiers on the way are off for these rows, or its output is "
            "saturated: nothing tells the generator where to go.",
            "Use leaky rectifiers in the discriminator, lower its rate, and leave the "
            "sigmoid to the loss (BCEWithLogitsLoss).",
            ("vanishing gradients in the generator: nothing arrives there",),
            0.85,
        )
    if right > _WON and met.n_rows >= 100:
        yield Finding(
            "one-sided-pair",
            "warning",
            "discriminator",
            f"The discriminator tells {right:.1%} of the rows rightly.",
            (n,),
            "It is far ahead: generated rows are nowhere near the data, and what it "
            "says of them hardly depends on what the generator changes.",
            "Train the generator longer or at a higher rate, the discriminator at a "
            "lower one; add noise to its inputs or smooth its labels.",
            (),
            0.7,
        )


def _flat(rows: Tensor) -> Tensor:
    return rows.reshape(len(rows), -1)


def _to_next(rows: Tensor) -> float:
    """Return the median distance of a row to the nearest other one."""
    if len(rows) < 2:
        return 0.0
    distances = torch.cdist(rows, rows).fill_diagonal_(torch.inf)
    return float(distances.amin(1).median())
